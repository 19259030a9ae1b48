"""Scores of a translator under one sampler, as the pipeline and the command line take them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._metrics import score
from ._translator import Translator


@dataclass(frozen=True)
class Evaluated:
    """Translations of a test text, and numbers about them as JSON holds them."""

    outputs: tuple[str, ...]
    notes: dict[str, Any]


def evaluated(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    sampler: str,
    *,
    seed: int = 0,
    direction: str = "",
    learnt: Path | None = None,
) -> Evaluated:
    """Translate a test text and score it.

    Raises:
        GmlmError: for a text that cannot be scored.
    """
    started = time.perf_counter()
    found = translator.translate([s for s, _ in pairs], sampler=sampler, seed=seed, cut=True)
    seconds = time.perf_counter() - started
    outputs = tuple(t.text for t in found)
    scores = score(outputs, [t for _, t in pairs], direction.rpartition("-")[2] or None, sources=[s for s, _ in pairs], learnt=learnt)
    passes = sum(t.passes for t in found) / max(1, len(found))
    return Evaluated(outputs, scores.as_dict() | {"sampler": sampler, "seconds": seconds, "mean_passes": passes})


def score_columns(found: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[Any]], list[str]]:
    """Headers, rows and signatures of a table of scores by name."""
    headers = list(dict.fromkeys(s["name"] for notes in found.values() for s in notes["scores"]))
    rows = []
    signatures: dict[str, None] = {}
    for name, notes in found.items():
        by_name = {s["name"]: s for s in notes["scores"]}
        rows.append([name, *(_number(by_name, h) for h in headers)])
        signatures |= dict.fromkeys(f"{s['name']}: {s['signature']}" for s in notes["scores"])
    return headers, rows, list(signatures)


def _number(by_name: Mapping[str, Any], name: str) -> Any:
    value = by_name[name]["value"] if name in by_name else None
    return float("nan") if value is None else float(value)
