"""Translators as files: a fit with its vocabulary in one bundle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .._compile import BoundProgram
from .._diagnostics import fail, truth
from .._types import JsonObject
from ..networks import FLOAT32
from ._bundle import Bundle, read_bundle, write_bundle
from ._rerank import Reranked
from ._shortlist import Shortlist
from ._translator import Translator
from ._vocabulary import Vocabulary

if TYPE_CHECKING:
    from ..train import NetworkFit


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
