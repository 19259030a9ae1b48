"""A model without a network as an oracle, for prefixes whose representation would cost too much.

At each symbol all later cells are summed out. The state of a row is the prefix itself. If a symbol
depends on much earlier ones, the cells that later factors read may have too many joint values. An
order of elimination may nevertheless be short.
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
    """Symbols of each row; the codes after its length have no meaning."""

    codes: Int[Array, "rows cells"]
    lengths: Int[Array, " rows"]


class ContractedOracle(eqx.Module):
    """The functions of `gm.Oracle` by elimination of all cells, with the prefix as evidence.

    Attributes:
        graph: the model, with one row of given data if it has given variables.
        params: its parameters.
        contraction: the contraction over all its cells.
        places: the places of the string's cells among those that are eliminated.
        n_random: the number of random cells of the model; the others are known.
        offset: the string's first cell.
        n_values: the number of values of a symbol.
        row_bytes: the memory in bytes that a row takes during an evaluation.
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
        """Maximum number of symbols of a row."""
        return self.places.shape[0]

    def start(self, prompts: Int[Array, "rows cells"]) -> ContractedState:
        """Return the state of rows that begin with prompts, which are followed by -1."""
        return ContractedState(jnp.maximum(prompts, 0), (prompts >= 0).sum(axis=1, dtype=jnp.int32))

    def next_log_probs(self, state: ContractedState) -> Float[Array, "rows values"]:
        """Return log p(next symbol | symbols of the row).

        All entries are -inf if the prefix is impossible. The entries have no meaning if a row is
        full.
        """
        rows, n = state.codes.shape
        seen = jnp.where(jnp.arange(n, dtype=jnp.int32)[None] < state.lengths[:, None], state.codes, -1)
        known = jnp.zeros((self.graph.n_cells, rows), jnp.int32).at[: self.n_random].set(-1)
        known = known.at[self.offset : self.offset + n].set(seen.T)
        unary = evidence(self.graph, known, self.contraction)
        _, table = log_marginals(self.graph, self.params, jnp.maximum(known, 0), self.contraction, unary)
        place = self.places[jnp.minimum(state.lengths, n - 1)]
        return jnp.log(table[place, : self.n_values, jnp.arange(rows, dtype=jnp.int32)])

    def push(self, state: ContractedState, symbols: Int[Array, " rows"]) -> ContractedState:
        """Append one symbol to each row.

        A row stays as it is if its symbol is negative or the row is full.
        """
        more = (symbols >= 0) & (state.lengths < self.n_cells)
        place = jnp.where(more, state.lengths, self.n_cells)
        codes = state.codes.at[jnp.arange(symbols.shape[0], dtype=jnp.int32), place].set(symbols, mode="drop")
        return ContractedState(codes, state.lengths + more.astype(jnp.int32))

    def pop(self, state: ContractedState, n: Int[Array, " rows"]) -> ContractedState:
        """Remove the last n symbols of each row, or all symbols if there are fewer."""
        return ContractedState(state.codes, jnp.maximum(state.lengths - n, 0))


def contracted_oracle(graph: FactorGraph, plan: Elimination, params: Params) -> ContractedOracle:
    """Return the oracle of a plan over all cells of a model."""
    c, string = contraction(graph, plan), graph.observed[0]
    places = np.searchsorted(np.asarray(c.free), np.arange(string.offset, string.offset + string.size))
    each = 16.0 * float(plan.entries.sum())  # bytes of the tables and their gradients
    return ContractedOracle(
        graph_arrays(graph), params, c, jnp.asarray(places, jnp.int32), graph.n_random, string.offset, len(string.labels), each
    )
