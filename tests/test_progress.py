"""Bars: on the standard error, only where a person watches, and only after a second for what cannot be counted."""

from __future__ import annotations

import dataclasses
import importlib
import io
import time
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
import gmlmdsl.posterior
from gmlmdsl import _progress
from gmlmdsl.fit._few_rows import Later


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in place of the standard error."""
    out = Terminal()
    monkeypatch.setattr("sys.stderr", out)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    return out


def test_a_bar_is_shown_where_a_person_watches(monkeypatch: pytest.MonkeyPatch):
    watched(monkeypatch)
    assert _progress.shows_progress(None)
    assert not _progress.shows_progress(False)
    monkeypatch.setenv("CI", "1")
    assert not _progress.shows_progress(None)
    assert _progress.shows_progress(True)


def test_work_that_takes_longer_than_a_second_shows_a_bar(monkeypatch: pytest.MonkeyPatch, capsys):
    seen = watched(monkeypatch)
    monkeypatch.setattr(_progress, "PATIENCE", 0.05)
    with _progress.waiting("fitting", show=True):
        time.sleep(0.3)
    assert "fitting" in seen.getvalue()
    assert capsys.readouterr().out == ""


def test_quick_work_shows_none(monkeypatch: pytest.MonkeyPatch):
    seen = watched(monkeypatch)
    with _progress.waiting("fitting", show=True):
        pass
    assert seen.getvalue() == ""


def test_a_bar_goes_when_the_work_fails(monkeypatch: pytest.MonkeyPatch):
    """A second bar could not start while the first is alive."""
    watched(monkeypatch)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)

    def fails() -> None:
        with _progress.waiting("fitting", show=True):
            time.sleep(0.1)
            raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fails()


def test_counted_steps_are_all_there(monkeypatch: pytest.MonkeyPatch):
    seen = watched(monkeypatch)
    assert list(_progress.tracked(range(3), "fitting", show=True)) == [0, 1, 2]
    assert "fitting" in seen.getvalue()
    assert list(_progress.tracked(range(3), "fitting", show=False)) == [0, 1, 2]


@cache
def fitted() -> gm.Fit:
    text = """
model m {
  var a : bit
  var b : bit
  param h ~ normal(0, 1)
  param J ~ normal(0, 1)
  factor h * a
  factor J * a * b
}
mask one = subsets(size = 1)
"""
    return gm.parse(text).model().fit(rows(), progress=False)


def rows() -> dict[str, np.ndarray]:
    found = np.random.default_rng(0).integers(0, 2, (60, 2))
    return {"a": found[:, 0], "b": found[:, 1]}


CALLS: dict[str, Callable[[gm.Fit, bool | None], object]] = {
    "bootstrap": lambda f, show: f.bootstrap(2, progress=show),
    "case dropping": lambda f, show: f.case_dropping(2, [0.5], progress=show),
    "centrality": lambda f, show: f.centrality(bootstrap=f.bootstrap(2, progress=False), progress=show),
    "folds": lambda f, show: f.cross_validate(2, progress=show),
    "replicated": lambda f, show: f.predictive(draws=100, progress=show),
    "simulation": lambda f, show: f.simulated_errors(20, progress=show),
}


@pytest.mark.usefixtures("float64", "standard_promotion")
@pytest.mark.parametrize("word", thinned(CALLS, 4))
def test_calls_of_a_fit_that_take_long_show_a_bar_and_none_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch, word: str):
    fit, seen = fitted(), watched(monkeypatch)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    CALLS[word](fit, False)
    assert seen.getvalue() == ""
    CALLS[word](fit, None)
    assert word in seen.getvalue()


@pytest.mark.parametrize("verb", thinned(["posterior", "to_arviz", "summary"], 3))
def test_verbs_whose_steps_cannot_be_counted_show_a_bar(monkeypatch: pytest.MonkeyPatch, verb: str):
    """What draws is stood in for; a summary infers errors when it is first asked for, and has no switch."""
    fit, seen = fitted(), watched(monkeypatch)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    monkeypatch.setattr(gmlmdsl.posterior, "posterior", lambda *_, **__: time.sleep(0.3))
    if verb == "summary":
        later = Later(lambda: time.sleep(0.3) or fit.inference)  # pyright: ignore[reportArgumentType]
        assert later.status is fit.status
        assert "standard errors" in seen.getvalue()
        return
    getattr(fit, verb)(progress=False)
    assert seen.getvalue() == ""
    getattr(fit, verb)()
    assert "drawing from the posterior" in seen.getvalue()


@pytest.mark.usefixtures("float64", "standard_promotion")
def test_a_covariance_that_takes_long_shows_a_bar_where_the_fit_did(monkeypatch: pytest.MonkeyPatch):
    """Each kind is computed when it is first asked for, after the status: by a summary, or for standard errors."""
    found, seen = fitted().inference.covariances, watched(monkeypatch)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    monkeypatch.setattr(type(found), "_computed", lambda *_: time.sleep(0.2) or np.zeros((2, 2)))
    for wanted, words in ((False, False), (None, True)):
        monkeypatch.setattr(found, "progress", wanted)
        monkeypatch.setattr(found, "_found", {})
        found["sandwich"]
        assert ("standard errors" in seen.getvalue()) is words


def test_annealing_shows_a_bar(monkeypatch: pytest.MonkeyPatch):
    fit, seen = fitted(), watched(monkeypatch)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    quick = {"betas": 40, "chains": 64}
    fit.model.annealed_log_partition(fit.params, **quick, progress=False)
    assert seen.getvalue() == ""
    fit.model.annealed_log_partition(fit.params, **quick)
    assert "annealed importance sampling" in seen.getvalue()


STRUCTURES: dict[str, tuple[str, Callable[[gm.Fit, bool | None], object]]] = {
    "errors of couplings": ("gmlmdsl.assess._couplings.interaction_slopes", lambda f, show: f.couplings(progress=show)),
    "tests of couplings": (
        "gmlmdsl.assess._group_differences.interaction_slopes",
        lambda f, show: f.differences(dataclasses.replace(f), progress=show),
    ),
    "effects of substitutions": (
        "gmlmdsl.evaluate.substitution_effects",
        lambda f, show: f.model.effects(f.params, {"a": 0, "b": 1}, progress=show),
    ),
    "centrality": ("gmlmdsl.assess._centrality._measures", lambda f, show: f.centrality(progress=show)),
    "least penalty": ("gmlmdsl.assess._path._penalties", lambda f, show: f.model.fit_path(rows(), penalty=2, progress=show)),
}


@pytest.mark.usefixtures("float64", "standard_promotion")
@pytest.mark.parametrize("words", thinned(STRUCTURES, 2, 1))
def test_what_reads_a_fit_as_a_network_shows_a_bar_where_it_takes_long(monkeypatch: pytest.MonkeyPatch, words: str):
    """What may take long is slowed down."""
    place, call = STRUCTURES[words]
    module, name = place.rsplit(".", 1)
    quick = getattr(importlib.import_module(module), name)
    monkeypatch.setattr(place, lambda *a: time.sleep(0.2) or quick(*a))
    fit, seen = fitted(), watched(monkeypatch)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    anew = dataclasses.replace(fit, inference=Later(lambda: time.sleep(0.2) or fit.inference, None))  # pyright: ignore[reportArgumentType]
    call(anew, False)
    assert seen.getvalue() == ""
    call(fit, None)
    assert words in seen.getvalue()
