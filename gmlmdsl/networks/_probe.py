"""A probe: one linear layer on the last layer's state at the last cell of a prefix.

The network itself is not trained through the probe.
"""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import Array, Float


class Probe(eqx.Module):
    """The model P(prefix is good) = sigmoid(weight . state + bias).

    Reference: Alain and Bengio 2017 (linear classifiers on frozen layers).
    """

    weight: Float[Array, " width"]
    bias: Float[Array, ""]

    def __call__(self, states: Float[Array, "*rows width"]) -> Float[Array, "*rows"]:
        """Return the probability of each row."""
        return jax.nn.sigmoid(states @ self.weight + self.bias)

    def log(self, states: Float[Array, "*rows width"]) -> Float[Array, "*rows"]:
        """Return the logarithm of the probability, even if the probability itself underflows."""
        return jax.nn.log_sigmoid(states @ self.weight + self.bias)
