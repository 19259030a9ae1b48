"""The nodes of expressions and loops; `_tree.py` has those of statements."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._diagnostics import Span


@dataclass(frozen=True, slots=True)
class Node:
    """Anything with a place in the text."""

    span: Span = field(compare=False, repr=False)


# Expressions


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A literal: `int` where it has neither point nor exponent, else `float`."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Boolean(Node):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True)
class String(Node):
    """A quoted text; `value` is what it means, escapes resolved."""

    value: str


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A name, where it is declared and where it is used."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """`G.edges`."""

    base: Name
    attribute: Name


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`x[i, j]`."""

    base: Name
    indices: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """One argument of a call: positional (`keyword` None) or named; `clauses` after a positional one, as in `sum(e for i in s)`."""

    keyword: Name | None
    value: Expression
    clauses: Clauses | None = None


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`f(a, b, key = c)`: a function of an expression, or a form (graph, mask, sampler, network, distribution, type)."""

    function: Name
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`operator` is `-` or `not`."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`operator` is one of `+ - * / // % ^ == != < <= > >= and or`; all but `^` associate to the left."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """`if test then yes else no`."""

    test: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True)
class Block(Node):
    """`{x[i], y[j], a}`: a set of cells."""

    cells: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Options(Node):
    """`{hide: 0.8, keep: 0.2}`."""

    items: tuple[tuple[Name, Expression], ...]


@dataclass(frozen=True, slots=True)
class List(Node):
    """`[0.2, 0.5, 1]`."""

    items: tuple[Expression, ...]


Expression = Number | Boolean | String | Name | Attribute | Index | Call | Unary | Binary | Conditional | Block | Options | List


# Loops


@dataclass(frozen=True, slots=True)
class Loop(Node):
    """`i in site` or `(i, j) in G.edges`, as an axis or after `for`; `names` has one entry, or two and more."""

    names: tuple[Name, ...]
    over: Expression


@dataclass(frozen=True, slots=True)
class Clauses(Node):
    """`for i in a for j in b if condition`."""

    loops: tuple[Loop, ...]
    condition: Expression | None = None
