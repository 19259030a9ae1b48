"""Outputs of a network that do not define a distribution: nan, +infinity, or only -infinity.

A cell that would be drawn from such outputs gets the code `UNDEFINED` and keeps it. A compiled loop
therefore tests nothing; the code that takes the results from the device checks them once.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._diagnostics import GmlmError, fail
from ._network import reducible

UNDEFINED = -1
CURE = (
    "its weights are too large, or not finite: the `reason` of its fit says whether training diverged; go back to an earlier "
    "checkpoint, or train again with a smaller learning rate or a smaller `clip`. A network of your own must put out finite numbers, "
    "-infinity at some values aside"
)


def has_no_distribution(logits: Float[Array, "*shape values"]) -> Bool[Array, "*shape"]:
    """Return whether logits do not define a distribution, that is, their maximum is not finite.

    nan counts as larger than every number.
    """
    values, axis = reducible(logits)
    return ~jnp.isfinite(values.max(axis=axis))


def undefined_outputs(network: str, where: str) -> GmlmError:
    """Return E747, the error for a network or other oracle whose outputs define no distribution.

    `where` names the place in the message.
    """
    message = f"{network} puts out nan, or other numbers that are no log probabilities, {where}: nothing can be drawn from them"
    return fail("E747", message, help=CURE)
