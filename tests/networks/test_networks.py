"""Every network against the oracle's loops, in float64; what padding, hidden cells and folding may change."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from network_cases import N_CELLS, N_VALUES, ints, network, one_pass
from oracle import _networks as oracle
from thinned import thinned

SEEN = [3, 5, 0, 5, 5, 1, 2, 4]  # 5 = hidden
ONE, TWO, OTHER = (("s", 6, 5),), (("s", 6, 5), ("u", 3, 4)), (("s", 6, 7),)
SOURCE, SECOND = [1, 0, 4, 4, 2, 3], [3, 0, 2]
HEADS = ("classifier", "affine", "fertility", "oracle")


def close(a: object, b: object) -> bool:
    return np.allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-10)


def run(net, given, lengths, seen, length):
    return one_pass(
        net,
        tuple(jnp.asarray(g) if np.asarray(g).dtype == float else ints(g) for g in given),
        tuple(map(ints, lengths)),
        ints(seen),
        ints(length),
    )


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("length", [1, 6, 8])
def test_a_transformer_computes_what_t5_describes(length: int, added: bool):
    net = network("transformer", {"position_embeddings": added})
    _, logits = run(net, (), (), SEEN, length)
    assert logits.dtype == jnp.float64
    assert close(logits[:length], oracle.transformer(net, np.array(SEEN[:length]), added)[0])


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("added", thinned([False, True], 2, 1))
@pytest.mark.parametrize("positional", [True, False])
@pytest.mark.parametrize(("given", "lengths"), thinned([(ONE, (6,)), (ONE, (4,)), (TWO, (4, 3)), (TWO, (6, 1)), (OTHER, (5,))], 5, 1))
def test_an_encoder_decoder_computes_what_t5_describes(positional: bool, added: bool, given: tuple, lengths: tuple):
    options = {"positional_attention": positional, "position_embeddings": added, "decoder_layers": 3}
    net = network("encoder_decoder", options, given)
    _, logits = run(net, (SOURCE, SECOND)[: len(given)], lengths, SEEN, 6)
    cut = [(np.array(v[:n]), q) for v, n, (_, _, q) in zip((SOURCE, SECOND), lengths, given, strict=False)]
    assert close(logits[:6], oracle.encoder_decoder(net, cut, np.array(SEEN[:6]), added)[0])


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_an_mlp_is_a_perceptron_on_one_hot_cells(layers: int):
    net = network("mlp", {"layers": layers}, (("s", 6, 5), ("w", 3, 0)))
    real = np.array([0.4, -1.2, 9.0])
    _, logits = run(net, (SOURCE, real), (4, 2), SEEN, 7)
    seen, codes, kept = np.array([*SEEN[:7], -1]), np.array([*SOURCE[:4], -1, -1]), np.array([0.4, -1.2, 0.0])
    assert logits.shape == (N_CELLS, N_VALUES)
    assert close(logits, oracle.mlp(net, N_VALUES, [(codes, 5), (kept, 0)], seen))


def test_distances_fall_into_the_buckets_of_t5():
    from gmlmdsl.networks._layers import relative_buckets

    distances = np.arange(-300, 301)
    assert np.asarray(relative_buckets(ints(distances))).tolist() == [oracle.bucket(int(d)) for d in distances]


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
def test_positional_attention_is_folded_once():
    net = network("encoder_decoder", None, ONE)
    encoded, first = run(net, (SOURCE,), (6,), SEEN, 6)
    prepared = eqx.filter_jit(lambda net, encoded: net.prepare(encoded, ints(6), 8))(net, encoded)
    _, _, _, weights = oracle.encoder_decoder(net, [(np.array(SOURCE), 5)], np.array(SEEN[:6]))
    assert close(jnp.stack(prepared.positional)[:, :, :6, :6], weights)
    assert not np.asarray(jnp.stack(prepared.positional))[..., 6:].any()
    other = [0] * 8  # other tokens, the same weights
    again = eqx.filter_jit(lambda net, *seen: net.logits(*seen))(net, encoded, prepared, ints(other), ints(6))
    assert close(again[:6], oracle.encoder_decoder(net, [(np.array(SOURCE), 5)], np.array(other[:6]))[0])
    assert not close(again, first)


FORMS = [("transformer", ()), ("encoder_decoder", ONE), ("encoder_decoder", TWO), ("mlp", ONE), ("mlp", ())]
PLACED = {name: {"position_embeddings": True} for name in ("transformer", "encoder_decoder")}


@pytest.mark.parametrize(("name", "given"), thinned(FORMS, 4, 2))
def test_nothing_depends_on_what_stands_in_padding(name: str, given: tuple):
    """Not even in the last bit: of a row behind its length, nor of a given array behind its own."""
    net = network(name, PLACED.get(name), given)
    lengths = (4, 2)[: len(given)]
    rows = [list(SOURCE), list(SECOND)][: len(given)]
    encoded, logits = run(net, rows, lengths, SEEN, 5)
    changed = [[*row[:n], *([2, 9, -1, 0, 3][: len(row) - n])] for row, n in zip(rows, lengths, strict=True)]
    again, same = run(net, changed, lengths, [*SEEN[:5], 0, -1, 77], 5)
    assert np.array_equal(np.asarray(logits), np.asarray(same))
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(encoded), jax.tree.leaves(again), strict=True) if a.ndim == 1)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("name", "given"), thinned(FORMS, 4, 3))
def test_a_narrower_input_gives_the_same_logits(name: str, given: tuple):
    net = network(name, PLACED.get(name), given)
    rows, lengths = (SOURCE, SECOND)[: len(given)], (4, 2)[: len(given)]
    _, logits = run(net, rows, lengths, SEEN, 5)
    _, narrow = run(net, [row[:n] for row, n in zip(rows, lengths, strict=True)], lengths, SEEN[:6], 5)
    assert narrow.shape == (6, N_VALUES)
    assert close(narrow[:5], logits[:5])


@pytest.mark.parametrize(("name", "given"), [("transformer", ()), ("encoder_decoder", ONE)])
def test_every_code_outside_the_domain_is_a_hidden_cell(name: str, given: tuple):
    net = network(name, None, given)
    _, logits = run(net, (SOURCE,)[: len(given)], (6,)[: len(given)], SEEN, 8)
    for code in (-1, 6, 1000):
        _, same = run(net, (SOURCE,)[: len(given)], (6,)[: len(given)], [code if c == 5 else c for c in SEEN], 8)
        assert np.array_equal(np.asarray(logits), np.asarray(same))
    _, other = run(net, (SOURCE,)[: len(given)], (6,)[: len(given)], [4 if c == 5 else c for c in SEEN], 8)
    assert not np.allclose(logits, other, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "options", "given"),
    [("encoder_decoder", None, ONE), ("encoder_decoder", {"positional_attention": False}, ONE), ("transformer", None, ())],
)
def test_cells_of_an_all_hidden_row_differ(name: str, options: dict | None, given: tuple):
    """With one vector in all cells, attention over them gives every cell the same: a first pass would say one thing n times."""
    net = network(name, options, given)
    same = eqx.tree_at(lambda n: n.positions, net, jnp.ones_like(net.positions))
    _, known = run(net, (SOURCE,) * len(given), (6,) * len(given), [5] * 8, 8)
    _, unknown = run(same, (SOURCE,) * len(given), (6,) * len(given), [5] * 8, 8)
    assert np.abs(np.diff(np.asarray(known), axis=0)).max(axis=1).min() > 0.01
    if not (options is None and given):  # positional attention reads the table in another place too
        assert np.abs(np.diff(np.asarray(unknown), axis=0)).max() < 1e-4


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", HEADS[:3])
@pytest.mark.parametrize(("given", "lengths"), thinned([(ONE, (6,)), (TWO, (4, 2))], 2, 1))
def test_a_length_head_computes_its_formula(kind: str, given: tuple, lengths: tuple):
    net = network("encoder_decoder", {"length": kind}, given)
    encoded, _ = run(net, (SOURCE, SECOND)[: len(given)], lengths, SEEN, 8)
    cut = [(np.array(v[:n]), q) for v, n, (_, _, q) in zip((SOURCE, SECOND), lengths, given, strict=False)]
    wanted = oracle.length_scores(net.length_head, kind, net, cut, N_CELLS)
    every = jnp.arange(1, N_CELLS + 1, dtype=jnp.int32)
    scores, losses = eqx.filter_jit(lambda head, e: (head.scores(e), jax.vmap(lambda n: head.loss(e, n))(every)))(net.length_head, encoded)
    assert close(scores, wanted)
    assert close(losses, -wanted)
    assert net.length_weight == 0.1


def test_an_oracle_predicts_no_length():
    net = network("encoder_decoder", {"length": "oracle"}, ONE)
    assert net.length_head is None and net.length_weight == 0


def test_the_place_of_the_length_is_seen_by_nobody():
    """The same weights without it give the same states, in every bit of what each attention sums."""
    net = network("encoder_decoder", None, ONE)
    without = eqx.tree_at(lambda n: n.length_head, net, None)
    with_place, logits = run(net, (SOURCE,), (4,), SEEN, 8)
    alone, same = run(without, (SOURCE,), (4,), SEEN, 8)
    assert alone.place is None and with_place.place is not None
    assert np.allclose(with_place.states, alone.states, atol=1e-6) and np.allclose(logits, same, atol=1e-5)
    cotangents = jax.jit(jax.grad(lambda e: _encode_at(net, e).states.sum()))(jnp.ones(16))
    assert not np.asarray(cotangents).any()
    assert np.asarray(jax.jit(jax.grad(lambda e: _encode_at(net, e).place.sum()))(jnp.ones(16))).any()


def _encode_at(net, place):
    """The encoding where a vector is added to what enters at the place of the length."""
    encoder = net.encoder

    class Shifted(eqx.Module):
        bias: object

        def __call__(self, x, bias, key):
            return encoder(x.at[0].add(place), bias, key)

    return eqx.tree_at(lambda n: n.encoder, net, Shifted(encoder.bias)).encode((ints(SOURCE),), (ints(4),))


@pytest.mark.parametrize(("kind", "flows"), [("classifier", True), ("affine", False), ("fertility", False)])
def test_only_a_classifier_teaches_the_encoder(kind: str, flows: bool):
    net = network("encoder_decoder", {"length": kind}, ONE)
    loss = eqx.filter_grad(lambda n: n.length_head.loss(n.encode((ints(SOURCE),), (ints(6),)), ints(3)))
    grads = eqx.filter_jit(loss)(net)
    sizes = [float(jnp.abs(g).max()) for g in jax.tree.leaves(grads.encoder)]
    assert (max(sizes) > 0) is flows
    assert all(float(jnp.abs(g).max()) > 0 for g in jax.tree.leaves(grads.length_head))


@pytest.mark.parametrize(("name", "given"), thinned(FORMS, 2, 1))
@pytest.mark.parametrize("length", thinned([0, 8], 2))
def test_gradients_are_finite_where_nothing_is_seen(name: str, given: tuple, length: int):
    net = network(name, None, given)

    def loss(n):
        lengths = (ints(0), ints(0))[: len(given)]
        encoded = n.encode(tuple(ints(v) for v in (SOURCE, SECOND)[: len(given)]), lengths)
        return jnp.square(n.logits(encoded, n.prepare(encoded, ints(length), 8), ints([5] * 8), ints(length))).sum()

    assert all(np.isfinite(g).all() for g in jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(loss))(net)))


@pytest.mark.parametrize(("name", "given"), thinned(FORMS[:3], 3, 1))
def test_candidates_share_an_encoding(name: str, given: tuple):
    net = network(name, None, given)
    encoded, _ = run(net, (SOURCE, SECOND)[: len(given)], (4, 2)[: len(given)], SEEN, 8)
    lengths, seen = ints([3, 8, 5]), ints([SEEN, SEEN[::-1], [5] * 8])

    @eqx.filter_jit
    def of_one(net, encoded, seen, length):
        return net.logits(encoded, net.prepare(encoded, length, 8), seen, length)

    logits = eqx.filter_jit(jax.vmap(of_one, in_axes=(None, None, 0, 0)))(net, encoded, seen, lengths)
    for k, n in enumerate((3, 8, 5)):
        alone = of_one(net, encoded, seen[k], lengths[k])
        assert np.allclose(logits[k, :n], alone[:n], atol=1e-5)


@eqx.filter_jit
def attention(net, encoded):
    """The weights of attention for a row of six cells in eight places."""
    return net.attention(encoded, net.prepare(encoded, ints(6), 8), ints(SEEN), ints(6))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("positional", thinned([True, False], 2))
def test_attention_weights_are_those_of_the_pass(positional: bool):
    net = network("encoder_decoder", {"positional_attention": positional}, ONE)
    encoded, _ = run(net, (SOURCE,), (4,), SEEN, 6)
    found = attention(net, encoded)
    _, here, there, placed = oracle.encoder_decoder(net, [(np.array(SOURCE[:4]), 5)], np.array(SEEN[:6]))
    assert found.self_weights.shape == (2, 2, 8, 8) and found.cross_weights.shape == (2, 2, 8, 6)
    assert close(found.self_weights[:, :, :6, :6], here) and close(found.cross_weights[:, :, :6, :4], there)
    assert not np.asarray(found.self_weights)[..., 6:].any() and not np.asarray(found.cross_weights)[..., 4:].any()
    for weights in jax.tree.leaves(found):
        assert close(weights.sum(axis=-1), np.ones(weights.shape[:-1]))
    assert close(found.positional_weights[:, :, :6, :6], placed) if positional else found.positional_weights is None


@pytest.mark.usefixtures("float64")
def test_attention_of_a_transformer():
    net = network("transformer")
    found = attention(net, None)
    assert close(found.self_weights[:, :, :6, :6], oracle.transformer(net, np.array(SEEN[:6]))[1])
    assert found.cross_weights is None and found.positional_weights is None
