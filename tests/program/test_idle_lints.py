"""Warnings about what a program says and does not use, or says twice: a program of each, and a near neighbour that has none."""

from __future__ import annotations

import numpy as np
import pytest
from mutants import said_of
from oracle import Oracle

from gmlmdsl._diagnostics import Source
from gmlmdsl.program import check_source

NEW = ("W816", "W817", "W818", "W819")


def codes(text: str) -> list[str]:
    return [d.code for d in said_of(text, "p.gmlm") if d.code in NEW]


GRAPH = "graph G = chain(4)\nindex t = range(4)\nmodel m {\n  var x[i in G.nodes] : spin\n  var y[i in t] : spin\n  param J\n"
GRAPH += "  param K[(i, j) in G.edges]\n  param A[(i, j) in G.arcs]\n  param W[i in t, j in t]\n  factor 0.1 * x[i] * y[i] for i in t\n  factor %s\n}\n"
PAIRS = {
    "J * x[i] * x[j] for (i, j) in G.arcs": True,
    "J * x[i] * x[j] for (i, j) in G.edges": False,
    "0.5 * J * x[i] * x[j] for (i, j) in G.arcs": False,
    "J * x[i] * x[j] / 2 for (i, j) in G.arcs": False,
    "x[j] * J * x[i] * x[j] * x[i] for (i, j) in G.arcs": True,
    "K[i, j] * x[i] * x[j] for (i, j) in G.arcs": True,
    "A[i, j] * x[i] * x[j] for (i, j) in G.arcs": False,
    "J * x[i] * (x[j] == 1) for (i, j) in G.arcs": False,
    "J * (x[i] == x[j]) for (i, j) in G.arcs": True,
    "J * (if x[i] == x[j] then 1 else 0) for (i, j) in G.arcs if i != j": True,
    "J * x[i] * x[j] for (i, j) in G.arcs if i < j": False,
    "J * x[i] for (i, j) in G.arcs": False,
    "(x[i] - x[j]) ^ 2 for (i, j) in G.arcs": False,  # it is the same, but that is not seen
    "J * y[i] * y[j] for i in t for j in t": True,
    "J * y[i] * y[j] for i in t for j in t if i != j": True,
    "J * y[i] * y[j] for i in t for j in t if i < j": False,
    "W[i, j] * y[i] * y[j] for i in t for j in t": False,
    "(W[i, j] + W[j, i]) * y[i] * y[j] for i in t for j in t": True,
    "J * x[i] * y[j] for i in t for j in t": False,
    "J * y[i] for i in t for j in t": False,
}


@pytest.mark.parametrize("factor", PAIRS)
def test_a_coupling_that_is_counted_twice(factor: str) -> None:
    assert ("W819" in codes(GRAPH % factor)) == PAIRS[factor]


@pytest.mark.parametrize("factor", [f for f in PAIRS if PAIRS[f] and "G.arcs" in f and "K" not in f])
def test_arcs_count_what_edges_count_twice(factor: str) -> None:
    """By enumeration: over arcs log p is that of the edges with the factor doubled."""
    text = "graph G = chain(3)\nmodel m {\n  var x[i in G.nodes] : spin\n  param J\n  factor %s\n}\n"
    tables = []
    for one, times in ((factor, 1.0), (factor.replace("arcs", "edges"), 2.0)):
        oracle = Oracle(check_source(Source("p.gmlm", text % one)), None, {})
        tables.append(times * np.asarray(oracle.log_table({"J": np.array(0.7)})))
    np.testing.assert_allclose(*tables, rtol=1e-12)


FACTOR = "model m {\n  given u : real\n  var x : spin\n  latent z : bit\n  param h\n  let lone = h * u\n  let both = lone * x\n"
FACTOR += "  factor x * z * u\n  %s\n}\n"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("factor h", ["W818"]),
        ("factor h * x", []),
        ("factor h * z", []),
        ("factor 3", ["W818"]),
        ("factor lone", ["W818"]),
        ("factor both", []),
        ("factor h * u", ["W818"]),
        ("require u > 0 or x == 1", []),
        ("factor sum(u for i in range(3))", ["W818"]),
    ],
)
def test_a_factor_that_cancels(statement: str, expected: list[str]) -> None:
    assert codes(FACTOR % statement) == expected


USED = {
    "input n : int": ("range(n)", "range(2)"),
    "input U[n] : real": ("range(n)", "range(2)"),
    "index t = range(2)": ("t", "range(2)"),
    "graph G = chain(2)": ("G.nodes", "range(2)"),
}


@pytest.mark.parametrize("declaration", USED)
def test_a_name_that_nothing_uses(declaration: str) -> None:
    for over, expected in zip(USED[declaration], ([], ["W817"]), strict=True):
        assert codes(f"{declaration}\nmodel m {{\n  var x[i in {over}] : bit\n  factor 0.5 * x[i] for i in {over}\n}}\n") == expected
    assert codes(declaration) == []  # a file without a model declares for others


def test_domains_networks_and_masks_use_names() -> None:
    text = 'domain sky = labels("a", "b")\ninput c : real = 1\nnetwork net = mlp(layers = 1)\n'
    one = "model m {\n  var x[i in range(2)] : sky\n  conditional x ~ net()\n}\nmask a = bernoulli(x, rate = c)\n"
    assert codes(text + one) == []
    assert codes(text + one.replace("rate = c", "rate = 0.5")) == ["W817"]
    assert codes(text + "model m {\n  var x : sky\n}\nmask a = bernoulli(x, rate = c)\n") == ["W817"]
    assert codes(text + "model m {\n  var x : bit\n  conditional x ~ net()\n}\nmask a = bernoulli(x, rate = c)\n") == ["W817"]


def test_what_an_imported_file_declares_may_be_left_unused(tmp_path) -> None:
    from gmlmdsl.program import check_file

    (tmp_path / "sets.gmlm").write_text("index t = range(3)\nindex s = range(4)\n")
    (tmp_path / "main.gmlm").write_text('import "sets.gmlm"\nindex r = range(2)\nmodel m {\n  var x[i in t] : bit\n}\n')
    assert [d.message for d in check_file(tmp_path / "main.gmlm").warnings] == ["nothing uses index set `r`"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("factor 0.5 * x", ["W817"]),
        ("factor 0.5 * x * y", []),
        ("require x == y", []),
        ("factor 0.5 * x\n  y ~ categorical([0.5, 0.5])", []),
        ("let both = x * y\n  factor both", []),
        ("let both = x * y\n  factor x", ["W817"]),
        ("factor 0.5 * x * y for i in range(2)", ["W817"]),
        ("factor 0.5 * i * x * y for i in range(2)", []),
        ("factor 0.5 * x * y for i in range(2) if i > 0", []),
        ("require x == y for i in range(2)", ["W817"]),
        ("", []),  # a model without factors is uniform, and says so
    ],
)
def test_a_variable_in_no_factor_and_an_index_in_no_term(body: str, expected: list[str]) -> None:
    assert codes(f"model m {{\n  var x : bit\n  var y : bit\n  {body}\n}}\n") == expected


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("mask a given x, y { choose {x} weight 1 + y  choose {y} weight 1 }", ["W816"]),
        ("mask a given y { choose {x} weight 1 + y  choose {y} weight 1 }", []),
        ("mask a given x, y { choose {x} weight 1 + both  choose {y} weight 1 }", []),
        ("mask a given x { each x rate 0.5 }", ["W816"]),
        ("mask a { each x rate 0.5 }", []),
    ],
)
def test_a_header_that_names_more_than_is_looked_at(mask: str, expected: list[str]) -> None:
    assert codes(f"model m {{\n  var x : bit\n  var y : bit\n  let both = x * y\n  factor 0.5 * both\n}}\n{mask}\n") == expected
