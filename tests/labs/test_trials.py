"""The trials of students and teachers: every command names what there is, what is scored is kept; and two of them, in small."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from translation_cases import toy_pairs, toy_vocabulary

from gmlmdsl.cli._translation_commands import app
from gmlmdsl.program import check_file

TRANSLATION = Path(__file__).parents[2] / "examples" / "labs" / "translation"


@pytest.fixture
def trials():
    spec = importlib.util.spec_from_file_location("trials", TRANSLATION / "trials.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_option_and_mask_is_there(trials):
    checked = check_file(trials.PROGRAM)
    known = {o for p in typer.main.get_command(app).commands["train"].params for o in p.opts}  # type: ignore[attr-defined]
    seen = set()
    for what in ("students", "teachers"):
        for scores, train, score in trials.commands(what, Path("run"), Path("out"), 300, 1):
            assert {w for w in train if w.startswith("--")} <= known, train
            assert str(scores) not in seen
            seen.add(str(scores))
            assert f"out/{scores.stem}/" in score[2] and "text/test" not in " ".join([*train, *score])
            if "--mask" in train:
                assert checked.masks[train[train.index("--mask") + 1]].model == "translate"
            given = {w.split("=")[0] for k, w in enumerate(train) if train[k - 1] == "--input"}
            assert given <= set(checked.inputs)
            assert ("--vocabulary" in train) != ("--from" in train or "source_vocab" in given)
    assert len(seen) == len(trials.STUDENTS) + len(trials.TEACHERS)


def test_what_is_scored_is_kept(trials, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls: list[list[str]] = []

    def run(command, **more):
        calls.append(command[3:])
        return SimpleNamespace(returncode=int(len(calls) == 6), stdout='{"refine": {}}')

    monkeypatch.setattr(trials.subprocess, "run", run)
    with pytest.raises(SystemExit):  # in the scoring of the third
        trials.main("teachers", tmp_path / "run", tmp_path / "out", 3, [0], False)
    assert len(list((tmp_path / "out").glob("*.json"))) == 2
    with pytest.raises(SystemExit, match="'steps': 3.*'steps': 4"):
        trials.main("teachers", tmp_path / "run", tmp_path / "out", 4, [0], False)
    trials.main("teachers", tmp_path / "run", tmp_path / "out", 3, [0], False)
    assert len(calls) == 6 + 2 * (len(trials.TEACHERS) - 2) and calls[6] == calls[4]
    assert json.loads((tmp_path / "out" / "teacher-seed0.json").read_text()) == {"refine": {}}


@pytest.mark.slow
def test_two_trials_in_small(trials, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = tmp_path / "run"
    for name, pairs in (("distilled/train", toy_pairs(60)), ("text/validation", toy_pairs(6, 1))):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        for side, ending in enumerate(("source", "target")):
            (run / f"{name}.{ending}").write_text("".join(f"{p[side]}\n" for p in pairs))
    (run / "vocabulary.model").write_bytes(toy_vocabulary().data)
    small = trials.PROGRAM.read_text()
    for old, new in (("range(64)", "range(8)"), ("int = 128", "int = 16"), ("layers : int = 4", "layers : int = 1")):
        small = small.replace(old, new)
    (tmp_path / "choices.gmlm").write_text(small)
    monkeypatch.setattr(trials, "PROGRAM", tmp_path / "choices.gmlm")
    monkeypatch.setattr(trials, "COMMON", "--batch-size 16 --bucket 8")
    two = {"student-random-start": ("distilled", "--mask corrupt"), "student-any-rate": ("distilled", "--mask any_rate")}
    monkeypatch.setattr(trials, "STUDENTS", two)
    trials.main("students", run, tmp_path / "out", 2, [0], False)
    found = {p.stem: json.loads(p.read_text()) for p in (tmp_path / "out").glob("*.json")}
    assert set(found) == {"student-random-start-seed0", "student-any-rate-seed0"}
    assert all(set(scores) == {"refine", "four", "confident"} for scores in found.values())
