"""The full transition matrix of a sampler on all configurations of a small model, in float64.

It is assembled from the same conditionals, corrections and mask laws that the kernels use, so that what is proved
of the matrix holds of the chain.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from .._diagnostics import fail
from ..graph import FactorGraph, Lowered
from ..graph.masks import blocks_of, is_adaptive, lower_mask, normalised, support_size
from ..plan import BUDGET, sweep_blocks
from ..program import ir
from ._arrays import Graph, fixed_blocks, graph_arrays
from ._conditional import observed_value, rest_possible
from ._energy import Params, local_scores
from ._mask_law import mask_law, weight_groups
from ._samplers import single_cells

Array = np.ndarray


def all_states(graph: FactorGraph, limit: float = BUDGET.states, what: str = "all configurations") -> Array:
    """Every configuration as codes of shape (cells, configurations), the first position slowest.

    Raises:
        GmlmError: E601 if there are more than `limit`.
    """
    count = float(np.prod(graph.sizes.astype(float)))
    if count > limit:
        message = f"{what} of {graph.n_cells} cells: {count:.3g} configurations, more than the limit of {limit:.3g}"
        raise fail("E601", message, help="use a smaller model, or sample and look at the diagnostics")
    return np.stack(np.unravel_index(np.arange(int(count)), tuple(graph.sizes.tolist()))).astype(np.int32)


class Transitions:
    """Transition matrices of one model at given parameters. Call it under 64-bit types."""

    def __init__(self, lowered: Lowered, params: Params):
        self.lowered, self.host, self.params = lowered, lowered.graph, params
        self.device: Graph = graph_arrays(lowered.graph)
        self.states = all_states(lowered.graph, what="the transition matrix")
        self.codes = jnp.asarray(self.states)
        sizes = self.host.sizes.astype(np.int64)
        self.place = np.append(np.cumprod(np.append(sizes[1:], 1)[::-1])[::-1], 0)  # of a cell's code in a configuration's number
        self.count = self.states.shape[1]

    def of(self, body: Sequence[ir.Kernel]) -> Array:
        """The matrix of kernels run in order."""
        matrix = np.eye(self.count)
        for kernel in body:
            matrix = matrix @ self.kernel(kernel)
        return matrix

    def kernel(self, kernel: ir.Kernel) -> Array:
        """The matrix of one kernel."""
        match kernel:
            case ir.Sweep():
                return self.sweep(kernel)
            case ir.RandomUpdate():
                return self.random(kernel)
            case ir.Cycle():
                return self.of(kernel.body)
            case ir.Repeat():
                return np.linalg.matrix_power(self.of(kernel.body), self.lowered.bound.integer(kernel.count))
            case ir.KernelMixture():
                weights = normalised(np.array([self.lowered.bound.number(w) for w, _ in kernel.rows]), kernel.span)
                return sum((w * self.kernel(k) for w, (_, k) in zip(weights, kernel.rows, strict=True)), np.zeros((self.count, self.count)))
            case ir.Temper():
                raise fail("E330", "`temper` is checked, but this version does not compile it", kernel.span, "not compiled yet")

    def sweep(self, sweep: ir.Sweep) -> Array:
        """Blocks in the order of their colours."""
        from ..graph.colours import colour

        blocks = sweep_blocks(self.lowered, sweep.blocks)
        order = range(len(blocks)) if sweep.independently else np.argsort(colour(self.host, blocks), kind="stable")
        step = self.parallel if sweep.independently else self.block
        matrix = np.eye(self.count)
        for k in order:
            matrix = matrix @ step(blocks[k : k + 1])
        return matrix

    def random(self, update: ir.RandomUpdate) -> Array:
        """The sum over blocks of p(K | x) times the block's own matrix; an empty block stays put."""
        mask = lower_mask(self.lowered, update.mask)
        if support_size(mask) > BUDGET.support:
            message = f"the transition matrix sums over {support_size(mask):.3g} blocks, more than the limit of {BUDGET.support}"
            raise fail("E602", message, update.span)
        blocks, probabilities = blocks_of(mask, self.host.n_cells)
        corrected = is_adaptive(mask)
        law = mask_law(mask, self.host.n_cells)
        matrix = np.zeros((self.count, self.count))
        for k in range(len(blocks)):
            block = blocks[k : k + 1]
            extra = weight_groups(mask) if probabilities is None else ()
            found = fixed_blocks(self.host, block, extra)
            if probabilities is None:
                touch = iter(found.touch[len(self.device.groups) :])
                table = np.exp(np.asarray(law.log_probability(self.params, self.codes, found, touch)))
                table = np.broadcast_to(table, (1, found.n_values, self.count))
                chosen = np.take_along_axis(table[0], self.value_now(block), axis=0)[0]
                correction = np.log(table) if corrected else None
            else:
                chosen, correction = np.full(self.count, probabilities[k]), None
            step = self.parallel(block) if update.independently else self.block(block, correction)
            matrix += chosen[:, None] * step
        # What is left over: every weight is 0, and K is empty.
        return matrix + np.diag(np.maximum(0.0, 1 - matrix.sum(axis=1)))

    def value_now(self, block: Array) -> Array:
        """The joint value that each configuration holds in a block, shape (1, configurations)."""
        found = fixed_blocks(self.host, block)
        return np.asarray(observed_value(found, self.codes, self.host.n_cells))

    def conditional(self, block: Array, correction: Array | None = None) -> tuple[Array, Array]:
        """p(x_K = value | rest) of shape (values, configurations), and where the rest is impossible."""
        found = fixed_blocks(self.host, block)
        local = local_scores(self.device, self.params, self.codes, found)
        scores = np.asarray(local)[0] if correction is None else np.asarray(local)[0] + correction[0]
        top = scores.max(axis=0)
        impossible = ~np.isfinite(top) | ~np.asarray(rest_possible(self.device, self.params, self.codes, found, local))
        weights = np.exp(scores - np.where(impossible, 0.0, top))
        return weights / np.where(impossible, 1.0, weights.sum(axis=0)), impossible

    def block(self, block: Array, correction: Array | None = None) -> Array:
        """One block drawn from its conditional."""
        table, impossible = self.conditional(block, correction)
        return self.spread(block, table, impossible)

    def parallel(self, block: Array) -> Array:
        """Every cell of a block at once, each from its own conditional at the old x."""
        found = fixed_blocks(self.host, block)
        codes = np.asarray(found.codes)[0, :, :, 0]
        table = np.ones((found.n_values, self.count))
        for m, cell in enumerate(single_cells(block[0], self.host.n_cells)):
            alone, impossible = self.conditional(cell[None])
            stay = self.states[cell[0]][None] == np.arange(len(alone))[:, None]
            table *= np.where(impossible, stay, alone)[codes[:, m]]
        return self.spread(block, table, np.zeros(self.count, bool))

    def spread(self, block: Array, table: Array, impossible: Array) -> Array:
        """A table over a block's values as a matrix over configurations."""
        members = block[0][block[0] < self.host.n_cells]
        codes = np.asarray(fixed_blocks(self.host, block).codes)[0, :, : len(members), 0]
        base = np.arange(self.count) - self.place[members] @ self.states[members]
        target = base[None] + (codes @ self.place[members])[:, None]
        matrix = np.zeros((self.count, self.count))
        source = np.broadcast_to(np.arange(self.count), target.shape)
        np.add.at(matrix, (source, target), np.where(impossible, 0.0, table))
        matrix[impossible, impossible] = 1.0
        return matrix


