"""`starts=` of a fit: the lowest of several minima, how many starts reach it, and the same minimum with the values of a latent exchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refused

import gmlmdsl as gm
from gmlmdsl.evaluate import init_params
from gmlmdsl.fit import _fit

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

KINDS = """
model m {
  latent kind : range(3)
  var x[i in range(5)] : bit
  param share[k in range(3)] ~ normal(0, 1)
  param b[k in range(3), i in range(5)] ~ normal(0, 2)
  factor share[kind]
  factor b[kind, i] * x[i] for i in range(5)
}
mask whole = everything(x)
mask one = subsets(x, size = 1)
"""
PLAIN = """
model m {
  var x[i in range(3)] : bit
  param h[i in range(3)] ~ normal(0, 1)
  factor h[i] * x[i] for i in range(3)
}
mask one = subsets(x, size = 1)
"""
CURVED = """
model m {
  var x : bit
  param t ~ normal(0, 1)
  factor (t^3 - 3 * t) * x
}
mask one = subsets(x, size = 1)
"""


def rows(n: int = 120) -> np.ndarray:
    rng = np.random.default_rng(6)
    chance = np.array([[0.9, 0.9, 0.1, 0.1, 0.5], [0.1, 0.9, 0.9, 0.1, 0.2], [0.1, 0.1, 0.9, 0.9, 0.9]])
    return (rng.random((n, 5)) < chance[rng.integers(0, 3, n)]).astype(int)


@pytest.fixture(scope="module")
def model() -> Any:
    return gm.parse(KINDS).model()


@pytest.mark.slow  # six fits beside one of six starts; `test_long_fits.py` has starts too
def test_the_best_of_several_starts_is_kept(model: Any, tmp_path: Any) -> None:
    x = np.random.default_rng(0).integers(0, 2, (40, 5))  # no kinds
    fit = model.fit(x, "whole", starts=6, seed=3)
    each = []
    for k in range(6):
        init = {} if k == 0 else {"init": init_params(model.graph, 3, 1.0, k)}
        each.append(model.fit(x, "whole", seed=3, **init))
    ends = np.array([f.objective for f in each])
    best = int(ends.argmin())
    np.testing.assert_allclose(fit.starts.objectives, ends, rtol=1e-9)
    assert fit.objective == pytest.approx(ends.min(), rel=1e-12)
    for name, value in each[best].params.items():
        np.testing.assert_allclose(fit.params[name], value, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(fit.covariance, each[best].covariance, rtol=1e-5, atol=1e-8)
    agree = ends <= ends.min() + 0.01
    assert fit.starts.agree == agree.sum()
    other = [np.abs(f.flat(f.params) - fit.flat(fit.params)).max() > 0.2 for f in each]
    assert fit.starts.switched == (agree & other).sum()
    assert f"{agree.sum()} of 6 starts reach the lowest objective" in str(fit)
    fit.save(tmp_path / "a.fit")
    again = gm.load_fit(tmp_path / "a.fit")
    assert again.starts == fit.starts
    assert fit.starts.words in str(again)


def test_starts_that_end_elsewhere_are_counted() -> None:
    """t^3 - 3 t = 1 has three roots, of which the prior prefers that next to 0."""
    curved = gm.parse(CURVED).model()
    x = np.repeat([0, 1], [100, 272])  # odds e
    fit = curved.fit(x, "one", starts=12, seed=1, init=None)
    t = float(fit.params["t"])
    assert t == pytest.approx(-0.347, abs=0.01)  # 2 cos(4 pi / 9)
    roots = 2 * np.cos(np.pi / 9 * np.array([1, 5, 7]))
    heights = roots**2 / 2 - (roots**2 / 2).min()
    above = np.array(fit.starts.objectives) - fit.objective
    nearest = heights[np.abs(above[:, None] - heights).argmin(axis=1)]
    np.testing.assert_allclose(above, nearest, atol=0.05)
    assert 0 < fit.starts.agree == (above < 0.01).sum() < 12
    assert f"{fit.starts.agree} of 12 starts" in str(fit)
    assert f"up to {above.max():.3g} above it" in str(fit)
    alone = curved.fit(x, "one", starts=2, init={"t": roots[0]})  # both start next to another minimum
    assert alone.objective > fit.objective + 0.5


@pytest.mark.slow
def test_exchanged_values_of_a_latent_are_told(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts at one optimum with its kinds in three orders: the same objective, and other parameters."""
    found = model.fit(rows(), "whole", seed=3).params
    orders = {1: [1, 0, 2], 2: [2, 0, 1], 3: [1, 0, 2]}
    usual = _fit.init_params
    starts = {0: {}} | {k: {name: v[order] for name, v in found.items()} for k, order in orders.items()}
    monkeypatch.setattr(_fit, "init_params", lambda *a: starts[a[3]] if len(a) > 3 else usual(*a))
    fit = model.fit(rows(), "whole", starts=4, seed=3)
    assert fit.starts.agree == 4  # the first ends at the optimum itself
    best = next(k for k in range(4) if fit.starts.objectives[k] == fit.objective)
    mine = orders.get(best, [0, 1, 2])
    assert fit.starts.switched == sum(orders.get(k, [0, 1, 2]) != mine for k in range(4))
    assert "with other parameters, as a rule with the values of a latent exchanged (label switching)" in str(fit)


@pytest.mark.slow
def test_values_of_init_are_those_of_every_start(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    usual = _fit.fit_model
    monkeypatch.setattr(_fit, "fit_model", lambda *a: seen.append(a[3].init) or usual(*a))
    share = np.array([0.1, 0.2, 0.3])
    model.fit(rows(), "one", starts=3, init={"share": share}, max_steps=2)
    assert seen[0] == {"share": share}
    assert all((s["share"] == share).all() and s["b"].std() > 0.5 for s in seen[1:])
    assert not np.array_equal(seen[1]["b"], seen[2]["b"])


def test_one_start_tells_nothing_and_convex_fits_agree(model: Any) -> None:
    assert model.fit(rows(), "whole", max_steps=2).starts is None
    plain = gm.parse(PLAIN).model()
    fit = plain.fit(rows()[:, :3], starts=3)
    assert (fit.starts.agree, fit.starts.switched) == (3, 0)
    assert "label" not in str(fit)


def test_starts_that_cannot_be_compared(model: Any) -> None:
    refused("E507", lambda: model.fit(rows(), "whole", starts=0), "starts")
    refused("E507", lambda: model.fit(rows(), "whole", starts="a"), "starts")
    refused("E507", lambda: model.fit(rows(), "one", starts=2, method=gm.MonteCarloEM()), "starts=", "fit.score")
