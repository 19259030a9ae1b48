"""The oracle against numbers worked out by hand, and against laws that need no oracle."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from oracle import Oracle, numerical_gradient, stationary, total_variation

from gmlmdsl._diagnostics import Source
from gmlmdsl.program import check_source


def oracle_of(text: str, inputs: dict[str, object] | None = None) -> Oracle:
    """The oracle of a program's text."""
    return Oracle(check_source(Source("test.gmlm", text)), None, inputs or {})


def exact(law: dict[frozenset[int], float]) -> dict[tuple[int, ...], Fraction]:
    """A law of blocks as fractions of small numbers."""
    return {tuple(sorted(k)): Fraction(p).limit_denominator(10_000) for k, p in law.items()}


TWO_SPINS = """
graph G = chain(2)
model two {
  var x[i in G.nodes] : spin
  param h[i in G.nodes] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i] for i in G.nodes
  factor J[j, i] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
mask whole = everything(x)
"""
TWO = {"h": np.array([0.3, -0.2]), "J": np.array([0.5])}
TWO_POTENTIALS = [-0.3 + 0.2 + 0.5, -0.3 - 0.2 - 0.5, 0.3 + 0.2 - 0.5, 0.3 - 0.2 + 0.5]  # --, -+, +-, ++


# Two spins by hand


def test_two_spins_have_the_potentials_written_down():
    oracle = oracle_of(TWO_SPINS)
    assert oracle.states.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    np.testing.assert_allclose(oracle.log_potential(TWO, oracle.states), TWO_POTENTIALS, atol=1e-15)
    assert oracle.log_partition(TWO) == pytest.approx(math.log(sum(map(math.exp, TWO_POTENTIALS))))


def test_conditional_of_a_spin_is_the_logistic_of_twice_its_field():
    oracle = oracle_of(TWO_SPINS)
    table = oracle.log_conditional(TWO, np.array([0, 1]), K=(0,))
    up = 1 / (1 + math.exp(-2 * (0.3 + 0.5)))  # the other spin is +1
    np.testing.assert_allclose(np.exp(table), [1 - up, up])


def test_losses_of_single_and_whole_masks():
    oracle = oracle_of(TWO_SPINS)
    rows = np.array([[1, 1], [0, 1]])
    lone = [[math.log1p(math.exp(-2 * s * f)) for s, f in row] for row in ([(1, 0.8), (1, 0.3)], [(-1, 0.8), (1, -0.7)])]
    np.testing.assert_allclose(oracle.row_losses(TWO, rows, "single"), np.mean(lone, axis=1))
    z = oracle.log_partition(TWO)
    assert oracle.loss(TWO, rows, "whole", row_weights=[3, 1]) == pytest.approx((3 * (z - 0.6) + (z + 1.0)) / 4)
    # `single` gives the usual penalised pseudolikelihood: the sum over cells
    prior = sum(-v * v / 2 - math.log(2 * math.pi) / 2 for v in (0.3, -0.2, 0.5))
    assert oracle.fit_objective(TWO, rows, "single") == pytest.approx(np.sum(lone) - prior)
    assert oracle.fit_objective(TWO, rows, "whole", [3, 1]) == pytest.approx(3 * (z - 0.6) + (z + 1.0) - prior)


def test_missing_cell_is_summed_out_of_both():
    oracle = oracle_of(TWO_SPINS)
    row = np.array([[1, -1]])
    w = np.exp(TWO_POTENTIALS)
    assert oracle.log_prob(TWO, row)[0] == pytest.approx(math.log((w[2] + w[3]) / w.sum()))
    # K = {0} scores p(x_0 = +), K = {1} has no observed cell and scores 0
    assert oracle.loss(TWO, row, "single") == pytest.approx(-math.log((w[2] + w[3]) / w.sum()) / 2)


def test_gradient_of_log_prob_is_observed_minus_expected():
    oracle = oracle_of(TWO_SPINS)
    gradient = numerical_gradient(lambda p: float(oracle.log_prob(p, np.array([1, 1]))), TWO)
    p, x = oracle.probabilities(TWO), 2 * oracle.states - 1
    np.testing.assert_allclose(gradient["h"], 1 - p @ x, atol=1e-8)
    np.testing.assert_allclose(gradient["J"], [1 - p @ (x[:, 0] * x[:, 1])], atol=1e-8)


# Lemma 3: the adaptive conditional is not the plain one

LEMMA3 = """
input T[2, 2] : real
input A[2, 2] : real
model two { var a : bit  var b : bit  factor log(T[a, b]) }
mask looking given a, b {
  choose {a} weight A[a, b]
  choose {b} weight 1 - A[a, b]
}
sampler moves { update K where K ~ looking }
"""
T = [[Fraction(1, 2), Fraction(1, 4)], [Fraction(1, 4), Fraction(0)]]
A = [[Fraction(1, 2), Fraction(1, 4)], [Fraction(3, 4), Fraction(1)]]


def lemma3() -> Oracle:
    """Two bits with p(11) = 0 and a mask that looks at both."""
    return oracle_of(LEMMA3, {name: np.array(table, dtype=float) for name, table in (("T", T), ("A", A))})


def test_adaptive_conditional_differs_from_the_plain_one():
    oracle = lemma3()
    plain = np.exp(oracle.log_conditional({}, np.array([0, 0]), K=(0,)))
    looking = np.exp(oracle.log_conditional({}, np.array([0, 0]), K=(0,), mask="looking"))
    np.testing.assert_allclose(plain, [2 / 3, 1 / 3])  # 1/2 : 1/4
    np.testing.assert_allclose(looking, [4 / 7, 3 / 7])  # 1/2 * 1/2 : 1/4 * 3/4


def test_adaptive_conditionals_average_to_the_plain_one():
    """Lemma 4: the mean over K' ~ p(. | x_-K) of p(x_K | x_-K, K') is p(x_K | x_-K)."""
    for b in (0, 1):
        seen = T[0][b] + T[1][b]
        total = [Fraction(0), Fraction(0)]
        for picks_a in (True, False):
            w = [T[a][b] * (A[a][b] if picks_a else 1 - A[a][b]) for a in (0, 1)]
            total = [t + sum(w) / seen * v / sum(w) for t, v in zip(total, w, strict=True)]
        assert total == [T[0][b] / seen, T[1][b] / seen]
        got = np.exp(lemma3().log_conditional({}, np.array([0, b]), K=(0,)))
        np.testing.assert_allclose(got, [float(v) for v in total])


def test_adaptive_chain_has_the_entries_worked_out_and_keeps_p():
    oracle = lemma3()
    matrix = oracle.transition_matrix({}, "moves")
    np.testing.assert_allclose(matrix[0], [4 / 7, 3 / 14, 3 / 14, 0])  # half of each of the conditionals above
    p = oracle.probabilities({})
    np.testing.assert_allclose(p, [1 / 2, 1 / 4, 1 / 4, 0])
    np.testing.assert_allclose(p[:, None] * matrix, (p[:, None] * matrix).T, atol=1e-15)
    np.testing.assert_allclose(stationary(matrix), p, atol=1e-12)


def test_dropping_k_from_the_condition_loses_p():
    oracle = lemma3()
    same = oracle.states[:, None, :] == oracle.states[None, :, :]
    p, wrong = oracle.probabilities({}), np.zeros((4, 4))
    for k, law in oracle.mask_table({}, "looking").items():
        agree = same[:, :, [c for c in (0, 1) if c not in k]].all(axis=-1)
        wrong += law[:, None] * agree * p[None, :] / (agree @ p)[:, None]
    assert total_variation(stationary(wrong), p) > 0.01


# Zeros

ZEROS = """
model m {
  var a : bit
  var b : range(3)
  require not (a == 1 and b == 2)
  require b != 1
}
sampler both { update a  update b }
mask single = subsets(size = 1)
"""


def test_require_gives_zeros_and_impossible_rests():
    oracle = oracle_of(ZEROS)
    np.testing.assert_allclose(oracle.probabilities({}), [1 / 3, 0, 1 / 3, 1 / 3, 0, 0])
    table = oracle.log_conditional({}, oracle.states, K=(0,))
    np.testing.assert_allclose(table[0], np.log([0.5, 0.5]))
    assert np.isnan(table[1]).all()
    np.testing.assert_array_equal(table[2], [0, -np.inf])
    assert oracle.loss({}, oracle.states[5], "single") == np.inf


def test_where_the_rest_is_impossible_the_block_stays():
    oracle = oracle_of(ZEROS)
    matrix = oracle.transition_matrix({}, "both")
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    # a stays at (0, 1), whose rest b = 1 is impossible; then b is drawn given a = 0
    np.testing.assert_allclose(matrix[1], [1 / 2, 0, 1 / 2, 0, 0, 0])


# Expressions


def test_operators_mean_what_the_contract_says():
    cases = {
        "-7 // 2": -4.0,
        "-7 % 3": 2.0,
        "2 ^ -1": 0.5,
        "-2 ^ 2": -4.0,
        "1 + (2 < 3)": 2.0,
        "if 1 == 2 or not (2 <= 1) then 5 else log(0)": 5.0,
        "log(0)": -np.inf,
        "spin(1) + spin(0) * 3": -2.0,
        "bit(-1) + bit(1)": 1.0,
        "min(2, 3) + max(2, 3)": 5.0,
        "sigmoid(0) + tanh(0) + abs(-2) + sqrt(4) + exp(0)": 5.5,
        "sum(i * j for i in range(4) for j in range(3) if i < j)": 2.0,
        "q + r": 8.5,
    }
    for text, value in cases.items():
        oracle = oracle_of(f"input q : int = 3\ninput r : real = q + 2.5\nmodel m {{ var a : bit  factor {text} }}")
        np.testing.assert_allclose(oracle.log_potential({}, oracle.states), [value, value], err_msg=text)


DYNAMIC = """
input U[3] : real
model m {
  var x[i in range(3)] : spin
  var k : range(3)
  var w : labels("sun", "rain")
  param v[i in range(3), c in range(2)]
  let next[i in range(3)] = if i < 2 then x[i + 1] * U[i] else 10 * x[0]
  factor x[k]
  factor U[(k + 1) % 3]
  factor next[k]
  factor if k < 2 then x[k + 1] else 0
  factor v[k, bit(x[2])] * (w == "rain")
}
"""


def test_indices_computed_from_variables():
    u, v = np.array([0.1, 0.2, 0.4]), np.arange(6.0).reshape(3, 2)
    oracle = oracle_of(DYNAMIC, {"U": u})
    expected = []
    for x in itertools.product((-1, 1), repeat=3):
        for k in range(3):
            later = (x[1] * u[0], x[2] * u[1], 10 * x[0])[k]
            base = x[k] + u[(k + 1) % 3] + later + (x[k + 1] if k < 2 else 0)
            expected += [base, base + v[k, (x[2] + 1) // 2]]
    np.testing.assert_allclose(oracle.log_potential({"v": v}, oracle.states), expected)


def test_terms_touch_the_cells_that_they_can_read():
    oracle = oracle_of(DYNAMIC, {"U": np.ones(3)})
    touched = oracle.touched({"v": np.ones((3, 2))})
    assert touched == [{0, 1, 2, 3}, {3}, {0, 1, 2, 3}, {1, 2, 3}, {2, 3, 4}]


# Graphs and edges

GRAPHS = """
input n : int
input m : int
input pairs[e, 2] : int
index site = range(n)
graph C = chain(site, wrap = true)
graph D = complete(n)
graph B = bipartite(2, m)
graph E = edges(pairs, nodes = site)
graph R = grid(2, m, wrap = true)
model m1 {
  var x[i in site] : range(3)
  var y[(i, j) in E.edges] : bit
  param J[(i, j) in E.edges, a in range(3), b in range(3)]
  param K[(i, j) in E.arcs]
  param W[(i, j) in B.edges]
  factor J[j, i, x[j], x[i]] for (i, j) in E.edges
  factor K[i, j] * x[i] for (i, j) in E.arcs
  factor W[1, 0] + 2 * W[0, 1]
  factor 7 * y[j, i] for (i, j) in E.edges
}
mask one = blocks(E.edges)
"""


def graphs() -> Oracle:
    """Three sites, the edges listed against their order."""
    return oracle_of(GRAPHS, {"n": 3, "m": 2, "pairs": [[2, 1], [1, 0]]})


def test_edges_are_unordered_sorted_and_merged():
    oracle = graphs()
    assert oracle.graph("C").edges == ((0, 1), (0, 2), (1, 2))
    assert oracle.graph("D").edges == ((0, 1), (0, 2), (1, 2))
    assert oracle.graph("B").edges == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert oracle.graph("E").edges == ((0, 1), (1, 2))
    assert oracle.graph("E").arcs == ((0, 1), (1, 0), (1, 2), (2, 1))
    assert oracle.graph("R").edges == ((0, 1), (0, 2), (1, 3), (2, 3))  # both axes are short: one edge each
    assert oracle.graph("R").rows == ((0, 1), (2, 3))
    assert oracle.graph("R").columns == ((0, 2), (1, 3))


def test_an_edge_read_from_its_far_end_swaps_its_axes():
    oracle, rng = graphs(), np.random.default_rng(0)
    params = {"J": rng.normal(size=(2, 3, 3)), "K": rng.normal(size=4), "W": rng.normal(size=4)}
    x, y = np.array([0, 1, 2]), np.array([1, 0])
    value = params["J"][0, 0, 1] + params["J"][1, 1, 2] + params["K"] @ x[[0, 1, 1, 2]] + params["W"][2] + 2 * params["W"][1] + 7
    assert oracle.log_potential(params, np.concatenate([x, y])) == pytest.approx(value)


def test_a_pair_that_is_no_edge_is_an_error():
    text = "graph G = chain(3)\nmodel m { var x[i in G.nodes] : spin  param J[(i, j) in G.edges]  factor J[0, 2] * x[0] }"
    oracle = oracle_of(text)
    with pytest.raises(IndexError, match="not an edge"):
        oracle.log_potential({"J": np.ones(2)}, oracle.states)


def test_a_let_over_edges_binds_the_lower_end_first():
    text = """
    graph G = chain(2)
    model m {
      var x[i in G.nodes] : bit
      let low[(i, j) in G.edges] = x[i] + 10 * x[j]
      factor low[1, 0]
    }
    """
    oracle = oracle_of(text)
    np.testing.assert_allclose(oracle.log_potential({}, oracle.states), [0, 10, 1, 11])


def test_given_values_are_no_cells():
    text = "model m { given c[i in range(2)] : spin  var x[i in range(2)] : spin  factor c[i] * x[i] for i in range(2) }"
    oracle = Oracle(check_source(Source("test.gmlm", text)), None, {}, given={"c": [1, -1]})
    assert oracle.n_cells == 2
    np.testing.assert_allclose(oracle.log_potential({}, oracle.states), [0, -2, 2, 0])


def test_blocks_of_edges_list_the_ends():
    assert exact(graphs().mask_distribution("one", np.zeros(5, int))) == {(0, 1): Fraction(1, 2), (1, 2): Fraction(1, 2)}


# Masks

MASKS = """
input half : real = 0.5
model m {
  var a : bit
  var x[i in range(3)] : spin
  latent z : bit
  factor 0.3 * x[i] for i in range(3)
}
mask any      = subsets(size = 2)
mask of_x     = everything(x)
mask constant = bernoulli(x, rate = 0.25)
mask anything = bernoulli(x, rate = uniform(0, 1))
mask narrow   = bernoulli(a, z, rate = uniform(0.2, 0.6))
mask merged   = blocks({x[0]}, {x[i]} for i in range(2), {a, x[2]})
mask weighed  { choose {x[0]} weight 1  choose {x[i]} for i in range(2) weight i + 1 }
mask looking given x { choose {x[i]} for i in range(3) if i > 0 weight x[i] == 1 }
mask each_own given a { each x[i] for i in range(2) rate if a == 1 then 0.75 else 0.25 }
mask both     = mixture { 2 * half : looking  half : mixture { 1 : of_x  1 : weighed } }
"""


def test_masks_have_the_laws_worked_out():
    oracle = oracle_of(MASKS)
    f = Fraction
    one_up = np.array([0, 0, 1, 0, 0])  # a = 0, x = - + -

    def law(name: str, codes: np.ndarray = one_up) -> dict[tuple[int, ...], Fraction]:
        return exact(oracle.mask_distribution(name, codes))

    assert law("any") == dict.fromkeys(itertools.combinations(range(4), 2), f(1, 6))
    assert law("of_x") == {(1, 2, 3): 1}
    assert law("constant")[1, 3] == f(1, 4) ** 2 * f(3, 4)
    assert law("constant")[()] == f(3, 4) ** 3
    # the integral of r^k (1 - r)^(3 - k) is B(k + 1, 4 - k) = k! (3 - k)! / 4!
    assert law("anything") == {
        k: f(math.factorial(len(k)) * math.factorial(3 - len(k)), 24) for n in range(4) for k in itertools.combinations((1, 2, 3), n)
    }
    # means over [1/5, 3/5]: r has 2/5 and r^2 has (27/125 - 1/125) / (6/5) = 13/75
    assert law("narrow") == {(): 1 - f(4, 5) + f(13, 75), (0,): f(2, 5) - f(13, 75), (4,): f(2, 5) - f(13, 75), (0, 4): f(13, 75)}
    assert law("merged") == {(1,): f(1, 3), (2,): f(1, 3), (0, 3): f(1, 3)}
    assert law("weighed") == {(1,): f(1, 2), (2,): f(1, 2)}
    assert law("looking") == {(2,): 1}
    assert law("looking", np.array([0, 1, 0, 0, 0])) == {(): 1}
    assert law("each_own") == {(): f(9, 16), (1,): f(3, 16), (2,): f(3, 16), (1, 2): f(1, 16)}
    assert law("both") == {(2,): f(2, 3) + f(1, 12), (1, 2, 3): f(1, 6), (1,): f(1, 12)}


def test_fit_constant_counts_reachable_cells_over_the_mean_size():
    oracle = oracle_of(MASKS)
    rows = np.array([[0, 0, 1, 1, -1], [1, 0, 0, 0, -1], [1, 1, 1, 0, -1], [1, 1, 1, 0, -1]])
    assert oracle.fit_constant({}, rows, "any") == pytest.approx(4 / 2)
    assert oracle.fit_constant({}, rows, "looking") == pytest.approx(2 / np.mean([1, 0, 1, 1]))
    assert oracle.fit_constant({}, rows, "each_own") == pytest.approx(2 / np.mean([0.5, 1.5, 1.5, 1.5]))
