"""What the parser reads, what it refuses, and the limits it keeps."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lark import Lark
from syntax_programs import EVERY_NAME, PROGRAMS
from thinned import thinned

from gmlmdsl._diagnostics import GmlmError, codes
from gmlmdsl.syntax import parse, parse_with_errors, read_source, tree
from gmlmdsl.syntax._tables import build_tables
from gmlmdsl.syntax._words import NAMES, RESERVED

ROOT = Path(__file__).resolve().parents[2]
GRAMMAR = (ROOT / "grammar" / "gmlm.lark").read_text(encoding="utf-8")


def factor(text: str) -> tree.Expression:
    """The expression of the one factor in a model."""
    return parse(f"model m {{ factor {text} }}").statements[0].body[0].value


def show(node: tree.Node) -> str:
    """An expression with every operation in parentheses."""
    match node:
        case tree.Binary():
            return f"({show(node.left)} {node.operator} {show(node.right)})"
        case tree.Unary():
            return f"({node.operator} {show(node.operand)})"
        case tree.Conditional():
            return f"(if {show(node.test)} then {show(node.yes)} else {show(node.no)})"
        case tree.Name():
            return node.name
        case tree.Number():
            return str(node.value)
    return node.span.text


def error_codes(text: str) -> list[str]:
    return [d.code for d in parse_with_errors(text)[1]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_of_the_page_are_read(name: str):
    program = parse(PROGRAMS[name], f"{name}.gmlm")
    assert program.statements
    assert all(text.span.source.path == f"{name}.gmlm" for text in program.statements)


def test_the_grammar_has_no_conflict_in_strict_mode_and_reads_the_same_programs():
    lark = Lark(GRAMMAR, parser="lalr", lexer="contextual", strict=True, start="program")
    for text in PROGRAMS.values():
        lark.parse(text)


def test_tables_made_ahead_are_those_of_the_grammar():
    built = build_tables(GRAMMAR)
    assert built == json.loads(json.dumps(built))
    ahead = ROOT / "grammar" / "gmlm.tables.json"
    if ahead.exists():
        assert json.loads(ahead.read_text(encoding="utf-8")) == built


@pytest.mark.slow
def test_tables_do_not_depend_on_the_order_of_sets():
    script = "import sys; sys.path.insert(0, sys.argv[1]); from gmlmdsl.syntax._tables import build_tables; "
    script += "import hashlib, json; print(hashlib.sha256(json.dumps(build_tables(open(sys.argv[2]).read())).encode()).hexdigest())"
    command = [sys.executable, "-c", script, str(ROOT), str(ROOT / "grammar" / "gmlm.lark")]
    outputs = {subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout for seed in "12"}
    assert len(outputs) == 1


@pytest.mark.parametrize("keyword", [*sorted(NAMES), "plain"])
def test_every_keyword_is_a_name_wherever_a_name_may_stand(keyword: str):
    program = parse(EVERY_NAME.replace("K", keyword))
    assert [type(s).__name__ for s in program.statements] == [
        *("IndexSet", "Domain", "Input", "Graph", "Network", "Model", "Mask", "Mask", "Mask", "Mask", "Sampler", "Sampler")
    ]
    assert len(program.statements[5].body) == 12
    assert [len(s.rows) for s in program.statements[10].body if isinstance(s, tree.KernelMixture)] == [4]


@pytest.mark.parametrize("word", RESERVED)
def test_reserved_words_are_no_names(word: str):
    assert error_codes(f"model m {{ var {word} : bit }}")[:1] in (["E110"], ["E101"])
    with pytest.raises(GmlmError):
        parse(f"index {word} = range(4)")


def test_words_are_read_whole():
    assert parse("model forest { var order : bit  factor android }").statements[0].body[1].value.name == "android"


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("-a^2", "(- (a ^ 2))"),
        ("2^-1", "(2 ^ (- 1))"),
        ("a^b^c", "(a ^ (b ^ c))"),
        ("-a^-b^c", "(- (a ^ (- (b ^ c))))"),
        ("a - b - c", "((a - b) - c)"),
        ("a / b * c", "((a / b) * c)"),
        ("a // b % c", "((a // b) % c)"),
        ("a + b * c", "(a + (b * c))"),
        ("a * -b", "(a * (- b))"),
        ("- -a", "(- (- a))"),
        ("not a == b", "(not (a == b))"),
        ("not not a and b or c", "(((not (not a)) and b) or c)"),
        ("a or b and c", "(a or (b and c))"),
        ("a + 1 < b", "((a + 1) < b)"),
        ("if a then b else if c then d else e + 1", "(if a then b else (if c then d else (e + 1)))"),
        ("(a + b) * c", "((a + b) * c)"),
    ],
)
def test_operators_bind_as_the_page_says(text: str, meaning: str):
    assert show(factor(text)) == meaning


def test_newlines_mean_nothing_and_an_operator_or_bracket_continues_the_line_above():
    spread = "model m {\nfactor\nx\n[i]\n* y\n+ f\n(z)\nfor\ni in s\nif\ni > 0 factor y }"
    assert parse(spread) == parse("model m { factor x[i] * y + f(z) for i in s if i > 0; factor y; };")


def test_a_semicolon_ends_a_statement_and_stands_nowhere_else():
    parse("index s = range(3); model m { var x : bit; }; mask k { choose {x} weight 1; }; sampler g { update x; cycle { update x; }; };")
    for text in ("; index s = range(3)", "index s = range(3);;", "model m { ; }", "index s = range(3;)"):
        assert error_codes(text) == ["E122"]


def test_a_factor_of_that_name_may_open_a_conditional():
    body = (
        parse("model m { var factor : bit  factor factor * factor  factor[0] ~ categorical(p)  factor ~ categorical(p) }")
        .statements[0]
        .body
    )
    assert [type(s).__name__ for s in body] == ["Variable", "Factor", "Distributed", "Distributed"]


def test_the_weight_of_a_row_opens_with_a_number_or_a_name():
    rows = (
        parse("mask m = mixture { 1 / 3 : a  w : b  w[0] * 2 : c  (1) : d }".replace("(1) : d", "2 * (1 + w) : d")).statements[0].body.rows
    )
    assert [show(r.weight) for r in rows] == ["(1 / 3)", "w", "(w[0] * 2)", "(2 * (1 + w))"]


def test_arguments_may_be_blocks_options_lists_and_sums():
    call = parse("mask m = f({a, b[0]}, {a: 1, b: 2}, [1, [x]], {}, [], k = {a}, l = e for_ ) ".replace(" for_ ", "")).statements[0].body
    kinds = [type(a.value).__name__ for a in call.arguments]
    assert kinds == ["Block", "Options", "List", "Block", "List", "Block", "Name"]
    inner = parse("mask m = blocks({w[t], w[t + 1]} for t in day for u in day if t < 5)").statements[0].body.arguments[0]
    assert (len(inner.clauses.loops), show(inner.clauses.condition)) == (2, "(t < 5)")


def test_headers_of_masks_and_samplers():
    mask = parse("mask m for ising given x, y = mixture { 1 : a }").statements[0]
    assert (mask.model.name, [n.name for n in mask.given], type(mask.body).__name__) == ("ising", ["x", "y"], "MaskMixture")
    sampler = parse("sampler s for ising = refinement(steps = 4)").statements[0]
    assert (sampler.model.name, sampler.body.function.name) == ("ising", "refinement")


def test_spans_cover_what_they_name():
    program = parse("model m {\n  factor (a + b) * c for i in s; # why\n}")
    statement = program.statements[0].body[0]
    assert statement.span.text == "factor (a + b) * c for i in s"
    assert statement.value.span.text == "(a + b) * c"
    assert statement.clauses.loops[0].span.text == "i in s"
    assert [(c.text, c.alone) for c in program.comments] == [("# why", False)]


def test_spans_take_no_part_in_comparison():
    assert parse("index s=range( 3 )") == parse("# other\nindex s = range(3)")


def test_numbers_and_strings_have_their_values():
    assert [factor(t).value for t in ("12", "0.5", "1e-3", "2E2", "2147483648", "007")] == [12, 0.5, 0.001, 200.0, 2**31, 7]
    assert isinstance(factor("1e2").value, float)
    assert factor(r'"a\"b\\c\n\t#"').value == 'a"b\\c\n\t#'


def test_a_byte_order_mark_and_other_line_ends_are_fine(tmp_path: Path):
    file = tmp_path / "a.gmlm"
    file.write_bytes(b"\xef\xbb\xbfindex s = range(3) # one\r\nindex t = range(4)\r\n")
    source = read_source(file)
    assert parse(source.text, source.path) == parse("index s = range(3)\nindex t = range(4)")
    assert parse("\ufeffindex s = range(3)") == parse("index s = range(3)")
    assert parse("index s = range(3) # one\r\n").comments[0].text == "# one"


def test_an_empty_file_is_a_program():
    assert parse("").statements == parse("# nothing\n").statements == ()


def test_files_that_cannot_be_read_are_errors(tmp_path: Path):
    (tmp_path / "binary.gmlm").write_bytes(b"index s\n\xff\xfe")
    (tmp_path / "large.gmlm").write_bytes(b"#" * (1024 * 1024 + 1))
    (tmp_path / "full.gmlm").write_bytes(b"\xef\xbb\xbf" + b"#" * (1024 * 1024))
    found = {}
    for name in ("missing.gmlm", ".", "binary.gmlm", "large.gmlm", "nul\0", "x" * 300):
        with pytest.raises(GmlmError) as error:
            read_source(tmp_path / name)
        found[name[:10]] = error.value.codes
    assert found == {
        "missing.gm": ("E120",),
        ".": ("E120",),
        "binary.gml": ("E119",),
        "large.gmlm": ("E118",),
        "nul\0": ("E120",),
        "x" * 10: ("E120",),
    }
    assert len(read_source(tmp_path / "full.gmlm").text) == 1024 * 1024


HOSTILE = {
    "parentheses": ("model m { factor " + "(" * 100_000 + "x" + ")" * 100_000 + " }", "E117"),
    "open parentheses": ("model m { factor " + "(" * 100_000, "E117"),
    "braces": ("model m " + "{" * 100_000, "E117"),
    "calls": ("model m { factor " + "f(" * 100_000 + "x" + ")" * 100_000 + " }", "E117"),
    "mixtures": ("mask m = " + "mixture { 1 : " * 10_000 + "a" + " }" * 10_000, "E117"),
    "signs": ("model m { factor " + "- " * 100_000 + "1 }", "E117"),
    "nots": ("model m { require " + "not " * 100_000 + "a }", "E117"),
    "ifs": ("model m { factor " + "if a then b else " * 10_000 + "1 }", "E117"),
    "sum": ("model m { factor " + "1+" * 100_000 + "1 }", "E117"),
    "powers": ("model m { factor " + "2^" * 100_000 + "1 }", "E117"),
    "long integer": ("input n : int = " + "9" * 400, "E115"),
    "very long integer": ("input n : int = " + "9" * 900_000, "E115"),
    "above 2^31": ("input n : int = 2147483649", "E115"),
    "infinite": ("model m { factor 1e999 }", "E115"),
    "long string": ('import "' + "a" * (64 * 1024 + 1) + '"', "E116"),
    "large": ("#" * (1024 * 1024 + 1), "E118"),
    "large in bytes": ("#" + "\u00e9" * (512 * 1024), "E118"),
    "zeros": ("\0" * 100_000, "E111"),
    "letters": ("\u00e9" * 100_000, "E111"),
    "quotes": ('"' * 99_999, "E101"),
    "comments before a colon": ("a " + "#a" * 100_000, "E101"),
    "spaces before a colon": ("a" + " " * 500_000, "E101"),
    "surrogate": ("model m { \ud800 }", "E111"),
}


@pytest.mark.parametrize("name", thinned(HOSTILE, 4))
def test_hostile_text_gives_one_clear_error_at_once(name: str):
    text, code = HOSTILE[name]
    start = time.process_time()
    assert error_codes(text) == [code]
    assert time.process_time() - start < 4  # seconds of this process; a quadratic parser takes minutes


def test_nesting_of_200_is_read():
    parse("model m { factor " + "(" * 199 + "x" + ")" * 199 + " }")
    assert show(factor("-" * 200 + "x")).count("-") == 200
    assert show(factor("1 + " * 200 + "x")).count("+") == 200
    assert error_codes("model m { factor " + "(" * 200 + "x" + ")" * 200 + " }") == ["E117"]
    error = parse_with_errors("model m {\n  factor x\n  factor " + "-" * 201 + "x\n}")[1][0]
    assert (error.code, str(error.span), error.span.text) == ("E117", "<text>:3:3", "factor")


def test_long_lists_of_statements_and_arguments_are_read():
    text = "model m {\n" + "  factor x\n" * 5_000 + "}\ninput a[3] : real = [" + "1, " * 5_000 + "1]"
    model, values = parse(text).statements
    assert (len(model.body), len(values.default.items)) == (5_000, 5_001)


CONTEXTS = ("{}", "model m {{\n{}\n}}", "sampler s {{ {} }}", "model m {{ factor x\n{} }}")


@pytest.mark.parametrize("code", [c for c in codes() if c.startswith("E1")])
def test_the_examples_of_every_code_show_it(code: str):
    entry = codes()[code]
    assert all(entry[key] for key in ("slug", "title", "explanation", "right"))
    assert any(not error_codes(context.format(entry["right"])) for context in CONTEXTS)
    if code not in ("E116", "E117", "E118", "E119", "E120"):  # those would be long, or are no text
        assert any(error_codes(context.format(entry["wrong"])) == [code] for context in CONTEXTS)


def test_reading_a_program_imports_neither_lark_nor_numpy():
    script = "import sys; from gmlmdsl.syntax import parse; parse(sys.stdin.read()); print({'lark', 'numpy', 'jax'} & set(sys.modules))"
    ahead = ROOT / "grammar" / "gmlm.tables.json"
    if not ahead.exists():
        pytest.skip("tables are made when a wheel is built")
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=PROGRAMS["ising"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.strip() == "set()"
