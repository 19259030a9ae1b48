"""Checkpoints: a run that is cut off goes on bit for bit, and nothing damaged, half-written or another run's is read. Fits in files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import optax
import pytest
from networks_cases import made
from saved_cases import content_of, now
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.train import _checkpoints
from gmlmdsl.train._checkpoints import Checkpoints

pytestmark = pytest.mark.usefixtures("standard_promotion")

N, Q = 4, 3
MORE = """
mask noisy = everything(x, noise = {keep: 0.2, uniform: 0.8}, stages = 2)
mask whole = everything(x)
sampler s { update x[i] for i in range(4) }
"""


@pytest.fixture(scope="module")
def model():
    return made("mlp(layers = 1, width = 8)", N, Q, MORE)


def rows(count: int = 30, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, Q, (count, N))


def options(folder: Path | None, **more) -> gm.Training:
    saved = {} if folder is None else {"save_every": 5, "checkpoint": folder}
    return gm.Training(**{"steps": 24, "batch_size": 8} | saved | more)


def same(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


class Killed(Exception):
    """A run is cut off."""


def cut_off(monkeypatch: pytest.MonkeyPatch, at: int, when: str) -> None:
    """Let a run fail at a checkpoint: before it is written, with its files but no manifest, or behind it."""
    plain, write = Checkpoints.save, _checkpoints.write_whole

    def save(self, step, state, notes):
        if step == at and when == "before":
            raise Killed
        plain(self, step, state, notes)
        if step == at and when == "after":
            raise Killed

    def write_whole(path, content):
        if str(at) == Path(path).name.split(".")[0] and when == "between":
            raise Killed
        write(path, content)

    monkeypatch.setattr(Checkpoints, "save", save)
    monkeypatch.setattr(_checkpoints, "write_whole", write_whole)


VARIANTS = {
    "plain": {},
    "average": {"ema": 0.9, "accumulate": 3},
    "patience": {"validation": {"x": rows(20, 3)}, "evaluate_every": 3, "patience": 4},
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", thinned(VARIANTS, 3, 2))
@pytest.mark.parametrize(("at", "when"), thinned([(5, "before"), (10, "between"), (15, "after")], 3, 1))
def test_a_run_that_was_cut_off_ends_bit_for_bit(model, tmp_path, monkeypatch, variant: str, at: int, when: str):
    more = VARIANTS[variant]
    whole = model.fit(rows(), mask="noisy", method=options(None, **more))
    with monkeypatch.context() as patch:
        cut_off(patch, at, when)
        with pytest.raises(Killed):
            model.fit(rows(), mask="noisy", method=options(tmp_path / "run", **more))
    again = model.fit(rows(), mask="noisy", method=options(tmp_path / "run", **more))
    assert same(again.params, whole.params)
    assert again.loss_trace.tolist() == whole.loss_trace.tolist()
    assert again.validation_trace.tolist() == whole.validation_trace.tolist()
    assert again.reason == whole.reason
    assert again.meta["cells"] == whole.meta["cells"]


@pytest.mark.slow
def test_a_run_that_has_ended_takes_no_step(model, tmp_path):
    first = model.fit(rows(), mask="noisy", method=options(tmp_path / "run"))
    again = model.fit(rows(), mask="noisy", method=options(tmp_path / "run"))
    assert same(first.params, again.params)
    assert len(again.loss_trace) == 24


@pytest.mark.slow  # two programs more
def test_a_run_that_patience_has_ended_takes_no_step(model, tmp_path):
    stopped = {"validation": {"x": rows(4, 9)}, "evaluate_every": 1, "patience": 1, "steps": 60, "learning_rate": 0.3, "save_every": 1}
    ended = model.fit(rows(4), mask="whole", method=options(tmp_path / "early", **stopped))
    assert ended.reason == "patience"
    once_more = model.fit(rows(4), mask="whole", method=options(tmp_path / "early", **stopped))
    assert (once_more.reason, len(once_more.loss_trace)) == ("patience", len(ended.loss_trace))
    assert same(ended.params, once_more.params)


@pytest.mark.slow
def test_two_checkpoints_are_kept_and_nothing_else(model, tmp_path):
    model.fit(rows(), mask="noisy", method=options(tmp_path / "run"))
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["20", "20.manifest.json", "24", "24.manifest.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"mask": "whole"},
        {"n_masks": 2},
        {"x": rows(30, 1)},
        {"weights": np.linspace(0.5, 1, 30)},
        {"init": 5},
        {"optimizer": optax.sgd(0.1)},
        {"method": {"steps": 25}},
        {"method": {"label_smoothing": 0.1}},
        {"method": {"validation": {"x": rows(5)}}},
        {"method": {"batch_size": 9}},
    ],
    ids=lambda c: next(iter(c)) + "-" + next(iter(c["method"])) if "method" in c else next(iter(c)),
)
def test_another_runs_checkpoints_are_refused(model, tmp_path, change: dict):
    arguments = {"x": rows(), "mask": "noisy", "init": model.init_params(seed=4)}
    model.fit(**arguments, method=options(tmp_path, steps=6))
    more = {k: v for k, v in change.items() if k != "method"}
    if "init" in more:
        more["init"] = model.init_params(seed=more["init"])
    with pytest.raises(gm.GmlmError, match="another run") as caught:
        model.fit(**arguments | more, method=options(tmp_path, **{"steps": 6} | change.get("method", {})))
    assert caught.value.codes == ("E752",)
    assert "resume=False" in str(caught.value)


def test_what_has_no_effect_on_the_weights_may_change(model, tmp_path):
    first = model.fit(rows(), mask="noisy", method=options(tmp_path / "run"))
    again = model.fit(rows(), mask="noisy", method=options(tmp_path / "run", save_every=7, log=tmp_path / "log"))
    assert same(first.params, again.params)


@pytest.mark.slow
def test_a_run_may_begin_anew_where_another_one_was(model, tmp_path):
    model.fit(rows(), mask="noisy", method=options(tmp_path))
    fit = model.fit(rows(), mask="noisy", seed=1, method=options(tmp_path, resume=False))
    assert same(fit.params, model.fit(rows(), mask="noisy", seed=1, method=options(None)).params)


@pytest.fixture
def store(tmp_path) -> Checkpoints:
    """Two checkpoints of three arrays."""
    found = Checkpoints(tmp_path / "run", {"run": "mine"})
    for step in (3, 7):
        found.save(
            step, [np.arange(5.0) + step, np.ones((2, 2), np.float32), np.int32(step)], {"losses": [0.5, 1 / 3], "best": float("inf")}
        )
    return found


LIKE = [jax.ShapeDtypeStruct((5,), np.float32), jax.ShapeDtypeStruct((2, 2), np.float32), jax.ShapeDtypeStruct((), np.int32)]


def flip(path: Path, byte: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= 1 << bit
    path.write_bytes(bytes(content))


def damaged(store: Checkpoints, words: str) -> None:
    """The latest checkpoint is passed over with a warning, and an error if it is the only one."""
    with pytest.warns(gm.GmlmWarning, match=rf"{words}[\s\S]*goes on from step 3, before it"):
        step, state, _ = store.restore(LIKE)
    assert step == 3 and state[0].tolist() == [3, 4, 5, 6, 7]
    other, hidden = store.folder / "3.manifest.json", store.folder / "hidden"
    other.rename(hidden)
    with pytest.raises(gm.GmlmError, match=words) as caught:
        store.restore(LIKE)
    hidden.rename(other)
    assert caught.value.codes == ("E753",)


def test_a_flipped_bit_anywhere_is_found(store):
    """In each file, its first, middle and last byte; of the manifest many; one hash is of all of them."""
    step, state, notes = store.restore(LIKE)
    assert step == 7
    assert state[0].tolist() == [7, 8, 9, 10, 11]
    assert notes == {"losses": [0.5, 1 / 3], "best": float("inf")}
    files = sorted(p for p in (store.folder / "7").rglob("*") if p.is_file() and p.stat().st_size)
    places = [(p, b) for p in files for b in sorted({0, p.stat().st_size // 2, p.stat().st_size - 1})]
    manifest = store.folder / "7.manifest.json"
    places += [(manifest, b) for b in range(0, manifest.stat().st_size, 23)]
    assert len(places) > 40
    rng = np.random.default_rng(0)
    for path, byte in places:
        bit = int(rng.integers(8))
        flip(path, byte, bit)
        damaged(store, "step 7 .* is damaged")
        flip(path, byte, bit)
    assert store.restore(LIKE)[0] == 7


@pytest.mark.produces("E753")
@pytest.mark.parametrize("content", [b"", b"[]", b"3", b"{}", b'{"sha256": "x"}', b"\xff\xfe", b"null"])
def test_a_manifest_of_another_form_is_damaged(store, content: bytes):
    (store.folder / "7.manifest.json").write_bytes(content)
    damaged(store, "manifest")


def test_a_file_too_many_or_too_few_is_damage(store):
    extra = store.folder / "7" / "more"
    extra.write_text("x")
    damaged(store, "`more` does not match")
    extra.unlink()
    min(p for p in (store.folder / "7").rglob("*") if p.is_file()).unlink()
    damaged(store, "does not match its hash")


def test_what_was_cut_off_does_not_count(store):
    """A folder without a manifest, a manifest that was not renamed into place, a temporary folder: the one before them is read."""
    (store.folder / "7.manifest.json").rename(store.folder / ".7.manifest.json.k3x")
    (store.folder / "9.orbax-checkpoint-tmp-17").mkdir()
    (store.folder / "9").mkdir()
    assert store.restore(LIKE)[0] == 3
    store.save(9, [np.arange(5.0), np.ones((2, 2), np.float32), np.int32(9)], {})
    assert store.restore(LIKE)[0] == 9
    assert sorted(p.name for p in store.folder.iterdir()) == ["3", "3.manifest.json", "9", "9.manifest.json"]


@pytest.mark.parametrize("change", [{"files": None}, {"files": []}, {"notes": None}, {"notes": [1]}, {"step": 8}, {"step": None}])
def test_a_manifest_of_something_else_under_a_hash_that_agrees(store, change):
    path = store.folder / "7.manifest.json"
    manifest = {k: v for k, v in (json.loads(path.read_text()) | change).items() if v is not None and k != "sha256"}
    path.write_text(json.dumps(manifest | {"sha256": _checkpoints._hash_of(manifest)}))
    damaged(store, "is damaged")


def test_a_manifest_that_is_deep(store):
    (store.folder / "7.manifest.json").write_text("[" * 100_000)
    damaged(store, "its manifest cannot be read")


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(gm.GmlmError, match="cannot write") as caught:
        Checkpoints(tmp_path / "file" / "run", {"run": "mine"})
    assert caught.value.codes == ("E560",)


def test_without_orbax_the_extra_is_named(model, tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    with pytest.raises(gm.GmlmError, match=r"gmlmdsl\[train\]") as caught:
        model.fit(rows(), mask="whole", method=options(tmp_path / "run"))
    assert caught.value.codes == ("E561",)
    assert not (tmp_path / "run").exists()


def test_a_fit_comes_back_from_its_file(model, tmp_path):
    fit = model.fit(rows(), mask="noisy", seed=3, method=options(None, validation={"x": rows(5)}))
    fit.save(tmp_path / "net.fit")
    back = gm.load_fit(tmp_path / "net.fit")
    assert same(fit.params, back.params)
    assert jax.tree.structure(fit.params) == jax.tree.structure(back.params)
    assert back.loss_trace.tolist() == fit.loss_trace.tolist()
    assert back.validation_trace.tolist() == fit.validation_trace.tolist()
    assert (back.reason, back.meta["seed"], back.meta["mask"]) == (fit.reason, 3, "noisy")
    assert repr(back) == repr(fit)
    assert float(back.loss(rows(), "whole")) == float(fit.loss(rows(), "whole"))
    drawn = [np.asarray(f.sample("s", init=rows(3), draws=5, warmup=0, seed=1)["posterior"]["x"]) for f in (fit, back)]
    assert np.array_equal(*drawn)


@pytest.mark.slow  # test_fit.py has a damaged fit
def test_a_damaged_fit_is_refused(model, tmp_path):
    path = tmp_path / "net.fit"
    model.fit(rows(), mask="noisy", method=options(None, steps=2)).save(path)
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], b"", content.replace(b"param:", b"param;")):
        path.write_bytes(damaged)
        with pytest.raises(gm.GmlmError) as caught:
            gm.load_fit(path)
        assert caught.value.codes == ("E520",)
    flipped = bytearray(content)
    flipped[content.index(b".cells") + 300] ^= 4  # a weight
    path.write_bytes(bytes(flipped))
    with pytest.raises(gm.GmlmError) as caught:
        gm.load_fit(path)
    assert caught.value.codes == ("E520",)


def test_a_fit_whose_arrays_have_other_shapes_is_refused(model, tmp_path):
    path = tmp_path / "net.fit"
    model.fit(rows(), mask="noisy", method=options(None, steps=2)).save(path)
    meta, arrays = content_of(path.read_bytes())
    name = next(k for k in arrays if k.startswith("param:") and arrays[k].ndim == 2)
    for change, word in (({name: arrays[name][:, :-1]}, "has shape"), ({}, "is lacking")):
        kept = {k: v for k, v in arrays.items() if k != name} | change
        path.write_bytes(now(meta, kept))
        with pytest.raises(gm.GmlmError, match=word) as caught:
            gm.load_fit(path)
        assert caught.value.codes == ("E520",)


def test_loading_a_fit_runs_no_code(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Neither pickled objects nor the class of a `python` network, unless the call allows it."""
    model = made('python("networks_cases:Pairs")', N, Q, MORE)
    path = tmp_path / "own.fit"
    model.fit(rows(), mask="whole", method=options(None, steps=2)).save(path)
    with np.load(path, allow_pickle=False) as found:
        assert all(found[k].dtype != object for k in found.files if k != "manifest.json")
    monkeypatch.setitem(sys.modules, "networks_cases", None)
    with pytest.raises(gm.GmlmError) as caught:
        gm.load_fit(path)
    assert caught.value.codes == ("E739",)
    monkeypatch.undo()
    assert gm.load_fit(path, allow_python=True).params["net"] is not None


SCRIPT = """
import sys, time
import numpy as np
import gmlmdsl as gm
from gmlmdsl.train._checkpoints import Checkpoints
plain = Checkpoints.save
def save(self, step, state, notes):
    plain(self, step, state, notes)
    print(step, flush=True)
Checkpoints.save = save
model = gm.parse(open(sys.argv[1]).read()).model()
x = np.random.default_rng(0).integers(0, 3, (30, 4))
saved = {} if sys.argv[2] == "-" else {"save_every": 1, "checkpoint": sys.argv[2]}
t = gm.Training(steps=120, batch_size=8, ema=0.9, **saved)
model.fit(x, mask="noisy", method=t).save(sys.argv[3])
"""


@pytest.mark.slow
def test_a_process_that_is_killed_at_any_moment_goes_on_bit_for_bit(tmp_path):
    from networks_cases import program

    text, script = tmp_path / "net.gmlm", tmp_path / "run.py"
    text.write_text(program("mlp(layers = 1, width = 8)", N, Q, MORE))
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "CI": "1"}

    def start(folder: str, result: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, script, text, folder, tmp_path / result], env=environment, stdout=subprocess.PIPE, text=True
        )

    def finished(folder: str, result: str) -> bool:
        with start(folder, result) as run:
            run.communicate(timeout=280)
            return run.returncode == 0

    assert finished("-", "whole.fit")
    rng, kills = np.random.default_rng(1), 0
    while kills < 16:
        with start(str(tmp_path / "run"), "killed.fit") as run:
            assert run.stdout is not None
            for _ in range(int(rng.integers(1, 8))):
                run.stdout.readline()
            time.sleep(float(rng.uniform(0, 0.1)))
            run.send_signal(signal.SIGKILL)
            if run.wait(timeout=60) == 0:
                break
        kills += 1
    assert kills > 5
    assert finished(str(tmp_path / "run"), "killed.fit")
    whole, killed = (gm.load_fit(tmp_path / f"{name}.fit") for name in ("whole", "killed"))
    assert same(whole.params, killed.params)
    assert whole.loss_trace.tolist() == killed.loss_trace.tolist()
    assert json.loads((tmp_path / "run" / "120.manifest.json").read_text())["step"] == 120
