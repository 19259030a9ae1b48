"""Training of one translator from a program and parallel text, with all files in one folder.

The steps are vocabulary, cleaning, training and bundle.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._diagnostics import counted, only
from .._types import InputLike
from ..files import alone, write_whole
from ..program import Program
from ._bundle import read_bundle, write_translator
from ._corpus import Texts, clean, without_overlap
from ._programs import bound, shared_vocabulary, sides
from ._train_pairs import Pairs, Recipe, train_pairs
from ._vocabulary import Vocabulary

if TYPE_CHECKING:
    from ..model import ConditionalModel
    from ..train import NetworkFit


@dataclass(frozen=True)
class TrainJob:
    """The options of one training run of a translator.

    Attributes:
        checked: the program.
        model: the name of the model.
        texts: the pairs to train on, and optional pairs for validation.
        folder: the folder of the run; a second call resumes from the latest checkpoint in it.
        recipe: how the network is trained.
        inputs: the inputs of the program. Inputs that a vocabulary binds may be omitted if a
            vocabulary is given.
        mask: the mask's name; None selects the model's only one.
        sampler: the default sampler of the bundle; None selects the model's first one in the file.
        vocabulary: a vocabulary file. None selects that of the bundle from which the recipe starts;
            without such a bundle, a vocabulary of the program's size is trained on the text.
        direction: a direction such as `en-de`, for display only.
        resume: whether to resume from checkpoints in the folder.
        allow_python: whether a network `python("package.module:Class")` may import and run that
            class.
        progress: whether to show a bar; None shows one if the standard error is a terminal.
        mesh_axis: as in `Model.fit`: an axis of the ambient mesh over which batches are spread.
        byte_fallback: whether a vocabulary that is trained spells unknown letters by their bytes.
    """

    checked: Program
    model: str
    texts: Texts
    folder: Path
    recipe: Recipe = field(default_factory=Recipe)
    inputs: Mapping[str, InputLike] = field(default_factory=dict)
    mask: str | None = None
    sampler: str | None = None
    vocabulary: Path | None = None
    direction: str = ""
    resume: bool = True
    allow_python: bool = False
    progress: bool | None = None
    mesh_axis: str | None = None
    byte_fallback: bool = False


def train_translator(job: TrainJob, tell: Callable[[str], None] = lambda line: None) -> tuple[NetworkFit, Path]:
    """Train one translator, and return it with the path of its bundle; see `TrainJob`.

    Raises:
        GmlmError: for a program, text or options that do not fit together.
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
        vocabulary = given or shared_vocabulary(job.checked, texts["train"], found.size, job.byte_fallback)
        vocabulary.verify(found.size, f"model `{job.model}`")
        fit = _trained(job, model, mask, vocabulary, texts, overlap, tell)
        bundle = job.folder / f"{job.model}.bundle"
        write_translator(bundle, fit, program, vocabulary, job.direction, job.sampler)
        return fit, bundle


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
        mesh_axis=job.mesh_axis,
        tell=tell,
    )
    # These files are written after training, which raises an error in a folder of another run, so
    # that the files of that run stay.
    write_whole(folder / f"{job.model}.vocabulary", vocabulary.data)
    write_whole(folder / f"{job.model}.cleaning.json", json.dumps(notes, indent=1).encode())
    return fit
