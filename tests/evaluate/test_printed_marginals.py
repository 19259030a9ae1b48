"""Marginals print the names of cells and the labels of values, and stay the dict of arrays that they are."""

from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest
from exchange_cases import ASIA
from refusals import refused

import gmlmdsl as gm

TEXT = """
index day = range(2)
domain sky = labels("sun", "light rain")
model m {
  var w[d in day] : sky
  var wet : spin
  param b
  factor b * (w[d] == "light rain") * wet for d in day
}
"""


def weather() -> gm.JointModel:
    return gm.parse(TEXT, coords={"day": ["mon", "tue"]}).model()


def test_an_imported_network_prints_its_states(tmp_path):
    (tmp_path / "asia.bif").write_text(ASIA)
    found = gm.read_model(tmp_path / "asia.bif")
    p = gm.parse(found.text, **found.inputs).model().marginals({})
    lines = str(p).splitlines()
    assert lines[0].split() == ["yes", "no"]
    assert [line.split()[0] for line in lines[2:]] == list(p)
    shown = dict(zip(p, (float(line.split()[1]) for line in lines[2:]), strict=True))
    assert shown == pytest.approx({name: float(table[0]) for name, table in p.items()}, abs=1e-5)


def test_cells_have_their_names_and_values_their_labels():
    p = weather().marginals({"b": 0.4})
    assert p.labels == {"w": ["sun", "light rain"], "wet": ["-1", "1"]}
    table = p.table("w")
    assert (list(table.index), list(table.columns)) == (["w[mon]", "w[tue]"], p.labels["w"])
    np.testing.assert_array_equal(table, p["w"])
    assert list(p.table("wet").index) == ["wet"]
    text, page = str(p), p._repr_html_()
    assert all(word in text and word in page for word in ("w[tue]", "light rain", "wet", "-1"))
    refused("E506", lambda: p.table("x"), "there are no marginals of `x`")
    refused("E506", lambda: p.table(["x"]), "there are no marginals of")  # no key of any dict


def test_rows_and_groups_have_labels_too():
    model = weather()
    rows = model.marginals({"b": 0.4}, x={"wet": [1, -1, 1]}, missing=9)
    table = rows.table("w")
    assert (table.index.names, len(table)) == (["row", "cell"], 6)
    assert table.loc[(1, "w[tue]"), "sun"] == rows["w"][1, 1, 0]
    assert list(rows.table("wet").index) == [(0, "wet"), (1, "wet"), (2, "wet")]
    group = (("w", "mon"), "wet")
    joint = model.marginals({"b": 0.4}, over=[group, ("wet",)])
    table = joint.table(group)
    assert (table.columns.name, table.index.name) == ("wet", "w[mon]")
    assert table.loc["light rain", "1"] == joint[group][1, 1]
    assert "light rain" in str(joint)
    np.testing.assert_array_equal(np.ravel(joint.table(("wet",))), joint[("wet",)])
    none = model.marginals({"b": 0.4}, x={"wet": np.zeros(0, int)}, missing=9)
    assert len(none.table("w")) == 0 and isinstance(str(none), str)


def test_long_and_wide_marginals_say_what_they_leave_out():
    p = gm.parse("model m {\n  var x[i in range(100)] : bit\n  var y : range(40)\n}\n").model().marginals({})
    text = str(p)
    assert "20 of 100 rows of `x`; `.table('x')` has all" in text
    assert "`y`: an array of shape (40,)" in text
    assert len(p.table("x")) == 100 and p.table("y").shape == (1, 40)


def test_marginals_are_a_dict_for_jax_and_for_pickle():
    p = weather().marginals({"b": 0.4})
    assert isinstance(p, dict) and p == dict(p)
    doubled = jax.tree.map(lambda a: 2 * a, p)
    np.testing.assert_array_equal(doubled["w"], 2 * p["w"])
    again = pickle.loads(pickle.dumps(p))
    assert str(again) == str(p)


@pytest.mark.parametrize("method", ["belief-propagation", "mean-field"])
def test_approximations_have_tables_beside_their_summary(method: str):
    p = weather().marginals({"b": 0.4}, method=method)
    assert list(p.table("w").columns) == ["sun", "light rain"]
    assert str(p).startswith(p.summary) and p.summary in p._repr_html_()
