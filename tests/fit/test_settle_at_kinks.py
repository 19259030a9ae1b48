"""Minimisation at points where the prior has no derivative, if the curvature there is no number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.assess._scored_rows import rows_under
from gmlmdsl.fit._inference import curvature
from gmlmdsl.fit._kinks import settle
from gmlmdsl.fit._optimise import Outcome

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")
TEXT = """
model m {
  var x[i in range(2)] : spin
  param J ~ laplace(0, 0.1)
  factor J * x[0] * x[1]
}
mask one = subsets(x, size = 1)
"""


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_curvature_that_is_no_number_ends_the_minimisation(number: float):
    fit = gm.parse(TEXT).model().fit(np.array([[1, 1], [1, -1], [-1, -1], [1, 1]]), mask="one")
    objective = rows_under(fit.evidence, fit.params).objective
    free = objective.frame.unconstrain(objective.frame.constrain({"J": np.zeros(())}, objective.held))
    outcome = Outcome(free, np.zeros(1), 1.0, 1, "stalled")
    found = settle(objective, outcome, lambda params: replace(curvature(objective, params, None), hessian=np.full((1, 1), number)), None)
    assert found is outcome
