"""Define the checked program: its immutable declarations, by name and in the order of the text."""

from __future__ import annotations

from dataclasses import field

from .._diagnostics import Diagnostic, Source, Span, node
from ._allow import Allowance
from ._kernels import Kernel
from ._mask_bodies import Mask
from ._terms import Checked, Clauses, Domain, Expression, FormCall, Loop, ParameterValue, SetOf, VariableValue


@node
class InputAxis(Checked):
    """An axis of an input.

    Attributes:
        size: the size, if it is an integer.
        over: the set, if the axis runs over a set.
        name: otherwise the name of a new length.
    """

    size: Expression | None = None
    over: SetOf | None = None
    name: str = ""


@node
class Input(Checked):
    """An input. The kind of its type is int, real, positive, simplex, bounded or domain."""

    name: str
    axes: tuple[InputAxis, ...]
    type: ValueType
    default: Expression | None


@node
class ValueType(Checked):
    """The type of an input or parameter.

    Its `kind` is int, real, positive, simplex, ordered, bounded (with `lower` and `upper`) or
    domain.
    """

    kind: str
    lower: Expression | None = None
    upper: Expression | None = None
    domain: Domain | None = None


@node
class Variable(Checked):
    """A variable. `role` is var, latent or given."""

    role: str
    name: str
    axes: tuple[Loop, ...]
    domain: Domain


@node
class Parameter(Checked):
    """An array of parameters with one axis per loop."""

    name: str
    axes: tuple[Loop, ...]
    type: ValueType
    prior: FormCall | None


@node
class Let(Checked):
    """A named expression, which replaces its name wherever it is used.

    `extent` is the number of its parts and levels, including those of the `let`s that it uses.
    """

    name: str
    axes: tuple[Loop, ...]
    value: Expression
    extent: tuple[int, int] = field(default=(1, 1), compare=False, repr=False)


@node
class Factor(Checked):
    """A term of log p, added once for each iteration of its clauses."""

    value: Expression
    clauses: Clauses


@node
class Require(Checked):
    """A requirement. Configurations that violate the condition have probability zero."""

    condition: Expression
    clauses: Clauses


@node
class ValueCount(Checked):
    """The number of values that an argument of a distribution implies.

    Attributes:
        of: a number, or a set whose size is meant.
        more: the number to add to it.
        what: the counted objects: entries, members, cutpoints or trials.
    """

    of: Expression | SetOf
    more: int
    what: str


@node
class Distributed(Checked):
    """The statement `target ~ categorical(probabilities)`.

    The open last axis of `probabilities`, or the list, runs over the target's domain. If
    `is_density` is true, `probabilities` is log p of the target's value. The target then has as
    many values as each of `counts`, and `arguments` determine its probabilities.
    """

    target: VariableValue
    probabilities: Expression
    clauses: Clauses
    is_density: bool = False
    counts: tuple[ValueCount, ...] = ()
    arguments: tuple[Expression, ...] = ()


@node
class PriorTerm(Checked):
    """The prior of some entries of a parameter.

    An example is `h[t] ~ normal(h[t - 1], tau) for t in time if t > 0`.
    """

    target: ParameterValue
    prior: FormCall
    clauses: Clauses


@node
class NetworkConditional(Checked):
    """The statement `conditional target ~ network(given..)`."""

    target: str
    network: str
    given: tuple[str, ...]


@node
class Model(Checked):
    """A model. The tuples keep the order of the text."""

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


@node
class Sampler(Checked):
    """A sampler. Its body consists of statements, or is a built-in algorithm."""

    name: str
    model: str
    body: tuple[Kernel, ...] | FormCall

    @property
    def call(self) -> FormCall | None:
        """The built-in algorithm, or None for statements."""
        return self.body if isinstance(self.body, FormCall) else None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The statements, or () for a built-in algorithm."""
        return () if isinstance(self.body, FormCall) else self.body


@node
class Judge(Checked):
    """A function of the first cells of a string.

    `kind` is verifier (0 or 1) or value (at least 0).
    """

    name: str
    kind: str
    model: str
    body: FormCall


@node
class Program:
    """The result of `check`: declarations by name, in the order of the text, and the warnings."""

    sources: tuple[Source, ...]
    inputs: dict[str, Input] = field(hash=False)
    # the name of a length -> the input and axis that determine it
    lengths: dict[str, tuple[str, int]] = field(hash=False)
    domains: dict[str, Domain] = field(hash=False)
    index_sets: dict[str, SetOf] = field(hash=False)
    graphs: dict[str, FormCall] = field(hash=False)
    networks: dict[str, FormCall] = field(hash=False)
    models: dict[str, Model] = field(hash=False)
    masks: dict[str, Mask] = field(hash=False)
    samplers: dict[str, Sampler] = field(hash=False)
    judges: dict[str, Judge] = field(hash=False)  # verifiers and values of prefixes
    warnings: tuple[Diagnostic, ...] = ()
    # comments that allow warnings. `warnings` contains only warnings that are not allowed.
    allowances: tuple[Allowance, ...] = ()
