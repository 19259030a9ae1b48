"""The diagnostics of discrete draws: known ESS, agreement with ArviZ, and for each warning a case and a near neighbour."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from gmlmdsl.sample._discrete_diagnostics import Diagnosis, chi_square_tail, diagnose, effective_sample_size, split_r_hat

CHAINS, DRAWS = 4, 1000


def sticky(keep: float, sizes=(2, 2, 3), chains=CHAINS, draws=DRAWS, seed=0) -> np.ndarray:
    """(chain, draw, cell) uniform codes; each draw keeps the previous code with probability `keep` (autocorrelation keep^t)."""
    random = np.random.default_rng(seed)
    fresh = np.stack([random.integers(0, k, (chains, draws)) for k in sizes], axis=2)
    codes = fresh.copy()
    for t in range(1, draws):
        codes[:, t] = np.where(random.random(codes[:, t].shape) < keep, codes[:, t - 1], fresh[:, t])
    return codes


def judge(codes: np.ndarray, sizes=(2, 2, 3), **options) -> Diagnosis:
    names = [f"x[{i}]" for i in range(len(sizes))]
    return diagnose(codes, names, [[f"c{k}" for k in range(size)] for size in sizes], **options)


def said(found: Diagnosis, words: str) -> str | None:
    return next((w for w in found.warnings if words in w), None)


def test_good_draws_give_no_warning():
    found = judge(sticky(0.0), flip_rates={"x": 0.5})
    assert found.warnings == ()
    assert found.worst_category.min() >= 0
    assert np.isnan(found.ess[0, 2])


def test_independent_draws_have_ess_near_their_number():
    codes = np.random.default_rng(1).integers(0, 2, (4, 4000, 40))
    ess = effective_sample_size(codes)
    assert ess.mean() == pytest.approx(16000, rel=0.05)
    assert np.abs(ess / 16000 - 1).max() < 0.35


@pytest.mark.parametrize("keep", [0.5, 0.8, 0.95])
def test_sticky_chain_has_the_known_ess(keep):
    codes = sticky(keep, sizes=(2,) * 40, draws=4000)
    assert effective_sample_size(codes).mean() == pytest.approx(16000 * (1 - keep) / (1 + keep), rel=0.1)


@pytest.mark.parametrize(("chains", "draws"), [(4, 200), (2, 101), (1, 100), (3, 9)])
def test_ess_and_r_hat_agree_with_arviz(chains, draws):
    az = import_arviz()
    codes = sticky(0.6, sizes=(2,) * 6, chains=chains, draws=draws)
    if draws < 20:
        codes[:, ::3] = 0
        codes[:, 1::3] = 1
    with np.errstate(all="ignore"):
        expected = [float(az.ess(codes[:, :, i])) for i in range(6)]
        r_hats = [float(az.rhat(codes[:, :, i], method="split")) for i in range(6)]
    np.testing.assert_allclose(effective_sample_size(codes), expected, rtol=1e-9)
    np.testing.assert_allclose(split_r_hat(codes), r_hats if chains > 1 else np.full(6, np.nan), rtol=1e-9)


def import_arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

    return arviz


def test_chi_square_tail_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    x = np.array([0.0, 0.3, 2.0, 17.0, 80.0, 400.0, np.nan])
    for degrees in (1, 2, 3, 8, 61, 300):
        np.testing.assert_allclose(chi_square_tail(x, degrees), stats.chi2.sf(x, degrees), rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("keep", [0.0, 0.7])
def test_chi_square_p_values_are_uniform_when_chains_agree(keep):
    sizes = (2, 3) * 200
    p = judge(sticky(keep, sizes=sizes, draws=1500), sizes=sizes).p_value
    # 400 uniform p-values: standard error of a share of 0.1 is 0.015
    assert np.mean(p < 0.1) == pytest.approx(0.1, abs=0.05)
    assert np.mean(p) == pytest.approx(0.5, abs=0.05)


# each warning: data that raises it, and a near neighbour that does not


def test_few_draws_warn():
    words = "The number of samples is too small to check convergence reliably."
    assert said(judge(sticky(0, draws=99)), words)
    assert not said(judge(sticky(0, draws=100)), words)


def test_one_chain_warns():
    words = "Only one chain was sampled, this makes it impossible to run some convergence checks"
    found = judge(sticky(0, chains=1))
    assert said(found, words)
    assert np.isnan(found.r_hat).all()
    assert found.worst_category.min() >= 0
    assert not said(judge(sticky(0, chains=2)), words)


def test_fewer_than_four_chains_warn():
    words = "We recommend running at least 4 chains for robust computation of convergence diagnostics"
    assert said(judge(sticky(0, chains=3)), words)
    assert not said(judge(sticky(0, chains=4)), words)


def test_large_r_hat_warns():
    words = "The rhat statistic is larger than 1.01 for some cells. This indicates problems during sampling. See "
    codes = sticky(0)
    random = np.random.default_rng(3)
    codes[0, :, 1] = random.random(DRAWS) < 0.8
    found = judge(codes)
    assert "`x[1]`" in (said(found, words) or "")
    assert "`x[0]`" not in (said(found, words) or "")
    assert found.worst_cells[0] == 1
    codes[0, :, 1] = random.random(DRAWS) < 0.52
    assert not said(judge(codes), words)


def test_r_hat_does_not_depend_on_the_coding_of_categories():
    codes = sticky(0, sizes=(3,))
    codes[0, :, 0] = np.where(codes[0, :, 0] == 2, 0, codes[0, :, 0])
    relabelled = np.array([2, 0, 1])[codes]
    first, second = judge(codes, sizes=(3,)), judge(relabelled, sizes=(3,))
    assert first.max_r_hat == pytest.approx(second.max_r_hat)


def test_small_ess_warns():
    words = "The effective sample size per chain is smaller than 100 for some cells"
    assert said(judge(sticky(0.9)), words)  # 1000 / 19 = 53 per chain
    assert not said(judge(sticky(0.6)), words)  # 250 per chain


def test_stuck_chain_warns_and_never_looks_perfect():
    codes = sticky(0)
    codes[:, :, 0] = 1
    found = judge(codes)
    assert "`x[0]` (chains 0, 1, 2, 3)" in (said(found, "chains are stuck") or "")
    assert np.isnan(found.ess[0]).all()
    assert np.isnan(found.r_hat[0]).all()
    assert np.isnan(found.p_value[0])
    assert found.worst_cells[0] == 0
    assert not said(found, "never visited")  # one fault, one warning
    codes[:, 500, 0] = 0
    assert not said(judge(codes), "chains are stuck")


def test_chains_stuck_at_different_values_warn():
    codes = sticky(0)
    codes[:, :, 0] = np.array([0, 1, 1, 0])[:, None]
    found = judge(codes)
    assert "stuck at different values at `x[0]`" in (said(found, "chains are stuck") or "")
    assert np.isinf(found.max_r_hat[0])
    assert np.isnan(found.min_ess[0])
    codes[:, :, 0] = 1
    assert "different values" not in (said(judge(codes), "chains are stuck") or "")


def test_one_stuck_chain_of_four_warns():
    codes = sticky(0)
    codes[2, :, 1] = 0
    found = judge(codes)
    assert "`x[1]` (chain 2)" in (said(found, "chains are stuck") or "")
    assert said(found, "rhat statistic")


def test_clamped_cells_are_not_reported():
    codes = sticky(0)
    codes[:, :, 0] = 1
    found = judge(codes, clamped=np.array([True, False, False]))
    assert found.warnings == ()
    assert found.worst_cells == tuple(i for i in found.worst_cells if i)
    assert np.isnan(found.flip_rate[0])


def test_category_never_visited_warns():
    codes = sticky(0)
    codes[:, :, 2] %= 2
    assert "`x[2] = c2`" in (said(judge(codes), "never visited in any chain") or "")
    codes[0, 7, 2] = 2
    assert not said(judge(codes), "never visited")


def test_category_visited_in_some_chains_only_warns():
    codes = sticky(0)
    codes[1, :, 2] %= 2
    assert "`x[2] = c2`" in (said(judge(codes), "visited in some chains only") or "")
    codes = sticky(0)
    codes[:, :, 2] %= 2
    codes[0, :5, 2] = 2  # rare: five visits in one chain are no evidence that another should have one
    assert not said(judge(codes), "visited in some chains only")


def test_unequal_chains_warn():
    words = "chi-square test"
    random = np.random.default_rng(5)
    codes = sticky(0)
    codes[:, :, 0] = random.random((CHAINS, DRAWS)) < np.array([0.4, 0.5, 0.5, 0.6])[:, None]
    assert "`x[0]`" in (said(judge(codes), words) or "")
    codes[:, :, 0] = random.random((CHAINS, DRAWS)) < 0.4
    assert not said(judge(codes), words)


def test_still_block_warns():
    assert "`pairs (0.0009)`" in (said(judge(sticky(0), flip_rates={"pairs": 0.0009, "site": 0.4}), "flip rate") or "")
    assert not said(judge(sticky(0), flip_rates={"pairs": np.array([0.0, 0.0022])}), "flip rate")


def test_many_cells_are_named_in_one_line():
    sizes = (2,) * 30
    codes = sticky(0, sizes=sizes)
    codes[:, :, :20] = 0
    assert "and 15 more cells" in (said(judge(codes, sizes=sizes), "chains are stuck") or "")


def test_every_warning_names_a_remedy():
    bad = sticky(0.95, chains=3)
    bad[:, :, 0] = 1
    bad[1, :, 2] %= 2
    for warning in judge(bad, flip_rates={"a": 0.0}).warnings:
        assert any(verb in warning for verb in ("Run ", "run ", "Use ", "We recommend"))


def test_table_and_text_show_the_worst_first():
    codes = sticky(0)
    codes[:, :, 2] = 1
    found = judge(codes)
    headers, rows = found.table(most=2)
    assert len(rows) == 2
    assert rows[0][0] == "x[2]"
    assert dict(zip(headers, rows[0], strict=True))["stuck chains"] == "0, 1, 2, 3"
    assert "warning: Some chains are stuck" in str(found)
    assert "nan" in str(found)


@pytest.mark.parametrize("shape", [(4, 1, 3), (1, 1, 3), (4, 3, 3), (4, 0, 3)])
def test_very_few_draws_do_not_fail(shape):
    found = judge(np.zeros(shape, dtype=int))
    assert said(found, "too small")
    assert np.isnan(found.min_ess).all()


def test_no_cells_do_not_fail():
    found = judge(np.zeros((4, 200, 0), dtype=int), sizes=())
    assert found.warnings == ()
    assert str(found)


@pytest.mark.parametrize("codes", [np.zeros((4, 100)), np.full((4, 100, 3), 2), np.full((4, 100, 3), -1), np.zeros((4, 100, 2))])
def test_bad_codes_are_refused(codes):
    with pytest.raises(ValueError, match="codes"):
        judge(codes)


def test_thousands_of_cells_take_chunks():
    codes = np.random.default_rng(0).integers(0, 2, (4, 200, 3000))
    found = judge(codes, sizes=(2,) * 3000)
    np.testing.assert_allclose(found.ess[-3:, 0], effective_sample_size(codes[:, :, -3:]))
