"""The gap of block dynamics to its leading digits, however small, and the slowest functions.

Eigenvalues next to 1 are accurate to 16 decimals only, but their vectors f are more accurate. A
small gap is therefore recomputed from the vectors. It is the smallest E(f, f) / Var(f) over their
span, with E(f, f) = E_{x, K} Var(f | x_-K, K). This is a sum of squares, which loses no digit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from .._diagnostics import fail
from ._block_dynamics import BlockDynamics, verify_work
from .limits import DISTINCT_GAP, EIGENVALUE_TOLERANCE, FEWEST_PRODUCTS, FIRST_VECTORS, LEAST_FORM, LEAST_ROOT, MOST_DENSE, SMALL_GAP

Array = np.ndarray
CUT = "a bound"


def reversible_gap(dynamics: BlockDynamics) -> tuple[float, str]:
    """Return 1 - the second eigenvalue of block dynamics, and a note on it.

    If the note begins with CUT, the number is only an upper bound.

    Raises:
        GmlmError: E601 for too much work, E714 if an iteration does not converge.
    """
    parts = dynamics.components()
    if parts.max(initial=0):
        return 0.0, f"no step joins the {parts.max() + 1} parts of the support"
    if len(dynamics.space.support) < 2:
        return 1.0, "the support is one configuration"
    gap, _, note = slow_functions(dynamics)
    return gap, note


def gap_kind(note: str) -> Literal["exact", "upper bound"]:
    """Return the kind of a gap of `reversible_gap`."""
    return "upper bound" if note.startswith(CUT) else "exact"


def constant_kind(note: str) -> Literal["exact", "lower bound"]:
    """Return the kind of 1 / gap."""
    return "lower bound" if note.startswith(CUT) else "exact"


def slow_functions(dynamics: BlockDynamics) -> tuple[float, Array, str]:
    """Return the gap of irreducible dynamics, slow functions of variance 1, and a note on the gap.

    The functions have the shape (*sizes, functions), with the slowest first.
    """
    space = dynamics.space
    root = np.sqrt(space.p).ravel()
    root /= np.linalg.norm(root)
    second, last, vectors = _dense_vectors(dynamics) if len(space.support) <= MOST_DENSE else _iterated_vectors(dynamics, root)
    known = root[:, None] > LEAST_ROOT
    f = np.where(known, vectors / np.where(known, root[:, None], 1.0), 0.0).reshape(*space.sizes, -1)
    if 1 - second > SMALL_GAP:
        return float(min(1.0, 1 - second)), _of_variance_one(space.p, f), ""
    # A step keeps slow functions, and smooths rounding errors where p is small.
    flat = _of_variance_one(space.p, dynamics.apply(f)).reshape(space.count, -1)
    form = dirichlet_matrix(dynamics, flat.reshape(*space.sizes, -1))
    note = f"{CUT}: more slow modes lie together than were told apart" if 1 - last < DISTINCT_GAP else ""
    if np.diag(form).min() < LEAST_FORM:
        return LEAST_FORM, flat.reshape(*space.sizes, -1), f"{CUT}: the chain is slower than float64 can say"
    scale = 1 / np.sqrt(np.diag(form))  # so that small entries keep their digits
    times, chosen = scipy.linalg.eigh(np.diag(scale**2), scale[:, None] * form * scale)
    order = np.argsort(-times, kind="stable")
    return float(1 / times[order[0]]), (flat @ (scale[:, None] * chosen)[:, order]).reshape(*space.sizes, -1), note


def _of_variance_one(p: Array, f: Array) -> Array:
    """Return uncorrelated functions of mean 0 and variance 1 with the same span.

    Functions are on the last axis.
    """
    weight = p[..., None]
    flat = (f - (weight * f).sum(axis=tuple(range(p.ndim)))).reshape(p.size, -1)
    size, turn = np.linalg.eigh(flat.T @ (weight.reshape(-1, 1) * flat))
    # one vector is redundant if the constant function was mixed with the others
    keep = size > 1e-6 * size.max()
    return (flat @ (turn[:, keep] / np.sqrt(size[keep]))[:, ::-1]).reshape(*p.shape, -1)


def dirichlet_matrix(dynamics: BlockDynamics, f: Array) -> Array:
    """Return E(f_i, f_j) of functions on the last axis, as sums of squares."""
    form = np.zeros((f.shape[-1], f.shape[-1]))
    for block in dynamics:
        apart = (f - block.mean(f)).reshape(-1, f.shape[-1])
        weight = np.broadcast_to(dynamics.space.p * block.chance, dynamics.space.sizes).reshape(-1, 1)
        form += apart.T @ (weight * apart)
    return form


def _dense_vectors(dynamics: BlockDynamics) -> tuple[float, float, Array]:
    """Return the second and the last eigenvalue of sqrt(p) P 1/sqrt(p), and their eigenvectors.

    The last eigenvalue is the one that is clearly separate from 1. The eigenvectors are all those
    up to it, with the constant's too. Vectors whose eigenvalues agree to rounding are mixed with
    one another, so that either all of them or none are needed.
    """
    space, size = dynamics.space, len(dynamics.space.support)
    matrix, count = dynamics.dense(symmetric=True), FIRST_VECTORS
    while True:
        first = max(0, size - 1 - count)
        values, found = scipy.linalg.eigh(matrix, subset_by_index=[first, size - 1])
        if first == 0 or 1 - values[0] >= DISTINCT_GAP:
            break
        count = 4 * count
    out = np.zeros((space.count, found.shape[1]))
    out[space.support] = found
    return float(values[-2]), -1.0 if first == 0 else float(values[0]), out


def _iterated_vectors(dynamics: BlockDynamics, root: Array) -> tuple[float, float, Array]:
    """Return the results of `_dense_vectors` without the constant's eigenvector, by Lanczos."""
    space = dynamics.space
    verify_work(dynamics, FEWEST_PRODUCTS, "the spectral gap")
    alive = (space.log_p > -np.inf).ravel()

    def product(f: Array) -> Array:
        f = np.where(alive, f.ravel(), 0.0)
        f = f - root * (root @ f)
        out = dynamics.symmetric(f.reshape(space.sizes)).ravel()
        return np.where(alive, out - root * (root @ out), 0.0)

    values, vectors = iterate(product, space.count, scipy.sparse.linalg.eigsh, "LA", FIRST_VECTORS)
    return float(values.max()), float(values.min()), vectors


def iterate(product: Callable[[Array], Array], size: int, solver: Callable[..., Any], which: str, count: int) -> tuple[Array, Array]:
    """Return eigenvalues and vectors of an operator by Arnoldi or Lanczos iteration.

    Args:
        product: the operator.
        size: the size of its vectors.
        solver: `eigs` or `eigsh` of SciPy.
        which: the eigenvalues, as SciPy names them.
        count: the number of eigenvalues.

    Raises:
        GmlmError: E714 if they do not converge.
    """
    operator = scipy.sparse.linalg.LinearOperator((size, size), matvec=product, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    start = np.random.default_rng(0).normal(size=size)
    try:
        return solver(operator, k=count, which=which, tol=EIGENVALUE_TOLERANCE, v0=start, ncv=40, maxiter=2000)
    except scipy.sparse.linalg.ArpackNoConvergence:
        message = "the eigenvalues of this chain do not settle in 2000 restarts: several lie together at its gap"
        raise fail("E714", message, help="take a smaller model, or bound the gap by sampling: `spectral_gap(.., draws=)`") from None
