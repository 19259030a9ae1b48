"""log Z by variable elimination on tables of log factors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..graph import FactorGraph, FactorGroup
from ..plan import Elimination
from ._arrays import Graph, fixed_blocks
from ._energy import Params, all_values, local_values

Table = tuple[tuple[int, ...], Array]  # cells ascending, one axis each


def log_partition_rows(host: FactorGraph, graph: Graph, params: Params, plan: Elimination, rows: int) -> Float[Array, " rows"]:
    """log Z of each row of given variables; arguments as in `log_partition`."""
    return jax.lax.map(lambda row: log_partition(host, graph, params, plan, row), jnp.arange(rows, dtype=jnp.int32))


def log_partition(host: FactorGraph, graph: Graph, params: Params, plan: Elimination, row: Int[Array, ""] | int = 0) -> Float[Array, ""]:
    """log Z = log of the sum over all configurations of exp(log_potential).

    Tables hold logarithms and every sum is a log-sum-exp, so strong couplings neither overflow nor underflow.

    Args:
        host: the factor graph in NumPy, from which scopes are read.
        graph: the same on the device.
        params: parameter arrays by name.
        plan: the order of elimination.
        row: which row of given variables counts.
    """
    rest = jnp.zeros((host.n_cells, 1), jnp.int32)
    if host.row_cell is not None:
        rest = rest.at[host.row_cell].set(row)
    tables: dict[int, list[Table]] = {c: [] for c in plan.cells}
    place = {c: k for k, c in enumerate(plan.cells)}
    total = jnp.zeros(())
    for k, group in enumerate(host.groups):
        for scope, table in _factor_tables(host, graph, group, k, params, rest):
            if scope:
                tables[min(scope, key=place.__getitem__)].append((scope, table))
            else:
                total = total + table
    for cell, scope in zip(plan.cells, plan.steps, strict=True):
        joint = jnp.zeros([int(host.sizes[c]) for c in scope])
        for inner, table in tables.pop(cell):
            joint = joint + _aligned(inner, table, scope)
        summed = _logsumexp(joint, scope.index(cell))
        rest = tuple(c for c in scope if c != cell)
        if rest:
            tables[min(rest, key=place.__getitem__)].append((rest, summed))
        else:
            total = total + summed
    return total


def _factor_tables(host: FactorGraph, graph: Graph, group: FactorGroup, k: int, params: Params, rest: Array) -> list[Table]:
    """Every instance of a group as a table over its distinct cells; instances with as many cells are evaluated together."""
    device = graph.groups[k]
    scope = np.sort(group.scope, axis=1)
    repeated = np.concatenate([np.zeros((group.n, 1), bool), scope[:, 1:] == scope[:, :-1]], axis=1)[:, : scope.shape[1]]
    scope = np.sort(np.where(repeated, host.n_cells, scope), axis=1)
    counts = (scope < host.n_cells).sum(axis=1)
    if (counts == 0).any():
        values = all_values(device, params, rest)[np.flatnonzero(counts == 0), 0]
        constant = jnp.where(values.all(), 0.0, -jnp.inf) if group.kind == "require" else values.sum()
    out: list[Table] = [((), constant)] if (counts == 0).any() else []
    for count in np.unique(counts[counts > 0]).tolist():
        rows = np.flatnonzero(counts == count)
        out += _tables_of(host, device, group.kind, rows, scope[rows, :count], params, rest)
    return out


def _tables_of(
    host: FactorGraph, device: object, kind: str, rows: np.ndarray, scope: np.ndarray, params: Params, rest: Array
) -> list[Table]:
    blocks = fixed_blocks(host, scope)
    touch = jnp.asarray(rows[:, None, None].astype(np.int32))
    values = local_values(device, params, rest, blocks, touch)[:, 0]  # type: ignore[arg-type]
    values = jnp.broadcast_to(values, (len(rows), blocks.n_values, 1))[..., 0]
    values = jnp.where(values, 0.0, -jnp.inf) if kind == "require" else values
    shapes = host.sizes[scope]
    return [
        (tuple(s.tolist()), values[r, : int(np.prod(q))].reshape(q.tolist())) for r, (s, q) in enumerate(zip(scope, shapes, strict=True))
    ]


def _aligned(inner: tuple[int, ...], table: Array, scope: tuple[int, ...]) -> Array:
    return table.reshape([table.shape[inner.index(c)] if c in inner else 1 for c in scope])


def _logsumexp(a: Array, axis: int) -> Array:
    top = jnp.max(a, axis=axis, keepdims=True)
    safe = jnp.where(jnp.isfinite(top), top, 0.0)
    total = jnp.exp(a - safe).sum(axis=axis)
    positive = total > 0
    return jnp.where(positive, jnp.log(jnp.where(positive, total, 1.0)) + jnp.squeeze(safe, axis), -jnp.inf)
