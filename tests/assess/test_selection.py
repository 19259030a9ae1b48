"""Laplace priors: no interval at their centre, what is shrunk is said, and the entries that they left free are fitted without them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
from refusals import refused
from thinned import thinned
from typer.testing import CliRunner

import gmlmdsl as gm
from gmlmdsl.cli._commands import app

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

SPARSE = """
graph G = complete(range(5))
model m {
  var x[i in range(5)] : spin
  param J[(i, j) in G.edges] ~ laplace(0, 0.02)
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
KEPT = """
input pairs[e, 2] : int
graph G = edges(pairs, nodes = range(5))
model m {
  var x[i in range(5)] : spin
  param J[(i, j) in G.edges]
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
BIT = "model m { var x : bit  param h ~ {prior}  factor h * x }\nmask one = everything()"


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.sign(rng.normal(size=(200, 1)) + rng.normal(size=(200, 5))).astype(int)


@pytest.fixture(scope="module")
def sparse(rows: np.ndarray) -> gm.Fit:
    return in_doubles(lambda: gm.parse(SPARSE).model().fit(rows))


def in_doubles(call: Callable[[], gm.Fit]) -> gm.Fit:
    """For fixtures of the module: what `pytestmark` sets for a test."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # pyright: ignore[reportAttributeAccessIssue]
        return call()


@pytest.fixture(scope="module")
def refitted(sparse: gm.Fit) -> gm.Fit:
    return in_doubles(sparse.refit_selected)


def bit(prior: str, ones: int, zeros: int) -> gm.Fit:
    return gm.parse(BIT.replace("{prior}", prior)).model().fit([0, 1], weights=[zeros, ones], weights_are="counts")


def slugs(fit: gm.Fit) -> set[str]:
    return {f.slug for f in fit.status.findings}


def test_an_entry_at_its_centre_has_no_interval(sparse: gm.Fit):
    table, zero = sparse.summary(), sparse.params["J"] == 0
    assert 0 < zero.sum() < 10
    assert table.loc[zero, ["std_error", "3%", "97%"]].isna().all(axis=None)
    assert table.loc[~zero, ["std_error", "3%", "97%"]].notna().all(axis=None)
    assert (table["note"][zero] == "at its prior's centre").all()
    np.testing.assert_array_equal(np.isnan(sparse.standard_errors["J"]), zero)
    np.testing.assert_array_equal(np.isnan(sparse.interval(errors="laplace")["J"]), [zero, zero])
    assert "<td>none</td>" in sparse._repr_html_()


@pytest.mark.slow
def test_the_command_line_and_the_report_say_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "m.gmlm").write_text(BIT.replace("{prior}", "laplace(0, 0.01)").replace("h ~", "g ~ normal(0, 9)  param h ~") + "\n")
    (tmp_path / "m.gmlm").write_text((tmp_path / "m.gmlm").read_text().replace("factor h * x", "factor (g + h) * x"))
    (tmp_path / "x.csv").write_text("x\n" + "0\n1\n" * 40 + "1\n")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["fit", "m.gmlm", "x.csv", "--mask", "one", "--report", "r.html"])
    assert done.exit_code == 0, done.output
    line = next(part for part in done.stdout.splitlines() if part.split()[:1] == ["h"])
    assert line.split()[2:5] == ["none", "none", "none"], line
    assert "none</td>" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("prior", thinned(["laplace(0, 0.2)", "normal(0, 0.5)", "student_t(3, 0, 0.5)"], 3))
def test_what_priors_shrink_is_measured_whatever_their_form(prior: str):
    """Of one bit the data alone give log(ones / zeros); that, less the estimate, is compared with the standard error."""
    for ones, zeros in ((30, 10), (3000, 1000), (20, 20)):
        fit = bit(prior, ones, zeros)
        away = (np.log(ones / zeros) - fit.params["h"]) / np.nan_to_num(fit.standard_errors["h"], nan=1.0)
        assert fit.status.shrunk is None or fit.status.shrunk.tolist() == [bool(away > 0.5)]
        assert ("shrunk" in slugs(fit)) == (away > 0.5) == ("shrunk" in list(fit.summary().get("note", ())))
    assert "shrunk" in slugs(bit(prior, 30, 10))
    assert "shrunk" not in slugs(bit(prior, 3000, 1000))


def test_the_remedy_names_the_refit_where_there_is_one():
    said = {
        prior: next(f.remedy for f in bit(prior, 30, 10).status.findings if f.slug == "shrunk")
        for prior in ("laplace(0, 0.2)", "normal(0, 0.5)")
    }
    assert "refit_selected" in said["laplace(0, 0.2)"]
    assert "refit_selected" not in said["normal(0, 0.5)"]


@pytest.mark.slow
def test_the_refit_is_a_fit_of_the_smaller_model_without_a_prior(rows: np.ndarray, sparse: gm.Fit, refitted: gm.Fit):
    """The couplings at zero are no factors of the other model; estimates, both errors, objective and criterion are the same."""
    left, right = np.triu_indices(5, 1)
    kept = np.flatnonzero(sparse.params["J"])
    other = gm.parse(KEPT, pairs=np.stack([left, right], axis=1)[kept]).model().fit(rows)
    assert refitted.status.converged
    np.testing.assert_allclose(refitted.params["J"][kept], other.params["J"], rtol=1e-6)
    assert (np.delete(refitted.params["J"], kept) == 0).all()
    for errors in ("sandwich", "laplace"):
        np.testing.assert_allclose(refitted.standard_errors_of(errors)["J"][kept], other.standard_errors_of(errors)["J"], rtol=1e-6)
    assert np.isnan(np.delete(refitted.standard_errors["J"], kept)).all()
    np.testing.assert_allclose(refitted.objective, other.objective, rtol=1e-10)
    np.testing.assert_allclose(refitted.information_criterion().value, other.information_criterion().value, rtol=1e-8)
    assert (np.abs(refitted.params["J"][kept]) > np.abs(sparse.params["J"][kept])).all()


@pytest.mark.slow
def test_the_refit_says_that_its_errors_ignore_the_choice(sparse: gm.Fit, refitted: gm.Fit, rows: np.ndarray):
    (said,) = (f for f in refitted.status.findings if f.slug == "selected")
    assert "less often than they say" in said.message
    assert not {"at-kink", "shrunk"} & slugs(refitted)
    assert set(refitted.summary()["note"]) == {"", "held: not selected"}
    apart = sparse.refit_selected(rows[:150] * [1, 1, 1, 1, -1])
    (said,) = (f for f in apart.status.findings if f.slug == "selected")
    assert "less often" not in said.message
    assert "independent" in said.remedy
    np.testing.assert_array_equal(apart.params["J"] == 0, sparse.params["J"] == 0)


@pytest.mark.slow
def test_a_saved_refit_stays_one(tmp_path: Path, refitted: gm.Fit, sparse: gm.Fit, rows: np.ndarray):
    refitted.save(tmp_path / "a.fit")
    sparse.save(tmp_path / "b.fit")
    again, first = gm.load_fit(tmp_path / "a.fit"), gm.load_fit(tmp_path / "b.fit")
    assert again.summary().equals(refitted.summary())
    assert again.status.findings == refitted.status.findings
    np.testing.assert_allclose(again.information_criterion(rows).value, refitted.information_criterion().value, rtol=1e-8)
    assert first.summary().equals(sparse.summary())
    assert first.status.shrunk is not None
    np.testing.assert_array_equal(first.status.shrunk, sparse.status.shrunk)
    np.testing.assert_allclose(first.refit_selected(rows).params["J"], refitted.params["J"], atol=1e-7)
    refused("E505", first.refit_selected)


@pytest.mark.slow
def test_the_bootstrap_of_zeros_counts_and_gives_no_interval(sparse: gm.Fit, refitted: gm.Fit):
    zero = sparse.params["J"] == 0
    found, held = sparse.bootstrap(12), refitted.bootstrap(3)
    assert np.isnan(found.interval()["J"][0][zero]).all()
    assert np.isnan(found.standard_errors["J"][zero]).all()
    assert 0 < found.summary()["away"][zero].max() <= 1
    assert (held.estimates[:, zero] == 0).all()
    assert (held.summary()["away"][zero] == 0).all()


@pytest.mark.produces("E549")
def test_where_nothing_could_be_selected_it_is_refused(refitted: gm.Fit):
    refused("E549", bit("normal(0, 1)", 3, 2).refit_selected)
    refused("E549", refitted.refit_selected)
    model = gm.parse(BIT.replace("{prior}", "laplace(0, 1)")).model()
    refused("E549", model.fit([0, 1], fixed={"h": 0.3}).refit_selected)


def test_counts_are_taken_along():
    fit = bit("laplace(0, 0.2)", 30, 10).refit_selected()
    np.testing.assert_allclose(fit.params["h"], np.log(3), rtol=1e-6)
    np.testing.assert_allclose(fit.standard_errors["h"], np.sqrt(1 / 30 + 1 / 10), rtol=1e-6)
