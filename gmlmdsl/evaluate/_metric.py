"""An approximate inverse Hessian of a loss from tables, with which L-BFGS starts.

The scores of a block's values are f = b + W z, with the indicators z of the block's contexts. The
Hessian is approximated by D + M' C M:

- M maps the parameters to the scores at the mean of z. All parameters of a block, fields and
  couplings alike, move these scores together, and they are by far the most curved directions. C is
  the sum over rows of w (diag p - p p'), one square matrix for each block.
- D is the diagonal of the remaining curvature: that of -log prior, and w p_v (1 - p_v) (z_k -
  mean)^2.

The inverse is D^-1 - D^-1 M' N M D^-1 (Woodbury). The size of N is the number of blocks times their
values. The inverse serves minimisation only: it changes the number of steps, but no estimate and no
error depends on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse

from .._types import AnyArray, Arrays
from ..derive import TableCurvature, TabledBlocks, bounded_jit, mean_indicators, table_curvature
from ._colouring import entry_slopes
from ._objective import Objective, is_affine
from ._parameters import Unchanged, bijection, on_gauge
from .limits import ADDED_CURVATURE, MOST_METRIC_SCORES, MOST_METRIC_USES, MOST_UNEVEN, RARE_CURVATURE

if TYPE_CHECKING:
    import scipy

    from ..graph import ParameterArray

Array = np.ndarray


class Metric(eqx.Module):
    """The inverse as a product, with M and M' as lists of equal lengths, padded with zeros.

    Attributes:
        inverse: the inverse of D, shape (parameters,).
        middle: N, shape (scores, scores).
        scores: the scores that each parameter moves, and the amounts, both of shape (parameters,
            most).
        parameters: the parameters that move each score, and the amounts, both of shape (scores,
            most).
    """

    inverse: AnyArray
    middle: AnyArray
    scores: tuple[AnyArray, AnyArray]
    parameters: tuple[AnyArray, AnyArray]

    def __call__(self, gradient: AnyArray) -> AnyArray:
        """Return the product with a gradient: the approximate Newton step up to its sign."""
        alone = self.inverse * gradient
        which, part = self.parameters
        moved = self.middle @ (part * alone[which]).sum(axis=1)
        which, part = self.scores
        return alone - self.inverse * (part * moved[which]).sum(axis=1)


class Metrics:
    """The metrics of an objective, which cache the parts that do not depend on the parameters."""

    def __init__(self, objective: Objective, slopes: scipy.sparse.csr_matrix, order: Array):
        """Create the metrics of an objective.

        Args:
            objective: the objective.
            slopes: derivatives of the entries of tables by the parameters, shape (entries and a
                zero, parameters).
            order: the order of the free parameters, see `metrics`.
        """
        self.objective, self.order, self._slopes = objective, order, slopes[:, order].tocsr()
        self._kept: tuple[Any, tuple[Array, Array], tuple[Array, Array]] | None = None

    def at(self, params: Arrays, prior: Array) -> Metric | None:
        """Return the metric at some parameters; None if its lists would be uneven.

        `prior` is the diagonal of the Hessian of -log prior.
        """
        o = self.objective
        scale, factor, entries = float(o.scale), float(o.factor), self._slopes.shape[0]
        total = float(o.host_weights.sum())
        pieces = [_Uses(t, c, total) for t, c in zip(o.exact_loss.tabled, _curvatures(o, dict(params)), strict=True) if t is not None]
        if self._kept is None:
            moves = sparse.csr_matrix(sparse.vstack([p.means(entries) for p in pieces]).tocsr() @ self._slopes)
            parameters, scores = _lists(moves), _lists(sparse.csr_matrix(moves.T))
            if parameters is None or scores is None:
                return None
            self._kept = moves, scores, parameters
        left = np.sum([p.left(entries) for p in pieces], axis=0)
        alone = self._slopes.multiply(self._slopes).T @ left
        diagonal = (np.maximum(prior, 0.0)[self.order] + factor * np.asarray(alone).ravel()) / scale
        if not np.isfinite(diagonal).all():
            return None
        diagonal = np.maximum(diagonal, max(1e-8 * diagonal.max(initial=0.0), 1e-300))
        moves, scores, parameters = self._kept
        roots, start = [], 0
        for p in pieces:
            places = (slice(start + k * p.values, start + (k + 1) * p.values) for k in range(len(p.roots)))
            roots += zip(places, p.roots * np.sqrt(factor / scale), strict=True)
            start += p.scores
        return Metric(1 / diagonal, _middle(moves, 1 / diagonal, roots), scores, parameters)


def metrics(objective: Objective) -> Metrics | None:
    """Return the metrics of a loss, or None if the loss has none.

    A loss has metrics if all of it comes from tables that are affine in unbounded parameters. The
    metrics order the free parameters as a flattened dict does, given as positions in the flat
    vector of all parameters.
    """
    host = objective.frame.host
    if not _is_tabled(objective):
        return None
    free = sorted((p for p in host.parameters if p.name not in objective.frame.fixed), key=lambda p: p.name)
    if not free or not all(map(_is_free, free)) or not _has_rare_values(objective):
        return None
    ends = np.cumsum([p.size for p in host.parameters])
    slopes = entry_slopes(objective, int(ends[-1]))
    places = {p.name: np.arange(end - p.size, end) for p, end in zip(host.parameters, ends, strict=True)}
    return None if slopes is None else Metrics(objective, slopes, np.concatenate([places[p.name] for p in free]))


def _is_tabled(objective: Objective) -> bool:
    """Return whether all of a loss comes from affine tables, which are few enough."""
    loss = objective.exact_loss_or_none
    if loss is None or not all(loss.is_plain) or objective.gaps is not None or loss.gapped:
        return False
    tables = [t for t in loss.tabled if t is not None]
    scores = sum(t.blocks.n_values * len(t.inside) for t in tables)
    uses = sum(np.size(p) for t in tables for p in t.places)
    return is_affine(objective.frame.host) and scores <= MOST_METRIC_SCORES and uses <= MOST_METRIC_USES


def _has_rare_values(objective: Objective) -> bool:
    """Return whether some value of a cell is much rarer than others.

    The criterion is f (1 - f), with the frequency f of a value. Without rare values a single scale
    suffices.
    """
    weights, codes, sizes = objective.host_weights, objective.host_codes, objective.frame.host.sizes
    shares = [np.bincount(row, weights, size) / weights.sum() for row, size in zip(codes, sizes, strict=False)]
    bends = np.concatenate(shares)
    bends = bends * (1 - bends)
    return bool(bends.max() > RARE_CURVATURE * bends.min())


def _is_free(p: ParameterArray) -> bool:
    """Return whether a parameter takes all real values: it is fitted, and has no bound and no gauge."""
    if p.still or not isinstance(bijection(p), Unchanged):
        return False
    probe = np.arange(1.0, p.size + 1).reshape(p.shape) ** 2
    return bool(np.array_equal(np.asarray(on_gauge(p, probe)), probe))


def _middle(moves: scipy.sparse.csr_matrix, inverse: Array, roots: list[tuple[slice, Array]]) -> Array:
    """Return N = R (1 + R' M D^-1 M' R)^-1 R', with C = R R' block by block."""
    whole = np.asarray((moves.multiply(inverse[None]).tocsr() @ moves.T).todense())
    for rows, root in roots:
        whole[rows] = root.T @ whole[rows]
    for rows, root in roots:
        whole[:, rows] = whole[:, rows] @ root
    whole[np.diag_indices(len(whole))] += 1.0
    whole = np.linalg.inv(whole)
    for rows, root in roots:
        whole[rows] = root @ whole[rows]
    for rows, root in roots:
        whole[:, rows] = whole[:, rows] @ root.T
    return 0.5 * (whole + whole.T)


def _lists(matrix: scipy.sparse.csr_matrix) -> tuple[Array, Array] | None:
    """Return the rows of a sparse matrix as columns and values of one length, padded with zeros.

    The result is None if the padding would be wasteful.
    """
    counts = np.diff(matrix.indptr)
    most = int(counts.max(initial=1))
    if most * len(counts) > MOST_UNEVEN * max(matrix.nnz, len(counts)):
        return None
    row = np.repeat(np.arange(len(counts)), counts)
    turn = np.arange(matrix.nnz) - matrix.indptr[row]
    which, part = np.zeros((len(counts), most), np.int32), np.zeros((len(counts), most), np.float32)
    which[row, turn], part[row, turn] = matrix.indices, matrix.data
    return which, part


class _Uses:
    """The table entries that the scores of a set of blocks use, and the curvature along them."""

    def __init__(self, tabled: TabledBlocks, curvature: TableCurvature, total: float):
        self.inside, self.places = np.asarray(tabled.inside), [np.asarray(c.places) for c in tabled.contexts]
        self.means_of = mean_indicators(curvature, tabled, total)
        spread = np.asarray(curvature.spread, float)
        self.values, self.scores = spread.shape[1], spread.shape[0] * spread.shape[1]
        sizes, vectors = np.linalg.eigh(spread)
        self.roots = vectors * np.sqrt(np.maximum(sizes, 0.0))[:, None]
        # sums of w p (1 - p), shape (blocks, values)
        self.alone = np.diagonal(spread, axis1=1, axis2=2)
        self.beside = [np.asarray(b, float) for b in curvature.beside]

    def means(self, entries: int) -> Any:
        """Return the matrix from entries to the scores at the means of the indicators.

        It has the shape (scores, entries).
        """
        row, column, part = [], [], []
        score = np.arange(self.scores).reshape(self.alone.shape)
        for places, mean in [(self.inside[:, :, :, None, None], np.ones((1, 1, 1))), *zip(self.places, self.means_of, strict=True)]:
            row.append(np.broadcast_to(score[:, None, :, None, None], places.shape).ravel())
            column.append(places.ravel())
            part.append(np.broadcast_to(mean[:, None, None], places.shape).ravel())
        row, column, part = (np.concatenate(p) for p in (row, column, part))
        some = (column < entries - 1) & (part != 0)
        return sparse.csr_matrix((part[some], (row[some], column[some])), shape=(self.scores, entries))

    def left(self, entries: int) -> Array:
        """Return for each entry the curvature along it that the mean scores lack.

        A small part of the curvature that the mean scores have is added.
        """
        out = np.zeros(entries)
        inside = ADDED_CURVATURE * self.alone[:, None, :]
        _add(out, self.inside, np.broadcast_to(inside, self.inside.shape))
        for places, mean, beside in zip(self.places, self.means_of, self.beside, strict=True):
            first = self.alone[:, :, None, None] - beside.sum(axis=3, keepdims=True)
            whole, m = np.concatenate([first, beside], axis=3), mean[:, None]
            found = np.maximum(whole * (1 - 2 * m) + self.alone[:, :, None, None] * m**2, 0.0) + ADDED_CURVATURE * whole
            _add(out, places, np.broadcast_to(found[:, None], places.shape))
        out[-1] = 0.0
        return out


def _add(out: Array, places: Array, found: Array) -> None:
    out += np.bincount(places.ravel(), found.ravel(), len(out))


@bounded_jit
def _curvatures(objective: Objective, params: Arrays) -> tuple[Any, ...]:
    """Return `table_curvature` of each set of blocks, in float32, because it may be inexact."""
    loss, out = objective.exact_loss, []
    assert loss.probabilities is not None
    for k, weights in enumerate(loss.weights(params)):
        tabled = loss.tabled[k]
        assert weights is not None
        assert tabled is not None
        rough = weights.astype(jnp.float32)
        out.append(table_curvature(rough, tabled, objective.codes, loss.probabilities[k], objective.weights, objective.chunks))
    return tuple(out)
