"""Rows that lack cells of which a factor knows only the sum: log p and losses against convolutions in NumPy."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from scipy.special import logsumexp
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.evaluate import limits

pytestmark = pytest.mark.usefixtures("float64")

CELLS, AIM = 60, 20
TALLY = """
input n : int = 60
model m {
  var x[i in range(n)] : bit
  param h[i in range(n)], a
  factor h[i] * x[i] for i in range(n)
  factor a * (sum(x[i] for i in range(n)) - 20)^2
}
mask one = subsets(x, size = 1)
mask whole = everything(x)
mask five = blocks({x[i], x[i + 1], x[i + 2], x[i + 3], x[i + 4]} for i in range(n) if i % 5 == 0)
"""
# Cells in a chain beside their sum: its partial sums have tables, and no tree.
CHAIN = TALLY.replace("  factor a *", "  factor 0.7 * x[i] * x[i + 1] for i in range(n) if i < n - 1\n  factor a *")
CAUSES = """
model m {
  latent z[i in range(60)] : bit
  var y : range(4)
  param h[i in range(60)] ~ normal(0, 1)
  param a ~ normal(0, 0.1)
  factor h[i] * z[i] for i in range(60)
  factor a * (sum(z[i] for i in range(60)) - 8 * y - 10)^2
}
mask all = everything(y)
"""
BELIEFS = """
model m {
  latent z[i in range(60)] : bit
  var y : bit
  param h[i in range(60)], a
  z[i] ~ bernoulli(logit = h[i]) for i in range(60)
  y ~ bernoulli(logit = a * (sum(z[i] for i in range(60)) - 20))
}
mask all = everything(y)
"""
PARAMS = {"h": np.linspace(-0.8, 0.7, CELLS), "a": np.array(-0.03)}


def log_sums(row: np.ndarray, h: np.ndarray, factor: np.ndarray, pull: float = 0.0) -> float:
    """The log of the sum of exp(h . x + pull . pairs + factor[sum of x]) over the missing cells of a row, -1.

    `weights[v, s]` sums over the cells so far, the last of value v, with the sum s.
    """
    weights = np.array([[1.0], [0.0]])
    for value, field in zip(row, h, strict=True):
        zero = weights.sum(axis=0) * (value != 1)
        one = (weights[0] + weights[1] * np.exp(pull)) * np.exp(field) * (value != 0)
        weights = np.array([np.append(zero, 0.0), np.append(0.0, one)])
    with np.errstate(divide="ignore"):
        return float(logsumexp(np.log(weights.sum(axis=0)) + factor))


def rows(count: int, gaps: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    x = rng.integers(0, 2, (count, CELLS))
    for row in x:
        row[rng.choice(CELLS, gaps, replace=False)] = -1
    return x


FACTOR = float(PARAMS["a"]) * (np.arange(CELLS + 1) - AIM) ** 2
BLOCKS = {
    "one": [[i] for i in range(CELLS)],
    "five": [list(range(i, i + 5)) for i in range(0, CELLS, 5)],
    "whole": [list(range(CELLS))],
}


MODELS = {"tree": (TALLY, 0.0), "chain": (CHAIN, 0.7)}


@functools.cache
def model_of(kind: str) -> gm.Model:
    return gm.parse(MODELS[kind][0]).model()


@pytest.mark.parametrize("kind", thinned(MODELS, 2))
@pytest.mark.parametrize("gaps", [35, 55])
def test_log_p_of_rows_is_that_of_convolutions(kind: str, gaps: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MOST_HOST_ROWS", 0)  # as many rows have it
    model, pull, x = model_of(kind), MODELS[kind][1], rows(6, gaps)
    every = log_sums(np.full(CELLS, -1), PARAMS["h"], FACTOR, pull)
    expected = [log_sums(row, PARAMS["h"], FACTOR, pull) - every for row in x]
    np.testing.assert_allclose(model.log_prob(PARAMS, x, missing=-1), expected, rtol=1e-10)


def mean_loss(x: np.ndarray, blocks: list[list[int]], h: np.ndarray, factor: np.ndarray) -> float:
    """The mean over rows and blocks of -log p(observed cells of the block | observed cells outside)."""
    total = 0.0
    for row in x:
        here = log_sums(row, h, factor)
        for block in blocks:
            without = row.copy()
            without[block] = -1
            total += log_sums(without, h, factor) - here
    return total / (len(blocks) * len(x))


@pytest.mark.parametrize(("mask", "drawn"), thinned([("one", None), ("five", None), ("whole", None), ("whole", 2)], 4, 0))
def test_losses_of_rows_with_gaps_are_those_of_convolutions(mask: str, drawn: int | None):
    tally, x = model_of("tree"), rows(4, 40)
    options = {} if drawn is None else {"n_masks": drawn, "key": 3}
    found, slopes = jax.value_and_grad(lambda p: tally.loss(p, x, mask, missing=-1, **options))(PARAMS)
    np.testing.assert_allclose(found, mean_loss(x, BLOCKS[mask], PARAMS["h"], FACTOR), rtol=1e-10)
    step = 1e-5
    ends = [mean_loss(x, BLOCKS[mask], PARAMS["h"], FACTOR * (1 + e / PARAMS["a"])) for e in (step, -step)]
    np.testing.assert_allclose(slopes["a"], (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


@pytest.mark.slow
def test_a_latent_sum_is_fitted():
    """The sum of sixty latents decides one variable of four values: log p of each follows from a convolution."""
    model = gm.parse(CAUSES).model()
    y = np.arange(4)
    scores = [log_sums(np.full(CELLS, -1), PARAMS["h"], float(PARAMS["a"]) * (np.arange(CELLS + 1) - 8 * k - 10) ** 2) for k in range(4)]
    expected = logsumexp(scores) - np.mean(scores)
    np.testing.assert_allclose(model.loss(PARAMS, y, "all"), expected, rtol=1e-10)
    fit = model.fit(np.repeat(y, [5, 9, 4, 2]), "all")
    assert fit.status.converged
    assert "summed out" in fit.missing.words


def test_the_likelihood_of_a_product_of_distributions():
    """p(y = 1) is the mean of a logistic function of the number of causes, whose distribution is a convolution."""
    model = gm.parse(BELIEFS).model()
    none, causes = np.full(CELLS, -1), np.arange(CELLS + 1)
    slope = float(PARAMS["a"]) * (causes - 20)
    every = log_sums(none, PARAMS["h"], np.zeros(CELLS + 1))
    expected = [log_sums(none, PARAMS["h"], -np.logaddexp(0, sign * slope)) - every for sign in (1, -1)]
    np.testing.assert_allclose([model.loss(PARAMS, np.array([k]), "all") for k in (0, 1)], np.negative(expected), rtol=1e-10)


def test_a_conditional_sums_latents_out():
    """p(y) of one variable of four values, by the same convolutions."""
    scores = [log_sums(np.full(CELLS, -1), PARAMS["h"], float(PARAMS["a"]) * (np.arange(CELLS + 1) - 8 * k - 10) ** 2) for k in range(4)]
    found = gm.parse(CAUSES).model().log_conditional(PARAMS, np.array([2]), K=[CELLS])
    np.testing.assert_allclose(found[0], scores - logsumexp(scores), rtol=1e-9)
