"""What there is to decode: rows of given data, candidate lengths, held cells and drafts; and rows of like length together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import derive
from .._diagnostics import fail
from ..data import (
    bucket_of,
    clamped_cells,
    encode,
    encode_prompts,
    given_arrays,
    network_rows,
    present_lengths,
    row_index,
    standard_widths,
    whole_numbers,
)
from ..derive import bounded_jit
from ..graph import FactorGraph, Lowered, autoregressive, refinement
from ..program import AUTOREGRESSIVE, ir
from ..read import masked_entries, with_rows_of
from ..sample import SampleOptions

Array = np.ndarray
SIZES = (1, 4, 16, 64)  # rows that are decoded at once: a program is compiled for each
# what a batch costs beside its rows, in rows: about 4 of a search on a CPU, 1 of a refinement
BESIDE = 4
MOST_ENTRIES = 1 << 28  # of the logits of one pass


@dataclass(frozen=True)
class Decoding:
    """What a conditional model's `sample` takes beside the options of every sampler.

    Attributes:
        given: data of given variables, one row or many.
        missing: what stands for padding.
        lengths: of the rows, where they are known.
        numbers: of the rows, from which what is random follows; None: 0, 1, 2, ..
        prompt: what each row begins with.
    """

    given: Any = None
    missing: Any = None
    lengths: Any = None
    numbers: Any = None
    prompt: Any = None


@dataclass(frozen=True)
class Candidates:
    """How many lengths are tried for a row, and how many starts or beams for each."""

    lengths: int = 1
    starts: int = 1

    @property
    def count(self) -> int:
        """Of a row."""
        return self.lengths * self.starts


class Encoded(NamedTuple):
    """What lengths were predicted from, where all rows make one batch: the same batch is decoded with it."""

    rows: Array
    width: int
    states: Any


@dataclass(frozen=True)
class Work:
    """Rows to draw for: given arrays, candidate lengths of each row (rows, candidates), starts and held cells.

    `codes` and `held` have the shape (cells, rows); `shape` are the axes of rows. What is random
    for a row follows from its number.
    """

    given: tuple[Array, ...]
    lengths: Array
    codes: Array | None
    held: Array
    values: Array
    shape: tuple[int, ...]
    numbers: Array
    encoded: Encoded | None = None


def candidates_of(lowered: Lowered, body: ir.FormCall | tuple[ir.Kernel, ...]) -> Candidates:
    if not isinstance(body, ir.FormCall):
        return Candidates()
    if body.form is AUTOREGRESSIVE:
        beam = autoregressive(body, lowered.bound, int(lowered.graph.sizes.max()))["beam"]
        return Candidates(starts=int(beam))
    found = refinement(body, lowered.bound)
    return Candidates(int(found["lengths"]), int(found["starts"]))  # type: ignore[arg-type]


def work_of(
    lowered: Lowered, params: dict[str, Any], options: SampleOptions, more: Decoding, candidates: Candidates, refines: bool
) -> Work:
    graph = lowered.graph
    given, shape = given_arrays(lowered, more.given, more.missing)
    codes, labels = None, row_index(graph, more.given if isinstance(more.given, Mapping) else {})
    if options.init is not None:
        start = encode(graph, with_rows_of(labels, options.init, "init", 1), "init", more.missing)
        if start.shape not in ((), shape) and shape != ():
            raise fail(
                "E501", f"init must hold one configuration, or one for each row of given data {shape}, got rows of shape {start.shape}"
            )
        shape, codes = start.shape or shape, start.codes
    if more.prompt is not None:
        held, values, shape = _prompted(graph, more.prompt, options.clamp, shape)
    else:
        clamp = options.clamp
        if labels is not None and isinstance(clamp, Mapping):
            clamp = {name: with_rows_of(labels, value, f"clamp[{name!r}]", 1) for name, value in clamp.items()}
        held, values, shape = _held(graph, clamp, more.missing, shape)
    count = int(np.prod(shape, dtype=np.int64))
    given = tuple(np.broadcast_to(g, (count, g.shape[1])) for g in given)
    held, values = (np.broadcast_to(a, (graph.n_cells, count)) for a in (held, values))
    codes = None if codes is None else np.broadcast_to(codes, (graph.n_cells, count))
    if not count:
        raise fail("E505", f"there are no rows to draw for: given data, `init` or `clamp` have rows of shape {shape}")
    last = present_lengths(np.where(held[: graph.n_random], 0, -1).T)
    lengths, encoded = _lengths(lowered, params, given, codes, more.lengths, shape, candidates, refines, last)
    return Work(given, lengths, codes, held, values, shape, _numbers(more.numbers, count), encoded)


def _numbers(stated: Any, count: int) -> Array:
    """The numbers of rows, as keys are folded with them.

    Raises:
        GmlmError: E507 for what is no list of whole numbers, one for each row.
    """
    if stated is None:
        return np.arange(count, dtype=np.uint32)
    found = whole_numbers(stated, "rows")
    if found is None or found.shape != (count,) or (found < 0).any():
        raise fail("E507", f"rows must be whole numbers from 0 on, one for each of {count} rows, got {stated!r:.60}")
    return (found % 2**32).astype(np.uint32)


def _held(graph: FactorGraph, clamp: Any, missing: Any, shape: tuple[int, ...]) -> tuple[Array, Array, tuple[int, ...]]:
    """Which cells stay, and at what: as everywhere, or rows of the whole variable with `missing` where cells are free."""
    name = graph.variables[0].name
    gapped = missing is not None or (isinstance(clamp, Mapping) and masked_entries(clamp.get(name)) is not None)
    if isinstance(clamp, Mapping) and set(clamp) == {name} and not isinstance(clamp[name], Mapping) and gapped:
        rows = encode(graph, clamp[name], f"clamp[{name!r}]", missing)
        if rows.shape not in ((), shape) and shape != ():
            raise fail("E501", f"clamp[{name!r}] must hold one row, or one for each row of given data {shape}, got {rows.shape}")
        held = rows.codes >= 0
        held[graph.n_random :] = False
        return held, np.maximum(rows.codes, 0), rows.shape or shape
    held, values = clamped_cells(graph, clamp)
    return held[:, None], values[:, None], shape


def _prompted(graph: FactorGraph, prompt: Any, clamp: Any, shape: tuple[int, ...]) -> tuple[Array, Array, tuple[int, ...]]:
    """Which cells prompts hold, and at what; rows of prompts are those of given data, where these have rows."""
    if clamp is not None:
        help = "write both as `clamp={name: rows}` with `missing=` for cells that are free"
        raise fail("E507", "`prompt=` and `clamp=` both hold cells", help=help)
    found = encode_prompts(graph, prompt)
    rows = (len(found.lengths),)
    if shape not in ((), rows):
        raise fail("E501", f"prompt lists {rows[0]} prefixes, and there are rows of shape {shape}")
    codes = np.full((graph.n_cells, rows[0]), -1, np.int32)
    codes[graph.observed[0].positions.ravel()] = found.codes.T
    return codes >= 0, np.maximum(codes, 0), rows


def _lengths(
    lowered: Lowered, params: dict[str, Any], given: tuple[Array, ...], codes: Array | None, stated: Any, shape: tuple[int, ...],
    candidates: Candidates, refines: bool, last: Array,
) -> tuple[Array, Encoded | None]:  # fmt: skip
    """Candidate lengths of each row, the likeliest first: stated, those of the start, predicted, or the model's own.

    No predicted length leaves a held cell out; `last` is the place behind the last of each row.
    """
    graph, count = lowered.graph, int(np.prod(shape, dtype=np.int64))
    network = next(iter(params.values()))
    if stated is not None:
        found = whole_numbers(stated, "lengths")
        if found is None or found.shape not in ((), shape) or (found < 1).any() or (found > graph.n_random).any():
            message = f"lengths must be whole numbers from 1 to {graph.n_random}, one or one for each row {shape}"
            raise fail("E507", f"{message}, got {stated!r:.60}")
        known = np.broadcast_to(found, shape).reshape(count)
    elif codes is not None:
        known = np.maximum(present_lengths(codes[: graph.n_random].T), 1)
    elif refines and network.length_head is not None:
        return _predicted(next(iter(params)), network, given, candidates.lengths, last)
    elif candidates.lengths > 1:
        message = f"{candidates.lengths} candidate lengths, and the network predicts none"
        raise fail("E507", message, help="pass `lengths=` with `lengths = 1`, or give the network a `length` head")
    else:
        known = np.full(count, graph.n_random)
    if (known < last).any():
        r = int(np.argmax(known < last))
        message = f"a held cell stands at position {last[r] - 1}, behind the {known[r]} cells of row {r}"
        raise fail("E507", message, help="hold cells within a row's length only")
    return np.repeat(known[:, None], candidates.lengths, axis=1).astype(np.int32), None


def _predicted(label: str, network: Any, given: tuple[Array, ...], count: int, last: Array) -> tuple[Array, Encoded | None]:
    """The `count` lengths of the best scores for each row, best first; the best again where there are fewer."""
    tops, batches = [], batches_of(longest(given))
    for chosen, wide, _ in batches:
        encoded, s = _length_scores(network, *trimmed(given, chosen, wide))
        s = np.asarray(s)[: len(chosen)]
        if (bad := ~np.isfinite(s.max(axis=1))).any():
            where = f"at the scores of lengths of row {chosen[int(np.argmax(bad))]}"
            raise derive.undefined_outputs(f"network `{label}`", where)
        s = np.where(np.arange(1, s.shape[1] + 1) < last[chosen][:, None], -np.inf, s)
        best = np.argsort(-s, axis=1, kind="stable")[:, : min(count, s.shape[1])]
        best = np.where(np.isfinite(np.take_along_axis(s, best, axis=1)), best, best[:, :1])
        tops.append(np.pad(best, ((0, 0), (0, count - best.shape[1])), mode="edge") + 1)
    order = np.argsort(np.concatenate([chosen for chosen, _, _ in batches]))
    only = Encoded(*batches[0][:2], encoded) if len(batches) == 1 else None
    return np.concatenate(tops)[order].astype(np.int32), only


def length_coverage(lowered: Lowered, params: dict[str, Any], x: Any, given: Any, missing: Any, top: object) -> dict[int, float]:
    """The share of rows whose length is among the k best; see `ConditionalModel.length_coverage`."""
    network = next(iter(params.values()))
    n = lowered.graph.n_random
    if network.length_head is None:
        raise fail("E507", "this network predicts no length", help="give it one: `encoder_decoder(.., length = classifier)`")
    wanted = whole_numbers(list(top) if isinstance(top, Iterable) else None, "top")
    if wanted is None or wanted.ndim != 1 or not len(wanted) or (wanted < 1).any() or (wanted > n).any():
        raise fail("E507", f"top must list whole numbers from 1 to {n}, got {top!r:.60}")
    rows = network_rows(lowered, x, missing, given)
    best, _ = _predicted(next(iter(params)), network, rows.given, int(wanted.max()), np.ones(rows.n_rows, np.int64))
    true = present_lengths(rows.codes[:n].T)
    return {int(k): float((best[:, :k] == true[:, None]).any(axis=1).mean()) for k in wanted}


@bounded_jit
def _length_scores(network: Any, given: Any, lengths: Any) -> tuple[Any, Any]:
    """The encodings, and the scores of every length."""
    encoded = derive.encode_rows(network, given, lengths, len(lengths[0]))
    return encoded, jax.vmap(network.length_head.scores)(encoded)


def longest(given: tuple[Array, ...]) -> Array:
    found = [present_lengths(g) for g in given if g.dtype.kind != "f"]
    return np.max(found, axis=0) if found else np.ones(len(given[0]) if given else 1, np.int32)


def batches_of(given: Array, cells: Array | None = None, entries: int = 1) -> list[tuple[Array, int, int]]:
    """Rows of like lengths, as many at once as programs are compiled for: their numbers, and widths of given arrays and of cells.

    The rows stand in the order of their widths and are cut where that costs least, in `rows x
    widths`, with rows that fill a batch up and what a batch costs besides.

    Args:
        given: lengths of the given arrays, by row.
        cells: lengths of the predicted rows; None: nothing is predicted.
        entries: of a pass's logits, of a row, by cell.

    Raises:
        GmlmError: E601 where those of one row are too many.
    """
    cells = np.ones_like(given) if cells is None else cells
    wide, high = (_rounded_up(n) for n in (given, cells))
    if entries * high.max(initial=0) > MOST_ENTRIES:
        message = f"one pass over the chains and candidates of a row has {entries * high.max():.3g} logits"
        raise fail("E601", f"{message}, more than the limit of {MOST_ENTRIES:.3g}", help="take fewer chains, lengths or starts")
    order = np.lexsort((wide, high))
    wide, high = wide[order], high[order]
    return [(order[i:j], int(wide[i:j].max()), int(high[j - 1])) for i, j in _cuts(wide, high, entries)]


def _cuts(wide: Array, high: Array, entries: int) -> list[tuple[int, int]]:
    """Where each batch of rows in order begins and ends: all but the first are full."""
    # of the first j rows: the least cost, and where their last batch begins
    costs, starts = [0.0], [0]
    for j in range(1, len(high) + 1):
        tried = []
        for size in (s for s in SIZES if s == 1 or s * entries * high[j - 1] <= MOST_ENTRIES):
            i = max(0, j - size)
            tried.append((costs[i] + (size + BESIDE) * (wide[i:j].max() + high[j - 1]), i))
        cost, i = min(tried)
        costs.append(cost)
        starts.append(i)
    ends = [len(high)]
    while ends[-1]:
        ends.append(starts[ends[-1]])
    return list(pairwise(ends[::-1]))


def _rounded_up(lengths: Array) -> Array:
    """The width of each length's bucket."""
    found = standard_widths(int(lengths.max(initial=1)))
    return np.asarray(found)[bucket_of(lengths, found)]


def trimmed(given: tuple[Array, ...], chosen: Array, wide: int) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Given arrays of some rows, cut to a width and filled up to a number of rows that is compiled once."""
    rows = filled_up(chosen)
    batch = [g[rows] if g.dtype.kind == "f" else g[rows, : min(wide, g.shape[1])] for g in given]
    lengths = tuple(present_lengths(g) for g in batch)
    return tuple(g if g.dtype.kind == "f" else np.maximum(g, 0) for g in batch), lengths


def given_entries(work: Work) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Given arrays of the first row with all their entries, and how many of them are there."""
    return trimmed(work.given, np.zeros(1, np.int64), max((g.shape[1] for g in work.given), default=0))


def filled_up(chosen: Array) -> Array:
    """Rows, the last again until there are as many as a program is compiled for."""
    return np.concatenate([chosen, np.full(padded(len(chosen)) - len(chosen), chosen[-1])])


def padded(count: int) -> int:
    """The least number of rows that programs are compiled for which holds so many."""
    return next(size for size in SIZES if size >= count)
