"""Geweke's test (2004) of the joint distribution of parameters and cells, for every form of sampler.

Parameters have a prior on eight values. Chains start with a draw from the prior and an exact draw of the cells. Each round redraws the
parameters exactly, given the cells, by the oracle's probabilities, and then the cells by one step of the compiled sampler at the new
parameters. If the sampler has p at every parameter, and keeps nothing of the parameters before, the joint distribution stays what it was.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cases import Case
from chi_square import p_value
from one_step import KERNELS, advance, numbered

VALUES, CHAINS, ROUNDS = 8, 20_000, 6
LEAST_P, MOST_Z = 1e-5, 4.5


def at(known: Case, value: int) -> Case:
    """The same program at one of the values of its parameters."""
    moved = dataclasses.replace(known, seed=known.seed + 10 * value)
    vars(moved).update({k: v for k, v in vars(known).items() if k in ("program", "model", "oracle")})
    return moved


def probabilities(known: Case) -> np.ndarray:
    """p of every configuration at every value of the parameters, shape (VALUES, configurations)."""
    weights = np.stack([v.oracle.probabilities(v.params) for v in (at(known, v) for v in range(VALUES))])
    return weights / weights.sum(axis=1, keepdims=True)


def joint_after_rounds(known: Case, sampler: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The number of the parameters' value and of the configuration, of each chain, after ROUNDS rounds."""
    rng = np.random.default_rng([seed, 3])
    values, laws = [at(known, v) for v in range(VALUES)], probabilities(known)
    theta = rng.integers(VALUES, size=CHAINS)
    below = laws.cumsum(axis=1)
    state = np.array([np.searchsorted(below[t], u) for t, u in zip(theta, rng.random(CHAINS), strict=True)]).clip(max=laws.shape[1] - 1)
    for r in range(ROUNDS):
        given = laws[:, state] / laws[:, state].sum(axis=0)
        theta = (rng.random(CHAINS) > given.cumsum(axis=0)).sum(axis=0).clip(max=VALUES - 1)
        codes = known.oracle.states[state].T
        reached = np.stack([numbered(v, advance(v, sampler, codes, seed * 1000 + r)[1]) for v in values])
        state = reached[theta, np.arange(CHAINS)]
    return theta, state


def scores(known: Case, theta: np.ndarray, state: np.ndarray) -> np.ndarray:
    """(mean - exact mean) / its error of functionals: shares of values, cells, products with them, and log p."""
    laws = probabilities(known) / VALUES
    cells = known.oracle.states.astype(float)
    logs = np.log(np.where(laws > 0, laws, 1.0))
    tables = [np.broadcast_to((np.arange(VALUES) == v)[:, None], laws.shape) for v in range(VALUES)]
    tables += [np.broadcast_to(c, laws.shape) for c in cells.T]
    tables += [np.broadcast_to(a * b, laws.shape) for a, b in zip(cells.T, cells.T[1:], strict=False)]
    tables += [np.arange(VALUES)[:, None] * c for c in cells.T] + [logs]
    found = []
    for f in tables:
        mean = (laws * f).sum()
        error = np.sqrt(((laws * f * f).sum() - mean**2) / len(theta))
        found.append((f[theta, state].mean() - mean) / error)
    return np.array(found)


FORMS = [(k, s) for k, s in KERNELS if s != "hot"]  # the states of a ladder are of several betas: `test_one_step.py`


@pytest.mark.slow
@pytest.mark.parametrize(("known", "sampler"), FORMS, ids=[f"{k.name}-{s}" for k, s in FORMS])
def test_the_joint_distribution_stays(known: Case, sampler: str):
    theta, state = joint_after_rounds(known, sampler, seed=1)
    z = scores(known, theta, state)
    assert len(z) >= 10
    assert np.abs(z).max() < MOST_Z, z
    laws = probabilities(known).ravel() / VALUES
    assert p_value(np.bincount(theta * len(known.oracle.states) + state, minlength=len(laws)), laws) > LEAST_P
