"""Minimises a fit's objective: full-batch L-BFGS that pauses, kinks and edges settled, or minibatches."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..graph.masks import LoweredMask
from ._edges import off_wrong_edges
from ._existence import Recession
from ._inference import Copies, Curvature, complete_rows, curvature
from ._kinks import fewer, has_kinks, settle
from ._objective import Objective, draw_masks, gradient_at
from ._optimise import ROUGH, Outcome, Scaled, joined, lbfgs, minibatches, scaling
from ._statistics import Colouring
from ._status import examine

if TYPE_CHECKING:
    from ._fit import Options

MOST_INFERRED = 2000  # parameters whose standard errors are computed without being asked


def full_batch(
    objective: Objective, free: dict[str, Any], options: Options, colours: Colouring | None
) -> tuple[Outcome, Curvature | None, Recession]:
    """L-BFGS, with a pause to see whether there is a minimum: along a recession direction it would crawl for ever."""

    def scaled(at: dict[str, Any], curve: Curvature | None) -> Scaled:
        if curve is None or colours is None:
            return Scaled(objective, at, None)
        return Scaled(objective, at, scaling(objective, at, curve.hessian / float(objective.scale), curve.basis))

    def curve_at(params: dict[str, jax.Array]) -> Curvature | None:
        return curvature_at(objective, params, colours, options)

    first, kinked = first_curvature(objective, colours), has_kinks(objective)
    outcome = lbfgs(scaled(free, first), fewer(options.max_steps) if kinked else options.max_steps, ROUGH)
    curve = curve_at(params_of(objective, outcome))
    open_ = examine(objective, params_of(objective, outcome), curve, first, colours)
    left = None if options.max_steps is None else options.max_steps - outcome.steps
    if open_.direction is None and left != 0 and (kinked or outcome.reason in ("converged", "stalled")):
        outcome = joined(outcome, lbfgs(scaled(outcome.free, curve), fewer(left) if kinked else left))
        outcome = settle(objective, outcome, curve_at, options.max_steps) if kinked and outcome.reason != "converged" else outcome
        inside, pull = off_wrong_edges(objective, outcome.free)
        if pull:
            outcome = joined(outcome, lbfgs(scaled(inside, curve_at(objective.frame.constrain(inside, objective.held))), left))
            outcome = settle(objective, outcome, curve_at, options.max_steps) if kinked and outcome.reason != "converged" else outcome
            pull = off_wrong_edges(objective, outcome.free)[1]
            outcome = dataclasses.replace(outcome, reason="stalled", gradient=pull) if pull else outcome
        curve = curve_at(params_of(objective, outcome))
        if objective.gaps is not None:  # without the linear programme, the curvature at the end is what tells
            open_ = examine(objective, params_of(objective, outcome), curve, first, colours)
    return outcome, curve, open_


def stochastic(objective: Objective, mask: LoweredMask, free: dict[str, Any], options: Options) -> Outcome:
    """Minibatches keyed by step: rows, and drawn masks, depend on (seed, step) only."""
    assert options.optimizer is not None
    rows = int((np.asarray(objective.weights) > 0).sum())  # rows with gaps lie apart: every batch has all of them
    size = objective.codes.shape[1] if options.batch_size is None else min(options.batch_size, rows)
    alive = jnp.flatnonzero(objective.weights > 0)
    key, host = jax.random.key(options.seed), objective.frame.host

    def batch(step: int) -> Objective:
        if options.batch_size is None or not rows:
            return objective
        here = jax.random.fold_in(key, step)
        chosen = alive[jax.random.choice(here, rows, (size,), replace=False)]
        codes = objective.codes[:, chosen]
        masks = None
        if objective.masks is not None:
            masks = draw_masks(host, mask, codes, objective.masks.shape[0], jax.random.fold_in(here, 1))
        weights = objective.weights[chosen] * (rows / size)
        return dataclasses.replace(objective, codes=codes, weights=weights, masks=masks, chunk=size)

    steps = 2000 if options.max_steps is None else options.max_steps
    outcome = minibatches(batch, free, options.optimizer, steps, shows_progress(options.progress))
    # Minibatches say nothing about the whole: judge the end by the gradient over all rows.
    gradient = jax.tree.leaves(gradient_at(objective, outcome.free))
    largest = max((float(jnp.abs(g).max(initial=0.0)) for g in gradient), default=0.0)
    return dataclasses.replace(outcome, gradient=largest)


def shows_progress(wanted: bool | None) -> bool:
    """Whether to show a bar: as wanted, or where a person watches."""
    import os
    import sys

    if wanted is not None:
        return wanted
    return sys.stderr.isatty() and not os.environ.get("CI")


def params_of(objective: Objective, outcome: Outcome) -> dict[str, jax.Array]:
    """The parameters at which a minimiser stopped."""
    return objective.frame.constrain(outcome.free, objective.held)


def curvature_at(
    objective: Objective, params: dict[str, jax.Array], colours: Colouring | None, options: Options, copies: Copies | None = None
) -> Curvature | None:
    """Where it is affordable and the parameters are finite."""
    flat = np.concatenate([np.ravel(v) for v in params.values()] or [np.zeros(0)])
    if flat.size > MOST_INFERRED or not np.isfinite(flat).all():
        return None
    return curvature(objective, params, colours, copies, options.weights_are == "counts")


def first_curvature(objective: Objective, colours: Colouring | None, copies: Copies | None = None) -> Curvature | None:
    """The curvature at the start of the complete rows, which is cheap: it scales the minimiser."""
    whole = complete_rows(objective, copies)
    return None if colours is None or not bool((whole.weights > 0).any()) else curvature(whole, objective.held, colours)
