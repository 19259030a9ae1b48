"""Confidences of the user's own: those of the language written again in Python decode alike, and what they may not be."""

from __future__ import annotations

import pickle
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl._diagnostics import Source
from gmlmdsl.explain import explain
from gmlmdsl.program import check_source

pytestmark = [
    pytest.mark.usefixtures("float64"),
    *map(pytest.mark.filterwarnings, ("ignore::gmlmdsl.GmlmWarning", "ignore::gmlmdsl.sample.SamplingWarning")),
]
PROGRAM = """
model m {
  var   x[i in range(4)] : range(3)
  param J
  factor J * x[i] * x[i + 1] for i in range(3)
  factor if x[i] == 1 then 0.2 * i for i in range(4)
}
sampler named  = refinement(steps = 2, schedule = linear, decode = sample, confidence = NAMED)
sampler called = refinement(steps = 2, schedule = linear, decode = sample, confidence = python("own_confidence:NAMED"))
"""
PARAMS = {"J": 0.3}


def entropy(log_p):
    """1 - entropy / log q."""
    p = jnp.exp(log_p)
    return 1 + jnp.where(p > 0, p * log_p, 0.0).sum(-1) / jnp.log(log_p.shape[-1])


def margin(log_p):
    """The lead of the likeliest value."""
    best = jnp.sort(jnp.exp(log_p), axis=-1)
    return best[..., -1] - best[..., -2]


def last(log_p):
    """Confident in the last cells, whatever their distributions are."""
    return jnp.broadcast_to(jnp.arange(log_p.shape[-2], dtype=log_p.dtype), log_p.shape[:-1])


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of this file as a module that programs can name."""
    own = type(sys)("own_confidence")
    vars(own).update(entropy=entropy, margin=margin, last=last, table=lambda log_p: log_p, broken=lambda log_p: log_p.nothing, number=3)
    monkeypatch.setitem(sys.modules, "own_confidence", own)


def model_with(name: str) -> gm.Model:
    text = PROGRAM.replace('"own_confidence:NAMED"', f'"own_confidence:{name}"').replace(
        "NAMED", name if name in ("entropy", "margin") else "entropy"
    )
    return gm.parse(text, allow_python=True).model()


@pytest.mark.parametrize("name", ["entropy", "margin"])
def test_a_function_decodes_as_the_word_that_it_writes_again(name: str) -> None:
    model = model_with(name)
    named, called = (np.asarray(gm.theory.output_law(model, PARAMS, sampler=s).probabilities) for s in ("named", "called"))
    np.testing.assert_allclose(called, named, atol=1e-12)
    drawn = [np.asarray(model.sample(PARAMS, s, draws=50, chains=1, seed=0).posterior["x"]) for s in ("named", "called")]
    np.testing.assert_array_equal(*drawn)


def test_an_order_of_places_is_a_confidence_too() -> None:
    """The last two cells settle first, the first two given them: the product of two marginals, and of two conditionals."""
    model = model_with("last")
    law = np.asarray(gm.theory.output_law(model, PARAMS, sampler="called").probabilities)
    states = np.indices((3,) * 4).reshape(4, -1).T
    p = np.exp(np.asarray(model.log_prob(PARAMS, states))).reshape(law.shape)
    tail = [p.sum(axis=tuple(k for k in range(4) if k != cell)) for cell in (2, 3)]
    given = p / p.sum(axis=(0, 1), keepdims=True)
    expected = given.sum(axis=1, keepdims=True) * given.sum(axis=0, keepdims=True) * tail[0][:, None] * tail[1][None, :]
    np.testing.assert_allclose(law, expected, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("table", r"must return floats of shape \(4,\), got \(4, 3\)"),
        ("broken", "cannot be called: AttributeError"),
        ("number", "is not a function"),
        ("nowhere", "cannot be imported"),
    ],
)
def test_a_function_that_does_not_fit_is_reported_before_a_draw(name: str, words: str) -> None:
    with pytest.raises(gm.GmlmError, match=words):
        model_with(name).sample(PARAMS, "called", draws=1, chains=1)


@pytest.mark.produces("E739")
def test_code_runs_where_the_call_allows_it_alone() -> None:
    text = PROGRAM.replace("NAMED", "entropy")
    with pytest.raises(gm.GmlmError, match="sampler `called` calls the function `own_confidence:entropy`"):
        gm.parse(text).model()
    with pytest.raises(gm.GmlmError, match="E739"):
        pickle.dumps(model_with("entropy"))
    said = " ".join(explain(check_source(Source("m.gmlm", text)), model="m").split())
    assert "the confidence in a cell is `own_confidence:entropy` of log p of its values" in said


@pytest.mark.produces("E739")
def test_a_planner_of_python_is_code_too() -> None:
    text = """
network own = mlp(width = 4)
network plans = python("own_confidence:Table")
model m { var x[i in range(3)] : bit conditional x ~ own() }
sampler s = refinement(steps = 3, schedule = linear, decode = sample, planner = plans)
"""
    with pytest.raises(gm.GmlmError, match="sampler `s` plans by the class `own_confidence:Table`"):
        gm.parse(text).model()
