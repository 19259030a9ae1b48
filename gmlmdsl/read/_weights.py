"""Weights of sequences that resemble one another."""

from __future__ import annotations

import numpy as np

from .._diagnostics import fail, is_real_number
from .._types import ArrayLike
from ._python_arrays import verify_unmasked
from ._rows import AbstractRows
from .limits import PAIRS_AT_ONCE

Array = np.ndarray


def sequence_weights(x: ArrayLike | AbstractRows, identity: float = 0.8) -> Array:
    """Return one over the number of rows that are similar to each row.

    Rows are similar if they agree in at least a share `identity` of the columns; a row is similar
    to itself. The formula is w_r = 1 / #{s : #{i : x_si = x_ri} >= identity * L}. The sum of the
    weights is the effective number of rows.

    Every symbol counts, and so does every column: two gaps agree, and L is the number of columns
    whether they contain gaps or not. A missing cell agrees with another missing cell. This is the
    convention of plmc at `theta = 1 - identity`.

    Args:
        x: rows of codes or letters, shape (rows, columns); rows of strings of one length; or the
            result of `read_alignment`.
        identity: a number between 0 and 1.

    Returns:
        Float64 weights of shape (rows,), each in (0, 1]. The memory is bounded whatever the number
        of rows; the time grows with rows^2 * columns.

    Raises:
        GmlmError: E501 for an array without exactly two axes; E507 for an identity outside 0 and 1;
            E504 for masked entries.

    Reference: Ekeberg et al. 2013, Phys. Rev. E 87, 012707, section II; Hopf et al. 2017, Nat.
    Biotechnol. 35, 128-135.
    """
    if not is_real_number(identity) or not 0 <= identity <= 1:
        raise fail("E507", f"identity is a share between 0 and 1, got {identity!r}")
    codes = _codes(x)
    length, n = codes.shape
    least = int(np.ceil(identity * length - 1e-9))  # In binary, 0.7 * 10 is above 7.
    neighbours = np.zeros(n, np.int64)
    step = max(1, PAIRS_AT_ONCE // max(n, 1))
    for start in range(0, n, step):
        neighbours[start : start + step] = (_agreements(codes, start, step) >= least).sum(axis=1)
    return 1 / neighbours


def _agreements(codes: Array, start: int, step: int) -> Array:
    """Return the number of columns in which each of some rows agrees with every row.

    `codes` has the shape (columns, rows).
    """
    some = codes[:, start : start + step]
    total = np.zeros((some.shape[1], codes.shape[1]), np.int32)
    equal = np.empty(total.shape, bool)
    # Bytes are added 16 or 32 at a time, and each can count up to 255.
    for first in range(0, len(codes), 255):
        part = np.zeros(total.shape, np.uint8)
        for column in range(first, min(first + 255, len(codes))):
            np.equal(some[column][:, None], codes[column][None, :], out=equal)
            part += equal.view(np.uint8)
        total += part
    return total


def _codes(x: ArrayLike | AbstractRows) -> Array:
    """Return symbols as small integers, shape (columns, rows), contiguous by column."""
    verify_unmasked(x, "sequences")
    array = np.asarray(x.x if isinstance(x, AbstractRows) else x)
    if array.dtype.kind == "U" and array.ndim == 1:
        lengths = set(np.char.str_len(array).tolist())
        if len(lengths) > 1:
            raise fail("E501", f"the sequences must have one length, got {min(lengths)} to {max(lengths)}", help="align them first")
        array = np.array([list(text) for text in array.tolist()]).reshape(len(array), -1)
    if array.ndim != 2 or 0 in array.shape:
        raise fail("E501", f"sequences must have shape (rows, columns), got {array.shape}")
    symbols, codes = np.unique(array, return_inverse=True)
    kind = np.uint8 if len(symbols) <= 256 else np.int32
    return np.ascontiguousarray(codes.reshape(array.shape).T.astype(kind))
