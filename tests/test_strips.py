"""Strips: rows of a grid drawn at once by elimination, beside the oracle's transition matrix, in p, at every beta, given clamped cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from cases import BY_NAME, Case, case
from chi_square import p_value
from one_step import LEAST_P, RING, follows_its_row, keeps_p, numbered

from gmlmdsl import derive
from gmlmdsl.derive import EliminationKernel
from gmlmdsl.plan import _plan
from gmlmdsl.run import _sample

pytestmark = pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")
CHAINS = 40_000

GRID = """
input q : int = 3
graph G = grid(3, 2, wrap = false)
model strips {
  var x[i in G.nodes] : range(q)
  param h[i in G.nodes, a in range(q)]
  param J[(i, j) in G.edges, a in range(q), b in range(q)]
  factor h[i, x[i]] for i in G.nodes
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
sampler rows { update x[r] for r in G.rows }
sampler columns { update x[r] for r in G.columns }
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
sampler rows { update x[r] for r in G.rows  update k }
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
STRIPS = [(POTTS, "columns"), (BY_NAME["lattice"], "strips"), (BY_NAME["lattice"], "columns"), (HARD_CASE, "rows"), (RING, "whole")]


@pytest.fixture(autouse=True)
def every_block_is_eliminated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As blocks of more values are: these are small, so that they can be enumerated by the oracle."""
    monkeypatch.setattr(_plan, "FEW_VALUES", 1.0)
    monkeypatch.setattr(_plan, "TABLE_COST", 0.0)
    yield


def kernels_of(of: Case, sampler: str) -> list[Any]:
    kernel = derive.build_kernel(of.model.lowered, of.model.sampler(sampler)[1]).kernel
    return list(getattr(kernel, "parts", [kernel]))


@pytest.mark.parametrize(("of", "sampler"), STRIPS, ids=str)
def test_one_step_follows_its_row_and_keeps_p(of: Case, sampler: str):
    assert isinstance(kernels_of(of, sampler)[0], EliminationKernel)
    assert keeps_p(of, sampler, CHAINS) > LEAST_P
    assert follows_its_row(of, sampler, CHAINS) > LEAST_P


def test_all_strips_of_a_colour_are_one_elimination():
    (kernel,) = kernels_of(POTTS, "rows")
    assert [c.n_components for c in kernel.colours] == [2, 1]  # rows 0 and 2, then row 1
    lines = derive.build_kernel(POTTS.model.lowered, POTTS.model.sampler("rows")[1]).lines
    assert "3 blocks in 2 colours, those of a colour at once; chain: 2 cells" in lines[0]


def test_replicas_of_a_ladder_keep_their_laws():
    """p to the power beta, a `require` unscaled: beta 0 is uniform on what is possible."""
    kernel = derive.build_kernel(LADDER_CASE.model.lowered, LADDER_CASE.model.sampler("hot")[1]).kernel
    assert isinstance(kernel.part, EliminationKernel)
    assert keeps_p(LADDER_CASE, "hot", CHAINS) > LEAST_P


def reached(of: Case, sampler: str, codes: np.ndarray, held: np.ndarray | None = None) -> np.ndarray:
    """One step from codes (cells, chains), some cells held."""
    kernel = derive.build_kernel(of.model.lowered, of.model.sampler(sampler)[1]).kernel
    clamped = None if held is None else jnp.asarray(np.append(held, False))
    target = derive.Target(derive.graph_arrays(of.model.graph), of.model._params(of.params), clamped)
    options: dict[str, Any] = {"observe": None, "keep": True, "progress": False}
    return _sample.sample(kernel, target, codes, seed=3, draws=1, warmup=0, thin=1, **options).last


@pytest.mark.parametrize(("of", "sampler"), [(POTTS, "columns"), (HARD_CASE, "rows")], ids=str)
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


def test_a_strip_whose_rest_is_impossible_stays():
    """From every impossible configuration too: a strip that no value of its cells makes possible stays, as in the oracle's matrix."""
    of = HARD_CASE
    matrix = of.oracle.transition_matrix(of.params, "rows")
    stays = np.array([1, 0, 0, 1, 1, 0, 1])  # the second row breaks a requirement, the first one cannot mend it; then it is redrawn
    stuck = np.array([0, 1, 0, 0, 1, 1, 0])
    for start in (stays, stuck):
        found = reached(of, "rows", np.repeat(start[:, None], CHAINS, axis=1))
        row = matrix[int(np.ravel_multi_index(tuple(start), of.oracle.domain_sizes))]
        assert p_value(np.bincount(numbered(of, found), minlength=len(row)), row) > LEAST_P


@pytest.mark.parametrize(("of", "sampler"), [(HARD_CASE, "rows"), (BY_NAME["lattice"], "strips")], ids=str)
def test_the_transition_matrix_is_that_of_the_oracle(of: Case, sampler: str):
    np.testing.assert_allclose(of.model.transition_matrix(of.params, sampler), of.oracle.transition_matrix(of.params, sampler), atol=1e-12)
