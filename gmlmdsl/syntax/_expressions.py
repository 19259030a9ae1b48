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
    """`x[i, j]`; of a model in use, `a.x[i, j]`."""

    base: Name | Attribute
    indices: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """One argument of a call: positional (`keyword` None) or named; `clauses` behind its value, as in `sum(e for i in s)`."""

    keyword: Name | None
    value: Expression
    clauses: Clauses | None = None


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`f(a, b, key = c)`: a function of an expression, or a form (graph, mask, sampler, network, distribution, type)."""

    function: Name
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Method(Node):
    """`G.neighbours(i)`, `G.degree(i)`."""

    base: Attribute
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
    """`if test then yes else no`; of a factor or requirement `no` may be left out."""

    test: Expression
    yes: Expression
    no: Expression | None


@dataclass(frozen=True, slots=True)
class Block(Node):
    """`{x[i], y[j], a}`: a set of cells; with clauses those of all turns: `{x[j] for j in G.neighbours(i)}`."""

    cells: tuple[Expression, ...]
    clauses: Clauses | None = None


@dataclass(frozen=True, slots=True)
class Options(Node):
    """`{hide: 0.8, keep: 0.2}`."""

    items: tuple[tuple[Name, Expression], ...]


@dataclass(frozen=True, slots=True)
class List(Node):
    """`[0.2, 0.5, 1]`."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Entry(Node):
    """`"no": [0.9, 0.1]` or `("no", 1): 0.3` in a map; a key is a string or a number."""

    keys: tuple[Expression, ...]
    value: Expression


@dataclass(frozen=True, slots=True)
class LookedUp(Node):
    """`{"no": [0.9, 0.1], "yes": [0.5, 0.5]}[smoke]` and `[0.1, 0.9][b]`: the value that stands behind these keys, or at this place."""

    entries: tuple[Entry, ...] | List
    indices: tuple[Expression, ...]


Expression = (
    Number | Boolean | String | Name | Attribute | Index | Call | Method | Unary | Binary | Conditional | Block | Options | List | LookedUp
)


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
