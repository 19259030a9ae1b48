"""Draws from conditional models: chains of updates and decodes by refinement, for one row of given data or many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import fail, unknown
from ..derive import Decoded, NetworkGraph, RefinementKernel
from ..graph import FactorGraph, Lowered
from ..program import ir
from ._arviz import to_arviz
from ._data import clamped_cells, decode, encode
from ._network_rows import bucket_of, given_arrays, present_lengths, widths
from ._sample import Draws, forget, sample
from ._sampling import Options, label, observables, shows_progress, verify_options

Array = np.ndarray
SIZES = (1, 8, 64)  # rows that are decoded at once: a program is compiled for each
KEPT = ("candidates", "trace")


@dataclass(frozen=True)
class Decoding:
    """What a conditional model's `sample` takes beside the options of every sampler.

    Attributes:
        given: data of given variables, one row or many.
        missing: what stands for padding.
        lengths: of the rows, where they are known.
    """

    given: Any = None
    missing: Any = None
    lengths: Any = None


@dataclass(frozen=True)
class Work:
    """Rows to draw for: given arrays, candidate lengths of each row (rows, candidates), starts and held cells.

    `codes` and `held` have the shape (cells, rows); `shape` are the axes of rows.
    """

    given: tuple[Array, ...]
    lengths: Array
    codes: Array | None
    held: Array
    values: Array
    shape: tuple[int, ...]
    length_scores: Array | None = None


def run(lowered: Lowered, sampler: ir.Sampler, params: dict[str, Any], options: Options, more: Decoding, provenance: dict[str, Any]) -> Any:
    """Draws as the installed ArviZ takes them."""
    verify_options(options)
    graph = lowered.graph
    planned = derive.build_kernel(lowered, sampler)
    kernel, refines = planned.kernel, isinstance(planned.kernel, RefinementKernel)
    kept = _kept(options.observe) if refines else ()
    if isinstance(kernel, RefinementKernel):
        kernel = RefinementKernel(kernel.rules, kernel.law, options.init is not None, "trace" in kept)
        planned = replace(planned, kernel=kernel)
    candidates = _candidates(lowered, sampler)
    work = _work(lowered, params, options, more, candidates, refines)
    observe = None if refines else observables(lowered, params, options.observe)
    parts = _drawn(lowered, params, kernel, work, candidates, options, observe)
    provenance = provenance | {"starts": "given" if options.init is not None else "the sampler's own" if refines else "uniform"}
    if refines:
        return _labelled_decodes(graph, _decodes(parts, work, candidates), work, options, provenance, kept)
    return _labelled_chains(graph, parts, work, planned, options, provenance)


@dataclass(frozen=True)
class Candidates:
    """How many lengths are tried for a row, and how many starts for each."""

    lengths: int = 1
    starts: int = 1

    @property
    def count(self) -> int:
        """Of a row."""
        return self.lengths * self.starts


def _candidates(lowered: Lowered, sampler: ir.Sampler) -> Candidates:
    if not isinstance(sampler.body, ir.FormCall):
        return Candidates()
    from ..graph import refinement

    found = refinement(sampler.body, lowered.bound)
    return Candidates(int(found["lengths"]), int(found["starts"]))  # type: ignore[arg-type]


def _kept(observe: Any) -> tuple[str, ...]:
    if observe is None:
        return ()
    if isinstance(observe, Mapping) or not all(isinstance(o, str) for o in observe):
        raise fail("E507", f"observe of a refinement sampler lists some of {', '.join(KEPT)}, got {observe!r}")
    for name in observe:
        if name not in KEPT:
            raise unknown(f"observe: a decode leaves nothing called `{name}`", name, KEPT)
    return tuple(observe)


def _work(lowered: Lowered, params: dict[str, Any], options: Options, more: Decoding, candidates: Candidates, refines: bool) -> Work:
    graph = lowered.graph
    given, shape = given_arrays(lowered, more.given, more.missing)
    codes = None
    if options.init is not None:
        start = encode(graph, options.init, "init", more.missing)
        if start.shape not in ((), shape) and shape != ():
            raise fail(
                "E501", f"init must hold one configuration, or one for each row of given data {shape}, got rows of shape {start.shape}"
            )
        shape, codes = start.shape or shape, start.codes
    held, values, shape = _held(graph, options.clamp, more.missing, shape)
    count = int(np.prod(shape, dtype=np.int64))
    given = tuple(np.broadcast_to(g, (count, g.shape[1])) for g in given)
    held, values = (np.broadcast_to(a, (graph.n_cells, count)) for a in (held, values))
    codes = None if codes is None else np.broadcast_to(codes, (graph.n_cells, count))
    lengths, scores = _lengths(lowered, params, given, codes, more.lengths, shape, candidates, refines)
    return Work(given, lengths, codes, held, values, shape, scores)


def _held(graph: FactorGraph, clamp: Any, missing: Any, shape: tuple[int, ...]) -> tuple[Array, Array, tuple[int, ...]]:
    """Which cells stay, and at what: as everywhere, or rows of the whole variable with `missing` where cells are free."""
    name = graph.variables[0].name
    if isinstance(clamp, Mapping) and set(clamp) == {name} and not isinstance(clamp[name], Mapping) and missing is not None:
        rows = encode(graph, clamp[name], f"clamp[{name!r}]", missing)
        if rows.shape not in ((), shape) and shape != ():
            raise fail("E501", f"clamp[{name!r}] must hold one row, or one for each row of given data {shape}, got {rows.shape}")
        held = rows.codes >= 0
        held[graph.n_random :] = False
        return held, np.maximum(rows.codes, 0), rows.shape or shape
    held, values = clamped_cells(graph, clamp)
    return held[:, None], values[:, None], shape


def _lengths(
    lowered: Lowered, params: dict[str, Any], given: tuple[Array, ...], codes: Array | None, stated: Any, shape: tuple[int, ...],
    candidates: Candidates, refines: bool,
) -> tuple[Array, Array | None]:  # fmt: skip
    """Candidate lengths of each row, the likeliest first: stated, those of the start, predicted, or the model's own."""
    graph, count = lowered.graph, int(np.prod(shape, dtype=np.int64))
    network = next(iter(params.values()))
    if stated is not None:
        found = np.asarray(stated)
        if found.dtype.kind not in "iu" or found.shape not in ((), shape) or (found < 1).any() or (found > graph.n_random).any():
            message = f"lengths must be whole numbers from 1 to {graph.n_random}, one or one for each row {shape}"
            raise fail("E507", f"{message}, got {stated!r:.60}")
        known = np.broadcast_to(found, shape).reshape(count)
    elif codes is not None:
        known = np.maximum(present_lengths(codes[: graph.n_random].T), 1)
    elif refines and network.length_head is not None:
        return _predicted(network, given, candidates.lengths, graph.n_random)
    elif candidates.lengths > 1:
        message = f"{candidates.lengths} candidate lengths, and the network predicts none"
        raise fail("E507", message, help="pass `lengths=` with `lengths = 1`, or give the network a `length` head")
    else:
        known = np.full(count, graph.n_random)
    return np.repeat(known[:, None], candidates.lengths, axis=1).astype(np.int32), None


def _predicted(network: Any, given: tuple[Array, ...], count: int, n: int) -> tuple[Array, Array]:
    """The `count` lengths of the best scores for each row, best first, with their scores."""
    tops, scores = [], []
    for chosen, wide in _by_width([_longest(given)], None):
        batch, lengths = _trimmed(given, chosen, wide)
        s = np.asarray(_length_scores(network, batch, lengths))[: len(chosen)]
        best = np.argsort(-s, axis=1, kind="stable")[:, : min(count, s.shape[1])]
        best = np.pad(best, ((0, 0), (0, count - best.shape[1])), mode="edge")
        tops.append((chosen, best + 1))
        scores.append(np.take_along_axis(s, best, axis=1))
    order = np.argsort(np.concatenate([c for c, _ in tops]))
    return np.concatenate([b for _, b in tops])[order].astype(np.int32), np.concatenate(scores)[order]


@eqx.filter_jit
def _length_scores(network: Any, given: Any, lengths: Any) -> Any:
    return jax.vmap(network.length_head.scores)(derive.encode_rows(network, given, lengths, len(lengths[0])))


def _longest(given: tuple[Array, ...]) -> Array:
    found = [present_lengths(g) for g in given if g.dtype.kind != "f"]
    return np.max(found, axis=0) if found else np.ones(len(given[0]) if given else 1, np.int32)


def _by_width(lengths: Sequence[Array], stated: Sequence[int] | None) -> list[tuple[Array, tuple[int, ...]]]:
    """Rows of like widths, at most so many at once: their numbers, and the width for each of `lengths`."""
    buckets = [widths(int(n.max(initial=1)), stated) for n in lengths]
    place = np.stack([bucket_of(n, b) for n, b in zip(lengths, buckets, strict=True)], axis=1)
    out = []
    for kind in np.unique(place, axis=0):
        mine = np.flatnonzero((place == kind).all(axis=1))
        wide = tuple(b[k] for b, k in zip(buckets, kind, strict=True))
        out += [(mine[i : i + SIZES[-1]], wide) for i in range(0, len(mine), SIZES[-1])]
    return out


def _trimmed(given: tuple[Array, ...], chosen: Array, wide: tuple[int, ...]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Given arrays of some rows, cut to a width and filled up to a number of rows that is compiled once."""
    rows = _filled_up(chosen)
    batch = [g[rows] if g.dtype.kind == "f" else g[rows, : min(wide[0], g.shape[1])] for g in given]
    lengths = tuple(present_lengths(g) for g in batch)
    return tuple(g if g.dtype.kind == "f" else np.maximum(g, 0) for g in batch), lengths


def _filled_up(chosen: Array) -> Array:
    """Rows, the last again until there are as many as a program is compiled for."""
    return np.concatenate([chosen, np.full(_padded(len(chosen)) - len(chosen), chosen[-1])])


@dataclass(frozen=True)
class Part:
    """What one batch of rows gave: chains side by side within a row, then candidates."""

    rows: Array
    width: int
    draws: Draws


def _drawn(
    lowered: Lowered, params: dict[str, Any], kernel: Any, work: Work, candidates: Candidates, options: Options, observe: Any
) -> list[Part]:
    """Batch by batch; what a chain draws depends on the seed, its number, its row and its candidate only."""
    graph = lowered.graph
    assert graph.network is not None
    n, per_row = graph.n_random, options.chains * candidates.count
    given = _longest(work.given) if work.given else np.ones(len(work.lengths), np.int32)
    whole = bool(getattr(kernel, "law", None) is not None and kernel.law.groups())
    parts = []
    for chosen, wide in _by_width([given, work.lengths.max(axis=1)], None):
        width = n if whole or not work.shape else min(wide[1], n)
        rows = _filled_up(chosen)
        batch, given_lengths = _trimmed(work.given, chosen, wide)
        lengths = np.tile(np.repeat(work.lengths[rows], candidates.starts, axis=1), (1, options.chains))
        device = _graph_of(params, graph.network.label, batch, given_lengths, lengths, width)
        held, values = (np.repeat(a[:width, rows], per_row, axis=1) for a in (work.held, work.values))
        target = derive.Target(device, params, jnp.asarray(held) if held.any() else None)
        keys = _keys(options.seed, jnp.asarray(rows), options.chains, candidates.count)
        found = sample(
            kernel,
            target,
            _starts(kernel, device, work, rows, per_row, held, values, options.seed),
            seed=options.seed,
            draws=options.draws,
            warmup=options.warmup,
            thin=options.thin,
            observe=observe,
            keep=options.keep_draws,
            progress=shows_progress(options.progress),
            keys=keys,
            remember=_decoded if isinstance(kernel, RefinementKernel) else forget,
        )
        parts.append(Part(chosen, width, found))
    return parts


def _decoded(state: derive.State) -> Decoded:
    return state.memory._replace(draft=None)


@eqx.filter_jit
def _graph_of(params: dict[str, Any], name: str, given: Any, given_lengths: Any, lengths: Any, width: int) -> NetworkGraph:
    network = params[name]
    rows = lengths.shape[0]
    encoded = derive.encode_rows(network, given, given_lengths, rows)
    return derive.network_graph(network, name, encoded, lengths, width)


@eqx.filter_jit
def _keys(seed: Any, rows: jax.Array, chains: int, candidates: int) -> Any:
    """One key per chain, row after row."""
    by_chain = jax.vmap(lambda c: jax.random.fold_in(jax.random.key(seed), c))(jnp.arange(chains))

    def of(row: Any, chain: Any, candidate: Any) -> Any:
        return jax.random.fold_in(jax.random.fold_in(by_chain[chain], row), candidate)

    every = jnp.meshgrid(rows, jnp.arange(chains), jnp.arange(candidates), indexing="ij")
    return jax.vmap(of)(*(a.reshape(-1) for a in every))


def _starts(kernel: Any, device: NetworkGraph, work: Work, rows: Array, per_row: int, held: Array, values: Array, seed: int) -> Array:
    """Codes of the chains: the given start, or uniform values; padding is 0, and held cells are as they are held."""
    q, width, chains = device.most_values, device.n_cells, len(rows) * per_row
    codes = np.zeros((width, chains), np.int32)
    if work.codes is not None:
        codes = np.repeat(work.codes[:width, rows], per_row, axis=1)
    if work.codes is None or (codes < 0).any():
        drawn = np.stack([np.random.default_rng([seed, int(r), k]).integers(0, q, width) for r in rows for k in range(per_row)], axis=1)
        codes = np.where(codes < 0, drawn, codes) if work.codes is not None else drawn
    present = np.arange(width)[:, None] < np.asarray(device.lengths).reshape(1, -1)
    return np.where(held, values, np.where(present, codes, 0)).astype(np.int32)


@dataclass(frozen=True)
class Decodes:
    """Decodes of all rows; candidates are ordered by score, the best first.

    Attributes:
        tokens: (chains, draws, rows, candidates, cells), -1 behind the length.
        score, length, passes: (chains, draws, rows, candidates).
        trace: (chains, draws, rows, passes, cells) of the best candidate, or None.
    """

    tokens: Array
    score: Array
    length: Array
    passes: Array
    trace: Array | None


def _decodes(parts: list[Part], work: Work, candidates: Candidates) -> Decodes:
    n = max(p.width for p in parts)
    found, order = [], np.argsort(np.concatenate([p.rows for p in parts]))
    for part in parts:
        found.append(_ordered(part, work, candidates, n))
    return Decodes(*(None if a[0] is None else np.concatenate(a, axis=2)[:, :, order] for a in zip(*found, strict=True)))  # type: ignore[arg-type]


def _ordered(part: Part, work: Work, candidates: Candidates, n: int) -> tuple[Any, ...]:
    """Of one batch: chains, draws, rows, candidates by falling score, cells."""
    memory: Decoded = part.draws.memory
    count, k = len(part.rows), candidates.count

    def split(a: Array) -> Array:  # (.., chains of all rows) -> chains, .., rows, candidates
        a = a.reshape(*a.shape[:-1], -1, a.shape[-1] // (_padded(count) * k), k)[..., :count, :, :]
        return np.moveaxis(a, -2, 0)

    score, passes = split(memory.score), split(memory.passes)
    length = np.broadcast_to(np.repeat(work.lengths[part.rows], candidates.starts, axis=1), score.shape)
    best = np.argsort(-score, axis=-1, kind="stable")
    assert part.draws.codes is not None
    tokens = np.moveaxis(split(np.moveaxis(part.draws.codes, 0, -1)), 2, -1)  # chains, draws, rows, candidates, cells
    tokens = np.where(np.arange(part.width) < length[..., None], tokens, -1)
    tokens = np.pad(np.take_along_axis(tokens, best[..., None], axis=3), ((0, 0),) * 4 + ((0, n - part.width),), constant_values=-1)
    score, passes, length = (np.take_along_axis(a, best, axis=3) for a in (score, passes, length))
    trace = None
    if memory.trace.shape[1]:
        every = np.moveaxis(split(memory.trace), (2, 3), (-2, -1))  # chains, draws, rows, candidates, passes, cells
        trace = np.take_along_axis(every, best[..., :1, None, None], axis=3)[:, :, :, 0]
        trace = np.where(np.arange(part.width) < length[..., 0, None, None], trace, -1)
        trace = np.pad(trace, ((0, 0),) * 4 + ((0, n - part.width),), constant_values=-1)
    return tokens, score, length, passes, trace


def _padded(count: int) -> int:
    """The least number of rows that programs are compiled for which holds so many."""
    return next(size for size in SIZES if size >= count)


def _labelled_decodes(
    graph: FactorGraph, found: Decodes, work: Work, options: Options, provenance: dict[str, Any], kept: tuple[str, ...]
) -> Any:
    v = graph.variables[0]
    lead = found.score.shape[:2]
    row_dims = ["row"] if len(work.shape) == 1 else [f"row_{k}" for k in range(len(work.shape))]

    def rows(a: Array) -> Array:
        return a.reshape(*lead, *work.shape, *a.shape[3:])

    def cells(a: Array) -> Array:
        wide = np.pad(a, ((0, 0),) * (a.ndim - 1) + ((0, v.size - a.shape[-1]),), constant_values=-1)
        values = np.where(wide < 0, wide, 2 * wide - 1) if v.kind == "spin" else wide
        return values.reshape(*a.shape[:-1], *v.shape)

    dims: dict[str, list[str]] = {v.name: [*row_dims, *v.dims]}
    coords = {d: list(c) for d, c in zip(v.dims, v.coords, strict=True)}
    stats = {"score": rows(found.score[..., 0]), "length": rows(found.length[..., 0]), "passes": rows(found.passes[..., 0])}
    dims |= {name: row_dims for name in stats}
    if "candidates" in kept:
        more = {"candidate": cells(found.tokens), "candidate_score": found.score, "candidate_length": found.length}
        stats |= {name: rows(a) for name, a in more.items()}
        dims |= {"candidate": [*row_dims, "rank", *v.dims], "candidate_score": [*row_dims, "rank"], "candidate_length": [*row_dims, "rank"]}
    if "trace" in kept and found.trace is not None:
        stats["trace"] = rows(cells(found.trace))
        dims["trace"] = [*row_dims, "pass", *v.dims]
    attrs = {"sampler": options.sampler, "seed": options.seed} | _attributes(provenance)
    return to_arviz({v.name: rows(cells(found.tokens[..., 0, :]))}, dims, coords, stats, None, attrs)


def _attributes(provenance: dict[str, Any]) -> dict[str, Any]:
    versions = ", ".join(f"{k} {v}" for k, v in provenance["versions"].items())
    return {"model": provenance["model"], "program_sha256": provenance["sha256"], "versions": versions, "starts": provenance["starts"]}


def _labelled_chains(graph: FactorGraph, parts: list[Part], work: Work, planned: Any, options: Options, provenance: dict[str, Any]) -> Any:
    """Of one row, as every model's chains; of many, with an axis of rows and without diagnostics of each."""
    if not work.shape and (work.lengths == graph.n_random).all():
        part = parts[0]
        draws = replace(part.draws, codes=None if part.draws.codes is None else _with_row_cell(graph, part.draws.codes))
        return label(graph, draws, work.held[:, 0], planned, options, provenance)
    v, order = graph.variables[0], np.argsort(np.concatenate([p.rows for p in parts]))
    every = []
    for part in parts:
        codes = part.draws.codes
        if codes is None:
            raise fail("E507", "keep_draws=False keeps nothing of chains over rows", help="leave it out")
        count = len(part.rows)
        split = codes.reshape(-1, options.chains, *codes.shape[1:])[:count]  # rows, chains, draws, cells
        split = np.where(np.arange(part.width) < work.lengths[part.rows][:, None, None], split, -1)
        every.append(np.pad(split, ((0, 0),) * 3 + ((0, graph.n_random - part.width),), constant_values=-1))
    codes = np.moveaxis(np.concatenate(every)[order], 0, 2)
    lead = (options.chains, options.draws, *work.shape)
    flat = codes.reshape(-1, graph.n_random).T
    values = decode(graph, np.maximum(flat, 0), lead)[v.name]
    missing = (flat < 0).T.reshape(values.shape)
    row_dims = ["row"] if len(work.shape) == 1 else [f"row_{k}" for k in range(len(work.shape))]
    attrs = {"sampler": options.sampler, "seed": options.seed, "warmup": options.warmup, "thin": options.thin} | _attributes(provenance)
    coords = {d: list(c) for d, c in zip(v.dims, v.coords, strict=True)}
    return to_arviz({v.name: np.where(missing, -1, values)}, {v.name: [*row_dims, *v.dims]}, coords, {}, None, attrs)


def _with_row_cell(graph: FactorGraph, codes: Array) -> Array:
    extra = graph.n_cells - codes.shape[-1]
    return np.pad(codes, ((0, 0), (0, 0), (0, extra)))
