"""A thousand million draws of each primitive: values of probability 2e-8 come as often as Poisson's law has it.

Trees of more than 27 values, and tokens, decide by `second_of_two` at each node: it is drawn so often by the numbers of their levels. Exact
laws of all primitives stand in `test_picks.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import poisson

import gmlmdsl as gm
from gmlmdsl.data import picked
from gmlmdsl.derive import _picks, build_kernel
from gmlmdsl.derive._packed_sweep import PackedSweepKernel
from gmlmdsl.derive._random import fold, words, words_apart

RARE = 2e-8
TURNS, SHAPE, CHAINS = 1000, (4096,), 256
LEAST_P = 1e-5
Count = Callable[[jax.Array], jax.Array]


def drawn(count: Count, seed: int) -> int:
    """Of 1.05 x 10^9 draws those that `count` counts of a turn's."""

    @jax.jit
    def run(keys: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, TURNS, lambda t, n: n + count(fold(keys, t)), jnp.zeros((), jnp.int32))

    return int(run(jax.random.split(jax.random.key(seed), CHAINS)))


def come_as_often(found: int, expected: float) -> None:
    """Within the bounds that a Poisson count leaves once in 50,000 tests."""
    assert poisson.ppf(LEAST_P, expected) <= found <= poisson.isf(LEAST_P, expected), (found, expected)


def of_values(weights: list[float], levels: int) -> Count:
    """Draws of few values by their words, those of the rare ones."""

    def count(keys: jax.Array) -> jax.Array:
        every = [jnp.full((1, 1), w) for w in weights]
        value = _picks.pick_of_weights(every, words(keys, SHAPE, levels))
        return sum((value == v).sum(dtype=jnp.int32) for v, w in enumerate(weights) if w == RARE)

    return count


def of_nodes(keys: jax.Array) -> jax.Array:
    """Decisions at a node of a tree, by the words of its third level."""
    found = _picks.second_of_two(jnp.full((1, 1), 1 - RARE), jnp.full((1, 1), RARE), words(keys, SHAPE, 3).number(2))
    return found.sum(dtype=jnp.int32)


def of_words_apart(keys: jax.Array) -> jax.Array:
    """The same by words that are made apart, as for networks, masks and guided generation."""
    return _picks.happens(jnp.full((1, 1), RARE), jnp.full((1, 1), 1 - RARE), words_apart(keys, *SHAPE)).sum(dtype=jnp.int32)


PRIMITIVES = {
    "two": (of_values([1 - RARE, RARE], 1), 1),
    "three": (of_values([0.5, RARE, 0.5], 1), 1),
    "nine": (of_values([0.1, RARE, 0.2, 0.1, RARE, 0.3, 0.1, 0.1, 0.1], 1), 2),
    "listed": (of_values([RARE, *[0.1] * 4, RARE, *[0.1] * 6, RARE], 3), 3),
    "node": (of_nodes, 1),
    "apart": (of_words_apart, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_rare_value_is_drawn(name: str) -> None:
    count, values = PRIMITIVES[name]
    come_as_often(drawn(count, 5), values * RARE * TURNS * CHAINS * SHAPE[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
@pytest.mark.parametrize("rare", [1, -1])
def test_a_rare_value_of_packed_chains_is_drawn(rare: int) -> None:
    """Independent spins of probability 2e-8, either value, in packed words: 4096 cells, 256 chains, 1000 sweeps."""
    text = """
model m {
  var x[i in range(4096)] : spin
  param h
  param J
  factor h * x[i] for i in range(4096)
  factor J * x[i] * x[i + 1] for i in range(4096) if i < 4095
}
sampler sweep { update x[i] for i in range(4096) }
"""
    model = gm.parse(text).model()
    params = {"h": np.float32(rare * 0.5 * np.log(RARE)), "J": np.float32(1e-12)}
    assert isinstance(build_kernel(model.lowered, model.sampler("sweep")[1], params).kernel, PackedSweepKernel)
    found = model.sample(params, "sweep", draws=TURNS, warmup=1, chains=CHAINS, seed=4, keep_draws=False, progress=False)
    flips = found["sample_stats"]["flip_rate"].values.sum() * 4096
    come_as_often(round(flips / 2), RARE * TURNS * CHAINS * 4096)


@pytest.mark.slow
def test_a_rare_value_of_numpy_is_drawn() -> None:
    """10^8 draws, of probability 2e-7 each: replicated rows of small models."""
    rng, weights, found = np.random.default_rng(0), np.array([0.4, 2e-7, 0.6, 2e-7]), 0
    for _ in range(100):
        found += int((picked(rng, weights, 10**6) % 2 == 1).sum())
    come_as_often(found, 40.0)
