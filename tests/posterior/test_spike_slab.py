"""Spike-and-slab posteriors against quadrature over every model, seeds chosen before; and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from refusals import refused

import gmlmdsl as gm
from gmlmdsl.posterior import _sampled
from gmlmdsl.posterior._chances import Known
from gmlmdsl.sample import summary, to_arviz

CHAIN = """
input pi : real = 0.3
graph G = chain(3)
model m {
  var x[i in G.nodes] : spin
  param h ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ spike_slab(sd = 0.8, probability = pi)
  factor h * x[i] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
"""
KINDS = """
domain aa = letters("AB")
model kinds {
  var w : aa
  var y : bit
  var k : range(2)
  param g[a in aa] ~ normal(0, 1.5)
  gauge zero_sum(g)
  param b : positive ~ gamma(2, 2)
  param p[a in range(2)] : simplex ~ dirichlet(2)
  param c ~ spike_slab(1, 0.5)
  factor g[w] + b * y * k + c * y * (w == "B")
  k ~ categorical(p)
}
mask whole = everything()
"""
EDGES = """
domain aa = letters("AB")
input P[2] : real
graph G = chain(3)
model potts {
  var x[i in G.nodes] : aa
  param J[(i, j) in G.edges, a in aa, b in aa] ~ spike_slab(1, P[i])
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
"""
DRAWS, WARMUP = 1000, 200
ERRORS = 4.0  # Monte Carlo standard errors


@pytest.fixture(autouse=True)
def loose(standard_promotion: None) -> None:
    """Fits mix types."""


def normal(v: np.ndarray, sd: float) -> np.ndarray:
    return np.exp(-0.5 * (v / sd) ** 2) / (sd * np.sqrt(2 * np.pi))


class Moments:
    """Posterior moments by trapezoids: over each choice of entries that are in, the mass and the moments of every coordinate."""

    def __init__(self) -> None:
        self.mass, self.total, self.sums, self.squares = {}, 0.0, 0.0, 0.0

    def add(self, inside: tuple[bool, ...], density: np.ndarray, values: list[np.ndarray], cell: float) -> None:
        weight = density * cell
        self.mass[inside] = weight.sum()
        self.total += weight.sum()
        self.sums = self.sums + np.array([(weight * v).sum() for v in values])
        self.squares = self.squares + np.array([(weight * v**2).sum() for v in values])

    @property
    def mean(self) -> np.ndarray:
        return self.sums / self.total

    @property
    def sd(self) -> np.ndarray:
        return np.sqrt(self.squares / self.total - self.mean**2)

    def probability(self, entry: int) -> float:
        return sum(m for inside, m in self.mass.items() if inside[entry]) / self.total


def chain_rows() -> np.ndarray:
    states = np.array(list(itertools.product([-1, 1], repeat=3)))
    law = np.exp(0.2 * states.sum(axis=1) + 0.45 * states[:, 0] * states[:, 1])
    return states[np.random.default_rng(1).choice(8, 40, p=law / law.sum())]


def chain_moments(rows: np.ndarray, pi: float = 0.3, sd: float = 0.8) -> Moments:
    """Of h, J[0, 1], J[1, 2], by the pseudolikelihood: c = 3 cells / 1."""
    grid = np.linspace(-3.0, 3.0, 121)
    states, counts = np.unique(rows, axis=0, return_counts=True)
    found = Moments()
    for inside in itertools.product([False, True], repeat=2):
        h, a, b = np.meshgrid(grid, grid if inside[0] else [0.0], grid if inside[1] else [0.0], indexing="ij")
        log = np.zeros_like(h)
        for s, n in zip(states, counts, strict=True):
            for own, field in zip(s, (a * s[1], a * s[0] + b * s[2], b * s[1]), strict=True):
                log = log - n * np.log1p(np.exp(-2 * own * (h + field)))
        prior = normal(h, 1.0)
        for is_in, value in zip(inside, (a, b), strict=True):
            prior = prior * (pi * normal(value, sd) if is_in else 1 - pi)
        found.add(inside, np.exp(log) * prior, [h, a, b], (grid[1] - grid[0]) ** (1 + sum(inside)))
    return found


def kinds_rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    return {"w": rng.integers(0, 2, 25), "y": (rng.random(25) < 0.7).astype(int), "k": (rng.random(25) < 0.6).astype(int)}


def kinds_moments(rows: dict[str, np.ndarray]) -> Moments:
    """Of t = (g_A - g_B) / sqrt 2 as the gauge's coordinate, b, p_1 and c, by the likelihood; g's normal prior is normal along it."""
    t_grid, b_grid, p_grid, c_grid = (
        np.linspace(-3, 3, 31),
        np.linspace(1e-6, 6, 41),
        np.linspace(1e-6, 1 - 1e-6, 31),
        np.linspace(-4, 4, 31),
    )
    found = Moments()
    for inside in (False, True):
        t, b, p, c = np.meshgrid(t_grid, b_grid, p_grid, c_grid if inside else [0.0], indexing="ij")

        def score(w: int, y: int, k: int, t: np.ndarray = t, b: np.ndarray = b, p: np.ndarray = p, c: np.ndarray = c) -> np.ndarray:
            return (t if w == 0 else -t) / np.sqrt(2) + b * y * k + c * y * (w == 1) + np.log(p if k else 1 - p)

        scores = {s: score(*s) for s in itertools.product(range(2), repeat=3)}
        log = -25 * np.log(sum(np.exp(v) for v in scores.values()))
        for s in zip(rows["w"], rows["y"], rows["k"], strict=True):
            log = log + scores[tuple(map(int, s))]
        prior = normal(t, 1.5) * 4 * b * np.exp(-2 * b) * 6 * p * (1 - p) * (0.5 * normal(c, 1.0) if inside else 0.5)
        cell = np.prod([g[1] - g[0] for g in (t_grid, b_grid, p_grid, c_grid)[: 3 + inside]])
        found.add((inside,), np.exp(log) * prior, [t, b, p, c], float(cell))
    return found


def misses(idata: Any, moments: Moments, probabilities: list[float], values: Callable[[Any], list[np.ndarray]]) -> np.ndarray:
    """How many Monte Carlo errors the inclusion probabilities, the means and the spreads are off."""
    names = [n for n in idata["posterior"].data_vars if str(n).endswith("_included")]
    told = summary(idata, names)
    off = [(told["mean"].to_numpy() - probabilities) / told["mcse_mean"].to_numpy()]
    for k, v in enumerate(values(idata["posterior"])):
        off.append([(v.mean() - moments.mean[k]) / (v.std() / np.sqrt(effective(v)))])
        squared = (v - v.mean()) ** 2
        off.append([(v.std() - moments.sd[k]) / (squared.std() / np.sqrt(effective(squared)) / (2 * v.std()))])
    return np.abs(np.concatenate(off))


def effective(draws: np.ndarray) -> float:
    import arviz as az

    return float(az.ess(np.asarray(draws)))


@pytest.fixture(scope="module")
def chain() -> tuple[gm.Model, np.ndarray, Moments]:
    rows = chain_rows()
    return gm.parse(CHAIN).model(), rows, chain_moments(rows)


def chain_values(draws: Any) -> list[np.ndarray]:
    return [draws["h"].values, *np.moveaxis(draws["J"].values, -1, 0)]


@pytest.mark.slow
def test_a_pseudo_posterior_agrees_with_quadrature(chain: tuple[gm.Model, np.ndarray, Moments]):
    model, rows, moments = chain
    idata = model.posterior(rows, draws=DRAWS, warmup=WARMUP, seed=7)
    expected = [moments.probability(0), moments.probability(1)]
    assert misses(idata, moments, expected, chain_values).max() < ERRORS
    assert (np.asarray(idata["posterior"]["J"])[np.asarray(idata["posterior"]["J_included"]) == 0] == 0).all()
    assert "not calibrated" in idata["posterior"].attrs["inference"]
    table = gm.inclusion(idata, "J")
    assert list(table.index) == ["J[0, 1]", "J[1, 2]"]
    np.testing.assert_allclose(table["probability"], expected, atol=0.03)
    assert list(table["included"]) == [True, False]
    assert table.attrs["calibration"] == "not calibrated"
    again, other = (model.posterior(rows, draws=DRAWS, warmup=WARMUP, seed=s)["posterior"]["J"].values for s in (7, 8))
    assert (again == idata["posterior"]["J"].values).all()
    assert (again != other).any()


@pytest.mark.slow
def test_inverted_prior_odds_are_caught(chain: tuple[gm.Model, np.ndarray, Moments]):
    """The planted bug: the same check fails by far where the prior probabilities of being in and out change places."""
    model, rows, moments = chain
    target = _sampled.Target

    def planted(objective: Any, place: Any, chances: Any, *rest: Any) -> Any:
        return target(objective, place, Known(chances.log_out, chances.log_in), *rest)

    with patch.object(_sampled, "Target", planted):
        idata = model.posterior(rows, draws=DRAWS, warmup=WARMUP, seed=7)
    expected = [moments.probability(0), moments.probability(1)]
    assert misses(idata, moments, expected, chain_values).max() > 3 * ERRORS


@pytest.mark.slow
def test_a_posterior_with_every_kind_of_parameter_agrees_with_quadrature():
    rows = kinds_rows()
    moments = kinds_moments(rows)
    idata = gm.parse(KINDS).model().posterior(rows, draws=DRAWS, warmup=WARMUP, seed=3)

    def values(draws: Any) -> list[np.ndarray]:
        g = draws["g"].values
        return [(g[..., 0] - g[..., 1]) / np.sqrt(2), draws["b"].values, draws["p"].values[..., 1], draws["c"].values]

    assert misses(idata, moments, [moments.probability(0)], values).max() < ERRORS
    assert np.abs(idata["posterior"]["g"].values.sum(axis=-1)).max() < 1e-12
    assert idata["posterior"].attrs["calibration"] == "the likelihood: no calibration is needed"
    assert list(gm.inclusion(idata).index) == ["c"]


@pytest.mark.slow
def test_entries_that_the_prior_is_sure_of_stay():
    """Each coupling of an edge has an indicator of its own; probabilities 0 and 1 are certainties."""
    idata = gm.parse(EDGES, P=[0.0, 1.0]).model().posterior(np.array([[0, 0, 1], [1, 1, 1], [0, 1, 0]]), draws=20, warmup=20, chains=2)
    inside = idata["posterior"]["J_included"]
    assert inside.dims == ("chain", "draw", "G.edges", "aa", "aa_2")
    assert (inside.values[:, :, 0] == 0).all()
    assert (inside.values[:, :, 1] == 1).all()
    table = gm.inclusion(idata, "J")
    assert list(table.index[:2]) == ["J[0, 1, A, A]", "J[0, 1, A, B]"]
    assert table["mcse"].isna().all()
    assert table["mean_in"].isna().tolist() == [True] * 4 + [False] * 4


@pytest.mark.slow
def test_what_cannot_be_sampled_is_refused(chain: tuple[gm.Model, np.ndarray, Moments]):
    model, rows, _ = chain
    refused("E706", lambda: model.fit(rows), "`J`", "model.posterior", "laplace")
    refused("E706", lambda: model.to_numpyro(rows), "NumPyro", "model.posterior")
    refused("E601", lambda: model.posterior(rows, draws=10**9), "fewer `draws=`")
    refused("E507", lambda: model.posterior(rows, draws=0))
    refused("E501", lambda: model.posterior(rows[0]), "one row is")
    refused("E404", lambda: gm.parse(CHAIN, pi=1.5).model(), "at most 1")
    lonely = gm.parse(CHAIN.replace("param h ~ normal(0, 1)", "param h\n  param u")).model()
    refused("E552", lambda: lonely.posterior(rows), "give them a prior")
    named = gm.parse(CHAIN.replace("param h ~", "param J_included ~ normal(0, 1)\n  param h ~")).model()
    refused("E507", lambda: named.posterior(rows), "J_included")


@pytest.mark.slow
def test_without_the_prior_a_fit_is_drawn_from(chain: tuple[gm.Model, np.ndarray, Moments], monkeypatch: pytest.MonkeyPatch):
    seen: list[Any] = []
    monkeypatch.setattr(gm.Fit, "posterior", lambda fit, *args, **options: seen.append((fit, args, options)) or "draws")
    plain = gm.parse(CHAIN.replace("spike_slab(sd = 0.8, probability = pi)", "normal(0, pi)")).model()
    assert plain.posterior(chain[1], draws=7, chains=3, warmup=5, seed=11, weights=np.full(40, 2.0)) == "draws"
    ((fit, args, options),) = seen
    assert fit.mask == "single"
    assert (args, options) == ((7, 3, "curvature", 11), {"warmup": 5, "checkpoint": None})
    np.testing.assert_allclose(fit.params["h"], plain.fit(chain[1], weights=np.full(40, 2.0)).params["h"])


@pytest.mark.parametrize("calibrate", ["curvatur", "none", 3, np.array(["auto", "auto"])], ids=repr)
def test_another_calibration_is_refused_before_the_fit(
    chain: tuple[gm.Model, np.ndarray, Moments], calibrate: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(gm.JointModel, "fit")
    plain = gm.parse(CHAIN.replace("spike_slab(sd = 0.8, probability = pi)", "normal(0, pi)")).model()
    for model in (plain, chain[0]):
        refused("E507", lambda model=model: model.posterior(chain[1], calibrate=calibrate), "calibrate must be")


def test_indicators_are_asked_for_where_there_are_some():
    idata = to_arviz({"h": np.zeros((2, 5))}, {}, {}, {})
    refused("E507", lambda: gm.inclusion(idata), "no indicators")
