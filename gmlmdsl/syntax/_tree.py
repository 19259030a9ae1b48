"""The syntax tree: frozen nodes, named after the rules of `grammar/gmlm.lark`, each knowing its span.

Tuples hold the children in the order of the text. Spans take no part in comparison, so that
`parse(format(program)) == parse(program)` can be asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ._expressions import Argument as Argument
from ._expressions import Attribute as Attribute
from ._expressions import Binary as Binary
from ._expressions import Block as Block
from ._expressions import Boolean as Boolean
from ._expressions import Call as Call
from ._expressions import Clauses as Clauses
from ._expressions import Conditional as Conditional
from ._expressions import Expression as Expression
from ._expressions import Index as Index
from ._expressions import List as List
from ._expressions import Loop as Loop
from ._expressions import Name as Name
from ._expressions import Node as Node
from ._expressions import Number as Number
from ._expressions import Options as Options
from ._expressions import String as String
from ._expressions import Unary as Unary

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
class Start(Node):
    """`start from four`: each draw begins with one of a sampler that decodes."""

    name: Name


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


SamplerStatement = Start | Update | Cycle | Repeat | KernelMixture | Temper


@dataclass(frozen=True, slots=True)
class Sampler(Node):
    """`sampler gibbs for ising { .. }` (statements) or `sampler refine = refinement(steps = 4)` (a call)."""

    name: Name
    model: Name | None
    body: tuple[SamplerStatement, ...] | Call


@dataclass(frozen=True, slots=True)
class Judge(Node):
    """`verifier can for words = completable(balanced)`, `value rough = noisy(truth, sd = 0.5)`; that word is `kind`."""

    kind: str
    name: Name
    model: Name | None
    form: Call


Statement = Import | Domain | Input | IndexSet | Graph | Network | Model | Mask | Sampler | Judge


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
