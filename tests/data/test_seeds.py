"""Seeds: 0 to 2^64 - 1 everywhere; those below 2^32 draw what they always drew, and no two draw the same."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import gmlmdsl as gm
from gmlmdsl.cli import _commands
from gmlmdsl.data._keys import MOST_SEED, generator, keys_of, random_key, verified_seed
from gmlmdsl.fit._clamped_rows import ClampedRows
from gmlmdsl.networks._layers import features_kept
from gmlmdsl.sample._starts import starts

CHAIN = """
model m {
  latent z : bit
  var x[i in range(4)] : spin
  param h
  factor (h + 0.3 * z) * x[i] for i in range(4)
  factor 0.4 * x[i] * x[i + 1] for i in range(3)
}
mask one = subsets(x, size = 1)
sampler sweep { update x[i] for i in range(4)  update z }
"""
chain = gm.parse(CHAIN).model()
pixels = gm.parse("network net = mlp(layers = 1, width = 4)\nmodel p { var x[i in range(3)] : bit  conditional x ~ net() }").model()
x = np.array([[1, -1, 1, 1], [1, 1, -1, 1], [-1, 1, 1, -1]])
SMALL, LARGE = (0, 1, 2**31, 2**32 - 1), (2**32, 2**32 + 1, 2**33, 2**63, 2**64 - 1)
WRONG = (-1, 2**64, 10**30, 1.0, np.float64(3), True, np.True_, "0", None, [0], np.array([1, 2]), (0, 1), float("nan"))


pytestmark = pytest.mark.filterwarnings("ignore::gmlmdsl.sample._draw.SamplingWarning")


def drawn(seed: Any) -> str:
    found = chain.sample({"h": 0.2}, "sweep", draws=8, warmup=2, chains=2, seed=seed, progress=False)
    return hex(int("".join("1" if v > 0 else "0" for v in np.asarray(found["posterior"]["x"]).reshape(-1)), 2))


# Draws of the version whose words know no company, first parameters of an earlier one.
GOLDEN = {
    0: ("0xd2173fffdcb7f3cf", 0.001257302239537239),
    1: ("0x4cc9215fb7610cde", 0.003455841913819313),
    7: ("0xff7ff3f7fffb7ff3", 1.2301533388381358e-05),
    2**31: ("0x316e7e95efe7fffe", -0.005375302396714687),
    2**32 - 1: ("0xfffeffff11fecffa", -0.0002727176179178059),
}
NETWORKS = {0: 2.522489547729492, 5: -9.547639846801758, 2**32 - 1: -3.5822179317474365}


@pytest.mark.usefixtures("float32")  # whose range or rounding is what is tested
@pytest.mark.parametrize("seed", [s if s == 0 else pytest.param(s, marks=pytest.mark.slow) for s in GOLDEN])
def test_what_small_seeds_drew_they_draw(seed: int):
    assert drawn(seed) == GOLDEN[seed][0]
    assert float(chain.init_params(seed)["h"]) == GOLDEN[seed][1]


@pytest.mark.parametrize("seed", NETWORKS)
def test_the_first_weights_of_small_seeds_are_what_they_were(seed: int):
    assert float(np.asarray(jax.tree.leaves(pixels.init_params(seed))[0]).sum()) == pytest.approx(NETWORKS[seed], rel=1e-5)


@pytest.mark.parametrize("x64", [False, True])
def test_a_key_is_that_of_jax_below_32_bits_and_one_of_its_own_above(x64: bool):
    with jax.enable_x64(x64):
        for seed in SMALL:
            assert (jax.random.key_data(random_key(seed)) == jax.random.key_data(jax.random.key(seed))).all()
        keys = {bytes(np.asarray(jax.random.key_data(random_key(seed)))) for seed in (*SMALL, *LARGE)}
    assert len(keys) == len(SMALL) + len(LARGE)


def test_keys_are_the_same_under_both_working_types():
    with jax.enable_x64(True):
        wide = [np.asarray(jax.random.key_data(random_key(seed))) for seed in LARGE]
    for seed, key in zip(LARGE, wide, strict=True):
        np.testing.assert_array_equal(jax.random.key_data(random_key(seed)), key)


def codes_of_starts(seed: int) -> Any:
    return starts(chain.graph, 3, seed, None, (np.zeros(5, bool), np.zeros(5, int)), {"h": jax.numpy.zeros(())}).codes


MASKS = gm.parse(CHAIN.replace("mask one", "mask some = bernoulli(x, rate = 0.4)\nmask one")).model()
STARTED: dict[str, Callable[[int], Any]] = {
    "first parameters": lambda s: chain.init_params(s),
    "first weights": lambda s: pixels.init_params(s),
    "starts of chains": codes_of_starts,
    "drawn masks": lambda s: MASKS.loss({"h": 0.2}, np.tile(x, (9, 1)), "some", key=s, n_masks=2),
    "rows of a step": lambda s: ClampedRows.choose(SimpleNamespace(codes=np.zeros((4, 60)), size=16), random_key(s)),  # type: ignore[arg-type]
    "what dropouts keep": lambda s: features_kept(random_key(s), 0.3, 2, 24),
}


@pytest.mark.parametrize("what", STARTED)
@pytest.mark.parametrize("seed", [3, 2**33])
def test_what_a_seed_begins_with_is_the_same_under_both_working_types(what: str, seed: int):
    with jax.enable_x64(False):
        narrow = jax.tree.leaves(STARTED[what](seed))
    with jax.enable_x64(True):
        wide = jax.tree.leaves(STARTED[what](seed))
    assert len(narrow) == len(wide) > 0
    for a, b in zip(narrow, wide, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6, atol=0)


def test_no_large_seed_has_the_key_of_a_chain_of_a_small_one():
    keys = {bytes(np.asarray(jax.random.key_data(random_key(c << 32)))) for c in range(1, 5)}
    chains = {bytes(np.asarray(jax.random.key_data(jax.random.fold_in(random_key(0), c)))) for c in range(5)}
    assert len(keys) == 4 and not keys & chains


@pytest.mark.parametrize("numbers", [(), (3,), (0, 1), (0, 0, 0)])
def test_a_generator_is_that_of_numpy_below_32_bits_and_one_of_its_own_above(numbers: tuple[int, ...]):
    for seed in SMALL:
        assert generator(seed, *numbers).integers(2**62) == np.random.default_rng([seed, *numbers]).integers(2**62)
    assert len({generator(seed, *numbers).integers(2**62) for seed in (*SMALL, *LARGE)}) == len(SMALL) + len(LARGE)


def test_a_large_seed_is_no_small_one_at_another_number():
    """NumPy reads [2^32, 0] and [0, 1] as the same words."""
    assert np.random.default_rng([2**32, 0, 0]).integers(2**62) == np.random.default_rng([0, 1, 0]).integers(2**62)
    assert generator(2**32, 0, 0).integers(2**62) != generator(0, 1, 0).integers(2**62)


@pytest.mark.slow
def test_large_seeds_draw_apart():
    found = [drawn(seed) for seed in (0, *LARGE)]
    assert len(set(found)) == len(found)
    assert len({float(chain.init_params(seed)["h"]) for seed in (0, *LARGE)}) == 1 + len(LARGE)


@pytest.mark.parametrize("seed", [np.int64(7), np.uint64(7), np.int8(7), np.array(7)])
def test_numbers_of_numpy_are_seeds(seed: Any):
    assert verified_seed(seed) == 7 and type(verified_seed(seed)) is int
    assert verified_seed(np.uint64(2**64 - 1)) == MOST_SEED


def test_an_array_of_jax_is_a_seed():
    assert verified_seed(jax.numpy.asarray(7)) == 7


VERBS: dict[str, Callable[[Any], Any]] = {
    "init_params": lambda s: chain.init_params(s),
    "init_params of a network": lambda s: pixels.init_params(s),
    "fit": lambda s: chain.fit(x, seed=s),
    "fit of a network": lambda s: pixels.fit(x > 0, seed=s),
    "sample": drawn,
    "bridge_log_partition": lambda s: chain.bridge_log_partition({"h": 0.2}, seed=s),
    "annealed_log_partition": lambda s: chain.annealed_log_partition({"h": 0.2}, seed=s),
    "loss": lambda s: chain.loss({"h": 0.2}, x, "one", key=s, n_masks=1),
    "attention_dependency": lambda s: gm.attention_dependency(np.zeros((1, 2), int), [2], np.full((1, 1, 2, 2), 0.5), seed=s),
    "compare_masks": lambda s: gm.theory.compare_masks(chain, {"h": 0.2}, seed=s, measure=False),
    "suggest_masks": lambda s: gm.theory.suggest_masks(chain, {"h": 0.2}, seed=s, measure=False),
    "spectral_gap": lambda s: gm.theory.spectral_gap(chain, {"h": 0.2}, "sweep", seed=s),
    "estimated_covariance": lambda s: gm.theory.estimated_covariance(chain, {"h": 0.2}, seed=s),
    "entropy_tensorization": lambda s: gm.theory.entropy_tensorization(chain, {"h": 0.2}, seed=s),
    "sampler_agreement": lambda s: gm.theory.sampler_agreement(chain, {"h": 0.2}, ["sweep", "exact"], seed=s),
}


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_no_seed_is_refused_by_every_verb(verb: str):
    for seed in WRONG:
        if seed is None and verb == "loss":
            continue  # no key: every mask
        with pytest.raises(gm.GmlmError) as caught:
            VERBS[verb](seed)
        assert caught.value.codes == ("E507",) and "2^64 - 1" in str(caught.value)


def test_the_command_line_has_the_same_bounds():
    assert _commands.MOST_SEED == MOST_SEED
    for seed in ("-1", str(2**64), "1.5"):
        found = CliRunner().invoke(_commands.app, ["fit", "a.gmlm", "a.csv", "--seed", seed])
        assert found.exit_code == 2 and "--seed" in found.output


@pytest.mark.usefixtures("standard_promotion")
def test_a_fit_with_a_large_seed_is_saved(tmp_path):
    plain = gm.parse(
        "model m { var x[i in range(2)] : bit  param h  factor h * x[i] for i in range(2) }\nmask one = subsets(size = 1)"
    ).model()
    plain.fit([[0, 1], [1, 0]], seed=np.uint64(MOST_SEED)).save(tmp_path / "a.fit")
    assert gm.load_fit(tmp_path / "a.fit").meta["seed"] == MOST_SEED


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**32 + 5, 2**64 - 1])
def test_keys_with_numbers_folded_in_are_those_of_jax(seed: int, kind: str):
    numbers, more = np.array([0, 1, 5, 2**32 - 1]), np.array([3, 0, 2, 2**31])
    with jax.default_prng_impl(kind), jax.enable_x64(True):
        key = jax.random.key(np.uint64(seed))
        one = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, numbers.astype(np.uint32))
        two = jax.vmap(jax.random.fold_in)(one, more.astype(np.uint32))
    with jax.default_prng_impl(kind):
        for expected, found in ((key, random_key(seed)), (one, keys_of(seed, numbers)), (two, keys_of(seed, numbers, more))):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(jax.random.key_data(found), jax.random.key_data(expected))
