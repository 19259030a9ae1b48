"""Kernels that draw by elimination: blocks too large to enumerate, and all cells independently.

A product of distributions, whose cells are drawn parents first, needs no elimination.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from ..graph import FactorGraph, rank_within
from ._arrays import Blocks, float_type, on_device
from ._contraction import Contraction
from ._energy import Codes
from ._kernel import AbstractKernel, Info, State, Target
from ._kernels import KernelStage, SweepKernel, counted, free
from ._mask_law import AbstractMaskLaw
from ._picks import levels_of
from ._random import Words, fold, words
from ._sums import Forward, backward, evidence, forward


class EliminationKernel(AbstractKernel):
    """Kernel that redraws blocks too large to enumerate, colour after colour.

    All blocks of one colour are redrawn at once by one elimination of their cells.
    """

    colours: tuple[Contraction, ...]

    def held(self, cells: int) -> float:
        del cells
        return max(float_type().itemsize * float(c.entries) for c in self.colours)

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        codes = state.codes
        drawn = jnp.zeros((), jnp.int32)
        for k, c in enumerate(self.colours):
            codes = draw_free(target, codes, c, draw_words(fold(keys, k), c))
            drawn = drawn + free(target, c.free).sum(dtype=jnp.int32)
        return State(codes), counted(state.codes, codes, jnp.full(codes.shape[1], drawn))


def draw_words(keys: PRNGKeyArray, c: Contraction) -> Words:
    """Return the random words by which the free cells of a contraction are drawn."""
    return words(keys, (c.n_places,), levels_of(c.most_values))


def draw_free(target: Target, codes: Codes, c: Contraction, drawn: Words) -> Codes:
    """Redraw the free cells of a contraction jointly given the rest.

    If the rest is impossible, the cells stay as they are.

    Args:
        target: the distribution to draw from.
        codes: the configurations, shape (cells, chains).
        c: the contraction.
        drawn: random words, from `draw_words`.
    """
    unary = None
    if target.clamped is not None:
        held = target.clamped[c.free][:, None, None]
        unary = jnp.where(held, evidence(target.graph, codes, c), 0.0)
    return backward(c, codes, forward(target.graph, target.params, codes, c, unary, target.beta), drawn)


class ListedEliminationKernel(AbstractKernel):
    """Kernel that draws a block from a mask's list and redraws it by elimination.

    Blocks of the same shape share a compiled contraction.

    Attributes:
        law: the distribution of the mask.
        blocks: the blocks of the mask, shape (blocks, members), padded with the number of cells.
        kinds: contractions of blocks of the same shape, every array with a leading axis of blocks.
        kind, place: for each block, its index in `kinds` and its place there; the kind of the empty
            block is -1.
    """

    law: AbstractMaskLaw
    blocks: Int[Array, "blocks members"]
    kinds: tuple[Contraction, ...]
    kind: Int[Array, " blocks"]
    place: Int[Array, " blocks"]

    def held(self, cells: int) -> float:
        del cells
        return max((float_type().itemsize * float(c.entries) for c in self.kinds), default=0.0)

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        graph, codes = target.graph, state.codes
        cells = self.law.draw(target.params, codes, fold(keys, 0))
        width = max(cells.shape[0], self.blocks.shape[1])
        wide = [jnp.pad(a, ((0, width - a.shape[0]), (0, 0)), constant_values=graph.n_cells) for a in (cells, self.blocks.T)]
        drawn = (wide[0][:, None] == wide[1][:, :, None]).all(axis=0)  # axes: blocks, chains
        block = jnp.argmax(drawn, axis=0)
        kind = jnp.where(drawn.any(axis=0), self.kind[block], -1)
        for k, contractions in enumerate(self.kinds):
            own = draw_words(fold(keys, k + 1), contractions)
            mine = jnp.where(kind == k, self.place[block], 0)

            def redraw(codes: Codes, c: Contraction = contractions, own: Words = own, mine: Array = mine, k: int = k) -> Codes:
                return jnp.where(kind == k, draw_each(target, codes, c, mine, own), codes)

            codes = jax.lax.cond((kind == k).any(), redraw, lambda c: c, codes)
        return State(codes), counted(state.codes, codes, free(target, cells).sum(axis=0, dtype=jnp.int32))


def draw_each(target: Target, codes: Codes, alike: Contraction, mine: Int[Array, " chains"], drawn: Words) -> Codes:
    """Redraw the free cells of each chain's own contraction jointly given the rest.

    Args:
        target: the distribution to draw from.
        codes: the configurations, shape (cells, chains).
        alike: contractions of the same shape, stacked along a leading axis.
        mine: for each chain, the number of its contraction in `alike`.
        drawn: random words, from `draw_words`.
    """

    def one(column: Array, which: Array, own: Words, beta: Array | None) -> Array:
        c = jax.tree.map(lambda a: a[which], alike)
        alone = target._replace(beta=None if beta is None else beta[None])
        return draw_free(alone, column[:, None], c, jax.tree.map(lambda a: a[..., None], own))[:, 0]

    axes = (1, 0, jax.tree.map(lambda a: a.ndim - 1, drawn), None if target.beta is None else 0)
    return jax.vmap(one, in_axes=axes, out_axes=1)(codes, mine, drawn, target.beta)


class IndependentKernel(AbstractKernel):
    """Kernel that draws all free cells from their joint distribution at every step.

    A step ignores the state, so the states of a chain are independent.
    """

    contraction: Contraction
    found: Forward

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        codes = backward(self.contraction, state.codes, self.found, draw_words(keys, self.contraction))
        drawn = jnp.full(codes.shape[1], self.contraction.free.shape[0], jnp.int32)
        return State(codes), counted(state.codes, codes, drawn)


def ancestral_kernel(host: FactorGraph) -> SweepKernel:
    """Return the kernel that draws the cells of a product of distributions, parents first.

    Each cell is drawn given its parents, so every step is an independent draw.
    """
    laws = [(k, g) for k, g in enumerate(host.groups) if g.kind == "categorical"]
    level = _generations([g.cells for _, g in laws], host.n_cells)
    counts = np.bincount(level)
    cells = np.full((len(counts), int(counts.max())), host.n_cells)
    cells[level, rank_within(level)] = np.arange(len(level))
    own = np.full((len(host.groups), host.n_cells + 1), -1)
    for k, g in laws:
        own[k, g.cells[:, 0]] = np.arange(g.n)
    radix = np.append(host.sizes, 1)[cells]
    touch = tuple(on_device(o[cells][..., None, None], np.int32) for o in own)
    at, radices, strides = (on_device(a[..., None, None], np.int32) for a in (cells, radix, np.ones_like(cells)))
    return SweepKernel((KernelStage(Blocks(int(host.sizes.max()), at, radices, strides, touch), len(counts)),))


def _generations(cells: Sequence[np.ndarray], n_cells: int) -> np.ndarray:
    """Return the length of the longest path of parents above each cell.

    The first slot of a factor is the cell that the factor is the distribution of.
    """
    level = np.zeros(n_cells + 1, np.int64)
    while True:
        before = level.copy()
        for c in cells:
            above = np.where(c[:, 1:] < n_cells, level[c[:, 1:]], -1).max(axis=1, initial=-1)
            level[c[:, 0]] = above + 1
        if (level == before).all():
            return level[:n_cells]
