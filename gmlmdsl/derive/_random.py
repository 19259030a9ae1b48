"""Random words for many chains at once, each from its own key, in one fused loop.

They equal those of `jax.random` bit for bit. On a CPU, `jax.random` runs the rounds of its
generator in a loop of small operations, chain by chain. Unrolled over (numbers, chains) the rounds
are several times faster and need no transposition. `_picks.py` turns words into values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from ._arrays import float_type, on_device

Bits = UInt32[Array, "..."]
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
EVERY = 0xFFFFFFFF  # not the number of a level: words hashed with it belong to a chain
BEHIND = 4  # words of a chain that extend those of a draw


class Words(eqx.Module):
    """Random words by which values are picked: two for each draw and level of a choice.

    `behind` has two fractions for each chain, which extend the bits of the words. Floats near 0 are
    as fine relative to their distance from 0 as elsewhere, and a fraction with enough bits is
    rounded to such a float. Hence the fraction is below any p with a probability that is p up to
    rounding, however small p is. The draws of a chain share the bits after those of a draw. This
    does not change the distribution of one draw. Two draws are dependent only if both depend on the
    shared bits, which has a probability of at most 2^-62.
    """

    high: UInt32[Array, "levels *shape chains"]
    low: UInt32[Array, "levels *shape chains"]
    behind: tuple[Float[Array, "*one chains"], Float[Array, "*one chains"]]

    def having(self, f: Callable[[Bits], Bits]) -> Words:
        """Return the words of other places: `f` is applied to the words of all levels."""
        return Words(f(self.high), f(self.low), self.behind)

    @property
    def colours(self) -> tuple[Bits, Bits]:
        """Words whose first axis of draws precedes the axis of levels, for a loop over colours."""
        return jnp.moveaxis(self.high, 1, 0), jnp.moveaxis(self.low, 1, 0)

    @property
    def transposed(self) -> Words:
        """Words of draws in one axis, with chains first."""
        return Words(jnp.swapaxes(self.high, 1, 2), jnp.swapaxes(self.low, 1, 2), (self.behind[0][:, None], self.behind[1][:, None]))

    def number(self, level: int = 0) -> Float[Array, "*shape chains"]:
        """Return a fraction with 62 bits of its own."""
        high, low = self.high[level], self.low[level]
        return fraction(high, fraction(low, _beside(high, self.behind[0])))

    def numbers(self) -> tuple[Array, Array]:
        """Return two independent fractions with 31 bits of their own."""
        high, low = self.high[0], self.low[0]
        return fraction(high, _beside(high, self.behind[0])), fraction(low, _beside(low, self.behind[1]))


def fold(keys: PRNGKeyArray, number: Array | int) -> PRNGKeyArray:
    """Fold a number into every chain's key: one number for all chains, or one for each."""
    if not _is_threefry(_generator_of(keys)):
        return jax.vmap(jax.random.fold_in)(keys, jnp.broadcast_to(number, keys.shape))
    data = jax.random.key_data(keys)
    count = jnp.full(data.shape[:1], number, jnp.uint32)

    def turn(k: Array, data: Bits) -> Bits:
        return jnp.where(k == 0, jnp.stack(_threefry(data[:, 0], data[:, 1], jnp.zeros_like(count), count), axis=1), data)

    # The second iteration of this loop changes nothing: the result of a loop is stored in memory.
    # Otherwise XLA would write the rounds out in every loop that reads the keys, and repeat them
    # there for each number.
    return jax.random.wrap_key_data(jax.lax.fori_loop(0, 2, turn, data), impl=jax.random.key_impl(keys))


def made_apart(codes: Array) -> Array:
    """Return the same array, computed before the operation that reads it.

    No entry of the array may be negative. On a CPU, XLA writes a slice in place on one thread, with
    all the computations that it fuses there. A loop does not fuse its inputs; this loop runs no
    iteration.
    """
    if jax.default_backend() != "cpu":
        return codes
    first = (0,) * codes.ndim
    return jax.lax.while_loop(lambda made: made[first] < 0, jnp.zeros_like, codes)


def keys_on_host(seed: int, *numbers: np.ndarray) -> PRNGKeyArray | None:
    """Return the key of a seed below 2^64 with arrays of numbers folded in, one after another.

    The result is that of `fold`; it is None for other generators. Nothing is compiled.
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
    """Return random words for draws of this shape, chains last.

    Args:
        keys: the key of each chain.
        shape: the shape of the draws.
        levels: the number of levels of each draw, see `levels_of`.
        first: the number of the first draw, so that a loop can draw only the words that it needs.
        rest: the result of `behind`, if a loop computes it in advance.
    """
    n, rest = math.prod(shape), behind(keys) if rest is None else rest
    if not _is_threefry(_generator_of(keys)) or n >= 2**32:
        # other generators cannot start in the middle
        keys = keys if first is None else fold(keys, first)
        return _of_bits(jnp.moveaxis(jax.vmap(lambda k: jax.random.bits(k, (2, levels, *shape), jnp.uint32))(keys), 0, -1), rest)
    count = (jnp.arange(n, dtype=jnp.uint32) + jnp.asarray(0 if first is None else first, jnp.uint32))[:, None]
    each = (jnp.stack(level) for level in zip(*(hashed(keys, count, level) for level in range(levels)), strict=True))
    high, low = (e.reshape(levels, *shape, keys.shape[0]) for e in each)
    return Words(high, low, rest)


def words_apart(keys: PRNGKeyArray, n: int, levels: int = 1) -> Words:
    """Return `words` from the generator's own loop; see `fold_apart`.

    The words of a draw do not depend on the number of draws.
    """
    bits = jax.vmap(lambda k: jax.random.bits(k, (2 * BEHIND + 2 * levels * n,), jnp.uint32))(keys).T
    first, second = ((0.5 + jnp.zeros(bits.shape[1:], float_type())),) * 2
    for k in range(BEHIND):
        first, second = fraction(bits[2 * k], first), fraction(bits[2 * k + 1], second)
    return _of_bits(bits[2 * BEHIND :].reshape(n, levels, 2, -1).transpose(2, 1, 0, 3), (first, second))


def _of_bits(bits: Bits, rest: tuple[Array, Array]) -> Words:
    return Words(bits[0], bits[1], rest)


def behind(keys: PRNGKeyArray) -> tuple[Array, Array]:
    """Return two fractions in (0, 1) for each chain, of 124 bits each, as floats.

    They are computed in a loop, so that they are stored in memory, see `fold`.
    """
    data = jax.random.key_data(keys)
    half = jnp.full(data.shape[:1], 0.5, float_type())

    def turn(k: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
        high, low = _threefry(data[:, 0], data[:, 1], jnp.full_like(data[:, 0], EVERY), k.astype(jnp.uint32))
        return fraction(high, at[0]), fraction(low, at[1])

    return jax.lax.fori_loop(0, BEHIND, turn, (half, half))


def behind_each(keys: PRNGKeyArray, n: int) -> Float[Array, "chains n"]:
    """Return n fractions in (0, 1) of 124 bits for each key, from the same loop as `behind`."""
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
    """Return the first 31 bits of a word as a fraction, followed by the bits of another fraction.

    The relative precision is the same near 0 as elsewhere.
    """
    # on CPUs signed integers become floats in one operation
    whole = jax.lax.bitcast_convert_type(word >> jnp.uint32(1), jnp.int32)
    return (whole.astype(float_type()) + rest) * float_type().type(2.0**-31)


def hashed(keys: PRNGKeyArray, count: UInt32[Array, "n 1"], level: Array | int = 0) -> tuple[Bits, Bits]:
    """Return two words of random bits for each key and pair of numbers.

    For a generator other than Threefry, the words of its keys are used as Threefry keys.
    """
    data = jax.random.key_data(keys)
    return _threefry(data[None, :, 0], data[None, :, 1], jnp.full_like(count, level), count)


def fold_apart(keys: PRNGKeyArray, number: Array | int) -> PRNGKeyArray:
    """Fold a number into every key, like `fold`, in the generator's own loop.

    No other loop can fuse that loop. If the numbers feed a network, XLA would otherwise write the
    unrolled rounds out at each read, and compile for minutes.
    """
    return jax.vmap(lambda k: jax.random.fold_in(k, number))(keys)


def _generator_of(keys: PRNGKeyArray) -> str:
    return str(jax.random.key_impl(keys))


def _is_threefry(generator: str) -> bool:
    return generator == "threefry2x32" and bool(jax.config.jax_threefry_partitionable)  # pyright: ignore[reportAttributeAccessIssue]


OneWord = TypeVar("OneWord", Array, np.ndarray)


def _threefry(key0: OneWord, key1: OneWord, x0: OneWord, x1: OneWord) -> tuple[OneWord, OneWord]:
    """Return twenty rounds of Threefry-2x32 on words, as arrays of the device or of the host.

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
