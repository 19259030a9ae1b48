"""What a benchmark reports, how it takes time, and where it ran."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
PACKAGES = ("gmlmdsl", "jax", "jaxlib", "numpy", "optax", "equinox", "thrml", "scikit-learn", "threadpoolctl")
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Figure:
    """One measured number: the median of `runs`, or None where it was not measured, with the reason in `note`."""

    benchmark: str
    implementation: str
    quantity: str
    value: float | None
    unit: str
    runs: tuple[float, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Check:
    """Whether the numbers behind a speed are right: `found` against `expected`, at most `allowed` apart."""

    benchmark: str
    what: str
    found: float
    expected: float
    allowed: float

    @property
    def passed(self) -> bool:
        """Whether they agree; not-a-number agrees with nothing."""
        return abs(self.found - self.expected) <= self.allowed


@dataclass(frozen=True)
class Report:
    """What one benchmark found."""

    figures: tuple[Figure, ...]
    checks: tuple[Check, ...] = ()


def figure(benchmark: str, implementation: str, quantity: str, runs: Sequence[float], unit: str, note: str = "") -> Figure:
    """The median of some runs."""
    return Figure(benchmark, implementation, quantity, statistics.median(runs), unit, tuple(runs), note)


def missing(benchmark: str, implementation: str, quantity: str, unit: str, why: str) -> Figure:
    """A number that could not be measured."""
    return Figure(benchmark, implementation, quantity, None, unit, (), why)


def seconds(f: Callable[[], object]) -> float:
    """Wall seconds of one call, which must block until its result is there."""
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def in_turn(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each call, all of them in turn, `repeats` times over: what disturbs the machine disturbs all alike."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            found[name].append(seconds(call))
    return found


def fresh_process(module: str, *arguments: object) -> dict[str, Any]:
    """The JSON that a module of this folder prints as a fresh process without any compilation cache, and the process's `seconds`."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment |= {"JAX_ENABLE_COMPILATION_CACHE": "false", "PYTHONPATH": os.pathsep.join((str(TESTS), str(ROOT)))}
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    took = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"benchmarks.{module} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1]) | {"seconds": took}


def resident_bytes() -> int:
    """The most memory that this process has held."""
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def installed(package: str) -> bool:
    """Whether an optional package can be imported."""
    return util.find_spec(package) is not None


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def provenance() -> dict[str, Any]:
    """What the numbers depend on: versions, cores, load, date."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cores": cores(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "versions": versions,
    }
