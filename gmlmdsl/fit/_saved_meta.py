"""The entries of `meta`, the text and numbers of a saved fit, with their types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

CODES = ("converged", "no-minimiser", "undetermined", "agrees", "not-converged", "diverged")
REASONS = ("steps", "patience", "callback", "diverged")
SHOWN = 100  # maximum number of letters of a wrong entry that a message shows
Check = Callable[[object], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _one_of(*known: str) -> Check:
    return lambda value: value in known if isinstance(value, str) else False


def _list_of(check: Check, size: int | None = None) -> Check:
    return lambda value: isinstance(value, list) and size in (None, len(value)) and all(map(check, value))


def _dict_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _has(entries: Mapping[str, Check]) -> Check:
    return lambda value: isinstance(value, dict) and set(value) == set(entries) and all(check(value[k]) for k, check in entries.items())


MISSING = {
    **dict.fromkeys(("rows", "summed", "imputed", "unseen", "imputations", "iterations"), _is_whole),
    **dict.fromkeys(("noise", "drift"), _is_number),
    "latents": _list_of(_is_text),
}
SIMULATED = {"words": _is_text, "draws": _is_whole, "effective": _is_number}
STARTS = {"objectives": _list_of(_is_number), **dict.fromkeys(("agree", "switched", "failed"), _is_whole)}
HOW = {"seed": _is_whole, "sampler": _or_none(_is_text), "warmup": _is_whole, "thin": _or_none(_is_whole)}
# The entries of every fit, of a fit of a factor model, and of a trained network. The entries in
# `MORE` are optional.
META = {
    "program": lambda value: _dict_of(_is_text)(value) and bool(value),
    "sha256": _is_text,
    "coords": _dict_of(_list_of(lambda value: _is_text(value) or isinstance(value, int))),
    "versions": _dict_of(_is_text),
    "model": _is_text,
    "seed": _is_whole,
    "mask": _is_text,
    "rows": _is_whole,
    "seconds": _is_number,
}
ESTIMATE_META = META | {
    "mask_use": _is_text,
    "n_masks": _or_none(_is_whole),
    "weights_are": _one_of("importances", "counts"),
    "effective_rows": _is_number,
    "fixed": _list_of(_is_text),
    "convex": _is_flag,
    "method": _or_none(_is_text),
    "reached": _is_number,
    "mean_block_size": _is_number,
    "objective": _is_number,
    "status": _one_of(*CODES),
    "findings": _list_of(_list_of(_is_text, 3)),
}
NETWORK_META = META | {"kind": _one_of("network"), "cells": _is_number, "widths": _list_of(_is_whole), "reason": _one_of(*REASONS)}
MORE = {
    "missing": _has(MISSING),
    # files of an earlier version have no `how`
    "simulated": lambda value: _has(SIMULATED)(value) or _has(SIMULATED | {"how": _has(HOW)})(value),
    "selected": _dict_of(_list_of(_is_whole)),
    "batch_size": _is_whole,
    "kept": _is_whole,
    "loss": _one_of("squared"),  # for a network; without the entry, the loss is the cross-entropy
    "gaps": _one_of("ignore"),
    "starts": _has(STARTS),
    "level": lambda value: _is_number(value) and 0 < value < 1,
}


def fault_of_meta(meta: object) -> str | None:
    """Return a description of a fault in `meta`, or None if there is none.

    A fault is a missing entry, an entry that no fit has, or an entry of another type.
    """
    if not isinstance(meta, dict):
        return "what it says of the fit is not a JSON object"
    needed = NETWORK_META if "kind" in meta else ESTIMATE_META
    if lacking := [name for name in needed if name not in meta]:
        return f"its entry `{lacking[0]}` is lacking"
    checks = needed | MORE
    if strange := [name for name in meta if name not in checks]:
        return f"its entry {strange[0][:SHOWN]!r} is none of a fit's"
    wrong = [name for name, check in checks.items() if name in meta and not check(meta[name])]
    return f"its entry `{wrong[0]}` is {str(meta[wrong[0]])[:SHOWN]!r}, which no fit has there" if wrong else None
