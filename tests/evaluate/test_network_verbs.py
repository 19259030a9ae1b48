"""Lengths among the likeliest, and attention: verbs of conditional models beside row-by-row calls of the network."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm

PROGRAM = """
network net = encoder_decoder(layers = 1, heads = 2, width = 16, positional_attention = true, length = HEAD)
model m {
  given src[i in range(6)] : range(5)
  var tgt[j in range(6)] : range(5)
  conditional tgt ~ net(src)
}
mask all = everything(tgt)
"""
LENGTHS = np.array([3, 6, 1, 4])


def rows(seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).integers(0, 5, (4, 6))
    return np.where(np.arange(6) < LENGTHS[:, None], values, -1)


def model(head: str = "classifier") -> gm.ConditionalModel:
    return gm.parse(PROGRAM.replace("HEAD", head)).model()


@eqx.filter_jit
def scores_of_lengths(net, source, n):
    return net.length_head.scores(net.encode((source,), (n,)))


@eqx.filter_jit
def attention_of(net, source, row, n):
    encoded = net.encode((source,), (n,))
    return net.attention(encoded, net.prepare(encoded, n, len(row)), row, n)


@pytest.mark.slow
@pytest.mark.parametrize("head", thinned(["classifier", "affine", "fertility"], 3, 2))
def test_coverage_is_the_share_of_rows_whose_length_is_among_the_best(head: str):
    m = model(head)
    params, src = m.init_params(0), rows(0)
    ranks = []
    for row, n in zip(src, LENGTHS, strict=True):
        scores = np.asarray(scores_of_lengths(params["net"], jnp.asarray(row[:n], jnp.int32), jnp.asarray(n, jnp.int32)))
        true = 1 + (row[0] % 3)  # of the rows to predict, other lengths than those given
        ranks.append(int((scores > scores[true - 1]).sum()))
    tgt = np.where(np.arange(6) < 1 + (src[:, :1] % 3), 0, -1)
    found = m.length_coverage(params, tgt, given={"src": src}, missing=-1, top=(1, 2, 6))
    assert found == {k: np.mean(np.array(ranks) < k) for k in (1, 2, 6)}
    assert found[6] == 1


def test_coverage_needs_a_head_and_whole_numbers():
    m = model("oracle")
    with pytest.raises(gm.GmlmError, match="predicts no length") as caught:
        m.length_coverage(m.init_params(0), rows(1), given={"src": rows(0)}, missing=-1)
    assert caught.value.codes == ("E507",)
    m = model()
    with pytest.raises(gm.GmlmError, match="whole numbers from 1 to 6"):
        m.length_coverage(m.init_params(0), rows(1), given={"src": rows(0)}, missing=-1, top=(0,))


@pytest.mark.slow
def test_attention_is_that_of_the_network_row_by_row():
    m = model()
    params, src, tgt = m.init_params(0), rows(0), rows(1)
    found = m.attention(params, tgt, given={"src": src}, missing=-1)
    assert {k: v.shape for k, v in found.items()} == {"self": (4, 1, 2, 6, 6), "cross": (4, 1, 2, 6, 6), "positional": (4, 1, 2, 6, 6)}
    for r, n in enumerate(LENGTHS):
        source, row = (jnp.asarray(a[r, :n], jnp.int32) for a in (src, tgt))
        wanted = attention_of(params["net"], source, row, jnp.asarray(n, jnp.int32))
        np.testing.assert_allclose(found["self"][r, :, :, :n, :n], wanted.self_weights, atol=1e-5)
        np.testing.assert_allclose(found["cross"][r, :, :, :n, :n], wanted.cross_weights, atol=1e-5)
        np.testing.assert_allclose(found["self"][r, :, :, :n, n:], 0, atol=1e-7)
    seen = np.where(np.isin(np.arange(6), [1, LENGTHS[0] - 1]), -1, tgt[0])  # a hidden cell within the row, and its last one
    hidden = m.attention(params, seen[None], given={"src": src[:1]}, missing=-1, lengths=[LENGTHS[0]])
    source, n = jnp.asarray(src[0, : LENGTHS[0]], jnp.int32), LENGTHS[0]
    shown = jnp.asarray(np.where(seen < 0, 5, seen)[:n], jnp.int32)  # the code of what is hidden
    wanted = attention_of(params["net"], source, shown, jnp.asarray(n, jnp.int32))
    np.testing.assert_allclose(hidden["self"][0, :, :, :n, :n], wanted.self_weights, atol=1e-5)
    with pytest.raises(gm.GmlmError) as caught:
        m.attention(params, tgt, given={"src": src}, missing=-1, lengths=1)
    assert caught.value.codes == ("E507",)
    alone = gm.parse("network net = mlp()\nmodel m { var x[i in range(2)] : bit  conditional x ~ net() }\n").model()
    with pytest.raises(gm.GmlmError) as caught:
        alone.attention(alone.init_params(0), [[0, 1]])
    assert caught.value.codes == ("E738",)
