"""Which of the teacher's samplers distils: quick enough, of most beams, and of those the best on the validation text."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_pipeline import RECIPE, options_in
from translation_cases import PROGRAM

from gmlmdsl.program import check_file
from gmlmdsl.report._translation_report import _chosen
from gmlmdsl.translation import Pipeline, PipelineOptions, _pipeline_choices, read_pairs
from gmlmdsl.translation._metrics import corpus_bleu
from gmlmdsl.translation._pipeline_choices import choose_distiller
from gmlmdsl.translation._programs import by_beams

pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory):
    """The options of a run whose teacher is trained."""
    import jax

    options = options_in(tmp_path_factory.mktemp("teacher"))
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        through(Pipeline(options))
    return options


def through(pipeline: Pipeline) -> Pipeline:
    """The stages before the sampler that distils is chosen."""
    for stage in (pipeline.texts, pipeline.vocabulary, pipeline.clean):
        stage()
    pipeline.train("teacher", "teacher", "clean", RECIPE)
    return pipeline


def with_samplers(trained: PipelineOptions, tmp_path: Path, more: str, lines: list[str]) -> Pipeline:
    """The same run in another folder, whose teacher has these samplers too."""
    program = tmp_path / "more.gmlm"
    program.write_text(trained.program.read_text() + more)
    shutil.copytree(trained.folder, tmp_path / "run")
    return through(Pipeline(replace(trained, program=program, folder=tmp_path / "run"), lines.append))


def beam(name: str, beams: int, penalty: float = 0.6) -> str:
    return f"sampler {name} for teacher = autoregressive(end = 1, beam = {beams}, length_penalty = {penalty})\n"


@pytest.mark.slow
def test_of_as_many_beams_the_best_on_the_validation_text_distils(trained, tmp_path: Path):
    lines: list[str] = []
    pipeline = with_samplers(trained, tmp_path, beam("wide", 4) + beam("longer", 4, 2.0), lines)
    choose_distiller(pipeline)
    pairs = read_pairs(pipeline.stages / "clean/validation.source", pipeline.stages / "clean/validation.target")
    teacher, bleu = pipeline.translator("teacher"), {}
    for name in ("wide", "longer"):
        outputs = teacher.translate([source for source, _ in pairs], sampler=name)
        bleu[name] = corpus_bleu([o.text for o in outputs], [target for _, target in pairs], "13a")
    best = max(bleu, key=lambda name: bleu[name])
    assert pipeline.stages.done["distiller"].notes == {"seconds": {}, "BLEU 13a": bleu, "sampler": best} and pipeline.distiller == best
    assert any("`longer` has" in line and f"on {len(pairs)} lines of the validation text" in line for line in lines)
    assert Pipeline(replace(pipeline.o, teacher_sampler="beam")).distiller == "beam"


@pytest.mark.parametrize(
    ("minutes", "seconds", "bleu", "chosen"),
    [
        (None, {}, {"wide": 5.0, "longer": 5.0}, "wide"),
        (None, {}, {"wide": 5.0, "longer": 6.0}, "longer"),
        (10.0, {"wide": 40.0}, {"wide": 5.0, "longer": 6.0}, "longer"),  # the share is 40 s
        (10.0, {"wide": 41.0, "longer": 41.0, "beam": 40.0}, {}, "beam"),
        (10.0, {"wide": 41.0, "longer": 41.0, "beam": 41.0, "greedy": 41.0}, {}, "greedy"),
    ],
)
def test_what_distils_is_quick_enough(trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes, seconds, bleu, chosen):
    greedy = "sampler greedy for teacher = autoregressive(end = 1)\n"
    pipeline = with_samplers(trained, tmp_path, greedy + beam("wide", 4) + beam("longer", 4, 2.0), [])
    pipeline.o = replace(pipeline.o, minutes=minutes)
    monkeypatch.setattr(_pipeline_choices, "seconds_of", lambda teacher, sampler, lines: seconds[sampler])
    monkeypatch.setattr(_pipeline_choices, "scored", lambda p, network, names, stage: {name: bleu[name] for name in names})
    choose_distiller(pipeline)
    assert pipeline.distiller == chosen


def test_samplers_by_beams(tmp_path: Path):
    (tmp_path / "some.gmlm").write_text(PROGRAM + "sampler greedy for teacher = autoregressive(end = 1)\nsampler wide for teacher = autoregressive(end = 1, beam = 5)\n")  # fmt: skip
    assert by_beams(check_file(tmp_path / "some.gmlm"), "teacher") == ["wide", "beam", "greedy"]


def test_a_language_without_spaces_is_compared_by_its_own_tokens():
    def of(direction: str):
        spoken = [SimpleNamespace(text="我喜欢猫。他走了")]
        translator = SimpleNamespace(translate=lambda *_, **more: spoken)
        stages = SimpleNamespace(tell=lambda line: None)
        return SimpleNamespace(o=SimpleNamespace(direction=direction, seed=0), stages=stages, pairs=lambda _: [("", "我喜欢狗。他走了")], translator=lambda _: translator)  # fmt: skip

    chinese, german = of("en-zh"), of("en-de")
    assert (
        _pipeline_choices.scored(chinese, "teacher", ["beam"], "")["beam"]
        > 30
        > _pipeline_choices.scored(german, "teacher", ["beam"], "")["beam"]
    )
    assert [_pipeline_choices.measure_of(of(d)) for d in ("en-zh", "en-ja", "en-de", "")] == [
        "BLEU zh",
        "BLEU char",
        "BLEU 13a",
        "BLEU 13a",
    ]
    shown = []
    report = SimpleNamespace(table=lambda headers, rows, *_, **more: shown.append((headers, rows)))
    _chosen(report, {"choose-student": {"BLEU zh": {"refine": 20.5}, "sampler": "refine"}})  # type: ignore[arg-type]
    assert shown == [(["sampler", "BLEU zh on validation text", ""], [["`refine`", 20.5, "chosen"]])]
