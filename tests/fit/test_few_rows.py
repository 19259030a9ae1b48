"""Standard errors that the rows cannot tell: of one row, of rows that all pull alike, and of fewer rows than parameters."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.report import fit_report

pytestmark = pytest.mark.usefixtures("standard_promotion")
TIED = """
graph G = grid(3, 4)
model lattice {
  var x[i in G.nodes] : spin
  param field
  param coupling
  factor field * x[i] for i in G.nodes
  factor coupling * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(size = 1)
"""
FREE = """
model m {
  var x[i in range(4)] : bit
  param h[i in range(4)] ~ normal(0, 1)
  factor h[i] * x[i] for i in range(4)
}
mask one = subsets(size = 1)
"""
ALIKE = """
model m {
  var x : bit
  var y : bit
  param h ~ normal(0, 1)
  param g
  factor h * x
  factor g * y
}
mask one = subsets(size = 1)
"""
ROW = np.where(np.arange(12) % 5 < 3, 1, -1)


@cache
def one_row() -> gm.Fit:
    return gm.parse(TIED).model().fit(ROW[None])


def slugs(fit: gm.Fit) -> list[str]:
    return [f.slug for f in fit.status.findings]


@pytest.mark.parametrize("weights", [None, pytest.param([1.0, 0.1], marks=pytest.mark.slow), [5.0, 0.0]])
def test_one_effective_row_has_no_standard_error(weights: list[float] | None):
    """(sum w)^2 / sum w^2 is 1, 1.198 and 1: nothing tells how far rows differ."""
    rows = ROW[None] if weights is None else np.stack([ROW, np.roll(ROW, 1)])
    fit = one_row() if weights is None else gm.parse(TIED).model().fit(rows, weights=weights)
    assert slugs(fit) == ["no-spread"]
    assert fit.status.code == "converged"
    assert all(np.isinf(e) for e in fit.standard_errors.values())
    frame = fit.summary()
    assert np.isinf(frame["std_error"]).all()
    assert (frame["3%"] == -np.inf).all()
    assert (frame["note"] == "no error by these rows").all()
    assert "effective row" in str(fit)
    assert "simulated_errors" in str(fit.status)
    assert fit.contrast({"field": 1.0, "coupling": -1.0}).std_error == np.inf
    assert np.isfinite(fit.standard_errors_of("laplace")["field"])
    assert np.isfinite(fit.contrast({"field": 1.0}, errors="laplace").std_error)
    assert set(fit.summary(errors="laplace")["note"]) == {"no valid error: the mask's loss is not a likelihood"}


def test_two_rows_tell_something_and_say_that_it_is_too_small():
    """Two rows for two parameters are as many; weights 1 and 1 count as two; with a third parameter they are too few."""
    two = gm.parse(TIED).model().fit(np.stack([ROW, np.roll(ROW, 1)]))
    assert slugs(two) == []
    assert (two.summary()["std_error"] > 0).all()
    rows = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [1, 1, 0, 0]])
    few = gm.parse(FREE).model().fit(rows)
    assert "few-rows" in slugs(few)
    assert "3 effective rows for 4 free parameters" in str(few)
    assert np.isfinite(few.summary()["std_error"]).all()
    assert few.summary()["note"].str.startswith("error too small: few rows").all()
    enough = gm.parse(FREE).model().fit(np.concatenate([rows, 1 - rows]))
    assert slugs(enough) == []


def test_a_contrast_along_which_few_rows_pull_alike_has_no_error():
    """Of two rows that differ in every cell the gradients differ in one direction only: h[0] - h[2] moves with neither."""
    fit = gm.parse(FREE).model().fit(np.array([[0, 1, 0, 1], [1, 0, 1, 0]]))
    assert fit.contrast({"h": [1, 0, -1, 0]}).std_error == np.inf
    assert 0 < fit.contrast({"h": [1, -1, 0, 0]}).std_error < np.inf


@pytest.mark.slow
def test_rows_that_pull_alike_tell_no_error_of_that_parameter():
    """x is 1 in all of 50 rows: the prior holds h, and all gradients are the same; y differs, and g has its error."""
    fit = gm.parse(ALIKE).model().fit({"x": np.ones(50, int), "y": np.arange(50) % 2})
    assert "no-spread" in slugs(fit)
    assert "All rows pull alike at `h`" in str(fit)
    assert np.isinf(fit.standard_errors["h"])
    np.testing.assert_allclose(fit.standard_errors["g"], 2 / np.sqrt(50), rtol=1e-5)
    assert fit.contrast({"g": 1.0}).std_error < 1 < fit.contrast({"g": 1.0, "h": 1.0}).std_error
    with pytest.raises(gm.GmlmError, match="pull alike") as caught:
        fit.profile("h")
    assert caught.value.codes == ("E547",)


@pytest.mark.slow
def test_a_strong_prior_is_no_lack_of_spread():
    """A normal(0, 1e-5) holds h: its sandwich error is tiny, and known."""
    fit = gm.parse(ALIKE.replace("normal(0, 1)", "normal(0, 0.00001)")).model().fit({"x": np.arange(50) % 2, "y": np.arange(50) % 2})
    assert "no-spread" not in slugs(fit)
    np.testing.assert_allclose(fit.standard_errors["h"], np.sqrt(50 / 4) * 1e-10, rtol=1e-3)


@pytest.mark.produces("E548")
def test_what_rests_on_the_spread_of_rows_is_refused_for_one():
    fit = one_row()
    for call in (fit.bootstrap, lambda: fit.profile("field"), fit.information_criterion):
        with pytest.raises(gm.GmlmError, match="1 effective row") as caught:
            call()
        assert caught.value.codes == ("E548",)
    with pytest.raises(gm.GmlmError, match="standard error") as caught:
        gm.wald_test(fit, fit)
    assert caught.value.codes == ("E545",)


@pytest.mark.slow  # files and pages of a fit are read elsewhere in the gate
def test_files_and_reports_keep_that_there_is_no_error(tmp_path: Path):
    fit = one_row()
    fit.save(tmp_path / "a.fit")
    again = gm.load_fit(tmp_path / "a.fit")
    assert again.summary().equals(fit.summary())
    assert str(again.status) == str(fit.status)
    assert again.contrast({"field": 1.0}) == fit.contrast({"field": 1.0})
    assert again.summary(errors="laplace").equals(fit.summary(errors="laplace"))
    page = fit_report(fit).html()
    assert "no spread" in page
    assert "no error by these rows" in page


def test_single_cells_of_a_large_lattice_are_all_masks_and_large_subsets_are_counted():
    """4096 cells have 4096 blocks of one cell, the most that a loss averages over; they were taken for infinitely many."""

    text = "model m {{ var x[i in range({})] : bit }}\nmask s = subsets(size = {})\n"
    for cells, size, count in ((4096, 1, 4096), (5000, 2, 12497500), (2000, 1000, np.inf)):
        assert gm.parse(text.format(cells, size)).model().mask("s")[1].support_size == count


@pytest.mark.parametrize(
    ("seen", "weights_are"), thinned([(1, "importances"), (0, "importances"), (1, "counts"), (5, "importances")], 4, 2)
)
def test_rows_that_score_nothing_tell_nothing(seen: int, weights_are: str, tmp_path: Path):
    """Of 20 rows all but the first few lack every cell: the errors of those few alone, and findings that agree."""
    x = np.random.default_rng(0).integers(0, 2, (20, 4))
    gaps = np.where(np.arange(20)[:, None] < seen, x, 9)
    fit = gm.parse(FREE).model().fit(gaps, missing=9, weights=np.ones(20), weights_are=weights_are)
    fit.save(tmp_path / "a.fit")
    assert fit.effective_rows == gm.load_fit(tmp_path / "a.fit").effective_rows == seen
    assert (np.isinf(fit.standard_errors["h"]) == (seen < 2)).all()
    assert ("no-spread" in slugs(fit)) == (seen < 2)
    assert "too small" not in str(fit.status)
    if not seen:
        assert slugs(fit) == ["prior-decides", "no-spread"]
        with pytest.raises(gm.GmlmError, match="no row has an observed cell") as caught:
            fit.simulated_errors(50)
        assert caught.value.codes == ("E548",)


@pytest.mark.slow
def test_one_row_without_priors_has_no_errors_that_could_be_too_small() -> None:
    model = gm.parse(
        "model m { var x[i in range(3)] : spin  param h[i in range(3)]  factor h[i] * x[i] for i in range(3) }\nmask one = subsets(size = 1)"
    ).model()
    found = model.fit([[1, -1, 1]], mask="one", progress=False)
    assert "too small" not in str(found.status)
    assert np.isinf(found.standard_errors["h"]).all()


def test_a_value_that_is_held_is_named_where_its_shape_is_wrong() -> None:
    model = gm.parse(
        "model m { var x[i in range(3)] : spin  param h[i in range(3)]  factor h[i] * x[i] for i in range(3) }\nmask one = subsets(size = 1)"
    ).model()
    with pytest.raises(gm.GmlmError, match=r"fixed\['h'\] must have shape \(3,\), got \(2,\)"):
        model.fit([[1, -1, 1]], mask="one", fixed={"h": [0.0, 1.0]})


def test_a_fit_of_too_many_parameters_says_that_it_has_no_errors() -> None:
    text = "model m { var x[i in range(2)] : range(33)  param h[i in range(2), a in range(33)]  param J[a in range(33), b in range(33)]  "
    text += "param K[a in range(33), b in range(33)]  factor h[0, x[0]] + h[1, x[1]] + J[x[0], x[1]] + K[x[0], x[1]] }\nmask one = subsets(size = 1)"
    model = gm.parse(text).model()
    fit = model.fit(np.random.default_rng(0).integers(0, 33, (50, 2)), mask="one", max_steps=2, progress=False)
    assert "standard errors: none, for 2,244 parameters are more than the 2,000" in str(repr(fit))
    with pytest.raises(gm.GmlmError, match="errors must be"):
        fit.summary(errors="foo")


def test_to_ask_which_covariances_there_are_computes_none(monkeypatch: pytest.MonkeyPatch):
    found = gm.parse(FREE).model().fit(np.eye(4, dtype=int)).determined
    monkeypatch.setattr(type(found), "_computed", lambda *_: pytest.fail("a covariance was computed"))
    assert all(kind in found for kind in ("sandwich", "laplace", "one_mask"))
    assert "nonsense" not in found and None not in found and list(found) == ["sandwich", "laplace", "one_mask"]
