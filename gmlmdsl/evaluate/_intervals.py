"""Confidence intervals of single entries, none of which leaves the entry's range.

They are normal on a scale on which the entry is unbounded, and are mapped back.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy  # submodules of SciPy load at first use

from .._diagnostics import fail, is_real_number
from ..graph import FactorGraph, ParameterArray

Array = np.ndarray


def verified_quantile(probability: float) -> float:
    """Return the quantile z of a two-sided normal interval.

    Raises:
        GmlmError: E507 unless the probability lies between 0 and 1.
    """
    if not isinstance(probability, int | float | np.floating) or not 0 < probability < 1:
        raise fail("E507", f"probability lies between 0 and 1, got {probability!r}")
    return float(scipy.special.ndtri(0.5 + probability / 2))


def verified_level(level: Any) -> float:
    """Return the probability of intervals.

    Raises:
        GmlmError: E507 unless it is a number between 0 and 1.
    """
    if not is_real_number(level) or not 0 < level < 1:
        raise fail("E507", f"level must be a number between 0 and 1, got {level!r}", help="`level=0.95`, say")
    return float(level)


def intervals(graph: FactorGraph, params: dict[str, Array], errors: dict[str, Array], z: float) -> dict[str, tuple[Array, Array]]:
    """Return the intervals (low, high) of each parameter by the delta method.

    The ends are g^-1(g(v) -+ z g'(v) error), with the map g

    - the identity for an unbounded entry,
    - log(v - lower) or -log(upper - v) for an entry with one bound,
    - the logit of (v - lower) / (upper - lower) for an entry with two bounds or of a simplex.

    An infinite error gives the whole range, and an error of nan gives nan.

    Args:
        graph: the factor graph.
        params: estimates by parameter.
        errors: standard errors by parameter.
        z: the quantile.

    Reference: van der Vaart 1998, Asymptotic Statistics, Section 3.1.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return {p.name: _interval(p, np.asarray(params[p.name], float), z * np.asarray(errors[p.name], float)) for p in graph.parameters}


def _interval(p: ParameterArray, value: Array, half: Array) -> tuple[Array, Array]:
    low, high = (0.0, 1.0) if p.kind == "simplex" else (p.lower, p.upper)
    if math.isfinite(low) and math.isfinite(high):
        share = (value - low) / (high - low)
        at, step = np.log(share) - np.log1p(-share), half / ((high - low) * share * (1 - share))
        ends = [low + (high - low) * scipy.special.expit(at - step), low + (high - low) * scipy.special.expit(at + step)]
    elif math.isfinite(low):
        ends = [low + (value - low) * np.exp(s * half / (value - low)) for s in (-1, 1)]
    elif math.isfinite(high):
        ends = [high - (high - value) * np.exp(-s * half / (high - value)) for s in (-1, 1)]
    else:
        ends = [value - half, value + half]
    # The estimate is missing, or lies on a bound.
    whole = np.isinf(half) | np.isnan(ends[0]) | np.isnan(ends[1])
    ends = [np.where(whole, low, ends[0]), np.where(whole, high, ends[1])]
    low_end, high_end = (np.where(half == 0, value, end) for end in ends)
    return np.where(np.isnan(half), np.nan, low_end), np.where(np.isnan(half), np.nan, high_end)
