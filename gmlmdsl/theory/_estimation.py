"""What a mask costs in statistical efficiency: Fisher information, and the asymptotic covariance of pseudolikelihood estimates.

With u(x) = grad log p(x) and the block dynamics P of the mask (`_block_dynamics.py`), the gradient
of -log p(x_K | x_-K, K) is -(u - E[u | x_-K, K]). At the parameters that made the data, therefore,

    Fisher information     I     = Var(u)
    Hessian of the loss    H     = E[u (u - P u)'], the Dirichlet form of u
    score, all masks       S_all = E[(u - P u)(u - P u)']
    score, one mask a row  S_one = H, the generalised information-matrix equality
    score, m masks a row   S_m   = S_all + (S_one - S_all) / m

and the estimator from n rows has the covariance H^-1 S H^-1 / n (Godambe). As E[u (u - P u)'] >=
Var(u) / C with the Poincare constant C of the same mask, H^-1 <= C I^-1.

Reference: Li et al. 2024, Lemmas 1, 2 and 5, Theorems 1 to 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail
from ..data import encode_given
from ..evaluate import entry_names, tangent
from ..graph import FactorGraph
from ._block_dynamics import BlockDynamics, dynamics_of, verify_work
from ._configurations import Configurations, configurations, verify_model

if TYPE_CHECKING:
    from ..model import JointModel, Params

Array = np.ndarray
NO_CHANGE = 1e-12  # of the scores' correlations: directions below change no probability
# of H beside I, where the mask's chain falls into parts: the mask does not see directions below
UNSEEN = 1e-12
MOST_ROWS = 256  # of given data, different ones
LEAST = 1e-16  # of H beside I, where it does not: rounding
PART = 1e-7  # of an entry in an unseen direction: below, the entry has no part in it


@dataclass(frozen=True)
class Information:
    """Information matrices of one mask, on the tangent space of gauges and simplexes; shapes (directions, directions).

    Attributes:
        basis: orthonormal directions of the flat parameter vector, shape (parameters, directions).
        fisher: I, of one row.
        hessian: H of the mean loss.
        score_all: the covariance of a row's score when its loss averages over every mask.
        names: of the entries of the flat parameter vector.
        connected: whether the mask's chain is known to reach all of the support, so that its loss
            sees every direction.
    """

    basis: Array
    fisher: Array
    hessian: Array
    score_all: Array
    names: tuple[str, ...]
    connected: bool = False

    def score(self, n_masks: int | None) -> Array:
        """The covariance of a row's score with `n_masks` drawn for it; None: all. One mask a row: the Hessian itself."""
        if n_masks is None:
            return self.score_all
        return self.score_all + (self.hessian - self.score_all) / n_masks

    @cached_property
    def whitening(self) -> Array:
        """W with W' I W = 1, over the directions that change a probability, shape (directions, rank of I).

        Each direction is measured by its own standard deviation first: what is small in its unit is
        not nothing.
        """
        spread = np.sqrt(np.maximum(np.diag(self.fisher), 0.0))
        scale = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1.0), 0.0)
        values, vectors = np.linalg.eigh(_even(scale[:, None] * self.fisher * scale))
        keep = values > NO_CHANGE
        found = scale[:, None] * vectors[:, keep] / np.sqrt(values[keep])
        # Without a part in directions that change nothing, as a pseudo-inverse has it.
        nothing = scale[:, None] * vectors[:, ~keep]
        length = np.linalg.norm(nothing, axis=0)
        # the others lie where no score varies
        nothing = nothing[:, length > PART * scale.max(initial=0.0)]
        left, size, _ = np.linalg.svd(nothing / np.linalg.norm(nothing, axis=0), full_matrices=False)
        left = left[:, size > PART]
        return found - left @ (left.T @ found)

    @cached_property
    def seen(self) -> tuple[Array, Array]:
        """Eigenvalues of H beside I, ascending, and their vectors, as columns in whitened coordinates.

        Where the mask's chain reaches all of the support none is 0: H v = 0 says that v'u is
        constant.
        """
        values, vectors = np.linalg.eigh(_even(self.whitening.T @ self.hessian @ self.whitening))
        return np.maximum(values, LEAST) if self.connected else values, vectors

    @property
    def unseen(self) -> Array:
        """Directions of the flat parameter vector that change probabilities but not the loss, as columns of length 1."""
        values, vectors = self.seen
        found = self.basis @ self.whitening @ vectors[:, self._blind(values)]
        return found / np.linalg.norm(found, axis=0)

    @property
    def undetermined(self) -> Array:
        """Which entries of the flat parameter vector have a part in an unseen direction, shape (parameters,)."""
        return np.any(np.abs(self.unseen) > PART, axis=1)

    def relative(self, n_masks: int | None) -> Array:
        """The covariance in coordinates in which that of maximum likelihood is 1, shape (rank, rank), where the mask sees all."""
        values, vectors = self.seen
        inverse = (vectors / values) @ vectors.T
        return _even(inverse @ self.whitening.T @ self.score(n_masks) @ self.whitening @ inverse)

    def _blind(self, values: Array) -> Array:
        """Which eigenvalues of `seen` are 0."""
        return np.zeros(len(values), bool) if self.connected else values <= UNSEEN

    def covariance(self, n_masks: int | None) -> Array:
        """n times the covariance of the estimator, in parameter space, shape (parameters, parameters).

        Entries with a part in an unseen direction have variance inf and covariances nan.
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
    """E[f g'] of tensors with an axis of directions."""
    p = space.p.reshape(-1, 1)
    return f.reshape(space.count, -1).T @ (p * g.reshape(space.count, -1))


def _mean_over(model: JointModel, given: Any, one: Callable[[Any], tuple[Array, ...]]) -> tuple[Array, ...]:
    """The mean over rows of given data: each row has a law of its own, and information adds."""
    found = encode_given(model.graph, given)
    if found is None or not found.shape:
        return one(given)
    rows = _rows_of(model.graph, given, found.shape)
    keys = [tuple((k, np.asarray(v).tobytes()) for k, v in row.items()) for row in rows]
    distinct = {key: row for key, row in zip(keys, rows, strict=True)}
    if len(distinct) > MOST_ROWS:
        message = f"given: {len(distinct):,} different rows, each with a distribution of its own; the limit is {MOST_ROWS}"
        raise fail("E601", message, help="take some of the rows: the mean over them is an estimate of that over all")
    each = {key: one(row) for key, row in distinct.items()}
    return tuple(np.mean([each[k][place] for k in keys], axis=0) for place in range(len(each[keys[0]])))


def _rows_of(host: FactorGraph, given: Any, shape: tuple[int, ...]) -> list[dict[str, Any]]:
    """The data of given variables row by row; variables without rows stand in each."""
    rows = []
    for place in np.ndindex(*shape):
        row = {}
        for v in host.given:
            value = np.asarray(given[v.name])
            text = value.dtype.kind in "US" and value.ndim == len(shape) + len(v.shape) - 1
            row[v.name] = value[place] if text or value.ndim > len(v.shape) else value
        rows.append(row)
    return rows


def fisher_information(model: JointModel, params: Params, *, given: Any = None) -> Array:
    """I = Cov(grad log p(x)) under p, exact; n I is the information of n rows.

    Args:
        model: the model; latents are summed out.
        params: parameters.
        given: data of given variables; of several rows the mean is taken.

    Returns:
        Shape (parameters, parameters), of the flat vector (declaration order, then row-major),
        float64; projected onto the directions
        in which gauges and simplexes may move.

    Raises:
        GmlmError: E601 for more configurations than 65,536.
    """
    verify_model(model)
    verify_interior(model.graph, params)

    def one(row: Any) -> tuple[Array, ...]:
        space = configurations(model, params, "Fisher information", given=row)
        return (space.basis @ _weighted(space, space.scores, space.scores) @ space.basis.T,)

    return _even(_mean_over(model, given, one)[0])


def pseudolikelihood_information(model: JointModel, params: Params, mask: str | None = None, *, given: Any = None) -> Information:
    """Fisher information, Hessian and score covariance of the loss of a mask, plain, weighted or adaptive, at its own parameters.

    Args:
        model: the model; latents are summed out.
        params: parameters: those that made the data.
        mask: the mask's name.
        given: data of given variables; of several rows the mean is taken.

    Raises:
        GmlmError: E601, E602 where there is too much to list, E702 for a mask that mentions a
            parameter, E703 for one that uses a latent.
    """
    verify_model(model)
    name, lowered = model.mask(mask)
    if lowered.mentions_parameter:
        raise fail("E702", f"mask `{name}` mentions a parameter: it may sample, and has no loss", lowered.span)

    verify_interior(model.graph, params)

    def one(row: Any) -> tuple[Array, ...]:
        _, dynamics = dynamics_of(model, params, mask, "the information of a mask", row)
        return *information_matrices(dynamics), np.asarray(float(not dynamics.components().any()))

    fisher, hessian, score_all, connected = _mean_over(model, given, one)
    return Information(tangent(model.graph, frozenset()), fisher, hessian, score_all, tuple(entry_names(model.graph)), bool(connected == 1))


def information_matrices(dynamics: BlockDynamics) -> tuple[Array, Array, Array]:
    """I, H and S_all of block dynamics, in the directions of the configurations' basis.

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
    """Refuse a simplex on its boundary: the score of what it makes impossible is infinite.

    Raises:
        GmlmError: E509.
    """
    for p in host.parameters:
        if p.kind == "simplex" and p.name in params and (np.asarray(params[p.name]) <= 0).any():
            message = f"`{p.name}` has an entry 0: a simplex on its boundary has no finite information there"
            raise fail("E509", message, help="move it inside, or declare the model without that value")


def asymptotic_covariance(
    model: JointModel, params: Params, mask: str | None = None, n_masks: int | None = None, *, given: Any = None
) -> Array:
    """n times the covariance of the pseudolikelihood estimator from n rows, n large: H^-1 S H^-1.

    Args:
        model: the model; latents are summed out.
        params: parameters: those that made the data.
        mask: the mask's name.
        n_masks: masks drawn for each row; None: each row's loss averages over all of them.
        given: data of given variables; of several rows the mean is taken.

    Returns:
        Shape (parameters, parameters), of the flat vector, float64. Directions that change no
        probability (a model without the gauge
        that it needs) are left out, as by a pseudo-inverse. Entries with a part in a direction that
        p depends on and the loss does not
        have variance inf and covariances nan.

    Raises:
        GmlmError: as `pseudolikelihood_information`; E507 for a bad `n_masks`.

    Reference: Li et al. 2024, Lemmas 1, 2 and 5; for `everything` it is the inverse of Fisher
    information.
    """
    verify_masks_per_row(n_masks)
    return pseudolikelihood_information(model, params, mask, given=given).covariance(n_masks)


def verify_masks_per_row(n_masks: int | None) -> None:
    """Refuse a number of masks that is none.

    Raises:
        GmlmError: E507.
    """
    if n_masks is not None and (not isinstance(n_masks, int | np.integer) or isinstance(n_masks, bool) or n_masks < 1):
        raise fail("E507", f"n_masks must be a whole number above 0, or None for all masks, got {n_masks!r}")
