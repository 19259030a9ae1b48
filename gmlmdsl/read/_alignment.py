"""Alignments of sequences: .a2m, .a3m, Stockholm and aligned .fasta files.

Sequences that resemble one another have smaller weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from .._diagnostics import fail, is_real_number, listed, unknown
from .._types import ArrayLike
from ..files import as_path
from ._lines import ending_of, lines_of
from ._python_arrays import verify_unmasked
from ._rows import AbstractRows
from .limits import PAIRS_AT_ONCE

Array = np.ndarray
AMINO_ACIDS = "-ACDEFGHIKLMNPQRSTVWY"
GAP = "-"
A3M = ".a3m"
BEGINNINGS = "each sequence begins with `>name`; a Stockholm file begins with `# STOCKHOLM 1.0`"
UNSEEN = "?"  # This letter stands for a missing cell.
POLICIES = ("drop", "missing", "gap")
# These records of an a3m file are predictions and structures (HH-suite), and not sequences.
NOT_SEQUENCES = ("ss_pred", "ss_conf", "ss_dssp", "sa_dssp", "aa_pred", "aa_dssp")
_INSERTIONS = {ord(c): None for c in "abcdefghijklmnopqrstuvwxyz. \t\r\n"}
HEADER = re.compile(r"#\s*STOCKHOLM\s+1\.\d+")
END = "//"
EXAMPLE = "a line has a name and letters, `DYR_ECOLI/1-159  MISLIAALAV`"


@dataclass(frozen=True, repr=False)
class Alignment(AbstractRows):
    """Sequences of equal length; see `read_alignment`.

    Attributes:
        path: the file.
        letters: the character codes of the letters, shape (rows, columns).
        names: the name of each sequence.
        lines: the line of the file on which each sequence begins, from 1.
        labels: the names of the columns. They are residue and place in the focus sequence (`M1`,
            `I2`, ..), or numbers from 0 without a focus sequence.
        focus: the name of the focus sequence; empty without one.
        n_match: the number of match columns of the file.
        dropped: the reasons for which rows and columns were left out, with their numbers.
        tokens: the text that stands for a missing cell, if unknown letters are missing cells.
    """

    path: Path
    letters: Array
    names: tuple[str, ...]
    lines: tuple[int, ...]
    labels: tuple[str, ...]
    focus: str
    n_match: int
    dropped: dict[str, int]
    tokens: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The label of each column."""
        return self.labels

    @property
    def x(self) -> Array:
        """The letters, shape (rows, columns)."""
        return self._x

    @cached_property
    def _x(self) -> Array:
        return np.ascontiguousarray(self.letters).view("S1").astype("U1")

    @property
    def rows(self) -> Array:
        """The line of the file on which each sequence begins, counted from 1; shape (rows,)."""
        return np.array(self.lines, np.int64)

    @property
    def missing(self) -> str | None:
        """The argument `missing=` of `Model.fit` for these rows."""
        return self.tokens[0] if self.tokens else None

    @property
    def missing_counts(self) -> dict[str, int]:
        """The number of missing cells of each column."""
        return dict(zip(self.columns, (self.letters == ord(UNSEEN)).sum(axis=0).tolist(), strict=True))

    @property
    def in_order(self) -> bool:
        return True

    @property
    def words(self) -> str:
        chosen = f"focus `{self.focus}`: {len(self.columns)} of " if self.focus else ""
        dropped = "".join(f"; dropped {n} {why}" for why, n in self.dropped.items() if n)
        return f"{chosen}{self.n_match} match columns{dropped}"

    def texts(self, columns: Sequence[int]) -> Array:
        return self.x[:, list(columns)]

    def place(self, row: int, column: int) -> str:
        return f"{self.path}, line {self.lines[row]}, sequence `{self.names[row]}`, column `{self.columns[column]}`"

    def __len__(self) -> int:
        return len(self.letters)

    def __repr__(self) -> str:
        return f"{self.path}: {len(self)} sequences; {self.words}"


def read_alignment(
    path: str | Path,
    focus: str | bool = True,
    *,
    alphabet: str = AMINO_ACIDS,
    unknown_letters: str = "drop",
    row_gaps: float | None = None,
    column_gaps: float | None = None,
) -> Alignment:
    """Read the match columns of an a2m, a3m, Stockholm or aligned fasta file.

    Upper case letters and `-` are match columns. Lower case letters and `.` are insertions, which
    are left out. In a match column of a Stockholm file `.` is a gap too. With a focus sequence, the
    columns in which it has a gap are left out too, so that every column is one of its residues.

    Args:
        path: the file.
        focus: the name of the focus sequence, with or without its range `/1-159`. True means the
            first sequence; False means none, so that every match column is kept.
        alphabet: the known letters. If it does not contain `-`, a gap is an unknown letter.
        unknown_letters: the treatment of X, B, Z and all other letters outside the alphabet. "drop"
            leaves out the row, "missing" makes the letter a missing cell, and "gap" makes it a gap.
        row_gaps: rows with a larger share of gaps in the kept columns are dropped. None drops none.
        column_gaps: after that, columns with a larger share of gaps in the kept rows are dropped.
            None drops none.

    Returns:
        An `Alignment`. `.x` are letters of shape (rows, columns); `.names` are the names of the
        sequences; `.columns` are labels for `coords=`; `.rows` are lines of the file; `.missing` is
        the argument `missing=`; `.dropped` reports what was left out. The alignment itself may be
        passed as `x` to a model, and to `sequence_weights`.

    Raises:
        GmlmError: E530 for a file that is not an alignment; E531 for a focus sequence that is not
            in the file; E505 if no row or column is left; E520, E523, E119 or E120 for a file that
            is not readable text; E507 for an invalid option.

    Reference: Hopf et al. 2017, Nat. Biotechnol. 35, 128-135 (focus columns and gap filters).
    """
    path = as_path(path)
    _verify_options(alphabet, unknown_letters, row_gaps, column_gaps)
    found = _parse(path)
    if focus is not False:
        found = _on_focus(found, _focus(found, focus))
    return _filtered(_known(found.alignment, alphabet, unknown_letters), row_gaps, column_gaps)


def _verify_options(alphabet: str, policy: str, row_gaps: float | None, column_gaps: float | None) -> None:
    if policy not in POLICIES:
        raise fail("E507", f"unknown_letters must be one of {listed(POLICIES)}, got {policy!r}")
    wrong = re.sub(r"[A-Z-]", "", alphabet)
    if wrong or not alphabet or len(set(alphabet)) < len(alphabet):
        raise fail("E507", f"alphabet must be distinct upper case letters and `-`, got {alphabet!r}")
    if policy == "gap" and GAP not in alphabet:
        raise fail("E507", "unknown letters cannot become gaps: the alphabet has no `-`", help='choose "missing" or "drop"')
    for what, share in (("row_gaps", row_gaps), ("column_gaps", column_gaps)):
        if share is not None and not 0 <= share <= 1:
            raise fail("E507", f"{what} is a share between 0 and 1, got {share}")


@dataclass(frozen=True)
class _Parsed:
    """All match columns, and each sequence as it is written in the file."""

    alignment: Alignment
    raw: tuple[str, ...]


def _parse(path: Path) -> _Parsed:
    names, lines, raw, rows = [], [], [], []
    for line, name, text in _records(path):
        match = text.translate(_INSERTIONS)
        wrong = re.search(r"[^A-Z-]", match)
        where = f"{path}, line {line}, sequence `{name}`"
        if wrong:
            raise fail("E530", f"{where} has the character `{wrong[0]}`", help="sequences have letters, `-` and `.`")
        if rows and len(match) != len(rows[0]):
            message = f"{where} has {len(match)} match columns, the first sequence has {len(rows[0])}"
            raise fail("E530", message, help="upper case letters and `-` are match columns; align the sequences first")
        names.append(name)
        lines.append(line)
        raw.append(text)
        rows.append(match)
    if not rows:
        raise fail("E505", f"{path} has no sequences")
    if not rows[0]:
        help = "upper case letters and `-` are match columns, lower case letters and `.` insertions"
        raise fail("E530", f"{path} has no match columns", help=help)
    letters = np.frombuffer("".join(rows).encode("ascii"), np.uint8).reshape(len(rows), -1)
    columns = tuple(str(k) for k in range(letters.shape[1]))
    whole = Alignment(path, letters, tuple(names), tuple(lines), columns, "", letters.shape[1], {})
    return _Parsed(whole, tuple(raw))


def _records(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the name and the letters of each sequence."""
    numbered = enumerate(lines_of(path), 1)
    for number, line in numbered:
        text = line.strip()
        if begins_stockholm(text):
            yield from stockholm_records(path, chain([(number, text)], numbered))
        elif text.startswith(">"):
            yield from _fasta_records(path, chain([(number, text)], numbered))
        elif text and not (text.startswith("#") and ending_of(path) == A3M):
            looks = "it looks like Clustal: convert it to a2m or fasta" if text.startswith("CLUSTAL") else BEGINNINGS
            raise fail("E530", f"{path}, line {number}: an alignment begins with `>` or `# STOCKHOLM 1.0`", help=looks)


def _fasta_records(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the name and the letters of each sequence after a line `>name`."""
    start, name, parts = 0, "", []
    skipped = NOT_SEQUENCES if ending_of(path) == A3M else ()
    for number, line in lines:
        text = line.strip()
        if text.startswith(">"):
            if start and name not in skipped:
                yield start, name, "".join(parts)
            start, name, parts = number, (text[1:].split() or [""])[0], []
        elif text:
            parts.append(text)
    if name not in skipped:
        yield start, name, "".join(parts)


def _focus(found: _Parsed, focus: str | bool) -> int:
    """Return the row of the focus sequence, by its whole name or by its name without the range."""
    if focus is True:
        return 0
    names = found.alignment.names
    for known in (names, [n.partition("/")[0] for n in names]):
        rows = [k for k, n in enumerate(known) if n == focus]
        if len(rows) > 1:
            shown = ", ".join(f"`{names[k]}` in line {found.alignment.lines[k]}" for k in rows[:4])
            raise fail("E531", f"{found.alignment.path}: {len(rows)} sequences are called `{focus}`: {shown}", help="name one by its range")
        if rows:
            return rows[0]
    raise unknown(f"{found.alignment.path} has no sequence `{focus}`", str(focus), names[:100_000], "E531")


def _on_focus(found: _Parsed, row: int) -> _Parsed:
    """Return the columns in which the focus sequence has a residue, named by residue and place."""
    whole = found.alignment
    letters = whole.letters[row]
    keep = letters != ord(GAP)
    if not keep.any():
        raise fail("E505", f"{whole.path}: the focus sequence `{whole.names[row]}` has nothing but gaps in the match columns")
    span = re.search(r"/(\d{1,9})-\d+$", whole.names[row])
    place = int(span[1]) if span else 1
    columns = []
    for c in found.raw[row]:
        if c.isalpha():
            if c.isupper():
                columns.append(f"{c}{place}")
            place += 1
    alignment = replace(whole, letters=whole.letters[:, keep], labels=tuple(columns), focus=whole.names[row])
    return replace(found, alignment=alignment)


def _known(whole: Alignment, alphabet: str, policy: str) -> Alignment:
    """Return the alignment with letters of the alphabet only.

    Other letters either become gaps or missing cells, or their rows are dropped.
    """
    strange = ~np.isin(whole.letters, np.frombuffer(alphabet.encode("ascii"), np.uint8))
    if policy == "drop":
        good = np.asarray(~strange.any(axis=1))
        words = f"sequences for letters outside `{alphabet}`"
        help = 'pass the letters that it has, as `alphabet="-ACGU"` of RNA; or `unknown_letters="missing"`'
        return _some_rows(whole, good, words, help)
    letters = np.where(strange, np.uint8(ord(UNSEEN if policy == "missing" else GAP)), whole.letters)
    return replace(whole, letters=letters, tokens=(UNSEEN,) if policy == "missing" else ())


def _some_rows(whole: Alignment, good: Array, why: str, help: str) -> Alignment:
    kept = np.flatnonzero(good).tolist()
    if not kept:
        raise fail("E505", f"{whole.path}: no sequence is left: all {len(whole)} were dropped as {why}", help=help)
    names, lines = tuple(whole.names[r] for r in kept), tuple(whole.lines[r] for r in kept)
    dropped = whole.dropped | {why: len(whole) - len(kept)}
    return replace(whole, letters=whole.letters[kept], names=names, lines=lines, dropped=dropped)


def _filtered(whole: Alignment, row_gaps: float | None, column_gaps: float | None) -> Alignment:
    if row_gaps is not None:
        good = np.mean(whole.letters == ord(GAP), axis=1) <= row_gaps
        whole = _some_rows(whole, np.asarray(good), f"sequences with a share of gaps above {row_gaps:g}", "pass a larger `row_gaps=`")
    if column_gaps is not None:
        good = np.asarray(np.mean(whole.letters == ord(GAP), axis=0) <= column_gaps)
        if not good.any():
            raise fail("E505", f"{whole.path}: every column has a share of gaps above {column_gaps:g}")
        columns = tuple(c for c, g in zip(whole.columns, good, strict=True) if g)
        dropped = whole.dropped | {f"columns with a share of gaps above {column_gaps:g}": int((~good).sum())}
        whole = replace(whole, letters=whole.letters[:, good], labels=columns, dropped=dropped)
    return whole


def begins_stockholm(line: str) -> bool:
    """Return whether a first line is that of a Stockholm file, of whatever version."""
    return re.match(r"#\s*STOCKHOLM\b", line) is not None


def stockholm_records(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the name and the letters of each sequence, as an a2m file has them.

    Match columns become upper case letters and `-`, insertions lower case letters and `.`. A column
    is an insertion if its letters are lower case, or if it has `.` alone. In all other columns `.`
    is a gap. Lines that begin with `#` are annotations, which are left out.

    Args:
        path: the file, for messages.
        lines: its lines with their numbers, from the header on.

    Raises:
        GmlmError: E530 for a file of another form, for a second alignment, and for a column that
            has upper and lower case letters.
    """
    names, starts, texts = _sequences(path, lines)
    if not texts:
        return
    for name, start, text in zip(names, starts, texts, strict=True):
        where = f"{path}, line {start}, sequence `{name}`"
        wrong = re.search(r"[^A-Za-z.-]", text)
        if wrong:
            raise fail("E530", f"{where} has the character `{wrong[0]}`", help="sequences have letters, `-` and `.`")
        if len(text) != len(texts[0]):
            message = f"{where} has {len(text)} columns in all blocks, the first sequence has {len(texts[0])}"
            raise fail("E530", message, help="each block has one line for each sequence, all of one length")
    letters = np.frombuffer("".join(texts).encode("ascii"), np.uint8).reshape(len(texts), -1)
    for row, start, name in zip(_as_a2m(path, letters, names, starts), starts, names, strict=True):
        yield start, name, row.tobytes().decode("ascii")


def _sequences(path: Path, lines: Iterable[tuple[int, str]]) -> tuple[list[str], list[int], list[str]]:
    """Return the names of the sequences, the lines on which they begin, and their letters."""
    parts: dict[str, list[str]] = {}
    starts: dict[str, int] = {}
    is_open, ended = False, 0
    for number, line in lines:
        text = line.strip()
        if begins_stockholm(text):
            _verify_header(path, number, text, is_open or bool(ended))
            is_open = True
        elif text == END and not ended:
            ended = number
        elif text and ended:
            message = f"{path}, line {number}: there is text behind the `//` of line {ended}"
            raise fail("E530", message, help="a file has one alignment: write the others into files of their own")
        elif text and not text.startswith("#"):
            words = text.split()
            if len(words) != 2:
                message = f"{path}, line {number}: expected a name and letters, found {len(words)} words"
                raise fail("E530", message, help=EXAMPLE)
            starts.setdefault(words[0], number)
            parts.setdefault(words[0], []).append(words[1])
    if not ended:
        message = f"{path} ends without `//`, the last line of an alignment"
        raise fail("E530", message, help="the file was cut off: get it again, or add the line")
    return list(parts), list(starts.values()), ["".join(p) for p in parts.values()]


def _verify_header(path: Path, number: int, text: str, is_second: bool) -> None:
    if is_second:
        message = f"{path}, line {number}: a second alignment begins"
        raise fail("E530", message, help="a file has one alignment: write each into a file of its own")
    if HEADER.fullmatch(text) is None:
        message = f"{path}, line {number}: expected `# STOCKHOLM 1.0`, found `{text:.40}`"
        raise fail("E530", message, help="version 1 of the format is read")


def _as_a2m(path: Path, letters: np.ndarray, names: list[str], starts: list[int]) -> np.ndarray:
    """Return letters whose match columns have `-` for each gap, and whose insertions have `.`.

    Args:
        path: the file, for messages.
        letters: the character codes, shape (sequences, columns).
        names: the names of the sequences.
        starts: the lines on which they begin.
    """
    is_upper = (letters >= ord("A")) & (letters <= ord("Z"))
    is_lower = (letters >= ord("a")) & (letters <= ord("z"))
    mixed = np.flatnonzero(is_upper.any(axis=0) & is_lower.any(axis=0))
    if mixed.size:
        column = int(mixed[0])
        a, b = (int(np.argmax(found[:, column])) for found in (is_upper, is_lower))
        first, second = (f"`{chr(letters[k, column])}` in line {starts[k]} (sequence `{names[k]}`)" for k in (a, b))
        message = f"{path}: column {column + 1} has {first} and {second}"
        raise fail("E530", message, help="a match column has upper case letters, an insertion lower case ones")
    is_insertion = is_lower.any(axis=0) | (letters == ord(".")).all(axis=0)
    is_gap = (letters == ord(".")) | (letters == ord("-"))
    gaps = np.where(is_insertion, np.uint8(ord(".")), np.uint8(ord("-")))
    return np.where(is_gap, gaps, letters)


def sequence_weights(x: ArrayLike | AbstractRows, identity: float = 0.8) -> Array:
    """Return one over the number of rows that are similar to each row.

    Rows are similar if they agree in at least a share `identity` of the columns; a row is similar
    to itself. The formula is w_r = 1 / #{s : #{i : x_si = x_ri} >= identity * L}. The sum of the
    weights is the effective number of rows.

    Every symbol counts, and so does every column: two gaps agree, and L is the number of columns
    whether they contain gaps or not. A missing cell agrees with another missing cell. This is the
    convention of plmc at `theta = 1 - identity`.

    Args:
        x: rows of codes or letters, shape (rows, columns); rows of strings of one length; or the
            result of `read_alignment`.
        identity: a number between 0 and 1.

    Returns:
        Float64 weights of shape (rows,), each in (0, 1]. The memory is bounded whatever the number
        of rows; the time grows with rows^2 * columns.

    Raises:
        GmlmError: E501 for an array without exactly two axes; E507 for an identity outside 0 and 1;
            E504 for masked entries.

    Reference: Ekeberg et al. 2013, Phys. Rev. E 87, 012707, section II; Hopf et al. 2017, Nat.
    Biotechnol. 35, 128-135.
    """
    if not is_real_number(identity) or not 0 <= identity <= 1:
        raise fail("E507", f"identity is a share between 0 and 1, got {identity!r}")
    codes = _codes(x)
    length, n = codes.shape
    least = int(np.ceil(identity * length - 1e-9))  # In binary, 0.7 * 10 is above 7.
    neighbours = np.zeros(n, np.int64)
    step = max(1, PAIRS_AT_ONCE // max(n, 1))
    for start in range(0, n, step):
        neighbours[start : start + step] = (_agreements(codes, start, step) >= least).sum(axis=1)
    return 1 / neighbours


def _agreements(codes: Array, start: int, step: int) -> Array:
    """Return the number of columns in which each of some rows agrees with every row.

    `codes` has the shape (columns, rows).
    """
    some = codes[:, start : start + step]
    total = np.zeros((some.shape[1], codes.shape[1]), np.int32)
    equal = np.empty(total.shape, bool)
    # Bytes are added 16 or 32 at a time, and each can count up to 255.
    for first in range(0, len(codes), 255):
        part = np.zeros(total.shape, np.uint8)
        for column in range(first, min(first + 255, len(codes))):
            np.equal(some[column][:, None], codes[column][None, :], out=equal)
            part += equal.view(np.uint8)
        total += part
    return total


def _codes(x: ArrayLike | AbstractRows) -> Array:
    """Return symbols as small integers, shape (columns, rows), contiguous by column."""
    verify_unmasked(x, "sequences")
    array = np.asarray(x.x if isinstance(x, AbstractRows) else x)
    if array.dtype.kind == "U" and array.ndim == 1:
        lengths = set(np.char.str_len(array).tolist())
        if len(lengths) > 1:
            raise fail("E501", f"the sequences must have one length, got {min(lengths)} to {max(lengths)}", help="align them first")
        array = np.array([list(text) for text in array.tolist()]).reshape(len(array), -1)
    if array.ndim != 2 or 0 in array.shape:
        raise fail("E501", f"sequences must have shape (rows, columns), got {array.shape}")
    symbols, codes = np.unique(array, return_inverse=True)
    kind = np.uint8 if len(symbols) <= 256 else np.int32
    return np.ascontiguousarray(codes.reshape(array.shape).T.astype(kind))
