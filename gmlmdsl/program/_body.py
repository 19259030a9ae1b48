"""Define the mutable content of a model during its check.

`_check_models` fills it statement by statement, and `_check_networks` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .._diagnostics import Span
from ._program import Distributed, Factor, Let, NetworkConditional, Parameter, PriorTerm, Require, Variable


@dataclass(slots=True)
class Component:
    """The terms that a model in use adds to log p as a component of a mixture."""

    factors: list[Factor] = field(default_factory=list)
    requires: list[Require] = field(default_factory=list)
    distributed: list[Distributed] = field(default_factory=list)

    def take(self, body: Body, marks: tuple[int, int, int]) -> None:
        """Move the terms that were added to a body since `marks` into this component.

        `marks` contains the earlier numbers of factors, requirements and distributions of the body.
        """
        for mine, whole, mark in zip(
            (self.factors, self.requires, self.distributed), (body.factors, body.requires, body.distributed), marks, strict=True
        ):
            mine += whole[mark:]  # type: ignore[arg-type]
            del whole[mark:]


@dataclass(slots=True)
class Body:
    """The part of a model that has been checked so far."""

    name: str
    variables: dict[str, Variable] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    lets: dict[str, Let] = field(default_factory=dict)
    factors: list[Factor] = field(default_factory=list)
    requires: list[Require] = field(default_factory=list)
    distributed: list[Distributed] = field(default_factory=list)
    gauges: list[tuple[str, Span]] = field(default_factory=list)
    conditional: NetworkConditional | None = None
    priors: list[PriorTerm] = field(default_factory=list)
    # the components of mixtures, by the name of the model in use
    components: dict[str, Component] = field(default_factory=dict)
