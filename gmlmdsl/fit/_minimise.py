"""Minimises the objective of a fit by full-batch L-BFGS or by minibatches.

L-BFGS pauses, and handles non-smooth priors and bounds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from .._progress import shows_progress
from .._types import Arrays
from ..data import random_key
from ..derive import Chunks
from ..evaluate import MANY_PRODUCTS, Colouring, Objective, bijection, draw_masks, gradient_at, has_kinks, metrics, slopes
from ..masks import AbstractMask
from ._existence import Recession
from ._inference import Copies, Curvature, complete_rows, curvature, prior_curvature
from ._kinks import fewer, settle
from ._long_fit import LongFit
from ._optimise import Outcome, Scaled, joined, lbfgs, minibatches, scaling
from ._status import examine
from .limits import (
    CHEAP_CURVATURE_ENTRIES,
    LEAST_PULL,
    METRIC_RENEWALS,
    MOST_CURVATURE_ENTRIES,
    MOST_INFERRED,
    MOST_SCALED,
    NEAR_BOUND,
    ROUGH_TOLERANCE,
    SUSPECT_CURVATURE,
)

if TYPE_CHECKING:
    from ._options import FitOptions

Colours = Callable[[], Colouring | None]  # computed at the first call
# the curvature at an estimate, and the open directions there
Look = Callable[[], tuple[Curvature | None, Recession]]


def full_batch(objective: Objective, free: Arrays, options: FitOptions, colours: Colours, run: LongFit) -> tuple[Outcome, Look]:
    """Minimise by L-BFGS, scaled by the curvature if that is cheap.

    L-BFGS then pauses, and it is tested whether there is a minimum: along a recession direction it
    would continue for a long time. If the curvature is costly, it is cheaper to run to the end and
    to examine the end point at the first access.

    Args:
        objective: the objective.
        free: the unconstrained starting values.
        options: the options of the fit.
        colours: a function that returns the colouring.
        run: the saved states of the fit.
    """
    host = objective.frame.host
    kinked, size = has_kinks(host, objective.frame.fixed), sum(p.size for p in host.parameters)
    # This is costly for rows with missing cells, but not here.
    first = None if objective.gaps is None or kinked else first_curvature(objective, colours())
    costly = size > MOST_SCALED or objective.products >= MANY_PRODUCTS or inference_cost(objective, size) > CHEAP_CURVATURE_ENTRIES
    if not kinked and (costly if objective.gaps is None else first is not None):
        if first is None:
            outcome = _with_metric(objective, free, options.max_steps, run)
        else:
            outcome = lbfgs(_scaled(objective, free, first, colours()), options.max_steps, run=run)
        if outcome.reason in ("converged", "diverged") or options.max_steps is not None:
            before = (lambda curve: start_of_vanished(objective, curve, colours())) if first is None else lambda _: first
            return outcome, looking(objective, params_of(objective, outcome), colours, options, before)
        again, look = _with_pauses(objective, outcome.free, options, colours(), kinked, run)
        return joined(outcome, again), look
    return _with_pauses(objective, free, options, colours(), kinked, run)


def _with_metric(objective: Objective, free: Arrays, most_steps: int | None, run: LongFit) -> Outcome:
    """Minimise by L-BFGS from an approximate inverse Hessian, if the loss has one (see `Metric`).

    The approximation is computed again after some steps.
    """
    made = metrics(objective) if objective.products >= MANY_PRODUCTS else None
    outcome, at = None, free
    for stop in (*METRIC_RENEWALS, None):
        params = objective.frame.constrain(at, objective.held) if outcome is None else params_of(objective, outcome)
        metric = None if made is None else made.at(params, prior_curvature(objective, params))
        done = 0 if outcome is None else outcome.steps
        limit, last = None if most_steps is None else most_steps - done, True
        if metric is not None and stop is not None and (most_steps is None or stop < most_steps):
            limit, last = stop - done, False
        found = lbfgs(Scaled(objective, at, None, metric), limit, run=run)
        outcome, at = found if outcome is None else joined(outcome, found), found.free
        if last or found.reason != "steps":
            break
    assert outcome is not None
    return outcome


def looking(
    objective: Objective,
    params: dict[str, jax.Array],
    colours: Colours,
    options: FitOptions,
    before: Callable[[Curvature | None], Curvature | None],
) -> Look:
    """Return a function that examines an estimate.

    Args:
        objective: the objective.
        params: the estimate.
        colours: a function that returns the colouring.
        options: the options of the fit.
        before: a function from the curvature at the estimate to the curvature at the start, or to
            None if the latter does not matter.
    """

    def look() -> tuple[Curvature | None, Recession]:
        curve = curvature_at(objective, params, colours(), options)
        return curve, examine(objective, params, curve, before(curve), colours(), options.asks_data_alone)

    return look


def _scaled(objective: Objective, at: Arrays, curve: Curvature | None, colours: Colouring | None) -> Scaled:
    if curve is None or colours is None:
        return Scaled(objective, at, None)
    return Scaled(objective, at, scaling(objective, at, curve.hessian / float(objective.scale), curve.basis))


def start_of_vanished(objective: Objective, curve: Curvature | None, colours: Colouring | None) -> Curvature | None:
    """Return the curvature at the start if that at the end may be far below it, else None.

    The data's curvature falls so far if rows are separated, for example. The slopes of tables give
    an upper bound of the curvature at the start without a sum over rows.
    """
    if curve is None or colours is None or not curve.hessian.size:
        return None
    if colours.slopes is not None:
        natural = float(objective.factor) * float(objective.scale) * float(np.abs(colours.slopes).max(initial=0.0)) ** 2
        if curve.largest >= SUSPECT_CURVATURE * natural:
            return None
    return first_curvature(objective, colours)


def has_vanished(curve: Curvature | None, first: Curvature | None) -> bool:
    """Return whether the data's curvature is a thousandth of its value at the start, or less."""
    if curve is None or first is None or not curve.hessian.size:
        return False
    return curve.largest < SUSPECT_CURVATURE * first.largest


def _with_pauses(
    objective: Objective, free: Arrays, options: FitOptions, colours: Colouring | None, kinked: bool, run: LongFit
) -> tuple[Outcome, Look]:
    def scaled(at: Arrays, curve: Curvature | None) -> Scaled:
        return _scaled(objective, at, curve, colours)

    def curve_at(params: Arrays) -> Curvature | None:
        return curvature_at(objective, params, colours, options)

    def descended(outcome: Outcome, at: Arrays, curve: Curvature | None, steps: int | None) -> Outcome:
        outcome = joined(outcome, lbfgs(scaled(at, curve), steps, run=run))
        settles = kinked and outcome.reason != "converged"
        return settle(objective, outcome, curve_at, options.max_steps, run) if settles else outcome

    first = first_curvature(objective, colours)
    outcome = lbfgs(scaled(free, first), fewer(options.max_steps) if kinked else options.max_steps, ROUGH_TOLERANCE, run)
    curve = curve_at(params_of(objective, outcome))
    open_ = examine(objective, params_of(objective, outcome), curve, first, colours, options.asks_data_alone)
    left = None if options.max_steps is None else options.max_steps - outcome.steps
    if open_.direction is None and left != 0 and (kinked or outcome.reason in ("converged", "stalled")):
        outcome = descended(outcome, outcome.free, curve, fewer(left) if kinked else left)
        inside, pull = off_wrong_edges(objective, outcome.free)
        if pull:
            outcome = descended(outcome, inside, curve_at(objective.frame.constrain(inside, objective.held)), left)
            pull = off_wrong_edges(objective, outcome.free)[1]
            outcome = dataclasses.replace(outcome, reason="stalled", gradient=pull) if pull else outcome
        curve = curve_at(params_of(objective, outcome))
        # Without the linear programme, the curvature at the end decides.
        if objective.gaps is not None:
            open_ = examine(objective, params_of(objective, outcome), curve, first, colours, options.asks_data_alone)
    return outcome, lambda: (curve, open_)


def stochastic(objective: Objective, mask: AbstractMask, free: Arrays, options: FitOptions, run: LongFit) -> Outcome:
    """Minimise by minibatches; the rows and masks of a step depend on (seed, step) only.

    Args:
        objective: the objective of all rows.
        mask: the mask of the loss.
        free: the unconstrained starting values.
        options: the options of the fit, with an `optimizer`.
        run: the saved states of the fit.
    """
    assert options.optimizer is not None
    key, host = random_key(options.seed), objective.frame.host
    alive = jnp.flatnonzero(objective.weights > 0)
    # Enumerated rows are stored separately: every batch has all of them.
    gaps, lacking = objective.gaps, jnp.zeros(0, jnp.int32)
    if gaps is not None and gaps.eliminated is not None:
        assert objective.gap_weights is not None
        lacking = jnp.flatnonzero(objective.gap_weights[gaps.places[1]] > 0)
    sizes = _shares(options.batch_size, len(alive), len(lacking))

    def batch(step: int) -> Objective:
        if sizes is None:
            return objective
        here = jax.random.fold_in(key, step)
        out = objective
        if sizes[0]:
            chosen = alive[jax.random.choice(here, len(alive), (sizes[0],), replace=False)]
            codes, masks = objective.codes[:, chosen], None
            if objective.masks is not None:
                known = jnp.maximum(codes, 0) if objective.gapped else codes
                masks = draw_masks(host, mask, known, objective.masks.shape[0], jax.random.fold_in(here, 1))
            weights = objective.weights[chosen] * (len(alive) / sizes[0])
            out = dataclasses.replace(out, codes=codes, weights=weights, masks=masks, chunks=Chunks(sizes[0]))
        if gaps is not None and sizes[1]:
            assert objective.gap_weights is not None
            chosen = lacking[jax.random.choice(jax.random.fold_in(here, 2), len(lacking), (sizes[1],), replace=False)]
            some = gaps.some(chosen)
            if some.eliminated is not None and some.eliminated.masks is not None:
                known = jnp.maximum(some.eliminated.codes, 0)
                again = draw_masks(host, mask, known, some.eliminated.masks.shape[0], jax.random.fold_in(here, 3))
                some = dataclasses.replace(some, eliminated=dataclasses.replace(some.eliminated, masks=again))
            weights = objective.gap_weights[gaps.places[1][chosen]] * (len(lacking) / sizes[1])
            weights = jnp.concatenate([objective.gap_weights[gaps.places[0]], weights])
            out = dataclasses.replace(out, gaps=some, gap_weights=weights)
        return out

    steps = 2000 if options.max_steps is None else options.max_steps
    outcome = minibatches(batch, free, options.optimizer, steps, shows_progress(options.progress), run)
    # Minibatches do not give the gradient over all rows, which is computed to judge the end point.
    gradient = jax.tree.leaves(gradient_at(objective, outcome.free))
    largest = max((float(jnp.abs(g).max(initial=0.0)) for g in gradient), default=0.0)
    return dataclasses.replace(outcome, gradient=largest)


def _shares(batch_size: int | None, complete: int, lacking: int) -> tuple[int, int] | None:
    """Return the numbers of complete and incomplete rows of a batch, in proportion.

    None means all rows.
    """
    if batch_size is None or not complete + lacking:
        return None
    size = min(batch_size, complete + lacking)
    some = min(lacking, max(int(lacking > 0), round(size * lacking / (complete + lacking))))
    return min(complete, max(int(complete > 0), size - some)), some


def params_of(objective: Objective, outcome: Outcome) -> dict[str, jax.Array]:
    """Return the parameters at which a minimiser stopped."""
    return objective.frame.constrain(outcome.free, objective.held) if outcome.params is None else outcome.params


def curvature_at(
    objective: Objective, params: dict[str, jax.Array], colours: Colouring | None, options: FitOptions, copies: Copies | None = None
) -> Curvature | None:
    """Return the curvature at `params`, or None if it is not affordable or not finite.

    Args:
        objective: the objective.
        params: the parameters.
        colours: the colouring, see `curvature`.
        options: the options of the fit.
        copies: the imputed rows.
    """
    if not infers(objective, params):
        return None
    return _sound(curvature(objective, params, colours, copies, options.weights_are == "counts"))


def infers(objective: Objective, params: dict[str, jax.Array]) -> bool:
    """Return whether the curvature at an estimate is computed, see `curvature_at`."""
    flat = np.concatenate([np.ravel(v) for v in params.values()] or [np.zeros(0)])
    return flat.size <= MOST_INFERRED and bool(np.isfinite(flat).all()) and inference_cost(objective, flat.size) <= MOST_CURVATURE_ENTRIES


def _sound(curve: Curvature) -> Curvature | None:
    """Return the curvature, or None if the objective has no second derivative there."""
    return curve if np.isfinite(curve.hessian).all() and np.isfinite(curve.score).all() else None


def inference_cost(objective: Objective, size: int) -> float:
    """Return the cost of second derivatives by every parameter of rows that are summed out.

    The cost is a number of table entries and evaluations. It is 0 unless rows are eliminated or
    have missing cells.
    """
    lacking = 0.0 if objective.gaps is None else objective.gaps.second_order_cost(size)
    passes = 1 if objective.masks is None else len(objective.masks)
    whole = 0.0
    if objective.loss.is_eliminated:
        whole = objective.loss.row_terms(passes, 1) * passes * objective.codes.shape[1]
    return lacking + size * whole


def first_curvature(objective: Objective, colours: Colouring | None, copies: Copies | None = None) -> Curvature | None:
    """Return the curvature of the complete rows at the start.

    It is cheap to compute and scales the minimiser.
    """
    whole = complete_rows(objective, copies)
    return None if colours is None or not bool((whole.host_weights > 0).any()) else _sound(curvature(whole, objective.held, colours))


def off_wrong_edges(objective: Objective, free: Arrays) -> tuple[Arrays, float]:
    """Move entries off a bound if the objective decreases inwards there.

    At a minimiser on a bound, the slope points outwards (Karush, Kuhn and Tucker); otherwise a step
    has gone too far. Such entries are moved back to their start. The second result is the largest
    such slope.
    """
    bounded = [p for p in objective.frame.host.parameters if p.name in free and p.kind in ("positive", "bounded")]
    if not bounded:
        return free, 0.0
    gradient, out, largest = gradient_at(objective, free), dict(free), 0.0
    for p in bounded:
        slope = slopes(p, free[p.name]).reshape(p.shape)
        value = np.asarray(bijection(p)(free[p.name]))
        inward = np.where(value - p.lower < NEAR_BOUND, -1.0, np.where(p.upper - value < NEAR_BOUND, 1.0, 0.0))
        fall = inward * np.asarray(gradient[p.name]) / np.where(slope == 0, 1e-300, slope)
        wrong = fall > LEAST_PULL
        largest = max(largest, float(fall[wrong].max(initial=0.0)))
        begin = np.asarray(bijection(p).inv(objective.held[p.name]))
        out[p.name] = jnp.asarray(np.where(wrong, begin, np.asarray(free[p.name])))
    return out, largest
