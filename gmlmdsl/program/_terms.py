"""Define the parts of statements of a checked program: expressions, sets, domains, blocks, calls.

Each expression keeps its place (span) in the text, so that later errors point into the text. Such
errors concern a bound input or an index out of range. Every name is resolved, and every label is
replaced by its code.

The table of scales is the only place that distinguishes spins, bits and ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from operator import attrgetter
from typing import Any

from .._diagnostics import Span, node
from ._form import Form
from .limits import MOST_NUMBERS


@node
class Scale:
    """Evenly spaced numbers. Code k denotes `first + step * k`.

    Attributes:
        first: the number of code 0.
        step: the difference between the numbers of consecutive codes.
        size: the count of numbers, or None if a declaration determines it, as in `range(5)`.
        to_code: the function of the language from numbers to codes, or "".
        to_value: the function of the language from codes to numbers, or "".
    """

    first: int = 0
    step: int = 1
    size: int | None = None
    to_code: str = ""
    to_value: str = ""

    @property
    def is_code(self) -> bool:
        """Whether each number is its own code."""
        return self.first == 0 and self.step == 1

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest and the highest number of a scale whose size is known."""
        assert self.size is not None
        return self.first, self.values_of(self.size - 1)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of a scale whose size is known, or () for any other scale."""
        return tuple(self.first + self.step * k for k in range(self.size or 0))

    def values_of(self, codes: Any) -> Any:
        """Return the numbers of some codes. The type is that of `codes`: an array or a number.

        Arrays of NumPy and JAX are accepted.
        """
        return codes if self.is_code else self.step * codes + self.first

    def codes_of(self, values: Any) -> Any:
        """Return the codes of numbers of the scale. The accepted types are those of `values_of`."""
        return values if self.is_code else (values - self.first) // self.step


CODES = Scale()  # the scale whose numbers are the codes
SCALES = {"spin": Scale(-1, 2, 2, "bit", "spin"), "bit": Scale(0, 1, 2), "range": CODES}


def sized() -> tuple[str, ...]:
    """Return the names of types whose numbers are known without arguments: `spin` and `bit`."""
    return tuple(name for name, scale in SCALES.items() if scale.size is not None)


@node
class Checked:
    """An object with a place in the text."""

    span: Span = field(compare=False, repr=False)


# Expressions


@node
class Literal(Checked):
    """A number, or a condition that is always true or false."""

    value: int | float | bool


@node
class LabelCode(Checked):
    """A letter or label, as its position in its domain, counted from 0."""

    code: int
    label: str


@node
class IndexValue(Checked):
    """The current value of a name of a `for` or of an axis.

    If the name runs over a domain, its value is the code.
    """

    name: str


@node
class InputValue(Checked):
    """An entry of an input, or a length that an input's axis declares.

    If there are fewer indices than axes, the last axis is open.
    """

    name: str
    indices: tuple[Expression, ...] = ()


@node
class ParameterValue(Checked):
    """An entry of a parameter. If there are fewer indices than axes, the last axis is open."""

    name: str
    indices: tuple[Expression, ...] = ()


@node
class VariableValue(Checked):
    """The value of a cell: a number for spin, bit and range, the code for letters and labels."""

    name: str
    indices: tuple[Expression, ...] = ()


@node
class LetValue(Checked):
    """The value of a `let` at given indices."""

    name: str
    indices: tuple[Expression, ...] = ()


@node
class Operation(Checked):
    """An operation on numbers. Conditions count as 1 and 0.

    `operator` is `+ - * / // % ^ == != < <= > >= and or not`, `neg`, or a function's name.
    """

    operator: str
    operands: tuple[Expression, ...]


@node
class Choice(Checked):
    """The expression `if test then yes else no`."""

    test: Expression
    yes: Expression
    no: Expression


@node
class Sum(Checked):
    """The expression `sum(body for .. if ..)`, or another reduction.

    `operator` is `+ * min max logsumexp`.
    """

    body: Expression
    clauses: Clauses
    operator: str = "+"


@node
class Table(Checked):
    """A list such as `[0.2, 0.8]`, nested to any depth.

    Tables occur only as the default of an input with axes, as the probabilities of a cell, and in a
    `TableEntry`.
    """

    items: tuple[Expression, ...]


@node
class TableEntry(Checked):
    """An entry of a table that is written in the text.

    There is an index for each level of the table, counted from 0.
    """

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
        """All entries in row-major order."""
        level: tuple[Expression, ...] = (self.table,)
        for _ in self.indices:
            level = tuple(item for part in level if isinstance(part, Table) for item in part.items)
        return level


@node
class LogPartition(Checked):
    """The expression log sum_x exp(f(x)), in which f is the sum of the factors.

    The sum covers the values x of all cells of `variables` for which the requirements hold. `of` is
    the name of the model.
    """

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
    """Return the expressions directly inside `e`.

    For a `Sum` these are the body, the condition and the sizes of the sets of its loops.
    """
    return _INSIDE.get(type(e), _nothing)(e)


def _nothing(e: Expression) -> tuple[Expression, ...]:
    return ()


def _of_sum(e: Sum) -> tuple[Expression, ...]:
    sizes = [size for loop in e.clauses.loops for size in (loop.over.start, loop.over.size) if size is not None]
    return (e.body, *(() if e.clauses.condition is None else (e.clauses.condition,)), *sizes)


# The kinds of expressions that contain others. The checks walk through every expression often.
_INSIDE: dict[type, Callable[[Any], tuple[Expression, ...]]] = {
    **dict.fromkeys((InputValue, ParameterValue, VariableValue, LetValue), attrgetter("indices")),
    Operation: attrgetter("operands"),
    Table: attrgetter("items"),
    TableEntry: lambda e: (e.table, *e.indices),
    Choice: attrgetter("test", "yes", "no"),
    Sum: _of_sum,
    LogPartition: lambda e: tuple(part for f in e.factors for part in _parameters_in(f.value)),
}


def _parameters_in(e: Expression) -> Iterator[Expression]:
    """Yield the parameters in an expression of a model that is summed over.

    Its cells are not mentioned outside the sum.
    """
    for part in walk(e):
        if isinstance(part, ParameterValue):
            yield replace(part, indices=())


def walk(e: Expression) -> Iterator[Expression]:
    """Yield `e` and every expression inside it. The value of a `let` is not entered."""
    todo = [e]
    while todo:
        here = todo.pop()
        yield here
        todo += children(here)[::-1]


def substitute(e: Expression, values: Mapping[str, Expression]) -> Expression:
    """Return `e` with index names replaced."""
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
    """Return clauses with the index names of enclosing loops replaced."""
    loops = tuple(replace(loop, over=substitute_in_set(loop.over, values)) for loop in c.loops)
    return replace(c, loops=loops, condition=None if c.condition is None else substitute(c.condition, values))


def substitute_in_set(over: SetOf, values: Mapping[str, Expression]) -> SetOf:
    """Return a set with the index names of enclosing loops replaced."""
    start, size = (None if e is None else substitute(e, values) for e in (over.start, over.size))
    return replace(over, start=start, size=size)


# Sets, domains and loops


@node
class SetOf(Checked):
    """A set that an index runs over.

    Attributes:
        kind: `range`, `domain`, `graph` or `turns`.
        name: the declared name (`site`, `aa`), or else the text of the set (`G.edges`).
        size: for `range`, the size, or the end if there is a `start`. For neighbours, the node.
        domain: for `domain`, the domain.
        graph: for `graph`, the name of the graph.
        part: for `graph`, its part: nodes, edges, arcs, triangles, rows, columns, or the neighbours
            of the node `size`.
        start: the first member of a range that does not begin at 0.
        clauses: for `turns`, the clauses whose index values are the members.
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
        """The number of index names of one member: 2 for edges and arcs, 3 for triangles."""
        if self.clauses is not None:
            return sum(len(loop.names) for loop in self.clauses.loops)
        return {"edges": 2, "arcs": 2, "triangles": 3}.get(self.part, 1)

    @property
    def is_edges(self) -> bool:
        """Whether its members are edges or arcs."""
        return self.part in ("edges", "arcs")

    @property
    def is_looked_up(self) -> bool:
        """Whether the position of a member is looked up among all members.

        Otherwise the member is a number counted from 0, or an edge.
        """
        return self.clauses is not None or self.start is not None or self.part == "triangles"

    @property
    def is_dependent(self) -> bool:
        """Whether its members depend on index names of enclosing loops.

        Only a loop may run over it.
        """
        sizes = [e for e in (self.start, self.size) if e is not None]
        return any(isinstance(part, IndexValue) for e in sizes for part in walk(e))

    def member(self, place: Expression) -> Expression:
        """Return the index at a position among the members of this set.

        For a domain, whose indices are codes, it is the position itself.
        """
        return place if self.start is None else Operation(place.span, "+", (place, self.start))

    @property
    def lists_cells(self) -> bool:
        """Whether a member is itself a set of nodes (rows, columns)."""
        return self.part in ("rows", "columns")


@node
class Domain(Checked):
    """The values of a cell.

    `kind` is spin, bit, range, letters or labels, or real, positive or bounded. A range has `size`
    values, the first of which is `start`, or 0 if `start` is None. Letters and labels have
    `labels`. A declared domain has a `name`. Only `given` cells are real, positive or bounded
    (`lower`, `upper`): their numbers come with each row of data.
    """

    kind: str
    name: str = ""
    labels: tuple[str, ...] = ()
    size: Expression | None = None
    of: SetOf | None = None  # an index set that is used as a type
    lower: Expression | None = None
    upper: Expression | None = None
    start: Expression | None = None

    @property
    def scale(self) -> Scale | None:
        """The scale, which gives the number of each code, not including `start`.

        It is None if the values are not whole numbers.
        """
        return SCALES.get(self.kind)

    @property
    def ordered(self) -> bool:
        """Whether the values are numbers."""
        return self.scale is not None or self.real

    @property
    def count(self) -> int | None:
        """The number of values, or None if the text alone does not determine it."""
        if self.labels or (self.scale is not None and self.scale.size is not None):
            return len(self.labels) or self.scale.size  # type: ignore[union-attr]
        size = self.size
        return size.value if isinstance(size, Literal) and isinstance(size.value, int) else None

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The values of a domain of whole numbers.

        The result is None if the text does not determine them, or if they are too many to list.
        """
        if self.scale is None or self.count is None or self.count > MOST_NUMBERS:
            return None
        if self.start is None:
            return replace(self.scale, size=self.count).numbers
        first = self.start.value if isinstance(self.start, Literal) else None
        return Scale(first, size=self.count).numbers if isinstance(first, int) else None

    def code(self, value: Expression) -> Expression:
        """Return the code of a value, that is its position among the values of the domain."""
        scale = self.scale
        if scale is None or scale.to_code:
            return value if scale is None else Operation(value.span, scale.to_code, (value,))
        moved = _applied("-", value, self.start, scale.first, 0)
        return _applied("//", moved, None, scale.step, 1)

    def value(self, code: Expression) -> Expression:
        """Return the value at a position among the values of the domain."""
        scale = self.scale
        if scale is None or scale.to_value:
            return code if scale is None else Operation(code.span, scale.to_value, (code,))
        stretched = _applied("*", code, None, scale.step, 1)
        return _applied("+", stretched, self.start, scale.first, 0)

    @property
    def real(self) -> bool:
        """Whether the values are real numbers, which cannot be enumerated."""
        return self.kind in ("real", "positive", "bounded")


def _applied(operator: str, e: Expression, by: Expression | None, number: int, neutral: int) -> Expression:
    """Return `e` with an operator applied to `by`, or to `number` if `by` is None.

    If `by` is None and `number` is neutral, the result is `e`.
    """
    if by is None:
        if number == neutral:
            return e
        by = Literal(e.span, number)
    return Operation(e.span, operator, (e, by))


@node
class Loop(Checked):
    """One loop: `i in site`, `(i, j) in G.edges`."""

    names: tuple[str, ...]
    over: SetOf


@node
class Clauses(Checked):
    """The clauses `for .. for .. if condition`, which are unrolled when the program is bound."""

    loops: tuple[Loop, ...]
    condition: Expression | None = None


# Kinds of expressions


@node
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


@node
class FormCall(Checked):
    """A form with its checked arguments by option name.

    Options that are left out are absent. `_options.py` fills them in.
    """

    form: Form
    arguments: dict[str, object] = field(hash=False)

    @property
    def mentions_parameter(self) -> bool:
        """Whether an argument depends on a parameter, as arguments of a prior may."""
        of = [e for e in self.arguments.values() if isinstance(e, Checked)]
        return any(isinstance(part, ParameterValue) for e in of for part in walk(e))  # type: ignore[arg-type]


@node
class Cells(Checked):
    """Cells of one variable, as a block names them.

    If `indices` is None, these are all cells of the variable. Otherwise it is one cell, or a row of
    cells if an index runs over rows or columns. With `clauses`, it is the cells of all iterations
    of the clauses.
    """

    variable: str
    indices: tuple[Expression, ...] | None
    clauses: Clauses | None = None


@node
class BlockTerm(Checked):
    """A term of a list of blocks: one block for each iteration of the clauses."""

    cells: tuple[Cells, ...]
    clauses: Clauses
