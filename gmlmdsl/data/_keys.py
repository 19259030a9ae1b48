"""All randomness: seeds and keys of calls, and NumPy generators with weighted draws."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import GmlmError, fail
from ..derive import bounded_jit, fold, keys_on_host
from ._traced import evaluated

BITS = 32  # JAX and NumPy make keys from words of this many bits.
MOST_SEED = (1 << 2 * BITS) - 1
Array = np.ndarray
WORDS = 4  # A fraction consists of this many words of 52 bits.


def verified_seed(seed: Any) -> int:
    """Return a seed as an int: an integer from 0 to 2^64 - 1 of Python, NumPy or JAX.

    Raises:
        GmlmError: E507 for anything else, such as a truth value.
    """
    try:
        number = -1 if isinstance(seed, bool | np.bool_) else operator.index(seed)
    except (TypeError, jax.errors.JAXTypeError):
        number = -1
    if not 0 <= number <= MOST_SEED:
        raise fail("E507", f"seed must be a whole number from 0 to 2^64 - 1, got {seed!r:.60}", help="`seed=0`, say")
    return number


def random_key(seed: object) -> jax.Array:
    """Return the JAX key of a seed.

    Each seed has its own key, whatever the working types are. The key has a concrete value even
    within a function that JAX traces.

    Raises:
        GmlmError: E507 for an invalid seed.
    """
    number = verified_seed(seed)
    with jax.ensure_compile_time_eval():
        found = keys_on_host(number)
        if found is not None:
            return found
        # Both words of a seed must be read, whatever the working types are.
        with jax.enable_x64(True):
            return jax.random.key(np.uint64(number))


def keys_of(seed: object, *numbers: np.ndarray) -> jax.Array:
    """Return the key of a seed with each of some numbers folded in, such as those of chains.

    Each further array of numbers is folded in elementwise after the first. The keys are computed on
    the host if possible, else by one compiled program.

    Raises:
        GmlmError: E507 for an invalid seed.
    """
    number, implementation = verified_seed(seed), str(jax.config.jax_default_prng_impl)  # pyright: ignore[reportAttributeAccessIssue]
    found = keys_on_host(number, *numbers)
    if found is not None:
        return found
    with jax.enable_x64(True):
        return _folded(jax.device_put(np.uint64(number)), tuple(jax.device_put(np.asarray(n, np.uint32)) for n in numbers), implementation)


@bounded_jit
def _folded(number: jax.Array, numbers: tuple[jax.Array, ...], implementation: str) -> jax.Array:
    keys = jnp.broadcast_to(jax.random.key(number, impl=implementation), numbers[0].shape)
    for more in numbers:
        keys = fold(keys, more)
    return keys


def generator(seed: object, *numbers: int) -> np.random.Generator:
    """Return the NumPy generator of a seed and of numbers that identify its purpose.

    Each seed has its own generator.

    Raises:
        GmlmError: E507 for an invalid seed.
    """
    high, low = divmod(verified_seed(seed), 1 << BITS)
    return np.random.default_rng([low, *numbers, *([high] if high else [])])


def verified_key(key: Any) -> jax.Array | None:
    """Return a JAX key of the new style from a key of either style or from a seed; None stays None.

    Raises:
        GmlmError: E507 for anything else.
    """
    if key is None:
        return None
    if _is_key(key):
        with evaluated(key):
            return key if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(jnp.asarray(key))
    try:
        return random_key(key)
    except GmlmError:
        message = f"key must be a seed, from 0 to 2^64 - 1, or one key of JAX, got {key!r:.60}"
        raise fail("E507", message, help="`key=0`, or `key=jax.random.key(0)`") from None


def _is_key(key: Any) -> bool:
    """Return whether a value is one key, of the new or the old style."""
    dtype = getattr(key, "dtype", None)
    if dtype is None:
        return False
    return key.shape == () if jnp.issubdtype(dtype, jax.dtypes.prng_key) else dtype == np.uint32 and key.ndim == 1


def fractions(rng: np.random.Generator, size: int) -> Array:
    """Return random numbers in (0, 1) of 208 bits each, as floats.

    Their relative resolution near 0 is as fine as anywhere else.
    """
    found = np.full(size, 0.5)
    for word in rng.integers(0, 2**52, (WORDS, size)):
        found = (word + found) * 2.0**-52
    return found


def picked(rng: np.random.Generator, weights: Array, size: int) -> Array:
    """Return `size` draws of a place in `weights`, with replacement.

    The first if all weights are 0.

    Values are the leaves of a tree, and a separate random number decides at each node: see
    `derive/_picks.py`.
    """
    levels = [np.asarray(weights, float)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        half = (len(below) + 1) // 2
        levels.append(below[:half] + np.append(below[half:], np.zeros(2 * half - len(below))))
    place = np.zeros(size, np.int64)
    for level, above in zip(reversed(levels[:-1]), reversed(levels[1:]), strict=True):
        other = place + len(above)
        first, second = level[place], np.append(level, np.zeros(len(above)))[other]
        least = fractions(rng, size) * (first + second) < np.minimum(first, second)
        place = np.where(least != (first < second), other, place)
    return place
