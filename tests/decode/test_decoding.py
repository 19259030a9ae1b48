"""Decodes of rows with given data: candidate lengths and starts, batches and widths, padding, clamped cells, what is returned."""

from __future__ import annotations

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from network_cases import disturbed
from networks_cases import draws, made, stats
from oracle import _refinement as oracle
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.decode import _candidates, _decoding
from gmlmdsl.derive import RefinementKernel
from gmlmdsl.networks import _transformer

N, M, Q, V = 12, 10, 4, 6
NETWORK = "encoder_decoder(layers = 1, heads = 2, width = 16, ffn = 16, positional_attention = true, positions = 12)"
MORE = """
mask whole = everything(x)
mask hidden = bernoulli(x, rate = 0.5)
sampler lengths = mask_predict(steps = 3, lengths = 3)
sampler many = mask_predict(steps = 2, lengths = 20)
sampler short = mask_predict(steps = 3, lengths = 1)
sampler starts = padir(steps = 2, lengths = 2, starts = 3)
sampler random = sundae(steps = 2, lengths = 2)
sampler single { update x[i] for i in range(12) }
"""


@pytest.fixture(scope="module")
def model():
    return made(NETWORK, N, Q, MORE, f"s[j in range({M})] : range({V})")


@pytest.fixture(scope="module")
def params(model):
    return {"net": disturbed(model.init_params()["net"], 3)}


def sources(lengths=(4, 10, 1, 7, 3), seed: int = 1) -> np.ndarray:
    rows = np.full((len(lengths), M), -1)
    rng = np.random.default_rng(seed)
    for row, n in zip(rows, lengths, strict=True):
        row[:n] = rng.integers(0, V, n)
    return rows


@eqx.filter_jit
def encoded_alone(net, codes):
    encoded = net.encode((codes,), (jnp.asarray(codes.shape[0], jnp.int32),))
    return encoded, net.length_head.scores(encoded)


@eqx.filter_jit
def logits_alone(net, encoded, seen):
    n = jnp.asarray(seen.shape[0], jnp.int32)
    return net.logits(encoded, net.prepare(encoded, n, seen.shape[0]), seen, n)


class Alone:
    """One row by itself, cut to its length: its length scores, and logits for what is seen."""

    def __init__(self, net, source):
        self.net = net
        self.encoded, scores = encoded_alone(net, jnp.asarray([v for v in source if v >= 0], jnp.int32))
        self.scores = np.asarray(scores)

    def logits(self, seen) -> np.ndarray:
        return np.asarray(logits_alone(self.net, self.encoded, jnp.asarray(seen, jnp.int32)))


def sampled(model, params, name: str, rows, **options):
    return model.sample(params, name, given={"s": rows}, missing=-1, **options)


@pytest.mark.slow
def test_candidates_are_the_likeliest_lengths_each_decoded_alone_and_ordered_by_score(model, params):
    rows = sources()
    idata = sampled(model, params, "lengths", rows, observe=["candidates", "trace"])
    found, score, length = (stats(idata, k)[0, 0] for k in ("candidate", "candidate_score", "candidate_length"))
    assert found.shape == (len(rows), 3, N)
    swapped = False
    for r, row in enumerate(rows):
        alone = Alone(params["net"], row)
        top = np.argsort(-alone.scores)[:3] + 1
        decodes = [oracle.refine(alone.logits, int(n), Q, oracle.Rules(3, "linear", remask="least_confident")) for n in top]
        order = np.argsort([-d.score for d in decodes], kind="stable")
        swapped |= order.tolist() != [0, 1, 2]
        assert length[r].tolist() == top[order].tolist()
        assert np.allclose(score[r], [decodes[k].score for k in order], atol=1e-4)
        for k, n, tokens in zip(order, length[r], found[r], strict=True):
            assert tokens.tolist() == decodes[k].tokens + [-1] * (N - n)
        best = decodes[order[0]]
        assert draws(idata)[0, 0, r].tolist() == found[r, 0].tolist()
        assert stats(idata, "trace")[0, 0, r, :, : length[r, 0]].tolist() == best.trace
        assert stats(idata, "score")[0, 0, r] == score[r, 0]
        assert stats(idata, "length")[0, 0, r] == length[r, 0]
    assert swapped  # the best decode is not always that of the likeliest length


@pytest.mark.slow
def test_more_candidates_than_lengths_cover_every_length(model, params):
    idata = sampled(model, params, "many", sources()[:2], observe=["candidates"])
    lengths = stats(idata, "candidate_length")[0, 0]
    assert lengths.shape == (2, 20)
    assert all(set(row.tolist()) == set(range(1, N + 1)) for row in lengths)


def test_no_start_is_drawn_for_a_decode(monkeypatch: pytest.MonkeyPatch):
    lengths = np.array([[2, 3]])
    work, none = SimpleNamespace(codes=None, numbers=np.array([7])), np.zeros((3, 2), bool)
    held = np.array([[True, False], [False, False], [False, False]])

    def starts(kernel, held):
        return _decoding._starts(kernel, Q, lengths, work, np.array([0]), held, np.full((3, 2), 3), 0)  # type: ignore[arg-type]

    assert starts(None, none).any() and starts(None, none)[2, 0] == 0  # of chains; padding is 0
    monkeypatch.setattr(_decoding, "generator", None)
    assert starts(RefinementKernel(None, None, None), held).tolist() == [[3, 0], [0, 0], [0, 0]]  # type: ignore[arg-type]


@pytest.mark.slow
def test_starts_are_further_candidates_of_each_length(model, params):
    rows = sources()
    idata = sampled(model, params, "starts", rows, observe=["candidates"], seed=2)
    lengths, score = stats(idata, "candidate_length")[0, 0], stats(idata, "candidate_score")[0, 0]
    found = stats(idata, "candidate")[0, 0]
    for r, row in enumerate(rows):
        top = np.argsort(-Alone(params["net"], row).scores)[:2] + 1
        assert sorted(lengths[r].tolist()) == sorted([*top.tolist()] * 3)
        assert (np.diff(score[r]) <= 0).all()
    assert len({tuple(t) for row in found for t in row}) > 2 * len(rows)  # starts of one length end apart


def encoded_rows(monkeypatch: pytest.MonkeyPatch, sampler: str, rows: np.ndarray, cells: int) -> int:
    """How many rows the encoder ran over, in a model of a size that no other test compiles."""
    counted = []
    plain = _transformer.Encoder.__call__

    def call(self, x, bias, key):
        jax.debug.callback(lambda _: counted.append(1), x[0, 0])
        return plain(self, x + 0.0, bias, key)

    monkeypatch.setattr(_transformer.Encoder, "__call__", call)
    model = made(NETWORK, cells, Q, MORE.replace("range(12)", f"range({cells})"), f"s[j in range({M})] : range({V})")
    sampled(model, model.init_params(), sampler, rows)
    jax.effects_barrier()
    return len(counted)


@pytest.mark.slow
def test_candidates_and_passes_share_one_encoding_and_so_does_the_prediction_of_lengths(monkeypatch: pytest.MonkeyPatch):
    """Once for three lengths and three passes; once more where the widest candidate is in another bucket than the source."""
    assert encoded_rows(monkeypatch, "lengths", sources((4,)), 7) == 1
    assert encoded_rows(monkeypatch, "many", sources((4,)), 11) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(["lengths", "starts", "random", "single"], 4, 3))
def test_rows_decode_alike_in_any_company(model, params, name: str):
    """Together, or fewer of them, or beside a row that is longer: a row's draws depend on its number and on itself."""
    rows, options = sources(), {"seed": 5, "chains": 2, "draws": 2, "warmup": 0}
    if name == "single":
        options["lengths"] = [4, 9, 1, 7, 3]
    whole = draws(sampled(model, params, name, rows, **options))
    fewer = {k: v[:2] if k == "lengths" else v for k, v in options.items()}
    assert np.array_equal(draws(sampled(model, params, name, rows[:2], **fewer)), whole[:, :, :2])
    other = rows.copy()
    other[1] = sources((3,), seed=9)[0]
    changed = draws(sampled(model, params, name, other, **options))
    assert np.array_equal(np.delete(changed, 1, axis=2), np.delete(whole, 1, axis=2))
    assert not np.array_equal(changed[:, :, 1], whole[:, :, 1])


@pytest.mark.slow  # rows decode alike in any company, above
def test_without_chance_the_order_of_rows_means_nothing(model, params):
    rows = sources()
    whole = draws(sampled(model, params, "lengths", rows))[0, 0]
    for order in ([4, 2, 0, 1, 3], [1], [3, 3]):
        assert np.array_equal(draws(sampled(model, params, "lengths", rows[order]))[0, 0], whole[order])
    for r, row in enumerate(rows):
        assert np.array_equal(draws(sampled(model, params, "lengths", row))[0, 0], whole[r])


@pytest.mark.slow
def test_many_rows_are_decoded_in_batches_that_nobody_sees(model, params):
    lengths = np.random.default_rng(4).integers(1, M + 1, 70)
    rows = sources(tuple(lengths.tolist()), seed=7)
    whole = draws(sampled(model, params, "short", rows))[0, 0]
    some = [0, 33, 69]
    assert np.array_equal(draws(sampled(model, params, "short", rows[some]))[0, 0], whole[some])


@pytest.mark.slow
def test_what_stands_behind_a_source_means_nothing(model, params):
    """As many entries as there are, or padded to the declared number by any code outside the domain."""
    row = sources((4,))[0]
    wanted = draws(sampled(model, params, "lengths", row))
    other = np.where(row < 0, 77, row)
    assert np.array_equal(draws(model.sample(params, "lengths", given={"s": other}, missing=77)), wanted)


def test_widths_are_few_whatever_rows_come():
    from gmlmdsl.data._network_rows import standard_widths

    found = [standard_widths(n) for n in range(1, 1400)]
    assert {w[-1] for w in found} == {8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536}
    assert all(w[-1] >= n and (len(w) == 1 or w[-2] < n) for n, w in enumerate(found, 1))


@pytest.mark.slow
def test_known_lengths_are_taken(model, params):
    rows = sources()
    idata = sampled(model, params, "short", rows, lengths=[5, 2, 12, 1, 8])
    assert stats(idata, "length")[0, 0].tolist() == [5, 2, 12, 1, 8]
    tokens = draws(idata)[0, 0]
    for r, n in enumerate([5, 2, 12, 1, 8]):
        alone = Alone(params["net"], rows[r])
        wanted = oracle.refine(alone.logits, n, Q, oracle.Rules(3, "linear", remask="least_confident"))
        assert tokens[r].tolist() == wanted.tokens + [-1] * (N - n)


def test_held_cells_are_within_every_candidate(model, params):
    """Infilling: lengths that would leave a held cell out are no candidates."""
    rows, held = sources(), np.full((5, N), -1)
    for row, cells in zip(held, ({}, {7: 2}, {10: 1, 0: 3}, {11: 0}, {1: 1}), strict=True):
        for i, v in cells.items():
            row[i] = v
    idata = sampled(model, params, "lengths", rows, clamp={"x": held}, observe=["candidates"])
    tokens, lengths = stats(idata, "candidate")[0, 0], stats(idata, "candidate_length")[0, 0]
    for r in range(5):
        last = int(np.max(np.flatnonzero(held[r] >= 0), initial=-1)) + 1
        scores = Alone(params["net"], rows[r]).scores.copy()
        scores[: max(last - 1, 0)] = -np.inf
        top = np.argsort(-scores)[: min(3, N + 1 - max(last, 1))] + 1
        assert set(lengths[r].tolist()) == set(top.tolist())
        assert (tokens[r][:, held[r] >= 0] == held[r][held[r] >= 0]).all()


def test_a_held_cell_behind_a_known_length_is_refused(model, params):
    with pytest.raises(gm.GmlmError, match="position 7, behind the 5 cells of row 1") as caught:
        sampled(model, params, "short", sources()[:2], lengths=[9, 5], clamp={"x": {7: 1}})
    assert "E507" in caught.value.codes


@pytest.mark.slow  # dear to compile; its rows alone and in batches are compared above
def test_a_row_without_an_axis_of_rows_takes_no_full_width(model, params):
    """One sentence is a batch: its decode is that of a batch of one row, and of its own bucket."""
    row = sources((3,))[0]
    alone, batch = (sampled(model, params, "short", r, lengths=4, observe=["trace"]) for r in (row, row[None]))
    assert draws(alone).shape == (1, 1, N)
    assert np.array_equal(draws(alone), draws(batch)[:, :, 0])
    assert np.allclose(stats(alone, "score"), stats(batch, "score")[:, :, 0])


def test_what_is_returned_has_names(model, params):
    idata = sampled(model, params, "lengths", sources(), observe=["candidates", "trace"], draws=2, chains=3)
    x = idata["posterior"]["x"]
    assert x.dims[:3] == ("chain", "draw", "row")
    assert x.shape == (3, 2, 5, N)
    sample_stats = idata["sample_stats"]
    assert sample_stats["candidate"].dims[:4] == ("chain", "draw", "row", "rank")
    assert sample_stats["trace"].dims[:4] == ("chain", "draw", "row", "pass")
    assert sample_stats["score"].shape == sample_stats["passes"].shape == (3, 2, 5)
    assert idata["posterior"].attrs["sampler"] == "lengths"


@pytest.mark.slow
def test_chains_over_rows_end_at_each_rows_length(model, params):
    lengths = [4, 12, 1, 7, 3]
    idata = sampled(model, params, "single", sources(), lengths=lengths, draws=3, warmup=1, chains=2)
    x = draws(idata)
    assert x.shape == (2, 3, 5, N)
    for r, n in enumerate(lengths):
        assert (x[:, :, r, :n] >= 0).all()
        assert (x[:, :, r, n:] == -1).all()


def test_the_passes_of_every_candidate_are_kept_and_what_the_last_one_saw(model, params):
    """A cell that was predicted and opened again was hidden: its token, which the trace keeps, is not what the network saw."""
    rows = sources()[:3]
    found = model.decode(params, "lengths", given={"s": rows}, missing=-1, trace=True)
    opened = 0
    for r, row in enumerate(rows):
        alone = Alone(params["net"], row)
        for k, n in enumerate(found.length[r].tolist()):
            own = oracle.refine(alone.logits, n, Q, oracle.Rules(3, "linear", remask="least_confident"))
            shown = [-1 if v == Q else v for v in own.seen[-1]]
            assert found.traces[r, k, :, :n].tolist() == own.trace
            assert found.seen[r, k].tolist() == shown + [-1] * (N - n)
            opened += shown != own.trace[-2]
    assert opened
    np.testing.assert_array_equal(found.trace, found.traces[:, 0])


@pytest.mark.slow
def test_plain_decodes_have_all_cells_of_a_row(model, params):
    """Whatever width was compiled: a decode can be handed back as a draft, or to `attention`."""
    found = model.decode(params, "short", given={"s": sources((4, 3))}, missing=-1, lengths=np.array([2, 5]), trace=True)
    assert found.tokens.shape == (2, 1, N)
    assert found.trace.shape == (2, 3, N)
    assert (found.tokens[0, 0, 2:] == -1).all()
    labelled = model.sample(params, "short", given={"s": sources((4, 3))}, missing=-1, lengths=np.array([2, 5]))
    np.testing.assert_array_equal(found.tokens[:, 0], np.asarray(draws(labelled))[0, 0])


@pytest.mark.parametrize("seed", range(6))
def test_no_way_to_cut_rows_into_full_batches_costs_less(seed: int):
    """Beside all 2^9 ways to cut ten rows in order, all batches but the first full."""
    rng = np.random.default_rng(seed)
    cells = np.sort(rng.choice([5, 14, 20, 60], 10))
    width = {5: 8, 14: 16, 20: 24, 60: 64}

    def cost(parts: list[np.ndarray]) -> float:
        return sum((_candidates.padded(len(p)) + _candidates.BATCH_COST) * (8 + width[int(p.max())]) for p in parts)

    ways = [np.split(cells, [k + 1 for k in range(9) if bits >> k & 1]) for bits in range(1 << 9)]
    full = [parts for parts in ways if all(len(p) in _candidates.BATCH_SIZES for p in parts[1:])]
    found = _candidates.batches_of(np.full(10, 8), cells)
    assert cost([cells[rows] for rows, _, _ in found]) == min(map(cost, full))


@pytest.mark.parametrize("seed", range(4))
def test_batches_cost_less_than_rows_one_by_one(seed: int):
    rng = np.random.default_rng(seed)
    given, cells = rng.poisson(14, 90) + 1, rng.poisson(11, 90) + 1
    found = _candidates.batches_of(given, cells, 1 << 20)
    assert sorted(np.concatenate([rows for rows, _, _ in found])) == list(range(90))
    assert all(wide >= given[rows].max() and high >= cells[rows].max() for rows, wide, high in found)
    most = _candidates.MOST_ENTRIES
    assert all(_candidates.padded(len(rows)) * (1 << 20) * high <= most for rows, _, high in found)
    assert sum(_candidates.padded(len(rows)) != len(rows) for rows, _, _ in found) <= 1  # the first alone is filled up
    cost = sum((_candidates.padded(len(rows)) + _candidates.BATCH_COST) * (wide + high) for rows, wide, high in found)
    alone = [_candidates.batches_of(given[r : r + 1], cells[r : r + 1])[0] for r in range(90)]
    assert cost < sum((1 + _candidates.BATCH_COST) * (wide + high) for _, wide, high in alone)
