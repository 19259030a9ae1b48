"""Cells whose values follow from fixed cells by requirements and zeros of tables, as in a Sudoku."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..graph import FactorGraph, FactorGroup, grouped, range_of
from ..graph.nodes import evaluate, numpy_leaves
from .limits import MOST_FORCED_VALUES, MOST_JOINED, MOST_PROBED, MOST_PROBED_IN_VAIN, READ_PER_TABLE

Array = np.ndarray
Params = Mapping[str, np.ndarray]
# Steps of a search for a configuration: of the first try, how much longer each later try is, and
# the most of all tries.
BRANCHES, LONGER, MOST_BRANCHES = 100, 1.5, 4_000


@dataclass
class _Rules:
    """Factors that may be zero as tables, and sets of cells that take each value once.

    Attributes:
        tables: cells of shape (n, k), and whether their values are possible together, of shape
            (n, values of the first cell, .., of the last cell).
        once: the cells of each set, of shape (sets, values).
        read: how many entries of tables were read so far.
    """

    tables: list[tuple[Array, Array]]
    once: Array
    read: int = 0

    def narrowed(self, left: Array, changed: Array) -> Array | None:
        """Return the values that remain, or None if a cell has none.

        Two rules apply until nothing changes. A value needs values of the other cells of each
        factor that go with it (arc consistency). A value of a set that one cell alone can take is
        taken there. Each round reads the factors and the sets of changed cells.

        Args:
            left: which values each cell may have, of shape (cells + 1, values).
            changed: the cells that lost values since the rules were last applied, of shape
                (cells + 1,).
        """
        while changed.any():
            before = left
            for cells, good in self.tables:
                rows = np.flatnonzero(changed[cells].any(axis=1))
                self.read += READ_PER_TABLE + cells.size + len(rows) * good[0].size
                left = left & ~_unsupported(left, cells[rows], good[rows])
            once = self.once[changed[self.once].any(axis=1)]
            inside = left[once][:, :, : once.shape[1]]  # Axes: sets, cells, values.
            sets, values = np.nonzero(inside.sum(axis=1) == 1)
            taken = np.zeros_like(left)
            taken[once[sets, inside[sets, :, values].argmax(axis=1)], values] = True
            left = left & (taken | ~taken.any(axis=1, keepdims=True))
            if not left.any(axis=1).all() or not inside.any(axis=1).all():
                return None
            changed = (left != before).any(axis=1)
        return left

    def tried(self, left: Array, cell: int, value: int) -> Array | None:
        """Return the values that remain if one cell has a value, or None if some cell has none."""
        is_cell = np.arange(len(left)) == cell
        return self.narrowed(np.where(is_cell[:, None], np.arange(left.shape[1]) == value, left), is_cell)


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
    left = rules.narrowed(start, np.ones(len(start), bool))
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
    beginning = rules.narrowed(start, np.ones(len(start), bool))
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
            tries = [rules.tried(left, cell, v) for v in rng.permutation(np.flatnonzero(left[cell])).tolist()]
            waiting += [t for t in tries if t is not None]
        total, steps = total + steps, int(steps * LONGER)
    return None


def _branching(counts: Array, degrees: Array, rng: np.random.Generator) -> int:
    """Return an open cell with the fewest values, among these one in the most factors."""
    open_ = np.flatnonzero(counts > 1)
    fewest = open_[counts[open_] == counts[open_].min()]
    return int(rng.choice(fewest[degrees[fewest] == degrees[fewest].max()]))


def _begun(graph: FactorGraph, held: Array, codes: Array, params: Params) -> tuple[_Rules, Array]:
    """Return the rules of a graph, and the values that fixed cells leave, (cells + 1, values)."""
    sizes = np.append(graph.sizes, 1)
    values = np.arange(sizes.max())
    tables = _tables((g for g in graph.groups if _may_be_zero(g, len(values), params)), sizes, params)
    rules = _Rules(tables, _taken_once(tables, sizes))
    return rules, (values < sizes[:, None]) & (~np.append(held, False)[:, None] | (values == np.append(codes, 0)[:, None]))


def _probed(rules: _Rules, left: Array) -> Array | None:
    """Return the values whose consequences do not contradict each other.

    The search for others ends after `MOST_PROBED` entries of tables, and after
    `MOST_PROBED_IN_VAIN` since it last found one.
    """
    end, vain = rules.read + MOST_PROBED, rules.read + MOST_PROBED_IN_VAIN
    asked = np.zeros((len(left), 1), bool)  # A value of another cell has no consequences.
    for cells, _ in rules.tables:
        asked[cells] = True
    before, q = np.zeros_like(left), left.shape[1]
    while (left != before).any():
        before = left
        for cell, value in np.argwhere(left & asked).tolist():
            if rules.read > min(end, vain):
                return left
            if left[cell, value] and left[cell].sum() > 1 and rules.tried(left, cell, value) is None:
                here = np.arange(len(left)) == cell
                found = rules.narrowed(left & ~np.outer(here, np.arange(q) == value), here)
                if found is None:
                    return None
                left, vain = found, rules.read + MOST_PROBED_IN_VAIN
    return left


def _taken_once(tables: list[tuple[Array, Array]], sizes: Array) -> Array:
    """Return the sets of q cells of q values that differ pairwise, so that each value occurs once."""
    n, q = len(sizes) - 1, int(sizes.max())
    unequal = [cells for cells, good in tables if good.shape[1:] == (q, q) and (good == ~np.eye(q, dtype=bool)).all()]
    if not unequal or not 2 < q <= n <= MOST_JOINED:
        return np.zeros((0, q), int)
    apart = np.zeros((n, n), bool)
    for cells in unequal:
        apart[cells[:, 0], cells[:, 1]] = apart[cells[:, 1], cells[:, 0]] = True
    i, j = np.nonzero(np.triu(apart))
    common = apart.astype(np.float32)
    few = (common @ common)[i, j] == q - 2
    sets = {frozenset((a, b, *np.flatnonzero(apart[a] & apart[b]).tolist())) for a, b in zip(i[few].tolist(), j[few].tolist(), strict=True)}
    full = [sorted(s) for s in sets if apart[np.ix_(sorted(s), sorted(s))].sum() == q * (q - 1)]
    return np.array(sorted(full), int).reshape(-1, q)


def _may_be_zero(group: FactorGroup, most_values: int, params: Params) -> bool:
    is_known = group.given is None and group.cells.size > 0 and set(group.parameters) <= set(params)
    return is_known and (group.kind == "require" or range_of(group, most_values, params) is None)


def _tables(groups: Iterable[FactorGroup], sizes: Array, params: Params) -> list[tuple[Array, Array]]:
    """Return the cells of factors that may be zero, and at which of their values they are not.

    The cells have the shape (n, k), the booleans (n, values of the first cell, .., of the last).
    The smallest tables are returned, up to `MOST_FORCED_VALUES` values of all together.
    """
    found, total = [], 0
    alike = [(kind, group.take(rows)) for group in groups for kind, rows in grouped(sizes[group.cells])]
    for kind, some in sorted(alike, key=lambda a: a[1].n * math.prod(a[0].tolist())):
        total += some.n * math.prod(kind.tolist())
        if total > MOST_FORCED_VALUES:
            break
        # Cells of one value, some of which fill up short scopes, need no axis; one axis stays.
        own = np.flatnonzero(kind >= min(2, kind.max()))
        shape = kind[own].tolist()
        codes = dict.fromkeys(range(len(kind)), np.zeros(math.prod(shape), int))
        codes |= dict(zip(own.tolist(), np.indices(shape).reshape(len(shape), -1), strict=True))
        with np.errstate(all="ignore"):
            values = np.asarray(evaluate(some.root, numpy_leaves(some.columns, some.tables, codes, slice(0, some.n), params)))
        good = np.broadcast_to(values if some.kind == "require" else values != -np.inf, (some.n, math.prod(shape)))
        found.append((some.cells[:, own], good.reshape(some.n, *shape)))
    return found
