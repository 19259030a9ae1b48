"""Warnings that binding shows: a program of each, a near neighbour that has none, and by enumeration that what they say holds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from oracle import Oracle

import gmlmdsl as gm
from gmlmdsl._diagnostics import Source
from gmlmdsl.explain import explain
from gmlmdsl.graph import bind, lower_model
from gmlmdsl.plan import lint_sizes
from gmlmdsl.plan._model_lints import contrast_table
from gmlmdsl.program import check_source

NEW = ("W820", "W821", "W822", "W823", "W824", "W832")


def lowered_of(text: str, **inputs: object):
    bound = bind(check_source(Source("p.gmlm", text)), inputs)
    (name,) = bound.program.models
    return bound, lower_model(bound, name), name


def codes(text: str, **inputs: object) -> list[str]:
    bound, lowered, name = lowered_of(text, **inputs)
    return [d.code for d in lint_sizes(lowered, bound.program, name) if d.code in NEW]


CELLS = "input n : int = 0\nindex t = range(4)\nmodel m {\n  var x[i in t] : bit\n  factor 0.1 * x[0]\n  %s\n}\n"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("factor x[i] for i in t if i > 3", ["W820"]),
        ("factor x[i] for i in t if i > 2", []),
        ("factor x[i] for i in t if i > 3 + n", []),  # an input decides
        ("factor x[i] for i in range(n + 1) if i > 3", []),
        ("require x[i] == x[0] for i in t if i < 0", ["W820"]),
        ("factor if i < 4 then x[i] else 2 * x[i] for i in t", ["W820"]),
        ("factor if i < 3 then x[i] else 2 * x[i] for i in t", []),
        ("factor if i < n + 4 then x[i] else 2 * x[i] for i in t", []),
        ("factor if x[i] == i then 1 else 2 for i in t", []),
        ("factor sum(if j < 4 then x[j] else 0 for j in t)", []),  # of a sum's own loops nothing is said
    ],
)
def test_loops_without_a_turn_and_branches_that_are_never_taken(statement: str, expected: list[str]) -> None:
    assert codes(CELLS % statement) == expected


REQUIRES = {
    "require x[0] + x[1] == 3": True,
    "require x[0] + x[1] == 2": False,
    "require x[0] == x[1]\n  require x[1] == x[2]\n  require x[0] != x[2]": True,
    "require x[0] == x[1]\n  require x[1] == x[2]\n  require x[0] != x[3]": False,
    "require x[i] > x[i + 1] for i in t if i < 3": True,
    "require x[i] >= x[i + 1] for i in t if i < 3": False,
    "require sum(x[i] for i in t) == 2\n  require sum(x[i] for i in t) == 3": True,
    "require sum(x[i] for i in t) >= 2\n  require sum(x[i] for i in t) <= 2": False,
}


@pytest.mark.parametrize("statements", REQUIRES)
def test_requirements_that_contradict_one_another(statements: str) -> None:
    assert ("W821" in codes(CELLS % statements)) == REQUIRES[statements]
    table = np.asarray(Oracle(check_source(Source("p.gmlm", CELLS % statements)), None, {"n": 0}).log_table({}))
    assert np.isneginf(table).all() == REQUIRES[statements]


MOVES = {
    ("sum(x[i] for i in t) == 2", "update x[i] for i in t"): True,
    ("sum(x[i] for i in t) == 2", "update {x[i], x[j]} for i in t for j in t if i < j"): False,
    ("sum(x[i] for i in t) == 2", "update x[i] for i in t  update {x[0], x[1]}  update {x[2], x[3]}"): False,
    ("sum(x[i] for i in t) == 2", "update x[i] for i in t  update {x[0], x[1]}"): True,  # x[2] and x[3] stay
    ("sum(x[i] for i in t) >= 2", "update x[i] for i in t"): False,
    ("x[0] == x[1]", "update x[i] for i in t"): True,
    ("x[0] == 1", "update x[i] for i in t"): False,  # no sampler moves it
    ("2 * x[0] - x[1] + x[2] == 1 and x[3] >= 0", "update K where K ~ subsets(x, size = 1)"): True,
    ("x[0] == 1 and x[3] == 0", "update x[i] for i in t"): False,
    ("x[0] == 1 and x[1] == x[2]", "update x[i] for i in t"): True,
    ("x[0] * x[1] == 0", "update x[i] for i in t"): False,
    ("x[0] + x[1] * x[2] == x[0]", "update x[i] for i in t"): False,
    ("x[0] + x[1] + x[0] * x[2] == 1", "update x[i] for i in t"): True,  # x[1] stays
    ("sum(x[i] for i in t) == 2", "update K where K ~ subsets(x, size = 2)"): False,
}


@pytest.mark.parametrize(("require", "updates"), MOVES)
def test_samplers_that_cannot_move(require: str, updates: str) -> None:
    text = CELLS % f"require {require}" + f"sampler s {{ {updates} }}\n"
    bound, lowered, name = lowered_of(text)
    assert ("W822" in [d.code for d in lint_sizes(lowered, bound.program, name)]) == MOVES[require, updates]
    # By enumeration: from no configuration does any block change some cell, though configurations differ in it.
    oracle = Oracle(check_source(Source("p.gmlm", text)), None, {"n": 0})
    possible = [s for s in itertools.product((0, 1), repeat=4) if np.isfinite(oracle.log_table({})[s])]
    if updates.startswith("update K"):
        size = 2 if "size = 2" in updates else 1
        blocks = list(itertools.combinations(range(4), size))
    elif "for j in t" in updates:
        blocks = list(itertools.combinations(range(4), 2))
    else:
        blocks = [(i,) for i in range(4)] + [b for b in ((0, 1), (2, 3)) if f"{{x[{b[0]}], x[{b[1]}]}}" in updates]
    moved = {
        c
        for a in possible
        for b in possible
        for k in blocks
        if all(a[c] == b[c] for c in range(4) if c not in k)
        for c in k
        if a[c] != b[c]
    }
    differ = {c for c in range(4) if len({s[c] for s in possible}) > 1}
    assert bool(differ - moved) == MOVES[require, updates]


POTTS = """\
domain colour = labels("r", "g", "b")
graph G = chain(3)
model m {{
  var x[i in G.nodes] : colour
  param h[a in colour]{0}
  param J[a in colour, b in colour]{1}
  param c
  {2}
  factor h[x[i]] for i in G.nodes
  factor J[x[i], x[j]] for (i, j) in G.edges
  factor c * (x[0] == "r") * (x[2] == "g")
}}
"""
PRIOR = " ~ normal(0, 1)"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("", "", ""), ["W823"]),
        ((PRIOR, PRIOR, ""), []),
        ((PRIOR, "", ""), ["W823"]),  # the constant of J
        (("", "", "gauge zero_sum(h)\n  gauge zero_sum(J)"), ["W832"]),  # h is one for all sites, and the ends of the chain have their own
        (("", PRIOR, "gauge zero_sum(h)"), []),
    ],
)
def test_directions_of_a_potts_model(parts: tuple[str, str, str], expected: list[str]) -> None:
    assert codes(POTTS.format(*parts)) == expected


TABLES = """
domain two = labels("f", "m")
domain three = labels("r", "g", "b")
model m {{
  var x : two
  var y : three
  param h[a in two] ~ normal(0, 1)
  param g[a in three] ~ normal(0, 1)
  param J[a in two, b in three] ~ normal(0, 1)
  param K[a in two, b in three] ~ normal(0, 1)
  {0}
}}
"""
RESTRICTED = {
    "factor J[x, y]  gauge zero_sum(J)": 3,
    "factor h[x] + J[x, y]  gauge zero_sum(J)": 2,
    "factor h[x] + g[y] + J[x, y]  gauge zero_sum(J)": 0,
    "factor h[x] + g[y] + J[x, y]  gauge zero_sum(J)  gauge zero_sum(h)  gauge zero_sum(g)": 0,
    "factor J[x, y] + K[x, y]  gauge zero_sum(J)": 0,
    "factor J[x, y] + K[x, y]  gauge zero_sum(J)  gauge zero_sum(K)": 3,
    'factor J[x, y]  gauge zero_sum(J)  require x == "f" or y == "r"': 0,  # not checked
}


@pytest.mark.parametrize("body", RESTRICTED)
def test_a_gauge_that_restricts_the_model_is_told(body: str) -> None:
    """By enumeration: so many dimensions of log p, up to a constant, are lost in the gauge."""
    text = TABLES.format(body.replace("  gauge", "\n  gauge").replace("  require", "\n  require"))
    bound, lowered, name = lowered_of(text)
    found = [d.message for d in lint_sizes(lowered, bound.program, name) if d.code == "W832"]
    assert len(found) == bool(RESTRICTED[body])
    if found:
        assert f"removes {RESTRICTED[body]} directions" in found[0]
    if "require" not in body:
        oracle, spaces = Oracle(check_source(Source("p.gmlm", text)), None, {}), {"free": [], "gauged": []}
        zero = {p.name: np.zeros(p.shape) for p in lowered.graph.parameters}
        for p in lowered.graph.parameters:
            for k in range(int(np.prod(p.shape))):
                unit = np.eye(1, int(np.prod(p.shape)), k).reshape(p.shape)
                for space, axes in (("free", ()), ("gauged", p.gauge)):
                    moved = unit
                    for axis in axes:
                        moved = moved - moved.mean(axis=axis, keepdims=True)
                    log_p = np.asarray(oracle.log_table(zero | {p.name: moved})).ravel()
                    spaces[space].append(log_p - log_p.mean())
        ranks = {space: np.linalg.matrix_rank(np.array(v), tol=1e-8) for space, v in spaces.items()}
        assert ranks["free"] - ranks["gauged"] == RESTRICTED[body]


def test_gauges_that_are_recommended_check_and_restrict_nothing() -> None:
    text = """
    domain aa = letters("AB")
    graph G = chain(3)
    model m {
      var x[i in G.nodes] : aa
      param h[i in G.nodes, a in aa]
      param J[(i, j) in G.edges, a in aa, b in aa]
      factor h[i, x[i]] for i in G.nodes
      factor J[i, j, x[i], x[j]] for (i, j) in G.edges
      GAUGES
    }
    """
    bound, lowered, name = lowered_of(text.replace("GAUGES", ""))
    (found,) = (d for d in lint_sizes(lowered, bound.program, name) if d.code == "W823")
    said = [part for part in found.help.split("`") if part.startswith("gauge")]
    assert said == ["gauge zero_sum(h)", "gauge zero_sum(J)"]
    assert codes(text.replace("GAUGES", "\n  ".join(said))) == []


def test_a_gauge_over_no_edge_is_nothing_to_tell() -> None:
    text = POTTS.replace("chain(3)", "chain(1)").replace("J[a in colour, b in colour]{1}", "J[(i, j) in G.edges, a in colour, b in colour]")
    body = (
        text.replace("{1}", "")
        .replace("J[x[i], x[j]]", "J[i, j, x[i], x[j]]")
        .replace('factor c * (x[0] == "r") * (x[2] == "g")', 'factor c * (x[0] == "r")')
    )
    assert "W832" not in codes(body.format("", "", "gauge zero_sum(J)"))


LEVELS = {
    "(a + b[i]) * x[i] for i in t": 1,
    "b[i] * x[i] for i in t": 0,
    "a * x[i] + b[i] * (x[i] - 0.5) for i in t": 1,
    "a * x[i] + b[i] * x[i] * x[(i + 1) % 4] for i in t": 0,
    "a * x[0] + 2 * b[1] * x[0] + b[2] * x[1] for i in t if i == 0": 1,
    "a * b[i] * x[i] for i in t": None,
    "exp(a) * x[0] + b[1] * x[0] for i in t if i == 0": None,  # not linear: nothing is said
}


@pytest.mark.parametrize("factor", LEVELS)
def test_a_level_that_is_said_twice(factor: str) -> None:
    text = CELLS % f"param a\n  param b[i in t]\n  factor {factor}"
    bound, lowered, name = lowered_of(text)
    found = [d for d in lint_sizes(lowered, bound.program, name) if d.code == "W823"]
    assert len(found) == (LEVELS[factor] or 0)
    table = contrast_table(lowered, [("a", 0), *(("b", k) for k in range(4))])
    if LEVELS[factor] is None:
        assert table is None
        return
    # By enumeration: the scores T(x) - T(0), one column for each entry, have the rank that contrasts have.
    oracle = Oracle(check_source(Source("p.gmlm", text)), None, {"n": 0})
    zero = {"a": np.array(0.0), "b": np.zeros(4)}
    base = np.asarray(oracle.log_table(zero)).ravel()
    columns = []
    for e in range(5):
        step = {"a": np.array(float(e == 0)), "b": np.eye(5)[e, 1:]}
        column = np.asarray(oracle.log_table(step)).ravel() - base
        columns.append(column - column.mean())
    scores = np.stack(columns, axis=1)
    assert table is not None
    assert np.linalg.matrix_rank(table) == np.linalg.matrix_rank(scores, tol=1e-9)
    used = int((np.abs(scores).max(axis=0) > 1e-12).sum())
    assert used - np.linalg.matrix_rank(scores, tol=1e-9) == LEVELS[factor]


CHAIN = "index t = range(4)\nmodel m {\n  var z[i in t] : bit\n  param p[a in range(2), b in range(2)] : simplex\n"
CHAIN += "  z[i] ~ categorical(p[z[i - 1]]) for i in t if i > 0\n  %s\n}\n"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("", ["W824"]),
        ("z[0] ~ categorical([0.5, 0.5])", []),
        ("factor 0.3 * z[0]", []),
        ("require z[0] == 1", []),
        ("factor 0.3 * z[1]", ["W824"]),
    ],
)
def test_a_chain_without_a_first_distribution(statement: str, expected: list[str]) -> None:
    assert codes(CHAIN % statement) == expected


def test_a_decoder_that_settles_several_cells_of_a_joint_distribution_is_noted() -> None:
    text = "model m {\n  var x[i in range(4)] : bit\n  factor 0.5 * x[0] * x[3]\n}\nsampler s = {}\n"
    calls = {
        "random_order()": [],
        "random_order(steps = 2)": ["W828"],
        "refinement(order = left_to_right, steps = 4, decode = sample)": [],
        "block_diffusion(block = 2, steps = 1)": [],  # no factor joins cells of one block
        "block_diffusion(block = 4, steps = 1)": ["W828"],
        "random_order(steps = 2, temperature = 0.5)": ["W828"],
        "refinement(steps = 4, decode = sample, remask = remdm_cap)": ["W828"],
        "refinement(steps = cells, schedule = threshold, threshold = 0.6, decode = sample)": ["W828"],
        "refinement(steps = cells, schedule = easy_first, decode = sample)": [],
        "easy_first(steps = cells)": ["W828"],  # it takes the most probable values
        "autoregressive()": ["W828"],
        "autoregressive(decode = sample)": [],
    }
    for call, wanted in calls.items():
        assert [w.code for w in gm.parse(text.replace("{}", call)).model().warnings] == wanted


WHERE = "index t = range(4)\nmodel m {\n  var x[i in t] : range(3)\n  factor 0.3 * x[0]\n"
WHERE += "  factor if x[i] == x[i + 1] then 0.9 else 0.2 * x[i] for i in t if i < 3\n}\nsampler s = "
LONE = "refinement(steps = cells, schedule = linear, decode = sample"


@pytest.mark.parametrize(
    ("call", "follows"),
    [
        ("random_order()", True),
        ("random_order(temperature = 0.3)", False),
        ("random_order(temperature = 1.0, top_p = 1)", True),
        ("random_order(top_k = 1)", False),
        ("random_order(top_k = 2)", False),
        ("random_order(top_k = 3)", True),
        ("random_order(top_p = 0.6)", False),
        ("refinement(steps = cells, schedule = linear)", False),
        (f"{LONE}, confidence = entropy)", True),
        (f"{LONE}, confidence = probability)", False),
        (f"{LONE}, confidence = margin, temperature = 2)", False),
        (f"{LONE}, order = left_to_right, top_k = 5)", True),
        (f"{LONE}, order = left_to_right, top_k = 2)", False),
        (f"{LONE}, planner = self)", False),
        (f"{LONE}, remask = random, eta = 0.5)", False),
        (f"{LONE}, remask = stutter)", False),
        ("refinement(steps = cells, schedule = easy_first, decode = sample)", True),
    ],
)
@pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")
def test_one_cell_in_each_pass_is_said_to_be_a_draw_from_p_where_it_is(call: str, follows: bool):
    """Beside the exact law; warnings and explanations agree with it."""
    model = gm.parse(WHERE + call).model()
    law = gm.theory.output_law(model, {}, sampler="s")
    assert (law.total_variation < 1e-9) == follows
    assert bool({"W826", "W828"} & {w.code for w in model.warnings}) != follows
    bound, _, _ = lowered_of(WHERE + call)
    said = " ".join(explain(bound.program, bound, sampler="s").split())
    assert ("is a draw from p" in said) == follows
    assert ("draws need not follow p" in said) != follows


RING = """
model ring {
  var x[i in range(5)] : spin
  latent z : bit
  factor 0.8 * x[i] * x[(i + 1) % 5] for i in range(5)
  factor 0.3 * x[0]
  factor if z == 1 then 0.7 else 0
}
"""


def test_a_decoder_that_is_noted_comes_with_its_path_divergence() -> None:
    """Numbers that were enumerated by others, of counts 2, 2, 1 and of the best ones; without one where p has parameters."""
    calls = {
        "random_order(schedule = counts([2, 2, 1]))": "; path divergence 0.307 nats",
        "random_order(schedule = counts([1, 4]))": "; path divergence 0.344 nats",
        "random_order(schedule = counts([1, 2, 2]))": "; path divergence 0.106 nats",
        "refinement(schedule = counts([2, 2, 1]), decode = sample, confidence = margin)": "need not follow p",
    }
    for call, words in calls.items():
        (note,) = gm.parse(RING + f"sampler s = {call}").model().warnings
        assert note.code == "W828" and note.message.endswith(words), note.message
    for change in (("0.8 *", "J *"), ("range(5)", "range(11)")):
        text = RING.replace("latent", "param J\n  latent").replace(*change) if "J" in change[1] else RING.replace(*change)
        notes = gm.parse(text + "sampler s = random_order(steps = 2)").model().warnings
        assert [n.message[-17:] for n in notes if n.code == "W828"] == ["need not follow p"]


def test_the_divergence_of_a_decoder_from_the_left_is_that_of_its_law() -> None:
    text = RING + "sampler s = refinement(order = left_to_right, schedule = counts([2, 2, 1]), decode = sample)"
    model = gm.parse(text).model()
    (note,) = model.warnings
    assert note.message.endswith(f"divergence {gm.theory.output_law(model, {}, 's').kl():.3g} nats")


PERMUTED = """
model seats {{
  var p[i in range(4)] : range({values})
  require all_different(p[i] for i in range(4))
}}
sampler s {{ update {block} }}
"""


@pytest.mark.parametrize(
    ("values", "block", "expected"),
    [
        (4, "p[i] for i in range(4)", ["W822"]),  # a permutation: no cell moves alone
        (4, "{p[i], p[j]} for i in range(4), j in range(4) if i < j", []),
        (5, "p[i] for i in range(4)", []),  # one value is free
    ],
)
def test_cells_of_a_permutation_do_not_move_alone(values: int, block: str, expected: list[str]) -> None:
    model = gm.parse(PERMUTED.format(values=values, block=block)).model()
    assert [w.code for w in model.warnings] == expected
    states = np.array(list(itertools.product(range(values), repeat=4)))
    possible = np.array([len(set(row)) == 4 for row in states.tolist()])
    stays = np.diag(np.asarray(model.transition_matrix({}, sampler="s")))[possible]
    assert (stays > 1 - 1e-6).all() == bool(expected)
