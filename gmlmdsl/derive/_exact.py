"""Exact answers: marginals from a contraction, and kernels with independent draws."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..graph import FactorGraph
from ._arrays import Blocks, Graph, float_type, on_device
from ._contraction import Contraction
from ._elimination_kernels import draw_words
from ._energy import Codes, Params
from ._kernel import AbstractKernel, Info, State, Target
from ._kernels import KernelStage, SweepKernel, counted
from ._sums import Forward, Unary, backward, forward, laws, log_sum, rest_sum


def log_marginals(
    graph: Graph, params: Params, codes: Codes, c: Contraction, unary: Unary | None = None
) -> tuple[Float[Array, " rows"], Float[Array, "free values rows"]]:
    """Return the log sum of `log_sum`, and p(x_i = v | the rest) of every free cell.

    The probabilities are the gradient of the log sum by a number that is added for each value.
    Entries beyond a cell's values are 0, and all entries are 0 if the sum is -inf.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: codes of the fixed cells, shape (cells, rows).
        c: the contraction over the free cells.
        unary: a number to add for each value of each free cell, or None.
    """
    if c.loop is not None:
        passed = forward(graph, params, codes, c, unary)
        found = rest_sum(graph, params, codes, c) + passed.sums.sum(axis=0)
        return found, jnp.where(jnp.isfinite(found), laws(c, passed, graph.most_values), 0.0)
    start = jnp.zeros((c.free.shape[0], graph.most_values, codes.shape[1]), float_type())
    start = start if unary is None else start + unary

    def value(u: Unary) -> tuple[Array, Array]:
        found = log_sum(graph, params, codes, c, u)
        return jnp.where(jnp.isfinite(found), found, 0.0).sum(), found

    gradient, found = jax.grad(value, has_aux=True)(start)
    return found, gradient


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
    order = np.argsort(level, kind="stable")
    counts = np.bincount(level)
    cells = np.full((len(counts), int(counts.max())), host.n_cells)
    cells[level[order], np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)] = order
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
