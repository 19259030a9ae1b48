"""Codes of letters and labels are named by the attributes of the CF conventions, in memory and in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import gmlmdsl as gm
from gmlmdsl.sample import save
from gmlmdsl.sample._arviz import flags
from gmlmdsl.sample.limits import MOST_FLAGS

TEXT = """
domain sky = labels("sun", "light rain", "snow")
model m {
  var w[i in range(2)] : sky
  var x : spin
  param b
  factor b * (w[0] == w[1])
}
"""
WORDS = "sun light_rain snow"


def drawn(**options: Any) -> Any:
    return gm.parse(TEXT).model().sample({"b": 0.4}, "exact", draws=6, chains=2, seed=1, progress=False, **options)


def assert_named(posterior: xr.Dataset) -> None:
    w = posterior["w"]
    assert w.attrs["flag_meanings"] == WORDS
    assert list(w.attrs["flag_values"]) == [0, 1, 2]
    assert posterior["x"].attrs == {}
    texts = np.array(w.attrs["flag_meanings"].split())[w.values]
    assert texts.shape == w.shape and set(texts.ravel()) <= set(WORDS.split())


def test_draws_name_their_codes(tmp_path: Path):
    found = drawn()
    assert_named(found["posterior"])
    assert found["posterior"]["w"].attrs["flag_values"].dtype == found["posterior"]["w"].dtype
    assert WORDS in repr(found["posterior"]["w"])
    save(found, tmp_path / "draws.nc")
    with xr.open_dataset(tmp_path / "draws.nc", group="posterior", engine="h5netcdf") as stored:
        assert_named(stored)


@pytest.mark.parametrize("ending", [".nc", ".zarr"])
def test_stored_draws_name_their_codes(ending: str, tmp_path: Path):
    found = drawn(store=tmp_path / f"draws{ending}")
    assert_named(found["posterior"])
    np.testing.assert_array_equal(found["posterior"]["w"], drawn()["posterior"]["w"])


def test_words_have_no_blanks_and_many_values_have_no_names():
    kind = np.dtype(np.int8)
    assert flags(["a  b", " ", "c"], kind)["flag_meanings"] == "a_b _ c"
    assert flags(["x"] * (MOST_FLAGS + 1), np.dtype(np.int32)) == {}
