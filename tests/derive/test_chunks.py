"""Chunks of rows: every row once, in whatever order, and back."""

from __future__ import annotations

import numpy as np
import pytest

from gmlmdsl.derive import Chunks


@pytest.mark.parametrize(("rows", "chunk", "devices"), [(24, 8, 1), (24, 8, 2), (24, 8, 4), (24, 24, 3), (5, 5, 1)])
def test_chunks_have_every_row_once_and_join_again(rows: int, chunk: int, devices: int):
    chunks = Chunks(chunk, devices)
    codes = np.arange(2 * rows).reshape(2, rows)
    found = np.asarray(chunks.split(codes))
    assert found.shape == (rows // chunk, 2, chunk)
    assert chunks.count(rows) == rows // chunk
    assert sorted(found[:, 0].ravel()) == list(range(rows))
    np.testing.assert_array_equal(found[:, 1], found[:, 0] + rows)  # cells of a row stay together
    np.testing.assert_array_equal(np.asarray(chunks.joined(found[:, 0])), np.arange(rows))


def test_a_chunk_has_rows_of_every_device():
    """Device d holds rows 6 d to 6 d + 5; each chunk has two of each, in the places of that device."""
    found = np.asarray(Chunks(8, 4).split(np.arange(24)))
    np.testing.assert_array_equal(found // 6, np.repeat(np.arange(4), 2)[None].repeat(3, axis=0))
