"""A program with its numbers: its inputs, and the sizes, members and labels of its sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import overload

import numpy as np

from .._diagnostics import Diagnostic, fail, listed
from .._types import Label
from ..program import Program, Scale, ir, names_in
from ._constants import constant, listed_turns, whole
from ._content import digest
from ._graph_arrays import GraphArrays
from .limits import MOST_MEMBERS

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Bound:
    """A program with its numbers.

    Two bound programs are equal if their texts, inputs and coordinates are equal.

    Attributes:
        program: the checked program.
        inputs: int64 or float64 arrays by name. Letters and labels are stored as codes.
        lengths: the lengths of axes that inputs name.
        graphs: the arrays of each graph.
        coords: labels by index set.
        notes: diagnostics that depend on the numbers (W825).
        allow_python: whether functions of Python that the program names may be imported and run.
    """

    program: Program
    inputs: dict[str, Array]
    lengths: dict[str, int]
    graphs: dict[str, GraphArrays] = field(default_factory=dict)
    coords: dict[str, tuple[Label, ...]] = field(default_factory=dict)
    notes: tuple[Diagnostic, ...] = ()
    allow_python: bool = False

    @cached_property
    def digest(self) -> bytes:
        """The digest of texts, inputs and coordinates, which determine the rest; computed once."""
        return digest((tuple(s.text for s in self.program.sources), self.inputs, self.coords, self.allow_python))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Bound) and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def integer(self, e: ir.Expression) -> int:
        """Return the value of a constant integer expression."""
        return int(whole(constant(e, self), True, e))

    def number(self, e: ir.Expression) -> float:
        """Return the value of a constant expression."""
        return float(constant(e, self))

    def table(self, e: ir.Expression) -> Array:
        """Return the numbers of a written-out table, nested as its lists are.

        For any other constant expression, return its value as an array without axes.
        """
        if not isinstance(e, ir.Table):
            return np.asarray(self.number(e))
        return np.stack([self.table(item) for item in e.items]) if e.items else np.zeros(0)

    def axes(self, name: str) -> tuple[ir.SetOf, ...]:
        """Return the set of each axis of an input.

        An axis that is declared by a size alone is a range with the name of the axis.
        """
        return tuple(a.over or ir.SetOf(a.span, "range", a.name, a.size) for a in self.program.inputs[name].axes)

    def set_size(self, s: ir.SetOf) -> int:
        """Return the number of members of a set."""
        if s.is_looked_up:
            return len(self.members(s)[0])
        if s.kind == "graph":
            return len(self.graphs[s.graph].part(s.part))
        if s.domain is not None:
            return self.domain_size(s.domain)
        assert s.size is not None
        size = self.integer(s.size)
        if not 1 <= size <= MOST_MEMBERS:
            limit = "less than 1" if size < 1 else f"more than {MOST_MEMBERS:,}"
            message = f"index set `{s.name}` has {size:,} members, {limit}"
            raise fail("E406", message, s.span, f"size {size}", help=sizes_help(s.size, size))
        return size

    def members(self, s: ir.SetOf) -> list[Array]:
        """Return the values that each index name of a set takes, one array per name.

        Domains are enumerated by their codes and rows by their numbers.
        """
        if s.clauses is not None:
            names, _ = listed_turns(s.clauses, self)
            return [names[n] for loop in s.clauses.loops for n in loop.names]
        if s.kind == "graph" and s.arity > 1:
            return [*self.graphs[s.graph].part(s.part).T]
        if s.start is not None:
            assert s.size is not None
            start, stop = self.integer(s.start), self.integer(s.size)
            if not (start < stop and max(abs(start), abs(stop)) <= MOST_MEMBERS):
                label = "empty" if start >= stop else "too large"
                raise fail("E406", f"index set `{s.name}` runs from {start:,} to {stop - 1:,}", s.span, label)
            return [np.arange(start, stop)]
        return [np.arange(self.set_size(s))]

    def domain_size(self, d: ir.Domain) -> int:
        """Return the number of values of a cell."""
        if d.labels:
            return len(d.labels)
        if d.scale is not None and d.scale.size is not None:
            return d.scale.size
        if d.of is not None:
            return self.set_size(d.of)
        assert d.size is not None
        size = self.integer(d.size)
        if not 1 <= size <= 1 << 20:
            message = f"this domain has {size:,} values, {'less than 1' if size < 1 else f'more than {1 << 20:,}'}"
            raise fail("E406", message, d.span, f"size {size}", help=sizes_help(d.size, size))
        return size

    def labels(self, s: ir.SetOf) -> tuple[Label, ...]:
        """Return the coordinates of a set's members, for tables and ArviZ."""
        if s.name in self.coords:
            return self.coords[s.name]
        if s.domain is not None:
            return self.domain_labels(s.domain)
        if s.is_looked_up:
            members = self.members(s)
            return tuple(members[0].tolist() if len(members) == 1 else (", ".join(map(str, m)) for m in zip(*members, strict=True)))
        if s.kind == "graph":
            names = self.node_labels(s.graph)
            if s.part == "nodes":
                return names
            if s.part in ("edges", "arcs"):
                others = self.right_labels(s.graph) if self.graphs[s.graph].bipartite else names
                return tuple(f"{names[i]}, {others[j]}" for i, j in self.graphs[s.graph].part(s.part).tolist())
        return tuple(range(self.set_size(s)))

    def node_labels(self, graph: str) -> tuple[Label, ...]:
        """Return the coordinates of a graph's nodes.

        These are the graph's own, else those of the index set over which it is built, else numbers.
        """
        if f"{graph}.nodes" in self.coords:
            return self.coords[f"{graph}.nodes"]
        arguments = self.program.graphs[graph].arguments
        over = arguments.get("nodes") or arguments.get("n") or arguments.get("a")
        if isinstance(over, ir.SetOf) and "m" not in arguments:
            return self.labels(over)
        return tuple(range(self.graphs[graph].n))

    def right_labels(self, graph: str) -> tuple[Label, ...]:
        """Return the coordinates of a bipartite graph's right nodes."""
        over = self.program.graphs[graph].arguments["b"]
        return self.labels(over) if isinstance(over, ir.SetOf) else tuple(range(self.graphs[graph].n_right))

    def domain_labels(self, d: ir.Domain) -> tuple[Label, ...]:
        """Return the values of a cell as users write them."""
        if d.labels or d.of is not None:
            return d.labels or self.labels(d.of)  # pyright: ignore[reportArgumentType]
        scale = self.scale(d)
        return tuple(range(self.domain_size(d))) if scale is None else scale.numbers

    def scale(self, d: ir.Domain) -> Scale | None:
        """Return the number of each code of a domain; None for letters, labels and real numbers."""
        if d.scale is None:
            return None
        return replace(d.scale, first=d.scale.first if d.start is None else self.integer(d.start), size=self.domain_size(d))


def sizes_help(e: object, size: int = 0) -> str:
    """Return the suggested fix for a size that is out of bounds.

    The size either follows from inputs or is written in the text.
    """
    inputs = sorted(names_in(e).outer)
    bound = "smaller" if size >= 1 else "larger"
    return f"it follows from {listed(inputs)}: bind a {bound} value" if inputs else f"write a {bound} size"


class Labels(Sequence[Label]):
    """A sequence that computes the labels of a set when the first one is read.

    A million edges need no names to be fitted.
    """

    def __init__(self, bound: Bound, over: ir.SetOf, length: int):
        self._bound, self._over, self._length = bound, over, length

    @property
    def unnamed(self) -> Labels:
        """The labels that the set has without the `coords` of the program."""
        return Labels(replace(self._bound, coords={}), self._over, self._length)

    @cached_property
    def _found(self) -> tuple[Label, ...]:
        return self._bound.labels(self._over)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Label: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Label]: ...

    def __getitem__(self, place: int | slice) -> Label | Sequence[Label]:
        return self._found[place]

    def __iter__(self) -> Iterator[Label]:
        return iter(self._found)


def lazy_labels(bound: Bound, over: ir.SetOf) -> Labels:
    """Return the labels of a bound set."""
    return Labels(bound, over, bound.set_size(over))
