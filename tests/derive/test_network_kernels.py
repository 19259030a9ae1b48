"""Samplers of conditional models against matrices by enumeration, on a network that holds an exact law's conditionals."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chi_square import p_value
from networks_cases import draws, exact, keys, law, made, normalised, numbers, one_hot_value, pairs
from oracle import _tabular as oracle
from thinned import thinned

from gmlmdsl import derive

N, Q = 3, 3
SEED = 4
LEAST_P = 1e-4
MORE = """
mask one = subsets(x, size = 1)
mask two = subsets(x, size = 2)
mask some = bernoulli(x, rate = 0.3)
mask ends = blocks({x[0], x[2]})
mask tuned { choose {x[0]} weight 1  choose {x[1], x[2]} weight 3 }
mask each_own { each x[0] rate 0.9  each x[2] rate 0.4 }
mask both = mixture { 1 : some  3 : ends }
sampler single { update x[K] where K ~ one }
sampler sweep { update x[i] for i in range(3) }
sampler pairs { update x[K] independently where K ~ two }
sampler half { update x[K] independently where K ~ some }
sampler edges { update x[K] independently where K ~ ends }
sampler weighed { update x[K] independently where K ~ tuned }
sampler rated { update x[K] independently where K ~ each_own }
sampler mixed { update x[K] independently where K ~ both }
sampler doubtful { repeat 2 { update x[K] independently where K ~ least_confident(x, count = 2) } }
sampler either { mixture { 3 : update x[i] for i in range(3)  1 : update x[K] independently where K ~ two } }
sampler turns { update x[2]  update x[K] where K ~ one  repeat 3 { update x[0] } }
"""
EVERY = ("single", "sweep", "pairs", "half", "edges", "weighed", "rated", "mixed", "doubtful", "either", "turns")


@pytest.fixture(scope="module")
def model():
    return made(f'python("networks_cases:Tabular", seed = {SEED})', N, Q, MORE)


def one_law() -> oracle.Law:
    return oracle.subsets(range(N), 1)


def both_law() -> oracle.Law:
    return [*((k, p / 4) for k, p in oracle.bernoulli(range(N), 0.3)), (frozenset({0, 2}), 0.75)]


def rated_law() -> oracle.Law:
    """Cell 0 at rate 0.9, cell 2 at rate 0.4."""
    return [(frozenset(), 0.06), (frozenset({2}), 0.04), (frozenset({0}), 0.54), (frozenset({0, 2}), 0.36)]


def wanted(sampler: str, predict: oracle.Predictor) -> np.ndarray:
    """The matrix of each sampler, from steps of single blocks."""

    def once(*k: int) -> np.ndarray:
        return oracle.step(predict, N, Q, k)

    def over(law: oracle.Law) -> np.ndarray:
        return oracle.mixed(predict, N, Q, law)

    matrices = {
        "single": lambda: over(one_law()),
        "sweep": lambda: once(0) @ once(1) @ once(2),
        "pairs": lambda: over(oracle.subsets(range(N), 2)),
        "half": lambda: over(oracle.bernoulli(range(N), 0.3)),
        "edges": lambda: once(0, 2),
        "weighed": lambda: 0.25 * once(0) + 0.75 * once(1, 2),
        "rated": lambda: over(rated_law()),
        "mixed": lambda: over(both_law()),
        "doubtful": lambda: np.linalg.matrix_power(oracle.least_confident_step(predict, N, Q, 2, range(N)), 2),
        "either": lambda: 0.75 * once(0) @ once(1) @ once(2) + 0.25 * over(oracle.subsets(range(N), 2)),
        "turns": lambda: once(2) @ over(one_law()) @ np.linalg.matrix_power(once(0), 3),
    }
    return matrices[sampler]()


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("sampler", thinned(EVERY, 2))
def test_a_matrix_is_that_of_brute_force(model, sampler: str):
    params = model.init_params()
    found = model.transition_matrix(params, sampler)
    assert found.dtype == np.float64
    assert np.allclose(found.sum(axis=1), 1)
    assert np.abs(found - wanted(sampler, exact(N, Q, SEED))).max() < 1e-12


@pytest.mark.usefixtures("float64")
def test_single_cells_keep_the_exact_law_and_a_product_step_does_not(model):
    params, pi = model.init_params(), law(N, Q, SEED).ravel()
    for sampler, keeps in (("single", True), ("sweep", True), ("turns", True), ("pairs", False), ("edges", False)):
        moved = np.abs(pi @ model.transition_matrix(params, sampler) - pi).max()
        assert moved < 1e-12 if keeps else moved > 1e-3


@pytest.mark.usefixtures("float64")
def test_single_cells_are_the_sampler_of_the_factor_graph_with_that_law(model):
    """The same matrix from another route: the law as a table of factors, through the compiler of factor graphs."""
    import gmlmdsl as gm

    table = np.log(law(N, Q, SEED))
    text = f"input T[{Q}, {Q}, {Q}] : real\nmodel g {{\n  var x[i in range({N})] : range({Q})\n  factor T[x[0], x[1], x[2]]\n}}\n"
    text += (
        "mask one = subsets(x, size = 1)\nsampler single { update x[K] where K ~ one }\nsampler sweep { update x[i] for i in range(3) }\n"
    )
    graph = gm.parse(text, T=table).model()
    params = model.init_params()
    for sampler in ("single", "sweep"):
        assert np.abs(graph.transition_matrix({}, sampler) - model.transition_matrix(params, sampler)).max() < 1e-12


@pytest.mark.usefixtures("float64")
def test_given_data_say_which_law_the_chain_has():
    more = "mask one = subsets(x, size = 1)\nsampler single { update x[K] where K ~ one }\n"
    model = made(f'python("networks_cases:Tabular", seed = {SEED})', 2, Q, more, "g[j in range(2)] : range(2)")
    params = model.init_params()
    for g in (0, 1):
        found = model.transition_matrix(params, given={"g": [g, 1]})
        law = oracle.subsets(range(2), 1)
        assert np.abs(found - oracle.mixed(exact(2, Q, SEED + g), 2, Q, law)).max() < 1e-12


def one_step(model, params, sampler: str, start: np.ndarray, seed: int, clamped: np.ndarray | None = None) -> np.ndarray:
    """One step of as many chains as the start has columns, all over one row."""
    kernel = derive.build_kernel(model.lowered, model.sampler(sampler)[1]).kernel
    chains = start.shape[1]
    lengths = jnp.full((1, chains), N, jnp.int32)
    network = params["net"]
    graph = derive.network_graph(network, "net", derive.encode_rows(network, (), (), 1), lengths, N)
    target = derive.Target(graph, params, None if clamped is None else jnp.asarray(clamped))
    codes = jnp.asarray(start, jnp.int32)
    state, info = jax.jit(lambda k, c: kernel.step(target, k, kernel.init(c)))(keys(chains, seed), codes)
    changed, after = np.asarray(info.changed).sum(axis=0), np.asarray(state.codes)
    if info.changed.shape[0] == 1 and sampler not in ("doubtful", "turns"):
        assert (changed == (after != start).sum(axis=0)).all()
    return after


@pytest.mark.parametrize("sampler", thinned(["single", "sweep", "half", "rated", "mixed", "doubtful", "either"], 4, 3))
def test_a_step_of_chains_follows_its_row(model, sampler: str):
    predict, chains = exact(N, Q, SEED), 30_000
    matrix = wanted(sampler, predict)
    for seed, start in enumerate(([0, 1, 2], [2, 2, 0])):
        after = one_step(model, model.init_params(), sampler, np.repeat(np.array(start)[:, None], chains, axis=1), seed)
        counts = np.bincount(numbers(after.T, Q), minlength=Q**N)
        assert p_value(counts, matrix[numbers(np.array(start), Q)]) > LEAST_P


@pytest.mark.parametrize("sampler", thinned(["sweep", "half", "doubtful"], 3, 1))
def test_clamped_cells_stay_and_the_others_move_given_them(model, sampler: str):
    """As a chain over the free cells: K is drawn as ever, and only its free cells move."""
    predict, chains = exact(N, Q, SEED), 30_000
    start, held = np.array([1, 0, 2]), np.array([False, True, False])
    after = one_step(model, model.init_params(), sampler, np.repeat(start[:, None], chains, axis=1), 5, held)
    assert (after[1] == 0).all()

    def once(k) -> np.ndarray:
        return oracle.step(predict, N, Q, set(k) - {1})

    if sampler == "sweep":
        matrix = once([0]) @ once([2])
    elif sampler == "half":
        matrix = sum(p * once(k) for k, p in oracle.bernoulli(range(N), 0.3))
    else:
        matrix = np.linalg.matrix_power(oracle.least_confident_step(predict, N, Q, 2, [0, 2]), 2)
    counts = np.bincount(numbers(after.T, Q), minlength=Q**N)
    assert p_value(counts, matrix[numbers(start, Q)]) > LEAST_P


@pytest.mark.slow  # one step follows its row above
def test_a_long_chain_has_the_transitions_of_its_matrix(model):
    """Through `sample`: consecutive draws, pooled over chains, from each state beside the state's row."""
    idata = model.sample(model.init_params(), "mixed", draws=4500, warmup=10, chains=4, seed=3)
    states = numbers(draws(idata), Q)
    matrix = wanted("mixed", exact(N, Q, SEED))
    pairs = np.zeros((Q**N, Q**N), int)
    np.add.at(pairs, (states[:, :-1].ravel(), states[:, 1:].ravel()), 1)
    common = np.flatnonzero(pairs.sum(axis=1) > 500)
    assert len(common) > 5
    assert min(p_value(pairs[s], matrix[s]) for s in common) > LEAST_P / 10


@pytest.mark.usefixtures("float64")
def test_least_confident_asks_with_each_cell_hidden_alone_and_of_equal_ones_takes_the_first():
    """On a network that is no law's: what a cell shows must not count towards its own confidence."""
    more = "sampler s { update x[K] independently where K ~ least_confident(x, count = 1) }\n"
    predict = normalised(pairs(3, 3, seed=2))
    model = made('python("networks_cases:Pairs", seed = 2)', 3, 3, more)
    found = model.transition_matrix(model.init_params())
    assert np.abs(found - oracle.least_confident_step(predict, 3, 3, 1, range(3))).max() < 1e-12
    flat = made('python("networks_cases:Pairs", seed = 2, scale = 0)', 3, 3, more)
    params = {"net": jax.tree.map(jnp.zeros_like, flat.init_params()["net"])}
    first = oracle.step(lambda seen: np.full((3, 3), 1 / 3), 3, 3, [0])
    assert np.abs(flat.transition_matrix(params) - first).max() < 1e-12


@pytest.mark.usefixtures("float64")
def test_a_one_hot_network_has_the_kernel_of_a_product():
    """Each cell of a block becomes a function of a cell outside of it: the matrix has one 1 in each row, where brute force says."""
    n, q = 4, 3
    more = "mask front = blocks({x[0], x[2]})\nmask back = blocks({x[1], x[3]})\n"
    more += "sampler first { update x[K] independently where K ~ front }\n"
    more += "sampler both { update x[K] independently where K ~ front  update x[K] independently where K ~ back }\n"
    model = made('python("networks_cases:OneHot", shift = 1)', n, q, more)
    params = model.init_params()

    def moved(x: tuple[int, ...], cells: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(one_hot_value(i, x[(i + 1) % n], q) if i in cells else v for i, v in enumerate(x))

    every = oracle.states(n, q)
    for sampler, blocks in (("first", [(0, 2)]), ("both", [(0, 2), (1, 3)])):
        matrix = np.zeros((q**n, q**n))
        for a, x in enumerate(every):
            for cells in blocks:
                x = moved(x, cells)
            matrix[a, every.index(x)] = 1.0
        assert np.array_equal(model.transition_matrix(params, sampler), matrix)


@pytest.mark.slow  # its kernel is compared above
def test_chains_of_a_one_hot_network_go_where_it_says():
    n, q = 4, 3
    more = "mask front = blocks({x[0], x[2]})\nsampler s { update x[K] independently where K ~ front }\n"
    model = made('python("networks_cases:OneHot", shift = 1)', n, q, more)
    starts = np.array(oracle.states(n, q))
    idata = model.sample(model.init_params(), init=starts, draws=1, warmup=0, chains=1)
    after = draws(idata)[0, 0]
    wanted = [[one_hot_value(i, x[(i + 1) % n], q) if i in (0, 2) else x[i] for i in range(n)] for x in starts]
    assert np.array_equal(after, wanted)
