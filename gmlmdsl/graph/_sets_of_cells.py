"""The sets whose members number the cells of a variable, to which the names of a table's columns belong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from ..program import Program, ir
from ._bound import Bound

NODES = ("nodes", "edges", "arcs")  # parts of a graph whose index names are nodes


def label_owner(program: Program, over: ir.SetOf) -> str | None:
    """Return the name under which `coords` has the labels of a set's members.

    It is the declared name of an index set, the text of a range without a name (`range(5)`), or
    `G.nodes` for the nodes and edges of a graph that is not built over a set. It is None for other
    sets, such as domains.
    """
    if over.kind == "range" or over.name in program.index_sets:
        return over.name
    if over.kind == "graph" and over.part in NODES and program.graphs[over.graph].form.name != "bipartite":
        return _owner_of_nodes(program, over.graph)
    return None


def _owner_of_nodes(program: Program, graph: str) -> str | None:
    arguments = program.graphs[graph].arguments
    over = arguments.get("nodes") or arguments.get("n") or arguments.get("a")
    if isinstance(over, ir.SetOf) and "m" not in arguments:
        return label_owner(program, over)
    return f"{graph}.nodes"


def unnamed_ranges(program: Program) -> dict[str, ir.SetOf]:
    """Return the ranges without a name over which the variables, parameters and graphs of a program stand, by their text."""
    models = program.models.values()
    axes = [a.over for m in models for v in (*m.variables.values(), *m.parameters.values()) for a in v.axes]
    nodes = [over for g in program.graphs.values() for over in g.arguments.values() if isinstance(over, ir.SetOf)]
    return {over.name: over for over in (*axes, *nodes) if over.kind == "range" and over.name not in program.index_sets}


def sets_of_cells(bound: Bound, model: ir.Model, variable: str) -> tuple[str, ...]:
    """Return the keys of `coords` whose labels are those of the cells of a variable with one axis.

    The set of the axis is one. A range without a name and the nodes of a graph are others if their
    index names stand for cells, as `i` and `j` in `J[i, j] * x[i] * x[j] for (i, j) in G.edges`.
    Sets without a name are left out if a parameter or another variable is read along them by
    something else than the index of a cell: five states and five cells may both be `range(5)`.

    Args:
        bound: the bound program.
        model: its checked model.
        variable: the name of the variable.
    """
    program, over = bound.program, model.variables[variable].axes[0].over
    if over.name not in program.index_sets and over.is_edges:
        return ()
    own, size = label_owner(program, over), bound.set_size(over)
    if own is None:
        return ()
    uses = list(_uses(model, variable))
    found = {label_owner(program, over) for use in uses for over in use.of_cells}
    others = {label_owner(program, axis) for use in uses for axis, index in use.indices if not use.is_cell(index)}
    sizes = {name: bound.set_size(over) for name, over in unnamed_ranges(program).items() if name in found}
    sizes |= {f"{g}.nodes": arrays.n for g, arrays in bound.graphs.items()}
    equal = sorted(name for name in sizes.keys() & found - others - {own} if sizes[name] == size)
    if own in others and own not in program.index_sets:
        return tuple(equal)
    return (own, *equal)


@dataclass(frozen=True)
class _Use:
    """The indices of one statement.

    Attributes:
        over: the set of each index name.
        names: the index names that are indices of the variable by themselves.
        reads: whether the statement mentions the variable.
        indices: the other indices, each with the set of its axis.
    """

    over: dict[str, ir.SetOf]
    names: frozenset[str]
    reads: bool
    indices: tuple[tuple[ir.SetOf, ir.Expression], ...]

    @property
    def of_cells(self) -> list[ir.SetOf]:
        """The sets whose index names are indices of the variable."""
        return [self.over[name] for name in self.names if name in self.over]

    def is_cell(self, index: ir.Expression) -> bool:
        """Return whether an index is the number of a cell, as far as the statement shows."""
        return isinstance(index, ir.IndexValue) and (not self.reads or index.name in self.names)


def _uses(model: ir.Model, variable: str) -> Iterator[_Use]:
    """Yield the indices of each statement; a `let` of cells counts as the cells that it reads."""
    positions: dict[str, tuple[int, ...]] = {variable: (0,)}
    for let in model.lets.values():
        use = _use(model, positions, [let.value], let.axes)
        names = [name for loop in let.axes for name in loop.names]
        if read := tuple(k for k, name in enumerate(names) if name in use.names):
            positions[let.name] = read
        yield use
    for factor in model.factors:
        yield _use(model, positions, [factor.value], factor.clauses.loops)
    for require in model.requires:
        yield _use(model, positions, [require.condition], require.clauses.loops)
    for law in model.distributed:
        yield _use(model, positions, [law.target, law.probabilities, *law.arguments], law.clauses.loops)


def _use(
    model: ir.Model, positions: Mapping[str, tuple[int, ...]], expressions: Iterable[ir.Expression], loops: tuple[ir.Loop, ...]
) -> _Use:
    parts = [part for e in expressions for part in ir.walk(e)]
    inner = [loop for part in parts if isinstance(part, ir.Sum) for loop in part.clauses.loops]
    over = {name: loop.over for loop in (*loops, *inner) for name in loop.names}
    mentions = [part for part in parts if isinstance(part, ir.VariableValue | ir.LetValue) and part.name in positions]
    read = [part.indices[k] for part in mentions for k in positions[part.name] if k < len(part.indices)]
    names = frozenset(index.name for index in read if isinstance(index, ir.IndexValue))
    declared = model.parameters | {name: v for name, v in model.variables.items() if name not in positions}
    others = [part for part in parts if isinstance(part, ir.VariableValue | ir.ParameterValue) and part.name in declared]
    indices = tuple(pair for part in others for pair in _by_axis(declared[part.name].axes, part.indices))
    return _Use(over, names, bool(mentions), indices)


def _by_axis(axes: tuple[ir.Loop, ...], indices: tuple[ir.Expression, ...]) -> Iterator[tuple[ir.SetOf, ir.Expression]]:
    """Yield the set of its axis with each index; an axis of edges has two."""
    ends = list(accumulate((len(axis.names) for axis in axes), initial=0))
    for axis, start, stop in zip(axes, ends, ends[1:], strict=False):
        for index in indices[start:stop]:
            yield axis.over, index
