"""An elimination on the device.

Index arrays state which factors and messages are added into each table.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Int

from ..graph import FactorGraph
from ..plan import Elimination, factor_tables, place_factors, plan_loop, step_places
from ..plan import FactorTables as PlannedTables
from ..plan import Loop as PlannedLoop
from ..plan import TableUse as PlannedUse
from ._arrays import Blocks, on_device


class FactorTables(eqx.Module):
    """Sums of factors as tables of one shape; see `plan.FactorTables`.

    Attributes:
        radix: the shape of a table.
        by_row: whether the tables differ between rows.
        blocks: the cells of each table and the factors of each group that it contains;
            `blocks.radix` equals `radix`.
        sizes: the actual number of values of each cell, shape (tables, members, 1).
    """

    radix: tuple[int, ...] = eqx.field(static=True)
    by_row: bool = eqx.field(static=True)
    blocks: Blocks
    sizes: Int[Array, "tables members 1"]


class TableUse(eqx.Module):
    """Factor tables that are added into the tables of a stage; see `plan.TableUse`."""

    tables: int = eqx.field(static=True)
    axes: tuple[int, ...] = eqx.field(static=True)
    slots: Int[Array, "levels width"]


class Feed(eqx.Module):
    """Messages into the tables of a stage; see `plan.Feed`."""

    source: int = eqx.field(static=True)
    axes: tuple[int, ...] = eqx.field(static=True)
    slots: Int[Array, "levels width each"]
    to: Int[Array, "levels edges"] | None
    follower: int | None = eqx.field(static=True, default=None)


class Follower(eqx.Module):
    """Partial sums that follow from the cells of a stage's tables; see `plan.Follower`.

    Attributes:
        first: the number of the first of their places, which come after those of all stages.
    """

    axes: tuple[int, ...] = eqx.field(static=True)
    first: int = eqx.field(static=True)
    codes: Int[Array, "levels width values"]


class Stage(eqx.Module):
    """Tables of one shape; see `plan.Stage`.

    Attributes:
        radix: the shape of a table.
        levels, width: the number of levels, and of tables in a level.
        first: the number of the stage's first place among the places of all stages.
        cells: the free cell that is eliminated in each place, the number of free cells for none,
            shape (levels, width).
        others: the places, among those of all stages, where the other cells of each table are
            eliminated, shape (levels, width, axes - 1).
        sizes: the actual number of values of each axis, shape (levels, width, axes); None if it
            equals `radix` everywhere.
        roots: places whose table has one cell; the sum of the table is the sum of a component.
        uses: the factor tables that are added into the tables of the stage.
        feeds: the messages that are added into the tables of the stage.
        followers: the partial sums that follow in its places.
    """

    radix: tuple[int, ...] = eqx.field(static=True)
    levels: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    first: int = eqx.field(static=True)
    cells: Int[Array, "levels width"]
    others: Int[Array, "levels width others"]
    sizes: Int[Array, "levels width axes"] | None
    roots: Int[Array, " roots"]
    uses: tuple[TableUse, ...]
    feeds: tuple[Feed, ...]
    followers: tuple[Follower, ...] = ()


class Loop(eqx.Module):
    """An elimination as one loop over blocks of similar size.

    `plan.Loop` describes the attributes that are missing here.

    Attributes:
        n_components: the number of component sums.
        possible: the values that each own table has, shape (steps + 2, values).
        cells: the free cell that each step eliminates.
        steps: the step of each free cell.
        numbers: the number of the draw of each step, shape (steps + 1,).
        turns: `base`, `stride`, `pattern` of every iteration, and the place to which it writes.
    """

    n_components: int = eqx.field(static=True)
    lanes: int = eqx.field(static=True)
    possible: Bool[Array, "own values"]
    cells: Int[Array, " steps"]
    steps: Int[Array, " free"]
    numbers: Int[Array, " steps_and_none"]
    uses: tuple[Int[Array, " uses"], ...]
    single: tuple[Int[Array, "2 uses"], ...]
    component: Int[Array, " places"]
    turns: tuple[
        Int[Array, "turns blocks sources"], Int[Array, "turns blocks sources"], Int[Array, "turns blocks sources"], Int[Array, " turns"]
    ]
    patterns: Int[Array, "patterns lanes"]
    roots: Int[Array, " components"]
    picks: Int[Array, "turns cells"]
    others: Int[Array, "steps_and_none others"]
    bases: Int[Array, "steps_and_none sources"]
    strides: Int[Array, "steps_and_none sources axes"]

    @property
    def entries(self) -> int:
        """Number of table entries in all iterations, for one row."""
        return math.prod(self.turns[0].shape[:2]) * self.lanes * self.possible.shape[1]


class Contraction(eqx.Module):
    """Plan by which the free cells are summed, maximised or drawn given the others.

    Attributes:
        n_cells: the number of cells.
        n_components: the number of components.
        n_places: the number of places in all stages, without those of partial sums that follow.
        n_followers: the number of places of partial sums that follow, which come after them.
        free: positions of the free cells, ascending.
        place: the place, among those of all stages, where each free cell is eliminated.
        component: the component of each free cell.
        root_order: the place of each component's sum among the roots of the stages, one stage after
            another.
        tables: sums of factors, which the stages or the loop use.
        stages: the stages of the elimination if `loop` is None, else empty.
        loop: the elimination as a loop, or None.
        rest: for each group the instances that mention no free cell.
    """

    n_cells: int = eqx.field(static=True)
    n_components: int = eqx.field(static=True)
    n_places: int = eqx.field(static=True)
    n_followers: int = eqx.field(static=True)
    free: Int[Array, " free"]
    place: Int[Array, " free"]
    component: Int[Array, " free"]
    root_order: Int[Array, " components"]
    tables: tuple[FactorTables, ...]
    stages: tuple[Stage, ...]
    loop: Loop | None
    rest: tuple[Int[Array, " instances"], ...]

    @property
    def most_values(self) -> int:
        """Maximum number of values of a free cell, or a larger number."""
        return max((s.radix[0] for s in self.stages), default=1) if self.loop is None else self.loop.possible.shape[-1]

    @property
    def is_by_row(self) -> bool:
        """Whether a cell that is not summed enters a table, so that sums differ between rows."""
        return any(t.by_row for t in self.tables)

    @property
    def entries(self) -> int:
        """Number of entries of all tables, for one row."""
        if self.loop is not None:
            return self.loop.entries
        return sum(s.levels * s.width * math.prod(s.radix) for s in self.stages)


@jax.ensure_compile_time_eval()
def contraction(host: FactorGraph, plan: Elimination) -> Contraction:
    """Return the device form of a plan.

    Its arrays are concrete even while JAX traces the caller, because they are cached.
    """
    stage_of, place_of = step_places(plan.stages, len(plan.parents))
    at = np.array([s.slots for s in plan.stages], np.int64)[stage_of] + place_of if len(plan.stages) else np.zeros(0, np.int64)
    order, factors = np.argsort(plan.cells), place_factors(host, plan)
    n_places = sum(s.size for s in plan.stages)
    roots = np.flatnonzero(plan.parents < 0)
    roots = roots[np.argsort(at[roots])]
    firsts, n_followers = _first_places(plan, n_places)
    tables, uses = factor_tables(host, plan, factors)
    stages, loop = (), None
    if plan.is_looped:
        loop = _loop(plan, plan_loop(plan, tables, uses[0]), at)
    else:
        place = np.full(host.n_cells + 1, n_places + n_followers)
        place[plan.cells] = at
        for s, first in zip(plan.stages, firsts, strict=True):
            for f, start in zip(s.followers, first, strict=True):
                here = np.flatnonzero(f.cells.ravel() >= 0)
                place[f.cells.ravel()[here]] = start + here
        stages = tuple(_stage(host, plan, k, place, uses[k], firsts[k]) for k in range(len(plan.stages)))
    return Contraction(
        host.n_cells,
        plan.n_components,
        n_places,
        n_followers,
        _ints(plan.cells[order]),
        _ints(at[order]),
        _ints(plan.components[order]),
        _ints(np.argsort(plan.components[roots])),
        tuple(_tables(host, t) for t in tables),
        stages,
        loop,
        tuple(_ints(f.rest) for f in factors),
    )


def _first_places(plan: Elimination, n_places: int) -> tuple[list[list[int]], int]:
    """Return the first place of each set of partial sums of each stage, and the number of their places."""
    firsts, at = [], n_places
    for s in plan.stages:
        firsts.append([at + k * s.size for k in range(len(s.followers))])
        at += len(s.followers) * s.size
    return firsts, at - n_places


def _stage(
    host: FactorGraph, plan: Elimination, number: int, place_of_cell: np.ndarray, uses: tuple[PlannedUse, ...], firsts: list[int]
) -> Stage:
    s = plan.stages[number]
    steps, axes, shape = s.steps.ravel(), len(s.radix), (s.levels, s.width)
    here = steps >= 0
    scopes = np.full((len(steps), axes), host.n_cells)
    scopes[here] = plan.scopes[steps[here], :axes]
    sizes = np.append(host.sizes, 1)[scopes]
    sizes[~here] = s.radix  # a place without a step: its content is not used
    index_of_cell = np.full(host.n_cells + 1, len(plan.cells))
    index_of_cell[np.sort(plan.cells)] = np.arange(len(plan.cells))
    return Stage(
        s.radix,
        *shape,
        s.slots,
        _ints(index_of_cell[scopes[:, 0]].reshape(shape)),
        _ints(place_of_cell[scopes[:, 1:]].reshape(*shape, axes - 1)),
        None if (sizes == s.radix).all() else _ints(sizes.reshape(*shape, axes)),
        _ints(np.flatnonzero(here & (plan.parents[np.maximum(steps, 0)] < 0))),
        tuple(TableUse(u.tables, u.axes, _ints(u.slots)) for u in uses),
        tuple(Feed(f.source, f.axes, _ints(f.slots), None if f.to is None else _ints(f.to), f.follower) for f in s.feeds),
        tuple(Follower(f.axes, first, _ints(f.codes)) for f, first in zip(s.followers, firsts, strict=True)),
    )


def _loop(plan: Elimination, found: PlannedLoop, at: np.ndarray) -> Loop:
    order = np.argsort(plan.cells)
    turns, together, _ = found.base.shape
    writes = len(found.component) + np.arange(turns) * together * found.lanes
    return Loop(
        plan.n_components,
        found.lanes,
        on_device(np.arange(int(plan.radix.max(initial=1))) < found.own[:, None]),
        _ints(np.argsort(order)),
        _ints(order),
        _ints(np.append(at, 0)),
        tuple(_ints(u) for u in found.uses),
        tuple(_ints(s) for s in found.single),
        _ints(found.component),
        (_ints(found.base), _ints(found.stride), _ints(found.pattern), _ints(writes)),
        *(_ints(a) for a in (found.patterns, found.roots, found.picks, found.others, found.bases, found.strides)),
    )


def _tables(host: FactorGraph, t: PlannedTables) -> FactorTables:
    radix = np.broadcast_to(t.radix, t.cells.shape)
    strides = np.cumprod(np.concatenate([radix[:, 1:], np.ones((len(radix), 1), np.int64)], axis=1)[:, ::-1], axis=1)[:, ::-1]
    cells, radix, strides, sizes, *touch = (_ints(a[..., None]) for a in (t.cells, radix, strides, host.sizes[t.cells], *t.touch))
    return FactorTables(t.radix, t.by_row, Blocks(int(np.prod(t.radix)), cells, radix, strides, tuple(touch)), sizes)


def _ints(a: np.ndarray) -> Array:
    return on_device(np.asarray(a, np.int32))
