"""What the published code of PaDIR gets wrong, each beside what is done here: the tests fail on the published behaviour."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chi_square import p_value
from network_cases import disturbed
from networks_cases import Spy, draws, keys, made, normalised, pairs, stats
from oracle import _tabular as oracle
from thinned import thinned

from gmlmdsl import derive
from gmlmdsl.derive._network_kernels import least
from gmlmdsl.derive._refinement import RefinementKernel, stuttering

N, Q = 6, 5


def kernel_of(model, sampler: str) -> RefinementKernel:
    found = derive.build_kernel(model.lowered, model.sampler(sampler)[1]).kernel
    assert isinstance(found, RefinementKernel)
    return found


# 1. Inputs of the second stage are cut off at the length


def published_stages(logits, row, length: int) -> float:
    """The second stage sees predictions at every position, those behind the end among them."""
    total, shown = 0.0, [Q] * length + [Q + 1] * (N - length)
    for _ in range(2):
        table = normalised(lambda seen: logits(seen))(shown)
        total += sum(-np.log(table[i, row[i]]) for i in range(length)) / 2
        shown = np.argmax(table, axis=1).tolist()
    return total


def test_1_the_second_stage_sees_nothing_behind_the_length():
    more = "mask two = everything(x, stages = 2)\nmask one = everything(x)\n"
    model, logits = made('python("networks_cases:Pairs", seed = 1)', N, Q, more), pairs(N, Q, 1)
    row = [1, 4, 0, -1, -1, -1]
    found = float(model.loss(model.init_params(), [row], "two", key=jax.random.key(0), missing=-1))
    ours = oracle.staged_loss(normalised(logits), row[:3], Q, range(3), [Q] * 3, 2)
    assert found == pytest.approx(ours, rel=1e-5)
    assert abs(published_stages(logits, row, 3) - found) > 0.05


# 2. A run of equal tokens does not go round the end


def published_stutter(tokens: np.ndarray) -> np.ndarray:
    return tokens == np.roll(tokens, 1)


@pytest.mark.parametrize("length", [3, 5, 1])
def test_2_the_first_token_does_not_repeat_the_last(length: int):
    tokens = np.array([2, 1, 2, 2, 2, 0])
    present = np.arange(6) < length
    found = np.asarray(stuttering(jnp.asarray(tokens[:, None]), jnp.asarray(present[:, None])))[:, 0]
    wanted = [i > 0 and i < length and tokens[i] == tokens[i - 1] for i in range(6)]
    assert found.tolist() == wanted
    assert published_stutter(tokens[:length])[0]
    assert not found[0]


def test_2_a_decode_whose_ends_agree_keeps_its_first_token():
    """Seen by the network: under `remask = stutter` the second pass shows everything where only the ends agree."""
    model = made(
        'python("networks_cases:Spy", scale = 0)', 3, 3, "mask m = everything(x)\nsampler s = refinement(steps = 2, remask = stutter)\n"
    )
    net = model.init_params()["net"]
    own = jnp.asarray([[0.0, 5, 0], [5, 0, 0], [0, 5, 0]])  # 1 0 1
    Spy.seen.clear()
    model.sample({"net": eqx.tree_at(lambda n: n.module.own, net, own)}, "s")
    jax.effects_barrier()
    assert Spy.seen == [[3, 3, 3], [1, 0, 1]]


# 3. Nothing is deleted at the end, and nothing leaves the score


def published_cleanup(tokens: np.ndarray, start: np.ndarray, log_p: np.ndarray) -> tuple[np.ndarray, float]:
    """Positions that equal their initial token become padding, and their log p leaves the score."""
    same = tokens == start
    return np.where(same, -1, tokens), float(np.where(same, 0, log_p).sum())


@pytest.mark.parametrize("remask", ["none", "stutter"])
def test_3_a_token_that_equals_its_start_stays_and_counts(remask: str):
    """A network that copies: with one pass every token equals its random start."""
    more = f"mask m = everything(x, noise = {{uniform: 1}})\nsampler s = refinement(steps = 1, start = uniform, remask = {remask})\n"
    model = made('python("networks_cases:Copy", sharp = 3)', N, Q, more)
    idata = model.sample(model.init_params(), "s", draws=50)
    tokens, own = draws(idata), 3 - np.log(np.exp(3) + Q - 1)
    assert (tokens >= 0).all()
    assert np.allclose(stats(idata, "score"), own, atol=1e-5)
    gone, score = published_cleanup(tokens[0, 0], tokens[0, 0], np.full(N, own))
    assert (gone == -1).all()
    assert score == 0


# 4. No array over the vocabulary is carried from pass to pass


def carried(function, *arguments) -> list[tuple[int, ...]]:
    """The shapes that loops inside of a function carry."""
    found: list[tuple[int, ...]] = []

    def walk(jaxpr) -> None:
        for equation in jaxpr.eqns:
            if equation.primitive.name == "scan":
                first, count = equation.params["num_consts"], equation.params["num_carry"]
                found.extend(tuple(v.aval.shape) for v in equation.invars[first : first + count])
            for value in equation.params.values():
                for inner in value if isinstance(value, tuple | list) else (value,):
                    if hasattr(inner, "jaxpr"):
                        walk(inner.jaxpr)
                    elif hasattr(inner, "eqns"):
                        walk(inner)

    walk(jax.make_jaxpr(function)(*arguments).jaxpr)
    return found


VOCABULARY = 37


@pytest.fixture(scope="module")
def translator():
    """A small model of the kind, with a vocabulary whose size is no other size."""
    network = "encoder_decoder(layers = 1, heads = 2, width = 16, ffn = 16, positional_attention = true, positions = 128)"
    more = "mask m = everything(x)\nsampler fixed = padir(steps = 3, lengths = 2)\nsampler ends = padir(steps = 3, lengths = 1, stop = fixed_point)\n"
    more += (
        "sampler linear = mask_predict(steps = 3, lengths = 1)\nsampler early = refinement(steps = 5, schedule = threshold, lengths = 1)\n"
    )
    return made(network, 128, VOCABULARY, more, "s[j in range(128)] : range(37)")


@pytest.fixture(scope="module")
def weights(translator):
    return disturbed(translator.init_params()["net"], 5)


def target_of(net, chains: int = 4) -> derive.Target:
    source, lengths = jnp.asarray([[3, 1, 4, 1]], jnp.int32), jnp.asarray([4], jnp.int32)
    encoded = derive.encode_rows(net, (source,), (lengths,), 1)
    graph = derive.network_graph(net, "net", encoded, jnp.asarray([[5, 6, 8, 3]], jnp.int32)[:, :chains], 8)
    return derive.Target(graph, {"net": net}, None)


@pytest.mark.parametrize("sampler", thinned(["fixed", "ends", "linear", "early"], 4, 2))
@pytest.mark.slow
def test_4_passes_hand_on_tokens_and_no_logits(translator, weights, sampler: str):
    kernel, target = kernel_of(translator, sampler), target_of(weights)
    state = kernel.init(jnp.zeros((8, 4), jnp.int32))
    shapes = carried(lambda k, s: kernel.step(target, k, s), keys(4), state)
    assert (8, 4) in shapes  # the tokens: passes are a loop
    assert not [s for s in shapes if VOCABULARY in s]


@pytest.mark.slow
def test_4_a_sum_of_logits_that_is_carried_would_be_seen(weights):
    target = target_of(weights)

    def published(tokens):
        def one(at, _):
            tokens, total = at
            logits = target.graph.logits(target.params, tokens)
            return (jnp.argmax(logits, axis=-1).T.astype(jnp.int32), total + logits), None

        return jax.lax.scan(one, (tokens, jnp.zeros((4, 8, VOCABULARY))), jnp.arange(3))[0]

    assert (4, 8, VOCABULARY) in carried(published, jnp.zeros((8, 4), jnp.int32))


# 5. One row is a batch; nothing is padded to 128; the vocabulary is the model's own


@pytest.mark.slow
def test_5_one_short_row_takes_a_short_width(translator, weights, monkeypatch: pytest.MonkeyPatch):
    seen, plain = [], type(weights).logits

    def spied(self, encoded, prepared, codes, length, *, key=None):
        seen.append((codes.shape, encoded.states.shape))
        return plain(self, encoded, prepared, codes, length, key=key)

    monkeypatch.setattr(type(weights), "logits", spied)
    row = np.full(128, -1)
    row[:4] = [3, 1, 4, 1]
    idata = translator.sample({"net": weights}, "linear", given={"s": row}, missing=-1, lengths=5)
    assert {cells for cells, _ in seen} == {(8,)}
    assert max(n for _, states in seen for n in states) <= 16  # the source's width and the network's: not 128
    assert draws(idata).shape == (1, 1, 128)
    batch = translator.sample({"net": weights}, "linear", given={"s": row[None]}, missing=-1, lengths=[5])
    assert np.array_equal(draws(batch)[:, :, 0], draws(idata))


def test_5_two_models_have_two_vocabularies():
    more = "mask m = everything(x)\nsampler s = refinement(steps = 1, start = uniform)\n"
    for q in (3, 9):
        model = made('python("networks_cases:Copy")', N, q, more)
        tokens = draws(model.sample(model.init_params(), "s", draws=60))
        assert set(np.unique(tokens).tolist()) == set(range(q))


# 6. As many cells as the schedule says are opened, under ties too, and none where it says none


def published_bottom(sure: np.ndarray, count: int) -> np.ndarray:
    """All that are at most the k-th, and at least one."""
    return sure <= np.sort(sure)[max(count, 1) - 1]


@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_6_exactly_so_many_are_least_confident(count: int):
    sure = np.array([0.5, 0.5, 0.2, 0.5, 0.5, 0.9])
    found = np.asarray(least(jnp.asarray(sure[:, None]), jnp.asarray([count])))[:, 0]
    assert found.sum() == count
    assert np.flatnonzero(found).tolist() == sorted(np.argsort(sure, kind="stable")[:count].tolist())
    if count in (0, 3):
        assert published_bottom(sure, count).sum() != count


def test_6_passes_open_what_the_schedule_says_where_all_are_equally_sure():
    more = "mask m = everything(x)\nsampler s = mask_predict(steps = 10, lengths = 1)\n"
    model = made('python("networks_cases:Spy", scale = 0)', N, Q, more)
    Spy.seen.clear()
    model.sample(model.init_params(), "s")
    jax.effects_barrier()
    hidden = [row.count(Q) for row in Spy.seen]
    assert hidden == [6, *(6 * (10 - t) // 10 for t in range(1, 10))]
    assert 0 in hidden
    assert all([i for i, v in enumerate(row) if v == Q] == list(range(row.count(Q))) for row in Spy.seen)  # of equal ones the first


# 7. Confidence is that of the token that was drawn


def test_7_confidence_is_the_probability_of_the_sampled_token():
    more = "mask m = everything(x)\nsampler s = refinement(steps = 2, schedule = linear, decode = sample, temperature = 2, confidence = probability)\n"
    kernel = kernel_of(made('python("networks_cases:Copy")', N, Q, more), "s")
    logits = jnp.asarray(np.random.default_rng(0).normal(size=(30, N, Q)), float)
    token, log_p, sure = (np.asarray(a) for a in kernel.decode(logits, keys(30)))
    p = np.exp(np.asarray(jax.nn.log_softmax(logits, axis=-1)))
    own = np.take_along_axis(p, token.T[..., None], axis=-1)[..., 0].T
    assert np.allclose(sure, own, rtol=1e-5)
    assert np.allclose(np.exp(log_p), own, rtol=1e-5)
    published = p.max(axis=-1).T
    assert (published > own + 0.01).mean() > 0.3


# 8. Random starts are random


@pytest.fixture(scope="module")
def starts():
    """A decoder that returns its random start."""
    more = "mask m = everything(x, noise = {uniform: 1})\nsampler s = refinement(steps = 1, start = uniform, starts = 2)\n"
    model = made('python("networks_cases:Copy")', N, Q, more, "s[j in range(3)] : range(2)")

    def start(rows: int, seed: int = 0, **options) -> np.ndarray:
        idata = model.sample(model.init_params(), "s", given={"s": np.zeros((rows, 3), int)}, seed=seed, observe=["candidates"], **options)
        return stats(idata, "candidate")  # chains, draws, rows, candidates, cells

    return start


def published_start(rows: int) -> np.ndarray:
    """One key for every batch, and the same for every sentence."""
    return np.repeat(np.random.default_rng(0).integers(0, Q, N)[None], rows, axis=0)


@pytest.mark.slow
def test_8_every_sentence_chain_draw_candidate_and_seed_has_a_start_of_its_own(starts):
    found = starts(5, draws=3, chains=2)
    assert found.shape == (2, 3, 5, 2, N)
    assert len(np.unique(found.reshape(-1, N), axis=0)) > 0.9 * 60
    assert not np.array_equal(starts(5, seed=1, draws=3, chains=2), found)
    assert np.array_equal(starts(5, draws=3, chains=2), found)
    assert len(np.unique(published_start(5), axis=0)) == 1


@pytest.mark.slow
def test_8_a_start_does_not_change_with_the_batch(starts):
    found = starts(70)
    assert np.array_equal(starts(3), found[:, :, :3])
    assert np.array_equal(starts(9), found[:, :, :9])
    assert len(np.unique(found.reshape(-1, N), axis=0)) > 0.95 * 140


def test_8_starts_are_uniform_over_all_values(starts):
    found = starts(64, draws=64)
    for cell in range(N):
        counts = np.bincount(found[..., cell].ravel(), minlength=Q)
        assert p_value(counts, np.full(Q, 1 / Q)) > 1e-4
    beside = np.bincount((found[:, :, 1:] * Q + found[:, :, :-1])[..., 0].ravel(), minlength=Q * Q)
    assert p_value(beside, np.full(Q * Q, 1 / Q / Q)) > 1e-4


# 9. The encoder, keys and values of cross-attention, and weights of positions run once


@pytest.mark.slow
@pytest.mark.parametrize("sampler", thinned(["fixed", "linear"], 2, 1))
def test_9_no_pass_reads_the_encoder_or_what_makes_keys_and_values(translator, weights, sampler: str):
    """After the encoding these weights may be anything: here they are no numbers."""
    kernel, target = kernel_of(translator, sampler), target_of(weights)

    def parts(net):
        layers = net.decoder.layers
        across = [w for d in layers for w in (d.cross_attention.key, d.cross_attention.value)]
        along = [w for d in layers for w in (d.positional.attention.query, d.positional.attention.key)]
        return [*jax.tree.leaves(net.encoder), *across, *along, net.decoder.bias.table]

    spoilt = eqx.tree_at(parts, weights, [jnp.full_like(w, jnp.nan) for w in parts(weights)])
    state = kernel.init(jnp.zeros((8, 4), jnp.int32))
    step = jax.jit(lambda net: kernel.step(target._replace(params={"net": net}), keys(4), state)[0])
    assert np.isnan(np.asarray(target_of(spoilt).graph.logits({"net": spoilt}, state.codes))).any()
    good, after = step(weights), step(spoilt)
    assert np.array_equal(good.codes, after.codes)
    assert np.array_equal(good.memory.score, after.memory.score)
    assert np.isfinite(np.asarray(after.memory.score)).all()


@pytest.mark.slow
def test_9_what_is_encoded_has_an_axis_of_rows_and_none_of_candidates(weights):
    graph = target_of(weights).graph
    assert graph.lengths.shape == (1, 4)
    assert {leaf.shape[0] for leaf in jax.tree.leaves(graph.encoded)} == {1}
    assert {leaf.shape[:2] for leaf in jax.tree.leaves(graph.prepared)} == {(1, 4)}
