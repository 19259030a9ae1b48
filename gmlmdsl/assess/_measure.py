"""The quantity that a row's loss measures: the mask and the rows.

Losses that measure different quantities cannot be compared.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..evaluate import MaskUse
from ..fit import Evidence
from ..masks import AbstractMask
from ..plan import BUDGET

Array = np.ndarray


@dataclass(frozen=True)
class Measure:
    """Digests of a mask's distribution and of rows, with the text that names the mask.

    `law` identifies the distribution of a mask of any program, whatever its name is. `rows`
    identifies codes, weights and drawn masks. Each digest is computed twice: with the names of the
    observed cells, and with their order. Two models may therefore have different latents, the same
    variables in another order, or other names of cells. A mask without a short list of blocks is
    identified by all positions of the model only.
    """

    words: str
    law: tuple[str, str]
    rows: tuple[str, str]

    def same_law(self, other: Measure) -> bool:
        """Return whether both measures have the same distribution of blocks."""
        return any(mine == its for mine, its in zip(self.law, other.law, strict=True))

    def same_rows(self, other: Measure) -> bool:
        """Return whether both measures have the same rows."""
        return any(mine == its for mine, its in zip(self.rows, other.rows, strict=True))


def measure_of(evidence: Evidence, use: MaskUse) -> Measure:
    """Return the quantity that losses of this evidence measure."""
    host = evidence.lowered.graph
    seen = np.flatnonzero(host.is_observed)
    names = [host.cell_name(int(c)) for c in seen]
    by_name = dict(zip(seen[np.argsort(names)].tolist(), sorted(names), strict=True))
    orders: tuple[dict[int, Any], ...] = (by_name, {int(c): k for k, c in enumerate(seen)})
    law, rows = zip(*((_law_digest(evidence, use, told), _rows_digest(evidence, told)) for told in orders), strict=True)
    return Measure(use.words, law, rows)


def _law_digest(evidence: Evidence, use: MaskUse, told: dict[int, Any]) -> str:
    """Return a digest of p(K | x) and of the labels of values, with cells as `told` names them."""
    host, options, law = evidence.lowered.graph, evidence.options, hashlib.sha256()
    labels = {v.offset + k: tuple(str(x) for x in v.labels) for v in host.observed for k in range(v.size)}
    _feed(law, tuple((name, labels[c]) for c, name in told.items()))
    _feed(law, _law(evidence.mask, host.n_cells, told))
    _feed(law, None if use.n_masks is None else (options.seed, use.n_masks))
    return law.hexdigest()


def _rows_digest(evidence: Evidence, told: dict[int, Any]) -> str:
    """Return a digest of weights and of codes in the order of `told`.

    The values of latents follow, if the data contain them.
    """
    host, options, rows = evidence.lowered.graph, evidence.options, hashlib.sha256()
    codes = np.asarray(evidence.codes[: host.n_random], np.int32)
    _feed(rows, codes[list(told)])
    known = host.is_latent[: host.n_random] & (codes >= 0).any(axis=1)
    _feed(rows, (known.nonzero()[0], codes[known]) if known.any() else None)
    _feed(rows, None if options.weights is None else np.asarray(options.weights, float))
    if options.ignores and (evidence.codes < 0).any():
        _feed(rows, options.gaps)
    return rows.hexdigest()


def _law(mask: AbstractMask, n_cells: int, told: dict[int, Any]) -> object:
    """Return the data that determine p(K | x).

    These are the blocks with their probabilities if there are few, else the mask's own arrays with
    cells as `told` names them.
    """
    if mask.varies:
        return mask
    if mask.support_size > BUDGET.support:
        found = mask.key(lambda cell: told.get(cell, -1 - cell))
        return mask if found is None else found
    blocks, probabilities = mask.enumerate_blocks()
    assert probabilities is not None
    held = [_told((c for c in block if c < n_cells), told) for block in blocks]
    return sorted(((k, round(float(p), 9)) for k, p in zip(held, probabilities, strict=True)), key=repr)


def _told(cells: Iterable[int], told: dict[int, Any]) -> tuple[Hashable, ...]:
    """Return cells as `told` names them, and latents as numbers below 0, in a canonical order."""
    return tuple(sorted((told.get(int(c), -1 - int(c)) for c in cells), key=repr))


def _feed(digest: hashlib._Hash, value: object) -> None:
    """Update a digest with arrays and with the objects that contain them.

    Positions in the text are excluded.
    """
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif dataclasses.is_dataclass(value):
        digest.update(type(value).__name__.encode())
        for f in dataclasses.fields(value):
            if f.compare:
                _feed(digest, getattr(value, f.name))
    elif isinstance(value, tuple | list):
        digest.update(f"({len(value)}".encode())
        for part in value:
            _feed(digest, part)
    else:
        digest.update(f"{value!r};".encode())
