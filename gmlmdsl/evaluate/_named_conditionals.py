"""Conditionals and losses asked for by name, with their faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import fail
from ..data import verified_key, verified_weights, verify_untraced
from ..derive.compiled import complete_rows, conditional_table, gap_rows, log_potential
from ..graph import Lowered, LoweredMask, is_adaptive, looked_at, verify_mask
from ..graph.masks import draws, support_size
from ..plan import BUDGET, plan_block, verify_affordable
from ..read import verify_unmasked
from ._completions import block_tables, log_completions
from ._missing import sort_rows, summed_loss, unknown_law, verify_latents
from ._objective import draw_masks, make_loss, masks_per_row

Params = Mapping[str, jax.Array]


def log_conditional(
    lowered: Lowered, params: Params, codes: np.ndarray, cells: Sequence[int] | int, mask: tuple[str, LoweredMask] | None
) -> jax.Array:
    """The table of one block for every row, shape (rows, values of each member..); see `Model.log_conditional`."""
    host = lowered.graph
    block = _block(lowered, cells)
    adaptive = mask is not None and is_adaptive(mask[1])
    plan = plan_block(host, block[0], corrected=True)
    verify_affordable(plan, "this conditional: a block", None)
    device = derive.graph_arrays(host)
    blocks = derive.fixed_blocks(host, block, () if mask is None else derive.weight_groups(mask[1]))
    law = None if mask is None else derive.mask_law(mask[1], host.n_cells)
    if mask is not None:
        _verify(lowered, mask[1], params)
        if not draws(mask[1], block[0], host.n_cells):
            names = ", ".join(host.cell_name(int(c)) for c in block[0])
            raise fail("E507", f"mask `{mask[0]}` never draws the block {{{names}}}", help="K must lie in the mask's support")
    rest = np.ones(host.n_cells, bool)
    rest[block[0]] = False
    gapped = (codes[rest] < 0).any(axis=0)
    lacking = (codes < 0) & rest[:, None]
    if mask is not None and adaptive and lacking[looked_at(mask[1], host.n_cells)].any():
        raise unknown_law(host, mask[1], mask[0], lacking)
    table = jnp.zeros((codes.shape[1], int(plan.values)), derive.float_type())
    if not gapped.all() or not gapped.size:
        whole = jnp.asarray(np.maximum(codes[:, ~gapped], 0))
        found = conditional_table(device, params, whole, blocks, law, adaptive).T
        table = table.at[np.flatnonzero(~gapped)].set(found)
    if gapped.any():
        found = block_tables(host, device, params, codes[:, gapped], block[0], law if adaptive else None)
        table = table.at[np.flatnonzero(gapped)].set(found)
    return table.reshape(codes.shape[1], *host.sizes[block[0]].tolist())


def _verify(lowered: Lowered, mask: LoweredMask, params: Params) -> None:
    if not any(isinstance(v, jax.core.Tracer) for v in params.values()):  # pyright: ignore[reportAttributeAccessIssue]
        verify_mask(mask, lowered.graph.sizes, {k: np.asarray(v) for k, v in params.items()})


def _block(lowered: Lowered, cells: Sequence[int] | int) -> np.ndarray:
    host = lowered.graph
    verify_untraced(cells, "K")
    verify_unmasked(cells, "K", "E507")
    try:
        members = np.sort(np.atleast_1d(np.asarray(cells)).ravel())
        whole = members.dtype.kind in "iu"
    except (TypeError, ValueError):
        members, whole = np.zeros(0), False
    if not whole or not len(members) or members[0] < 0 or members[-1] >= host.n_random or (np.diff(members) == 0).any():
        raise fail(
            "E507",
            f"K must be distinct positions from 0 to {host.n_random - 1}, got {cells!r}",
            help="`model.positions(name)` gives a variable's",
        )
    return members[None].astype(np.int32)


def loss(
    lowered: Lowered,
    mask: tuple[str, LoweredMask],
    params: Params,
    codes: np.ndarray,
    weights: Any,
    key: jax.Array | int | None,
    n_masks: int | None,
) -> jax.Array:
    """The mean loss of rows, -1 in `codes` where a cell is missing; see `Model.loss`."""
    verify_untraced(key, "key")
    losses = row_losses(lowered, mask, params, codes, verified_key(key), n_masks)
    if weights is None:
        return losses.mean()
    w = _row_weights(weights, losses)
    return jnp.where(w > 0, w * losses, 0.0).sum() / w.sum()


def row_losses(
    lowered: Lowered, named: tuple[str, LoweredMask], params: Params, codes: np.ndarray, key: jax.Array | None, n_masks: int | None
) -> jax.Array:
    """The loss of each row, inf where it is impossible; shape (rows,)."""
    host, device = lowered.graph, derive.graph_arrays(lowered.graph)
    name, mask = named
    rows = jnp.asarray(np.maximum(codes, 0))
    if codes.shape[1] == 0:
        raise fail("E505", "x has no rows")
    verify_latents(host, mask, name, codes, summed=True)
    if (key is None) != (n_masks is None):
        raise fail("E507", "`key=` and `n_masks=` go together: they draw masks instead of averaging over all")
    if key is None and support_size(mask) > BUDGET.support:
        message = f"this mask has {support_size(mask):.3g} distinct blocks, more than the limit of {BUDGET.support}"
        raise fail("E602", message, mask.span, help="draw some: `key=jax.random.key(0), n_masks=1`")
    drawn = masks_per_row(mask, "all" if n_masks is None else n_masks)
    masks = None
    if drawn is not None:
        assert key is not None
        masks = draw_masks(host, mask, rows, drawn, key)
    kinds = sort_rows(host, mask, name, codes, None if masks is None else np.asarray(masks), impute=False)
    form = make_loss(host, device, mask, drawn, len(kinds.complete))
    losses = jnp.zeros(codes.shape[1], derive.float_type())
    if len(kinds.complete):
        whole = len(kinds.complete) == codes.shape[1]
        here = rows if whole else rows[:, kinds.complete]
        chosen = masks if masks is None or whole else masks[:, :, kinds.complete]
        found, mass = complete_rows(form, params, here, chosen)
        impossible = log_potential(device, params, here) == -jnp.inf
        losses = losses.at[kinds.complete].set(jnp.where(impossible & (mass != 0), jnp.inf, found))
    gaps = summed_loss(host, device, codes, kinds)
    if gaps is not None:
        impossible = log_completions(host, device, params, codes[:, kinds.summed]) == -jnp.inf
        losses = losses.at[kinds.summed].set(jnp.where(impossible, jnp.inf, gap_rows(gaps, params)))
    return losses


def _row_weights(weights: Any, losses: jax.Array) -> jax.Array:
    if not isinstance(weights, jax.core.Tracer):  # pyright: ignore[reportAttributeAccessIssue]
        weights = verified_weights(weights, losses.shape[0])
    return jnp.asarray(weights, dtype=losses.dtype)
