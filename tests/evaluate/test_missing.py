"""Missing cells: summed out of losses and log p against enumeration, and imputed inside a fit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from cases import BY_NAME, Case, masks_of
from oracle import Oracle, numerical_gradient
from thinned import thinned

import gmlmdsl as gm

EXACT = {"rtol": 1e-9, "atol": 1e-9}
NAN = float("nan")
PLAIN = [(c, m) for c, m in masks_of() if not c.oracle.program.masks[m].adaptive]
QUICK = {("directed", "span")}


def quick_first() -> list:
    """Every case and mask; those that are not quick to compile run at night."""
    return [pytest.param(c, m, marks=() if (c.name, m) in QUICK else pytest.mark.slow, id=f"{c}-{m}") for c, m in PLAIN]


def with_gaps(case: Case, share: float = 0.3) -> tuple[np.ndarray, object]:
    """Rows with cells gone at random, the last with none left; as codes, and as values with nan for a gap."""
    rng = np.random.default_rng(5)
    codes = case.rows.copy()
    codes[rng.random(codes.shape) < share] = -1
    codes[-1] = -1
    return codes, values_with_gaps(case, codes)


def values_with_gaps(case: Case, codes: np.ndarray) -> object:
    whole = case.values(np.where(codes < 0, case.rows, codes))
    if not isinstance(whole, dict):
        name = case.model.graph.variables[0].name
        return _hide(case, {name: whole}, codes)[name]
    return _hide(case, whole, codes)


def _hide(case: Case, whole: dict[str, np.ndarray], codes: np.ndarray) -> dict[str, np.ndarray]:
    out = {}
    for name, value in whole.items():
        gone = (codes[:, np.ravel(case.model.positions(name))] < 0).reshape(np.shape(value))
        out[name] = np.where(gone, None, np.asarray(value, dtype=object))
    return out


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("case", "mask"), quick_first())
def test_losses_and_gradients_with_gaps(case: Case, mask: str):
    codes, x = with_gaps(case)
    weights = np.random.default_rng(0).gamma(1.0, 1.0, len(codes))
    params = {k: jnp.asarray(v) for k, v in case.params.items()}
    loss = jax.value_and_grad(lambda p: case.model.loss(p, x, mask, weights=weights, missing=NAN))
    value, gradient = jax.jit(loss)(params)
    np.testing.assert_allclose(value, case.oracle.loss(case.params, codes, mask, weights), **EXACT)
    expected = numerical_gradient(lambda p: case.oracle.loss(p, codes, mask, weights), case.params, exact=True)
    for name, found in gradient.items():
        np.testing.assert_allclose(found, expected[name], **EXACT, err_msg=name)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("case", thinned(BY_NAME.values(), 10, 2), ids=str)
def test_log_p_of_observed_cells(case: Case):
    codes, x = with_gaps(case)
    found = case.model.log_prob(case.params, x, missing=NAN)
    np.testing.assert_allclose(found, case.oracle.log_prob(case.params, codes), **EXACT)
    np.testing.assert_allclose(found[-1], 0.0, atol=1e-9)  # nothing observed: certain


CHAIN = """
model m {
  var x[i in range(4)] : labels("no", "may", "yes")
  var s[i in range(2)] : spin
  param h[a in range(3)] ~ normal(0, 2)
  param J ~ normal(0, 2)
  factor if x[i] == "yes" then h[0] else if x[i] == "may" then h[1] else 0 for i in range(4)
  factor J * (x[i] == x[i + 1]) for i in range(3)
  factor h[2] * s[0] * s[1] * (x[0] == "yes")
}
mask one = subsets(size = 1)
mask all = everything()
mask seen given s { choose {x[0]} weight 2 + s[0]  choose {x[1]} weight 1 }
"""


def chain_rows(n: int, share: float) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Rows of a chain with gaps, as codes and as values: "?" and -9 for a gap."""
    oracle = Oracle(gm.parse(CHAIN).checked, "m", {})
    rng = np.random.default_rng(3)
    p = oracle.probabilities({"h": np.array([0.5, -0.3, 0.4]), "J": np.array(0.8)})
    codes = oracle.states[rng.choice(len(p), n, p=p)]
    codes[rng.random(codes.shape) < share] = -1
    labels = np.array(["no", "may", "yes", "?"])
    return codes, {"x": labels[codes[:, :4]], "s": np.where(codes[:, 4:] < 0, -9, 2 * codes[:, 4:] - 1)}


TRIPLE = """
model m {
  var x[i in range(3)] : range(3)
  param h[a in range(2)] ~ normal(0, 2)
  param J ~ normal(0, 2)
  factor if x[i] > 0 then h[x[i] - 1] else 0 for i in range(3)
  factor J * (x[i] == x[i + 1]) for i in range(2)
}
mask all = everything()
"""
CODES = {"x": "?", "s": -9}


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_a_fit_with_gaps_minimises_the_objective_and_reports_its_sandwich() -> None:
    codes, rows = chain_rows(40, 0.25)
    codes[0] = -1
    rows["x"][0], rows["s"][0] = "?", -9
    oracle = Oracle(gm.parse(CHAIN).checked, "m", {})
    weights = np.random.default_rng(1).integers(1, 4, 40).astype(float)
    with jax.enable_x64(True):
        fit = gm.parse(CHAIN).model().fit(rows, "one", weights=weights, missing=CODES)
    estimate = np.append(fit.params["h"], fit.params["J"])

    def split(v: np.ndarray) -> dict[str, np.ndarray]:
        return {"h": v[:3], "J": v[3]}

    def gradient(v: np.ndarray) -> np.ndarray:
        found = numerical_gradient(lambda p: oracle.fit_objective(p, codes, "one", weights), split(v), exact=True)
        return np.append(found["h"], found["J"])

    assert fit.status.converged
    np.testing.assert_allclose(fit.objective, oracle.fit_objective(split(estimate), codes, "one", weights), rtol=1e-9)
    assert np.abs(gradient(estimate)).max() < 1e-5
    hessian = np.stack([(gradient(estimate + e) - gradient(estimate - e)) / 2e-4 for e in 1e-4 * np.eye(4)])
    c = oracle.fit_constant(split(estimate), codes, "one")
    parts = []
    for r in range(40):
        found = numerical_gradient(lambda p, r=r: float(oracle.row_losses(p, codes[r : r + 1], "one")[0]), split(estimate), exact=True)
        parts.append(np.append(found["h"], found["J"]))
    u = c * weights[:, None] * np.array(parts)
    u = u - u.mean(axis=0)
    inverse = np.linalg.inv(hessian)
    errors = np.append(fit.standard_errors["h"], fit.standard_errors["J"])
    np.testing.assert_allclose(errors, np.sqrt(np.diag(inverse @ (u.T @ u) @ inverse)), rtol=1e-4)
    assert (fit.missing.rows, fit.missing.summed, fit.missing.imputed) == ((codes < 0).any(axis=1).sum(), fit.missing.rows, 0)
    assert fit.missing.unseen == 1
    np.testing.assert_array_equal(fit.missing.cells, (codes < 0).sum(axis=0))


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_imputation_finds_the_maximum_of_the_likelihood_and_its_standard_errors() -> None:
    """Under `everything` the fixed point of EM is the maximum likelihood estimate, which summing out finds exactly."""
    model = gm.parse(TRIPLE).model()
    rng = np.random.default_rng(4)
    rows = rng.choice(3, (120, 3))
    rows[:, 1] = np.where(rng.random(120) < 0.6, rows[:, 0], rows[:, 1])
    rows[rng.random(rows.shape) < 0.3] = 9
    exact = model.fit(rows, "all", missing=9)
    drawn = model.fit(rows, "all", missing=9, impute=True)
    assert drawn.status.converged
    assert drawn.missing.imputed > 60
    assert drawn.missing.noise < 0.05
    for name, errors in exact.standard_errors.items():
        # Sixteen rounds' worth of Monte Carlo error: the bound on the noise is 0.05 standard errors.
        np.testing.assert_array_less(np.abs(drawn.params[name] - exact.params[name]), 0.2 * errors)
        np.testing.assert_allclose(drawn.standard_errors[name], errors, rtol=0.1)


@pytest.mark.produces("E511")
def test_masks_that_look_at_x_refuse_gaps() -> None:
    _, rows = chain_rows(10, 0.3)
    with pytest.raises(gm.GmlmError, match="E511.*looks at x"):
        gm.parse(CHAIN).model().fit(rows, "seen", missing=CODES)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ({"x": "?", "s": 1}, "is a value of `s`"),
        ({"s": "?", "z": 1}, "no variable `z`"),
        ([[1]], "a number or a string"),
        ({"s": -9, "x": "yes"}, "is a value of `x`"),
    ],
)
def test_codes_of_missing_cells_that_cannot_be(missing: object, words: str) -> None:
    _, rows = chain_rows(4, 0.5)
    with pytest.raises(gm.GmlmError, match=words):
        gm.parse(CHAIN).model().fit(rows, "one", missing=missing)


def test_summing_out_too_much_is_refused_with_the_figure_where_imputing_is_not_wanted() -> None:
    model = gm.parse(
        "graph G = complete(30)\nmodel m { var x[i in range(30)] : spin  param J  factor J * x[i] * x[j] for (i, j) in G.edges }"
        "\nmask one = subsets(x, size = 1)"
    ).model()
    x = np.ones((3, 30))
    x[1, 1:] = np.nan
    with pytest.raises(gm.GmlmError, match="row 1 takes 1.07e.09 joint values"):
        model.fit(x, missing=NAN, impute=False)


def test_observed_cells_that_break_a_requirement_name_the_row() -> None:
    model = gm.parse(
        "model m { var a : bit  var b : bit  var c : bit  param h  factor h * c  require a == b }\nmask one = subsets(size = 1)"
    ).model()
    x = {"a": [0, 1, 1], "b": [0, 9, 0], "c": [1, 1, 9]}
    with pytest.raises(gm.GmlmError, match="row 2 of x is impossible"):
        model.fit(x, missing=9)


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_no_complete_row_is_needed() -> None:
    model = gm.parse(TRIPLE + "mask one = subsets(size = 1)").model()
    rng = np.random.default_rng(6)
    rows = rng.choice(3, (60, 3))
    rows[np.arange(60), rng.integers(0, 3, 60)] = 9
    exact, drawn = model.fit(rows, "all", missing=9), model.fit(rows, "all", missing=9, impute=True)
    assert (exact.missing.summed, drawn.missing.imputed) == (60, 60)
    for name, errors in exact.standard_errors.items():
        np.testing.assert_array_less(np.abs(drawn.params[name] - exact.params[name]), 0.25 * errors)
    held = model.fit(rows, "one", missing=9, impute=True, fixed={"h": [0.1, 0.2], "J": 0.3})
    assert held.status.converged
    assert held.params["J"] == pytest.approx(0.3)
    batches = model.fit(rows, "one", missing=9, optimizer=optax.sgd(1e-3), batch_size=4, max_steps=2)
    assert len(batches.loss_trace) == 2


def test_impute_is_yes_no_or_as_needed() -> None:
    with pytest.raises(gm.GmlmError, match="impute must be True, False or None"):
        gm.parse(TRIPLE).model().fit([[0, 1, 9]], missing=9, impute="yes")


@pytest.mark.usefixtures("float64")
def test_a_model_without_factors_is_uniform_over_what_was_observed() -> None:
    model = gm.parse("model m { var x[i in range(3)] : range(4) }\nmask one = subsets(x, size = 1)").model()
    rows = [[0, 1, 9], [9, 9, 9]]
    np.testing.assert_allclose(model.log_prob({}, rows, missing=9), [-2 * np.log(4), 0], atol=1e-12)
    np.testing.assert_allclose(model.loss({}, rows, "one", missing=9), np.log(4) * 2 / 3 / 2)
