"""Cell-by-cell decoding of causal networks: beam search, or independent draws.

Beam search with one beam is greedy search. Rows are compared by log p / n^a over their n predicted
cells; their score is the mean. As in most implementations of beam search, the 2 b best
continuations of b beams are considered:

- Those among the first b that end a row are set aside.
- The first b of the others go on.
- A row is done when b are set aside or all its cells are used up.

With one beam only the best continuation is needed: it goes on, or it ends the row.

Reference: Sutskever et al. 2014, Section 3.2; Wu et al. 2016, Section 7 (length normalisation); Ott
et al. 2019 (this stopping rule).
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from ..graph import Lowered, autoregressive
from ..networks import AbstractCausalNetwork
from ..program import ir
from ._energy import Codes
from ._kernel import Info, State, Target
from ._network import UNDEFINED, NetworkGraph, has_no_distribution, likeliest, over_chains, reducible
from ._network_kernels import AbstractDecoder, Decoded, free_cells
from ._picks import pick_token, token_words
from ._random import fold_apart
from ._refinement import narrow


@dataclass(frozen=True)
class SearchRules:
    """Options of `autoregressive`, see the language reference."""

    end: int | None
    beam: int
    length_penalty: float
    decode: str
    temperature: float
    top_k: int | None
    top_p: float | None

    @property
    def looked_at(self) -> int:
        """Number of continuations to consider: 1 for one beam, else 2 b for b beams.

        At most b of the 2 b continuations end a row.
        """
        return 1 if self.beam == 1 else 2 * self.beam


class Finished(NamedTuple):
    """Rows that have ended, the best first, by log p / n^a.

    The score is -infinity for a place without a row.
    """

    score: Float[Array, "groups beam"]
    tokens: Int[Array, "groups beam cells"]
    length: Int[Array, "groups beam"]


class Search(NamedTuple):
    """State of the beams of every row.

    A group is a row of one chain, and its beams are adjacent.
    """

    t: Int[Array, ""]
    tokens: Int[Array, "groups beam cells"]
    log_p: Float[Array, "groups beam"]  # -infinity for a place without a beam
    cache: PyTree
    finished: Finished
    steps: Int[Array, " groups"]
    done: Bool[Array, " groups"]
    # the first cell that has no distribution in some beam; -1 if there is none
    undefined: Int[Array, " groups"]


class Continuations(NamedTuple):
    """The best continuations, the best first: their beam, their token and their log p."""

    beam: Int[Array, "groups many"]
    token: Int[Array, "groups many"]
    log_p: Float[Array, "groups many"]


class BeamRows(NamedTuple):
    """Rows to search, which do not change from cell to cell; `held` has the codes of fixed cells."""

    held: Int[Array, "groups cells"]
    free: Bool[Array, "groups cells"]
    # the place after the last fixed cell, before which no row ends
    last_held: Int[Array, " groups"]
    lengths: Int[Array, " groups"]
    keys: PRNGKeyArray


class AbstractPrefixes(eqx.Module):
    """The distribution of the next cell of the prefixes of a search."""

    @abc.abstractmethod
    def begin(self, groups: int, beam: int, n_cells: int) -> PyTree:
        """Return what is remembered of empty prefixes, with the beams of a group adjacent."""

    @abc.abstractmethod
    def logits(self, at: Search) -> tuple[Float[Array, "groups beam values"], PyTree]:
        """Return the logits of cell `at.t`, and what is remembered of the prefixes before it."""

    @abc.abstractmethod
    def reordered(self, cache: PyTree, beams: Int[Array, "groups beam"]) -> PyTree:
        """Return what is remembered after the prefixes of each group were chosen anew."""


class BeamSearch(eqx.Module):
    """A search over the prefixes of rows.

    Attributes:
        rules: the options.
        prefixes: the distribution of the next cell.
    """

    rules: SearchRules = eqx.field(static=True)
    prefixes: AbstractPrefixes

    def run(self, rows: BeamRows, at: Search) -> Search:
        """Advance the search until every group is done."""
        return jax.lax.while_loop(lambda at: ~at.done.all(), lambda at: self.advance(rows, at), at)

    def begin(self, rows: BeamRows) -> Search:
        """Return the state with one beam in each group, before its first cell."""
        (groups, n), beam = rows.held.shape, self.rules.beam
        tokens = jnp.zeros((groups, beam, n), jnp.int32)
        log_p = jnp.full((groups, beam), -jnp.inf).at[:, 0].set(0.0)
        cache = self.prefixes.begin(groups, beam, n)
        finished = Finished(jnp.full((groups, beam), -jnp.inf), tokens, jnp.zeros((groups, beam), jnp.int32))
        steps, done, undefined = jnp.zeros(groups, jnp.int32), jnp.zeros(groups, bool), jnp.full(groups, -1, jnp.int32)
        return Search(jnp.asarray(0, jnp.int32), tokens, log_p, cache, finished, steps, done, undefined)

    def advance(self, rows: BeamRows, at: Search) -> Search:
        """Advance the search by one cell."""
        beam, t = self.rules.beam, at.t
        logits, cache = self.prefixes.logits(at)
        found = self.continuations(rows, at, logits)
        tokens = jnp.take_along_axis(at.tokens, found.beam[..., None], axis=1).at[:, :, t].set(found.token)
        first = (jnp.arange(found.token.shape[1]) < beam)[None]
        ends = jnp.zeros_like(found.token, bool) if self.rules.end is None else found.token == self.rules.end
        full = (t + 1 >= rows.lengths)[:, None]
        finished = self._set_aside(rows, at, tokens, found.log_p, (ends | full) & first)
        # the first continuations that do not end
        on = jnp.argsort(ends, axis=1, stable=True)[:, :beam]
        kept = jnp.take_along_axis(found.beam, on, axis=1)
        log_p = jnp.where(jnp.take_along_axis(ends, on, axis=1), -jnp.inf, jnp.take_along_axis(found.log_p, on, axis=1))
        steps = jnp.where(at.done, at.steps, t + 1)
        lost = (has_no_distribution(logits) & (at.log_p > -jnp.inf)).any(axis=1) & jnp.take(rows.free, t, axis=1) & ~at.done
        undefined = jnp.where(lost & (at.undefined < 0), t.astype(jnp.int32), at.undefined)
        done = at.done | full[:, 0] | (finished.score > -jnp.inf).all(axis=1) | (log_p == -jnp.inf).all(axis=1) | (undefined >= 0)
        tokens = jnp.take_along_axis(tokens, on[..., None], axis=1)
        return Search(t + 1, tokens, log_p, self.prefixes.reordered(cache, kept), finished, steps, done, undefined)

    def continuations(self, rows: BeamRows, at: Search, logits: Float[Array, "groups beam values"]) -> Continuations:
        """Return the best continuations of every group, or a token drawn for each beam.

        A fixed cell takes its code, which does not change log p.
        """
        rules, t = self.rules, at.t
        values, axis = reducible(logits)
        total = jax.nn.logsumexp(values, axis=axis)
        if rules.end is not None:
            barred = (t + 1 < rows.last_held)[:, None, None] & (jnp.arange(logits.shape[-1]) == rules.end)[None, None]
            logits = jnp.where(barred, -jnp.inf, logits)
        if rules.decode == "sample":
            narrowed = narrow(logits / rules.temperature, rules.top_k, rules.top_p)
            drawn = token_words(fold_apart(rows.keys, t), 1, logits.shape[-1])
            token = pick_token(narrowed, drawn.transposed)[..., None]
            own = jnp.take_along_axis(logits, token, axis=-1)
        else:
            own, token = largest(logits, min(rules.looked_at, logits.shape[-1]))
        log_p = at.log_p[..., None] + own - total[..., None]
        free, held = jnp.take(rows.free, t, axis=1)[:, None, None], jnp.take(rows.held, t, axis=1)[:, None, None]
        first = (jnp.arange(token.shape[-1]) == 0)[None, None]
        token = jnp.where(free, token, held)
        log_p = jnp.where(free, log_p, jnp.where(first, at.log_p[..., None], -jnp.inf))
        groups, many = logits.shape[0], token.shape[-1]
        best, place = largest(log_p.reshape(groups, -1), min(rules.looked_at, rules.beam * many))
        return Continuations(place // many, jnp.take_along_axis(token.reshape(groups, -1), place, axis=1).astype(jnp.int32), best)

    def _set_aside(self, rows: BeamRows, at: Search, tokens: Array, log_p: Array, ended: Array) -> Finished:
        """Return the best rows that have ended so far, including those that end at this cell."""
        cells = jnp.arange(rows.free.shape[1], dtype=jnp.int32)
        n = jnp.maximum((rows.free & (cells <= at.t)[None]).sum(axis=1), 1).astype(log_p.dtype)
        score = jnp.where(ended & ~at.done[:, None], log_p / n[:, None] ** self.rules.length_penalty, -jnp.inf)
        length = jnp.full_like(ended, at.t + 1, dtype=jnp.int32)
        every = Finished(*(jnp.concatenate(pair, axis=1) for pair in zip(at.finished, (score, tokens, length), strict=True)))
        best, order = largest(every.score, self.rules.beam)
        return Finished(best, *(jnp.take_along_axis(a, order[..., None] if a.ndim == 3 else order, axis=1) for a in every[1:]))


def largest(values: Float[Array, "*shape many"], k: int) -> tuple[Float[Array, "*shape k"], Int[Array, "*shape k"]]:
    """Return the k largest values of the last axis in descending order, and their places.

    Ties go to the first place.
    """
    if k == 1:  # one pass over the values replaces a sort
        top, place = likeliest(values)
        return top[..., None], place[..., None]
    return jax.lax.top_k(values, k)


class NetworkPrefixes(AbstractPrefixes):
    """Prefixes of a causal network, each with the keys and values of its layers.

    Attributes:
        network: the network.
        graph: the rows' given data and lengths, with one entry for every beam.
        beam: the number of beams of a group.
    """

    network: AbstractCausalNetwork
    graph: NetworkGraph
    beam: int = eqx.field(static=True)

    def begin(self, groups: int, beam: int, n_cells: int) -> PyTree:
        """Return empty caches."""
        return jax.tree.map(lambda a: jnp.broadcast_to(a, (*self.graph.lengths.shape, *a.shape)), self.network.begin(n_cells))

    def logits(self, at: Search) -> tuple[Float[Array, "groups beam values"], PyTree]:
        """Enter the last token of every prefix, and return the logits of the next."""
        graph, t = self.graph, at.t
        shape = graph.lengths.shape
        previous = jnp.take(at.tokens, jnp.maximum(t - 1, 0), axis=2).reshape(shape)

        def one(encoded: PyTree, prepared: PyTree, cache: PyTree, previous: Array, t: Array) -> tuple[Array, PyTree]:
            return self.network.advance(encoded, prepared, cache, previous, t)

        # The place is the same for all rows but is given for each row, because on CPUs the program
        # that is compiled for one common place takes longer.
        logits, cache = over_chains(one, graph.encoded, graph.prepared, at.cache, previous, jnp.broadcast_to(t, shape))
        by_value = jnp.moveaxis(logits, -1, 0)
        return jnp.moveaxis(by_value.reshape(by_value.shape[0], -1, self.beam), 0, -1), cache

    def reordered(self, cache: PyTree, beams: Int[Array, "groups beam"]) -> PyTree:
        """Return the caches of the chosen beams."""
        if self.beam == 1:
            return cache

        def of(a: Array) -> Array:
            by_group = a.reshape(*beams.shape, *a.shape[2:])
            index = beams.reshape(*beams.shape, *(1,) * (a.ndim - 2))
            return jnp.take_along_axis(by_group, index, axis=1).reshape(a.shape)

        return jax.tree.map(of, cache)

    def prompted(self, rows: BeamRows, at: Search) -> Search:
        """Enter all fixed cells at once, and return the state at the cell to start at.

        The start is the last cell of the shortest prompt, because no row has ended before it. The
        cells after it are entered again.
        """
        graph, n = self.graph, rows.held.shape[1]
        tokens = jnp.broadcast_to(rows.held[:, None], (len(rows.held), self.beam, n)).astype(jnp.int32)
        previous = jnp.pad(tokens[..., :-1], ((0, 0), (0, 0), (1, 0))).reshape(*graph.lengths.shape, n)

        def one(encoded: PyTree, prepared: PyTree, cache: PyTree, previous: Array) -> PyTree:
            return self.network.enter(encoded, prepared, cache, previous, jnp.asarray(0, jnp.int32))[1]

        cache = over_chains(one, graph.encoded, graph.prepared, at.cache, previous)
        shortest = jnp.where(rows.free.any(axis=1), rows.free.argmax(axis=1), n).min().astype(jnp.int32)
        return at._replace(t=jnp.maximum(shortest - 1, 0), tokens=tokens, cache=cache)


class AutoregressiveKernel(AbstractDecoder):
    """Kernel whose step is one decode of every row; the beams of a row are adjacent chains.

    Attributes:
        rules: the options.
        prompted: whether rows begin with fixed cells, which then enter in one pass.
    """

    rules: SearchRules = eqx.field(static=True)
    prompted: bool = eqx.field(static=True, default=False)

    @property
    def kept_passes(self) -> int:
        return 0

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        rows, search = self._rows(target, state.memory.draft, keys), self._search(target)
        begun = search.begin(rows)
        if self.prompted:
            assert isinstance(search.prefixes, NetworkPrefixes)
            begun = search.prefixes.prompted(rows, begun)
        end = search.run(rows, begun)
        cells = jnp.arange(state.codes.shape[0], dtype=jnp.int32)[None, None]
        found = jnp.where(cells == end.undefined[:, None, None], UNDEFINED, end.finished.tokens)
        tokens = found.reshape(-1, state.codes.shape[0]).T.astype(state.codes.dtype)
        length, merit = end.finished.length.reshape(-1), end.finished.score.reshape(-1)
        score = merit * self._predicted(rows, end.finished).reshape(-1).astype(merit.dtype) ** (self.rules.length_penalty - 1)
        passes = jnp.repeat(end.steps, self.rules.beam)
        changed = (tokens != state.codes).sum(axis=0, dtype=jnp.int32)
        none = jnp.zeros((0, length.shape[0]), jnp.int32)
        memory = Decoded(score, merit, passes, state.memory.trace, state.memory.seen, state.memory.draft, length)
        return State(tokens, memory), Info(changed[None], length[None], none, none)

    def _predicted(self, rows: BeamRows, finished: Finished) -> Int[Array, "groups beam"]:
        """Return the number of free cells of each row; 1 for a place without a row."""
        cells = jnp.arange(rows.free.shape[1], dtype=jnp.int32)
        return jnp.maximum((rows.free[:, None] & (cells[None, None] < finished.length[..., None])).sum(axis=-1), 1)

    def _search(self, target: Target) -> BeamSearch:
        assert isinstance(target.graph, NetworkGraph)
        network: AbstractCausalNetwork = target.params[target.graph.label]
        return BeamSearch(self.rules, NetworkPrefixes(network, target.graph, self.rules.beam))

    def _rows(self, target: Target, draft: Codes, keys: PRNGKeyArray) -> BeamRows:
        """Return the rows to decode, as a group for each of their chains."""
        graph, beam = target.graph, self.rules.beam
        assert isinstance(graph, NetworkGraph)
        free = free_cells(target)
        held = graph.present & ~free
        last = jnp.max(jnp.where(held, jnp.arange(1, held.shape[0] + 1, dtype=jnp.int32)[:, None], 0), axis=0)
        return BeamRows(draft.T[::beam], free.T[::beam], last[::beam], graph.lengths.reshape(-1)[::beam], keys[::beam])


def autoregressive_kernel(lowered: Lowered, call: ir.FormCall) -> AutoregressiveKernel:
    """Return the kernel of `autoregressive`.

    Raises:
        GmlmError: E409 if `end` is not a value of the cells.
    """
    return AutoregressiveKernel(search_rules(lowered, call))


def search_rules(lowered: Lowered, call: ir.FormCall) -> SearchRules:
    """Return the options of `autoregressive` as numbers.

    Raises:
        GmlmError: E409 if `end` is not a value of the cells.
    """
    found = autoregressive(call, lowered.bound, lowered.graph.observed[0])
    top_k = None if found["top_k"] == "none" else int(found["top_k"])
    top_p = None if found["top_p"] == "none" else float(found["top_p"])
    end = None if found["end"] == "none" else int(found["end"])
    numbers = int(found["beam"]), float(found["length_penalty"]), str(found["decode"]), float(found["temperature"])
    return SearchRules(end, *numbers, top_k, top_p)
