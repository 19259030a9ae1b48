"""The parts of a checked program that statements are made of: expressions, sets, domains and loops.

Expressions keep the span they were written at, so that errors found later (a bound input, an index out of
range) still point into the text. Every name is resolved, every label replaced by its code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .._diagnostics import Span


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
    """`sum(body for .. if ..)`."""

    body: Expression
    clauses: Clauses


@dataclass(frozen=True, slots=True)
class Table(Checked):
    """`[0.2, 0.8]`, nested to any depth: the default of an input with axes, the probabilities of a cell; nowhere else."""

    items: tuple[Expression, ...]


Expression = Literal | LabelCode | IndexValue | InputValue | ParameterValue | VariableValue | LetValue | Operation | Choice | Sum | Table


def children(e: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside `e` (of a `Sum`, the body and the condition)."""
    match e:
        case InputValue() | ParameterValue() | VariableValue() | LetValue():
            return e.indices
        case Operation():
            return e.operands
        case Table():
            return e.items
        case Choice():
            return (e.test, e.yes, e.no)
        case Sum():
            condition = e.clauses.condition
            return (e.body,) if condition is None else (e.body, condition)
        case _:
            return ()


def walk(e: Expression) -> Iterator[Expression]:
    """`e` and every expression inside it; a `let` is not entered."""
    todo = [e]
    while todo:
        here = todo.pop()
        yield here
        todo.extend(reversed(children(here)))


# Sets, domains and loops


@dataclass(frozen=True, slots=True)
class SetOf(Checked):
    """A set that an index runs over.

    `kind` is `range` (size `size`), `domain` (the domain `domain`), or `graph` (`part` of the graph `graph`: nodes, edges,
    arcs, rows, columns). `name` is the name it was declared under (`site`, `aa`), else how it is written (`G.edges`).
    """

    kind: str
    name: str
    size: Expression | None = None
    domain: Domain | None = None
    graph: str = ""
    part: str = ""

    @property
    def arity(self) -> int:
        """How many index names one member takes: 2 for edges and arcs."""
        return 2 if self.part in ("edges", "arcs") else 1

    @property
    def lists_cells(self) -> bool:
        """Whether a member is itself a set of nodes (rows, columns)."""
        return self.part in ("rows", "columns")


@dataclass(frozen=True, slots=True)
class Domain(Checked):
    """The values of a cell: `kind` spin, bit, range (`size`), letters or labels (`labels`); `name` where it was declared under one.

    Of a `given` cell also real, positive or bounded (`lower`, `upper`): numbers that come with each row.
    """

    kind: str
    name: str = ""
    labels: tuple[str, ...] = ()
    size: Expression | None = None
    of: SetOf | None = None  # an index set used as a type
    lower: Expression | None = None
    upper: Expression | None = None

    @property
    def ordered(self) -> bool:
        """Whether the values are numbers."""
        return self.kind in ("spin", "bit", "range") or self.real

    @property
    def real(self) -> bool:
        """Whether the values are real numbers, which no list holds."""
        return self.kind in ("real", "positive", "bounded")


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
