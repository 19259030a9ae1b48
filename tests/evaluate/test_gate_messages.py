"""Messages along the partial sums of gates, and modes of models that are made of gates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks import modes

import gmlmdsl as gm
from gmlmdsl.evaluate._clamped_tables import clamped_tables
from gmlmdsl.evaluate._message_passing import Flooding, each_slot, log_sum, maximum, passed
from gmlmdsl.plan import with_partial_sums

pytestmark = [pytest.mark.usefixtures("float64")]

NOISY = """
input q[n] : real
input k : int
model alarm {
  var x[i in range(n)] : bit ~ bernoulli(0.1)
  var y[j in range(k)] : bit
  y[j] ~ bernoulli(1 - 0.9 * prod(1 - q[i] * x[i] for i in range(n) if i % 2 == j % 2)) for j in range(k)
  require count(x[i] == 1 for i in range(n)) <= 4
}
"""


def alarm(k: int) -> Any:
    return gm.parse(NOISY, q=np.linspace(0.1, 0.8, 30), k=k).model()


def test_one_iteration_passes_a_whole_gate():
    """One gate of 30 causes and a count without a cycle between them: exact after a few iterations, and not one for each cause."""
    model = gm.parse(NOISY.replace("  require count(x[i] == 1 for i in range(n)) <= 4\n", ""), q=np.linspace(0.1, 0.8, 30), k=1).model()
    graph = with_partial_sums(model.graph)
    held, codes = np.zeros(graph.n_cells, bool), np.zeros(graph.n_cells, int)
    held[30], codes[30] = True, 1
    tables = clamped_tables(graph, {}, held, codes)
    inner = tables.free >= model.graph.n_cells
    assert inner.sum() > 10
    swept = passed(Flooding(tables, log_sum, inner), 100, 1e-12, 0.0)
    flooded = passed(Flooding(tables, log_sum), 100, 1e-12, 0.0)
    assert swept.converged
    assert swept.iterations <= 4
    assert flooded.iterations > 12
    for a, b in zip(swept.to_cells, flooded.to_cells, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)


def test_marginals_of_overlapping_gates_are_those_of_flooding():
    """With cycles the fixed point of the sweeps is one of flooding, to the tolerance."""
    model = alarm(2)
    graph = with_partial_sums(model.graph)
    held, codes = np.zeros(graph.n_cells, bool), np.zeros(graph.n_cells, int)
    held[30:32], codes[30:32] = True, 1
    tables = clamped_tables(graph, {}, held, codes)
    found = passed(Flooding(tables, log_sum, tables.free >= model.graph.n_cells), 500, 1e-12, 0.0)
    assert found.converged
    flooding = Flooding(tables, log_sum)
    again = flooding.to_cells(flooding.to_factors(found.to_cells)[0])
    for a, b in zip(found.to_cells, again, strict=True):
        np.testing.assert_allclose(np.exp(a), np.exp(b), rtol=0, atol=1e-10)


@pytest.mark.parametrize("combine", [log_sum, maximum])
def test_messages_that_count_again_and_again_do_not_end_in_a_contradiction(combine: Any):
    """Messages of overlapping gates grow at each iteration; they once became -infinity, "no configuration agrees"."""
    task = modes.deconvolution(2, 9, 2, 3)
    model = deconvolved(task | {name: 1e285 * task[name] for name in ("us", "uw")})  # so that they overflow soon
    graph = with_partial_sums(model.graph, maximised=True)
    held, codes = np.zeros(graph.n_cells, bool), np.zeros(graph.n_cells, int)
    x = model.graph.variable("x")
    held[x.offset : x.offset + x.size], codes[x.offset : x.offset + x.size] = True, task["seen"].ravel()
    tables = clamped_tables(graph, {}, held, codes)
    found = passed(Flooding(tables, combine, tables.free >= model.graph.n_cells), 200, 1e-12, 0.2)
    assert all(np.isfinite(m.max(axis=0)).all() for m in found.to_cells)


def deconvolved(task: dict[str, np.ndarray]) -> Any:
    images, features = task["us"].shape[:2]
    sizes = {"images": images, "features": features, "size": task["seen"].shape[1], "patch": task["uw"].shape[1]}
    return gm.parse(modes.DECONVOLUTION, **sizes, us=task["us"], uw=task["uw"]).model()


@pytest.mark.slow
def test_modes_of_binary_images_are_possible_and_mostly_the_best():
    """Beside the exact mode, by elimination, of ten images of 5 by 5 under one feature of 2 by 2 (Gumbel odds of seeds 0 to 9)."""
    best = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        w, s = rng.random((1, 2, 2)) < 0.6, rng.random((1, 1, 4, 4)) < 0.2
        seen = np.zeros((1, 5, 5), bool)
        for _, f, r, c in zip(*np.nonzero(s), strict=True):
            seen[0, r : r + 2, c : c + 2] |= w[f]
        task = {"us": rng.gumbel(size=s.shape) - 2.0, "uw": rng.gumbel(size=w.shape) - 1.0, "seen": seen}
        model, known = deconvolved(task), {"x": seen.astype(int)}
        exact, found = model.map({}, clamp=known), model.map({}, clamp=known, method="max-product", seed=seed)
        assert modes.score(task, found.configuration) == pytest.approx(found.log_potential, abs=1e-9)
        assert found.log_potential <= exact.log_potential + 1e-9
        best += found.log_potential > exact.log_potential - 1e-9
    assert best >= 8


@pytest.mark.parametrize("combine", [log_sum, maximum])
@pytest.mark.parametrize("sizes", [(3,), (2, 3), (2, 3, 4), (2, 2, 3, 2, 4)])
def test_messages_to_each_slot_combine_all_others(sizes: tuple[int, ...], combine: Any):
    """Halves of the slots are combined together; each message here by the sum over all joint values."""
    rng = np.random.default_rng(0)
    values, into = rng.normal(size=(*sizes, 5)), [rng.normal(size=(q, 5)) for q in sizes]
    for slot, found in enumerate(each_slot(values, into, combine)):
        total = values.copy()
        for k, message in enumerate(into):
            if k != slot:
                total += message.reshape([-1 if j == k else 1 for j in range(len(sizes))] + [5])
        wanted = combine(np.moveaxis(total, slot, -2))
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("cells", [2, 50])  # fewer and more cells than factors at each
def test_messages_to_factors_leave_out_their_own(cells: int):
    """Each of 12 factors at a cell receives the sum of the other eleven's messages and the cell's own factor."""
    text = "input n : int  model m { var x[i in range(n)] : bit  param h, J  factor h * x[i] for i in range(n)"
    text += "".join(f"  var y{k}[i in range(n)] : bit  factor J * x[i] * y{k}[i] for i in range(n)" for k in range(12)) + " }"
    model = gm.parse(text, n=cells).model()
    none = np.zeros(model.graph.n_cells, int)
    tables = clamped_tables(model.graph, {"h": np.array(0.3), "J": np.array(0.5)}, none > 0, none)
    rng = np.random.default_rng(1)
    flooding = Flooding(tables, log_sum)
    to_cells = [rng.normal(size=m.shape) for m in flooding.uniform()]
    to_factors, beliefs = flooding.to_factors(to_cells)
    edges = slice(12 * cells, 24 * cells)  # those of x come after the cells of one factor
    into = to_cells[0][:, edges].reshape(2, 12, cells)
    total = np.array([[0.0], [0.3]]) + into.sum(axis=1)
    np.testing.assert_allclose(beliefs[0][:, :cells], total, rtol=1e-12)
    own = total[:, None] - into
    np.testing.assert_allclose(to_factors[0][:, edges], (own - own.max(axis=0)).reshape(2, -1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("penalty", [1.0, 1e9, np.inf])
@pytest.mark.parametrize("place", ["a message", "a cell's own factor"])
def test_sums_over_the_other_factors_are_subtracted_without_loss(penalty: float, place: str):
    """With cycles, small sums are split by subtraction: they agree with sums of the other terms, and large terms do no harm."""
    program = gm.parse("""
        model m {
          var x[i in range(6)] : range(3)
          param h[i in range(6), a in range(3)]
          factor h[i, x[i]] for i in range(6)
          factor if x[i] == x[j] then 0.4 else 0.1 * x[i] for i in range(6), j in range(6) if i < j
        }""")
    graph, rng = program.model().graph, np.random.default_rng(2)
    h, none = rng.normal(size=(6, 3)), np.zeros(6, int)
    h[0, 1] -= penalty if place != "a message" and np.isfinite(penalty) else 0.0
    flooding = Flooding(clamped_tables(graph, {"h": h}, none > 0, none), log_sum)
    to_cells = [-np.abs(rng.normal(size=m.shape)) for m in flooding.uniform()]
    if place == "a message":
        to_cells[0][1, 6] = -penalty  # the second edge of the first cell
    found, beliefs = flooding.to_factors(to_cells)
    terms = to_cells[0].reshape(3, 5, 6)  # the first edge of each cell, then the second edge of each, and so on
    others = np.stack([np.delete(terms, k, axis=1).sum(axis=1) for k in range(5)], axis=1) + h.T[:, None]
    wanted = (others - others.max(axis=0)).reshape(3, -1)
    possible = np.isfinite(wanted)
    np.testing.assert_allclose(found[0][possible], np.maximum(wanted[possible], flooding._floor), rtol=1e-15, atol=1e-12)
    assert (found[0][~possible] == -np.inf).all()
    np.testing.assert_allclose(beliefs[0], h.T + terms.sum(axis=1), rtol=1e-13)


def test_impossible_values_on_a_chain_stay_impossible():
    """Without damping, a message of -inf is not multiplied by 0."""
    text = "model m { var x[i in range(6)] : range(3)  param h  factor h * x[i] for i in range(6)  require x[0] < 1  "
    model = gm.parse(text + "require x[i + 1] >= x[i] and x[i + 1] <= x[i] + 1 for i in range(5) }").model()
    found = model.marginals({"h": np.array(0.3)}, method="belief-propagation")
    exact = model.marginals({"h": np.array(0.3)})
    np.testing.assert_allclose(found["x"], exact["x"], rtol=0, atol=1e-12)
