"""Integrated autocorrelation times of several chains of one length, and the standard errors that follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray
WINDOW = 6  # times the integrated time: where the sum of correlations is cut
ENOUGH = 50  # times the integrated time: shorter chains do not show it


@dataclass(frozen=True)
class Autocorrelation:
    """Of a series in steps.

    Attributes:
        mean: over all chains and steps.
        standard_error: of it, sqrt(2 time variance / draws).
        time: integrated, 1/2 + the sum of correlations: 1/2 where draws are independent. nan where nothing moves.
        error: of `time`.
        effective: draws / (2 time), all chains together.
        enough: whether each chain is 50 times as long as `time`.
    """

    mean: float
    standard_error: float
    time: float
    error: float
    effective: float
    enough: bool


def autocorrelation(series: Array) -> Autocorrelation:
    """The integrated time of a series of shape (chains, steps), about the mean of all chains, with a window of 6 times itself.

    Reference: Sokal 1997, "Monte Carlo methods in statistical mechanics"; Madras and Sokal 1988 for the window and the error.
    """
    chains, steps = series.shape
    mean = float(series.mean())
    centred = series - mean
    spectrum = np.abs(np.fft.rfft(centred, 2 * steps, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum.sum(axis=0))[:steps] / (chains * np.arange(steps, 0, -1))
    if covariance[0] <= 0:
        return Autocorrelation(mean, float("nan"), float("nan"), float("nan"), float("nan"), False)
    times = 0.5 + np.cumsum(covariance / covariance[0]) - 1
    inside = np.flatnonzero(np.arange(steps) >= WINDOW * times)
    window = int(inside[0]) if len(inside) else steps - 1
    time, draws = float(max(times[window], 0.5)), chains * steps
    error = time * float(np.sqrt(2 * (2 * window + 1) / draws))
    effective = draws / (2 * time)
    enough = bool(len(inside)) and steps >= ENOUGH * time
    return Autocorrelation(mean, float(np.sqrt(covariance[0] / effective)), time, error, effective, enough)
