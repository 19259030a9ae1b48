"""Labels of the members of an index set, built when they are first read.

A million edges need no names to be fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, overload

from ..program import ir
from ._bound import Bound


class Labels(Sequence[Any]):
    """A sequence that computes the labels of a set when the first one is read."""

    def __init__(self, bound: Bound, over: ir.SetOf, length: int):
        self._bound, self._over, self._length = bound, over, length

    @cached_property
    def _found(self) -> tuple[Any, ...]:
        return self._bound.labels(self._over)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Any: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Any]: ...

    def __getitem__(self, place: int | slice) -> Any:
        return self._found[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found)


def lazy_labels(bound: Bound, over: ir.SetOf) -> Labels:
    """Return the labels of a bound set."""
    return Labels(bound, over, bound.set_size(over))
