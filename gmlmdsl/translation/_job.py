"""One translator from a program and parallel text: vocabulary, cleaning, training, bundle, all in one folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._diagnostics import counted, only
from ..files import alone, write_whole
from ..program import Program
from ._bundle import read_bundle
from ._corpus import clean
from ._programs import bound, shared_vocabulary, sides
from ._texts import Texts, without_overlap
from ._train_pairs import Pairs, Recipe, train_pairs
from ._translator_file import write_translator
from ._vocabulary import Vocabulary

if TYPE_CHECKING:
    from ..model import ConditionalModel
    from ..train import NetworkFit


@dataclass(frozen=True)
class TrainJob:
    """What is trained, on what, how, and where it is written.

    Attributes:
        checked: the program.
        model: the name of the model.
        texts: pairs to train on, and of validation where there are some.
        folder: of the run; called again, it goes on from its latest checkpoint.
        inputs: of the program; those that a vocabulary binds may be left out where one is given.
        mask: the mask's name; None: the model's only one.
        sampler: the bundle's own; None: the model's first one in the file.
        vocabulary: a file; None: that of the bundle which the recipe starts from, or one is made of
            the text, of the size that the program says.
        resume: whether checkpoints in the folder are gone on from.
    """

    checked: Program
    model: str
    texts: Texts
    folder: Path
    recipe: Recipe = field(default_factory=Recipe)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    mask: str | None = None
    sampler: str | None = None
    vocabulary: Path | None = None
    direction: str = ""
    resume: bool = True
    allow_python: bool = False
    progress: bool | None = None


@dataclass(frozen=True)
class TrainedJob:
    """A trained translator, and where its bundle is."""

    fit: NetworkFit
    bundle: Path


def train_translator(job: TrainJob, tell: Callable[[str], None] = lambda line: None) -> TrainedJob:
    """Train one translator; see `TrainJob`.

    Raises:
        GmlmError: for a program, text or options that do not go together.
    """
    job.recipe.verify()
    given = _given_vocabulary(job)
    program = bound(job.checked, job.inputs, None if given is None else given.size, job.allow_python)
    model: Any = program.model(job.model)
    found, mask = sides(model), only(job.mask, model.masks, "mask", job.model)
    if job.sampler is not None:
        only(job.sampler, model.samplers, "sampler", job.model)
    texts, overlap = without_overlap(job.texts.read_given())
    with alone(job.folder):
        vocabulary = given or shared_vocabulary(job.checked, texts["train"], found.size)
        vocabulary.verify(found.size, f"model `{job.model}`")
        fit = _trained(job, model, mask, vocabulary, texts, overlap, tell)
        bundle = job.folder / f"{job.model}.bundle"
        write_translator(bundle, fit, program, vocabulary, job.direction, job.sampler)
        return TrainedJob(fit, bundle)


def _given_vocabulary(job: TrainJob) -> Vocabulary | None:
    if job.vocabulary is not None:
        return Vocabulary.read(job.vocabulary)
    return None if job.recipe.start_from is None else read_bundle(job.recipe.start_from).load_vocabulary()


def _trained(
    job: TrainJob,
    model: ConditionalModel,
    mask: str,
    vocabulary: Vocabulary,
    texts: Mapping[str, Pairs],
    overlap: int,
    tell: Callable[[str], None],
) -> NetworkFit:
    folder, cells = job.folder, sides(model).cells
    kept, counts = clean(texts["train"], vocabulary, cells)
    also = f"\nleft out before: {counted(overlap, 'pair')} whose source is one of validation" if overlap else ""
    tell(f"cleaning:\n{counts}{also}")
    if advice := counts.advice(cells):
        tell(advice)
    validation, more = clean(texts["validation"], vocabulary, cells, what="validation text") if texts["validation"] else ([], None)
    notes = {"train": counts.as_dict(), "validation": None if more is None else more.as_dict(), "overlap": overlap}
    log = folder / f"{job.model}.jsonl"
    checkpoints = folder / f"{job.model}.checkpoints"
    begun = "going on to" if job.resume and checkpoints.exists() else "training,"
    tell(f"{begun} {job.recipe.steps:,} batches: a program is compiled for each length first; the log is {log}")
    fit = train_pairs(
        model,
        mask,
        vocabulary,
        kept,
        validation,
        job.recipe,
        checkpoint=checkpoints,
        log=log,
        resume=job.resume,
        progress=job.progress,
        tell=tell,
    )
    # Behind the training, which refuses a folder of another run: what that one wrote stays.
    write_whole(folder / f"{job.model}.vocabulary", vocabulary.data)
    write_whole(folder / f"{job.model}.cleaning.json", json.dumps(notes, indent=1).encode())
    return fit
