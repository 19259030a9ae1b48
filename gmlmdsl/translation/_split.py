"""The division of a run's time: the numbers of batches of the teacher and of the student.

A student can be no better than its teacher, since it learns from the teacher's translations. Both
get equal shares of the time, and distillation a small one. The remaining time is for text, scores
and times. Trials of a few batches estimate how many batches fit into a share. The trials are run
once, and their results are stored.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from .._types import JsonObject
from ._programs import digest_of
from ._train_pairs import Pairs, Recipe, train_pairs
from .limits import TRIAL_BATCHES, TRIAL_PEAK

if TYPE_CHECKING:
    from ..model import ConditionalModel
    from ._pipeline_stages import PipelineStages
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
