"""Inputs of decodes: rows of given data, candidate lengths, fixed cells and drafts.

Rows of similar length form batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from .. import derive
from .._diagnostics import fail
from .._types import ArrayLike, Clamp, Given, Missing, Prompt, Rows
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
from ..graph import FactorGraph, Lowered, autoregressive, refinement
from ..program import AUTOREGRESSIVE, ir
from ..read import masked_entries, with_rows_of
from ..sample import SampleOptions
from .limits import BATCH_COST, BATCH_SIZES, MOST_ENTRIES

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..derive import Device, Networks, Spread, Task
    from ..networks import AbstractNetwork

Array = np.ndarray
# the encodings of rows and their scores of lengths, from given arrays with their lengths
LengthScores = Callable[..., tuple[Any, jax.Array]]
# the compiled function of the scores on a device
ScoresOn = Callable[["Device | None"], LengthScores]


@dataclass(frozen=True)
class Decoding:
    """Arguments of a conditional model's `sample` in addition to the options of every sampler.

    Attributes:
        given: data of given variables, one row or many, or their codes.
        missing: the value that represents padding.
        lengths: the lengths of the rows, if they are known.
        numbers: the numbers of the rows, which determine the random draws; None: 0, 1, 2, ..
        prompt: the prefix of each row.
        values: the codes that cells may have, int32, ascending, those that the sampler names first
            among them; None: all. Probabilities are then over these.
    """

    given: Given | CodeRows | None = None
    missing: Missing | None = None
    lengths: ArrayLike | None = None
    numbers: ArrayLike | None = None
    prompt: Prompt | None = None
    values: Array | None = None


@dataclass(frozen=True)
class Candidates:
    """Number of lengths that are tried for a row, and of starts or beams for each length."""

    lengths: int = 1
    starts: int = 1

    @property
    def count(self) -> int:
        """Number of candidates of a row."""
        return self.lengths * self.starts


class CodeRows(NamedTuple):
    """Given arrays as codes, -1 after their ends, that need no verification.

    Attributes:
        arrays: one array for each given variable, shape (rows, entries), int32.
    """

    arrays: tuple[Array, ...]


class Encoded(NamedTuple):
    """Encodings from which lengths were predicted, if all rows are one batch.

    The same batch is decoded with them.
    """

    rows: Array
    width: int
    states: Array | None


@dataclass(frozen=True)
class Work:
    """Rows to draw, with given arrays, candidate lengths, starts and fixed cells.

    `lengths` has the shape (rows, candidates). `codes` and `held` have the shape (cells, rows);
    `shape` has the axes of rows. The random draws for a row follow from its number.
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
    """Return the numbers of lengths and of starts or beams that a sampler tries."""
    if not isinstance(body, ir.FormCall):
        return Candidates()
    if body.form is AUTOREGRESSIVE:
        beam = autoregressive(body, lowered.bound, lowered.graph.observed[0])["beam"]
        return Candidates(starts=int(beam))
    found = refinement(body, lowered.bound)
    return Candidates(int(found["lengths"]), int(found["starts"]))  # type: ignore[arg-type]


def work_of(
    lowered: Lowered, params: Networks, options: SampleOptions, more: Decoding, candidates: Candidates, refines: bool,
    scores: ScoresOn | None = None, spread: Spread | None = None,
) -> Work:  # fmt: skip
    """Return the rows to draw.

    Args:
        lowered: the model.
        params: parameters.
        options: the options of sampling.
        more: the further arguments of a conditional model.
        candidates: the number of candidates of a row.
        refines: whether lengths may be predicted by the network.
        scores: the compiled `length_scores` of the network by device, if there is one.
        spread: the axis of a mesh over which batches of rows are spread, or None.
    """
    graph = lowered.graph
    if isinstance(more.given, CodeRows):
        given, shape = more.given.arrays, (len(more.given.arrays[0]),)
    else:
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
    lengths, encoded = _lengths(lowered, params, given, codes, more.lengths, shape, candidates, refines, last, scores, spread)
    return Work(given, lengths, codes, held, values, shape, _numbers(more.numbers, count), encoded)


def _numbers(stated: ArrayLike | None, count: int) -> Array:
    """Return the numbers of rows that are folded into keys.

    Raises:
        GmlmError: E507 unless they are a list of integers, one for each row.
    """
    if stated is None:
        return np.arange(count, dtype=np.uint32)
    found = whole_numbers(stated, "rows")
    if found is None or found.shape != (count,) or (found < 0).any():
        raise fail("E507", f"rows must be whole numbers from 0 on, one for each of {count} rows, got {stated!r:.60}")
    return (found % 2**32).astype(np.uint32)


def _held(graph: FactorGraph, clamp: Clamp | None, missing: Missing | None, shape: tuple[int, ...]) -> tuple[Array, Array, tuple[int, ...]]:
    """Return the fixed cells, and their codes.

    `clamp` is as in other models, or has rows of the whole variable with `missing` for free cells.
    """
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


def _prompted(graph: FactorGraph, prompt: Prompt, clamp: Clamp | None, shape: tuple[int, ...]) -> tuple[Array, Array, tuple[int, ...]]:
    """Return the cells that prompts fix, and their codes.

    The rows of prompts are those of given data, if given data have rows.
    """
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
    lowered: Lowered, params: Networks, given: tuple[Array, ...], codes: Array | None, stated: ArrayLike | None, shape: tuple[int, ...],
    candidates: Candidates, refines: bool, last: Array, scores: ScoresOn | None, spread: Spread | None,
) -> tuple[Array, Encoded | None]:  # fmt: skip
    """Return candidate lengths of each row, the likeliest first.

    They are stated, or those of the start, or predicted, or the full length of the model. No
    predicted length excludes a fixed cell. `last` is the place after the last fixed cell of each
    row.
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
        return _predicted(next(iter(params)), network, given, candidates.lengths, last, scores, spread)
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


def _predicted(
    label: str, network: AbstractNetwork, given: tuple[Array, ...], count: int, last: Array, scores: ScoresOn | None = None,
    spread: Spread | None = None,
) -> tuple[Array, Encoded | None]:  # fmt: skip
    """Return the `count` lengths with the best scores for each row, best first.

    If there are fewer lengths, the best one is repeated.
    """
    tops, batches, encoded = [], batches_of(longest(given)), None
    scores_on = scores or (lambda device: derive.bound_jit(length_scores, derive.placed(network, device)))

    def part(k: int, device: Device | None) -> Task:
        nonlocal encoded
        encoded, found = scores_on(device)(*trimmed(given, *batches[k][:2]))
        yield
        return {"scores": np.asarray(found)}

    for (chosen, _, _), found in zip(batches, derive.in_parts(spread, len(batches), part), strict=True):
        s = found["scores"][: len(chosen)]
        if (bad := ~np.isfinite(s.max(axis=1))).any():
            where = f"at the scores of lengths of row {chosen[int(np.argmax(bad))]}"
            raise derive.undefined_outputs(f"network `{label}`", where)
        s = np.where(np.arange(1, s.shape[1] + 1) < last[chosen][:, None], -np.inf, s)
        tops.append(best_lengths(s, count))
    order = np.argsort(np.concatenate([chosen for chosen, _, _ in batches]))
    only = Encoded(*batches[0][:2], encoded) if len(batches) == 1 else None
    return np.concatenate(tops)[order].astype(np.int32), only


def best_lengths(scores: Any, count: int) -> Any:
    """Return the `count` lengths with the best finite scores of each row, best first.

    If there are fewer, the best one is repeated.

    Args:
        scores: an array of NumPy or JAX, shape (rows, lengths).
        count: the number of lengths.
    """
    xp = scores.__array_namespace__()
    best = xp.argsort(-scores, axis=1, stable=True)[:, : min(count, scores.shape[1])]
    best = xp.where(xp.isfinite(xp.take_along_axis(scores, best, axis=1)), best, best[:, :1])
    return xp.pad(best, ((0, 0), (0, count - best.shape[1])), mode="edge") + 1


def length_coverage(
    lowered: Lowered, params: Networks, x: Rows, given: Given | None, missing: Missing | None, top: object
) -> dict[int, float]:
    """Return the share of rows whose length is among the k best.

    `ConditionalModel.length_coverage` is the public method.

    Args:
        lowered: the model.
        params: parameters.
        x: the rows.
        given: data of given variables.
        missing: the value that represents padding.
        top: the numbers k.
    """
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


def length_scores(network: AbstractNetwork, given: Any, lengths: Any) -> tuple[PyTree, jax.Array]:
    """Return the encodings, and the scores of every length."""
    assert network.length_head is not None
    encoded = derive.encode_rows(network, given, lengths, len(lengths[0]))
    return encoded, jax.vmap(network.length_head.scores)(encoded)


def longest(given: tuple[Array, ...]) -> Array:
    """Return the maximum length over the given arrays of each row."""
    found = [present_lengths(g) for g in given if g.dtype.kind != "f"]
    return np.max(found, axis=0) if found else np.ones(len(given[0]) if given else 1, np.int32)


def batches_of(given: Array, cells: Array | None = None, entries: int = 1) -> list[tuple[Array, int, int]]:
    """Return batches of rows with similar lengths.

    Each item has the numbers of the rows, the width of given arrays and the width of cells. A batch
    has one of the sizes for which programs are compiled. The rows are sorted by width and split at
    minimum cost. The cost is measured in `rows x widths`, with padding rows and the fixed cost of a
    batch.

    Args:
        given: lengths of the given arrays, by row.
        cells: lengths of the predicted rows; None: nothing is predicted.
        entries: the number of a pass's logits for each cell of a row.

    Raises:
        GmlmError: E601 if one row has too many logits.
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
    """Return where each batch of ordered rows begins and ends.

    All batches except the first are full.
    """
    # for the first j rows: the minimum cost, and where their last batch begins
    costs, starts = [0.0], [0]
    for j in range(1, len(high) + 1):
        tried = []
        for size in (s for s in BATCH_SIZES if s == 1 or s * entries * high[j - 1] <= MOST_ENTRIES):
            i = max(0, j - size)
            tried.append((costs[i] + (size + BATCH_COST) * (wide[i:j].max() + high[j - 1]), i))
        cost, i = min(tried)
        costs.append(cost)
        starts.append(i)
    ends = [len(high)]
    while ends[-1]:
        ends.append(starts[ends[-1]])
    return list(pairwise(ends[::-1]))


def _rounded_up(lengths: Array) -> Array:
    """Return the width of each length's bucket."""
    found = standard_widths(int(lengths.max(initial=1)))
    return np.asarray(found)[bucket_of(lengths, found)]


def trimmed(given: tuple[Array, ...], chosen: Array, wide: int) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return given arrays of some rows, cut to a width and padded to a standard number of rows.

    A program is compiled once for that number.
    """
    return cut(given, filled_up(chosen), wide)


def cut(given: tuple[Array, ...], rows: Array, wide: int) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return given arrays of some rows, cut to a width, and their lengths."""
    batch = [g[rows] if g.dtype.kind == "f" else g[rows, : min(wide, g.shape[1])] for g in given]
    lengths = tuple(present_lengths(g) for g in batch)
    return tuple(g if g.dtype.kind == "f" else np.maximum(g, 0) for g in batch), lengths


def given_entries(work: Work) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return the given arrays of the first row with all their entries, and their lengths."""
    return trimmed(work.given, np.zeros(1, np.int64), max((g.shape[1] for g in work.given), default=0))


def filled_up(chosen: Array) -> Array:
    """Return the rows, with the last one repeated up to a standard number of rows.

    A program is compiled once for that number.
    """
    return np.concatenate([chosen, np.full(padded(len(chosen)) - len(chosen), chosen[-1])])


def padded(count: int) -> int:
    """Return the minimum number of rows that is at least `count` and has a compiled program."""
    return next(size for size in BATCH_SIZES if size >= count)
