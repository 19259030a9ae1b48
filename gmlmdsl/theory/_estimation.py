"""The statistical efficiency of a mask: Fisher information and asymptotic covariance.

Let u(x) = grad log p(x), and let P be the block dynamics of the mask (`_block_dynamics.py`). The
gradient of -log p(x_K | x_-K, K) is -(u - E[u | x_-K, K]). At the parameters that made the data,
therefore,

    Fisher information     I     = Var(u)
    Hessian of the loss    H     = E[u (u - P u)'], the Dirichlet form of u
    score, all masks       S_all = E[(u - P u)(u - P u)']
    score, one mask a row  S_one = H, the generalised information-matrix equality
    score, m masks a row   S_m   = S_all + (S_one - S_all) / m

The pseudolikelihood estimator from n rows has the covariance H^-1 S H^-1 / n (Godambe). Since E[u
(u - P u)'] >= Var(u) / C with the Poincare constant C of the same mask, H^-1 <= C I^-1.

Reference: Li et al. 2024, Lemmas 1, 2 and 5, Theorems 1 to 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail, is_whole_number
from .._types import ArrayLike, Given
from ..data import encode_given
from ..evaluate import entry_names, tangent
from ..graph import FactorGraph
from ._block_dynamics import BlockDynamics, dynamics_of, verify_work
from ._configurations import Configurations, configurations, verify_model
from .limits import LEAST_INFORMATION, MOST_GIVEN_ROWS, NO_CHANGE, UNSEEN_INFORMATION, UNSEEN_PART

if TYPE_CHECKING:
    from ..model import JointModel, Params

Array = np.ndarray


@dataclass(frozen=True)
class Information:
    """Information matrices of one mask, on the tangent space of gauges and simplexes.

    The matrices have the shape (directions, directions).

    Attributes:
        basis: orthonormal directions of the flat parameter vector, shape (parameters, directions).
        fisher: I, of one row.
        hessian: H of the mean loss.
        score_all: the covariance of a row's score if its loss averages over every mask.
        names: the names of the entries of the flat parameter vector.
        connected: whether the mask's chain is known to reach all of the support, so that its loss
            depends on every direction.
    """

    basis: Array
    fisher: Array
    hessian: Array
    score_all: Array
    names: tuple[str, ...]
    connected: bool = False

    def score(self, n_masks: int | None) -> Array:
        """Return the covariance of a row's score with `n_masks` masks drawn for it.

        None stands for the average over all masks. With one mask a row it is the Hessian itself.
        """
        if n_masks is None:
            return self.score_all
        return self.score_all + (self.hessian - self.score_all) / n_masks

    @cached_property
    def whitening(self) -> Array:
        """The matrix W with W' I W = 1, over the directions that change a probability.

        It has the shape (directions, rank of I). Each direction is first scaled by its own standard
        deviation, so that a direction of small units is not dropped.
        """
        spread = np.sqrt(np.maximum(np.diag(self.fisher), 0.0))
        scale = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1.0), 0.0)
        values, vectors = np.linalg.eigh(_even(scale[:, None] * self.fisher * scale))
        keep = values > NO_CHANGE
        found = scale[:, None] * vectors[:, keep] / np.sqrt(values[keep])
        # As in a pseudo-inverse, W has no component in directions that change no probability.
        nothing = scale[:, None] * vectors[:, ~keep]
        length = np.linalg.norm(nothing, axis=0)
        # The remaining directions are those in which no score varies.
        nothing = nothing[:, length > UNSEEN_PART * scale.max(initial=0.0)]
        left, size, _ = np.linalg.svd(nothing / np.linalg.norm(nothing, axis=0), full_matrices=False)
        left = left[:, size > UNSEEN_PART]
        return found - left @ (left.T @ found)

    @cached_property
    def seen(self) -> tuple[Array, Array]:
        """Eigenvalues of H relative to I, ascending, and their vectors.

        The vectors are columns in whitened coordinates. If the mask's chain reaches all of the
        support, no eigenvalue is 0, because H v = 0 implies that v'u is constant.
        """
        values, vectors = np.linalg.eigh(_even(self.whitening.T @ self.hessian @ self.whitening))
        return np.maximum(values, LEAST_INFORMATION) if self.connected else values, vectors

    @property
    def unseen(self) -> Array:
        """Directions of the flat parameter vector that change probabilities but not the loss.

        They are columns of length 1.
        """
        values, vectors = self.seen
        found = self.basis @ self.whitening @ vectors[:, self._blind(values)]
        return found / np.linalg.norm(found, axis=0)

    @property
    def undetermined(self) -> Array:
        """Whether each entry of the flat parameter vector has a component in an unseen direction.

        The array has the shape (parameters,).
        """
        return np.any(np.abs(self.unseen) > UNSEEN_PART, axis=1)

    def relative(self, n_masks: int | None) -> Array:
        """Return the covariance relative to that of maximum likelihood, shape (rank, rank).

        In its coordinates the covariance of maximum likelihood is the identity. The loss must
        depend on all directions.
        """
        values, vectors = self.seen
        inverse = (vectors / values) @ vectors.T
        return _even(inverse @ self.whitening.T @ self.score(n_masks) @ self.whitening @ inverse)

    def _blind(self, values: Array) -> Array:
        """Return whether each eigenvalue of `seen` is 0."""
        return np.zeros(len(values), bool) if self.connected else values <= UNSEEN_INFORMATION

    def covariance(self, n_masks: int | None) -> Array:
        """Return n times the covariance of the estimator, shape (parameters, parameters).

        It is in parameter space. Entries with a component in an unseen direction have variance inf
        and covariances nan.
        """
        values, vectors = self.seen
        keep = ~self._blind(values)
        spread = self.basis @ self.whitening @ (vectors[:, keep] / values[keep]) @ vectors[:, keep].T @ self.whitening.T
        out = _even(spread @ self.score(n_masks) @ spread.T)
        open_ = self.undetermined
        out[open_] = out[:, open_] = np.nan
        out[open_, open_] = np.inf
        return out


def _even(matrix: Array) -> Array:
    return 0.5 * (matrix + matrix.T)


def _weighted(space: Configurations, f: Array, g: Array) -> Array:
    """Return E[f g'] of tensors with an axis of directions."""
    p = space.p.reshape(-1, 1)
    return f.reshape(space.count, -1).T @ (p * g.reshape(space.count, -1))


def _mean_over(model: JointModel, given: Given | None, one: Callable[[Given | None], tuple[Array, ...]]) -> tuple[Array, ...]:
    """Return the mean over rows of given data.

    Each row has its own distribution, and information adds over rows.
    """
    found = encode_given(model.graph, given)
    if found is None or not found.shape:
        return one(given)
    rows = _rows_of(model.graph, given, found.shape)
    keys = [tuple((k, np.asarray(v).tobytes()) for k, v in row.items()) for row in rows]
    distinct = {key: row for key, row in zip(keys, rows, strict=True)}
    if len(distinct) > MOST_GIVEN_ROWS:
        message = f"given: {len(distinct):,} different rows, each with a distribution of its own; the limit is {MOST_GIVEN_ROWS}"
        raise fail("E601", message, help="take some of the rows: the mean over them is an estimate of that over all")
    each = {key: one(row) for key, row in distinct.items()}
    return tuple(np.mean([each[k][place] for k in keys], axis=0) for place in range(len(each[keys[0]])))


def _rows_of(host: FactorGraph, given: Any, shape: tuple[int, ...]) -> list[dict[str, ArrayLike]]:
    """Return the data of given variables row by row.

    A variable without rows has the same value in each row.
    """
    rows = []
    for place in np.ndindex(*shape):
        row = {}
        for v in host.given:
            value = np.asarray(given[v.name])
            text = value.dtype.kind in "US" and value.ndim == len(shape) + len(v.shape) - 1
            row[v.name] = value[place] if text or value.ndim > len(v.shape) else value
        rows.append(row)
    return rows


def fisher_information(model: JointModel, params: Params, *, given: Given | None = None) -> Array:
    """Return I = Cov(grad log p(x)) under p, exactly; n I is the information of n rows.

    Args:
        model: the model; latents are summed out.
        params: parameters.
        given: data of given variables; for several rows the result is the mean over them.

    Returns:
        Array of shape (parameters, parameters), float64, for the flat vector (declaration order,
            then row-major). It is projected onto the directions in which gauges and simplexes may
            move.

    Raises:
        GmlmError: E601 for more configurations than 65,536.
    """
    verify_model(model)
    verify_interior(model.graph, params)

    def one(row: Given | None) -> tuple[Array, ...]:
        space = configurations(model, params, "Fisher information", given=row)
        return (space.basis @ _weighted(space, space.scores, space.scores) @ space.basis.T,)

    return _even(_mean_over(model, given, one)[0])


def pseudolikelihood_information(model: JointModel, params: Params, mask: str | None = None, *, given: Given | None = None) -> Information:
    """Return Fisher information, Hessian and score covariance of a mask's loss.

    The mask may be plain, weighted or adaptive. All three are taken at the parameters that made the
    data.

    Args:
        model: the model; latents are summed out.
        params: the parameters that made the data.
        mask: the mask's name.
        given: data of given variables; for several rows the result is the mean over them.

    Raises:
        GmlmError: E601, E602 if the enumeration is too large, E702 for a mask that mentions a
            parameter, E703 for one that uses a latent.
    """
    verify_model(model)
    name, lowered = model.mask(mask)
    if lowered.mentions_parameter:
        raise fail("E702", f"mask `{name}` mentions a parameter: it may sample, and has no loss", lowered.span)

    verify_interior(model.graph, params)

    def one(row: Given | None) -> tuple[Array, ...]:
        _, dynamics = dynamics_of(model, params, mask, "the information of a mask", row)
        return *information_matrices(dynamics), np.asarray(float(not dynamics.components().any()))

    fisher, hessian, score_all, connected = _mean_over(model, given, one)
    return Information(tangent(model.graph, frozenset()), fisher, hessian, score_all, tuple(entry_names(model.graph)), bool(connected == 1))


def information_matrices(dynamics: BlockDynamics) -> tuple[Array, Array, Array]:
    """Return I, H and S_all of block dynamics, in the directions of the configurations' basis.

    H = E[u (u - P u)'] is summed as E over x and K of Cov(u | x_-K, K), in which nothing cancels.

    Raises:
        GmlmError: E601 for too much work.
    """
    space = dynamics.space
    verify_work(dynamics, space.basis.shape[1], "the information of a mask")
    u = space.scores
    left, hessian = np.zeros_like(u), np.zeros((u.shape[-1], u.shape[-1]))
    for block in dynamics:
        apart = u - block.mean(u)
        chance = np.broadcast_to(block.chance, space.sizes)[..., None]
        left += chance * apart
        hessian += _weighted(space, apart, chance * apart)
    left[space.log_p == -np.inf] = 0.0
    return _even(_weighted(space, u, u)), _even(hessian), _even(_weighted(space, left, left))


def verify_interior(host: FactorGraph, params: Params) -> None:
    """Raise E509 for a simplex on its boundary, at which the score is infinite.

    Raises:
        GmlmError: E509.
    """
    for p in host.parameters:
        if p.kind == "simplex" and p.name in params and (np.asarray(params[p.name]) <= 0).any():
            message = f"`{p.name}` has an entry 0: a simplex on its boundary has no finite information there"
            raise fail("E509", message, help="move it inside, or declare the model without that value")


def asymptotic_covariance(
    model: JointModel, params: Params, mask: str | None = None, n_masks: int | None = None, *, given: Given | None = None
) -> Array:
    """Return n times the covariance of the pseudolikelihood estimator from n rows, as n grows.

    It is H^-1 S H^-1.

    Args:
        model: the model; latents are summed out.
        params: the parameters that made the data.
        mask: the mask's name.
        n_masks: the number of masks drawn for each row. None averages each row's loss over all
            masks.
        given: data of given variables; for several rows the result is the mean over them.

    Returns:
        Array of shape (parameters, parameters), float64, for the flat vector. Directions that
            change no probability, as in a model without the gauge that it needs, are left out as in
            a pseudo-inverse. An entry with a component in a direction that p depends on, but the
            loss does not, has variance inf and covariances nan.

    Raises:
        GmlmError: as `pseudolikelihood_information`; E507 for an invalid `n_masks`.

    Reference: Li et al. 2024, Lemmas 1, 2 and 5. For `everything` it is the inverse of Fisher
    information.
    """
    verify_masks_per_row(n_masks)
    return pseudolikelihood_information(model, params, mask, given=given).covariance(n_masks)


def verify_masks_per_row(n_masks: int | None) -> None:
    """Raise E507 for an invalid number of masks.

    Raises:
        GmlmError: E507.
    """
    if n_masks is not None and (not is_whole_number(n_masks) or n_masks < 1):
        raise fail("E507", f"n_masks must be a whole number above 0, or None for all masks, got {n_masks!r}")
