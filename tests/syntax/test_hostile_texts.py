"""Texts with very many faults of one kind: recovery makes a bounded number of edits, and tries a bounded number of them again."""

from __future__ import annotations

import pytest
from mutants import MOST_SECONDS, outcome, said_of

from gmlmdsl._diagnostics import Diagnostic, Fix, GmlmError, Source, Span
from gmlmdsl.program import Program, _scope
from gmlmdsl.program._check import with_clean_fixes
from gmlmdsl.program._scope import NOT_COMPARED
from gmlmdsl.syntax import parse_with_errors
from gmlmdsl.syntax._recover import MAX_ERRORS

SPIN = "model m {\n  var x[i in range(3)] : spin\n%s}\n"
HOSTILE = {
    "rows without weights": "model m { var x : spin }\nmask a = mixture { %s}" % ("subsets(x, size = 1) " * 100),
    "indices": SPIN % f"  factor x{'[0]' * 30}\n",
    "assignments": SPIN % ("  y = spin\n" * 100),
    "Unicode": SPIN % ("  factor 2 × x[0]\n" * 100),
    "loops that nothing closes": "model m\n var x : spin\n" + "for i in 1:2\n" * 100 + " factor x\n" + "end\n" * 100,
    "loops in front": SPIN % ("for i in range(3) {\n" * 60 + " factor x[0]\n" + "}\n" * 60),
    "bodies without an end": "model m {\n var x : spin\n" * 60,
    "ends without a body": "model m\n var x : spin\n" + "end\n" * 400,
    "a loop at the end of a file": "model m {\n  var x[i in range(3)] : spin\n  for i in range(3): factor 0.5 * x[i]\n",
    "brackets": "{" * 2000 + ")" * 2000,
    "quotes": '"' * 2001,
    "single quotes": "'" * 50_000,
    "a range to a very large number": SPIN % f"  for i in 1:{'9' * 5000} {{ factor x[i] }}\n",
    "a loop to a very large number": SPIN % f"  factor x[0] for i = 1 to {'9' * 5000}\n",
    "a range of very many digits": f"index s = range({'1' * 4301})\nmodel m {{ var x[i in s] : bit }}",
    "a percentage of very many digits": SPIN % f"  factor {'1' * 4301}% * x[0]\n",
    "a default of very many digits": f"input n : int = {'1' * 4301}\nindex s = range(n)\nmodel m {{ var x[i in s] : bit }}",
    "a lone surrogate and NUL": SPIN % "  factor \ud800 x[0] \0\n",
    "a byte order mark inside": SPIN % "\ufeff  factor x[0]\n",
    "bodies that nothing closes, again and again": "model m {\n  net()\n}\nmodel m {\n  ne\n" * 12,
    "a string that nothing closes, again and again": "domain sky = labels('sun', \"rain\")\nmodel m {\n  factor k ** 2: range(3)\n" * 40,
    "a negation at the end": SPIN[:-2] % "  require !",
    "a negation of an open bracket": SPIN[:-2] % "  require x[0] == 1 and ¬(",
    "a negation of a name": SPIN[:-2] % "  require !x",
    "JSON": '{"a": [1, 2, {"b": null}]}\n' * 200,
    "HTML": "<html><body><p>text</p></body></html>\n" * 200,
}
MANY = range(4000)
NAMED = ", ".join(f'"a{k}"' for k in MANY)
LABELS = f"domain d = labels({NAMED})\nmodel m {{ var x : d " + "".join(f'require x != "b{k}"\n' for k in MANY) + "}"
LARGE = {
    "quotes that nothing closes": "\u201c" * 50_000 + "\n",
    "semicolons": SPIN % (";" * 20_000),
    "semicolons on lines of their own": SPIN % (";\n" * 5_000),
    "bars": SPIN % f"  factor {'|x[0]| ' * 3000}\n",
    "brackets behind brackets": SPIN % f"  factor x{'[0]' * 3000}\n",
    "unknown names": SPIN % "".join(f"  param b{k}\n  factor a{k} * x[0]\n" for k in range(4000)),
    "one unknown name": SPIN % ("  factor y\n" * 20_000),
    "unknown labels": LABELS,
    "loops on lines of their own": SPIN % ("  factor x[i]\n" + "for i in range(3)\n" * 5_000),
    "numbers of very many digits": SPIN % f"  factor {'1' * 400_000}.5 * x[{'2' * 4301}] + 0x{'f' * 99_999} + 1e{'9' * 9999}\n",
    "a wide table with a fault": "model m { var b : range(9) b ~ categorical([%s] [0]) }" % ("0.1, " * 20_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_text_with_very_many_faults_is_answered(name: str) -> None:
    found = outcome("hostile", name, HOSTILE[name])  # which ends what does not
    assert found.codes and not found.failed


@pytest.mark.slow  # half a second each, and more
@pytest.mark.parametrize("name", LARGE)
def test_a_large_text_with_very_many_faults_is_answered_in_time(name: str) -> None:
    found = outcome("hostile", name, LARGE[name])
    assert found.codes and not found.failed and found.seconds < MOST_SECONDS


@pytest.mark.slow
def test_very_many_allowances_of_nothing_are_read_in_time() -> None:
    warnings = said_of(SPIN % ("  factor x[0]  # gmlm: allow W803\n" * 5_000), "p.gmlm")
    assert [d.code for d in warnings if d.code == "W806"] == ["W806"] * 5_000


def test_near_names_are_sought_for_the_first_unknown_ones_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_scope, "MOST_COMPARED", 1000)
    text = SPIN % "".join(f"  param bb{k}\n  factor b{k} * x[0]\n" for k in range(60))
    found = [d for d in said_of(text, "p.gmlm") if d.code == "E203"]
    assert len(found) == 60 and found[0].help == "did you mean `bb0`?" and found[-1].help == NOT_COMPARED


def test_rows_without_weights_are_one_error_of_so_many_edits() -> None:
    _, (error,), _ = parse_with_errors(HOSTILE["rows without weights"])
    assert error.code == "E109" and error.fix is not None and len(error.fix.places) == MAX_ERRORS


@pytest.mark.parametrize(("faults", "tried"), [(10, 10), (100, 3)])
def test_fewer_edits_are_tried_again_where_faults_are_many(faults: int, tried: int) -> None:
    checked = []

    def check(source: Source) -> Program:
        checked.append(source)
        spans = [Span(source, k, k + 1) for k in range(faults)]
        raise GmlmError([Diagnostic("E203", f"fault {k}", span, fix=Fix(span, "b")) for k, span in enumerate(spans)])

    with pytest.raises(GmlmError):
        with_clean_fixes(check, Source("p.gmlm", "a" * 1000))
    assert len(checked) == 1 + tried
