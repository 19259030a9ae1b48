"""Parameters are finite, and a factor that they make nan or +inf is named; under tracing the answer is nan."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, Case

import gmlmdsl as gm
from gmlmdsl.graph import is_positive

TEXT = """\
model m {{
  var x[i in range(2)] : range(4)
  param h
  factor {} for i in range(2)
  factor 0.1 * x[0] * x[1]
}}
mask one = subsets(x, size = 1)
sampler g {{ update x[i] for i in range(2) }}
"""
ROWS = np.array([[0, 1], [2, 3]])
VERBS: dict[str, Callable[[gm.Model, dict], object]] = {
    "log_potential": lambda m, p: m.log_potential(p, ROWS),
    "log_partition": lambda m, p: m.log_partition(p),
    "log_prob": lambda m, p: m.log_prob(p, ROWS),
    "log_conditional": lambda m, p: m.log_conditional(p, ROWS, K=(0,)),
    "loss": lambda m, p: m.loss(p, ROWS, "one"),
    "transition_matrix": lambda m, p: m.transition_matrix(p, "g"),
    "sampler_bias": lambda m, p: m.sampler_bias(p, "g"),
    "marginals": lambda m, p: m.marginals(p),
    "map": lambda m, p: m.map(p),
    "sample": lambda m, p: m.sample(p, "g", draws=2, chains=1),
    "exact draws": lambda m, p: m.sample(p, "exact", draws=2, chains=1),
    "bridge": lambda m, p: m.bridge_log_partition(p, "g"),
    "annealing": lambda m, p: m.annealed_log_partition(p, "g"),
    "fit": lambda m, p: m.fit(ROWS, "one", init=p),
    "fit fixed": lambda m, p: m.fit(ROWS, "one", fixed=p),
    "fisher_information": lambda m, p: gm.theory.fisher_information(m, p),
    "asymptotic_covariance": lambda m, p: gm.theory.asymptotic_covariance(m, p, mask="one"),
    "poincare_constant": lambda m, p: gm.theory.poincare_constant(m, p, mask="one"),
    "spectral_gap": lambda m, p: gm.theory.spectral_gap(m, p, sampler="g"),
    "mixing_time": lambda m, p: gm.theory.mixing_time(m, p, sampler="g"),
    "entropy_tensorization": lambda m, p: gm.theory.entropy_tensorization(m, p, mask="one"),
    "product_gap": lambda m, p: gm.theory.product_gap(m, p, mask="one"),
    "compare_masks": lambda m, p: gm.theory.compare_masks(m, p, masks=["one"]),
}
LINEAR = gm.parse(TEXT.format("h * x[i]")).model()
EXPONENTIAL = gm.parse(TEXT.format("exp(h * x[i])")).model()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_asks_for_finite_parameters(verb: str) -> None:
    for value in (np.inf, -np.inf, np.nan):
        with pytest.raises(gm.GmlmError) as caught:
            VERBS[verb](LINEAR, {"h": value})
        assert set(caught.value.codes) <= {"E504", "E509"}


@pytest.mark.parametrize("verb", [v for v in VERBS if v != "fit fixed"])
def test_every_verb_names_a_factor_that_is_infinite(verb: str) -> None:
    with pytest.raises(gm.GmlmError) as caught:
        VERBS[verb](EXPONENTIAL, {"h": 1000.0})
    (found,) = caught.value.diagnostics
    assert found.code == "E514"
    assert found.message == "at these parameters this factor is +inf where `x[0]` is 1"
    assert found.span is not None and found.span.text == "exp(h * x[i])"


FACTORS = {
    "log(h) * x[i]": (-1.0, "not a number where `x[0]` is 0"),
    "x[i] / h": (0.0, "not a number where `x[0]` is 0"),
    "1 / h + x[i]": (0.0, "+inf where `x[0]` is 0"),
    "sqrt(h) + x[i]": (-4.0, "not a number where `x[0]` is 0"),
    "h ^ x[i] * 1e30": (1e9, "+inf where `x[0]` is 1"),
    "-log(h - x[i])": (2.0, "not a number where `x[0]` is 3"),
    "3e38 * h * x[i]": (1.0, "+inf where `x[0]` is 2"),
    "x[i] // h": (0.0, "not a number where `x[0]` is 0"),
    "sum(exp(h * (x[i] - j)) for j in range(2))": (90.0, "+inf where `x[0]` is 1"),
}


@pytest.mark.usefixtures("float32")  # whose range or rounding is what is tested
@pytest.mark.parametrize("factor", FACTORS)
def test_a_factor_is_tried_under_all_values_of_its_cells(factor: str) -> None:
    model, (value, words) = gm.parse(TEXT.format(factor)).model(), FACTORS[factor]
    with pytest.raises(gm.GmlmError) as caught:
        model.log_partition({"h": value})
    assert caught.value.codes == ("E514",)
    found = caught.value.diagnostics[0].message
    assert found == f"at these parameters this factor is {words}" or "log(h - x[i])" in factor


OVERFLOWING = {
    "h * 100000000000000000000.0 * x[i]": "not a number where `x[0]` is 0",
    "h * 100000000000000000000.0 * (x[i] + 1)": "-inf where `x[0]` is 0",
}


@pytest.mark.parametrize("factor", OVERFLOWING)
@pytest.mark.parametrize("verb", ["loss", "log_prob", "log_partition"])
def test_a_factor_is_tried_in_the_working_type(verb: str, factor: str) -> None:
    with jax.enable_x64(False), pytest.raises(gm.GmlmError) as caught:
        VERBS[verb](gm.parse(TEXT.format(factor)).model(), {"h": -1e19})
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("E514", f"at these parameters this factor is {OVERFLOWING[factor]}")


FINE = {
    "log(h) * x[i]": 2.0,
    "if x[i] > 0 then x[i] / (h * x[i]) else 0": 1.0,
    "if x[i] > 2 then 0 else h / (x[i] - 3)": 1.0,
    "log(h)": 0.0,
    "exp(h * x[i])": 20.0,
    "1 / (h + x[i])": 0.5,
}


@pytest.mark.parametrize("factor", FINE)
def test_a_factor_that_is_finite_or_zero_is_taken(factor: str) -> None:
    values = np.asarray(gm.parse(TEXT.format(factor)).model().log_potential({"h": FINE[factor]}, ROWS))
    assert not np.isnan(values).any() and (values < np.inf).all()


def test_under_tracing_the_answer_is_nan() -> None:
    questions = {
        "log_partition": lambda h: EXPONENTIAL.log_partition({"h": h}),
        "loss": lambda h: EXPONENTIAL.loss({"h": h}, ROWS, "one"),
        "log_prob": lambda h: EXPONENTIAL.log_prob({"h": h}, ROWS).sum(),
    }
    for name, question in questions.items():
        assert np.isnan(jax.jit(question)(1000.0)), name
        assert np.isfinite(jax.jit(question)(0.1)), name
        assert np.isfinite(jax.jit(jax.grad(question))(0.1)), name
    # The row itself has a probability; another value of its cells has none.
    assert np.isnan(jax.jit(lambda h: EXPONENTIAL.loss({"h": h}, [[0, 0]], "one"))(1000.0))
    undefined = gm.parse(TEXT.format("log(h) * x[i]")).model()
    assert np.isnan(jax.jit(lambda h: undefined.log_partition({"h": h}))(-1.0))
    assert np.isnan(jax.jit(lambda h: undefined.loss({"h": h}, ROWS, "one"))(-1.0))


@pytest.mark.slow
def test_zeros_stay_zeros() -> None:
    text = "model m { var x[i in range(3)] : bit param h factor h * x[i] for i in range(3) require x[0] + x[1] > 0 }\n"
    model = gm.parse(text + "mask one = subsets(x, size = 1)").model()
    assert np.asarray(model.log_potential({"h": 0.3}, [0, 0, 1])) == -np.inf
    assert np.asarray(model.loss({"h": 0.3}, [[0, 0, 1]], "one")) == np.inf
    gradient = jax.grad(lambda h: model.loss({"h": h}, [[1, 0, 1]], "one"))(0.3)
    assert jnp.isfinite(gradient)


LARGE = "model m {{ var x[i in range(30)] : bit param h factor {} }}\nmask one = subsets(x, size = 1)\nsampler g {{ update x[i] for i in range(30) }}"


@pytest.mark.slow
def test_a_factor_of_too_many_values_is_judged_by_the_answer() -> None:
    model = gm.parse(LARGE.format("exp(h * sum(x[i] for i in range(30)))")).model()
    ones = np.ones((1, 30), int)
    assert np.isfinite(np.asarray(model.log_potential({"h": 0.1}, ones)))
    for ask in (lambda p: model.log_potential(p, ones), lambda p: model.loss(p, ones, "one")):
        with pytest.raises(gm.GmlmError) as caught:
            ask({"h": 100.0})
        assert caught.value.codes == ("E514",)
    with pytest.raises(gm.GmlmError) as caught:
        model.sample({"h": 100.0}, "g", draws=2, chains=1, warmup=0, init=ones[0])
    assert caught.value.codes == ("E514",)


@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_no_parameter_of_a_network_is_infinite(wrong: float) -> None:
    text = "network net = mlp(width = 4)\nmodel m { var x[i in range(3)] : bit conditional x ~ net() }\nmask one = subsets(x, size = 1)"
    model = gm.parse(text).model()
    params = model.init_params(seed=0)
    broken = jax.tree.map(lambda a: a.at[(0,) * a.ndim].set(wrong) if isinstance(a, jax.Array) and a.ndim else a, params)
    with pytest.raises(gm.GmlmError) as caught:
        model.log_conditional(broken, [[0, 1, 1]], K=(0,))
    assert caught.value.codes == ("E504",)


@pytest.mark.parametrize("of", CASES, ids=str)
def test_what_bounds_call_positive_has_no_configuration_of_probability_zero(of: Case):
    params = {k: np.asarray(v, np.float32) for k, v in of.params.items()}
    if is_positive(of.model.graph, params):
        assert np.isfinite(of.oracle.log_potential(of.params, of.oracle.states)).all()


@pytest.mark.parametrize(
    ("factor", "h", "positive"),
    [
        ("factor h * x", 2.0, True),
        ("factor log(h + x)", 2.0, True),
        ("factor log(h)", 0.0, False),
        ("factor h * x", 3e36, False),  # two of them, and sums of 32-bit numbers end soon after
        ("factor log(x)", 0.0, False),
        ("factor h * x  require x > 0", 1.0, False),
    ],
)
def test_bounds_show_what_is_possible_for_sure(factor: str, h: float, positive: bool):
    text = f"model m {{ var x : range(4) var y : bit param h param k {factor} factor k * h * y }}"
    assert is_positive(gm.parse(text).model().graph, {"h": np.array(h), "k": np.array(1.0)}) is positive
