"""Bridge sampling of log Z: against exact log Z, exact laws of log p at each beta, and its own standard errors."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CASES, Case
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.sample._annealed_importance import Base
from gmlmdsl.sample._bridge import joined

RING = """
index cell = range(12)
model ring {
  var x[i in cell] : spin
  param J
  factor J * x[i] * x[(i + 1) % 12] for i in cell
}
sampler slow { mixture { 40 : update x[0]  1 : update x[i] for i in cell } }
"""


@pytest.mark.parametrize("case", thinned(CASES, 12, 6), ids=str)
def test_sweeps_of_single_cells_estimate_log_z(case: Case):
    """Every kind of domain, factor, law and requirement, within four standard errors."""
    exact = case.oracle.log_partition(case.params)
    found = case.model.bridge_log_partition(case.params, betas=12, draws=40, warmup=20, chains=48, seed=3)
    assert abs(found.log_partition - exact) <= 4 * found.standard_error + 2e-5
    assert found.standard_error < 0.2
    assert found.log_partitions[-1] == found.log_partition
    assert found.overlaps.shape == (12,)


def test_log_partitions_are_those_of_each_beta() -> None:
    """Z(beta) of a ring is (2 cosh(beta J))^12 + (2 sinh(beta J))^12."""
    found = gm.parse(RING).model().bridge_log_partition({"J": 0.8}, betas=8, draws=200, chains=64, seed=1)
    exact = np.log((2 * np.cosh(found.betas * 0.8)) ** 12 + (2 * np.sinh(found.betas * 0.8)) ** 12)
    np.testing.assert_allclose(found.log_partitions, exact, atol=5 * found.standard_error)
    assert str(found).startswith("bridge sampling: log Z is about")


def laws(betas: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Levels of log p, their probabilities at each beta, and log Z(beta), of nine cells that sum to log p."""
    levels, counts = np.arange(10.0), np.array([1, 9, 36, 84, 126, 126, 84, 36, 9, 1])
    weights = counts * np.exp(betas[:, None] * levels)
    return levels, weights / weights.sum(axis=1, keepdims=True), np.log(weights.sum(axis=1))


@pytest.mark.slow  # statistical
@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")  # One run in some thousand drifts by chance.
@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_standard_errors_cover(correlation: float) -> None:
    """Draws of the exact law of log p at each beta, and chains that repeat their last draw with a known probability."""
    betas, rng, chains, draws, runs = np.linspace(0, 1, 5), np.random.default_rng(7), 24, 20, 300
    levels, shares, log_z = laws(betas)
    scores = []
    for _ in range(runs):
        log_p = np.stack([rng.choice(levels, (draws, chains), p=p) for p in shares])
        for t in range(1, draws):
            log_p[:, t] = np.where(rng.random((5, chains)) < correlation, log_p[:, t - 1], log_p[:, t])
        found = joined(log_p, betas, Base(np.zeros((0, chains), int), float(log_z[0]), 0.0))
        scores.append((found.log_partition - log_z[-1]) / found.standard_error)
    # The mean of 300 scores has the error .058, their standard deviation some 5 %.
    assert abs(np.mean(scores)) < 0.25
    assert 0.88 < np.std(scores) < 1.16


def test_a_count_of_possible_starts_adds_its_variance() -> None:
    betas, rng = np.linspace(0, 1, 5), np.random.default_rng(0)
    levels, shares, log_z = laws(betas)
    log_p = np.stack([rng.choice(levels, (20, 24), p=p) for p in shares])
    none = np.zeros((0, 24), int)
    sure, unsure = (joined(log_p, betas, Base(none, float(log_z[0]), v)).standard_error for v in (0.0, 0.01))
    assert unsure**2 == pytest.approx(sure**2 + 0.01)


def test_betas_without_overlap_are_said() -> None:
    model = gm.parse(RING).model()
    with pytest.warns(gm.SamplingWarning, match="hardly overlaps"):
        found = model.bridge_log_partition({"J": 6.0}, betas=1)
    assert found.overlaps.min() < 0.1
    assert "hardly overlaps" in repr(found)


@pytest.mark.slow  # a sampler of its own to compile
def test_chains_that_lag_behind_are_said() -> None:
    """The sampler hardly ever moves eleven of twelve cells: log p stays near that of the uniform start."""
    model = gm.parse(RING).model()
    with pytest.warns(gm.SamplingWarning, match="not at equilibrium"):
        found = model.bridge_log_partition({"J": 1.5}, "slow", betas=8, draws=20, warmup=0, chains=64)
    assert found.drift > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"betas": [0.1, 1.0]}, "betas must run from 0 to 1"),
        ({"draws": 1}, "draws"),
        ({"chains": 1}, "chains"),
        ({"seed": -1}, "seed"),
    ],
)
def test_options_are_verified(options: dict[str, object], message: str) -> None:
    with pytest.raises(gm.GmlmError, match=message):
        gm.parse(RING).model().bridge_log_partition({"J": 0.1}, **options)  # pyright: ignore[reportArgumentType]
