"""Outputs of a network that give no distribution: nan, +infinity, or -infinity for every value.

A cell that should be drawn from such outputs gets the code `UNDEFINED` and keeps it, so that a
compiled loop tests nothing: whoever takes the codes from the device looks at them once.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._diagnostics import GmlmError, fail

UNDEFINED = -1
CURE = (
    "its weights are too large, or not finite: the `reason` of its fit says whether training diverged; go back to an earlier "
    "checkpoint, or train again with a smaller learning rate or a smaller `clip`. A network of your own must put out finite numbers, "
    "-infinity at some values aside"
)


def has_no_distribution(logits: Float[Array, "*shape values"]) -> Bool[Array, "*shape"]:
    """Where logits are those of no distribution: the largest is no finite number, and nan is larger than all."""
    return ~jnp.isfinite(jnp.moveaxis(logits, -1, 0).max(axis=0))


def undefined_outputs(network: str, where: str) -> GmlmError:
    """The error for a network, or another oracle, whose outputs give no distribution at some place."""
    message = f"{network} puts out nan, or other numbers that are no log probabilities, {where}: nothing can be drawn from them"
    return fail("E747", message, help=CURE)
