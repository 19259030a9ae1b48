"""Reader and writer of adabmDCA's text of parameters: `J i j a b value` and `h i a value`.

log p is the sum of h and J, up to log Z. Sites count from 0. Values are letters, or numbers from 0.
Couplings that do not stand in the file are 0. Lines that begin with `#` are comments.

Reference: Muntoni et al. 2021; Rosset et al. 2025.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .._diagnostics import GmlmError, Source, Span, fail
from ._names import short_number
from ._potts import AMINO_ACIDS, PottsModel
from .limits import MOST_COUPLINGS, MOST_NOTED, MOST_SITES, MOST_STATES

Array = np.ndarray
FIRST = re.compile(rb"(?:\s|#[^\n]*\n)*(?:J \d+ \d+ \S+ \S+|h \d+ \S+) ")
SITE = re.compile(r"\d{1,9}", re.ASCII)
REAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
FORM = "lines are `J i j a b value` and `h i a value`, with sites from 0"
LENGTHS = {"J": 6, "h": 4}


def looks_like_adabm(start: bytes) -> bool:
    """Return whether a text begins with a coupling or a field."""
    return FIRST.match(start) is not None


@dataclass
class _Rows:
    """The lines of a kind, in the order of the file.

    Attributes:
        sites: the sites, one or two for each line.
        symbols: the numbers of the values, one or two for each line; see `_Found.symbols`.
        numbers: the parameter of each line.
        starts: the character at which each line begins.
    """

    sites: list[int] = field(default_factory=list)
    symbols: list[int] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


class _Found:
    """All lines of a text.

    Args:
        source: the text.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.rows = {"h": _Rows(), "J": _Rows()}
        self.symbols: dict[str, int] = {}  # the distinct values as text, numbered as they come
        start = 0
        for line in source.text.split("\n"):
            words = line.split()
            if words and not words[0].startswith("#"):
                self._add(words, start)
            start += len(line) + 1

    def _add(self, words: list[str], start: int) -> None:
        if len(words) != LENGTHS.get(words[0]):
            raise self.fault("this line is not a parameter", start, "neither a field nor a coupling", FORM)
        rows, middle = self.rows[words[0]], len(words) // 2
        for word in words[1:middle]:
            if SITE.fullmatch(word) is None or int(word) >= MOST_SITES:
                message = f"expected a site from 0 to {MOST_SITES - 1:,}, found `{word:.20}`"
                raise self.fault(message, start, "not a site", FORM)
            rows.sites.append(int(word))
        rows.symbols += [self.symbols.setdefault(word, len(self.symbols)) for word in words[middle:-1]]
        if REAL.fullmatch(words[-1]) is None:
            known = words[-1].lower().lstrip("+-") in ("nan", "inf", "infinity")
            code = "E533" if known else "E532"
            message = f"expected a finite number, found `{words[-1]:.20}`"
            raise self.fault(message, start, "the last word", "fit again with larger penalties" if known else FORM, code)
        rows.numbers.append(float(words[-1]))
        rows.starts.append(start)
        if not math.isfinite(rows.numbers[-1]):
            raise self.fault(f"`{words[-1]:.20}` is not finite", start, "too large", "write finite numbers", "E533")

    def fault(self, message: str, start: int, label: str, help: str, code: str = "E532") -> GmlmError:
        """Return an error about the line that begins at a character."""
        end = self.source.text.find("\n", start)
        span = Span(self.source, start, len(self.source.text) if end < 0 else max(end, start + 1))
        return fail(code, message, span, label, help=help)


def read_adabm(source: Source) -> PottsModel:
    """Return the model of a text of adabmDCA.

    Raises:
        GmlmError: E532 for a line of another form, a parameter that stands twice, and a field that
            is missing; E533 for a number that is not finite; E535 for sizes above the limits.
    """
    source = Source(source.path, source.text.replace("\r", "\n"))
    found = _Found(source)
    values, codes = _values(found)
    fields = _fields(found, codes, len(values))
    pairs, couplings = _couplings(found, codes, len(fields), len(values))
    notes = ()
    if values == tuple(AMINO_ACIDS) and "-" not in found.symbols:
        notes = (f"the values 0 to 20 are read as {AMINO_ACIDS}, the proteins of adabmDCA",)
    return PottsModel(values, fields, pairs, couplings, None, notes)


def _values(found: _Found) -> tuple[tuple[str, ...], Array]:
    """Return the values in order, and the code of each symbol of the file.

    Numbers are codes. Letters have the order of the fields, which is the order of the alphabet.
    """
    symbols, rows = list(found.symbols), found.rows
    if all(SITE.fullmatch(s) for s in symbols):
        codes = np.array([int(s) for s in symbols], np.int64)
        most = int(codes.max(initial=0))
        if most >= MOST_STATES:
            raise found.fault(f"the value {most} is above the limit of {MOST_STATES:,}", 0, "in this file", FORM, "E535")
        numbered = tuple(map(str, range(most + 1)))
        return (tuple(AMINO_ACIDS) if len(numbered) == len(AMINO_ACIDS) else numbered), codes
    order = list(dict.fromkeys(rows["h"].symbols))
    wrong = next((s for s in symbols if len(s) != 1 or not s.isascii() or not s.isprintable()), None)
    if wrong is not None:
        message = f"expected a letter or a number for a value, found `{wrong:.20}`"
        raise found.fault(message, _line_of(found, wrong), "not a value", FORM)
    without = next((s for k, s in enumerate(symbols) if k not in set(order)), None)
    if without is not None:
        message = f"the couplings have the value `{without}`, and no field has it"
        raise found.fault(message, _line_of(found, without), "without a field", "each site has a field for each value")
    codes = np.zeros(len(symbols), np.int64)
    codes[order] = np.arange(len(order))
    return tuple(symbols[k] for k in order), codes


def _line_of(found: _Found, symbol: str) -> int:
    """Return where the first line with a symbol begins."""
    number = found.symbols[symbol]
    for rows in found.rows.values():
        if number in rows.symbols:
            each = len(rows.symbols) // len(rows.starts)
            return rows.starts[rows.symbols.index(number) // each]
    return 0


def _fields(found: _Found, codes: Array, q: int) -> Array:
    """Return h, shape (sites, values), which has to be complete."""
    rows = found.rows["h"]
    sites = 1 + max((*rows.sites, *found.rows["J"].sites), default=-1)
    if sites * q > len(rows.numbers):
        here = set(zip(rows.sites, codes[rows.symbols].tolist() if rows.symbols else [], strict=True))
        site = next((i for i in range(sites) if any((i, a) not in here for a in range(q))), 0)
        message = f"site {site} lacks a field: {sites:,} sites of {q} values have {sites * q:,}, found {len(rows.numbers):,}"
        raise found.fault(message, 0, "in this file", "the file was cut off, or its sites do not count from 0")
    at = np.array(rows.sites, np.int64) * q + codes[rows.symbols]
    _verify_once(found, at, rows)
    h = np.zeros(sites * q)
    h[at] = rows.numbers
    return h.reshape(sites, q)


def _couplings(found: _Found, codes: Array, sites: int, q: int) -> tuple[Array, Array]:
    """Return the pairs a < b that have couplings, and J, whose second axis is the value of a."""
    rows = found.rows["J"]
    ends = np.array(rows.sites, np.int64).reshape(-1, 2)
    values = codes[rows.symbols].reshape(-1, 2) if rows.symbols else np.zeros((0, 2), np.int64)
    own = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if own.size:
        raise found.fault("a coupling joins a site with itself", rows.starts[own[0]], "one site", FORM)
    turned = ends[:, 0] > ends[:, 1]
    ends[turned], values[turned] = ends[turned, ::-1], values[turned, ::-1]
    keys, number = np.unique(ends[:, 0] * sites + ends[:, 1], return_inverse=True)
    if len(keys) * q**2 > MOST_COUPLINGS:
        message = f"{len(keys):,} pairs of {q} values have more couplings than the limit of {MOST_COUPLINGS:,}"
        raise found.fault(message, 0, "in this file", "fit fewer columns", "E535")
    at = (number.reshape(-1) * q + values[:, 0]) * q + values[:, 1]
    _verify_once(found, at, rows)
    j = np.zeros(len(keys) * q**2)
    j[at] = rows.numbers
    return np.stack([keys // max(sites, 1), keys % max(sites, 1)], axis=1), j.reshape(-1, q, q)


def _verify_once(found: _Found, at: Array, rows: _Rows) -> None:
    """Raise if two lines have the same parameter."""
    order = np.argsort(at, kind="stable")
    twice = np.flatnonzero(np.diff(at[order]) == 0)
    if twice.size:
        message = "this parameter stands in two lines"
        raise found.fault(message, rows.starts[int(order[twice + 1].min())], "the second one", "leave one of them out")


def adabm_text(model: PottsModel) -> tuple[str, tuple[str, ...]]:
    """Return a model as a text of adabmDCA, and a note if numbers stand for its values."""
    numbers = tuple(map(str, range(len(model.values))))
    is_kept = all(len(v) == 1 and "!" <= v <= "~" for v in model.values)
    if is_kept and not all(v.isdigit() for v in model.values):
        return "".join(_lines(model, model.values)), ()
    shown = ", ".join(f"`{v:.20}`" for v in model.values[:MOST_NOTED]) + ", .." * (len(numbers) > MOST_NOTED)
    note = f"the values {shown} are the numbers 0 to {len(numbers) - 1} there"
    return "".join(_lines(model, numbers)), (note,) * (model.values != numbers)


def _lines(model: PottsModel, names: tuple[str, ...]) -> Iterator[str]:
    for (a, b), table in zip(model.pairs.tolist(), model.couplings.tolist(), strict=True):
        for first, row in zip(names, table, strict=True):
            for second, value in zip(names, row, strict=True):
                yield f"J {a} {b} {first} {second} {short_number(value)}\n"
    for site, row in enumerate(model.fields.tolist()):
        for name, value in zip(names, row, strict=True):
            yield f"h {site} {name} {short_number(value)}\n"
