"""When the cells of a decoder are settled: how many are open after each pass, or how likely each is to settle and to be hidden again.

Reference: Ghazvininejad et al. 2019 (linear), Chang et al. 2022 (cosine), Arriola et al. 2025
(blocks); Wang et al. 2025, Section 3 and Appendix A (remasking: sigma_t, and Campbell et al. 2022
and Gat et al. 2024 as special cases of it).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._diagnostics import fail
from ..program import PUBLISHED, ir

Array = np.ndarray
ROUNDING = 1e-6  # n cos(..) that is whole but for rounding is whole
DFM_RATE = 10.0  # of Gat et al. 2024, Appendix D: beta = 10 t^(1/4) (1 - t)^(1/4)


@dataclass(frozen=True)
class Passes:
    """The passes of a decoder.

    Attributes:
        steps: passes in each block, or of all cells where there are no blocks.
        total: all passes.
        block: cells of a block, of all cells where there are no blocks.
        open_after: cells of a pool of m that are open after s passes over it, shape (block + 1,
            steps + 1); None where a schedule looks at confidence or a mask.
        settles: the probability that an open cell settles in each pass, shape (total,); None where
            their number is fixed.
        again: the most that the probability is with which a settled cell is hidden again, shape
            (total,).
    """

    steps: int
    total: int
    block: int
    open_after: Array | None = None
    settles: Array | None = None
    again: Array | None = None

    def pass_of(self, n: int) -> Array:
        """The pass (from 0) in which each of n cells settles, in the order of settling."""
        assert self.open_after is not None
        found = []
        for first in range(0, n, self.block):
            size = min(self.block, n - first)
            settled = size - self.open_after[size]
            found.append(first // self.block * self.steps + np.searchsorted(settled, np.arange(size), side="right") - 1)
        return np.concatenate(found) if found else np.zeros(0, np.int64)


def passes_of(call: ir.FormCall, options: Mapping[str, Any], n: int) -> Passes:
    """The passes of `refinement` over n cells.

    Args:
        call: where it is written.
        options: those of `refinement`, evaluated.
        n: the cells that are decoded.

    Raises:
        GmlmError: E409 for counts that do not sum to the cells.
    """
    schedule, block = options["schedule"], n if options["block"] == "none" else min(int(options["block"]), n)
    counts = schedule if isinstance(schedule, np.ndarray) else None
    steps = len(counts) if counts is not None else block if options["steps"] == "cells" else int(options["steps"])
    if counts is not None and (counts.sum() != block or (counts < 1).any()):
        message = f"`counts` settles {', '.join(map(str, counts.tolist()))} cells, and there are {block:,}"
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
    """How many of n cells are open after 0..T passes of a `linear` or `cosine` schedule."""
    return _open_after(n, steps, None, schedule)[n]


def _open_after(block: int, steps: int, counts: Array | None, schedule: str) -> Array:
    """See `Passes`; where fewer cells are there than `counts` settles, its last passes find none."""
    m, t = np.arange(block + 1)[:, None], np.arange(steps + 1)[None]
    if counts is not None:
        left = m - np.concatenate([[0], np.cumsum(counts)])[None]
    elif schedule == "easy_first":
        left = m - t
    elif schedule == "linear":
        left = m * (steps - t) // steps
    else:
        left = np.floor(m * np.cos(math.pi * t / (2 * steps)) + ROUNDING).astype(np.int64)
    return np.maximum(np.where(t == steps, 0, left), 0)


def _shares(schedule: str, steps: int) -> Array:
    """alpha after each pass: the share of cells that is settled then, on average."""
    t = np.arange(steps + 1) / steps
    return t if schedule == "linear" else 1 - np.cos(math.pi / 2 * t) * (t < 1)


def _rates(options: Mapping[str, Any], shares: Array) -> tuple[Array, Array]:
    """The probability to settle with sigma = 0, as alpha, and sigma_t of each pass."""
    steps = len(shares) - 1
    done = np.arange(steps) / steps
    inside = (done >= options["from"] - ROUNDING) & (done < options["until"] - ROUNDING)
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
    # there a cell's sigma is its own, and 0 of an open one
    own = np.where(options["remask"] == "remdm_confidence", 0.0, sigma)
    return np.clip((after - (1 - own) * before) / (1 - before), 0, 1), sigma


def _looped(level: float, inside: Array) -> Array:
    """alpha that rises to `level` before the loop, stays there within it, and rises to 1 behind it."""
    before, behind = int(np.argmax(inside)) if inside.any() else len(inside), 0
    behind = len(inside) - before - int(inside.sum())
    up = np.linspace(0, level, before + 1)
    down = np.linspace(level, 1, behind + 1)
    return np.concatenate([up, np.full(int(inside.sum()), level), down[1:]])
