"""Losses of masks for conditional models against enumeration over K, over the noise and over what is fed back."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from networks_cases import exact, law, made, normalised, pairs
from oracle import _tabular as oracle
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.evaluate._network_queries import mask_loss

N, Q, SEED = 4, 3, 2
MORE = """
mask one = subsets(x, size = 1)
mask two = subsets(x, size = 2)
mask some = bernoulli(x, rate = 0.3)
mask any_rate = bernoulli(x, rate = uniform(0, 1))
mask whole = everything(x)
mask pieces = blocks({x[0], x[3]}, {x[1]})
mask tuned { choose {x[0], x[1]} weight 1  choose {x[2]} weight 2  choose {x[1], x[2], x[3]} weight 1 }
mask rated { each x[i] for i in range(4) rate 0.2 + 0.2 * i }
mask both = mixture { 1 : two  3 : whole }
mask noisy = everything(x, noise = {keep: 0.15, uniform: 0.85})
mask thrice = subsets(x, size = 2, noise = {hide: 0.5, uniform: 0.3, keep: 0.2})
mask seldom = mixture { 1 : subsets(x, size = 1, noise = {keep: 1})  2 : everything(x, noise = {uniform: 1}) }
mask stages = everything(x, stages = 2)
mask kept = everything(x, noise = {keep: 1}, stages = 3)
mask redrawn = everything(x, stages = 2, stage_inputs = sample)
mask part = blocks({x[1], x[2]}, noise = {keep: 1}, stages = 2)
mask looks given x {
  choose {x[i]} for i in range(4) weight x[i]
  choose {x[0], x[3]} weight x[1] * x[2]
}
sampler s { update x[i] for i in range(4) }
"""
WHOLE, HIDE = frozenset(range(N)), (1.0, 0.0, 0.0)
ROWS = np.array([[0, 1, 2, 2], [2, 0, 0, 1], [1, 1, 1, 0]])
SHORT = np.array([[0, 1, 2, -1], [2, 1, -1, -1], [1, 1, 1, 0], [2, -1, -1, -1]])


def of_pieces() -> oracle.Law:
    return [(frozenset({0, 3}), 0.5), (frozenset({1}), 0.5)]


def of_tuned() -> oracle.Law:
    return [(frozenset({0, 1}), 0.25), (frozenset({2}), 0.5), (frozenset({1, 2, 3}), 0.25)]


def of_rated() -> oracle.Law:
    rates = 0.2 + 0.2 * np.arange(N)
    return [(frozenset(np.flatnonzero(k)), float(np.prod(np.where(k, rates, 1 - rates)))) for k in itertools.product((0, 1), repeat=N)]


LAWS = {
    "one": oracle.subsets(range(N), 1),
    "two": oracle.subsets(range(N), 2),
    "some": oracle.bernoulli(range(N), 0.3),
    "any_rate": oracle.any_rate(range(N)),
    "whole": [(WHOLE, 1.0)],
    "pieces": of_pieces(),
    "tuned": of_tuned(),
    "rated": of_rated(),
    "both": [*((k, p / 4) for k, p in oracle.subsets(range(N), 2)), (WHOLE, 0.75)],
}


@pytest.fixture(scope="module")
def model():
    return made(f'python("networks_cases:Tabular", seed = {SEED})', N, Q, MORE)


@pytest.fixture(scope="module")
def loose():
    """A network that is no law's, in which a cell's own value counts and padding is not the same as hidden."""
    return made('python("networks_cases:Pairs", seed = 7)', N, Q, MORE)


def predicted(row: np.ndarray, predict: oracle.Predictor) -> tuple[list[int], oracle.Predictor]:
    """The cells of a row up to its length, and predictions for inputs of that length."""
    cells = [int(v) for v in row[row >= 0]]

    def shorter(seen):
        return predict([*seen, *[Q + 1] * (N - len(seen))])[: len(seen)]

    return cells, shorter


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("mask", thinned(LAWS, 4))
@pytest.mark.parametrize("which", thinned(["model", "loose"], 2, 1))
def test_the_mean_over_all_masks_is_that_of_brute_force(mask: str, which: str, request: pytest.FixtureRequest):
    model = request.getfixturevalue(which)
    predict = exact(N, Q, SEED) if which == "model" else normalised(pairs(N, Q, 7))
    wanted = [oracle.loss(predict, row, Q, LAWS[mask]) for row in ROWS]
    params = model.init_params()
    assert float(model.loss(params, ROWS, mask)) == pytest.approx(np.mean(wanted), rel=1e-12)
    weights = [1.0, 0.0, 2.5]
    assert float(model.loss(params, ROWS, mask, weights=weights)) == pytest.approx(np.average(wanted, weights=weights), rel=1e-12)


@pytest.mark.usefixtures("float64")
def test_single_cells_of_an_exact_law_have_its_pseudolikelihood(model):
    """Another route: log p(x_i | x_-i) from the joint table."""
    p = law(N, Q, SEED)
    wanted = 0.0
    for row in ROWS:
        for i in range(N):
            line = p[tuple(slice(None) if j == i else v for j, v in enumerate(row))]
            wanted -= np.log(line[row[i]] / line.sum()) / N / len(ROWS)
    assert float(model.loss(model.init_params(), ROWS, "one")) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("mask", ["some", "whole", "pieces", "tuned", "rated"])
@pytest.mark.parametrize("which", thinned(["model", "loose"], 2))
def test_of_shorter_rows_masks_hold_the_cells_that_are_there(mask: str, which: str, request: pytest.FixtureRequest):
    model = request.getfixturevalue(which)
    predict = exact(N, Q, SEED) if which == "model" else normalised(pairs(N, Q, 7))
    wanted = []
    for row in SHORT:
        cells, shorter = predicted(row, predict)
        cut = [(k & frozenset(range(len(cells))), p) for k, p in LAWS[mask]]
        wanted.append(oracle.loss(shorter, cells, Q, cut))
    assert float(model.loss(model.init_params(), SHORT, mask, missing=-1)) == pytest.approx(np.mean(wanted), rel=1e-12)


@pytest.mark.usefixtures("float64")
def test_a_hole_is_hidden_and_not_scored(loose):
    predict = normalised(pairs(N, Q, 7))
    row = [1, -1, 2, 0]
    wanted = 0.0
    for k, p in LAWS["some"]:
        seen = [Q if i in k or v < 0 else v for i, v in enumerate(row)]
        wanted += p * oracle.block_loss(predict, row, k - {1}, seen)
    assert float(loose.loss(loose.init_params(), [row], "some", missing=-1)) == pytest.approx(wanted, rel=1e-12)


MANY = 4000


def drawn(model, mask: str, row, seed: int = 0, n_masks: int = 1, given=None) -> float:
    """The loss of many copies of a row, K and noise drawn for each."""
    rows = np.repeat(np.array([row]), MANY, axis=0)
    key = jax.random.key(seed)
    return float(model.loss(model.init_params(), rows, mask, key=key, n_masks=n_masks, missing=-1, given=given))


def moments(predict: oracle.Predictor, x, blocks: oracle.Law) -> tuple[float, float]:
    """Mean and variance of the loss of one K drawn from a law, its cells hidden."""
    return oracle.noisy_loss(predict, x, Q, blocks, HIDE)


def near(found: float, moments: tuple[float, float], count: int = MANY) -> bool:
    """Within five standard errors, which are not 0."""
    mean, variance = moments
    assert variance > 1e-6
    return abs(found - mean) < 5 * np.sqrt(variance / count)


@pytest.mark.parametrize("mask", thinned(["two", "any_rate", "rated", "both", "tuned"], 5, 1))
def test_drawn_masks_have_the_law_of_listed_ones(loose, mask: str):
    predict, row = normalised(pairs(N, Q, 7)), ROWS[0]
    assert near(drawn(loose, mask, row), moments(predict, row, LAWS[mask]))
    assert near(drawn(loose, mask, row, 1, n_masks=3), moments(predict, row, LAWS[mask]), 3 * MANY)


def test_several_masks_are_averaged_not_repeated(loose):
    """With the same mask drawn each time the spread would not fall."""
    predict, row = normalised(pairs(N, Q, 7)), ROWS[0]
    mean, variance = moments(predict, row, LAWS["two"])
    rows, params = np.repeat(np.array([row]), 1, axis=0), loose.init_params()
    found = [float(loose.loss(params, rows, "two", key=jax.random.key(k), n_masks=16)) for k in range(40)]
    assert np.var(found) < variance / 16 * 2.2
    assert abs(np.mean(found) - mean) < 5 * np.sqrt(variance / 640)


@pytest.mark.parametrize("row", [[0, 1, 2, -1], [2, 0, -1, -1], [2, -1, -1, -1]])
def test_drawn_subsets_are_those_of_the_cells_that_are_there(loose, row):
    cells, shorter = predicted(np.array(row), normalised(pairs(N, Q, 7)))
    blocks = oracle.subsets(range(len(cells)), 2)
    found = drawn(loose, "two", row)
    if len(blocks) == 1:
        assert found == pytest.approx(oracle.loss(shorter, cells, Q, blocks), rel=1e-5)
    else:
        assert near(found, moments(shorter, cells, blocks))
    mixed = [*((k, p / 4) for k, p in blocks), (frozenset(range(len(cells))), 0.75)]
    if len(cells) > 2:
        assert near(drawn(loose, "both", row, 3), moments(shorter, cells, mixed))


NOISES = {
    "noisy": (LAWS["whole"], (0.0, 0.85, 0.15)),
    "thrice": (LAWS["two"], (0.5, 0.3, 0.2)),
}


@pytest.mark.parametrize("mask", NOISES)
@pytest.mark.parametrize("row", [[0, 1, 2, 2], [2, 0, 1, -1]])
def test_noise_is_drawn_for_each_cell_of_k(loose, mask: str, row):
    blocks, noise = NOISES[mask]
    cells, shorter = predicted(np.array(row), normalised(pairs(N, Q, 7)))
    if len(cells) < N:
        blocks = [(frozenset(range(len(cells))), 1.0)] if mask == "noisy" else oracle.subsets(range(len(cells)), 2)
    assert near(drawn(loose, mask, row), oracle.noisy_loss(shorter, cells, Q, blocks, noise))


def test_parts_of_a_mixture_have_their_own_noise(loose):
    predict, row = normalised(pairs(N, Q, 7)), ROWS[1]
    parts = [(1 / 3, *oracle.noisy_loss(predict, row, Q, LAWS["one"], (0, 0, 1))), (2 / 3, *oracle.noisy_loss(predict, row, Q, LAWS["whole"], (0, 1, 0)))]  # fmt: skip
    mean = sum(w * m for w, m, _ in parts)
    assert near(drawn(loose, "seldom", row), (mean, sum(w * (v + m**2) for w, m, v in parts) - mean**2))


@pytest.mark.parametrize("row", [[0, 1, 2, 2], [2, 0, 1, -1], [1, 2, -1, -1]])
@pytest.mark.parametrize(("mask", "count"), [("stages", 2), ("kept", 3), ("part", 2)])
def test_later_stages_see_the_likeliest_values_of_the_one_before(loose, mask: str, count: int, row):
    """Without chance: all cells hidden, or all kept, and then what was predicted, in K and up to the length."""
    cells, shorter = predicted(np.array(row), normalised(pairs(N, Q, 7)))
    k = {1, 2} & set(range(len(cells))) if mask == "part" else set(range(len(cells)))
    seen = [Q] * len(cells) if mask == "stages" else cells
    found = float(loose.loss(loose.init_params(), [row], mask, key=jax.random.key(0), missing=-1))
    assert found == pytest.approx(oracle.staged_loss(shorter, cells, Q, k, seen, count), rel=1e-5)


@pytest.mark.parametrize("row", [[0, 1, 2, 2], [2, 0, 1, -1]])
def test_later_stages_may_see_values_that_are_drawn(loose, row):
    cells, shorter = predicted(np.array(row), normalised(pairs(N, Q, 7)))
    wanted = oracle.resampled_loss(shorter, cells, Q, range(len(cells)), [Q] * len(cells))
    assert near(drawn(loose, "redrawn", row), wanted)


def test_no_gradient_goes_through_what_is_fed_back(loose):
    """The gradient of two stages is that of two losses whose inputs are constants."""
    params, row = loose.init_params(), [ROWS[0].tolist()]
    lowered = loose.lowered
    found, _ = mask_loss(lowered, loose.program.checked.masks["stages"])
    codes, keys = jnp.asarray(ROWS[:1].T, jnp.int32), jax.random.split(jax.random.key(0), 1)
    gradient = jax.jit(jax.grad(lambda p: found.rows(p, codes, (), (), keys)[0].sum()))(params)
    net = params["net"].module
    hidden = [Q] * N
    second = [int(v) for v in np.argmax(np.asarray(net(jnp.asarray(hidden, jnp.int32))), axis=1)]

    def by_hand(net):
        total = 0.0
        for seen in (hidden, second):
            logits = jax.nn.log_softmax(net(jnp.asarray(seen, jnp.int32)), axis=-1)
            total = total - sum(logits[i, v] for i, v in enumerate(row[0])) / 2
        return total

    wanted = jax.jit(jax.grad(by_hand))(net)
    for a, b in zip(jax.tree.leaves(gradient["net"].module), jax.tree.leaves(wanted), strict=True):
        assert np.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("row", [[0, 1, 2, 2], [1, 1, 0, 2], [0, 0, 0, 0]])
def test_a_mask_that_looks_at_x_trains_under_its_law_at_x(loose, row):
    """p(K | x) is that of the row; where every weight is 0, K is empty."""
    predict = normalised(pairs(N, Q, 7))
    weights = {frozenset({i}): float(row[i]) for i in range(N)} | {frozenset({0, 3}): float(row[1] * row[2])}
    blocks = [(k, w / max(sum(weights.values()), 1)) for k, w in weights.items()]
    found = drawn(loose, "looks", row)
    if not any(row):
        assert found == 0
    else:
        assert near(found, moments(predict, row, blocks))


@pytest.mark.slow
def test_weights_of_a_mask_may_mention_what_is_given():
    more = "mask k given g { choose {x[i]} for i in range(3) weight g[i]  choose {x[0], x[2]} weight 1 }\nmask w = everything(x)\n"
    given = "g[i in range(3)] : range(3)"
    model = made('python("networks_cases:Pairs", seed = 5)', 3, Q, more, given)
    row = [1, 0, 2]
    for g in ([0, 2, 1], [2, 0, 0]):
        predict = normalised(pairs(3, Q, 5, given=(("g", 3, 3),), rows=(g,)))
        weights = {frozenset({i}): g[i] / (sum(g) + 1) for i in range(3)} | {frozenset({0, 2}): 1 / (sum(g) + 1)}
        assert near(drawn(model, "k", row, given={"g": g}), moments(predict, row, list(weights.items())))


@pytest.mark.parametrize("mask", [*LAWS, "looks"])
def test_the_mean_number_of_cells(loose, mask: str):
    found, _ = mask_loss(loose.lowered, loose.program.checked.masks[mask])
    codes = jnp.asarray(SHORT.T, jnp.int32)
    sizes = np.asarray(found.mask.mean_members(jnp.maximum(codes, 0), codes >= 0))
    for row, size in zip(SHORT, sizes, strict=True):
        n, x = int((row >= 0).sum()), np.maximum(row, 0)
        here = frozenset(range(n))
        if mask == "looks":
            weights = {frozenset({i}): float(x[i]) for i in range(N)} | {frozenset({0, 3}): float(x[1] * x[2])}
            law = [(k, w / sum(weights.values())) for k, w in weights.items()]
        elif mask in ("one", "two"):
            law = oracle.subsets(range(n), 1 if mask == "one" else 2)
        elif mask == "both":
            law = [*((k, p / 4) for k, p in oracle.subsets(range(n), 2)), (here, 0.75)]
        else:
            law = LAWS[mask]
        assert float(size) == pytest.approx(sum(p * len(k & here) for k, p in law), rel=1e-5)


@pytest.mark.usefixtures("float64")
def test_a_table_of_a_block_is_a_product_over_its_cells(model):
    params, row = model.init_params(), [0, 2, 1, 1]
    table = np.asarray(model.log_conditional(params, row, K=(3, 1)))
    own = exact(N, Q, SEED)([0, Q, 1, Q])
    assert np.abs(np.exp(table) - np.outer(own[1], own[3])).max() < 1e-12
    joint = law(N, Q, SEED)[0, :, 1, :]
    assert np.abs(np.exp(table) - joint / joint.sum()).max() > 1e-3  # and not the law's joint conditional
    rows = np.asarray(model.log_conditional(params, [row, ROWS[1]], K=2))
    assert rows.shape == (2, Q)
    assert np.allclose(np.exp(rows[1]), exact(N, Q, SEED)([2, 0, Q, 1])[2])


@pytest.mark.slow
@pytest.mark.parametrize("mask", thinned(["stages", "kept"], 2))
def test_a_mask_that_draws_nothing_needs_no_key(loose, mask: str):
    """One block, noise that is certain, stages that are fed the mode: every draw is the same."""
    params = loose.init_params()
    drawn = loose.loss(params, ROWS, mask, key=jax.random.key(7), n_masks=2)
    assert float(loose.loss(params, ROWS, mask)) == pytest.approx(float(drawn), rel=1e-6)


@pytest.mark.parametrize(
    ("mask", "missing", "word"),
    [
        ("noisy", None, "random"),
        ("redrawn", None, "random"),
        ("looks", None, "looks at `x`"),
        ("two", -1, "subsets"),
        ("both", -1, "subsets"),
    ],
)
def test_a_mean_that_is_no_list_asks_for_a_key(loose, mask: str, missing, word: str):
    with pytest.raises(gm.GmlmError, match=word) as caught:
        loose.loss(loose.init_params(), SHORT if missing else ROWS, mask, missing=missing)
    assert "E602" in caught.value.codes
    assert "key=" in str(caught.value)
