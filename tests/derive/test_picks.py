"""Primitives that draw: exact laws from the thresholds of their numbers, to 1e-5 of each value in float32, 1e-12 in float64."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chi_square import p_value
from pick_laws import Given, law_of
from thinned import thinned

from gmlmdsl.data import picked
from gmlmdsl.derive import _picks
from gmlmdsl.derive._picks import levels_of
from gmlmdsl.derive._random import Words, words
from gmlmdsl.derive.limits import MOST_MASKED, MOST_SPLIT_THRICE, MOST_SPLIT_TWICE

LEAST = 1e-30
PRECISIONS = [pytest.param(False, 1e-5, id="float32"), pytest.param(True, 1e-12, id="float64")]
COUNTS = (2, 3, 4, 5, 6, 8, MOST_SPLIT_TWICE, MOST_SPLIT_TWICE + 1, 21, MOST_SPLIT_THRICE, MOST_SPLIT_THRICE + 1, MOST_MASKED + 1)


def scores_of(count: int, seed: int) -> np.ndarray:
    """Logs of weights from 1 to 1e-30, one of them 0 where there are many, in any order."""
    found = np.linspace(0, -68, count) if count > 1 else np.zeros(1)
    found = np.where((np.arange(count) == 3) & (count > 4), -np.inf, found)
    return np.random.default_rng(seed).permutation(found).astype(np.float32).astype(float)


def softmax(scores: np.ndarray) -> np.ndarray:
    """In float64."""
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def agrees(found: np.ndarray, wanted: np.ndarray, rtol: float) -> None:
    """Each value has its probability, relative to itself, and what is impossible is never drawn."""
    assert (found[wanted == 0] == 0).all()
    some = wanted >= LEAST
    np.testing.assert_allclose(found[some], wanted[some], rtol=rtol)
    np.testing.assert_allclose(found.sum(), 1, rtol=rtol)


def depth(count: int) -> int:
    """How many numbers a draw reads."""
    return max(2, levels_of(count))


@pytest.mark.parametrize(("x64", "rtol"), PRECISIONS)
@pytest.mark.parametrize("count", thinned(list(COUNTS), 5))
def test_every_value_has_its_probability(x64: bool, rtol: float, count: int) -> None:
    """Of scores along the axis of values, as kernels pick."""
    with jax.enable_x64(x64):
        scores = scores_of(count, count)
        at = jnp.asarray(scores)[None, :, None]
        pick = lambda g: _picks.pick_value(jnp.broadcast_to(at, (1, count, count)), Given(g.fractions[:, None]))[0][0]  # noqa: E731
        agrees(law_of(pick, count, depth(count)), softmax(scores), rtol)


@pytest.mark.parametrize(("x64", "rtol"), PRECISIONS)
@pytest.mark.parametrize("name", thinned(["tokens many", "weights of all rows", "tokens", "weights by row"], 2))
def test_tokens_and_choices_have_theirs(x64: bool, rtol: float, name: str) -> None:
    """Values along the last axis; choices of masks along the first, weights of which are of all rows or of each."""
    count = {"tokens": 7}.get(name, 70)
    with jax.enable_x64(x64):
        scores = scores_of(count, 1)
        at = jnp.asarray(scores)
        if name.startswith("tokens"):
            pick = lambda g: _picks.pick_token(jnp.broadcast_to(at[None], (count, count)), g)  # noqa: E731
        else:
            weights = jnp.exp(at)[:, None]
            weights = jnp.broadcast_to(weights, (count, count)) if name == "weights by row" else weights
            pick = lambda g: _picks.pick(weights, g, 0)  # noqa: E731
        agrees(law_of(pick, count, depth(count)), softmax(scores), rtol)


@pytest.mark.usefixtures("float32")  # whose range or rounding is what is tested
@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
def test_every_word_of_a_large_vocabulary_can_be_drawn(order: int) -> None:
    """Zipf's law of 50,000 values in float32, of which a cumulative sum lost 14,331."""
    p = (1 / np.arange(1, 50_001.0) ** 1.5)[::order]
    p = p / p.sum()
    weights = jnp.asarray(p, jnp.float32)[:, None]
    found = law_of(lambda g: _picks.pick(weights, g, 0), len(p), depth(len(p)))
    agrees(found, p, 1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("float32")  # whose range or rounding is what is tested
def test_words_of_a_vocabulary_can_be_drawn() -> None:
    """The same of 1,500."""
    p = 1 / np.arange(1, 1501.0) ** 4
    p = p / p.sum()
    weights = jnp.asarray(p, jnp.float32)[:, None]
    agrees(law_of(lambda g: _picks.pick(weights, g, 0), len(p), depth(len(p))), p, 1e-5)


@pytest.mark.parametrize(("x64", "rtol"), PRECISIONS)
@pytest.mark.parametrize("p", thinned([1e-30, 2e-8, 0.3, 0.5, 0.8], 3))
def test_what_happens_has_its_probability_and_what_does_not_too(x64: bool, rtol: float, p: float) -> None:
    with jax.enable_x64(x64):
        p = float(np.float32(p))
        yes = jnp.full(2, p)
        for a, b in ((yes, 1 - yes), (1 - yes, yes)):
            found = law_of(lambda g, a=a, b=b: _picks.happens(a, b, g).astype(jnp.int32), 2, 1)
            agrees(found, np.array([float(b[0]), float(a[0])]), rtol)


@pytest.mark.parametrize(("x64", "rtol"), PRECISIONS)
@pytest.mark.parametrize("log_ratio", thinned([-68.0, -1e-29, -1e-9, 0.0, 3.0, -np.inf], 3))
def test_a_ratio_is_accepted_and_refused_by_itself(x64: bool, rtol: float, log_ratio: float) -> None:
    with jax.enable_x64(x64):
        log_ratio = float(np.float32(log_ratio))
        found = law_of(lambda g: _picks.accepted(jnp.full(2, log_ratio), g).astype(jnp.int32), 2, 1)
        capped = min(log_ratio, 0.0)
        agrees(found, np.array([-np.expm1(capped), np.exp(capped)]), rtol)
        assert not _picks.accepted(jnp.full(1, jnp.nan), Given(jnp.full((1, 1), 0.3)))[0]


@pytest.mark.parametrize("least", [False, True])
@pytest.mark.parametrize("count", thinned([8, 30, 2, 3, 10, 100], 2))
def test_where_nothing_is_possible_the_first_value_is_picked(count: int, least: bool) -> None:
    """So that no place lies outside."""
    at = Given(jnp.full((levels_of(count) + 1, 4), 2.0**-120 if least else 1.0))
    assert (np.asarray(jax.jit(lambda w: _picks.pick(w, at, 0))(jnp.zeros((count, 4)))) == 0).all()


def test_whole_numbers_are_parts_of_64_bits() -> None:
    """By the integers of Python."""
    rng = np.random.default_rng(0)
    high, low = rng.integers(0, 2**32, (2, 1, 2000), dtype=np.uint32)
    high[0, :3], low[0, :3] = (0, 2**32 - 1, 2**31), (0, 2**32 - 1, 0)
    drawn = Words(jnp.asarray(high), jnp.asarray(low), (jnp.zeros(1),) * 2)
    for n in (1, 2, 3, 1000, 32_000, 2**31 - 1):
        wanted = [((int(a) << 32 | int(b)) * n) >> 64 for a, b in zip(high[0], low[0], strict=True)]
        np.testing.assert_array_equal(_picks.whole_below(n, drawn), wanted)


@pytest.mark.parametrize(("x64", "rtol"), [(False, 1e-6), (True, 1e-13)])
def test_exponential_numbers_are_as_fine_at_both_ends(x64: bool, rtol: float) -> None:
    """exp(-x) is u/2 from one end, 1 - u/2 from the other."""
    with jax.enable_x64(x64):
        u = np.array([2.0**-124, 1e-30, 1e-9, 0.3, 1.0])
        for bit, wanted in ((1, -np.log(u / 2)), (0, -np.log1p(-u / 2))):

            class Half(Given):
                high = jnp.full((1, 5), bit, jnp.uint32)

            np.testing.assert_allclose(_picks.exponential(Half(jnp.asarray(u)[None])), wanted, rtol=rtol)


def test_draws_of_numpy_have_their_probabilities() -> None:
    """The least value is picked by the least fraction wherever it stands; values of weight 0 are never drawn; chi-square otherwise."""
    weights = np.exp(np.random.default_rng(3).permutation(np.linspace(0, -700, 37)))
    weights[5] = 0

    class Zeros(np.random.Generator):
        def integers(self, *a, **k):
            return np.zeros(a[2], np.int64)

    at = picked(Zeros(np.random.PCG64(0)), np.append(weights, 1e-60), 2)
    assert (at != 5).all()
    some = np.array([0.2, 0.0, 0.5, 1e-3, 0.3])
    counts = np.bincount(picked(np.random.default_rng(1), some, 50_000), minlength=5)
    assert p_value(counts, some / some.sum()) > 1e-4


@pytest.mark.usefixtures("float32")  # whose range or rounding is what is tested
@pytest.mark.parametrize("count", thinned([9, 50, 2, 3, 20], 2))
def test_draws_agree_with_their_law(count: int) -> None:
    """200,000 draws by the words of 100 chains, chi-square."""
    scores = np.random.default_rng(count).normal(size=count).astype(np.float32)
    keys = jax.random.split(jax.random.key(count), 100)

    @jax.jit
    def draws(keys):
        at = jnp.broadcast_to(jnp.asarray(scores)[None, :, None], (2000, count, 100))
        return _picks.pick_value(at, words(keys, (2000,), levels_of(count)))[0]

    counts = np.bincount(np.asarray(draws(keys)).ravel(), minlength=count)
    assert p_value(counts, softmax(scores.astype(float))) > 1e-4


def test_a_number_is_a_fraction_of_its_bits() -> None:
    """Of words one by one, by fractions of Python."""
    high, low, rest = np.uint32(0), np.uint32(6), 0.25
    found = Words(jnp.full((1, 1), high), jnp.full((1, 1), low), (jnp.full(1, rest),) * 2).number()
    assert float(found[0]) == float(Fraction(13, 4) / 2**62)
