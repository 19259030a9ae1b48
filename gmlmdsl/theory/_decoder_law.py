"""The exact distribution of the decodes of iterative refinement, on small models.

Every pass is applied to every hypothesis that can arise. Hypotheses are rows, each with its
probability. A pass splits a row

- by the block that the schedule's mask draws,
- by the values that open cells show,
- by the tokens that are drawn,
- by the cells that are opened at random.

An open cell is one that a pass may predict. Rows that the next pass cannot distinguish are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from .. import derive
from .._diagnostics import fail
from .._types import Given, ParamsLike
from ..decode import decoding_work, given_entries
from ..derive import RefinementKernel, bounded_jit, on_device
from ..graph import Bound, Lowered, refinement
from ..masks import lower_mask
from ..plan import BUDGET
from ..program import PUBLISHED, ir
from .limits import INPUTS_AT_ONCE, MOST_BRANCHES, MOST_PADDED_CELLS

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..derive import Networks

Array = np.ndarray


class DecoderLaw(NamedTuple):
    """The distribution of decoded rows.

    Attributes:
        codes: the rows that can be decoded, with -1 after a row's length.
        mass: the probability of each row.
        passes: the mean number of passes of a decode.
    """

    codes: Array
    mass: Array
    passes: float


class Rows(NamedTuple):
    """Hypotheses between two passes; the first axis is hypotheses, and the second is cells.

    `sure` and `log_p` are 0 if no later pass depends on them.

    Attributes:
        mass: the probability of each hypothesis.
        tokens: the values of the cells.
        open: whether a cell is open.
        sure: the confidence in the value of a cell.
        log_p: log p of the value of a cell.
        moving: whether a hypothesis takes further passes.
    """

    mass: Array
    tokens: Array
    open: Array
    sure: Array
    log_p: Array
    moving: Array

    def take(self, index: Array, weight: Array) -> Rows:
        """Return the rows at `index`, each with the fraction `weight` of its probability."""
        return Rows(self.mass[index] * weight, *(a[index] for a in self[1:]))

    def only(self, which: Array) -> Rows:
        """Return the rows that `which` selects."""
        return Rows(*(a[which] for a in self))


def decoder_law(
    lowered: Lowered, params: ParamsLike, call: ir.FormCall, given: Given | None, what: str, bound: Bound | None = None
) -> DecoderLaw:
    """Return the distribution of the decodes of a refinement sampler, by enumeration.

    The result is in the working precision.

    Args:
        lowered: the model, of a network or with a joint distribution.
        params: its parameters.
        call: the decoder.
        given: one row of given data, for a network.
        what: the name of the quantity in error messages.
        bound: the program of the decoder, if it is not the model's program.

    Raises:
        GmlmError: E507 for a planner network in a model with a joint distribution; E601 for a pass
            with more than 2^20 branches; E602 for a schedule's mask with too many blocks, or one
            that draws subsets of rows which end early; E741 for a schedule that looks at x.
    """
    kernel = derive.refinement_kernel(lowered, call, bound)
    planner = kernel.rules.planner if isinstance(kernel.rules.planner, str) else "none"  # the name of a network, if it has one
    if lowered.graph.network is None:
        if planner not in ("none", "self"):
            message = f"{what}: network `{planner}` plans beside a network, and here conditionals are those of a joint distribution"
            raise fail("E507", message, call.span, help="write `planner = self`")
        denoiser = Denoiser(lowered, params, what)
        rows, _, passes = _Decoder(lowered, call, kernel, denoiser.ask, denoiser.n, denoiser.n, what, False).decoded()
        return DecoderLaw(rows.tokens, rows.mass, passes)
    label = lowered.graph.network.label
    wide = {name: widened(network) for name, network in params.items()}
    work = decoding_work(lowered, wide, call, given)
    starts = int(refinement(call, lowered.bound)["starts"])  # type: ignore[arg-type]
    several, found = starts * work.lengths.shape[1] > 1, []
    entries = tuple(map(widened, given_entries(work)))
    for length in work.lengths[0]:
        denoiser = Denoiser(lowered, {label: wide[label]}, what, entries, int(length))
        judge = Denoiser(lowered, {planner: wide[planner]}, what, length=int(length)).ask if planner in wide else None
        decoded = _Decoder(lowered, call, kernel, denoiser.ask, denoiser.n, int(length), what, several, judge).decoded()
        found += [decoded] * starts
    rows, mass = _best(found) if several else (found[0][0], found[0][0].mass)
    codes, place = np.unique(rows.tokens, axis=0, return_inverse=True)
    return DecoderLaw(codes, np.bincount(place.ravel(), mass, len(codes)), float(sum(passes for _, _, passes in found)))


class Denoiser:
    """log p of every value of every cell given the seen cells.

    The denoiser is a network or a joint distribution, and results are in the working precision.

    Attributes:
        n: the number of decoded cells, which are the cells of the `var`s in their order.
        q: the largest number of values of a cell.
    """

    def __init__(self, lowered: Lowered, params: Mapping[str, PyTree], what: str, given: Any = ((), ()), length: int | None = None):
        graph = lowered.graph
        self.params, self.given = params, given
        self.cells = np.flatnonzero(graph.is_observed)
        self.n, self.q = len(self.cells), int(graph.sizes.max())
        self.length = self.n if length is None else length
        self.oracle = None if graph.network is not None else derive.oracle_graph(graph, what)
        self.total = graph.n_cells

    def ask(self, seen: Array, of: Callable[[jax.Array], PyTree]) -> list[Array]:
        """Apply `of` to the logits (rows, cells, values) of rows with hidden cells.

        Args:
            seen: the values that each row shows, shape (rows, cells), with `q` for a hidden cell.
            of: a function of logits that returns a tuple of arrays.

        Returns:
            The arrays of `of` for all rows.
        """
        # One program serves all passes of a small model.
        size, out = min(INPUTS_AT_ONCE, _padded((self.q + 1) ** min(self.n, MOST_PADDED_CELLS))), []
        for k in range(0, len(seen), size):
            some = seen[k : k + size]
            filled = np.concatenate([some, np.repeat(some[-1:], size - len(some), axis=0)])
            full = np.full((self.total, size), self.q)
            full[self.cells] = filled.T
            if self.oracle is not None:
                found = _by_oracle(of, self.oracle, self.params, on_device(full, np.int32), on_device(self.cells, np.int32))
            else:
                lengths = on_device(np.full((1, size), self.length), np.int32)
                given, given_lengths = self.given
                found = _by_network(of, self.params, given, given_lengths, lengths, on_device(filled.T, np.int32))
            out.append([np.asarray(a, np.float64)[: len(some)] for a in found])
        return [np.concatenate(parts) for parts in zip(*out, strict=True)] if out else []


def widened(tree: PyTree) -> PyTree:
    """Convert real arrays to the working precision."""
    return jax.tree.map(lambda a: a.astype(derive.float_type()) if eqx.is_inexact_array_like(a) else a, tree)


def _best(found: list[tuple[Rows, Array, float]]) -> tuple[Rows, Array]:
    """Return the end rows of independent candidates, with their probabilities of being chosen.

    The chosen candidate has the highest score; among equal scores the first candidate is chosen.
    """
    scores = np.unique(np.concatenate([s for _, s, _ in found]))
    # For each candidate the probabilities of a score below each score, and of a score up to it.
    below = []
    for rows, score, _ in found:
        each = np.bincount(np.searchsorted(scores, score), rows.mass, len(scores))
        below.append((np.cumsum(each) - each, np.cumsum(each)))
    masses = []
    for c, (rows, score, _) in enumerate(found):
        at, mass = np.searchsorted(scores, score), rows.mass.copy()
        for other, (less, upto) in enumerate(below):
            if other != c:
                mass *= (less if other < c else upto)[at]
        masses.append(mass)
    every = Rows(*(np.concatenate(a) for a in zip(*(rows for rows, _, _ in found), strict=True)))
    return every, np.concatenate(masses)


class _Decoder:
    """The passes over a row of one length; log p of tokens is kept if `scored`."""

    def __init__(
        self,
        lowered: Lowered,
        call: ir.FormCall,
        kernel: RefinementKernel,
        ask: Callable[..., list[Array]],
        n: int,
        length: int,
        what: str,
        scored: bool,
        judge: Callable[..., list[Array]] | None = None,
    ):
        self.judge = judge
        self.kernel, self.ask, self.scored, self.n, self.length, self.what = kernel, ask, scored, n, length, what
        self.q = int(lowered.graph.sizes.max())
        self.free = np.arange(self.n) < length
        self.blocks, self.chances = self._blocks(lowered, call)
        self.known: dict[bytes, int] = {}
        self.tables = np.zeros((3, 0, self.n, self.q))

    @property
    def picks_first(self) -> bool:
        """Whether the cells that a pass settles are known before values are drawn.

        Only the values of these cells are drawn then.
        """
        rules = self.kernel.rules
        if rules.remask in PUBLISHED:
            return True
        if rules.remask in ("stutter", "least_confident") or rules.schedule in ("all", "mask") or rules.planner != "none":
            return False
        return rules.order != "confidence" or rules.confidence != "probability"

    def _blocks(self, lowered: Lowered, call: ir.FormCall) -> tuple[Array, Array]:
        """Return the cells of each block of the schedule's mask, and the probability of each block.

        Without a mask there is one block without cells.
        """
        if self.kernel.law is None:
            return np.zeros((1, self.n), bool), np.ones(1)
        mask = refinement(call, lowered.bound)["schedule"]
        assert isinstance(mask, ir.Mask)
        found = lower_mask(lowered, mask)
        if found.support_size > BUDGET.support:
            message = f"mask `{mask.name}` has {found.support_size:.3g} distinct blocks, more than the limit of {BUDGET.support}"
            raise fail("E602", message, mask.span, help="`sample` draws")
        if self.length < self.n and found.counts_cells:
            message = f"mask `{mask.name}` draws subsets of a row's cells, and this row has {self.length} of {self.n}"
            raise fail("E602", message, mask.span, help="`sample` draws")
        blocks, chances = found.enumerate_blocks()
        assert chances is not None
        held = np.zeros((len(blocks), lowered.graph.n_cells + 1), bool)
        held[np.arange(len(blocks))[:, None], blocks] = True
        return held[:, : self.n] & self.free, chances

    def decoded(self) -> tuple[Rows, Array, float]:
        """Return the hypotheses after the last pass, their scores, and the mean number of passes.

        The scores are mean log probabilities per cell, or 0 if they are not kept.
        """
        rows, passes = self._begin(), 0.0
        for t in range(self.kernel.rules.steps):
            passes += float(rows.mass[rows.moving].sum())
            rows = _merged(rows.only(~rows.moving), self._passed(rows.only(rows.moving), t))
        rows = rows._replace(tokens=np.where(self.free, rows.tokens, -1))
        return rows, rows.log_p.sum(axis=1) / max(self.length, 1), passes

    def _begin(self) -> Rows:
        """Return the hypotheses before the first pass.

        Hidden cells have code 0, which no pass shows.
        """
        unsettled = self.kernel.rules.start == "hide" or self.kernel.law is not None
        zero = np.zeros((1, self.n))
        rows = Rows(np.ones(1), zero.astype(np.int64), (self.free & unsettled)[None], zero, zero, np.ones(1, bool))
        if self.kernel.rules.start == "hide":
            return rows
        self._verify(float(self.q) ** self.length)
        tokens, index, weight = self._uniform(rows.tokens, self.free[None])
        return rows.take(index, weight)._replace(tokens=tokens)

    def _passed(self, rows: Rows, t: int) -> Rows:
        """Apply one pass to the rows that move."""
        rules, by_mask, last = self.kernel.rules, self.kernel.law is not None, t == self.kernel.rules.steps - 1
        count, blocks = len(rows.mass), len(self.chances)
        if not count:
            return rows
        rows, chosen = rows.take(np.repeat(np.arange(count), blocks), np.tile(self.chances, count)), np.tile(self.blocks, (count, 1))
        shown = rows.open | chosen
        if by_mask:
            predicted = chosen | (rows.open & last)
        else:
            predicted = np.broadcast_to(self.free, shown.shape) if rules.schedule == "all" or t == 0 else rows.open
        if not self.picks_first or last:
            self._verify(self._branches(shown, predicted))
        seen = np.where(shown, self.q, rows.tokens)
        if rules.start == "uniform":
            seen, index, weight = self._uniform(rows.tokens, shown)
            rows, predicted = rows.take(index, weight), predicted[index]
        table = self._asked(np.where(self.free, seen, self.q))
        stays = np.zeros_like(shown)
        if self.picks_first and not last:
            sure = self.tables[2, table, :, 0] if len(table) else np.zeros(shown.shape)
            candidates = rows.open if t else np.broadcast_to(self.free, shown.shape)
            stays, index, weight = self._left(np.where(predicted, sure, rows.sure), candidates, t + 1)
            rows, predicted, table, shown = rows.take(index, weight), predicted[index], table[index], shown[index]
            predicted = predicted & ~stays
            self._verify(self._branches(shown, predicted))
        new, parent = self._drawn(rows, predicted, table)
        before, predicted = rows.take(parent, np.ones(len(parent))), predicted[parent]
        if rules.planner != "none":
            new = new._replace(sure=np.where(predicted, new.sure, self._trusted(new.tokens, table[parent])))
        still = new._replace(open=new.open & ~predicted if by_mask else new.open)
        if self.picks_first and not last:
            opened, index, weight = self._reopened(still, stays[parent], t)
        else:
            opened, index, weight = self._opened(still, t, last)
        new, before = still.take(index, weight), before.take(index, np.ones(len(index)))
        moving = np.ones(len(index), bool)
        if rules.schedule in ("threshold", "easy_first"):
            moving = np.asarray(opened.any(axis=1))
        elif rules.stop == "fixed_point":
            moving = np.asarray(((new.tokens != before.tokens) | opened | before.open).any(axis=1))
        compared = rules.remask in ("least_confident", "remdm_confidence") and rules.schedule != "all" and not by_mask
        sure = new.sure * (moving[:, None] & compared)
        return new._replace(open=opened & moving[:, None], moving=moving, sure=sure, log_p=new.log_p * self.scored)

    def _drawn(self, rows: Rows, predicted: Array, table: Array) -> tuple[Rows, Array]:
        """Return every way to draw the tokens of the predicted cells, and the parent rows."""
        parent = np.arange(len(rows.mass))
        for cell in range(self.n):
            mine, at = predicted[parent, cell], table[parent]
            odds = np.where(mine[:, None], self.tables[0, at, cell], np.eye(self.q)[rows.tokens[:, cell]])
            index, value = np.nonzero(odds)
            rows, parent, mine, at = rows.take(index, odds[index, value]), parent[index], mine[index], at[index]
            rows.tokens[:, cell] = value
            rows.log_p[mine, cell], rows.sure[mine, cell] = self.tables[1:, at, cell, value][:, mine]
        return rows, parent

    def _trusted(self, tokens: Array, table: Array) -> Array:
        """Return the confidences of `RefinementKernel.trusted`.

        They come from the pass's own answers, or from the planner network, which sees the whole
        row.
        """
        log_p = self.tables[1, table]
        if self.judge is not None:
            whole, place = np.unique(np.where(self.free, tokens, self.q), axis=0, return_inverse=True)
            log_p = self.judge(whole, _log_p)[0][place.ravel()]
        own, plans = np.take_along_axis(log_p, tokens[..., None], axis=2)[..., 0], self.kernel.rules.planner
        if callable(plans):
            own = np.asarray(plans(on_device(tokens, np.int32), on_device(log_p)), np.float64)
        return self.kernel.rules.eta * np.maximum(own, derive.LEAST_SCORE)

    def _opened(self, rows: Rows, t: int, last: bool) -> tuple[Array, Array, Array]:
        """Return the cells that the next pass predicts.

        The results are the cells, the row of each result, and its probability.
        """
        rules, count = self.kernel.rules, len(rows.mass)
        index, weight, found = np.arange(count), np.ones(count), np.zeros_like(rows.open)
        if last:
            return found, index, weight
        if self.kernel.law is not None:
            found = rows.open.copy()
        elif rules.schedule != "all":
            every = rules.remask == "least_confident" or rules.planner != "none" or t == 0
            candidates = np.broadcast_to(self.free, rows.open.shape) if every else rows.open
            found, index, weight = self._left(rows.sure, candidates, t + 1)
        found, again, more = self._reopened(rows.take(index, weight), found, t)
        index, weight = index[again], weight[again] * more
        if rules.remask == "stutter":
            tokens = rows.tokens[index]
            found = found | (np.asarray(derive.stuttering(on_device(tokens.T), on_device(self.free[:, None]))).T & self.free)
        return found, index, weight

    def _left(self, sure: Array, candidates: Array, t: int) -> tuple[Array, Array, Array]:
        """Return the candidates that stay open after `t` passes.

        The results are the cells, the row of each result, and its probability.
        """
        rules, plan, count = self.kernel.rules, self.kernel.plan, len(sure)
        if rules.remask in PUBLISHED:
            settles = self._rates(sure, candidates, t)[0]
            return self._by_chance(np.where(candidates, 1 - settles, 0.0))
        if rules.order != "random":
            return self._less_sure(sure, candidates, t), np.arange(count), np.ones(count)
        pool, left = candidates, candidates.sum(axis=1) - 1
        if plan.open_after is not None:
            rank, number = np.cumsum(self.free) - 1, (t - 1) // plan.steps
            here = self.free & (rank // plan.block == number)
            pool = candidates & here
            left = np.minimum(np.asarray(plan.open_after)[here.sum(), t - number * plan.steps], pool.sum(axis=1))
        parts, rows, weights = [], [], []
        for k in range(count):  # every set of this size from the pool is equally likely
            cells = np.flatnonzero(pool[k])
            sets = np.array(list(combinations(cells, int(left[k]))), np.int64)
            stay = np.zeros((len(sets), self.n), bool)
            stay[np.arange(len(sets))[:, None], sets] = True
            parts.append(stay | (candidates[k] & ~pool[k]))
            rows.append(np.full(len(sets), k))
            weights.append(np.full(len(sets), 1 / len(sets)))
        return np.concatenate(parts), np.concatenate(rows), np.concatenate(weights)

    def _reopened(self, rows: Rows, found: Array, t: int) -> tuple[Array, Array, Array]:
        """Return the cells that stay open, and settled cells that are hidden again at random.

        The results are the cells, the row of each result, and its probability.
        """
        rules = self.kernel.rules
        if rules.remask not in (*PUBLISHED, "random"):
            return found, np.arange(len(found)), np.ones(len(found))
        if rules.remask == "random":
            chance = np.full(found.shape, rules.eta)
        else:
            before = np.broadcast_to(self.free, found.shape) if t == 0 else rows.open
            chance = self._rates(rows.sure, before, t + 1)[1] * ~before
        return self._by_chance(np.where(found, 1.0, chance) * self.free)

    def _rates(self, sure: Array, open_before: Array, t: int) -> tuple[float, Array]:
        """Return the rates of `RefinementKernel.rates`."""
        settles, again = self.kernel.rates(on_device(sure.T), on_device((self.free & ~open_before).T), on_device(t, np.int64))
        return float(settles), np.asarray(again, np.float64).T

    def _by_chance(self, chance: Array) -> tuple[Array, Array, Array]:
        """Return every set of cells that arises if each cell is taken with its own probability.

        The results are the cells, the row of each result, and its probability.
        """
        index, weight, found = np.arange(len(chance)), np.ones(len(chance)), np.zeros(chance.shape, bool)
        for cell in np.flatnonzero(self.free):
            odds = np.stack([1 - chance[index, cell], chance[index, cell]], axis=1)
            at, taken = np.nonzero(odds)
            found, index, weight = found[at], index[at], weight[at] * odds[at, taken]
            found[:, cell] = taken == 1
            self._verify(float(len(index)))
        return found, index, weight

    def _less_sure(self, sure: Array, candidates: Array, t: int) -> Array:
        count = len(sure)
        filled = [np.concatenate([a, np.repeat(a[-1:], _padded(count) - count, axis=0)]).T for a in (sure, candidates)]
        free = np.broadcast_to(self.free[:, None], filled[0].shape)
        found = _less_sure(self.kernel, on_device(filled[0]), on_device(filled[1]), on_device(free), on_device(t, np.int64))
        return np.asarray(found).T[:count]

    def _uniform(self, tokens: Array, cells: Array) -> tuple[Array, Array, Array]:
        """Return every way to fill some cells of each row with values.

        The results are the filled rows, the original row of each, and its probability.
        """
        index = np.arange(len(tokens))
        for cell in range(self.n):
            many = np.where(cells[index, cell], self.q, 1)
            first = np.repeat(np.cumsum(many) - many, many)
            value, drawn = np.arange(int(many.sum())) - first, np.repeat(many > 1, many)
            tokens, index = np.repeat(tokens, many, axis=0), np.repeat(index, many)
            tokens[:, cell] = np.where(drawn, value, tokens[:, cell])
        return tokens, index, float(self.q) ** -cells[index].sum(axis=1)

    def _asked(self, seen: Array) -> Array:
        """Return the positions in `tables` of the answers to each row's input.

        The network evaluates each distinct input once.
        """
        unique, place = np.unique(seen, axis=0, return_inverse=True)
        new = np.array([u for u in unique if u.tobytes() not in self.known]).reshape(-1, self.n)
        if len(new):
            found = np.stack(self.ask(new, self.kernel.readout))
            self.known |= {u.tobytes(): self.tables.shape[1] + i for i, u in enumerate(new)}
            self.tables = np.concatenate([self.tables, found], axis=1)
        return np.array([self.known[u.tobytes()] for u in unique])[place.ravel()]

    def _branches(self, shown: Array, predicted: Array) -> float:
        """Return an upper bound on the number of rows that a pass makes of these rows."""
        drawn = 0 if self.kernel.rules.decode == "argmax" else predicted.sum(axis=1)
        random = shown.sum(axis=1) if self.kernel.rules.start == "uniform" else 0
        opened = self.length if self.kernel.rules.remask == "random" else 0
        return float((float(self.q) ** (drawn + random) * 2.0**opened * np.ones(len(shown))).sum())

    def _verify(self, branches: float) -> None:
        if branches > MOST_BRANCHES:
            message = f"{self.what}: a pass has {branches:.3g} branches, more than the {MOST_BRANCHES:,} that are listed"
            raise fail("E601", message, help="fewer cells or values; `sample` draws")


def _merged(ended: Rows, moved: Rows) -> Rows:
    """Merge rows that agree in everything but their probability."""
    rows = Rows(*(np.concatenate(pair) for pair in zip(ended, moved, strict=True)))
    if not len(rows.mass):
        return rows
    parts = [np.ascontiguousarray(a).reshape(len(rows.mass), -1).view(np.uint8) for a in rows[1:]]
    _, first, place = np.unique(np.concatenate(parts, axis=1), axis=0, return_index=True, return_inverse=True)
    return rows.take(first, np.ones(len(first)))._replace(mass=np.bincount(place.ravel(), rows.mass, len(first)))


def _padded(count: int) -> int:
    return 1 << (count - 1).bit_length()


def _log_p(logits: jax.Array) -> tuple[jax.Array]:
    return (jax.nn.log_softmax(logits, axis=-1),)


@bounded_jit
def _less_sure(kernel: RefinementKernel, sure: jax.Array, candidates: jax.Array, free: jax.Array, t: jax.Array) -> jax.Array:
    return kernel.left_open(sure, candidates, free, t, None)


@bounded_jit
def _by_network(
    of: Callable[[jax.Array], PyTree],
    params: Networks,
    given: tuple[jax.Array, ...],
    given_lengths: tuple[jax.Array, ...],
    lengths: jax.Array,
    seen: jax.Array,
) -> PyTree:
    ((label, network),) = params.items()
    encoded = derive.encode_rows(network, given, given_lengths, 1)
    return of(derive.network_graph(network, label, encoded, lengths, seen.shape[0]).logits(params, seen))


@bounded_jit
def _by_oracle(
    of: Callable[[jax.Array], PyTree], oracle: derive.OracleGraph, params: Mapping[str, jax.Array], seen: jax.Array, cells: jax.Array
) -> PyTree:
    return of(oracle.logits(params, seen)[:, cells])
