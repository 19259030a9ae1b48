"""Sweeps of single cells of two values, 32 chains in a word: bit c of a word is the value of chain c of 32.

`plan/_packing.py` says which sweeps can be. For each cell the neighbours that are at their second
value are counted bit by bit, the binary digits of each chain's probability are read from a table by
what was counted, and compared with random digits, the last first. A word of random digits is hashed
from the key of the first of its 32 chains, and chain c takes bit c: what a chain draws depends on
its own number and on that key, and on no other chain. The probability is that of the rarer value:
however small it is, 24 digits, and what they leave out as a float, are all of it. What stands
behind 24 random digits is a fraction of the chain, which the cells of a turn share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from ..plan import BITS, Packing
from ._arrays import float_type, on_device
from ._kernel import AbstractKernel, Info, State, Target, free
from ._loop import INSIDE
from ._random import behind_each, fold, hashed
from ._tabled_sweep import TabledSweepKernel

LANES = 32  # chains of a word
ALL = 0xFFFFFFFF
HASHES = BITS // 2  # of two words each
UNROLLED = 6  # hashes that are written out: of more, compiling takes long
CELLS = 1 << 14  # of a turn: what it holds stays near the processor
Packed = UInt32[Array, "slots words"]


class PackedTurns(eqx.Module):
    """Cells that are redrawn at once, turn after turn; the last axis of `slots` and `opposed` is that of neighbours."""

    cells: Int[Array, "turns blocks"]
    slots: Int[Array, "turns blocks neighbours"]
    # all bits where a neighbour counts at its first value; None: nowhere
    opposed: UInt32[Array, "turns blocks neighbours"] | None
    # all bits where a cell is of a class; None: there is one
    kinds: UInt32[Array, "turns classes blocks"] | None
    start: int = eqx.field(static=True)
    padded: bool = eqx.field(static=True)


class PackedState(NamedTuple):
    """The words of all slots; `chains` holds nothing, and has an axis as long as there are chains."""

    held: Packed
    chains: Int[Array, "none chains"]


class PackedSweepKernel(AbstractKernel):
    """`plain` for packed chains, at parameters that are known; at another inverse temperature `plain` itself.

    Attributes:
        digits: of the probabilities of rarer values, all bits where a digit is 1: (24 digits,
            combinations of class and counts).
        rest: what the digits leave out, times 2^24.
        usual: all bits where the first value is the rarer one.
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

    def prepared(self, target: Target) -> PackedSweepKernel:
        # which a step reads at another temperature alone
        return replace(self, plain=self.plain.prepared(target))

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        if target.beta is not None:
            return self.plain.step(target, keys, state)
        carried, info = self.move(target, keys, self.enter(target, state))
        return self.leave(target, carried), info

    def enter(self, target: Target, state: State) -> Any:
        if target.beta is not None:
            return self.plain.enter(target, state)
        codes, chains = state.codes.astype(jnp.uint32), state.codes.shape[1]
        codes = jnp.pad(codes, ((0, 1), (0, -chains % LANES))).at[self.plain.order].get(**INSIDE)
        lanes = codes.reshape(codes.shape[0], -1, LANES) << _shifts(LANES, 1, 3, 2)
        return PackedState(lanes.sum(axis=2, dtype=jnp.uint32), jnp.zeros((0, chains), jnp.int32))

    def leave(self, target: Target, carried: Any) -> State:
        if target.beta is not None:
            return self.plain.leave(target, carried)
        words = carried.held.at[self.plain.slots].get(**INSIDE)
        codes = _lanes(words).reshape(words.shape[0], -1)
        return State(codes[:, : carried.chains.shape[1]].astype(jnp.int32))

    def move(self, target: Target, keys: PRNGKeyArray, carried: Any) -> tuple[Any, Info]:
        if target.beta is not None:
            return self.plain.move(target, keys, carried)
        before, chains, ours = carried.held, keys.shape[0], keys[::LANES]
        held = before
        for k, stage in enumerate(self.stages):
            held = self.swept(target, fold(ours, k), stage, held)
        changed = lane_sums(before ^ held)[:chains]
        drawn = sum((free(target, s.cells).sum(dtype=jnp.int32) for s in self.stages), jnp.zeros((), jnp.int32))
        none = jnp.zeros((0, chains), jnp.int32)
        return carried._replace(held=held), Info(changed[None], jnp.broadcast_to(drawn, (1, chains)), none, none)

    def swept(self, target: Target, keys: PRNGKeyArray, stage: PackedTurns, held: Packed) -> Packed:
        """The words after a stage's turns."""
        n = stage.cells.shape[1]

        def one(held: Packed, inputs: tuple[Array, PackedTurns, Array]) -> tuple[Packed, None]:
            number, turn, last = inputs
            first = stage.start + number * n
            words = [held.at[turn.slots[:, d]].get(**INSIDE) for d in range(turn.slots.shape[1])]
            words = jax.lax.optimization_barrier(words)  # read once, not for every digit
            rare = drawn_words(partial(self.combined, turn, words), self.digits, last, keys, number * n)
            new = rare ^ read_digit(self.combined(turn, words), self.usual)
            if stage.padded or target.clamped is not None:
                old = jax.lax.dynamic_slice_in_dim(held, first, n)
                new = jnp.where(free(target, turn.cells)[:, None], new, old)
            return jax.lax.dynamic_update_slice_in_dim(held, new, first, axis=0), None

        turns = stage.cells.shape[0]
        last = below_behind(keys, turns, self.rest)
        return jax.lax.scan(one, held, (jnp.arange(turns, dtype=jnp.int32), stage, last))[0]

    def combined(self, turn: PackedTurns, words: list[Array]) -> list[UInt32[Array, "blocks words"]]:
        """For each class and counts of neighbours, the chains in which a cell has them."""
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


def counted(words: Sequence[Array], whole: Array) -> list[Array]:
    """The bits in which exactly 0, 1, .. of the words are 1."""
    counts = [whole]
    for w in words:
        up = [c & w for c in counts]
        stay = [c & ~w for c in counts]
        counts = [stay[0], *(s | u for s, u in zip(stay[1:], up[:-1], strict=True)), up[-1]]
    return counts


def below_behind(keys: PRNGKeyArray, turns: int, rest: Float[Array, " combinations"]) -> UInt32[Array, "turns combinations words"]:
    """For each turn and combination, the chains whose fraction lies below what its digits leave out."""
    found = behind_each(keys, turns * LANES).reshape(-1, turns, LANES).swapaxes(0, 1)
    below = (found[:, None] < rest[None, :, None, None]).astype(jnp.uint32)
    return (below << _shifts(LANES, 1, 4, 3)).sum(axis=3, dtype=jnp.uint32)


def drawn_words(
    combined: Callable[[], Sequence[Array]], digits: Array, last: Array, keys: PRNGKeyArray, first: Array
) -> UInt32[Array, "blocks words"]:
    """Bits that are 1 with the probability that their combination has: random digits below those of the probability, the last first.

    Below so far: a digit of the probability is 1 and the random one 0, or they are equal and those
    behind them are below; `last` says it of what stands behind all digits.
    """
    start = read_digit(combined(), last[:, None])
    cell = (first.astype(jnp.uint32) + jnp.arange(start.shape[0], dtype=jnp.uint32))[:, None]

    def some(k: Array, below: Array) -> Array:
        found = combined()  # anew for some digits each: these take few operations, and memory none
        for i in range(UNROLLED):
            number = k.astype(jnp.uint32) * UNROLLED + i
            for j, word in enumerate(hashed(keys, cell * HASHES + number)):
                digit = read_digit(found, digits[2 * (UNROLLED * k + i) + j])
                below = (digit & ~word) | ((digit | ~word) & below)
        return below

    return jax.lax.fori_loop(0, HASHES // UNROLLED, some, start)


def read_digit(found: Sequence[Array], digit: UInt32[Array, ...]) -> UInt32[Array, "blocks words"]:
    """A binary digit of each chain's probability."""
    return reduce(or_, (f & digit[k] for k, f in enumerate(found)))


def lane_sums(words: Packed) -> Int[Array, " chains"]:
    """In how many words each bit is 1: sums of 15 words fit in every fourth bit, sums of 17 such in every eighth."""
    count, chains = words.shape
    parts = jnp.pad(words, ((0, -count % (15 * 17)), (0, 0))).reshape(15, 1, -1, chains)
    fours = _sum_of((parts >> _shifts(4, 1, 4, 1)) & 0x11111111)  # bit 4 k + s at s
    fours = jax.lax.optimization_barrier(fours).reshape(4, 17, -1, chains).swapaxes(0, 1)[:, None]
    eights = _sum_of((fours >> _shifts(2, 4, 5, 1)) & 0x0F0F0F0F)  # bit 8 k + 4 r + s at r, s
    bytes_ = (jax.lax.optimization_barrier(eights)[..., None] >> _shifts(4, 8, 5, 4)) & 0xFF
    return bytes_.sum(axis=2, dtype=jnp.int32).transpose(2, 3, 0, 1).reshape(-1)


def _sum_of(parts: Array) -> Array:
    """Along the first axis, written out."""
    return sum(parts[1:], parts[0])


def _lanes(words: Array) -> UInt32[Array, "slots words lanes"]:
    return (words[..., None] >> _shifts(LANES, 1, words.ndim + 1, words.ndim)) & 1


def _shifts(count: int, apart: int, rank: int, axis: int) -> UInt32[Array, ...]:
    """0, `apart`, .. along one axis."""
    return apart * jnp.arange(count, dtype=jnp.uint32).reshape(*(1,) * axis, -1, *(1,) * (rank - axis - 1))


def packed_sweep(plain: TabledSweepKernel, plan: Packing, inside: Sequence[Bool[np.ndarray, "colours blocks"]]) -> PackedSweepKernel:
    """A planned sweep of packed chains on the device; `inside`: which cells of each stage are no padding."""
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
    """Colours in equal parts of at most so many cells, where there are such; cells of one colour may be redrawn in any order."""
    parts = next((k for k in range(math.ceil(blocks / CELLS), 4 * math.ceil(blocks / CELLS)) if blocks % k == 0), 1)
    return colours * parts, blocks // parts
