"""Energies so large that log p could not be normalised in the working type are refused, whatever they come from and whoever asks."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from test_undefined_factors import VERBS

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("standard_promotion")
TEXT = """
model m { var x[i in range(2)] : spin  param h  factor h * x[0] * x[1] }
mask one = subsets(x, size = 1)
sampler g { update x[i] for i in range(2) }
"""
PAIR = gm.parse(TEXT).model()
ROWS = np.array([[1, 1], [1, -1]])
WIDE = gm.parse(TEXT.replace("spin", "range(4)")).model()


IN_32_BITS = [
    "log_partition",
    "log_prob",
    "log_conditional",
    "loss",
    "marginals",
    "map",
    "sample",
    "exact draws",
    "annealing",
]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_a_factor_without_digits(verb: str) -> None:
    with jax.enable_x64(False), pytest.raises(gm.GmlmError) as caught:
        VERBS[verb](WIDE, {"h": 3e38})
    assert set(caught.value.codes) <= {"E591", "E514"}  # nine times 3e38 is no 32-bit number


@pytest.mark.produces("E591")
@pytest.mark.parametrize("verb", IN_32_BITS)
def test_verbs_of_32_bits_refuse_ten_digits(verb: str) -> None:
    with jax.enable_x64(False), pytest.raises(gm.GmlmError, match="E591"):
        VERBS[verb](WIDE, {"h": 1e10})


def test_what_is_not_normalised_is_finite_up_to_the_largest_number() -> None:
    with jax.enable_x64(False):
        np.testing.assert_allclose(PAIR.log_potential({"h": 3e38}, ROWS), [3e38, -3e38], rtol=1e-6)
        model = gm.parse("input w : real = 1 " + TEXT.replace("factor h", "factor w * x[0]  factor h"), w=1e39).model()
        with pytest.raises(gm.GmlmError, match="E591"):
            model.log_potential({"h": 0.5}, ROWS)


def test_matrices_and_theory_are_made_in_64_bits_and_take_them() -> None:
    with jax.enable_x64(False):
        found = PAIR.transition_matrix({"h": 1e10}, "g")
        np.testing.assert_allclose(found, [[1, 0, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1]], atol=1e-12)
        with pytest.raises(gm.GmlmError, match="E591"):
            PAIR.transition_matrix({"h": 1e16}, "g")


@pytest.mark.parametrize(
    ("h", "refused"), [(1e39, True), (1e30, True), (1e10, True), (1.1e6, True), (1e6, False), (-1e10, True), (50, False)]
)
def test_the_limit_is_where_neighbours_are_an_eighth_apart(h: float, refused: bool) -> None:
    if not refused:
        found = PAIR.log_prob({"h": h}, ROWS)
        assert float(found[0]) == pytest.approx(np.log(0.5), abs=0.07)
        return
    with jax.enable_x64(False), pytest.raises(gm.GmlmError) as caught:
        PAIR.log_prob({"h": h}, ROWS)
    assert caught.value.codes == (("E504",) if h == 1e39 else ("E591",))
    assert h != 1e39 or "has a +1e+39: parameters are finite numbers, in this type up to 3.4e+38" in str(caught.value)
    if h != 1e39:
        assert f"this factor is {abs(h):g} where `x[0]` is" in str(caught.value)
        assert "beyond 1.04858e+06: 32-bit numbers" in str(caught.value)


def test_in_64_bits_ten_digits_are_digits() -> None:
    with jax.enable_x64(True):
        np.testing.assert_allclose(PAIR.log_prob({"h": 1e10}, ROWS), [np.log(0.5), -2e10], rtol=1e-5)
        with pytest.raises(gm.GmlmError, match="E591"):
            PAIR.log_prob({"h": 1e16}, ROWS)


SOURCES = {
    "literal": ("factor 1e39 * x[0]".replace("1e39", "1" + "0" * 39 + ".0"), {}),
    "two": ("factor 30000000000.0 * x[0] * x[1]", {}),
    "input": ("factor w * x[0]", {"w": 1e39}),
    "table": ("factor w * x[0]  factor t[bit(x[1])]", {"w": 1.0, "t": [0.0, 1e12]}),
    "no cell": ("factor w", {"w": 1e10}),
    "let": ("let c = 3 * w * x[1]  factor c", {"w": 1e6}),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("verb", ["log_partition", "log_prob", "loss", "sample"])
def test_literals_and_inputs_are_judged_like_parameters(source: str, verb: str) -> None:
    factor, inputs = SOURCES[source]
    declared = "input w : real = 1 input t[2] : real = 0\n"
    model = gm.parse(declared + TEXT.replace("factor h", f"{factor}  factor h"), **inputs).model()
    own = {
        "log_prob": lambda: model.log_prob({"h": 0.5}, ROWS),
        "loss": lambda: model.loss({"h": 0.5}, ROWS, "one"),
    }
    with jax.enable_x64(False), pytest.raises(gm.GmlmError, match="E591"):
        own[verb]() if verb in own else VERBS[verb](model, {"h": 0.5})


GIVEN = gm.parse("model m { given z : real  var x : spin  param b  factor b * z * x } mask one = subsets(size = 1)").model()


@pytest.mark.parametrize(("z", "code"), [(1e39, "E510"), (1e10, "E591")])
def test_given_data_are_judged_with_the_factor_that_reads_them(z: float, code: str) -> None:
    for ask in (
        lambda: GIVEN.log_prob({"b": 1.0}, np.array([1]), given={"z": [z]}),
        lambda: GIVEN.loss({"b": 1.0}, np.array([1]), "one", given={"z": [z]}),
        lambda: GIVEN.log_partition({"b": 1.0}, given={"z": [z]}),
    ):
        with jax.enable_x64(False), pytest.raises(gm.GmlmError, match=code):
            ask()
    found = GIVEN.log_prob({"b": 1e-9}, np.array([1]), given={"z": [1e9]})  # a large covariate with a small slope
    assert float(found[0]) == pytest.approx(-np.log1p(np.exp(-2)), abs=1e-6)


@pytest.mark.usefixtures("float32")  # whose range or rounding is what is tested
def test_penalties_are_no_loss_of_digits_unless_every_configuration_has_one() -> None:
    text = "graph G = chain({}, wrap = {}) model m {{ var x[i in G.nodes] : bit  param J  factor if x[i] == x[j] then J else 0 for (i, j) in G.edges }}"
    even = gm.parse(text.format(4, "true")).model()
    np.testing.assert_allclose(even.log_prob({"J": -1e10}, np.array([0, 1, 0, 1])), np.log(0.5), rtol=1e-6)
    odd = gm.parse(text.format(3, "true")).model()
    with pytest.raises(gm.GmlmError, match="E591"):
        odd.log_prob({"J": -1e10}, np.array([0, 1, 0]))


def test_many_small_factors_are_no_large_one() -> None:
    text = "model m { var x[i in range(200)] : bit  param h  factor h * x[i] for i in range(200) }"
    assert float(gm.parse(text).model().log_partition({"h": 1e5})) == pytest.approx(2e7, rel=1e-6)


COVARIATE = gm.parse("""
model m {
  given z : real
  var x : spin
  var y : spin
  param b
  factor b * z * x
  factor 0.3 * x * y
}
mask one = subsets(size = 1)
sampler g { update x  update y }
""").model()
PAIRS = {"x": np.array([1, 1, -1]), "y": np.array([1, -1, 1])}
SINGLE, EACH = {"z": 1e10}, {"z": np.full(3, 1e10)}
GIVEN_VERBS = {
    "log_conditional": lambda p: COVARIATE.log_conditional(p, PAIRS, 0, given=EACH),
    "marginals": lambda p: COVARIATE.marginals(p, given=SINGLE),
    "map": lambda p: COVARIATE.map(p, given=SINGLE),
    "sample": lambda p: COVARIATE.sample(p, "g", draws=2, chains=1, given=SINGLE),
    "exact draws": lambda p: COVARIATE.sample(p, "exact", draws=2, chains=1, given=SINGLE),
    "effects": lambda p: COVARIATE.effects(p, {"x": 1, "y": 1}, given=SINGLE),
    "distribution": lambda p: COVARIATE.distribution(p, given=SINGLE).log_prob(np.array([1, 1])),
    "log_likelihood": lambda p: COVARIATE.to_numpyro(PAIRS, "one", given=EACH, calibrate=None).log_likelihood(p),
}


@pytest.mark.parametrize("verb", GIVEN_VERBS)
def test_every_verb_of_32_bits_judges_given_data(verb: str) -> None:
    with jax.enable_x64(False), pytest.raises(gm.GmlmError) as caught:
        GIVEN_VERBS[verb]({"b": 1.0})
    assert caught.value.codes == ("E591",)
    assert "this factor is 1e+10 where `x` is 1" in str(caught.value)


LARGE, ROWS_OF_LARGE = {"z": 1e16}, {"z": np.full(3, 1e16)}
GIVEN_IN_64_BITS = {
    "transition_matrix": lambda p: COVARIATE.transition_matrix(p, "g", given=LARGE),
    "sampler_bias": lambda p: COVARIATE.sampler_bias(p, "g", given=LARGE),
    "fit": lambda p: COVARIATE.fit(PAIRS, "one", given=ROWS_OF_LARGE, init=p),
    "poincare_constant": lambda p: gm.theory.poincare_constant(COVARIATE, p, mask="one", given=LARGE),
    "fisher_information": lambda p: gm.theory.fisher_information(COVARIATE, p, given=LARGE),
    "score": lambda p: COVARIATE.fit(PAIRS, "one", given={"z": [0.1, -0.2, 0.3]}, fixed=p).score(PAIRS, given=ROWS_OF_LARGE),
}


@pytest.mark.parametrize("verb", [pytest.param(v, marks=[pytest.mark.slow] * (v == "score")) for v in GIVEN_IN_64_BITS])
def test_every_verb_of_64_bits_judges_given_data(verb: str) -> None:
    with pytest.raises(gm.GmlmError, match="E591"):
        GIVEN_IN_64_BITS[verb]({"b": 1.0})


@pytest.mark.slow
def test_a_fit_to_large_covariates_is_that_to_small_ones() -> None:
    small, large = (COVARIATE.fit(PAIRS, "one", given={"z": s * np.array([0.1, -0.2, 0.3])}) for s in (1.0, 1e10))
    np.testing.assert_allclose(large.params["b"] * 1e10, small.params["b"], rtol=1e-4)
    scores = [f.score(PAIRS, given={"z": s * np.array([0.1, 0.2, 0.0])}).mean for f, s in ((small, 1.0), (large, 1e10))]
    np.testing.assert_allclose(*scores, rtol=1e-4)


PENALISED = """
model m {{
  var y : bit
  var x[i in range(2)] : bit
  param h
  factor (if y == 1 then {} else 0) + h * x[i] for i in range(2)
}}
mask one = subsets(size = 1)
mask pair = blocks({{x[0], x[1]}})
mask some = bernoulli(rate = 0.5)
mask look sees y {{ choose {{x[i]}} for i in range(2) weight (if y == 1 then 1 else 2) + i }}
mask away sees y {{ choose {{x[i]}} for i in range(2) weight 1 - y  choose {{y}} weight 1 }}
sampler g {{ update x[i] for i in range(2)  update y }}
"""
LOW = gm.parse(PENALISED.format("-10000000000.0")).model()
FINE, BESIDE = {"y": np.array([0, 0]), "x": np.array([[0, 1], [1, 1]])}, {"y": np.array([0, 1]), "x": np.array([[0, 1], [1, 1]])}
PENALISED_VERBS = {
    "log_conditional": lambda m: m.log_conditional({"h": 1.0}, BESIDE, 1),
    "loss": lambda m: m.loss({"h": 1.0}, BESIDE, "one"),
    "loss of an adaptive mask": lambda m: m.loss({"h": 1.0}, BESIDE, "look"),
    "loss of drawn masks": lambda m: m.loss({"h": 1.0}, BESIDE, "some", key=1, n_masks=3),
    "marginals": lambda m: m.marginals({"h": 1.0}, clamp={"y": 1}),
    "map": lambda m: m.map({"h": 1.0}, clamp={"y": 1}),
    "exact draws": lambda m: m.sample({"h": 1.0}, "exact", clamp={"y": 1}, draws=2, chains=1),
    "sample": lambda m: m.sample({"h": 1.0}, "g", clamp={"y": 1}, draws=2, chains=1),
}


@pytest.mark.parametrize("verb", [pytest.param(v, marks=[pytest.mark.slow] * (v == "sample")) for v in PENALISED_VERBS])
def test_a_block_all_of_whose_values_have_a_penalty_is_seen(verb: str) -> None:
    with jax.enable_x64(False), pytest.raises(gm.GmlmError) as caught:
        PENALISED_VERBS[verb](LOW)
    assert caught.value.codes == ("E591",)
    assert "row 1 of x: beside its other cells every value of `x[" in str(caught.value) or "every configuration that" in str(caught.value)


@pytest.mark.slow
def test_in_64_bits_the_same_blocks_have_digits() -> None:
    with jax.enable_x64(True):
        np.testing.assert_allclose(
            np.asarray(LOW.log_conditional({"h": 1.0}, BESIDE, 1))[1], [-np.log1p(np.e), -np.log1p(1 / np.e)], rtol=1e-5
        )
        assert np.isfinite(LOW.loss({"h": 1.0}, BESIDE, "one"))
        np.testing.assert_allclose(LOW.marginals({"h": 1.0}, clamp={"y": 1})["x"][:, 1], 1 / (1 + 1 / np.e), rtol=1e-5)


def test_a_penalty_beside_values_without_one_costs_no_digits() -> None:
    """A row with a penalty in one block; and one whose penalty no block of the mask touches."""
    with jax.enable_x64(False):
        found = LOW.log_conditional({"h": 1.0}, BESIDE, 0)
        np.testing.assert_allclose(found, [[0, -2e10], [0, -2e10]], rtol=1e-5)
        np.testing.assert_allclose(LOW.log_conditional({"h": 1.0}, FINE, 1)[0], [-np.log1p(np.e), -np.log1p(1 / np.e)], rtol=1e-5)
        apart = gm.parse(PENALISED.format("0").replace("param h", "param h\n  factor if y == 1 then -10000000000.0 else 0")).model()
        assert np.isfinite(apart.loss({"h": 1.0}, BESIDE, "pair")) and float(apart.loss({"h": 1.0}, BESIDE, "one")) > 1e9


@pytest.mark.slow
def test_a_block_that_an_adaptive_mask_does_not_draw_costs_no_digits() -> None:
    """`away` draws no x[i] where y is 1, so that the penalty there stands in the block {y}, beside a value without one."""
    with jax.enable_x64(False):
        assert np.isfinite(LOW.loss({"h": 1.0}, BESIDE, "away"))


def test_a_prefix_with_a_penalty_has_no_next_symbol_in_32_bits() -> None:
    text = "model m { var x[i in range(2)] : bit  param h  factor h * x[1]  factor if x[0] == 1 then -10000000000.0 else 0 }"
    with jax.enable_x64(False):
        np.testing.assert_allclose(gm.parse(text).model().next_symbol({"h": 0.0}, [[0]]), [[0.5, 0.5]])
        with pytest.raises(gm.GmlmError, match="every configuration with that prefix has a factor below"):
            gm.parse(text).model().next_symbol({"h": 0.0}, [[1]])
