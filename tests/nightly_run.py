"""Runs all tests, those of the night among them, and writes what came of it to `docs/nightly.md`.

    python tests/nightly_run.py [--jobs 2] [--slow | --resume | --failed | --page] [arguments of pytest ..]

They run under one random `PYTHONHASHSEED`, printed first; set it to repeat a run. `--slow`: only those that `make test` leaves out;
`--resume`: those that have not ended, of a run that was stopped at this commit, so that a night may have several sittings;
`--failed`: only those that the page lists as failed, and how each of them ended stands beside it from then on. What each test said is in
`.nightly/log-1.jsonl` as soon as it ends; `--page` makes the page of a log whose run was killed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "nightly.md"
LOGS = ROOT / ".nightly"  # of the last run: what it was told, and what its tests said
ALL, SLOW = "not gpu and not network and not benchmark", "slow and not gpu and not network and not benchmark"
SLOWEST = 15
DONE = "GMLM_NIGHT_DONE"  # names a file with the tests that are not run again
ONLY = "GMLM_NIGHT_ONLY"  # names a file with the only tests that are run
STOPPED = 2  # pytest's status after Ctrl-C
ENDED = (0, 1)  # without and with failures


@dataclass(frozen=True)
class Night:
    """What a run was told, and how long it took."""

    began: str  # as ISO 8601 writes it
    marks: str
    jobs: int
    seed: str
    clock: float
    processor: float
    commit: str
    ended: bool = True
    sittings: int = 1


@dataclass(frozen=True)
class Test:
    """A test with its seconds on the clock, and `passed`, `skipped` or `failed`."""

    name: str
    seconds: float
    outcome: str


def tests_of(*logs: Path) -> list[Test]:
    """The tests in logs of pytest-reportlog, each once, with the seconds of its fixtures; one that did not end is none."""
    return [t for log in logs for t in _tests_in(log)]


def _tests_in(log: Path) -> list[Test]:
    found: dict[str, Test] = {}
    ended: set[str] = set()
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry.get("$report_type") != "TestReport":
            continue
        name = entry["nodeid"].removeprefix("tests/")
        before = found.get(name, Test(name, 0.0, "passed"))
        worse = max(before.outcome, entry["outcome"], key=("passed", "skipped", "failed").index)
        found[name] = Test(name, before.seconds + entry["duration"], worse)
        ended |= {name} if entry["when"] == "teardown" else set()
    return [t for t in found.values() if t.name in ended]


def page(night: Night, tests: list[Test]) -> str:
    """The Markdown page of a run."""
    count = {o: sum(t.outcome == o for t in tests) for o in ("passed", "failed", "skipped")}
    processes = f"{night.jobs} process{'es' * (night.jobs > 1)} on {os.cpu_count()} cores"
    facts = {
        "began": f"{datetime.fromisoformat(night.began):%Y-%m-%d %H:%M} UTC, at commit {night.commit}",
        "tests": f"`-m '{night.marks}'`, `PYTHONHASHSEED={night.seed}`, {processes}",
        "on": f"Python {platform.python_version()}, JAX {version('jax')}, {platform.system()}",
        "took": f"{(night.clock or sum(t.seconds for t in tests) / night.jobs) / 60:.0f} minutes"
        + f", {night.processor / 60:.0f} of the processor" * (night.processor > 0)
        + f", in {night.sittings} sittings" * (night.sittings > 1),
        "found": f"{len(tests)} tests: " + ", ".join(f"{n} {o}" for o, n in count.items()),
    }
    if not night.ended:
        facts["stopped"] = f"before its end; the last test was `{tests[-1].name.replace('|', ' ')}`" if tests else "before the first test"
    lines = ["# The last night", "", "What `make nightly` found last; it writes this page.", "", "| | |", "|---|---|"]
    lines += [f"| {what} | {words} |" for what, words in facts.items()]
    if count["failed"]:
        lines += ["", "## Failed", "", *(f"- `{t.name}`" for t in tests if t.outcome == "failed")]
    lines += ["", "## Slowest", "", "| seconds on the clock | test |", "|---|---|"]
    lines += [f"| {t.seconds:.0f} | `{t.name.replace('|', ' ')}` |" for t in sorted(tests, key=lambda t: -t.seconds)[:SLOWEST]]
    return "\n".join(lines) + "\n"


def commit() -> str:
    """The commit of the checkout, and whether files differ from it."""
    said = subprocess.run(["git", "describe", "--always", "--dirty=, changed"], cwd=ROOT, capture_output=True, text=True, check=False)
    return said.stdout.strip() or "unknown"


def waited(child: subprocess.Popen[bytes]) -> int:
    """The status of a process; Ctrl-C stops it, and what it says of that is waited for."""
    try:
        return child.wait()
    except KeyboardInterrupt:
        return child.wait()


def run(marks: str, jobs: int, more: list[str], to: Path, logs: Path = LOGS) -> int:
    """Run the tests, write the page, and return the status of pytest."""
    seed = os.environ.get("PYTHONHASHSEED", "random")
    seed = str(random.SystemRandom().randrange(1 << 32)) if seed == "random" else seed
    print(f"PYTHONHASHSEED={seed}", flush=True)
    logs.mkdir(exist_ok=True)
    night = Night(datetime.now(UTC).isoformat(), marks, jobs, seed, 0.0, 0.0, commit(), False)
    told, before = logs / "told.json", time.monotonic()
    told.write_text(json.dumps(asdict(night)), encoding="utf-8")
    for old in logs.glob("log*.jsonl"):
        old.unlink()
    status = run_pytest(marks, jobs, more, logs / "log-1.jsonl", seed)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    clock, processor = time.monotonic() - before, used.ru_utime + used.ru_stime
    night = replace(night, clock=clock, processor=processor, ended=status in ENDED)
    told.write_text(json.dumps(asdict(night)), encoding="utf-8")
    write_page(logs, to)
    return status


def resume(jobs: int, more: list[str], to: Path, logs: Path = LOGS) -> int:
    """Run what a stopped run left, under its seed, write the page of both, and return the status of pytest.

    Raises:
        SystemExit: without such a run, or at another commit.
    """
    told = logs / "told.json"
    if not told.exists():
        raise SystemExit("there is no run to resume: `.nightly/told.json` is lacking")
    night = Night(**json.loads(told.read_text(encoding="utf-8")))
    if night.commit.split(",")[0] != commit().split(",")[0]:
        raise SystemExit(f"the run to resume is of commit {night.commit}, and this is {commit()}: check it out, or begin anew")
    sitting = night.sittings + 1
    done = logs / "done.txt"
    done.write_text("\n".join(t.name for t in tests_of(*logs_in(logs))), encoding="utf-8")
    told.write_text(json.dumps(asdict(replace(night, ended=False, sittings=sitting))), encoding="utf-8")
    os.environ[DONE] = str(done)
    status = run_pytest(night.marks, jobs, more, logs / f"log-{sitting}.jsonl", night.seed)
    told.write_text(json.dumps(asdict(replace(night, clock=0.0, processor=0.0, ended=status in ENDED, sittings=sitting))), encoding="utf-8")
    write_page(logs, to)
    return status


def logs_in(folder: Path) -> list[Path]:
    """The logs of a run, one for each sitting."""
    return sorted(folder.glob("log*.jsonl"))


def write_page(logs: Path, to: Path) -> None:
    """Write the page of the run whose logs are in a folder."""
    if logs_in(logs):
        night = Night(**json.loads((logs / "told.json").read_text(encoding="utf-8")))
        to.write_text(page(night, tests_of(*logs_in(logs))), encoding="utf-8")


def run_pytest(marks: str, jobs: int, more: list[str], log: Path, seed: str) -> int:
    """The status of pytest, which writes what it found to `log`."""
    command = [sys.executable, "-m", "pytest", "-m", marks, f"--report-log={log}", "-p", "nightly_run"]
    command += ["-n", str(jobs), "--dist", "loadfile", "--no-loadscope-reorder"] * (jobs > 1)
    path = os.pathsep.join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH")]))  # this file is a plugin of pytest, too
    return waited(subprocess.Popen([*command, *more], cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path}))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files with a test among the slowest of the last page go first, so that no process is left alone with them at the end.

    Tests of an earlier sitting are left out.
    """
    if DONE in os.environ:
        done = set(Path(os.environ[DONE]).read_text(encoding="utf-8").splitlines())
        again = [item for item in items if item.nodeid.removeprefix("tests/") in done]
        items[:] = [item for item in items if item.nodeid.removeprefix("tests/") not in done]
        config.hook.pytest_deselected(items=again)
    if ONLY in os.environ:
        only = Path(os.environ[ONLY]).read_text(encoding="utf-8").splitlines()
        others = [item for item in items if not item.nodeid.endswith(tuple(only))]
        items[:] = [item for item in items if item.nodeid.endswith(tuple(only))]
        config.hook.pytest_deselected(items=others)
    slowest = PAGE.read_text(encoding="utf-8").partition("\n## Slowest\n")[2] if PAGE.exists() else ""
    items.sort(key=lambda item: f"`{item.nodeid.partition('::')[0].removeprefix('tests/')}::" not in slowest)


def failed_on(text: str) -> list[str]:
    """The tests that a page lists as failed."""
    lines = text.partition("\n## Failed\n")[2].partition("\n## ")[0].splitlines()
    return [line.split("`")[1] for line in lines if line.startswith("- ")]


def run_failed(jobs: int, more: list[str], on: Path, below: Path = ROOT / "tests") -> int:
    """Run again the tests that a page lists as failed, write beside each how it ended, and return the status of pytest.

    A test that is gone, or has another name now, is not there.
    """
    text, at, seed = on.read_text(encoding="utf-8"), commit(), os.environ.get("PYTHONHASHSEED", "random")
    names = failed_on(text)
    if not names:
        print("no test failed")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        log, only = Path(folder) / "log.jsonl", Path(folder) / "only.txt"
        only.write_text("\n".join(names), encoding="utf-8")
        os.environ[ONLY] = str(only)
        files = dict.fromkeys(below / name.partition("::")[0] for name in names)
        status = run_pytest(ALL, jobs, [*(str(f) for f in files if f.exists()), *more], log, seed)
        del os.environ[ONLY]
        ended = tests_of(log) if log.exists() else []
    for name in names:
        outcome = next((t.outcome for t in ended if t.name.endswith(name)), "not there")
        before = next(line for line in text.splitlines() if line.startswith(f"- `{name}`"))
        text = text.replace(before, f"- `{name}`: {outcome} when run again at {at}")
    on.write_text(text, encoding="utf-8")
    return status


def main() -> int:
    parser = argparse.ArgumentParser(description="Run all tests and keep what came of it.")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--slow", action="store_true", help="only those that `make test` leaves out")
    parser.add_argument("--resume", action="store_true", help="what a run that was stopped at this commit left")
    parser.add_argument("--failed", action="store_true", help="only those that the page lists as failed")
    parser.add_argument("--page", action="store_true", help="the page of the log that the last run left; nothing is run")
    asked, more = parser.parse_known_args()
    if asked.page:
        write_page(LOGS, PAGE)
        return 0
    if asked.resume:
        return resume(asked.jobs, more, PAGE)
    if asked.failed:
        return run_failed(asked.jobs, more, PAGE)
    return run(SLOW if asked.slow else ALL, asked.jobs, more, PAGE)


if __name__ == "__main__":
    sys.exit(main())
