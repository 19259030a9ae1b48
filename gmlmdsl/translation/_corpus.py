"""Parallel text: pairs of sentences from files, and the selection of those that are trained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import zip_longest
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

from .._diagnostics import counted, fail, listed
from ..files import decoded_line, opened_text, raw_lines, reading
from ..read import read_parquet
from ._vocabulary import Vocabulary, spaced
from .limits import MANY_TOO_LONG, MOST_RATIO, PAIRS_AT_ONCE, SHORT_LENGTH

KIND = "text has a sentence on each line"
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
Pair = tuple[str, str]


def read_lines(path: str | Path) -> list[str]:
    r"""Return the lines of a text file without their line ends; a `.gz` file is unpacked.

    Only \n and \r\n count as line ends.

    Raises:
        GmlmError: E120 for a file that cannot be read, E523 for a line above the limit, E119 for
            bytes that are not UTF-8 text. The last two name the line.
    """
    return list(_lines(Path(path)))


def read_pairs(source: str | Path, target: str | Path | None = None) -> list[Pair]:
    """Return sentences with their translations, from two files or from one file with both.

    Two files have corresponding lines. One file is one of these:

    - `.tsv`: lines of two columns with a tab between them,
    - `.tmx`: translation memory exchange; the source is the language that its header names,
    - `.parquet`: a table of two columns of text, or of one column that has two parts.

    A text file may be packed (`.gz`). White space in a `.tmx` or `.parquet` file is one space.

    Raises:
        GmlmError: E574 for files of unequal length, lines or tables without two columns, and files
            that are not TMX of two languages; E520, E523 and E561 for `.parquet` files, see
            `read_table`; and the errors of `read_lines`.
    """
    if target is None:
        return _one_file(Path(source))
    ends = object()
    pairs: list[Pair] = []
    n_source = n_target = 0
    for s, t in zip_longest(_lines(Path(source)), _lines(Path(target)), fillvalue=ends):
        n_source, n_target = n_source + (s is not ends), n_target + (t is not ends)
        if n_source == n_target:
            pairs.append((str(s), str(t)))
    if n_source != n_target:
        message = f"{source} has {counted(n_source, 'line')} and {target} has {n_target}: which lines belong together is not known"
        raise fail("E574", message, help="a line of one file is the translation of the same line of the other")
    return pairs


def _one_file(path: Path) -> list[Pair]:
    *_, last = [s.lower() for s in path.suffixes if s.lower() != ".gz"] or [""]
    read = {".tsv": _columns, ".tmx": _units, ".parquet": _table}.get(last)
    if read is None:
        message = f"{path} is one file, and its name does not end with .tsv, .tmx or .parquet"
        raise fail("E574", message, help="give two files, or one file of two columns")
    return read(path)


def _table(path: Path) -> list[Pair]:
    names, rows = read_parquet(path)
    if len(names) != 2:
        message = f"{path} has {counted(len(names), 'column')}, not two: {listed(names)}"
        raise fail("E574", message, help="save the columns of the two languages alone, the source first")
    return [(spaced(s), spaced(t)) for s, t in rows]


def _units(path: Path) -> list[Pair]:
    """Return the pairs of a TMX file with both languages; the first of several variants counts."""
    first, units, found = "", [], {}
    with reading(path), opened_text(path) as file:
        try:
            for _, node in ElementTree.iterparse(file):
                if _name(node) == "header":
                    first = _language(node.get("srclang", ""))
                elif _name(node) == "tu":
                    texts: dict[str, str] = {}
                    for v in node:
                        if _name(v) == "tuv":
                            texts.setdefault(_language(v.get(XML_LANG) or v.get("lang", "")), _segment(v))
                    units.append(texts)
                    found |= dict.fromkeys(texts)
                    node.clear()
        except (ElementTree.ParseError, LookupError, RecursionError) as error:
            raise fail(
                "E574", f"{path} is not a TMX file: {error}", help="TMX is XML of units `<tu>` with a `<tuv>` of each language"
            ) from None
    if len(found) != 2:
        raise fail("E574", f"{path} has {counted(len(found), 'language')}, not two: {listed(list(found))}", help="keep two of them")
    source, target = sorted(found, key=lambda language: language != first)
    return [(u[source], u[target]) for u in units if u.get(source) and u.get(target)]


def _name(node: ElementTree.Element) -> str:
    return node.tag.rpartition("}")[2]


def _language(tag: str) -> str:
    """Return the language of a tag such as `en-GB`."""
    return tag.replace("_", "-").partition("-")[0].lower()


def _segment(variant: ElementTree.Element) -> str:
    """Return the text of a variant, without the codes of other formats inside it."""

    def parts(node: ElementTree.Element) -> Iterator[str]:
        yield node.text or ""
        for child in node:
            yield from parts(child) if _name(child) == "hi" else ()
            yield child.tail or ""

    return spaced("".join("".join(parts(node)) for node in variant if _name(node) == "seg"))


def _columns(path: Path) -> list[Pair]:
    pairs = []
    for number, line in enumerate(_lines(path), 1):
        columns = line.split("\t")
        if len(columns) != 2:
            message = f"{path}, line {number} has {counted(len(columns), 'column')}, not two"
            raise fail("E574", message, help="a sentence, a tab, its translation, on each line")
        pairs.append((columns[0], columns[1]))
    return pairs


def lines_in(file: IO[bytes], name: object) -> Iterator[str]:
    r"""Yield the lines of an opened file without their line ends, which are \n and \r\n only.

    A single \r is white space within a line. The number of lines thus agrees with other tools,
    whose translations may be compared line by line.

    Raises:
        GmlmError: E523 for a line above the limit, E119 for bytes that are not UTF-8 text; both
            name the line.
    """
    for number, raw in enumerate(raw_lines(file, name, KIND), 1):
        yield decoded_line(raw.removesuffix(b"\n").removesuffix(b"\r"), name, number, KIND)


def _lines(path: Path) -> Iterator[str]:
    with reading(path), opened_text(path) as file:
        yield from lines_in(file, path)


@dataclass(frozen=True)
class Counts:
    """The number of pairs that cleaning removed.

    A pair counts under the first reason that applies.

    Attributes:
        pairs: the number of pairs before cleaning.
        empty: pairs with a side without a letter.
        duplicate: pairs that occurred before.
        too_long: pairs with a side that does not fit into its cells.
        ratio: pairs with a side of far more subword tokens than the other side.
    """

    pairs: int = 0
    empty: int = 0
    duplicate: int = 0
    too_long: int = 0
    ratio: int = 0

    @property
    def kept(self) -> int:
        """The number of remaining pairs."""
        return self.pairs - self.empty - self.duplicate - self.too_long - self.ratio

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name, including `kept`."""
        return asdict(self) | {"kept": self.kept}

    def advice(self, cells: tuple[int, int]) -> str:
        """Return advice about pairs that are too long, or an empty text if they are few."""
        if self.too_long <= MANY_TOO_LONG * self.pairs:
            return ""
        rows = f"the {cells[0] - 1} pieces of a source or the {cells[1] - 1} of a target, beside the end mark"
        return f"{self.too_long:,} pairs are longer than {rows}: longer index ranges in the program, or a larger vocabulary, take them"

    def __str__(self) -> str:
        names = [f.name for f in fields(self)] + ["kept"]
        share = max(self.pairs, 1)
        counts = [self.as_dict()[n] for n in names]
        return "\n".join(f"{n.replace('_', ' '):<10}{c:>12,}{100 * c / share:>8.1f} %" for n, c in zip(names, counts, strict=True))


def clean(
    pairs: Sequence[Pair], vocabulary: Vocabulary, cells: tuple[int, int], ratio: float = MOST_RATIO, *, what: str = "text"
) -> tuple[list[Pair], Counts]:
    """Return the pairs to train on, unchanged and in their order.

    Args:
        pairs: sentences with their translations.
        vocabulary: the vocabulary that splits sentences into subword tokens.
        cells: the number of cells of a source row and of a target row; the end mark takes one cell.
        ratio: the largest ratio of subword tokens of the longer side to the shorter side. Pairs
            above it are removed if the longer side has more than 10 subword tokens.
        what: the name of the text in messages, for example `validation text`.

    Returns:
        The pairs, and the numbers of removed pairs.

    Raises:
        GmlmError: E505 if no pair is left, E507 for a ratio below 1.
    """
    if not ratio >= 1:
        raise fail("E507", f"ratio is pieces of the longer side for each of the shorter one, at least 1; got {ratio!r}")
    found = dict.fromkeys((f.name for f in fields(Counts)), 0) | {"pairs": len(pairs)}
    kept: list[Pair] = []
    seen: set[Pair] = set()
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        some = pairs[start : start + PAIRS_AT_ONCE]
        sources, targets = (vocabulary.encode([pair[side] for pair in some]) for side in (0, 1))
        for pair, source, target in zip(some, sources, targets, strict=True):
            reason = _reason(pair, (len(source), len(target)), seen, cells, ratio)
            seen.add(pair)
            if reason is None:
                kept.append(pair)
            else:
                found[reason] += 1
    counts = Counts(**found)
    if not kept:
        raise fail(
            "E505",
            f"no pair of the {what} is left after cleaning:\n{counts}",
            help="are the files text, and their lines in the same order?",
        )
    return kept, counts


def _reason(pair: Pair, lengths: tuple[int, int], seen: set[Pair], cells: tuple[int, int], ratio: float) -> str | None:
    """Return why a pair is removed, or None if it stays.

    The lengths include the end mark.
    """
    if min(lengths) < 2:
        return "empty"
    if pair in seen:
        return "duplicate"
    if lengths[0] > cells[0] or lengths[1] > cells[1]:
        return "too_long"
    shorter, longer = sorted(lengths)
    return "ratio" if longer - 1 > SHORT_LENGTH and longer - 1 > ratio * (shorter - 1) else None
