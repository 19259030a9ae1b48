"""Normalised log densities of the priors, entry by entry."""

from __future__ import annotations

import itertools
import math

import numpy as np

from gmlmdsl.program import ir

from ._expressions import Scope, evaluate


def log_normal(x: float, mean: float, sd: float) -> float:
    """-(x - mean)^2 / (2 sd^2) - log(sd) - log(2 pi) / 2."""
    return -((x - mean) ** 2) / (2 * sd**2) - math.log(sd) - math.log(2 * math.pi) / 2


def log_laplace(x: float, mean: float, scale: float) -> float:
    """-|x - mean| / scale - log(2 scale)."""
    return -abs(x - mean) / scale - math.log(2 * scale)


def log_student_t(x: float, df: float, mean: float, scale: float) -> float:
    """Student's t with location and scale."""
    constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2 - math.log(scale)
    return constant - (df + 1) / 2 * math.log1p(((x - mean) / scale) ** 2 / df)


def log_gamma(x: float, shape: float, rate: float) -> float:
    """Its value is shape log(rate) - log Gamma(shape) + (shape - 1) log(x) - rate x."""
    return shape * math.log(rate) - math.lgamma(shape) + power(x, shape - 1) - rate * x


def log_beta(x: float, a: float, b: float) -> float:
    """(a - 1) log(x) + (b - 1) log(1 - x) - log B(a, b)."""
    return power(x, a - 1) + power(1 - x, b - 1) - math.lgamma(a) - math.lgamma(b) + math.lgamma(a + b)


def log_dirichlet(x: np.ndarray, concentration: np.ndarray) -> float:
    """Its value is log Gamma(sum a) - sum log Gamma(a) + sum (a - 1) log(x)."""
    constant = math.lgamma(concentration.sum()) - sum(math.lgamma(a) for a in concentration)
    return constant + sum(power(v, a - 1) for v, a in zip(x, concentration, strict=True))


def power(x: float, exponent: float) -> float:
    """log(x^exponent), where x^0 is 1 at x = 0 too."""
    if exponent == 0:
        return 0.0
    return exponent * (math.log(x) if x > 0 else -math.inf)


def log_half_normal(x: float, sd: float) -> float:
    """Twice the normal density around 0."""
    return math.log(2) + log_normal(x, 0.0, sd)


def log_half_cauchy(x: float, scale: float) -> float:
    """Its value is log 2 - log(pi scale) - log(1 + (x / scale)^2)."""
    return math.log(2 / (math.pi * scale)) - math.log1p((x / scale) ** 2)


def log_exponential(x: float, rate: float) -> float:
    """Its value is log(rate) - rate x."""
    return math.log(rate) - rate * x


DENSITIES = {
    "half_normal": log_half_normal,
    "half_cauchy": log_half_cauchy,
    "exponential": log_exponential,
    "normal": log_normal,
    "laplace": log_laplace,
    "student_t": log_student_t,
    "gamma": log_gamma,
    "beta": log_beta,
}


def log_prior(parameter: ir.Parameter, value: np.ndarray, scope: Scope) -> float:
    """The log density of the whole array: the entries are independent, for `dirichlet` the rows along the last axis."""
    if parameter.prior is None:
        return 0.0
    axes = scope.bound.parameters[parameter.name]
    options = {o.name: parameter.prior.arguments[o.name] for o in parameter.prior.form.options}
    arguments = {o: np.empty(value.shape) for o in options}
    for place in itertools.product(*(range(n) for n in value.shape)):
        members = [a.members[k] for a, k in zip(axes, place, strict=True)]
        names = {n: v for a, m in zip(axes, members, strict=True) for n, v in zip(a.names, m if len(a.names) > 1 else (m,), strict=True)}
        for o, e in options.items():
            arguments[o][place] = evaluate(e, scope.at(names))  # type: ignore[arg-type]
    if parameter.prior.form.name == "dirichlet":
        rows = itertools.product(*(range(n) for n in value.shape[:-1]))
        return sum(log_dirichlet(value[r], arguments["concentration"][r]) for r in rows)
    density = DENSITIES[parameter.prior.form.name]
    columns = [arguments[o].ravel() for o in options]
    return sum(density(*entry) for entry in zip(value.ravel(), *columns, strict=True))
