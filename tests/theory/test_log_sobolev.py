"""Log-Sobolev constants against closed forms, random distributions and decay; divergences of chains against their matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
import scipy.linalg
from cases import Case
from theory_cases import close, ising, mixed, potts
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import theory
from gmlmdsl.theory._block_dynamics import dynamics_of
from gmlmdsl.theory._entropy import _objective

Array = np.ndarray
MASKS = [(ising, "k2"), (ising, "seeing"), (potts, "two"), (mixed, "rest")]
BIT = "input p : real\nmodel m { var x : bit  x ~ bernoulli(p) }\nmask all = everything(x)\n"
CUBE = "model m { var x[i in range(4)] : bit  factor 0.0 * x[0] }\nmask one = subsets(x, size = 1)\n"


def constant(model: Any, params: Any, mask: str | None = None, **options: Any) -> theory.Quantity:
    return theory.log_sobolev_constant(model, params, mask, **options)


@pytest.mark.parametrize("p", [0.3, 0.05])
def test_a_bit_has_the_constant_of_diaconis_and_saloff_coste(p: float) -> None:
    """Corollary A.4: log(1 / p - 1) / (1 - 2 p) for the smaller probability p, if a step draws from the distribution itself."""
    model = gm.parse(BIT, p=p).model()
    close(constant(model, {}), np.log(1 / p - 1) / (1 - 2 * p), 1e-7)
    r = np.linspace(1e-6, 1 - 1e-6, 20_001)
    there = r * np.log(r / p) + (1 - r) * np.log((1 - r) / (1 - p))
    back = p * np.log(p / r) + (1 - p) * np.log((1 - p) / (1 - r))
    far = there > 1e-6  # the form is the sum of both divergences
    close(constant(model, {}, modified=True), (there[far] / (there[far] + back[far])).max(), 1e-6)


def test_fair_bits_have_their_limits() -> None:
    """Of n fair bits, one redrawn at a step: 2 n and n / 2, which are 2 and 1/2 times the Poincare constant n."""
    model = gm.parse(CUBE).model()
    close(constant(model, {}), 8, 1e-6)
    close(constant(model, {}, modified=True), 2, 1e-6)
    assert "limit at p" in constant(model, {}).note


def law_of(c: Case, mask: str) -> tuple[Array, Array]:
    """The matrix of a mask's chain on the possible configurations, and p there."""
    return oracle.block_dynamics(c.oracle, c.params, mask), oracle.visible(c.oracle, c.params).p


@pytest.mark.parametrize(("c", "mask"), thinned(MASKS, 2), ids=str)
def test_no_distribution_does_worse_and_the_constants_are_in_order(c: Case, mask: str) -> None:
    matrix, p = law_of(c, mask)
    found, modified = constant(c.model, c.params, mask), constant(c.model, c.params, mask, modified=True)
    rng, worst = np.random.default_rng(0), [0.0, 0.0]
    for size in np.repeat([0.1, 1.0, 5.0], 200):
        f = np.exp(size * rng.normal(size=len(p)))
        f /= p @ f
        kl = p @ (f * np.log(f))
        forms = [p @ (a * (b - matrix @ b)) for a, b in ((np.sqrt(f), np.sqrt(f)), (f, np.log(f)))]
        worst = [max(w, kl / form) for w, form in zip(worst, forms, strict=True)]
    assert worst[0] <= found * (1 + 1e-9)
    assert worst[1] <= modified * (1 + 1e-9)
    poincare, tensorization = (q(c.model, c.params, mask) for q in (theory.poincare_constant, theory.entropy_tensorization))
    assert found >= 2 * poincare * (1 - 1e-9)
    assert modified >= poincare / 2 * (1 - 1e-9)
    assert 4 * modified <= found * (1 + 1e-6)
    assert modified <= tensorization * (1 + 1e-6) <= found * (1 + 2e-6)


@pytest.mark.parametrize("modified", [False, True])
def test_the_gradient_is_that_of_differences(modified: bool) -> None:
    dynamics = dynamics_of(potts.model, potts.params, "two", "a test", None)[1]
    objective = _objective(dynamics, modified, 1.0)
    g, way = np.random.default_rng(1).normal(size=(2, dynamics.space.count))
    close((objective(g + 1e-5 * way)[0] - objective(g - 1e-5 * way)[0]) / 2e-5, objective(g)[1] @ way, 1e-5)


def test_kl_decays_in_continuous_time_by_the_modified_constant() -> None:
    matrix, p = law_of(ising, "k2")
    rate = 1 / constant(ising.model, ising.params, "k2", modified=True)
    for start in np.eye(len(p))[:3]:
        before = np.inf
        for t in (0.5, 1.0, 3.0):
            now = start @ scipy.linalg.expm(t * (matrix - np.eye(len(p))))
            kl = now @ np.log(now / p)
            assert kl <= np.exp(-rate * t) * -np.log(p[start.argmax()]) * (1 + 1e-9)
            assert kl < before
            before = kl


def test_a_chain_in_parts_has_no_constant() -> None:
    text = "model m { var x[i in range(2)] : bit  require x[0] == x[1] }\nmask one = subsets(x, size = 1)\n"
    model = gm.parse(text).model()
    assert constant(model, {}) == np.inf
    assert constant(model, {}, modified=True) == np.inf


def test_a_search_over_too_many_configurations_is_refused() -> None:
    model = gm.parse(CUBE.replace("range(4)", "range(13)")).model()
    with pytest.raises(gm.GmlmError, match="E601.*log-Sobolev constant searches over distributions on 8,192"):
        constant(model, {})


# Divergences after steps

MEASURED = {
    "chi_square": lambda q, p: ((q - p) ** 2 / p).sum(),
    "kl": lambda q, p: (q[q > 0] * np.log(q[q > 0] / p[q > 0])).sum(),
}


@pytest.mark.parametrize("measure", MEASURED)
@pytest.mark.parametrize(("c", "mask"), thinned(MASKS, 2), ids=str)
def test_divergences_are_those_of_the_matrix_and_fall_as_the_constants_say(c: Case, mask: str, measure: str) -> None:
    matrix, p = law_of(c, mask)
    found = theory.divergence(c.model, c.params, mask=mask, steps=6, measure=measure)
    expected, rows = [], np.eye(len(p))
    for _ in range(7):
        expected.append(max(MEASURED[measure](row, p) for row in rows))
        rows = rows @ matrix
    close(found, expected, 1e-8)
    share = (1 - 1 / theory.poincare_constant(c.model, c.params, mask)) ** 2
    share = 1 - 1 / theory.entropy_tensorization(c.model, c.params, mask) if measure == "kl" else share
    assert (found[1:] <= share * found[:-1] + 1e-12).all()


def test_divergences_from_one_start_and_of_a_sampler() -> None:
    start = np.ones(ising.model.graph.n_cells, int)
    model: Any = ising.model
    of_each: list[dict[str, Any]] = [{"mask": "k2"}, {"sampler": ising.model.samplers[0]}]
    for options in of_each:
        chi, kl = (theory.divergence(model, ising.params, steps=5, start=start, measure=m, **options) for m in ("chi_square", "kl"))
        tv = theory.total_variation(model, ising.params, steps=5, start=start, **options)
        worst = theory.divergence(model, ising.params, steps=5, **options)
        assert (chi <= worst + 1e-12).all()
        assert (2 * tv**2 <= kl + 1e-12).all()  # Pinsker
        assert (kl <= np.log1p(chi) + 1e-12).all()


@pytest.mark.parametrize("options", [{"measure": "tv"}, {"steps": -1}, {"steps": 1.5}])
def test_what_is_no_divergence_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(gm.GmlmError, match="E507"):
        theory.divergence(ising.model, ising.params, mask="k2", **options)
