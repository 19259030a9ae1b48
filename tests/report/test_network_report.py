"""Reports of fits as networks: couplings, centralities, a path, a comparison of groups and substitutions, each where it is asked for."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest
from refusals import refused

import gmlmdsl as gm
from gmlmdsl.report import fit_report, plot_effects

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

LETTERS = """
domain abc = letters("abc")
graph G = complete(range(3))
model m {
  var x[i in range(3)] : abc
  param h[i in range(3), a in abc] ~ normal(0, 1)
  param J[(i, j) in G.edges, a in abc, b in abc] ~ normal(0, 1)
  factor h[i, x[i]] for i in range(3)
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""


def rows(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, (80, 3))
    x[:, 1] = np.where(rng.random(80) < 0.6, x[:, 0], x[:, 1])
    return x


@pytest.fixture(scope="module")
def made() -> Any:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # pyright: ignore[reportAttributeAccessIssue]
        fit = gm.parse(LETTERS).model().fit(rows())
        path = fit.model.fit_path(rows(), penalty=[0.3, 0.05], criterion="stability", subsamples=2, wrong=9)
        effects = fit.model.effects(fit.params, rows()[0], doubles=[("x[0]", "x[1]")])
        page = fit_report(fit, path=path, differences=fit.differences(fit.model.fit(rows(1))), effects=effects).html()
        return fit, effects, page


def captions(page: str) -> str:
    return re.sub(r"<[^>]+>", " ", page)


@pytest.mark.slow
def test_what_was_asked_of_a_network_has_a_section_each(made: Any) -> None:
    text = captions(made[2])
    for heading in ("Which couplings are there?", "Do two groups differ?", "Substitutions", "How central each cell is"):
        assert heading in text
    for caption in ("The strongest couplings", "Penalised fits", "smallest p-values", "lower log p most", "the most epistasis"):
        assert caption in text
    assert "average product correction" in text  # cells of three values have a map besides


@pytest.mark.slow
def test_tables_of_a_network_scroll(made: Any) -> None:
    assert made[2].count("<table") == len(re.findall(r'<div class="scroll"[^>]*>\s*<table', made[2]))


@pytest.mark.slow
def test_effects_are_drawn_with_their_own_names(made: Any) -> None:
    axes = plot_effects(made[1]).axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b", "c"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0", "1", "2"]
    refused("E507", lambda: plot_effects(made[1].singles), "values")


def test_what_is_none_of_these(made: Any) -> None:
    fit = made[0]
    refused("E507", lambda: fit_report(fit, path="a"), "fit_path")
    refused("E507", lambda: fit_report(fit, effects="a"), "effects")
    refused("E507", lambda: fit_report(fit, differences=fit.couplings()), "differs")
