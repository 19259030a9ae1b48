"""A small translator as a bundle, taken apart and put together again as anyone can, and what a bundle that is none must say."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_cases import content_of, with_manifest

import gmlmdsl as gm
from gmlmdsl.train._network_fit import NetworkFit
from gmlmdsl.translation import Bundle, read_bundle, write_bundle

PROGRAM = """\
input V : int
index s = range(6)
network net = encoder_decoder(layers = 1, heads = 2, width = 16, ffn = 16)
model translate {
  given src[i in s] : range(V)
  var tgt[i in s] : range(V)
  conditional tgt ~ net(src)
}
mask corrupt = everything(tgt, noise = {keep: 0.15, uniform: 0.85})
sampler decode = padir(steps = 2)
"""
TEXT = ["the cat sat on the mat", "die Katze saß auf der Matte", "a dog ran", "ein Hund lief"]
SIZE = 28
Members = dict[str, bytes]


def fit_of(text: str = PROGRAM, **inputs: Any) -> NetworkFit:
    """A network with random weights, as if it had been trained for no step."""
    program = gm.parse(text, **(inputs or {"V": SIZE}))
    model = program.model()
    meta = program.provenance() | {"model": model.name, "seed": 0, "mask": "corrupt", "rows": 1, "seconds": 0.0, "cells": 1, "widths": []}
    return NetworkFit(model.init_params(3), np.zeros(1), np.zeros(1), np.zeros((0, 3)), "steps", meta, model.graph, lambda: model)


def toy_vocabulary() -> gm.Vocabulary:
    return gm.Vocabulary.train(TEXT, SIZE)


def bytes_of(bundle: Bundle, folder: Path) -> bytes:
    """What is written of a bundle."""
    write_bundle(folder / "a.bundle", bundle)
    return (folder / "a.bundle").read_bytes()


def members_of(data: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {i.filename: archive.read(i) for i in archive.infolist()}


def rehashed(members: Members, /, **entries: Any) -> Members:
    """The members under a manifest that agrees with them, as anyone can write it."""
    manifest = json.loads(members["manifest.json"])
    return with_manifest(
        {k: v for k, v in members.items() if k != "manifest.json"}, **manifest | {"members": None, "sha256": None} | entries
    )


def zipped(members: Members, change: Callable[[zipfile.ZipInfo], None] | None = None, which: str = "program.gmlm", **options: Any) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", options.pop("compression", zipfile.ZIP_STORED)) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = archive.compression
            if change is not None and name == which:
                change(info)
            archive.writestr(info, data)
        archive.comment = options.pop("comment", b"")
    return buffer.getvalue()


def refused(path: Path, data: bytes, *parts: str, code: str = "E575", load: bool = False) -> None:
    path.write_bytes(data)
    with pytest.raises(gm.GmlmError) as caught:
        read_bundle(path).load_fit() if load else read_bundle(path)
    assert caught.value.codes == (code,)
    for part in parts:
        assert part in str(caught.value)


def content(fit: NetworkFit, **more: Any) -> tuple[Any, dict[str, Any]]:
    meta, arrays = content_of(fit.to_bytes())
    return meta, arrays | more
