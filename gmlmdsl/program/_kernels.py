"""Checked kernels of a sampler: each names its kind to a visitor, which gives it a meaning."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ._blocks import BlockTerm, FormCall
from ._mask_bodies import Mask
from ._terms import Checked, Clauses, Expression, InputValue, Loop

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Kernel(Checked, abc.ABC):
    """One statement of a sampler's body: an update, or what runs other kernels."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels that it runs."""
        return ()

    def inside(self) -> Iterator[Kernel]:
        """The kernel, and then every kernel in it, each before those that it runs."""
        yield self
        for part in self.parts:
            yield from part.inside()

    @abc.abstractmethod
    def accept(self, visitor: KernelVisitor[T]) -> T:
        """What a visitor answers for a kernel of this kind."""


class KernelVisitor(Protocol[T_co]):
    """One answer for each kind of kernel. Whatever gives kernels a meaning is one: what is derived, printed, verified."""

    def start(self, kernel: Start, /) -> T_co: ...
    def sweep(self, kernel: Sweep, /) -> T_co: ...
    def random(self, kernel: RandomUpdate, /) -> T_co: ...
    def cycle(self, kernel: Cycle, /) -> T_co: ...
    def repeat(self, kernel: Repeat, /) -> T_co: ...
    def mixture(self, kernel: KernelMixture, /) -> T_co: ...
    def temper(self, kernel: Temper, /) -> T_co: ...


@dataclass(frozen=True, slots=True)
class Start(Kernel):
    """`start from S`: what follows begins with a draw of the decoder S, whatever stood before."""

    name: str
    call: FormCall

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.start(self)


class Update(Kernel):
    """A kernel that redraws cells itself: fixed blocks, or one drawn from a mask. Both say whether they do it `independently`.

    `turn`: the index values, `k = 2`, of one that a bound program has written out.
    """

    __slots__ = ()
    independently: bool
    turn: str

    @abc.abstractmethod
    def either(self, sweep: Callable[[Sweep], T], random: Callable[[RandomUpdate], T]) -> T:
        """What one of two functions answers: for fixed blocks, or for one that is drawn."""

    @property
    def drawn_mask(self) -> Mask | None:
        """The mask of a block that is drawn."""
        return None

    @abc.abstractmethod
    def hidden_variables(self) -> set[str]:
        """The variables whose cells it redraws."""


@dataclass(frozen=True, slots=True)
class Sweep(Update):
    """`update BLOCK for ..`: every block once, those that share no factor in parallel."""

    blocks: BlockTerm
    independently: bool
    turn: str = field(default="", compare=False)

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
    turn: str = field(default="", compare=False)

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

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return self.body

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.cycle(self)


@dataclass(frozen=True, slots=True)
class Repeat(Kernel):
    """The body `count` times, or once for each turn of `loop`, which a bound program has written out."""

    count: Expression
    body: tuple[Kernel, ...]
    loop: Loop | None = None

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return self.body

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.repeat(self)


@dataclass(frozen=True, slots=True)
class KernelMixture(Kernel):
    """One row, picked with its weight.

    `turns`: the clauses of each row, which a bound program has written out; empty where no row has any.
    """

    rows: tuple[tuple[Expression, Kernel], ...]
    turns: tuple[Clauses | None, ...] = ()

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return tuple(kernel for _, kernel in self.rows)

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.mixture(self)


@dataclass(frozen=True, slots=True)
class Temper(Kernel):
    """The body on replicas at each beta, with exchanges.

    `source`: the input that lists the betas, which a bound program has written out; None where the program lists them.
    """

    betas: tuple[Expression, ...]
    body: tuple[Kernel, ...]
    source: InputValue | None = None

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return self.body

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.temper(self)


def kernels_in(body: Iterable[Kernel] | FormCall) -> Iterator[Kernel]:
    """Every kernel of a sampler's body, each before those that it runs; of a form none."""
    for kernel in () if isinstance(body, FormCall) else body:
        yield from kernel.inside()


def start_of(body: Iterable[Kernel] | FormCall) -> Start | None:
    """The decoder that each draw of a sampler's body begins with, where one is named."""
    return next((kernel for kernel in kernels_in(body) if isinstance(kernel, Start)), None)


def updates_in(body: Iterable[Kernel] | FormCall) -> Iterator[Sweep | RandomUpdate]:
    """Every update of a sampler's body, in the order of the text."""
    return (kernel for kernel in kernels_in(body) if isinstance(kernel, Update))  # type: ignore[misc]


def ladder_in(body: Iterable[Kernel] | FormCall) -> Temper | None:
    """The first `temper` of a sampler's body."""
    return next((kernel for kernel in kernels_in(body) if isinstance(kernel, Temper)), None)
