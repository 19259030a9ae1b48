"""Criteria of a path: EBIC, held-out rows, and the stability over half samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import scipy.linalg

from .._diagnostics import fail
from .._progress import shows_progress, tracked
from ..data import generator
from ..evaluate import flatten
from ..fit import MOST_INFERRED, Curvature, Penalised, curvature, objective_colouring
from ._path_runs import PathOptions, Runs
from .limits import ELASSO_SPAN, FLAT_CURVATURE, MOST_REFIT_STEPS, PENALTIES_AT_ONCE, SHARE_ROUNDING

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray


def held_out(run: Runs, penalties: Array, options: PathOptions) -> tuple[Array, Array, Array]:
    """Return the held-out loss by penalty and copy, its standard error, and which fits converged.

    The loss is per unit of row weight, and the standard error is over folds.
    """
    rows, converged = len(run.weights), np.ones(penalties.shape, bool)
    fold = generator(options.seed, 0).permutation(rows) % options.folds
    sums, parts, weight = np.zeros(penalties.shape), [], np.zeros(run.copies)
    for k in tracked(range(options.folds), "folds", shows_progress(options.progress)):

        def left_out(*_: object, k: int = k) -> tuple[Array, Array, Array]:
            inside, out = (run.values(run.objective(np.where(mine, run.weights, 0.0))) for mine in (fold != k, fold == k))
            found = run.path(inside, penalties, None, options)
            return np.array([run.losses(out, f) for f in found]), np.array([f.converged for f in found]), run.size(out)

        losses, settled, size = run.saved.part(left_out, (np.ones(0),) * 3)
        sums, converged = sums + losses, converged & settled
        weight = weight + size
        parts.append(losses / np.maximum(size, 1e-300))
    return sums / weight, np.std(parts, axis=0, ddof=1) / np.sqrt(options.folds), converged


def stability(run: Runs, penalties: Array, options: PathOptions) -> tuple[pd.DataFrame, float, int, Array]:
    """Return the selection probabilities of couplings over half samples, with an error bound.

    The results are the table of couplings, the error bound, the last penalty that the bound admits,
    and, by penalty and copy, which fits of half samples converged; penalties that were not fitted
    count as converged.

    Let q be the mean number of couplings that a half sample selects at a penalty or above it, p the
    number of couplings, and pi the threshold. The expected number of wrongly stable couplings is at
    most q^2 / ((2 pi - 1) p). This holds for couplings that are absent if all these are
    exchangeable (Meinshausen and Buhlmann 2010, Theorem 1). If half samples come in complementary
    pairs, as they do here, it also holds for all couplings that a half sample selects with
    probability below q / p (Shah and Samworth 2013, Theorem 1).
    """
    import pandas as pd

    count, halves = len(run.edges.names), _halves(run, options)
    share = np.zeros((len(penalties), count))
    states: list[Penalised | None] = [None] * len(halves)
    ever = np.zeros((len(halves), count), bool)
    bounds, converged = np.full(len(penalties), np.inf), np.ones(penalties.shape, bool)
    # The bound grows as the penalty falls: penalties beyond the limit are not fitted.
    for start in range(0, len(penalties), PENALTIES_AT_ONCE):
        here = slice(start, start + PENALTIES_AT_ONCE)
        what = f"half samples, penalties {start + 1} to {min(start + PENALTIES_AT_ONCE, len(penalties))} of {len(penalties)}"
        for h in tracked(range(len(halves)), what, shows_progress(options.progress)):

            def fitted(*_: object, h: int = h, here: slice = here) -> tuple[Any, ...]:
                found = run.path(run.values(run.objective(halves[h])), penalties[here], None, options, states[h])
                selected = run.combined(np.array([run.selected(f) for f in found]))
                return np.array([f.converged for f in found]), selected, found[-1].fields

            settled, selected, end = run.saved.part(fitted, (np.ones(0), np.ones(0), run.uncoupled.fields))
            converged[here] &= settled
            selected = np.maximum.accumulate(np.concatenate([ever[h][None], selected]), axis=0)[1:]
            ever[h], states[h] = selected[-1], Penalised(*end)
            share[here] += selected / len(halves)
        bounds[here] = share[here].sum(axis=1) ** 2 / ((2 * options.threshold - 1) * count)
        if bounds[here][-1] > options.wrong:
            break
    last = int(np.flatnonzero(bounds <= options.wrong).max(initial=0))
    frame = pd.DataFrame(
        {"coupling": run.edges.names, "probability": share[last], "stable": share[last] >= options.threshold - SHARE_ROUNDING}
    )
    return frame.sort_values("probability", ascending=False, kind="stable", ignore_index=True), float(bounds[last]), last, converged


def _halves(run: Runs, options: PathOptions) -> list[Array]:
    """Return the row weights of each half sample; the two of a pair have no row in common."""
    rows, out = len(run.weights), []
    for k in range(-(-options.subsamples // 2)):
        order = generator(options.seed, k).permutation(rows)
        for mine in (order[: rows // 2], order[rows // 2 : 2 * (rows // 2)]):
            weights = np.zeros(rows)
            weights[mine] = run.weights[mine]
            out.append(weights)
    return out


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
        return run.refit(run.whole, start, selected[k], most=MOST_REFIT_STEPS)

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
    return float((scipy.linalg.cho_solve(scipy.linalg.cho_factor(h + FLAT_CURVATURE * eye), eye) * s).sum())


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
    if len(hessian) and np.linalg.eigvalsh(hessian / size[:, None] / size)[0] < -FLAT_CURVATURE:
        message = "at the refit that would be chosen the loss curves down in some direction: no minimum, and no degrees of freedom"
        raise fail("E552", message, help='`criterion="cv"` and `"stability"` need no curvature')


def span(run: Runs) -> float:
    """Return the last penalty as a share of the first, which glmnet chooses by rows and predictors."""
    few = (run.size(run.whole) < run.touch.sum(axis=1)).any()
    return np.sqrt(ELASSO_SPAN) if few else ELASSO_SPAN


def penalised_ebic(run: Runs, selected: Array, loss: Array, options: PathOptions) -> Array:
    """Return 2 loss + degrees (log n + 2 gamma log(candidates)) of the penalised fits.

    Args:
        run: the fits of the path.
        selected: shape (penalties, copies, couplings), which couplings are not 0.
        loss: the loss of the penalised fits, summed over rows, shape (penalties, copies).
        options: the options of the path.

    Reference: van Borkulo et al. 2014, equation 3.
    """
    assert options.gamma is not None  # the defaults were filled in
    price = np.log(run.size(run.whole)) + 2 * options.gamma * np.log(np.maximum(run.touch.sum(axis=1), 1))
    return 2 * loss + (selected @ run.edges.degrees) * price


def averaged(run: Runs, found: list[Penalised], chosen: Array, kept: Array, others: dict[str, Array]) -> dict[str, Array]:
    """Return parameters whose couplings are means over the blocks that see them.

    Args:
        run: the fits of the path.
        found: the penalised fits.
        chosen: the chosen penalty of each copy.
        kept: shape (couplings,), which couplings are present by the rule; the others are 0.
        others: the values of the parameters that are no couplings.
    """
    owner, objective = np.asarray(run.whole.owner), run.whole.objective
    values = [jax.device_get(jax.vmap(lambda f: objective.frame.constrain(f, objective.held))(f.free)) for f in found]
    out: dict[str, Array] = {}
    at = 0
    for p in run.evidence.lowered.graph.parameters:
        of, mine = run.edges.groups.of[p.name].ravel(), owner[:, at : at + p.size]
        of_copy = np.where((mine < run.copies) & (of >= 0), mine, 0)
        seen = (mine < run.copies) & (of >= 0) & run.touch[of_copy, np.maximum(of, 0)]
        every = np.stack([np.asarray(v[p.name]).reshape(len(owner), -1) for v in values])
        array, entry = np.indices(mine.shape)
        estimates = every[chosen[of_copy], array, entry]
        mean = (estimates * seen).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        usual: Any = np.asarray(others[p.name])
        out[p.name] = np.where(of >= 0, np.where(kept[np.maximum(of, 0)], mean, 0.0), usual.ravel()).reshape(p.shape).astype(usual.dtype)
        at += p.size
    return out
