"""The Ising model without field on an n x m torus, one coupling K = beta J, exactly: Kaufman's four products.

Z = (2 sinh 2K)^(nm/2) / 2 * (P1 + P2 + P3 + P4), with m columns wrapped, n rows multiplied, and for k = 0 .. 2m - 1

    cosh g_k = cosh(2K) coth(2K) - cos(pi k / m),   g_k > 0 for k > 0,   g_0 = 2K + log tanh K (negative above the critical temperature)
    P1 = prod over r of 2 cosh(n g_2r+1 / 2),   P2 = prod 2 sinh(n g_2r+1 / 2),
    P3 = prod over r of 2 cosh(n g_2r / 2),     P4 = prod 2 sinh(n g_2r / 2),   r = 0 .. m - 1.

Only g_0 changes its sign, at the critical coupling, and with it P4 does: there P4 vanishes, and above the critical temperature it is
negative. On finite lattices neither Z nor the energy has a singularity.

Reference: Kaufman 1949, "Crystal statistics II"; Ferdinand and Fisher 1969, "Bounded and inhomogeneous Ising models I".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray
CRITICAL = 0.5 * np.log(1 + np.sqrt(2))


@dataclass(frozen=True)
class Torus:
    """Exact values, each edge counted once (two edges between the cells of an axis of length 2).

    Attributes:
        log_partition: log of the sum over spins of exp(K sum over edges of x_i x_j).
        energy: -d log Z / dK / cells: the mean of -sum over edges of x_i x_j per cell, in units of J.
        heat: d2 log Z / dK2 / cells: the variance of that sum per cell.
    """

    log_partition: float
    energy: float
    heat: float


def torus(n: int, m: int, coupling: float) -> Torus:
    """log Z and its first two derivatives in the coupling, all in closed form: nothing is differenced.

    Args:
        n: rows.
        m: columns.
        coupling: K, positive. For a negative one with even n and m, use |K|: flipping every other cell turns one into the other.

    Raises:
        ValueError: for a coupling that is not positive, or an empty lattice.
    """
    if not coupling > 0 or min(n, m) < 1:
        raise ValueError(f"wants a positive coupling and sizes of at least 1, got {coupling}, {n} x {m}")
    odd, even = _gammas(m, coupling, 1), _gammas(m, coupling, 0)
    logs, signs, slopes, bends = [], [], [], []
    for gammas in (odd, even):
        for function in (_log_cosh, _log_sinh):
            log, sign, slope, bend = function(n, gammas)
            logs.append(log)
            signs.append(sign)
            slopes.append(slope)
            bends.append(bend)
    logs, signs, slopes, bends = (np.array(a) for a in (logs, signs, slopes, bends))
    weights = signs * np.exp(logs - logs.max())
    total = weights.sum()
    # P' = P s and P'' = P (s^2 + b), s and b the derivatives of log |P|; where P4 = 0 the slope is that of P itself.
    first = (weights * slopes).sum() / total
    second = (weights * (slopes**2 + bends)).sum() / total
    if abs(n * even[0][0]) < 1:
        first, second = _through_zero(n, even, logs, weights, slopes, bends)
    cells, k2 = n * m, 2 * coupling
    log_z = cells / 2 * _log_2sinh(k2) - np.log(2) + logs.max() + np.log(total)
    slope = cells / np.tanh(k2) + first
    bend = -2 * cells / np.sinh(k2) ** 2 + second - first**2
    return Torus(float(log_z), float(-slope / cells), float(bend / cells))


def _gammas(m: int, coupling: float, parity: int) -> tuple[Array, Array, Array]:
    """g_k of one parity with their first two derivatives in K."""
    k = 2 * np.arange(m) + parity
    s, c = np.sinh(2 * coupling), np.cosh(2 * coupling)
    # cosh g - 1 = (1 - s)^2 / s + 2 sin^2(pi k / 2 m), without cancellation; C' = d/dK of c^2 / s = s + 1 / s.
    excess = (1 - s) ** 2 / s + 2 * np.sin(np.pi * k / (2 * m)) ** 2
    gamma = 2 * np.arcsinh(np.sqrt(excess / 2))
    slope_c, bend_c = 2 * c * (1 - 1 / s**2), 4 * s * (1 - 1 / s**2) + 8 * c**2 / s**3
    sinh, cosh = np.sinh(gamma), 1 + excess
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = slope_c / sinh
        bend = (bend_c - cosh * slope**2) / sinh
    if parity == 0:
        gamma[0] = 2 * coupling + np.log(np.tanh(coupling))
        slope[0], bend[0] = 2 + 2 / s, -4 * c / s**2
    return gamma, slope, bend


def _log_cosh(n: int, gammas: tuple[Array, Array, Array]) -> tuple[float, float, float, float]:
    """log of prod 2 cosh(n g / 2), its sign, and the first two derivatives of the log in K."""
    gamma, slope, bend = gammas
    half, tanh = n * np.abs(gamma) / 2, np.tanh(n * gamma / 2)
    log = (half + np.log1p(np.exp(-2 * half))).sum()
    return log, 1.0, (n / 2 * slope * tanh).sum(), (n / 2 * bend * tanh + (n / 2 * slope) ** 2 * (1 - tanh**2)).sum()


def _log_sinh(n: int, gammas: tuple[Array, Array, Array]) -> tuple[float, float, float, float]:
    """The same of prod 2 sinh(n g / 2), which has the sign of its factors."""
    gamma, slope, bend = gammas
    half = n * np.abs(gamma) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        log = (half + np.log(-np.expm1(-2 * half))).sum()
        coth = 1 / np.tanh(n * gamma / 2)
        first, second = n / 2 * slope * coth, n / 2 * bend * coth - (n / 2 * slope) ** 2 / np.sinh(np.minimum(half, 300.0)) ** 2
    return log, float(np.prod(np.sign(gamma))), first.sum(), second.sum()


def _through_zero(
    n: int, even: tuple[Array, Array, Array], logs: Array, weights: Array, slopes: Array, bends: Array
) -> tuple[float, float]:
    """The first two logarithmic derivatives of the sum of products where the first factor of P4 is near 0.

    P4 = f R with f = 2 sinh(n g_0 / 2) and R the other factors: P4' = f' R + f R', P4'' = f'' R + 2 f' R' + f R''.
    """
    gamma, slope, bend = (a[0] for a in even)
    rest = tuple(a[1:] for a in even)
    log_r, sign_r, s, b = _log_sinh(n, rest)
    r = sign_r * np.exp(log_r - logs.max())
    sinh, cosh, rate = np.sinh(n * gamma / 2), np.cosh(n * gamma / 2), n / 2 * slope
    f, df, ddf = 2 * sinh, 2 * cosh * rate, 2 * sinh * rate**2 + 2 * cosh * n / 2 * bend
    first = (weights[:3] * slopes[:3]).sum() + r * (df + f * s)
    second = (weights[:3] * (slopes[:3] ** 2 + bends[:3])).sum() + r * (ddf + 2 * df * s + f * (s**2 + b))
    total = weights[:3].sum() + r * f
    return first / total, second / total


def _log_2sinh(a: float) -> float:
    return a + np.log(-np.expm1(-2 * a))
