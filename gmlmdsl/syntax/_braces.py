"""Mend unbalanced braces.

The search finds the one edit after which the rest can be parsed, and only this edit is reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from .._diagnostics import Diagnostic, Fix, Span
from ._fault import Edit, Fault, restart
from ._lex import Token
from ._machine import run
from ._words import STATEMENT_WORDS
from .limits import LEAST_GAIN, MOST_TOKENS


def excess(tokens: Sequence[Token]) -> int:
    """Return the number of opening braces minus the number of closing braces."""
    return sum((t.text == "{") - (t.text == "}") for t in tokens)


def mend_braces(fault: Fault) -> Edit | None:
    """Return the edit of one brace after which the parser continues furthest.

    The result is None if no edit helps.
    """
    if len(fault.tokens) > MOST_TOKENS:
        return None
    best, far, open_ = None, float(fault.at + LEAST_GAIN), excess(fault.tokens)
    for edit in _candidates(fault, open_):
        if open_ - excess(fault.tokens[edit.start : edit.end]) + excess(edit.tokens):
            continue
        tokens = edit.applied(fault.tokens)
        stop = run(fault.tables, fault.source, tokens, *restart(fault, edit))
        reached = math.inf if stop is None else stop.at
        if reached > far:
            best, far = edit, reached
    return best


def _candidates(fault: Fault, open_: int) -> Iterator[Edit]:
    at, tokens = fault.at, fault.tokens
    if open_ > 0:
        yield _insert(fault, at, "}")
        for k in (at, at - 1):
            if 0 <= k < len(tokens) - 1 and tokens[k].text == "{":
                yield _remove(fault, k)
        for k in (at, at - 1):
            if 0 <= k < len(tokens) - 1:
                yield _replace(fault, k, "}")
    else:
        yield _insert(fault, at, "{")
        for k in (at, at - 1):
            if 0 <= k < len(tokens) - 1 and tokens[k].text != "}":
                yield _replace(fault, k, "{")
        closers = [k for k in range(min(at, len(tokens) - 1), -1, -1) if tokens[k].text == "}"]
        for k in closers[:8]:
            yield _remove(fault, k)


def _insert(fault: Fault, at: int, brace: str) -> Edit:
    token = fault.tokens[at]
    before = fault.tokens[at - 1] if at else token
    mark = Token(fault.make(brace, token).terminals, brace, before.end, before.end)
    if brace == "{":
        message = f"expected `{{` after `{before.text}`"
        diagnostic = Diagnostic("E109", message, fault.span(before), "`{` belongs after this")
        return Edit(at, at, (mark,), diagnostic)
    span = fault.span(before)
    place = Span(fault.source, before.end, before.end)
    return Edit(at, at, (mark,), unclosed_brace(fault, span, Fix(place, "\n}")))


def unclosed_brace(fault: Fault, span: Span, fix: Fix | None = None) -> Diagnostic:
    """Return the error for a missing `}`, with the place of the brace that it would close.

    For nested bodies the fix is a guess, because the statements of the inner bodies are unknown.
    """
    opened = [k for k in fault.open_brackets() if fault.tokens[k].text == "{"]
    if not opened:
        return Diagnostic("E102", "expected `}`", span, "`}` belongs after this")
    what = _opened_by(fault.tokens, opened[-1])
    related = ((fault.span(fault.tokens[opened[-1]]), "opened here"),)
    within = (k for k in range(opened[-1] + 1, fault.at) if fault.tokens[k].text == "{")
    inner = any(_opened_by(fault.tokens, k) != "block" for k in within)
    return Diagnostic(
        "E102",
        f"expected `}}` to close the {what} opened here",
        span,
        "`}` belongs after this",
        related,
        fix=fix and replace(fix, guess=len(opened) > 1 or inner),
    )


def _opened_by(tokens: list[Token], brace: int) -> str:
    """Return a description of the construct that a brace belongs to.

    It is the nearest preceding keyword that opens a body.
    """
    for k in range(brace - 1, max(-1, brace - 12), -1):
        if tokens[k].text in ("model", "mask", "sampler", "mixture", "cycle", "repeat", "temper"):
            return f"{tokens[k].text} `{tokens[k + 1].text}`" if tokens[k].text in ("model", "mask", "sampler") else f"`{tokens[k].text}`"
        if tokens[k].text in STATEMENT_WORDS or tokens[k].text in ("{", "}"):
            break
    return "block"


def _remove(fault: Fault, at: int) -> Edit:
    token = fault.tokens[at]
    message = "`}` closes nothing" if token.text == "}" else "`{` opens nothing here"
    # After the removal of the brace, a line of the text may be empty. Nothing else changes.
    return Edit(at, at + 1, (), Diagnostic("E103", message, fault.span(token), "one too many", help=f"remove the `{token.text}`"))


def _replace(fault: Fault, at: int, brace: str) -> Edit:
    token = fault.tokens[at]
    message = f"expected `{brace}`, found `{token.text}`"
    return Edit(at, at + 1, (fault.make(brace, token),), Diagnostic("E101", message, fault.span(token), f"`{brace}` belongs here"))
