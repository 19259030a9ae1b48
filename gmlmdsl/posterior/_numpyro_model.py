"""An ordinary NumPyro model of a model's parameters: a site for each, and what the data say as a factor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import fail
from ..assess import How
from ..derive import float_type, no_joint
from ..evaluate import init_params, log_prior_of, verify_densities, verify_names
from ..fit import Evidence, verified_rows, verify_possible
from ._calibration import CURVATURE, OPEN_FACED, SIMULATED, Calibration, Source, calibrate
from ._likelihood import Likelihood, distinct_rows, is_likelihood, likelihood_of_rows

Array = np.ndarray
LIKELIHOOD, UNCALIBRATED = "the likelihood: no calibration is needed", "not calibrated"


class NumpyroModel:
    """What `Model.to_numpyro` returns: a NumPyro model, to be called by its kernels, guides and handlers, or within another model.

    Attributes:
        likelihood: what the data say, as a function of parameters: the model's factor.
        calibration: in words: how it was calibrated, "not calibrated", or that it is a likelihood.
    """

    def __init__(self, name: str, likelihood: Likelihood, calibration: str) -> None:
        self.__name__, self.likelihood, self.calibration = name, likelihood, calibration
        self._sites = likelihood.sites

    def __call__(self, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Declare the sites and the factor, named `<model>.data`.

        Args:
            params: parameters that the caller computes, by name: they have no site here, and no prior.

        Returns:
            All parameters by name.

        Raises:
            GmlmError: E506 for an unknown name, E501 for a shape that does not fit.
        """
        import numpyro

        given = {} if params is None else self._verified(params)
        values: dict[str, Any] = dict(self.likelihood.objective.held)
        for site in self._sites:
            p = site.parameter
            if p.name in given:
                values[p.name] = given[p.name]
                continue
            law, apart = site.law()
            values[p.name] = site.value(numpyro.sample(site.name, law), values[p.name])
            if site.on_tangent:
                numpyro.deterministic(p.name, values[p.name])
            if apart:
                numpyro.factor(f"{p.name}.prior", log_prior_of(p, values[p.name]))
        numpyro.factor(f"{self.__name__}.data", self.likelihood(values))
        return values

    def log_likelihood(self, params: Mapping[str, Any]) -> Array:
        """-c * weight * loss of each row at all parameters, shape (rows,), not calibrated: of `everything` log p(x_r)."""
        values = dict(self.likelihood.objective.held) | self._verified(params)
        return self.likelihood.by_row(np.asarray(distinct_rows(self.likelihood, values)))

    def _verified(self, params: Mapping[str, Any]) -> dict[str, jax.Array]:
        graph = self.likelihood.graph
        verify_names(params, [p.name for p in graph.parameters], "params")
        found = {}
        for p in graph.parameters:
            if p.name in params:
                found[p.name] = jnp.asarray(params[p.name], float_type())
                if found[p.name].shape != p.shape:
                    raise fail("E501", f"params[{p.name!r}] must have shape {p.shape}, got {found[p.name].shape}")
        return found

    def __repr__(self) -> str:
        sites = ", ".join(f"`{s.name}`" for s in self._sites)
        rows = len(self.likelihood.weights)
        return f"NumPyro model of `{self.__name__}` given {rows:,} rows: sites {sites}; {self.calibration}"


def to_numpyro(evidence: Evidence, method: Any, how: How, meta: dict[str, Any], model: Any) -> NumpyroModel:
    """See `Model.to_numpyro`."""
    graph = evidence.lowered.graph
    if graph.network is not None:
        raise no_joint(graph)
    _verify_method(method)
    verify_densities(graph, "a NumPyro site needs one")
    weights = verified_rows(evidence.mask, evidence.codes, evidence.options)
    start = init_params(graph, evidence.options.seed)
    verify_possible(evidence.lowered, evidence.codes, weights, {k: jnp.asarray(v, float_type()) for k, v in start.items()})
    source = Source(evidence, meta, model, None, how if method == SIMULATED else None)
    calibration, words = calibrated(source, None if method is None else CURVATURE)
    return NumpyroModel(meta["model"], likelihood_of_rows(evidence, start, calibration), words)


def calibrated(source: Source, method: str | None) -> tuple[Calibration | None, str]:
    """The calibration that a likelihood, or its draws, are to have, with words for it; none of a likelihood."""
    if is_likelihood(source.evidence):
        return None, LIKELIHOOD
    if method is None:
        return None, UNCALIBRATED
    kind = "open-faced" if method == OPEN_FACED else CURVATURE
    spread = "the rows" if source.how is None else f"{source.how.draws:,} simulated data sets"
    return calibrate(source), f"calibrated: {kind}, S from {spread}"


def _verify_method(method: Any) -> None:
    if isinstance(method, str) and method == OPEN_FACED:
        message = 'calibrate="open_faced" transforms draws, and a NumPyro model has none: another factor would be drawn from'
        raise fail("E507", message, help='calibrate="curvature" calibrates the factor; `fit.posterior(calibrate="open_faced")` has draws')
    if method is not None and method not in (CURVATURE, SIMULATED):
        raise fail("E507", f'calibrate must be "curvature", "simulated" or None, got {method!r}')
