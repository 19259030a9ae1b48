"""A causal network as an oracle: p(next symbol | prefix) of many rows, each of which grows and is taken back by any number of symbols.

What layers keep of a cell stands at a place of its own, and no place behind a row's last symbol is
ever read. So to take symbols back is to lower a number, a different one for each row, and shapes
never change.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..networks import AbstractCausalNetwork
from ._bounded_jit import bounded_jit


class CausalState(eqx.Module):
    """Where rows stand.

    Attributes:
        lengths: how many symbols each row has.
        states: the last layer's at every place; that at place t follows from the first t symbols.
        cache: keys and values of every layer, by row and place.
    """

    lengths: Int[Array, " rows"]
    states: Float[Array, "rows places width"]
    cache: Any


class CausalOracle(eqx.Module):
    """The functions of `gm.Oracle` of a causal network; pure, batch first, the same shapes whatever was pushed and popped.

    Attributes:
        network: the network.
        encoded: what it keeps of each row's given data, rows first; None where there are none.
        prepared: what it keeps for rows of any length.
        n_cells: the most symbols of a row.
    """

    network: AbstractCausalNetwork
    encoded: Any
    prepared: Any
    n_cells: int = eqx.field(static=True)

    def __init__(self, network: AbstractCausalNetwork, encoded: Any, n_cells: int, prepared: Any = None):
        self.network, self.encoded, self.n_cells = network, encoded, n_cells
        self.prepared = _prepared(network, self.places) if prepared is None else prepared

    @property
    def places(self) -> int:
        """Of a row: before its first symbol, behind each, and one that is written where nothing is pushed."""
        return self.n_cells + 2

    def start(self, prompts: Int[Array, "rows cells"]) -> CausalState:
        """Rows that begin with prompts, -1 behind each, in one pass; `cells` may be fewer than a row's."""
        network, prepared = self.network, self.prepared
        lengths = (prompts >= 0).sum(axis=1, dtype=jnp.int32)
        # before the first symbol stands the network's start, whatever is passed
        previous = jnp.pad(prompts, ((0, 0), (1, 0)))

        def one(encoded: Any, row: Array) -> tuple[Array, Any]:
            return network.enter(encoded, prepared, network.begin(self.places), row, jnp.asarray(0, jnp.int32))

        states, cache = jax.vmap(one)(self.encoded, previous)
        behind = self.places - states.shape[1]
        return CausalState(lengths, jnp.pad(states, ((0, 0), (0, behind), (0, 0))), cache)

    def features(self, state: CausalState) -> Float[Array, "rows width"]:
        """The last layer's state at each row's last symbol, or at its start where it has none."""
        return jnp.take_along_axis(state.states, state.lengths[:, None, None], axis=1)[:, 0]

    def features_after(self, state: CausalState) -> Float[Array, "rows values width"]:
        """The same behind each symbol more, of which none is pushed; of no meaning where a row is full."""
        network, symbols = self.network, jnp.arange(self.network.n_values, dtype=jnp.int32)

        def one(encoded: Any, cache: Any, symbol: Array, t: Array) -> Array:
            return network.enter(encoded, self.prepared, cache, symbol[None], t)[0][0]

        every = jax.vmap(one, in_axes=(None, None, 0, None))
        return jax.vmap(every, in_axes=(0, 0, None, 0))(self.encoded, state.cache, symbols, state.lengths + 1)

    def next_log_probs(self, state: CausalState) -> Float[Array, "rows values"]:
        """log p(next symbol | those of the row); of no meaning where a row is full."""
        return jax.nn.log_softmax(self.network.read(self.features(state)), axis=-1)

    def push(self, state: CausalState, symbols: Int[Array, " rows"]) -> CausalState:
        """One symbol more for each row; a row whose symbol is below 0 stays as it is, and so does one that is full."""
        network, prepared = self.network, self.prepared

        def one(encoded: Any, cache: Any, states: Array, symbol: Array, t: Array) -> tuple[Array, Any]:
            found, cache = network.enter(encoded, prepared, cache, symbol[None], t)
            return jax.lax.dynamic_update_slice_in_dim(states, found, t, 0), cache

        states, cache = jax.vmap(one)(self.encoded, state.cache, state.states, symbols, state.lengths + 1)
        more = (symbols >= 0) & (state.lengths < self.n_cells)
        return CausalState(state.lengths + more.astype(jnp.int32), states, cache)

    def pop(self, state: CausalState, n: Int[Array, " rows"]) -> CausalState:
        """Each row without its last n symbols; without any where it has fewer."""
        return CausalState(jnp.maximum(state.lengths - n, 0), state.states, state.cache)


def _prepared(network: AbstractCausalNetwork, places: int) -> Any:
    return network.prepare(None, jnp.asarray(places, jnp.int32), places)


_compiled = bounded_jit(_prepared)


def causal_oracle(network: AbstractCausalNetwork, n_cells: int) -> CausalOracle:
    """The oracle of a network that reads no given data; what it keeps for all rows is one program, where every operation would be one."""
    return CausalOracle(network, None, n_cells, _compiled(network, n_cells + 2))
