"""Verifiers and values that are functions of the user's, in Python."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._diagnostics import Span, fail
from ..derive import float_type
from ._judges import AbstractJudge, View


class PythonJudge(AbstractJudge):
    """`V(prefixes, lengths) -> rows`: called once for all rows of a turn whose answer counts.

    Attributes:
        function: takes codes of shape (rows, cells), spins as -1 and +1, -1 (0 for spins) behind each length, and lengths of shape (rows,).
        spins: whether the values are spins.
        name: what messages call it.
        place: where it stands.
    """

    function: Callable[[np.ndarray, np.ndarray], Any] = eqx.field(static=True)
    spins: bool = eqx.field(static=True)
    name: str = eqx.field(static=True)
    place: Span | None = eqx.field(static=True)

    @property
    def is_host(self) -> bool:
        """It is."""
        return True

    def start(self, prompts: Int[Array, "rows cells"]) -> None:
        """It sees prefixes whole."""

    def push(self, state: None, symbols: Int[Array, " rows"]) -> None:
        """It sees prefixes whole."""

    def pop(self, state: None, n: Int[Array, " rows"]) -> None:
        """It sees prefixes whole."""

    def values(self, state: None, view: View, oracle: Any, at: Any) -> Float[Array, " rows"]:
        """V of the rows that are asked about; 0 of the others."""
        asked = np.asarray(view.asked)
        found = np.zeros(len(asked), np.float64)
        if asked.any():
            found[asked] = self._called(np.asarray(view.codes)[asked], np.asarray(view.lengths)[asked])
        return jnp.asarray(found, float_type())

    def children(self, state: None, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: Any) -> Float[Array, "rows values"]:
        """V behind each symbol that is asked about, in one call; a full row has no continuation."""
        codes, lengths, asked = np.asarray(view.codes), np.asarray(view.lengths), np.asarray(view.asked)
        wanted = np.broadcast_to(asked[:, None] if asked.ndim == 1 else asked, whole.shape) & (lengths < codes.shape[1])[:, None]
        found, (rows, symbols) = np.zeros(whole.shape, np.float64), np.nonzero(wanted)
        if len(rows):
            longer = codes[rows]
            longer[np.arange(len(rows)), lengths[rows]] = symbols
            found[rows, symbols] = self._called(longer, lengths[rows] + 1)
        return jnp.asarray(found, float_type())

    def _called(self, codes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        values = np.where(np.arange(codes.shape[1]) < lengths[:, None], 2 * codes - 1 if self.spins else codes, 0 if self.spins else -1)
        try:
            found = np.asarray(self.function(values, lengths), np.float64)
        except Exception as error:
            message = f"{self.name} raised {type(error).__name__}: {error}"
            raise fail("E745", message, self.place, "raised here") from error
        if found.shape != (len(lengths),):
            help = "`V(prefixes, lengths)` returns one number for each row"
            raise fail("E745", f"{self.name} must return shape ({len(lengths)},), got {found.shape}", self.place, "wrong shape", help=help)
        return found


def loaded(target: str, place: Span | None) -> Callable[..., Any]:
    """A function of the user's by its name, "package.module:name".

    Raises:
        GmlmError: E744 where it cannot be imported or called.
    """
    module, _, name = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # importing runs the user's module, which may fail in any way
        help = 'name a function that Python can import, as "package.module:name"; the module\'s folder must be on sys.path'
        raise fail("E744", f"`{target}` cannot be imported: {error}", place, "not found", help=help) from error
    if not callable(found):
        raise fail("E744", f"`{target}` is no function", place, "cannot be called", help="`V(prefixes, lengths) -> rows`")
    return found
