"""Checks weights and rates of a mask over all values of the cells they mention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .._diagnostics import fail
from ._factor_graph import FactorGroup
from ._given_rows import group_over_domains, reads_real, rows_of
from ._index_check import CHUNK, MOST_VALUES, numpy_leaves
from ._nodes import evaluate


def verify_weights(group: FactorGroup, sizes: Sequence[int], at_most: float, params: Mapping[str, np.ndarray] | None = None) -> None:
    """Weights are finite and >= 0, rates at most 1, whatever the cells hold. Those that mention a parameter need `params`.

    Discrete given variables are tried in all their values; those that mention a real one wait for its data, and are then tried row by row.

    Raises:
        GmlmError: with the number found, or because the cells have too many joint values to try.
    """
    if not group.n or (group.parameters and params is None):
        return
    for piece, found in tried(group, sizes):
        _verify_finite(piece, found, at_most, params)


def _verify_finite(group: FactorGroup, sizes: Sequence[int], at_most: float, params: Mapping[str, np.ndarray] | None) -> None:
    count = int(np.prod([float(q) for q in sizes[: group.cells.shape[1]]]))
    if count > MOST_VALUES:
        raise fail("E412", f"this weight depends on cells with {count:,} joint values: too many to check", group.span, "too many cells")
    for value in _values(group, sizes[: group.cells.shape[1]], params, 64):
        bad = ~(np.isfinite(value) & (value >= 0) & (value <= at_most))
        if bad.any():
            limits = "between 0 and 1" if at_most == 1 else "finite and at least 0"
            word = "rate" if at_most == 1 else "weight"
            reached = f"{value[bad].ravel()[0]:g}"
            help = "`sigmoid(..)` lies between 0 and 1" if at_most == 1 else "`exp(..)` is above 0, and `max(.., 0)` at least 0"
            raise fail("E409", f"a {word} is {limits}, this one can be {reached}", group.span, f"reaches {reached}", help=help)


def tried(group: FactorGroup, sizes: Sequence[int]) -> Iterator[tuple[FactorGroup, Sequence[int]]]:
    """The group, or pieces of it, such that all values of all slots are all that it can meet; nothing before real data are there."""
    if group.given is None:
        yield group, sizes
    elif not reads_real(group):
        yield group_over_domains(group, sizes[: group.cells.shape[1]])
    else:
        slot, step = group.given.slot, max(1, int(MOST_VALUES // np.prod([float(q) for q in sizes[: group.cells.shape[1]]])))
        for start in range(0, group.given.rows, step):
            stop = min(group.given.rows, start + step)
            yield rows_of(group, start, stop), [stop - start if k == slot else q for k, q in enumerate(sizes)]


def alive(group: FactorGroup, sizes: Sequence[int]) -> np.ndarray:
    """Which instances are above 0 for some values of their cells; all of those that mention a parameter or a real given variable."""
    if group.parameters or not group.n or reads_real(group):
        return np.ones(group.n, bool)
    ((group, sizes),) = tried(group, sizes)
    found = [v.reshape(len(v), -1).max(axis=1) for v in _values(group, sizes)]
    return np.concatenate(found) > 0


def fixed_values(group: FactorGroup) -> np.ndarray:
    """The numbers of a group that mentions neither cells nor parameters, shape (n,)."""
    return np.concatenate([v[:, 0] for v in _values(group, ())])


def reaches_zero(group: FactorGroup, sizes: np.ndarray) -> bool:
    """Whether a factor of numbers and cells alone is minus infinity for some values; False where there are too many to try.

    Args:
        group: factors.
        sizes: the number of values of each cell, with a 1 behind for padding.
    """
    if group.parameters or not group.n:
        return False
    slots = sizes[group.cells].max(axis=0).tolist()
    for piece, found in tried(group, slots):
        if np.prod([float(q) for q in found]) <= MOST_VALUES and any(bool((v == -np.inf).any()) for v in _values(piece, found)):
            return True
    return False


def _values(
    group: FactorGroup, sizes: Sequence[int], params: Mapping[str, np.ndarray] | None = None, bits: int = 0
) -> Iterator[np.ndarray]:
    """The values of some instances at a time, under every joint value of their slots: shape (instances, 1 or values).

    `bits` as in `numpy_leaves`.
    """
    count = int(np.prod([float(q) for q in sizes]))
    codes = dict(enumerate(np.unravel_index(np.arange(count), tuple(sizes)))) if len(sizes) else {}
    step = max(1, CHUNK // max(count, 1))
    for start in range(0, group.n, step):
        leaves = numpy_leaves(group.columns, group.tables, codes, slice(start, min(group.n, start + step)), params, bits)
        with np.errstate(all="ignore"):
            found = np.asarray(leaves.number(evaluate(group.root, leaves)))
        # What does not vary over instances, or over values, comes once.
        yield np.broadcast_to(np.atleast_2d(found), (min(step, group.n - start), found.shape[-1] if found.ndim else 1))
