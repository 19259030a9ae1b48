"""Strips: rows of a grid drawn at once by elimination, beside the oracle's transition matrix, in p, at every beta, given clamped cells."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from cases import BY_NAME, Case, case
from chi_square import p_value
from one_step import LEAST_P, RING, follows_its_row, keeps_p, numbered
from thinned import thinned

from gmlmdsl import derive
from gmlmdsl.derive._elimination_kernels import EliminationKernel, ListedEliminationKernel
from gmlmdsl.plan import _plan, _updates
from gmlmdsl.sample import _run_chains

pytestmark = pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")
CHAINS = 40_000

GRID = """
input q : int = 3
graph G = grid(3, 2, wrap = false)
model potts {
  var x[i in G.nodes] : range(q)
  param h[i in G.nodes, a in range(q)]
  param J[(i, j) in G.edges, a in range(q), b in range(q)]
  factor h[i, x[i]] for i in G.nodes
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
mask strips = blocks(G.columns)
mask some = mixture { 0.6 : strips  0.4 : subsets(x, size = 1) }
mask whole = everything(x)
sampler rows { update x[r] for r in G.rows }
sampler columns { update x[r] for r in G.columns }
sampler drawn { update x[K] where K ~ strips }
sampler mixed { update x[K] where K ~ some }
sampler all { update x[K] where K ~ whole }
"""
HARD = """
graph G = grid(2, 3)
model hard {
  var x[i in G.nodes] : bit
  var k : range(3)
  param h
  param c[a in range(3)]
  factor h * x[i] * (1 + 0.2 * i) for i in G.nodes
  factor c[k] * x[0]
  require x[i] + x[j] < 2 for (i, j) in G.edges
  require k > 0 or x[5] == 0
}
mask strips = blocks(G.rows)
sampler rows { update x[r] for r in G.rows  update k }
sampler drawn { update x[K] where K ~ strips }
"""
LADDER = """
graph G = grid(2, 2)
model ladder {
  var x[i in G.nodes] : spin
  param h[i in G.nodes]
  param J[(i, j) in G.edges]
  factor h[i] * x[i] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
  require x[0] == 1 or x[3] == 1
}
sampler hot { temper(betas = [0, 0.4, 1]) { update x[r] for r in G.rows } }
"""
POTTS, HARD_CASE, LADDER_CASE = case("potts", GRID), case("hard", HARD), case("ladder", LADDER, seed=2)
STRIPS = [(POTTS, "columns"), (BY_NAME["lattice"], "strips"), (HARD_CASE, "rows"), (RING, "whole")]


@pytest.fixture(autouse=True)
def every_block_is_eliminated(monkeypatch: pytest.MonkeyPatch) -> None:
    """As blocks of more values are: these are small, so that they can be enumerated by the oracle."""
    monkeypatch.setattr(_plan, "FEW_VALUES", 1.0)
    monkeypatch.setattr(_updates, "FEW_VALUES", 1.0)
    monkeypatch.setattr(_plan, "TABLE_COST", 0.0)


def kernels_of(of: Case, sampler: str) -> list[Any]:
    kernel = derive.build_kernel(of.model.lowered, of.model.sampler(sampler)[1]).kernel
    return list(getattr(kernel, "parts", [kernel]))


@pytest.mark.slow
@pytest.mark.parametrize(("of", "sampler"), thinned(STRIPS, 4, 2), ids=str)
def test_one_step_follows_its_row_and_keeps_p(of: Case, sampler: str):
    assert isinstance(kernels_of(of, sampler)[0], EliminationKernel)
    assert keeps_p(of, sampler, CHAINS) > LEAST_P
    assert follows_its_row(of, sampler, CHAINS) > LEAST_P


LISTED = [(POTTS, "drawn"), (POTTS, "mixed"), (POTTS, "all"), (HARD_CASE, "drawn")]


@pytest.mark.slow  # dear to compile; swept strips follow their row above
@pytest.mark.parametrize(("of", "sampler"), thinned(LISTED, 4), ids=str)
def test_a_block_drawn_from_a_list_follows_its_row_and_keeps_p(of: Case, sampler: str):
    assert isinstance(kernels_of(of, sampler)[0], ListedEliminationKernel)
    assert keeps_p(of, sampler, CHAINS) > LEAST_P
    assert follows_its_row(of, sampler, CHAINS) > LEAST_P


def test_all_strips_of_a_colour_are_one_elimination():
    (kernel,) = kernels_of(POTTS, "rows")
    assert [c.n_components for c in kernel.colours] == [2, 1]  # rows 0 and 2, then row 1
    lines = derive.build_kernel(POTTS.model.lowered, POTTS.model.sampler("rows")[1]).lines
    assert "3 blocks in 2 colours, those of a colour at once; chain: 2 cells" in lines[0]


@pytest.mark.slow  # test_one_step.py has a ladder
def test_replicas_of_a_ladder_keep_their_laws():
    """p to the power beta, a `require` unscaled: beta 0 is uniform on what is possible."""
    kernel = derive.build_kernel(LADDER_CASE.model.lowered, LADDER_CASE.model.sampler("hot")[1]).kernel
    assert isinstance(kernel.part, EliminationKernel)
    assert keeps_p(LADDER_CASE, "hot", CHAINS) > LEAST_P


def reached(of: Case, sampler: str, codes: np.ndarray, held: np.ndarray | None = None) -> np.ndarray:
    """One step from codes (cells, chains), some cells held."""
    kernel = derive.build_kernel(of.model.lowered, of.model.sampler(sampler)[1]).kernel
    clamped = None if held is None else jnp.asarray(np.append(held, False))
    target = derive.Target(derive.graph_arrays(of.model.graph), of.model._params(of.params, of.model.lowered), clamped)
    return _run_chains.KernelRun(kernel, target, codes, seed=3, draws=1).run().last


@pytest.mark.slow  # strips keep p above; planted bugs' checks clamp cells of other kernels
@pytest.mark.parametrize(("of", "sampler"), thinned([(POTTS, "columns"), (HARD_CASE, "rows")], 2, 1), ids=str)
def test_clamped_cells_stay_and_the_others_keep_p_given_them(of: Case, sampler: str):
    p = of.oracle.probabilities(of.params)
    agree = (of.oracle.states[:, [0, 3]] == of.rows[0][[0, 3]]).all(axis=1)
    law = np.where(agree, p, 0.0) / p[agree].sum()
    held = np.isin(np.arange(of.oracle.n_cells), [0, 3])
    start = of.oracle.states[np.random.default_rng(1).choice(len(law), CHAINS, p=law)].T
    found = reached(of, sampler, start, held)
    assert (found[held] == start[held]).all()
    assert (found != start).any()
    assert p_value(np.bincount(numbered(of, found), minlength=len(p)), law) > LEAST_P
    # From one place: the free cells of the strips, redrawn given the held ones, colour after colour.
    fixed = np.repeat(start[:, :1], CHAINS, axis=1)
    moved = reached(of, sampler, fixed, held)
    assert (moved[held] == fixed[held]).all()
    assert len(np.unique(numbered(of, moved))) > 2


@pytest.mark.slow
def test_a_strip_whose_rest_is_impossible_stays():
    """No value of the first row goes with k = 2: it stays, and the other row is drawn from its law given the first."""
    of = case("stuck", HARD.replace("require k > 0", "require k < 2 or x[0] > 1\n  require k > 0"))
    start = np.repeat(np.array([0, 1, 0, 0, 1, 1, 2])[:, None], CHAINS, axis=1)
    found = reached(of, "rows", start)
    assert (found[:3] == start[:3]).all()
    p = np.where((of.oracle.states[:, :3] == [0, 1, 0]).all(axis=1), of.oracle.probabilities(of.params), 0.0)
    counts = np.bincount(numbered(of, found), minlength=len(p))
    assert counts[p == 0].sum() == 0  # `update k` has mended it
    # The second row given the first, at k = 2: nothing but what touches the row counts, and x[5] is free there.
    second = np.zeros(8)
    for k, row in enumerate(np.ndindex(2, 2, 2)):
        pairs = row[0] + row[1] < 2 and row[1] + row[2] < 2 and row[1] + 1 < 2
        second[k] = pairs * np.exp(of.params["h"] * sum(v * (1 + 0.2 * (3 + i)) for i, v in enumerate(row)))
    assert p_value(np.bincount(np.ravel_multi_index(tuple(found[3:6]), (2, 2, 2)), minlength=8), second / second.sum()) > LEAST_P


@pytest.mark.slow  # dear to compile; impossible blocks stay in test_kernels.py
def test_a_strip_that_clamped_cells_make_impossible_stays():
    of = HARD_CASE
    start = np.repeat(np.array([1, 0, 0, 1, 0, 1, 1])[:, None], 500, axis=1)
    held = np.isin(np.arange(7), [0, 3])  # neighbours, both 1
    found = reached(of, "rows", start, held)
    assert (found[:6] == start[:6]).all()
    assert (found[6] != start[6]).any()


@pytest.mark.parametrize(("of", "sampler"), thinned([(HARD_CASE, "rows"), (BY_NAME["lattice"], "strips")], 2, 1), ids=str)
def test_the_transition_matrix_is_that_of_the_oracle(of: Case, sampler: str):
    np.testing.assert_allclose(of.model.transition_matrix(of.params, sampler), of.oracle.transition_matrix(of.params, sampler), atol=1e-12)
