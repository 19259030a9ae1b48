"""Causal networks and decoding cell by cell, beside enumeration of all rows and an independent beam search."""

import math
from collections.abc import Callable

import jax
import numpy as np
import pytest
from autoregressive_cases import PROGRAM, SOURCES, N, V, filled, log_p, mass, next_values, rows_that_end, searched, weights
from thinned import thinned

import gmlmdsl as gm


@pytest.fixture(scope="module")
def shared() -> gm.Model:
    """One model for all tests: what is compiled for one serves the next."""
    with jax.enable_x64(True):
        return gm.parse(PROGRAM).model()


@pytest.fixture
def model(shared: gm.Model, float64: None) -> gm.Model:
    return shared


def decoded(model: gm.Model, sampler: str, **options) -> tuple[np.ndarray, np.ndarray]:
    found = model.decode(weights(), sampler, given={"src": SOURCES}, missing=-1, **options)
    return found.tokens, found.score


@pytest.mark.usefixtures("float64")
def test_log_p_sums_to_one() -> None:
    assert mass() == pytest.approx([1, 1, 1], abs=1e-12)


def test_the_loss_of_teacher_forcing_is_minus_log_p(model: gm.Model) -> None:
    rows = np.array([[0, 1, 2, 2], [2, 1, -1, -1], [0, -1, -1, -1]])
    expected = [log_p(next_values()[r], tuple(int(v) for v in row if v >= 0)) for r, row in enumerate(rows)]
    found = model.log_prob(weights(), rows, missing=-1, given={"src": SOURCES})
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert model.loss(weights(), rows, given={"src": SOURCES}, missing=-1) == pytest.approx(-np.mean(expected), abs=1e-12)


def test_no_cell_sees_those_behind_it(model: gm.Model) -> None:
    """log p of the first cells does not depend on the others: the tables that searches use are those of the network."""
    for r, source in enumerate(SOURCES):
        for row in [(2, 0, 1), (1,), (0, 0)]:
            alone = model.log_prob(weights(), np.array([filled(row)]), missing=-1, given={"src": source[None]})
            assert float(alone[0]) == pytest.approx(log_p(next_values()[r], row), abs=1e-12)


@pytest.mark.parametrize(
    ("sampler", "end", "beam", "penalty"),
    thinned([("greedy", 1, 1, 1), ("whole", None, 1, 1), ("wide", None, 3, 1), ("beam", 1, 3, 1), ("short", 1, 3, 0)], 5, 4),
)
def test_search_is_that_of_plain_python(model: gm.Model, sampler: str, end: int | None, beam: int, penalty: float) -> None:
    tokens, score = decoded(model, sampler)
    for r in range(len(SOURCES)):
        expected = searched(next_values()[r], end, beam, penalty)
        assert [filled(row) for _, row in expected] == tokens[r, : len(expected)].tolist()
        mean = [p * len(row) ** (penalty - 1) for p, row in expected]  # rows are ordered by log p / n^a, and scored by log p / n
        np.testing.assert_allclose(score[r, : len(expected)], mean, atol=1e-12)


@pytest.mark.slow
def test_a_beam_that_holds_all_rows_finds_the_best(model: gm.Model) -> None:
    tokens, score = decoded(model, "every")
    for r in range(len(SOURCES)):
        scores = {row: log_p(next_values()[r], row) / len(row) for row in rows_that_end(1)}
        best = max(scores, key=lambda row: scores[row])
        assert tokens[r, 0].tolist() == filled(best)
        assert score[r, 0] == pytest.approx(scores[best], abs=1e-12)


def test_draws_are_those_of_p(model: gm.Model) -> None:
    draws = 4000
    found = model.sample(weights(), "drawn", given={"src": SOURCES[:1]}, missing=-1, draws=draws, seed=3, progress=False)
    rows = np.asarray(found["posterior"]["x"].values)[0, :, 0]
    expected = {row: math.exp(log_p(next_values()[0], row)) for row in rows_that_end(1)}
    assert sum(expected.values()) == pytest.approx(1)
    counts = {row: int((rows == np.array(filled(row))).all(axis=1).sum()) for row in expected}
    assert sum(counts.values()) == draws
    statistic = sum((counts[row] - draws * p) ** 2 / (draws * p) for row, p in expected.items())
    degrees = len(expected) - 1
    assert statistic < degrees + 4 * math.sqrt(2 * degrees)  # four standard deviations of chi-square


@pytest.mark.slow
def test_a_temperature_and_the_likeliest_values_only(model: gm.Model) -> None:
    found = model.sample(weights(), "sharp", given={"src": SOURCES[:1]}, missing=-1, draws=4000, seed=1, progress=False)
    first = np.bincount(np.asarray(found["posterior"]["x"].values)[0, :, 0, 0], minlength=V) / 4000
    p = np.exp(2 * next_values()[0][()])
    p[p.argmin()] = 0
    np.testing.assert_allclose(first, p / p.sum(), atol=4 * math.sqrt(0.25 / 4000))


@pytest.mark.parametrize("held", thinned([{0: 2}, {1: 0, 3: 2}, {3: 1}], 3, 1))
def test_held_cells_stand_and_cost_nothing(model: gm.Model, held: dict[int, int]) -> None:
    """The best row among those that hold the cells; no row ends before the last of them."""
    found = model.decode(weights(), "every", given={"src": SOURCES}, missing=-1, clamp={"x": held})
    for r in range(len(SOURCES)):
        scores = {}
        for row in rows_that_end(1):
            if len(row) > max(held) and all(row[i] == v for i, v in held.items()):
                free = [i for i in range(len(row)) if i not in held]
                scores[row] = sum(next_values()[r][row[:i]][row[i]] for i in free) / max(len(free), 1)
        best = max(scores, key=lambda row: scores[row])
        assert found.tokens[r, 0].tolist() == filled(best)
        assert found.score[r, 0] == pytest.approx(scores[best], abs=1e-12)


def test_a_known_length_is_kept(model: gm.Model) -> None:
    lengths = np.array([2, 4, 1])
    found = model.decode(weights(), "whole", given={"src": SOURCES}, missing=-1, lengths=lengths)
    assert found.length[:, 0].tolist() == lengths.tolist()
    assert found.passes[:, 0].tolist() == lengths.tolist()
    for r, n in enumerate(lengths):
        row: tuple[int, ...] = ()
        for _ in range(n):
            row = (*row, int(next_values()[r][row].argmax()))
        assert found.tokens[r, 0].tolist() == filled(row)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", thinned(["greedy", "beam", "drawn"], 3, 1))
def test_a_row_is_decoded_alike_alone_and_beside_others(model: gm.Model, sampler: str) -> None:
    together, _ = decoded(model, sampler, seed=2)
    alone = model.decode(weights(), sampler, given={"src": SOURCES[:1]}, missing=-1, seed=2)
    np.testing.assert_array_equal(together[0], alone.tokens[0])


def test_buckets_of_distances_are_those_of_t5() -> None:
    """The published rule for attention that looks back only (Raffel et al. 2020): 16 distances on their own, then 16 by their logarithm."""
    from gmlmdsl.networks._layers import relative_buckets

    distances = np.arange(-200, 4)
    found = np.asarray(relative_buckets(jax.numpy.asarray(distances, jax.numpy.int32), causal=True))
    for d, bucket in zip(distances.tolist(), found.tolist(), strict=True):
        n = max(-d, 0)
        expected = n if n < 16 else min(16 + int(math.log(n / 16) / math.log(128 / 16) * 16 + 1e-9), 31)
        assert bucket == expected, d


ASKED: dict[str, tuple[str, Callable[[gm.Model], object]]] = {
    "a table of p(x_i | x_rest)": ("E742", lambda m: m.log_conditional(weights(), np.zeros((1, N), int), 0, given={"src": SOURCES[0]})),
    "consistency of conditionals": (
        "E742",
        lambda m: gm.theory.consistency_gap(m, weights(), np.zeros((2, N), int), given={"src": SOURCES[0, :1].repeat(4)}),
    ),
    "a draft": ("E507", lambda m: decoded(m, "greedy", init=np.zeros((3, N), int))),
    "a trace": ("E507", lambda m: decoded(m, "greedy", trace=True)),
    "a hole": ("E511", lambda m: m.log_prob(weights(), np.array([[0, -1, 1, 1]]), missing=-1, given={"src": SOURCES[:1]})),
    "an update's matrix": ("E507", lambda m: m.transition_matrix(weights(), "greedy", given={"src": SOURCES[0]})),
}


@pytest.mark.parametrize("what", ASKED)
def test_what_a_causal_network_does_not_answer(model: gm.Model, what: str) -> None:
    code, ask = ASKED[what]
    with pytest.raises(gm.GmlmError) as caught:
        ask(model)
    assert caught.value.codes == (code,)


def test_an_end_is_a_value_of_the_cells() -> None:
    program = gm.parse(PROGRAM.replace("autoregressive(end = 1)", "autoregressive(end = 3)"))
    with pytest.raises(gm.GmlmError, match=r"`end` is a value of `x`, 0\.\.2"):
        program.model().decode(weights(), "greedy", given={"src": SOURCES}, missing=-1)


@pytest.mark.slow
def test_a_causal_network_learns(standard_promotion: None) -> None:
    """Rows that repeat the source: after a little training greedy search repeats sources that it has not seen."""
    text = PROGRAM.replace("range(3)", "range(6)").replace("width = 8", "width = 32").replace("layers = 2", "layers = 1")
    model = gm.parse(text).model()
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.integers(2, 6, (600, 3)), np.full((600, 1), 1)], axis=1)
    import optax

    training = gm.Training(steps=300, batch_size=64)
    fit = model.fit(rows[:500], given={"src": rows[:500]}, optimizer=optax.adam(3e-3), method=training, progress=False)
    found = model.decode(fit.params, "greedy", given={"src": rows[500:]}, missing=-1)
    assert (found.tokens[:, 0] == rows[500:]).all(axis=1).mean() > 0.9
