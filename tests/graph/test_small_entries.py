"""Entries of tables below the smallest number of float32 keep their logarithms, by either engine."""

from __future__ import annotations

import numpy as np
import pytest

import gmlmdsl as gm

TABLE = np.array([[1e-50, 1.0], [1.0, 0.0]])
TEXT = "input t[2, 2] : real  model m { var x[i in range(2)] : bit  factor log(t[x[0], x[1]]) }"


@pytest.mark.parametrize("rows", [3, 65, 1000])
def test_log_p_of_a_rare_pair_does_not_depend_on_the_number_of_rows(rows: int) -> None:
    model = gm.parse(TEXT, t=TABLE).model()
    found = model.log_prob({}, np.zeros((rows, 2), int))
    np.testing.assert_allclose(found, np.log(1e-50) - np.log(2), rtol=1e-6)
    assert (model.log_prob({}, np.ones((rows, 2), int)) == -np.inf).all()


def test_a_rare_pair_can_be_clamped() -> None:
    draws = gm.parse(TEXT, t=TABLE).model().sample({}, "exact", draws=2, chains=2, clamp={"x": {0: 0, 1: 0}}, progress=False)
    assert (np.asarray(draws.posterior["x"]) == 0).all()


def test_a_logarithm_of_a_negative_entry_is_named_where_it_stands() -> None:
    with pytest.raises(gm.GmlmError, match=r"log\(t"):
        gm.parse(TEXT, t=-TABLE).model().log_prob({}, [[0, 0]])
