"""Parallel text: pairs of sentences from files, their selection, and their division.

The pairs are divided into training, validation and test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

from .._diagnostics import counted, fail, listed
from ..data import generator
from ..files import decoded_line, opened_text, raw_lines, reading
from ..read import read_parquet
from ._kept_stages import file_hash
from ._train_pairs import Pairs
from ._vocabulary import Vocabulary, spaced
from .limits import HELD_OUT_PAIRS, MANY_TOO_LONG, MOST_RATIO, PAIRS_AT_ONCE, SHORT_LENGTH

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


def without_overlap(found: Mapping[str, Pairs]) -> tuple[dict[str, Pairs], int]:
    """Return pairs by name, without training pairs whose source occurs in validation or test.

    Sources are compared up to white space. The second result is the number of removed pairs.

    Raises:
        GmlmError: E505 if no training pair is left.
    """
    held = {spaced(s) for part in ("validation", "test") for s, _ in found.get(part, [])}
    kept = [(s, t) for s, t in found["train"] if spaced(s) not in held]
    if not kept and found["train"]:
        message = f"each of the {len(found['train']):,} pairs to train on has a source of validation or test: none is left"
        raise fail("E505", message, help="give more text, or other text to validate and to score")
    return {**found, "train": kept}, len(found["train"]) - len(kept)


@dataclass(frozen=True)
class Texts:
    """The parallel text of a run.

    Each part is one file with both languages, or two files. `read` holds an empty part out of the training text.

    Attributes:
        train: the files of the training text.
        validation: the files of the validation text.
        test: the files of the test text.
        limit: the number of first pairs of the training text that are used; None uses all.
        test_limit: the number of first pairs of the test text that are used; None uses all.
        reverse: whether source and target are exchanged.
    """

    train: tuple[Path, ...]
    validation: tuple[Path, ...] = ()
    test: tuple[Path, ...] = ()
    limit: int | None = None
    test_limit: int | None = None
    reverse: bool = False

    @cached_property
    def hashes(self) -> list[list[str]]:
        """The hashes of the files."""
        return [[file_hash(p) for p in part] for part in (self.train, self.validation, self.test)]

    def read(self, seed: int) -> dict[str, Pairs]:
        """Return the pairs by name; empty parts are held out of the training text.

        Raises:
            GmlmError: for files that cannot be read or do not fit together; E584 if the pairs are
                too few to hold any out.
        """
        found = {"train": self._pairs(self.train)}
        for name, paths in (("validation", self.validation), ("test", self.test)):
            if paths:
                found[name] = self._pairs(paths)
        missing = [name for name in ("validation", "test") if name not in found]
        if missing:
            every = found["train"]
            count = min(HELD_OUT_PAIRS, max(1, len(every) // 20))
            if len(every) <= count * len(missing):
                message = f"{len(every)} pairs are too few to hold any out for {' and '.join(missing)}"
                raise fail("E584", message, help="give more, or say which: `--validation` and `--test`")
            order = generator(seed).permutation(len(every))
            for k, name in enumerate(missing):
                found[name] = [every[i] for i in sorted(order[k * count : (k + 1) * count])]
            found["train"] = [every[i] for i in sorted(order[len(missing) * count :])]
        return {"train": found["train"][: self.limit], "validation": found["validation"], "test": found["test"][: self.test_limit]}

    def read_given(self) -> dict[str, Pairs]:
        """Return the pairs of the training text and of validation, without holding any out."""
        found = {"train": self._pairs(self.train)[: self.limit]}
        return found | {"validation": self._pairs(self.validation) if self.validation else []}

    def pairs(self) -> Pairs:
        """Return the pairs of the training text alone."""
        return self._pairs(self.train)[: self.limit]

    def _pairs(self, paths: tuple[Path, ...]) -> Pairs:
        if len(paths) not in (1, 2):
            raise fail("E584", f"a parallel text is one file with both languages or two files, and there are {len(paths)}")
        pairs = read_pairs(*paths)
        return [(t, s) for s, t in pairs] if self.reverse else pairs
