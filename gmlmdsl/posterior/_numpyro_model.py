"""An ordinary NumPyro model of the parameters: a site for each, and the likelihood as a factor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from .._diagnostics import did_you_mean, fail
from .._types import ArrayLike, Arrays, JsonObject
from ..assess import How
from ..derive import float_type, no_joint
from ..evaluate import batched_params, given_params, init_params, log_hyperpriors, log_prior_of, over_rows, verify_defined, verify_densities
from ..fit import Evidence, verified_rows, verify_possible
from ..graph import FactorGraph
from ._calibration import CURVATURE, OPEN_FACED, SIMULATED, Calibration, Source, calibrate
from ._likelihood import Likelihood, is_likelihood, likelihood_of_rows, rows_at, value_at
from ._sites import Site

if TYPE_CHECKING:
    from numpyro.distributions import Distribution

Array = np.ndarray
LIKELIHOOD, UNCALIBRATED = "the likelihood: no calibration is needed", "not calibrated"


class NumpyroModel:
    """A NumPyro model, the result of `Model.to_numpyro`.

    It can be called by NumPyro's kernels, guides and handlers, or within another model.

    Attributes:
        likelihood: the model's factor as a function of parameters.
        calibration: a description of the calibration, "not calibrated", or the statement that the
            factor is a likelihood.
    """

    def __init__(self, name: str, likelihood: Likelihood, calibration: str, bound: FactorGraph | None = None) -> None:
        self._bound = bound  # with the given data, so that factors which read them are verified
        self.__name__, self.likelihood, self.calibration = name, likelihood, calibration
        self._sites = likelihood.sites

    def __call__(self, params: Mapping[str, ArrayLike] | None = None) -> Arrays:
        """Declare the sites and the factor, named `<model>.data`.

        Args:
            params: parameters that the caller computes, by name. They have neither a site nor a
                prior here.

        Returns:
            All parameters by name.

        Raises:
            GmlmError: E507 unless `params` is a dict, and for a site that cannot be drawn because
                it lacks a key, its name is taken, or its prior is flat; E506, E501, E502, E504 and
                E509 for parameters that do not fit.
        """
        import numpyro

        if params is not None and not isinstance(params, Mapping):
            message = f"a NumPyro model of `{self.__name__}` takes a dict of parameters, or nothing; got {type(params).__name__}"
            raise fail("E507", message, help="its data are in it already: `mcmc.run(key)`; parameters are `model({'h': ..})`")
        given = {} if params is None else given_params(self.likelihood.graph, params)
        values: Arrays = dict(self.likelihood.objective.held)
        for site in self._sites:
            p = site.parameter
            if p.name in given:
                values[p.name] = given[p.name]
                continue
            law, apart = site.law()
            values[p.name] = site.value(_drawn(site, law), values[p.name])
            if site.on_tangent:
                numpyro.deterministic(p.name, values[p.name])
            if apart:
                numpyro.factor(f"{p.name}.prior", log_prior_of(p, values[p.name]).sum())
        graph = self.likelihood.graph
        if graph.hyperpriors:
            numpyro.factor(f"{self.__name__}.hyperpriors", log_hyperpriors(graph, values))
        numpyro.factor(f"{self.__name__}.data", value_at(self.likelihood, values))
        return values

    def log_likelihood(self, params: Mapping[str, ArrayLike]) -> Array:
        """Return -c * weight * loss of each row without calibration.

        Under `everything` this is log p(x_r).

        Args:
            params: all parameters, or a batch of each: arrays with the same axes before their own,
                such as draws of `mcmc.get_samples(group_by_chain=True)`, or the Dataset
                `idata["posterior"]`. Values of sites on a basis, `J.tangent`, are ignored; `J` is
                used instead.

        Returns:
            An array of shape (.., rows), with the axes of the batch first.

        Raises:
            GmlmError: E507, E506, E501, E502 for parameters that do not fit.
        """
        graph, basis = self.likelihood.graph, {s.name for s in self._sites if s.on_tangent}
        if isinstance(params, Mapping):
            params = {k: v for k, v in params.items() if k not in basis}
        values, batch = batched_params(graph, params)
        if self._bound is not None and not batch:
            verify_defined(self._bound, values)
        alone, flat = self.likelihood.of_any_rows, {}
        for p in graph.parameters:
            each = np.broadcast_to(np.asarray(values[p.name]), (*batch, *p.shape))
            flat[p.name] = np.moveaxis(each.reshape(-1, *p.shape), 0, -1)
        found = over_rows(lambda params: rows_at(alone, params), flat, (), self.likelihood.cost)
        return self.likelihood.by_row(found.T).reshape(*batch, -1)

    def __repr__(self) -> str:
        sites = ", ".join(f"`{s.name}`" for s in self._sites)
        rows = self.likelihood.rows
        return f"NumPyro model of `{self.__name__}` given {rows:,} rows: sites {sites}; {self.calibration}"


def _drawn(site: Site, law: Distribution) -> Any:
    """Return the value of a site.

    Diagnostics replace NumPyro's assertions on user errors.
    """
    import numpyro

    try:
        return numpyro.sample(site.name, law)
    except AssertionError as error:
        if "unique" in str(error):
            help = '`numpyro.handlers.scope(model, prefix="a")` gives its sites names of their own; or call the model with that parameter'
            raise fail("E507", f"two sites of a NumPyro program are called `{site.name}`", help=help) from error
        if str(error):
            raise
        help = "kernels, guides and `Predictive` have one; by hand `numpyro.handlers.seed(model, 0)`"
        raise fail("E507", f"there is no key to draw the site `{site.name}` with", help=help) from error


def to_numpyro(evidence: Evidence, method: object, how: How, meta: JsonObject, model: Any) -> NumpyroModel:
    """Return a NumPyro model of the parameters; see `Model.to_numpyro`.

    Args:
        evidence: the rows under a mask.
        method: "curvature", "simulated" or None.
        how: the options of simulated data sets.
        meta: the text and numbers of the model, as a fit records them.
        model: a function that returns the model.
    """
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
    return NumpyroModel(meta["model"], likelihood_of_rows(evidence, start, calibration), words, evidence.lowered.graph)


def calibrated(source: Source, method: str | None) -> tuple[Calibration | None, str]:
    """Return the calibration of a likelihood or of its draws, with a description.

    The calibration is None for a proper likelihood.
    """
    if is_likelihood(source.evidence):
        return None, LIKELIHOOD
    if method is None:
        return None, UNCALIBRATED
    kind = "open-faced" if method == OPEN_FACED else CURVATURE
    spread = "the rows" if source.how is None else f"{source.how.draws:,} simulated data sets"
    return calibrate(source), f"calibrated: {kind}, S from {spread}"


def verify_choice(method: object, choices: tuple[str, ...]) -> None:
    """Raise E507 unless `method` is None or one of the choices.

    Raises:
        GmlmError: E507.
    """
    if method is not None and not (isinstance(method, str) and method in choices):
        near = did_you_mean(method.lower(), choices) if isinstance(method, str) else None
        help = f'did you mean "{near}"?' if near else "None draws from the loss as it is, labelled: not calibrated"
        words = ", ".join(f'"{c}"' for c in choices)
        raise fail("E507", f"calibrate must be {words} or None, got {method!r}", help=help)


def _verify_method(method: object) -> None:
    if isinstance(method, str) and method == OPEN_FACED:
        message = 'calibrate="open_faced" transforms draws, and a NumPyro model has none: another factor would be drawn from'
        raise fail("E507", message, help='calibrate="curvature" calibrates the factor; `fit.posterior(calibrate="open_faced")` has draws')
    verify_choice(method, (CURVATURE, SIMULATED))
