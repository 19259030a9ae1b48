"""What a decode of a network leaves beside its tokens, and the kernels that decode."""

from __future__ import annotations

import abc
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ._energy import Codes
from ._kernel import AbstractKernel, State, Target


class Decoded(NamedTuple):
    """What a decode leaves beside its tokens.

    Attributes:
        score: the mean over the cells that were predicted of log p of their tokens.
        merit: what candidates are compared by, the highest first: the score, or log p / n^a of a
            search.
        passes: how many passes a chain took: all of them, unless `stop` or the schedule ends it
            earlier; of search its cells.
        trace: the tokens after each pass, shape (passes, cells, chains), -1 where a cell was hidden
            and is not predicted yet; no passes where it was not asked for.
        seen: the tokens that the last pass saw, shape (1, cells, chains), -1 where a cell was
            hidden: among them those that were predicted before and opened again, whose tokens
            `trace` keeps; of length 0 where `trace` is.
        draft: the tokens that the chain began with.
        length: how many cells the row has.
    """

    score: Float[Array, " chains"]
    merit: Float[Array, " chains"]
    passes: Int[Array, " chains"]
    trace: Int[Array, "passes cells chains"]
    seen: Int[Array, "kept cells chains"]
    draft: Codes
    length: Int[Array, " chains"]


class AbstractDecoder(AbstractKernel):
    """A kernel whose step is one decode, from the start to the end; it does not depend on the step before."""

    @property
    @abc.abstractmethod
    def kept_passes(self) -> int:
        """After how many passes the tokens are kept."""

    @property
    def remembers(self) -> bool:
        return True

    def memory(self, codes: Codes) -> Decoded:
        zero, whole = jnp.zeros(codes.shape[1]), jnp.zeros(codes.shape[1], jnp.int32)
        trace = jnp.zeros((self.kept_passes, *codes.shape), codes.dtype)
        return Decoded(zero, zero, whole, trace, self.kept(codes), codes, whole)

    def kept(self, seen: Codes) -> Int[Array, "kept cells chains"]:
        """What the last pass saw, where passes are kept."""
        return seen[None][: self.kept_passes]

    def score(self, target: Target, state: State) -> Array:
        return state.memory.score
