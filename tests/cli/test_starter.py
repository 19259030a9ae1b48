"""`gmlm new` and `gmlm mock`: what is written runs as printed, has the declared types, and nothing is overwritten."""

from __future__ import annotations

import csv
import re
import shlex
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cli_cases import ROOT, gmlm
from cli_cases import folder as folder

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("standard_promotion")  # fits run as on the command line
TYPES = """\
input n : int
input e[p, 2] : int
input w[i in range(n)] : positive
input share[parts] : simplex
input rate : real(lower = 0.2, upper = 0.4)
domain colour = labels("red", "blue")
input favourite : colour
graph G = edges(e, nodes = n)
model m {
  var x[i in range(n)] : colour
  var k : range(1, 4)
  param J ~ normal(0, 1)
  factor J * w[i] * (if x[i] == favourite then 1 else 0) for i in range(n)
  factor rate * share[0] * k
  require not (x[i] == "red" and x[j] == "red") for (i, j) in G.edges
}
mask one = subsets(size = 1)
"""


def next_commands(output: str) -> list[list[str]]:
    return [shlex.split(line) for line in output.split("next:\n")[1].splitlines()]


def stored(file: str) -> dict[str, np.ndarray]:
    with np.load(file) as arrays:
        return dict(arrays)


@pytest.mark.usefixtures("folder")
def test_a_new_project_runs_as_printed(monkeypatch):
    said = gmlm("new", "council").output
    (change, *steps) = next_commands(said)
    assert change == ["cd", "council"]
    assert [step[1] for step in steps] == ["check", "info", "fit", "sample", "masks"]
    monkeypatch.chdir("council")
    assert sorted(p.name for p in Path().iterdir()) == ["README.md", "council.gmlm", "data.csv"]
    readme = re.search(r"```sh\n(.*?)```", Path("README.md").read_text(encoding="utf-8"), re.S)
    assert readme is not None
    assert [shlex.split(line) for line in readme[1].splitlines()] == steps
    for step in steps[:3]:
        found = gmlm(*step[1:])
    assert "converged" in found.output
    fit = gm.load_fit("council.fit")
    table = fit.summary()
    z = table["estimate"] / table["std_error"]
    assert z["J[budget, schools]"] > 2  # The invented answers go together.
    assert z["J[schools, roads]"] < -2
    assert gmlm(*steps[3][1:], "--draws", "20", "--warmup", "5").exit_code == 0


def test_a_new_project_overwrites_nothing_and_has_a_plain_name(folder):
    gmlm("new", "council")
    before = (folder / "council" / "data.csv").read_bytes()
    assert "E560" in gmlm("new", "council", status=1).output
    assert (folder / "council" / "data.csv").read_bytes() == before
    (folder / "empty").mkdir()
    gmlm("new", "empty")
    for name in ("1x", "a.b", "..", "a b"):
        assert "E507" in gmlm("new", name, status=1).output


def test_invented_inputs_and_rows_have_the_declared_types(folder):
    (folder / "types.gmlm").write_text(TYPES)
    said = gmlm("mock", "types.gmlm", "--rows", "60").output
    arrays = stored("types-inputs.npz")
    assert set(arrays) == {"e", "w", "share"}
    assert arrays["w"].shape == (5,)
    assert (arrays["w"] > 0).all()
    assert arrays["share"].sum() == pytest.approx(1)
    assert arrays["e"].tolist() == [[k, k + 1] for k in range(4)]
    (command,) = next_commands(said)
    scalars = dict(word.split("=") for word in command if "=" in word)
    assert scalars["n"] == "5"
    assert scalars["favourite"] in ("red", "blue")
    assert 0.2 <= float(scalars["rate"]) <= 0.4
    head, *rows = csv.reader((folder / "types-data.csv").read_text().splitlines())
    assert head == [*(f"x[{k}]" for k in range(5)), "k"]
    assert len(rows) == 60
    assert {r[5] for r in rows} == {"1", "2", "3"}
    assert not any(a == b == "red" for r in rows for a, b in pairwise(r[:5]))
    assert "60 rows of types-data.csv" in gmlm(*command[1:]).output


def test_an_array_is_invented_again_until_the_program_binds(folder):
    (folder / "small.gmlm").write_text(
        "input n : int\ninput e[p, 2] : int\ninput father[i in range(n)] : int\ngraph G = edges(e, nodes = n)\n"
        "model m { var x[i in range(n)] : bit  factor 0.1 * x[i] * x[father[i]] for i in range(n)  factor x[i] * x[j] for (i, j) in G.edges }\n"
    )
    inputs = gm.mock_inputs("small.gmlm", n=3)
    assert np.asarray(inputs["e"]).tolist() == [[0, 1], [1, 2]]
    assert set(inputs) == {"n", "e", "father"}
    gm.load("small.gmlm", **inputs)
    assert np.asarray(gm.mock_inputs("small.gmlm", n=2)["e"]).tolist() == [[0, 1]]
    with pytest.raises(gm.GmlmError, match="size"):
        gm.mock_inputs("small.gmlm", n=0)


@pytest.mark.usefixtures("folder")
def test_a_length_that_a_given_array_determines_is_kept():
    Path("lengths.gmlm").write_text(
        "input e[p, 2] : int\ninput weight[p] : real\ngraph G = edges(e, nodes = 5)\n"
        "model m { var x[i in G.nodes] : bit  factor 0.1 * x[i] for i in G.nodes }\n"
    )
    inputs = gm.mock_inputs("lengths.gmlm", e=np.array([[0, 1], [1, 2], [3, 4]]))
    assert np.shape(inputs["weight"]) == (3,)


def test_draws_depend_on_the_seed_alone(folder):
    (folder / "types.gmlm").write_text(TYPES)
    first, same, other = (gm.mock_inputs("types.gmlm", seed=s) for s in (3, 3, 4))
    assert np.array_equal(first["w"], same["w"])
    assert not np.array_equal(first["w"], other["w"])
    model = gm.load("types.gmlm", **first).model()
    a, b, c = (model.mock(40, seed=s)["x"]["x"] for s in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_given_data_come_along_and_fit(folder):
    program = """model m {
  given w : real
  given u : real(lower = 0, upper = 1)
  given c : range(3)
  given v : positive
  var   x, y : bit
  param a, b
  factor a * w * x + b * u * y + 0.1 * c * v * x
}
mask all = subsets(x, y, size = 2)
"""
    (folder / "given.gmlm").write_text(program)
    said = gmlm("mock", "given.gmlm").output
    found = stored("given-data.npz")
    assert set(found) == {"w", "u", "c", "v", "x", "y"}
    assert ((found["u"] > 0) & (found["u"] < 1)).all()
    assert (found["v"] > 0).all()
    assert (found["w"] < 0).any()
    assert set(found["c"].tolist()) == {0, 1, 2}
    (command,) = next_commands(said)
    assert "100 rows" in gmlm(*command[1:]).output


def test_mock_overwrites_nothing_and_says_which_model(folder):
    gmlm("mock", "m.gmlm")
    (folder / "m-data.csv").write_text("mine")
    assert "E560" in gmlm("mock", "m.gmlm", status=1).output
    assert (folder / "m-data.csv").read_text() == "mine"
    said = gmlm("mock", "m.gmlm", "--out", "a b").output
    (command,) = next_commands(said)
    assert command[3] == "a b/m-data.csv"
    assert command[4:6] == ["--mask", "single"]
    two = "model a { var x : bit  factor 0.1 * x }\nmodel b { var y : bit  factor 0.1 * y }\nmask one for a = subsets(size = 1)\n"
    (folder / "two.gmlm").write_text(two)
    assert "say which" in gmlm("mock", "two.gmlm", status=1).output
    assert next_commands(gmlm("mock", "two.gmlm", "--model", "a").output)[0][4:] == ["--model", "a"]


def test_a_network_gets_uniform_rows():
    model = gm.parse("network net = mlp(width = 8)\nmodel m { var x[i in range(6)] : bit  conditional x ~ net() }").model()
    assert model.mock(50)["x"].mean() == pytest.approx(0.5, abs=0.1)
    with pytest.raises(gm.GmlmError, match="rows"):
        model.mock(0)


@pytest.mark.slow
def test_every_example_with_one_model_is_mocked(tmp_path):
    for path in sorted((ROOT / "examples").glob("*.gmlm")):
        program = gm.load(path, **gm.mock_inputs(path))
        for name in program.checked.models:
            assert program.model(name).mock(3)


def test_gmlm_alone_says_what_to_do_first():
    said = gmlm().output
    for words in ("gmlm new council", "gmlm fit council.gmlm data.csv", "gmlm mock", "gmlm explain factor", "gmlm --help"):
        assert words in said


def test_versions_are_printed_without_a_file():
    said = gmlm("info", "--versions").output
    assert re.search(r"^gmlmdsl \d", said, re.M)
    assert re.search(r"^python 3\.", said, re.M)
    assert '"jax"' in gmlm("info", "--versions", "--json").output
    gmlm("info", status=2)
    gmlm("info", "m.gmlm", "--versions", status=2)


def test_options_stand_in_sections():
    said = gmlm("fit", "--help").output
    places = [said.index(title) for title in ("The program", "The data", "The fit", "The output")]
    assert places == sorted(places)
    assert said.index("--columns") > places[1]
    assert said.index("--starts") > places[2]
    assert said.index("--out") > places[3]
