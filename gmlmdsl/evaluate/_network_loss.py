"""The loss of a network under a mask: the number of masks drawn, and the rows it is defined for."""

from __future__ import annotations

import numpy as np

from .._diagnostics import fail
from ..data import NetworkRows
from ..derive import NetworkLoss, noisy_mask, visit_law
from ..graph import Corruption, Lowered, lower_corruption
from ..masks import VisitMask, lower_mask
from ..program import ir

Array = np.ndarray


def mask_loss(
    lowered: Lowered, mask: ir.Mask, n_masks: int = 1, smoothing: float = 0.0, kind: str = "cross_entropy"
) -> tuple[NetworkLoss, Corruption]:
    """Return the loss of a network under a mask, and the mask's noise.

    Args:
        lowered: the model.
        mask: the mask.
        n_masks: the number of masks drawn for each row.
        smoothing: the label smoothing.
        kind: the kind of loss.

    Raises:
        GmlmError: E702 for a mask that mentions a parameter.
    """
    network = lowered.graph.network
    assert network is not None
    if mask.mentions_parameter:
        raise fail("E702", f"mask `{mask.name}` mentions a parameter: it may sample, not fit", mask.span, "mentions a parameter")
    found = lower_corruption(lowered.bound, mask.body)
    drawn = lower_mask(lowered, mask) if mask.body.is_visits else None
    law = visit_law(lowered, drawn) if isinstance(drawn, VisitMask) else noisy_mask(lowered, found)
    return NetworkLoss(law, network.label, n_masks, smoothing, kind=kind), found


def verified_count(n_masks: object) -> int:
    """Return the number of masks drawn for a row, by default 1.

    Raises:
        GmlmError: E507 for anything but a whole number above 0.
    """
    if n_masks is None:
        return 1
    if not isinstance(n_masks, int | np.integer) or isinstance(n_masks, bool) or n_masks < 1:
        raise fail("E507", f"n_masks must be a whole number above 0 or None, got {n_masks!r}")
    return int(n_masks)


def verify_known(mask: ir.Mask, lowered: Lowered, rows: NetworkRows) -> None:
    """Raise E511 if cells are missing, as padding too, under a mask that looks at x.

    The weights of such a mask have no value at missing cells.

    Raises:
        GmlmError: E511.
    """
    if lower_mask(lowered, mask).is_adaptive and (rows.codes[: lowered.graph.n_random] < 0).any():
        message = f"mask `{mask.name}` looks at x, and some cells of x are missing or padding"
        raise fail("E511", message, mask.span, "looks at x", help="take a mask that does not look at x, or rows of full length")
