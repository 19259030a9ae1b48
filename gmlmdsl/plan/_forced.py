"""Cells whose values follow from fixed cells by requirements, as in a Sudoku."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..graph import FactorGraph, FactorGroup
from ..graph.nodes import evaluate, numpy_leaves
from .limits import MOST_FORCED_VALUES, MOST_JOINED, MOST_PROBED

Array = np.ndarray
# Steps of a search for a configuration: of the first try, how much longer each later try is, and
# the most of all tries.
BRANCHES, LONGER, MOST_BRANCHES = 100, 1.5, 4_000


@dataclass(frozen=True)
class _Rules:
    """Requirements of one or two cells as tables, and sets of cells that take each value once.

    Attributes:
        tables: cells of shape (n, 2), and the pairs of values that a requirement admits, of shape
            (n, values, values).
        once: the cells of each set, of shape (sets, values).
    """

    tables: list[tuple[Array, Array]]
    once: Array

    def narrowed(self, left: Array) -> Array | None:
        """Return the values that remain, or None if a cell has none.

        Two rules apply until nothing changes. A value needs a value of every other cell that goes
        with it (arc consistency). A value of a set that one cell alone can take is taken there.
        """
        before = -1
        while left.sum() != before:
            before = left.sum()
            for cells, good in self.tables:
                for one, other, table in ((0, 1, good), (1, 0, good.swapaxes(1, 2))):
                    supported = (table & left[cells[:, other], None, : table.shape[2]]).any(axis=2)
                    unsupported = np.zeros_like(left)
                    np.logical_or.at(unsupported[:, : table.shape[1]], cells[:, one], ~supported)
                    left = left & ~unsupported
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


def with_forced(graph: FactorGraph, held: Array, codes: Array) -> tuple[Array, Array] | None:
    """Return the fixed cells together with those that have one possible value left.

    If single steps do not settle all cells, each remaining value is tried in turn. A value whose
    consequences contradict each other is excluded (singleton consistency).

    Args:
        graph: the factor graph, whose requirements of one or two cells count.
        held: booleans over cells.
        codes: their values, shape (cells,).

    Returns:
        Both with more cells, or None if some cell has no value left.

    Reference: Mackworth 1977; Debruyne and Bessiere 1997 for singleton consistency.
    """
    rules, start = _begun(graph, held, codes)
    left = rules.narrowed(start)
    left = None if left is None else _probed(rules, left)
    if left is None:
        return None
    left = left[:-1]
    known = left.sum(axis=1) == 1
    if graph.row_cell is not None:
        known[graph.row_cell] = held[graph.row_cell]  # Its one value stands for every row of given data.
    return known, np.where(known, left.argmax(axis=1), codes).astype(codes.dtype)


def searched(graph: FactorGraph, held: Array, codes: Array, rng: np.random.Generator, accepts: Callable[[Array], bool]) -> Array | None:
    """Search for a configuration that satisfies the requirements of one or two cells, in depth first.

    The search branches at a cell with the fewest values left, among these at one in the most
    requirements. It tries its values in random order, and draws the consequences of each. It begins
    again, with other random choices, after more and more steps. None is returned if there is no
    configuration, or if the search takes too many steps.

    Args:
        graph: the factor graph.
        held: booleans over cells.
        codes: their values, shape (cells,).
        rng: decides the order of equally good cells and of values.
        accepts: whether codes of shape (cells,) satisfy everything else.

    Reference: Brelaz 1979 for the order of cells; Gomes, Selman and Kautz 1998 for restarts.
    """
    rules, start = _begun(graph, held, codes)
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
    """Return an open cell with the fewest values, among these one with the most requirements."""
    open_ = np.flatnonzero(counts > 1)
    fewest = open_[counts[open_] == counts[open_].min()]
    return int(rng.choice(fewest[degrees[fewest] == degrees[fewest].max()]))


def _with_value(left: Array, cell: int, value: int) -> Array:
    tried = left.copy()
    tried[cell] = False
    tried[cell, value] = True
    return tried


def _begun(graph: FactorGraph, held: Array, codes: Array) -> tuple[_Rules, Array]:
    """Return the rules of a graph, and the values that fixed cells leave, (cells + 1, values)."""
    sizes = np.append(graph.sizes, 1)
    values = np.arange(sizes.max())
    return _rules(graph, sizes), (values < sizes[:, None]) & (~np.append(held, False)[:, None] | (values == np.append(codes, 0)[:, None]))


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


def _rules(graph: FactorGraph, sizes: Array) -> _Rules:
    tables = [found for g in graph.groups if g.kind == "require" for found in _pairs(g, sizes)]
    return _Rules(tables, _taken_once(tables, sizes))


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


def _pairs(group: FactorGroup, sizes: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the cells of a requirement of one or two cells, (n, 2), and at which of their values it holds, (n, values, values)."""
    shape = sizes[group.cells].max(axis=0, initial=1).tolist()
    alike = group.n and group.given is None and (sizes[group.cells] == shape).all()
    if not alike or not 1 <= len(shape) <= 2 or group.n * np.prod(shape) > MOST_FORCED_VALUES:
        return
    codes = dict(enumerate(np.indices(shape).reshape(len(shape), -1)))
    with np.errstate(all="ignore"):
        good = evaluate(group.root, numpy_leaves(group.columns, group.tables, codes, slice(0, group.n)))
    good = np.broadcast_to(np.asarray(good, bool), (group.n, int(np.prod(shape)))).reshape(group.n, shape[0], -1)
    yield group.cells[:, [0, -1]], (good & np.eye(shape[0], dtype=bool) if len(shape) == 1 else good)
