"""Replica exchange: chains at several inverse temperatures exchange their configurations.

The exchanges let the cold chain leave its mode. The replicas of a chain are adjacent on the axis of
chains: the body of a `temper` is one kernel that moves them all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from ._energy import Codes, log_potential
from ._kernel import AbstractKernel, Info, State, Target
from ._picks import accepted as taken
from ._random import fold, words


class Replicas(NamedTuple):
    """The configuration at every beta, ascending, and the number of steps of each chain."""

    codes: Int[Array, "cells replicas chains"]
    turn: Int[Array, " chains"]


def log_acceptance(betas: Float[Array, "replicas chains"], log_p: Float[Array, "replicas chains"]) -> Float[Array, "pairs chains"]:
    """Return the log of the ratio by which neighbours r and r + 1 exchange.

    It is (b_r - b_r+1) (l_r+1 - l_r), with l the unnormalised log p. It is -inf if a replica is
    impossible, which never happens to a chain that starts in the support.

    Reference: Geyer 1991; Hukushima and Nemoto 1996.
    """
    possible = (log_p[1:] > -jnp.inf) & (log_p[:-1] > -jnp.inf)
    return jnp.where(possible, (betas[:-1] - betas[1:]) * jnp.where(possible, log_p[1:] - log_p[:-1], 0.0), -jnp.inf)


def proposed_pairs(turn: Int[Array, " chains"], pairs: int) -> Bool[Array, "pairs chains"]:
    """Return the proposed pairs of neighbours: alternately those at even and at odd places.

    Each of the two sets leaves the joint distribution of the replicas invariant. In alternation
    they carry a configuration along the ladder faster than in random order.

    Reference: Syed, Bouchard-Cote, Deligiannidis and Doucet 2022, "Non-reversible parallel
    tempering".
    """
    period = max(1, min(2, pairs))
    return (jnp.arange(pairs, dtype=turn.dtype)[:, None] % period) == (turn % period)[None]


def exchange(codes: Int[Array, "cells replicas chains"], accepted: Bool[Array, "pairs chains"]) -> Int[Array, "cells replicas chains"]:
    """Return the replicas after the exchange of each accepted pair of neighbours.

    Accepted pairs do not share a replica.
    """
    step = accepted.astype(jnp.int32)
    none = jnp.zeros_like(step[:1]) if step.shape[0] else jnp.zeros((1, codes.shape[2]), jnp.int32)
    source = jnp.arange(codes.shape[1], dtype=jnp.int32)[:, None] + jnp.concatenate([step, none]) - jnp.concatenate([none, step])
    return jnp.take_along_axis(codes, source[None], axis=1)


class TemperKernel(AbstractKernel):
    """Kernel that runs its body on replicas of p to the power of each beta.

    After the body, it exchanges neighbouring replicas. The chain is the replica at beta 1. The
    kernel leaves the product of the p^beta invariant, whose factor at beta 1 is p, if the body
    leaves p^beta invariant at each beta.
    """

    part: AbstractKernel
    betas: Float[Array, " replicas"]
    cold: int = eqx.field(static=True)

    def prepared(self, target: Target) -> AbstractKernel:
        return replace(self, part=self.part.prepared(target))

    @property
    def updates(self) -> int:
        return self.part.updates

    @property
    def pairs(self) -> int:
        return self.betas.shape[0] - 1

    def held(self, cells: int) -> float:
        return self.betas.shape[0] * (self.part.held(cells) + 8.0 * cells)

    @property
    def runs(self) -> int:
        return self.betas.shape[0] * self.part.runs

    @property
    def remembers(self) -> bool:
        return True

    def memory(self, codes: Codes) -> PyTree:
        """Return replicas that all start at the codes of the chain."""
        return Replicas(jnp.repeat(codes[:, None], self.betas.shape[0], axis=1), jnp.zeros(codes.shape[1], jnp.int32))

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        n, (cells, chains) = self.betas.shape[0], state.codes.shape
        # Other statements of the sampler move only the cold replica.
        codes = state.memory.codes.at[:, self.cold].set(state.codes)
        betas = jnp.broadcast_to(self.betas[:, None], (n, chains))
        if target.beta is not None:
            betas = betas * target.beta[None]
        rows = codes.reshape(cells, n * chains)
        inside = target._replace(beta=betas.reshape(-1))
        body_keys = fold(keys, 0)
        every = jnp.concatenate([fold(body_keys, r) for r in range(n)])
        moved, info = self.part.step(inside, every, self.part.init(rows))
        log_p = log_potential(target.graph, target.params, moved.codes).reshape(n, chains)
        proposed = proposed_pairs(state.memory.turn, n - 1)
        accepted = proposed & taken(log_acceptance(betas, log_p), words(fold(keys, 1), (n - 1,)))
        codes = exchange(moved.codes.reshape(cells, n, chains), accepted)
        # The counts are over all replicas: the cold one moves by exchanges, and its own updates may
        # hardly ever flip a cell.
        changed, drawn = (a.reshape(-1, n, chains).sum(axis=1, dtype=a.dtype) for a in (info.changed, info.drawn))
        found = Info(changed, drawn, proposed.astype(jnp.int32), accepted.astype(jnp.int32))
        return State(codes[:, self.cold], Replicas(codes, state.memory.turn + 1)), found
