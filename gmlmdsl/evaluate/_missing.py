"""Missing cells: which rows lack cells, and whether these cells are summed out or imputed.

log p of rows with missing cells, and of blocks given such rows, is a sum over the missing cells.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import GmlmError, counted, fail, listed
from .._types import AnyArray
from ..data import Data, is_traced
from ..derive import (
    AbstractMaskLaw,
    EnumeratedLoss,
    Graph,
    SummedRows,
    contraction,
    fixed_blocks,
    graph_arrays,
    hidden_rows,
    listed_rows,
    mask_law,
    on_device,
)
from ..derive.compiled import all_values, block_table, log_marginal, log_observed, log_potential
from ..graph import FactorGraph
from ..masks import AbstractMask
from ..plan import BUDGET, GapPlan, HiddenPlan, affordable_rows, gap_terms, plan_completions, plan_gaps, plan_hidden, plan_sum, verify_gaps
from ._row_sizes import log_potentials, over_rows, placed
from .limits import MOST_HIDDEN_ENTRIES, MOST_PATTERN_MASKS

if TYPE_CHECKING:
    import pandas as pd


Array = np.ndarray
METHODS = (
    "draw the latents inside the fit, `method=gm.MonteCarloEM()`; or maximise the likelihood by sampling, "
    "`method=gm.PersistentContrastiveDivergence()`; or take a mask with smaller blocks"
)


@dataclass(frozen=True)
class Missing:
    """Record of how a fit treated the cells that x lacks: missing cells of its `var`s, and latents.

    Attributes:
        cells: the number of rows in which each cell is missing, shape (cells,). Latents are not in
            the data and do not count as missing.
        rows: the number of rows with a missing cell.
        summed: the number of rows whose missing cells and latents were summed out of their loss.
        imputed: the number of rows whose missing cells and latents were drawn repeatedly from the
            model being fitted.
        unseen: the number of rows without an observed cell in the reach of the mask. They score 0
            and are counted among the summed rows.
        imputations: the number of completed copies of each imputed row.
        iterations: the number of times the copies were redrawn.
        noise: the largest Monte Carlo error of the estimates, as a fraction of their standard
            errors; nan if nothing was imputed.
        drift: the largest last change of the mean estimate, in units of its Monte Carlo error.
        latents: the latents that some row lacks.
        ignored: whether missing cells were left out, with the factors that touch them.
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
    latents: tuple[str, ...] = ()
    ignored: bool = False

    @property
    def any(self) -> bool:
        """Whether some row lacks a cell."""
        return bool(self.rows or self.latents)

    @property
    def lacking(self) -> str:
        """The missing cells and latents in words, as the subject of a sentence."""
        parts = [f"latent {listed(self.latents)}"] if self.latents else []
        if self.rows:
            cells = int(self.cells.sum())
            rows = f"{self.rows:,} row{'s' * (self.rows != 1)}"
            parts.append(f"{cells:,} missing cell{'s' * (cells != 1)} in {rows}")
        return " and ".join(parts)

    @property
    def words(self) -> str:
        """A summary of one or two sentences; empty if no row lacks a cell."""
        if not self.any:
            return ""
        alone = f" ({self.unseen} without an observed cell under the mask score 0)" if self.unseen else ""
        if self.ignored:
            told = 'That is biased, even where cells are missing completely at random; `gaps="sum"` sums them out'
            return f"{self.lacking}: left out, with the factors that touch them{alone}. {told}"
        rows = f"{self.summed:,}" if self.rows and not self.latents else counted(self.summed, "row")
        done = [f"summed out in {rows}{alone}"] if self.summed or not self.imputed or not self.latents else []
        if self.imputations:
            drawn = f"drawn in {counted(self.imputed, 'row')}" if self.latents else f"imputed in {self.imputed:,}"
            done.append(
                f"{drawn} by Monte Carlo EM: {self.imputations} copies of each, {self.iterations} rounds, "
                f"Monte Carlo error at most {100 * self.noise:.2g} % of a standard error"
            )
        elif self.imputed:
            done.append(f"drawn in {counted(self.imputed, 'row')} by block dynamics")
        text = f"{self.lacking}: {', '.join(done)}"
        if self.rows and self.summed > self.unseen:
            text += ". Summing out is right where cells are missing completely at random, "
            text += "or the mask is `everything`; else see `impute=True`"
        return text

    def table(self, graph: FactorGraph) -> pd.DataFrame:
        """Return the number of rows in which each cell is missing, by cell."""
        import pandas as pd

        names = [graph.cell_name(c) for c in range(graph.n_random)]
        return pd.DataFrame({"missing": self.cells}, index=pd.Index(names, name="cell"))


@dataclass(frozen=True)
class Sorted:
    """Rows sorted by their treatment: ascending positions among the given rows.

    Attributes:
        complete: rows without missing cells.
        listed: rows whose missing cells are summed out by enumeration of joint values, as `plan`
            states.
        eliminated: rows whose missing cells are summed out by elimination, as `hidden` states,
            under the `mask` with the `masks` drawn for them.
        imputed: rows whose missing cells are drawn.
        unseen: rows with loss 0 whatever they hold, because no cell of any block K is observed.
        report: the record for the user.
        plan: the plan of the enumeration.
        hidden: the plan of the elimination.
        mask: the mask of the loss of the eliminated rows.
        masks: the masks drawn for the eliminated rows.
    """

    complete: Array
    listed: Array
    eliminated: Array
    imputed: Array
    unseen: Array
    report: Missing
    plan: GapPlan | None = None
    hidden: HiddenPlan | None = None
    mask: AbstractMask | None = None
    masks: Array | None = None

    @property
    def summed(self) -> Array:
        """The rows whose loss is computed separately from the loss of complete rows."""
        return np.sort(np.concatenate([self.listed, self.eliminated, self.unseen]))


def sort_rows(
    graph: FactorGraph, mask: AbstractMask, name: str, codes: Array, masks: Array | None, impute: bool | None, weights: Array | None = None
) -> Sorted:
    """Decide for each row with missing cells whether these are summed out or imputed.

    Args:
        graph: the factor graph.
        mask: the mask of the loss.
        name: the name of the mask in messages.
        codes: (cells, rows), -1 for a missing cell.
        masks: drawn masks (masks, members, rows), or None if the loss uses all masks.
        impute: None imputes a row if summing out its missing cells is above the budget (latents are
            drawn only on request). True imputes every row with a missing cell that scores. False
            raises an error instead of imputing.
        weights: weights of the rows; a row of weight 0 is never imputed.

    Raises:
        GmlmError: E511 for a data-dependent mask that looks at a missing cell; E601 or E602 if a
            sum costs too much.
    """
    missing = codes < 0
    gapped, nothing = np.flatnonzero(missing.any(axis=0)), np.zeros(0, np.int64)
    found = Sorted(np.flatnonzero(~missing.any(axis=0)), nothing, nothing, nothing, nothing, reported(graph, codes))
    if not len(gapped):
        return found
    if mask.is_adaptive and (impute or missing[mask.looked_at].any()):
        raise unknown_law(graph, mask, name, missing)
    blind = np.all(missing[mask.reach], axis=0) & np.any(missing, axis=0)
    found = dataclasses.replace(found, unseen=np.flatnonzero(blind))
    found = dataclasses.replace(found, report=dataclasses.replace(found.report, unseen=int(blind.sum())))
    gapped = gapped[~blind[gapped]]
    if not impute and (found.report.latents or mask.is_adaptive):
        return _counted(_eliminated(graph, mask, masks, codes, gapped, found, METHODS))
    plan = plan_gaps(graph, missing[:, gapped], _blocks(graph, mask, masks, codes, gapped))
    within = affordable_rows(plan) if not impute else np.array([not t for t in plan.terms], dtype=bool)
    found = dataclasses.replace(found, listed=gapped[within], plan=_only(plan, within))
    dear = gapped[~within]
    if not impute and len(dear):
        help = "leave `impute` out: these rows' cells are then drawn inside the fit; or drop the rows"
        try:
            return _counted(_eliminated(graph, mask, masks, codes, dear, found, help))
        except GmlmError as error:
            # raise any fault other than excessive cost
            if not set(error.codes) <= {"E601", "E602"}:
                raise
            if impute is False:
                verify_gaps(plan, gapped, help, what=gaps_in_words(found.report))
    return _counted(dataclasses.replace(found, imputed=dear if weights is None else dear[weights[dear] > 0]))


def ignored_rows(graph: FactorGraph, mask: AbstractMask, codes: Array) -> Sorted:
    """Sort all rows as complete rows, because the loss leaves out their missing cells."""
    missing, nothing = codes < 0, np.zeros(0, np.int64)
    blind = int((np.all(missing[mask.reach], axis=0) & np.any(missing, axis=0)).sum())
    report = dataclasses.replace(reported(graph, codes), unseen=blind, ignored=bool(missing.any()))
    return Sorted(np.arange(codes.shape[1]), nothing, nothing, nothing, nothing, report)


def verify_ignored(graph: FactorGraph, mask: AbstractMask, name: str, codes: Array) -> None:
    """Raise E511 if a missing cell cannot be left out of the loss.

    Three kinds of cells cannot be left out:

    - cells that the mask looks at,
    - latents,
    - cells of a `require`.

    Args:
        graph: the factor graph.
        mask: the mask of the loss.
        name: the name of the mask in messages.
        codes: (cells, rows), -1 for a missing cell.

    Raises:
        GmlmError: E511 with the cell.
    """
    missing = codes < 0
    if not missing.any():
        return
    if mask.is_adaptive and missing[mask.looked_at].any():
        raise unknown_law(graph, mask, name, missing)
    help = 'leave `gaps="ignore"` out: what rows lack is then summed out'
    if latents := reported(graph, codes).latents:
        message = f'`gaps="ignore"` leaves out the factors of what a row lacks, and these rows lack latent {listed(latents)}'
        raise fail("E511", message, help=help)
    for group in graph.groups:
        cells = np.unique(group.cells) if group.kind == "require" else np.zeros(0, np.int64)
        bad = np.argwhere(missing[cells])
        if len(bad):
            cell, row = graph.cell_name(int(cells[bad[0, 0]])), int(bad[0, 1])
            message = f'`gaps="ignore"` leaves out the factors of a missing cell, and row {row} lacks {cell}, of which this is required'
            raise fail("E511", message, group.span, "cannot be left out", help=help)


def _counted(found: Sorted) -> Sorted:
    """Return the sorted rows with the numbers of rows entered in the report."""
    return dataclasses.replace(found, report=dataclasses.replace(found.report, summed=len(found.summed), imputed=len(found.imputed)))


def _eliminated(graph: FactorGraph, mask: AbstractMask, masks: Array | None, codes: Array, rows: Array, found: Sorted, help: str) -> Sorted:
    """Return the sorted rows with some of them summed by elimination.

    The elimination sums out all cells that any of these rows lacks.
    """
    if not len(rows):
        return found
    count = mask.support_size if masks is None else len(masks)
    missing = codes[:, rows] < 0
    some, every = np.any(missing, axis=1), np.asarray(missing.all(axis=1))
    plan = plan_hidden(graph, some, mask, count, len(rows), gaps_in_words(found.report), help, every)
    return dataclasses.replace(found, eliminated=rows, hidden=plan, mask=mask, masks=None if masks is None else masks[:, :, rows])


def reported(graph: FactorGraph, codes: Array) -> Missing:
    """Return the record of the cells that rows lack, before any treatment."""
    missing = codes < 0
    lacking = np.asarray(missing.any(axis=1))
    latents = tuple(v.name for v in graph.latents if lacking[v.offset : v.offset + v.size].any())
    seen = missing & graph.is_observed[:, None]
    return Missing(seen[: graph.n_random].sum(axis=1), int(seen.any(axis=0).sum()), latents=latents)


def verify_latents(graph: FactorGraph, mask: AbstractMask, name: str, codes: Array, summed: bool) -> None:
    """Raise an error if latents rule out a loss, before anything is compiled or drawn.

    Args:
        graph: the factor graph.
        mask: the mask of a loss.
        name: the name of the mask in messages.
        codes: (cells, rows), -1 for a missing cell.
        summed: whether latents that x lacks are summed out.

    Raises:
        GmlmError: E703 for a mask that hides a latent or looks at one; E511 for a mask that looks
            at x although latents are missing; E601 with the figures if a block's sum is above the
            budget for the first row.
    """
    if not graph.latents:
        return
    hidden = graph.is_latent
    for cells, does in ((mask.reach, "hides"), (mask.looked_at, "looks at")):
        if hidden[cells].any():
            cell = graph.cell_name(int(cells[hidden[cells]][0]))
            message = f"mask `{name}` {does} {cell}, a latent: such a mask may sample, and has no loss, for data do not hold it"
            raise fail("E703", message, mask.span, f"{does} a latent", help="name the `var`s that it is about")
    missing = codes < 0
    lacking = np.flatnonzero(missing[hidden].any(axis=0))
    if not len(lacking):
        return
    if summed:
        report = reported(graph, codes[:, lacking[:1]])
        count = 1 if mask.support_size > BUDGET.support else mask.support_size
        plan_hidden(graph, np.any(missing[:, lacking[:1]], axis=1), mask, count, 1, gaps_in_words(report), METHODS)


def gaps_in_words(report: Missing) -> str:
    """Return the kinds of cells that rows lack, in words for messages."""
    hidden = f"latent {listed(report.latents)}" if report.latents else ""
    return " and ".join([*([hidden] if hidden else []), *(["the missing cells"] if report.rows or not hidden else [])])


def unknown_law(graph: FactorGraph, mask: AbstractMask, name: str, missing: Array) -> GmlmError:
    """Return the E511 error for a data-dependent mask that looks at x if cells are missing.

    Args:
        graph: the factor graph.
        mask: the mask.
        name: the name of the mask in messages.
        missing: booleans of the missing cells, (cells, rows).
    """
    seen = missing & np.isin(np.arange(len(missing)), mask.looked_at)[:, None]
    cell, row = (int(i) for i in np.argwhere(seen if seen.any() else missing)[0])
    help = "fit with a mask that does not look at x, or keep the rows without gaps"
    if not seen.any():
        message = f"mask `{name}` looks at x, and {graph.cell_name(cell)} would be drawn inside the fit: that goes with plain masks only"
        return fail("E511", message, mask.span, "looks at x", help=help)
    message = f"mask `{name}` looks at x, and {graph.cell_name(cell)} of row {row} (counted from 0) is missing: p(K | x) is not known there"
    return fail("E511", message, mask.span, "looks at x", help=help)


def _only(plan: GapPlan, within: Array) -> GapPlan:
    terms = tuple(t for t, w in zip(plan.terms, within, strict=True) if w)
    return GapPlan(plan.evaluations[within], plan.values[within], terms)


def _blocks(graph: FactorGraph, mask: AbstractMask, masks: Array | None, codes: Array, gapped: Array) -> Sequence[tuple[Array, Array]]:
    if masks is not None:
        _verify_planned(len(gapped), len(masks), mask, "draw fewer: `n_masks=1`, or drop rows with gaps")
        share = np.full(len(masks), 1 / len(masks))
        return [(masks[:, :, r], share) for r in gapped]
    blocks, probabilities = mask.enumerate_blocks()
    patterns = len(gapped) if probabilities is None else len(np.unique(codes[:, gapped] < 0, axis=1).T)
    _verify_planned(patterns, len(blocks), mask, "draw some masks: `n_masks=4`")
    if probabilities is None:
        return [(blocks, p) for p in _by_row(graph, mask, blocks, codes[:, gapped]).T]
    return [(blocks, probabilities)]


def _by_row(graph: FactorGraph, mask: AbstractMask, blocks: Array, codes: Array) -> Array:
    """Return p(K | row) of each block in each row, shape (blocks, rows).

    The mask may look at given variables only.
    """
    law, fixed = mask_law(mask), fixed_blocks(graph, blocks, mask.weight_groups)
    found = law.log_probability({}, on_device(np.maximum(codes, 0)), fixed, iter(fixed.touch[len(graph.groups) :]))
    return np.exp(np.broadcast_to(np.asarray(found), (len(blocks), fixed.n_values, codes.shape[1]))[:, 0])


def _verify_planned(patterns: int, masks: int, mask: AbstractMask, help: str) -> None:
    if patterns * masks > MOST_PATTERN_MASKS:
        message = f"{patterns:,} patterns of missing cells under {masks:,} masks are {patterns * masks:.3g} terms"
        message += f", more than the limit of {MOST_PATTERN_MASKS:.3g}"
        raise fail("E602", message, mask.span, help=help)


def summed_loss(graph: FactorGraph, device: Graph, codes: Array, found: Sorted) -> SummedRows | None:
    """Return the loss of the rows whose missing cells are summed out.

    Args:
        graph: the factor graph.
        device: the factor graph on the device.
        codes: (cells, rows), -1 for a missing cell.
        found: the sorted rows.

    Returns:
        The loss of the rows in the order of `found.summed`; None without such rows.
    """
    if not len(found.summed):
        return None
    listed = eliminated = None
    if found.plan is not None and len(found.listed):
        terms = gap_terms(graph, found.plan, range(len(found.listed)))
        # The derivatives of this number of joint values by every parameter fit into memory.
        at_once = MOST_HIDDEN_ENTRIES * 4 // max(1, sum(p.size for p in graph.parameters))
        held = codes[:, found.listed], terms, found.plan.evaluations.sum(), int(np.clip(at_once, 1 << 10, 1 << 18))
        listed = listed_rows(graph, device, *held)
    if found.hidden is not None:
        assert found.mask is not None
        eliminated = hidden_rows(graph, device, codes[:, found.eliminated], found.hidden, found.mask, found.masks)
    places = (on_device(np.searchsorted(found.summed, rows), np.int32) for rows in (found.listed, found.eliminated))
    return SummedRows(len(found.summed), listed, eliminated, tuple(places))  # pyright: ignore[reportArgumentType]


def verify_present(graph: FactorGraph, device: Graph, codes: Array, weights: Array) -> None:
    """Raise E508 for a row whose observed cells alone violate a `require`.

    Args:
        graph: the factor graph.
        device: the factor graph on the device.
        codes: (cells, rows), -1 for a missing cell.
        weights: weights of the rows; rows of weight 0 are not checked.

    Raises:
        GmlmError: E508 with the row and the requirement.
    """
    padded = np.concatenate([codes < 0, np.zeros((1, codes.shape[1]), bool)])
    rows = np.flatnonzero((codes < 0).any(axis=0) & (weights > 0))
    for group, host in zip(device.groups, graph.groups, strict=True):
        if group.kind == "require" and len(rows):
            holds = np.asarray(all_values(group, {}, on_device(np.maximum(codes[:, rows], 0))))
            known = ~padded[host.cells][:, :, rows].any(axis=1)
            bad = known & ~holds
            if bad.any():
                instance, row = (int(i) for i in np.argwhere(bad)[0])
                names = ", ".join(graph.cell_name(int(c)) for c in np.unique(host.cells[instance]) if c < graph.n_random)
                message = f"row {int(rows[row])} of x is impossible: it breaks this `require`{f' at {names}' if names else ''}"
                raise fail("E508", message, host.span, "broken here", help="mend or drop the row, or loosen the requirement")


def log_completions(graph: FactorGraph, device: Graph, params: Mapping[str, jax.Array], codes: Array) -> AnyArray:
    """Return the unnormalised log p of rows, with missing cells summed out.

    Args:
        graph: the factor graph.
        device: the factor graph on the device.
        params: parameters.
        codes: (cells, rows), -1 for a missing cell.

    Returns:
        Array of shape (rows,), on the host unless parameters are traced.

    Raises:
        GmlmError: E601 if that costs too much.
    """
    lacking = (codes < 0).any(axis=0)
    gapped, whole = np.flatnonzero(lacking), np.flatnonzero(~lacking)
    parts: list[tuple[Array, AnyArray]] = (
        [(whole, log_potentials(device, params, codes[:, whole]))] if len(whole) or not len(gapped) else []
    )
    if not len(gapped):
        return parts[0][1]
    report = reported(graph, codes)
    dear = np.ones(len(gapped), bool)
    if not report.latents:
        plan = plan_completions(graph, codes[:, gapped] < 0)
        dear = ~affordable_rows(plan)
        if not dear.all():
            terms = gap_terms(graph, plan, np.flatnonzero(~dear))
            gaps = listed_rows(graph, device, codes[:, gapped[~dear]], terms, plan.evaluations[~dear].sum())
            parts.append((gapped[~dear], log_marginal(gaps, params)))
    if dear.any():
        some = codes[:, gapped[dear]]
        parts.append((gapped[dear], eliminated(graph, device, params, some, np.any(some < 0, axis=1), report)))
    return placed(codes.shape[1], parts)


def traced_completions(graph: FactorGraph, device: Graph, params: Mapping[str, jax.Array], rows: Data) -> jax.Array:
    """Return the unnormalised log p of traced rows, with missing cells summed out.

    Args:
        graph: the factor graph.
        device: the factor graph on the device.
        params: parameters.
        rows: the rows; one with an invalid code has the value nan.

    Returns:
        Array of shape (rows,), traced.

    Raises:
        GmlmError: E601 if that costs too much.
    """
    assert rows.lacks is not None
    if rows.lacks.any():
        found = eliminated(graph, device, params, rows.codes, rows.lacks[0], reported(graph, rows.untraced))
    else:
        found = log_potential(device, params, jnp.maximum(rows.codes, 0))
    return jnp.where(rows.is_invalid, jnp.nan, found)


def plan_traced(graph: FactorGraph, mask: AbstractMask, name: str, rows: Data, count: float) -> HiddenPlan:
    """Return the plan of the losses of traced rows, of which some may lack cells.

    Args:
        graph: the factor graph.
        mask: the mask of the loss.
        name: the name of the mask in messages.
        rows: the rows.
        count: the number of masks for each row.

    Raises:
        GmlmError: E511 for a mask that looks at a cell that may be missing; E601 with the cost.
    """
    assert rows.lacks is not None
    if mask.is_adaptive and rows.lacks[0][mask.looked_at].any():
        raise unknown_law(graph, mask, name, rows.untraced < 0)
    words = gaps_in_words(reported(graph, rows.untraced))
    return plan_hidden(graph, rows.lacks[0], mask, count, rows.codes.shape[1], words, METHODS, rows.lacks[1])


def eliminated(
    graph: FactorGraph, device: Graph, params: Mapping[str, jax.Array], codes: AnyArray, hidden: Array, report: Missing
) -> AnyArray:
    """Return the unnormalised log p of rows by elimination of their missing cells.

    Args:
        graph: the factor graph.
        device: the factor graph on the device.
        params: parameters.
        codes: (cells, rows), -1 for a missing cell.
        hidden: booleans of the cells that some row lacks.
        report: the record of the missing cells, for messages.

    Returns:
        Array of shape (rows,), on the host unless something is traced.

    Raises:
        GmlmError: E601 if that costs too much.
    """
    help = f"let x hold {listed(report.latents)}" if report.latents else "fill some of the cells, or drop the rows with the most gaps"
    summed, plan = plan_sum(graph, hidden, codes.shape[1], gaps_in_words(report), help)
    c, codes, device = contraction(summed, plan), *_of_sums(graph, summed, codes, device)
    return over_rows(lambda some: log_observed(device, params, some, c), codes, params, plan.flops)


def _of_sums(graph: FactorGraph, summed: FactorGraph, codes: AnyArray, device: Graph) -> tuple[AnyArray, Graph]:
    """Return rows and a graph on the device with the partial sums, of code -1, that `summed` has."""
    if summed is graph:
        return codes, device
    padded = (jnp if is_traced(codes) else np).pad(codes, ((0, summed.n_cells - graph.n_cells), (0, 0)), constant_values=-1)
    return padded, graph_arrays(summed)


def block_tables(
    graph: FactorGraph, device: Graph, params: Mapping[str, jax.Array], codes: Array, members: Array, law: AbstractMaskLaw | None = None
) -> AnyArray:
    """Return log p(x_K | the observed cells of x outside K), with other missing cells summed out.

    With `law` it is conditional on K too: log p(x_K | the observed cells of x outside K, K).

    Args:
        graph: the factor graph.
        device: the factor graph on the device.
        params: parameters.
        codes: (cells, rows), -1 for a missing cell; the codes of K have no effect.
        members: the cells of K, ascending.
        law: the distribution of K of a mask that looks at observed cells; None to leave K out.

    Returns:
        Array of shape (joint values of K, rows).

    Raises:
        GmlmError: E601 if the sums cost too much.
    """
    count, rows = int(np.prod(graph.sizes[members])), codes.shape[1]
    codes = codes.copy()
    codes[members] = 0
    report = reported(graph, codes)
    help = f"let x hold {listed(report.latents)}" if report.latents else "fill some of the cells"
    summed, plan = plan_sum(graph, np.any(codes < 0, axis=1), rows * count, gaps_in_words(report), help, law is None)
    rows_of_sums, device = _of_sums(graph, summed, codes, device)
    loss = EnumeratedLoss(device, contraction(summed, plan), law, count, None, None)
    cells, cost = on_device(members, np.int32), count * (plan.flops + graph.n_cells)
    return over_rows(lambda some: block_table(loss, params, some, cells), rows_of_sums, params, cost)
