"""A translator that answers over HTTP; lines of all requests are translated in common batches.

    POST /translate     {"lines": ["A dog runs."], "n_best": 2}
    GET  /health, /metrics, /openapi.json

A batch is run by one thread; meanwhile requests wait in a queue whose tokens are limited.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from .._diagnostics import GmlmError, fail, unknown, whole_number
from .._types import JsonObject
from ..decode.limits import BATCH_SIZES
from ..translation import Translation, TranslationOptions, Translator, encoded_phrases
from .limits import MOST_CONNECTIONS, RESPONSE_SECONDS

LOOPBACK = ("127.0.0.1", "localhost")
AGAIN = {"Retry-After": "1"}
KINDS = {"sampler": "string", "n_best": "integer", "prefix": "string", "drop_repeats": "boolean", "seed": "integer"}
PREFIX = "gmlm_"  # of the names of metrics


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    Attributes:
        batch: the number of source tokens of a batch, unless one line has more.
        waiting: the number of source tokens that wait; a request that exceeds it is refused (503).
        lines: the number of lines of a request.
        size: the number of bytes of a request.
        seconds: the time until a request that waits is given up (503).
    """

    batch: int = 2048
    waiting: int = 16384
    lines: int = 256
    size: int = 1 << 20
    seconds: float = 60.0


@dataclass(frozen=True)
class Wish:
    """The options that all lines of a batch share."""

    options: TranslationOptions
    prefix: str | None


@dataclass(frozen=True)
class Line:
    """A line that waits.

    Attributes:
        text: the text.
        number: its number within its request, from which its random numbers follow.
        tokens: the number of its source tokens.
        wish: its options.
        phrases: the texts that its translation must contain.
        answer: the future of its translation.
    """

    text: str
    number: int
    tokens: int
    wish: Wish
    phrases: Sequence[str]
    answer: asyncio.Future[Translation]


class Batcher:
    """A queue of lines, and the task that translates them batch by batch.

    Args:
        translator: the translator.
        limits: the limits.

    Attributes:
        waiting: the lines that wait, in the order of their arrival.
        metrics: the counts since the start, by name.
    """

    def __init__(self, translator: Translator, limits: Limits):
        self.translator, self.limits = translator, limits
        self.waiting: deque[Line] = deque()
        self.metrics: defaultdict[str, float] = defaultdict(float)
        self._arrived = asyncio.Event()

    @property
    def tokens(self) -> int:
        """The number of source tokens that wait."""
        return sum(line.tokens for line in self.waiting if not line.answer.done())

    def add(self, texts: Sequence[str], wish: Wish, phrases: Sequence[Sequence[str]]) -> list[Line]:
        """Queue the lines of a request, with the phrases of each, all or none.

        Raises:
            HTTPException: 503 if too many tokens wait; 413 if the request alone has too many.
        """
        counts = [len(pieces) for pieces in self.translator.vocabulary.encode(texts)]
        if sum(counts) > self.limits.waiting:
            message = f"the lines have {sum(counts):,} subword tokens, and the limit is {self.limits.waiting:,}"
            raise HTTPException(413, message)
        if self.tokens + sum(counts) > self.limits.waiting:
            raise HTTPException(503, f"{self.tokens:,} subword tokens wait already: send the request again later", AGAIN)
        loop = asyncio.get_running_loop()
        each = enumerate(zip(texts, counts, phrases, strict=True))
        found = [Line(t, k, n, wish, p, loop.create_future()) for k, (t, n, p) in each]
        self.waiting.extend(found)
        self._arrived.set()
        return found

    async def run(self) -> None:
        """Translate batches of lines until the task is cancelled."""
        while True:
            await self._arrived.wait()
            while batch := self._next():
                await self._translate(batch)
            self._arrived.clear()

    def _next(self) -> list[Line]:
        """Take the first line that waits, and later ones with its options, up to the limit."""
        rest: deque[Line] = deque()
        batch: list[Line] = []
        tokens = 0
        for line in self.waiting:
            has_room = tokens + line.tokens <= self.limits.batch and len(batch) < BATCH_SIZES[-1]
            fits = not batch or (line.wish == batch[0].wish and has_room)
            if line.answer.done():  # The request was given up.
                continue
            (batch if fits else rest).append(line)
            tokens += line.tokens if fits else 0
        self.waiting = rest
        return batch

    async def _translate(self, batch: Sequence[Line]) -> None:
        """Translate a batch. After an error each line is tried alone, so that none is lost with another."""
        started = time.perf_counter()
        try:
            found = await asyncio.to_thread(self._translations, batch)
        except Exception as error:
            if len(batch) > 1:
                for line in batch:
                    await self._translate([line])
            elif not batch[0].answer.done():
                batch[0].answer.set_exception(error)
            return
        self.metrics["batches_total"] += 1
        self.metrics["batch_seconds_total"] += time.perf_counter() - started
        self.metrics["lines_total"] += len(batch)
        self.metrics["source_tokens_total"] += sum(line.tokens for line in batch)
        for line, translation in zip(batch, found, strict=True):
            if not line.answer.done():
                line.answer.set_result(translation)

    def _translations(self, batch: Sequence[Line]) -> list[Translation]:
        wish = batch[0].wish
        options = {k: v for k, v in vars(wish.options).items() if k != "trace"}
        phrases = [line.phrases for line in batch] if any(line.phrases for line in batch) else None
        texts, numbers = [line.text for line in batch], [line.number for line in batch]
        return self.translator.translate(texts, prefix=wish.prefix, phrases=phrases, numbers=numbers, **options)


def service(translator: Translator, limits: Limits, hosts: Sequence[str] = ("*",)) -> Starlette:
    """Return the ASGI application of a translator.

    Args:
        translator: the translator.
        limits: the limits.
        hosts: the names by which requests may address the server.
    """
    batcher = Batcher(translator, limits)

    async def translate(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "the body must be JSON, with the header `Content-Type: application/json`")
        texts, wish, phrases = _request(await _body(request, limits), limits, translator)
        lines = batcher.add(texts, wish, phrases)
        try:
            found = await asyncio.wait_for(asyncio.gather(*(line.answer for line in lines)), limits.seconds)
        except TimeoutError:
            raise HTTPException(503, f"there was no answer within {limits.seconds:g} s: send fewer lines, or later", AGAIN) from None
        finally:
            for line in lines:
                line.answer.cancel()
        return JSONResponse(_answer(lines, found, translator.pair.cells[0]))

    async def health(_: Request) -> Response:
        model, samplers = translator.model.name, list(translator.model.samplers)
        about = {"status": "ok", "model": model, "direction": translator.direction, "precision": translator.way}
        return JSONResponse(about | {"samplers": samplers, "sampler": translator.sampler, "waiting_tokens": batcher.tokens})

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(_exposition(batcher), media_type="text/plain; version=0.0.4")

    async def openapi(_: Request) -> Response:
        return JSONResponse(_description(translator, limits))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(batcher.run())
        yield
        task.cancel()

    routes = [Route("/translate", _timed(translate, batcher.metrics), methods=["POST"])]
    routes += [Route(f"/{f.__name__}", f) for f in (health, metrics)] + [Route("/openapi.json", openapi)]
    trusted = Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    return Starlette(routes=routes, middleware=[trusted], exception_handlers={HTTPException: _refusal}, lifespan=lifespan)


def _timed(call: Callable[[Request], Any], metrics: defaultdict[str, float]) -> Callable[[Request], Any]:
    """Return a route that counts its answers by status and by time, and answers errors as JSON."""

    async def timed(request: Request) -> Response:
        started = time.perf_counter()
        try:
            answer = await call(request)
        except Exception as error:
            answer = _refusal(request, error)
        seconds = time.perf_counter() - started
        metrics[f'requests_total{{status="{answer.status_code}"}}'] += 1
        metrics["request_seconds_sum"] += seconds
        for most in (*RESPONSE_SECONDS, float("inf")):
            metrics[f'request_seconds_bucket{{le="{"+Inf" if most == float("inf") else most}"}}'] += seconds <= most
        metrics["request_seconds_count"] += 1
        return answer

    return timed


def _refusal(_: Request, error: Exception) -> Response:
    """Return the answer to an error: its text, and never a traceback."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": {"message": error.detail}}, error.status_code, error.headers)
    if isinstance(error, GmlmError):
        first = error.diagnostics[0]
        return JSONResponse({"error": {"code": first.code, "message": first.message, "help": first.help}}, 400)
    print(f"error: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    return JSONResponse({"error": {"message": f"internal error: {type(error).__name__}"}}, 500)


async def _body(request: Request, limits: Limits) -> Any:
    """Return the JSON value of a request.

    Raises:
        HTTPException: 408 for a body that arrives too late. 413 for a body above the limit of
            bytes. 400 for a body that ends early or is not JSON.
    """
    data, most = bytearray(), limits.size
    try:
        async with asyncio.timeout(limits.seconds):
            async for chunk in request.stream():
                data += chunk
                if len(data) > most:
                    raise HTTPException(413, f"the body has more than {most:,} bytes", {"Connection": "close"})
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {limits.seconds:g} s", {"Connection": "close"}) from None
    except ClientDisconnect:
        raise HTTPException(400, "the connection ended before the body did") from None
    try:
        value = json.loads(data)
        json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise HTTPException(400, "the body has half a surrogate pair, which is not text") from None
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from None


def _request(body: Any, limits: Limits, translator: Translator) -> tuple[list[str], Wish, list[list[str]]]:
    """Return the lines of a request, their options, and the phrases of each line.

    Raises:
        GmlmError: E506 and E507 for entries that are unknown or of another kind.
        HTTPException: 413 for too many lines.
    """
    if not isinstance(body, dict):
        raise fail("E507", "the body must be an object", help='write {"lines": ["A dog runs."]}')
    for name in body:
        if name not in ("lines", "phrases", *KINDS):
            raise unknown(f"a request has no entry `{name:.40}`", name, ("lines", "phrases", *KINDS))
    lines = body.get("lines")
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise fail("E507", f"`lines` must be a list of texts, got {lines!r:.60}", help='write {"lines": ["A dog runs."]}')
    if len(lines) > limits.lines:
        raise HTTPException(413, f"there are {len(lines):,} lines, and a request has at most {limits.lines:,}")
    types = {"string": str, "integer": int, "boolean": bool}
    for name, kind in KINDS.items():
        if body.get(name) is not None and type(body[name]) is not types[kind]:
            raise fail("E507", f"`{name}` must be of the type {kind}, got {body[name]!r:.60}")
    stated = {k: v for k, v in body.items() if k in KINDS and v is not None}
    prefix = stated.pop("prefix", None)
    options = TranslationOptions(**stated, cut=True)
    whole_number("seed", options.seed, 0)
    if options.seed >= 1 << 64:
        raise fail("E507", f"seed must be below 2^64, got {options.seed}")
    options = replace(options, sampler=translator.sampler_named(options.sampler))
    return lines, Wish(options, prefix), _phrases(body.get("phrases"), len(lines), translator)


def _phrases(stated: Any, lines: int, translator: Translator) -> list[list[str]]:
    """Return the phrases that the translation of each line must contain.

    Raises:
        GmlmError: E584 and E507 unless there is a list of texts for each line.
    """
    if stated is None:
        return [[]] * lines
    if not isinstance(stated, list) or len(stated) != lines:
        message = f"`phrases` must be a list with a list of texts for each of {lines:,} lines, got {stated!r:.60}"
        raise fail("E584", message, help='write {"lines": ["A dog runs."], "phrases": [["ein Hund"]]}')
    for number, texts in enumerate(stated, 1):
        encoded_phrases(translator.vocabulary, texts, number)
    return stated


def _answer(lines: Sequence[Line], found: Sequence[Translation], cells: int) -> JsonObject:
    """Return the body of an answer: a translation of each line, and warnings about long lines."""
    warnings, rows = [], []
    for number, (line, t) in enumerate(zip(lines, found, strict=True), 1):
        if t.cut:
            warnings.append(f"line {number} lost the end of a sentence that is longer than the model takes")
        elif line.tokens > cells:
            warnings.append(f"line {number} is longer than the model takes: its sentences were translated one by one")
        others = [{"text": text, "score": score} for text, score in t.alternatives]
        rows.append({"text": t.text, "score": t.score, "passes": t.passes, "ended": t.ended, "alternatives": others})
    return {"translations": rows, "warnings": warnings}


def _exposition(batcher: Batcher) -> str:
    """Return the metrics in the text format of Prometheus."""
    now = {"waiting_source_tokens": batcher.tokens, "waiting_lines": len(batcher.waiting)}
    families = {name: ("gauge", [f"{name} {value}"]) for name, value in now.items()}
    for key, value in batcher.metrics.items():
        name = key.partition("{")[0]
        name, kind = ("request_seconds", "histogram") if name.startswith("request_seconds") else (name, "counter")
        families.setdefault(name, (kind, []))[1].append(f"{key} {value}")
    parts = (f"# TYPE {PREFIX}{name} {kind}\n" + "".join(f"{PREFIX}{row}\n" for row in rows) for name, (kind, rows) in families.items())
    return "".join(parts)


def _description(translator: Translator, limits: Limits) -> JsonObject:
    """Return the interface as an OpenAPI document."""
    text, number = {"type": "string"}, {"type": "number"}
    entries = {"lines": {"type": "array", "items": text, "maxItems": limits.lines}}
    entries["phrases"] = {"type": "array", "items": {"type": "array", "items": text}}
    entries |= {name: {"type": kind} for name, kind in KINDS.items()}
    entries["sampler"] = {"type": "string", "enum": list(translator.model.samplers)}
    scored = {"text": text, "score": number}
    every = {"type": "array", "items": {"type": "object", "properties": scored}}
    one = {**scored, "passes": {"type": "integer"}, "ended": {"type": "boolean"}, "alternatives": every}
    answer = {"translations": {"type": "array", "items": {"type": "object", "properties": one}}}
    answer["warnings"] = {"type": "array", "items": text}
    said = {"error": {"type": "object", "properties": {"code": text, "message": text, "help": text}}}

    def content(properties: JsonObject, **more: Any) -> JsonObject:
        return {"content": {"application/json": {"schema": {"type": "object", "properties": properties, **more}}}}

    reasons = {"400": "a fault of the request", "413": "more than the limits", "415": "not JSON", "503": "too much waits: try again"}
    responses = {"200": {"description": "translations in the order of the lines", **content(answer)}}
    responses |= {status: {"description": reason, **content(said)} for status, reason in reasons.items()}
    post = {"summary": "Translate lines", "requestBody": {"required": True, **content(entries, required=["lines"])}, "responses": responses}
    plain = {"/health": "What is served", "/metrics": "Counts and times, as Prometheus reads them"}
    paths = {path: {"get": {"summary": words, "responses": {"200": {"description": words}}}} for path, words in plain.items()}
    info = {"title": f"gmlm {translator.model.name} {translator.direction}".strip(), "version": "1"}
    return {"openapi": "3.1.0", "info": info, "x-limits": asdict(limits), "paths": {"/translate": {"post": post}, **paths}}


def run_service(translator: Translator, limits: Limits, address: tuple[str, int], ready: Callable[[str], None]) -> None:
    """Serve until the process is interrupted; requests that wait are then answered first.

    Args:
        translator: the translator.
        limits: the limits.
        address: the host and the port; port 0 takes a free one.
        ready: called with the URL as soon as the port is open.

    Raises:
        GmlmError: E507 for an address that cannot be opened.
    """
    host, port = address
    try:
        opened = socket.create_server(address, family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise fail("E507", f"{host}, port {port} cannot be opened: {why}", help="choose another `--port`") from None
    app = service(translator, limits, LOOPBACK if host in LOOPBACK else ("*",))
    # The logging of uvicorn's own would close the handlers of other libraries.
    config = uvicorn.Config(app, log_config=None, log_level="warning", limit_concurrency=MOST_CONNECTIONS, server_header=False)
    config.timeout_graceful_shutdown = int(limits.seconds) + 1
    with opened:
        ready(f"http://{f'[{host}]' if ':' in host else host}:{opened.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[opened])
