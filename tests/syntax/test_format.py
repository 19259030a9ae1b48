"""Formatting keeps the meaning and the comments, and doing it twice changes nothing."""

from __future__ import annotations

import random
import re

import pytest
from lark import Lark
from syntax_programs import EVERY_NAME, PROGRAMS
from test_syntax import GRAMMAR

from gmlmdsl._diagnostics import GmlmError
from gmlmdsl.syntax import format_source, parse
from gmlmdsl.syntax._tables import Tables, load_tables


def formatted(text: str) -> str:
    """The canonical text, with the two promises of the formatter checked."""
    out = format_source(text)
    assert parse(out) == parse(text), out
    assert format_source(out) == out
    return out


def comments(text: str) -> list[str]:
    return [c.text for c in parse(text).comments]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_of_the_page_keep_their_meaning(name: str):
    out = formatted(PROGRAMS[name])
    assert comments(out) == comments(PROGRAMS[name])
    assert max(map(len, out.splitlines())) <= 100


def test_every_statement_has_its_canonical_form():
    crowded = """index   s=range( 3 );graph G=grid(4,4,wrap=true)
input P[ s,2 ]:positive=[1,-2]
model m{var x[ i in s ]:spin;param J[(i,j)in G.edges,a in s]:real(lower=0)~normal(0,1)
  let c=if x[0]==1 then 1 else 0
  factor J[i,j,0]*-x[i]^2 for(i,j)in G.edges if i<j
  x[0]~categorical(p)for t in s
conditional x~net( )}
mask k for m given x,y{choose{x[0],x[1]}for i in s weight w
each x[0] rate 0.5}
mask b=f(x,noise={hide:.8})
""".replace(":.8", ":0.8")
    assert (
        formatted(crowded)
        == """\
index s = range(3)
graph G = grid(4, 4, wrap = true)
input P[s, 2] : positive = [1, -2]
model m {
  var x[i in s] : spin
  param J[(i, j) in G.edges, a in s] : real(lower = 0) ~ normal(0, 1)
  let c = if x[0] == 1 then 1 else 0
  factor J[i, j, 0] * -x[i]^2 for (i, j) in G.edges if i < j
  x[0] ~ categorical(p) for t in s
  conditional x ~ net()
}
mask k for m sees x, y {
  choose w : {x[0], x[1]} for i in s
  each 0.5 : x[0]
}
mask b = f(x, noise = {hide: 0.8})
"""
    )


def test_comments_stay_in_their_places():
    text = """# first

# second
model m { # after the brace
      # own line
  var x : bit;   # after a statement

  # before a factor
  factor (x # inside
     # on its own inside
     + 1) for i in s # at the end
  # last in the body
}   # after the body
sampler s { update x }# after a body on one line
# last
"""
    assert (
        formatted(text)
        == """\
# first

# second
model m {  # after the brace
  # own line
  var x : bit  # after a statement

  # before a factor
  factor x  # inside
      # on its own inside
      + 1 for i in s  # at the end
  # last in the body
}  # after the body
sampler s { update x }  # after a body on one line
# last
"""
    )
    assert comments(formatted(text)) == comments(text)


def test_a_body_stays_on_one_line_where_it_fits():
    assert formatted("sampler  a{update h update v}") == "sampler a { update h  update v }\n"
    assert formatted("sampler a {\n update h update v }") == "sampler a {\n  update h\n  update v\n}\n"
    assert formatted("mask m = mixture { 0.5:a 0.5 : mixture{1:b} }") == "mask m = mixture { 0.5 : a  0.5 : mixture { 1 : b } }\n"
    long = "sampler a { " + "update variable where K ~ some_mask  " * 3 + "}"
    assert formatted(long).count("\n") == 5


def test_loops_of_a_row_stand_behind_the_braces_of_its_mask():
    row = "update x by mixture { 1 : a  k : b } for k in range(1, 3)"
    assert formatted(f"sampler s {{ mixture {{ 1 / k : {row} }} }}") == f"sampler s {{ mixture {{ 1 / k : {row} }} }}\n"
    broken = formatted(f"sampler s {{ mixture {{ 1 / k :\n{row} }} }}".replace("  k", "\nk")).splitlines()
    assert broken[-3:] == ["    } for k in range(1, 3)", "  }", "}"]


def test_at_most_one_blank_line_is_kept_and_none_at_the_edges_of_a_body():
    text = "\n\nindex a = range(2)\n\n\n\nindex b = range(2)\nmodel m {\n\n\n  var x : bit\n\n\n  factor x\n\n}\n\n\n"
    expected = "index a = range(2)\n\nindex b = range(2)\nmodel m {\n  var x : bit\n\n  factor x\n}\n"
    assert formatted(text) == expected


def test_long_statements_break_before_clauses_and_operators():
    text = "model m { factor " + " * ".join(f"long_name_{k}[i, j]" for k in range(8)) + " for (i, j) in G.edges if i < j and j < 5 }"
    assert (
        formatted(text)
        == """\
model m {
  factor long_name_0[i, j] * long_name_1[i, j] * long_name_2[i, j] * long_name_3[i, j]
      * long_name_4[i, j] * long_name_5[i, j] * long_name_6[i, j] * long_name_7[i, j]
      for (i, j) in G.edges if i < j and j < 5
}
"""
    )


def test_loops_stay_together_where_they_fit_and_no_line_breaks_before_a_distribution_in_vain():
    rows = ", ".join(f'("label {k}", "{v}"): [0.25, 0.75]' for k in range(2) for v in ("no", "yes"))
    text = f"model m {{ y[i, j] ~ categorical({{{rows}}}[first[i], second[j]]) for i in range(3) for j in range(3) if i != j }}"
    assert (
        formatted(text)
        == """\
model m {
  y[i, j] ~ categorical({("label 0", "no"): [0.25, 0.75], ("label 0", "yes"): [0.25, 0.75],
      ("label 1", "no"): [0.25, 0.75], ("label 1", "yes"): [0.25, 0.75]}[first[i], second[j]])
      for i in range(3) for j in range(3) if i != j
}
"""
    )
    text = "input pairs[edge, 2] : int = [" + ", ".join(f"[{k}, {k + 1}]" for k in range(12)) + "]"
    assert formatted(text).startswith("input pairs[edge, 2] : int = [[0, 1], [1, 2],")
    short = "model m { param a_really_rather_long_name_of_a_parameter[i in range(1000)] : real(lower = 0) ~ student_t(4, 0, 2.5) }"
    assert formatted(short).splitlines()[1].endswith("(lower = 0)")


def test_numbers_and_strings_keep_their_spelling():
    text = 'input a : real = 1.50e-03\nimport "a\\"b"\nindex s = range(007)\n'
    assert formatted(text) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("((a))", "a"),
        ("(a + b) + c", "a + b + c"),
        ("a + (b + c)", "a + (b + c)"),
        ("a - (b - c)", "a - (b - c)"),
        ("(a * b) + c", "a * b + c"),
        ("(a + b) * c", "(a + b) * c"),
        ("-(a ^ 2)", "-(a^2)"),
        ("(-a) ^ 2", "(-a)^2"),
        ("2 ^ (-1)", "2^-1"),
        ("(a ^ b) ^ c", "(a^b)^c"),
        ("a ^ (b ^ c)", "a^b^c"),
        ("-(-a)", "--a"),
        ("-(a * b)", "-(a * b)"),
        ("(-a) * b", "-a * b"),
        ("not (a == b)", "not (a == b)"),
        ("not ((a == b))", "not (a == b)"),
        ("not a == b", "not a == b"),
        ("not (a == b) or c == d", "not (a == b) or c == d"),
        ("(not a == b) or c == d", "(not a == b) or c == d"),
        ("(a == b and c == d) or e == f", "(a == b and c == d) or e == f"),
        ("a == b and c == d or e == f", "a == b and c == d or e == f"),
        ("(a == b) and (c == d)", "a == b and c == d"),
        ("f(a == b and c == d or e == f)", "f(a == b and c == d or e == f)"),
        ("(a % b) * c", "(a % b) * c"),
        ("a % b * c", "a % b * c"),
        ("(a * b) * c", "a * b * c"),
        ("(not a) == b", "(not a) == b"),
        ("not (a and b)", "not (a and b)"),
        ("(a or b) and c", "(a or b) and c"),
        ("(a < b) < c", "(a < b) < c"),
        ("(if a then b else c) + 1", "(if a then b else c) + 1"),
        ("if a then b else (if c then d else e)", "if a then b else if c then d else e"),
        ("f((a), ((b)))[0]".replace("[0]", ""), "f(a, b)"),
    ],
)
def test_parentheses_stand_where_they_are_needed(text: str, canonical: str):
    assert formatted(f"model m {{ factor {text} }}") == f"model m {{ factor {canonical} }}\n"


LONG = [
    "param strength_of_the_coupling[i in range(4), j in range(4)] : real(lower = 0, upper = 10) ~ normal(0, 1)",
    "factor 0.5 * x[0] * x[1]  # " + "a comment that is not short " * 3,
    "var a_variable_of_a_rather_long_name[first in a_long_index_set, second in another_index_set] : range(1000)",
    "require not (x[0] == 1) or x[1] == 0  # " + "why this is so, in many words " * 2,
]


@pytest.mark.parametrize("statement", LONG)
def test_no_line_is_wider_than_the_page(statement: str):
    out = formatted(f"model m {{\n  {statement}\n}}\n")
    assert max(map(len, out.splitlines())) <= 100
    assert comments(out) == comments(f"model m {{\n  {statement}\n}}\n")


def test_a_comment_that_allows_a_warning_stays_behind_its_statement():
    text = "model m {\n  param h  # gmlm: allow W803 " + "for a reason that takes many words " * 3
    assert formatted(text.rstrip() + "\n}\n") == text.rstrip() + "\n}\n"


def test_other_line_ends_and_a_byte_order_mark_go():
    assert formatted("\ufeffindex s = range(3) # one\r\n\r\n\r\nindex t = s\r\n") == "index s = range(3)  # one\n\nindex t = s\n"


def test_nothing_is_formatted_to_nothing():
    assert formatted("") == ""
    assert formatted("\n# only this") == "# only this\n"
    assert formatted("model m {\n# empty\n}") == "model m {\n  # empty\n}\n"


def test_a_program_with_errors_is_not_formatted():
    with pytest.raises(GmlmError):
        format_source("modle m { }")


def test_every_form_of_every_statement_is_written():
    for keyword in ("K", "factor", "where", "mixture"):
        formatted(re.sub(r"\bK\b", keyword, EVERY_NAME))


def test_the_deepest_programs_are_formatted():
    for text in ("(1 + " * 199 + "x" + ")" * 199, "f(" * 199 + "x" + ")" * 199, "if a then b else " * 200 + "x", "- " * 200 + "x"):
        out = format_source(f"model m {{ factor {text} }}")
        assert format_source(out) == out
    cycles = "sampler s {" + "cycle { " * 190 + "update x" + "}" * 190 + "}"
    assert format_source(format_source(cycles)) == format_source(cycles)


class Derivation:
    """Random programs drawn from the rules of the grammar itself, with comments and newlines strewn in."""

    def __init__(self, tables: Tables, sizes: dict[str, list[list[str]]], rng: random.Random):
        self.forms, self.rng = sizes, rng
        self.texts = {terminal: text for text, terminal in tables.literals.items()}
        self.least = self._least()

    def _least(self) -> dict[str, int]:
        """The height of the lowest derivation of every rule."""
        least: dict[str, int] = {}
        while len(least) < len(self.forms):
            for origin, forms in self.forms.items():
                heights = [1 + max((least.get(s, 0) for s in form), default=0) for form in forms if self._known(form, least)]
                if heights and origin not in least:
                    least[origin] = min(heights)
        return least

    def _known(self, form: list[str], least: dict[str, int]) -> bool:
        return all(s in least for s in form if s in self.forms)

    def tokens(self, symbol: str, height: int) -> list[str]:
        if symbol not in self.forms:
            return [self._terminal(symbol)]
        fitting = [f for f in self.forms[symbol] if max((self.least.get(s, 0) for s in f), default=0) < max(height, self.least[symbol])]
        form = self.rng.choice(fitting)
        return [t for s in form for t in self.tokens(s, height - 1)]

    def _terminal(self, symbol: str) -> str:
        if symbol in ("NAME", "ROW_NAME"):
            return self.rng.choice(["a", "x", "long_name", "G", "i"])
        if symbol == "NUMBER":
            return self.rng.choice(["0", "12", "0.50", "1e-3"])
        return '"a b"' if symbol == "STRING" else self.texts[symbol]

    def program(self) -> str:
        gaps = [" ", " ", " ", " ", "\n", " # c\n", "\n\n\n# d\n"]
        return "".join(t + self.rng.choice(gaps) for t in self.tokens("program", 22))


def rules_of(grammar_rules: list[list[object]]) -> dict[str, list[list[str]]]:
    forms: dict[str, list[list[str]]] = {}
    for origin, expansion in grammar_rules:
        forms.setdefault(str(origin), []).append([str(s) for s in expansion])
    return forms


def formatted_at_random(seed: int, count: int) -> int:
    """Format programs of a seed, each promise verified; how many statements they have."""
    lark = Lark(GRAMMAR, parser="lalr", start="program")
    forms = rules_of([[r.origin.name, [s.name for s in r.expansion]] for r in lark.rules])
    derivation = Derivation(load_tables(), forms, random.Random(seed))
    statements = 0
    for _ in range(count):
        text = derivation.program()
        assert comments(formatted(text)) == comments(text), text
        statements += len(parse(text).statements)
    return statements


def test_random_programs_of_the_grammar_survive_formatting():
    assert formatted_at_random(1, 250) > 150


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 22))
def test_twenty_thousand_random_programs_survive_formatting(seed: int):
    """Formatted text is parsed to the same tree, and formatting it again changes nothing."""
    assert formatted_at_random(seed, 1000) > 600
