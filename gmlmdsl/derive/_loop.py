"""An elimination as one loop: see `plan.Loop`. What is compiled is one body for the sums, one for their gradient, and one for picks.

All that turns read stands in one array of shape (places, rows or 1): own tables, factor tables,
messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ._arrays import float_type
from ._conditional import pick_value, total
from ._contraction import Loop
from ._random import Words

Combine = Callable[[Array], Array]
Turn = tuple[Int[Array, "blocks sources"], Int[Array, "blocks sources"], Int[Array, "blocks sources"], Int[Array, ""]]
Entries = Float[Array, "places rows"]
# without it each index is compared with the bounds
INSIDE: Any = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
Sums = Float[Array, "components rows"]


def placed(loop: Loop, tables: tuple[Array, ...], unary: Array | None) -> Entries:
    """What stands before the messages.

    Args:
        loop: the loop.
        tables: factor tables, of shape (tables, *axes, rows or 1) with zeros behind.
        unary: what is added for each value of each free cell, shape (free, most values, rows or 1).
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
    """The log of the sum over each component's values, and the array with all messages.

    The sums are differentiated by a loop of its own: what the gradient of a loop that reads from a
    growing array would be derived as visits the whole array in every turn.
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
    """The same with another way to combine values, as JAX itself would differentiate it."""
    turns, together, _ = loop.turns[0].shape
    messages = jnp.zeros((turns * together * loop.lanes, start.shape[1]), start.dtype)

    def turn(entries: Entries, x: Turn) -> tuple[Entries, None]:
        scores = entries.at[_at(loop, x)].get(**INSIDE).sum(axis=1)  # blocks, values, lanes, rows
        message = combine(scores)  # blocks, lanes, rows
        return jax.lax.dynamic_update_slice_in_dim(entries, message.reshape(-1, message.shape[-1]), x[-1], axis=0), None

    found, _ = jax.lax.scan(turn, jnp.concatenate([start, messages]), loop.turns)
    return found[loop.roots], found


def laws_in_turn(loop: Loop, entries: Entries) -> Float[Array, "free values rows"]:
    """How probable each value of each free cell is, by all messages; 0 in a component whose sum is -inf."""
    count, values = loop.possible.shape
    return _slopes(loop, entries)[: count * values].reshape(count, values, -1)[loop.steps]


def _slopes(loop: Loop, entries: Entries) -> Entries:
    """The derivative of the sum of all components by every entry: how probable it is; 0 in a component whose sum is -inf."""

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
    """Where the entries of a turn's tables read each of their sources."""
    base, stride, pattern, _ = x
    values = jnp.arange(loop.possible.shape[1], dtype=jnp.int32)[None, None]
    return (base[..., None] + stride[..., None] * values)[..., None] + loop.patterns.at[pattern].get(**INSIDE)[:, :, None]


def picked_in_turn(loop: Loop, entries: Entries, rows: int, words: Words | None) -> Int[Array, "steps_and_none rows"]:
    """The value that each step picks given those picked before: drawn by its words, or without words the best, the first of equals."""
    values = jnp.arange(loop.possible.shape[1], dtype=jnp.int32)[None, None, :, None]
    row = jnp.arange(rows, dtype=jnp.int32)[None, None, None] if entries.shape[1] > 1 else 0

    def turn(picked: Array, steps: Int[Array, " cells"]) -> tuple[Array, None]:
        strides = loop.strides[steps][..., None]  # cells, sources, axes, 1
        others = picked[loop.others[steps]][:, None]  # cells, 1, axes - 1, rows
        first = loop.bases[steps][..., None] + (strides[:, :, 1:] * others).sum(axis=2, dtype=jnp.int32)
        scores = entries.at[first[:, :, None] + strides[:, :, :1] * values, row].get(**INSIDE).sum(axis=1)  # cells, values, rows
        if words is None:
            value = jnp.argmax(scores, axis=1).astype(jnp.int32)
        else:
            value, _ = pick_value(scores, words.having(lambda w: w[:, loop.numbers[steps]]))
        return picked.at[steps].set(value), None

    return jax.lax.scan(turn, jnp.zeros((loop.others.shape[0], rows), jnp.int32), loop.picks)[0]
