"""A probe: one linear layer on the last layer's state at the last cell of a prefix, which the network itself does not learn from."""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import Array, Float


class Probe(eqx.Module):
    """P(prefix is good) = sigmoid(weight . state + bias).

    Reference: Alain and Bengio 2017 (linear classifiers on frozen layers).
    """

    weight: Float[Array, " width"]
    bias: Float[Array, ""]

    def __call__(self, states: Float[Array, "*rows width"]) -> Float[Array, "*rows"]:
        """The probability of each row."""
        return jax.nn.sigmoid(states @ self.weight + self.bias)

    def log(self, states: Float[Array, "*rows width"]) -> Float[Array, "*rows"]:
        """The logarithm of the probability, which may be below what a number of its type can hold."""
        return jax.nn.log_sigmoid(states @ self.weight + self.bias)
