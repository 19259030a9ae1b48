"""Calibration: gives a posterior of a pseudolikelihood the covariance of its estimate.

Let H be the Hessian of c * loss and S the covariance of its gradient over data sets, both at the
minimiser of the loss alone. A posterior made of exp(-c loss) has the covariance H^-1, whereas the
estimate has the covariance V = H^-1 S H^-1. The curvature adjustment evaluates the loss at est + C
(theta - est) with C' H C = V^-1 = H S^-1 H. The open-faced adjustment multiplies draws by the
inverse of C instead. Several matrices C satisfy the equation; this one is (S^-1 H)^(1/2), which is
equivariant under linear changes of coordinates.

Reference: Ribatet, Cooley and Davison 2012, Section 2.3; Shaby 2014, "The open-faced sandwich
adjustment for MCMC".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from .._diagnostics import fail
from .._types import AnyArray, ArrayLike, JsonObject
from ..assess import NO_MINIMUM, How, simulated_errors
from ..derive import float_type, on_device
from ..evaluate import tangent
from ..fit import (
    AT_BOUND,
    EQUAL_GRADIENTS,
    FEWEST_ROWS,
    MOST_INFERRED,
    TOO_FEW,
    Estimate,
    Evidence,
    FitRecord,
    estimate_to_fit,
    fit_model,
    scored_rows,
)
from ._sites import Site, at_coordinates, coordinates, jacobian, sites_of
from .limits import LEAST_VARIANCE

if TYPE_CHECKING:
    from .._diagnostics import GmlmError
    from ..graph import ParameterArray

Array = np.ndarray
CURVATURE, OPEN_FACED, SIMULATED = "curvature", "open_faced", "simulated"
# The simulated data sets that determine S, by the kind of calibration; the rows do in others.
DATA_SETS: Mapping[str | None, How] = {SIMULATED: How(1000, 0, None, 500)}
WITHOUT = "`calibrate=None` draws from the posterior of the loss as it is, labelled: not calibrated"
RIGHT = 'take the model as right: `calibrate="simulated"`; or '


class Calibration(eqx.Module):
    """A linear map of coordinates around a centre."""

    centre: jax.Array
    matrix: jax.Array

    def moved(self, sites: tuple[Site, ...], params: Mapping[str, AnyArray]) -> dict[str, Any]:
        """Return the parameters at centre + matrix (coordinates - centre)."""
        return at_coordinates(sites, self.at(coordinates(sites, params)), params)

    def at(self, vector: AnyArray) -> jax.Array:
        """Return centre + matrix (vector - centre) for coordinates of shape (.., size)."""
        return self.centre + (vector - self.centre) @ self.matrix.T

    def inverse(self, centre: jax.Array) -> Calibration:
        """Return the map with the inverse matrix, around another centre."""
        return Calibration(centre, on_device(np.linalg.inv(np.asarray(self.matrix, np.float64)), float_type()))


@dataclass(frozen=True)
class Source:
    """The inputs of a calibration.

    Attributes:
        evidence: the rows under a mask.
        meta: the text and numbers of the model, as a fit records them.
        model: a function that returns the model, see `FitRecord.model`.
        init: the starting values of some parameters.
        how: the options of simulated data sets that determine S. None: the rows determine S.
    """

    evidence: Evidence
    meta: JsonObject
    model: Any
    init: Mapping[str, ArrayLike] | None = None
    how: How | None = None


def calibrate(source: Source) -> Calibration:
    """Return the curvature adjustment at the minimiser of the loss alone.

    The map is in NumPyro's coordinates, and in the working float type.

    Raises:
        GmlmError: E554 if the loss has no minimiser, or S has no inverse; and the errors of
            `fit_model` and `simulated_errors`.
    """
    evidence = _without_priors(source)
    if source.how is None and scored_rows(evidence) < FEWEST_ROWS:
        raise _no_calibration(f"there is {scored_rows(evidence):.3g} effective row, which does not tell how far rows differ", RIGHT)
    estimate = fit_model(evidence.lowered, evidence.mask, evidence.codes, dataclasses.replace(evidence.options, progress=False))
    _verify_minimiser(estimate)
    found = _covariances(source, evidence, estimate)
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        graph, sites = evidence.lowered.graph, sites_of(source.evidence.lowered.graph, estimate.fixed)
        params = {k: on_device(v, np.float64) for k, v in estimate.params.items()}
        basis = tangent(graph, frozenset(estimate.fixed))
        centre = np.asarray(coordinates(sites, params))
        slopes = jacobian(graph, sites, params, basis)
        adjustment = _adjustment(*found, basis)
        if adjustment is None:
            who, remedy = ("the rows", RIGHT) if source.how is None else ("the simulated data sets", "")
            raise _no_calibration(f"{who} do not differ in some direction of the parameters: S has no inverse", remedy)
        matrix = np.linalg.solve(slopes, adjustment @ slopes)
    return Calibration(on_device(centre, float_type()), on_device(matrix, float_type()))


def _without_priors(source: Source) -> Evidence:
    """Return the same evidence with the model without priors.

    Rows whose missing cells cost too much raise an error and are not imputed.
    """
    evidence, graph = source.evidence, source.evidence.lowered.graph
    bare = graph.with_parameters(tuple(dataclasses.replace(p, prior=None) for p in graph.parameters))
    given = source.init or {}
    init = {p.name: given[p.name] for p in graph.parameters if p.name in given and _is_inside(p, given[p.name])}
    options = dataclasses.replace(evidence.options, init=init or None, impute=False, method=None)
    options = dataclasses.replace(options, optimizer=None, batch_size=None, max_steps=None)
    return dataclasses.replace(evidence, lowered=dataclasses.replace(evidence.lowered, graph=bare), options=options)


def _is_inside(p: ParameterArray, value: ArrayLike) -> bool:
    """Return whether a start lies within the open range of its parameter, as starts of a fit must."""
    return bool(((np.asarray(value) > p.lower) & (np.asarray(value) < p.upper)).all())


def _verify_minimiser(estimate: Estimate) -> None:
    status = estimate.status
    edges = [f.message for f in status.findings if f.slug == AT_BOUND]
    if status.code in NO_MINIMUM or edges:
        said = edges or [f.message for f in status.findings] or [status.code]
        raise _no_calibration(f"without priors the loss has no minimiser to calibrate at ({status.code}): {said[0]}")
    if "sandwich" not in estimate.covariances:
        n = sum(np.size(v) for v in estimate.params.values())
        message = f"calibration takes the curvature of the loss, which is computed of {MOST_INFERRED:,} parameters at most: these are {n:,}"
        raise fail("E601", message, help=f"hold some with `fixed=`; or {WITHOUT}")


def _covariances(source: Source, evidence: Evidence, estimate: Estimate) -> tuple[Array, Array]:
    """Return H^-1 and H^-1 S H^-1 in the space of flat parameters.

    Both are zero in directions without an estimate.

    Raises:
        GmlmError: E554 if the rows do not determine S.
    """
    if source.how is not None:
        record = estimate_to_fit(FitRecord, estimate, evidence.lowered.graph, source.meta, source.model, np.float64)
        return estimate.covariances["laplace"], simulated_errors(record, source.how).determined["sandwich"]
    told = [f.message for f in estimate.status.findings if f.slug == TOO_FEW]
    if told or estimate.status.without_error.any():
        raise _no_calibration(
            told[0] if told else "all rows pull alike in some direction: they do not tell how far rows differ there", RIGHT
        )
    return estimate.covariances["laplace"], estimate.covariances["sandwich"]


def _adjustment(laplace: Array, sandwich: Array, basis: Array) -> Array | None:
    """Return C in the directions of the basis, or None if S has no inverse.

    C is (S^-1 H)^(1/2) in directions with an estimate, and the identity in the others. With K K' =
    H^-1 and W = K^-1 V K^-1', it is K W^(-1/2) K^-1: its square is H^-1 V^-1 = S^-1 H.
    """
    inverse, spread = (basis.T @ m @ basis for m in (laplace, sandwich))
    values, vectors = np.linalg.eigh(inverse)
    seen = values > LEAST_VARIANCE * max(values.max(initial=0.0), 1e-300)
    values, vectors = values[seen], vectors[:, seen]
    root, back = vectors * np.sqrt(values), (vectors / np.sqrt(values)).T
    ratios, turned = np.linalg.eigh(back @ spread @ back.T)
    if ratios.size and ratios.min() <= EQUAL_GRADIENTS * max(1.0, ratios.max()):
        return None
    return np.eye(basis.shape[1]) - vectors @ vectors.T + root @ (turned / np.sqrt(ratios)) @ turned.T @ back


def _no_calibration(why: str, remedy: str = "") -> GmlmError:
    return fail("E554", f"a posterior of this loss cannot be calibrated: {why}", help=remedy + WITHOUT)
