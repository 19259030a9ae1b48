"""The constant of block approximate tensorization against an independent search, closed forms and the Poincare constant."""

from __future__ import annotations

from collections.abc import Callable

import given_cases
import numpy as np
import oracle
import pytest
import scipy.optimize
from cases import BY_NAME, Case
from theory_cases import close, crossed, ising, machine, mixed, potts
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import theory

AGREES = 1e-5
REACHED = 1e-9  # how far below the search a constant may be: rounding
# The oracle's search takes most of the time: all but these run nightly.
GATE = {("lemma3", "looking")}
SEARCHED = [
    pytest.param(c, m, id=f"{c}-{m}", marks=[pytest.mark.slow] * ((c.name, m) not in GATE))
    for c, m in (
        *((ising, m) for m in ("k1", "k2", "k3", "coin", "seeing", "part")),
        *((potts, m) for m in ("two", "ends", "like")),
        *((mixed, m) for m in ("one", "two", "rest")),
        *((machine, m) for m in ("one", "looks")),
        *((BY_NAME["log_zero"], m) for m in ("two", "look", "both")),
        *((BY_NAME["first"], m) for m in ("single", "up")),
        (BY_NAME["half_directed"], "pairs"),
        (BY_NAME["lemma3"], "looking"),
    )
]


def lowest(f: Callable, start: np.ndarray) -> np.ndarray:
    """Where L-BFGS ends."""
    return scipy.optimize.minimize(f, start, jac=True, method="L-BFGS-B", options={"maxiter": 300, "ftol": 1e-15, "gtol": 1e-10}).x


def searched(o: oracle.Oracle, params: dict[str, np.ndarray], mask: str, starts: int = 30) -> float:
    return oracle.entropy_tensorization(o, params, mask, lowest, starts)


@pytest.mark.parametrize(("c", "mask"), SEARCHED)
def test_the_constant_of_a_mask(c: Case, mask: str):
    """As large as that of an independent search, which evaluates the definition where it ends; and at least the Poincare constant."""
    found = theory.entropy_tensorization(c.model, c.params, mask)
    expected = searched(c.oracle, c.params, mask)
    assert found.kind == "lower bound"
    assert found >= expected * (1 - REACHED)
    close(found, expected, AGREES)
    assert found >= oracle.poincare_constant(c.oracle, c.params, mask) * (1 - REACHED)


@pytest.mark.slow
@pytest.mark.parametrize("seed", thinned(range(4), 4, 1))
@pytest.mark.parametrize(("c", "mask"), thinned([(ising, "k2"), (ising, "seeing"), (mixed, "rest")], 3, 1), ids=str)
def test_no_law_does_worse_than_the_constant(c: Case, mask: str, seed: int):
    """Couplings up to four times those of the cases; point masses, tilts, conditioned laws and laws near p."""
    params = {
        k: (1 + seed) * v if c.oracle.model.parameters[k].type.kind == "real" else v for k, v in c.oracle.random_params(seed + 40).items()
    }
    found = theory.entropy_tensorization(c.model, params, mask)
    assert found >= searched(c.oracle, params, mask, starts=12) * (1 - REACHED)
    p, rng = oracle.visible(c.oracle, params).p, np.random.default_rng(seed)
    laws = [*np.eye(len(p)), *rng.dirichlet(np.ones(len(p)), 5), *(0.9 * p + 0.1 * rng.dirichlet(0.3 * np.ones(len(p)), 5))]
    assert found >= max(oracle.tensorization_quotient(c.oracle, params, mask, r) for r in laws) * (1 - REACHED)


@pytest.mark.slow
def test_a_supremum_that_few_starts_reach():
    """64 configurations; of random starts about one in sixty climbs to 7.3463, most end at 7.02 and 7.14."""
    c = BY_NAME["lattice"]
    found = theory.entropy_tensorization(c.model, c.params, "agreeing")
    assert found >= searched(c.oracle, c.params, "agreeing") * (1 - REACHED)
    close(found, 7.3463177, AGREES)


@pytest.mark.slow
def test_a_supremum_near_p_and_off_it():
    """KL(r, p) is 8e-4 there: 9.5469962 by 60 digits, beside the Poincare constant 9.5468670 at r = p."""
    c = BY_NAME["triples"]
    params = {k: 0.5 * v for k, v in c.oracle.random_params(108).items()}
    found = theory.entropy_tensorization(c.model, params, "see")
    assert found >= 9.5469961
    close(found, 9.5469962, AGREES)


# Closed forms


@pytest.mark.parametrize(("mask", "constant"), [("k1", 4.0), ("k2", 2.0), ("k3", 4 / 3), ("k4", 1.0), ("coin", 2.5)])
def test_independent_cells_have_the_constant_of_their_cover(mask: str, constant: float):
    """Entropy of a product law is at most that of its cells in all (Han, Shearer): C_AT = 1 / P(i in K), and so is C."""
    params = {"h": np.array([0.3, -0.8, 1.2, 0.1]), "J": np.zeros(6)}
    close(theory.entropy_tensorization(ising.model, params, mask), constant)
    close(theory.poincare_constant(ising.model, params, mask), constant)


@pytest.mark.parametrize("name", ["machine", "weather", "directed"])
def test_everything_hidden_has_constant_one(name: str):
    c = machine if name == "machine" else BY_NAME[name]
    close(theory.entropy_tensorization(c.model, c.params, "all"), 1.0)


INFINITE = [
    (c, m)
    for c, m in crossed("masks", without=("sums", "arcs", "directed", "lattice"))
    if m in ("telling", "blind", "none", "rate", "mix", "near")
]


@pytest.mark.parametrize(("c", "mask"), thinned(INFINITE, 2, 1), ids=str)
def test_chains_in_parts_have_no_constant(c: Case, mask: str):
    assert oracle.poincare_constant(c.oracle, c.params, mask) == np.inf
    assert theory.entropy_tensorization(c.model, c.params, mask) == np.inf


def test_one_possible_configuration():
    model = gm.parse("model m { var a : bit  require a == 1 }\nmask one = subsets(size = 1)").model()
    assert theory.entropy_tensorization(model, {}, "one") == 1


@pytest.mark.slow
def test_with_a_row_of_given_data():
    rows = given_cases.CASES["hard"]
    for r in (0, 2):
        found = theory.entropy_tensorization(rows.model, rows.params, "one", given=rows.row(r))
        expected = searched(rows.oracles[r], rows.params, "one", starts=12)
        assert found >= expected * (1 - REACHED)
        close(found, expected, AGREES)


# The oracle itself


def test_the_definition_is_a_loss_of_divergence_in_a_channel():
    """KL(r, q) is KL(Br, Bq) and what blocks do not show; near q the quotient is that of variances."""
    for c, mask in ((ising, "seeing"), (mixed, "rest")):
        q, b = oracle.visible(c.oracle, c.params).p, oracle.channel(c.oracle, c.params, mask)
        r = np.random.default_rng(0).dirichlet(np.ones(len(q)))
        hidden = oracle.kl(r, q) / oracle.tensorization_quotient(c.oracle, c.params, mask, r)
        close(oracle.kl(r, q), oracle.kl(b @ r, b @ q) + hidden, 1e-12)
        f = np.random.default_rng(1).normal(size=len(q))
        f = f - q @ f
        form = oracle.dirichlet_form(c.oracle, c.params, mask, f)
        close(oracle.tensorization_quotient(c.oracle, c.params, mask, q * (1 + 1e-4 * f)), q @ f**2 / form, 1e-3)
