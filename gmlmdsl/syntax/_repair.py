"""Propose edits that certainly mend a broken statement, each with its error.

Each rule returns an edit, or None if it does not apply. The first edit that works is reported.

For unbalanced braces, the edit is the only one after which the rest can be parsed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from .._diagnostics import Diagnostic, Fix, Span, did_you_mean
from ._fault import Edit, Fault, depth_of, opens_statement, restart
from ._habits import MENDS, is_drawn, named_term
from ._lex import CLOSING, OPENING, QUOTES, Token, closing, short
from ._loops import LOOPS, loop_in_front
from ._machine import run
from ._notations import MAPS, NOTATIONS, loop_in_a_list, text_of
from ._words import LEVELS, STATEMENT_WORDS, slips
from .limits import LEAST_GAIN, MOST_TOKENS

COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
# These words and operators carry no information of their own. If only one of them is missing, it
# can be inserted.
MISSING = ("then", "else", "in", "weight", "rate", "where", "=", "~", ":")
AFTER_AN_OPERAND = frozenset({"and", "or", "then", "else", "for", "if", ")", "}", ",", "", "&", "|", "&&", "||"})
PUNCTUATION = frozenset({"=", "~", ":", "==", ",", ".", ";"})

Faults = dict[int, Diagnostic]


def repairs(fault: Fault, faults: Faults) -> Iterator[Edit]:
    """Yield the edits to try, the most informative first.

    Args:
        fault: the broken statement.
        faults: the errors of the lexer about single tokens, by their start.
    """
    for rule in RULES:
        edit = rule(fault, faults)
        if edit:
            yield edit
    yield from _missing_words(fault)


def slip_at(fault: Fault, faults: Faults) -> Edit | None:
    """Mend a sign or word of another language (`&&`, `**`, `elif`, ..).

    It is one token, or two adjacent tokens.
    """
    at, tokens, known = fault.at, fault.tokens, slips()
    for start, end in ((at, at + 1), (at - 1, at + 1), (at, at + 2)):
        if start < 0 or end >= len(tokens):
            continue
        span = fault.span(tokens[start]).to(fault.span(tokens[end - 1]))
        slip = known.get(span.text)
        if slip:
            word = _meant(fault, span.text, slip["meant"])
            meant = tuple(fault.make(part, tokens[start]) for part in word.split())
            unsure = word == slip["meant"] and "told" in slip and not (word == "not" and _takes_one_operand(tokens, end))
            fix = replace(_fix(fault, span, word), guess=unsure)
            return Edit(start, end, meant, _foreign(slip["message"], span, slip["told"] if unsure else f"write `{word}`", fix), far=0)
    return None


def _takes_one_operand(tokens: list[Token], at: int) -> bool:
    """Return whether a `!` before a token has the meaning of `not`.

    `not` takes a whole comparison, so no operator except `and` and `or` may follow the operand.
    """
    close = closing(tokens, at) if tokens[at].text == "(" else at
    if close is not None and close + 1 < len(tokens) and tokens[close + 1].text in ("[", "("):
        close = closing(tokens, close + 1)
    if close is None or close + 1 >= len(tokens):
        return False
    behind = tokens[close + 1]
    return behind.opens_line or behind.text in AFTER_AN_OPERAND


def _meant(fault: Fault, written: str, usual: str) -> str:
    """Return the replacement of a sign at this place.

    `:=` in a declaration precedes a type, and `|` after a loop precedes its condition.
    """
    if written == ":=" and fault.tokens[fault.start].text in ("var", "latent", "given"):
        return ":"
    return "if" if written == "|" and {"if", "for"} <= fault.expected else usual


def _foreign(message: str, span: Span, help_: str, fix: Fix | None = None) -> Diagnostic:
    return Diagnostic("E107", message, span, "", help=help_, fix=fix)


def _fix(fault: Fault, span: Span, text: str) -> Fix:
    """Return the fix, with spaces if words would otherwise be joined."""
    before, after = fault.source.text[: span.start][-1:], fault.source.text[span.end :][:1]
    left = " " if text[0].isalpha() and (before.isalnum() or before == "_") else ""
    right = " " if text[-1].isalpha() and (after.isalnum() or after == "_") else ""
    return Fix(span, left + text + right)


def _bad_token(fault: Fault, faults: Faults) -> Edit | None:
    """Mend a token that is not part of the language, if its meaning is clear."""
    token, told = fault.token, faults.get(fault.token.start)
    after = fault.tokens[fault.at + 1] if token.text else token
    if token.text == "." and after.start == token.end and after.terminals == ("NUMBER",) and "." not in after.text:
        span, text = fault.span(token).to(fault.span(after)), f"0.{after.text}"
        told = Diagnostic("E114", f"`{short(span.text)}` is not a number", span, "", help=f"write `{short(text)}`", fix=Fix(span, text))
        return Edit(fault.at, fault.at + 2, (after._replace(text=text),), told, far=1)
    before = fault.previous
    if before is not None and before.text == "." and before.end == token.start and token.terminals == ("NUMBER",) and "." not in token.text:
        span, text = fault.span(before).to(fault.span(token)), f"0.{token.text}"
        told = Diagnostic("E114", f"`{short(span.text)}` is not a number", span, "", help=f"write `{short(text)}`", fix=Fix(span, text))
        return Edit(fault.at - 1, fault.at + 1, (token._replace(text=text),), told, far=1)
    if token.terminals or told is None:
        return None
    if token.text[0] in QUOTES and len(token.text) > 1:
        meant = token._replace(terminals=("STRING",), text=f'"{token.text[1:-1]}"')
        return Edit(fault.at, fault.at + 1, (meant,), _quoted(fault, told), far=1)
    if told.code == "E114":
        return Edit(fault.at, fault.at + 1, (token._replace(terminals=("NUMBER",), text="0"),), told, far=1)
    if told.code == "E111":
        return Edit(fault.at, fault.at + 1, (), told)
    return None


def _quoted(fault: Fault, told: Diagnostic) -> Diagnostic:
    inside = fault.token.text[1:-1]
    fix = Fix(fault.span(fault.token), f'"{inside}"') if '"' not in inside and "\\" not in inside else None
    return Diagnostic(told.code, told.message, told.span, told.label, help=told.help, fix=fix)


def _single_equals(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `=` in place of a comparison or of a `~`."""
    token, at = fault.token, fault.at
    if token.text != "=":
        return None
    meant = "~" if "~" in fault.expected else "==" if "==" in fault.expected else ""
    if not meant:
        return None
    if meant == "~" and is_drawn(fault):
        return None
    message = "`=` does not compare" if meant == "==" else "`=` does not say how something is distributed"
    help_ = f"write `{meant}`"
    diagnostic = Diagnostic("E108", message, fault.span(token), "", help=help_, fix=Fix(fault.span(token), meant, guess=meant == "=="))
    return Edit(at, at + 1, (fault.make(meant, token),), diagnostic, far=1 if meant == "==" else 3)


def _comment(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `// text` and `/* text */`."""
    tokens, at = fault.tokens, fault.at
    for k in range(at, max(-1, at - 12), -1):
        if tokens[k].text == "//" or (tokens[k].text == "/" and tokens[k + 1].text == "*"):
            end = _comment_end(tokens, k)
            if end <= at and k != at:
                return None
            mark = Span(fault.source, tokens[k].start, tokens[k].start + 2)
            diagnostic = _foreign(f"`{mark.text}` does not open a comment", mark, "a comment opens with `#`")
            return Edit(k, end, (), diagnostic)
        if tokens[k].opens_line:
            break
    return None


def _comment_end(tokens: list[Token], start: int) -> int:
    """Return the token after a comment, which ends at the `*/`, or else at the end of the line."""
    block = tokens[start].text == "/"
    for k in range(start + 1, len(tokens) - 1):
        if block and tokens[k].text == "*" and tokens[k + 1].text == "/" and k > start + 1:
            return k + 2
        if not block and tokens[k].opens_line:
            return k
    return len(tokens) - 1


def _misspelt_opening(fault: Fault, faults: Faults) -> Edit | None:
    """Mend the misspelt first word of a statement, as in `modle ising {`."""
    words = LEVELS[fault.level][0]
    first = fault.tokens[fault.start]
    if not first.opens_line and fault.start and fault.tokens[fault.start - 1].text not in ("{", "}", ";"):
        return _misspelt_for(fault)
    if fault.at > fault.start + 1 or "NAME" not in first.terminals or first.text in words:
        return None
    return _misspelt(fault, fault.start, words)


def _misspelt_for(fault: Fault) -> Edit | None:
    """Mend `factor x[i] fro i in site`.

    The misspelt word seems to begin a statement after the one that it belongs to.
    """
    first = fault.tokens[fault.start]
    if fault.at > fault.start + 1 or "NAME" not in first.terminals or not is_one_slip(first.text, "for"):
        return None
    edit = _misspelt(fault, fault.start, ("for",))
    return edit and replace(edit, start=edit.start - 1, tokens=(fault.tokens[fault.start - 1], *edit.tokens))


def _misspelt_inside(fault: Fault, faults: Faults) -> Edit | None:
    """Mend a misspelt word inside a statement: `where`, `weight`, `then`."""
    if "NAME" not in fault.token.terminals or opens_statement(fault.tokens, fault.at):
        return None
    return _misspelt(fault, fault.at, tuple(t for t in fault.expected if t.isalpha() and t.islower()))


def _misspelt(fault: Fault, at: int, words: tuple[str, ...]) -> Edit | None:
    token = fault.tokens[at]
    near = did_you_mean(token.text.lower(), words)
    if near is None or near == token.text:
        return None
    span, sure = fault.span(token), [w for w in words if is_one_slip(token.text.lower(), w)] == [near]
    diagnostic = Diagnostic(
        "E104", f"`{token.text}` is not a keyword here", span, "", help=f"did you mean `{near}`?", fix=Fix(span, near, guess=not sure)
    )
    return Edit(at, at + 1, (fault.make(near, token),), diagnostic)


def is_one_slip(written: str, meant: str) -> bool:
    """Return whether one edit turns one word into the other.

    An edit inserts, deletes or replaces one letter, or exchanges two adjacent letters.
    """
    start = next((k for k, (a, b) in enumerate(zip(written, meant, strict=False)) if a != b), min(len(written), len(meant)))
    a, b = written[start:], meant[start:]
    return written == meant or a[1:] in (b, b[1:]) or a == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])


def _let_with_a_type(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `let e : real = 2 * x`."""
    tokens, at = fault.tokens, fault.at
    end = next((k for k in range(at, min(at + 12, len(tokens) - 1)) if tokens[k].text == "=" and not depth_of(tokens[at:k])), None)
    if tokens[fault.start].text != "let" or fault.token.text != ":" or end is None:
        return None
    span = fault.span(fault.token).to(fault.span(tokens[end - 1]))
    place = Span(fault.source, tokens[at - 1].end, tokens[end - 1].end)
    message, help_ = "a `let` has the type of its expression", f"remove `{short(span.text)}`"
    return Edit(at, end, (), Diagnostic("E107", message, span, "no type", help=help_, fix=Fix(place, "")), far=1)


def _use_without_a_name(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `use ising`, which lacks the name of the copy."""
    start, at = fault.start, fault.at
    if fault.level != "model_statement" or fault.tokens[start].text != "use" or at != start + 2 or "as" not in fault.expected:
        return None
    model = fault.tokens[start + 1]
    fix = Fix(Span(fault.source, model.end, model.end), " as a", guess=True)
    message, help_ = "a model in use has a name of its own", f"write `use {short(model.text)} as a`; its cells are then `a.x`"
    diagnostic = Diagnostic("E109", message, fault.span(model), "`as` and a name belong behind this", help=help_, fix=fix)
    return Edit(at, at, (fault.make("as", model), model), diagnostic, whole=True)


def _separator(fault: Fault, faults: Faults) -> Edit | None:
    """Mend a comma before a closing bracket, and a `;` or a `,` in a place without one."""
    at = fault.at
    if fault.token.text in CLOSING and fault.previous and fault.previous.text == ",":
        at -= 1
        message = f"`,` stands between two things, not before `{fault.token.text}`"
    elif fault.token.text == ";":
        message = "`;` stands only at the end of a statement"
    elif fault.token.text == "," and fault.previous and fault.previous.text in (",", *OPENING):
        message = f"`,` stands between two things, not after `{fault.previous.text}`"
    elif fault.token.text == "," and fault.level.endswith("row") and "ROW_NAME" in fault.expected:
        message = "nothing stands between the rows of a mixture"
    else:
        return None
    span = fault.span(fault.tokens[at])
    diagnostic = Diagnostic("E122", message, span, "", help=f"remove the `{span.text}`", fix=Fix(span, ""))
    return Edit(at, at + 1, (), diagnostic, far=0 if span.text == ";" else 3)


def _doubled(fault: Fault, faults: Faults) -> Edit | None:
    """Mend a repeated word, number or sign, as in `for i in in site` or `var s s : spin`."""
    token, before = fault.token, fault.previous
    if before is None or token.text != before.text or token.opens_line or token.text in (*OPENING, *CLOSING, ",", ";"):
        return None
    span = fault.span(token)
    sure = token.text.isalpha() and "NAME" not in token.terminals  # `* *` may be `**`
    fix = Fix(Span(fault.source, before.end, token.end), "", guess=not sure)
    diagnostic = Diagnostic("E101", f"`{short(token.text)}` stands twice", span, "again here", help="remove one of the two", fix=fix)
    return Edit(fault.at, fault.at + 1, (), diagnostic, whole=True)


def _extra_closing(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `factor x + 2)` if the statement can be parsed without the bracket."""
    text = fault.token.text
    if text not in (")", "]") or any(k >= fault.start for k in fault.open_brackets()):
        return None
    span = fault.span(fault.token)
    help_, fix = f"remove the `{text}`", Fix(span, "", guess=True)
    diagnostic = Diagnostic("E103", f"`{text}` closes nothing", span, f"no `{CLOSING[text]}` is open", help=help_, fix=fix)
    return Edit(fault.at, fault.at + 1, (), diagnostic, whole=True)


def _round_brackets(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `x(i)` in place of `x[i]`."""
    at, tokens = fault.at, fault.tokens
    if fault.token.text != "(" or "[" not in fault.expected or at == 0:
        return None
    close = closing(tokens, at)
    if close is None:
        return None
    name = tokens[at - 1].text
    inside = tuple(tokens[at + 1 : close])
    span = fault.span(tokens[at]).to(fault.span(tokens[close]))
    counted = any(t.terminals == ("NUMBER",) for t in inside)  # `x(1)` is the first cell in MATLAB.
    fix = Fix(span, f"[{span.text[1:-1]}]", guess=counted)
    help_ = f"write `{name}{short(fix.text)}`"
    diagnostic = Diagnostic("E121", f"`{name}` is indexed with square brackets", span, "", help=help_, fix=fix)
    return Edit(at, close + 1, (fault.make("[", tokens[at]), *inside, fault.make("]", tokens[close])), diagnostic, far=2)


def _punctuation(fault: Fault, faults: Faults) -> Edit | None:
    """Mend a wrong sign if only one sign is possible, as in `mask m ~ subsets(x)`."""
    possible = [t for t in MISSING if t in fault.expected and not t.isalpha()]
    if fault.token.text not in PUNCTUATION or len(possible) != 1:
        return None
    span = fault.span(fault.token)
    message, help_, fix = f"expected `{possible[0]}`, found `{fault.token.text}`", f"write `{possible[0]}`", Fix(span, possible[0])
    if fault.token.text == "~" and fault.tokens[fault.start].text == "let":
        name = fault.tokens[fault.start + 1].text
        help_, fix = f"a prior belongs to a parameter: `param {name} ~ ..`; a name for an expression is `let {name} = ..`", None
    if fault.token.text == "~" and fault.tokens[fault.start].text in ("var", "latent", "given"):
        message, fix = "a type stands before the distribution", None
        word, name = fault.tokens[fault.start].text, short(text_of(fault, fault.tokens[fault.start + 1 : fault.at]))
        help_ = f"a cell is `{word} {name} : bit ~ ..`, what is fitted `param {name} ~ normal(0, 1)`"
    if fault.token.text == "=" and is_drawn(fault):
        if possible[0] == "~":
            return None
        word, name = (t.text for t in fault.tokens[fault.start : fault.start + 2])
        help_, fix = f"declare it, `{word} {name} : bit`, and say how it is distributed: `{name} ~ categorical([0.5, 0.5])`", None
    diagnostic = Diagnostic("E101", message, span, "", help=help_, fix=fix)
    return Edit(fault.at, fault.at + 1, (fault.make(possible[0], fault.token),), diagnostic, whole=True)


def _missing_words(fault: Fault) -> Iterator[Edit]:
    """Yield edits that insert a missing word or sign, as in `choose {a} 0.4`."""
    before, token = fault.previous, fault.token
    if before is None or fault.at <= fault.start:
        return
    for text in MISSING:
        # `weight` and `rate` belong to an earlier form. In the current form, the number comes
        # first.
        if text in fault.expected and text not in ("weight", "rate"):
            place = Span(fault.source, before.end, before.end)
            mark = Token(fault.make(text, token).terminals, text, before.end, before.end)
            fix = Fix(place, f" {text}" + ("" if fault.source.text[before.end : before.end + 1].isspace() else " "))
            at_end = token.opens_line or not token.text
            span, label = (fault.span(before), "after this") if at_end else (fault.span(token), "before this")
            message = f"expected `{text}` after `{short(before.text)}`"
            diagnostic = Diagnostic("E109", message, span, f"`{text}` belongs {label}", fix=fix)
            yield Edit(fault.at, fault.at, (mark,), diagnostic, whole=True)


RULES: tuple[Callable[[Fault, Faults], Edit | None], ...] = (
    _comment,
    *NOTATIONS,
    *MAPS,
    *LOOPS,
    loop_in_front,
    slip_at,
    _bad_token,
    named_term,
    _single_equals,
    _misspelt_opening,
    _doubled,
    *MENDS,
    _misspelt_inside,
    _use_without_a_name,
    _let_with_a_type,
    _separator,
    _extra_closing,
    _round_brackets,
    _punctuation,
    loop_in_a_list,
)


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
