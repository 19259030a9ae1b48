"""The parts of a checked program that statements are made of: expressions, sets, domains and loops.

Expressions keep the span they were written at, so that errors found later (a bound input, an index out of
range) still point into the text. Every name is resolved, every label replaced by its code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .._diagnostics import Span
from ._scales import SCALES, Scale


@dataclass(frozen=True, slots=True)
class Checked:
    """Anything with a place in the text."""

    span: Span = field(compare=False, repr=False)


# Expressions


@dataclass(frozen=True, slots=True)
class Literal(Checked):
    """A number, or a condition that is always true or false."""

    value: int | float | bool


@dataclass(frozen=True, slots=True)
class LabelCode(Checked):
    """A letter or label, as its 0-based place in its domain."""

    code: int
    label: str


@dataclass(frozen=True, slots=True)
class IndexValue(Checked):
    """The present value of a `for` or axis name; of a name that runs over a domain, the code."""

    name: str


@dataclass(frozen=True, slots=True)
class InputValue(Checked):
    """An entry of an input, or a length that an input's axis named; fewer indices than axes leave the last axis open."""

    name: str
    indices: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class ParameterValue(Checked):
    """An entry of a parameter; fewer indices than axes leave the last axis open."""

    name: str
    indices: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class VariableValue(Checked):
    """The value of a cell: a number for spin, bit and range, the code for letters and labels."""

    name: str
    indices: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class LetValue(Checked):
    """A `let` at given indices."""

    name: str
    indices: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation(Checked):
    """`operator` is `+ - * / // % ^ == != < <= > >= and or not`, `neg`, or a function's name; conditions count as 1 and 0."""

    operator: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Choice(Checked):
    """`if test then yes else no`."""

    test: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True)
class Sum(Checked):
    """`sum(body for .. if ..)`, or another reduction: `operator` is `+ * min max logsumexp`."""

    body: Expression
    clauses: Clauses
    operator: str = "+"


@dataclass(frozen=True, slots=True)
class Table(Checked):
    """`[0.2, 0.8]`, nested to any depth: the default of an input with axes, the probabilities of a cell; nowhere else."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class TableEntry(Checked):
    """An entry of a table that is written out; an index for each of its levels, counted from 0."""

    table: Table
    indices: tuple[Expression, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of its levels."""
        lengths, level = [], self.table
        for _ in self.indices:
            assert isinstance(level, Table)
            lengths.append(len(level.items))
            level = level.items[0]  # type: ignore[assignment]
        return tuple(lengths)

    @property
    def entries(self) -> tuple[Expression, ...]:
        """All entries, the last index fastest."""
        level: tuple[Expression, ...] = (self.table,)
        for _ in self.indices:
            level = tuple(item for part in level if isinstance(part, Table) for item in part.items)
        return level


@dataclass(frozen=True, slots=True)
class LogPartition(Checked):
    """log of the sum, over the values of all cells of `variables`, of exp of the factors where the requirements hold; `of`: its model."""

    factors: tuple[Any, ...]
    requires: tuple[Any, ...]
    variables: tuple[str, ...]
    of: str


Expression = (
    Literal
    | LabelCode
    | IndexValue
    | InputValue
    | ParameterValue
    | VariableValue
    | LetValue
    | Operation
    | Choice
    | Sum
    | Table
    | TableEntry
    | LogPartition
)


def children(e: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside `e` (of a `Sum`, the body, the condition and the sizes of what its loops run over)."""
    match e:
        case InputValue() | ParameterValue() | VariableValue() | LetValue():
            return e.indices
        case Operation():
            return e.operands
        case Table():
            return e.items
        case LogPartition():
            return tuple(part for f in e.factors for part in _parameters_in(f.value))
        case TableEntry():
            return (e.table, *e.indices)
        case Choice():
            return (e.test, e.yes, e.no)
        case Sum():
            sizes = [size for loop in e.clauses.loops for size in (loop.over.start, loop.over.size) if size is not None]
            return (e.body, *(() if e.clauses.condition is None else (e.clauses.condition,)), *sizes)
        case _:
            return ()


def _parameters_in(e: Expression) -> Iterator[Expression]:
    """The parameters in an expression of a model that is summed over: its cells are not mentioned outside."""
    for part in walk(e):
        if isinstance(part, ParameterValue):
            yield replace(part, indices=())


def walk(e: Expression) -> Iterator[Expression]:
    """`e` and every expression inside it; a `let` is not entered."""
    todo = [e]
    while todo:
        here = todo.pop()
        yield here
        todo.extend(reversed(children(here)))


def substitute(e: Expression, values: Mapping[str, Expression]) -> Expression:
    """`e` with index names replaced."""
    match e:
        case IndexValue():
            return values.get(e.name, e)
        case InputValue() | ParameterValue() | VariableValue() | LetValue():
            return replace(e, indices=tuple(substitute(i, values) for i in e.indices))
        case Operation():
            return replace(e, operands=tuple(substitute(o, values) for o in e.operands))
        case Choice():
            return replace(e, test=substitute(e.test, values), yes=substitute(e.yes, values), no=substitute(e.no, values))
        case Sum():
            return replace(e, body=substitute(e.body, values), clauses=substitute_in_clauses(e.clauses, values))
        case Table():
            return replace(e, items=tuple(substitute(i, values) for i in e.items))
        case TableEntry():
            table = substitute(e.table, values)
            return replace(e, table=table, indices=tuple(substitute(i, values) for i in e.indices))
    return e


def substitute_in_clauses(c: Clauses, values: Mapping[str, Expression]) -> Clauses:
    """Clauses with index names of what stands around them replaced."""
    loops = tuple(replace(loop, over=substitute_in_set(loop.over, values)) for loop in c.loops)
    return replace(c, loops=loops, condition=None if c.condition is None else substitute(c.condition, values))


def substitute_in_set(over: SetOf, values: Mapping[str, Expression]) -> SetOf:
    """A set with index names of what stands around it replaced."""
    start, size = (None if e is None else substitute(e, values) for e in (over.start, over.size))
    return replace(over, start=start, size=size)


# Sets, domains and loops


@dataclass(frozen=True, slots=True)
class SetOf(Checked):
    """A set that an index runs over.

    `kind` is `range` (size `size`), `domain` (the domain `domain`), or `graph` (`part` of the graph `graph`: nodes, edges,
    arcs, triangles, rows, columns, or the neighbours of the node `size`), or `turns` (the index values of `clauses`). A range may
    begin at `start`. `name` is the name it was declared under (`site`, `aa`), else how it is written (`G.edges`).
    """

    kind: str
    name: str
    size: Expression | None = None
    domain: Domain | None = None
    graph: str = ""
    part: str = ""
    start: Expression | None = None
    clauses: Clauses | None = None

    @property
    def arity(self) -> int:
        """How many index names one member takes: 2 for edges and arcs, 3 for triangles."""
        if self.clauses is not None:
            return sum(len(loop.names) for loop in self.clauses.loops)
        return {"edges": 2, "arcs": 2, "triangles": 3}.get(self.part, 1)

    @property
    def is_edges(self) -> bool:
        """Whether its members are edges or arcs."""
        return self.part in ("edges", "arcs")

    @property
    def is_looked_up(self) -> bool:
        """Whether the place of a member is looked up among all: it is no number counted from 0, and no edge."""
        return self.clauses is not None or self.start is not None or self.part == "triangles"

    @property
    def is_dependent(self) -> bool:
        """Whether its members depend on index names around it: a loop may run over it, nothing else."""
        sizes = [e for e in (self.start, self.size) if e is not None]
        return any(isinstance(part, IndexValue) for e in sizes for part in walk(e))

    def member(self, place: Expression) -> Expression:
        """What an index of this set is at a place among its members; of a domain, whose indices are codes, the place."""
        return place if self.start is None else Operation(place.span, "+", (place, self.start))

    @property
    def lists_cells(self) -> bool:
        """Whether a member is itself a set of nodes (rows, columns)."""
        return self.part in ("rows", "columns")


@dataclass(frozen=True, slots=True)
class Domain(Checked):
    """The values of a cell: `kind` is spin, bit, range, letters or labels, or real, positive or bounded.

    A range has `size` values, the first of which is `start`, 0 if that is None. Letters and labels
    have `labels`. A domain that was declared has a `name`. Only `given` cells are real, positive or
    bounded (`lower`, `upper`): their numbers come with each row.
    """

    kind: str
    name: str = ""
    labels: tuple[str, ...] = ()
    size: Expression | None = None
    of: SetOf | None = None  # an index set used as a type
    lower: Expression | None = None
    upper: Expression | None = None
    start: Expression | None = None

    @property
    def scale(self) -> Scale | None:
        """Which number each code stands for, but for `start`; None if the values are no whole numbers."""
        return SCALES.get(self.kind)

    @property
    def ordered(self) -> bool:
        """Whether the values are numbers."""
        return self.scale is not None or self.real

    @property
    def count(self) -> int | None:
        """The number of values, if the text alone says it."""
        if self.labels or (self.scale is not None and self.scale.size is not None):
            return len(self.labels) or self.scale.size  # type: ignore[union-attr]
        size = self.size
        return size.value if isinstance(size, Literal) and isinstance(size.value, int) else None

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The values of a domain of whole numbers, if the text alone says them."""
        if self.scale is None or self.count is None:
            return None
        if self.start is None:
            return replace(self.scale, size=self.count).numbers
        first = self.start.value if isinstance(self.start, Literal) else None
        return Scale(first, size=self.count).numbers if isinstance(first, int) else None

    def code(self, value: Expression) -> Expression:
        """The place of a value among the values of the domain."""
        scale = self.scale
        if scale is None or scale.to_code:
            return value if scale is None else Operation(value.span, scale.to_code, (value,))
        moved = _applied("-", value, self.start, scale.first, 0)
        return _applied("//", moved, None, scale.step, 1)

    def value(self, code: Expression) -> Expression:
        """The value at a place among the values of the domain."""
        scale = self.scale
        if scale is None or scale.to_value:
            return code if scale is None else Operation(code.span, scale.to_value, (code,))
        stretched = _applied("*", code, None, scale.step, 1)
        return _applied("+", stretched, self.start, scale.first, 0)

    @property
    def real(self) -> bool:
        """Whether the values are real numbers, which no list holds."""
        return self.kind in ("real", "positive", "bounded")


def _applied(operator: str, e: Expression, by: Expression | None, number: int, neutral: int) -> Expression:
    """`e` with an operator applied to `by`, or to `number` if that is None and not neutral."""
    if by is None:
        if number == neutral:
            return e
        by = Literal(e.span, number)
    return Operation(e.span, operator, (e, by))


@dataclass(frozen=True, slots=True)
class Loop(Checked):
    """`i in site`, `(i, j) in G.edges`."""

    names: tuple[str, ...]
    over: SetOf


@dataclass(frozen=True, slots=True)
class Clauses(Checked):
    """`for .. for .. if condition`, unrolled when the program is bound."""

    loops: tuple[Loop, ...]
    condition: Expression | None = None
