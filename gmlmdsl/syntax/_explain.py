"""Describe a broken statement: the expected text, the text before it, and the text found.

Blocks and cells without their weight or without their braces have messages of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from .._diagnostics import Diagnostic, Fix, Span, did_you_mean
from . import _words
from ._fault import Fault, opens_statement
from ._habits import ARRAYS, CELLS, is_arrow, is_drawn
from ._lex import CLOSING, MAX_DEPTH, OPENING, Token, closing, short
from ._repair import COMPARISONS, MISSING, slip_at, unclosed_brace
from ._words import FILE_WORDS, LEVELS, MASK_WORDS, MODEL_WORDS, RESERVED, SAMPLER_WORDS, STATEMENT_WORDS, hinted_words, hints, openers

CONDITION = "a condition stands behind a loop, `factor h[i] * x[i] for i in site if i > 2`, or in a term, `if c then a else b`"

OPERATORS = frozenset(["+", "-", "*", "/", "//", "%", "^", "==", "!=", "<", "<=", ">", ">=", "and", "or"])
HOME = {
    **dict.fromkeys(SAMPLER_WORDS, "in a sampler"),
    **dict.fromkeys(MASK_WORDS, "between the braces of a mask"),
    **dict.fromkeys(MODEL_WORDS, "in a model"),
    **dict.fromkeys(FILE_WORDS, "outside models, masks and samplers"),
}
# Only one kind of name can follow these words.
AFTER = {
    "model": "the name of the model",
    "mask": "the name of the mask",
    "sampler": "the name of the sampler",
    "verifier": "the name of the verifier",
    "value": "the name of the value",
    "given": "the name of a variable",
    "in": "an index set",
    "update": "a variable or a block",
    "choose": "a block, such as `{x[i], x[j]}`,",
    "each": "a cell, such as `x[i]`,",
}
# The text that is expected after the `=` or the `~` of a statement.
DEFINED = {
    "domain": "a type, such as `letters(..)`,",
    "index": "an index set, such as `range(4)`,",
    "graph": "a graph, such as `grid(4, 4)`,",
    "network": "a network, such as `mlp(..)`,",
    "mask": "a mask, such as `subsets(..)`,",
    "sampler": "an algorithm, such as `refinement(..)`,",
    "verifier": "a verifier, such as `completable(..)`,",
    "value": "a value, such as `expected(..)`,",
    "update": "a mask",
}
NAMED = ("var", "latent", "given", "param", "let")
# The signs that a message may list as expected, the most informative first.
TELLING = (*MISSING, "{", ",", ")", "]")
NO_SIGN = {
    "if": "put `if .. then .. else ..` in parentheses",
    "not": "put `not ..` in parentheses",
    "+": "a number has no sign `+`",
    "[": "a list stands only in an argument or a default; one with its index in parentheses, `([0.1, 0.9][b])`",
    "{": "a block stands only in an argument, after `choose` and after `update`",
}

Faults = dict[int, Diagnostic]
# words before a parenthesis that groups an expression
REACHING = ("if", "in", "and", "or", "not", "then", "else")


def explain(fault: Fault, faults: Faults) -> Diagnostic:
    """Return the one error for a statement with a syntax error.

    Args:
        fault: the broken statement.
        faults: the errors of the lexer about single tokens, by their start.

    Returns:
        The error, at the smallest place that shows it.
    """
    found = next((d for rule in RULES if (d := rule(fault, faults))), None)
    told = advice(fault)
    if found is None and (fault.at == fault.start or (told and fault.alone and _opens_elsewhere(fault))):
        found = _no_statement(fault)
    found = found or _unexpected(fault)
    return replace(found, help=told) if told else found


def _too_deep(fault: Fault, faults: Faults) -> Diagnostic | None:
    if not fault.too_deep:
        return None
    first = fault.span(fault.tokens[fault.start])
    message = f"an expression is nested deeper than {MAX_DEPTH}"
    help_ = "a chain of operators counts: split it with `let` or into several factors, or use `sum(.. for ..)`"
    return Diagnostic("E117", message, first, "in this statement", help=help_)


def _bad_token(fault: Fault, faults: Faults) -> Diagnostic | None:
    return faults.get(fault.token.start) if not fault.token.terminals else None


def _foreign(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report a mistake that is recognised by its text, even if mending it is not sufficient."""
    edit = slip_at(fault, faults)
    return replace(edit.diagnostic, fix=None) if edit else None


def _chain(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report a chain of comparisons, as in `a < b < c`."""
    if fault.token.text not in COMPARISONS:
        return None
    depth = 0
    for value, first, _, _ in reversed(fault.stack.parts[fault.body :]):
        text = getattr(value, "text", None)
        depth += (text in CLOSING) - (text in OPENING)
        if depth > 0 or (text in OPENING and depth == 0):
            continue
        if text in COMPARISONS:
            related = ((fault.span(fault.tokens[first]), "the first comparison"),)
            middle = fault.source.text[fault.tokens[first].end : fault.tokens[fault.at - 1].end].strip()
            help_ = "join two comparisons with `and`: `a < b and b < c`"
            fix = Fix(fault.span(fault.token), f"and {middle} {fault.token.text}")
            return Diagnostic("E106", "comparisons are not chained", fault.span(fault.token), "a second one", related, help_, fix)
        if text in OPENING or text in ("and", "or", "if", "then", "else"):
            break
    return None


def _second_condition(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report conditions between loops if they are too many for one edit to join."""
    before = fault.tokens[fault.start : fault.at]
    first = next((k for k, t in enumerate(before) if t.text == "for"), len(before))
    found = [t for t in before[first:] if t.text == "if"]
    if fault.token.text not in ("for", "if") or not found or "then" in [t.text for t in before[first:]]:
        return None
    help_ = "join conditions with `and`: `for i in a for j in b if p and q`"
    return Diagnostic("E101", "one `if` stands behind all loops", fault.span(found[0]), "", help=help_)


def _opens_nothing(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report a `for` or an `if` that stands where a statement should begin."""
    token = fault.token
    if token.text in ("for", "if") and fault.at == fault.start:
        message, help_ = f"`{token.text}` opens no statement", CONDITION * (token.text == "if")
        return Diagnostic("E105", message, fault.span(token), "not here", help=help_)
    before = fault.tokens[fault.start : fault.at]
    opened = next((t for t in before if t.text == "if" and t.opens_line), None)
    # An `if` at the start of a line was parsed as the condition of the loops above it.
    if token.text == "then" and opened and "NAME" in fault.expected:
        message = "`if` opens no statement"
        return Diagnostic("E105", message, fault.span(opened), "not here", help=CONDITION)
    return None


def _condition_of_a_term(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report `factor h * x if c`, whose condition has no loop."""
    token, first = fault.token, fault.tokens[fault.start].text
    if token.text != "if" or first != "factor" or "+" not in fault.expected:
        return None
    message = "`if` stands behind a `for`, not behind a term alone"
    return Diagnostic("E105", message, fault.span(token), "no `for` before this")


def _no_index_name(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report `[in site]`."""
    before = fault.previous.text if fault.previous else ""
    if fault.token.text != "in" or before not in ("[", "(", ",", "for") or not _only_a_name(fault):
        return None
    message = "expected an index name before `in`"
    return Diagnostic("E101", message, fault.span(fault.token), "no name before this")


def _loop_of_a_let(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report `let e for i in site = ..`."""
    tokens, at = fault.tokens, fault.at
    if fault.token.text != "for" or tokens[fault.start].text != "let" or not _only_a_name(fault):
        return None
    ends = (k for k in range(at, len(tokens)) if tokens[k].opens_line or not tokens[k].text)
    loops = [t for t in tokens[at : next(ends, at)] if t.text != "for"]
    axes = fault.source.text[loops[0].start : loops[-1].end] if loops else ""
    if not axes or not {"for", "if"}.isdisjoint(axes.split()):
        axes = "i in site"
    name = tokens[fault.start + 1].text
    help_ = f"its axes stand behind its name: `let {name}[{axes}] = ..`, used as `{name}[{axes.split()[0]}]`"
    message = "`for` stands behind no `let`"
    return Diagnostic("E105", message, fault.span(fault.token), "not here", help=help_)


def _loop_of_a_declaration(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report `param h : real ~ normal(0, 1) for i in site`."""
    token, first = fault.token, fault.tokens[fault.start]
    if token.text != "for" or fault.at <= fault.start + 1 or not _only_a_name(fault):
        return None
    if first.text not in ("param", "var", "latent"):
        return None
    named = fault.tokens[fault.start + 1].text
    statement = f"`{named}[i] ~ .. for i in ..` is a statement of its own"
    help_ = f"a distribution behind a declaration is that of every entry: leave out the `for`; {statement}"
    message = f"`for` stands behind no declaration of a `{first.text}`"
    return Diagnostic("E105", message, fault.span(token), "not here", help=help_)


def _reserved(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report a reserved word in the place of a name."""
    token = fault.token
    if token.text not in RESERVED or not _only_a_name(fault):
        return None
    help_ = f"take another name; reserved are {', '.join(f'`{w}`' for w in RESERVED)}"
    message = f"`{token.text}` is a reserved word"
    return Diagnostic("E110", message, fault.span(token), "expected a name", help=help_)


def _only_a_name(fault: Fault) -> bool:
    """Return whether a name is expected, and no other expression."""
    return "NAME" in fault.expected and "NUMBER" not in fault.expected


def _nameless(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report `param [i in site]`.

    It would otherwise be the distribution of a cell of a variable `param`.
    """
    first, bracket = fault.tokens[fault.start], fault.tokens[min(fault.start + 1, len(fault.tokens) - 1)]
    if fault.level != "model_statement" or first.text not in NAMED or bracket.text != "[" or fault.at <= fault.start + 1:
        return None
    return Diagnostic("E101", f"expected a name after `{first.text}`", fault.span(bracket), "no name before this")


def _misplaced(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report a statement of another level.

    Its keyword begins the broken statement, and the token after the keyword does not fit.
    """
    words, place = LEVELS[fault.level]
    first = fault.tokens[fault.start]
    if fault.at > fault.start + 1 or first.text in words or first.text not in STATEMENT_WORDS:
        return None
    if fault.level == "model_statement" and not opens_statement(fault.tokens, fault.start):
        return None
    if first.text == "mixture" and fault.level == "mask_statement":
        return Diagnostic("E105", "`mixture` of masks follows `=`", fault.span(first), "", help="write `mask name = mixture { .. }`")
    if first.text == "mixture" and fault.level == "model_statement":
        help_ = "its weights are the distribution of a cell: `latent k : bit ~ bernoulli(0.4)`, and `mixture k { 0 : a  1 : b }`"
        return Diagnostic(
            "E101", "a mixture of models names the variable that chooses one", fault.span(first), "no name behind it", help=help_
        )
    message, help_ = f"`{first.text}` stands {HOME[first.text]}, not {place}", _where_to(first.text, fault.level)
    return Diagnostic("E105", message, fault.span(first), "not here", help=help_)


def _where_to(word: str, level: str) -> str:
    """Return the help on the place of a statement of another level."""
    if word in ("sampler", "verifier", "value", "model"):
        return "move it out of the braces, behind them"
    if word in FILE_WORDS:
        return "move it out of the braces, above them"
    if word in MODEL_WORDS:
        return "move it between the braces of a model: `model name { .. }`"
    if word in MASK_WORDS and level == "sampler_statement":
        return "give the mask a name, and draw from it: `update K where K ~ name`"
    home = "mask" if word in MASK_WORDS else "sampler"
    return f"move it between the braces of a {home}: `{home} name {{ .. }}`"


def _bracket(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report a bracket that is not closed, is closed by a different one, or closes nothing."""
    token = fault.token
    opened = [k for k in fault.open_brackets() if k >= fault.start]
    if token.text in CLOSING:
        partner = CLOSING[token.text]
        if not opened and token.text != "}":
            help_ = f"remove it, or open it before with `{partner}`"
            return Diagnostic("E103", f"`{token.text}` closes nothing", fault.span(token), f"no `{partner}` is open", help=help_)
        if opened and fault.tokens[opened[-1]].text != partner:
            return _unclosed(fault, opened[-1])
        return None
    ends = not token.text or opens_statement(fault.tokens, fault.at) or token.text in ("for", "weight", "rate", "then", "else", "~")
    if opened and ends and OPENING[fault.tokens[opened[-1]].text] in fault.expected:
        return _unclosed(fault, opened[-1])
    if not token.text and fault.open_brackets():
        return unclosed_brace(fault, fault.span(fault.tokens[fault.at - 1]))
    return None


def _unclosed(fault: Fault, opener: int) -> Diagnostic:
    open_ = fault.tokens[opener]
    closer, ended = OPENING[open_.text], fault.token.opens_line or not fault.token.text
    message = f"expected `{closer}` to close the `{open_.text}` opened here"
    end = fault.previous.end if fault.previous else fault.token.start
    is_last = ended and len([k for k in fault.open_brackets() if k >= fault.start]) == 1
    fix = Fix(Span(fault.source, end, end), closer, guess=True) if is_last else None
    return Diagnostic("E102", message, _place(fault), _found(fault), ((fault.span(open_), "opened here"),), fix=fix)


def _place(fault: Fault) -> Span:
    """Return the place of the token that does not fit.

    If the preceding token ends its line, the result is the place of that token, because something
    is missing there.
    """
    if fault.previous and (fault.token.opens_line or not fault.token.text) and fault.at > fault.start:
        return fault.span(fault.previous)
    return fault.span(fault.token)


def _found(fault: Fault) -> str:
    if not fault.token.text:
        return "the file ends here"
    if fault.token.opens_line and fault.at > fault.start:
        return "the line ends here"
    return f"found {_shown(fault)}"


def _shown(fault: Fault) -> str:
    return f"`{short(fault.token.text)}`" if fault.token.text else "the end of the file"


def _opens_elsewhere(fault: Fault) -> bool:
    """Return whether a statement begins as in another language. Here it would be `name ~`."""
    word = fault.tokens[fault.start].text
    return not {(word, fault.level), (word, "")}.isdisjoint(openers())


def _no_statement(fault: Fault) -> Diagnostic:
    """Report a token that does not begin a statement."""
    words, place = LEVELS[fault.level]
    fault = replace(fault, at=fault.start)
    token = fault.token
    if fault.level.endswith("row"):
        help_ = "a row opens with its weight, a number or the name of an input: `0.5 : ..`"
        return Diagnostic("E101", f"expected a row of the mixture, found {_shown(fault)}", fault.span(token), "", help=help_)
    if token.text == "}":
        return Diagnostic("E103", "`}` closes nothing", fault.span(token), "no `{` is open", help="remove it, or open it before with `{`")
    near = did_you_mean(token.text, words) if "NAME" in token.terminals else None
    if not near and "NAME" in token.terminals and fault.level != "model_statement":
        told = _of_another_level(fault)
        if told:
            return Diagnostic("E101", f"expected a statement, found {_shown(fault)}", fault.span(token), "", help=told)
    help_ = f"did you mean `{near}`?" if near else f"a statement {place} opens with {', '.join(f'`{w}`' for w in words)}"
    return Diagnostic("E101", f"expected a statement, found {_shown(fault)}", fault.span(token), "", help=help_)


def _of_another_level(fault: Fault) -> str:
    """Return the help for a word that does not begin a statement at this level, or "".

    The word is a keyword of a model in other languages, or a cell that should be updated.
    """
    meant = hinted_words().get((fault.token.text, "model_statement"))
    if fault.level == "statement" and meant:
        return f"it is called `{meant['meant']}` here, and stands between the braces of a model: `model name {{ .. }}`"
    after = fault.tokens[min(fault.at + 1, len(fault.tokens) - 1)]
    if fault.level == "sampler_statement" and after.text == "[":
        return f"a cell is redrawn by `update {fault.token.text}[..]`"
    return ""


def _unexpected(fault: Fault) -> Diagnostic:
    """Report an unexpected token, with a description of the expected ones."""
    first = fault.tokens[fault.start]
    help_ = ""
    at = fault.table_without_index()
    if at is not None:
        return _not_looked_up(fault, at)
    if fault.level == "model_statement" and first.text not in MODEL_WORDS and fault.expected <= {"~", "[", "."} | OPERATORS:
        help_ = "a statement of a model opens with a keyword, such as `factor`, or with `name ~`"
        if not first.opens_line:
            return _not_joined(fault)
    wanted = _wanted(fault)
    if wanted == "an expression" and first.text != "repeat":
        help_ = NO_SIGN.get(fault.token.text, "")
    elif wanted == "`(`" and first.text in DEFINED and fault.previous and _place(fault) == fault.span(fault.previous):
        name = short(fault.previous.text)
        help_ = f"`{name}` has parentheses, also where nothing stands in them: `{name}(..)`"
    elif fault.token.text == ",":
        help_ = _words.JOINED.get(_joins(fault), "")
    elif wanted == "`in`" and fault.tokens[fault.at - 2].text == "for":
        help_ = "a loop says what its index runs over: `for i in site`"
    completed = _completed(fault, wanted) or _quoted(fault)
    help_, fix = completed or (help_, None)
    code = "E109" if wanted.strip("`") in MISSING else "E101"
    after = f" after `{short(fault.previous.text)}`" if fault.previous else ""
    return Diagnostic(code, f"expected {wanted}{after}", _place(fault), _found(fault), help=help_, fix=fix)


def _not_joined(fault: Fault) -> Diagnostic:
    """Report a word after a term that no operator joins to it."""
    first, before = fault.tokens[fault.start], fault.tokens[fault.start - 1].text
    meant = _words.BETWEEN.get(first.text) or _words.BETWEEN.get(before, "between two terms stands an operator, such as `*`")
    meant = "a choice is written `if c then a else b`" if before in ("case", "match", "switch", "select") else meant
    help_ = "a sum is written `sum(x[i] for i in site)`" if before.lower().startswith("sum") else meant
    message = f"expected an operator or a statement after `{short(before)}`, found `{short(first.text)}`"
    return Diagnostic("E101", message, fault.span(first), "nothing joins this to what stands before", help=help_)


def _quoted(fault: Fault) -> tuple[str, Fix] | None:
    """Return the help and fix for a name in quotes, as in `update "x"`, or None."""
    written = fault.token.text[1:-1]
    if fault.token.terminals != ("STRING",) or "NAME" not in fault.expected or "STRING" in fault.expected or not written.isidentifier():
        return None
    return f"a name has no quotes: `{written}`", Fix(fault.span(fault.token), written, guess=True)


def _completed(fault: Fault, wanted: str) -> tuple[str, Fix] | None:
    """Return the help and fix that complete a statement, or None."""
    first = fault.tokens[fault.start].text
    if wanted == "`(`" and first == "conditional" and fault.previous:
        return f"write `{short(fault.previous.text)}()`", Fix(_after(fault), "()", guess=True)
    if wanted == "`else`" and first == "factor" and fault.previous:
        return "a term that is nothing otherwise ends with `else 0`", Fix(_after(fault), " else 0", guess=True)
    return None


def _joins(fault: Fault) -> str:
    """Return the construct whose parts a comma joins here.

    The result is `in` for the names of a loop, `edges` for a loop over edges, or the statement's
    keyword.
    """
    if "in" not in fault.expected:
        return fault.tokens[fault.start].text
    behind = fault.tokens[fault.at : fault.at + 6]
    return "edges" if any(t.text in ("edges", "arcs") for t in behind) else "in"


def _not_looked_up(fault: Fault, at: int) -> Diagnostic:
    """Report a list or map without an index. `at` is the token that opens it."""
    what = "list" if fault.tokens[at].text == "[" else "map"
    help_ = "a list alone stands only in an argument or a default; a table is looked up, `([0.1, 0.9][b])`"
    if what == "map":
        help_ = "a map is looked up, `{..}[x]`; probabilities are a list, in the order of the values"
    if what == "map" and fault.tokens[at - 1].text == ":":
        help_ = 'a map of two indices is one map, whose keys are pairs: `{("no", "no"): 0.1, ("no", "yes"): 0.2, ..}[a, b]`'
    place = fault.span(fault.tokens[at]).to(fault.span(fault.tokens[fault.at - 1]))
    return Diagnostic("E101", f"expected an index behind this {what}", place, "not looked up", help=help_)


def _after(fault: Fault) -> Span:
    """Return the place after the token before the fault."""
    end = fault.tokens[fault.at - 1].end
    return Span(fault.source, end, end)


def _wanted(fault: Fault) -> str:
    expected, previous = fault.expected, fault.previous
    if "NUMBER" in expected and ("-" in expected or "[" in expected):
        return "an argument" if previous and previous.text == "(" and ")" in expected else "an expression"
    if "NAME" in expected and expected.isdisjoint(OPERATORS) and "}" not in expected:
        return _kind_of_name(fault)
    if expected == {"STRING"}:
        return "a string in double quotes"
    opener = inner_bracket(fault)
    closer = "" if opener is None else OPENING[fault.tokens[opener].text]
    if closer in expected:
        others = "`,` or " if "," in expected else "an operator or " if "+" in expected else ""
        return f"{others}`{closer}`"
    return _wanted_signs(fault, opener is not None)


def _wanted_signs(fault: Fault, is_inside: bool) -> str:
    """Return the signs that are expected; `is_inside` states whether a bracket is open."""
    expected = fault.expected
    signs = [f"`{t}`" for t in TELLING if t in expected]
    if not signs:
        return "`(`" if "(" in expected else "an operator or the next statement"
    may_end = not is_inside and not expected.isdisjoint(LEVELS[fault.level][0])
    if may_end and signs in (["`,`"], ["`where`"]):
        return "`where` or the next statement" if "where" in expected else "the next statement"
    if not is_inside and "}" in expected and fault.level == "model_statement":
        signs.append("the next statement")
    return signs[0] if len(signs) == 1 else f"{', '.join(signs[:-1])} or {signs[-1]}"


def _kind_of_name(fault: Fault) -> str:
    previous = fault.previous.text if fault.previous else ""
    if previous == ":" and fault.level in ("model_statement", "statement"):
        return "a type"
    if previous == "for" and fault.tokens[fault.start].text in ("mask", "sampler", "verifier", "value") and "(" not in fault.expected:
        return "the name of a model"
    if previous == "=" or (previous == "~" and fault.level != "model_statement"):
        return DEFINED.get(fault.tokens[fault.start].text, "a name")
    return AFTER.get(previous, "a name")


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


def no_weight(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report `choose {x[i]} for i in site` and `each x[i]`, which lack the weight or rate."""
    word, number = fault.tokens[fault.start].text, {"choose": "1", "each": "0.5"}
    wanted = {"choose": "weight", "each": "rate"}.get(word)
    if fault.level != "mask_statement" or wanted not in fault.expected or fault.at < fault.start + 2:
        return None
    first, last = fault.tokens[fault.start + 1], fault.tokens[fault.at - 1]
    if fault.token.terminals == ("NUMBER",):
        return _weight_behind(fault, word, wanted)
    if fault.token.text and fault.token.text not in ("}", *MASK_WORDS):
        return None
    span, text = fault.span(first).to(fault.span(last)), f"{number[word]} : "
    message, help_ = f"expected a {wanted} behind `{word}`", f"write `{word} {text}{short(span.text)}`"
    fix = Fix(Span(fault.source, first.start, first.start), text, guess=True)
    return Diagnostic("E109", message, span, f"no {wanted} before this", help=help_, fix=fix)


def _weight_behind(fault: Fault, word: str, wanted: str) -> Diagnostic:
    """Report a weight after its block, as in `choose {a, b} 0.4`."""
    first, last = fault.tokens[fault.start + 1], fault.tokens[fault.at - 1]
    block, weight = fault.span(first).to(fault.span(last)), fault.span(fault.token)
    text = f"{weight.text} : {block.text}"
    fix = Fix(block.to(weight), text, guess=True)
    return Diagnostic(
        "E109", f"expected a {wanted} behind `{word}`", weight, "this belongs there", help=f"write `{word} {short(text)}`", fix=fix
    )


def bare_block(fault: Fault, faults: Faults) -> Diagnostic | None:
    """Report a block without braces.

    Examples are `update x[i], x[j]`, `update (x, y)` and `choose 1 : x[0], x[1]`.
    """
    tokens, k = fault.tokens, fault.at
    word = tokens[fault.start].text
    if word not in ("update", "choose") or any(j >= fault.start for j in fault.open_brackets()):
        return None
    if fault.token.text == "(":
        return _in_parentheses(fault)
    start = next((j + 1 for j in range(k - 1, fault.start - 1, -1) if tokens[j].text in (":", "update")), None)
    if fault.token.text != "," or start is None or not {"for", "where", "by"}.isdisjoint(t.text for t in tokens[start:k]):
        return None
    last = _last_cell(tokens, k)
    return None if last is None else _braces(fault, start, last, fault.source.text[tokens[start].start : tokens[last].end])


def _in_parentheses(fault: Fault) -> Diagnostic | None:
    """Report a block in parentheses, as in `update (x[0], y)`."""
    tokens, k = fault.tokens, fault.at
    end = closing(tokens, k)
    inside = {t.text for t in tokens[k + 1 : end]}
    if end is None or tokens[k - 1].text != "update" or "|" in inside or "," not in inside:
        return None
    return _braces(fault, k, end, fault.source.text[tokens[k].end : tokens[end].start])


def _last_cell(tokens: list[Token], comma: int) -> int | None:
    """Return the last token of a list of cells that continues after a comma, or None.

    The result is None if no cell follows the comma.
    """
    last = None
    while tokens[comma].text == "," and "NAME" in tokens[comma + 1].terminals:
        last = closing(tokens, comma + 2) if tokens[comma + 2].text == "[" else comma + 1
        if last is None:
            return None
        comma = last + 1
    return last


def _braces(fault: Fault, first: int, last: int, cells: str) -> Diagnostic:
    span = fault.span(fault.tokens[first]).to(fault.span(fault.tokens[last]))
    block, alone = f"{{{cells}}}", "; one after the other are two updates" * (fault.tokens[fault.start].text == "update")
    fix = Fix(span, block, guess=True)
    return Diagnostic("E101", "a block stands in braces", span, "no braces", help=f"write `{short(block)}`{alone}", fix=fix)


RULES: tuple[Callable[[Fault, Faults], Diagnostic | None], ...] = (
    _too_deep,
    _foreign,
    _bad_token,
    _chain,
    _second_condition,
    no_weight,
    bare_block,
    _nameless,
    _opens_nothing,
    _condition_of_a_term,
    _no_index_name,
    _loop_of_a_let,
    _loop_of_a_declaration,
    _reserved,
    _misplaced,
    _bracket,
)
