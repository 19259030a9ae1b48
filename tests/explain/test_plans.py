"""Plans and costs are printed where they are asked for; that something is refused is always said."""

from __future__ import annotations

import re

import pytest
from thinned import thinned

from gmlmdsl._diagnostics import Source
from gmlmdsl.explain import explain
from gmlmdsl.graph import bind
from gmlmdsl.program import check_source

ISING = """
input L : int = 4
graph G = grid(L, L, wrap = true)
model ising {
  latent z : bit
  var   x[i in G.nodes] : spin
  param J ~ normal(0, 1)
  factor J * x[i] * x[j] for (i, j) in G.edges
  factor z * x[0]
}
mask pairs = subsets(x, size = 2)
mask whole = everything(x)
sampler sweep { update x[i] for i in G.nodes }
sampler all   { update x }
sampler hot   { temper(betas = [0.5, 1]) { update x[i] for i in G.nodes } }
"""
COSTS = re.compile(
    r"operations|levels|KiB|MiB|float32|enumeration|elimination|joint values|colours|Scored|Costliest"
    r"|times the work"
)


def told(plans: bool, size: int = 4, latex: bool = False) -> str:
    program = check_source(Source("m.gmlm", ISING))
    text = explain(program, bind(program, {"L": size}), plans=plans, latex=latex)
    return " ".join(text.split())


@pytest.mark.parametrize("latex", [False, True])
def test_plans_are_left_out_by_default_and_whole_where_they_are_wanted(latex: bool):
    assert not COSTS.search(told(False, latex=latex))
    planned = told(True, latex=latex)
    for words in ("log Z by", "in float32", "Costliest block by", "Latents that a row lacks", "2 colours", "2 times the work"):
        assert words in planned, words


def test_the_short_form_says_that_there_is_more_and_keeps_what_a_fit_does():
    short = told(False)
    assert "log Z is summed exactly." in short
    assert "A fit averages over all 120 masks for every row." in short
    assert "c = (cells that K can reach) / E|K| = 16 / 2 = 8." in short
    assert short.endswith("plans and costs `gmlm explain --plans` prints how each sum is computed, and what it costs.")
    assert "--plans" not in told(True)
    assert "--plans" not in told(False, latex=True)


@pytest.mark.parametrize("plans", thinned([False, True], 2))
def test_refusals_are_said_either_way(plans: bool):
    text = told(plans, size=24)
    assert "log Z is refused:" in text
    assert "Refused: " in text
    assert "refused: " in text.split("sampler all")[1]
    assert "Cannot run: `update x` is refused." in text
