"""Report blocks and cells without their weight or without their braces."""

from __future__ import annotations

from .._diagnostics import Diagnostic, Fix, Span
from ._fault import Fault
from ._lex import Token, closing, short
from ._words import MASK_WORDS

Faults = dict[int, Diagnostic]


def no_weight(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report `choose {x[i]} for i in site` and `each x[i]`, which lack the weight or rate."""
    word, number = fault.tokens[fault.start].text, {"choose": "1", "each": "0.5"}
    wanted = {"choose": "weight", "each": "rate"}.get(word)
    if fault.level != "mask_statement" or wanted not in fault.expected or fault.at < fault.start + 2:
        return None
    first, last = fault.tokens[fault.start + 1], fault.tokens[fault.at - 1]
    if fault.token.terminals == ("NUMBER",):
        return _weight_behind(fault, word, wanted)
    if fault.token.text and fault.token.text not in ("}", *MASK_WORDS):
        return None
    span, text = fault.span(first).to(fault.span(last)), f"{number[word]} : "
    message, help_ = f"expected a {wanted} behind `{word}`", f"write `{word} {text}{short(span.text)}`"
    fix = Fix(Span(fault.source, first.start, first.start), text, guess=True)
    return Diagnostic("E109", message, span, f"no {wanted} before this", help=help_, fix=fix)


def _weight_behind(fault: Fault, word: str, wanted: str) -> Diagnostic:
    """Report a weight after its block, as in `choose {a, b} 0.4`."""
    first, last = fault.tokens[fault.start + 1], fault.tokens[fault.at - 1]
    block, weight = fault.span(first).to(fault.span(last)), fault.span(fault.token)
    text = f"{weight.text} : {block.text}"
    fix = Fix(block.to(weight), text, guess=True)
    return Diagnostic(
        "E109", f"expected a {wanted} behind `{word}`", weight, "this belongs there", help=f"write `{word} {short(text)}`", fix=fix
    )


def bare_block(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report a block without braces.

    Examples are `update x[i], x[j]`, `update (x, y)` and `choose 1 : x[0], x[1]`.
    """
    tokens, k = fault.tokens, fault.at
    word = tokens[fault.start].text
    if word not in ("update", "choose") or any(j >= fault.start for j in fault.open_brackets()):
        return None
    if fault.token.text == "(":
        return _in_parentheses(fault)
    start = next((j + 1 for j in range(k - 1, fault.start - 1, -1) if tokens[j].text in (":", "update")), None)
    if fault.token.text != "," or start is None or not {"for", "where", "by"}.isdisjoint(t.text for t in tokens[start:k]):
        return None
    last = _last_cell(tokens, k)
    return None if last is None else _braces(fault, start, last, fault.source.text[tokens[start].start : tokens[last].end])


def _in_parentheses(fault: Fault) -> Diagnostic | None:
    """Report a block in parentheses, as in `update (x[0], y)`."""
    tokens, k = fault.tokens, fault.at
    end = closing(tokens, k)
    inside = {t.text for t in tokens[k + 1 : end]}
    if end is None or tokens[k - 1].text != "update" or "|" in inside or "," not in inside:
        return None
    return _braces(fault, k, end, fault.source.text[tokens[k].end : tokens[end].start])


def _last_cell(tokens: list[Token], comma: int) -> int | None:
    """Return the last token of a list of cells that continues after a comma, or None.

    The result is None if no cell follows the comma.
    """
    last = None
    while tokens[comma].text == "," and "NAME" in tokens[comma + 1].terminals:
        last = closing(tokens, comma + 2) if tokens[comma + 2].text == "[" else comma + 1
        if last is None:
            return None
        comma = last + 1
    return last


def _braces(fault: Fault, first: int, last: int, cells: str) -> Diagnostic:
    span = fault.span(fault.tokens[first]).to(fault.span(fault.tokens[last]))
    block, alone = f"{{{cells}}}", "; one after the other are two updates" * (fault.tokens[fault.start].text == "update")
    fix = Fix(span, block, guess=True)
    return Diagnostic("E101", "a block stands in braces", span, "no braces", help=f"write `{short(block)}`{alone}", fix=fix)
