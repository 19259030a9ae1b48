"""Tests and measures of positive definiteness by Cholesky factors.

Eigenvalues take thirty times as long. The factors are upper ones: with other work on both cores,
OpenBLAS 0.3.30 was seen to take many times as long for lower factors; without it, both take the
same time.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from .limits import INVERSE_MARGIN, POWER_MARGIN, POWER_STEPS, SMALL_MATRIX

Array = np.ndarray


def largest_eigenvalue(matrix: Array) -> float:
    """Return an estimate of the largest eigenvalue.

    The value is exact for a small matrix. Otherwise it is an estimate that is meant as an upper
    bound, too large by at most a tenth.
    """
    if not matrix.size:
        return 0.0
    if len(matrix) <= SMALL_MATRIX:
        return float(np.linalg.eigvalsh(matrix)[-1])
    v = np.random.default_rng(0).normal(size=len(matrix))
    for _ in range(POWER_STEPS):
        v = matrix @ (v / max(float(np.linalg.norm(v)), 1e-300))
    return POWER_MARGIN * float(np.linalg.norm(v))


def exceeds(matrix: Array, least: float) -> bool:
    """Return whether all eigenvalues of a symmetric matrix are above `least`."""
    return cholesky(matrix, least) is not None


def least_eigenvalue(matrix: Array, factor: Array) -> float:
    """Return a lower bound of the eigenvalues of a matrix with this Cholesky factor.

    The bound uses an estimate of |inverse|_1, and is not above the smallest eigenvalue.
    """
    if not matrix.size:
        return 0.0
    largest = norm(matrix)
    reciprocal, _ = lapack.dpocon(factor, largest, uplo="U")  # pyright: ignore[reportAttributeAccessIssue]
    return float(reciprocal) * largest / INVERSE_MARGIN


def norm(matrix: Array) -> float:
    """Return |matrix|_1, which is an upper bound of all eigenvalues."""
    return float(np.abs(matrix).sum(axis=0).max(initial=0.0))


def cholesky(matrix: Array, shift: float = 0.0) -> Array | None:
    """Return the upper Cholesky factor of `matrix - shift I`.

    The result is None if that matrix is not positive definite.
    """
    if not np.isfinite(matrix).all():
        return None
    whole = np.array(matrix, float, order="F")
    whole[np.diag_indices(len(whole))] -= shift
    factor, wrong = lapack.dpotrf(whole, lower=0, clean=1, overwrite_a=1)  # pyright: ignore[reportAttributeAccessIssue]
    return None if wrong else factor


def inverse(factor: Array) -> Array:
    """Return the inverse of U' U.

    This takes a third of the time that `solve` takes for the columns of the identity.
    """
    upper, _ = lapack.dpotri(factor, lower=0)  # pyright: ignore[reportAttributeAccessIssue]
    upper = np.triu(upper)
    return upper + np.triu(upper, 1).T


def solve(factor: Array, right: Array) -> Array:
    """Return the solution x of U' U x = right."""
    return scipy.linalg.cho_solve((factor, False), right, check_finite=False)
