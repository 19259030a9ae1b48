"""What a long run depends on, as text, and its state, as bytes."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh

from .._types import ArrayLike

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr
    from jaxtyping import PyTree


def as_identity(parts: Mapping[str, object]) -> dict[str, str]:
    """Return the parts that a run depends on as text."""
    return {k: json.dumps(v, default=_plain, sort_keys=True) for k, v in parts.items()}


def hash_of_arrays(arrays: Iterable[ArrayLike]) -> str:
    """Return the hash of arrays with their shapes and types."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{np.shape(array)} {np.asarray(array).dtype};".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def hash_of_text(text: str) -> str:
    """Return the hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def hash_of_computation(function: Callable[..., PyTree], *arguments: PyTree) -> str:
    """Return the hash of the computation of a function of arrays, including its constants.

    Addresses of functions differ between processes and are left out. The ambient mesh is left out
    too: a run may be resumed on another number of devices.
    """
    return _hash_of_traced(_traced(function, *arguments))


def identity_of_computation(function: Callable[..., PyTree], *arguments: PyTree) -> Hashable:
    """Return a value that is equal for functions that compute the same: its hash.

    A function that calls back into Python is equal to no other.
    """
    found = _traced(function, *arguments)
    return object() if "callback" in str(found) else _hash_of_traced(found)


def _traced(function: Callable[..., PyTree], *arguments: PyTree) -> ClosedJaxpr:
    with jax.set_mesh(Mesh(np.empty((), object), ())):
        return jax.make_jaxpr(function)(*arguments)


def _hash_of_traced(found: ClosedJaxpr) -> str:
    return hash_of_text(re.sub(r"0x[0-9a-f]+", "", str(found))) + hash_of_arrays(found.consts)


def as_bytes(state: PyTree) -> bytes:
    """Return the arrays of a state as bytes."""
    buffer = io.BytesIO()
    eqx.tree_serialise_leaves(buffer, state)
    return buffer.getvalue()


def from_bytes(data: bytes, like: PyTree) -> PyTree:
    """Return the state whose arrays `as_bytes` wrote.

    Args:
        data: the bytes.
        like: a state with arrays of the same shapes and types, or their `jax.ShapeDtypeStruct`s.
    """
    return eqx.tree_deserialise_leaves(io.BytesIO(data), like)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
