"""Second-order sums of exponential families from local statistics.

Where log p is affine in the parameters, the scores of a block's values have the derivatives phi(block, value, row), which do
not depend on the parameters, and each block sees few of them. Parameters that no block sees together share one colour, and one
directional derivative per colour gives all of phi (Curtis, Powell and Reid 1974). Hessian, score covariance and the comparison
of statistics then cost as much as the blocks see, not as much as there are parameters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ..derive import Blocks, ExactLoss, bounded_jit, local_scores
from ..derive.blocks import observed_value
from ._objective import Objective
from ._parameters import unflatten

Array = np.ndarray


@dataclass(frozen=True)
class Colouring:
    """Parameters in colours, such that a block sees at most one of each.

    `directions` of shape (colours, parameters) are 0 and 1. For each set of blocks, `seen` of shape (blocks, colours) says which
    parameter a block sees in a colour; the number of parameters stands where it sees none.
    """

    directions: Array
    seen: tuple[Array, ...]


@dataclass(frozen=True)
class Sums:
    """Over rows: `hessian` of sum w loss; `first` and `second` moments of u_r = w_r grad loss_r; `one_mask`: sum w^2 E_K g_K g_K'."""

    hessian: Array
    first: Array
    second: Array
    one_mask: Array | None


def colouring(objective: Objective, vector: jax.Array) -> Colouring:
    """Colours of the parameters."""
    assert isinstance(objective.loss, ExactLoss)
    size = vector.shape[0]
    # Weights of values and of rows: derivatives of different ones must not cancel.
    rng, most = np.random.default_rng(0), max((b.n_values for b in objective.loss.blocks), default=1)
    weights = tuple(jax.device_put(rng.normal(size=n).astype(vector.dtype)) for n in (most, objective.codes.shape[1]))
    touched = [np.asarray(_touched(objective, blocks, vector, *weights)) > 0 for blocks in objective.loss.blocks]
    together = sum((t.T.astype(np.float32) @ t.astype(np.float32) for t in touched), np.zeros((size, size), np.float32)) > 0
    colours = np.full(size, -1)
    for p in range(size):
        taken = set(colours[:p][together[p, :p]].tolist())
        colours[p] = next(c for c in range(size + 1) if c not in taken)
    count = int(colours.max(initial=-1)) + 1
    directions = (colours[None] == np.arange(count)[:, None]).astype(float)
    seen = []
    for t in touched:
        place = np.full((len(t), count), size)
        block, parameter = np.nonzero(t)
        place[block, colours[parameter]] = parameter
        seen.append(place)
    return Colouring(directions, tuple(seen))


@bounded_jit
def _touched(objective: Objective, blocks: Blocks, vector: jax.Array, of_values: jax.Array, of_rows: jax.Array) -> jax.Array:
    """Which parameters each block's scores depend on: positive entries of (blocks, parameters)."""
    host, graph = objective.frame.host, objective.loss.graph

    def chunk(codes: jax.Array, weights: jax.Array, masks: jax.Array | None) -> jax.Array:
        del weights, masks

        def one(block: Blocks) -> jax.Array:
            def projected(v: jax.Array) -> jax.Array:
                scores = local_scores(graph, unflatten(host, v), codes, jax.tree.map(lambda a: a[None], block))
                weights = of_values[None, : scores.shape[1], None] * of_rows[None, None, : scores.shape[2]]
                return jnp.where(jnp.isfinite(scores), scores * weights, 0.0).sum()

            return jnp.abs(jax.grad(projected)(vector))

        return jax.lax.map(one, blocks)

    return objective.sum_rows(chunk)


def statistics(
    objective: Objective, blocks: Blocks, codes: jax.Array, vector: jax.Array, directions: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Scores (blocks, values, rows), -inf where impossible, and phi (colours, blocks, values, rows)."""
    host, graph = objective.frame.host, objective.loss.graph

    def finite(v: jax.Array) -> jax.Array:
        scores = local_scores(graph, unflatten(host, v), codes, blocks)
        return jnp.where(jnp.isfinite(scores), scores, 0.0)

    scores = local_scores(graph, unflatten(host, vector), codes, blocks)
    return scores, jax.lax.map(lambda d: jax.jvp(finite, (vector,), (d,))[1], directions)


def second_order(objective: Objective, vector: jax.Array, colours: Colouring) -> Sums:
    """The sums over all rows, in parameter space."""
    seen = tuple(jnp.asarray(s) for s in colours.seen)
    objective = dataclasses.replace(objective, gaps=None, gap_weights=None)  # of complete rows only: so one compilation serves all
    hessian, first, second, one_mask = (np.asarray(a) for a in _second_order(objective, vector, jnp.asarray(colours.directions), seen))
    single = None if objective.loss.split else one_mask[:-1, :-1]  # type: ignore[union-attr]
    return Sums(hessian[:-1, :-1], first[:-1], second[:-1, :-1], single)


@bounded_jit
def _second_order(objective: Objective, vector: jax.Array, directions: jax.Array, seen: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    size = vector.shape[0] + 1  # the last row and column take what no block sees
    assert isinstance(objective.loss, ExactLoss)

    loss = objective.loss

    def chunk(codes: jax.Array, weights: jax.Array, masks: jax.Array | None) -> tuple[jax.Array, ...]:
        del masks
        hessian = one_mask = jnp.zeros((size, size))
        scores_of_rows = jnp.zeros((size, codes.shape[1]))
        for k, blocks in enumerate(loss.blocks):
            scores, phi = statistics(objective, blocks, codes, vector, directions)
            shares, correction = loss.shares(unflatten(objective.frame.host, vector), codes, k)
            p = _shares_of(scores if correction is None else scores + correction)
            here = observed_value(blocks, codes, loss.graph.n_cells)[:, None]
            mean = (phi * p[None]).sum(axis=2)  # colours, blocks, rows
            gradient = mean - jnp.take_along_axis(phi, here[None], axis=2)[:, :, 0]
            at = (seen[k][:, :, None], seen[k][:, None, :])
            weighted = shares * weights[None]
            spread = jnp.einsum("cbar,dbar,bar,br->bcd", phi, phi, p, weighted) - jnp.einsum("cbr,dbr,br->bcd", mean, mean, weighted)
            hessian = hessian.at[at].add(spread)
            one_mask = one_mask.at[at].add(jnp.einsum("cbr,dbr,br->bcd", gradient, gradient, shares * (weights**2)[None]))
            scores_of_rows = scores_of_rows.at[seen[k].T].add(gradient * weighted[None])
        return hessian, scores_of_rows.sum(axis=1), scores_of_rows @ scores_of_rows.T, one_mask

    return objective.sum_rows(chunk)


def _shares_of(scores: jax.Array) -> jax.Array:
    """Probabilities over the values; zeros where none is possible, as in a block that the mask cannot draw at this row."""
    top = scores.max(axis=1, keepdims=True)
    weights = jnp.exp(scores - jnp.where(jnp.isfinite(top), top, 0.0))
    total = weights.sum(axis=1, keepdims=True)
    return weights / jnp.where(total > 0, total, 1.0)


def differences(objective: Objective, vector: jax.Array, colours: Colouring) -> Iterator[tuple[Array, Array]]:
    """For each block: the parameters it sees, and the distinct rows phi(x) - phi(a) over data rows and values a."""
    keep = np.asarray(objective.weights) > 0
    codes = np.unique(np.asarray(objective.codes)[:, keep], axis=1)
    directions = jnp.asarray(colours.directions)
    assert isinstance(objective.loss, ExactLoss)
    for blocks, seen in zip(objective.loss.blocks, colours.seen, strict=True):
        for b in range(blocks.cells.shape[0]):
            one = jax.tree.map(lambda a, b=b: a[b : b + 1], blocks)
            _, first = np.unique(codes[neighbourhood(objective.loss.graph, one)], axis=1, return_index=True)
            padded = np.resize(first, max(32, 1 << (len(first) - 1).bit_length()))  # few shapes, few compilations
            alive, phi, here = _block_statistics(objective, one, jnp.asarray(codes[:, padded]), vector, directions)
            mine = seen[b] < vector.shape[0]
            found = np.asarray(phi)[mine][:, 0, :, : len(first)]  # colours, values, rows
            at = np.asarray(here)[0, : len(first)]
            gaps = found[:, at, np.arange(len(first))][:, None] - found
            possible = np.asarray(alive)[0, :, : len(first)]
            other = possible & possible[at, np.arange(len(first))] & (np.arange(found.shape[1])[:, None] != at)
            rows = np.round(gaps[:, other].T, 10)
            yield seen[b][mine], np.unique(rows[(rows != 0).any(axis=1)], axis=0)


@bounded_jit
def _block_statistics(
    objective: Objective, block: Blocks, codes: jax.Array, vector: jax.Array, directions: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Which values are possible, given K too where the mask looks at x; phi; and the observed value."""
    loss = objective.loss
    scores, phi = statistics(objective, block, codes, vector, directions)
    if loss.probabilities is None:  # type: ignore[union-attr]
        scores = scores + loss.correction(unflatten(objective.frame.host, vector), codes, block)  # type: ignore[union-attr]
    return jnp.isfinite(scores), phi, observed_value(block, codes, loss.graph.n_cells)


def neighbourhood(graph: object, block: Blocks) -> Array:
    """The cells that a block's factors look at."""
    cells = [np.asarray(block.cells).ravel()]
    for group, touch in zip(graph.groups, block.touch, strict=False):  # type: ignore[attr-defined]
        instances = np.asarray(touch).ravel()
        cells.append(np.asarray(group.cells)[instances[instances >= 0]].ravel())
    found = np.unique(np.concatenate(cells))
    return found[found < graph.n_cells]  # type: ignore[attr-defined]
