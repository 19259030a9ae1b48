"""Everything random begins here: seeds and keys as calls take them, and the generators that are made of them."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import GmlmError, fail
from ..derive import bounded_jit, fold, keys_on_host
from ._traced import evaluated

BITS = 32  # of a word: what JAX and NumPy make a key of
MOST_SEED = (1 << 2 * BITS) - 1


def verified_seed(seed: Any) -> int:
    """A seed as a number: whole, from 0 to 2^64 - 1, of Python, NumPy or JAX.

    Raises:
        GmlmError: E507 for anything else; a truth value is no seed.
    """
    try:
        number = -1 if isinstance(seed, bool | np.bool_) else operator.index(seed)
    except (TypeError, jax.errors.JAXTypeError):
        number = -1
    if not 0 <= number <= MOST_SEED:
        raise fail("E507", f"seed must be a whole number from 0 to 2^64 - 1, got {seed!r:.60}", help="`seed=0`, say")
    return number


def random_key(seed: Any) -> Any:
    """The key of JAX that a seed stands for; each seed has its own, whatever the working types are.

    It has a value within a function that JAX traces too.

    Raises:
        GmlmError: E507 for what is no seed.
    """
    number = verified_seed(seed)
    with jax.ensure_compile_time_eval():
        found = keys_on_host(number)
        if found is not None:
            return found
        with jax.enable_x64(True):  # both words of a seed are read, whatever the working types are
            return jax.random.key(np.uint64(number))


def keys_of(seed: Any, *numbers: np.ndarray) -> Any:
    """The key of a seed with each of some numbers folded in, such as those of chains, and then each of more numbers beside them.

    It is made on the host, or else by one compiled program.

    Raises:
        GmlmError: E507 for what is no seed.
    """
    number, implementation = verified_seed(seed), str(jax.config.jax_default_prng_impl)  # pyright: ignore[reportAttributeAccessIssue]
    found = keys_on_host(number, *numbers)
    if found is not None:
        return found
    with jax.enable_x64(True):
        return _folded(jax.device_put(np.uint64(number)), tuple(jax.device_put(np.asarray(n, np.uint32)) for n in numbers), implementation)


@bounded_jit
def _folded(number: jax.Array, numbers: tuple[jax.Array, ...], implementation: str) -> Any:
    keys = jnp.broadcast_to(jax.random.key(number, impl=implementation), numbers[0].shape)
    for more in numbers:
        keys = fold(keys, more)
    return keys


def generator(seed: Any, *numbers: int) -> np.random.Generator:
    """The generator of NumPy that a seed stands for, with numbers that say what it is for; each seed has its own.

    Raises:
        GmlmError: E507 for what is no seed.
    """
    high, low = divmod(verified_seed(seed), 1 << BITS)
    return np.random.default_rng([low, *numbers, *([high] if high else [])])


def verified_key(key: Any) -> Any:
    """A key of JAX, new style or old, or a seed, as a key of the new style; None stays.

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
    """Whether it is one key, new style or old."""
    dtype = getattr(key, "dtype", None)
    if dtype is None:
        return False
    return key.shape == () if jnp.issubdtype(dtype, jax.dtypes.prng_key) else dtype == np.uint32 and key.ndim == 1
