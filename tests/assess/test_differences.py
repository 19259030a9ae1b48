"""Which couplings differ between two fits: beside hand-made Wald tests and permutations, and on groups that differ in one pair."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from events import programs, traced_or_compiled
from refusals import refused

import gmlmdsl as gm
from gmlmdsl.assess._group_differences import permutations_needed

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

POTTS = """
domain abc = letters("abc")
graph G = complete(range(3))
model m {
  var x[i in range(3)] : abc
  var s : spin
  param h[i in range(3), a in abc] ~ normal(0, 1)
  param J[(i, j) in G.edges, a in abc, b in abc] ~ normal(0, 1)
  param t[a in abc] ~ normal(0, 1)
  factor h[i, x[i]] for i in range(3)
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
  factor t[x[0]] * s
}
mask one = subsets(size = 1)
"""


def rows(seed: int, tied: bool, n: int = 150) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, (n, 3))
    if tied:
        x[:, 1] = np.where(rng.random(n) < 0.7, x[:, 0], x[:, 1])
    return {"x": x, "s": rng.choice([-1, 1], n)}


@pytest.fixture(scope="module")
def groups() -> Any:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # pyright: ignore[reportAttributeAccessIssue]
        model = gm.parse(POTTS).model()
        return model.fit(rows(1, True)), model.fit(rows(2, False))


@pytest.mark.slow
def test_the_pair_in_which_groups_differ_is_found_and_no_other(groups: Any) -> None:
    found = groups[0].differences(groups[1])
    assert found.loc[0, ["first", "second", "differs"]].tolist() == ["x[0]", "x[1]", True]
    assert found["differs"].sum() == 1
    assert dict(zip(zip(found["first"], found["second"], strict=True), found["df"], strict=True)) == {
        ("x[0]", "x[1]"): 4, ("x[0]", "x[2]"): 4, ("x[1]", "x[2]"): 4, ("x[0]", "s"): 2}  # fmt: skip


@pytest.mark.slow
def test_statistics_are_wald_tests_of_the_tables(groups: Any) -> None:
    """By contrasts of the parameters, whose priors are alike and whose sandwiches add up but for what the priors pull."""
    a, b = groups
    found = a.differences(b, correction="none").set_index(["first", "second"]).loc[("x[0]", "s")]
    t = np.array([1.0, -1.0, 0.0]), np.array([0.0, 1.0, -1.0])
    difference = np.array([c @ (a.params["t"] - b.params["t"]) for c in t])
    from gmlmdsl.assess._wald import pulls

    names = list(a.summary().index)
    at = [names.index(f"t[{v}]") for v in "abc"]
    covariance = sum(f.determined_covariance("sandwich") for f in groups) + pulls(a, b)
    v = np.stack(t) @ covariance[np.ix_(at, at)] @ np.stack(t).T
    np.testing.assert_allclose(found["statistic"], difference @ np.linalg.solve(v, difference), rtol=1e-6)
    from scipy.stats import chi2

    np.testing.assert_allclose(found["p_value"], chi2.sf(found["statistic"], 2), rtol=1e-9)


@pytest.mark.slow
def test_a_second_pair_of_groups_compiles_nothing(groups: Any) -> None:
    a, b = groups
    a.differences(b)
    model = gm.parse(POTTS).model()
    others = [model.fit(rows(seed, False)) for seed in (5, 6)]
    with traced_or_compiled() as events:
        others[0].differences(others[1])
    assert programs(events) == 0


@pytest.mark.slow
def test_corrections_are_holms_and_benjamini_and_hochbergs(groups: Any) -> None:
    p = groups[0].differences(groups[1], correction="none")["p_value"].to_numpy()
    holm, bh = (groups[0].differences(groups[1], correction=c)["p_adjusted"].to_numpy() for c in ("holm", "bh"))
    np.testing.assert_allclose(holm, [min(1.0, max(p[j] * (4 - j) for j in range(k + 1))) for k in range(4)])
    np.testing.assert_allclose(bh, [min(min(1.0, p[j] * 4 / (j + 1)) for j in range(k, 4)) for k in range(4)])


@pytest.mark.slow
def test_permutations_exchange_rows_and_count_what_is_as_far_apart(groups: Any) -> None:
    a, b = groups
    with pytest.warns(gm.GmlmWarning, match="permutations=79"):
        found = a.differences(b, permutations=3, seed=5)
    both = {k: np.concatenate([rows(1, True)[k], rows(2, False)[k]]) for k in ("x", "s")}
    pairs = [("x[0]", "x[1]"), ("x[0]", "x[2]"), ("x[1]", "x[2]"), ("x[0]", "s")]

    def apart(left: gm.Fit, right: gm.Fit) -> np.ndarray:
        table = dataclasses.replace(left).differences(right, correction="none").set_index(["first", "second"])["value"]
        return table.loc[pairs].to_numpy()

    again = []
    for r in range(3):
        from gmlmdsl.data import generator

        mine = generator(5, r).permutation(300) < 150
        again.append(apart(*(a.model.fit({k: v[side] for k, v in both.items()}) for side in (mine, ~mine))))
    expected = (1 + (np.array(again) >= apart(a, b)).sum(axis=0)) / 4
    np.testing.assert_allclose(found.set_index(["first", "second"])["p_value"].loc[pairs], expected)
    largest = (1 + (np.max(again, axis=1) >= apart(a, b).max()).sum()) / 4
    np.testing.assert_allclose(found.attrs["p_largest"], largest)


def test_permutations_that_can_tell_no_pair_apart_are_warned_of(groups: Any) -> None:
    """Four pairs at 0.05: the least p of n permutations, 1 / (n + 1), times 4 is 0.05 with 79."""
    a, b = groups
    with pytest.warns(gm.GmlmWarning, match="p of 78 permutations is 1 / 79 at least: corrected for 4 pairs, .*`permutations=79`"):
        refused("E546", lambda: a.differences(b, permutations=78, max_seconds=1e-9), "refits")
    with pytest.warns(gm.GmlmWarning, match="`permutations=19`"):
        refused("E546", lambda: a.differences(b, permutations=18, correction="bh", max_seconds=1e-9), "refits")
    assert [permutations_needed(120, c, 0.05) for c in ("holm", "bh", "none")] == [2399, 19, 19]
    assert permutations_needed(7, "holm", 0.01) == 699
    assert (120 / 2400 <= 0.05) and not (120 / 2399 <= 0.05)


def test_what_cannot_be_compared(groups: Any) -> None:
    a, b = groups
    refused("E507", lambda: a.differences(b, correction="bonferroni"), "holm")
    refused("E507", lambda: a.differences(b, level=2), "level")
    refused("E546", lambda: a.differences(b, permutations=79, max_seconds=1e-9), "refits")
    refused("E545", lambda: a.differences(a), "with itself")
    refused("E507", lambda: a.differences(b, permutations=True), "permutations")
    other = dataclasses.replace(b, meta=b.meta | {"program": POTTS.replace("normal(0, 1)", "normal(0, 2)", 1)})
    refused("E545", lambda: a.differences(other), "programs")
