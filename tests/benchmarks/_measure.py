"""What a benchmark reports, how it takes time, and where it ran."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import metadata, util
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
PACKAGES = ("gmlmdsl", "jax", "jaxlib", "numpy", "optax", "equinox", "thrml", "scikit-learn", "threadpoolctl", "arviz")
NOT_MEASURED = "not measured"
REPEATS = 5  # of full runs that do not say otherwise


def repeats(quick: bool) -> int:
    """How often what is timed is repeated."""
    return 1 if quick else REPEATS


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
    most: float | None = None  # the goal

    @property
    def notes(self) -> str:
        """The note, and what the goal says of the value."""
        goal = (
            ""
            if self.most is None or self.value is None
            else f"goal: at most {self.most:.3g}, {'' if self.value <= self.most else 'not '}met"
        )
        return "; ".join(n for n in (self.note, goal) if n)


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
        return bool(abs(self.found - self.expected) <= self.allowed)


@dataclass(frozen=True)
class Report:
    """What one benchmark found."""

    figures: tuple[Figure, ...]
    checks: tuple[Check, ...] = ()


def figure(
    benchmark: str, implementation: str, quantity: str, runs: Sequence[float], unit: str, note: str = "", most: float | None = None
) -> Figure:
    """The median of some runs."""
    return Figure(benchmark, implementation, quantity, statistics.median(runs), unit, tuple(runs), note, most)


def pooled(figures: Sequence[Figure]) -> list[Figure]:
    """Figures of several runs: those of the same quantity are one, the median of all that was measured."""
    found: dict[tuple[str, ...], Figure] = {}
    for f in figures:
        key = f.benchmark, f.implementation, f.quantity, f.unit
        runs = (*found[key].runs, *f.runs) if key in found else f.runs
        found[key] = replace(f, runs=runs, value=statistics.median(runs)) if runs else f
    return list(found.values())


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


@dataclass(frozen=True)
class Took:
    """What a process of its own took: seconds by the clock and of all its threads, the most bytes held, and what it printed."""

    seconds: float
    processor: float
    peak: float
    printed: str


def run_process(command: Sequence[object], environment: Mapping[str, str]) -> Took:
    """A command in a process of its own, to its end.

    Raises:
        RuntimeError: where it fails, with what it wrote.
    """
    words = [str(c) for c in command]
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "took.json"
        launch = [sys.executable, "-S", str(Path(__file__).with_name("_launch.py")), str(found), *words]
        done = subprocess.run(launch, env=dict(environment), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)} failed:\n{done.stderr}")
        return Took(**json.loads(found.read_text(encoding="utf-8")), printed=done.stdout)


def plain_environment(cache: str | Path = "off") -> dict[str, str]:
    """That of this process without its settings of JAX, and with `cache` for the folder of compiled programs: none, if "off"."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    if str(cache) == "off":
        environment["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    return environment | {"GMLM_CACHE": str(cache), "PYTHONPATH": os.pathsep.join((str(TESTS), str(ROOT)))}


def fresh_process(module: str, *arguments: object, cache: str | Path = "off") -> dict[str, Any]:
    """The JSON that a module of this folder prints as a fresh process, and the process's `seconds`, `processor` seconds and `peak`.

    Compiled programs are kept in the folder `cache`; none are, if "off".
    """
    took = run_process([sys.executable, "-W", "ignore", "-m", f"benchmarks.{module}", *arguments], plain_environment(cache))
    return json.loads(took.printed.splitlines()[-1]) | {"seconds": took.seconds, "processor": took.processor, "peak": took.peak}


def ratio(benchmark: str, implementation: str, quantity: str, ours: Sequence[float], theirs: Sequence[float], most: float | None) -> Figure:
    """The median of the ratios of runs that were taken in turn."""
    runs = [a / b for a, b in zip(ours, theirs, strict=True)]
    return figure(benchmark, implementation, quantity, runs, "ratio", most=most)


def memory(benchmark: str, implementation: str, quantity: str, runs: Sequence[float], note: str = "", most: float | None = None) -> Figure:
    """The most memory that processes held, from bytes; the goal in MiB."""
    return figure(benchmark, implementation, f"most memory held, {quantity}", [r / 2**20 for r in runs], "MiB", note, most)


@contextmanager
def counted_programs() -> Iterator[list[str]]:
    """A list that grows by one name for each program that XLA compiles meanwhile: what is read from a cache is none."""
    import jax

    found: list[str] = []
    hits: list[str] = []

    def asked(event: str, *_: Any, **__: Any) -> None:
        if "backend_compile" in event:
            (hits.pop if hits else lambda: found.append(event))()

    def read(event: str, **_: Any) -> None:  # comes before the end of what was asked
        if event.endswith("compilation_cache/cache_hits"):
            hits.append(event)

    jax.monitoring.register_event_duration_secs_listener(asked)
    jax.monitoring.register_event_listener(read)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(asked)
        jax.monitoring.unregister_event_listener(read)


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
