"""Models that declare other latents, or their variables in another order, are compared under one mask: its cells are known by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

ISING = """
model ising {
  var x[i in range(3)] : bit
  param h[i in range(3)] ~ normal(0, 1)
  param J[i in range(2)] ~ normal(0, 1)
  factor h[i] * x[i] for i in range(3)
  factor J[i] * x[i] * x[i + 1] for i in range(2)
}
mask whole = everything(x)
mask single = subsets(x, size = 1)
"""
CLASSES = """
model classes {
  latent z : bit
  var x[i in range(3)] : bit
  param a ~ normal(0, 1)
  param b[i in range(3)] ~ normal(0, 1)
  param c[i in range(3)] ~ normal(0, 1)
  factor a * z
  factor b[i] * x[i] for i in range(3)
  factor c[i] * x[i] * z for i in range(3)
}
mask whole = everything(x)
mask single = subsets(x, size = 1)
"""
TWO = """
model two {
  var %s
  var %s
  param h ~ normal(0, 1)
  param J[i in range(2)] ~ normal(0, 1)
  factor h * s
  factor J[i] * x[i] * s for i in range(2)
}
mask single = subsets(size = 1)
mask of_x = subsets(x, size = 1)
"""


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    kind = rng.random((120, 1)) < 0.5
    return (rng.random((120, 3)) < np.where(kind, 0.8, 0.3)).astype(int)


def fitted(text: str, mask: str, x: Any) -> Any:
    return gm.parse(text).model().fit(x, mask, progress=False)


@pytest.mark.slow
def test_a_model_with_a_latent_is_compared_with_one_without() -> None:
    x = rows()
    scores = {"ising": fitted(ISING, "whole", x).score(x), "classes": fitted(CLASSES, "whole", x).score(x)}
    assert set(gm.compare(scores).table.index) == {"ising", "classes"}
    one, other = (scores[k].measure for k in ("ising", "classes"))
    assert one.same_law(other)
    assert one.same_rows(other)


@pytest.mark.slow
def test_what_differs_is_still_refused() -> None:
    x = rows()
    ising = fitted(ISING, "whole", x)
    for other, words in ((fitted(CLASSES, "single", x).score(x), "another mask"), (ising.score(x[::-1]), "different rows")):
        with pytest.raises(gm.GmlmError, match=words) as caught:
            gm.compare({"ising": ising.score(x), "other": other})
        assert caught.value.codes == ("E551",)


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["single", "of_x"])
def test_variables_may_be_declared_in_another_order(mask: str) -> None:
    x = rows()
    data = {"x": x[:, :2], "s": x[:, 2]}
    declared = "x[i in range(2)] : bit", "s : bit"
    scores = {k: fitted(TWO % order, mask, data).score(data) for k, order in (("one", declared), ("other", declared[::-1]))}
    np.testing.assert_allclose(scores["one"].losses, scores["other"].losses, atol=1e-7)
    assert len(gm.compare(scores).table) == 2


def test_a_loss_of_many_cells_is_over_all_masks_as_a_fit_asks_for_them() -> None:
    """5,000 cells of single ones: the mean over cells, by the formula of independent bits."""
    text = "model m { var x[i in range(5000)] : bit  param h  factor h * x[i] for i in range(5000) } mask one = subsets(size = 1)"
    x = np.random.default_rng(1).integers(0, 2, (2, 5000))
    found = float(gm.parse(text).model().loss({"h": 0.3}, x, "one"))
    np.testing.assert_allclose(found, (np.log1p(np.exp(0.3)) - 0.3 * x).mean(), rtol=1e-12)
