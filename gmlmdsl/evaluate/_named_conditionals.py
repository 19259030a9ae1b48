"""Conditionals and losses that a user requests by name, with the checks of the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import fail
from .._types import AnyArray, ArrayLike
from ..data import evaluated, is_traced, verified_key, verified_weights, verify_untraced, whole_numbers
from ..derive.compiled import complete_rows, conditional_table, drawn_masks, gap_rows, hidden_losses
from ..graph import FactorGraph, Lowered
from ..masks import AbstractMask
from ..plan import plan_block, verify_affordable, verify_held
from ._magnitude import may_be_penalised, verify_blocks, verify_levels
from ._missing import Sorted, block_tables, log_completions, sort_rows, summed_loss, unknown_law, verify_latents
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
    codes: np.ndarray,
    weights: ArrayLike | None,
    key: jax.Array | int | None,
    n_masks: int | None,
) -> jax.Array:
    """Return the mean loss of rows; see `Model.loss`.

    Args:
        lowered: the model.
        mask: the name of the mask and the mask.
        params: parameters.
        codes: (cells, rows), -1 for a missing cell.
        weights: weights of the rows; None weights all rows equally.
        key: a key with which masks are drawn; None averages over all masks.
        n_masks: the number of masks drawn for each row, together with `key`.
    """
    verify_untraced(key, "key")
    losses = row_losses(lowered, mask, params, codes, verified_key(key), n_masks)
    w = np.ones(losses.shape, losses.dtype) if weights is None else _row_weights(weights, losses)
    xp = jnp if is_traced([losses, w]) else np
    with np.errstate(invalid="ignore"):  # a row of weight 0 does not count, whatever its loss
        return answer(xp.where(w > 0, w * losses, 0.0).sum() / w.sum())


def row_losses(
    lowered: Lowered, named: tuple[str, AbstractMask], params: Params, codes: np.ndarray, key: jax.Array | None, n_masks: int | None
) -> AnyArray:
    """Return the loss of each row, shape (rows,); inf for an impossible row.

    The result is on the host unless parameters are traced.

    Args:
        lowered: the model.
        named: the name of the mask and the mask.
        params: parameters.
        codes: (cells, rows), -1 for a missing cell.
        key: a key with which masks are drawn; None averages over all masks.
        n_masks: the number of masks drawn for each row, together with `key`.

    Raises:
        GmlmError: E505 without rows, E507 for a key without `n_masks` or the reverse, E602 if all
            masks are too many.
    """
    host, device = lowered.graph, derive.graph_arrays(lowered.graph)
    name, mask = named
    known = codes if is_traced(codes) else np.maximum(codes, 0)
    if codes.shape[1] == 0:
        raise fail("E505", "x has no rows")
    if not is_traced(codes):
        verify_latents(host, mask, name, codes, summed=True)
    if (key is None) != (n_masks is None):
        raise fail("E507", "`key=` and `n_masks=` go together: they draw masks instead of averaging over all")
    if key is None and mask.support_size > MOST_MASKS:
        message = f"this mask has {mask.support_size:.3g} distinct blocks, more than the limit of {MOST_MASKS:.3g}"
        raise fail("E602", message, mask.span, help="draw some: `key=jax.random.key(0), n_masks=1`")
    drawn = masks_per_row(mask, "all" if n_masks is None else n_masks)
    _verify(lowered, mask, params)
    masks = None
    if drawn is not None:
        assert key is not None
        if mask.is_adaptive:
            verify_untraced(codes, "x")  # Masks that look at x are drawn from its values.
        masks = _drawn(host, named, params, np.zeros(codes.shape, np.int32) if is_traced(codes) else known, drawn, key)
    if is_traced(codes):
        form, own = make_loss(host, device, mask, drawn, codes.shape[1]), None if masks is None else jnp.asarray(masks)
        return jnp.where((codes < 0).any(axis=0), jnp.nan, complete_rows(form, params, jnp.maximum(codes, 0), own))
    kinds = sort_rows(host, mask, name, codes, masks, impute=False)
    own = None if masks is None else masks[:, :, kinds.complete]
    verify_blocks(host, device, params, mask, known[:, kinds.complete], own)
    form, parts = make_loss(host, device, mask, drawn, len(kinds.complete)), []
    if len(kinds.complete):
        rows = known[:, kinds.complete], own
        cost = form.row_terms(1 if masks is None else len(masks), 1 if masks is None else masks.shape[1])
        parts.append((kinds.complete, over_rows(lambda some: complete_rows(form, params, *some), rows, params, cost)))
    if len(kinds.summed):
        parts.append((kinds.summed, _summed(host, device, codes, kinds, params)))
    return placed(codes.shape[1], parts)


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


def _row_weights(weights: Any, losses: AnyArray) -> AnyArray:
    if is_traced(weights):
        return weights.astype(losses.dtype)
    return np.asarray(verified_weights(weights, losses.shape[0]), losses.dtype)
