"""Draws that go to a file as they are drawn, and runs of chains that go on after they were killed.

Beside the file `draws.nc` a run has the folder `draws.nc.unfinished`. It contains the file, whose
arrays are filled piece by piece, and the latest states of the chains. The file gets its name when
all draws are in it.
"""

from __future__ import annotations

import abc
import contextlib
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np

from .._diagnostics import fail
from .._optional import need
from .._types import JsonObject
from ..data import as_bytes, as_identity, from_bytes, hash_of_arrays, hash_of_computation
from ..derive import Info, float_type
from ..files import SavedStates, alone, as_path, asked_to_end, put_in_place, settle, verify_plain
from ..graph import FactorGraph
from . import limits
from ._arviz import Arrays, Attributes, datasets, dated, draw_groups, lazily, need_netcdf
from ._draw import ChainRun, PreparedRun, attributes, axes, named_arrays, told, verify_scores
from ._run_chains import KernelRun, Position
from ._run_kernel import Draws

if TYPE_CHECKING:
    import xarray as xr
    from jaxtyping import PyTree


Array = np.ndarray
UNFINISHED = ".unfinished"
COUNTS = Info._fields
NO_COUNTS = np.zeros((1, 1, 0), np.int32)
NOTHING = Draws(None, None, NO_COUNTS, NO_COUNTS, NO_COUNTS, NO_COUNTS, {}, np.zeros((0, 0)))


def stored(prepared: PreparedRun, provenance: JsonObject) -> Any:
    """Run chains, and write their draws to the file that the option `store` names.

    A run that was interrupted goes on from its latest state, and its draws are those of a run that
    was not.

    Args:
        prepared: the chains, with what labels their draws.
        provenance: attributes to record with the draws.

    Returns:
        The draws as the object of the installed ArviZ. Their values stay in the file.

    Raises:
        GmlmError: E507 for several processes; E560 and E561 for a file that cannot be written; E588
            if another run is at work on it; E752 if it belongs to another run; E753 if its states
            are damaged.
    """
    if jax.process_count() > 1:
        raise fail("E507", "store: several processes would write one file", help="draw in one process, over all of its devices")
    path, kind = verified_store(prepared.options.store)
    graph, chains, run = prepared.lowered.graph, prepared.chains, prepared.of(NOTHING)
    folder = path.with_name(path.name + UNFINISHED)
    job = _Job(graph, chains, run, provenance, kind(folder / path.name), SavedStates(folder, _identity(chains, run, provenance)))
    with alone(folder), _naming_disk(path):
        try:
            totals = job.drawn()
            if job.store.path.exists() or not path.exists():  # else a run was killed just after the renaming
                job.finish(totals)
                _rename(job.store.path, path)
            job.states.clear()
        finally:
            if not job.states.steps():  # There is nothing from which a later run could go on.
                _empty(folder)
    with contextlib.suppress(OSError):
        folder.rmdir()
    return kind(path).opened()


class _Job:
    """The work of one run, see `stored`.

    Args:
        graph: the factor graph.
        chains: the chains.
        run: what labels the draws.
        provenance: attributes to record with the draws.
        store: the unfinished file.
        states: the latest states of the chains.
    """

    def __init__(
        self, graph: FactorGraph, chains: KernelRun, run: ChainRun, provenance: JsonObject, store: AbstractStore, states: SavedStates
    ):
        self.graph, self.chains, self.run, self.provenance, self.store, self.states = (graph, chains, run, provenance, store, states)

    @property
    def is_diagnosed(self) -> bool:
        """Whether the draws have warnings, which may be none."""
        return self.chains.keep and self.run.is_diagnosed

    def drawn(self) -> dict[str, Array]:
        """Draw what is missing, and return the sums of the counts `Info` over chains and draws."""
        begun, totals = self._begun()
        chains, last = self.chains, self.chains.warmup + self.chains.draws * self.chains.thin
        if begun is not None and begun.step == last:
            return totals
        with asked_to_end(True) as ends, contextlib.ExitStack() as opened:
            arrays = None if begun is None or begun.step <= chains.warmup else opened.enter_context(self._arrays())
            for piece in chains.pieces(begun, limits.CALL_SECONDS, limits.WRITTEN_AT_ONCE):
                if piece.draws is not None:
                    verify_scores(self.graph, piece.draws)
                    named = named_arrays(self.graph, replace(self.run, draws=piece.draws))
                    if arrays is None:
                        self._create(*named)
                        arrays = opened.enter_context(self.store.arrays())
                    _write(arrays, named, (piece.at.step - chains.warmup) // chains.thin)
                    totals = {k: n + getattr(piece.draws, k).sum(axis=(0, 1)) for k, n in totals.items()}
                ending = ends()
                if ending or piece.at.step == last or self.states.is_due:
                    if arrays is not None:
                        self.store.settle()
                    self.states.save(piece.at.step, as_bytes(chains.kept(piece.at)), {k: n.tolist() for k, n in totals.items()})
                if ending:
                    break
        return totals

    def finish(self, totals: Mapping[str, Array]) -> None:
        """Write the warnings of the diagnosis, which reads the draws of some cells at a time."""
        text = None
        with self._arrays() as arrays:
            if self.is_diagnosed:
                sums = {k: n[None, None] for k, n in totals.items()}
                run = replace(self.run, draws=Draws(None, None, **sums, observed={}, last=self.chains.codes))
                values = {v.name: arrays[f"posterior/{v.name}"] for v in self.graph.variables}
                text = told(run.diagnosed(self.graph, codes_in_pieces(self.graph, values)))
        self.store.finish(text)

    def _begun(self) -> tuple[Position | None, dict[str, Array]]:
        """Return where the run goes on, None at the beginning, and the sums of counts until there."""
        found, kernel = self.states.latest(), self.chains.kernel
        if found is None:
            _empty(self.states.folder)
            return None, {k: np.zeros(kernel.updates if k in COUNTS[:2] else kernel.pairs, np.int64) for k in COUNTS}
        step, data, notes = found
        return Position(step, from_bytes(data, self.chains.like)), {k: np.array(notes[k], np.int64) for k in COUNTS}

    def _create(self, posterior: dict[str, Array], stats: dict[str, Array]) -> None:
        """Write the file without values, from arrays of some draws."""
        shape = (self.chains.codes.shape[1], self.chains.draws)

        def whole(some: dict[str, Array]) -> dict[str, Array]:
            kinds = {k: _stored_type(a) for k, a in some.items()}
            shapes = {k: (*shape, *a.shape[2:]) for k, a in some.items()}
            return {k: np.broadcast_to(np.zeros((), kinds[k]), shapes[k]) for k in some}

        labels = axes(self.graph, self.run)
        groups = draw_groups(whole(posterior), *labels, whole(stats), self.graph.texts)
        _empty(self.states.folder, (self.store.path.name,))
        attrs = attributes(self.graph, self.run, self.provenance) | ({"warnings": ""} if self.is_diagnosed else {})
        self.store.create(groups, dated(attrs), self.chains.per_call(limits.WRITTEN_AT_ONCE))

    @contextlib.contextmanager
    def _arrays(self) -> Iterator[Mapping[str, Any]]:
        """Open the unfinished file."""
        opened = self.store.arrays()
        try:
            arrays = opened.__enter__()
            arrays["sample_stats/flip_rate"]  # an empty file can be opened too
        except (OSError, KeyError, ValueError) as error:
            message = f"{self.store.path} lacks the draws that were saved: {str(error)[:100]}"
            raise fail("E753", message, help=f"remove `{self.states.folder}` to begin the run anew") from None
        try:
            yield arrays
        finally:
            opened.__exit__(None, None, None)


def _identity(chains: KernelRun, run: ChainRun, provenance: JsonObject) -> dict[str, str]:
    """Return everything that the draws depend on, by part."""
    options, observe, target = run.options, chains.observe, chains.target
    parts: dict[str, object] = {k: provenance[k] for k in ("model", "inputs", "coords")}
    parts |= {"program": provenance["sha256"], "version of gmlmdsl": provenance["versions"]["gmlmdsl"]}
    parts |= {k: getattr(options, k) for k in ("sampler", "draws", "warmup", "chains", "thin", "seed", "keep_draws")}
    parts |= {"params": hash_of_arrays(_arrays_of(target.params)), "given": hash_of_arrays(_arrays_of(target.graph))}
    parts |= {"clamp or init": hash_of_arrays([chains.codes, run.held]), "annealing steps": chains.anneal}
    parts["precision"] = str(float_type())
    if observe is not None:
        parts["observe"] = hash_of_computation(observe, np.zeros((chains.codes.shape[0], 1), np.int32))
    return as_identity(parts)


def _arrays_of(tree: PyTree) -> list[Array]:
    """Return the arrays of parameters; a network has other leaves, which its declaration determines."""
    return [np.asarray(a) for a in jax.tree.leaves(tree) if isinstance(a, jax.Array | np.ndarray)]


def _write(arrays: Mapping[str, Any], named: tuple[dict[str, Array], dict[str, Array]], end: int) -> None:
    """Write the draws before number `end` to their places."""
    for group, some in zip(("posterior", "sample_stats"), named, strict=True):
        for name, values in some.items():
            here = slice(end - values.shape[1], end)
            arrays[f"{group}/{name}"][:, here] = values.astype(_stored_type(values), copy=False)


def _stored_type(values: Array) -> np.dtype:
    """Return the type in which values are stored: truth values are numbers, as in kept draws."""
    return np.dtype(np.int8) if values.dtype == bool else values.dtype


def _rename(part: Path, path: Path) -> None:
    """Give a finished file its name. A store of that name moves away, and is removed later."""
    if path.is_dir():
        os.replace(path, part.with_name("replaced"))
    elif path.exists():
        shutil.copymode(path, part)
    put_in_place(part, path)


def _empty(folder: Path, names: tuple[str, ...] | None = None) -> None:
    """Remove files and folders of a folder, all but hidden ones if no names are given."""
    for path in folder.iterdir():
        if path.name in names if names is not None else not path.name.startswith("."):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextlib.contextmanager
def _naming_disk(path: Path) -> Iterator[None]:
    """Turn errors of the disk into E560."""
    try:
        yield
    except OSError as error:
        help = "what was drawn is kept: make room or mend the folder, and make the same call to go on"
        raise fail("E560", f"cannot write {path}: {error.strerror or str(error)[:100]}", help=help) from None


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
        """Return the Dataset of each group, whose values are read from the file at their use."""
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
                for name, (axes, values, named) in variables.items():
                    kind, laid = values.dtype, layout.copy()
                    made = file[group].create_variable(name, tuple(axes), kind, dcpl=laid)
                    made.attrs.update(named)
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
            for name, (dims, values, named) in variables.items():
                shape = values.shape
                plain = {k: np.asarray(a).tolist() for k, a in named.items()}
                root.create_array(
                    f"{group}/{name}",
                    shape=shape,
                    chunks=(shape[0], min(shape[1], at_once), *_piece_shape(shape[2:], most_cells(values))),
                    dtype=values.dtype,
                    fill_value=None,
                    attributes={"_ARRAY_DIMENSIONS": list(dims), **plain},
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
