"""Domains of whole numbers that do not begin at 0, and a toy domain: every answer beside enumeration."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from oracle import Oracle
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.program import _terms, forms

pytestmark = [
    pytest.mark.usefixtures("float64", "standard_promotion"),
    *map(pytest.mark.filterwarnings, ("ignore::gmlmdsl.GmlmWarning", "ignore::gmlmdsl.sample.SamplingWarning")),
]

# Answers 1 to 5, a spin-1 site, a value by an index set whose end is an input, a table over a domain.
LIKERT = """
input q : int = 5
index level  = range(1, q + 1)
domain grade = range(1, 4)
model m {
  var   x[i in range(2)] : range(1, 6)
  var   y : range(-1, 2)
  var   z : level
  var   g : grade
  param u[a in level]  ~ normal(0, 1)
  param v[a in grade]  ~ normal(0, 1)
  param p[a in level] : simplex
  param cut[k in range(2)] : ordered ~ normal(0, 2)
  factor 0.1 * x[0] * x[1] - 0.3 * y ^ 2 + 0.2 * y * x[0]
  factor u[x[1]] + v[g]
  factor sum(if a <= g then v[a] * a else 0 for a in grade) / 4
  factor if x[1] == 5 then 0.7
  factor {1: 0.3, 2: -0.2, 3: 0.1}[g]
  require x[0] >= g
  z ~ categorical(p)
  g ~ ordered_logistic(0.3 * y, cut)
}
mask one = subsets(x, size = 1)
mask two = mixture { 1 / 2 : subsets(x, size = 2)  1 / 2 : blocks({y, z}, {g}) }
sampler s { update x by one  update y  update {z, g} }
"""
PARAMS = {"u": np.array([0.1, 0.2, -0.3, 0.4, 0.5]), "v": np.array([0.2, -0.1, 0.3]), "p": np.array([0.1, 0.2, 0.3, 0.15, 0.25])}
PARAMS["cut"] = np.array([-0.4, 0.6])


def _log_p(x0: int, x1: int, y: int, z: int, g: int) -> float:
    """log p without its constant, written out again."""
    u, v, cut = PARAMS["u"], PARAMS["v"], PARAMS["cut"]
    below = [0.0, *(1 / (1 + np.exp(-(c - 0.3 * y))) for c in cut), 1.0]
    table = {1: 0.3, 2: -0.2, 3: 0.1}
    total = 0.1 * x0 * x1 - 0.3 * y**2 + 0.2 * y * x0 + u[x1 - 1] + v[g - 1] + 0.7 * (x1 == 5) + table[g]
    total += sum(v[a - 1] * a for a in (1, 2, 3) if a <= g) / 4
    return total + np.log(PARAMS["p"][z - 1]) + np.log(below[g] - below[g - 1]) if x0 >= g else -np.inf


def test_ranges_that_begin_elsewhere_by_enumeration() -> None:
    model = gm.parse(LIKERT).model()
    states = list(itertools.product(range(1, 6), range(1, 6), (-1, 0, 1), range(1, 6), (1, 2, 3)))
    logs = np.array([_log_p(*s) for s in states])
    total = np.log(np.exp(logs).sum())
    probabilities = np.exp(logs - total)
    assert float(model.log_partition(PARAMS)) == pytest.approx(total, abs=1e-10)
    columns = np.array(states)
    rows = {"x": columns[:, :2], "y": columns[:, 2], "z": columns[:, 3], "g": columns[:, 4]}
    np.testing.assert_allclose(model.log_prob(PARAMS, rows), logs - total, atol=1e-10)
    marginals = model.marginals(PARAMS)
    for k, y in enumerate((-1, 0, 1)):
        assert float(np.asarray(marginals["y"])[k]) == pytest.approx(probabilities[columns[:, 2] == y].sum(), abs=1e-10)
    best, value = model.map(PARAMS)
    assert value == pytest.approx(logs.max() - total, abs=1e-10)
    assert (*best["x"].tolist(), *(int(best[n]) for n in "yzg")) == states[int(logs.argmax())]
    kernel = model.transition_matrix(PARAMS, sampler="s")
    # states without probability have no row of their own, but for their order the matrix is that of `states`
    assert np.abs(kernel.sum(axis=1) - 1).max() < 1e-10
    oracle = Oracle(gm.parse(LIKERT).checked, "m", {})
    np.testing.assert_allclose(oracle.log_partition(PARAMS), total, atol=1e-10)


def test_draws_and_fits_are_in_the_values_of_the_program(tmp_path: Path) -> None:
    model = gm.parse(LIKERT).model()
    draws = model.sample(PARAMS, "exact", draws=4000, chains=1, seed=3)
    x = np.asarray(draws.posterior["x"])[0]
    assert set(np.unique(x)) == {1, 2, 3, 4, 5}
    y = np.asarray(draws.posterior["y"])[0]
    assert set(np.unique(y)) == {-1, 0, 1}
    share = np.asarray(model.marginals(PARAMS)["y"])
    counts = np.array([(y == k).sum() for k in (-1, 0, 1)])
    assert ((counts - 4000 * share) ** 2 / (4000 * share)).sum() < 16  # chi-square of two degrees, p = 3e-4


@pytest.mark.parametrize(("low", "high"), thinned([(100, 104), (-203, -199), (126, 130), (254, 257)], 2, 1))
def test_values_beyond_narrow_integers(low: int, high: int) -> None:
    text = f"model m {{ var x[i in range(2)] : range({low}, {high}) param J factor J * x[0] * x[1] factor (x[0] - 1) / 100 }}"
    model = gm.parse(text).model()
    values = np.array(list(itertools.product(range(low, high), repeat=2)))
    logs = 1e-3 * values[:, 0] * values[:, 1] + (values[:, 0] - 1) / 100
    logs -= logs.max()
    expected = logs - np.log(np.exp(logs).sum())
    np.testing.assert_allclose(model.log_prob({"J": 1e-3}, values), expected, atol=1e-10)
    narrow = values.astype(np.int16)
    np.testing.assert_allclose(model.log_prob({"J": 1e-3}, narrow), expected, atol=1e-10)
    drawn = np.asarray(model.sample({"J": 1e-3}, "exact", draws=50, chains=1, seed=0).posterior["x"])
    assert low <= drawn.min() and drawn.max() < high


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, float])
def test_a_number_outside_is_refused_in_every_type(dtype: type) -> None:
    model = gm.parse("model m { var x[i in range(2)] : range(1, 6) factor x[0] * x[1] / 10 }").model()
    for wrong in (0, 6, 127):
        with pytest.raises(gm.GmlmError, match="E502"):
            model.log_prob({}, np.array([[1, wrong]], dtype))
    with pytest.raises(gm.GmlmError, match="E502"):
        model.log_prob({}, np.array([[1, 1.5]]))


def test_missing_cells_and_texts_of_such_values(tmp_path: Path) -> None:
    model = gm.parse("model m { var x[i in range(2)] : range(1, 6) factor x[0] * x[1] / 10 }").model()
    (tmp_path / "d.csv").write_text("a,b\n1,5\nNA,2\n", encoding="utf-8")
    rows = gm.read_table(tmp_path / "d.csv", missing="NA")
    found = model.log_prob({}, rows)
    both = np.array([[v * 2 / 10 for v in range(1, 6)]])
    every = np.array([[a * b / 10 for b in range(1, 6)] for a in range(1, 6)])
    assert float(found[1]) == pytest.approx(float(np.log(np.exp(both).sum()) - np.log(np.exp(every).sum())), abs=1e-10)
    np.testing.assert_allclose(found, model.log_prob({}, np.array([[1, 5], [-1, 2]]), missing=-1))


TOY = """
model m {
  var   x[i in range(3)] : triple
  param J ~ normal(0, 1)
  factor J * x[i] * x[i + 1] / 4 for i in range(3) if i < 2
  factor if x[0] == 2 then 0.5
  x[2] ~ categorical({-2: [0.1, 0.2, 0.7], 0: [0.3, 0.3, 0.4], 2: [0.25, 0.5, 0.25]}[x[1]])
}
mask pairs = subsets(x, size = 2)
sampler s { update x by pairs }
"""


@pytest.mark.slow
def test_a_new_domain_is_a_row_of_two_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `extend-the-compiler.md` says: a domain touches `_terms.py`, `_forms.py` and `keywords.toml`, and nothing else."""
    monkeypatch.setitem(_terms.SCALES, "triple", _terms.Scale(-2, 2, 3))
    monkeypatch.setattr(forms, "TYPES", (*forms.TYPES, forms.Form("type", "triple", (), "-2, 0 or 2.")))
    model = gm.parse(TOY).model()
    states = np.array(list(itertools.product((-2, 0, 2), repeat=3)))
    rows = {-2: (0.1, 0.2, 0.7), 0: (0.3, 0.3, 0.4), 2: (0.25, 0.5, 0.25)}
    logs = 0.6 * (states[:, 0] * states[:, 1] + states[:, 1] * states[:, 2]) / 4 + 0.5 * (states[:, 0] == 2)
    logs += np.log([rows[b][(c + 2) // 2] for _, b, c in states.tolist()])
    logs -= np.log(np.exp(logs).sum())
    params = {"J": 0.6}
    np.testing.assert_allclose(model.log_prob(params, states), logs, atol=1e-10)
    kernel = model.transition_matrix(params, sampler="s")
    np.testing.assert_allclose(np.exp(logs) @ kernel, np.exp(logs), atol=1e-12)
    drawn = np.asarray(model.sample(params, "exact", draws=1000, chains=1, seed=0).posterior["x"])
    assert set(np.unique(drawn)) == {-2, 0, 2}
    fit = model.fit(drawn.reshape(-1, 3), mask="pairs")
    assert abs(float(fit.params["J"]) - 0.6) < 5 * float(fit.standard_errors["J"])
    with pytest.raises(gm.GmlmError, match="its values are `-2`, `0`, `2`"):
        model.log_prob(params, np.array([[1, 0, 2]]))


ENDED = """
network net = transformer(layers = 1, width = 8, heads = 2, causal = true)
model m {{ var x[i in range(5)] : range({low}, {high}) conditional x ~ net() }}
sampler s = autoregressive(end = {end}, decode = sample)
"""


@pytest.mark.parametrize(("low", "high", "end"), thinned([(1, 4, 2), (-1, 3, -1), (1, 5, 4)], 3, 1))
def test_a_row_ends_with_the_value_that_is_written(low: int, high: int, end: int) -> None:
    model = gm.parse(ENDED.format(low=low, high=high, end=end)).model()
    x = np.asarray(model.sample(model.init_params(), "s", draws=20, chains=1, seed=0).posterior["x"]).reshape(-1, 5)
    after = (x == end).cumsum(axis=1) > 0
    assert after.any() and (np.where(after, x, end) == end).all()


def test_the_end_of_a_row_is_a_value_of_its_variable() -> None:
    model = gm.parse(ENDED.format(low=1, high=4, end=4)).model()
    with pytest.raises(gm.GmlmError, match=r"`end` is a value of `x`, 1..3, found 4"):
        model.sample(model.init_params(), "s", draws=1, chains=1)


def test_a_string_of_a_joint_model_ends_with_the_value_that_is_written() -> None:
    text = "model m { var x[i in range(4)] : range(1, 4)  factor 0.1 * x[i] for i in range(4) }\nsampler s = autoregressive(end = 2, decode = sample)"
    x = np.asarray(gm.parse(text).model().sample({}, "s", draws=40, chains=1, seed=0).posterior["x"]).reshape(-1, 4)
    after = (x == 2).cumsum(axis=1) > 0
    assert after.any() and (np.where(after, x, 2) == 2).all()


@pytest.mark.parametrize("type_", ["range(1, q + 1)", "range(1, 6)", "range(q + 1)", "range(-1, q + 1)"])
def test_a_first_row_of_numbers_is_no_header(type_: str, tmp_path: Path) -> None:
    from gmlmdsl.cli._data_files import Reading, read_data

    (tmp_path / "m.gmlm").write_text(f"input q : int\nmodel m {{ var x[i in range(3)] : {type_} factor x[0] }}", encoding="utf-8")
    (tmp_path / "d.csv").write_text("1,2,3\n3,3,3\n2,1,1\n", encoding="utf-8")
    program = gm.load(tmp_path / "m.gmlm", q=5)
    found = read_data(tmp_path / "d.csv", program.checked, "m", {"q": 5}, Reading())
    assert np.asarray(program.model().log_prob({}, found.x)).shape == (3,)


def test_members_with_names_are_numbers_and_texts_of_a_file(tmp_path: Path) -> None:
    text = "index level = range(1, 4)\nmodel m { var x[i in range(2)] : level factor x[0] * x[1] / 5 }"
    model = gm.parse(text, coords={"level": ["lo", "mid", "hi"]}).model()
    plain = gm.parse(text).model()
    rows = np.array([[1, 3], [2, 2]])
    np.testing.assert_allclose(model.log_prob({}, rows), plain.log_prob({}, rows))
    np.testing.assert_allclose(model.log_prob({}, [[1, -1]], missing=-1), plain.log_prob({}, [[1, -1]], missing=-1))
    for body in ("a,b\n1,3\n2,2\n", "a,b\nlo,hi\nmid,mid\n"):
        (tmp_path / "d.csv").write_text(body, encoding="utf-8")
        np.testing.assert_allclose(model.log_prob({}, gm.read_table(tmp_path / "d.csv")), plain.log_prob({}, rows))
