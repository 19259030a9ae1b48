"""Formulas call cells by the names of their variables; a letter stands for several, and says so."""

from __future__ import annotations

import re

import pytest

from gmlmdsl._diagnostics import Source
from gmlmdsl.explain import explain
from gmlmdsl.graph import bind
from gmlmdsl.program import check_source

ONE = """
graph G = chain(4)
model ising {
  var   spin[i in G.nodes] : spin
  param J ~ normal(0, 1)
  factor J * spin[i] * spin[j] for (i, j) in G.edges
}
mask pairs = subsets(spin, size = 2)
mask hot sees spin { each spin[i] for i in G.nodes rate sigmoid(0.3 * spin[i]) }
mask cluster = percolation(G.edges)
sampler sweep  { update spin[i] for i in G.nodes }
sampler naive  { update spin[K] independently where K ~ pairs }
sampler seeing { update spin[K] where K ~ hot }
sampler wolff  { update spin[K] where K ~ cluster }
"""
SEVERAL = """
model two {
  var   x[i in range(3)] : bit
  var   y[i in range(3)] : bit
  param h ~ normal(0, 1)
  factor h * x[i] * y[i] for i in range(3)
}
mask some = subsets(x, size = 1)
mask each_of = subsets(size = 1)
sampler sweep { update y[i] for i in range(3) }
"""
HIDDEN = """
model hmm {
  latent z[t in range(3)] : bit
  latent u : bit
  var    x[t in range(3)] : bit
  param  h ~ normal(0, 1)
  factor h * (z[t] == x[t]) for t in range(3)
  factor u * z[0]
}
mask one    = subsets(x, size = 1)
mask states = subsets(z, size = 1)
mask every  = subsets(x, z, size = 1)
sampler sweep { update z[t] for t in range(3)  update x[t] for t in range(3) }
"""
NETWORK = """
network net = mlp()
model text {
  var word[t in range(5)] : letters("ACGT")
  conditional word ~ net()
}
mask any_rate = bernoulli(word, rate = uniform(0, 1))
sampler one_by_one { update word[K] where K ~ subsets(word, size = 1) }
sampler few = mask_predict(steps = 2, lengths = 1)
"""


def explained(text: str, **options: str | bool) -> str:
    """The explanation on one line."""
    program = check_source(Source("m.gmlm", text))
    return " ".join(explain(program, bind(program, {}), **options).split())  # pyright: ignore[reportArgumentType]


def test_one_variable_is_called_by_its_name_in_every_formula():
    text = explained(ONE)
    assert "log p(spin) = ∑{(i, j) ∈ G.edges} J·spin[i]·spin[j]" in text
    conditional = "log p(spin_K | spin_rest) = f_K(spin) − log ∑{spin'_K} exp(f_K(spin'_K, spin_rest))"
    assert conditional in text
    assert "loss(spin) = −∑{K} p(K)·log p(spin_K | spin_rest)" in text
    assert "objective = c·∑{rows r} weight_r·loss(spin_r) − log prior" in text
    assert "p(K | spin) = ∏{i ∈ K} r(i)·∏{i ∉ K} (1 − r(i))" in text
    assert "so K itself tells of spin, and" in text
    assert "bond(spin_i, spin_j) = 1 − min over g of exp(E(g spin_i, spin_j) − E(spin_i, spin_j))" in text
    assert not re.search(r"\b[xy](_|\b)", text)


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        ("sweep", "every block once, from p(spin_K | spin_rest); blocks"),
        ("naive", "then every cell of K from p(spin_i | spin_-i) at the old values"),
        ("seeing", "looks at spin, then spin_K from p(spin_K | spin_rest, K): its correction"),
        ("wolff", "then spin_K among its images from p(spin_K | spin_rest, K)"),
    ],
)
def test_samplers_call_cells_by_their_name(sampler: str, words: str):
    assert words in explained(ONE, sampler=sampler)


def test_a_letter_that_the_model_does_not_use_stands_for_several_variables():
    text = explained(SEVERAL)
    assert text.count("v stands for (x, y), all cells of a row.") == 1
    assert "log p(v) = ∑{i ∈ range(3)} h·x[i]·y[i] − log Z" in text
    assert "log p(x_K | v_rest) = f_K(v) − log ∑{x'_K} exp(f_K(x'_K, v_rest))" in text
    assert "log p(v_K | v_rest) = f_K(v) − log ∑{v'_K} exp(f_K(v'_K, v_rest))" in text
    assert "from p(y_K | v_rest)" in text
    other = explained(SEVERAL.replace("x[", "a[").replace("(x,", "(a,"))
    assert "x stands for (a, y), all cells of a row." in other
    assert "log p(a_K | x_rest)" in other


def test_latents_stand_beside_the_data_or_in_the_block():
    one, states, every = (explained(HIDDEN, mask=name) for name in ("one", "states", "every"))
    assert "log p(x, z, u) =" in one
    assert "log p(x_K | x_rest) = log ∑{z, u} exp(f_{K ∪ {z, u}}(x, z, u))" in one
    assert "− log ∑{x'_K, z, u} exp(f_{K ∪ {z, u}}(x'_K, x_rest, z, u))" in one
    assert "log p(z_K | z_rest, x, u) = f_K(x, z, u)" in states
    assert "log ∑{z'_K} exp(f_K(z'_K, z_rest, x, u))" in states
    assert "log p((x, z)_K | (x, z)_rest, u) = f_K(x, z, u)" in every
    sweep = explained(HIDDEN, sampler="sweep")
    assert "from p(z_K | z_rest, x, u); blocks" in sweep
    assert "from p(x_K | x_rest, z, u); blocks" in sweep


def test_networks_call_cells_by_their_name():
    text = explained(NETWORK)
    assert "p(word_i | word_rest, K) = softmax(net(word_rest, K)_i)" in text
    assert "over the cells i of K of p(word_i | word_rest, K), for any K" in text
    assert "loss(word) = E[∑{i ∈ K} −log p(word_i | seen, K)]" in text
    assert "hidden, then each cell of K from p(word_i | word_rest, K), all in one pass" in text
    assert "score = 1 / n·∑{i free} log p(word_i | seen)" in text
    assert not re.search(r"\bx(_|\b)", text)


def test_latex_has_the_same_names_in_formulas_and_in_words():
    text = explained(ONE, latex=True)
    spin = "\\mathrm{spin}"
    assert f"\\log p({spin}_{{K}} \\mid {spin}_{{\\text{{rest}}}}) &= f_{{K}}({spin})" in text
    assert f"\\sum_{{{spin}'_{{K}}}}" in text
    assert f"from $p({spin}_{{K}} \\mid {spin}_{{\\text{{rest}}}})$; blocks" in text
    assert "$v$ stands for $(x, y)$, all cells of a row." in explained(SEVERAL, latex=True)
