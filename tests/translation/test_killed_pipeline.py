"""What is lost where a pipeline is killed between two files, and what a stage says it was made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refused
from test_pipeline import RECIPE, options_in

from gmlmdsl.train._training import TrainingBar
from gmlmdsl.translation import Pipeline, _kept_stages, _pipeline_stages
from gmlmdsl.translation._kept_stages import Done
from gmlmdsl.translation._train_pairs import Recipe

pytestmark = pytest.mark.usefixtures("standard_promotion")
SHORT = replace(RECIPE, steps=2, save_every=1)


def killed(*args, **options):
    raise KeyboardInterrupt


def with_text(pipeline: Pipeline) -> Pipeline:
    for stage in (pipeline.texts, pipeline.vocabulary, pipeline.clean):
        stage()
    return pipeline


@pytest.mark.slow
def test_what_is_done_is_not_lost_before_it_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Checkpoints and chunks stay until the record of their stage is written."""
    pipeline, begins, steps, write, distill = with_text(Pipeline(options_in(tmp_path))), TrainingBar.begins, [], _kept_stages.write_whole, _pipeline_stages.distill  # fmt: skip
    monkeypatch.setattr(TrainingBar, "begins", lambda self, width: (steps.append(width), begins(self, width)))

    def stopped(path: Path, content: bytes) -> None:
        (killed if Path(path).name == "teacher.json" else write)(path, content)

    monkeypatch.setattr(_kept_stages, "write_whole", stopped)
    with pytest.raises(KeyboardInterrupt):
        pipeline.train("teacher", "teacher", "clean", SHORT)
    monkeypatch.setattr(_kept_stages, "write_whole", write)
    assert len(steps) == 2
    pipeline.train("teacher", "teacher", "clean", SHORT)
    assert len(steps) == 2 and not list((pipeline.stages / "checkpoints").iterdir())

    monkeypatch.setattr(_pipeline_stages, "distill", lambda t, s, path, **o: (killed if "validation" in path.name else distill)(t, s, path, **o))  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        pipeline.distil()
    monkeypatch.setattr(_pipeline_stages, "distill", distill)
    assert pipeline.distil().notes["decoded"] == 0
    assert not list(pipeline.stages.folder.glob("*.chunks"))

    # a teacher none of whose translations of the validation text is whole
    empty = {f"distilled/validation.{side}": "" for side in ("source", "target")}
    (pipeline.stages / "distilled").mkdir()
    for side in ("source", "target"):
        (pipeline.stages / f"distilled/train.{side}").write_bytes((pipeline.stages / f"clean/train.{side}").read_bytes())
        (pipeline.stages / f"distilled/validation.{side}").write_text("")
    pipeline.stages.done["distilled"] = Done(empty, {}, 0.0, False, "")
    pipeline.train("student", "translate", "distilled", replace(SHORT, evaluate_every=1, patience=1))
    assert pipeline.stages.done["student"].notes["steps"] == 2 and pipeline.stages.done["student"].notes["validation"] == []


def test_the_save_points_that_are_averaged_are_part_of_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pipeline, keys = with_text(Pipeline(options_in(tmp_path))), []
    done = Done({}, {}, 0.0, True, "")
    monkeypatch.setattr(pipeline.stages, "run", lambda name, inputs, *rest: (keys.append(_kept_stages.hash_of(inputs)), done)[1])
    for recipe in (RECIPE, replace(RECIPE, save_every=5)):
        pipeline.train("teacher", "teacher", "clean", recipe)
        pipeline.train("teacher", "teacher", "clean", replace(recipe, average_last=2))
    assert keys[0] == keys[2] and keys[1] != keys[3]


def test_two_trainings_by_adam_share_what_is_compiled():
    assert Recipe(optimizer="adam").transformation() is Recipe(optimizer="adam", seed=1).transformation()


def test_a_validation_text_of_which_nothing_is_left_is_named(tmp_path: Path):
    options = options_in(tmp_path)
    for path in options.texts.validation:
        path.write_text(f"{'one two ' * 20}\n")
    pipeline = Pipeline(options)
    pipeline.texts()
    pipeline.vocabulary()
    refused("E505", pipeline.clean, "no pair of the validation text is left")
