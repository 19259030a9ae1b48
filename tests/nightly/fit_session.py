"""A session of fits in one process, of other programs and row counts each time: prints memory and mappings; see `test_fit_session.py`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import gmlmdsl as gm
from gmlmdsl.derive import mappings

CHAIN = """
input n : int
index sites = range(n)
model chain {{
  var x[i in sites] : {values}
  param h ~ normal(0, {sd})
  param J ~ normal(0, {sd})
  factor h * x[i] for i in sites
  factor J * x[i] * x[i + 1] for i in range(n - 1)
}}
mask single = subsets(x, size = 1)
mask pairs  = blocks({{x[i], x[i + 1]}} for i in range(n - 1))
"""


def resident() -> float:
    """MB that the process holds now."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def fit(k: int) -> None:
    """Fit number k: its program, its size and its rows are no other's."""
    n, rows = 3 + k % 7, 20 + k
    low, high = ((-1, 1), (0, 1))[k % 2]
    text = CHAIN.format(values=("spin", "bit")[k % 2], sd=1 + k / 100)
    x = np.random.default_rng(k).choice([low, high], size=(rows, n))
    found = gm.parse(text, n=n).model().fit(x, mask=("single", "pairs")[k % 3 == 0])
    assert str(found.status) == "converged", found.status


def main(fits: int) -> None:
    """One line after every tenth fit: how many, MB, mappings, seconds of processor time."""
    for k in range(fits):
        fit(k)
        if k % 10 == 9:
            print(k + 1, f"{resident():.0f}", mappings(), f"{time.process_time():.0f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
