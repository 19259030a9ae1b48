"""Priors: one table of the distributions that a parameter may have, with their sums and checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jax.scipy.special import gammaln, xlogy

from .._diagnostics import fail, listed
from ..derive import all_values, float_type, group_arrays
from ..graph import FactorGraph, ParameterArray

# `spike_slab` gives 0 a positive probability, so that it has no density and no row in the table.
SPIKE_SLAB = "spike_slab"
Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class PriorDensity:
    """A distribution with a density.

    Attributes:
        log_density: a function of a value and of arguments that broadcast against it. It returns
            the log density of each entry, or of each row if `by_rows`.
        numpyro: a function of the module `numpyro.distributions` and of arguments of the
            parameter's shape. It returns the same distribution.
        lower, upper: the range of NumPyro's distribution; None if it is truncated to the
            parameter's range.
        at_least_one: the arguments that make the density unbounded if they are below 1.
        is_log_concave: whether -log density is convex.
        kink: a function of the arguments. It returns the place at which -log density is non-smooth,
            and the slope on either side of it. None for a smooth density.
        by_rows: whether the distribution is one of rows that sum to 1.
    """

    log_density: Callable[[jax.Array, Arguments], jax.Array]
    numpyro: Callable[[Any, Arguments], Any]
    lower: float | None = None
    upper: float | None = None
    at_least_one: tuple[str, ...] = ()
    is_log_concave: bool = True
    kink: Callable[[Arguments], tuple[np.ndarray, np.ndarray]] | None = None
    by_rows: bool = False


def _dirichlet(value: jax.Array, a: Arguments) -> jax.Array:
    """Return the log density of each row, also if rounding moves its sum from 1.

    JAX's own density is -inf there.
    """
    c = jnp.broadcast_to(a["concentration"], value.shape)
    return xlogy(c - 1, value).sum(-1) + gammaln(c.sum(-1)) - gammaln(c).sum(-1)


DENSITIES = {
    "normal": PriorDensity(lambda value, a: stats.norm.logpdf(value, a["mean"], a["sd"]), lambda dist, a: dist.Normal(a["mean"], a["sd"])),
    "laplace": PriorDensity(
        lambda value, a: stats.laplace.logpdf(value, a["mean"], a["scale"]),
        lambda dist, a: dist.Laplace(a["mean"], a["scale"]),
        kink=lambda a: (a["mean"], 1 / np.asarray(a["scale"], float)),
    ),
    "student_t": PriorDensity(
        lambda value, a: stats.t.logpdf(value, a["df"], a["mean"], a["scale"]),
        lambda dist, a: dist.StudentT(a["df"], a["mean"], a["scale"]),
        is_log_concave=False,
    ),
    "half_normal": PriorDensity(
        lambda value, a: math.log(2) + stats.norm.logpdf(value, 0.0, a["sd"]), lambda dist, a: dist.HalfNormal(a["sd"]), lower=0.0
    ),
    "half_cauchy": PriorDensity(
        lambda value, a: math.log(2) + stats.cauchy.logpdf(value, 0.0, a["scale"]),
        lambda dist, a: dist.HalfCauchy(a["scale"]),
        lower=0.0,
        is_log_concave=False,
    ),
    "exponential": PriorDensity(
        lambda value, a: stats.expon.logpdf(value, 0.0, 1 / a["rate"]), lambda dist, a: dist.Exponential(a["rate"]), lower=0.0
    ),
    "gamma": PriorDensity(
        lambda value, a: stats.gamma.logpdf(value, a["shape"], scale=1 / a["rate"]),
        lambda dist, a: dist.Gamma(a["shape"], a["rate"]),
        lower=0.0,
        at_least_one=("shape",),
    ),
    "beta": PriorDensity(
        lambda value, a: stats.beta.logpdf(value, a["a"], a["b"]),
        lambda dist, a: dist.Beta(a["a"], a["b"]),
        lower=0.0,
        upper=1.0,
        at_least_one=("a", "b"),
    ),
    "dirichlet": PriorDensity(
        _dirichlet, lambda dist, a: dist.Dirichlet(a["concentration"]), at_least_one=("concentration",), by_rows=True
    ),
}


def density_of(p: ParameterArray) -> PriorDensity | None:
    """Return the density of a parameter's prior; None without a prior or without a density."""
    return None if p.prior is None else DENSITIES.get(p.prior.name)


def log_prior(graph: FactorGraph, params: Mapping[str, jax.Array]) -> jax.Array:
    """Return the sum of the log prior densities.

    A density is of each entry, or of each row for a dirichlet.
    """
    total = jnp.zeros((), float_type())
    for p in graph.parameters:
        if p.prior is not None:
            total = total + log_prior_of(p, params[p.name]).sum()
    return total + log_hyperpriors(graph, params)


def log_hyperpriors(graph: FactorGraph, params: Mapping[str, jax.Array]) -> jax.Array:
    """Return the sum of the log densities of entries whose prior has parameters as arguments."""
    total, nowhere = jnp.zeros((), float_type()), jnp.zeros((1, 1), jnp.int32)
    # A prior by rows stands at the declaration, so that it is of all entries, row-major.
    rows = {p.name: p.shape[-1:] for p in graph.parameters}
    for h in graph.hyperpriors:
        density = DENSITIES[h.name]
        shape = (-1, *rows[h.parameter]) if density.by_rows else (-1,)
        arguments = {name: all_values(group_arrays(g, 1), params, nowhere)[:, 0].reshape(shape) for name, g in h.arguments.items()}
        value = jnp.ravel(params[h.parameter])[h.entries].reshape(shape)
        total = total + density.log_density(value, arguments).sum()
    return total


def log_prior_of(p: ParameterArray, value: jax.Array) -> jax.Array:
    """Return the log prior density of each entry of one parameter.

    The prior must have a density. If it is `by_rows`, the result has one number for each row.
    """
    density = density_of(p)
    assert p.prior is not None
    assert density is not None  # `verify_densities` has raised an error otherwise
    arguments = {k: jnp.asarray(v, float_type()) for k, v in p.prior.arguments.items()}
    found = density.log_density(value, arguments)
    return jnp.broadcast_to(found, p.shape[:-1] if density.by_rows else p.shape)


def verify_bounded_priors(graph: FactorGraph, fixed: frozenset[str] = frozenset()) -> None:
    """Raise an error for a prior whose density has no maximum, or that has no density.

    `fixed` are parameters that are not fitted.

    Raises:
        GmlmError: E701, E706, E708.
    """
    verify_densities(graph, "a fit seeks the maximum of a density")
    for h in graph.hyperpriors:
        unbounded = next((name for name, g in h.arguments.items() if name != "mean" and not set(g.parameters) <= fixed), None)
        if unbounded is not None:
            of = listed(h.arguments[unbounded].parameters)
            message = f"`{unbounded}` of this prior is fitted too ({of}): the joint density grows without bound as entries gather"
            hold = f"`fixed={{{h.arguments[unbounded].parameters[0]!r}: ..}}`"
            help = f"draw from the posterior, by `model.posterior(..)` or `to_numpyro`; or hold it, {hold}, or declare an input"
            raise fail("E708", message, h.span, "no optimum", help=help)
    for p in graph.parameters:
        density = density_of(p)
        if density is None or p.prior is None:
            continue
        for name in density.at_least_one:
            if (p.prior.arguments[name] < 1).any():
                message = f"the prior of `{p.name}` has unbounded density: `{name}` is {p.prior.arguments[name].min():g}, below 1"
                raise fail("E701", message, p.prior.span, "no optimum", help="use a value of at least 1")


def verify_densities(graph: FactorGraph, why: str) -> None:
    """Raise E706 for a prior without a density: `spike_slab`, which gives 0 a positive probability.

    `why` states in the message why a density is needed.

    Raises:
        GmlmError: E706.
    """
    for p in graph.parameters:
        if p.prior is not None and density_of(p) is None:
            message = f"`{p.name}` is 0 exactly with a probability of its own: it has no density, and {why}"
            help = "sample it by `model.posterior(x, mask=..)`; or give it `laplace(0, scale)`, under which estimates are 0 exactly, too"
            raise fail("E706", message, p.prior.span, "only sampled", help=help)


def has_proper_prior(graph: FactorGraph, p: ParameterArray) -> bool:
    """Return whether every entry of a parameter has a prior."""
    entries = {int(e) for h in graph.hyperpriors if h.parameter == p.name for e in h.entries}
    return p.prior is not None or len(entries) == p.size


def is_log_concave(p: ParameterArray) -> bool:
    """Return whether -log prior is convex."""
    density = density_of(p)
    return p.prior is None or (density is not None and density.is_log_concave)


def laplace_priors(host: FactorGraph, fixed: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the centre and the slope 1 / scale of the laplace prior of each entry.

    The entries are those of the flat parameter vector. The slope is 0 if the entry has no laplace
    prior, or one that is ignored here: a gauge moves entries together, and a bounded parameter is
    fitted on a different scale. The non-smooth points of such priors are left to the minimiser.
    """
    centres, slopes = [], []
    for p in host.parameters:
        centre, slope = np.zeros(p.shape), np.zeros(p.shape)
        density, is_free = density_of(p), p.kind == "real" and not p.gauge and p.name not in fixed
        if is_free and p.prior is not None and density is not None and density.kink is not None:
            centre, slope = (np.broadcast_to(a, p.shape) for a in density.kink(p.prior.arguments))
        centres.append(np.ravel(centre))
        slopes.append(np.ravel(slope))
    return np.concatenate([*centres, np.zeros(0)]), np.concatenate([*slopes, np.zeros(0)])


def has_kinks(host: FactorGraph, fixed: Sequence[str]) -> bool:
    """Return whether `laplace_priors` finds some laplace prior."""
    return bool(laplace_priors(host, fixed)[1].any())
