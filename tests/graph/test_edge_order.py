"""Arrays over the edges of `edges(pairs)`: in the order of `G.edges`, by name in any order, and as inputs in the order of `pairs`."""

from __future__ import annotations

import itertools
import warnings

import jax
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("standard_promotion")
PAIRS = np.array([[2, 0], [1, 3], [1, 0], [3, 2]])
J = np.array([0.5, -1.0, 0.25, 2.0])  # in the order of PAIRS
SORTED = J[[2, 0, 1, 3]]
TEXT = """
input pairs[e, 2] : int
index site = range(4)
graph G = edges(pairs, nodes = site)
model m {
  var   x[i in site] : spin
  param J[(i, j) in G.edges]
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
ROWS = np.array(list(itertools.product((-1, 1), repeat=4)))
ENERGY = (J * ROWS[:, PAIRS[:, 0]] * ROWS[:, PAIRS[:, 1]]).sum(axis=1)
NAMES = ["a", "b", "c", "d"]


def potential(program: gm.Program, params: dict[str, object]) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(program.model().log_potential(params, ROWS))


@pytest.mark.produces("W825")
def test_an_input_in_another_order_than_its_edges_is_announced_with_both() -> None:
    with pytest.warns(gm.GmlmWarning) as caught:
        program = gm.parse(TEXT, pairs=PAIRS)
    assert "(0, 1), (0, 2), (1, 3), ..; the rows of `pairs` are (2, 0), (1, 3), (1, 0), .." in str(caught[0].message)
    assert [w.code for w in program.warnings] == [w.code for w in program.model().warnings] == ["W825"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm.parse(TEXT, pairs=program.graph("G").edges)  # the sorted order
        gm.parse(TEXT, pairs=PAIRS[[2, 0, 1, 3]])  # sorted, named from other ends, which one number an edge does not show
        gm.parse(TEXT.replace("nodes = site)", "nodes = site)  # gmlm: allow W825"), pairs=PAIRS)
        gm.parse(TEXT.replace("[(i, j) in G.edges]\n", "\n").replace("J[i, j]", "J"), pairs=PAIRS)  # no array over the edges


def test_data_over_edges_are_announced_too() -> None:
    text = "input pairs[e, 2] : int graph G = edges(pairs, nodes = range(4)) model m {{ {} y[(i, j) in G.edges] : bit var x : bit }}"
    for role in ("var", "given", "latent"):
        (found,) = gm.parse(text.format(role), pairs=PAIRS).warnings[-1:]
        assert found.code == "W825"
        assert found.message.startswith("`y` has one entry an edge in the order of `G.edges`, (0, 1)")


def test_parameters_without_names_have_the_order_of_the_graph() -> None:
    program = gm.parse(TEXT, pairs=PAIRS)
    np.testing.assert_allclose(potential(program, {"J": SORTED}), ENERGY, atol=1e-12)
    fit = program.model().fit(ROWS, "one", init={"J": SORTED}, fixed={"J": SORTED})
    np.testing.assert_allclose(fit.params["J"], SORTED)  # as it was given, and taken back
    np.testing.assert_allclose(potential(program, fit.params), ENERGY, atol=1e-5)


NAMED = {
    "dict": dict(zip(map(tuple, PAIRS.tolist()), J, strict=True)),
    "dict of labels": {f"{NAMES[i]}, {NAMES[j]}": v for (i, j), v in zip(PAIRS.tolist(), J, strict=True)},
    "series of pairs": pd.Series(J, index=pd.MultiIndex.from_arrays(PAIRS.T)),
    "series of labels": pd.Series(J, index=pd.MultiIndex.from_tuples([(NAMES[i], NAMES[j]) for i, j in PAIRS.tolist()])),
    "series of texts": pd.Series(J, index=[f"{NAMES[j]}, {NAMES[i]}" for i, j in PAIRS.tolist()]),
    "xarray": xr.DataArray(J, dims=["G.edges"], coords={"G.edges": [f"{NAMES[i]}, {NAMES[j]}" for i, j in PAIRS.tolist()]}),
}


@pytest.mark.parametrize("kind", NAMED)
def test_names_are_matched_in_any_order(kind: str) -> None:
    program = gm.parse(TEXT, pairs=PAIRS, coords={"site": NAMES})
    np.testing.assert_allclose(potential(program, {"J": NAMED[kind]}), ENERGY, atol=1e-12)
    by_input = gm.parse(TEXT.replace("  param J[(i, j) in G.edges]\n", "").replace("model m", "input J[G.edges] : real\nmodel m"),
                        pairs=PAIRS, J=NAMED[kind], coords={"site": NAMES})  # fmt: skip
    np.testing.assert_allclose(potential(by_input, {}), ENERGY, atol=1e-12)


def test_starts_and_fixed_values_are_matched_too() -> None:
    model = gm.parse(TEXT, pairs=PAIRS).model()
    np.testing.assert_allclose(model.fit(ROWS, "one", fixed={"J": NAMED["dict"]}).params["J"], SORTED)
    np.testing.assert_allclose(model.fit(ROWS, "one", init={"J": NAMED["series of pairs"]}).params["J"], np.zeros(4), atol=1e-2)


def test_a_posterior_mean_goes_back_by_its_coordinates() -> None:
    program = gm.parse(TEXT, pairs=PAIRS)
    labels = list(program.model().graph.parameters[0].coords[0])
    mean = xr.DataArray(SORTED[::-1], dims=["G.edges"], coords={"G.edges": labels[::-1]})
    np.testing.assert_allclose(potential(program, {"J": mean}), ENERGY, atol=1e-12)


def test_gradients_pass_through_names() -> None:
    model = gm.parse(TEXT, pairs=PAIRS).model()
    found = jax.grad(lambda j: model.log_potential({"J": {tuple(p): j[k] for k, p in enumerate(PAIRS.tolist())}}, ROWS[3]))(
        jax.numpy.ones(4)
    )
    np.testing.assert_allclose(found, ROWS[3][PAIRS[:, 0]] * ROWS[3][PAIRS[:, 1]])


@pytest.mark.parametrize(
    ("named", "code", "words"),
    [
        ({(0, 3): 1.0}, "E414", "(0, 3) is not a member of `G.edges`"),
        ({(0, 1): 1.0, (1, 0): 2.0}, "E507", "names (0, 1) twice"),
        ({(0, 1): 1.0, (2, 0): 2.0}, "E507", "lacks `(1, 3)`, `(2, 3)`"),
    ],
)
def test_names_that_do_not_fit_are_refused(named: dict[object, float], code: str, words: str) -> None:
    program = gm.parse(TEXT, pairs=PAIRS)
    with pytest.raises(gm.GmlmError, match=code) as caught:
        potential(program, {"J": named})
    assert words in str(caught.value)


DIRECTED = """
input pairs[e, 2] : int
graph G = edges(pairs, nodes = range(4))
{}
model m {{
  var x[i in range(4)] : range(3)
  {}
  factor K[i, j, x[i], x[j]] for (i, j) in G.edges
  factor K[j, i, 0, 2] * x[0] for (i, j) in G.edges
}}
"""


def test_tables_of_an_edge_follow_the_end_that_is_named_first() -> None:
    table = np.random.default_rng(0).normal(0, 1, (4, 3, 3))  # of the first node of each pair, then of the second
    rows = np.array(list(itertools.product(range(3), repeat=4)))
    values = sum(table[e, rows[:, i], rows[:, j]] for e, (i, j) in enumerate(PAIRS.tolist()))
    values = values + rows[:, 0] * sum(table[e, 0, 2] if i > j else table[e, 2, 0] for e, (i, j) in enumerate(PAIRS.tolist()))
    sorted_ = np.stack([table[2].T, table[0].T, table[1], table[3].T])
    axes = "K[(i, j) in G.edges, a in d, b in d]"
    own = gm.parse(DIRECTED.format("domain d = range(3)", f"param {axes}"), pairs=PAIRS)
    given = DIRECTED.format("domain d = range(3)\ninput K[G.edges, d, d] : real", "")
    named = dict(zip(map(tuple, PAIRS.tolist()), table, strict=True))
    with jax.enable_x64(True):
        for found in (
            own.model().log_potential({"K": sorted_}, rows),
            own.model().log_potential({"K": named}, rows),
            gm.parse(given, pairs=PAIRS, K=table).model().log_potential({}, rows),
            gm.parse(given, pairs=PAIRS, K=named).model().log_potential({}, rows),
        ):
            np.testing.assert_allclose(found, values, atol=1e-12)


def test_an_input_over_edges_has_the_order_of_the_pairs_in_every_place() -> None:
    text = """
    input pairs[e, 2] : int
    index site = range(4)
    graph G = edges(pairs, nodes = site)
    input w[G.edges] : real
    model m {
      var x[i in site] : spin
      param b ~ normal(w[3, 1], exp(w[0, 2]))
      let s[i in site] = sum(w[j, k] for (j, k) in G.edges if j == i)
      factor w[i, j] * x[i] * x[j] for (i, j) in G.edges
      factor s[i] * x[i] for i in site
    }
    mask some { choose {x[i], x[j]} for (i, j) in G.edges weight abs(w[i, j]) }
    """
    model = gm.parse(text, pairs=PAIRS, w=J).model()
    of = {tuple(sorted(p)): v for p, v in zip(PAIRS.tolist(), J, strict=True)}
    field = np.array([sum(v for (j, _), v in of.items() if j == i) for i in range(4)])
    with jax.enable_x64(True):
        np.testing.assert_allclose(model.log_potential({"b": 0.0}, ROWS), ENERGY + ROWS @ field, atol=1e-12)
    prior = model.graph.parameters[0].prior
    assert prior is not None
    assert (float(prior.arguments["mean"]), float(prior.arguments["sd"])) == pytest.approx((-1.0, np.exp(0.5)))
    _, mask = model.mask("some")
    weights = {tuple(b): p for b, p in zip(mask.blocks.tolist(), mask.probabilities, strict=True)}
    assert weights == pytest.approx({k: abs(v) / np.abs(J).sum() for k, v in of.items()})


def test_an_input_over_edges_that_are_chosen_by_cells() -> None:
    text = """
    input pairs[e, 2] : int
    graph G = edges(pairs, nodes = range(3))
    input w[G.edges] : real
    model m { var x : range(2)  factor w[x, 2] }
    """
    model = gm.parse(text, pairs=[[2, 1], [0, 2]], w=[0.3, 0.8]).model()
    np.testing.assert_allclose(model.log_potential({}, np.array([0, 1])), [0.8, 0.3], rtol=1e-6)


def test_a_pair_that_is_no_edge_is_named() -> None:
    text = "graph G = chain(4) input w[G.edges] : real = 0.5 model m { var x[i in G.nodes] : bit  factor w[i, 3] * x[i] for i in range(3) }"
    with pytest.raises(gm.GmlmError, match="E414"):
        gm.parse(text).model()
