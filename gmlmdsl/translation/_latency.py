"""Times of several translators from text to text, one line at a time and many lines at once.

Every batch of lines goes through all translators in turn, so that other load of the machine affects
all of them equally. A run with a compilation does not count, and is repeated. The median and the
99th percentile are taken over runs. The 99th percentile needs at least 20 runs, since with fewer it
would be close to the slowest run. The result states the circumstances of the measurement.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import numpy as np

from .._diagnostics import fail
from .._types import JsonObject
from ..graph import versions
from ._translator import Translator
from .limits import LEAST_RUNS, MANY_LINES, MOST_WARM_RUNS, SOURCE_WIDTHS

ENVIRONMENT = ("XLA_FLAGS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "JAX_PLATFORMS")
Entry = Translator | tuple[Translator, str]


@dataclass(frozen=True)
class Timing:
    """The runs of one translator in batches of one size.

    Attributes:
        name: the name of the translator.
        batch: the number of lines of a batch.
        seconds: the time of each run, from text to text.
        pieces: the subword tokens of the longest source of each run, including its end mark.
        outputs: the number of subword tokens of all translations, including end marks.
        compiled: the number of runs that did not count because something was compiled.
    """

    name: str
    batch: int
    seconds: tuple[float, ...] = field(repr=False)
    pieces: tuple[int, ...] = field(repr=False)
    outputs: int
    compiled: int

    @property
    def median(self) -> float:
        """The median seconds of a run."""
        return float(np.median(self.seconds))

    @property
    def p99(self) -> float | None:
        """The seconds that 99 % of the runs stay below; None for fewer than 20 runs."""
        return float(np.quantile(self.seconds, 0.99)) if len(self.seconds) >= LEAST_RUNS else None

    def by_length(self) -> dict[int, tuple[float, int]]:
        """Return median seconds and number of runs, by subword tokens of the longest source.

        The groups are: up to 8 subword tokens, up to 16, and so on.
        """
        edges = np.searchsorted(SOURCE_WIDTHS, self.pieces)
        found = {}
        for k in np.unique(edges):
            some = np.array(self.seconds)[edges == k]
            width = SOURCE_WIDTHS[k] if k < len(SOURCE_WIDTHS) else max(self.pieces)
            found[width] = (float(np.median(some)), len(some))
        return found

    def as_dict(self) -> JsonObject:
        """Return plain data in milliseconds, including the times by length."""
        lengths = [{"pieces": n, "median_ms": 1000 * s, "runs": k} for n, (s, k) in self.by_length().items()]
        times = {
            "median_ms": 1000 * self.median,
            "p99_ms": None if self.p99 is None else 1000 * self.p99,
            "mean_ms": 1000 * float(np.mean(self.seconds)),
        }
        counts = {"runs": len(self.seconds), "pieces": self.outputs, "compiled": self.compiled}
        return {"name": self.name, "batch": self.batch, **times, **counts, "by_length": lengths}


@dataclass(frozen=True)
class Latency:
    """Times of several translators.

    Attributes:
        timings: the runs of each translator, by batch size.
        setting: circumstances that affect them: lines, cells, vocabulary, cores, load, device,
            versions.
    """

    timings: tuple[Timing, ...]
    setting: Mapping[str, object]

    def __getitem__(self, key: tuple[str, int]) -> Timing:
        """Return the runs of a translator in batches of a size."""
        for t in self.timings:
            if (t.name, t.batch) == key:
                return t
        raise fail("E506", f"nothing was measured of {key[0]!r} in batches of {key[1]}")

    def as_dict(self) -> JsonObject:
        """Return plain data for JSON."""
        return {"setting": dict(self.setting), "timings": [t.as_dict() for t in self.timings]}

    def __str__(self) -> str:
        width = max(len(t.name) for t in self.timings)
        lines = [f"{'':<{width}}{'batch':>7}{'runs':>7}{'median ms':>12}{'p99 ms':>12}{'ms a line':>12}{'pieces a line':>15}"]
        for t in self.timings:
            n = len(t.seconds) * t.batch
            per_line = 1000 * sum(t.seconds) / n
            late = "" if t.p99 is None else f"{1000 * t.p99:.2f}"
            lines.append(
                f"{t.name:<{width}}{t.batch:>7}{len(t.seconds):>7}{1000 * t.median:>12.2f}{late:>12}{per_line:>12.2f}{t.outputs / n:>15.1f}"
            )
        return "\n".join([*lines, *(f"{k.replace('_', ' ')}: {_shown(v)}" for k, v in self.setting.items())])


def latency(
    translators: Mapping[str, Entry],
    lines: Sequence[str],
    *,
    batch_sizes: Sequence[int] = (1, 32),
    sentences: int = 500,
    length: int | None = None,
    peers: Sequence[Any] = (),
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> Latency:
    """Measure the times of translators on identical lines.

    Args:
        translators: translators by name, alone or as a pair with a sampler.
        lines: source lines; lines that do not fit into a row are left out and counted.
        batch_sizes: the numbers of lines of a batch.
        sentences: the number of lines over which each translator is timed, for each batch size.
            Fewer lines are repeated. From 100 on, there are at least 20 runs of each batch size.
        length: the number of cells that are decoded for each line. It is useful for weights that do
            not predict lengths. None leaves the lengths to the translators.
        peers: other engines, see `peers`; they generate as many subword tokens as the first
            translator does.
        tell: a function that is called with the numbers of finished batches and of all batches.

    Raises:
        GmlmError: E577 for translators of different vocabularies or rows, E505 if no line is left.
    """
    entries = _entries(translators)
    fitting, left_out = _fitting(entries, lines)
    before = _load()
    runs = _Runs(entries, peers, length)
    plan = [(size, some) for size in batch_sizes for some in _batches(fitting, size, sentences)]
    with _compilations() as compiled:
        for done, (size, some) in enumerate(plan, 1):
            runs.timed(size, some, compiled)
            tell(done, len(plan))
    first = next(iter(entries.values()))[0]
    setting = {
        "lines": len(fitting),
        "left_out": left_out,
        "cells": list(first.pair.cells),
        "length": "as decoded" if length is None else length,
        "vocabulary": f"{first.vocabulary.size} codes, {first.vocabulary.sha256[:12]}",
        "counted_from": "text to text, compiling left out",
        **_machine(),
        "load_before": before,
        "load_after": _load(),
        "versions": versions(),
    }
    return Latency(runs.timings(), setting)


class _Runs:
    """The times of all runs, by batch size and translator."""

    def __init__(self, entries: Mapping[str, tuple[Translator, str]], peers: Sequence[Any], length: int | None):
        self.entries, self.peers, self.length = entries, peers, length
        self.vocabulary = next(iter(entries.values()))[0].vocabulary
        self.found: dict[tuple[int, str], JsonObject] = {}

    def timed(self, size: int, lines: list[str], compiled: list[str]) -> None:
        """Time one batch in every translator and every peer."""
        longest = max(len(codes) for codes in self.vocabulary.encode(lines))
        wanted = 1 if self.length is None else self.length
        known = None if self.length is None else [self.length] * len(lines)
        for k, (name, (translator, sampler)) in enumerate(self.entries.items()):

            def run(t: Translator = translator, s: str = sampler) -> list[int]:
                found = t.translate(lines, sampler=s, batch_size=len(lines), lengths=known)
                return [min(len(x.pieces) + 1, t.pair.cells[1]) for x in found]

            made = self._timed(size, name, run, longest, compiled)
            wanted = max(made) if k == 0 and self.length is None else wanted
        for peer in self.peers:
            self._timed(size, peer.name, lambda p=peer: [p.decode(lines, wanted)], longest, compiled)

    def _timed(self, size: int, name: str, run: Callable[[], list[int]], longest: int, compiled: list[str]) -> list[int]:
        at = self.found.setdefault((size, name), {"seconds": [], "pieces": [], "outputs": 0, "compiled": 0})
        for _ in range(MOST_WARM_RUNS):
            compiled.clear()
            started = time.perf_counter()
            made = run()
            seconds = time.perf_counter() - started
            if not compiled:
                break
            at["compiled"] += 1
        else:
            raise fail("E578", f"`{name}` compiles in every run of the same lines: it has no time of its own")
        at["seconds"].append(seconds)
        at["pieces"].append(longest)
        at["outputs"] += sum(made)
        return made

    def timings(self) -> tuple[Timing, ...]:
        """Return the times as `Timing` objects."""
        return tuple(
            Timing(name, size, tuple(at["seconds"]), tuple(at["pieces"]), at["outputs"], at["compiled"])
            for (size, name), at in self.found.items()
        )


@contextmanager
def _compilations() -> Iterator[list[str]]:
    """Collect an entry for each compilation of JAX within the block."""
    from jax import monitoring

    found: list[str] = []

    def heard(event: str, duration_secs: float, **kwargs: str | int) -> None:
        # Tracing does not count, because shapes are traced even if nothing is compiled.
        if event.endswith("backend_compile_duration"):
            found.append(event)

    monitoring.register_event_duration_secs_listener(heard)
    try:
        yield found
    finally:
        monitoring.unregister_event_duration_listener(heard)


def _entries(translators: Mapping[str, Entry]) -> dict[str, tuple[Translator, str]]:
    """Return translators with their samplers, all of identical vocabulary and rows."""
    if not translators:
        raise fail("E505", "there is no translator to measure")
    found = {}
    for name, entry in translators.items():
        translator, sampler = entry if isinstance(entry, tuple) else (entry, None)
        found[name] = (translator, translator.sampler_named(sampler))
    (one, (first, _)), *rest = found.items()
    for name, (other, _) in rest:
        if other.vocabulary != first.vocabulary:
            raise fail(
                "E577", f"`{name}` has another vocabulary than `{one}`: a line is not as many pieces to both", help="train both with one"
            )
        if other.pair.cells != first.pair.cells:
            message = f"rows of `{name}` have {other.pair.cells} cells, those of `{one}` {first.pair.cells}"
            raise fail("E577", message, help="give both programs the same ranges")
    return found


def _fitting(entries: Mapping[str, tuple[Translator, str]], lines: Sequence[str]) -> tuple[list[str], int]:
    first = next(iter(entries.values()))[0]
    lengths = [len(codes) for codes in first.vocabulary.encode(lines)]
    found = [line for line, n in zip(lines, lengths, strict=True) if 1 < n <= first.pair.cells[0]]
    if not found:
        message = f"none of {len(lines):,} lines fits into the {first.pair.cells[0]} cells of a row, and is not empty"
        raise fail("E505", message, help="give it sentences, one a line")
    return found, len(lines) - len(found)


def _batches(lines: Sequence[str], size: int, sentences: int) -> list[list[str]]:
    """Return batches of one size with at least `sentences` lines in all.

    If `sentences` is at least `MANY_LINES`, there are at least `LEAST_RUNS` batches. Too few lines
    are repeated.
    """
    if size < 1 or sentences < 1:
        raise fail("E507", f"batch sizes and the number of sentences are at least 1, got {size} and {sentences}")
    source = cycle(lines)
    runs = max(-(-sentences // size), LEAST_RUNS if sentences >= MANY_LINES else 0)
    return [list(islice(source, size)) for _ in range(runs)]


def _machine() -> JsonObject:
    import jax

    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # Some systems lack this function.
        cores = os.cpu_count() or 1
    device = jax.devices()[0]
    return {
        "cores": cores,
        "device": f"{jax.default_backend()}: {device.device_kind}",
        "processor": platform.processor() or platform.machine(),
        "environment": {k: os.environ[k] for k in ENVIRONMENT if k in os.environ},
    }


def _load() -> float | None:
    """Return the mean number of runnable processes over the last minute, if it is known."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items()) or "none"
    return " x ".join(map(str, value)) if isinstance(value, list) else str(value)
