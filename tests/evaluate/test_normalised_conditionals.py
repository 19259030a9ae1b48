"""Distributions of cells that mention anything: log p, marginals, losses against sums that are written out here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gmlmdsl as gm

pytestmark = [pytest.mark.usefixtures("float64"), pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")]
Law = Callable[[Sequence[int]], float]


def sigmoid(a: float) -> float:
    return 1 / (1 + math.exp(-a))


ASIA = """
domain yes = labels("no", "yes")
model asia {
  var visit, smoke, tub, lung, bronc, either, xray, dysp : yes
  visit  ~ categorical([0.99, 0.01])
  smoke  ~ categorical([0.5, 0.5])
  tub    ~ categorical(if visit == "yes" then [0.95, 0.05] else [0.99, 0.01])
  lung   ~ categorical({"no": [0.99, 0.01], "yes": [0.9, 0.1]}[smoke])
  bronc  ~ categorical({"no": [0.7, 0.3], "yes": [0.4, 0.6]}[smoke])
  require (either == "yes") == (tub == "yes" or lung == "yes")
  xray   ~ categorical({"no": [0.95, 0.05], "yes": [0.02, 0.98]}[either])
  dysp   ~ categorical({("no", "no"): [0.9, 0.1], ("no", "yes"): [0.2, 0.8],
    ("yes", "no"): [0.3, 0.7], ("yes", "yes"): [0.1, 0.9]}[either, bronc])
}
mask one = subsets(size = 1)
"""


def asia(c: Sequence[int]) -> float:
    visit, smoke, tub, lung, bronc, either, xray, dysp = c
    p = [0.99, 0.01][visit] * 0.5 * [[0.99, 0.01], [0.95, 0.05]][visit][tub] * [[0.99, 0.01], [0.9, 0.1]][smoke][lung]
    p *= [[0.7, 0.3], [0.4, 0.6]][smoke][bronc] * (either == (tub or lung)) * [[0.95, 0.05], [0.02, 0.98]][either][xray]
    return p * [[[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.1, 0.9]]][either][bronc][dysp]


def nested(c: Sequence[int]) -> float:
    a, b, d = c
    p = [0.7, 0.3][a] * [[0.8, 0.2], [0.1, 0.9]][a][b]
    return p * [[[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]], [[0.5, 0.2, 0.3], [0.6, 0.4, 0.0]]][a][b][d]


def noisy_or(c: Sequence[int]) -> float:
    *x, y = c
    q = [0.2, 0.5, 0.7]
    on = 1 - math.prod(1 - q[i] * x[i] for i in range(3))
    return math.prod([0.8 - 0.1 * i, 0.2 + 0.1 * i][x[i]] for i in range(3)) * (on if y else 1 - on)


def graded(c: Sequence[int]) -> float:
    x, y = c
    cut, location = [-math.inf, -1.0, 0.2, 1.0, math.inf], 0.8 * x
    return 0.5 * (sigmoid(cut[y + 1] - location) - sigmoid(cut[y] - location))


def trials(c: Sequence[int]) -> float:
    z, k, m = c
    p, q = 0.2 + 0.3 * z, sigmoid(0.4 * z)
    return [0.2, 0.3, 0.5][z] * math.comb(4, k) * p**k * (1 - p) ** (4 - k) * math.comb(2, m) * q**m * (1 - q) ** (2 - m)


def logits(c: Sequence[int]) -> float:
    x, y, s = c
    h = np.arange(9.0).reshape(3, 3) / 5
    first, second = np.exp([0.1, 0.2, 0.3]), np.exp(h[x])
    on = sigmoid(0.3 * h[y, x])
    return first[x] / first.sum() * second[y] / second.sum() * (on if s else 1 - on)


def belief(c: Sequence[int]) -> float:
    w, p = [[0.3, -0.5, 0.2], [0.7, 0.1, -0.4]], 1.0
    for i in range(2):
        p *= [0.4, 0.6][c[i]]
    for j in range(3):
        on = sigmoid(sum(w[i][j] * c[i] for i in range(2)))
        p *= on if c[2 + j] else 1 - on
    return p


def weighted(c: Sequence[int]) -> float:
    """Lists with parameters are divided by their sums."""
    x, y = c
    row = [1.0, 2.0, 0.5]
    second = [2.0, 1 + x]
    return row[x] / sum(row) * second[y] / sum(second)


MODELS: dict[str, tuple[str, dict[str, Any], Law]] = {
    "asia": (ASIA, {}, asia),
    "noisy or": (
        "model m { var x[i in range(3)], y : bit  param q[i in range(3)] : real(lower = 0, upper = 1)"
        "  x[i] ~ bernoulli(0.2 + 0.1 * i) for i in range(3)  y ~ bernoulli(1 - prod(1 - q[i] * x[i] for i in range(3))) }"
        "  mask one = subsets(size = 1)",
        {"q": np.array([0.2, 0.5, 0.7])},
        noisy_or,
    ),
    "graded response": (
        "model m { var x : bit ~ bernoulli(0.5)  var y : range(4)  param c[k in range(3)] : ordered  param b"
        "  y ~ ordered_logistic(b * x, c) }  mask one = subsets(size = 1)",
        {"c": np.array([-1.0, 0.2, 1.0]), "b": 0.8},
        graded,
    ),
    "trials": (
        "input n : int = 4  model m { var z : range(3)  var k : range(n + 1)  var m : range(3)  param w"
        "  z ~ categorical([0.2, 0.3, 0.5])  k ~ binomial(n, 0.2 + 0.3 * z)  m ~ binomial(2, logit = w * z) }  mask one = subsets(size = 1)",
        {"w": 0.4},
        trials,
    ),
    "logits": (
        'domain d = labels("a", "b", "c")  model m { var x, y : d  var s : spin  param h[a in d, b in d]'
        "  y ~ categorical(logits = h[x, a] for a in d)  x ~ categorical(logits = [0.1, 0.2, 0.3])  s ~ bernoulli(logit = 0.3 * h[y, x]) }"
        "  mask one = subsets(size = 1)",
        {"h": np.arange(9.0).reshape(3, 3) / 5},
        logits,
    ),
    "sigmoid belief net": (
        "model m { var h[i in range(2)], v[j in range(3)] : bit  param W[i in range(2), j in range(3)]"
        "  h[i] ~ bernoulli(0.6) for i in range(2)  v[j] ~ bernoulli(logit = sum(W[i, j] * h[i] for i in range(2))) for j in range(3) }"
        "  mask one = subsets(size = 1)",
        {"W": np.array([[0.3, -0.5, 0.2], [0.7, 0.1, -0.4]])},
        belief,
    ),
    "nested lists": (
        "model m { var a, b : bit  var c : range(3)  param w  a ~ bernoulli(0.3)  b ~ bernoulli([0.2, 0.9][a])"
        "  c ~ categorical([[[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]], [[0.5, 0.2, 0.3], [0.6, 0.4, 0.0]]][a, b]) }"
        "  mask one = subsets(size = 1)",
        {"w": 0.0},
        nested,
    ),
    "lists of parameters": (
        "model m { var x : range(3)  var y : bit  param u[k in range(3)] : positive"
        "  x ~ categorical([u[0], u[1], u[2]])  y ~ categorical([u[1], u[0] + x]) }  mask one = subsets(size = 1)",
        {"u": np.array([1.0, 2.0, 0.5])},
        weighted,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_log_p_marginals_and_losses_are_those_of_the_law(name: str):
    text, params, law = MODELS[name]
    model = gm.parse(text).model()
    sizes = model.graph.sizes.tolist()
    states = np.array(list(itertools.product(*map(range, sizes))))
    p = np.array([law(s) for s in states])
    assert abs(p.sum() - 1) < 1e-12
    at, x = 0, {}
    for v in model.graph.variables:
        codes = states[:, at : at + v.size].reshape(-1, *v.shape)
        x[v.name], at = (v.values_of(codes) if v.ordered else codes), at + v.size
    assert abs(float(model.log_partition(params))) < 1e-9
    np.testing.assert_allclose(np.exp(np.asarray(model.log_prob(params, x))), p, rtol=1e-9, atol=1e-12)
    found = np.concatenate(
        [np.asarray(m).reshape(v.size, -1).ravel() for v, m in zip(model.graph.variables, model.marginals(params).values(), strict=True)]
    )
    wanted = [p[states[:, c] == k].sum() for c, q in enumerate(sizes) for k in range(q)]
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    here = p > 0
    losses = np.zeros(here.sum())
    for c in range(len(sizes)):
        rest = [np.all(np.delete(states, c, 1) == np.delete(s, c), axis=1) for s in states[here]]
        losses += [-np.log(mine / p[same].sum()) / len(sizes) for mine, same in zip(p[here], rest, strict=True)]
    rows = {k: np.asarray(v)[here] for k, v in x.items()}
    assert abs(float(model.loss(params, rows, mask="one")) - losses.mean()) < 1e-9


def test_asia_given_symptoms_and_its_exact_draws():
    model = gm.parse(ASIA).model()
    states = [s for s in itertools.product(range(2), repeat=8) if s[6] and s[7]]
    p = np.array([asia(s) for s in states])
    found = model.marginals({}, clamp={"xray": "yes", "dysp": "yes"})
    assert abs(found["lung"][1] - sum(q for s, q in zip(states, p, strict=True) if s[3]) / p.sum()) < 1e-9
    draws = model.sample({}, sampler="exact", draws=4000, chains=1, seed=0).posterior["smoke"].values
    assert abs((draws == "yes").mean() - 0.5) < 0.04 if draws.dtype.kind in "UO" else abs(draws.mean() - 0.5) < 0.04


REFUSED = {
    "E415": "model m { var x : bit  var y : bit  y ~ bernoulli(0.7 + x) }",
    "E403": "input n : int = 4  model m { var k : range(n)  k ~ binomial(n, 0.5) }",
    "E310": "model m { var x : bit  var y : range(3)  y ~ categorical(if x == 1 then [0.5, 0.5] else [0.2, 0.3, 0.5]) }",
    "E311": "model m { var y : range(3)  y ~ bernoulli(0.5) }",
    "E332": "model m { var x : range(3)  var y : bit  y ~ bernoulli({0: 0.1, 2: 0.3}[x]) }",
    "E413": "model m { var x, y : bit  x ~ bernoulli(logit = y)  y ~ bernoulli(logit = x) }",
}


@pytest.mark.parametrize("code", REFUSED)
def test_a_law_that_is_none_is_refused_where_it_stands(code: str):
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse(REFUSED[code]).model()
    assert code in caught.value.codes
    assert caught.value.diagnostics[0].span is not None


def test_logits_may_say_what_a_sum_runs_over():
    """The value of the cell stands in the condition of a loop: steps up to it are added (Masters 1982)."""
    text = """
    index grade = range(4)
    model m {
      var z : bit ~ bernoulli(0.4)
      var y, u : grade
      param s[m in grade]
      y ~ categorical(logits = k * z - sum(s[m] for m in grade if m <= k) for k in grade)
      u ~ categorical(logits = sum(s[m] * z for m in range(k)) for k in grade)
    }
    """
    s = np.array([0.2, -0.4, 0.9, 0.1])
    states = np.array(list(itertools.product(range(2), range(4), range(4))))
    wanted = []
    for z, y, u in states:
        first, second = np.arange(4) * z - np.cumsum(s), z * np.concatenate([[0], np.cumsum(s)[:-1]])
        wanted.append(math.log(0.4 if z else 0.6) + first[y] + second[u] - np.log(np.exp(first).sum()) - np.log(np.exp(second).sum()))
    found = gm.parse(text).model().log_prob({"s": s}, {"z": states[:, 0], "y": states[:, 1], "u": states[:, 2]})
    np.testing.assert_allclose(found, wanted, atol=1e-9)
