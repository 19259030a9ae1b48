"""The members of nested loops as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray
MOST_ENTRIES = 1 << 27  # One index array has at most this many entries: 1 GiB at 8 bytes each.


def product(members: Sequence[list[Array]]) -> list[Array]:
    """Return the Cartesian product of loops, the first slowest: one flat array per index name."""
    lengths = [len(m[0]) for m in members]
    out = []
    for k, arrays in enumerate(members):
        before, after = int(np.prod(lengths[:k], dtype=np.int64)), int(np.prod(lengths[k + 1 :], dtype=np.int64))
        out += [np.tile(np.repeat(a, after), before) for a in arrays]
    return out
