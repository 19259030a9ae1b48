"""Frames, series and arrays of xarray: where names exist, names decide, whatever the order; what is lacking or unknown is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import gmlmdsl as gm
from gmlmdsl.data import clamped_cells, encode, encode_given
from gmlmdsl.evaluate import known_params
from gmlmdsl.evaluate._prefixes import prefix_codes
from gmlmdsl.read import with_rows_of

pytestmark = pytest.mark.usefixtures("standard_promotion")

ITEMS = ["A1", "A2", "A3", "A4", "A5"]
TURNED = [4, 2, 0, 3, 1]
TEXT = """
input bias[item] : real = 0
index item = range(5)
graph G = complete(item)
model m {
  given z : real
  var x[i in item] : spin
  param h[i in item] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor (h[i] + bias[i] + 0.1 * z) * x[i] for i in item
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
sampler sweep { update x[i] for i in item }
""".replace("input bias[item] : real = 0\nindex item = range(5)", "index item = range(5)\ninput bias[item] : real = 0")
PLAIN = TEXT.replace("  given z : real\n", "").replace(" + 0.1 * z", "")
RNG = np.random.default_rng(3)
X = np.where(RNG.random((30, 5)) < 0.5 + 0.08 * np.arange(5), 1, -1)
X[:, 4] = np.where(RNG.random(30) < 0.85, -X[:, 0], X[:, 0])
FRAME = pd.DataFrame(X, columns=ITEMS, index=[f"r{k}" for k in range(30)])
OTHER = FRAME.iloc[:, TURNED]
SEVERAL = """
index item = range(3)
domain colour = labels("red", "green", "blue")
model several {
  var x[i in item] : bit
  var w[i in item] : colour
  var k : range(4)
  param u
  param T[i in item, c in colour]
  factor u * x[i] * k for i in item
  factor T[i, w[i]] for i in item
}
mask one = subsets(size = 1)
sampler sweep { update x[i] for i in item  update w[i] for i in item  update k }
"""


@pytest.fixture(scope="module")
def model() -> Any:
    return gm.parse(PLAIN, coords={"item": ITEMS}).model()


@pytest.fixture(scope="module")
def given() -> Any:
    return gm.parse(TEXT, coords={"item": ITEMS}).model()


@pytest.fixture(scope="module")
def several() -> Any:
    return gm.parse(SEVERAL, coords={"item": ["a", "b", "c"]}).model()


@pytest.fixture(scope="module")
def params(model: Any) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {name: rng.normal(0, 0.5, value.shape) for name, value in model.init_params().items()}


def refused(code: str, call: Any, found: str) -> str:
    """`call` raises one fault of this code, whose message has this text; its help."""
    with pytest.raises(gm.GmlmError) as caught:
        call()
    assert caught.value.codes == (code,), str(caught.value)
    assert found in caught.value.diagnostics[0].message
    return caught.value.diagnostics[0].help


def codes(model: Any, x: Any, **options: Any) -> list[list[int]]:
    return encode(model.graph, x, **options).codes.T.tolist()


FORMS = {
    "labels": OTHER,
    "cells": OTHER.rename(columns=lambda c: f"x[{c}]"),
    "underscores": OTHER.rename(columns=lambda c: f"x_{c}"),
    "levels": OTHER.set_axis(pd.MultiIndex.from_product([["x"], OTHER.columns]), axis=1),
    "objects": OTHER.astype(object),
    "categories": OTHER.astype("category"),
    "a dict": {"x": OTHER},
    "xarray": xr.DataArray(OTHER.to_numpy(), dims=("row", "item"), coords={"item": list(OTHER.columns)}),
    "xarray, turned": xr.DataArray(OTHER.to_numpy().T, dims=("item", "row"), coords={"item": list(OTHER.columns)}),
    "xarray, other dims": xr.DataArray(OTHER.to_numpy(), dims=("r", "c"), coords={"c": list(OTHER.columns)}),
    "a dataset": xr.Dataset({"x": xr.DataArray(OTHER.to_numpy(), dims=("r", "item"), coords={"item": list(OTHER.columns)})}),
}


@pytest.mark.parametrize("form", FORMS)
def test_names_decide_in_every_form(model: Any, form: str):
    assert codes(model, FORMS[form]) == ((X + 1) // 2).tolist()


@pytest.mark.slow
def test_a_fit_is_that_of_the_cells_whatever_the_order_of_columns(model: Any):
    right, turned = model.fit(X, mask="single"), model.fit(OTHER, mask="single")
    assert right.params["J"].tolist() == turned.params["J"].tolist()
    assert right.params["J"][3] < -0.3  # of A1 and A5
    held = model.fit(X, mask="single", fixed={"h": pd.Series(0.1, index=ITEMS).iloc[TURNED] * np.arange(5)}, init={"J": right.params["J"]})
    assert np.allclose(held.params["h"], 0.1 * np.argsort(TURNED), rtol=1e-6)


@pytest.mark.parametrize(
    ("x", "found"),
    [
        (FRAME.rename(columns={"A3": "A8"}), "column `A8` is not a cell"),
        (FRAME.assign(B7=1), "column `B7` is not a cell"),
        (FRAME.iloc[:, :4], "has no column for `x[A5]`"),
        (FRAME.assign(**{"x[A1]": 1}), "the columns `A1` and `x[A1]` are both x[A1]"),
        (FRAME.set_axis(["A1", "A2", "A3", "A4", "A4"], axis=1), "are both"),
        (xr.DataArray(X, dims=("r", "item"), coords={"item": [*ITEMS[:4], "A9"]}), "has the label `A9`"),
        (xr.DataArray(X, dims=("r", "item"), coords={"item": [*ITEMS[:4], "A1"]}), "has the label `A1` twice"),
    ],
)
def test_what_is_unknown_or_lacking_is_refused(model: Any, x: Any, found: str):
    assert refused("E503", lambda: model.fit(x, mask="single"), found)


def test_the_nearest_name_is_said(model: Any):
    help = refused("E503", lambda: model.fit(FRAME.rename(columns={"A3": "A_3x"}), mask="single"), "A_3x")
    assert "did you mean `A3`?" in help


def test_names_without_a_member_are_read_in_their_order():
    """Of a model without labels, and of a frame without names; integers in another order are names."""
    plain = gm.parse(PLAIN).model()
    want = ((X + 1) // 2).tolist()
    named = gm.parse(PLAIN, coords={"item": ITEMS}).model()
    assert codes(plain, FRAME) == codes(named, pd.DataFrame(X)) == codes(plain, pd.DataFrame(X, columns=range(1, 6))) == want
    assert codes(plain, pd.DataFrame(X).iloc[:, TURNED]) == want
    assert codes(plain, pd.DataFrame(X).iloc[:, TURNED].rename(columns=str)) == want
    assert codes(plain, OTHER.set_axis([f"x[{k}]" for k in TURNED], axis=1)) == want
    refused("E503", lambda: codes(plain, FRAME.set_axis(["x[0]", "x[1]", "x[2]", "x[3]", "x[5]"], axis=1)), "x[5]")


def test_labels_of_any_script_are_told_apart():
    m = gm.parse(PLAIN, coords={"item": ["ä", "ö", "ü", "a-b", "a_b"]}).model()
    names = np.array(["ä", "ö", "ü", "a-b", "a_b"])
    assert codes(m, pd.DataFrame(X, columns=names).iloc[:, TURNED]) == ((X + 1) // 2).tolist()
    refused("E503", lambda: codes(m, pd.DataFrame(X, columns=["ä", "ö", "ü", "a b", "a_b"])), "may be two cells")


def test_a_table_of_other_names_is_refused(tmp_path: Any, model: Any):
    for names, order in ((ITEMS, range(5)), (OTHER.columns, TURNED)):
        frame = pd.DataFrame(X[:, list(order)], columns=list(names))
        frame.to_csv(tmp_path / "d.csv", index=False)
        assert codes(model, gm.read_table(tmp_path / "d.csv")) == ((X + 1) // 2).tolist()
    FRAME.rename(columns={"A3": "A03"}).to_csv(tmp_path / "d.csv", index=False)
    found = refused("E503", lambda: codes(model, gm.read_table(tmp_path / "d.csv")), "has no column for `x[A3]`")
    assert "did you mean `A3`?" in found
    umlauts = gm.parse(PLAIN, coords={"item": ["ä", "ö", "ü", "é", "è"]}).model()
    pd.DataFrame(X[:, TURNED], columns=np.array(["ä", "ö", "ü", "é", "è"])[TURNED]).to_csv(tmp_path / "d.csv", index=False)
    assert codes(umlauts, gm.read_table(tmp_path / "d.csv")) == ((X + 1) // 2).tolist()


def test_columns_of_another_alignment_are_no_cells_of_this_model(tmp_path: Any):
    """Its gaps left out other columns, as many of them."""
    text = 'index site = range(n) model f { var x[i in site] : letters("-ACD") param h[i in site, a in range(4)] factor 0.1 for i in site }'
    for name, rows in (("a.fa", ">q\nACDA\n>r\nAC-A\n>s\nACAA\n"), ("b.fa", ">q\nACDA\n>r\nA-DA\n>s\nA-DA\n")):
        (tmp_path / name).write_text(rows)
    first = gm.read_alignment(tmp_path / "a.fa", column_gaps=0.2)
    other = gm.read_alignment(tmp_path / "b.fa", column_gaps=0.2)
    assert (first.columns, other.columns) == (("A1", "C2", "A4"), ("A1", "D3", "A4"))
    m = gm.parse("input n : int " + text, n=3, coords={"site": first.columns}).model()
    assert codes(m, first) == [[1, 2, 1]] * 3
    refused("E503", lambda: codes(m, other), "has no column for `x[C2]`")


# Where else data come in


def test_prefixes_read_names(model: Any):
    want = prefix_codes(model.graph, X[:, :2], None)[0]
    assert np.array_equal(prefix_codes(model.graph, FRAME[["A2", "A1"]], None)[0], want)
    refused("E503", lambda: prefix_codes(model.graph, FRAME[["A2", "A3"]], None), "A3")


@pytest.mark.slow
def test_every_verb_reads_names(model: Any, params: dict[str, Any]):
    for verb in (model.log_prob, model.log_potential):
        assert np.array_equal(verb(params, OTHER), verb(params, X))
    assert model.loss(params, OTHER, mask="single") == model.loss(params, X, mask="single")
    assert np.array_equal(model.log_conditional(params, OTHER, K=(0, 3)), model.log_conditional(params, X, K=(0, 3)))
    assert np.array_equal(model.log_prob(params, OTHER.iloc[4]), model.log_prob(params, X[4]))  # one row, a series
    assert np.array_equal(model.next_symbol(params, FRAME[["A2", "A1"]]), model.next_symbol(params, X[:, :2]))


def test_clamped_cells_go_by_label(model: Any):
    def held(clamp: Any) -> Any:
        return [a.tolist() for a in clamped_cells(model.graph, {"x": clamp})]

    for clamp in ({"A2": 1, "A4": -1}, pd.Series({"A4": -1, "A2": 1})):
        assert held(clamp) == held({1: 1, 3: -1})
    assert held(OTHER.iloc[0]) == held(X[0]) == held(xr.DataArray(OTHER.iloc[0].to_numpy(), dims="i", coords={"i": OTHER.columns}))
    found = refused("E507", lambda: held({"A22": 1}), "`A22` is not a member")
    assert "did you mean `A2`?" in found
    assert codes(model, OTHER.iloc[:2], what="init") == ((X[:2] + 1) // 2).tolist()


@pytest.mark.usefixtures("float32")  # whose range or rounding is what is tested
def test_parameters_with_labels(model: Any, params: dict[str, Any]):
    edges = model.graph.parameters[1].coords[0]
    turn = np.random.default_rng(0).permutation(len(edges))
    h = pd.Series(params["h"], index=ITEMS)
    labelled = {
        "h": h.iloc[TURNED],
        "J": xr.DataArray(params["J"][turn], dims=("G.edges",), coords={"G.edges": [edges[k] for k in turn]}),
    }
    levels = pd.MultiIndex.from_tuples([tuple(edges[k].split(", ")) for k in turn])
    want = model.log_prob(params, X)
    assert np.array_equal(model.log_prob(labelled, X), want)
    assert np.array_equal(model.log_prob(labelled | {"J": pd.Series(params["J"][turn], index=levels)}, X), want)
    refused("E506", lambda: model.log_prob(params | {"h": h.rename({"A1": "A7"})}, X), "has the label `A7`")
    refused("E506", lambda: model.log_prob(params | {"h": h.iloc[:4]}, X), "lacks `A5`")
    assert np.array_equal(known_params(model.graph, labelled, "init")["h"], np.float32(params["h"]))


def test_inputs_with_labels():
    bias = pd.Series([0.1, 0.2, 0.3, 0.4, 0.5], index=ITEMS)
    for value in (bias, bias.iloc[TURNED], xr.DataArray(bias.iloc[TURNED].to_numpy(), dims="i", coords={"i": bias.index[TURNED]})):
        program = gm.parse(PLAIN, coords={"item": ITEMS}, bias=value)
        assert program.bound.inputs["bias"].tolist() == bias.tolist()
    refused("E403", lambda: gm.parse(PLAIN, coords={"item": ITEMS}, bias=bias.rename({"A1": "B"})), "has the label `B`")
    assert gm.parse(PLAIN, bias=bias.iloc[::-1]).bound.inputs["bias"].tolist() == bias.tolist()[::-1]  # no labels in the program


def test_a_frame_of_two_axes_is_a_table_of_parameters(several: Any):
    T = pd.DataFrame(np.arange(9.0).reshape(3, 3), index=["a", "b", "c"], columns=["red", "green", "blue"])
    x = {"x": [[0, 1, 1]], "w": [["red", "blue", "green"]], "k": [2]}
    want = several.log_potential({"u": 0.3, "T": T.to_numpy()}, x)
    long = T.stack().iloc[::-1]
    for table in (T.loc[["c", "a", "b"], ["blue", "red", "green"]], long):
        assert np.array_equal(several.log_potential({"u": 0.3, "T": table}, x), want)


# Rows


W = pd.Series(np.linspace(0.5, 2, 30), index=FRAME.index)
SHUFFLED = W.sample(frac=1, random_state=0)


def test_weights_go_by_the_labels_of_rows(model: Any):
    rows = encode(model.graph, FRAME)
    assert rows.matched(SHUFFLED, "weights").tolist() == W.tolist()
    assert (
        rows.matched(xr.DataArray(SHUFFLED.to_numpy(), dims="r", coords={"r": list(SHUFFLED.index)}), "weights").values.tolist()
        == W.tolist()
    )
    assert rows.matched(SHUFFLED.to_numpy(), "weights").tolist() == SHUFFLED.tolist()
    assert encode(model.graph, X).matched(SHUFFLED, "weights") is SHUFFLED  # rows without labels are in their order
    refused("E501", lambda: model.fit(FRAME, mask="single", weights=W.rename({"r3": "q"})), "weights has no row labelled `r3`")
    refused("E501", lambda: model.fit_path(FRAME.iloc[1:], mask="single", weights=W), "has a row labelled `r0`")
    refused("E501", lambda: model.to_numpyro(FRAME, mask="single", weights=W.reset_index(drop=True)), "no row labelled `r0`")
    refused("E501", lambda: model.posterior(FRAME.iloc[1:], mask="single", weights=W), "has a row labelled `r0`")


@pytest.mark.slow
def test_every_verb_takes_rows_by_their_labels(model: Any, params: dict[str, Any]):
    want = model.loss(params, X, mask="single", weights=W.to_numpy())
    assert model.loss(params, FRAME, mask="single", weights=SHUFFLED) == want
    fit = model.fit(FRAME, mask="single", weights=SHUFFLED)
    assert fit.objective == model.fit(X, mask="single", weights=W.to_numpy()).objective
    assert model.fit_path(FRAME, mask="single", penalty=[0.3, 0.1], weights=SHUFFLED).table.equals(
        model.fit_path(X, mask="single", penalty=[0.3, 0.1], weights=W.to_numpy()).table
    )
    scored = fit.score(FRAME.iloc[::-1], weights=SHUFFLED)
    assert np.array_equal(scored.losses[::-1], fit.score(X, weights=W.to_numpy()).losses)
    groups = pd.Series(np.arange(30) // 3, index=FRAME.index)
    folds = fit.cross_validate(3, groups=groups.loc[SHUFFLED.index], progress=False).folds
    assert np.array_equal(folds, fit.cross_validate(3, groups=groups.to_numpy(), progress=False).folds)


def test_rows_of_a_dict_and_of_given_data_go_by_their_labels(given: Any, several: Any):
    z = pd.Series(np.linspace(-1, 1, 30), index=FRAME.index)
    some = {name: np.full(value.shape, 0.2) for name, value in given.init_params().items()}
    want = given.log_prob(some, X, given={"z": z.to_numpy()})
    for other in ({"z": z.iloc[::-1]}, pd.DataFrame({"z": z.iloc[::-1]})):
        assert np.array_equal(given.log_prob(some, OTHER, given=other), want)
    refused("E501", lambda: given.log_prob(some, OTHER, given={"z": z.iloc[:9]}), "has no row labelled")
    refused("E503", lambda: given.log_prob(some, OTHER.assign(z=z)), "is given with each row")
    refused("E503", lambda: encode_given(given.graph, pd.DataFrame({"zz": z})), "`zz` is not a cell")
    x = pd.DataFrame(np.eye(3, dtype=int), columns=["a", "b", "c"], index=[7, 8, 9])
    k = pd.Series([1, 2, 3], index=[9, 8, 7])
    w = [["red"] * 3, ["green"] * 3, ["blue"] * 3]
    assert codes(several, {"x": x, "w": w, "k": k}) == codes(several, {"x": np.eye(3, dtype=int), "w": w, "k": [3, 2, 1]})
    refused("E501", lambda: with_rows_of(pd.Index([1, 1, 2]), pd.Series([1, 2, 3]), "weights"), "two rows labelled `1`")


# One frame for several variables


def test_one_frame_holds_several_variables(several: Any):
    frame = pd.DataFrame(
        {
            "k": [3, 0],
            "w[c]": ["blue", "red"],
            "w[a]": ["red", "green"],
            "x[b]": [1, 0],
            "x[a]": [0, 1],
            "x_c": [1, 1],
            "w[b]": pd.Categorical(["green", "green"], categories=["red", "green", "blue"]),
        }
    )
    plain = {"x": [[0, 1, 1], [1, 0, 1]], "w": [["red", "green", "blue"], ["green", "green", "red"]], "k": [3, 0]}
    assert codes(several, frame) == codes(several, plain)
    assert codes(several, frame.iloc[0]) == codes(several, {name: value[0] for name, value in plain.items()})
    levels = pd.MultiIndex.from_tuples([("k", ""), ("w", "c"), ("w", "a"), ("x", "b"), ("x", "a"), ("x", "c"), ("w", "b")])
    assert codes(several, frame.set_axis(levels, axis=1)) == codes(several, plain)
    assert codes(several, frame.where(frame != 3), missing=float("nan"))[0][-1] == -1
    refused("E503", lambda: codes(several, frame.rename(columns={"x[a]": "a"})), "`a` may be two cells")
    refused("E503", lambda: codes(several, frame.drop(columns="k")), "has no column for `k`")
    refused("E503", lambda: codes(several, frame.set_axis(range(7), axis=1)), "column `0` is not a cell")


def test_axes_of_two_sets_and_latents_in_one_frame():
    text = "index r = range(2) index c = range(2) model g { latent z : bit var x[i in r, j in c] : bit factor 0.1 * x[i, j] * z for i in r for j in c }"
    m = gm.parse(text, coords={"r": ["u", "v"], "c": ["p", "q"]}).model()
    values = np.array([[0, 1, 1, 0], [1, 1, 0, 1]])
    names = ["x[u, p]", "x[u, q]", "x[v, p]", "x[v, q]"]
    want = codes(m, values.reshape(2, 2, 2))
    frame = pd.DataFrame(values, columns=names)
    for form in (
        frame.iloc[:, ::-1],
        frame.rename(columns=lambda n: n[2:-1]),
        frame.set_axis(pd.MultiIndex.from_product([list("uv"), list("pq")]), axis=1),
    ):
        assert codes(m, form) == want
    assert codes(m, frame.assign(z=[1, 0])) == codes(m, {"x": values.reshape(2, 2, 2), "z": [1, 0]})


@pytest.mark.parametrize(
    ("kind", "values", "cure"),
    [
        ("bit", ["0", "1"], "x.astype(int)"),
        ("spin", ["-1", "1"], "x.astype(int)"),
        ("range(3)", ["2", "1"], "x.astype(int)"),
        ("spin", ["0", "1"], "2 * x.astype(int) - 1"),
        ("bit", ["-1", "1"], "(x.astype(int) + 1) // 2"),
        ("bit", ["no", "yes"], "(x == 'yes').astype(int)"),
        ("spin", ["no", "yes"], "2 * (x == 'yes') - 1"),
    ],
)
@pytest.mark.parametrize("category", [False, True])
def test_texts_of_numbers_are_refused_with_the_line_that_reads_them(kind: str, values: list[str], cure: str, category: bool):
    m = gm.parse(f"model m {{ var x[i in range(2)] : {kind} factor 0.1 for i in range(2) }}").model()
    x = pd.DataFrame([values, values[::-1]], columns=["u", "v"])
    x = x.astype("category") if category else x
    found = refused("E502", lambda: encode(m.graph, x), "must hold numbers")
    assert f"`{cure}`" in found
    assert encode(m.graph, eval(cure, {"x": x})).codes.shape == (2, 2)  # the cure does what it says


def test_categories_of_numbers_and_labels_are_values(several: Any):
    plain = gm.parse(PLAIN).model()
    assert codes(plain, FRAME.astype("category")) == ((X + 1) // 2).tolist()
    w = pd.Series(["red", "blue"]).astype("category")
    rows = {"x": [[0, 0, 0]] * 2, "w": pd.concat([w, w, w], axis=1, keys=["c", "a", "b"]), "k": [0, 1]}
    assert [row[3:6] for row in codes(several, rows)] == [[0, 0, 0], [2, 2, 2]]


class Polars:
    """A frame that is no pandas frame, and becomes one."""

    columns = tuple(OTHER.columns)

    def to_pandas(self) -> pd.DataFrame:
        return OTHER.reset_index(drop=True)


def test_a_frame_of_another_library(model: Any):
    assert codes(model, Polars()) == ((X + 1) // 2).tolist()


@pytest.mark.slow
def test_differences_want_one_order(model: Any):
    """Fits of models whose labels stand in another order are not compared by position."""
    other = gm.parse(PLAIN, coords={"item": list(OTHER.columns)}).model()
    a, b = (m.fit(FRAME, mask="single") for m in (model, other))
    refused("E545", lambda: a.differences(b), "different parameters")
    assert np.isclose(a.objective, b.objective)


UNNAMED = """
index item = range(3)
model m {
  var x[i in item] : labels("no", "yes")
  param h[i in item] ~ normal(0, 1)
  factor if x[i] == "yes" then h[i] else 0 for i in item
}
mask one = subsets(x, size = 1)
"""


def answers(columns):
    yes = np.random.default_rng(0).random((40, 3)) < [0.3, 0.5, 0.9]
    return pd.DataFrame(np.where(yes, "yes", "no"), columns=columns)


def test_a_fit_has_the_names_of_the_columns():
    model, frame = gm.parse(UNNAMED).model(), answers(["tea", "milk", "sugar"])
    fit = model.fit(frame)
    assert fit.summary().index.tolist() == ["h[tea]", "h[milk]", "h[sugar]"]
    assert np.array_equal(fit.params["h"], model.fit(frame.to_numpy()).params["h"])
    assert model.fit(x=frame).model is fit.model
    turned = model.fit(frame[["sugar", "tea", "milk"]])
    assert turned.summary().index.tolist() == ["h[sugar]", "h[tea]", "h[milk]"]
    with pytest.raises(gm.GmlmError, match="coords"):
        gm.wald_test(fit, turned)
    plain = model.fit(answers([0, 1, 2]))
    for a, b in ((fit, plain), (plain, fit)):
        assert sorted(gm.wald_test(a, b).table.index) == ["h[milk]", "h[sugar]", "h[tea]"]
    again = fit.model.fit(frame[["sugar", "tea", "milk"]])
    assert np.allclose(again.params["h"], fit.params["h"], atol=1e-4)


def test_a_fit_has_the_names_of_the_columns_where_the_sets_have_none(tmp_path: Any):
    """The range of the variable, that of the parameter and the nodes of the graph are one set of cells."""
    text = UNNAMED.replace("index item = range(3)", "graph G = complete(3)").replace("in item", "in range(3)")
    text = text.replace(
        "\n}\nmask", "\n  param J[(i, j) in G.edges] ~ normal(0, 1)\n  factor J[i, j] * (x[i] == x[j]) for (i, j) in G.edges\n}\nmask"
    )
    fit = gm.parse(text).model().fit(answers(["tea", "milk", "sugar"]))
    names = ["h[tea]", "h[milk]", "h[sugar]", "J[tea, milk]", "J[tea, sugar]", "J[milk, sugar]"]
    assert fit.summary().index.tolist() == names
    assert {*fit.couplings()["first"]} <= {"x[tea]", "x[milk]", "x[sugar]"}
    fit.save(tmp_path / "named.fit")
    assert gm.load_fit(tmp_path / "named.fit").summary().index.tolist() == names


def test_names_of_hidden_variables_do_not_decide_about_columns():
    hidden = UNNAMED.replace("param", "latent z : bit  param", 1).replace("h[i] else", "h[i] * z else")
    frame = answers(["tea", "milk", "sugar"])
    assert codes(gm.parse(hidden).model(), frame) == codes(gm.parse(hidden).model(), frame.to_numpy())


@pytest.mark.parametrize("columns", [[0, 1, 2], ["0", "1", "2"], ["x[0]", "x[1]", "x[2]"], ["x_2", "x_1", "x_0"]])
def test_columns_without_names_of_their_own_leave_the_model_as_it_is(columns):
    model = gm.parse(UNNAMED).model()
    assert model.fit(answers(columns)).model is model


def test_columns_without_names_leave_the_labels_of_the_program():
    named = gm.parse(UNNAMED, coords={"item": ["tea", "milk", "sugar"]}).model()
    assert named.fit(answers([0, 1, 2])).model is named


@pytest.mark.parametrize(("text", "column"), [(UNNAMED, "milk"), (UNNAMED.replace("param", "var z : bit  param"), "x[1]")])
@pytest.mark.parametrize(("entry", "words"), [("oat", "is 'oat'"), (None, "nan")])
def test_an_error_of_a_value_names_the_column(text, column, entry, words):
    """Also of several variables, whose columns have other types."""
    frame = answers(["tea", column, "sugar"] if column == "milk" else ["x[0]", column, "x[2]"])
    frame = frame if column == "milk" else frame.assign(z=1)
    frame.loc[7, column] = entry
    model = gm.parse(text).model()
    with pytest.raises(gm.GmlmError) as fitted:
        model.fit(frame)
    with pytest.raises(gm.GmlmError) as caught:
        model.log_prob({"h": np.zeros(3)}, frame)
    assert str(caught.value) == str(fitted.value)
    assert f"x: column `{column}`, row 7 (counted from 0), is " in str(caught.value)
    assert "7" in str(caught.value)
    assert words in str(caught.value)


EDGES = PLAIN.replace("index item", "input pairs[edges, 2] : int\nindex item", 1).replace("complete(item)", "edges(pairs, nodes = item)")


@pytest.mark.slow
def test_paths_and_draws_have_the_names_of_the_columns():
    model, columns = gm.parse(EDGES, pairs=[[0, 1], [1, 2]]).model(), ["tea", "milk", "sugar", "oat", "soy"]
    frame = pd.DataFrame(X, columns=columns)
    path = model.fit_path(frame, "single", penalty=2, progress=False)
    assert path.refit().model.graph.cell_name(0) == "x[tea]"
    draws = model.posterior(frame, "single", draws=4, chains=1, warmup=4)
    assert draws.posterior["item"].values.tolist() == columns


@pytest.mark.slow
def test_fits_with_and_without_labels_are_compared_in_order():
    """Edges are matched by their ends, and the names are those of the fit that has some."""
    path, turned = (gm.parse(EDGES, pairs=[[0, 1], [k, 2]]).model() for k in (1, 0))
    named, plain = path.fit(FRAME, "single"), path.fit(np.concatenate([X, X[:7]]), "single")
    ends = {("x[A1]", "x[A2]"), ("x[A2]", "x[A3]")}
    found = [a.differences(b) for a, b in ((named, plain), (plain, named))]
    assert [{*zip(t["first"], t["second"], strict=True)} for t in found] == [ends, ends]
    np.testing.assert_allclose(found[0]["p_value"], found[1]["p_value"])
    refused("E545", lambda: named.differences(turned.fit(X, "single")), "different parameters")


def test_a_column_that_occurs_twice_is_refused_where_cells_have_no_names():
    model = gm.parse("model m { var x[i in range(3)] : bit  factor 0.1 * x[i] for i in range(3) }").model()
    with pytest.raises(gm.GmlmError, match="E503.*two columns `a`"):
        model.log_potential({}, pd.DataFrame([[0, 1, 1]], columns=["a", "a", "c"]))
    assert model.log_potential({}, pd.DataFrame([[0, 1, 1]], columns=["a", "b", "c"])).shape == (1,)


MARKS = {
    "a text": ("labels", ["yes", "DK", "no"], None, "correct it or, if it stands for a missing cell, pass `missing='DK'`"),
    "a number": ("bit", [1, -9, 0], None, "correct it or, if it stands for a missing cell, pass `missing=-9`"),
    "a text among numbers": ("bit", [1, "DK", 0], None, "`missing='DK'`"),
    "besides nan": ("labels", ["yes", "DK", None], float("nan"), "`missing=[nan, 'DK']`"),
    "nan besides": ("labels", ["yes", "DK", None], "DK", "if these stand for missing cells, pass `missing=['DK', nan]`"),
}


@pytest.mark.parametrize("case", MARKS)
def test_a_value_that_may_be_a_missing_cell_is_told_as_one(case):
    """For frames as for arrays, with the marks that the call has; then the call with the told marks runs."""
    domain, row, missing, help = MARKS[case]
    kind = {"labels": 'labels("no", "yes")', "bit": "bit"}[domain]
    model = gm.parse(f"model m {{ var x[i in range(3)] : {kind}  factor 1 }}").model()
    rows = [row, ["yes", "no", "no"] if domain == "labels" else [0, 0, 1]]
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    for x in (frame, np.array(rows, dtype=object)):
        with pytest.raises(gm.GmlmError) as caught:
            encode(model.graph, x, missing=missing)
        assert help in caught.value.diagnostics[0].help
        marks = {"a number": [-9]}.get(case, ["DK", float("nan"), -9])
        assert encode(model.graph, x, missing=marks).codes[1].tolist() == [-1, 0]


def test_columns_above_the_cells_are_named():
    model = gm.parse("model m { var x[i in range(2)] : bit  factor 1 }").model()
    with pytest.raises(gm.GmlmError, match="that are not cells.*the columns are `id`, `a`, `b`"):
        encode(model.graph, pd.DataFrame({"id": [7], "a": [0], "b": [1]}))
