"""A model without a network as an oracle whose prefixes are too dear to remember: at each symbol all that is behind one is summed out.

What is remembered of a prefix is the prefix itself. Where a symbol depends on those far before it
there may be too many joint values of what later factors hold, while some order of elimination is
short.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..graph import FactorGraph
from ..plan import Elimination
from ._arrays import Graph, graph_arrays
from ._contraction import Contraction, contraction
from ._energy import Params
from ._exact import log_marginals
from ._sums import evidence


class ContractedState(eqx.Module):
    """The symbols of each row, of no meaning behind its length."""

    codes: Int[Array, "rows cells"]
    lengths: Int[Array, " rows"]


class ContractedOracle(eqx.Module):
    """The functions of `gm.Oracle` by elimination of all cells, with the prefix as evidence.

    Attributes:
        graph: the model, with one row of given data where it has given variables.
        params: its parameters.
        contraction: of all its cells.
        places: where the string's cells stand among those that are eliminated.
        n_random: cells of the model; others are known.
        offset: the string's first cell.
        n_values: of a symbol.
        row_bytes: what a row holds while it is asked about.
    """

    graph: Graph
    params: Params
    contraction: Contraction
    places: Int[Array, " cells"]
    n_random: int = eqx.field(static=True)
    offset: int = eqx.field(static=True)
    n_values: int = eqx.field(static=True)
    row_bytes: float = eqx.field(static=True)

    @property
    def n_cells(self) -> int:
        """The most symbols of a row."""
        return self.places.shape[0]

    def start(self, prompts: Int[Array, "rows cells"]) -> ContractedState:
        """Rows that begin with prompts, -1 behind each."""
        return ContractedState(jnp.maximum(prompts, 0), (prompts >= 0).sum(axis=1, dtype=jnp.int32))

    def next_log_probs(self, state: ContractedState) -> Float[Array, "rows values"]:
        """log p(next symbol | those of the row); all -inf where the prefix is impossible, of no meaning where a row is full."""
        rows, n = state.codes.shape
        seen = jnp.where(jnp.arange(n, dtype=jnp.int32)[None] < state.lengths[:, None], state.codes, -1)
        known = jnp.zeros((self.graph.n_cells, rows), jnp.int32).at[: self.n_random].set(-1)
        known = known.at[self.offset : self.offset + n].set(seen.T)
        unary = evidence(self.graph, known, self.contraction)
        _, table = log_marginals(self.graph, self.params, jnp.maximum(known, 0), self.contraction, unary)
        place = self.places[jnp.minimum(state.lengths, n - 1)]
        return jnp.log(table[place, : self.n_values, jnp.arange(rows, dtype=jnp.int32)])

    def push(self, state: ContractedState, symbols: Int[Array, " rows"]) -> ContractedState:
        """One symbol more for each row; a row whose symbol is below 0 stays as it is, and so does one that is full."""
        more = (symbols >= 0) & (state.lengths < self.n_cells)
        place = jnp.where(more, state.lengths, self.n_cells)
        codes = state.codes.at[jnp.arange(symbols.shape[0], dtype=jnp.int32), place].set(symbols, mode="drop")
        return ContractedState(codes, state.lengths + more.astype(jnp.int32))

    def pop(self, state: ContractedState, n: Int[Array, " rows"]) -> ContractedState:
        """Each row without its last n symbols; without any where it has fewer."""
        return ContractedState(state.codes, jnp.maximum(state.lengths - n, 0))


def contracted_oracle(graph: FactorGraph, plan: Elimination, params: Params) -> ContractedOracle:
    """The oracle of a plan of all cells of a model."""
    c, string = contraction(graph, plan), graph.observed[0]
    places = np.searchsorted(np.asarray(c.free), np.arange(string.offset, string.offset + string.size))
    each = 16.0 * float(plan.entries.sum())  # the tables, and their gradients
    return ContractedOracle(
        graph_arrays(graph), params, c, jnp.asarray(places, jnp.int32), graph.n_random, string.offset, len(string.labels), each
    )
