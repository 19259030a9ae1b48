"""The pipeline: made once, kept afterwards, made anew where something changed, gone on with where it was killed; and its report."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from translation_cases import PROGRAM, toy_pairs, write_texts

import gmlmdsl as gm
from gmlmdsl.files import alone
from gmlmdsl.program import check_file
from gmlmdsl.report import translation_report
from gmlmdsl.train._checkpoints import Checkpoints
from gmlmdsl.train._training import TrainingBar
from gmlmdsl.translation import (
    Pipeline,
    PipelineOptions,
    Texts,
    TrainJob,
    _distill,
    _pipeline_choices,
    _pipeline_stages,
    _results,
    evaluate,
    read_lines,
    read_pairs,
    train_translator,
)
from gmlmdsl.translation._bundle import load_translator
from gmlmdsl.translation._corpus import Texts as OnlyTexts
from gmlmdsl.translation._distill import Distilled, distill, loops
from gmlmdsl.translation._kept_stages import Stages
from gmlmdsl.translation._train_pairs import Recipe
from gmlmdsl.translation._translation import Translation

pytestmark = pytest.mark.usefixtures("standard_promotion")
RECIPE = Recipe(steps=30, batch_size=16, optimizer="adam", learning_rate=0.02, save_every=10)


def options_in(folder: Path, **more) -> PipelineOptions:
    folder.mkdir(exist_ok=True)
    program = folder / "toy.gmlm"
    if not program.exists():
        program.write_text(PROGRAM.replace("= 40", "= 28").replace("= 30", "= 28"))
    texts = Texts(write_texts(folder, "train", toy_pairs(120)), write_texts(folder, "val", toy_pairs(10, 1)), write_texts(folder, "test", toy_pairs(8, 2)))  # fmt: skip
    made: dict = {
        "program": program,
        "texts": texts,
        "folder": folder / "run",
        "teacher": RECIPE,
        "student": RECIPE,
        "measured": 2,
        "raw": True,
    }
    return PipelineOptions(**made | {"direction": "en-de", "progress": False} | more)


@pytest.fixture(scope="module")
def promotion():
    import jax

    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, promotion):
    """A run that nothing disturbed: its folder, its options, what it says."""
    folder = tmp_path_factory.mktemp("whole")
    options = options_in(folder)
    return folder, options, Pipeline(options).run()


def copied(whole, tmp_path: Path) -> PipelineOptions:
    """The same run in another folder."""
    folder, options, _ = whole
    shutil.copytree(folder / "run", tmp_path / "run")
    return replace(options, folder=tmp_path / "run")


def kept(content: dict) -> set[str]:
    return {name for name, stage in content["stages"].items() if stage["kept"]}


def test_all_is_made_and_translates(whole):
    folder, _, content = whole
    run = folder / "run"
    assert set(content["scores"]) == {"teacher.beam", *(f"{n}.refine{way}" for n in ("student", "raw") for way in ("", "-reranked"))}
    assert content["scores"]["student.refine"]["scores"][0]["signature"].startswith("nrefs:1|case:mixed")
    assert content["text"] == {"train": 51, "validation": 10, "test": 8, "overlap": 69}
    assert content["cleaning"]["text"]["train"]["duplicate"] > 0
    assert len(read_lines(run / "distilled.target")) == content["cleaning"]["text"]["train"]["kept"]
    for name in ("teacher", "student", "raw"):
        assert len(load_translator(run / f"{name}.bundle").translate(["one two"])) == 1
    assert not list((run / "checkpoints").iterdir())  # they are needed until a training ends
    students = read_pairs(run / "distilled" / "validation.source", run / "distilled" / "validation.target")
    teacher = dict(zip(read_lines(run / "clean" / "validation.source"), read_lines(run / "distilled-validation.target"), strict=True))
    assert students and all(teacher[s] == t for s, t in students)  # its own validation is of what it learns
    inputs = {n: json.loads((run / "stages" / f"{n}.json").read_text())["inputs"] for n in ("teacher", "student", "raw")}
    assert [set(i["data"]) & {f"{t}/validation.target" for t in ("clean", "distilled")} for i in inputs.values()] == [{"clean/validation.target"}, {"distilled/validation.target"}, {"clean/validation.target"}]  # fmt: skip
    sources = {part: {s for s, _ in read_pairs(run / "text" / f"{part}.source", run / "text" / f"{part}.target")} for part in ("train", "validation", "test")}  # fmt: skip
    assert not sources["train"] & (sources["validation"] | sources["test"])
    assert [content["training"][n].get("start", "").partition(":")[0] for n in inputs] == ["", *["translate starts from teacher"] * 2]
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [e["stage"] for e in events if e["event" if "event" in e else "stage"] == "finished"] == list(content["stages"])
    assert json.loads((run / "report.json").read_text())["scores"] == content["scores"]


def test_a_second_call_keeps_all(whole):
    _, options, first = whole
    again = Pipeline(options).run()
    assert kept(again) == set(again["stages"])
    assert again["scores"] == first["scores"]


@pytest.mark.slow  # what was changed by hand is below
def test_a_changed_sampler_trains_nothing_anew(whole, tmp_path: Path):
    options = copied(whole, tmp_path)
    edited = tmp_path / "toy.gmlm"
    edited.write_text(options.program.read_text().replace("start = hide, steps = 2", "start = hide, steps = 1"))
    again = Pipeline(replace(options, program=edited)).run()
    assert set(again["stages"]) - kept(again) == {*(f"evaluate-{n}-refine{w}" for n in ("student", "raw") for w in ("", "-reranked")), "bundle-teacher", "bundle-student", "bundle-raw", "pictures", "attention", "latency"}  # fmt: skip


def test_what_was_changed_by_hand_is_made_anew(whole, tmp_path: Path):
    options = copied(whole, tmp_path)
    (options.folder / "clean" / "train.target").write_text("eins\n")
    (options.folder / "vocabulary.model").unlink()
    stages = Pipeline(options)
    stages.texts()
    assert not stages.vocabulary().kept and not stages.clean().kept
    assert len(read_lines(options.folder / "clean" / "train.target")) > 1


def test_a_restart_forgets_what_was_made(whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    options = copied(whole, tmp_path)
    left = options.folder / "distilled.target.chunks"
    left.mkdir()
    monkeypatch.setattr(Pipeline, "vocabulary", lambda self: (_ for _ in ()).throw(InterruptedError))
    for restart in (False, True):
        p = Pipeline(replace(options, restart=restart))
        with pytest.raises(InterruptedError):
            p.run()
        assert p.stages.done["text"].kept is not restart
        assert (left.exists(), (options.folder / "checkpoints").exists(), (options.folder / "stages" / "teacher.json").exists()) == (
            not restart,
        ) * 3
    other = replace(options.texts, train=write_texts(tmp_path, "other", toy_pairs(50, 7)))
    assert not Pipeline(replace(options, texts=other, restart=False)).stages.done
    with pytest.raises(InterruptedError):
        Pipeline(replace(options, texts=other, restart=True)).run()


def test_a_learnt_measure_scores_all_again_and_trains_nothing(whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    options, asked = copied(whole, tmp_path), []
    refused("E576", lambda: Pipeline(replace(options, learnt=tmp_path / "none.ckpt")), "none.ckpt")
    monkeypatch.setattr(_pipeline_stages, "verify_learnt", asked.append)
    monkeypatch.setattr(_results, "evaluate", lambda *a, learnt, **o: (asked.append(learnt), evaluate(*a, **o))[1])
    again = Pipeline(replace(options, learnt=tmp_path / "a.ckpt")).run()
    assert asked == [tmp_path / "a.ckpt"] * (1 + len(again["scores"]))
    assert {s for s in again["stages"] if s.startswith("evaluate")} <= set(again["stages"]) - kept(again) and "teacher" in kept(again)


@pytest.mark.produces("E752")
def test_the_folder_of_a_run_on_other_text_is_refused(whole, tmp_path: Path):
    options = copied(whole, tmp_path)
    before = {p.name: p.read_bytes() for p in options.folder.iterdir() if p.is_file()}
    other = replace(options.texts, train=write_texts(tmp_path, "other", toy_pairs(50, 7)))
    refused("E752", lambda: Pipeline(replace(options, texts=other)).run(), "on other files", "another folder")
    turned = replace(options.texts, reverse=True)
    refused("E752", lambda: Pipeline(replace(options, texts=turned)).run(), "the other direction")
    assert before == {p.name: p.read_bytes() for p in options.folder.iterdir() if p.is_file()}


def test_minutes_are_split(whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    options = replace(copied(whole, tmp_path), minutes=10.0)
    rates = {"teacher": 0.5, "translate": 2.0}
    monkeypatch.setattr(_pipeline_choices, "seconds_per_batch", lambda model, *rest: rates[model.name])
    for rate in (1.0, 9.0):  # what a second call would measure changes nothing
        pipeline = Pipeline(options)
        for stage in (pipeline.texts, pipeline.vocabulary, pipeline.clean):
            stage()
        _pipeline_choices.split(pipeline)
        # 22 of 60 minutes each, of which ten have 220 s
        assert (pipeline.o.teacher, pipeline.o.student) == (replace(RECIPE, steps=440), replace(RECIPE, steps=110))
        rates = {"teacher": rate, "translate": rate}


@pytest.mark.slow
def test_a_trial_leaves_out_what_is_compiled(whole, tmp_path: Path):
    pipeline = Pipeline(copied(whole, tmp_path))
    for stage in (pipeline.texts, pipeline.vocabulary, pipeline.clean):
        stage()
    started = time.perf_counter()
    found = _pipeline_choices.seconds_per_batch(
        pipeline.models["teacher"], "forced", pipeline.pieces, pipeline.pairs("clean/train"), RECIPE
    )
    assert 0 < found < (time.perf_counter() - started) / (2 * _pipeline_choices.TRIAL_BATCHES)
    pipeline.train("teacher", "teacher", "clean", RECIPE)
    assert _pipeline_choices.seconds_of(pipeline.translator("teacher"), "beam", ["one two"] * 100) > 0


@pytest.mark.slow
def test_a_killed_training_goes_on_bit_for_bit(whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder, options, _ = whole
    options = replace(options, folder=tmp_path / "run", raw=False)
    save, begins, calls, steps = Checkpoints.save, TrainingBar.begins, [], []

    def killed(self, step, state, notes):
        save(self, step, state, notes)
        calls.append(step)
        if step == 20:
            raise KeyboardInterrupt

    def ended(self, width):
        begins(self, width)
        steps.append(width)
        if len(steps) == 15:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Checkpoints, "save", killed)
    monkeypatch.setattr(TrainingBar, "begins", ended)
    with pytest.raises(SystemExit) as caught:
        Pipeline(options).run()
    assert caught.value.code == 143 and calls == [10, 15] and len(steps) == 15  # asked to end, it saves and does
    with pytest.raises(KeyboardInterrupt):
        Pipeline(options).run()
    assert calls == [10, 15, 20]
    last = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])
    assert last["stage"] == "teacher" and last["event"] == "failed"
    pipeline = Pipeline(options)
    for stage in (pipeline.texts, pipeline.vocabulary, pipeline.clean):
        assert stage().kept
    pipeline.train("teacher", "teacher", "clean", options.teacher)
    assert calls == [10, 15, 20, 30]
    with np.load(tmp_path / "run" / "teacher.fit") as here, np.load(folder / "run" / "teacher.fit") as there:
        for name in there.files:
            if name.startswith("param:"):
                np.testing.assert_array_equal(here[name], there[name])


def test_a_killed_distillation_keeps_what_is_done(whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = whole[0]
    teacher = load_translator(folder / "run" / "teacher.bundle")
    sources = ["one two", "", "dog", "cat runs", "red"]
    monkeypatch.setattr(_distill, "CHUNK_LINES", 2)

    def stops(done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(teacher, sources, tmp_path / "out.de", identity="a", tell=stops)
    assert not (tmp_path / "out.de").exists()
    chunk = tmp_path / "out.de.chunks" / "000001.json"
    chunk.write_text(chunk.read_text()[:-5])  # cut off
    found = distill(teacher, sources, tmp_path / "out.de", identity="a")
    assert (found.lines, found.decoded) == (5, 3)
    plain = teacher.translate(sources)
    assert any(not t.ended for t in plain) and read_lines(tmp_path / "out.de") == [t.text if t.ended else "" for t in plain]
    assert (found.unended, found.looping, found.empty) == (sum(not t.ended for t in plain), 0, sum(not t.text for t in plain))
    assert not (tmp_path / "out.de.chunks").exists()


def test_chunks_of_another_teacher_do_not_count(whole, tmp_path: Path):
    folder, _, _ = whole
    teacher = load_translator(folder / "run" / "teacher.bundle")

    def stops(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(teacher, ["one"], tmp_path / "out.de", identity="a", tell=stops)
    assert distill(teacher, ["one"], tmp_path / "out.de", identity="b").decoded == 1


def test_a_full_disk_loses_nothing(whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    options = copied(whole, tmp_path)
    (options.folder / "clean" / "train.source").unlink()
    real = os.fsync

    def full(*args, **more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("gmlmdsl.files._whole_files.os.fsync", full)
    refused("E560", lambda: Pipeline(options).run(), "No space left")
    monkeypatch.setattr("gmlmdsl.files._whole_files.os.fsync", real)
    again = Pipeline(options).run()
    assert set(again["stages"]) - kept(again) == {"clean"}  # made anew, and the same: what follows is kept


def test_what_teaches_nothing_is_left_out():
    assert loops("a dog dog dog") and loops("x a b a b a b y") and loops("a b c d a b c d a b c d")
    assert not loops("dog dog") and not loops("a b a b") and not loops("a a b b a a") and not loops("")
    texts = {"one": "eins eins eins", "no no no": "nein nein nein", "red": "", "two": "zwei", "cat": "katze katz"}
    found = [Translation(t, 0.0, (), ((t, 0.0),), 1, ended=s != "cat") for s, t in texts.items()]
    assert _distill._left(list(texts), found) == {"texts": ["", "nein nein nein", "", "zwei", ""], "empty": 1, "unended": 1, "cut": 0, "looping": 1}  # fmt: skip
    assert "3 of 200 translations (1.5 %)" in Distilled(200, 0, 2, 200, looping=1).warning()
    assert Distilled(200, 9, 1, 200, looping=1).warning() == ""


@pytest.mark.produces("E588")
def test_one_run_at_a_time(whole, tmp_path: Path):
    folder, options, _ = whole
    texts = OnlyTexts(options.texts.train)
    job = TrainJob(check_file(options.program), "teacher", texts, tmp_path / "run", RECIPE, vocabulary=folder / "run" / "vocabulary.model")
    teacher = load_translator(folder / "run" / "teacher.bundle")
    run, chunks = replace(options, folder=tmp_path / "run"), tmp_path / "out.de.chunks"
    with alone(tmp_path / "run"), alone(chunks):
        refused("E588", lambda: alone(tmp_path / "run").__enter__(), "another run")
        refused("E588", lambda: train_translator(job))
        refused("E588", lambda: Pipeline(run).run())
        refused("E588", lambda: distill(teacher, ["one"], tmp_path / "out.de", identity="x"))
    assert not (tmp_path / "run").exists() and not chunks.exists()  # nothing was written there
    (tmp_path / "run").mkdir()
    with alone(tmp_path / "run"):
        pass
    assert list((tmp_path / "run").iterdir()) == []
    with alone(tmp_path / "kept"):
        (tmp_path / "kept" / "log").touch()
    assert [p.name for p in (tmp_path / "kept").iterdir()] == ["log"]


def test_text_that_is_too_small_for_the_vocabulary_names_the_inputs(tmp_path: Path):
    options = options_in(tmp_path, inputs={"V": 4000})
    with pytest.raises(gm.GmlmError, match=r"E570.* at most(?s:.*)take (\d+) or fewer: `--input V=\1`, say"):
        Pipeline(options).run()


def test_a_folder_that_cannot_be_made(tmp_path: Path):
    (tmp_path / "file").write_text("")
    refused("E560", lambda: Stages(tmp_path / "file" / "run").run("a", {}, [], lambda key: None))


@pytest.mark.produces("E587")
def test_a_teacher_that_finds_no_end_is_named(whole, tmp_path: Path):
    options = copied(whole, tmp_path)
    pipeline = Pipeline(options)
    for stage in (pipeline.texts, pipeline.vocabulary, pipeline.clean):
        stage()
    pipeline.train("teacher", "teacher", "clean", options.teacher)
    pipeline.distil()
    lines = len(read_lines(options.folder / "distilled.target"))
    (options.folder / "distilled.target").write_text("eins eins eins eins eins eins eins eins eins\n" * lines)
    pipeline.stages.done["distil"].files["distilled.target"] = "changed"
    refused("E587", pipeline.clean_distilled, "hardly trained")


def test_mistakes_are_found_before_anything_is_made(tmp_path: Path):
    options = options_in(tmp_path, samplers=("fast",))
    refused("E506", lambda: Pipeline(options), "fast")
    refused("E506", lambda: Pipeline(replace(options, samplers=(), teacher_sampler="refine")))
    (tmp_path / "one.gmlm").write_text(PROGRAM.replace(", causal = true", "").replace("autoregressive(end = 1, beam = 3)", "padir()"))
    refused("E581", lambda: Pipeline(replace(options, samplers=(), program=tmp_path / "one.gmlm")), "one teacher")
    assert not (tmp_path / "run" / "text").exists()


def test_the_report_shows_what_was_found(whole, tmp_path: Path):
    folder, _, content = whole
    with np.load(folder / "run" / "pictures.npz") as found:
        arrays = {k: found[k] for k in found.files}
    for kind in ("positional", "cross", "self"):
        np.testing.assert_allclose(arrays[kind].sum(axis=-1), 1, atol=1e-5)
    page = translation_report(content, arrays).html()
    for section in ("Scores", "Passes", "Latency", "Training", "Attention", "Examples", "Text", "How it was made"):
        assert f">{section}</h2>" in page
    assert content["scores"]["student.refine"]["scores"][0]["signature"] in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "<script" not in page
    assert "positional" not in translation_report(content, {}).html().split("<h2")[0]
    assert content["training"]["student"]["start"] in page
    chosen = {
        "split": {"teacher": {"seconds_per_batch": 0.125, "batches": 987}},
        "distiller": {"seconds": {"wide": 41.0, "beam": 39.0}, "BLEU 13a": {"beam": 30.456, "longer": 31.5}, "sampler": "longer"},
        "choose-student": {"BLEU 13a": {"refine": 27.25}, "sampler": "refine"},
    }
    page = translation_report(content | {"chosen": chosen}, {}).html()
    for shown in ("0.125", "987", "41", "30.46", "31.50", "27.25", "sampler that distils", "bundle takes"):
        assert shown in page


def test_bundles_take_the_samplers_that_were_chosen(whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The teacher's takes the one that distilled, the student's the best on the validation text, not the first in the file."""
    options = copied(whole, tmp_path)
    (tmp_path / "toy.gmlm").write_text(
        options.program.read_text()
        .replace("sampler beam", "sampler greedy for teacher = autoregressive(end = 1)\nsampler beam")
        .replace("sampler beam", "sampler quick for translate = refinement(start = hide, steps = 1, lengths = 2)\nsampler beam")
    )
    pipeline = Pipeline(replace(options, program=tmp_path / "toy.gmlm"))
    for stage in (pipeline.texts, pipeline.vocabulary, pipeline.clean):
        stage()
    pipeline.train("teacher", "teacher", "clean", RECIPE)
    pipeline.distil()
    pipeline.clean_distilled()
    pipeline.train("student", "translate", "distilled", RECIPE)
    for name in ("evaluate_one", "pictures", "dependencies", "measure"):
        monkeypatch.setattr(_results, name, lambda *_: None)
    monkeypatch.setattr(_results, "ways_of", lambda p, name: [])
    monkeypatch.setattr(_results, "content_of", lambda p, names: {})
    scored = {"refine": 5.0, "quick": 6.0}
    monkeypatch.setattr(
        _pipeline_choices, "scored", lambda p, network, names, stage: {n: scored[n] for n in names} if network == "student" else {}
    )
    _results.results(pipeline, ["teacher", "student"], None)
    samplers = [load_translator(options.folder / f"{name}.bundle").sampler for name in ("teacher", "student")]
    assert samplers == ["beam", "quick"]
    assert pipeline.stages.done["choose-student"].notes == {"BLEU 13a": scored, "sampler": "quick"}


def test_a_vocabulary_that_is_given_binds_the_inputs(tmp_path: Path):
    options = options_in(tmp_path)
    words = gm.Vocabulary.train((x for p in toy_pairs(100) for x in p), 24)
    (tmp_path / "given.model").write_bytes(words.data)
    pipeline = Pipeline(replace(options, vocabulary=tmp_path / "given.model"))
    assert pipeline.size == 24 and pipeline.cells == (8, 8)
    pipeline.texts()
    assert pipeline.vocabulary().notes["sha256"] == words.sha256
