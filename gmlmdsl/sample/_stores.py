"""Files of draws that are filled piece by piece: netCDF and Zarr.

Arrays have their final shape from the beginning, and everything beside their values is written
before the first draw. A process may be killed at any time: what was written before can be read.
"""

from __future__ import annotations

import abc
import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._diagnostics import fail
from .._optional import need
from ..files import as_path, settle, verify_plain
from ..graph import FactorGraph
from . import limits
from ._arviz import Arrays, Attributes, datasets, lazily, need_netcdf

if TYPE_CHECKING:
    import xarray as xr

Array = np.ndarray
REMARKED = "/", "posterior"  # the groups whose attributes contain the warnings


class AbstractStore(abc.ABC):
    """A file of draws.

    Args:
        path: the file, or the folder of a Zarr store.
    """

    engine: ClassVar[str]

    def __init__(self, path: Path):
        self.path = path

    @abc.abstractmethod
    def create(self, groups: Mapping[str, Arrays], attrs: Attributes, at_once: int) -> None:
        """Write everything but the values of the variables.

        Args:
            groups: variables and labels of axes by group; only the shapes and types of variables
                matter.
            attrs: the attributes, `warnings` among them if the draws will have it.
            at_once: the number of draws that are mostly written at once.
        """

    @abc.abstractmethod
    def arrays(self) -> contextlib.AbstractContextManager[Mapping[str, Any]]:
        """Provide the variables, `posterior/x` for example, to be read and written by slices."""

    @abc.abstractmethod
    def settle(self) -> None:
        """Wait until all values that were written are on the disk."""

    @abc.abstractmethod
    def finish(self, text: str | None) -> None:
        """Set the attribute `warnings`, if the draws have it, after everything else is written."""

    @staticmethod
    @abc.abstractmethod
    def verify(path: Path) -> None:
        """Raise unless this package may write a file of draws at a path, which may replace one.

        Raises:
            GmlmError: E560; E561 if a package is not installed.
        """

    def read(self) -> dict[str, xr.Dataset]:
        """Return the Dataset of each group, whose values are read from the file when they are used."""
        import xarray as xr

        more: dict[str, Any] = {"consolidated": False} if self.engine == "zarr" else {}
        return {g: xr.open_dataset(self.path, group=g, engine=self.engine, cache=False, **more) for g in ("posterior", "sample_stats")}

    def opened(self) -> Any:
        """Return the draws as the object of the installed ArviZ; their values stay in the file."""
        return lazily(self.read)


class NetCDFStore(AbstractStore):
    """A netCDF file, written by h5netcdf.

    The place of each array in the file is set aside at the beginning, and nothing is compressed. A
    later write changes the values of arrays alone, which leaves the file valid at any time. The
    place of the warnings is set aside for the same reason.
    """

    engine = "h5netcdf"

    def create(self, groups: Mapping[str, Arrays], attrs: Attributes, at_once: int) -> None:
        import h5netcdf
        import h5py
        import xarray as xr

        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        tree = xr.DataTree.from_dict({f"/{k}": v for k, v in datasets(_labels_alone(groups), attrs).items()})
        tree.attrs = dict(attrs)
        tree.to_netcdf(self.path, engine="h5netcdf")
        with h5netcdf.File(self.path, "r+") as file:
            for group, (variables, _) in groups.items():
                for name, (axes, values) in variables.items():
                    file[group].create_variable(name, tuple(axes), values.dtype, dcpl=layout.copy())
        with h5py.File(self.path, "r+") as file:
            for group in REMARKED if "warnings" in attrs else ():
                file[group].attrs.create("warnings", "", dtype=h5py.string_dtype("utf-8", limits.MOST_REMARKS))

    @contextlib.contextmanager
    def arrays(self) -> Iterator[Mapping[str, Any]]:
        import h5py

        with h5py.File(self.path, "r+") as self._file:
            yield self._file

    def settle(self) -> None:
        self._file.flush()
        settle(self.path)

    def finish(self, text: str | None) -> None:
        import h5py

        if text is None:
            return
        whole = text.encode()
        cut = whole if len(whole) <= limits.MOST_REMARKS else whole[: limits.MOST_REMARKS - 4].decode(errors="ignore").encode() + b" .."
        kind = h5py.string_dtype("utf-8", limits.MOST_REMARKS)
        with h5py.File(self.path, "r+") as file:
            for group in REMARKED:
                file[group].attrs.modify("warnings", np.array(cut, kind))

    @staticmethod
    def verify(path: Path) -> None:
        need_netcdf()
        verify_plain(path)


class ZarrStore(AbstractStore):
    """A Zarr store of format 2, which every version of the library reads.

    Each chunk is a file that appears when it is complete.
    """

    engine = "zarr"

    def create(self, groups: Mapping[str, Arrays], attrs: Attributes, at_once: int) -> None:
        import xarray as xr
        import zarr

        tree = xr.DataTree.from_dict({f"/{k}": v for k, v in datasets(_labels_alone(groups), attrs).items()})
        tree.attrs = dict(attrs)
        tree.to_zarr(self.path, zarr_format=2, consolidated=False)
        root = zarr.open_group(self.path, mode="r+", use_consolidated=False)
        for group, (variables, _) in groups.items():
            for name, (axes, values) in variables.items():
                shape = values.shape
                root.create_array(
                    f"{group}/{name}",
                    shape=shape,
                    chunks=(shape[0], min(shape[1], at_once), *_piece_shape(shape[2:], most_cells(values))),
                    dtype=values.dtype,
                    fill_value=None,
                    attributes={"_ARRAY_DIMENSIONS": list(axes)},
                )

    @contextlib.contextmanager
    def arrays(self) -> Iterator[Mapping[str, Any]]:
        import zarr

        yield zarr.open_group(self.path, mode="r+", use_consolidated=False)  # pyright: ignore[reportReturnType]

    def settle(self) -> None:
        if hasattr(os, "sync"):  # Windows lacks it.
            os.sync()

    def finish(self, text: str | None) -> None:
        import zarr

        root = zarr.open_group(self.path, mode="r+", use_consolidated=False)
        for group in () if text is None else REMARKED:
            root[group].attrs["warnings"] = text
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(self.path)

    @staticmethod
    def verify(path: Path) -> None:
        need("zarr", "Zarr stores need zarr", '"gmlmdsl[zarr]"', help="or write a .nc file")
        if path.exists() and not any((path / name).is_file() for name in (".zgroup", "zarr.json")):
            raise fail("E560", f"cannot write {path}: there is something else, no Zarr store", help="choose another name")


STORES: dict[str, type[AbstractStore]] = {".nc": NetCDFStore, ".zarr": ZarrStore}


def verified_store(path: object) -> tuple[Path, type[AbstractStore]]:
    """Return the path of a file of draws, and its kind.

    Raises:
        GmlmError: E560 for a path that cannot be written, E561 if a package is not installed.
    """
    try:
        named = Path(os.path.realpath(as_path(path, "E560")))
    except ValueError:
        raise fail("E560", f"cannot write {path!a}: no file has this name") from None
    if named.suffix not in STORES:
        raise fail("E560", f"cannot write {named}: the name of a file of draws must end in .nc or .zarr")
    if not named.parent.is_dir():
        raise fail("E560", f"cannot write {named}: there is no folder {named.parent}", help="make it first, or choose another")
    STORES[named.suffix].verify(named)
    return named, STORES[named.suffix]


def codes_in_pieces(graph: FactorGraph, values: Mapping[str, Any]) -> Iterator[tuple[slice, Array]]:
    """Yield the codes of successive cells, as `diagnose_pieces` takes them.

    Args:
        graph: the factor graph.
        values: by variable, values (chain, draw, *axes) in memory or in a file, which are read some
            cells at a time.
    """
    for v in graph.variables:
        at = v.offset
        for piece in cell_pieces(v.shape, most_cells(values[v.name])):
            some = np.asarray(values[v.name][(slice(None), slice(None), *piece)])
            some = some.reshape(*some.shape[:2], -1)
            step = max(1, limits.DIAGNOSED_AT_ONCE // max(1, some.shape[1]))
            for first in range(0, some.shape[2], step):
                codes = v.codes_of(some[:, :, first : first + step])
                yield slice(at, at := at + codes.shape[2]), codes


def most_cells(values: Array) -> int:
    """Return how many cells of an array (chain, draw, *cells) are read at once, all draws of each."""
    return max(1, limits.READ_AT_ONCE // max(1, values.shape[0] * values.shape[1] * values.dtype.itemsize))


def cell_pieces(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Yield the places of successive cells of an array, at most `most` at a time.

    Each piece is a chunk of the same array in a Zarr store.

    Args:
        shape: the axes of cells.
        most: the number of cells.
    """
    steps = _piece_shape(shape, most)
    starts = [range(0, size, step) for size, step in zip(shape, steps, strict=True)]
    for corner in np.ndindex(*map(len, starts)):
        begins = [r[k] for r, k in zip(starts, corner, strict=True)]
        yield tuple(slice(a, min(a + step, size)) for a, step, size in zip(begins, steps, shape, strict=True))


def _piece_shape(shape: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return the shape of a piece of successive cells: 1, .., 1, some, all, .., all."""
    steps, left = [], max(1, most)
    for size in reversed(shape):
        steps.append(max(1, min(size, left)))
        left = left // max(1, size) if steps[-1] == size else 1
    return tuple(reversed(steps))


def _labels_alone(groups: Mapping[str, Arrays]) -> dict[str, Arrays]:
    return {group: ({}, labels) for group, (_, labels) in groups.items()}
