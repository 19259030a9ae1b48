"""Rows with missing cells: how their sums are split, listed, eliminated and foretold; derivatives; the house votes on their real file."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import Oracle, numerical_gradient
from real_data import real_file
from thinned import thinned

import gmlmdsl as gm
import gmlmdsl.derive._listed as moments
import gmlmdsl.evaluate._missing as missing_cells
import gmlmdsl.plan._gaps as planned
from gmlmdsl.data import Data
from gmlmdsl.derive import ListedRows, graph_arrays, listed_second_order
from gmlmdsl.evaluate._named_conditionals import row_losses
from gmlmdsl.fit._fit import make_objective
from gmlmdsl.fit._minimise import inference_cost
from gmlmdsl.fit._options import FitOptions

EXACT = {"rtol": 1e-9, "atol": 1e-9}

# Two groups over the same pair, a factor of four cells, one that sees a cell twice, an impossible value, a factor that is not affine in
# its parameter, a variable of many values and one of a single value.
MIXED = """
model m {
  var a : range(36)
  var x[i in range(2)] : range(3)
  var s[i in range(3)] : spin
  var o : range(1)
  param u[k in range(36)] ~ normal(0, 1)
  param J
  param t
  factor u[a]
  factor 0.3 * (a + o) * x[0]
  factor J * s[i] * s[i + 1] * (x[0] + x[0]) for i in range(2)
  factor exp(t) * s[0] * s[1]
  factor J * s[0] * s[1] * (x[0] == x[1]) * a
  factor log(x[1] + s[2] + 1)
  require not (s[1] == 1 and x[1] == 2 and a == 35)
}
mask one   = subsets(size = 1)
mask pairs = subsets(size = 2)
"""


@pytest.fixture(scope="module")
def mixed() -> gm.BoundProgram:
    return gm.parse(MIXED)


@pytest.fixture(scope="module")
def oracle(mixed: gm.BoundProgram) -> Oracle:
    return Oracle(mixed.checked, "m", {})


@pytest.fixture(scope="module")
def codes(oracle: Oracle) -> np.ndarray:
    """Possible rows with gaps: the first lacks nothing, the last everything."""
    p = oracle.probabilities(oracle.random_params(1))
    rng = np.random.default_rng(2)
    rows = oracle.states[rng.choice(len(p), 14, p=p)]
    rows[1:][rng.random((13, rows.shape[1])) < 0.4] = -1
    rows[-1] = -1
    return rows.astype(np.int32)


def lowered(program: gm.BoundProgram, mask: str):
    """What the internals of a loss take."""
    model = program.model()
    return model.lowered, model.mask(mask)


def prepared(program: gm.BoundProgram, mask: str, codes: np.ndarray, params: dict):
    """The objective of rows with gaps."""
    low, (name, m) = lowered(program, mask)
    start = {k: jnp.asarray(v) for k, v in params.items()}
    return make_objective(low.graph, m, codes.T, np.ones(len(codes)), start, (), FitOptions(name))


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms are put together as little as can be, and few values are held at once."""
    monkeypatch.setattr(planned, "WORTH_COMPILING", 4)
    monkeypatch.setattr(missing_cells, "_values_at_once", lambda graph: 40)


@pytest.mark.slow  # in the gate they are together, and apart where their cost is foretold
@pytest.mark.usefixtures("float64", "apart")
def test_losses_of_terms_that_are_apart(mixed: gm.BoundProgram, oracle: Oracle, codes: np.ndarray) -> None:
    params = oracle.random_params(1)
    found = row_losses(*lowered(mixed, "one"), {k: jnp.asarray(v) for k, v in params.items()}, Data(codes.T, (len(codes),)), None, None)
    np.testing.assert_allclose(found, oracle.row_losses(params, codes, "one"), **EXACT)


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("mask", ["one", "pairs"])
def test_losses_and_gradients_of_every_kind_of_factor(mixed: gm.BoundProgram, oracle: Oracle, codes: np.ndarray, mask: str) -> None:
    params = oracle.random_params(1)
    low, chosen = lowered(mixed, mask)

    def rows(p: dict) -> jax.Array:
        return row_losses(low, chosen, p, Data(codes.T, (len(codes),)), None, None)

    given = {k: jnp.asarray(v) for k, v in params.items()}
    np.testing.assert_allclose(rows(given), oracle.row_losses(params, codes, mask), **EXACT)
    weights = np.random.default_rng(3).gamma(1.0, 1.0, len(codes))
    found = jax.jit(jax.grad(lambda p: (weights * rows(p)).sum()))(given)
    expected = numerical_gradient(lambda p: float(weights @ oracle.row_losses(p, codes, mask)), params, exact=True)
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], **EXACT, err_msg=name)


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
def test_log_p_of_observed_cells(mixed: gm.BoundProgram, oracle: Oracle, codes: np.ndarray) -> None:
    params = oracle.random_params(1)
    graph = mixed.model().lowered.graph
    found = missing_log_p(graph, params, codes)
    expected = oracle.log_prob(params, codes)
    np.testing.assert_allclose(found - found[0], expected - expected[0], **EXACT)


def missing_log_p(graph, params: dict, codes: np.ndarray) -> np.ndarray:
    from gmlmdsl.evaluate._missing import log_completions

    return np.asarray(log_completions(graph, graph_arrays(graph), {k: jnp.asarray(v) for k, v in params.items()}, codes.T))


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("dense", thinned([True, False], 2), ids=["by matrix products", "one direction at a time"])
def test_second_derivatives_of_listed_rows(
    mixed: gm.BoundProgram, oracle: Oracle, codes: np.ndarray, dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the loss itself, which the oracle checks above."""
    if not dense:
        monkeypatch.setattr(moments, "MOST_DERIVATIVES", 0)
    params = oracle.random_params(1)
    objective = prepared(mixed, "one", codes, params).objective
    assert objective.gaps is not None
    gaps = objective.gaps.listed
    assert gaps is not None
    vector = jnp.concatenate([jnp.ravel(jnp.asarray(params[k])) for k in ("u", "J", "t")])
    weights = jnp.asarray(np.random.default_rng(3).integers(0, 3, gaps.codes.shape[1]).astype(float))

    def at(v: jax.Array) -> dict[str, jax.Array]:
        return {"u": v[:36], "J": v[36], "t": v[37]}

    directions = jnp.eye(38)[:, 30:] + 0.1
    hessian, scores = jax.jit(lambda v: listed_second_order(gaps, at, v, directions, weights, False))(vector)
    expected = jax.jit(jax.hessian(lambda v: (weights * gaps.rows(at(v))).sum()))(vector)
    slopes = jax.jit(jax.jacobian(lambda v: weights * gaps.rows(at(v))))(vector)
    np.testing.assert_allclose(hessian, directions.T @ expected @ directions, **EXACT)
    np.testing.assert_allclose(scores, slopes @ directions, **EXACT)


CHAIN = """
graph G = chain(26)
model m {
  var x[i in G.nodes] : spin
  param h
  param J
  factor h * x[i] for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""


def chain_log_sum(row: np.ndarray, h: float, J: float) -> float:
    """log of the sum over what a chain of spins lacks (0), cell by cell."""
    log_sum = np.zeros(2)
    spins = np.array([-1.0, 1.0])
    for i, x in enumerate(row):
        scores = log_sum + h * spins
        scores[(x != 0) & (spins != x)] = -np.inf
        if i + 1 == len(row):
            return float(np.logaddexp.reduce(scores))
        log_sum = np.logaddexp.reduce(scores[:, None] + J * spins[:, None] * spins, axis=0)
    raise AssertionError


@pytest.mark.usefixtures("float64")
@pytest.mark.slow
def test_a_row_too_dear_to_list_is_eliminated_alone() -> None:
    """One such row once sent all rows with gaps to elimination."""
    program, rng = gm.parse(CHAIN), np.random.default_rng(4)
    rows = rng.choice([-1, 1], (12, 26))
    rows[np.arange(10), rng.integers(0, 26, 10)] = 0
    rows[4, 1:] = 0
    rows[5] = 0
    codes = np.where(rows == 0, -1, (rows + 1) // 2).astype(np.int32)
    low, (name, mask) = lowered(program, "one")
    found = missing_cells.sort_rows(low.graph, mask, name, codes.T, None, False)
    assert found.eliminated.tolist() == [4]
    assert found.listed.tolist() == [0, 1, 2, 3, 6, 7, 8, 9]
    assert found.unseen.tolist() == [5]
    assert found.hidden is not None
    assert sorted(found.hidden.elimination.cells.tolist()) == list(range(26))
    params = {"h": jnp.asarray(0.3), "J": jnp.asarray(0.7)}
    expected = []
    for row in rows:
        without = [np.where(np.arange(26) == k, 0, row) for k in range(26)]
        expected.append(np.mean([chain_log_sum(w, 0.3, 0.7) - chain_log_sum(row, 0.3, 0.7) for w in without]))
    np.testing.assert_allclose(row_losses(low, (name, mask), params, Data(codes.T, (len(codes),)), None, None), expected, **EXACT)


@pytest.mark.slow
@pytest.mark.usefixtures("float64", "apart")
def test_the_cost_of_rows_with_gaps_is_foretold(mixed: gm.BoundProgram, oracle: Oracle, codes: np.ndarray) -> None:
    """Within a factor of two of the joint values and factor values that there are; and nothing where nothing is observed."""
    found = prepared(mixed, "one", codes, oracle.random_params(1))
    assert found.objective.gaps is not None
    gaps = found.objective.gaps.listed
    assert isinstance(gaps, ListedRows)
    done = 0
    for listing in gaps.listings:
        exists = np.asarray(listing.terms.weights) > 0
        done += np.where(exists, np.prod(np.asarray(listing.terms.sizes), axis=1), 0).sum()
        for t, digits in zip(listing.terms.touching, listing.digits, strict=True):
            done += (np.asarray(t.instances) >= 0).sum() * digits.shape[2]
    assert 0.5 < float(gaps.cost) / done < 2
    assert inference_cost(found.objective, 38) > 38 * float(gaps.cost)
    nothing = prepared(mixed, "one", np.array([codes[0], codes[-1], codes[-1]]), oracle.random_params(1)).objective
    assert inference_cost(nothing, 38) == 0
    np.testing.assert_array_equal(nothing.gaps.rows(nothing.held), 0)


@pytest.mark.slow  # the gate counts classes, whatever the terms
def test_compiled_code_does_not_grow_with_rows_or_patterns(mixed: gm.BoundProgram, oracle: Oracle) -> None:
    rng, sizes = np.random.default_rng(7), []
    for count in (60, 600):
        rows = oracle.states[rng.choice(len(oracle.states), count)]
        rows[rng.random(rows.shape) < 0.5] = -1
        low, (name, mask) = lowered(mixed, "one")
        found = missing_cells.sort_rows(low.graph, mask, name, rows.T, None, False)
        gaps = missing_cells.summed_loss(low.graph, graph_arrays(low.graph), rows.T, found)
        assert gaps is not None
        assert gaps.listed is not None
        assert len(gaps.listed.listings) <= planned.MOST_CLASSES
        params = {k: jnp.asarray(v, float) for k, v in oracle.random_params(1).items()}
        text = jax.jit(lambda p, gaps=gaps: gaps.rows(p)).lower(params).as_text()
        sizes.append(len(text.splitlines()) / len(gaps.listed.listings))
    assert sizes[1] < 1.5 * sizes[0]


def test_classes_are_few_however_many_terms_there_are() -> None:
    shapes = {(2,) * k: 10**6 for k in range(1, 21)}
    found = planned._classes(shapes, planned.WORTH_COMPILING)
    assert 1 < len(found) <= planned.MOST_CLASSES
    assert [s for some in found for s in some] == list(shapes)


def test_rows_of_a_latent_model_with_nothing_observed_cost_nothing() -> None:
    program = gm.parse(
        "model m { var v[i in range(3)] : bit  latent h : bit  param w  factor w * v[i] * h for i in range(3) }\nmask one = subsets(v, size = 1)"
    )
    codes = np.array([[0, 1, 1, -1], [-1, -1, -1, -1], [-1, 0, 1, -1]], np.int32)
    low, (name, mask) = lowered(program, "one")
    found = missing_cells.sort_rows(low.graph, mask, name, codes.T, None, None)
    assert (found.eliminated.tolist(), found.unseen.tolist()) == ([0, 2], [1])
    assert (found.report.summed, found.report.unseen) == (3, 1)
    assert float(row_losses(low, (name, mask), {"w": jnp.asarray(0.4)}, Data(codes.T, (len(codes),)), None, None)[1]) == 0.0


VOTING = """
input n : int
index vote = range(n)
graph G    = complete(vote)
model votes {
  var   x[i in vote]         : labels("n", "y")
  param h[i in vote]         ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  let   s[i in vote] = if x[i] == "y" then 1 else -1
  factor h[i] * s[i]           for i in vote
  factor J[i, j] * s[i] * s[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
def test_the_house_votes_on_their_real_file() -> None:
    """All 435 rows, one of which lacks everything and two of which lack 14 and 15 of 16 votes, against NumPy."""
    text = [line.split(",")[1:] for line in real_file("house-votes-84.csv").read_text().splitlines()[1:]]
    codes = np.array([[{"n": 0, "y": 1, "?": -1}[v.strip()] for v in row] for row in text], np.int32)
    program = gm.parse(VOTING, n=16)
    rng = np.random.default_rng(8)
    h, J = 0.3 * rng.normal(size=16), 0.2 * rng.normal(size=120)
    low, (name, mask) = lowered(program, "single")
    found = missing_cells.sort_rows(low.graph, mask, name, codes.T, None, False)
    assert (len(found.complete), len(found.listed), len(found.eliminated), len(found.unseen)) == (232, 202, 0, 1)
    pairs = np.zeros((16, 16))
    pairs[np.triu_indices(16, 1)] = J
    expected = []
    for row in codes:
        holes = np.flatnonzero(row < 0)
        spins = np.repeat(2.0 * row[None] - 1, 1 << len(holes), axis=0)
        spins[:, holes] = 2.0 * (np.arange(1 << len(holes))[:, None] >> np.arange(len(holes)) & 1) - 1
        energy = spins @ h + np.einsum("vi,ij,vj->v", spins, pairs, spins, optimize=True)
        fields = h + spins @ (pairs + pairs.T)  # what x[k] is multiplied by
        flipped = np.logaddexp.reduce(energy[:, None] - 2 * spins * fields, axis=0)
        observed = np.logaddexp.reduce(energy)
        expected.append(np.where(row < 0, 0.0, np.logaddexp(flipped, observed) - observed).mean())
    losses = row_losses(low, (name, mask), {"h": jnp.asarray(h), "J": jnp.asarray(J)}, Data(codes.T, (len(codes),)), None, None)
    np.testing.assert_allclose(losses, expected, **EXACT)
