"""Fits a model: data, mask and start to an estimate with its standard errors and what must be said about it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import optax

from .._diagnostics import fail, with_whole_numbers
from .._progress import shows_progress, waiting
from ..data import generator, random_key, verified_weights
from ..derive import ExactLoss, float_type, graph_arrays, on_device
from ..derive.compiled import all_values, gap_rows, log_potential
from ..evaluate import (
    Colouring,
    Frame,
    MaskUse,
    Missing,
    Objective,
    Sorted,
    chunk_rows,
    colouring,
    counted_mean_size,
    draw_masks,
    ignored_rows,
    in_support,
    init_params,
    is_affine,
    is_convex,
    known_params,
    make_loss,
    masks_per_row,
    mean_block_size,
    on_gauge,
    reached_cells,
    reported,
    room_for,
    sort_rows,
    summed_loss,
    value_at,
    verify_bounded_priors,
    verify_ignored,
    verify_latents,
    verify_names,
    verify_present,
)
from ..graph import FactorGraph, Lowered, LoweredMask, is_adaptive, mentions_parameter, range_of, varies
from ..graph.masks import support_size
from ..plan import mean_size, verify_held
from ._contrastive import Climbed, climb
from ._few_rows import effective_rows, infer
from ._imputation import COPIES, MOST_ROUNDS, STEPS, SWEEPS, Imputed, first_values, missing_blocks, monte_carlo_em, unconstrained_errors
from ._inference import Copies, verify_counts
from ._kinks import has_kinks
from ._methods import MonteCarloEM, PersistentContrastiveDivergence, completed_masks, verify_method, verify_whole
from ._minimise import MOST_INFERRED, curvature_at, first_curvature, full_batch, has_vanished, params_of, start_of_vanished, stochastic
from ._optimise import ROUGH, Outcome, Scaled, lbfgs, scaling
from ._options import Evidence, FitOptions
from ._status import Status, examine, judge

Array = np.ndarray
BYTES_PER_COPY = 4 * 8  # of a cell: filled, on the device, and redrawn for the standard errors


@dataclass(frozen=True)
class Estimate:
    """What a fit found, as arrays; `Fit` gives it names."""

    evidence: Evidence
    params: dict[str, Array]
    status: Status
    outcome: Outcome
    objective: float
    use: MaskUse
    fixed: tuple[str, ...]
    convex: bool
    rows: int
    missing: Missing
    seconds: float
    covariances: Mapping[str, Array]


def fit_model(lowered: Lowered, mask: LoweredMask, codes: Array, options: FitOptions) -> Estimate:
    """Minimise c * sum over rows of w loss - log prior.

    Raises:
        GmlmError: for options, weights or starts that do not fit, an impossible row, an unbounded prior, a mask that
            mentions a parameter, a cost above the budget.
    """
    started = time.perf_counter()
    host = lowered.graph
    options = _verified_options(options)
    weights = verified_rows(mask, codes, options)
    verify_bounded_priors(host)
    # Digits matter in a line search and in standard errors: full-batch fits run in float64 whatever the default.
    exact = options.optimizer is None and not isinstance(options.method, PersistentContrastiveDivergence)
    bar = waiting(f"fitting under mask {options.mask}", exact and shows_progress(options.progress))  # the others count their steps
    with bar, jax.enable_x64(exact or bool(jax.config.jax_enable_x64)):  # pyright: ignore[reportAttributeAccessIssue]
        start, fixed = _start(host, options)
        verify_possible(lowered, codes, weights, start)
        if isinstance(options.method, PersistentContrastiveDivergence):
            verify_whole(host, options.mask, mask)
            climbed = climb(lowered, codes, weights, start, fixed, options)
            return _climbed(Evidence(lowered, mask, codes, options), climbed, fixed, started)
        prepared = make_objective(host, mask, codes, weights, start, fixed, options)
        objective, use, missing = prepared.objective, prepared.use, prepared.missing
        free = objective.frame.unconstrain({k: np.asarray(v) for k, v in objective.held.items()})  # pyright: ignore[reportArgumentType]
        convex, colours = is_convex(host) and (missing.ignored or not missing.any), objective_colouring(objective)
        if prepared.imputed is not None:
            objective, outcome, missing, copies = _impute(prepared, options, colours)
            curve = curvature_at(objective, params_of(objective, outcome), colours, options, copies)
            open_ = examine(objective, params_of(objective, outcome), curve, None, None)
            # Rounds may have run along a recession until rounding stopped them.
            if has_vanished(curve, start_of_vanished(objective, curve, colours)):
                outcome = dataclasses.replace(outcome, reason="steps")
        elif options.optimizer is None:
            outcome, curve, open_ = full_batch(objective, free, options, colours)
        else:
            outcome = stochastic(objective, mask, free, options)
            curve = curvature_at(objective, params_of(objective, outcome), colours, options)
            open_ = examine(objective, params_of(objective, outcome), curve, first_curvature(objective, colours), colours)
        params = params_of(objective, outcome)
        value = float(value_at(objective, params) if np.isnan(outcome.value) else outcome.value) * float(objective.scale)
        status = judge(objective, params, outcome, open_, curve, colours, missing)
        inferred = infer(objective, params, status, curve, effective_rows(mask, codes, weights, options.weights_are == "counts"))
        arrays = {k: np.asarray(v) for k, v in params.items()}
    evidence, seconds = Evidence(lowered, mask, codes, options), time.perf_counter() - started
    return Estimate(
        evidence, arrays, inferred.status, outcome, value, use, fixed, convex, codes.shape[1], missing, seconds, inferred.covariances
    )


def verified_rows(mask: LoweredMask, codes: Array, options: FitOptions) -> Array:
    """The weights of rows that a mask can be fitted to.

    Raises:
        GmlmError: E702 for a mask that mentions a parameter, E505 for no rows, and for weights that do not fit.
    """
    if mentions_parameter(mask):
        raise fail("E702", f"mask `{options.mask}` mentions a parameter: it may sample, not fit", mask.span, "mentions a parameter")
    if codes.shape[1] == 0:
        raise fail("E505", "x has no rows: there is nothing to fit")
    weights = np.ones(codes.shape[1]) if options.weights is None else verified_weights(options.weights, codes.shape[1])
    verify_counts(options.weights_are, weights)
    return weights


def _climbed(evidence: Evidence, found: Climbed, fixed: tuple[str, ...], started: float) -> Estimate:
    """The estimate of persistent contrastive divergence, which has no covariance."""
    rows, cells = evidence.codes.shape[1], int((evidence.lowered.graph.is_observed).sum())
    use = MaskUse(evidence.options.mask, None, 1, False, cells, cells)
    params = {k: np.asarray(v) for k, v in found.params.items()}
    seconds = time.perf_counter() - started
    return Estimate(evidence, params, found.status, found.outcome, found.objective, use, fixed, False, rows, found.missing, seconds, {})


def reopen(evidence: Evidence, params: Mapping[str, Array]) -> tuple[Objective, Colouring | None]:
    """The objective that a fit minimised, with `params` as its start, and its colours; to be called and used in float64."""
    lowered, mask, codes, options = evidence.lowered, evidence.mask, evidence.codes, evidence.options
    weights = np.ones(codes.shape[1]) if options.weights is None else verified_weights(options.weights, codes.shape[1])
    start, fixed = _start(lowered.graph, dataclasses.replace(options, init=params))
    objective = make_objective(lowered.graph, mask, codes, weights, start, fixed, options).objective
    return objective, objective_colouring(objective)


def _verified_options(options: FitOptions) -> FitOptions:
    verify_method(options)
    if options.impute not in (None, True, False):
        raise fail("E507", f"impute must be True, False or None, got {options.impute!r}")
    options = with_whole_numbers(options, {"max_steps": 1, "batch_size": 1})
    if options.max_steps is not None:
        verify_held(16 * int(options.max_steps), f"the traces of {options.max_steps:,} steps", "a smaller `max_steps=`")
    if options.optimizer is not None and not isinstance(options.optimizer, optax.GradientTransformation):
        raise fail("E507", f"optimizer must be an optax transformation, got {options.optimizer!r}", help="`optax.adam(0.01)`, say")
    if options.batch_size is not None and options.optimizer is None:
        raise fail("E507", "batch_size goes with an optimizer: L-BFGS takes all rows", help="pass `optimizer=optax.adam(0.01)`, say")
    return options


def verify_possible(lowered: Lowered, codes: Array, weights: Array, start: dict[str, jax.Array]) -> None:
    """Refuse a row that the model gives probability zero.

    Raises:
        GmlmError: E508 with the row and the `require`.
    """
    device = graph_arrays(lowered.graph)
    verify_present(lowered.graph, device, codes, weights)
    whole = np.flatnonzero((codes >= 0).all(axis=0))
    if not len(whole):
        return
    codes, weights = codes[:, whole], weights[whole]
    for group, host in zip(device.groups, lowered.graph.groups, strict=True):
        if group.kind == "require":
            holds = np.asarray(all_values(group, {}, on_device(codes)))
            bad = ~holds.all(axis=0) & (weights > 0)
            if bad.any():
                row = int(np.argmax(bad))
                cells = host.cells[int(np.argmin(holds[:, row]))]
                names = [lowered.graph.cell_name(int(c)) for c in np.unique(cells) if c < lowered.graph.n_random]
                message = f"row {int(whole[row])} of x is impossible: it breaks this `require`{' at ' * bool(names)}{', '.join(names)}"
                raise fail("E508", message, host.span, "broken here", help="mend or drop the row, or loosen the requirement")
    if _finite_factors(lowered.graph, start):
        return
    value = np.asarray(log_potential(device, start, on_device(codes)))
    bad = (np.isnan(value) | np.isneginf(value)) & (weights > 0)
    if bad.any():
        row = int(np.argmax(bad))
        message = f"row {int(whole[row])} of x is impossible: log p is {value[row]:g} at the start"
        raise fail("E508", message, help="a factor is -infinity or undefined there; start elsewhere with `init=`")


def stays_finite(host: FactorGraph, start: dict[str, jax.Array]) -> bool:
    """Whether bounds show that every row is possible: nothing is required, and every factor is finite."""
    return all(g.kind != "require" for g in host.groups) and _finite_factors(host, start)


def _finite_factors(host: FactorGraph, start: dict[str, jax.Array]) -> bool:
    values = {k: np.asarray(v) for k, v in start.items()}
    return all(range_of(g, int(host.sizes.max(initial=1)), values) is not None for g in host.factors)


def _start(host: FactorGraph, options: FitOptions) -> tuple[dict[str, jax.Array], tuple[str, ...]]:
    names = [p.name for p in host.parameters]
    arrays: Mapping[str, Any] = init_params(host, options.seed)
    for what, given in (("init", options.init), ("fixed", options.fixed)):
        if given is not None and not isinstance(given, Mapping):
            raise fail("E507", f"{what} must be a dict of arrays by parameter, got {type(given).__name__}")
        verify_names(given or {}, names, what)
        arrays = known_params(host, {**arrays, **(given or {})}, what)
    for p in host.parameters:
        wrong = in_support(p, np.asarray(arrays[p.name]))
        if wrong:
            raise fail("E509", f"the start of `{p.name}` {wrong}", help="pass another `init=` or `fixed=`")
        if p.name not in (options.fixed or {}):
            arrays[p.name] = on_gauge(p, arrays[p.name])
    return arrays, tuple(n for n in names if n in (options.fixed or {}))


@dataclass(frozen=True)
class Prepared:
    """The objective of a fit, how it uses its mask, and its rows with gaps."""

    objective: Objective
    use: MaskUse
    missing: Missing
    imputed: Imputed | None


def make_objective(
    host: FactorGraph,
    mask: LoweredMask,
    codes: Array,
    weights: Array,
    start: dict[str, jax.Array],
    fixed: tuple[str, ...],
    options: FitOptions,
) -> Prepared:
    """The objective of a fit: complete rows and copies of imputed ones side by side, rows that are summed out apart."""
    named, ignores = mask, options.ignores
    if ignores:
        verify_ignored(host, mask, options.mask, codes)
    mask, counted_by = _completed_masks(host, mask, codes, options)
    device = graph_arrays(host)
    n_masks = masks_per_row(mask, options.n_masks)
    filled = on_device(np.maximum(codes, 0))
    masks = None if n_masks is None else np.asarray(draw_masks(host, mask, filled, n_masks, random_key(options.seed), options.repeats))
    counts = options.weights_are == "counts"
    if counts and n_masks is not None:
        help_ = "repeat the rows instead, so that each has its own masks"
        raise fail("E542", f"weights are counts, and mask `{options.mask}` is drawn for each row", mask.span, "drawn", help=help_)
    size = _mean_size(host, counted_by, filled, weights if counts else None)
    use = MaskUse(options.mask, n_masks, support_size(named), is_adaptive(mask), reached_cells(host, counted_by), size)
    if use.mean_size == 0:
        raise fail("E410", f"mask `{options.mask}` hides no cell of these rows", mask.span, "an empty support")
    imputes = isinstance(options.method, MonteCarloEM) or options.impute
    kinds = ignored_rows(host, mask, codes) if ignores else sort_rows(host, mask, options.mask, codes, masks, imputes, weights)
    order, share, whole, imputed = _columns(host, codes, kinds, options)
    loss = make_loss(host, device, mask, n_masks, len(order), kinds.report.ignored)
    rows_masks = None if masks is None else masks[:, :, order]
    room = room_for(len(order))
    chunk = chunk_rows(loss, 0 if rows_masks is None else len(rows_masks), 0 if rows_masks is None else rows_masks.shape[1], room)
    padding, dtype = room + -room % chunk - len(order), float_type()
    gaps = summed_loss(host, device, codes, kinds)
    objective = Objective(
        loss,
        on_device(np.pad(whole, ((0, 0), (0, padding)), mode="edge" if len(order) else "constant")),
        on_device(np.pad(weights[order] * share, (0, padding)).astype(dtype)),
        None if rows_masks is None else on_device(np.pad(rows_masks, ((0, 0), (0, 0), (0, padding)), constant_values=host.n_cells)),
        start,
        on_device(np.asarray(use.reached / use.mean_size, dtype)),
        on_device(np.asarray(weights.sum(), dtype)),
        Frame(host.without_data, fixed),
        chunk,
        gaps,
        None if gaps is None else on_device(weights[kinds.summed].astype(dtype)),
    )
    if gaps is not None:
        _verify_finite(objective, start, kinds.summed)
    return Prepared(objective, use, kinds.report, imputed)


def _mean_size(host: FactorGraph, mask: LoweredMask, codes: jax.Array, counts: Array | None) -> float:
    """E|K|: of a mask that looks at rows the mean over them, where one of count w is w rows."""
    plain = None if varies(mask) else mean_size(mask, host.n_cells)
    if plain is not None:
        return plain
    return mean_block_size(host, mask, codes) if counts is None else counted_mean_size(host, mask, codes, counts)


def _completed_masks(host: FactorGraph, mask: LoweredMask, codes: Array, options: FitOptions) -> tuple[LoweredMask, LoweredMask]:
    """The mask of the loss, and the one that its factor is counted by: the mask named, unless latents are drawn; see `MonteCarloEM`."""
    drawing = isinstance(options.method, MonteCarloEM)
    verify_latents(host, mask, options.mask, codes, not drawing)
    if options.impute and reported(host, codes).latents:
        help = "`method=gm.MonteCarloEM()` draws latents and missing cells"
        raise fail("E704", "`impute=True` is about missing cells, and these rows lack latents", help=help)
    latents = np.flatnonzero((codes < 0).any(axis=1) & host.is_latent)
    if drawing and len(latents) and varies(mask):
        message = f"mask `{options.mask}` has other probabilities in other rows, and {MonteCarloEM.name} joins latents to like blocks"
        raise fail("E704", message, mask.span, "varies with rows", help="name a mask without weights that look at x or at given data")
    return completed_masks(host, mask, latents) if drawing else (mask, mask)


def _columns(host: FactorGraph, codes: Array, kinds: Sorted, options: FitOptions) -> tuple[Array, Array, Array, Imputed | None]:
    """Complete rows, then copies of the imputed ones: which row each column is, its share of the row's weight, and its codes."""
    order, rows = kinds.complete, kinds.imputed
    if not len(rows):
        return order, np.ones(len(order)), codes[:, order], None
    count = options.method.copies if isinstance(options.method, MonteCarloEM) else COPIES
    needed = BYTES_PER_COPY * len(codes) * len(rows) * int(count)
    verify_held(needed, f"{count:,} copies of each of {len(rows):,} rows", "fewer `copies=` of the method")
    columns = np.repeat(rows, count)
    blocks, values = missing_blocks(host, codes[:, rows] < 0)
    imputed = Imputed(Copies(len(order), len(rows), count), np.repeat(blocks, count, axis=2), values, rows)
    filled = first_values(host, codes, generator(options.seed))[:, columns]
    share = np.append(np.ones(len(order)), np.full(len(columns), 1 / count))
    return np.append(order, columns), share, np.concatenate([codes[:, order], filled], axis=1), imputed


def _verify_finite(objective: Objective, start: dict[str, jax.Array], rows: Array) -> None:
    """Refuse a row that no values of its missing cells make possible."""
    host = objective.frame.host
    if stays_finite(host, start):
        return
    if np.isfinite(float(value_at(objective, start))):
        return
    assert objective.gaps is not None
    assert objective.gap_weights is not None
    bad = ~np.isfinite(np.asarray(gap_rows(objective.gaps, start))) & (np.asarray(objective.gap_weights) > 0)
    if bad.any():
        message = f"row {int(rows[int(np.argmax(bad))])} of x is impossible: whatever its missing cells hold, log p is -inf or undefined"
        raise fail("E508", message, help="mend or drop the row, or loosen the requirement; or start elsewhere with `init=`")


def _impute(prepared: Prepared, options: FitOptions, colours: Colouring | None) -> tuple[Objective, Outcome, Missing, Copies]:
    """Monte Carlo EM; its Monte Carlo error is judged by the standard errors of the first completed rows."""
    if options.optimizer is not None:
        message = f"{prepared.missing.imputed:,} rows have missing cells that must be imputed, which goes with L-BFGS only"
        raise fail("E511", message, help="leave `optimizer` out, or drop these rows")
    assert prepared.imputed is not None
    objective = prepared.objective
    if has_kinks(objective):
        message = f"{prepared.missing.imputed:,} rows have missing cells that must be imputed, which does not go with laplace priors"
        raise fail("E511", message, help="give these parameters a normal prior, or drop these rows")
    curve = first_curvature(objective, colours, prepared.imputed.copies)
    if curve is None:
        curve = curvature_at(objective, objective.held, colours, options, prepared.imputed.copies)
    matrix = None
    free = objective.frame.unconstrain(objective.held)
    if curve is not None:
        matrix = scaling(objective, free, curve.hessian / float(objective.scale), curve.basis)

    def minimise(at: Objective, where: dict[str, Any]) -> Outcome:
        return lbfgs(Scaled(at, where, matrix), STEPS, ROUGH)

    errors = np.full(sum(v.size for v in free.values()), np.nan)
    if curve is not None:
        errors = unconstrained_errors(objective, free, np.sqrt(np.maximum(np.diag(curve.without(curve.flat()).sandwich()), 0)))
    seed, graph = options.seed, objective.loss.graph
    most, sweeps = (options.method.rounds, options.method.sweeps) if isinstance(options.method, MonteCarloEM) else (MOST_ROUNDS, SWEEPS)
    return monte_carlo_em(objective, prepared.imputed, graph, minimise, errors, seed, prepared.missing, most, sweeps)


def objective_colouring(objective: Objective) -> Colouring | None:
    """Of an exponential family under all masks of a support; otherwise local statistics say nothing."""
    host = objective.frame.host
    size = sum(p.size for p in host.parameters)
    rows = int((np.asarray(objective.weights) > 0).sum())
    if not isinstance(objective.loss, ExactLoss) or not is_affine(host) or not 0 < size <= MOST_INFERRED or not rows:
        return None
    return colouring(objective, size)
