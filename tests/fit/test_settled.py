"""What a stochastic climb says of itself: converged where it is at the maximum, and what it has reached where it is not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import optax
import pytest

import gmlmdsl as gm
from gmlmdsl.fit._held_chains import settled
from gmlmdsl.fit.limits import HIDING_NOISE

GLASS = """
graph G = complete(6)
model glass {
  var x[i in G.nodes] : spin
  param h[i in G.nodes] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask whole = everything(x)
sampler gibbs { update x[i] for i in G.nodes }
"""
GROUPS, ENTRIES = 16, 400
VARIANCE = np.ones(ENTRIES)


def groups(seed: int, push: float, error: float = 0.1) -> np.ndarray:
    """Mean gradients of groups of chains, whose mean has an error of `error` and is pushed by a part of it."""
    noise = np.random.default_rng(seed).normal(0, error * np.sqrt(GROUPS), (GROUPS, ENTRIES))
    return noise + push * error


def test_noise_stands_still() -> None:
    """In 20 climbs of nothing but noise none is said to move: each test errs in one of a thousand."""
    found = [settled(groups(s, 0.0), groups(s + 100, 0.0), VARIANCE, VARIANCE) for s in range(20)]
    assert all(f.stands_still for f in found)
    assert np.mean([f.share for f in found]) == pytest.approx(0.1, rel=0.05)


def test_many_entries_that_all_push_are_seen_together() -> None:
    """Each by three of its errors, which among 400 says nothing."""
    found = settled(groups(1, 3.0), groups(2, 0.0), VARIANCE, VARIANCE)
    assert found.moving == pytest.approx(0.3, rel=0.1)  # in units of the sampling error
    assert not found.stands_still
    assert found.reached(64)[1] == "Raise `steps` of the method"


def test_one_entry_that_pushes_is_seen() -> None:
    pushed = groups(4, 0.0)
    pushed[:, 7] += 5.0
    assert settled(pushed, groups(5, 0.0), VARIANCE, VARIANCE).moving == pytest.approx(5.0, rel=0.1)


def test_a_gradient_that_is_known_to_be_small_does_not_count() -> None:
    """Many chains tell a gradient of a tenth of the sampling error from 0; the estimate moves by a tenth of a standard error."""
    found = settled(groups(1, 10.0, error=0.01), groups(2, 0.0, error=0.01), VARIANCE, VARIANCE)
    assert found.stands_still
    assert not settled(groups(1, 10.0, error=0.01), groups(2, 0.0, error=0.01), VARIANCE / 100, VARIANCE).stands_still


def test_noise_that_hides_a_gradient_is_no_convergence() -> None:
    """No test shows that the estimate moves, and the error is as large as that of the rows."""
    found = settled(groups(1, 0.0, error=1.0), groups(2, 0.0, error=1.0), VARIANCE, VARIANCE)
    assert found.moving == found.drifting == 0
    assert found.share > HIDING_NOISE
    assert not found.stands_still
    message, remedy = found.reached(64)
    assert "Monte Carlo noise hides the gradient after 64 steps" in message
    assert remedy.startswith("Raise `chains`")


def test_two_groups_that_agree_by_chance_are_not_sure() -> None:
    few = np.zeros((2, 3)) + 0.5
    few[0, 0] = -2.0
    assert settled(few, 0 * few, np.ones(3), np.ones(3)).moving == 0


def test_chains_that_drift_are_seen() -> None:
    found = settled(groups(1, 0.0), groups(2, 5.0), VARIANCE, VARIANCE)
    assert found.moving == 0
    assert found.drifting == pytest.approx(0.5, rel=0.1)
    assert "have not settled" in found.reached(64)[0]


def glass(seed: int, rows: int = 400) -> tuple[Any, np.ndarray]:
    """A model of six spins with couplings of both signs, and rows of it by enumeration."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.GmlmWarning)
        model = gm.parse(GLASS).model()
    rng = np.random.default_rng(seed)
    j = np.zeros((6, 6))
    j[np.triu_indices(6, 1)] = rng.normal(0, 0.6, 15)
    states = np.array(np.meshgrid(*[[-1, 1]] * 6, indexing="ij")).reshape(6, -1).T
    p = np.exp(np.einsum("ri,ij,rj->r", states, j, states))
    return model, states[rng.choice(len(states), rows, p=p / p.sum())]


def distance(fit: Any, exact: Any) -> float:
    """Of J from the estimate of the exact likelihood, as a share of its length."""
    return float(np.linalg.norm(fit.params["J"] - exact.params["J"]) / np.linalg.norm(exact.params["J"]))


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("seed", [0, 1])
def test_the_status_says_whether_the_maximum_is_reached(seed: int) -> None:
    """The exact maximum of six spins: near it the climb has converged; far from it, it says how it knows, and the remedy."""
    model, x = glass(seed)
    exact = model.fit(x, "whole", progress=False)
    # Steps whose curvature and mean came from the same chains would end 0.05 away.
    long = model.fit(x, method=gm.PersistentContrastiveDivergence(steps=3000, chains=200), progress=False)
    assert long.status.converged, long.status
    assert distance(long, exact) < 0.03
    short = model.fit(x, method=gm.PersistentContrastiveDivergence(steps=200, optimizer=optax.adam(0.001)), progress=False)
    assert distance(short, exact) > 0.1
    assert short.status.code == "not-converged", short.status
    assert "still moves after" in str(short.status)
    assert "Raise `steps` of the method" in str(short.status)


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("seed", [0, 1])
def test_few_chains_hide_the_gradient(seed: int) -> None:
    """Two chains are far from the maximum and cannot know it; the status does not say that they have converged."""
    model, x = glass(seed)
    exact = model.fit(x, "whole", progress=False)
    few = model.fit(x, method=gm.PersistentContrastiveDivergence(steps=64, chains=2), progress=False)
    assert distance(few, exact) > 0.1
    assert few.status.code == "not-converged", few.status
    assert "Monte Carlo noise hides the gradient" in str(few.status)
    assert "of the sampling error of the rows" in str(few.status)
    assert "Raise `chains`" in str(few.status)
