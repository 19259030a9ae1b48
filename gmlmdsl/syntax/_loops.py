"""Mend loops as other languages write them: counted from 1, in parentheses, or in a list.

Each rule returns an edit that describes the syntax of this language, or None if it does not apply.
"""

from __future__ import annotations

import re

from .._diagnostics import Diagnostic, Fix, Span
from ._fault import Edit, Fault
from ._lex import Token, closing
from ._notations import cut, text_of
from .limits import MOST_DIGITS

Faults = dict[int, Diagnostic]
RANGE_WORDS = ("to", ":", "..")
BINDS = ("in", "=", "from")
# the number of names -> the members of parts of graphs
MEMBERS = {2: r"\w+ *, *\w+ +in +\w+\.(edges|arcs)\b", 3: r"\w+ *, *\w+ *, *\w+ +in +\w+\.triangles\b"}


def counted_range(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `for i = 1 to 4`, `for i in 1:4` and `for i in 0..3`."""
    tokens, at = fault.tokens, fault.at
    k = next((k for k in range(at, max(fault.start + 1, at - 3), -1) if tokens[k].text in BINDS), None)
    if k is None or "NAME" not in tokens[k - 1].terminals or tokens[k - 2].text not in ("for", "[", ",") or tokens[k + 1].opens_line:
        return None
    found = counted(fault, k + 1)
    if found is None:
        return None
    written, end = found
    size = "".join(t.text for t in written[2:-1])
    name, last = tokens[k - 1].text, _last(size)
    span = fault.span(tokens[k - 1]).to(fault.span(tokens[end - 1]))
    text = f"{name} in range({' + '.join(size.split('+'))})"
    fix, told = Fix(span, text, guess=True), f"write `{text}`: {name} is 0 to {last}"
    diagnostic = Diagnostic("E107", "indices are counted from 0, over a range", span, help=told, fix=fix)
    return Edit(k, end, (fault.make("in", tokens[k]), *written), diagnostic, far=1)


def _last(size: str) -> str:
    """Return the last member of a range of this size."""
    return str(int(size) - 1) if size.isdigit() and len(size) <= MOST_DIGITS else f"{cut(size)} - 1".removesuffix("+1 - 1")


def counted(fault: Fault, start: int) -> tuple[tuple[Token, ...], int] | None:
    """Return `range(n)` for a range from 0 or 1 in other languages, and the token after it.

    The result is None if there is no such range at token `start`.
    """
    tokens, bounds = fault.tokens, _bounds(fault, start)
    if bounds is None or bounds[0] not in ("0", "1"):
        return None
    low, high, end = bounds
    like = tokens[start]
    number = like._replace(terminals=("NUMBER",), opens_line=False)
    if high.isdigit() and len(high) <= MOST_DIGITS:
        size = (number._replace(text=str(int(high) + (low == "0"))),)
    else:
        size = (tokens[end - 1], *((fault.make("+", like), number._replace(text="1")) if low == "0" else ()))
    return (like._replace(terminals=("NAME",), text="range"), fault.make("(", like), *size, fault.make(")", like)), end


def _bounds(fault: Fault, start: int) -> tuple[str, str, int] | None:
    """Return the first and the last number of a range in other languages, and the token after it.

    The result is None if there is no such range.
    """
    tokens = fault.tokens
    whole = re.fullmatch(r"([0-9]+)\.\.([0-9]+)", tokens[start].text)
    if whole:
        return whole[1], whole[2], start + 1
    if start + 2 >= len(tokens) or tokens[start].terminals != ("NUMBER",):
        return None
    middle = next((n for n in (1, 2) if _joined(fault, start + 1, n) in RANGE_WORDS), None)
    if middle is None or start + 1 + middle >= len(tokens):
        return None
    high = tokens[start + 1 + middle]
    if high.opens_line or not {"NAME", "NUMBER"} & set(high.terminals):
        return None
    return tokens[start].text, high.text, start + 2 + middle


def _joined(fault: Fault, start: int, n: int) -> str:
    return fault.source.text[fault.tokens[start].start : fault.tokens[start + n - 1].end]


def word_behind_for(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `for all i in site` and `for each i in site`."""
    word = fault.previous
    if (
        word is None
        or word.text not in ("all", "each", "every")
        or fault.tokens[fault.at - 2].text != "for"
        or "NAME" not in fault.token.terminals
    ):
        return None
    span = Span(fault.source, word.start, fault.token.start)
    diagnostic = Diagnostic(
        "E107",
        f"`for` takes the name of an index, not `{word.text}`",
        fault.span(word),
        "",
        help=f"write `for {fault.token.text} in ..`",
        fix=Fix(span, ""),
    )
    return Edit(fault.at - 1, fault.at, (), diagnostic, far=1)


def loop_in_brackets(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `for (i in site)`."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "in" or at < 3 or tokens[at - 2].text != "(" or tokens[at - 3].text != "for":
        return None
    close = closing(tokens, at - 2)
    if close is None or close <= at:  # A bracket of another kind closes before the loop.
        return None
    span = fault.span(tokens[at - 2]).to(fault.span(tokens[close]))
    text = text_of(fault, tokens[at - 1 : close])
    diagnostic = Diagnostic("E107", "a loop has no parentheses", span, "", help=f"write `for {cut(text)}`", fix=Fix(span, text))
    return Edit(at - 2, close + 1, tuple(tokens[at - 1 : close]), diagnostic, far=0)


def comprehension(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `sum([x[i] for i in site])`, a list comprehension of Python."""
    tokens, opened = fault.tokens, fault.open_brackets()
    if fault.token.text != "for" or not opened or tokens[opened[-1]].text != "[" or tokens[opened[-1] - 1].text != "(":
        return None
    close = closing(tokens, opened[-1])
    if close is None or tokens[close + 1].text != ")":
        return None
    span = fault.span(tokens[opened[-1]]).to(fault.span(tokens[close]))
    inside = tokens[opened[-1] + 1 : close]
    text = text_of(fault, inside)
    diagnostic = Diagnostic(
        "E107", "a loop stands in no list", span, "", help=f"write `{cut(text)}` without the brackets", fix=Fix(span, text)
    )
    return Edit(opened[-1], close + 1, tuple(inside), diagnostic, far=1)


def bare_pair(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `for i, j in G.edges`."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "," or at < 2 or tokens[at - 2].text != "for" or "in" not in fault.expected:
        return None
    text = fault.source.text[tokens[at - 1].start :]
    found = next((n for n, pattern in MEMBERS.items() if re.match(pattern, text)), 0)
    if not found:
        return None
    end = at + 2 * found - 2
    span = fault.span(tokens[at - 1]).to(fault.span(tokens[end - 1]))
    text, like = f"({span.text})", tokens[at - 1]
    what = "a pair stands" if found == 2 else "three names stand"
    diagnostic = Diagnostic("E107", f"{what} in parentheses", span, "", help=f"write `for {text}`", fix=Fix(span, text))
    return Edit(at - 1, end, (fault.make("(", like), *tokens[at - 1 : end], fault.make(")", like)), diagnostic, far=1)


def loop_of_a_repeat(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `repeat for s in range(3) { .. }`."""
    if fault.token.text != "for" or fault.previous is None or fault.previous.text != "repeat" or fault.level != "sampler_statement":
        return None
    after = fault.tokens[fault.at + 1]
    span = Span(fault.source, fault.token.start, after.start)
    help_ = f"write `repeat {after.text} in ..`"
    diagnostic = Diagnostic("E107", "`repeat` takes its index without `for`", fault.span(fault.token), "", help=help_, fix=Fix(span, ""))
    return Edit(fault.at, fault.at + 1, (), diagnostic, far=1)


LOOPS = (counted_range, word_behind_for, loop_in_brackets, comprehension, bare_pair, loop_of_a_repeat)
