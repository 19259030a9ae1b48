"""A translator as one file: weights, vocabulary, program and metadata, each with its hash.

The file is an archive in the format of `_archive.py`. Reading it runs no code: the weights are
plain arrays, the program is text, and a network that is a Python class needs `allow_python`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._diagnostics import GmlmError, fail
from .._load_fit import load_fit
from .._types import JsonObject
from ..files import MANIFEST, ArchiveKind, as_path, opened, pack, read_json, unpack, write_whole
from ..files.limits import LONGEST_SHOWN
from ..graph import versions
from ._vocabulary import Vocabulary

if TYPE_CHECKING:
    from ..train import NetworkFit

PROGRAM, FIT, VOCABULARY, REPORT = "program.gmlm", "student.fit", "vocabulary.model", "report.json"
SHORTLIST = "shortlist.npy"
# The maximum number of bytes of each member. Their sum is below the 2 GiB of a plain ZIP file.
MOST = {MANIFEST: 1 << 20, PROGRAM: 1 << 22, VOCABULARY: 1 << 26, REPORT: 1 << 26, SHORTLIST: 1 << 26, FIT: 3 << 29}
ENTRIES = {"direction": str, "sampler": (str, type(None)), "versions": dict}
BUNDLE = ArchiveKind(
    name="gmlm translator",
    format=3,  # In format 1, positional attention was off by default.
    before=(2,),
    limit=lambda name: MOST.get(name),
    needed=(PROGRAM, FIT, VOCABULARY),
    entries=tuple(ENTRIES),
    code="E575",
    what="bundle",
    help="take a whole copy of the file that training wrote",
)


@dataclass(frozen=True)
class Bundle:
    """The content of a bundle.

    Attributes:
        program: the text of the program; the fit contains the imported files.
        fit: the bytes of the fit.
        vocabulary: the bytes of the vocabulary.
        direction: a direction such as `en-de`, for display only.
        sampler: the default sampler for decoding; None selects the model's only one.
        report: measured results as plain data; None if nothing was measured.
        versions: the versions of the packages that the fit was made with.
        shortlist: the bytes of a shortlist, see `Shortlist.to_bytes`; None if there is none.
    """

    program: str
    fit: bytes = field(repr=False)
    vocabulary: bytes = field(repr=False)
    direction: str = ""
    sampler: str | None = None
    report: JsonObject | None = None
    versions: Mapping[str, str] = field(default_factory=lambda: dict(versions()))
    shortlist: bytes | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, fit: NetworkFit, vocabulary: Vocabulary, direction: str = "", sampler: str | None = None, report: JsonObject | None = None
    ) -> Bundle:
        """Return the bundle of a trained network.

        Args:
            fit: the trained network.
            vocabulary: its vocabulary.
            direction: a direction such as `en-de`, for display only.
            sampler: the default sampler for decoding; None selects the model's only one.
            report: measured results as plain data; None if nothing was measured.
        """
        return cls(_main_text(fit.meta), fit.to_bytes(), vocabulary.data, direction, sampler, report, dict(fit.meta["versions"]))

    def load_fit(self, allow_python: bool = False) -> NetworkFit:
        """Return the trained network with its program.

        Args:
            allow_python: whether a network `python("package.module:Class")` may import and run that
                class.

        Raises:
            GmlmError: E575 for weights that are damaged or belong to another program, E739 for a
                Python class that is not allowed.
        """
        from ..train import NetworkFit

        try:
            found = load_fit(io.BytesIO(self.fit), allow_python=allow_python)
        except GmlmError as error:
            if "E739" in error.codes:
                raise
            raise fail("E575", f"the bundle's weights cannot be read: {error.diagnostics[0].message}") from None
        if not isinstance(found, NetworkFit):
            raise fail("E575", "the bundle holds a fit that is not a network's")
        if _main_text(found.meta) != self.program:
            raise fail("E575", f"the bundle's {PROGRAM} is not the program that its weights were trained for")
        return found

    def load_vocabulary(self) -> Vocabulary:
        """Return the vocabulary.

        Raises:
            GmlmError: E571 if the bytes are not a vocabulary.
        """
        return Vocabulary(self.vocabulary, "the bundle's vocabulary")


def write_bundle(path: str | Path, bundle: Bundle) -> None:
    """Write a bundle.

    An error leaves no partial file; equal bundles give identical bytes.

    Raises:
        GmlmError: E560 if the file cannot be written; E575 for a bundle that could not be read
            again.
    """
    members = {PROGRAM: bundle.program.encode(), FIT: bundle.fit, VOCABULARY: bundle.vocabulary}
    if bundle.report is not None:
        members[REPORT] = json.dumps(bundle.report, ensure_ascii=False, allow_nan=False).encode()
    if bundle.shortlist is not None:
        members[SHORTLIST] = bundle.shortlist
    entries = {"direction": bundle.direction, "sampler": bundle.sampler, "versions": dict(bundle.versions)}
    _verify_entries(entries, "the bundle")
    write_whole(path, pack(BUNDLE, entries, members))


def read_bundle(path: str | Path) -> Bundle:
    """Return the bundle that a file contains, after verifying every hash.

    Raises:
        GmlmError: E120 for a file that cannot be read; E575 for a file that is not a bundle, is
            damaged, or contains anything but the parts of a bundle.
    """
    path = as_path(path)
    with opened(path, _bundles_in(path)) as file:
        entries, content = unpack(BUNDLE, file, path)
    del entries["format"]
    _verify_entries(entries, path)
    report = read_json(BUNDLE, content[REPORT], path, REPORT) if REPORT in content else None
    try:
        program = content[PROGRAM].decode()
    except UnicodeDecodeError:
        raise BUNDLE.bad(path, f"{PROGRAM} is not UTF-8 text") from None
    return Bundle(program, content[FIT], content[VOCABULARY], report=report, shortlist=content.get(SHORTLIST), **entries)


def _bundles_in(path: Path) -> str:
    """Return a hint on which file to read; it names the bundles of a folder."""
    inside = sorted(str(p) for p in path.glob("*.bundle")) if path.is_dir() else []
    return f"name a bundle in it: {', '.join(inside)}" if inside else "a bundle is one file, which training writes"


def _verify_entries(entries: Mapping[str, Any], path: str | Path) -> None:
    if not all(isinstance(entries[k], kinds) for k, kinds in ENTRIES.items()):
        raise BUNDLE.bad(path, f"{MANIFEST} has not the entries of this format")
    texts = [entries["direction"], entries["sampler"] or "", *entries["versions"], *entries["versions"].values()]
    if not all(isinstance(t, str) and len(t) <= LONGEST_SHOWN and (t.isprintable() or not t) for t in texts):
        raise BUNDLE.bad(path, f"{MANIFEST} holds a name that is not a plain text of at most {LONGEST_SHOWN} letters")


def _main_text(meta: Mapping[str, Any]) -> str:
    return next(iter(meta["program"].values()))
