"""Bars: on the standard error, only where a person watches, and only after a second for what cannot be counted."""

from __future__ import annotations

import io
import time

import pytest

from gmlmdsl import _progress


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
