"""Checks of the weights and rates of a mask over all values of the cells that they mention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .._diagnostics import Span, counted, fail
from ._factor_graph import FactorGroup
from ._given_rows import group_over_domains, reads_real, rows_of
from ._scopes import JointValues, alike
from .limits import MOST_TRIED_VALUES, TRIED_AT_ONCE
from .nodes import evaluate, numpy_leaves


def verify_weights(
    group: FactorGroup, sizes: Sequence[int], none: int, at_most: float, params: Mapping[str, np.ndarray] | None = None
) -> None:
    """Raise unless weights are finite and >= 0, and rates at most 1, at all values of their cells.

    Weights that mention a parameter need `params`. Discrete given variables are tried at all their
    values. Weights that mention a real given variable wait for its data and are then tried row by
    row.

    Args:
        group: weights or rates.
        sizes: the number of values of each slot.
        none: the position that stands for no cell.
        at_most: the largest value allowed.
        params: parameters.

    Raises:
        GmlmError: E409 with the number found; E412 if the cells have too many joint values to try.
    """
    if not group.n or (group.parameters and params is None):
        return
    for _, piece, found in tried(group, sizes, none):
        _verify_finite(piece, found, at_most, params)


def _verify_finite(group: FactorGroup, joint: JointValues, at_most: float, params: Mapping[str, np.ndarray] | None) -> None:
    if joint.count > MOST_TRIED_VALUES:
        message = f"this weight depends on cells with {counted(int(joint.count), 'joint value')}: too many to check"
        raise fail("E412", message, group.span, "too many cells")
    for value in _values(group, joint, params, 64):
        bad = ~(np.isfinite(value) & (value >= 0) & (value <= at_most))
        if bad.any():
            limits = "between 0 and 1" if at_most == 1 else "finite and at least 0"
            word = "rate" if at_most == 1 else "weight"
            reached = f"{value[bad].ravel()[0]:g}"
            help = "`sigmoid(..)` lies between 0 and 1" if at_most == 1 else "`exp(..)` is above 0, and `max(.., 0)` at least 0"
            raise fail("E409", f"a {word} is {limits}, this one can be {reached}", group.span, f"reaches {reached}", help=help)


def tried(group: FactorGroup, sizes: Sequence[int], none: int) -> Iterator[tuple[np.ndarray, FactorGroup, JointValues]]:
    """Yield instances together with all joint values that their slots can have.

    A group that reads real given variables yields nothing before its data are bound.

    Args:
        group: the group.
        sizes: the number of values of each slot.
        none: the position that stands for no cell.

    Yields:
        The instances, the group of these instances, and their joint values.
    """
    slots = group.cells.shape[1]
    for rows, owners in alike(group.cells, none):
        part = group if len(rows) == group.n else group.take(rows)
        if part.given is None:
            yield rows, part, JointValues(tuple(sizes[:slots]), owners)
        elif not reads_real(part):
            part, found = group_over_domains(part, sizes[:slots])
            yield rows, part, JointValues(tuple(found), (*owners, *range(slots, len(found))))
        else:
            for piece, found in _row_by_row(part, sizes[:slots]):
                yield rows, piece, JointValues(tuple(found), owners)


def _row_by_row(group: FactorGroup, sizes: Sequence[int]) -> Iterator[tuple[FactorGroup, Sequence[int]]]:
    """Yield the group with some rows of its data at a time."""
    assert group.given is not None
    values = np.prod([float(q) for q in sizes])
    slot, step = group.given.slot, max(1, int(MOST_TRIED_VALUES // values))
    for start in range(0, group.given.rows, step):
        stop = min(group.given.rows, start + step)
        yield rows_of(group, start, stop), [stop - start if k == slot else q for k, q in enumerate(sizes)]


def alive(group: FactorGroup, sizes: Sequence[int], none: int) -> np.ndarray:
    """Return a mask of the instances that are above 0 for some values of their cells.

    Instances that mention a parameter or a real given variable count as such.
    """
    out = np.ones(group.n, bool)
    if group.parameters or not group.n or reads_real(group):
        return out
    for rows, piece, joint in tried(group, sizes, none):
        out[rows] = np.concatenate([v.max(axis=1) for v in _values(piece, joint)]) > 0
    return out


def fixed_values(group: FactorGroup, params: Mapping[str, np.ndarray] | None = None) -> np.ndarray:
    """Return the numbers of a group that mentions no cells, shape (n,).

    The group needs `params` if it mentions parameters.
    """
    return np.concatenate([v[:, 0] for v in _values(group, JointValues((), ()), params)])


def normalised(weights: np.ndarray, span: Span) -> np.ndarray:
    """Return the weights of a mixture divided by their sum.

    Raises:
        GmlmError: E409 unless the weights are finite, not negative and not all zero.
    """
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
        message, found = "the weights of a mixture must be finite, not negative and not all zero", ", ".join(f"{w:g}" for w in weights)
        raise fail("E409", message, span, f"weights {found}", help="only their ratios count: `1` in every row is the same share for each")
    return weights / weights.sum()


def reaches_zero(group: FactorGroup, sizes: np.ndarray) -> bool:
    """Return whether a factor without parameters is minus infinity for some values of its cells.

    The result is False if there are too many values to try.

    Args:
        group: factors.
        sizes: the number of values of each cell, with a 1 appended for padding.
    """
    if group.parameters or not group.n:
        return False
    slots = sizes[group.cells].max(axis=0).tolist()
    for _, piece, joint in tried(group, slots, len(sizes) - 1):
        if joint.count <= MOST_TRIED_VALUES and any(bool((v == -np.inf).any()) for v in _values(piece, joint)):
            return True
    return False


def totals(group: FactorGroup, sizes: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the sums of exp of a group's values over the values of its first slot.

    Joint values that are too many to try are skipped.

    Args:
        group: a group that mentions no parameter.
        sizes: the number of values of each cell, with a 1 appended for padding.
    """
    slots = sizes[group.cells].max(axis=0).tolist()
    for _, piece, joint in tried(group, slots, len(sizes) - 1):
        if joint.count <= MOST_TRIED_VALUES:
            for values in _values(piece, joint):
                every = np.broadcast_to(np.exp(values), (len(values), int(joint.count)))
                yield every.reshape(len(values), joint.shape[0], -1).sum(axis=1)


def tables_over(group: FactorGroup, joint: JointValues, params: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the values of a group's instances as tables, of shape (n, *joint.shape).

    The numbers are float64; a condition is 1 where it holds and 0 elsewhere.
    """
    found = [np.broadcast_to(v, (len(v), int(joint.count))) for v in _values(group, joint, params)]
    return np.concatenate(found).reshape(group.n, *joint.shape)


def values_at(factor: FactorGroup, codes: np.ndarray, params: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the value of a single factor at configurations, shape (configurations,), in float64.

    Args:
        factor: a group of one instance.
        codes: the code in each slot, shape (slots, configurations).
        params: the parameters.
    """
    leaves = numpy_leaves(factor.columns, factor.tables, dict(enumerate(codes)), slice(0, 1), params)
    with np.errstate(all="ignore"):
        found = np.asarray(leaves.number(evaluate(factor.root, leaves)))
    return np.broadcast_to(found.reshape(-1), codes.shape[1:]).astype(float)


def _values(group: FactorGroup, joint: JointValues, params: Mapping[str, np.ndarray] | None = None, bits: int = 0) -> Iterator[np.ndarray]:
    """Yield values of some instances at a time, under every joint value of their slots.

    The arrays have shape (instances, 1 or values); `bits` is as in `numpy_leaves`.
    """
    codes, step = dict(enumerate(joint.codes())), max(1, int(TRIED_AT_ONCE // max(joint.count, 1)))
    for start in range(0, group.n, step):
        leaves = numpy_leaves(group.columns, group.tables, codes, slice(start, min(group.n, start + step)), params, bits)
        with np.errstate(all="ignore"):
            found = np.asarray(leaves.number(evaluate(group.root, leaves)))
        # A value that does not vary over instances, or over joint values, comes once.
        yield np.broadcast_to(np.atleast_2d(found), (min(step, group.n - start), found.shape[-1] if found.ndim else 1))
