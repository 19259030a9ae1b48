"""Arrays of numpy.ma and pandas: a masked cell is a missing one in x, and an error where nothing may be missing."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy import ma
from refusals import refused
from test_data import TEXT as SEVERAL

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("standard_promotion")

NAN = float("nan")
TEXT = """
graph G = chain(3)
input w[G.nodes] : real = 1
model spins {
  var x[i in G.nodes] : spin
  param h ~ normal(0, 1)
  param J ~ normal(0, 1)
  factor h * w[i] * x[i]   for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
sampler sweep { update x[i] for i in G.nodes }
"""
GIVEN = """
model given_too {
  given z : real
  given k : range(3)
  var x : spin
  param a ~ normal(0, 1)
  factor a * z * x * k
}
mask one = everything(x)
"""
NETWORK = """
network net = mlp(layers = 1, width = 4)
model learnt { given y[i in range(3)] : range(3)  var x[i in range(3)] : range(3)  conditional x ~ net(y) }
mask any = subsets(x, size = 1)
"""
P = {"h": 0.3, "J": 0.2}
RNG = np.random.default_rng(0)
X = np.where(RNG.random((40, 3)) < 0.7, 1, -1)
HOLE = RNG.random((40, 3)) < 0.25
FIRST = tuple(int(i) for i in np.argwhere(HOLE)[0])
CODED = np.where(HOLE, -9, X)
MASKED: dict[str, Any] = {
    "values below": ma.array(X, mask=HOLE),
    "junk below": ma.array(np.where(HOLE, 77, X), mask=HOLE, fill_value=5),
    "floats": ma.array(np.where(HOLE, NAN, X), mask=HOLE),
    "small integers": ma.array(X.astype(np.int8), mask=HOLE),
    "objects": ma.array(np.where(HOLE, None, X.astype(object)), mask=HOLE),
    "a list of rows": [ma.array(x, mask=m) for x, m in zip(X, HOLE, strict=True)],
    "a list of lists": [[ma.array(v, mask=m) for v, m in zip(x, hole, strict=True)] for x, hole in zip(X, HOLE, strict=True)],
    "hardened": ma.array(X, mask=HOLE, hard_mask=True),
}
EMPTY: dict[str, Any] = {
    "None": np.where(HOLE, None, X.astype(object)),
    "NA": np.where(HOLE, pd.NA, X.astype(object)),
    "NaT": np.where(HOLE, pd.NaT, X.astype(object)),
    "Int64": pd.DataFrame(np.where(HOLE, None, X.astype(object))).astype("Int64"),
    "Float64": pd.DataFrame(np.where(HOLE, None, X.astype(object))).astype("Int64").astype("Float64"),
    "nan": np.where(HOLE, NAN, X),
}


@pytest.fixture(scope="module")
def model() -> Any:
    return gm.parse(TEXT).model()


@pytest.fixture(scope="module")
def expected(model: Any) -> np.ndarray:
    found = np.asarray(model.log_potential(P, CODED, missing=-9))
    assert not np.allclose(found, model.log_potential(P, X))
    return found


@pytest.mark.parametrize("how", MASKED)
def test_a_masked_cell_is_missing(model: Any, expected: np.ndarray, how: str):
    np.testing.assert_array_equal(model.log_potential(P, MASKED[how]), expected)


@pytest.mark.slow
def test_verbs_that_take_rows_see_the_mask(model: Any):
    x = MASKED["junk below"]
    np.testing.assert_array_equal(model.log_prob(P, x), model.log_prob(P, CODED, missing=-9))
    np.testing.assert_array_equal(model.loss(P, x, "single"), model.loss(P, CODED, "single", missing=-9))
    fit, same = model.fit(x), model.fit(CODED, missing=-9)
    assert {k: v.tolist() for k, v in fit.params.items()} == {k: v.tolist() for k, v in same.params.items()}
    assert fit.missing.any
    assert not np.isclose(fit.params["h"], model.fit(X).params["h"], atol=1e-3)
    np.testing.assert_array_equal(fit.score(x[:9]).losses, fit.score(CODED[:9], missing=-9).losses)
    assert fit.information_criterion(x).value == fit.information_criterion(CODED, missing=-9).value


def test_a_conditional_sums_masked_cells_out(model: Any):
    """p(x_0 | x_2) of a chain of three, x_1 masked; what K holds does not matter."""
    found = np.asarray(model.log_conditional(P, ma.array([[1, 77, -1]], mask=[[True, True, False]]), [0]))
    joint = np.array([sum(np.exp(0.3 * (a + b - 1) + 0.2 * (a * b - b)) for b in (-1, 1)) for a in (-1, 1)])
    np.testing.assert_allclose(found, np.log(joint / joint.sum())[None], rtol=1e-5)


def test_masked_cells_and_a_missing_code_together(model: Any, expected: np.ndarray):
    first = np.arange(HOLE.size).reshape(HOLE.shape) % 2 == 0
    x = ma.array(np.where(HOLE & first, -9, X), mask=HOLE & ~first)
    np.testing.assert_array_equal(model.log_potential(P, x, missing=-9), expected)
    refused("E502", lambda: model.log_potential(P, x))


@pytest.mark.slow
def test_a_mask_of_nothing_changes_nothing(model: Any):
    whole = np.asarray(model.log_potential(P, X))
    for x in (ma.array(X), ma.array(X, mask=np.zeros(X.shape, bool)), pd.DataFrame(X).astype("Int64"), pd.DataFrame(X).astype(object)):
        np.testing.assert_array_equal(model.log_potential(P, x), whole)
    assert model.fit(ma.array(X), weights=ma.array(np.ones(40))).params["h"] == model.fit(X).params["h"]


@pytest.mark.parametrize("how", EMPTY)
def test_what_stands_for_nothing_is_missing_where_it_is_said_so(model: Any, expected: np.ndarray, how: str):
    np.testing.assert_array_equal(model.log_potential(P, EMPTY[how], missing=NAN), expected)
    refused("E504", lambda: model.log_potential(P, EMPTY[how]), f"at {FIRST}", "missing=float('nan')")


def test_texts_letters_and_dicts():
    """A masked text is a whole row of holes, a masked letter one."""
    model = gm.parse(SEVERAL).model()
    rows = {"s": np.ones((3, 3)), "b": np.zeros(3, int), "k": np.ones((3, 3), int), "d": ["ACG", "TTT", "CAA"], "w": ["sun", "rain", "sun"]}
    letters = np.array([list(t) for t in rows["d"]])
    gone = np.array([False, True, False])

    def value(d: Any, w: Any, **options: Any) -> np.ndarray:
        return np.asarray(model.log_potential({"h": 0.5}, rows | {"d": d, "w": w}, **options))

    expected = value(np.where(gone[:, None], "?", letters), np.where(gone, "?", rows["w"]), missing={"d": "?", "w": "?"})
    assert expected[1] != value(letters, rows["w"])[1]
    as_rows = ma.array(np.where(gone, "--", rows["d"]), mask=gone)
    sky = ma.array(np.where(gone, "hail", rows["w"]), mask=gone)
    np.testing.assert_array_equal(value(as_rows, sky), expected)
    np.testing.assert_array_equal(value(ma.array(letters, mask=np.repeat(gone[:, None], 3, 1)), sky), expected)
    objects = np.array(["ACG", None, "CAA"], object), np.array(["sun", NAN, "sun"], object)
    np.testing.assert_array_equal(value(*objects, missing=NAN), expected)
    one = np.zeros((3, 3), bool)
    one[2, 1] = True
    np.testing.assert_array_equal(
        value(ma.array(letters, mask=one), rows["w"]), value(np.where(one, "?", letters), rows["w"], missing={"d": "?"})
    )


@pytest.mark.slow
def test_a_masked_cell_of_a_clamp_is_free_and_of_a_start_is_filled(model: Any):
    clamp = ma.array([1, 77, -1], mask=[False, True, False])
    found = model.marginals(P, clamp={"x": clamp})["x"]
    np.testing.assert_array_equal(found, model.marginals(P, clamp={"x": {0: 1, 2: -1}})["x"])
    assert 0.1 < found[1, 0] < 0.9
    drawn = model.sample(P, draws=1000, init=ma.array([1, 77, -1], mask=[False, True, False]), progress=False)
    assert set(np.unique(drawn["posterior"]["x"])) == {-1, 1}


def test_where_nothing_may_be_missing_it_is_said(model: Any):
    hidden = ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    weights = ma.array(np.ones(40), mask=np.arange(40) == 3)
    refused("E507", lambda: model.fit(X, weights=weights), "weights at 3 is masked")
    refused("E507", lambda: model.loss(P, X, "single", weights=weights), "weights at 3")
    refused("E504", lambda: model.fit(X, init={"h": ma.masked}), "['h'] is masked")
    refused("E504", lambda: model.loss({"h": ma.masked, "J": 0.0}, X, "single"), "['h'] is masked")
    refused("E504", lambda: model.map(P, clamp={"x": {0: ma.masked}}), "clamp['x'][0] is masked")
    refused("E504", lambda: model.next_symbol(P, ma.array([1], mask=[True])), "prefix at 0")
    refused("E404", lambda: gm.parse(TEXT, w=hidden), "at 1 is masked")
    refused("E507", lambda: model.log_conditional(P, X, ma.array([0, 1], mask=[False, True])), "K at 1")
    refused("E504", lambda: gm.sequence_weights(ma.array(X, mask=HOLE)), f"sequences at {FIRST}")
    refused("E502", lambda: model.fit(ma.array([(1, 1, 1)], dtype=[("a", int), ("b", int), ("c", int)])), "fields `a`")


def test_given_values_are_known():
    model = gm.parse(GIVEN).model()
    x, z, k = np.array([1, -1]), np.array([0.5, 1.5]), np.array([1, 2])
    gone = np.array([False, True])
    holes: list[dict[str, Any]] = [
        {"z": ma.array(z, mask=gone), "k": k},
        {"z": z, "k": ma.array(k, mask=gone)},
        {"z": z, "k": np.array([1, pd.NA], object)},
    ]
    for given in holes:
        refused("E510", functools.partial(model.log_prob, {"a": 0.3}, x, given=given), "at 1 is missing")
    same = model.log_prob({"a": 0.3}, x, given={"z": z, "k": k})
    np.testing.assert_array_equal(model.log_prob({"a": 0.3}, x, given={"z": ma.array(z), "k": ma.array(k)}), same)


def test_networks_take_masked_ends_as_padding():
    model = gm.parse(NETWORK).model()
    params = model.init_params(0)
    x, y = np.array([[0, 1, 2], [2, 1, 0]]), np.array([[1, 2, 0], [0, 2, 1]])
    end = np.array([[False, False, False], [False, False, True]])
    options = {"key": 0, "n_masks": 3}
    expected = model.loss(params, np.where(end, -1, x), given={"y": np.where(end, -1, y)}, missing=-1, **options)
    np.testing.assert_array_equal(model.loss(params, ma.array(x, mask=end), given={"y": ma.array(y, mask=end)}, **options), expected)
    refused("E510", lambda: model.loss(params, x, given={"y": ma.array(y, mask=end[:, ::-1])}, **options), "before its last one")
    refused("E504", lambda: model.log_conditional(params, ma.array(x, mask=end), [0], given={"y": y}), "not in K")
    table = model.log_conditional(params, x, [2], given={"y": y})
    np.testing.assert_array_equal(model.log_conditional(params, ma.array(x, mask=end), [2], given={"y": y}), table)
