"""Checks weights and rates of a mask over all values of the cells they mention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._diagnostics import fail
from ._factor_graph import FactorGroup
from ._index_check import CHUNK, MOST_VALUES, numpy_leaves
from ._nodes import evaluate


def verify_weights(group: FactorGroup, sizes: Sequence[int], at_most: float) -> None:
    """Weights are finite and >= 0, rates at most 1, whatever the cells hold. Those that mention a parameter are judged when it is known.

    Raises:
        GmlmError: with the number found, or because the cells have too many joint values to try.
    """
    if group.parameters or not group.n:
        return
    slots = range(group.cells.shape[1])
    count = int(np.prod([float(sizes[s]) for s in slots]))
    if count > MOST_VALUES:
        raise fail("E412", f"this weight depends on cells with {count:,} joint values: too many to check", group.span, "too many cells")
    codes = dict(zip(slots, np.unravel_index(np.arange(count), tuple(sizes)) if sizes else (), strict=True))
    step = max(1, CHUNK // max(count, 1))
    for start in range(0, group.n, step):
        leaves = numpy_leaves(group.columns, group.tables, codes, slice(start, min(group.n, start + step)))
        with np.errstate(all="ignore"):
            value = np.asarray(leaves.number(evaluate(group.root, leaves)))
        bad = ~(np.isfinite(value) & (value >= 0) & (value <= at_most))
        if bad.any():
            limits = "between 0 and 1" if at_most == 1 else "finite and at least 0"
            word = "rate" if at_most == 1 else "weight"
            raise fail(
                "E409", f"a {word} is {limits}, this one can be {value[bad].ravel()[0]:g}", group.span, f"reaches {value[bad].ravel()[0]:g}"
            )
