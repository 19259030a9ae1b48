"""An elimination as one loop, see `plan.Loop`.

Only one body is compiled for the sums, one for their gradient, and one for picks. All numbers that
iterations read are stored in one array of shape (places, rows or 1): own tables, factor tables,
messages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..plan.limits import MOST_WRITTEN_OUT
from ._arrays import float_type
from ._conditional import logsumexp
from ._contraction import Loop
from ._picks import pick_value
from ._random import Words

Combine = Callable[[Array], Array]
Turn = tuple[Int[Array, "blocks sources"], Int[Array, "blocks sources"], Int[Array, "blocks sources"], Int[Array, ""]]
Entries = Float[Array, "places rows"]
# without this mode each index is compared with the bounds
INSIDE: Any = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
Sums = Float[Array, "components rows"]


def total(scores: Float[Array, "width values *rest"]) -> Array:
    """Return the log sum of exponentials over the values; nan as in `logsumexp`.

    All other axes are flattened into one, because a loop with a short innermost axis is not
    vectorised. For the same reason a sum over few values is written out.
    """
    flat = scores.reshape(*scores.shape[:2], -1)
    if flat.shape[1] > MOST_WRITTEN_OUT:
        return logsumexp(flat).reshape(scores.shape[0], *scores.shape[2:])
    values = [flat[:, v] for v in range(flat.shape[1])]
    top = jax.lax.stop_gradient(reduce(jnp.maximum, values))
    safe = jnp.where(jnp.isfinite(top), top, 0.0)
    weight = sum((jnp.exp(v - safe) for v in values[1:]), jnp.exp(values[0] - safe))
    some = weight > 0
    found = jnp.where(some, jnp.log(jnp.where(some, weight, 1.0)) + safe, -jnp.inf)
    found = jnp.where(top < jnp.inf, found, jnp.nan)
    return found.reshape(scores.shape[0], *scores.shape[2:])


def maximum(scores: Float[Array, "width values *rest"]) -> Array:
    """Return the maximum over the values."""
    return scores.max(axis=1)


def placed(loop: Loop, tables: tuple[Array, ...], unary: Array | None) -> Entries:
    """Return the entries that precede the messages.

    Args:
        loop: the loop.
        tables: factor tables, of shape (tables, *axes, rows or 1), which end with zeros.
        unary: a number to add for each value of each free cell, shape (free, most values, rows or
            1).
    """
    count, values = loop.possible.shape
    own = jnp.zeros((count, values, 1), float_type())
    if unary is not None:
        own = own + jnp.zeros((count, values, unary.shape[2]), unary.dtype).at[:-2].set(unary[:, :values][loop.cells])
    for table, (steps, slots) in zip(tables, loop.single, strict=True):
        if slots.shape[0]:
            part = table[slots]
            own = own + jnp.zeros((count, *part.shape[1:]), part.dtype).at[steps].add(part)
    own = jnp.where(loop.possible[..., None], own, -jnp.inf)
    parts = [own, *(table[slots] for table, slots in zip(tables, loop.uses, strict=True))]
    rows = max(p.shape[-1] for p in parts)
    return jnp.concatenate([jnp.broadcast_to(p.reshape(-1, p.shape[-1]), (p[..., 0].size, rows)) for p in parts])


@eqx.filter_custom_jvp
def summed_in_turn(start: Entries, loop: Loop) -> tuple[Sums, Entries]:
    """Return the log sum over each component's values, and the array with all messages.

    The sums are differentiated by a loop of their own. JAX would derive from a loop that reads a
    growing array a gradient that visits the whole array in every iteration.
    """
    return swept(start, loop, total)


@summed_in_turn.def_jvp
def _summed_jvp(primals: tuple[Entries, Loop], tangents: tuple[Entries | None, None]) -> tuple[tuple[Sums, Entries], tuple[Sums, Entries]]:
    start, loop = primals
    sums, found = swept(start, loop, total)
    moved = jnp.zeros_like(start) if tangents[0] is None else tangents[0]
    change = jnp.zeros((loop.n_components + 1, start.shape[1]), start.dtype)
    change = change.at[loop.component].add(_slopes(loop, found)[: start.shape[0]] * moved)
    return (sums, found), (change[:-1], jnp.zeros_like(found))


def swept(start: Entries, loop: Loop, combine: Combine) -> tuple[Sums, Entries]:
    """Return the sums and messages under any `combine`, differentiated by JAX itself."""
    turns, together, _ = loop.turns[0].shape
    messages = jnp.zeros((turns * together * loop.lanes, start.shape[1]), start.dtype)

    def turn(entries: Entries, x: Turn) -> tuple[Entries, None]:
        # axes: blocks, values, lanes, rows
        scores = entries.at[_at(loop, x)].get(**INSIDE).sum(axis=1)
        message = combine(scores)  # axes: blocks, lanes, rows
        return jax.lax.dynamic_update_slice_in_dim(entries, message.reshape(-1, message.shape[-1]), x[-1], axis=0), None

    found, _ = jax.lax.scan(turn, jnp.concatenate([start, messages]), loop.turns)
    return found[loop.roots], found


def laws_in_turn(loop: Loop, entries: Entries) -> Float[Array, "free values rows"]:
    """Return the probability of each value of each free cell, from all messages.

    It is 0 in a component whose sum is -inf.
    """
    count, values = loop.possible.shape
    return _slopes(loop, entries)[: count * values].reshape(count, values, -1)[loop.steps]


def _slopes(loop: Loop, entries: Entries) -> Entries:
    """Return the derivative of the sum of all components by every entry, which is a probability.

    It is 0 in a component whose sum is -inf.
    """

    def turn(slopes: Entries, x: Turn) -> tuple[Entries, None]:
        shape = (x[0].shape[0], 1, loop.lanes, entries.shape[1])
        message, slope = (jax.lax.dynamic_slice_in_dim(a, x[-1], shape[0] * loop.lanes, axis=0).reshape(shape) for a in (entries, slopes))
        at = _at(loop, x)
        scores = entries.at[at].get(**INSIDE).sum(axis=1)
        some = jnp.isfinite(message)
        slope = jnp.where(some, jnp.exp(scores - jnp.where(some, message, 0.0)), 0.0) * slope
        return slopes.at[at].add(jnp.broadcast_to(slope[:, None], (*at.shape, slope.shape[-1])), **INSIDE), None

    start = jnp.zeros_like(entries).at[loop.roots].set(jnp.isfinite(entries[loop.roots]).astype(entries.dtype))
    return jax.lax.scan(turn, start, loop.turns, reverse=True)[0]


def _at(loop: Loop, x: Turn) -> Int[Array, "blocks sources values lanes"]:
    """Return the places where the entries of an iteration's tables read each of their sources."""
    base, stride, pattern, _ = x
    values = jnp.arange(loop.possible.shape[1], dtype=jnp.int32)[None, None]
    return (base[..., None] + stride[..., None] * values)[..., None] + loop.patterns.at[pattern].get(**INSIDE)[:, :, None]


def picked_in_turn(loop: Loop, entries: Entries, rows: int, words: Words | None) -> Int[Array, "steps_and_none rows"]:
    """Return the value that each step picks given those picked before.

    It is drawn by the step's words; without words it is the best value, and the first among ties.

    Args:
        loop: the loop.
        entries: the entries with all messages.
        rows: the number of rows.
        words: random words, or None.
    """
    values = jnp.arange(loop.possible.shape[1], dtype=jnp.int32)[None, None, :, None]
    row = jnp.arange(rows, dtype=jnp.int32)[None, None, None] if entries.shape[1] > 1 else 0

    def turn(picked: Array, steps: Int[Array, " cells"]) -> tuple[Array, None]:
        strides = loop.strides[steps][..., None]  # axes: cells, sources, axes, 1
        others = picked[loop.others[steps]][:, None]  # axes: cells, 1, axes - 1, rows
        first = loop.bases[steps][..., None] + (strides[:, :, 1:] * others).sum(axis=2, dtype=jnp.int32)
        # axes: cells, values, rows
        scores = entries.at[first[:, :, None] + strides[:, :, :1] * values, row].get(**INSIDE).sum(axis=1)
        if words is None:
            value = jnp.argmax(scores, axis=1).astype(jnp.int32)
        else:
            value, _ = pick_value(scores, words.having(lambda w: w[:, loop.numbers[steps]]))
        return picked.at[steps].set(value), None

    return jax.lax.scan(turn, jnp.zeros((loop.others.shape[0], rows), jnp.int32), loop.picks)[0]
