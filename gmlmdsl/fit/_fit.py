"""Fits a model: from data, a mask and a start to an estimate with standard errors and status.

If an objective has several minima, the best of several fits from random starts is taken.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import optax

from .._diagnostics import counted, fail, with_whole_numbers
from .._progress import shows_progress, tracked, waiting
from .._types import AnyArray, Arrays, Index
from ..data import as_identity, verified_weights
from ..derive import Spread, spread_over
from ..evaluate import (
    Colouring,
    MaskUse,
    Missing,
    Objective,
    flatten,
    has_kinks,
    in_support,
    init_params,
    is_convex,
    known_params,
    on_gauge,
    value_at,
    verify_bounded_priors,
    verify_names,
)
from ..graph import FactorGraph, Lowered
from ..masks import AbstractMask
from ..plan import verify_held
from ._contrastive import Climbed, climb
from ._few_rows import Inferred, Later, effective_rows, infer
from ._imputation import monte_carlo_em, unconstrained_errors
from ._inference import Copies, verify_counts
from ._long_fit import LongFit, fit_identity, long_fit
from ._minimise import (
    Colours,
    Look,
    curvature_at,
    first_curvature,
    full_batch,
    has_vanished,
    infers,
    looking,
    params_of,
    start_of_vanished,
    stochastic,
)
from ._optimise import Outcome, Scaled, lbfgs, scaling
from ._options import Evidence, FitOptions, PersistentContrastiveDivergence, imputation, row_weights, verify_method, verify_whole
from ._prepare import Prepared, make_objective, objective_colouring, verify_possible
from ._status import Status, examine, judge
from .limits import AGREEING_OBJECTIVES, ROUGH_TOLERANCE, SAME_PARAMETERS, START_SPREAD, STEPS_PER_ROUND

Array = np.ndarray


@dataclass(frozen=True)
class Estimate:
    """The result of a fit as arrays; `Fit` adds names."""

    evidence: Evidence
    params: dict[str, Array]
    inference: Inferred | Later
    outcome: Outcome
    objective: float
    use: MaskUse
    fixed: tuple[str, ...]
    convex: bool
    rows: int
    missing: Missing
    seconds: float
    effective_rows: float | None = None  # of rows in pieces, which are not kept

    @property
    def status(self) -> Status:
        """The status of the fit with its findings."""
        return self.inference.status

    @property
    def covariances(self) -> Mapping[str, Array]:
        """The covariances of the determined directions, by kind."""
        return self.inference.covariances


def fit_model(
    lowered: Lowered,
    mask: AbstractMask,
    codes: Array,
    options: FitOptions,
    index: Index | None = None,
    run: LongFit | None = None,
) -> Estimate:
    """Minimise c * sum over rows of w loss - log prior; `index` labels the rows.

    Args:
        lowered: the model.
        mask: the mask of the loss.
        codes: shape (cells, rows), -1 if a cell is missing.
        options: the options of the fit.
        index: the labels of the rows.
        run: the saved states of several fits, of which this is the next one; None opens those of
            `options.checkpoint`.

    Raises:
        GmlmError: for options, weights or starts that do not fit, for an impossible row, for an
            unbounded prior, for a mask that mentions a parameter, and for a cost above the budget.
    """
    started = time.perf_counter()
    host = lowered.graph
    options = verified_options(options)
    spread, folder = _spread(options), options.checkpoint
    options = dataclasses.replace(options, mesh_axis=None, checkpoint=None)
    weights = verified_rows(mask, codes, options)
    # A line search and standard errors need many digits: full-batch fits run in float64 whatever
    # the default.
    exact = options.optimizer is None and not isinstance(options.method, PersistentContrastiveDivergence)
    # the other methods show a count of their steps
    bar = waiting(f"fitting under mask {options.mask}", exact and shows_progress(options.progress))
    double = exact or bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue]
    with bar, jax.enable_x64(double), contextlib.ExitStack() as long:
        start, fixed = start_of(host, options)
        verify_bounded_priors(host, frozenset(fixed))
        verify_possible(lowered, codes, weights, start)
        identity = functools.partial(fit_identity, lowered, codes, weights, start, options)
        run = run or long.enter_context(long_fit(folder, identity, spread))
        if isinstance(options.method, PersistentContrastiveDivergence):
            verify_whole(host, options.mask, mask)
            climbed = climb(lowered, codes, weights, start, fixed, options, run)
            return _climbed(Evidence(lowered, mask, codes, options, index), climbed, fixed, started)
        prepared = make_objective(host, mask, codes, weights, start, fixed, options, options.optimizer is None, spread)
        objective, use, missing = prepared.objective, prepared.use, prepared.missing
        free = objective.frame.unconstrain({k: np.asarray(v) for k, v in objective.held.items()})  # pyright: ignore[reportArgumentType]
        convex = is_convex(host) and (missing.ignored or not missing.any)
        colours = functools.cache(functools.partial(objective_colouring, objective))
        if prepared.imputed is not None:
            objective, outcome, missing, copies = _impute(prepared, options, colours(), run)
            curve = curvature_at(objective, params_of(objective, outcome), colours(), options, copies)
            open_ = examine(objective, params_of(objective, outcome), curve, None, None)
            look = lambda: (curve, open_)  # noqa: E731
            # The rounds may have followed a recession direction until rounding stopped them.
            if has_vanished(curve, start_of_vanished(objective, curve, colours())):
                outcome = dataclasses.replace(outcome, reason="steps")
        elif options.optimizer is None:
            outcome, look = full_batch(objective, free, options, colours, run)
        else:
            outcome = stochastic(objective, mask, free, options, run)
            look = looking(objective, params_of(objective, outcome), colours, options, lambda _: first_curvature(objective, colours()))
        params = params_of(objective, outcome)
        value = float(value_at(objective, params) if np.isnan(outcome.value) else outcome.value) * float(objective.scale)
        arrays = {k: np.asarray(v) for k, v in params.items()}
        rows = effective_rows(mask, codes, weights, options.weights_are == "counts")
        inferred = Later(lambda: _judged(objective, params, outcome, look, colours, missing, rows, exact), options.progress)
        if not infers(objective, params):
            inferred.status  # noqa: B018 - cheap without a curvature, and releases the rows
    evidence, seconds = Evidence(lowered, mask, codes, options, index), time.perf_counter() - started
    return Estimate(evidence, arrays, inferred, outcome, value, use, fixed, convex, codes.shape[1], missing, seconds)


def _spread(options: FitOptions) -> Spread | None:
    """Return the axis of the mesh over which rows are spread, which only full-batch fits have.

    Raises:
        GmlmError: E507.
    """
    if options.mesh_axis is None:
        return None
    if options.optimizer is not None or options.method is not None or options.impute:
        message = "`mesh_axis=` spreads the rows of a full-batch fit, which has no `optimizer=`, no `method=` and no `impute=True`"
        raise fail("E507", message, help="leave them out, or fit on one device")
    return spread_over(options.mesh_axis)


def _judged(
    objective: Objective,
    params: dict[str, jax.Array],
    outcome: Outcome,
    look: Look,
    colours: Colours,
    missing: Missing,
    rows: float,
    exact: bool,
) -> Inferred:
    """Return the status of an estimate with its covariances; it runs at the first access."""
    with jax.enable_x64(exact or bool(jax.config.jax_enable_x64)):  # pyright: ignore[reportAttributeAccessIssue]
        curve, open_ = look()
        status = judge(objective, params, outcome, open_, curve, colours(), missing)
        return infer(objective, params, status, curve, rows)


def verified_rows(mask: AbstractMask, codes: Array, options: FitOptions) -> Array:
    """Return the weights of the rows, after verifying that the mask can be fitted to them.

    Raises:
        GmlmError: E702 for a mask that mentions a parameter, E505 if there are no rows, and for
            weights that do not fit.
    """
    if mask.mentions_parameter:
        raise fail("E702", f"mask `{options.mask}` mentions a parameter: it may sample, not fit", mask.span, "mentions a parameter")
    if codes.shape[1] == 0:
        raise fail("E505", "x has no rows: there is nothing to fit")
    weights = np.ones(codes.shape[1]) if options.weights is None else verified_weights(options.weights, codes.shape[1])
    verify_counts(options.weights_are, weights)
    return weights


def _climbed(evidence: Evidence, found: Climbed, fixed: tuple[str, ...], started: float) -> Estimate:
    """Return the estimate of persistent contrastive divergence, which has no covariance."""
    rows, cells = evidence.codes.shape[1], int((evidence.lowered.graph.is_observed).sum())
    use = MaskUse(evidence.options.mask, None, 1, False, cells, cells)
    params = {k: np.asarray(v) for k, v in found.params.items()}
    seconds = time.perf_counter() - started
    inferred = Inferred(found.status, {})
    return Estimate(evidence, params, inferred, found.outcome, found.objective, use, fixed, False, rows, found.missing, seconds)


def reopen(evidence: Evidence, params: Mapping[str, Array]) -> tuple[Objective, Colouring | None]:
    """Return the objective that a fit minimised, with `params` as its start, and its colouring.

    It must be called and used in float64.
    """
    objective = reopened(evidence, params)
    return objective, objective_colouring(objective)


def reopened(evidence: Evidence, params: Mapping[str, Array]) -> Objective:
    """Return the objective that a fit minimised, with `params` as its start."""
    lowered, mask, codes, options = evidence.lowered, evidence.mask, evidence.codes, evidence.options
    weights = row_weights(evidence)
    start, fixed = start_of(lowered.graph, dataclasses.replace(options, init=params))
    return make_objective(lowered.graph, mask, codes, weights, start, fixed, options).objective


def verified_options(options: FitOptions) -> FitOptions:
    verify_method(options)
    if options.impute is not None and not (isinstance(options.impute, int | np.bool_) and options.impute in (0, 1)):
        raise fail("E507", f"impute must be True, False or None, got {options.impute!r}")
    options = with_whole_numbers(options, {"max_steps": 1, "batch_size": 1})
    if options.max_steps is not None:
        verify_held(16 * int(options.max_steps), f"the traces of {options.max_steps:,} steps", "a smaller `max_steps=`")
    if options.optimizer is not None and not isinstance(options.optimizer, optax.GradientTransformation):
        raise fail("E507", f"optimizer must be an optax transformation, got {options.optimizer!r}", help="`optax.adam(0.01)`, say")
    if options.batch_size is not None and options.optimizer is None:
        raise fail("E507", "batch_size goes with an optimizer: L-BFGS takes all rows", help="pass `optimizer=optax.adam(0.01)`, say")
    return options


def start_of(host: FactorGraph, options: FitOptions) -> tuple[dict[str, jax.Array], tuple[str, ...]]:
    names = [p.name for p in host.parameters]
    arrays: Mapping[str, AnyArray] = init_params(host, options.seed)
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


def _impute(prepared: Prepared, options: FitOptions, colours: Colouring | None, run: LongFit) -> tuple[Objective, Outcome, Missing, Copies]:
    """Run Monte Carlo EM on an objective with imputed rows.

    The standard errors of the first completed rows are the scale on which its Monte Carlo error is
    judged.
    """
    if options.optimizer is not None:
        message = f"{prepared.missing.imputed:,} rows have missing cells that must be imputed, which goes with L-BFGS only"
        raise fail("E511", message, help="leave `optimizer` out, or drop these rows")
    assert prepared.imputed is not None
    objective = prepared.objective
    if has_kinks(objective.frame.host, objective.frame.fixed):
        message = f"{prepared.missing.imputed:,} rows have missing cells that must be imputed, which does not go with laplace priors"
        raise fail("E511", message, help="give these parameters a normal prior, or drop these rows")
    curve = first_curvature(objective, colours, prepared.imputed.copies)
    if curve is None:
        curve = curvature_at(objective, objective.held, colours, options, prepared.imputed.copies)
    matrix = None
    free = objective.frame.unconstrain(objective.held)
    if curve is not None:
        matrix = scaling(objective, free, curve.hessian / float(objective.scale), curve.basis)

    def minimise(at: Objective, where: Arrays) -> Outcome:
        return lbfgs(Scaled(at, where, matrix), STEPS_PER_ROUND, ROUGH_TOLERANCE)

    errors = np.full(sum(v.size for v in free.values()), np.nan)
    if curve is not None:
        errors = unconstrained_errors(objective, free, np.sqrt(np.maximum(np.diag(curve.without(curve.flat()).sandwich()), 0)))
    seed, graph, method = options.seed, objective.loss.graph, imputation(options)
    return monte_carlo_em(objective, prepared.imputed, graph, minimise, errors, seed, prepared.missing, run, method)


@dataclass(frozen=True)
class Starts:
    """The ends of fits from several starts.

    Attributes:
        objectives: the objective of each fit in the order of the starts, without those of `failed`.
        agree: the number of fits whose objective is the lowest, up to `AGREEING_OBJECTIVES`.
        switched: the number of these whose parameters are not those of the best fit.
        failed: the number of fits that diverged.
    """

    objectives: tuple[float, ...]
    agree: int
    switched: int
    failed: int

    @property
    def as_meta(self) -> dict[str, Any]:
        """The attributes as JSON data, which a file of a fit has."""
        return dataclasses.asdict(self) | {"objectives": list(self.objectives)}

    @property
    def words(self) -> str:
        """A sentence on the starts."""
        count = len(self.objectives) + self.failed
        found = f"starts: {self.agree} of {counted(count, 'start')} reach the lowest objective within {AGREEING_OBJECTIVES:g} nats"
        if self.switched:
            found += f"; {self.switched} of them with other parameters, as a rule with the values of a latent exchanged (label switching)"
        above = max(self.objectives) - min(self.objectives)
        if self.agree < len(self.objectives):
            found += f"; the others end up to {above:.3g} above it"
        if self.failed:
            found += f"; {self.failed} diverged"
        lonely = "" if self.agree > 1 or count == 1 else ". A lower minimum is likely: ask for more `starts=`"
        return f"{found}{lonely}"


def best_of_starts(
    lowered: Lowered, mask: AbstractMask, codes: Array, options: FitOptions, count: int, index: Any = None
) -> tuple[Estimate, Starts]:
    """Return the fit with the lowest objective over several starts, and a description of all.

    The first start is that of `fit_model`. In every other one, entries without a value in
    `options.init` are drawn from a normal distribution, in unconstrained coordinates around the
    first start.

    Args:
        lowered: the model.
        mask: the mask of the loss.
        codes: shape (cells, rows), -1 if a cell is missing.
        options: the options of the fit.
        count: the number of starts, at least 2.
        index: the labels of the rows.

    Raises:
        GmlmError: E507 for an objective that is noisy; and the errors of `fit_model`.
    """
    if options.checkpoint is not None and (options.optimizer is not None or options.impute):
        message = "`checkpoint=` with `starts=` has no `optimizer=` and no `impute=True`"
        help = "leave one out: fits of each start, with folders of their own, can be compared"
        raise fail("E704", message, help=help)
    verify_held(16 * count, f"{count:,} starts", "fewer `starts=`")
    if options.method is not None:
        raise _noisy("this method has no exact objective")
    found: list[Estimate] = []
    quiet = dataclasses.replace(options, progress=False)
    title, shown = f"fits, {counted(count, 'start')}", shows_progress(options.progress)
    with _run_of_starts(lowered, mask, codes, options, count) as run:
        for k in tracked(range(count), title, shown):
            drawn = init_params(lowered.graph, options.seed, START_SPREAD, k)
            # A start that is no dict is an error of the first fit.
            own = {**drawn, **options.init} if k and options.init else drawn if k else options.init
            begun = dataclasses.replace(quiet, init=own)
            found.append(fit_model(lowered, mask, codes, begun, index, run))
            if found[-1].missing.imputed:
                raise _noisy("missing cells are drawn inside this fit")
    ends = np.array([f.objective for f in found])
    known = np.isfinite(ends)
    if not known.any():
        return found[0], Starts((), 0, 0, count)
    best = int(np.nanargmin(np.where(known, ends, np.nan)))
    flat = [flatten(lowered.graph, f.params).astype(float) for f in found]
    agree = known & (ends <= ends[best] + AGREEING_OBJECTIVES)
    apart = [np.max(np.abs(v - flat[best]) / np.maximum(1.0, np.abs(flat[best])), initial=0.0) > SAME_PARAMETERS for v in flat]
    seconds = sum(f.seconds for f in found)
    told = Starts(tuple(ends[known].tolist()), int(agree.sum()), int((agree & apart).sum()), int((~known).sum()))
    evidence = dataclasses.replace(
        found[best].evidence, options=dataclasses.replace(found[best].evidence.options, progress=options.progress)
    )
    return dataclasses.replace(found[best], evidence=evidence, seconds=seconds), told


def _run_of_starts(
    lowered: Lowered, mask: AbstractMask, codes: Array, options: FitOptions, count: int
) -> contextlib.AbstractContextManager[LongFit]:
    """Return the saved states of all fits, in the folder of `options.checkpoint`."""

    def identity() -> dict[str, str]:
        plain = dataclasses.replace(verified_options(options), mesh_axis=None, checkpoint=None)
        with jax.enable_x64(True):
            start, _ = start_of(lowered.graph, plain)
            weights = verified_rows(mask, codes, plain)
            known = fit_identity(lowered, codes, weights, start, plain)
            return known | as_identity({"starts": count})

    return long_fit(options.checkpoint, identity, _spread(options))


def _noisy(why: str) -> Any:
    return fail(
        "E507", f"`starts=` compares objectives, and {why}", help="fits with several `seed=`, compared on held-out rows: `fit.score`"
    )
