"""The start of Boltzmann learning: the maximum of the model in which all cells are independent.

At the initial parameters the factors of several cells are usually constant, as with couplings 0.
The factors of single cells then determine the distribution, and their parameters have a maximum
that needs no chain: fields become logarithms of frequencies, up to the prior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its modules load at first use
from jax.flatten_util import ravel_pytree

from ..derive import Blocks, Graph, bounded_jit, fixed_blocks, graph_arrays, local_scores
from ..evaluate import Frame, log_prior
from ..graph import FactorGraph, range_of
from .limits import CONSTANT_FACTOR, START_STEPS, START_TOLERANCE

Array = np.ndarray


def independent_start(
    host: FactorGraph, codes: Array, weights: Array, start: dict[str, jax.Array], held: frozenset[str]
) -> dict[str, jax.Array]:
    """Return the start with the parameters of single cells at their maximum.

    The start is returned unchanged if a factor of several cells is not constant there, or if there
    are requirements or given data. It is also unchanged if no free parameter belongs to single
    cells alone.

    Args:
        host: the factor graph.
        codes: shape (cells, rows), -1 if a cell is missing.
        weights: the weights of the rows.
        start: the initial values of all parameters.
        held: the names of the parameters that are fixed or have a start of the user's.
    """
    names = fields_of(host, {k: np.asarray(v) for k, v in start.items()}) - held
    if not names:
        return start
    frame = Frame(host, tuple(p.name for p in host.parameters if p.name not in names))
    alone = replace(host, factors=tuple(g for g in host.factors if _width(g.scope, host.n_cells) <= 1))
    cells = np.flatnonzero(host.is_observed).astype(np.int32)
    graph, blocks = graph_arrays(alone), fixed_blocks(alone, cells[:, None])
    counts = jnp.asarray(_counts(codes[cells], weights, blocks.n_values), jnp.zeros(()).dtype)
    total = jnp.asarray(weights.sum(), counts.dtype)
    free = frame.unconstrain(start)
    flat, restore = ravel_pytree(free)

    def value(at: Array) -> tuple[float, Array]:
        found, slope = _value(graph, frame, blocks, counts, total, start, restore(jnp.asarray(at, flat.dtype)))
        return float(found), np.asarray(ravel_pytree(slope)[0], float)

    options = {"maxiter": START_STEPS, "gtol": START_TOLERANCE}
    found = scipy.optimize.minimize(value, np.asarray(flat, float), jac=True, method="L-BFGS-B", options=options).x
    if not np.isfinite(found).all():
        return start
    return frame.constrain(restore(jnp.asarray(found, flat.dtype)), start)


def fields_of(host: FactorGraph, start: Mapping[str, Array]) -> set[str]:
    """Return the parameters of factors of single cells; empty if cells depend on one another."""
    if host.requires or host.given or host.model is not None:
        return set()
    several = [g for g in host.factors if _width(g.scope, host.n_cells) > 1]
    most = int(host.sizes.max(initial=1))
    ranges = [range_of(g, most, start) for g in several]
    if any(r is None or r[1] - r[0] > CONSTANT_FACTOR for r in ranges):
        return set()
    single = [g for g in host.factors if _width(g.scope, host.n_cells) <= 1]
    return {n for g in single for n in g.parameters} - {n for g in several for n in g.parameters}


def _width(scope: Array, n_cells: int) -> int:
    """Return the largest number of distinct cells of an instance."""
    ordered = np.sort(scope, axis=1)
    if not ordered.size:
        return 0
    first = np.concatenate([np.ones((len(ordered), 1), bool), ordered[:, 1:] != ordered[:, :-1]], axis=1)
    return int((first & (ordered < n_cells)).sum(axis=1).max())


def _counts(codes: Array, weights: Array, values: int) -> Array:
    """Return the share of the row weight of each observed value, shape (cells, values)."""
    found = [np.bincount(row[row >= 0], weights[row >= 0], values) for row in codes]
    return np.array(found) / weights.sum()


@bounded_jit
def _value(
    graph: Graph,
    frame: Frame,
    blocks: Blocks,
    counts: jax.Array,
    total: jax.Array,
    held: Mapping[str, jax.Array],
    free: dict[str, jax.Array],
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Return the objective of independent cells per unit of row weight, and its gradient."""

    def objective(at: dict[str, jax.Array]) -> jax.Array:
        params = frame.constrain(at, held)
        nothing = jnp.zeros((graph.n_cells, 1), jnp.int32)
        scores = local_scores(graph, params, nothing, blocks)[:, :, 0]
        logs = jax.nn.log_softmax(scores, axis=1)
        return -jnp.where(counts > 0, counts * logs, 0.0).sum() - log_prior(frame.host, params) / total

    return jax.value_and_grad(objective)(free)
