"""Draws for ArviZ: the only file that depends on its installed version.

Draws become InferenceData on 0.x and a DataTree on 1.x. The groups are built as xarray Datasets
here, because `from_dict` has a different meaning in the two versions. ArviZ 0.x loads Matplotlib
and SciPy's statistics, which takes longer than the draws. Labelled draws therefore become an
InferenceData only at the first access.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail
from .._optional import need
from .._types import Coords, DrawsLike, JsonObject, Label
from ..files import whole_file
from .limits import MOST_FLAGS

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

SAMPLE_DIMS = ("chain", "draw")
PSEUDO = "log_pseudolikelihood"
OWN_GROUPS = "guided_stats", PSEUDO  # groups that ArviZ does not define
ROW = "row"  # the axis of observed data that draws do not have


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the warnings of ArviZ 0.23 at import and for each plot.

    A user cannot act on any of them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)  # covers MatplotlibDeprecationWarning
        for name in OWN_GROUPS:
            warnings.filterwarnings("ignore", message=f"{name} group is not defined")
        yield


def arviz() -> ModuleType:
    """Return the `arviz` module, imported on first use."""
    with quiet():
        import arviz as az

    return az


def is_datatree() -> bool:
    """Return whether the installed ArviZ works with a DataTree, that is, has version 1.x.

    The name `InferenceData` still exists there, with a warning. A DataTree is an object of xarray,
    so this does not import ArviZ.
    """
    return int(version("arviz").split(".")[0]) >= 1


def to_arviz(
    posterior: Mapping[str, np.ndarray],
    dims: Mapping[str, Sequence[str]],
    coords: Coords,
    sample_stats: Mapping[str, np.ndarray],
    observed: Mapping[str, np.ndarray] | None = None,
    attrs: Mapping[str, object] | None = None,
    *,
    log_likelihood: Mapping[str, np.ndarray] | None = None,
    log_pseudolikelihood: Mapping[str, np.ndarray] | None = None,
    guided_stats: Mapping[str, np.ndarray] | None = None,
    texts: Mapping[str, Sequence[str]] | None = None,
) -> Any:
    """Label draws as the object that the installed ArviZ works with.

    Args:
        posterior: by variable, draws (chain, draw, *axes); bool becomes int8.
        dims: by variable, the name of each of `axes`; a variable without an entry gets
            `<variable>_dim_0` and so on. A name that occurs twice in one variable is numbered:
            `site`, `site_2`.
        coords: by dim, the label of each index; members that are not text or numbers are written as
            text.
        sample_stats: like `posterior`, for statistics of the draws.
        observed: by variable, data (*rows, *axes); gives the group `observed_data`.
        attrs: provenance (seed, versions, hash of the program, sampler), on the root and on
            `posterior`; values that netCDF does not support become text (JSON).
        log_likelihood: by variable, log p of each row at each draw, (chain, draw, row); gives the
            group `log_likelihood`.
        log_pseudolikelihood: replaces `log_likelihood` if the density of the draws is not the
            product of the rows' terms. Then no row can be left out by weighting draws; gives the
            group `log_pseudolikelihood`. On 0.x, access to `log_likelihood` then raises E550.
        guided_stats: like `sample_stats`, for the counts of guided samplers; gives the group
            `guided_stats`.
        texts: by variable, what its codes stand for; see `flags`.

    Returns:
        InferenceData on ArviZ 0.x, as an `Unread` object until the first access; DataTree on 1.x.

    Raises:
        ValueError: the shape of an array does not fit its dims, or a dim does not fit its coords.
    """
    texts = texts or {}
    known, groups = dated(attrs or {}), draw_groups(posterior, dims, coords, sample_stats, texts)
    if log_likelihood is not None:
        groups["log_likelihood"] = _arrays(log_likelihood, SAMPLE_DIMS, dict.fromkeys(log_likelihood, (ROW,)), {})
    if log_pseudolikelihood is not None:
        groups[PSEUDO] = _arrays(log_pseudolikelihood, SAMPLE_DIMS, dict.fromkeys(log_pseudolikelihood, (ROW,)), {})
    if guided_stats is not None:
        groups["guided_stats"] = _arrays(guided_stats, SAMPLE_DIMS, dims, coords)
    if observed is not None:
        groups["observed_data"] = _arrays(observed, None, dims, coords, texts)
    return lazily(lambda: datasets(groups, known))


def summary(idata: DrawsLike, var_names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return `arviz.summary` in full floats, with NaN as ESS and Monte Carlo errors of a constant.

    ArviZ itself assigns a chain that never moves an ESS of all its draws. The columns are those of
    the installed version.

    Args:
        idata: from `to_arviz`.
        var_names: variables of the posterior; all by default.

    Returns:
        A pandas DataFrame with one row per scalar.
    """
    with quiet(), warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # a constant variable gives 0/0
        table = arviz().summary(idata, var_names=None if var_names is None else list(var_names), round_to="none")
    columns = [c for c in table.columns if c.startswith(("ess", "mcse", "r_hat"))]
    table[columns] = table[columns].astype(float)
    table.loc[table["sd"] == 0, columns] = np.nan
    return table


def save(idata: Any, path: str | os.PathLike[str]) -> Path:
    """Write draws to a `.nc` file (netCDF, for ArviZ) or to an `.npz` file (for NumPy alone).

    In the `.npz` file the array `posterior/x` has its dims in the JSON text `metadata` and its
    coords in `posterior/coords/site`. The file appears only when it is complete.

    Args:
        idata: from `to_arviz`.
        path: the file to write; its suffix determines the format.

    Returns:
        The path.

    Raises:
        GmlmError: E560 if the file cannot be written; E561 if netCDF needs packages that are not
            installed.
    """
    path = Path(path)
    if path.suffix not in (".nc", ".npz"):
        raise fail("E560", f"cannot write `{path}`: the name must end in .nc or .npz")
    if path.suffix == ".nc":
        need_netcdf()
    with whole_file(path) as part:
        if path.suffix == ".npz":
            with part.open("wb") as file:
                np.savez_compressed(file, **_flat(idata))
        elif is_datatree():
            idata.to_netcdf(part, engine="h5netcdf")
        else:
            idata.to_netcdf(str(part), engine="h5netcdf")
    return path


def groups_of(idata: Any) -> dict[str, xr.Dataset]:
    """Return the Dataset of each group, on both versions."""
    if is_datatree():
        return {name: node.to_dataset() for name, node in idata.children.items()}
    return {name: idata[name] for name in idata.groups()}


class Unread(Mapping[str, Any]):
    """Labelled draws before the first access.

    The first access of any kind imports ArviZ and turns this object into an InferenceData. It
    becomes one itself, so that `isinstance` and `type` report an InferenceData, and no part of
    ArviZ meets another type.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        object.__setattr__(self, "_make", make)

    def __getattribute__(self, name: str) -> Any:
        return getattr(_read(self), name)

    def __getitem__(self, name: str) -> Any:
        return _read(self)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_read(self))

    def __len__(self) -> int:
        return len(_read(self))


def _asked(name: str) -> Callable[..., Any]:
    def method(self: Unread, *given: Any) -> Any:
        return getattr(_read(self), name)(*given)

    return method


# methods that Python looks up in the class and that Mapping lacks
for _name in ("add", "delattr", "delitem", "repr", "setattr", "setitem"):
    setattr(Unread, f"__{_name}__", _asked(f"__{_name}__"))
_READING = threading.RLock()


def _read(draws: Any) -> Any:
    """Return the draws, which are an InferenceData from now on."""
    with _READING:
        if type(draws) is Unread:
            own = object.__getattribute__(draws, "__dict__")
            made = own["_make"]()
            own |= made.__dict__
            object.__dict__["__class__"].__set__(draws, type(made))
            del own["_make"]
    return draws


# two dictionaries by name: variables with their axes and attributes, and labels of axes
Flags = dict[str, Any]
Arrays = tuple[dict[str, tuple[list[str], np.ndarray, Flags]], dict[str, np.ndarray]]
Attributes = dict[str, str | int | float]


def flags(texts: Sequence[str], kind: np.dtype) -> Flags:
    """Return the attributes that name the codes 0, 1, .. of a variable by the CF conventions.

    `flag_meanings` has the texts with blanks between them, and `_` for a blank in a text. Variables
    of more than `MOST_FLAGS` values have no such attributes.

    Args:
        texts: what each code stands for.
        kind: the type of the codes.
    """
    if len(texts) > MOST_FLAGS:
        return {}
    words = ["_".join(text.split()) or "_" for text in texts]
    return {"flag_values": np.arange(len(words), dtype=kind), "flag_meanings": " ".join(words)}


def dated(attrs: Mapping[str, object]) -> Attributes:
    """Return attributes in types that netCDF supports, with the time."""
    return {"created_at": datetime.now(UTC).isoformat(), **{k: _plain(v) for k, v in attrs.items()}}


def draw_groups(
    posterior: Mapping[str, np.ndarray],
    dims: Mapping[str, Sequence[str]],
    coords: Coords,
    sample_stats: Mapping[str, np.ndarray],
    texts: Mapping[str, Sequence[str]],
) -> dict[str, Arrays]:
    """Return the groups of draws and their statistics, see `to_arviz`."""
    arrays = {"posterior": posterior, "sample_stats": sample_stats}
    return {n: _arrays(some, SAMPLE_DIMS, dims, coords, texts) for n, some in arrays.items()}


def datasets(groups: Mapping[str, Arrays], attrs: Attributes) -> dict[str, xr.Dataset]:
    """Return the Dataset of each group; that of the posterior has all attributes."""
    import xarray as xr

    sets = {name: xr.Dataset(variables, coords=index) for name, (variables, index) in groups.items()}
    for name, group in sets.items():
        group.attrs = dict(attrs) if name == "posterior" else {"created_at": attrs["created_at"]}
        if name != "observed_data":
            group.attrs["sample_dims"] = list(SAMPLE_DIMS)
    return sets


def lazily(make: Callable[[], dict[str, xr.Dataset]]) -> Any:
    """Return Datasets by group as the object that the installed ArviZ works with.

    Args:
        make: returns the Datasets; on 0.x it is called at the first access. The posterior has all
            attributes.
    """

    def made() -> Any:
        sets = make()
        return _container(sets, {k: v for k, v in sets["posterior"].attrs.items() if k != "sample_dims"})

    return made() if is_datatree() else Unread(made)


def _container(sets: Mapping[str, xr.Dataset], attrs: Mapping[Any, Any]) -> Any:
    import xarray as xr

    if not is_datatree():
        kind = arviz().InferenceData
        with quiet():
            if PSEUDO in sets:
                from ._without_likelihood import WithoutLikelihood as kind
            return kind(**sets, attrs=attrs)  # pyright: ignore[reportArgumentType]
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in sets.items()})
    tree.attrs = dict(attrs)
    return tree


def _arrays(
    arrays: Mapping[str, np.ndarray],
    leading: tuple[str, ...] | None,
    dims: Mapping[str, Sequence[str]],
    coords: Coords,
    texts: Mapping[str, Sequence[str]] | None = None,
) -> Arrays:
    """Return the content of one group.

    `leading` has the first axes of every array, or is None if these are rows of data.
    """
    variables, used = {}, {}
    for name, values in arrays.items():
        array = np.asarray(values)
        array = array.astype(np.int8) if array.dtype == bool else array
        inner, first = list(dims.get(name, ())), leading
        if first is None:
            rows = array.ndim - len(inner) if name in dims else 1
            first = (ROW,) if rows == 1 else tuple(f"{ROW}_{k}" for k in range(rows))
        if name not in dims:
            inner = [f"{name}_dim_{k}" for k in range(array.ndim - len(first))]
        axes = [*first, *_distinct(inner, taken=set(arrays))]
        if len(axes) != array.ndim:
            raise ValueError(f"`{name}` must have the axes ({', '.join(axes)}), got shape {array.shape}")
        told = flags(texts[name], array.dtype) if texts and name in texts else {}
        variables[name] = (axes, array, told)
        for original, axis, size in zip([*first, *inner], axes, array.shape, strict=True):
            used[axis] = _labels(original, coords.get(original), size)
    return variables, {k: v for k, v in used.items() if k not in variables}


def _distinct(names: Sequence[str], taken: set[str]) -> list[str]:
    """Return names of axes of one array that differ from each other and from the variables.

    xarray requires this.
    """
    found: list[str] = []
    for name in names:
        base = f"{name}_dim" if name in taken else name
        count = sum(n == base or (n.startswith(f"{base}_") and n[len(base) + 1 :].isdigit()) for n in found)
        found.append(base if not count else f"{base}_{count + 1}")
    return found


def _labels(dim: str, given: Sequence[Label] | None, size: int) -> np.ndarray:
    if given is None:
        return np.arange(size)
    if len(given) != size:
        raise ValueError(f"the coords of `{dim}` must have {size} members, got {len(given)}")
    scalars = all(isinstance(v, (str, int, float, np.integer, np.floating)) for v in given)
    kinds = {isinstance(v, str) for v in given}
    return np.array([v if scalars and len(kinds) == 1 else _as_text(v) for v in given])


def _as_text(member: object) -> str:
    return ",".join(map(_as_text, member)) if isinstance(member, (tuple, list, np.ndarray)) else str(member)


def _plain(value: object) -> str | int | float:
    """Return an attribute in a type that netCDF supports."""
    if isinstance(value, (str, float)) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63):
        return value
    if isinstance(value, (np.integer, np.floating)):
        return value.item()
    return json.dumps(value, default=str, sort_keys=True)


def _flat(idata: DrawsLike) -> dict[str, Any]:
    """Return every array under `group/name`, and the metadata as JSON text; no pickled objects."""
    arrays: dict[str, np.ndarray] = {}
    metadata: JsonObject = {"attrs": dict(idata.attrs), "groups": {}}
    for name, group in groups_of(idata).items():
        metadata["groups"][name] = {"attrs": dict(group.attrs), "dims": {k: list(v.dims) for k, v in group.data_vars.items()}}
        arrays |= {f"{name}/{k}": v.values for k, v in group.data_vars.items()}
        arrays |= {f"{name}/coords/{k}": _npz_labels(v.values) for k, v in group.coords.items()}
    arrays["metadata"] = np.array(json.dumps(metadata, default=str))
    return arrays


def _npz_labels(values: np.ndarray) -> np.ndarray:
    return values if values.dtype.kind in "iufb" else values.astype(str)


def need_netcdf() -> None:
    """Raise E561 unless the packages for netCDF are installed.

    Raises:
        GmlmError: E561.
    """
    need("h5netcdf", "netCDF needs h5netcdf", '"gmlmdsl[netcdf]"', help="or write an .npz file")
    need("h5py", "netCDF needs h5py", '"gmlmdsl[netcdf]"', help="or write an .npz file")
