"""Builds the objective of a fit from a model, data, a mask and options.

The objective contains complete rows, copies of imputed rows, and rows whose missing cells are
summed out.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from .._diagnostics import fail
from ..data import generator, random_key
from ..derive import Chunks, Spread, float_type, graph_arrays, on_device, room_for
from ..derive.compiled import all_values, gap_rows, log_potential
from ..evaluate import (
    Colouring,
    Frame,
    MaskUse,
    Missing,
    Objective,
    Sorted,
    chunk_rows,
    colouring,
    counted_mean_size,
    distinct_rows,
    draw_masks,
    ignored_rows,
    is_affine,
    make_loss,
    masks_per_row,
    mean_block_size,
    reached_cells,
    reported,
    sort_rows,
    summed_loss,
    value_at,
    verify_ignored,
    verify_latents,
    verify_present,
)
from ..graph import FactorGraph, Lowered, range_of
from ..masks import AbstractMask
from ..plan import verify_held
from ._imputation import Imputed, first_values, missing_blocks
from ._inference import Copies
from ._options import FitOptions, MonteCarloEM, completed_masks, imputation
from .limits import BYTES_PER_IMPUTED_CELL, MOST_INFERRED, WORTH_MERGING

Array = np.ndarray


def verify_possible(lowered: Lowered, codes: Array, weights: Array, start: dict[str, jax.Array], first: int = 0) -> None:
    """Raise E508 for a row that has probability zero under the model.

    Args:
        lowered: the model.
        codes: shape (cells, rows), -1 if a cell is missing.
        weights: the weights of the rows; rows of weight 0 are not verified.
        start: the parameters.
        first: the number of the first of these rows.

    Raises:
        GmlmError: E508 with the row and the `require`.
    """
    device = graph_arrays(lowered.graph)
    verify_present(lowered.graph, device, codes, weights)
    whole = np.flatnonzero((codes >= 0).all(axis=0))
    if not len(whole):
        return
    codes, weights = codes[:, whole], weights[whole]
    for group, host in zip(device.groups, lowered.graph.groups, strict=True):
        if group.kind == "require":
            holds = np.asarray(all_values(group, {}, on_device(codes)))
            bad = ~holds.all(axis=0) & (weights > 0)
            if bad.any():
                row = int(np.argmax(bad))
                cells = host.cells[int(np.argmin(holds[:, row]))]
                names = [lowered.graph.cell_name(int(c)) for c in np.unique(cells) if c < lowered.graph.n_random]
                message = (
                    f"row {first + int(whole[row])} of x is impossible: it breaks this `require`{' at ' * bool(names)}{', '.join(names)}"
                )
                raise fail("E508", message, host.span, "broken here", help="mend or drop the row, or loosen the requirement")
    if _finite_factors(lowered.graph, start):
        return
    value = np.asarray(log_potential(device, start, on_device(codes)))
    bad = (np.isnan(value) | np.isneginf(value)) & (weights > 0)
    if bad.any():
        row = int(np.argmax(bad))
        message = f"row {first + int(whole[row])} of x is impossible: log p is {value[row]:g} at the start"
        raise fail("E508", message, help="a factor is -infinity or undefined there; start elsewhere with `init=`")


def stays_finite(host: FactorGraph, start: dict[str, jax.Array]) -> bool:
    """Return whether bounds show that every row is possible.

    There must be no `require`, and every factor must be finite.
    """
    return all(g.kind != "require" for g in host.groups) and _finite_factors(host, start)


def _finite_factors(host: FactorGraph, start: dict[str, jax.Array]) -> bool:
    values = {k: np.asarray(v) for k, v in start.items()}
    return all(range_of(g, int(host.sizes.max(initial=1)), values) is not None for g in host.factors)


@dataclass(frozen=True)
class Prepared:
    """The objective of a fit, its use of the mask, and its rows with missing cells.

    `columns` are the rows of the objective's columns before equal rows are merged, and `summed`
    those whose missing cells are summed out.
    """

    objective: Objective
    use: MaskUse
    missing: Missing
    imputed: Imputed | None
    columns: Array
    summed: Array


def make_objective(
    host: FactorGraph,
    mask: AbstractMask,
    codes: Array,
    weights: Array,
    start: dict[str, jax.Array],
    fixed: tuple[str, ...],
    options: FitOptions,
    merge: bool = False,
    spread: Spread | None = None,
) -> Prepared:
    """Return the objective of a fit.

    Complete rows and copies of imputed rows are stored side by side; rows whose missing cells are
    summed out are stored separately.

    Args:
        host: the factor graph.
        mask: the mask of the loss.
        codes: shape (cells, rows), -1 if a cell is missing.
        weights: the weights of the rows.
        start: the starting values of all parameters.
        fixed: the names of the parameters that are held at their start.
        options: the options of the fit.
        merge: whether equal rows may be stored as one.
        spread: the axis of a mesh over which complete rows are spread, or None.
    """
    named, ignores = mask, options.ignores
    if ignores:
        verify_ignored(host, mask, options.mask, codes)
    mask, counted_by = _completed_masks(host, mask, codes, options)
    device = graph_arrays(host)
    n_masks = masks_per_row(mask, options.n_masks)
    filled = on_device(np.maximum(codes, 0))
    masks = None if n_masks is None else np.asarray(draw_masks(host, mask, filled, n_masks, random_key(options.seed), options.repeats))
    size = _mean_size(host, counted_by, filled, _counts(mask, n_masks, weights, options))
    _verify_hides(size, mask, options)
    use = MaskUse(options.mask, n_masks, named.support_size, mask.is_adaptive, reached_cells(host, counted_by), size)
    imputes = isinstance(options.method, MonteCarloEM) or options.impute
    kinds = ignored_rows(host, mask, codes) if ignores else sort_rows(host, mask, options.mask, codes, masks, imputes, weights)
    order, share, whole, imputed = _columns(host, codes, kinds, options)
    loss = make_loss(host, device, mask, n_masks, len(order), kinds.report.ignored)
    rows_masks = None if masks is None else masks[:, :, order]
    each, repeated = weights[order] * share, None
    if merge and masks is None and imputed is None and loss.row_terms(0, 0) * len(order) > WORTH_MERGING:
        whole, each, repeated = _merged(whole, each)
    room = room_for(len(each))
    chunk = chunk_rows(loss, 0 if rows_masks is None else len(rows_masks), 0 if rows_masks is None else rows_masks.shape[1], room)
    chunks = Chunks(chunk) if spread is None else Chunks(spread.filled(chunk), spread.devices)
    padding, dtype, placed = room + -room % chunks.rows - len(each), float_type(), on_device if spread is None else spread.put
    gaps = summed_loss(host, device, codes, kinds)
    objective = Objective(
        loss,
        placed(np.pad(whole, ((0, 0), (0, padding)), mode="edge" if len(each) else "constant")),
        placed(np.pad(each, (0, padding)).astype(dtype)),
        None if rows_masks is None else placed(np.pad(rows_masks, ((0, 0), (0, 0), (0, padding)), constant_values=host.n_cells)),
        start,
        on_device(np.asarray(use.reached / use.mean_size, dtype)),
        on_device(np.asarray(weights.sum(), dtype)),
        Frame(host.without_data, fixed),
        chunks,
        gaps,
        None if gaps is None else on_device(weights[kinds.summed].astype(dtype)),
        repeated=None if repeated is None else np.pad(repeated, ((0, 0), (0, padding))),
    )
    if gaps is not None:
        _verify_finite(objective, start, kinds.summed)
    return Prepared(objective, use, kinds.report, imputed, order, kinds.summed)


def _merged(codes: Array, weights: Array) -> tuple[Array, Array, Array | None]:
    """Return rows and their weights, with equal rows stored as one if there are many.

    See `Objective.repeated`.
    """
    found = distinct_rows(codes, weights)
    return (codes, weights, None) if found is None else (found.codes, found.weights, found.repeated)


def _verify_hides(size: float, mask: AbstractMask, options: FitOptions) -> None:
    if size == 0:
        raise fail("E410", f"mask `{options.mask}` hides no cell of these rows", mask.span, "an empty support")


def _counts(mask: AbstractMask, n_masks: int | None, weights: Array, options: FitOptions) -> Array | None:
    """Return the weights if they are counts of rows, else None."""
    if options.weights_are != "counts":
        return None
    if n_masks is not None:
        help_ = "repeat the rows instead, so that each has its own masks"
        raise fail("E542", f"weights are counts, and mask `{options.mask}` is drawn for each row", mask.span, "drawn", help=help_)
    return weights


def _mean_size(host: FactorGraph, mask: AbstractMask, codes: jax.Array, counts: Array | None) -> float:
    """Return E|K|.

    For a data-dependent mask this is the mean over the rows; a row of count w counts as w rows.
    """
    plain = None if mask.varies else mask.mean_size
    if plain is not None:
        return plain
    return mean_block_size(host, mask, codes) if counts is None else counted_mean_size(host, mask, codes, counts)


def _completed_masks(host: FactorGraph, mask: AbstractMask, codes: Array, options: FitOptions) -> tuple[AbstractMask, AbstractMask]:
    """Return the mask of the loss, and the mask that determines its factor.

    Both are the named mask unless latents are drawn; see `MonteCarloEM`.
    """
    drawing = isinstance(options.method, MonteCarloEM)
    verify_latents(host, mask, options.mask, codes, not drawing)
    if options.impute and reported(host, codes).latents:
        help = "`method=gm.MonteCarloEM()` draws latents and missing cells"
        raise fail("E704", "`impute=True` is about missing cells, and these rows lack latents", help=help)
    latents = np.flatnonzero((codes < 0).any(axis=1) & host.is_latent)
    if drawing and len(latents) and mask.varies:
        message = f"mask `{options.mask}` has other probabilities in other rows, and {MonteCarloEM.name} joins latents to like blocks"
        raise fail("E704", message, mask.span, "varies with rows", help="name a mask without weights that look at x or at given data")
    return completed_masks(host, mask, latents) if drawing else (mask, mask)


def _columns(host: FactorGraph, codes: Array, kinds: Sorted, options: FitOptions) -> tuple[Array, Array, Array, Imputed | None]:
    """Return the columns of the objective: complete rows, then copies of the imputed rows.

    The results are the row of each column, its share of the row's weight, its codes, and the
    imputed rows.
    """
    order, rows = kinds.complete, kinds.imputed
    if not len(rows):
        return order, np.ones(len(order)), codes[:, order], None
    count = imputation(options).copies
    needed = BYTES_PER_IMPUTED_CELL * len(codes) * len(rows) * int(count)
    verify_held(needed, f"{count:,} copies of each of {len(rows):,} rows", "fewer `copies=` of the method")
    columns = np.repeat(rows, count)
    blocks, values = missing_blocks(host, codes[:, rows] < 0)
    imputed = Imputed(Copies(len(order), len(rows), count), np.repeat(blocks, count, axis=2), values, rows)
    filled = first_values(host, codes, generator(options.seed))[:, columns]
    share = np.append(np.ones(len(order)), np.full(len(columns), 1 / count))
    return np.append(order, columns), share, np.concatenate([codes[:, order], filled], axis=1), imputed


def _verify_finite(objective: Objective, start: dict[str, jax.Array], rows: Array) -> None:
    """Raise E508 for a row that is impossible for all values of its missing cells.

    Raises:
        GmlmError: E508.
    """
    host = objective.frame.host
    if stays_finite(host, start):
        return
    if np.isfinite(float(value_at(objective, start))):
        return
    assert objective.gaps is not None
    assert objective.gap_weights is not None
    bad = ~np.isfinite(np.asarray(gap_rows(objective.gaps, start))) & (np.asarray(objective.gap_weights) > 0)
    if bad.any():
        message = f"row {int(rows[int(np.argmax(bad))])} of x is impossible: whatever its missing cells hold, log p is -inf or undefined"
        raise fail("E508", message, help="mend or drop the row, or loosen the requirement; or start elsewhere with `init=`")


def objective_colouring(objective: Objective) -> Colouring | None:
    """Return the colouring of an exponential family under all masks of a support, else None.

    Without that form, local statistics do not determine the sums.
    """
    host = objective.frame.host
    size = sum(p.size for p in host.parameters)
    rows = int((objective.host_weights > 0).sum())
    if objective.exact_loss_or_none is None or not is_affine(host) or not 0 < size <= MOST_INFERRED or not rows:
        return None
    return colouring(objective, size)
