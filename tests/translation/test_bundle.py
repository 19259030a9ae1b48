"""Bundles: a translator as one file, and everything that is no bundle."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from bundle_cases import PROGRAM, SIZE, bytes_of, content, fit_of, members_of, refused, rehashed, toy_vocabulary, zipped
from saved_cases import before

import gmlmdsl as gm
from gmlmdsl.train._network_fit import NetworkFit
from gmlmdsl.translation import Bundle, read_bundle, write_bundle
from gmlmdsl.translation import _bundle as bundles


@pytest.fixture(scope="module")
def fit() -> NetworkFit:
    return fit_of()


@pytest.fixture(scope="module")
def words() -> gm.Vocabulary:
    return toy_vocabulary()


@pytest.fixture(scope="module")
def bundle(fit: NetworkFit, words: gm.Vocabulary) -> Bundle:
    return Bundle.of(fit, words, "en-de", "decode", {"bleu": 12.5, "note": "ß"})


@pytest.fixture(scope="module")
def written(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return bytes_of(bundle, tmp_path_factory.mktemp("bundle"))


@pytest.mark.check
def test_a_bundle_comes_back(bundle: Bundle, written: bytes, fit: NetworkFit, words: gm.Vocabulary, tmp_path: Path):
    (tmp_path / "a.bundle").write_bytes(written)
    found = read_bundle(tmp_path / "a.bundle")
    assert found == bundle and found.report == {"bleu": 12.5, "note": "ß"} and found.direction == "en-de" and found.sampler == "decode"
    assert found.program == PROGRAM and found.versions["gmlmdsl"] == gm.__version__
    assert found.load_vocabulary() == words
    back = found.load_fit()
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), back.params, fit.params))
    assert back.model.name == "translate" and back.meta["inputs"]["V"] == SIZE


def test_the_same_bundle_gives_the_same_bytes_and_a_plain_archive(bundle: Bundle, written: bytes, tmp_path: Path):
    write_bundle(tmp_path / "b.bundle", bundle)
    assert (tmp_path / "b.bundle").read_bytes() == written
    members = members_of(written)
    assert list(members) == ["manifest.json", "program.gmlm", "student.fit", "vocabulary.model", "report.json"]
    assert members["program.gmlm"].decode() == PROGRAM
    assert zipped(members) == written == zipped(rehashed(members) | {"manifest.json": members["manifest.json"]})


def test_a_report_is_optional(fit: NetworkFit, words: gm.Vocabulary, tmp_path: Path):
    write_bundle(tmp_path / "a.bundle", Bundle.of(fit, words))
    found = read_bundle(tmp_path / "a.bundle")
    assert found.report is None and found.sampler is None and found.direction == ""


def test_a_fit_is_read_from_an_open_file(fit: NetworkFit):
    back = gm.load_fit(io.BytesIO(fit.to_bytes()))
    assert isinstance(back, NetworkFit) and back.meta["inputs"]["V"] == SIZE
    with pytest.raises(gm.GmlmError, match="E520"):
        gm.load_fit(io.BytesIO(b"no fit"))


def test_writing_is_whole_or_not(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.bundle"
    path.write_bytes(b"before")
    monkeypatch.setattr("os.replace", lambda a, b: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(gm.GmlmError, match="No space left"):
        write_bundle(path, bundle)
    assert path.read_bytes() == b"before" and [p.name for p in tmp_path.iterdir()] == ["a.bundle"]


def test_what_could_not_be_read_is_not_written(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from dataclasses import replace

    for wrong in ({"direction": "x" * 200}, {"direction": "a\x1b[31m"}, {"sampler": "a\nb"}):
        with pytest.raises(gm.GmlmError, match="E575"):
            write_bundle(tmp_path / "a.bundle", replace(bundle, **wrong))
    monkeypatch.setitem(bundles.MOST, "student.fit", 10)
    with pytest.raises(gm.GmlmError, match="more than the limit of 10"):
        write_bundle(tmp_path / "a.bundle", bundle)
    assert not list(tmp_path.iterdir())


def test_files_that_are_none(tmp_path: Path):
    for path in (tmp_path / "none.bundle", tmp_path):
        with pytest.raises(gm.GmlmError, match="E120"):
            read_bundle(path)


@pytest.mark.parametrize(
    "data", [b"", b"P", b"PK\x03\x04", b"PK\x05\x06" + b"\0" * 18, b"no archive", b"\x1f\x8b" + b"\0" * 50, b"\0" * 4096]
)
def test_bytes_that_are_no_archive(data: bytes, tmp_path: Path):
    refused(tmp_path / "a.bundle", data)


@pytest.mark.parametrize("part", [0.01, 0.3, 0.6, 0.9, 0.99, 0.9999])
def test_half_a_download(part: float, written: bytes, tmp_path: Path):
    refused(tmp_path / "a.bundle", written[: int(part * len(written))])


def test_any_byte_that_changes_is_noticed(written: bytes, tmp_path: Path):
    """Or changes nothing that is read: the time of a member, say."""
    whole, path = read_of(written, tmp_path), tmp_path / "a.bundle"
    noticed = 0
    for k in (
        np.random.default_rng(0).integers(0, len(written), 150).tolist() + list(range(0, 60)) + list(range(len(written) - 60, len(written)))
    ):
        path.write_bytes(written[:k] + bytes([written[k] ^ 0x41]) + written[k + 1 :])
        try:
            found = read_bundle(path)
        except gm.GmlmError:
            noticed += 1
        else:
            assert found == whole
    assert noticed > 200


def read_of(data: bytes, folder: Path) -> Bundle:
    (folder / "whole.bundle").write_bytes(data)
    return read_bundle(folder / "whole.bundle")


@pytest.mark.parametrize("name", ["manifest.json", "program.gmlm", "student.fit", "vocabulary.model"])
def test_a_part_that_is_lacking(name: str, written: bytes, tmp_path: Path):
    members = members_of(written)
    members = rehashed(members) if name == "manifest.json" else rehashed({k: v for k, v in members.items() if k != name})
    refused(tmp_path / "a.bundle", zipped({k: v for k, v in members.items() if k != name}), f"lacks {name}")


@pytest.mark.parametrize(
    "name",
    ["evil.py", "../evil", "/etc/passwd", "sub/program.gmlm", "program.gmlm/", "PROGRAM.GMLM", "./program.gmlm", "c:\\x", "__init__.py", "a" * 5000,
     "student.fit\0.txt", " program.gmlm", "sub/"],
)  # fmt: skip
def test_parts_that_no_bundle_has(name: str, written: bytes, tmp_path: Path):
    safe = name.replace("\0", "#")  # the library cuts names at a zero byte: it is put in afterwards
    data = zipped({**members_of(written), safe: b"print('hello')"})
    refused(tmp_path / "a.bundle", data.replace(safe.encode(), name.encode()), "not a part of a bundle")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.bundle"]


def test_a_part_twice(written: bytes, tmp_path: Path):
    buffer = io.BytesIO(written)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("program.gmlm", "model m { var a : bit }")
    refused(tmp_path / "a.bundle", buffer.getvalue(), "program.gmlm twice")


def symlink(info: zipfile.ZipInfo) -> None:
    info.external_attr = 0o120777 << 16


def device(info: zipfile.ZipInfo) -> None:
    info.external_attr = 0o020666 << 16


def folder(info: zipfile.ZipInfo) -> None:
    info.external_attr = 0x10


def extra(info: zipfile.ZipInfo) -> None:
    info.extra = struct.pack("<HH4s", 0x7075, 4, b"evil")


def comment(info: zipfile.ZipInfo) -> None:
    info.comment = b"evil"


@pytest.mark.parametrize(
    ("change", "what"), [(symlink, "plain"), (device, "plain"), (folder, "plain"), (extra, "fields"), (comment, "fields")]
)
@pytest.mark.parametrize("which", ["manifest.json", "student.fit"])
def test_parts_that_are_no_plain_files(change: Any, what: str, which: str, written: bytes, tmp_path: Path):
    refused(tmp_path / "a.bundle", zipped(members_of(written), change, which), what)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_parts(method: int, written: bytes, tmp_path: Path):
    refused(tmp_path / "a.bundle", zipped(members_of(written), compression=method), "compressed")
    bomb = {**members_of(written), "report.json": b" " * 30_000_000}
    refused(tmp_path / "a.bundle", zipped(rehashed(bomb), compression=method), "compressed")


def directory(data: bytes) -> int:
    """Where the directory begins; the weights are an archive too, with one of their own."""
    return struct.unpack("<I", data[-6:-2])[0]


def flags(data: bytes, bit: int) -> bytes:
    """Archive whose first member carries a flag, in both of its headers."""
    for at in (6, directory(data) + 8):
        data = data[:at] + bytes([data[at] | bit]) + data[at + 1 :]
    return data


@pytest.mark.parametrize("bit", [0x01, 0x41])
def test_encrypted_parts(bit: int, written: bytes, tmp_path: Path):
    refused(tmp_path / "a.bundle", flags(written, bit), "manifest.json is encrypted")


def test_an_unknown_method_of_compression(written: bytes, tmp_path: Path):
    k = directory(written)
    refused(tmp_path / "a.bundle", written[: k + 10] + b"\x63\0" + written[k + 12 :], "compressed")


@pytest.mark.parametrize(("before", "behind", "note"), [(b"#!/bin/sh\n", b"", b""), (b"", b"behind", b""), (b"", b"", b"a comment")])
def test_bytes_that_belong_to_no_part(before: bytes, behind: bytes, note: bytes, written: bytes, tmp_path: Path):
    refused(tmp_path / "a.bundle", before + zipped(members_of(written), comment=note) + behind)


def test_parts_that_overlap(written: bytes, tmp_path: Path):
    """Every entry of the directory points to the first part: a bomb without compression."""
    data, k = bytearray(written), directory(written)
    for name in members_of(written):
        data[k + 42 : k + 46] = b"\0" * 4
        k += 46 + len(name)
    assert data[k : k + 4] == b"PK\x05\x06"
    refused(tmp_path / "a.bundle", bytes(data), "begin")


def test_sizes_above_the_limits(written: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    members = members_of(written)
    for name in ("manifest.json", "program.gmlm", "vocabulary.model", "report.json"):
        with monkeypatch.context() as m:
            m.setitem(bundles.MOST, name, len(members[name]) - 1)
            refused(tmp_path / "a.bundle", written, f"{name} has", "limit")
    assert sum(bundles.MOST.values()) < 1 << 31


@pytest.mark.parametrize("name", ["program.gmlm", "student.fit", "vocabulary.model", "report.json"])
def test_a_part_of_another_bundle(name: str, written: bytes, tmp_path: Path):
    members = members_of(written)
    refused(tmp_path / "a.bundle", zipped({**members, name: members[name] + b" "}), name, "hash differs")


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ({"format": 1}, "format 1"),
        ({"format": "1"}, "format 1"),
        ({"format": True}, "format True"),
        ({"format": None}, "format None"),
        ({"format": "x" * 10_000}, "format xxx"),
        ({"kind": "something else"}, "not that of a bundle"),
        ({"direction": 3}, "entries"),
        ({"direction": "en\u202e-de"}, "plain text"),
        ({"direction": "\x1b[2Jen-de"}, "plain text"),
        ({"direction": "e" * 101}, "plain text"),
        ({"sampler": ["a"]}, "entries"),
        ({"sampler": "x\ny"}, "plain text"),
        ({"versions": None}, "entries"),
        ({"versions": {"jax": 1}}, "plain text"),
        ({"members": []}, "entries"),
        ({"members": {}}, "same parts"),
        ({"members": {"program.gmlm": 0, "student.fit": 0, "vocabulary.model": 0, "report.json": 0}}, "hash differs"),
        ({"command": "rm -rf"}, "entries"),
    ],
)
def test_manifests_of_another_kind(entries: dict[str, Any], what: str, written: bytes, tmp_path: Path):
    refused(tmp_path / "a.bundle", zipped(rehashed(members_of(written), **entries)), what)


def test_an_edited_manifest_is_noticed(written: bytes, tmp_path: Path):
    """Its own hash stands over all of it."""
    members = members_of(written)
    edited = members["manifest.json"].replace(b'"en-de"', b'"de-en"')
    assert edited != members["manifest.json"]
    refused(tmp_path / "a.bundle", zipped({**members, "manifest.json": edited}), "manifest.json is not what was written: its hash differs")


def test_a_bundle_of_the_version_before(bundle: Bundle, written: bytes, fit: NetworkFit, tmp_path: Path):
    """Its manifest, and its fit, have no hash over everything: the fit says so."""
    members = rehashed(members_of(written) | {"student.fit": before(*content(fit))})
    manifest = json.loads(members["manifest.json"])
    del manifest["sha256"]
    older = {**members, "manifest.json": json.dumps(manifest | {"format": 2}, indent=1, ensure_ascii=False).encode()}
    (tmp_path / "a.bundle").write_bytes(zipped(older))
    found = read_bundle(tmp_path / "a.bundle")
    assert (found.direction, found.sampler, found.report) == (bundle.direction, bundle.sampler, bundle.report)
    with pytest.warns(gm.GmlmWarning, match="has no hash over everything"):
        back = found.load_fit()
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), back.params, fit.params))
    refused(tmp_path / "b.bundle", zipped({**older, "vocabulary.model": b"other"}), "hash differs")


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 10_000, b'"text"'])
def test_json_that_is_none(data: bytes, written: bytes, tmp_path: Path):
    members = members_of(written)
    refused(tmp_path / "a.bundle", zipped({**members, "manifest.json": data}), "manifest.json is not ")
    refused(tmp_path / "a.bundle", zipped(rehashed({**members, "report.json": data})), "report.json is not ")


def test_a_program_and_a_vocabulary_that_are_none(written: bytes, tmp_path: Path):
    members = members_of(written)
    refused(tmp_path / "a.bundle", zipped(rehashed({**members, "program.gmlm": b"\xff"})), "UTF-8")
    (tmp_path / "v.bundle").write_bytes(zipped(rehashed({**members, "vocabulary.model": b"none"})))
    with pytest.raises(gm.GmlmError, match="E571"):
        read_bundle(tmp_path / "v.bundle").load_vocabulary()
