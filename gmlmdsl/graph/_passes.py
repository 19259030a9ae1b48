"""The order in which a decoder settles its cells.

A schedule fixes either how many cells are open after each pass, or the probabilities with which
cells settle and are hidden again in it.

Reference: Ghazvininejad et al. 2019 (linear), Chang et al. 2022 (cosine), Arriola et al. 2025
(blocks); Wang et al. 2025, Section 3 and Appendix A (remasking: sigma_t, and Campbell et al. 2022
and Gat et al. 2024 as special cases of it).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._diagnostics import Span, fail
from ..program import PUBLISHED, ir
from .limits import PASS_ROUNDING

Array = np.ndarray
DFM_RATE = 10.0  # Gat et al. 2024, Appendix D, have beta = 10 t^(1/4) (1 - t)^(1/4).


@dataclass(frozen=True)
class Passes:
    """The passes of a decoder.

    Attributes:
        steps: the number of passes in each block, or over all cells if there are no blocks.
        total: the number of all passes.
        block: the number of cells of a block; all cells if there are no blocks.
        open_after: the number of open cells of a pool of m cells after s passes over it, shape
            (block + 1, steps + 1). It is None if the schedule depends on confidence or on a
            mask, or is of Python and not allowed.
        settles: the probability that an open cell settles in each pass, shape (total,); None if the
            numbers are fixed.
        again: an upper bound of the probability that a settled cell is hidden again, in each pass,
            shape (total,).
    """

    steps: int
    total: int
    block: int
    open_after: Array | None = None
    settles: Array | None = None
    again: Array | None = None


def passes_of(call: ir.FormCall, options: Mapping[str, Any], n: int) -> Passes:
    """Return the passes of `refinement` over n cells.

    Args:
        call: the form, as it is written.
        options: the evaluated options of `refinement`.
        n: the number of cells that are decoded.

    Raises:
        GmlmError: E409 for counts that do not sum to the number of cells; E744 for a schedule of
            Python that does not return counts.
    """
    schedule, block = options["schedule"], n if options["block"] == "none" else min(int(options["block"]), n)
    counts = user_counts(schedule, block, call.span) if callable(schedule) else schedule if isinstance(schedule, np.ndarray) else None
    steps = len(counts) if counts is not None else block if options["steps"] == "cells" else int(options["steps"])
    if counts is not None and (counts.sum() != block or (counts < 1).any() or (counts > block).any()):
        name = call.arguments["schedule"] if callable(schedule) else "counts"
        message = f"`{name}` settles {', '.join(map(str, counts.tolist()))} cells, and there are {block:,}"
        help = "the numbers are at least 1, one for each pass, and sum to the cells" + " of a block" * (block < n)
        raise fail("E409", message, call.span, f"sums to {int(counts.sum())}", help=help)
    total = steps * -(-n // block)
    if options["remask"] in PUBLISHED:
        shares = np.concatenate([[0], np.cumsum(counts)]) / n if counts is not None else _shares(str(schedule), steps)
        return Passes(steps, total, block, None, *_rates(options, shares))
    one_by_one = isinstance(schedule, str) and schedule == "easy_first" and options["remask"] == "none"
    if counts is None and schedule not in ("linear", "cosine") and total > 1 and not one_by_one:
        return Passes(steps, total, block)
    return Passes(steps, total, block, _open_after(block, steps, counts, str(schedule)))


def open_after(n: int, steps: int, schedule: str) -> Array:
    """Return how many of n cells are open after 0..T passes of a `linear` or `cosine` schedule."""
    return _open_after(n, steps, None, schedule)[n]


def _open_after(block: int, steps: int, counts: Array | None, schedule: str) -> Array:
    """Return the table `open_after` of `Passes`.

    If there are fewer cells than `counts` settles, its last passes find none.
    """
    m, t = np.arange(block + 1)[:, None], np.arange(steps + 1)[None]
    if counts is not None:
        left = m - np.concatenate([[0], np.cumsum(counts)])[None]
    elif schedule == "easy_first":
        left = m - t
    elif schedule == "linear":
        left = m * (steps - t) // steps
    else:
        left = np.floor(m * np.cos(math.pi * t / (2 * steps)) + PASS_ROUNDING).astype(np.int64)
    return np.maximum(np.where(t == steps, 0, left), 0)


def _shares(schedule: str, steps: int) -> Array:
    """Return alpha after each pass: the average share of settled cells."""
    t = np.arange(steps + 1) / steps
    return t if schedule == "linear" else 1 - np.cos(math.pi / 2 * t) * (t < 1)


def _rates(options: Mapping[str, Any], shares: Array) -> tuple[Array, Array]:
    """Return for each pass the probability to settle, and sigma_t, that to be hidden again.

    With alpha before and after the pass, the probability to settle is (after - (1 - sigma_t)
    before) / (1 - before). The share of settled cells is therefore alpha, as with sigma = 0.
    """
    steps = len(shares) - 1
    done = np.arange(steps) / steps
    inside = (done >= options["from"] - PASS_ROUNDING) & (done < options["until"] - PASS_ROUNDING)
    if options["loop"] != "none":
        shares = _looped(float(options["loop"]), inside)
    before, after = shares[:-1], shares[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.where(before > 0, np.minimum(1, (1 - after) / before), 1.0)
        grown = np.where(before > 0, (after - before) / before, 0.0)
    eta = float(options["eta"])
    sigma = {
        "remdm_cap": np.minimum(eta, most),
        "remdm_rescale": eta * most,
        "remdm_confidence": eta * most,
        "forward_backward": np.minimum(grown, most),
        "dfm": np.minimum(DFM_RATE * ((1 - before) * before) ** 0.25 * grown, most),
    }[str(options["remask"])]
    sigma = np.where(inside, sigma, 0.0)
    # With `remdm_confidence` every cell has its own sigma, which is 0 for an open cell.
    own = np.where(options["remask"] == "remdm_confidence", 0.0, sigma)
    return np.clip((after - (1 - own) * before) / (1 - before), 0, 1), sigma


def _looped(level: float, inside: Array) -> Array:
    """Return alpha that rises to `level` before the loop, stays there, and then rises to 1."""
    before, behind = int(np.argmax(inside)) if inside.any() else len(inside), 0
    behind = len(inside) - before - int(inside.sum())
    up = np.linspace(0, level, before + 1)
    down = np.linspace(level, 1, behind + 1)
    return np.concatenate([up, np.full(int(inside.sum()), level), down[1:]])


def user_counts(schedule: Callable[..., Any], cells: int, place: Span) -> np.ndarray:
    """Return how many of the cells each pass settles by a schedule of Python.

    Raises:
        GmlmError: E744 if the schedule raises, or returns no list of whole numbers.
    """
    try:
        counts = np.asarray(schedule(cells))
    except Exception as error:  # The function is the user's, and may raise any exception.
        message = f"the schedule cannot be called with {cells} cells: {type(error).__name__}: {error}"
        raise fail("E744", message, place, "called here") from error
    if counts.ndim != 1 or counts.dtype.kind not in "iu":
        message = f"the schedule must return a list of whole numbers, got {counts.dtype} of shape {counts.shape}"
        raise fail("E744", message, place, "called here", help="return how many cells each pass settles, such as `[1, 2, 3]` for 6 cells")
    return counts.astype(np.int64)
