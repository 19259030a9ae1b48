"""Arithmetic is Python's: what divides by 0, does not fit or is no real number is an error with its place, where it is taken."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from oracle import Oracle

import gmlmdsl as gm
from gmlmdsl._diagnostics import Diagnostic, Source
from gmlmdsl.graph import bind
from gmlmdsl.graph._lowered import lower_model
from gmlmdsl.graph._ranges import range_of
from gmlmdsl.program import check_source, computed

CELLS = "input k : int = 0\nmodel m {{ var x : range(4) param h {} }}"
SETS = "input k : int = 0\nindex s = range({})\nmodel m {{ var x[i in s] : bit }}"
X = np.arange(4)


def refusal(text: str, **inputs: Any) -> Diagnostic:
    """The one error of a program that is checked and bound."""
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse(text, **inputs).model()
    (found,) = caught.value.diagnostics
    assert found.span is not None
    return found


CONSTANTS = {
    "7 // 0": "`7 // 0` divides by 0",
    "7 % 0": "`7 % 0` divides by 0",
    "1 / 0": "`1 / 0` divides by 0",
    "1.5 % 0": "`1.5 % 0` divides by 0",
    "0 ^ (-1)": "`0 ^ (-1)` is a negative power of 0",
    "sqrt(-1)": "`sqrt(-1)` is not a real number",
    "log(-1)": "`log(-1)` is not a real number",
    "(-8) ^ 0.5": "`(-8) ^ 0.5` is not a real number",
    "exp(1000)": "`exp(1000)` is too large for a number",
    "2 ^ 64": "`2 ^ 64` is 18446744073709551616, which does not fit into 64 bits",
    "2 ^ 62 * 2": "`4611686018427387904 * 2` is 9223372036854775808, which does not fit into 64 bits",
    "2 ^ 62 + 2 ^ 62": "`4611686018427387904 + 4611686018427387904` is 9223372036854775808, which does not fit into 64 bits",
    "10 ^ 2000000000": "`10 ^ 2000000000` does not fit into 64 bits",
}


@pytest.mark.parametrize("text", CONSTANTS)
def test_numbers_that_are_written_are_refused_when_they_are_checked(text: str) -> None:
    with pytest.raises(gm.GmlmError) as caught:
        check_source(Source("p", CELLS.format(f"factor ({text}) * x factor h * x")))
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("E416", CONSTANTS[text])
    assert found.span is not None and found.span.text == text


BOUND = {
    "7 // k": "`7 // 0` divides by 0",
    "7 % k": "`7 % 0` divides by 0",
    "1 / k": "`1 / 0` divides by 0",
    "k ^ (k - 1)": "`0 ^ (-1)` is a negative power of 0",
    "sqrt(k - 1)": "`sqrt(-1)` is not a real number",
    "(k - 8) ^ 0.5": "`(-8) ^ 0.5` is not a real number",
    "exp(1000 + k)": "`exp(1000)` is too large for a number",
    "2 ^ (64 + k)": "`2 ^ 64` is 18446744073709551616, which does not fit into 64 bits",
    "(2 ^ 62 + k) * 2": "`4611686018427387904 * 2` is 9223372036854775808, which does not fit into 64 bits",
    "(2 ^ 62 + k) + 2 ^ 62": "`4611686018427387904 + 4611686018427387904` is 9223372036854775808, which does not fit into 64 bits",
}


@pytest.mark.parametrize("text", BOUND)
def test_the_same_numbers_from_inputs_are_refused_when_they_are_bound(text: str) -> None:
    found = refusal(CELLS.format(f"factor ({text}) * x factor h * x"), k=0)
    assert (found.code, found.message) == ("E416", BOUND[text])


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        ("2 ^ 62 - (2 ^ 62 - 5)", 5),
        ("(2 ^ 62 + (2 ^ 62 - 1)) % 10 - 2", (2**63 - 1) % 10 - 2),
        ("(2 ^ 31 - 1) ^ 2 % 11 + 1", (2**31 - 1) ** 2 % 11 + 1),
    ],
)
def test_whole_numbers_are_exact_up_to_the_limit(size: str, wanted: int) -> None:
    assert gm.parse(SETS.format(size)).model().graph.n_random == wanted


def test_an_index_set_has_the_members_that_it_says() -> None:
    assert refusal(SETS.format("2 ^ 64 + 5")).code == "E416"
    assert refusal(SETS.format("2 ^ (k - 1)")).message == "an integer is needed here, and this is 0.5"
    assert refusal(SETS.format("5 // k")).message == "`5 // 0` divides by 0"


def test_a_loop_divides_by_nothing_that_is_zero() -> None:
    loop = "model m {{ var x[i in range(4)] : bit factor x[i] for i in range(4) if {} }}"
    assert refusal("input k : int = 0\n" + loop.format("i % k == 0")).message == "`0 % 0` divides by 0"
    assert gm.parse("input k : int = 0\n" + loop.format("k > 0 and i % k == 0")).model().graph.factors == ()
    assert refusal("input k : int = 0\n" + loop.format("12 // (2 - i) > 3")).message == "`12 // 0` divides by 0"


TAKEN = {
    "x // (x - x)": "`0 // 0` divides by 0",
    "h / x": "this divides by 0 where `x` is 0",
    "h // x": "this divides by 0 where `x` is 0",
    "h % x": "this divides by 0 where `x` is 0",
    "log(x - 1)": "`log(-1)` is not a real number",
    "h * sqrt(1 - x)": "`sqrt(-1)` is not a real number",
    "x ^ (x - 2)": "`0 ^ (-2)` is a negative power of 0",
    "exp(1000 * x)": "`exp(1000)` is too large for a number",
    "log(0) * x": "`-inf * 0` is not a real number",
    "sum(12 // (x - i) for i in range(2))": "`12 // 0` divides by 0",
    "if x > 1 then 1 else 6 / x": "`6 / 0` divides by 0",
}


@pytest.mark.parametrize("text", TAKEN)
def test_what_a_cell_makes_without_a_value_is_refused(text: str) -> None:
    found = refusal(CELLS.format(f"factor {text} factor h * x"))
    assert (found.code, found.message) == ("E416", TAKEN[text])


UNTAKEN = {
    "if x > 0 then 6 / x else 0": [0, 6, 3, 2],
    "if k > 0 then x // k else 3": [3, 3, 3, 3],
    "if false then 1 / 0 else 2": [2, 2, 2, 2],
    "if x > 0 and 6 % x == 0 then 1 else 0": [0, 1, 1, 1],
    "if x == 0 or 6 // x == 2 then 1 else 0": [1, 0, 0, 1],
    "if x > 0 then (if x > 1 then h * 2 / (x - 1) else h / x) else 0": [0, 0.5, 1, 0.5],
    "sum(if x == i then 0 else 12 / (x - i) for i in range(3))": [-18, 0, 18, 22],
    "max(log(x), -1) * h": [-0.5, 0, 0.5 * np.log(2), 0.5 * np.log(3)],
    "exp(log(x)) * h": [0, 0.5, 1, 1.5],
}


@pytest.mark.parametrize("text", UNTAKEN)
def test_what_is_not_taken_may_have_no_value(text: str) -> None:
    model = gm.parse(CELLS.format(f"factor {text}")).model()
    np.testing.assert_allclose(model.log_potential({"h": 0.5}, X), UNTAKEN[text], rtol=1e-6)


INFINITE = {
    "h * log(x)": "this is -inf where `x` is 0, and a parameter is multiplied by it or added to it",
    "h + log(x)": "this is -inf where `x` is 0, and a parameter is multiplied by it or added to it",
    "if x == 0 then log(0) else h * x": "this is -inf where `x` is 0, and a parameter is multiplied by it or added to it",
    "sum(log(x) - h for i in range(2))": "this is -inf where `x` is 0, and a parameter is multiplied by it or added to it",
    "-log(x)": "this factor is +inf where `x` is 0",
}


@pytest.mark.parametrize("text", INFINITE)
def test_an_infinity_beside_a_parameter_is_refused(text: str) -> None:
    found = refusal(CELLS.format(f"factor {text}"))
    assert (found.code, found.message) == ("E417", INFINITE[text])


def test_probability_zero_is_noted_and_kept() -> None:
    model = gm.parse(CELLS.format("factor log(x) factor h * x")).model()
    (note,) = (w for w in model.warnings if w.code != "W817")  # `k` has no use here
    assert (note.code, note.message) == ("W815", "this factor is -inf where `x` is 0: probability zero")
    np.testing.assert_allclose(model.log_potential({"h": 0.0}, X), [-np.inf, 0, np.log(2), np.log(3)], rtol=1e-6)
    assert float(model.log_partition({"h": 0.0})) == pytest.approx(np.log(6))
    allowed = "\n".join(["model m { var x : range(4)", "factor log(x)  # gmlm: allow W815", "}"])
    assert gm.parse(allowed).model().warnings == ()


def test_an_input_is_judged_as_a_number_that_is_written() -> None:
    text = "input U[4] : real\nmodel m {{ var x : range(4) param h factor {} factor h * x }}"
    assert [d.code for d in gm.parse(text.format("U[x]"), U=[0, -np.inf, 1, 2]).model().warnings] == ["W815"]
    assert refusal(text.format("U[x]"), U=[0, np.inf, 1, 2]).message == "this factor is +inf where `x` is 1"
    assert refusal(text.format("h * U[x]"), U=[0, 1, -np.inf, 2]).code == "E417"


def test_an_index_fits_into_the_integers_of_the_device() -> None:
    text = "input A[3] : real = 1.0\nmodel m {{ var x : range(4) factor A[{}] }}"
    assert "which is not an integer of 32 bits" in refusal(text.format("x * 100000 * 100000 % 3")).message
    assert refusal(text.format("4 * 2 ^ (x - 1) // 8")).code == "E416"
    assert refusal(text.format("2 // x")).message == "`2 // 0` divides by 0"
    gm.parse(text.format("if x > 0 then 2 // x else 1")).model()


def test_given_data_are_tried_row_by_row() -> None:
    text = "model m { given g : real var x : bit param h factor h * x / g }"
    model = gm.parse(text).model()
    np.testing.assert_allclose(model.log_potential({"h": 1.0}, [1, 1], given={"g": [2.0, 4.0]}), [0.5, 0.25])
    with pytest.raises(gm.GmlmError, match="divides by 0"):
        model.log_potential({"h": 1.0}, [1, 1], given={"g": [2.0, 0.0]})
    assert refusal("model m { given g : range(3) var x : bit param h factor h * x / g }").code == "E416"


def test_given_values_have_bounds_before_their_data() -> None:
    """Such a factor is tame, and its 2^20 values are not tried."""
    text = "model m { given g : range(20) given r : real(lower = 1, upper = 2) var x[i in range(20)] : bit param h factor h * x[g] / (r + x[0]) }"
    group = gm.parse(text).model().graph.factors[0]
    assert range_of(group, 2, {"h": np.array(3.0)}) == (0.0, 3.0)


@pytest.mark.slow
def test_values_are_tried_in_pieces() -> None:
    text = "model m {{ var x[i in range(19)] : bit factor log({} - sum(x[i] for i in range(19))) }}"
    assert gm.parse(text.format(20)).model().warnings == ()
    (note,) = gm.parse(text.format(19)).model().warnings
    assert note.code == "W815" and note.message.endswith("and `x[3]` is 1: probability zero")
    assert refusal(text.format(18)).message == "`log(-1)` is not a real number"


def test_many_cells_are_judged_by_bounds() -> None:
    text = "model m {{ var x[i in range(40)] : bit param h factor h * {} }}"
    total = "sum(x[i] for i in range(40))"
    gm.parse(text.format(f"log(1 + {total})")).model()
    gm.parse(text.format(f"(1 - 0.5 ^ {total})")).model()
    assert refusal(text.format(f"log({total})")).code == "E412"


# Expressions drawn from a seed: what the binder takes has the oracle's values, and what the oracle finds infinite or undefined is refused.
OPERATORS = ("+", "-", "*", "/", "//", "%", "^")


def drawn(rng: random.Random, depth: int, leaves: tuple[str, ...] = ("x", "y", "0", "1", "2", "3", "0.5", "x", "(0 - 1)")) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(leaves)
    kind = rng.randrange(5)
    if kind == 0:
        return f"{rng.choice(['log', 'sqrt', 'exp', 'abs'])}({drawn(rng, depth - 1, leaves)})"
    if kind == 1:
        test = f"{drawn(rng, depth - 1, leaves)} {rng.choice(['<', '==', '>='])} {drawn(rng, depth - 1, leaves)}"
        return f"(if {test} then {drawn(rng, depth - 1, leaves)} else {drawn(rng, depth - 1, leaves)})"
    return f"({drawn(rng, depth - 1, leaves)} {rng.choice(OPERATORS)} {drawn(rng, depth - 1, leaves)})"


def test_what_is_taken_agrees_with_the_oracle() -> None:
    rng, codes, taken, infinite = random.Random(15), set(), 0, 0
    for _ in range(600):
        text = f"model m {{ var x : range(3) var y : bit factor {drawn(rng, 3)} }}"
        try:
            program = check_source(Source("p", text))
            lowered = lower_model(bind(program, {}), "m")
        except gm.GmlmError as error:
            codes.update(error.codes)
            infinite += 1
            continue
        oracle = Oracle(program, "m", {})
        expected = oracle.log_potential({}, oracle.states)
        assert not np.isnan(expected).any() and (expected < np.inf).all(), text
        assert (len(lowered.notes) == 1) == (expected == -np.inf).any(), text
        taken += 1
    assert codes == {"E416", "E417"}
    assert taken > 200 and infinite > 100


def test_one_rule_for_numbers_and_arrays() -> None:
    from gmlmdsl.graph._arithmetic import applied

    rng = np.random.default_rng(15)
    for operator in OPERATORS:
        a, b = rng.integers(-9, 9, 200), rng.integers(1, 9, 200)
        found = applied(operator, [a, b], True, None)
        assert found.tolist() == [computed(operator, int(p), int(q)) for p, q in zip(a, b, strict=True)]


INEXACT = {
    "h * ((x * 100000000 + 1) % 7)": "100000000 where `x` is 0",
    "h * (if x * 16777217 % 2 == 0 then 1 else 0)": "16777217 where `x` is 0",
    "h * (x * 5000 * 5000 // 3)": "25000000 where `x` is 1",
    "h * (if x * 5000 * 5000 == 25000001 then 1 else 0)": "25000000 where `x` is 1",
    "(x * 5000 * 5000 + 1) % 7": "25000000 where `x` is 1",
}


@pytest.mark.parametrize("text", INEXACT)
def test_a_whole_number_that_a_float_does_not_hold_decides_nothing(text: str) -> None:
    found = refusal(CELLS.format(f"factor {text}"))
    assert (found.code, found.message.split(":")[0]) == ("E416", f"this is {INEXACT[text]}")


def test_whole_numbers_inside_a_remainder_fit_into_64_bits() -> None:
    found = refusal(CELLS.format("factor h * (if x > 0 then x * 2000000000 * 2000000000 * 8 + 1.5 else 0) % 7"))
    assert (found.code, found.message[:27]) == ("E416", "`6000000000 * 2000000000` i")
    found = refusal(CELLS.format("factor h * sum(x * 2000000000 * 2000000000 for i in range(2))"))
    assert found.code == "E416" and "does not fit" in found.message


WHOLE = {
    "(x * 1000003 + 1) % 7": lambda x: (x * 1000003 + 1) % 7,
    "(if x > 5 then x * 30000000 % 7 else x)": lambda x: x,
    "(if x * 5000000 == 10000000 then 1 else 0)": lambda x: x == 2,
    "(if x < 40000000 then 1 else 0)": lambda x: 1,
    "x * 1000000000 * 3": lambda x: x * 3e9,
}


@pytest.mark.parametrize("text", WHOLE)
def test_whole_numbers_of_cells_are_those_of_python(text: str) -> None:
    values = gm.parse(CELLS.format(f"factor h * {text}")).model().log_potential({"h": 1.0}, X)
    np.testing.assert_allclose(np.asarray(values), [WHOLE[text](x) for x in X.tolist()], rtol=2e-7)  # one rounding of 32 bits


def test_a_sum_in_an_index_is_whole() -> None:
    text = "model m {{ var x[i in range(3)] : range(4) param q[a in range(7)] factor q[sum(x[i] * {} for i in range(3)) % 7] }}"
    model, rows = gm.parse(text.format(20000001)).model(), np.array([[1, 2, 3], [0, 0, 1], [3, 3, 3]])
    found = np.asarray(model.log_potential({"q": np.arange(7.0)}, rows))
    np.testing.assert_array_equal(found, [sum(v * 20000001 for v in row) % 7 for row in rows.tolist()])
    assert refusal(text.format(500000000)).code == "E416"


def test_division_of_large_whole_numbers_is_done_by_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    from gmlmdsl.graph import _arithmetic

    large, least = np.array([2**40 + 3, -(2**62), 2**63 - 1]), -(2**63)
    expected = {o: [computed(o, int(v), 7) for v in large] for o in ("//", "%")}
    with monkeypatch.context() as patch:
        patch.setattr(_arithmetic, "computed", None)
        for operator, values in expected.items():
            assert _arithmetic.applied(operator, [large, np.array(7)], True, None).tolist() == values
    for operands in ([np.array([least]), np.array([-1])], [large, np.array(0)]):
        with pytest.raises(gm.GmlmError):
            _arithmetic.applied("//", operands, True, None)
    with pytest.raises(gm.GmlmError):  # the magnitude of -2^63 is no number of 64 bits
        _arithmetic.applied("+", [np.array([least]), np.array([0])], True, None, bits=32)


@pytest.mark.slow
def test_bounds_hold_every_value() -> None:
    rng, bounded = random.Random(16), 0
    leaves = ("x", "y", "h", "h", "k", "1", "2", "0.5", "sum(x * i + h for i in range(3))")
    for _ in range(400):
        text = f"model m {{ var x : range(3) var y : bit param h param k factor {drawn(rng, 3, leaves)} }}"
        try:
            program = check_source(Source("p", text))
            graph = lower_model(bind(program, {}), "m").graph
        except gm.GmlmError:
            continue
        params = {"h": np.array(rng.uniform(-2, 2)), "k": np.array(rng.uniform(0.1, 3))}
        found = [range_of(g, 3, params) for g in graph.factors for _ in range(g.n)]  # a sum is a factor for each of its terms
        if None not in found:
            oracle, bounded = Oracle(program, "m", {}), bounded + 1
            values = oracle.log_potential(params, oracle.states)
            low, high = (sum(f[end] for f in found if f is not None) for end in (0, 1))
            assert low - 1e-9 <= values.min() and values.max() <= high + 1e-9, text
    assert bounded > 100
