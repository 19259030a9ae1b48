"""What users get wrong with fitted networks: every call has a coded error, never a traceback."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from refusals import refused

import gmlmdsl as gm
from gmlmdsl import report

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

SPINS = """
graph G = complete(range(3))
model m {
  var x[i in range(3)] : spin
  param h[i in range(3)] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i] for i in range(3)
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.choice([-1, 1], (60, 3))


@pytest.fixture(scope="module")
def fit() -> Any:
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # of a module's fixture
        found = gm.parse(SPINS).model().fit(rows())
        found.couplings()
        return found


FITS = {
    "top": lambda f: f.couplings(top="a"),
    "score": lambda f: f.couplings(score=["norm"]),
    "gauge": lambda f: f.couplings(gauge="none"),
    "probability": lambda f: f.couplings(probability=94),
    "bootstrap": lambda f: f.centrality(bootstrap=3),
    "APC": lambda f: f.centrality(score="apc"),
    "fit": lambda f: f.differences("a"),
    "correction": lambda f: f.differences(f, correction=[]),
    "level": lambda f: f.differences(f, level=5),
    "permutations": lambda f: f.differences(f, permutations=1.5),
    "max_seconds": lambda f: f.differences(f, permutations=2, max_seconds="a"),
    "doubles must": lambda f: f.model.effects(f.params, rows()[0], doubles=3),
    "got 1": lambda f: f.model.effects(f.params, rows()[0], doubles=[1, 2]),
    "first": lambda f: f.model.effects(f.params, rows()[0], doubles=f.centrality()),
    "params": lambda f: f.model.effects(f, rows()[0]),
    "list of names": lambda f: f.model.fit_path(rows(), on="J"),
    "gaps": lambda f: f.model.fit_path(rows(), gaps="skip"),
    "number of a model": lambda f: f.model.fit_path(rows(), penalty=[0.5]).refit(9),
}
PICTURES = {
    "DataFrame": lambda f, _: report.plot_network(f),
    "`layout` must": lambda _, c: report.plot_network(c, layout=3),
    "lacks the node": lambda _, c: report.plot_network(c, layout={"x[0]": (0, 0)}),
    "`significant`": lambda _, c: report.plot_network(c, significant=[True]),
    "dict of numbers": lambda _, c: report.plot_network(c, fields=[1, 2]),
    "is not a node": lambda _, c: report.plot_network(c, fields={"x[7]": 1.0}),
    "`ax`": lambda _, c: report.plot_network(c, ax=3),
    "limit": lambda _, c: report.plot_network(c, limit="a"),
    "`distances`": lambda _, c: report.plot_contacts(c, distances=np.eye(2)),
    "`distances` must be numbers": lambda _, c: report.plot_contacts(c, distances="a"),
    "top": lambda _, c: report.plot_contacts(c, top=-1),
    "separation": lambda _, c: report.plot_contacts(c, separation="a"),
    "near": lambda _, c: report.plot_contacts(c, near=None),
    "`distances` are needed": lambda _, c: report.precision_by_rank(c, None),
    "`precision`": lambda *_: report.plot_precision("a"),
    "most": lambda *_: report.plot_precision(np.ones(3), most="a"),
    "`strength`": lambda _, c: report.plot_centrality(c),
    "4 axes": lambda f, _: report.plot_centrality(f.centrality(), ax=3),
    "`singles`": lambda *_: report.plot_effects(np.ones((2, 2)), ["a"], ["b"]),
    "`coupling`": lambda _, c: report.plot_stability(c),
}


@pytest.mark.parametrize("part", FITS)
def test_calls_of_fits_and_models(fit: Any, part: str) -> None:
    refused("E507", lambda: FITS[part](fit), part)


@pytest.mark.parametrize("part", PICTURES)
def test_pictures(fit: Any, part: str) -> None:
    refused("E507", lambda: PICTURES[part](fit, fit.couplings(score="value")), part)


def test_four_axes_may_be_handed_over_as_any_array(fit: Any) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2)
    assert report.plot_centrality(fit.centrality(), ax=axes) is figure
    assert all(a.get_title(loc="left") for a in axes.ravel())
    plt.close(figure)


def test_pictures_of_one_panel_are_drawn_where_they_are_told() -> None:
    from matplotlib.figure import Figure

    one = np.ones(3)
    draw = [
        lambda ax: report.plot_couplings(np.zeros((3, 2, 2)), one, ax=ax),
        lambda ax: report.plot_forest(["a"], {"u": [1.0], "v": [2.0]}, {"u": [1.0], "v": [1.0]}, ax=ax),
        lambda ax: report.plot_profile(np.arange(3.0), one, estimate=1.0, interval=(0.0, 2.0), ax=ax),
        lambda ax: report.plot_categories(["a", "b", "c"], one / 3, exact=one / 3, ax=ax),
        lambda ax: report.plot_ess_r_hat(400 * one, one, chains=4, ax=ax),
    ]
    for call in draw:
        figure = Figure()
        axes = figure.subplots()
        assert call(axes) is figure
        assert axes.has_data()


def test_pictures_of_several_panels_are_drawn_where_they_are_told() -> None:
    from matplotlib.figure import Figure

    from gmlmdsl.assess import Statistics

    images, chains, rng = np.eye(4).reshape(1, 4, 4), np.ones((2, 9)), np.random.default_rng(0)
    some = {k: Statistics("s", tuple(f"s{i}" for i in range(k)), np.ones(k), rng.normal(size=(99, k))) for k in (1, 3, 20)}
    draw: list[tuple[int, Any]] = [
        (2, lambda ax: report.plot_images(images, images, ax=ax)),
        (3, lambda ax: report.plot_traces(dict.fromkeys("abc", chains), ax=ax)),
        (1, lambda ax: report.plot_traces({"a": chains}, ax=ax)),
        (2, lambda ax: report.plot_loss(np.exp(-np.arange(9.0)), ax=ax)),
        (1, lambda ax: report.plot_predictive(some[1], ax=ax)),
        (1, lambda ax: report.plot_predictive(some[3], ax=ax)),
        (2, lambda ax: report.plot_predictive(some[20], ax=ax)),
    ]
    for count, call in draw:
        figure = Figure()
        axes = figure.subplots(1, count)
        assert call(axes) is figure
        assert len(figure.axes) == count
        assert not figure.legends
        assert all(a.has_data() for a in np.ravel(axes))
        refused("E507", lambda call=call, count=count: call(np.ravel(Figure().subplots(1, count + 1))), "axes")


def test_every_picture_takes_axes() -> None:
    import inspect

    pictures = [getattr(report, name) for name in dir(report) if name.startswith("plot_")]
    assert len(pictures) > 10
    assert [p.__name__ for p in pictures if "ax" not in inspect.signature(p).parameters] == []
