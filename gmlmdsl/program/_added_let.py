"""Expressions over the configurations of a model that its text does not have."""

from __future__ import annotations

from pathlib import Path

from .._diagnostics import Diagnostic, GmlmError, Source, Span
from ._check import check_file, check_source
from ._program import Let, Program

NAME = "observed"


def added_let(program: Program, model: str, expression: str) -> Let:
    """Return an expression as a `let` without axes at the end of a model.

    The file of the model is checked again with the `let` in it.

    Args:
        program: the checked program.
        model: the name of the model.
        expression: an expression of the language, such as `sum(x[i] for i in site)`.

    Raises:
        GmlmError: the faults of the expression, each at its place in it.
    """
    span = program.models[model].span
    source, end = span.source, span.end - 1
    name = NAME
    while name in source.text:
        name += "_"
    before = f"{source.text[:end]}\n  let {name} = "
    text = f"{before}{expression}\n{source.text[end:]}"
    try:
        found = check_file(source.path, text) if Path(source.path).is_file() else check_source(Source(source.path, text))
    except GmlmError as error:
        raise GmlmError([_within(d, expression, len(before)) for d in error.diagnostics]) from None
    return found.models[model].lets[name]


def _within(d: Diagnostic, expression: str, start: int) -> Diagnostic:
    """Return a diagnostic at its place in the expression, as the text of a file of its own."""
    if d.span is None:
        return d
    first, last = (min(max(0, at - start), len(expression)) for at in (d.span.start, d.span.end))
    return Diagnostic(d.code, d.message, Span(Source("<observe>", expression), first, max(first, last)), d.label, (), d.help)
