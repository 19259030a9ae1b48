"""What a kernel is.

It is made once, from a model, its parameters and a sampler; `init` turns codes into a state and
`step` takes one step, both pure functions of keys and state. Chains are the last axis, and each has
its own key, so that a chain's draws depend on no other chain.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ._arrays import Graph
from ._energy import Codes, Params, log_potential


class State(NamedTuple):
    """What the next step needs; chains are the last axis of every array.

    `codes` of shape (cells, chains); `memory` is what a kernel keeps beside them, such as replicas,
    as a tuple of its parts'.
    """

    codes: Codes
    memory: Any = ()


class Info(NamedTuple):
    """What diagnostics need.

    By update statement: cells that changed, and cells that were drawn, clamped ones left out, shape
    (updates, chains). By pair of neighbouring replicas: exchanges proposed and accepted, shape
    (pairs, chains).
    """

    changed: Int[Array, "updates chains"]
    drawn: Int[Array, "updates chains"]
    proposed: Int[Array, "pairs chains"]
    accepted: Int[Array, "pairs chains"]


class Target(NamedTuple):
    """What a kernel leaves invariant: p to the power `beta` (1 where there is none), given the clamped cells.

    Of a conditional model, which has no p, `graph` is its network over some rows.
    """

    graph: Any
    params: Params
    clamped: Bool[Array, " cells_and_padding"] | Bool[Array, "cells chains"] | None
    beta: Float[Array, " chains"] | None = None


def free(target: Target, cells: Int[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Which of the cells a step may move: they are no padding, and not clamped."""
    inside = cells < target.graph.n_cells
    return inside if target.clamped is None else inside & ~target.clamped[cells]


class AbstractKernel(eqx.Module):
    """A Markov kernel."""

    @property
    def updates(self) -> int:
        """How many update statements it holds: the rows of its `Info`."""
        return 1

    @property
    def pairs(self) -> int:
        """How many pairs of neighbouring replicas it exchanges."""
        return 0

    @abc.abstractmethod
    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        """One step of every chain; `keys` has one key per chain."""

    def enter(self, target: Target, state: State) -> Any:
        """The state in the form that is quickest to `move`: what many steps carry from one to the next."""
        return state

    def move(self, target: Target, keys: PRNGKeyArray, carried: Any) -> tuple[Any, Info]:
        """`step` of what `enter` gave."""
        return self.step(target, keys, carried)

    def leave(self, target: Target, carried: Any) -> State:
        """The state again."""
        return carried

    def prepared(self, target: Target) -> AbstractKernel:
        """The same kernel with what it reads at these parameters, made once for many steps; a step that lacks it makes it."""
        del target
        return self

    @property
    def remembers(self) -> bool:
        """Whether it keeps something beside the codes."""
        return False

    def memory(self, codes: Codes) -> Any:
        """What it keeps beside the codes, at the start; without arrays where it `remembers` nothing."""
        del codes
        return ()

    def init(self, codes: Codes) -> State:
        """The state of chains that start at `codes`."""
        return State(codes, self.memory(codes))

    def score(self, target: Target, state: State) -> Float[Array, " chains"] | None:
        """What is recorded of a state: unnormalised log p; None where there is no joint distribution."""
        return log_potential(target.graph, target.params, state.codes) if isinstance(target.graph, Graph) else None

    def held(self, cells: int) -> float:
        """About how many bytes a step holds for each chain, of so many cells, beside its state."""
        del cells
        return 0.0

    @property
    def runs(self) -> int:
        """At most how often one step redraws a cell by one update statement."""
        return 1

    def nothing(self, chains: int) -> Info:
        """The information of no step."""
        updates, pairs = (jnp.zeros((n, chains), jnp.int32) for n in (self.updates, self.pairs))
        return Info(updates, updates, pairs, pairs)
