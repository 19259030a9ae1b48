"""Arrays of a `.safetensors` file: a header of JSON, then raw numbers. No code is run.

Reference: the format's specification, https://github.com/huggingface/safetensors (version 0.4).
"""

from __future__ import annotations

import itertools
import json
import math
import os
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from .._diagnostics import GmlmError, fail
from ..files import BESIDE, reading
from .limits import MOST_HEADER

Array = np.ndarray
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1"}


class Safetensors:
    """The arrays of a file; the header is verified when the file is opened, and an array is read at its first use.

    Attributes:
        path: the file.
        shapes: the shape of each array by name.
    """

    path: Path
    shapes: dict[str, tuple[int, ...]]

    def __init__(self, path: Path):
        """Read and verify the header.

        Raises:
            GmlmError: E120 for a file that cannot be read, E748 for a damaged one.
        """
        self.path = path
        with reading(path, help=BESIDE), path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
            if length > min(MOST_HEADER, size - 8):
                raise self._damaged("its header is longer than the file")
            text = file.read(length)
        try:
            header = json.loads(text)
            entries = {name: e for name, e in header.items() if name != "__metadata__"}
            self._places = {name: (str(e["dtype"]), *_two_ends(e["data_offsets"])) for name, e in entries.items()}
            self.shapes = {name: tuple(map(int, e["shape"])) for name, e in entries.items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            raise self._damaged("its header is not that of a `.safetensors` file") from None
        self._start = 8 + length
        for name, (kind, first, last) in self._places.items():
            if kind not in TYPES:
                continue
            count = math.prod(self.shapes[name])
            if min(self.shapes[name], default=0) < 0 or not 0 <= first <= last <= size - self._start:
                raise self._damaged(f"`{name}` lies outside of the file")
            if last - first != count * np.dtype(TYPES[kind]).itemsize:
                raise self._damaged(f"`{name}` has {last - first:,} bytes for a shape of {self.shapes[name]}")
        ends = sorted((first, last) for _, first, last in self._places.values() if last > first)
        if any(first < before for (_, before), (first, _) in itertools.pairwise(ends)):
            raise self._damaged("its arrays overlap")

    def floats(self, name: str) -> Array:
        """Read an array as float32, or float64 if that is how it is stored.

        Raises:
            GmlmError: E748 for an array that is missing, is of another type or is not finite.
        """
        if name not in self._places:
            raise self._damaged(f"it lacks `{name}`")
        kind, first, last = self._places[name]
        if kind not in ("F64", "F32", "F16", "BF16"):
            raise self._damaged(f"`{name}` is of the type {kind}")
        with reading(self.path), self.path.open("rb") as file:
            file.seek(self._start + first)
            raw = np.frombuffer(file.read(last - first), TYPES[kind])
        if raw.size != math.prod(self.shapes[name]):
            raise self._damaged(f"`{name}` is cut off")
        if kind == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        found = raw.astype(np.float64 if kind == "F64" else np.float32).reshape(self.shapes[name])
        if not np.isfinite(found).all():
            raise self._damaged(f"`{name}` is not finite")
        return found

    def verify(self, shapes: Collection[tuple[str, tuple[int, ...]]]) -> None:
        """Verify that arrays of given shapes are there, before any of them is read.

        Raises:
            GmlmError: E748.
        """
        for name, shape in shapes:
            if name not in self.shapes:
                raise self._damaged(f"it lacks `{name}`")
            if self.shapes[name] != shape:
                raise self._damaged(f"`{name}` has the shape {self.shapes[name]}, its configuration says {shape}")

    def _damaged(self, why: str) -> GmlmError:
        return fail("E748", f"`{self.path}` cannot be used: {why}", help="copy the folder again, `config.json` and all")


def _two_ends(offsets: Any) -> tuple[int, int]:
    """Return the first byte of an array and the byte after its last one."""
    first, last = map(int, offsets)
    return first, last
