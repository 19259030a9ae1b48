"""Readers of .npy and .npz files.

Declared sizes are checked before an array is read, and no object is unpickled.
"""

from __future__ import annotations

import io
import math
import re
import struct
import warnings
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from .._diagnostics import GmlmError, fail
from ..files import as_path, kinds_of_damage, reading
from .limits import LONGEST_HEADER, LONGEST_REASON, MOST_ARRAYS, MOST_BYTES, MOST_UNPACKED, SURE_UNPACKED_ARRAYS

Array = np.ndarray
MAGIC = b"\x93NUMPY\x01\x00"
PLAIN = re.compile(
    rb"\{'descr': '([<>|][biufU][0-9]{1,9})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:[0-9]{1,18},)?|[0-9]{1,18}(?:, [0-9]{1,18}){1,31})\), \} *\n"
)


def verify_readable(path: Path) -> None:
    """Raise unless a path is a file, or a pipe that the caller opened.

    Raises:
        GmlmError: E120.
    """
    with reading(path), path.open("rb"):
        pass


def read_arrays(path: str | Path) -> dict[str, Array]:
    """Return the arrays of an .npz file by name, or the array of an .npy file; no object is unpickled.

    Raises:
        GmlmError: E520 or E120 for a file that is missing, damaged or too large, or that contains
            Python objects.
    """
    path = as_path(path)
    verify_readable(path)
    try:
        if path.suffix.lower() == ".npy":
            with path.open("rb") as file:
                _verify_header(file, path.stat().st_size, path)
        else:
            _verify_archive(path)
        return _loaded(path)
    except GmlmError:
        raise
    except zipfile.BadZipFile:
        raise fail("E520", f"{path} is not an .npz file, or is damaged") from None
    except kinds_of_damage() as error:
        shown = str(error).partition("\n")[0][:LONGEST_REASON] or type(error).__name__
        raise fail("E520", f"{path} is damaged, or holds no plain arrays: {shown}") from None


def _loaded(path: Path) -> dict[str, Array]:
    """Return the arrays of a file whose headers were verified."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return {path.stem: found}
        with found:
            return {k: found[k] for k in found.files}


@dataclass(frozen=True)
class PlainHeader:
    """The header of an .npy file of numbers or text.

    Attributes:
        shape: the shape of the array.
        dtype: the type of its entries.
        is_fortran: whether its first index varies fastest in the file.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    is_fortran: bool

    @property
    def size(self) -> int:
        """The number of bytes of its entries."""
        return self.dtype.itemsize * math.prod(self.shape)


def plain_header(file: IO[bytes], size: int) -> PlainHeader:
    """Return the header of an .npy file as NumPy writes it for numbers and text.

    The file is then positioned at its entries.

    Args:
        file: the file, positioned at its beginning.
        size: the number of its bytes.

    Raises:
        ValueError: for any other header, and if the size is not that of header and entries
            together.
    """
    start = file.read(len(MAGIC) + 2)
    length = struct.unpack("<H", start[-2:])[0] if start[: len(MAGIC)] == MAGIC and len(start) == len(MAGIC) + 2 else 0
    found = PLAIN.fullmatch(file.read(length))
    if found is None:
        raise ValueError("its header is not that of plain numbers or text")
    try:
        header = PlainHeader(tuple(int(n) for n in re.findall(rb"\d+", found[3])), np.dtype(found[1].decode()), found[2] == b"True")
    except TypeError as error:
        raise ValueError(str(error)) from None
    if len(start) + length + header.size != size:
        raise ValueError(f"its header declares {header.size:,} bytes, the file has {size - len(start) - length:,}")
    return header


def entries_behind(file: IO[bytes], header: PlainHeader) -> Array:
    """Return the entries after a header.

    Raises:
        ValueError: if there are too few.
    """
    array = np.frombuffer(file.read(header.size), header.dtype).reshape(header.shape, order="F" if header.is_fortran else "C")
    return array.astype(header.dtype.newbyteorder("="))


def _verify_archive(path: Path) -> None:
    """Raise if arrays of an .npz file declare too large a size, or more bytes than the file has.

    Only their headers are read.

    Raises:
        GmlmError: E520 for sizes above the limits.
        ValueError: and other errors of `zipfile` and NumPy, for a file that is damaged or contains
            Python objects.
    """
    with zipfile.ZipFile(path) as archive:
        infos, size = archive.infolist(), path.stat().st_size
        total = sum(i.file_size for i in infos)
        _verify_total(total, path)
        if total > max(SURE_UNPACKED_ARRAYS, MOST_UNPACKED * size):
            message = f"{path} has {size:,} bytes and unpacks to {total:,}"
            raise fail("E520", message, help="save it with `numpy.savez`, unpacked, where that is right")
        if len(infos) > MOST_ARRAYS:
            raise fail("E520", f"{path} holds {len(infos):,} arrays, more than the limit of {MOST_ARRAYS:,}")
        names = [i.filename for i in infos]
        if len(set(names)) < len(names):
            raise ValueError(f"it holds {Counter(names).most_common(1)[0][0][:LONGEST_REASON]!r} twice")
        for info in infos:
            with archive.open(info) as member:
                _verify_header(member, info.file_size, path)


def _verify_total(size: float, path: str | Path) -> None:
    if size > MOST_BYTES:
        raise fail("E520", f"{path} declares {size / 2**30:.3g} GiB, more than the limit of {MOST_BYTES / 2**30:.3g} GiB")


def _verify_header(file: IO[bytes], size: int, path: str | Path) -> None:
    """Raise if the declared size of an array is too large, or differs from the size of the file."""
    shape, dtype, start = _declared(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if any(isinstance(n, bool) or n < 0 for n in shape):
        raise ValueError(f"its header declares the shape {shape}")
    declared = float(dtype.itemsize)
    for n in shape:
        declared *= n
    _verify_total(declared, path)
    if declared != size - start:
        raise ValueError(f"its header declares {declared:,.0f} bytes, the file has {size - start:,}")


def _declared(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype, int]:
    """Return the declared shape and type of an .npy file, and the bytes before its entries.

    NumPy parses headers as Python, and repairs those of Python 2 by its tokenizer. A header that is
    longer than that of any array is therefore not passed to it.
    """
    start = file.read(LONGEST_HEADER)
    head = io.BytesIO(start)
    version = np.lib.format.read_magic(head)  # type: ignore[arg-type]
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"an array in format {version}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns about headers of Python 2.
        shape, _, dtype = read(head)  # type: ignore[arg-type]
    return shape, dtype, head.tell()
