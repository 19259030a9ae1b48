"""Compiled kernels, in float32 as users run them, draw what the exact matrix says."""

from __future__ import annotations

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import BY_NAME, Case
from chi_square import p_value
from thinned import thinned

from gmlmdsl import derive

CHAINS = 100_000
FEW = 10_000  # of kernels with large buckets; `nightly/test_kernels_at_length.py` runs all of them
LEAST_P = 1e-4

step = eqx.filter_jit(lambda kernel, target, keys, state: kernel.step(target, keys, state))


@cache
def kernel_of(case: Case, sampler: str) -> derive.AbstractKernel:
    """The compiled kernel of a sampler."""
    return derive.build_kernel(case.model.lowered, case.model.sampler(sampler)[1]).kernel


def target_of(case: Case, clamped: np.ndarray | None = None) -> derive.Target:
    """The model with its parameters as float32."""
    held = None if clamped is None else jnp.asarray(np.append(clamped, False))
    return derive.Target(derive.graph_arrays(case.model.graph), case.model._params(case.params, case.model.lowered), held)


def one_step(case: Case, sampler: str, starts: np.ndarray, seed: int) -> tuple[np.ndarray, derive.Info]:
    """The numbers of the configurations that chains reach in one step from given ones."""
    kernel = kernel_of(case, sampler)
    state = kernel.init(jnp.asarray(case.oracle.states[starts].T, jnp.int32))
    state, info = step(kernel, target_of(case), jax.random.split(jax.random.key(seed), len(starts)), state)
    return np.ravel_multi_index(tuple(np.asarray(state.codes)), case.oracle.domain_sizes), info


KERNELS = [
    ("lattice", "two"),  # uniform pairs
    ("lattice", "sweep"),  # colours in parallel
    ("lattice", "strips"),  # blocks of three
    ("lattice", "weigh"),  # weighted list
    ("lattice", "agree"),  # listed blocks with weights that look at x
    ("lattice", "naive"),  # independent parallel
    ("lattice", "halves"),  # independent sweep of blocks
    ("lattice", "hybrid"),  # a mixture
    ("log_zero", "looks"),
    ("log_zero", "nones"),  # some x hide nothing
    ("bipartite", "biased"),  # independent draws of random blocks
    ("computed", "sweep"),  # cells chosen by cells
    ("directed", "spans"),
]
HEAVY = [
    ("lattice", "warm"),  # cells with rates that look at x: buckets of size
    ("log_zero", "mixes"),  # a nested mixture of adaptive masks, with rates of 0 and 1
    ("triples", "coin"),  # bernoulli over domains of 2, 3 and 4
]
AT_LENGTH = [
    ("weather", "drawn"),  # bernoulli and uniform rate, a repeat
    ("weather", "mixed"),  # a mixture with a cycle
    ("log_zero", "rates"),
    ("bipartite", "halves"),
    ("arcs", "seeing"),
    *HEAVY,
]


def check_one_step(name: str, sampler: str, chains: int, seed: int) -> None:
    """Chains that start exactly in p, and as many at one configuration: chi-square against p P and a row of P."""
    case = BY_NAME[name]
    oracle = case.oracle
    p, matrix = oracle.probabilities(case.params), oracle.transition_matrix(case.params, sampler)
    start = int(np.argsort(p)[-3])
    starts = np.append(np.random.default_rng(seed).choice(len(p), chains, p=p), np.full(chains, start))
    reached, info = one_step(case, sampler, starts, seed)
    assert p_value(np.bincount(reached[:chains], minlength=len(p)), p @ matrix) > LEAST_P
    assert p_value(np.bincount(reached[chains:], minlength=len(p)), matrix[start]) > LEAST_P
    moved = (oracle.states[starts] != oracle.states[reached]).any(axis=1)
    assert (np.asarray(info.drawn).sum(axis=0)[moved] > 0).all()


@pytest.mark.parametrize(("name", "sampler"), [*thinned(KERNELS, 10, 4), *(pytest.param(*k, marks=pytest.mark.slow) for k in HEAVY)])
def test_one_step_from_p_and_from_one_configuration(name: str, sampler: str):
    check_one_step(name, sampler, FEW if (name, sampler) in HEAVY else CHAINS, seed=11)


@pytest.mark.slow  # planted bugs try the comparison in the gate
def test_the_comparison_sees_a_small_error():
    """A row that is off by 10 % of its largest entry is rejected at 100 000 chains."""
    case = BY_NAME["lattice"]
    p, matrix = case.oracle.probabilities(case.params), case.oracle.transition_matrix(case.params, "two")
    start = int(np.argsort(p)[-3])
    counts = np.bincount(one_step(case, "two", np.full(2 * CHAINS, start), seed=11)[0], minlength=len(p))
    wrong = matrix[start].copy()
    wrong[np.argsort(wrong)[-2]] *= 1.1
    assert p_value(counts, matrix[start]) > LEAST_P
    assert p_value(counts, wrong / wrong.sum()) < LEAST_P


@pytest.mark.slow
def test_info_counts_what_was_drawn_and_what_changed():
    case = BY_NAME["weather"]
    starts = np.full(1000, int(np.argmax(case.oracle.probabilities(case.params))))
    reached, info = one_step(case, "gibbs", starts, seed=0)
    before, after = case.oracle.states[starts], case.oracle.states[reached]
    np.testing.assert_array_equal(info.changed, (before != after).sum(axis=1)[None])
    np.testing.assert_array_equal(info.drawn, np.ones((1, 1000)))
    _, info = one_step(case, "cells", starts, seed=0)
    np.testing.assert_array_equal(info.drawn, np.array([2, 1, 1, 1])[:, None] * np.ones(1000))  # s, b, k, w
    assert info.proposed.shape == info.accepted.shape == (0, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", thinned(["strips", "halves", "two"], 3, 2))
def test_info_leaves_out_what_is_clamped(sampler: str):
    """Cells 1 and 4 are held: a sweep draws the other four, a pair as many as are not held."""
    case = BY_NAME["lattice"]
    held = np.zeros(6, bool)
    held[[1, 4]] = True
    kernel, codes = kernel_of(case, sampler), jnp.zeros((6, 64), jnp.int32)
    _, info = step(kernel, target_of(case, held), jax.random.split(jax.random.key(4), 64), kernel.init(codes))
    _, every = step(kernel, target_of(case), jax.random.split(jax.random.key(4), 64), kernel.init(codes))
    expected = [0, 1, 2] if sampler == "two" else [4]
    np.testing.assert_array_equal(np.unique(info.drawn), expected)
    np.testing.assert_array_equal(np.unique(every.drawn), [2] if sampler == "two" else [6])


@pytest.mark.slow
def test_chains_do_not_look_at_one_another():
    """The same keys give the same moves whatever the other chains do, also where chains pick different buckets or rows."""
    case = BY_NAME["lattice"]
    keys = jax.random.split(jax.random.key(3), 64)
    codes = jnp.asarray(case.rows[np.arange(64) % 12].T, jnp.int32)
    for sampler in ("hybrid", "warm"):
        kernel, target = kernel_of(case, sampler), target_of(case)
        together, _ = step(kernel, target, keys, kernel.init(codes))
        alone, _ = step(kernel, target, keys[5:9], kernel.init(codes[:, 5:9]))
        np.testing.assert_array_equal(alone.codes, together.codes[:, 5:9])


@pytest.mark.slow
@pytest.mark.parametrize("sampler", thinned(["pairs", "looks", "sweep"], 3, 1))
def test_impossible_blocks_stay_and_no_chain_leaves_the_support(sampler: str):
    case = BY_NAME["log_zero"]
    p = case.oracle.probabilities(case.params)
    possible = np.flatnonzero(p > 0)
    reached, _ = one_step(case, sampler, np.repeat(possible, 500), seed=5)
    assert (p[reached] > 0).all()


@pytest.mark.slow
def test_clamped_cells_never_move_and_the_others_follow_the_conditional():
    """One draw of the whole model with two cells held: the law is p given those cells, and the mask's correction stays."""
    case = BY_NAME["lattice"]
    held = np.zeros(6, bool)
    held[[1, 4]] = True
    p = case.oracle.probabilities(case.params)
    inside = (case.oracle.states[:, [1, 4]] == [1, 0]).all(axis=1)
    law = np.where(inside, p, 0) / p[inside].sum()
    starts = np.random.default_rng(2).choice(len(p), CHAINS, p=law)
    for sampler in ("sweep", "two", "agree"):
        kernel = kernel_of(case, sampler)
        state = kernel.init(jnp.asarray(case.oracle.states[starts].T, jnp.int32))
        state, _ = step(kernel, target_of(case, held), jax.random.split(jax.random.key(4), CHAINS), state)
        reached = np.ravel_multi_index(tuple(np.asarray(state.codes)), case.oracle.domain_sizes)
        assert p_value(np.bincount(reached, minlength=len(p)), law) > LEAST_P, sampler
        assert (reached != starts).mean() > 0.05
