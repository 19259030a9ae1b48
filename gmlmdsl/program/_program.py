"""The checked program: its declarations, immutable, by name and in the order of the text."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._diagnostics import Diagnostic, Source, Span
from ._allow import Allowance
from ._blocks import FormCall
from ._kernels import Kernel
from ._mask_bodies import Mask
from ._terms import Checked, Clauses, Domain, Expression, Loop, ParameterValue, SetOf, VariableValue


@dataclass(frozen=True, slots=True)
class InputAxis(Checked):
    """An axis of an input: `size` where it is an integer, `over` where it is a set, else `name` is a new length."""

    size: Expression | None = None
    over: SetOf | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Input(Checked):
    """`kind` is int, real, positive, simplex, bounded or domain."""

    name: str
    axes: tuple[InputAxis, ...]
    type: ValueType
    default: Expression | None


@dataclass(frozen=True, slots=True)
class ValueType(Checked):
    """Of an input or parameter: `kind` int, real, positive, simplex, bounded (`lower`, `upper`) or domain."""

    kind: str
    lower: Expression | None = None
    upper: Expression | None = None
    domain: Domain | None = None


@dataclass(frozen=True, slots=True)
class Variable(Checked):
    """`role` is var, latent or given."""

    role: str
    name: str
    axes: tuple[Loop, ...]
    domain: Domain


@dataclass(frozen=True, slots=True)
class Parameter(Checked):
    """An array of parameters, one axis per loop."""

    name: str
    axes: tuple[Loop, ...]
    type: ValueType
    prior: FormCall | None


@dataclass(frozen=True, slots=True)
class Let(Checked):
    """A named expression; uses are replaced by it. `extent`: its parts and levels, those of the `let`s in it included."""

    name: str
    axes: tuple[Loop, ...]
    value: Expression
    extent: tuple[int, int] = field(default=(1, 1), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Factor(Checked):
    """A term of log p, once per turn of its clauses."""

    value: Expression
    clauses: Clauses


@dataclass(frozen=True, slots=True)
class Require(Checked):
    """Configurations where the condition fails have probability zero."""

    condition: Expression
    clauses: Clauses


@dataclass(frozen=True, slots=True)
class ValueCount(Checked):
    """How many values an argument of a distribution speaks of: the size of a set or a number, and what is added to it; `what` it counts."""

    of: Expression | SetOf
    more: int
    what: str  # entries, members, cutpoints or trials


@dataclass(frozen=True, slots=True)
class Distributed(Checked):
    """`target ~ categorical(probabilities)`; the open last axis of `probabilities`, or the list, runs over the target's domain.

    Where it `is_density`, `probabilities` is log p of the value that the target has, which has as many values as each of `counts`;
    `arguments` are then what its probabilities follow from.
    """

    target: VariableValue
    probabilities: Expression
    clauses: Clauses
    is_density: bool = False
    counts: tuple[ValueCount, ...] = ()
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class PriorTerm(Checked):
    """`h[t] ~ normal(h[t - 1], tau) for t in time if t > 0`: the prior of some entries of a parameter."""

    target: ParameterValue
    prior: FormCall
    clauses: Clauses


@dataclass(frozen=True, slots=True)
class NetworkConditional(Checked):
    """`conditional target ~ network(given..)`."""

    target: str
    network: str
    given: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Model(Checked):
    """A model; the tuples keep the order of the text."""

    name: str
    variables: dict[str, Variable] = field(hash=False)
    parameters: dict[str, Parameter] = field(hash=False)
    lets: dict[str, Let] = field(hash=False)
    factors: tuple[Factor, ...]
    requires: tuple[Require, ...]
    distributed: tuple[Distributed, ...]
    gauges: tuple[tuple[str, Span], ...]
    conditional: NetworkConditional | None
    priors: tuple[PriorTerm, ...] = ()


# Samplers


@dataclass(frozen=True, slots=True)
class Sampler(Checked):
    """Statements, or a built-in algorithm."""

    name: str
    model: str
    body: tuple[Kernel, ...] | FormCall

    @property
    def call(self) -> FormCall | None:
        """The built-in algorithm, None of statements."""
        return self.body if isinstance(self.body, FormCall) else None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The statements, none of a built-in algorithm."""
        return () if isinstance(self.body, FormCall) else self.body


@dataclass(frozen=True, slots=True)
class Judge(Checked):
    """A function of the first cells of a string; `kind` is verifier (0 or 1) or value (at least 0)."""

    name: str
    kind: str
    model: str
    body: FormCall


@dataclass(frozen=True, slots=True)
class Program:
    """What `check` returns: declarations by name, in the order of the text, and the warnings."""

    sources: tuple[Source, ...]
    inputs: dict[str, Input] = field(hash=False)
    lengths: dict[str, tuple[str, int]] = field(hash=False)  # a length's name -> the input and axis that give it
    domains: dict[str, Domain] = field(hash=False)
    index_sets: dict[str, SetOf] = field(hash=False)
    graphs: dict[str, FormCall] = field(hash=False)
    networks: dict[str, FormCall] = field(hash=False)
    models: dict[str, Model] = field(hash=False)
    masks: dict[str, Mask] = field(hash=False)
    samplers: dict[str, Sampler] = field(hash=False)
    judges: dict[str, Judge] = field(hash=False)  # verifiers and values
    warnings: tuple[Diagnostic, ...] = ()
    allowances: tuple[Allowance, ...] = ()  # comments that allow warnings; those in `warnings` are not allowed
