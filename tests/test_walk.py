"""How many files a call enters: a stranger who follows it reads no more of them than this."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
MOST_LINES = 1200  # of the files of the walk: its stops
STOPS = 8
# Files that a call may enter, so that following it stays possible; lower them where fewer do.
# A fit enters `fit/_long_fit.py`, for runs that go on after they were killed; chains are apart from their compiled loop.
CEILINGS = {"program": 37, "fit": 58, "sample": 57}

TRACED = """
import sys
from pathlib import Path

import gmlmdsl as gm

TEXT = '''
graph G = chain(SIZE)
model ring {
  var x[i in G.nodes] : spin
  param h : real
  param J : real
  factor h * x[i] for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(size = 1)
sampler gibbs { update x[i] for i in G.nodes }
'''
PACKAGE = Path(gm.__file__).parent
entered = {}


def traced(what, call):
    files = entered.setdefault(what, set())

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        return call()
    finally:
        sys.setprofile(None)


def walk(size, traced):
    # what is compiled for one size is traced anew for another
    program = traced("program", lambda: gm.parse(TEXT.replace("SIZE", str(size))))
    model = program.model()
    rows = [[1] * k + [-1] * (size - k) for k in range(size)] * 5
    traced("fit", lambda: model.fit(rows, "single"))
    traced("sample", lambda: model.sample({"h": 0.1, "J": 0.2}, "gibbs", draws=5, warmup=2, chains=2, progress=False))


walk(4, lambda what, call: call())  # all that is needed is loaded: what runs while a file is imported is no call
walk(5, traced)
for what, files in entered.items():
    ours = sorted(str(Path(f).relative_to(PACKAGE)) for f in files if Path(f).is_relative_to(PACKAGE))
    print(what, *ours)
"""


@pytest.mark.slow  # a measure of the house, and dear: it compiles twice in a process of its own
def test_a_call_enters_few_files():
    found = subprocess.run(
        [sys.executable, "-c", TRACED],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
    )
    counts = {line.split()[0]: line.split()[1:] for line in found.stdout.splitlines()}
    for what, files in counts.items():
        print(f"{what}: {len(files)} files: {' '.join(files)}")
    assert set(counts) == set(CEILINGS)
    for what, files in counts.items():
        assert 0 < len(files) <= CEILINGS[what], f"{what} enters {len(files)} files: {files}"


def test_the_walk_of_the_page_is_short():
    """From text to draws in eight stops: each is a link to a file that is there."""
    text = PAGE.read_text(encoding="utf-8").split("## The walk", 1)[1].split("\n## ", 1)[0]
    stops = re.findall(r"^\d\. \[`[\w/.]+`\]\(\.\./\.\./(gmlmdsl/[\w/]+\.py)\)", text, re.MULTILINE)
    assert len(stops) == STOPS
    assert sum(len((ROOT / stop).read_text(encoding="utf-8").splitlines()) for stop in stops) <= MOST_LINES
