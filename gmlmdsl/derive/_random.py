"""Random numbers for many chains at once, each from its own key: bit for bit those of `jax.random`, in one fused loop.

`jax.random` runs the rounds of its generator in a loop of small operations on a CPU, chain by chain; unrolled over
(numbers, chains) they are several times faster and need no transposition.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from ._arrays import float_type, on_device

Words = UInt32[Array, "..."]
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def fold(keys: PRNGKeyArray, number: Array | int) -> PRNGKeyArray:
    """Every chain's key with a number folded in, one for all or one for each."""
    if not _is_threefry(_generator_of(keys)):
        return jax.vmap(jax.random.fold_in)(keys, jnp.broadcast_to(number, keys.shape))
    words = jax.random.key_data(keys)
    count = jnp.full(words.shape[:1], number, jnp.uint32)

    def turn(k: Array, words: Words) -> Words:
        return jnp.where(k == 0, jnp.stack(_threefry(words[:, 0], words[:, 1], jnp.zeros_like(count), count), axis=1), words)

    # A loop of which the second turn changes nothing: what a loop gives stands in memory. Otherwise XLA writes the rounds out in every
    # loop that reads the keys, and does them anew for each number there.
    return jax.random.wrap_key_data(jax.lax.fori_loop(0, 2, turn, words), impl=jax.random.key_impl(keys))


def made_apart(codes: Array) -> Array:
    """The same array, none of which is negative, made before what reads it.

    On a CPU XLA writes a slice in place on one thread, with all that it computes there. A loop takes nothing in; this one never turns.
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


def uniform(keys: PRNGKeyArray, shape: tuple[int, ...], first: Array | int | None = None) -> Float[Array, "... chains"]:
    """Uniform numbers in [0, 1), chains last; of more numbers those from `first` on, so that a loop draws the ones it needs."""
    n = math.prod(shape)
    if not _is_threefry(_generator_of(keys)) or n >= 2**32:
        keys = keys if first is None else fold(keys, first)  # others cannot begin in the middle
        return jnp.moveaxis(jax.vmap(lambda k: jax.random.uniform(k, shape))(keys), 0, -1)
    words = jax.random.key_data(keys)
    count = (jnp.arange(n, dtype=jnp.uint32) + jnp.asarray(0 if first is None else first, jnp.uint32))[:, None]
    high, low = _threefry(words[None, :, 0], words[None, :, 1], jnp.zeros_like(count), count)
    return _as_fractions(high, low).reshape(*shape, keys.shape[0])


def hashed(keys: PRNGKeyArray, count: UInt32[Array, "n 1"]) -> tuple[UInt32[Array, "n chains"], UInt32[Array, "n chains"]]:
    """Two words of random bits for each key and number; of other generators than Threefry its words are keys to that."""
    words = jax.random.key_data(keys)
    return _threefry(words[None, :, 0], words[None, :, 1], jnp.zeros_like(count), count)


def fold_apart(keys: PRNGKeyArray, number: Array | int) -> PRNGKeyArray:
    """`fold` in the generator's own loop, which no other loop can take in.

    Where numbers feed a network, XLA would write the unrolled rounds out at each of its reads, and compile for minutes.
    """
    return jax.vmap(lambda k: jax.random.fold_in(k, number))(keys)


def uniform_apart(keys: PRNGKeyArray, n: int) -> Float[Array, "n chains"]:
    """`uniform` in the generator's own loop; see `fold_apart`."""
    return jax.vmap(lambda k: jax.random.uniform(k, (n,)))(keys).T


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


def _as_fractions(high: Words, low: Words) -> Array:
    """Bits behind the exponent of 1, less 1: all of them equally far apart."""
    if float_type() == jnp.float64:
        bits = (high.astype(jnp.uint64) << jnp.uint64(32)) | low.astype(jnp.uint64)
        one = jax.lax.bitcast_convert_type(jnp.float64(1), jnp.uint64)
        return jax.lax.bitcast_convert_type((bits >> jnp.uint64(12)) | one, jnp.float64) - 1
    one = jax.lax.bitcast_convert_type(jnp.float32(1), jnp.uint32)
    return jax.lax.bitcast_convert_type(((high ^ low) >> jnp.uint32(9)) | one, jnp.float32) - 1
