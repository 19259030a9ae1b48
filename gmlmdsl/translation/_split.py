"""How the minutes of a run are divided: batches of the teacher and of the student.

A student can be no better than its teacher, and learns from what that one translates: both get the
same share, distillation a small one, and what is left is for text, scores and times. Trials of a
few batches say what a share buys; they are made once, and kept.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ._programs import digest_of
from ._train_pairs import Pairs, Recipe, train_pairs

if TYPE_CHECKING:
    from ..model import ConditionalModel
    from ._pipeline_stages import PipelineStages
    from ._vocabulary import Vocabulary

SHARES = {"teacher": 22, "distil": 4, "student": 22}  # minutes of an hour
TRIED = 60  # batches of a trial
NO_PEAK = 1e-5  # learning rate of a trial, whose weights nobody wants


def split(p: PipelineStages) -> None:
    """Where a run has so many minutes, set the batches of its teacher and its student."""
    if p.o.minutes is None:
        return
    files = p.stages.done["clean"].files
    trained = {"teacher": (p.roles.teacher, p.o.teacher), "student": (p.roles.student, p.o.student)}
    digests = {name: digest_of(p.checked, p.program.bound.inputs, m, p.masks[m]) for name, (m, _) in trained.items()}
    inputs = {"minutes": p.o.minutes, "models": digests, "vocabulary": p.pieces.sha256}
    inputs |= {"recipes": [_tried(recipe).__dict__ for _, recipe in trained.values()]}
    inputs |= {"text": [files["clean/train.source"], files["clean/train.target"]]}

    def make(_: str) -> dict[str, Any]:
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
    """How many batches of so many seconds fit into a part's share of so many minutes; one at the least.

    A share of s minutes in an hour is s seconds of each minute.
    """
    return max(1, int(minutes * SHARES[part] / seconds))


def seconds_per_batch(model: ConditionalModel, mask: str, vocabulary: Vocabulary, pairs: Pairs, recipe: Recipe) -> float:
    """Of a short training: the least mean over the batches between two looks, so that what is compiled is left out."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        train_pairs(model, mask, vocabulary, pairs, [], _tried(recipe), log=log, progress=False)
        looks = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    steps, seconds = ([0, *(look[what] for look in looks)] for what in ("step", "seconds"))
    return min((seconds[k] - seconds[k - 1]) / (steps[k] - steps[k - 1]) for k in range(1, len(steps)))


def _tried(recipe: Recipe) -> Recipe:
    """As a trial trains: what a batch costs is as it was."""
    plain = {"warmup": None, "evaluate_every": None, "patience": None, "save_every": None, "average_last": None, "start_from": None}
    return replace(recipe, steps=TRIED, learning_rate=NO_PEAK, seed=0, **plain)
