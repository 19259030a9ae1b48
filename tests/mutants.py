"""Small changes of valid programs, drawn from a seed: what a slip of the hand makes of a program."""

from __future__ import annotations

import functools
import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from gmlmdsl._diagnostics import Diagnostic, GmlmError, Source
from gmlmdsl.graph import bind
from gmlmdsl.graph._lowered import lower_model
from gmlmdsl.masks import lower_mask
from gmlmdsl.plan import check_bound, plan_temper
from gmlmdsl.program import Program, check_source, ir
from gmlmdsl.syntax._lex import Token, tokenize
from gmlmdsl.syntax._tables import load_tables

GOOD = Path(__file__).parent / "programs" / "good"
DECLARES = {"input", "domain", "index", "graph", "network", "model", "mask", "sampler", "var", "latent", "given", "param", "let"}
RESERVED = {"and", "or", "not", "if", "then", "else", "for", "in", "true", "false"}
FORMS = {"import", "factor", "require", "gauge", "conditional", "choose", "each", "weight", "rate", "update", "where", "independently"}

Mutation = Callable[[str, list[Token], random.Random], str | None]


def cut(text: str, start: int, end: int, new: str = "") -> str:
    """`text` with a stretch replaced."""
    return text[:start] + new + text[end:]


def delete(text: str, tokens: list[Token], rng: random.Random) -> str | None:
    """Delete a token."""
    t = rng.choice(tokens)
    return cut(text, t.start, t.end)


def duplicate(text: str, tokens: list[Token], rng: random.Random) -> str | None:
    """Write a token twice."""
    t = rng.choice(tokens)
    return cut(text, t.end, t.end, f" {t.text}")


def substitute(text: str, tokens: list[Token], rng: random.Random) -> str | None:
    """Replace a token by another one of the program."""
    t, other = rng.choice(tokens), rng.choice(tokens)
    return None if t.text == other.text else cut(text, t.start, t.end, f" {other.text} ")


def swap(text: str, tokens: list[Token], rng: random.Random) -> str | None:
    """Exchange two neighbours."""
    k = rng.randrange(len(tokens) - 1)
    a, b = tokens[k], tokens[k + 1]
    return None if a.text == b.text else cut(text, a.start, b.end, f"{b.text}{text[a.end : b.start] or ' '}{a.text}")


def is_word(t: Token) -> bool:
    """Whether a token is a name and no keyword of a form."""
    return t.text.isidentifier() and t.text not in DECLARES | RESERVED | FORMS


def rename_declaration(text: str, tokens: list[Token], rng: random.Random) -> str | None:
    """Misspell a name where it is declared."""
    places = [b for a, b in pairwise(tokens) if a.text in DECLARES and is_word(b)]
    return misspell(text, rng.choice(places), rng) if places else None


def rename_use(text: str, tokens: list[Token], rng: random.Random) -> str | None:
    """Misspell a name at one place where it is used."""
    places = [b for a, b in pairwise(tokens) if a.text not in DECLARES and is_word(b)]
    return misspell(text, rng.choice(places), rng) if places else None


def misspell(text: str, t: Token, rng: random.Random) -> str:
    """A name with a letter more, or one less."""
    new = t.text[:-1] if len(t.text) > 3 and rng.random() < 0.5 else t.text + rng.choice("qz2_")
    return cut(text, t.start, t.end, new)


def change_number(text: str, tokens: list[Token], rng: random.Random) -> str | None:
    """Write another number."""
    places = [t for t in tokens if t.text[0].isdigit()]
    if not places:
        return None
    t = rng.choice(places)
    return cut(text, t.start, t.end, rng.choice(["0", "1", "2", "17", "0.5", "-1", "1.5", "3e2"]))


def drop_line(text: str, tokens: list[Token], rng: random.Random) -> str | None:
    """Drop a line that is more than a comment."""
    lines = text.splitlines(keepends=True)
    places = [k for k, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")]
    lines.pop(rng.choice(places))
    return "".join(lines)


MUTATIONS: tuple[Mutation, ...] = (delete, duplicate, substitute, swap, rename_declaration, rename_use, change_number, drop_line)


@functools.cache
def programs() -> dict[str, str]:
    """The valid programs that stand alone."""
    found = {path.stem: path.read_text() for path in sorted(GOOD.glob("*.gmlm"))}
    return {name: text for name, text in found.items() if "import " not in text}


@functools.cache
def wrong_programs() -> dict[str, str]:
    """The invalid programs: recovery from a mistake meets another one in their mutants."""
    paths = [path for folder in ("bad", "habits") for path in sorted((GOOD.parent / folder).glob("*.gmlm"))]
    return {path.stem: text for path in paths if "import " not in (text := path.read_text())}


def mutants(n: int, seed: int, wrong: bool = False) -> list[tuple[str, str, str]]:
    """Name of the program, name of the change, changed text; every kind of change equally often."""
    rng = random.Random(seed)
    texts = wrong_programs() if wrong else programs()
    tokens = {name: tokenize(Source(name, text), load_tables()).tokens[:-1] for name, text in texts.items()}
    out: list[tuple[str, str, str]] = []
    while len(out) < n:
        mutate = MUTATIONS[len(out) % len(MUTATIONS)]
        name = rng.choice(sorted(texts))
        text = mutate(texts[name], tokens[name], rng)
        if text is not None and text != texts[name]:
            out.append((name, mutate.__name__, text))
    return out


def said_of(text: str, path: str) -> tuple[Diagnostic, ...]:
    """What is said of a program; its warnings where it is valid."""
    try:
        return check_source(Source(path, text)).warnings
    except GmlmError as error:
        return error.diagnostics


def errors_of(text: str, path: str) -> tuple[Diagnostic, ...]:
    """The errors of a program."""
    return tuple(d for d in said_of(text, path) if d.severity == "error")


@functools.cache
def invalid_mutants(name: str, text: str, n: int, seed: int) -> list[tuple[str, str]]:
    """`n` different changes of one program that make it invalid, every kind of change in turn."""
    rng = random.Random(f"{name} {seed}")
    tokens = tokenize(Source(name, text), load_tables()).tokens[:-1]
    out: list[tuple[str, str]] = []
    for k in range(40 * n):
        mutate = MUTATIONS[k % len(MUTATIONS)]
        changed = mutate(text, tokens, rng)
        if changed is not None and changed not in [t for _, t in out] and errors_of(changed, f"{name}.gmlm"):
            out.append((mutate.__name__, changed))
        if len(out) == n:
            break
    return out


MOST_SECONDS = 2.0  # of processor time, for one mutant: what the checker and the binder may take for a program of a page


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: `failed` is an error that is none of the language's, empty where there is none."""

    name: str
    kind: str
    text: str
    codes: tuple[str, ...]
    seconds: float
    failed: str


def outcome(name: str, kind: str, text: str) -> Outcome:
    """Check a mutant as `gmlm check` does, bind it with the inputs of the program it is made of, and lower its models, masks and ladders."""
    started, codes, failed = time.process_time(), (), ""
    signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, 4 * MOST_SECONDS)  # what goes on for ever ends, too
    try:
        program = check_source(Source(f"{name}.gmlm", text))
        for d in (*program.warnings, *(check_bound(program, {})[0] if program.models else ())):
            d.render()
        load(program, inputs_of(name))
    except GmlmError as error:
        codes = error.codes
        for d in error.diagnostics:
            d.render()
    except Exception as error:  # what must never be
        failed = f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return Outcome(name, kind, text, codes, time.process_time() - started, failed)


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError(f"more than {4 * MOST_SECONDS:g} s")


def load(program: Program, inputs: dict[str, object]) -> None:
    """What needs the inputs: shapes, graphs, indices, the values of factors, the blocks and weights of masks, the ladders of samplers."""
    bound = bind(program, inputs)
    program = bound.program  # loops that need inputs are written out
    for name in program.models:
        lowered = lower_model(bound, name)
        for mask in (m for m in program.masks.values() if m.model == name and not m.body.has_least_confident):
            lower_mask(lowered, mask)
        bodies = [s.body for s in program.samplers.values() if s.model == name and isinstance(s.body, tuple)]
        for kernel in (k for body in bodies for k in ir.kernels_in(body)):
            if isinstance(kernel, ir.Temper):
                plan_temper(lowered, kernel)


def inputs_of(name: str) -> dict[str, object]:
    """Small inputs for a program, which its first line says."""
    first = {**wrong_programs(), **programs()}.get(name, "").split("\n", 1)[0]
    return json.loads(first.removeprefix("# inputs:")) if first.startswith("# inputs:") else INPUTS.get(name, {})


# Inputs of the contract's programs; the others say theirs on the first line.
INPUTS: dict[str, dict[str, object]] = {
    "potts": {"n_sites": 3, "pairs": [[0, 1], [2, 1]]},
    "tables": {"U": [0.0, 0.5, 1.0], "T": [[[0.1] * 4] * 3] * 2, "P": [[1.0, 2.0], [0.5, 1.5]]},
}


def main() -> None:
    """`python tests/mutants.py 50000 15`: that many mutants through `check` and loading, from that seed; a summary.

    Of valid programs, or with a third word `wrong` of invalid ones.
    """
    n, seed, wrong = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] == ["wrong"]
    started, refused, taken, worst = time.process_time(), Counter[str](), 0, []
    for name, kind, text in mutants(n, seed, wrong):
        found = outcome(name, kind, text)
        taken += not (found.codes or found.failed)
        refused.update(found.codes[:1])
        worst = sorted([*worst, (found.seconds, name, kind)])[-3:]
        if found.failed or found.seconds > MOST_SECONDS:
            print(f"== {found.failed or f'{found.seconds:.2f} s'} ({name}, {kind})\n{text}\n", flush=True)
    print(f"{n:,} mutants, seed {seed}: {taken:,} taken, {sum(refused.values()):,} refused by {len(refused)} codes", end="; ")
    print(f"{time.process_time() - started:.0f} s of processor time, the slowest {worst[-1][0]:.2f} s ({worst[-1][1]}, {worst[-1][2]})")


if __name__ == "__main__":
    main()
