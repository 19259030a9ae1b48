"""Draws that go to a file as they are drawn: equal to kept draws, in little memory, and a killed run goes on to the same bits."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import arviz as az
import equinox as eqx
import jax
import numpy as np
import pytest
import xarray as xr
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.files import SavedStates, _saved_states, alone
from gmlmdsl.plan import _memory
from gmlmdsl.sample import _arviz, _stored_draws, limits
from gmlmdsl.sample._run_chains import Piece

TEXT = """
input n : int = 4
graph G = grid(n, n)
model magnet {
  var   x[i in G.nodes]  : spin
  var   y[k in range(3)] : range(4)
  param J
  factor J * x[i] * x[j] for (i, j) in G.edges
  factor J * x[k] * y[k] for k in range(3)
}
sampler sweep { update x[i] for i in G.nodes update y[k] for k in range(3) }
sampler hot   { temper(betas = [0, 0.5, 1]) { update x[i] for i in G.nodes update y[k] for k in range(3) } }
"""
J = {"J": 0.2}
OPTIONS = {"draws": 150, "warmup": 7, "chains": 3, "seed": 5, "thin": 2, "progress": False}
OBSERVED = {"mean": lambda v: v["x"].mean(), "both": "x[0] * x[5]", "up": lambda v: v["x"] > 0}
CASES = {
    "sweep": ("sweep", {"observe": OBSERVED}),
    "temper": ("hot", {"thin": 1}),
    "exact": ("exact", {}),
    "observed alone": ("sweep", {"observe": OBSERVED, "keep_draws": False}),
    "annealed and clamped": ("sweep", {"init": gm.annealed(steps=5), "clamp": {"x": {0: 1}}}),
}
ENDINGS = (".nc", ".zarr")


@pytest.fixture(scope="module")
def model():
    return gm.parse(TEXT).model()


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    few_at_a_time(monkeypatch)


def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small pieces, each of which is followed by a state on the disk."""
    monkeypatch.setattr(limits, "WRITTEN_AT_ONCE", 4 * 19 * 16)
    monkeypatch.setattr(limits, "READ_AT_ONCE", 2048)
    monkeypatch.setattr(_saved_states, "SAVED_EVERY", 0.0)


def drawn(model, sampler: str = "sweep", **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.SamplingWarning)
        return model.sample(J, sampler, **OPTIONS | more)


def assert_equal(found, wanted) -> None:
    for group in ("posterior", "sample_stats"):
        assert set(found[group].data_vars) == set(wanted[group].data_vars)
        for name, values in wanted[group].variables.items():
            assert found[group][name].dims == values.dims
            assert found[group][name].dtype == values.dtype
            np.testing.assert_array_equal(found[group][name].values, values.values)
    attrs = [{k: v for k, v in draws["posterior"].attrs.items() if k != "created_at"} for draws in (found, wanted)]
    assert attrs[0] == attrs[1]


# Runs that were cut off, below, have ladders and both kinds of files; a clamp and annealed starts are in `test_sample.py`.
IN_THE_GATE = (("sweep", ".nc"), ("observed alone", ".zarr"))


@pytest.mark.parametrize(
    ("case", "ending"),
    [pytest.param(c, e, marks=[pytest.mark.slow] * ((c, e) not in IN_THE_GATE)) for c in CASES for e in ENDINGS],
)
def test_draws_in_a_file_are_those_that_are_kept(model, case: str, ending: str, tmp_path: Path):
    sampler, more = CASES[case]
    found = drawn(model, sampler, store=tmp_path / f"draws{ending}", **more)
    assert_equal(found, drawn(model, sampler, **more))
    assert [p.name for p in tmp_path.iterdir()] == [f"draws{ending}"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_values_stay_in_the_file_until_they_are_used(model, ending: str, tmp_path: Path):
    found = drawn(model, store=tmp_path / f"draws{ending}")
    wanted = drawn(model)["posterior"]["x"].values
    for opened in (found["posterior"], xr.open_dataset(tmp_path / f"draws{ending}", group="posterior", cache=False)):
        assert not opened["x"].variable._in_memory
        np.testing.assert_array_equal(opened["x"][:, 10:12].values, wanted[:, 10:12])
        assert not opened["x"].variable._in_memory


def test_arviz_opens_both_files(model, tmp_path: Path):
    wanted = drawn(model, store=tmp_path / "draws.nc")
    drawn(model, store=tmp_path / "draws.zarr")
    assert_equal(az.from_netcdf(str(tmp_path / "draws.nc")), wanted)
    tree = xr.open_datatree(tmp_path / "draws.zarr", engine="zarr")
    assert_equal(tree if _arviz.is_datatree() else az.InferenceData.from_datatree(tree), wanted)


class Killed(BaseException):
    """A run is cut off."""


def cut_off(monkeypatch: pytest.MonkeyPatch, after: int, when: str) -> None:
    """Let a run end at one of its states: before it is written, just after it, or while draws are written after it."""
    count, save, write = [0], SavedStates.save, _stored_draws._write

    def saves(self, *arguments):
        count[0] += 1
        if count[0] == after and when == "before":
            raise Killed
        save(self, *arguments)
        if count[0] == after and when == "behind":
            raise Killed

    def writes(arrays, named, end):
        write(arrays, ({"x": named[0]["x"]}, {}) if count[0] == after and when == "within" else named, end)
        if count[0] == after and when == "within":
            raise Killed

    monkeypatch.setattr(SavedStates, "save", saves)
    monkeypatch.setattr(_stored_draws, "_write", writes)


CUTS = [(2, "before"), (1, "behind"), (2, "behind"), (5, "behind"), (5, "within"), (9, "before")]
BY_TURNS = [(s, *cut) for k, cut in enumerate(CUTS) for s in (("sweep", "hot") if k % 2 else ("hot", "sweep"))]


@pytest.mark.parametrize(("sampler", "after", "when"), thinned(BY_TURNS, 4))
def test_a_run_that_was_cut_off_goes_on_to_the_same_draws(model, sampler, after, when, tmp_path, monkeypatch):
    path = tmp_path / ("draws.nc" if after % 2 else "draws.zarr")
    with monkeypatch.context() as patch:
        cut_off(patch, after, when)
        with pytest.raises(Killed):
            drawn(model, sampler, store=path)
    assert not path.exists()
    assert len(list((tmp_path / f"{path.name}.unfinished").glob("*.state"))) in (1, 2)
    drawn_again = count_steps(monkeypatch)
    assert_equal(drawn(model, sampler, store=path), drawn(model, sampler))
    assert drawn_again[0] > 0  # it went on, and did not begin anew
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def count_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The step at which the next run begins."""
    found, pieces = [], _stored_draws.KernelRun.pieces

    def begins(self, begun=None, *more):
        found.append(0 if begun is None else begun.step)
        return pieces(self, begun, *more)

    monkeypatch.setattr(_stored_draws.KernelRun, "pieces", begins)
    return found


def test_a_run_that_was_cut_off_at_its_end_draws_nothing_again(model, tmp_path, monkeypatch):
    wanted = drawn(model)
    for name in ("_rename", "codes_in_pieces"):
        path = tmp_path / f"{name}.nc"

        def killed(*arguments):
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(_stored_draws, name, killed)
            with pytest.raises(Killed):
                drawn(model, store=path)
        with monkeypatch.context() as patch:
            steps = count_steps(patch)
            assert_equal(drawn(model, store=path), wanted)
            assert steps == []
    with monkeypatch.context() as patch:
        patch.setattr(SavedStates, "clear", killed)
        with pytest.raises(Killed):
            drawn(model, store=tmp_path / "draws.nc")
    assert (tmp_path / "draws.nc").exists()
    assert_equal(drawn(model, store=tmp_path / "draws.nc"), wanted)


@pytest.fixture
def heard():
    """A process that does not ignore Ctrl-C, as one in the background of a shell does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_after_its_state_is_saved(model, number, heard, tmp_path, monkeypatch):
    path, write = tmp_path / "draws.nc", _stored_draws._write
    monkeypatch.setattr(_saved_states, "SAVED_EVERY", 1e9)

    def writes(arrays, named, end):
        write(arrays, named, end)
        if 20 < end < 100:
            os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        patch.setattr(_stored_draws, "_write", writes)
        with pytest.raises(SystemExit if number == signal.SIGTERM else KeyboardInterrupt):
            drawn(model, store=path)
    assert not path.exists()
    monkeypatch.setattr(_saved_states, "SAVED_EVERY", 0.0)
    begun = count_steps(monkeypatch)
    assert_equal(drawn(model, store=path), drawn(model))
    assert begun[0] > 7 + 2 * 20


def unfinished(model, path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that was cut off."""
    with monkeypatch.context() as patch:
        cut_off(patch, 6, "behind")
        with pytest.raises(Killed):
            drawn(model, store=path, observe=OBSERVED)
    return path.with_name(path.name + ".unfinished")


def states(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.state"), key=lambda p: int(p.stem))


def test_a_damaged_state_is_passed_over_with_a_warning(model, tmp_path, monkeypatch):
    path = tmp_path / "draws.nc"
    folder = unfinished(model, path, monkeypatch)
    before, last = states(folder)
    content = bytearray(last.read_bytes())
    content[len(content) // 2] ^= 1
    last.write_bytes(content)
    begun = count_steps(monkeypatch)
    with pytest.warns(gm.GmlmWarning, match=rf"{last.name}.*goes on from step {before.stem}"):
        found = drawn(model, store=path, observe=OBSERVED)
    assert begun == [int(before.stem)]
    assert_equal(found, drawn(model, observe=OBSERVED))


@pytest.mark.produces("E753")
def test_a_run_of_which_every_state_is_damaged_is_not_begun_anew_in_silence(model, tmp_path, monkeypatch):
    folder = unfinished(model, tmp_path / "draws.nc", monkeypatch)
    for path in states(folder):
        path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(gm.GmlmError, match=r"E753[\s\S]*remove the folder"):
        drawn(model, store=tmp_path / "draws.nc", observe=OBSERVED)


def test_a_file_that_lost_its_draws_is_an_error(model, tmp_path, monkeypatch):
    folder = unfinished(model, tmp_path / "draws.nc", monkeypatch)
    (folder / "draws.nc").write_bytes(b"")
    with pytest.raises(gm.GmlmError, match=r"E753[\s\S]*lacks the draws"):
        drawn(model, store=tmp_path / "draws.nc", observe=OBSERVED)


@pytest.fixture(scope="module")
def one_unfinished(model, tmp_path_factory) -> Path:
    """The folder of a run that was cut off."""
    folder = tmp_path_factory.mktemp("unfinished")
    with pytest.MonkeyPatch.context() as patch:
        few_at_a_time(patch)
        unfinished(model, folder / "draws.nc", patch)
    return folder


@pytest.mark.produces("E752")
@pytest.mark.parametrize(
    ("part", "more"),
    {
        "seed": {"seed": 6},
        "draws": {"draws": 151},
        "warmup": {"warmup": 8},
        "chains": {"chains": 4},
        "thin": {"thin": 3},
        "sampler": {"sampler": "hot"},
        "clamp or init": {"clamp": {"x": {3: 1}}},
        "annealing steps": {"init": gm.annealed(steps=9)},
        "keep_draws": {"keep_draws": False},
        "observe": {"observe": {"mean": lambda v: v["x"].mean() + 1}},
    }.items(),
)
def test_a_run_of_another_call_is_refused(model, one_unfinished, part, more, tmp_path):
    shutil.copytree(one_unfinished, tmp_path, dirs_exist_ok=True)
    with pytest.raises(gm.GmlmError, match=rf"E752[\s\S]*these differ:.*{part}"):
        drawn(model, **{"store": tmp_path / "draws.nc", "observe": OBSERVED} | more)


def test_other_parameters_programs_and_inputs_are_refused(model, tmp_path, monkeypatch):
    unfinished(model, tmp_path / "draws.nc", monkeypatch)
    options = OPTIONS | {"store": tmp_path / "draws.nc", "observe": OBSERVED}
    with pytest.raises(gm.GmlmError, match=r"these differ: params\n"):
        model.sample({"J": 0.3}, "sweep", **options)
    with pytest.raises(gm.GmlmError, match=r"these differ: program\n"):
        gm.parse(TEXT + "# another\n").model().sample(J, "sweep", **options)
    with pytest.raises(gm.GmlmError, match=r"these differ: .*inputs"):
        gm.parse(TEXT, n=3).model().sample(J, "sweep", **options)


@pytest.mark.slow
def test_what_is_observed_alone_has_neither_the_memory_nor_the_small_pieces_of_kept_draws(model, tmp_path, monkeypatch):
    """One number of a draw is recorded, of 19 cells: pieces are as much longer."""
    few = 16.0 * OPTIONS["chains"] * OPTIONS["draws"]  # bytes, of 16 for each draw
    monkeypatch.setattr(_memory, "BUDGET", replace(_memory.BUDGET, held=few))
    with pytest.raises(gm.GmlmError, match=r"E601[\s\S]*the diagnostics of a cell"):
        drawn(model, store=tmp_path / "kept.zarr", observe={"mean": "x[0]"})
    found = drawn(model, store=tmp_path / "observed.zarr", observe={"mean": "x[0]"}, keep_draws=False)
    monkeypatch.undo()
    few_at_a_time(monkeypatch)
    drawn(model, store=tmp_path / "kept.zarr", observe={"mean": "x[0]"})
    chunks = [xr.open_zarr(tmp_path / f"{name}.zarr", group="posterior")["mean"].encoding["chunks"][1] for name in ("kept", "observed")]
    assert chunks == [16, 150]
    assert (found["posterior"]["mean"].values == drawn(model, observe={"mean": "x[0]"})["posterior"]["mean"].values).all()


@pytest.mark.slow
def test_the_findings_are_those_of_kept_draws(model, tmp_path):
    cold = {"draws": 120, "chains": 4}
    with pytest.warns(gm.SamplingWarning):
        kept = model.sample({"J": 5.0}, "sweep", **OPTIONS | cold)
    for ending in ENDINGS:
        with pytest.warns(gm.SamplingWarning):
            found = model.sample({"J": 5.0}, "sweep", store=tmp_path / f"d{ending}", **OPTIONS | cold)
        assert "stuck" in found["posterior"].attrs["warnings"]
        assert_equal(found, kept)


def test_the_findings_of_a_run_that_was_cut_off_are_those_of_all_its_draws(model, tmp_path, monkeypatch):
    """The flip rates of the updates in the warnings are means over all draws, those before the cut among them."""
    with pytest.warns(gm.SamplingWarning):
        kept = model.sample({"J": 2.0}, "sweep", **OPTIONS)
    with monkeypatch.context() as patch:
        cut_off(patch, 8, "behind")
        with pytest.raises(Killed):
            model.sample({"J": 2.0}, "sweep", store=tmp_path / "d.nc", **OPTIONS)
    monkeypatch.setattr(limits, "MIN_FLIP_RATE", 1.0)
    with pytest.warns(gm.SamplingWarning):
        found = model.sample({"J": 2.0}, "sweep", store=tmp_path / "d.nc", **OPTIONS)["posterior"].attrs["warnings"]
    with pytest.warns(gm.SamplingWarning):
        wanted = model.sample({"J": 2.0}, "sweep", **OPTIONS)["posterior"].attrs["warnings"]
    assert "flip rate is smaller" in wanted
    assert wanted != kept["posterior"].attrs["warnings"]
    assert found == wanted


NETWORK = """
network net = mlp(width = 4)
model m { var x[i in range(5)] : range(3)  conditional x ~ net() }
mask some = bernoulli(x, rate = 0.5)
sampler sweep { update x[i] for i in range(5) }
sampler parallel = refinement(steps = 2)
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
def test_chains_of_a_network_go_to_a_file(tmp_path, monkeypatch):
    model, path = gm.parse(NETWORK).model(), tmp_path / "draws.nc"
    params = model.init_params(seed=1)
    options = OPTIONS | {"observe": {"sum": lambda x: x.sum()}, "clamp": {"x": {0: 2}}}
    with monkeypatch.context() as patch:
        cut_off(patch, 5, "within")
        with pytest.raises(Killed):
            model.sample(params, "sweep", store=path, **options)
    steps = count_steps(monkeypatch)
    assert_equal(model.sample(params, "sweep", store=path, **options), model.sample(params, "sweep", **options))
    assert steps[0] > 0
    with pytest.raises(gm.GmlmError, match=r"E507[\s\S]*decodes"):
        model.sample(params, "parallel", store=path)
    with pytest.raises(gm.GmlmError, match=r"E507[\s\S]*one row of full length"):
        model.sample(params, "sweep", store=path, lengths=3)
    undefined = jax.tree.map(lambda a: a * 1e30 if eqx.is_inexact_array(a) else a, params)
    with pytest.raises(gm.GmlmError, match="E747"):
        model.sample(undefined, "sweep", store=tmp_path / "other.nc", **options)


def test_a_log_p_that_is_not_a_number_is_an_error(model, tmp_path, monkeypatch):
    pieces = _stored_draws.KernelRun.pieces

    def undefined(self, *more):
        for at, draws in pieces(self, *more):
            yield Piece(at, draws and replace(draws, score=np.full_like(draws.score, np.nan)))

    monkeypatch.setattr(_stored_draws.KernelRun, "pieces", undefined)
    with pytest.raises(gm.GmlmError, match="E514"):
        drawn(model, store=tmp_path / "draws.nc")


def test_values_have_their_place_in_a_netcdf_file_before_they_are_written(model, tmp_path, monkeypatch):
    """So nothing else in the file changes while draws are written, and a killed process leaves a valid file."""
    found, write = [], _stored_draws._write

    def writes(arrays, named, end):
        places = {f"{group}/{name}" for group, some in zip(("posterior", "sample_stats"), named, strict=True) for name in some}
        found.append(({name: arrays[name].id.get_offset() for name in places}, (arrays["posterior/x"].file.id.get_filesize())))
        write(arrays, named, end)

    monkeypatch.setattr(_stored_draws, "_write", writes)
    drawn(model, store=tmp_path / "draws.nc")
    assert None not in found[0][0].values()
    assert all(one == found[0] for one in found)
    assert os.path.getsize(tmp_path / "draws.nc") == found[0][1]


def test_long_warnings_are_cut(model, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MOST_REMARKS", 100)
    with pytest.warns(gm.SamplingWarning):
        found = model.sample({"J": 5.0}, "sweep", store=tmp_path / "d.nc", **OPTIONS)["posterior"].attrs["warnings"]
    assert len(found) == 99
    assert found.endswith(" ..")


@pytest.mark.parametrize("shape", [(), (7,), (4, 5), (3, 4, 5), (2, 1, 3)])
@pytest.mark.parametrize("most", [1, 2, 5, 7, 12, 100])
def test_pieces_are_successive_cells(shape: tuple[int, ...], most: int):
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    pieces = [numbers[piece].ravel() for piece in _stored_draws.cell_pieces(shape, most)]
    assert max(map(len, pieces)) <= most
    np.testing.assert_array_equal(np.concatenate(pieces), numbers.ravel())


def test_a_second_run_stays_out(model, tmp_path):
    with alone(tmp_path / "draws.nc.unfinished"), pytest.raises(gm.GmlmError, match="E588"):
        drawn(model, store=tmp_path / "draws.nc")


def test_paths_that_cannot_be_written_are_errors_before_any_work(model, tmp_path, monkeypatch):
    monkeypatch.setattr(_stored_draws.KernelRun, "pieces", None)
    (tmp_path / "folder.nc").mkdir()
    (tmp_path / "folder.zarr").mkdir()
    for name in ("draws.npz", "no/draws.nc", "folder.nc", "folder.zarr"):
        with pytest.raises(gm.GmlmError, match="E560"):
            drawn(model, store=tmp_path / name)
    with pytest.raises(gm.GmlmError, match="E560"):
        drawn(model, store=3)
    for module, name in (("zarr", "draws.zarr"), ("h5netcdf", "draws.nc")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(gm.GmlmError, match=r"E561[\s\S]*pip install"):
                drawn(model, store=tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.nc", "folder.zarr"]


def test_a_full_disk_is_an_error_that_says_how_to_go_on(model, tmp_path, monkeypatch):
    def full(self):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_stored_draws.NetCDFStore, "settle", full)
        with pytest.raises(gm.GmlmError, match=r"No space left[\s\S]*make the same call to go on"):
            drawn(model, store=tmp_path / "draws.nc")
    assert_equal(drawn(model, store=tmp_path / "draws.nc"), drawn(model))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_is_replaced_when_the_new_one_is_whole(model, ending, tmp_path, monkeypatch):
    path = tmp_path / f"draws{ending}"
    drawn(model, store=path, seed=1)
    with monkeypatch.context() as patch:
        cut_off(patch, 4, "behind")
        with pytest.raises(Killed):
            drawn(model, store=path)
    old = xr.open_dataset(path, group="posterior").load()
    np.testing.assert_array_equal(old["x"].values, drawn(model, seed=1)["posterior"]["x"].values)
    old.close()
    assert_equal(drawn(model, store=path), drawn(model))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


CHILD = """
import sys, warnings
import gmlmdsl as gm
from gmlmdsl.files import _saved_states
from gmlmdsl.sample import limits
warnings.simplefilter("ignore")
limits.WRITTEN_AT_ONCE, limits.CALL_SECONDS, _saved_states.SAVED_EVERY = 100_000, 0.05, 0.05
text = "graph G = grid(40, 40)  model m { var x[i in G.nodes] : spin  param J  factor J * x[i] * x[j] for (i, j) in G.edges }"
text += "  sampler sweep { update x[i] for i in G.nodes }"
store = {"store": sys.argv[1]} if len(sys.argv) > 1 else {}
draws = gm.parse(text).model().sample({"J": 0.3}, "sweep", draws=1500, warmup=1000, thin=4, chains=4, progress=False, **store)
import hashlib
print(hashlib.sha256(draws["posterior"]["x"].values.tobytes()).hexdigest(), hashlib.sha256(draws["sample_stats"]["lp"].values.tobytes()).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_kill_at_random_moments_loses_no_bit(ending: str, tmp_path: Path):
    wanted = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True).stdout
    path, moments, kills = tmp_path / f"draws{ending}", random.Random(0), 0
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.DEVNULL)
        folder, begun = path.with_name(path.name + ".unfinished"), time.monotonic()
        while child.poll() is None and not states(folder) and time.monotonic() - begun < 100:
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.7))
        kills += child.poll() is None
        child.kill()
        child.wait()
    last = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True)
    assert last.stdout == wanted
    assert kills > 1
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
