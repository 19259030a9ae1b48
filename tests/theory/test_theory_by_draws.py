"""What is estimated from draws: covariances, a bound on the gap, and whether two samplers agree; beside exact answers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import theory

pytestmark = pytest.mark.usefixtures("standard_promotion")

TEXT = """
graph G = complete(5)
model m {
  var x[i in G.nodes] : spin
  var k : range(3)
  param J[(i, j) in G.edges]
  param a
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
  factor a * (k - 1) * x[0]
}
mask single = subsets(size = 1)
mask pairs = subsets(size = 2)
mask alike given x { choose {x[i], x[j]} for (i, j) in G.edges weight exp(0.4 * x[i] * x[j])  choose {k} weight 1 }
mask all = everything()
sampler cells { update K where K ~ single }
sampler blocks { update K where K ~ pairs }
sampler adaptive { update K where K ~ alike }
sampler sweep { update x[i] for i in G.nodes  update k }
sampler naive { update K independently where K ~ all }  # gmlm: allow W801
"""
PARAMS = {"J": np.linspace(-0.3, 0.6, 10), "a": np.array(0.5)}


@pytest.fixture(scope="module")
def model() -> gm.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.GmlmWarning)
        return gm.parse(TEXT).model()


@pytest.mark.parametrize("n_masks", [pytest.param(1, marks=pytest.mark.slow), None])
@pytest.mark.parametrize("mask", thinned(["single", "alike"], 2, 1))
@pytest.mark.slow
def test_covariances_are_the_exact_ones_within_their_errors(model: gm.Model, mask: str, n_masks: int | None) -> None:
    exact = theory.asymptotic_covariance(model, PARAMS, mask, n_masks)
    found = theory.estimated_covariance(model, PARAMS, mask, n_masks, draws=6000, seed=3)
    z = (found.value - exact) / found.error
    # 121 entries, far from independent; the errors are neither too small nor so large that all would pass.
    assert np.abs(z).max() < 5
    assert 0.3 < np.sqrt((z**2).mean()) < 2
    assert (found.error < 0.2 * np.abs(np.diag(exact)).max()).all()


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["cells", "blocks", "adaptive"])
def test_the_gap_of_block_dynamics_is_bounded_from_above(model: gm.Model, sampler: str) -> None:
    exact = theory.spectral_gap(model, PARAMS, sampler)
    found = theory.spectral_gap(model, PARAMS, sampler, draws=1500, seed=4)
    assert found.kind == "upper bound"
    assert found > exact - 4 * found.error
    assert found < 5 * exact


@pytest.mark.slow
def test_the_gap_of_another_sampler_is_an_estimate_only(model: gm.Model) -> None:
    found = theory.spectral_gap(model, PARAMS, "sweep", draws=1000)
    assert found.kind == "estimate"
    assert "for reversible chains only" in found.note


@pytest.mark.slow
def test_independent_cells_have_a_known_gap() -> None:
    # Of n independent cells, one redrawn at a time, every cell forgets with probability 1 / n a step: the bound is sharp.
    free = gm.parse(
        "model m { var x[i in range(6)] : range(3) }\nmask one = subsets(size = 1)\nsampler s { update K where K ~ one }"
    ).model()
    assert theory.spectral_gap(free, {}, "s") == pytest.approx(1 / 6)
    found = theory.spectral_gap(free, {}, "s", draws=3000, seed=1)
    assert abs(found - 1 / 6) < 5 * found.error
    assert found.error < 0.03


@pytest.mark.slow  # statistical
def test_samplers_of_one_law_agree_and_a_biased_one_does_not(model: gm.Model) -> None:
    same = theory.sampler_agreement(model, PARAMS, ["sweep", "exact"], draws=800)
    assert same.p_value > 0.01
    assert "Nothing says that they disagree" in repr(same)
    other = theory.sampler_agreement(model, PARAMS, ["naive", "exact"], draws=800)
    assert other.p_value < 1e-6
    assert "They disagree" in repr(other)
    worst = other.table.index[0]
    assert abs(other.table["z"].iloc[0]) == np.abs(other.z).max()
    # The probability that differs most is off by what the exact laws say.
    law, p = (theory.stationary_law(model, PARAMS, s) for s in ("naive", "sweep"))
    states = np.stack(np.unravel_index(np.arange(len(p)), (2,) * 5 + (3,)), axis=1)
    parts = [part.split(" = ") for part in worst.split(", ")]
    place = {f"x[{i}]": i for i in range(5)} | {"k": 5}
    code = [(place[cell], (int(v) + 1) // 2 if cell != "k" else int(v)) for cell, v in parts]
    holds = np.all([states[:, c] == v for c, v in code], axis=0)
    row = other.table.iloc[0]
    assert abs(row["naive"] - law[holds].sum()) < 5 * row["naive_error"]
    assert abs(row["exact"] - p[holds].sum()) < 5 * row["exact_error"]


def test_statistics_that_never_vary_agree_only_if_they_are_equal():
    """Without a warning of NumPy, which is an error here."""
    found = theory.Agreement(("a", "b"), ("s", "t", "u"), np.array([[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]]), np.zeros((2, 3)), 16, 10)
    np.testing.assert_array_equal(found.z, [0.0, np.inf, -np.inf])
    assert found.p_value == 0.0


def test_bad_options_are_refused(model: gm.Model) -> None:
    for call in (
        lambda: theory.spectral_gap(model, PARAMS, "cells", draws=3),
        lambda: theory.spectral_gap(model, PARAMS, mask="single", draws=1000),
        lambda: theory.sampler_agreement(model, PARAMS, ["sweep"]),
        lambda: theory.estimated_covariance(model, PARAMS, "single", 0),
        lambda: theory.estimated_covariance(model, PARAMS, "single", draws=10),
    ):
        with pytest.raises(gm.GmlmError) as caught:
            call()
        assert caught.value.codes == ("E507",)
