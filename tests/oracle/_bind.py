"""Inputs, index sets, graphs and cells as plain numbers: a checked program with its data bound."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmlmdsl.program import ir

from ._expressions import Scope, evaluate, integer, turns


@dataclass(frozen=True)
class Graph:
    """`edges` and `arcs` are sorted; `two_sided` says that the ends of an edge are nodes of two different sets."""

    n_nodes: int
    edges: tuple[tuple[int, int], ...]
    two_sided: bool = False
    rows: tuple[tuple[int, ...], ...] = ()
    columns: tuple[tuple[int, ...], ...] = ()

    @property
    def arcs(self) -> tuple[tuple[int, int], ...]:
        """Every edge both ways."""
        return tuple(sorted({(i, j) for i, j in self.edges} | {(j, i) for i, j in self.edges}))

    @property
    def triangles(self) -> tuple[tuple[int, int, int], ...]:
        """Three nodes of which each two are joined."""
        joined = set(self.edges)
        third = range(self.n_nodes)
        return tuple((i, j, k) for i, j in self.edges for k in third if k > j and {(i, k), (j, k)} <= joined)

    def neighbours(self, node: int) -> tuple[int, ...]:
        """The nodes that are joined to one, ascending."""
        return tuple(j for i, j in self.arcs if i == node)


@dataclass(frozen=True)
class Axis:
    """One axis of an array: an index name or two, its members in order, and whether a pair may be named from either end."""

    names: tuple[str, ...]
    members: tuple
    unordered: bool
    over: ir.SetOf | None


@dataclass(frozen=True)
class Cellular:
    """A variable: its axes, its shape, its first position (`given`: none) and the value of each code (none where it is real)."""

    role: str
    axes: tuple[Axis, ...]
    shape: tuple[int, ...]
    start: int
    values: np.ndarray


class Bound:
    """A program with its inputs, and one of its models with its cells numbered.

    Args:
        program: the checked program.
        model: the model whose cells are numbered, or None.
        inputs: arrays and numbers by input name; the others take their defaults.
        given: codes or values of the `given` variables, one row.
    """

    def __init__(self, program: ir.Program, model: ir.Model | None, inputs: Mapping[str, object], given: Mapping[str, object]):
        self.program = program
        self.model = model
        self.inputs: dict[str, np.ndarray] = {}
        self.variables: dict[str, Cellular] = {}
        self.given: dict[str, np.ndarray] = {}
        self.parameters: dict[str, tuple[Axis, ...]] = {}
        self.lets: dict[str, tuple[Axis, ...]] = {}
        self._graphs: dict[str, Graph] = {}
        unknown = set(inputs) - set(program.inputs)
        if unknown:
            raise KeyError(f"unknown inputs {sorted(unknown)}")
        for name, declared in program.inputs.items():
            if name in inputs:
                self.inputs[name] = self._array(declared, inputs[name])
        for name, declared in program.inputs.items():
            if name not in inputs and declared.default is not None:
                value = evaluate(declared.default, Scope(self))
                if not isinstance(declared.default, ir.Table):
                    value = np.broadcast_to(value, [self._length(a) for a in declared.axes])
                self.inputs[name] = value
        for name, declared in program.inputs.items():
            if name in inputs and self.inputs[name].shape != (want := tuple(self._length(a) for a in declared.axes)):
                raise ValueError(f"input {name} must have shape {want}, got {self.inputs[name].shape}")
        if model is not None:
            self._number_cells(model, given)

    def _array(self, declared: ir.Input, value: object) -> np.ndarray:
        domain = declared.type.domain
        if domain is None:
            return np.asarray(value, dtype=float)
        return self.values(domain)[self.codes(domain, value)]

    def _number_cells(self, model: ir.Model, given: Mapping[str, object]) -> None:
        start = 0
        for name, v in model.variables.items():
            axes = tuple(self.axis(a) for a in v.axes)
            shape = tuple(len(a.members) for a in axes)
            real = v.domain.kind in ("real", "positive", "bounded")
            values = np.zeros(0) if real else self.values(v.domain)
            self.variables[name] = Cellular(v.role, axes, shape, start, values)
            if v.role == "given":
                if name in given:
                    number = np.asarray(given[name], dtype=float) if real else values[self.codes(v.domain, given[name])]
                    self.given[name] = number.reshape(math.prod(shape))
            else:
                start += math.prod(shape)
        self.n_cells = start
        self.parameters = {name: tuple(self.axis(a) for a in p.axes) for name, p in model.parameters.items()}
        self.lets = {name: tuple(self.axis(a) for a in let.axes) for name, let in model.lets.items()}

    # Numbers and sizes

    def _length(self, axis: ir.InputAxis) -> int:
        if axis.size is not None:
            return self.size(axis.size)
        return self.size(axis.over) if axis.over is not None else self.length(axis.name)

    def length(self, name: str) -> int:
        """The length that an axis of an input named."""
        owner, axis = self.program.lengths[name]
        return self.inputs[owner].shape[axis]

    def size(self, what: Any, names: Mapping[str, object] | None = None) -> int:
        """The number that an integer expression means, or the number of members of a set."""
        if isinstance(what, ir.SetOf):
            return len(self.members(what, names))
        return what if isinstance(what, int) else int(integer(evaluate(what, Scope(self, names=names or {}))))

    def flag(self, what: Any) -> bool:
        """A boolean option."""
        return what if isinstance(what, bool) else bool(evaluate(what, Scope(self)))

    # Domains

    def domain_size(self, domain: ir.Domain) -> int:
        """The number of values of a cell."""
        if domain.kind in ("spin", "bit"):
            return 2
        if domain.kind in ("letters", "labels"):
            return len(domain.labels)
        return self.size(domain.size if domain.of is None else domain.of)

    def values(self, domain: ir.Domain) -> np.ndarray:
        """What an expression sees for each code: numbers, and for letters and labels the code itself."""
        start = 0 if domain.start is None else integer(evaluate(domain.start, Scope(self)))
        return np.array([-1.0, 1.0]) if domain.kind == "spin" else np.arange(start, start + float(self.domain_size(domain)))

    def codes(self, domain: ir.Domain, value: object) -> np.ndarray:
        """Codes of values, labels or (letters and labels) codes."""
        array = np.asarray(value)
        if array.dtype.kind == "U":
            if domain.kind == "letters" and any(len(text) > 1 for text in array.ravel()):
                array = np.array([list(text) for text in array.ravel()]).reshape(*array.shape, -1)
            return np.vectorize(domain.labels.index, otypes=[int])(array)
        table = {v: k for k, v in enumerate(self.values(domain))}
        return np.vectorize(lambda v: table[float(v)], otypes=[int])(array)

    # Sets, axes and graphs

    def members(self, s: ir.SetOf, names: Mapping[str, object] | None = None) -> tuple:
        """The members in order: integers, pairs (edges, arcs) or tuples of nodes (rows, columns)."""
        if s.kind == "range":
            return tuple(range(0 if s.start is None else self.size(s.start, names), self.size(s.size, names)))
        if s.clauses is not None:
            own = [name for loop in s.clauses.loops for name in loop.names]
            chosen = [tuple(turn[name] for name in own) for turn in turns(s.clauses, Scope(self, names=names or {}))]
            return tuple(member[0] for member in chosen) if len(own) == 1 else tuple(chosen)
        if s.kind == "domain":
            assert s.domain is not None
            return tuple(range(self.domain_size(s.domain)))
        graph = self.graph(s.graph)
        if s.part == "neighbours":
            return graph.neighbours(self.size(s.size, names))
        return tuple(range(graph.n_nodes)) if s.part == "nodes" else getattr(graph, s.part)

    def axis(self, loop: ir.Loop) -> Axis:
        """The axis that a declaration's `i in site` means."""
        unordered = loop.over.part == "edges" and not self.graph(loop.over.graph).two_sided
        return Axis(loop.names, self.members(loop.over), unordered, loop.over)

    def input_axes(self, name: str) -> tuple[Axis, ...]:
        """The axes of an input."""

        def one(a: ir.InputAxis) -> Axis:
            if a.over is not None:
                return self.axis(ir.Loop(a.span, ("",) * a.over.arity, a.over))
            return Axis(("",), tuple(range(self._length(a))), False, None)

        return tuple(one(a) for a in self.program.inputs[name].axes)

    def graph(self, name: str) -> Graph:
        """The graph with its nodes numbered and its edges listed."""
        if name not in self._graphs:
            self._graphs[name] = self._build(self.program.graphs[name])
        return self._graphs[name]

    def _build(self, call: ir.FormCall) -> Graph:
        given: dict[str, Any] = call.arguments
        wrap = self.flag(given.get("wrap", False))
        match call.form.name:
            case "chain":
                n = self.size(given["n"])
                return Graph(n, unordered(_line(range(n), wrap)))
            case "grid":
                n, m = self.size(given["n"]), self.size(given["m"])
                if "axes" in given:
                    return _lattice((n, m, *(self.size(k) for k in given["axes"])), wrap)
                rows = tuple(tuple(r * m + c for c in range(m)) for r in range(n))
                columns = tuple(tuple(r * m + c for r in range(n)) for c in range(m))
                lines = itertools.chain.from_iterable(_line(line, wrap) for line in rows + columns)
                return Graph(n * m, unordered(lines), rows=rows, columns=columns)
            case "triangular":
                n, m = self.size(given["n"]), self.size(given["m"])
                steps = ((0, 1), (1, 0), (1, 1))
                ends = [((r, c), (r + a, c + b)) for r in range(n) for c in range(m) for a, b in steps]
                kept = [(p, q) for p, q in ends if wrap or (q[0] < n and q[1] < m)]
                return Graph(n * m, unordered((p[0] * m + p[1], q[0] % n * m + q[1] % m) for p, q in kept))
            case "complete":
                n = self.size(given["nodes"])
                return Graph(n, tuple(itertools.combinations(range(n), 2)))
            case "bipartite":
                a, b = self.size(given["a"]), self.size(given["b"])
                return Graph(a + b, tuple(itertools.product(range(a), range(b))), two_sided=True)
            case "edges":
                listed = [(int(i), int(j)) for i, j in self.inputs[given["pairs"]].reshape(-1, 2)]
                n = self.size(given["nodes"])
                if len(set(unordered(listed))) != len(listed) or any(not 0 <= k < n for pair in listed for k in pair):
                    raise ValueError("a repeated pair, or a node out of range")
                return Graph(n, unordered(listed))
        raise NotImplementedError(call.form.name)


def _lattice(lengths: tuple[int, ...], wrap: bool) -> Graph:
    """Places that differ by one step along one axis are joined."""
    places = list(itertools.product(*(range(length) for length in lengths)))
    number = {place: k for k, place in enumerate(places)}
    steps = [tuple(int(a == b) for b in range(len(lengths))) for a in range(len(lengths))]
    pairs = []
    for place, step in itertools.product(places, steps):
        other = tuple(p + s for p, s in zip(place, step, strict=True))
        if wrap:
            other = tuple(p % length for p, length in zip(other, lengths, strict=True))
        if other in number:
            pairs.append((number[place], number[other]))
    return Graph(len(places), unordered(pairs))


def _line(nodes: Sequence[int], wrap: bool) -> list[tuple[int, int]]:
    """Each node with the next, and the last with the first where the line is wrapped."""
    steps = list(itertools.pairwise(nodes))
    return [*steps, (nodes[-1], nodes[0])] if wrap else steps


def unordered(pairs) -> tuple[tuple[int, int], ...]:
    """The pairs as i < j, each once, sorted."""
    found = {(min(p), max(p)) for p in pairs}
    if any(i == j for i, j in found):
        raise ValueError("an edge from a node to itself")
    return tuple(sorted(found))
