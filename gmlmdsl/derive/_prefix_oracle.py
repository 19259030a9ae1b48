"""A model without a network as an oracle: p(next symbol | prefix) of many rows by one backward pass over all steps.

A prefix is remembered as `plan_prefixes` says: the number of its known part, and a vector of weights of its hidden part. A symbol is one
product of that vector with a matrix; the law of the next symbol is its product with what the backward pass left for each symbol.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..graph import FactorGraph
from ..plan import PrefixPlan
from ._arrays import Blocks, Graph, blocks_on_device, float_type, graph_arrays, on_device
from ._bounded_jit import bounded_jit
from ._energy import Params, local_scores


class PrefixMachine(eqx.Module):
    """The steps of a plan with their weights; logarithms of scales stand beside what they were divided by.

    Attributes:
        weights: sums over what leaves at a step of exp(its factors), by (step, known, symbol, hidden before, hidden after).
        shift: log scale of each step's weights.
        follow: the known part after a symbol.
        backward: sums over all completions, by (symbols so far, known, hidden).
        back: their log scales.
        ahead: the same behind each symbol, by (step, known, symbol, hidden), at the scale of the step after.
    """

    weights: Float[Array, "n known values hidden hidden"]
    shift: Float[Array, " n"]
    follow: Int[Array, "n known values"]
    backward: Float[Array, "steps known hidden"]
    back: Float[Array, " steps"]
    ahead: Float[Array, "n known values hidden"]

    @property
    def n_cells(self) -> int:
        """The symbols of a string."""
        return self.follow.shape[0]


class PrefixState(eqx.Module):
    """Where rows stand: of every prefix of each row what is remembered; nothing behind a row's length is ever read.

    Attributes:
        lengths: symbols of each row.
        known: the number of the known part of each prefix.
        hidden: the weights of its hidden part, the largest 1.
        scale: the log of what they were divided by.
    """

    lengths: Int[Array, " rows"]
    known: Int[Array, "rows steps"]
    hidden: Float[Array, "rows steps hidden"]
    scale: Float[Array, "rows steps"]

    def here(self) -> tuple[Int[Array, " rows"], Float[Array, "rows hidden"], Float[Array, " rows"]]:
        """The known part, the hidden part and its log scale of each row's whole prefix."""
        at = self.lengths[:, None]
        found = (jnp.take_along_axis(a, at, axis=1)[:, 0] for a in (self.known, self.scale))
        known, scale = found
        return known, jnp.take_along_axis(self.hidden, at[..., None], axis=1)[:, 0], scale


class PrefixOracle(eqx.Module):
    """The functions of `gm.Oracle` of a machine; pure, the same shapes whatever was pushed and popped.

    Attributes:
        machine: the model's.
    """

    machine: PrefixMachine

    @property
    def n_cells(self) -> int:
        """The most symbols of a row."""
        return self.machine.n_cells

    def start(self, prompts: Int[Array, "rows cells"]) -> PrefixState:
        """Rows that begin with prompts, -1 behind each."""
        rows, n, hidden = prompts.shape[0], self.n_cells, self.machine.backward.shape[2]
        dtype = self.machine.backward.dtype
        # Before the first symbol nothing is remembered: one known part, one hidden.
        first = jnp.zeros((rows, n + 1, hidden), dtype).at[:, 0, 0].set(1)
        empty = PrefixState(jnp.zeros(rows, jnp.int32), jnp.zeros((rows, n + 1), jnp.int32), first, jnp.zeros((rows, n + 1), dtype))
        return jax.lax.scan(lambda state, symbols: (self.push(state, symbols), None), empty, prompts.T)[0]

    def next_log_probs(self, state: PrefixState) -> Float[Array, "rows values"]:
        """log p(next symbol | those of the row); all -inf where the prefix is impossible, of no meaning where a row is full."""
        known, hidden, _ = state.here()
        weights = jnp.einsum("rqh,rh->rq", self._ahead(state, known), hidden)
        total = weights.sum(axis=1, keepdims=True)
        return jnp.where(total > 0, jnp.log(weights) - jnp.log(jnp.where(total > 0, total, 1)), -jnp.inf)

    def _ahead(self, state: PrefixState, known: Int[Array, " rows"]) -> Float[Array, "rows values hidden"]:
        return self.machine.ahead[jnp.minimum(state.lengths, self.n_cells - 1), known]

    def push(self, state: PrefixState, symbols: Int[Array, " rows"]) -> PrefixState:
        """One symbol more for each row; a row whose symbol is below 0 stays as it is, and so does one that is full."""
        m, t = self.machine, jnp.minimum(state.lengths, self.n_cells - 1)
        known, hidden, scale = state.here()
        symbol, rows = jnp.maximum(symbols, 0), jnp.arange(symbols.shape[0])
        after = jnp.einsum("rh,rhg->rg", hidden, m.weights[t, known, symbol])
        most = after.max(axis=1)
        size = jnp.where(most > 0, most, 1)
        more = (symbols >= 0) & (state.lengths < self.n_cells)
        place = state.lengths + 1  # written also where nothing is pushed: nobody reads it there
        return PrefixState(
            state.lengths + more.astype(jnp.int32),
            state.known.at[rows, place].set(m.follow[t, known, symbol], mode="drop"),
            state.hidden.at[rows, place].set(after / size[:, None], mode="drop"),
            state.scale.at[rows, place].set(scale + jnp.log(size) + m.shift[t], mode="drop"),
        )

    def pop(self, state: PrefixState, n: Int[Array, " rows"]) -> PrefixState:
        """Each row without its last n symbols; without any where it has fewer."""
        return PrefixState(jnp.maximum(state.lengths - n, 0), state.known, state.hidden, state.scale)

    def possible(self, state: PrefixState) -> Float[Array, " rows"]:
        """The sum over all completions of a row's prefix, at the scale of the machine and of the row."""
        known, hidden, _ = state.here()
        return (self.machine.backward[state.lengths, known] * hidden).sum(axis=1)

    def possible_after(self, state: PrefixState) -> Float[Array, "rows values"]:
        """The same behind each symbol more."""
        known, hidden, _ = state.here()
        return jnp.einsum("rqh,rh->rq", self._ahead(state, known), hidden)


def prefix_machine(graph: FactorGraph, plan: PrefixPlan, params: Params, *, support: bool = False) -> PrefixMachine:
    """The machine of a model at some parameters.

    Args:
        graph: the factor graph, with one row of given data where it has given variables.
        plan: its steps.
        params: parameters.
        support: whether weights are 1 where p may be above 0, else 0: then sums say which prefixes have a completion, exactly.
    """
    blocks = blocks_on_device(graph, [plan.members, plan.radix, plan.strides, *plan.touch])
    codes = on_device(np.zeros((graph.n_cells, 1), np.int32))
    shape = len(plan.follow), plan.known, plan.values, plan.hidden, plan.hidden
    places, follow = (on_device(a, np.int32) for a in (plan.places, plan.follow))
    return _machine(graph_arrays(graph), params, codes, blocks, places, follow, shape, support)


@bounded_jit
def _machine(
    graph: Graph, params: Params, codes: Array, blocks: Blocks, places: Array, follow: Array, shape: tuple[int, ...], support: bool
) -> PrefixMachine:
    scores = local_scores(graph, params, codes, blocks)[:, :, 0]
    shift = jnp.where(support, 0.0, scores.max(axis=1))
    shift = jnp.where(jnp.isfinite(shift), shift, 0.0).astype(float_type())
    listed = (scores > -jnp.inf).astype(float_type()) if support else jnp.exp(scores - shift[:, None])
    step = jnp.broadcast_to(jnp.arange(shape[0])[:, None], places.shape)
    table = jnp.zeros((shape[0], int(np.prod(shape[1:]))), float_type())
    table = table.at[step, places].max(listed, mode="drop") if support else table.at[step, places].add(listed, mode="drop")
    weights = table.reshape(shape)

    def before(behind: tuple[Array, Array], step: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
        (after, back), (weight, next_known, own) = behind, step
        ahead = jnp.einsum("kqhg,kqg->kqh", weight, after[next_known])
        found = ahead.sum(axis=1)
        found = (found > 0).astype(found.dtype) if support else found
        most = found.max()
        size = jnp.where(most > 0, most, 1)
        new = found / size, back + jnp.log(size) + own
        return new, (*new, ahead)

    last = jnp.ones(shape[1:2] + shape[3:4], float_type()), jnp.zeros((), float_type())
    _, (backward, back, ahead) = jax.lax.scan(before, last, (weights, follow, shift), reverse=True)
    backward, back = jnp.concatenate([backward, last[0][None]]), jnp.append(back, last[1])
    return PrefixMachine(weights, shift, follow, backward, back, ahead)
