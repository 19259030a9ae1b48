"""Results of a network's decode beside its tokens, and the interface of kernels that decode."""

from __future__ import annotations

import abc
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ._energy import Codes
from ._kernel import AbstractKernel, State, Target


class Decoded(NamedTuple):
    """Results of a decode beside its tokens.

    Attributes:
        score: the mean of log p of the tokens over the cells that were predicted.
        merit: the number by which candidates are compared, the highest being the best: the score,
            or log p / n^a in a search.
        passes: the number of passes that a chain took: all of them, unless `stop` or the schedule
            ends it earlier; in a search, the number of its cells.
        trace: the tokens after each pass, shape (passes, cells, chains), -1 where a cell was hidden
            and is not predicted yet; of length 0 unless requested.
        seen: the tokens that the last pass saw, shape (1, cells, chains), -1 where a cell was
            hidden. This includes cells that were predicted before and opened again, whose tokens
            `trace` keeps. Of length 0 if `trace` is.
        draft: the tokens that the chain began with.
        length: the number of cells of the row.
    """

    score: Float[Array, " chains"]
    merit: Float[Array, " chains"]
    passes: Int[Array, " chains"]
    trace: Int[Array, "passes cells chains"]
    seen: Int[Array, "kept cells chains"]
    draft: Codes
    length: Int[Array, " chains"]


class AbstractDecoder(AbstractKernel):
    """Kernel whose step is one decode from start to end, independent of the step before."""

    @property
    @abc.abstractmethod
    def kept_passes(self) -> int:
        """Number of passes after which the tokens are recorded."""

    @property
    def remembers(self) -> bool:
        return True

    def memory(self, codes: Codes) -> Decoded:
        zero, whole = jnp.zeros(codes.shape[1]), jnp.zeros(codes.shape[1], jnp.int32)
        trace = jnp.zeros((self.kept_passes, *codes.shape), codes.dtype)
        return Decoded(zero, zero, whole, trace, self.kept(codes), codes, whole)

    def kept(self, seen: Codes) -> Int[Array, "kept cells chains"]:
        """Return the tokens that the last pass saw, or no entries if passes are not recorded."""
        return seen[None][: self.kept_passes]

    def score(self, target: Target, state: State) -> Array:
        return state.memory.score
