"""Match a broken statement against the table `reading` of `hints.toml`.

An entry of the table describes the tokens of a statement and a help for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ._fault import Fault
from ._habits import is_drawn
from ._hints import hints
from ._lex import Token

# words before a parenthesis that groups an expression
REACHING = ("if", "in", "and", "or", "not", "then", "else")


def told_by_reading(fault: Fault) -> str:
    """Return the help of the first entry whose keys all match, or ""."""
    seen = _seen(fault)
    found = next((e for e in hints()["reading"] if all(_holds(key, e[key], seen) for key in e if key != "help")), None)
    return _of_parentheses(fault) or ("" if found is None else found["help"].format_map(seen))


def _holds(key: str, wanted: object, seen: Mapping[str, object]) -> bool:
    """Whether a key of an entry is met; `not_token` is met where `token` would not be."""
    return not _is_met(wanted, seen[key.removeprefix("not_")]) if key.startswith("not_") else _is_met(wanted, seen[key])


def _is_met(wanted: object, seen: object) -> bool:
    if isinstance(seen, frozenset):
        return isinstance(wanted, list) and not seen.isdisjoint(wanted)
    return seen in wanted if isinstance(wanted, list) else seen == wanted


def _seen(fault: Fault) -> Mapping[str, object]:
    """Return the tokens around the unexpected one, by the keys of the table."""
    tokens, at, start, token = fault.tokens, fault.at, fault.start, fault.token
    texts = [t.text for t in tokens[start : at + 1]]
    behind = [t.text for t in tokens[at + 1 : at + 4]]
    after = tokens[min(at + 1, len(tokens) - 1)]
    opener = inner_bracket(fault)
    named = [t.text for t in tokens[start : at + 4]]
    return {
        "level": fault.level,
        "first": texts[0],
        "first_kind": _kind(tokens[start]),
        "second": tokens[min(start + 1, len(tokens) - 1)].text,
        "token": texts[-1],
        "token_begins": token.text[:1],
        "two_letters": fault.source.text[token.start : token.start + 2],
        "kind": _kind(token),
        "kind_any": bool(token.terminals),
        "before": tokens[at - 1].text if at else "",
        "before_begins": tokens[at - 1].text.lower()[:3] if at else "",
        "before_kind": _kind(tokens[at - 1]) if at else "",
        "before_that": tokens[at - 2].text if at > 1 else "",
        "after": "".join(behind[:1]),
        "after_kind": _kind(after),
        "after_that": "".join(behind[1:2]),
        "soon": frozenset(behind),
        "has": frozenset(texts[:-1]),
        "place": at - start,
        "expects": fault.expected,
        "inside": "" if opener is None else tokens[opener - 1].text,
        "inside_at": -1 if opener is None else opener - start,
        "open": frozenset(tokens[k].text for k in fault.open_brackets() if k > start),
        "depth": len(fault.open_brackets()),
        "written": " ".join(texts[:-1]),
        "touches": bool(at) and tokens[at - 1].end == token.start,
        "opens_line": token.opens_line,
        "ends_line": token.opens_line or not token.text,
        "says_in": _says_in(fault),
        "has_dots": token.text.count("..") == 1,
        "has_if_line": any(t.text == "if" and t.opens_line for t in tokens[start:at]),
        "is_density": any(name.endswith(("_lpmf", "_lpdf", "_logpmf", "_logpdf")) for name in named),
        "is_drawn": is_drawn(fault),
    }


def _kind(token: Token) -> str:
    return next((kind for kind in ("NAME", "NUMBER") if kind in token.terminals), "")


def _says_in(fault: Fault) -> bool:
    """Whether an `in` follows on this line: `var x[i, j in G.edges]` names a pair."""
    rest = fault.tokens[fault.at :]
    end = next((k for k, t in enumerate(rest) if t.opens_line or t.text in ("]", "")), len(rest))
    return any(t.text == "in" for t in rest[:end])


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
