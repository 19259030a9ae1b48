"""Sweeps of chains that are packed 32 in a word: they keep p, and a chain draws the same whatever runs beside it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import Case
from one_step import LEAST_P, keeps_p
from packed_cases import SIGNS, TWO
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import derive
from gmlmdsl.derive import _packed_sweep, _samplers
from gmlmdsl.derive._arrays import on_device
from gmlmdsl.derive._packed_sweep import LANES, PackedSweepKernel, below_behind, lane_sums
from gmlmdsl.plan.limits import BITS

pytestmark = pytest.mark.usefixtures("float32")  # in double precision nothing is packed
EACH = [TWO, SIGNS]


def kernel_of(of: Case, sampler: str = "sweep") -> derive.AbstractKernel:
    """At the case's parameters."""
    return derive.build_kernel(of.model.lowered, of.model.sampler(sampler)[1], of.params).kernel


def packed_of(of: Case) -> PackedSweepKernel:
    """That of its sweep, which is packed."""
    kernel = kernel_of(of)
    assert isinstance(kernel, PackedSweepKernel)
    return kernel


@pytest.mark.parametrize("of", thinned(EACH, 2), ids=str)
def test_digits_are_those_of_the_conditionals_and_keep_p(of: Case):
    """Every configuration as a chain: digits, and what they leave out, are p(x_i = 1 | rest), so pi P = pi."""
    kernel, states, p = packed_of(of), of.oracle.states, of.oracle.probabilities(of.params)
    chains = -len(states) % LANES + len(states)
    codes = jnp.asarray(np.pad(states.T, ((0, 0), (0, chains - len(states)))), jnp.int32)
    target = derive.Target(derive.graph_arrays(of.model.graph), of.model._params(of.params, of.model.lowered), None)
    held = kernel.enter(target, kernel.init(codes)).held
    matrix = np.eye(len(states))
    place = 2 ** np.arange(len(states[0]) - 1, -1, -1)
    for stage in kernel.stages:
        for t in range(stage.cells.shape[0]):
            turn = jax.tree.map(lambda a, t=t: a[t], stage)
            words = [held[turn.slots[:, d]] for d in range(turn.slots.shape[1])]
            found = kernel.combined(turn, words)
            high = probabilities(kernel, found)
            for cell, up in zip(np.asarray(turn.cells), high[:, : len(states)], strict=True):
                if cell == of.model.graph.n_cells:
                    continue
                first, second = np.arange(len(states)) & ~place[cell], np.arange(len(states)) | place[cell]
                np.testing.assert_allclose(up, p[second] / (p[first] + p[second]), rtol=2e-7)
                one = np.zeros_like(matrix)
                one[np.arange(len(states)), second] += up
                one[np.arange(len(states)), first] += 1 - up
                matrix = matrix @ one
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(p @ matrix, p, atol=1e-6)


def probabilities(kernel: PackedSweepKernel, found: list[jax.Array]) -> np.ndarray:
    """By which each chain of each cell gets the second value, where `found` says which combination it has; (cells, chains)."""
    rarer = np.asarray(kernel.rest, float)
    for d, digit in enumerate(np.asarray(kernel.digits)):
        rarer = rarer + (digit & 1) * 2.0**d
    rarer = rarer * 2.0**-BITS
    each = np.where(np.asarray(kernel.usual) > 0, 1 - rarer, rarer)
    held = np.stack([np.asarray(_packed_sweep._lanes(f)) for f in found])  # combinations, cells, words, lanes
    return np.einsum("k,kcwl->cwl", each, held).reshape(held.shape[1], -1)


@pytest.mark.check
@pytest.mark.usefixtures("compiled_in_full")
@pytest.mark.parametrize(("of", "sampler"), thinned([(TWO, "sweep"), (TWO, "twice"), (SIGNS, "sweep")], 3, 2), ids=str)
def test_one_step_from_p_stays_in_p(of: Case, sampler: str):
    """In float32, compiled with all optimisations: 200 000 chains, chi-square against p."""
    packed_of(of)
    assert keeps_p(of, sampler, 200_000) > LEAST_P


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
def test_a_chain_draws_the_same_whatever_runs_beside_it():
    """Of 4 and 40 chains, which are one word and two; it changes as often, too, as `changed` says."""
    found = [of_chains(n, 12) for n in (4, 40)]
    np.testing.assert_array_equal(found[0]["posterior"]["x"], found[1]["posterior"]["x"][:4])
    assert not np.array_equal(found[1]["posterior"]["x"][:8], found[1]["posterior"]["x"][32:])
    x = found[1]["posterior"]["x"].values
    moved = (x[:, 1:] != x[:, :-1]).mean(axis=2)
    np.testing.assert_allclose(found[1]["sample_stats"]["flip_rate"].values[:, 1:, 0], moved, atol=1e-6)


def of_chains(chains: int, draws: int):
    """Draws of the first case."""
    return TWO.model.sample(TWO.params, "sweep", draws=draws, warmup=1, chains=chains, seed=3, progress=False)


@pytest.mark.slow
def test_a_held_cell_stays_and_the_others_keep_their_law():
    """Given x[2] = 1."""
    x = TWO.model.sample(TWO.params, "sweep", draws=400, warmup=20, chains=64, clamp={"x": {2: 1}}, seed=5, progress=False)
    x = x["posterior"]["x"].values.reshape(-1, 7)
    assert (x[:, 2] == 1).all()
    p, states = TWO.oracle.probabilities(TWO.params), TWO.oracle.states
    p = np.where(states[:, 2] == 1, p, 0) / p[states[:, 2] == 1].sum()
    np.testing.assert_allclose(x.mean(axis=0), p @ states, atol=0.03)


@pytest.mark.parametrize(("words", "chains"), thinned([(1, 1), (15, 2), (255, 1), (300, 3)], 6))
def test_lane_sums_count_each_bit(words: int, chains: int):
    """All bits set too, where sums are largest."""
    for some in (
        np.random.default_rng(words).integers(0, 2**32, (words, chains), dtype=np.uint32),
        np.full((words, chains), 2**32 - 1, np.uint32),
    ):
        expected = ((some[:, :, None] >> np.arange(32, dtype=np.uint32)) & 1).sum(axis=0).ravel()
        np.testing.assert_array_equal(lane_sums(jnp.asarray(some)), expected)


def test_what_is_not_packed():
    """Couplings of many values, three values, another inverse temperature, doubles."""
    text = "graph G = chain(6)\nmodel m {{ var x[i in G.nodes] : {0} {1} }} sampler sweep {{ update x[i] for i in G.nodes }}"
    many = gm.parse(text.format("bit", "param J[(i, j) in G.edges] factor J[i, j] * x[i] * x[j] for (i, j) in G.edges")).model()
    three = gm.parse(text.format("range(3)", "param J factor J * x[i] * x[j] for (i, j) in G.edges")).model()
    for model, params in ((many, {"J": np.arange(5) + 0.1}), (three, {"J": np.array(0.1)})):
        kernel = derive.build_kernel(model.lowered, model.sampler("sweep")[1], params).kernel
        assert isinstance(kernel, _samplers.TabledSweepKernel)
    same = derive.build_kernel(many.lowered, many.sampler("sweep")[1], {"J": np.full(5, 0.1)}).kernel
    assert isinstance(same, PackedSweepKernel)
    with jax.enable_x64(True):
        exact = derive.build_kernel(many.lowered, many.sampler("sweep")[1], {"J": np.full(5, 0.1)}).kernel
    assert isinstance(exact, _samplers.TabledSweepKernel)


def test_what_digits_leave_out_decides_as_often_as_it_says():
    rest, keys = np.array([0.0, 0.25, 0.875]), jax.random.split(jax.random.key(3), 256)
    words = np.asarray(below_behind(keys, 16, on_device(rest)))
    share = np.bitwise_count(words).mean(axis=(0, 2)) / 32
    np.testing.assert_allclose(share, rest, atol=5 * 0.5 / np.sqrt(256 * 16 * 32))
