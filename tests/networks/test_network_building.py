"""How networks are made: counts, first values, types, dropout, classes of the user's, and what is refused."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from network_cases import BLOCKS, DECODER, N_CELLS, N_VALUES, SPAN, disturbed, form, ints, network, one_pass
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.graph import NetworkForm
from gmlmdsl.networks import AbstractNetwork, build_network, network_shapes, parameter_counts
from gmlmdsl.networks._layers import RMSNorm, dropout, features_kept

ONE = (("s", 6, 5),)
SEEN, SOURCE = ints([3, 5, 0, 5, 5, 1, 2, 4]), ints([1, 0, 4, 4, 2, 3])
BASE = BLOCKS | DECODER | {"layers": 6, "decoder_layers": 6, "heads": 8, "width": 512, "ffn": 2048, "positions": 256}
EVERY = [
    ("transformer", {}, ()),
    *(("encoder_decoder", {"length": k}, ONE) for k in ("classifier", "affine", "fertility", "oracle")),
    ("mlp", {}, ONE),
]


def base(vocabulary: int = 32128, given: tuple = (("src", 128, 32128),), **options: object) -> NetworkForm:
    return NetworkForm("encoder_decoder", BASE | options, 128, vocabulary, given, SPAN)


def test_the_base_model_has_the_published_number_of_parameters():
    counts = parameter_counts(network_shapes(base()))
    assert sum(counts.values()) == 66_997_760
    block, ffn = 4 * 512**2, 2 * 512 * 2048
    assert counts == {
        "embeddings": 32128 * 512,
        "encoder": 6 * (block + ffn + 2 * 512) + 32 * 8 + 512,
        "decoder": 6 * (3 * block + ffn + 4 * 512) + 32 * 8 + 512,
        "positions": 256 * 512,
        "length head": 128 * 512,
    }


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        (base(positional_attention=False), -6 * (4 * 512**2 + 512)),
        (base(length="oracle"), -128 * 512),
        (base(length="affine"), -128 * 512 + 2),
        (base(length="fertility"), -128 * 512 + 512 * 512 + 6 * 512),
        (base(32000), -128 * 512 + 32128 * 512),  # two vocabularies: two tables
        (base(given=(("a", 64, 32128), ("b", 64, 9))), 9 * 512),
    ],
)
def test_each_part_is_counted(changed: NetworkForm, difference: int):
    assert sum(parameter_counts(network_shapes(changed)).values()) == 66_997_760 + difference


@pytest.mark.parametrize(("name", "options", "given"), EVERY)
def test_a_network_is_a_tree_of_floats_whose_shapes_are_known_before(name: str, options: dict, given: tuple):
    made, shapes = build_network(form(name, options, given), jax.random.key(0)), network_shapes(form(name, options, given))
    assert isinstance(made, AbstractNetwork)
    assert jax.tree.structure(made) == jax.tree.structure(shapes)
    assert [(a.shape, a.dtype) for a in jax.tree.leaves(made)] == [(a.shape, a.dtype) for a in jax.tree.leaves(shapes)]
    assert all(eqx.is_inexact_array(a) and a.dtype == jnp.result_type(float) for a in jax.tree.leaves(made))
    assert hash(jax.tree.structure(made)) == hash(jax.tree.structure(shapes))
    other = build_network(form(name, options, given), jax.random.key(1))
    drawn = [a.ndim > 1 for a in jax.tree.leaves(made)]
    assert all(not np.array_equal(a, b) for a, b, d in zip(jax.tree.leaves(made), jax.tree.leaves(other), drawn, strict=True) if d)


@pytest.mark.slow
def test_first_values_have_the_spread_of_t5():
    """Standard deviations to within six of their own errors, 1 / sqrt(2 n) of them."""
    wide = {"width": 64, "heads": 4, "ffn": 96, "positions": 64}
    net = build_network(NetworkForm("encoder_decoder", BLOCKS | DECODER | wide, 40, 50, (("s", 9, 50),), SPAN), jax.random.key(3))
    block = net.decoder.layers[1]
    of_block = [
        (a, 1 / math.sqrt(64))
        for m in (block.self_attention, block.cross_attention, block.positional.attention)
        for a in (m.key, m.value, m.output)
    ]
    queries = [(m.query, 1 / math.sqrt(64 * 16)) for m in (block.self_attention, block.cross_attention, block.positional.attention)]
    rest = [(net.embeddings[0], 1.0), (net.positions, 1.0), (net.length_head.table, 1 / 8), (net.decoder.bias.table, 1 / 8)]
    ffn = [(block.ffn.inner, 1 / math.sqrt(64)), (block.ffn.outer, 1 / math.sqrt(96))]
    for array, sd in of_block + queries + rest + ffn:
        assert abs(np.std(array) / sd - 1) < 6 / math.sqrt(2 * array.size)
        assert abs(np.mean(array)) < 6 * sd / math.sqrt(array.size)
    assert all((n.scale == 1).all() for n in (block.self_norm, block.positional.norm, block.cross_norm, block.ffn_norm, net.decoder.norm))
    head = build_network(form("encoder_decoder", {"length": "affine"}, ONE), jax.random.key(0)).length_head
    assert (float(head.slope), float(head.intercept)) == (1, 0)


def cast(net: eqx.Module, dtype: type) -> eqx.Module:
    return jax.tree.map(lambda a: a.astype(dtype), net)


@pytest.mark.parametrize(("name", "options", "given"), thinned(EVERY, 6))
def test_half_precision_weights_give_single_precision_logits(name: str, options: dict, given: tuple):
    net = network(name, options, given)
    lengths, rows = (ints(5),) * len(given), (SOURCE,) * len(given)
    _, wanted = one_pass(net, rows, lengths, SEEN, ints(6))
    half = cast(net, jnp.bfloat16)
    encoded, found = one_pass(half, rows, lengths, SEEN, ints(6))
    assert (wanted.dtype, found.dtype) == (jnp.result_type(float), jnp.float32)
    spread = float(np.std(wanted[:6]))
    assert 0 < np.abs(np.asarray(found)[:6] - np.asarray(wanted)[:6]).max() < 0.2 * spread
    if half.length_head is not None:
        assert half.length_head.scores(encoded).dtype == half.length_head.loss(encoded, ints(3)).dtype == jnp.float32


@pytest.mark.slow
def test_norms_and_softmax_do_not_work_in_half_precision():
    """Weights sum to 1 as in single precision, and a norm is rounded once."""
    net = cast(network("encoder_decoder", None, ONE), jnp.bfloat16)

    @eqx.filter_jit
    def attention(net):
        encoded = net.encode((SOURCE,), (ints(6),))
        return net.attention(encoded, net.prepare(encoded, ints(8), 8), SEEN, ints(8))

    found = attention(net)
    assert found.self_weights.dtype == found.cross_weights.dtype == jnp.float32
    assert np.abs(found.self_weights.sum(axis=-1) - 1).max() < 1e-6
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((8, 512)), jnp.bfloat16)
    layer = cast(disturbed(RMSNorm(512), 0), jnp.bfloat16)
    exact, scale = np.asarray(x, float), np.asarray(layer.scale, float)
    exact = exact / np.sqrt(np.mean(exact**2, axis=1, keepdims=True) + 1e-6) * scale
    assert np.abs(np.asarray(layer(x), float) / exact - 1).max() <= 2**-8  # rounded once, at the end


@pytest.mark.parametrize(("name", "given"), thinned([("transformer", ()), ("encoder_decoder", ONE)], 2))
def test_dropout_needs_a_key(name: str, given: tuple):
    net = network(name, {"dropout": 0.4}, given)
    plain = network(name, {"dropout": 0.0}, given)
    rows, lengths = (SOURCE,) * len(given), (ints(5),) * len(given)

    def logits(net, of_encoder, of_pass):
        encoded = net.encode(rows, lengths, key=of_encoder)
        return np.asarray(net.logits(encoded, net.prepare(encoded, ints(8), 8), SEEN, ints(8), key=of_pass))

    one, two = jax.random.key(1), jax.random.key(2)
    assert np.array_equal(logits(net, None, None), logits(plain, None, None))
    assert np.array_equal(logits(plain, one, two), logits(plain, None, None))
    found = [logits(net, *k) for k in ((None, None), (None, one), (None, two), (one, None))]
    differ = [not np.allclose(a, b, atol=1e-3) for k, a in enumerate(found) for b in found[:k]]
    assert sum(differ) == (6 if given else 5)  # a transformer encodes nothing, so that its key changes nothing
    assert np.array_equal(found[1], logits(net, None, one))


def test_dropouts_of_a_pass_are_independent():
    """Eight of 4000 features, each kept with probability .75: of two of them both keep .5625."""
    kept = np.asarray(features_kept(jax.random.key(1), 0.25, 8, 4000))[:, 0]
    both = (kept[:, None] & kept[None]).mean(axis=-1)[~np.eye(8, dtype=bool)]
    assert np.abs(both - 0.5625).max() < 5 * math.sqrt(0.5625 * 0.4375 / 4000)


def test_dropout_keeps_the_mean_and_drops_whole_features():
    x = jnp.asarray(np.random.default_rng(0).standard_normal((3, 8)), jnp.float32)
    found = np.asarray(jax.vmap(lambda k: dropout(x, 0.25, features_kept(k, 0.25, 1, 8)[0]))(jax.random.split(jax.random.key(0), 4000)))
    dropped = found == 0
    assert (dropped == dropped[:, :1]).all()
    assert abs(dropped[:, 0].mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 32000)
    assert np.abs(found.mean(axis=0) - x).max() < 5 * float(np.abs(x).max()) * math.sqrt(1 / 3 / 4000)
    assert np.allclose(found[~dropped], np.broadcast_to(x / 0.75, found.shape)[~dropped])


@pytest.mark.parametrize(
    ("name", "given", "draws"), thinned([("transformer", (), {"pass": 6}), ("encoder_decoder", ONE, {"encode": 6, "pass": 8})], 2)
)
def test_every_dropout_of_a_pass_has_features_of_its_own(name: str, given: tuple, draws: dict[str, int]):
    """What enters, what leaves, two sub-layers of each block of an encoder, three of a decoder: each changes the pass in its own way."""
    net = network(name, {"dropout": 0.5, "layers": 2}, given)

    def logits(drawn: str) -> np.ndarray:
        key = {drawn: jax.random.key(0)}
        encoded = net.encode((SOURCE,) * len(given), (ints(5),) * len(given), key=key.get("encode"))
        return np.asarray(net.logits(encoded, net.prepare(encoded, ints(8), 8), SEEN, ints(8), key=key.get("pass")))

    for drawn, n in draws.items():
        found = [logits("")]
        for k in range(n):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(jax.random, "bernoulli", lambda key, p, shape, k=k: jnp.ones(shape, bool).at[k, :, ::2].set(False))
                found.append(logits(drawn))
        assert all(not np.allclose(a, b, atol=1e-3) for k, a in enumerate(found) for b in found[:k])


GIVEN = (("s", 6, 5), ("w", 3, 0))


def test_a_class_of_the_users_is_called_with_hidden_cells_and_padding_marked():
    made = build_network(form("python", {"target": "network_classes:Table", "scale": 2.0}, GIVEN), jax.random.key(5))
    assert made.length_head is None and made.module.scale == 2
    encoded = made.encode((SOURCE, jnp.asarray([0.5, 2.0, 7.0])), (ints(4), ints(2)))
    assert encoded[0].tolist() == [1, 0, 4, 4, 6, 6] and encoded[1].tolist() == [0.5, 2, 0]
    logits = made.logits(encoded, None, SEEN[:6], ints(4))
    added = 21 + 2.5
    assert np.allclose(logits, 2 * made.module.table[ints([3, 5, 0, 5, 6, 6])] + added, atol=1e-5)
    wanted = jax.random.normal(jax.random.key(5), (N_VALUES + 2, N_VALUES))
    assert np.array_equal(made.module.table, wanted)
    assert sum(parameter_counts(network_shapes(form("python", {"target": "network_classes:Table"}, GIVEN))).values()) == wanted.size


REFUSED = [
    ("E735", "network_classes:Nowhere", {}, "no attribute 'Nowhere'"),
    ("E735", "no_such_module_at_all:Table", {}, "No module named"),
    ("E735", "network_classes", {}, "cannot be imported"),
    ("E735", ":Table", {}, "cannot be imported"),
    ("E735", "network_classes:Plain", {}, "not a class of Equinox modules"),
    ("E735", "network_classes:Silent", {}, "not a class of Equinox modules"),
    ("E735", "network_classes:eqx", {}, "not a class of Equinox modules"),
    ("E735", "network_classes:Table", {"depth": 3}, "unexpected keyword argument 'depth'"),
    ("E736", "network_classes:Transposed", {}, "must return float logits of shape (8, 5), returned FLOAT of shape (5, 8)"),
    ("E736", "network_classes:Whole", {}, "returned int32 of shape (8, 5)"),
    ("E736", "network_classes:Pair", {}, "returned tuple"),
    ("E736", "network_classes:Deaf", {}, "cannot be called"),
]


@pytest.mark.parametrize(("code", "target", "options", "words"), REFUSED)
def test_a_class_that_does_not_fit_is_refused(code: str, target: str, options: dict, words: str):
    with pytest.raises(gm.GmlmError) as caught:
        build_network(form("python", {"target": target, **options}, GIVEN), jax.random.key(0))
    assert caught.value.codes == (code,)
    (found,) = caught.value.diagnostics
    assert words.replace("FLOAT", str(jnp.result_type(float))) in found.message and found.span == SPAN and found.help


UNFIT = [
    (form("transformer", {"heads": 3}), "does not divide by its 3 heads"),
    (form("transformer", {}, ONE), "takes no given variables"),
    (form("transformer", {"layers": 0}), "`layers` of `transformer` must be at least 1"),
    (form("transformer", {"heads": 0}), "`heads` of `transformer` must be at least 1"),
    (form("encoder_decoder", {"decoder_layers": 0}, ONE), "`decoder_layers` must be at least 1"),
    (form("encoder_decoder", {"positions": N_CELLS - 1}, ONE), "has 8 cells, and there are only 7 positions"),
    (form("encoder_decoder", {"position_embeddings": True}, (("s", 9, 5), ("u", 4, 5))), "has 13 cells, and there are only 12 positions"),
    (form("encoder_decoder", {}, ()), "is applied to none"),
    (form("encoder_decoder", {}, GIVEN), "`w` is real"),
    (form("mlp", {"width": 0}), "got 2 of 0"),
]


@pytest.mark.produces("E737")
@pytest.mark.parametrize(("unfit", "words"), UNFIT)
def test_options_that_do_not_fit_are_refused(unfit: NetworkForm, words: str):
    for made in (lambda: build_network(unfit, jax.random.key(0)), lambda: network_shapes(unfit)):
        with pytest.raises(gm.GmlmError, match=words) as caught:
            made()
        assert caught.value.codes == ("E737",) and caught.value.diagnostics[0].span == SPAN


def test_as_many_positions_as_cells_are_enough():
    assert network_shapes(form("encoder_decoder", {"positions": N_CELLS}, ONE)).positions.shape == (N_CELLS, 16)


@pytest.mark.produces("E738")
@pytest.mark.parametrize(
    "target", [("mlp", {}), ("python", {"target": "network_classes:Table"})], ids=["mlp", "a user's without the method"]
)
def test_networks_without_attention_say_so(target: tuple):
    made = build_network(form(*target), jax.random.key(0))
    with pytest.raises(gm.GmlmError) as caught:
        made.attention(made.encode((), ()), None, SEEN, ints(8))
    assert caught.value.codes == ("E738",)


def test_a_users_network_says_what_it_attends_to():
    made = build_network(form("python", {"target": "network_classes:Looking"}), jax.random.key(0))
    found = made.attention((), None, ints(np.arange(6) % N_VALUES), ints(4)).self_weights
    assert found.shape == (2, 3, 6, 6)  # for the cells that there are
    np.testing.assert_allclose(found[..., :4], 0.25)
    np.testing.assert_allclose(found[..., 4:], 0)


@pytest.mark.parametrize(("name", "words"), [("Flat", r"must return float weights of \(layers, heads, 8, 8\)"), ("Broken", "TypeError")])
def test_attention_of_another_shape_is_refused(name: str, words: str):
    made = build_network(form("python", {"target": f"network_classes:{name}"}), jax.random.key(0))
    given = () if name == "Flat" else (ints([0]),)
    with pytest.raises(gm.GmlmError, match=words) as caught:
        made.attention(given, None, SEEN, ints(8))
    assert caught.value.codes == ("E736",)
