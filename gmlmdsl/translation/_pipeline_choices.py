"""What a pipeline chooses by itself: the numbers of batches, and samplers.

A run with a time limit is divided between the trainings. The samplers are chosen on the validation
text: the teacher's for distillation, and the student's.

The teacher's sampler is the best of those with the most beams that are fast enough. The student's
sampler becomes the default of its bundle.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from .._types import JsonObject
from ._corpus import read_lines
from ._metrics import corpus_bleu, tokenisers_of
from ._programs import beams_of, digest_of, distillers
from ._train_pairs import Pairs, Recipe, train_pairs
from .limits import SCORED_LINES, TIMED_LINES, TRIAL_BATCHES, TRIAL_PEAK

if TYPE_CHECKING:
    from ..model import ConditionalModel
    from ._pipeline_stages import PipelineStages
    from ._translator import Translator
    from ._vocabulary import Vocabulary

SHARES = {"teacher": 22, "distil": 4, "student": 22}  # These shares are minutes per hour.


def split(p: PipelineStages) -> None:
    """Set the numbers of batches of teacher and student if the run has a time limit."""
    if p.o.minutes is None:
        return
    files = p.stages.done["clean"].files
    trained = {"teacher": (p.roles.teacher, p.o.teacher), "student": (p.roles.student, p.o.student)}
    digests = {name: digest_of(p.checked, p.program.bound.inputs, m, p.masks[m]) for name, (m, _) in trained.items()}
    inputs = {"minutes": p.o.minutes, "models": digests, "vocabulary": p.pieces.sha256}
    inputs |= {"recipes": [_tried(recipe).__dict__ for _, recipe in trained.values()]}
    inputs |= {"text": [files["clean/train.source"], files["clean/train.target"]]}

    def make(_: str) -> JsonObject:
        pairs, found = p.pairs("clean/train"), {}
        for name, (model, recipe) in trained.items():
            seconds = seconds_per_batch(p.models[model], p.masks[model], p.pieces, pairs, recipe)
            found[name] = {"seconds_per_batch": seconds, "batches": batches_within(p.o.minutes or 0.0, name, seconds)}
            p.stages.tell(f"split: {name}, {found[name]['batches']:,} batches of {seconds:.3f} s")
        return found

    notes = p.stages.run("split", inputs, [], make).notes
    steps = {name: int(notes[name]["batches"]) for name in trained}
    teacher, student = (replace(recipe, steps=steps[name]) for name, (_, recipe) in trained.items())
    p.o = replace(p.o, teacher=teacher, student=student)


def batches_within(minutes: float, part: str, seconds: float) -> int:
    """Return how many batches fit into a part's share of the run's time, at least one.

    A share of s minutes per hour is s seconds per minute.

    Args:
        minutes: the time of the run.
        part: the name of the part in `SHARES`.
        seconds: the time of a batch.
    """
    return max(1, int(minutes * SHARES[part] / seconds))


def seconds_per_batch(model: ConditionalModel, mask: str, vocabulary: Vocabulary, pairs: Pairs, recipe: Recipe) -> float:
    """Return the time of a batch in a short training run.

    It is the smallest of the mean times between two entries of the log, so that compilation is left
    out.

    Args:
        model: the model.
        mask: the name of the mask.
        vocabulary: the vocabulary.
        pairs: the pairs to train on.
        recipe: how the network is trained.
    """
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        train_pairs(model, mask, vocabulary, pairs, [], _tried(recipe), log=log, progress=False)
        looks = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    steps, seconds = ([0, *(look[what] for look in looks)] for what in ("step", "seconds"))
    return min((seconds[k] - seconds[k - 1]) / (steps[k] - steps[k - 1]) for k in range(1, len(steps)))


def _tried(recipe: Recipe) -> Recipe:
    """Return the recipe of a trial, whose batches cost as much as those of the recipe."""
    plain = {"warmup": None, "evaluate_every": None, "patience": None, "save_every": None, "average_last": None, "start_from": None}
    return replace(recipe, steps=TRIAL_BATCHES, learning_rate=TRIAL_PEAK, seed=0, **plain)


def choose_distiller(p: PipelineStages) -> None:
    """Set the sampler of a pipeline's teacher that distils; the choice is stored and reused.

    If the run has a time limit, samplers are timed, most beams first, until one fits into the share
    of distillation. If none fits, the last one is taken. Other samplers may have equally many
    beams, for example with another length penalty. Then all of them translate the first 500 lines
    of the validation text, and the sampler with the highest BLEU distils. Among samplers of equal
    BLEU, the first in the file is taken.

    Args:
        p: a pipeline whose teacher is trained.
    """
    names = distillers(p.checked, p.roles.teacher, p.o.teacher_sampler)
    beams = {name: beams_of(p.checked, name) for name in names}
    if len(names) < 2 or (p.o.minutes is None and len(alike(names[0], beams)) < 2):
        return
    files = p.stages.done["clean"].files
    inputs: JsonObject = {"minutes": p.o.minutes, "teacher": p.stages.done["teacher"].files["teacher.fit"]}
    inputs |= {"source": files["clean/train.source"], "validation": [files[f"clean/validation.{side}"] for side in ("source", "target")]}
    inputs |= {"samplers": {name: p.sampler_digest(p.roles.teacher, name) for name in names}, "seed": p.o.seed, "measure": measure_of(p)}

    def make(_: str) -> JsonObject:
        seconds = {} if p.o.minutes is None else timed(p, names, SHARES["distil"] * p.o.minutes)
        equals = alike([*seconds][-1] if seconds else names[0], beams)
        bleu = scored(p, "teacher", equals, "distiller") if len(equals) > 1 else {}
        return {"seconds": seconds, measure_of(p): bleu, "sampler": max(equals, key=lambda name: bleu.get(name, 0.0))}

    p.distiller = p.stages.run("distiller", inputs, [], make).notes["sampler"]


def alike(name: str, beams: dict[str, int | None]) -> list[str]:
    """Return the samplers with as many beams as the named one, including itself."""
    return [other for other in beams if beams[other] == beams[name]]


def timed(p: PipelineStages, names: Sequence[str], share: float) -> dict[str, float]:
    """Return the estimated time that each sampler takes for the training text, in seconds.

    The samplers are tried in order up to the first that takes at most `share` seconds.
    """
    lines, found = read_lines(p.stages / "clean/train.source"), {}
    for name in names:
        found[name] = seconds_of(p.translator("teacher"), name, lines)
        p.stages.tell(f"distiller: `{name}` takes {found[name] / 60:.1f} minutes")
        if found[name] <= share:
            break
    return found


def choose_students(p: PipelineStages, names: Sequence[str]) -> str | None:
    """Return the default sampler of the student's bundle; the choice is stored and reused.

    If several samplers are compared, it is the one with the highest BLEU on the first 500 lines of
    the validation text. Among samplers of equal BLEU, the first in the file is taken.

    Args:
        p: a pipeline whose student is trained.
        names: the names of the samplers that are compared.
    """
    if len(names) < 2:
        return next(iter(names), None)
    files = p.stages.done["clean"].files
    inputs: JsonObject = {"student": p.stages.done["student"].files["student.fit"], "seed": p.o.seed}
    inputs |= {"validation": [files[f"clean/validation.{side}"] for side in ("source", "target")]}
    inputs |= {"samplers": {name: p.sampler_digest(p.roles.student, name) for name in names}, "measure": measure_of(p)}

    def make(_: str) -> JsonObject:
        bleu = scored(p, "student", names, "choose-student")
        return {measure_of(p): bleu, "sampler": max(names, key=lambda name: bleu.get(name, 0.0))}

    return p.stages.run("choose-student", inputs, [], make).notes["sampler"]


def measure_of(p: PipelineStages) -> str:
    """Return the score that decides between samplers.

    It is BLEU 13a, or BLEU under the tokeniser of a language without spaces.
    """
    return f"BLEU {tokenisers_of(p.o.direction.rpartition('-')[2])[0]}"


def scored(p: PipelineStages, network: str, names: Sequence[str], stage: str) -> dict[str, float]:
    """Return BLEU of each of a network's samplers on the first lines of the validation text.

    The result is empty if there are no validation lines.

    Args:
        p: a pipeline whose network is trained.
        network: the name of the network.
        names: the names of the samplers.
        stage: the name of the stage, for messages.
    """
    pairs = p.pairs("clean/validation")[:SCORED_LINES]
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    found = {}
    for name in names if pairs else ():
        outputs = p.translator(network).translate(sources, sampler=name, seed=p.o.seed, cut=True)
        found[name] = corpus_bleu([t.text for t in outputs], references, measure_of(p).removeprefix("BLEU "))
        p.stages.tell(f"{stage}: `{name}` has {found[name]:.2f} BLEU on {len(pairs):,} lines of the validation text")
    return found


def seconds_of(teacher: Translator, sampler: str, lines: Sequence[str]) -> float:
    """Return the estimated seconds of a sampler for all lines.

    A sample of lines, spread over the text, is translated twice. The second time counts, because it
    contains no compilation.
    """
    some = lines[:: max(1, len(lines) // TIMED_LINES)]
    for _ in range(2):
        started = time.perf_counter()
        teacher.translate(some, sampler=sampler, cut=True)
        seconds = time.perf_counter() - started
    return seconds * len(lines) / len(some)
