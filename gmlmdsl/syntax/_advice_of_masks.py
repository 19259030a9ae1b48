"""Advice for a graph, a mask, a sampler or a verifier that cannot be read."""

from __future__ import annotations

from collections.abc import Callable

from ._fault import Fault
from ._lex import Token
from ._words import SAMPLER_WORDS

JUDGES = {
    "verifier": "a verifier is a form: `= completable(m)` takes what a model m allows, where `require` says it; or "
    '`= python("package.module:name")`',
    "value": "a value is a form: `= expected(m)` is how good a model m says a string is, by its factors; or "
    '`= python("package.module:name")`',
}
JOINS = ("+", "-", "*", "|", "or", "and", "not")
MIXED = "masks are not joined by operators: `mixture { 1 : one  1 : other }` draws one of them"
LIST_OF_MASKS = "several masks are a mixture: `mixture { 1 : one  1 : other }` draws one of them"
SLICE = "an index is one cell; several are a block with a loop: `{x[i] for i in range(6)}`, or `{x[i, j] for j in range(6)}`"
ROWS = "rows and columns are taken in turn: `update x[r] for r in G.rows`; of m columns row r holds `x[m * r + c] for c in range(m)`"
DRAWS = "how many draws there are is told in Python, `model.sample(params, draws=1000)`; the same again is `repeat 10 { .. }`"


def advice_of_masks(fault: Fault, first: Token) -> str:
    """What a graph, mask, sampler or verifier that cannot be read may be meant for; empty where nothing is known."""
    return next((told for advise in ADVICE if (told := advise(fault, first))), "")


def inner_bracket(fault: Fault) -> int | None:
    """The number of the innermost bracket of the statement that is open."""
    opened = [k for k in fault.open_brackets() if k >= fault.start]
    return opened[-1] if opened else None


def _of_parentheses(fault: Fault, first: Token) -> str:
    """A comma in parentheses that hold one expression."""
    tokens, k = fault.tokens, inner_bracket(fault)
    if fault.token.text != "," or k is None or tokens[k].text != "(" or k == fault.start or tokens[k - 1].text == "[":
        return ""
    if "NAME" in tokens[k - 1].terminals and tokens[k - 1].text not in ("if", "in", "and", "or", "not", "then", "else"):
        return ""
    if first.text == "graph":
        return "`wrap` is `true` or `false` for all axes alike" if tokens[k - 2].text == "wrap" else ""
    rest = [t.text for t in tokens[fault.at : fault.at + 4]]
    if ")" in rest and rest[-1] == "in":
        return "edges are looped over, `.. for (i, j) in G.edges`, and neighbours, `for j in G.neighbours(i)`"
    return "parentheses hold one expression; a list is written `[a, b]`" if "+" in fault.expected else ""


def _of_graph(fault: Fault, first: Token) -> str:
    token, before = fault.token, fault.previous.text if fault.previous else ""
    if first.text == "index" and token.text == "if":
        return "the members that a condition keeps have a name: `index core = i in G.nodes if G.degree(i) >= 2`"
    if first.text == "graph" and token.text == "." and before == ")":
        return "options stand in the parentheses, such as `grid(4, 4, wrap = true)`; parts are named where they are used: `G.edges`"
    if token.text == "[" and before in ("rows", "columns") and fault.tokens[fault.at - 2].text == ".":
        return ROWS
    return ""


def _of_mask(fault: Fault, first: Token) -> str:
    token, before = fault.token, fault.previous.text if fault.previous else ""
    k = inner_bracket(fault)
    if token.text == ":" and k is not None and fault.tokens[k - 1].text == "mixture":
        return "the rows of a mixture stand between braces: `mixture { 0.5 : first  0.5 : second }`"
    if fault.level.endswith("row") and token.text == "-":
        return "a weight is at least 0; a row opens with it: `0.5 : ..`"
    if first.text != "mask":
        return ""
    if token.text == "[" and (fault.tokens[fault.at - 2].text in ("sees", "given") or "=" in fault.expected):
        return f"`sees` names whole variables: `sees {before}`"
    if token.text in ("sees", "given"):
        return "what a mask looks at stands in its header: `mask name sees x { each .. : x[i] for i in site }`"
    if token.text == "(" and fault.at == fault.start + 2:
        return f"a mask has a name: `mask name = {before}(..)`"
    return ""


def _of_mask_body(fault: Fault, first: Token) -> str:
    """The same between the braces of a mask."""
    token, before = fault.token, fault.previous.text if fault.previous else ""
    if fault.level != "mask_statement":
        return ""
    if first.text == "each" and token.text == "{":
        return "`each` draws cells one by one, `each 0.5 : x[i] for i in site`; a block that is drawn as a whole is of `choose`"
    if token.text in ("weight", "rate") and token.text not in fault.expected:
        return "a weight and a rate stand once, in front of the `:`"
    if fault.at == fault.start and token.text in ("if", "else"):
        return "a condition is part of the weight: `choose if x[0] == 1 then 1 else 0 : {x[1]}`"
    return "an `else` is part of the weight: `choose if x[0] == 1 then 2 else 1 : {x[1]}`" if before == "else" else ""


def _of_cells(fault: Fault, first: Token) -> str:
    """The same of blocks, and of masks in the place of one."""
    token, before = fault.token, fault.previous.text if fault.previous else ""
    if first.text not in ("mask", "update", "choose", "each"):
        return ""
    if token.text == ":" and ("]" in fault.expected or before in ("[", ",")):
        return SLICE
    if token.text == "{" and before == "{":
        return "blocks stand side by side: `blocks({x[0], x[1]}, {x[2]})`"
    if token.text == "[" and before in ("=", "~", "by"):
        return LIST_OF_MASKS
    joins = before == ")" or fault.tokens[fault.at - 2].text in ("=", "~", "by") or token.text == "not"
    named = first.text == "mask" or any(t.text in ("where", "by") for t in fault.tokens[fault.start : fault.at])
    return MIXED if token.text in JOINS and joins and named and inner_bracket(fault) is None else ""


def _of_update(fault: Fault, first: Token) -> str:
    token = fault.token
    if fault.level != "sampler_statement":
        return ""
    if fault.at == fault.start and token.text == "independently":
        return "it stands behind the block: `update x independently`"
    if fault.at == fault.start and token.text == "if":
        return "a condition stands behind a loop: `update x[i] for i in site if i % 2 == 0`"
    behind = [t.text for t in fault.tokens[fault.at + 1 : fault.at + 3]]
    if fault.at == fault.start and behind[:1] == ["="] and behind[1] in SAMPLER_WORDS:
        return f"a statement of a sampler has no name: `{behind[1]} ..`"
    if fault.at == fault.start and behind[:1] == ["~"]:
        return f"a block is drawn where it is updated: `update {token.text} where {token.text} ~ mask`"
    return _of_words_of_an_update(fault, first)


def _of_words_of_an_update(fault: Fault, first: Token) -> str:
    token, before = fault.token, fault.previous.text if fault.previous else ""
    if first.text == "start":
        return "a draw begins with that of a decoder by `start from NAME`"
    if first.text == "update" and token.text == "~" and fault.tokens[fault.at - 2].text == "by":
        return "write `update x by m`, or `update x[K] where K ~ m`"
    looped = any(t.text == "for" for t in fault.tokens[fault.start : fault.at])
    if first.text == "update" and looped and "NAME" in token.terminals and inner_bracket(fault) is None and before in (")", "]"):
        return DRAWS
    return ""


def _of_bodies(fault: Fault, first: Token) -> str:
    """The same of `repeat` and `cycle`."""
    token, before = fault.token, fault.previous.text if fault.previous else ""
    if first.text == "cycle" and token.text == "(":
        return "`cycle` groups what runs in order, and takes no number; the same again is `repeat 10 { .. }`"
    if first.text == "repeat" and before in ("until", "while"):
        return "a number says how often: `repeat 10 { .. }`; a chain does not wait for what it draws"
    if first.text in ("repeat", "cycle") and "{" in fault.expected and token.text in SAMPLER_WORDS:
        written = " ".join(t.text for t in fault.tokens[fault.start : fault.at])
        return f"its body stands between braces: `{written} {{ {token.text} .. }}`"
    return ""


def _of_judge(fault: Fault, first: Token) -> str:
    """The same of a verifier, a value and a `conditional`."""
    if first.text == "conditional" and fault.token.text == ",":
        return "a network predicts one array: take a model for each, or one array for both"
    if fault.level != "statement" or first.text not in JUDGES or fault.at < fault.start + 2:
        return ""
    code = any(t.text == "lambda" for t in fault.tokens[fault.start : fault.at])
    return JUDGES[first.text] if code or fault.token.text in ("{", "(", "[") else ""


ADVICE: tuple[Callable[[Fault, Token], str], ...] = (
    _of_parentheses,
    _of_graph,
    _of_mask,
    _of_mask_body,
    _of_cells,
    _of_update,
    _of_bodies,
    _of_judge,
)
