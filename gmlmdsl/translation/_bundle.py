"""A translator as one file: weights, vocabulary, program and metadata, each with its hash.

The file is an archive in the format of `_archive.py`. Reading it runs no code: the weights are
plain arrays, the program is text, and a network that is a Python class needs `allow_python`.

`write_translator` and `load_translator` turn a fit with its vocabulary into such a file, and back.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._compile import BoundProgram
from .._diagnostics import GmlmError, fail, truth
from .._load_fit import load_fit
from .._types import JsonObject
from ..files import MANIFEST, ArchiveKind, as_path, opened, pack, read_json, unpack, write_whole
from ..files.limits import LONGEST_SHOWN
from ..graph import versions
from ..networks import FLOAT32
from ._rerank import Reranked
from ._shortlist import Shortlist
from ._translator import Translator
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


def write_translator(
    path: str | Path,
    fit: NetworkFit,
    program: BoundProgram,
    vocabulary: Vocabulary,
    direction: str = "",
    sampler: str | None = None,
    report: JsonObject | None = None,
) -> None:
    """Write a trained network as a bundle, with the current form of the program.

    The samplers of the program may have changed since training.

    Args:
        path: the path of the bundle.
        fit: the fit of a translation model.
        program: a program that declares the model as it was trained.
        vocabulary: the vocabulary of the training.
        direction: a direction such as "en-de".
        sampler: the default sampler of the bundle; None selects the model's first one in the file.
        report: measured results.

    Raises:
        GmlmError: E560 if the bundle cannot be written.
    """
    names = [name for name, s in program.checked.samplers.items() if s.model == fit.meta["model"]]
    own = sampler if sampler is not None else next(iter(names), None)
    write_bundle(path, Bundle.of(replace(fit, meta=fit.meta | program.provenance()), vocabulary, direction, own, report))


def load_translator(
    path: str | Path,
    *,
    sampler: str | None = None,
    allow_python: bool = False,
    rerank: str | Path | None = None,
    precision: str = FLOAT32,
    shortlist: bool = False,
) -> Translator:
    """Load a translator from a bundle, which `gmlm train` writes; loading runs no code.

    Args:
        path: the path of the bundle.
        sampler: the default sampler; None selects the bundle's own.
        allow_python: whether a network `python("package.module:Class")` may import and run that
            class.
        rerank: the bundle of an autoregressive teacher, which chooses among the candidates of the
            sampler; see `Reranked`.
        precision: "float32", "bfloat16", "int8" or "auto", see `Translator`. A teacher that chooses
            scores in float32.
        shortlist: whether the bundle's shortlist is used, which `gmlm shortlist` writes; see
            `Translator`. A teacher that chooses uses none.

    Raises:
        GmlmError: E120 and E575 for a file that is not a bundle or is damaged; E590 for a teacher
            that does not fit; E507 for an unknown precision, and for a bundle without a shortlist
            if one is wanted.
    """
    found = read_bundle(path)
    fit = found.load_fit(allow_python)
    vocabulary, few = found.load_vocabulary(), None
    if truth("shortlist", shortlist):
        if found.shortlist is None:
            help = f"`gmlm shortlist {path} SOURCE TARGET` learns one from parallel text"
            raise fail("E507", f"{path} has no shortlist", help=help)
        few = Shortlist.from_bytes(found.shortlist, vocabulary.size)
    loaded = Translator(fit.model, fit.params, vocabulary, sampler or found.sampler, found.direction, precision, few)
    return loaded if rerank is None else Reranked(loaded, load_translator(rerank, allow_python=allow_python))
