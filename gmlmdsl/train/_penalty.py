"""The penalty of a batch's loss: the sum of squares of the weights, and a user-defined function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from .._diagnostics import fail
from ..data import hash_of_computation
from ..derive import bounded_jit
from ..fit import Training
from ..networks import parameter_parts
from ._batches import Batch, Batches

if TYPE_CHECKING:
    from ..networks import AbstractNetwork

# This number is folded into a step's key; the keys of the rows are split from the same key.
OWN = 2**32 - 3


class RegulariserBatch(NamedTuple):
    """The batch that a regulariser receives.

    Attributes:
        x: codes, -1 for missing cells.
        given: the given arrays of the rows, in the order of their declarations.
        weights: the weight of each row in the loss; 0 for rows that only fill the batch up.
        key: a random key for this step and this use only.
    """

    x: Int[Array, "rows cells"]
    given: tuple[Array, ...]
    weights: Float[Array, " rows"]
    key: PRNGKeyArray


class Penalty(NamedTuple):
    """A penalty: l2 times the sum of squares of trained weights, plus a regulariser.

    The regulariser is a function of (network, batch).
    """

    l2: Array | None
    regulariser: Callable[[AbstractNetwork, RegulariserBatch], Array] | None

    def value(self, trainable: PyTree, network: AbstractNetwork, batch: PyTree, key: PRNGKeyArray) -> Array:
        """Evaluate the penalty.

        Args:
            trainable: the weights that are trained.
            network: the network with all its weights.
            batch: the arrays (codes, given, lengths, weights).
            key: the random key of the step.
        """
        total = jnp.zeros(())
        if self.l2 is not None:
            total = total + self.l2 * sum(jnp.square(a).sum() for a in jax.tree.leaves(trainable))
        if self.regulariser is not None:
            total = total + self.regulariser(network, _told(batch, key))
        return total


def _told(batch: PyTree, key: PRNGKeyArray) -> RegulariserBatch:
    codes, given, _, weights = batch
    return RegulariserBatch(codes.T, given, weights, jax.random.fold_in(key, OWN))


def penalty_of(t: Training) -> Penalty | None:
    """Return the penalty that the options define, or None if they define none."""
    if not t.l2 and t.regulariser is None:
        return None
    return Penalty(jnp.float32(t.l2) if t.l2 else None, t.regulariser)


def verified_penalty(penalty: Penalty | None, network: AbstractNetwork, batches: Batches) -> str | None:
    """Return the hash of the computation of a regulariser, or None without one.

    The regulariser is traced and never evaluated.

    Raises:
        GmlmError: E704 for a regulariser that raises an exception or does not return one real
            number.
    """
    if penalty is None or penalty.regulariser is None:
        return None
    b, chosen = batches.in_order()[0]
    batch: Batch = batches.batch(b, chosen)
    trainable, fixed = eqx.partition(network, eqx.is_inexact_array)
    regulariser = penalty.regulariser

    def value(weights: PyTree, data: PyTree, key: PRNGKeyArray) -> Array:
        return jnp.asarray(regulariser(eqx.combine(weights, fixed), _told(data, key)))

    arguments = trainable, jax.tree.map(jnp.asarray, batch[:4]), jax.random.key(0)
    try:
        found = jax.eval_shape(value, *arguments)
    except Exception as error:  # The user's function may raise any exception.
        help = "it is called as `regulariser(network, batch)`, with `batch.x`, `.given`, `.weights` and `.key`"
        raise fail("E704", f"Training: regulariser cannot be called: {type(error).__name__}: {error}", help=help) from error
    if found.shape != () or not jnp.issubdtype(found.dtype, jnp.floating):
        message = f"Training: regulariser must return one real number, returned {found.dtype} of shape {found.shape}"
        raise fail("E704", message, help="sum over the rows, say by `batch.weights @ ..`")
    return hash_of_computation(value, *arguments)


@bounded_jit
def _norms(network: AbstractNetwork) -> dict[str, Array]:
    return {part: jnp.sqrt(sum(jnp.square(a).sum() for a in leaves)) for part, leaves in parameter_parts(network).items()}


def parameter_norms(network: AbstractNetwork) -> dict[str, float]:
    """Return the square root of the sum of squares of each part's weights."""
    return {part: float(norm) for part, norm in _norms(network).items()}
