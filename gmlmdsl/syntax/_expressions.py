"""Define the nodes of expressions and loops. `_tree.py` defines the nodes of statements."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._diagnostics import Span


@dataclass(frozen=True, slots=True)
class Node:
    """An object with a place in the text."""

    span: Span = field(compare=False, repr=False)


# Expressions


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A literal number. It is an `int` if it has neither point nor exponent, else a `float`."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Boolean(Node):
    """The word `true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True)
class String(Node):
    """A quoted text. `value` is the text with escapes resolved."""

    value: str


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A name, at its declaration or at a use."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """A part of an object, as in `G.edges`."""

    base: Name
    attribute: Name


@dataclass(frozen=True, slots=True)
class Index(Node):
    """An entry of an array: `x[i, j]`. For a model in use it is `a.x[i, j]`."""

    base: Name | Attribute
    indices: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """One argument of a call.

    It is positional (`keyword` None) or named. `clauses` follow its value, as in `sum(e for i in
    s)`.
    """

    keyword: Name | None
    value: Expression
    clauses: Clauses | None = None


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A call `f(a, b, key = c)`.

    It calls a function in an expression, or a form (graph, mask, sampler, network, distribution,
    type).
    """

    function: Name
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Method(Node):
    """A call of a graph's function: `G.neighbours(i)`, `G.degree(i)`."""

    base: Attribute
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """An operation with one operand. `operator` is `-` or `not`."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """An operation with two operands.

    `operator` is one of `+ - * / // % ^ == != < <= > >= and or`. All except `^` associate to the
    left.
    """

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """The expression `if test then yes else no`.

    In a factor or requirement, `no` may be left out.
    """

    test: Expression
    yes: Expression
    no: Expression | None


@dataclass(frozen=True, slots=True)
class Block(Node):
    """A set of cells, as in `{x[i], y[j], a}`.

    With clauses, it contains the cells of all iterations: `{x[j] for j in G.neighbours(i)}`.
    """

    cells: tuple[Expression, ...]
    clauses: Clauses | None = None


@dataclass(frozen=True, slots=True)
class Options(Node):
    """Named values in braces, as in `{hide: 0.8, keep: 0.2}`."""

    items: tuple[tuple[Name, Expression], ...]


@dataclass(frozen=True, slots=True)
class List(Node):
    """A list, as in `[0.2, 0.5, 1]`."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Entry(Node):
    """An entry of a map: `"no": [0.9, 0.1]` or `("no", 1): 0.3`. A key is a string or a number."""

    keys: tuple[Expression, ...]
    value: Expression


@dataclass(frozen=True, slots=True)
class LookedUp(Node):
    """The value of a map at some keys, or of a list at some positions.

    Examples are `{"no": [0.9, 0.1], "yes": [0.5, 0.5]}[smoke]` and `[0.1, 0.9][b]`.
    """

    entries: tuple[Entry, ...] | List
    indices: tuple[Expression, ...]


Expression = (
    Number | Boolean | String | Name | Attribute | Index | Call | Method | Unary | Binary | Conditional | Block | Options | List | LookedUp
)


# Loops


@dataclass(frozen=True, slots=True)
class Loop(Node):
    """A loop `i in site` or `(i, j) in G.edges`, as an axis or after `for`.

    `names` has one or more entries.
    """

    names: tuple[Name, ...]
    over: Expression


@dataclass(frozen=True, slots=True)
class Clauses(Node):
    """The clauses `for i in a for j in b if condition`."""

    loops: tuple[Loop, ...]
    condition: Expression | None = None
