"""Scores of blocks from tables, and their derivatives.

The scores of all blocks, values and rows are two products. `plan/_block_tables.py` states where the
entries are stored. Scores are differences from the score of the block's first value, so that a
block with two values takes one number. The context of a factor that touches a block consists of the
cells of the factor outside the block. Indicators cover all values of a context except the first,
whose entries are added to the constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..graph import FactorGraph
from ..plan import BlockTables, FactorTable, GraphTables
from ._arrays import Blocks, Graph, Group, float_type, observed_value, on_device
from ._energy import Codes, Params, evaluate_slots, local_scores, observed_scores, scored


class Table(eqx.Module):
    """Factors of a group, and the codes of their slots under every joint value.

    Each array of `codes` has shape (1 or factors, values).
    """

    group: Group
    plan: FactorTable = eqx.field(static=True)
    codes: tuple[Int[Array, "factors values"], ...]

    def entries(self, params: Params) -> Float[Array, " entries"]:
        """Return the value of every factor under every joint value of its slots."""
        instances = jnp.arange(self.plan.count, dtype=jnp.int32)[None, :, None]
        slots = [c[None, :, :, None] for c in self.codes]
        found = evaluate_slots(self.group, params, instances, slots)
        return jnp.broadcast_to(found, (1, self.plan.count, self.plan.values, 1)).ravel()


def entries_of(
    graph: Graph, params: Params, plans: Sequence[FactorTable], codes: Sequence[tuple[Array, ...]]
) -> Float[Array, " entries_and_zero"]:
    """Return the entries of tables of factors one after another, followed by a 0."""
    found = [Table(graph.groups[p.group], p, c).entries(params) for p, c in zip(plans, codes, strict=True)]
    return jnp.concatenate([*found, jnp.zeros(1, float_type())])


class Tables(eqx.Module):
    """`plan.GraphTables` on the device, which all sets of blocks read."""

    each: tuple[Table, ...]
    plan: GraphTables = eqx.field(static=True)

    def entries(self, params: Params) -> Float[Array, " entries_and_zero"]:
        """Return all tables one after another, followed by a 0."""
        found = [t.entries(params) for t in self.each]
        return jnp.concatenate([*found, jnp.zeros(1, found[0].dtype)])


class Contexts(eqx.Module):
    """`plan.ContextTables` on the device.

    If `gapped` is true, the last value of a context represents a missing cell in it.
    """

    cells: Int[Array, "contexts members"]
    strides: Int[Array, "contexts members"]
    of: Int[Array, "blocks degree"] | None
    places: Int[Array, "blocks several values columns width"]
    gapped: bool = eqx.field(static=True, default=False)

    def indicators(self, codes: Codes, dtype: np.dtype) -> Float[Array, "contexts width_but_one rows"]:
        """Return 1 where a context has a value, for each value except the first."""
        padded = jnp.concatenate([codes, jnp.zeros_like(codes[:1])])
        value = jnp.zeros((self.cells.shape[0], codes.shape[1]), codes.dtype)
        for m in range(self.cells.shape[1]):
            value = value + padded[self.cells[:, m]] * self.strides[:, m, None]
        if self.gapped:
            value = jnp.where((padded[self.cells] < 0).any(axis=1), self.places.shape[-1] - 1, value)
        values = jnp.arange(1, self.places.shape[-1], dtype=jnp.int32)
        return (value[:, None] == values[None, :, None]).astype(dtype)

    def product(self, w: Float[Array, "blocks values columns width_but_one"], z: Array) -> Float[Array, "blocks values rows"]:
        """Return the product of the matrix `w` with indicators.

        The indicators have the shape (contexts, width but one, rows).
        """
        blocks, values, columns, width = w.shape
        if self.of is None:
            found = w.reshape(blocks * values, columns * width) @ z.reshape(columns * width, z.shape[-1])
            return found.reshape(blocks, values, z.shape[-1])

        def add(total: Array, one: tuple[Array, Array]) -> tuple[Array, None]:
            part, which = one  # shapes (blocks, values, width) and (blocks,)
            mine = z[which]
            for k in range(width):
                total = total + part[:, :, k, None] * mine[:, None, k]
            return total, None

        zero = jnp.zeros((blocks, values, z.shape[-1]), w.dtype)
        return jax.lax.scan(add, zero, (jnp.moveaxis(w, 2, 0), self.of.T))[0]

    def outer(self, slope: Float[Array, "blocks values rows"], z: Array, shape: tuple[int, ...]) -> Array:
        """Return the derivative of sum(slope * product) by the matrix of shape `shape`."""
        if self.of is None:
            rows, (blocks, values, columns, width) = z.shape[-1], shape
            return (slope.reshape(blocks * values, rows) @ z.reshape(columns * width, rows).T).reshape(shape)

        def one(which: Array) -> Array:
            mine = z[which]
            # axes: blocks, values, width
            return jnp.stack([(slope * mine[:, None, k]).sum(axis=2) for k in range(shape[3])], axis=2)

        return jnp.moveaxis(jax.lax.map(one, self.of.T), 0, 2)


class Weights(eqx.Module):
    """Weights by which indicators are multiplied to give scores.

    Attributes:
        constant: shape (blocks, values but one).
        matrices: for each kind of contexts, shape (blocks, values but one, columns, width but one).
    """

    constant: Array
    matrices: tuple[Array, ...]

    def astype(self, dtype: np.dtype) -> Weights:
        """Return the weights converted to another float type."""
        return jax.tree.map(lambda a: a.astype(dtype), self)


class TabledBlocks(eqx.Module):
    """`plan.BlockTables` on the device.

    `rest` has the groups without a table or a parameter, with `touch` as in `Blocks`; it is None if
    there are none.
    """

    blocks: Blocks
    inside: Int[Array, "blocks several values"]
    contexts: tuple[Contexts, ...]
    rest: tuple[Graph, Blocks] | None
    products: float = eqx.field(static=True)
    held: float = eqx.field(static=True)
    uneven: bool = eqx.field(static=True)  # some block has fewer values than the maximum
    # rows have missing values, which are left out
    gapped: bool = eqx.field(static=True, default=False)

    @property
    def places(self) -> tuple[Int[Array, "blocks several values columns width"], ...]:
        """Places of the entries, for each kind of contexts."""
        return tuple(c.places for c in self.contexts)

    def weights(self, entries: Float[Array, " entries_and_zero"]) -> Weights:
        """Return the constants and matrices of all blocks."""
        return jax.vmap(block_weights, (None, 0, 0))(entries, self.inside, self.places)

    def indicators(self, codes: Codes, dtype: np.dtype) -> tuple[Array, ...]:
        """Return the indicators of all kinds of contexts, by which the weights are multiplied."""
        return tuple(c.indicators(codes, dtype) for c in self.contexts)

    def scores(self, weights: Weights, seen: Sequence[Array]) -> Float[Array, "blocks values_but_one rows"]:
        """Return the scores of all values except the first, less the score of the first.

        A score is -inf if the block does not have that value.
        """
        found = weights.constant[:, :, None]
        for c, w, z in zip(self.contexts, weights.matrices, seen, strict=True):
            found = found + c.product(w, z)
        rows = seen[0].shape[-1] if seen else 1
        found = jnp.broadcast_to(found, (*found.shape[:2], rows))
        return jnp.where(self.blocks.valid[:, 1:], found, -jnp.inf) if self.uneven else found

    def excluded(self, codes: Codes) -> Float[Array, "blocks values rows"] | None:
        """Return the scores of the groups without a table, which do not depend on parameters."""
        if self.rest is None:
            return None
        return (observed_scores if self.gapped else local_scores)(self.rest[0], {}, codes, self.rest[1])

    def full(self, weights: Weights, codes: Codes) -> Float[Array, "blocks values rows"]:
        """Return the scores of all values, up to a constant for each block and row.

        They include the groups without a table.
        """
        seen = self.indicators(codes, weights.constant.dtype)
        found = self.scores(weights, seen)
        found = jnp.broadcast_to(found, (*found.shape[:2], codes.shape[1]))
        found = jnp.pad(found, ((0, 0), (1, 0), (0, 0)))  # the score of the first value
        more = self.excluded(codes)
        return found if more is None else found + more

    def observed(self, codes: Codes) -> Int[Array, "blocks rows"]:
        """Return the number of the joint value that each block has."""
        return observed_value(self.blocks, codes, codes.shape[0])

    def counted(self, weights: Float[Array, "blocks rows"], codes: Codes) -> Float[Array, "blocks rows"]:
        """Return the weights of blocks in rows, with 0 where a row lacks the block."""
        return jnp.where(scored(self.blocks, codes, codes.shape[0]), weights, 0.0) if self.gapped else weights


def block_weights(
    entries: Float[Array, " entries_and_zero"], inside: Int[Array, "more values"], places: Sequence[Int[Array, "more values columns width"]]
) -> Weights:
    """Return the constant and matrices of one block, without the leading axis.

    They are linear in the entries.
    """
    constant, matrices = entries[inside].sum(axis=0), []
    for p in places:
        whole = entries[p].sum(axis=0)  # axes: values, columns, width
        constant = constant + whole[..., 0].sum(axis=1)
        moved = whole[..., 1:] - whole[..., :1]
        matrices.append(moved[1:] - moved[:1])
    return Weights(constant[1:] - constant[:1], tuple(matrices))


class Chunks(NamedTuple):
    """How an array of rows is split into chunks, one after another so that memory stays bounded.

    Rows that are spread over devices lie on them one after another. A chunk then has rows of every
    device, so that all of them work at the same time.

    Attributes:
        rows: the number of rows of a chunk, a multiple of `devices`.
        devices: the number of devices over which rows are spread.
    """

    rows: int
    devices: int = 1

    def count(self, rows: int) -> int:
        """Return the number of chunks of some rows."""
        return rows // self.rows

    def split(self, a: Array) -> Array:
        """Return the chunks of an array whose last axis is rows, along a new first axis."""
        n = self.count(a.shape[-1])
        apart = a.reshape(*a.shape[:-1], self.devices, n, self.rows // self.devices)
        return jnp.moveaxis(apart, -2, 0).reshape(n, *a.shape[:-1], self.rows)

    def split_any(self, a: Array) -> Array:
        """Return `split` of any number of rows; the last row is repeated to fill the last chunk."""
        return self.split(jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, -a.shape[-1] % self.rows)], mode="edge"))

    def joined(self, a: Array) -> Array:
        """Return rows of shape (rows, ..) from chunks of shape (chunks, rows of a chunk, ..)."""
        apart = a.reshape(a.shape[0], self.devices, self.rows // self.devices, *a.shape[2:])
        return jnp.moveaxis(apart, 1, 0).reshape(-1, *a.shape[2:])


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def tabled_losses(
    weights: Weights,
    tabled: TabledBlocks,
    codes: Codes,
    shares: Float[Array, " blocks"],
    row_weights: Float[Array, " rows"],
    chunks: Chunks,
) -> Float[Array, " blocks"]:
    """Return for each block the sum over rows of share * weight * -log p(x_K | x_rest).

    The scores must not include a group that excludes values, that is, one without a table.

    Args:
        weights: the constants and matrices of the blocks.
        tabled: the blocks.
        codes: the rows, shape (cells, rows).
        shares: the share of each block.
        row_weights: the weight of each row.
        chunks: the rows that are evaluated at a time.
    """
    return by_chunks(lambda c, w: _chunk_sum(weights, tabled, c, shares, w)[0], codes, row_weights, chunks)


T = TypeVar("T")


def by_chunks(f: Callable[[Array, Array], T], codes: Codes, row_weights: Array, chunks: Chunks) -> T:
    """Return the sum of `f` over chunks of rows.

    Args:
        f: a function of the codes and the weights of some rows.
        codes: the rows, shape (cells, rows).
        row_weights: the weight of each row.
        chunks: the chunks.
    """
    if chunks.count(codes.shape[1]) <= 1:
        return f(codes, row_weights)
    pieces = chunks.split(codes), chunks.split(row_weights)
    zero = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(f, pieces[0][0], pieces[1][0]))
    return jax.lax.scan(lambda total, one: (jax.tree.map(jnp.add, total, f(*one)), None), zero, pieces)[0]


def _chunk_sum(
    weights: Weights, tabled: TabledBlocks, codes: Codes, shares: Array, row_weights: Array
) -> tuple[Array, Array, tuple[Array, ...]]:
    """Return the sum for each block, its derivative by the scores, and the indicators."""
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


def _forward(
    weights: Weights, tabled: TabledBlocks, codes: Codes, shares: Array, row_weights: Array, chunks: Chunks
) -> tuple[Array, Weights]:
    """Return the losses and their derivative, which both result from one pass over the rows."""

    def both(c: Array, w: Array) -> tuple[Array, Weights]:
        value, slope, seen = _chunk_sum(weights, tabled, c, shares, w)
        kinds = zip(tabled.contexts, seen, weights.matrices, strict=True)
        return value, Weights(slope.sum(axis=2), tuple(t.outer(slope, z, m.shape) for t, z, m in kinds))

    return by_chunks(both, codes, row_weights, chunks)


def _backward(chunks: Chunks, slopes: Weights, g: Array) -> tuple[Weights | None, ...]:
    del chunks
    return jax.tree.map(lambda a: g.astype(a.dtype).reshape(-1, *[1] * (a.ndim - 1)) * a, slopes), None, None, None, None


tabled_losses.defvjp(_forward, _backward)


def graph_tables(host: FactorGraph, graph: Graph, plan: GraphTables) -> Tables:
    """Return planned tables on the device."""
    sizes = np.append(host.sizes, 1)
    each = tuple(Table(graph.groups[t.group], t, table_codes(t, sizes[host.groups[t.group].cells])) for t in plan.tables)
    return Tables(each, plan)


def table_codes(plan: FactorTable, sizes: np.ndarray) -> tuple[Array, ...]:
    """Return the codes of each slot of a group, each of shape (factors, values).

    `sizes` has the number of values of the cell in each slot, shape (factors, slots).
    """
    found = np.unravel_index(np.arange(plan.values), plan.sizes) if plan.sizes else ()
    return tuple(_slot_codes(c, sizes[:, s] - 1) for s, c in enumerate(found))


def tabled_blocks(
    tables: Tables, graph: Graph, blocks: Blocks, plan: BlockTables, arrays: Sequence[np.ndarray], gapped: bool = False
) -> TabledBlocks:
    """Return planned scores of blocks on the device.

    Args:
        tables: the tables of the graph.
        graph: the factor graph.
        blocks: the blocks.
        plan: their planned tables.
        arrays: the index arrays of the blocks, see `plan.block_arrays`.
        gapped: whether the plan is for rows with missing values.
    """
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
    """Return the codes of a slot.

    A cell with fewer values than the maximum repeats its last value, so that every tree has a
    value.
    """
    same = bool((most == most[:1]).all())
    found = np.minimum(codes[None], most[:1, None] if same else most[:, None])
    return on_device(found.astype(np.int32))


class TableCurvature(NamedTuple):
    """Sums over rows of second-order terms.

    w is the weight of a row times a block's share, p the probabilities of a block's values, and z
    the indicators.

    Attributes:
        spread: the sum of w (1{v = u} p_v - p_v p_u), shape (blocks, values, values).
        beside: for each kind of contexts the sum of w p_v (1 - p_v) z_k, for all k but the first,
            shape (blocks, values, columns, width but one).
        seen: for each kind of contexts the sum of row weight times z, shape (contexts, width but
            one).
    """

    spread: Array
    beside: tuple[Array, ...]
    seen: tuple[Array, ...]


def table_curvature(
    weights: Weights,
    tabled: TabledBlocks,
    codes: Codes,
    shares: Float[Array, " blocks"],
    row_weights: Float[Array, " rows"],
    chunks: Chunks,
) -> TableCurvature:
    """Return the sums of `TableCurvature` over rows, in the float type of `weights`.

    Args:
        weights: the constants and matrices of the blocks.
        tabled: the blocks.
        codes: the rows, shape (cells, rows).
        shares: the share of each block.
        row_weights: the weight of each row.
        chunks: the rows that are evaluated at a time.
    """
    dtype = weights.constant.dtype

    def some(codes: Array, row_weights: Array) -> TableCurvature:
        seen = tabled.indicators(codes, dtype)
        scores = tabled.scores(weights, seen)
        each = jnp.pad(scores, ((0, 0), (1, 0), (0, 0)))  # the score of the first value
        each = jnp.exp(each - each.max(axis=1, keepdims=True))
        p = each / each.sum(axis=1, keepdims=True)
        p = jnp.broadcast_to(p, (*p.shape[:2], codes.shape[1]))
        weighted = p * tabled.counted(shares[:, None] * row_weights[None], codes).astype(dtype)[:, None]
        spread = weighted.sum(axis=2)[:, :, None] * jnp.eye(p.shape[1], dtype=dtype) - weighted @ jnp.swapaxes(p, 1, 2)
        by, beside = weighted * (1 - p), []
        for context, z, w in zip(tabled.contexts, seen, weights.matrices, strict=True):
            shape = (w.shape[0], p.shape[1], *w.shape[2:])
            beside.append(context.outer(by, z, shape))
        return TableCurvature(spread, tuple(beside), tuple((z * row_weights.astype(dtype)).sum(axis=2) for z in seen))

    return by_chunks(some, codes, row_weights, chunks)


def mean_indicators(curvature: TableCurvature, tabled: TabledBlocks, total: float) -> list[np.ndarray]:
    """Return the means of all indicators next to each block, including the first value's.

    The shape is (blocks or 1, columns, width).
    """
    out = []
    for context, seen in zip(tabled.contexts, curvature.seen, strict=True):
        mean = np.asarray(seen, float) / total
        whole = np.concatenate([1 - mean.sum(axis=1, keepdims=True), mean], axis=1)
        out.append(whole[None] if context.of is None else whole[np.asarray(context.of)])
    return out
