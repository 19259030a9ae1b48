"""Archives of several parts, with a hash for each part and one for all: saved fits and bundles.

An archive is a ZIP file whose parts are stored without compression, the manifest first. The reader
rejects everything that the writer does not produce, before it reads a part, and runs no code.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .._diagnostics import GmlmError, fail
from .._types import JsonObject
from ._whole_files import as_path, reading
from .limits import LONGEST_SHOWN, MOST_ARCHIVE_BYTES, MOST_PARTS

if TYPE_CHECKING:
    import zipfile

MANIFEST = "manifest.json"
# Besides names and content, these are the bytes of a part, of its entry in the directory, and of
# the end of the archive.
HEADER, ENTRY, TAIL = 30, 46, 22
# Every manifest has these entries, and the kind adds its own.
OWN = ("format", "kind", "members", "sha256")


@dataclass(frozen=True)
class ArchiveKind:
    """A kind of archives.

    Attributes:
        name: the manifest's `kind`.
        format: the format that is written.
        before: older formats, without a hash over everything, that are read too.
        limit: a function from the name of a part, or of the manifest, to the largest number of its
            bytes; None for an unknown name.
        needed: the parts that each archive must have.
        entries: the entries of the manifest in addition to `OWN`.
        code: the error code.
        what: how messages call such an archive.
        help: the suggested fix for an archive that cannot be used.
    """

    name: str
    format: int
    before: tuple[int, ...]
    limit: Callable[[str], int | None]
    needed: tuple[str, ...]
    entries: tuple[str, ...]
    code: str
    what: str
    help: str

    def bad(self, path: object, problem: str) -> GmlmError:
        """Return the error for an archive that cannot be used."""
        return fail(self.code, f"{path} is not a {self.what} that can be used: {problem}", help=self.help)


def pack(kind: ArchiveKind, entries: Mapping[str, object], parts: Mapping[str, bytes]) -> bytes:
    """Return the bytes of an archive; equal parts give equal bytes.

    Raises:
        GmlmError: the kind's code for parts that could not be read again.
    """
    import zipfile

    manifest: dict[str, object] = {"format": kind.format, "kind": kind.name, **entries}
    manifest["members"] = {name: {"sha256": _hash(data), "size": len(data)} for name, data in parts.items()}
    members = {MANIFEST: _written(manifest | {"sha256": _hash(_written(manifest))}), **parts}
    for name, data in members.items():
        _verify_size(kind, name, len(data), f"the {kind.what}")
    if _size({name: len(data) for name, data in members.items()}) > MOST_ARCHIVE_BYTES:
        raise kind.bad(f"the {kind.what}", f"it would have more than the limit of {MOST_ARCHIVE_BYTES:,} bytes")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def unpack(kind: ArchiveKind, file: IO[bytes], path: object) -> tuple[JsonObject, dict[str, bytes]]:
    """Return the manifest's entries and the parts of an archive, after verifying every hash.

    Args:
        kind: the kind of the archive.
        file: a file that is opened for reading bytes, see `opened`.
        path: how messages call it.

    Raises:
        GmlmError: the kind's code for a file that is not such an archive, is damaged, or contains
            anything else.
    """
    import zipfile

    try:
        size = file.seek(0, os.SEEK_END)
        if size > MOST_ARCHIVE_BYTES:
            raise kind.bad(path, f"it has {size:,} bytes, more than the limit of {MOST_ARCHIVE_BYTES:,}")
        verify_count(kind, file, path)
        with zipfile.ZipFile(file) as archive:
            _verify_members(kind, archive, size, path)
            parts = {info.filename: archive.read(info) for info in archive.infolist()}
    except GmlmError:
        raise
    except OSError as error:
        raise kind.bad(path, f"it cannot be read: {error.strerror or error}") from None
    except kinds_of_damage() as error:
        reason = str(error)[:LONGEST_SHOWN] or type(error).__name__
        raise kind.bad(path, f"it is not an archive, or is damaged: {reason}") from None
    manifest = _verified_manifest(kind, parts.pop(MANIFEST), path)
    _verify_hashes(kind, manifest["members"], parts, path)
    return {name: manifest[name] for name in ("format", *kind.entries)}, parts


def verify_count(kind: ArchiveKind, file: IO[bytes], path: object) -> None:
    """Raise if an archive declares too many parts; this is checked before its directory is read.

    Raises:
        GmlmError: the kind's code.
    """
    file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
    end = file.read(TAIL)
    count = int.from_bytes(end[10:12], "little") if end[:4] == b"PK\5\6" else 0
    if count > MOST_PARTS:
        raise kind.bad(path, f"it has {count:,} parts, more than the limit of {MOST_PARTS:,}")
    file.seek(0)


def opened(path: str | Path | IO[bytes], help: str = "name a file") -> contextlib.AbstractContextManager[IO[bytes]]:
    """Open a file for reading bytes at any position.

    A file without positions, such as a pipe, is read completely, up to the limit of an archive.
    `with` closes the file unless the caller had opened it.

    Raises:
        GmlmError: E120 for a file that cannot be read.
    """
    if hasattr(path, "read") and not isinstance(path, type):
        return contextlib.nullcontext(_in_memory(path))
    with reading(named := as_path(path), help=help):
        file = open(named, "rb")  # noqa: SIM115
        if file.seekable():
            return file
        with file:
            return io.BytesIO(file.read(MOST_ARCHIVE_BYTES + 1))


def _in_memory(file: Any) -> IO[bytes]:
    """Return an open file that can be read at any position.

    Raises:
        GmlmError: E120 for a text file, and for a file that was closed.
    """
    try:
        if file.seekable() and file.read(0) == b"":
            return file
        content = file.read(MOST_ARCHIVE_BYTES + 1)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise fail("E120", f"the file cannot be read: {error}", help='open it to read bytes: `open(path, "rb")`') from None
    if not isinstance(content, bytes):
        raise fail("E120", "the file is one of text", help='open it to read bytes: `open(path, "rb")`')
    return io.BytesIO(content)


def read_json(kind: ArchiveKind, data: bytes, path: object, name: str) -> JsonObject:
    """Return the JSON object in a part.

    Args:
        kind: the kind of the archive.
        data: the bytes of the part.
        path: how messages call the archive.
        name: how messages call the part.

    Raises:
        GmlmError: the kind's code if the part is not a JSON object.
    """
    try:
        found = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise kind.bad(path, f"{name} is not JSON") from None
    if not isinstance(found, dict):
        raise kind.bad(path, f"{name} is not a JSON object")
    return found


def _verify_members(kind: ArchiveKind, archive: zipfile.ZipFile, size: int, path: object) -> None:
    """Raise unless an archive has exactly the parts of its kind.

    Each part must occur once, be stored plainly, and follow the part before it. The file may
    contain no other bytes.
    """
    infos = archive.infolist()
    names = [i.filename for i in infos]
    if strange := [i.orig_filename for i in infos if kind.limit(i.filename) is None or i.orig_filename != i.filename]:
        raise kind.bad(path, f"it holds {strange[0][:LONGEST_SHOWN]!r}, which is not a part of a {kind.what}")
    if len(set(names)) < len(names):
        raise kind.bad(path, f"it holds {Counter(names).most_common(1)[0][0]} twice")
    if missing := [n for n in (MANIFEST, *kind.needed) if n not in names]:
        raise kind.bad(path, f"it lacks {missing[0]}")
    for info in infos:
        _verify_member(kind, info, path)
    end = 0
    for info in sorted(infos, key=lambda i: i.header_offset):
        if info.header_offset != end:
            raise kind.bad(path, f"{info.filename} does not begin where the part before it ends")
        end += HEADER + len(info.filename.encode()) + info.file_size
    if archive.start_dir != end or _size({i.filename: i.file_size for i in infos}) != size:
        raise kind.bad(path, "it holds bytes that belong to no part")


def _size(sizes: Mapping[str, int]) -> int:
    """Return the number of bytes of an archive from those of its parts."""
    return sum(HEADER + ENTRY + 2 * len(name.encode()) + n for name, n in sizes.items()) + TAIL


def _verify_member(kind: ArchiveKind, info: zipfile.ZipInfo, path: object) -> None:
    import zipfile

    mode = stat.S_IFMT(info.external_attr >> 16)
    # The second bit is the DOS flag of a folder.
    if mode not in (0, stat.S_IFREG) or info.external_attr & 0x10:
        raise kind.bad(path, f"{info.filename} is not a plain file")
    if info.flag_bits & 0x41:
        raise kind.bad(path, f"{info.filename} is encrypted")
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        raise kind.bad(path, f"{info.filename} is compressed")
    if info.extra or info.comment:
        raise kind.bad(path, f"{info.filename} has fields that no {kind.what} has")
    _verify_size(kind, info.filename, info.file_size, path)


def _verify_size(kind: ArchiveKind, name: str, size: int, path: object) -> None:
    limit = kind.limit(name)
    if limit is None:
        raise kind.bad(path, f"{name[:LONGEST_SHOWN]!r} is not a part of a {kind.what}")
    if size > limit:
        raise kind.bad(path, f"{name} has {size:,} bytes, more than the limit of {limit:,}")


def _verified_manifest(kind: ArchiveKind, data: bytes, path: object) -> JsonObject:
    """Return the manifest, whose hash covers it and thereby the hash of each part."""
    manifest = read_json(kind, data, path, MANIFEST)
    if manifest.get("kind") != kind.name:
        raise kind.bad(path, f"{MANIFEST} is not that of a {kind.what}")
    known, found = (kind.format, *kind.before), manifest.get("format")
    if isinstance(found, bool) or found not in known:
        numbers = " and ".join(map(str, sorted(known)))
        message = f"{path} is a {kind.what} of format {str(found)[:LONGEST_SHOWN]}, and this version reads {numbers}"
        raise fail(kind.code, message, help="another version of gmlmdsl wrote it: install that one, or make it again")
    own = [name for name in OWN if name != "sha256" or found == kind.format]
    if set(manifest) != {*own, *kind.entries} or not isinstance(manifest["members"], dict):
        raise kind.bad(path, f"{MANIFEST} has not the entries of this format")
    if found == kind.format:
        rest = {k: v for k, v in manifest.items() if k != "sha256"}
        if manifest["sha256"] != _hash(_written(rest)) or data != _written(manifest):
            raise kind.bad(path, f"{MANIFEST} is not what was written: its hash differs")
    return manifest


def _verify_hashes(kind: ArchiveKind, members: Mapping[str, object], parts: Mapping[str, bytes], path: object) -> None:
    if set(members) != set(parts):
        raise kind.bad(path, f"{MANIFEST} and the archive do not list the same parts")
    for name, data in parts.items():
        if members[name] != {"sha256": _hash(data), "size": len(data)}:
            raise kind.bad(path, f"{name} is not what was written: its hash differs")


def _written(manifest: Mapping[str, object]) -> bytes:
    return json.dumps(manifest, indent=1).encode()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def kinds_of_damage() -> tuple[type[Exception], ...]:
    """Return the exceptions that archives, packed parts, headers, numbers and texts raise.

    After `except`, the function is called only if an exception was raised. The exceptions come from
    unforeseen bytes, in functions of the standard library and of NumPy, so the list is broad. It is
    used only around calls of these functions, not around code of this package, which may have
    faults of its own.
    """
    import lzma
    import struct
    import tokenize
    import zipfile
    import zlib

    numbers = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError, SyntaxError, TypeError, ValueError)
    return (*numbers, EOFError, OSError, lzma.LZMAError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error)
