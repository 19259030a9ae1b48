"""Which text is for what: rows that are held out, and what is not trained on since it is validated or scored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refused
from test_pipeline import options_in
from translation_cases import toy_pairs, write_texts

import gmlmdsl as gm
from gmlmdsl.program import check_file
from gmlmdsl.translation import Pipeline, Texts, TrainJob, _job, train_translator
from gmlmdsl.translation._corpus import Texts as OnlyTexts
from gmlmdsl.translation._corpus import without_overlap

pytestmark = pytest.mark.usefixtures("standard_promotion")


def test_a_training_leaves_out_what_it_is_validated_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    options = options_in(tmp_path)
    seen, lines = [], []

    def stop(model, mask, vocabulary, pairs, validation, *rest, **more):
        seen.append(({s for s, _ in pairs}, {s for s, _ in validation}))
        raise KeyboardInterrupt

    monkeypatch.setattr(_job, "train_pairs", stop)
    with pytest.raises(KeyboardInterrupt):
        train_translator(TrainJob(check_file(options.program), "translate", options.texts, tmp_path / "out"), lines.append)
    (trained, validated) = seen[0]
    assert trained and validated and not trained & validated
    given = options.texts.read_given()
    overlap = sum(s in {v for v, _ in given["validation"]} for s, _ in given["train"])
    assert overlap and f"left out before: {overlap} pairs whose source is one of validation" in lines[0]


def test_white_space_makes_no_other_source() -> None:
    found = {"train": [("a  b", "x"), ("a\u00a0b ", "y"), ("ab", "z")], "validation": [], "test": [("a b", "x")]}
    assert without_overlap(found) == ({**found, "train": [("ab", "z")]}, 2)


def test_few_pairs_leave_some_to_score_or_are_refused(tmp_path: Path) -> None:
    pairs = toy_pairs(15)
    files = write_texts(tmp_path, "few", pairs)
    found = Texts(files).read(0)
    assert {k: len(v) for k, v in found.items()} == {"train": 13, "validation": 1, "test": 1}
    with pytest.raises(gm.GmlmError, match="2 pairs are too few to hold any out"):
        Texts(write_texts(tmp_path, "fewer", pairs[:2])).read(0)


def test_rows_are_held_out_and_sides_change_places(tmp_path: Path):
    pairs = [(f"one {k}", f"eins {k}") for k in range(100)]
    found = OnlyTexts(write_texts(tmp_path, "all", pairs)).read(0)
    assert [len(found[k]) for k in ("train", "validation", "test")] == [90, 5, 5]
    assert sorted(p for part in found.values() for p in part) == sorted(pairs)
    assert OnlyTexts(write_texts(tmp_path, "all", pairs)).read(1) != found
    turned = OnlyTexts(write_texts(tmp_path, "all", pairs), limit=3, reverse=True).pairs()
    assert turned == [("eins 0", "one 0"), ("eins 1", "one 1"), ("eins 2", "one 2")]
    refused("E584", lambda: OnlyTexts((tmp_path / "a", tmp_path / "b", tmp_path / "c")).pairs(), "there are 3")


def test_text_of_which_every_source_is_scored_is_refused(tmp_path: Path):
    options = options_in(tmp_path)
    same = replace(options, texts=Texts(options.texts.test, options.texts.validation, options.texts.test))
    refused("E505", lambda: Pipeline(same).texts(), "8 pairs", "none is left")
