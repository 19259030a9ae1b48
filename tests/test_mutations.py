"""One mistake gives one error: small changes of valid programs, each checked."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from gmlmdsl._diagnostics import GmlmError, Source
from gmlmdsl.program import check_source
from gmlmdsl.syntax._lex import Token, tokenize
from gmlmdsl.syntax._tables import load_tables

GOOD = Path(__file__).parent / "programs" / "good"
N_MUTATIONS = 500
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


def faults(text: str, name: str) -> GmlmError | None:
    """What the checker says of a text; None where it is valid."""
    try:
        check_source(Source(f"{name}.gmlm", text))
    except GmlmError as error:
        return error
    return None


@pytest.fixture(scope="module")
def checked() -> list[tuple[str, GmlmError | None]]:
    """The kind of change and the outcome of every mutant; anything but a `GmlmError` fails here."""
    return [(kind, faults(text, name)) for name, kind, text in mutants(N_MUTATIONS, seed=2024)]


def test_one_mistake_gives_one_error(checked: list[tuple[str, GmlmError | None]]) -> None:
    counts = [len(error.diagnostics) for _, error in checked if error is not None]
    assert len(counts) > N_MUTATIONS // 2
    assert sum(c == 1 for c in counts) / len(counts) >= 0.9


def test_no_kind_of_mistake_is_much_worse_than_the_others(checked: list[tuple[str, GmlmError | None]]) -> None:
    invalid = Counter(kind for kind, error in checked if error is not None)
    single = Counter(kind for kind, error in checked if error is not None and len(error.diagnostics) == 1)
    assert {kind: single[kind] / n for kind, n in invalid.items() if single[kind] / n < 0.75} == {}


def test_every_error_of_a_mutant_has_a_place(checked: list[tuple[str, GmlmError | None]]) -> None:
    for _, error in checked:
        for d in error.diagnostics if error is not None else ():
            assert d.span is not None and d.message and not d.message.endswith(".")
