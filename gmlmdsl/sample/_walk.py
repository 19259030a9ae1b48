"""A random walk from an impossible configuration to a possible one, by moves of single cells."""

from __future__ import annotations

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from ..derive import Graph, all_values, bounded_jit, on_device
from ..graph import FactorGraph
from . import limits

Array = np.ndarray


class Walk(eqx.Module):
    """Walks from impossible configurations to possible ones, by moves of single cells.

    A move picks a violated instance of a factor or requirement at random. Of all changes of one of
    its cells it takes the one that violates the fewest instances that held before. If every change
    violates some, a random one is taken with probability `limits.WALK_NOISE`. A configuration that
    is found is possible, and follows no known distribution.

    Reference: Selman, Kautz and Cohen 1994 (WalkSAT), here for cells of any number of values.

    Attributes:
        device: the factor graph.
        params: the parameters.
        scopes: the cells of each instance, padded with the number of cells.
        sizes: the number of values of each cell, and 0.
        values: the largest number of values of a cell.
        tried: the number of cells of an instance that a move considers.
    """

    device: Graph
    params: Mapping[str, jax.Array]
    scopes: Int[jax.Array, "instances width"]
    sizes: Int[jax.Array, " cells_and_none"]
    values: int = eqx.field(static=True)
    tried: int = eqx.field(static=True)

    @classmethod
    def of(cls, graph: FactorGraph, device: Graph, params: Mapping[str, jax.Array]) -> Walk:
        """Return the walks of a model; `device` is `graph` on the device."""
        scopes, values = _padded_scopes(graph), int(graph.sizes.max(initial=1))
        tried = min(scopes.shape[1], max(1, limits.WALK_AT_ONCE // (values * max(1, len(scopes)))))
        return cls(device, params, on_device(scopes, np.int32), on_device(np.append(graph.sizes, 0), np.int32), values, tried)

    def __call__(self, key: jax.Array, codes: Array, fixed: Array) -> Array | None:
        """Return a possible configuration, or None if the walk ends at an impossible one.

        Args:
            key: the key of the walk's choices.
            codes: the first configuration, shape (cells,).
            fixed: the cells that keep their values, shape (cells,).
        """
        evaluations = max(1, len(self.scopes) * self.tried * self.values)
        moves = int(np.clip(limits.MOST_EVALUATIONS / evaluations, limits.FEWEST_MOVES, limits.MOST_MOVES))
        free = on_device(np.append(~fixed, False), bool)
        found, is_impossible = _walked(self, key, on_device(codes, np.int32), free, on_device(moves, np.int32))
        return None if bool(is_impossible) else np.asarray(found)


def _padded_scopes(graph: FactorGraph) -> Array:
    """Return the cells of every instance of every group, padded with the number of cells."""
    width = max((g.scope.shape[1] for g in graph.groups), default=0)
    padded = [np.pad(g.scope, ((0, 0), (0, width - g.scope.shape[1])), constant_values=graph.n_cells) for g in graph.groups]
    return np.concatenate(padded)


@bounded_jit
def _walked(walk: Walk, key: jax.Array, codes: jax.Array, free: jax.Array, moves: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the end of a walk of at most `moves` moves, and whether it is impossible.

    Args:
        walk: the model.
        key: the key of the walk.
        codes: the first configuration, shape (cells,).
        free: the cells that may change, and False.
        moves: the largest number of moves.
    """
    scopes, sizes, tried, values = walk.scopes, walk.sizes, walk.tried, walk.values
    lost = ~free[scopes].any(axis=1)  # no move changes these
    value = jnp.tile(jnp.arange(values, dtype=codes.dtype), tried)

    def step(carried: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        t, codes, broken = carried
        pick, order, ties, other, noise = jax.random.split(jax.random.fold_in(key, t), 5)
        scope = scopes[_any_of(pick, broken)]
        chosen = jax.lax.top_k(jnp.where(free[scope], jax.random.uniform(order, scope.shape), -1.0), tried)[1]
        cells = jnp.repeat(scope[chosen], values)
        allowed = free[cells] & (value < sizes[cells]) & (value != jnp.append(codes, 0)[cells])
        trials = jnp.repeat(codes[:, None], len(value), axis=1).at[cells, jnp.arange(len(value))].set(value, mode="drop")
        after = _broken(walk, trials)
        harm = jnp.where(allowed, (after & ~broken[:, None]).sum(axis=0), jnp.iinfo(jnp.int32).max)
        best = _any_of(ties, harm == harm.min())
        random = _any_of(other, allowed)
        taken = jnp.where((harm[best] == 0) | (jax.random.uniform(noise) >= limits.WALK_NOISE), best, random)
        stuck = ~allowed.any()
        return t + 1, jnp.where(stuck, codes, trials[:, taken]), jnp.where(stuck, broken, after[:, taken])

    def goes_on(carried: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        t, _, broken = carried
        return (t < moves) & broken.any() & ~(broken & lost).any()

    _, codes, broken = jax.lax.while_loop(goes_on, step, (jnp.zeros((), jnp.int32), codes, _broken(walk, codes[:, None])[:, 0]))
    return codes, broken.any()


def _any_of(key: jax.Array, among: jax.Array) -> jax.Array:
    """Return the number of a true entry, each with the same probability."""
    return jnp.argmax(jnp.where(among, jax.random.uniform(key, among.shape), -1.0))


def _broken(walk: Walk, codes: jax.Array) -> jax.Array:
    """Return the instances that make each configuration impossible, shape (instances, rows).

    The instances are those of all groups.
    """
    values = [(g.kind, all_values(g, walk.params, codes)) for g in walk.device.groups]
    return jnp.concatenate([~v if kind == "require" else v == -jnp.inf for kind, v in values])
