"""Two independent mistakes in two statements are both reported, whatever braces stand between them."""

from __future__ import annotations

import functools
import random

import pytest
from mutants import errors_of, programs, wrong_programs
from thinned import thinned

from gmlmdsl._diagnostics import Source, Span
from gmlmdsl.program._allow import _inside, _statements
from gmlmdsl.syntax import parse, parse_with_errors
from gmlmdsl.syntax._lex import Token, tokenize
from gmlmdsl.syntax._tables import load_tables

# Programs of names that are keywords elsewhere: there a keyword says less about where a statement opens.
TEXTS = {name: text for name, text in programs().items() if name not in ("keywords_as_names", "words_of_forms_as_names")}


def statements(text: str) -> list[Span]:
    """The statements of a program that hold no other, in order."""
    return [s.span for s in _statements(parse(text).statements) if not _inside(s)]


def damaged(text: str, span: Span, rng: random.Random) -> tuple[int, int, str] | None:
    """A stretch of a statement behind its first word, and what is written there instead: one token less, twice, or another."""
    inside: list[Token] = [t for t in tokenize(Source("", text), load_tables()).tokens[:-1] if span.start < t.start and t.end <= span.end]
    if not inside:
        return None
    token = rng.choice(inside)
    new = rng.choice(("", f"{token.text} {token.text}", f" {rng.choice(inside).text} "))
    return token.start, token.end, new


@functools.cache
def pairs(name: str, n: int) -> tuple[tuple[str, str, str, int], ...]:
    """Programs with the first mistake, with the second, with both, and where the second statement opens in the last."""
    text, rng = TEXTS[name], random.Random(f"two {name}")
    spans = statements(text)
    out: list[tuple[str, str, str, int]] = []
    for _ in range(n if len(spans) > 1 else 0):
        first, second = sorted(rng.sample(spans, 2), key=lambda s: s.start)
        one, two = damaged(text, first, rng), damaged(text, second, rng)
        if one is None or two is None or "\n" not in text[first.end : second.start]:
            continue
        (a, b, x), (c, d, y) = one, two
        both = text[:a] + x + text[b:c] + y + text[d:]
        out.append((text[:a] + x + text[b:], text[:c] + y + text[d:], both, second.start + len(x) - (b - a)))
    return tuple(out)


@pytest.mark.parametrize("name", thinned(TEXTS, 6))
def test_two_syntax_errors_are_both_reported(name: str) -> None:
    for one, two, both, opens in pairs(name, 12):
        if parse_with_errors(one)[1] and parse_with_errors(two)[1]:
            places = [d.span.start for d in parse_with_errors(both)[1] if d.span is not None]
            assert min(places) < opens <= max(places), both


@pytest.mark.slow
def test_there_are_hundreds_of_such_pairs() -> None:
    found = [(one, two) for name in TEXTS for one, two, _, _ in pairs(name, 12)]
    assert sum(bool(parse_with_errors(one)[1] and parse_with_errors(two)[1]) for one, two in found) > 250


def test_errors_of_names_in_two_models_a_mask_and_a_sampler_are_all_reported() -> None:
    text = """\
model a { var x : spin  factor hh * x }
model b {
  var y : spim
  factor 0.5 * z
}
mask m for a = subset(x, size = 1)
sampler s for a { cycle { update q } }
sampler t for a { update x[K] where K ~ }
"""
    assert [d.code for d in errors_of(text, "p.gmlm")] == ["E203", "E203", "E203", "E301", "E203", "E101"]


@pytest.mark.parametrize("name", thinned(wrong_programs(), 24))
def test_a_text_that_ends_anywhere_is_answered(name: str) -> None:
    """Mends look at what follows, and behind the last token there is nothing."""
    text = wrong_programs()[name]
    ends = [t.end for t in tokenize(Source("", text), load_tables()).tokens]
    for end in random.Random(f"cut {name}").sample(ends, min(12, len(ends))):
        parse_with_errors(text[:end])


@pytest.mark.parametrize(
    "text", ["model m { var a : bit require a == 0 =>", "network n = mlp() mask a = everything(x, noise = {mask: 0.8, ke"]
)
def test_texts_that_end_behind_a_sign(text: str) -> None:
    assert parse_with_errors(text)[1]
