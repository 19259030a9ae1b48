"""300 fits of other programs and row counts in one fresh process: memory and mappings stay where the caches, once full, brought them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FITS, FIRST = 300, 70  # 128 programs are kept, of which a fit compiles two or three
GROWTH = 1.05  # beyond the most that the first fits took
SCRIPT = Path(__file__).with_name("fit_session.py")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not say how many mappings a process has")
def test_memory_and_mappings_are_flat_after_the_first_fits():
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION")} | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    environment["PYTHONPATH"] = str(SCRIPT.parents[2])
    done = subprocess.run([sys.executable, str(SCRIPT), str(FITS)], env=environment, capture_output=True, text=True, check=False)
    print(f"fits, MB, mappings, seconds of processor time\n{done.stdout}")
    assert done.returncode == 0, done.stderr
    fits, memory, mappings, _ = np.array([line.split() for line in done.stdout.splitlines()], float).T
    early = fits <= FIRST
    assert fits[-1] == FITS
    assert mappings[~early].max() <= GROWTH * mappings[early].max()
    assert memory[~early].max() <= GROWTH * memory[early].max()
