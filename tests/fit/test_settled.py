"""What a stochastic climb says of itself: converged where it is at the maximum, and what it has reached where it is not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import optax
import pytest

import gmlmdsl as gm
from gmlmdsl.fit._settled import settled

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
BATCHES, ENTRIES = 16, 400


def batches(seed: int, push: float) -> np.ndarray:
    """Mean gradients of batches, whose entries are pushed by a part of the error that their mean has."""
    noise = np.random.default_rng(seed).normal(0, 0.02, (BATCHES, ENTRIES))
    return noise + push * 0.02 / np.sqrt(BATCHES)


def places(seed: int, step: float) -> np.ndarray:
    """Parameters around 1, which go on by some at each batch."""
    noise = np.random.default_rng(seed).normal(0, 0.01, (BATCHES, ENTRIES))
    return 1 + noise + step * np.arange(BATCHES)[:, None]


def test_noise_stands_still() -> None:
    """In 20 climbs of nothing but noise none is said to move: each test errs in one of a thousand."""
    found = [settled(batches(s, 0.0), places(s + 100, 0.0), np.zeros(ENTRIES)) for s in range(20)]
    assert all(f.stands_still for f in found)


def test_many_entries_that_all_push_are_seen_together() -> None:
    """Each by one of its errors, which alone says nothing."""
    found = settled(batches(1, 1.0), places(1, 0.0), np.zeros(ENTRIES))
    assert found.moving == 0
    assert found.together > 1
    assert not found.stands_still


def test_an_estimate_that_goes_on_is_seen() -> None:
    found = settled(batches(2, 0.0), places(2, 0.02), np.zeros(ENTRIES))
    assert 0.02 < found.travelled < 0.1
    assert not found.stands_still
    assert settled(batches(2, 0.0), places(2, 0.02), np.full(ENTRIES, -100.0)).travelled == 0


def test_an_estimate_that_wanders_as_far_as_it_has_come_is_seen() -> None:
    wild = np.random.default_rng(3).normal(0, 1.0, (BATCHES, ENTRIES))
    assert settled(batches(3, 0.0), wild, np.zeros(ENTRIES)).wandered > 0.25


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
    long = model.fit(x, method=gm.PersistentContrastiveDivergence(steps=3000, chains=200), progress=False)
    assert long.status.converged, long.status
    assert distance(long, exact) < 0.1
    for options in ({"steps": 64}, {"steps": 200, "optimizer": optax.adam(0.001)}, {"steps": 64, "chains": 2}):
        short = model.fit(x, method=gm.PersistentContrastiveDivergence(**options), progress=False)
        assert distance(short, exact) > 0.1
        assert short.status.code == "not-converged", short.status
        assert "still moves after" in str(short.status)
        assert "Raise `steps` of the method" in str(short.status)
