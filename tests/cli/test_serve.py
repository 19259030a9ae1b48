"""`gmlm serve`: answers over HTTP, from a server on a free port of this computer; nothing is lost, and all that is wrong is refused in words."""

from __future__ import annotations

import asyncio
import http.client
import importlib.util
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from translation_cases import PROGRAM, toy_pairs, toy_vocabulary

import gmlmdsl as gm

pytest.importorskip("starlette")
uvicorn = pytest.importorskip("uvicorn")
from gmlmdsl.cli import _serve  # noqa: E402 - only where they are installed
from gmlmdsl.cli._serve import Batcher, Limits, service  # noqa: E402

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("standard_promotion")
DRAWN = PROGRAM + "sampler apart for translate = sundae(steps = 2, lengths = 2)\n"
LIMITS = Limits()
JSON = {"Content-Type": "application/json"}
LONG = "one two red dog cat runs one two red dog cat runs"  # one sentence of more pieces than the model takes


@pytest.fixture(scope="module")
def translator() -> gm.Translator:
    model = gm.parse(DRAWN).model("translate")
    return gm.Translator(model, model.init_params(3), toy_vocabulary(), "refine", "en-de")


@contextmanager
def served(translator: Any, limits: Limits = LIMITS, hosts: tuple[str, ...] = ("127.0.0.1",)) -> Iterator[str]:
    """The address of a server in a thread."""
    server = uvicorn.Server(uvicorn.Config(service(translator, limits, hosts), port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def address(translator: gm.Translator) -> Iterator[str]:
    with served(translator, Limits(lines=8, size=2000)) as found:
        yield found


def asked(address: str, body: Any = None, path: str = "/translate", headers: dict[str, str] = JSON, method: str = "") -> tuple[int, Any]:
    """The status and the body of an answer."""
    connection = http.client.HTTPConnection(address, timeout=60)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method or ("GET" if body is None else "POST"), path, data, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, json.loads(text) if "json" in answer.getheader("content-type", "") else text


def test_lines_are_answered_as_the_translator_does(address: str, translator: gm.Translator):
    lines = ["one two", "", "dog runs"]
    status, found = asked(address, {"lines": lines, "n_best": 2, "prefix": "rot"})
    own = translator.translate(lines, n_best=2, prefix="rot")
    assert status == 200 and found["warnings"] == []
    for row, t in zip(found["translations"], own, strict=True):
        assert (row["text"], row["passes"], row["ended"]) == (t.text, t.passes, t.ended) and row["score"] == pytest.approx(
            t.score, abs=1e-5
        )
        assert [a["text"] for a in row["alternatives"]] == [text for text, _ in t.alternatives]
    assert asked(address, {"lines": []}) == (200, {"translations": [], "warnings": []})


@pytest.mark.slow  # the command and the library are asked for phrases too
def test_phrases_are_those_of_each_line(address: str, translator: gm.Translator):
    lines, phrases = ["one two", "", "dog runs"], [["rot"], [], ["katze"]]
    status, found = asked(address, {"lines": lines, "phrases": phrases})
    own = translator.translate(lines, phrases=phrases)
    assert status == 200 and [row["text"] for row in found["translations"]] == [t.text for t in own]
    assert all(p in row["text"] for row, texts in zip(found["translations"], phrases, strict=True) for p in texts)


@pytest.mark.slow
def test_random_numbers_follow_from_the_place_in_the_request(translator: gm.Translator):
    """However requests are put together; a batch of two requests has two first lines."""
    lines = [s for s, _ in toy_pairs(6)]
    own = [t.text for t in translator.translate(lines, sampler="apart", seed=5)]
    assert own != [t.text for t in translator.translate(lines, sampler="apart", seed=6)]
    numbers = [3, 1, 2]
    part = translator.translate([lines[n] for n in numbers], sampler="apart", seed=5, numbers=numbers)
    assert [t.text for t in part] == [own[n] for n in numbers]

    async def both() -> list[str]:
        batcher = Batcher(translator, Limits())
        _, wish, _ = _serve._request({"lines": [], "sampler": "apart", "seed": 5}, Limits(), translator)
        first, second = batcher.add(lines[:3], wish, [[]] * 3), batcher.add(lines, wish, [[]] * 6)
        await batcher._translate(batcher._next())
        assert batcher.metrics["batches_total"] == 1 and not batcher.waiting
        assert [line.answer.result().text for line in first] == own[:3]
        return [line.answer.result().text for line in second]

    assert asyncio.run(both()) == own


def test_long_lines_lose_no_other_line(address: str, translator: gm.Translator):
    status, found = asked(address, {"lines": ["red dog", LONG, "one two. red dog cat. two runs."]})
    assert status == 200 and found["translations"][0]["text"] == translator.translate(["red dog"])[0].text
    cut, split = found["warnings"]
    assert "line 2 lost the end" in cut and "line 3 is longer" in split


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "not JSON"),
        (b"[" * 1500, 400, "not JSON"),
        ([], 400, "must be an object"),
        ({"line": ["a"]}, 400, "did you mean `lines`"),
        ({"lines": "a"}, 400, "a list of texts"),
        ({"lines": [1]}, 400, "a list of texts"),
        ({"lines": ["\ud800"]}, 400, "half a surrogate"),
        ({"lines": ["one"], "n_best": "2"}, 400, "type integer"),
        ({"lines": ["one"], "n_best": 0}, 400, "at least 1"),
        ({"lines": ["one"], "seed": -1}, 400, "at least 0"),
        ({"lines": ["one"], "seed": 1 << 64}, 400, "below 2^64"),
        ({"lines": ["one"], "sampler": "beam"}, 400, "no sampler `beam`"),
        ({"lines": ["one"], "prefix": "rot " * 20}, 400, "the prefix has"),
        ({"lines": ["one"], "phrases": ["rot"]}, 400, "list of texts"),
        ({"lines": ["one"], "phrases": []}, 400, "for each of 1 lines"),
        ({"lines": ["one"], "phrases": [["rot"]], "drop_repeats": True}, 400, "could drop a word"),
        ({"lines": ["one"], "phrases": [["rot " * 20]]}, 400, "no room for a phrase"),
        ({"lines": ["one"] * 9}, 413, "at most 8"),
        ({"lines": ["one " * 600]}, 413, "more than 2,000 bytes"),
    ],
)
def test_requests_that_are_refused_in_words(address: str, body: Any, status: int, words: str):
    found, answer = asked(address, body)
    assert (found, list(answer)) == (status, ["error"]) and words in json.dumps(answer, ensure_ascii=False)
    assert asked(address, {"lines": ["one"]})[0] == 200  # it goes on


def test_other_requests(address: str):
    assert asked(address, b"{}", headers={"Content-Type": "text/plain"})[0] == 415
    assert asked(address, {}, "/other")[0] == 404 and asked(address, method="DELETE")[0] == 405
    assert [asked(address, {"lines": ["one"]}, headers=JSON | {"Host": host})[0] for host in ("evil.example", "127.0.0.1:80")] == [400, 200]
    status, about = asked(address, path="/health")
    assert status == 200 and about["status"] == "ok" and about["samplers"] == ["refine", "apart"] and about["direction"] == "en-de"
    status, document = asked(address, path="/openapi.json")
    entries = document["paths"]["/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert status == 200 and set(entries) == {"lines", "phrases", *_serve.KINDS} and document["openapi"].startswith("3.")


def test_metrics_count_what_was_answered(translator: gm.Translator):
    with served(translator, Limits(lines=2)) as address:
        for lines in (["one"], ["two", "red"], ["one"] * 3):
            asked(address, {"lines": lines})
        status, text = asked(address, path="/metrics")
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert status == 200 and float(found["gmlm_lines_total"]) == 3 and float(found['gmlm_requests_total{status="200"}']) == 2
    assert float(found['gmlm_requests_total{status="413"}']) == 1 and float(found["gmlm_waiting_source_tokens"]) == 0
    assert float(found['gmlm_request_seconds_bucket{le="+Inf"}']) == float(found["gmlm_request_seconds_count"]) == 3
    # Each family stands together below its type, as Prometheus reads them; buckets grow.
    rows = text.splitlines()
    at = rows.index("# TYPE gmlm_request_seconds histogram")
    family = [row for row in rows[at + 1 :] if row.startswith("gmlm_request_seconds")]
    assert family == rows[at + 1 : at + 1 + len(family)] and not any(row.startswith("gmlm_request_seconds") for row in rows[:at])
    counts = [float(row.rsplit(" ", 1)[1]) for row in family if "bucket" in row]
    assert counts == sorted(counts) and len(counts) == len(_serve.RESPONSE_SECONDS) + 1


def test_bodies_that_do_not_come_or_are_no_text(translator: gm.Translator):
    with served(translator, Limits(seconds=0.5)) as address:
        host, _, port = address.partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        connection.putrequest("POST", "/translate")
        for header in ("Content-Type: application/json", "Content-Length: 10"):
            connection.putheader(*header.split(": "))
        connection.endheaders()
        assert connection.getresponse().status == 408
        connection.close()
        for body in (b'{"\\ud800": 1}', b'{"lines": ["one"], "sampler": "\\ud800"}'):
            status, found = asked(address, body)
            assert status == 400 and "half a surrogate" in found["error"]["message"]


class Held:
    """A translator that waits until it is let go, and cannot translate some lines."""

    def __init__(self, translator: gm.Translator):
        self.inner, self.go, self.batches = translator, threading.Event(), []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def translate(self, lines: list[str], **options: Any) -> list[Any]:
        self.batches.append(len(lines))
        self.go.wait(60)
        if "cat" in lines:
            raise RuntimeError("no cats")
        return self.inner.translate(lines, **options)


class Ready(Held):
    """One that has its answer when it is let go, so that no request is given up then, however busy the machine is."""

    def __init__(self, translator: gm.Translator):
        super().__init__(translator)
        self.known = translator.translate(["one"])

    def translate(self, lines: list[str], **options: Any) -> list[Any]:
        self.batches.append(len(lines))
        self.go.wait(60)
        return self.known * len(lines)


def test_what_waits_is_bounded_and_nothing_accepted_is_lost(translator: gm.Translator):
    held, n = Held(translator), len(translator.vocabulary.encode(["one two"])[0])
    with served(held, Limits(batch=2 * n, waiting=4 * n)) as address:
        found: list[tuple[int, Any]] = []
        threads = [threading.Thread(target=lambda: found.append(asked(address, {"lines": ["one two"]}))) for _ in range(8)]
        threads[0].start()
        while not held.batches:
            time.sleep(0.01)
        for thread in threads[1:]:
            thread.start()
        while len(found) < 3:
            time.sleep(0.01)
        assert all(status == 503 and "wait already" in body["error"]["message"] for status, body in found)
        held.go.set()
        for thread in threads:
            thread.join()
        assert [status for status, _ in found].count(200) == 5 and held.batches == [1, 2, 2]
        assert asked(address, {"lines": ["one two"] * 5})[0] == 413


def test_an_error_of_one_line_is_not_that_of_others(translator: gm.Translator, capsys: pytest.CaptureFixture[str]):
    held = Held(translator)
    held.go.set()
    with served(held) as address:
        status, body = asked(address, {"lines": ["dog", "cat"]})
        assert (status, body) == (500, {"error": {"message": "internal error: RuntimeError"}}) and held.batches == [2, 1, 1]
        assert "no cats" in capsys.readouterr().err
        assert asked(address, {"lines": ["dog"]})[0] == 200


@pytest.mark.slow
def test_a_request_is_given_up_after_its_time(translator: gm.Translator):
    held = Ready(translator)
    with served(held, Limits(seconds=1.5)) as address:
        first = threading.Thread(target=asked, args=(address, {"lines": ["one"]}))
        first.start()
        while not held.batches:
            time.sleep(0.01)
        status, body = asked(address, {"lines": ["two"]})
        assert status == 503 and "within 1.5 s" in body["error"]["message"]
        held.go.set()
        first.join()
        assert asked(address, {"lines": ["red"]})[0] == 200 and held.batches == [1, 1]  # the second was given up


def test_load_is_answered_or_refused(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    spec = importlib.util.spec_from_file_location("load_test", ROOT / "examples" / "translator" / "load_test.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules["load_test"] = script
    spec.loader.exec_module(script)
    (tmp_path / "lines").write_text("one two\n\nred dog\n")
    assert script.main(f"http://{address}", tmp_path / "lines", [50.0], 0.4) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:5] == ["50", "20", "20", "0", "0"]
    assert script.load("127.0.0.1:9", ["one"], 10.0, 0.2).lost == 2
