"""Names of the types that functions of several packages take and return.

The names are text at run time, so that this file imports neither NumPy nor JAX nor pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    import arviz
    import equinox as eqx
    import jax
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    import xarray as xr

    class Draws(arviz.InferenceData):
        """Labelled draws as `sample` returns them: an InferenceData whose groups are attributes.

        ArviZ 1 has a DataTree in its place, with the same access to groups.
        """

        def __getattr__(self, name: str) -> xr.Dataset: ...

else:
    Draws = "Draws"


class ForeignFrame(Protocol):
    """A table of a library other than pandas, such as polars."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        ...

    def __array__(self) -> np.ndarray:
        """Return the entries as an array."""
        ...

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a pandas frame."""
        ...


class FileRows(Protocol):
    """Rows of a file, as the readers of the package return them."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The texts that stand for a missing cell."""
        ...

    @property
    def x(self) -> np.ndarray:
        """The rows as a plain array."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of each column."""
        ...

    def texts(self, columns: Sequence[int]) -> np.ndarray:
        """Return the fields of some columns, shape (rows, columns)."""
        ...

    def place(self, row: int, column: int) -> str:
        """Return the place of a field: the file, its line, its column."""
        ...


# What a user passes

ArrayLike: TypeAlias = "npt.ArrayLike"  # an array, a frame or series, nested sequences, or one number or text
InputLike: TypeAlias = "ArrayLike | Mapping[Any, ArrayLike]"  # an input of a program; over edges also a dict by pair
Frame: TypeAlias = "pd.DataFrame | ForeignFrame"
Labelled: TypeAlias = "Frame | pd.Series | xr.DataArray"  # an array with names
Rows: TypeAlias = "ArrayLike | Mapping[str, ArrayLike] | FileRows"  # configurations: of the one variable, or by variable
Given: TypeAlias = "Mapping[str, ArrayLike] | Frame"  # by given variable
Prompt: TypeAlias = "str | Sequence[ArrayLike] | np.ndarray"  # the beginning of a string, or one for each row
# The value of a missing cell, or several in a list, or these by variable.
Missing: TypeAlias = "MissingValue | Sequence[MissingValue] | Mapping[str, MissingValue | Sequence[MissingValue] | None]"
MissingValue: TypeAlias = "str | int | float | np.integer | np.floating"
Marks: TypeAlias = "tuple[MissingValue, ...]"  # the values of a missing cell of one variable
ParamsLike: TypeAlias = "Mapping[str, ArrayLike | eqx.Module]"  # by parameter; a conditional model has its network by its name
Place: TypeAlias = "int | str | tuple[int | str, ...]"  # of a cell in its variable: numbers from 0, or labels of the axes
Clamp: TypeAlias = "Mapping[str, ArrayLike | Mapping[Any, ArrayLike]]"  # by variable, an array, or values by `Place`
Likelihood: TypeAlias = "Mapping[str, ArrayLike | Mapping[Place, ArrayLike]]"  # by variable, a weight for each value of its cells
Label: TypeAlias = "Hashable"  # a member of an axis
Coords: TypeAlias = "Mapping[str, Sequence[Label]]"  # by dimension
OfConfiguration: TypeAlias = "Callable[[Any], ArrayLike]"  # of a configuration, which is an array or a dict as in `Rows`
ObserveLike: TypeAlias = "Mapping[str, OfConfiguration | str] | Sequence[str] | str"  # functions by name, or names of `let`s
DrawsLike: TypeAlias = "arviz.InferenceData | xr.DataTree"

# What several packages handle

AnyArray: TypeAlias = "np.ndarray | jax.Array"  # of the host, or of the device where JAX traces
Index: TypeAlias = "pd.Index"  # the labels of rows

# What methods return

Configuration: TypeAlias = "np.ndarray | dict[str, np.ndarray]"  # values of the one variable, or by variable
Arrays: TypeAlias = "dict[str, jax.Array]"  # parameters on the device
JsonObject: TypeAlias = "dict[str, Any]"  # an object of JSON, or data from which one is written
