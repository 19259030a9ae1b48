"""Sweeps of single cells with two values, 32 chains in a word: bit c is the value of chain c of 32.

`plan/_packing.py` decides which sweeps can be packed. A turn redraws several cells at once, and a
cell is redrawn in three parts:

- The neighbours that have their second value are counted, bit by bit.
- The binary digits of each chain's probability are read from a table, at these counts.
- The digits are compared with random digits, starting with the last digit.

A word of random digits is hashed from the key of the first of its 32 chains, and chain c takes bit
c. The draws of a chain therefore depend on its own number and on that key, and on no other chain.

The probability is that of the rarer value. Its 24 digits, and their remainder as a float, represent
it exactly, however small it is. The random number has 24 digits too. Its remainder after them is a
fraction that each chain draws once per turn, so that all cells of the turn share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt32

from .._diagnostics import fail
from ..plan import Packing
from ..plan.limits import BITS
from ._arrays import float_type, on_device
from ._kernel import AbstractKernel, Info, State, Target, free
from ._loop import INSIDE
from ._mesh import Spread
from ._random import behind_each, fold, hashed
from ._tabled_sweep import TabledSweepKernel
from .limits import CELLS_PER_TURN, HASHES_UNROLLED

LANES = 32  # chains in a word
ALL = 0xFFFFFFFF
HASHES = BITS // 2  # number of hashes, each of two words
Packed = UInt32[Array, "slots words"]


class PackedTurns(eqx.Module):
    """Cells that are redrawn at once, for each of successive turns.

    The last axis of `slots` and `opposed` is that of the neighbours. Cells that are spread over
    devices are redrawn in larger turns. Each of them stands for `parts` turns of one device and has
    other random fractions.
    """

    cells: Int[Array, "turns blocks"]
    slots: Int[Array, "turns blocks neighbours"]
    # all bits are 1 where a neighbour counts at its first value; None: there is no such neighbour
    opposed: UInt32[Array, "turns blocks neighbours"] | None
    # all bits are 1 where a cell belongs to a class; None: there is only one class
    kinds: UInt32[Array, "turns classes blocks"] | None
    start: int = eqx.field(static=True)
    padded: bool = eqx.field(static=True)
    parts: int = eqx.field(static=True, default=1)

    def over(self, spread: Spread, colours: int) -> PackedTurns:
        """Return one turn for each colour, with its cells over an axis of a mesh."""
        parts = self.cells.shape[0] // colours

        def joined(a: Array) -> Array:
            b = np.asarray(a).reshape(colours, -1, *a.shape[2:])
            return spread.put(b, 1)

        kinds = None
        if self.kinds is not None:
            classes = self.kinds.shape[1]
            b = np.asarray(self.kinds).reshape(colours, parts, classes, -1).swapaxes(1, 2)
            kinds = spread.put(b.reshape(colours, classes, -1))
        opposed = None if self.opposed is None else joined(self.opposed)
        return PackedTurns(joined(self.cells), joined(self.slots), opposed, kinds, self.start, self.padded, parts)


class PackedState(NamedTuple):
    """Words of all slots.

    `chains` is an empty array; the length of its second axis is the number of chains.
    """

    held: Packed
    chains: Int[Array, "none chains"]


class PackedSweepKernel(AbstractKernel):
    """The kernel `plain` for packed chains at known parameters.

    At another inverse temperature the kernel runs `plain` itself.

    Attributes:
        plain: the kernel of the same sweep for chains that are not packed.
        stages: the turns of the sweep, in order.
        digits: the digits of the probabilities of rarer values, all bits 1 if a digit is 1; shape
            (24 digits, combinations of class and counts).
        rest: the remainder of each probability after its digits, times 2^24.
        usual: all bits are 1 where the first value is the rarer one.
        degrees: the number of neighbours in each group of neighbours that are counted together.
    """

    plain: TabledSweepKernel
    stages: tuple[PackedTurns, ...]
    digits: UInt32[Array, "digits combinations"]
    rest: Float[Array, " combinations"]
    usual: UInt32[Array, " combinations"]
    degrees: tuple[int, ...] = eqx.field(static=True)

    def held(self, cells: int) -> float:
        most = max((s.cells.shape[1] for s in self.stages), default=0)
        return (2 * cells + most * self.digits.shape[1]) * 4 / LANES

    def over(self, spread: Spread) -> PackedSweepKernel:
        """Return the kernel with the cells of each colour spread over an axis of a mesh."""
        plain = self.plain.over(spread)
        pairs = zip(self.stages, plain.stages, strict=True)
        return replace(self, plain=plain, stages=tuple(s.over(spread, p.cells.shape[0]) for s, p in pairs))

    def prepared(self, target: Target) -> PackedSweepKernel:
        # a step reads `plain` only at another temperature
        return replace(self, plain=self.plain.prepared(target))

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        if target.beta is not None:
            return self.plain.step(target, keys, state)
        carried, info = self.move(target, keys, self.enter(target, state))
        return self.leave(target, carried), info

    def enter(self, target: Target, state: State) -> PyTree:
        if target.beta is not None:
            return self.plain.enter(target, state)
        codes, chains = state.codes.astype(jnp.uint32), state.codes.shape[1]
        codes = jnp.pad(codes, ((0, 1), (0, -chains % LANES))).at[self.plain.order].get(**INSIDE)
        lanes = codes.reshape(codes.shape[0], -1, LANES) << _shifts(LANES, 1, 3, 2)
        return PackedState(lanes.sum(axis=2, dtype=jnp.uint32), jnp.zeros((0, chains), jnp.int32))

    def leave(self, target: Target, carried: PyTree) -> State:
        if target.beta is not None:
            return self.plain.leave(target, carried)
        words = carried.held.at[self.plain.slots].get(**INSIDE)
        codes = _lanes(words).reshape(words.shape[0], -1)
        return State(codes[:, : carried.chains.shape[1]].astype(jnp.int32))

    def move(self, target: Target, keys: PRNGKeyArray, carried: PyTree) -> tuple[PyTree, Info]:
        if target.beta is not None:
            return self.plain.move(target, keys, carried)
        before, chains, ours = carried.held, keys.shape[0], keys[::LANES]
        held = before
        for k, stage in enumerate(self.stages):
            held = self.swept(target, fold(ours, k), stage, held)
        changed = lane_sums(before ^ held)[:chains]
        drawn = self.plain.drawn(target)
        none = jnp.zeros((0, chains), jnp.int32)
        return carried._replace(held=held), Info(changed[None], jnp.broadcast_to(drawn, (1, chains)), none, none)

    def swept(self, target: Target, keys: PRNGKeyArray, stage: PackedTurns, held: Packed) -> Packed:
        """Return the words after all turns of a stage.

        Args:
            target: the distribution to draw from.
            keys: a key for each word of chains.
            stage: the turns.
            held: the words before them.
        """
        n = stage.cells.shape[1]

        def one(held: Packed, inputs: tuple[Array, PackedTurns, Array]) -> tuple[Packed, None]:
            number, turn, last = inputs
            first = stage.start + number * n
            words = [held.at[turn.slots[:, d]].get(**INSIDE) for d in range(turn.slots.shape[1])]
            # the barrier makes XLA read the words once and not for every digit
            words = jax.lax.optimization_barrier(words)
            fraction = jnp.broadcast_to(last, (*last.shape[:2], n // stage.parts, last.shape[3]))
            fraction = last[:, 0] if stage.parts == 1 else fraction.reshape(len(last), n, -1)
            rare = drawn_words(partial(self.combined, turn, words), self.digits, fraction, keys, number * n)
            new = rare ^ read_digit(self.combined(turn, words), self.usual)
            if stage.padded or target.clamped is not None:
                old = jax.lax.dynamic_slice_in_dim(held, first, n)
                new = jnp.where(free(target, turn.cells)[:, None], new, old)
            return jax.lax.dynamic_update_slice_in_dim(held, new, first, axis=0), None

        turns = stage.cells.shape[0]
        last = below_behind(keys, turns * stage.parts, self.rest)
        last = last.reshape(-1, stage.parts, *last.shape[1:]).swapaxes(1, 2)[:, :, :, None]
        return jax.lax.scan(one, held, (jnp.arange(turns, dtype=jnp.int32), stage, last))[0]

    def combined(self, turn: PackedTurns, words: list[Array]) -> list[UInt32[Array, "blocks words"]]:
        """Return for each combination of class and counts the chains in which a cell has it.

        The counts are those of the neighbours of the cell.
        """
        if turn.opposed is not None:
            words = [w ^ turn.opposed[:, d, None] for d, w in enumerate(words)]
        whole = jnp.full(words[0].shape, ALL, jnp.uint32)
        found = [whole] if turn.kinds is None else [jnp.broadcast_to(k[:, None], whole.shape) for k in turn.kinds]
        start = 0
        for degree in self.degrees:
            counts = counted(words[start : start + degree], whole)
            found = [f & c for f in found for c in counts]
            start += degree
        return found


def over_cells(kernel: AbstractKernel, spread: Spread) -> AbstractKernel:
    """Return a kernel whose sweeps have the cells of each colour over an axis of a mesh.

    Draws are those of one device, to the bit. The only exchange of a sweep gathers the drawn codes
    of a colour, which all later exchanges depend on. Exchanges therefore have one order, and
    several processes do not wait for different ones.

    Raises:
        GmlmError: E507 for a kernel without a sweep of single cells, and for a colour that the
            devices do not share equally.
    """
    sweeps = PackedSweepKernel, TabledSweepKernel
    parts, tree = jax.tree.flatten(kernel, is_leaf=lambda part: isinstance(part, sweeps))
    spread_out = [part.over(spread) if isinstance(part, sweeps) else part for part in parts]
    if all(a is b for a, b in zip(parts, spread_out, strict=True)):
        message = "`cell_axis=` spreads the colours of a sweep of single cells, which this sampler has not"
        raise fail("E507", message, help="`update x[i] for i in ..` is such a sweep; `mesh_axis=` spreads chains")
    return jax.tree.unflatten(tree, spread_out)


def counted(words: Sequence[Array], whole: Array) -> list[Array]:
    """Return the bits in which exactly 0, 1, .. of the words are 1."""
    counts = [whole]
    for w in words:
        up = [c & w for c in counts]
        stay = [c & ~w for c in counts]
        counts = [stay[0], *(s | u for s, u in zip(stay[1:], up[:-1], strict=True)), up[-1]]
    return counts


def below_behind(keys: PRNGKeyArray, turns: int, rest: Float[Array, " combinations"]) -> UInt32[Array, "turns combinations words"]:
    """Return for each turn and combination the chains whose fraction is below `rest`.

    `rest` is the remainder of the probability of the combination after its digits.
    """
    found = behind_each(keys, turns * LANES).reshape(-1, turns, LANES).swapaxes(0, 1)
    below = (found[:, None] < rest[None, :, None, None]).astype(jnp.uint32)
    return (below << _shifts(LANES, 1, 4, 3)).sum(axis=3, dtype=jnp.uint32)


def drawn_words(
    combined: Callable[[], Sequence[Array]], digits: Array, last: Array, keys: PRNGKeyArray, first: Array
) -> UInt32[Array, "blocks words"]:
    """Draw bits that are 1 with the probability of their combination.

    A bit is 1 if the random number is below the probability. The loop goes over the digits from the
    last to the first. The random number is below so far in two cases:

    - The digit of the probability is 1 and the random digit is 0.
    - The digits are equal, and the random number is below in the digits after them.

    Args:
        combined: returns the chains of each combination.
        digits: the digits of the probabilities.
        last: the chains whose remainder after all digits is below that of the probability, for all
            cells or for each; shape (combinations, 1 or blocks, words).
        keys: a key for each word of chains.
        first: the number of the first cell.
    """
    start = read_digit(combined(), last)
    cell = (first.astype(jnp.uint32) + jnp.arange(start.shape[0], dtype=jnp.uint32))[:, None]

    def some(k: Array, below: Array) -> Array:
        # recomputed for each group of digits: this takes few operations, and no memory
        found = combined()
        for i in range(HASHES_UNROLLED):
            number = k.astype(jnp.uint32) * HASHES_UNROLLED + i
            for j, word in enumerate(hashed(keys, cell * HASHES + number)):
                digit = read_digit(found, digits[2 * (HASHES_UNROLLED * k + i) + j])
                below = (digit & ~word) | ((digit | ~word) & below)
        return below

    return jax.lax.fori_loop(0, HASHES // HASHES_UNROLLED, some, start)


def read_digit(found: Sequence[Array], digit: UInt32[Array, ...]) -> UInt32[Array, "blocks words"]:
    """Return one binary digit of each chain's probability."""
    return reduce(or_, (f & digit[k] for k, f in enumerate(found)))


def lane_sums(words: Packed) -> Int[Array, " chains"]:
    """Return for each bit position the number of words in which the bit is 1.

    Sums of 15 words fit into every fourth bit, and sums of 17 of these into every eighth bit.
    """
    count, chains = words.shape
    parts = jnp.pad(words, ((0, -count % (15 * 17)), (0, 0))).reshape(15, 1, -1, chains)
    fours = _sum_of((parts >> _shifts(4, 1, 4, 1)) & 0x11111111)  # bit 4 k + s is at index s
    fours = jax.lax.optimization_barrier(fours).reshape(4, 17, -1, chains).swapaxes(0, 1)[:, None]
    # bit 8 k + 4 r + s is at index r, s
    eights = _sum_of((fours >> _shifts(2, 4, 5, 1)) & 0x0F0F0F0F)
    bytes_ = (jax.lax.optimization_barrier(eights)[..., None] >> _shifts(4, 8, 5, 4)) & 0xFF
    return bytes_.sum(axis=2, dtype=jnp.int32).transpose(2, 3, 0, 1).reshape(-1)


def _sum_of(parts: Array) -> Array:
    """Return the sum along the first axis, written out."""
    return sum(parts[1:], parts[0])


def _lanes(words: Array) -> UInt32[Array, "slots words lanes"]:
    return (words[..., None] >> _shifts(LANES, 1, words.ndim + 1, words.ndim)) & 1


def _shifts(count: int, apart: int, rank: int, axis: int) -> UInt32[Array, ...]:
    """Return 0, `apart`, 2 `apart`, .. along one axis."""
    return apart * jnp.arange(count, dtype=jnp.uint32).reshape(*(1,) * axis, -1, *(1,) * (rank - axis - 1))


def packed_sweep(plain: TabledSweepKernel, plan: Packing, inside: Sequence[Bool[np.ndarray, "colours blocks"]]) -> PackedSweepKernel:
    """Return a planned sweep of packed chains on the device.

    `inside` has for each stage the cells that are not padding.
    """
    stages = []
    for stage, packed, real in zip(plain.stages, plan.stages, inside, strict=True):
        shape = _turns(*real.shape)
        slots, opposed, kinds = (a.reshape(*shape, *a.shape[2:]) for a in (packed.slots, packed.opposed, packed.kinds))
        several = np.arange(plan.usual.shape[0])[None, :, None] == kinds[:, None]
        stages.append(
            PackedTurns(
                on_device(np.asarray(stage.cells).reshape(shape), np.int32),
                on_device(slots, np.int32),
                on_device(opposed * np.uint32(ALL), np.uint32) if opposed.any() else None,
                on_device(several * np.uint32(ALL), np.uint32) if plan.usual.shape[0] > 1 else None,
                stage.start,
                not bool(real.all()),
            )
        )
    digits = (plan.thresholds.ravel() >> np.arange(BITS, dtype=np.uint32)[:, None]) & 1
    digits, usual = (on_device(a * np.uint32(ALL), np.uint32) for a in (digits, plan.usual.ravel()))
    return PackedSweepKernel(plain, tuple(stages), digits, on_device(plan.rest.ravel(), float_type()), usual, plan.degrees)


def _turns(colours: int, blocks: int) -> tuple[int, int]:
    """Return the number of turns and the number of cells in each.

    Colours are split into equal parts of at most `CELLS_PER_TURN` cells, if such parts exist. Cells
    of one colour may be redrawn in any order.
    """
    least = math.ceil(blocks / CELLS_PER_TURN)
    parts = next((k for k in range(least, 4 * least) if blocks % k == 0), 1)
    return colours * parts, blocks // parts
