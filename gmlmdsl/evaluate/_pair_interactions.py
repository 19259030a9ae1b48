"""The interaction of each pair of cells in the zero-sum gauge, and its derivatives."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

from .. import derive
from .._diagnostics import fail
from .._types import AnyArray
from ..graph import FactorGraph
from ..plan import PairTables, entry_values
from ._parameters import unflatten
from .limits import PAIR_DERIVATIVES_AT_ONCE

Array = np.ndarray


def pair_interactions(graph: FactorGraph, plan: PairTables, params: Mapping[str, AnyArray]) -> Array:
    """Return the interaction T_ij(a, b) of every pair of cells in the zero-sum gauge.

    The sums of T_ij over a and over b are 0. log p = constant + sum of f_i(x_i) + sum of T_ij(x_i,
    x_j) + parts of three cells and more, each part with zero sums over each of its cells. This
    decomposition is unique, whatever the gauge of the parameters (Ekeberg et al. 2013, equation 14,
    for factors of two cells).

    Returns:
        Array of shape (pairs, width, width), 0 at values that a cell lacks.

    Raises:
        GmlmError: E555 if a factor is infinite.
    """
    return zero_sum(pair_sums(graph, plan, params), plan.present)


def pair_sums(graph: FactorGraph, plan: PairTables, params: Mapping[str, AnyArray]) -> Array:
    """Return R_ij(a, b) of every pair of cells: the sum of the factors that contain both.

    A factor of more cells contributes its mean over the values of the others. The table depends on
    the gauge of the parameters, and it contains terms of one cell that stand in factors of two.

    Returns:
        Array of shape (pairs, width, width), 0 at values that a cell lacks.

    Raises:
        GmlmError: E555 if a factor is infinite.
    """
    known = {k: np.asarray(v, float) for k, v in params.items()}
    entries = np.concatenate([entry_values(graph.factors[t.group], t, known).ravel() for t in plan.tables])
    tables = (plan.sums @ np.where(np.isfinite(entries), entries, 0.0)).reshape(plan.present.shape)
    used = np.zeros(len(entries), bool)
    used[plan.sums.indices] = True
    if not np.isfinite(entries[used]).all():
        bad = next(
            t for t in plan.tables if not np.isfinite(entries[t.start : t.start + t.entries][used[t.start : t.start + t.entries]]).all()
        )
        help = "state what is impossible by `require`, which has no part in couplings"
        raise fail(
            "E555", "a factor that joins cells is infinite at some values: it has no coupling", graph.factors[bad.group].span, help=help
        )
    return np.where(plan.present, tables, 0.0)


def zero_sum(tables: Array, present: Array) -> Array:
    """Return tables minus the means of their rows and columns plus their overall mean.

    The means are over the values that cells have, as `present` states.
    """
    tables = np.where(present, tables, 0.0)
    wide, high = (present.any(axis=a).sum(axis=1)[:, None, None] for a in (1, 2))
    rows, columns = tables.sum(axis=2, keepdims=True) / wide, tables.sum(axis=1, keepdims=True) / high
    return np.where(present, tables - rows - columns + columns.sum(axis=2, keepdims=True) / wide, 0.0)


def interaction_slopes(graph: FactorGraph, plan: PairTables, params: Mapping[str, AnyArray], directions: Array) -> Array:
    """Return the derivatives of sum over a, b of directions_p(a, b) T_p(a, b) of each pair p.

    T_p is the sum of the factors that contain both cells. If the directions have zero sums, the
    derivatives are the same in every gauge.

    Args:
        graph: the factor graph.
        plan: the plan of the pairs' tables.
        params: parameters.
        directions: shape (pairs, width, width).

    Returns:
        Derivatives by every parameter, shape (pairs, parameters).
    """
    import scipy.sparse

    flat = np.ravel(directions)
    of = np.repeat(np.arange(len(directions)), plan.width**2)
    onto = scipy.sparse.csr_array((flat, (of, np.arange(len(flat)))), shape=(len(directions), len(flat)))
    weights = onto @ plan.sums
    vector = np.concatenate([np.ravel(params[p.name]) for p in graph.parameters] or [np.zeros(0)]).astype(float)
    columns = max(sum(t.entries for t in plan.tables), len(directions))
    step = max(1, PAIR_DERIVATIVES_AT_ONCE // columns)
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        sizes, device = np.append(graph.sizes, 1), derive.graph_arrays(graph)
        each = tuple(
            derive.Table(device.groups[t.group], t, derive.table_codes(t, sizes[graph.factors[t.group].cells])) for t in plan.tables
        )
        at, parts = jax.tree.map(derive.on_device, unflatten(graph, vector)), []
        for start in range(0, len(vector), step):
            moves = np.zeros((min(step, len(vector)), len(vector)))
            rows = np.arange(start, min(start + step, len(vector)))
            moves[rows - start, rows] = 1.0
            along = jax.tree.map(derive.on_device, unflatten(graph, moves))
            parts.append((weights @ np.asarray(_entry_slopes(each, at, along)).T)[:, : len(rows)])
    return np.concatenate([*parts, np.zeros((len(directions), 0))], axis=1)


@derive.bounded_jit
def _entry_slopes(tables: tuple[derive.Table, ...], params: dict[str, jax.Array], moves: dict[str, jax.Array]) -> jax.Array:
    """Return the derivatives of all entries of the tables along each move of the parameters.

    Shape (moves, entries); the arrays of `moves` have a first axis of moves.
    """

    def entries(values: dict[str, jax.Array]) -> jax.Array:
        return jax.numpy.concatenate([t.entries(values) for t in tables])

    return jax.vmap(lambda d: jax.jvp(entries, (params,), (d,))[1])(moves)
