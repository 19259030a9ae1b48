"""Ising mode separation against enumeration: every bound is compared with the exact probability that it bounds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from oracle import Oracle

import gmlmdsl as gm
from gmlmdsl._diagnostics import Source
from gmlmdsl.program import check_source
from gmlmdsl.theory._modes import ModeSeparation, _least_mode_gap, _mode_gap, ising, mode_separation, strong_cliques

Array = np.ndarray
CLIQUES = [(5, (0, 1, 2), 3), (6, (1, 2, 4, 5), 5), (6, (0, 3), 2), (7, (0, 1, 2, 3, 4), 6), (8, (0, 1, 2, 3, 5, 6, 7), 8)]


def pairwise(n: int, kind: str = "spin") -> gm.Model:
    """All fields and couplings of n cells as parameters."""
    s = "x[{}]" if kind == "spin" else "spin(x[{}])"
    text = f"model m {{\n  var x[i in range({n})] : {kind}\n  param h[i in range({n})]\n  param J[i in range({n}), j in range({n})]\n"
    text += f"  factor h[i] * {s.format('i')} for i in range({n})\n"
    text += f"  factor J[i, j] * {s.format('i')} * {s.format('j')} for i in range({n}) for j in range({n}) if i < j\n}}\n"
    text += "mask two = subsets(x, size = 2)\nmask half = bernoulli(x, rate = 0.5)\nmask any = bernoulli(x, rate = uniform(0.2, 0.7))\n"
    text += "mask own = mixture { 0.25 : two  0.75 : blocks({x[0], x[1], x[2]}, {x[0]}) }\n"
    return gm.parse(text).model()


MODELS = {n: pairwise(n) for n in (5, 6, 7, 8)}


def drawn(rng: np.random.Generator, n: int, clique: tuple[int, ...], strength: float, twisted: bool = False) -> dict[str, Array]:
    """A clique with couplings near `strength` among weak ones; `twisted`: some of its cells are turned."""
    J = np.triu(rng.uniform(-0.1, 0.1, (n, n)), 1)
    turn = np.where(rng.uniform(size=n) < 0.5, -1.0, 1.0) if twisted else np.ones(n)
    for i, j in itertools.combinations(clique, 2):
        J[i, j] = strength * rng.uniform(1, 1.3) * turn[i] * turn[j]
    return {"h": turn * rng.uniform(-0.05, 0.2, n), "J": J}


class Enumeration:
    """Everything of an Ising model in plain NumPy: spins of all states, their law, and both chains."""

    def __init__(self, params: dict[str, Array]):
        self.h, upper = params["h"], np.triu(params["J"], 1)
        self.J, self.n = upper + upper.T, len(params["h"])
        self.s = np.array(list(itertools.product((-1, 1), repeat=self.n)))
        energy = self.s @ self.h + 0.5 * np.einsum("ai,ij,aj->a", self.s, self.J, self.s)
        self.p = np.exp(energy - energy.max())
        self.p /= self.p.sum()

    def joint(self, blocks: list[tuple[int, ...]]) -> Array:
        """The transition matrix of blocks drawn uniformly."""
        matrix = np.zeros((len(self.p),) * 2)
        for block in blocks:
            rest = [i for i in range(self.n) if i not in block]
            same = (self.s[:, None, rest] == self.s[None, :, rest]).all(axis=2)
            weights = same * self.p
            matrix += weights / weights.sum(axis=1, keepdims=True) / len(blocks)
        return matrix

    def independent(self) -> Array:
        """Every cell at once, each given the old values of the others."""
        up = 1 / (1 + np.exp(-2 * (self.h + self.s @ self.J)))
        return np.prod(np.where(self.s[None] == 1, up[:, None], 1 - up[:, None]), axis=2)

    def turned(self, found: ModeSeparation) -> Array:
        """The spins of the clique, turned such that R_1 is all +1."""
        return self.s[:, found.clique.cells] * np.array(found.clique.signs)


def separation(params: dict[str, Array], **options: Any) -> ModeSeparation:
    return separation_of(MODELS[len(params["h"])], params, **options)


def separation_of(model: Any, params: dict[str, Any], mask: str | None = None, **options: Any) -> ModeSeparation:
    return mode_separation(model, params, mask, **options)


# Recognition


@pytest.mark.parametrize(
    "text",
    [
        "var x[i in range(3)] : spin\n param a\n factor a * x[i] * x[j] for i in range(3) for j in range(3)\n factor 0.3 * x[1]",
        "var x[i in range(3)] : bit\n param a\n factor a * x[0] * x[1] + 2 * x[1] * (x[2] == 0)\n factor a",
        'var x[i in range(3)] : labels("no", "yes")\n param a\n factor a * (x[0] == x[i]) for i in range(3) if i > 0\n factor x[1] == "no"',
        "var x[i in range(3)] : range(2)\n param a\n factor if x[0] == 0 then a * x[1] else 2 * x[2]",
        # The product of three cancels.
        "var x[i in range(3)] : spin\n param a\n factor a * x[0] * x[1] * x[2] + x[0]\n factor x[2] * x[1] - a * x[1] * x[0] * x[2]",
    ],
)
def test_fields_and_couplings_give_the_law_back(text: str) -> None:
    text = f"model m {{\n {text}\n}}\n"
    params = {"a": np.array(0.7)}
    model = gm.parse(text).model()
    found = ising(model, params, "this test")
    exact = Oracle(check_source(Source("p.gmlm", text)), None, {}).probabilities(params)
    upper = np.triu(found.J, 1)
    mine = Enumeration({"h": found.h, "J": upper}).p
    assert np.abs(mine - exact).max() < 1e-12
    assert (found.J == found.J.T).all()
    assert (np.diag(found.J) == 0).all()


@pytest.mark.produces("E711")
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("var x[i in range(3)] : spin\n factor x[0] * x[1] * x[2]", "x[0] * x[1] * x[2]"),
        ("var x[i in range(3)] : range(3)\n factor x[0] * x[1]", "3 values"),
        ("var x[i in range(3)] : bit\n factor x[0] * x[1]\n require x[0] + x[2] > 0", "not finite"),
        ("var x[i in range(4)] : bit\n factor 1e-4 * x[0] * x[1] * x[2] * x[3]\n factor 9 * x[0]", "* x[1] * x[2] * x[3]"),
    ],
)
def test_other_models_are_refused_with_the_reason(body: str, said: str) -> None:
    with pytest.raises(gm.GmlmError, match="E711") as caught:
        separation_of(gm.parse(f"model m {{\n {body}\n}}\n").model(), {}, k=1)
    assert said in str(caught.value)


def test_given_data_enter_the_fields() -> None:
    text = "model m {\n given z[i in range(3)] : real\n var x[i in range(3)] : spin\n param a\n"
    text += " factor a * z[i] * x[i] for i in range(3)\n factor 2 * x[i] * x[i + 1] for i in range(3) if i < 2\n}\n"
    found = ising(gm.parse(text).model(), {"a": 2.0}, "this test", {"z": [0.5, -1.0, 3.0]})
    assert np.allclose(found.h, [1, -2, 6])
    assert found.J[0, 1] == found.J[1, 2] == 2
    assert found.J[0, 2] == 0


@pytest.mark.produces("E710")
def test_what_is_no_clique_and_what_is_out_of_bounds() -> None:
    flat = {"h": np.ones(5), "J": np.zeros((5, 5))}
    with pytest.raises(gm.GmlmError, match="E710"):
        separation(flat, k=3)
    params = drawn(np.random.default_rng(0), 5, (0, 1, 2), 1.0)
    for options in (
        {"k": 0},
        {"k": 6},
        {"k": 2.5},
        {"k": 2, "delta": 0.0},
        {"k": 2, "delta": 1.0},
        {"k": 2, "clique": [0]},
        {"k": 2, "clique": [0, 0]},
        {"k": 2, "clique": [0, 5]},
        {"k": 2, "clique": ["x"]},
        {"k": 2, "mask": "two"},
    ):
        with pytest.raises(gm.GmlmError, match="E507"):
            separation(params, **options)


def test_masks_that_look_at_x_are_refused() -> None:
    text = "model m {\n var x[i in range(3)] : bit\n factor x[0] * x[1]\n}\nmask a given x { each x[i] for i in range(3) rate 0.1 + 0.5 * x[i] }\n"
    text += "mask b given x { choose {x[0], x[1]} weight 1 + x[0]  choose {x[2]} weight 1 }\n"
    for mask in ("a", "b"):
        with pytest.raises(gm.GmlmError, match="E507"):
            separation_of(gm.parse(text).model(), {}, mask)


# Cliques


@pytest.mark.parametrize("seed", range(4))
def test_the_strong_clique_is_found_whatever_its_cells_are_called(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, cells = pairwise(14, "bit"), (2, 5, 7, 9, 13)
    found = separation_of(model, drawn(rng, 14, cells, 1.5, twisted=True), k=6)
    assert found.clique.cells == cells
    assert found.J0 > 0
    assert found.binomial_stay_steps > 1


def test_the_mode_is_the_one_that_the_fields_favour() -> None:
    params = drawn(np.random.default_rng(2), 5, (0, 1, 2), 1.0)
    for sign in (1, -1):
        found = separation({"h": np.full(5, 0.3 * sign), "J": params["J"]}, k=4, clique=(2, 0, 1))
        assert found.mode == {f"x[{i}]": sign for i in range(3)}
        assert found.opposite == {f"x[{i}]": -sign for i in range(3)}
        assert found.mass > found.opposite_mass
        assert f"reach all {sign} from any start" in found.statement


def test_all_maximal_cliques_come_and_no_others() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        J = np.triu((rng.uniform(size=(7, 7)) < 0.5).astype(float), 1)
        J += J.T
        sets = [
            c
            for size in range(2, 8)
            for c in itertools.combinations(range(7), size)
            if all(J[i, j] for i, j in itertools.combinations(c, 2))
        ]
        maximal = {c for c in sets if not any(set(c) < set(d) for d in sets)}
        assert set(strong_cliques(J)) == maximal


def test_the_mode_gap_of_large_cliques_is_bounded_from_below() -> None:
    rng = np.random.default_rng(4)
    for size in (2, 3, 5, 8):
        J = rng.uniform(0.5, 1, (size, size))
        J = np.triu(J, 1) + np.triu(J, 1).T
        h, outside = rng.normal(size=size), rng.normal(size=(size, 3)) * 0.2
        assert _least_mode_gap(h, J, outside) <= _mode_gap(h, J, outside) + 1e-12
        alike = np.ones((size, size)) - np.eye(size)
        assert np.isclose(
            _least_mode_gap(np.full(size, 0.3), alike, np.zeros((size, 0))), _mode_gap(np.full(size, 0.3), alike, np.zeros((size, 0)))
        )


# The constants


@pytest.mark.parametrize(("n", "clique", "k"), CLIQUES)
@pytest.mark.parametrize("twisted", [False, True])
def test_the_constants_are_the_extremes_over_all_configurations(n: int, clique: tuple[int, ...], k: int, twisted: bool) -> None:
    params = drawn(np.random.default_rng(n), n, clique, 1.0, twisted)
    found, exact = separation(params, k=k, clique=clique), Enumeration(params)
    spins, outside = exact.turned(found), [i for i in range(n) if i not in clique]
    log_p, size = np.log(exact.p), len(clique)
    differences, gaps = [], []
    for y in itertools.product((-1, 1), repeat=len(outside)):
        here = (exact.s[:, outside] == y).all(axis=1)
        total = spins[here].sum(axis=1)
        bottom = log_p[here][total == -size][0]
        differences.append((log_p[here][total == size][0] - bottom) / 2)
        gaps += ((bottom - log_p[here][np.abs(total) < size]) / 2).tolist()
    assert np.isclose(found.hG, min(differences), atol=1e-9)
    assert np.isclose(found.clique.most_hG, max(differences), atol=1e-9)
    assert np.isclose(found.clique.mode_gap, min(gaps), atol=1e-9)
    fields = (exact.h + exact.s @ exact.J)[:, clique] * np.array(found.clique.signs)
    assert np.isclose(found.clique.stay_field, -fields[spins.sum(axis=1) <= -2].max(), atol=1e-9)


# The propositions


@pytest.mark.parametrize(("n", "clique", "k"), CLIQUES)
@pytest.mark.parametrize("strength", [0.2, 0.6, 1.5])
def test_proposition_4_bounds_the_exact_tail_from_the_worst_start(n: int, clique: tuple[int, ...], k: int, strength: float) -> None:
    params = drawn(np.random.default_rng(n), n, clique, strength)
    exact = Enumeration(params)
    for delta in (0.3, 0.01):
        found = separation(params, k=k, clique=clique, delta=delta)
        reached = (exact.turned(found) == 1).all(axis=1)
        away = exact.joint(list(itertools.combinations(range(n), k)))[np.ix_(~reached, ~reached)]
        assert away.sum(axis=1).max() <= found.c + 1e-12
        missed = np.linalg.matrix_power(away, int(found.reach_steps)).sum(axis=1).max()
        assert missed <= delta
        assert found.reach_steps == max(1, math.ceil(math.log(delta) / math.log(found.c)))


def test_proposition_4_is_the_printed_formula() -> None:
    """|C| = 2 with equal fields and nothing outside: both states that are no mode have the same weight, and nothing is lost."""
    params = {"h": np.array([0.3, 0.3, 0, 0, 0.0]), "J": np.zeros((5, 5))}
    params["J"][0, 1] = 0.8
    found = separation(params, k=4)
    J0, hG, size = found.clique.mode_gap, found.hG, 2
    assert np.isclose(J0, 0.8 - 0.3)
    assert np.isclose(hG, 0.6)
    share = math.comb(5 - size, 4 - size) / math.comb(5, 4)
    top = math.exp(2 * (J0 + hG))
    assert np.isclose(found.c, 1 - share * top / (top + math.exp(2 * J0) + 2**size - 2))
    exact = Enumeration(params)
    spins = exact.turned(found).sum(axis=1)
    assert np.isclose(found.mass, exact.p[spins == 2].sum())
    assert np.isclose(found.opposite_mass, exact.p[spins == -2].sum())
    assert np.isclose(found.rest_mass, exact.p[spins == 0].sum())
    reached = spins == 2
    away = exact.joint(list(itertools.combinations(range(5), 5)))[np.ix_(~reached, ~reached)]
    assert np.isclose(separation(params, k=5).c, away.sum(axis=1).max())


def test_blocks_that_cannot_hold_the_clique_reach_nothing_for_sure() -> None:
    params = drawn(np.random.default_rng(1), 6, (1, 2, 4, 5), 1.0)
    found = separation(params, k=3, clique=(1, 2, 4, 5))
    assert found.reach_steps == math.inf
    assert not found.holds
    assert "never redraw the clique" in found.statement


def test_masks_cover_the_clique_as_their_blocks_do() -> None:
    params = drawn(np.random.default_rng(1), 5, (0, 1, 2), 1.0)
    at = {"two": 0.0, "half": 0.5**3, "any": (0.7**4 - 0.2**4) / (4 * 0.5), "own": 0.75 / 2}
    for mask, expected in at.items():
        assert np.isclose(separation(params, mask=mask, clique=(0, 1, 2)).cover, expected)
    assert np.isclose(separation(params, mask="two", clique=(3, 4)).cover, 1 / 10)
    with pytest.raises(gm.GmlmError, match="E506"):
        separation(params)


@pytest.mark.parametrize(("n", "clique", "k"), CLIQUES)
@pytest.mark.parametrize("strength", [0.3, 0.8, 2.0])
@pytest.mark.parametrize("twisted", [False, True])
def test_proposition_5_bounds_the_exact_chance_to_leave(n: int, clique: tuple[int, ...], k: int, strength: float, twisted: bool) -> None:
    params = drawn(np.random.default_rng(n), n, clique, strength, twisted)
    exact = Enumeration(params)
    for delta in (0.9, 0.05):
        found = separation(params, k=k, clique=clique, delta=delta)
        low = exact.turned(found).sum(axis=1) <= -2
        inside = exact.independent()[np.ix_(low, low)]
        leaving = 1 - inside.sum(axis=1).min()
        assert leaving <= math.exp(found.clique.log_leaving) * (1 + 1e-9) + 1e-14
        if found.r > 0:
            assert leaving <= math.exp(-2 * found.r**2 / len(clique))
        for steps in (found.stay_steps, found.binomial_stay_steps):
            stayed = np.linalg.matrix_power(inside, int(min(steps, 10**6))).sum(axis=1).min()
            assert stayed >= 1 - delta - 1e-9
        assert found.stay_steps <= found.binomial_stay_steps


def test_proposition_5_is_the_printed_formula_and_speaks_of_large_cliques_only() -> None:
    """exp(2 r^2 / |C|) stays below e^(|C| / 2 - 2): with four cells even infinite couplings give delta / 2 * e^(1/2) < 1 step."""
    n = 8
    params = {"h": np.full(n, 0.1), "J": np.triu(np.full((n, n), 2.0), 1)}
    found = separation(params, k=8, delta=0.9)
    assert len(found.clique.cells) == n
    assert np.isclose(found.clique.stay_field, 1.9)
    r = math.tanh(1.9) * n / 2 - 1
    assert found.stay_steps == math.floor(0.45 * math.exp(2 * r**2 / n)) > 2
    weak = {"h": np.zeros(5), "J": np.triu(np.full((5, 5), 0.2), 1)}
    found = separation(weak, k=5)
    assert found.r < 0
    assert found.stay_steps == 0
    strong = {"h": np.zeros(5), "J": np.zeros((5, 5))}
    strong["J"][:4, :4] = np.triu(np.full((4, 4), 50.0), 1)
    found = separation(strong, k=5)
    assert found.r > 0.99
    assert found.stay_steps == 0
    assert found.binomial_stay_steps > 1e30


def test_ever_stronger_couplings_leave_the_bounds_finite() -> None:
    params = {"h": np.zeros(5), "J": np.triu(np.full((5, 5), 1e4), 1)}
    found = separation(params, k=5)
    assert np.isfinite(found.binomial_stay_steps)
    assert found.binomial_stay_steps > 1e300
    assert np.isclose(found.mass, 0.5)
    assert found.rest_mass == 0


@pytest.mark.parametrize(("n", "clique", "k"), CLIQUES)
@pytest.mark.parametrize("strength", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("twisted", [False, True])
def test_proposition_8_bounds_the_exact_masses(n: int, clique: tuple[int, ...], k: int, strength: float, twisted: bool) -> None:
    params = drawn(np.random.default_rng(n + 10), n, clique, strength, twisted)
    found, exact = separation(params, k=k, clique=clique), Enumeration(params)
    total = exact.turned(found).sum(axis=1)
    assert exact.p[total == len(clique)].sum() >= found.mass - 1e-12
    assert exact.p[total == -len(clique)].sum() >= found.opposite_mass - 1e-12
    assert exact.p[np.abs(total) < len(clique)].sum() <= found.rest_mass + 1e-12


def test_block_updates_arrive_while_independent_ones_stay_below_the_thresholds_of_corollary_1() -> None:
    params = drawn(np.random.default_rng(5), 6, (1, 2, 4, 5), 3.0)
    found, exact = separation(params, k=5), Enumeration(params)
    assert found.clique.cells == (1, 2, 4, 5)
    assert [c.needed_by for c in found.conditions if not c.holds] == ["Corollary 1, Assumption 6"] * 2 + ["Corollary 1, Assumption 7"]
    assert found.binomial_stay_steps > found.reach_steps
    assert "so independent updates are slower" in found.statement
    total = exact.turned(found).sum(axis=1)
    reached, steps = total == 4, int(found.reach_steps)
    start = np.flatnonzero(total == -4)
    chances = []
    for matrix in (exact.joint(list(itertools.combinations(range(6), 5))), exact.independent()):
        away = matrix[np.ix_(~reached, ~reached)]
        missed = np.zeros(len(exact.p))
        missed[~reached] = np.linalg.matrix_power(away, steps).sum(axis=1)
        chances.append(1 - missed[start])
    assert chances[0].min() >= 1 - found.delta
    assert chances[1].max() <= found.delta


def test_a_condition_that_fails_is_said_with_its_number() -> None:
    """The fields of the paper's Figure 3, h = 5, outweigh couplings of 4: only block updates are spoken for."""
    params = {"h": np.full(8, 5.0), "J": np.zeros((8, 8))}
    params["J"][:4, :4] = np.triu(np.full((4, 4), 4.0), 1)
    found = separation(params, k=6)
    assert found.clique.cells == (0, 1, 2, 3)
    assert [c.holds for c in found.conditions] == [False, True, True, False, False, True, False, False]
    assert found.conditions[0].value == found.J0 == -3
    assert "Corollary 1 does not apply" in found.statement
    text = repr(found)
    assert "FAILS  the clique's couplings outweigh" in text
    assert found.statement in text
    assert found.mode == {f"x[{i}]": 1 for i in range(4)}
    assert found.opposite == {f"x[{i}]": -1 for i in range(4)}
    assert found.reach_steps.kind == "upper bound"
    assert found.binomial_stay_steps.kind == "lower bound"


# Corollary 1. With delta = 0.5 and M = 1 its assumptions are |C| >= 8 (1 + ln 8) = 24.64, hG >= ln(14) / 2 = 1.3195,
# J0 >= |C| ln(2) / 2, and for blocks of N - 1 cells N >= 182.

SIZE, FIELD = 26, 1.32 / 26
WITHIN: dict[str, Any] = {"n": SIZE, "h": FIELD, "J": FIELD + SIZE * math.log(2) / 2 + 1e-6}
UNIFORM = """
input n : int
model m {
  var x[i in range(n)] : spin
  param h
  param J
  factor h * x[i] for i in range(26)
  factor J * x[i] * x[j] for i in range(26) for j in range(26) if i < j
}
mask most = mixture { 0.86 : everything(x)  0.14 : subsets(x, size = 2) }
mask fewer = mixture { 0.85 : everything(x)  0.15 : subsets(x, size = 2) }
"""


def uniform(n: int, h: float, J: float, mask: str | None = None, k: int | None = None, **options: Any) -> ModeSeparation:
    """A clique of 26 equal cells among n."""
    options = {"k": n if k is None and mask is None else k, "delta": 0.5} | options
    return separation_of(gm.parse(UNIFORM, n=n).model(), {"h": h, "J": J}, mask, clique=range(SIZE), **options)


def failing(found: ModeSeparation) -> list[str]:
    return [c.meaning.partition(",")[0] for c in found.conditions if not c.holds]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"h": 0.0, "J": 20.0}, ["R_1 is more probable than R_-1 whatever is outside", "the fields are strong"]),
        ({"h": 1.31 / SIZE}, ["the fields are strong"]),
        ({"J": WITHIN["J"] - 2e-6}, ["the couplings are strong"]),
        ({"steps": 2}, ["the clique is large"]),
        ({"delta": 0.4}, ["the clique is large", "the fields are strong"]),
        ({"n": 27, "k": 26}, ["blocks are large"]),
        ({"n": 183, "k": 182}, []),
        ({"n": 181, "k": 180}, ["blocks are large"]),
        ({"mask": "most"}, []),
        ({"mask": "fewer"}, ["blocks often contain the clique"]),
    ],
)
def test_corollary_1_applies_within_the_thresholds_of_its_assumptions_alone(change: dict[str, Any], expected: list[str]) -> None:
    found = uniform(**(WITHIN | change))
    assert failing(found) == expected
    assert found.holds == (not expected)
    assert ("Corollary 1 applies" in found.statement) == (not expected)
    if not expected:  # what the proof concludes from the assumptions, at half of delta for each chain
        assert found.c <= found.delta / 2
        assert math.floor(found.delta / 4 * math.exp(2 * found.r**2 / SIZE)) >= found.steps


def test_within_its_assumptions_both_halves_of_corollary_1_hold_exactly() -> None:
    """Without other cells the number of cells at +1 is a chain of its own, for all 2^26 states."""
    found, size = uniform(**WITHIN), SIZE
    m = np.arange(size + 1)
    energy = WITHIN["h"] * (2 * m - size) + WITHIN["J"] * ((2 * m - size) ** 2 - size) / 2
    weights = energy + [math.log(math.comb(size, k)) for k in m]
    p = np.exp(weights - weights.max())
    assert (p / p.sum())[-1] >= found.mass >= 1 - found.delta / 2
    staying = []
    for up in range((size - 2) // 2 + 1):  # sums of at most -2
        odds = [1 / (1 + math.exp(-2 * (WITHIN["h"] + WITHIN["J"] * (2 * up - size - s)))) for s in (1, -1)]
        rows = [[math.comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(n + 1)] for n, q in zip((up, size - up), odds, strict=True)]
        staying.append(np.convolve(rows[0], rows[1])[: (size - 2) // 2 + 1].sum())
    assert min(staying) >= 1 - found.delta / 2


def test_steps_that_are_no_number_of_steps_are_refused() -> None:
    for steps in (0, 1.5, "many"):
        with pytest.raises(gm.GmlmError, match="E507"):
            uniform(**WITHIN, steps=steps)
