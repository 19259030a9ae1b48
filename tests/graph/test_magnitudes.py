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
    "let": ("let c = w * x[1]  factor sum(c for q in range(3))", {"w": 1e6}),
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
