"""Intervals of posteriors over many data sets: how often they hold the truth, and simulation-based calibration of the likelihood's.

PYTHONPATH=. python tests/nightly/test_posterior_coverage.py [coverage] [draws] [ranks]

The ring of the issue that asked for it: six spins, one field h = 0.1, one coupling J = 0.4, priors normal(0, 10), masks of one cell, all
of them, 500 rows, seeds 0 to 999. Every data set is fitted and calibrated by itself; all of them run the programs that the first compiled.
Their posteriors have two parameters, so intervals are by quadrature of what is drawn from, of all data sets in one program, which leaves
no Monte Carlo error but that of the data sets; draws are held to the same quadrature on some of them. Ranks are of draws.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from events import programs, traced_or_compiled

import gmlmdsl as gm
from gmlmdsl.assess import evidence_of
from gmlmdsl.posterior import Task, potential, task_of
from gmlmdsl.sample import groups_of

pytestmark = pytest.mark.usefixtures("standard_promotion", "compiled_in_full")
TRUTH = np.array([0.1, 0.4])
ROWS, DATA_SETS, PROBABILITY = 500, 1000, 0.94
RANKS, RANK_ROWS, THIN = 1000, 30, 4  # of simulation-based calibration: data sets, rows of each, steps between the draws that are ranked
BINS, DRAWS = 20, 99
DRAWN = 20  # data sets whose draws are held to quadrature
ACROSS, ALONG = np.linspace(-6, 6, 97), np.linspace(-6, 6, 17)  # in deviations: of the parameter, and of what else there is
RING = """
graph G = chain(6, wrap = true)
model ring {
  var x[i in G.nodes] : spin
  param h ~ normal(0, %s)
  param J ~ normal(0, %s)
  factor h * x[i] for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
mask whole = everything(x)
"""
STATES = np.array(list(product((-1, 1), repeat=6)))
SUMS = np.stack([STATES.sum(axis=1), (STATES * np.roll(STATES, 1, axis=1)).sum(axis=1)], axis=1)


@cache
def ring(sd: float) -> Any:
    return gm.parse(RING % (sd, sd)).model()


def drawn_rows(params: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a ring with their weights: all configurations come first with weight 0, so that data sets have one shape."""
    weight = np.exp(SUMS @ params)
    chosen = rng.choice(64, n, p=weight / weight.sum())
    return STATES[np.append(np.arange(64), chosen)], np.append(np.zeros(64), np.ones(n))


def draws_of(idata: Any) -> np.ndarray:
    """Of h and J, shape (chains, draws, 2)."""
    found = groups_of(idata)["posterior"]
    return np.stack([found["h"].values, found["J"].values], axis=-1)


@dataclass(frozen=True)
class Coverage:
    """Of one way to calibrate: the share of data sets whose intervals hold the truth, and sd sqrt(n) of the posteriors, both by parameter."""

    calibrate: str | None
    coverage: np.ndarray
    width: np.ndarray
    data_sets: int

    def __str__(self) -> str:
        error = np.sqrt(self.coverage * (1 - self.coverage) / self.data_sets)
        cells = [f"{c:.3f} ± {e:.3f} | {w:.4f}" for c, e, w in zip(self.coverage, error, self.width, strict=True)]
        return f"| {self.calibrate or 'not calibrated'} | {' | '.join(cells)} |"


@cache
def fit_of(seed: int) -> Any:
    x, weights = drawn_rows(TRUTH, ROWS, np.random.default_rng(seed))
    return ring(10.0).fit(x, "one", weights=weights)


@cache
def calibrated(seed: int) -> Task:
    """What `fit.posterior(calibrate="curvature")` draws from, of one data set."""
    fit = fit_of(seed)
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        return task_of(fit, evidence_of(fit), "curvature")


def tasks(calibrate: str | None, data_sets: int) -> list[Task]:
    """What `fit.posterior(calibrate=)` draws from, of each data set: one calibration is enough for all ways."""
    found = [calibrated(s) for s in range(data_sets)]
    if calibrate == "curvature":
        return found
    plain = [dataclasses.replace(t, target=t.likelihood) for t in found]
    if calibrate is None:
        return plain
    maps = [t.target.calibration for t in found]
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        return [
            dataclasses.replace(t, open_faced=m.inverse(jnp.asarray(t.start))) for t, m in zip(plain, maps, strict=True) if m is not None
        ]


def covariance(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """About the covariance of the draws as they come out, and the map from the target's coordinates to theirs, around the start."""
    moved = np.eye(2) if task.open_faced is None else np.asarray(task.open_faced.matrix)
    adjusted = moved if task.target.calibration is None else np.linalg.inv(np.asarray(task.target.calibration.matrix))
    return adjusted @ task.scale @ adjusted.T, moved


def directions(task: Task, parameter: int) -> np.ndarray:
    """Two steps in the target's coordinates; along the first alone the parameter of the draws moves, by one of its deviations."""
    spread, moved = covariance(task)
    order = [parameter, 1 - parameter]
    root = np.linalg.cholesky(spread[np.ix_(order, order)])[np.argsort(order)]
    return np.linalg.solve(moved, root)


def stacked(trees: list[Any]) -> tuple[Any, Any]:
    """The leaves that differ, with a leading axis, and those that do not, each in a tree with None for the others."""
    columns = list(zip(*map(jax.tree.leaves, trees), strict=True))
    alike = [all(leaf is column[0] or np.array_equal(leaf, column[0]) for leaf in column) for column in columns]
    moving = [None if same else jnp.stack(column) for column, same in zip(columns, alike, strict=True)]
    still = [column[0] if same else None for column, same in zip(columns, alike, strict=True)]
    structure = jax.tree.structure(trees[0])
    return jax.tree.unflatten(structure, moving), jax.tree.unflatten(structure, still)


def marginals(found: list[Task], parameter: int) -> np.ndarray:
    """The density of a parameter of the draws at ACROSS, in deviations of `covariance` from the start; shape (data sets, points).

    Trapezoids of what is nearly normal converge faster than any power of the step.
    """
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        moving, still = stacked([t.target for t in found])
        points = jnp.asarray(np.stack(np.meshgrid(ACROSS, ALONG, indexing="ij"), axis=-1).reshape(-1, 2))

        def one(data_set: tuple[Any, jax.Array, jax.Array]) -> jax.Array:
            target, start, steps = data_set
            log = -jax.vmap(potential(eqx.combine(target, still)))(start + points @ steps.T).reshape(len(ACROSS), -1)
            return jnp.exp(log - log.max()).sum(axis=1)

        starts, steps = jnp.stack([t.start for t in found]), jnp.stack([directions(t, parameter) for t in found])
        density = np.asarray(jax.jit(lambda x: jax.lax.map(one, x))((moving, starts, steps)))
    return density / density.sum(axis=1, keepdims=True)


def below(task: Task, density: np.ndarray, parameter: int, value: float) -> float:
    """The posterior probability that a parameter lies below a value."""
    deviation = np.sqrt(covariance(task)[0][parameter, parameter])
    sums = np.cumsum(density) - 0.5 * density
    return float(np.interp((value - task.start[parameter]) / deviation, ACROSS, sums))


def measure(calibrate: str | None, data_sets: int = DATA_SETS) -> Coverage:
    """Intervals of 94 % between quantiles of the posterior, of each data set: whether the truth is within, and how wide the posterior is."""
    found, tail = tasks(calibrate, data_sets), (1 - PROBABILITY) / 2
    covered, spread = np.zeros((data_sets, 2), bool), np.zeros((data_sets, 2))
    for parameter in range(2):
        for seed, (task, density) in enumerate(zip(found, marginals(found, parameter), strict=True)):
            covered[seed, parameter] = tail <= below(task, density, parameter, TRUTH[parameter]) <= 1 - tail
            deviation = np.sqrt(covariance(task)[0][parameter, parameter])
            spread[seed, parameter] = deviation * np.sqrt(density @ ACROSS**2 - (density @ ACROSS) ** 2)
    return Coverage(calibrate, covered.mean(axis=0), np.sqrt(ROWS) * spread.mean(axis=0), data_sets)


def shares_below(calibrate: str | None, data_sets: int = DRAWN) -> np.ndarray:
    """Of the draws of `fit.posterior` the shares below both ends of the interval by quadrature, shape (data sets, ends, parameters)."""
    found, tail = tasks(calibrate, data_sets), (1 - PROBABILITY) / 2
    ends = np.zeros((data_sets, 2, 2))
    for parameter in range(2):
        for seed, (task, density) in enumerate(zip(found, marginals(found, parameter), strict=True)):
            sums, deviation = np.cumsum(density) - 0.5 * density, np.sqrt(covariance(task)[0][parameter, parameter])
            ends[seed, :, parameter] = task.start[parameter] + deviation * np.interp([tail, 1 - tail], sums, ACROSS)
    draws = [draws_of(fit_of(s).posterior(500, 4, calibrate, s, warmup=150)).reshape(-1, 1, 2) for s in range(data_sets)]
    return np.stack([(d < e).mean(axis=0) for d, e in zip(draws, ends, strict=True)])


def ranks(data_sets: int = RANKS) -> np.ndarray:
    """Of parameters drawn from the prior among draws of the posterior of their rows, shape (data sets, 2), each 0 to 99."""
    model, found = ring(0.5), np.zeros((data_sets, 2), int)
    for seed in range(data_sets):
        rng = np.random.default_rng([seed, 1])
        truth = rng.normal(0, 0.5, 2)
        x, weights = drawn_rows(truth, RANK_ROWS, rng)
        fit = model.fit(x, "whole", weights=weights)
        draws = draws_of(fit.posterior(DRAWS * THIN, 1, seed=seed, warmup=150))[0, THIN - 1 :: THIN]
        found[seed] = (draws < truth).sum(axis=0)
    return found


def chi_square(found: np.ndarray) -> np.ndarray:
    """Of ranks against the uniform law, for each parameter, with 19 degrees of freedom."""
    counts = np.stack([np.bincount(r * BINS // (DRAWS + 1), minlength=BINS) for r in found.T])
    expected = len(found) / BINS
    return ((counts - expected) ** 2 / expected).sum(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("calibrate", ["curvature", "open_faced"])
def test_calibrated_intervals_cover(calibrate: str):
    """Nothing is compiled after the first data sets but the quadrature."""
    tasks(calibrate, 2)
    with traced_or_compiled() as compiled:
        tasks(calibrate, DATA_SETS)
    assert not programs(compiled)
    found = measure(calibrate)
    print(found)
    assert np.abs(found.coverage - PROBABILITY).max() <= 0.02
    np.testing.assert_allclose(found.width, [0.3008, 0.4803], rtol=0.03)


@pytest.mark.slow
def test_intervals_that_are_not_calibrated_are_wrong_in_both_directions():
    """By the normal law: 2 Phi(1.881 sd / Godambe) - 1, .998 of the field and .848 of the coupling; three Monte Carlo errors."""
    found = measure(None)
    print(found)
    np.testing.assert_allclose(found.coverage, [0.998, 0.848], atol=0.034)
    np.testing.assert_allclose(found.width, [0.4884, 0.3659], rtol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("calibrate", [None, "curvature", "open_faced"])
def test_draws_have_the_quantiles_of_the_quadrature(calibrate: str | None):
    """Shares below both ends over 20 data sets: within four errors of 40,000 draws of which one in two counts as independent."""
    found = shares_below(calibrate).mean(axis=0)
    tail = (1 - PROBABILITY) / 2
    error = np.sqrt(tail * (1 - tail) / (DRAWN * 2000 / 2))
    np.testing.assert_allclose(found, np.repeat([[tail], [1 - tail]], 2, axis=1), atol=4 * error)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* diverged:gmlmdsl.SamplingWarning")  # a draw of hundreds, after a short warm-up
def test_the_posterior_of_the_likelihood_passes_simulation_based_calibration():
    """Ranks are uniform: chi-square of 20 bins below its 99.95 % point, 45.97, of both parameters; nothing is compiled after the first."""
    ranks(2)
    with traced_or_compiled() as compiled:
        found = ranks()
    assert not programs(compiled)
    assert (chi_square(found) < 45.97).all(), chi_square(found)


def main() -> None:
    """Print the figures of the documentation."""
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    asked, began = sys.argv[1:] or ["coverage", "draws", "ranks"], time.process_time()
    ways = (None, "curvature", "open_faced")
    if "coverage" in asked:
        print("| calibrate | coverage of h | sd sqrt(n) | coverage of J | sd sqrt(n) |\n|---|---|---|---|---|")
        print(*map(measure, ways), sep="\n", flush=True)
    if "draws" in asked:
        for way in ways:
            print(f"{way}: share of draws below the ends, of h and J:", *shares_below(way).mean(axis=0).round(4).tolist(), flush=True)
    if "ranks" in asked:
        print(f"chi-square of {RANKS} ranks in {BINS} bins, h and J:", chi_square(ranks()))
    print(f"{time.process_time() - began:.0f} s of processor time")


if __name__ == "__main__":
    main()
