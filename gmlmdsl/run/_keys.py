"""Random keys as calls take them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import fail


def verified_key(key: Any) -> Any:
    """A key of JAX, or a seed as one; None stays.

    Raises:
        GmlmError: E507 for anything else.
    """
    if key is None:
        return None
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and key >= 0:
        return jax.random.key(int(key))
    if not _is_key(key):
        message = f"key must be a seed of at least 0 or one key of JAX, got {key!r:.60}"
        raise fail("E507", message, help="`key=0`, or `key=jax.random.key(0)`")
    return key


def _is_key(key: Any) -> bool:
    """Whether it is one key, new style or old."""
    dtype = getattr(key, "dtype", None)
    if dtype is None:
        return False
    return key.shape == () if jnp.issubdtype(dtype, jax.dtypes.prng_key) else dtype == np.uint32 and key.ndim == 1
