"""Block dynamics of a mask on all configurations: K ~ p(K | x), then x_K ~ p(. | x_-K, K).

On functions it is (P f)(x) = sum over K of p(K | x) E[f | x_-K, K], with the expectation over x_K
by the weights p(x) p(K | x). All results of this package about masks follow from P. The loss has
the Hessian E[u (u - P u)'] with the score u, and the chain has the spectral gap of P.

On the support, sqrt(p) P 1/sqrt(p) = sum over K of s_K s_K' within fibres. A fibre is a set of
configurations that agree outside K, and s_K(x) = sqrt(p(K | x) p(x_K | x_-K, K)). This form is
symmetric and positive semidefinite, and does not underflow.

Reference: Li et al. 2024, Definitions 4, 6 and 8, Proposition 1.

The gap is computed to its leading digits, however small. Eigenvalues next to 1 are accurate to 16
decimals only, but their vectors f are more accurate. A small gap is therefore recomputed from the
vectors. It is the smallest E(f, f) / Var(f) over their span, with E(f, f) = E_{x, K} Var(f | x_-K,
K). This is a sum of squares, which loses no digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from .. import derive
from .._diagnostics import Span, fail
from .._types import Given
from ..data import bound_mask
from ..derive import bounded_jit
from ..evaluate import verify_latents
from ..masks import AbstractMask
from ._configurations import BY_SAMPLING, Configurations, configurations, verify_model
from .limits import (
    CHANCES_AT_ONCE,
    DISTINCT_GAP,
    EIGENVALUE_TOLERANCE,
    FEWEST_PRODUCTS,
    FIRST_VECTORS,
    LEAST_FORM,
    LEAST_ROOT,
    MOST_APPLIED,
    MOST_BLOCKS,
    MOST_CACHED,
    MOST_DENSE,
    MOST_REPEATED,
    MOST_SUPERSET_SUMS,
    SMALL_GAP,
)

if TYPE_CHECKING:
    from ..model import JointModel, Params

Array = np.ndarray
CUT = "a bound"


@dataclass(frozen=True)
class Block:
    """One block K on all configurations.

    Attributes:
        axes: the cells of K, as axes of the tensors.
        chance: p(K | x), a number or a tensor.
        conditional: p(x_K | x_-K, K) at each x, a tensor; 0 if x is impossible or cannot draw K.
    """

    axes: tuple[int, ...]
    chance: Array
    conditional: Array

    def mean(self, f: Array) -> Array:
        """Return E[f | x_-K, K], with axes of length 1 for the cells of K.

        f may have further axes after those of the cells.
        """
        weights = self.conditional.reshape(*self.conditional.shape, *(1,) * (f.ndim - self.conditional.ndim))
        return (weights * f).sum(axis=self.axes, keepdims=True)


class BlockDynamics:
    """The block dynamics of blocks with given probabilities.

    Args:
        space: the configurations.
        blocks: the axes of each block; no block is empty, and no block occurs twice.
        chances: p(K | x) of each block, a number or a tensor over the configurations.
    """

    def __init__(self, space: Configurations, blocks: Sequence[tuple[int, ...]], chances: Sequence[Array]):
        self.space, self.blocks, self.chances = space, blocks, chances
        total = sum((np.asarray(c) for c in chances), np.zeros(()))
        # the probability that K is empty
        self.stay = np.maximum(0.0, 1 - np.broadcast_to(total, space.sizes))
        self.stay[self.stay < 1e-14] = 0.0
        self._kept: list[Array | None] = [None] * len(blocks)
        self._room = MOST_CACHED // max(space.count, 1)

    def conditional(self, k: int) -> Array:
        """Return p(x_K | x_-K, K) of block number k.

        A softmax within each fibre prevents underflow of whole fibres.
        """
        if self._kept[k] is None:
            with np.errstate(divide="ignore", invalid="ignore"):
                log_w = self.space.log_p + np.log(self.chances[k]) if np.ndim(self.chances[k]) else self.space.log_p
                top = log_w.max(axis=self.blocks[k], keepdims=True)
                w = np.exp(log_w - np.where(top > -np.inf, top, 0.0))
            found = w / np.maximum(w.sum(axis=self.blocks[k], keepdims=True), 1e-300)
            if k >= self._room:
                return found
            self._kept[k] = found
        return self._kept[k]  # pyright: ignore[reportReturnType]

    def __iter__(self) -> Iterator[Block]:
        for k, axes in enumerate(self.blocks):
            yield Block(axes, np.asarray(self.chances[k]), self.conditional(k))

    def apply(self, f: Array) -> Array:
        """Return P f of a tensor, or of several tensors along further axes."""
        extra = (1,) * (f.ndim - len(self.space.sizes))
        out = self.stay.reshape(*self.space.sizes, *extra) * f
        for block in self:
            chance = block.chance.reshape(*block.chance.shape, *extra) if block.chance.ndim else block.chance
            out += chance * block.mean(f)
        return out

    def push(self, law: Array) -> Array:
        """Return the distribution after one step from a distribution: (mu P)(y), a tensor."""
        out = self.stay * law
        for block in self:
            out += (block.chance * law).sum(axis=block.axes, keepdims=True) * block.conditional
        return out

    def symmetric(self, f: Array) -> Array:
        """Return sqrt(p) P (f / sqrt(p)) of a tensor on the support."""
        out = self.stay * f
        for block in self:
            s = np.sqrt(block.chance * block.conditional)
            out += s * (s * f).sum(axis=block.axes, keepdims=True)
        return out

    def dense(self, symmetric: bool = False) -> Array:
        """Return P as a matrix over the support, or sqrt(p) P 1/sqrt(p) if `symmetric`."""
        n, count = len(self.space.sizes), self.space.count
        inside = self.space.support
        if not symmetric and not any(np.ndim(c) for c in self.chances) and count * 2.0**n <= MOST_SUPERSET_SUMS:
            matrix = self._by_difference()
            return matrix if len(inside) == count else matrix[np.ix_(inside, inside)]
        matrix = np.diag(self.stay.ravel())
        tensor = matrix.reshape(*self.space.sizes, *self.space.sizes)
        for block in self:
            left = np.sqrt(block.chance * block.conditional) if symmetric else np.broadcast_to(block.chance, self.space.sizes)
            right = left if symmetric else block.conditional
            _add_within_fibres(tensor, left, right, block.axes, n)
        return matrix if len(inside) == count else matrix[np.ix_(inside, inside)]

    def _by_difference(self) -> Array:
        """Return P as a matrix, if no block's probability depends on x.

        Let D be the set of cells in which x and y differ. P(x, y) is then the sum of p(K) p(y_K |
        y_-K) over all K that contain D. It depends on D and y alone, and is computed by one sum
        over supersets.
        """
        sizes, count = self.space.sizes, self.space.count
        held = np.zeros((2,) * len(sizes) + (count,))
        held[(0,) * len(sizes)] = self.stay.ravel()
        for block in self:
            held[tuple(int(a in block.axes) for a in range(len(sizes)))] += (block.chance * block.conditional).ravel()
        for axis in range(len(sizes)):
            by_axis = np.moveaxis(held, axis, 0)
            by_axis[0] += by_axis[1]
        return held.ravel().take(_differences(sizes))

    def components(self) -> Array:
        """Return the number of the component of each configuration of the support, from 0.

        No step joins two components.
        """
        alive = self.space.log_p > -np.inf
        label = np.where(alive, np.arange(self.space.count).reshape(self.space.sizes), self.space.count)
        while True:
            before = label.copy()
            for axes, chance in zip(self.blocks, self.chances, strict=True):
                moves = alive & (np.asarray(chance) > 0)
                least = np.where(moves, label, self.space.count).min(axis=axes, keepdims=True)
                label = np.where(moves, np.minimum(label, least), label)
            if (label == before).all():
                return np.unique(label.ravel()[self.space.support], return_inverse=True)[1]


@lru_cache(maxsize=1)
def _differences(sizes: tuple[int, ...]) -> Array:
    """Return for configurations x and y an index of the cells in which they differ, and of y.

    The index is the set of these cells, as a number, times the number of configurations, plus y.
    """
    differ = np.zeros((1, 1), np.intp)
    for size in sizes:
        own = 1 - np.eye(size, dtype=np.intp)
        width = len(differ) * size
        differ = (2 * differ[:, None, :, None] + own[None, :, None, :]).reshape(width, width)
    return differ * len(differ) + np.arange(len(differ))


def _add_within_fibres(matrix: Array, left: Array, right: Array, axes: tuple[int, ...], n: int) -> None:
    """Add left(x) right(y) to matrix[x, y] for all x and y that agree outside `axes`.

    `matrix` has the axes of x, followed by those of y.
    """
    rest = [a for a in range(n) if a not in axes]
    second = [n + a if a in axes else a for a in range(n)]
    view = np.einsum(matrix, [*range(n), *second], [*rest, *axes, *(n + a for a in axes)])
    own = [left.shape[a] for a in axes]
    view += left.transpose(*rest, *axes).reshape(*view.shape[: n - len(axes)], *own, *(1,) * len(axes)) * right.transpose(
        *rest, *axes
    ).reshape(*view.shape[: n - len(axes)], *(1,) * len(axes), *own)


def block_dynamics(space: Configurations, mask: AbstractMask, what: str) -> BlockDynamics:
    """Return the block dynamics of a mask without its empty blocks, on given configurations.

    Raises:
        GmlmError: E602 for too many blocks, E601 for too much work.
    """
    host = space.host
    count = mask.support_size
    if count > MOST_BLOCKS:
        raise _too_many(count, what, mask.span)
    with jax.enable_x64(True):
        mask.verify(host.sizes, {k: np.asarray(v) for k, v in space.params.items()})
        blocks, probabilities = mask.enumerate_blocks()
        keep = (blocks < host.n_cells).any(axis=1)
        blocks = blocks[keep]
        if len(blocks) * float(space.count) > MOST_APPLIED:
            message = (
                f"{what}: {len(blocks):,} blocks on {space.count:,} configurations, {len(blocks) * float(space.count):.3g} entries a step"
            )
            help = f"take fewer cells or blocks, or {BY_SAMPLING}"
            raise fail("E601", f"{message}, more than the limit of {MOST_APPLIED:.3g}", mask.span, help=help)
        if probabilities is not None:
            chances: Sequence[Array] = list(probabilities[keep])
        else:
            chances = _chances(space, mask, blocks)
    axes = [tuple(np.searchsorted(space.cells, b[b < host.n_cells]).tolist()) for b in blocks]
    return BlockDynamics(space, axes, chances)


def verify_work(dynamics: BlockDynamics, functions: float, what: str) -> None:
    """Raise E601 if block dynamics on this number of functions take too much work.

    Raises:
        GmlmError: E601 with the figure.
    """
    work = float(dynamics.space.count) * len(dynamics.blocks) * functions
    if work > MOST_REPEATED:
        message = f"{what}: {len(dynamics.blocks):,} blocks on {dynamics.space.count:,} configurations, {functions:,.0f} times over"
        message += f": {work:.3g} numbers, more than the limit of {MOST_REPEATED:.3g}"
        raise fail("E601", message, help=f"take fewer cells or blocks, or {BY_SAMPLING}")


def _chances(space: Configurations, mask: AbstractMask, blocks: Array) -> list[Array]:
    """Return p(K | x) of every block, as tensors."""
    if len(blocks) * space.count > MOST_CACHED:
        raise fail(
            "E601", f"p(K | x) of {len(blocks):,} blocks at {space.count:,} configurations is more than {MOST_CACHED:,} numbers", mask.span
        )
    law, codes = derive.mask_law(mask), jnp.asarray(np.maximum(space.codes, 0))
    each = max(1, CHANCES_AT_ONCE // (space.count * max(1, len(space.cells))))
    out: list[Array] = []
    for at in range(0, len(blocks), each):
        piece = np.pad(blocks[at : at + each], ((0, max(0, at + each - len(blocks)) if len(blocks) > each else 0), (0, 0)), mode="edge")
        found = np.asarray(_block_probabilities(law, space.params, codes, jnp.asarray(piece)))
        out += [np.broadcast_to(row, (space.count,)).reshape(space.sizes) for row in found[: len(blocks) - at]]
    return out


@bounded_jit
def _block_probabilities(law: derive.AbstractMaskLaw, params: Mapping[str, jax.Array], codes: jax.Array, blocks: jax.Array) -> jax.Array:
    return law.block_probabilities(params, codes, blocks)


def _too_many(count: float, what: str, span: Span) -> Exception:
    message = f"{what} sums over {count:.3g} blocks, more than the limit of {MOST_BLOCKS:,}"
    return fail("E602", message, span, help=f"take a mask with fewer blocks, or {BY_SAMPLING}")


def dynamics_of(model: JointModel, params: Params, mask: str | None, what: str, given: Given | None = None) -> tuple[str, BlockDynamics]:
    """Return the name of a mask, and its block dynamics on the configurations of the `var`s.

    Latents are summed out.

    Args:
        model: the model.
        params: parameters.
        mask: the mask's name.
        what: the name of the quantity in error messages.
        given: one row of data of given variables.

    Raises:
        GmlmError: E601, E602 if the enumeration is too large; E703 for a mask that hides or looks
            at a latent.
    """
    verify_model(model)
    name, lowered = model.mask(mask)
    verify_latents(model.graph, lowered, name, np.zeros((model.graph.n_cells, 0), np.int32), False)
    space = configurations(model, params, what, given=given)
    return name, block_dynamics(space, bound_mask(space.lowered, lowered), what)


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
