"""`temper`: exactness on the product of replicas, what it mends, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chi_square import p_value
from oracle import Oracle
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import derive
from gmlmdsl.explain import explain

pytestmark = pytest.mark.filterwarnings("ignore::gmlmdsl.sample._draw.SamplingWarning")
KEEPS = 1e-12

# Seven possible configurations of two cells; zeros from a `require` and from a factor.
SMALL = """
domain word = labels("x", "y", "z")
input hot : real = 0.4
input T[3, word] : real
model small {
  var a : range(3)
  var b : word
  param u
  factor u * a * (b == "y")
  factor T[a, b]
  factor if a == 0 and b == "z" then log(a) else 0.2
  require not (a == 2 and b == "x")
}
mask see given a { choose {a} weight 1 + 2 * a  choose {b} weight 1  choose {a, b} weight 0.5 }
mask one = subsets(size = 1)
sampler sweep    { temper(betas = [0, hot, 1]) { update a  update b } }
sampler adaptive { temper(betas = [1, 0, hot]) { update K where K ~ see } }
sampler pair     { temper(betas = [hot, 1]) { mixture { 2 : update K where K ~ one  1 : repeat 2 { update {a, b} } } } }
sampler cold     { temper(betas = [1]) { update K where K ~ one } }
sampler among    { update a  mixture { 1 : temper(betas = [hot, 1, 2.5]) { update b }  1 : update b } }
"""
TABLE = np.array([[0.5, -0.8, 0.0], [0.1, 1.2, -0.4], [0.9, 0.0, -1.1]])
PARAMS = {"u": np.array(0.7)}


@pytest.fixture(scope="module")
def small() -> Any:
    return gm.parse(SMALL, T=TABLE).model()


@pytest.fixture(scope="module")
def oracle(small: Any) -> Oracle:
    return Oracle(small.program.checked, None, {"T": TABLE})


@pytest.mark.parametrize("sampler", thinned(["sweep", "adaptive", "pair", "cold"], 4, 3))
@pytest.mark.parametrize("turn", thinned([0, 1], 2))
def test_a_step_keeps_the_product_of_the_powers_of_p(small: Any, oracle: Oracle, sampler: str, turn: int):
    """On all configurations of the replicas: the matrix and the law are the oracle's, and the law is stationary."""
    kernel = small.sampler(sampler)[1].body[0]
    with jax.enable_x64(True):
        law, matrix = derive.replica_matrix(small.lowered, {"u": jnp.asarray(0.7, float)}, kernel, turn)
    expected_law, expected = oracle.replica_matrix(PARAMS, kernel, turn)
    np.testing.assert_allclose(law, expected_law, rtol=0, atol=KEEPS)
    np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=0, atol=KEEPS)
    assert np.abs(law @ matrix - law).max() < KEEPS


def test_the_replica_at_beta_1_has_the_law_p_and_that_at_0_is_uniform(small: Any, oracle: Oracle):
    law, _ = oracle.replica_matrix(PARAMS, small.sampler("sweep")[1].body[0], 0)
    joint, p = law.reshape(9, 9, 9), oracle.probabilities(PARAMS)
    np.testing.assert_allclose(joint.sum(axis=(0, 1)), p, atol=KEEPS)
    np.testing.assert_allclose(joint.sum(axis=(1, 2)), (p > 0) / 7, atol=KEEPS)


@pytest.mark.slow  # one step of a ladder keeps the law by its matrix, in the gate
def test_long_chains_have_the_law(small: Any, oracle: Oracle):
    """1500 chains of 12 steps of a ladder among plain updates: chi-square against p, p above 1e-4."""
    idata = small.sample(PARAMS, "among", chains=1500, draws=1, warmup=12, seed=3)
    a, b = (np.asarray(idata.posterior[v])[:, 0] for v in ("a", "b"))
    assert p_value(np.bincount(3 * a + b, minlength=9), oracle.probabilities(PARAMS)) > 1e-4


@pytest.mark.slow
def test_a_clamped_chain_has_the_conditional_law(small: Any, oracle: Oracle):
    idata = small.sample(PARAMS, "sweep", chains=1500, draws=1, warmup=12, seed=4, clamp={"b": "z"})
    a, b = (np.asarray(idata.posterior[v])[:, 0] for v in ("a", "b"))
    assert (b == 2).all()
    p = oracle.probabilities(PARAMS).reshape(3, 3)[:, 2]
    assert p_value(np.bincount(a, minlength=3), p / p.sum()) > 1e-4


@pytest.mark.slow
def test_draws_depend_on_seed_chain_and_number_only(small: Any):
    def draws(**options: int) -> np.ndarray:
        return np.asarray(small.sample(PARAMS, "sweep", draws=40, warmup=3, seed=5, **options).posterior["a"])

    few = draws(chains=2)
    np.testing.assert_array_equal(draws(chains=3)[:2], few)
    np.testing.assert_array_equal(draws(chains=2, thin=2)[:, :20], few[:, 1::2])


@pytest.mark.slow
def test_a_ladder_rests_where_a_mixture_picks_another_row(small: Any):
    """Chains that did not run the ladder keep its replicas and its turn."""
    kernel = derive.build_kernel(small.lowered, small.sampler("among")[1]).kernel
    target = derive.Target(derive.graph_arrays(small.graph), {"u": jnp.asarray(0.7)}, None)
    before = kernel.init(jnp.ones((2, 64), jnp.int32))
    after, info = kernel.step(target, jax.random.split(jax.random.key(0), 64), before)
    ran = np.asarray(info.proposed).any(axis=0)
    assert 0 < ran.sum() < 64
    (old, new) = (jax.tree.leaves(state.memory) for state in (before, after))
    assert len(new) == 2  # codes of the replicas, and the turn
    np.testing.assert_array_equal(new[0][..., ~ran], old[0][..., ~ran])
    np.testing.assert_array_equal(new[1], ran)


@pytest.mark.slow  # a second ladder; a gap in it is reported below
def test_swap_rates_are_kept_for_each_pair_of_neighbours(small: Any):
    """`sweep` tries its two pairs in turn, so that each has a rate in every other draw."""
    stats = small.sample(PARAMS, "sweep", chains=2, draws=40, warmup=0, seed=5).sample_stats
    assert stats["swap_rate"].dims == ("chain", "draw", "pair")
    assert stats["swap_rate"].coords["pair"].values.tolist() == ["0 to 0.4", "0.4 to 1"]
    tried = ~np.isnan(stats["swap_rate"].values)
    np.testing.assert_array_equal(tried, np.broadcast_to(np.arange(40)[:, None] % 2 == np.arange(2), (2, 40, 2)))
    assert 0.2 < np.nanmean(stats["swap_rate"].values) < 1
    assert "swap_rate" not in small.sample(PARAMS, "cold", chains=2, draws=4, warmup=0).sample_stats


# Several modes

MODES = """
index site = range(8)
graph G = complete(site)
model potts {
  var x[i in site] : range(3)
  param J
  param h[a in range(3)]
  factor h[x[i]] for i in site
  factor J * (x[i] == x[j]) for (i, j) in G.edges
}
sampler plain { update x[i] for i in site }
sampler hot   { repeat 10 { temper(betas = [0, 0.15, 0.25, 0.35, 0.5, 0.7, 1]) { update x[i] for i in site } } }
sampler gap   { temper(betas = [0, 1]) { update x[i] for i in site } }
"""
STRONG = {"J": 1.2, "h": np.array([0.0, 0.1, -0.05])}


@pytest.fixture(scope="module")
def modes() -> tuple[Any, np.ndarray]:
    """A ferromagnet with three modes of probability 0.26, 0.57 and 0.17, and the exact marginal of a cell."""
    model = gm.parse(MODES).model()
    states = np.array(list(itertools.product(range(3), repeat=8)))
    p = np.exp(np.asarray(model.log_prob(STRONG, states), float))
    return model, np.array([(p * (states[:, 0] == a)).sum() for a in range(3)])


@pytest.mark.slow
def test_a_plain_sampler_is_stuck_and_says_so(modes: tuple[Any, np.ndarray]):
    model, exact = modes
    idata = model.sample(STRONG, "plain", draws=500, warmup=200, chains=4, seed=0)
    x, said = idata.posterior["x"].values, idata.posterior.attrs["warnings"]
    shares = np.stack([(x == a).mean(axis=(1, 2)) for a in range(3)], axis=1)
    assert (shares.max(axis=1) > 0.99).all()  # every chain in one mode
    assert np.abs(shares.mean(axis=0) - exact).max() > 0.2
    for part in ("rhat statistic is larger", "Some chains are stuck", "unequally often"):
        assert part in said


@pytest.mark.slow  # one step of a ladder keeps the law by its matrix, in the gate
def test_tempering_mends_it(modes: tuple[Any, np.ndarray]):
    """Marginals within 4 standard errors of the exact ones, the error from the effective sample size; nothing to warn of."""
    model, exact = modes
    idata = model.sample(STRONG, "hot", draws=1000, warmup=50, chains=4, seed=0)
    x, said = idata.posterior["x"].values, idata.posterior.attrs["warnings"]
    ess = 4 * 100  # what the diagnostics ask for at least, of every indicator
    shares = np.array([(x == a).mean() for a in range(3)])
    assert (np.abs(shares - exact) < 4 * np.sqrt(exact * (1 - exact) / ess)).all()
    assert said == ""
    assert np.nanmean(idata.sample_stats["swap_rate"].values, axis=(0, 1)).min() > 0.3


@pytest.mark.slow
def test_a_gap_in_the_ladder_is_reported(modes: tuple[Any, np.ndarray]):
    said = modes[0].sample(STRONG, "gap", draws=200, warmup=50, chains=4, seed=0).posterior.attrs["warnings"]
    assert "swap rate is smaller than 0.05" in said
    assert "`0 to 1" in said


# What is refused


@pytest.mark.parametrize(
    ("hot", "message"),
    [(1.0, "beta 1 is listed twice"), (-0.1, "at least 0, found -0.1"), (np.inf, "a beta is finite|not finite|infinite")],
)
def test_bad_ladders_are_refused_when_the_kernel_is_made(hot: float, message: str):
    with pytest.raises(gm.GmlmError, match=message):
        gm.parse(SMALL, T=TABLE, hot=hot).model().sample(PARAMS, "sweep", draws=2)


def test_the_matrix_of_one_configuration_is_refused(small: Any):
    for sampler in ("sweep", "among"):
        with pytest.raises(gm.GmlmError, match="not a matrix over the configurations of one"):
            small.transition_matrix(PARAMS, sampler)


def test_explain_prints_the_ladder_and_its_cost(small: Any):
    said = explain(small.program.checked, small.program.bound, sampler="sweep", plans=True)
    assert "on replicas of log p scaled by 0, hot, 1, then exchanges of neighbours" in said
    assert "3 replicas at beta 0, 0.4, 1: 3 times the work of the body" in said
    assert "Leaves p invariant" in said
    refused = gm.parse(SMALL, T=TABLE, hot=1.0)
    said = explain(refused.checked, refused.bound, sampler="sweep")
    assert "refused: beta 1 is listed twice" in said
    assert "Cannot run" in said
