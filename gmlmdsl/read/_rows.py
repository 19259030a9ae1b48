"""The base class of a reader's result: rows of texts, with their names and places in a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np

Array = np.ndarray


class AbstractRows(ABC):
    """Rows of a file.

    `Model.fit` and the other methods accept them as `x`. An error about a value then names its
    place.
    """

    path: Path
    tokens: tuple[str, ...]  # These texts stand for a missing cell in the result of `texts`.

    @property
    @abstractmethod
    def x(self) -> Array:
        """The rows as a plain array."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The name of each column."""

    @property
    @abstractmethod
    def missing(self) -> str | float | None:
        """The value of a missing cell in `x`, as an argument `missing=`.

        None if none was declared.
        """

    @property
    @abstractmethod
    def missing_counts(self) -> dict[str, int]:
        """The number of missing cells of each column."""

    @property
    @abstractmethod
    def in_order(self) -> bool:
        """Whether the columns stand for the cells in their order, whatever their names are."""

    @property
    @abstractmethod
    def words(self) -> str:
        """A short description of what was read."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def texts(self, columns: Sequence[int]) -> Array:
        """Return the fields of some columns, shape (rows, columns)."""

    @abstractmethod
    def place(self, row: int, column: int) -> str:
        """Return the place of a field: the file, its line, its column."""

    def hint(self, row: int) -> str:
        """Return what else may be wrong with a row without values, as the end of a help."""
        return ""
