"""Random words of the kernels: those of `jax.random`, whatever the kind of key; and fractions that are as fine at 0 as anywhere."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from thinned import thinned

from gmlmdsl.data import fractions
from gmlmdsl.derive._random import BEHIND, Words, behind, fold, fraction, words, words_apart


@pytest.mark.parametrize("shape", thinned([pytest.param(s) for s in ((), (5,), (2, 33))], 3, 2))
def test_words_are_those_of_jax(shape: tuple[int, ...]) -> None:
    keys = jax.random.split(jax.random.key(3), 7)
    expected = jnp.moveaxis(jax.vmap(lambda k: jax.random.bits(k, shape, jnp.uint32))(keys), 0, -1)
    found = words(keys, shape)
    np.testing.assert_array_equal(found.high[0] ^ found.low[0], expected)


def test_words_from_the_middle_are_those_of_the_whole() -> None:
    keys = jax.random.split(jax.random.key(3), 7)
    every, some = words(keys, (9,), 2), words(keys, (4,), 2, 3)
    for a, b in ((every.high, some.high), (every.low, some.low)):
        np.testing.assert_array_equal(a[:, 3:7], b)
    np.testing.assert_array_equal(every.behind, some.behind)


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("make", [lambda keys: words(keys, (50,), 3), lambda keys: words_apart(keys, 50, 3)], ids=["words", "words_apart"])
def test_words_differ_by_draw_level_and_chain(kind: str, make) -> None:
    found = make(jax.random.split(jax.random.key(3, impl=kind), 7))
    every = np.concatenate([np.asarray(found.high).ravel(), np.asarray(found.low).ravel()])
    assert len(np.unique(every)) == 2 * 3 * 50 * 7
    assert len(np.unique(np.stack(found.behind))) == 14
    assert 0.4 < np.mean(every / 2.0**32) < 0.6


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg"])
def test_folded_keys_are_those_of_jax(kind: str) -> None:
    keys = jax.random.split(jax.random.key(3, impl=kind), 7)
    expected = jax.random.key_data(jax.vmap(lambda k: jax.random.fold_in(k, 12))(keys))
    np.testing.assert_array_equal(jax.random.key_data(fold(keys, 12)), expected)
    np.testing.assert_array_equal(jax.random.key_data(jax.jit(fold)(keys, jnp.asarray(12))), expected)


@pytest.mark.parametrize(("x64", "rtol"), [(False, 3e-7), (True, 3e-16)])
@pytest.mark.parametrize("which", ["number", "first", "second"])
def test_a_fraction_lies_below_p_with_probability_p(x64: bool, rtol: float, which: str) -> None:
    """Exactly: the share of all words of which the fraction, which grows with them, is below p, by bisection of their bits."""
    own = 2 if which == "number" else 1
    total = 31 * (own + BEHIND)
    with jax.enable_x64(x64):
        number = jax.jit(lambda high, low, rest: of_words(which, high, low, rest))
        ps = [1e-30, 3.3e-28, 2.0**-62, 1e-12, 2e-8, 1e-3, 0.25, 0.5, 0.9, 1.0]
        least, most = [0] * len(ps), [2**total] * len(ps)
        for _ in range(total):
            middle = [(a + b) // 2 for a, b in zip(least, most, strict=True)]
            parts = [[(m >> (total - 31 * (k + 1))) & (2**31 - 1) for m in middle] for k in range(own + BEHIND)]
            cut = [jnp.asarray(np.array(p, np.uint32) << np.uint32(1)) for p in parts]
            rest = jnp.full(len(ps), 0.5)
            for w in reversed(cut[own:]):
                rest = fraction(w, rest)
            low = np.asarray(number(cut[0], cut[own - 1], rest), float) < ps
            least = [m if b else a for m, a, b in zip(middle, least, low, strict=True)]
            most = [m if not b else c for m, c, b in zip(middle, most, low, strict=True)]
        np.testing.assert_allclose([float(m) / 2.0**total for m in most], ps, rtol=rtol)


def of_words(which: str, high: jax.Array, low: jax.Array, rest: jax.Array) -> jax.Array:
    """A fraction of words, of which the last is `low`."""
    other = jnp.full_like(high, 77)
    if which == "number":
        return Words(high[None], low[None], (rest, rest * 0)).number()
    if which == "first":
        return Words(high[None], other[None], (rest, rest * 0)).numbers()[0]
    return Words(other[None], high[None], (rest * 0, rest)).numbers()[1]


def test_what_stands_behind_the_words_of_a_draw_is_hashed_from_the_key() -> None:
    keys = jax.random.split(jax.random.key(3), 1000)
    first, second = (np.asarray(b, float) for b in behind(keys))
    for found in (first, second, np.asarray(words_apart(keys, 1).behind[0], float)):
        assert 0 < found.min() < 0.01 < 0.99 < found.max() <= 1
        assert abs(found.mean() - 0.5) < 5 / np.sqrt(12 * 1000)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(1000)


def test_fractions_of_numpy_are_as_fine_at_0() -> None:
    class Least(np.random.Generator):
        def integers(self, *a, **k):
            return np.zeros(a[2], np.int64) + np.array([[1], [0], [0], [0]])

    np.testing.assert_array_equal(fractions(Least(np.random.PCG64(0)), 3), np.full(3, 2.0**-208 * 1.5))
    found = fractions(np.random.default_rng(0), 20_000)
    assert abs(found.mean() - 0.5) < 5 / np.sqrt(12 * 20_000)


@pytest.mark.parametrize("levels", [1, 3])
@pytest.mark.parametrize("maker", [words_apart, words], ids=["apart", "in place"])
def test_the_words_of_a_draw_do_not_depend_on_how_many_are_drawn_beside_it(maker: Callable[..., Words], levels: int):
    keys = jax.random.split(jax.random.key(2), 3)
    few, many = (maker(keys, n if maker is words_apart else (n,), levels) for n in (4, 9))
    np.testing.assert_array_equal(few.high, many.high[:, :4])
    np.testing.assert_array_equal(few.low, many.low[:, :4])
