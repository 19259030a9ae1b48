"""Times of translators: which runs count, over which lines, and what is stated beside them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from refusals import refused

import gmlmdsl as gm
from gmlmdsl.translation import Translation, Translator, latency, peers
from gmlmdsl.translation import _latency as times

PROGRAM = """\
input V : int
input N : int
index s = range(N)
network net = encoder_decoder(layers = 1, heads = 2, width = 16, ffn = 24, decoder_layers = 2, dropout = 0)
model translate { given src[i in s] : range(V)  var tgt[j in s] : range(V)  conditional tgt ~ net(src) }
mask corrupt = everything(tgt, noise = {keep: 0.15, uniform: 0.85})
sampler decode = padir(steps = 2)
sampler slow = padir(steps = 4)
"""
LINES = ["aa bb cc", "dd ee", "aa bb cc dd ee", "cc"]


@pytest.fixture(scope="module")
def words() -> gm.Vocabulary:
    letters = ["aa", "bb", "cc", "dd", "ee"]
    return gm.Vocabulary.train([f"{a} {b} {c}" for a in letters for b in letters for c in letters if len({a, b, c}) == 3], 13)


class Clock:
    """A clock that only work moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Timed(Translator):
    """A translator whose lines take a known time each, and whose translations are as long as its sources."""

    def __init__(
        self, words: gm.Vocabulary, clock: Clock, seconds: float = 0.01, cells: int = 8, work: Callable[[int], None] | None = None
    ):
        model = gm.parse(PROGRAM, V=words.size, N=cells).model()
        super().__init__(model, {}, words, "decode")
        self.clock, self.seconds, self.work, self.calls = clock, seconds, work, []

    def translate(self, sentences: Any, **options: Any) -> list[Translation]:
        lines = list(sentences)
        self.calls.append((lines, options))
        self.clock.now += self.seconds * len(lines)
        if self.work is not None:
            self.work(len(lines))
        return [Translation(line, 0.0, tuple(self.vocabulary.encode([line])[0][:-1]), ((line, 0.0),), 1) for line in lines]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(times, "time", found)
    return found


def test_medians_and_percentiles_of_known_times(words: gm.Vocabulary, clock: Clock):
    quick, slow = Timed(words, clock, 0.010), Timed(words, clock, 0.025)
    found = latency({"quick": quick, "slow": (slow, "slow")}, LINES, batch_sizes=(1, 4), sentences=20)
    assert [(t.name, t.batch, len(t.seconds)) for t in found.timings] == [
        ("quick", 1, 20),
        ("slow", 1, 20),
        ("quick", 4, 5),
        ("slow", 4, 5),
    ]
    assert found["quick", 1].median == pytest.approx(0.010) and found["slow", 1].p99 == pytest.approx(0.025)
    assert found["slow", 4].p99 is None and found.as_dict()["timings"][3]["p99_ms"] is None  # five runs have no 99th percentile
    assert str(found).splitlines()[4].split() == ["slow", "4", "5", "100.00", "25.00", "3.8"]
    assert {o["sampler"] for _, o in quick.calls} == {"decode"} and {o["sampler"] for _, o in slow.calls} == {"slow"}
    assert [lines for lines, _ in quick.calls] == [lines for lines, _ in slow.calls]  # the same lines, in turn
    assert all(len(lines) == o["batch_size"] for lines, o in quick.calls)
    refused("E506", lambda: found["quick", 2], "quick")


def test_percentiles_see_what_is_rare(words: gm.Vocabulary, clock: Clock):
    translator = Timed(words, clock, 0.01)
    count = iter(range(1000))

    def stalls(n: int) -> None:
        clock.now += 1.0 if next(count) % 50 == 7 else 0.0

    translator.work = stalls
    t = latency({"a": translator}, LINES, batch_sizes=(1,), sentences=500)["a", 1]
    assert t.median == pytest.approx(0.01) and t.p99 == pytest.approx(1.01)


def test_of_many_lines_each_size_has_enough_runs(words: gm.Vocabulary, clock: Clock):
    found = latency({"a": Timed(words, clock)}, LINES, batch_sizes=(1, 32), sentences=100)
    assert [len(t.seconds) for t in found.timings] == [100, 20] and found["a", 32].p99 is not None


def test_lines_come_again_and_those_that_do_not_fit_are_left_out(words: gm.Vocabulary, clock: Clock):
    translator = Timed(words, clock)
    found = latency({"a": translator}, [*LINES, "", "  ", "aa " * 20], batch_sizes=(3,), sentences=10)
    timed = [line for lines, _ in translator.calls for line in lines]
    assert timed == (LINES * 3)[:12] and found.setting["lines"] == 4 and found.setting["left_out"] == 3
    assert found["a", 3].outputs == sum(len(words.encode([line])[0]) for line in timed)


def test_a_run_that_compiles_does_not_count(words: gm.Vocabulary, clock: Clock):
    kept = jax.jit(lambda x: x + 1)

    def work(n: int) -> None:
        clock.now += 0 if kept(jnp.zeros(n)).shape else 1

    before = Timed(words, clock, work=work)
    found = latency({"a": before}, LINES, batch_sizes=(1, 2), sentences=6)
    assert found["a", 1].compiled == 1 == found["a", 2].compiled  # the first of each shape
    assert len(found["a", 1].seconds) == 6 and len(before.calls) == 6 + 1 + 3 + 1


@pytest.mark.produces("E578")
def test_what_compiles_every_time_has_no_time(words: gm.Vocabulary, clock: Clock):
    def work(n: int) -> None:
        jax.jit(lambda x: x * clock.now)(jnp.zeros(n))

    refused("E578", lambda: latency({"a": Timed(words, clock, work=work)}, LINES, batch_sizes=(1,), sentences=2), "every run")


def test_nothing_listens_afterwards(words: gm.Vocabulary, clock: Clock):
    from jax._src import monitoring

    before = list(monitoring.get_event_duration_listeners())
    latency({"a": Timed(words, clock)}, LINES, batch_sizes=(1,), sentences=1)
    assert monitoring.get_event_duration_listeners() == before


def test_times_by_length(words: gm.Vocabulary, clock: Clock):
    translator = Timed(words, clock, cells=40)
    lines = ["aa", "aa " * 10, "aa " * 11, "aa " * 30]
    translator.work = lambda n: setattr(clock, "now", clock.now + 0.001 * len(translator.calls[-1][0][0]))
    found = latency({"a": translator}, lines, batch_sizes=(1,), sentences=8)["a", 1].by_length()
    assert {n: k for n, (_, k) in found.items()} == {8: 2, 16: 4, 32: 2}
    assert found[8][0] < found[16][0] < found[32][0]
    assert times.Timing("b", 1, (1.0, 2.0), (200, 5), 2, 0).by_length() == {8: (2.0, 1), 200: (1.0, 1)}


def test_the_setting_is_stated(words: gm.Vocabulary, clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    seen: list[tuple[int, int]] = []
    found = latency({"a": Timed(words, clock)}, LINES, batch_sizes=(1, 2), sentences=4, tell=lambda done, of: seen.append((done, of)))
    s = found.setting
    assert s["cores"] >= 1 and s["device"].startswith("cpu") and s["environment"]["OMP_NUM_THREADS"] == "1" and s["cells"] == [8, 8]
    assert words.sha256[:12] in s["vocabulary"] and {"load_before", "load_after", "versions"} <= set(s)
    assert seen == [(k, 6) for k in range(1, 7)]
    kept = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert kept["timings"][0]["median_ms"] == pytest.approx(10) and kept["timings"][0]["by_length"][0]["runs"] == 4
    text = str(found)
    assert "median ms" in text and "p99 ms" in text and "cores" in text and "load before" in text and "10.00" in text


@pytest.mark.produces("E577")
def test_what_cannot_be_compared(words: gm.Vocabulary, clock: Clock):
    other = gm.Vocabulary.train(["aa bb cc dd ee ff"] * 3, 10)
    one = Timed(words, clock)
    refused("E577", lambda: latency({"a": one, "b": Timed(other, clock)}, LINES), "`b`", "vocabulary")
    refused("E577", lambda: latency({"a": one, "b": Timed(words, clock, cells=9)}, LINES), "9", "8")
    refused("E505", lambda: latency({}, LINES))
    refused("E505", lambda: latency({"a": one}, ["", "aa " * 50]), "2 lines", "8 cells")
    refused("E506", lambda: latency({"a": (one, "other")}, LINES))
    for sizes, n in (((0,), 5), ((1,), 0)):
        refused("E507", lambda sizes=sizes, n=n: latency({"a": one}, LINES, batch_sizes=sizes, sentences=n))
    assert not one.calls


def test_lengths_that_are_known_go_to_all(words: gm.Vocabulary, clock: Clock):
    engine, one, two = Engine(), Timed(words, clock), Timed(words, clock)
    found = latency({"a": one, "b": two}, LINES, batch_sizes=(2,), sentences=4, length=7, peers=[engine])
    assert [o["lengths"] for _, o in one.calls + two.calls] == [[7, 7]] * 4 and engine.seen == [(2, 7)] * 2
    assert found.setting["length"] == 7
    latency({"a": one}, LINES, batch_sizes=(2,), sentences=2)
    assert one.calls[-1][1]["lengths"] is None


class Engine:
    name = "engine"

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def decode(self, lines: list[str], length: int) -> int:
        self.seen.append((len(lines), length))
        return length * len(lines)


def test_peers_make_as_many_pieces_as_the_first_translator(words: gm.Vocabulary, clock: Clock):
    engine = Engine()
    found = latency({"a": Timed(words, clock)}, LINES, batch_sizes=(1, 2), sentences=4, peers=[engine])
    lengths = [len(codes) for codes in words.encode(LINES)]
    assert engine.seen == [*((1, n) for n in lengths), (2, max(lengths[:2])), (2, max(lengths[2:]))]
    assert [t.name for t in found.timings] == ["a", "engine", "a", "engine"] and found["engine", 1].outputs == sum(lengths)


def test_ctranslate2_with_random_weights(words: gm.Vocabulary, clock: Clock):
    pytest.importorskip("ctranslate2")
    translator = Timed(words, clock)
    for peer, kind in zip(peers(translator), ("float32", "int8"), strict=True):
        assert kind in peer.name and "1 thread" in peer.name and "greedy" in peer.name
        for lines, length in ((["aa bb"], 6), (LINES, 3), (["@ aa"], 1)):
            assert peer.decode(lines, length) == length * len(lines)


def test_the_peer_has_the_sizes_of_the_network(words: gm.Vocabulary, clock: Clock):
    library = pytest.importorskip("ctranslate2")
    from gmlmdsl.translation import _peer

    form = Timed(words, clock).model.graph.network
    assert form is not None
    spec = _peer._specification(library, form)
    assert (len(spec.encoder.layer), len(spec.decoder.layer)) == (1, 2)
    assert spec.encoder.layer[0].ffn.linear_0.weight.shape == (24, 16) and spec.decoder.embeddings.weight.shape == (words.size + 1, 16)


@pytest.mark.produces("E561")
def test_peers_that_cannot_be_had(words: gm.Vocabulary, clock: Clock, monkeypatch: pytest.MonkeyPatch):
    translator = Timed(words, clock)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    refused("E561", lambda: peers(translator), "pip install ctranslate2")
    monkeypatch.undo()
    pytest.importorskip("ctranslate2")
    translator.model = gm.parse(PROGRAM.replace("encoder_decoder(layers = 1, heads = 2, width = 16, ffn = 24, decoder_layers = 2, dropout = 0)", "mlp()"), V=13, N=8).model()  # fmt: skip
    refused("E578", lambda: peers(translator), "`mlp`")


@pytest.mark.slow
def test_a_network_is_timed_without_its_compiling(words: gm.Vocabulary):
    model = gm.parse(PROGRAM, V=words.size, N=8).model()
    translator = Translator(model, model.init_params(0), words)
    found = latency({"two": (translator, "decode"), "four": (translator, "slow")}, LINES, batch_sizes=(1, 2), sentences=20)
    for t in found.timings:
        assert t.compiled >= 1 and max(t.seconds) < 1.5
        assert len(t.seconds) == 20 // t.batch
