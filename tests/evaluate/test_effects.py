"""Effects of substitutions: beside the oracle's log p of every mutant, whatever the domains, factors, latents and missing cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import CASES, Case
from oracle import Oracle
from refusals import refused
from thinned import thinned

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("float64")

HIDDEN = """
domain abc = letters("abc")
model m {
  var x[i in range(3)] : abc
  var y : bit
  latent z : range(3)
  param u[i in range(3), a in abc]
  param t[a in abc, b in abc, c in range(3)]
  factor u[i, x[i]] for i in range(3)
  factor t[x[i], x[(i + 1) % 3], z] for i in range(3)
  factor 0.7 * y * (x[0] == "b") * z
  require not (x[2] == "c" and y == 1)
}
"""
CHOSEN = [c for c in CASES if c.name in ("weather", "log_zero", "computed", "arcs", "branches", "tied", "triples")]


def mutants(codes: np.ndarray, cells: list[int], sizes: np.ndarray) -> Any:
    """Every configuration that differs in these cells at most, by the values they hold."""
    for values in np.ndindex(*sizes[cells]):
        row = codes.copy()
        row[cells] = values
        yield values, row


def compared(found: Any, oracle: Oracle, log_p: Any, codes: np.ndarray) -> None:
    """Singles and doubles beside log p of the mutants."""
    sizes = np.asarray(oracle.domain_sizes)
    base = log_p(codes)
    for k, i in enumerate(found.cells.tolist()):
        for (a,), row in mutants(codes, [i], sizes):
            np.testing.assert_allclose(found.singles[k, a], log_p(row) - base, atol=1e-10)
        assert np.isnan(found.singles[k, sizes[i] :]).all()
    for k, (i, j) in enumerate(found.pairs.tolist()):
        for (a, b), row in mutants(codes, [i, j], sizes):
            np.testing.assert_allclose(found.doubles[k, a, b], log_p(row) - base, atol=1e-10)


@pytest.mark.parametrize("case", thinned(CHOSEN, 8, 6), ids=str)
def test_effects_are_the_changes_of_log_p(case: Case) -> None:
    codes = case.oracle.states[int(np.argmax(case.oracle.probabilities(case.params)))]
    x = {k: v[0] for k, v in case.oracle.decode(codes[None]).items()}
    n = len(codes)
    found = case.model.effects(
        case.params,
        {k: v.astype(int) for k, v in x.items()} if len(x) > 1 else next(iter(x.values())).astype(int),
        doubles=[(0, n - 1), (n - 1, n // 2)] if n > 2 else [(0, 1)],
    )
    compared(found, case.oracle, lambda row: case.oracle.log_potential(case.params, row[None])[0], codes)
    assert len(found.pairs)


@pytest.mark.parametrize("lacks", thinned([None, 1], 2))
def test_latents_and_missing_cells_are_summed_out(lacks: int | None) -> None:
    program = gm.parse(HIDDEN)
    model, oracle = program.model(), Oracle(program.checked, None, {})
    params = oracle.random_params(4)
    free = [4] if lacks is None else [lacks, 4]  # positions that are summed out

    def log_p(row: np.ndarray) -> float:
        rows = np.array([r for _, r in mutants(row, free, np.asarray(oracle.domain_sizes))])
        values = oracle.log_potential(params, rows)
        top = values.max()
        return top + np.log(np.exp(values - top).sum()) if np.isfinite(top) else -np.inf

    codes = np.array([1, 0, 2, 0, 0])
    x = codes[:3].copy()
    if lacks is not None:
        x[lacks] = -1
    found = model.effects(params, {"x": x, "y": 0}, doubles=[("x[0]", "y"), (3, 2)], missing=-1)
    assert found.cells.tolist() == [i for i in range(4) if i != lacks]
    compared(found, oracle, log_p, codes)
    assert found.singles[-1, 1] == -np.inf  # y = 1 beside x[2] = c


def test_tables_name_cells_and_values_and_tell_epistasis() -> None:
    model = gm.parse(HIDDEN).model()
    params = model.init_params(1) | {"t": np.arange(27.0).reshape(3, 3, 3) % 5, "u": np.eye(3)}
    found = model.effects(params, {"x": "abb", "y": 1}, doubles=[("x[0]", "x[1]")])
    table = found.table
    assert list(table.columns) == ["cell", "wildtype", "mutant", "effect"]
    assert list(zip(table["cell"], table["wildtype"], table["mutant"], strict=True))[:3] == [
        ("x[0]", "a", "b"), ("x[0]", "a", "c"), ("x[1]", "b", "a")]  # fmt: skip
    assert len(table) == 7
    assert str(found).startswith("Changes of log p in nats: 7 substitutions of one value in 4 cells, 4 double ones; the lowest")
    double, single = found.double_table.set_index(["first_mutant", "second_mutant"]), table.set_index(["cell", "mutant"])["effect"]
    assert sorted(double.index) == [("b", "a"), ("b", "c"), ("c", "a"), ("c", "c")]
    expected = double.loc[("b", "c"), "effect"] - single["x[0]", "b"] - single["x[1]", "c"]
    np.testing.assert_allclose(double.loc[("b", "c"), "epistasis"], expected)
    assert model.effects(params, {"x": "abb", "y": 1}, doubles=found.double_table).pairs.tolist() == [[0, 1]] * 4


def test_what_is_no_wildtype_and_no_pair() -> None:
    model = gm.parse(HIDDEN).model()
    params, x = model.init_params(0), {"x": "abb", "y": 1}
    refused("E501", lambda: model.effects(params, {"x": ["abb"], "y": [0]}), "one configuration")
    refused("E501", lambda: model.effects(params, {"x": "ab", "y": 0}), "wildtype: x['x']: row 0 has 2 letters", "of all cells")
    plain = gm.parse('model m { var x[i in range(3)] : labels("n", "y")  factor if x[0] == "y" then 1 else 0 }').model()
    refused("E501", lambda: plain.effects({}, "nyn"), "wildtype: x must have shape", "`list(text)`")
    refused("E508", lambda: model.effects(params, {"x": "abc", "y": 1}), "-inf")
    refused("E506", lambda: model.effects(params, x, doubles=[("x[0]", "x[7]")]), "x[7]")
    refused("E506", lambda: model.effects(params, x, doubles=[("x[0]", "z")]), "no cell")
    refused("E507", lambda: model.effects(params, x, doubles=[(1, 1)]), "one cell twice")
    refused("E507", lambda: model.effects(params, x, doubles=["x[0]"]), "pairs of cells")
