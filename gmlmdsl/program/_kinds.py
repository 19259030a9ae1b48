"""Define the kind of an expression.

An expression is a number, a condition, a value of a label domain, or unknown after a fault.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._scales import sized
from ._terms import Domain


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of an expression.

    Attributes:
        tag: number, condition, label (of `domain`), open (a row of probabilities) or error.
        domain: the domain of a label or of a cell's value.
        integer: whether it is a whole number.
        spin: whether it is -1 or +1. A spin is not an index.
        plain: whether it is the value of one cell, of `domain`.
    """

    tag: str
    domain: Domain | None = None
    integer: bool = False
    spin: bool = False
    plain: bool = False

    @property
    def numeric(self) -> bool:
        """Whether arithmetic accepts it.

        Conditions count as 1 and 0, and unknown kinds are accepted.
        """
        return self.tag in ("number", "condition", "error")

    @property
    def words(self) -> str:
        """The name of the kind in messages."""
        if self.tag == "label" and self.domain is not None:
            return f"a value of `{self.domain.name}`" if self.domain.name else f"one of {self.domain.kind}(..)"
        if self.plain and self.domain is not None and self.domain.kind in sized():
            return f"a {self.domain.kind}"
        return {"number": "a number", "condition": "a condition", "open": "an array", "label": "a label"}.get(self.tag, "unknown")

    @property
    def cure(self) -> str:
        """The help if a number is expected instead."""
        if self.tag == "open":
            return "give an index for every axis"
        label = self.domain.labels[0] if self.domain is not None and self.domain.labels else "A"
        return f'compare it, as in `x == "{label}"`, or index an array over its domain' if self.tag == "label" else ""


NUMBER = Kind("number")
INTEGER = Kind("number", integer=True)
CONDITION = Kind("condition", integer=True)
OPEN = Kind("open")
ERROR = Kind("error", integer=True)


def kind_of(domain: Domain) -> Kind:
    """Return the kind of a cell's value."""
    if domain.real:
        return NUMBER
    if domain.ordered:
        return Kind("number", domain, integer=True, spin=domain.scale is not None and domain.scale.step != 1, plain=True)
    return Kind("label", domain, plain=True)


def same_domain(a: Domain | None, b: Domain | None) -> bool:
    """Return whether two label domains have the same values in the same order."""
    return a is not None and b is not None and (a.kind, a.labels) == (b.kind, b.labels)
