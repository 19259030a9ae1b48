"""Whether symmetric matrices are definite, and how far, by Cholesky factors: eigenvalues take thirty times as long.

Factors are upper ones: beside other work on both cores OpenBLAS 0.3.30 was seen to take many times
as long for lower ones; alone, as long.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

Array = np.ndarray
SMALL = 64  # rows up to which eigenvalues cost nothing
POWER_STEPS = 30
MARGIN = 1.1  # of a largest eigenvalue that is estimated from below
SURE = 10.0  # times too small that norm may be estimated: three is rare


def largest_eigenvalue(matrix: Array) -> float:
    """An upper estimate of the largest eigenvalue, by at most a tenth: exact where the matrix is small."""
    if not matrix.size:
        return 0.0
    if len(matrix) <= SMALL:
        return float(np.linalg.eigvalsh(matrix)[-1])
    v = np.random.default_rng(0).normal(size=len(matrix))
    for _ in range(POWER_STEPS):
        v = matrix @ (v / max(float(np.linalg.norm(v)), 1e-300))
    return MARGIN * float(np.linalg.norm(v))


def exceeds(matrix: Array, least: float) -> bool:
    """Whether all eigenvalues of a symmetric matrix are above `least`."""
    return cholesky(matrix, least) is not None


def least_eigenvalue(matrix: Array, factor: Array) -> float:
    """What no eigenvalue of a matrix with this Cholesky factor is below, by an estimate of |inverse|_1: not above the smallest one."""
    if not matrix.size:
        return 0.0
    largest = norm(matrix)
    reciprocal, _ = lapack.dpocon(factor, largest, uplo="U")  # pyright: ignore[reportAttributeAccessIssue]
    return float(reciprocal) * largest / SURE


def norm(matrix: Array) -> float:
    """|matrix|_1, which no eigenvalue exceeds."""
    return float(np.abs(matrix).sum(axis=0).max(initial=0.0))


def cholesky(matrix: Array, shift: float = 0.0) -> Array | None:
    """The upper Cholesky factor of `matrix - shift I`; None where that is not positive definite."""
    if not np.isfinite(matrix).all():
        return None
    whole = np.array(matrix, float, order="F")
    whole[np.diag_indices(len(whole))] -= shift
    factor, wrong = lapack.dpotrf(whole, lower=0, clean=1, overwrite_a=1)  # pyright: ignore[reportAttributeAccessIssue]
    return None if wrong else factor


def inverse(factor: Array) -> Array:
    """The inverse of U' U, in a third of the time that `solve` takes for the columns of the identity."""
    upper, _ = lapack.dpotri(factor, lower=0)  # pyright: ignore[reportAttributeAccessIssue]
    upper = np.triu(upper)
    return upper + np.triu(upper, 1).T


def solve(factor: Array, right: Array) -> Array:
    """The solution of U' U x = right."""
    return scipy.linalg.cho_solve((factor, False), right, check_finite=False)
