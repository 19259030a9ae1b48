"""Digests of the draws, losses and fits of 40 programs: a change of shape leaves every one of them as it is.

`nightly/test_digests.py` compares them with those in `digests.json`; where `GMLM_KEEP_DIGESTS` is set, it keeps today's instead.
Losses and estimates are kept to the byte, with the first of their numbers beside: on another processor their last digits may
differ, and an estimate by more, as far as the search stops from the optimum. There the numbers are compared.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import packed_cases
from autoregressive_cases import PROGRAM as SEARCHED
from autoregressive_cases import SOURCES
from cluster_cases import CLOCK, POTTS, UNITS
from given_cases import CASES as GIVEN
from guided_cases import CASES as GUIDED
from networks_cases import program
from theory_cases import EVERY

import gmlmdsl as gm

KEPT = Path(__file__).with_suffix(".json")
KEEP = bool(os.environ.get("GMLM_KEEP_DIGESTS"))
EXAMPLES = KEPT.parent.parent / "examples"
DRAWS = {"draws": 12, "seed": 11, "progress": False}
CHAINS = {"warmup": 3, "chains": 3}
FITTED = 2  # masks of a program that it is fitted by
MASKS = "mask some = bernoulli(x, rate = 0.4)\nmask one = subsets(x, size = 1)\n"
ENCODER = "transformer(layers = 1, heads = 2, width = 8)"
NETWORKS = {
    "transformer": program(ENCODER, 4, 3, MASKS + "sampler cells { update x[K] where K ~ one }\n"),
    "mlp": program("mlp(width = 8, layers = 1)", 4, 3, MASKS + "sampler apart { update x[K] independently where K ~ some }\n"),
    "refined": program(ENCODER, 4, 3, MASKS + "sampler fine = refinement(steps = 3, lengths = 1)\n"),
    "searched": SEARCHED,
}
SIZES = {"ising": {"L": 4}, "rbm": {"n_visible": 6, "n_hidden": 3}, "hmm": {"n_tags": 2, "width": 5}, "mixed": {}, "adaptive": {"L": 3}}
SHOWN = 8  # numbers of an array that are kept beside its digest
TOLERANCE = 1e-3  # between processors: relative to the larger number, or to 1
Digest = dict[str, str]


@cache
def makers() -> dict[str, Callable[[], tuple[Any, Any, Any, Any]]]:
    """By name of the program, what makes its model, parameters, rows, and given data of the rows."""
    cases = (*EVERY, POTTS, UNITS, CLOCK, packed_cases.TWO, packed_cases.SIGNS)
    found: dict[str, Callable[[], tuple[Any, Any, Any, Any]]] = {c.name: partial(_of_case, c) for c in cases}
    found |= {f"given {name}": partial(_of_rows, rows) for name, rows in GIVEN.items()}
    found |= {f"guided {name}": partial(_of_guided, guided) for name, guided in GUIDED.items()}
    found |= {f"network {name}": partial(_of_network, text) for name, text in NETWORKS.items()}
    found |= {f"example {name}": partial(_of_example, name) for name in SIZES}
    return found


def _of_case(case: Any) -> tuple[Any, Any, Any, Any]:
    return case.model, case.params, case.values(case.rows), None


def _of_rows(rows: Any) -> tuple[Any, Any, Any, Any]:
    return rows.model, rows.params, rows.x, rows.given


def _of_guided(guided: Any) -> tuple[Any, Any, Any, Any]:
    return guided.model, guided.params, None, None


def _of_network(text: str) -> tuple[Any, Any, Any, Any]:
    model = gm.parse(text).model()
    x = np.random.default_rng(3).integers(0, 3, (16, 4)) if text != SEARCHED else None
    return model, model.init_params(seed=0), x, {"src": SOURCES} if text == SEARCHED else None


def _of_example(name: str) -> tuple[Any, Any, Any, Any]:
    model = gm.load(EXAMPLES / f"{name}.gmlm", **SIZES[name]).model()
    return model, model.init_params(seed=1), None, None


def digests(name: str) -> dict[str, Digest]:
    """By question to a program, the digest of the answer: draws of every sampler, loss and fit under every mask."""
    model, params, x, given = makers()[name]()
    beside = {"missing": -1} if name == "network searched" else {} if name.startswith("guided") else CHAINS
    return {question: _digest(ask) for question, ask in _questions(model, params, x, given, beside)}


def _questions(
    model: Any, params: Any, x: Any, given: Any, beside: Mapping[str, Any]
) -> Iterator[tuple[str, Callable[[], Mapping[str, Any]]]]:
    rows = {} if given is None else {"given": given}
    for sampler in _own(model.program.checked.samplers, model):
        one = rows if x is None or given is None else {"given": _first(model, given)}
        yield f"draws of {sampler}", partial(_draws, model, params, sampler, {**beside, **one})
    for number, mask in enumerate(_own(model.program.checked.masks, model) if x is not None else ()):
        yield f"loss under {mask}", partial(_loss, model, params, x, mask, rows)
        if number < FITTED:
            yield f"fit under {mask}", partial(_fit, model, x, mask, rows)


def _first(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given data of the first row."""
    axes = {v.name: len(v.shape) for v in model.graph.given}
    return {name: np.asarray(value)[0] if np.ndim(value) > axes[name] else value for name, value in given.items()}


def _own(declared: Mapping[str, Any], model: Any) -> list[str]:
    return [name for name, one in declared.items() if one.model == model.name]


def _draws(model: Any, params: Any, sampler: str, options: Mapping[str, Any]) -> dict[str, Any]:
    drawn = model.sample(params, sampler, **DRAWS, **options)["posterior"]
    return {name: drawn[name] for name in sorted(drawn.data_vars)}


def _loss(model: Any, params: Any, x: Any, mask: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"loss": model.loss(params, x, mask, key=0, n_masks=2, **given)}


def _fit(model: Any, x: Any, mask: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if hasattr(model, "decode"):  # a network: its weights are no dict of arrays
        return {"trace": model.fit(x, mask=mask, seed=2, progress=False, optimizer=gm.Training(steps=3)).loss_trace}
    return dict(sorted(model.fit(x, mask=mask, seed=2, progress=False, **given).params.items()))


def _digest(ask: Callable[[], Mapping[str, Any]]) -> Digest:
    """The digests of an answer, or the code of the refusal."""
    try:
        answer = {name: np.asarray(value) for name, value in ask().items()}
    except gm.GmlmError as error:
        return {"refused": str(error).split("]")[0].split("[")[-1]}
    bytes_of = {name: _bytes(value) for name, value in answer.items()}
    numbers = {name: value for name, value in answer.items() if value.dtype.kind == "f"}
    return {
        "exact": _hash(b"".join(name.encode() + data for name, data in bytes_of.items())),
        "discrete": _hash(b"".join(name.encode() + data for name, data in bytes_of.items() if name not in numbers)),
        "numbers": " ".join(f"{x:.6g}" for value in numbers.values() for x in value.ravel()[:SHOWN].tolist()),
    }


def _bytes(value: np.ndarray) -> bytes:
    return repr(value.tolist()).encode() if value.dtype == object else value.tobytes()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def differing(found: Mapping[str, Digest], kept: Mapping[str, Digest], elsewhere: bool) -> list[str]:
    """The questions whose answers are not the kept ones; `elsewhere`, on another processor, they may differ a little."""
    same = _same_elsewhere if elsewhere else operator.eq
    return sorted(q for q in {*found, *kept} if q not in found or q not in kept or not same(found[q], kept[q]))


def _same_elsewhere(one: Digest, other: Digest) -> bool:
    parts = [{k: v for k, v in d.items() if k not in ("exact", "numbers")} for d in (one, other)]
    numbers = [np.array(d.get("numbers", "").split(), float) for d in (one, other)]
    return (
        parts[0] == parts[1]
        and len(numbers[0]) == len(numbers[1])
        and np.allclose(numbers[0], numbers[1], TOLERANCE, TOLERANCE, equal_nan=True)
    )


def kept() -> dict[str, Any]:
    """What `digests.json` holds: `where` it was made, and `digests` by program."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"where": where(), "digests": {}}


def keep(name: str, found: Mapping[str, Digest]) -> None:
    """Put a program's digests into the file, with today's machine."""
    programs = kept()["digests"] | {name: found}
    text = json.dumps({"where": where(), "digests": {n: programs[n] for n in makers() if n in programs}}, indent=1)
    KEPT.write_text(text + "\n", encoding="utf-8")


def where() -> str:
    """The processor, as Linux names it, and the releases on which digests are equal to the byte.

    Virtual machines hide the generation of a processor in its name, and show it in the numbers of its family and model.
    """
    info = Path("/proc/cpuinfo")
    fields = dict[str, str]()
    for line in info.read_text(encoding="utf-8").splitlines() if info.exists() else []:
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    processor = " ".join(fields[n] for n in ("model name", "cpu family", "model") if n in fields) or platform.machine()
    from importlib.metadata import version

    return f"{processor}, Python {platform.python_version()}, JAX {version('jax')}"
