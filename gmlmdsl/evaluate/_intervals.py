"""Intervals of single entries: normal on the scale on which an entry is unbounded, mapped back, so that none leaves its range."""

from __future__ import annotations

import math

import numpy as np
import scipy  # its parts load when they are used

from .._diagnostics import fail
from ..graph import FactorGraph, ParameterArray

Array = np.ndarray


def verified_quantile(probability: float) -> float:
    """The z of a two-sided normal interval.

    Raises:
        GmlmError: E507 unless the probability lies between 0 and 1.
    """
    if not isinstance(probability, int | float | np.floating) or not 0 < probability < 1:
        raise fail("E507", f"probability lies between 0 and 1, got {probability!r}")
    return float(scipy.special.ndtri(0.5 + probability / 2))


def intervals(graph: FactorGraph, params: dict[str, Array], errors: dict[str, Array], z: float) -> dict[str, tuple[Array, Array]]:
    """By parameter (low, high) of g^-1(g(v) -+ z g'(v) error), the delta method.

    g is the identity for a real entry, log(v - lower) or -log(upper - v) where one side is bounded,
    the logit of the share of the range where both are, as for an entry of a simplex. An infinite
    error gives the whole range, none (nan) gives none.

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
    # no estimate, or one at the very edge
    whole = np.isinf(half) | np.isnan(ends[0]) | np.isnan(ends[1])
    ends = [np.where(whole, low, ends[0]), np.where(whole, high, ends[1])]
    low_end, high_end = (np.where(half == 0, value, end) for end in ends)
    return np.where(np.isnan(half), np.nan, low_end), np.where(np.isnan(half), np.nan, high_end)
