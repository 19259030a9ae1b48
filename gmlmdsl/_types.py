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

    from .read import AbstractRows

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

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a pandas frame."""
        ...


# What a user passes

ArrayLike: TypeAlias = "npt.ArrayLike"  # an array, a frame or series, nested sequences, or one number or text
Frame: TypeAlias = "pd.DataFrame | ForeignFrame"
Rows: TypeAlias = "ArrayLike | Mapping[str, ArrayLike] | AbstractRows"  # configurations: of the one variable, or by variable
Given: TypeAlias = "Mapping[str, ArrayLike] | Frame"  # by given variable
Missing: TypeAlias = "MissingValue | Mapping[str, MissingValue | None]"  # the value of a missing cell, or that value by variable
MissingValue: TypeAlias = "str | int | float | np.integer | np.floating"
ParamsLike: TypeAlias = "Mapping[str, ArrayLike | eqx.Module]"  # by parameter; a conditional model has its network by its name
Place: TypeAlias = "int | str | tuple[int | str, ...]"  # of a cell in its variable: numbers from 0, or labels of the axes
Clamp: TypeAlias = "Mapping[str, ArrayLike | Mapping[Any, ArrayLike]]"  # by variable, an array, or values by `Place`
Label: TypeAlias = "Hashable"  # a member of an axis
Coords: TypeAlias = "Mapping[str, Sequence[Label]]"  # by dimension
Function: TypeAlias = "Callable[[Any], ArrayLike]"  # of a configuration, which is an array or a dict as in `Rows`
Observe: TypeAlias = "Mapping[str, Function] | Sequence[str] | str"  # functions by name, or variables
DrawsLike: TypeAlias = "arviz.InferenceData | xr.DataTree"

# What methods return

Configuration: TypeAlias = "np.ndarray | dict[str, np.ndarray]"  # values of the one variable, or by variable
Arrays: TypeAlias = "dict[str, jax.Array]"  # parameters on the device
JsonObject: TypeAlias = "dict[str, Any]"  # an object of JSON, or data from which one is written
