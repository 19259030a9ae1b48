"""What a reader gives: rows of texts that know their names and their places in a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray


class AbstractRows(ABC):
    """Rows of a file. `Model.fit` and the other verbs take them as `x`; a value that does not fit is then named by its place."""

    path: Path
    tokens: tuple[str, ...]  # the texts that stand for a missing cell in what `texts` gives

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
    def missing(self) -> Any:
        """What stands in `x` for a missing cell, as `missing=` takes it; None where none was declared."""

    @property
    @abstractmethod
    def missing_counts(self) -> dict[str, int]:
        """The number of missing cells of each column."""

    @property
    @abstractmethod
    def in_order(self) -> bool:
        """Whether the columns stand for the cells in their order, whatever they are called."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What was read, in a few words."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def texts(self, columns: Sequence[int]) -> Array:
        """The fields of some columns; shape (rows, columns)."""

    @abstractmethod
    def place(self, row: int, column: int) -> str:
        """Where a field stands: the file, its line, its column."""
