"""The page of approximate answers has the errors that its script measures."""

from __future__ import annotations

import approximation_errors as table
import numpy as np
import pytest


def rows() -> dict[str, list[str]]:
    lines = [line.split("|")[1:-1] for line in table.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return {name.strip(): [c.strip() for c in row] for name, *row in lines}


def test_the_page_has_every_model():
    assert [*rows()][2:] == [*table.MODELS]
    assert len(table.MODELS) == 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", table.MODELS)
def test_errors_are_those_of_the_page(name: str):
    shown = rows()[name]
    for (error, own), b in zip(table.estimates(name), shown[5:7], strict=True):
        assert (b == "") == np.isnan(error)
        if b:
            assert abs(error) < 5 * own
            assert (error, own) == pytest.approx(tuple(map(float, b.rstrip(")").split(" ("))), rel=0.4, abs=0.012), (name, error, own, b)
    found, shown = table.errors(name), [*shown[:5], *shown[7:]]
    for a, b in zip(found, shown, strict=True):
        assert (b == "") == np.isnan(a)
        if b:
            assert a == pytest.approx(float(b), rel=0.4, abs=0.012), (name, found, shown)
