"""Functions of the user's own, named in a program as "package.module:name"."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .._diagnostics import Span, fail
from ._arrays import float_type


def user_function(target: str, place: Span | None, called: str) -> Callable[..., Any]:
    """Import a function by its name; the caller verifies that the user allows it.

    Args:
        target: "package.module:name".
        place: where the program names it.
        called: how it is called, for messages.

    Raises:
        GmlmError: E744 if it cannot be imported or called.
    """
    module, _, name = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # Importing runs the user's module, which may raise any exception.
        help = 'name a function that Python can import, as "package.module:name"; the module\'s folder must be on sys.path'
        raise fail("E744", f"`{target}` cannot be imported: {error}", place, "not found", help=help) from error
    if not callable(found):
        raise fail("E744", f"`{target}` is not a function", place, "cannot be called", help=called)
    return found


def user_confidence(target: str, place: Span | None, n_cells: int, n_values: int) -> Callable[[jax.Array], jax.Array]:
    """Import a confidence: a function from log p, shape (.., values), to numbers of shape (..).

    Raises:
        GmlmError: E744 if it cannot be imported, JAX cannot trace it, or its result has another shape.
    """
    called = "`confidence(log_p)`: from log p of shape (.., values) to numbers of shape (..), by `jax.numpy`"
    found = user_function(target, place, called)
    try:
        shape = jax.eval_shape(found, jax.ShapeDtypeStruct((n_cells, n_values), float_type()))
        fits = getattr(shape, "shape", None) == (n_cells,) and jnp.issubdtype(shape.dtype, jnp.floating)
    except Exception as error:  # The function is the user's, and may raise any exception.
        raise fail("E744", f"`{target}` cannot be called: {type(error).__name__}: {error}", place, "called here", help=called) from error
    if not fits:
        got = getattr(shape, "shape", type(shape).__name__)
        raise fail("E744", f"`{target}` must return floats of shape {(n_cells,)}, got {got}", place, "called here", help=called)
    return found
