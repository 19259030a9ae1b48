"""Refinement with chance: the law of what is decoded, by enumeration of every pass, beside many decodes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import pytest
from chi_square import p_value
from networks_cases import draws, exact, made, normalised, numbers, pairs, stats
from oracle import _tabular as oracle
from scipy.special import log_softmax
from thinned import thinned

from gmlmdsl.derive._refinement import narrow

N, Q, SEED = 3, 3, 3
LEAST_P = 1e-4
MORE = """
mask one = subsets(x, size = 1)
mask ends = blocks({x[0], x[2]}, {x[1]})
mask whole = everything(x)
sampler once = refinement(steps = 1, decode = sample)
sampler first = refinement(steps = 1, decode = sample, start = uniform)
sampler fewer = refinement(steps = 2, schedule = linear, decode = sample, confidence = probability)
sampler margin = refinement(steps = 2, schedule = linear, remask = least_confident, confidence = margin, decode = sample)
sampler again = refinement(steps = 2, schedule = linear, decode = sample, remask = random, eta = 0.3, confidence = probability)
sampler sundae_two = sundae(steps = 2, lengths = 1, temperature = 0.5)
sampler fresh = refinement(steps = 2, schedule = linear, decode = sample, start = uniform, confidence = probability)
sampler stutter = refinement(steps = 2, decode = sample, start = uniform, remask = stutter)
sampler cells = refinement(steps = 3, schedule = one, decode = sample)
sampler blocked = refinement(steps = 2, schedule = ends, decode = sample)
sampler steps_of_ends { repeat 3 { update x[K] independently where K ~ ends } }
sampler ends_thrice = refinement(steps = 3, schedule = ends, decode = sample)
sampler narrowed = refinement(steps = 2, schedule = linear, decode = sample, temperature = 1.5, top_k = 2, confidence = probability)
sampler nucleus = refinement(steps = 1, decode = sample, temperature = 0.7, top_p = 0.8)
"""


@pytest.fixture(scope="module")
def model():
    return made(f'python("networks_cases:Tabular", seed = {SEED})', N, Q, MORE)


@pytest.fixture(scope="module")
def loose():
    return made(f'python("networks_cases:Pairs", seed = {SEED}, scale = 0.6)', N, Q, MORE)


Law = dict[tuple[int, ...], float]
WHOLE = range(N)
STATES = oracle.states(N, Q)
UNIFORM: Law = {x: 1 / Q**N for x in STATES}
HIDDEN: Law = {(Q,) * N: 1.0}


def predictor(which: str) -> oracle.Predictor:
    return exact(N, Q, SEED) if which == "model" else normalised(pairs(N, Q, SEED, 0.6))


def redrawn(table: np.ndarray, x: Sequence[int], cells) -> Law:
    """Every outcome of drawing some cells, each from its row of a table."""
    found: Law = {}
    for values in itertools.product(range(Q), repeat=len(cells)):
        y = list(x)
        for i, v in zip(cells, values, strict=True):
            y[i] = v
        p = float(np.prod([table[i, v] for i, v in zip(cells, values, strict=True)]))
        found[tuple(y)] = found.get(tuple(y), 0.0) + p
    return found


def pooled(parts: Sequence[tuple[float, Law]]) -> Law:
    total: Law = {}
    for w, part in parts:
        for y, p in part.items():
            total[y] = total.get(y, 0.0) + w * p
    return total


def shown(y: Sequence[int], cells: frozenset[int], uniform: bool) -> list[tuple[float, list[int]]]:
    """What is seen where some cells are open: nothing, or every uniform value."""
    if not uniform:
        return [(1.0, oracle.hide(y, cells, Q))]
    found = []
    for values in itertools.product(range(Q), repeat=len(cells)):
        x = list(y)
        for i, v in zip(sorted(cells), values, strict=True):
            x[i] = v
        found.append((Q ** -len(cells), x))
    return found


def confident(table: np.ndarray, y: Sequence[int], kind: str) -> list[float]:
    """Confidence of the value of each cell."""
    if kind == "margin":
        return [float(np.sort(row)[-1] - np.sort(row)[-2]) for row in table]
    return [float(table[i, v]) for i, v in enumerate(y)]


def two_passes(predict: oracle.Predictor, start: Law, opened, uniform: bool = False, every: bool = False, pick=lambda table: table) -> Law:
    """All cells from the start; then what `opened` opens (with its probability), or all of them, is predicted again."""
    total = []
    for x, p in start.items():
        table = predict(x)
        for y, w in redrawn(pick(table), x, WHOLE).items():
            for v, cells in opened(table, y):
                for u, seen in shown(y, cells, uniform):
                    total.append((p * w * v * u, redrawn(pick(predict(seen)), y, list(WHOLE) if every else sorted(cells))))
    return pooled(total)


def least(count: int, kind: str = "probability"):
    def opened(table: np.ndarray, y: Sequence[int]) -> list[tuple[float, frozenset[int]]]:
        sure = confident(table, y, kind)
        return [(1.0, frozenset(sorted(WHOLE, key=lambda i: sure[i])[:count]))]

    return opened


def remasked(eta: float):
    def opened(table: np.ndarray, y: Sequence[int]) -> list[tuple[float, frozenset[int]]]:
        ((_, first),) = least(1)(table, y)
        rest = [i for i in WHOLE if i not in first]
        return [
            (eta ** sum(on) * (1 - eta) ** (len(rest) - sum(on)), first | {i for i, b in zip(rest, on, strict=True) if b})
            for on in itertools.product((0, 1), repeat=len(rest))
        ]

    return opened


def repeated(table: np.ndarray, y: Sequence[int]) -> list[tuple[float, frozenset[int]]]:
    return [(1.0, frozenset(i for i in range(1, N) if y[i] == y[i - 1]))]


def nothing(table: np.ndarray, y: Sequence[int]) -> list[tuple[float, frozenset[int]]]:
    return [(1.0, frozenset())]


def tempered(table: np.ndarray, temperature: float, top_k: int | None = None, top_p: float | None = None) -> np.ndarray:
    """Probabilities of which only the likeliest are left, by sorting."""
    found = np.zeros_like(table)
    for i, row in enumerate(table):
        p = row ** (1 / temperature) / (row ** (1 / temperature)).sum()
        order, keep = np.argsort(-p), []
        for v in order:
            if (top_k is not None and len(keep) == top_k) or (top_p is not None and p[keep].sum() >= top_p):
                break
            keep.append(v)
        found[i, keep] = p[keep] / p[keep].sum()
    return found


def wanted(name: str, predict: oracle.Predictor) -> Law:
    """The law of each sampler from its own start."""
    hidden = predict((Q,) * N)
    laws = {
        "once": lambda: redrawn(hidden, (0,) * N, WHOLE),
        "first": lambda: pooled([(p, redrawn(predict(x), x, WHOLE)) for x, p in UNIFORM.items()]),
        "fewer": lambda: two_passes(predict, HIDDEN, least(1)),
        "margin": lambda: two_passes(predict, HIDDEN, least(1, "margin")),
        "again": lambda: two_passes(predict, HIDDEN, remasked(0.3)),
        "sundae_two": lambda: two_passes(predict, UNIFORM, nothing, every=True, pick=lambda t: tempered(t, 0.5)),
        "fresh": lambda: two_passes(predict, UNIFORM, least(1), uniform=True),
        "stutter": lambda: two_passes(predict, UNIFORM, repeated, uniform=True, every=True),
        "narrowed": lambda: two_passes(predict, HIDDEN, least(1), pick=lambda t: tempered(t, 1.5, top_k=2)),
        "nucleus": lambda: redrawn(tempered(hidden, 0.7, top_p=0.8), (0,) * N, WHOLE),
        "blocked": lambda: blocked(predict),
    }
    return laws[name]()


def blocked(predict: oracle.Predictor) -> Law:
    """Two draws of K; cells are hidden until they are predicted, and the last pass predicts what is left."""
    total = []
    for a, b in itertools.product((frozenset({0, 2}), frozenset({1})), repeat=2):
        first = redrawn(predict((Q,) * N), (Q,) * N, sorted(a))
        for y, p in first.items():
            left = [i for i in WHOLE if i in b or y[i] == Q]
            total.append((p / 4, redrawn(predict(oracle.hide(y, left, Q)), y, left)))
    return pooled(total)


def counts_of(idata) -> np.ndarray:
    return np.bincount(numbers(draws(idata), Q).ravel(), minlength=Q**N)


def agrees(idata, law: Law) -> bool:
    table = np.zeros(Q**N)
    for y, p in law.items():
        table[numbers(np.array(y), Q)] = p
    assert table.sum() == pytest.approx(1)
    return p_value(counts_of(idata), table) > LEAST_P


EVERY = ("once", "first", "fewer", "margin", "again", "sundae_two", "fresh", "stutter", "narrowed", "nucleus", "blocked")


@pytest.mark.parametrize("name", thinned(EVERY, 16))
def test_decodes_have_the_law_of_their_passes(loose, name: str):
    idata = loose.sample(loose.init_params(), name, draws=320, chains=64, seed=1)
    assert agrees(idata, wanted(name, predictor("loose")))


@pytest.mark.parametrize("name", thinned(["once", "fewer"], 2, 1))
def test_a_network_of_an_exact_law_has_its_one_step_law(model, name: str):
    """One pass from hidden cells is the product of the marginals; the second is the law's conditional of the cell that is open."""
    idata = model.sample(model.init_params(), name, draws=320, chains=64, seed=2)
    assert agrees(idata, wanted(name, predictor("model")))


def test_one_pass_is_the_product_of_the_marginals_and_not_the_law(model):
    from networks_cases import law

    p = law(N, Q, SEED)
    marginals = [p.sum(axis=tuple(j for j in range(N) if j != i)) for i in range(N)]
    product = np.einsum("a,b,c->abc", *marginals).ravel()
    counts = counts_of(model.sample(model.init_params(), "once", draws=320, chains=64, seed=3))
    assert p_value(counts, product) > LEAST_P
    assert p_value(counts, p.ravel()) < LEAST_P


@pytest.mark.parametrize("which", thinned(["model", "loose"], 2, 1))
def test_passes_of_one_cell_are_the_single_site_kernel(which: str, request: pytest.FixtureRequest):
    """N passes of `schedule = one` from a draft: the draft's row of the kernel to the power N."""
    model, start = request.getfixturevalue(which), np.array([2, 0, 1])
    matrix = np.linalg.matrix_power(oracle.mixed(predictor(which), N, Q, oracle.subsets(WHOLE, 1)), N)
    idata = model.sample(model.init_params(), "cells", init=start, draws=320, chains=64, seed=4)
    assert p_value(counts_of(idata), matrix[numbers(start, Q)]) > LEAST_P


def test_passes_of_blocks_are_the_block_kernel(loose):
    start = np.array([1, 1, 0])
    matrix = loose.transition_matrix(loose.init_params(), "steps_of_ends")
    idata = loose.sample(loose.init_params(), "ends_thrice", init=start, draws=320, chains=64, seed=5)
    assert p_value(counts_of(idata), matrix[numbers(start, Q)]) > LEAST_P


def test_a_score_is_the_networks_own_log_p_of_the_token_whatever_the_temperature(loose):
    idata = loose.sample(loose.init_params(), "nucleus", draws=40, chains=2, seed=6)
    hidden = np.log(predictor("loose")((Q,) * N))
    tokens = draws(idata)
    own = np.take_along_axis(np.broadcast_to(hidden, (*tokens.shape, Q)), tokens[..., None], axis=-1)[..., 0].mean(axis=-1)
    assert np.allclose(stats(idata, "score"), own, atol=1e-5)


@pytest.mark.parametrize(("top_k", "top_p"), [(2, None), (None, 0.6), (None, 0.999), (3, 0.5), (9, 1.0), (1, None)])
def test_narrowed_logits_keep_the_likeliest(rng: np.random.Generator, top_k: int | None, top_p: float | None):
    logits = 2 * rng.normal(size=(40, 6))
    found = np.asarray(narrow(jnp.asarray(logits), top_k, top_p))
    for row, left in zip(logits, found, strict=True):
        p, keep = np.exp(log_softmax(row)), np.ones(6, bool)
        if top_k is not None:
            keep[np.argsort(-row)[top_k:]] = False
        if top_p is not None and top_p < 1:
            p = np.where(keep, p, 0) / p[keep].sum()
            order = np.argsort(-p)
            keep &= np.isin(np.arange(6), order[: int(np.argmax(np.cumsum(p[order]) >= top_p - 1e-7)) + 1])
        assert np.array_equal(np.isfinite(left), keep)
        assert np.allclose(left[keep], row[keep])


def test_equal_logits_at_the_edge_all_stay():
    assert np.isfinite(np.asarray(narrow(jnp.asarray([1.0, 3.0, 1.0, 0.0]), 2, None))).tolist() == [True, True, True, False]


@pytest.mark.parametrize("off", [-1e-6, 0.0, 1e-6])
@pytest.mark.parametrize(("top_k", "top_p", "kept"), [(None, 0.8, 2), (None, 1e-6, 1), (2, None, 3), (None, 0.6, 3)])
def test_rounding_does_not_decide_what_stays(off: float, top_k: int | None, top_p: float | None, kept: int):
    """Sums that differ in their last digits: guided samplers draw in single precision, and their law is in double."""
    p = [0.5, 0.3 + off, 0.2 - off] if kept < 3 else [0.4, 0.3 + off, 0.3 - off]
    assert np.isfinite(np.asarray(narrow(jnp.log(jnp.asarray(p)), top_k, top_p))).sum() == kept
