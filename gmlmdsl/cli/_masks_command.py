"""The command `gmlm masks`, which compares the program's masks or suggests masks as text."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._diagnostics import fail, listed
from .._progress import shows_progress, waiting
from .._types import JsonObject
from ._console import note, print_table, warn
from ._model_source import ModelSource, model_and_params, pick

if TYPE_CHECKING:
    from ..model import Model
    from ..theory import MaskComparison, Quantity


@dataclass(frozen=True)
class MasksRequest:
    """The command line of `gmlm masks`."""

    source: ModelSource
    masks: Sequence[str] | None
    suggest: bool
    draws: int | None
    sampler: str | None
    seed: int
    times: bool
    as_json: bool


def run_masks(request: MasksRequest) -> None:
    """Compare masks and print the result, or suggest masks and print only `.gmlm` text."""
    model, params = model_and_params(request.source, "compare the masks of")
    _verify(model, request)
    from .. import theory

    options: dict[str, Any] = {"draws": request.draws, "sampler": request.sampler, "seed": request.seed, "measure": request.times}
    if request.suggest:
        with waiting(f"looking for masks of `{model.name}`", shows_progress(None)), _warnings_below():
            found = theory.suggest_masks(model, params, **options)
        for text in found.left_out:
            note(f"left out: {text}")
        if request.as_json:
            print(json.dumps({"text": str(found), "left_out": found.left_out, **as_data(found.comparison)}, indent=2))
        else:
            # The empty line separates the text from earlier text if it is appended by `>>`.
            print(f"\n{found}", end="")
        return
    with waiting(f"comparing masks of `{model.name}`", shows_progress(None)), _warnings_below():
        comparison = theory.compare_masks(model, params, request.masks, **options)
    if request.as_json:
        print(json.dumps(as_data(comparison), indent=2))
        return
    head, *rows = comparison.shown()
    print_table(head, rows, f"masks of `{model.name}`", written=True)
    print("\n".join(f"  {line}" for line in comparison.legend()))
    print("\n".join(["", *comparison.paragraphs()]))


def _verify(model: Model, request: MasksRequest) -> None:
    """Raise an error for unknown names before any work."""
    if model.graph.given:
        message = f"`gmlm masks` takes no data of {listed([v.name for v in model.graph.given])}, which model `{model.name}` is given"
        raise fail("E510", message, help="compare in Python: `gm.theory.compare_masks(model, params, given={..})`")
    for name in request.masks or ():
        pick(name, model.masks, f"mask of model `{model.name}`", "mask")
    if request.sampler is not None:
        pick(request.sampler, model.samplers, f"sampler of model `{model.name}`", "sampler")


@contextmanager
def _warnings_below() -> Iterator[None]:
    """Print the warnings of chains on the standard error after the block, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    from ..sample import SamplingWarning

    for text in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, SamplingWarning)):
        warn(text)


def as_data(comparison: MaskComparison) -> JsonObject:
    """Return the comparison as JSON data.

    Each number has its kind. Infinite numbers are the text "inf".
    """
    rows = []
    for r in comparison.reports:
        numbers = {name: getattr(r, name) for name in ("variance_one", "variance_all", "worst_one", "poincare")}
        numbers |= {"gradient_ms": r.gradient, "step_us": r.step}
        row = {"mask": r.name, "blocks": _plain(r.blocks), "cells": r.mean_size, "fit_averages": r.averages, "unseen": r.unseen}
        rows.append(row | {name: None if q is None else _quantity(q) for name, q in numbers.items()})
    recommendation = comparison.recommendation.splitlines()
    return {"call": comparison.source, "made": comparison.words, "recommendation": recommendation, "masks": rows}


def _quantity(q: Quantity) -> JsonObject:
    return {"value": _plain(q), "kind": q.kind, "error": _plain(q.error)}


def _plain(x: float) -> float | str | None:
    if math.isnan(x):
        return None
    return float(x) if math.isfinite(x) else "inf"
