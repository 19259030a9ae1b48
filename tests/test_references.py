"""The references for exact inference, each against enumeration of tiny cases, closed forms and one another."""

from __future__ import annotations

import ast
import itertools
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from references import forward_backward, transfer_matrix
from references.kaufman import CRITICAL, torus

Array = np.ndarray


def test_references_import_nothing_of_the_package() -> None:
    for path in (Path(__file__).parent / "references").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {n.split(".")[0] for n in names} <= {"__future__", "numpy", "dataclasses", "collections"}, path.name


# A hidden Markov model


@pytest.fixture(scope="module")
def hmm() -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    first, move, emit = (rng.dirichlet(np.ones(k), size=n) for n, k in ((1, 3), (3, 3), (3, 4)))
    move[0, 2], emit[1, 3] = 0.0, 0.0
    return first[0], move / move.sum(axis=1, keepdims=True), emit / emit.sum(axis=1, keepdims=True)


def joint(hmm: tuple[Array, Array, Array], time: int) -> tuple[Array, Array, Array]:
    """All paths and all strings, and p(path, string)."""
    first, move, emit = hmm
    paths = np.array(list(itertools.product(range(len(first)), repeat=time)))
    strings = np.array(list(itertools.product(range(emit.shape[1]), repeat=time)))
    p = first[paths[:, 0]] * np.prod([move[paths[:, t], paths[:, t + 1]] for t in range(time - 1)], axis=0)
    return paths, strings, p[:, None] * np.prod([emit[paths[:, None, t], strings[None, :, t]] for t in range(time)], axis=0)


def agreeing(strings: Array, x: Array) -> Array:
    """Which strings have the observed symbols of x."""
    return ((x < 0) | (strings == x)).all(axis=1)


ROWS = np.array([[0, 1, 2, 3], [3, 3, 0, 2], [1, -1, 2, -1], [-1, -1, -1, -1], [2, 2, -1, 0]])


def test_likelihoods_and_posteriors_are_those_of_enumeration(hmm: tuple[Array, Array, Array]) -> None:
    paths, strings, p = joint(hmm, 4)
    found = forward_backward.smooth(*hmm, ROWS)
    symbols = forward_backward.symbol_marginals(*hmm, ROWS)
    np.testing.assert_allclose(forward_backward.log_likelihood(*hmm, ROWS), found.log_likelihood, rtol=1e-13)
    for r, x in enumerate(ROWS):
        some = agreeing(strings, x)
        by_path, by_string = p[:, some].sum(axis=1), p[:, some].sum(axis=0)
        total = by_path.sum()
        np.testing.assert_allclose(found.log_likelihood[r], np.log(total), rtol=1e-12, atol=1e-12)
        for t in range(4):
            np.testing.assert_allclose(found.posterior[r, t], np.bincount(paths[:, t], by_path, 3) / total, atol=1e-14)
            np.testing.assert_allclose(symbols[r, t], np.bincount(strings[some, t], by_string, 4) / total, atol=1e-14)
        pairs = sum(np.bincount(3 * paths[:, t] + paths[:, t + 1], by_path, 9) for t in range(3)).reshape(3, 3) / total
        np.testing.assert_allclose(found.pairs[r], pairs, atol=1e-14)


def test_the_next_symbol_is_that_of_enumeration(hmm: tuple[Array, Array, Array]) -> None:
    _, strings, p = joint(hmm, 4)
    found = forward_backward.next_symbol(*hmm, ROWS)
    for r, x in enumerate(ROWS):
        for t in range(4):
            before = np.where(np.arange(4) < t, x, -1)
            some = agreeing(strings, before)
            weights = p[:, some].sum(axis=0)
            np.testing.assert_allclose(found[r, t], np.bincount(strings[some, t], weights, 4) / weights.sum(), atol=1e-14)


def test_viterbi_finds_the_best_path(hmm: tuple[Array, Array, Array]) -> None:
    paths, strings, p = joint(hmm, 4)
    full = ROWS[[0, 1]]
    found, log_p = forward_backward.viterbi(*hmm, full)
    for r, x in enumerate(full):
        column = p[:, agreeing(strings, x)][:, 0]
        np.testing.assert_allclose(log_p[r], np.log(column.max()), rtol=1e-12)
        assert (found[r] == paths[column.argmax()]).all()


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_losses_of_spans_are_those_of_enumeration(hmm: tuple[Array, Array, Array], width: int) -> None:
    _, strings, p = joint(hmm, 4)
    full = np.array([[0, 1, 2, 2], [2, 0, 0, 3]])
    found = forward_backward.span_losses(*hmm, full, width)
    assert found.shape == (2, 5 - width)
    for r, x in enumerate(full):
        for s in range(5 - width):
            hidden = np.where((np.arange(4) >= s) & (np.arange(4) < s + width), -1, x)
            expected = np.log(p[:, agreeing(strings, hidden)].sum()) - np.log(p[:, agreeing(strings, x)].sum())
            np.testing.assert_allclose(found[r, s], expected, rtol=1e-11)
    assert forward_backward.span_loss(*hmm, full, width) == pytest.approx(found.mean())


def test_a_string_of_probability_zero() -> None:
    first, move, emit = np.array([1.0, 0.0]), np.eye(2), np.eye(2)
    found = forward_backward.smooth(first, move, emit, np.array([[0, 0, 1], [0, 0, 0]]))
    assert found.log_likelihood.tolist() == [-np.inf, 0.0]
    assert forward_backward.log_likelihood(first, move, emit, np.array([[1, 0]])).tolist() == [-np.inf]


def test_long_strings_neither_underflow_nor_take_long() -> None:
    """A thousand symbols of 64 states; log p of a model whose states do not matter is a sum of logs."""
    rng = np.random.default_rng(1)
    first, move = rng.dirichlet(np.ones(64)), rng.dirichlet(np.ones(64), size=64)
    emit = np.repeat(rng.dirichlet(np.ones(28))[None], 64, axis=0)
    x = rng.integers(0, 28, (1, 1000))
    started = time.process_time()
    found = forward_backward.smooth(first, move, emit, x)
    assert time.process_time() - started < 5
    np.testing.assert_allclose(found.log_likelihood, np.log(emit[0, x[0]]).sum(), rtol=1e-12)
    np.testing.assert_allclose(found.posterior.sum(axis=2), 1, rtol=1e-12)
    np.testing.assert_allclose(found.pairs.sum(), 999, rtol=1e-12)


# Grids


def enumerate_log_partition(log_p: Callable[[Array], Array], n: int, m: int, q: int) -> float:
    states = np.stack(np.unravel_index(np.arange(q ** (n * m)), (q,) * (n * m)), axis=1).reshape(-1, n, m)
    values = log_p(states)
    return float(np.log(np.exp(values - values.max()).sum()) + values.max())


def edges(n: int, m: int, wrap: bool) -> list[tuple[str, int, int, int, int]]:
    """Written out edge by edge: which array, the cell that indexes it, and its neighbour."""
    across = [("right", i, j, i, (j + 1) % m) for i in range(n) for j in range(m if wrap else m - 1)]
    return across + [("down", i, j, (i + 1) % n, j) for i in range(n if wrap else n - 1) for j in range(m)]


GRIDS = [(n, m, wrap) for n, m in ((3, 4), (4, 3), (2, 3), (3, 2), (2, 2), (1, 4), (4, 1), (1, 1)) for wrap in (True, False)]


@pytest.mark.parametrize(("n", "m", "wrap"), GRIDS)
def test_ising_grids_are_those_of_enumeration(n: int, m: int, wrap: bool) -> None:
    rng = np.random.default_rng(n + 10 * m)
    right, down, fields = rng.normal(size=(3, n, m))
    tables = {"right": right, "down": down}

    def log_p(codes: Array) -> Array:
        x = 2 * codes - 1
        pairs = sum((tables[k][i, j] * x[:, i, j] * x[:, a, b] for k, i, j, a, b in edges(n, m, wrap)), np.zeros(len(x)))
        return pairs + (fields * x).sum(axis=(1, 2))

    expected = enumerate_log_partition(log_p, n, m, 2)
    np.testing.assert_allclose(transfer_matrix.ising_log_partition(right, down, fields, wrap), expected, rtol=1e-12)


@pytest.mark.parametrize(("n", "m", "q", "wrap"), [(2, 3, 3, True), (3, 2, 3, False), (3, 3, 3, True), (2, 2, 5, True), (1, 4, 4, True)])
def test_potts_grids_are_those_of_enumeration(n: int, m: int, q: int, wrap: bool) -> None:
    rng = np.random.default_rng(q)
    right, down = rng.normal(size=(2, n, m))
    fields, tables = rng.normal(size=(n, m, q)), {"right": right, "down": down}

    def log_p(x: Array) -> Array:
        pairs = sum((tables[k][i, j] * (x[:, i, j] == x[:, a, b]) for k, i, j, a, b in edges(n, m, wrap)), np.zeros(len(x)))
        return pairs + sum(fields[i, j, x[:, i, j]] for i in range(n) for j in range(m))

    expected = enumerate_log_partition(log_p, n, m, q)
    np.testing.assert_allclose(transfer_matrix.potts_log_partition(right, down, fields, wrap), expected, rtol=1e-12)


def test_tables_that_are_not_symmetric_keep_their_direction() -> None:
    rng = np.random.default_rng(7)
    n, m, q = 2, 3, 2
    right, down, fields = rng.normal(size=(n, m, q, q)), rng.normal(size=(n, m, q, q)), rng.normal(size=(n, m, q))
    tables = {"right": right, "down": down}

    def log_p(x: Array) -> Array:
        pairs = sum(tables[k][i, j, x[:, i, j], x[:, a, b]] for k, i, j, a, b in edges(n, m, True))
        return pairs + sum(fields[i, j, x[:, i, j]] for i in range(n) for j in range(m))

    found = transfer_matrix.grid_log_partition(right, down, fields, True)
    np.testing.assert_allclose(found, enumerate_log_partition(log_p, n, m, q), rtol=1e-12)


def test_strong_couplings_and_batches_of_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    n, m = 5, 6
    same = np.full((n, m), 500.0)
    found = transfer_matrix.ising_log_partition(same, same, np.zeros((n, m)))
    np.testing.assert_allclose(found, 500.0 * 2 * n * m + np.log(2), rtol=1e-14)
    rng = np.random.default_rng(0)
    right, down, fields = rng.normal(size=(3, 3, 4))
    whole = transfer_matrix.ising_log_partition(right, down, fields)
    monkeypatch.setattr(transfer_matrix, "FIRST_ROWS_AT_ONCE", 48)
    np.testing.assert_allclose(transfer_matrix.ising_log_partition(right, down, fields), whole, rtol=1e-14)


# The torus without field


def by_transfer_matrix(n: int, m: int, coupling: float) -> float:
    same = np.full((n, m), coupling)
    return transfer_matrix.ising_log_partition(same, same, np.zeros((n, m)))


SIZES = [(3, 4), (4, 3), (4, 4), (3, 3), (2, 5), (5, 2), (6, 8), (8, 6)]


@pytest.mark.parametrize("coupling", [0.05, 0.3, 0.44, CRITICAL, CRITICAL + 1e-9, 0.5, 1.0])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_kaufman_is_the_transfer_matrix_on_both_sides_of_the_critical_point(n: int, m: int, coupling: float) -> None:
    np.testing.assert_allclose(torus(n, m, coupling).log_partition, by_transfer_matrix(n, m, coupling), rtol=1e-12)


@pytest.mark.parametrize("coupling", [0.1, 0.42, CRITICAL, 0.46, 0.9])
@pytest.mark.parametrize(("n", "m"), [(3, 4), (4, 4), (4, 2), (2, 3)])
def test_its_derivatives_are_the_mean_and_variance_of_enumeration(n: int, m: int, coupling: float) -> None:
    states = 2 * np.stack(np.unravel_index(np.arange(2 ** (n * m)), (2,) * (n * m)), axis=1).reshape(-1, n, m) - 1
    bonds = (states * np.roll(states, -1, 1) + states * np.roll(states, -1, 2)).sum(axis=(1, 2))
    w = np.exp(coupling * (bonds - bonds.max()))
    mean = (w * bonds).sum() / w.sum()
    found = torus(n, m, coupling)
    np.testing.assert_allclose(found.energy, -mean / (n * m), rtol=1e-11)
    np.testing.assert_allclose(found.heat, (w * (bonds - mean) ** 2).sum() / w.sum() / (n * m), rtol=1e-9)


@pytest.mark.parametrize("coupling", [0.2, 0.435, CRITICAL - 1e-3, CRITICAL, CRITICAL + 1e-3, 0.6, 2.0])
def test_large_tori_do_not_depend_on_which_way_they_lie(coupling: float) -> None:
    """Nothing of the formula is symmetric in n and m; and its derivatives are those of its values."""
    a, b = torus(64, 40, coupling), torus(40, 64, coupling)
    np.testing.assert_allclose(a.log_partition, b.log_partition, rtol=1e-13)
    np.testing.assert_allclose(a.energy, b.energy, rtol=1e-12)
    np.testing.assert_allclose(a.heat, b.heat, rtol=1e-9, atol=1e-11)  # a difference of terms of size 1e4
    step = 1e-4
    above, below = (torus(64, 64, coupling + d) for d in (step, -step))
    here = torus(64, 64, coupling)
    np.testing.assert_allclose(here.energy, -(above.log_partition - below.log_partition) / (2 * step * 64**2), rtol=3e-5)
    np.testing.assert_allclose(here.heat, -(above.energy - below.energy) / (2 * step), rtol=1e-3, atol=1e-9)


def test_known_values() -> None:
    """Ferdinand and Fisher: at the critical point of the infinite lattice the energy is -sqrt 2; it nears that as 1/n."""
    gaps = [torus(n, n, CRITICAL).energy + np.sqrt(2) for n in (16, 32, 64)]
    np.testing.assert_allclose([g * n for g, n in zip(gaps, (16, 32, 64), strict=True)], [-0.6217, -0.6221, -0.6222], atol=2e-3)
    free = torus(400, 400, 0.3).log_partition / 400**2
    k = 2 * np.sinh(0.6) / np.cosh(0.6) ** 2
    theta = (np.arange(20000) + 0.5) * np.pi / 20000
    onsager = np.log(2 * np.cosh(0.6)) + np.log((1 + np.sqrt(1 - (k * np.sin(theta)) ** 2)) / 2).mean() / 2
    np.testing.assert_allclose(free, onsager, rtol=1e-12)


def test_what_it_does_not_take() -> None:
    with pytest.raises(ValueError, match="positive coupling"):
        torus(4, 4, -0.1)
    with pytest.raises(ValueError, match="positive coupling"):
        torus(0, 4, 0.1)
