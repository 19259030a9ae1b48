"""A joint distribution as a denoiser: the exact p(x_i | x_V) of every hidden cell, by elimination.

V is the set of the seen cells. An `OracleGraph` is to a model with factors what a `NetworkGraph` is
to a network: decoders take either, and do not distinguish them.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..graph import FactorGraph
from ..plan import plan_elimination
from ._arrays import Graph, graph_arrays, on_device
from ._contraction import Contraction, contraction
from ._elimination_kernels import draw_words
from ._energy import Codes, Params
from ._kernel import AbstractKernel, Info, State, Target
from ._network_kernels import AbstractDecoder
from ._random import fold_apart
from ._sums import backward, evidence, forward, log_marginals
from .limits import ENTRY_BYTES


class OracleGraph(eqx.Module):
    """Data that all passes over some chains share.

    Attributes:
        graph: the factors.
        contraction: the contraction over all cells except the row of given data.
        cells: the cells that are decoded or seen: every `var`, and latents that are clamped.
        lengths: the length of each chain, which is the number of observed cells, shape (1, chains).
        behind: the codes of cells that are not random: the row of given data.
    """

    graph: Graph
    contraction: Contraction
    cells: Bool[Array, " cells"]
    lengths: Int[Array, "1 chains"]
    behind: Int[Array, "rows_of_data chains_or_1"]

    @property
    def n_cells(self) -> int:
        return self.graph.n_cells

    @property
    def most_values(self) -> int:
        return self.graph.most_values

    @property
    def present(self) -> Bool[Array, "cells chains"]:
        """Cells that are decoded."""
        return jnp.broadcast_to(self.cells[:, None], (self.n_cells, self.lengths.shape[1]))

    def over(self, codes: Codes, graph: Graph | None = None) -> OracleGraph:
        """Return the graph over as many chains as `codes` has, each with its row of given data."""
        lengths = jnp.broadcast_to(self.lengths[:, :1], (1, codes.shape[1]))
        behind = codes[self.contraction.free.shape[0] :]
        return OracleGraph(self.graph if graph is None else graph, self.contraction, self.cells, lengths, behind)

    def known(self, seen: Codes) -> Codes:
        """Return codes with -1 for a hidden cell; the row of given data is known."""
        known = jnp.where(seen >= self.most_values, -1, seen)
        return known.at[self.contraction.free.shape[0] :].set(self.behind)

    def logits(self, params: Params, seen: Codes, keys: PRNGKeyArray | None = None) -> Float[Array, "chains cells values"]:
        """Return log p(x_i = v | the seen cells); `seen` has `most_values` for a hidden cell.

        If the seen values have probability zero, which a parallel step may cause, all values of a
        cell are equally likely.
        """
        known, c = self.known(seen), self.contraction
        found, table = log_marginals(self.graph, params, jnp.maximum(known, 0), c, evidence(self.graph, known, c))
        inside = jnp.arange(self.most_values, dtype=jnp.int32)[None] < self.graph.sizes[c.free][:, None]
        logs = jnp.where(jnp.isfinite(found), jnp.log(table), jnp.where(inside, 0.0, -jnp.inf)[..., None])
        behind = jnp.zeros((self.n_cells - logs.shape[0], *logs.shape[1:]), logs.dtype)
        return jnp.moveaxis(jnp.concatenate([logs, behind]), 2, 0)

    def drawn_latents(self, params: Params, codes: Codes, keys: PRNGKeyArray) -> Codes:
        """Draw the cells that are not decoded jointly from p(. | the decoded cells).

        If that distribution is undefined, the cells stay as they are.
        """
        known, c = self.known(jnp.where(self.cells[:, None], codes, self.most_values)), self.contraction
        passed = forward(self.graph, params, jnp.maximum(known, 0), c, evidence(self.graph, known, c))
        return backward(c, codes, passed, draw_words(keys, c))


def oracle_graph(host: FactorGraph, what: str, chains: int = 1) -> OracleGraph:
    """Return the denoiser of a model.

    Raises:
        GmlmError: E601, with the cost, if summing out the hidden cells is above the budget.
    """
    plan = plan_elimination(host, np.arange(host.n_random), what)
    observed = np.zeros(host.n_cells, bool)
    for v in host.observed:
        observed[v.offset : v.offset + v.size] = True
    lengths, behind = np.full((1, chains), int(observed.sum())), on_device(np.zeros((host.n_cells - host.n_random, 1)), np.int32)
    return OracleGraph(graph_arrays(host), contraction(host, plan), on_device(observed), on_device(lengths, np.int32), behind)


class StartKernel(AbstractKernel):
    """Kernel whose every step starts with a new draw of a decoder.

    The decoder uses a network, or the exact conditionals of `oracle`.
    """

    decoder: AbstractDecoder
    oracle: OracleGraph | None
    has_latents: bool = eqx.field(static=True)

    def held(self, cells: int) -> float:
        return self.decoder.held(cells) + (0.0 if self.oracle is None else ENTRY_BYTES * self.oracle.contraction.entries)

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        graph, oracle = target.graph, self.oracle
        if oracle is not None:
            graph = oracle.over(state.codes, target.graph)
            if target.clamped is not None:
                graph = eqx.tree_at(lambda g: g.cells, graph, graph.cells | target.clamped[: oracle.n_cells])
        inner = Target(graph, target.params, target.clamped)
        found, info = self.decoder.step(inner, fold_apart(keys, 0), State(state.codes, self.decoder.memory(state.codes)))
        codes = found.codes
        if oracle is not None and self.has_latents:
            codes = graph.drawn_latents(target.params, codes, fold_apart(keys, 1))
        return State(codes, state.memory), info


def start_kernel(host: FactorGraph, decoder: AbstractDecoder, what: str) -> StartKernel:
    """Return the kernel of `start from S`, or of a decoder S of a model with a joint distribution.

    Raises:
        GmlmError: E601, with the cost of a pass, if that is above the budget.
    """
    if host.network is not None:
        return StartKernel(decoder, None, False)
    return StartKernel(decoder, oracle_graph(host, what), bool(host.latents))
