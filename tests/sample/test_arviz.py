"""The same tests pass on ArviZ 0.x (InferenceData) and 1.x (DataTree)."""

from __future__ import annotations

import ast
import copy
import importlib.util
import json
import operator
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from gmlmdsl import _diagnostics
from gmlmdsl._diagnostics import GmlmError
from gmlmdsl.sample import _arviz
from gmlmdsl.sample._arviz import arviz, groups_of, is_datatree, quiet, save, summary, to_arviz

HAS_NETCDF = all(importlib.util.find_spec(name) for name in ("h5netcdf", "h5py"))


@pytest.fixture
def idata():
    random = np.random.default_rng(0)
    return to_arviz(
        posterior={
            "x": random.integers(0, 2, (4, 100, 3)).astype(bool),
            "J": random.normal(size=(4, 100, 3, 3)),
            "m": random.normal(size=(4, 100)),
        },
        dims={"x": ["site"], "J": ["site", "site"], "m": []},
        coords={"site": ["a", "b", "c"]},
        sample_stats={"lp": random.normal(size=(4, 100)), "flip_rate": random.random((4, 100, 2))},
        observed={"x": np.zeros((7, 3), dtype=np.int8)},
        attrs={"seed": 3, "sampler": "gibbs", "versions": {"jax": "0.10.2"}, "exact": True, "nothing": None, "scale": np.float64(0.5)},
    )


@pytest.fixture(autouse=True)
def known_codes(monkeypatch):
    """The codes of this file, whether or not the table has them yet."""
    try:
        table = dict(_diagnostics.codes())
    except FileNotFoundError:
        table = {}
    for code, slug in {"E560": "cannot-write", "E561": "missing-extra"}.items():
        table.setdefault(code, {"slug": slug})
    monkeypatch.setattr(_diagnostics, "codes", lambda: table)


def test_container_is_what_the_installed_arviz_takes(idata):
    assert isinstance(idata, getattr(arviz(), "InferenceData", None) or import_module("xarray").DataTree)
    assert type(idata).__name__ == ("DataTree" if is_datatree() else "InferenceData")
    assert set(groups_of(idata)) == {"posterior", "sample_stats", "observed_data"}


QUESTIONS = {
    "a group": lambda d: d["posterior"].equals(d.posterior),
    "an attribute": lambda d: d.sample_stats.sizes["chain"] == 4,
    "a method": lambda d: set(d.groups()) == set(d),
    "pairs": lambda d: [name for name, _ in d.items()] == list(d.keys()),
    "iteration": lambda d: [*d] == d.groups(),
    "length": lambda d: len(d) == 3,
    "truth": lambda d: bool(d),
    "membership": lambda d: "posterior" in d and "prior" not in d,
    "text": lambda d: repr(d) == str(d) == f"{d}" and "observed_data" in repr(d),
    "its class": lambda d: isinstance(d, arviz().InferenceData),
    "names": lambda d: "posterior" in dir(d),
    "equality": lambda d: d == d,
    "a copy": lambda d: copy.copy(d).posterior.equals(d.posterior),
    "a deep copy": lambda d: copy.deepcopy(d).posterior.equals(d.posterior),
    "pickle": lambda d: pickle.loads(pickle.dumps(d)).posterior.equals(d.posterior),
    "another group": lambda d: setattr(d, "posterior", d) is None and d.posterior is d,
    "another item": lambda d: operator.setitem(d, "prior", 1) is None and d["prior"] == 1,
    "no group": lambda d: delattr(d, "posterior") is None and d.groups() == ["sample_stats", "observed_data"],
    "no item": lambda d: operator.delitem(d, "observed_data") is None and d.groups() == ["posterior", "sample_stats"],
    "a sum": lambda d: "prior" in d + arviz().InferenceData(prior=arviz().convert_to_dataset(np.zeros((1, 5)))),
    "ArviZ": lambda d: set(arviz().summary(d)) >= {"mean", "sd"},
}


@pytest.mark.skipif(is_datatree(), reason="a DataTree is made by xarray alone, at once")
@pytest.mark.parametrize("question", QUESTIONS)
def test_draws_are_an_inference_data_whatever_is_asked_first(question, idata):
    assert type(idata) is _arviz.Unread
    with quiet():
        assert QUESTIONS[question](idata)
    assert type(idata) is arviz().InferenceData
    assert {"posterior", "_make"} & set(vars(idata)) == ({"posterior"} if question != "no group" else set())


@pytest.mark.skipif(is_datatree(), reason="a DataTree is made by xarray alone, at once")
def test_threads_that_ask_at_once_meet_one_object(idata):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: idata.posterior, range(64)))
    assert all(f is found[0] for f in found) and type(idata) is arviz().InferenceData


def test_names_dims_and_coords_travel(idata):
    x = idata["posterior"]["x"]
    assert x.dims == ("chain", "draw", "site")
    assert list(x.coords["site"].values) == ["a", "b", "c"]
    assert idata["posterior"]["J"].dims == ("chain", "draw", "site", "site_2")
    assert list(idata["posterior"]["J"].coords["site_2"].values) == ["a", "b", "c"]
    assert idata["posterior"]["m"].dims == ("chain", "draw")
    assert idata["sample_stats"]["flip_rate"].dims == ("chain", "draw", "flip_rate_dim_0")
    assert idata["observed_data"]["x"].dims == ("row", "site")
    assert idata.posterior["x"].sel(site="b").shape == (4, 100)


def test_bool_draws_become_int8(idata):
    assert idata["posterior"]["x"].dtype == np.int8


def test_attributes_are_on_the_root_and_on_the_posterior(idata):
    for place in (idata.attrs, idata["posterior"].attrs):
        assert place["seed"] == 3
        assert place["sampler"] == "gibbs"
        assert json.loads(place["versions"]) == {"jax": "0.10.2"}
        assert place["exact"] == "true"
        assert place["nothing"] == "null"
        assert place["scale"] == 0.5
        assert "created_at" in place


def test_arviz_functions_work_on_it(idata):
    az = arviz()
    assert float(az.rhat(idata)["m"]) == pytest.approx(1, abs=0.1)
    assert float(az.ess(idata)["m"]) > 100


def test_summary_has_full_floats_and_one_row_per_scalar(idata):
    table = summary(idata)
    assert len(table) == 3 + 9 + 1
    assert table.loc["m", "mean"] == pytest.approx(float(idata["posterior"]["m"].mean()), rel=1e-12)
    assert {"mean", "sd", "ess_bulk", "r_hat"} <= set(table.columns)
    assert len(summary(idata, var_names=["x"])) == 3


def test_constant_chain_does_not_look_perfect():
    draws = np.random.default_rng(0).integers(0, 2, (4, 200, 2))
    draws[:, :, 0] = 1
    table = summary(to_arviz({"x": draws}, {"x": ["site"]}, {}, {}))
    assert np.isnan(table.loc["x[0]", "ess_bulk"])
    assert np.isnan(table.loc["x[0]", "r_hat"])
    assert table.loc["x[1]", "ess_bulk"] > 100


def test_members_that_are_tuples_become_text():
    idata = to_arviz({"J": np.zeros((1, 10, 2))}, {"J": ["G.edges"]}, {"G.edges": [((0, 1), (0, 2)), (1, 2)]}, {})
    assert list(idata["posterior"]["J"].coords["G.edges"].values) == ["0,1,0,2", "1,2"]


def test_mixed_labels_become_text():
    idata = to_arviz({"J": np.zeros((1, 10, 2))}, {"J": ["i"]}, {"i": ["a", 1]}, {})
    assert list(idata["posterior"]["J"].coords["i"].values) == ["a", "1"]


def test_dim_named_like_a_variable_is_renamed():
    idata = to_arviz({"site": np.zeros((1, 10, 2))}, {"site": ["site"]}, {"site": ["a", "b"]}, {})
    assert idata["posterior"]["site"].dims == ("chain", "draw", "site_dim")


def test_without_observed_data_there_is_no_such_group():
    assert set(groups_of(to_arviz({"m": np.zeros((1, 10))}, {"m": []}, {}, {"lp": np.zeros((1, 10))}))) == {"posterior", "sample_stats"}


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"`x` must have the axes \(chain, draw, site\), got shape \(1, 10\)"):
        to_arviz({"x": np.zeros((1, 10))}, {"x": ["site"]}, {}, {})
    with pytest.raises(ValueError, match="`site` must have 3 members, got 2"):
        to_arviz({"x": np.zeros((1, 10, 3))}, {"x": ["site"]}, {"site": ["a", "b"]}, {})


def test_npz_holds_everything_without_pickle(idata, tmp_path):
    path = save(idata, tmp_path / "draws.npz")
    with np.load(path) as file:
        np.testing.assert_array_equal(file["posterior/x"], idata["posterior"]["x"].values)
        assert list(file["posterior/coords/site"]) == ["a", "b", "c"]
        metadata = json.loads(str(file["metadata"]))
    assert metadata["attrs"]["seed"] == 3
    assert metadata["groups"]["posterior"]["dims"]["J"] == ["chain", "draw", "site", "site_2"]
    assert [p.name for p in tmp_path.iterdir()] == ["draws.npz"]


@pytest.mark.skipif(not HAS_NETCDF, reason="h5netcdf and h5py are not installed")
def test_netcdf_round_trip(idata, tmp_path):
    import xarray as xr

    path = save(idata, tmp_path / "draws.nc")
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        np.testing.assert_array_equal(tree["posterior"]["x"].values, idata["posterior"]["x"].values)
        assert tree["posterior"].attrs["seed"] == 3
        assert list(tree["posterior"]["x"].coords["site"].values) == ["a", "b", "c"]
    assert [p.name for p in tmp_path.iterdir()] == ["draws.nc"]


def test_netcdf_without_its_packages_says_what_to_install(idata, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5netcdf", None)
    with pytest.raises(GmlmError) as caught:
        save(idata, tmp_path / "draws.nc")
    assert caught.value.codes == ("E561",)
    assert 'pip install "gmlmdsl[netcdf]"' in caught.value.diagnostics[0].message
    assert "\n" not in caught.value.diagnostics[0].message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["draws.txt", "missing/draws.npz"])
def test_unwritable_path_is_an_error_and_leaves_nothing(idata, tmp_path, name):
    with pytest.raises(GmlmError) as caught:
        save(idata, tmp_path / name)
    assert caught.value.codes == ("E560",)
    assert list(tmp_path.iterdir()) == []


def test_failed_write_keeps_the_old_file(idata, tmp_path, monkeypatch):
    path = tmp_path / "draws.npz"
    path.write_bytes(b"old")

    def break_off(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", break_off)
    with pytest.raises(GmlmError, match="No space left on device"):
        save(idata, path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["draws.npz"]


@pytest.mark.slow
def test_import_is_silent_and_takes_no_jax():
    program = "import gmlmdsl.sample._arviz as a; import sys; assert 'arviz' not in sys.modules; a.arviz()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True)
    assert done.stderr == ""
    imported = {
        alias.name.split(".")[0]
        for node in ast.walk(ast.parse(Path(_arviz.__file__).read_text(encoding="utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in ([ast.alias(node.module or "")] if isinstance(node, ast.ImportFrom) else node.names)
    }
    assert "jax" not in imported
