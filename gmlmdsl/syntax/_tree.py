"""Define the syntax tree: frozen nodes that are named after the rules of `grammar/gmlm.lark`.

Each node has its place in the text (span). Tuples contain the children in the order of the text.
Spans are excluded from comparisons, so that `parse(format(program)) == parse(program)` can be
tested.
"""

from __future__ import annotations

from dataclasses import field, fields, replace
from functools import cache
from typing import Any

from .._diagnostics import Span, node


@node
class Node:
    """An object with a place in the text."""

    span: Span = field(compare=False, repr=False)


# Expressions


@node
class Number(Node):
    """A literal number. It is an `int` if it has neither point nor exponent, else a `float`."""

    value: int | float


@node
class Boolean(Node):
    """The word `true` or `false`."""

    value: bool


@node
class String(Node):
    """A quoted text. `value` is the text with escapes resolved."""

    value: str


@node
class Name(Node):
    """A name, at its declaration or at a use."""

    name: str


@node
class Attribute(Node):
    """A part of an object, as in `G.edges`."""

    base: Name
    attribute: Name


@node
class Index(Node):
    """An entry of an array: `x[i, j]`. For a model in use it is `a.x[i, j]`."""

    base: Name | Attribute
    indices: tuple[Expression, ...]


@node
class Argument(Node):
    """One argument of a call.

    It is positional (`keyword` None) or named. `clauses` follow its value, as in `sum(e for i in
    s)`.
    """

    keyword: Name | None
    value: Expression
    clauses: Clauses | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is positional and has no clauses."""
        return self.keyword is None and self.clauses is None


@node
class Call(Node):
    """A call `f(a, b, key = c)`.

    It calls a function in an expression, or a form (graph, mask, sampler, network, distribution,
    type).
    """

    function: Name
    arguments: tuple[Argument, ...]

    @property
    def only(self) -> Argument | None:
        """The argument of a call with one, or None."""
        return self.arguments[0] if len(self.arguments) == 1 else None

    @property
    def is_plain(self) -> bool:
        """Whether all arguments are positional and have no clauses."""
        return all(a.is_plain for a in self.arguments)


@node
class Method(Node):
    """A call of a graph's function: `G.neighbours(i)`, `G.degree(i)`."""

    base: Attribute
    arguments: tuple[Argument, ...]


@node
class Unary(Node):
    """An operation with one operand. `operator` is `-` or `not`."""

    operator: str
    operand: Expression


@node
class Binary(Node):
    """An operation with two operands.

    `operator` is one of `+ - * / // % ^ == != < <= > >= and or`. All except `^` associate to the
    left.
    """

    operator: str
    left: Expression
    right: Expression


@node
class Conditional(Node):
    """The expression `if test then yes else no`.

    In a factor or requirement, `no` may be left out.
    """

    test: Expression
    yes: Expression
    no: Expression | None


@node
class Block(Node):
    """A set of cells, as in `{x[i], y[j], a}`.

    With clauses, it contains the cells of all iterations: `{x[j] for j in G.neighbours(i)}`.
    """

    cells: tuple[Expression, ...]
    clauses: Clauses | None = None


@node
class Options(Node):
    """Named values in braces, as in `{hide: 0.8, keep: 0.2}`."""

    items: tuple[tuple[Name, Expression], ...]


@node
class List(Node):
    """A list, as in `[0.2, 0.5, 1]`."""

    items: tuple[Expression, ...]


@node
class Entry(Node):
    """An entry of a map: `"no": [0.9, 0.1]` or `("no", 1): 0.3`. A key is a string or a number."""

    keys: tuple[Expression, ...]
    value: Expression


@node
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


@node
class Loop(Node):
    """A loop `i in site` or `(i, j) in G.edges`, as an axis or after `for`.

    `names` has one or more entries.
    """

    names: tuple[Name, ...]
    over: Expression


@node
class Clauses(Node):
    """The clauses `for i in a for j in b if condition`."""

    loops: tuple[Loop, ...]
    condition: Expression | None = None


# Statements of a file


@node
class Declared(Node):
    """A name that shares its type with other names of a declaration: `x[i in site]`."""

    name: Name
    axes: tuple[Loop | Expression, ...]


@node
class Import(Node):
    """The statement `import "ising.gmlm"`."""

    path: String


@node
class Domain(Node):
    """The statement `domain aa = letters("ACGT")`."""

    name: Name
    type: Expression


@node
class Input(Node):
    """The statement `input pairs[e, 2] : int = ..`.

    An entry of `axes` is an integer, a name, `range(4)`, `G.edges`, or a loop. `also` contains
    further names.
    """

    name: Name
    axes: tuple[Expression | Loop, ...]
    type: Expression
    default: Expression | None
    also: tuple[Declared, ...] = ()


@node
class IndexSet(Node):
    """The statement `index site = range(n)`."""

    name: Name
    over: Expression


@node
class ChosenSet(Node):
    """The statement `index core = i in G.nodes if G.degree(i) >= 2`."""

    name: Name
    loop: Loop
    condition: Expression | None


@node
class Function(Node):
    """The statement `function energy(h, x) = h * x`."""

    name: Name
    parameters: tuple[Name, ...]
    value: Expression


@node
class Graph(Node):
    """The statement `graph G = grid(L, L, wrap = true)`."""

    name: Name
    form: Call


@node
class Network(Node):
    """The statement `network net = transformer(layers = 4)`."""

    name: Name
    form: Call


# Statements of a model


@node
class Variable(Node):
    """A declaration of variables, as in `var x[i in site] : spin`.

    `kind` is its keyword: `var`, `latent` or `given`. `also` contains further names of that type.
    """

    kind: str
    name: Name
    axes: tuple[Loop, ...]
    type: Expression
    distribution: Call | None = None
    also: tuple[Declared, ...] = ()


@node
class Parameter(Node):
    """The statement `param J[(i, j) in G.edges] : real ~ normal(0, 1)`.

    Type and prior may be absent. `also` contains further names.
    """

    name: Name
    axes: tuple[Loop, ...]
    type: Expression | None
    prior: Call | None
    also: tuple[Declared, ...] = ()


@node
class Let(Node):
    """The statement `let cold[t in day] = w[t] == "snow"`."""

    name: Name
    axes: tuple[Loop, ...]
    value: Expression


@node
class Gauge(Node):
    """The statement `gauge zero_sum(J)`."""

    form: Call


@node
class Factor(Node):
    """The statement `factor J[i, j] * x[i] * x[j] for (i, j) in G.edges`."""

    value: Expression
    clauses: Clauses | None


@node
class Require(Node):
    """The statement `require not (a == 1 and b == 2)`."""

    condition: Expression
    clauses: Clauses | None


@node
class Distributed(Node):
    """The statement `z[t] ~ categorical(move[z[t - 1]]) for t in time if t > 0`."""

    target: Name | Index
    distribution: Call
    clauses: Clauses | None


@node
class NetworkConditional(Node):
    """The statement `conditional x ~ net(src)`."""

    target: Name
    network: Call


@node
class Use(Node):
    """The statement `use ising as b with x = a.x`.

    `bindings` contains the names that denote cells of this model.
    """

    model: Name
    name: Name
    bindings: tuple[tuple[Name, Name | Attribute | Index], ...]


@node
class Component(Node):
    """A component of a mixture of models, as in `0 : a`."""

    key: Expression
    model: Name


@node
class ModelMixture(Node):
    """The statement `mixture k { 0 : a  1 : b }`."""

    cell: Name
    components: tuple[Component, ...]


@node
class Model(Node):
    """The statement `model ising { .. }`."""

    name: Name
    body: tuple[ModelStatement, ...]


# Masks


@node
class MaskRow(Node):
    """A row of a mixture of masks, as in `0.5 : subsets(s, size = 2)`."""

    weight: Expression
    mask: MaskExpression
    clauses: Clauses | None = None


@node
class MaskMixture(Node):
    """A mixture of masks: `mixture { 0.5 : .. 0.5 : .. }`."""

    rows: tuple[MaskRow, ...]


MaskExpression = Name | Call | MaskMixture


@node
class Choose(Node):
    """The statement `choose w : {x[i], x[j]} for (i, j) in G.edges`.

    `weight_last` is true for the earlier form `choose {..} for .. weight w`.
    """

    block: Expression
    clauses: Clauses | None
    weight: Expression
    weight_last: bool = field(default=False, compare=False)


@node
class Each(Node):
    """The statement `each r : x[i] for i in site`.

    `rate_last` is true for the earlier form `each x[i] for .. rate r`.
    """

    cell: Expression
    clauses: Clauses | None
    rate: Expression
    rate_last: bool = field(default=False, compare=False)


@node
class MaskList(Node):
    """The statements between the braces of a mask."""

    body: tuple[Choose | Each, ...]


@node
class Mask(Node):
    """The statement `mask hot for ising sees x { .. }` or `mask pairs = subsets(x, size = 2)`.

    `word` is `sees` or `given`, or "" if no names follow.
    """

    name: Name
    model: Name | None
    given: tuple[Name, ...]
    body: MaskExpression | MaskList
    word: str = field(default="", compare=False)


ModelStatement = Variable | Parameter | Let | Gauge | Factor | Require | Distributed | NetworkConditional | Use | ModelMixture | Mask


# Samplers


@node
class Start(Node):
    """The statement `start from four`: each draw begins with a draw of a sampler that decodes."""

    name: Name


@node
class Where(Node):
    """The part `where K ~ pairs` of an update. For `by pairs`, the name is None."""

    name: Name | None
    mask: MaskExpression


@node
class Update(Node):
    """An update, with or without `independently`.

    Examples are `update x[K] where K ~ pairs`, `update x[i] for i in site` and `update h`.
    """

    target: Expression
    independently: bool
    clauses: Clauses | None
    where: Where | None


@node
class Cycle(Node):
    """The statement `cycle { .. }`."""

    body: tuple[SamplerStatement, ...]


@node
class Repeat(Node):
    """The statement `repeat 10 { .. }`."""

    count: Expression
    body: tuple[SamplerStatement, ...]


@node
class RepeatOver(Node):
    """The statement `repeat s in range(3) { .. }`."""

    loop: Loop
    body: tuple[SamplerStatement, ...]


@node
class KernelRow(Node):
    """A row of a mixture of kernels, as in `0.9 : update x[i] for i in site`."""

    weight: Expression
    kernel: SamplerStatement
    clauses: Clauses | None = None


@node
class KernelMixture(Node):
    """A mixture of kernels: `mixture { .. }`."""

    rows: tuple[KernelRow, ...]


@node
class Temper(Node):
    """The statement `temper(betas = [0.5, 1]) { .. }`. `form` is the call before the braces."""

    form: Call
    body: tuple[SamplerStatement, ...]


SamplerStatement = Start | Update | Cycle | Repeat | RepeatOver | KernelMixture | Temper


@node
class Sampler(Node):
    """A declaration of a sampler by statements or by a call.

    Examples are `sampler gibbs for ising { .. }` and `sampler refine = refinement(steps = 4)`.
    """

    name: Name
    model: Name | None
    body: tuple[SamplerStatement, ...] | Call


@node
class Judge(Node):
    """A declaration of a verifier or value. `kind` is its keyword.

    Examples are `verifier can for words = completable(balanced)` and `value rough = noisy(truth, sd
    = 0.5)`.
    """

    kind: str
    name: Name
    model: Name | None
    form: Call


Statement = Import | Domain | Input | IndexSet | ChosenSet | Graph | Network | Function | Parameter | Model | Mask | Sampler | Judge


def names_in(node: Node) -> list[Name]:
    """Return every name in a node in the order of the text.

    The names of functions and of indices are included.
    """
    found: list[Name] = []
    todo: list[Any] = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, Name):
            found.append(part)
        elif isinstance(part, Node):
            todo += [getattr(part, name) for name in _parts_backwards(type(part))]
        elif isinstance(part, tuple):
            todo += reversed(part)
    return found


@cache
def _parts_backwards(kind: type[Node]) -> tuple[str, ...]:
    return tuple(f.name for f in reversed(fields(kind)) if f.name != "span")


def singly(s: Input | Variable | Parameter) -> tuple[Any, ...]:
    """Return a declaration of several names as one declaration for each of them."""
    return (replace(s, also=()), *(replace(s, span=d.span, name=d.name, axes=d.axes, also=()) for d in s.also))


@node
class Comment(Node):
    """A comment with its `#`, for the formatter. `alone` is true if it is alone on its line."""

    text: str
    alone: bool


@node
class SyntaxTree(Node):
    """The syntax tree of one file."""

    statements: tuple[Statement, ...]
    comments: tuple[Comment, ...] = field(default=(), compare=False, repr=False)
