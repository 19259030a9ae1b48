"""Draws of parameters with log likelihoods: against a grid, against ArviZ, calibrated, and refused where there is no likelihood."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.sample._arviz import arviz, groups_of, is_datatree, quiet

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")
COIN = """
model coin {
  var   x[i in range(2)] : bit
  param h    ~ normal(0.5, 1)
  param J
  factor h * (x[0] + x[1])
  factor J * x[0] * x[1]
}
mask single = subsets(size = 1)
mask whole  = everything()
"""
ROWS = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [11, 4, 3, 12], axis=0)
GRID = np.linspace(-4, 4, 4001)
PRIOR = -0.5 * (GRID - 0.5) ** 2


@functools.cache
def fitted(mask: str, held: bool) -> Any:
    return gm.parse(COIN).model().fit(ROWS, mask, fixed={"J": 0.3} if held else None)


@functools.cache
def drawn(mask: str, held: bool, calibrate: str | None = "curvature", draws: int = 1000, chains: int = 2) -> Any:
    return fitted(mask, held).posterior(draws, chains, calibrate, seed=1, warmup=200)


def row_log_likelihoods(h: np.ndarray, coupling: np.ndarray | float) -> np.ndarray:
    """log p(x_r) by hand, the rows last."""
    weight = np.stack([0 * h, h, h, 2 * h + coupling], axis=-1)
    table = weight - np.log(np.exp(weight).sum(axis=-1, keepdims=True))
    return table[..., ROWS[:, 0] * 2 + ROWS[:, 1]]


def row_pseudo_likelihoods(h: np.ndarray, coupling: np.ndarray | float) -> np.ndarray:
    """log p(x_0 | x_1) + log p(x_1 | x_0) by hand, c = 2 and the mean over both cells, the rows last."""
    h, coupling = np.asarray(h)[..., None], np.asarray(coupling)[..., None]
    return sum(ROWS[:, i] * (e := h + coupling * ROWS[:, 1 - i]) - np.log1p(np.exp(e)) for i in (0, 1))


def moments(log_density: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation on the grid."""
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = density @ GRID
    return mean, np.sqrt(density @ GRID**2 - mean**2)


def derivatives(h: float) -> tuple[float, float]:
    """H and S at h by hand: of -c loss_r the second derivative summed, and the variance of the first summed over rows."""
    step = 1e-4
    low, here, high = (row_pseudo_likelihoods(np.asarray(h + d), 0.3) for d in (-step, 0.0, step))
    first = (high - low) / (2 * step)
    return float(-(high - 2 * here + low).sum() / step**2), float(((first - first.mean()) ** 2).sum())


def minimiser() -> float:
    """Of the loss without the prior, on a finer and finer grid."""
    low, high = -4.0, 4.0
    for _ in range(12):
        grid = np.linspace(low, high, 41)
        k = int(row_pseudo_likelihoods(grid, 0.3).sum(axis=1).argmax())
        low, high = grid[max(k - 1, 0)], grid[min(k + 1, 40)]
    return (low + high) / 2


def of_draws(idata: Any) -> tuple[np.ndarray, float]:
    """The draws of h, and how many independent ones they are worth."""
    with quiet():
        size = float(arviz().ess(idata, var_names=["h"])["h"])
    return groups_of(idata)["posterior"]["h"].values, size


def agree(idata: Any, mean: float, spread: float) -> None:
    """Mean and spread of the draws within five Monte Carlo errors."""
    h, size = of_draws(idata)
    assert size > 500
    assert abs(h.mean() - mean) < 5 * spread / np.sqrt(size)
    assert abs(h.std() / spread - 1) < 5 / np.sqrt(2 * size)


def test_draws_are_the_posteriors():
    """One parameter: mean and spread of the draws against a grid, within 5 Monte Carlo errors; log p(x_r) against a formula."""
    agree(drawn("whole", True), *moments(row_log_likelihoods(GRID, 0.3).sum(axis=1) + PRIOR))
    groups = groups_of(drawn("whole", True))
    h, pointwise = groups["posterior"]["h"].values, groups["log_likelihood"]["x"]
    assert pointwise.dims == ("chain", "draw", "row")
    np.testing.assert_allclose(pointwise.values, row_log_likelihoods(h, 0.3), atol=1e-9)
    prior = -0.5 * (h - 0.5) ** 2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(groups["sample_stats"]["lp"].values, pointwise.values.sum(axis=2) + prior, atol=1e-8)
    assert (groups["posterior"]["J"].values == 0.3).all()
    np.testing.assert_array_equal(groups["observed_data"]["x"].values, ROWS)
    assert groups["posterior"].attrs["calibration"].startswith("the likelihood")


@pytest.mark.slow
def test_calibrated_draws_are_those_of_the_loss_taken_elsewhere():
    """The prior times exp(-c loss) at est + C (h - est), C = sqrt(H / S), on a grid; rows at the draws themselves."""
    est = minimiser()
    H, S = derivatives(est)
    assert abs(H / S - 1) > 0.2  # or else there is nothing to calibrate
    there = est + np.sqrt(H / S) * (GRID - est)
    agree(drawn("single", True), *moments(row_pseudo_likelihoods(there, 0.3).sum(axis=1) + PRIOR))
    groups = groups_of(drawn("single", True))
    expected = row_pseudo_likelihoods(groups["posterior"]["h"].values, 0.3)
    np.testing.assert_allclose(groups["log_pseudolikelihood"]["x"].values, expected, atol=1e-9)
    assert groups["posterior"].attrs["calibration"] == "calibrated: curvature, S from the rows"


@pytest.mark.slow
def test_open_faced_draws_are_those_of_the_loss_moved_around_the_estimate():
    """est + sqrt(S / H) (h - est), est the fit's own, of the same draws that are labelled: not calibrated."""
    plain, moved = (of_draws(drawn("single", True, how))[0] for how in (None, "open_faced"))
    H, S = derivatives(minimiser())
    est = float(fitted("single", True).params["h"])
    np.testing.assert_allclose(moved, est + np.sqrt(S / H) * (plain - est), rtol=1e-5)
    agree(drawn("single", True, None), *moments(row_pseudo_likelihoods(GRID, 0.3).sum(axis=1) + PRIOR))
    assert groups_of(drawn("single", True, None))["posterior"].attrs["calibration"] == "not calibrated"
    with pytest.raises(gm.GmlmError, match=r'"curvature", "open_faced", "simulated" or None, got \'sandwich\''):
        fitted("single", True).posterior(calibrate="sandwich")


@pytest.mark.slow
def test_arviz_leaves_one_out_as_the_grid_does():
    """elpd_loo of `arviz.loo` against leaving each row out on the grid, to 0.05: of draws whose density is a product over rows.

    Of 32,000 draws its standard deviation over seeds is 0.022, so that of 64,000 is 0.016; of 2,000 it was 0.04, and the mean 0.05 off.
    """
    for rows, idata in (
        (row_log_likelihoods(GRID, 0.3), drawn("whole", True, "curvature", 16000, 4)),
        (row_pseudo_likelihoods(GRID, 0.3), drawn("single", True, None, 16000, 4)),
    ):
        joint = rows.sum(axis=1) + PRIOR
        rest = np.exp(joint[:, None] - rows)
        exact = np.log((rest * np.exp(rows)).sum(axis=0) / rest.sum(axis=0)).sum()
        with quiet():
            loo = arviz().loo(idata)
        found = float(getattr(loo, "elpd", None) or loo["elpd_loo"])
        assert abs(found - exact) < 0.05
    with quiet():
        whole = arviz().loo(drawn("whole", True))
    found = float(getattr(whole, "elpd", None) or whole["elpd_loo"])
    assert abs(found + fitted("whole", True).information_criterion().value / 2) < 0.3


@pytest.mark.parametrize("how", ["curvature", pytest.param("open_faced", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_arviz_is_refused_a_likelihood_of_calibrated_draws(how: str):
    """Their density is no product of p(x_r): weights 1 / p(x_r) do not leave row r out. What a user adds is his own."""
    idata = fitted("single", True).posterior(5, 1, how, warmup=5)
    groups = groups_of(idata)
    assert "log_likelihood" not in groups
    assert groups["log_pseudolikelihood"]["x"].dims == ("chain", "draw", "row")
    for ask in (arviz().loo, arviz().waic) if not is_datatree() else ():
        with quiet(), pytest.raises(gm.GmlmError, match="calibrated pseudolikelihood") as caught:
            ask(idata)
        assert caught.value.codes == ("E550",)
        assert "`fit.cross_validate(folds=10)`" in caught.value.diagnostics[0].help
    if not is_datatree():
        again = pickle.loads(pickle.dumps(idata))
        again.add_groups({"log_likelihood": {"x": np.zeros((1, 5, 30))}})
        assert again.log_likelihood["x"].shape == (1, 5, 30)


@pytest.mark.slow
def test_arviz_compares_fits():
    with quiet():
        table = arviz().compare({"held": drawn("whole", True), "free": drawn("whole", False)})
    assert set(table.index) == {"held", "free"}


@pytest.mark.slow  # test_ignored_gaps.py has the objective beside loops
def test_gaps_that_are_left_out():
    """A row that lacks a cell has the other cell's term without the factors of both, log 1/2; like rows stand in the objective once."""
    rows = np.concatenate([ROWS, [[-9, 1], [0, -9], [-9, 1], [-9, 0], [-9, -9], [1, -9]]])
    model, options = gm.parse(COIN).model(), {"missing": -9, "gaps": "ignore"}
    groups = groups_of(model.fit(rows, "single", **options).posterior(20, 1, None, warmup=20))
    h, coupling = (groups["posterior"][k].values for k in ("h", "J"))
    zero_or_one = np.where(rows < 0, 0, rows)
    wanted = 0
    for i in (0, 1):
        field = (h[..., None] + coupling[..., None] * zero_or_one[:, 1 - i]) * (rows[:, 1 - i] >= 0)
        wanted = wanted + np.where(rows[:, i] < 0, 0.0, zero_or_one[:, i] * field - np.log1p(np.exp(field)))
    np.testing.assert_allclose(groups["log_likelihood"]["x"].values, wanted, atol=1e-9)  # not calibrated
    likelihood = model.to_numpyro(rows, "single", **options)
    assert "curvature" in likelihood.calibration
    point = {"h": h[0, 0], "J": coupling[0, 0]}
    np.testing.assert_allclose(likelihood.log_likelihood(point), wanted[0, 0], atol=1e-9)


@pytest.mark.slow
def test_draws_come_from_the_seed():
    fit = fitted("whole", True)
    one, again, other = (groups_of(fit.posterior(5, 2, seed=s, warmup=150))["posterior"]["h"].values for s in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any() and (one[0] != one[1]).any()


@pytest.mark.produces("E550")
def test_what_has_no_likelihood_of_rows_is_refused_where_one_is_asked_for():
    with pytest.raises(gm.GmlmError, match=r"mask `single` has a pseudolikelihood") as caught:
        fitted("single", False).to_arviz()
    assert caught.value.codes == ("E550",)
    assert "`fit.posterior()`" in caught.value.diagnostics[0].help
    weighted = gm.parse(COIN).model().fit(ROWS, "whole", weights=np.arange(1.0, 31))
    with pytest.raises(gm.GmlmError, match="rows with weights have no likelihood"):
        weighted.to_arviz()


@pytest.mark.slow
def test_a_row_of_weight_0_is_none():
    some = gm.parse(COIN).model().fit(ROWS, "whole", weights=np.arange(30) % 2)
    assert groups_of(some.to_arviz(draws=2, chains=1))["log_likelihood"]["x"].values[0, 0, 0] == 0


@pytest.mark.produces("E552")
def test_what_has_no_posterior_or_costs_too_much_is_refused():
    separated = gm.parse(COIN).model().fit(ROWS[:11], "whole")
    with pytest.raises(gm.GmlmError) as caught:
        separated.posterior()
    assert caught.value.codes == ("E552",)
    with pytest.raises(gm.GmlmError, match=r"log p of 30 rows at 4,000,002,000 draws") as caught:
        fitted("whole", False).posterior(draws=10**9)
    assert caught.value.codes == ("E601",)
    with pytest.raises(gm.GmlmError, match="draws must be"):
        fitted("whole", False).posterior(draws=0)


@pytest.mark.slow
def test_a_saved_fit_takes_its_rows_again(tmp_path: Any):
    fitted("single", True).save(tmp_path / "coin.fit")
    again = gm.load_fit(tmp_path / "coin.fit")
    with pytest.raises(gm.GmlmError) as caught:
        again.posterior()
    assert "E505" in caught.value.codes
    found = groups_of(again.posterior(1000, 2, seed=1, warmup=200, x=ROWS))["posterior"]["h"].values
    np.testing.assert_allclose(found, of_draws(drawn("single", True))[0], rtol=1e-6)
    with pytest.raises(gm.GmlmError) as caught:
        again.posterior(x=1 - ROWS)
    assert caught.value.codes == ("E551",)
