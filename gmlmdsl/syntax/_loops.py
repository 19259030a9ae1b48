"""Mend loops as other languages write them: in front of their body, or counted from 1.

The loop moves after each statement of its body.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .._diagnostics import Diagnostic, Fix, Span
from ._fault import Edit, Fault, column, depth_of
from ._lex import Token, closing
from ._notations import cut, operand_of_and, text_of, with_depth
from ._words import LEVELS, STATEMENT_WORDS
from .limits import MOST_DIGITS, MOST_STATEMENTS

RANGE_WORDS = ("to", ":", "..")
BINDS = ("in", "=", "from")
# the number of names -> the members of parts of graphs
MEMBERS = {2: r"\w+ *, *\w+ +in +\w+\.(edges|arcs)\b", 3: r"\w+ *, *\w+ *, *\w+ +in +\w+\.triangles\b"}
Faults = dict[int, Diagnostic]
REPEATED = {"model_statement": ("factor", "require"), "mask_statement": ("choose", "each"), "sampler_statement": ("update",)}


def counted_range(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `for i = 1 to 4`, `for i in 1:4` and `for i in 0..3`."""
    tokens, at = fault.tokens, fault.at
    k = next((k for k in range(at, max(fault.start + 1, at - 3), -1) if tokens[k].text in BINDS), None)
    if k is None or "NAME" not in tokens[k - 1].terminals or tokens[k - 2].text not in ("for", "[", ",") or tokens[k + 1].opens_line:
        return None
    found = counted(fault, k + 1)
    if found is None:
        return None
    written, end = found
    size = "".join(t.text for t in written[2:-1])
    name, last = tokens[k - 1].text, _last(size)
    span = fault.span(tokens[k - 1]).to(fault.span(tokens[end - 1]))
    text = f"{name} in range({' + '.join(size.split('+'))})"
    fix, told = Fix(span, text, guess=True), f"write `{text}`: {name} is 0 to {last}"
    diagnostic = Diagnostic("E107", "indices are counted from 0, over a range", span, help=told, fix=fix)
    return Edit(k, end, (fault.make("in", tokens[k]), *written), diagnostic, far=1)


def _last(size: str) -> str:
    """Return the last member of a range of this size."""
    return str(int(size) - 1) if size.isdigit() and len(size) <= MOST_DIGITS else f"{cut(size)} - 1".removesuffix("+1 - 1")


def counted(fault: Fault, start: int) -> tuple[tuple[Token, ...], int] | None:
    """Return `range(n)` for a range from 0 or 1 in other languages, and the token after it.

    The result is None if there is no such range at token `start`.
    """
    tokens, bounds = fault.tokens, _bounds(fault, start)
    if bounds is None or bounds[0] not in ("0", "1"):
        return None
    low, high, end = bounds
    like = tokens[start]
    number = like._replace(terminals=("NUMBER",), opens_line=False)
    if high.isdigit() and len(high) <= MOST_DIGITS:
        size = (number._replace(text=str(int(high) + (low == "0"))),)
    else:
        size = (tokens[end - 1], *((fault.make("+", like), number._replace(text="1")) if low == "0" else ()))
    return (like._replace(terminals=("NAME",), text="range"), fault.make("(", like), *size, fault.make(")", like)), end


def _bounds(fault: Fault, start: int) -> tuple[str, str, int] | None:
    """Return the first and the last number of a range in other languages, and the token after it.

    The result is None if there is no such range.
    """
    tokens = fault.tokens
    whole = re.fullmatch(r"([0-9]+)\.\.([0-9]+)", tokens[start].text)
    if whole:
        return whole[1], whole[2], start + 1
    if start + 2 >= len(tokens) or tokens[start].terminals != ("NUMBER",):
        return None
    middle = next((n for n in (1, 2) if _words_at(fault, start + 1, n) in RANGE_WORDS), None)
    if middle is None or start + 1 + middle >= len(tokens):
        return None
    high = tokens[start + 1 + middle]
    if high.opens_line or not {"NAME", "NUMBER"} & set(high.terminals):
        return None
    return tokens[start].text, high.text, start + 2 + middle


def _words_at(fault: Fault, start: int, n: int) -> str:
    return fault.source.text[fault.tokens[start].start : fault.tokens[start + n - 1].end]


def word_behind_for(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `for all i in site` and `for each i in site`."""
    word = fault.previous
    if (
        word is None
        or word.text not in ("all", "each", "every")
        or fault.tokens[fault.at - 2].text != "for"
        or "NAME" not in fault.token.terminals
    ):
        return None
    span = Span(fault.source, word.start, fault.token.start)
    diagnostic = Diagnostic(
        "E107",
        f"`for` takes the name of an index, not `{word.text}`",
        fault.span(word),
        "",
        help=f"write `for {fault.token.text} in ..`",
        fix=Fix(span, ""),
    )
    return Edit(fault.at - 1, fault.at, (), diagnostic, far=1)


def loop_in_brackets(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `for (i in site)`."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "in" or at < 3 or tokens[at - 2].text != "(" or tokens[at - 3].text != "for":
        return None
    close = closing(tokens, at - 2)
    if close is None or close <= at:  # A bracket of another kind closes before the loop.
        return None
    span = fault.span(tokens[at - 2]).to(fault.span(tokens[close]))
    text = text_of(fault, tokens[at - 1 : close])
    diagnostic = Diagnostic("E107", "a loop has no parentheses", span, "", help=f"write `for {cut(text)}`", fix=Fix(span, text))
    return Edit(at - 2, close + 1, tuple(tokens[at - 1 : close]), diagnostic, far=0)


def comprehension(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `sum([x[i] for i in site])`, a list comprehension of Python."""
    tokens, opened = fault.tokens, fault.open_brackets()
    if fault.token.text != "for" or not opened or tokens[opened[-1]].text != "[" or tokens[opened[-1] - 1].text != "(":
        return None
    close = closing(tokens, opened[-1])
    if close is None or tokens[close + 1].text != ")":
        return None
    span = fault.span(tokens[opened[-1]]).to(fault.span(tokens[close]))
    inside = tokens[opened[-1] + 1 : close]
    text = text_of(fault, inside)
    diagnostic = Diagnostic(
        "E107", "a loop stands in no list", span, "", help=f"write `{cut(text)}` without the brackets", fix=Fix(span, text)
    )
    return Edit(opened[-1], close + 1, tuple(inside), diagnostic, far=1)


def bare_pair(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `for i, j in G.edges`."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "," or at < 2 or tokens[at - 2].text != "for" or "in" not in fault.expected:
        return None
    text = fault.source.text[tokens[at - 1].start :]
    found = next((n for n, pattern in MEMBERS.items() if re.match(pattern, text)), 0)
    if not found:
        return None
    end = at + 2 * found - 2
    span = fault.span(tokens[at - 1]).to(fault.span(tokens[end - 1]))
    text, like = f"({span.text})", tokens[at - 1]
    what = "a pair stands" if found == 2 else "three names stand"
    diagnostic = Diagnostic("E107", f"{what} in parentheses", span, "", help=f"write `for {text}`", fix=Fix(span, text))
    return Edit(at - 1, end, (fault.make("(", like), *tokens[at - 1 : end], fault.make(")", like)), diagnostic, far=1)


def loop_of_a_repeat(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `repeat for s in range(3) { .. }`."""
    if fault.token.text != "for" or fault.previous is None or fault.previous.text != "repeat" or fault.level != "sampler_statement":
        return None
    after = fault.tokens[fault.at + 1]
    span = Span(fault.source, fault.token.start, after.start)
    help_ = f"write `repeat {after.text} in ..`"
    diagnostic = Diagnostic("E107", "`repeat` takes its index without `for`", fault.span(fault.token), "", help=help_, fix=Fix(span, ""))
    return Edit(fault.at, fault.at + 1, (), diagnostic, far=1)


LOOPS = (counted_range, word_behind_for, loop_in_brackets, comprehension, bare_pair, loop_of_a_repeat)


@dataclass(frozen=True)
class _Loop:
    """A loop in the syntax of this language.

    Attributes:
        text: the text.
        tokens: the tokens.
        index: its index, if it has only one.
        size: the tokens inside its `range`.
        shifted: whether it counted from 1.
    """

    text: str
    tokens: tuple[Token, ...]
    index: str = ""
    size: tuple[Token, ...] = ()
    shifted: bool = False


@dataclass(frozen=True)
class _Front:
    """The loops in front of a statement, and their conditions."""

    loops: tuple[_Loop, ...] = ()
    conditions: tuple[tuple[Token, ...], ...] = ()


@dataclass
class _Body:
    """The statements of a body.

    Attributes:
        texts: the statements, each followed by its loops.
        tokens: the tokens of these statements.
        loops: all the loops.
        end: the token at which parsing resumes.
    """

    texts: list[str]
    tokens: list[Token]
    loops: list[_Loop]
    end: int


def loop_in_front(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `for i in site { factor h[i] * x[i] }` and `for i = 1 to 4: update x[i]`."""
    at, word = fault.at, fault.token
    body = _behind(fault, at, _Front()) if word.text == "for" and at == fault.start and fault.level in REPEATED else None
    if body is None or not 0 < len(body.texts) <= MOST_STATEMENTS:
        return None
    span = Span(fault.source, word.start, fault.tokens[body.end - 1].end)
    shifted = next((loop for loop in body.loops if loop.shifted), None)
    # The fix would change the order of updates there.
    guess = shifted is not None or (len(body.texts) > 1 and fault.level == "sampler_statement")
    margin = " " * (column(fault, word) - 1)
    fix = None if "#" in span.text else Fix(span, f"\n{margin}".join(body.texts), guess)
    told = f"; {shifted.index} counts from 0" if shifted else ""
    where = f"a loop stands behind {'its' if len(body.texts) == 1 else 'each'} statement"
    where = "the same again is" if body.tokens[0].text == "repeat" else f"{where}:"
    help_ = f"{where} `{cut(' '.join(body.texts[0].split()))}`{told}"
    diagnostic = Diagnostic("E105", "`for` opens no statement", fault.span(word), "not here", help=help_, fix=fix)
    # The edit is accepted where the loop begins. Faults of its statements are reported separately.
    far = 1 - len(body.tokens)
    return Edit(at, body.end, tuple(body.tokens), diagnostic, far=far)


def _behind(fault: Fault, at: int, outer: _Front) -> _Body | None:
    """Return the body of a loop that begins at token `at`, or None.

    Each of its statements is followed by this loop and the enclosing loops.
    """
    loops, conditions, k = outer.loops, outer.conditions, at
    while fault.tokens[k].text == "for":
        found = _loop(fault, k)
        if found is None:
            return None
        loops, k = (*loops, found[0]), found[1]
    if fault.tokens[k].text == "if":
        first, k = k + 1, _condition_end(fault, k + 1)
        conditions = (*conditions, tuple(fault.tokens[first:k]))
    inside = _inside(fault, at, k) if () not in conditions else None
    if inside is None:
        return None
    k, last, end = inside
    front = _Front(loops, conditions)
    body = _Body([], [], list(loops), end)
    while k < last:
        if fault.tokens[k].text == "for":
            nested = _behind(fault, k, front)
            if nested is None:
                return None
            body.texts += nested.texts
            body.tokens += nested.tokens
            body.loops += nested.loops
            k = nested.end
            continue
        stop = next((j for j in range(k, last) if _ends(fault, k, j)), last)
        if fault.tokens[k].text != ";":
            # If no token is left, the brace belongs to an enclosing construct.
            moved = _moved(fault, k, stop, front) if stop > k else None
            if moved is None:
                return None
            body.texts.append(moved[0])
            body.tokens += moved[1]
        k = stop + (stop < last and fault.tokens[stop].text == ";")
    return body


def _loop(fault: Fault, at: int) -> tuple[_Loop, int] | None:
    """Return the loop that begins at a `for`, and the token after it, or None."""
    tokens, start = fault.tokens, at + 1
    bracket = closing(tokens, start) if tokens[start].text == "(" else None
    if bracket is not None and tokens[bracket + 1].text == "in":
        end = _set_end(fault, bracket + 2)
        return None if end is None else (_Loop(text_of(fault, tokens[at:end]), tuple(tokens[at:end])), end)
    start += bracket is not None
    name, sign = tokens[start], tokens[start + 1]
    if "NAME" not in name.terminals or sign.text not in BINDS:
        return None
    bounds = counted(fault, start + 2)
    if bounds is not None:
        set_, end = bounds
        made = (tokens[at], name, fault.make("in", sign), *set_)
        loop = _Loop(f"for {name.text} in {''.join(t.text for t in set_)}", made, name.text, set_[2:-1], True)
    else:
        end = _set_end(fault, start + 2)
        if end is None or sign.text != "in":
            return None
        set_ = tuple(tokens[start + 2 : end])
        size = set_[2:-1] if set_[0].text == "range" else ()
        loop = _Loop(f"for {text_of(fault, tokens[start:end])}", (tokens[at], *tokens[start:end]), name.text, size)
    return None if bracket not in (None, end) else (loop, end + (bracket is not None))


def _set_end(fault: Fault, at: int) -> int | None:
    """Return the token after a set in the syntax of this language, or None.

    Examples are a name, `G.edges` and `range(4)`.
    """
    tokens = fault.tokens
    if "NAME" not in tokens[at].terminals:
        return None
    if tokens[at + 1].text == "." and "NAME" in tokens[at + 2].terminals:
        return at + 3
    close = closing(tokens, at + 1) if tokens[at + 1].text == "(" else at
    return None if close is None else close + 1


def _inside(fault: Fault, opens: int, at: int) -> tuple[int, int, int] | None:
    """Return the bounds of a body that begins at token `at`, or None.

    They are its first token, the token after its last one, and the token at which parsing resumes.
    """
    tokens = fault.tokens
    if tokens[at].text == "{":
        close = closing(tokens, at)
        return None if close is None or close == at + 1 else (at + 1, close, close + 1)
    first = at + (tokens[at].text in (":", "do"))
    if not tokens[first].text or not tokens[first].opens_line:
        end = _before_brace(tokens, first, next(k for k in range(first, len(tokens)) if _ends(fault, first, k)))
        return (first, end, end + (tokens[end].text == ";")) if end > first else None
    margin = column(fault, tokens[opens])
    lines = (k for k in range(first, len(tokens)) if tokens[k].opens_line or not tokens[k].text)
    end = next(k for k in lines if not tokens[k].text or tokens[k].text == "}" or column(fault, tokens[k]) <= margin)
    end = _before_brace(tokens, first, end)
    return (first, end, end + (tokens[end].text == "end")) if end > first else None


def _before_brace(tokens: list[Token], first: int, end: int) -> int:
    """Return the end of a body, or an earlier brace that closes an enclosing construct."""
    depth = 0
    for k in range(first, end):
        depth += (tokens[k].text == "{") - (tokens[k].text == "}")
        if depth < 0:
            return k
    return end


def _condition_end(fault: Fault, at: int) -> int:
    """Return the token after a condition, at which the body begins."""
    tokens = fault.tokens
    ends = ((k, depth) for k, depth in with_depth(tokens, at) if tokens[k].opens_line or tokens[k].text in ("{", ":", "do", ""))
    return next(k for k, depth in ends if not tokens[k].text or not depth)


def _ends(fault: Fault, start: int, at: int) -> bool:
    """Return whether a statement that begins at `start` ends before token `at`.

    It ends before a `;`, a keyword after an expression, or `name ~` on a new line.
    """
    tokens, token, before = fault.tokens, fault.tokens[at], fault.tokens[at - 1]
    if not token.text:
        return True
    depth = depth_of(tokens[start:at])
    if depth or token.text in (";", "}"):
        return depth < 0 or (not depth and token.text in (";", "}"))
    whole = at > start and (
        not {"NAME", "NUMBER", "STRING"}.isdisjoint(before.terminals) or before.text in (")", "]", "}", "true", "false")
    )
    # On a line of its own and further to the right, it is a loop of the preceding statement.
    if token.text == "for":
        return whole and token.opens_line and column(fault, token) <= column(fault, tokens[start])
    if token.text in STATEMENT_WORDS:
        return whole and tokens[at + 1].text not in ("[", "~", ")", "]", ",")
    behind = closing(tokens, at + 1) if tokens[at + 1].text == "[" else at
    return whole and token.opens_line and "NAME" in token.terminals and behind is not None and tokens[behind + 1].text == "~"


def _moved(fault: Fault, start: int, end: int, front: _Front) -> tuple[str, list[Token]] | None:
    """Return a statement with loops inserted before its own loops, or None.

    The result is None if the statement takes no loops, or if there is no statement.
    """
    tokens = fault.tokens[start:end]
    # the syntax of Stan for adding to log p
    added = [t.text for t in tokens[:3]] == ["target", "+", "="]
    if added:
        tokens = [fault.make("factor", tokens[0]), *tokens[3:]]
    if not _takes_loops(fault.level, tokens):
        return None
    if fault.level == "sampler_statement" and _only_repeats(front, tokens):
        return _repeated(fault, tokens, front.loops[0].size)
    head, own, condition, tail = _cut_up(tokens)
    test, told = _joined(fault, [*map(list, front.conditions), *([condition] if condition else [])])
    term = f"factor {text_of(fault, head[1:])}" if added and head[1:] else text_of(fault, head)
    inner, last = (text_of(fault, part) if part else "" for part in (own, tail))
    texts = [term, *(x.text for x in front.loops), inner, told, last]
    loops = [t for x in front.loops for t in x.tokens]
    made = [tokens[0]._replace(opens_line=True), *head[1:], *loops, *own, *test, *tail]
    return " ".join(filter(None, texts)), made


def _takes_loops(level: str, tokens: list[Token]) -> bool:
    """Return whether a statement takes loops: one with an open bracket or a `where` does not."""
    texts, first = [t.text for t in tokens], tokens[0].text
    foreign = first in LEVELS[level][0] or "~" not in texts
    if depth_of(tokens) or (first not in REPEATED[level] and foreign):
        return False
    return "where" not in (texts[k] for k, depth in with_depth(tokens, 0) if not depth)


def _only_repeats(front: _Front, tokens: list[Token]) -> bool:
    """Return whether a statement stands behind one loop over a range, whose index it does not use."""
    if len(front.loops) != 1 or front.conditions:
        return False
    (loop,) = front.loops
    return bool(loop.size) and loop.index not in (t.text for t in tokens)


def _repeated(fault: Fault, tokens: list[Token], size: tuple[Token, ...]) -> tuple[str, list[Token]]:
    """Return `repeat size { statement }` as text and tokens."""
    times = fault.make("repeat", tokens[0]._replace(opens_line=True))
    made = [times, *size, fault.make("{", tokens[0]), *tokens, fault.make("}", tokens[-1])]
    return f"repeat {''.join(t.text for t in size)} {{ {text_of(fault, tokens)} }}", made


def _cut_up(tokens: list[Token]) -> tuple[list[Token], list[Token], list[Token], list[Token]]:
    """Return the parts of a statement: its head, its loops, its condition, and its weight or rate."""
    top = [(k, tokens[k].text) for k, depth in with_depth(tokens, 0) if not depth]
    tail = next((k for k, text in top if text in ("weight", "rate")), len(tokens))
    loop = next((k for k, text in top if text == "for"), tail)
    test = next((k for k, text in top if text == "if" and loop < k < tail), tail)
    return tokens[:loop], tokens[loop:test], tokens[test + 1 : tail], tokens[tail:]


def _joined(fault: Fault, conditions: list[list[Token]]) -> tuple[list[Token], str]:
    """Return an `if` with all conditions of a statement, as tokens and as text.

    Both are empty if there are no conditions.
    """
    if not conditions:
        return [], ""
    tokens, texts = [], []
    for condition in conditions:
        like, inside, text = condition[0], condition, text_of(fault, condition)
        if len(conditions) > 1:
            inside, text = operand_of_and(fault, condition, like)
        tokens += [fault.make("and" if tokens else "if", like), *inside]
        texts.append(text)
    return tokens, f"if {' and '.join(texts)}"
