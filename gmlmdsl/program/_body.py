"""A model while it is checked: `_check_models` fills it statement by statement, and `_check_networks` looks at it."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._diagnostics import Span
from ._program import Distributed, Factor, Let, NetworkConditional, Parameter, Require, Variable


@dataclass(slots=True)
class Body:
    """What has been read of a model so far."""

    name: str
    variables: dict[str, Variable] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    lets: dict[str, Let] = field(default_factory=dict)
    factors: list[Factor] = field(default_factory=list)
    requires: list[Require] = field(default_factory=list)
    distributed: list[Distributed] = field(default_factory=list)
    gauges: list[tuple[str, Span]] = field(default_factory=list)
    conditional: NetworkConditional | None = None
