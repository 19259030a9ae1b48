"""Nothing depends on the order of a set: two processes, whose hashes of text have other seeds, find the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from order_cases import GROUPS, HERE, ROOT

SEEDS = ("1", "4")


def printed(group: str, seed: str, folder: Path, kept: Path) -> str:
    """What a group prints under a seed, in a folder of its own; compiled programs are kept in `kept`, by their hash."""
    folder.mkdir()
    keep = {"JAX_COMPILATION_CACHE_DIR": str(kept), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    keep |= {"JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    environment = os.environ | keep | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "COLUMNS": "150"}
    command = [sys.executable, str(HERE / "order_cases.py"), group]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("group", [g if g != "long" else pytest.param(g, marks=pytest.mark.slow) for g in GROUPS])
def test_two_hash_seeds_find_the_same(group, tmp_path):
    kept = tmp_path / "compiled"
    found, programs = [], []
    for seed in SEEDS:
        found.append(printed(group, seed, tmp_path / seed, kept).splitlines())
        programs.append({p.name for p in kept.glob("*-cache")} if kept.exists() else set())
    assert found[0] == found[1]
    assert len(found[0]) > 10
    assert programs[0] == programs[1]  # the second process compiled nothing that the first had not
