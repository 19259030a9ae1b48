"""`observe=` of expressions of the language: values beside NumPy's, one program for equal ones, faults at their place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from events import programs, traced_or_compiled

import gmlmdsl as gm

pytestmark = pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")  # of short chains

TEXT = """
input n : int
index site = range(n)
domain letter = letters("abc")
model m {
  var x[i in site] : spin
  var y : letter
  param J
  given g : real
  let mean = sum(x[i] for i in site) / n
  factor J * x[i] * x[i + 1] for i in range(n - 1)
  factor g * (y == "a")
}
sampler s { update x[i] for i in site  update y }
"""
OPTIONS = {"draws": 100, "chains": 4, "seed": 1, "given": {"g": 0.7}}


@pytest.fixture(scope="module")
def model() -> gm.Model:
    return gm.parse(TEXT, n=5).model()


def test_expressions_have_the_values_of_numpy(model: gm.Model):
    wanted = {
        "energy": "J * sum(x[i] * x[i + 1] for i in range(n - 1)) + g",
        "is_a": 'y == "a" and x[0] > 0',
        "mean": "mean",
        "twice": "2 * mean",
    }
    found = model.sample({"J": 0.3}, observe=wanted, **OPTIONS)["posterior"]
    x, y = found["x"].values.astype(float), found["y"].values
    np.testing.assert_allclose(found["energy"].values, 0.3 * (x[..., :-1] * x[..., 1:]).sum(axis=-1) + 0.7, rtol=1e-5)
    np.testing.assert_array_equal(found["is_a"].values, (y == 0) & (x[..., 0] > 0))
    np.testing.assert_allclose(found["twice"].values, 2 * x.mean(axis=-1), rtol=1e-5)
    np.testing.assert_allclose(found["mean"].values, x.mean(axis=-1), rtol=1e-5)


def test_equal_expressions_share_a_program(model: gm.Model):
    with traced_or_compiled() as events:
        model.sample({"J": 0.3}, observe={"a": "x[0] * x[1]"}, **OPTIONS)
        events.clear()
        model.sample({"J": 0.4}, observe={"a": "x[0] * x[1]"}, **OPTIONS)
        assert programs(events) == 0


def test_a_list_names_its_expressions(model: gm.Model):
    found = model.sample({"J": 0.3}, observe=["mean", "x[0] + x[1]"], **OPTIONS)["posterior"]
    np.testing.assert_array_equal(found["x[0] + x[1]"].values, found["x"].values[..., :2].sum(axis=-1))


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("sum(x[i] for i in sites)", r"E203.*<observe>:1:19.*did you mean `site`"),
        ("x[0] +", r"E101.*<observe>:1:6"),
        ("x[9]", r"E407.*is 9, outside 0..4.*<observe>:1:3"),
        ("x[0] }", r"E103"),
        ("energy", r"E506.*no `let` called `energy`"),
        ("x[0]\n  factor 100 * x[0]", r"E507.*more than one"),
    ],
)
def test_faults_of_expressions_are_told(model: gm.Model, expression: str, said: str):
    with pytest.raises(gm.GmlmError, match=f"(?s){said}"):
        model.sample({"J": 0.3}, observe={"e": expression}, **OPTIONS)


def test_a_model_of_a_file_with_imports(tmp_path: Path):
    (tmp_path / "lib.gmlm").write_text("index site = range(3)\n")
    text = (
        'import "lib.gmlm"\nmodel m { var x[i in site] : bit  factor 0.2 * x[i] for i in site }\nsampler s { update x[i] for i in site }\n'
    )
    (tmp_path / "m.gmlm").write_text(text)
    found = gm.load(tmp_path / "m.gmlm").model().sample({}, draws=100, observe={"k": "count(x[i] == 1 for i in site)"})["posterior"]
    np.testing.assert_array_equal(found["k"].values, found["x"].values.sum(axis=-1))


def test_names_alone_are_expressions(model: gm.Model):
    found = model.sample({"J": 0.3}, observe={"which": "y", "coupling": "J", "size": "n"}, **OPTIONS)["posterior"]
    np.testing.assert_array_equal(found["which"].values, found["y"].values)
    assert (found["coupling"].values == np.float32(0.3)).all()
    assert (found["size"].values == 5).all()


def test_files_that_change_after_they_are_read_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "lib.gmlm").write_text("function twice(a) = 2 * a\n")
    text = 'import "lib.gmlm"\nmodel m { var x[i in range(3)] : bit  factor 0.2 * twice(x[i]) for i in range(3) }\nsampler s { update x[i] for i in range(3) }\n'
    (tmp_path / "m.gmlm").write_text(text)
    monkeypatch.chdir(tmp_path)
    model = gm.load("m.gmlm").model()
    monkeypatch.chdir("/")
    (tmp_path / "lib.gmlm").write_text("function twice(a) = 3 * a\n")
    found = model.sample({}, draws=100, observe={"k": "twice(x[0])"})["posterior"]
    np.testing.assert_array_equal(found["k"].values, 2 * found["x"].values[..., 0])
