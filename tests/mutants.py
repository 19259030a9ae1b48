"""Small changes of valid programs, drawn from a seed: what a slip of the hand makes of a program."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from gmlmdsl._diagnostics import Diagnostic, GmlmError, Source
from gmlmdsl.program import check_source
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


def programs() -> dict[str, str]:
    """The valid programs that stand alone."""
    found = {path.stem: path.read_text() for path in sorted(GOOD.glob("*.gmlm"))}
    return {name: text for name, text in found.items() if "import " not in text}


def mutants(n: int, seed: int) -> list[tuple[str, str, str]]:
    """Name of the program, name of the change, changed text; every kind of change equally often."""
    rng = random.Random(seed)
    texts = programs()
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
