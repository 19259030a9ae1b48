"""Held-out losses, cross-validation and the information criterion, against the oracle and against leaving rows out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import Case
from fit_cases import TRIO, TRUTH, flat, rows, trio, unflat
from oracle import numerical_gradient
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.assess import _score
from gmlmdsl.assess._score import assign_folds, standard_error
from gmlmdsl.fit import Inferred

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")
N = 60
CODES = rows(N, seed=5)


@pytest.fixture(scope="module")
def fits() -> dict[str, Any]:
    """Fits to the same rows under four masks, made when they are first asked for."""

    class Made(dict):
        def __missing__(self, mask: str) -> Any:
            self[mask] = trio.model.fit(trio.values(CODES), mask)
            return self[mask]

    return Made()


def scaled_losses(params: dict[str, np.ndarray], codes: np.ndarray, mask: str) -> np.ndarray:
    """c * loss of each row, from the oracle."""
    return trio.oracle.fit_constant(params, codes, mask) * trio.oracle.row_losses(params, codes, mask)


@pytest.mark.parametrize("mask", thinned(["single", "seeing"], 2))
def test_held_out_losses_are_the_oracles(mask: str, fits: dict[str, Any]):
    fresh = rows(N, seed=6)
    score = fits[mask].score(trio.values(fresh))
    expected = scaled_losses(fits[mask].params, fresh, mask)
    np.testing.assert_allclose(score.losses, expected, rtol=1e-9)
    np.testing.assert_allclose(score.mean, expected.mean(), rtol=1e-9)
    np.testing.assert_allclose(score.std_error, expected.std(ddof=1) / np.sqrt(N), rtol=1e-9)


def test_rows_can_be_scored_under_another_mask(fits: dict[str, Any]):
    """Of all cells, c is 1 and the loss -log p(x); weights weigh the mean."""
    fresh, weights = rows(N, seed=6), np.arange(float(N))
    score = fits["single"].score(trio.values(fresh), mask="whole", weights=weights)
    expected = -trio.oracle.log_prob(fits["single"].params, fresh)
    np.testing.assert_allclose(score.losses, expected, rtol=1e-9)
    np.testing.assert_allclose(score.mean, np.average(expected, weights=weights), rtol=1e-9)


def test_an_impossible_row_loses_infinitely(fits: dict[str, Any]):
    impossible = trio.oracle.states[trio.oracle.probabilities(TRUTH) == 0][:1]
    score = fits["single"].score(trio.values(np.concatenate([CODES[:2], impossible])))
    assert np.isinf(score.losses).tolist() == [False, False, True]


@pytest.mark.slow  # a mask of its own; an impossible row is above
def test_also_where_the_mask_does_not_see_why(fits: dict[str, Any]):
    """Given the rest, x[0] is as likely as ever; but the row itself has probability zero."""
    text = TRIO + "mask first { choose {x[0]} weight 1 }"
    model = gm.parse(text).model()
    fit = model.fit(trio.values(CODES), "first", fixed={k: fits["single"].params[k] for k in ("h", "J")})
    impossible = trio.oracle.states[trio.oracle.probabilities(TRUTH) == 0][:1]
    score = fit.score(trio.values(np.concatenate([CODES[: N - 1], impossible])))
    assert np.isinf(score.losses).tolist() == [False] * (N - 1) + [True]


def test_the_standard_error_takes_groups_as_one_observation():
    """A group's deviations add up before they are squared: rows given twice, in groups of two, have the error of the rows alone."""
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=30), rng.uniform(0.5, 2, 30)
    alone = standard_error(values, weights)
    np.testing.assert_allclose(standard_error(np.repeat(values, 2), np.repeat(weights, 2), np.repeat(np.arange(30), 2)), alone, rtol=1e-12)
    assert standard_error(np.repeat(values, 2), np.repeat(weights, 2)) < 0.75 * alone
    np.testing.assert_allclose(standard_error(values, np.ones(30)), values.std(ddof=1) / np.sqrt(30), rtol=1e-12)
    assert np.isnan(standard_error(values[:1], weights[:1]))


# Folds


def test_folds_are_even_and_come_from_the_seed():
    weights = np.ones(103)
    weights[7] = 0
    folds = assign_folds(weights, 10, 0, None, None)
    assert folds[7] == -1
    assert sorted(np.bincount(folds[folds >= 0])) == [10] * 8 + [11] * 2
    np.testing.assert_array_equal(folds, assign_folds(weights, 10, 0, None, None))
    assert (folds != assign_folds(weights, 10, 1, None, None)).any()


def test_groups_stay_whole_and_strata_are_spread():
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 40, 200)
    strata = np.array([g % 4 == 0 for g in groups]).astype(int)
    folds = assign_folds(np.ones(200), 5, 0, groups, strata)
    for g in np.unique(groups):
        assert len(set(folds[groups == g])) == 1
    by_group = {g: folds[groups == g][0] for g in np.unique(groups)}
    rare = np.bincount([f for g, f in by_group.items() if g % 4 == 0], minlength=5)
    assert rare.max() - rare.min() <= 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((1, 0, None, None), "E507", "at least 2"),
        ((21, 0, None, None), "E507", "the number of rows, 20"),
        ((5, 0, np.arange(20) % 4, None), "E507", "the number of groups, 4"),
        ((2, -1, None, None), "E507", "seed must be"),
        ((2, 0, np.arange(20) // 2, np.arange(20) % 2), "E507", "different strata"),
    ],
)
def test_folds_that_do_not_fit(arguments: tuple[Any, ...], code: str, said: str):
    with pytest.raises(gm.GmlmError, match=said) as caught:
        assign_folds(np.ones(20), *arguments)
    assert caught.value.codes == (code,)


def test_too_many_fits_are_refused_with_their_number():
    with pytest.raises(gm.GmlmError, match="2000 folds are as many fits, more than the limit of 1000"):
        assign_folds(np.ones(3000), 2000, 0, None, None)


# Cross-validation


@pytest.mark.slow
def test_a_held_out_row_is_scored_by_a_fit_that_has_not_seen_it(fits: dict[str, Any]):
    """Three folds: each row's loss is the oracle's at the fit to the other rows, cut out for it."""
    cv = fits["single"].cross_validate(3, seed=2)
    assert cv.statuses == ("converged",) * 3
    for k in range(3):
        out = cv.folds == k
        alone = trio.model.fit(trio.values(CODES[~out]), "single")
        np.testing.assert_allclose(cv.losses[out], scaled_losses(alone.params, CODES[out], "single"), atol=1e-5)
    np.testing.assert_allclose(cv.mean, cv.losses.mean(), rtol=1e-12)
    np.testing.assert_allclose(cv.training, scaled_losses(fits["single"].params, CODES, "single").mean(), rtol=1e-6)
    assert cv.mean > cv.training
    assert "3 folds under mask single" in repr(cv)


def test_folds_that_fail_are_named(fits: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    import dataclasses

    real = _score.refit

    def stopped(*arguments: Any) -> Any:
        found = real(*arguments)
        return dataclasses.replace(found, inference=Inferred(dataclasses.replace(found.status, code="not-converged"), {}))

    monkeypatch.setattr(_score, "refit", stopped)
    assert "2 folds did not converge: not-converged" in repr(fits["single"].cross_validate(2))


# The information criterion


firm = Case("firm", TRIO.replace("normal(0.2, 2)", "normal(1.5, 0.4)"))  # the scores of its rows are far from summing to 0


@pytest.mark.slow
@pytest.mark.parametrize(("case", "mask"), thinned([(firm, "single"), (trio, "seeing")], 2), ids=["firm", "seeing"])
def test_the_effective_parameters_are_the_trace(case: Case, mask: str):
    """tr(S H^-1) by central differences of the oracle, weights and priors and all."""
    codes, counts = CODES, np.random.default_rng(3).integers(0, 4, N).astype(float)
    fit = case.model.fit(case.values(codes), mask, weights=counts)
    found = fit.information_criterion()
    here, step = flat(fit.params), 1e-3

    def gradient(v: np.ndarray) -> np.ndarray:
        return flat(numerical_gradient(lambda p: case.oracle.fit_objective(p, codes, mask, counts), unflat(v, fit.params), 1e-4))

    unit = np.eye(len(here))
    hessian = np.array([(gradient(here + step * e) - gradient(here - step * e)) / (2 * step) for e in unit])
    ends = [[case.oracle.row_losses(unflat(here + s * step * e, fit.params), codes, mask) for e in unit] for s in (1, -1)]
    c = case.oracle.fit_constant(fit.params, codes, mask)
    u = c * counts * (np.array(ends[0]) - np.array(ends[1])) / (2 * step)
    apart = np.where(counts > 0, u - u[:, counts > 0].mean(axis=1, keepdims=True), 0.0)
    np.testing.assert_allclose(found.effective_parameters, np.trace(np.linalg.solve(hessian, apart @ apart.T)), rtol=1e-4)
    losses = c * counts * case.oracle.row_losses(fit.params, codes, mask)
    np.testing.assert_allclose(found.loss, losses.sum(), rtol=1e-7)
    np.testing.assert_allclose(found.value, 2 * (found.loss + found.effective_parameters), rtol=1e-12)
    np.testing.assert_allclose(found.contributions.sum(), found.value, rtol=1e-9)
    np.testing.assert_allclose(found.contributions, 2 * (losses + (u * np.linalg.solve(hessian, apart)).sum(axis=0)), rtol=1e-3, atol=1e-3)
    assert found.parameters == len(here)


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["single"])
def test_half_of_it_is_nearly_the_loss_by_leaving_one_out(mask: str, fits: dict[str, Any]):
    """60 rows, 8 parameters: within a seventh of the correction, row by row too."""
    criterion, left_out = fits[mask].information_criterion(), fits[mask].cross_validate(N)
    assert abs(criterion.value / 2 - left_out.losses.sum()) < criterion.effective_parameters / 7
    assert left_out.losses.sum() - criterion.loss > 0.8 * criterion.effective_parameters
    share, moved = criterion.contributions / 2 - scaled_losses(fits[mask].params, CODES, mask), left_out.losses
    moved = moved - scaled_losses(fits[mask].params, CODES, mask)
    assert np.corrcoef(share, moved)[0, 1] > 0.98


@pytest.mark.slow
def test_a_firm_prior_leaves_no_parameters():
    text = TRIO.replace("normal(0.2, 2)", "normal(0.2, 0.01)").replace("student_t(4, 0, 1)", "normal(0, 0.01)").replace("1.5", "0.01")
    fit = gm.parse(text).model().fit(trio.values(CODES), "single")
    assert 0 < fit.information_criterion().effective_parameters < 0.2


@pytest.mark.produces("E551")
@pytest.mark.slow
def test_a_loaded_fit_takes_its_rows_and_no_others(tmp_path: Path, fits: dict[str, Any]):
    fit = fits["single"]
    fit.save(tmp_path / "a.fit")
    loaded = gm.load_fit(tmp_path / "a.fit")
    np.testing.assert_allclose(loaded.information_criterion(trio.values(CODES)).value, fit.information_criterion().value, rtol=1e-9)
    np.testing.assert_allclose(loaded.cross_validate(3, x=trio.values(CODES)).losses, fit.cross_validate(3).losses, atol=1e-6)
    for use, code in ((lambda: loaded.information_criterion(), "E505"), (lambda: loaded.cross_validate(), "E505")):
        with pytest.raises(gm.GmlmError) as caught:
            use()
        assert caught.value.codes == (code,)
    with pytest.raises(gm.GmlmError, match="not the rows of the fit") as caught:
        loaded.information_criterion(trio.values(rows(N, seed=9)))
    assert caught.value.codes == ("E551",)


@pytest.mark.slow
def test_a_fit_without_a_minimum_has_no_criterion():
    pair = gm.parse(
        "model m { var a : bit  var b : bit  param h  param g  param J  factor h * a  factor g * b  factor J * a * b } mask one = subsets(size = 1)"
    )
    rows_ = {"a": np.repeat([0, 0, 1], 20), "b": np.repeat([0, 1, 0], 20)}
    fit = pair.model().fit(rows_)
    with pytest.raises(gm.GmlmError, match="no-minimiser") as caught:
        fit.information_criterion()
    assert caught.value.codes == ("E552",)
    more = {"a": np.append(rows_["a"], 1), "b": np.append(rows_["b"], 1)}
    assert np.isfinite(pair.model().fit(more).information_criterion().value)


def test_what_does_not_go_with_the_rows_is_refused(fits: dict[str, Any]):
    with pytest.raises(gm.GmlmError, match="`weights=` go with `x=`"):
        fits["single"].cross_validate(weights=np.ones(N))
    with pytest.raises(gm.GmlmError, match=r"groups must have shape \(60,\)"):
        fits["single"].cross_validate(groups=[1, 2])


# Missing cells


def with_gaps(codes: np.ndarray) -> tuple[Any, np.ndarray]:
    """A fifth of the cells hidden, as values with -9 and as codes with -1; one row has nothing observed."""
    gaps = np.random.default_rng(8).random(codes.shape) < 0.2
    gaps[3] = True
    x = trio.values(codes)
    return {"x": np.where(gaps[:, :3], -9, x["x"]), "w": np.where(gaps[:, 3], -9, codes[:, 3])}, np.where(gaps, -1, codes)


@pytest.mark.slow
def test_rows_with_gaps_are_scored_and_held_out():
    """The oracle sums the missing cells out, and gives the trace by its derivatives."""
    x, codes = with_gaps(CODES)
    fit = trio.model.fit(x, "single", missing=-9)
    losses = scaled_losses(fit.params, codes, "single")
    np.testing.assert_allclose(fit.score(x, missing=-9).losses, losses, rtol=1e-9, atol=1e-9)
    criterion, step = fit.information_criterion(), 1e-3
    here = flat(fit.params)
    unit = np.eye(len(here))

    def gradient(v: np.ndarray) -> np.ndarray:
        return flat(numerical_gradient(lambda p: trio.oracle.fit_objective(p, codes, "single"), unflat(v, fit.params), 1e-4))

    hessian = np.array([(gradient(here + step * e) - gradient(here - step * e)) / (2 * step) for e in unit])
    ends = [[scaled_losses(unflat(here + s * step * e, fit.params), codes, "single") for e in unit] for s in (1, -1)]
    u = (np.array(ends[0]) - np.array(ends[1])) / (2 * step)
    apart = u - u.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(criterion.effective_parameters, np.trace(np.linalg.solve(hessian, apart @ apart.T)), rtol=1e-4)
    assert np.isfinite(fit.cross_validate(2).losses).all()


def test_a_fit_that_imputed_rows_has_no_criterion(fits: dict[str, Any]):
    import dataclasses

    fit = dataclasses.replace(fits["single"], missing=dataclasses.replace(fits["single"].missing, imputed=3))
    with pytest.raises(gm.GmlmError, match="were imputed at random") as caught:
        fit.information_criterion()
    assert caught.value.codes == ("E552",)


# Comparisons


@pytest.mark.slow
def test_fits_are_compared_row_by_row(fits: dict[str, Any]):
    alone = trio.model.fit(trio.values(CODES), "single", fixed={"J": [0.0, 0.0]})
    found = gm.compare({"alone": alone, "coupled": fits["single"]}, folds=3)
    table = found.table
    a, b = alone.information_criterion(), fits["single"].information_criterion()
    best = "coupled" if b.value < a.value else "alone"
    other = {"alone": "coupled", "coupled": "alone"}[best]
    assert table.loc[best, "clic_difference"] == 0
    np.testing.assert_allclose(table.loc[other, "clic_difference"], abs(a.value - b.value), rtol=1e-12)
    apart = a.contributions - b.contributions
    np.testing.assert_allclose(table.loc[other, "clic_error"], np.sqrt(N) * apart.std(ddof=1), rtol=1e-9)
    x, y = alone.cross_validate(3), fits["single"].cross_validate(3)
    np.testing.assert_allclose(table["loss_difference"].max(), abs(x.mean - y.mean), rtol=1e-9)
    np.testing.assert_allclose(table["loss_error"].max(), (x.losses - y.losses).std(ddof=1) / np.sqrt(N), rtol=1e-9)
    assert "smaller is better" in repr(found) and "<table" in found._repr_html_()
    again = gm.compare({"alone": x, "coupled": y}).table
    np.testing.assert_array_equal(again["loss_difference"], table.loc[again.index, "loss_difference"])


@pytest.mark.slow  # the gate compares fits of one mask
def test_fits_of_different_masks_are_compared_under_one(fits: dict[str, Any]):
    table = gm.compare({"single": fits["single"], "seeing": fits["seeing"]}, folds=2, mask="single").table
    assert list(table.columns) == ["loss", "loss_difference", "loss_error"]


@pytest.mark.slow
def test_losses_of_different_masks_or_rows_are_not_compared(fits: dict[str, Any]):
    with pytest.raises(gm.GmlmError, match="under another mask") as caught:
        gm.compare({"single": fits["single"], "seeing": fits["seeing"]})
    assert caught.value.codes == ("E551",)
    a, b = fits["single"].score(trio.values(CODES)), fits["single"].score(trio.values(CODES[::-1]))
    with pytest.raises(gm.GmlmError, match="different rows"):
        gm.compare({"a": a, "b": b})
    with pytest.raises(gm.GmlmError, match="all of one kind; got Fit, .*"):
        gm.compare({"a": a, "b": fits["single"]})
    for arguments in (({"a": a},), (a,)):
        with pytest.raises(gm.GmlmError, match="two fits or more"):
            gm.compare(*arguments)
    with pytest.raises(gm.GmlmError, match="`mask=` needs `folds=`"):
        gm.compare(dict(fits), mask="single")


@pytest.mark.slow  # two more fits; the gate scores rows under another mask below
def test_one_law_is_one_mask_whatever_it_is_called(fits: dict[str, Any]):
    """The masks of another program are compared by p(K | x): a list of all single cells is `subsets(size = 1)`."""
    listed = TRIO.replace("single = subsets(size = 1)", "each_one { choose {x[i]} for i in G.nodes weight 2  choose {w} weight 2 }")
    tilted = listed.replace("choose {w} weight 2", "choose {w} weight 1")
    x = trio.values(CODES)
    reference = fits["single"].score(x).measure
    same, other = (gm.parse(t).model().fit(x, "each_one").score(x).measure for t in (listed, tilted))
    assert (same.law, same.rows) == (reference.law, reference.rows)
    assert other.law != reference.law
    assert fits["seeing"].score(x).measure.law not in (reference.law, other.law)


@pytest.mark.slow
def test_an_entry_at_its_kink_is_no_effective_parameter():
    """A coupling that a laplace prior holds at 0 leaves the criterion of the model without it."""
    text = (
        "model m {{ var x[i in range(3)] : spin  param h[i in range(3)] ~ normal(0, 3)  {0}  factor h[i] * x[i] for i in range(3)  {1} }}"
    )
    x = np.random.default_rng(0).choice([-1, 1], (100, 3))
    sparse = text.format("param J ~ laplace(0, 0.001)", "factor J * x[0] * x[1]")
    found = [gm.parse(f"{t}\nmask one = subsets(x, size = 1)").model().fit(x, "one") for t in (sparse, text.format("", ""))]
    held, without = (f.information_criterion() for f in found)
    assert found[0].params["J"] == 0
    assert held.effective_parameters == pytest.approx(without.effective_parameters, rel=1e-6)
    assert held.value == pytest.approx(without.value, rel=1e-6)
