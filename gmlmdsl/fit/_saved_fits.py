"""Saved fits as files of arrays and text, so that reading runs no code.

Every array is verified against the model of the fit. A fit is an archive as in `_archive.py`: its
manifest contains the program's text and the other data of the fit (`meta`), and its parts are
arrays. The previous format was an .npz file without a hash over everything; it is read with a
warning.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np

from .._diagnostics import GmlmError, GmlmWarning, tell
from .._types import JsonObject
from ..evaluate import SIMPLEX_ERROR
from ..files import MANIFEST, TAIL, ArchiveKind, kinds_of_damage, pack, unpack, verify_count
from ..files.limits import LONGEST_SHOWN as LONGEST
from ..files.limits import MOST_ARCHIVE_BYTES as MOST
from ..graph import FactorGraph, hash_of_texts
from ..read import PlainHeader, entries_behind, plain_header
from .limits import LONGEST_PART, LONGEST_SHOWN, MOST_INPUT_BYTES, MOST_META_BYTES

Array = np.ndarray
ENDING = ".npy"  # the ending of a part, which is the .npy file of an array
BEFORE = 1  # the number of the format without a hash over everything, whose parts may be compressed
INPUT = "input:"  # prefix of the name of an input
CODES = ("converged", "no-minimiser", "undetermined", "agrees", "not-converged", "diverged")
REASONS = ("steps", "patience", "callback", "diverged")
Check = Callable[[object], bool]


def _limit(name: str) -> int | None:
    if name == MANIFEST:
        return MOST_META_BYTES
    return MOST if name.endswith(ENDING) and name.isprintable() and len(name) <= LONGEST_PART else None


FIT = ArchiveKind(
    name="gmlm fit",
    format=2,
    before=(),
    limit=_limit,
    needed=(),
    entries=("meta",),
    code="E520",
    what="saved fit",
    help="take a whole copy of the file that `save` wrote, or fit again",
)


def fit_bytes(meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Return the bytes of the file of a fit; the same fit gives the same bytes.

    Raises:
        GmlmError: E520 for content that could not be read again.
    """
    _verify_meta(dict(meta), "the fit")
    parts = {}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.asarray(array), version=(1, 0), allow_pickle=False)
        parts[name + ENDING] = buffer.getvalue()
    return pack(FIT, {"meta": dict(meta)}, parts)


def warn_of_size(size: int) -> None:
    """Warn, before a training starts, that parameters of so many bytes do not fit into a file.

    Warns:
        GmlmWarning: with the figure.
    """
    if size > MOST:
        message = f"the parameters take {size:,} bytes, more than the {MOST:,} of a file: this fit cannot be saved, but by its arrays"
        tell(message, GmlmWarning)


@dataclass
class SavedFit:
    """The content of the file of a fit.

    Before an array is accessed, only its header is read.

    Attributes:
        path: the name of the file in messages.
        meta: the text and numbers of the fit.
        headers: the headers of the arrays by name.
        most_inputs: the maximum number of bytes of all inputs together.
    """

    path: object
    meta: JsonObject
    headers: dict[str, PlainHeader]
    most_inputs: int
    _open: Callable[[str], IO[bytes]] = field(repr=False)
    _sizes: dict[str, int] = field(repr=False)

    def array(self, name: str, shape: tuple[int | None, ...], kinds: str) -> Array:
        """Return an array.

        Args:
            name: the name of the array.
            shape: the required shape; None stands for any length.
            kinds: NumPy's letters of the allowed kinds of data.

        Raises:
            GmlmError: E520 if the array has another shape or kind, or is missing or damaged.
        """
        header = self.headers.get(name)
        if header is None:
            raise FIT.bad(self.path, f"`{name}` is lacking")
        if len(header.shape) != len(shape) or any(n not in (None, m) for n, m in zip(shape, header.shape, strict=True)):
            wanted = str(tuple("any" if n is None else n for n in shape)).replace("'", "")
            raise FIT.bad(self.path, f"`{name}` has shape {header.shape}, not {wanted}")
        if header.dtype.kind not in kinds:
            raise FIT.bad(self.path, f"`{name}` holds {header.dtype}, which no fit has there")
        with damage(self.path), self._open(name) as file:
            return entries_behind(file, plain_header(file, self._sizes[name]))

    def inputs(self, known: Collection[str]) -> dict[str, Array]:
        """Return the inputs of the program.

        Args:
            known: the names of the program's inputs.

        Raises:
            GmlmError: E520 for any other input.
        """
        names = [name.removeprefix(INPUT) for name in self.headers if name.startswith(INPUT)]
        if strange := [name for name in names if name not in known]:
            raise FIT.bad(self.path, f"its program has no input {strange[0][:LONGEST]!r}")
        if sum(self.headers[INPUT + name].size for name in names) > self.most_inputs:
            raise FIT.bad(self.path, f"its inputs have more than the limit of {self.most_inputs:,} bytes")
        return {name: self.array(INPUT + name, (None,) * len(self.headers[INPUT + name].shape), "biufU") for name in names}

    def verify_names(self, needed: Collection[str], optional: Collection[str] = ()) -> None:
        """Raise E520 for missing arrays, and for arrays that a fit of this model does not have.

        Raises:
            GmlmError: E520.
        """
        here = [name for name in self.headers if not name.startswith(INPUT)]
        if lacking := [name for name in needed if name not in here]:
            raise FIT.bad(self.path, f"`{lacking[0]}` is lacking")
        if strange := [name for name in here if name not in {*needed, *optional}]:
            raise FIT.bad(self.path, f"it holds {strange[0][:LONGEST]!r}, which no fit of model `{self.meta['model']}` has")


def read_fit(file: IO[bytes], path: object) -> SavedFit:
    """Return the content of the file of a fit.

    Everything that does not need the model is verified, and sizes are verified before anything is
    read.

    Args:
        file: the file, opened to read bytes, at any position.
        path: the name of the file in messages.

    Raises:
        GmlmError: E520 for a file that is not a fit, or is damaged.

    Warns:
        GmlmWarning: for a fit in the previous format.
    """
    with damage(path):
        verify_count(FIT, file, path)
        names = set(zipfile.ZipFile(file).namelist())
    found = _read_before(file, path) if MANIFEST not in names and f"meta{ENDING}" in names else _read(file, path)
    _verify_meta(found.meta, path)
    if found.meta["sha256"] != hash_of_texts(found.meta["program"]):
        raise FIT.bad(path, "its program is not the one that was fitted: its hash differs")
    return found


def _read(file: IO[bytes], path: object) -> SavedFit:
    entries, parts = unpack(FIT, file, path)
    content = {name.removesuffix(ENDING): data for name, data in parts.items()}
    with damage(path):
        headers = {name: plain_header(io.BytesIO(data), len(data)) for name, data in content.items()}
    sizes = {name: len(data) for name, data in content.items()}
    return SavedFit(path, entries["meta"], headers, MOST, lambda name: io.BytesIO(content[name]), sizes)


def _read_before(file: IO[bytes], path: object) -> SavedFit:
    """Return a fit in the previous format, an .npz file with `meta` as one of its arrays."""
    with damage(path):
        archive = zipfile.ZipFile(file)
        file.seek(-TAIL, os.SEEK_END)
        if file.read(4) != b"PK\5\6" or min((i.header_offset for i in archive.infolist()), default=0):
            raise ValueError("it holds bytes that belong to no part")
        infos = {info.filename.removesuffix(ENDING): info for info in archive.infolist()}
        if len(infos) < len(archive.infolist()):
            raise ValueError("an array stands in it twice")
        if any(i.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for i in infos.values()):
            raise ValueError("it is compressed as no fit is")
        headers = {}
        for name, info in infos.items():
            with archive.open(info) as member:
                headers[name] = plain_header(member, info.file_size)
        if headers["meta"].size > MOST_META_BYTES:
            raise ValueError(f"what it says of the fit has {headers['meta'].size:,} bytes, more than the limit of {MOST_META_BYTES:,}")
        sizes = {name: info.file_size for name, info in infos.items()}
        found = SavedFit(path, {"model": ""}, headers, MOST_INPUT_BYTES, lambda name: archive.open(infos[name]), sizes)
        meta = json.loads(found.array("meta", (None,), "u").tobytes().decode())
        if not isinstance(meta, dict) or meta.pop("format", None) != BEFORE:
            raise ValueError(f"it is of another format than {BEFORE} and {FIT.format}, which this version reads")
    del headers["meta"]
    message = f"{path} was written by an earlier version and has no hash over everything: a change of its numbers would not be noticed"
    tell(f"{message}; `gm.load_fit(..).save(..)` writes it anew", GmlmWarning)
    found.meta = meta
    return found


@contextmanager
def damage(path: object) -> Iterator[None]:
    """Raise E520 in place of errors from a file that is not a fit, or is damaged.

    Raises:
        GmlmError: E520.
    """
    try:
        yield
    except GmlmError:
        raise
    except kinds_of_damage() as error:
        raise FIT.bad(path, f"it is none, or is damaged: {str(error)[:LONGEST] or type(error).__name__}") from None


def _verify_meta(meta: object, path: object) -> None:
    if fault := fault_of_meta(meta):
        raise FIT.bad(path, fault)


def verify_numbers(path: object, name: str, array: Array) -> None:
    """Raise E520 if numbers contain nan.

    Raises:
        GmlmError: E520.
    """
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise FIT.bad(path, f"`{name}` has a nan")


def outside(graph: FactorGraph, params: Mapping[str, Array], meta: Mapping[str, Any]) -> str | None:
    """Return a description of content that no fit of the model has, or None.

    Such content is a held parameter that the model does not have, nan unless the fit diverged, or a
    value outside of its range.
    """
    if strange := [name for name in meta["fixed"] if name not in params]:
        return f"it holds a parameter `{strange[0]}` fixed, which its model has not"
    entries = {p.name: p.size for p in graph.parameters if p.kind == "real" and not p.gauge}
    if any(name not in entries or max(still, default=0) >= entries[name] for name, still in meta.get("selected", {}).items()):
        return "it holds entries of a parameter that no laplace prior could have held"
    if meta["status"] == "diverged":
        return None
    for p in graph.parameters:
        value = params[p.name]
        if not np.isfinite(value).all():
            return f"`param:{p.name}` has entries that are not finite numbers"
        if p.kind == "simplex":
            inside = (value >= 0).all() and np.abs(value.sum(-1, dtype=float) - 1).max(initial=0) <= SIMPLEX_ERROR
        else:
            bounds = np.array([p.lower, p.upper]).astype(value.dtype)  # rounded like the estimate
            inside = ((value >= bounds[0]) & (value <= bounds[1])).all()
        if not inside:
            return f"`param:{p.name}` has values that this parameter does not take"
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _one_of(*known: str) -> Check:
    return lambda value: value in known if isinstance(value, str) else False


def _list_of(check: Check, size: int | None = None) -> Check:
    return lambda value: isinstance(value, list) and size in (None, len(value)) and all(map(check, value))


def _dict_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _has(entries: Mapping[str, Check]) -> Check:
    return lambda value: isinstance(value, dict) and set(value) == set(entries) and all(check(value[k]) for k, check in entries.items())


MISSING = {
    **dict.fromkeys(("rows", "summed", "imputed", "unseen", "imputations", "iterations"), _is_whole),
    **dict.fromkeys(("noise", "drift"), _is_number),
    "latents": _list_of(_is_text),
}
SIMULATED = {"words": _is_text, "draws": _is_whole, "effective": _is_number}
STARTS = {"objectives": _list_of(_is_number), **dict.fromkeys(("agree", "switched", "failed"), _is_whole)}
HOW = {"seed": _is_whole, "sampler": _or_none(_is_text), "warmup": _is_whole, "thin": _or_none(_is_whole)}
# The entries of every fit, of a fit of a factor model, and of a trained network. The entries in
# `MORE` are optional.
META = {
    "program": lambda value: _dict_of(_is_text)(value) and bool(value),
    "sha256": _is_text,
    "coords": _dict_of(_list_of(lambda value: _is_text(value) or isinstance(value, int))),
    "versions": _dict_of(_is_text),
    "model": _is_text,
    "seed": _is_whole,
    "mask": _is_text,
    "rows": _is_whole,
    "seconds": _is_number,
}
ESTIMATE_META = META | {
    "mask_use": _is_text,
    "n_masks": _or_none(_is_whole),
    "weights_are": _one_of("importances", "counts"),
    "effective_rows": _is_number,
    "fixed": _list_of(_is_text),
    "convex": _is_flag,
    "method": _or_none(_is_text),
    "reached": _is_number,
    "mean_block_size": _is_number,
    "objective": _is_number,
    "status": _one_of(*CODES),
    "findings": _list_of(_list_of(_is_text, 3)),
}
NETWORK_META = META | {"kind": _one_of("network"), "cells": _is_number, "widths": _list_of(_is_whole), "reason": _one_of(*REASONS)}
MORE = {
    "missing": _has(MISSING),
    # files of an earlier version have no `how`
    "simulated": lambda value: _has(SIMULATED)(value) or _has(SIMULATED | {"how": _has(HOW)})(value),
    "selected": _dict_of(_list_of(_is_whole)),
    "batch_size": _is_whole,
    "kept": _is_whole,
    "loss": _one_of("squared"),  # for a network; without the entry, the loss is the cross-entropy
    "gaps": _one_of("ignore"),
    "starts": _has(STARTS),
    "level": lambda value: _is_number(value) and 0 < value < 1,
}


def fault_of_meta(meta: object) -> str | None:
    """Return a description of a fault in `meta`, or None if there is none.

    A fault is a missing entry, an entry that no fit has, or an entry of another type.
    """
    if not isinstance(meta, dict):
        return "what it says of the fit is not a JSON object"
    needed = NETWORK_META if "kind" in meta else ESTIMATE_META
    if lacking := [name for name in needed if name not in meta]:
        return f"its entry `{lacking[0]}` is lacking"
    checks = needed | MORE
    if strange := [name for name in meta if name not in checks]:
        return f"its entry {strange[0][:LONGEST_SHOWN]!r} is none of a fit's"
    wrong = [name for name, check in checks.items() if name in meta and not check(meta[name])]
    return f"its entry `{wrong[0]}` is {str(meta[wrong[0]])[:LONGEST_SHOWN]!r}, which no fit has there" if wrong else None
