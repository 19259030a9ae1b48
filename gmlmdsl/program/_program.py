"""The checked program: its declarations, immutable, by name and in the order of the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from .._diagnostics import Diagnostic, Source, Span
from ._allow import Allowance
from ._form import Form
from ._terms import Checked, Clauses, Domain, Expression, InputValue, Loop, ParameterValue, SetOf, Table, VariableValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


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
class FormCall(Checked):
    """A form with its checked arguments by option name; options left out are absent (`_options.py` fills them in)."""

    form: Form
    arguments: dict[str, object] = field(hash=False)


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
class Distributed(Checked):
    """`target ~ categorical(probabilities)`; the open last axis of `probabilities`, or the list, runs over the target's domain."""

    target: VariableValue
    probabilities: ParameterValue | InputValue | Table
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


# Masks


@dataclass(frozen=True, slots=True)
class Cells(Checked):
    """Cells of one variable: all (`indices` None), one, or a row of them where an index runs over rows or columns."""

    variable: str
    indices: tuple[Expression, ...] | None


@dataclass(frozen=True, slots=True)
class BlockTerm(Checked):
    """One block per turn of the clauses."""

    cells: tuple[Cells, ...]
    clauses: Clauses


class MaskBody(Checked):
    """What a mask draws: a form, blocks or cells with weights or rates, or a mixture of such."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """In words: `subsets(size = 2)`, `blocks`, `choose`, `each`, `mixture of ..`."""
        raise NotImplementedError

    def hidden_variables(self) -> set[str]:
        """The variables whose cells its blocks can hold."""
        raise NotImplementedError

    def leaves(self) -> Iterator[MaskBody]:
        """The masks that a mixture mixes, through mixtures in it; of another mask, itself."""
        yield self

    def shares(self, number: Callable[[Expression], float]) -> list[tuple[float, MaskBody]]:
        """The leaves that can be drawn, with their probabilities; `number` evaluates a weight."""
        return [(1.0, self)]

    @property
    def mixed(self) -> tuple[MaskBody, ...]:
        """The masks in the rows of a mixture."""
        return ()

    @property
    def nesting(self) -> tuple[int, int]:
        """How many masks are mixed, mixtures in it taken apart, and in how many levels."""
        return 1, 0

    def weighted_blocks(self) -> Sequence[tuple[BlockTerm, Expression | None]]:
        """The blocks that it lists, with their weights or rates; None where all weigh the same."""
        return ()

    def weights(self) -> list[Expression]:
        """The weights and rates of its leaves."""
        return [w for leaf in self.leaves() for _, w in leaf.weighted_blocks() if w is not None]

    @property
    def weight_word(self) -> str:
        """What the number beside a block is called."""
        return "weight"

    @property
    def options(self) -> Mapping[str, object]:
        """The arguments of its form; none where it is no form."""
        return {}

    @property
    def block_size(self) -> Expression | None:
        """How many cells each of its blocks has, where a form says so."""
        return None

    @property
    def is_least_confident(self) -> bool:
        """Whether it asks a network which cells it draws."""
        return False

    @property
    def is_percolation(self) -> bool:
        """Whether it draws clusters, which only an update takes."""
        return False

    def asks_network(self) -> bool:
        """Whether it, or a part of it, is `least_confident`."""
        return any(leaf.is_least_confident for leaf in self.leaves())


@dataclass(frozen=True, slots=True)
class Listed(MaskBody):
    """Blocks with weights: `blocks(..)` (`uniform`, each distinct block once; `call` has its options) or `choose .. weight ..`."""

    terms: tuple[tuple[BlockTerm, Expression | None], ...]
    uniform: bool
    call: FormCall | None = None

    @property
    def kind(self) -> str:
        return "blocks" if self.uniform else "choose"

    def hidden_variables(self) -> set[str]:
        return {c.variable for term, _ in self.terms for c in term.cells}

    def weighted_blocks(self) -> Sequence[tuple[BlockTerm, Expression | None]]:
        return self.terms

    @property
    def options(self) -> Mapping[str, object]:
        return {} if self.call is None else self.call.arguments


@dataclass(frozen=True, slots=True)
class Independent(MaskBody):
    """`each CELL for .. rate r`: every cell on its own."""

    terms: tuple[tuple[BlockTerm, Expression], ...]

    @property
    def kind(self) -> str:
        return "each"

    def hidden_variables(self) -> set[str]:
        return {c.variable for term, _ in self.terms for c in term.cells}

    def weighted_blocks(self) -> Sequence[tuple[BlockTerm, Expression | None]]:
        return self.terms

    @property
    def weight_word(self) -> str:
        return "rate"


@dataclass(frozen=True, slots=True)
class FormMask(MaskBody):
    """`subsets`, `everything`, `bernoulli` or `least_confident` over `variables`; `percolation` over `edges`, pairs of their cells."""

    call: FormCall
    variables: tuple[str, ...]
    edges: tuple[BlockTerm, ...] = ()

    @property
    def kind(self) -> str:
        return self.call.span.text

    def hidden_variables(self) -> set[str]:
        return set(self.variables)

    @property
    def options(self) -> Mapping[str, object]:
        return self.call.arguments

    @property
    def block_size(self) -> Expression | None:
        return self.call.arguments.get(self.call.form.block_size)  # type: ignore[return-value]

    @property
    def is_least_confident(self) -> bool:
        return self.call.form.name == "least_confident"

    @property
    def is_percolation(self) -> bool:
        return self.call.form.name == "percolation"


@dataclass(frozen=True, slots=True)
class MaskMixture(MaskBody):
    """p(K | x) = sum of v p_m(K | x), the v normalised.

    `extent`: its `nesting`, counted where it is checked.
    """

    rows: tuple[tuple[Expression, MaskBody], ...]
    extent: tuple[int, int] = field(default=(1, 1), compare=False, repr=False)

    @property
    def kind(self) -> str:
        return f"mixture of {', '.join(part.kind for part in self.mixed)}"

    def hidden_variables(self) -> set[str]:
        return set().union(*(part.hidden_variables() for part in self.mixed))

    def leaves(self) -> Iterator[MaskBody]:
        for part in self.mixed:
            yield from part.leaves()

    def shares(self, number: Callable[[Expression], float]) -> list[tuple[float, MaskBody]]:
        weights = [number(w) for w, _ in self.rows]
        rows = zip(weights, self.mixed, strict=True)
        return [(w / sum(weights) * share, leaf) for w, part in rows if w > 0 for share, leaf in part.shares(number)]

    @property
    def mixed(self) -> tuple[MaskBody, ...]:
        return tuple(part for _, part in self.rows)

    @property
    def nesting(self) -> tuple[int, int]:
        return self.extent


@dataclass(frozen=True, slots=True)
class Mask(Checked):
    """`given` names the variables that weights and rates may mention: with a `var` or `latent` among them the mask is adaptive."""

    name: str
    model: str
    given: tuple[str, ...]
    body: MaskBody
    adaptive: bool
    mentions_parameter: bool


# Samplers


class Kernel(Checked):
    """One statement of a sampler's body: an update, or what runs other kernels."""

    __slots__ = ()

    def parts(self) -> tuple[Kernel, ...]:
        """The kernels that it runs."""
        return ()

    def inside(self) -> Iterator[Kernel]:
        """The kernel, and then every kernel in it, each before those that it runs."""
        yield self
        for part in self.parts():
            yield from part.inside()

    def accept(self, visitor: KernelVisitor[T]) -> T:
        """What a visitor answers for a kernel of this kind."""
        raise NotImplementedError


class KernelVisitor(Protocol[T_co]):
    """One answer for each kind of kernel. Whatever gives kernels a meaning is one: what is derived, printed, verified."""

    def sweep(self, kernel: Sweep, /) -> T_co: ...
    def random(self, kernel: RandomUpdate, /) -> T_co: ...
    def cycle(self, kernel: Cycle, /) -> T_co: ...
    def repeat(self, kernel: Repeat, /) -> T_co: ...
    def mixture(self, kernel: KernelMixture, /) -> T_co: ...
    def temper(self, kernel: Temper, /) -> T_co: ...


class Update(Kernel):
    """A kernel that redraws cells itself: fixed blocks, or one drawn from a mask. Both say whether they do it `independently`."""

    __slots__ = ()

    def either(self, sweep: Callable[[Sweep], T], random: Callable[[RandomUpdate], T]) -> T:
        """What one of two functions answers: for fixed blocks, or for one that is drawn."""
        raise NotImplementedError

    @property
    def drawn_mask(self) -> Mask | None:
        """The mask of a block that is drawn."""
        return None

    def hidden_variables(self) -> set[str]:
        """The variables whose cells it redraws."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Sweep(Update):
    """`update BLOCK for ..`: every block once, those that share no factor in parallel."""

    blocks: BlockTerm
    independently: bool

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.sweep(self)

    def either(self, sweep: Callable[[Sweep], T], random: Callable[[RandomUpdate], T]) -> T:
        return sweep(self)

    def hidden_variables(self) -> set[str]:
        return {c.variable for c in self.blocks.cells}


@dataclass(frozen=True, slots=True)
class RandomUpdate(Update):
    """`update x[K] where K ~ mask`; `within` is x, or empty for `update K`."""

    mask: Mask
    within: str
    independently: bool

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.random(self)

    def either(self, sweep: Callable[[Sweep], T], random: Callable[[RandomUpdate], T]) -> T:
        return random(self)

    @property
    def drawn_mask(self) -> Mask | None:
        return self.mask

    def hidden_variables(self) -> set[str]:
        return self.mask.body.hidden_variables()


@dataclass(frozen=True, slots=True)
class Cycle(Kernel):
    """Kernels in order."""

    body: tuple[Kernel, ...]

    def parts(self) -> tuple[Kernel, ...]:
        return self.body

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.cycle(self)


@dataclass(frozen=True, slots=True)
class Repeat(Kernel):
    """The body `count` times."""

    count: Expression
    body: tuple[Kernel, ...]

    def parts(self) -> tuple[Kernel, ...]:
        return self.body

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.repeat(self)


@dataclass(frozen=True, slots=True)
class KernelMixture(Kernel):
    """One row, picked with its weight."""

    rows: tuple[tuple[Expression, Kernel], ...]

    def parts(self) -> tuple[Kernel, ...]:
        return tuple(kernel for _, kernel in self.rows)

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.mixture(self)


@dataclass(frozen=True, slots=True)
class Temper(Kernel):
    """The body on replicas at each beta, with exchanges."""

    betas: tuple[Expression, ...]
    body: tuple[Kernel, ...]

    def parts(self) -> tuple[Kernel, ...]:
        return self.body

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.temper(self)


def kernels_in(body: Iterable[Kernel] | FormCall) -> Iterator[Kernel]:
    """Every kernel of a sampler's body, each before those that it runs; of a form none."""
    for kernel in () if isinstance(body, FormCall) else body:
        yield from kernel.inside()


def updates_in(body: Iterable[Kernel] | FormCall) -> Iterator[Sweep | RandomUpdate]:
    """Every update of a sampler's body, in the order of the text."""
    return (kernel for kernel in kernels_in(body) if isinstance(kernel, Update))  # type: ignore[misc]


def ladder_in(body: Iterable[Kernel] | FormCall) -> Temper | None:
    """The first `temper` of a sampler's body."""
    return next((kernel for kernel in kernels_in(body) if isinstance(kernel, Temper)), None)


@dataclass(frozen=True, slots=True)
class Sampler(Checked):
    """Statements, or a built-in algorithm."""

    name: str
    model: str
    body: tuple[Kernel, ...] | FormCall


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
