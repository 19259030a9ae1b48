"""Random numbers of the kernels: those of `jax.random`, whatever the working type and the kind of key."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from thinned import thinned

from gmlmdsl.derive._random import fold, uniform


@pytest.mark.parametrize("x64", thinned([False, True], 2))
@pytest.mark.parametrize("shape", thinned([pytest.param(s) for s in ((), (5,), (2, 33))], 3, 2))
@pytest.mark.parametrize("kind", ["threefry2x32", "rbg"])
def test_uniform_numbers_are_those_of_jax(x64: bool, shape: tuple[int, ...], kind: str) -> None:
    with jax.enable_x64(x64):
        keys = jax.random.split(jax.random.key(3, impl=kind), 7)
        expected = jnp.moveaxis(jax.vmap(lambda k: jax.random.uniform(k, shape))(keys), 0, -1)
        found = uniform(keys, shape)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg"])
def test_folded_keys_are_those_of_jax(kind: str) -> None:
    keys = jax.random.split(jax.random.key(3, impl=kind), 7)
    expected = jax.random.key_data(jax.vmap(lambda k: jax.random.fold_in(k, 12))(keys))
    np.testing.assert_array_equal(jax.random.key_data(fold(keys, 12)), expected)
    np.testing.assert_array_equal(jax.random.key_data(jax.jit(fold)(keys, jnp.asarray(12))), expected)
