"""Parquet files: the same table as the .csv, from Python and from the command line, and what is refused."""

from __future__ import annotations

import sys
import warnings
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_cases import folder as folder
from cli_cases import gmlm
from damage import damaged
from refusals import refused

import gmlmdsl as gm
from gmlmdsl.cli._program_arguments import read_weights
from gmlmdsl.data import encode
from gmlmdsl.read import _table

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow, an optional package, is not installed")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = {
    "Class": ["democrat", "republican", "democrat", "democrat"],
    "infants": ["n", None, "y", "n"],
    "crime": ["y", "y", "n", "y"],
    "w": [1.5, 2.0, None, 0.25],
    "k": [3, 1, 2, 0],
}
LABELLED = (
    'index vote = range(2)  model m { var x[i in vote] : labels("n", "y")  factor 0.1 for i in vote } mask one = subsets(x, size = 1)'
)


@pytest.fixture
def votes(tmp_path):
    """The table in both formats."""
    parquet.write_table(pyarrow.table(ROWS), tmp_path / "v.parquet")
    pd.DataFrame(ROWS).to_csv(tmp_path / "v.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"columns": "infants:crime", "missing": ""},
        {"where": {"Class": "democrat"}, "missing": ["", "?"]},
        {"columns": ["k", "w"], "missing": ""},
        {"columns": "4,1"},
    ],
)
def test_a_table_is_that_of_the_csv(votes, options):
    found, wanted = (gm.read_table(votes / name, **options) for name in ("v.parquet", "v.csv"))
    assert (found.columns, found.missing_counts, found.in_order) == (wanted.columns, wanted.missing_counts, wanted.in_order)
    np.testing.assert_array_equal(found.x, wanted.x)
    assert found.rows.tolist() == [r - 1 for r in wanted.rows.tolist()]


def test_categories_and_other_types_are_texts(tmp_path):
    columns = {
        "c": pyarrow.array(["u", "v", None]).dictionary_encode(),
        "b": [True, False, None],
        "d": [date(2026, 1, 2)] * 3,
        "e": pyarrow.nulls(3),
        "i": pyarrow.array([1, 2, 3], pyarrow.int8()),
        "f": pyarrow.array([0.1, float("nan"), 2.0], pyarrow.float32()),
        "l": [[1], [2], [3]],
        "y": [b"a", b"b", b"c"],
        "large": pyarrow.array([" p ", "q", "q"], pyarrow.large_string()),
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet", row_group_size=2)
    found = gm.read_table(tmp_path / "t.parquet")
    assert found.texts(range(9)).T.tolist() == [
        ["u", "v", ""],
        ["True", "False", ""],
        ["2026-01-02"] * 3,
        ["", "", ""],
        ["1", "2", "3"],
        [str(float(np.float32(0.1))), "", "2.0"],
        ["<list<element: int64>>"] * 3,
        ["<binary>"] * 3,
        ["p", "q", "q"],
    ]


def test_a_value_that_does_not_fit_is_named_by_its_row(votes):
    model = gm.parse(LABELLED, coords={"vote": ["infants", "crime"]}).model()
    codes = encode(model.graph, gm.read_table(votes / "v.parquet", missing=""), missing="").codes
    assert codes.T.tolist() == [[0, 1], [-1, 1], [1, 0], [0, 1]]
    bad = pyarrow.table(ROWS | {"crime": ["y", "y", "maybe", "y"]})
    parquet.write_table(bad, votes / "bad.parquet")
    found = refusal(lambda: encode(model.graph, gm.read_table(votes / "bad.parquet", "1:2", missing=""), missing=""))
    assert 'bad.parquet, row 3, column `crime` is "maybe": not a value of `x`' in found.message


@pytest.mark.usefixtures("standard_promotion")
def test_the_command_line_reads_data_and_weights(folder, votes):
    (folder / "l.gmlm").write_text(LABELLED.replace("factor 0.1 for i in vote", 'param h ~ normal(0, 1)  factor h * (x[0] == "y")'))
    options = ["--columns", "infants:crime", "--where", "Class=democrat", "--weights", "k"]
    said = [gmlm("fit", "l.gmlm", str(votes / name), *options).output.split("h ")[1] for name in ("v.parquet", "v.csv")]
    assert said[0].split()[:2] == said[1].split()[:2]
    parquet.write_table(pyarrow.table({"n": ["y"] * 5, "y": ["n"] * 5}), folder / "named.parquet")  # names that are values
    assert "with a header" in gmlm("fit", "l.gmlm", "named.parquet").output
    parquet.write_table(pyarrow.table({"w": [1.0, 2.0]}), folder / "w.parquet")
    assert read_weights("w.parquet", None).tolist() == [1, 2]


def refusal(call: Any) -> gm.Diagnostic:
    with pytest.raises(gm.GmlmError) as caught:
        call()
    return caught.value.diagnostics[0]


def test_what_is_refused(votes, tmp_path, monkeypatch):
    path = votes / "v.parquet"
    refused("E507", lambda: gm.read_table(path, header=False), "have names")
    (tmp_path / "t.parquet").write_bytes(b"a,b\n1,2\n")
    refused("E520", lambda: gm.read_table(tmp_path / "t.parquet"), "not a Parquet file")
    path.rename(tmp_path / "v.parquet.gz")
    refused("E520", lambda: gm.read_table(tmp_path / "v.parquet.gz"), "packed in themselves")
    (tmp_path / "v.parquet.gz").rename(path)
    refused("E120", lambda: gm.read_table(tmp_path / "none.parquet"))
    parquet.write_table(pyarrow.table({"a": pyarrow.array([], pyarrow.string())}), tmp_path / "e.parquet")
    refused("E505", lambda: gm.read_table(tmp_path / "e.parquet"), "no rows of data")
    parquet.write_table(pyarrow.table({"a": ["1"], " a": ["2"]}), tmp_path / "n.parquet")
    refused("E525", lambda: gm.read_table(tmp_path / "n.parquet"), "two columns are called `a`")
    monkeypatch.setattr(_table, "MOST_CELLS", 19)
    refused("E523", lambda: gm.read_table(path), "declares 4 rows of 5 columns")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused("E561", lambda: gm.read_table(path), "gmlmdsl[parquet]", ".csv")


def test_damaged_files_are_refused_by_the_languages_own_errors(votes, tmp_path):
    data, codes = (votes / "v.parquet").read_bytes(), set()
    for seed in range(300):
        (tmp_path / "d.parquet").write_bytes(damaged(seed, "v.parquet", {"v.parquet": data})[1])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                gm.read_table(tmp_path / "d.parquet", missing="").texts([0])
        except gm.GmlmError as error:
            codes |= set(error.codes)
    assert "E520" in codes and codes <= {"E120", "E505", "E520", "E523", "E525"}
