"""Couplings of a fit: the zero-sum gauge, norms, APC and their errors, beside enumeration and numerical derivatives."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import numpy as np
import pytest
from oracle import Oracle
from refusals import refused

import gmlmdsl as gm
from gmlmdsl.evaluate import pair_interactions
from gmlmdsl.plan import plan_pair_tables

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

MIXED = """
domain sky = labels("sun", "rain", "snow")
graph G = complete(range(3))
model m {
  var x[i in range(3)] : spin
  var w : sky
  var k : range(4)
  param h[i in range(3)]
  param u[a in sky, b in range(4)]
  param t
  param c : positive
  factor h[i] * x[i] for i in range(3)
  factor u[w, k]
  factor t * x[i] * x[j] + 0.3 * x[j] for (i, j) in G.edges
  factor exp(t) * k * (x[0] + 1) * (w == "rain")
  factor c * x[0] * x[1] * x[2]
  factor c * k * x[2]
  factor 0.2 * x[1] * x[1]
%s}
mask one = subsets(size = 1)
"""
SPINS = """
graph G = complete(range(4))
model m {
  var x[i in range(4)] : spin
  param h[i in range(4)] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i] for i in range(4)
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
POTTS = """
domain abc = letters("abc")
graph G = complete(range(4))
model m {
  var x[i in range(4)] : abc
  param h[i in range(4), a in abc] ~ normal(0, 1)
  param J[(i, j) in G.edges, a in abc, b in abc] ~ normal(0, 0.5)
  factor h[i, x[i]] for i in range(4)
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""


def oracle_tables(oracle: Oracle, params: dict[str, np.ndarray]) -> dict[tuple[int, int], np.ndarray]:
    """The pair parts of log p over the tensor of all configurations: means over the other cells, less those of one cell and of none."""
    log_p = oracle.log_potential(params, oracle.states).reshape(oracle.domain_sizes)
    cells = range(log_p.ndim)

    def mean(*kept: int) -> np.ndarray:
        return log_p.mean(axis=tuple(c for c in cells if c not in kept))

    return {(i, j): mean(i, j) - mean(i)[:, None] - mean(j)[None] + mean() for i in cells for j in cells if i < j}


@pytest.mark.parametrize("require", ["", '  require not (w == "snow" and x[2] == 1)\n'])
def test_interactions_are_the_pair_parts_of_log_p_whatever_the_arity_and_the_domains(require: str) -> None:
    model = gm.parse(MIXED % require).model()
    oracle = Oracle(gm.parse(MIXED % "").checked, None, {})
    params = oracle.random_params(3)
    plan = plan_pair_tables(model.graph)
    found, expected = pair_interactions(model.graph, plan, params), oracle_tables(oracle, params)
    assert {(int(i), int(j)) for i, j in plan.pairs} == {p for p, t in expected.items() if np.abs(t).max() > 1e-12}
    for (i, j), table in zip(plan.pairs.tolist(), found, strict=True):
        wanted = expected[i, j]
        np.testing.assert_allclose(table[: wanted.shape[0], : wanted.shape[1]], wanted, atol=1e-12)
        assert not table[wanted.shape[0] :].any() and not table[:, wanted.shape[1] :].any()


def fitted(text: str, x: Any) -> gm.Fit:
    """For fixtures of the module: what `pytestmark` sets for a test."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # pyright: ignore[reportAttributeAccessIssue]
        return gm.parse(text).model().fit(x)


@pytest.fixture(scope="module")
def codes() -> np.ndarray:
    rng = np.random.default_rng(1)
    return (rng.normal(size=(150, 1)) + rng.normal(size=(150, 4)) > 0).astype(int)


@pytest.fixture(scope="module")
def spins(codes: np.ndarray) -> gm.Fit:
    return fitted(SPINS, 2 * codes - 1)


@pytest.fixture(scope="module")
def potts(codes: np.ndarray) -> gm.Fit:
    rng = np.random.default_rng(2)
    return fitted(POTTS, np.where(rng.random(codes.shape) < 0.3, 2, codes))


def test_values_of_spins_are_their_couplings_with_the_errors_of_the_fit(spins: gm.Fit) -> None:
    table, j = spins.couplings(score="value"), spins.params["J"]
    low, high = spins.interval()["J"]
    order = np.argsort(-np.abs(j))
    np.testing.assert_allclose(table["value"], j[order], rtol=1e-12)
    np.testing.assert_allclose(table["std_error"], spins.standard_errors["J"][order], rtol=1e-10)
    np.testing.assert_allclose(table[["3%", "97%"]], np.stack([low, high], axis=1)[order], rtol=1e-9)
    pairs = [(f"x[{a}]", f"x[{b}]") for a in range(4) for b in range(a + 1, 4)]
    assert list(zip(table["first"], table["second"], strict=True)) == [pairs[k] for k in order]
    assert len(spins.couplings(top=2)) == 2
    assert str(table).splitlines()[0].split() == list(table.columns)  # all of them, however narrow a terminal is


def numbers(fit: gm.Fit, score: str) -> Any:
    """Scores as a function of the flat parameters, from the oracle."""
    oracle, graph = Oracle(fit.model.program.checked, None, {}), fit.graph

    def scores(flat: np.ndarray) -> np.ndarray:
        at, params = 0, {}
        for p in graph.parameters:
            params[p.name] = flat[at : at + p.size].reshape(p.shape)
            at += p.size
        norms = {k: np.sqrt((t**2).sum()) for k, t in oracle_tables(oracle, params).items()}
        if score == "norm":
            return np.array(list(norms.values()))
        full = np.zeros((4, 4))
        for (i, j), s in norms.items():
            full[i, j] = full[j, i] = s
        each, mean = full.sum(axis=1) / 3, full.sum() / 12
        return np.array([full[i, j] - each[i] * each[j] / mean for i, j in norms])

    return scores


@pytest.mark.parametrize("score", ["norm", "apc"])
def test_scores_and_their_errors_are_those_of_enumeration_and_of_numerical_derivatives(potts: gm.Fit, score: str) -> None:
    flat, of = potts.flat(potts.params).astype(float), numbers(potts, score)
    used = np.flatnonzero(np.abs(flat) > 0)
    slopes = np.zeros((6, len(flat)))
    for k in used:
        step = np.zeros(len(flat))
        step[k] = 1e-5
        slopes[:, k] = (of(flat + step) - of(flat - step)) / 2e-5
    expected = of(flat)
    errors = np.sqrt(np.einsum("pi,ij,pj->p", slopes, potts.covariance, slopes))
    order = np.argsort(-expected)
    table = potts.couplings(score=score)
    np.testing.assert_allclose(table["value"], expected[order], rtol=1e-10)
    np.testing.assert_allclose(table["std_error"], errors[order], rtol=1e-6)


@pytest.mark.slow  # two fits; test_fit_status.py has separated couplings
def test_a_separated_coupling_has_no_finite_error_and_a_kink_none() -> None:
    x = np.array([[1, 1, 1], [-1, -1, 1], [1, 1, -1], [-1, -1, -1], [1, 1, 1], [-1, -1, -1]])
    text = SPINS.replace("range(4)", "range(3)")
    free = fitted(text.replace(" ~ normal(0, 1)", ""), x).couplings(score="value").set_index(["first", "second"])
    assert np.isinf(free.loc[("x[0]", "x[1]"), "std_error"])
    kinked = fitted(text.replace("normal(0, 1)", "laplace(0, 0.01)"), x)
    assert (kinked.params["J"] == 0).any()
    at_zero = kinked.couplings(score="value")
    assert at_zero.loc[at_zero["value"] == 0, "std_error"].isna().all()


@pytest.mark.produces("E555")
def test_what_has_no_couplings_is_refused(spins: gm.Fit, potts: gm.Fit) -> None:
    def couplings(factors: str) -> np.ndarray:
        graph = gm.parse(f"model m {{ var x[i in range(4)] : bit  param h  {factors} }}").model().graph
        return pair_interactions(graph, plan_pair_tables(graph), {"h": np.array(0.5)})

    assert couplings("factor h * x[0] * x[1]").shape == (1, 2, 2)
    refused("E555", lambda: couplings("factor h * x[i] for i in range(4)"), "no factor joins two cells")
    refused("E555", lambda: couplings("given z : real  factor h * z * x[0] * x[1]"), "reads given data")
    refused("E555", lambda: couplings("factor h * x[0]  factor log(x[1] + x[2])"), "infinite", "`require`")
    refused("E507", lambda: potts.couplings(score="value"), "`x[0]` has 3 values without an order", '"norm"', "range(1, 4)")
    refused("E507", lambda: potts.couplings(score="value", gauge=None), "without an order")
    refused("E507", lambda: spins.couplings(score="frobenius"), "'norm'")
    refused("E507", lambda: spins.couplings(gauge="lattice"), "zero_sum", "None")
    refused("E507", lambda: spins.centrality(gauge="lattice"), "zero_sum", "None")
    refused("E507", lambda: spins.couplings(top=0), "1 or more")


def by_all_paths(weights: dict[tuple[int, int], float], count: int) -> np.ndarray:
    """Closeness and betweenness from every simple path."""
    length = {frozenset(p): 1 / abs(w) for p, w in weights.items() if w}
    between, total = np.zeros(count), np.zeros(count)
    for a, b in itertools.combinations(range(count), 2):
        paths = []
        for n in range(count - 1):
            for inner in itertools.permutations([c for c in range(count) if c not in (a, b)], n):
                steps = [frozenset(s) for s in itertools.pairwise((a, *inner, b))]
                if all(s in length for s in steps):
                    paths.append((sum(length[s] for s in steps), inner))
        least = min((p for p, _ in paths), default=np.inf)
        shortest = [inner for p, inner in paths if p <= least * (1 + 1e-9)]
        for inner in shortest:
            between[list(inner)] += 1 / len(shortest)
        total[[a, b]] += least
    return np.stack([np.where(np.isfinite(total), 1 / total, 0.0), between])


@pytest.mark.parametrize("j", [[0.5, -1.0, 0.2, 0.7, 0.1, -0.4], [1, 2, 0, 2, -2, 0.5], [0, 0, 0, 1, -1, 0]])
def test_centralities_are_those_of_all_paths(spins: gm.Fit, j: list[float]) -> None:
    """Ties, zeros and cells out of reach among them."""
    fit = dataclasses.replace(spins, params={**spins.params, "J": np.array(j, float)})
    pairs = list(itertools.combinations(range(4), 2))
    found = fit.centrality("value")
    assert list(found.index) == [f"x[{i}]" for i in range(4)]
    np.testing.assert_allclose(found[["closeness", "betweenness"]].T, by_all_paths(dict(zip(pairs, j, strict=True)), 4))
    np.testing.assert_allclose(found["expected_influence"], [sum(w for p, w in zip(pairs, j, strict=True) if i in p) for i in range(4)])
    np.testing.assert_allclose(found["strength"], [sum(abs(w) for p, w in zip(pairs, j, strict=True) if i in p) for i in range(4)])
    np.testing.assert_allclose(fit.centrality()["strength"], 2 * found["strength"])  # a table of +-J has the norm 2 |J|


def test_stability_of_centralities_is_the_rank_correlation_of_replications(spins: gm.Fit) -> None:
    again = spins.bootstrap(4)
    found = spins.centrality("value", again, probability=0.9)
    each = [
        dataclasses.replace(spins, params=dict(zip(("h", "J"), np.split(e, [4]), strict=True))).centrality("value")["strength"]
        for e in again.estimates
    ]
    from scipy.stats import spearmanr

    expected = np.mean([spearmanr(e, found["strength"]).statistic for e in each])
    np.testing.assert_allclose(found.attrs["stability"]["strength"], expected)
    np.testing.assert_allclose(found[["strength 5%", "strength 95%"]].T, np.quantile(each, [0.05, 0.95], axis=0))
    refused("E507", lambda: spins.centrality("apc"), "norm")


ORDINAL = """
graph G = complete(range(3))
model m {
  var x[i in range(3)] : range(4)
  var s : spin
  var w : labels("a", "b", "c")
  param J[(i, j) in G.edges]
  param b
  param u
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
  factor b * s * x[0] + 0.2 * x[0]^2
  factor u * (w == "b") * s
}
mask one = subsets(size = 1)
"""


def influence_by_hand(oracle: Oracle, params: dict[str, np.ndarray], values: list[np.ndarray | None]) -> np.ndarray:
    """The sum over a cell's couplings of norm times sign of the linear-by-linear part, by enumeration."""
    found = np.zeros(len(values))
    for (i, j), table in oracle_tables(oracle, params).items():
        norm = np.linalg.norm(table)
        if norm < 1e-9:
            continue
        s, t = values[i], values[j]
        sign = np.nan if s is None or t is None else np.sign((s - s.mean()) @ table @ (t - t.mean()))
        found[[i, j]] += norm * sign
    return found


def test_expected_influence_of_ordinal_cells_has_the_signs_of_their_associations():
    model = gm.parse(ORDINAL).model()
    rng = np.random.default_rng(4)
    x = {"x": rng.integers(0, 4, (40, 3)), "s": rng.choice([-1, 1], 40), "w": rng.choice(["a", "b", "c"], 40)}
    fit = model.fit(x, max_steps=1)
    params = {"J": np.array([0.3, -0.7, -0.2]), "b": np.array(-0.4), "u": np.array(0.5)}
    fit = dataclasses.replace(fit, params=params)
    found = fit.centrality()
    four = np.arange(4.0)
    expected = influence_by_hand(Oracle(model.program.checked, None, {}), params, [four, four, four, np.array([-1.0, 1.0]), None])
    np.testing.assert_allclose(found["expected_influence"], expected, rtol=1e-9)
    assert np.isnan(found["expected_influence"][["s", "w"]]).all() and "no sign" in found.attrs["note"]
    assert (found["strength"] > 0).all() and not np.isclose(found["strength"], found["expected_influence"]).any()
    norm = np.linalg.norm(np.outer(four - 1.5, four - 1.5))
    np.testing.assert_allclose(found["expected_influence"]["x[1]"], (0.3 - 0.2) * norm, rtol=1e-9)  # J of both its edges


RATINGS = """
domain yes = labels("n", "y")
graph G = complete(range(3))
model m {
  var x[i in range(3)] : range(1, 5)
  var s : spin
  var b : bit
  var w : yes
  param h[i in range(3)] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  param t[k in range(3)] ~ normal(0, 1)
  param u[a in range(1, 5), c in range(1, 5)] ~ normal(0, 1)
  factor h[i] * x[i] for i in range(3)
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
  factor u[x[0], x[1]]
  factor t[0] * s * x[2] + 0.3 * x[2]^2
  factor t[1] * s * b
  factor t[2] * (if w == "y" then 1 else 0) * b
}
mask one = subsets(size = 1)
"""
# the values of each cell, without the variable's name of them
LISTS = [np.arange(1, 5.0)] * 3 + [np.array([-1, 1.0]), np.array([0, 1.0]), np.array([0, 1.0])]


@pytest.fixture(scope="module")
def ratings() -> gm.Fit:
    rng = np.random.default_rng(5)
    x = {"x": rng.integers(1, 5, (60, 3)), "s": rng.choice([-1, 1], 60), "b": rng.integers(0, 2, 60), "w": rng.choice(["n", "y"], 60)}
    return fitted(RATINGS, x)


def slopes_of(of: Any, flat: np.ndarray) -> np.ndarray:
    """The derivatives of `of(flat)` by central differences, shape (pairs, entries)."""
    steps = 1e-5 * np.eye(len(flat))
    return np.stack([(of(flat + e) - of(flat - e)) / 2e-5 for e in steps], axis=1)


@pytest.mark.parametrize("gauge", ["zero_sum", None])
def test_values_of_ordinal_cells_are_contractions_of_enumerated_tables(ratings: gm.Fit, gauge: str | None) -> None:
    """In the zero-sum gauge the mean of T u v with standard scores; raw, the slope in s t by least squares."""
    oracle, graph = Oracle(ratings.model.program.checked, None, {}), ratings.graph
    joined = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5)]

    def values(flat: np.ndarray) -> np.ndarray:
        params, at = {}, 0
        for p in graph.parameters:
            params[p.name] = flat[at : at + p.size].reshape(p.shape)
            at += p.size
        out, tables = [], oracle_tables(oracle, params)
        for i, j in joined:
            s, t = LISTS[i], LISTS[j]
            if gauge is None:
                product = np.outer(s - s.mean(), t - t.mean()).ravel()
                out.append(np.linalg.lstsq(product[:, None], tables[i, j].ravel(), rcond=None)[0][0])
            else:
                u, v = ((r - r.mean()) / r.std() for r in (s, t))
                out.append((np.outer(u, v) * tables[i, j]).mean())
        return np.array(out)

    flat = ratings.flat(ratings.params).astype(float)
    slopes, expected = slopes_of(values, flat), values(flat)
    errors = np.sqrt(np.einsum("pi,ij,pj->p", slopes, ratings.determined_covariance("sandwich"), slopes))
    order = np.argsort(-np.abs(expected))
    table = ratings.couplings(score="value", gauge=gauge)
    names = [graph.cell_name(i) for i in range(6)]
    assert list(zip(table["first"], table["second"], strict=True)) == [(names[joined[k][0]], names[joined[k][1]]) for k in order]
    np.testing.assert_allclose(table["value"], expected[order], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(table["std_error"], errors[order], rtol=1e-6)
    assert set(np.sign(table["value"])) == {-1, 1}
    np.testing.assert_array_equal(table["score"], np.abs(table["value"]))
    assert table.attrs["gauge"] == gauge


def test_values_of_products_are_their_parameter_times_standard_deviations(ratings: gm.Fit) -> None:
    """J sd(s) sd(t), and J itself in the raw gauge; of bits the slope of a logistic regression."""
    params = {**ratings.params, "u": np.zeros((4, 4)), "J": np.array([0.3, -0.7, 0.2]), "t": np.array([0.5, -1.5, 0.8])}
    fit = dataclasses.replace(ratings, params=params)
    raw, scaled = (fit.couplings(score="value", gauge=g).set_index(["first", "second"])["value"] for g in (None, "zero_sum"))
    pairs = [("x[0]", "x[1]"), ("x[0]", "x[2]"), ("x[1]", "x[2]"), ("x[2]", "s"), ("s", "b"), ("b", "w")]
    each = np.array([0.3, -0.7, 0.2, 0.5, -1.5, 0.8])
    np.testing.assert_allclose([raw[p] for p in pairs], each, rtol=1e-12)
    np.testing.assert_allclose([scaled[p] for p in pairs], each * [1.25, 1.25, 1.25, np.sqrt(1.25), 0.5, 0.25], rtol=1e-12)
    norms = fit.couplings().set_index(["first", "second"])["value"]  # the bound of the docstring, reached by products
    np.testing.assert_allclose([norms[p] for p in pairs], np.abs([scaled[p] for p in pairs]) * [4, 4, 4, np.sqrt(8), 2, 2], rtol=1e-12)


def test_raw_norms_are_those_of_the_factors_as_written(ratings: gm.Fit) -> None:
    p = ratings.params
    raw = ratings.couplings(gauge=None).set_index(["first", "second"])["value"]
    x = np.arange(1, 5.0)
    tables = {
        ("x[0]", "x[1]"): p["J"][0] * np.outer(x, x) + p["u"],
        ("x[0]", "x[2]"): p["J"][1] * np.outer(x, x),
        ("x[2]", "s"): p["t"][0] * np.outer(x, [-1, 1]) + 0.3 * x[:, None] ** 2,
        ("b", "w"): p["t"][2] * np.array([[0, 0], [0, 1]]),
    }
    for pair, table in tables.items():
        np.testing.assert_allclose(raw[pair], np.linalg.norm(table), rtol=1e-10)
    scored = ratings.centrality(gauge=None)
    np.testing.assert_allclose(scored.loc["w", "strength"], raw["b", "w"], rtol=1e-12)
    zero = ratings.couplings().set_index(["first", "second"])["value"]
    assert not np.isclose(zero["b", "w"], raw["b", "w"])


def test_centralities_and_matrices_of_ordinal_cells_keep_signs(ratings: gm.Fit) -> None:
    table = ratings.couplings(score="value")
    matrix = table.to_matrix()
    assert list(matrix.index) == list(matrix.columns) == table.attrs["cells"]
    by_hand = np.zeros((6, 6))
    for _, row in table.iterrows():
        a, b = (table.attrs["cells"].index(row[end]) for end in ("first", "second"))
        by_hand[a, b] = by_hand[b, a] = row["value"]
    np.testing.assert_array_equal(matrix, by_hand)
    found = ratings.centrality("value")
    np.testing.assert_allclose(found["expected_influence"], by_hand.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found["strength"], np.abs(by_hand).sum(axis=1), rtol=1e-12)
    assert "note" not in found.attrs
    assert not np.allclose(found["strength"], found["expected_influence"])
    refused("E507", lambda: table.drop(columns="score").to_matrix(), "no column `score`")


def test_expected_influence_turns_with_the_order_of_the_values(spins: gm.Fit):
    """Of norms it has the signs of J, as that of values has."""
    norm, value = spins.centrality()["expected_influence"], spins.centrality("value")["expected_influence"]
    np.testing.assert_allclose(norm, 2 * value, rtol=1e-9)
