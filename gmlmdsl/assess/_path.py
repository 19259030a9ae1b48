"""A path of penalised fits, from no coupling to many: the table, the model that a criterion chooses, and its refit without penalty."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._diagnostics import counted, fail, whole_number
from ..data import verified_seed
from ..evaluate import init_params
from ..fit import Evidence, verified_rows, verify_possible
from ._path_choice import held_out, stability
from ._path_groups import Edges, edges_of
from ._path_runs import PathOptions, Runs

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray
CRITERIA = ("ebic", "cv", "stability")
ABOVE = 1 + 1e-5  # of the least penalty without couplings, so that rounding leaves none
POINTS, SPAN = 30, 0.01  # of the penalties that are chosen here: how many, and the last as a share of the first


@dataclass(frozen=True)
class Path:
    """Penalised fits, the largest penalty first.

    Attributes:
        table: a DataFrame, a row for each penalty: `penalty`, `couplings` (how many are not 0), `parameters` (their free directions),
            `loss` (c * loss per unit of row weight), `ebic`, `converged`; with "cv" `held_out` and its `std_error` over folds.
        params: parameters at each penalty.
        selected: shape (penalties, couplings): which couplings are not 0.
        couplings: names of the couplings, the columns of `selected`.
        chosen: the row that the criterion chooses; with "stability" the last penalty that the error bound admits.
        stable: with "stability" a DataFrame, a row for each coupling, the most stable first: `probability`, the share of half samples in
            which it was selected at a penalty down to the chosen one, and `stable`, whether that reaches the threshold.
        error_bound: with "stability" the bound on the expected number of couplings that are wrongly stable.
    """

    table: pd.DataFrame
    params: tuple[dict[str, Array], ...]
    selected: Array
    couplings: tuple[str, ...]
    chosen: int
    criterion: str
    stable: pd.DataFrame | None
    error_bound: float | None
    edges: Edges = field(repr=False)
    _refit: Callable[[Mapping[str, Any], Mapping[str, Array]], Any] = field(repr=False)

    @property
    def chosen_couplings(self) -> tuple[str, ...]:
        """The names of the couplings in the chosen model."""
        return tuple(name for name, kept in zip(self.couplings, self._kept(None), strict=True) if kept)

    def refit(self, row: int | None = None) -> Any:
        """The chosen couplings, or those of another row, fitted without penalty and without their priors; the others are held at 0.

        The choice counts as given, see `Fit.refit_selected`.

        Raises:
            GmlmError: E549 for parameters with a gauge, whose entries move together.
        """
        kept = self._kept(row)
        still = {}
        for name, of in self.edges.groups.of.items():
            if (of >= 0).any():
                still[name] = np.flatnonzero((of.ravel() >= 0) & ~kept[of.ravel()]).tolist()
        return self._refit(still, self.params[self.chosen if row is None else row])

    def _kept(self, row: int | None) -> Array:
        if row is None and self.stable is not None:
            names = set(self.stable.loc[self.stable["stable"], "coupling"])
            return np.array([n in names for n in self.couplings])
        return self.selected[self.chosen if row is None else row]

    def __str__(self) -> str:
        kept = counted(len(self.chosen_couplings), "coupling")
        head = f"Path under {counted(len(self.table), 'value')} of the penalty; {self.criterion} chooses {kept} of {len(self.couplings)}"
        bound = "" if self.error_bound is None else f"; of them {self.error_bound:.3g} are expected to be wrong, at most"
        return f"{head}{bound}\n{self.table.to_string(float_format=lambda v: f'{v:.5g}')}"


def fit_path(evidence: Evidence, options: PathOptions, refit: Callable[[Mapping[str, Any], Mapping[str, Array]], Any]) -> Path:
    """See `Model.fit_path`."""
    import pandas as pd

    _verify(evidence, options)
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        edges = edges_of(evidence.lowered.graph, options.on)
        weights = verified_rows(evidence.mask, evidence.codes, evidence.options)
        start = init_params(evidence.lowered.graph)
        verify_possible(evidence.lowered, evidence.codes, weights, {k: jax.device_put(v) for k, v in start.items()})
        run = Runs(evidence, edges, weights)
        penalties = _penalties(run, options.penalty)
        found = run.path(penalties, weights, "path", options)
        params = [run.params(f) for f in found]
        selected = np.array([run.selected(f) for f in found])
        table: dict[str, Any] = {"penalty": penalties, "couplings": selected.sum(axis=1), "parameters": selected @ edges.degrees}
        table["loss"] = [run.loss(p, weights) / weights.sum() for p in params]
        table["ebic"] = _ebic(run, table, options.gamma)
        stable, bound, chosen = None, None, int(np.argmin(table["ebic"]))
        if options.criterion == "cv":
            table["held_out"], table["std_error"] = held_out(run, penalties, options)
            chosen = int(np.argmin(table["held_out"]))
        if options.criterion == "stability":
            stable, bound, chosen = stability(run, penalties, options)
        table["converged"] = [f.converged for f in found]
    host = tuple({k: np.asarray(v) for k, v in p.items()} for p in params)
    return Path(pd.DataFrame(table), host, selected, edges.names, chosen, options.criterion, stable, bound, edges, refit)


def _verify(evidence: Evidence, options: PathOptions) -> None:
    if options.criterion not in CRITERIA:
        raise fail("E507", f"criterion must be {', '.join(map(repr, CRITERIA))}, got {options.criterion!r}")
    if not options.gamma >= 0:
        raise fail("E507", f"gamma must be 0 or more, got {options.gamma!r}")
    if not 0.5 < options.threshold <= 1:
        raise fail("E507", f"threshold must be above 0.5 and at most 1, got {options.threshold!r}")
    if not options.wrong > 0:
        raise fail("E507", f"wrong must be above 0, got {options.wrong!r}")
    verified_seed(options.seed)
    whole_number("folds", options.folds, 2)
    whole_number("subsamples", options.subsamples, 2)
    if evidence.options.method is not None or evidence.options.impute:
        raise fail("E507", "a path minimises the loss itself: it takes no `method=` and imputes nothing")


def _penalties(run: Runs, given: Any) -> Array:
    if given is None or (isinstance(given, int | np.integer) and not isinstance(given, bool)):
        count = POINTS if given is None else whole_number("penalty", given, 2)
        return run.largest() * ABOVE * np.geomspace(1.0, SPAN, count)
    found = np.sort(np.atleast_1d(np.asarray(given, float)))[::-1]
    if found.ndim != 1 or not len(found) or not (np.isfinite(found).all() and (found > 0).all()):
        raise fail("E507", f"penalty must be numbers above 0, how many (2 or more), or none, got {given!r}")
    return found


def _ebic(run: Runs, table: Mapping[str, Any], gamma: float) -> Array:
    """2 n loss + m k (log n + 2 gamma log(cells - 1)); m counts in how many conditionals a coupling stands, see `Model.fit_path`."""
    objective = run.objective(run.weights)
    n, cells = float(run.weights.sum()), run.edges.cells
    size = cells / float(objective.factor)  # of a mask
    hit = 1 - (cells - size) * (cells - size - 1) / (cells * (cells - 1)) if cells > 1 else 1.0  # a mask meets a pair
    times = float(objective.factor) * min(hit, 1.0)
    return 2 * n * np.asarray(table["loss"]) + times * table["parameters"] * (np.log(n) + 2 * gamma * np.log(max(cells - 1, 1)))
