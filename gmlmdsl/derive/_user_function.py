"""Scores of cells by functions of the user's own, which JAX traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import Span, fail
from ..graph import user_function
from ._arrays import float_type

CONFIDENCE = "`confidence(log_p)`: from log p of shape (.., values) to numbers of shape (..), by `jax.numpy`"
PLANNER = "`planner(codes, log_p)`: from codes of shape (.., cells) and log p of shape (.., cells, values) to numbers of shape (.., cells)"


def user_scores(target: str, place: Span, called: str, n_cells: int, n_values: int) -> Callable[..., Any]:
    """Import a confidence or a planner: a function to a number for each cell.

    Args:
        target: "package.module:name".
        place: where the program names it.
        called: how it is called: `CONFIDENCE` or `PLANNER`.
        n_cells: the number of cells.
        n_values: the number of values of a cell.

    Raises:
        GmlmError: E744 if it cannot be imported, JAX cannot trace it, or its result has another shape.
    """
    found, log_p = user_function(target, place, called), jax.ShapeDtypeStruct((n_cells, n_values), float_type())
    codes = (jax.ShapeDtypeStruct((n_cells,), np.int32),) if called == PLANNER else ()
    try:
        shape = jax.eval_shape(found, *codes, log_p)
        fits = getattr(shape, "shape", None) == (n_cells,) and jnp.issubdtype(shape.dtype, jnp.floating)
    except Exception as error:  # The function is the user's, and may raise any exception.
        raise fail("E744", f"`{target}` cannot be called: {type(error).__name__}: {error}", place, "called here", help=called) from error
    if not fits:
        got = getattr(shape, "shape", type(shape).__name__)
        raise fail("E744", f"`{target}` must return floats of shape {(n_cells,)}, got {got}", place, "called here", help=called)
    return found
