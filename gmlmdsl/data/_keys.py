"""The source of all randomness: seeds and keys of calls, and generators made from them."""

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
