"""What is handed to a call and has the wrong kind is told as such, never by a traceback from inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gmlmdsl as gm
from gmlmdsl.data import verified_weights
from gmlmdsl.sample._draw import observables

TEXT = """
model m {
  var x[i in range(3)] : bit
  let up = x[0] + x[1]
  factor 0.3 * x[0] * x[1]
}
sampler one { update x[K] where K ~ subsets(x, size = 1) }
"""

ONE = "model m { var x : bit  factor x }\nmask pair = subsets(x, size = 2)\n"


@pytest.fixture(scope="module")
def model() -> Any:
    return gm.parse(TEXT).model()


CALLS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "ragged prefixes": (lambda m: m.next_symbol({}, [[1], [], [0, 1]]), "E501", "prefixes of one call have one length"),
    "ragged start": (lambda m: gm.theory.mixing_time(m, {}, start=[[1], [0, 1]]), "E501", "start must be a regular array"),
    "value of a start": (lambda m: gm.theory.mixing_time(m, {}, start=[0, 1, 2]), "E502", "start at 2 is 2"),
    "a file's name": (lambda m: m.log_prob({}, "mine.csv"), "E502", r"gm.read_table\('mine.csv'\)"),
    "a path": (lambda m: m.log_prob({}, Path("mine.parquet")), "E502", r"gm.read_table\('mine.parquet'\)"),
    "no rows": (lambda m: m.log_prob({}, None), "E502", "must be rows of data, and is None"),
    "observe": (lambda m: m.sample({}, observe=3), "E507", "observe must be a dict of functions"),
    "a text for a file": (lambda m: gm.load(TEXT), "E507", r"gm.parse\(text\)"),
    "a file for a text": (lambda m: gm.parse("votes.gmlm"), "E507", r"gm.load\('votes.gmlm'\)"),
    "masks in the place of parameters": (
        lambda m: gm.theory.compare_masks(m, ["one"]),
        "E507",
        r"got list\nhelp: `compare_masks\(fit\)` compares all masks",
    ),
    "a cell": (lambda m: gm.parse(ONE).model().mask("pair"), "E410", r"no subset of 2 among 1 cell\n(?s:.*)`size` is 1 here"),
    "several weights": (lambda m: verified_weights([1, 2, -1], 3), "E507", r"row 2 \(counted from 0\) has -1"),
    "no text": (lambda m: gm.parse(None), "E507", "the text of a program is a string, got NoneType"),  # pyright: ignore[reportArgumentType]
}


@pytest.mark.parametrize("call", CALLS)
def test_the_wrong_kind_is_told(model: Any, call: str) -> None:
    run, code, said = CALLS[call]
    with pytest.raises(gm.GmlmError, match=said) as caught:
        run(model)
    assert caught.value.diagnostics[0].code == code


def test_one_let_is_observed_by_its_name_alone(model: Any) -> None:
    found = observables(model.lowered, {}, "up")
    assert found is not None
    assert list(found.parts) == ["up"]
