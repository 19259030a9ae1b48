"""Conditionals and losses that a user requests by name, with the checks of the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import fail
from .._types import AnyArray, ArrayLike
from ..data import Data, evaluated, is_traced, verified_key, verified_weights, verify_untraced, whole_numbers
from ..derive.compiled import complete_rows, conditional_table, drawn_masks, gap_rows, hidden_losses
from ..graph import FactorGraph, Lowered
from ..masks import AbstractMask
from ..plan import plan_block, verify_affordable, verify_held
from ._magnitude import may_be_penalised, verify_blocks, verify_levels
from ._missing import (
    Sorted,
    block_tables,
    log_completions,
    plan_traced,
    sort_rows,
    summed_loss,
    traced_completions,
    unknown_law,
    verify_latents,
)
from ._objective import make_loss, masks_per_row
from ._row_sizes import answer, over_rows, placed
from .limits import MOST_MASKS

Params = Mapping[str, jax.Array]


def log_conditional(
    lowered: Lowered, params: Params, codes: np.ndarray, cells: Sequence[int] | int, mask: tuple[str, AbstractMask] | None
) -> AnyArray:
    """Return the table of one block's log conditional for every row; see `Model.log_conditional`.

    Args:
        lowered: the model.
        params: parameters.
        codes: (cells, rows), -1 for a missing cell.
        cells: positions of the cells of the block.
        mask: the name of a mask and the mask, or None.

    Returns:
        Array of shape (rows, values of each member..), on the host unless parameters are traced.
    """
    host = lowered.graph
    block = verified_block(host, cells)[None]
    adaptive = mask is not None and mask[1].is_adaptive
    plan = plan_block(host, block[0], corrected=True)
    verify_affordable(plan, "this conditional: a block", None)
    device = derive.graph_arrays(host)
    blocks = derive.fixed_blocks(host, block, () if mask is None else mask[1].weight_groups)
    law = None if mask is None else derive.mask_law(mask[1])
    if mask is not None:
        _verify(lowered, mask[1], params)
        if not mask[1].can_draw(block[0]):
            names = ", ".join(host.cell_name(int(c)) for c in block[0])
            raise fail("E507", f"mask `{mask[0]}` never draws the block {{{names}}}", help="K must lie in the mask's support")
    rest = np.ones(host.n_cells, bool)
    rest[block[0]] = False
    gapped = (codes[rest] < 0).any(axis=0)
    lacking = (codes < 0) & rest[:, None]
    if mask is not None and adaptive and lacking[mask[1].looked_at].any():
        raise unknown_law(host, mask[1], mask[0], lacking)
    parts = []
    if not gapped.all() or not gapped.size:
        known, cost = np.maximum(codes[:, ~gapped], 0), plan.values * (plan.members + sum(t.shape[1] for t in blocks.touch))
        table = over_rows(lambda some: conditional_table(device, params, some, blocks, law, adaptive), known, params, cost)
        parts.append((np.flatnonzero(~gapped), table))
        if may_be_penalised(host, params):
            verify_levels(host, device, params, known, block, np.flatnonzero(~gapped))
    if gapped.any():
        table = block_tables(host, device, params, codes[:, gapped], block[0], law if adaptive else None)
        parts.append((np.flatnonzero(gapped), table))
    found = placed(codes.shape[1], parts, (int(plan.values),))
    return found.T.reshape(codes.shape[1], *host.sizes[block[0]].tolist())


def _verify(lowered: Lowered, mask: AbstractMask, params: Params) -> None:
    if mask.mentions_parameter and not any(isinstance(v, jax.core.Tracer) for v in params.values()):  # pyright: ignore[reportAttributeAccessIssue]
        mask.verify(lowered.graph.sizes, {k: np.asarray(v) for k, v in params.items()})


def verified_block(host: FactorGraph, cells: Sequence[int] | int) -> np.ndarray:
    """Return the positions of a block, ascending.

    Raises:
        GmlmError: E507 unless `cells` are distinct positions of random cells.
    """
    verify_untraced(cells, "K")
    found = whole_numbers(cells, "K")
    members = np.sort(np.zeros(0, np.int32) if found is None else found.ravel())
    if not len(members) or members[0] < 0 or members[-1] >= host.n_random or (np.diff(members) == 0).any():
        message = f"K must be distinct positions from 0 to {host.n_random - 1}, got {cells!r}"
        raise fail("E507", message, help="`model.positions(name)` gives a variable's")
    return members.astype(np.int32)


def loss(
    lowered: Lowered,
    mask: tuple[str, AbstractMask],
    params: Params,
    rows: Data,
    weights: ArrayLike | None,
    key: jax.Array | int | None,
    n_masks: int | None,
) -> jax.Array:
    """Return the mean loss of rows; see `Model.loss`.

    Args:
        lowered: the model.
        mask: the name of the mask and the mask.
        params: parameters.
        rows: the rows, which may be traced.
        weights: weights of the rows; None weights all rows equally.
        key: a key with which masks are drawn; None averages over all masks.
        n_masks: the number of masks drawn for each row, together with `key`.
    """
    verify_untraced(key, "key")
    losses = row_losses(lowered, mask, params, rows, verified_key(key), n_masks)
    w = np.ones(losses.shape, losses.dtype) if weights is None else _row_weights(weights, losses)
    xp = jnp if is_traced([losses, w]) else np
    with np.errstate(invalid="ignore"):  # a row of weight 0 does not count, whatever its loss
        return answer(xp.where(w > 0, w * losses, 0.0).sum() / w.sum())


def row_losses(
    lowered: Lowered, named: tuple[str, AbstractMask], params: Params, rows: Data, key: jax.Array | None, n_masks: int | None
) -> AnyArray:
    """Return the loss of each row, shape (rows,); inf for an impossible row.

    The result is on the host unless parameters are traced.

    Args:
        lowered: the model.
        named: the name of the mask and the mask.
        params: parameters.
        rows: the rows, which may be traced.
        key: a key with which masks are drawn; None averages over all masks.
        n_masks: the number of masks drawn for each row, together with `key`.

    Raises:
        GmlmError: E505 without rows, E507 for a key without `n_masks` or the reverse, E602 if all
            masks are too many.
    """
    host, codes = lowered.graph, rows.codes
    device, (name, mask) = derive.graph_arrays(host), named
    if codes.shape[1] == 0:
        raise fail("E505", "x has no rows")
    verify_latents(host, mask, name, rows.untraced, summed=True)
    if (key is None) != (n_masks is None):
        raise fail("E507", "`key=` and `n_masks=` go together: they draw masks instead of averaging over all")
    if key is None and mask.support_size > MOST_MASKS:
        message = f"this mask has {mask.support_size:.3g} distinct blocks, more than the limit of {MOST_MASKS:.3g}"
        raise fail("E602", message, mask.span, help="draw some: `key=jax.random.key(0), n_masks=1`")
    drawn = masks_per_row(mask, "all" if n_masks is None else n_masks)
    _verify(lowered, mask, params)
    known, masks = np.maximum(rows.untraced, 0), None
    if drawn is not None:
        assert key is not None
        if mask.is_adaptive:
            verify_untraced(codes, "x")  # Masks that look at x are drawn from its values.
        masks = _drawn(host, named, params, known, drawn, key)
    if rows.lacks is not None:
        return _traced_losses(host, named, params, rows, masks, drawn)
    kinds = sort_rows(host, mask, name, codes, masks, impute=False)
    own = None if masks is None else masks[:, :, kinds.complete]
    verify_blocks(host, device, params, mask, known[:, kinds.complete], own)
    form, parts = make_loss(host, device, mask, drawn, len(kinds.complete)), []
    if len(kinds.complete):
        whole = known[:, kinds.complete], own
        cost = form.row_terms(*((1, 1) if masks is None else masks.shape[:2]))
        parts.append((kinds.complete, over_rows(lambda some: complete_rows(form, params, *some), whole, params, cost)))
    if len(kinds.summed):
        parts.append((kinds.summed, _summed(host, device, codes, kinds, params)))
    return placed(codes.shape[1], parts)


def _traced_losses(
    host: FactorGraph, named: tuple[str, AbstractMask], params: Params, rows: Data, masks: np.ndarray | None, drawn: int | None
) -> jax.Array:
    """Return the loss of each row that JAX traces; nan for a row with an invalid code."""
    assert rows.lacks is not None
    device, (name, mask), lacks = derive.graph_arrays(host), named, rows.lacks
    codes, is_whole = jnp.maximum(rows.codes, -int(lacks.any())), not lacks.any()
    if is_whole:
        form = make_loss(host, device, mask, drawn, codes.shape[1])
        cost = form.row_terms(*((1, 1) if masks is None else masks.shape[:2]))
    else:
        plan = plan_traced(host, mask, name, rows, drawn or mask.support_size)
        form, cost, is_whole = derive.hidden_loss(host, device, plan, mask, masks is not None), plan.entries, plan.whole
    found = over_rows(lambda some: hidden_losses(form, params, *some), (codes, masks), params, cost)
    if not is_whole:
        found = jnp.where(traced_completions(host, device, params, rows) == -jnp.inf, jnp.inf, found)
    return jnp.where(rows.is_invalid, jnp.nan, found)


def _drawn(host: FactorGraph, named: tuple[str, AbstractMask], params: Params, codes: np.ndarray, count: int, key: jax.Array) -> np.ndarray:
    """Draw masks for every row, (masks, members, rows).

    The masks of a row depend only on the key and on the number of the row.
    """
    name, mask = named
    if mask.mentions_parameter and is_traced(params):
        message = f"mask `{name}` mentions a parameter: masks that are drawn move with it, and the gradient of their loss is not this one"
        raise fail("E702", message, mask.span, "mentions a parameter", help="average over all masks: leave `key=` and `n_masks=` out")
    # Each mask takes its members twice, one number for each cell, and a key.
    each = 4.0 * (2 * len(mask.largest_block) + host.n_cells + 4)
    what = f"{count:,} masks drawn for each of {codes.shape[1]:,} rows"
    verify_held(each * codes.shape[1] * min(count, 10**18), what, "a smaller `n_masks=`", mask.span)
    rows = codes, np.arange(codes.shape[1], dtype=np.uint32)
    with evaluated():  # Nothing here is traced, because later code needs the values of the masks.
        law, known = derive.mask_law(mask), params if mask.mentions_parameter else {}
        return over_rows(lambda some: drawn_masks(law, known, some[0], some[1], key, count), rows, {}, count * host.n_cells)


def _summed(host: FactorGraph, device: derive.Graph, codes: np.ndarray, kinds: Sorted, params: Params) -> AnyArray:
    """Return the losses of the rows whose missing cells are summed out.

    The rows are in the order of `kinds.summed`.
    """
    at = {kind: np.searchsorted(kinds.summed, rows) for kind, rows in (("listed", kinds.listed), ("eliminated", kinds.eliminated))}
    parts, nothing = [], np.zeros(0, np.int64)
    if len(kinds.listed):
        listed = summed_loss(host, device, codes, replace(kinds, eliminated=nothing, unseen=nothing, hidden=None))
        assert listed is not None
        parts.append((at["listed"], gap_rows(listed, params)))
    if kinds.hidden is not None:
        assert kinds.mask is not None
        form = derive.hidden_loss(host, device, kinds.hidden, kinds.mask, kinds.masks is not None)
        rows, cost = (codes[:, kinds.eliminated], kinds.masks), kinds.hidden.entries
        parts.append((at["eliminated"], over_rows(lambda some: hidden_losses(form, params, *some), rows, params, cost)))
    found = placed(len(kinds.summed), parts)
    if kinds.hidden is not None and kinds.hidden.whole and len(kinds.eliminated) == len(kinds.summed):
        return found  # -log p(x) is already infinite for an impossible x
    impossible = log_completions(host, device, params, codes[:, kinds.summed]) == -np.inf
    return (jnp if is_traced([found, impossible]) else np).where(impossible, np.inf, found)


def _row_weights(weights: ArrayLike, losses: AnyArray) -> AnyArray:
    if is_traced(weights):
        return jnp.asarray(weights, losses.dtype)
    return np.asarray(verified_weights(weights, losses.shape[0]), losses.dtype)
