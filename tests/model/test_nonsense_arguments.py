"""Functions of the top level and of `gm.theory` that are called with nonsense: an error of the package's own, whatever it was."""

from __future__ import annotations

import inspect
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmlmdsl as gm

NONSENSE = {
    "nothing": None,
    "a number": 7,
    "nan": float("nan"),
    "a huge number": 10**400,
    "true": True,
    "bytes": b"abc",
    "no bytes": b"",
    "a text": "abc",
    "NUL": "a\0b",
    "a lone surrogate": "\ud800",
    "no text": "",
    "a list": [1, 2],
    "a dict": {"a": 1},
    "a set": {1},
    "an object": object(),
    "an array": np.zeros((2, 2)),
    "a file of text": io.StringIO("x"),
    "a closed file": None,
    "a class": int,
    "a function": len,
    "a program": gm.parse("model m { var x : bit }"),
}
READERS = ("load", "load_fit", "load_translator", "read_table", "read_alignment")
CHANGED = {"Fit", "Model", "JointModel", "ConditionalModel", "NetworkFit", "ProbeFit", "Report", "Oracle"}  # made by verbs, or protocols


def functions() -> dict[str, Callable[..., Any]]:
    """What the top level and `gm.theory` have that can be called."""
    top = {n: getattr(gm, n) for n in gm.__all__ if n not in CHANGED}
    deep = {f"theory.{n}": getattr(gm.theory, n) for n in dir(gm.theory) if n.islower() and not n.startswith("_")}
    found = {n: f for n, f in (top | deep).items() if callable(f)}
    return {n: f for n, f in found.items() if not (isinstance(f, type) and issubclass(f, BaseException)) and n != "Diagnostic"}


def needed(function: Callable[..., Any]) -> int:
    parameters = inspect.signature(function).parameters.values()
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def keywords(function: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY]


@pytest.mark.parametrize("name", sorted(functions()))
def test_nonsense_is_an_error_of_the_package(name: str):
    function = functions()[name]
    closed = io.BytesIO(b"")
    closed.close()
    for what, value in (NONSENSE | {"a closed file": closed}).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                function(*[value] * max(1, needed(function)), **{k: value for k in keywords(function)})
            except gm.GmlmError as error:
                assert error.diagnostics[0].message, what  # noqa: PT017


@pytest.mark.parametrize("name", READERS)
def test_a_reader_says_of_no_file_what_it_is(name: str, tmp_path: Path):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "junk").write_bytes(bytes(range(256)) * 9)
    for value in (str(tmp_path), tmp_path, tmp_path / "empty", tmp_path / "junk", tmp_path / "none", tmp_path / "a\0b", bytes(tmp_path)):
        try:
            getattr(gm, name)(value)
        except gm.GmlmError:
            continue
        assert (name, value) == ("load", tmp_path / "empty")  # a program that declares nothing


def test_a_number_is_not_taken_for_an_open_file(tmp_path: Path):
    with (tmp_path / "a").open("wb") as file:
        for name in READERS:
            with pytest.raises(gm.GmlmError) as caught:
                getattr(gm, name)(file.fileno())
            assert caught.value.codes == ("E120",)
        file.write(b"still open")
    assert (tmp_path / "a").read_bytes() == b"still open"


COORDS = (["a", "b"], 5, {"i": 5}, {"i": b"ab"}, {"i": [[1], [2]]}, {"i": ["a", None]}, {"i": np.ones((2, 1))}, {"i": ["a", "a"]})


@pytest.mark.parametrize("coords", COORDS, ids=repr)
def test_labels_of_members_are_lists_by_index_set(coords: object):
    with pytest.raises(gm.GmlmError, match="coords") as caught:
        gm.parse("index i = range(2)\nmodel m { var x[k in i] : bit }", coords=coords)  # type: ignore[arg-type]
    assert caught.value.codes == ("E403",)


@pytest.mark.parametrize(
    "options",
    [{"missing": float("nan")}, {"missing": -9}, {"missing": ["?", 3]}, {"columns": 1.5}, {"columns": [1.5]}, {"where": ["a=1"]}],
    ids=repr,
)
def test_parts_of_a_table_are_named_by_texts(options: dict[str, Any], tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,-1\n1,?\n")
    with pytest.raises(gm.GmlmError, match=f"`{next(iter(options))}=`") as caught:
        gm.read_table(path, **options)
    assert caught.value.codes == ("E507",)
    assert gm.read_table(path, columns=1, missing="?").columns == ("b",)
