"""Standard errors of the estimate, and the directions that data and prior leave open.

Cholesky factors prove a curvature positive definite; eigenvalues take thirty times as long. The
factors are upper ones: with other work on both cores, OpenBLAS 0.3.30 was seen to take many times
as long for lower factors; without it, both take the same time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from .._diagnostics import fail, is_one_of
from .._progress import shows_progress, waiting
from ..derive import bounded_jit, log_potential, quickly_compiled
from ..evaluate import (
    Colouring,
    Objective,
    Sums,
    finite,
    flatten,
    gap_second_order,
    log_prior,
    one_mask_moments,
    second_order,
    tangent,
    unflatten,
)
from .limits import FALLING, INVERSE_MARGIN, LEAST_EIGENVALUE, POWER_MARGIN, POWER_STEPS, SINGULAR, SMALL_MATRIX

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


def verify_counts(weights_are: str, weights: Array) -> None:
    """Raise unless `weights_are` is valid, and counts are whole numbers.

    Raises:
        GmlmError: E540 for an invalid `weights_are`, E541 for counts that are not whole numbers.
    """
    if not is_one_of(weights_are, ("importances", "counts")):
        raise fail("E540", f'weights_are must be "importances" or "counts", got {weights_are!r}')
    part = np.flatnonzero(weights != np.round(weights))
    if weights_are == "counts" and len(part):
        message = f"weights are counts, and row {part[0]} has weight {weights[part[0]]:g}"
        raise fail("E541", message, help='leave `weights_are=` out: weights that are not counts are "importances"')


@dataclass(frozen=True)
class Curvature:
    """Second-order properties of the objective at an estimate, on the tangent space.

    Attributes:
        basis: orthonormal directions, shape (parameters, dimensions).
        hessian: the Hessian of the objective in those directions.
        prior: the part of the Hessian that comes from -log prior.
        score: the covariance of the rows' contributions to the gradient, summed over rows.
        one_mask: a function that returns `score` for one drawn mask per row; None if it cannot be
            computed.
        pull: the gradient of -log prior in those directions.
        coupling: the contribution to the derivative of the estimating equation from imputed cells,
            whose distribution depends on the parameters.
    """

    basis: Array
    hessian: Array
    prior: Array
    score: Array
    one_mask: Callable[[], Array] | None
    pull: Array
    coupling: Array | None = None

    @cached_property
    def data(self) -> Array:
        """The part of the Hessian that comes from the rows."""
        return self.hessian - self.prior if self.has_prior else self.hessian

    @cached_property
    def has_prior(self) -> bool:
        """Whether a prior contributes to the curvature."""
        return bool(self.prior.any())

    @cached_property
    def largest(self) -> float:
        """The largest eigenvalue of the rows' part of the Hessian, see `largest_eigenvalue`."""
        return largest_eigenvalue(self.data)

    @cached_property
    def factor(self) -> Array | None:
        """The Cholesky factor of the Hessian.

        It is None if some eigenvalue is negative, or 0 relative to the largest one.
        """
        least = SINGULAR * (largest_eigenvalue(self.hessian) if self.has_prior else self.largest)
        found = cholesky(self.hessian) if least > SINGULAR * LEAST_EIGENVALUE else None
        sound = found is not None and (least_eigenvalue(self.hessian, found) > least or exceeds(self.hessian, least))
        return found if sound else None

    @cached_property
    def least(self) -> float:
        """A lower bound of the eigenvalues of the Hessian; 0 if it has no factor."""
        return 0.0 if self.factor is None else least_eigenvalue(self.hessian, self.factor)

    def exceeds(self, least: float, share: float = 1.0) -> bool:
        """Return whether `share` * Hessian - prior is above `least` in every direction.

        Bounds decide this if they can; otherwise a Cholesky factorisation does.
        """
        if share * self.least - norm(self.prior) > least:
            return True
        return exceeds(share * self.hessian - self.prior, least)

    def flat(self) -> Array:
        """Return an orthonormal basis of the directions without curvature.

        The shape is (parameters, directions).
        """
        if self.factor is not None:
            return self.basis[:, :0]
        values, vectors = np.linalg.eigh(self.hessian)
        return self.basis @ vectors[:, values <= SINGULAR * max(values.max(initial=0.0), 1e-300)]

    def falling(self) -> Array:
        """Return an orthonormal basis of the directions of negative curvature, as at a saddle.

        The shape is (parameters, directions).
        """
        if self.factor is not None:
            return self.basis[:, :0]
        values, vectors = np.linalg.eigh(self.hessian)
        return self.basis @ vectors[:, values < -FALLING * max(values.max(initial=0.0), 1e-300)]

    def without(self, directions: Array) -> Curvature:
        """Return the curvature on the orthogonal complement of some directions."""
        if not directions.shape[1]:
            return self
        left, size, _ = np.linalg.svd(self.basis.T @ directions)
        q = left[:, int((size > 1e-9).sum()) :]
        seen, moments = (self.hessian, self.prior, self.score, self.coupling), self.one_mask
        hessian, prior, score, coupling = (None if m is None else q.T @ m @ q for m in seen)
        one_mask = None if moments is None else lambda: q.T @ moments() @ q
        return Curvature(self.basis @ q, hessian, prior, score, one_mask, q.T @ self.pull, coupling)  # pyright: ignore[reportArgumentType]

    @cached_property
    def influence(self) -> Array:
        """The matrix whose row p is H^-1 e_p in the directions of `basis`.

        Row p is the derivative of entry p with respect to the gradient, up to its sign; the shape
        is (parameters, dimensions). H includes the coupling of imputed cells.
        """
        if self.coupling is not None:
            return self.basis @ np.linalg.pinv(self.hessian + self.coupling)
        if self.factor is not None:
            return inverse(self.factor) if _is_identity(self.basis) else solve(self.factor, self.basis.T).T
        diagonal = np.abs(np.diag(self.hessian))
        # In this unit, no digits are lost because of the units of other entries.
        unit = 1 / np.sqrt(np.where(diagonal > LEAST_EIGENVALUE, diagonal, 1.0))
        values, vectors = np.linalg.eigh(unit[:, None] * self.hessian * unit)
        whole = (vectors / np.maximum(values, 1e-14 * max(values.max(initial=0.0), LEAST_EIGENVALUE))) @ vectors.T
        return self.basis @ (unit[:, None] * whole * unit)

    @cached_property
    def spread(self) -> Array:
        """The matrix H^-1 S, the covariation of the rows' gradients with each entry.

        The shape is (parameters, dimensions).
        """
        return self.influence @ self.score

    def sandwich(self) -> Array:
        """Return the Godambe covariance H^-1 S H^-1' in parameter space.

        H includes the coupling of imputed cells.
        """
        return self.spread @ self.influence.T

    def laplace(self) -> Array:
        """Return H^-1 in parameter space.

        This is the covariance of Laplace's approximation to a posterior whose -log density is the
        objective.
        """
        inverse = self.influence if _is_identity(self.basis) else self.influence @ self.basis.T
        return 0.5 * (inverse + inverse.T)


def _is_identity(basis: Array) -> bool:
    return basis.shape[0] == basis.shape[1] and np.count_nonzero(basis) == len(basis) and bool((np.diagonal(basis) == 1).all())


def _within(basis: Array, matrix: Array) -> Array:
    """Return a matrix of parameter space in the directions of `basis`."""
    return matrix if _is_identity(basis) else basis.T @ matrix @ basis


@dataclass(frozen=True)
class Copies:
    """Columns of an objective that contain imputed rows.

    There are `rows` imputed rows from column `first` on, with `count` completed copies of each row
    side by side. `redrawn` are further completions of the same columns, shape (draws, cells,
    columns), so that more than `count` completions enter the averages.
    """

    first: int
    rows: int
    count: int
    redrawn: Array | None = None

    @property
    def columns(self) -> slice:
        """The columns of the copies."""
        return slice(self.first, self.first + self.rows * self.count)


def curvature(
    objective: Objective,
    params: dict[str, jax.Array],
    colours: Colouring | None,
    copies: Copies | None = None,
    counts: bool = False,
    summed: Callable[[jax.Array], Sums] | None = None,
) -> Curvature:
    """Return the Hessian and the score covariance at an estimate.

    The sandwich (Godambe) covariance of the minimiser of sum_r c w_r loss_r - log prior is H^-1 S
    H^-1. H is the Hessian, and S = sum_r (u_r - mean u)(u_r - mean u)' with u_r = c w_r grad
    loss_r. For an imputed row, u_r is the mean over its copies. The imputations follow p(missing |
    observed) at the estimate, which adds c w_r Cov(grad loss_r, grad log p) over the copies to H.

    If weights are counts, a row of weight w is w rows of weight 1: S = sum_r w_r (g_r - mean g)(g_r
    - mean g)' with g_r = u_r / w_r.

    Args:
        objective: the objective that was minimised.
        params: the estimate.
        colours: the colouring of an exponential family under all masks, with which local statistics
            give the sums. If None, automatic differentiation is used.
        copies: the imputed rows.
        counts: whether weights are counts of identical rows instead of importances.
        summed: returns the sums over all rows at a vector of parameters, if the objective has only
            some of them and there is a colouring.

    Reference: Li et al. 2024, Lemmas 1 and 2; White 1982; for imputed cells Louis 1982, Robins and
    Wang 2000.
    """
    host = objective.frame.host
    basis = tangent(host, frozenset(objective.frame.fixed))
    vector, directions = flatten(host, {k: np.asarray(v) for k, v in params.items()}), jax.device_put(basis)
    slope, bend = map(np.asarray, _prior_second_order(objective, vector))
    prior = -_within(basis, bend if bend.ndim == 2 else np.diag(bend))
    known, one_mask, coupling = _without(objective, copies), None, None
    if colours is None:
        whole = dataclasses.replace(objective, gaps=None, gap_weights=None)
        spread = jax.device_put(_spread(objective, known.host_weights > 0, counts))
        by_rows, second, first = map(np.asarray, _by_directions(whole, vector, directions, spread))
        hessian = by_rows + prior
    else:
        # sum w g g' is the second moment for weights sqrt w: the same compiled sums run again.
        rooted = dataclasses.replace(known, weights=np.sqrt(known.host_weights), repeated=None) if counts else known
        c, sums = float(objective.factor), second_order(objective, vector, colours) if summed is None else summed(vector)
        seen = sums if copies is None else second_order(known, vector, colours)
        moments = second_order(rooted, vector, colours) if counts else seen
        hessian = c * _within(basis, sums.hessian) + prior
        second, first = c**2 * _within(basis, moments.second), c * basis.T @ seen.first
    apart = []
    if copies is not None:
        u, coupling = _imputed(objective, vector, basis, copies)
        apart.append((u, objective.host_weights[copies.columns].reshape(copies.rows, copies.count).sum(axis=1)))
    if objective.gaps is not None:
        more, u = map(np.asarray, gap_second_order(objective, vector, directions))
        hessian = hessian + more
        apart.append((u, np.asarray(objective.gap_weights)))
    for u, weights in apart:
        each = u / np.sqrt(np.where(weights > 0, weights, 1.0))[:, None] if counts else u
        second, first = second + each.T @ each, first + u.sum(axis=0)
    rows = _size(objective, copies, counts) if colours is None or summed is None else sums.rows
    mean = np.outer(first, first) / max(rows, 1.0)
    loss = objective.exact_loss_or_none
    if not (summed is not None or colours is None or apart or loss is None or loss.split):
        one_mask = partial(_one_mask, rooted, vector, colours, basis, mean, bool(jax.config.jax_enable_x64))  # pyright: ignore[reportAttributeAccessIssue]
    return Curvature(basis, 0.5 * (hessian + hessian.T), prior, second - mean, one_mask, -basis.T @ slope, coupling)


def _spread(objective: Objective, alive: Array, counts: bool) -> Array:
    """Return s of each row for the score covariance: 0 for rows that do not contribute to it."""
    if counts:
        return np.where(alive, 1 / np.sqrt(np.where(alive, objective.host_weights, 1.0)), 0.0)
    return np.where(alive, 1.0 if objective.spread is None else objective.spread, 0.0)


def _one_mask(objective: Objective, vector: jax.Array, colours: Colouring, basis: Array, mean: Array, wide: bool) -> Array:
    """Return `Curvature.one_mask` of complete rows.

    `wide` states whether the computation runs in float64, whatever the caller's setting is.
    """
    with jax.enable_x64(wide):  # pyright: ignore[reportAttributeAccessIssue]
        return float(objective.factor) ** 2 * _within(basis, one_mask_moments(objective, vector, colours)) - mean


def _size(objective: Objective, copies: Copies | None, counts: bool) -> float:
    """Return the number of rows."""
    if counts:
        return float(objective.weights.sum()) + (0.0 if objective.gap_weights is None else float(objective.gap_weights.sum()))
    return float(objective.n_rows) - (0 if copies is None else copies.rows * (copies.count - 1))


class Covariances(Mapping[str, Array]):
    """The covariances of the determined directions, by kind; each is computed at the first access.

    - sandwich: H^-1 S H^-1
    - laplace: H^-1
    - one_mask: the sandwich for one drawn mask per row, if it can be computed

    The covariances have zeros for entries outside the directions of `curve`. All but laplace also
    have zeros at the entries in `unknown`, whose error the rows do not determine.
    """

    def __init__(self, curve: Curvature, unknown: Array):
        self._curve, self._unknown = curve, unknown
        self._found: dict[str, Array] = {}
        # whether a progress bar is shown: `Later` copies the setting of the fit
        self.progress: bool | None = False

    def __getitem__(self, kind: str) -> Array:
        if kind not in self._found:
            with waiting("standard errors", shows_progress(self.progress)):
                self._found[kind] = self._computed(kind)
        return self._found[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(("sandwich", "laplace") if self._curve.one_mask is None else ("sandwich", "laplace", "one_mask"))

    def __len__(self) -> int:
        return 2 + (self._curve.one_mask is not None)

    def __contains__(self, kind: object) -> bool:
        return kind in tuple(self)  # `Mapping` would compute the covariance

    def variances(self, kind: str) -> Array:
        """Return the diagonal of a covariance.

        For a sandwich that has not been computed yet, only the diagonal is computed.
        """
        if kind in self._found or kind != "sandwich":
            return np.diag(self[kind])
        return np.where(self._unknown, 0.0, np.einsum("pk,pk->p", self._curve.spread, self._curve.influence))

    def _computed(self, kind: str) -> Array:
        curve = self._curve
        if kind == "laplace":
            return curve.laplace()
        if kind == "one_mask" and curve.one_mask is not None:
            found = dataclasses.replace(curve, score=curve.one_mask()).sandwich()
        elif kind == "sandwich":
            found = curve.sandwich()
        else:
            raise KeyError(kind)
        return np.where(self._unknown[:, None] | self._unknown, 0.0, found) if self._unknown.any() else found


def determined(curve: Curvature, open_: Array, held: Array) -> Curvature:
    """Return the curvature in the determined directions.

    Args:
        curve: the curvature at the estimate.
        open_: directions without an estimate, as columns.
        held: the entries that a laplace prior holds at its centre.
    """
    return curve.without(np.concatenate([open_, np.eye(len(held))[:, held]], axis=1))


def complete_rows(objective: Objective, copies: Copies | None) -> Objective:
    """Return the objective without its imputed rows and rows with missing cells."""
    return dataclasses.replace(_without(objective, copies), gaps=None, gap_weights=None)


def _without(objective: Objective, copies: Copies | None) -> Objective:
    """Return the objective without its imputed rows."""
    if copies is None:
        return objective
    weights = objective.weights.at[copies.columns].set(0)
    return eqx.tree_at(lambda o: o.weights, objective, weights)


def _imputed(objective: Objective, vector: jax.Array, basis: Array, copies: Copies) -> tuple[Array, Array]:
    """Return u_r of the imputed rows and the coupling, both as means over the completions."""
    completions = [objective.codes[:, copies.columns]] if copies.redrawn is None else list(copies.redrawn)
    shape = (copies.rows, copies.count)
    found = [_imputed_scores(objective, vector, jax.device_put(basis), codes, copies.first, shape) for codes in completions]
    return np.mean([np.asarray(u) for u, _ in found], axis=0), np.mean([np.asarray(c) for _, c in found], axis=0)


@bounded_jit
def _imputed_scores(
    objective: Objective, vector: jax.Array, basis: jax.Array, completed: jax.Array, first: int, shape: tuple[int, int]
) -> tuple[jax.Array, jax.Array]:
    """Return u_r of the imputed rows, and the sum of c w_r Cov(grad loss_r, grad log p).

    The shapes are (rows, directions) and (directions, directions).
    """
    host = objective.frame.host
    columns = slice(first, first + shape[0] * shape[1])

    def by_row(a: jax.Array) -> jax.Array:
        return jnp.moveaxis(a.reshape(*a.shape[:-1], *shape), -2, 0)

    def row(piece: tuple[jax.Array, jax.Array, jax.Array | None]) -> tuple[jax.Array, jax.Array]:
        codes, weights, masks = piece

        def one(c: jax.Array, m: jax.Array | None) -> tuple[jax.Array, jax.Array]:
            drawn = None if m is None else m[..., None]
            loss = jax.grad(lambda v: objective.rows(unflatten(host, v), c[:, None], drawn)[0])(vector)
            joint = jax.grad(lambda v: log_potential(objective.loss.graph, unflatten(host, v), c[:, None])[0])(vector)
            return basis.T @ loss, basis.T @ joint

        g, s = jax.vmap(one, in_axes=(1, None if masks is None else 2))(codes, masks)
        weight = objective.factor * weights.sum()
        apart = (g - g.mean(axis=0)).T @ (s - s.mean(axis=0)) / (shape[1] - 1)
        return weight * g.mean(axis=0), weight * apart

    masks = None if objective.masks is None else objective.masks[..., columns]
    u, coupling = jax.lax.map(row, jax.tree.map(by_row, (completed, objective.weights[columns], masks)))
    return u, coupling.sum(axis=0)


def prior_curvature(objective: Objective, params: dict[str, jax.Array]) -> Array:
    """Return the diagonal of the Hessian of -log prior."""
    vector = flatten(objective.frame.host, {k: np.asarray(v) for k, v in params.items()})
    bend = np.asarray(_prior_second_order(objective, vector)[1])
    return -(np.diag(bend) if bend.ndim == 2 else bend)


@quickly_compiled()
def _prior_second_order(objective: Objective, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the gradient of log prior, and the diagonal of its Hessian.

    log prior is a sum over entries, so its Hessian is diagonal. If some parameters are arguments of
    the priors of others, the whole Hessian is returned instead.
    """
    host = objective.frame.host
    gradient = jax.grad(lambda v: log_prior(host, unflatten(host, v)))
    if host.hyperpriors:
        return gradient(vector), jax.jacfwd(gradient)(vector)
    return jax.jvp(gradient, (vector,), (jnp.ones_like(vector),))


@quickly_compiled()
def _by_directions(objective: Objective, vector: jax.Array, basis: jax.Array, spread: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return sums over rows for H, S and the mean of u, in the directions of `basis`.

    The summands are c w times the Hessian of the loss, (s u)(s u)', and [s > 0] u, with s from
    `spread`.

    Let l_r be the weighted loss of row r, f = sum l_r, and D_d the derivative along d. D_d of (l,
    grad f) is (u d, H d). The contributions of each row to S and of all rows to H therefore share
    one traced loss and one program. Directions are processed one at a time, because several at once
    do not fit in the cache.
    """
    host = objective.frame.host

    def chunk(codes: jax.Array, weights: jax.Array, masks: jax.Array | None, spread: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        def losses(v: jax.Array) -> tuple[jax.Array, jax.Array]:
            each = objective.factor * weights * finite(objective.rows(unflatten(host, v), codes, masks), weights)
            return each.sum(), each

        def along(d: jax.Array) -> tuple[jax.Array, jax.Array]:
            bent, slopes = jax.jvp(jax.grad(losses, has_aux=True), (vector,), (d,))[1]
            return basis.T @ bent, slopes

        hessian, u = jax.lax.map(along, basis.T)
        wide = u * spread[None]
        return hessian, wide @ wide.T, jnp.where(spread[None] > 0, u, 0.0).sum(axis=1)

    return objective.sum_rows(chunk, spread)
