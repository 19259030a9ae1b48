"""Errors for values that JAX traces: a traced value is not known when it is needed."""

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
    """Raise if a value, or a part of a dict or list, is traced.

    `jax.jit`, `jax.grad` and `jax.vmap` trace values.

    Raises:
        GmlmError: E513.
    """
    if _is_traced(value):
        message = f"{what} is traced by JAX, inside `jax.jit`, `jax.grad` or `jax.vmap`, and its values are needed here"
        help = "leave it out of the traced function's arguments; only `params` and rows of losses, log p and marginals may be traced"
        raise fail("E513", message, help=help)


def evaluated(value: object = None) -> AbstractContextManager[None]:
    """Return a context in which new arrays have concrete values even if JAX traces the caller.

    Arrays that are computed from traced ones stay traced.
    """
    plain = _is_traced(value) or not _is_traced(jax.device_put(np.int32(0)))
    # If the caller is not traced, the context would run the constants of a compiled function
    # operation by operation, and each operation would be a program.
    return contextlib.nullcontext() if plain else jax.ensure_compile_time_eval()


def at_once(verb: Callable[P, T]) -> Callable[P, T]:
    """Return a function that is evaluated immediately, even if JAX traces the caller."""

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


def is_traced(params: object) -> bool:
    """Return whether JAX traces some array of parameters, in any nesting."""
    return any(isinstance(a, jax.core.Tracer) for a in jax.tree.leaves(params))  # pyright: ignore[reportAttributeAccessIssue]


def verify_untraced_leaves(params: object) -> None:
    """Raise if parameters, which may contain a network, are traced.

    Raises:
        GmlmError: E513.
    """
    verify_untraced(jax.tree.leaves(params), "params")
