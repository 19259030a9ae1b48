"""EBIC of the models of a path.

It is evaluated at refits without the penalty, with the degrees of freedom of a composite
likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from .._diagnostics import fail
from .._progress import shows_progress, tracked
from ..evaluate import flatten
from ..fit import MOST_INFERRED, Curvature, Penalised, curvature, objective_colouring
from ._path_runs import PathOptions, Runs

Array = np.ndarray
# Maximum number of steps of a refit. A refit that needs more may have no minimum; it counts as not
# converged, and its loss is that after these steps.
MOST_STEPS = 1000
# Share of a curvature of 1, which each entry has in its own units. Flatter directions do not count.
FLAT = 1e-9


@dataclass(frozen=True)
class Criterion:
    """The values of the criterion, by penalty and copy.

    `loss` is the loss of the refits over all rows, `degrees` are the degrees of freedom of the
    couplings, and `ebic` is the criterion. They are nan if a model was not refitted. `converged`
    states whether the refit converged, if there is one.
    """

    loss: Array
    converged: Array
    degrees: Array
    ebic: Array


def ebic(run: Runs, found: list[Penalised], selected: Array, options: PathOptions) -> Criterion:
    """Return 2 loss + degrees (log n + 2 gamma log(candidates)) of each model.

    See `Model.fit_path`.
    The last model, which has nearly all couplings of the others, is refitted first. A model that
    could not win even with the loss of the last model is not refitted.

    Args:
        run: the fits of the path.
        found: the penalised fits.
        selected: shape (penalties, copies, couplings), which couplings are not 0.
        options: the options of the path.
    """
    assert options.gamma is not None  # the defaults were filled in
    price = np.log(run.size(run.whole)) + 2 * options.gamma * np.log(np.maximum(run.touch.sum(axis=1), 1))
    degrees = selected @ run.edges.degrees.astype(float)
    least, degrees = degrees * price, degrees * (conditionals_of_a_pair(run) if run.rule is None else 1.0)
    refits = _refits(run, found, selected, least, degrees * price, options)
    nothing = np.full(run.copies, np.nan)
    loss = np.array([nothing if r is None else run.losses(run.whole, r) for r in refits])
    converged = np.array([np.ones(run.copies, bool) if r is None else r.converged for r in refits])
    if run.rule is None:
        pilot = int(np.nanargmin(2 * loss + degrees * price))
        best = refits[pilot]
        with options.waiting("degrees of freedom"):
            curve = None if best is None else _curve(run, best)
            if curve is not None:
                kept = zip(refits, selected[:, 0], strict=True)
                degrees = np.array([[np.nan if r is None else effective_degrees(run, curve, k)] for r, k in kept])
    return Criterion(loss, converged, degrees, 2 * loss + degrees * price)


def _refits(run: Runs, found: list[Penalised], selected: Array, least: Array, price: Array, options: PathOptions) -> list[Penalised | None]:
    """Return the refits of the models that may win.

    `least` and `price` are a lower bound and an approximation of the term of the degrees, by
    penalty and copy.
    """

    def refit(k: int, start: Penalised) -> Penalised:
        return run.refit(run.whole, start, selected[k], most=MOST_STEPS)

    last = len(found) - 1
    with options.waiting("first refit"):
        end = refit(last, found[last])
    lowest, best = 2 * run.losses(run.whole, end), np.full(run.copies, np.inf)
    refits: list[Penalised | None] = [None] * last + [end]
    at, start = -1, found[0]
    for k in tracked(range(last), "refits", shows_progress(options.progress)):
        if at >= 0 and (selected[k] == selected[at]).all():
            refits[k] = refits[at]
        elif (lowest + least[k] <= best).any():
            refits[k] = start = refit(k, start)
            best, at = np.minimum(best, 2 * run.losses(run.whole, start) + price[k]), k
    return refits


def conditionals_of_a_pair(run: Runs) -> float:
    """Return the number of conditionals in which a coupling counts.

    This is its contribution to tr(H^-1 S) if cells are independent. With blocks of k of N cells, it
    is c = N / k times the probability that a block contains a cell of the pair.
    """
    factor, cells = float(run.whole.objective.factor), run.edges.cells
    size = cells / factor
    missed = (cells - size) * (cells - size - 1) / (cells * (cells - 1)) if cells > 1 else 0.0
    return factor * min(1 - missed, 1.0)


def effective_degrees(run: Runs, curve: Curvature, kept: Array) -> float:
    """Return tr(H^-1 S) of all free entries minus the same trace without couplings.

    Couplings that are not kept stay at 0.

    Reference: Varin and Vidoni 2005; Gao and Song 2010.
    """
    of = np.concatenate([run.edges.groups.of[p.name].ravel() for p in run.evidence.lowered.graph.parameters])
    allowed = (of < 0) | kept[np.maximum(of, 0)]
    return trace(curve, allowed) - trace(curve, of < 0)


def trace(curve: Curvature, allowed: Array) -> float:
    """Return tr(H^-1 S) in the directions in which only the allowed entries move.

    Flat directions do not contribute. Each direction is scaled to a curvature of 1, so that
    flatness does not depend on units.
    """
    diagonal = np.diag(curve.hessian)
    unit = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
    h, s = (_within(curve.basis, unit, allowed, m) for m in (curve.hessian, curve.score))
    if not len(h):
        return 0.0
    eye = np.eye(len(h))
    return float((scipy.linalg.cho_solve(scipy.linalg.cho_factor(h + FLAT * eye), eye) * s).sum())


def _within(basis: Array, unit: Array, allowed: Array, matrix: Array) -> Array:
    """Restrict a matrix to the directions of `basis` in which only the allowed entries move.

    The result is in the units `unit`.
    """
    scaled = unit[:, None] * matrix * unit
    if basis.shape[0] == basis.shape[1] and np.array_equal(basis, np.eye(len(basis))):
        return scaled[np.ix_(allowed, allowed)]
    if allowed.all():
        return scaled
    still = (basis * unit)[~allowed]
    size = np.abs(still).max(axis=1, keepdims=True)  # the scale of an entry that does not move
    q = scipy.linalg.null_space(still / np.where(size > 0, size, 1.0))
    return q.T @ scaled @ q


def _curve(run: Runs, found: Penalised) -> Curvature | None:
    """Return H and S at a refit; None if there are too many parameters.

    Raises:
        GmlmError: E552 if the refit is not a minimum, as a latent model's may be.
    """
    objective = run.whole.objective
    params = run.params(found)
    host = objective.frame.host
    if len(flatten(host, {k: np.asarray(v) for k, v in params.items()})) > MOST_INFERRED:
        return None
    found_there = curvature(objective, params, objective_colouring(objective))
    _verify_minimum(found_there.hessian)
    return found_there


def _verify_minimum(hessian: Array) -> None:
    diagonal = np.diag(hessian)
    size = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    if len(hessian) and np.linalg.eigvalsh(hessian / size[:, None] / size)[0] < -FLAT:
        message = "at the refit that would be chosen the loss curves down in some direction: no minimum, and no degrees of freedom"
        raise fail("E552", message, help='`criterion="cv"` and `"stability"` need no curvature')
