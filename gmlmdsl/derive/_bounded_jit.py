"""Compiles functions as a whole and keeps a bounded number of programs: the only place that keeps any.

A compiled program takes memory and up to some hundred memory mappings, of which a system grants a process 65 530 or so, and
crashes it beyond. So the programs used last are kept, and what leaves is really let go: each has a compiled function of its own, and
JAX forgets what it compiled for a function that is gone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax

F = TypeVar("F", bound=Callable[..., Any])
MOST_PROGRAMS = 128  # a fit takes about ten
MOST_MAPPINGS = 2**15  # half of what Linux grants by default
_KEPT: OrderedDict[Any, Callable[[list[Any]], Any]] = OrderedDict()
_LOCK = threading.Lock()


def bounded_jit(function: F) -> F:
    """The function compiled as a whole: arrays among its arguments are traced, everything else is part of the program.

    What is no array is compared by `==`, and floats by their bits: equal graphs of programs that were parsed anew share a program.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree.flatten((args, kwargs))
        traced = [eqx.is_array(leaf) for leaf in leaves]
        arrays = [leaf for leaf, is_array in zip(leaves, traced, strict=True) if is_array]
        rest = [None if is_array else leaf for leaf, is_array in zip(leaves, traced, strict=True)]
        shapes = tuple((a.shape, a.dtype) for a in arrays)
        told = tuple((type(leaf), leaf.hex() if isinstance(leaf, float) else leaf) for leaf in rest)
        key = function, structure, tuple(traced), told, shapes
        return jax.block_until_ready(_program(key, function, rest)(arrays))

    return call  # pyright: ignore[reportReturnType]


def _program(key: tuple[Any, ...], function: Callable[..., Any], rest: list[Any]) -> Callable[[list[Any]], Any]:
    """The function of the arrays alone, compiled for this key."""
    with _LOCK:
        if key in _KEPT:
            _KEPT.move_to_end(key)
            return _KEPT[key]
        _make_room()
        _, structure, traced, *_ = key

        def run(arrays: list[Any]) -> Any:
            given = iter(arrays)
            args, kwargs = jax.tree.unflatten(
                structure, [next(given) if is_array else leaf for is_array, leaf in zip(traced, rest, strict=True)]
            )
            return function(*args, **kwargs)

        run.__name__ = run.__qualname__ = function.__name__
        _KEPT[key] = program = jax.jit(run)
        return program


def _make_room() -> None:
    """Let go of the programs that were not used for longest, until there is room for one more."""
    while len(_KEPT) >= MOST_PROGRAMS or (_KEPT and mappings() > MOST_MAPPINGS):
        _KEPT.popitem(last=False)
    if mappings() > MOST_MAPPINGS:  # of functions of JAX that run one operation, and of the user's own
        jax.clear_caches()


def mappings() -> int:
    """How many memory mappings the process has; 0 where the system does not say."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0
