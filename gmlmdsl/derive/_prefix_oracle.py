"""Oracles of prefixes: p(next symbol | prefix) of many rows, by a network or by a factor graph.

A causal network stores the layers' states for a cell at a place of its own, and no place after a
row's last symbol is ever read. To remove symbols, the oracle therefore only lowers a number, a
different one for each row, and shapes never change.

For a model without a network, one backward pass over all steps precedes all answers. A prefix is
represented as in `plan_prefixes`: by the number of its known part, and a vector of weights of its
hidden part. A symbol multiplies that vector by a matrix. The distribution of the next symbol is the
product of that vector with the results of the backward pass for each symbol. All weights are
logarithms, because the weights that a prefix needs may be smaller than the others by any factor.

Strings that end before their last cell have `end` in all later cells. After that symbol the
backward pass therefore sums over one string only.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import logsumexp
from jaxtyping import Array, Float, Int, PyTree

from ..graph import FactorGraph
from ..networks import AbstractCausalNetwork
from ..plan import Elimination, PrefixPlan
from ._arrays import Blocks, Graph, blocks_on_device, float_type, graph_arrays, on_device
from ._bounded_jit import bounded_jit
from ._contraction import Contraction, contraction
from ._energy import Params, local_scores
from ._sums import evidence, log_marginals


class PrefixMachine(eqx.Module):
    """Steps of a plan with their weights; each array has the logarithm of its scale beside it.

    Attributes:
        weights: at each step, the log sums of exp(factors) over the cells that leave there, by
            (step, known, symbol, hidden before, hidden after).
        shift: log scale of each step's weights.
        follow: the known part after a symbol.
        backward: log sums over all completions, by (symbols so far, known, hidden).
        back: log scales of `backward`.
        ahead: the same log sums after each further symbol, by (step, known, symbol, hidden), at the
            scale of the step after.
        closed: log sums over the one completion with `end` in all remaining cells, at scale 0; if
            there is no `end`, over all completions.
    """

    weights: Float[Array, "n known values hidden hidden"]
    shift: Float[Array, " n"]
    follow: Int[Array, "n known values"]
    backward: Float[Array, "steps known hidden"]
    back: Float[Array, " steps"]
    ahead: Float[Array, "n known values hidden"]
    closed: Float[Array, "steps known hidden"]

    @property
    def n_cells(self) -> int:
        """Number of symbols of a string."""
        return self.follow.shape[0]


class PrefixState(eqx.Module):
    """Prefixes of all rows, with the representation of every prefix of each row.

    Entries after a row's length are never read.

    Attributes:
        lengths: the number of symbols of each row.
        known: the number of the known part of each prefix.
        hidden: the log weights of its hidden part, of which the largest is 0.
        scale: the log of the number by which the weights were divided.
    """

    lengths: Int[Array, " rows"]
    known: Int[Array, "rows steps"]
    hidden: Float[Array, "rows steps hidden"]
    scale: Float[Array, "rows steps"]

    def here(self) -> tuple[Int[Array, " rows"], Float[Array, "rows hidden"], Float[Array, " rows"]]:
        """Return the known part, the hidden part and its log scale of each row's whole prefix."""
        at = self.lengths[:, None]
        found = (jnp.take_along_axis(a, at, axis=1)[:, 0] for a in (self.known, self.scale))
        known, scale = found
        return known, jnp.take_along_axis(self.hidden, at[..., None], axis=1)[:, 0], scale


class PrefixOracle(eqx.Module):
    """The functions of `gm.Oracle` for a machine.

    They are pure, and shapes are the same after any pushes and pops.

    Attributes:
        machine: the machine of the model.
    """

    machine: PrefixMachine

    @property
    def n_cells(self) -> int:
        """Maximum number of symbols of a row."""
        return self.machine.n_cells

    def start(self, prompts: Int[Array, "rows cells"]) -> PrefixState:
        """Return the state of rows that begin with prompts, which are followed by -1."""
        rows, n, hidden = prompts.shape[0], self.n_cells, self.machine.backward.shape[2]
        dtype = self.machine.backward.dtype
        # Before the first symbol there is nothing to represent: one known part, one hidden.
        first = jnp.full((rows, n + 1, hidden), -jnp.inf, dtype).at[:, 0, 0].set(0)
        empty = PrefixState(jnp.zeros(rows, jnp.int32), jnp.zeros((rows, n + 1), jnp.int32), first, jnp.zeros((rows, n + 1), dtype))
        return jax.lax.scan(lambda state, symbols: (self.push(state, symbols), None), empty, prompts.T)[0]

    def next_log_probs(self, state: PrefixState) -> Float[Array, "rows values"]:
        """Return log p(next symbol | symbols of the row).

        All entries are -inf if the prefix is impossible. The entries have no meaning if a row is
        full.
        """
        known, hidden, _ = state.here()
        weights = logsumexp(self._ahead(state, known) + hidden[:, None], axis=2)
        return weights - finite(logsumexp(weights, axis=1, keepdims=True))

    def _ahead(self, state: PrefixState, known: Int[Array, " rows"]) -> Float[Array, "rows values hidden"]:
        return self.machine.ahead[jnp.minimum(state.lengths, self.n_cells - 1), known]

    def push(self, state: PrefixState, symbols: Int[Array, " rows"]) -> PrefixState:
        """Append one symbol to each row.

        A row stays as it is if its symbol is negative or the row is full.
        """
        m, t = self.machine, jnp.minimum(state.lengths, self.n_cells - 1)
        known, hidden, scale = state.here()
        symbol, rows = jnp.maximum(symbols, 0), jnp.arange(symbols.shape[0])
        after = logsumexp(hidden[:, :, None] + m.weights[t, known, symbol], axis=1)
        size = finite(after.max(axis=1))
        more = (symbols >= 0) & (state.lengths < self.n_cells)
        # written even if nothing is pushed; this entry is then never read
        place = state.lengths + 1
        return PrefixState(
            state.lengths + more.astype(jnp.int32),
            state.known.at[rows, place].set(m.follow[t, known, symbol], mode="drop"),
            state.hidden.at[rows, place].set(after - size[:, None], mode="drop"),
            state.scale.at[rows, place].set(scale + size + m.shift[t], mode="drop"),
        )

    def pop(self, state: PrefixState, n: Int[Array, " rows"]) -> PrefixState:
        """Remove the last n symbols of each row, or all symbols if there are fewer."""
        return PrefixState(jnp.maximum(state.lengths - n, 0), state.known, state.hidden, state.scale)

    def possible(self, state: PrefixState) -> Float[Array, " rows"]:
        """Return the log sum over all completions of a row's prefix.

        The result is at the scale of the machine and of the row.
        """
        known, hidden, _ = state.here()
        return logsumexp(self.machine.backward[state.lengths, known] + hidden, axis=1)

    def ended(self, state: PrefixState) -> Float[Array, " rows"]:
        """Return the log weight of a row's prefix with `end` in all later cells.

        The result omits the scale of the row.
        """
        known, hidden, _ = state.here()
        return logsumexp(self.machine.closed[state.lengths, known] + hidden, axis=1)

    def possible_after(self, state: PrefixState) -> Float[Array, "rows values"]:
        """Return, for each further symbol, the log sum over all completions after it."""
        known, hidden, _ = state.here()
        return logsumexp(self._ahead(state, known) + hidden[:, None], axis=2)


def finite(scale: Array) -> Array:
    """Return the log scale, with 0 in place of a non-finite one."""
    return jnp.where(jnp.isfinite(scale), scale, 0)


def prefix_machine(graph: FactorGraph, plan: PrefixPlan, params: Params, *, support: bool = False, end: int | None = None) -> PrefixMachine:
    """Return the machine of a model at some parameters.

    Args:
        graph: the factor graph, with one row of given data if it has given variables.
        plan: the steps.
        params: parameters.
        support: whether weights are 1 where p may be positive and else 0: then sums state exactly
            which prefixes have a completion.
        end: the symbol that all later cells repeat; None: completions are all strings.
    """
    blocks = blocks_on_device(graph, [plan.members, plan.radix, plan.strides, *plan.touch])
    codes = on_device(np.zeros((graph.n_cells, 1), np.int32))
    shape = len(plan.follow), plan.known, plan.values, plan.hidden, plan.hidden
    places, follow = (on_device(a, np.int32) for a in (plan.places, plan.follow))
    return _machine(graph_arrays(graph), params, codes, blocks, places, follow, shape, support, end)


@bounded_jit
def _machine(
    graph: Graph,
    params: Params,
    codes: Array,
    blocks: Blocks,
    places: Array,
    follow: Array,
    shape: tuple[int, ...],
    support: bool,
    end: int | None,
) -> PrefixMachine:
    scores = local_scores(graph, params, codes, blocks)[:, :, 0].astype(float_type())
    table = _summed(scores, places, int(np.prod(shape[1:])))
    shift = jnp.zeros(shape[0], table.dtype) if support else finite(table.max(axis=1))
    weights = (_support(table) if support else table - shift[:, None]).reshape(shape)

    def before(
        behind: tuple[Array, Array, Array], step: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array, Array], tuple[Array, ...]]:
        (after, back, closed), (weight, next_known, own) = behind, step
        rest = after[next_known]
        if end is not None:
            rest = rest.at[:, end].set(closed[next_known[:, end]] - back)
        ahead = logsumexp(weight + rest[:, :, None], axis=3)
        found = logsumexp(ahead, axis=1)
        found = _support(found) if support else found
        size = finite(found.max())
        new = found - size, back + size + own, (found if end is None else ahead[:, end]) + back + own
        return new, (*new, ahead)

    none = jnp.zeros(shape[1:2] + shape[3:4], table.dtype)
    last = none, jnp.zeros((), table.dtype), none
    _, (backward, back, closed, ahead) = jax.lax.scan(before, last, (weights, follow, shift), reverse=True)
    backward, back, closed = (jnp.concatenate([a, b[None]]) for a, b in zip((backward, back, closed), last, strict=True))
    return PrefixMachine(weights, shift, follow, backward, back, ahead, closed)


def _summed(scores: Float[Array, "n listed"], places: Int[Array, "n listed"], size: int) -> Float[Array, "n size"]:
    """Return the log sums of the scores with the same place; places beyond the table drop out."""
    n = scores.shape[0]
    step = jnp.broadcast_to(jnp.arange(n)[:, None], places.shape)
    top = finite(jnp.full((n, size), -jnp.inf, scores.dtype).at[step, places].max(scores, mode="drop"))
    terms = jnp.exp(scores - top.at[step, places].get(mode="fill", fill_value=0))
    return top + jnp.log(jnp.zeros_like(top).at[step, places].add(terms, mode="drop"))


def _support(logs: Array) -> Array:
    return jnp.where(logs > -jnp.inf, 0, -jnp.inf).astype(logs.dtype)


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
