"""What `explain` says of how a loss is scored: the layouts that are found from index arrays."""

from __future__ import annotations

import pytest

from gmlmdsl._diagnostics import Source
from gmlmdsl.explain import explain
from gmlmdsl.graph import bind
from gmlmdsl.program import check_source

PAIRS = """
model m {
  var x[i in range(6)] : spin
  param J[i in range(6), j in range(6)]
  factor J[i, j] * x[i] * x[j] for i in range(6) for j in range(6) if i < j
}
mask one = subsets(size = 1)
"""
RING = """
graph G = chain(range(90), wrap = true)
model m {
  var x[i in range(90)] : range(3)
  param J
  factor J * (x[i] == x[j]) for (i, j) in G.edges
}
mask one = subsets(size = 1)
"""
GIVEN = """
model m {
  given z[i in range(4)] : real
  var x[i in range(4)] : spin
  param b
  factor b * z[i] * x[i] for i in range(4)
}
mask one = subsets(x, size = 1)
"""
LONG = """
model m {
  var x[i in range(12)] : spin
  param J
  factor J * x[i] * x[i + 1] for i in range(11)
}
mask all = everything(x)
"""


def explained(text: str) -> str:
    """The explanation on one line."""
    program = check_source(Source("m.gmlm", text))
    return " ".join(explain(program, bind(program, {}), plans=True).split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PAIRS, "Scored: 6 blocks from tables of the factors, by a matrix product with 6 contexts."),
        (RING, "Scored: 90 blocks from tables of the factors, by lists of 2 contexts each."),
        (GIVEN, "Scored: 4 blocks by the factors' expressions."),
    ],
)
def test_the_layout_of_a_loss_is_said(text: str, words: str) -> None:
    assert words in explained(text)


def test_what_is_eliminated_has_no_layout() -> None:
    assert "Scored" not in explained(LONG)
