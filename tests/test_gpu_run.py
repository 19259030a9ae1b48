"""The run on an accelerator works on a CPU at small sizes, goes on where it stopped, and its page is that of its numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import gpu_run
import pytest


def test_the_page_is_that_of_the_kept_run():
    kept = json.loads(gpu_run.JSON.read_text(encoding="utf-8")) if gpu_run.JSON.exists() else None
    assert gpu_run.page(kept) == gpu_run.PAGE.read_text(encoding="utf-8")
    assert ("Run: not measured." in gpu_run.page(kept)) == (kept is None)


def test_what_is_not_measured_is_said():
    t1 = {"kernel": {"rate": 1234.0}, "plain": {"rate": 5.0}, "passed": False}
    found = {"identity": {"device": "D", "jax": "1"}, "provenance": {"date": "2026-01-02T"}, "parts": {"t1": t1}}
    lines = gpu_run.page(found).splitlines()
    assert "Run: D, 2026-01-02, jax 1." in lines
    assert "| `t1` | 1.23e+03 | 5 | no |" in lines and "| `t2` | not measured | not measured | not measured |" in lines


def test_a_run_goes_on_and_each_part_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    done: list[str] = []

    def part(name: str):
        def made() -> dict[str, object]:
            done.append(name)
            if name == "b" and done.count("b") == 1:
                raise KeyboardInterrupt
            return {"passed": name != "c"}

        return made

    monkeypatch.setattr(gpu_run, "parts", lambda small: {name: part(name) for name in "abc"})
    words = ["--out", str(tmp_path / "found.json")]
    with pytest.raises(KeyboardInterrupt):
        gpu_run.main(words)
    assert gpu_run.main([*words, "--minutes", "-1"]) == 0  # there is no time left
    assert done == ["a", "b"]
    assert gpu_run.main([*words, "--page", str(tmp_path / "page.md")]) == 1  # an answer differs
    assert done == ["a", "b", "b", "c"] and (tmp_path / "page.md").exists()


@pytest.mark.slow
def test_a_small_run_on_a_cpu(tmp_path: Path):
    out = tmp_path / "found.json"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    command = [sys.executable, gpu_run.__file__, "--small", "--out", str(out), "--minutes", "60"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())["parts"]
    assert found.keys() == gpu_run.parts(True).keys()
    assert found["correctness"]["differences"].keys() == gpu_run.MOST.keys()
    assert max(found["correctness"]["differences"].values()) <= 1e-6
