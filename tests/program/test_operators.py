"""One table of operators and functions: its entries agree with one another, and every stage and the oracle know each of them."""

from __future__ import annotations

import math
from inspect import signature
from itertools import product

import jax
import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.derive import _energy
from gmlmdsl.graph import _arithmetic
from gmlmdsl.program import OPERATORS, NoValueError, computed
from gmlmdsl.program._forms import FUNCTIONS

NUMBERS = (-2, -1, 0, 1, 3, -0.75, 0.5, 2.5)
SPECIAL = {"sum", "prod", "count", "any", "all", "all_different", "logsumexp"}  # it has a syntax of its own
DOMAINS = {"spin": (0, 1), "bit": (-1, 1)}


def test_every_function_of_the_language_is_an_operator():
    functions = {f.name for f in FUNCTIONS} - SPECIAL
    assert {name for name in OPERATORS if name.isidentifier()} == functions | {"neg"}


@pytest.mark.parametrize("name", OPERATORS)
def test_every_stage_gives_the_same_values_and_bounds_hold_them(name: str):
    operator, tried = OPERATORS[name], 0
    count = len(signature(operator.array).parameters) - 1
    numbers = DOMAINS.get(name, NUMBERS)
    with jax.enable_x64(True), np.errstate(all="ignore"):
        for operands in product(numbers, repeat=count):
            try:
                value = computed(name, *operands)
            except NoValueError:
                continue
            tried += 1
            whole = all(isinstance(o, int) for o in operands)
            arrays = [np.asarray(o) for o in operands]
            host = _arithmetic.OPERATORS[name](*arrays)
            negative = name == "^" and whole and operands[1] < 0  # a fraction
            if whole:
                assert isinstance(value, float) == (np.asarray(host).dtype.kind == "f") == (operator.is_real or negative), operands
            np.testing.assert_allclose(host, value, rtol=1e-14, atol=1e-15, err_msg=str(operands))
            device = _energy.OPERATORS[name](*(jax.numpy.asarray(float(o)) for o in operands))
            np.testing.assert_allclose(device, value, rtol=1e-13, atol=1e-15, err_msg=str(operands))
            if whole and not negative:
                device = _energy.WHOLE[name](*(jax.numpy.asarray(o, "int32") for o in operands))
                np.testing.assert_allclose(device, value, rtol=1e-13, atol=1e-15, err_msg=str(operands))
            inside(name, operands, value)
    assert tried >= len(numbers) ** count / 3


def inside(name: str, operands: tuple[float, ...], value: float) -> None:
    """Bounds of intervals that hold the operands, points and wider ones, hold the value; where they say nothing, so be it."""
    for width in (0.0, 0.5):
        try:
            bounds = OPERATORS[name].bounds(*((o - width, o + width) for o in map(float, operands)))
        except (ArithmeticError, ValueError):
            continue
        if bounds is not None and not math.isinf(value):
            assert bounds[0] - 1e-12 <= value <= bounds[1] + 1e-12, (operands, width, bounds)


@pytest.mark.parametrize("name", sorted({f.name for f in FUNCTIONS} - SPECIAL))
def test_the_oracle_knows_every_function(name: str):
    from oracle import Oracle

    arguments = {"min": "x[0], a", "max": "x[0], a", "spin": "b", "bit": "x[0]", "log_binomial": "3, b", "logit": "0.5 + x[0] * a"}
    arguments = arguments.get(name, "1.5 + x[0] * a")
    program = gm.parse(f"model m {{ var x[i in range(1)] : spin  var b : bit  param a  factor a * b + {name}({arguments}) }}")
    with jax.enable_x64(True):
        oracle, params = Oracle(program.checked, None, {}), {"a": 0.3}
        x = {"x": np.array([[-1], [-1], [1], [1]]), "b": np.array([0, 1, 0, 1])}
        found = np.asarray(program.model().log_prob(params, x))
        states = {tuple(s): p for s, p in zip(oracle.states.tolist(), oracle.log_prob(params, oracle.states), strict=True)}
    assert len(states) == 4 and np.ptp(found) > 0
    np.testing.assert_allclose(sorted(found), sorted(states.values()), rtol=1e-12)
