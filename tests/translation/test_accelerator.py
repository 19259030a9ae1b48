"""The script for long runs: its pieces, what ends them and what they go on with; and all of it once, in small."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from translation_cases import toy_pairs, write_texts

from gmlmdsl.program import check_file

TRANSLATOR = Path(__file__).parents[2] / "examples" / "translator"
SCRIPT = TRANSLATOR / "accelerator.sh"
# What stands in for `gmlm`: a training that saves, and waits to be ended, as often as `left` says; then it is done.
STUB = """\
#!/bin/sh
echo "$@" >> {folder}/calls
[ "$1" = train ] && exit 0
left=$(cat {folder}/left)
[ "$left" = fail ] && exit 7
[ "$left" -gt 0 ] || exit 0
echo $((left - 1)) > {folder}/left
[ -f {folder}/stuck ] || {{ mkdir -p {folder}/out/small/checkpoints/a; echo "$left" > {folder}/out/small/checkpoints/a/$left; }}
echo $$ > {folder}/pid
exec sleep 60
"""
needs_timeout = pytest.mark.skipif(shutil.which("timeout") is None, reason="the script ends its pieces by `timeout`")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = tmp_path / "text"
    text.mkdir()
    for k, part in enumerate(("train", "val", "test")):
        write_texts(text, part, toy_pairs(4, k))
    stub = tmp_path / "gmlm"
    stub.write_text(STUB.format(folder=tmp_path))
    stub.chmod(0o755)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "latency.json").write_text("{}")  # which is measured once
    return tmp_path


def call(folder: Path, left: object, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "left").write_text(f"{left}\n")
    words = ["sh", str(SCRIPT), str(folder / "out"), str(folder / "text"), "--gmlm", str(folder / "gmlm"), "--python", "true"]
    return subprocess.run([*words, "--sizes", "small", "--minutes", "0.004", *options], capture_output=True, text=True, check=False)


@needs_timeout
def test_pieces_go_on_until_all_is_done(folder: Path):
    first = call(folder, 2, "--pieces", "1")
    assert first.returncode == 75 and "call it again" in first.stdout
    assert call(folder, 1, "--", "--input", "width=16", "--steps", "3").returncode == 0
    calls = (folder / "calls").read_text().splitlines()
    assert [c.split()[0] for c in calls] == ["train", "train", *["pipeline"] * 3]  # the smoke test is not made again
    assert "--model teacher" in calls[0] and "--model translate" in calls[1]
    assert "--precision bfloat16 --batch-size 512 --bucket 24 --bucket 48" in calls[2] and calls[-1].endswith("--steps 3")
    assert "--input width=256" in calls[2]
    assert "--input width=256" not in calls[-1]  # an input is given once
    assert "--input layers=3 --input heads=4" in calls[-1]
    last = call(folder, "fail")
    assert last.returncode == 0 and len((folder / "calls").read_text().splitlines()) == 5  # what is done is not called
    assert "small was made with other options" in last.stdout


@needs_timeout
def test_what_fails_or_does_not_move_ends_the_script(folder: Path):
    failed = call(folder, "fail")
    assert failed.returncode == 7 and "small.log" in failed.stdout
    (folder / "stuck").touch()
    stuck = call(folder, 9)
    assert stuck.returncode == 1 and "three pieces changed nothing" in stuck.stdout


def test_words_that_are_none(folder: Path):
    for words, said in (
        (("--what",), "unknown option --what"),
        (("--test", "none"), "there is no"),
        (("--sizes",), "needs a value"),
        (("--sizes", "small large"), "no size is called large"),
        (("--pieces", "1.5"), "--pieces needs a whole number, not 1.5"),
        (("--minutes", "1h"), "--minutes needs a number, not 1h"),
    ):
        found = call(folder, 0, *words)
        assert found.returncode == 2 and said in found.stderr
    spaced = subprocess.run(["sh", str(SCRIPT), str(folder / "o u t"), str(folder / "text")], capture_output=True, text=True, check=False)
    assert spaced.returncode == 2 and "without spaces" in spaced.stderr and not (folder / "o u t").exists()
    (folder / "text" / "train.en").unlink()
    assert call(folder, 0).returncode == 2 and not (folder / "calls").exists()


@needs_timeout
def test_a_script_that_is_ended_ends_its_piece(folder: Path):
    (folder / "left").write_text("1\n")
    (folder / "out" / "smoke.done").touch()
    words = ["sh", str(SCRIPT), str(folder / "out"), str(folder / "text"), "--gmlm", f"env GONE=1 {folder / 'gmlm'}", "--python", "true"]
    started = subprocess.Popen([*words, "--sizes", "small"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pid = folder / "pid"
    while not (pid.exists() and pid.read_text()):
        time.sleep(0.01)
    started.send_signal(signal.SIGTERM)
    assert started.wait(10) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@needs_timeout
def test_latency_that_fails_is_tried_once_and_said(folder: Path):
    (folder / "out" / "latency.json").unlink()
    first = call(folder, 0, "--python", "false")
    assert first.returncode == 1 and "latency was not measured" in first.stdout and (folder / "out" / "small.done").exists()
    (folder / "out" / "latency.log").unlink()
    assert call(folder, 0, "--python", "false").returncode == 1 and not (folder / "out" / "latency.log").exists()


def test_half_an_installation_is_made_whole(folder: Path):
    python, pip = folder / "python", folder / "pip"
    python.write_text(
        f'#!/bin/sh\nmkdir -p "$3/bin"; cp {pip} "$3/bin/pip"; cp {folder / "gmlm"} "$3/bin/gmlm"; cp {folder / "found"} "$3/bin/python"\n'
    )
    pip.write_text(f'#!/bin/sh\necho "$@" >> {folder}/pips\ncase "$*" in *jax*) [ -f {folder}/works ] ;; esac\n')
    (folder / "found").write_text("#!/bin/sh\necho '[CpuDevice(id=0)]'\n")
    for path in (python, pip, folder / "found"):
        path.chmod(0o755)
    words = ["sh", str(SCRIPT), str(folder / "out"), str(folder / "text"), "--python", str(python)]
    for works, status, pips in ((False, 1, 2), (True, 1, 4), (True, 1, 4)):
        if works:
            (folder / "works").touch()
        found = subprocess.run(words, capture_output=True, text=True, check=False)
        assert found.returncode == status and len((folder / "pips").read_text().splitlines()) == pips
    assert "finds no accelerator" in found.stdout and not (folder / "calls").exists()


def test_the_program_of_long_runs_is_sound():
    assert not check_file(TRANSLATOR / "long.gmlm").warnings


@pytest.mark.slow
@needs_timeout
def test_all_of_it_in_small(tmp_path: Path):
    text, out = tmp_path / "text", tmp_path / "out"
    text.mkdir()
    for k, (part, count) in enumerate((("train", 400), ("val", 8), ("test", 8))):
        marked = [(f"{s}. {s}! {s}?", t) for s, t in toy_pairs(count, k)]
        write_texts(text, part, marked)
    gmlm = tmp_path / "gmlm"
    gmlm.write_text(f'#!/bin/sh\nexec {sys.executable} -m gmlmdsl "$@"\n')
    gmlm.chmod(0o755)
    out.mkdir()
    (out / "latency.json").write_text("{}")  # which takes minutes
    (out / "smoke.done").touch()  # whose vocabulary this text has not
    words = ["sh", str(SCRIPT), str(out), str(text), "--gmlm", str(gmlm), "--python", sys.executable, "--sizes", "small", "--minutes", "1"]
    more = "--input source_vocab=30 --input target_vocab=30 --input layers=1 --input width=16 --input dropout=0 --batch-size 16 --steps 4"
    more += " --teacher-steps 80 --optimizer adam --learning-rate 0.02"  # so that some translations end
    more += " --teacher-sampler greedy --sampler greedy --sampler refine"
    found = subprocess.run(
        [*words, "--", *more.split(), "--save-every", "2", "--sentences", "2"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + (out / "small.log").read_text()[-2000:]
    report = json.loads((out / "small" / "report.json").read_text())
    assert report["recipes"]["student"]["precision"] == "bfloat16" and report["recipes"]["student"]["buckets"] == [24, 48]
    assert {"student.refine-reranked", "teacher.greedy"} <= set(report["scores"]) and report["attention"]["student.refine"]["measured"] > 0
    assert all((out / "small" / f"{name}.bundle").exists() for name in ("teacher", "student"))


@pytest.mark.slow
@needs_timeout
def test_the_smoke_test_and_the_latency_of_random_weights(tmp_path: Path):
    """By the real program, on text with enough words for the vocabulary; `small` is done already."""
    text, out = tmp_path / "text", tmp_path / "out"
    text.mkdir()
    out.mkdir()
    (out / "small.done").write_text("\n")
    rng = random.Random(0)
    words = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 7))) for _ in range(2000)]
    for part, count in (("train", 2000), ("val", 8), ("test", 8)):
        write_texts(text, part, [(" ".join(rng.sample(words, 6)), " ".join(rng.sample(words, 6))) for _ in range(count)])
    call = [
        "sh",
        str(SCRIPT),
        str(out),
        str(text),
        "--gmlm",
        f"{sys.executable} -m gmlmdsl",
        "--python",
        sys.executable,
        "--sizes",
        "small",
    ]
    (out / "latency.json").write_text("{}")
    found = subprocess.run(call, capture_output=True, text=True, check=False)
    assert found.returncode == 0 and (out / "smoke.done").exists(), found.stdout
    assert (out / "smoke" / "teacher.bundle").exists() and (out / "smoke" / "translate.bundle").exists()
    measured = [sys.executable, str(TRANSLATOR / "random_latency.py"), str(TRANSLATOR / "tiny.gmlm"), "--vocabulary", "60", "--pieces", "6"]
    measured += ["--sentences", "2", "--sampler", "greedy", "--out", str(out / "latency.json")]
    subprocess.run(measured, check=True, capture_output=True)
    assert [t["name"] for t in json.loads((out / "latency.json").read_text())["timings"]] == ["teacher greedy"] * 2
