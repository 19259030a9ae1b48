"""Errors people can act on: what they say, where they point, what mends them; and one mistake gives one error."""

from __future__ import annotations

import random
import time

import pytest
from lark import Lark
from lark.exceptions import LarkError
from syntax_programs import PROGRAMS
from test_syntax import GRAMMAR

from gmlmdsl._diagnostics import Diagnostic, GmlmError, Source
from gmlmdsl.syntax import parse, parse_with_errors
from gmlmdsl.syntax._lex import tokenize
from gmlmdsl.syntax._tables import load_tables

HOME = "move it between the braces of a model: `model name { .. }`"
MODEL = "model m {{\n  var x : spin\n  {}\n  factor x\n}}\nmask q = everything(x)"
FILE = "{}\nmask q = everything(x)"


def one_error(text: str) -> Diagnostic:
    found = parse_with_errors(text)[1]
    assert len(found) == 1, "\n".join(d.render() for d in found)
    return found[0]


def mended(text: str, diagnostic: Diagnostic) -> str:
    fix = diagnostic.fix
    assert fix is not None
    return text[: fix.span.start] + fix.text + text[fix.span.end :]


# statement in a model -> code, message, what is underlined, help
IN_MODEL = {
    "fatcor 2 * x": ("E104", "`fatcor` is not a keyword here", "fatcor", "did you mean `factor`?"),
    "vra y : spin": ("E104", "`vra` is not a keyword here", "vra", "did you mean `var`?"),
    "factor x && x": ("E107", "`&&` is not an operator", "&&", "write `and`"),
    "factor x|x": ("E107", "`|` is not an operator", "|", "write `or`"),
    "require !x": ("E107", "`!` is not an operator", "!", "write `not`"),
    "factor x ** 2": ("E107", "`**` is not an operator", "**", "write `^`"),
    "let a := x": ("E107", "`:=` is not an operator", ":=", "write `=`"),
    "require a <> b": ("E107", "`<>` is not an operator", "<>", "write `!=`"),
    "factor 'a' == y": ("E107", "a string stands in double quotes", "'a'", 'write `"a"`'),
    "factor h // the field of a spin": ("E107", "`//` does not open a comment", "//", "a comment opens with `#`"),
    "// a line of words": ("E107", "`//` does not open a comment", "//", "a comment opens with `#`"),
    "/* some words */": ("E107", "`/*` does not open a comment", "/*", "a comment opens with `#`"),
    "require x = 1": ("E108", "`=` does not compare", "=", "write `==`"),
    "factor x for t in day if t = 5": ("E108", "`=` does not compare", "=", "write `==`"),
    "x = categorical(p)": ("E108", "`=` does not say how something is distributed", "=", "write `~`"),
    "param h = normal(0, 1)": ("E108", "`=` does not say how something is distributed", "=", "write `~`"),
    "require 0 < x < 3": ("E106", "comparisons are not chained", "<", "join two comparisons with `and`: `a < b and b < c`"),
    "factor if a == 1 2 else 3": ("E109", "expected `then` after `1`", "2", ""),
    "var y spin": ("E109", "expected `:` after `y`", "spin", ""),
    "factor x for i s": ("E109", "expected `in` after `i`", "s", ""),
    "param J[i, j in G.edges]": ("E109", "expected `in` after `i`", ",", "two indices together are written `(i, j) in ..`"),
    "var z = spin": ("E101", "expected `:`, found `=`", "=", "write `:`"),
    "var w : 3": ("E101", "expected a type after `:`", "3", ""),
    "factor x *": ("E101", "expected an expression after `*`", "*", ""),
    "factor": ("E101", "expected an expression after `factor`", "factor", ""),
    "factor * x": ("E101", "expected an expression after `factor`", "*", ""),
    "factor 2 * if a then b else c": (
        *("E101", "expected an expression after `*`", "if"),
        "put `if .. then .. else ..` in parentheses",
    ),
    "param b : real(lower = 0 upper = 1)": ("E101", "expected `,` or `)` after `0`", "upper", ""),
    "gauge J": ("E101", "expected `(` after `J`", "J", ""),
    "factor (x + 2": ("E102", "expected `)` to close the `(` opened here", "2", ""),
    "param h ~ normal(0, 1": ("E102", "expected `)` to close the `(` opened here", "1", ""),
    "factor h[i * x[i] for i in s": ("E102", "expected `]` to close the `[` opened here", "for", ""),
    "factor (x]": ("E102", "expected `)` to close the `(` opened here", "]", ""),
    "factor x + 2)": ("E103", "`)` closes nothing", ")", "remove the `)`"),
    "factor x[0]]": ("E103", "`]` closes nothing", "]", "remove the `]`"),
    "update x": (
        "E105",
        "`update` stands in a sampler, not in a model",
        "update",
        "move it between the braces of a sampler: `sampler name { .. }`",
    ),
    "var y(i in site) : spin": ("E121", "`y` is indexed with square brackets", "(i in site)", "write `y[i in site]`"),
    "factor a;;": ("E122", "`;` stands only at the end of a statement", ";", "remove the `;`"),
    "param u ~ normal(0, 1,)": ("E122", "`,` stands between two things, not before `)`", ",", "remove the `,`"),
    "factor x @ 2": ("E111", "`@` is not part of the language", "@", "a product of vectors is `sum(x[i] * y[i] for i in site)`"),
    "factor π * x": ("E111", "`π` is not part of the language", "π", "names are made of the letters a-z and A-Z, digits and `_`"),
    'factor w == "sun': ("E112", "a string without end", '"', 'close the string with `"` on the same line'),
    "factor .5 * x": ("E114", "`.5` is not a number", ".5", "write `0.5`"),
    "factor 1. * x": ("E114", "`1.` is not a number", "1.", "write `1.0`, or `1` for an integer"),
    "factor 3x": (
        *("E114", "`3x` is not a number", "3x"),
        "a name opens with a letter; between a number and a name stands an operator, such as `*`",
    ),
}

# statement of a file -> the same
IN_FILE = {
    "modle n { var y : bit }": ("E104", "`modle` is not a keyword here", "modle", "did you mean `model`?"),
    "smapler s { update x }": ("E104", "`smapler` is not a keyword here", "smapler", "did you mean `sampler`?"),
    "sampler s { update x[K] whre K ~ m }": ("E104", "`whre` is not a keyword here", "whre", "did you mean `where`?"),
    "mask m { choose {a} wieght 1 }": ("E104", "`wieght` is not a keyword here", "wieght", "did you mean `weight`?"),
    "mask m { choose {a, b} 0.4 }": ("E109", "expected a weight behind `choose`", "0.4", "write `choose 0.4 : {a, b}`"),
    "mask m { each x[i] for i in s }": (
        "E109",
        "expected a rate behind `each`",
        "x[i] for i in s",
        "write `each 0.5 : x[i] for i in s`",
    ),
    "mask m { choose a, b weight 1 }": ("E101", "expected `weight` or `:` after `a`", ",", "a block stands in braces: `{a, b}`"),
    "sampler s { update x[K] where K m }": ("E109", "expected `~` after `K`", "m", ""),
    "mask m subsets(x)": ("E109", "expected `=` after `m`", "subsets", ""),
    "mask m ~ subsets(x)": ("E101", "expected `=`, found `~`", "~", "write `=`"),
    "mask m": ("E101", "expected `=` or `{` after `m`", "m", ""),
    "mask m = f(x, rate: 0.2)": ("E101", "expected `=`, found `:`", ":", "write `=`"),
    "mask m = f(x, noise = {hide = 1})": ("E101", "expected `:`, found `=`", "=", "write `:`"),
    "mask m = mixture { }": (
        *("E101", "expected a row of the mixture, found `}`", "}"),
        "a row opens with its weight, a number or the name of an input: `0.5 : ..`",
    ),
    "import ising": (
        *("E101", "expected a string in double quotes after `import`", "ising"),
        'an import names a file: `import "parts/ising.gmlm"`; a program runs no Python',
    ),
    "model { var y : bit }": (
        *("E101", "expected the name of the model after `model`", "{"),
        "a model has a name: `model name { .. }`",
    ),
    "index s = 4": ("E101", "expected an index set, such as `range(4)`, after `=`", "4", ""),
    "input n : int =": ("E101", "expected an expression after `=`", "=", ""),
    "factor x": ("E105", "`factor` stands in a model, not at the top level of a file", "factor", HOME),
    "sampler s { factor x }": ("E105", "`factor` stands in a model, not in a sampler", "factor", HOME),
    "mask m { mixture { 1 : a } }": ("E105", "`mixture` of masks follows `=`", "mixture", "write `mask name = mixture { .. }`"),
    "mask m = mixture { 1 : a, 2 : b }": ("E122", "nothing stands between the rows of a mixture", ",", "remove the `,`"),
    "sampler s { update x(i) for i in s }": ("E121", "`x` is indexed with square brackets", "(i)", "write `x[i]`"),
    "}": ("E103", "`}` closes nothing", "}", "remove the `}`"),
}


@pytest.mark.parametrize("statement", IN_MODEL)
def test_a_broken_statement_of_a_model_gives_its_one_error(statement: str):
    d = one_error(MODEL.format(statement))
    assert (d.code, d.message, d.span.text, d.help) == IN_MODEL[statement]
    tree = parse_with_errors(MODEL.format(statement))[0]
    assert [s.name.name for s in tree.statements] == ["m", "q"]


@pytest.mark.parametrize("statement", IN_FILE)
def test_a_broken_statement_of_a_file_gives_its_one_error(statement: str):
    d = one_error(FILE.format(statement))
    assert (d.code, d.message, d.span.text, d.help) == IN_FILE[statement]
    assert parse_with_errors(FILE.format(statement))[0].statements[-1].name.name == "q"


@pytest.mark.parametrize("text", [MODEL.format(s) for s in IN_MODEL] + [FILE.format(s) for s in IN_FILE])
def test_a_proposed_edit_mends_the_fault(text: str):
    d = one_error(text)
    if d.fix:
        parse(mended(text, d))
    elif d.help.startswith(("write `", "remove", "did you mean")):
        assert d.code in ("E103", "E105", "E114")


def test_an_error_is_shown_with_its_line_and_its_cure():
    with pytest.raises(GmlmError) as error:
        parse("model m {\n  var x : spin\n  fatcor 2 * x\n}", "m.gmlm")
    assert str(error.value) == (
        "error[E104 misspelt-keyword]: `fatcor` is not a keyword here\n"
        " --> m.gmlm:3:3\n"
        "  |\n"
        "3 |   fatcor 2 * x\n"
        "  |   ^^^^^^\n"
        "help: did you mean `factor`?"
    )


def test_a_missing_brace_names_what_it_closes_and_where_that_was_opened():
    d = one_error("model ising {\n  var x : spin\n\nmask s = subsets(x)\nsampler g {\n  update x\n}\n")
    assert d.render() == (
        "error[E102 unclosed-bracket]: expected `}` to close the model `ising` opened here\n"
        " --> <text>:4:19\n"
        "  |\n"
        "4 | mask s = subsets(x)\n"
        "  |                   ^ `}` belongs after this\n"
        " ::: <text>:1:13\n"
        "  |\n"
        "1 | model ising {\n"
        "  |             ^ opened here"
    )


BRACES = {
    "model m {\n  var x : spin\n": ("E102", "expected `}` to close the model `m` opened here"),
    "sampler s {\n  cycle {\n  update x\n}\nmask q = f(x)": ("E102", "expected `}` to close the sampler `s` opened here"),
    "model m {\n  var x : spin\n}\n  factor x\n}\nmask q = f(x)": ("E103", "`}` closes nothing"),
    "model m {{\n  var x : spin\n}\nmask q = f(x)": ("E103", "`{` opens nothing here"),
    "model m\n  var x : spin\n}\nmask q = f(x)": ("E109", "expected `{` after `m`"),
    "mask m { choose {x[i], x[j] for i in s weight 1 }\nmask q = f(x)": ("E102", "expected `}` to close the block opened here"),
}


@pytest.mark.parametrize("text", BRACES)
def test_a_brace_too_few_or_too_many_is_one_error_and_the_rest_is_read(text: str):
    d = one_error(text)
    assert (d.code, d.message) == BRACES[text]
    assert parse_with_errors(text)[0].statements


def test_all_mistakes_of_a_file_are_reported_in_one_run():
    statements = [s for s in IN_MODEL if s not in ("factor", "factor x *")]
    text = "model m {\n" + "".join(f"  {s}\n  factor x\n" for s in statements) + "}\n"
    found = parse_with_errors(text)[1]
    assert [d.code for d in found] == [IN_MODEL[s][0] for s in statements]
    assert [d.span.start for d in found] == sorted(d.span.start for d in found)


def test_the_tree_holds_what_was_read_and_the_names_of_what_was_not():
    text = "index s = range(3)\nmodel m {\n  var x : bit\n  param h[i in s ~ normal(0, sd)\n  factor x\n}\ngraph G = \nmask q = f(x)"
    tree, errors, skipped = parse_with_errors(text)
    assert len(errors) == 2
    assert [type(s).__name__ for s in tree.statements] == ["IndexSet", "Model", "Mask"]
    assert [type(s).__name__ for s in tree.statements[1].body] == ["Variable", "Factor"]
    assert {"h", "G", "sd"} <= skipped
    assert "x" not in skipped


def test_a_mended_statement_is_in_the_tree():
    tree, errors, skipped = parse_with_errors("model m { var x : bit  require x = 1 }")
    assert (len(errors), skipped) == (1, frozenset())
    assert tree == parse("model m { var x : bit  require x == 1 }")


def test_faults_inside_tokens_do_not_hide_other_errors():
    codes = [d.code for d in parse_with_errors('input n : int = 99999999999\nimport "a\\q"\nmask m')[1]]
    assert codes == ["E115", "E113", "E101"]


def test_long_files_with_many_errors_are_still_quick():
    text = "model m {\n" + "  factor J[i, j * x[i]\n" * 10_000 + "}"
    start = time.process_time()
    assert 1 <= len(parse_with_errors(text)[1]) <= 50
    assert time.process_time() - start < 8


def mutants(count: int, seed: int) -> list[str]:
    """Programs of the page with one token deleted, doubled, replaced, swapped with the next, or put in."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        text = rng.choice(list(PROGRAMS.values()))
        tokens = tokenize(Source("", text), load_tables()).tokens[:-1]
        k = rng.randrange(len(tokens) - 1)
        a, b, other = tokens[k], tokens[k + 1], rng.choice(tokens).text
        made.append(
            rng.choice(
                [
                    text[: a.start] + text[a.end :],
                    f"{text[: a.end]} {text[a.start :]}",
                    text[: a.start] + other + text[a.end :],
                    text[: a.start] + b.text + text[a.end : b.start] + a.text + text[b.end :],
                    f"{text[: a.start]}{other} {text[a.start :]}",
                ]
            )
        )
    return made


def test_one_mistake_gives_one_error():
    counts = [len(parse_with_errors(text)[1]) for text in mutants(500, seed=7)]
    wrong = [c for c in counts if c]
    assert len(wrong) > 250
    assert sum(c == 1 for c in wrong) / len(wrong) >= 0.97


def test_exactly_the_programs_of_the_grammar_are_read():
    lark = Lark(GRAMMAR, parser="lalr", lexer="contextual", start="program")

    def is_program(text: str) -> bool:
        try:
            lark.parse(text)
        except LarkError:
            return False
        return True

    for text in mutants(150, seed=11):
        assert is_program(text) == (not parse_with_errors(text)[1]), text


def test_nonsense_never_raises_anything_but_errors():
    rng = random.Random(3)
    words = [
        *"(){}[]=~:;,.+-*/%^<>\"'#&|!@\n\\",
        "model",
        "mask",
        "mixture",
        "update",
        "if",
        "else",
        "for",
        "in",
        "x",
        "0.5",
        "{",
        "}",
        "//",
    ]
    for text in mutants(150, seed=5):
        for _ in range(rng.randrange(1, 8)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(words) + text[at + rng.randrange(3) :]
        for d in parse_with_errors(text)[1]:
            d.render()
    for _ in range(500):
        parse_with_errors(" ".join(rng.choice(words) for _ in range(rng.randrange(40))))


def test_a_brace_and_other_mistakes_are_all_reported():
    text = "model m {{\n  var x : spin\n  {}\n  factor x\n{}\nmask s ~ subsets(x)\nsampler g {{ update x }}\n"
    for statement, brace, expected in (
        ("factor x *", "", ["E101", "E101", "E102"]),
        ("fatcor x", "", ["E104", "E101", "E102"]),
        ("require x = 1", "  }\n}", ["E108", "E103", "E101"]),
    ):
        assert [d.code for d in parse_with_errors(text.format(statement, brace))[1]] == expected
