"""Programs, data and a folder for tests of the command line, and what runs a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gmlmdsl.cli._commands import app

ROOT = Path(__file__).parents[1]

CHAIN = """\
input L : int = 2
graph G = chain(2 * L)
model m {
  var   x[i in G.nodes] : spin
  param h[i in G.nodes] ~ normal(0, 1)
  param J ~ normal(0, 1)
  factor h[i] * x[i] for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
mask pairs = subsets(x, size = 2)
sampler gibbs { update x[i] for i in G.nodes }
"""
LABELS = """\
index day = range(2)
model m {
  var w[t in day] : labels("sun", "rain")
  var k : range(3)
  param u[a in range(3)] ~ normal(0, 1)
  factor u[k]
  factor 0.5 for t in day if t < 1
}
mask some = subsets(size = 1)
sampler s { update K where K ~ some }
"""
ROWS = "1,-1,1,1\n-1,1,-1,1\n1,1,1,-1\n-1,-1,1,-1\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two programs and data, where commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.gmlm").write_text(CHAIN)
    (tmp_path / "labels.gmlm").write_text(LABELS)
    (tmp_path / "x.csv").write_text(ROWS)
    return tmp_path


def gmlm(*words: str, stdin: str | None = None, status: int | None = 0):
    """Run a command in this process; its result, whose status is checked."""
    result = CliRunner().invoke(app, list(words), input=stdin)
    assert "Traceback" not in result.output
    assert "internal error" not in result.output
    if status is not None:
        assert result.exit_code == status, result.output
    return result


def process(*words: str, **options) -> subprocess.CompletedProcess[str]:
    """Run a command as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "gmlmdsl", *words], capture_output=True, text=True, check=False, env=environment, **options
    )
