"""Help that is followed word by word leads to a program that checks."""

from __future__ import annotations

import pytest
from mutants import said_of

SITES = "input triples[t, 3] : int\ninput visits[rows] : int\nindex site = range(9)\n"
MODEL = SITES + "model m {{\n  var x[i in site] : spin\n  var b : bit\n  {}\n}}\nmask swap = subsets(x, size = 2)\n"


def model(statement: str, behind: str = "") -> str:
    return MODEL.format(statement) + behind


@pytest.mark.parametrize(
    ("wrong", "told", "right"),
    [
        (model("let h = 2 * x[i] for i in site"), "let h[i in site] = ..", model("let h[i in site] = 2 * x[i]\n  factor h[0]")),
        (
            model("factor x[0]", "sampler s for m { update x where K in swap update b }\n"),
            "write `by swap`",
            model("factor x[0]", "sampler s for m { update x by swap update b }\n"),
        ),
        (
            model("factor x[0]", "sampler s for m { update x[K] where K in swap update b }\n"),
            "where K ~ swap",
            model("factor x[0]", "sampler s for m { update x[K] where K ~ swap update b }\n"),
        ),
        (
            model("factor x[triples[k, 0]] for k in range(triples)"),
            "range(t)",
            model("factor x[triples[k, 0]] for k in range(t)"),
        ),
        (
            model("var y[q in range(rows), k in range(visits)] : bit"),
            "range(visits[i])",
            model("var y[i in range(rows), k in range(visits[i])] : bit"),
        ),
        (
            model("factor visits * x[0]"),
            "write `visits[i]`, as in `.. for i in range(rows)`",
            model("factor visits[i] * x[0] for i in range(rows)"),
        ),
        (model("b ~ 1 + x[0]"), "y ~ bernoulli(logit = a + b * z)", model("param a, c\n  b ~ bernoulli(logit = a + c * x[0])")),
        (model("var c : bit\n  require b => c"), "write `<=`", model("var c : bit\n  require b <= c")),
    ],
)
def test_a_program_that_follows_the_help_checks(wrong: str, told: str, right: str) -> None:
    assert any(told in d.help for d in said_of(wrong, "p.gmlm"))
    assert [d for d in said_of(right, "p.gmlm") if d.severity == "error"] == []


@pytest.mark.parametrize(
    ("read", "warns"),
    [
        ("J[i, j, x[j], x[i]]", True),
        ("J[j, i, x[i], x[j]]", True),
        ("K[i, j, x[j], x[i]]", True),
        ("u[i]", True),
        ("J[i, j, x[i], x[j]]", False),
        ("K[i, j, x[i], x[j]]", False),
        ("J[j, i, x[j], x[i]]", False),
        ("J[i, j, x[i], x[i]]", False),
        ("J[i, j, x[i], y[j]]", False),
    ],
)
def test_a_transposed_table_is_told_and_its_fix_ends_the_warning(read: str, warns: bool) -> None:
    text = "graph G = chain(3)\ninput K[3, 3, 2, 2] : real\nmodel m {\n  var x[i in G.nodes], y[i in G.nodes] : range(2)\n"
    text += "  param J[(i, j) in G.edges, a in range(2), b in range(2)] ~ normal(0, 1)\n"
    text += "  let u[i in G.nodes] = J[i, i + 1, x[i + 1], x[i]]\n" * (read == "u[i]")
    text += f"  factor {read} + y[i] for (i, j) in G.edges\n}}\n"
    found = [d for d in said_of(text, "p.gmlm") if d.code == "W830"]
    assert bool(found) == warns
    for d in found:
        assert d.fix is not None and d.fix.guess and d.fix.span is not None
        mended = text[: d.fix.span.start] + d.fix.text + text[d.fix.span.end :]
        assert [w.code for w in said_of(mended, "p.gmlm") if w.code == "W830"] == []
