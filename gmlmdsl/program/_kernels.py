"""Define the checked kernels of a sampler. A visitor gives each kind of kernel its meaning."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Protocol, TypeVar

from .._diagnostics import node
from ._mask_bodies import Mask
from ._terms import BlockTerm, Checked, Clauses, Expression, FormCall, InputValue, Loop

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Kernel(Checked, abc.ABC):
    """One statement of a sampler's body: an update, or a statement that runs other kernels."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels that it runs."""
        return ()

    @property
    def has_loops(self) -> bool:
        """Whether it, or a kernel or mask that it runs, has a loop that binding expands."""
        return any(part.has_loops for part in self.parts)

    def inside(self) -> Iterator[Kernel]:
        """Yield the kernel and then every kernel in it, each before the kernels that it runs."""
        yield self
        for part in self.parts:
            yield from part.inside()

    @abc.abstractmethod
    def accept(self, visitor: KernelVisitor[T]) -> T:
        """Return the visitor's result for a kernel of this kind."""


class KernelVisitor(Protocol[T_co]):
    """A result for each kind of kernel.

    The derivation, the printing and the verification of kernels are visitors.
    """

    def start(self, kernel: Start, /) -> T_co: ...
    def sweep(self, kernel: Sweep, /) -> T_co: ...
    def random(self, kernel: RandomUpdate, /) -> T_co: ...
    def cycle(self, kernel: Cycle, /) -> T_co: ...
    def repeat(self, kernel: Repeat, /) -> T_co: ...
    def mixture(self, kernel: KernelMixture, /) -> T_co: ...
    def temper(self, kernel: Temper, /) -> T_co: ...


@node
class Start(Kernel):
    """The statement `start from S`.

    The sampler begins each draw with a draw of the decoder S, independently of the previous state.
    """

    name: str
    call: FormCall

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.start(self)


class Update(Kernel):
    """A kernel that redraws cells itself: fixed blocks, or a block drawn from a mask.

    Attributes:
        independently: whether each cell is drawn given the old values of the others.
        turn: the index values, such as `k = 2`, if a bound program has expanded a loop.
    """

    __slots__ = ()
    independently: bool
    turn: str

    @abc.abstractmethod
    def either(self, sweep: Callable[[Sweep], T], random: Callable[[RandomUpdate], T]) -> T:
        """Return `sweep(self)` for fixed blocks, and `random(self)` for a block that is drawn."""

    @property
    def drawn_mask(self) -> Mask | None:
        """The mask from which the block is drawn, or None for fixed blocks."""
        return None

    @abc.abstractmethod
    def hidden_variables(self) -> set[str]:
        """Return the variables whose cells it redraws."""


@node
class Sweep(Update):
    """The statement `update BLOCK for ..`, which redraws every block once.

    Blocks that share no factor are redrawn in parallel.
    """

    blocks: BlockTerm
    independently: bool
    turn: str = field(default="", compare=False)

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.sweep(self)

    def either(self, sweep: Callable[[Sweep], T], random: Callable[[RandomUpdate], T]) -> T:
        return sweep(self)

    def hidden_variables(self) -> set[str]:
        return {c.variable for c in self.blocks.cells}


@node
class RandomUpdate(Update):
    """The statement `update x[K] where K ~ mask`. `within` is x, or empty for `update K`."""

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

    @property
    def has_loops(self) -> bool:
        return self.mask.body.has_loops

    def hidden_variables(self) -> set[str]:
        return self.mask.body.hidden_variables()


@node
class Cycle(Kernel):
    """Kernels that run in order."""

    body: tuple[Kernel, ...]

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return self.body

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.cycle(self)


@node
class Repeat(Kernel):
    """A body that runs `count` times, or once for each iteration of `loop`.

    A bound program has expanded the loop.
    """

    count: Expression
    body: tuple[Kernel, ...]
    loop: Loop | None = None

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return self.body

    @property
    def has_loops(self) -> bool:
        return self.loop is not None or any(part.has_loops for part in self.parts)

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.repeat(self)


@node
class KernelMixture(Kernel):
    """A kernel that runs one of its rows, drawn with the probability of its weight.

    Attributes:
        rows: the weights and kernels.
        turns: the clauses of each row, or () if no row has any. A bound program has expanded them.
    """

    rows: tuple[tuple[Expression, Kernel], ...]
    turns: tuple[Clauses | None, ...] = ()

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return tuple(kernel for _, kernel in self.rows)

    @property
    def has_loops(self) -> bool:
        return bool(self.turns) or any(part.has_loops for part in self.parts)

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.mixture(self)


@node
class Temper(Kernel):
    """A body that runs on replicas at each beta, with exchanges between them.

    Attributes:
        betas: the inverse temperatures.
        body: the kernels of each replica.
        source: the input that lists the betas, or None if the program lists them. A bound program
            has replaced it by `betas`.
    """

    betas: tuple[Expression, ...]
    body: tuple[Kernel, ...]
    source: InputValue | None = None

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return self.body

    @property
    def has_loops(self) -> bool:
        return self.source is not None or any(part.has_loops for part in self.parts)

    def accept(self, visitor: KernelVisitor[T]) -> T:
        return visitor.temper(self)


def kernels_in(body: Iterable[Kernel] | FormCall) -> Iterator[Kernel]:
    """Yield every kernel of a sampler's body, each before the kernels that it runs.

    A form contains no kernels.
    """
    for kernel in () if isinstance(body, FormCall) else body:
        yield from kernel.inside()


def start_of(body: Iterable[Kernel] | FormCall) -> Start | None:
    """Return the `start from` of a sampler's body, or None."""
    return next((kernel for kernel in kernels_in(body) if isinstance(kernel, Start)), None)


def updates_in(body: Iterable[Kernel] | FormCall) -> Iterator[Sweep | RandomUpdate]:
    """Return every update of a sampler's body, in the order of the text."""
    return (kernel for kernel in kernels_in(body) if isinstance(kernel, Update))  # type: ignore[misc]


def ladder_in(body: Iterable[Kernel] | FormCall) -> Temper | None:
    """Return the first `temper` of a sampler's body, or None."""
    return next((kernel for kernel in kernels_in(body) if isinstance(kernel, Temper)), None)
