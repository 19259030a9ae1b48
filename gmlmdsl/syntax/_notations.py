"""Mend notations of other languages that consist of more than a sign.

Examples are sets, arrows, percentages, sizes and bars. Each rule returns an edit that describes the
syntax of this language, or None if it does not apply. Rules for statements are in `_habits.py`,
those for loops in `_loops.py`. Signs and words are in `hints.toml`.

Maps and lists are mended too: keys without quotes, other signs after a key, and a pair of brackets
for each index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .._diagnostics import Diagnostic, Fix, Span
from ._fault import Edit, Fault, depth_of, resumption
from ._lex import CLOSING, OPENING, Token, closing, short

Faults = dict[int, Diagnostic]
COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
OPERATORS = COMPARISONS | {"+", "-", "*", "/", "//", "%", "^", "and", "or"}
IMPLICATIONS = ("->", "=>", "==>")
SIZED = frozenset({"vector", "row_vector", "array", "matrix", "real", "int", "float", "double"})
BEFORE_A_CONDITION = frozenset(
    {"require", "(", "if", "and", "or", "not", "then", "else", ",", "=", "&", "|", "&&", "||", "!", "->", "=>", "["}
)
THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(,[0-9]{3})+")
GROUP = re.compile(r"[0-9]{3}")
PAIRED = frozenset({"=", "=>", "->", ":="})  # signs between a key and its value
FOR_THE_REST = frozenset({"_", "else", "default", "otherwise", "other"})
TRUTH = {"true": "1", "True": "1", "false": "0", "False": "0"}


def membership(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `x[0] in {1, -1}` and `x[0] not in [1, 2]`."""
    tokens, at = fault.tokens, fault.at
    negated = fault.token.text == "not" and at + 1 < len(tokens) and tokens[at + 1].text == "in"
    opened = at + 1 + negated
    if (fault.token.text != "in" and not negated) or tokens[min(opened, len(tokens) - 1)].text not in OPENING or "==" not in fault.expected:
        return None
    close, first = closing(tokens, opened), _operand(tokens, at)
    if close is None or first is None:
        return None
    values = list(_parts(tokens, opened + 1, close))
    if not values or not all(values):
        return None
    if tokens[first - 1].text not in BEFORE_A_CONDITION and not tokens[first].opens_line:
        return None  # The left side is more than a cell: `a + x[0] in {1, 2}`.
    made, text = _compared(fault, tokens[first:at], values, *(("!=", "and") if negated else ("==", "or")))
    # `[1, 3]` and `(1, 3)` are two values in Python and an interval in mathematics.
    pair = tokens[opened].text != "{" and len(values) == 2
    interval = pair and all(v[-1].terminals == ("NUMBER",) for v in values)
    after = tokens[close + 1]
    ends = after.opens_line or after.text in (")", "then", "for", "")
    if not ends or tokens[first - 1].text not in ("require", "(", "if"):
        text, made = f"({text})", [fault.make("(", fault.token), *made, fault.make(")", fault.token)]
    place = fault.span(fault.token).to(fault.span(tokens[at + negated]))
    message, help_ = "`in` belongs to loops: a cell is compared with one value at a time", f"write `{cut(text)}`"
    fix = Fix(fault.span(tokens[first]).to(fault.span(tokens[close])), text, guess=interval)
    return Edit(first, close + 1, tuple(made), Diagnostic("E107", message, place, "", help=help_, fix=fix), far=0)


def _compared(fault: Fault, cell: list[Token], values: list[list[Token]], sign: str, join: str) -> tuple[list[Token], str]:
    """Return the comparisons of a cell with each of some values, joined, as tokens and as text."""
    compared = [[*cell, fault.make(sign, fault.token), *value] for value in values]
    made = [t for one in compared for t in (fault.make(join, fault.token), *one)][1:]
    left = text_of(fault, cell)
    return made, f" {join} ".join(f"{left} {sign} {text_of(fault, value)}" for value in values)


def _operand(tokens: list[Token], end: int) -> int | None:
    """Return the first token of a name, or of a name with indices, that ends before token `end`.

    The result is None if there is no such name.
    """
    k = end - 1
    if tokens[k].text == "]":
        k = _opening(tokens, k) - 1
    return k if k > 0 and "NAME" in tokens[k].terminals else None


def _parts(tokens: list[Token], start: int, end: int) -> Iterator[list[Token]]:
    """Yield the tokens between commas."""
    depth, part = 0, []
    for token in tokens[start:end]:
        depth += (token.text in OPENING) - (token.text in CLOSING)
        if token.text == "," and not depth:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def text_of(fault: Fault, tokens: list[Token]) -> str:
    return fault.source.text[tokens[0].start : tokens[-1].end]


def cut(text: str) -> str:
    return text if len(text) <= 60 else short(text)


def implication(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `require a == 1 -> b == 1`, and `require a => b` of two bits."""
    tokens, at = fault.tokens, fault.at
    start = next((k for k in (at, at - 1, at - 2) if k > fault.start and _arrow(fault, k)), None)
    if start is None or tokens[fault.start].text != "require":
        return None
    left = tokens[fault.start + 1 : start]
    end = start + len(_arrow(fault, start))
    if _is_bit(tokens, left) and _is_bit(tokens, tokens[end : _end_of_term(tokens, end)]):
        return _between_bits(fault, start, end)
    if depth_of(left) or COMPARISONS.isdisjoint(t.text for t in left):
        return None
    if _arrow(fault, start)[-1].text == ">" and not _compares(fault, end):
        return None
    arrow = fault.span(tokens[start]).to(fault.span(tokens[end - 1]))
    premise = text_of(fault, left)
    made = (fault.make("not", left[0]), fault.make("(", left[0]), *left, fault.make(")", left[0]), fault.make("or", left[0]))
    place = fault.span(left[0]).to(arrow)
    help_ = f"an implication is written `not (a) or b`: `{cut(f'not ({premise}) or ..')}`"
    diagnostic = Diagnostic("E107", f"`{arrow.text}` is not an operator", arrow, help=help_, fix=Fix(place, f"not ({premise}) or"))
    return Edit(fault.start + 1, end, made, diagnostic, whole=True)


def _between_bits(fault: Fault, start: int, end: int) -> Edit:
    """Mend an implication of two bits by `<=`: the first is 0, or both are 1."""
    arrow = fault.span(fault.tokens[start]).to(fault.span(fault.tokens[end - 1]))
    help_ = "write `<=`: of two bits the first implies the second where it is not the larger"
    diagnostic = Diagnostic("E107", f"`{arrow.text}` is not an operator", arrow, help=help_, fix=Fix(arrow, "<="))
    return Edit(start, end, (fault.make("<=", fault.tokens[start]),), diagnostic, whole=True)


def _end_of_term(tokens: list[Token], start: int) -> int:
    """Return the end of the expression of a `require` that continues at a token."""
    rest = enumerate(tokens[start:], start)
    return next((k for k, t in rest if (t.opens_line and k > start) or t.text in ("for", "}", ";", "")), len(tokens))


def _is_bit(tokens: list[Token], part: list[Token]) -> bool:
    """Return whether some tokens are one cell of variables that are all declared `: bit`."""
    if not part or "NAME" not in part[0].terminals:
        return False
    close = closing(part, 1) if len(part) > 1 and part[1].text == "[" else 0
    types = set(_types_of(tokens, part[0].text))
    return close == len(part) - 1 and types == {"bit"}


def _types_of(tokens: list[Token], name: str) -> Iterator[str]:
    """Yield the first words of the types with which variables of a name are declared."""
    for k, token in enumerate(tokens):
        if token.text not in ("var", "latent", "given"):
            continue
        end = next((j for j in range(k + 1, len(tokens)) if tokens[j].text == ":" or tokens[j].text in ("{", "}", "~", "")), len(tokens))
        parts = list(_parts(tokens, k + 1, end))
        if end + 1 < len(tokens) and any(part and part[0].text == name for part in parts):
            yield tokens[end + 1].text


def _arrow(fault: Fault, start: int) -> list[Token]:
    """Return the adjacent tokens of an arrow that begins at a token, or []."""
    for size in (3, 2, 1):
        found = fault.tokens[start : start + size]
        if len(found) == size and found[-1].text and fault.source.text[found[0].start : found[-1].end] in IMPLICATIONS:
            return found
    return []


def _compares(fault: Fault, start: int) -> bool:
    """Return whether the text after a token compares. `a == 1 => 2` may be a misspelt `>=`."""
    rest = fault.tokens[start:]
    end = next((k for k, t in enumerate(rest) if t.opens_line or not t.text or t.text == "for"), len(rest))
    return any(t.text in COMPARISONS or t.text in ("and", "or", "not") for t in rest[:end])


def with_depth(tokens: Sequence[Token], at: int) -> Iterator[tuple[int, int]]:
    """Yield each place from `at` on, and how many brackets are open between `at` and it."""
    depth = 0
    for k in range(at, len(tokens)):
        yield k, depth
        depth += (tokens[k].text in OPENING) - (tokens[k].text in CLOSING)


def bars(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `|x[0]|`, which is `abs(x[0])`."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "|" or "NUMBER" not in fault.expected:
        return None
    close = next((k for k in range(at + 1, len(tokens) - 1) if tokens[k].text == "|" or tokens[k].opens_line), None)
    if close is None or tokens[close].text != "|" or close == at + 1 or depth_of(tokens[at + 1 : close]):
        return None
    span = fault.span(fault.token).to(fault.span(tokens[close]))
    text = f"abs({span.text[1:-1].strip()})"
    name = fault.token._replace(terminals=("NAME",), text="abs")
    made = (name, fault.make("(", fault.token), *tokens[at + 1 : close], fault.make(")", tokens[close]))
    diagnostic = Diagnostic("E107", "bars are not an absolute value here", span, help=f"write `{cut(text)}`", fix=Fix(span, text))
    return Edit(at, close + 1, made, diagnostic, far=0)


def percentage(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `50%` if no divisor follows."""
    tokens = fault.tokens
    for k in range(fault.at, max(fault.start, fault.at - 3), -1):
        number, sign = tokens[k - 1], tokens[k]
        if (
            sign.text == "%"
            and number.terminals == ("NUMBER",)
            and number.end == sign.start
            and tokens[k + 1].start > sign.end - (k + 1 == fault.at)
        ):
            span, text = fault.span(number).to(fault.span(sign)), f"{float(number.text) / 100:.12g}"
            diagnostic = Diagnostic(
                "E107", "a share is written as a number", span, "a percentage", help=f"write `{text}`", fix=Fix(span, text)
            )
            return Edit(k - 1, k + 1, (number._replace(text=text),), diagnostic, far=1)
    return None


def thousands(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `1,000` in a place without commas."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "," or at + 1 >= len(tokens):
        return None
    end = at
    while tokens[end].text == "," and tokens[end].start == tokens[end - 1].end and GROUP.fullmatch(tokens[end + 1].text):
        end += 2
    span = fault.span(tokens[at - 1]).to(fault.span(tokens[end - 1]))
    if end == at or not THOUSANDS.fullmatch(span.text):
        return None
    text = span.text.replace(",", "")
    diagnostic = Diagnostic(
        "E114",
        f"`{short(span.text)}` is not a number",
        span,
        "a comma",
        help=f"write `{text}`, or with a decimal point `{span.text.replace(',', '.', 1)}`",
        fix=Fix(span, text, guess=span.text.count(",") == 1),
    )
    return Edit(at - 1, end, (tokens[at - 1]._replace(text=text),), diagnostic, far=1)


def decimal_comma(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `0,5 * x`."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "," or at + 1 >= len(tokens) or not fault.previous or not fault.previous.text.isdigit():
        return None
    if not tokens[at + 1].text.isdigit() or tokens[at + 1].start != fault.token.end or fault.previous.end != fault.token.start:
        return None
    span = fault.span(fault.previous).to(fault.span(tokens[at + 1]))
    text = span.text.replace(",", ".")
    diagnostic = Diagnostic("E114", f"`{short(span.text)}` is not a number", span, "a comma", help=f"write `{text}`", fix=Fix(span, text))
    return Edit(at - 1, at + 2, (fault.previous._replace(text=text),), diagnostic, far=1)


def product_without_a_sign(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `2(x + y)`."""
    before = fault.previous
    if fault.token.text != "(" or before is None or before.terminals != ("NUMBER",) or "*" not in fault.expected:
        return None
    if before.end != fault.token.start:
        return None
    place = Span(fault.source, before.end, before.end)
    message, help_ = "between a number and a bracket stands an operator", f"write `{short(before.text)} * (..)`"
    span, fix = fault.span(before).to(fault.span(fault.token)), Fix(place, " * ")
    diagnostic = Diagnostic("E114", message, span, "no sign", help=help_, fix=fix)
    return Edit(fault.at, fault.at, (fault.make("*", before),), diagnostic, far=1)


def member_of_a_range(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `k in range(3)` in a condition."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "in" or tokens[min(at + 1, len(tokens) - 1)].text != "range" or "==" not in fault.expected:
        return None
    opened = fault.open_brackets()
    if opened and tokens[opened[-1]].text == "[":
        return None
    close, first = closing(tokens, at + 2), _operand(tokens, at)
    parts = list(_parts(tokens, at + 3, close)) if close is not None else []
    if first is None or close is None or len(parts) not in (1, 2) or not all(parts):
        return None
    cell, below = tokens[first:at], (fault.make("<", fault.token), *parts[-1])
    made, text = (*cell, *below), f"{text_of(fault, cell)} < {text_of(fault, parts[-1])}"
    if len(parts) == 2:
        made = (*parts[0], fault.make("<=", fault.token), *cell, fault.make("and", fault.token), *made)
        text = f"{text_of(fault, parts[0])} <= {text_of(fault, cell)} and {text}"
    span = fault.span(tokens[first]).to(fault.span(tokens[close]))
    message = "`in` belongs to loops: a cell is compared with one value at a time"
    diagnostic = Diagnostic("E107", message, fault.span(fault.token), help=f"write `{cut(text)}`", fix=Fix(span, text))
    return Edit(first, close + 1, tuple(made), diagnostic, far=0)


def condition_in_brackets(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `[x[i] == "A"]`, which is 1 or 0 in papers."""
    tokens, at = fault.tokens, fault.at
    close = closing(tokens, at) if fault.token.text == "[" and "NUMBER" in fault.expected else None
    if close is None or COMPARISONS.isdisjoint(t.text for t in tokens[at:close]):
        return None
    span = fault.span(fault.token).to(fault.span(tokens[close]))
    text = f"({span.text[1:-1]})"
    made = (fault.make("(", fault.token), *tokens[at + 1 : close], fault.make(")", tokens[close]))
    message, help_ = "a condition counts as 1 or 0 without square brackets", f"write `{cut(text)}`"
    return Edit(at, close + 1, made, Diagnostic("E107", message, span, help=help_, fix=Fix(span, text)), far=0)


def list_of_a_term(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `factor [0.1, 0.9][b]` and `2 * [0.1, 0.9][b]`.

    A bracket after `factor` is parsed as an index of an array with that name.
    """
    tokens, first = fault.tokens, fault.tokens[fault.start].text
    behind = first in ("factor", "require") and tokens[fault.start + 1].text == "[" and fault.at > fault.start + 1
    at = fault.start + 1 if behind else _list_beside_an_operator(fault)
    end = None if at is None else closing(tokens, at)
    end = closing(tokens, end + 1) if end is not None and tokens[end + 1].text == "[" else None
    if at is None or end is None:
        return None
    text = f"({text_of(fault, tokens[at : end + 1])})"
    made = (fault.make("(", tokens[at]), *tokens[at : end + 1], fault.make(")", tokens[end]))
    span = fault.span(tokens[at]).to(fault.span(tokens[end]))
    message = f"a list with its index stands in parentheses {f'behind `{first}`' if behind else 'beside an operator'}"
    return Edit(at, end + 1, made, Diagnostic("E101", message, span, help=f"write `{cut(text)}`", fix=Fix(span, text)), far=0)


def _list_beside_an_operator(fault: Fault) -> int | None:
    """Return the first token of a list beside an operator, or None.

    The list follows an operator, `2 * [..`, or it has an index and precedes one, `= [..][b] *`.
    """
    tokens, at = fault.tokens, fault.at
    if fault.token.text == "[":
        return at if at and tokens[at - 1].text in OPERATORS else None
    if fault.token.text not in OPERATORS:
        return None
    first = _opening(tokens, _opening(tokens, at - 1) - 1)
    return first if first > 0 and tokens[first - 1].text in ("=", "then", "else", "(", ",") else None


def _opening(tokens: list[Token], close: int) -> int:
    """Return the square bracket that a token closes, or 0."""
    depth = 0
    for j in range(close, -1, -1):
        depth += (tokens[j].text in CLOSING) - (tokens[j].text in OPENING)
        if depth <= 0:
            return j if depth == 0 and tokens[j].text == "[" else 0
    return 0


def double_index(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `J[i][j]`."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "[" or not fault.previous or fault.previous.text != "]" or fault.token.opens_line:
        return None
    first, close = _operand(tokens, at), closing(tokens, at)
    return None if first is None or close is None else _in_one_pair(fault, first, close)


def _in_one_pair(fault: Fault, first: int, close: int) -> Edit:
    """Return the edit of `a[i][j]`, from its token `first` to its last bracket, to `a[i, j]`."""
    tokens, at = fault.tokens, fault.at
    span = fault.span(tokens[at - 1]).to(fault.span(tokens[at]))
    help_ = f"write `{cut(text_of(fault, tokens[first : close + 1]).replace(span.text, ', '))}`"
    message = "all indices stand in one pair of brackets"
    diagnostic = Diagnostic("E107", message, span, help=help_, fix=Fix(span, ", "))
    return Edit(at - 1, at + 1, (fault.make(",", fault.token),), diagnostic, far=1)


def second_condition(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `for i in a if p for j in b if q`, and `for i in a if p if q`."""
    tokens, at, first = fault.tokens, fault.at, _condition_before(fault)
    if fault.token.text not in ("for", "if") or first is None:
        return None
    end = next(k for k, depth in with_depth(tokens, at) if _ends_clauses(tokens[k], depth))
    inner = ((k, tokens[k].text) for k, depth in with_depth(tokens[:end], at) if not depth)
    second, condition = next((k for k, text in inner if text == "if"), end), tokens[first + 1 : at]
    if not condition or "or" in (t.text for t in tokens[second:end]):
        return None
    parts, written = operand_of_and(fault, condition, tokens[first])
    loops = tokens[at:second]
    made, text = [*loops, tokens[first], *parts], f"if {written}"
    text = f"{text_of(fault, loops)} {text}".lstrip() if loops else text
    stop, help_ = end, f"write `{cut(text)}`"
    if second < end:
        made, text = [*made, fault.make("and", tokens[second])], f"{text} and"
        stop, help_ = second + 1, f"join conditions with `and`: `{cut(text)} ..`"
    span, message = fault.span(tokens[first]).to(fault.span(tokens[stop - 1])), "one `if` stands behind all loops"
    diagnostic = Diagnostic("E101", message, fault.span(tokens[first]), "", help=help_, fix=Fix(span, text))
    return Edit(first, stop, tuple(made), diagnostic, whole=True)


def _condition_before(fault: Fault) -> int | None:
    """Return the `if` of the condition that ends at the unexpected token, or None."""
    tokens, depth = fault.tokens, 0
    for k in range(fault.at - 1, fault.start, -1):
        depth += (tokens[k].text in OPENING) - (tokens[k].text in CLOSING)
        if tokens[k].text in ("if", "for") and not depth:
            is_term = "then" in [t.text for t in tokens[k : fault.at]]
            return None if is_term or tokens[k].text == "for" else k
    return None


def _ends_clauses(token: Token, depth: int) -> bool:
    """Return whether loops and conditions end before a token, at which so many brackets are open."""
    closes = depth <= 0 and token.text in ("}", ")", "weight", "rate")
    return token.opens_line or not token.text or closes


def operand_of_and(fault: Fault, condition: list[Token], like: Token) -> tuple[list[Token], str]:
    """Return a condition as an operand of `and`, as tokens and as text.

    It has parentheses if it contains `or`. New tokens stand in the place of the token `like`.
    """
    text = text_of(fault, condition)
    if "or" not in (t.text for t in condition):
        return condition, text
    return [fault.make("(", like), *condition, fault.make(")", like)], f"({text})"


def size_behind_a_type(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `param h : real[4]` and `input h : real[4]`."""
    tokens, at, first = fault.tokens, fault.at, fault.tokens[fault.start]
    if fault.token.text != "[" or at < 3 or tokens[at - 2].text != ":" or "NAME" not in tokens[at - 1].terminals:
        return None
    close, name = closing(tokens, at), tokens[at - 3]
    if close is None or first.text not in ("input", "param", "var", "latent", "given") or fault.start + 1 != at - 3:
        return None
    sizes = [text_of(fault, part) for part in _parts(tokens, at + 1, close) if part]
    written = tokens[at - 1].text
    type_ = "real" if written in SIZED else "bit" if written in ("bool", "boolean") else written
    axes = sized_axes(sizes, first.text == "input")
    span, text = fault.span(name).to(fault.span(tokens[close])), f"{name.text}[{axes}] : {type_}"
    diagnostic = Diagnostic("E109", "the sizes of an array stand behind its name", span, help=f"write `{text}`", fix=Fix(span, text))
    made = (name, tokens[at - 2], tokens[at - 1]._replace(text=type_))
    return Edit(at - 3, close + 1, made, diagnostic, far=1)


def sized_axes(sizes: list[str], is_input: bool) -> str:
    """Return axes of these sizes.

    For an input these are the sizes alone, and otherwise an index name for each size.
    """
    return ", ".join(sizes if is_input else [f"{i} in range({n})" for i, n in zip("ijklmnabcd", sizes, strict=False)])


def drawn_block(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `where K in swap`: a block is drawn from a mask."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text not in ("in", "=", "from", ":") or at < 2 or tokens[at - 2].text != "where" or "~" not in fault.expected:
        return None
    span, name, message = fault.span(fault.token), tokens[at - 1].text, "a block is drawn from a mask"
    # The target is `update x`, and not `update x[K]`.
    if name not in (t.text for t in tokens[fault.start : at - 2]):
        made, whole = (fault.make("by", tokens[at - 2]),), fault.span(tokens[at - 2]).to(span)
        help_ = f"write `by {tokens[at + 1].text}`, or name the cells, `x[{name}]`, and write `where {name} ~ {tokens[at + 1].text}`"
        return Edit(at - 2, at + 1, made, Diagnostic("E107", message, span, "", help=help_, fix=Fix(whole, "by")), far=1)
    help_ = f"write `where {name} ~ {tokens[at + 1].text}`"
    made = (fault.make("~", fault.token),)
    return Edit(at, at + 1, made, Diagnostic("E107", message, span, "", help=help_, fix=Fix(span, "~")), far=1)


NOTATIONS = (
    drawn_block,
    membership,
    implication,
    bars,
    percentage,
    thousands,
    decimal_comma,
    product_without_a_sign,
    member_of_a_range,
    condition_in_brackets,
    list_of_a_term,
    double_index,
    second_condition,
    size_behind_a_type,
)


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
    return _in_one_pair(fault, first, close)


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
