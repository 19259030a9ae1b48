"""Estimates and choices do not depend on the units of values, on the order of cells and rows, or on what values are called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

LEVELS = 5
ORDINAL = """
input unit : real
input origin : real
graph G = complete(3)
model m {{
  var x[i in G.nodes] : range({levels})
  param mu[i in G.nodes, c in range({levels} - 1)]
  param J[(i, j) in G.edges]
  factor if x[i] > 0 then mu[i, x[i] - 1] else 0 for i in G.nodes
  factor J[i, j] * ((x[i] - origin) * unit) * ((x[j] - origin) * unit) for (i, j) in G.edges
}}
mask single = subsets(x, size = 1)
"""
EDGES = [(0, 1), (0, 2), (1, 2)]
SLOW = [pytest.param(0.2, 0.0, marks=pytest.mark.slow), pytest.param(1.0, 2.0, marks=pytest.mark.slow)]
UNITS = [*SLOW, (1000.0, 0.0)]  # unit and origin of the values, beside (1, 0)


def ordinal(unit: float = 1.0, origin: float = 0.0, levels: int = LEVELS) -> Any:
    return gm.parse(ORDINAL.format(levels=levels), unit=unit, origin=origin).model()


def answers(rows: int = 150, levels: int = LEVELS) -> np.ndarray:
    """Three ordinal answers of which the first and the last depend on each other most."""
    rng = np.random.default_rng(0)
    trait = rng.normal(size=(rows, 1))
    middle = (levels - 1) / 2
    return np.clip(np.round(middle + trait * [0.9, 0.3, 0.9] + rng.normal(size=(rows, 3))), 0, levels - 1).astype(int)


def least_loss(x: np.ndarray, kept: np.ndarray, levels: int = LEVELS) -> tuple[float, np.ndarray]:
    """The least sum over cells of -log p(x_i | rest) per row, and J there, by NumPy and SciPy alone."""
    values, fields = np.arange(levels), 3 * (levels - 1)
    which = np.flatnonzero(kept)

    def both(theta: np.ndarray) -> tuple[float, np.ndarray]:
        mu = np.pad(theta[:fields].reshape(3, levels - 1), ((0, 0), (1, 0)))
        j = np.zeros((3, 3))
        for k, e in enumerate(which):
            j[EDGES[e]] = theta[fields + k]
        total, slope, pair = 0.0, np.zeros((3, levels)), np.zeros((3, 3))
        for i in range(3):
            others = x @ (j + j.T)[i]
            scores = mu[i] + others[:, None] * values
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            total -= np.log(p[np.arange(len(x)), x[:, i]]).sum()
            slope[i] = p.sum(axis=0) - np.bincount(x[:, i], minlength=levels)
            pair[i] = (p @ values - x[:, i]) @ x
        gradient = [pair[EDGES[e]] + pair[EDGES[e][::-1]] for e in which]
        return total / len(x), np.concatenate([slope[:, 1:].ravel(), gradient]) / len(x)

    start = np.zeros(fields + len(which))
    found = scipy.optimize.minimize(both, start, jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 2000})
    return float(found.fun), found.x[fields:]


def assert_alike(one: Any, other: Any) -> None:
    """Losses of refits, which are stationary, to the square of what fits are minimised to; what is not, to that itself."""
    for name, rtol in (("loss", 1e-6), ("refit_loss", 1e-10), ("degrees", 1e-5), ("ebic", 1e-6)):
        np.testing.assert_allclose(one.table[name], other.table[name], rtol=rtol)


@pytest.fixture(scope="module")
def path() -> Any:
    with gm_float64():
        return ordinal().fit_path(answers(), mask="single", penalty=6, gamma=0.25, progress=False)


def gm_float64() -> Any:
    import jax

    return jax.enable_x64(True)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.slow  # `test_path_elasso.py` has a path beside regressions by hand
def test_refits_of_a_path_are_minima(path: Any) -> None:
    """Of the sum over cells, beside SciPy's; no refit is above the penalised fit whose couplings it has."""
    x, table = answers(), path.table
    assert table["converged"].all()
    assert path.converged
    assert (table["refit_loss"].dropna() <= table["loss"][table["refit_loss"].notna()] + 1e-12).all()
    for k in np.flatnonzero(table["refit_loss"].notna()):
        expected, _ = least_loss(x, path.selected[k])
        np.testing.assert_allclose(table["refit_loss"][k], expected, atol=1e-10)


@pytest.mark.slow  # a program for each unit: the gate has the refits above and the fit below
@pytest.mark.parametrize(("unit", "origin"), UNITS)
def test_a_path_is_the_same_in_other_units(path: Any, unit: float, origin: float) -> None:
    other = ordinal(unit, origin).fit_path(answers(), mask="single", penalty=6, gamma=0.25, progress=False)
    assert other.chosen_couplings == path.chosen_couplings
    np.testing.assert_array_equal(other.selected, path.selected)
    assert_alike(other, path)
    np.testing.assert_allclose(other.params[-1]["J"] * unit**2, path.params[-1]["J"], atol=2e-6)


@pytest.mark.slow
def test_a_path_does_not_depend_on_the_order_of_rows_and_cells_nor_on_names(path: Any) -> None:
    x, model = answers(), ordinal()
    turned = [2, 0, 1]
    for data, edges in (
        (x[::-1], [0, 1, 2]),
        (LEVELS - 1 - x, [0, 1, 2]),  # values in the other order: their couplings stay
        (x[:, turned], [EDGES.index((min(turned[i], turned[j]), max(turned[i], turned[j]))) for i, j in EDGES]),
    ):
        other = model.fit_path(data, mask="single", penalty=6, gamma=0.25, progress=False)
        np.testing.assert_array_equal(other.selected, path.selected[:, edges])
        assert_alike(other, path)
        np.testing.assert_allclose(other.params[-1]["J"], path.params[-1]["J"][edges], atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "origin"), UNITS)
def test_fits_and_bootstraps_are_the_same_in_other_units(unit: float, origin: float) -> None:
    x = answers()
    plain, other = (m.fit(x, mask="single", progress=False) for m in (ordinal(), ordinal(unit, origin)))
    assert plain.status.code == other.status.code == "converged"
    expected, j = least_loss(x, np.ones(3, bool))
    np.testing.assert_allclose(other.objective / len(x), expected, atol=1e-10)
    np.testing.assert_allclose(other.params["J"] * unit**2, j, atol=1e-6)
    np.testing.assert_allclose(other.params["J"] * unit**2, plain.params["J"], atol=1e-6)
    np.testing.assert_allclose(other.standard_errors["J"] * unit**2, plain.standard_errors["J"], rtol=1e-5)
    found = [f.bootstrap(3, seed=1, progress=False) for f in (plain, other)]
    assert found[0].failed == found[1].failed == 0
    np.testing.assert_allclose(found[1].estimates[:, -3:] * unit**2, found[0].estimates[:, -3:], rtol=1e-5)
