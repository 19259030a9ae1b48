"""What people write who know Stan, NumPyro, R or Python: edits that turn it into the language, and advice where none surely does.

Single signs (`&&`, `**`, `:=`) are in `hints.toml`, and so are the words that open statements elsewhere.
"""

from __future__ import annotations

import functools
from importlib.resources import files
from itertools import pairwise

from .._diagnostics import Diagnostic, Fix, Span
from ._fault import Edit, Fault
from ._lex import Token, closing, short
from ._words import STATEMENT_WORDS

Faults = dict[int, Diagnostic]
CELLS = ("var", "latent", "given")
ARRAYS = (*CELLS, "param", "input")
TYPES = {"spin": "spin", "bit": "bit", "bool": "bit", "boolean": "bit", "real": "real", "positive": "positive", "int": "int"}
DECLARED_TYPES = ("spin", "bit", "range", "letters", "labels")
CONDITIONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "and", "or", "not"})
LOG_P = "target"
INDEX_NAMES = ("i", "j", "k", "l", "m", "n", "a", "b", "c", "d")


def statement_without_a_keyword(fault: Fault, faults: Faults) -> Edit | None:
    """`b * y`, `y = b * x`, `x = spin` and `target += b * y` as statements of a model."""
    first, at = fault.tokens[fault.start], fault.at
    alone = first.opens_line or (fault.start and fault.tokens[fault.start - 1].text in ("{", "}", ";"))
    if fault.level != "model_statement" or first.text in STATEMENT_WORDS or not alone:
        return None
    if {"NAME", "NUMBER"}.isdisjoint(first.terminals) or at < fault.start + ("NAME" in first.terminals):
        return None
    span, after = fault.span(first), fault.tokens[min(at + 1, len(fault.tokens) - 1)]
    if fault.token.text == "+" and after.text == "=" and after.start == fault.token.end:
        return _added(fault, first, after)
    if fault.token.text == "=" and after.text in DECLARED_TYPES:
        place, text = span.to(fault.span(fault.token)), f"var {span.to(fault.span(fault.tokens[at - 1])).text} :"
        fix, help_ = Fix(place, text, guess=True), f"write `{short(text)} ..`; what no data hold is `latent`"
        diagnostic = Diagnostic("E109", "a variable is declared with `var`", place, help=help_, fix=fix)
        inside = tuple(fault.tokens[fault.start : at])
        return Edit(fault.start, at + 1, (fault.make("var", first), *inside, fault.make(":", fault.token)), diagnostic, whole=True)
    if is_arrow(fault.token, after):
        return None
    declares = "param" if after.text in ("real", "positive", "simplex") else "var"
    word = {"=": "let", ":": declares}.get(fault.token.text, "factor")
    help_ = {
        "let": "a name for an expression is given with `let name = ..`",
        "factor": "a term of log p is written `factor ..`",
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


def is_arrow(token: Token, after: Token) -> bool:
    """Whether two tokens are an arrow of R, which assigns; `x < -y` compares."""
    return token.text == "<" and after.text == "-" and after.start == token.end


def _added(fault: Fault, first: Token, equals: Token) -> Edit:
    """`target += b * y`, which in Stan adds to log p; what another name stands for (an energy has the other sign) is not known."""
    name = fault.span(first).to(fault.span(fault.tokens[fault.at - 1]))
    place = name.to(fault.span(equals))
    sure = name.text == LOG_P and LOG_P not in _declared(fault.tokens)
    help_ = "write `factor`" if sure else "a term of log p is written `factor ..`; one of an energy, with the other sign"
    fix = Fix(place, "factor") if sure else None
    diagnostic = Diagnostic("E107", f"`{place.text}` adds nothing here", place, help=help_, fix=fix)
    return Edit(fault.start, fault.at + 2, (fault.make("factor", first),), diagnostic, whole=True)


def _is_sum(fault: Fault, word: str) -> bool:
    """Whether a statement without a keyword can only be a term of log p, or a `let`: a comparison may be a `require` as well."""
    if word != "factor":
        return word == "let"  # what is declared may be `var`, `latent` or `given`, a parameter or given
    rest = fault.tokens[fault.start + 1 :]
    end = next((k for k, t in enumerate(rest) if t.opens_line or not t.text), len(rest))
    return not any(t.text in CONDITIONS for t in rest[:end])


def _before(span: Span) -> Span:
    return Span(span.source, span.start, span.start)


def axis_of_a_number(fault: Fault, faults: Faults) -> Edit | None:
    """`var x[10] : spin`."""
    first, token, at = fault.tokens[fault.start], fault.token, fault.at
    if (
        first.text not in (*CELLS, "param", "let")
        or token.terminals != ("NUMBER",)
        or not fault.previous
        or fault.previous.text not in "[,"
    ):
        return None
    taken = _declared(fault.tokens) | {t.text for t in fault.tokens[fault.start : at]}
    name = next((n for n in INDEX_NAMES if n not in taken), None)
    if name is None:
        return None
    span, text = fault.span(token), f"{name} in range({token.text})"
    made = (_word(name, token), fault.make("in", token), _word("range", token), fault.make("(", token), token, fault.make(")", token))
    message = f"an axis names its index: expected `{text}`, found `{token.text}`"
    return Edit(at, at + 1, made, Diagnostic("E109", message, span, "no index name", help=f"write `{text}`", fix=Fix(span, text)), far=1)


def _declared(tokens: list[Token]) -> set[str]:
    openers = {"input", "index", "domain", "graph", "model", "mask", "sampler", "verifier", "value", *CELLS, "param", "let", "network"}
    return {b.text for a, b in pairwise(tokens) if a.text in openers}


def _word(text: str, like: Token) -> Token:
    return like._replace(terminals=("NAME",), text=text)


def type_before_the_name(fault: Fault, faults: Faults) -> Edit | None:
    """`var bool y`, `param real h`, which is read as a parameter `real` and a stray `h`."""
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
    return Edit(at - 1, at + 1, (tokens[at], fault.make(":", written), _word(type_, written)), diagnostic, far=1)


def bounds_in_angles(fault: Fault, faults: Faults) -> Edit | None:
    """`param s : real<lower=0>`."""
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
    """`var x : spin, y : spin`."""
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
    """Whether both declarations say what they are: in `param a, b : positive` the type may be meant for both."""
    tokens = fault.tokens
    after = comma + 2
    if tokens[after].text == "[":
        after = (closing(tokens, after) or after) + 1
    return any(t.text in (":", "~") for t in tokens[fault.start : comma]) and tokens[min(after, len(tokens) - 1)].text in (":", "~")


def block_as_a_mask(fault: Fault, faults: Faults) -> Edit | None:
    """`mask d = {x[0], x[1]}`."""
    tokens, at = fault.tokens, fault.at
    if tokens[fault.start].text != "mask" or fault.token.text != "{" or not fault.previous or fault.previous.text != "=":
        return None
    close = closing(tokens, at)
    if close is None:
        return None
    span = fault.span(fault.token).to(fault.span(tokens[close]))
    text = f"blocks({span.text})"
    made = (_word("blocks", fault.token), fault.make("(", fault.token), *tokens[at : close + 1], fault.make(")", tokens[close]))
    message, help_ = "a block is no mask: a mask lists its blocks", f"write `{short(text)}`"
    return Edit(at, close + 1, made, Diagnostic("E101", message, span, "a block", help=help_, fix=Fix(span, text)), whole=True)


def block_without_where(fault: Fault, faults: Faults) -> Edit | None:
    """`update x[K] ~ pairs`."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "~" or "where" not in fault.expected or tokens[fault.start].text != "update":
        return None
    block = tokens[at - 2] if tokens[at - 1].text == "]" else tokens[at - 1]
    if "NAME" not in block.terminals:
        return None
    span, text = fault.span(fault.token), f"where {block.text} ~"
    made = (fault.make("where", fault.token), _word(block.text, fault.token), fault.token)
    diagnostic = Diagnostic("E109", "expected `where` before `~`", span, help=f"write `{text}`", fix=Fix(span, text))
    return Edit(at, at + 1, made, diagnostic, whole=True)


MENDS = (
    axis_of_a_number,
    type_before_the_name,
    bounds_in_angles,
    second_declaration,
    block_as_a_mask,
    block_without_where,
    statement_without_a_keyword,
)


def advice(fault: Fault) -> str:
    """What a statement that cannot be read may be meant for; empty where nothing is known."""
    first, token, previous = fault.tokens[fault.start], fault.token, fault.previous
    after = fault.tokens[min(fault.at + 1, len(fault.tokens) - 1)]
    known = _openers().get((first.text, fault.level), "") or _openers().get((first.text, ""), "")
    if known and fault.at <= fault.start + 2:
        return known
    if first.text in ARRAYS and token.text == "in" and fault.at == fault.start + 2:
        return (
            f"a type follows `:`, as in `{first.text} {previous.text if previous else 'x'} : {'spin' if first.text in CELLS else 'real'}`"
        )
    if is_arrow(token, after) and fault.level == "model_statement":
        return "nothing is assigned: a name for an expression is given with `let name = ..`, and a law with `name ~ ..`"
    return _advice_of_token(fault, first, after)


def _advice_of_token(fault: Fault, first: Token, after: Token) -> str:
    """The same by what the token is that does not fit."""
    token, previous = fault.token, fault.previous
    if token.text == "?":
        return "a choice is written `if c then a else b`"
    if first.text == "factor" and token.text == "if" and "+" in fault.expected:
        return "`if` limits a `for`; a term that depends on a condition is `factor if c then a else 0`"
    if previous and previous.text == ":" and token.text in ("{", "[") and first.text in CELLS:
        return '`spin` is -1 or +1, `bit` 0 or 1, `range(q)` 0 to q - 1; other values are `labels("a", "b")`'
    if token.terminals == ("NUMBER",) and after.text == ":":
        return "an index set is `range(n)`: 0 to n - 1"
    if token.text.count("..") == 1 and not token.terminals:
        return "an index set is `range(n)`: 0 to n - 1"
    if first.text == "import" and fault.at == fault.start + 1:
        return 'an import names a file: `import "parts/ising.gmlm"`; a program runs no Python'
    if first.text in ("model", "mask", "sampler") and fault.at == fault.start + 1:
        form = {"model": "{ .. }", "mask": "= subsets(size = 1)", "sampler": "{ update x }"}[first.text]
        return f"a {first.text} has a name: `{first.text} name {form}`"
    return ""


@functools.cache
def _openers() -> dict[tuple[str, str], str]:
    import tomllib

    table = tomllib.loads(files("gmlmdsl").joinpath("syntax/hints.toml").read_text(encoding="utf-8"))
    return {(word, entry.get("level", "")): entry["help"] for entry in table["opener"] for word in entry["words"]}
