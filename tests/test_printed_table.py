"""What `print(fit.summary())` shows on a terminal, in a file, and what it leaves alone."""

from __future__ import annotations

import io

import numpy as np
import pytest

from gmlmdsl._printed_table import PrintedTable, shortened

LABELS = ["h[handicapped-infants]", "J[handicapped-infants, water-project-cost-sharing]", "J[handicapped-infants, budget]"]
COLUMNS = ["estimate", "std_error", "3%", "97%"]


def table() -> PrintedTable:
    return PrintedTable(np.arange(12.0).reshape(3, 4) / 7, index=LABELS, columns=COLUMNS)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [56, 70, 200])
def test_all_columns_fit_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", str(width))
    shown = str(table().iloc[:, :]).splitlines()
    assert shown[0].split() == COLUMNS
    assert max(map(len, shown)) <= width
    assert len(shown) == 4
    assert (LABELS[1] in shown[2]) == (width == 200)
    assert list(table().index) == LABELS


def test_files_get_whole_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr("sys.stdout", io.StringIO())
    shown = str(table()).splitlines()
    assert shown[0].split() == COLUMNS
    assert [line[: len(LABELS[1])].strip() for line in shown[1:]] == LABELS


def test_a_long_name_is_whole_in_files_and_notebooks() -> None:
    """pandas alone cuts texts after 50 letters."""
    name = "h[" + "a question of the survey " * 4 + "]"
    frame = PrintedTable({"estimate": [0.5]}, index=[name])
    assert repr(frame).splitlines()[1].startswith(name)
    assert f"<th>{name}</th>" in frame._repr_html_()


def test_labels_are_cut_by_parts_and_never_made_alike() -> None:
    assert shortened(["J[handicapped, b]", "h[aid]"], 12) == ["J[handi…, b]", "h[aid]"]
    assert shortened(["h[abcdefgh1]", "h[abcdefgh2]"], 9) == ["h[abcdefgh1]", "h[abcdefgh2]"]
    assert shortened(["h", "J[0, 1]"], 40) == ["h", "J[0, 1]"]
    assert shortened([], 4) == []
