"""Texts with very many faults of one kind: recovery makes a bounded number of edits, and tries a bounded number of them again."""

from __future__ import annotations

import pytest
from mutants import outcome

from gmlmdsl._diagnostics import Diagnostic, Fix, GmlmError, Source, Span
from gmlmdsl.program import Program
from gmlmdsl.program._clean_fixes import with_clean_fixes
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
    "JSON": '{"a": [1, 2, {"b": null}]}\n' * 200,
    "HTML": "<html><body><p>text</p></body></html>\n" * 200,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_text_with_very_many_faults_is_answered(name: str) -> None:
    found = outcome("hostile", name, HOSTILE[name])  # which ends what does not
    assert found.codes and not found.failed


def test_rows_without_weights_are_one_error_of_so_many_edits() -> None:
    _, (error,), _ = parse_with_errors(HOSTILE["rows without weights"])
    assert error.code == "E109" and error.fix is not None and len(error.fix.places) == MAX_ERRORS


@pytest.mark.parametrize(("faults", "tried"), [(10, 10), (100, 6)])
def test_fewer_edits_are_tried_again_where_faults_are_many(faults: int, tried: int) -> None:
    checked = []

    def check(source: Source) -> Program:
        checked.append(source)
        spans = [Span(source, k, k + 1) for k in range(faults)]
        raise GmlmError([Diagnostic("E203", f"fault {k}", span, fix=Fix(span, "b")) for k, span in enumerate(spans)])

    with pytest.raises(GmlmError):
        with_clean_fixes(check, Source("p.gmlm", "a" * 1000))
    assert len(checked) == 1 + tried
