"""Fits that were killed go on from their saved state, with an equal result."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.files import SavedStates, _saved_states
from gmlmdsl.fit import _minimise, _optimise
from gmlmdsl.sample import groups_of

pytestmark = pytest.mark.usefixtures("standard_promotion")  # optax counts steps in integers

TEXT = """
graph G = chain(6)
model m {
  var   x[i in G.nodes] : bit
  param h[i in G.nodes] ~ normal(0, 1)
  param J ~ normal(0, 1)
  factor h[i] * x[i] for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
sampler s { update x[i] for i in G.nodes }
"""
X = (np.random.default_rng(0).normal(size=(60, 6)) + np.random.default_rng(1).normal(size=(60, 1)) > 0).astype(int)
GAPS = np.where(np.random.default_rng(2).random(X.shape) < 0.4, -1, X)
PCD: dict[str, Any] = {"chains": 16, "burn_in": 3}
LAPLACE = TEXT.replace("normal(0, 1)", "laplace(0, 0.05)")
WAYS = {
    "lbfgs": {"mask": "single"},
    "lbfgs of missing cells": {"mask": "single", "x": GAPS, "missing": -1},
    "starts": {"mask": "single", "starts": 3},
    "lbfgs at kinks": {"model": LAPLACE, "mask": "single"},
    "adam": {"mask": "single", "optimizer": optax.adam(0.05), "batch_size": 20, "max_steps": 12},
    "pcd": {"method": gm.PersistentContrastiveDivergence(steps=96, **PCD)},
    "pcd that stops": {"method": gm.PersistentContrastiveDivergence(**PCD)},
    "pcd with adam and gaps": {
        "x": GAPS,
        "missing": -1,
        "method": gm.PersistentContrastiveDivergence(steps=96, optimizer=optax.adam(0.05), batch_size=16, **PCD),
    },
    "mcem": {"mask": "single", "x": GAPS, "missing": -1, "method": gm.MonteCarloEM(copies=2, rounds=6)},
}

TWINS = ("lbfgs of missing cells", "pcd with adam and gaps", "posterior of a fit", "path of blocks")


@cache
def model_of(text: str) -> Any:
    """One model for all tests: what is compiled for one serves the next."""
    return gm.parse(text).model()


@pytest.fixture(scope="module")
def model():
    return model_of(TEXT)


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Any]:
    """What runs that nothing cuts off find, by their names."""
    return {}


@pytest.fixture(autouse=True)
def at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_saved_states, "SAVED_EVERY", 0.0)
    monkeypatch.setattr(_optimise, "CALL_SECONDS", 0.0)


def fitted(model, way: str, **more):
    how = {"x": X, "seed": 3, "progress": False} | WAYS[way] | more
    own = how.pop("model", None)
    return (model if own is None else model_of(own)).fit(**how)


class Killed(BaseException):
    """A fit is cut off."""


def cut_off(patch: pytest.MonkeyPatch, at: int, steps: list[int]) -> None:
    """Let a fit end just after it saved its state for the `at`-th time."""
    save = SavedStates.save

    def saves(self, step, *more):
        save(self, step, *more)
        steps.append(step)
        if len(steps) == at:
            raise Killed

    patch.setattr(SavedStates, "save", saves)


def each_at(names: Any, early: int, late: int) -> Any:
    """Every name with both moments; the gate has one moment of every fourth name, and leaves out what is another way's twin."""
    cases = thinned([(n, at) for k, n in enumerate(names) for at in ((early, late) if k % 2 == 0 else (late, early))], 16)
    return [pytest.param(*c, marks=pytest.mark.slow) if isinstance(c, tuple) and c[0] in TWINS else c for c in cases]


@pytest.mark.parametrize(("way", "at"), each_at(WAYS, 1, 4))
def test_a_fit_that_was_cut_off_goes_on_to_the_same_estimate(model, undisturbed, way: str, at: int, tmp_path: Path, monkeypatch):
    if way not in undisturbed:
        undisturbed[way] = fitted(model, way)
    wanted, first, again = undisturbed[way], [], []
    with monkeypatch.context() as patch:
        cut_off(patch, at, first)
        with pytest.raises(Killed):
            fitted(model, way, checkpoint=tmp_path / "run")
    with monkeypatch.context() as patch:
        cut_off(patch, -1, again)
        found = fitted(model, way, checkpoint=tmp_path / "run")
    assert again[0] > first[-1]  # it went on, and did not begin anew
    for name, values in wanted.params.items():
        np.testing.assert_array_equal(found.params[name], values)
    np.testing.assert_array_equal(found.loss_trace, wanted.loss_trace)
    assert str(found.status) == str(wanted.status)
    assert list(tmp_path.iterdir()) == []


def drawn(found: Any) -> list[np.ndarray]:
    groups = groups_of(found)
    return [np.asarray(v.values) for name in ("posterior", "sample_stats") for v in groups[name].values()]


def arrays_of(path: Any) -> list[np.ndarray]:
    return [np.concatenate([np.ravel(p["K"]) for p in path.params]), path.selected, *path.table.to_numpy().T]


PAIRS = TEXT.replace("param J ~ normal(0, 1)", "param K[(i, j) in G.edges]").replace("J *", "K[i, j] *")
SPIKES = PAIRS.replace("G.edges]", "G.edges] ~ spike_slab(1, 0.5)", 1)
CHAINS: dict[str, Any] = {"draws": 230, "warmup": 120, "chains": 2}
PATH: dict[str, Any] = {"penalty": 4, "progress": False}
RUNS: dict[str, tuple[str, Callable[..., list[np.ndarray]]]] = {
    "posterior of a fit": (TEXT, lambda m, **how: drawn(m.posterior(X, "single", **CHAINS, **how))),
    "posterior of spikes": (SPIKES, lambda m, **how: drawn(m.posterior(X, "single", inclusion=gm.BetaBernoulli(), **CHAINS, **how))),
    "path": (PAIRS, lambda m, **how: arrays_of(m.fit_path(X, "single", **PATH, **how))),
    "path of blocks": (PAIRS, lambda m, **how: arrays_of(m.fit_path(X, "single", criterion="elasso", **PATH, **how))),
    "held-out rows": (PAIRS, lambda m, **how: arrays_of(m.fit_path(X, "single", criterion="cv", folds=3, **PATH, **how))),
    "half samples": (
        PAIRS,
        lambda m, **how: arrays_of(m.fit_path(X, "single", criterion="stability", subsamples=4, wrong=9, **PATH, **how)),
    ),
}


@pytest.mark.parametrize(("name", "at"), each_at(RUNS, 1, 3))
def test_posteriors_and_paths_go_on_to_equal_results(name: str, at: int, tmp_path: Path, monkeypatch):
    text, run = RUNS[name]
    model, first, again, every = model_of(text), [], [], []
    with monkeypatch.context() as patch:
        cut_off(patch, -1, every)
        wanted = run(model, **({"checkpoint": tmp_path / "run"} if at == 1 else {}))
    with monkeypatch.context() as patch:
        cut_off(patch, at, first)
        with pytest.raises(Killed):
            run(model, checkpoint=tmp_path / "run")
    with pytest.raises(gm.GmlmError, match=r"E752[\s\S]*these differ: .*seed"):
        run(model, checkpoint=tmp_path / "run", seed=7)
    with pytest.raises(gm.GmlmError, match=r"E752[\s\S]*these differ: .*weights"):
        run(model, checkpoint=tmp_path / "run", weights=np.arange(1, 61))
    with monkeypatch.context() as patch:
        cut_off(patch, -1, again)
        found = run(model, checkpoint=tmp_path / "run")
    assert first == list(range(1, at + 1)) and (not again or again[0] == at + 1)
    assert not every or every == first + again  # nothing that was done is done again
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_two_passes_and_metrics_of_many_rows_go_on(model, tmp_path: Path, monkeypatch):
    """The first pass of L-BFGS sums products in float32, and its metric is computed again after some steps."""
    for module in (_optimise, _minimise):
        monkeypatch.setattr(module, "MANY_PRODUCTS", 0)
    monkeypatch.setattr(_minimise, "METRIC_RENEWALS", (2, 4))
    wanted, every = fitted(model, "lbfgs"), []
    with monkeypatch.context() as patch:
        cut_off(patch, -1, every)
        fitted(model, "lbfgs", checkpoint=tmp_path / "run")
    assert len(every) > 5
    for at in range(1, len(every), 3):
        with monkeypatch.context() as patch:
            cut_off(patch, at, [])
            with pytest.raises(Killed):
                fitted(model, "lbfgs", checkpoint=tmp_path / "run")
        found = fitted(model, "lbfgs", checkpoint=tmp_path / "run")
        np.testing.assert_array_equal(found.loss_trace, wanted.loss_trace)
        np.testing.assert_array_equal(found.params["J"], wanted.params["J"])


def test_a_damaged_state_is_passed_over(model, tmp_path: Path, monkeypatch):
    with monkeypatch.context() as patch:
        cut_off(patch, 4, [])
        with pytest.raises(Killed):
            fitted(model, "lbfgs", checkpoint=tmp_path / "run")
    latest = tmp_path / "run" / "4.state"
    content = bytearray(latest.read_bytes())
    content[len(content) // 2] ^= 1
    latest.write_bytes(content)
    with pytest.warns(gm.GmlmWarning, match="goes on from step 3, before it"):
        found = fitted(model, "lbfgs", checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(found.params["J"], fitted(model, "lbfgs").params["J"])


def test_a_signal_ends_a_fit_after_its_state_is_saved(model, tmp_path: Path, monkeypatch):
    save = SavedStates.save

    def saves(self, step, *more):
        save(self, step, *more)
        if step == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(SavedStates, "save", saves)
        with pytest.raises(SystemExit) as ended:
            fitted(model, "adam", checkpoint=tmp_path / "run")
    assert ended.value.code == 143
    assert sorted(p.name for p in (tmp_path / "run").glob("*.state")) == ["5.state", "6.state"]
    np.testing.assert_array_equal(fitted(model, "adam", checkpoint=tmp_path / "run").params["J"], fitted(model, "adam").params["J"])


OTHERS = {
    "seed": {"seed": 4},
    "x": {"x": 1 - X},
    "weights": {"weights": np.arange(60)},
    "init": {"init": {"J": 0.5}},
    "fixed": {"fixed": {"J": 0.5}},
    "max_steps": {"max_steps": 13},
    "optimizer": {"optimizer": optax.adam(0.06)},
    "method": {"method": gm.PersistentContrastiveDivergence(), "optimizer": None, "batch_size": None, "max_steps": None, "mask": None},
}


@pytest.mark.parametrize("part", OTHERS)
def test_a_fit_of_another_call_is_refused(model, part: str, tmp_path: Path, monkeypatch):
    with monkeypatch.context() as patch:
        cut_off(patch, 2, [])
        with pytest.raises(Killed):
            fitted(model, "adam", checkpoint=tmp_path / "run")
    with pytest.raises(gm.GmlmError, match=rf"E752[\s\S]*these differ:.*{part}"):
        fitted(model, "adam", checkpoint=tmp_path / "run", **OTHERS[part])
    with pytest.raises(gm.GmlmError, match=r"E752[\s\S]*these differ: program"):
        fitted(gm.parse(TEXT + "# another\n").model(), "adam", checkpoint=tmp_path / "run")


def test_what_cannot_be_saved_is_refused(model, tmp_path: Path):
    with pytest.raises(gm.GmlmError, match=r"E704[\s\S]*starts="):
        fitted(model, "adam", checkpoint=tmp_path / "run", starts=2)
    with pytest.raises(gm.GmlmError, match="E560"):
        fitted(model, "adam", checkpoint=3)


CHILD = f"""
import sys, hashlib
import numpy as np
import gmlmdsl as gm
from gmlmdsl.files import _saved_states
_saved_states.SAVED_EVERY = 0.05
x = (np.random.default_rng(0).normal(size=(60, 6)) + np.random.default_rng(1).normal(size=(60, 1)) > 0).astype(int)
how = {{"checkpoint": sys.argv[1]}} if len(sys.argv) > 1 else {{}}
model = gm.parse('''{TEXT}''').model()
KIND
print(hashlib.sha256(b"".join(found[k].tobytes() for k in sorted(found))).hexdigest())
"""
KINDS = {
    "fit": "method = gm.PersistentContrastiveDivergence(chains=4096, steps=1600, sweeps=4)\n"
    "found = model.fit(x, method=method, progress=False, **how).params",
    "posterior": 'drawn = model.posterior(x, "single", draws=20000, **how)\n'
    'found = {"h": np.asarray(drawn["posterior"]["h"].values), "J": np.asarray(drawn["posterior"]["J"].values)}',
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_kill_at_random_moments_loses_no_bit(kind: str, tmp_path: Path):
    text = CHILD.replace("KIND", KINDS[kind])
    wanted = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    folder, moments, kills = tmp_path / "run", random.Random(0), 0
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", text, str(folder)], stdout=subprocess.DEVNULL)
        begun = time.monotonic()
        while child.poll() is None and not list(folder.glob("*.state")) and time.monotonic() - begun < 100:
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 1))
        kills += child.poll() is None
        child.kill()
        child.wait()
    last = subprocess.run([sys.executable, "-c", text, str(folder)], capture_output=True, text=True, check=True)
    assert last.stdout == wanted
    assert kills > 0
    assert list(tmp_path.iterdir()) == []
