"""A factor graph as JAX arrays, and blocks of its cells: the arguments of every derived function.

The axes have this order: blocks, instances (the factors that touch a block), values (joint values
of a block's cells), rows (data rows, chains, or configurations). A state is `codes` of shape
(cells, rows). The row axis of an index array has length 1 if all rows share the blocks. Otherwise
there are one or more blocks for each row.

The joint values of blocks are read from such states, and put into them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._diagnostics import GmlmError, fail
from .._types import ArrayLike
from ..graph import FactorGraph, FactorGroup
from ..graph.nodes import Gather, Node, mapped
from ..plan import block_arrays

if TYPE_CHECKING:
    from jax.typing import DTypeLike

Codes = Int[Array, "cells rows"]


class Group(eqx.Module):
    """`FactorGroup` on the device.

    The instances that touch cell i are `touching[starts[i] : starts[i + 1]]`.
    """

    root: Node = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    n: int = eqx.field(static=True)
    most: int = eqx.field(static=True)  # maximum number of instances that touch one cell
    cells: Int[Array, "n slots"]
    columns: tuple[Array, ...]
    tables: tuple[Array, ...]
    starts: Int[Array, " cells_and_end"]
    touching: Int[Array, " pairs"]


class Graph(eqx.Module):
    """`FactorGraph` on the device; `sizes` ends with a 1, for padding."""

    n_cells: int = eqx.field(static=True)
    most_values: int = eqx.field(static=True)
    groups: tuple[Group, ...]
    sizes: Int[Array, " cells_and_padding"]


class Blocks(eqx.Module):
    """Blocks of cells, each with its joint values enumerated by mixed radix, the last cell fastest.

    Attributes:
        n_values: the maximum number of joint values of a block.
        cells: positions ascending, padded with the number of cells, shape (blocks, members, rows or
            1).
        radix: the number of values of each member, 1 for padding.
        strides: the place value of each member.
        touch: for each group the instances that touch a block, -1 for padding, shape (blocks,
            width, rows or 1).
    """

    n_values: int = eqx.field(static=True)
    cells: Int[Array, "blocks members rows"]
    radix: Int[Array, "blocks members rows"]
    strides: Int[Array, "blocks members rows"]
    touch: tuple[Int[Array, "blocks width rows"], ...]

    @property
    def codes(self) -> Int[Array, "blocks values members rows"]:
        """Code of every member under every joint value."""
        values = jnp.arange(self.n_values, dtype=self.radix.dtype)[None, :, None, None]
        return (values // self.strides[:, None]) % self.radix[:, None]

    @property
    def valid(self) -> Bool[Array, "blocks values rows"]:
        """Joint values that exist: a block may have fewer than `n_values`."""
        count = jnp.prod(self.radix, axis=1)
        return jnp.arange(self.n_values, dtype=count.dtype)[None, :, None] < count[:, None]


def group_arrays(group: FactorGroup, n_cells: int, incidence: tuple[np.ndarray, np.ndarray] | None = None) -> Group:
    """Return the device form of a group."""
    starts, touching = group.incidence(n_cells) if incidence is None else incidence
    most = int(np.diff(starts).max(initial=0))
    # Tables of integers (edge numbers) stay integers; other numbers take the working float type.
    columns = tuple(_number_array(c) for c in group.columns)
    root, tables = with_room(group)
    tables = tuple(_number_array(t) for t in tables)
    return Group(root, group.kind, group.n, most, _ints(group.cells), columns, tables, _ints(starts), _ints(touching))


def room_for(rows: int) -> int:
    """Return the number of rows for which a program for `rows` rows is compiled.

    Similar numbers share a program; the excess is at most an eighth.
    """
    step = 1 << max(rows.bit_length() - 4, 0)
    return -(-rows // step) * step


def with_room(group: FactorGroup) -> tuple[Node, tuple[np.ndarray, ...]]:
    """Return the expression and the tables of a group.

    Data that come with the rows are followed by padding, which no row reads.
    """
    given = group.given
    if given is None or not given.rows:
        return group.root, group.tables
    more, tables = room_for(given.rows) - given.rows, []
    for table, variable in zip(group.tables, given.arrays, strict=True):
        wide = 0 if variable is None else len(table) // given.rows * more
        tables.append(np.pad(table, (0, wide), mode="edge") if wide else table)

    def sized(node: Node) -> Node:
        if isinstance(node, Gather) and not node.name and given.arrays[node.table] is not None:
            return replace(node, size=len(tables[node.table]))
        return node

    return mapped(group.root, sized), tuple(tables)


def no_joint(graph: FactorGraph) -> GmlmError:
    """Return E742, the error of a conditional model when a joint distribution is needed."""
    assert graph.network is not None
    target = graph.variables[0].name
    message = f"`conditional {target} ~ {graph.network.label}(..)` declares p(x_i | x_rest, K) of each cell, and no joint distribution"
    help = "log p, marginals, modes and exact draws need one; `log_conditional`, `loss`, `fit` and `sample` do not"
    return fail("E742", message, graph.network.span, "conditionals only", help=help)


@jax.ensure_compile_time_eval()
def graph_arrays(graph: FactorGraph) -> Graph:
    """Return the device form of a factor graph.

    Its arrays are concrete even while JAX traces the caller, because they are cached.

    Raises:
        GmlmError: E742 for a conditional model, which has no factor graph: every caller needs a
            joint distribution.
    """
    if graph.network is not None:
        raise no_joint(graph)
    groups = tuple(group_arrays(g, graph.n_cells, i) for g, i in zip(graph.groups, graph.incidences, strict=True))
    return Graph(graph.n_cells, int(graph.sizes.max(initial=1)), groups, _ints(np.append(graph.sizes, 1)))


def _ints(a: np.ndarray) -> Array:
    return on_device(np.asarray(a, np.int32))


def on_device(a: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Return an array of the host on the device, unchanged or in another type.

    `jnp.asarray` would compile a program for every shape.
    """
    return jax.device_put(np.asarray(a, dtype))


def fetched(a: ArrayLike) -> np.ndarray:
    """Return an array on the host, gathered from all processes if they hold parts of it."""
    if isinstance(a, jax.Array) and not (a.is_fully_addressable or a.is_fully_replicated):
        from jax.experimental.multihost_utils import process_allgather

        return np.asarray(process_allgather(a, tiled=True))
    return np.asarray(a)


def _number_array(a: np.ndarray) -> Array:
    if a.dtype == bool:
        return on_device(a)
    if a.dtype.kind in "iu" and (a.size == 0 or max(-int(a.min()), int(a.max())) < 2**31):
        return _ints(a)
    return on_device(np.asarray(a, float_type()))


def float_type() -> np.dtype:
    """Return the working float type: float64 under `jax_enable_x64`, else float32."""
    return jax.dtypes.result_type(float)


def fixed_blocks(graph: FactorGraph, blocks: np.ndarray, extra: Sequence[FactorGroup] = ()) -> Blocks:
    """Return blocks that all rows share.

    Args:
        graph: the factor graph.
        blocks: positions of shape (blocks, members), ascending, padded with the number of cells.
        extra: further groups (a mask's weights), whose touching instances follow those of the
            graph.
    """
    return blocks_on_device(graph, block_arrays(graph, blocks, extra))


def stacked_blocks(graph: FactorGraph, pieces: Sequence[np.ndarray]) -> Blocks:
    """Return several lists of equally many blocks, stacked along a leading axis of lists.

    Each list is as in `fixed_blocks`.
    """
    found = []
    for arrays in zip(*(block_arrays(graph, p) for p in pieces), strict=True):
        wide = max(a.shape[1] for a in arrays)
        found.append(np.stack([np.pad(a, ((0, 0), (0, wide - a.shape[1])), constant_values=-1) for a in arrays]))
    return blocks_on_device(graph, found)


def blocks_on_device(graph: FactorGraph, arrays: Sequence[np.ndarray]) -> Blocks:
    """Return blocks from their `block_arrays`, which may have further leading axes."""
    n_values = int(np.append(graph.sizes, 1)[arrays[0]].astype(float).prod(axis=-1).max())
    cells, radix, strides, *touch = (_ints(a[..., None]) for a in arrays)
    return Blocks(n_values, cells, radix, strides, tuple(touch))


def drawn_blocks(graph: Graph, cells: Int[Array, "blocks members rows"], n_values: int, extra: Sequence[Group] = ()) -> Blocks:
    """Return blocks that differ from row to row, as a random mask draws them.

    The work is local to the cells of the blocks.

    Args:
        graph: the factor graph.
        cells: positions ascending, padded with the number of cells.
        n_values: the maximum number of joint values of a block.
        extra: further groups, as in `fixed_blocks`.
    """
    radix = graph.sizes[cells]
    after = jnp.concatenate([radix[:, 1:], jnp.ones_like(radix[:, :1])], axis=1)
    strides = jnp.flip(jnp.cumprod(jnp.flip(after, 1), axis=1), 1)
    touch = tuple(_drawn_touch(g, cells, graph.n_cells) for g in (*graph.groups, *extra))
    return Blocks(n_values, cells, radix, strides, touch)


def _drawn_touch(group: Group, cells: Int[Array, "blocks members rows"], n_cells: int) -> Int[Array, "blocks width rows"]:
    """Return the instances that touch each member.

    An instance that an earlier member touches too is left out, so that each counts once.
    """
    blocks, members, rows = cells.shape
    if group.most == 0:
        return jnp.full((blocks, 0, rows), -1, jnp.int32)
    safe = jnp.minimum(cells, n_cells - 1)
    first, end = group.starts[safe], group.starts[safe + 1]
    at = first[:, :, None] + jnp.arange(group.most, dtype=jnp.int32)[None, None, :, None]
    here = (at < end[:, :, None]) & (cells < n_cells)[:, :, None]
    # axes: blocks, members, most, rows
    instance = group.touching[jnp.minimum(at, group.touching.shape[0] - 1)]
    scope = group.cells[instance]  # axes: ..., slots
    for earlier in range(members - 1):
        known = (scope == cells[:, earlier, None, None, :, None]).any(axis=-1)
        here &= ~known | (jnp.arange(members)[None, :, None, None] <= earlier)
    return jnp.where(here, instance, -1).reshape(blocks, members * group.most, rows)


# The joint values of blocks in configurations


def observed_value(blocks: Blocks, codes: Codes, n_cells: int) -> Int[Array, "blocks rows"]:
    """Return the number of the joint value that each block has in the configuration."""
    here = _block_codes(blocks, codes)
    inside = blocks.cells < n_cells
    return jnp.where(inside, here * blocks.strides, 0).sum(axis=1)


def _block_codes(blocks: Blocks, codes: Codes) -> Int[Array, "blocks members rows"]:
    cells = blocks.cells
    return codes[cells[..., 0]] if cells.shape[-1] == 1 else codes[cells, jnp.arange(codes.shape[1])]


def put_value(blocks: Blocks, codes: Codes, value: Int[Array, "blocks rows"], keep: Array) -> Codes:
    """Set each block to a joint value.

    Args:
        blocks: the blocks.
        codes: the configurations, shape (cells, rows).
        value: the number of the joint value of each block.
        keep: which blocks stay as they are.
    """
    single = blocks.cells.shape[1] == 1
    new = value[:, None] if single else (value[:, None] // blocks.strides) % blocks.radix
    new = jnp.where(keep[:, None], _block_codes(blocks, codes), new).astype(codes.dtype)
    cells = blocks.cells
    if cells.shape[-1] == 1:
        return codes.at[cells[..., 0]].set(new, mode="drop")
    return codes.at[cells, jnp.arange(codes.shape[1])].set(new, mode="drop")


def clamp_scores(
    blocks: Blocks, codes: Codes, clamped: Array, n_cells: int, scores: Float[Array, "blocks values rows"]
) -> Float[Array, "blocks values rows"]:
    """Set to -inf the score of every value that would move a clamped cell.

    Args:
        blocks: the blocks.
        codes: the configurations, shape (cells, rows).
        clamped: a boolean for each cell, and one for padding.
        n_cells: the number of cells.
        scores: the scores of the values.
    """
    fixed = clamped[blocks.cells] & (blocks.cells < n_cells)
    moved = blocks.codes != _block_codes(blocks, codes)[:, None]
    return jnp.where((moved & fixed[:, None]).any(axis=2), -jnp.inf, scores)
