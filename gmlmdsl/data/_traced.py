"""What JAX traces has no values yet: where values are needed, one clear line says so."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import ParamSpec, TypeVar

import jax
import numpy as np

from .._diagnostics import fail

P = ParamSpec("P")
T = TypeVar("T")


def verify_untraced(value: object, what: str) -> None:
    """Refuse what `jax.jit`, `jax.grad` or `jax.vmap` traces, alone or in a dict or list.

    Raises:
        GmlmError: E513.
    """
    if _is_traced(value):
        message = f"{what} is traced by JAX, inside `jax.jit`, `jax.grad` or `jax.vmap`, and its values are needed here"
        help = "leave it out of the traced function's arguments; only the `params` of losses and of log p may be traced"
        raise fail("E513", message, help=help)


def evaluated(value: object = None) -> AbstractContextManager[None]:
    """Where JAX traces the caller, arrays that are made within have values all the same, unless they are made of what is traced."""
    plain = _is_traced(value) or not _is_traced(jax.device_put(np.int32(0)))
    # Where nobody traces, the context would run what a compiled function makes of constants
    # operation by operation, each a program.
    return contextlib.nullcontext() if plain else jax.ensure_compile_time_eval()


def at_once(verb: Callable[P, T]) -> Callable[P, T]:
    """A function whose answer has values: where JAX traces the caller, it is computed then and there."""

    @functools.wraps(verb)
    def evaluating(*arguments: P.args, **options: P.kwargs) -> T:
        with evaluated():
            return verb(*arguments, **options)

    return evaluating


def _is_traced(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_is_traced, value.values()))
    if isinstance(value, list | tuple):
        return any(isinstance(v, jax.core.Tracer) for v in value)  # pyright: ignore[reportAttributeAccessIssue]
    return isinstance(value, jax.core.Tracer)  # pyright: ignore[reportAttributeAccessIssue]


def verify_untraced_leaves(params: object) -> None:
    """The same of parameters, which may hold a network.

    Raises:
        GmlmError: E513.
    """
    verify_untraced(jax.tree.leaves(params), "params")
