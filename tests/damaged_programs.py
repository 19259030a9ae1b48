"""Mutants and damaged texts through every front door: `check`, `--json`, `--fix`, `format`, binding, `explain` and `info`.

`python tests/damaged_programs.py 50000 39001` writes what it found: a third mutants of valid programs, a third of invalid ones, a third texts
that were damaged as files are (bytes lost, doubled, exchanged, numbers and brackets that explode, ends of lines, imports).
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from mutants import MOST_SECONDS, inputs_of, load, mutants, programs, said_of, wrong_programs

from gmlmdsl._diagnostics import GmlmError, Source, rendered
from gmlmdsl.cli._check_files import MOST_ROUNDS, apply_edits, sure_edits
from gmlmdsl.explain import describe, explain
from gmlmdsl.plan import check_bound
from gmlmdsl.program import Program, check_source
from gmlmdsl.syntax import format_source

OLD_FORM = "W831"  # a form of an earlier version
STRANGE = (
    *("\0", "\ud800", "\ufeff", "\r", "\r\n", "\u2028", "\x1b[31m", "\u202e", "\t", "²", "٣", "“", "'", '"', "#", ";", "\\", "∞", "😀"),
    *(
        "1" * 4301,
        "1e400",
        "1e-400",
        "1e" + "9" * 400,
        "0x" + "f" * 50,
        "1_000",
        ".5",
        "5.",
        "1.2.3",
        "10^12",
        "-1",
        "nan",
        "inf",
        "1000000000",
    ),
    *(
        "x" * 5000,
        "((((" * 40,
        "]" * 30,
        "{" * 190,
        "not " * 190,
        "+" * 250,
        " " * 10_000,
        "\n" * 500,
        "a->b",
        "=>",
        "~=",
        "!",
        "in {1, 2}",
    ),
    *('import "a.gmlm"\n', 'import "../a.gmlm"\n', 'import ""\n', "import x\n", "# gmlm: allow W803\n", "for i in 1:" + "9" * 4400 + " "),
)


def damaged(n: int, seed: int) -> list[tuple[str, str, str]]:
    """Name of the program, what was done, the text; each up to three times."""
    rng = random.Random(seed)
    texts = {**wrong_programs(), **programs()}
    names, out = sorted(texts), []
    while len(out) < n:
        name = rng.choice(names)
        text, done = texts[name], []
        for _ in range(rng.choice((1, 1, 2, 3))):
            damage = rng.choice(DAMAGES)
            text = damage(text, rng, texts)
            done.append(damage.__name__)
        out.append((name, "+".join(done), text))
    return out


def strange(text: str, rng: random.Random, texts: dict[str, str]) -> str:
    """A strange piece is put in."""
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(STRANGE) + text[at:]


def number(text: str, rng: random.Random, texts: dict[str, str]) -> str:
    """A digit becomes a strange number."""
    places = [k for k, c in enumerate(text) if c.isascii() and c.isdigit()]
    if not places:
        return text + "1" * 4301
    at = rng.choice(places)
    return text[:at] + rng.choice(STRANGE[19:33]) + text[at + 1 :]


def flipped(text: str, rng: random.Random, texts: dict[str, str]) -> str:
    """A bit of a byte is turned over."""
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    at = rng.randrange(len(data) or 1)
    data[at : at + 1] = bytes([data[at] ^ (1 << rng.randrange(8))]) if data else b"x"
    return data.decode("utf-8", "replace")


def lost(text: str, rng: random.Random, texts: dict[str, str]) -> str:
    """A stretch is lost."""
    a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    return text[:a] + text[b:]


def ended(text: str, rng: random.Random, texts: dict[str, str]) -> str:
    """The file ends early."""
    return text[: rng.randrange(len(text) + 1)]


def repeated(text: str, rng: random.Random, texts: dict[str, str]) -> str:
    """A stretch stands many times."""
    a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    part = text[a : min(b, a + 60)]
    return text[:a] + part * rng.choice((2, 10, 300)) + text[a:]


def moved(text: str, rng: random.Random, texts: dict[str, str]) -> str:
    """Lines in another order."""
    lines = text.splitlines(keepends=True)
    rng.shuffle(lines)
    return "".join(lines)


def spliced(text: str, rng: random.Random, texts: dict[str, str]) -> str:
    """The end of another program stands behind the beginning of this one."""
    other = texts[rng.choice(sorted(texts))]
    return text[: rng.randrange(len(text) + 1)] + other[rng.randrange(len(other) + 1) :]


DAMAGES: tuple[Callable[[str, random.Random, dict[str, str]], str], ...] = (
    strange,
    strange,
    number,
    flipped,
    lost,
    ended,
    repeated,
    moved,
    spliced,
)


@dataclass
class Passed:
    """How a text came through; `failed` says what is wrong, empty where nothing is."""

    codes: tuple[str, ...] = ()
    seconds: float = 0.0
    slowest: str = ""
    failed: str = ""


def passed(name: str, text: str) -> Passed:
    """One text through every door, each within the time."""
    out = Passed()
    for door in DOORS:
        started = time.process_time()
        signal.signal(signal.SIGVTALRM, _too_long)
        signal.setitimer(signal.ITIMER_VIRTUAL, 4 * MOST_SECONDS)
        try:
            door(name, text, out)
        except GmlmError as error:
            rendered(error.diagnostics)
        except Exception as error:  # what must never be
            out.failed = out.failed or f"{door.__name__}: {type(error).__name__}: {error}"[:500]
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        seconds = time.process_time() - started
        if seconds > out.seconds:
            out.seconds, out.slowest = seconds, door.__name__
    return out


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError(f"more than {4 * MOST_SECONDS:g} s")


def checks(name: str, text: str, out: Passed) -> None:
    """`gmlm check` and `--json`."""
    found = said_of(text, f"{name}.gmlm")
    out.codes = tuple(d.code for d in found)
    rendered(found)
    json.dumps([d.as_dict() for d in found])


def loads(name: str, text: str, out: Passed) -> None:
    """`gm.load`: what needs the inputs."""
    program = checked(name, text)
    if program.models:
        rendered(check_bound(program, {})[0])
    load(program, inputs_of(name))


def mends(name: str, text: str, out: Passed) -> None:
    """`gmlm check --fix`: rounds of sure edits come to an end, and leave no more errors than there were.

    Where edits mend syntax, the statements that it hid are checked for the first time: then the errors of syntax are fewer.
    """
    path, before = f"{name}.gmlm", text
    for _ in range(MOST_ROUNDS):
        edits = sure_edits(said_of(text, path), path)
        if not edits:
            break
        text = apply_edits(text, edits)
    else:
        raise AssertionError("edits without end")
    if text != before:
        said = [[d.code for d in said_of(t, path) if d.severity == "error"] for t in (before, text)]
        errors, syntax = ([sum(c.startswith(kind) for c in codes) for codes in said] for kind in ("E", "E1"))
        assert errors[1] <= errors[0] or syntax[1] < syntax[0], f"{errors[0]} errors before --fix, {errors[1]} after"


def formats(name: str, text: str, out: Passed) -> None:
    """`gmlm format`: once is enough, and it says the same, but for old forms, which it writes anew."""
    once = format_source(text, name)
    assert format_source(once, name) == once, "formatted twice is another text"
    before, after = (Counter(d.code for d in said_of(t, name)) for t in (text, once))
    assert after.pop(OLD_FORM, 0) <= before.pop(OLD_FORM, 0)
    # A line with a syntax error gets no further faults, and the formatter gives each statement a line of its own.
    lines = [{"".join(line.split()) for line in t.splitlines()} for t in (once, text)]
    assert before == after or (lines[0] != lines[1] and not before - after), f"{before} before the formatter, {after} after"


def explains(name: str, text: str, out: Passed) -> None:
    """`gmlm explain` and `gmlm info`, without inputs."""
    program = checked(name, text)
    explain(program)
    explain(program, latex=True)
    json.dumps(describe(program, None, False))


def checked(name: str, text: str) -> Program:
    return check_source(Source(f"{name}.gmlm", text))


DOORS = (checks, loads, mends, formats, explains)


def texts_of(n: int, seed: int) -> list[tuple[str, str, str]]:
    """As many texts, a third of each kind."""
    return [*mutants(n // 3, seed), *mutants(n // 3, seed, wrong=True), *damaged(n - 2 * (n // 3), seed)]


def main() -> None:
    """`python tests/damaged_programs.py COUNT SEED [FROM]`."""
    n, seed, first = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0
    codes, taken, worst, bad, started = Counter[str](), 0, (0.0, "", ""), 0, time.process_time()
    for k, (name, kind, text) in enumerate(texts_of(n, seed)[first:], first):
        found = passed(name, text)
        codes.update(set(found.codes))
        taken += not found.codes
        worst = max(worst, (found.seconds, f"{name}, {kind}", found.slowest))
        if found.failed or found.seconds > MOST_SECONDS:
            bad += 1
            print(f"== {k} {found.failed or f'{found.seconds:.2f} s in {found.slowest}'} ({name}, {kind})\n{text[:3000]!r}\n", flush=True)
        if k % 1000 == 999:
            print(f"{k + 1:,} texts, {bad} bad, worst {worst}, {time.process_time() - started:.0f} s", flush=True)
    print(f"{n - first:,} texts, seed {seed}: {taken:,} without a word, {len(codes)} codes, {bad} bad; the slowest {worst}")


if __name__ == "__main__":
    main()
