"""Diagnostics of many cells take some cells at a time: their memory is little beside the draws, and they are the same."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from gmlmdsl.sample import _discrete_diagnostics as diagnostics
from gmlmdsl.sample import diagnose, limits

KEPT = """
import warnings, gmlmdsl as gm
warnings.simplefilter("ignore")
text = "graph G = grid(96, 96, wrap = true)  model m { var x[i in G.nodes] : spin  param J  factor J * x[i] * x[j] for (i, j) in G.edges }"
model = gm.parse(text + "  sampler s { update x[i] for i in G.nodes }").model()
def memory(name):
    return int(open("/proc/self/status").read().split(name)[1].split()[0]) * 1024
def drawn(n):
    return model.sample({"J": 0.2}, "s", draws=n, warmup=0, chains=4, progress=False)["posterior"]["x"].values
drawn(100)
before = memory("VmRSS:")
kept = drawn(8000)
print((memory("VmHWM:") - before) / kept.nbytes)
"""


def draws(cells: int, n: int = 200) -> np.ndarray:
    rng = np.random.default_rng(0)
    found = rng.integers(0, 3, (4, n, cells)).astype(np.int8)
    found[:, :, 0] = np.arange(4)[:, None] % 3  # stuck
    return found


def diagnosed(codes: np.ndarray) -> diagnostics.Diagnosis:
    cells = codes.shape[2]
    return diagnose(codes, [f"x[{i}]" for i in range(cells)], [("a", "b", "c")] * cells)


def test_pieces_give_what_all_cells_at_once_give(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = draws(50)
    whole = diagnosed(codes)
    for chunk in (1, 2**10, 2**12):
        monkeypatch.setattr(limits, "DIAGNOSED_AT_ONCE", chunk)
        some = diagnosed(codes)
        for name in ("frequency", "ess", "r_hat", "stuck", "visited", "flip_rate", "degrees"):
            np.testing.assert_array_equal(getattr(some, name), getattr(whole, name))
        for name in ("chi_square", "p_value"):  # sums over chains and values, whose order depends on the piece
            np.testing.assert_allclose(getattr(some, name), getattr(whole, name), rtol=1e-12)
        assert some.warnings == whole.warnings
    by_hand = (codes[:, 1:] == codes[:, :-1]).mean(axis=(0, 1))
    np.testing.assert_allclose(whole.flip_rate, 1 - by_hand, rtol=1e-12)
    np.testing.assert_array_equal(whole.frequency, np.stack([(codes == k).mean(axis=(0, 1)) for k in range(3)], axis=1))


def test_diagnostics_take_little_memory_beside_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DIAGNOSED_AT_ONCE", 1 << 15)
    codes = draws(1000, 4000)
    monkeypatch.setattr(
        diagnostics, "_indicator_diagnostics", lambda codes, sizes, width, wanted: tuple(np.full((2, len(sizes), 3), np.nan))
    )
    tracemalloc.start()
    diagnosed(codes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.3 * codes.nbytes


@pytest.mark.slow
def test_kept_draws_of_a_large_lattice_take_little_more_than_their_memory() -> None:
    """The peak of a process that keeps 4 chains of 8,000 draws of 9,216 spins, beside what it had before."""
    found = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, check=True)
    assert 1 < float(found.stdout) < 1.2  # 1.11 when it was measured
