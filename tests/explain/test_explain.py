"""What `explain` and `info` say: formulas, corrections, plans, costs, verdicts; without JAX."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl._diagnostics import GmlmError, Source, codes
from gmlmdsl.explain import describe, explain, explain_code
from gmlmdsl.explain._print_stage import STAGES, print_stage
from gmlmdsl.graph import Bound, bind
from gmlmdsl.program import Program, check_source

ROOT = Path(__file__).parents[2]

ISING = """
input L : int = 4
graph G = grid(L, L, wrap = true)
model ising {
  var   x[i in G.nodes]      : spin
  param h[i in G.nodes]      ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i]           for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask pairs = subsets(x, size = 2)
mask whole = everything(x)
mask agreeing given x {
  choose {x[i], x[j]} for (i, j) in G.edges weight exp(0.5 * x[i] * x[j])
  choose {x[i]}       for i in G.nodes      weight 0.1
}
mask hot given x { each x[i] for i in G.nodes rate sigmoid(0.3 * x[i]) }
sampler sweep { update x[i] for i in G.nodes }
sampler gibbs { update x[K] where K ~ pairs }
sampler adaptive { update x[K] where K ~ agreeing }
sampler naive { update x[K] independently where K ~ whole }
sampler even { update x[K] independently where K ~ blocks({x[0], x[2]}) }
sampler mixed { mixture { 0.9 : update x[i] for i in G.nodes  0.1 : repeat 3 { update x[K] where K ~ pairs } } }
"""

MIXED = """
index day = range(6)
model mixed {
  var s[t in day] : spin
  var w[t in day] : labels("sun", "rain")
  var k           : range(4)
  param u[a in range(4)]
  param beta : positive ~ gamma(2, 2)
  let cold[t in day] = w[t] == "rain"
  factor u[k]
  factor -beta * (s[t] - 1) * cold[t] for t in day
  factor (if s[t] == s[t + 1] and k > 1 then 0.7 else 0) for t in day if t < 5
  require not (w[t] == "rain" and w[t + 1] == "sun") for t in day if t < 5
}
mask window = mixture { 0.5 : subsets(s, size = 2)  0.5 : blocks({w[t], w[t + 1]} for t in day if t < 5) }
"""


def checked(text: str, **inputs: int) -> tuple[Program, Bound]:
    program = check_source(Source("m.gmlm", text))
    return program, bind(program, inputs)


def test_log_p_is_the_sum_of_the_factors():
    text = explain(*checked(ISING), model="ising")
    assert "log p(x) = ∑{i ∈ G.nodes} h[i]·x[i]" in text
    assert "+ ∑{(i, j) ∈ G.edges} J[i, j]·x[i]·x[j]" in text
    assert "− log Z" in text


def test_conditional_holds_the_terms_that_touch_the_block():
    assert "∑{(i, j) ∈ G.edges : K ∋ x[i] or x[j]} J[i, j]·x[i]·x[j]" in explain(*checked(ISING))
    text = explain(*checked(MIXED))
    assert "f_K(x) = 1{K ∋ k}·u[k]" in text
    assert "∑{t ∈ day : K ∋ s[t] or w[t]} −beta·(s[t] − 1)·1{cold[t]}" in text  # through the `let`
    assert "(0.7 if s[t] = s[t + 1] and k > 1, else 0)" in text
    assert 'p(x) = 0 where w[t] = "rain" and w[t + 1] = "sun", for some t ∈ day, t < 5' in text


def test_adaptive_masks_show_their_correction():
    text = explain(*checked(ISING), mask="agreeing")
    assert "w({x[i], x[j]}) = exp(0.5·x[i]·x[j])  for (i, j) ∈ G.edges" in text
    assert "log p(x_K | x_rest, K) = f_K(x) + log p(K | x) − log ∑{x'_K} exp(f_K(x'_K, x_rest))·p(K | x'_K, x_rest)" in flat(text)
    assert "r(x[i]) = σ(0.3·x[i])" in explain(*checked(ISING), mask="hot")
    assert "p(K | x)" not in explain(*checked(ISING), mask="pairs")


def test_objective_has_its_factor():
    assert "c = (cells that K can reach) / E|K| = 16 / 2 = 8." in explain(*checked(ISING), mask="pairs")
    assert "the mean over the rows" in explain(*checked(ISING), mask="agreeing")
    assert "c = (cells that K can reach) / E|K| = 12 / 2 = 6." in explain(*checked(MIXED))
    assert "averages over all 120 masks" in explain(*checked(ISING), mask="pairs")


def test_samplers_show_plans_colours_and_verdicts():
    planned = flat(explain(*checked(ISING), sampler="sweep", plans=True))
    assert "16 blocks in 2 colours; enumeration: 1 cell, 2 joint values, 10 factor evaluations" in planned
    assert "scores from tables by lists of 4 neighbours; chains packed 32 in a word" in planned
    assert "Leaves p invariant" in explain(*checked(ISING), sampler="mixed")
    assert "x_K from p(x_K | x_rest, K): its correction for K keeps p" in " ".join(explain(*checked(ISING), sampler="adaptive").split())
    naive = " ".join(explain(*checked(ISING), sampler="naive").split())
    assert "Does not keep p" in naive
    assert "keeps no known distribution" in naive


def test_independent_cells_that_do_not_interact_keep_p_and_unmoved_cells_are_named():
    text = " ".join(explain(*checked(ISING), sampler="even").split())
    assert "Leaves p invariant" in text
    assert "It never moves `x[1]`, `x[3]`, `x[4]`, `x[5]`, `x[6]` and 9 more" in text


def test_too_costly_blocks_are_reported_and_do_not_end_the_explanation():
    program, bound = checked(ISING, L=9)
    text = " ".join(explain(program, bound).split())
    assert "Refused: a block of 81 cells needs 2.42e+24 joint values" in text
    assert "sampler mixed" in text


def test_without_inputs_there_are_formulas_and_a_list_of_what_is_needed():
    program = check_source(Source("m.gmlm", ISING.replace("int = 4", "int")))
    text = explain(program)
    assert "log p(x) =" in text
    assert "These need inputs: `L` with `--input L=8`." in text
    assert "May not keep p" in explain(program, sampler="naive")


@pytest.mark.parametrize("text", [ISING, MIXED])
def test_latex_is_balanced(text):
    written = explain(*checked(text), latex=True)
    plain = written.replace("\\{", "").replace("\\}", "")
    assert plain.count("{") == plain.count("}")
    assert written.count("\\begin{align*}") == written.count("\\end{align*}") > 3
    assert not set(written) & set("∑∈∋·−≤")


def test_latex_writes_names_as_mathematics():
    written = explain(*checked(MIXED), latex=True)
    assert "-\\beta \\, \\left(s_{t} - 1\\right) \\, \\mathbf{1}\\{\\mathrm{cold}_{t}\\}" in written
    assert "\\operatorname{gamma}" in written


def test_latent_and_network_models_are_explained():
    hmm = """
    index tag = range(3)  index time = range(4)
    model hmm {
      latent z[t in time] : tag
      var x[t in time] : bit
      param first[a in tag] : simplex
      param emit[a in tag, b in range(2)] : simplex
      z[t] ~ categorical(first) for t in time
      x[t] ~ categorical(emit[z[t]]) for t in time
    }
    mask one = subsets(size = 1)
    mask tag_of = subsets(z, size = 1)
    """
    text = explain(*checked(hmm), plans=True)
    assert "∑{t ∈ time} log(emit[z[t], x[t]])" in text
    assert "`z` is latent" in text
    flat = " ".join(text.split())
    assert "Latents that a row lacks are summed out: with each block, chain: 8 cells in 4 parts, 2 levels, 32 operations" in flat
    assert "It names `z`, which is latent: it may sample, not fit." in text
    assert "It never hides" not in text.split("mask tag_of")[0]
    network = "network net = mlp() model m { var x[i in range(3)] : bit conditional x ~ net() } sampler s { update x[i] for i in range(3) }"
    assert "promises no joint distribution" in explain(*checked(network))


def test_unknown_names_are_met_with_the_nearest():
    with pytest.raises(GmlmError, match="did you mean `pairs`"):
        explain(*checked(ISING), mask="pair")
    with pytest.raises(GmlmError, match="did you mean `sweep`"):
        explain(*checked(ISING), sampler="sweeps")


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_can_be_printed(stage):
    text = print_stage(stage, *checked(ISING))
    assert {"tree": "Sampler", "program": "RandomUpdate", "graph": "32 instances", "plan": "2 colours"}[stage] in text
    assert "span" not in text


@pytest.mark.parametrize("code", sorted(codes()))
def test_every_code_is_explained(code):
    text = explain_code(code)
    assert text.startswith(("error[", "warning["))
    assert code in text
    assert "Right:" in text


def test_codes_are_found_by_slug_and_by_nearest():
    assert explain_code("unknown-name") == explain_code("e203")
    with pytest.raises(GmlmError, match="did you mean `unknown-name`"):
        explain_code("unkown-name")


def test_info_is_plain_data():
    program, bound = checked(ISING)
    found = json.loads(json.dumps(describe(program, bound)))
    model = found["models"]["ising"]
    assert model["cells"] == 16
    assert model["factors"] == 48
    assert model["parameters"]["J"]["shape"] == [32]
    assert model["variables"]["x"]["values"] == [-1, 1]
    assert model["masks"]["pairs"] == {
        "kind": "subsets(x, size = 2)",
        "adaptive": False,
        "given": [],
        "may_fit": True,
        "support": 120,
        "reached": 16,
    }
    assert found["inputs"]["L"]["value"] == 4
    assert found["graphs"]["G"]["edges"] == 32
    assert describe(program)["models"]["ising"]["cells"] is None


def test_explaining_with_plans_imports_no_jax():
    script = (
        "import sys; from gmlmdsl._diagnostics import Source; from gmlmdsl.program import check_source; from gmlmdsl.graph import bind\n"
        "from gmlmdsl.explain import explain, describe\n"
        "p = check_source(Source('m', sys.stdin.read())); b = bind(p, {}); explain(p, b); describe(p, b)\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('jax', 'jaxlib', 'equinox')])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", script], input=ISING, capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.strip() == "[]"


def test_block_capacity_of_a_mixture_is_that_of_its_largest_block():
    from gmlmdsl.graph._lowered import lower_model
    from gmlmdsl.masks import lower_mask
    from gmlmdsl.plan import plan_use

    text = """
    model m { var x[i in range(5)] : bit  param J  factor J * x[i] * x[i + 1] for i in range(4) }
    mask a = mixture { 0.5 : blocks({x[0]}, {x[1], x[2], x[3]})  0.5 : subsets(x, size = 2) }
    """
    program, bound = checked(text)
    lowered = lower_model(bound, "m")
    assert plan_use(lowered.graph, lower_mask(lowered, program.masks["a"])).block.members == 3


TRANSLATE = (ROOT / "tests" / "programs" / "good" / "translate.gmlm").read_text()
EVERY_KIND = (ROOT / "tests" / "programs" / "good" / "refinement_of_every_kind.gmlm").read_text()


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_network_is_explained_as_a_conditional_with_its_options():
    text = flat(explain(*checked(TRANSLATE)))
    assert "p(tgt_i | tgt_rest, K, src) = softmax(net(tgt_rest, K, src)_i)" in text
    assert (
        "layers = 6, heads = 8, width = 512, ffn = 2048, dropout = 0.1, positional_attention = true, position_embeddings = false, decoder_layers = 6"
        in text
    )
    assert "predicted (classifier): a softmax over every length" in text
    unbound = flat(explain(check_source(Source("m.gmlm", "input w : int\n" + TRANSLATE.replace("width = 512", "width = w")))))
    assert "width = w, ffn = 2048" in unbound


def test_a_mask_of_a_network_shows_its_noise_and_its_stages():
    text = flat(explain(*checked(TRANSLATE), mask="corrupt"))
    assert "each cell of K holds its true value with probability 0.15, holds a uniform value with probability 0.85." in text
    assert "loss(tgt) = E[∑{i ∈ K} −log p(tgt_i | seen, K, src)]" in text
    assert "objective = (∑{rows r} weight_r·loss(tgt_r)) / (∑{rows r} weight_r·E|K_r|) + 0.1·mean length loss" in text
    staged = flat(explain(*checked(EVERY_KIND, k=3, seen=0.25), mask="noisy"))
    assert "loss(x) = E[1 / 3·∑{s = 1..3} ∑{i ∈ K} −log p(x_i | seen(s), K, s, c)]" in staged
    assert "seen(s + 1)_i = a draw from p(x_i | seen(s), K, s, c) for i ∈ K" in staged
    assert "holds a uniform value with probability 0.25, holds its true value with probability 0.75" in staged
    assert "length loss" not in explain(*checked(EVERY_KIND, k=3, seen=0.25), mask="plain")
    parts = flat(explain(*checked(EVERY_KIND, k=3, seen=0.25), mask="both"))
    assert "each cell of K of part 1 is hidden." in parts
    assert "part 2 is hidden with probability 0.5, holds a uniform value" in parts


@pytest.mark.parametrize(
    ("sampler", "said"),
    [
        ("all_again", "T = 3 passes over 3 candidate lengths, the likeliest first, 3 starts of each, which share one encoding of `s`, `c`"),
        ("all_again", "for a row already after the first that changes nothing"),
        ("few_again", "n_t = ⌊n·(T − t) / T⌋ the n_t least confident of all free cells"),
        ("few_again", "the lead of the likeliest value over the next. For n = 6, after each pass: 4, 3, 1, 0."),
        ("cosine", "n_t = ⌊n·cos(π t / (2 T))⌋ the n_t least confident of the open cells"),
        ("cosine", "with log p divided by 0.7, among the 3 likeliest values and the fewest values with probability 0.9"),
        ("sure", "a confidence below 0.8, but at least one is settled"),
        ("one", "all of the open cells but the most confident one"),
        ("drawn", "each cell of K, drawn from mask `both` in every pass"),
        ("a", "the second and later cell of a run of equal values holds a new uniform value"),
        ("e", "and each cell that was settled, with probability 0.2."),
        ("f", "T = 10 passes over 1 candidate length, 1 start"),
    ],
)
def test_refinement_is_told_pass_by_pass(sampler: str, said: str):
    text = flat(explain(*checked(EVERY_KIND, k=3, seen=0.5), sampler=sampler))
    assert said in text
    assert "score = 1 / n·∑{i free} log p(x_i | seen)" in text


def test_updates_of_a_network_are_not_said_to_keep_a_law():
    text = flat(explain(*checked((ROOT / "tests" / "programs" / "good" / "text.gmlm").read_text())))
    assert "K from the mask, hidden, then each cell of K from p(x_i | x_rest, K), all in one pass" in text
    assert "lowest p(x_i | x_-i)" in text
    assert "eeps p" not in text


def test_latex_of_networks_is_balanced():
    written = explain(*checked(EVERY_KIND, k=3, seen=0.5), latex=True)
    plain = written.replace("\\{", "").replace("\\}", "")
    assert plain.count("{") == plain.count("}")
    assert not set(written) & set("∑∈∋·−≤⌊π")


def test_stages_of_a_network_are_printed():
    assert "network net: encoder_decoder(layers=6" in print_stage("graph", *checked(TRANSLATE))
    assert "in one pass" in print_stage("plan", *checked(TRANSLATE))


@pytest.mark.slow
def test_networks_are_explained_without_jax_and_counted_with_it():
    script = (
        "import sys; from gmlmdsl._diagnostics import Source; from gmlmdsl.program import check_source; from gmlmdsl.graph import bind\n"
        "from gmlmdsl.explain import explain, describe\n"
        "p = check_source(Source('m', sys.stdin.read())); b = bind(p, {'source_vocab': 32128, 'target_vocab': 32128}); explain(p, b)\n"
        "print('jax' in sys.modules, describe(p, b)['models']['translate']['network']['count'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", script], input=TRANSLATE, capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.split() == ["False", "66997760"]  # T5.1.0-small with positional attention, as in Li et al. 2024, Appendix L


def test_info_counts_the_parameters_of_a_network_by_part():
    program, bound = checked(TRANSLATE, source_vocab=50, target_vocab=40)
    found = json.loads(json.dumps(describe(program, bound)))["models"]["translate"]
    assert found["network"]["form"] == "encoder_decoder"
    assert sum(found["network"]["parameters"].values()) == found["network"]["count"]
    assert found["network"]["parameters"]["positions"] == 256 * 512
    assert describe(program)["models"]["translate"]["network"]["count"] is None


@pytest.mark.slow
def test_blocks_that_are_drawn_and_eliminated_are_not_said_to_be_refused() -> None:
    text = "graph G = grid(8, 8)\nmodel m {\n  var x[i in G.nodes] : spin\n  param h\n  factor h * x[i] * x[j] for (i, j) in G.edges\n}\n"
    text += "mask half = bernoulli(x, rate = 0.5)\nmask some = subsets(x, size = 20)\n"
    program = gm.parse(text)
    said = flat(explain(program.bound.program, program.bound, plans=True))
    rows = np.tile([1, -1], (1, 32))
    for mask in ("half", "some"):
        assert np.isfinite(program.model().loss({"h": 0.1}, {"x": rows}, mask=mask, key=0, n_masks=2)).all()
    assert "efused" not in said
    assert said.count("The blocks of all rows in one order") == 2
