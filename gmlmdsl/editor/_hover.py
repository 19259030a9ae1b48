"""What an editor shows of the word under the pointer: its declaration, formula, or meaning."""

from __future__ import annotations

import re

from .._diagnostics import GmlmError, Span
from ..explain import explain, meanings_of
from ..program import Program
from ._document import Document
from ._names import Declaration
from ._outline import size

MOST_LINES = 40  # of an explanation
MOST_VALUES = 12  # more values are abbreviated
WORD = re.compile(r"[A-Za-z_]\w*")


def hover(document: Document, offset: int) -> tuple[str, Span] | None:
    """Return Markdown about the word at a place, and the place of the word; None for no word.

    For a name the text is its declaration. For a variable or parameter it also has the shape and
    the values, if these are known. For a mask or sampler it also has the formulas that are derived
    from it, if the program has no error. For a word of the language the text is its meaning.
    """
    found = document.names.at(offset)
    if found is not None:
        return _of_name(document, found.declaration), found.span
    word = next((m for m in WORD.finditer(document.text) if m.start() <= offset <= m.end()), None)
    meanings = meanings_of(word.group()) if word is not None else []
    if word is None or not meanings:
        return None
    parts = []
    for m in meanings:
        forms = "".join(f"\n```gmlm\n{form}\n```" for form in m.forms)
        options = "".join(f"\n- `{name}`: {text}" for name, text in m.options.items())
        parts.append(f"**{m.title}**\n\n{m.does}\n{forms}\n{options}".rstrip())
    return "\n\n---\n\n".join(parts), Span(document.source, word.start(), word.end())


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
