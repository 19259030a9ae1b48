"""Saved fits: what comes back, what the version before wrote, and everything that is no fit.

The files in `tests/saved` were written by the version before: `before_factor.fit` of a program of two files with an input that is an
array, missing cells and priors; `before_open.fit` without a finite estimate of some parameters; `before_network.fit` of a small network.
Those that begin with `release_` were written by released versions, under whose number they stand.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_cases import SAVED, WRITERS, before, content_of, now, npy, parts_of, with_manifest, zipped

import gmlmdsl as gm
from gmlmdsl._diagnostics import GmlmWarning

NAMES = ("factor", "open", "network")
FACTOR, OPEN, NETWORK = ((SAVED / f"before_{name}.fit").read_bytes() for name in NAMES)
FILES: dict[str, bytes] = {"factor": FACTOR, "open": OPEN, "network": NETWORK}


def load(data: bytes) -> Any:
    return gm.load_fit(io.BytesIO(data))


def refused(data: bytes, *words: str) -> None:
    with pytest.raises(gm.GmlmError) as caught:
        load(data)
    assert caught.value.codes == ("E520",)
    for word in words:
        assert word in str(caught.value)


def shown(fit: Any) -> str:
    return f"{fit!r}\n{fit.summary()}"


@pytest.mark.check
@pytest.mark.parametrize("name", NAMES)
def test_a_fit_of_the_version_before_loads_with_a_warning_and_is_then_saved_with_a_hash(name: str, tmp_path: Path):
    with pytest.warns(GmlmWarning, match="has no hash over everything"):
        fit: Any = gm.load_fit(SAVED / f"before_{name}.fit")
    fit.save(tmp_path / "a.fit")
    again: Any = gm.load_fit(tmp_path / "a.fit")  # any warning would be an error
    assert shown(again) == shown(fit)
    content = content_of(FILES[name])
    for key, array in content_of((tmp_path / "a.fit").read_bytes())[1].items():
        np.testing.assert_array_equal(array, content[1][key])
    assert {k: v for k, v in again.meta.items() if k != "inputs"} == {k: v for k, v in fit.meta.items() if k != "inputs"}
    assert {k: np.asarray(v).tolist() for k, v in again.meta["inputs"].items()} == {
        k.removeprefix("input:"): v.tolist() for k, v in content[1].items() if k.startswith("input:")
    }


@pytest.mark.check
def test_numbers_of_the_version_before():
    """Copied from what that version printed."""
    factor, open_ = load(FACTOR), load(OPEN)
    np.testing.assert_array_equal(factor.params["h"], np.array([0.15692324936389923, -0.05056242644786835, -0.2691415846347809], "f4"))
    assert factor.missing.words.startswith("2 missing cells in 2 rows: summed out in 2.")
    assert factor.standard_errors["s"] == pytest.approx(0.033381, abs=5e-7)
    assert factor.meta["inputs"]["field"].tolist() == [0.5, -1.0, 0.25]
    assert open_.status.code == "no-minimiser" and np.isinf(open_.standard_errors["h"][2]) and np.isinf(open_.standard_errors["a"])
    assert np.isfinite(open_.contrast({"a": 1, "b": 1}).std_error)
    assert load(NETWORK).loss_trace.mean() == pytest.approx(0.6916, abs=5e-5)


def test_fits_of_the_first_release_load_without_a_warning():
    """Numbers copied from what 0.1.0 printed; its program has a mask in the form that W831 warns of."""
    factor, network = (gm.load_fit(SAVED / f"release_0_1_0_{name}.fit") for name in ("factor", "network"))
    np.testing.assert_array_equal(factor.params["h"], np.array([-0.5080728, -0.89976794, -0.036200345], "f4"))
    assert factor.standard_errors["J"] == pytest.approx(0.378743, abs=5e-7)
    assert factor.missing.words.startswith("1 missing cell in 1 row: summed out in 1.")
    assert network.loss_trace.mean() == pytest.approx(0.8255, abs=5e-5)


def test_the_same_fit_gives_the_same_bytes(tmp_path: Path):
    first = now(*content_of(FACTOR))
    load(first).save(tmp_path / "a.fit")
    load(first).save(tmp_path / "b.fit")
    assert (tmp_path / "a.fit").read_bytes() == (tmp_path / "b.fit").read_bytes()


def test_any_byte_that_changes_is_noticed():
    """Of what a part holds; of the archive around it, or it changes nothing that is read: the time of a part, say."""
    data = now(*content_of(NETWORK))
    inside = np.zeros(len(data), bool)
    for part in parts_of(data).values():
        at = data.index(part)
        inside[at : at + len(part)] = True
    whole = shown(load(data))
    rng = np.random.default_rng(0)
    for k in [*rng.choice(np.flatnonzero(inside), 40), *rng.choice(np.flatnonzero(~inside), 40)]:
        broken = data[:k] + bytes([data[k] ^ 0x41]) + data[k + 1 :]
        if inside[k]:
            refused(broken)
        else:
            with contextlib.suppress(gm.GmlmError):
                assert shown(load(broken)) == whole


LACKING = [
    (name, entry)
    for name in ("factor", "network")
    for entry in content_of(FILES[name])[0]
    if entry not in ("missing", "batch_size", "kept")
]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(("name", "entry"), LACKING)
def test_an_entry_that_is_lacking_or_mistyped(name: str, entry: str, writer: str):
    meta, arrays = content_of(FILES[name])
    refused(WRITERS[writer]({k: v for k, v in meta.items() if k != entry}, arrays))
    for wrong in (None, {"a": 1}, [[1]], "no such word", -1):
        numbers = isinstance(wrong, int) and isinstance(meta[entry], float)
        if type(wrong) is not type(meta[entry]) and not numbers and entry not in ("n_masks", "method"):
            refused(WRITERS[writer](meta | {entry: wrong}, arrays))


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", NAMES)
def test_an_array_that_is_lacking_or_misshapen_or_of_another_kind(name: str, writer: str):
    meta, arrays = content_of(FILES[name])
    optional = ("determined:", "covariance", "one_mask_covariance", "open_directions", "missing")
    for key, array in arrays.items():
        rest = {k: v for k, v in arrays.items() if k != key}
        if not key.startswith(optional):
            refused(WRITERS[writer](meta, rest))
        for wrong in (
            array[None],
            np.zeros((*array.shape, 0), array.dtype),
            array.astype("U3"),
            array.astype(complex),
            np.array([{}], object),
        ):
            refused(WRITERS[writer](meta, rest | {key: wrong}))
        if array.ndim and array.shape[0] and key != "loss_trace" and not key.endswith("_trace") and key != "open_directions":
            refused(WRITERS[writer](meta, rest | {key: array[:-1]}))


def changed(name: str = "factor", /, meta: Any = None, **arrays: Any) -> tuple[Any, dict[str, Any]]:
    """The content of a file with entries and arrays changed; `h` stands for `param:h`."""
    before_meta, before_arrays = content_of(FILES[name])
    return before_meta | (meta or {}), before_arrays | {f"param:{k}": v for k, v in arrays.items()}


def program(old: str, new: str) -> dict[str, Any]:
    """The texts of the fixture with an edit, under a hash that agrees."""
    files = {k: v.replace(old, new) for k, v in content_of(FACTOR)[0]["program"].items()}
    return {"program": files, "sha256": hashlib.sha256("\0".join(f"{k}\0{v}" for k, v in files.items()).encode()).hexdigest()}


HOSTILE: dict[str, tuple[tuple[Any, dict[str, Any]], str]] = {
    "swapped parameters": (changed(h=np.zeros(2, "f4"), J=np.zeros(3, "f4")), "`param:h` has shape (2,), not (3,)"),
    "nan": (changed(h=np.array([0, np.nan, 0], "f4")), "`param:h` has entries that are not finite numbers"),
    "infinite": (changed(s=np.float32(np.inf)), "`param:s` has entries that are not finite numbers"),
    "below a bound": (changed(s=np.float32(-1)), "`param:s` has values that this parameter does not take"),
    "whole numbers": (changed(h=np.zeros(3, int)), "`param:h` holds int64"),
    "an array of another model": (changed(g=np.zeros(3, "f4")), "'param:g'"),
    "an edited program": (changed(meta={"program": program("normal(0, 2)", "normal(0, 3)")["program"]}), "its hash differs"),
    "a program that is none": (changed(meta=program("factor", "fctor")), "does not load any more"),
    "a model that there is not": (changed(meta={"model": "duo"}), "does not load any more"),
    "a mask that there is not": (changed(meta={"mask": "double"}), "under a mask of its program"),
    "a parameter held fixed that there is not": (changed(meta={"fixed": ["g"]}), "`g` fixed"),
    "a status that there is not": (changed(meta={"status": "fine"}), "`status`"),
    "an entry that no fit has": (changed(meta={"command": "rm"}), "'command'"),
    "findings of two words": (changed(meta={"findings": [["a", "b"]]}), "`findings`"),
    "missing cells without their counts": (changed(meta={"missing": {"rows": 2}}), "`missing`"),
    "a network": (changed(meta={"kind": "network", "cells": 1, "widths": [], "reason": "steps"}), "is none of a fit's"),
    "nan in a network": (changed("network", **{".bias": np.full(4, np.nan, "f4")}), "`param:.bias` has a nan"),
    "a network as an estimate": (changed("network", meta={"kind": "estimate"}), "`kind`"),
    "labels that are lists": (changed(meta={"coords": {"i": [[1]]}}), "`coords`"),
    "a path with a zero byte": (changed(meta={"program": {"a.gmlm": 'import "b"', "b\0": ""}}), "its hash differs"),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_fit_of_its_model(case: str, writer: str):
    content, words = HOSTILE[case]
    refused(WRITERS[writer](*content), words)


def test_nan_where_a_fit_has_diverged_is_what_it_says(tmp_path: Path):
    fit = load(now(*changed(meta={"status": "diverged"}, h=np.full(3, np.nan, "f4"))))
    assert fit.status.code == "diverged" and np.isnan(fit.params["h"]).all()


@pytest.mark.parametrize(
    "files", [{"a/b.gmlm": "", "a": ""}, {"m.gmlm": "", "x" * 300: ""}, {"m.gmlm": "", "a\0b": ""}, {"m.gmlm": "", "n.gmlm": "\ud800"}]
)
def test_programs_that_no_folder_can_hold(files: dict[str, str]):
    from gmlmdsl.graph import hash_of_texts

    meta, arrays = content_of(FACTOR)
    refused(now(meta | {"program": files, "sha256": hash_of_texts(files)}, arrays))


def test_bytes_that_belong_to_no_part():
    data = now(*content_of(FACTOR))
    refused(data + b"\0", "it holds bytes that belong to no part")
    for whole in (data, FACTOR):
        refused(whole + b"\0")
        refused(b"#!/bin/sh\n" + whole)
        refused(whole[:-1])


def test_a_part_that_was_changed_under_the_old_hashes():
    parts = parts_of(now(*content_of(FACTOR)))
    refused(zipped(parts | {"param:J.npy": npy(np.array([1, 2], "f4"))}), "param:J.npy is not what was written: its hash differs")
    text = parts["manifest.json"].replace(b'"objective": 84.3', b'"objective": 84.1')
    assert text != parts["manifest.json"]
    refused(zipped(parts | {"manifest.json": text}), "manifest.json is not what was written: its hash differs")
    refused(zipped(parts | {"manifest.json": parts["manifest.json"] + b"\n"}), "manifest.json is not what was written")


def test_two_parameters_of_one_shape_that_were_swapped():
    """Nothing but the hash can tell."""
    parts = parts_of(now(*content_of(OPEN)))
    swapped = parts | {"param:a.npy": npy(np.float32(1.5)), "param:b.npy": parts["param:a.npy"]}
    refused(zipped(swapped), "its hash differs")


LOADING = """
import resource, sys, warnings, gmlmdsl as gm
warnings.simplefilter("ignore")
gm.load_fit(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[2:]:
    try:
        gm.load_fit(path)
    except gm.GmlmError as error:
        print(error.codes[0])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
def test_a_small_file_does_not_become_a_large_one(tmp_path: Path):
    """320 MiB of zeros, deflated to 320 kB: an array that no fit has, and those that each has."""
    parts, header = parts_of(before(*content_of(FACTOR))), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (40 << 20,)})
    paths = []
    for name in ("more.npy", "covariance.npy", "input:field.npy", "meta.npy"):
        paths.append(tmp_path / f"{len(paths)}.fit")
        with zipfile.ZipFile(paths[-1], "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for key in {**parts, name: b""}:
                with archive.open(key, "w") as member:
                    for block in (parts[key],) if key != name else (header.getvalue(), *[b"\0" * (1 << 24)] * 20):
                        member.write(block)
        assert paths[-1].stat().st_size < 3e6
    command = [sys.executable, "-c", LOADING, SAVED / "before_factor.fit", *paths]
    *codes, mib = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert codes == ["E520"] * len(paths) and int(mib) < 100


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_parts_that_are_compressed(compression: int):
    refused(zipped(parts_of(now(*content_of(FACTOR))), compression), "compressed")


def test_fits_of_other_versions():
    meta, arrays = content_of(FACTOR)
    parts = {f"{k}.npy": npy(v) for k, v in arrays.items()}
    refused(zipped(with_manifest(parts, format=3, kind="gmlm fit", meta=meta)), "format 3, and this version reads 2")
    refused(before(meta, arrays).replace(b"meta.npy", b"meta.nop"))
    refused(zipped(with_manifest(parts, format=2, kind="gmlm translator", meta=meta)), "not that of a saved fit")
    refused(zipped(with_manifest(parts, format=2, kind="gmlm fit", meta=meta, sha256="0" * 64)), "its hash differs")


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path):
    fit = load(FACTOR)
    fit.meta["note"] = "mine"
    with pytest.raises(gm.GmlmError, match="'note' is none of a fit's"):
        fit.save(tmp_path / "a.fit")
    assert not list(tmp_path.iterdir())


def test_a_fit_comes_through_a_pipe():
    reading, writing = os.pipe()
    os.write(writing, now(*content_of(NETWORK)))
    os.close(writing)
    with open(reading, "rb") as file:
        assert gm.load_fit(file).meta["model"] == "pixels"


@pytest.mark.parametrize("name", ["params", "mask", "bootstrap", "anything"])
def test_a_fit_is_not_changed_in_place(name: str):
    fit = gm.load_fit(Path(__file__).parents[1] / "saved" / "before_factor.fit")
    with pytest.raises(AttributeError):
        setattr(fit, name, None)
