"""What is added to the loss of a batch: the squares of the weights, and a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._diagnostics import fail
from ..derive import bounded_jit
from ..fit import Training
from ..networks import parameter_parts
from ._batches import Batch, Batches
from ._run_identity import traced

OWN = 2**32 - 3  # folded into a step's key: the rows' keys are parts of the same one


class RegulariserBatch(NamedTuple):
    """What a regulariser is told of a batch.

    Attributes:
        x: codes, -1 where they are missing.
        given: the given arrays of the rows, in the order of their declarations.
        weights: of the rows in the loss; 0 of those that fill the batch up.
        key: of this step and this use alone.
    """

    x: Int[Array, "rows cells"]
    given: tuple[Array, ...]
    weights: Float[Array, " rows"]
    key: PRNGKeyArray


class Penalty(NamedTuple):
    """l2 times the sum of squares of the weights that are trained, plus a regulariser of (network, batch)."""

    l2: Any
    regulariser: Callable[[Any, Any], Any] | None

    def value(self, trainable: Any, network: Any, batch: Any, key: Any) -> Any:
        """Of the weights that are trained, the network with the others too, and (codes, given, lengths, weights)."""
        total = jnp.zeros(())
        if self.l2 is not None:
            total = total + self.l2 * sum(jnp.square(a).sum() for a in jax.tree.leaves(trainable))
        if self.regulariser is not None:
            total = total + self.regulariser(network, _told(batch, key))
        return total


def _told(batch: Any, key: Any) -> RegulariserBatch:
    codes, given, _, weights = batch
    return RegulariserBatch(codes.T, given, weights, jax.random.fold_in(key, OWN))


def penalty_of(t: Training) -> Penalty | None:
    """Of the options; None where nothing is added."""
    if not t.l2 and t.regulariser is None:
        return None
    return Penalty(jnp.float32(t.l2) if t.l2 else None, t.regulariser)


def verified_penalty(penalty: Penalty | None, network: Any, batches: Batches) -> str | None:
    """What a regulariser computes, as a hash; None where there is none. Nothing is computed.

    Raises:
        GmlmError: E704 for one that fails, or returns anything but one real number.
    """
    if penalty is None or penalty.regulariser is None:
        return None
    b, chosen = batches.in_order()[0]
    batch: Batch = batches.batch(b, chosen)
    trainable, fixed = eqx.partition(network, eqx.is_inexact_array)
    regulariser = penalty.regulariser

    def value(weights: Any, data: Any, key: Any) -> Any:
        return jnp.asarray(regulariser(eqx.combine(weights, fixed), _told(data, key)))

    arguments = trainable, jax.tree.map(jnp.asarray, batch[:4]), jax.random.key(0)
    try:
        found = jax.eval_shape(value, *arguments)
    except Exception as error:  # it is the user's, and may fail in any way
        help = "it is called as `regulariser(network, batch)`, with `batch.x`, `.given`, `.weights` and `.key`"
        raise fail("E704", f"Training: regulariser cannot be called: {type(error).__name__}: {error}", help=help) from error
    if found.shape != () or not jnp.issubdtype(found.dtype, jnp.floating):
        message = f"Training: regulariser must return one real number, returned {found.dtype} of shape {found.shape}"
        raise fail("E704", message, help="sum over the rows, say by `batch.weights @ ..`")
    return traced(value, *arguments)


@bounded_jit
def _norms(network: Any) -> dict[str, Any]:
    return {part: jnp.sqrt(sum(jnp.square(a).sum() for a in leaves)) for part, leaves in parameter_parts(network).items()}


def parameter_norms(network: Any) -> dict[str, float]:
    """The root of the sum of squares of each part's weights."""
    return {part: float(norm) for part, norm in _norms(network).items()}
