"""plmc (github.com/debbiemarkslab/plmc), where the variable GMLM_PLMC or the PATH names it: its command line, its file of parameters."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ._measure import cores

Array = np.ndarray
VARIABLE = "GMLM_PLMC"


@dataclass(frozen=True)
class Potts:
    """Fields of shape (sites, values) and couplings (pairs, values, values), pairs as `numpy.triu_indices` orders them."""

    h: Array
    J: Array


def binary() -> str | None:
    """The program, or None."""
    return os.environ.get(VARIABLE) or shutil.which("plmc")


def command(program: str, alignment: Path, out: Path, penalties: tuple[float, float], weighted: bool, steps: int | None) -> list[str]:
    """A fit of every column of an alignment; sequences are weighted at 80 % identity or not at all; no most steps: to its own end."""
    options = ["-o", str(out), "-lh", str(penalties[0]), "-le", str(penalties[1]), "-t", "0.2" if weighted else "-1", "-n", str(cores())]
    return [program, *options, *(["-m", str(steps)] if steps else []), str(alignment)]


def read_parameters(path: Path) -> tuple[Potts, float]:
    """What `-o` wrote: the parameters, and the effective number of sequences."""
    raw = path.read_bytes()
    sites, values, rows, skipped = np.frombuffer(raw, np.int32, 4).tolist()
    effective = float(np.frombuffer(raw, np.float32, 5, offset=20)[4])
    at = 40 + values + 4 * (rows + skipped) + sites + 4 * sites  # letters, weights, the focus sequence and its places
    numbers = np.frombuffer(raw[at:], np.float32).astype(float)
    pairs = sites * (sites - 1) // 2
    _, h, _, j = np.split(numbers, np.cumsum([sites * values, sites * values, pairs * values**2]))
    return Potts(h.reshape(sites, values), j.reshape(pairs, values, values)), effective
