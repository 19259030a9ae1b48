"""Values that follow from requirements, and searches for what satisfies them, beside lists of all configurations."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks.modes import DECONVOLUTION, deconvolution

import gmlmdsl as gm
from gmlmdsl.data import clamped_cells
from gmlmdsl.plan import searched, with_forced

pytestmark = pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning", "ignore::gmlmdsl.SamplingWarning")
SUDOKU = Path(__file__).parents[1] / "programs" / "valid" / "sudoku.gmlm"
PUZZLES = {  # numbers of rows, 0 for an empty cell
    "single": "530070000600195000098000060800060003400803001700020006060000280000419005000080079",
    "hidden": "000000907000420180000705026100904000050000040000507009920108000034059000507000000",
    "probed": "000801000000000043500000000000070800000000100020030000600000075003400000000200600",
    "searched": "800000000003600000070090200050007000000045700000100030001000068008500010090000400",
}
COLOURING = """
input pairs[e, 2] : int
input n : int
graph G = edges(pairs, nodes = range(n))
model m {
  var c[i in G.nodes] : range(3)
  require c[i] != c[j] for (i, j) in G.edges
}
sampler s { update c[i] for i in G.nodes }
"""


def cells(puzzle: str) -> tuple[np.ndarray, np.ndarray]:
    return np.array([c != "0" for c in puzzle]), np.array([max(int(c) - 1, 0) for c in puzzle], np.int32)


def is_solved(codes: np.ndarray) -> bool:
    s = codes.reshape(9, 9)
    boxes = s.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 9)
    return all((np.sort(group, axis=1) == np.arange(9)).all() for group in (s, s.T, boxes))


@pytest.mark.parametrize("name", ["single", "hidden", "probed"])
def test_a_sudoku_follows_from_its_numbers(name: str) -> None:
    held, codes = cells(PUZZLES[name])
    found = with_forced(gm.load(SUDOKU).model().graph, held, codes, {}, tries=name == "probed")
    assert found is not None and found[0].all() and is_solved(found[1])
    assert (found[1][held] == codes[held]).all()


def test_a_sudoku_that_needs_a_search_has_a_mode() -> None:
    held, codes = cells(PUZZLES["searched"])
    model = gm.load(SUDOKU).model()
    found = with_forced(model.graph, held, codes, {})
    assert found is not None and not found[0].all()
    best, value = model.map({}, clamp={"s": {divmod(k, 9): int(codes[k]) for k in np.flatnonzero(held)}})
    assert is_solved(np.asarray(best)) and np.isnan(value)
    assert (np.asarray(best).ravel()[held] == codes[held]).all()


RELATIONS = {"!=": np.not_equal, "<=": np.less_equal, "<": np.less, "==": np.equal}


def random_model(rng: np.random.Generator, n: int) -> tuple[gm.Model, np.ndarray]:
    """Requirements of one or two cells of three values, at random, and the configurations that satisfy them."""
    states = np.array(list(itertools.product(range(3), repeat=n)))
    good, text = np.ones(len(states), bool), ""
    for _ in range(2):
        i, v = int(rng.integers(n)), int(rng.integers(3))
        good, text = good & (states[:, i] != v), f"{text}  require x[{i}] != {v}\n"
    for _ in range(rng.integers(0, n)):
        (i, j, k), v = rng.choice(n, 3, replace=False).tolist(), int(rng.integers(1, 6))
        good = good & (states[:, i] + states[:, j] + states[:, k] != v)
        text += f"  require x[{i}] + x[{j}] + x[{k}] != {v}\n"
    for _ in range(rng.integers(n // 2, 2 * n)):
        i, j = rng.choice(n, 2, replace=False).tolist()
        sign = str(rng.choice([*RELATIONS], p=[0.6, 0.2, 0.1, 0.1]))
        good, text = good & RELATIONS[sign](states[:, i], states[:, j]), f"{text}  require x[{i}] {sign} x[{j}]\n"
    return gm.parse(f"model m {{\n  var x[i in range({n})] : range(3)\n{text}}}").model(), states[good]


@pytest.mark.parametrize("seed", range(40))
def test_what_follows_is_in_every_configuration_and_a_search_finds_one_where_there_is(seed: int) -> None:
    rng, n = np.random.default_rng(seed), 6
    model, possible = random_model(rng, n)
    graph, held, codes = model.graph, rng.random(n) < 0.2, rng.integers(0, 3, n).astype(np.int32)
    left = possible[(possible[:, held] == codes[held]).all(axis=1)]
    forced = with_forced(graph, held, codes, {})
    found = searched(graph, held, codes, {}, rng, lambda c: True)
    assert (found is not None) == bool(len(left))
    if found is not None:
        assert (left == found).all(axis=1).any()
    if len(left):
        assert forced is not None and (left[:, forced[0]] == forced[1][forced[0]]).all()
    elif forced is not None:
        assert not forced[0].all()


NETWORK = """
input n : int = 30
domain level = range(3)
model m {
  var x[i in range(n), j in range(n)] : level
  param first[a in level] : simplex
  param next[a in level, b in level, c in level] : simplex
  x[i, j] ~ categorical(first) for i in range(n), j in range(n) if i == 0 or j == 0
  x[i, j] ~ categorical(next[x[i - 1, j], x[i, j - 1]]) for i in range(n), j in range(n) if i > 0 and j > 0
}
"""


def test_zeros_of_parameters_fix_the_cells_of_a_network_that_is_too_wide_to_sum() -> None:
    """Each cell is the sum of two others modulo 3, with certainty: the first row and column decide all."""
    model, codes = gm.parse(NETWORK).model(), np.zeros((30, 30), int)
    sums = np.add.outer(np.arange(3), np.arange(3)) % 3
    params = {"first": np.full(3, 1 / 3), "next": np.eye(3)[sums]}
    rng = np.random.default_rng(0)
    codes[0], codes[:, 0] = rng.integers(0, 3, (2, 30))
    for i, j in itertools.product(range(1, 30), repeat=2):
        codes[i, j] = sums[codes[i - 1, j], codes[i, j - 1]]
    ends = [(0, j) for j in range(30)] + [(i, 0) for i in range(1, 30)]
    clamp = {"x": {at: int(codes[at]) for at in ends}}
    with pytest.raises(gm.GmlmError, match="E601"):
        model.marginals(params)
    np.testing.assert_array_equal(model.map(params, clamp=clamp)[0], codes)
    p = model.marginals(params, clamp=clamp)["x"]
    np.testing.assert_array_equal(p.argmax(axis=-1), codes)
    assert np.allclose(p.max(axis=-1), 1)
    draws = model.sample(params, "exact", draws=2, chains=2, clamp=clamp, progress=False)
    assert (np.asarray(draws.posterior["x"]) == codes).all()
    wrong = {"x": clamp["x"] | {(5, 5): int(codes[5, 5] + 1) % 3}}
    with pytest.raises(gm.GmlmError, match="E512"):
        model.marginals(params, clamp=wrong)


@pytest.mark.parametrize("more", ["require 1 < 2", "factor log(h)"])
def test_requirements_and_factors_without_cells_decide_nothing(more: str) -> None:
    pairs = "factor h * x[i] * x[j] for (i, j) in G.edges  require x[0] != x[1]"
    model = gm.parse(f"graph G = grid(30, 30) model m {{ var x[i in G.nodes] : spin  param h  {pairs}  {more} }}").model()
    p = model.marginals({"h": 0.1}, clamp={"x": {0: 1}}, method="belief-propagation")["x"]
    assert p[1, 0] == 1
    with pytest.raises(gm.GmlmError, match="E601"):
        model.marginals({"h": 0.1}, clamp={"x": {0: 1}})


def test_other_requirements_decide_too() -> None:
    model = gm.parse(
        "model m { var x[i in range(4)] : range(3) require x[i] != x[i + 1] for i in range(3) require x[0] + x[2] + x[3] == 5 }"
    ).model()
    nothing = np.zeros(4, bool), np.zeros(4, np.int32)
    found = searched(model.graph, *nothing, {}, np.random.default_rng(0), lambda c: c[0] + c[2] + c[3] == 5)
    assert found is not None and found[0] + found[2] + found[3] == 5 and (np.diff(found) != 0).all()
    assert searched(model.graph, *nothing, {}, np.random.default_rng(0), lambda c: False) is None


def test_planted_colourings_of_many_nodes_have_a_mode_and_a_start() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 200)
    pairs = {tuple(sorted(p)) for p in rng.integers(0, 200, (4000, 2)).tolist() if truth[p[0]] != truth[p[1]]}
    pairs = np.array(sorted(pairs)[::5])[:400]
    model = gm.parse(COLOURING, pairs=pairs, n=200).model()
    best, _ = model.map({})
    assert (np.asarray(best)[pairs[:, 0]] != np.asarray(best)[pairs[:, 1]]).all()


@pytest.mark.slow
def test_four_nodes_that_are_all_joined_have_no_three_colours() -> None:
    model = gm.parse(COLOURING, pairs=np.array(list(itertools.combinations(range(4), 2))), n=4).model()
    assert searched(model.graph, np.zeros(4, bool), np.zeros(4, np.int32), {}, np.random.default_rng(0), lambda c: True) is None
    with pytest.raises(gm.GmlmError, match="E512|E509"):
        model.sample({}, "s", draws=1, chains=1)


def test_rows_of_given_data_keep_their_own_rows_beside_what_follows() -> None:
    text = """
model m {
  given z : real
  var x[i in range(30)] : range(2, 6)
  factor 0.3 * z * (x[i] - 2) for i in range(30)
  factor 0.01 * x[i] * x[j] for i in range(30), j in range(30) if i < j
  require x[i] == x[i + 1] for i in range(26)
}
"""
    model = gm.parse(text).model()
    both = np.asarray(model.marginals({}, clamp={"x": {0: 3}}, given={"z": [0.0, 5.0]})["x"])
    for k, z in enumerate((0.0, 5.0)):
        alone = np.asarray(model.marginals({}, clamp={"x": {0: 3}}, given={"z": [z]})["x"])[0]
        np.testing.assert_allclose(both[k], alone, atol=1e-5)
    assert np.abs(both[0] - both[1]).max() > 0.1


def test_values_are_tried_no_longer_than_what_they_may_read() -> None:
    """Binary images as unions of features at places: 7,200 values to try, of which each may change most other cells."""
    task = deconvolution(4, 12, 2, 4)
    model = gm.parse(DECONVOLUTION, images=4, size=12, features=2, patch=4, us=task["us"], uw=task["uw"]).model()
    held, codes = clamped_cells(model.graph, {"x": task["seen"].astype(int)})
    began = time.process_time()
    assert with_forced(model.graph, held, codes, {}) is not None
    assert time.process_time() - began < 5


def test_cells_that_a_requirement_fixes_need_no_clamp() -> None:
    """The numbers of a Sudoku as requirements, of which the sum over all cells is not affordable."""
    held, codes = cells(PUZZLES["single"])
    givens = np.stack([*np.divmod(np.flatnonzero(held), 9), codes[held]], axis=1)
    text = SUDOKU.read_text(encoding="utf-8").replace(
        "\nmodel sudoku {", "\ninput g[e, 3] : int\nindex clue = range(e)\nmodel sudoku {\n", 1
    )
    text = text.replace("\n}", "\n  require s[g[k, 0], g[k, 1]] == g[k, 2] for k in clue\n}", 1)
    model = gm.parse(text, g=givens).model()
    assert model.log_partition({}) == pytest.approx(0)
    assert is_solved(model.marginals({})["s"].argmax(axis=-1))
    draws = model.sample({}, "exact", draws=1, chains=2, progress=False)
    assert is_solved(np.asarray(draws.posterior["s"])[1, 0])
    with pytest.raises(gm.GmlmError, match="E601"):
        gm.load(SUDOKU).model().log_partition({})


def test_log_z_of_what_requirements_leave() -> None:
    """A wide grid of which requirements fix every eighth column: log Z is the sum over the strips."""
    text = """
    graph G = grid(24, 24)
    model m {
      var x[i in G.nodes] : spin
      factor 0.3 * x[i] * x[j] for (i, j) in G.edges
      require x[i] == 1 for i in G.nodes if i % 8 == 7
    }
    """
    whole = gm.parse(text).model()
    clamp = {"x": {i: 1 for i in range(24 * 24) if i % 8 == 7}}
    free = gm.parse(text.replace("require x[i] == 1 for i in G.nodes if i % 8 == 7", "")).model()
    p = whole.marginals({})["x"]
    np.testing.assert_allclose(p, free.marginals({}, clamp=clamp)["x"], atol=1e-6)
    strip = np.zeros((1 << 7, 1))
    states = 2 * ((np.arange(1 << 7)[:, None] >> np.arange(7)) & 1) - 1
    rows = [0.3 * ((states[:, 1:] * states[:, :-1]).sum(axis=1) + states[:, 6] + (states[:, 0] if k else 0)) for k in range(3)]
    total = 3 * 23 * 0.3  # the edges within the fixed columns
    for row in rows:
        strip = row
        for _ in range(23):
            between = 0.3 * states @ states.T + strip[:, None]
            top = between.max(axis=0)
            strip = row + top + np.log(np.exp(between - top).sum(axis=0))
        total += strip.max() + np.log(np.exp(strip - strip.max()).sum())
    assert float(whole.log_partition({})) == pytest.approx(total, rel=1e-6)


def test_cells_follow_in_rows_of_data_too() -> None:
    model = gm.load(SUDOKU).model()
    rows = np.stack([np.where(*cells(PUZZLES[name]), -1) for name in ("single", "hidden", "probed")]).reshape(-1, 9, 9)
    found = model.marginals({}, x=rows, missing=-1)["s"].argmax(axis=-1)
    assert all(is_solved(codes) for codes in found) and (found[rows >= 0] == rows[rows >= 0]).all()
    np.testing.assert_array_equal(model.map({}, x=rows, missing=-1).configuration, found)
    harder = np.stack([np.where(*cells(PUZZLES["searched"]), -1)] * 2).reshape(-1, 9, 9)
    assert all(is_solved(codes) for codes in model.map({}, x=harder, missing=-1).configuration)
    wrong = rows[:2].copy()
    wrong[1, 0, :2] = 3
    with pytest.raises(gm.GmlmError, match=r"E512[\s\S]*row 1 of x at `s\[0, 0\]`, `s\[0, 1\]`"):
        model.marginals({}, x=wrong, missing=-1)
