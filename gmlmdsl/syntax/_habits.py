"""Mend syntax of Stan, NumPyro, R and Python.

Each public function returns an edit, or None if the statement has another fault. `_explain.py` gives
advice if no edit certainly mends it. `hints.toml` contains single signs (`&&`, `**`, `:=`), and
words that begin statements in other languages.

The file also mends axes without an index name, bodies that are indented after a colon, and bodies
without a name before their brace.
"""

from __future__ import annotations

from itertools import pairwise

from .._diagnostics import Diagnostic, Fix, Span
from ._fault import Edit, Fault, column
from ._lex import CLOSING, OPENING, Token, closing, short
from ._notations import COMPARISONS, SIZED, sized_axes, text_of, with_depth
from ._words import FILE_WORDS, MASK_WORDS, MODEL_WORDS, SAMPLER_WORDS, STATEMENT_WORDS, hinted_words, openers

Faults = dict[int, Diagnostic]
TYPES = {"spin": "spin", "bit": "bit", "bool": "bit", "boolean": "bit", "real": "real", "positive": "positive", "int": "int"}
DECLARED_TYPES = ("spin", "bit", "range", "letters", "labels")
CONDITIONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "and", "or", "not"})
LOG_P = "target"
EQUAL = "1"  # the weight of a row without a weight
CONSTANTS = frozenset({"const", "constant", "let", "final", "define", "var", "val", *SIZED})
CELLS = ("var", "latent", "given")
ARRAYS = (*CELLS, "param", "input")
INDEX_NAMES = ("i", "j", "k", "l", "m", "n", "a", "b", "c", "d")
WORDS = {"model": MODEL_WORDS, "sampler": SAMPLER_WORDS, "mask": MASK_WORDS, "cycle": SAMPLER_WORDS, "repeat": SAMPLER_WORDS}
OPENS = (":", "begin", "do", "is")
ENDS = ("end", "endmodel")
NAMELESS = {"model": "m", "sampler": "s"}


def statement_without_a_keyword(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `b * y`, `y = b * x`, `x = spin` and `target += b * y` as statements of a model."""
    first, at = fault.tokens[fault.start], fault.at
    if fault.level != "model_statement" or first.text in STATEMENT_WORDS or not fault.alone or _is_call_of_elsewhere(fault):
        return None
    if {"NAME", "NUMBER"}.isdisjoint(first.terminals) or at < fault.start + ("NAME" in first.terminals):
        return None
    span, after = fault.span(first), fault.tokens[min(at + 1, len(fault.tokens) - 1)]
    if fault.token.text == "=" and after.text in DECLARED_TYPES:
        place, text = span.to(fault.span(fault.token)), f"var {span.to(fault.span(fault.tokens[at - 1])).text} :"
        fix, help_ = Fix(place, text, guess=True), f"write `{short(text)} ..`; what no data hold is `latent`"
        diagnostic = Diagnostic("E109", "a variable is declared with `var`", place, help=help_, fix=fix)
        inside = tuple(fault.tokens[fault.start : at])
        return Edit(fault.start, at + 1, (fault.make("var", first), *inside, fault.make(":", fault.token)), diagnostic, whole=True)
    if is_arrow(fault.token, after) or (fault.token.text == "=" and is_drawn(fault)):
        return None
    declares = "param" if after.text in ("real", "positive", "simplex") else "var"
    word = {"=": "let", ":": declares}.get(fault.token.text, "require" if _only_compares(fault) else "factor")
    help_ = {
        "let": "a name for an expression is given with `let name = ..`",
        "factor": "a term of log p is written `factor ..`",
        "require": "what always holds is written `require ..`; a term of log p is `factor ..`",
        "var": "what the data hold is declared with `var`",
        "param": "what is fitted is declared with `param`",
    }[word]
    message = f"a statement of a model opens with a keyword, found `{short(first.text)}`"
    diagnostic = Diagnostic(
        "E109",
        message,
        span,
        f"`{word}` belongs before this",
        help=help_,
        fix=Fix(_before(span), f"{word} ", guess=not _is_sum(fault, word)),
    )
    return Edit(fault.start, fault.start, (fault.make(word, first),), diagnostic, whole=True)


def _is_call_of_elsewhere(fault: Fault) -> bool:
    """Return whether a statement is a call such as `observe(x)` or `logit(p) <- b * 2`.

    Such a call is not a term of log p, although it has the syntax of one.
    """
    first, after = fault.tokens[fault.start], fault.tokens[min(fault.start + 1, len(fault.tokens) - 1)]
    return after.text == "(" and first.text != "log" and (first.text, fault.level) in openers()


def word_of_elsewhere(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `constraint a + b == 1` and `hidden h : bit`, whose first word has another name here."""
    first = fault.tokens[fault.start]
    entry = hinted_words().get((first.text, fault.level))
    if entry is None or "NAME" not in first.terminals or fault.at > fault.start + 1:
        return None
    meant, told = entry["meant"], entry.get("told", "")
    if first.text == "where" and not fault.alone:
        return None  # It is a condition of the loops before it.
    after = [t.text for t in fault.tokens[fault.start + 2 : fault.start + 3]]
    if meant in CELLS and not fault.alone and after not in ([":"], ["["]):
        return _word_behind(fault, meant)
    made = tuple(fault.make(word, first) for word in meant.split())
    fix = None if told and not entry.get("guess") else Fix(fault.span(first), meant, guess=bool(told))
    diagnostic = Diagnostic(
        "E107", f"`{first.text}` is not a keyword here", fault.span(first), "", help=told or f"write `{meant}`", fix=fix
    )
    return Edit(fault.start, fault.start + 1, made, diagnostic, far=1)


def _word_behind(fault: Fault, meant: str) -> Edit | None:
    """Mend `var z : bit hidden`, in which the role of a cell follows its type.

    Here the first word of the declaration gives the role.
    """
    tokens, word = fault.tokens, fault.tokens[fault.start]
    start = next((k for k in range(fault.start - 1, -1, -1) if tokens[k].opens_line or tokens[k].text == "{"), 0)
    start += tokens[start].text == "{"
    if tokens[start].text not in CELLS:
        return None
    inside = tokens[start + 1 : fault.start]
    span = fault.span(tokens[start]).to(fault.span(word))
    text = f"{meant}{fault.source.text[tokens[start].end : inside[-1].end]}"
    diagnostic = Diagnostic(
        "E107", f"`{word.text}` is not a keyword here", fault.span(word), "", help=f"write `{short(text)}`", fix=Fix(span, text)
    )
    return Edit(start, fault.start + 1, (fault.make(meant, tokens[start]), *inside), diagnostic, far=1)


def constant(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `const c = 3`, `int n = 4`, `n = 4` and `n <- 4` at the top level of a file."""
    tokens, start = fault.tokens, fault.start
    equals = next((k for k in range(start, min(start + 4, len(tokens) - 3)) if tokens[k].text == "=" or is_arrow(*tokens[k : k + 2])), None)
    words = [t.text for t in tokens[start : (equals or start) - 1]]
    if fault.level != "statement" or not equals or any(w not in CONSTANTS for w in words) or equals == start:
        return None
    after = equals + 1 + (tokens[equals].text == "<")
    name, value = tokens[equals - 1], tokens[after]
    number = tokens[after + 1] if value.text == "-" else value
    if "NAME" not in name.terminals or number.terminals != ("NUMBER",):
        return None
    type_ = "int" if number.text.isdigit() and value is number else "real"
    span, text = fault.span(tokens[start]).to(fault.span(name)), f"input {name.text} : {type_} ="
    fix = Fix(span.to(fault.span(tokens[after - 1])), text)
    message = f"a number is declared with `input`, which may have a default, found `{short(tokens[start].text)}`"
    made = (fault.make("input", tokens[start]), name, fault.make(":", name), a_name(type_, name), fault.make("=", name))
    return Edit(start, after, made, Diagnostic("E109", message, span, help=f"write `{text} ..`", fix=fix), far=1)


def sized_declaration(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `vector[4] h`, `matrix[4, 4] J` and `simplex[3] p`."""
    tokens, start = fault.tokens, fault.start
    first, bracket = tokens[start], tokens[min(start + 1, len(tokens) - 1)]
    if fault.level != "model_statement" or first.text not in (*SIZED, "simplex") or bracket.text != "[":
        return None
    close = closing(tokens, start + 1)
    if close is None or close + 2 >= len(tokens):
        return None
    name = close + 1 + (tokens[close + 1].text in SIZED)
    if "NAME" not in tokens[name].terminals or tokens[name].opens_line:
        return None
    inside = fault.source.text[bracket.end : tokens[close].start]
    span, text = (
        fault.span(first).to(fault.span(tokens[name])),
        f"param {tokens[name].text}[{sized_axes([n.strip() for n in inside.split(',')], False)}]",
    )
    made = (fault.make("param", first), tokens[name])
    if first.text == "simplex":
        text, made = f"{text} : simplex", (*made, fault.make(":", first), a_name("simplex", first))
    message, help_ = "an array is declared with an index for each axis", f"what is fitted is `{text}`; what the data hold is a `var`"
    return Edit(start, name + 1, made, Diagnostic("E109", message, span, help=help_, fix=Fix(span, text, guess=True)), whole=True)


def row_without_a_weight(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `mixture { a  b }` of masks and `mixture { update x  update y }` of updates."""
    tokens, start = fault.tokens, fault.start
    first = tokens[start]
    if fault.level == "kernel_row":
        fits = first.text in SAMPLER_WORDS
    else:
        masks = {b.text for a, b in pairwise(tokens[:start]) if a.text == "mask"}
        fits = fault.level == "mask_row" and (first.text in masks or tokens[min(start + 1, len(tokens) - 1)].text == "(")
    if not fits or ":" in (t.text for t in tokens[start : fault.at]):
        return None
    behind = weight_behind(fault)
    if behind is not None:
        return behind
    # These weights were inserted by this function.
    earlier = (t for t in tokens[fault.open_brackets()[-1] : start] if t.text == EQUAL and fault.span(t).text != EQUAL)
    whole, *others = [fault.span(t) for t in (*earlier, first)]
    message, help_ = "a row of a mixture opens with its weight", f"write `1 : {short(whole.text)} ..` in every row for equal weights"
    fix = Fix(_before(whole), "1 : ", guess=True, also=tuple(map(_before, others)))
    made = (first._replace(terminals=("NUMBER",), text=EQUAL), fault.make(":", first))
    return Edit(start, start, made, Diagnostic("E109", message, whole, "no weight before this", help=help_, fix=fix), far=2)


def sign_behind_a_weight(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `mixture { 0.5 = one  0.5 -> other }`."""
    tokens, at = fault.tokens, fault.at
    arrow = fault.token.text == ">" and tokens[at - 1].text == "-" and tokens[at - 1].end == fault.token.start
    start = at - 1 if arrow else at
    if not fault.level.endswith("row") or start <= fault.start or not (arrow or (fault.token.text == "=" and ":" in fault.expected)):
        return None
    span = fault.span(tokens[start]).to(fault.span(fault.token))
    message, fix = f"expected `:` behind a weight, found `{span.text}`", Fix(span, ":")
    diagnostic = Diagnostic("E101", message, span, "", help="write `:`", fix=fix)
    return Edit(start, at + 1, (fault.make(":", fault.token),), diagnostic, far=2)


def weight_behind(fault: Fault) -> Edit | None:
    """Mend `mixture { subsets(x, size = 1) : 0.5 }`."""
    tokens, start = fault.tokens, fault.start
    end = closing(tokens, start + 1) if tokens[start + 1].text == "(" else start
    if fault.level != "mask_row" or end is None or end + 2 >= len(tokens):
        return None
    colon, weight = tokens[end + 1], tokens[end + 2]
    if colon.text != ":" or not {"NUMBER", "NAME"} & set(weight.terminals):
        return None
    span, mask = fault.span(tokens[start]).to(fault.span(weight)), fault.span(tokens[start]).to(fault.span(tokens[end]))
    text = f"{weight.text} : {mask.text}"
    message, fix = "a row of a mixture opens with its weight", Fix(span, text)
    diagnostic = Diagnostic("E109", message, span, "the weight stands behind", help=f"write `{short(text)}`", fix=fix)
    return Edit(start, end + 3, (weight, colon, *tokens[start : end + 1]), diagnostic, far=1)


def changed_name(fault: Fault, faults: Faults) -> Edit | None:
    """Report `e += 2` and `x *= 2`: no name changes its value step by step."""
    first, token, at = fault.tokens[fault.start], fault.token, fault.at
    after = fault.tokens[min(at + 1, len(fault.tokens) - 1)]
    if fault.level != "model_statement" or token.text not in ("+", "-", "*", "/") or after.text != "=" or after.start != token.end:
        return None
    name = fault.span(first).to(fault.span(fault.tokens[at - 1]))
    place, rest = name.to(fault.span(after)), fault.tokens[at + 2 :]
    end = next((k for k, t in enumerate(rest) if t.opens_line or not t.text), len(rest))
    if token.text == "+" and any("NAME" in t.terminals for t in rest[:end]):
        return _added(fault, first, after)
    help_ = "nothing is done step by step: `let name = ..` names an expression once, and a number that is added to log p cancels"
    diagnostic = Diagnostic("E107", f"`{place.text}` changes nothing here", place, help=help_)
    return Edit(fault.start, at + 2, (fault.make("factor", first),), diagnostic, whole=True)


def is_arrow(token: Token, after: Token) -> bool:
    """Return whether two tokens are the assignment arrow of R. In contrast, `x < -y` compares."""
    return token.text == "<" and after.text == "-" and after.start == token.end


def is_drawn(fault: Fault) -> bool:
    """Return whether a draw is assigned, as in other languages.

    Examples are `h = pm.Normal("h", 0, 1)`, `h = sample("h", dist.Normal(0, 1))` and `x =
    flip(0.5)`.
    """
    name, after, inside = (fault.tokens[min(fault.at + k, len(fault.tokens) - 1)] for k in (1, 2, 3))
    if after.text == "." and "NAME" in inside.terminals:
        return inside.text[:1].isupper() or inside.text == "sample"
    return after.text == "(" and (name.text[:1].isupper() or name.text in ("sample", "flip", "pyro", "rv"))


def _added(fault: Fault, first: Token, equals: Token) -> Edit:
    """Mend `target += b * y`, which adds to log p in Stan.

    The meaning of any other name is unknown. For example, an energy has the opposite sign.
    """
    name = fault.span(first).to(fault.span(fault.tokens[fault.at - 1]))
    place = name.to(fault.span(equals))
    sure = name.text == LOG_P and LOG_P not in declared_names(fault.tokens)
    help_ = "write `factor`" if sure else "a term of log p is written `factor ..`; one of an energy with the other sign, `factor -(..)`"
    fix = Fix(place, "factor") if sure else None
    diagnostic = Diagnostic("E107", f"`{place.text}` adds nothing here", place, help=help_, fix=fix)
    return Edit(fault.start, fault.at + 2, (fault.make("factor", first),), diagnostic, whole=True)


def _is_sum(fault: Fault, word: str) -> bool:
    """Return whether a statement without a keyword can only be a term of log p, or a `let`.

    A comparison may also be a `require`.
    """
    if word != "factor":
        # A declared name may be a `var`, `latent`, `given` or `param`.
        return word == "let"
    rest = fault.tokens[fault.start + 1 :]
    end = next((k for k, t in enumerate(rest) if t.opens_line or not t.text), len(rest))
    return not any(t.text in CONDITIONS for t in rest[:end])


def _only_compares(fault: Fault) -> bool:
    """Return whether a statement without a keyword is a comparison such as `x[0] == 1`.

    A term that contains a comparison is not one.
    """
    rest = fault.tokens[fault.start :]
    end = next((k for k, t in enumerate(rest) if k and (t.opens_line or t.text in ("", "}", "for"))), len(rest))
    depth, found = 0, False
    for t in rest[:end]:
        depth += (t.text in OPENING) - (t.text in CLOSING)
        found = found or (not depth and t.text in COMPARISONS)
    return found


def _before(span: Span) -> Span:
    return Span(span.source, span.start, span.start)


def type_before_the_name(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `var bool y` and `param real h`.

    The latter is parsed as a parameter `real` and a stray `h`.
    """
    tokens = fault.tokens
    at = fault.at if tokens[fault.at - 2].text in ARRAYS else fault.at - 1
    if at < 2 or tokens[at - 2].text not in ARRAYS or "NAME" not in tokens[at].terminals or tokens[at].opens_line:
        return None
    written, type_ = tokens[at - 1], TYPES.get(tokens[at - 1].text)
    if type_ is None or tokens[at + 1].text in (":", "["):
        return None
    span = fault.span(written).to(fault.span(tokens[at]))
    text = f"{tokens[at].text} : {type_}"
    diagnostic = Diagnostic("E109", "a type follows the name and a `:`", span, help=f"write `{text}`", fix=Fix(span, text))
    return Edit(at - 1, at + 1, (tokens[at], fault.make(":", written), a_name(type_, written)), diagnostic, far=1)


def bounds_in_angles(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `param s : real<lower=0>`."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "<" or not fault.previous or fault.previous.text != "real":
        return None
    close = next((k for k in range(at, min(at + 12, len(tokens) - 1)) if tokens[k].text == ">"), None)
    if close is None:
        return None
    span = fault.span(fault.token).to(fault.span(tokens[close]))
    text = f"({span.text[1:-1]})"
    made = (fault.make("(", fault.token), *tokens[at + 1 : close], fault.make(")", tokens[close]))
    diagnostic = Diagnostic("E107", "bounds stand in parentheses", span, help=f"write `real{short(text)}`", fix=Fix(span, text))
    return Edit(at, close + 1, made, diagnostic, whole=True)


def second_declaration(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `var x : spin, y : spin`."""
    first, at = fault.tokens[fault.start], fault.at
    after = fault.tokens[min(at + 1, len(fault.tokens) - 1)]
    if fault.token.text != "," or first.text not in ARRAYS or "NAME" not in after.terminals:
        return None
    after_a_type = fault.previous is not None and ("NAME" in fault.previous.terminals or fault.previous.text in (")", "]"))
    if any(k >= fault.start for k in fault.open_brackets()) or not after_a_type:
        return None
    span = fault.span(fault.token)
    message, help_ = f"each `{first.text}` declares one name", f"write `{first.text}` again before `{after.text}`"
    fix = Fix(span, f"\n  {first.text}", guess=not _both_say(fault, at))
    again = fault.token._replace(terminals=first.terminals, text=first.text, opens_line=True)
    return Edit(at, at + 1, (again,), Diagnostic("E122", message, span, "a second name", help=help_, fix=fix))


def _both_say(fault: Fault, comma: int) -> bool:
    """Return whether both declarations have a type or distribution of their own.

    In `param a, b : positive` the type may belong to both.
    """
    tokens = fault.tokens
    after = comma + 2
    if tokens[after].text == "[":
        after = (closing(tokens, after) or after) + 1
    return any(t.text in (":", "~") for t in tokens[fault.start : comma]) and tokens[min(after, len(tokens) - 1)].text in (":", "~")


def block_as_a_mask(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `mask d = {x[0], x[1]}`."""
    tokens, at = fault.tokens, fault.at
    if tokens[fault.start].text != "mask" or fault.token.text != "{" or not fault.previous or fault.previous.text != "=":
        return None
    close = closing(tokens, at)
    if close is None:
        return None
    span = fault.span(fault.token).to(fault.span(tokens[close]))
    text = f"blocks({span.text})"
    made = (a_name("blocks", fault.token), fault.make("(", fault.token), *tokens[at : close + 1], fault.make(")", tokens[close]))
    message, help_ = "a block is not a mask: a mask lists its blocks", f"write `{short(text)}`"
    return Edit(at, close + 1, made, Diagnostic("E101", message, span, "a block", help=help_, fix=Fix(span, text)), whole=True)


def block_without_where(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `update x[K] ~ pairs` and `update x[K] for K ~ pairs`."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text == "~" and tokens[fault.start].text == "update" and tokens[at - 2].text == "for":
        span = fault.span(tokens[at - 2])
        diagnostic = Diagnostic(
            "E101", "a block that a mask draws stands behind `where`", span, help="write `where`", fix=Fix(span, "where")
        )
        return Edit(at - 2, at - 1, (fault.make("where", tokens[at - 2]),), diagnostic, far=1)
    if fault.token.text != "~" or "where" not in fault.expected or tokens[fault.start].text != "update":
        return None
    block = tokens[at - 2] if tokens[at - 1].text == "]" else tokens[at - 1]
    if "NAME" not in block.terminals:
        return None
    span, text = fault.span(fault.token), f"where {block.text} ~"
    made = (fault.make("where", fault.token), a_name(block.text, fault.token), fault.token)
    diagnostic = Diagnostic("E109", "expected `where` before `~`", span, help=f"write `{text}`", fix=Fix(span, text))
    return Edit(at, at + 1, made, diagnostic, whole=True)


def colon_behind_a_word(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `factor: J * x[0]`."""
    if fault.token.text != ":" or fault.at != fault.start + 1 or fault.tokens[fault.start].text not in ("factor", "require", "update"):
        return None
    word, span = fault.tokens[fault.start].text, fault.span(fault.token)
    diagnostic = Diagnostic("E101", f"no colon stands behind `{word}`", span, "", help=f"write `{word} ..`", fix=Fix(span, ""))
    return Edit(fault.at, fault.at + 1, (), diagnostic, far=1)


def named_term(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `factor field = h * x[0]`: a term has no name."""
    tokens, at, word = fault.tokens, fault.at, fault.tokens[fault.start].text
    if fault.token.text != "=" or word != "factor" or at != fault.start + 2 or "NAME" not in tokens[at - 1].terminals:
        return None
    span = fault.span(tokens[at - 1]).to(fault.span(fault.token))
    name, place = tokens[at - 1].text, Span(fault.source, span.start, tokens[at + 1].start)
    help_ = f"write `{word} ..`; to use it again, `let {name} = ..` and `{word} {name}`"
    diagnostic = Diagnostic("E108", f"a `{word}` has no name", span, "", help=help_, fix=Fix(place, "", guess=True))
    return Edit(at - 1, at + 1, (), diagnostic, far=1)


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
    name = _new_index(fault, at)
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
    name, written, like = _new_index(fault, end), text_of(fault, inside), tokens[at]
    word = _declares(tokens, written) if len(inside) == 1 else "index"
    if name is None or word is None:
        return None
    set_, made = written, inside
    if word == "input":
        set_, made = f"range({written})", [a_name("range", like), fault.make("(", like), *inside, fault.make(")", like)]
    span, text = fault.span(inside[0]).to(fault.span(inside[-1])), f"{name} in {set_}"
    message = f"an axis names its index: expected `{text}`, found `{short(written)}`"
    diagnostic = Diagnostic("E109", message, span, "no index name", help=f"write `{text}`", fix=Fix(span, text))
    return Edit(at, end, (a_name(name, like), fault.make("in", like), *made), diagnostic, far=1)


def _declares(tokens: list[Token], name: str) -> str | None:
    """Return the word that declares a size or a set of this name last, or None."""
    words = ("input", "index", "domain")
    return next((b.text for a, b in pairwise(reversed(tokens)) if b.text in words and a.text == name), None)


def _new_index(fault: Fault, end: int) -> str | None:
    """Return an index name that is not used before token `end`, or None."""
    taken = declared_names(fault.tokens) | {t.text for t in fault.tokens[fault.start : end]}
    return next((n for n in INDEX_NAMES if n not in taken), None)


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


def _end_of_body(fault: Fault, first: Token, opens: int) -> int:
    """Return the token after the body that the word `first` announces and token `opens` begins.

    The body consists of the indented lines. If no line is indented, it ends before the first line
    that begins with a word from outside.
    """
    tokens, margin = fault.tokens, column(fault, first)
    flat = column(fault, tokens[opens]) <= margin
    lines = [k for k in range(opens, len(tokens)) if tokens[k].opens_line or not tokens[k].text]
    outside = frozenset(FILE_WORDS) - frozenset(WORDS[first.text])
    return next(k for k in lines if not tokens[k].text or (tokens[k].text in outside if flat else column(fault, tokens[k]) <= margin))


def body_without_braces(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `model m` or `model m:` with a body below it by inserting the braces.

    Faults inside the body are reported as usual. The body consists of the indented lines. If no
    line is indented, it consists of the statements that only such a body contains.
    """
    tokens, at = fault.tokens, fault.at
    if "{" not in fault.expected or not fault.token.text:
        return None
    first, colon = tokens[_line_of(fault, at - 1)], fault.token.text in OPENS
    opens = at + colon
    if first.text not in WORDS or opens >= len(tokens) or not tokens[opens].opens_line:
        return None
    end = _end_of_body(fault, first, opens)
    if end == opens or not _is_inside(fault, opens, WORDS[first.text]):
        return None
    ended = next((k for k in (end - 1, end) if tokens[k].text in ENDS), None)
    inside = tuple(tokens[opens : end if ended is None else ended])
    if not inside:
        return None
    header = fault.source.text[first.start : tokens[at - 1].end]
    span = Span(fault.source, tokens[at - 1].end, tokens[end - 1 if ended is None else ended].end)
    body = fault.source.text[tokens[opens - 1].end : inside[-1].end]
    fix = Fix(span, f" {{{body}\n{' ' * (column(fault, first) - 1)}}}")
    message, place, label = f"expected `{{` after `{tokens[at - 1].text}`", tokens[at - 1], "the line ends here"
    if colon:
        sign = "a colon" if fault.token.text == ":" else f"`{fault.token.text}`"
        message, place, label = f"a body stands between braces, not behind {sign}", fault.token, ""
    diagnostic = Diagnostic("E101", message, fault.span(place), label, help=f"write `{header} {{ .. }}`", fix=fix)
    made = (fault.make("{", fault.token), *inside, fault.make("}", inside[-1])._replace(opens_line=False))
    stop = end if ended is None else max(end, ended + 1)
    # The edit is accepted where the body begins. Faults inside the body are reported separately.
    return Edit(at, stop, made, diagnostic, far=-len(inside))


def _is_inside(fault: Fault, at: int, words: tuple[str, ...]) -> bool:
    """Return whether a statement of a body begins at a token.

    After a colon, `begin`, `do` or `is`, every statement counts. Otherwise the statement needs a
    keyword of the body, or a name before `~` or `[`.
    """
    token = fault.tokens[at]
    return fault.token.text in OPENS or token.text in words or fault.tokens[at + 1].text in ("~", "[")


def _line_of(fault: Fault, at: int) -> int:
    """Return the first token of the line that contains a token."""
    return next((k for k in range(at, 0, -1) if fault.tokens[k].opens_line), 0)


def behind_a_name(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `model m() {`, `model m(n) {` and `sampler s = { update x }`.

    The brace directly follows the name.
    """
    tokens, at, word = fault.tokens, fault.at, fault.tokens[fault.start].text
    if fault.token.text == "{" and tokens[at - 1].text == "=" and word in WORDS and tokens[at + 1].text in WORDS[word]:
        span = fault.span(tokens[at - 1])
        fix = Fix(Span(fault.source, tokens[at - 2].end, fault.token.start), " ")
        diagnostic = Diagnostic("E101", "no `=` stands before a body", span, help=f"write `{word} {tokens[at - 2].text} {{ .. }}`", fix=fix)
        return Edit(at - 1, at, (), diagnostic, far=1)
    if word not in NAMELESS or at != fault.start + 2 or fault.token.text not in ("(", "=", ":"):
        return None
    end = (closing(tokens, at) or at) + 1 if fault.token.text == "(" else at + 1
    if tokens[end].text != "{":
        return None
    span = fault.span(fault.token).to(fault.span(tokens[end - 1]))
    header = f"{word} {tokens[at - 1].text}"
    help_ = f"write `{header} {{ .. }}`"
    if end > at + 2:
        help_ += "; what a program needs from outside is an input above it: `input n : int`"
    what = f"a {word} takes no arguments" if fault.token.text == "(" else f"no `{fault.token.text}` stands before a body"
    fix = Fix(Span(fault.source, tokens[at - 1].end, tokens[end].start), " ", guess=end > at + 2)
    return Edit(at, end, (), Diagnostic("E101", what, span, help=help_, fix=fix), far=1)


def name_left_out(fault: Fault, faults: Faults) -> Edit | None:
    """Mend `model { .. }` and `sampler { .. }` by inserting a name.

    In `model { m` the name follows the brace, and is moved before it.
    """
    tokens, at = fault.tokens, fault.at
    word = tokens[fault.start].text
    if word not in NAMELESS or fault.token.text != "{" or at != fault.start + 1:
        return None
    span = fault.span(fault.token)
    message, help_ = f"expected the name of the {word} after `{word}`", f"a {word} has a name: `{word} name {{ .. }}`"
    behind = tokens[at + 1]
    if "NAME" in behind.terminals and not behind.opens_line and tokens[at + 2].opens_line:
        fix = Fix(span.to(fault.span(behind)), f"{behind.text} {{")
        diagnostic = Diagnostic("E101", message, span, "found `{`", help=f"write `{word} {behind.text} {{`", fix=fix)
        return Edit(at, at + 2, (behind, fault.token), diagnostic, far=1)
    taken = {t.text for t in tokens}
    name = next(n for n in (f"{NAMELESS[word]}{k or ''}" for k in range(len(taken) + 2)) if n not in taken)
    fix = Fix(Span(fault.source, span.start, span.start), f"{name} ", guess=True)
    made = fault.token._replace(terminals=("NAME",), text=name, opens_line=False)
    return Edit(at, at, (made,), Diagnostic("E101", message, span, "found `{`", help=help_, fix=fix), far=1)


MENDS = (
    colon_behind_a_word,
    body_without_braces,
    behind_a_name,
    name_left_out,
    *AXES,
    type_before_the_name,
    bounds_in_angles,
    second_declaration,
    block_as_a_mask,
    block_without_where,
    word_of_elsewhere,
    constant,
    sized_declaration,
    sign_behind_a_weight,
    row_without_a_weight,
    changed_name,
    statement_without_a_keyword,
)
