"""Give advice for a statement with a syntax error if no fix certainly mends it."""

from __future__ import annotations

from ._axes import ARRAYS, CELLS
from ._fault import Fault
from ._habits import is_arrow
from ._hints import openers
from ._readings import told_by_reading
from ._words import STATEMENT_WORDS


def advice(fault: Fault) -> str:
    """Return advice for a statement that cannot be parsed, or an empty text if there is none."""
    first, token, before = fault.tokens[fault.start], fault.token, fault.previous.text if fault.previous else ""
    after = fault.tokens[min(fault.at + 1, len(fault.tokens) - 1)]
    known = _advice_of_front(fault) or openers().get((first.text, fault.level), "") or openers().get((first.text, ""), "")
    if known and fault.alone and (fault.at <= fault.start + 2 or fault.tokens[fault.start + 1].text == "["):
        return known
    if first.text in ARRAYS and token.text == "in" and fault.at == fault.start + 2:
        return f"a type follows `:`, as in `{first.text} {before or 'x'} : {'spin' if first.text in CELLS else 'real'}`"
    if is_arrow(token, after) and fault.level == "model_statement":
        return "nothing is assigned: a name for an expression is given with `let name = ..`, and a distribution with `name ~ ..`"
    if first.text == "sampler" and (before, "sampler_statement") in openers():
        return openers()[before, "sampler_statement"]
    return told_by_reading(fault)


def _advice_of_front(fault: Fault) -> str:
    """Return advice for a loop in front of a declaration."""
    if fault.token.text != "for" or fault.at != fault.start or fault.level != "model_statement":
        return ""
    tokens = fault.tokens[fault.start :]
    end = next((k for k, t in enumerate(tokens) if t.text in ("}", "") or (k > 3 and t.text in STATEMENT_WORDS)), 0)
    return f"an array is declared with its axes, without a loop: `{tokens[end].text} x[i in site] ..`" if tokens[end].text in ARRAYS else ""
