"""The factors that are added into the tables of an elimination, as index arrays.

Each distinct table is listed once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..graph import FactorGraph, FactorGroup
from ._elimination import Elimination
from ._stages import axes_of, bits_to_axes, listed_by, places
from .limits import MOST_COMPARED_ENTRIES

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class FactorTables:
    """Sums of factors as tables of one shape, for all stages of an elimination.

    Attributes:
        by_row: whether the factors also mention known cells, so that rows differ.
        cells: the cells of each table, in the order of their elimination, shape (tables, members).
        radix: the shape of each table: the number of values of each member, or a larger one.
        touch: for each group the factors that are added into each table, padded with -1, shape
            (tables, most).
    """

    by_row: bool
    cells: Array
    radix: tuple[int, ...]
    touch: tuple[Array, ...]

    @property
    def entries(self) -> float:
        """The number of entries of all tables, for one row."""
        return len(self.cells) * float(np.prod(np.array(self.radix, float)))


@dataclass(frozen=True, eq=False)
class TableUse:
    """The factor tables that are added into a stage's tables.

    Attributes:
        tables: the number of the `FactorTables`.
        axes: the axes of the stage's tables that they cover, ascending.
        slots: the table that each place takes, with the number of tables for none, shape (levels,
            width).
    """

    tables: int
    axes: tuple[int, ...]
    slots: Array


@dataclass(frozen=True, eq=False)
class Placed:
    """The factors of one group, with the tables that take them.

    Attributes:
        rest: the factors that mention no free cell.
        instances: the other factors.
        stage: the stage of the table that takes each of them.
        place: the place of that table in the stage.
        bits: the axes that each of them covers, as bits.
        by_row: whether each of them mentions known cells.
        content: numbers that are equal only for factors with equal tables, unless they are
            `by_row`.
    """

    rest: Array
    instances: Array
    stage: Array
    place: Array
    bits: Array
    by_row: Array
    content: Array

    def kinds(self, stage: int) -> set[tuple[int, bool]]:
        """Return the axes of a stage's tables that factors cover, and whether these are by row."""
        here = self.stage == stage
        return set(zip(self.bits[here].tolist(), self.by_row[here].tolist(), strict=True))

    def among(self, members: list[tuple[int, int]], by_row: bool) -> Array:
        """Return a mask of the factors in one of the given stages, over the axes given with it."""
        out = np.zeros(len(self.instances), bool)
        for stage, bits in members:
            out |= (self.stage == stage) & (self.bits == bits) & (self.by_row == by_row)
        return out


def place_factors(graph: FactorGraph, plan: Elimination) -> tuple[Placed, ...]:
    """Assign each factor to the table of its first cell in the order of elimination."""
    stage, place = places(plan.stages, len(plan.parents))
    return tuple(_placed(g, plan, plan.step_of, stage, place) for g in graph.groups)


def _placed(group: FactorGroup, plan: Elimination, step_of: Array, stage: Array, place: Array) -> Placed:
    steps, none = step_of[group.cells], len(plan.parents)
    first = steps.min(axis=1) if group.cells.shape[1] else np.full(group.n, none)
    instances = np.flatnonzero(first < none)
    cells, step, is_free = group.cells[instances], first[instances], steps[instances] < none
    by_row = np.any((cells < plan.n_cells) & ~is_free, axis=1)
    bits = axes_of(np.where(is_free, cells, plan.n_cells), plan.scopes[step], plan.n_cells)
    content = _content(group, instances, plan.scopes[step], plan.radix[step], is_free)
    return Placed(np.flatnonzero(first == none), instances, stage[step], place[step], bits, by_row, content)


def _content(group: FactorGroup, instances: Array, scopes: Array, radix: Array, is_free: Array) -> Array:
    """Return equal numbers for factors with equal numbers and cells in the same roles.

    Such factors have the same table.
    """
    varying = [c for c in group.columns if c.shape[0] > 1]
    size = sum(c[:1].size for c in varying) + group.cells.shape[1] + radix.shape[1]
    if not len(instances) or len(instances) * size > MOST_COMPARED_ENTRIES:
        return np.arange(len(instances))
    roles = np.stack([np.where(f, _axis_of(c, scopes), -1) for c, f in zip(group.cells[instances].T, is_free.T, strict=True)], axis=1)
    numbers = [c[instances].reshape(len(instances), -1).astype(float) for c in varying]
    keys = np.ascontiguousarray(np.concatenate([roles.astype(float), radix.astype(float), *numbers], axis=1) + 0.0)
    return np.unique(keys.view(f"V{keys.shape[1] * 8}"), return_inverse=True)[1].reshape(-1)


def _axis_of(cells: Array, scopes: Array) -> Array:
    return np.argmax(scopes == cells[:, None], axis=1)


def _table_kinds(plan: Elimination, factors: tuple[Placed, ...]) -> dict[tuple[tuple[int, ...], bool], list[tuple[int, int]]]:
    """Return the stages and bits of the tables of each shape, those of each row apart."""
    kinds: dict[tuple[tuple[int, ...], bool], list[tuple[int, int]]] = {}
    for k, stage in enumerate(plan.stages):
        for bits, by_row in sorted({p for f in factors for p in f.kinds(k)}):
            radix = tuple(stage.radix[a] for a in bits_to_axes(bits))
            kinds.setdefault((radix, by_row), []).append((k, bits))
    return kinds


def factor_tables(
    graph: FactorGraph, plan: Elimination, factors: tuple[Placed, ...]
) -> tuple[tuple[FactorTables, ...], tuple[tuple[TableUse, ...], ...]]:
    """Return all factor tables, grouped by shape, and for each stage the tables that it uses."""
    sizes = [s.size for s in plan.stages]
    first = np.cumsum([0, *sizes])
    steps = np.concatenate([s.steps.ravel() for s in plan.stages] or [np.zeros(0, np.int64)])
    sets: list[FactorTables] = []
    uses: list[list[TableUse]] = [[] for _ in plan.stages]
    for (radix, by_row), members in _table_kinds(plan, factors).items():
        # A table is identified by its place among those of all stages and by the axes that it
        # covers.
        chosen = [f.among(members, by_row) for f in factors]
        keys = [np.stack([first[f.stage[c]] + f.place[c], f.bits[c]], axis=1) for f, c in zip(factors, chosen, strict=True)]
        tables, number = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
        ends = np.cumsum([len(k) for k in keys])[:-1]
        at = np.split(number.reshape(-1), ends)
        touch = [listed_by(a, f.instances[c], len(tables)) for f, c, a in zip(factors, chosen, at, strict=True)]
        keep, table_of = np.arange(len(tables)), np.arange(len(tables))
        if not by_row:
            contents = [np.sort(listed_by(a, f.content[c], len(tables)), axis=1) for f, c, a in zip(factors, chosen, at, strict=True)]
            _, keep, table_of = np.unique(np.concatenate(contents, axis=1), axis=0, return_index=True, return_inverse=True)
        cells = np.full((len(keep), len(radix)), graph.n_cells)
        for bits in {b for _, b in members}:
            mine = tables[keep, 1] == bits
            cells[mine] = plan.scopes[steps[tables[keep[mine], 0]]][:, bits_to_axes(bits)]
        for k, bits in members:
            here = (tables[:, 1] == bits) & (tables[:, 0] >= first[k]) & (tables[:, 0] < first[k + 1])
            slots = np.full(sizes[k], len(keep))
            slots[tables[here, 0] - first[k]] = table_of.reshape(-1)[here]
            uses[k].append(TableUse(len(sets), bits_to_axes(bits), slots.reshape(plan.stages[k].levels, -1)))
        sets.append(FactorTables(by_row, cells, radix, tuple(t[keep] for t in touch)))
    return tuple(sets), tuple(tuple(u) for u in uses)
