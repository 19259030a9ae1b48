"""Blocks and cells that lack what stands around them: the weight in front, or the braces."""

from __future__ import annotations

from .._diagnostics import Diagnostic, Fix, Span
from ._fault import Fault
from ._lex import closing, short
from ._words import MASK_WORDS

Faults = dict[int, Diagnostic]


def no_weight(fault: Fault, faults: Faults) -> Diagnostic | None:
    """`choose {x[i]} for i in site`, `each x[i]`: the weight or rate in front is left out."""
    word, number = fault.tokens[fault.start].text, {"choose": "1", "each": "0.5"}
    wanted = {"choose": "weight", "each": "rate"}.get(word)
    if fault.level != "mask_statement" or wanted not in fault.expected or fault.at < fault.start + 2:
        return None
    if fault.token.text and fault.token.text not in ("}", *MASK_WORDS):
        return None
    first, last = fault.tokens[fault.start + 1], fault.tokens[fault.at - 1]
    span, text = fault.span(first).to(fault.span(last)), f"{number[word]} : "
    message, help_ = f"expected a {wanted} behind `{word}`", f"write `{word} {text}{short(span.text)}`"
    fix = Fix(Span(fault.source, first.start, first.start), text, guess=True)
    return Diagnostic("E109", message, span, f"no {wanted} before this", help=help_, fix=fix)


def bare_block(fault: Fault, faults: Faults) -> Diagnostic | None:
    """`update x[i], x[j]`, `update (x, y)`, `choose 1 : x[0], x[1]`: a block without its braces."""
    tokens, k = fault.tokens, fault.at
    word = tokens[fault.start].text
    if word not in ("update", "choose") or any(j >= fault.start for j in fault.open_brackets()):
        return None
    if fault.token.text == "(" and tokens[k - 1].text == "update":
        end = closing(tokens, k)
        return None if end is None else _braces(fault, k, end, fault.source.text[tokens[k].end : tokens[end].start])
    start = next((j + 1 for j in range(k - 1, fault.start - 1, -1) if tokens[j].text in (":", "update")), None)
    if fault.token.text != "," or start is None or any(t.text in ("for", "where", "by") for t in tokens[start:k]):
        return None
    while tokens[k].text == "," and "NAME" in tokens[k + 1].terminals:
        end = closing(tokens, k + 2) if tokens[k + 2].text == "[" else k + 1
        if end is None:
            return None
        k = end + 1
    return None if k == fault.at else _braces(fault, start, k - 1, fault.source.text[tokens[start].start : tokens[k - 1].end])


def _braces(fault: Fault, first: int, last: int, cells: str) -> Diagnostic:
    span = fault.span(fault.tokens[first]).to(fault.span(fault.tokens[last]))
    block, alone = f"{{{cells}}}", "; one after the other are two updates" * (fault.tokens[fault.start].text == "update")
    fix = Fix(span, block, guess=True)
    return Diagnostic("E101", "a block stands in braces", span, "no braces", help=f"write `{short(block)}`{alone}", fix=fix)
