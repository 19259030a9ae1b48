"""Simulated errors: the sandwich with S measured over data sets simulated from the fitted model.

H^-1 S H^-1 needs the covariance S of the gradient of c * sum over rows of w loss over data sets.
Rows are independent given the model, so S is the sum over rows of the covariance of a row's
gradient. Each of these is measured over simulated configurations of that row, with its given data,
its missing cells and its drawn masks. The method therefore needs no second row, and it assumes that
the model is right.

Configurations are drawn for each row of given data. The draws are exact if a plan affords them;
otherwise they are those of a sampler.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import jax
import numpy as np

from .. import derive
from .._diagnostics import GmlmError, counted, fail, is_one_of, with_whole_numbers
from ..data import keys_of, verified_seed
from ..evaluate import Contractions, Repeats, independent_kernel
from ..fit import (
    NO_SPREAD,
    SHRINKS,
    TOO_FEW,
    Covariances,
    Curvature,
    Evidence,
    Finding,
    Inferred,
    at_kinks,
    curvature,
    determined,
    scored_rows,
    verify_scored,
    with_shrinkage,
)
from ..fit import objective_colouring as colours_of
from ..graph import FactorGraph, Lowered
from ..masks import lower_mask
from ..plan import BUDGET, plan_update, verify_held, verify_moves_all
from ..program import ir
from ..sample import KernelRun, effective_sample_size, masks_in, starts
from ._score import verify_minimum
from ._scored_rows import ScoredRows, params64, rows_under
from .limits import CHAINS, DRAWS_AT_ONCE, ENTRIES_AT_ONCE, FEWEST_EFFECTIVE, MOST_COLUMNS, MOST_EVALUATIONS, PILOT

if TYPE_CHECKING:
    from ..fit import FitRecord

Array = np.ndarray
EXACT = "exact"
Track = Callable[[Array], Array]
F = TypeVar("F", bound="FitRecord")
FEW_DRAWS = "few-draws"  # slug


@dataclass(frozen=True)
class How:
    """The options of the draws; see `Fit.simulated_errors`."""

    draws: int
    seed: int
    sampler: str | None
    warmup: int
    thin: int | None = None


@dataclass(frozen=True)
class SimulatedRows:
    """Configurations of each distribution.

    Attributes:
        codes: shape (cells, distributions, draws), the draws of one chain after those of another.
        chains: the number of chains of each distribution; 0 if draws are independent.
        words: a description of the draws.
    """

    codes: Array
    chains: int
    words: str


def draw(fit: FitRecord, lowered: Lowered, params: dict[str, jax.Array], laws: Array, how: How, track: Track) -> SimulatedRows:
    """Draw from the model at each of some rows of given data.

    Args:
        fit: the fit, whose samplers are used.
        lowered: the model with its given data.
        params: the parameters.
        laws: the numbers of the rows of given data; 0 for a model without given data.
        how: the options.
        track: a function from codes (cells, chains * draws) of the first distribution to the
            functions by which their autocorrelation is judged, shape (chains * draws, functions).

    Raises:
        GmlmError: E601 with the figure if the draws cost too much; E506, E507 or E704 for a sampler
            that does not fit.
    """
    exact = is_one_of(how.sampler, (EXACT,))
    if how.sampler is None or (exact and EXACT not in fit.model.samplers):
        try:
            return _independent(lowered, params, laws, how)
        except GmlmError as error:
            if exact or not set(error.codes) <= {"E601"}:
                raise
            if not fit.model.samplers:
                help = "declare a sampler that moves every cell, `sampler s { .. }`, and fit again"
                raise fail("E506", "exact draws cost too much, and the model has no sampler", help=help) from None
    return _of_chains(fit, lowered, params, laws, how, track)


def verify_memory(graph: FactorGraph, configurations: float) -> None:
    """Raise E601 for more configurations than memory can hold, at one byte per cell.

    Raises:
        GmlmError: E601.
    """
    size = float(graph.n_cells) * configurations
    if size > BUDGET.bytes:
        message = f"simulated rows of {graph.n_random:,} cells take {size / 2**30:.3g} GiB"
        raise fail("E601", f"{message}, more than the limit of {BUDGET.bytes / 2**30:.3g} GiB", help="ask for fewer `draws=`")


def verify_evaluations(count: float, what: str) -> None:
    """Raise E601 for more evaluations of factors than about an hour takes.

    Raises:
        GmlmError: E601.
    """
    if count > MOST_EVALUATIONS:
        message = f"{what} take {count:.2g} evaluations of factors, more than the limit of {MOST_EVALUATIONS:.2g}"
        raise fail("E601", message, help="ask for fewer `draws=`, or a smaller `thin=` or `warmup=`")


def _independent(lowered: Lowered, params: dict[str, jax.Array], laws: Array, how: How) -> SimulatedRows:
    """Return independent draws, by elimination or by drawing every cell given its parents."""
    graph, device = lowered.graph, derive.graph_arrays(lowered.graph)
    kept, nothing = Contractions(graph), np.zeros(graph.n_cells, bool)
    line, parts, at_once = "", [], _laws_at_once(kept, nothing, len(laws))
    steps = math.ceil(how.draws / DRAWS_AT_ONCE) if len(laws) == 1 else how.draws
    columns = math.ceil(how.draws / steps)
    for first in range(0, len(laws), at_once):
        # All groups have the same size, so that they share one compilation.
        mine = np.resize(laws[first : first + at_once], at_once)
        codes = _at_laws(lowered, mine)
        kernel, line = independent_kernel(kept, device, params, (nothing, codes))
        target, begun = derive.Target(device, params, None), np.repeat(codes, columns, axis=1)
        keys = _keys(how.seed, (first + np.arange(at_once))[:, None] * columns + np.arange(columns))
        found = _kept(KernelRun(kernel, target, begun, how.seed, steps, keys=keys).run().codes)
        whole = found.reshape(at_once, columns * steps, graph.n_cells)[: len(laws) - first, : how.draws]
        parts.append(np.moveaxis(whole, 2, 0))
    return SimulatedRows(np.concatenate(parts, axis=1), 0, f"exact draws ({line.removeprefix('`exact`: ')})")


def _laws_at_once(kept: Contractions, nothing: Array, laws: int) -> int:
    try:
        entries = kept.holding(nothing, "an exact draw")[1].entries
    except GmlmError:
        if not kept.graph.is_normalised:
            raise
        entries = kept.graph.n_cells
    return int(min(laws, max(1, ENTRIES_AT_ONCE // max(1, entries))))


def _of_chains(fit: FitRecord, lowered: Lowered, params: dict[str, jax.Array], laws: Array, how: How, track: Track) -> SimulatedRows:
    """Return draws of chains of a sampler, `CHAINS` for each distribution.

    Without `thin`, a short run determines the number of steps between draws.
    """
    name, checked = fit.model.sampler(how.sampler)
    _verify_sampler(lowered, checked, params)
    graph, device, each = lowered.graph, derive.graph_arrays(lowered.graph), math.ceil(how.draws / CHAINS)
    step = sum(float(g.n) * g.cells.shape[1] for g in graph.groups) * int(graph.sizes.max(initial=1)) * CHAINS * len(laws)
    pilot_draws = PILOT if how.thin is None else 0
    verify_evaluations(step * (how.warmup + pilot_draws + (how.thin or 1) * each), f"{how.draws:,} draws of `{name}`")
    kernel, target = derive.build_kernel(lowered, checked, params).kernel, derive.Target(device, params, None)
    begun = [starts(graph, CHAINS, how.seed, None, _held(lowered, law), params).codes for law in laws.tolist()]
    numbers = np.arange(len(laws) * CHAINS)

    def run(codes: Array, number: int, draws: int, warmup: int, thin: int) -> tuple[Array, Array]:
        mine = keys_of(how.seed, numbers, np.full_like(numbers, number))
        found = KernelRun(kernel, target, codes, how.seed, draws, warmup, thin, keys=mine).run()
        return _kept(found.codes), found.last

    codes, warmup, thin = np.concatenate(begun, axis=1), how.warmup, how.thin
    if thin is None:
        verify_memory(graph, float(len(laws)) * CHAINS * PILOT)
        pilot, codes = run(codes, 0, PILOT, warmup, 1)
        effective = effective_draws(track(pilot[:CHAINS].reshape(-1, graph.n_cells).T), CHAINS)
        warmup, thin = 0, 1 if np.isnan(effective) else max(1, round(CHAINS * PILOT / effective))
        verify_evaluations(step * thin * each, f"{how.draws:,} draws of `{name}`, {counted(thin, 'run')} apart,")
    found, _ = run(codes, 1, each, warmup, thin)
    whole = found.reshape(len(laws), CHAINS * each, graph.n_cells)
    return SimulatedRows(np.moveaxis(whole, 2, 0), CHAINS, f"draws of {CHAINS} chains of `{name}`, {counted(thin, 'run')} apart")


def effective_draws(values: Array, chains: int) -> float:
    """Return the smallest effective number of draws of some functions; nan if none of them varies.

    `values` has the shape (chains * draws, functions).
    """
    found = effective_each(values, chains)
    return float(np.nanmin(found)) if np.isfinite(found).any() else float("nan")


def effective_each(values: Array, chains: int) -> Array:
    """Return the effective number of draws of each function; nan if the function does not vary.

    `values` has the shape (chains * draws, functions).
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return effective_sample_size(values.reshape(chains, -1, values.shape[1]))


def _verify_sampler(lowered: Lowered, sampler: ir.Sampler, params: dict[str, jax.Array]) -> None:
    """Raise unless the draws of a sampler follow the model.

    Raises:
        GmlmError: E507 for updates that do not leave p invariant, E704 for cells that are never
            moved; E410 and others for a mask.
    """
    if isinstance(sampler.body, ir.FormCall):
        raise derive.no_chain(sampler.body)
    for kernel in ir.updates_in(sampler.body):
        if not plan_update(lowered, kernel).keeps:
            message = "simulated errors need draws from p, and `independently` keeps no known distribution where cells of a block interact"
            raise fail("E507", message, kernel.span, "does not keep p", help="name another sampler")
    verify_moves_all(lowered, sampler)
    for mask in masks_in(sampler.body):
        lower_mask(lowered, mask).verify(lowered.graph.sizes, {k: np.asarray(v) for k, v in params.items()})


def _at_laws(lowered: Lowered, laws: Array) -> Array:
    """Return codes (cells, laws) that contain the number of the row of given data."""
    codes = np.zeros((lowered.graph.n_cells, len(laws)), np.int32)
    if lowered.graph.row_cell is not None:
        codes[lowered.graph.row_cell] = laws
    return codes


def _held(lowered: Lowered, law: int) -> tuple[Array, Array]:
    held = np.zeros(lowered.graph.n_cells, bool)
    held[lowered.graph.n_random :] = True
    return held, _at_laws(lowered, np.array([law]))[:, 0]


def _keys(seed: int, numbers: Array) -> jax.Array:
    """Return one key for each number, row-major."""
    return keys_of(seed, numbers.ravel())


def _kept(codes: Array | None) -> Array:
    assert codes is not None
    return codes


@dataclass(frozen=True)
class Kinds:
    """Kinds of rows whose simulations have the same distribution.

    Rows of a kind have the same row of given data, the same missing cells and the same masks.

    Attributes:
        rows: the first row of each kind.
        laws: the numbers of the rows of given data, ascending; each determines a distribution.
        law: for each kind, the index of its distribution in `laws`.
        missing: shape (cells, kinds), which cells are missing.
        weights: the factor of the covariance of a kind's gradient in the sum.
    """

    rows: Array
    laws: Array
    law: Array
    missing: Array
    weights: Array


def simulated_errors(fit: F, how: How) -> F:
    """Return the fit with simulated standard errors; see `Fit.simulated_errors`."""
    _verify(fit, how)
    how = with_whole_numbers(how, {"draws": 2, "warmup": 0, "thin": 1})
    verify_held(16 * how.draws, f"{how.draws:,} simulated rows", "fewer `draws=`")
    evidence = fit.evidence
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        params = params64(fit, evidence)
        rows = rows_under(evidence, params)
        kinds = _kinds(rows, evidence)
        host, frame = rows.objective.frame.host, rows.objective.frame
        _verify_cost(rows, kinds, how.draws)
        curve = curvature(rows.objective, params, colours_of(rows.objective), counts=evidence.options.weights_are == "counts")
        open_, held = fit.status.open_directions.T, at_kinks(host, frame.fixed, params)
        job = Job(evidence, params, rows, kinds, curve, influence_in(curve, open_, held))
        drawn = draw(fit, evidence.lowered, params, kinds.laws, how, job.moved)
        score, effective = job.score(drawn)
        rest = determined(dataclasses.replace(curve, score=score, one_mask=None), open_, held)
        made = _with(fit, Covariances(rest, np.zeros(len(held), bool)), drawn, effective, how)
        errors = np.sqrt(np.maximum(np.diag(made.determined["sandwich"]), 0.0))
        return dataclasses.replace(made, inference=Inferred(with_shrinkage(made.status, rest, errors, frame), made.determined))


@dataclass(frozen=True)
class Job:
    """The data from which gradients of simulated rows are computed.

    `rows` are the rows of the fit, and `curve` is the curvature at the estimate. `influence` maps a
    gradient to the move of each entry, see `influence_in`.
    """

    evidence: Evidence
    params: dict[str, jax.Array]
    rows: ScoredRows
    kinds: Kinds
    curve: Curvature
    influence: Array

    def score(self, drawn: SimulatedRows) -> tuple[Array, float]:
        """Return S in the directions of the curvature's basis, and the effective number of draws.

        The variance of an entry is a sum over kinds of means over draws. The variance of a kind's
        mean is the variance of the averaged values divided by the effective number of its draws.
        For each entry, the effective number is the variance of that sum for one draw of each kind,
        divided by its actual variance. The result is the minimum over entries.
        """
        draws, kinds = drawn.codes.shape[2], self.kinds
        at_once = int(np.clip(MOST_COLUMNS // draws, 1, len(kinds.rows)))
        total, noise = np.zeros((self.curve.basis.shape[1],) * 2), np.zeros((2, self.influence.shape[1]))
        for first in range(0, len(kinds.rows), at_once):
            some = np.arange(first, min(first + at_once, len(kinds.rows)))
            u = self.gradients(np.resize(some, at_once), drawn.codes[:, kinds.law[np.resize(some, at_once)]])[: len(some)]
            apart = u - u.mean(axis=1, keepdims=True)
            total += np.einsum("k,kdi,kdj->ij", kinds.weights[some] / (draws - 1), apart, apart, optimize=True)
            for k, each in zip(some, u, strict=True) if drawn.chains else ():
                noise += kinds.weights[k] ** 2 * _noise(self._squares(each), drawn.chains)
        with np.errstate(invalid="ignore", divide="ignore"):
            effective = noise[0] / noise[1]
        return total, float(np.nanmin(np.append(effective, draws)))

    def moved(self, codes: Array) -> Array:
        """Return the functions by which the autocorrelation of draws is judged.

        The draws are those of the first distribution, and the shape is (draws, entries).
        """
        first = np.flatnonzero(self.kinds.law == 0)[:1]
        return self._squares(self.gradients(first, codes[:, None])[0])

    def gradients(self, some: Array, codes: Array) -> Array:
        """Return c * grad loss of simulated rows of some kinds, shape (kinds, draws, directions).

        `codes` has the shape (cells, kinds, draws).
        """
        cells, count, draws = codes.shape
        whole = np.where(self.kinds.missing[:, some, None], -1, codes.astype(self.evidence.codes.dtype)).reshape(cells, -1)
        # Draws are stored in bytes, but numbers of rows may be larger.
        if self.evidence.lowered.graph.row_cell is not None:
            whole[self.evidence.lowered.graph.row_cell] = np.repeat(self.kinds.laws[self.kinds.law[some]], draws)
        repeats = Repeats(self.evidence.codes.shape[1], np.repeat(self.kinds.rows[some], draws))
        options = dataclasses.replace(self.evidence.options, weights=None, weights_are="importances", repeats=repeats)
        made = rows_under(dataclasses.replace(self.evidence, codes=whole, options=options), self.params)
        # The factor c is that of the given data.
        factor = float(self.rows.objective.factor) / float(made.objective.factor)
        return factor * made.scores(self.params, self.curve.basis).reshape(count, draws, -1)

    def _squares(self, u: Array) -> Array:
        """Return the squared move of each entry from the mean by each draw.

        The mean over draws is the variance of the entry.
        """
        return ((u - u.mean(axis=0)) @ self.influence) ** 2


def _noise(values: Array, chains: int) -> Array:
    """Return the variance of each function, and the variance of its mean; 0 if it does not vary.

    `values` has the shape (draws, functions).
    """
    effective, spread = effective_each(values, chains), values.var(axis=0)
    return np.nan_to_num(np.stack([spread, spread / effective])) * ~np.isnan(effective)


def _kinds(rows: ScoredRows, evidence: Evidence) -> Kinds:
    alive, graph = np.flatnonzero(rows.weights > 0), evidence.lowered.graph
    missing = evidence.codes < 0
    law = np.zeros(len(rows.weights), np.int64) if graph.row_cell is None else evidence.codes[graph.row_cell]
    counts = rows.weights if evidence.options.weights_are == "counts" else rows.weights**2
    if rows.use.n_masks is not None:  # each row has its own masks
        first, kind = alive, np.arange(len(alive))
    else:
        alike = np.concatenate([missing[:, alive], law[None, alive]])
        _, at, kind = np.unique(alike, axis=1, return_index=True, return_inverse=True)
        first, kind = alive[at], kind.reshape(-1)
    laws, of = np.unique(law[first], return_inverse=True)
    return Kinds(first, laws, of.reshape(-1), missing[:, first], np.bincount(kind, counts[alive], len(first)))


def _verify(fit: FitRecord, how: How) -> None:
    """Raise unless the options are valid and the fit is a minimum.

    Raises:
        GmlmError: E507 for options. E552 for a fit that is not a minimum. E505 for a fit without
            its data. E548 if no row scores. E543 or E601 if no curvature can be computed.
    """
    verified_seed(how.seed)
    verify_minimum(fit, "the simulation of standard errors")
    verify_scored(scored_rows(fit.evidence), "the covariance of the gradient")
    fit.covariance  # noqa: B018 - raises if the curvature would be too large


def _verify_cost(rows: ScoredRows, kinds: Kinds, draws: int) -> None:
    """Raise E601 if the simulation takes too much memory, or an hour or more.

    Raises:
        GmlmError: E601 with the figure.
    """
    objective, columns = rows.objective, max(draws, MOST_COLUMNS)
    verify_memory(objective.frame.host, 4.0 * columns + float(len(kinds.laws)) * draws)
    size = sum(p.size for p in objective.frame.host.parameters)
    if 8.0 * columns * size > BUDGET.bytes:
        message = f"the gradients of {draws:,} simulated rows by {size:,} parameters take {8.0 * columns * size / 2**30:.3g} GiB"
        raise fail("E601", f"{message}, more than the limit of {BUDGET.bytes / 2**30:.3g} GiB", help="ask for fewer `draws=`")
    masks, members = (0, 0) if objective.masks is None else objective.masks.shape[:2]
    each = max(objective.loss.row_terms(masks, members), 0.0 if objective.gaps is None else objective.gaps.row_cost)
    verify_evaluations(
        each * len(kinds.rows) * draws, f"the gradients of {draws:,} simulated data sets of {counted(len(kinds.rows), 'kind')} of rows"
    )


def influence_in(curve: Curvature, open_: Array, held: Array) -> Array:
    """Return H^-1 in the determined directions, shape (directions, entries).

    It maps a gradient in the directions of the curvature to the move of each entry.
    """
    rest = determined(curve, open_, held)
    return curve.basis.T @ rest.basis @ rest.influence.T


def _with(fit: F, found: Covariances, drawn: SimulatedRows, effective: float, how: How) -> F:
    """Return the fit with other errors and a description of them."""
    draws = drawn.codes.shape[2]
    off = 100 / np.sqrt(2 * effective)
    worth = f", worth {effective:,.0f} independent ones" if drawn.chains else ""
    words = (
        f"simulated, H^-1 S H^-1 with S over {draws:,} data sets that the fitted model makes: they assume the model; {drawn.words}{worth}, "
        f"Monte Carlo error of a standard error about {off:.2g} %"
    )
    findings = [f for f in fit.status.findings if f.slug not in (NO_SPREAD, TOO_FEW, FEW_DRAWS, SHRINKS)]
    if effective < max(FEWEST_EFFECTIVE, len(found["sandwich"])):
        message = f"The simulated data sets are worth {effective:.3g} independent ones: standard errors are off by about {off:.2g} %"
        findings.append(Finding(FEW_DRAWS, message, "Raise `draws=` or `thin=`, or name a sampler that mixes faster"))
    status = dataclasses.replace(fit.status, findings=tuple(findings), unknown=None)
    simulated: dict[str, object] = {"words": words, "draws": draws, "effective": effective}
    simulated["how"] = {"seed": int(how.seed), "sampler": how.sampler, "warmup": how.warmup, "thin": how.thin}
    return dataclasses.replace(fit, inference=Inferred(status, found), meta=fit.meta | {"simulated": simulated})
