"""What an editor shows of the word under the pointer: its declaration, formula, or meaning."""

from __future__ import annotations

import re

from .._diagnostics import GmlmError, Span
from ..explain import explain, meanings_of, parts_of_graphs
from ..program import Program
from ._completion import call_around, options_of
from ._document import Document
from ._names import Declaration
from ._outline import WORDS, size

MOST_LINES = 40  # of an explanation
MOST_VALUES = 12  # more values are abbreviated


def hover(document: Document, offset: int) -> tuple[str, Span] | None:
    """Return Markdown about the word at a place, and the place of the word; None for no word.

    For a name the text is its declaration. For a variable or parameter it also has the shape and
    the values, if these are known. For a mask or sampler it also has the formulas that are derived
    from it, if the program has no error. For a word of the language, an option or a part of a graph
    the text is its meaning.
    """
    found = document.names.at(offset)
    if found is not None:
        return _of_name(document, found.declaration), found.span
    for word in (m for m in WORDS.finditer(document.text) if m.start() <= offset <= m.end()):
        span = Span(document.source, word.start(), word.end())
        return ("\n\n---\n\n".join(parts), span) if (parts := _of_word(document, word)) else None
    return None


def _of_word(document: Document, at: re.Match[str]) -> list[str]:
    """Return the meanings of a word that is not a declared name."""
    word, before = at.group(), document.text[: at.start()]
    if before.endswith("."):
        return [f"**{word}: a part of a graph**\n\n{does}" for part, does in parts_of_graphs().items() if part == word]
    if re.match(r"\s*=(?!=)", document.text[at.end() :]) and (called := call_around(before)):
        found = (does for name, does, _ in options_of(called) if name == word)
        return [f"**{word}: an option of `{called}`**\n\n{does}" for does in found]
    parts = []
    for m in meanings_of(word):
        forms = "".join(f"\n```gmlm\n{form}\n```" for form in m.forms)
        options = "".join(f"\n- `{name}`: {text}" for name, text in m.options.items())
        parts.append(f"**{m.title}**\n\n{m.does}\n{forms}\n{options}".rstrip())
    return parts


def _of_name(document: Document, d: Declaration) -> str:
    where = f" of model `{d.model}`" if d.model else ""
    own = document.is_own(d.span)
    text = f"{d.kind}{where}{'' if own else f', from {d.span.source.path}'}\n```gmlm\n{d.text}\n```"
    shape, values = size(document, d)
    if len(values) > MOST_VALUES:
        values = (*values[:2], "..", values[-1])
    known = [f"shape ({', '.join(map(str, shape))})"] * bool(shape) + [f"values {', '.join(values)}"] * bool(values)
    text += f"\n{'; '.join(known)}" * bool(known)
    program = document.program if d.kind in ("mask", "sampler") else None
    formula = "" if program is None else _formula(program, d)
    return f"{text}\n```text\n{formula}\n```" if formula else text


def _formula(program: Program, d: Declaration) -> str:
    """Return what `gmlm explain` prints of a mask or sampler alone."""
    declared = (program.masks if d.kind == "mask" else program.samplers).get(d.name)
    if declared is None:
        return ""
    try:
        mask, sampler = (d.name if d.kind == kind else None for kind in ("mask", "sampler"))
        lines = explain(program, None, model=declared.model, mask=mask, sampler=sampler).splitlines()
    except GmlmError:
        return ""
    head = next((k + 1 for k, line in enumerate(lines) if line == f"{d.kind} {d.name}"), len(lines))
    end = next((k for k in range(head, len(lines)) if lines[k] and not lines[k].startswith(" ")), len(lines))
    return "\n".join(lines[head : min(end, head + MOST_LINES)]).rstrip()
