"""Posteriors of one model from data sets of as many rows share their programs, however many rows of them are alike."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from events import programs, traced_or_compiled

import gmlmdsl as gm
from gmlmdsl.derive import room_for
from gmlmdsl.fit import Evidence
from gmlmdsl.posterior._likelihood import likelihood_of_rows

LEVELS = """
graph G = complete(3)
model levels {
  var x[i in G.nodes] : range(3)
  param u[i in G.nodes, c in range(3)] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor u[i, x[i]] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""


def rows(seed: int, first: float) -> np.ndarray:
    """A hundred rows, of which more are alike where the first value has a large probability."""
    p = [first, (1 - first) / 2, (1 - first) / 2]
    return np.random.default_rng(seed).choice(3, (100, 3), p=p)


def shapes(fit: Any) -> Any:
    evidence: Evidence = fit.evidence
    likelihood = likelihood_of_rows(evidence, fit.params).of_any_rows
    return jax.tree.map(np.shape, jax.tree.leaves(likelihood)), jax.tree.structure(likelihood)


@pytest.mark.usefixtures("standard_promotion")
def test_what_is_compiled_for_depends_on_the_number_of_rows_alone() -> None:
    model = gm.parse(LEVELS).model()
    few, many = (model.fit(rows(0, first), progress=False) for first in (0.8, 0.3))
    distinct = [len(np.unique(rows(0, first), axis=0)) for first in (0.8, 0.3)]
    assert room_for(distinct[0]) != room_for(distinct[1])
    assert shapes(few) == shapes(many)


@pytest.mark.usefixtures("float64", "standard_promotion")
@pytest.mark.slow
def test_rows_that_fill_up_count_nothing() -> None:
    model = gm.parse(LEVELS).model()
    x = rows(1, 0.5)
    fit = model.fit(x, progress=False)
    found = likelihood_of_rows(fit.evidence, fit.params)
    expected = -3 * len(x) * float(model.loss(fit.params, x))
    np.testing.assert_allclose(float(found({k: np.asarray(v) for k, v in fit.params.items()})), expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("calibrate", ["curvature", "open_faced", None])
@pytest.mark.usefixtures("standard_promotion")
def test_a_second_posterior_compiles_nothing(calibrate: str | None) -> None:
    model, counts = gm.parse(LEVELS).model(), []
    for seed, first in ((0, 0.3), (1, 0.7), (2, 0.4)):
        fit = model.fit(rows(seed, first), progress=False)
        fit.summary()
        with traced_or_compiled() as events:
            fit.posterior(100, 2, calibrate, warmup=100, seed=seed)
        counts.append(programs(events))
    assert counts[0] <= 12
    assert counts[1:] == [0, 0]


POOLED = LEVELS.replace(
    "param J[(i, j) in G.edges] ~ normal(0, 1)", "param tau ~ half_normal(1)\n  param J[(i, j) in G.edges] ~ normal(0, tau)"
)


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_a_second_posterior_of_a_hierarchical_prior_compiles_nothing() -> None:
    model, counts = gm.parse(POOLED).model(), []
    for seed, first in ((0, 0.3), (1, 0.7)):
        with traced_or_compiled() as events:
            model.posterior(rows(seed, first), "one", draws=100, chains=2, warmup=100, seed=seed)
        counts.append(programs(events))
    assert counts[1] == 0 < counts[0]
