"""Likelihoods of a decoder: bounds of log p, log p by one path, and predictions.

A denoiser gives p(x_i | seen cells) of each hidden cell. It is a network, or the exact conditional
of a joint distribution. Everything in this module applies to either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import fail, whole_number
from .._types import AnyArray, ArrayLike, Given, Missing, Rows
from ..data import NetworkRows, bound_rows, network_rows, present_lengths, random_key, verified_seed
from ..derive import OracleGraph, VisitLaw, bounded_jit, fold, on_device
from ..graph import Lowered, refinement
from ..masks import VisitMask, visits_of
from ..plan import verify_held
from ..program import ir, reasons_against
from ._network_queries import OfNetwork, device_given, fixed_losses
from .limits import MOST_LOGITS, ROWS_PER_CALL, WORTH_ENUMERATING

if TYPE_CHECKING:
    from jaxtyping import PyTree


Array = np.ndarray


@dataclass(frozen=True, eq=False)
class LogProbBound:
    """Lower bounds of the log probability of rows under a decoder.

    Attributes:
        values: one bound for each row, in nats. It is the mean over draws of passes, or the bound
            itself if `exact`.
        standard_error: the standard error of each value; 0 if `exact`, nan for a single draw.
        exact: whether all blocks that a pass may hide were enumerated, or each row has one path.
            With one path the bound is log p itself.
    """

    values: Array
    standard_error: Array
    exact: bool


class Estimate(float):
    """A number with its standard error."""

    standard_error: float

    def __new__(cls, value: float, standard_error: float) -> Estimate:
        """Create a number with its standard error."""
        self = super().__new__(cls, value)
        self.standard_error = standard_error
        return self

    def __reduce__(self) -> tuple[type[Estimate], tuple[float, float]]:
        """Return the constructor and its arguments, for copies and pickles."""
        return Estimate, (float(self), self.standard_error)

    def __repr__(self) -> str:
        return f"{float(self):.6g} +- {self.standard_error:.2g}"


class OfOracle(eqx.Module):
    """Factory of a joint distribution's denoiser for some rows."""

    oracle: OracleGraph

    def __call__(self, params: Mapping[str, jax.Array], codes: jax.Array) -> OracleGraph:
        del params
        return self.oracle.over(codes)


class DenoisedRows:
    """Rows with their denoiser, in pieces of few sizes.

    Attributes:
        codes: shape (cells, rows), -1 for a cell that is missing, padding or latent.
        shape: the axes of rows.
        is_full: whether no decoded cell is missing.
    """

    def __init__(self, lowered: Lowered, x: Rows, missing: Missing | None, given: Given | None, what: str):
        self.network, self.oracle = lowered.graph.network, None
        if self.network is None:
            lowered, rows = bound_rows(lowered, x, missing, given)
            self.codes, self.shape = rows.codes, rows.shape
            self.oracle = derive.oracle_graph(lowered.graph, what)
            cells = np.asarray(self.oracle.cells)
        else:
            self.rows: NetworkRows = network_rows(lowered, x, missing, given)
            n = lowered.graph.n_random
            self.codes, self.shape, cells = self.rows.codes[:n], self.rows.shape, np.ones(n, bool)
        self.lowered, self.cells, self.is_full = lowered, np.flatnonzero(cells), bool((self.codes[cells] >= 0).all())
        self.count = self.codes.shape[1]

    def verify_whole(self) -> None:
        """Raise E511 for a row with a missing cell before its end.

        Raises:
            GmlmError: E511.
        """
        codes = self.codes[self.cells]
        ends = present_lengths(codes.T) if self.network is not None else len(codes)
        if ((codes < 0) & (np.arange(len(codes))[:, None] < ends)).any():
            raise fail("E511", "x lacks cells of some rows, and their likelihood under a decoder has them all", help="leave these rows out")

    def each(self, passes: int = 1) -> Iterator[tuple[OfNetwork | OfOracle, jax.Array, Array]]:
        """Yield the denoiser's factory, the codes and the numbers of the rows, piece by piece.

        The last row is repeated to fill the last piece, with its number.
        """
        size = max(1, MOST_LOGITS // (len(self.codes) * int(self.lowered.graph.sizes.max()) * passes))
        if self.oracle is not None:
            size = max(1, min(size, int(MOST_LOGITS // max(1, self.oracle.contraction.entries))))
        size = min(size, ROWS_PER_CALL, 1 << max(0, self.count - 1).bit_length())
        for start in range(0, self.count, size):
            some = np.minimum(np.arange(start, start + size), self.count - 1)
            codes = on_device(self.codes[:, some], np.int32)
            yield self._maker(some), codes, some

    def _maker(self, some: Array) -> OfNetwork | OfOracle:
        if self.oracle is not None:
            return OfOracle(self.oracle)
        part = self.rows.take(some)
        return OfNetwork(*device_given(part), on_device(present_lengths(part.codes[: len(self.codes)].T)[:, None]))

    def joined(self, pieces: Sequence[AnyArray]) -> Array:
        """Concatenate the answers of pieces, whose first axis is rows."""
        found = np.concatenate([np.asarray(p) for p in pieces])[: self.count]
        return found.reshape(*self.shape, *found.shape[1:])


def verified_decoder(lowered: Lowered, sampler: ir.Sampler) -> VisitMask:
    """Return the visits of a decoder whose passes do not depend on its draws.

    Raises:
        GmlmError: E507 with the reason and the suggested fix.
    """
    for reason, cure in reasons_against(sampler):
        raise fail("E507", f"sampler `{sampler.name}` has no likelihood that its passes give: {reason}", sampler.span, help=cure)
    return visits_of(lowered, sampler, sampler.span)


def log_prob_bound(
    lowered: Lowered,
    params: Mapping[str, PyTree],
    x: Rows,
    sampler: ir.Sampler,
    draws: int,
    seed: int,
    missing: Missing | None,
    given: Given | None,
) -> LogProbBound:
    """Return lower bounds of log p of rows under a decoder; see `Model.log_prob_bound`.

    Args:
        lowered: the model.
        params: parameters.
        x: the rows.
        sampler: the decoder.
        draws: the number of passes drawn for each row.
        seed: the seed of the draws.
        missing: the marker of missing cells in `x`.
        given: data of given variables.
    """
    draws, seed = whole_number("draws", draws, 1), verified_seed(seed)
    mask = verified_decoder(lowered, sampler)
    rows = DenoisedRows(lowered, x, missing, given, f"the likelihood under `{sampler.name}`")
    rows.verify_whole()
    verify_held(16.0 * min(draws, 10**18) * min(rows.count, ROWS_PER_CALL), f"{draws:,} passes of a row", "fewer `draws=`")
    law = derive.visit_law(lowered, mask)
    if mask.has_one_path:
        values = rows.joined([_path(make, law, params, codes) for make, codes, _ in rows.each()])
        return LogProbBound(values, np.zeros(values.shape), True)
    if rows.is_full and mask.support_size <= WORTH_ENUMERATING * draws:
        temperature = float(refinement(mask.call, lowered.bound)["temperature"])  # type: ignore[arg-type]
        hidden, scored, weights = mask.scored_blocks()
        n = len(rows.codes)
        held, weigh, counts = (on_device(a) for a in (hidden[:, :n], weights, scored[:, :n]))
        found = [-np.asarray(fixed_losses(make, params, codes, held, weigh, counts, temperature)) for make, codes, _ in rows.each()]
        values = rows.joined(found)
        return LogProbBound(values, np.zeros(values.shape), True)
    key, found, errors = random_key(seed), [], []
    for make, codes, numbers in rows.each():
        own = fold(jnp.broadcast_to(key, numbers.shape), on_device(numbers, np.uint32))
        each = np.asarray(_drawn(make, law, params, codes, own, draws), np.float64)
        found.append(-each.mean(axis=0))
        errors.append(_stratified_error(each))
    return LogProbBound(rows.joined(found), rows.joined(errors), False)


def _stratified_error(each: Array) -> Array:
    """Return the standard error of means over stratified draws, by differences of neighbours.

    The draws share the passes among them in order (Wolter 2007).
    """
    draws = len(each)
    if draws == 1:
        return np.full(each.shape[1], np.nan)
    return np.sqrt((np.diff(each, axis=0) ** 2).sum(axis=0) / (2 * (draws - 1) * draws))


def log_prob(
    lowered: Lowered, params: Mapping[str, PyTree], x: Rows, sampler: ir.Sampler, missing: Missing | None, given: Given | None
) -> Array:
    """Return log p of rows under a decoder whose places are known; see `Model.log_prob`.

    Args:
        lowered: the model.
        params: parameters.
        x: the rows.
        sampler: the decoder.
        missing: the marker of missing cells in `x`.
        given: data of given variables.

    Raises:
        GmlmError: E507 for a decoder with many paths to a row, with the suggested fix.
    """
    mask = verified_decoder(lowered, sampler)
    if not mask.has_one_path:
        message = (
            f"sampler `{sampler.name}` settles cells in a random order: many paths lead to a row, and its probability is a sum over all"
        )
        help = "`log_prob_bound` bounds it; `order = left_to_right` or `confidence`, with `margin` or `entropy`, has one path"
        raise fail("E507", message, sampler.span, help=help)
    return log_prob_bound(lowered, params, x, sampler, 1, 0, missing, given).values


def bits_per_cell(bound: LogProbBound, cells: Array) -> Estimate:
    """Return -log2 p per cell: the total over all rows, divided by the number of cells.

    The standard error treats the rows as a sample, which includes the draws of passes. The estimate
    is a ratio of two means.
    """
    values, counts = -bound.values.ravel() / np.log(2), np.asarray(cells, float).ravel()
    ratio = values.sum() / counts.sum()
    rows = len(values)
    spread = np.sqrt(((values - ratio * counts) ** 2).sum() * rows / max(rows - 1, 1)) / counts.sum() if rows > 1 else np.nan
    return Estimate(float(ratio), float(spread))


def predict(
    lowered: Lowered, params: Mapping[str, PyTree], x: Rows, hidden: ArrayLike, missing: Missing | None, given: Given | None
) -> Array:
    """Return log p(x_i = v | the cells that are not hidden); see `Model.predict`.

    Args:
        lowered: the model.
        params: parameters.
        x: the rows.
        hidden: booleans of the hidden cells.
        missing: the marker of missing cells in `x`.
        given: data of given variables.
    """
    rows = DenoisedRows(lowered, x, missing, given, "the predictions of hidden cells")
    hidden = verified_hidden(hidden, rows)
    q, out = int(max(lowered.graph.sizes[rows.cells])), []
    for make, codes, numbers in rows.each():
        held = np.zeros(codes.shape, bool)
        held[rows.cells] = hidden[:, numbers]
        out.append(np.asarray(_predicted(make, params, codes, on_device(held)))[:, rows.cells, :q])
    found = rows.joined(out) if out else np.zeros((0, len(rows.cells), q))
    return found


def verified_hidden(hidden: ArrayLike, rows: DenoisedRows) -> Array:
    """Return booleans of the hidden cells, shape (cells, rows).

    Raises:
        GmlmError: E507 unless `hidden` has booleans of the shape of x's rows and cells, or of the
            cells alone.
    """
    try:
        array = np.asarray(hidden)
    except ValueError:
        raise fail("E507", "hidden: lists of one length are rows of booleans, and these differ in length") from None
    n = len(rows.cells)
    flat = array.reshape(-1) if array.size == n else None
    if array.dtype != bool or (flat is None and array.size != rows.count * n):
        message = f"hidden must be booleans of shape (rows, {n}) or ({n},), got {array.dtype} of shape {array.shape}"
        raise fail("E507", message, help="True for each cell that is predicted, cells of the `var`s in their order")
    if array.size == rows.count * n:
        return array.reshape(rows.count, n).T
    assert flat is not None
    return np.repeat(flat[:, None], rows.count, axis=1)


@bounded_jit
def _path(make: OfNetwork | OfOracle, law: VisitLaw, params: Mapping[str, PyTree], codes: jax.Array) -> jax.Array:
    graph = make(params, codes)
    return law.log_p(graph, params, jnp.maximum(codes, 0), graph.present & (codes >= 0))


@bounded_jit
def _drawn(
    make: OfNetwork | OfOracle, law: VisitLaw, params: Mapping[str, PyTree], codes: jax.Array, keys: jax.Array, draws: int
) -> jax.Array:
    graph, shown = make(params, codes), jnp.maximum(codes, 0)
    return law.losses(graph, params, shown, graph.present & (codes >= 0), keys, draws)


@bounded_jit
def _predicted(make: OfNetwork | OfOracle, params: Mapping[str, PyTree], codes: jax.Array, held: jax.Array) -> jax.Array:
    graph = make(params, codes)
    hidden = held | (codes < 0) | ~graph.present
    logs = jax.nn.log_softmax(graph.logits(params, jnp.where(hidden, graph.most_values, codes)), axis=-1)
    own = jnp.arange(logs.shape[-1], dtype=codes.dtype)[None, None] == codes.T[..., None]
    return jnp.where((held | (codes < 0)).T[..., None], logs, jnp.where(own, 0.0, -jnp.inf))
