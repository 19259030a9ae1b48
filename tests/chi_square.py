"""Compares counts with an exact law."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

LEAST_EXPECTED = 5.0


def p_value(counts: np.ndarray, law: np.ndarray) -> float:
    """Pearson's test of counts against a law; rare outcomes are pooled, and one that is impossible gives 0."""
    if counts[law <= 0].any():
        return 0.0
    expected = law * counts.sum()
    rare = expected < LEAST_EXPECTED
    observed, wanted = counts[~rare].astype(float), expected[~rare]
    if expected[rare].sum() >= LEAST_EXPECTED:
        observed, wanted = np.append(observed, counts[rare].sum()), np.append(wanted, expected[rare].sum())
    if len(wanted) < 2:
        return 1.0
    return float(chi2.sf(((observed - wanted) ** 2 / wanted).sum(), len(wanted) - 1))
