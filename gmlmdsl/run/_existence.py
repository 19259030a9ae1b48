"""Whether a convex pseudolikelihood has a minimiser: a linear programme for a direction along which it falls for ever.

With log p affine in the parameters, a row's loss for a mask is log sum_a exp(s_a . theta) - s_x . theta. It falls without
end along v, or stays, exactly if (s_x - s_a) . v >= 0 for every value a of the block. Such a v with one strict inequality
is a recession direction: the data separate, and there is no minimiser (Albert and Anderson 1984; Geyer 2009).
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from scipy.optimize import linprog

from ..derive import Blocks, ExactLoss, local_scores
from ..derive.blocks import observed_value
from ._objective import Objective
from ._parameters import flatten, free_basis, has_proper_prior, tangent, unflatten

Array = np.ndarray
MOST_ENTRIES = 2e9  # statistics that are compared
FIRST_ROWS = 4000
MOST_ROUNDS = 30


@dataclass(frozen=True)
class Recession:
    """What the data leave open of parameters without a prior.

    Attributes:
        checked: whether the comparison was affordable.
        direction: a recession direction in parameter space, None if there is none.
        flat: an orthonormal basis of the directions along which no loss changes at all, shape (parameters, directions).
    """

    checked: bool
    direction: Array | None
    flat: Array | None = None


def find_recession(objective: Objective, params: dict[str, jax.Array]) -> Recession:
    """Directions without end, and flat ones. Parameters with a prior do not take part: it pulls them back."""
    host = objective.frame.host
    held = frozenset(objective.frame.fixed) | {p.name for p in host.parameters if has_proper_prior(p)}
    basis = tangent(host, held)
    if not basis.shape[1]:
        return Recession(True, None, basis)
    if not isinstance(objective.loss, ExactLoss):
        return Recession(False, None)
    entries = sum(b.cells.shape[0] * b.n_values for b in objective.loss.blocks) * float(objective.codes.shape[1])
    if entries * basis.shape[1] > MOST_ENTRIES:
        return Recession(False, None)
    rows = _differences(objective, params, basis)
    if rows.shape[0] == 0:
        return Recession(True, None, basis)
    values, vectors = np.linalg.eigh((rows.T @ rows).toarray())
    flat = vectors[:, values < 1e-9 * max(values.max(), 1e-300)]
    direction = _programme(rows, _bounds(objective, held))
    return Recession(True, None if direction is None else basis @ (direction - flat @ (flat.T @ direction)), basis @ flat)


def _differences(objective: Objective, params: dict[str, jax.Array], basis: Array) -> scipy.sparse.csr_matrix:
    """Distinct rows (s_x - s_a) . basis over data rows, blocks and values."""
    keep = np.asarray(objective.weights) > 0
    codes = np.unique(np.asarray(objective.codes)[:, keep], axis=1)
    vector, found = flatten(objective.frame.host, params), []
    assert isinstance(objective.loss, ExactLoss)
    for blocks in objective.loss.blocks:
        for b in range(blocks.cells.shape[0]):
            one = jax.tree.map(lambda a, b=b: a[b : b + 1], blocks)
            found.append(_block_rows(objective, one, codes, vector, basis))
    return scipy.sparse.csr_matrix(scipy.sparse.vstack(found))


def _block_rows(objective: Objective, block: Blocks, codes: Array, vector: jax.Array, basis: Array) -> scipy.sparse.csr_matrix:
    """The rows of one block; only configurations that differ where its factors look are evaluated."""
    loss, host = objective.loss, objective.frame.host
    _, first = np.unique(codes[_neighbourhood(loss.graph, block)], axis=1, return_index=True)
    count = len(first)
    padded = np.resize(first, max(32, 1 << (count - 1).bit_length()))  # few shapes, few compilations
    scores, statistics = _statistics(objective, block, jnp.asarray(codes[:, padded]), vector)
    finite, statistics = np.isfinite(np.asarray(scores))[:, :count], np.asarray(statistics)[:, :count] @ basis
    here = np.asarray(observed_value(block, jnp.asarray(codes[:, first]), host.n_cells))[0]
    difference = statistics[here, np.arange(count)][None] - statistics
    flat = difference[finite & (np.arange(len(statistics))[:, None] != here)]
    flat = np.round(flat, 10)
    flat = flat[(flat != 0).any(axis=1)]
    return scipy.sparse.csr_matrix(np.unique(flat, axis=0))


@eqx.filter_jit
def _statistics(objective: Objective, block: Blocks, codes: jax.Array, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Scores of one block's values, and their derivatives: (values, rows) and (values, rows, parameters)."""
    host, graph = objective.frame.host, objective.loss.graph

    def scores(v: jax.Array) -> jax.Array:
        return local_scores(graph, unflatten(host, v), codes, block)[0]

    def finite(v: jax.Array) -> jax.Array:
        found = scores(v)
        return jnp.where(jnp.isfinite(found), found, 0.0)

    return scores(vector), jax.jacfwd(finite)(vector)


def _neighbourhood(graph: object, block: Blocks) -> Array:
    """The cells that the block's factors look at."""
    cells = [np.asarray(block.cells).ravel()]
    for group, touch in zip(graph.groups, block.touch, strict=False):  # type: ignore[attr-defined]
        instances = np.asarray(touch).ravel()
        cells.append(np.asarray(group.cells)[instances[instances >= 0]].ravel())
    found = np.unique(np.concatenate(cells))
    return found[found < graph.n_cells]  # type: ignore[attr-defined]


def _bounds(objective: Objective, held: frozenset[str]) -> list[tuple[float, float]]:
    """Directions are scaled to [-1, 1]; a parameter bounded on one side cannot run that way without end."""
    bounds: list[tuple[float, float]] = []
    for p in objective.frame.host.parameters:
        if p.name in held:
            continue
        low, high = (0.0 if np.isfinite(p.lower) else -1.0), (0.0 if np.isfinite(p.upper) else 1.0)
        plain = p.kind in ("real", "positive", "bounded") and not p.gauge
        size = free_basis(p).shape[1]
        bounds += [(low, high) if plain else (-1.0, 1.0)] * size
    return bounds


def _programme(rows: scipy.sparse.csr_matrix, bounds: list[tuple[float, float]]) -> Array | None:
    """max sum(rows v) with rows v >= 0 and v in a box, by adding violated rows until none is left."""
    scale = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    rows = scipy.sparse.csr_matrix(scipy.sparse.diags(1 / scale) @ rows)
    objective = -np.asarray(rows.sum(axis=0)).ravel()
    chosen = np.unique(np.linspace(0, rows.shape[0] - 1, FIRST_ROWS).astype(int))
    for _ in range(MOST_ROUNDS):
        solved = linprog(objective, A_ub=-rows[chosen], b_ub=np.zeros(len(chosen)), bounds=bounds, method="highs")
        if solved.x is None:
            return None
        gains = rows @ solved.x
        violated = np.flatnonzero(gains < -1e-7)
        violated = np.setdiff1d(violated, chosen)
        if len(violated) == 0:
            return solved.x if gains.max(initial=0.0) > 1e-6 else None
        worst = violated[np.argsort(gains[violated])[:FIRST_ROWS]]
        chosen = np.concatenate([chosen, worst])
    return None
