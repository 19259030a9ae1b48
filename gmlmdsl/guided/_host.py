"""Verifiers and values that are user-defined Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from .._diagnostics import GmlmError, Span, fail
from .._types import ArrayLike
from ..derive import float_type
from ..graph import VariableArray
from ._judges import AbstractJudge, View


class PythonJudge(AbstractJudge):
    """A function `V(prefixes, lengths) -> rows`, called once per iteration for all rows that count.

    Attributes:
        function: takes values of shape (rows, cells), letters and labels as codes, with the padding
            of `string` after each length, and lengths of shape (rows,).
        string: the variable whose cells are judged.
        verifies: whether its results are 0 and 1.
        name: its name in messages.
        target: the function's name.
        place: its place in the program.
    """

    function: Callable[[np.ndarray, np.ndarray], ArrayLike] = eqx.field(static=True)
    string: VariableArray = eqx.field(static=True)
    verifies: bool = eqx.field(static=True)
    name: str = eqx.field(static=True)
    target: str = eqx.field(static=True)
    place: Span | None = eqx.field(static=True)

    @property
    def is_host(self) -> bool:
        """True, since it runs user-defined Python."""
        return True

    def start(self, prompts: Int[Array, "rows cells"]) -> None:
        """Return no state, since the function receives whole prefixes."""

    def push(self, state: None, symbols: Int[Array, " rows"]) -> None:
        """Return no state, since the function receives whole prefixes."""

    def pop(self, state: None, n: Int[Array, " rows"]) -> None:
        """Return no state, since the function receives whole prefixes."""

    def values(self, state: None, view: View, oracle: Any, at: PyTree) -> Float[Array, " rows"]:
        """Return log V of the rows that count, and -inf for the others."""
        asked = np.asarray(view.asked)
        found = np.full(len(asked), -np.inf)
        if asked.any():
            found[asked] = self._called(np.asarray(view.codes)[asked], np.asarray(view.lengths)[asked])
        return jnp.asarray(found, float_type())

    def children(self, state: None, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: PyTree) -> Float[Array, "rows values"]:
        """Return log V after each symbol that counts, from one call.

        A full row has no continuation.
        """
        codes, lengths, asked = np.asarray(view.codes), np.asarray(view.lengths), np.asarray(view.asked)
        wanted = np.broadcast_to(asked[:, None] if asked.ndim == 1 else asked, whole.shape) & (lengths < codes.shape[1])[:, None]
        found, (rows, symbols) = np.full(whole.shape, -np.inf), np.nonzero(wanted)
        if len(rows):
            longer = codes[rows]
            longer[np.arange(len(rows)), lengths[rows]] = symbols
            found[rows, symbols] = self._called(longer, lengths[rows] + 1)
        return jnp.asarray(found, float_type())

    def _called(self, codes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return log V of some prefixes.

        Raises:
            GmlmError: E745 if a result is not a finite number of at least 0, or not 0 or 1 for a
                verifier; if the shape is wrong, or the function raises an exception.
        """
        values = np.where(np.arange(codes.shape[1]) < lengths[:, None], self.string.values_of(codes), self.string.padding)
        try:
            answer = self.function(values, lengths)
        except Exception as error:
            message = f"{self.name}, `{self.target}`, raised {type(error).__name__}: {error}"
            raise fail("E745", message, self.place, "raised here") from error
        found = numbers(answer)
        if found is None or found.shape != (len(lengths),):
            got = f"{answer!r:.60}" if found is None else str(found.shape)
            help = "`V(prefixes, lengths)` returns one number for each row"
            message = f"{self.name}, `{self.target}`, must return numbers of shape ({len(lengths)},), got {got}"
            raise fail("E745", message, self.place, "no numbers" if found is None else "wrong shape", help=help)
        good = np.isin(found, (0, 1)) if self.verifies else np.isfinite(found) & (found >= 0)
        if not good.all():
            r = int(np.argmin(good))
            raise no_value(self.name, found[r], codes[r, : lengths[r]].tolist(), self.place)
        with np.errstate(divide="ignore"):
            return np.log(found)


def numbers(answer: object) -> np.ndarray | None:
    """Return the result of a user-defined function as float64, or None if it is not real."""
    try:
        found = np.asarray(answer)
    except Exception:  # The lists may be ragged, or the object may fail to convert itself.
        return None
    return found.astype(np.float64) if found.dtype.kind in "biu" or jnp.issubdtype(found.dtype, jnp.floating) else None


def no_value(name: str, value: float, prefix: list[int], place: Span | None) -> GmlmError:
    """Return the error for an invalid result.

    A result of a value is a finite number of at least 0; that of a verifier is 0 or 1.

    Args:
        name: the name of the verifier or value.
        value: its result.
        prefix: the codes of the prefix.
        place: its place in the program.
    """
    help = "0 and 1 are a verifier's; a value is finite and at least 0"
    return fail("E745", f"{name} gives {value:g} of the prefix {prefix} (codes)", place, f"gives {value:g}", help=help)
