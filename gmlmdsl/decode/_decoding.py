"""Draws from conditional models, for one row of given data or many.

They are chains of updates, or decodes by refinement or cell by cell.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import GmlmError, fail, truth, unknown
from .._progress import DrawsBar, shows_progress
from .._types import Clamp, DrawsLike, Given, JsonObject, ObserveLike, Rows
from ..data import generator, keys_of, random_key
from ..derive import AbstractDecoder, AutoregressiveKernel, Decoded, NetworkGraph, RefinementKernel, State, bounded_jit
from ..graph import FactorGraph, Lowered, lower_let
from ..networks import AbstractEncoderDecoder, AbstractNetwork, shortlisted
from ..program import ir
from ..sample import Draws, KernelRun, PreparedRun, SampleOptions, observables, stored, verified_options, verify_chains, verify_draws
from ._candidates import (
    Candidates,
    Decoding,
    Work,
    batches_of,
    best_lengths,
    candidates_of,
    cut,
    filled_up,
    length_scores,
    longest,
    trimmed,
    work_of,
)
from ._decoded_draws import DecodedPart, Decodes, Part, decodes_of, labelled_chains, labelled_decodes
from .limits import DRAWS_PER_CALL, MOST_ENTRIES

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray, PyTree

    from ..derive import AbstractKernel, Device, Networks, Spread, Task
    from ..sample import Observables

Array = np.ndarray
Program = Callable[..., Any]  # the compiled function of a batch of rows
KEPT = ("candidates", "trace")
PLAIN = Decoding()


def draw_rows(
    lowered: Lowered, sampler: ir.Sampler, params: Networks, options: SampleOptions, more: Decoding, provenance: JsonObject
) -> DrawsLike:
    """Return draws of all rows as the object of the installed ArviZ.

    Args:
        lowered: the model.
        sampler: the sampler.
        params: parameters.
        options: the options of sampling.
        more: the further arguments of a conditional model.
        provenance: attributes to record with the draws.
    """
    options = verified_options(options)
    planned = derive.build_kernel(lowered, sampler)
    provenance = provenance | {"starts": "given" if options.init is not None else "uniform"}
    if isinstance(planned.kernel, AbstractDecoder):
        if options.store is not None:
            raise fail("E507", f"`store=` takes chains, and sampler `{sampler.name}` decodes", help="call `decode` some rows at a time")
        kept = _kept(options.observe, planned.kernel)
        decoder = row_decoder(lowered, sampler, params)
        spread = derive.spread_of(options.mesh_axis)
        found, work = decoder.draws(replace(options, observe=None), more, "trace" in kept, spread)
        provenance |= {} if options.init is not None else {"starts": "the sampler's own"}
        return labelled_decodes(lowered.graph, found, work, options, provenance, kept, _filling(lowered.graph, planned.kernel))
    refuse_prompt(sampler, more)
    work = work_of(lowered, params, options, more, Candidates(), refines=False)
    observe = _observed(lowered, params, options.observe, work)
    if options.store is not None:
        if options.mesh_axis is not None:
            raise fail("E507", "`store=` of a network's chains is written by one device", help="leave out `mesh_axis=`")
        if work.shape or (work.lengths < lowered.graph.n_random).any():
            raise fail("E507", "`store=` takes chains of one row of full length", help="sample some rows at a time, and keep each result")
        _verify_counts(planned.kernel, lowered.graph, work, options, options.chains, observe)
        ((_, run),) = _chains(lowered, params, planned.kernel, work, options, observe)
        return stored(PreparedRun(lowered, run, planned, work.held[:, 0], options, provenance["starts"]), provenance)
    parts = _drawn(lowered, params, planned.kernel, work, options, observe)
    return labelled_chains(lowered.graph, parts, work, planned, options, provenance)


@dataclass(frozen=True)
class RowDecoder:
    """A decoder of rows with its parameters, which are examined once, for calls of a few rows each.

    A batch of rows takes one compiled program, from its given data to its ordered candidates, and
    one more before it if lengths are predicted.

    Attributes:
        lowered: the model.
        sampler: the sampler.
        kernel: the kernel of the sampler.
        candidates: the numbers of lengths and of starts of a row.
        params: parameters.
        programs: the compiled functions of rows, by the device and the options of the kernel.
        keys: the key of the last seed, by the seed and the kind of generator.
        copies: the parameters by the device on which a copy of them is.
    """

    lowered: Lowered
    sampler: ir.Sampler
    kernel: AbstractDecoder
    candidates: Candidates
    params: Networks
    programs: dict[Hashable, Program] = field(default_factory=dict)
    keys: dict[Hashable, PRNGKeyArray] = field(default_factory=dict)
    copies: dict[Device, Networks] = field(default_factory=dict)

    def decode(
        self,
        seed: int = 0,
        clamp: Clamp | None = None,
        init: Rows | None = None,
        more: Decoding = PLAIN,
        trace: bool = False,
        mesh_axis: str | None = None,
    ) -> Decodes:
        """Return one decode of each row as plain arrays, for `ConditionalModel.decode`.

        Args:
            seed: the seed.
            clamp: the fixed cells.
            init: a draft for each row, or None.
            more: the further arguments of a conditional model.
            trace: whether the tokens after each pass are recorded.
            mesh_axis: an axis of the ambient mesh over which batches of rows are spread, or None.
        """
        options = verified_options(SampleOptions(self.sampler.name, 1, 0, 1, 1, seed, clamp, init, None, True, False))
        if trace := truth("trace", trace):
            _kept(("trace",), self.kernel)
        found, work = self.draws(options, more, trace, derive.spread_of(mesh_axis))
        return found.of_rows(work.shape, self.lowered.graph.n_random)

    def draws(self, options: SampleOptions, more: Decoding, trace: bool, spread: Spread | None = None) -> tuple[Decodes, Work]:
        """Return decodes of all rows, with the rows that were decoded.

        With `spread`, each device of an axis of a mesh decodes whole batches, with the results of
        one device.
        """
        if not options.keep_draws:
            raise fail("E507", "keep_draws=False keeps nothing of a decode", help="leave it out")
        kernel = self.kernel
        if isinstance(kernel, AutoregressiveKernel) and options.init is not None:
            raise fail("E507", "`init=` is a draft, and this sampler goes from the first cell on", help="hold the first cells: `clamp=`")
        if isinstance(kernel, RefinementKernel):
            refuse_prompt(self.sampler, more)
            if (kernel.draft, kernel.trace) != (options.init is not None, trace):
                kernel = RefinementKernel(kernel.rules, kernel.law, kernel.plan, options.init is not None, trace)
        kept = {"refines": True, "scores": self._length_scores, "spread": spread}
        work = work_of(self.lowered, self.params, options, more, self.candidates, **kept)
        if more.prompt is not None and isinstance(kernel, AutoregressiveKernel):
            _verify_open(work, kernel.rules.end)
            kernel = AutoregressiveKernel(kernel.rules, prompted=True)
        if more.values is not None:
            _verify_shortlist(self.params[self.label], kernel)
        which = options.init is not None, trace, more.prompt is not None
        batches, parts = self._batches(kernel, work, options), []

        def part(k: int, device: Device | None) -> Task:
            program = self._rows(which, kernel, device)
            return self._part(program, kernel, work, options, batches[k], more.values, device)

        for batch, found in zip(batches, derive.in_parts(spread, len(batches), part), strict=True):
            self._verify_defined(found.pop("undefined"), batch[0], work)
            parts.append(DecodedPart(batch[0], self._width(kernel, batch[2]), found))
        return decodes_of(parts), work

    @property
    def label(self) -> str:
        """The name of the network."""
        network = self.lowered.graph.network
        assert network is not None
        return network.label

    def _program(self, which: Hashable, make: Callable[[], Program]) -> Program:
        if which not in self.programs:
            self.programs[which] = make()
        return self.programs[which]

    def _key(self, seed: int) -> PRNGKeyArray:
        which = int(seed), str(jax.config.jax_default_prng_impl)  # pyright: ignore[reportAttributeAccessIssue]
        if which not in self.keys:
            self.keys.clear()
            self.keys[which] = random_key(seed)
        return self.keys[which]

    def _length_scores(self, device: Device | None) -> Program:
        def make() -> Program:
            network = self._params_on(device)[self.label]
            return derive.bound_jit(length_scores, network, waits=device is None)

        return self._program(("lengths", device), make)

    def _rows(self, which: Hashable, kernel: AbstractDecoder, device: Device | None) -> Program:
        def make() -> Program:
            first = derive.placed(kernel, device), self._params_on(device), self.label
            return derive.bound_jit(_decoded_rows, *first, self.candidates, waits=device is None)

        return self._program((which, device), make)

    def _params_on(self, device: Device | None) -> Networks:
        """Return the parameters with their arrays on a device, where they are put once."""
        if device is None:
            return self.params
        if device not in self.copies:
            self.copies[device] = derive.placed(self.params, device)
        return self.copies[device]

    def _batches(self, kernel: AbstractDecoder, work: Work, options: SampleOptions) -> list[tuple[Array, int, int]]:
        """Return batches of rows, after verifying that their decodes are not too many or too large."""
        graph = self.lowered.graph
        per_row, most = options.chains * self.candidates.count, int(graph.sizes.max())
        _verify_counts(kernel, graph, work, options, per_row, None)
        given = longest(work.given) if work.given else np.ones(len(work.lengths), np.int32)
        cells = work.lengths.max(axis=1)
        # If the lengths of rows are known, both sides have the same width, so that few programs are
        # compiled.
        if not isinstance(kernel, AutoregressiveKernel):
            given = cells = np.maximum(given, cells)
        return batches_of(given, cells, per_row * most)

    def _part(
        self,
        program: Program,
        kernel: AbstractDecoder,
        work: Work,
        options: SampleOptions,
        batch: tuple[Array, int, int],
        values: Array | None,
        device: Device | None,
    ) -> Task:
        """Decode one batch; draw t of a chain depends only on the seed, its number, its row, its candidate and t."""
        graph, (chosen, wide, high) = self.lowered.graph, batch
        width = self._width(kernel, high)
        rows = filled_up(chosen)
        lengths = np.tile(np.repeat(work.lengths[rows], self.candidates.starts, axis=1), (1, options.chains))
        kept, held, starts = work.encoded, None, None
        if work.held.any() or work.codes is not None:
            held, codes = (np.repeat(a[:width, rows], lengths.shape[1], axis=1) for a in (work.held, work.values))
            starts = _starts(kernel, int(graph.sizes.max()), lengths, work, rows, held, codes, options.seed)
            if values is not None:  # cells that a draft lacks were drawn among all codes
                starts = np.where(np.isin(starts, values), np.searchsorted(values, starts), starts % len(values)).astype(np.int32)
        if kept is not None and kept.width == wide and np.array_equal(kept.rows, chosen):
            given = None, None, kept.states
        else:
            given = *trimmed(work.given, chosen, wide), None
        # A key that is kept lies where it was made.
        key = self._key(options.seed) if device is None else random_key(options.seed)
        count, every = int(options.draws), []
        per_call = min(DRAWS_PER_CALL, 1 << (count - 1).bit_length())
        with DrawsBar(count, device is None and shows_progress(options.progress)) as moved:
            for first in range(0, count, per_call):
                steps = options.warmup + (np.arange(first, first + per_call) + 1) * options.thin - 1
                here = min(per_call, count - first)
                held = held if held is not None and held.any() else None
                out = program(
                    *given,
                    key,
                    steps.astype(np.uint32),
                    np.array(here, np.int32),
                    work.numbers[rows],
                    lengths,
                    held,
                    starts,
                    values,
                    width=width,
                )
                yield
                named = [(name, a) for name, a in out.items() if name != "info" and a is not None]
                every.append({name: derive.fetched(a)[:here] for name, a in named})
                moved(here, out | every[-1])
        return {name: np.concatenate([e[name] for e in every]) for name in every[0]}

    def _width(self, kernel: AbstractDecoder, high: int) -> int:
        """Return the number of cells of a batch whose rows have at most `high`."""
        n = self.lowered.graph.n_random
        whole = isinstance(kernel, RefinementKernel) and kernel.law is not None and bool(kernel.law.groups())
        return n if whole else min(high, n)

    def traceable(self, numbers: range, width: int, seed: int = 0) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
        """Return the function from the codes of one given variable to the best decodes, for export.

        It computes what `decode` computes, but within one program: the lengths are chosen in it.

        Args:
            numbers: the numbers of the rows, which determine the random draws.
            width: the maximum length of a decode, unless the sampler's mask needs all cells.
            seed: the seed.

        Returns:
            A function of codes of shape (rows, entries), int32, -1 after the end of each row. It
            returns the codes of the best candidates, shape (rows, cells), int32, -1 after their
            ends, and their scores, shape (rows,). The score is NaN if the network defines no
            distribution of some cell.

        Raises:
            GmlmError: E601 if one pass has too many logits.
        """
        network, candidates, key = self.params[self.label], self.candidates, self._key(seed)
        width = self._width(self.kernel, width)
        entries = len(numbers) * candidates.count * width * int(self.lowered.graph.sizes.max())
        if entries > MOST_ENTRIES:
            message = f"one pass over {len(numbers):,} rows has {entries:.3g} logits, more than the limit of {MOST_ENTRIES:.3g}"
            raise fail("E601", message, help="take fewer rows, or a smaller width")

        def best(source: jax.Array) -> tuple[jax.Array, jax.Array]:
            given = (jnp.maximum(source, 0),), ((source >= 0).sum(axis=1, dtype=jnp.int32),)
            encoded, lengths = None, jnp.full((len(numbers), candidates.lengths), width, jnp.int32)
            if network.length_head is not None:
                encoded, scores = length_scores(network, *given)
                lengths = best_lengths(scores[:, :width], candidates.lengths).astype(jnp.int32)
            lengths = jnp.repeat(lengths, candidates.starts, axis=1)
            first = jnp.zeros(1, jnp.uint32), jnp.ones((), jnp.int32), jnp.asarray(numbers, jnp.uint32)
            out = _decoded_rows(
                self.kernel, self.params, self.label, candidates, *given, encoded, key, *first, lengths, None, None, None, width=width
            )
            defined = ~out["undefined"][0].any(axis=(1, 2))
            return out["tokens"][0, :, 0, 0].astype(jnp.int32), jnp.where(defined, out["score"][0, :, 0, 0], jnp.nan)

        return best

    def _verify_defined(self, undefined: Array, chosen: Array, work: Work) -> None:
        """Raise E747 if the network did not define a distribution of some cell.

        Args:
            undefined: a mask of such cells, (draws, rows, chains of a row, cells).
            chosen: the rows of the batch; later ones fill it up.
            work: the rows.

        Raises:
            GmlmError: E747, with the first cell and its row.
        """
        if not undefined[:, : len(chosen)].any():
            return
        row, _, cell = (int(i) for i in np.argwhere(np.logical_or.reduce(undefined))[0])
        raise undefined_cell(self.lowered.graph, cell, chosen[row], work)


def row_decoder(lowered: Lowered, sampler: ir.Sampler, params: Networks) -> RowDecoder:
    """Return the decoder of a sampler.

    Args:
        lowered: the model.
        sampler: the sampler.
        params: parameters.

    Raises:
        GmlmError: E507 for a sampler that is not a decoder.
    """
    kernel = derive.build_kernel(lowered, sampler).kernel
    if not isinstance(kernel, AbstractDecoder):
        raise fail("E507", f"sampler `{sampler.name}` runs chains of updates, and decodes nothing", sampler.span, help="call `sample`")
    return RowDecoder(lowered, sampler, kernel, candidates_of(lowered, sampler.body), params)


def _decoded_rows(
    kernel: AbstractDecoder,
    params: Networks,
    label: str,
    candidates: Candidates,
    given: Any,
    given_lengths: Any,
    encoded: PyTree,
    key: PRNGKeyArray,
    steps: jax.Array,
    count: jax.Array,
    numbers: jax.Array,
    lengths: jax.Array,
    held: jax.Array | None,
    starts: jax.Array | None,
    values: jax.Array | None,
    *,
    width: int,
) -> dict[str, PyTree]:
    """Decode rows once for each of the first `count` steps, and order the candidates of each row.

    Args:
        kernel: the kernel of the decoder.
        params: parameters.
        label: the name of the network.
        candidates: the numbers of candidates of a row.
        given: the given arrays, or None with `encoded`.
        given_lengths: their lengths.
        encoded: the encodings of the rows, if they are known.
        key: the key of the seed.
        steps: the number of the step of each draw.
        count: the number of draws.
        numbers: the numbers of the rows.
        lengths: the lengths of the chains, shape (rows, chains of a row).
        held: the fixed cells, shape (cells, chains), or None.
        starts: the codes that chains start with, shape (cells, chains); None for zeros.
        values: the codes that cells may have; None for all. `starts` has their places.
        width: the number of cells.
    """
    network, rows, k = params[label], lengths.shape[0], candidates.count
    encoded = derive.encode_rows(network, given, given_lengths, rows) if encoded is None else encoded
    few = network if values is None else shortlisted(network, values)
    target = derive.Target(derive.network_graph(few, label, encoded, lengths, width), {**params, label: few}, held)
    row, chain, candidate = jnp.meshgrid(numbers, *(jnp.arange(n, dtype=jnp.uint32) for n in (lengths.shape[1] // k, k)), indexing="ij")
    keys = jnp.broadcast_to(key, (lengths.size,))
    for number in (chain, row, candidate):
        keys = derive.fold(keys, number.ravel())
    begun = kernel.init(jnp.zeros((width, lengths.size), jnp.int32) if starts is None else starts)

    def drawn(step: jax.Array) -> dict[str, PyTree]:
        state, info = kernel.step(target, derive.fold(keys, step), begun)
        return _ordered(state, (rows, lengths.shape[1] // k, k), network.n_values, values) | {"info": info}

    def one(item: tuple[jax.Array, jax.Array]) -> dict[str, PyTree]:
        number, step = item
        nothing = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(drawn, step))
        return jax.lax.cond(number < count, drawn, lambda _: nothing, step)

    if len(steps) == 1:
        return jax.tree.map(lambda a: a[None], drawn(steps[0]))
    return jax.lax.map(one, (jnp.arange(len(steps), dtype=count.dtype), steps))


def _verify_shortlist(network: AbstractNetwork, kernel: AbstractDecoder) -> None:
    """Raise E507 unless a decoder needs no more than some values of its cells."""
    if not isinstance(network, AbstractEncoderDecoder):
        raise fail("E507", f"a shortlist is for an `encoder_decoder`, and this network is `{type(network).__name__}`")
    if isinstance(kernel, RefinementKernel) and (kernel.law is not None or kernel.rules.planner not in ("none", "self")):
        raise fail("E507", "a mask or a network that plans sees all values of a cell, and a shortlist leaves some out", help="leave it out")


def _ordered(state: State, shape: tuple[int, int, int], n_values: int, values: jax.Array | None) -> dict[str, jax.Array | None]:
    """Return the results of a decode of (rows, chains, candidates), the best candidate first.

    Codes are places in `values`, if these are not None.
    """
    m: Decoded = state.memory
    width = state.codes.shape[0]
    best = jnp.argsort(-m.merit.reshape(shape), axis=-1, stable=True)

    def split(array: jax.Array) -> jax.Array:
        """Return candidates in their order, from (.., chains of all rows) to (rows, chains, candidates, ..)."""
        lead = array.ndim - 1
        every = jnp.moveaxis(array.reshape(*array.shape[:-1], *shape), range(lead), range(-lead, 0))
        return jnp.take_along_axis(every, best.reshape(*shape, *(1,) * lead), axis=2)

    length = split(m.length)

    def cut(array: jax.Array) -> jax.Array:
        places = jax.lax.broadcasted_iota(length.dtype, array.shape, array.ndim - 1)
        if values is not None:
            array = jnp.where(array < 0, array, values[jnp.maximum(array, 0)].astype(array.dtype))
        return jnp.where(places < length.reshape(*shape, *(1,) * (array.ndim - 3)), array, jnp.asarray(-1, array.dtype))

    tokens = cut(split(state.codes)).astype(jnp.int32 if n_values > 127 else jnp.int8)
    undefined = (state.codes == derive.UNDEFINED).T.reshape(shape[0], -1, width)
    traces = seen = None
    if m.trace.shape[0]:
        traces, seen = cut(split(m.trace)), cut(split(m.seen))[..., 0, :]
    return {
        "tokens": tokens, "score": split(m.score), "length": length, "passes": split(m.passes), "traces": traces, "seen": seen,
        "undefined": undefined,
    }  # fmt: skip


def decoding_work(lowered: Lowered, params: Networks, call: ir.FormCall, given: Given | None) -> Work:
    """Return the work of a sampler for one row of given data, without fixed cells.

    Args:
        lowered: the model.
        params: parameters.
        call: the form of the sampler.
        given: data of given variables.

    Raises:
        GmlmError: E510 for several rows.
    """
    options = SampleOptions("", 1, 0, 1, 1, 0, None, None, None, True, False)
    work = work_of(lowered, params, options, Decoding(given), candidates_of(lowered, call), refines=True)
    if work.shape:
        message = f"given: an output distribution takes one row, without an axis of rows; got rows of shape {work.shape}"
        raise fail("E510", message, help="call it once for each row")
    return work


def refuse_prompt(sampler: ir.Sampler, more: Decoding) -> None:
    """Raise E507 for a prompt if the sampler does not extend rows from their first cells.

    Raises:
        GmlmError: E507.
    """
    if more.prompt is not None:
        message = f"`prompt=` is what rows begin with, and sampler `{sampler.name}` does not go from the first cell on"
        raise fail("E507", message, sampler.span, help="hold cells: `clamp=`")


def _verify_open(work: Work, end: int | None) -> None:
    """Raise E507 for a prompt that continues after its end.

    Raises:
        GmlmError: E507, with the first such prompt.
    """
    over = np.zeros((0, 0), bool) if end is None else (work.held & (work.values == end))[:-1] & work.held[1:]
    if over.any():
        cell, r = (int(i) for i in np.argwhere(over.T)[0][::-1])
        raise fail("E507", f"prompt[{r}] ends with the value at {cell}, which is `end`, and goes on", help="cut it there")


def _filling(graph: FactorGraph, kernel: AbstractDecoder) -> int | None:
    """Return the value that fills up a row after its end.

    The result is None if rows have lengths of their own, as answers to given data have.
    """
    return kernel.rules.end if isinstance(kernel, AutoregressiveKernel) and not graph.given else None


def _observed(lowered: Lowered, params: Networks, observe: ObserveLike | None, work: Work) -> Observables | None:
    """Return the function that records observables of each draw.

    It takes all cells of one row. Raise E507 for several rows, shorter rows, or a `let` that
    mentions given data.
    """
    if observe and (work.shape or (work.lengths < lowered.graph.n_random).any()):
        raise fail("E507", "observe is for chains of one row of full length", help="compute it from the draws, whose padding is -1")
    given = [w for w in ([] if not observe else observe.values() if isinstance(observe, Mapping) else observe) if isinstance(w, str)]
    lets = lowered.names.model.lets
    for name in given:
        if name in lets and lower_let(lowered, name)[0].given is not None:
            message = f"observe: `{name}` mentions given data, which a network alone reads here"
            raise fail("E507", message, help="compute it from the draws")
    return observables(lowered, params, observe)


def _kept(observe: ObserveLike | None, kernel: AbstractDecoder) -> tuple[str, ...]:
    if observe is None:
        return ()
    if isinstance(observe, Mapping | str) or not isinstance(observe, Iterable) or not all(isinstance(o, str) for o in observe):
        raise fail("E507", f"observe of a refinement sampler lists some of {', '.join(KEPT)}, got {observe!r}")
    for name in observe:
        if name not in KEPT:
            raise unknown(f"observe: a decode leaves nothing called `{name}`", name, KEPT)
    if "trace" in observe and isinstance(kernel, AutoregressiveKernel):
        raise fail("E507", "observe: there is one pass over a row that is predicted cell by cell, and no trace", help="leave it out")
    return tuple(observe)


def _verify_counts(
    kernel: AbstractKernel, graph: FactorGraph, work: Work, options: SampleOptions, per_row: int, observe: Observables | None
) -> None:
    """Raise an error if the draws are too many, or too many to keep."""
    n, rows = graph.n_random, len(work.lengths) * int(per_row)
    verify_chains(kernel, n, rows, int(options.warmup) + int(options.draws) * int(options.thin))
    verify_draws(kernel, n, int(graph.sizes.max()), rows, int(options.draws), options.keep_draws, observe)


def _drawn(
    lowered: Lowered, params: Networks, kernel: AbstractKernel, work: Work, options: SampleOptions, observe: Observables | None
) -> list[Part]:
    """Draw chains batch by batch."""
    graph, per_row, parts = lowered.graph, options.chains, []
    _verify_counts(kernel, graph, work, options, per_row, observe)
    for chosen, run in _chains(lowered, params, kernel, work, options, observe):
        found = _first_chains(run.run(), len(chosen) * per_row)  # later chains belong to rows that pad a batch
        kept = found.last.T[:, None] if found.codes is None else found.codes
        bad = (kept == derive.UNDEFINED).any(axis=1) | (found.last.T == derive.UNDEFINED)
        if bad.any():
            first, cell = (int(i) for i in np.argwhere(bad)[0])
            raise undefined_cell(graph, cell, chosen[first // per_row], work)
        parts.append(Part(chosen, run.codes.shape[0], found))
    return parts


def _chains(
    lowered: Lowered, params: Networks, kernel: AbstractKernel, work: Work, options: SampleOptions, observe: Observables | None
) -> Iterator[tuple[Array, KernelRun]]:
    """Yield the numbers of the rows of each batch, and its chains.

    The draws of a chain depend only on the seed, its number and its row.
    """
    graph, per_row, spread = lowered.graph, options.chains, derive.spread_of(options.mesh_axis)
    assert graph.network is not None
    given = longest(work.given) if work.given else np.ones(len(work.lengths), np.int32)
    given = cells = np.maximum(given, work.lengths.max(axis=1))
    for chosen, wide, high in batches_of(given, cells, per_row * int(graph.sizes.max())):
        width = min(high, graph.n_random) if work.shape else graph.n_random
        rows = _shared_out(filled_up(chosen), per_row, spread)
        lengths = np.tile(work.lengths[rows], (1, per_row))
        read = cut(work.given, rows, wide)
        device = _graph_of(params, graph.network.label, *read, lengths, width)
        held, values = (np.repeat(a[:width, rows], per_row, axis=1) for a in (work.held, work.values))
        numbers = np.meshgrid(work.numbers[rows], np.arange(per_row), np.arange(1), indexing="ij")
        row, chain, candidate = (a.ravel() for a in numbers)
        yield (
            chosen,
            KernelRun(
                kernel,
                derive.Target(device, params, derive.on_device(held) if held.any() else None),
                _starts(kernel, int(graph.sizes.max()), lengths, work, rows, held, values, options.seed),
                seed=options.seed,
                draws=options.draws,
                warmup=options.warmup,
                thin=options.thin,
                observe=observe,
                keep=options.keep_draws,
                progress=shows_progress(options.progress),
                keys=keys_of(options.seed, chain, row, candidate),
                spread=spread,
            ),
        )


def _first_chains(found: Draws, count: int) -> Draws:
    """Return the draws of the first `count` chains."""
    kept: Any = {f.name: jax.tree.map(lambda a: a[:count], getattr(found, f.name)) for f in fields(found)}
    return Draws(**kept | {"last": found.last[:, :count]})


def _shared_out(rows: Array, per_row: int, spread: Spread | None) -> Array:
    """Return rows, with the last one repeated until the devices share their chains equally."""
    count = len(rows)
    while spread is not None and count * per_row % spread.devices:
        count += 1
    return rows[np.minimum(np.arange(count), len(rows) - 1)]


def undefined_cell(graph: FactorGraph, cell: int, row: int, work: Work) -> GmlmError:
    """Return E747 for a cell of a row whose distribution the network did not define."""
    assert graph.network is not None
    of = f" of row {work.numbers[row]}" if work.shape else ""
    return derive.undefined_outputs(f"network `{graph.network.label}`", f"at {graph.cell_name(cell)}{of}")


@bounded_jit
def _graph_of(params: Networks, name: str, given: Any, given_lengths: Any, lengths: Any, width: int) -> NetworkGraph:
    network = params[name]
    encoded = derive.encode_rows(network, given, given_lengths, lengths.shape[0])
    return derive.network_graph(network, name, encoded, lengths, width)


def _starts(kernel: AbstractKernel | None, q: int, lengths: Array, work: Work, rows: Array, held: Array, values: Array, seed: int) -> Array:
    """Return the initial codes of the chains: the given start, or uniform values.

    Padding is 0, and fixed cells have their given codes. A decoder makes its own start if none is
    given. In that case nothing is drawn here, because drawing row by row would take longer than the
    passes of the decoder.

    Args:
        kernel: the kernel.
        q: the largest number of values of a cell.
        lengths: the lengths of the chains, shape (rows, chains of a row).
        work: the rows.
        rows: the numbers of the rows of this batch.
        held: the fixed cells, shape (cells, chains).
        values: their codes.
        seed: the seed.
    """
    (width, chains), per_row = held.shape, lengths.shape[1]
    codes = np.zeros((width, chains), np.int32)
    if work.codes is not None:
        codes = np.repeat(work.codes[:width, rows], per_row, axis=1)
    own = work.codes is None and isinstance(kernel, AbstractDecoder)
    if not own and (work.codes is None or (codes < 0).any()):
        drawn = np.stack([generator(seed, int(r), k).integers(0, q, width) for r in work.numbers[rows] for k in range(per_row)], axis=1)
        codes = np.where(codes < 0, drawn, codes) if work.codes is not None else drawn
    present = np.arange(width)[:, None] < lengths.reshape(1, -1)
    return np.where(held, values, np.where(present, codes, 0)).astype(np.int32)
