"""Define checked masks.

Each body gives its kind, its parts and weights, and the variables that it hides.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from .._diagnostics import Span, node
from ._terms import BlockTerm, Checked, Clauses, Expression, FormCall

Normalised = Callable[[Sequence[Expression], Span], Sequence[float]]


class MaskBody(Checked, abc.ABC):
    """The distribution over blocks that a mask draws from.

    It is a form, blocks with weights, cells with rates, or a mixture of such bodies.
    """

    __slots__ = ()

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """The kind in words: `subsets(size = 2)`, `blocks`, `choose`, `each`, `mixture of ..`."""

    def hidden_variables(self) -> set[str]:
        """Return the variables whose cells the blocks can contain."""
        return {c.variable for term, _ in self.weighted_blocks() for c in term.cells}

    def leaves(self) -> Iterator[MaskBody]:
        """Yield the masks of a mixture, including those of nested mixtures.

        Other masks yield themselves.
        """
        yield self

    def shares(self, normalised: Normalised) -> list[tuple[float, MaskBody]]:
        """Return the leaves that can be drawn, with their probabilities.

        `normalised` turns the weights of a mixture's rows into probabilities.
        """
        return [(1.0, self)]

    @property
    def parts(self) -> tuple[MaskBody, ...]:
        """The masks in the rows of a mixture."""
        return ()

    @property
    def has_loops(self) -> bool:
        """Whether a row of a mixture has a `for`, which binding expands."""
        return any(part.has_loops for part in self.parts)

    @property
    def nesting(self) -> tuple[int, int]:
        """The number of masks in a mixture, including nested mixtures, and the number of levels."""
        return 1, 0

    def weighted_blocks(self) -> Sequence[tuple[BlockTerm, Expression | None]]:
        """Return the listed blocks with their weights or rates.

        None means that all weights are equal.
        """
        return ()

    def weights(self) -> list[Expression]:
        """Return the weights and rates of its leaves."""
        return [w for leaf in self.leaves() for _, w in leaf.weighted_blocks() if w is not None]

    @property
    def weight_word(self) -> str:
        """The name of the number beside a block: "weight" or "rate"."""
        return "weight"

    @property
    def adds_equal_blocks(self) -> bool:
        """Whether it draws one of the blocks that it lists.

        Equal blocks then count as one block, and their weights add up.
        """
        return False

    @property
    def options(self) -> Mapping[str, object]:
        """The arguments of its form, or an empty mapping if it is not a form."""
        return {}

    @property
    def block_size(self) -> Expression | None:
        """The number of cells of each block, or None if no form determines it."""
        return None

    @property
    def is_least_confident(self) -> bool:
        """Whether a network determines the cells that it draws."""
        return False

    @property
    def is_percolation(self) -> bool:
        """Whether it draws clusters. Only an update can use such a mask."""
        return False

    @property
    def is_visits(self) -> bool:
        """Whether it draws a pass of a sampler, and scores and weighs the cells settled in it."""
        return False

    @property
    def has_least_confident(self) -> bool:
        """Whether it is `least_confident` or contains such a part."""
        return any(leaf.is_least_confident for leaf in self.leaves())


@node
class Listed(MaskBody):
    """Blocks with weights, from `blocks(..)` or `choose w : ..`.

    Attributes:
        terms: the blocks with their weights.
        uniform: whether it is `blocks(..)`, which counts each distinct block once.
        call: the call of `blocks`, with its options.
    """

    terms: tuple[tuple[BlockTerm, Expression | None], ...]
    uniform: bool
    call: FormCall | None = None

    @property
    def kind(self) -> str:
        return "blocks" if self.uniform else "choose"

    def weighted_blocks(self) -> Sequence[tuple[BlockTerm, Expression | None]]:
        return self.terms

    @property
    def adds_equal_blocks(self) -> bool:
        return True

    @property
    def options(self) -> Mapping[str, object]:
        return {} if self.call is None else self.call.arguments


@node
class Independent(MaskBody):
    """The body `each r : CELL for ..`, which draws every cell independently."""

    terms: tuple[tuple[BlockTerm, Expression], ...]

    @property
    def kind(self) -> str:
        return "each"

    def weighted_blocks(self) -> Sequence[tuple[BlockTerm, Expression | None]]:
        return self.terms

    @property
    def weight_word(self) -> str:
        return "rate"


@node
class FormMask(MaskBody):
    """A mask given by a form.

    The form is `subsets`, `everything`, `bernoulli`, `least_confident` or `visits` over
    `variables`, or `percolation` over `edges`, which are pairs of their cells.
    """

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


@node
class MaskMixture(MaskBody):
    """The mixture p(K | x) = sum of v p_m(K | x), with normalised weights v.

    Attributes:
        rows: the weights and masks.
        extent: the value of `nesting`, computed by the check.
        turns: the clauses of each row, or () if no row has any. A bound program has expanded them.
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
    def has_loops(self) -> bool:
        return bool(self.turns) or any(part.has_loops for part in self.parts)

    @property
    def nesting(self) -> tuple[int, int]:
        return self.extent


@node
class Mask(Checked):
    """A checked mask.

    `given` contains the variables that weights and rates may mention. If a `var` or `latent` is
    among them, the mask is adaptive.
    """

    name: str
    model: str
    given: tuple[str, ...]
    body: MaskBody
    adaptive: bool
    mentions_parameter: bool
