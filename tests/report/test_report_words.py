"""A report says what the fit did, not what a fit does by default."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.report import fit_report

TEXT = """
model m {
  var x[i in range(3)] : spin
  param h ~ normal(0, 1)
  factor h * x[i] * x[i + 1] for i in range(3) if i < 2
}
mask one = subsets(x, size = 1)
"""


pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.mark.parametrize(
    ("options", "said", "unsaid"),
    [
        pytest.param({"gaps": "ignore"}, "left out, with the factors that touch", "summed out", marks=pytest.mark.slow),
        pytest.param({}, "summed out", "left out", marks=pytest.mark.slow),
        ({"n_masks": 2}, "The fit averaged over masks that were drawn", "A fit averages over"),
    ],
)
def test_missing_cells_and_masks_are_told_as_the_options_had_them(options: dict[str, object], said: str, unsaid: str):
    x = np.array([[1, 1, 9], [1, -1, -1], [-1, -1, -1], [1, 1, 1]])
    fit = gm.parse(TEXT).model().fit(x, missing=9, **options)  # pyright: ignore[reportArgumentType]
    page = fit_report(fit).html()
    assert said in page and unsaid not in page
    assert jax.numpy.isfinite(fit.objective)
