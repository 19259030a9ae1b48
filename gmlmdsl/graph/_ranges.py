"""Bounds on the values of a tree by interval arithmetic.

They are quick to compute and never too narrow, but sometimes too wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..program import OPERATORS
from ._arithmetic import CONDITIONS
from ._factor_graph import FactorGraph, FactorGroup
from ._graph_variables import GivenArray
from .limits import MOST_RANGE
from .nodes import Add, Apply, CellValue, Column, Constant, Gather, If, Node, parts_of

Range = tuple[float, float]


def range_of(
    group: FactorGroup, most_values: int, params: Mapping[str, np.ndarray] | None = None, node: Node | None = None
) -> Range | None:
    """Return bounds on the values of a group's tree, or of a part of it.

    The result is None if a value may be infinite, undefined or above 1e37.

    Args:
        group: the group.
        most_values: the largest number of values of a cell.
        params: parameters. Without them, parts that mention a parameter have no bounds.
        node: the part; None for the whole tree.
    """
    return _Bounds(group, most_values, params).range_of(group.root if node is None else node)


def ranges_of(group: FactorGroup, most_values: int, nodes: Iterable[Node]) -> list[Range | None]:
    """Return the bounds, as `range_of` does, of many parts of a tree that mention no parameter.

    Each part is visited once.
    """
    bounds = _Bounds(group, most_values, None)
    return [bounds.range_of(n) for n in nodes]


def is_positive(graph: FactorGraph, params: Mapping[str, np.ndarray]) -> bool:
    """Return whether bounds alone show that every configuration has a positive probability.

    This requires that the graph has no requirement and that no factor is infinite.
    """
    most, total = int(graph.sizes.max(initial=1)), 0.0
    for group in graph.groups:
        found = range_of(group, most, params) if group.n and group.kind != "require" else None
        if group.n and found is None:
            return False
        total += group.n * max(map(abs, found or (0.0,)))
    return total <= MOST_RANGE


class _Bounds:
    def __init__(self, group: FactorGroup, most_values: int, params: Mapping[str, np.ndarray] | None):
        self.group, self.most_values, self.params = group, most_values, params
        # Nodes are known by their identity; the group keeps them alive.
        self.known: dict[int, Range | None] = {}

    def range_of(self, n: Node) -> Range | None:
        if id(n) not in self.known:
            self.known[id(n)] = self.found(n)
        return self.known[id(n)]

    def found(self, n: Node) -> Range | None:
        match n:
            case Constant():
                return _checked(float(n.value), float(n.value))
            case Column():
                return _ends(self.group.columns[n.k])
            case CellValue():
                low, high = n.scale.ends if n.scale.size is not None else (n.scale.first, n.scale.values_of(self.most_values - 1))
                return float(low), float(high)
            case Gather():
                return self.entry(n)
            case _:
                parts = [self.range_of(p) for p in parts_of(n)]
                return None if None in parts else self.made(n, parts)  # type: ignore[arg-type]

    def entry(self, n: Gather) -> Range | None:
        if n.name:
            return None if self.params is None else _ends(self.params[n.name])
        given = None if self.group.given is None or self.group.given.rows else self.group.given.arrays[n.table]
        return _ends(self.group.tables[n.table]) if given is None else _declared(given)

    def made(self, n: Node, parts: list[Range]) -> Range | None:
        """Return the bounds of a node from the bounds of its parts."""
        match n:
            case Apply():
                return _applied(n.operator, parts)
            case If():
                _, yes, no = parts
                return min(yes[0], no[0]), max(yes[1], no[1])
            case Add():
                (low, high), times = parts[0], _terms(self.group, n)
                if n.operator != "+":
                    return _reduced(n.operator, low, high, times)
                return _checked(min(0.0, times * low), max(0.0, times * high))
            case _:  # A `Pick` takes one of the values of its body.
                return min(0.0, parts[1][0]), max(0.0, parts[1][1])


def _reduced(operator: str, low: float, high: float, times: int) -> Range | None:
    if operator == "*":
        try:
            most = max(1.0, abs(low), abs(high)) ** times
        except OverflowError:
            return None
        return _checked(min(1.0, low) ** times if low >= 0 else -most, most)
    return _checked(low, high + (np.log(times) if operator == "logsumexp" else 0.0))


def _ends(array: np.ndarray) -> Range | None:
    return _checked(float(array.min()), float(array.max())) if array.size else (0.0, 0.0)


def _declared(v: GivenArray) -> Range | None:
    """Return the bounds of a given variable before its data are bound."""
    low, high = (v.lower, v.upper) if v.real else (v.first, v.values_of(len(v.labels) - 1))
    return _checked(float(low), float(high))


def _terms(group: FactorGroup, n: Add) -> int:
    assert isinstance(n.mask, Column)
    return group.columns[n.mask.k].shape[n.depth + 1]


def _checked(low: float, high: float) -> Range | None:
    return (low, high) if -MOST_RANGE <= low <= high <= MOST_RANGE else None


def _applied(operator: str, found: list[Range]) -> Range | None:
    if operator in CONDITIONS:
        return 0.0, 1.0
    try:
        ends = OPERATORS[operator].bounds(*found)
    except (ArithmeticError, ValueError):
        return None
    return None if ends is None else _checked(*ends)
