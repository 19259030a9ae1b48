"""The interface of a kernel: `init` turns codes into a state, and `step` takes one step of a chain.

A kernel is made once, from a model, its parameters and a sampler. `init` and `step` are pure
functions of keys and state. Chains are the last axis of every array. Each chain has its own key, so
that its draws depend on no other chain.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from ._arrays import Graph
from ._energy import Codes, log_potential


class State(NamedTuple):
    """State of all chains between two steps; chains are the last axis of every array.

    `codes` has shape (cells, chains). `memory` is whatever else a kernel keeps, such as replicas;
    the memory of a kernel with parts is a tuple of the memories of its parts.
    """

    codes: Codes
    memory: PyTree = ()


class Info(NamedTuple):
    """Counts that diagnostics read after a step.

    `changed` counts the cells that changed. `drawn` counts the cells that were drawn, without the
    clamped ones. Both have shape (updates, chains), with a row for each update statement.
    `proposed` and `accepted` count exchanges for each pair of neighbouring replicas, shape (pairs,
    chains).
    """

    changed: Int[Array, "updates chains"]
    drawn: Int[Array, "updates chains"]
    proposed: Int[Array, "pairs chains"]
    accepted: Int[Array, "pairs chains"]


class Target(NamedTuple):
    """Distribution that a kernel leaves invariant: p to the power `beta`, given the clamped cells.

    Without `beta` the power is 1. A conditional model has no p: `graph` is its network over some
    rows.
    """

    graph: Any
    params: Mapping[str, PyTree]
    clamped: Bool[Array, " cells_and_padding"] | Bool[Array, "cells chains"] | None
    beta: Float[Array, " chains"] | None = None


def free(target: Target, cells: Int[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Return for each of `cells` whether a step may move it: it is neither padding nor clamped."""
    inside = cells < target.graph.n_cells
    return inside if target.clamped is None else inside & ~target.clamped[cells]


class AbstractKernel(eqx.Module):
    """Markov kernel on the states of all chains."""

    @property
    def updates(self) -> int:
        """Number of update statements in the kernel, which is the number of rows of its `Info`."""
        return 1

    @property
    def pairs(self) -> int:
        """Number of pairs of neighbouring replicas that the kernel exchanges."""
        return 0

    @abc.abstractmethod
    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        """Take one step of every chain; `keys` has one key for each chain."""

    def enter(self, target: Target, state: State) -> PyTree:
        """Return the carried form of the state, in which `move` is fastest over many steps."""
        return state

    def move(self, target: Target, keys: PRNGKeyArray, carried: PyTree) -> tuple[PyTree, Info]:
        """Take one `step` from the carried form of the state, which `enter` returned."""
        return self.step(target, keys, carried)

    def leave(self, target: Target, carried: PyTree) -> State:
        """Return the state from its carried form."""
        return carried

    def prepared(self, target: Target) -> AbstractKernel:
        """Return the kernel with its tables at these parameters, computed once for many steps.

        A step of a kernel without these tables computes them itself.
        """
        del target
        return self

    @property
    def remembers(self) -> bool:
        """Whether the state of the kernel has a memory beside the codes."""
        return False

    def memory(self, codes: Codes) -> PyTree:
        """Return the initial memory; it has no arrays if `remembers` is false."""
        del codes
        return ()

    def init(self, codes: Codes) -> State:
        """Return the state of chains that start at `codes`."""
        return State(codes, self.memory(codes))

    def score(self, target: Target, state: State) -> Float[Array, " chains"] | None:
        """Return the recorded score: unnormalised log p, or None without a joint distribution."""
        return log_potential(target.graph, target.params, state.codes) if isinstance(target.graph, Graph) else None

    def held(self, cells: int) -> float:
        """Return about how many bytes a step holds per chain of `cells` cells, beside the state."""
        del cells
        return 0.0

    @property
    def runs(self) -> int:
        """Maximum number of times that one step redraws a cell by one update statement."""
        return 1

    def nothing(self, chains: int) -> Info:
        """Return the `Info` of zero steps: all counts are 0."""
        updates, pairs = (jnp.zeros((n, chains), jnp.int32) for n in (self.updates, self.pairs))
        return Info(updates, updates, pairs, pairs)
