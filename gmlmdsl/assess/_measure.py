"""What a row's loss measures: under which mask, on which rows. Losses that measure different things cannot be compared."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..evaluate import MaskUse
from ..fit import Evidence
from ..graph import LoweredMask, varies
from ..graph.masks import blocks_of, support_size
from ..plan import BUDGET

Array = np.ndarray


@dataclass(frozen=True)
class Measure:
    """Digests of a mask's distribution and of rows, with the words that name the mask.

    `law` tells masks of any program apart, whatever they are called; `rows` tells codes, weights and drawn masks.
    """

    words: str
    law: str
    rows: str


def measure_of(evidence: Evidence, use: MaskUse) -> Measure:
    """What losses of this evidence measure."""
    host, options = evidence.lowered.graph, evidence.options
    law = hashlib.sha256()
    for v in host.variables:
        _feed(law, (v.size, tuple(str(x) for x in v.labels)))
    _feed(law, _law(evidence.mask, host.n_cells))
    drawn = None if use.n_masks is None else (options.seed, use.n_masks)
    _feed(law, drawn)
    rows = hashlib.sha256()
    _feed(rows, np.asarray(evidence.codes[: host.n_random], np.int32))
    _feed(rows, None if options.weights is None else np.asarray(options.weights, float))
    if options.ignores and (evidence.codes < 0).any():
        _feed(rows, options.gaps)
    return Measure(use.words, law.hexdigest(), rows.hexdigest())


def _law(mask: LoweredMask, n_cells: int) -> Any:
    """What decides p(K | x): the blocks with their probabilities where they are few, else the mask's own arrays."""
    if varies(mask) or support_size(mask) > BUDGET.support:
        return mask
    blocks, probabilities = blocks_of(mask, n_cells)
    assert probabilities is not None
    held = [tuple(int(c) for c in block if c < n_cells) for block in blocks]
    return sorted((k, round(float(p), 9)) for k, p in zip(held, probabilities, strict=True))


def _feed(digest: Any, value: Any) -> None:
    """Arrays, and what holds them; places in the text do not count."""
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
