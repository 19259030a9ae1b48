"""Chains too large for a matrix are operators: they give what the matrix gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import theory
from gmlmdsl.theory import _block_dynamics, _chains

TEXT = """
graph G = chain(4)
model m {
  var x[i in G.nodes] : spin
  var k : range(3)
  latent y : bit
  var w : labels("a", "b")
  factor 0.6 * x[i] * x[j] for (i, j) in G.edges
  factor 0.4 * (k - 1) * x[0] + 0.3 * y * x[3] * k
  factor if w == "a" then 0.5 * x[1] else 0.2 * y
  require not (k == 2 and x[0] == -1)
}
mask single = subsets(size = 1)
mask pairs = subsets(size = 2)
mask alike given x { choose {x[i], x[j]} for (i, j) in G.edges weight exp(0.4 * x[i] * x[j])  choose {k} weight 1  choose {w} weight 0.5 }
mask some = bernoulli(rate = 0.3)
sampler sweep { update x[i] for i in G.nodes  update {k, y}  update w }
sampler drawn { repeat 2 { update K where K ~ pairs }  mixture { 2 : update y  1 : cycle { update w  update k } } }
sampler adaptive { update K where K ~ alike  update y }
"""
MASKS = ("single", "pairs", "alike", "some")
SAMPLERS = ("sweep", "drawn", "adaptive")
START = {"x": [1, 1, -1, 1], "k": 0, "w": "b"}
WHOLE = {**START, "y": 1}


def target(x: dict[str, np.ndarray]) -> np.ndarray:
    return (x["x"] == -1).all(axis=1) & (x["k"] == 1)


@pytest.fixture(scope="module")
def model() -> gm.Model:
    return gm.parse(TEXT).model()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From when it is called, no chain is small enough for a matrix."""

    def now() -> None:
        monkeypatch.setattr(_chains, "MOST_DENSE", 1)
        monkeypatch.setattr(_block_dynamics, "MOST_DENSE", 1)

    return now


@pytest.mark.parametrize("mask", MASKS)
def test_masks(model: gm.Model, large: Callable[[], None], mask: str) -> None:
    def found() -> list[float]:
        return [
            theory.poincare_constant(model, {}, mask),
            theory.hitting_time(model, {}, target, mask=mask, start=START),
            theory.mixing_time(model, {}, mask=mask, start=START, tv=0.05),
            *theory.total_variation(model, {}, mask=mask, start=START, steps=5),
            *theory.hitting_tail(model, {}, target, START, mask=mask, steps=5),
        ]

    dense = found()
    large()
    np.testing.assert_allclose(found(), dense, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", thinned(SAMPLERS, 3))
def test_samplers(model: gm.Model, large: Callable[[], None], sampler: str) -> None:
    def found() -> list[float]:
        return [
            theory.spectral_gap(model, {}, sampler),
            theory.hitting_time(model, {}, target, sampler, start=WHOLE),
            theory.mixing_time(model, {}, sampler, start=WHOLE, tv=0.05),
            *theory.total_variation(model, {}, sampler, start=WHOLE, steps=5),
            *theory.hitting_tail(model, {}, target, WHOLE, sampler, steps=5),
            *theory.stationary_law(model, {}, sampler)[:9],
        ]

    dense = found()
    large()
    np.testing.assert_allclose(found(), dense, rtol=1e-8)


def test_what_needs_a_matrix_is_refused_with_the_number(model: gm.Model, large: Callable[[], None]) -> None:
    large()
    with pytest.raises(gm.GmlmError, match=r"mixing time from the worst start needs the matrix of \d+ configurations"):
        theory.mixing_time(model, {}, mask="single")
    with pytest.raises(gm.GmlmError, match="name a start"):
        theory.total_variation(model, {}, "sweep", steps=3)


def test_models_beyond_every_list_are_refused_before_they_start() -> None:
    huge = gm.parse("model m { var x[i in range(40)] : bit }\nmask one = subsets(size = 1)\nsampler s { update x }").model()
    for call in (theory.poincare_constant, theory.fisher_information, theory.product_gap, theory.entropy_tensorization):
        with pytest.raises(gm.GmlmError, match=r"40 cells have 1.1e\+12, more than the limit of 65,536") as caught:
            call(huge, {})
        assert caught.value.codes == ("E601",)
