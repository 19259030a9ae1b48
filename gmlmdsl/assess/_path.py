"""A path of penalised fits, from no couplings to many.

It contains the table, the model that a criterion chooses, and a refit without the penalty.

The criteria are EBIC, held-out rows, and the stability over half samples.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import scipy.linalg

from .._diagnostics import counted, fail, is_real_number, is_whole_number, whole_number
from .._progress import shows_progress, tracked
from ..data import generator, verified_seed
from ..evaluate import flatten, init_params
from ..fit import (
    MOST_INFERRED,
    Curvature,
    Evidence,
    Penalised,
    curvature,
    evidence_identity,
    long_fit,
    objective_colouring,
    verified_rows,
    verify_possible,
)
from ..plan import verify_held
from ._couplings import pairs_of
from ._path_runs import Edges, PathOptions, Runs, edges_of
from .limits import (
    EBIC_GAMMA,
    ELASSO_GAMMA,
    ELASSO_SPAN,
    FLAT_CURVATURE,
    MOST_REFIT_STEPS,
    PENALTIES_AT_ONCE,
    PENALTY_MARGIN,
    PENALTY_SPAN,
    SHARE_ROUNDING,
)

if TYPE_CHECKING:
    import pandas as pd

    from ..graph import FactorGraph
    from ._pair_table import PairTable

Array = np.ndarray
CRITERIA = ("ebic", "elasso", "cv", "stability")
RULES = ("and", "or")
# default numbers of penalties; a coarse grid may skip the last penalty that the bound admits
POINTS = {"ebic": 30, "elasso": 100, "cv": 30, "stability": 100}


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
    price = _price(run, options)
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
    """Return the last penalty as a share of the first, as glmnet chooses it."""
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
    return 2 * loss + (selected @ run.edges.degrees) * _price(run, options)


def _price(run: Runs, options: PathOptions) -> Array:
    """Return log n + 2 gamma log(candidates), for each copy."""
    assert options.gamma is not None  # the defaults were filled in
    return np.log(run.size(run.whole)) + 2 * options.gamma * np.log(np.maximum(run.touch.sum(axis=1), 1))


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


@dataclass(frozen=True, repr=False)
class Path:
    """Penalised fits, the largest penalty first.

    Attributes:
        table: a DataFrame with a row for each penalty. `penalty`, `couplings` (the number that are
            not 0), `parameters` (their free directions) and `loss` (c * loss per unit of row
            weight) are always present. `converged` states whether the penalised fit converged, and
            the refit, folds or half samples that the criterion uses. With "ebic" there are
            `refit_loss` (the loss without the penalty), `degrees` of freedom and `ebic`. With
            "elasso" there is `ebic`, that of the penalised fit. With "cv"
            there are `held_out` and its `std_error` over folds. With a rule, the table has a row
            for each block of the mask and penalty, with `block` and `chosen` too, and losses
            without c. With a rule and "stability", it has a row for each penalty, as its share of
            the largest.
        params: the parameters at each penalty. With a rule there is one element: the parameters of
            a joint fit of the chosen couplings without the penalty. With "elasso" each coupling in
            it is replaced by the mean of its two penalised estimates.
        selected: shape (penalties, couplings), which couplings are not 0; with a rule, one row.
        couplings: the names of the couplings, which are the columns of `selected`.
        chosen: the row that the criterion chooses; with "stability", the last penalty that the
            error bound admits.
        criterion: "ebic", "elasso", "cv" or "stability".
        rule: "and", "or", or None.
        by_block: with a rule, shape (blocks, couplings), the couplings of each block's own model.
        stable: with "stability", a DataFrame with a row for each coupling, the most stable first.
            `probability` is the share of half samples in which it was selected at some penalty down
            to the chosen one. `stable` states whether that reaches the threshold.
        error_bound: with "stability", the bound on the expected number of wrongly stable couplings.
        converged: whether all fits converged on which the chosen model is based.
        edges: the groups of the path.
        graph: the factor graph of the model.
    """

    table: pd.DataFrame
    params: tuple[dict[str, Array], ...]
    selected: Array
    couplings: tuple[str, ...]
    chosen: int
    criterion: str
    rule: str | None
    by_block: Array | None
    stable: pd.DataFrame | None
    error_bound: float | None
    converged: bool
    edges: Edges = field(repr=False)
    graph: FactorGraph = field(repr=False)
    _refit: Callable[[Mapping[str, Any], Mapping[str, Array]], Any] = field(repr=False)

    @property
    def chosen_couplings(self) -> tuple[str, ...]:
        """The names of the couplings in the chosen model."""
        return tuple(name for name, kept in zip(self.couplings, self._kept(None), strict=True) if kept)

    def refit(self, row: int | None = None) -> Any:
        """Fit the couplings of the chosen row, or of another row, without penalty and priors.

        The other couplings are held at 0. The selection is treated as given, see
        `Fit.refit_selected`.

        Raises:
            GmlmError: E549 for parameters with a gauge, whose entries move together; E507 for a row
                that does not exist.
        """
        self._verify_row(row)
        kept = self._kept(row)
        still = {}
        for name, of in self.edges.groups.of.items():
            if (of >= 0).any():
                still[name] = np.flatnonzero((of.ravel() >= 0) & ~kept[of.ravel()]).tolist()
        return self._refit(still, self.params[self.chosen if row is None else row])

    def network(self, row: int | None = None, score: str = "value", gauge: str | None = "zero_sum") -> PairTable:
        """Return the couplings of the chosen model, or of another row, as a table of pairs.

        The table has one row for each two cells with a coupling that is not 0, the strongest first,
        with the columns `first`, `second`, `value` and `score` of `Fit.couplings`. With "elasso"
        and `gauge=None` these are the weights of IsingFit. Errors are those of `.refit()`.

        Args:
            row: the number of a model of this path. If None, the chosen one.
            score: as in `Fit.couplings`.
            gauge: as in `Fit.couplings`.

        Raises:
            GmlmError: E507 for options.
        """
        self._verify_row(row)
        return pairs_of(self.graph, self.params[self.chosen if row is None else row], score, gauge)

    def _verify_row(self, row: int | None) -> None:
        if row is not None and (not is_whole_number(row) or not 0 <= row < len(self.selected)):
            raise fail("E507", f"row must be the number of a model of this path, 0 to {len(self.selected) - 1}, got {row!r}")

    def _kept(self, row: int | None) -> Array:
        if row is None and self.stable is not None:
            names = set(self.stable.loc[self.stable["stable"], "coupling"])
            return np.array([n in names for n in self.couplings])
        return self.selected[self.chosen if row is None else row]

    def __repr__(self) -> str:
        kept = counted(len(self.chosen_couplings), "coupling")
        rule = "" if self.rule is None else f', joined by "{self.rule}"'
        shown: Any = self.table[self.table["chosen"]] if "chosen" in self.table else self.table
        count = len(set(self.table["block"])) if "chosen" in self.table else 1
        head = f"Path under {counted(len(self.table) // max(count, 1), 'value')} of the penalty"
        head = f"{head}; {self.criterion} chooses {kept} of {len(self.couplings)}{rule}"
        bound = "" if self.error_bound is None else f"; of them {self.error_bound:.3g} are expected to be wrong, at most"
        unsettled = "" if self.converged else "\nFits that the chosen model rests on did not converge: give the parameters a weak prior."
        return f"{head}{bound}{unsettled}\n{shown.to_string(float_format=lambda v: f'{v:.5g}', index=count == 1)}"


def fit_path(evidence: Evidence, options: PathOptions, refit: Callable[[Any, Mapping[str, Array]], Any]) -> Path:
    """Return the path of penalised fits; see `Model.fit_path`."""
    _verify(evidence, options)
    if options.criterion == "elasso":
        options = replace(options, rule=options.rule or "and", gamma=ELASSO_GAMMA if options.gamma is None else options.gamma)
    options = replace(options, gamma=EBIC_GAMMA if options.gamma is None else options.gamma)
    with jax.enable_x64(True), contextlib.ExitStack() as long:  # pyright: ignore[reportAttributeAccessIssue]
        edges = edges_of(evidence.lowered.graph, options.on)
        weights = verified_rows(evidence.mask, evidence.codes, evidence.options)
        start = init_params(evidence.lowered.graph)
        verify_possible(evidence.lowered, evidence.codes, weights, {k: jax.device_put(v) for k, v in start.items()})
        identity = functools.partial(evidence_identity, evidence, start, vars(options))
        saved = long.enter_context(long_fit(options.checkpoint, identity))
        with options.waiting("least penalty without couplings"):
            run, share = Runs(evidence, edges, weights, options.rule, saved), PENALTY_SPAN
            if options.criterion == "elasso":
                run.standardise()
                share = span(run)
            shares, penalties = _penalties(run, options.penalty, POINTS[options.criterion], share)
        found = run.path(run.whole, penalties, "path", options)
        selected = np.array([run.selected(f) for f in found])  # penalties, copies, couplings
        columns, chosen = _judged(run, found, selected, penalties, options)
        stable, bound, by_block, combined = None, None, None, run.combined(selected)
        if options.criterion == "stability":
            stable, bound, last, settled = stability(run, penalties, options)
            chosen, columns["converged"] = np.full(run.copies, last), columns["converged"] & settled
        settled = bool(columns["converged"][chosen, np.arange(run.copies)].all())
        if options.rule is None:
            params = [run.params(f) for f in found]
            frame, row = _table(columns), int(chosen[0])
        else:
            by_block = np.take_along_axis(selected, chosen[None, :, None], axis=0)[0]
            combined = run.combined(by_block)[None]
            kept = combined[0] if stable is None else np.isin(edges.names, stable.loc[stable["stable"], "coupling"])
            with options.waiting("joint fit"):
                joined = run.joined(kept)
            params, row, settled = [run.params(joined)], 0, settled and bool(joined.converged.all())
            if options.criterion == "elasso":
                params = [averaged(run, found, chosen, kept, {k: np.asarray(v) for k, v in params[0].items()})]
            frame = _table_of_blocks(run, columns, chosen) if stable is None else _table_of_shares(shares, run.combined(selected))
    host = tuple({k: np.asarray(v) for k, v in p.items()} for p in params)
    return Path(
        frame,
        host,
        combined,
        edges.names,
        row,
        options.criterion,
        options.rule,
        by_block,
        stable,
        bound,
        settled,
        edges,
        evidence.lowered.graph,
        refit,
    )


def _judged(run: Runs, found: list[Penalised], selected: Array, penalties: Array, options: PathOptions) -> tuple[dict[str, Array], Array]:
    """Return the columns of the table by penalty and copy, and the chosen row of each copy."""
    size = run.size(run.whole)
    columns: dict[str, Array] = {"penalty": penalties, "couplings": selected.sum(axis=2), "parameters": selected @ run.edges.degrees}
    with options.waiting("losses"):
        columns["loss"] = np.array([run.losses(run.whole, f) for f in found]) / size
    judged, converged = np.zeros(penalties.shape), np.array([f.converged for f in found])
    if options.criterion == "ebic":
        told = ebic(run, found, selected, options)
        columns["refit_loss"], columns["degrees"], columns["ebic"] = told.loss / size, told.degrees, told.ebic
        judged, converged = told.ebic, converged & told.converged
    if options.criterion == "elasso":
        columns["ebic"] = judged = penalised_ebic(run, selected, columns["loss"] * size, options)
    if options.criterion == "cv":
        columns["held_out"], columns["std_error"], settled = held_out(run, penalties, options)
        judged, converged = columns["held_out"], converged & settled
    columns["converged"] = converged
    return columns, np.nanargmin(judged, axis=0)


def _table(columns: Mapping[str, Array]) -> pd.DataFrame:
    """Return the table of the joint fit of all blocks: a row for each penalty."""
    import pandas as pd

    return pd.DataFrame({name: v[:, 0] for name, v in columns.items()})


def _table_of_blocks(run: Runs, columns: Mapping[str, Array], chosen: Array) -> pd.DataFrame:
    """Return a table with a row for each block and penalty."""
    import pandas as pd

    rows = len(columns["penalty"])
    told = {"block": np.repeat(run.blocks, rows)} | {name: v.T.ravel() for name, v in columns.items()}
    return pd.DataFrame(told | {"chosen": (np.arange(rows) == chosen[:, None]).ravel()})


def _table_of_shares(shares: Array, selected: Array) -> pd.DataFrame:
    """Return the table of stable couplings by a rule: a row for each step of the penalties."""
    import pandas as pd

    return pd.DataFrame({"penalty": shares, "couplings": selected.sum(axis=1)})


def _verify(evidence: Evidence, options: PathOptions) -> None:
    for name, value, known in (("criterion", options.criterion, CRITERIA), ("rule", options.rule, (*RULES, None))):
        if not (value is None or isinstance(value, str)) or value not in known:
            raise fail("E507", f"{name} must be {', '.join(map(repr, known))}, got {value!r}")
    if options.gamma is not None:
        _verify_number("gamma", options.gamma, "0 or more", lambda v: v >= 0)
    _verify_number("threshold", options.threshold, "above 0.5 and at most 1", lambda v: 0.5 < v <= 1)
    _verify_number("wrong", options.wrong, "above 0", lambda v: v > 0)
    verified_seed(options.seed)
    whole_number("folds", options.folds, 2)
    whole_number("subsamples", options.subsamples, 2)
    if options.criterion == "cv" and options.folds > evidence.codes.shape[1]:
        raise fail("E507", f"folds must be at most the number of rows, {evidence.codes.shape[1]}, got {options.folds}")
    gaps = evidence.options.gaps
    if not isinstance(gaps, str) or gaps not in ("sum", "ignore"):
        raise fail("E507", f'gaps must be "sum" or "ignore", got {gaps!r}')
    if evidence.options.method is not None or evidence.options.impute:
        raise fail("E507", "a path minimises the loss itself: it takes no `method=` and imputes nothing")


def _verify_number(name: str, value: Any, range_: str, holds: Callable[[float], bool]) -> None:
    if not is_real_number(value) or not abs(value) <= float(np.finfo(float).max) or not holds(float(value)):
        raise fail("E507", f"{name} must be a number {range_}, got {value!r}")


def _penalties(run: Runs, given: Any, points: int, span: float) -> tuple[Array, Array]:
    """Return the penalties, shape (penalties, copies), and their shares of the largest.

    The largest penalty comes first.
    """
    if given is None or is_whole_number(given):
        points = points if given is None else whole_number("penalty", given, 2)
        verify_held(16 * points * run.copies, f"{points:,} penalties", "fewer of them: `penalty=30`")
        shares = np.geomspace(1.0, span, points)
        return shares, shares[:, None] * np.maximum(run.largest(), 1e-300) * PENALTY_MARGIN
    help_ = "`penalty=[0.1, 0.05, 0.02]`, or `penalty=20` for twenty of them"
    try:
        found = np.sort(np.atleast_1d(np.asarray(given, float)).ravel())[::-1]
    except (TypeError, ValueError, OverflowError):
        raise fail("E507", f"penalty must be numbers above 0, how many (2 or more), or none, got {given!r}", help=help_) from None
    if isinstance(given, bool | str) or not len(found) or not (np.isfinite(found).all() and (found > 0).all()):
        raise fail("E507", f"penalty must be numbers above 0, how many (2 or more), or none, got {given!r}", help=help_)
    return found / found[0], np.repeat(found[:, None], run.copies, axis=1)
