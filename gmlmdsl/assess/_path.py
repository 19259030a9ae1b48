"""A path of penalised fits, from no couplings to many.

It contains the table, the model that a criterion chooses, and a refit without the penalty.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._diagnostics import counted, fail, is_real_number, is_whole_number, whole_number
from ..data import verified_seed
from ..evaluate import init_params
from ..fit import Evidence, Penalised, evidence_identity, long_fit, verified_rows, verify_possible
from ..plan import verify_held
from ._couplings import pairs_of
from ._path_choice import averaged, ebic, held_out, penalised_ebic, span, stability
from ._path_runs import Edges, PathOptions, Runs, edges_of
from .limits import EBIC_GAMMA, ELASSO_GAMMA, PENALTY_MARGIN, PENALTY_SPAN

if TYPE_CHECKING:
    import pandas as pd

    from ..graph import FactorGraph
    from ._pair_table import PairTable

Array = np.ndarray
CRITERIA = ("ebic", "elasso", "cv", "stability")
RULES = ("and", "or")
# default numbers of penalties; a coarse grid may skip the last penalty that the bound admits
POINTS = {"ebic": 30, "elasso": 100, "cv": 30, "stability": 100}


@dataclass(frozen=True)
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
        and `gauge=None` these are the weights of IsingFit. There are no errors: `.refit()` has them.

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

    def __str__(self) -> str:
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
