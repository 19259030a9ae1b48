"""Losses and fits under `visits(S)`: the decoder's own bound, listed, drawn and trained on; what a fit then says in bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from networks_cases import made, normalised, pairs
from oracle import _decoders as oracle
from thinned import thinned

import gmlmdsl as gm

N, Q = 4, 3
MORE = """
input plan[passes] : int
sampler one    = random_order()
sampler three  = refinement(order = random, schedule = plan, decode = sample)
sampler blocks = block_diffusion(block = 3, steps = 2)
sampler left   = refinement(order = left_to_right, schedule = counts([1, 3]), decode = sample)
sampler sure   = refinement(confidence = entropy, schedule = linear, steps = 3, decode = sample, temperature = 1.5)
mask of_one    = visits(one)
mask of_three  = visits(three)
mask of_blocks = visits(blocks)
mask of_left   = visits(left)
mask of_sure   = visits(sure)
"""
PLANS = {
    "of_one": oracle.blocks(N, N, lambda m: [1] * m),
    "of_three": oracle.blocks(N, N, lambda m: [1, 2, 1]),
    "of_blocks": oracle.blocks(N, 3, oracle.linear(2)),
}


@pytest.fixture(scope="module")
def loose() -> Any:
    """A network that is nobody's law."""
    text = f'network net = python("networks_cases:Pairs", seed = 5, scale = 0.7)\nmodel m {{\n  var x[i in range({N})] : range({Q})\n'
    return gm.parse(f"{text}  conditional x ~ net()\n}}\n{MORE}", allow_python=True, plan=[1, 2, 1]).model()


@pytest.mark.parametrize("mask", PLANS)
def test_the_loss_is_the_bound_of_the_decoder(loose: Any, mask: str, float64: None):
    predict, params = normalised(pairs(N, Q, 5, 0.7)), loose.init_params()
    for row in ([0, 1, 2, 2], [2, 2, 0, 1]):
        wanted = oracle.bound(predict, row, Q, PLANS[mask])
        assert float(loose.loss(params, [row], mask)) == pytest.approx(wanted, abs=1e-9)
        drawn = np.array([float(loose.loss(params, [row] * 50, mask, key=k, n_masks=4)) for k in range(30)])
        assert abs(drawn.mean() - wanted) < 4.5 * drawn.std(ddof=1) / np.sqrt(30)


@pytest.mark.parametrize("mask", ["of_left", "of_sure"])
def test_the_loss_of_a_decoder_with_one_path_is_its_log_p(loose: Any, mask: str, float64: None):
    params, sampler = loose.init_params(), mask[3:]
    law = gm.theory.output_law(loose, params, sampler=sampler).probabilities
    for row in ([0, 1, 2, 2], [2, 2, 0, 1]):
        assert float(loose.loss(params, [row], mask)) == pytest.approx(-np.log(law[tuple(row)]), abs=1e-9)
        # Draws of a row share its passes: as many as there are cells visit each in proportion.
        assert float(loose.loss(params, [row], mask, key=1, n_masks=12)) == pytest.approx(-np.log(law[tuple(row)]), abs=1e-6)


@pytest.mark.slow  # statistical
def test_the_gradient_is_that_of_the_bound(float64: None):
    """Of a network with weights: the mean of drawn gradients beside the listed one, and no gradient through the places of a path."""
    model = made("mlp(layers = 1, width = 6)", N, Q, MORE.replace("input plan[passes] : int\n", "").replace("schedule = plan", "steps = 3"))
    params, row = model.init_params(1), np.array([[0, 1, 2, 1]])
    weights, rest = jax.tree.flatten(params["net"])

    def loss(mask: str, **more: Any) -> np.ndarray:
        def value(w: Any) -> Any:
            return model.loss({"net": jax.tree.unflatten(rest, w)}, row, mask, **more)

        found = jax.grad(value)([jnp.asarray(w) for w in weights])
        return np.concatenate([np.ravel(g) for g in found])

    for mask in ("of_left", "of_sure"):
        np.testing.assert_allclose(loss(mask, key=2, n_masks=12), loss(mask), atol=1e-8)
    drawn = np.stack([loss("of_one", key=k, n_masks=32) for k in range(12)])
    away = np.abs(drawn.mean(axis=0) - loss("of_one"))
    assert (away <= 5 * drawn.std(axis=0, ddof=1) / np.sqrt(12) + 1e-9).all()


@pytest.mark.parametrize("mask", thinned(["of_one", "of_sure"], 2))
@pytest.mark.slow
def test_a_fit_lowers_the_bound_and_says_bits_per_cell(mask: str, tmp_path: Path, standard_promotion: None):
    """Two rows that are alike in every cell: one nat for both bits is log 2 of the first cell; beside it a saved fit says the same."""
    text = "network net = mlp(layers = 1, width = 24)\nmodel m { var x[i in range(4)] : bit\n conditional x ~ net() }\n"
    text += "sampler one = random_order()\nsampler sure = refinement(schedule = easy_first, steps = cells, decode = sample)\n"
    model = gm.parse(text + "mask of_one = visits(one)\nmask of_sure = visits(sure)\n").model()
    x = np.repeat(np.arange(2)[:, None], 4, axis=1).repeat(64, axis=0)
    fit = model.fit(x, mask, max_steps=400, batch_size=64, progress=False)
    assert np.mean(fit.loss_trace[-20:]) < np.mean(fit.loss_trace[:20])
    found = fit.bits_per_cell(x[::8], sampler=mask[3:])
    assert found + 4 * found.standard_error >= 0.25
    assert found < 0.5
    fit.save(tmp_path / "fit")
    again = gm.load_fit(tmp_path / "fit").bits_per_cell(x[::8], sampler=mask[3:])
    assert (again, again.standard_error) == (found, found.standard_error)


def test_rows_that_end_early_have_paths_and_drawn_bounds(loose: Any):
    params = loose.init_params()
    short = [[0, 1, 2, -1]]
    exact = loose.log_prob(params, short, sampler="left", missing=-1)
    assert np.isfinite(exact).all()
    drawn = loose.log_prob_bound(params, short, sampler="one", missing=-1, draws=600)
    assert not drawn.exact
    with pytest.raises(gm.GmlmError, match="differ in length"):
        loose.loss(params, short, "of_one", missing=-1)
    every = [float(loose.loss(params, short, "of_one", key=k, missing=-1, n_masks=60)) for k in range(10)]
    assert abs(np.mean(every) + drawn.values[0]) < 5 * np.hypot(drawn.standard_error[0], np.std(every) / np.sqrt(10))


def test_bits_per_cell_are_those_of_all_cells_of_rows_of_two_lengths(loose: Any, standard_promotion: None):
    """Of a sampler with one path: beside log p of each pass by predictions; one row alone, and its error of equal lengths."""
    rows = np.array([[0, 1, 2, 2], [2, 2, 0, -1], [1, 0, 2, 0], [0, 0, 1, -1], [2, 1, 1, 2]])
    fit = loose.fit(rows[::2], "of_left", max_steps=1, progress=False)
    log_p = np.zeros(len(rows))
    for first, end in ((0, 1), (1, N)):
        hidden = np.arange(N) >= first
        law = loose.predict(fit.params, rows, hidden, missing=-1)
        own = np.take_along_axis(law, np.maximum(rows, 0)[..., None], axis=2)[..., 0]
        log_p += np.where(rows >= 0, own, 0.0)[:, first:end].sum(axis=1)
    bits, cells = -log_p / np.log(2), (rows >= 0).sum(axis=1)
    found = fit.bits_per_cell(rows, sampler="left", missing=-1)
    assert found == pytest.approx(bits.sum() / cells.sum(), rel=1e-5)
    whole = fit.bits_per_cell(rows[::2], sampler="left")
    each = bits[::2] / N
    assert whole == pytest.approx(each.mean(), rel=1e-5)
    assert whole.standard_error == pytest.approx(each.std(ddof=1) / np.sqrt(3), rel=1e-5)
    alone = fit.bits_per_cell(rows[1:2], sampler="left", missing=-1)
    assert alone == pytest.approx(bits[1] / 3, rel=1e-5)
    assert np.isnan(alone.standard_error)


@pytest.mark.parametrize("sampler", ["one", "three"])
def test_the_standard_error_of_a_bound_is_the_spread_of_bounds(loose: Any, sampler: str):
    """Of 300 equal rows, each with its own draws. The spread of n normal bounds has a relative error of 1 / sqrt(2 (n - 1))."""
    rows = [[0, 1, 2, -1]] * 300
    found = loose.log_prob_bound(loose.init_params(), rows, sampler=sampler, missing=-1, draws=200, seed=3)
    assert not found.exact
    ratio = found.values.std(ddof=1) / np.sqrt((found.standard_error**2).mean())
    assert abs(ratio - 1) < 4 / np.sqrt(2 * 299)


def test_counts_that_do_not_sum_to_the_cells_are_refused():
    text = "network net = mlp(layers = 1, width = 4)\nmodel m { var x[i in range(4)] : bit\n conditional x ~ net() }\n"
    text += "input plan[passes] : int\nsampler s = refinement(schedule = plan, decode = sample)\nmask k = visits(s)\n"
    model = gm.parse(text, plan=[1, 2]).model()
    with pytest.raises(gm.GmlmError, match="settles 1, 2 cells, and there are 4") as caught:
        model.loss(model.init_params(), [[0, 1, 0, 1]], "k")
    assert caught.value.codes == ("E409",)


def test_counts_in_a_joint_model_are_refused_at_the_first_use_and_a_start_is_named():
    text = "model m { var x[i in range(4)] : bit factor 0.3 * x[0] }\nsampler one = random_order()\n"
    text += "sampler s = random_order(schedule = counts([1, 2, 3]))\n"
    text += "sampler more { start from one  update x[i] for i in range(4) }\n"
    model = gm.parse(text).model()
    for use in (
        lambda: model.sample({}, "s", draws=1, chains=1),
        lambda: model.log_prob_bound({}, [[0, 1, 0, 1]], sampler="s"),
    ):
        with pytest.raises(gm.GmlmError, match="E409.*settles 1, 2, 3 cells, and there are 4"):
            use()
    with pytest.raises(gm.GmlmError, match="name `one`, from which it starts"):
        model.log_prob_bound({}, [[0, 1, 0, 1]], sampler="more")
