"""`fit_path(rule=)`: each block's conditional fitted by itself, beside the fit under a mask of that block alone; what joins them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from events import programs, traced_or_compiled
from refusals import refused
from test_group_penalty import SPINS
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.assess import _path_runs
from gmlmdsl.assess._path_runs import Runs
from gmlmdsl.evaluate import copies_of_blocks

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

MIXED = """
domain abc = letters("abc")
graph G = complete(range(3))
model m {
  var x[i in range(3)] : abc
  var s : spin
  param h[i in range(3), a in abc] ~ normal(0, 2)
  param J[(i, j) in G.edges, a in abc, b in abc]
  param t[a in abc]
  param c
  factor h[i, x[i]] for i in range(3)
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
  factor t[x[0]] * s
  factor c * (x[1] == "a") * (x[2] == "a") * s
  REQUIRE
}
mask each   = subsets(size = 1)
mask pieces = blocks({x[0]}, {x[1], s}, {x[2]})
mask first  = blocks({x[0]})
mask second = blocks({x[1]})
mask pair   = blocks({x[1], s})
mask last   = blocks({s})
mask whole  = everything()
"""
PLAIN = MIXED.replace("REQUIRE", "")
FORBIDDEN = MIXED.replace("REQUIRE", 'require not (x[0] == "c" and x[1] == "c")')


def rows(n: int = 150) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 3, (n, 3))
    x[:, 1] = np.where(rng.random(n) < 0.5, x[:, 0], x[:, 1])
    x[(x[:, 0] == 2) & (x[:, 1] == 2), 1] = 0
    return {"x": x, "s": np.where(rng.random(n) < 0.7, np.where(x[:, 0] == 1, 1, -1), 1)}


def chain(n: int = 300) -> np.ndarray:
    rng = np.random.default_rng(3)
    steps = np.where(rng.random((n, 4)) < 0.75, 1, -1)
    return np.cumprod(steps, axis=1) * rng.choice([-1, 1], (n, 1))


# The gate fits one block by itself: every mask is two programs more.
BLOCKS = [(text, b) for text in (PLAIN, FORBIDDEN) for b in (("x[1]", "second"), ("x[0]", "first"), ("s", "last"))]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "block"), thinned(BLOCKS, 6), ids=[f"{t}-{b}" for t in ("tables", "trees") for b in ("x1", "x0", "s")])
def test_each_block_is_fitted_by_its_own_conditional(text: str, block: tuple[str, str]) -> None:
    model, data, penalties = gm.parse(text).model(), rows(), [0.08, 0.02]
    found = model.fit_path(data, "each", penalty=penalties, rule="and").table
    alone = model.fit_path(data, block[1], penalty=penalties).table
    mine = found[found["block"] == block[0]]
    for column in ("penalty", "couplings", "loss"):
        np.testing.assert_allclose(mine[column], alone[column], rtol=1e-6)
    np.testing.assert_allclose(mine["refit_loss"].iloc[-1], alone["refit_loss"].iloc[-1], rtol=1e-5)
    assert found.loc[found["penalty"] == 0.02, "couplings"].max() > 0


@pytest.mark.slow  # those of one cell, above, are fitted in the gate
def test_blocks_of_several_cells_are_fitted_as_one() -> None:
    model, data = gm.parse(PLAIN).model(), rows()
    found = model.fit_path(data, "pieces", penalty=[0.04], rule="or").table
    alone = model.fit_path(data, "pair", penalty=[0.04]).table
    np.testing.assert_allclose(found.loc[found["block"] == "x[1], s", "loss"], alone["loss"], rtol=1e-6)


@pytest.mark.slow  # those of one cell are fitted in the gate
def test_one_block_of_everything_is_the_joint_fit() -> None:
    """Whose conditional is a likelihood: as many degrees of freedom as parameters."""
    model, data = gm.parse(PLAIN).model(), rows()
    found, alone = (model.fit_path(data, "whole", penalty=[0.2, 0.03], rule=rule) for rule in ("and", None))
    np.testing.assert_allclose(found.table["loss"], alone.table["loss"], rtol=1e-7)
    known = found.table.dropna()
    price = np.log(150) + 2 * 0.5 * np.log(len(found.couplings))
    np.testing.assert_allclose(known["ebic"], 2 * 150 * known["refit_loss"] + known["parameters"] * price, rtol=1e-12)


@pytest.mark.slow
def test_nodes_are_judged_by_the_ebic_of_their_regression() -> None:
    """Of scikit-learn's, refitted: log n, and 2 gamma log of the other cells."""
    from sklearn.linear_model import LogisticRegression

    x = chain()
    found = gm.parse(SPINS).model().fit_path(x, penalty=6, rule="or", gamma=0.25)
    own = found.table[found.table["block"] == "x[1]"].dropna()
    most = own[own["couplings"] == 3].iloc[-1]
    others = x[:, [0, 2, 3]]
    regression = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(others, x[:, 1])
    loss = np.logaddexp(0, -x[:, 1] * regression.decision_function(others)).sum()
    np.testing.assert_allclose(most["ebic"], 2 * loss + 3 * (np.log(300) + 2 * 0.25 * np.log(3)), rtol=1e-7)
    assert set(found.chosen_couplings) == {"x[0] - x[1]", "x[1] - x[2]", "x[2] - x[3]"}


def test_rules_join_the_blocks_that_see_a_coupling() -> None:
    """Of two couplings, seen by blocks 0 and 1, and by 0, 1 and 2."""
    run: Any = Runs.__new__(Runs)
    run.touch = np.array([[True, True], [True, True], [False, True]])
    chosen = np.array([[True, True], [True, True], [False, False]])
    some = np.array([[False, True], [True, False], [True, False]])
    for rule, expected in (("and", [[True, False], [False, False]]), ("or", [[True, True], [True, True]])):
        run.rule = rule
        np.testing.assert_array_equal(run.combined(np.array([chosen, some])), expected)


@pytest.mark.slow
def test_the_chosen_model_of_a_rule_is_fitted_jointly() -> None:
    x, model = chain(), gm.parse(SPINS).model()
    found = model.fit_path(x, penalty=6, rule="and")
    assert len(found.params) == len(found.selected) == 1
    assert found.table["chosen"].sum() == 4
    refit = found.refit()
    np.testing.assert_allclose(found.params[0]["J"], refit.params["J"], atol=1e-5)
    np.testing.assert_array_equal(found.params[0]["J"] != 0, found.selected[0])
    assert 'ebic chooses 3 couplings of 6, joined by "and"' in str(found)


@pytest.mark.slow
def test_rules_go_with_rows_left_out_and_with_stability_in_one_program() -> None:
    x, model = chain(), gm.parse(SPINS).model()
    model.fit_path(x, penalty=2, rule="and", criterion="cv", folds=2)
    model.fit_path(x, penalty=2, rule="or", criterion="stability", subsamples=2, wrong=3, progress=False)
    with traced_or_compiled() as events:
        held = model.fit_path(x, penalty=4, rule="and", criterion="cv", folds=3, progress=False)
        stable = model.fit_path(x, penalty=6, rule="or", criterion="stability", subsamples=4, wrong=3, progress=False)
    assert programs(events) == 0
    assert held.table.loc[held.table["chosen"], "held_out"].tolist() == held.table.groupby("block", sort=False)["held_out"].min().tolist()
    assert set(stable.chosen_couplings) >= {"x[0] - x[1]", "x[1] - x[2]", "x[2] - x[3]"}
    assert list(stable.table.columns) == ["penalty", "couplings"]


def test_what_a_rule_cannot_join() -> None:
    model = gm.parse(SPINS).model()
    lacking = chain()
    lacking[0, 0] = 9
    refused("E507", lambda: model.fit_path(lacking, missing=9, rule="and"), "gaps")


@pytest.mark.slow  # rows with gaps have programs of their own
def test_rules_leave_out_the_cells_that_lack() -> None:
    model, lacking = gm.parse(SPINS).model(), chain()
    lacking[0, 0] = 9
    ignored = model.fit_path(lacking, missing=9, rule="and", gaps="ignore", penalty=[0.1])
    assert np.isfinite(ignored.table["loss"]).all()


@pytest.mark.slow  # two programs
def test_a_simplex_and_a_gauge_are_fitted_block_by_block() -> None:
    """A row of a simplex has one unconstrained entry less; what a gauge ties has one owner. The priors of the others' entries stay out."""
    text = PLAIN.replace("param h[i in range(3), a in abc] ~ normal(0, 2)", "param h[i in range(3), a in abc] : simplex ~ dirichlet(2)")
    text = text.replace("factor h[i, x[i]]", "gauge zero_sum(J)\n  factor log(h[i, x[i]])").replace("param c", "param c ~ normal(1, 1)")
    model, data = gm.parse(text).model(), rows()
    found, alone = (
        model.fit_path(data, mask, penalty=[0.08, 0.02], rule=rule, criterion="cv", folds=2).table
        for mask, rule in (("each", "and"), ("second", None))
    )
    for column in ("couplings", "loss", "held_out"):
        np.testing.assert_allclose(found.loc[found["block"] == "x[1]", column], alone[column], rtol=1e-6)


@pytest.mark.slow  # a layout, not an answer
def test_nodes_of_a_network_share_two_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """For two of them see a coupling; each has its field and its couplings, and nothing else."""
    kept: list[Any] = []
    nodes = 6

    def spied(*arguments: Any) -> Any:
        kept.append(copies_of_blocks(*arguments))
        return kept[-1]

    monkeypatch.setattr(_path_runs, "copies_of_blocks", spied)
    x = np.where(np.random.default_rng(0).random((60, nodes)) < 0.5, -1, 1)
    gm.parse(SPINS.replace("4", str(nodes))).model().fit_path(x, penalty=[0.5], rule="and", criterion="cv", folds=2)
    owner = kept[0].owner
    assert owner.shape == (2, 6 + 15)
    np.testing.assert_array_equal(np.bincount(owner.ravel())[:nodes], nodes)
    pairs = [(i, j) for i in range(nodes) for j in range(i + 1, nodes)]
    np.testing.assert_array_equal(np.sort(owner[:, nodes:].T), pairs)


@pytest.mark.slow
def test_a_row_of_a_simplex_of_which_blocks_see_parts_is_whole_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entries sum to 1: they are one block's, whichever of them it sees."""
    kept: list[Any] = []

    def spied(*arguments: Any) -> Any:
        kept.append(copies_of_blocks(*arguments))
        return kept[-1]

    monkeypatch.setattr(_path_runs, "copies_of_blocks", spied)
    text = SPINS.replace("param h[i in range(4)]", "param h[i in range(4)] : simplex")
    x = np.where(np.random.default_rng(0).random((60, 4)) < 0.5, -1, 1)
    gm.parse(text).model().fit_path(x, penalty=[0.5], rule="and", criterion="cv", folds=2)
    row = kept[0].owner[:, :4]
    np.testing.assert_array_equal(row, np.repeat(row[:, :1], 4, axis=1))
    assert set(row[:, 0]) >= {0, 1, 2, 3}
