"""A translator as one file: weights, vocabulary, program and what they are, each with its hash.

A ZIP archive whose members are stored as they are. Reading refuses all that writing does not make, before anything is unpacked, and
runs no code: weights are plain arrays, the program is text, and a network that is a class of Python needs `allow_python`.
"""

from __future__ import annotations

import hashlib
import io
import json
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._compile import load_fit, versions
from .._diagnostics import GmlmError, fail
from .._files import write_whole
from ._vocabulary import Vocabulary

if TYPE_CHECKING:
    from ..run.networks import NetworkFit

FORMAT = 2  # 1: positional attention was off where a program did not say
MANIFEST, PROGRAM, FIT, VOCABULARY, REPORT = "manifest.json", "program.gmlm", "student.fit", "vocabulary.model", "report.json"
# The bytes that each may have.
MOST = {MANIFEST: 1 << 20, PROGRAM: 1 << 22, VOCABULARY: 1 << 26, REPORT: 1 << 26, FIT: 3 << 29}  # together below the 2 GiB of a plain ZIP
NEEDED = (PROGRAM, FIT, VOCABULARY)
ENTRIES = {"format": int, "kind": str, "direction": str, "sampler": (str, type(None)), "versions": dict, "members": dict}
KIND = "gmlm translator"
HEADER, ENTRY, TAIL = 30, 46, 22  # bytes beside names and content: of a member, of its entry in the directory, of the archive's end
LONGEST = 100  # letters of a direction or a name


@dataclass(frozen=True)
class Bundle:
    """What a bundle holds.

    Attributes:
        program: the text of the program; imports travel with the fit.
        fit: the bytes of the fit.
        vocabulary: the bytes of the vocabulary.
        direction: such as `en-de`, which is shown only.
        sampler: the sampler that decodes where none is named; None: the model's only one.
        report: what was measured, plain data; None where nothing was.
        versions: of the packages that it was made with.
    """

    program: str
    fit: bytes = field(repr=False)
    vocabulary: bytes = field(repr=False)
    direction: str = ""
    sampler: str | None = None
    report: dict[str, Any] | None = None
    versions: Mapping[str, str] = field(default_factory=lambda: dict(versions()))

    @classmethod
    def of(
        cls, fit: NetworkFit, vocabulary: Vocabulary, direction: str = "", sampler: str | None = None, report: dict[str, Any] | None = None
    ) -> Bundle:
        """The bundle of a trained network."""
        return cls(_main_text(fit.meta), fit.to_bytes(), vocabulary.data, direction, sampler, report, dict(fit.meta["versions"]))

    def load_fit(self, allow_python: bool = False) -> NetworkFit:
        """The trained network with its program.

        Args:
            allow_python: whether a network `python("package.module:Class")` may import and run that class.

        Raises:
            GmlmError: E575 for weights that are damaged or another program's, E739 for a class of Python that is not allowed.
        """
        from ..run.networks import NetworkFit

        try:
            with zipfile.ZipFile(io.BytesIO(self.fit)) as archive:
                if any(i.compress_type != zipfile.ZIP_STORED for i in archive.infolist()):
                    raise fail("E575", "the bundle's weights are compressed, as no fit writes them")
            found = load_fit(io.BytesIO(self.fit), allow_python=allow_python)
        except GmlmError as error:
            if {"E575", "E739"} & set(error.codes):
                raise
            raise fail("E575", f"the bundle's weights cannot be read: {error.diagnostics[0].message}") from None
        except (LookupError, TypeError, ValueError, AttributeError, StopIteration, zipfile.BadZipFile) as error:  # of other types
            raise fail("E575", f"the bundle's weights are damaged: {type(error).__name__}: {error}") from None
        if not isinstance(found, NetworkFit):
            raise fail("E575", "the bundle holds a fit that is no network's")
        if _main_text(found.meta) != self.program:
            raise fail("E575", f"the bundle's {PROGRAM} is not the program that its weights were trained for")
        return found

    def load_vocabulary(self) -> Vocabulary:
        """The vocabulary.

        Raises:
            GmlmError: E571 where it is none.
        """
        return Vocabulary(self.vocabulary, "the bundle's vocabulary")


def write_bundle(path: str | Path, bundle: Bundle) -> None:
    """Write a bundle, whole or not at all; the same bundle gives the same bytes.

    Raises:
        GmlmError: E560 if the file cannot be written; E575 for a bundle that could not be read again.
    """
    members = {PROGRAM: bundle.program.encode(), FIT: bundle.fit, VOCABULARY: bundle.vocabulary}
    if bundle.report is not None:
        members[REPORT] = json.dumps(bundle.report, ensure_ascii=False, allow_nan=False).encode()
    manifest = {
        "format": FORMAT,
        "kind": KIND,
        "direction": bundle.direction,
        "sampler": bundle.sampler,
        "versions": dict(bundle.versions),
        "members": {name: {"sha256": _hash(data), "size": len(data)} for name, data in members.items()},
    }
    members = {MANIFEST: json.dumps(manifest, indent=1, ensure_ascii=False).encode(), **members}
    for name, data in members.items():
        _verify_size(name, len(data), "the bundle")
    _verified_manifest(members[MANIFEST], "the bundle")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    write_whole(path, buffer.getvalue())


def read_bundle(path: str | Path) -> Bundle:
    """A bundle from its file; every hash is verified.

    Raises:
        GmlmError: E521 for a file that cannot be read; E575 for one that is no bundle, is damaged, or holds anything but a bundle's parts.
    """
    path = Path(path)
    try:
        if path.is_dir():
            inside = sorted(p.name for p in path.glob("*.bundle"))
            help = (
                f"name a bundle in it: {', '.join(str(path / n) for n in inside)}"
                if inside
                else "a bundle is one file, which training writes"
            )
            raise fail("E521", f"cannot read {path}: it is a folder", help=help)
        if not path.is_file():
            raise fail("E521", f"cannot read {path}: there is no such file", help="a bundle is one file, which training writes")
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            _verify_members(archive, path.stat().st_size, path)
            content = {info.filename: archive.read(info) for info in archive.infolist()}
    except OSError as error:
        raise fail("E521", f"cannot read {path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError) as error:
        raise _bad(path, f"it is no archive, or is damaged: {error}") from None
    manifest = _verified_manifest(content.pop(MANIFEST), path)
    _verify_hashes(content, manifest["members"], path)
    report = _json(content[REPORT], path, REPORT) if REPORT in content else None
    try:
        program = content[PROGRAM].decode()
    except UnicodeDecodeError:
        raise _bad(path, f"{PROGRAM} is no UTF-8 text") from None
    more = {name: manifest[name] for name in ("direction", "sampler", "versions")}
    return Bundle(program, content[FIT], content[VOCABULARY], report=report, **more)


def _verify_members(archive: zipfile.ZipFile, size: int, path: Path) -> None:
    """Only the parts of a bundle, each once, stored plainly, one behind the other, and nothing else in the file."""
    infos = archive.infolist()
    names = [i.filename for i in infos]
    if strange := [i.orig_filename for i in infos if i.filename not in MOST or i.orig_filename != i.filename]:
        raise _bad(path, f"it holds {strange[0][:LONGEST]!r}, which is no part of a bundle")
    if len(set(names)) < len(names):
        raise _bad(path, f"it holds {max(names, key=names.count)} twice")
    if missing := [n for n in (MANIFEST, *NEEDED) if n not in names]:
        raise _bad(path, f"it lacks {missing[0]}")
    for info in infos:
        _verify_member(info, path)
    end = 0
    for info in sorted(infos, key=lambda i: i.header_offset):
        if info.header_offset != end:
            raise _bad(path, f"{info.filename} does not begin where the part before it ends")
        end += HEADER + len(info.filename) + info.file_size
    directory = sum(ENTRY + len(n) for n in names)
    if archive.start_dir != end or end + directory + TAIL != size:
        raise _bad(path, "it holds bytes that belong to no part")


def _verify_member(info: zipfile.ZipInfo, path: Path) -> None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG) or info.external_attr & 0x10:  # DOS's bit of a folder
        raise _bad(path, f"{info.filename} is no plain file")
    if info.flag_bits & 0x41:
        raise _bad(path, f"{info.filename} is encrypted")
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        raise _bad(path, f"{info.filename} is compressed")
    if info.extra or info.comment:
        raise _bad(path, f"{info.filename} has fields that no bundle has")
    _verify_size(info.filename, info.file_size, path)


def _verify_size(name: str, size: int, path: str | Path) -> None:
    if size > MOST[name]:
        raise _bad(path, f"{name} has {size:,} bytes, more than the limit of {MOST[name]:,}")


def _verified_manifest(data: bytes, path: str | Path) -> dict[str, Any]:
    manifest = _json(data, path, MANIFEST)
    if manifest.get("kind") != KIND:
        raise _bad(path, f"{MANIFEST} is not that of a translator")
    if manifest.get("format") != FORMAT or isinstance(manifest["format"], bool):
        message = f"{path} is a bundle of format {str(manifest.get('format'))[:LONGEST]}, and this version reads {FORMAT}"
        raise fail("E575", message, help="another version of gmlmdsl wrote it: install that one, or train again")
    if set(manifest) != set(ENTRIES) or not all(isinstance(manifest[k], kinds) for k, kinds in ENTRIES.items()):
        raise _bad(path, f"{MANIFEST} has not the entries of this format")
    texts = [manifest["direction"], manifest["sampler"] or "", *manifest["versions"], *manifest["versions"].values()]
    if not all(isinstance(t, str) and len(t) <= LONGEST and (t.isprintable() or not t) for t in texts):
        raise _bad(path, f"{MANIFEST} holds a name that is no plain text of at most {LONGEST} letters")
    return manifest


def _verify_hashes(content: dict[str, bytes], members: Mapping[str, Any], path: Path) -> None:
    if set(members) != set(content):
        raise _bad(path, f"{MANIFEST} and the archive do not list the same parts")
    for name, data in content.items():
        if members[name] != {"sha256": _hash(data), "size": len(data)}:
            raise _bad(path, f"{name} is not what was written: its hash differs")


def _json(data: bytes, path: str | Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise _bad(path, f"{name} is no JSON") from None
    if not isinstance(found, dict):
        raise _bad(path, f"{name} is no JSON object")
    return found


def _main_text(meta: Mapping[str, Any]) -> str:
    return next(iter(meta["program"].values()))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _bad(path: str | Path, problem: str) -> GmlmError:
    return fail("E575", f"{path} is no bundle that can be used: {problem}", help="take a whole copy of the file that training wrote")
