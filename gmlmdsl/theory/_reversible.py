"""The gap of block dynamics, to its leading digits however small it is, and the slowest functions.

The eigenvalues next to 1 are found as such, and so to 16 decimals only. Their vectors f are better
than that: a small gap is taken anew from them, as the least E(f, f) / Var(f) over what they span,
where E(f, f) = E_{x, K} Var(f | x_-K, K) is a sum of squares and loses no digit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from .._diagnostics import fail
from ._block_dynamics import BlockDynamics, verify_work
from ._chains import MOST_DENSE

Array = np.ndarray
TOLERANCE = 1e-13  # of eigenvalues found by iteration
SLOWEST = 4  # vectors that are found at first
TOLD_APART = 1e-8  # 1 - eigenvalue from which on vectors are not mixed with those nearer to 1
UNDERFLOW = 1e-280  # of E(f, f)
PRODUCTS = 100  # of an iteration, at least
CUT = "a bound"
SMALL = 1e-3  # gaps below which the digits of 1 - eigenvalue are too few
LEAST_ROOT = 1e-60  # sqrt(p) below which a vector says nothing of its function


def reversible_gap(dynamics: BlockDynamics) -> tuple[float, str]:
    """1 - the second eigenvalue of block dynamics, and what to note of it: with a note that begins with CUT it is an upper bound only.

    Raises:
        GmlmError: E601 for too much work, E714 where an iteration does not settle.
    """
    parts = dynamics.components()
    if parts.max(initial=0):
        return 0.0, f"no step joins the {parts.max() + 1} parts of the support"
    if len(dynamics.space.support) < 2:
        return 1.0, "the support is one configuration"
    gap, _, note = slow_functions(dynamics)
    return gap, note


def gap_kind(note: str) -> Literal["exact", "upper bound"]:
    """What kind of gap `reversible_gap` gave."""
    return "upper bound" if note.startswith(CUT) else "exact"


def constant_kind(note: str) -> Literal["exact", "lower bound"]:
    """What kind of number 1 / gap is."""
    return "lower bound" if note.startswith(CUT) else "exact"


def slow_functions(dynamics: BlockDynamics) -> tuple[float, Array, str]:
    """The gap of irreducible dynamics, slow functions of variance 1, slowest first, shape (*sizes, functions), and a note on the gap."""
    space = dynamics.space
    root = np.sqrt(space.p).ravel()
    root /= np.linalg.norm(root)
    second, last, vectors = _dense_vectors(dynamics) if len(space.support) <= MOST_DENSE else _iterated_vectors(dynamics, root)
    known = root[:, None] > LEAST_ROOT
    f = np.where(known, vectors / np.where(known, root[:, None], 1.0), 0.0).reshape(*space.sizes, -1)
    if 1 - second > SMALL:
        return float(min(1.0, 1 - second)), _of_variance_one(space.p, f), ""
    # A step keeps what is slow, and smooths what rounding left where p is small.
    flat = _of_variance_one(space.p, dynamics.apply(f)).reshape(space.count, -1)
    form = dirichlet_matrix(dynamics, flat.reshape(*space.sizes, -1))
    note = f"{CUT}: more slow modes lie together than were told apart" if 1 - last < TOLD_APART else ""
    if np.diag(form).min() < UNDERFLOW:
        return UNDERFLOW, flat.reshape(*space.sizes, -1), f"{CUT}: the chain is slower than float64 can say"
    scale = 1 / np.sqrt(np.diag(form))  # so that small ones keep their digits
    times, chosen = scipy.linalg.eigh(np.diag(scale**2), scale[:, None] * form * scale)
    order = np.argsort(-times, kind="stable")
    return float(1 / times[order[0]]), (flat @ (scale[:, None] * chosen)[:, order]).reshape(*space.sizes, -1), note


def _of_variance_one(p: Array, f: Array) -> Array:
    """Functions on an axis behind, without their means, made independent of one another and of variance 1."""
    weight = p[..., None]
    flat = (f - (weight * f).sum(axis=tuple(range(p.ndim)))).reshape(p.size, -1)
    size, turn = np.linalg.eigh(flat.T @ (weight.reshape(-1, 1) * flat))
    # of the vectors that the constant one was mixed with, one is left over
    keep = size > 1e-6 * size.max()
    return (flat @ (turn[:, keep] / np.sqrt(size[keep]))[:, ::-1]).reshape(*p.shape, -1)


def dirichlet_matrix(dynamics: BlockDynamics, f: Array) -> Array:
    """E(f_i, f_j) of functions on an axis behind, as sums of squares."""
    form = np.zeros((f.shape[-1], f.shape[-1]))
    for block in dynamics:
        apart = (f - block.mean(f)).reshape(-1, f.shape[-1])
        weight = np.broadcast_to(dynamics.space.p * block.chance, dynamics.space.sizes).reshape(-1, 1)
        form += apart.T @ (weight * apart)
    return form


def _dense_vectors(dynamics: BlockDynamics) -> tuple[float, float, Array]:
    """The second eigenvalue of sqrt(p) P 1/sqrt(p), the last one told apart from 1, and the eigenvectors up to it, the constant's too.

    Vectors whose eigenvalues agree to rounding are mixed with one another: all of them are wanted,
    or none.
    """
    space, size = dynamics.space, len(dynamics.space.support)
    matrix, count = dynamics.dense(symmetric=True), SLOWEST
    while True:
        first = max(0, size - 1 - count)
        values, found = scipy.linalg.eigh(matrix, subset_by_index=[first, size - 1])
        if first == 0 or 1 - values[0] >= TOLD_APART:
            break
        count = 4 * count
    out = np.zeros((space.count, found.shape[1]))
    out[space.support] = found
    return float(values[-2]), -1.0 if first == 0 else float(values[0]), out


def _iterated_vectors(dynamics: BlockDynamics, root: Array) -> tuple[float, float, Array]:
    """The same without the constant's, by Lanczos."""
    space = dynamics.space
    verify_work(dynamics, PRODUCTS, "the spectral gap")
    alive = (space.log_p > -np.inf).ravel()

    def product(f: Array) -> Array:
        f = np.where(alive, f.ravel(), 0.0)
        f = f - root * (root @ f)
        out = dynamics.symmetric(f.reshape(space.sizes)).ravel()
        return np.where(alive, out - root * (root @ out), 0.0)

    values, vectors = iterate(product, space.count, scipy.sparse.linalg.eigsh, "LA", SLOWEST)
    return float(values.max()), float(values.min()), vectors


def iterate(product: Callable[[Array], Array], size: int, solver: Callable[..., Any], which: str, count: int) -> tuple[Array, Array]:
    """Eigenvalues and vectors of an operator by Arnoldi's or Lanczos' iteration.

    Raises:
        GmlmError: E714 where they do not settle.
    """
    operator = scipy.sparse.linalg.LinearOperator((size, size), matvec=product, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    start = np.random.default_rng(0).normal(size=size)
    try:
        return solver(operator, k=count, which=which, tol=TOLERANCE, v0=start, ncv=40, maxiter=2000)
    except scipy.sparse.linalg.ArpackNoConvergence:
        message = "the eigenvalues of this chain do not settle in 2000 restarts: several lie together at its gap"
        raise fail("E714", message, help="take a smaller model, or bound the gap by sampling: `spectral_gap(.., draws=)`") from None
