"""The transition matrix of a sampler of a small conditional model.

It is built from products of the network's outputs over each K.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..graph import FactorGroup, Lowered
from ..plan import sweep_blocks
from ..program import ir
from ._arrays import Blocks, on_device
from ._bounded_jit import bounded_jit
from ._network import NetworkGraph, Networks, cell_tables
from ._network_kernels import LeastConfidentKernel, least, network_update, present_values, unadapted
from ._transitions import Transitions, all_states
from ._undefined import undefined_outputs

Array = np.ndarray


class NetworkTransitions(Transitions):
    """`Transitions` for conditionals that do not belong to a joint distribution.

    `network` covers one row of given data with one chain for each configuration.
    """

    def __init__(self, lowered: Lowered, params: Networks, network: NetworkGraph):
        self.lowered, self.host, self.params, self.network = lowered, lowered.graph, params, network
        self.states = all_states(lowered.graph, what="the transition matrix")
        self.codes = on_device(self.states)
        sizes = self.host.sizes.astype(np.int64)
        self.place = np.append(np.cumprod(np.append(sizes[1:], 1)[::-1])[::-1], 0)
        self.count = self.states.shape[1]

    def sweep(self, sweep: ir.Sweep) -> Array:
        """Return the product of the blocks' matrices in their order.

        No two blocks can be redrawn at once.
        """
        matrix = np.eye(self.count)
        for block in sweep_blocks(self.lowered, sweep.blocks):
            matrix = matrix @ self.block(block[None])
        return matrix

    def random(self, update: ir.RandomUpdate) -> Array:
        """Return the sum over K of p(K) times the product step of K.

        For `least_confident`, each state takes the step of its own K.
        """
        kernel = network_update(self.lowered, update) if update.mask.body.is_least_confident else None
        if not isinstance(kernel, LeastConfidentKernel):
            unadapted(self.lowered, update.mask)
            return super().random(update)
        cells = np.asarray(kernel.cells)
        values = np.full((self.host.n_random, self.count), np.inf)
        values[cells] = np.asarray(_present_values(self.network, self.params, self.codes[: self.host.n_random], kernel.cells))[cells]
        self._verify(np.asarray(np.isnan(values[cells]).any(axis=1)), cells)
        held = np.asarray(least(jnp.asarray(values), jnp.full(self.count, min(kernel.count, len(cells))))).T
        matrix = np.zeros((self.count, self.count))
        for members in np.unique(held, axis=0):
            mine = (held == members).all(axis=1)
            matrix[mine] = self.block(np.flatnonzero(members)[None])[mine]
        return matrix

    def pieces(self, blocks: Array, extra: Sequence[FactorGroup] = ()) -> Mapping[int, None]:
        """Return nothing for each block: a network needs only the cells."""
        return dict.fromkeys(range(len(blocks)))

    def conditional(self, block: Array, found: Blocks | None = None, correction: Array | None = None) -> tuple[Array, Array]:
        """Return the product over the block's cells, all hidden, of p(x_i | x_rest, K)."""
        members = self.members(block)
        held = np.zeros((self.host.n_random, 1), bool)
        held[members] = True
        tables = np.exp(np.asarray(_cell_tables(self.network, self.params, self.codes[: self.host.n_random], on_device(held)), np.float64))
        self._verify(np.asarray(np.isnan(tables[:, members]).any(axis=(0, 2))), members)
        table = np.ones((len(self.values(block)), self.count))
        for m, cell in enumerate(members):
            table *= tables[:, cell, self.values(block)[:, m]].T
        return table, np.zeros(self.count, bool)

    def _verify(self, bad: np.ndarray, cells: Array) -> None:
        """Raise an error if some configuration has no distribution at some cell."""
        if bad.any():
            cell = self.host.cell_name(int(cells[int(np.argmax(bad))]))
            raise undefined_outputs(f"network `{self.network.label}`", f"at {cell}")

    def block(self, block: Array, found: Blocks | None = None, correction: Array | None = None) -> Array:
        """Return the matrix that draws one block at once."""
        return self.spread(block, *self.conditional(block))

    def parallel(self, block: Array) -> Array:
        """Return the same matrix as `block`: a network draws several cells in no other way."""
        return self.block(block)


@bounded_jit
def _cell_tables(network: NetworkGraph, params: Networks, codes: jax.Array, held: jax.Array) -> jax.Array:
    return cell_tables(network, params, codes, held)


@bounded_jit
def _present_values(network: NetworkGraph, params: Networks, codes: jax.Array, cells: jax.Array) -> jax.Array:
    return present_values(network, params, codes, cells)
