"""A mask of more than 4096 blocks, over all of which `fit` averages with `n_masks="all"`: whatever reads such a fit averages over them too."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import gmlmdsl as gm

pytestmark = [pytest.mark.usefixtures("standard_promotion"), pytest.mark.slow]
CELLS = 4500
MODEL = gm.parse(f"""
model m {{
  var x[i in range({CELLS})] : spin
  param h
  param J
  factor h * x[i] for i in range({CELLS})
  factor J * x[i] * x[i + 1] for i in range({CELLS - 1})
}}
mask one = subsets(size = 1)
""").model()
X = np.random.default_rng(0).choice([-1, 1], (12, CELLS))


@cache
def fit() -> gm.Fit:
    return MODEL.fit(X, "one", n_masks="all", progress=False)


def test_losses_scores_and_folds_average_over_all_blocks():
    at = {k: v.astype(np.float32) for k, v in fit().params.items()}
    whole = CELLS * float(MODEL.loss(at, X, "one"))
    assert fit().score(X).mean == pytest.approx(whole, rel=1e-5)
    assert fit().cross_validate(2, progress=False).training == pytest.approx(whole, rel=1e-5)
    assert fit().meta["mask_use"] == f"one: all {CELLS} masks"


def test_curvature_and_criteria_average_over_all_blocks():
    found = fit().information_criterion()
    assert found.effective_parameters == pytest.approx(2.0, abs=1.5)  # of two parameters of a pseudolikelihood, not of one block per row
    assert all(0 < float(e) < 0.05 for e in fit().standard_errors.values())
    likelihood = MODEL.to_numpyro(X, "one", n_masks="all", calibrate=None).log_likelihood(fit().params)
    assert likelihood.mean() == pytest.approx(-fit().score(X).mean, rel=1e-4)
