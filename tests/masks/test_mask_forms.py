"""Every form of mask, and everything else that a mask may be, through each stage beside the oracle; a form without a case fails."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest
from oracle import Oracle

import gmlmdsl as gm
from gmlmdsl.explain import _mask_formulas, explain
from gmlmdsl.masks import _lower, lower_mask
from gmlmdsl.plan import check_bound
from gmlmdsl.program import forms, ir

MODEL = """
model m {
  var x[i in range(3)] : spin
  var b[i in range(2)] : bit
  param J[(i, j) in G.edges]
  param h
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
  factor h * x[i] * b[0] for i in range(3)
  factor 0.3 * b[0] * b[1]
}
"""
FORMS = {
    "subsets": "mask k for m = subsets(x, b, size = 2)",
    "stripes": "mask k for m = stripes(x, b, width = 3)",
    "everything": "mask k for m = everything(x)",
    "blocks": "mask k for m = blocks({x[i], b[0]} for i in range(3), {b[1]}, {b[1]})",
    "bernoulli": "mask k for m = bernoulli(x, rate = 0.3)",
    "bernoulli, a rate of its own": "mask k for m = bernoulli(x, b, rate = uniform(0.1, 0.6))",
}
WRITTEN = {
    "choose": "mask k for m { choose {x[i]} for i in range(3) weight i + 1  choose {x[0], b[1]} weight 0.5 }",
    "choose, adaptive": "mask k for m given x, b { choose {x[i]} for i in range(3) weight 1 + b[0]  choose {b[0]} weight exp(x[1]) }",
    "choose, nothing": "mask k for m given b { choose {x[i]} for i in range(3) weight b[0] }",
    "each": "mask k for m { each x[i] for i in range(3) rate 0.2 + 0.3 * i  each b[1] rate 1 }",
    "each, adaptive": "mask k for m given x { each x[i] for i in range(3) rate sigmoid(x[(i + 1) % 3])  each b[0] rate 0.5 }",
    "choose, parameters": "mask k for m { choose {x[i]} for i in range(3) weight exp(h * i)  choose {b[0]} weight exp(J[0, 1]) }",
    "mixture, adaptive part": "mask a for m given x { each x[0] rate 0.1 + 0.3 * (x[1] == 1) }  mask k for m = mixture { 1 : a  3 : subsets(x, size = 2) }",
    "mixture": "mask k for m = mixture { 1 : subsets(x, size = 1)  2 : mixture { 1 : everything(b)  0 : everything(x)  1 : bernoulli(b, rate = 0.5) } }",
}
OF_A_NETWORK = {"least_confident", "visits"}  # networks' samplers and decoders have tests of theirs
CLUSTERS = {"percolation"}  # a kernel of its own draws them, and no loss has them
CASES = FORMS | WRITTEN


def program(mask: str) -> gm.Program:
    return gm.parse(f"graph G = chain(3)\n{MODEL}\n{mask}\nsampler s for m {{ update K where K ~ k }}")


def test_every_form_of_the_language_has_a_case_here_and_a_row_in_each_table():
    names = {form.name for form in forms.MASKS}
    assert names == {name.split(",")[0] for name in FORMS} | OF_A_NETWORK | CLUSTERS
    assert set(_lower.FORMS) == names - {"least_confident", "blocks"}
    assert set(_mask_formulas.FORMS) == names - CLUSTERS - {"blocks"}
    assert {c.__name__ for c in _lower.BODIES} == {c.__name__ for c in ir.MaskBody.__subclasses__()}


@pytest.mark.parametrize("case", CASES)
def test_the_support_reach_and_size_of_a_mask_are_those_of_its_definition(case: str):
    found = program(CASES[case])
    model = found.model()
    oracle, mask = Oracle(found.checked, "m", {}), lower_mask(model.lowered, found.checked.masks["k"])
    laws = [oracle.mask_distribution("k", codes, oracle.random_params(3)) for codes in oracle.states]
    support = {block for law in laws for block, p in law.items() if p > 0}
    blocks, probabilities = mask.enumerate_blocks()
    listed = [frozenset(block[block < mask.n_cells].tolist()) for block in blocks]
    assert set(listed) - {frozenset()} == support - {frozenset()} and len(set(listed)) == len(listed) == mask.support_size
    assert set(mask.reach) == frozenset().union(*support)
    assert len(mask.largest_block) == max(map(len, support)) and frozenset(mask.largest_block.tolist()) in support
    for cells in (list(c) for n in range(1, 6) for c in itertools.combinations(range(5), n)):
        assert mask.can_draw(np.array(cells)) == (frozenset(cells) in support)
    assert mask.is_adaptive == any(law != laws[0] for law in laws)
    if probabilities is None:
        assert mask.mean_size is None and mask.probability_of_holding(mask.reach[:1]) is None
        return
    np.testing.assert_allclose(probabilities, [laws[0][block] for block in listed], atol=1e-12)
    assert mask.mean_size == pytest.approx(sum(p * len(block) for block, p in laws[0].items()))
    for cells in ([0], [0, 1], [3], [0, 3], [3, 4]):
        held = sum(p for block, p in laws[0].items() if block >= set(cells))
        assert mask.probability_of_holding(np.array(cells)) == pytest.approx(held, abs=1e-12)


# The others are in the programs of `tests/case_programs.py`, whose losses and kernels are compared.
RARE = ("stripes", "bernoulli, a rate of its own", "choose, nothing", "each, adaptive", "choose, parameters", "mixture, adaptive part")


@pytest.mark.parametrize("case", [pytest.param(c, marks=[pytest.mark.slow] * (c not in RARE[::2])) for c in CASES])
def test_the_loss_and_one_step_of_a_mask_are_those_of_its_definition(case: str):
    found = program(CASES[case])
    model, oracle = found.model(), Oracle(found.checked, "m", {})
    params, rows = oracle.random_params(3), oracle.states[[0, 5, 9, 30]]
    with jax.enable_x64(True):
        loss = float(model.loss(params, {"x": oracle.decode(rows)["x"], "b": oracle.decode(rows)["b"]}, "k"))
    assert loss == pytest.approx(oracle.loss(params, rows, "k"), rel=1e-10)
    np.testing.assert_allclose(model.transition_matrix(params, "s"), oracle.transition_matrix(params, "s"), atol=1e-10)


SAID = {
    "subsets": "1 / C(n, 2)",
    "stripes": "1 / (n − 3 + 1)",
    "everything": "K is always all cells of `x`",
    "blocks": "1 / (number of blocks)",
    "bernoulli": "0.3^|K|",
    "choose": "w(",
    "each": "∏{i ∈ K}",
    "mixture": "p1(K)",
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_mask_draws_stands_in_explain(case: str):
    found = program(CASES[case])
    size = lower_mask(found.model().lowered, found.checked.masks["k"]).support_size
    text = explain(found.checked, found.bound, mask="k")
    assert (f"all {size:g} masks" in text) or (size == 1 and "the 1 mask" in text) or "parameter" in case
    assert SAID[case.split(",")[0]] in text or "adaptive" in case or "own" in case


def test_masks_that_draw_the_same_have_one_key_however_they_are_written():
    texts = (
        "mask k for m = mixture { 1 : bernoulli(x, rate = 0.3)  1 : blocks({x[0], x[1]}, {b[0]}) }",
        "mask k for m = mixture { 2 : blocks({b[0]}, {x[1], x[0]})  2 : bernoulli(x, rate = 0.3) }",
        "mask k for m = mixture { 1 : bernoulli(x, rate = 0.4)  1 : blocks({x[0], x[1]}, {b[0]}) }",
    )
    first, same, other = (lower_mask(p.model().lowered, p.checked.masks["k"]).key(int) for p in map(program, texts))
    assert first == same != other
    assert lower_mask((p := program(WRITTEN["choose, adaptive"])).model().lowered, p.checked.masks["k"]).key(int) is None


def test_a_mask_that_reads_what_is_given_varies_and_is_not_adaptive():
    text = "model m { given z : bit  var x[i in range(2)] : bit  param h  factor h * x[0] * z }"
    text += "mask k for m given z { choose {x[i]} for i in range(2) weight 1 + z * i }"
    model = gm.parse(text).model()
    mask = model.mask("k")[1]
    assert mask.varies and not mask.is_adaptive and not mask.mentions_parameter
    losses = [float(model.loss({"h": 0.7}, [[1, 0]], "k", given={"z": [z]})) for z in (0, 1)]
    first, second = np.log1p(np.exp(-0.7)), np.log(2)
    np.testing.assert_allclose(losses, [np.log(2), (first + 2 * second) / 3], rtol=1e-6)


def test_weights_of_a_network_that_are_no_shares_are_one_fault():
    text = """
    input a : real  input c : real
    network net = mlp(layers = 1, width = 8)
    model m { var x[t in range(4)] : bit  conditional x ~ net() }
    mask k for m = mixture { a : subsets(x, size = 1)  c : %s }"""
    for part in ("everything(x)", "least_confident(x, count = 1)"):
        for a, c in ((1, -1), (0, 0)):
            inputs = {"a": a, "c": c}
            found, _ = check_bound(gm.parse(text % part, **inputs).checked, inputs)
            assert [d.code for d in found if d.code.startswith("E")] == ["E409"]
