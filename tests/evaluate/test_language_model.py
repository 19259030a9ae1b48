"""A causal transformer without given data: the joint law of its rows, beside enumeration of all of them."""

from __future__ import annotations

import itertools
import subprocess
import sys

import jax
import numpy as np
import optax
import pytest

import gmlmdsl as gm

PROGRAM = """
input n : int = 4
index t = range(n)
network lm = transformer(layers = 2, heads = 2, width = 8, causal = true)
model words {
  var x[i in t] : range(3)
  conditional x ~ lm()
}
mask forced for words = everything(x, noise = {keep: 1})
sampler plain for words = autoregressive(end = 2, decode = sample, top_p = 0.9)
"""
EVERY = np.array(list(itertools.product(range(3), repeat=4)))


@pytest.fixture(scope="module")
def shared() -> gm.Model:
    """One model for all tests: what is compiled for one serves the next."""
    with jax.enable_x64(True):
        return gm.parse(PROGRAM).model()


@pytest.fixture
def model(shared: gm.Model, float64: None) -> gm.Model:
    return shared


def test_log_p_sums_to_one_and_is_the_loss_of_teacher_forcing(model: gm.Model) -> None:
    params = model.init_params(3)
    log_p = np.asarray(model.log_prob(params, EVERY))
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-12)
    assert float(model.loss(params, EVERY[:20])) == pytest.approx(-log_p[:20].mean(), abs=1e-12)
    weights = np.arange(1.0, 21)
    assert float(model.loss(params, EVERY[:20], weights=weights)) == pytest.approx(-np.average(log_p[:20], weights=weights), abs=1e-12)


@pytest.mark.parametrize("t", range(4))
def test_the_next_symbol_is_a_ratio_of_sums_over_all_rows(model: gm.Model, t: int) -> None:
    params = model.init_params(3)
    p = np.exp(np.asarray(model.log_prob(params, EVERY))).reshape((3,) * 4)
    joint = p.sum(axis=tuple(range(t + 1, 4))).reshape(-1, 3)
    prefixes = np.array(list(itertools.product(range(3), repeat=t)), int).reshape(3**t, t)
    np.testing.assert_allclose(model.next_symbol(params, prefixes), joint / joint.sum(axis=1, keepdims=True), atol=1e-12)
    assert model.next_symbol(params, prefixes[0]).shape == (3,)
    assert model.next_symbol(params, prefixes[:0]).shape == (0, 3)


@pytest.mark.slow  # a training; the gate trains networks in tests/train
@pytest.mark.usefixtures("standard_promotion")
def test_a_fit_learns_a_law_of_its_rows(model: gm.Model, tmp_path) -> None:
    """Rows that alternate between 0 and 1 and start with either: -log p of each comes near log 2; saved weights answer alike."""
    rows = np.array([[0, 1, 0, 1], [1, 0, 1, 0]] * 32)
    fit = model.fit(rows, max_steps=150, batch_size=16, optimizer=optax.adam(1e-2), seed=0, progress=False)
    found = -np.asarray(model.log_prob(fit.params, rows[:2]))
    assert (found > np.log(2) - 0.1).all()
    assert (found < np.log(2) + 0.1).all()
    fit.save(tmp_path / "words.fit")
    again = gm.load_fit(tmp_path / "words.fit")
    np.testing.assert_array_equal(model.log_prob(again.params, EVERY), model.log_prob(fit.params, EVERY))


def test_explain_states_the_sum_of_next_symbol_terms(tmp_path) -> None:
    path = tmp_path / "lm.gmlm"
    path.write_text(PROGRAM)
    found = subprocess.run([sys.executable, "-m", "gmlmdsl", "explain", str(path)], capture_output=True, text=True, check=True).stdout
    assert "p(x_i | x_<i) = softmax(lm(x_<i)_i)" in found
    assert "−log p(x_i | x_<i)" in found


@pytest.mark.parametrize(
    ("code", "ask"),
    [
        ("E742", lambda m, p: m.log_conditional(p, EVERY[:1], 0)),
        ("E742", lambda m, p: m.log_potential(p, EVERY)),
        ("E742", lambda m, p: m.sample(p, "exact")),
        ("E507", lambda m, p: m.next_symbol(p, EVERY)),
        ("E502", lambda m, p: m.next_symbol(p, [[0, 3]])),
        ("E511", lambda m, p: m.log_prob(p, [[0, -1, 1, 1]], missing=-1)),
        ("E510", lambda m, p: m.log_prob(p, EVERY, given={"s": [1]})),
    ],
)
def test_what_it_does_not_answer(model: gm.Model, code: str, ask) -> None:
    with pytest.raises(gm.GmlmError) as caught:
        ask(model, model.init_params(0))
    assert caught.value.codes == (code,)


def test_the_next_symbol_of_other_networks_is_refused() -> None:
    other = gm.parse(PROGRAM.replace(", causal = true", "").split("mask")[0]).model()
    with pytest.raises(gm.GmlmError) as caught:
        other.next_symbol(other.init_params(0), EVERY[:, :2])
    assert caught.value.codes == ("E742",)


@pytest.mark.parametrize(
    ("network", "code", "text"),
    [
        ("transformer(layers = 1, causal = true, position_embeddings = true)", "E325", "no table of positions"),
        ("encoder_decoder(layers = 1, causal = true)", "E326", "a `transformer(.., causal = true)` does"),
        ("encoder_decoder(layers = 1)", "E326", "without one a `transformer` does"),
    ],
)
def test_networks_point_to_what_there_is(network: str, code: str, text: str) -> None:
    """A causal network without given data is a `transformer`, to which the refusal of the other form points."""
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse(f"network net = {network}\nmodel m {{ var x[i in range(3)] : bit\n  conditional x ~ net() }}\n")
    assert caught.value.codes == (code,)
    assert text in str(caught.value)
