"""Information and covariances of every mask of every program against numerical derivatives; Theorems 1 to 3 on random models."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import given_cases
import numpy as np
import pytest
from cases import BY_NAME, Case
from oracle import Estimation, Moved, estimation, seen
from theory_cases import EVERY, IRON, OWN, close, crossed, ising, least, machine, mixed, moved, potts
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import theory

COVARIANCE = 1e-7
SLOW = ("arcs", "second", "triples")  # many directions: potts and mixed have their domains, gauge and factor of three cells
MASKS = crossed("masks", without=SLOW)
UNIFORM = ("k1", "k2", "k3", "k4")


@cache
def information(c: Case, mask: str) -> theory.Information:
    return theory.pseudolikelihood_information(c.model, c.params, mask)


@cache
def expected_of(c: Case, mask: str, n_masks: int | None) -> Estimation:
    return estimation([moved(c)], mask, n_masks)


def drawn(c: Case, mask: str) -> int:
    """Three masks a row; two where every choice of three would be too many to list."""
    return 3 if len(c.oracle.mask_table(c.params, mask)) <= 10 else 2


@pytest.mark.parametrize("c", thinned([c for c in EVERY if c.name not in SLOW], 12), ids=str)
def test_fisher_information(c: Case):
    found = theory.fisher_information(c.model, c.params)
    m = moved(c)
    assert found.dtype == np.float64
    close(found, m.basis @ m.fisher() @ m.basis.T)
    assert found.shape == (len(m.basis),) * 2


@pytest.mark.parametrize(("c", "mask"), thinned(MASKS, 72, 54), ids=str)
def test_hessian_and_score_covariances(c: Case, mask: str):
    found, m = information(c, mask), moved(c)
    project = found.basis @ found.basis.T
    np.testing.assert_allclose(project, m.basis @ m.basis.T, atol=1e-12)
    for n_masks in (1, drawn(c, mask), None):
        expected = expected_of(c, mask, n_masks)
        close(found.basis @ found.hessian @ found.basis.T, expected.flat(expected.hessian))
        close(found.basis @ found.score(n_masks) @ found.basis.T, expected.flat(expected.score))
    close(found.basis @ found.fisher @ found.basis.T, expected.flat(expected.fisher))


@pytest.mark.parametrize(("c", "mask"), thinned(MASKS, 36, 18), ids=str)
def test_asymptotic_covariance(c: Case, mask: str):
    for n_masks in (1, drawn(c, mask), None):
        expected = expected_of(c, mask, n_masks).covariance()
        close(information(c, mask).covariance(n_masks), expected, COVARIANCE)


@pytest.mark.parametrize("n_masks", [1, 3, None])
@pytest.mark.parametrize(("c", "mask"), thinned([(ising, "seeing"), (potts, "ends"), (mixed, "rest"), (machine, "looks")], 2, 1), ids=str)
def test_the_verb_gives_the_same(c: Case, mask: str, n_masks: int | None):
    found = theory.asymptotic_covariance(c.model, c.params, mask, n_masks=n_masks)
    assert found.dtype == np.float64
    close(found, expected_of(c, mask, n_masks).covariance(), COVARIANCE)


@pytest.mark.parametrize(("c", "mask"), thinned([(c, m) for c, m in MASKS if c in OWN], 4), ids=str)
def test_one_mask_a_row_has_the_hessian_as_its_score_covariance(c: Case, mask: str):
    """The oracle differentiates twice for one and squares first derivatives for the other: the identity is nowhere assumed."""
    found = expected_of(c, mask, 1)
    close(found.hessian, found.score)


def test_seven_masks_a_row_are_between_one_and_all():
    one, seven, every = (information(ising, "k2").score(n) for n in (1, 7, None))
    np.testing.assert_allclose(seven, every + (one - every) / 7, atol=1e-15)
    assert least(one - seven) > -1e-12
    assert least(seven - every) > -1e-12


# Given data, latents, gauges


FEW = 2  # rows of given data


@cache
def moved_rows(name: str) -> list[Moved]:
    rows = given_cases.CASES[name]
    return [Moved(o, rows.params) for o in rows.oracles[:FEW]]


@pytest.mark.slow
@pytest.mark.parametrize("mask", thinned(["single", "leaning", "agreeing", "noisy"], 4))
def test_rows_of_given_data_are_averaged(mask: str):
    rows = given_cases.CASES["fields"]
    given = {k: np.asarray(v)[:FEW] for k, v in rows.given.items()}
    found = theory.pseudolikelihood_information(rows.model, rows.params, mask, given=given)
    for n_masks in (1, 3, None):
        expected = estimation(moved_rows("fields"), mask, n_masks)
        close(found.basis @ found.hessian @ found.basis.T, expected.flat(expected.hessian))
        close(found.basis @ found.score(n_masks) @ found.basis.T, expected.flat(expected.score))
        close(found.covariance(n_masks), expected.covariance(), COVARIANCE)
    close(found.basis @ found.fisher @ found.basis.T, expected.flat(expected.fisher))


@pytest.mark.parametrize("name", thinned(["laws", "hard"], 2, 1))
def test_one_row_of_given_data(name: str):
    """Simplexes that data index; a support that differs between rows."""
    rows = given_cases.CASES[name]
    for r in range(FEW if name == "hard" else 1):
        expected = estimation([moved_rows(name)[r]], "one", None)
        found = theory.pseudolikelihood_information(rows.model, rows.params, "one", given=rows.row(r))
        # Near the bounds of a simplex steps are short, and rounding of the reference shows: by how much, other steps tell.
        other = estimation([Moved(rows.oracles[r], rows.params, near=0.03)], "one", None)
        exact = expected.flat(expected.hessian)
        rounding = np.abs(exact - other.flat(other.hessian)).max() / max(1.0, np.abs(exact).max())
        assert rounding < 1e-8
        close(found.basis @ found.hessian @ found.basis.T, exact, 1e-9 + rounding)
        close(found.covariance(None), expected.covariance(), COVARIANCE)
    given = {k: np.asarray(v)[:FEW] for k, v in rows.given.items()}
    both = theory.fisher_information(rows.model, rows.params, given=given)
    close(both, np.mean([m.basis @ m.fisher() @ m.basis.T for m in moved_rows(name)], axis=0))


@pytest.mark.parametrize("c", [potts, mixed, machine], ids=str)
def test_matrices_live_on_the_tangent_space(c: Case):
    """Entries of a gauge's axes and of a simplex have sums without variance."""
    found = theory.asymptotic_covariance(c.model, c.params, next(iter(c.program.checked.masks)))
    project = moved(c).basis @ moved(c).basis.T
    close(project @ found @ project, found, 1e-12)
    assert np.linalg.matrix_rank(project) < len(project)


def test_directions_that_change_no_probability_are_left_out():
    """h and J of Potts without gauges: contrasts that p does depend on have the covariance that they have with the gauges."""
    text = """
    domain d = labels("a", "b", "c")
    model m {
      var x[i in range(2)] : d
      param h[i in range(2), a in d]
      param J[a in d, b in d]
      GAUGES
      factor h[i, x[i]] for i in range(2)
      factor J[x[0], x[1]]
    }
    mask one = subsets(x, size = 1)
    """
    rng, center = np.random.default_rng(3), np.eye(3) - 1 / 3
    params = {"h": rng.normal(size=(2, 3)) @ center, "J": center @ rng.normal(size=(3, 3)) @ center}
    for n_masks in (1, None):
        free, held = (
            theory.asymptotic_covariance(gm.parse(text.replace("GAUGES", g)).model(), params, "one", n_masks=n_masks)
            for g in ("", "gauge zero_sum(J) gauge zero_sum(h)")
        )
        assert np.isfinite(free).all()
        interaction = np.kron(center, center)
        close(interaction @ free[6:, 6:] @ interaction, held[6:, 6:], COVARIANCE)
        assert np.linalg.matrix_rank(free, tol=1e-6) == 8  # nine configurations
        constant = np.append(np.zeros(6), np.ones(9))  # added to J it changes nothing
        np.testing.assert_allclose(free @ constant, 0, atol=1e-6)


# Infinite and singular


def test_what_a_mask_cannot_see_has_infinite_variance():
    found = theory.asymptotic_covariance(ising.model, IRON, "blind")
    blind = [2, 3, 9]  # h[2], h[3] and J[2, 3]: no block holds the cells 2 and 3
    assert np.isposinf(np.diag(found)[blind]).all()
    assert np.isfinite(np.delete(np.diag(found), blind)).all()
    off = found[np.ix_(blind, range(10))][~np.eye(10, dtype=bool)[blind]]
    assert np.isnan(off).all()


def test_a_mask_that_tells_what_it_hides_determines_nothing():
    """K = {i} only where x_i = 1: the loss is 0 whatever the parameters, H is 0."""
    found = theory.pseudolikelihood_information(ising.model, IRON, "telling")
    np.testing.assert_allclose(found.hessian, 0, atol=1e-15)
    assert np.isposinf(np.diag(found.covariance(1))).all()
    assert np.isposinf(np.diag(found.covariance(None))).all()
    assert theory.poincare_constant(ising.model, IRON, "telling") == np.inf


def test_a_model_without_parameters_has_empty_matrices():
    c = BY_NAME["lemma3"]
    assert theory.fisher_information(c.model, {}).shape == (0, 0)
    assert theory.asymptotic_covariance(c.model, {}, "single").shape == (0, 0)


def test_everything_hidden_is_maximum_likelihood():
    for c, mask in ((ising, "k4"), (machine, "all")):
        inverse = np.linalg.pinv(theory.fisher_information(c.model, c.params), rcond=1e-9)
        for n_masks in (1, None):
            close(theory.asymptotic_covariance(c.model, c.params, mask, n_masks=n_masks), inverse, COVARIANCE)


# Theorems


@cache
def random_model(c: Case, seed: int) -> dict[str, np.ndarray]:
    """From weak to strong couplings; Ising models of one sign and of both."""
    strength = (0.3, 0.8, 1.6)[seed % 3]
    if c is not ising:
        found = c.oracle.random_params(seed + 20)
        return {k: strength * v if c.oracle.model.parameters[k].type.kind == "real" else v for k, v in found.items()}
    rng = np.random.default_rng(seed)
    coupling = rng.normal(0, 0.7, 6)
    return {"h": rng.normal(0, 0.5, 4), "J": strength * (coupling if seed % 2 else np.abs(coupling))}


SEEDS = range(6)


@pytest.mark.parametrize("seed", thinned(SEEDS, 6))
@pytest.mark.parametrize("c", [ising, potts, mixed], ids=str)
def test_larger_uniform_blocks_are_no_less_efficient(c: Case, seed: int):
    """Theorem 1: Gamma of k + 1 is at most that of k, for one mask a row."""
    params, masks = random_model(c, seed), UNIFORM if c is ising else ("one", "two")
    found = [theory.asymptotic_covariance(c.model, params, mask, n_masks=1) for mask in masks]
    for small, large in pairwise(found):
        assert least(small - large) > -1e-9 * np.abs(small).max()
    assert least(found[-1] - found[0]) < -1e-3  # and not the other way


ORDERED = [(ising, m) for m in (*UNIFORM[:3], "coin", "pair", "seeing", "part")]
ORDERED += [(potts, m) for m in ("one", "ends", "like")] + [(mixed, m) for m in ("two", "rest")]


@pytest.mark.parametrize(("c", "mask"), thinned(ORDERED, 4, 1), ids=str)
def test_covariance_is_at_most_the_poincare_constant_times_maximum_likelihood(c: Case, mask: str):
    """Theorems 2 and 3, adaptive masks too; and at least that of maximum likelihood."""
    for seed in SEEDS:
        params = random_model(c, seed)
        found = theory.pseudolikelihood_information(c.model, params, mask)
        gamma, best = found.covariance(1), np.linalg.pinv(found.basis @ found.fisher @ found.basis.T, rcond=1e-12)
        bound = theory.poincare_constant(c.model, params, mask) * best
        assert least(bound - gamma) > -1e-8 * np.abs(bound).max()
        assert least(gamma - best) > -1e-8 * np.abs(gamma).max()


def test_all_masks_a_row_are_no_less_efficient_than_one():
    for seed in SEEDS:
        for mask in ("k1", "k2", "seeing", "part"):
            found = theory.pseudolikelihood_information(ising.model, random_model(ising, seed), mask)
            one, every = found.covariance(1), found.covariance(None)
            assert least(one - every) > -1e-9 * np.abs(one).max()


def test_all_masks_a_row_of_a_full_pairwise_model_are_maximum_likelihood():
    """N = 4, fully parametrised: k = 2 and 3 with every mask coincide with the estimator of k = 4 only nearly; k = 1 does not."""
    params = {"h": np.zeros(4), "J": np.full(6, 0.3)}
    best = np.trace(theory.asymptotic_covariance(ising.model, params, "k4"))
    every = [np.trace(theory.asymptotic_covariance(ising.model, params, m)) / best for m in UNIFORM]
    once = [np.trace(theory.asymptotic_covariance(ising.model, params, m, n_masks=1)) / best for m in UNIFORM]
    assert (np.diff(once) < 0).all()
    assert (np.diff(every) < 1e-9).all()
    assert max(every) < 1.1 < once[0]


def test_the_lists_of_the_oracle_are_a_law():
    """Chances of (x_-K, K) sum to 1, and each configuration's p(K | x) over its lists do: empty K included."""
    for c, mask in MASKS:
        p, total = moved(c).p, np.zeros(len(moved(c).p))
        for s in seen(c.oracle, c.params, mask):
            total[s.members] += s.weights
        np.testing.assert_allclose(total, 1, atol=1e-12)
        assert abs(p.sum() - 1) < 1e-12
