"""The syntax tree: frozen nodes, named after the rules of `grammar/gmlm.lark`, each knowing its span.

Tuples hold the children in the order of the text. Spans take no part in comparison, so that
`parse(format(program)) == parse(program)` can be asked.
"""

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
    """`i in site` or `(i, j) in G.edges`, as an axis or after `for`; `names` has one entry for the first form, two or more for the second."""

    names: tuple[Name, ...]
    over: Expression


@dataclass(frozen=True, slots=True)
class Clauses(Node):
    """`for i in a for j in b if condition`."""

    loops: tuple[Loop, ...]
    condition: Expression | None = None


# Statements of a file


@dataclass(frozen=True, slots=True)
class Import(Node):
    """`import "ising.gmlm"`."""

    path: String


@dataclass(frozen=True, slots=True)
class Domain(Node):
    """`domain aa = letters("ACGT")`."""

    name: Name
    type: Expression


@dataclass(frozen=True, slots=True)
class Input(Node):
    """`input pairs[e, 2] : int = ..`; `axes` are expressions: an integer, a name, `range(4)`, `G.edges`."""

    name: Name
    axes: tuple[Expression, ...]
    type: Expression
    default: Expression | None


@dataclass(frozen=True, slots=True)
class IndexSet(Node):
    """`index site = range(n)`."""

    name: Name
    over: Expression


@dataclass(frozen=True, slots=True)
class Graph(Node):
    """`graph G = grid(L, L, wrap = true)`."""

    name: Name
    form: Call


@dataclass(frozen=True, slots=True)
class Network(Node):
    """`network net = transformer(layers = 4)`."""

    name: Name
    form: Call


# Statements of a model


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """`var`, `latent` or `given` (that word is `kind`): `var x[i in site] : spin`."""

    kind: str
    name: Name
    axes: tuple[Loop, ...]
    type: Expression


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """`param J[(i, j) in G.edges] : real ~ normal(0, 1)`; type and prior may be absent."""

    name: Name
    axes: tuple[Loop, ...]
    type: Expression | None
    prior: Call | None


@dataclass(frozen=True, slots=True)
class Let(Node):
    """`let cold[t in day] = w[t] == "snow"`."""

    name: Name
    axes: tuple[Loop, ...]
    value: Expression


@dataclass(frozen=True, slots=True)
class Gauge(Node):
    """`gauge zero_sum(J)`."""

    form: Call


@dataclass(frozen=True, slots=True)
class Factor(Node):
    """`factor J[i, j] * x[i] * x[j] for (i, j) in G.edges`."""

    value: Expression
    clauses: Clauses | None


@dataclass(frozen=True, slots=True)
class Require(Node):
    """`require not (a == 1 and b == 2)`."""

    condition: Expression
    clauses: Clauses | None


@dataclass(frozen=True, slots=True)
class Distributed(Node):
    """`z[t] ~ categorical(move[z[t - 1]]) for t in time if t > 0`."""

    target: Name | Index
    distribution: Call
    clauses: Clauses | None


@dataclass(frozen=True, slots=True)
class NetworkConditional(Node):
    """`conditional x ~ net(src)`."""

    target: Name
    network: Call


ModelStatement = Variable | Parameter | Let | Gauge | Factor | Require | Distributed | NetworkConditional


@dataclass(frozen=True, slots=True)
class Model(Node):
    """`model ising { .. }`."""

    name: Name
    body: tuple[ModelStatement, ...]


# Masks


@dataclass(frozen=True, slots=True)
class MaskRow(Node):
    """`0.5 : subsets(s, size = 2)` in a mixture."""

    weight: Expression
    mask: MaskExpression


@dataclass(frozen=True, slots=True)
class MaskMixture(Node):
    """`mixture { 0.5 : .. 0.5 : .. }` of masks."""

    rows: tuple[MaskRow, ...]


MaskExpression = Name | Call | MaskMixture


@dataclass(frozen=True, slots=True)
class Choose(Node):
    """`choose {x[i], x[j]} for (i, j) in G.edges weight w`."""

    block: Expression
    clauses: Clauses | None
    weight: Expression


@dataclass(frozen=True, slots=True)
class Each(Node):
    """`each x[i] for i in site rate r`."""

    cell: Expression
    clauses: Clauses | None
    rate: Expression


@dataclass(frozen=True, slots=True)
class MaskList(Node):
    """The statements between the braces of a mask."""

    body: tuple[Choose | Each, ...]


@dataclass(frozen=True, slots=True)
class Mask(Node):
    """`mask hot for ising given x { .. }` or `mask pairs = subsets(x, size = 2)`."""

    name: Name
    model: Name | None
    given: tuple[Name, ...]
    body: MaskExpression | MaskList


# Samplers


@dataclass(frozen=True, slots=True)
class Where(Node):
    """`where K ~ pairs`."""

    name: Name
    mask: MaskExpression


@dataclass(frozen=True, slots=True)
class Update(Node):
    """`update x[K] where K ~ pairs`, `update x[i] for i in site`, `update h`, each perhaps `independently`."""

    target: Expression
    independently: bool
    clauses: Clauses | None
    where: Where | None


@dataclass(frozen=True, slots=True)
class Cycle(Node):
    """`cycle { .. }`."""

    body: tuple[SamplerStatement, ...]


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    """`repeat 10 { .. }`."""

    count: Expression
    body: tuple[SamplerStatement, ...]


@dataclass(frozen=True, slots=True)
class KernelRow(Node):
    """`0.9 : update x[i] for i in site` in a mixture of kernels."""

    weight: Expression
    kernel: SamplerStatement


@dataclass(frozen=True, slots=True)
class KernelMixture(Node):
    """`mixture { .. }` of kernels."""

    rows: tuple[KernelRow, ...]


@dataclass(frozen=True, slots=True)
class Temper(Node):
    """`temper(betas = [0.5, 1]) { .. }`; `form` is the call before the braces."""

    form: Call
    body: tuple[SamplerStatement, ...]


SamplerStatement = Update | Cycle | Repeat | KernelMixture | Temper


@dataclass(frozen=True, slots=True)
class Sampler(Node):
    """`sampler gibbs for ising { .. }` (statements) or `sampler refine = refinement(steps = 4)` (a call)."""

    name: Name
    model: Name | None
    body: tuple[SamplerStatement, ...] | Call


Statement = Import | Domain | Input | IndexSet | Graph | Network | Model | Mask | Sampler


@dataclass(frozen=True, slots=True)
class Comment(Node):
    """A comment with its `#`, kept for the formatter; `alone` says whether it has its line to itself."""

    text: str
    alone: bool


@dataclass(frozen=True, slots=True)
class SyntaxTree(Node):
    """One file."""

    statements: tuple[Statement, ...]
    comments: tuple[Comment, ...] = field(default=(), compare=False, repr=False)
