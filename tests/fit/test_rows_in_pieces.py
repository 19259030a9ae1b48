"""Fits of rows that are read in pieces: the estimates and errors of rows in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest

import gmlmdsl as gm
from gmlmdsl.files import SavedStates, _saved_states
from gmlmdsl.fit import _passes

pytestmark = pytest.mark.usefixtures("standard_promotion")

TEXT = """
domain kind = labels("a", "b", "c")
graph G = chain(5)
model m {
  var   x[i in G.nodes] : bit
  var   y : kind
  param h[i in G.nodes] ~ normal(0, 1)
  param w[k in kind] ~ normal(0, 1)
  param J
  factor h[i] * x[i] for i in G.nodes
  factor w[y] * x[0]
  factor J * x[i] * x[j] for (i, j) in G.edges
  require not (x[0] == 1 and x[4] == 1 and y == "c")
}
mask single = subsets(size = 1)
mask pairs = subsets(size = 2)
mask whole = everything()
mask looks sees x { each 0.2 + 0.1 * x[(i + 1) % 5] : x[i] for i in G.nodes }
"""
LETTERS = "model m { var x[i in range(3)] : spin  param h[i in range(3)] ~ normal(0, 1)  factor h[i] * x[i] for i in range(3) }\n"
LETTERS += "mask single = subsets(x, size = 1)"


@pytest.fixture(scope="module")
def model():
    return gm.parse(TEXT).model()


@pytest.fixture(scope="module")
def rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(503, 5)) + rng.normal(size=(503, 1)) > 0).astype(np.int8)
    y = rng.integers(0, 2, 503).astype(np.int8) + x[:, 1] * (1 - x[:, 0])
    return {"x": x, "y": y}


def agree(found: Any, wanted: Any) -> None:
    for name, values in wanted.params.items():
        np.testing.assert_allclose(found.params[name], values, atol=3e-7)
        np.testing.assert_allclose(found.standard_errors[name], wanted.standard_errors[name], rtol=1e-5)
    assert found.objective == pytest.approx(wanted.objective, rel=1e-10)
    assert found.meta["rows"] == wanted.meta["rows"]
    assert found.meta["effective_rows"] == pytest.approx(wanted.meta["effective_rows"])
    assert str(found.status) == str(wanted.status)


ALSO = [("pairs", 503), ("whole", 10_000), ("pairs", 251)]


@pytest.mark.parametrize(("mask", "at_once"), [("single", 100), *(pytest.param(*a, marks=pytest.mark.slow) for a in ALSO)])
def test_a_fit_in_passes_is_that_of_rows_in_memory(model, rows, mask: str, at_once: int):
    weights = np.random.default_rng(1).gamma(2.0, size=503) if mask != "whole" else None
    found = model.fit(rows, mask, weights=weights, rows_at_once=at_once, level=0.9)
    agree(found, model.fit(rows, mask, weights=weights, level=0.9))
    assert found.level == 0.9


def test_arrays_and_tables_on_disk(tmp_path: Path):
    model = gm.parse(LETTERS).model()
    x = np.where(np.random.default_rng(0).random((300, 3)) < [0.2, 0.5, 0.7], 1, -1)
    wanted = model.fit(x)
    np.save(tmp_path / "x.npy", x)
    agree(model.fit(np.load(tmp_path / "x.npy", mmap_mode="r"), rows_at_once=70), wanted)
    zarr, pd, pq = (pytest.importorskip(name) for name in ("zarr", "pandas", "pyarrow.parquet"))
    agree(model.fit(zarr.array(x, chunks=(50, 3)), rows_at_once=70), wanted)
    pyarrow = pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"x_2": x[:, 2], "x_0": x[:, 0], "x_1": x[:, 1]})  # names decide
    pq.write_table(pyarrow.Table.from_pandas(frame), tmp_path / "x.parquet", row_group_size=64)
    agree(model.fit(str(tmp_path / "x.parquet"), rows_at_once=70), wanted)


class Killed(BaseException):
    """A fit is cut off."""


def test_a_fit_in_passes_goes_on(model, rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_saved_states, "SAVED_EVERY", 0.0)
    save, how = SavedStates.save, {"x": rows, "mask": "single", "rows_at_once": 100}
    wanted, passes = model.fit(**how), []

    def saves(self, step, *more):
        save(self, step, *more)
        if step == 3:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(SavedStates, "save", saves)
        with pytest.raises(Killed):
            model.fit(**how, checkpoint=tmp_path / "run")
    with pytest.raises(gm.GmlmError, match=r"E752[\s\S]*these differ"):
        model.fit(**how | {"x": {k: v[:400] for k, v in rows.items()}}, checkpoint=tmp_path / "run")
    later = {k: np.concatenate([v[:100], v[:99:-1]]) for k, v in rows.items()}  # the same first piece, other pieces
    with pytest.raises(gm.GmlmError, match=r"E752[\s\S]*these differ"):
        model.fit(**how | {"x": later}, checkpoint=tmp_path / "run")
    both = _passes.Passes.both
    monkeypatch.setattr(_passes.Passes, "both", lambda *a: passes.append(1) or both(*a))
    found = model.fit(**how, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(found.params["h"], wanted.params["h"])
    np.testing.assert_array_equal(found.loss_trace, wanted.loss_trace)
    assert len(passes) == len(wanted.loss_trace) + 1 - 3 and not list(tmp_path.iterdir())


def test_a_wrong_row_is_named(model, rows):
    late = {k: v.copy() for k, v in rows.items()}
    late["x"][402] = 1
    late["y"][402] = 2
    with pytest.raises(gm.GmlmError, match=r"row 402 of x is impossible"):
        model.fit(late, "single", rows_at_once=100)
    late["x"][301, 2] = 7
    with pytest.raises(gm.GmlmError, match=r"at \(1, 2\) is 7[\s\S]*rows 300 and following of x"):
        model.fit(late, "single", rows_at_once=100)
    holes = {"x": np.where(np.arange(5) == 2, np.nan, 1.0 * rows["x"]), "y": rows["y"]}
    with pytest.raises(gm.GmlmError, match=r"E511[\s\S]*row 0 of x lacks a cell"):
        model.fit(holes, "single", rows_at_once=100)


@pytest.mark.slow
def test_rows_that_separate_at_first_are_not_called_converged(rows):
    text = "graph G = chain(5)  model m { var x[i in G.nodes] : bit  param h[i in G.nodes]  param J  "
    text += "factor h[i] * x[i] for i in G.nodes  factor J * x[i] * x[j] for (i, j) in G.edges }  mask single = subsets(x, size = 1)"
    model, x = gm.parse(text).model(), rows["x"].copy()
    x[:100, 3] = 1
    found = model.fit(x[:100], rows_at_once=50)
    assert found.status.code == "not-converged" and "whether they separate" in str(found.status)
    agree(model.fit(x, rows_at_once=100), model.fit(x))


REFUSED = {
    "optimizer": {"optimizer": optax.adam(0.1)},
    "method": {"method": "pcd"},
    "impute": {"impute": True},
    "n_masks": {"n_masks": 2},
    "gaps": {"gaps": "ignore"},
    "weights_are": {"weights_are": "counts"},
    "missing": {"missing": 9},
    "starts": {"starts": 2},
    "mask that depends": {"mask": "looks"},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_all_rows_is_refused(model, rows, name: str):
    with pytest.raises(gm.GmlmError, match=rf"E507[\s\S]*rows_at_once=[\s\S]*{name}"):
        model.fit(**{"x": rows, "mask": "single", "rows_at_once": 100} | REFUSED[name])


def test_masks_that_would_be_drawn_and_models_without_summed_curvature_are_refused():
    x = np.random.default_rng(0).integers(0, 2, (200, 30))
    many = "model m { var x[i in range(30)] : bit  param h ~ normal(0, 1)  factor h * x[i] for i in range(30) }\n"
    many += "mask e { each x[i] for i in range(30) rate 0.3 }"
    with pytest.raises(gm.GmlmError, match=r"E507[\s\S]*drawn masks"):
        gm.parse(many).model().fit(x, rows_at_once=70)
    curved = LETTERS.replace("factor h[i]", "factor tanh(h[i])")
    with pytest.raises(gm.GmlmError, match=r"E507[\s\S]*linear in the parameters"):
        gm.parse(curved).model().fit(2 * x[:, :3] - 1, "single", rows_at_once=70)


def test_mistakes(model, rows, tmp_path: Path):
    for options in ({"max_steps": -1}, {"max_steps": "x"}, {"batch_size": 5}):
        with pytest.raises(gm.GmlmError, match="E507"):
            model.fit(rows, "single", rows_at_once=100, **options)
    for number in (0, 1.5, "many"):
        with pytest.raises(gm.GmlmError, match="E507"):
            model.fit(rows, "single", rows_at_once=number)
    for x in ([[0, 1]], {}, 3):
        with pytest.raises(gm.GmlmError, match=r"E501[\s\S]*mmap_mode"):
            model.fit(x, "single", rows_at_once=10)
    with pytest.raises(gm.GmlmError, match=r"E501[\s\S]*100 and 503 rows"):
        model.fit({"x": rows["x"][:100], "y": rows["y"]}, "single", rows_at_once=10)
    with pytest.raises(gm.GmlmError, match="E505"):
        model.fit({k: v[:0] for k, v in rows.items()}, "single", rows_at_once=10)
    with pytest.raises(gm.GmlmError, match="E120"):
        model.fit(str(tmp_path / "none.parquet"), "single", rows_at_once=10)
    (tmp_path / "text.parquet").write_text("no table")
    with pytest.raises(gm.GmlmError, match="E120"):
        model.fit(tmp_path / "text.parquet", "single", rows_at_once=10)
    found = model.fit(rows, "single", rows_at_once=300)
    with pytest.raises(gm.GmlmError, match=r"E505[\s\S]*rows_at_once"):
        found.bootstrap(2)
    found.save(tmp_path / "m.fit")
    np.testing.assert_array_equal(gm.load_fit(tmp_path / "m.fit").params["h"], found.params["h"])
