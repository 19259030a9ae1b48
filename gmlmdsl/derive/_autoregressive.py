"""Cell-by-cell decoding of causal networks: beam search, or independent draws."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from ..graph import Lowered, autoregressive
from ..networks import AbstractCausalNetwork
from ..program import ir
from ._beam_search import AbstractPrefixes, BeamRows, BeamSearch, Finished, Search, SearchRules
from ._energy import Codes
from ._kernel import Info, State, Target
from ._network import UNDEFINED, NetworkGraph, over_chains
from ._network_kernels import AbstractDecoder, Decoded, free_cells


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
