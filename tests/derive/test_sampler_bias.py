"""The exact bias of a sampler: total variation from p of its stationary law, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import Oracle, stationary, total_variation

import gmlmdsl as gm
from gmlmdsl._diagnostics import Source
from gmlmdsl.derive.sampler_bias import stationary_law
from gmlmdsl.program import check_source

TEXT = """\
index t = range(3)
model m {
  var x[i in t] : spin
  var k : range(3)
  param J
  param h[a in range(3)]
  factor J * x[0] * x[1] + 0.2 * x[1] * x[2]
  factor h[k] * x[0]
}
sampler naive { update x independently  update k }
sampler exact { update x[i] for i in t  update k }
sampler stays { update x }
"""
PARAMS = {"J": np.array(0.7), "h": np.array([0.1, -0.4, 0.9])}


@pytest.fixture(scope="module")
def model() -> gm.Model:
    return gm.parse(TEXT).model()


def test_the_bias_is_that_of_enumeration(model: gm.Model) -> None:
    oracle = Oracle(check_source(Source("p.gmlm", TEXT)), None, {})
    law = stationary(oracle.transition_matrix(PARAMS, "naive"))
    expected = total_variation(law, oracle.probabilities(PARAMS))
    assert expected > 0.01
    assert model.sampler_bias(PARAMS, "naive") == pytest.approx(expected, abs=1e-9)


def test_an_exact_sampler_has_none_and_one_that_stays_no_law(model: gm.Model) -> None:
    assert model.sampler_bias(PARAMS, "exact") < 1e-12
    assert np.isnan(model.sampler_bias(PARAMS, "stays"))


def test_the_stationary_law_of_chains_with_transient_states_and_of_periodic_ones() -> None:
    chain = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    law = stationary_law(chain)
    assert law is not None
    np.testing.assert_allclose(law, [0, 0.5, 0.5], atol=1e-15)
    assert stationary_law(np.eye(2)) is None


def test_a_large_model_is_refused_with_the_figure() -> None:
    text = "model m {\n  var x[i in range(12)] : bit\n}\nsampler s { update x[i] for i in range(12) }\n"
    with pytest.raises(gm.GmlmError, match="4.1e"):
        gm.parse(text).model().sampler_bias({})
