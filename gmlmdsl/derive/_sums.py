"""One routine sums, maximises and draws the free cells of a contraction.

Forward, a table over each cell and those that it is joined to is the sum of its factors and of the
messages that it takes; its own message is the log-sum-exp, or the maximum, over the cell's values.
Backward, every cell is picked given the cells of its table that were picked before: at random, or
the best. On a chain this is forward filtering and backward sampling, or Viterbi's algorithm.

Reference: Dechter 1999, "Bucket elimination"; Rabiner 1989 for chains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ._arrays import Graph, Group, float_type
from ._conditional import maximum as maximum
from ._conditional import pick_value, tempered, total
from ._contraction import Contraction, FactorTables, Stage
from ._energy import Codes, Params, touching_sum
from ._loop import Combine, laws_in_turn, picked_in_turn, placed, summed_in_turn, swept
from ._random import Words

Unary = Float[Array, "free values rows"]
# factor evaluations of like tables from which on their factors are added one after another
LEAST_IN_TURN = 1 << 20


class Inputs(NamedTuple):
    """What is added into tables beside messages: `tables` of shape (tables, *axes, rows or 1), `unary` of (free, values, rows or 1).

    Both have zeros behind, for places without them. Of a loop it is one array, of all that stands
    before its messages.
    """

    tables: tuple[Array, ...]
    unary: Array | None
    rows: int


class Forward(NamedTuple):
    """What the forward pass found: the sum of each component, and what the backward pass needs.

    `messages` are each stage's, of shape (places, *axes, rows) with zeros behind; or all that a
    loop's turns read, in one array, and then there are no `inputs`.
    """

    sums: Float[Array, "components rows"]
    inputs: Inputs
    messages: tuple[Array, ...]


class Level(NamedTuple):
    """What differs between the levels of a stage: arrays with a leading axis of levels, or one level of them."""

    number: Int[Array, ""]
    cells: Int[Array, " width"]
    others: Int[Array, "width others"]
    sizes: Int[Array, "width axes"] | None
    feeds: tuple[tuple[Array, Array | None], ...]
    uses: tuple[Int[Array, " width"], ...]


def forward(
    graph: Graph,
    params: Params,
    codes: Codes,
    c: Contraction,
    unary: Unary | None = None,
    beta: Float[Array, " rows"] | None = None,
    combine: Combine = total,
) -> Forward:
    """The log of the sum (or, with `combine=maximum`, the maximum) over each component's values of exp(factors that touch it).

    Args:
        graph: the factor graph.
        params: parameters.
        codes: (cells, rows); what they hold in free cells does not matter.
        c: the contraction.
        unary: what is added for each value of each free cell, shape (free, most values, rows or 1):
            -inf forbids a value.
        beta: an inverse temperature for each row, which multiplies the factors and not `unary`.
        combine: `total` or `maximum`.

    Returns:
        Sums of shape (components, rows).
    """
    return forward_from(c, inputs_of(graph, params, codes, c, unary, beta), codes.shape[1], combine)


def inputs_of(
    graph: Graph, params: Params, codes: Codes, c: Contraction, unary: Unary | None = None, beta: Float[Array, " rows"] | None = None
) -> Inputs:
    """What sums, maxima and draws begin with; see `forward`."""
    tables = factor_sums(graph, params, codes, c)
    if beta is not None:
        tables = tuple(tempered(t, beta) for t in tables)
    return _inputs(c, tables, codes.shape[1], unary)


def _inputs(c: Contraction, tables: tuple[Array, ...], rows: int, unary: Unary | None) -> Inputs:
    if c.loop is not None:
        return Inputs((placed(c.loop, tables, unary),), None, rows)
    return Inputs(tables, None if unary is None else jnp.concatenate([unary, jnp.zeros_like(unary[:1])]), rows)


def eliminate(c: Contraction, tables: tuple[Array, ...], rows: int, unary: Unary | None = None, combine: Combine = total) -> Forward:
    """The same from factor tables, of shape (tables, *axes, rows or 1) with zeros behind."""
    return forward_from(c, _inputs(c, tables, rows, unary), rows, combine)


def forward_from(c: Contraction, inputs: Inputs, rows: int, combine: Combine = total) -> Forward:
    """The same from all inputs."""
    if c.loop is not None:
        (start,) = inputs.tables
        sums, found = summed_in_turn(start, c.loop) if combine is total else swept(start, c.loop, combine)
        return Forward(jnp.broadcast_to(sums, (c.n_components, rows)), Inputs((), None, rows), (found,))
    inputs = inputs._replace(rows=rows)
    messages: tuple[Array, ...] = ()
    for stage in c.stages:

        def level(own: Array, x: Level, stage: Stage = stage, sent: tuple[Array, ...] = messages) -> tuple[Array, None]:
            message = combine(_joint(stage, x, inputs, (*sent, own)))
            return jax.lax.dynamic_update_slice_in_dim(own, message, x.number * stage.width, axis=0), None

        own = jnp.zeros((stage.levels * stage.width + 1, *stage.radix[1:], rows), float_type())
        messages = (*messages, _over_levels(level, own, stage))
    ends = [(m, s.roots) for m, s in zip(messages, c.stages, strict=True) if s.roots.shape[0]]
    roots = [m[at].reshape(at.shape[0], -1, rows)[:, 0] for m, at in ends]
    sums = jnp.concatenate([jnp.zeros((0, rows), float_type()), *roots])[c.root_order]
    return Forward(sums, inputs, messages)


def backward(c: Contraction, codes: Codes, found: Forward, words: Words | None = None) -> Codes:
    """The free cells picked one after another given those picked before, in the order opposite to that of the sums.

    Args:
        c: the contraction.
        codes: (cells, rows): a component without any possible value stays as it is there.
        found: the forward pass.
        words: random words of shape (places, rows), by which each cell is drawn; None: the best
            value is taken, the first of equals.

    Returns:
        Codes of shape (cells, rows).
    """
    possible = jnp.isfinite(found.sums)[c.component]
    if c.loop is not None:
        picked = picked_in_turn(c.loop, found.messages[0], codes.shape[1], words)[c.loop.steps]
    else:
        picked = _picked(c, found, codes.shape[1], words)[c.place]
    return codes.at[c.free].set(jnp.where(possible, picked, codes[c.free]).astype(codes.dtype))


def _picked(c: Contraction, found: Forward, rows: int, words: Words | None) -> Int[Array, "places rows"]:
    """What `backward` picks in each place of the stages."""
    picked = jnp.zeros((c.n_places + 1, rows), jnp.int32)
    inputs = found.inputs._replace(rows=rows)
    for stage in reversed(c.stages):

        def level(picked: Array, x: Level, stage: Stage = stage) -> tuple[Array, None]:
            scores = _slice(stage, x, inputs, found.messages, picked)
            start = stage.first + x.number * stage.width
            if words is None:
                value = jnp.argmax(scores, axis=1).astype(jnp.int32)
            else:
                value, _ = pick_value(scores, words.having(lambda w: jax.lax.dynamic_slice_in_dim(w, start, stage.width, axis=1)))
            return jax.lax.dynamic_update_slice_in_dim(picked, value, start, axis=0), None

        picked = _over_levels(level, picked, stage, reverse=True)
    return picked


def rest_sum(graph: Graph, params: Params, codes: Codes, c: Contraction) -> Float[Array, " rows"]:
    """The sum of the factors that mention no free cell; -inf where one of their requirements fails."""
    total = jnp.zeros(codes.shape[1], float_type())
    nobody, nothing = jnp.full((1, 1, 1), c.n_cells, jnp.int32), jnp.zeros((1, 1, 1, 1), jnp.int32)
    for group, instances in zip(graph.groups, c.rest, strict=True):
        if instances.shape[0]:
            total = total + touching_sum(group, params, codes, nobody, instances[None, :, None], nothing)[0, 0]
    return total


def laws(c: Contraction, found: Forward, values: int) -> Unary:
    """p(x_i = v | the rest) of every free cell, by the messages of a loop: 0 in a component without any possible value.

    Args:
        c: a contraction that is one loop.
        found: its forward pass.
        values: how many values each cell gets: entries beyond its own are 0.
    """
    assert c.loop is not None
    table = laws_in_turn(c.loop, found.messages[0])
    return jnp.pad(table, ((0, 0), (0, values - table.shape[1]), (0, 0)))


def log_sum(graph: Graph, params: Params, codes: Codes, c: Contraction, unary: Unary | None = None) -> Float[Array, " rows"]:
    """log of the sum over the free cells of exp(log_potential), the other cells as in `codes`."""
    return rest_sum(graph, params, codes, c) + forward(graph, params, codes, c, unary).sums.sum(axis=0)


def evidence(graph: Graph, codes: Codes, c: Contraction) -> Unary:
    """What `unary` is where free cells are known in some rows: only the value of `codes` is possible; -1 leaves all."""
    here = codes[c.free][:, None]
    values = jnp.arange(graph.most_values, dtype=codes.dtype)[None, :, None]
    return jnp.where((here < 0) | (values == here), 0.0, -jnp.inf).astype(float_type())


def _over_levels(level: Callable[[Array, Level], tuple[Array, None]], carry: Array, stage: Stage, reverse: bool = False) -> Array:
    """Level after level, by one loop where there are several."""
    feeds, uses = tuple((f.slots, f.to) for f in stage.feeds), tuple(u.slots for u in stage.uses)
    every = Level(jnp.arange(stage.levels, dtype=jnp.int32), stage.cells, stage.others, stage.sizes, feeds, uses)
    if stage.levels == 1:
        return level(carry, jax.tree.map(lambda a: a[0], every))[0]
    return jax.lax.scan(level, carry, every, reverse=reverse)[0]


def factor_sums(graph: Graph, params: Params, codes: Codes, c: Contraction) -> tuple[Array, ...]:
    """The factor tables of a contraction, of shape (tables, *axes, rows or 1), with zeros behind."""
    return tuple(_evaluated(graph, params, codes, t) for t in c.tables)


def _evaluated(graph: Graph, params: Params, codes: Codes, t: FactorTables) -> Array:
    """The tables, with zeros behind for places without one."""
    b = t.blocks
    known = codes if t.by_row else jnp.zeros((codes.shape[0], 1), codes.dtype)
    # what a shorter axis has beyond its values is left out later
    given = jnp.minimum(b.codes, (t.sizes - 1)[:, None])
    total = jnp.zeros((b.cells.shape[0], b.n_values, known.shape[1]), float_type())
    for group, touch in zip(graph.groups, b.touch, strict=True):
        if touch.shape[1] > 1 and total.size * touch.shape[1] > LEAST_IN_TURN:

            def add(total: Array, one: Array, group: Group = group) -> tuple[Array, None]:
                return total + touching_sum(group, params, known, b.cells, one[:, None], given), None

            total, _ = jax.lax.scan(add, total, jnp.moveaxis(touch, 1, 0))
        elif touch.shape[1]:
            total = total + touching_sum(group, params, known, b.cells, touch, given)
    total = jnp.concatenate([total, jnp.zeros_like(total[:1])])
    return total.reshape(total.shape[0], *t.radix, total.shape[-1])


def _parts(stage: Stage, x: Level, inputs: Inputs, sent: tuple[Array, ...]) -> Iterator[tuple[tuple[int, ...], Array]]:
    """What is added into the tables of a level: axes, and an array of shape (width, *axes, rows or 1)."""
    for use, slots in zip(stage.uses, x.uses, strict=True):
        yield use.axes, inputs.tables[use.tables][slots]
    for f, (slots, to) in zip(stage.feeds, x.feeds, strict=True):
        if to is None:
            message = sum_of(sent[f.source], slots)
        else:
            message = sent[f.source][slots]
            message = jnp.zeros((stage.width, *message.shape[1:]), message.dtype).at[to].add(message, mode="drop")
        yield f.axes, _fitted(message, tuple(stage.radix[a] for a in f.axes))
    if inputs.unary is not None:
        values = inputs.unary[x.cells][:, : stage.radix[0]]
        short = stage.radix[0] - values.shape[1]
        yield (0,), jnp.pad(values, ((0, 0), (0, short), (0, 0))) if short else values


def sum_of(messages: Array, slots: Int[Array, "width each"]) -> Array:
    """The sum of the messages in each row of `slots`, one after another: side by side they would take more memory."""
    return reduce(jnp.add, (messages[slots[:, k]] for k in range(slots.shape[1])))


def _fitted(message: Array, shape: tuple[int, ...]) -> Array:
    """A message with the axes that the receiving table has for it: axes beyond them have one value, longer ones are padding."""
    inner = message.shape[1:-1]
    message = message[(slice(None), *(slice(None, n) for n in shape), *(0 for _ in inner[len(shape) :]), slice(None))]
    short = [(0, n - m) for n, m in zip(shape, message.shape[1:-1], strict=True)]
    return jnp.pad(message, ((0, 0), *short, (0, 0))) if any(b for _, b in short) else message


def _joint(stage: Stage, x: Level, inputs: Inputs, sent: tuple[Array, ...]) -> Float[Array, "width *axes rows"]:
    """The tables of one level; -inf where an axis has no such value."""
    total = jnp.zeros((stage.width, *(1 for _ in stage.radix), 1), float_type())
    for axes, array in _parts(stage, x, inputs, sent):
        total = total + array.reshape(stage.width, *(n if a in axes else 1 for a, n in enumerate(stage.radix)), array.shape[-1])
    total = jnp.broadcast_to(total, (stage.width, *stage.radix, inputs.rows))
    if x.sizes is None:
        return total
    for a in range(len(stage.radix)):
        place = jnp.arange(stage.radix[a], dtype=jnp.int32).reshape(*(-1 if b == a else 1 for b in range(len(stage.radix))))
        inside = place[None] < x.sizes[:, a].reshape(-1, *(1 for _ in stage.radix))
        total = jnp.where(inside[..., None], total, -jnp.inf)
    return total


def _slice(
    stage: Stage, x: Level, inputs: Inputs, sent: tuple[Array, ...], picked: Int[Array, "places rows"]
) -> Float[Array, "width values rows"]:
    """The tables of one level at the values that were picked for all axes but the first."""
    values = stage.radix[0]
    others = picked[x.others]  # width, others, rows
    total = jnp.zeros((stage.width, 1, 1), float_type())
    for axes, array in _parts(stage, x, inputs, sent):
        own = axes[:1] == (0,)
        array = array.reshape(stage.width, values if own else 1, -1, array.shape[-1])
        index = jnp.zeros((stage.width, inputs.rows), jnp.int32)
        for a in axes[own:]:
            index = index * stage.radix[a] + others[:, a - 1]
        if array.shape[2] > 1:
            array = jnp.take_along_axis(array, index[:, None, None], axis=2)
        total = total + array[:, :, 0]
    total = jnp.broadcast_to(total, (stage.width, values, inputs.rows))
    if x.sizes is None:
        return total
    inside = jnp.arange(values, dtype=jnp.int32)[None] < x.sizes[:, :1]
    return jnp.where(inside[..., None], total, -jnp.inf)
