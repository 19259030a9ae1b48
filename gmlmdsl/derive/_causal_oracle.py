"""A causal network as an oracle: p(next symbol | prefix) of many rows.

Symbols can be appended to each row, and any number of them removed. The layers' states for a cell
are stored at a place of its own, and no place after a row's last symbol is ever read. To remove
symbols, the oracle therefore only lowers a number, a different one for each row, and shapes never
change.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from ..networks import AbstractCausalNetwork
from ._bounded_jit import bounded_jit


class CausalState(eqx.Module):
    """Prefixes of all rows.

    Attributes:
        lengths: the number of symbols of each row.
        states: the states of the last layer at every place; that at place t follows from the first
            t symbols.
        cache: keys and values of every layer, by row and place.
    """

    lengths: Int[Array, " rows"]
    states: Float[Array, "rows places width"]
    cache: PyTree


class CausalOracle(eqx.Module):
    """The functions of `gm.Oracle` for a causal network.

    They are pure, rows are the first axis, and shapes are the same after any pushes and pops.

    Attributes:
        network: the network.
        encoded: the encoding of each row's given data, rows first; None if there are none.
        prepared: the data that the network prepares for rows of any length.
        n_cells: the maximum number of symbols of a row.
    """

    network: AbstractCausalNetwork
    encoded: PyTree
    prepared: PyTree
    n_cells: int = eqx.field(static=True)

    def __init__(self, network: AbstractCausalNetwork, encoded: PyTree, n_cells: int, prepared: PyTree = None):
        self.network, self.encoded, self.n_cells = network, encoded, n_cells
        self.prepared = _prepared(network, self.places) if prepared is None else prepared

    @property
    def places(self) -> int:
        """Number of places of a row.

        A row has one place before its first symbol and one after each symbol. One more place is
        written when nothing is pushed.
        """
        return self.n_cells + 2

    def start(self, prompts: Int[Array, "rows cells"]) -> CausalState:
        """Return the state of rows that begin with prompts, computed in one pass.

        Prompts are followed by -1, and may have fewer cells than a row.
        """
        network, prepared = self.network, self.prepared
        lengths = (prompts >= 0).sum(axis=1, dtype=jnp.int32)
        # the network puts its start before the first symbol, whatever is passed here
        previous = jnp.pad(prompts, ((0, 0), (1, 0)))

        def one(encoded: PyTree, row: Array) -> tuple[Array, PyTree]:
            return network.enter(encoded, prepared, network.begin(self.places), row, jnp.asarray(0, jnp.int32))

        states, cache = jax.vmap(one)(self.encoded, previous)
        behind = self.places - states.shape[1]
        return CausalState(lengths, jnp.pad(states, ((0, 0), (0, behind), (0, 0))), cache)

    def features(self, state: CausalState) -> Float[Array, "rows width"]:
        """Return the last layer's state at each row's last symbol; at its start if it is empty."""
        return jnp.take_along_axis(state.states, state.lengths[:, None, None], axis=1)[:, 0]

    def features_after(self, state: CausalState) -> Float[Array, "rows values width"]:
        """Return the last layer's state after each further symbol, without pushing any.

        The entries have no meaning if a row is full.
        """
        network, symbols = self.network, jnp.arange(self.network.n_values, dtype=jnp.int32)

        def one(encoded: PyTree, cache: PyTree, symbol: Array, t: Array) -> Array:
            return network.enter(encoded, self.prepared, cache, symbol[None], t)[0][0]

        every = jax.vmap(one, in_axes=(None, None, 0, None))
        return jax.vmap(every, in_axes=(0, 0, None, 0))(self.encoded, state.cache, symbols, state.lengths + 1)

    def next_log_probs(self, state: CausalState) -> Float[Array, "rows values"]:
        """Return log p(next symbol | symbols of the row); meaningless if a row is full."""
        return jax.nn.log_softmax(self.network.read(self.features(state)), axis=-1)

    def push(self, state: CausalState, symbols: Int[Array, " rows"]) -> CausalState:
        """Append one symbol to each row.

        A row stays as it is if its symbol is negative or the row is full.
        """
        network, prepared = self.network, self.prepared

        def one(encoded: PyTree, cache: PyTree, states: Array, symbol: Array, t: Array) -> tuple[Array, PyTree]:
            found, cache = network.enter(encoded, prepared, cache, symbol[None], t)
            return jax.lax.dynamic_update_slice_in_dim(states, found, t, 0), cache

        states, cache = jax.vmap(one)(self.encoded, state.cache, state.states, symbols, state.lengths + 1)
        more = (symbols >= 0) & (state.lengths < self.n_cells)
        return CausalState(state.lengths + more.astype(jnp.int32), states, cache)

    def pop(self, state: CausalState, n: Int[Array, " rows"]) -> CausalState:
        """Remove the last n symbols of each row, or all symbols if there are fewer."""
        return CausalState(jnp.maximum(state.lengths - n, 0), state.states, state.cache)


def _prepared(network: AbstractCausalNetwork, places: int) -> PyTree:
    return network.prepare(None, jnp.asarray(places, jnp.int32), places)


_compiled = bounded_jit(_prepared)


def causal_oracle(network: AbstractCausalNetwork, n_cells: int) -> CausalOracle:
    """Return the oracle of a network that reads no given data.

    The data that all rows share are computed by one program, and not by one for each operation.
    """
    return CausalOracle(network, None, n_cells, _compiled(network, n_cells + 2))
