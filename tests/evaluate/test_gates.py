"""Gates of many inputs: or, and, at most k, parity, extremes and their noisy forms, summed along chains, against closed forms and enumeration."""

from __future__ import annotations

import itertools
import math

import jax
import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.plan import with_partial_sums

pytestmark = [pytest.mark.usefixtures("float64"), pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")]

NOISY_OR = """
input q[n] : real
input leak : real = 0.05
model alarm {
  var x[i in range(n)] : bit
  var y : bit
  x[i] ~ bernoulli(0.1) for i in range(n)
  y ~ bernoulli(1 - (1 - leak) * prod(1 - q[i] * x[i] for i in range(n)))
}
"""


@pytest.fixture(params=thinned(["numpy", "compiled"], 2))
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "compiled":
        request.getfixturevalue("compiled_sums")
    return request.param


def causes(n: int) -> np.ndarray:
    return np.linspace(0.05, 0.95, n)


def enumerated(n: int, log_p: np.ndarray) -> tuple[float, np.ndarray]:
    """log of the sum, and the mean of each of n bits."""
    total = np.logaddexp.reduce(log_p)
    return total, np.exp(log_p - total) @ np.array(list(itertools.product((0, 1), repeat=n)))


def test_a_noisy_or_of_sixty_causes(engine: str):
    """p(y = 0) is a product over causes, and so is p(x_i = 1, y = 0)."""
    q = causes(60)
    model = gm.parse(NOISY_OR, q=q).model()
    off = 0.95 * np.prod(1 - 0.1 * q)
    assert model.marginals({})["y"][1] == pytest.approx(1 - off, abs=1e-12)
    both_off = 0.95 * 0.1 * (1 - q) * np.prod(1 - 0.1 * q) / (1 - 0.1 * q)
    np.testing.assert_allclose(model.marginals({}, clamp={"y": 1})["x"][:, 1], (0.1 - both_off) / (1 - off), rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.marginals({}, clamp={"y": 0})["x"][:, 1], both_off / off, rtol=0, atol=1e-12)


def test_small_chances_of_the_complement_keep_their_digits():
    """Of 60 sure causes p(y = 0) is 0.95 * 1e-60, which 1 - (1 - p) does not see."""
    model = gm.parse(NOISY_OR, q=np.full(60, 0.9)).model()
    found = model.log_prob({}, {"x": np.ones((1, 60), int), "y": np.zeros(1, int)})
    assert found[0] == pytest.approx(60 * math.log(0.1) + math.log(0.95) + 60 * math.log(0.1), rel=1e-12)


def test_noisy_gates_that_share_their_inputs(engine: str):
    """An or and an and over 12 causes with couplings between them, beside enumeration."""
    text = """
    input q[n] : real
    model m {
      var x[i in range(n)] : bit
      var y, z : bit
      factor 0.3 * x[i] - 0.6 * x[i] * x[i + 1] for i in range(n) if i + 1 < n
      y ~ bernoulli(1 - prod(1 - q[i] * x[i] for i in range(n)))
      z ~ bernoulli(prod(if x[i] == 1 then 0.99 else 1 - 0.5 * q[i] for i in range(n) if i % 2 == 0))
      factor 0.4 * y * z
    }
    """
    n, q = 12, causes(12)
    model, rows = gm.parse(text, q=q).model(), np.array(list(itertools.product((0, 1), repeat=n)))
    assert with_partial_sums(model.graph) is not model.graph
    pairs = 0.3 * rows[:, :-1].sum(axis=1) - 0.6 * (rows[:, 1:] * rows[:, :-1]).sum(axis=1)
    on = 1 - np.prod(1 - q * rows, axis=1)
    fair = np.prod(np.where(rows == 1, 0.99, 1 - 0.5 * q)[:, ::2], axis=1)
    with np.errstate(divide="ignore"):
        scores = np.stack(
            [
                pairs + np.log(on if y else 1 - on) + np.log(fair if z else 1 - fair) + 0.4 * y * z
                for y, z in itertools.product((0, 1), repeat=2)
            ]
        )
    total, means = enumerated(n, np.logaddexp.reduce(scores, axis=0))
    assert float(model.log_partition({})) == pytest.approx(total, abs=1e-10)
    np.testing.assert_allclose(model.marginals({})["x"][:, 1], means, rtol=0, atol=1e-10)
    assert np.exp(np.logaddexp.reduce(scores[1]) - total) == pytest.approx(
        model.marginals({}, over=[("y", "z")])["y", "z"][0, 1], abs=1e-10
    )
    best, value = model.map({})
    k, row = np.unravel_index(np.argmax(scores), scores.shape)
    np.testing.assert_array_equal(best["x"], rows[row])
    assert (best["y"], best["z"]) == (k // 2, k % 2)
    assert value == pytest.approx(scores.max() - total, abs=1e-10)


@pytest.mark.slow
def test_draws_of_a_noisy_or_given_its_output():
    q = causes(30)
    model = gm.parse(NOISY_OR, q=q).model()
    draws = model.sample({}, sampler="exact", draws=4000, chains=2, seed=1, clamp={"y": 1}).posterior["x"].values.reshape(-1, 30)
    wanted = model.marginals({}, clamp={"y": 1})["x"][:, 1]
    z = (draws.mean(axis=0) - wanted) / np.sqrt(wanted * (1 - wanted) / len(draws))
    assert np.abs(z).max() < 4.5


def test_gates_of_sixty_inputs(engine: str):
    """Or, and, at most five: together they leave configurations of at most five ones, and the gates follow."""
    text = """
    model gates {
      var x[i in range(60)] : bit
      var some, each : bit
      param h
      factor h * x[i] for i in range(60)
      require (some == 1) == any(x[i] == 1 for i in range(60))
      require (each == 1) == all(x[i] == 1 for i in range(60))
      require count(x[i] == 1 for i in range(60)) <= 5
    }
    """
    model = gm.parse(text).model()
    by_count = np.array([math.comb(60, k) * math.exp(0.3 * k) for k in range(6)])
    assert float(model.log_partition({"h": 0.3})) == pytest.approx(math.log(by_count.sum()), abs=1e-10)
    found = model.marginals({"h": 0.3})
    assert found["some"][0] == pytest.approx(1 / by_count.sum(), abs=1e-12)
    assert found["each"][1] == 0
    best, value = model.map({"h": 0.3})
    assert best["x"].sum() == 5
    assert value == pytest.approx(1.5 - math.log(by_count.sum()), abs=1e-10)


def test_a_cell_that_counts_others(engine: str):
    model = gm.parse(
        "model m { var x[i in range(16)] : bit ~ bernoulli(0.2)  var k : range(17)  require k == sum(x[i] for i in range(16)) }"
    ).model()
    wanted = [math.comb(16, k) * 0.2**k * 0.8 ** (16 - k) for k in range(17)]
    np.testing.assert_allclose(model.marginals({})["k"], wanted, rtol=0, atol=1e-12)


def test_parity_and_extremes(engine: str):
    """The chains of a maximum and of a minimum run over the same cells."""
    text = """
    model m {
      var s[i in range(40)] : spin
      var r[i in range(20)] : range(7)
      param b, c
      factor b * prod(s[i] for i in range(40))
      factor c * max(r[i] for i in range(20))
      factor -c * min(r[i] for i in range(20))
    }
    """
    spins = 39 * math.log(2) + math.log(2 * math.cosh(0.7))

    def within(low: int, high: int) -> int:
        """The number of rows whose values lie in these bounds."""
        return max(high - low + 1, 0) ** 20

    def between(low: int, high: int) -> int:
        """The number of rows with these extremes."""
        return within(low, high) - within(low + 1, high) - within(low, high - 1) + within(low + 1, high - 1)

    spread = sum(between(a, b) * math.exp(-0.2 * (b - a)) for a in range(7) for b in range(a, 7))
    found = gm.parse(text).model().log_partition({"b": 0.7, "c": -0.2})
    assert float(found) == pytest.approx(spins + math.log(spread), abs=1e-9)


def test_a_square_of_a_product_is_not_taken_for_a_gate():
    text = "input q[n] : real  model m { var x[i in range(n)] : bit  factor -prod(1 - q[i] * x[i] for i in range(n))^2 }"
    model = gm.parse(text, q=np.sqrt(np.arange(2, 32) / 40)).model()
    assert with_partial_sums(model.graph) is model.graph


def test_products_keep_small_values(engine: str):
    """Products below 1e-9 differ from one another: 1e-12 k for k ones among 24."""
    text = "model m { var x[i in range(24)] : bit  factor log(prod(if x[i] == 1 then 0.5 else 1 for i in range(24))) }"
    assert float(gm.parse(text).model().log_partition({})) == pytest.approx(24 * math.log(1.5), abs=1e-10)


def test_causes_that_are_sure(engine: str):
    """Of sure causes the output is on wherever one is, and the factor is -inf elsewhere."""
    model = gm.parse(NOISY_OR, q=np.ones(40), leak=0.0).model()
    assert model.marginals({})["y"][0] == pytest.approx(0.9**40, abs=1e-14)
    np.testing.assert_allclose(model.marginals({}, clamp={"y": 0})["x"][:, 1], 0, atol=1e-14)


def test_a_product_is_required_to_the_last_digit(engine: str):
    """One configuration of 4^12 has the product 3^12, and two rows of it without one of the factors have 3^11."""
    text = "model m {{ var x[i in range(12)] : range(4)  require prod(x[i] for i in range(12)) == {} }}"
    assert float(gm.parse(text.format(3**12)).model().log_partition({})) == pytest.approx(0.0, abs=1e-12)
    assert float(gm.parse(text.format(3**11)).model().log_partition({})) == pytest.approx(math.log(12), abs=1e-12)


def test_a_product_of_numbers_above_zero_is_above_zero():
    """Bounds alone show that the divisor is not 0, over cells with too many joint values to try."""
    text = "model m { var x[i in range(24)] : bit  param h  factor h / prod(2 + x[i] for i in range(24)) }"
    assert float(gm.parse(text).model().log_partition({"h": 0.0})) == pytest.approx(24 * math.log(2), rel=1e-12)


def test_the_probability_of_findings_of_many_causes():
    """log p(y = 1) of a noisy or of 25 causes, in closed form, with all causes missing."""
    q = np.linspace(0.05, 0.9, 25)
    model = gm.parse(
        "input q[n] : real\nmodel m { var x[i in range(n)] : bit ~ bernoulli(0.1)  var y : bit  y ~ bernoulli(1 - 0.97 * prod(1 - q[i] * x[i] for i in range(n))) }",
        q=q,
    ).model()
    found = model.log_prob({}, {"x": np.full((2, 25), 9), "y": [1, 0]}, missing=9)
    none = 0.97 * np.prod(1 - 0.1 * q)
    np.testing.assert_allclose(found, np.log([1 - none, none]), rtol=1e-5)


FITTED = """
input n : int
model m {
  var x[i in range(n)] : bit
  var y[k in range(2)] : bit
  param q[i in range(n), k in range(2)] ~ beta(2, 2)
  param leak ~ beta(1, 9)
  param w[a in range(2)] : simplex
  param h
  factor h * x[i] - 0.6 * x[i] * x[i + 1] for i in range(n) if i + 1 < n
  y[k] ~ bernoulli(1 - (1 - leak) * prod(if x[i] == 1 then 1 - q[i, k] * w[k] else 1 for i in range(n) if i > 5 or i % 3 != k)) for k in range(2)
  factor 0.8 * y[0] * y[1]
}
"""


def fitted_params(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    return {"q": rng.uniform(0.05, 0.95, (n, 2)), "leak": np.array(0.1), "w": np.array([0.3, 0.7]), "h": np.array(-0.4)}


def scored(n: int, params: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of x, and their log p together with each of the four values of y, up to a constant."""
    rows = np.array(list(itertools.product((0, 1), repeat=n)))
    pairs = params["h"] * rows[:, :-1].sum(axis=1) - 0.6 * (rows[:, 1:] * rows[:, :-1]).sum(axis=1)
    off = []
    for k in range(2):
        here = (np.arange(n) > 5) | (np.arange(n) % 3 != k)
        off.append((1 - params["leak"]) * np.prod(np.where(rows == 1, 1 - params["q"][:, k] * params["w"][k], 1)[:, here], axis=1))
    found = [
        pairs + np.log(1 - off[0] if a else off[0]) + np.log(1 - off[1] if b else off[1]) + 0.8 * a * b for a in (0, 1) for b in (0, 1)
    ]
    return rows, np.stack(found)


def test_noisy_gates_whose_probabilities_are_parameters(engine: str):
    n = 14
    params = fitted_params(n)
    model = gm.parse(FITTED, n=n).model()
    assert with_partial_sums(model.graph) is not model.graph
    rows, scores = scored(n, params)
    total, means = enumerated(n, np.logaddexp.reduce(scores, axis=0))
    assert float(model.log_partition(params)) == pytest.approx(total, abs=1e-10)
    np.testing.assert_allclose(model.marginals(params)["x"][:, 1], means, rtol=0, atol=1e-10)
    seen = np.exp(scores[2] - np.logaddexp.reduce(scores[2]))  # y = (1, 0)
    np.testing.assert_allclose(model.marginals(params, clamp={"y": [1, 0]})["x"][:, 1], seen @ rows, rtol=0, atol=1e-10)
    best, value = model.map(params)
    np.testing.assert_array_equal(best["x"], rows[scores.max(axis=0).argmax()])
    assert value == pytest.approx(scores.max() - total, abs=1e-10)


def test_slopes_of_noisy_gates():
    """Of log Z by the probabilities, at sure causes too, whose logs have infinite derivatives; beside differences of the sum over all rows."""
    n, step = 14, 1e-6
    params = fitted_params(n) | {"w": np.array([0.0, 1.0])}
    params["q"][1, 1] = 1.0
    model = gm.parse(FITTED, n=n).model()
    slopes = jax.grad(lambda p: model.log_partition(p))({name: jax.numpy.asarray(value) for name, value in params.items()})
    for name, place in (("q", (0, 1)), ("q", (2, 1)), ("q", (3, 0)), ("leak", ()), ("h", ())):
        ends = []
        for sign in (1, -1):
            moved = {k: v.copy() for k, v in params.items()}
            moved[name][place] += sign * step
            ends.append(np.logaddexp.reduce(scored(n, moved)[1], axis=None))
        assert float(slopes[name][place]) == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


@pytest.mark.slow
def test_sixty_causes_with_probabilities_to_fit(engine: str):
    """Linear time: p(y = 0) is a product over causes; draws given y; the mode, which has no linear plan, states its cost and the cure."""
    text = NOISY_OR.replace("input q[n] : real", "input n : int").replace("input leak : real = 0.05", "").replace("leak", "0.05")
    model = gm.parse(text.replace("var y : bit", "var y : bit  param q[i in range(n)] ~ beta(2, 2)"), n=60).model()
    q = causes(60)
    off = 0.95 * np.prod(1 - 0.1 * q)
    assert model.marginals({"q": q})["y"][1] == pytest.approx(1 - off, abs=1e-12)
    both_off = 0.95 * 0.1 * (1 - q) * np.prod(1 - 0.1 * q) / (1 - 0.1 * q)
    wanted = (0.1 - both_off) / (1 - off)
    np.testing.assert_allclose(model.marginals({"q": q}, clamp={"y": 1})["x"][:, 1], wanted, rtol=0, atol=1e-12)
    draws = model.sample({"q": q}, sampler="exact", draws=4000, chains=2, seed=1, clamp={"y": 1}).posterior["x"].values.reshape(-1, 60)
    assert np.abs((draws.mean(axis=0) - wanted) / np.sqrt(wanted * (1 - wanted) / len(draws))).max() < 4.5
    with pytest.raises(gm.GmlmError, match=r"E601(.|\n)*1.15e\+18 operations(.|\n)*anneal"):
        model.map({"q": q}, clamp={"y": 1})
    assert model.map({"q": q}, clamp={"y": 1}, method="anneal").configuration["y"] == 1


@pytest.mark.parametrize(
    ("declared", "term", "outside"),
    [
        ("real", "1 - q[i] * x[i]", "1 - P"),  # a term may be negative
        ("~ beta(2, 2)", "1 + q[i] * x[i]", "P"),  # a term may be above 1
        ("~ beta(2, 2)", "1 - q[i] * x[i]", "2 * P - 1"),  # negative at P = 0
        ("~ beta(2, 2)", "1 - q[i] * x[i]", "1 - P * P"),
        ("~ beta(2, 2)", "1 - q[i] * x[i]", "if P > 0.5 then P else 1"),
        ("~ beta(2, 2)", "1 - q[i] * x[i]", "1 / (1 + P)"),
    ],
)
def test_products_that_are_not_summed_by_two_values(declared: str, term: str, outside: str):
    declared = declared if declared.startswith("~") else f": {declared}"
    product = f"prod({term} for i in range(14))"
    text = f"model m {{ var x[i in range(14)] : bit  param q[i in range(14)] {declared}  factor log({outside.replace('P', product)}) }}"
    model = gm.parse(text).model()
    assert with_partial_sums(model.graph) is model.graph
