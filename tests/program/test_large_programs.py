"""Programs that grow when names are written out, or that nest deeply, are refused with the figure before any work; none ends in a raw error."""

from __future__ import annotations

import time

import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl._diagnostics import Source
from gmlmdsl.program import check_source

MODEL = "model m {{ var x[i in range(4)] : range(4) param h factor h * x[0] {} }}\nmask one = subsets(x, size = 1)\n{}"
CHAIN = "let a0 = h * x[0] {} factor a{}"


def chained(n: int, step: str) -> str:
    """A model with n `let`s, each made of the one before."""
    lets = "\n".join("let " + step.replace("NEXT", str(k)).replace("LAST", str(k - 1)) for k in range(1, n))
    return MODEL.format(CHAIN.format(lets, n - 1), "")


def nested(opens: str, inside: str, closes: str, n: int) -> str:
    """Text in n pairs of brackets."""
    return opens * n + inside + closes * n


DOUBLED = chained(61, "aNEXT = aLAST + aLAST")
GRAPHS = ("chain(10^12)", "chain(10^9, wrap = true)", "complete(10^12)", "grid(10^6, 10^6)", "grid(10^12, 1)", "bipartite(10^12, 1)")
LARGE = {
    "doubled lets": (DOUBLED, "E412", "14,333 parts"),
    "chained lets": (chained(20_000, "aNEXT = aLAST + 1"), "E117", "301 deep"),
    "chained ifs": (chained(5000, "aNEXT = if x[1] == 1 then aLAST else 1"), "E117", "deep"),
    "doubled factor": (
        MODEL.format("let a = x[0] + x[1] factor " + "+".join(["(" + "+".join(["a"] * 80) + ")"] * 80), ""),
        "E412",
        "parts",
    ),
    "doubled weights": (DOUBLED.replace("factor a60", ""), "E412", "parts"),
    "sums in sums": (MODEL.format("factor " + nested("sum(", "x[0]", " for {} in range(1))", 60) + " ^ 2", ""), "E412", "deeper than 24"),
    "moving lets": (
        chained(40, "aNEXT[i in range(4)] = aLAST[x[0]] + x[i]")
        .replace("let a0 =", "let a0[i in range(4)] =")
        .replace("a39 }", "a39[0] }"),
        "E412",
        "deeper than 24",
    ),
    "indices in indices": (MODEL.format("factor " + nested("x[", "0", "]", 190), ""), "E117", "deeper than 80"),
    "cycles in cycles": (MODEL.format("", "sampler s { " + nested("cycle { ", "update x", "}", 100) + "}"), "E117", "deeper than 16"),
    "mixtures in mixtures": (MODEL.format("", "mask q = " + nested("mixture { 1 : ", "one", "}", 100)), "E117", "deeper than 16"),
    "doubled mixtures": (
        MODEL.format("", "mask q0 = one " + " ".join(f"mask q{k + 1} = mixture {{ 1 : q{k} 1 : q{k} }}" for k in range(50))),
        "E412",
        "1,024 masks",
    ),
    "chained mixtures": (
        MODEL.format("", "mask q0 = one " + " ".join(f"mask q{k + 1} = mixture {{ 1 : q{k} }}" for k in range(1200))),
        "E117",
        "deeper than 16",
    ),
    **{f"the edges of {g}": (f"graph G = {g}\nmodel m {{ var x : bit }}", "E412", "edges, more than") for g in GRAPHS},
    "the nodes of edges": (
        "input p[1, 2] : int = 0\ngraph G = edges(p, nodes = 10^12)\nmodel m { var x : bit }",
        "E412",
        "1,000,000,000,000 nodes",
    ),
    "an index set": ("index s = range(10^12)\nmodel m { var x[i in s] : bit }", "E406", "1,000,000,000,000 members"),
    "turns": (MODEL.format("factor h * x[0] for i in range(10^12)", ""), "E406", "1,000,000,000,000 members"),
    "an input": ("input p[10^12] : real = 1\nmodel m { var x : bit }", "E412", "1,000,000,000,000 numbers"),
    "long sums": (MODEL.format("factor " + " + ".join(["x[0]"] * 20_000), ""), "E117", "deeper than 200"),
}
for k in range(60):
    LARGE["sums in sums"] = (LARGE["sums in sums"][0].replace("for {} in", f"for j{k} in", 1), *LARGE["sums in sums"][1:])


@pytest.mark.parametrize("name", thinned(LARGE, 4, 3))
def test_what_grows_too_large_is_refused_with_the_figure(name: str) -> None:
    text, code, figure = LARGE[name]
    started = time.process_time()
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse(text).model()
    assert caught.value.codes == (code,)
    assert figure in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].span is not None
    assert time.process_time() - started < 5  # about 1 s for 20 000 lets, most of it reading 500 kB


SMALL = {
    "chained lets": chained(90, "aNEXT = aLAST + 1"),
    "doubled lets": chained(8, "aNEXT = aLAST + aLAST"),
    "indices in indices": MODEL.format("factor " + nested("x[", "0", "]", 70), ""),
    "sums": MODEL.format("factor " + " + ".join(["x[0]"] * 190), ""),
}


@pytest.mark.parametrize(("name", "value"), [("chained lets", 90.0), ("doubled lets", 128.0), ("indices in indices", 1.0), ("sums", 190.0)])
def test_what_is_just_large_is_computed(name: str, value: float) -> None:
    model = gm.parse(SMALL[name]).model()
    x = np.array([[1, 0, 0, 0]])
    expected = {"chained lets": 1 + value, "doubled lets": 1 + value, "indices in indices": 1 + (70 % 2 == 1), "sums": 1 + value}[name]
    assert model.log_potential({"h": 1.0}, x)[0] == expected


def test_a_mask_counts_its_lets_too() -> None:
    lets = " ".join(f"let a{k} = a{k - 1} + a{k - 1}" for k in range(1, 11))
    text = MODEL.format(f"let a0 = x[0] + 1 {lets}", "mask q given x {{ choose {{x[1]}} weight {} }}".format(" + ".join(["a10"] * 5)))
    with pytest.raises(gm.GmlmError, match="this weight has"):
        check_source(Source("p", text))
