"""Weights of a bundle that are none: nothing runs, nothing is written, and the error says what it is."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_cases import PROGRAM, SIZE, bytes_of, content, fit_of, members_of, refused, rehashed, toy_vocabulary, zipped
from saved_cases import before, now, parts_of, with_manifest

from gmlmdsl.graph import hash_of_texts
from gmlmdsl.train._network_fit import NetworkFit
from gmlmdsl.translation import Bundle


@pytest.fixture(scope="module")
def fit() -> NetworkFit:
    return fit_of()


@pytest.fixture(scope="module")
def written(fit: NetworkFit, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return bytes_of(Bundle.of(fit, toy_vocabulary(), "en-de", "decode", {"bleu": 12.5}), tmp_path_factory.mktemp("bundle"))


def with_meta(fit: NetworkFit, **entries: Any) -> bytes:
    meta, arrays = content(fit)
    meta |= entries
    if isinstance(meta["program"], dict):
        meta["sha256"] = hash_of_texts(meta["program"])
    return now({k: v for k, v in meta.items() if v is not None}, arrays)


def with_arrays(fit: NetworkFit, change: Callable[[str, Any], Any]) -> bytes:
    """A fit whose arrays are what a function makes of them; None: left out."""
    meta, arrays = content(fit)
    changed = {k: change(k, v) for k, v in arrays.items()}
    return now(meta, {k: v for k, v in changed.items() if v is not None})


class Evil:
    """Unpickled, it would write a file."""

    def __reduce__(self):
        return Path.touch, (Path("evil-was-here"),)


def boasting(fit: NetworkFit) -> bytes:
    """An array whose header declares far more than there is."""
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(data, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)})
    parts = parts_of(fit.to_bytes())
    return zipped(rehashed({**parts, "loss_trace.npy": data.getvalue()}))


def compressed(fit: NetworkFit) -> bytes:
    return zipped(parts_of(before(*content(fit, more=np.zeros(10_000_000)))), compression=zipfile.ZIP_DEFLATED)


HOSTILE_FITS: dict[str, Callable[[NetworkFit], bytes]] = {
    "nothing": lambda fit: b"",
    "no archive": lambda fit: b"weights",
    "an empty archive": lambda fit: zipped({}),
    "cut off": lambda fit: fit.to_bytes()[:-100],
    "a pickle": lambda fit: now(*content(fit, loss_trace=np.array([Evil()], object))),
    "a pickle of the format before": lambda fit: before(*content(fit, loss_trace=np.array([Evil()], object))),
    "a bare pickle": lambda fit: b"cos\nsystem\n(S'touch evil-was-here'\ntR.",
    "a header that boasts": boasting,
    "compressed": compressed,
    "no meta": lambda fit: zipped(with_manifest({}, format=2, kind="gmlm fit")),
    "meta that is not JSON": lambda fit: zipped(parts_of(fit.to_bytes()) | {"manifest.json": b"{"}),
    "meta that is deep": lambda fit: zipped(parts_of(fit.to_bytes()) | {"manifest.json": b"[" * 100_000}),
    "meta that is a list": lambda fit: now([], content(fit)[1]),
    "another format": lambda fit: zipped(rehashed(parts_of(fit.to_bytes()), format=99)),
    "no program": lambda fit: with_meta(fit, program=None, sha256="0"),
    "a program that is a list": lambda fit: with_meta(fit, program=["a"]),
    "no program's text": lambda fit: with_meta(fit, program={}),
    "a faulty program": lambda fit: with_meta(fit, program={"a.gmlm": "model {"}),
    "a model that is none": lambda fit: with_meta(fit, model="other"),
    "another kind": lambda fit: with_meta(fit, kind="estimate"),
    "no reason": lambda fit: with_meta(fit, reason=None),
    "another program": lambda fit: fit_of(PROGRAM.replace("padir(steps = 2)", "padir(steps = 3)")).to_bytes(),
    "a file outside its folder": lambda fit: with_meta(fit, program={"a.gmlm": PROGRAM, "../../evil-was-here": "model m { var a : bit }"}),
    "weights that are lacking": lambda fit: with_arrays(fit, lambda k, v: None if "embed" in k else v),
    "weights of another shape": lambda fit: with_arrays(fit, lambda k, v: v[:1] if k.startswith("param:") and v.ndim else v),
    "other sizes": lambda fit: now(*content(fit, **{"input:V": np.array(SIZE + 1)})),
    "no inputs": lambda fit: with_arrays(fit, lambda k, v: None if k.startswith("input:") else v),
    "inputs that are text": lambda fit: now(*content(fit, **{"input:V": np.array("V")})),
}


@pytest.mark.parametrize("name", HOSTILE_FITS)
def test_weights_that_are_none(name: str, written: bytes, fit: NetworkFit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Under hashes that agree with them: nothing runs, nothing is written, and the error says what it is."""
    monkeypatch.chdir(tmp_path)
    members = {**members_of(written), "student.fit": HOSTILE_FITS[name](fit)}
    refused(tmp_path / "a.bundle", zipped(rehashed(members)), "bundle", load=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.bundle"]


def test_a_class_of_python_needs_leave(written: bytes, tmp_path: Path):
    text = PROGRAM.replace("encoder_decoder(layers = 1, heads = 2, width = 16, ffn = 16)", 'python("evil_module:Evil")')
    meta = {"program": {"a.gmlm": text}}
    members = {**members_of(written), "student.fit": with_meta(fit_of(), **meta), "program.gmlm": text.encode()}
    refused(tmp_path / "a.bundle", zipped(rehashed(members)), code="E739", load=True)
