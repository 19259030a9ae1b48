"""Compiles functions as a whole and keeps a bounded number of programs: the only place that keeps any.

A compiled program takes memory and up to some hundred memory mappings, of which a system grants a
process 65 530 or so, and crashes it beyond. So the programs used last are kept, and what leaves is
really let go: each has a compiled function of its own, and JAX forgets what it compiled for a
function that is gone. What they are on disk is for later processes: see `_disk_cache`.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np

from ._disk_cache import kept_on_disk

F = TypeVar("F", bound=Callable[..., Any])
MOST_PROGRAMS = 128  # a fit takes three
MOST_MAPPINGS = 2**15  # half of what Linux grants by default
MOST_GONE = 512  # programs let go between two clearings of what JAX remembers of their traces
# XLA's older way to emit loops: half the time, for loops that run a tenth slower or so
QUICK = {"xla_cpu_use_fusion_emitters": False}
UNKNOWN = "No such compile option"
_compiled_only = threading.local()


def bounded_jit(function: F) -> F:
    """The function compiled as a whole: arrays among its arguments are traced, everything else is part of the program.

    What is no array is compared by `==`, and floats by their bits: equal graphs of programs that
    were parsed anew share a program.
    """
    return quickly_compiled(lambda *args, **kwargs: False)(function)


def quickly_compiled(wanted: Callable[..., bool] = lambda *args, **kwargs: True) -> Callable[[F], F]:
    """The same, compiled in less time to a slower program where `wanted` of its arguments: where compiling is most of what it costs."""

    def decorate(function: F) -> F:
        return _compiled(function, wanted)

    return decorate


def _compiled(function: F, wanted: Callable[..., bool]) -> F:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree.flatten((args, kwargs))
        traced = [eqx.is_array(leaf) for leaf in leaves]
        arrays = [leaf for leaf, is_array in zip(leaves, traced, strict=True) if is_array]
        rest = [None if is_array else leaf for leaf, is_array in zip(leaves, traced, strict=True)]
        shapes = tuple((a.shape, a.dtype) for a in arrays)
        told = tuple((type(leaf), leaf.hex() if isinstance(leaf, float) else leaf) for leaf in rest)
        key = function, structure, tuple(traced), told, shapes
        run = _not_run if getattr(_compiled_only, "here", False) else _run
        with kept_on_disk():
            try:
                return run(PROGRAMS.program(key, function, rest, PROGRAMS.quick and wanted(*args, **kwargs)), arrays)
            except jax.errors.JaxRuntimeError as error:
                if UNKNOWN not in str(error):
                    raise
            PROGRAMS.forget_quick()  # another release of XLA
            return run(PROGRAMS.program(key, function, rest, False), arrays)

    return call  # pyright: ignore[reportReturnType]


@contextlib.contextmanager
def compiled_only() -> Iterator[None]:
    """Programs that this thread calls meanwhile are compiled and not run: each gives zeros, but where zeros cannot stand for its arrays."""
    before, _compiled_only.here = getattr(_compiled_only, "here", False), True
    try:
        yield
    finally:
        _compiled_only.here = before


def _run(program: Any, arrays: list[Any]) -> Any:
    return jax.block_until_ready(program(arrays))


def _not_run(program: Any, arrays: list[Any]) -> Any:
    program.lower(arrays).compile()
    shapes = jax.eval_shape(program, arrays)
    if any(s.weak_type or jax.dtypes.issubdtype(s.dtype, jax.dtypes.prng_key) for s in jax.tree.leaves(shapes)):
        return _run(program, arrays)  # JAX tells weakly typed arrays apart
    return jax.tree.map(lambda s: jax.device_put(np.zeros(s.shape, s.dtype)), shapes)


class Programs:
    """The compiled programs that were used last, by what they were compiled for."""

    def __init__(self) -> None:
        self.kept: OrderedDict[Any, Any] = OrderedDict()
        self.gone = 0
        self.quick = True  # whether XLA knows how to compile in less time
        self._lock = threading.Lock()

    def forget_quick(self) -> None:
        """No program is compiled in less time from here on."""
        with self._lock:
            self.quick = False
            self.kept.clear()

    def program(self, key: tuple[Any, ...], function: Callable[..., Any], rest: list[Any], quick: bool) -> Any:
        """The function of the arrays alone, compiled for this key."""
        with self._lock:
            if key not in self.kept:
                self._make_room()
                self.kept[key] = _program(key, function, rest, quick)
            self.kept.move_to_end(key)
            return self.kept[key]

    def _make_room(self) -> None:
        """Let go of the programs that were not used for longest, until there is room for one more.

        JAX keeps the last 2048 traces of each kind, and those of programs that are gone among them,
        some megabytes for each fit: from time to time all is cleared, as it is where functions of
        JAX alone, or the user's own, hold too many mappings.
        """
        while len(self.kept) >= MOST_PROGRAMS or (self.kept and mappings() > MOST_MAPPINGS):
            self.kept.popitem(last=False)
            self.gone += 1
        if self.gone >= MOST_GONE or mappings() > MOST_MAPPINGS:
            jax.clear_caches()
            self.gone = 0


PROGRAMS = Programs()


def _program(key: tuple[Any, ...], function: Callable[..., Any], rest: list[Any], quick: bool) -> Any:
    _, structure, traced, *_ = key

    def run(arrays: list[Any]) -> Any:
        given = iter(arrays)
        leaves = [next(given) if is_array else leaf for is_array, leaf in zip(traced, rest, strict=True)]
        args, kwargs = jax.tree.unflatten(structure, leaves)
        return function(*args, **kwargs)

    run.__name__ = run.__qualname__ = function.__name__
    return jax.jit(run, compiler_options=QUICK if quick and jax.default_backend() == "cpu" else None)


def mappings() -> int:
    """How many memory mappings the process has; 0 where the system does not say."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0
