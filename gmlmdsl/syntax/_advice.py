"""Give advice for a statement with a syntax error if no fix certainly mends it."""

from __future__ import annotations

from ._axes import ARRAYS, CELLS
from ._fault import Fault
from ._habits import is_arrow, is_drawn
from ._hints import openers
from ._lex import Token
from ._notations import COMPARISONS
from ._readings import told_by_reading
from ._words import STATEMENT_WORDS

ALGORITHMS = (
    *("refinement", "padir", "mask_predict", "easy_first", "sundae", "remdm", "random_order", "block_diffusion", "autoregressive"),
    *("rejection", "tokenwise_rejection", "backtracking", "value_guided", "best_of", "block_best_of"),
)
CONDITION = "a condition stands behind a loop, `factor h[i] * x[i] for i in site if i > 2`, or in a term, `if c then a else b`"
LISTED_EDGES = "edges that are listed are an input: `input pairs[e, 2] : int = [[0, 1], [1, 2]]`, then `edges(pairs, nodes = 3)`"
PARTS = ("edges", "arcs", "nodes", "rows", "columns")
LINK = "`~` takes a distribution, `y ~ categorical(p)`; a regression of a bit y is `y ~ bernoulli(logit = a + b * z)`"
DENSITY = "a distribution is no function: a bit with log odds h is `y ~ bernoulli(logit = h)`, one of probability p `y ~ bernoulli(p)`"
CODE = "a program is data and runs no code: it declares inputs, models, masks and samplers; data, seeds and calls belong to Python"
DRAWN = (
    "the prior of a parameter is `param h ~ normal(0, 1)`; a variable is declared, `var x : bit`, and then `x ~ categorical([0.5, 0.5])`"
)
# Advice for method calls, by the name after the point.
METHODS = {
    "where": "a choice is written `if c then a else b`",
    **dict.fromkeys(("neighbors", "neighbours", "adj", "nbrs"), "the edges of a graph are a loop: `for (i, j) in G.edges`"),
}


def advice(fault: Fault) -> str:
    """Return advice for a statement with a syntax error, or "" if none is known."""
    first, token, previous = fault.tokens[fault.start], fault.token, fault.previous
    after = fault.tokens[min(fault.at + 1, len(fault.tokens) - 1)]
    known = _advice_of_front(fault) or openers().get((first.text, fault.level), "") or openers().get((first.text, ""), "")
    if known and fault.alone and (fault.at <= fault.start + 2 or fault.tokens[fault.start + 1].text == "["):
        return known
    if first.text in ARRAYS and token.text == "in" and fault.at == fault.start + 2:
        return (
            f"a type follows `:`, as in `{first.text} {previous.text if previous else 'x'} : {'spin' if first.text in CELLS else 'real'}`"
        )
    if is_arrow(token, after) and fault.level == "model_statement":
        return "nothing is assigned: a name for an expression is given with `let name = ..`, and a distribution with `name ~ ..`"
    known = told_by_reading(fault) or _advice_of_elsewhere(fault, first, after) or _advice_of_statement(fault, first)
    known = known or _advice_of_sampler(fault, first) or _advice_of_function(fault) or _advice_of_declaration(fault, first)
    known = known or _advice_of_loop(fault, after) or _advice_of_term(fault, after)
    return known or _advice_of_sign(fault, first, after) or _advice_of_token(fault, first, after)


def _advice_of_statement(fault: Fault, first: Token) -> str:
    """Return advice that depends on the statement, and on the token in place of a part of it."""
    token, previous = fault.token, fault.previous
    before = previous.text if previous else ""
    if first.text == "graph" and before == "=" and token.text in ("[", "{"):
        return LISTED_EDGES
    if (first.text == "domain" and before == "=") or (before == ":" and token.text.count("..") == 1):
        return '0 to q - 1 are `range(q)`, words `labels("a", "b")`, letters `letters("ACGT")`'
    if first.text == "sampler" and token.text == "." and fault.tokens[fault.at - 2].text == "=":
        return "a sampler is made of updates, `sampler name { update x[i] for i in site }`; samplers of other programs do not stand here"
    if known := _advice_of_sets(fault, first, before):
        return known
    if first.text == "network" and token.text == ".":
        return 'a network is `transformer(..)`, `encoder_decoder(..)` or `mlp(..)`, one of your own `python("package.module:Class")`'
    if first.text in ("model", "sampler") and "{" in fault.expected and (token.text == ":" or token.opens_line):
        return f"the body of a {first.text} stands between braces: `{first.text} name {{ .. }}`"
    if first.text == "param" and token.text in COMPARISONS:
        return f"bounds are a type: `param {before} : positive`, or `real(lower = .., upper = ..)`"
    if fault.source.text.startswith("--", token.start):
        return "a comment opens with `#`"
    if token.text == "|" and "~" in fault.expected:
        return "what a distribution depends on stands in its table: `x ~ categorical(p[y])`"
    return ""


def _advice_of_sets(fault: Fault, first: Token, before: str) -> str:
    """Return advice for index sets that are lists, and for distributions outside a model."""
    if first.text == "index" and (fault.token.text == "," or (before == "=" and fault.token.text in ("[", "{"))):
        return "an index set is `range(n)`, each in a statement of its own; some of its members: `index core = i in site if i % 2 == 0`"
    if fault.level == "statement" and fault.tokens[fault.start + 1].text == "~":
        return f"a distribution stands in a model; a parameter of all models is `param {first.text} ~ ..`"
    return ""


def _advice_of_elsewhere(fault: Fault, first: Token, after: Token) -> str:
    """Return advice for distributions, densities and draws as other languages write them."""
    token, before = fault.token, fault.previous.text if fault.previous else ""
    if token.text == "=" and fault.level == "model_statement" and "NAME" in first.terminals and is_drawn(fault):
        return DRAWN
    if any(t.text.endswith(("_lpmf", "_lpdf", "_logpmf", "_logpdf")) for t in fault.tokens[fault.start : fault.at + 4]):
        return DENSITY
    if fault.level == "model_statement" and before == "~" and fault.at == fault.start + 2 and token.text != "(":
        return LINK
    if (
        fault.level == "model_statement"
        and fault.tokens[fault.at - 2].text == "~"
        and "(" in fault.expected
        and token.text in ("+", "*", ":", "|")
    ):
        return LINK
    if first.text == "conditional" and token.text in ("[", "("):
        return (
            f"a network predicts a whole array, `conditional {before} ~ net()`; a cell has a distribution, `{before}[i] ~ categorical(p)`"
        )
    if first.text == "model" and token.text == "=" and fault.at == fault.start + 2:
        return f"a model has a body, `model {before} {{ .. }}`; a regression of a bit y in it is `y ~ bernoulli(logit = a + b * z)`"
    if token.text == "<" and before == "for":
        return "a pair stands in parentheses: `for (i, j) in G.edges`"
    if token.text == "@" and fault.at == fault.start:
        return "a term of log p is `factor ..`" if after.text in ("addlogprob", "addlogprior") else CODE
    return ""


def _advice_of_declaration(fault: Fault, first: Token) -> str:
    """Return advice for a declaration with a type, axis or value of another language."""
    token, before, place = fault.token, fault.previous.text if fault.previous else "", fault.at - fault.start
    if first.text == "param" and token.text == "=":
        name = before if before != "]" else f"{fault.tokens[fault.start + 1].text}[..]"
        return f"a parameter is fitted: a prior is `{name} ~ normal(0, 1)`, a number that is not fitted `input {name} : real = ..`"
    if first.text == "input" and ":" in fault.expected and (token.text == "=" or _ends_line(token)) and place > 1:
        type_ = "real" if before == "]" else "int"
        return (
            f"a type stands before the default, as in `input {fault.tokens[fault.start + 1].text} : {type_} = ..`"
            if (token.text == "=")
            else f"a type follows: `: {type_}`"
        )
    if first.text in (*CELLS, "param", "let") and "in" in fault.expected and token.text in ("]", ",") and not _says_in(fault):
        name = fault.tokens[fault.start + 1].text
        return f"each axis names its index: `{name}[i in range(n)]`, or `{name}[i in site]` over an index set `site`"
    if first.text in CELLS and (told := _advice_of_cells(fault)):
        return told
    if first.text == "mask" and before in ("each", "choose") and fault.tokens[fault.at - 2].text == "=":
        return f"`choose` and `each` stand between braces: `mask {fault.tokens[fault.start + 1].text} {{ {before} .. }}`"
    if first.text == "model" and token.text in ("for", "[") and place == 2:
        return f"a model is declared once; what repeats is an axis of its variables: `model {before} {{ var x[i in site] : bit }}`"
    if first.text == "mask" and token.text == "[" and fault.tokens[fault.at - 2].text == "=":
        return f"a mask of one block is `blocks({{{before}[0], {before}[1]}})`"
    if first.text == "graph" and any(fault.tokens[k].text == "[" for k in fault.open_brackets() if k > fault.start):
        return LISTED_EDGES
    if token.text == ":" and fault.level == "model_statement" and place == 1:
        return f"what the data hold is declared `var {first.text} : bit`, what is fitted `param {first.text} : real`"
    return ""


def _advice_of_cells(fault: Fault) -> str:
    """Return advice for a variable with a missing type, or with a value."""
    first, token = fault.tokens[fault.start], fault.token
    if ":" in fault.expected and _ends_line(token) and fault.at > fault.start + 1:
        types = "`: real`, or that of a cell" if first.text == "given" else "`: bit`, `: spin`, `: range(q)`, or a domain"
        return f"a type follows: {types}"
    if token.text == "=" and ":" in (t.text for t in fault.tokens[fault.start : fault.at - 1]):
        name = fault.tokens[fault.start + 1].text
        return f"a variable has no value of its own: `require {name} == ..` holds it at one, `clamp=` in Python in one call"
    return ""


def _advice_of_function(fault: Fault) -> str:
    """Return advice for a function of the file."""
    if fault.tokens[fault.start].text != "function" or fault.at <= fault.start + 1:
        return ""
    name, opened = fault.tokens[fault.start + 1].text, fault.open_brackets()
    inside = bool(opened) and opened[-1] == fault.start + 2
    if inside and fault.previous and "NAME" in fault.previous.terminals:
        return f"arguments have names alone, without types and defaults: `function {name}(x, y) = ..`"
    return f"a function is one expression of its arguments: `function {name}(x, y) = x * y`"


def _ends_line(token: Token) -> bool:
    return token.opens_line or not token.text


def _says_in(fault: Fault) -> bool:
    """Return whether an `in` follows on this line.

    For example, `var x[i, j in G.edges]` names a pair.
    """
    rest = fault.tokens[fault.at :]
    end = next((k for k, t in enumerate(rest) if t.opens_line or t.text in ("]", "")), len(rest))
    return any(t.text == "in" for t in rest[:end])


def _advice_of_front(fault: Fault) -> str:
    """Return advice for a loop in front of a declaration."""
    if fault.token.text != "for" or fault.at != fault.start or fault.level != "model_statement":
        return ""
    tokens = fault.tokens[fault.start :]
    end = next((k for k, t in enumerate(tokens) if t.text in ("}", "") or (k > 3 and t.text in STATEMENT_WORDS)), 0)
    return f"an array is declared with its axes, without a loop: `{tokens[end].text} x[i in site] ..`" if tokens[end].text in ARRAYS else ""


def _advice_of_loop(fault: Fault, after: Token) -> str:
    """Return advice for a loop."""
    token, tokens, at = fault.token, fault.tokens, fault.at
    before = fault.previous.text if fault.previous else ""
    if token.text == "," and tokens[at - 2].text == "for" and "enumerate" in (t.text for t in tokens[at + 1 : at + 4]):
        return f"a loop names the index: `for {before} in site`; the cell is `x[{before}]`"
    if (
        token.text == ","
        and "in" in fault.expected
        and tokens[at - 2].text == "for"
        and tokens[min(at + 3, len(tokens) - 1)].text == "range"
    ):
        return f"two indices are two loops: `for {before} in .. for {after.text} in ..`; the edges of a graph are `for (i, j) in G.edges`"
    if token.text == "," and before in (")", "]") and tokens[min(at + 2, len(tokens) - 1)].text == "in" and "NAME" in after.terminals:
        return f"loops follow one another: `for .. in .. for {after.text} in ..`"
    if token.text == "(" and before == "(" and tokens[at - 2].text == "for":
        return "the nodes of a graph are one axis, `x[i in G.nodes]`, and an edge is a pair of them: `for (i, j) in G.edges`"
    if token.text == "~" and "in" in fault.expected:
        return "the edges of a graph are `for (i, j) in G.edges`"
    return ""


def _advice_of_term(fault: Fault, after: Token) -> str:
    """Return advice for a term."""
    token, previous = fault.token, fault.previous
    before = previous.text if previous else ""
    touches = previous is not None and previous.end == token.start
    if token.text == "," and fault.tokens[fault.start].text == "require" and not fault.open_brackets()[1:] and "in" not in fault.expected:
        return "join conditions with `and`, or write a `require` for each"
    if token.text == "{" and before.lower().startswith("sum"):
        return "a sum is written `sum(x[i] for i in site)`"
    if token.text in ("{", ":") and "then" in fault.expected:
        return "a choice is written `if c then a else b`"
    if token.text == "[" and previous and previous.terminals == ("NUMBER",) and touches:
        return "a condition counts as 1 or 0: write `(a == b)`"
    if token.text[:1] == "'" and touches and previous and ("NAME" in previous.terminals or before in ("]", ")")):
        return "nothing is transposed: a product of vectors is `sum(x[i] * J[i, j] * y[j] for i in site for j in site)`"
    if token.text == ":" and before in ("[", ",") and "NUMBER" in fault.expected:
        return "a whole last axis is left out, `p[z[i]]`; several cells are a loop: `sum(x[i] for i in site)`"
    if token.text == "[" and fault.tokens[fault.at - 2].text == "~" and fault.level == "model_statement":
        return f"a distribution has a name: `~ categorical({before}[..])`"
    return ""


def _advice_of_sampler(fault: Fault, first: Token) -> str:
    """Return advice for a sampler, or for a statement in one."""
    token, before = fault.token, fault.previous.text if fault.previous else ""
    if first.text == "sampler" and (before, "sampler_statement") in openers():
        return openers()[before, "sampler_statement"]
    if first.text == "sampler" and before == "update" and "(" in fault.expected:
        return "updates stand between braces: `sampler name { update .. }`"
    if first.text in ALGORITHMS and fault.level == "sampler_statement":
        return f"an algorithm stands behind `=`: `sampler name = {first.text}(..)`"
    if fault.level == "sampler_statement" and fault.tokens[min(fault.at + 1, len(fault.tokens) - 1)].text == "=":
        return "numbers of draws are told in Python, `model.sample(params, draws=1000)`; the same again is `repeat 10 { .. }`"
    if first.text == "repeat" and before == "repeat" and token.text == "{":
        return "a number says how often: `repeat 10 { .. }`; how many draws there are is told in Python, `model.sample(params, draws=1000)`"
    if first.text == "update" and "where" in fault.expected and (token.text in ("(", "from", "with", "by", "using")):
        return "a block that a mask draws is named: `update x[K] where K ~ subsets(x, size = 2)`"
    if first.text == "update" and fault.tokens[fault.at - 2].text == "where":
        return f"a block that a mask draws is named: `update x[K] where K ~ {before}`"
    if first.text == "update" and before == "for" and token.terminals == ("NUMBER",):
        return f"the same again is `repeat {token.text} {{ update .. }}`"
    return ""


def _advice_of_sign(fault: Fault, first: Token, after: Token) -> str:
    """Return advice for a sign that has a meaning in other languages."""
    token, previous = fault.token, fault.previous
    if token.text == "=" and fault.level == "model_statement" and "NAME" in first.terminals and "~" in fault.expected:
        axes, cell = ("", "") if fault.at == fault.start + 1 else ("[i in site]", "[i]")
        return f"a name for an expression is given with `let {first.text}{axes} = ..`, a distribution with `{first.text}{cell} ~ ..`"
    if token.text == "in" and previous and previous.text == "%":
        return "a cell is compared with one value at a time: `x == 1 or x == 3`"
    if token.text == "[" and fault.tokens[fault.at - 2].text == "in":
        return "a loop runs over all of an index set; `if` takes some: `for i in site if i % 2 == 0`"
    if token.text == "." and previous and previous.text == ")" and after.text in PARTS:
        return f"a graph has a name: `graph G = ..` before this, then `G.{after.text}`"
    if token.text == "(" and fault.tokens[fault.at - 2].text == ".":
        return METHODS.get(previous.text if previous else "", "functions stand alone: `exp(x[0])`, `sum(x[i] for i in site)`")
    if token.text == "@":
        return "a product of vectors is `sum(x[i] * y[i] for i in site)`"
    if token.text == ":" and "]" in fault.expected and first.text not in ARRAYS:
        cells = f"{previous.text}, {after.text}" if previous and {*previous.terminals, *after.terminals} == {"NUMBER"} else "2"
        return f"an index is one cell; several are a loop: `sum(x[i] for i in range({cells}))`"
    if token.text == "{" and any(t.text == "if" and t.opens_line for t in fault.tokens[fault.start : fault.at]):
        return CONDITION
    if token.text == "?":
        return "a choice is written `if c then a else b`"
    return ""


def _advice_of_token(fault: Fault, first: Token, after: Token) -> str:
    """Return advice that depends on the unexpected token."""
    token, previous = fault.token, fault.previous
    if first.text == "factor" and token.text == "if" and "+" in fault.expected:
        return "`if` limits a `for`; a term that depends on a condition is `factor if c then a else 0`"
    if previous and previous.text == ":" and token.text in ("{", "[") and first.text in CELLS:
        return '`spin` is -1 or +1, `bit` 0 or 1, `range(q)` 0 to q - 1, `range(a, b)` a to b - 1; other values are `labels("a", "b")`'
    if token.terminals == ("NUMBER",) and after.text == ":":
        return "an index set is `range(n)`: 0 to n - 1"
    if (token.text.count("..") == 1 and not token.terminals) or (previous and previous.text == "in" and token.text in ("[", "{")):
        return "an index set is `range(n)`, 0 to n - 1, a declared one or `G.edges`; some of its members: `for i in site if i > 1`"
    if token.text == "in" and "for" in fault.expected:
        return "in a sum the loop stands behind `for`: `sum(x[i] for i in site)`"
    if first.text == "import" and fault.at == fault.start + 1:
        return 'an import names a file: `import "parts/ising.gmlm"`; a program runs no Python'
    if first.text in ("model", "mask", "sampler") and fault.at == fault.start + 1:
        form = {"model": "{ .. }", "mask": "= subsets(size = 1)", "sampler": "{ update x }"}[first.text]
        return f"a {first.text} has a name: `{first.text} name {form}`"
    return ""
