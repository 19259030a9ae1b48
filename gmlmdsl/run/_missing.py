"""Missing cells: which rows have them, which are summed out and which imputed, and what was done about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import fail
from ..derive import GapLoss, Graph, fixed_blocks, gap_loss, mask_law, weight_groups
from ..derive.compiled import all_values, log_marginal, log_potential
from ..graph import FactorGraph
from ..graph.masks import LoweredMask, blocks_of, is_adaptive, reach
from ..plan import GapPlan, affordable_rows, gap_terms, plan_completions, plan_gaps, verify_gaps

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray
MOST_PLANNED = 4e6  # (pattern of gaps, mask) pairs whose terms are listed
MOST_VALUES = 1 << 18  # joint values of components held at once


@dataclass(frozen=True)
class Missing:
    """What a fit did about missing cells.

    Attributes:
        cells: how often each cell is missing, shape (cells,).
        rows: the number of rows with a missing cell.
        summed: rows whose missing cells were summed out of their loss.
        imputed: rows whose missing cells were drawn, again and again, from the model that was being fitted.
        unseen: rows without an observed cell that the mask reaches: they score 0 (and count among the summed).
        imputations: completed copies of each imputed row. iterations: how often they were redrawn.
        noise: the Monte Carlo error of the estimates, as a share of their standard errors, at its largest; nan where nothing was imputed.
        drift: the last change of the mean estimate, in units of its Monte Carlo error, at its largest.
    """

    cells: Array = field(repr=False)
    rows: int = 0
    summed: int = 0
    imputed: int = 0
    unseen: int = 0
    imputations: int = 0
    iterations: int = 0
    noise: float = float("nan")
    drift: float = float("nan")

    @property
    def words(self) -> str:
        """One or two sentences; empty where nothing is missing."""
        if not self.rows:
            return ""
        alone = f" ({self.unseen} without an observed cell under the mask score 0)" if self.unseen else ""
        text = f"{int(self.cells.sum()):,} missing cells in {self.rows:,} rows: summed out in {self.summed:,}{alone}"
        if self.imputed:
            text += (
                f", imputed in {self.imputed:,} by Monte Carlo EM: {self.imputations} copies of each, {self.iterations} rounds, "
                f"Monte Carlo error at most {100 * self.noise:.2g} % of a standard error"
            )
        if self.summed > self.unseen:
            text += (
                ". Summing out is right where cells are missing completely at random, or the mask is `everything`; else see `impute=True`"
            )
        return text

    def table(self, graph: FactorGraph) -> pd.DataFrame:
        """How often each cell is missing."""
        import pandas as pd

        names = [graph.cell_name(c) for c in range(graph.n_random)]
        return pd.DataFrame({"missing": self.cells}, index=pd.Index(names, name="cell"))


@dataclass(frozen=True)
class Sorted:
    """Rows by what becomes of them: positions among the rows given, ascending."""

    complete: Array
    summed: Array
    imputed: Array
    plan: GapPlan | None
    report: Missing


def sort_rows(
    graph: FactorGraph, mask: LoweredMask, name: str, codes: Array, masks: Array | None, impute: bool | None, weights: Array | None = None
) -> Sorted:
    """Decide which rows with gaps are summed out and which imputed.

    Args:
        graph: the factor graph.
        mask: the mask of the loss.
        name: how messages call it.
        codes: (cells, rows), -1 where a cell is missing.
        masks: drawn masks (masks, members, rows), or None where all are used.
        weights: of the rows: one of weight 0 is never imputed.
        impute: None: where summing out is above the budget; True: every row with a gap that scores; False: refuse instead.

    Raises:
        GmlmError: E511 for a mask that looks at x; E601 or E602 for what costs too much.
    """
    missing = codes < 0
    gapped = np.flatnonzero(missing.any(axis=0))
    complete = np.flatnonzero(~missing.any(axis=0))
    nothing, counts = np.zeros(0, np.int64), missing[: graph.n_random].sum(axis=1)
    if not len(gapped):
        return Sorted(complete, nothing, nothing, None, Missing(counts))
    if is_adaptive(mask):
        place = tuple(int(i) for i in np.argwhere(missing)[0])
        cell, row = graph.cell_name(place[0]), place[1]
        message = f"mask `{name}` looks at x, and {cell} of row {row} (counted from 0) is missing: p(K | x) is not known there"
        raise fail("E511", message, mask.span, "looks at x", help="fit with a mask that does not look at x, or keep the rows without gaps")
    plan = plan_gaps(graph, missing[:, gapped], _blocks(graph, mask, masks, codes, gapped))
    within = affordable_rows(plan)
    if impute is False:
        verify_gaps(plan, gapped, "leave `impute` out: these rows' cells are then drawn inside the fit; or drop the rows")
    if impute:
        within &= np.array([not t for t in plan.terms])
    drawn = ~within if weights is None else ~within & (weights[gapped] > 0)
    seen = np.zeros(graph.n_cells, bool)
    seen[reach(mask, graph.n_cells)] = True
    unseen = int((missing[seen][:, gapped].all(axis=0)).sum())
    report = Missing(counts, len(gapped), int(within.sum()), int(drawn.sum()), unseen)
    return Sorted(complete, gapped[within], gapped[drawn], _only(plan, within), report)


def _only(plan: GapPlan, within: Array) -> GapPlan:
    terms = tuple(t for t, w in zip(plan.terms, within, strict=True) if w)
    return GapPlan(plan.evaluations[within], plan.values[within], terms)


def _blocks(graph: FactorGraph, mask: LoweredMask, masks: Array | None, codes: Array, gapped: Array) -> Sequence[tuple[Array, Array]]:
    if masks is not None:
        _verify_planned(len(gapped), len(masks), mask, "draw fewer: `n_masks=1`, or drop rows with gaps")
        share = np.full(len(masks), 1 / len(masks))
        return [(masks[:, :, r], share) for r in gapped]
    blocks, probabilities = blocks_of(mask, graph.n_cells)
    patterns = len(gapped) if probabilities is None else len(np.unique(codes[:, gapped] < 0, axis=1).T)
    _verify_planned(patterns, len(blocks), mask, "draw some masks: `n_masks=4`")
    if probabilities is None:
        return [(blocks, p) for p in _by_row(graph, mask, blocks, codes[:, gapped]).T]
    return [(blocks, probabilities)]


def _by_row(graph: FactorGraph, mask: LoweredMask, blocks: Array, codes: Array) -> Array:
    """p(K) of each block in each row, of a mask that looks at given variables alone; shape (blocks, rows)."""
    law, fixed = mask_law(mask, graph.n_cells), fixed_blocks(graph, blocks, weight_groups(mask))
    found = law.log_probability({}, jnp.asarray(np.maximum(codes, 0)), fixed, iter(fixed.touch[len(graph.groups) :]))
    return np.exp(np.broadcast_to(np.asarray(found), (len(blocks), fixed.n_values, codes.shape[1]))[:, 0])


def _verify_planned(patterns: int, masks: int, mask: LoweredMask, help: str) -> None:
    if patterns * masks > MOST_PLANNED:
        message = f"{patterns:,} patterns of missing cells under {masks:,} masks are {patterns * masks:.3g} terms"
        raise fail("E602", f"{message}, more than the limit of {MOST_PLANNED:.3g}", mask.span, help=help)


def log_completions(graph: FactorGraph, device: Graph, params: Mapping[str, jax.Array], codes: Array) -> jax.Array:
    """The unnormalised log p of rows, missing cells summed out; shape (rows,).

    Raises:
        GmlmError: E601 where that costs too much.
    """
    gapped = np.flatnonzero((codes < 0).any(axis=0))
    value = log_potential(device, params, jnp.asarray(np.maximum(codes, 0)))
    if not len(gapped):
        return value
    plan = plan_completions(graph, codes[:, gapped] < 0)
    verify_gaps(plan, gapped, "fill some of the cells, or drop the rows with the most gaps")
    gaps = gap_loss(graph, device, codes[:, gapped], gap_terms(graph, plan, range(len(gapped))), MOST_VALUES)
    return value.at[gapped].set(log_marginal(gaps, params))


def summed_loss(graph: FactorGraph, device: Graph, codes: Array, sorted_rows: Sorted) -> GapLoss | None:
    """The loss of the rows that are summed out."""
    if sorted_rows.plan is None or not len(sorted_rows.summed):
        return None
    terms = gap_terms(graph, sorted_rows.plan, range(len(sorted_rows.summed)))
    return gap_loss(graph, device, codes[:, sorted_rows.summed], terms, MOST_VALUES)


def verify_present(graph: FactorGraph, device: Graph, codes: Array, weights: Array) -> None:
    """Refuse a row whose observed cells alone break a `require`.

    Raises:
        GmlmError: E508 with the row and the requirement.
    """
    padded = np.concatenate([codes < 0, np.zeros((1, codes.shape[1]), bool)])
    rows = np.flatnonzero((codes < 0).any(axis=0) & (weights > 0))
    for group, host in zip(device.groups, graph.groups, strict=True):
        if group.kind == "require" and len(rows):
            holds = np.asarray(all_values(group, {}, jnp.asarray(np.maximum(codes[:, rows], 0))))
            known = ~padded[host.cells][:, :, rows].any(axis=1)
            bad = known & ~holds
            if bad.any():
                instance, row = (int(i) for i in np.argwhere(bad)[0])
                names = ", ".join(graph.cell_name(int(c)) for c in np.unique(host.cells[instance]) if c < graph.n_random)
                message = f"row {int(rows[row])} of x is impossible: it breaks this `require`{f' at {names}' if names else ''}"
                raise fail("E508", message, host.span, "broken here", help="mend or drop the row, or loosen the requirement")
