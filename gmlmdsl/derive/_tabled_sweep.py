"""Sweeps of single cells that read tables instead of evaluating a tree for each value and step.

`plan/_sweep_layout.py` states where entries and neighbours are stored. Scores are differences from
the score of each cell's first value. Codes are stored as small integers in the order in which cells
are redrawn, so that a colour is a slice. Each random number is drawn where it is used. At known
parameters (`plan.ScoreForm`), weights exp(score) are multiplied, and scores take fewer comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .._diagnostics import fail
from ..graph import FactorGraph
from ..plan import Exceptions, FactorTable, ScoreForm, SweepTables, TabledColours, block_arrays, every_entry, score_form
from ._arrays import Blocks, Graph, float_type, on_device
from ._block_tables import entries_of, table_codes
from ._conditional import tempered
from ._energy import Codes, scores_in_turn
from ._kernel import AbstractKernel, Info, State, Target, free
from ._loop import INSIDE
from ._mesh import Spread
from ._picks import levels_of, pick_of_few, pick_of_weights, pick_value
from ._random import Words, behind, fold, made_apart, words
from .limits import FEW_NEIGHBOURS, LEAST_SHARED, MOST_UNROLLED

if TYPE_CHECKING:
    from jax.typing import DTypeLike

# The scores of all values except the first: one array for each value if they are few, else one
# array for all of them.
Scores = list[Float[Array, "blocks *values chains"]]


class Lists(eqx.Module):
    """`plan.NeighbourLists` on the device, without their places.

    The leading axes are colours, blocks.
    """

    slots: Int[Array, "*lead degree members"]
    strides: Int[Array, "*lead degree members"] | None  # None: every neighbour is one cell


class Places(eqx.Module):
    """Places of the entries of `TabledColours`."""

    inside: Int[Array, "colours blocks several values"]
    matrices: tuple[Int[Array, "colours blocks several values degree width"], ...]


class Scoring(eqx.Module):
    """Numbers from which scores are computed, -inf if a cell does not have such a value.

    They are either differences from the first value, without the 0 of the first value itself, or
    given for all values. `matrices` has one array for each kind of neighbours, or the single array
    of products: (colours, values but one x blocks, slots x width but one).
    """

    constant: Float[Array, "*lead values"]
    matrices: tuple[Array, ...]


class Colours(eqx.Module):
    """`plan.TabledColours` on the device.

    `rest` has the groups without a table, with cells numbered by their slots; it is None if no such
    group touches these cells.
    """

    cells: Int[Array, "colours blocks"]
    lists: tuple[Lists, ...]
    places: Places
    rest: Blocks | None
    start: int = eqx.field(static=True)

    @property
    def blocks(self) -> int:
        """Number of cells of a colour, padding included."""
        return self.cells.shape[1]

    @property
    def values(self) -> int:
        """Maximum number of values of a cell."""
        return self.places.inside.shape[-1]


class Reading(NamedTuple):
    """Form in which the lists of a stage are read, see `plan.ScoreForm`."""

    written: bool
    weighed: bool
    whole: bool
    exceptions: tuple[tuple[Exceptions, ...], ...]


class Turn(eqx.Module):
    """One colour: the entries of `Colours` and `Scoring` without the axis of colours."""

    number: Int[Array, ""]
    cells: Int[Array, " blocks"]
    lists: tuple[Lists, ...]
    rest: Blocks | None
    scoring: Scoring


class TabledSweepKernel(AbstractKernel):
    """Kernel that redraws every cell of a list once, colour after colour.

    The cells of one colour are redrawn at once.

    Attributes:
        plans: the tables of the graph's factors.
        most_values: the maximum number of values of a cell.
        by_product: whether all scores of a colour are one product with indicators of all cells,
            which then are the state of a sweep.
        rest: the groups without a table.
        codes: the codes of the slots of the tables, see `Table`.
        order: the cell at each slot, the number of cells for none.
        slots: the slot of each cell.
        stages: colours in order; colours of similar size share a stage.
        form: the form in which lists are read at known parameters; None: the form for any
            parameters.
        scorings: the scorings of the stages at some parameters; None before `prepared`.
        weighings: the exponentials of the scorings, if weights are multiplied.
    """

    plans: tuple[FactorTable, ...] = eqx.field(static=True)
    most_values: int = eqx.field(static=True)
    by_product: bool = eqx.field(static=True)
    rest: tuple[int, ...] = eqx.field(static=True)
    codes: tuple[tuple[Int[Array, "factors values"], ...], ...]
    order: Int[Array, " slots"]
    slots: Int[Array, " cells"]
    stages: tuple[Colours, ...]
    form: ScoreForm | None = eqx.field(static=True, default=None)
    scorings: tuple[Scoring, ...] | None = None
    weighings: tuple[Scoring, ...] | None = None

    def held(self, cells: int) -> float:
        scores = max((s.blocks * (s.values + 1) for s in self.stages), default=0)
        width = max((m.shape[-1] for s in self.stages for m in s.places.matrices), default=1)
        return float(scores + self.by_product * cells * (width - 1)) * float_type().itemsize

    def over(self, spread: Spread) -> TabledSweepKernel:
        """Return the kernel with the cells of each colour over an axis of a mesh.

        All devices hold the whole state. Each draws its cells of a colour, and XLA gathers what
        was drawn, once for each colour.

        Raises:
            GmlmError: E507 for a colour that the devices do not share equally.
        """
        for blocks in (s.blocks for s in self.stages):
            if blocks % spread.devices:
                message = f"{spread.devices} devices do not share the {blocks:,} cells of a colour equally"
                raise fail("E507", message, help="take a number of devices that divides them")
        alike = self.form.alike if self.form else (False,) * len(self.stages)
        stages = jax.tree.map(lambda a: spread.put(np.asarray(a), 1), self.stages)
        # Every device reads the entries of the cell that represents all.
        every = zip(stages, self.stages, alike, strict=True)
        kept = [replace(s, places=(whole if same else s).places) for s, whole, same in every]
        return replace(self, stages=tuple(kept))

    def swept_cells(self, stage: Colours) -> Int[Array, "colours blocks"]:
        """Return the cells of a stage as all devices hold them, also if the stage is spread."""
        return self.order[stage.start : stage.start + stage.cells.size].reshape(stage.cells.shape)

    def drawn(self, target: Target) -> Int[Array, ""]:
        """Return the number of cells that a sweep redraws."""
        counts = (free(target, self.swept_cells(s)).sum(dtype=jnp.int32) for s in self.stages)
        return sum(counts, jnp.zeros((), jnp.int32))

    def prepared(self, target: Target) -> TabledSweepKernel:
        if self.scorings is not None:
            return self
        entries = entries_of(target.graph, target.params, self.plans, self.codes)
        make = _product_scoring if self.by_product else _list_scoring
        whole, alike = (self.form.whole, self.form.alike) if self.form else ((False,) * len(self.stages),) * 2
        each = zip(((s.places, self.swept_cells(s)) for s in self.stages), alike, strict=True)
        # one cell represents all identical ones
        read = [jax.tree.map(lambda a: a[:, :1], s) if same else s for s, same in each]
        made = (make(entries, places, target.graph.sizes[cells], w) for (places, cells), w in zip(read, whole, strict=True))
        found = tuple(made)
        weighings = jax.tree.map(jnp.exp, found) if self.form and self.form.weighed else None
        return replace(self, scorings=found, weighings=weighings)

    def formed(self, entries: np.ndarray, sizes: np.ndarray) -> TabledSweepKernel:
        """Return the kernel in its form for parameters at which the tables have these entries.

        `sizes` has the number of values of each cell. Both arrays are on the host.
        """
        if self.by_product:
            return self
        places = [(np.asarray(s.places.inside), [np.asarray(m) for m in s.places.matrices]) for s in self.stages]
        each = [np.append(sizes, 0)[np.asarray(s.cells)] for s in self.stages]
        return replace(self, form=score_form(entries, places, MOST_UNROLLED, each))

    def reading(self, target: Target, stage: int) -> Reading:
        """Return the form in which the lists of a stage are read."""
        s = self.stages[stage]
        if self.form is None:
            few = s.values <= MOST_UNROLLED
            entries = tuple(every_entry(s.values - 1 if few else 1, m.shape[-1]) for m in s.places.matrices)
            return Reading(few, False, False, entries)
        written = self.form.written[stage]
        weighed = written and self.form.weighed and target.beta is None and s.rest is None
        return Reading(written, weighed, self.form.whole[stage], self.form.exceptions[stage])

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        carried, info = self.move(target, keys, self.enter(target, state))
        return self.leave(target, carried), info

    def enter(self, target: Target, state: State) -> Array:
        """Return the codes in the order of colours, or indicators of their values."""
        del target
        small = jnp.int8 if self.most_values <= 127 else jnp.int32
        held = jnp.concatenate([state.codes.astype(small), jnp.zeros((1, state.codes.shape[1]), small)]).at[self.order].get(**INSIDE)
        return _indicators(held, self.width) if self.width else held

    def leave(self, target: Target, carried: Array) -> State:
        del target
        return State(_codes(carried, self.width, jnp.int32).at[self.slots].get(**INSIDE))

    @property
    def width(self) -> int:
        """Number of values after the first whose indicators are stored; 0 if codes are stored."""
        return self.most_values - 1 if self.by_product else 0

    def move(self, target: Target, keys: PRNGKeyArray, carried: Array) -> tuple[Array, Info]:
        ready, width, held = self.prepared(target), self.width, carried
        scorings = ready.scorings
        assert scorings is not None
        for k, stage in enumerate(self.stages):
            how = self.reading(target, k)
            scoring = ready.weighings[k] if how.weighed and ready.weighings else scorings[k]
            held = self.swept(target, fold(keys, k), stage, how, scoring, held, width)
        before, after = (_codes(h, width, jnp.int8 if self.most_values <= 127 else jnp.int32) for h in (carried, held))
        drawn = self.drawn(target)
        none = jnp.zeros((0, before.shape[1]), jnp.int32)
        changed = (before != after).sum(axis=0, dtype=jnp.int32)
        return held, Info(changed[None], jnp.broadcast_to(drawn, (1, before.shape[1])), none, none)

    def swept(self, target: Target, keys: PRNGKeyArray, stage: Colours, how: Reading, scoring: Scoring, held: Array, width: int) -> Array:
        """Return the state after all colours of a stage.

        Args:
            target: the distribution to draw from.
            keys: a key for each chain.
            stage: the colours.
            how: the form in which lists are read.
            scoring: the numbers from which scores are computed.
            held: the state before: codes, or indicators of `width` values of each cell.
            width: the number of values whose indicators are stored; 0 if codes are stored.
        """
        n, each = stage.blocks, max(width, 1)
        levels, rest = levels_of(stage.values), behind(keys)
        many = words(keys, (stage.cells.shape[0], n), levels, rest=rest).colours if width else None

        def one(held: Array, inputs: tuple[Turn, tuple[Array, Array] | None]) -> tuple[Array, None]:
            turn, given = inputs
            first = stage.start + turn.number * n
            scores = _product_scores(turn.scoring, held, stage.values <= MOST_UNROLLED) if width else _list_scores(turn, held, how)
            if target.beta is not None:
                scores = [tempered(s, target.beta) for s in scores]
            drawn = words(keys, (n,), levels, turn.number * n, rest) if given is None else Words(*given, rest)
            new, possible = _drawn(scores, self.excluded(target, turn, held, width), drawn, how)
            if turn.rest is not None or target.clamped is not None:
                old = _codes(jax.lax.dynamic_slice_in_dim(held, first * each, n * each), width, new.dtype)
                stays = ~possible if target.clamped is None else ~possible | target.clamped[turn.cells][:, None]
                new = jnp.where(stays, old, new)
            new = _indicators(new, width) if width else new.astype(held.dtype)
            new = made_apart(new) if new.size >= LEAST_SHARED else new
            return jax.lax.dynamic_update_slice_in_dim(held, new, first * each, axis=0), None

        turns = Turn(jnp.arange(stage.cells.shape[0]), stage.cells, stage.lists, stage.rest, scoring)
        return jax.lax.scan(one, held, (turns, many))[0]

    def excluded(self, target: Target, turn: Turn, held: Array, width: int) -> Float[Array, "blocks values chains"] | None:
        """Return the scores of the groups without a table; None if there are none.

        Args:
            target: the distribution to draw from.
            turn: the colour.
            held: the state.
            width: as in `swept`.
        """
        if turn.rest is None:
            return None
        groups = (target.graph.groups[k] for k in self.rest)
        here = tuple(eqx.tree_at(lambda g: g.cells, g, self.slots[g.cells]) for g in groups)
        codes = _codes(held, width, jnp.int32)
        more = scores_in_turn(Graph(codes.shape[0], self.most_values, here, target.graph.sizes), target.params, codes, turn.rest)
        return more if target.beta is None else tempered(more, target.beta)


def tabled_sweep(host: FactorGraph, plan: SweepTables) -> TabledSweepKernel:
    """Return a planned sweep on the device."""
    sizes = np.append(host.sizes, 1)
    codes = tuple(table_codes(t, sizes[host.groups[t.group].cells]) for t in plan.tables.tables)
    stages = tuple(_colours(host, plan, s) for s in plan.stages)
    most = int(host.sizes.max(initial=1))
    rest = plan.tables.rest
    return TabledSweepKernel(plan.tables.tables, most, plan.by_product, rest, codes, _ints(plan.order), _ints(plan.slots), stages)


def _colours(host: FactorGraph, plan: SweepTables, s: TabledColours) -> Colours:
    lists = tuple(Lists(_ints(k.slots), _ints(k.strides) if k.slots.shape[-1] > 1 else None) for k in s.lists)
    matrices = tuple(k.places for k in s.lists)
    if s.product is not None:
        lists, matrices = (), (s.product,)
    places = Places(_ints(s.inside), tuple(_ints(m) for m in matrices))
    return Colours(_ints(s.cells), lists, places, _rest(host, plan, s.cells), s.start)


def _rest(host: FactorGraph, plan: SweepTables, cells: np.ndarray) -> Blocks | None:
    """Return the blocks that groups without a table score, with cells numbered by their slots."""
    if not plan.tables.rest:
        return None
    at, radix, strides, *touch = block_arrays(host, cells.reshape(-1, 1))
    touch = [touch[k] for k in plan.tables.rest]
    if not any(t.shape[1] for t in touch):
        return None
    at = np.append(plan.slots, len(plan.order) - 1)[at]
    cell, sizes, places, *instances = (_ints(a.reshape(*cells.shape, -1, 1)) for a in (at, radix, strides, *touch))
    return Blocks(int(radix.max()), cell, sizes, places, tuple(instances))


def _ints(a: np.ndarray) -> Array:
    return on_device(a, np.int32)


def _list_scoring(entries: Array, places: Places, sizes: Int[Array, "colours blocks"], whole: bool) -> Scoring:
    # axes: colours, blocks, values, degree, width
    sums = [entries[m].sum(axis=2) for m in places.matrices]
    # The first entry of each neighbour is subtracted; probabilities do not depend on it.
    if whole:
        return Scoring(_constant(entries, places, sizes, whole), tuple(s - s[:, :, :1, :, :1] for s in sums))
    return Scoring(_constant(entries, places, sizes, whole), tuple(s[:, :, 1:] - s[:, :, :1] for s in sums))


def _product_scoring(entries: Array, places: Places, sizes: Int[Array, "colours blocks"], whole: bool) -> Scoring:
    """Return the scoring by products.

    The entries at the first value of every neighbour are added to the constant.
    """
    (m,) = _list_scoring(entries, places, sizes, whole).matrices
    constant = _constant(entries, places, sizes, whole) + m[..., 0].sum(axis=3)
    return Scoring(constant, ((m[..., 1:] - m[..., :1]).reshape(m.shape[0], m.shape[1] * m.shape[2], -1),))


def _constant(entries: Array, places: Places, sizes: Int[Array, "colours blocks"], whole: bool) -> Float[Array, "colours blocks values"]:
    alone, first = entries[places.inside].sum(axis=2), 0 if whole else 1
    exists = jnp.arange(first, alone.shape[2], dtype=sizes.dtype)[None, None] < sizes[:, :, None]
    return jnp.where(exists, alone[:, :, first:] - alone[:, :, :1], -jnp.inf)


def _indicators(codes: Codes, width: int) -> Float[Array, "cells_x_width chains"]:
    """Return 1 where a cell has a value, for each of `width` values after the first."""
    values = jnp.arange(1, width + 1, dtype=codes.dtype)
    return (codes[:, None] == values[None, :, None]).astype(float_type()).reshape(-1, codes.shape[1])


def _codes(held: Array, width: int, dtype: DTypeLike) -> Codes:
    """Return codes from the state, which are codes or indicators of `width` values."""
    if not width:
        return held.astype(dtype)
    values = jnp.arange(1, width + 1, dtype=held.dtype)[None, :, None]
    return (held.reshape(-1, width, held.shape[1]) * values).sum(axis=1).astype(dtype)


def _product_scores(scoring: Scoring, seen: Float[Array, "slots_x_width chains"], written: bool) -> Scores:
    (matrix,) = scoring.matrices
    return _apart((matrix @ seen).reshape(*scoring.constant.shape, seen.shape[1]) + scoring.constant[..., None], written)


def _list_scores(turn: Turn, codes: Codes, how: Reading) -> Scores:
    """Return the sum over neighbours, one kind after another, or the product of weights."""
    constant = turn.scoring.constant
    blocks = turn.lists[0].slots.shape[0] if turn.lists else constant.shape[0]  # Equal blocks may share one constant.
    scores = _apart(jnp.broadcast_to(constant[..., None], (blocks, constant.shape[1], codes.shape[1])), how.written)
    join = jnp.multiply if how.weighed else jnp.add
    for matrix, lists, exceptions in zip(turn.scoring.matrices, turn.lists, how.exceptions, strict=True):

        def add(scores: Scores, one: tuple[Lists, Array], exceptions: tuple[Exceptions, ...] = exceptions) -> tuple[Scores, None]:
            value = _joint_value(codes, one[0])
            return [join(s, _picked(m, value, e)) for s, m, e in zip(scores, _apart(one[1], how.written), exceptions, strict=True)], None

        each = jax.tree.map(lambda a: jnp.moveaxis(a, 1, 0), lists), jnp.moveaxis(matrix, 2, 0)
        scores = _in_turn(add, scores, each, matrix.shape[2])
    return scores


def _joint_value(codes: Codes, lists: Lists) -> Int[Array, "blocks chains"]:
    """Return the number of the joint value that one neighbour of each cell has."""
    if lists.strides is None:
        return codes.at[lists.slots[:, 0]].get(**INSIDE)
    members = (codes.at[lists.slots[:, m]].get(**INSIDE).astype(jnp.int32) for m in range(lists.slots.shape[1]))
    parts = (code * lists.strides[:, m, None] for m, code in enumerate(members))
    return sum(parts, jnp.zeros((), jnp.int32))


def _picked(
    matrix: Float[Array, "blocks *values width"], value: Int[Array, "blocks chains"], exceptions: Exceptions
) -> Float[Array, "blocks *values chains"]:
    """Return the entry of the matrix at each value, by comparisons.

    Comparisons are vectorised, whereas a look-up is not.
    """
    usual, others = exceptions
    found, value = matrix[..., usual, None], value if matrix.ndim == 2 else value[:, None]
    for k in others:
        found = jnp.where(value == k, matrix[..., k, None], found)
    return found


def _apart(scores: Float[Array, "blocks values *rest"], written: bool) -> list[Array]:
    """Return one array for each value if values are written out, else one array for all of them.

    An axis of values in the middle prevents the vectorisation of the loop over chains.
    """
    return [scores[:, v] for v in range(scores.shape[1])] if written else [scores]


def _drawn(scores: Scores, more: Array | None, drawn: Words, how: Reading) -> tuple[Int[Array, "blocks chains"], Array]:
    """Draw values, see `pick_value`.

    `more` is added to the scores. Unless the scores are given for all values, that of the first
    value is 0.
    """
    if len(scores) == 1 and scores[0].ndim == 3:
        whole = scores[0] if how.whole else jnp.pad(scores[0], ((0, 0), (1, 0), (0, 0)))
        return pick_value(whole if more is None else whole + more, drawn)
    shape = drawn.high.shape[1:]
    first = [] if how.whole else [jnp.full(shape, float(how.weighed), float_type())]
    if how.weighed:
        return pick_of_weights([*first, *scores], drawn), jnp.ones(shape, bool)
    each = [*first, *scores]
    return pick_of_few(each if more is None else [s + more[:, v] for v, s in enumerate(each)], drawn)


T = TypeVar("T")


def _in_turn(step: Callable[[T, PyTree], tuple[T, None]], start: T, inputs: PyTree, count: int) -> T:
    """Do the same as `jax.lax.scan`, with a small number of iterations written out."""
    if count > FEW_NEIGHBOURS:
        return jax.lax.scan(step, start, inputs)[0]
    for k in range(count):
        start, _ = step(start, jax.tree.map(lambda a, k=k: a[k], inputs))
    return start
