"""Simulation-based calibration of `tests/calibration.py`: ranks under `everything` are uniform, and intervals cover."""

from __future__ import annotations

import os

import numpy as np
import pytest
from calibration import MODELS, Model, ranks_of

REPLICATIONS = 200
LEAST_P = 1e-5  # of the least of a dozen quantities of a model


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion", "compiled_in_full")
@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_posteriors_of_the_likelihood_are_calibrated(model: Model):
    """Fresh data sets every night; one compiled program serves all of them."""
    found = ranks_of(model, "whole", REPLICATIONS, int(os.environ.get("PYTHONHASHSEED", "0").replace("random", "0")))
    print(found.names, found.uniform.round(4), found.coverage, found.diverged)
    assert found.compiled <= 2  # the programs of chains that adapt their scale, where an estimate is at an edge
    assert found.uniform.min() > LEAST_P
    error = np.sqrt(0.94 * 0.06 / REPLICATIONS)
    assert found.coverage.min() > 0.94 - 4.5 * error
