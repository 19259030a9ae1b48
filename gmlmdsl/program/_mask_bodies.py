"""Checked masks: each body answers for its kind, its parts and weights, and the variables that it hides."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .._diagnostics import Span
from ._blocks import BlockTerm, FormCall
from ._terms import Checked, Clauses, Expression

Normalised = Callable[[Sequence[Expression], Span], Sequence[float]]


class MaskBody(Checked, abc.ABC):
    """What a mask draws: a form, blocks or cells with weights or rates, or a mixture of such."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """In words: `subsets(size = 2)`, `blocks`, `choose`, `each`, `mixture of ..`."""

    @abc.abstractmethod
    def hidden_variables(self) -> set[str]:
        """The variables whose cells its blocks can hold."""

    def leaves(self) -> Iterator[MaskBody]:
        """The masks that a mixture mixes, through mixtures in it; of another mask, itself."""
        yield self

    def shares(self, normalised: Normalised) -> list[tuple[float, MaskBody]]:
        """The leaves that can be drawn, with their probabilities; `normalised` turns the weights of a mixture's rows into these."""
        return [(1.0, self)]

    @property
    def parts(self) -> tuple[MaskBody, ...]:
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
    def adds_equal_blocks(self) -> bool:
        """Whether it draws one of the blocks that it lists: equal ones are one block, whose weights add."""
        return False

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

    @property
    def is_visits(self) -> bool:
        """Whether it draws a pass of a sampler, and scores and weighs what that settles."""
        return False

    @property
    def has_least_confident(self) -> bool:
        """Whether it, or a part of it, is `least_confident`."""
        return any(leaf.is_least_confident for leaf in self.leaves())


@dataclass(frozen=True, slots=True)
class Listed(MaskBody):
    """Blocks with weights: `blocks(..)` (`uniform`, each distinct block once; `call` has its options) or `choose w : ..`."""

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
    def adds_equal_blocks(self) -> bool:
        return True

    @property
    def options(self) -> Mapping[str, object]:
        return {} if self.call is None else self.call.arguments


@dataclass(frozen=True, slots=True)
class Independent(MaskBody):
    """`each r : CELL for ..`: every cell on its own."""

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

    @property
    def is_visits(self) -> bool:
        return self.call.form.name == "visits"


@dataclass(frozen=True, slots=True)
class MaskMixture(MaskBody):
    """p(K | x) = sum of v p_m(K | x), the v normalised.

    `extent`: its `nesting`, counted where it is checked. `turns`: the clauses of each row, which a bound program has written out;
    empty where no row has any.
    """

    rows: tuple[tuple[Expression, MaskBody], ...]
    extent: tuple[int, int] = field(default=(1, 1), compare=False, repr=False)
    turns: tuple[Clauses | None, ...] = ()

    @property
    def kind(self) -> str:
        return f"mixture of {', '.join(part.kind for part in self.parts)}"

    def hidden_variables(self) -> set[str]:
        return set().union(*(part.hidden_variables() for part in self.parts))

    def leaves(self) -> Iterator[MaskBody]:
        for part in self.parts:
            yield from part.leaves()

    def shares(self, normalised: Normalised) -> list[tuple[float, MaskBody]]:
        rows = zip(normalised([weight for weight, _ in self.rows], self.span), self.parts, strict=True)
        return [(own * share, leaf) for own, part in rows if own > 0 for share, leaf in part.shares(normalised)]

    @property
    def parts(self) -> tuple[MaskBody, ...]:
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
