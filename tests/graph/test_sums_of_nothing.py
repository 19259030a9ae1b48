"""A sum whose condition keeps no turn is 0, wherever it stands; an index that mentions cells may not depend on any."""

from __future__ import annotations

import numpy as np
import pytest

import gmlmdsl as gm

NOTHING = "sum(b[q] for q in range(2) if q > 1)"
PLACES = {
    "an index": (f"factor U[{NOTHING}]", 0.25),
    "an index of cells": (f"factor b[{NOTHING}] * 0.5", 0.5),
    "an index of a let": (f"let l[i in range(2)] = 0.75 + i\n factor l[{NOTHING}]", 0.75),
    "an index of cells that a branch settles": ("factor b[if 1 < 2 then 0 else b[1]] * 0.5", 0.5),
    "an index of a let that a branch settles": (
        "let l[i in range(2)] = 0.75 + i\n factor l[if i < 2 then 0 else b[1]] for i in range(1)",
        0.75,
    ),
    "a factor": (f"factor {NOTHING} + 0.125", 0.125),
    "a test": (f"factor if {NOTHING} == 0 then 1.5 else 0", 1.5),
}


@pytest.mark.parametrize(("statement", "wanted"), PLACES.values(), ids=PLACES)
def test_it_is_nothing(statement: str, wanted: float):
    program = gm.parse(f"input U[2] : real\nmodel m {{ var b[i in range(2)] : bit\n {statement} }}", U=np.array([0.25, 3.0]))
    np.testing.assert_allclose(program.model().log_potential({}, np.array([[1, 0], [1, 1]])), [wanted] * 2)
