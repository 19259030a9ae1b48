"""The scores of several translations as one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def score_columns(found: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[Any]], list[str]]:
    """Return headers, rows and signatures of a table of scores.

    `found` contains the scores by name.
    """
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
