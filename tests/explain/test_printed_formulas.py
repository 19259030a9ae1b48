"""The formulas that `explain` prints are evaluated, term by term, and compared with the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CASES, Case, case
from formula_reader import Place
from printed_formulas import Formulas, possible, printed_conditional, printed_law, printed_value
from thinned import thinned

from gmlmdsl.explain import explain
from gmlmdsl.program import ir

SUMMED = """
model summed {
  var x : bit
  var y : bit
  latent h : bit
  factor 2 * h
  factor h * x
  factor h * y
}
mask one  = subsets(x, size = 1)
mask both = everything(x, y)
"""
CHAIN = """
index time = range(2)
domain tag = labels("a", "b", "c")
model hmm {
  latent z[t in time] : tag
  latent u : spin
  var x[t in time] : bit
  var s : spin
  param w ~ normal(0, 1)
  param first[a in tag] : simplex ~ dirichlet(2)
  param emit[a in tag, b in range(2)] : simplex
  z[t] ~ categorical(first) for t in time
  x[t] ~ categorical(emit[z[t]]) for t in time
  factor w * u
  factor (w + 1) * u * s * (z[0] == "b")
  factor -w / 2 * s - 0.3 * (z[0] == z[1])
  require not (z[0] == "c" and s == 1)
}
mask one  = subsets(size = 1)
mask two  = subsets(size = 2)
mask look given s { choose {x[t]} for t in time weight 2 + s  choose {x[0], x[1]} weight (if s == 1 then 0 else 1) }
mask each_one given s { each x[t] for t in time rate (2 + s) / 4 }
mask hidden = subsets(z, size = 1)
"""
LATENT = [case("summed", SUMMED), case("hmm", CHAIN)]
EVERY = [*CASES, *LATENT]


def formulas_of(c: Case, mask: str | None = None) -> Formulas:
    checked = c.program.checked
    text = explain(checked, c.program.bound, model=c.model.name, mask=mask)
    return Formulas(text.split(f"model {c.model.name}", 1)[1])


def masks(*kinds: type) -> list[tuple[Case, str]]:
    found = [(c, m) for c in EVERY for m in c.program.checked.masks.values() if m.model == c.model.name]
    return [(c, m.name) for c, m in found if not kinds or isinstance(m.body, kinds)]


def rows(c: Case) -> np.ndarray:
    return np.unique(c.rows, axis=0)[:4]


@pytest.mark.parametrize("c", EVERY, ids=str)
def test_log_p_is_what_is_printed(c: Case):
    formulas = formulas_of(c)
    left = next(name for name in formulas.found if name.startswith("log p(") and "_K" not in name)
    for codes in rows(c):
        assert possible(c.oracle, codes)
        np.testing.assert_allclose(printed_value(formulas, left, Place(c.oracle, c.params, codes)), c.oracle.log_potential(c.params, codes))


@pytest.mark.parametrize("c", [c for c in EVERY if c.oracle.model.parameters], ids=str)
def test_the_prior_is_what_is_printed(c: Case):
    place = Place(c.oracle, c.params, c.rows[0])
    np.testing.assert_allclose(printed_value(formulas_of(c), "log prior", place), c.oracle.log_prior(c.params), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("c", "mask"), masks(ir.Listed, ir.Independent), ids=str)
def test_the_law_of_a_mask_is_what_is_printed(c: Case, mask: str):
    if getattr(c.program.checked.masks[mask].body, "uniform", False):
        return  # its blocks are a list in words
    formulas = formulas_of(c, mask)
    for codes in rows(c):
        law, expected = printed_law(formulas, Place(c.oracle, c.params, codes)), c.oracle.mask_distribution(mask, codes, c.params)
        assert set(law) == {k for k, p in expected.items() if p > 0}
        for k, p in law.items():
            np.testing.assert_allclose(p, expected[k], rtol=1e-9)


@pytest.mark.parametrize(("c", "mask"), thinned(masks(ir.Listed, ir.Independent, ir.FormMask), 4), ids=str)
def test_conditionals_are_what_is_printed(c: Case, mask: str):
    """Three blocks of the mask, spread over its support; latents that are summed out are missing from the oracle's row."""
    checked, formulas = c.program.checked.masks[mask], formulas_of(c, mask)
    hidden = [i for v in c.oracle.model.variables.values() if v.role == "latent" for i in c.oracle.positions(v.name).ravel().tolist()]
    every = {k for codes in c.rows for k in c.oracle.mask_distribution(mask, codes, c.params)}
    blocks = sorted((sorted(k) for k in every if k and np.prod([c.oracle.domain_sizes[i] for i in k]) <= 12), key=lambda k: (len(k), k))
    for block in blocks[:: max(1, -(-len(blocks) // 3))]:
        for codes in rows(c)[:2]:
            row = codes.copy()
            row[[i for i in hidden if not set(hidden) & set(block)]] = -1
            expected = c.oracle.log_conditional(c.params, row, block, mask if checked.adaptive else None)
            found = printed_conditional(formulas, c.oracle, c.params, codes, block)
            np.testing.assert_allclose(np.exp(found), np.exp(expected), atol=1e-9)


def test_the_model_of_the_issue_in_numbers():
    """f_K of x alone would give -1.051 and -0.430: `2 h` cancels in no conditional that sums h out."""
    (c,) = (c for c in LATENT if c.name == "summed")
    found = printed_conditional(formulas_of(c, "one"), c.oracle, {}, np.array([0, 1, 0]), [0])
    z = [1 + np.exp(2 + x + 1) for x in (0, 1)]
    np.testing.assert_allclose(found, np.log(z) - np.log(sum(z)))
    np.testing.assert_allclose(found, [-1.291, -0.322], atol=5e-4)
