"""Non-smooth laplace priors: an estimate may stay at the centre of its prior.

Such entries are found by an active set, and judged by the subdifferential. At a minimiser, the
smooth part of the objective has |gradient| <= 1 / scale in an entry at its prior's centre, and
gradient -sign(entry - centre) / scale in any other entry (Tibshirani 1996; Rockafellar 1970,
Theorem 27.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from .._types import AnyArray, Arrays
from ..evaluate import Objective, flatten, gradient_at, laplace_priors, unflatten
from ..graph import FactorGraph
from ._inference import Curvature
from ._long_fit import LongFit
from ._optimise import Outcome, Scaled, joined, lbfgs, scaling
from .limits import GRADIENT_TOLERANCE, KINK_SLACK, MOST_KINK_ROUNDS, STEPS_PER_KINK_ROUND

Array = np.ndarray
# by parameter with a former laplace prior: the entries that do not move, in row-major order
Selected = Mapping[str, Sequence[int]]


def fewer(steps: int | None) -> int:
    """Return the number of steps of one run, given the number of steps that are left."""
    return STEPS_PER_KINK_ROUND if steps is None else min(steps, STEPS_PER_KINK_ROUND)


def at_kinks(host: FactorGraph, fixed: Sequence[str], params: Mapping[str, AnyArray]) -> Array:
    """Return the entries that are at the centre of their laplace prior."""
    centres, slopes = laplace_priors(host, fixed)
    flat = np.asarray(flatten(host, params))
    return (slopes > 0) & (flat == centres.astype(flat.dtype))


def held_graph(graph: FactorGraph, selected: Selected | None) -> FactorGraph:
    """Return the graph without the laplace priors of a selection.

    Entries that are not selected do not move.
    """
    if selected is None:
        return graph
    parameters = (replace(p, prior=None, still=tuple(selected[p.name])) if p.name in selected else p for p in graph.parameters)
    return graph.with_parameters(tuple(parameters))


def without_interval(host: FactorGraph, fixed: Sequence[str], params: Mapping[str, AnyArray]) -> Array:
    """Return the entries whose value a laplace prior determined.

    They are at its centre, or were held there by a fit of the other entries.
    """
    still = [np.isin(np.arange(p.size), p.still) for p in host.parameters]
    return at_kinks(host, fixed, params) | np.concatenate([*still, np.zeros(0, bool)])


def settle(
    objective: Objective, outcome: Outcome, curve_at: Callable[[Arrays], Curvature | None], steps: int | None, run: LongFit | None = None
) -> Outcome:
    """Continue the minimisation from the point at which L-BFGS stalled at non-smooth points.

    Entries that a step of coordinate descent would leave at the centre of their prior are held
    there, and the rest is minimised. Entries are held or released until the subdifferential
    contains 0.

    Args:
        objective: the objective.
        outcome: the outcome of L-BFGS.
        curve_at: a function from parameters to the curvature there, or to None.
        steps: the maximum number of steps, None for no limit.
        run: the saved states of the fit; None saves nothing.
    """
    host = objective.frame.host
    centres, slopes = laplace_priors(host, objective.frame.fixed)
    if outcome.reason == "diverged":
        return outcome
    scale, free = float(objective.scale), outcome.free
    for _ in range(MOST_KINK_ROUNDS):
        params = objective.frame.constrain(free, objective.held)
        curve = curve_at(params)
        if curve is None or not np.isfinite(curve.hessian).all():
            return outcome
        away = np.asarray(flatten(host, params)) - centres
        # JAX differentiates |t| to 1 at t = 0.
        smooth = scale * _gradient(objective, free) - slopes * np.where(away >= 0, 1.0, -1.0)
        stiff = np.einsum("pj,jk,pk->p", curve.basis, curve.hessian, curve.basis)
        # The soft threshold of these entries is 0.
        held = (slopes > 0) & (np.abs(stiff * away - smooth) <= slopes * (1 + KINK_SLACK))
        free = _moved(objective, free, np.where(held, centres, centres + away), held)
        left = None if steps is None else steps - outcome.steps
        if left is not None and left <= 0:
            return outcome
        outcome = joined(outcome, lbfgs(Scaled(objective, free, _others(objective, free, curve, held)), fewer(left), run=run))
        free = outcome.free
        pulled = np.abs(scale * _gradient(objective, free) - slopes) - slopes * (1 + KINK_SLACK)
        # the distance of the subdifferential from 0
        excess = float(pulled[held].max(initial=0.0)) / scale
        if max(excess, outcome.gradient) <= GRADIENT_TOLERANCE:
            return outcome
        outcome = replace(outcome, gradient=max(excess, outcome.gradient), reason="stalled")
    return outcome


def _gradient(objective: Objective, free: Arrays) -> Array:
    """Return the gradient per row, in the order of the flat vector, of the real parameters.

    Real parameters equal their unconstrained arrays. The entries of other parameters are 0, because
    they have no non-smooth points here.
    """
    found, host = gradient_at(objective, free), objective.frame.host
    parts = [np.ravel(found[p.name]) if p.kind == "real" and p.name in found else np.zeros(p.size) for p in host.parameters]
    return np.concatenate([*parts, np.zeros(0)])


def _moved(objective: Objective, free: Arrays, flat: Array, held: Array) -> Arrays:
    """Return the unconstrained parameters with the held entries at their centres.

    The parameters concerned equal their unconstrained arrays.
    """
    host, out = objective.frame.host, dict(free)
    values, still = unflatten(host, flat), unflatten(host, held)
    for name, mine in still.items():
        if mine.any():
            out[name] = jnp.asarray(np.where(mine, values[name], np.asarray(free[name]).reshape(mine.shape)))
    return out


def _others(objective: Objective, free: Arrays, curve: Curvature, held: Array) -> Array:
    """Return a scaling that moves no held entry.

    Columns of zeros preserve its shape, so that no iteration compiles again.
    """
    size = curve.basis.shape[1]
    rest = curve.without(np.eye(len(held))[:, held])
    if not rest.basis.shape[1]:
        return np.zeros((sum(v.size for v in jax.tree.leaves(free)), size))
    matrix = scaling(objective, free, rest.hessian / float(objective.scale), rest.basis)
    assert matrix is not None  # The Hessian is finite and has entries.
    return np.pad(matrix, ((0, 0), (0, size - matrix.shape[1])))
