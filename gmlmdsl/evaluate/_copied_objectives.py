"""An objective at copies of the parameters, one for all blocks of a mask or one for each block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..derive import Blocks, ExactLoss, Weights, block_weights, bounded_jit, on_device, tabled_losses
from ..plan import SharedCopies, plan_copies, whole_copies
from ._objective import Objective, finite
from ._priors import log_prior_of

# Arrays of copies by parameter, with copies along the first axis. Several copies may share one
# array, see `plan.SharedCopies`.
Copies = Mapping[str, Array]


class JointObjective(eqx.Module):
    """The objective itself, at a single copy of the parameters."""

    objective: Objective

    @property
    def owner(self) -> Int[Array, "arrays size"]:
        """The copy that owns each entry, see `plan.SharedCopies`."""
        return jnp.zeros((1, sum(p.size for p in self.objective.frame.host.parameters)), jnp.int32)

    @property
    def count(self) -> int:
        """The number of copies."""
        return 1

    def __call__(self, free: Copies) -> Float[Array, " one"]:
        """Return the value at unconstrained parameters."""
        return self.objective({k: v[0] for k, v in free.items()})[None]

    def losses(self, params: Copies) -> Float[Array, " one"]:
        """Return c * sum over rows of w * loss."""
        first = {k: v[0] for k, v in params.items()}
        return (self.objective.factor * (self.objective.row_total(first) + self.objective.gap_total(first)))[None]


class BlockObjectives(eqx.Module):
    """An objective for each block K, at a copy of the parameters that K depends on.

    The objective is (sum over rows of w * -log p(x_K | x_rest) - log prior of these parameters) /
    n_K.

    Attributes:
        objective: the objective over all blocks, whose loss is an `ExactLoss`.
        weight: n_K, the row weight of each block: the weight of the rows that observe K, times p(K
            | x) of a data-dependent mask.
        owner: the copy that owns each entry, see `plan.SharedCopies`.
        places: for each set of blocks, the entries of `inside` and of its contexts in the tables of
            all arrays. Empty if each block has an array to itself.
    """

    objective: Objective
    weight: Float[Array, " blocks"]
    owner: Int[Array, "arrays size"]
    places: tuple[tuple[Array, ...], ...]

    @property
    def count(self) -> int:
        """The number of copies."""
        return self.weight.shape[0]

    def __call__(self, free: Copies) -> Float[Array, " blocks"]:
        """Return the values at unconstrained parameters, with a copy for each block."""
        frame = self.objective.frame
        params = jax.vmap(lambda f: frame.constrain(f, self.objective.held))(dict(free))
        return (self.losses(params) - self._priors(params)) / self.weight

    def losses(self, params: Copies) -> Float[Array, " blocks"]:
        """Return for each block the sum over rows of w * -log p(x_K | x_rest)."""
        loss, found, start = self.objective.exact_loss, [], 0
        if self.places:
            assert loss.tables is not None
            entries = jax.vmap(loss.tables.entries)(dict(params)).ravel()
            every = [jax.vmap(block_weights, (None, 0, 0))(entries, inside, contexts) for inside, *contexts in self.places]
            return jnp.concatenate([_by_tables(self.objective, k, weights) for k, weights in enumerate(every)])
        for k, (plain, blocks) in enumerate(zip(loss.is_plain, loss.blocks, strict=True)):
            stop = start + blocks.cells.shape[0]
            mine = {name: v[start:stop] for name, v in params.items()}
            if plain:
                found.append(_by_tables(self.objective, k, _own_weights(loss, k, mine)))
            else:
                found.append(jax.vmap(lambda p, b: _by_trees(self.objective, b, p), (0, 0))(mine, blocks))
            start = stop
        return jnp.concatenate(found)

    def _priors(self, params: Copies) -> Float[Array, " blocks"]:
        """Return the log prior of each block's copy."""
        total, start = jnp.zeros(self.count + 1, self.weight.dtype), 0
        for p in self.objective.frame.host.parameters:
            if p.prior is not None:
                each = jax.vmap(lambda v, p=p: log_prior_of(p, v))(params[p.name]).reshape(len(self.owner), -1)
                # The owner of a simplex row is the owner of its first entry.
                owner = self.owner[:, start : start + p.size : p.size // each.shape[1]]
                total = total.at[owner].add(each)
            start += p.size
        return total[:-1]


def block_objectives(objective: Objective, weight: Array, copies: SharedCopies) -> BlockObjectives:
    """Return the objectives of planned copies."""
    places = tuple(tuple(on_device(np.asarray(a, np.int32)) for a in arrays) for arrays in copies.places)
    return BlockObjectives(objective, weight, on_device(np.asarray(copies.owner, np.int32)), places)


def copies_of_blocks(objective: Objective, groups: np.ndarray) -> SharedCopies:
    """Plan the copies of the parameters for each block.

    A copy contains the parameters that the block depends on if these stand in tables, and all
    parameters otherwise. `groups` is as in `plan_copies`.
    """
    loss = objective.exact_loss
    if loss.tables is None or not all(loss.is_plain):
        return whole_copies(objective.frame.host, sum(b.cells.shape[0] for b in loss.blocks))
    places: Sequence[Any] = [jax.device_get([t.inside, *t.places]) for t in loss.tabled if t is not None]
    return plan_copies(objective.frame.host, loss.tables.plan, places, groups)


def _own_weights(loss: ExactLoss, k: int, params: Copies) -> Weights:
    """Return the tables whose products are the scores of a set of blocks.

    Each block has an array of its own.
    """
    tabled = loss.tabled[k]
    assert tabled is not None
    assert loss.tables is not None
    return jax.vmap(block_weights)(jax.vmap(loss.tables.entries)(dict(params)), tabled.inside, tabled.places)


def _by_tables(o: Objective, k: int, weights: Weights) -> Array:
    """Return the losses of a set of blocks whose scores are products of tables."""
    loss = o.exact_loss
    ones: jax.Array = jnp.ones(weights.constant.shape[0], weights.constant.dtype)
    return tabled_losses(weights, loss.tabled[k], o.codes, ones, o.weights, o.chunks)  # pyright: ignore[reportArgumentType]


def _by_trees(o: Objective, block: Blocks, params: Mapping[str, jax.Array]) -> Array:
    """Return the loss of one block by the expressions of the factors.

    The mask may be data-dependent.
    """
    part = _alone(o, block)
    return o.sum_rows(lambda codes, weights, _: (weights * finite(part.rows(params, codes), weights)).sum())


def _alone(o: Objective, block: Blocks) -> ExactLoss:
    """Return the loss of one block, given by arrays without the axis of blocks."""
    loss = o.exact_loss
    sure = None if loss.probabilities is None else (jnp.ones(1),)
    one = jax.tree.map(lambda a: a[None], block)
    return ExactLoss(loss.graph, loss.law, (one,), sure, loss.split, None, (None,), loss.gapped)


@bounded_jit
def block_weights_of_rows(objective: Objective, params: Mapping[str, Array]) -> Float[Array, " blocks"]:
    """Return n_K of each block, see `BlockObjectives`."""
    loss = objective.exact_loss

    def of(block: Blocks) -> Array:
        share, _ = _alone(objective, block).shares(params, objective.codes, 0)
        return (share[0] * objective.weights).sum()

    return jnp.concatenate([jax.lax.map(of, blocks) for blocks in loss.blocks])


def block_cells(loss: ExactLoss) -> list[tuple[int, ...]]:
    """Return the cells of each block, in the order of the copies."""
    rows = [row for blocks in loss.blocks for row in jax.device_get(blocks.cells)[:, :, 0]]
    return [tuple(int(c) for c in row if c < loss.graph.n_cells) for row in rows]
