"""Mend bodies as other languages write them.

Such a body is indented after a colon or after nothing, or it has no name before its brace. Each
public function returns an edit, or None if the statement has another fault.
"""

from __future__ import annotations

from .._diagnostics import Diagnostic, Fix, Span
from ._fault import Edit, Fault, column
from ._lex import closing
from ._words import FILE_WORDS, MASK_WORDS, MODEL_WORDS, SAMPLER_WORDS

Faults = dict[int, Diagnostic]
WORDS = {"model": MODEL_WORDS, "sampler": SAMPLER_WORDS, "mask": MASK_WORDS, "cycle": SAMPLER_WORDS, "repeat": SAMPLER_WORDS}
OPENS = (":", "begin", "do", "is")
ENDS = ("end", "endmodel")
NAMELESS = {"model": "m", "sampler": "s"}


def body_without_braces(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `model m` or `model m:` with a body below it by inserting the braces.

    Faults inside the body are reported as usual. The body consists of the indented lines. If no
    line is indented, it consists of the statements that only such a body contains.
    """
    tokens, at = fault.tokens, fault.at
    if "{" not in fault.expected or not fault.token.text:
        return None
    first, colon = tokens[_line_of(fault, at - 1)], fault.token.text in OPENS
    opens = at + colon
    if first.text not in WORDS or opens >= len(tokens) or not tokens[opens].opens_line:
        return None
    margin = column(fault, first)
    flat = column(fault, tokens[opens]) <= margin
    lines = [k for k in range(opens, len(tokens)) if tokens[k].opens_line or not tokens[k].text]
    outside = frozenset(FILE_WORDS) - frozenset(WORDS[first.text])
    end = next(k for k in lines if not tokens[k].text or (tokens[k].text in outside if flat else column(fault, tokens[k]) <= margin))
    if end == opens or not _is_inside(fault, opens, WORDS[first.text]):
        return None
    ended = next((k for k in (end - 1, end) if tokens[k].text in ENDS), None)
    inside = tuple(tokens[opens : end if ended is None else ended])
    if not inside:
        return None
    header = fault.source.text[first.start : tokens[at - 1].end]
    span = Span(fault.source, tokens[at - 1].end, tokens[end - 1 if ended is None else ended].end)
    body = fault.source.text[tokens[opens - 1].end : inside[-1].end]
    fix = Fix(span, f" {{{body}\n{' ' * (margin - 1)}}}")
    sign = "a colon" if fault.token.text == ":" else f"`{fault.token.text}`"
    message = f"a body stands between braces, not behind {sign}" if colon else f"expected `{{` after `{tokens[at - 1].text}`"
    place, label = (fault.token, "") if colon else (tokens[at - 1], "the line ends here")
    diagnostic = Diagnostic("E101", message, fault.span(place), label, help=f"write `{header} {{ .. }}`", fix=fix)
    made = (fault.make("{", fault.token), *inside, fault.make("}", inside[-1])._replace(opens_line=False))
    stop = end if ended is None else max(end, ended + 1)
    # The edit is accepted where the body begins. Faults inside the body are reported separately.
    return Edit(at, stop, made, diagnostic, far=-len(inside))


def _is_inside(fault: Fault, at: int, words: tuple[str, ...]) -> bool:
    """Return whether a statement of a body begins at a token.

    After a colon, `begin`, `do` or `is`, every statement counts. Otherwise the statement needs a
    keyword of the body, or a name before `~` or `[`.
    """
    token = fault.tokens[at]
    return fault.token.text in OPENS or token.text in words or fault.tokens[at + 1].text in ("~", "[")


def _line_of(fault: Fault, at: int) -> int:
    """Return the first token of the line that contains a token."""
    return next((k for k in range(at, 0, -1) if fault.tokens[k].opens_line), 0)


def behind_a_name(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `model m() {`, `model m(n) {` and `sampler s = { update x }`.

    The brace directly follows the name.
    """
    tokens, at, word = fault.tokens, fault.at, fault.tokens[fault.start].text
    if fault.token.text == "{" and tokens[at - 1].text == "=" and word in WORDS and tokens[at + 1].text in WORDS[word]:
        span = fault.span(tokens[at - 1])
        fix = Fix(Span(fault.source, tokens[at - 2].end, fault.token.start), " ")
        diagnostic = Diagnostic("E101", "no `=` stands before a body", span, help=f"write `{word} {tokens[at - 2].text} {{ .. }}`", fix=fix)
        return Edit(at - 1, at, (), diagnostic, far=1)
    if word not in NAMELESS or at != fault.start + 2 or fault.token.text not in ("(", "=", ":"):
        return None
    end = (closing(tokens, at) or at) + 1 if fault.token.text == "(" else at + 1
    if tokens[end].text != "{":
        return None
    span = fault.span(fault.token).to(fault.span(tokens[end - 1]))
    header = f"{word} {tokens[at - 1].text}"
    help_ = f"write `{header} {{ .. }}`"
    if end > at + 2:
        help_ += "; what a program needs from outside is an input above it: `input n : int`"
    what = f"a {word} takes no arguments" if fault.token.text == "(" else f"no `{fault.token.text}` stands before a body"
    fix = Fix(Span(fault.source, tokens[at - 1].end, tokens[end].start), " ", guess=end > at + 2)
    return Edit(at, end, (), Diagnostic("E101", what, span, help=help_, fix=fix), far=1)


def name_left_out(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `model { .. }` and `sampler { .. }` by inserting a name.

    In `model { m` the name follows the brace, and is moved before it.
    """
    tokens, at = fault.tokens, fault.at
    word = tokens[fault.start].text
    if word not in NAMELESS or fault.token.text != "{" or at != fault.start + 1:
        return None
    span = fault.span(fault.token)
    message, help_ = f"expected the name of the {word} after `{word}`", f"a {word} has a name: `{word} name {{ .. }}`"
    behind = tokens[at + 1]
    if "NAME" in behind.terminals and not behind.opens_line and tokens[at + 2].opens_line:
        fix = Fix(span.to(fault.span(behind)), f"{behind.text} {{")
        diagnostic = Diagnostic("E101", message, span, "found `{`", help=f"write `{word} {behind.text} {{`", fix=fix)
        return Edit(at, at + 2, (behind, fault.token), diagnostic, far=1)
    taken = {t.text for t in tokens}
    name = next(n for n in (f"{NAMELESS[word]}{k or ''}" for k in range(len(taken) + 2)) if n not in taken)
    fix = Fix(Span(fault.source, span.start, span.start), f"{name} ", guess=True)
    made = fault.token._replace(terminals=("NAME",), text=name, opens_line=False)
    return Edit(at, at, (made,), Diagnostic("E101", message, span, "found `{`", help=help_, fix=fix), far=1)
