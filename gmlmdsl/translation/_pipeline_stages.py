"""The stages of a pipeline: text, vocabulary, teacher, distilled text, and students.

Each stage records its inputs.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._diagnostics import GmlmError, fail, only
from .._types import InputLike, JsonObject
from ..files import write_whole
from ..program import check_file
from ._corpus import Counts, Texts, clean, read_lines, read_pairs, without_overlap
from ._distill import FORMAT as DISTILLED
from ._distill import chunks_of, distill
from ._kept_stages import Done, Stages, Tell, file_hash
from ._metrics import verify_learnt
from ._programs import bound, digest_of, distillers, roles_of, shared_vocabulary, sides
from ._train_pairs import Pairs, Recipe, Start, train_pairs
from ._translator import Translator
from ._vocabulary import Vocabulary
from .limits import CURVE_POINTS, MEASURED_SENTENCES

if TYPE_CHECKING:
    from ..model import ConditionalModel
    from ..train import NetworkFit

SIDES = ("source", "target")
PARTS = ("train", "validation")
TRANSLATED = {"train": "distilled.target", "validation": "distilled-validation.target"}


@dataclass(frozen=True)
class PipelineOptions:
    """The options of `gmlm pipeline`.

    Attributes:
        program: the program file, with a teacher and a student.
        texts: the parallel text.
        folder: the folder of the run.
        teacher, student: how they are trained; the raw student is trained as the distilled one is.
        inputs: the inputs of the program.
        vocabulary: a vocabulary file; None trains a vocabulary on the training text.
        masks: the mask of each model with several masks, by model.
        teacher_sampler: the teacher's sampler that distils. None chooses among the samplers with
            the most beams that fit into a share of `minutes`. The one with the highest BLEU on
            validation text is taken.
        samplers: the samplers that are compared; none stands for all of the program.
        direction: a direction such as "en-de", for the report and the tokeniser of BLEU.
        raw: whether another student is trained on the raw text.
        warm: whether students take the teacher's weights for all layers that agree, unless their
            recipe names a bundle to start from.
        minutes: the time of the whole run. Teacher and student get as many batches as fit into
            their shares, see `SHARES`; None selects the numbers of the recipes.
        measured: the minimum number of sentences over which latency is measured.
        seed: the seed of all random numbers outside the recipes.
        allow_python: whether a network `python("package.module:Class")` may import and run that
            class.
        progress: whether to show a bar; None shows one if the standard error is a terminal.
        command: the command line that the report shows.
        mesh_axis: as in `Model.fit`, for the trainings, and as in `Translator.translate`, for the
            distillation and the scores. Each process runs all stages in a folder of its own; their
            folders must be equal at the beginning.
        byte_fallback: whether a vocabulary that is trained spells unknown letters by their bytes.
        learnt: the checkpoint of a learnt measure that scores the translations too, see `score`.
        restart: whether nothing of an earlier run in the folder is reused.
    """

    program: Path
    texts: Texts
    folder: Path
    teacher: Recipe = field(default_factory=Recipe)
    student: Recipe = field(default_factory=Recipe)
    inputs: Mapping[str, InputLike] = field(default_factory=dict)
    vocabulary: Path | None = None
    masks: Mapping[str, str] = field(default_factory=dict)
    teacher_sampler: str | None = None
    samplers: Sequence[str] = ()
    direction: str = ""
    raw: bool = False
    warm: bool = True
    minutes: float | None = None
    measured: int = MEASURED_SENTENCES
    seed: int = 0
    allow_python: bool = False
    progress: bool | None = None
    command: str = ""
    mesh_axis: str | None = None
    byte_fallback: bool = False
    learnt: Path | None = None
    restart: bool = False


class PipelineStages:
    """The stages of one run: text, vocabulary, networks, and the distilled text."""

    def __init__(self, options: PipelineOptions, tell: Tell = lambda line: None):
        for recipe in (options.teacher, options.student):
            recipe.verify()
        if options.learnt is not None:
            verify_learnt(options.learnt)
        self.o, self.checked = options, check_file(options.program)
        self.roles = roles_of(self.checked)
        self.stages = Stages(options.folder, tell)
        if options.vocabulary is not None:
            self.given: Vocabulary | None = Vocabulary.read(options.vocabulary)
        else:
            self.given = None
        self.program = bound(self.checked, options.inputs, None if self.given is None else self.given.size, options.allow_python)
        self.models: dict[str, ConditionalModel] = {name: self.program.model(name) for name in (self.roles.teacher, self.roles.student)}  # type: ignore[misc]
        pairs = [sides(m) for m in self.models.values()]
        self.size = pairs[0].size
        if any(p.size != self.size for p in pairs):
            message = f"the teacher has {pairs[0].size:,} pieces and the student {pairs[1].size:,}: they share a vocabulary"
            raise fail("E580", message, help="give both models the same number of values")
        self.cells = (min(p.cells[0] for p in pairs), min(p.cells[1] for p in pairs))
        self.masks = {m: only(options.masks.get(m), model.masks, "mask", m) for m, model in self.models.items()}
        for name in options.samplers:
            if not any(name in m.samplers for m in self.models.values()):
                raise fail("E506", f"neither model has a sampler `{name}`")
        # `choose_distiller` chooses among several.
        self.distiller, *_ = distillers(self.checked, self.roles.teacher, options.teacher_sampler)

    def forget(self) -> None:
        """Remove the records and the unfinished work of an earlier run in the folder."""
        for folder in ("stages", "checkpoints", *(f"{chunks_of(Path(text))}" for text in TRANSLATED.values())):
            shutil.rmtree(self.stages / folder, ignore_errors=True)

    # Text

    def texts(self) -> Done:
        """Copy the parallel text, and set held-out rows apart.

        Pairs whose source occurs in the held-out rows are removed from the training text.
        """
        t = self.o.texts
        inputs = {"files": t.hashes, "limit": t.limit, "test_limit": t.test_limit, "reverse": t.reverse, "seed": self.o.seed}
        inputs["overlap"] = "dropped"
        names = [f"text/{part}.{side}" for part in ("train", "validation", "test") for side in SIDES]
        self.verify_folder(inputs)

        def make(_: str) -> dict[str, int]:
            found, overlap = without_overlap(t.read(self.o.seed))
            for part, pairs in found.items():
                self.write_pairs(f"text/{part}", pairs)
            if overlap:
                self.stages.tell(f"text: {overlap:,} pairs are not trained on, since their source is one of validation or test")
            return {part: len(pairs) for part, pairs in found.items()} | {"overlap": overlap}

        return self.stages.run("text", inputs, names, make)

    def verify_folder(self, inputs: Mapping[str, object]) -> None:
        """Raise an error if the folder contains a run on other text.

        Few of its files could be reused, and the remaining files would seem to belong to this run.

        Raises:
            GmlmError: E752.
        """
        before = self.stages.inputs("text")
        for name, what in (("files", "other files"), ("reverse", "the other direction")):
            if before and before.get(name) != inputs[name]:
                message = f"`{self.o.folder}` holds a run on {what}"
                raise fail("E752", message, help="take another folder for this run, or begin anew in this one (`--restart`)")

    def write_pairs(self, name: str, pairs: Pairs) -> None:
        """Write two files, with one line for each pair."""
        for side, ending in enumerate(SIDES):
            write_whole(self.stages / f"{name}.{ending}", "".join(f"{p[side]}\n" for p in pairs).encode())

    def pairs(self, name: str) -> Pairs:
        """Return the pairs that `write_pairs` wrote."""
        return read_pairs(self.stages / f"{name}.source", self.stages / f"{name}.target")

    def vocabulary(self) -> Done:
        """Write the given vocabulary, or one trained on the training text."""
        files = self.stages.done["text"].files
        inputs = {"size": self.size, "given": None if self.given is None else self.given.sha256}
        if self.given is None:
            inputs |= {"text": [files["text/train.source"], files["text/train.target"]]}
            inputs |= {"byte_fallback": True} if self.o.byte_fallback else {}

        def make(_: str) -> JsonObject:
            found = self.given or shared_vocabulary(self.checked, self.pairs("text/train"), self.size, self.o.byte_fallback)
            write_whole(self.stages / "vocabulary.model", found.data)
            return {"size": found.size, "sha256": found.sha256}

        return self.stages.run("vocabulary", inputs, ["vocabulary.model"], make)

    @cached_property
    def pieces(self) -> Vocabulary:
        """The vocabulary of the run."""
        return Vocabulary.read(self.stages / "vocabulary.model")

    def clean(self) -> Done:
        """Write the pairs that can be trained on, and the cleaned pairs of validation."""
        files = self.stages.done["text"].files
        inputs = {k: v for k, v in files.items() if not k.startswith("text/test")}
        inputs |= {"vocabulary": self.pieces.sha256, "cells": self.cells}
        outputs = [f"clean/{part}.{side}" for part in PARTS for side in SIDES]

        def make(_: str) -> JsonObject:
            notes = {}
            for part in PARTS:
                found = self.pairs(f"text/{part}")
                what = "training text" if part == "train" else "validation text"
                kept, counts = clean(found, self.pieces, self.cells, what=what) if found or part == "train" else ([], None)
                self.write_pairs(f"clean/{part}", kept)
                notes[part] = None if counts is None else counts.as_dict()
                if counts is not None and (advice := counts.advice(self.cells)):
                    self.stages.tell(f"{part}: {advice}")
            return notes

        return self.stages.run("clean", inputs, outputs, make)

    def clean_distilled(self) -> Done:
        """Write the sources with the teacher's translations, for training and validation.

        Sources with an empty translation are left out.
        """
        files = self.stages.done["clean"].files | self.stages.done["distil"].files
        inputs = {k: files[k] for part in PARTS for k in (f"clean/{part}.source", TRANSLATED[part])}
        inputs |= {"vocabulary": self.pieces.sha256, "cells": self.cells}

        def make(_: str) -> JsonObject:
            found = {part: self.distilled_pairs(part) for part in PARTS}
            for part, (pairs, _counts) in found.items():
                self.write_pairs(f"distilled/{part}", pairs)
            return {part: None if counts is None else counts.as_dict() for part, (_pairs, counts) in found.items()}

        return self.stages.run("distilled", inputs, [f"distilled/{part}.{side}" for part in PARTS for side in SIDES], make)

    def distilled_pairs(self, part: str) -> tuple[Pairs, Counts | None]:
        """Return the cleaned pairs of sources and teacher's translations, with their counts.

        The result for validation is empty if no pair is usable.

        Raises:
            GmlmError: E587 if no pair is left to train on.
        """
        pairs = read_pairs(self.stages / f"clean/{part}.source", self.stages / TRANSLATED[part])
        try:
            return clean(pairs, self.pieces, self.cells) if pairs or part == "train" else ([], None)
        except GmlmError as error:
            if part != "train":
                message = "no translation of the validation text is whole: the student is not validated, and trains all its steps"
                self.stages.tell(f"distilled: {message}")
                return [], None
            message = "none of the teacher's translations can be trained on: it is hardly trained"
            help = "train it longer (`--teacher-steps`), and look at its loss in teacher.jsonl"
            raise fail("E587", f"{message}; {error.diagnostics[0].message}", help=help) from None

    # Networks

    def train(self, name: str, model: str, text: str, recipe: Recipe) -> str:
        """Train a network, write it as a fit, and return its name.

        Args:
            name: the name of the network.
            model: the name of its model.
            text: the text to train on, `clean` or `distilled`, whose validation part is used too.
            recipe: how it is trained.
        """
        mask, (start, begun) = self.masks[model], self.start(name, recipe)
        data = {k: v for k, v in self.stages.done[text].files.items() if k.startswith((f"{text}/train", f"{text}/validation"))}
        # With `average_last`, the save points determine the averaged weights.
        unseen = {"start_from"} if recipe.average_last else {"start_from", "save_every"}
        plain = {k: v for k, v in asdict(recipe).items() if k not in unseen}
        digest = digest_of(self.checked, self.program.bound.inputs, model, mask)
        inputs = {"data": data, "recipe": plain, "model": digest, "vocabulary": self.pieces.sha256} | begun

        begins: dict[str, str] = {}

        def said(line: str) -> None:
            begins["start"] = line
            self.stages.tell(line)

        def place(key: str) -> Path:
            return self.stages / f"checkpoints/{name}-{key[:12]}-{self.program.provenance()['sha256'][:8]}"

        def make(key: str) -> JsonObject:
            place(key).parent.mkdir(parents=True, exist_ok=True)
            validation = self.pairs(f"{text}/validation")
            fit = train_pairs(
                self.models[model],
                mask,
                self.pieces,
                self.pairs(f"{text}/train"),
                validation,
                # Validation pairs may be absent, see `distilled_pairs`.
                recipe if validation else replace(recipe, evaluate_every=None, patience=None),
                checkpoint=place(key),
                log=self.stages / f"{name}.jsonl",
                progress=self.o.progress,
                start=start(),
                tell=said,
                mesh_axis=self.o.mesh_axis,
            )
            fit.save(self.stages / f"{name}.fit")
            return told(fit) | begins

        done = self.stages.run(name, inputs, [f"{name}.fit"], make)
        # Checkpoints are removed only after the stage is recorded, so that a killed run trains
        # nothing twice.
        shutil.rmtree(place(done.key), ignore_errors=True)
        return name

    def start(self, name: str, recipe: Recipe) -> tuple[Callable[[], Start | None], dict[str, str]]:
        """Return the start of a network, as a function, and its entries in the record of the stage.

        The entries are empty for random initial weights.
        """
        if recipe.start_from is not None:
            # The recipe names the bundle.
            return lambda: None, {"start": file_hash(recipe.start_from)}
        if name == "teacher" or not self.o.warm:
            return lambda: None, {}
        network = self.roles.teacher
        return lambda: Start(self.translator("teacher").network, network), {"start": self.stages.done["teacher"].files["teacher.fit"]}

    def model_of(self, name: str) -> str:
        """Return the name of a network's model."""
        return self.roles.teacher if name == "teacher" else self.roles.student

    def translator(self, name: str) -> Translator:
        """Return a trained network with the current samplers of the program."""
        from .._load_fit import load_fit

        known = self.__dict__.setdefault("_translators", {})
        if name not in known:
            fit = load_fit(self.stages / f"{name}.fit", allow_python=self.o.allow_python)
            known[name] = Translator(self.models[self.model_of(name)], fit.params, self.pieces, direction=self.o.direction)
        return known[name]

    def distil(self) -> Done:
        """Write the teacher's translations of the sources, for training and validation."""
        done, name = self.stages.done, self.distiller
        weights = done["teacher"].files["teacher.fit"]
        inputs = {"teacher": weights, "sampler": self.sampler_digest(self.roles.teacher, name), "seed": self.o.seed}
        inputs |= {"sources": [done["clean"].files[f"clean/{part}.source"] for part in PARTS], "format": DISTILLED}

        def make(key: str) -> JsonObject:
            teacher, notes = self.translator("teacher"), {}
            options = {"identity": key, "sampler": name, "seed": self.o.seed}
            options |= {"mesh_axis": self.o.mesh_axis, "keep_chunks": True}
            for part in PARTS:
                sources = read_lines(self.stages / f"clean/{part}.source")
                tell = self.moved(f"distil {part}")
                found = distill(teacher, sources, self.stages / TRANSLATED[part], **options, tell=tell)
                notes[part] = found.as_dict() | {"warning": found.warning()}
                if warning := found.warning():
                    self.stages.tell(f"distil {part}: {warning}")
            return notes["train"] | {"sampler": name, "validation": notes["validation"]}

        done = self.stages.run("distil", inputs, list(TRANSLATED.values()), make)
        for text in TRANSLATED.values():
            # Chunks are removed only after both texts are recorded.
            shutil.rmtree(chunks_of(self.stages / text), ignore_errors=True)
        return done

    def sampler_digest(self, model: str, sampler: str) -> str:
        """Return a hash of everything that a decode depends on except the weights."""
        return digest_of(self.checked, self.program.bound.inputs, model, None, sampler)

    def moved(self, stage: str, every: int = 1, what: str = "lines") -> Callable[[int, int], None]:
        """Return a function that reports a stage's progress every `every` calls and at the end."""
        calls = count(1)

        def note(done: int, total: int) -> None:
            if next(calls) % every == 0 or done == total:
                self.stages.note({"stage": stage, "done": done, "of": total})
                self.stages.tell(f"{stage}: {done:,} of {total:,} {what}")

        return note


def told(fit: NetworkFit) -> JsonObject:
    """Return a summary of a training run."""
    losses = fit.loss_trace
    every = max(1, len(losses) // CURVE_POINTS)
    curve = [[k + every, float(np.mean(losses[k : k + every]))] for k in range(0, len(losses) - every + 1, every)]
    return {
        "steps": len(losses),
        "seconds_of_training": fit.meta["seconds"],
        "parameters": int(fit.summary()["total"]),
        "cells": fit.meta["cells"],
        "rows": fit.meta["rows"],
        "reason": fit.reason,
        "loss": curve,
        "validation": fit.validation_trace.tolist(),
    }
