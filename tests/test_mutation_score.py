"""The mutation score on a small package: what its tests notice is killed, and a planted gap of theirs survives."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from mutation_score import (
    BEGIN,
    END,
    EQUIVALENT,
    KEPT,
    PAGE,
    Mutant,
    changes,
    key,
    mutants_of,
    page,
    part,
    sample,
    summary,
    visited,
    wilson,
)

SOURCE = """
from __future__ import annotations
import time
MOST = 3

def share(a: int, b: int, most: float = 0.5) -> float | None:
    if b == 0:
        raise ValueError("no whole")
    return min(a / b, most)

def less(a):
    return a - 1

def unused(a):
    return -a

def forever(n):
    while n < MOST:
        n += 1
    return n
"""
TESTS = """
import pytest
from package.room.small import forever, less, share

shares = []

def test_a_share():
    shares.append(share(1, 4))
    assert shares == [0.25]

def test_that_fails_alone():
    assert shares == [0.25] and less(1) == 0

def test_no_whole():
    with pytest.raises(ValueError):
        share(1, 0)

def test_an_end():
    assert forever(0) == 3
"""


def named(source: str = SOURCE) -> dict[str, Mutant]:
    return {f"{m.kind} {m.line} {m.difference(source).splitlines()[1][1:].strip()}": m for m in mutants_of("room/small.py", source)}


def test_each_operator_makes_its_change():
    found = {m.difference(SOURCE).splitlines()[1][1:].strip() for m in mutants_of("room/small.py", SOURCE)}
    assert found == {
        *("MOST = 4", "def share(a: int, b: int, most: float=1.5) -> float | None:", "if b != 0:", "if not b == 0:", "if b == 1:", "pass"),
        *(
            "return min(a * b, most)",
            "return a + 1",
            "return a - 2",
            "return +a",
            "while n <= MOST:",
            "while not n < MOST:",
            "n -= 1",
            "n += 2",
        ),
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a, b, c)", {"f(b, a, c)"}),
        ("f(a, a)", set()),
        ("f(*a, b)", set()),
        ("np.maximum(a, b)", set()),
        ("a and b", {"a or b"}),
        ("-a", {"+a"}),
        ("True", {"False"}),
        ("'text'", set()),
        ("a is b", {"a is not b"}),
        ("zip(a, b, strict=True)", {"zip(b, a, strict=True)"}),
        ("a if b else c", {"a if not b else c"}),
        ("f'{a + 1:3}'", {"f'{a - 1:3}'", "f'{a + 2:3}'"}),
    ],
)
def test_changes_of_an_expression(before: str, after: set[str]):
    assert {m.text(f"x = {before}").removeprefix("x = ") for m in mutants_of("", f"x = {before}")} == after


def test_types_and_decorators_stay():
    source = "@f(1)\ndef g(a: 2 = 3) -> 4:\n    b: 5 = a\n    return b"
    assert [m.text(source) for m in mutants_of("", source)] == [ast.unparse(ast.parse(source.replace("3", "4", 1)))]


def test_a_deleted_statement_leaves_names_bound():
    source = "for a in b:\n    if a:\n        continue\n    f(a)\n    c = a\n    d[a] = c\n    c += a\n"
    kinds = Counter(kind for node, *_ in visited(ast.parse(source)) for kind, *_ in changes(node))
    assert kinds == {"deleted statement": 4, "negated condition": 1, "arithmetic": 1}


def test_wilson_is_the_interval_of_the_score_test():
    low, high = wilson(45, 50)
    for p in (low, high):
        assert abs(0.9 - p) / (p * (1 - p) / 50) ** 0.5 == pytest.approx(1.96)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """Every mutant of the small package, tried by the script in a process of its own."""
    root = tmp_path_factory.mktemp("small")
    files = {"package/__init__.py": "", "package/room/__init__.py": "", "package/room/small.py": SOURCE, "tests/room/test_small.py": TESTS}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import coverage, hypothesis, jaxtyping, pytest, mutation_score
from pathlib import Path
mutation_score.MOST_SECONDS = 1
root = Path({str(root)!r})
reach = mutation_score.Reach(root, root / ".cache", "package", ("room",), ("room",))
reach.build(60)
mutation_score.drawn(reach, root / "found.json", 1000, 1, 600)
with (root / "tests/room/test_small.py").open("a") as tests:
    tests.write("\\ndef test_a_sign():\\n    from package.room.small import unused\\n    assert unused(1) == -1\\n")
later = mutation_score.Reach(root, root / ".cache", "package", ("room",), ("room",))
later.build(60)
mutation_score.again(later, root / "found.json")
mutation_score.SECONDS = 0
mutation_score.forked(reach.tree, root / "late.json", lambda: mutation_score.failing([sorted(reach.seconds)]), 60)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=600)
    assert (root / "package/room/small.py").read_text() == SOURCE
    return root, json.loads((root / "found.json").read_text())


@pytest.mark.slow  # thirty processes
def test_mutants_are_killed_but_for_planted_gaps(found: tuple[Path, dict]):
    outcomes = {v["difference"].splitlines()[1][1:].strip(): v for v in found[1]["verdicts"]}
    assert len(found[1]["verdicts"]) == found[1]["mutants"]["room"] == 15
    alive = {"def share(a: int, b: int, most: float=1.5) -> float | None:": "survived", "return +a": "unreached"}
    alive |= {"return a + 1": "doubtful", "return a - 2": "doubtful"}
    assert {k: v["outcome"] for k, v in outcomes.items() if v["outcome"] not in ("killed", "stopped")} == alive
    assert outcomes["n -= 1"]["outcome"] == "stopped"
    assert {v["since"] for v in found[1]["verdicts"] if "since" in v} == {"", "tests/room/test_small.py::test_a_sign"}
    assert outcomes["return min(a * b, most)"]["by"] == "tests/room/test_small.py::test_a_share"
    assert outcomes["MOST = 4"]["by"] == "tests/room/test_small.py::test_an_end"


@pytest.mark.slow  # thirty processes
def test_tests_for_which_no_time_is_left_kill_nothing(found: tuple[Path, dict]):
    assert json.loads((found[0] / "late.json").read_text()) == {"ran": ["tests/room/test_small.py::test_a_share"], "failed": []}


@pytest.mark.slow  # thirty processes
def test_the_page_lists_survivors_and_leaves_equivalent_mutants_out_of_the_score(found: tuple[Path, dict], tmp_path: Path):
    verdicts = found[1]["verdicts"]
    survivor = next(v for v in verdicts if v["outcome"] == "survived")
    text = part(summary(found[1], {key(survivor): "no call reaches the bound"}))
    killed = sum(v["outcome"] in ("killed", "stopped") for v in verdicts)
    assert f"| all | {len(verdicts)} |" in text and f"| {killed / (killed + 3):.0%} |" in text
    assert "`room/small.py:6`, equivalent: no call reaches the bound" in text and "+return +a" in text
    assert (
        "unreached: killed since by `tests/room/test_small.py::test_a_sign`" in text
        and "15 of 1000 were tried" in text
        and "1 of 1 test files ran" in text
    )
    at = tmp_path / "page.md"
    at.write_text(f"before {BEGIN} old {END} behind")
    page(summary(found[1], {}), at)
    assert at.read_text() == f"before {BEGIN}\n\n{part(summary(found[1], {}))}\n\n{END} behind"


@pytest.mark.slow
def test_the_sample_has_every_room_in_proportion_and_its_seed_decides():
    package = Path(__file__).parents[1] / "gmlmdsl"
    found, numbers = sample(package, ("graph", "plan"), 60, 5)
    counts = Counter(m.file.partition("/")[0] for m in found)
    assert abs(counts["graph"] / 60 - numbers["graph"] / sum(numbers.values())) < 0.02
    assert found == sample(package, ("graph", "plan"), 60, 5)[0] != sample(package, ("graph", "plan"), 60, 6)[0]
    for mutant in found:
        compile(mutant.text((package / mutant.file).read_text()), mutant.file, "exec")


def test_the_kept_sample_is_that_of_the_page():
    text, kept = PAGE.read_text(), json.loads(KEPT.read_text())
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip() == part(kept)
    assert set(json.loads(EQUIVALENT.read_text()).values()) >= {m["why"] for m in kept["alive"] if m["outcome"] == "equivalent"}
