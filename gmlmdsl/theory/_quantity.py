"""A number with its kind, such as exact or estimated."""

from __future__ import annotations

from typing import Literal

import numpy as np

Kind = Literal["exact", "lower bound", "upper bound", "estimate", "measured"]


class Quantity(np.float64):
    """A float64 with its kind; arithmetic gives plain numbers.

    Attributes:
        kind: exact (up to rounding), a certified lower or upper bound, an estimate with a standard
            error, or measured on this machine.
        source: the call that makes it.
        error: the standard error of an estimate or a measurement; nan without one.
        note: further information for the reader; may be empty.
    """

    kind: Kind
    source: str
    error: float
    note: str

    def __new__(cls, value: float, kind: Kind, source: str, error: float = float("nan"), note: str = "") -> Quantity:
        """Create a number of a kind."""
        self = super().__new__(cls, value)
        self.kind, self.source, self.error, self.note = kind, source, error, note
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """Return the constructor and its arguments, so that pickles keep the kind."""
        return Quantity, (float(self), self.kind, self.source, self.error, self.note)

    def __repr__(self) -> str:
        spread = "" if np.isnan(self.error) else f" +- {self.error:.2g}"
        return f"{float(self):.10g}{spread} ({self.kind}: {self.source}{'; ' * bool(self.note)}{self.note})"

    def __str__(self) -> str:
        return f"{float(self):.10g}"
