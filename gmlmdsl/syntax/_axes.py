"""Mend axes as other languages write them: a size or a set without an index name.

Each rule returns an edit that inserts or removes the name, or None if it does not apply.
"""

from __future__ import annotations

from itertools import pairwise

from .._diagnostics import Diagnostic, Fix, Span
from ._fault import Edit, Fault
from ._lex import Token, short
from ._notations import text_of, with_depth

Faults = dict[int, Diagnostic]
CELLS = ("var", "latent", "given")
ARRAYS = (*CELLS, "param", "input")
INDEX_NAMES = ("i", "j", "k", "l", "m", "n", "a", "b", "c", "d")


def axis_of_a_number(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `var x[10] : spin`."""
    first, token, at = fault.tokens[fault.start], fault.token, fault.at
    if (
        first.text not in (*CELLS, "param", "let")
        or token.terminals != ("NUMBER",)
        or not fault.previous
        or fault.previous.text not in "[,"
    ):
        return None
    taken = declared_names(fault.tokens) | {t.text for t in fault.tokens[fault.start : at]}
    name = next((n for n in INDEX_NAMES if n not in taken), None)
    if name is None:
        return None
    span, text = fault.span(token), f"{name} in range({token.text})"
    made = (a_name(name, token), fault.make("in", token), a_name("range", token), fault.make("(", token), token, fault.make(")", token))
    message = f"an axis names its index: expected `{text}`, found `{token.text}`"
    return Edit(at, at + 1, made, Diagnostic("E109", message, span, "no index name", help=f"write `{text}`", fix=Fix(span, text)), far=1)


def axis_of_a_set(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `var x[G.nodes] : spin`, `param E[range(9), tag]` and `latent z[T] : range(3)`."""
    tokens, first = fault.tokens, fault.tokens[fault.start]
    at = next((k for k in (fault.at - 1, fault.at) if tokens[k - 1].text in ("[", ",")), None)
    if first.text not in (*CELLS, "param", "let") or at is None or at < fault.start + 3 or "in" not in fault.expected:
        return None
    end = next((k for k, depth in with_depth(tokens, at) if tokens[k].text in (",", "]", "") and not depth), at)
    inside = tokens[at:end]
    if not inside or "in" in (t.text for t in inside) or "NAME" not in inside[0].terminals or tokens[end].text == "":
        return None
    taken = declared_names(tokens) | {t.text for t in tokens[fault.start : end]}
    name = next((n for n in INDEX_NAMES if n not in taken), None)
    known = {b.text: a.text for a, b in pairwise(tokens) if a.text in ("input", "index", "domain")}
    written = text_of(fault, inside)
    is_size = len(inside) == 1 and known.get(written) == "input"
    if name is None or (len(inside) == 1 and written not in known):
        return None
    set_ = f"range({written})" if is_size else written
    made = (a_name("range", tokens[at]), fault.make("(", tokens[at]), *inside, fault.make(")", tokens[at])) if is_size else tuple(inside)
    span, text = fault.span(inside[0]).to(fault.span(inside[-1])), f"{name} in {set_}"
    message = f"an axis names its index: expected `{text}`, found `{short(written)}`"
    diagnostic = Diagnostic("E109", message, span, "no index name", help=f"write `{text}`", fix=Fix(span, text))
    return Edit(at, end, (a_name(name, tokens[at]), fault.make("in", tokens[at]), *made), diagnostic, far=1)


def axis_of_an_input(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `input w[i in site] : real`: the axes of an input have no index names."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "in" or tokens[fault.start].text != "input" or tokens[at - 2].text not in ("[", ","):
        return None
    span = fault.span(tokens[at - 1]).to(fault.span(fault.token))
    place = Span(fault.source, span.start, tokens[at + 1].start)
    message, help_ = "an axis of an input is a size or an index set, without an index name", f"remove `{span.text}`"
    return Edit(at - 1, at + 1, (), Diagnostic("E109", message, span, help=help_, fix=Fix(place, "")), far=1)


def declared_names(tokens: list[Token]) -> set[str]:
    """Return the names that are declared anywhere in a text."""
    openers = {"input", "index", "domain", "graph", "model", "mask", "sampler", "verifier", "value", *CELLS, "param", "let", "network"}
    return {b.text for a, b in pairwise(tokens) if a.text in openers}


def a_name(text: str, like: Token) -> Token:
    """Return a name token in the place of another token."""
    return like._replace(terminals=("NAME",), text=text)


AXES = (axis_of_an_input, axis_of_a_number, axis_of_a_set)
