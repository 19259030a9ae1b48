"""Kernels of a network's conditional: K is hidden and redrawn in one pass from p(x_i | x_rest, K).

If K has one cell, this is the single-site kernel of the network's conditionals. These conditionals
need not belong to any joint distribution. A K of several cells takes a product step. The
distribution that such a chain leaves invariant is unknown, and nothing here reports this. Kernels
that decode have a common interface, and leave results beside the tokens.

Reference: Li et al. 2024, Definition 11 and Section 3.
"""

from __future__ import annotations

import abc
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._diagnostics import fail
from ..graph import Lowered
from ..masks import AbstractMask, cells_of, lower_mask
from ..plan import sweep_blocks
from ..program import ir
from ._arrays import on_device
from ._energy import Codes
from ._kernel import AbstractKernel, Info, State, Target
from ._kernels import counted
from ._mask_law import AbstractMaskLaw, mask_law
from ._membership import members
from ._network import UNDEFINED, NetworkGraph, Networks, has_no_distribution
from ._picks import pick_token, token_words
from ._random import fold_apart


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


Held = Bool[Array, "cells chains"]


def free_cells(target: Target) -> Held:
    """Return the cells that may move: those that are neither padding nor clamped."""
    present = target.graph.present
    if target.clamped is None:
        return present
    clamped = target.clamped[: present.shape[0]]
    return present & ~(clamped if clamped.ndim == 2 else clamped[:, None])


def redraw(target: Target, codes: Codes, held: Held, keys: PRNGKeyArray) -> Codes:
    """Redraw the cells of K from p(x_i | x_rest, K), all in one pass.

    A cell without such a distribution gets the code `UNDEFINED`, and keeps it for good.

    Args:
        target: the network over some rows, its parameters and the clamped cells.
        codes: the configurations, shape (cells, chains).
        held: the cells of K.
        keys: a key for each chain.
    """
    graph = target.graph
    assert isinstance(graph, NetworkGraph)
    held = held & free_cells(target) & (codes != UNDEFINED)
    logits = graph.logits(target.params, jnp.where(held | ~graph.present, graph.most_values, codes))
    drawn = token_words(keys, codes.shape[0], logits.shape[-1])
    token = jnp.where(has_no_distribution(logits), UNDEFINED, pick_token(logits, drawn.transposed))
    return jnp.where(held, token.T, codes)


class AbstractNetworkKernel(AbstractKernel):
    """Kernel of one update, which chooses K and then redraws it."""

    @abc.abstractmethod
    def blocks(self, target: Target, codes: Codes, keys: PRNGKeyArray) -> tuple[Held, Held]:
        """Return K of each chain, and the undefined cells.

        An undefined cell has no distribution although the choice of K depends on it.
        """

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        held, undefined = self.blocks(target, state.codes, fold_apart(keys, 0))
        held = held & free_cells(target)
        codes = redraw(target, jnp.where(undefined, UNDEFINED, state.codes), held, fold_apart(keys, 1))
        return State(codes, state.memory), counted(state.codes, codes, held.sum(axis=0, dtype=jnp.int32))


class NetworkKernel(AbstractNetworkKernel):
    """Kernel that draws K from a mask."""

    law: AbstractMaskLaw

    def blocks(self, target: Target, codes: Codes, keys: PRNGKeyArray) -> tuple[Held, Held]:
        assert isinstance(target.graph, NetworkGraph)
        return members(self.law, codes, keys, target.graph.present), jnp.zeros(codes.shape, bool)


class LeastConfidentKernel(AbstractNetworkKernel):
    """Kernel whose K is the `count` cells of `cells` with the lowest confidence.

    The confidence of a cell is p(x_i | x_-i) at its present value; ties go to the first cell. Each
    cell is hidden on its own, so a step takes one pass per cell.
    """

    cells: Int[Array, " pool"]
    count: int = eqx.field(static=True)

    def blocks(self, target: Target, codes: Codes, keys: PRNGKeyArray) -> tuple[Held, Held]:
        graph, free = target.graph, free_cells(target)
        assert isinstance(graph, NetworkGraph)
        log_p = present_values(graph, target.params, codes, self.cells)
        pool = jnp.zeros(codes.shape[0], bool).at[self.cells].set(True, mode="drop")[:, None] & free
        return least(jnp.where(pool, log_p, jnp.inf), jnp.full(codes.shape[1], self.count)) & pool, pool & jnp.isnan(log_p)


def present_values(graph: NetworkGraph, params: Networks, codes: Codes, cells: Int[Array, " pool"]) -> Float[Array, "cells chains"]:
    """Return log p(x_i | x_-i) of each of `cells`, by one pass for each; other cells get 0.

    Args:
        graph: the network over some rows.
        params: parameters.
        codes: the configurations, shape (cells, chains).
        cells: the cells to evaluate.
    """

    def one(cell: Array) -> Array:
        place = jnp.minimum(cell, codes.shape[0] - 1)
        hidden = (jnp.arange(codes.shape[0], dtype=cells.dtype) == place)[:, None] | ~graph.present
        rows = jax.nn.log_softmax(graph.logits(params, jnp.where(hidden, graph.most_values, codes))[:, place], axis=-1)
        return jnp.take_along_axis(rows, jnp.maximum(codes[place], 0)[:, None], axis=-1)[:, 0]

    return jnp.zeros(codes.shape).at[cells].set(jax.lax.map(one, cells), mode="drop")


def least(values: Float[Array, "cells chains"], counts: Int[Array, " chains"]) -> Held:
    """Return the cells with the `counts` lowest values of each chain; ties go to the first cell.

    Exactly `counts` cells are returned, and none if it is 0.
    """
    return ranks(values) < counts[None].astype(jnp.int32)


def ranks(values: Float[Array, "cells chains"]) -> Int[Array, "cells chains"]:
    """Return the rank of each cell in its chain, 0 for the lowest value; ties keep their order."""
    return jnp.argsort(jnp.argsort(values, axis=0, stable=True), axis=0).astype(jnp.int32)


class NetworkSweepKernel(AbstractKernel):
    """Kernel that redraws every block of a list once, in the order of their first cells.

    No blocks are redrawn together, because in a network every cell may depend on every other one.
    `blocks` marks the members of each block, shape (blocks, cells).
    """

    blocks: Bool[Array, "blocks cells"]

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        def one(codes: Codes, item: tuple[Array, Array]) -> tuple[Codes, None]:
            block, k = item
            here = jnp.broadcast_to(block[: codes.shape[0], None], codes.shape)
            return redraw(target, codes, here, fold_apart(keys, k)), None

        codes, _ = jax.lax.scan(one, state.codes, (self.blocks, jnp.arange(self.blocks.shape[0])))
        free = free_cells(target)
        drawn = jnp.where(free, self.blocks[:, : free.shape[0]].sum(axis=0, dtype=jnp.int32)[:, None], 0).sum(axis=0, dtype=jnp.int32)
        return State(codes, state.memory), counted(state.codes, codes, drawn)


def network_update(lowered: Lowered, update: ir.Sweep | ir.RandomUpdate) -> AbstractKernel:
    """Return the kernel of one update of a conditional model.

    Raises:
        GmlmError: E741 if the mask is data-dependent.
    """
    return update.either(partial(_network_sweep, lowered), partial(_network_random, lowered))


def _network_sweep(lowered: Lowered, sweep: ir.Sweep) -> AbstractKernel:
    blocks = sweep_blocks(lowered, sweep.blocks)
    held = np.zeros((len(blocks), lowered.graph.n_cells + 1), bool)
    held[np.arange(len(blocks))[:, None], blocks] = True
    return NetworkSweepKernel(on_device(held[:, : lowered.graph.n_random]))


def _network_random(lowered: Lowered, update: ir.RandomUpdate) -> AbstractKernel:
    body = update.mask.body
    if not body.is_least_confident:
        return NetworkKernel(mask_law(unadapted(lowered, update.mask)))
    assert body.block_size is not None
    cells = cells_of(lowered, tuple(body.hidden_variables()))
    return LeastConfidentKernel(on_device(cells, np.int32), lowered.bound.integer(body.block_size))


def unadapted(lowered: Lowered, mask: ir.Mask) -> AbstractMask:
    """Return a lowered mask that a network's sampler may use.

    Raises:
        GmlmError: E741 if the mask depends on x or on given data.
    """
    found = lower_mask(lowered, mask)
    if found.varies and not found.is_adaptive:
        message = f"mask `{mask.name}` looks at given data: its weights are known where a network is trained, not where it is sampled"
        raise fail("E741", message, mask.span, "looks at given data", help="sample with a mask whose weights are numbers and inputs")
    if found.is_adaptive:
        message = (
            f"mask `{mask.name}` looks at x: a draw from p(x_K | x_rest, K) then needs p(K | x), and a network's output cannot be corrected"
        )
        help = "sample with a mask that does not look at x; this one may train the network, whose output then is p(x_i | x_rest, K) for it"
        raise fail("E741", message, mask.span, "looks at x", help=help)
    return found
