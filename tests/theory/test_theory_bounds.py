"""Theorem 4: its constants against enumeration over many parameters of a box, its formula against plain arithmetic."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from oracle import Oracle
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl._diagnostics import Source
from gmlmdsl.program import check_source
from gmlmdsl.theory._block_dynamics import dynamics_of
from gmlmdsl.theory._bounds import GeneralizationBound, conditional_entropy, generalization_bound, tensorization_above
from gmlmdsl.theory._mixing import reversible_gap
from gmlmdsl.theory._quantity import Quantity

Array = np.ndarray
DESIGN = {"n": 1000, "m": 8}
ISING = """\
model m {
  var x[i in range(3)] : spin
  param h[i in range(3)]
  param J
  factor h[i] * x[i] for i in range(3)
  factor J * x[i] * x[j] for i in range(3) for j in range(3) if i < j
}
mask one = subsets(x, size = 1)
mask two = subsets(x, size = 2)
mask all = everything(x)
mask some = bernoulli(x, rate = 0.4)
"""
MIXED = """\
model m {
  var x[i in range(2)] : spin
  var k : range(3)
  param a : positive
  param b[v in range(3)]
  factor a * x[0] * x[1] * (k == 1)
  factor b[k] * x[0] + 0.3 * k
  factor 2 * b[0] * (if x[1] == 1 then k else 0)
  require k + x[0] < 3
}
mask one = subsets(size = 1)
mask two = subsets(size = 2)
mask shown given x, k { choose {x[0], x[1]} weight 1 + k  choose {k, x[0]} weight 2 + x[1] }
"""
HIDDEN = """\
model m {
  var x[i in range(3)] : bit
  latent z : range(3)
  param w[v in range(3)]
  factor w[z] * x[i] for i in range(3)
  factor 0.4 * z * x[0]
}
mask one = subsets(x, size = 1)
mask two = subsets(x, size = 2)
"""
P = {"h": np.array([0.1, -0.3, 0.2]), "J": np.array(0.4)}
CASES = {
    "ising": (ISING, P, ("one", "two", "all", "some")),
    "mixed": (MIXED, {"a": np.array(0.8), "b": np.array([0.2, -0.5, 0.1])}, ("one", "two", "shown")),
    "hidden": (HIDDEN, {"w": np.array([0.3, -0.2, 0.6])}, ("one", "two")),
}
NAMED = [(case, mask) for case, (_, _, masks) in CASES.items() for mask in masks]


def bound(text: str = ISING, params: dict[str, Any] = P, mask: str = "one", **options: Any) -> GeneralizationBound:
    options = {"box": 0.5, **DESIGN, **options}
    return generalization_bound(gm.parse(text).model(), params, mask, **options)


class Conditionals:
    """log p(x_K | x_-K, K) of every block and row by enumeration, from the oracle's p and the compiled model's p(K | x)."""

    def __init__(self, text: str, params: dict[str, Array], mask: str):
        self.oracle = Oracle(check_source(Source("p.gmlm", text)), None, {})
        self.space = dynamics_of(gm.parse(text).model(), params, mask, "this test")[1]
        self.sizes = self.space.space.sizes

    def law(self, params: dict[str, Array]) -> Array:
        """p over the cells of the data, latents summed out."""
        p = self.oracle.probabilities(params)
        return p.reshape(*self.sizes, -1).sum(axis=-1)

    def log(self, params: dict[str, Array]) -> Array:
        """All of them; nan where a row cannot be, or K not be drawn."""
        p, out = self.law(params), []
        for axes, chance in zip(self.space.blocks, self.space.chances, strict=True):
            weights = p * chance
            with np.errstate(all="ignore"):
                found = np.log(weights / weights.sum(axis=axes, keepdims=True))
            out.append(np.where(weights > 0, found, np.nan))
        return np.stack(out)


def inside(rng: np.random.Generator, params: dict[str, Array], half: float, corner: bool) -> dict[str, Array]:
    def moved(v: Array) -> Array:
        step = rng.uniform(-1, 1, v.shape)
        return np.asarray(v + half * (np.sign(step) if corner else step))

    return {k: moved(v) for k, v in params.items()}


@pytest.mark.parametrize(("case", "mask"), thinned(NAMED, 12))
def test_no_conditional_is_steeper_or_smaller_than_is_said(case: str, mask: str) -> None:
    text, params, _ = CASES[case]
    rng, half = np.random.default_rng(1), 0.5
    found, exact = bound(text, params, mask, box=half, tensorization=9.0), Conditionals(text, params, mask)
    names, widths = list(found.lipschitz), list(found.widths.values())
    assert np.allclose(widths, 1)
    slopes = np.array(list(found.lipschitz.values()))
    least, steepest = 0.0, np.zeros(len(names))
    for trial in range(60):
        one = inside(rng, params, half, corner=trial % 2 == 0)
        before = exact.log(one)
        least = min(least, np.nanmin(before))
        # A change of one entry, and of all at once.
        at = 0
        for key, value in one.items():
            for place in np.ndindex(*value.shape):
                moved = {**one, key: value.copy()}
                moved[key][place] += 1e-4
                steepest[at] = max(steepest[at], np.nanmax(np.abs(exact.log(moved) - before)) / 1e-4)
                at += 1
        other = inside(rng, params, half, corner=False)
        change = np.concatenate([np.ravel(other[k] - one[k]) for k in params])
        assert np.nanmax(np.abs(exact.log(other) - before)) <= slopes @ np.abs(change) + 1e-9
    assert (steepest <= slopes + 1e-6).all()
    assert least >= found.log_beta - 1e-9
    # Not idle: a part of each slope is reached.
    assert (steepest >= 0.1 * slopes).all()
    assert (slopes > 0).all()


def test_slopes_and_the_least_probability_are_sharp_where_each_block_is_one_cell() -> None:
    """h alone: p(x_i | rest) = 1 / (1 + exp(-2 h x_i)), of slope at most 2 in h and at least 1 / (1 + exp(2 * 0.8))."""
    text = "model m {\n  var x[i in range(3)] : spin\n  param h[i in range(3)]\n  factor h[i] * x[i] for i in range(3)\n}\nmask one = subsets(x, size = 1)\n"
    found = bound(text, {"h": np.zeros(3)}, "one", box={"h": (-0.2, [0.8, 0.1, 0.0])}, epsilon=0.11)
    assert list(found.lipschitz.values()) == [2.0, 2.0, 2.0]
    assert np.allclose(list(found.widths.values()), [1.0, 0.3, 0.2])
    assert np.isclose(found.log_beta, -math.log(1 + math.exp(2 * 0.8)))
    assert np.isclose(found.log_cover, math.log(55 * 17 * 11))  # of 2 * width * 3 / 0.11, rounded up


def test_the_least_probability_counts_all_values_and_what_the_mask_tells() -> None:
    text = "model m {\n  var k : range(3)\n  param a\n  factor a * (k == 0)\n}\nmask one = subsets(size = 1)\n"
    assert np.isclose(bound(text, {"a": np.array(-1.0)}, box=0.0).beta, 1 / (1 + 2 * math.e))
    text = "model m {\n  var x[i in range(2)] : bit\n  param a\n  factor a * x[0]\n}\n"
    text += "mask one given x { choose {x[0]} weight 1 + 9 * x[0]  choose {x[1]} weight 1 }\n"
    # p(K = {0} | x) is 1/2 where x[0] is 0, else 10/11.
    assert np.isclose(bound(text, {"a": np.array(0.0)}, box=0.0).beta, (1 / 2) / (1 / 2 + 10 / 11))


def test_a_part_of_the_cover_loses_at_most_epsilon() -> None:
    text, params, _ = CASES["mixed"]
    rng, epsilon = np.random.default_rng(2), 0.3
    found, exact = bound(text, params, "two", epsilon=epsilon, tensorization=9.0), Conditionals(text, params, "two")
    slopes, widths = (np.array(list(v.values())) for v in (found.lipschitz, found.widths))
    parts = np.ceil(widths * slopes * (slopes > 0).sum() / epsilon)
    assert np.isclose(found.log_cover, np.log(parts).sum())
    low = np.concatenate([np.ravel(v) for v in params.values()]) - 0.5
    for _ in range(40):
        corner = low + widths / parts * np.floor(rng.uniform(size=len(parts)) * parts)
        ends = [corner + widths / parts * rng.integers(0, 2, len(parts)) for _ in range(2)]
        logs = [exact.log({"a": v[0], "b": v[1:]}) for v in ends]
        assert np.nanmax(np.abs(logs[0] - logs[1])) <= epsilon + 1e-12


def test_many_blocks_are_bounded_by_one_that_holds_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = bound(mask="two")
    monkeypatch.setattr("gmlmdsl.theory._bounds.MOST_BOX_BLOCKS", 2)
    loose = bound(mask="two")
    assert loose.log_beta <= exact.log_beta
    assert all(loose.lipschitz[k] >= v for k, v in exact.lipschitz.items())
    assert loose.lipschitz["J"] == 6 == 2 * math.comb(3, 2)


def test_given_data_scale_the_slopes() -> None:
    text = (
        "model m {\n given z[i in range(2)] : real\n var x[i in range(2)] : spin\n param a\n factor a * z[i] * x[i] for i in range(2)\n}\n"
    )
    text += "mask one = subsets(x, size = 1)\n"
    found = bound(text, {"a": np.array(0.0)}, box=1.0, given={"z": [0.5, -3.0]})
    assert found.lipschitz == {"a": 6.0}
    assert np.isclose(found.log_beta, -math.log(1 + math.exp(6)))


# The formula


@pytest.mark.parametrize("excess", [False, True])
def test_the_bound_is_the_formula_in_plain_arithmetic(excess: bool) -> None:
    n, m, delta, epsilon, loss, c_at, entropy = 5000, 20, 0.1, 0.2, 0.7, 3.5, 0.4
    found = bound(n=n, m=m, delta=delta, epsilon=epsilon, empirical_loss=loss, tensorization=c_at, excess=excess, entropy=entropy)
    cover, N, omega = round(found.C_eps), 3, 2
    B = math.sqrt(2 ** (3 * N) * omega**N * cover / (m * delta)) + math.sqrt(math.log(8 * cover / delta) / (2 * n))
    C = math.sqrt(omega ** (3 * N) / (8 * delta * n))
    start = loss - entropy if excess else loss
    expected = math.sqrt(c_at / 2 * (start + B * math.log(1 / found.beta) + epsilon)) + C
    assert np.isclose(found.bound, expected, rtol=1e-12)
    assert np.isclose(found.B, B, rtol=1e-9)
    assert np.isclose(found.C_prime, C)
    assert found.vacuous
    assert "vacuous" in repr(found)


def test_the_printed_bound_does_not_vanish_with_data_and_that_of_the_excess_does() -> None:
    endless: dict[str, Any] = {"n": 1e300, "m": 1e300, "epsilon": 1e-12, "box": 0.1}
    printed, better = bound(**endless), bound(**endless, excess=True)
    assert np.isclose(printed.bound, math.sqrt(printed.tensorization / 2 * printed.loss), rtol=1e-4)
    assert printed.vacuous
    assert better.bound < 1e-4
    assert not better.vacuous
    assert "vacuous" not in repr(better)


@pytest.mark.slow
def test_what_overflows_is_said_in_logarithms() -> None:
    text = ISING.replace("range(3)", "range(300)")
    params = {"h": np.zeros(300), "J": np.array(0.1)}
    found = bound(text, params, empirical_loss=0.6, tensorization=500.0)
    assert found.bound == math.inf
    assert 709 < found.log_bound < math.inf
    assert found.vacuous
    assert "10^" in repr(found)


# Where the constant of tensorization comes from


@pytest.mark.parametrize(("case", "mask"), thinned(NAMED, 3, 1))
def test_the_constant_of_tensorization_is_above_what_a_search_finds(case: str, mask: str) -> None:
    text, params, _ = CASES[case]
    _, dynamics = dynamics_of(gm.parse(text).model(), params, mask, "this test")
    above, rng = tensorization_above(dynamics, "this test"), np.random.default_rng(3)
    q, largest = dynamics.space.p, 0.0
    alive = q > 0
    for trial in range(300):
        spread = 10.0 ** rng.uniform(-2, 1)
        tilt = np.exp(spread * rng.normal(size=q.shape)) if trial % 2 else rng.dirichlet(np.full(q.size, 0.2)).reshape(q.shape)
        r = np.where(alive, q * tilt, 0.0)
        r /= r.sum()
        ratio = np.where(r > 0, r / np.where(alive, q, 1.0), 1.0)
        whole, parts = float((r * np.log(ratio)).sum()), 0.0
        for axes, chance in zip(dynamics.blocks, dynamics.chances, strict=True):
            top, under = r * chance, q * chance
            sums = [np.maximum(v.sum(axis=axes, keepdims=True), 1e-300) for v in (top, under)]
            inner = np.where(top > 0, (top / sums[0]) / np.where(top > 0, under / sums[1], 1.0), 1.0)
            parts += float((top * np.log(inner)).sum())
        largest = max(largest, whole / parts)
    assert above.kind == "upper bound"
    assert largest <= above
    assert largest > 1 - 1e-9


def test_the_constant_of_tensorization_may_be_far_above_the_poincare_constant() -> None:
    """All mass on the less probable mode of two cold spins: KL(r, q) / E KL is -ln q(x) / -(1/2) sum over i of ln q(x_i | x_-i)."""
    text = ISING.replace("range(3)", "range(2)")
    _, dynamics = dynamics_of(gm.parse(text).model(), {"h": np.full(2, 2.0), "J": np.array(2.5)}, "one", "this test")
    conditionals = sum(np.log(b.conditional) for b in dynamics) / 2
    ratio = float((dynamics.space.log_p / conditionals)[0, 0])
    assert ratio > 2.5 / reversible_gap(dynamics)[0]
    assert ratio <= tensorization_above(dynamics, "this test")


@pytest.mark.parametrize("mask", thinned(["one", "two", "all", "some"], 4))
def test_total_variation_is_below_the_root_of_the_excess(mask: str) -> None:
    """TV(p, q) <= sqrt(C_AT / 2 (L(q) - entropy)), L(q) the loss of q at data from p: the theorem's first half, without sampling."""
    rng, exact = np.random.default_rng(4), Conditionals(ISING, P, mask)
    for _ in range(20):
        q, p = (inside(rng, P, 1.5, corner=False) for _ in range(2))
        _, dynamics = dynamics_of(gm.parse(ISING).model(), q, mask, "this test")
        c_at = tensorization_above(dynamics, "this test")
        weights = np.stack([np.broadcast_to(c, exact.sizes) for c in exact.space.chances]) * exact.law(p)
        excess = float((weights * (exact.log(p) - exact.log(q))).sum())
        distance = np.abs(exact.law(p) - exact.law(q)).sum() / 2
        assert distance <= math.sqrt(c_at / 2 * excess) + 1e-12
        entropy = conditional_entropy(dynamics_of(gm.parse(ISING).model(), p, mask, "this test")[1])
        assert np.isclose(entropy, -float((weights * exact.log(p)).sum()))


def test_one_block_of_all_cells_has_constant_1() -> None:
    found = bound(mask="all", empirical_loss=2.0)
    assert found.tensorization == 1
    assert found.tensorization.kind == "exact"
    assert found.certified


def test_a_chain_in_two_parts_has_no_constant() -> None:
    text = "model m {\n  var x[i in range(2)] : bit\n  param a\n  factor a * x[0]\n  require x[0] == x[1]\n}\nmask one = subsets(x, size = 1)\n"
    found = bound(text, {"a": np.array(0.2)})
    assert found.tensorization == math.inf
    assert found.bound == math.inf
    assert found.vacuous


def test_what_is_assumed_is_said() -> None:
    assert bound(empirical_loss=0.5).certified
    assert bound(empirical_loss=0.5).bound.kind == "upper bound"
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "the loss is that expected"),
        ({"empirical_loss": 0.5, "tensorization": 4.0}, "C_AT is the caller's"),
        ({"empirical_loss": 0.5, "tensorization": Quantity(4.0, "lower bound", "a search")}, "not an upper bound"),
        ({"empirical_loss": 0.5, "excess": True}, "the conditional entropy is the model's"),
        ({"empirical_loss": 0.5, "excess": True, "entropy": 0.1}, "the conditional entropy is the caller's"),
    ]
    for options, said in cases:
        found = bound(**options)
        assert not found.certified
        assert found.bound.kind == "estimate"
        assert said in repr(found)
    assert bound(empirical_loss=0.5, tensorization=Quantity(4.0, "upper bound", "tensorization_above(..)")).certified


# Faults


@pytest.mark.produces("E712")
def test_models_that_are_not_affine_are_refused_with_the_place() -> None:
    text = "model m {\n  var x : spin\n  var y : spin\n  param J\n  factor J ^ 2 * x * y\n}\nmask one = subsets(size = 1)\n"
    with pytest.raises(gm.GmlmError, match="E712") as caught:
        bound(text, {"J": np.array(0.1)})
    assert "J ^ 2 * x * y" in str(caught.value)
    text = "model m {\n  var x : range(3)\n  param p[v in range(3)] : simplex\n  x ~ categorical(p)\n}\nmask one = subsets(size = 1)\n"
    with pytest.raises(gm.GmlmError, match="E712"):
        bound(text, {"p": np.full(3, 1 / 3)})


@pytest.mark.parametrize(
    "options",
    [
        {"n": 0},
        {"m": -1},
        {"epsilon": 0.0},
        {"delta": 1.0},
        {"n": math.nan},
        {"box": -1.0},
        {"box": math.inf},
        {"box": "wide"},
        {"box": {"h": (-1, 1), "J": (0.5, 1)}},
        {"box": {"h": (-1, 1), "J": 1.0}},
        {"box": {"h": (-1, math.inf), "J": (-1, 1)}},
        {"box": {"h": (-1, [1, 1]), "J": (-1, 1)}},
        {"empirical_loss": -0.1},
        {"entropy": math.nan, "excess": True},
        {"tensorization": 0.5},
    ],
)
def test_arguments_out_of_bounds_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(gm.GmlmError, match="E507|E504"):
        bound(**options)


def test_boxes_name_the_parameters() -> None:
    with pytest.raises(gm.GmlmError, match="E506"):
        bound(box={"h": (-1, 1)})
    with pytest.raises(gm.GmlmError, match="E506"):
        bound(box={"h": (-1, 1), "J": (-1, 1), "K": (-1, 1)})
    text = "model m {\n  var x : spin\n  param J : positive\n  factor J * x\n}\nmask one = subsets(size = 1)\n"
    assert bound(text, {"J": np.array(0.1)}).widths == {"J": 0.6}


def test_masks_that_mention_a_parameter_are_refused() -> None:
    text = ISING + "mask tuned { choose {x[0]} weight exp(J)  choose {x[1], x[2]} weight 1 }\n"
    with pytest.raises(gm.GmlmError, match="E702"):
        bound(text, mask="tuned")


@pytest.mark.produces("E703")
def test_masks_of_latents_are_refused() -> None:
    params = CASES["hidden"][1]
    with pytest.raises(gm.GmlmError, match="E703"):
        bound(HIDDEN + "mask code = subsets(z, size = 1)\n", params, "code", empirical_loss=0.5, tensorization=4.0)


def test_what_is_too_large_to_list_says_so_unless_it_is_passed() -> None:
    text = ISING.replace("range(3)", "range(40)")
    params = {"h": np.zeros(40), "J": np.array(0.1)}
    with pytest.raises(gm.GmlmError, match="E601"):
        bound(text, params, empirical_loss=0.6)
    with pytest.raises(gm.GmlmError, match="E601"):
        bound(text, params, tensorization=50.0)
    assert bound(text, params, empirical_loss=0.6, tensorization=50.0).vacuous


def test_every_pair_of_a_clique_counts_once() -> None:
    """J's slope over a block of one cell is 2 for each other cell; over all cells 2 for each pair."""
    slopes = [bound(mask=mask, empirical_loss=1.0).lipschitz["J"] for mask in ("one", "two", "all")]
    assert slopes == [2.0 * len([p for p in itertools.combinations(range(3), 2) if set(p) & set(range(k))]) for k in (1, 2, 3)]
