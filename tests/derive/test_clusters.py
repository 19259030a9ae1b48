"""Clusters of `percolation`: the matrix of a step against enumeration of bonds, gaps, one step in float32, clamped cells, refusals."""

from __future__ import annotations

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from cases import Case, case
from cluster_cases import CLOCK, CLUSTERS, ISING, POTTS, UNITS, Bond, by_bonds, components, edges_of, transitions_p
from one_step import LEAST_P, keeps_p
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import derive
from gmlmdsl.derive._clusters import BondTables, ClusterKernel, labels

BOND_TABLES = ClusterKernel.bond_tables
IDS = [c.name for c, _, _ in CLUSTERS]


@pytest.mark.check
@pytest.mark.parametrize(
    ("case", "groups", "bonds"), [CLUSTERS[0], *(pytest.param(*c, marks=pytest.mark.slow) for c in CLUSTERS[1:])], ids=IDS
)
def test_a_step_is_that_of_all_bonds_and_keeps_p(case: Case, groups: list[np.ndarray], bonds: list[Bond]):
    found = case.model.transition_matrix(case.params, "clusters")
    p = case.oracle.probabilities(case.params)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(p @ found, p, rtol=0, atol=1e-12)
    flow = p[:, None] * found
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found, by_bonds(case, groups, bonds), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("field", "clusters", "sites"), [(0.0, 0.38959, 0.00340), (0.1, 0.31110, 0.00380)])
def test_gaps_of_a_cold_lattice(field: float, clusters: float, sites: float):
    """Grid of 2 by 3 cells, not wrapped, J = 0.9: clusters forget a hundred times as fast as single cells drawn at random."""
    params = {"h": np.full(6, field), "J": np.full(7, 0.9)}
    assert float(gm.theory.spectral_gap(ISING.model, params, sampler="clusters")) == pytest.approx(clusters, abs=5e-5)
    assert float(gm.theory.spectral_gap(ISING.model, params, sampler="sites")) == pytest.approx(sites, abs=5e-5)


@pytest.mark.check
@pytest.mark.parametrize("case", thinned([ISING, POTTS], 2), ids=str)  # the planted bugs' check has Potts
def test_a_compiled_step_goes_where_the_matrix_says(case: Case):
    assert transitions_p(case, "clusters", 60_000) > LEAST_P


@pytest.mark.slow
@pytest.mark.parametrize(("case", "sampler"), [(UNITS, "clusters"), (CLOCK, "clusters"), (ISING, "either")], ids=str)
def test_more_compiled_steps_go_where_the_matrix_says(case: Case, sampler: str):
    assert transitions_p(case, sampler, 200_000) > LEAST_P


def _without_seed(self: Any, here: Any, inside: Any, image: Any) -> Any:
    first = inside & (jnp.cumsum(inside, axis=0) == 1)
    return jnp.where(inside & ~first, jnp.take_along_axis(image, here, axis=0), here)


def _other_sign(self: ClusterKernel, target: Any) -> BondTables:
    params = {k: -v if k == "J" else v for k, v in target.params.items()}
    return BOND_TABLES(self, target._replace(params=params))


def _no_fields(self: ClusterKernel, target: Any, bonds: Any, codes: Any, inside: Any, image: Any) -> Any:
    return jnp.zeros(codes.shape[1], np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "bug"),
    [("moved", _without_seed), ("bond_tables", _other_sign), ("score_image", _no_fields)],
    ids=lambda v: getattr(v, "__name__", v),
)
@pytest.mark.parametrize("case", [ISING, POTTS], ids=str)
def test_planted_bugs_are_caught(monkeypatch: pytest.MonkeyPatch, case: Case, name: str, bug: Any):
    """A cluster that keeps a cell, bonds of the wrong sign, fields left out."""
    monkeypatch.setattr(ClusterKernel, name, bug)
    assert transitions_p(case, "clusters", 60_000) < LEAST_P


@pytest.mark.slow
@pytest.mark.parametrize(("case", "sampler"), [(ISING, "hot"), (POTTS, "clusters"), (UNITS, "clusters")], ids=str)
def test_one_step_from_p_stays_in_p(case: Case, sampler: str):
    assert keeps_p(case, sampler, 200_000) > LEAST_P


@pytest.mark.filterwarnings("ignore")  # its chains stand still
def test_a_cluster_with_a_clamped_cell_stays():
    """At strong couplings every cluster is the whole lattice: with one cell clamped nothing moves."""
    strong = {"h": np.zeros(6), "J": np.full(7, 20.0)}
    start = np.ones((4, 6), int)
    found = ISING.model.sample(strong, sampler="clusters", chains=4, draws=20, warmup=0, seed=0, init=start, clamp={"x": {0: 1}})
    assert (np.asarray(found.posterior["x"]) == 1).all()


def test_labels_are_those_of_connected_components():
    rng = np.random.default_rng(0)
    for n, m in ((1, 0), (30, 25)):  # each shape is compiled
        edges = rng.integers(0, n, (m, 2))
        stands = rng.random((m, 6)) < 0.5
        found = np.asarray(labels(derive.on_device(edges.T, np.int32), derive.on_device(stands), n))
        for c in range(6):
            np.testing.assert_array_equal(found[:, c], components(n, edges[stands[:, c]]))


def test_a_long_cluster_is_found_whole():
    """A chain of cells, the worst order for labels: its ends are one cluster."""
    n = 2000
    order = np.random.default_rng(1).permutation(n)
    edges = np.stack([order[:-1], order[1:]])
    assert (np.asarray(labels(derive.on_device(edges, np.int32), jnp.ones((n - 1, 1), bool), n)) == 0).all()


ASYMMETRIC = """
graph G = chain(3)
model m {
  var x[i in G.nodes] : range(3)
  factor 0.5 * x[i] ^ 2 * x[j] ^ 2 for (i, j) in G.edges
}
sampler clusters { update x[K] where K ~ percolation(G.edges) }
"""


def test_factors_without_a_symmetry_are_refused_with_the_reason():
    with pytest.raises(gm.GmlmError, match="no exchange of values keeps `0.5") as error:
        gm.parse(ASYMMETRIC).model().transition_matrix({}, "clusters")
    assert error.value.codes == ("E418",)
    assert "need no symmetry" in str(error.value)


def test_edges_without_factors_are_refused():
    text = ASYMMETRIC.replace("0.5 * x[i] ^ 2 * x[j] ^ 2 for (i, j) in G.edges", "0.5 * x[i] for i in G.nodes")
    with pytest.raises(gm.GmlmError, match="depend on one another") as error:
        gm.parse(text).model().transition_matrix({}, "clusters")
    assert error.value.codes == ("E418",)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("require x[0] != x[1] or x[1] != x[2]", "a `require` of more than two cells, which makes no bond"),
        ("require x[i] >= x[j] for (i, j) in G.edges", "no exchange of values keeps `x[i] >= x[j]`"),
        ("factor log(abs(x[i] - x[j])) for (i, j) in G.edges", "a factor that is -inf for some values"),
        ("factor 0.5 * x[0] * x[1] * x[2]", "a factor of more than two cells"),
        ("factor 0.5 * (x[i] + x[j]) for (i, j) in G.edges", "no factor makes the two cells"),
    ],
)
def test_what_joins_cells_without_a_bond_is_named(statement: str, words: str):
    text = ASYMMETRIC.replace("factor 0.5 * x[i] ^ 2 * x[j] ^ 2 for (i, j) in G.edges", statement)
    with pytest.raises(gm.GmlmError, match="E418") as error:
        gm.parse(text).model().transition_matrix({}, "clusters")
    assert words in str(error.value)


def test_cells_with_other_values_are_refused():
    text = """
model m { var x[i in range(2)] : spin  var y : bit  factor x[0] * x[1]  factor x[1] * y }
sampler clusters { update K where K ~ percolation({x[0], x[1]}, {x[1], y}) }
"""
    with pytest.raises(gm.GmlmError, match="have different values") as error:
        gm.parse(text).model().transition_matrix({}, "clusters")
    assert error.value.codes == ("E418",)


@pytest.mark.produces("E707")
@pytest.mark.parametrize("asks", ["fit", "loss", "poincare", "conditional"])
def test_a_mask_by_name_is_refused_where_a_loss_is_wanted(asks: str):
    model, x = ISING.model, np.ones((4, 6), int)
    calls = {
        "fit": lambda: model.fit(x, mask="wolff"),
        "loss": lambda: model.loss(ISING.params, x, mask="wolff"),
        "poincare": lambda: gm.theory.poincare_constant(model, ISING.params, mask="wolff"),
        "conditional": lambda: model.log_conditional(ISING.params, x, K=[0], mask="wolff"),
    }
    with pytest.raises(gm.GmlmError, match="draws clusters") as error:
        calls[asks]()
    assert error.value.codes == ("E707",)


def test_too_many_clusters_for_a_matrix_are_refused():
    wide = case("wide", ISING.text.replace("grid(2, 3)", "grid(4, 5)"))
    with pytest.raises(gm.GmlmError) as error:
        wide.model.transition_matrix(wide.oracle.random_params(1), "clusters")
    assert error.value.codes == ("E601",)


def test_edges_are_each_once_whatever_their_order():
    text = ISING.text.replace("percolation(G.edges)", "percolation({x[j], x[i]} for (i, j) in G.arcs)")
    other = case("arcs", text)
    np.testing.assert_allclose(
        other.model.transition_matrix(ISING.params, "clusters"), ISING.model.transition_matrix(ISING.params, "clusters"), rtol=0, atol=1e-14
    )
    assert len(edges_of(other)) == 7


KEMPE = """
input pairs[e, 2] : int = [[0, 1], [1, 2], [2, 3], [3, 0], [3, 4]]
graph G = edges(pairs, nodes = 5)
model m {
  var x[i in G.nodes] : range(3)
  param h[i in G.nodes, a in range(3)]
  param J
  REQUIRED
  factor h[i, x[i]] for i in G.nodes
  BESIDE
}
sampler kempe { update K where K ~ percolation(G.edges) }
sampler both  { update K where K ~ percolation(G.edges)  update x[i] for i in G.nodes }
"""


REQUIRED = ["require x[i] != x[j] for (i, j) in G.edges", "require x[i] != x[j] for (i, j) in G.edges if j < 4"]
BESIDE = ["", "factor J * (x[i] == x[j]) for (i, j) in G.edges", "factor J * (x[0] == x[2]) + 0.3 * (x[1] == x[4])"]


@pytest.mark.parametrize(("beside", "required"), thinned([(b, r) for r in REQUIRED for b in BESIDE], 8))
def test_chains_of_two_colours_keep_p(required: str, beside: str):
    text = KEMPE.replace("REQUIRED", required).replace("BESIDE", beside)
    if not beside:
        text = text.replace("  param J\n", "")
    model, rng = gm.parse(text).model(), np.random.default_rng(3)
    params = {"h": rng.normal(size=(5, 3)), **({"J": np.array(0.7)} if beside else {})}
    states = np.array(list(itertools.product(range(3), repeat=5)))
    pairs = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)]
    bound = pairs if "if" not in required else pairs[:-1]
    log_p = params["h"][np.arange(5), states].sum(axis=1)
    if "for" in beside:
        log_p += 0.7 * sum(states[:, i] == states[:, j] for i, j in pairs)
    elif beside:
        log_p += 0.7 * (states[:, 0] == states[:, 2]) + 0.3 * (states[:, 1] == states[:, 4])
    law = np.exp(log_p) * np.prod([states[:, i] != states[:, j] for i, j in bound], axis=0)
    law /= law.sum()
    for sampler in ("kempe", "both"):
        matrix = model.transition_matrix(params, sampler)
        np.testing.assert_allclose(law @ matrix, law, atol=1e-12)
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    kept = law > 0
    steps = np.linalg.matrix_power(model.transition_matrix(params, "kempe")[np.ix_(kept, kept)], 20)
    assert (steps > 0).all()  # chains of two colours reach every colouring of this graph


def test_a_compiled_chain_of_two_colours_goes_where_the_matrix_says():
    text = KEMPE.replace("REQUIRED", "require x[i] != x[j] for (i, j) in G.edges").replace("  BESIDE\n", "").replace("  param J\n", "")
    kempe = case("kempe", text)
    assert transitions_p(kempe, "kempe", 20_000) > LEAST_P
