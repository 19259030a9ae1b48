"""What `fuzz.py` runs, without atheris: every target takes the inputs that it begins with, and an error that is not the language's fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz import TARGETS

import gmlmdsl as gm


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "programs"])  # `test_damaged_programs.py` runs those
def test_targets_take_sound_inputs_and_damaged_ones(name: str, tmp_path: Path):
    run, seeds = TARGETS[name](tmp_path)
    assert seeds
    for data in seeds.values():
        run(data)
        run(data[: len(data) // 2])
    run(b"")


def test_another_error_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run, seeds = TARGETS["models"](tmp_path)
    monkeypatch.setattr(gm, "read_model", lambda path: {}["x"])
    with pytest.raises(KeyError):
        run(seeds["asia"])
