"""Verifiers and values that are functions of the user's, in Python."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._diagnostics import GmlmError, Span, fail
from ..derive import float_type
from ..graph import VariableArray
from ._judges import AbstractJudge, View


class PythonJudge(AbstractJudge):
    """`V(prefixes, lengths) -> rows`: called once for all rows of a turn whose answer counts.

    Attributes:
        function: takes values of shape (rows, cells), letters and labels as codes, with the padding
            of `string` after each length, and lengths of shape (rows,).
        string: the variable whose cells are judged.
        verifies: whether its answers are 0 and 1.
        name: what messages call it.
        target: the function's name.
        place: where it stands.
    """

    function: Callable[[np.ndarray, np.ndarray], Any] = eqx.field(static=True)
    string: VariableArray = eqx.field(static=True)
    verifies: bool = eqx.field(static=True)
    name: str = eqx.field(static=True)
    target: str = eqx.field(static=True)
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
        """log V of the rows that are asked about; -inf of the others."""
        asked = np.asarray(view.asked)
        found = np.full(len(asked), -np.inf)
        if asked.any():
            found[asked] = self._called(np.asarray(view.codes)[asked], np.asarray(view.lengths)[asked])
        return jnp.asarray(found, float_type())

    def children(self, state: None, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: Any) -> Float[Array, "rows values"]:
        """log V behind each symbol that is asked about, in one call; a full row has no continuation."""
        codes, lengths, asked = np.asarray(view.codes), np.asarray(view.lengths), np.asarray(view.asked)
        wanted = np.broadcast_to(asked[:, None] if asked.ndim == 1 else asked, whole.shape) & (lengths < codes.shape[1])[:, None]
        found, (rows, symbols) = np.full(whole.shape, -np.inf), np.nonzero(wanted)
        if len(rows):
            longer = codes[rows]
            longer[np.arange(len(rows)), lengths[rows]] = symbols
            found[rows, symbols] = self._called(longer, lengths[rows] + 1)
        return jnp.asarray(found, float_type())

    def _called(self, codes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """log V of some prefixes.

        Raises:
            GmlmError: E745 where it is no finite number of at least 0, or of a verifier not 0 or 1,
                has another shape, or is not returned at all.
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


def numbers(answer: Any) -> np.ndarray | None:
    """What a function of the user's returned as an array of float64; None where it is no array of real numbers."""
    try:
        found = np.asarray(answer)
    except Exception:  # lists that are ragged, or what says by itself how it becomes an array
        return None
    return found.astype(np.float64) if found.dtype.kind in "biu" or jnp.issubdtype(found.dtype, jnp.floating) else None


def no_value(name: str, value: float, prefix: list[int], place: Span | None) -> GmlmError:
    """What is said of a value that is no finite number of at least 0, or of a verifier's that is not 0 or 1."""
    help = "0 and 1 are a verifier's; a value is finite and at least 0"
    return fail("E745", f"{name} gives {value:g} of the prefix {prefix} (codes)", place, f"gives {value:g}", help=help)


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
        raise fail("E744", f"`{target}` is not a function", place, "cannot be called", help="`V(prefixes, lengths) -> rows`")
    return found
