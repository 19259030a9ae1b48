"""Ctrl-C while a library is loaded waits until that has ended: C++ that is being loaded would end the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOADED = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.01)\nwhole = True\n"
MAIN = """
import signal
import time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background hands on that it is ignored
from gmlmdsl.cli._console import interruptible
try:
    with interruptible():
        import loaded
        print("loaded", loaded.whole, flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_an_interrupt_waits_until_a_library_is_loaded(tmp_path: Path):
    (tmp_path / "loaded.py").write_text(LOADED)
    (tmp_path / "main.py").write_text(MAIN)
    found = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert found.stdout.splitlines() == ["loaded True", "interrupted"], found.stderr
