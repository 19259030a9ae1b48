"""Runs the documented examples as their readers would, and compares their processor time with the kept figure.

    python tests/documented_examples.py [NAME ..] [--jobs 2] [--night] [--write]

Each runs from a fresh process in an empty folder, with the real files that it names and without compiled programs of earlier runs. What
takes more than twice its kept figure fails; a process is stopped there. On a slower machine, or one that is busy, figures count so many
times more as a yardstick, work of JAX alone, takes there. `--write` keeps what was measured; read the difference.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import real_data
from markdown_blocks import ROOT, Output, in_its_own_process, run_page, unlike_kept

KEPT = Path(__file__).with_suffix(".json")
TIMES = 2.0  # the kept figure: above that a run fails
YARDSTICK = "yardstick"  # its entry among the kept figures
WORK = """
import jax, jax.numpy as jnp
for k in range(8):
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 400 + k, lambda i, y: jnp.sin(y @ y / (1 + jnp.abs(y).max())) + i * 1e-6, x))
    f(jnp.eye(32 + k)).block_until_ready()
"""
SLOW = 10  # seconds on the clock for each of the processor's that are allowed: what hangs is stopped as well


@dataclass(frozen=True)
class Example:
    """A page, a script, or `gmlm` and its words; the files of real data that it needs; its processor time; whether only the night runs it."""

    name: str
    data: tuple[str, ...]
    seconds: float
    night: bool = False

    @property
    def limit(self) -> float:
        """The most processor seconds of a run here."""
        return TIMES * self.seconds * slower()


@dataclass(frozen=True)
class Outcome:
    """What a run took, and why it is no success: `failed` or `skipped`."""

    example: Example
    seconds: float = 0.0
    failed: str = ""
    skipped: str = ""
    ended: bool = True  # by itself, with status 0

    @property
    def line(self) -> str:
        what = f"skipped: {self.skipped}" if self.skipped else f"{self.seconds:6.1f} s, kept {self.example.seconds:6.1f} s"
        return f"{self.example.name:36} {what}{f'  FAILED: {self.failed}' if self.failed else ''}"


@cache
def slower() -> float:
    """How many times more processor time the yardstick takes here than where figures were kept; 1 where it takes less."""
    return max(1.0, yardstick() / kept()[YARDSTICK]["seconds"])


def yardstick() -> float:
    """The processor seconds of a fixed piece of work."""
    status, seconds = measured([sys.executable, "-c", WORK], 600)
    assert not status
    return seconds


def kept() -> dict[str, dict[str, Any]]:
    """The table of kept figures: by name, what an example needs and takes."""
    return json.loads(KEPT.read_text(encoding="utf-8"))


def examples() -> list[Example]:
    """All that are documented, with their kept figures."""
    return [Example(name, tuple(e.get("data", ())), e["seconds"], e.get("night", False)) for name, e in kept().items() if name != YARDSTICK]


def run(example: Example) -> Outcome:
    """Run an example in a process of its own, and its children, and judge it."""
    for name in example.data:
        if why := real_data.lacking(name):
            return Outcome(example, skipped=why)
    with tempfile.TemporaryDirectory() as made:
        here, said = Path(made) / "here", Path(made) / "said"
        here.mkdir()
        for name in example.data:
            shutil.copy(real_data.FOLDER / name, here)
        environment = {k: v for k, v in os.environ.items() if k not in ("GMLM_CACHE", "JAX_COMPILATION_CACHE_DIR", "XLA_FLAGS")}
        environment |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(Path(made) / "cache"), "CI": "1", "COLUMNS": "100"}
        command = [sys.executable, __file__, "--inside", example.name, "--seconds", str(example.limit)]
        with said.open("w") as output:
            status, seconds = measured(command, SLOW * example.limit, cwd=here, env=environment, stdout=output, stderr=subprocess.STDOUT)
        return judged(example, seconds, status, said.read_text(encoding="utf-8", errors="replace")[-3000:])


def measured(command: list[str], patience: float, **options: object) -> tuple[int, float]:
    """The status of a command and the processor seconds of it and its children; it is killed after `patience` seconds on the clock."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
    hung = threading.Timer(patience, os.killpg, (child.pid, signal.SIGKILL))
    hung.start()
    _, status, used = os.wait4(child.pid, 0)
    hung.cancel()
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # what it has started and left behind
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, used.ru_utime + used.ru_stime


def judged(example: Example, seconds: float, status: int, said: str) -> Outcome:
    """Above twice the kept figure is a failure, whatever it printed; so is a status that is not 0."""
    if seconds > example.limit:
        here = f" ({slower():.2g} times more here)" if slower() > 1 else ""
        return Outcome(example, seconds, f"it takes more than {TIMES:g} times the kept figure{here}", ended=status == 0)
    return Outcome(example, seconds, f"status {status}\n{said}" if status else "", ended=status == 0)


def inside(name: str, seconds: float) -> None:
    """The example itself, in this process, which the system stops, as every child of it, where it takes well more than `seconds`."""
    most = ceil(1.25 * seconds) + 1  # systems count a limit more roughly than what was used
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    if name.endswith(".md"):
        outputs: list[Output] = []
        run_page(ROOT / name, Path.cwd(), in_its_own_process, outputs)
        print(*(o.text for o in outputs), sep="\n")
        assert unlike_kept(ROOT / name, outputs) == [], f"other words than the kept ones: python docs/build_outputs.py {name}"
    elif name.endswith(".py"):
        sys.argv = [name]
        runpy.run_path(str(ROOT / name), run_name="__main__")
    else:
        from gmlmdsl.cli._main import main

        sys.argv = name.split()
        sys.exit(main())


def run_all(chosen: list[Example], jobs: int, say: Callable[[str], object] = print) -> list[Outcome]:
    """Run examples, some at a time; a line for each in their order."""
    with ThreadPoolExecutor(jobs) as pool:
        found = []
        for outcome in pool.map(run, chosen):
            say(outcome.line)
            found.append(outcome)
    return found


def keep(found: list[Outcome]) -> None:
    """Write what was measured, of runs that came to their end."""
    table = kept()
    table[YARDSTICK] = {"seconds": round(yardstick(), 1)}
    for o in found:
        if o.seconds and o.ended:
            table[o.example.name]["seconds"] = round(o.seconds, 1)
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in table.items())
    KEPT.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the documented examples.")
    parser.add_argument("names", nargs="*", help="examples; all by default, but those of the night")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--night", action="store_true", help="also those that the gate leaves to `make nightly`")
    parser.add_argument("--write", action="store_true", help="keep what was measured")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        inside(asked.inside, asked.seconds)
        return 0
    chosen = [e for e in examples() if (e.name in asked.names if asked.names else asked.night or not e.night)]
    found = run_all(chosen, asked.jobs, lambda line: print(line, flush=True))
    if asked.write:
        keep(found)
    return int(any(o.failed for o in found) or not found)


if __name__ == "__main__":
    sys.exit(main())
