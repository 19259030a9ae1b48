"""Fits of one model to the same rows under many weights, as bootstraps need them.

Rows are put on the device once. Each fit starts at the estimate, in coordinates in which the
Hessian of the whole data is the identity, so that its first step is nearly Newton's. Standard
errors are not computed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..derive import Spread, on_device
from ..evaluate import Objective, has_kinks, is_convex
from ..graph import FactorGraph
from ._fit import fit_model, start_of, verified_rows
from ._minimise import curvature_at, infers, looking, params_of, start_of_vanished
from ._optimise import Outcome, Scaled, lbfgs, scaling
from ._options import Evidence, FitOptions
from ._prepare import Prepared, make_objective, objective_colouring, verify_possible
from ._status import Status, judge, stopped
from .limits import DISTINCT_SHARE, MOST_REFIT_SCALED

Array = np.ndarray
BOUNDED = ("positive", "bounded", "simplex", "ordered")


@dataclass(frozen=True)
class Refit:
    """An estimate under some weights, and the parts of its status that do not need an error.

    Attributes:
        params: the estimate.
        code: the code of the status.
        separated: see `Status`.
        undetermined: see `Status`.
    """

    params: dict[str, Array]
    code: str
    separated: Array
    undetermined: Array


class Reweighted:
    """A function from weights of the rows to the fit under them.

    Args:
        evidence: the rows and options of the fit.
        start: the values at which each fit starts.
        spread: the axis of a mesh over which rows are spread, or None.

    A fit that needs more than the minimiser of an objective of fixed rows is a usual fit. Examples
    are fits with drawn cells, a kink, a bound, minibatches, or masks that vary with rows.
    """

    def __init__(self, evidence: Evidence, start: Mapping[str, Array], spread: Spread | None = None):
        self.evidence, self.spread = evidence, spread
        self.options = dataclasses.replace(evidence.options, init=start, progress=False, asks_data_alone=False)
        self.place: Array | None = None
        self._quick = self._prepared(evidence) if _is_plain(evidence) else None

    def __call__(self, weights: Array) -> Refit:
        """Return the fit under weights of shape (rows,)."""
        axis = None if self.spread is None else self.spread.axis
        options = dataclasses.replace(self.options, weights=weights, mesh_axis=axis)
        if self._quick is None:
            found = fit_model(self.evidence.lowered, self.evidence.mask, self.evidence.codes, options)
            return Refit(found.params, found.status.code, found.status.separated, found.status.undetermined)
        verified_rows(self.evidence.mask, self.evidence.codes, options)
        with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
            objective = self._objective(self._quick, weights)
            outcome = lbfgs(Scaled(objective, self._origin, self._matrix), options.max_steps)
            params, host = params_of(objective, outcome), objective.frame.host
            if self._is_sure:
                nothing = np.zeros(sum(p.size for p in host.parameters), np.int8)
                code = _code(outcome, self._quick)
                return Refit({k: np.asarray(v) for k, v in params.items()}, code, nothing, nothing.astype(bool))
            status = self._judged(objective, params, outcome, options)
        return Refit({k: np.asarray(v) for k, v in params.items()}, status.code, status.separated, status.undetermined)

    def _prepared(self, evidence: Evidence) -> Prepared | None:
        """Return the objective of all rows, or None if some cells are drawn."""
        lowered, mask, options = evidence.lowered, evidence.mask, self.options
        with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
            codes = evidence.codes
            weights = verified_rows(mask, codes, options)
            start, fixed = start_of(lowered.graph, options)
            verify_possible(lowered, codes, weights, start)
            if options.n_masks is None:
                distinct, place = np.unique(codes, axis=1, return_inverse=True)
                if distinct.shape[1] <= DISTINCT_SHARE * codes.shape[1]:
                    codes, self.place = distinct, place.ravel()
                    weights = np.bincount(self.place, weights, codes.shape[1])
            plain = dataclasses.replace(options, weights=None)
            found = make_objective(lowered.graph, mask, codes, weights, start, fixed, plain, spread=self.spread)
            if found.imputed is not None:
                return None
            objective = found.objective
            self._origin = objective.frame.unconstrain({k: np.asarray(v) for k, v in objective.held.items()})  # pyright: ignore[reportArgumentType]
            self._colours = functools.cache(functools.partial(objective_colouring, objective))
            self._is_sure = _has_one_minimum(objective, lowered.graph, found)
            self._matrix = None
            if sum(p.size for p in lowered.graph.parameters) <= MOST_REFIT_SCALED and infers(objective, objective.held):
                curve = curvature_at(objective, objective.held, self._colours(), options)
                if curve is not None:
                    self._matrix = scaling(objective, self._origin, curve.hessian / float(objective.scale), curve.basis)
            return found

    def _objective(self, prepared: Prepared, weights: Array) -> Objective:
        """Return the objective under other weights of the rows."""
        objective, total = prepared.objective, float(weights.sum())
        own = weights if self.place is None else np.bincount(self.place, weights, int(self.place.max()) + 1)
        dtype = objective.weights.dtype
        each = np.pad(own[prepared.columns], (0, objective.weights.shape[0] - len(prepared.columns)))
        lacking = None if objective.gap_weights is None else on_device(own[prepared.summed].astype(dtype))
        placed = on_device if self.spread is None else self.spread.put
        return dataclasses.replace(
            objective, weights=placed(each.astype(dtype)), scale=on_device(np.asarray(total, dtype)), gap_weights=lacking
        )

    def _judged(self, objective: Objective, params: Any, outcome: Outcome, options: FitOptions) -> Status:
        """Return the status, after examining which directions the data leave open."""
        assert self._quick is not None
        colours = self._colours
        look = looking(objective, params, colours, options, lambda curve: start_of_vanished(objective, curve, colours()))
        curve, open_ = look()
        return judge(objective, params, outcome, open_, curve, colours(), self._quick.missing)


def _is_plain(evidence: Evidence) -> bool:
    """Return whether the fit minimises a smooth objective of fixed rows by L-BFGS."""
    options, host = evidence.options, evidence.lowered.graph
    fixed = tuple(options.fixed or ())
    bounded = any(p.kind in BOUNDED and p.name not in fixed for p in host.parameters)
    plain = options.optimizer is None and options.method is None and not options.impute
    return plain and not bounded and not evidence.mask.varies and not has_kinks(host, fixed)


def _has_one_minimum(objective: Objective, host: FactorGraph, found: Prepared) -> bool:
    """Return whether the objective has exactly one minimum under all weights.

    It is convex, and the normal prior of every free parameter grows without bound.
    """
    convex = is_convex(host) and (found.missing.ignored or not found.missing.any)
    free = [p for p in host.parameters if p.name not in objective.frame.fixed]
    return convex and all(p.prior is not None and p.prior.name == "normal" for p in free)


def _code(outcome: Outcome, found: Prepared) -> str:
    if outcome.reason == "diverged":
        return "diverged"
    return "not-converged" if stopped(outcome, found.missing) else "converged"
