"""The type `nonnegative`: inputs and given variables that may be 0."""

from __future__ import annotations

import numpy as np
import pytest

import gmlmdsl as gm

TEXT = """
input s : nonnegative = 0
input w[2] : nonnegative = [0, 1.5]
model m {
  var x[i in range(2)] : bit
  given y[i in range(2)] : nonnegative
  param J : real
  factor s * x[0] + J * y[0] * x[1] + w[1] * x[0] * x[1]
}
"""


def test_zero_is_among_its_values():
    y = np.array([0.0, 2.0])
    p = gm.parse(TEXT).model().log_prob({"J": 1.0}, [[1, 1]], given={"y": y})
    np.testing.assert_allclose(p, 1.5 - np.log(3 + np.exp(1.5)), rtol=1e-6)


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("E404", lambda: gm.parse(TEXT, s=-1).model()),
        ("E404", lambda: gm.parse(TEXT.replace("[0, 1.5]", "[0, -0.5]")).model()),
        ("E510", lambda: gm.parse(TEXT).model().log_prob({"J": 1.0}, [[1, 1]], given={"y": [0.0, -2.0]})),
        ("E205", lambda: gm.parse(TEXT.replace("param J : real", "param J : nonnegative"))),
        ("E205", lambda: gm.parse(TEXT.replace(": bit", ": nonnegative"))),
    ],
)
def test_what_is_below_zero_or_varies_is_refused(code, call):
    with pytest.raises(gm.GmlmError) as caught:
        call()
    assert caught.value.codes == (code,)


def test_a_domain_may_have_its_name():
    assert gm.parse("domain nonnegative = range(3)\nmodel m { var x : nonnegative }\n").model().graph.n_random == 1
