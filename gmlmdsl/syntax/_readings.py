"""Match a broken statement against the table `reading` of `hints.toml`.

An entry of the table describes the tokens of a statement and a help for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ._fault import Fault
from ._hints import hints

# words before a parenthesis that groups an expression
REACHING = ("if", "in", "and", "or", "not", "then", "else")


def told_by_reading(fault: Fault) -> str:
    """Return the help of the first entry whose keys all match, or ""."""
    seen = _seen(fault)
    found = next((e for e in hints()["reading"] if all(_is_met(e[key], seen[key]) for key in e if key != "help")), None)
    return _of_parentheses(fault) or ("" if found is None else found["help"].format_map(seen))


def _is_met(wanted: object, seen: object) -> bool:
    if isinstance(seen, frozenset):
        return isinstance(wanted, list) and not seen.isdisjoint(wanted)
    return seen in wanted if isinstance(wanted, list) else seen == wanted


def _seen(fault: Fault) -> Mapping[str, object]:
    """Return the tokens around the unexpected one, by the keys of the table."""
    tokens, at, start = fault.tokens, fault.at, fault.start
    texts = [t.text for t in tokens[start : at + 1]]
    behind = [t.text for t in tokens[at + 1 : at + 3]]
    opener = inner_bracket(fault)
    return {
        "level": fault.level,
        "first": texts[0],
        "token": texts[-1],
        "kind": next((kind for kind in ("NAME", "NUMBER") if kind in fault.token.terminals), ""),
        "before": tokens[at - 1].text if at else "",
        "before_that": tokens[at - 2].text if at > 1 else "",
        "after": "".join(behind[:1]),
        "after_that": "".join(behind[1:]),
        "has": frozenset(texts[:-1]),
        "place": at - start,
        "expects": fault.expected,
        "inside": "" if opener is None else tokens[opener - 1].text,
        "written": " ".join(texts[:-1]),
    }


def inner_bracket(fault: Fault) -> int | None:
    """Return the number of the innermost open bracket of the statement, or None."""
    opened = [k for k in fault.open_brackets() if k >= fault.start]
    return opened[-1] if opened else None


def _of_parentheses(fault: Fault) -> str:
    """Return the help for a comma in parentheses that contain one expression, or ""."""
    tokens, k = fault.tokens, inner_bracket(fault)
    if fault.token.text != "," or not k or tokens[k].text != "(" or k == fault.start:
        return ""
    before = tokens[k - 1]
    if before.text == "[" or ("NAME" in before.terminals and before.text not in REACHING):
        return ""
    if tokens[fault.start].text == "graph":
        return "`wrap` is `true` or `false` for all axes alike" if tokens[k - 2].text == "wrap" else ""
    if {")", "in"} <= {t.text for t in tokens[fault.at : fault.at + 4]}:
        return "edges are looped over, `.. for (i, j) in G.edges`, and neighbours, `for j in G.neighbours(i)`"
    return "parentheses hold one expression; a list is written `[a, b]`" if "+" in fault.expected else ""
