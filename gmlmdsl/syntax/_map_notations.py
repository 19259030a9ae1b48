"""Mend maps and lists as other languages write them.

Examples are keys without quotes, other signs after a key, and a pair of brackets for each index.
Each rule returns an edit, or None if it does not apply.
"""

from __future__ import annotations

from .._diagnostics import Diagnostic, Fix
from ._fault import Edit, Fault, resumption
from ._lex import OPENING, Token, closing, short
from ._notations import cut, text_of

Faults = dict[int, Diagnostic]
PAIRED = frozenset({"=", "=>", "->", ":="})  # signs between a key and its value
FOR_THE_REST = frozenset({"_", "else", "default", "otherwise", "other"})
TRUTH = {"true": "1", "True": "1", "false": "0", "False": "0"}


def pair_sign(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `{"no" = 0.1}` and `{"no" => 0.1}`."""
    tokens, at, before = fault.tokens, fault.at, fault.previous
    if before is None or fault.expected != {":"} or at + 1 >= len(tokens) or not _is_in(fault, "{"):
        return None
    end = at + 1 + (tokens[at + 1].text == ">" and tokens[at + 1].start == tokens[at].end)
    span = fault.span(tokens[at]).to(fault.span(tokens[end - 1]))
    if span.text not in PAIRED:
        return None
    message, fix = f"a key of a map is followed by `:`, not by `{span.text}`", Fix(span, ":")
    return Edit(at, end, (fault.make(":", tokens[at]),), Diagnostic("E107", message, span, help="write `:`", fix=fix), far=1)


def odd_key(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `{"no": 0.1, _: 0.9}`, `{true: 0.1}` and `{"no": 0.1, yes: 0.9}`."""
    token, after = fault.token, fault.tokens[min(fault.at + 1, len(fault.tokens) - 1)]
    if after.text != ":" or fault.previous is None or fault.previous.text not in ("{", ",") or not _is_in(fault, "{"):
        return None
    message, label, fix = "a key of a map is a label in double quotes, or a whole number", "not a key", None
    made = token._replace(terminals=("STRING",), text=f'"{token.text}"')
    if token.text in TRUTH:
        number = TRUTH[token.text]
        help_, fix = f"a bit is 0 or 1: write `{number}`", Fix(fault.span(token), number, guess=True)
        made = token._replace(terminals=("NUMBER",), text=number)
    elif token.text in FOR_THE_REST:
        message, help_ = "a map has no entry for the rest", "write an entry for every value of its index"
    elif "NAME" in token.terminals:
        help_, fix = f'write `"{short(token.text)}"`', Fix(fault.span(token), made.text, guess=True)
    else:
        return None
    return Edit(fault.at, fault.at + 1, (made,), Diagnostic("E101", message, fault.span(token), label, help=help_, fix=fix), far=1)


def names_for_keys(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `{no: 0.1, yes: 0.7}[x]`, which is parsed as a list of options up to its index."""
    tokens, end = fault.tokens, fault.at - 1
    if fault.token.text != "[" or tokens[end].text != "}":
        return None
    opened = next((k for k in range(end, fault.start, -1) if tokens[k].text == "{" and closing(tokens, k) == end), None)
    if opened is None:
        return None
    keys = [k for k in range(opened + 1, end) if tokens[k - 1].text in ("{", ",") and tokens[k + 1].text == ":"]
    if not keys or any("NAME" not in tokens[k].terminals for k in keys):
        return None
    made = list(tokens[opened : fault.at])
    for k in keys:
        made[k - opened] = tokens[k]._replace(terminals=("STRING",), text=f'"{tokens[k].text}"')
    span = fault.span(tokens[opened]).to(fault.span(tokens[end]))
    text = _with_quotes(fault, [tokens[k] for k in keys], span.start, span.end)
    message, help_ = "the keys of a map are labels in double quotes", f"write `{cut(text)}`"
    place = fault.span(tokens[keys[0]])
    return Edit(opened, fault.at, tuple(made), Diagnostic("E101", message, place, "no quotes", help=help_, fix=Fix(span, text)), far=1)


def _with_quotes(fault: Fault, names: list[Token], start: int, end: int) -> str:
    text = fault.source.text[start:end]
    for name in reversed(names):
        text = f'{text[: name.start - start]}"{name.text}"{text[name.end - start :]}'
    return text


def index_behind_an_index(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `{..}[a][b]` and `[[..], [..]][a][b]`."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "[" or at < 2 or tokens[at - 1].text != "]" or fault.token.opens_line:
        return None
    first = next((k for k in range(at - 1, fault.start, -1) if tokens[k].text == "[" and closing(tokens, k) == at - 1), 0)
    close = closing(tokens, at)
    if not first or tokens[first - 1].text not in ("}", "]") or close is None:
        return None
    span, inside = fault.span(tokens[at - 1]).to(fault.span(tokens[at])), text_of(fault, tokens[first : close + 1])
    shown = inside.replace(span.text, ", ")
    diagnostic = Diagnostic("E107", "all indices stand in one pair of brackets", span, help=f"write `{cut(shown)}`", fix=Fix(span, ", "))
    return Edit(at - 1, at + 1, (fault.make(",", fault.token),), diagnostic, far=1)


def loop_in_a_list(fault: Fault, faults: Faults) -> Edit | None:
    """Report `[0.1 * i for i in range(3)]`."""
    tokens, opened = fault.tokens, fault.open_brackets()
    if fault.token.text != "for" or not opened or opened[-1] < fault.start or tokens[opened[-1]].text != "[":
        return None
    before, end = tokens[opened[-1] - 1], closing(tokens, opened[-1])
    if end is None or ("NAME" in before.terminals and before.end == tokens[opened[-1]].start):
        return None
    help_ = "what follows from an index is a `let` with an axis: `let f[i in range(3)] = ..`, used as `f[k]`"
    diagnostic = Diagnostic("E107", "a list is written out, without a `for`", fault.span(fault.token), "no `for` here", help=help_)
    return Edit(fault.at, end, (), diagnostic, far=1)


def listed_domain(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `domain sky = ["sun", "rain"]` and `domain base = {"A", "C"}`."""
    tokens, at = fault.tokens, fault.at
    close = closing(tokens, at) if fault.token.text in ("[", "{") else None
    if tokens[fault.start].text != "domain" or close is None or tokens[at - 1].text != "=":
        return None
    inside = tokens[at + 1 : close]
    if not inside or any(t.terminals != ("STRING",) for t in inside[::2]) or any(t.text != "," for t in inside[1::2]):
        return None
    span = fault.span(fault.token).to(fault.span(tokens[close]))
    text = f"labels({text_of(fault, inside)})"
    made = (token_of("labels", fault.token), fault.make("(", fault.token), *inside, fault.make(")", tokens[close]))
    diagnostic = Diagnostic("E107", "the values of a domain stand in `labels(..)`", span, help=f"write `{cut(text)}`", fix=Fix(span, text))
    return Edit(at, close + 1, made, diagnostic, far=1)


def token_of(name: str, like: Token) -> Token:
    """Return a name token in the place of another token."""
    return like._replace(terminals=("NAME",), text=name)


def named_by_a_string(fault: Fault, faults: Faults) -> Edit | None:
    """Report `categorical("no" = 0.2, "yes" = 0.8)`, and skip its arguments."""
    before, opened = fault.previous, fault.open_brackets()
    if fault.token.text != "=" or before is None or before.terminals != ("STRING",) or not _is_in(fault, "("):
        return None
    end = closing(fault.tokens, opened[-1])
    if end is None or end >= resumption(fault):  # The bracket that closes is one of another statement.
        return None
    help_ = "probabilities of labels are a list, in the order of the values: `categorical([0.2, 0.8])`"
    diagnostic = Diagnostic("E101", "an argument is named by a word, not by a string", fault.span(before), "a string", help=help_)
    return Edit(opened[-1] + 1, end, (), diagnostic, far=1)


def _is_in(fault: Fault, bracket: str) -> bool:
    """Return whether the innermost open bracket belongs to the statement and is of this kind."""
    opened = fault.open_brackets()
    assert bracket in OPENING
    return bool(opened) and opened[-1] >= fault.start and fault.tokens[opened[-1]].text == bracket


MAPS = (pair_sign, odd_key, names_for_keys, index_behind_an_index, named_by_a_string, listed_domain)
