"""Random words for many chains at once, each from its own key: bit for bit those of `jax.random`, in one fused loop.

`jax.random` runs the rounds of its generator in a loop of small operations on a CPU, chain by
chain; unrolled over (numbers, chains) they are several times faster and need no transposition. What
becomes of words stands in `_picks.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from ._arrays import float_type, on_device

Bits = UInt32[Array, "..."]
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
EVERY = 0xFFFFFFFF  # no number of a level: what is hashed with it is of a chain
BEHIND = 4  # words behind those of a draw


class Words(eqx.Module):
    """What values are picked by: two random words for each draw and level of a choice, and of each chain what stands behind their bits.

    Floats behind 0 are as near to one another as they are to 0, and a fraction with enough bits is
    rounded to them. So it lies below any p with a probability that is p but for rounding, however
    small p is. Bits behind those of a draw are shared by the draws of a chain: it does not change
    how one draw is distributed, and of two it takes that both depend on them, of which the
    probability is 2^-62 or less.
    """

    high: UInt32[Array, "levels *shape chains"]
    low: UInt32[Array, "levels *shape chains"]
    behind: tuple[Float[Array, "*one chains"], Float[Array, "*one chains"]]

    def having(self, f: Callable[[Bits], Bits]) -> Words:
        """Those of other places: the words of all levels as `f` has them."""
        return Words(f(self.high), f(self.low), self.behind)

    @property
    def colours(self) -> tuple[Bits, Bits]:
        """The words with the first axis of draws before that of levels: what a loop over colours goes through."""
        return jnp.moveaxis(self.high, 1, 0), jnp.moveaxis(self.low, 1, 0)

    @property
    def transposed(self) -> Words:
        """Of draws in one axis, chains first."""
        return Words(jnp.swapaxes(self.high, 1, 2), jnp.swapaxes(self.low, 1, 2), (self.behind[0][:, None], self.behind[1][:, None]))

    def number(self, level: int = 0) -> Float[Array, "*shape chains"]:
        """A fraction of 62 bits of its own."""
        high, low = self.high[level], self.low[level]
        return fraction(high, fraction(low, _beside(high, self.behind[0])))

    def numbers(self) -> tuple[Array, Array]:
        """Two independent fractions of 31 bits of their own."""
        high, low = self.high[0], self.low[0]
        return fraction(high, _beside(high, self.behind[0])), fraction(low, _beside(low, self.behind[1]))


def fold(keys: PRNGKeyArray, number: Array | int) -> PRNGKeyArray:
    """Every chain's key with a number folded in, one for all or one for each."""
    if not _is_threefry(_generator_of(keys)):
        return jax.vmap(jax.random.fold_in)(keys, jnp.broadcast_to(number, keys.shape))
    data = jax.random.key_data(keys)
    count = jnp.full(data.shape[:1], number, jnp.uint32)

    def turn(k: Array, data: Bits) -> Bits:
        return jnp.where(k == 0, jnp.stack(_threefry(data[:, 0], data[:, 1], jnp.zeros_like(count), count), axis=1), data)

    # A loop of which the second turn changes nothing: what a loop gives stands in memory. Otherwise
    # XLA writes the rounds out in every loop that reads the keys, and does them anew for each
    # number there.
    return jax.random.wrap_key_data(jax.lax.fori_loop(0, 2, turn, data), impl=jax.random.key_impl(keys))


def made_apart(codes: Array) -> Array:
    """The same array, none of which is negative, made before what reads it.

    On a CPU XLA writes a slice in place on one thread, with all that it computes there. A loop
    takes nothing in; this one never turns.
    """
    if jax.default_backend() != "cpu":
        return codes
    first = (0,) * codes.ndim
    return jax.lax.while_loop(lambda made: made[first] < 0, jnp.zeros_like, codes)


def keys_on_host(seed: int, *numbers: np.ndarray) -> PRNGKeyArray | None:
    """The key of a seed below 2^64 with arrays of numbers folded in, one after another, as by `fold`; None for other generators.

    Nothing is compiled.
    """
    if not _is_threefry(str(jax.config.jax_default_prng_impl)):  # pyright: ignore[reportAttributeAccessIssue]
        return None
    high, low = (np.array(w, np.uint32) for w in (seed >> 32, seed & 0xFFFFFFFF))
    for number in numbers:
        count = np.asarray(number, np.uint32)
        high, low = _threefry(high, low, np.zeros_like(count), count)
    return jax.random.wrap_key_data(on_device(np.stack([high, low], axis=-1)), impl="threefry2x32")


def words(
    keys: PRNGKeyArray, shape: tuple[int, ...], levels: int = 1, first: Array | int | None = None, rest: tuple[Array, Array] | None = None
) -> Words:
    """Random words for draws of this shape, chains last.

    Args:
        keys: of each chain.
        shape: of the draws.
        levels: of each draw, see `levels_of`.
        first: of more draws those from this one on, so that a loop draws the ones that it needs.
        rest: what `behind` gives, where a loop has it made before.
    """
    n, rest = math.prod(shape), behind(keys) if rest is None else rest
    if not _is_threefry(_generator_of(keys)) or n >= 2**32:
        keys = keys if first is None else fold(keys, first)  # others cannot begin in the middle
        return _of_bits(jnp.moveaxis(jax.vmap(lambda k: jax.random.bits(k, (2, levels, *shape), jnp.uint32))(keys), 0, -1), rest)
    count = (jnp.arange(n, dtype=jnp.uint32) + jnp.asarray(0 if first is None else first, jnp.uint32))[:, None]
    each = (jnp.stack(level) for level in zip(*(hashed(keys, count, level) for level in range(levels)), strict=True))
    high, low = (e.reshape(levels, *shape, keys.shape[0]) for e in each)
    return Words(high, low, rest)


def words_apart(keys: PRNGKeyArray, n: int, levels: int = 1) -> Words:
    """`words` in the generator's own loop; see `fold_apart`. Those of a draw do not depend on how many there are."""
    bits = jax.vmap(lambda k: jax.random.bits(k, (2 * BEHIND + 2 * levels * n,), jnp.uint32))(keys).T
    first, second = ((0.5 + jnp.zeros(bits.shape[1:], float_type())),) * 2
    for k in range(BEHIND):
        first, second = fraction(bits[2 * k], first), fraction(bits[2 * k + 1], second)
    return _of_bits(bits[2 * BEHIND :].reshape(n, levels, 2, -1).transpose(2, 1, 0, 3), (first, second))


def _of_bits(bits: Bits, rest: tuple[Array, Array]) -> Words:
    return Words(bits[0], bits[1], rest)


def behind(keys: PRNGKeyArray) -> tuple[Array, Array]:
    """Two fractions in (0, 1) for each chain, of 124 bits each, as floats; made in a loop, so that they stand in memory, see `fold`."""
    data = jax.random.key_data(keys)
    half = jnp.full(data.shape[:1], 0.5, float_type())

    def turn(k: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
        high, low = _threefry(data[:, 0], data[:, 1], jnp.full_like(data[:, 0], EVERY), k.astype(jnp.uint32))
        return fraction(high, at[0]), fraction(low, at[1])

    return jax.lax.fori_loop(0, BEHIND, turn, (half, half))


def behind_each(keys: PRNGKeyArray, n: int) -> Float[Array, "chains n"]:
    """So many fractions in (0, 1) of 124 bits for each key, made in a loop like those of `behind`."""
    data = jax.random.key_data(keys)
    count = jnp.broadcast_to(jnp.arange(n, dtype=jnp.uint32)[None], (data.shape[0], n))

    def turn(k: Array, at: Array) -> Array:
        level = jnp.full_like(count, EVERY - 1) - k.astype(jnp.uint32)
        high, low = _threefry(data[:, 0, None], data[:, 1, None], level, count)
        return fraction(high, fraction(low, at))

    return jax.lax.fori_loop(0, BEHIND // 2, turn, jnp.full(count.shape, 0.5, float_type()))


def _beside(words: Bits, rest: Array) -> Array:
    return rest.reshape((1,) * (words.ndim - rest.ndim) + rest.shape)


def fraction(word: Bits, rest: Array | float) -> Array:
    """The first 31 bits of a word as a fraction, and behind them another fraction: relative to itself it is as fine at 0 as anywhere."""
    # on CPUs signed ones become floats in one operation
    whole = jax.lax.bitcast_convert_type(word >> jnp.uint32(1), jnp.int32)
    return (whole.astype(float_type()) + rest) * float_type().type(2.0**-31)


def hashed(keys: PRNGKeyArray, count: UInt32[Array, "n 1"], level: Array | int = 0) -> tuple[Bits, Bits]:
    """Two words of random bits for each key and pair of numbers; of other generators than Threefry its words are keys to that."""
    data = jax.random.key_data(keys)
    return _threefry(data[None, :, 0], data[None, :, 1], jnp.full_like(count, level), count)


def fold_apart(keys: PRNGKeyArray, number: Array | int) -> PRNGKeyArray:
    """`fold` in the generator's own loop, which no other loop can take in.

    Where numbers feed a network, XLA would write the unrolled rounds out at each of its reads, and
    compile for minutes.
    """
    return jax.vmap(lambda k: jax.random.fold_in(k, number))(keys)


def _generator_of(keys: PRNGKeyArray) -> str:
    return str(jax.random.key_impl(keys))


def _is_threefry(generator: str) -> bool:
    return generator == "threefry2x32" and bool(jax.config.jax_threefry_partitionable)  # pyright: ignore[reportAttributeAccessIssue]


def _threefry(key0: Any, key1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Twenty rounds of Threefry-2x32 on words, arrays of the device or of the host.

    Reference: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
    """
    keys = (key0, key1, key0 ^ key1 ^ PARITY)
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << turn) | (x1 >> (32 - turn))) ^ x0
        x0, x1 = x0 + keys[(group + 1) % 3], x1 + keys[(group + 2) % 3] + (group + 1)
    return x0, x1
