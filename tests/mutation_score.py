"""Changes one operator of the package at a time and counts how many of the changes the quick tests notice.

    python tests/mutation_score.py reach                                     # which test executes which line: the long part, kept by file
    python tests/mutation_score.py run --size 150 --seed 1 --out found.json  # --seconds N stops; the same command resumes
    python tests/mutation_score.py again --out found.json                    # its survivors, beside the tests of today
    python tests/mutation_score.py page --out found.json                     # writes tests/mutation_score.json and its part of the page

A *mutant* is the package with one change. It is *killed* if a test that executes the changed line fails or exceeds its processor time, and
*survives* if all of them pass. Mutants stand in a copy of the tree. For each one a process is forked that has imported JAX but nothing of
the package, so that every test starts without cached programs. Tools that exist have one command of tests for all mutants (cosmic-ray), or
rewrite every function of the package (mutmut), and neither swaps arguments; so the operators below are this file's.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import gc
import getpass
import hashlib
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "how-it-is-tested.md"
KEPT, EQUIVALENT = Path(__file__).with_suffix(".json"), Path(__file__).with_name("equivalent_mutants.json")
BEGIN, END = "<!-- mutation score: begin -->", "<!-- mutation score: end -->"
ROOMS = ("derive", "plan", "graph", "evaluate", "guided")
FOLDERS = (*ROOMS, "masks", "sample", "program", "model", "theory", "fit")
IMPORTS = ("jax", "jax.numpy", "jax.scipy.special", "equinox", "numpyro.distributions", "optax", "arviz", "pandas", "xarray", "scipy.stats")
IMPORTS += ("scipy.optimize", "hypothesis", "pytest", "coverage", "lark", "rich.console", "typer", "beartype", "jaxtyping", "networkx")
FIRST, FIRST_FILES = 12, 3  # the tests that a mutant meets first, and from how many files
QUICK, SECONDS, MOST_SECONDS, GIBIBYTES = 3.0, 60, 120, 8  # of a test; of a mutant's tests; where its process is stopped; of its memory


# Mutants: the fields that a change of one node sets.

WORDS = (
    "Add:Sub Sub:Add Mult:Div Div:Mult FloorDiv:Mult Mod:FloorDiv Pow:Mult BitAnd:BitOr LShift:RShift RShift:LShift USub:UAdd And:Or Or:And"
)
WORDS += " Lt:LtE LtE:Lt Gt:GtE GtE:Gt Eq:NotEq NotEq:Eq Is:IsNot IsNot:Is In:NotIn NotIn:In"
PAIRS = {getattr(ast, before): getattr(ast, after) for before, after in (pair.split(":") for pair in WORDS.split())}
SYMMETRIC = {"max", "min", "maximum", "minimum", "add", "multiply", "logaddexp", "allclose", "array_equal"}  # in their first two arguments
Change = tuple[str, Any, dict[str, Any]]  # its kind, the node that a test must execute, and the fields that it sets


def changes(node: ast.AST) -> Iterator[Change]:
    """The changes of one node, each as new values of its fields."""
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in PAIRS:
            yield "arithmetic", node, {"op": PAIRS[type(op)]()}
        case ast.Compare(ops=[op, *more]) if type(op) in PAIRS:
            yield "comparison", node, {"ops": [PAIRS[type(op)](), *more]}
        case ast.BoolOp(op=op):
            yield "boolean", node, {"op": PAIRS[type(op)]()}
        case ast.UnaryOp(op=ast.USub()):
            yield "sign", node, {"op": ast.UAdd()}
        case ast.Constant(value=bool() | int() | float() as value):
            yield "constant", node, {"value": not value if isinstance(value, bool) else value + 1}
        case ast.Call(func=called, args=[a, b, *more]) if ast.unparse(called).rpartition(".")[2] not in SYMMETRIC:
            if not isinstance(a, ast.Starred) and not isinstance(b, ast.Starred) and ast.dump(a) != ast.dump(b):
                yield "swapped arguments", node, {"args": [b, a, *more]}
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield "negated condition", test, {"test": ast.UnaryOp(ast.Not(), test)}
    yield from deletions(node)


def deletions(node: ast.AST) -> Iterator[Change]:
    """The changes that delete one statement of a block and leave the names of the others bound."""
    for name in ("body", "orelse"):
        statements = getattr(node, name, None)
        for k, statement in enumerate(statements if isinstance(statements, list) else ()):
            match statement:
                case ast.Expr(value=ast.Call()) | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                    pass
                case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
                    pass
                case _:
                    continue
            rest = [*statements[:k], ast.copy_location(ast.Pass(), statement), *statements[k + 1 :]]
            yield "deleted statement", statement, {name: rest}


def visited(node: ast.AST, function: str = "", statement: ast.stmt | None = None) -> Iterator[tuple[ast.AST, str, ast.stmt | None]]:
    """Nodes that may change, in one order, each with the function and the statement around it.

    Types, decorators (`frozen=True`) and `strict=` of `zip`, which no answer depends on, are left out.
    """
    statement = node if isinstance(node, ast.stmt) else statement
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    yield node, function, statement
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or (isinstance(node, ast.keyword) and node.arg == "strict"):
            continue
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if inside and name == "args":  # a default is evaluated at import, and used where the function is called
            statement = node.body[ast.get_docstring(node, clean=False) is not None and len(node.body) > 1]
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from visited(child, node.name if inside else function, statement)


@dataclass(frozen=True)
class Mutant:
    """A file of the package with one change: of which node, in the order of `visited`, and which of its changes."""

    file: str
    node: int
    change: int
    kind: str
    line: int
    last_line: int
    statement: int  # the first line of the statement around it
    function: str  # "" for what runs when the module is imported
    name: str  # what the statement binds, outside functions

    def text(self, source: str) -> str:
        """The changed file."""
        tree = ast.parse(source)
        node = [node for node, _, _ in visited(tree)][self.node]
        for name, value in list(changes(node))[self.change][2].items():
            setattr(node, name, value)
        return ast.unparse(ast.fix_missing_locations(tree))

    def difference(self, source: str) -> str:
        """The changed lines, before and after, as Python writes them without comments."""
        before, after = (ast.unparse(ast.parse(t)).splitlines() for t in (source, self.text(source)))
        lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
        return "\n".join(line for line in lines if not line.startswith("@@"))


def mutants_of(file: str, source: str) -> list[Mutant]:
    """All mutants of one file."""
    found = []
    for k, (node, function, statement) in enumerate(visited(ast.parse(source))):
        for c, (kind, where, _) in enumerate(changes(node)):
            target = getattr(statement, "target", None) or next(iter(getattr(statement, "targets", [])), statement)
            name = getattr(target, "id", getattr(target, "name", ""))
            found.append(Mutant(file, k, c, kind, where.lineno, where.end_lineno, getattr(statement, "lineno", 1), function, name))
    return found


def sample(package: Path, rooms: Iterable[str], size: int, seed: int) -> tuple[list[Mutant], dict[str, int]]:
    """Mutants drawn without replacement, from every room in proportion to its number of mutants; and these numbers."""
    files = {room: sorted((package / room).rglob("*.py")) for room in rooms}
    found = {room: [m for f in files[room] for m in mutants_of(str(f.relative_to(package)), f.read_text())] for room in files}
    numbers = {room: len(mutants) for room, mutants in found.items()}
    rng = random.Random(seed)
    shares = {room: min(n, max(1, round(size * n / sum(numbers.values())))) for room, n in numbers.items()}
    chosen = [m for room, mutants in found.items() for m in rng.sample(mutants, shares[room])]
    return rng.sample(chosen, len(chosen)), numbers


# Processes: each forked from this one, which has imported what the tests need, but nothing of the package.


class Chosen:
    """A plugin of pytest: runs the chosen tests in their order until the processor time is over, and keeps what came of each."""

    def __init__(self, names: list[str] | None = None, cover: Any = None) -> None:
        self.names, self.cover = names, cover
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.names is not None:
            place = {name: k for k, name in enumerate(self.names)}
            items[:] = sorted((i for i in items if i.nodeid in place), key=lambda i: place[i.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.seconds[nodeid] = -time.process_time()
        if self.cover:
            self.cover.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    pytest_collectreport = pytest_runtest_logreport  # a file that cannot be imported

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] += time.process_time()

    def pytest_runtest_protocol(self, item: Any) -> None:
        if self.names is not None and time.process_time() > SECONDS:
            item.session.shouldstop = "the processor time of this mutant is over"


def forked(tree: Path, answer: Path, do: Callable[[], Any], seconds: float) -> Any:
    """What `do` returned in a process of its own, which stands in the tree; None if that process was stopped or broke off."""
    answer.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        try:
            os.setsid()
            with answer.with_suffix(".log").open("wb") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            os.chdir(tree)
            sys.path.insert(0, str(tree))
            os.environ |= {"PYTHONPATH": str(tree), "TMPDIR": str(answer.parent)}
            tempfile.tempdir = None
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
            resource.setrlimit(resource.RLIMIT_DATA, (GIBIBYTES << 30, GIBIBYTES << 30))
            answer.write_text(json.dumps(do()), encoding="utf-8")
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(0)
    ends = time.monotonic() + 20 * seconds
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > ends:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.02)
    if answer.exists():
        return json.loads(answer.read_text(encoding="utf-8"))
    if not os.WIFSIGNALED(ended[1]):
        raise RuntimeError(f"a process ended without an answer: {answer.with_suffix('.log').read_text(errors='replace')[-2000:]}")
    return None


def pytest_main(tests: list[str], plugin: Chosen, *more: str) -> None:
    """Run pytest in this process; that it cannot start is a failure too."""
    import pytest

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # a second of imports, which no test here needs
    status = pytest.main(["-q", "-p", "no:cacheprovider", *more, *tests], plugins=[plugin])
    if status in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR) and not plugin.failed:
        plugin.failed.append("the start of pytest")


# Which test executes which line.


@dataclass
class Reach:
    """A copy of the tree, and for each of its test files what its tests execute and how long they take."""

    root: Path
    cache: Path
    package: str = "gmlmdsl"
    rooms: tuple[str, ...] = ROOMS
    folders: tuple[str, ...] = FOLDERS
    seconds: dict[str, float] = field(default_factory=dict)  # of a quick test that passes
    known: dict[str, dict[int, list[str]]] = field(default_factory=dict)

    @cached_property
    def tree(self) -> Path:
        """The copy, as the tree is now."""
        ignore = shutil.ignore_patterns(".*", "__pycache__", "build", "*.pyc")
        tree = self.cache / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(self.root, tree, ignore=ignore)
        # Bytecode that is held against the text, not its time: a mutant may have the length and the second of the file before it.
        compiled = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", str(tree / self.package)]
        subprocess.run(compiled, check=True)
        sys.dont_write_bytecode = True
        return tree

    @cached_property
    def digest(self) -> bytes:
        """The content of the package and of the tests' common files."""
        files = [*(self.root / self.package).rglob("*.py"), *(self.root / "tests").glob("*.py")]
        files = [f for f in sorted(files) if not f.name.startswith("test_") and f != Path(__file__).resolve()]
        return hashlib.sha256(b"\0".join(f.read_bytes() for f in files)).digest()

    def test_files(self) -> list[Path]:
        """The test files of the folders, relative to the tree."""
        return [f.relative_to(self.root) for d in self.folders for f in sorted((self.root / "tests" / d).glob("test_*.py"))]

    def store(self, file: Path) -> Path:
        """Where what the tests of a file execute is kept; its name changes with them and with the package."""
        content = hashlib.sha256(self.digest + (self.root / file).read_bytes()).hexdigest()[:16]
        return self.cache / "reach" / f"{file.parent.name}-{file.stem}-{content}.coverage"

    def build(self, most_seconds: float) -> None:
        """Run the test files that are lacking, each in a process of its own, until the time is over."""
        (self.cache / "reach").mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        lacking = [f for f in self.test_files() if not self.store(f).with_suffix(".json").exists()]
        for file in lacking:
            if time.monotonic() - began > most_seconds:
                break
            found = forked(self.tree, self.cache / "answer.json", lambda file=file: self.covered(file), 900)
            found = found or {"seconds": {}, "failed": [str(file)]}
            print(f"{time.monotonic() - began:6.0f} s  {file}  {len(found['seconds'])} tests, {len(found['failed'])} failed", flush=True)
            self.store(file).with_suffix(".json").write_text(json.dumps(found))

    def covered(self, file: Path) -> dict[str, Any]:
        """Run one test file under coverage, with one context for each test."""
        import coverage

        cover = coverage.Coverage(str(self.store(file)), config_file=False, source=[str(self.tree / self.package / r) for r in self.rooms])
        plugin = Chosen(cover=cover)
        cover.start()
        pytest_main([str(file)], plugin)
        cover.stop()
        cover.save()
        return {"seconds": plugin.seconds, "failed": plugin.failed}

    @cached_property
    def data(self) -> Any:
        """The lines of all test files that were run, by coverage's contexts."""
        from coverage import CoverageData

        data = CoverageData(no_disk=True)
        for file in self.test_files():
            kept = self.store(file).with_suffix(".json")
            told = json.loads(kept.read_text()) if kept.exists() else {"seconds": {}, "failed": []}
            self.seconds |= {k: v for k, v in told["seconds"].items() if k not in told["failed"] and v < QUICK}
            if self.store(file).exists():
                part = CoverageData(str(self.store(file)))
                part.read()
                data.update(part)
        return data

    @property
    def files(self) -> str:
        """How many of the test files were run."""
        every = [self.store(file).with_suffix(".json").exists() for file in self.test_files()]
        return f"{sum(every)} of {len(every)}"

    def lines(self, file: str) -> dict[int, list[str]]:
        """The tests that execute each line of a file; "" is its import."""
        if file not in self.known:
            self.known[file] = self.data.contexts_by_lineno(str(self.tree / self.package / file))
        return self.known[file]

    def tests(self, mutant: Mutant) -> list[str]:
        """The quick tests that execute a mutant's line, quickest first; of an import, those of the lines that use the name which it binds."""
        if mutant.function:
            lines = self.lines(mutant.file)
            for span in (range(mutant.line, mutant.last_line + 1), [mutant.statement]):
                found = {t for k in span for t in lines.get(k, ())} - {""}
                if found:
                    break
        else:
            found = {t for f in self.sources for k, tests in self.lines(f).items() if self.uses(f, k, mutant) for t in tests}
        return sorted((t for t in found if t in self.seconds), key=lambda t: self.seconds[t])

    def uses(self, file: str, line: int, mutant: Mutant) -> bool:
        """Whether a line has the name that a mutant outside functions binds."""
        words = "".join(self.sources[file][line - 1 : line])
        return bool(re.search(rf"\b{re.escape(mutant.name)}\b", words)) if mutant.name else file == mutant.file

    @cached_property
    def sources(self) -> dict[str, list[str]]:
        """The lines of all files that are mutated."""
        package = self.tree / self.package
        return {str(f.relative_to(package)): f.read_text().splitlines() for r in self.rooms for f in sorted((package / r).rglob("*.py"))}


# One mutant.


@dataclass(frozen=True)
class Verdict:
    """What came of a mutant: `killed`, `stopped` (out of time or memory), `survived`, or `unreached` if no quick test executes its line."""

    mutant: Mutant
    outcome: str
    difference: str
    by: str = ""  # the test that failed
    ran: int = 0
    reaching: int = 0
    seconds: float = 0.0


def tried(reach: Reach, mutant: Mutant) -> Verdict:
    """Run the tests that reach a mutant: a few quick ones of few files, then all, then the others of the same files.

    Coverage names one test of a file for what JAX traces once; the others of the file then use the cached program. A test that fails makes the
    mutant doubtful if the same tests, in the same order, fail in the package as it is.
    """
    path = reach.tree / reach.package / mutant.file
    source, tests, began = path.read_text(), reach.tests(mutant), time.monotonic()
    difference = mutant.difference(source)
    if not tests:
        return Verdict(mutant, "unreached", difference)
    first: list[str] = []
    for test in tests:
        if len(first) < FIRST and len({t.partition("::")[0] for t in [*first, test]}) <= FIRST_FILES:
            first.append(test)
    files = {t.partition("::")[0] for t in tests}
    others = sorted((t for t in reach.seconds if t.partition("::")[0] in files), key=lambda t: reach.seconds[t])
    answer, failed = reach.cache / "answer.json", ""
    path.write_text(mutant.text(source))
    try:
        found = forked(reach.tree, answer, lambda: failing([first, tests, others]), MOST_SECONDS)
    finally:
        path.write_text(source)
    if found and found["failed"]:
        same = forked(reach.tree, answer, lambda: failing([found["ran"] or first]), MOST_SECONDS)
        outcome, failed = "killed" if same and not same["failed"] else "doubtful", found["failed"][0]
    else:
        outcome = "survived" if found else "stopped"
    ran = len(found["ran"]) if found else 0
    return Verdict(mutant, outcome, difference, failed, ran, len(tests), round(time.monotonic() - began, 1))


def failing(groups: list[list[str]]) -> dict[str, Any]:
    """Run groups of tests, one after the other, until one fails or the time is over."""
    ran: list[str] = []
    failed: list[str] = []
    for tests in groups:
        left = [t for t in tests if t not in ran]
        if left and not failed:
            plugin = Chosen(left)
            pytest_main(sorted({t.partition("::")[0] for t in left}), plugin, "-x")
            ran, failed = [*ran, *plugin.seconds], plugin.failed
    return {"ran": ran, "failed": failed}


def wilson(killed: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95 % interval of a proportion (1927)."""
    centre, width = (killed + z**2 / 2) / (of + z**2), z / (of + z**2) * (killed * (of - killed) / of + z**2 / 4) ** 0.5
    return max(0.0, centre - width), min(1.0, centre + width)


def drawn(reach: Reach, out: Path, size: int, seed: int, seconds: float) -> None:
    """Try a sample, or what an earlier sitting left of it, and write what came of it after every mutant."""
    began, found = time.monotonic(), json.loads(out.read_text()) if out.exists() else {"seed": seed, "size": size, "verdicts": []}
    if (found["seed"], found["size"]) != (seed, size):
        raise SystemExit(f"{out} has a sample of {found['size']} with seed {found['seed']}")
    mutants, found["mutants"] = sample(reach.tree / reach.package, reach.rooms, size, seed)
    done = {(v["mutant"]["file"], v["mutant"]["node"], v["mutant"]["change"]) for v in found["verdicts"]}
    for mutant in mutants:
        if (mutant.file, mutant.node, mutant.change) not in done and time.monotonic() - began < seconds:
            found["verdicts"].append(asdict(tried(reach, mutant)))
            found |= {"date": time.strftime("%Y-%m-%d", time.gmtime()), "files": reach.files}
            out.write_text(json.dumps(found, indent=1), encoding="utf-8")
            print(said(found["verdicts"][-1]), flush=True)


def again(reach: Reach, out: Path) -> None:
    """Try the survivors of a sample anew, with the tests of today; a test that kills one is kept beside it as `since`."""
    found = json.loads(out.read_text())
    for verdict in found["verdicts"]:
        if verdict["outcome"] in ("survived", "unreached") and not verdict.get("since"):
            now = tried(reach, Mutant(**verdict["mutant"]))
            if now.difference != verdict["difference"]:
                raise SystemExit(f"{now.mutant.file} has changed since the sample was drawn: draw another one")
            verdict["since"] = now.by if now.outcome == "killed" else ""
            print(said(asdict(now)), flush=True)
            out.write_text(json.dumps(found, indent=1), encoding="utf-8")


def said(verdict: dict[str, Any]) -> str:
    """A verdict on a line, and for a survivor its change."""
    mutant = verdict["mutant"]
    line = f"{verdict['outcome']:9} {verdict['seconds']:6.1f} s  {mutant['file']}:{mutant['line']}  {mutant['kind']}  "
    line += verdict["by"] or f"{verdict['ran']} tests ran, {verdict['reaching']} reach it"
    return line if verdict["by"] else "\n".join([line, *shortened(verdict["difference"])])


# The page.


def shortened(difference: str, most: int = 70) -> list[str]:
    """The lines of a difference; of one changed line only what stands near the change."""
    lines = difference.splitlines()
    if len(lines) != 2:
        return lines
    before, after = (line[1:].strip() for line in lines)
    k = next((k for k, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    return [f"{sign}{'.. ' * (k > most)}{line[max(0, k - most) : k + most]}" for sign, line in zip("-+", (before, after), strict=True)]


def key(verdict: dict[str, Any]) -> str:
    """What names a mutant while lines move."""
    return f"{verdict['mutant']['file']}: {verdict['mutant']['function']}: {verdict['difference']}"


def summary(found: dict[str, Any], equivalent: dict[str, str]) -> dict[str, Any]:
    """What is kept of a sample: counts for each room, and the mutants that no test killed when they were drawn."""
    rooms: dict[str, dict[str, int]] = {room: {"mutants": n} for room, n in found["mutants"].items()}
    alive = []
    for verdict in found["verdicts"]:
        mutant, outcome = verdict["mutant"], verdict["outcome"]
        if outcome not in ("killed", "stopped"):
            outcome = "equivalent" if key(verdict) in equivalent else outcome
            why = equivalent.get(key(verdict), "") or (f"killed since by `{verdict['since']}`" if verdict.get("since") else "open")
            alive.append(
                {"place": f"{mutant['file']}:{mutant['line']}", "outcome": outcome, "difference": verdict["difference"], "why": why}
            )
        counts = rooms[mutant["file"].partition("/")[0]]
        counts[outcome] = counts.get(outcome, 0) + 1
    tried = f"{len(found['verdicts'])} of {found['size']}"
    return {k: found[k] for k in ("date", "seed", "files")} | {"tried": tried, "rooms": rooms, "alive": alive}


def part(kept: dict[str, Any]) -> str:
    """The part of the page: a table of rooms, and the mutants that were not killed."""
    columns = ("mutants", "killed", "stopped", "survived", "unreached", "doubtful", "equivalent")
    lines = [f"| package | {' | '.join(columns)} | score | 95 % interval |", "|" + "---|" * (len(columns) + 3)]
    rows = [(f"`{room}`", counts) for room, counts in kept["rooms"].items()]
    rows += [("all", {c: sum(counts.get(c, 0) for _, counts in rows) for c in columns})]
    for name, counts in rows:
        killed = counts.get("killed", 0) + counts.get("stopped", 0)
        tested = sum(counts.get(c, 0) for c in columns[1:-1])
        score = f"{killed / tested:.0%} | {' to '.join(f'{p:.0%}' for p in wilson(killed, tested))}" if tested else "|"
        lines.append(f"| {name} | {' | '.join(str(counts.get(c, 0)) for c in columns)} | {score} |")
    lines += ["", f"The sample has the seed {kept['seed']} ({kept['date']}). Of its mutants {kept['tried']} were tried, and tests of"]
    lines += [f"{kept['files']} test files ran. These mutants were not killed when they were drawn:", ""]
    for mutant in kept["alive"]:
        lines += [f"- `{mutant['place']}`, {mutant['outcome']}: {mutant['why']}", "", "  ```diff"]
        lines += [*(f"  {d}" for d in shortened(mutant["difference"])), "  ```", ""]
    return "\n".join(lines).strip()


def page(kept: dict[str, Any], at: Path = PAGE) -> None:
    """Write the part of the page between its markers."""
    text = at.read_text(encoding="utf-8")
    at.write_text(f"{text[: text.index(BEGIN) + len(BEGIN)]}\n\n{part(kept)}\n\n{text[text.index(END) :]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the changes of the package that the quick tests notice.")
    parser.add_argument("what", choices=("reach", "run", "again", "page"))
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e6, help="after how many no more test files, or mutants, begin")
    parser.add_argument("--out", type=Path, default=Path("mutants.json"))
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / f"gmlmdsl-mutants-{getpass.getuser()}")
    asked = parser.parse_args()
    if asked.what == "page":
        kept = summary(json.loads(asked.out.read_text()), json.loads(EQUIVALENT.read_text()))
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        return page(kept)
    for name in IMPORTS:
        importlib.import_module(name)
    gc.freeze()
    reach = Reach(ROOT, asked.cache)
    if asked.what == "reach":
        reach.build(asked.seconds)
    elif asked.what == "run":
        drawn(reach, asked.out, asked.size, asked.seed, asked.seconds)
    else:
        again(reach, asked.out)
    return None


if __name__ == "__main__":
    main()
