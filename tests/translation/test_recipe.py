"""What a recipe cannot mean is refused before any text is read, by a pipeline and by a single training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refused
from test_pipeline import options_in

from gmlmdsl.program import check_file
from gmlmdsl.translation import Pipeline, TrainJob, train_translator
from gmlmdsl.translation._train_pairs import Recipe

pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"optimizer": "sgd"}, "adafactor, adam"),
        ({"optimizer": "adam", "learning_rate": -1.0}, "learning_rate must be above 0"),
        ({"precision": "float16"}, "float32"),
        ({"label_smoothing": 1.5}, "from 0 to below 1"),
    ],
)
def test_what_a_recipe_cannot_mean(tmp_path: Path, wrong: dict, said: str):
    options = options_in(tmp_path)
    refused("E704", lambda: Pipeline(replace(options, student=Recipe(**wrong))), said)
    job = TrainJob(check_file(options.program), "teacher", options.texts, tmp_path / "run", Recipe(**wrong))
    refused("E704", lambda: train_translator(job), said)
    assert not (tmp_path / "run").exists()


def test_a_start_is_a_path():
    refused("E507", Recipe(start_from=7).verify, "the path of a bundle")  # type: ignore[arg-type]


def test_what_counts_losses_of_validation_is_asked_with_the_text():
    Recipe(evaluate_every=5, patience=2, save_every=10).verify()
