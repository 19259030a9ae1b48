"""Reader and writer of plmc's binary file of parameters, which `plmc -o` writes.

The parts of the file, in order; numbers are little-endian and have 4 bytes each:

- whole numbers: sites L, letters q, sequences, skipped sequences, iterations
- theta, the penalties of h, of J and of groups, the effective number of sequences
- q letters of one byte each
- for each sequence, skipped ones too, its number of neighbours
- L letters of the focus sequence of one byte each, and the L whole numbers of its residues
- frequencies (L, q), fields (L, q)
- frequencies and then couplings of the pairs i < j in ascending order, (pairs, q, q), the value of
  site i first

Reference: Hopf et al. 2017; `OutputParametersFull` of plmc.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._diagnostics import GmlmError, fail
from ..files import reading
from ._potts import PottsModel, all_pairs
from .limits import MOST_COUPLINGS, MOST_FILE_BYTES, MOST_SITES, MOST_STATES

Array = np.ndarray
WHOLE, REAL = np.dtype("<i4"), np.dtype("<f4")
HEAD = 40  # bytes before the letters
CUT = "the file was cut off, or plmc did not write it: `plmc -o FILE.model ..` does"


@dataclass(frozen=True)
class _Layout:
    """The numbers at the beginning of a file, from which its size follows."""

    sites: int
    values: int
    rows: int

    @property
    def pairs(self) -> int:
        return self.sites * (self.sites - 1) // 2

    @property
    def focus(self) -> int:
        """The byte at which the focus sequence begins."""
        return HEAD + self.values + 4 * self.rows

    @property
    def fields(self) -> int:
        """The byte at which the fields begin, after the frequencies."""
        return self.focus + 5 * self.sites + 4 * self.sites * self.values

    @property
    def couplings(self) -> int:
        """The byte at which the couplings begin, after the frequencies of pairs."""
        return self.fields + 4 * self.sites * self.values + 4 * self.pairs * self.values**2

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.couplings + 4 * self.pairs * self.values**2


def looks_like_plmc(start: bytes) -> bool:
    """Return whether the first bytes of a file are a small whole number, as no text has them."""
    return len(start) >= 4 and start[2:4] == b"\0\0" and start[:2] not in (b"\xff\xfe", b"\0\0")


def read_plmc(path: Path) -> PottsModel:
    """Return the model of a file of plmc, at the precision of its numbers, float32.

    Raises:
        GmlmError: E532 for a size other than the numbers at its beginning imply, and for letters
            that are no alphabet; E533 for a number that is not finite; E535 for sizes above the
            limits.
    """
    with reading(path):
        with path.open("rb") as file:
            start = file.read(HEAD)
        size = path.stat().st_size
    layout = _verified_layout(path, start, size)
    if size > MOST_FILE_BYTES:
        raise _fault(path, f"has {size:,} bytes, more than the limit of {MOST_FILE_BYTES:,}", "E535", "")
    with reading(path):
        raw = np.memmap(path, np.uint8, "r")
    alphabet = raw[HEAD : HEAD + layout.values].tobytes()
    values = tuple(alphabet.decode("latin-1"))
    if any(not 32 < c < 127 for c in alphabet) or len(set(values)) < len(values):
        raise _fault(path, f"has the letters {alphabet[:40]!r}: an alphabet has distinct printable ones", "E532", CUT)
    q, pairs = layout.values, layout.pairs
    fields = _reals(path, raw, layout.fields, (layout.sites, q), "fields")
    couplings = _reals(path, raw, layout.couplings, (pairs, q, q), "couplings")
    labels = _labels(raw[layout.focus : layout.focus + 5 * layout.sites].tobytes(), layout.sites)
    return PottsModel(values, fields, all_pairs(layout.sites), couplings, labels)


def _verified_layout(path: Path, start: bytes, size: int) -> _Layout:
    if len(start) < HEAD:
        raise _fault(path, f"has {size} bytes, and its numbers alone take {HEAD}", "E532", CUT)
    sites, values, rows, skipped = np.frombuffer(start, WHOLE, 4).tolist()
    if sites < 1 or values < 1 or rows < 0 or skipped < 0:
        counts = f"{sites} sites, {values} letters, and {rows} and {skipped} sequences"
        raise _fault(path, f"declares {counts}", "E532", CUT)
    layout = _Layout(sites, values, rows + skipped)
    numbers = sites * values + layout.pairs * values**2
    if sites > MOST_SITES or values > MOST_STATES or numbers > MOST_COUPLINGS:
        message = f"declares {sites:,} sites of {values:,} letters, which have {numbers:,} parameters"
        raise _fault(path, f"{message}; the limit is {MOST_COUPLINGS:,}", "E535", "fit fewer columns")
    if layout.size != size:
        message = f"declares {sites:,} sites, {values} letters and {layout.rows:,} sequences"
        raise _fault(path, f"{message}, which take {layout.size:,} bytes; it has {size:,}", "E532", CUT)
    return layout


def _reals(path: Path, raw: Array, start: int, shape: tuple[int, ...], what: str) -> Array:
    """Return numbers of a file, which must be finite."""
    count = int(np.prod(shape))
    found = raw[start : start + 4 * count].copy().view(REAL).astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(found))
    if bad.size:
        at = tuple(int(k) for k in np.unravel_index(int(bad[0]), shape))
        message = f"has {found[bad[0]]} among its {what}, at place {at}"
        raise _fault(path, message, "E533", "fit again with larger penalties")
    return found.reshape(shape)


def _labels(part: bytes, sites: int) -> tuple[str, ...] | None:
    """Return the residues of the focus sequence as `M1`; None for a file without one.

    A file without a focus sequence has the same letter and the numbers 1, 2, .. for all sites.
    """
    letters, numbers = part[:sites].decode("latin-1"), np.frombuffer(part[sites:], WHOLE).tolist()
    if len(set(letters)) == 1 and numbers == list(range(1, sites + 1)):
        return None
    labels = tuple(f"{letter}{number}" for letter, number in zip(letters, numbers, strict=True))
    is_named = all(c.isascii() and c.isalpha() for c in letters) and min(numbers) >= 0
    return labels if is_named and len(set(labels)) == sites else None


def _fault(path: Path, message: str, code: str, help: str) -> GmlmError:
    return fail(code, f"{path} {message}", help=help)


def plmc_bytes(model: PottsModel) -> bytes:
    """Return a model as a file of plmc, with couplings of 0 for pairs without one.

    It has no sequences, and all frequencies are 0.

    Raises:
        GmlmError: E534 for values that are not single letters; E535 for too many numbers.
    """
    sites, q = model.fields.shape
    wrong = next((v for v in model.values if len(v) != 1 or not 32 < ord(v) < 127), None)
    if wrong is not None:
        message = f"the value `{wrong}` is not one letter of ASCII, as plmc has them"
        raise fail("E534", message, help="write a .dat file, whose values may be numbers")
    layout = _Layout(sites, q, 0)
    if sites * q + layout.pairs * q**2 > MOST_COUPLINGS or sites > MOST_SITES:
        message = f"{sites:,} sites of {q} letters have more parameters than the limit of {MOST_COUPLINGS:,}"
        raise fail("E535", message, help="the file has couplings of all pairs: write a .dat file")
    couplings = np.zeros((layout.pairs, q, q))
    a, b = model.pairs.T
    couplings[a * (2 * sites - a - 1) // 2 + b - a - 1] = model.couplings
    labels = model.labels
    is_named = labels is not None and all(label[0] in model.values for label in labels)
    focus = "".join(label[0] for label in labels) if labels and is_named else model.values[0] * sites
    places = [int(label[1:]) for label in labels] if labels and is_named else range(1, sites + 1)
    parts = (
        np.array([sites, q, 0, 0, 0], WHOLE),
        np.zeros(5, REAL),
        np.frombuffer(("".join(model.values) + focus).encode("ascii"), np.uint8),
        np.array(places, WHOLE),
        np.zeros((sites, q), REAL),
        model.fields.astype(REAL),
        np.zeros((layout.pairs, q, q), REAL),
        couplings.astype(REAL),
    )
    return b"".join(part.tobytes() for part in parts)
