"""A short digest of the content of a value: values of equal content have equal digests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b

import numpy as np


def digest(value: object) -> bytes:
    """Return a digest of numbers, texts, arrays, and of tuples, mappings and dataclasses of them.

    Fields that a dataclass excludes from comparisons, such as places in a text, do not count. Types
    count, so 1 differs from 1.0. A value with a `digest` attribute is represented by it.
    """
    found = blake2b(digest_size=16)
    _feed(found.update, value)
    return found.digest()


def _feed(update: Callable[[bytes | memoryview], object], value: object) -> None:
    """Feed every part after its type and length, so that distinct values are fed distinctly."""
    name = type(value).__name__
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        update(f"{name} {value.dtype.str} {value.shape} ".encode())
        update(np.ascontiguousarray(value).data)
    elif isinstance(own := getattr(value, "digest", None), bytes):
        update(f"{name} digest ".encode() + own)
    elif is_dataclass(value):
        counted = [f.name for f in fields(value) if f.compare]
        update(f"{name} {len(counted)} ".encode())
        for field in counted:
            _feed(update, getattr(value, field))
    elif isinstance(value, tuple | list):
        update(f"{name} {len(value)} ".encode())
        for part in value:
            _feed(update, part)
    elif isinstance(value, np.ndarray):
        _feed(update, value.tolist())
    elif isinstance(value, set | frozenset):
        _feed(update, sorted(map(digest, value)))
    elif isinstance(value, Mapping):
        _feed(update, [*value.items()])
    else:
        text = repr(value).encode()
        update(f"{name} {len(text)} ".encode() + text)
