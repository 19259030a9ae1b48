"""Cells whose values follow from fixed cells by requirements and zeros of tables, as in a Sudoku."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..graph import FactorGraph, FactorGroup, grouped, range_of
from ..graph.nodes import evaluate, numpy_leaves
from .limits import MOST_FORCED_VALUES, MOST_JOINED, MOST_PROBED

Array = np.ndarray
Params = Mapping[str, np.ndarray]
# Steps of a search for a configuration: of the first try, how much longer each later try is, and
# the most of all tries.
BRANCHES, LONGER, MOST_BRANCHES = 100, 1.5, 4_000


@dataclass(frozen=True)
class _Rules:
    """Factors that may be zero as tables, and sets of cells that take each value once.

    Attributes:
        tables: cells of shape (n, k), and whether their values are possible together, of shape
            (n, values of the first cell, .., of the last cell).
        once: the cells of each set, of shape (sets, values).
    """

    tables: list[tuple[Array, Array]]
    once: Array

    def narrowed(self, left: Array) -> Array | None:
        """Return the values that remain, or None if a cell has none.

        Two rules apply until nothing changes. A value needs values of the other cells of each
        factor that go with it (arc consistency). A value of a set that one cell alone can take is
        taken there.
        """
        before = -1
        while left.sum() != before:
            before = left.sum()
            for cells, good in self.tables:
                left = left & ~_unsupported(left, cells, good)
            if len(self.once):
                inside = left[self.once][:, :, : self.once.shape[1]]  # Axes: sets, cells, values.
                if not inside.any(axis=1).all():
                    return None
                sets, values = np.nonzero(inside.sum(axis=1) == 1)
                cells = self.once[sets, inside[sets, :, values].argmax(axis=1)]
                left = left.copy()
                keep = np.zeros_like(left)
                keep[cells, values] = True
                left[cells] &= keep[cells]
            if not left.any(axis=1).all():
                return None
        return left


def _unsupported(left: Array, cells: Array, good: Array) -> Array:
    """Return the values of cells for which some factor has no possible values of its other cells."""
    slots, joint, found = range(1, good.ndim), good, np.zeros_like(left)
    for s in slots:
        here = left[cells[:, s - 1], : good.shape[s]]
        joint = joint & np.expand_dims(here, tuple(t for t in slots if t != s))
    for s in slots:
        lost = ~joint.any(axis=tuple(t for t in slots if t != s))
        np.logical_or.at(found[:, : good.shape[s]], cells[:, s - 1], lost)
    return found


def with_forced(graph: FactorGraph, held: Array, codes: Array, params: Params, tries: bool = True) -> tuple[Array, Array] | None:
    """Return the fixed cells together with those that have one possible value left.

    If single steps do not settle all cells and there are requirements, each remaining value is
    tried in turn. A value whose consequences contradict each other is excluded (singleton
    consistency).

    Args:
        graph: the factor graph. Its factors that may be zero and whose tables are small count.
        held: booleans over cells.
        codes: their values, shape (cells,).
        params: parameters; factors of parameters that are not among them do not count.
        tries: whether values are tried.

    Returns:
        Both with more cells, or None if some cell has no value left.

    Reference: Mackworth 1977; Debruyne and Bessiere 1997 for singleton consistency.
    """
    rules, start = _begun(graph, held, codes, params)
    left = rules.narrowed(start)
    left = _probed(rules, left) if left is not None and tries and graph.requires else left
    if left is None:
        return None
    known = left[:-1].sum(axis=1) == 1
    if graph.row_cell is not None:
        known[graph.row_cell] = held[graph.row_cell]  # Its one value stands for every row of given data.
    return known, np.where(known, left[:-1].argmax(axis=1), codes).astype(codes.dtype)


def searched(
    graph: FactorGraph, held: Array, codes: Array, params: Params, rng: np.random.Generator, accepts: Callable[[Array], bool]
) -> Array | None:
    """Search for a configuration of which no factor with a small table is zero, in depth first.

    The search branches at a cell with the fewest values left, among these at one in the most such
    factors. It tries its values in random order, and draws the consequences of each. It begins
    again, with other random choices, after more and more steps. None is returned if there is no
    configuration, or if the search takes too many steps.

    Args:
        graph: the factor graph.
        held: booleans over cells.
        codes: their values, shape (cells,).
        params: parameters, as in `with_forced`.
        rng: decides the order of equally good cells and of values.
        accepts: whether codes of shape (cells,) satisfy everything else.

    Reference: Brelaz 1979 for the order of cells; Gomes, Selman and Kautz 1998 for restarts.
    """
    rules, start = _begun(graph, held, codes, params)
    beginning = rules.narrowed(start)
    degrees = np.bincount(np.concatenate([np.zeros(0, int), *(c.ravel() for c, _ in rules.tables)]), minlength=len(start))
    steps, total = BRANCHES, 0
    while beginning is not None and total < MOST_BRANCHES:
        waiting = [beginning]
        for _ in range(steps):
            if not waiting:
                return None
            left = waiting.pop()
            counts = left[:-1].sum(axis=1)
            if counts.max(initial=1) == 1:
                found = np.where(graph.sizes > 1, left[:-1].argmax(axis=1), codes).astype(codes.dtype)
                if accepts(found):
                    return found
                continue
            cell = _branching(counts, degrees, rng)
            tries = [rules.narrowed(_with_value(left, cell, v)) for v in rng.permutation(np.flatnonzero(left[cell])).tolist()]
            waiting += [t for t in tries if t is not None]
        total, steps = total + steps, int(steps * LONGER)
    return None


def _branching(counts: Array, degrees: Array, rng: np.random.Generator) -> int:
    """Return an open cell with the fewest values, among these one in the most factors."""
    open_ = np.flatnonzero(counts > 1)
    fewest = open_[counts[open_] == counts[open_].min()]
    return int(rng.choice(fewest[degrees[fewest] == degrees[fewest].max()]))


def _with_value(left: Array, cell: int, value: int) -> Array:
    """Return the values that are left if one cell has a value."""
    is_cell = (np.arange(len(left)) == cell)[:, None]
    return np.where(is_cell, np.arange(left.shape[1]) == value, left)


def _begun(graph: FactorGraph, held: Array, codes: Array, params: Params) -> tuple[_Rules, Array]:
    """Return the rules of a graph, and the values that fixed cells leave, (cells + 1, values)."""
    sizes = np.append(graph.sizes, 1)
    values = np.arange(sizes.max())
    groups = [g for g in graph.groups if _may_be_zero(g, int(sizes.max()), params)]
    tables = [found for group in groups for found in _tables(group, sizes, params)]
    rules = _Rules(tables, _taken_once(tables, sizes))
    return rules, (values < sizes[:, None]) & (~np.append(held, False)[:, None] | (values == np.append(codes, 0)[:, None]))


def _probed(rules: _Rules, left: Array) -> Array | None:
    """Return the values whose consequences do not contradict each other."""
    entries = 2 * sum(good.size for _, good in rules.tables)
    budget = MOST_PROBED // max(1, entries * 8)  # A probe takes some eight rounds.
    asked = np.zeros(len(left), bool)  # A value of another cell has no consequences.
    for cells in (*(cells for cells, _ in rules.tables), rules.once):
        asked[cells] = True
    changed = True
    while changed and budget > 0:
        changed = False
        for cell, value in np.argwhere(left & (asked & (left.sum(axis=1) > 1))[:, None]).tolist():
            if budget <= 0 or not left[cell, value] or left[cell].sum() == 1:
                continue
            budget -= 1
            if rules.narrowed(_with_value(left, cell, value)) is None:
                left = left.copy()
                left[cell, value] = False
                found = rules.narrowed(left)
                if found is None:
                    return None
                left, changed = found, True
    return left


def _taken_once(tables: list[tuple[Array, Array]], sizes: Array) -> Array:
    """Return the sets of q cells of q values that differ pairwise, so that each value occurs once."""
    n, q = len(sizes) - 1, int(sizes.max())
    none = np.zeros((0, q), int)
    unequal = [cells for cells, good in tables if good.shape[1:] == (q, q) and (good == ~np.eye(q, dtype=bool)).all()]
    if not unequal or not 2 < q <= n <= MOST_JOINED:
        return none
    apart = np.zeros((n, n), bool)
    for cells in unequal:
        apart[cells[:, 0], cells[:, 1]] = apart[cells[:, 1], cells[:, 0]] = True
    i, j = np.nonzero(np.triu(apart))
    common = apart.astype(np.float32)
    few = (common @ common)[i, j] == q - 2
    sets = {frozenset((a, b, *np.flatnonzero(apart[a] & apart[b]).tolist())) for a, b in zip(i[few].tolist(), j[few].tolist(), strict=True)}
    full = [sorted(s) for s in sets if apart[np.ix_(sorted(s), sorted(s))].sum() == q * (q - 1)]
    return np.array(sorted(full), int) if full else none


def _may_be_zero(group: FactorGroup, most_values: int, params: Params) -> bool:
    is_known = group.given is None and group.cells.size > 0 and set(group.parameters) <= set(params)
    return is_known and (group.kind == "require" or range_of(group, most_values, params) is None)


def _tables(group: FactorGroup, sizes: Array, params: Params) -> Iterator[tuple[Array, Array]]:
    """Yield the cells of factors that may be zero, and at which of their values they are not.

    The cells have the shape (n, k), the booleans (n, values of the first cell, .., of the last).
    """
    for kind, rows in grouped(sizes[group.cells]):
        shape, some = kind.tolist(), group.take(rows)
        if not 1 <= math.prod(shape) * len(rows) <= MOST_FORCED_VALUES:
            continue
        codes = dict(enumerate(np.indices(shape).reshape(len(shape), -1)))
        with np.errstate(all="ignore"):
            leaves = numpy_leaves(some.columns, some.tables, codes, slice(0, some.n), params)
            found = np.asarray(evaluate(some.root, leaves))
        good = found if group.kind == "require" else found != -np.inf
        yield some.cells, np.broadcast_to(good, (some.n, math.prod(shape))).reshape(some.n, *shape)
