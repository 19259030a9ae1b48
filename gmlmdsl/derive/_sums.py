"""One routine that sums, maximises and draws the free cells of a contraction.

The forward pass has a table over each cell and the cells that it is joined to. The table is the sum
of its factors and of the messages that it receives. Its own message is the log-sum-exp, or the
maximum, over the cell's values. In the backward pass each cell is picked given those cells of its
table that were picked before, at random or with the best value. On a chain this is forward
filtering and backward sampling, or Viterbi's algorithm.

Reference: Dechter 1999, "Bucket elimination"; Rabiner 1989 for chains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ._arrays import Graph, Group, float_type
from ._conditional import tempered
from ._contraction import Contraction, FactorTables, Stage
from ._energy import Codes, Params, touching_sum
from ._loop import Combine, laws_in_turn, picked_in_turn, placed, summed_in_turn, swept, total
from ._picks import pick_value
from ._random import Words
from .limits import LEAST_FACTORS_IN_TURN

Unary = Float[Array, "free values rows"]


class Inputs(NamedTuple):
    """Numbers that are added into tables beside messages.

    `tables` have the shape (tables, *axes, rows or 1), and `unary` has (free, values, rows or 1).
    Both end with zeros, for places without them. For a loop, `tables` has one array of everything
    that precedes its messages.
    """

    tables: tuple[Array, ...]
    unary: Array | None
    rows: int


class Forward(NamedTuple):
    """Result of the forward pass: the sum of each component, and the input of the backward pass.

    `messages` has for each stage an array of shape (places, *axes, rows), which ends with zeros.
    For a loop it has one array of everything that the loop reads, and `inputs` is empty.
    """

    sums: Float[Array, "components rows"]
    inputs: Inputs
    messages: tuple[Array, ...]


class Level(NamedTuple):
    """Arrays that differ between the levels of a stage.

    They have a leading axis of levels, or belong to one level.
    """

    number: Int[Array, ""]
    cells: Int[Array, " width"]
    others: Int[Array, "width others"]
    sizes: Int[Array, "width axes"] | None
    feeds: tuple[tuple[Array, Array | None], ...]
    uses: tuple[Int[Array, " width"], ...]
    followers: tuple[Int[Array, "width values"], ...]


def forward(
    graph: Graph,
    params: Params,
    codes: Codes,
    c: Contraction,
    unary: Unary | None = None,
    beta: Float[Array, " rows"] | None = None,
    combine: Combine = total,
) -> Forward:
    """Return the log sum over each component's values of exp(factors that touch the component).

    With `combine=maximum` it is the maximum in place of the log sum.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: (cells, rows); the codes of free cells do not matter.
        c: the contraction.
        unary: a number to add for each value of each free cell, shape (free, most values, rows or
            1): -inf forbids a value.
        beta: an inverse temperature for each row, which multiplies the factors and not `unary`.
        combine: `total` or `maximum`.

    Returns:
        Sums of shape (components, rows), with the input of the backward pass.
    """
    return forward_from(c, inputs_of(graph, params, codes, c, unary, beta), codes.shape[1], combine)


def inputs_of(
    graph: Graph, params: Params, codes: Codes, c: Contraction, unary: Unary | None = None, beta: Float[Array, " rows"] | None = None
) -> Inputs:
    """Return the initial tables of sums, maxima and draws.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: (cells, rows); the codes of free cells do not matter.
        c: the contraction.
        unary: as in `forward`.
        beta: as in `forward`.
    """
    tables = factor_sums(graph, params, codes, c)
    if beta is not None:
        tables = tuple(tempered(t, beta) for t in tables)
    return _inputs(c, tables, codes.shape[1], unary)


def _inputs(c: Contraction, tables: tuple[Array, ...], rows: int, unary: Unary | None) -> Inputs:
    if c.loop is not None:
        return Inputs((placed(c.loop, tables, unary),), None, rows)
    return Inputs(tables, None if unary is None else jnp.concatenate([unary, jnp.zeros_like(unary[:1])]), rows)


def eliminate(c: Contraction, tables: tuple[Array, ...], rows: int, unary: Unary | None = None, combine: Combine = total) -> Forward:
    """Run the forward pass from factor tables.

    Args:
        c: the contraction.
        tables: factor tables, of shape (tables, *axes, rows or 1), which end with zeros.
        rows: the number of rows.
        unary: as in `forward`.
        combine: as in `forward`.
    """
    return forward_from(c, _inputs(c, tables, rows, unary), rows, combine)


def forward_from(c: Contraction, inputs: Inputs, rows: int, combine: Combine = total) -> Forward:
    """Run the forward pass from all its inputs.

    Args:
        c: the contraction.
        inputs: the result of `inputs_of`.
        rows: the number of rows.
        combine: as in `forward`.
    """
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
    """Pick the free cells one after another, each given those picked before.

    The order is opposite to that of the sums.

    Args:
        c: the contraction.
        codes: (cells, rows): a component without any possible value keeps these codes.
        found: the result of the forward pass.
        words: random words of shape (places, rows), by which each cell is drawn; None: the best
            value is taken, and the first among ties.

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
    """Return the values that `backward` picks in each place of the stages."""
    picked = jnp.zeros((c.n_places + c.n_followers + 1, rows), jnp.int32)
    inputs = found.inputs._replace(rows=rows)
    for stage in reversed(c.stages):

        def level(picked: Array, x: Level, stage: Stage = stage) -> tuple[Array, None]:
            scores = _slice(stage, x, inputs, found.messages, picked)
            start = stage.first + x.number * stage.width
            if words is None:
                value = jnp.argmax(scores, axis=1).astype(jnp.int32)
            else:
                value, _ = pick_value(scores, words.having(lambda w: jax.lax.dynamic_slice_in_dim(w, start, stage.width, axis=1)))
            for f, known in zip(stage.followers, x.followers, strict=True):
                others = picked[x.others]  # axes: width, others, rows
                at = {0: value} | {a + 1: others[:, a] for a in range(others.shape[1])}
                sums = jnp.take_along_axis(known, _place(stage.radix, f.axes, at), axis=1)
                picked = jax.lax.dynamic_update_slice_in_dim(picked, sums, f.first + x.number * stage.width, axis=0)
            return jax.lax.dynamic_update_slice_in_dim(picked, value, start, axis=0), None

        picked = _over_levels(level, picked, stage, reverse=True)
    return picked


def rest_sum(graph: Graph, params: Params, codes: Codes, c: Contraction) -> Float[Array, " rows"]:
    """Return the sum of the factors that mention no free cell.

    It is -inf if one of their requirements fails.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: the configurations, shape (cells, rows).
        c: the contraction.
    """
    total = jnp.zeros(codes.shape[1], float_type())
    nobody, nothing = jnp.full((1, 1, 1), c.n_cells, jnp.int32), jnp.zeros((1, 1, 1, 1), jnp.int32)
    for group, instances in zip(graph.groups, c.rest, strict=True):
        if instances.shape[0]:
            total = total + touching_sum(group, params, codes, nobody, instances[None, :, None], nothing)[0, 0]
    return total


def laws(c: Contraction, found: Forward, values: int) -> Unary:
    """Return p(x_i = v | the rest) of every free cell, from the messages of a loop.

    It is 0 in a component without any possible value.

    Args:
        c: a contraction that is one loop.
        found: the result of its forward pass.
        values: the number of entries for each cell: entries beyond the cell's own values are 0.
    """
    assert c.loop is not None
    table = laws_in_turn(c.loop, found.messages[0])
    return jnp.pad(table, ((0, 0), (0, values - table.shape[1]), (0, 0)))


def log_sum(graph: Graph, params: Params, codes: Codes, c: Contraction, unary: Unary | None = None) -> Float[Array, " rows"]:
    """Return the log sum over the free cells of exp(log_potential).

    Args:
        graph: the factor graph.
        params: parameters.
        codes: codes of the other cells, shape (cells, rows).
        c: the contraction over the free cells.
        unary: as in `forward`.
    """
    return rest_sum(graph, params, codes, c) + forward(graph, params, codes, c, unary).sums.sum(axis=0)


def evidence(graph: Graph, codes: Codes, c: Contraction) -> Unary:
    """Return `unary` for free cells whose value is known in some rows.

    Only the value in `codes` is possible; the code -1 allows all values.
    """
    here = codes[c.free][:, None]
    values = jnp.arange(graph.most_values, dtype=codes.dtype)[None, :, None]
    return jnp.where((here < 0) | (values == here), 0.0, -jnp.inf).astype(float_type())


def _over_levels(level: Callable[[Array, Level], tuple[Array, None]], carry: Array, stage: Stage, reverse: bool = False) -> Array:
    """Run `level` for each level in order, by one loop if there are several."""
    feeds, uses = tuple((f.slots, f.to) for f in stage.feeds), tuple(u.slots for u in stage.uses)
    # As constants of a caller's program, the codes would be compiled into many larger ones.
    followers = tuple(jax.lax.optimization_barrier(f.codes) for f in stage.followers)
    numbers = jnp.arange(stage.levels, dtype=jnp.int32)
    every = Level(numbers, stage.cells, stage.others, stage.sizes, feeds, uses, followers)
    if stage.levels == 1:
        return level(carry, jax.tree.map(lambda a: a[0], every))[0]
    return jax.lax.scan(level, carry, every, reverse=reverse)[0]


def factor_sums(graph: Graph, params: Params, codes: Codes, c: Contraction) -> tuple[Array, ...]:
    """Return the factor tables of a contraction, each of shape (tables, *axes, rows or 1).

    Each array ends with zeros.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: the configurations, shape (cells, rows).
        c: the contraction.
    """
    return tuple(_evaluated(graph, params, codes, t) for t in c.tables)


def _evaluated(graph: Graph, params: Params, codes: Codes, t: FactorTables) -> Array:
    """Return the tables, followed by zeros for places without a table."""
    b = t.blocks
    known = codes if t.by_row else jnp.zeros((codes.shape[0], 1), codes.dtype)
    # entries beyond the values of a shorter axis are excluded later
    given = jnp.minimum(b.codes, (t.sizes - 1)[:, None])
    total = jnp.zeros((b.cells.shape[0], b.n_values, known.shape[1]), float_type())
    for group, touch in zip(graph.groups, b.touch, strict=True):
        if touch.shape[1] > 1 and total.size * touch.shape[1] > LEAST_FACTORS_IN_TURN:

            def add(total: Array, one: Array, group: Group = group) -> tuple[Array, None]:
                return total + touching_sum(group, params, known, b.cells, one[:, None], given), None

            total, _ = jax.lax.scan(add, total, jnp.moveaxis(touch, 1, 0))
        elif touch.shape[1]:
            total = total + touching_sum(group, params, known, b.cells, touch, given)
    total = jnp.concatenate([total, jnp.zeros_like(total[:1])])
    return total.reshape(total.shape[0], *t.radix, total.shape[-1])


def _parts(
    stage: Stage, x: Level, inputs: Inputs, sent: tuple[Array, ...], others: Int[Array, "width others rows"] | None = None
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Yield the arrays that are added into the tables of a level.

    Each item is a tuple of axes and an array of shape (width, *axes, rows or 1). A message over
    partial sums that follow is read where all axes but the first have the codes `others`, if given.
    """
    for use, slots in zip(stage.uses, x.uses, strict=True):
        yield use.axes, inputs.tables[use.tables][slots]
    for f, (slots, to) in zip(stage.feeds, x.feeds, strict=True):
        if to is None:
            message = sum_of(sent[f.source], slots)
        else:
            message = sent[f.source][slots]
            message = jnp.zeros((stage.width, *message.shape[1:]), message.dtype).at[to].add(message, mode="drop")
        if f.follower is None:
            yield f.axes, _fitted(message, tuple(stage.radix[a] for a in f.axes))
        else:
            yield _followed(stage, f.axes, message, stage.followers[f.follower].axes, x.followers[f.follower], others)
    if inputs.unary is not None:
        values = inputs.unary[x.cells][:, : stage.radix[0]]
        short = stage.radix[0] - values.shape[1]
        yield (0,), jnp.pad(values, ((0, 0), (0, short), (0, 0))) if short else values


def _followed(
    stage: Stage,
    axes: tuple[int, ...],
    message: Array,
    known: tuple[int, ...],
    codes: Int[Array, "width values"],
    others: Int[Array, "width others rows"] | None,
) -> tuple[tuple[int, ...], Array]:
    """Return a message over a partial sum and `axes` at the values of the partial sum that follow.

    Args:
        stage: the stage that takes the message.
        axes: the axes of its tables that the message covers behind the partial sum.
        message: shape (width, values of the partial sum, *axes, rows).
        known: the axes from which the partial sum follows; the first axis is one of them.
        codes: its codes at their values, -1 where there is none.
        others: as in `_parts`.

    Returns:
        All these axes, or the first alone if `others` are given, and an array over them.
    """
    message = _fitted(message, (message.shape[1], *(stage.radix[a] for a in axes)))
    flat, rest = message.reshape(stage.width, -1, message.shape[-1]), math.prod(stage.radix[a] for a in axes)
    most = message.shape[1] - 1  # A place whose message comes from another stage may have larger codes, and reads zeros here.
    if others is not None:
        first = jnp.arange(stage.radix[0], dtype=jnp.int32)[None, :, None]
        at = {0: first} | {a + 1: others[:, a][:, None] for a in range(others.shape[1])}
        follow = jnp.take_along_axis(codes[..., None], _place(stage.radix, known, at), axis=1)
        found = jnp.take_along_axis(flat, jnp.clip(follow, 0, most) * rest + _place(stage.radix, axes, at), axis=1)
        return (0,), jnp.where(follow < 0, -jnp.inf, found)
    both = tuple(sorted({*axes, *known}))
    shape = [stage.radix[a] for a in both]
    follow = codes.reshape(stage.width, *(n if a in known else 1 for a, n in zip(both, shape, strict=True)))
    at = {a: jnp.arange(stage.radix[a], dtype=jnp.int32).reshape([1, *(-1 if b == a else 1 for b in both)]) for a in both}
    start = jnp.arange(stage.width, dtype=jnp.int32).reshape(-1, *(1 for _ in both)) * flat.shape[1]
    place = jnp.broadcast_to(start + jnp.clip(follow, 0, most) * rest + _place(stage.radix, axes, at), (stage.width, *shape))
    found = flat.reshape(-1, flat.shape[-1])[place]
    return both, jnp.where(follow[..., None] < 0, -jnp.inf, found)


def _place(radix: tuple[int, ...], axes: tuple[int, ...], codes: Mapping[int, Array]) -> Array:
    """Return the place in a flat array over some axes, at the codes of the axes."""
    index = jnp.zeros((), jnp.int32)
    for a in axes:
        index = index * radix[a] + codes[a]
    return index


def sum_of(messages: Array, slots: Int[Array, "width each"]) -> Array:
    """Return the sum of the messages in each row of `slots`.

    Messages are added one after another, because all of them at once would take more memory.
    """
    return reduce(jnp.add, (messages[slots[:, k]] for k in range(slots.shape[1])))


def _fitted(message: Array, shape: tuple[int, ...]) -> Array:
    """Return a message with the axes that the receiving table has for it.

    Axes beyond these have one value, and the excess of longer axes is padding.
    """
    inner = message.shape[1:-1]
    message = message[(slice(None), *(slice(None, n) for n in shape), *(0 for _ in inner[len(shape) :]), slice(None))]
    short = [(0, n - m) for n, m in zip(shape, message.shape[1:-1], strict=True)]
    return jnp.pad(message, ((0, 0), *short, (0, 0))) if any(b for _, b in short) else message


def _joint(stage: Stage, x: Level, inputs: Inputs, sent: tuple[Array, ...]) -> Float[Array, "width *axes rows"]:
    """Return the tables of one level; -inf beyond the values of an axis."""
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
    """Return the tables of one level at the picked values of all axes but the first."""
    values = stage.radix[0]
    others = picked[x.others]  # axes: width, others, rows
    total = jnp.zeros((stage.width, 1, 1), float_type())
    for axes, array in _parts(stage, x, inputs, sent, others):
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


def log_marginals(
    graph: Graph, params: Params, codes: Codes, c: Contraction, unary: Unary | None = None, differentiated: bool = False
) -> tuple[Float[Array, " rows"], Float[Array, "free values rows"]]:
    """Return the log sum of `log_sum`, and p(x_i = v | the rest) of every free cell.

    The probabilities are the gradient of the log sum by a number that is added for each value.
    Entries beyond a cell's values are 0, and all entries are 0 if the sum is -inf.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: codes of the fixed cells, shape (cells, rows).
        c: the contraction over the free cells.
        unary: a number to add for each value of each free cell, or None.
        differentiated: whether the result may be differentiated; the messages of a loop may not.
    """
    if c.loop is not None and not differentiated:
        passed = forward(graph, params, codes, c, unary)
        found = rest_sum(graph, params, codes, c) + passed.sums.sum(axis=0)
        return found, jnp.where(jnp.isfinite(found), laws(c, passed, graph.most_values), 0.0)
    start = jnp.zeros((c.free.shape[0], graph.most_values, codes.shape[1]), float_type())
    start = start if unary is None else start + unary

    def value(u: Unary) -> tuple[Array, Array]:
        found = log_sum(graph, params, codes, c, u)
        return jnp.where(jnp.isfinite(found), found, 0.0).sum(), found

    gradient, found = jax.grad(value, has_aux=True)(start)
    return found, gradient
