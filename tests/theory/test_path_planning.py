"""Path planning beside enumeration in plain NumPy: the law of what is decoded, draws, and what has no planner."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
import pytest
from chi_square import p_value
from networks_cases import normalised, pairs, program
from oracle import _decoders as oracle
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl._diagnostics import Source
from gmlmdsl.explain import explain
from gmlmdsl.graph import bind
from gmlmdsl.program import check_source

SAMPLERS = """
network judge = python("networks_cases:Pairs", seed = 5, scale = 0.9)
model other {
  var x[i in range(4)] : range(3)
  conditional x ~ judge()
}
sampler plain  for by_net = refinement(steps = 3, decode = sample, planner = self)
sampler strict for by_net = refinement(steps = 4, decode = sample, planner = self, eta = 3)
sampler never  for by_net = refinement(steps = 3, decode = sample, planner = self, eta = 0)
sampler curved for by_net = refinement(steps = 3, schedule = cosine, decode = sample, planner = self)
sampler listed for by_net = refinement(schedule = counts([1, 1, 2]), decode = sample, planner = self, eta = 2)
sampler other1 for by_net = refinement(steps = 3, decode = sample, planner = judge)
sampler other2 for by_net = refinement(steps = 4, decode = sample, planner = judge, eta = 2.5)
sampler drawn  for by_net = refinement(steps = 3, schedule = linear, decode = sample, confidence = probability)
sampler moved  for by_net { start from other2  update x[K] where K ~ single }
"""
ONE = "model m {\n  var x[i in range(4)] : bit\n  conditional x ~ net()\n}\n"
PLANS = "sampler s = refinement(steps = 2, decode = sample, planner = judge, eta = 2.5)\n"
LEFT = {
    "plain": ([2, 1, 0], 1),
    "strict": ([3, 2, 1, 0], 3),
    "never": ([2, 1, 0], 0),
    "curved": ([3, 2, 0], 1),
    "listed": ([3, 2, 0], 2),
    "other1": ([2, 1, 0], 1),
    "other2": ([3, 2, 1, 0], 2.5),
}
JOINT = """
index t = range(4)
model m {
  var x[i in t] : range(3)
  factor if x[i] == x[i + 1] then 0.9 else 0.2 * x[i] for i in t if i < 3
  factor 0.3 * x[0]
}
sampler s = refinement(steps = 3, decode = sample, planner = self, eta = 2)
"""


@pytest.fixture(scope="module")
def model() -> Any:
    text = 'python("networks_cases:Pairs", seed = 3, scale = 0.6)'
    more = "mask single for by_net = subsets(x, size = 1)\n" + SAMPLERS
    return gm.parse(program(text, 4, 3, more), allow_python=True).model("by_net")


def params_of(model: Any) -> dict[str, Any]:
    return model.init_params() | model.program.model("other").init_params()


@pytest.mark.parametrize("sampler", LEFT)
def test_a_law_is_that_of_the_enumeration(model: Any, sampler: str):
    with jax.enable_x64(True):
        params = params_of(model)
    left, eta = LEFT[sampler]
    judge = normalised(pairs(4, 3, 5, 0.9)) if sampler.startswith("other") else None
    wanted = oracle.planned_law(normalised(pairs(4, 3, 3, 0.6)), judge, (3,) * 4, left, eta)
    found = gm.theory.output_law(model, params, sampler=sampler)
    np.testing.assert_allclose(found.probabilities, wanted, atol=1e-9)


@pytest.mark.slow
def test_without_trust_in_anything_new_it_is_the_confidence_of_what_was_drawn(model: Any):
    """`eta = 0` hides no settled cell again: the order of confidence in drawn values, one of the special cases of the paper."""
    params = params_of(model)
    never, drawn = (gm.theory.output_law(model, params, sampler=s).probabilities for s in ("never", "drawn"))
    np.testing.assert_allclose(never, drawn, atol=1e-12)
    assert np.abs(gm.theory.output_law(model, params, sampler="plain").probabilities - drawn).sum() > 1e-3


def test_a_joint_distribution_trusts_what_it_sees():
    """Given itself a settled value has probability 1: nothing is hidden again, whatever `eta`."""
    joint: Any = gm.parse(JOINT).model()
    rows = list(itertools.product(range(3), repeat=4))
    with jax.enable_x64(True):
        p = np.exp(np.asarray(joint.log_prob({}, np.array(rows)))).reshape((3,) * 4)
    wanted = oracle.planned_law(oracle.exact_denoiser(p), None, p.shape, [2, 1, 0], 2)
    np.testing.assert_allclose(gm.theory.output_law(joint, {}, sampler="s").probabilities, wanted, atol=1e-9)


@pytest.mark.parametrize("sampler", thinned(["strict", "other2", "moved"], 3))
def test_draws_have_the_law(model: Any, sampler: str):
    params = params_of(model)
    law = gm.theory.output_law(model, params, sampler=sampler).probabilities
    found = np.asarray(model.sample(params, sampler, draws=5000, chains=4, seed=11, progress=False).posterior["x"]).reshape(20000, 4)
    numbers = np.ravel_multi_index(tuple(found.T), law.shape)
    assert p_value(np.bincount(numbers, minlength=law.size), law.ravel()) > 1e-4


def test_weights_of_a_planner_are_asked_for_where_it_plans(model: Any):
    own, every = model.init_params(), params_of(model)
    x = np.zeros((2, 4), int)
    assert model.loss(own, x, mask="single") == model.loss(every, x, mask="single")
    model.sample(own, "plain", draws=2, chains=1, progress=False)
    with pytest.raises(gm.GmlmError, match=r"plans this decode, and the parameters lack it") as error:
        model.sample(own, "other1", draws=2, chains=1, progress=False)
    assert "E509" in str(error.value)
    with pytest.raises(gm.GmlmError, match="other paths|many paths"):
        model.log_prob_bound(own, x, sampler="plain")


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("refinement(planner = self, remask = random)", "E325"),
        ("refinement(planner = self, schedule = all)", "E325"),
        ("refinement(planner = self, order = random)", "E325"),
        ("refinement(planner = self, block = 2)", "E325"),
        ("refinement(planner = self, start = uniform)", "E325"),
        ("random_order(planner = self)", "E325"),
        ("refinement(steps = 2, remask = random, eta = 2)", "E319"),
        ("refinement(planner = selves)", "E303"),
    ],
)
def test_what_leaves_a_planner_nothing_to_say(call: str, code: str):
    text = f"network net = mlp(layers = 1)\n{ONE}sampler s = {call}\n"
    with pytest.raises(gm.GmlmError) as error:
        gm.parse(text)
    assert code in str(error.value)


def test_explain_says_what_a_planner_does():
    text = "network judge = mlp(layers = 1)\nnetwork net = mlp(layers = 1)\n" + ONE + PLANS
    program = check_source(Source("m.gmlm", text))
    said = explain(program, bind(program, {}), model="m")
    assert "by network `judge`, which sees the whole row, to the power of 2.5" in " ".join(said.split())
