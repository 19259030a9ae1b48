"""Scores of blocks from tables: two products for all blocks, values and rows, and their derivatives.

`plan/_block_tables.py` says where the entries stand. Scores are differences from the block's first
value, so that two values take one number; indicators are of all values of a context but the first,
whose entries go to the constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..graph import FactorGraph
from ..plan import BlockTables, FactorTable, GraphTables
from ._arrays import Blocks, Graph, Group, on_device
from ._conditional import observed_value
from ._energy import Codes, Params, evaluate_slots, local_scores, observed_scores, scored


class Table(eqx.Module):
    """The factors of a group, and the codes of their slots under every joint value, shape (1 or factors, values) each."""

    group: Group
    plan: FactorTable = eqx.field(static=True)
    codes: tuple[Int[Array, "factors values"], ...]

    def entries(self, params: Params) -> Float[Array, " entries"]:
        """The value of every factor under every joint value of its slots."""
        instances = jnp.arange(self.plan.count, dtype=jnp.int32)[None, :, None]
        slots = [c[None, :, :, None] for c in self.codes]
        found = evaluate_slots(self.group, params, instances, slots)
        return jnp.broadcast_to(found, (1, self.plan.count, self.plan.values, 1)).ravel()


class Tables(eqx.Module):
    """`plan.GraphTables` on the device: what every set of blocks reads."""

    each: tuple[Table, ...]
    plan: GraphTables = eqx.field(static=True)

    def entries(self, params: Params) -> Float[Array, " entries_and_zero"]:
        """All tables one after another, and a 0."""
        found = [t.entries(params) for t in self.each]
        return jnp.concatenate([*found, jnp.zeros(1, found[0].dtype)])


class Contexts(eqx.Module):
    """`plan.ContextTables` on the device; `gapped`: its last value is that of a context of which a row lacks a cell."""

    cells: Int[Array, "contexts members"]
    strides: Int[Array, "contexts members"]
    of: Int[Array, "blocks degree"] | None
    places: Int[Array, "blocks several values columns width"]
    gapped: bool = eqx.field(static=True, default=False)

    def indicators(self, codes: Codes, dtype: np.dtype) -> Float[Array, "contexts width_but_one rows"]:
        """1 where a context has a value, for each value but the first."""
        padded = jnp.concatenate([codes, jnp.zeros_like(codes[:1])])
        value = jnp.zeros((self.cells.shape[0], codes.shape[1]), codes.dtype)
        for m in range(self.cells.shape[1]):
            value = value + padded[self.cells[:, m]] * self.strides[:, m, None]
        if self.gapped:
            value = jnp.where((padded[self.cells] < 0).any(axis=1), self.places.shape[-1] - 1, value)
        values = jnp.arange(1, self.places.shape[-1], dtype=jnp.int32)
        return (value[:, None] == values[None, :, None]).astype(dtype)

    def product(self, w: Float[Array, "blocks values columns width_but_one"], z: Array) -> Float[Array, "blocks values rows"]:
        """The matrix times indicators, (contexts, width but one, rows)."""
        blocks, values, columns, width = w.shape
        if self.of is None:
            found = w.reshape(blocks * values, columns * width) @ z.reshape(columns * width, z.shape[-1])
            return found.reshape(blocks, values, z.shape[-1])

        def add(total: Array, one: tuple[Array, Array]) -> tuple[Array, None]:
            part, which = one  # (blocks, values, width), (blocks,)
            mine = z[which]
            for k in range(width):
                total = total + part[:, :, k, None] * mine[:, None, k]
            return total, None

        zero = jnp.zeros((blocks, values, z.shape[-1]), w.dtype)
        return jax.lax.scan(add, zero, (jnp.moveaxis(w, 2, 0), self.of.T))[0]

    def outer(self, slope: Float[Array, "blocks values rows"], z: Array, shape: tuple[int, ...]) -> Array:
        """The derivative of the sum of slope x product by the matrix, which has this shape."""
        if self.of is None:
            rows, (blocks, values, columns, width) = z.shape[-1], shape
            return (slope.reshape(blocks * values, rows) @ z.reshape(columns * width, rows).T).reshape(shape)

        def one(which: Array) -> Array:
            mine = z[which]
            return jnp.stack([(slope * mine[:, None, k]).sum(axis=2) for k in range(shape[3])], axis=2)  # blocks, values, width

        return jnp.moveaxis(jax.lax.map(one, self.of.T), 0, 2)


class Weights(eqx.Module):
    """What scores are products of.

    Attributes:
        constant: shape (blocks, values but one).
        matrices: for each kind of contexts, shape (blocks, values but one, columns, width but one).
    """

    constant: Array
    matrices: tuple[Array, ...]

    def astype(self, dtype: np.dtype) -> Weights:
        """The same as other floats."""
        return jax.tree.map(lambda a: a.astype(dtype), self)


class TabledBlocks(eqx.Module):
    """`plan.BlockTables` on the device.

    `rest` are the groups without a table or a parameter, with `touch` as in `Blocks`; None: there
    are none.
    """

    blocks: Blocks
    inside: Int[Array, "blocks several values"]
    contexts: tuple[Contexts, ...]
    rest: tuple[Graph, Blocks] | None
    products: float = eqx.field(static=True)
    held: float = eqx.field(static=True)
    uneven: bool = eqx.field(static=True)  # some block has fewer values than the most
    gapped: bool = eqx.field(static=True, default=False)  # rows have gaps, which are left out

    @property
    def places(self) -> tuple[Int[Array, "blocks several values columns width"], ...]:
        """Of each kind of contexts."""
        return tuple(c.places for c in self.contexts)

    def weights(self, entries: Float[Array, " entries_and_zero"]) -> Weights:
        """The constants and matrices of all blocks."""
        return jax.vmap(block_weights, (None, 0, 0))(entries, self.inside, self.places)

    def indicators(self, codes: Codes, dtype: np.dtype) -> tuple[Array, ...]:
        """The other side of the products."""
        return tuple(c.indicators(codes, dtype) for c in self.contexts)

    def scores(self, weights: Weights, seen: Sequence[Array]) -> Float[Array, "blocks values_but_one rows"]:
        """Scores of all values but the first, less that of the first; -inf where a block has no such value."""
        found = weights.constant[:, :, None]
        for c, w, z in zip(self.contexts, weights.matrices, seen, strict=True):
            found = found + c.product(w, z)
        rows = seen[0].shape[-1] if seen else 1
        found = jnp.broadcast_to(found, (*found.shape[:2], rows))
        return jnp.where(self.blocks.valid[:, 1:], found, -jnp.inf) if self.uneven else found

    def excluded(self, codes: Codes) -> Float[Array, "blocks values rows"] | None:
        """What the groups without a table add: no parameter changes it."""
        if self.rest is None:
            return None
        return (observed_scores if self.gapped else local_scores)(self.rest[0], {}, codes, self.rest[1])

    def full(self, weights: Weights, codes: Codes) -> Float[Array, "blocks values rows"]:
        """Scores of all values, up to a constant of each block and row, the groups without a table among them."""
        seen = self.indicators(codes, weights.constant.dtype)
        found = self.scores(weights, seen)
        found = jnp.broadcast_to(found, (*found.shape[:2], codes.shape[1]))
        found = jnp.pad(found, ((0, 0), (1, 0), (0, 0)))  # of the first value
        more = self.excluded(codes)
        return found if more is None else found + more

    def observed(self, codes: Codes) -> Int[Array, "blocks rows"]:
        """Which joint value each block has."""
        return observed_value(self.blocks, codes, codes.shape[0])

    def counted(self, weights: Float[Array, "blocks rows"], codes: Codes) -> Float[Array, "blocks rows"]:
        """Weights of blocks in rows, 0 where a row lacks the block."""
        return jnp.where(scored(self.blocks, codes, codes.shape[0]), weights, 0.0) if self.gapped else weights


def block_weights(
    entries: Float[Array, " entries_and_zero"], inside: Int[Array, "more values"], places: Sequence[Int[Array, "more values columns width"]]
) -> Weights:
    """The constant and matrices of one block, without the leading axis; they are linear in the entries."""
    constant, matrices = entries[inside].sum(axis=0), []
    for p in places:
        whole = entries[p].sum(axis=0)  # values, columns, width
        constant = constant + whole[..., 0].sum(axis=1)
        moved = whole[..., 1:] - whole[..., :1]
        matrices.append(moved[1:] - moved[:1])
    return Weights(constant[1:] - constant[:1], tuple(matrices))


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def tabled_losses(
    weights: Weights,
    tabled: TabledBlocks,
    codes: Codes,
    shares: Float[Array, " blocks"],
    row_weights: Float[Array, " rows"],
    chunk: int,
) -> Float[Array, " blocks"]:
    """Of each block the sum over rows of share x weight x -log p(x_K | x_rest), if nothing excludes a value; `chunk` rows at a time."""
    return by_chunks(lambda c, w: _chunk_sum(weights, tabled, c, shares, w)[0], codes, row_weights, chunk)


def by_chunks(f: Callable[[Array, Array], Any], codes: Codes, row_weights: Array, chunk: int) -> Any:
    """The sum of `f` over chunks of rows."""
    n = codes.shape[1] // chunk
    if n <= 1:
        return f(codes, row_weights)
    pieces = jnp.moveaxis(codes.reshape(codes.shape[0], n, chunk), 1, 0), row_weights.reshape(n, chunk)
    zero = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(f, pieces[0][0], pieces[1][0]))
    return jax.lax.scan(lambda total, one: (jax.tree.map(jnp.add, total, f(*one)), None), zero, pieces)[0]


def _chunk_sum(
    weights: Weights, tabled: TabledBlocks, codes: Codes, shares: Array, row_weights: Array
) -> tuple[Array, Array, tuple[Array, ...]]:
    """The sum of each block, its derivative by the scores, and the indicators."""
    dtype = weights.constant.dtype
    seen = tabled.indicators(codes, dtype)
    scores = tabled.scores(weights, seen)
    top = scores.max(axis=1, initial=0.0)
    each = jnp.exp(scores - top[:, None])
    total = each.sum(axis=1) + jnp.exp(-top)
    observed = tabled.observed(codes)
    here = observed[:, None] == jnp.arange(1, scores.shape[1] + 1, dtype=observed.dtype)[None, :, None]
    losses = top + jnp.log(total) - jnp.where(here, scores, 0.0).sum(axis=1)
    weight = tabled.counted(shares[:, None] * row_weights[None], codes).astype(dtype)
    value = jnp.where(weight > 0, losses, 0.0) * weight
    return value.sum(axis=1), weight[:, None] * (each / total[:, None] - here.astype(dtype)), seen


def _forward(weights: Weights, tabled: TabledBlocks, codes: Codes, shares: Array, row_weights: Array, chunk: int) -> tuple[Array, Weights]:
    """The derivative is at hand when the value is: one pass over the rows."""

    def both(c: Array, w: Array) -> tuple[Array, Weights]:
        value, slope, seen = _chunk_sum(weights, tabled, c, shares, w)
        kinds = zip(tabled.contexts, seen, weights.matrices, strict=True)
        return value, Weights(slope.sum(axis=2), tuple(t.outer(slope, z, m.shape) for t, z, m in kinds))

    return by_chunks(both, codes, row_weights, chunk)


def _backward(chunk: int, slopes: Weights, g: Array) -> tuple[Weights | None, ...]:
    del chunk
    return jax.tree.map(lambda a: g.astype(a.dtype).reshape(-1, *[1] * (a.ndim - 1)) * a, slopes), None, None, None, None


tabled_losses.defvjp(_forward, _backward)


def graph_tables(host: FactorGraph, graph: Graph, plan: GraphTables) -> Tables:
    """Planned tables on the device."""
    sizes = np.append(host.sizes, 1)
    each = tuple(Table(graph.groups[t.group], t, table_codes(t, sizes[host.groups[t.group].cells])) for t in plan.tables)
    return Tables(each, plan)


def table_codes(plan: FactorTable, sizes: np.ndarray) -> tuple[Array, ...]:
    """The codes of each slot of a group, whose cells have so many values, shape (factors, slots)."""
    found = np.unravel_index(np.arange(plan.values), plan.sizes) if plan.sizes else ()
    return tuple(_slot_codes(c, sizes[:, s] - 1) for s, c in enumerate(found))


def tabled_blocks(
    tables: Tables, graph: Graph, blocks: Blocks, plan: BlockTables, arrays: Sequence[np.ndarray], gapped: bool = False
) -> TabledBlocks:
    """Planned scores of blocks on the device; `arrays` are theirs, see `plan.block_arrays`; `gapped`: planned for rows with gaps."""
    _, radix, _, *touch = arrays
    contexts = tuple(
        Contexts(_ints(c.cells), _ints(c.strides), None if c.of is None else _ints(c.of), _ints(c.places), gapped) for c in plan.contexts
    )
    rest, groups = None, tables.plan.rest
    if any(touch[k].shape[1] for k in groups):
        some = eqx.tree_at(lambda g: g.groups, graph, tuple(graph.groups[k] for k in groups))
        rest = some, eqx.tree_at(lambda b: b.touch, blocks, tuple(blocks.touch[k] for k in groups))
    uneven = bool((radix.prod(axis=1) < blocks.n_values).any())
    return TabledBlocks(blocks, on_device(plan.inside), contexts, rest, plan.products, plan.held, uneven, gapped)


def _ints(a: np.ndarray) -> Array:
    return on_device(np.asarray(a, np.int32))


def _slot_codes(codes: np.ndarray, most: np.ndarray) -> Array:
    """The codes of a slot: where cells have fewer values than the most, their last one again, so that every tree has a value."""
    same = bool((most == most[:1]).all())
    found = np.minimum(codes[None], most[:1, None] if same else most[:, None])
    return on_device(found.astype(np.int32))
