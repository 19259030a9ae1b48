"""What a mask costs in statistical efficiency: Fisher information, and the asymptotic covariance of pseudolikelihood estimates.

With u(x) = grad log p(x) and the block dynamics P of the mask (`_block_dynamics.py`), the gradient of -log p(x_K | x_-K, K) is
-(u - E[u | x_-K, K]). At the parameters that made the data, therefore,

    Fisher information     I     = Var(u)
    Hessian of the loss    H     = E[u (u - P u)'], the Dirichlet form of u
    score, all masks       S_all = E[(u - P u)(u - P u)']
    score, one mask a row  S_one = H, the generalised information-matrix equality
    score, m masks a row   S_m   = S_all + (S_one - S_all) / m

and the estimator from n rows has the covariance H^-1 S H^-1 / n (Godambe). As E[u (u - P u)'] >= Var(u) / C with the Poincare constant C
of the same mask, H^-1 <= C I^-1.

Reference: Li et al. 2024, Lemmas 1, 2 and 5, Theorems 1 to 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail
from ..graph import FactorGraph
from ..graph.masks import mentions_parameter
from ..run import given as givens
from ..run.parameters import entry_names, tangent
from ._block_dynamics import BlockDynamics, dynamics_of
from ._configurations import Configurations, configurations

if TYPE_CHECKING:
    from .._queries import Params, Queries

Array = np.ndarray
NO_CHANGE = 1e-12  # of the largest eigenvalue of I: directions below change no probability
UNSEEN = 1e-11  # of H beside I: the mask does not see directions below
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
    """

    basis: Array
    fisher: Array
    hessian: Array
    score_all: Array
    names: tuple[str, ...]

    def score(self, n_masks: int | None) -> Array:
        """The covariance of a row's score with `n_masks` drawn for it; None: all. One mask a row: the Hessian itself."""
        if n_masks is None:
            return self.score_all
        return self.score_all + (self.hessian - self.score_all) / n_masks

    @cached_property
    def whitening(self) -> Array:
        """W with W' I W = 1, over the directions that change a probability, shape (directions, rank of I)."""
        values, vectors = np.linalg.eigh(self.fisher)
        keep = values > NO_CHANGE * max(values.max(initial=0.0), 1e-300)
        return vectors[:, keep] / np.sqrt(values[keep])

    @cached_property
    def seen(self) -> tuple[Array, Array]:
        """Eigenvalues of H beside I, ascending, and their vectors, as columns in whitened coordinates."""
        return np.linalg.eigh(_even(self.whitening.T @ self.hessian @ self.whitening))

    @property
    def unseen(self) -> Array:
        """Directions of the flat parameter vector that change probabilities but not the loss, as columns of length 1."""
        values, vectors = self.seen
        found = self.basis @ self.whitening @ vectors[:, values <= UNSEEN]
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

    def covariance(self, n_masks: int | None) -> Array:
        """n times the covariance of the estimator, in parameter space, shape (parameters, parameters).

        Entries with a part in an unseen direction have variance inf and covariances nan.
        """
        values, vectors = self.seen
        keep = values > UNSEEN
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


def _mean_over(model: Queries, given: Any, one: Callable[[Any], tuple[Array, ...]]) -> tuple[Array, ...]:
    """The mean over rows of given data: each row has a law of its own, and information adds."""
    found = givens.encode_given(model.graph, given)
    if found is None or not found.shape:
        return one(given)
    each = [one(row) for row in _rows_of(model.graph, given, found.shape)]
    return tuple(np.mean(parts, axis=0) for parts in zip(*each, strict=True))


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


def fisher_information(model: Queries, params: Params, *, given: Any = None) -> Array:
    """I = Cov(grad log p(x)) under p, exact; n I is the information of n rows.

    Args:
        model: the model; latents are summed out.
        params: parameters.
        given: data of given variables; of several rows the mean is taken.

    Returns:
        Shape (parameters, parameters), of the flat vector (declaration order, then row-major), float64; projected onto the directions
        in which gauges and simplexes may move.

    Raises:
        GmlmError: E601 for more configurations than 65,536.
    """

    def one(row: Any) -> tuple[Array, ...]:
        space = configurations(model, params, "Fisher information", given=row)
        return (space.basis @ _weighted(space, space.scores, space.scores) @ space.basis.T,)

    return _even(_mean_over(model, given, one)[0])


def pseudolikelihood_information(model: Queries, params: Params, mask: str | None = None, *, given: Any = None) -> Information:
    """Fisher information, Hessian and score covariance of the loss of a mask, plain, weighted or adaptive, at its own parameters.

    Args:
        model: the model; latents are summed out.
        params: parameters: those that made the data.
        mask: the mask's name.
        given: data of given variables; of several rows the mean is taken.

    Raises:
        GmlmError: E601, E602 where there is too much to list, E702 for a mask that mentions a parameter, E703 for one that uses a latent.
    """
    name, lowered = model.mask(mask)
    if mentions_parameter(lowered):
        raise fail("E702", f"mask `{name}` mentions a parameter: it may sample, and has no loss", lowered.span)

    def one(row: Any) -> tuple[Array, ...]:
        _, dynamics = dynamics_of(model, params, mask, "the information of a mask", row)
        return information_matrices(dynamics)

    fisher, hessian, score_all = _mean_over(model, given, one)
    return Information(tangent(model.graph, frozenset()), fisher, hessian, score_all, tuple(entry_names(model.graph)))


def information_matrices(dynamics: BlockDynamics) -> tuple[Array, Array, Array]:
    """I, H and S_all of block dynamics, in the directions of the configurations' basis."""
    space = dynamics.space
    u = space.scores
    left = u - dynamics.apply(u)
    left[space.log_p == -np.inf] = 0.0
    return _even(_weighted(space, u, u)), _even(_weighted(space, u, left)), _even(_weighted(space, left, left))


def asymptotic_covariance(
    model: Queries, params: Params, mask: str | None = None, n_masks: int | None = None, *, given: Any = None
) -> Array:
    """n times the covariance of the pseudolikelihood estimator from n rows, n large: H^-1 S H^-1.

    Args:
        model: the model; latents are summed out.
        params: parameters: those that made the data.
        mask: the mask's name.
        n_masks: masks drawn for each row; None: each row's loss averages over all of them.
        given: data of given variables; of several rows the mean is taken.

    Returns:
        Shape (parameters, parameters), of the flat vector, float64. Directions that change no probability (a model without the gauge
        that it needs) are left out, as by a pseudo-inverse. Entries with a part in a direction that p depends on and the loss does not
        have variance inf and covariances nan.

    Raises:
        GmlmError: as `pseudolikelihood_information`; E507 for a bad `n_masks`.

    Reference: Li et al. 2024, Lemmas 1, 2 and 5; for `everything` it is the inverse of Fisher information.
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
