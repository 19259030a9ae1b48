"""An objective at copies of the parameters: one copy for all blocks of a mask, or one for each block's conditional."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..derive import Blocks, ExactLoss, block_weights, bounded_jit, tabled_losses
from ._objective import Objective, finite
from ._parameters import log_prior

Copies = Mapping[str, Array]  # arrays by parameter, the first axis copies


class JointObjective(eqx.Module):
    """One copy: the objective itself."""

    objective: Objective

    def __call__(self, free: Copies) -> Float[Array, " one"]:
        """Its value at unconstrained parameters."""
        return self.objective({k: v[0] for k, v in free.items()})[None]

    def losses(self, params: Copies) -> Float[Array, " one"]:
        """c * sum over rows of w loss."""
        first = {k: v[0] for k, v in params.items()}
        return (self.objective.factor * (self.objective.row_total(first) + self.objective.gap_total(first)))[None]


class BlockObjectives(eqx.Module):
    """A copy for each block K: (sum over rows of w -log p(x_K | x_rest) - log prior) / n_K.

    Attributes:
        objective: over all blocks, whose loss is an `ExactLoss`.
        weight: n_K, the row weight that counts for each block: of the rows that hold it, times p(K | x) of a mask that looks at x.
    """

    objective: Objective
    weight: Float[Array, " blocks"]

    def __call__(self, free: Copies) -> Float[Array, " blocks"]:
        """The values at unconstrained parameters, a copy for each."""
        frame = self.objective.frame
        params = jax.vmap(lambda f: frame.constrain(f, self.objective.held))(dict(free))
        return (self.losses(params) - jax.vmap(lambda p: log_prior(frame.host, p))(params)) / self.weight

    def losses(self, params: Copies) -> Float[Array, " blocks"]:
        """Of each block the sum over rows of w -log p(x_K | x_rest)."""
        o, found, start = self.objective, [], 0
        assert isinstance(o.loss, ExactLoss)
        for k, (plain, blocks) in enumerate(zip(o.loss.is_plain, o.loss.blocks, strict=True)):
            stop = start + blocks.cells.shape[0]
            mine = {name: v[start:stop] for name, v in params.items()}
            found.append(_by_tables(o, k, mine) if plain else jax.vmap(lambda p, b: _by_trees(o, b, p), (0, 0))(mine, blocks))
            start = stop
        return jnp.concatenate(found)


def _by_tables(o: Objective, k: int, params: Copies) -> Array:
    """The losses of a set of blocks that are products of tables."""
    loss = o.loss
    assert isinstance(loss, ExactLoss)
    assert loss.tables is not None
    tabled = loss.tabled[k]
    assert tabled is not None
    entries = jax.vmap(loss.tables.entries)(dict(params))
    weights = jax.vmap(block_weights)(entries, tabled.inside, tabled.places)
    return tabled_losses(weights, tabled, o.codes, jnp.ones(entries.shape[0], entries.dtype), o.weights, o.chunk)


def _by_trees(o: Objective, block: Blocks, params: Any) -> Array:
    """The loss of one block by the factors' expressions, whatever the mask looks at."""
    part = _alone(o, block)
    return o.sum_rows(lambda codes, weights, _: (weights * finite(part.rows(params, codes), weights)).sum())


def _alone(o: Objective, block: Blocks) -> ExactLoss:
    """The loss of one block, whose arrays lack the axis of blocks."""
    loss = o.loss
    assert isinstance(loss, ExactLoss)
    sure = None if loss.probabilities is None else (jnp.ones(1),)
    one = jax.tree.map(lambda a: a[None], block)
    return ExactLoss(loss.graph, loss.law, (one,), sure, loss.split, None, (None,), loss.gapped)


@bounded_jit
def block_weights_of_rows(objective: Objective, params: Mapping[str, Array]) -> Float[Array, " blocks"]:
    """n_K of each block, see `BlockObjectives`."""
    loss = objective.loss
    assert isinstance(loss, ExactLoss)

    def of(block: Blocks) -> Array:
        share, _ = _alone(objective, block).shares(params, objective.codes, 0)
        return (share[0] * objective.weights).sum()

    return jnp.concatenate([jax.lax.map(of, blocks) for blocks in loss.blocks])


def block_cells(loss: ExactLoss) -> list[tuple[int, ...]]:
    """The cells of each block, in the order of the copies."""
    rows = [row for blocks in loss.blocks for row in jax.device_get(blocks.cells)[:, :, 0]]
    return [tuple(int(c) for c in row if c < loss.graph.n_cells) for row in rows]
