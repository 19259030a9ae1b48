"""A compiled oracle for a loop in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx

from ..derive import bounded_jit

if TYPE_CHECKING:
    import jax
    from jaxtyping import PyTree


class Pieces(eqx.Module):
    """An oracle whose methods are compiled each as one program, instead of operation by operation.

    Attributes:
        oracle: the oracle of a model or of a causal network, never a user-defined one.
    """

    oracle: Any

    def start(self, prompts: jax.Array) -> PyTree:
        """Return the state of rows that begin with prompts."""
        return _asked(self.oracle, "start", prompts)

    def next_log_probs(self, state: PyTree) -> jax.Array:
        """Return log p(next symbol | prefix)."""
        return _asked(self.oracle, "next_log_probs", state)

    def push(self, state: PyTree, symbols: jax.Array) -> PyTree:
        """Return the state with a further symbol in each row."""
        return _asked(self.oracle, "push", state, symbols)

    def pop(self, state: PyTree, n: jax.Array) -> PyTree:
        """Return the state without the last symbols of each row."""
        return _asked(self.oracle, "pop", state, n)

    def features(self, state: PyTree) -> jax.Array:
        """Return the features that a probe of a network reads."""
        return _asked(self.oracle, "features", state)

    def features_after(self, state: PyTree) -> jax.Array:
        """Return these features after each further symbol."""
        return _asked(self.oracle, "features_after", state)

    @property
    def machine(self) -> PyTree:
        """The tables of a model's oracle, whose scales a value divides by."""
        return self.oracle.machine

    def possible(self, state: PyTree) -> jax.Array:
        """Return the log weight of all completions of each row, up to the scale of the row."""
        return _asked(self.oracle, "possible", state)

    def possible_after(self, state: PyTree) -> jax.Array:
        """Return this log weight after each further symbol."""
        return _asked(self.oracle, "possible_after", state)


@bounded_jit
def _asked(oracle: Any, question: str, *state: PyTree) -> PyTree:
    return getattr(oracle, question)(*state)
