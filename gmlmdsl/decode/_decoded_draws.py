"""Draws of conditional models with names: the best candidates of decodes, and chains over rows."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail
from .._types import DrawsLike, JsonObject
from ..data import decode
from ..graph import FactorGraph
from ..sample import ChainRun, Draws, SampleOptions, label, to_arviz
from ._candidates import Work

if TYPE_CHECKING:
    from ..derive import Planned

Array = np.ndarray


@dataclass(frozen=True)
class Part:
    """Draws of one batch of rows.

    The chains of a row are adjacent, and so are the candidates of a chain.
    """

    rows: Array
    width: int
    draws: Draws


@dataclass(frozen=True)
class DecodedPart:
    """Decodes of one batch of rows.

    Attributes:
        rows: the numbers of the rows.
        width: the number of cells.
        found: arrays by the names of `Decodes`, with the axes (draws, rows, chains, candidates, ..)
            and with rows that fill the batch up. Those that are not recorded are absent.
    """

    rows: Array
    width: int
    found: dict[str, Array]

    def padded(self, name: str, cells: int) -> Array | None:
        """Return an array with the axes of `Decodes`, and cells up to `cells`."""
        a = self.found.get(name)
        if a is None:
            return None
        a = np.moveaxis(a[:, : len(self.rows)], 2, 0)
        return widened(a, cells) if a.ndim > 4 else a


def widened(a: Array, cells: int) -> Array:
    """Return codes with a last axis of `cells` cells, -1 in those that are new."""
    if a.shape[-1] == cells:
        return a
    out = np.full((*a.shape[:-1], cells), -1, a.dtype)
    out[..., : a.shape[-1]] = a
    return out


@dataclass(frozen=True)
class Decodes:
    """Decodes of all rows, with the candidates of a row from best to worst.

    The order is that of the sampler's comparison. The results of `Model.decode` have no axes of
    chains and draws, and their `rows` are the axes of given data.

    Attributes:
        tokens: codes, (chains, draws, rows, candidates, cells), -1 after the length.
        score: (chains, draws, rows, candidates), the mean log p of the predicted cells; -infinity
            if a beam found no further row.
        length, passes: the length and the number of passes, (chains, draws, rows, candidates).
        traces: (chains, draws, rows, candidates, passes, cells), the tokens after each pass, or
            None.
        seen: (chains, draws, rows, candidates, cells), the tokens that the last pass saw, -1 for a
            hidden cell, or None.
    """

    tokens: Array
    score: Array
    length: Array
    passes: Array
    traces: Array | None
    seen: Array | None

    @property
    def trace(self) -> Array | None:
        """Trace of the best candidate, (chains, draws, rows, passes, cells)."""
        return None if self.traces is None else self.traces[..., 0, :, :]

    def of_rows(self, shape: tuple[int, ...], n_cells: int) -> Decodes:
        """Return the first draw of the first chain, with the given axes of rows.

        Rows are padded to `n_cells` cells.
        """
        tokens, traces, seen = (None if a is None else widened(a, n_cells) for a in (self.tokens, self.traces, self.seen))
        every = (tokens, self.score, self.length, self.passes, traces, seen)
        return Decodes(*(None if a is None else a[0, 0].reshape(*shape, *a.shape[3:]) for a in every))  # type: ignore[arg-type]


def decodes_of(parts: list[DecodedPart]) -> Decodes:
    """Return the decodes of all batches, with the rows in their original order."""
    n, order = max(p.width for p in parts), np.argsort(np.concatenate([p.rows for p in parts]))

    def of(name: str) -> Any:
        every = [a for p in parts if (a := p.padded(name, n)) is not None]
        if len(order) == 1 or not every:
            return every[0] if every else None
        return np.concatenate(every, axis=2)[:, :, order]

    return Decodes(*(of(f.name) for f in fields(Decodes)))


def labelled_decodes(
    graph: FactorGraph,
    found: Decodes,
    work: Work,
    options: SampleOptions,
    provenance: JsonObject,
    kept: tuple[str, ...],
    end: int | None,
) -> DrawsLike:
    """Return decodes with names, as the object of the installed ArviZ.

    Args:
        graph: the factor graph.
        found: the decodes.
        work: the rows that were decoded.
        options: the options of sampling.
        provenance: attributes to record with the decodes.
        kept: the further results to record: `candidates`, `trace`.
        end: the value that fills up the rows that it ends, or None.
    """
    v = graph.variables[0]
    lead = found.score.shape[:2]
    row_dims = ["row"] if len(work.shape) == 1 else [f"row_{k}" for k in range(len(work.shape))]

    def rows(a: Array) -> Array:
        return a.reshape(*lead, *work.shape, *a.shape[3:])

    def cells(a: Array) -> Array:
        wide = widened(a, v.size)
        if end is not None:
            wide = np.where((wide < 0) & (wide == end).any(axis=-1, keepdims=True), end, wide)
        values = np.where(wide < 0, v.padding, v.values_of(wide))
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
    attrs = {"sampler": options.sampler, "seed": options.seed} | _attributes(graph, provenance)
    drawn = {v.name: rows(cells(found.tokens[..., 0, :]))}
    return to_arviz(drawn, dims, coords, stats, None, attrs, texts=graph.texts)


def _attributes(graph: FactorGraph, provenance: JsonObject) -> JsonObject:
    versions = ", ".join(f"{k} {v}" for k, v in provenance["versions"].items())
    labels = str(graph.texts)
    stated = {"model": provenance["model"], "program_sha256": provenance["sha256"], "versions": versions, "starts": provenance["starts"]}
    return stated | {"labels": labels}


def labelled_chains(
    graph: FactorGraph, parts: list[Part], work: Work, planned: Planned, options: SampleOptions, provenance: JsonObject
) -> DrawsLike:
    """Return chains with names, as the object of the installed ArviZ.

    The chains of one row are labelled like those of every model. The chains of many rows have an
    axis of rows and no diagnostics.

    Args:
        graph: the factor graph.
        parts: the draws of the batches.
        work: the rows.
        planned: the kernel, with the names of its updates and pairs.
        options: the options of sampling.
        provenance: attributes to record with the draws.
    """
    if not work.shape and (work.lengths == graph.n_random).all():
        part = parts[0]
        draws = replace(part.draws, codes=None if part.draws.codes is None else _with_row_cell(graph, part.draws.codes))
        return label(graph, ChainRun(draws, planned, work.held[:, 0], options, provenance["starts"]), provenance)
    v, order = graph.variables[0], np.argsort(np.concatenate([p.rows for p in parts]))
    every = []
    for part in parts:
        codes = part.draws.codes
        if codes is None:
            raise fail("E507", "keep_draws=False keeps nothing of chains over rows", help="leave it out")
        count = len(part.rows)
        # axes: rows, chains, draws, cells
        split = codes.reshape(-1, options.chains, *codes.shape[1:])[:count]
        split = np.where(np.arange(part.width) < work.lengths[part.rows][:, None, None], split, -1)
        every.append(np.pad(split, ((0, 0),) * 3 + ((0, graph.n_random - part.width),), constant_values=-1))
    codes = np.moveaxis(np.concatenate(every)[order], 0, 2)
    lead = (options.chains, options.draws, *work.shape)
    flat = codes.reshape(-1, graph.n_random).T
    values = decode(graph, np.maximum(flat, 0), lead)[v.name]
    missing = (flat < 0).T.reshape(values.shape)
    row_dims = ["row"] if len(work.shape) == 1 else [f"row_{k}" for k in range(len(work.shape))]
    attrs = {"sampler": options.sampler, "seed": options.seed, "warmup": options.warmup, "thin": options.thin}
    coords = {d: list(c) for d, c in zip(v.dims, v.coords, strict=True)}
    values = np.where(missing, v.padding, values)
    attrs |= _attributes(graph, provenance)
    dims = {v.name: [*row_dims, *v.dims]}
    return to_arviz({v.name: values}, dims, coords, {}, None, attrs, texts=graph.texts)


def _with_row_cell(graph: FactorGraph, codes: Array) -> Array:
    extra = graph.n_cells - codes.shape[-1]
    return np.pad(codes, ((0, 0), (0, 0), (0, extra)))
