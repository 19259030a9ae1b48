"""Squared error, squares of weights, regularisers and norms: steps and numbers against NumPy; seeds share what is compiled."""

from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.derive._bounded_jit import PROGRAMS

pytestmark = pytest.mark.usefixtures("standard_promotion")

N, Q, RATE, ROWS = 4, 3, 0.25, 6
SGD = optax.sgd(RATE)  # one object for all: what is compiled for one fit serves the next
TEXT = """
network net = python("own_network:Table")
model m {
  var x[i in range(4)] : range(3)
  conditional x ~ net()
}
mask whole = everything(x)
sampler s { update x[i] for i in range(4) }
"""


@pytest.fixture(scope="module")
def model():
    """Logits of each cell, whatever is seen: 12 numbers."""
    return gm.parse(TEXT, allow_python=True).model()


def rows(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, Q, (ROWS, N))


def fitted(model, x=None, steps=1, missing=None, seed=0, **options):
    method = gm.Training(steps=steps, batch_size=ROWS, **options)
    return model.fit(rows() if x is None else x, optimizer=SGD, seed=seed, missing=missing, method=method, progress=False)


def first(model, seed: int = 0) -> np.ndarray:
    return np.asarray(model.init_params(seed)["net"].module.logits, np.float64)


def after(fit) -> np.ndarray:
    return np.asarray(fit.network.module.logits, np.float64)


def weight_sum(network, batch):
    return jnp.sum(network.module.logits)


def rows_times_weights(network, batch):
    """The mean of the first cells' codes, of rows that count, times the first weight."""
    return (batch.weights @ jnp.maximum(batch.x[:, 0], 0)) / batch.weights.sum() * network.module.logits[0, 0]


@pytest.mark.parametrize("smoothing", thinned([0.0, 0.3], 2, 1))
def test_a_step_of_squared_error_is_that_of_numpy(model, smoothing):
    x, w = rows(), first(model)
    target = np.eye(Q)[x] * (1 - smoothing) + smoothing / Q
    fit = fitted(model, loss="squared", label_smoothing=smoothing)
    np.testing.assert_allclose(fit.loss_trace[0], ((w - target) ** 2).sum() / (ROWS * N), rtol=1e-5)
    np.testing.assert_allclose(after(fit), w - RATE * 2 * (w - target).sum(axis=0) / (ROWS * N), rtol=1e-5, atol=1e-6)


def test_missing_cells_have_no_squared_error(model):
    x, w = rows(), first(model)
    x[1:, 2:] = -1
    seen = x >= 0
    fit = fitted(model, x, missing=-1, loss="squared")
    total = (((w - np.eye(Q)[x]) ** 2).sum(axis=-1) * seen).sum()
    np.testing.assert_allclose(fit.loss_trace[0], total / seen.sum(), rtol=1e-5)


def test_squared_error_comes_to_the_frequencies(model):
    x = rows()
    fit = fitted(model, steps=200, loss="squared")
    np.testing.assert_allclose(after(fit), np.eye(Q)[x].mean(axis=0), atol=1e-4)


@pytest.mark.parametrize("loss", thinned(["cross_entropy", "squared"], 2))
def test_l2_draws_weights_to_zero(model, loss):
    w, plain, drawn = first(model), after(fitted(model, loss=loss)), after(fitted(model, loss=loss, l2=0.1))
    np.testing.assert_allclose(plain - drawn, RATE * 2 * 0.1 * w, rtol=1e-4, atol=1e-6)


def test_a_regulariser_is_added_and_not_shown(model):
    plain, more = fitted(model), fitted(model, regulariser=weight_sum)
    np.testing.assert_allclose(after(plain) - after(more), RATE, rtol=1e-5)
    assert plain.loss_trace == more.loss_trace


def test_a_regulariser_sees_the_rows_of_the_batch(model):
    x = rows()
    x[2:, 1:] = -1
    moved = after(fitted(model, x, missing=-1)) - after(fitted(model, x, missing=-1, regulariser=rows_times_weights))
    wanted = np.zeros((N, Q))
    wanted[0, 0] = RATE * x[:, 0].mean()
    np.testing.assert_allclose(moved, wanted, rtol=1e-4, atol=1e-6)


def test_a_batch_has_padding_and_a_key_of_its_own(model):
    found = []

    def look(network, batch):
        found.append((batch.x.shape, batch.weights.shape, batch.given, batch.key.shape))
        return jnp.zeros(())

    fitted(model, regulariser=look)
    assert set(found) == {((ROWS, N), (ROWS,), (), ())}


@pytest.mark.parametrize(
    ("regulariser", "said"),
    [
        (lambda network, batch: network.module.logits, "returned FLOAT of shape (4, 3)"),
        (lambda network, batch: jnp.sum(batch.x), "returned INT of shape ()"),
        (lambda network: 0.0, "TypeError"),
        (lambda network, batch: batch.lengths, "has no attribute 'lengths'"),
    ],
)
def test_a_regulariser_that_does_not_fit_is_refused(model, regulariser, said):
    with pytest.raises(gm.GmlmError, match="regulariser") as caught:
        fitted(model, regulariser=regulariser)
    assert caught.value.codes == ("E704",)
    for word, kind in (("FLOAT", float), ("INT", int)):  # of the working precision
        said = said.replace(word, str(jnp.result_type(kind)))
    assert said in str(caught.value)


@pytest.mark.parametrize("options", [{"loss": "absolute"}, {"l2": -1.0}, {"l2": float("inf")}, {"l2": True}, {"regulariser": 3}])
def test_options_that_cannot_be_meant_are_refused(model, options):
    with pytest.raises(gm.GmlmError) as caught:
        fitted(model, **options)
    assert caught.value.codes == ("E704",)


def test_validation_measures_the_loss_without_what_is_added(model):
    x, other = rows(), rows(1)
    fit = fitted(model, x, loss="squared", l2=3.0, regulariser=weight_sum, validation={"x": other}, evaluate_every=1)
    np.testing.assert_allclose(fit.validation_trace[0, 1], ((after(fit) - np.eye(Q)[other]) ** 2).sum() / other.size, rtol=1e-5)


@pytest.mark.slow  # test_checkpoints.py refuses what another run left
def test_a_run_goes_on_under_the_same_penalty_alone(model, tmp_path):
    def summed(scale):
        return lambda network, batch: scale * jnp.sum(network.module.logits**2)

    whole = fitted(model, steps=4, l2=0.1, regulariser=summed(0.5))
    fitted(model, steps=2, l2=0.1, regulariser=summed(0.5), checkpoint=tmp_path)
    again = fitted(model, steps=4, l2=0.1, regulariser=summed(0.5), checkpoint=tmp_path)  # another function of the same
    assert np.array_equal(after(whole), after(again))
    for options in ({"l2": 0.2, "regulariser": summed(0.5)}, {"l2": 0.1, "regulariser": summed(0.6)}, {"l2": 0.1}):
        with pytest.raises(gm.GmlmError) as caught:
            fitted(model, steps=4, checkpoint=tmp_path, **options)
        assert caught.value.codes == ("E752",)
    with pytest.raises(gm.GmlmError, match="loss"):
        fitted(model, steps=4, checkpoint=tmp_path, loss="squared", l2=0.1, regulariser=summed(0.5))


def test_the_log_has_the_norms_of_parts(model, tmp_path):
    fit = fitted(model, steps=20, log=tmp_path / "log")
    (line,) = map(json.loads, (tmp_path / "log").read_text(encoding="utf-8").splitlines())
    assert set(line["norms"]) == {"logits"}  # the parts of the user's module
    np.testing.assert_allclose(line["norms"]["logits"], np.sqrt((after(fit) ** 2).sum()), rtol=1e-5)
    assert fit.summary()["logits"] == N * Q


@pytest.mark.slow
def test_a_fit_by_squared_error_says_what_it_is(model, tmp_path):
    fit = fitted(model, loss="squared")
    assert "squared error per hidden cell" in repr(fit)
    fit.save(tmp_path / "fit")
    for one in (fit, gm.load_fit(tmp_path / "fit", allow_python=True)):
        for call in (lambda one=one: one.sample("s"), lambda one=one: one.loss(rows())):
            with pytest.raises(gm.GmlmError, match="no logits"):
                call()
    assert "nats per hidden cell" in repr(fitted(model))


def test_fits_with_several_seeds_share_what_is_compiled(model):
    """A sweep over seeds compiles once: what it takes beside one fit is the steps alone."""
    fitted(model, seed=0, loss="squared", l2=0.01, regulariser=weight_sum)
    before = set(PROGRAMS.kept)
    for seed in range(1, 5):
        fitted(model, seed=seed, loss="squared", l2=0.01 * seed, regulariser=weight_sum)
    assert set(PROGRAMS.kept) == before
