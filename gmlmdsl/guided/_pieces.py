"""A compiled oracle in a loop of Python."""

from __future__ import annotations

from typing import Any

import equinox as eqx

from ..derive import bounded_jit


class Pieces(eqx.Module):
    """An oracle each of whose answers is one program, where every operation of it would be one.

    Attributes:
        oracle: of a model or of a causal network; none of the user's.
    """

    oracle: Any

    def start(self, prompts: Any) -> Any:
        """The state of rows that begin with prompts."""
        return _asked(self.oracle, "start", prompts)

    def next_log_probs(self, state: Any) -> Any:
        """log p(next symbol | prefix)."""
        return _asked(self.oracle, "next_log_probs", state)

    def push(self, state: Any, symbols: Any) -> Any:
        """The state with one symbol more."""
        return _asked(self.oracle, "push", state, symbols)

    def pop(self, state: Any, n: Any) -> Any:
        """The state without the last symbols."""
        return _asked(self.oracle, "pop", state, n)

    def features(self, state: Any) -> Any:
        """What a probe of a network reads."""
        return _asked(self.oracle, "features", state)

    def features_after(self, state: Any) -> Any:
        """The same behind each symbol more."""
        return _asked(self.oracle, "features_after", state)

    @property
    def machine(self) -> Any:
        """The tables of a model's oracle, whose scales a value divides by."""
        return self.oracle.machine

    def possible(self, state: Any) -> Any:
        """The log weight of all completions of each row, but for the scale of the row."""
        return _asked(self.oracle, "possible", state)

    def possible_after(self, state: Any) -> Any:
        """The same behind each symbol more."""
        return _asked(self.oracle, "possible_after", state)


@bounded_jit
def _asked(oracle: Any, question: str, *state: Any) -> Any:
    return getattr(oracle, question)(*state)
