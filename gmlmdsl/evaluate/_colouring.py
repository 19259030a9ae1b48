"""Colours of the parameters of exponential families, for derivatives of local statistics.

If log p is affine in the parameters, the scores of a block's values have derivatives phi(block,
value, row) that do not depend on the parameters. Each block depends on few parameters. Parameters
that share no block share one colour, and one directional derivative per colour gives all of phi
(Curtis, Powell and Reid 1974).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from ..derive import Blocks, TabledBlocks, Tables, bounded_jit
from ..plan import entry_parameters, entry_values
from ._objective import Objective
from ._parameters import flatten, unflatten

Array = np.ndarray
# Limits for `entry_slopes`: the number of parameters, and the mean number of parameters with which
# each shares an entry.
MOST_MET, MOST_MET_EACH = 1 << 14, 64


@dataclass(frozen=True)
class Colouring:
    """Parameters in colours, such that a block depends on at most one parameter of each colour.

    Attributes:
        directions: 0 and 1, shape (colours, parameters).
        seen: for each set of blocks the parameter that a block depends on in a colour, shape
            (blocks, colours). The number of parameters stands for no parameter.
        slopes: the derivatives of the entries of tables along the directions, shape (colours,
            entries and a zero); None without tables.
    """

    directions: Array
    seen: tuple[Array, ...]
    slopes: Array | None


def colouring(objective: Objective, size: int) -> Colouring:
    """Return a colouring of `size` parameters."""
    loss = objective.exact_loss
    tables = loss.tables
    mentions = None if tables is None else _mentioned(objective, tables, size)
    touched = [
        _blocks_see(t, mentions) if t is not None else _seen_by_trees(objective, b, size)
        for b, t in zip(loss.blocks, loss.tabled, strict=True)
    ]
    together = sum((t.T.astype(np.float32) @ t.astype(np.float32) for t in touched), np.zeros((size, size), np.float32)) > 0
    colours = _greedy(size, lambda p: np.flatnonzero(together[p, :p]))
    count = int(colours.max(initial=-1)) + 1
    directions = (colours[None] == np.arange(count)[:, None]).astype(float)
    slopes = None
    if tables is not None:
        slopes, mentions = _slopes(objective, tables, directions, mentions, colours)
        touched = [t if b is None else _blocks_see(b, mentions) for t, b in zip(touched, loss.tabled, strict=True)]
    seen = []
    for t in touched:
        place = np.full((len(t), count), size)
        block, parameter = np.nonzero(t)
        place[block, colours[parameter]] = parameter
        seen.append(place)
    return Colouring(directions, tuple(seen), slopes)


def _greedy(size: int, near: Callable[[int], Array]) -> Array:
    """Return for each parameter the lowest colour of no earlier parameter near it."""
    colours = np.zeros(size, np.int64)
    for p in range(size):
        others = near(p)
        taken = set(colours[others[others < p]].tolist())
        colours[p] = next(c for c in range(size + 1) if c not in taken)
    return colours


def _mentioned(objective: Objective, tables: Tables, size: int) -> scipy.sparse.csr_matrix:
    """Return the parameters that each entry of the tables mentions.

    The matrix has the shape (entries and a zero, parameters).
    """
    pairs = [entry_parameters(objective.frame.host, t.plan) for t in tables.each]
    entry, parameter = (np.concatenate([p[k] for p in pairs]) for k in (0, 1))
    return scipy.sparse.csr_matrix((np.ones(len(entry), np.float32), (entry, parameter)), shape=(tables.plan.size + 1, size))


def entry_slopes(objective: Objective, size: int) -> scipy.sparse.csr_matrix | None:
    """Return the derivatives of the entries of tables by the parameters.

    The matrix has the shape (entries and a zero, parameters). It is None if many parameters meet in
    one entry.
    """
    loss = objective.exact_loss
    assert loss.tables is not None
    mentions: scipy.sparse.csr_matrix = _mentioned(objective, loss.tables, size)
    together: scipy.sparse.csr_matrix = scipy.sparse.csr_matrix(mentions.T @ mentions)
    colours = np.zeros(size, np.int64)
    if together.nnz > (together.diagonal() > 0).sum():
        if size > MOST_MET or together.nnz > MOST_MET * MOST_MET_EACH:
            return None
        starts, near = together.indptr, together.indices
        colours = _greedy(size, lambda p: near[starts[p] : starts[p + 1]])
    count = int(colours.max(initial=0)) + 1
    slopes, _ = _slopes(objective, loss.tables, (colours[None] == np.arange(count)[:, None]).astype(float), mentions, colours)
    entry = np.repeat(np.arange(len(mentions.indptr) - 1), np.diff(mentions.indptr))
    found = slopes[colours[mentions.indices], entry]
    return scipy.sparse.csr_matrix((found, mentions.indices, mentions.indptr), shape=mentions.shape)


def _blocks_see(tabled: TabledBlocks, mentions: Any) -> Array:
    """Return the parameters that the scores of each block depend on, shape (blocks, parameters)."""
    flat = np.concatenate([np.asarray(p).reshape(len(p), -1) for p in (tabled.inside, *tabled.places)], axis=1)
    count, width = flat.shape
    uses = scipy.sparse.csr_matrix(
        (np.ones(flat.size, np.float32), flat.ravel(), np.arange(0, flat.size + 1, width)), shape=(count, mentions.shape[0])
    )
    return np.asarray((uses @ mentions).toarray() > 0)


def _slopes(
    objective: Objective, tables: Tables, directions: Array, mentions: Any, colours: Array
) -> tuple[Array, scipy.sparse.csr_matrix]:
    """Return the derivatives of entries along the directions, and the dependences of the entries.

    The second result is the part of `mentions` with non-zero derivatives. Entries are affine in the
    parameters, so that differences are derivatives.
    """
    host = objective.frame.host
    out = np.zeros((len(directions), tables.plan.size + 1))
    for t in tables.each:
        group = host.groups[t.plan.group]
        mine = slice(t.plan.start, t.plan.start + t.plan.entries)
        zero = entry_values(group, t.plan, unflatten(host, np.zeros(directions.shape[1]))).ravel()
        for c in np.unique(colours[np.unique(mentions[mine].indices)]):
            out[c, mine] = entry_values(group, t.plan, unflatten(host, directions[c])).ravel() - zero
    entry = np.repeat(np.arange(mentions.shape[0]), np.diff(mentions.indptr))
    depends = out[colours[mentions.indices], entry] != 0
    kept = scipy.sparse.csr_matrix((depends.astype(np.float32), mentions.indices, mentions.indptr), shape=mentions.shape)
    return out, kept


def _seen_by_trees(objective: Objective, blocks: Blocks, size: int) -> Array:
    """Return the parameters that each block's scores depend on, by derivatives of the scores."""
    # Values and rows have random weights, so that their derivatives do not cancel.
    rng = np.random.default_rng(0)
    weights = (jax.device_put(rng.normal(size=n)) for n in (blocks.n_values, objective.codes.shape[1]))
    vector = flatten(objective.frame.host, {k: np.asarray(v) for k, v in objective.held.items()})
    assert len(vector) == size
    return np.asarray(_touched(objective, blocks, vector, *weights)) > 0


@bounded_jit
def _touched(objective: Objective, blocks: Blocks, vector: jax.Array, of_values: jax.Array, of_rows: jax.Array) -> jax.Array:
    """Return an array (blocks, parameters) that is positive if the block's scores depend on it."""
    host, loss = objective.frame.host, objective.exact_loss

    def chunk(codes: jax.Array, weights: jax.Array, masks: jax.Array | None) -> jax.Array:
        del weights, masks

        def one(block: Blocks) -> jax.Array:
            def projected(v: jax.Array) -> jax.Array:
                scores = loss.by_trees(unflatten(host, v), codes, jax.tree.map(lambda a: a[None], block))
                weights = of_values[None, : scores.shape[1], None] * of_rows[None, None, : scores.shape[2]]
                return jnp.where(jnp.isfinite(scores), scores * weights, 0.0).sum()

            return jnp.abs(jax.grad(projected)(vector))

        return jax.lax.map(one, blocks)

    return objective.sum_rows(chunk)
