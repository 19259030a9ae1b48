"""A compiled oracle for a loop in Python."""

from __future__ import annotations

from typing import Any

import equinox as eqx

from ..derive import bounded_jit


class Pieces(eqx.Module):
    """An oracle whose methods are compiled each as one program, instead of operation by operation.

    Attributes:
        oracle: the oracle of a model or of a causal network, never a user-defined one.
    """

    oracle: Any

    def start(self, prompts: Any) -> Any:
        """Return the state of rows that begin with prompts."""
        return _asked(self.oracle, "start", prompts)

    def next_log_probs(self, state: Any) -> Any:
        """Return log p(next symbol | prefix)."""
        return _asked(self.oracle, "next_log_probs", state)

    def push(self, state: Any, symbols: Any) -> Any:
        """Return the state with a further symbol in each row."""
        return _asked(self.oracle, "push", state, symbols)

    def pop(self, state: Any, n: Any) -> Any:
        """Return the state without the last symbols of each row."""
        return _asked(self.oracle, "pop", state, n)

    def features(self, state: Any) -> Any:
        """Return the features that a probe of a network reads."""
        return _asked(self.oracle, "features", state)

    def features_after(self, state: Any) -> Any:
        """Return these features after each further symbol."""
        return _asked(self.oracle, "features_after", state)

    @property
    def machine(self) -> Any:
        """The tables of a model's oracle, whose scales a value divides by."""
        return self.oracle.machine

    def possible(self, state: Any) -> Any:
        """Return the log weight of all completions of each row, up to the scale of the row."""
        return _asked(self.oracle, "possible", state)

    def possible_after(self, state: Any) -> Any:
        """Return this log weight after each further symbol."""
        return _asked(self.oracle, "possible_after", state)


@bounded_jit
def _asked(oracle: Any, question: str, *state: Any) -> Any:
    return getattr(oracle, question)(*state)
