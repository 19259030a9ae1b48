"""Commands of several processes: the results of one process, one voice, and no process that is left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from cli_cases import CHAIN, ROOT, ROWS, gmlm
from real_data import real_file
from translation_cases import PROGRAM, toy_pairs, toy_vocabulary, write_bundles, write_texts

import gmlmdsl as gm
from gmlmdsl.cli import _processes
from gmlmdsl.cli._processes import PEER_ENDED, Here, _watched
from gmlmdsl.cli._translation_show import run_pipeline
from gmlmdsl.derive import Spread
from gmlmdsl.train._batches import Batch
from gmlmdsl.train._training import spread_rows
from gmlmdsl.translation._bundle import load_translator

VOTES = """
input n : int
index member = range(n)
graph G = complete(member)
model votes {
  var   x[i in member]       : labels("n", "y")
  param h[i in member]       ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * (x[i] == "y")             for i in member
  factor J[i, j] * (x[i] == x[j]) for (i, j) in G.edges
}
mask pairs = subsets(x, size = 1)
sampler gibbs { update x[i] for i in member }
"""


def started(*words: object, **options: Any) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")} | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "gmlmdsl", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options)


def run(*words: object, status: int = 0, **options: Any) -> tuple[str, str]:
    child = started(*words, **options)
    out, err = child.communicate(timeout=600)
    assert child.returncode == status, err
    assert "internal error" not in err and "Gloo" not in out + err
    return out, err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.gmlm").write_text(CHAIN)
    (tmp_path / "x.csv").write_text(ROWS)
    return tmp_path


def toys(*texts: str) -> list[subprocess.Popen[bytes]]:
    return [subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) for text in texts]


WAITS = "import time; print(flush=True); time.sleep(60)"
# A process that ends by itself, with the status of the signal, as a training does.
SAVES = "import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(143))\nprint(flush=True)\ntime.sleep(60)"


def watched(children: list[subprocess.Popen[bytes]], folder: Path) -> int:
    try:
        return _watched(children, str(folder))
    finally:
        for child in children:
            child.kill()
            child.communicate()


@pytest.mark.parametrize(
    ("texts", "status", "words"),
    [
        (["pass", "pass"], 0, ""),
        (["raise SystemExit(1)", "raise SystemExit(3)"], 1, ""),  # the first process has printed its error
        ([WAITS, "import time; time.sleep(0.5); raise SystemExit(3)"], 3, "process 1 of 2 (counted from 0) failed with status 3"),
        (
            [f"raise SystemExit({PEER_ENDED})", "import os; os.kill(os.getpid(), 9)"],
            1,
            "process 1 of 2 (counted from 0) was killed by SIGKILL",
        ),
        (["import os; os.kill(os.getpid(), 9)", WAITS], 1, "process 0 of 2 (counted from 0) was killed by SIGKILL"),
    ],
)
def test_the_first_failure_is_reported_and_ends_all(
    texts: list[str], status: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(_processes, "GRACE", 0.5 if WAITS in texts else 60.0)  # the others end by themselves, however busy the machine is
    (tmp_path / "1.errors").write_text("what process 1 printed\n")
    children = toys(*texts)
    assert watched(children, tmp_path) == status
    assert all(child.poll() is not None for child in children)
    err = capfd.readouterr().err
    assert words in err and bool(words) == bool(err)
    assert ("what process 1 printed" in err) == ("process 1 of" in words)


def test_signals_are_passed_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    before, ready = signal.getsignal(signal.SIGTERM), tmp_path / "ready"
    children = toys(SAVES.replace("print(flush=True)", f"open({str(ready)!r}, 'w').close()"), WAITS)

    def ends() -> None:
        while not ready.exists() or signal.getsignal(signal.SIGTERM) is before:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=ends, daemon=True).start()
    assert watched(children, tmp_path) == 143
    assert children[0].returncode == 143 and children[1].returncode == -15
    assert signal.getsignal(signal.SIGTERM) is before and not capfd.readouterr().err


def test_other_processes_write_elsewhere(tmp_path: Path):
    assert Here().written(Path("a/x.fit")) == Path("a/x.fit")
    assert Here("process", tmp_path).written(Path("a/x.fit")) == tmp_path / "x.fit"
    assert Here("process", tmp_path).written(None) is None


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--rank", "1"], "add --coordinator HOST:PORT"),
        (["--coordinator", "127.0.0.1:1"], "add --rank I"),
        (["--processes", "2", "--coordinator", "127.0.0.1:1", "--rank", "2"], "is not below the number of processes, 2"),
    ],
)
def test_options_that_do_not_fit(words: list[str], text: str, folder: Path):
    for command in (["fit", "m.gmlm", "x.csv"], ["sample", "m.gmlm"]):
        assert text in " ".join(gmlm(*command, *words, status=2).output.replace("│", " ").split())


def test_a_pipe_has_one_reader(folder: Path, monkeypatch: pytest.MonkeyPatch):
    os.mkfifo(folder / "pipe")
    words = ["fit", str(folder / "m.gmlm"), str(folder / "pipe"), "--processes", "2"]
    monkeypatch.setattr(sys, "argv", ["gmlm", *words])
    assert "which only one of 2 processes can read" in gmlm(*words, status=1).stderr


class SpreadInPlace(Spread):
    """Several devices that are the host."""

    def put(self, a: np.ndarray, place: int = -1) -> Any:
        return a


def test_batches_are_filled_up_with_rows_of_no_weight():
    mesh: Any = SimpleNamespace(shape={"data": 4})
    codes, given = np.arange(10).reshape(2, 5), (np.arange(5)[:, None],)
    batch = Batch(codes, given, (np.arange(5),), np.ones(5, np.float32), np.arange(5), 2)
    found = spread_rows(SpreadInPlace(mesh, "data"), batch)
    assert found[0].shape == (2, 8) and (found[0][:, :5] == codes).all()
    assert found[1][0].shape == (8, 1) and found[2][0].shape == (8,)
    assert found[3].tolist() == [1] * 5 + [0] * 3


def joined(*words: object) -> list[tuple[str, str]]:
    """What two processes print that the user starts one by one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    children = [started(*words, "--processes", 2, "--coordinator", address, "--rank", rank) for rank in range(2)]
    found = [child.communicate(timeout=600) for child in children]
    assert [child.returncode for child in children] == [0, 0], found
    return found


def saved(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files if name != "metadata"}


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
def test_a_fit_and_its_draws_are_those_of_one_process(processes: int, tmp_path: Path):
    data = real_file("house-votes-84.csv")
    (tmp_path / "votes.gmlm").write_text(VOTES)
    words = ["fit", "votes.gmlm", data, "--columns", "1:", "--missing", "?"]
    alone, _ = run(*words, "--out", "one.fit", cwd=tmp_path)
    several, _ = run(*words, "--out", "all.fit", "--report", "all.html", "--processes", processes, cwd=tmp_path)
    assert several.count("saved all.fit") == 1 and (tmp_path / "all.html").exists()
    a, b = (gm.load_fit(tmp_path / name) for name in ("one.fit", "all.fit"))
    for name, estimate in a.params.items():
        assert np.abs(b.params[name] - estimate).max() <= 1e-12 * np.abs(estimate).max()
    table, other = ([line for line in text.splitlines() if "[" in line] for text in (alone, several))
    assert len(table) > 30 and table == other
    words = ["sample", "one.fit", "--draws", 20, "--chains", 3]
    run(*words, "--out", "one.npz", cwd=tmp_path)
    run(*words, "--out", "all.npz", "--processes", processes, cwd=tmp_path)
    one, several = saved(tmp_path / "one.npz"), saved(tmp_path / "all.npz")
    assert one.keys() == several.keys()
    np.testing.assert_allclose(several.pop("sample_stats/lp"), one.pop("sample_stats/lp"), rtol=1e-6)
    assert all((one[k] == several[k]).all() for k in one)


FAMILY = """
domain aa = letters("-ACDEFGHIKLMNPQRSTVWY")
graph G = complete(range(6))
model family {
  var   x[i in G.nodes] : aa
  param h[i in G.nodes, a in aa] ~ normal(0, 1)
  param J[(i, j) in G.edges, a in aa, b in aa] ~ normal(0, 0.3)
  factor h[i, x[i]] for i in G.nodes
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
"""


@pytest.mark.slow
def test_columns_of_an_alignment_in_two_and_four_processes(tmp_path: Path):
    """Six columns of DHFR, 6,741 parameters: estimates that agree as far as float32 keeps them."""
    (tmp_path / "family.gmlm").write_text(FAMILY)
    lines = real_file("DHFR.a2m").read_text().split(">")[1:]
    rows = [line.split("\n", 1)[1].replace("\n", "")[20:26] for line in lines]
    (tmp_path / "columns.a2m").write_text(
        "".join(f">{k}\n{row}\n" for k, row in enumerate(rows) if set(row) <= set("-ACDEFGHIKLMNPQRSTVWY"))
    )
    words = ["fit", "family.gmlm", "columns.a2m"]
    run(*words, "--out", "one.fit", cwd=tmp_path)
    alone = gm.load_fit(tmp_path / "one.fit")
    for processes in (2, 4):
        run(*words, "--out", "all.fit", "--processes", processes, cwd=tmp_path)
        for name, found in gm.load_fit(tmp_path / "all.fit").params.items():
            assert np.abs(found - alone.params[name]).max() <= 1e-6 * np.abs(alone.params[name]).max()


@pytest.mark.slow
def test_processes_that_are_started_one_by_one(folder: Path):
    words = ["fit", folder / "m.gmlm", folder / "x.csv", "--mask", "single"]
    (first, _), (second, errors) = joined(*words, "--out", folder / "m.fit")
    assert "saved" in first and not second and not errors.replace("[Gloo]", "")
    assert gm.load_fit(folder / "m.fit").params.keys() == {"h", "J"}


@pytest.mark.slow
@pytest.mark.parametrize("stopped", ["rank 0", "rank 1", "parent", "SIGTERM"])
def test_one_that_is_killed_ends_all(stopped: str, folder: Path):
    np.savez(folder / "p.npz", h=np.zeros(4), J=0.0)
    endless = ["--draws", 300, "--thin", 1_000_000, "--out", "draws.npz", "--processes", 2]
    parent = started("sample", "m.gmlm", "--params", "p.npz", *endless, cwd=folder)
    ranks = waited(lambda: children_of(parent.pid), lambda found: len(found) == 2)
    time.sleep(8)
    match stopped:
        case "rank 0" | "rank 1":
            os.kill(ranks[int(stopped[-1])], signal.SIGKILL)
        case "parent":
            parent.kill()
        case _:
            parent.send_signal(signal.SIGTERM)
    out, err = parent.communicate(timeout=60)
    assert parent.returncode == {"parent": -9, "SIGTERM": 143}.get(stopped, 1)
    assert (f"process {stopped[-1]} of 2 (counted from 0) was killed by SIGKILL" in err) == stopped.startswith("rank")
    assert not out and not (folder / "draws.npz").exists() and "internal error" not in err
    waited(lambda: [rank for rank in ranks if is_running(rank)], lambda found: not found)


def waited(look: Callable[[], list[int]], is_right: Callable[[list[int]], bool]) -> list[int]:
    deadline = time.monotonic() + 60
    while not is_right(found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def status_of(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ["Z", "0"]


def children_of(process: int) -> list[int]:
    numbers = sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [number for number in numbers if status_of(number)[1] == str(process)]


def is_running(process: int) -> bool:
    return status_of(process)[0] != "Z"


def weights(folder: Path) -> list[np.ndarray]:
    return [np.asarray(a) for a in jax.tree.leaves(eqx.filter(load_translator(folder / "translate.bundle").params, eqx.is_array))]


def losses(log: Path) -> list[float]:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line.get("loss", line.get("validation_loss")) for line in lines]


@pytest.mark.slow
def test_a_training_of_processes_is_that_of_one_and_goes_on_after_a_signal(tmp_path: Path):
    (tmp_path / "toy.gmlm").write_text(PROGRAM.replace("dropout = 0,", "dropout = 0.1,"))
    (tmp_path / "words.model").write_bytes(toy_vocabulary().data)
    train, test = write_texts(tmp_path, "train", toy_pairs(40)), write_texts(tmp_path, "test", toy_pairs(6, 2))
    words = ["train", "toy.gmlm", *train, "--vocabulary", "words.model", "--model", "translate", "--batch-size", 16, "--ema", 0.9]
    words += ["--steps", 24, "--save-every", 10, *(word for text in test for word in ("--validation", text))]
    run(*words, "--out", "one", cwd=tmp_path)
    stopped = started(*words, "--out", "all", "--processes", 2, cwd=tmp_path)
    manifest = tmp_path / "all" / "translate.checkpoints" / "10.manifest.json"
    while not manifest.exists() and stopped.poll() is None:
        time.sleep(0.05)
    stopped.send_signal(signal.SIGTERM)
    _, err = stopped.communicate(timeout=600)
    assert stopped.returncode == 143 and err.count("which are saved") == 1, err
    _, err = run(*words, "--out", "all", "--processes", 2, cwd=tmp_path)
    assert "going on to 24 batches" in err
    assert len(losses(tmp_path / "one" / "translate.jsonl")) == len(losses(tmp_path / "all" / "translate.jsonl"))
    np.testing.assert_allclose(losses(tmp_path / "all" / "translate.jsonl"), losses(tmp_path / "one" / "translate.jsonl"), rtol=1e-5)
    for a, b in zip(weights(tmp_path / "one"), weights(tmp_path / "all"), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    # one process goes on where two were, if there is something left to do
    assert "24 steps" in run(*words, "--out", "all", cwd=tmp_path)[0]


@pytest.mark.slow
def test_a_pipeline_of_processes_is_that_of_one_and_goes_on_after_a_signal(tmp_path: Path):
    (tmp_path / "toy.gmlm").write_text(PROGRAM)
    (tmp_path / "words.model").write_bytes(toy_vocabulary().data)
    texts = [write_texts(tmp_path, name, toy_pairs(count, seed)) for name, count, seed in (("train", 40, 0), ("dev", 6, 2), ("test", 6, 3))]
    words = ["pipeline", "toy.gmlm", *texts[0], "--vocabulary", "words.model", "--batch-size", 16, "--steps", 24, "--save-every", 10]
    words += [word for part, option in zip(texts[1:], ("--validation", "--test"), strict=True) for text in part for word in (option, text)]
    words += ["--sentences", 4, "--seed", 1]
    run(*words, "--out", "one", cwd=tmp_path)
    stopped = started(*words, "--out", "all", "--processes", 2, cwd=tmp_path)
    student = tmp_path / "all" / "stages" / "distilled.json"
    while not student.exists() and stopped.poll() is None:
        time.sleep(0.05)
    stopped.send_signal(signal.SIGTERM)
    _, err = stopped.communicate(timeout=600)
    assert stopped.returncode == 143, err
    out, _ = run(*words, "--out", "all", "--processes", 2, cwd=tmp_path)
    assert out.count("report.html") == 1 and (tmp_path / "all" / "report.html").exists()
    alone, several = (losses(tmp_path / folder / "teacher.jsonl") for folder in ("one", "all"))
    np.testing.assert_allclose(several, alone, rtol=1e-5)
    # Steps divide gradients by their size, which enlarges rounding where gradients are small.
    for name in ("teacher", "student"):
        fits = [gm.load_fit(tmp_path / folder / f"{name}.fit").params for folder in ("one", "all")]
        for a, b in zip(*(jax.tree.leaves(eqx.filter(f, eqx.is_array)) for f in fits), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4, err_msg=name)


@pytest.mark.slow
def test_sentences_of_processes_are_those_of_one(tmp_path: Path):
    """150 lines are three batches: translations, distilled lines and scores are equal to the bit."""
    write_bundles(tmp_path)
    texts = write_texts(tmp_path, "text", toy_pairs(150))
    several: tuple[tuple[object, ...], ...] = ((), ("--processes", 2))
    words = ["translate", "translate.bundle", texts[0], "--n-best", 2, "--batch-size", 256]
    outs = [run(*words, *more, cwd=tmp_path)[0] for more in several]
    assert outs[0] == outs[1] and len(outs[0].splitlines()) >= 150
    distilled = []
    for k, more in enumerate(several):
        out, _ = run("distill", "teacher.bundle", texts[0], "--out", f"{k}.de", *more, cwd=tmp_path)
        assert out.count("150 lines, 150 decoded now") == 1
        distilled.append((tmp_path / f"{k}.de").read_text())
    assert distilled[0] == distilled[1] and not (tmp_path / "1.de.chunks").exists()
    found = [json.loads(run("evaluate", "translate.bundle", *texts, "--json", *more, cwd=tmp_path)[0]) for more in several]
    assert all(e["refine"].pop("seconds") > 0 for e in found) and found[0] == found[1]


def test_processes_that_take_steps_by_the_clock_are_refused(tmp_path: Path):
    request: Any = SimpleNamespace(mesh_axis="process", minutes=1.0)
    with pytest.raises(gm.GmlmError, match=r"E507[\s\S]*--teacher-steps"):
        run_pipeline(request, *[None] * 4)  # pyright: ignore[reportArgumentType]


def test_a_process_goes_on_in_a_copy(tmp_path: Path):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "teacher.fit").write_text("fit")
    other = tmp_path / "1"
    other.mkdir()
    assert Here(None, None).resumed(tmp_path / "run", ()) == tmp_path / "run"
    assert Here(None, other).resumed(tmp_path / "run", ("checkpoints",)) == other / "run"
    assert [p.name for p in (other / "run").iterdir()] == ["teacher.fit"]
