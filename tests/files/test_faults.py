"""Runs that save their state, on a full disk, in a folder that may not be written, under a clock that is set back, and interrupted.

A full disk is a limit of the size of files: the libraries of C and C++ that write draws and checkpoints feel it too.
"""

from __future__ import annotations

import errno
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.files import SavedStates, _saved_states
from gmlmdsl.fit import _optimise
from gmlmdsl.sample import limits
from gmlmdsl.train._checkpoints import Checkpoints

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.usefixtures("standard_promotion")
TEXT = """
graph G = chain(6)
model m {
  var   x[i in G.nodes] : bit
  param J ~ normal(0, 1)
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask single for m = subsets(x, size = 1)
sampler s for m { update x[i] for i in G.nodes }
network net = mlp(layers = 1, width = 4)
model words { var y[i in range(3)] : bit  conditional y ~ net() }
mask whole for words = everything(y)
"""
X = (np.random.default_rng(0).random((40, 6)) < 0.5).astype(int)
Run = Callable[[Path | None], Any]


def fitted(folder: Path | None) -> Any:
    return gm.parse(TEXT).model("m").fit(X, mask="single", progress=False, checkpoint=folder).params


def drawn(folder: Path | None, ending: str) -> Any:
    store = None if folder is None else folder.with_name(folder.name + ending)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.SamplingWarning)
        draws = gm.parse(TEXT).model("m").sample({"J": 0.2}, "s", draws=150, chains=3, progress=False, store=store)
    return np.asarray(draws["posterior"]["x"].values)


def trained(folder: Path | None) -> Any:
    method = gm.Training(steps=12, batch_size=8, **({} if folder is None else {"checkpoint": folder, "save_every": 4}))
    return gm.parse(TEXT).model("words").fit(X[:, :3], mask="whole", method=method).params


RUNS: dict[str, Run] = {
    "fit": fitted,
    "draws.nc": lambda folder: drawn(folder, ".nc"),
    "draws.zarr": lambda folder: drawn(folder, ".zarr"),
    "training": trained,
}
each = pytest.mark.parametrize("kind", RUNS)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A state is saved at every step, and Ctrl-C is heard as it is not in a process behind `&`."""
    monkeypatch.setattr(_saved_states, "SAVED_EVERY", 1e-9)
    monkeypatch.setattr(_optimise, "CALL_SECONDS", 0.0)
    monkeypatch.setattr(limits, "WRITTEN_AT_ONCE", 4 * 6 * 16)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def assert_same(found: Any, wanted: Any) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(one, other)


@each
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of Orbax's threads, which end without a caller
def test_a_full_disk_is_an_error_and_the_same_call_goes_on(kind: str, tmp_path: Path):
    wanted = RUNS[kind](None)
    RUNS[kind](tmp_path / "first")  # compiles what the run under the limit needs
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(gm.GmlmError, match=r"cannot write[\s\S]*File too large") as caught:
            RUNS[kind](tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.codes == ("E560",)
    assert_same(RUNS[kind](tmp_path / "run"), wanted)


@each
def test_a_read_only_folder_is_an_error(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opened = os.open

    def refuses(path: Any, *more: Any, **how: Any) -> int:
        if str(path).startswith(str(tmp_path)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opened(path, *more, **how)

    monkeypatch.setattr(os, "open", refuses)
    with pytest.raises(gm.GmlmError, match="Read-only file system") as caught:
        RUNS[kind](tmp_path / "run")
    assert caught.value.codes == ("E560",)


@each
def test_an_interrupt_saves_and_a_clock_that_is_set_back_changes_nothing(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    owner, saved = (Checkpoints if kind == "training" else SavedStates), []
    save = owner.save

    def saves(self: Any, *more: Any) -> None:
        save(self, *more)
        saved.append(more[0])
        if len(saved) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    wanted = RUNS[kind](None)
    monkeypatch.setattr(owner, "save", saves)
    with pytest.raises(KeyboardInterrupt):
        RUNS[kind](tmp_path / "run")
    now, calls = time.time(), iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: now - 1e7 - next(calls))
    began = len(saved)
    assert_same(RUNS[kind](tmp_path / "run"), wanted)
    assert len(saved) > began and saved[began] > saved[began - 1], "the run went on from its state, and saved more of them"
