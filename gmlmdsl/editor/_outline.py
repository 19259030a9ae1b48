"""The structure of a text: its outline, the kinds of its words, and the shapes of its arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .._diagnostics import Span
from ..explain import keyword_table
from ..program import forms
from ..syntax import KEYWORDS, RESERVED
from ._document import Document
from ._names import Declaration

# Kinds of words as the language server protocol names them, by the kind of the declaration.
WORD_KINDS = {
    **dict.fromkeys(("input", "length", "argument"), "parameter"),
    "domain": "enum",
    "index": "type",
    "graph": "class",
    "network": "class",
    **dict.fromkeys(("model", "use"), "namespace"),
    **dict.fromkeys(("mask", "sampler", "verifier", "value"), "method"),
    "function": "function",
    **dict.fromkeys(("var", "latent", "given"), "variable"),
    "param": "property",
    "let": "macro",
    **dict.fromkeys(("index name", "block"), "typeParameter"),
}
LEGEND = (*dict.fromkeys(WORD_KINDS.values()), "keyword", "number", "string", "comment", "decorator")
SIZED = ("var", "latent", "given", "param")
STRING = r'"(?:\\.|[^"\\\n])*"'  # the pattern of a text between quotation marks
WORDS = re.compile(rf"#[^\n]*|{STRING}|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[A-Za-z_]\w*")


@dataclass(frozen=True)
class Symbol:
    """An entry of the outline: a declaration, and those inside it."""

    name: str
    kind: str
    span: Span
    place: Span
    inside: tuple[Symbol, ...] = ()


def outline(document: Document) -> list[Symbol]:
    """Return the declarations of a text in their order; a model holds its own."""
    names, found = document.names, []
    for d in names.file.values():
        if not document.is_own(d.span) or d.kind == "length":
            continue
        inside = names.models.get(d.name, {}).values() if d.kind == "model" else ()
        found.append(Symbol(d.name, d.kind, d.statement.span, d.span, tuple(_leaf(i) for i in inside)))
    return sorted(found, key=lambda s: s.place.start)


def _leaf(d: Declaration) -> Symbol:
    return Symbol(d.name, d.kind, d.statement.span, d.span)


def word_kinds(document: Document) -> list[tuple[Span, str]]:
    """Return the words of a text with their kinds, in the order of the text."""
    known = {o.span.start: o for o in document.names.occurrences}
    keywords, calls = {*KEYWORDS, *RESERVED, *keyword_table()}, {f.name for f in forms.FORMS}
    found = []
    for m in WORDS.finditer(document.text):
        span = Span(document.source, m.start(), m.end())
        kind = _word_kind(m.group(), m.start() in known and WORD_KINDS[known[m.start()].declaration.kind], keywords, calls)
        if kind:
            found.append((span, kind))
    return found


def _word_kind(word: str, of_name: str | bool, keywords: set[str], calls: set[str]) -> str:
    if word[0] == "#":
        return "comment"
    if word[0] == '"':
        return "string"
    if word[0].isdigit():
        return "number"
    if of_name:
        return str(of_name)
    return "keyword" if word in keywords else "decorator" if word in calls else ""


def shapes(document: Document) -> Iterator[tuple[Span, str]]:
    """Yield the shape of each variable and parameter whose sizes are known, behind its axes.

    Sizes are known if the program has no error, and the inputs on which they depend have defaults.
    """
    for model in document.lowered:
        for d in document.names.models.get(model, {}).values():
            shape = size(document, d)[0] if document.is_own(d.span) else ()
            if shape:
                yield _behind(d), f"({', '.join(map(str, shape))})"


def size(document: Document, d: Declaration) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the shape of a variable or parameter, and its values or type; () for what is not known."""
    lowered = document.lowered.get(d.model) if d.kind in SIZED else None
    if lowered is None:
        return (), ()
    graph = lowered.graph
    cells = next((v for v in (*graph.variables, *graph.given) if v.name == d.name), None)
    if cells is not None:
        return cells.shape, tuple(map(str, cells.labels))
    for p in (p for p in graph.parameters if p.name == d.name):
        return p.shape, ({"bounded": f"{p.lower:g} to {p.upper:g}"}.get(p.kind, p.kind),)
    return (), ()


def _behind(d: Declaration) -> Span:
    """Return the place behind the name and its axes."""
    statement = d.statement
    also = getattr(statement, "also", ())
    axes = next((a.axes for a in also if a.name.span == d.span), getattr(statement, "axes", ()))
    end = axes[-1].span.end + 1 if axes else d.span.end
    return Span(d.span.source, end, end)
