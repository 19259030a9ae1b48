"""Kernels, whole programs and priors through the oracle: rows sum to 1, exact kernels keep p, closed forms agree."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from oracle import Oracle, stationary, total_variation
from oracle._conditionals import log_sum
from oracle._kernels import colours
from oracle._priors import DENSITIES, log_beta, log_dirichlet
from thinned import thinned

from gmlmdsl._diagnostics import Source
from gmlmdsl.program import check_source


def oracle_of(text: str, inputs: dict[str, object] | None = None) -> Oracle:
    """The oracle of a program's text."""
    return Oracle(check_source(Source("test.gmlm", text)), None, inputs or {})


ISING = """
input L : int = 2
graph G = grid(L, L, wrap = true)
model ising {
  var   x[i in G.nodes]      : spin
  param h[i in G.nodes]      ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i]           for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
mask pairs  = subsets(x, size = 2)
mask rows   = blocks(G.rows)
mask whole  = everything(x)
mask agreeing given x {
  choose {x[i], x[j]} for (i, j) in G.edges weight exp(0.5 * x[i] * x[j])
  choose {x[i]}       for i in G.nodes      weight 0.1
}
mask hot given x { each x[i] for i in G.nodes rate sigmoid(0.3 * x[i]) }
sampler gibbs  { update x[K] where K ~ pairs }
sampler sweep  { update x[i] for i in G.nodes }
sampler strips { update x[r] for r in G.rows }
sampler naive  { update x[K] independently where K ~ whole }
sampler hybrid {
  mixture {
    0.9 : update x[i] for i in G.nodes
    0.1 : update x[K] where K ~ rows
  }
}
sampler adaptive { update x[K] where K ~ agreeing }
sampler warm     { update x[K] where K ~ hot }
"""

# Kernels

EXACT = ["gibbs", "sweep", "strips", "hybrid", "adaptive", "warm"]


@pytest.mark.parametrize("sampler", EXACT)
@pytest.mark.parametrize("size", thinned([2, 3], 2))
def test_exact_kernels_keep_p(size: int, sampler: str):
    oracle = oracle_of(ISING, {"L": size})
    params = oracle.random_params(0)
    matrix, p = oracle.transition_matrix(params, sampler), oracle.probabilities(params)
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    assert matrix.min() >= 0
    np.testing.assert_allclose(p @ matrix, p, atol=1e-14)
    if sampler in ("gibbs", "adaptive", "warm"):
        np.testing.assert_allclose(p[:, None] * matrix, (p[:, None] * matrix).T, atol=1e-15)


def test_independent_redraws_keep_the_law_of_parallel_dynamics_and_not_p():
    oracle = oracle_of(ISING)
    params = oracle.random_params(0)
    law = stationary(oracle.transition_matrix(params, "naive"))
    coupling = np.zeros((4, 4))
    for (i, j), value in zip(oracle.graph("G").edges, params["J"], strict=True):
        coupling[i, j] = coupling[j, i] = value
    x = 2.0 * oracle.states - 1
    weight = np.exp(x @ params["h"]) * np.prod(2 * np.cosh(params["h"] + x @ coupling), axis=1)
    np.testing.assert_allclose(law, weight / weight.sum(), atol=1e-12)
    assert total_variation(law, oracle.probabilities(params)) > 0.01


def test_sweeps_take_colours_in_order():
    terms = [frozenset(pair) for pair in ((0, 1), (1, 2), (2, 3), (0, 3))]
    cells = [frozenset({i}) for i in range(4)]
    assert colours(cells, terms) == [[{0}, {2}], [{1}, {3}]]
    assert colours([frozenset({2, 3}), frozenset({0, 1}), frozenset({1, 2})], []) == [[{0, 1}, {2, 3}], [{1, 2}]]
    oracle = oracle_of(ISING)
    params = oracle.random_params(0)
    by_colours, listed = (oracle.transition_matrix(params, "sweep", by_colours=c) for c in (True, False))
    assert not np.allclose(by_colours, listed)
    apart = {"h": params["h"], "J": np.zeros(4)}
    np.testing.assert_allclose(oracle.transition_matrix(apart, "sweep"), oracle.transition_matrix(apart, "sweep", by_colours=False))


def test_a_sampler_composes_its_statements():
    text = """
    model m { var a : bit  var b : bit  factor 0.7 * a * b }
    mask one { choose {a} weight 1 }
    sampler pieces { update a  update b }
    sampler thrice { repeat 3 { cycle { update a  update b } } }
    sampler either { mixture { 3 : update a  1 : update b } }
    sampler alone  { update a independently }
    sampler drawn  { update K where K ~ one }
    sampler hot    { temper(betas = [0.5, 1]) { update a } }
    """
    oracle = oracle_of(text)
    a, b = math.exp(0.7) / (1 + math.exp(0.7)), 0.5  # p(a = 1 | b = 1) and p(a = 1 | b = 0), and so for b
    first = np.array([[1 - b, 0, b, 0], [0, 1 - a, 0, a], [1 - b, 0, b, 0], [0, 1 - a, 0, a]])
    second = np.array([[1 - b, b, 0, 0], [1 - b, b, 0, 0], [0, 0, 1 - a, a], [0, 0, 1 - a, a]])
    np.testing.assert_allclose(oracle.transition_matrix({}, "pieces"), first @ second)
    np.testing.assert_allclose(oracle.transition_matrix({}, "thrice"), np.linalg.matrix_power(first @ second, 3))
    np.testing.assert_allclose(oracle.transition_matrix({}, "either"), 0.75 * first + 0.25 * second)
    np.testing.assert_allclose(oracle.transition_matrix({}, "alone"), first)
    np.testing.assert_allclose(oracle.transition_matrix({}, "drawn"), first)
    with pytest.raises(NotImplementedError):
        oracle.transition_matrix({}, "hot")


# Programs of the contract

MIXED = """
index day = range(6)
model mixed {
  var s[t in day] : spin
  var w[t in day] : labels("sun", "rain", "snow")
  var k           : range(4)
  param u[a in range(4)]
  param beta : positive ~ gamma(2, 2)
  let  cold[t in day] = w[t] == "snow"
  factor u[k]
  factor -beta * (s[t] - 1) * cold[t]                 for t in day
  factor if s[t] == s[t + 1] and k > 1 then 0.7 else 0 for t in day if t < 5
  require not (w[t] == "snow" and w[t + 1] == "sun")   for t in day if t < 5
}
mask window = mixture { 0.5 : subsets(s, size = 2)  0.5 : blocks({w[t], w[t + 1]} for t in day if t < 5) }
sampler moves { update K where K ~ window  update k  update w[t] for t in day }
"""


def test_mixed_partition_agrees_with_a_transfer_matrix():
    oracle = oracle_of(MIXED)
    params = oracle.random_params(0)
    days = list(itertools.product((-1, 1), range(3)))  # (s, w) of one day
    z = 0.0
    for k in range(4):
        alone = np.array([-params["beta"] * (s - 1) * (w == 2) for s, w in days])
        step = np.array([[-np.inf if (w, v) == (2, 0) else 0.7 * (s == r and k > 1) for r, v in days] for s, w in days])
        forward = alone
        for _ in range(5):
            forward = log_sum(forward[:, None] + step, (0,))[0] + alone
        z += math.exp(params["u"][k] + log_sum(forward).item())
    assert oracle.log_partition(params) == pytest.approx(math.log(z))


def test_mixed_kernels_keep_p():
    oracle = oracle_of(MIXED.replace("range(6)", "range(3)").replace("t < 5", "t < 2"))
    params = oracle.random_params(0)
    matrix, p = oracle.transition_matrix(params, "moves"), oracle.probabilities(params)
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    np.testing.assert_allclose(p @ matrix, p, atol=1e-14)


TABLES = """
input U[3] : real
input T[2, 3, 4] : real
input P[2, 2] : positive
model tables {
  var a : bit
  var b : range(3)
  var c : range(4)
  var y[i in range(2)] : spin
  factor U[b]
  factor T[a, b, c]
  factor 0.3 * y[0] * y[1] * spin(a)
  factor U[a + bit(y[1])]
  require not (a == 1 and b == 2)
}
mask pieces { choose {a, b} weight 0.4  choose {c} weight 0.4  choose {y[0], y[1]} weight 0.2 }
mask hint given a { choose {b} weight P[a, 0]  choose {b, c, y[0]} weight P[a, 1] }
mask two = subsets(size = 2)
sampler moves { update K where K ~ pieces }
sampler hints { update K where K ~ hint  update K where K ~ two }
"""


def tables(seed: int) -> tuple[Oracle, dict[str, np.ndarray]]:
    """The program with numbers drawn from a seed."""
    rng = np.random.default_rng(seed)
    numbers = {"U": rng.normal(size=3), "T": rng.normal(size=(2, 3, 4)), "P": rng.gamma(1.0, 1.0, (2, 2))}
    return oracle_of(TABLES, dict(numbers)), numbers


def test_tables_potential_by_a_plain_loop():
    oracle, n = tables(1)
    assert oracle.positions("y").tolist() == [3, 4]
    expected = []
    for a, b, c, *y in itertools.product(range(2), range(3), range(4), (-1, 1), (-1, 1)):
        value = n["U"][b] + n["T"][a, b, c] + 0.3 * y[0] * y[1] * (2 * a - 1) + n["U"][a + (y[1] + 1) // 2]
        expected.append(-np.inf if (a, b) == (1, 2) else value)
    np.testing.assert_allclose(oracle.log_potential({}, oracle.states), expected)


@pytest.mark.parametrize("sampler", ["moves", "hints"])
def test_tables_kernels_keep_p(sampler: str):
    oracle, _ = tables(2)
    matrix, p = oracle.transition_matrix({}, sampler), oracle.probabilities({})
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    np.testing.assert_allclose(p @ matrix, p, atol=1e-15)
    impossible = p == 0
    assert not matrix[np.ix_(~impossible, impossible)].any()


HMM = """
domain char = letters("abc")
input n_tags : int = 2
input width  : int = 3
index tag  = range(n_tags)
index time = range(width)
model hmm {
  latent z[t in time] : tag
  var    x[t in time] : char
  param first[a in tag]           : simplex ~ dirichlet(1)
  param move[a in tag, b in tag]  : simplex ~ dirichlet(1)
  param emit[a in tag, c in char] : simplex ~ dirichlet(1.1)
  z[0] ~ categorical(first)
  z[t] ~ categorical(move[z[t - 1]]) for t in time if t > 0
  x[t] ~ categorical(emit[z[t]])     for t in time
}
"""


def test_hidden_chain_is_normalised_and_sums_its_latents():
    oracle = oracle_of(HMM)
    params = oracle.random_params(0)
    assert oracle.log_partition(params) == pytest.approx(0, abs=1e-12)
    rows = oracle.encode({"x": np.array(["bca"])})
    assert rows.tolist() == [[-1, -1, -1, 1, 2, 0]]
    forward = params["first"] * params["emit"][:, 1]
    for letter in (2, 0):
        forward = forward @ params["move"] * params["emit"][:, letter]
    np.testing.assert_allclose(oracle.log_prob(params, rows), [math.log(forward.sum())])


def test_latents_of_a_small_machine_sum_to_softplus():
    text = """
    index pixel = range(3)
    index unit = range(2)
    model rbm {
      var v[i in pixel] : bit
      latent h[j in unit] : bit
      param a[i in pixel]
      param b[j in unit]
      param W[i in pixel, j in unit]
      factor a[i] * v[i] for i in pixel
      factor b[j] * h[j] for j in unit
      factor W[i, j] * v[i] * h[j] for i in pixel for j in unit
    }
    mask some = bernoulli(v, rate = 0.5)
    sampler alternate { update h  update v }
    """
    oracle = oracle_of(text)
    params = oracle.random_params(0)
    v = np.array(list(itertools.product((0, 1), repeat=3)))
    free = v @ params["a"] + np.logaddexp(0, params["b"] + v @ params["W"]).sum(axis=1)
    rows = oracle.encode({"v": v})
    np.testing.assert_allclose(oracle.log_potential(params, rows), free)
    # the loss over the sixteen blocks of each row, from the free energies alone
    expected = 0.0
    for x, energy in zip(v, free, strict=True):
        for k in itertools.product((False, True), repeat=3):
            near = (v == x)[:, ~np.array(k)].all(axis=1)
            expected += (log_sum(free[near]).item() - energy) / 8 / 8
    assert oracle.loss(params, rows, "some") == pytest.approx(expected)
    p, matrix = oracle.probabilities(params), oracle.transition_matrix(params, "alternate")
    np.testing.assert_allclose(p @ matrix, p, atol=1e-15)


def test_adaptive_loss_corrects_for_the_block():
    oracle = oracle_of(ISING)
    params = oracle.random_params(0)
    p = oracle.probabilities(params)
    row = oracle.states[5]
    expected = 0.0
    for k, law in oracle.mask_table(params, "agreeing").items():
        rest = [c for c in range(4) if c not in k]
        near = (oracle.states[:, rest] == row[rest]).all(axis=1)
        expected -= law[5] * math.log(p[5] * law[5] / (p * law)[near].sum())
    assert oracle.loss(params, row, "agreeing") == pytest.approx(expected)


# Priors


@pytest.mark.slow
def test_prior_densities_integrate_to_one():
    def mass(density, grid):
        return np.trapezoid([math.exp(density(v)) for v in grid], grid)

    wide, positive, unit = np.linspace(-400, 400, 400_001), np.linspace(1e-9, 60, 60_001), np.linspace(0, 1, 20_001)
    assert mass(lambda v: DENSITIES["normal"](v, 0.5, 2.0), wide) == pytest.approx(1)
    assert mass(lambda v: DENSITIES["laplace"](v, 0.5, 2.0), wide) == pytest.approx(1, abs=1e-6)
    assert mass(lambda v: DENSITIES["student_t"](v, 4.0, 0.5, 2.0), wide) == pytest.approx(1, abs=1e-6)
    assert mass(lambda v: DENSITIES["gamma"](v, 2.5, 0.8), positive) == pytest.approx(1, abs=1e-6)
    assert mass(lambda v: DENSITIES["beta"](v, 2.0, 3.5), unit) == pytest.approx(1, abs=1e-6)
    assert DENSITIES["gamma"](2.0, 3.0, 0.5) == pytest.approx(math.log(0.5**3 * 2**2 / 2) - 1)


def test_dirichlet_of_two_is_a_beta_and_of_ones_is_flat():
    assert log_dirichlet(np.array([0.3, 0.7]), np.array([2.0, 3.0])) == pytest.approx(log_beta(0.3, 2.0, 3.0))
    assert log_dirichlet(np.array([0.0, 0.25, 0.75]), np.ones(3)) == pytest.approx(math.log(2))


def test_priors_may_depend_on_the_index():
    text = "graph G = chain(3)\nmodel m { var x[i in G.nodes] : spin  param J[(i, j) in G.edges] ~ normal(i, 1 + j)  factor x[0] }"
    value = oracle_of(text).log_prior({"J": np.array([0.5, 0.5])})
    expected = [DENSITIES["normal"](0.5, 0, 2), DENSITIES["normal"](0.5, 1, 3)]
    assert value == pytest.approx(sum(expected))
