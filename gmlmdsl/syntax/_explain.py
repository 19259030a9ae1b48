"""A broken statement in words: what was expected, after what, and what stands there instead."""

from __future__ import annotations

from collections.abc import Callable

from .._diagnostics import Diagnostic, Span, did_you_mean
from ._braces import unclosed_brace
from ._fault import FILE_WORDS, LEVELS, MASK_WORDS, MODEL_WORDS, SAMPLER_WORDS, STATEMENT_WORDS, Fault, opens_statement
from ._lex import CLOSING, MAX_DEPTH, OPENING
from ._repair import COMPARISONS

RESERVED = ("and", "or", "not", "if", "then", "else", "for", "in", "true", "false")
OPERATORS = frozenset("+ - * / // % ^ == != < <= > >= and or".split())
HOME = {
    **dict.fromkeys(SAMPLER_WORDS, "in a sampler"),
    **dict.fromkeys(MASK_WORDS, "between the braces of a mask"),
    **dict.fromkeys(MODEL_WORDS, "in a model"),
    **dict.fromkeys(FILE_WORDS, "outside models, masks and samplers"),
}
# After these words only one kind of name can come.
AFTER = {"model": "the name of the model", "given": "the name of a variable", "in": "an index set", "update": "a variable or a block"}

Faults = dict[int, Diagnostic]


def explain(fault: Fault, faults: Faults) -> Diagnostic:
    """The one error for a statement that cannot be read.

    Args:
        fault: the broken statement.
        faults: what the lexer says about single tokens, by where they start.

    Returns:
        The error, at the smallest place that shows it.
    """
    for rule in RULES:
        diagnostic = rule(fault, faults)
        if diagnostic:
            return diagnostic
    return _unexpected(fault)


def _too_deep(fault: Fault, faults: Faults) -> Diagnostic | None:
    if not fault.too_deep:
        return None
    first = fault.span(fault.tokens[fault.start])
    message = f"an expression is nested deeper than {MAX_DEPTH}"
    help_ = "a chain of operators counts: split it with `let` or into several factors, or use `sum(.. for ..)`"
    return Diagnostic("E117", message, first, "in this statement", help=help_)


def _bad_token(fault: Fault, faults: Faults) -> Diagnostic | None:
    return faults.get(fault.token.start) if not fault.token.terminals else None


def _chain(fault: Fault, faults: Faults) -> Diagnostic | None:
    """`a < b < c`."""
    if fault.token.text not in COMPARISONS:
        return None
    for value, first, _, _ in reversed(fault.stack.parts[fault.body :]):
        text = getattr(value, "text", None)
        if text in COMPARISONS:
            related = ((fault.span(fault.tokens[first]), "the first comparison"),)
            help_ = "join two comparisons with `and`: `a < b and b < c`"
            return Diagnostic("E106", "comparisons are not chained", fault.span(fault.token), "a second one", related, help_)
        if text in OPENING or text in ("and", "or", "if", "then", "else"):
            break
    return None


def _reserved(fault: Fault, faults: Faults) -> Diagnostic | None:
    token = fault.token
    if token.text not in RESERVED or "NAME" not in fault.expected or "NUMBER" in fault.expected:
        return None
    help_ = f"take another name; reserved are {', '.join(f'`{w}`' for w in RESERVED)}"
    return Diagnostic("E110", f"`{token.text}` is a reserved word", fault.span(token), "expected a name", help=help_)


def _misplaced(fault: Fault, faults: Faults) -> Diagnostic | None:
    """A statement of another level: its keyword opens the broken statement, and at once something does not fit."""
    words, place = LEVELS[fault.level]
    first = fault.tokens[fault.start]
    if fault.at > fault.start + 1 or first.text in words or first.text not in STATEMENT_WORDS:
        return None
    if not opens_statement(fault.tokens, fault.start) and fault.level == "model_statement":
        return None
    home = HOME[first.text]
    if first.text == "mixture" and fault.level == "mask_statement":
        return Diagnostic("E105", "`mixture` of masks follows `=`", fault.span(first), "", help="write `mask name = mixture { .. }`")
    return Diagnostic("E105", f"`{first.text}` stands {home}, not {place}", fault.span(first), "not here")


def _bracket(fault: Fault, faults: Faults) -> Diagnostic | None:
    """A bracket that is not closed, closed by another, or closes nothing."""
    token = fault.token
    opened = [k for k in fault.open_brackets() if k >= fault.start] if fault.level else []
    if token.text in CLOSING:
        open_text = CLOSING[token.text]
        kinds = [fault.tokens[k].text for k in opened]
        if not opened and token.text != "}":
            return Diagnostic("E103", f"`{token.text}` closes nothing", fault.span(token), f"no `{open_text}` is open")
        if opened and kinds[-1] != open_text:
            return _unclosed(fault, opened[-1], f"found `{token.text}`")
        return None
    ends = not token.text or opens_statement(fault.tokens, fault.at) or token.text in ("for", "weight", "rate", "then", "else", "~")
    if opened and ends and _could_close(fault, opened[-1]):
        return _unclosed(fault, opened[-1], _found(fault))
    if not token.text and fault.open_brackets():
        return unclosed_brace(fault, fault.span(fault.tokens[fault.at - 1]))
    return None


def _could_close(fault: Fault, opener: int) -> bool:
    return OPENING[fault.tokens[opener].text] in fault.expected


def _unclosed(fault: Fault, opener: int, label: str) -> Diagnostic:
    open_ = fault.tokens[opener]
    if open_.text == "{" and opener >= fault.start and _is_body(fault, opener):
        return unclosed_brace(fault, _place(fault))
    message = f"expected `{OPENING[open_.text]}` to close the `{open_.text}` opened here"
    return Diagnostic("E102", message, _place(fault), label, ((fault.span(open_), "opened here"),))


def _is_body(fault: Fault, opener: int) -> bool:
    return fault.tokens[fault.start].text in ("model", "sampler", "mixture") and opener <= fault.start + 4


def _place(fault: Fault) -> Span:
    """The token that does not fit; the one before it where that one ends its line, since something is missing there."""
    if fault.previous and (fault.token.opens_line or not fault.token.text) and fault.at > fault.start:
        return fault.span(fault.previous)
    return fault.span(fault.token)


def _found(fault: Fault) -> str:
    if not fault.token.text:
        return "the file ends here"
    if fault.token.opens_line and fault.at > fault.start:
        return "the line ends here"
    return f"found `{_short(fault.token.text)}`"


def _unexpected(fault: Fault) -> Diagnostic:
    """What was expected, in words of the language."""
    token, previous = fault.token, fault.previous
    if fault.at == fault.start:
        return _no_statement(fault)
    wanted = _wanted(fault)
    after = f" after `{_short(previous.text)}`" if previous else ""
    help_ = ""
    first = fault.tokens[fault.start]
    if fault.level == "model_statement" and first.text not in MODEL_WORDS and fault.expected <= {"~", "["} | OPERATORS:
        help_ = "a statement of a model opens with a keyword, such as `factor`, or with `name ~`"
        if not first.opens_line:
            before = fault.tokens[fault.start - 1].text
            message = f"expected an operator or a statement after `{_short(before)}`, found `{_short(first.text)}`"
            return Diagnostic("E101", message, fault.span(first), "nothing joins this to what stands before", help=help_)
    if token.text == "if" and wanted == "an expression":
        help_ = "put `if .. then .. else ..` in parentheses"
    if token.text == "not" and wanted == "an expression":
        help_ = "put `not ..` in parentheses"
    if token.text == "+" and wanted == "an expression":
        help_ = "a number has no sign `+`"
    return Diagnostic("E101", f"expected {wanted}{after}", _place(fault), _found(fault), help=help_)


def _no_statement(fault: Fault) -> Diagnostic:
    words, place = LEVELS[fault.level]
    token = fault.token
    if fault.level.endswith("row"):
        help_ = "a row opens with its weight, a number or the name of an input: `0.5 : ..`"
        return Diagnostic("E101", f"expected a row of the mixture, found {_shown(fault)}", fault.span(token), "", help=help_)
    near = did_you_mean(token.text, words) if "NAME" in token.terminals else None
    help_ = f"did you mean `{near}`?" if near else f"a statement {place} opens with {', '.join(f'`{w}`' for w in words)}"
    if token.text == "}":
        return Diagnostic("E103", "`}` closes nothing", fault.span(token), "no `{` is open")
    return Diagnostic("E101", f"expected a statement, found {_shown(fault)}", fault.span(token), "", help=help_)


def _shown(fault: Fault) -> str:
    return f"`{_short(fault.token.text)}`" if fault.token.text else "the end of the file"


def _wanted(fault: Fault) -> str:
    expected, previous = fault.expected, fault.previous
    if "NUMBER" in expected and ("-" in expected or "[" in expected):
        return "an argument" if previous and previous.text == "(" and ")" in expected else "an expression"
    if "NAME" in expected:
        return _kind_of_name(fault)
    if expected == {"STRING"}:
        return "a string in double quotes"
    opened = [fault.tokens[k].text for k in fault.open_brackets() if k >= fault.start]
    closer = OPENING[opened[-1]] if opened else ""
    if closer and closer in expected:
        return f"`,` or `{closer}`" if "," in expected else f"`{closer}`"
    signs = sorted((t for t in expected if t not in OPERATORS and (not t.isalpha() or t in ("then", "else", "in", "weight", "rate"))), key=_order)
    signs = [t for t in signs if t not in ("$END", ";", "}", "(", ".", "NUMBER", "ROW_NAME") or len(signs) == 1]
    if signs and not (len(signs) == 1 and signs[0] == "["):
        shown = [f"`{t}`" for t in signs]
        return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + f" or {shown[-1]}"
    return "an operator or the next statement"


def _order(text: str) -> tuple[int, str]:
    return "then else in weight rate = ~ : { , ) ] [".split().index(text) if text in "then else in weight rate = ~ : { , ) ] [".split() else 99, text


def _kind_of_name(fault: Fault) -> str:
    previous = fault.previous.text if fault.previous else ""
    if "STRING" in fault.expected or "NUMBER" in fault.expected:
        return "an expression"
    if previous == ":" and fault.level in ("model_statement", "statement"):
        return "a type"
    if previous == "for" and fault.tokens[fault.start].text in ("mask", "sampler") and "(" not in fault.expected:
        return "the name of a model"
    if previous in AFTER:
        return AFTER[previous]
    return "a name"


def _short(text: str) -> str:
    return text if len(text) <= 30 else text[:27] + "..."


RULES: tuple[Callable[[Fault, Faults], Diagnostic | None], ...] = (_too_deep, _bad_token, _chain, _reserved, _misplaced, _bracket)
