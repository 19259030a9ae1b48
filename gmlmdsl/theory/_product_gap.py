"""The dependence inside a block, which a step that draws cells independently cannot represent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._types import Given
from ._block_dynamics import BlockDynamics, dynamics_of
from ._quantity import Quantity

if TYPE_CHECKING:
    from ..model import JointModel, Params

Array = np.ndarray


def product_gap(model: JointModel, params: Params, mask: str | None = None, *, given: Given | None = None) -> Quantity:
    """Return the divergence of a block's conditional from the product of its marginals, exactly.

    It is E KL(p(x_K | x_-K[, K]), the product over K of its single-cell marginals), in nats. The
    expectation is over x ~ p and K ~ p(K | x). It is 0 if no block's cells depend on one another
    given the rest. No decoder whose step is a product over cells is closer on average to the
    block's conditional.

    Args:
        model: the model; latents are summed out.
        params: parameters.
        mask: the mask's name.
        given: one row of data of given variables.

    Raises:
        GmlmError: E601, E602 if the enumeration is too large.

    Reference: Li et al. 2024, Proposition 3.
    """
    name, dynamics = dynamics_of(model, params, mask, "the product gap", given)
    return Quantity(product_gap_of(dynamics), "exact", f"product_gap({model.name}, mask={name!r})")


def product_gap_of(dynamics: BlockDynamics) -> float:
    """Return the product gap of block dynamics."""
    total = 0.0
    for block in dynamics:
        if len(block.axes) > 1:
            weight = dynamics.space.p * block.chance
            joint = block.conditional
            alive = (joint > 0) & (weight > 0)
            ratio = np.log(np.where(alive, joint, 1.0))
            for axis in block.axes:
                others = tuple(a for a in block.axes if a != axis)
                ratio = ratio - np.log(np.where(alive, joint.sum(axis=others, keepdims=True), 1.0))
            total += float((weight * np.where(alive, ratio, 0.0)).sum())
    return max(total, 0.0)
