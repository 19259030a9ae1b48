"""The commands of translators: what they print and write, and that no fault of a user ends in a traceback."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from translation_cases import PROGRAM, toy_pairs, toy_vocabulary, write_bundles, write_texts
from typer.testing import CliRunner

from gmlmdsl.cli._translation_commands import app
from gmlmdsl.cli._translation_show import EvaluateRequest, TranslateRequest, run_evaluate, run_translate
from gmlmdsl.translation import Shortlist, _shortlist, evaluate, read_bundle, read_lines, score
from gmlmdsl.translation._bundle import load_translator

pytestmark = pytest.mark.usefixtures("standard_promotion")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two bundles of random weights, a program, texts."""
    out = tmp_path_factory.mktemp("translate")
    write_bundles(out)
    (out / "toy.gmlm").write_text(PROGRAM)
    (out / "vocabulary.model").write_bytes(toy_vocabulary().data)
    write_texts(out, "train", toy_pairs(40))
    write_texts(out, "test", toy_pairs(6, 2))
    return out


def run(*words: object, stdin: bytes | str = b"", status: int = 0):
    found = CliRunner().invoke(app, [str(w) for w in words], input=stdin)
    assert found.exit_code == status, found.output
    return found


def test_lines_go_through(folder: Path):
    lines = "one two\n\ndog runs\n"
    found = run("translate", folder / "translate.bundle", stdin=lines)
    expected = [t.text for t in load_translator(folder / "translate.bundle").translate(["one two", "", "dog runs"])]
    assert found.stdout.split("\n")[:-1] == expected
    windows = run("translate", folder / "translate.bundle", "--batch-size", 1, stdin=lines.replace("\n", "\r\n"))
    assert windows.stdout == found.stdout
    assert run("translate", folder / "translate.bundle", stdin="").stdout == ""
    (folder / "lines.txt").write_text("one two\n")
    assert run("translate", folder / "translate.bundle", folder / "lines.txt").stdout == f"{expected[0]}\n"


def test_candidates_have_scores(folder: Path):
    found = run("translate", folder / "teacher.bundle", "--n-best", 2, "--prefix", "rot", stdin="one two\ndog\n")
    rows = [line.split("\t") for line in found.stdout.splitlines()]
    assert [r[0] for r in rows] == ["1", "1", "2", "2"] and all(r[2].startswith("rot") for r in rows)
    assert float(rows[0][1]) >= float(rows[1][1]) and "fewer" not in found.stderr
    assert "2 lines with fewer than 50" in run("translate", folder / "teacher.bundle", "--n-best", 50, stdin="one\n\ndog\n").stderr


def test_drafts_and_traces(folder: Path, tmp_path: Path):
    (tmp_path / "draft").write_text("eins\nrot\n")
    found = run("translate", folder / "translate.bundle", "--draft", tmp_path / "draft", "--trace", stdin="one\nred\n")
    assert found.stderr.count("pass 1:") == 2 and len(found.stdout.splitlines()) == 2
    assert "E584" in run("translate", folder / "translate.bundle", "--draft", tmp_path / "draft", stdin="one\n", status=1).stderr


def test_phrases_of_each_line(folder: Path, tmp_path: Path):
    (tmp_path / "phrases").write_text("rot\tkatze\n\n")
    found = run("translate", folder / "translate.bundle", "--phrases", tmp_path / "phrases", stdin="one\nred\n").stdout.splitlines()
    assert "rot" in found[0] and "katze" in found[0]
    assert found[1] == run("translate", folder / "translate.bundle", stdin="one\nred\n").stdout.splitlines()[1]
    assert "E584" in run("translate", folder / "translate.bundle", "--phrases", tmp_path / "phrases", stdin="one\n", status=1).stderr


@pytest.mark.produces("E575")
def test_what_cannot_be_translated(folder: Path):
    bundle = folder / "translate.bundle"
    found = run("translate", bundle, "--batch-size", 1, stdin=b"one\none \xff two\n", status=1)
    assert "E119" in found.stderr and "line 2" in found.stderr and "0xff at place 5" in found.stderr
    assert len(found.stdout.splitlines()) == 1  # what stood before is translated
    assert "E582" in run("translate", bundle, "--no-cut", stdin="one " * 10_000, status=1).stderr
    cut = run("translate", bundle, stdin="dog\n" + "one " * 10_000 + "\ncat\n")
    assert len(cut.stdout.splitlines()) == 3 and "warning" in cut.stderr and "1 line lost the end of a sentence" in cut.stderr
    assert "E120" in run("translate", folder / "none.bundle", status=1).stderr
    assert "E575" in run("translate", folder / "toy.gmlm", status=1).stderr
    assert "E506" in run("translate", bundle, "--sampler", "beam", stdin="one\n", status=1).stderr


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is in place of the standard error."""
    seen = io.StringIO()
    monkeypatch.setattr(seen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", seen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    return seen


def test_what_is_evaluated_shows_a_bar(folder: Path, monkeypatch: pytest.MonkeyPatch):
    terminal = on_a_terminal(monkeypatch)
    how = EvaluateRequest(("refine",), None, None, False, False, 0, True)
    run_evaluate(folder / "translate.bundle", (folder / "test.en", folder / "test.de"), how, False, "", 3, False)
    assert "lines" in terminal.getvalue() and "100%" in terminal.getvalue()


def test_a_file_shows_a_bar(folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]):
    terminal = on_a_terminal(monkeypatch)
    (folder / "some.txt").write_text("one\ntwo\n")
    how = TranslateRequest(None, 1, None, None, None, False, False, None, True, 0)
    run_translate(folder / "translate.bundle", folder / "some.txt", how, False)
    assert "lines" in terminal.getvalue() and "100%" in terminal.getvalue()
    assert capfdbinary.readouterr().out.count(b"\n") == 2


def test_scores(folder: Path):
    found = run("evaluate", folder / "translate.bundle", folder / "test.en", folder / "test.de", "--json")
    notes = json.loads(found.stdout)["refine"]
    assert notes["scores"][0]["name"] == "BLEU 13a" and notes["sentences"] == 6
    table = run("evaluate", folder / "translate.bundle", folder / "test.en", folder / "test.de", "--sampler", "refine", "--limit", 3).stdout
    assert "chrF++" in table and "nrefs:1|case:mixed" in table
    unequal = run("evaluate", folder / "translate.bundle", folder / "test.en", folder / "train.de", status=1)
    assert "E574" in unequal.stderr and "6 lines" in unequal.stderr and "40" in unequal.stderr
    wrong = run("evaluate", folder / "translate.bundle", folder / "test.en", folder / "test.de", "--languages", "german", status=1)
    assert "E507" in wrong.stderr


@pytest.mark.slow  # `test_row_decoders.py` has both precisions
def test_precisions(folder: Path):
    texts = folder / "test.en", folder / "test.de"
    found = run("evaluate", folder / "translate.bundle", *texts, "--precision", "int8")
    assert "in int8; in float32 BLEU 13a" in found.stdout and "of the translations are the same" in found.stdout
    assert "E507" in run("translate", folder / "translate.bundle", "--precision", "int4", stdin="one\n", status=1).stderr
    timed = run("latency", texts[0], folder / "teacher.bundle", "--sentences", 2, "--precision", "bfloat16", "--json")
    assert json.loads(timed.stdout)["timings"][0]["name"] == "teacher beam, bfloat16"
    rerank = "--rerank", folder / "teacher.bundle", "--precision", "int8"
    assert run("translate", folder / "translate.bundle", *rerank, stdin="one\n").stdout.count("\n") == 1


def test_a_teacher_chooses(folder: Path):
    bundle, teacher = folder / "translate.bundle", ("--rerank", folder / "teacher.bundle")
    chosen = load_translator(bundle, rerank=folder / "teacher.bundle").translate(["one two", "dog"])
    assert run("translate", bundle, *teacher, stdin="one two\ndog\n").stdout.splitlines() == [t.text for t in chosen]
    found = run("evaluate", bundle, folder / "test.en", folder / "test.de", "--limit", 2, *teacher).stdout
    assert "\nreranked, sampler refine" in found and "refine-reranked" in found
    assert "E590" in run("translate", folder / "teacher.bundle", "--rerank", bundle, stdin="one\n", status=1).stderr


@pytest.mark.slow
def test_times(folder: Path):
    found = run("latency", folder / "test.en", folder / "translate.bundle", folder / "teacher.bundle", "--sentences", 2, "--json")
    names = {t["name"] for t in json.loads(found.stdout)["timings"]}
    assert names == {"translate refine", "teacher beam"}
    assert "E506" in run("latency", folder / "test.en", folder / "translate.bundle", "--sampler", "x", status=1).stderr


def test_times_say_how_far_they_are(folder: Path, monkeypatch: pytest.MonkeyPatch):
    told = []
    monkeypatch.setattr("gmlmdsl.translation.latency", lambda *_, tell, **more: told.append(tell))
    run("latency", folder / "test.en", folder / "translate.bundle")
    assert told and callable(told[0])


def test_distillation(folder: Path, tmp_path: Path):
    found = run("distill", folder / "teacher.bundle", folder / "test.en", "--out", tmp_path / "out.de")
    assert "6 lines, 6 decoded now" in found.stdout and len(read_lines(tmp_path / "out.de")) == 6
    missing = run("distill", folder / "teacher.bundle", folder / "test.en", "--out", tmp_path / "no" / "out.de", status=1)
    assert "E560" in missing.stderr


def test_several_processes_translate_a_file(folder: Path):
    found = run("translate", folder / "translate.bundle", "--processes", 2, stdin="red dog\n", status=2)
    assert "several processes translate a file" in " ".join(found.output.replace("│", " ").split())


@pytest.fixture
def training(folder: Path, tmp_path: Path) -> tuple[Path, tuple, tuple]:
    """A training of four steps: its folder, the words of its command, and those of its model."""
    texts, out = (folder / "train.en", folder / "train.de"), tmp_path / "run"
    common = ("train", folder / "toy.gmlm", *texts, "--out", out, "--vocabulary", folder / "vocabulary.model", "--batch-size", 16)
    model = ("--model", "translate", "--languages", "en-de", "--reverse")
    found = run(*common, *model, "--steps", 4, "--save-every", 2, "--validation", folder / "test.en", "--validation", folder / "test.de")
    assert "saved" in found.stdout and (out / "translate.bundle").exists()
    cleaning = json.loads((out / "translate.cleaning.json").read_text())
    assert cleaning["train"]["pairs"] == 40 - cleaning["overlap"] == 22  # the others are validated on
    assert load_translator(out / "translate.bundle").direction == "de-en"
    log = [json.loads(line) for line in (out / "translate.jsonl").read_text().splitlines()]
    assert log[-1]["step"] == 4 and "validation_loss" in log[-1]
    return out, common, model


def test_training(training: tuple[Path, tuple, tuple]):
    _, common, model = training
    other = run(*common, *model, "--steps", 5, status=1)
    assert "E752" in other.stderr and other.stderr.count("--restart") == 1
    assert "E506" in run(*common, status=1).stderr  # which model?


@pytest.mark.slow  # a second vocabulary and a third training
def test_a_training_is_begun_anew_where_that_is_said(training: tuple[Path, tuple, tuple], folder: Path):
    out, common, model = training
    own = (out / "translate.vocabulary").read_bytes()
    without = [w for w in common if w not in ("--vocabulary", folder / "vocabulary.model")]
    inputs = ("--input", "V=29")
    refused = run(*without, *model, *inputs, "--steps", 4, "--learning-rate", 0.5, status=1)
    assert "E752" in refused.stderr and "its learning rate" in refused.stderr and (out / "translate.vocabulary").read_bytes() == own
    run(*common, *model, "--steps", 5, "--restart")


def test_a_start_that_does_not_fit(folder: Path, tmp_path: Path):
    (tmp_path / "wide.gmlm").write_text(PROGRAM.replace("width = 16", "width = 32"))
    texts, start = (folder / "train.en", folder / "train.de"), ("--from", folder / "teacher.bundle", "--steps", 1)
    found = run("train", tmp_path / "wide.gmlm", *texts, "--model", "translate", "--out", tmp_path / "run", *start, status=1)
    assert "E589" in found.stderr and "teacher.bundle" in found.stderr and not list((tmp_path / "run").glob("*.bundle"))


@pytest.mark.produces("E586")
@pytest.mark.slow  # in the gate other runs diverge: test_training_options.py
def test_a_training_that_diverges(folder: Path, tmp_path: Path):
    texts, vocabulary = (folder / "train.en", folder / "train.de"), ("--vocabulary", folder / "vocabulary.model")
    steps = ("--steps", 40, "--learning-rate", 1e30, "--optimizer", "adam", "--batch-size", 16)
    words = ("train", folder / "toy.gmlm", *texts, "--out", tmp_path / "run", *vocabulary, "--model", "teacher")
    assert "E586" in run(*words, *steps, status=1).stderr


@pytest.mark.slow
def test_a_pipeline_from_the_command_line(folder: Path, tmp_path: Path):
    texts = [word for name in ("validation", "test") for ending in ("en", "de") for word in (f"--{name}", folder / f"test.{ending}")]
    size = ("--vocabulary", folder / "vocabulary.model", "--steps", 2, "--batch-size", 16, "--no-raw", "--sentences", 1)
    common = ("pipeline", folder / "toy.gmlm", folder / "train.en", folder / "train.de", "--out", tmp_path / "run", *texts, *size)
    found = run(*common, "--languages", "en-de")
    assert "student.refine" in found.stdout and "nrefs:1|case:mixed" in found.stdout and "latency: " in found.stderr
    assert "How it was made" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "teacher: done before" in run(*common, "--languages", "en-de").stderr
    one = (ROOT / "examples" / "translate.gmlm", folder / "train.en", folder / "train.de", "--out", tmp_path / "b")
    assert "E581" in run("pipeline", *one, status=1).stderr


MISSING = """
train none.gmlm a b --out o
train toy.gmlm none b --out o
train toy.gmlm test.en test.de --out o --vocabulary none
train toy.gmlm test.en test.de --out o --from none
pipeline toy.gmlm test.en test.de --out o --validation none
pipeline toy.gmlm test.en test.de --out o --test none
distill none test.en --out o
translate none.bundle
translate teacher.bundle --draft none
translate translate.bundle --rerank none
evaluate none toy.gmlm
latency test.en none
"""
EACH = """
import contextlib, io, json, sys
from gmlmdsl.cli._translation_commands import app
for line in sys.stdin.read().split("\\n"):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        status = None
        try:
            app(line.split())
        except SystemExit as end:
            status = end.code
    print(json.dumps([status, "jax" in sys.modules, said.getvalue()]))
"""


def test_files_that_are_missing_are_refused_before_jax_is_loaded(folder: Path):
    """All of them in one process: none has loaded it."""
    lines = MISSING.strip().split("\n")
    found = subprocess.run([sys.executable, "-c", EACH], input="\n".join(lines), capture_output=True, text=True, cwd=folder, check=True)
    told = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(told) == len(lines)
    for line, (status, loaded, said) in zip(lines, told, strict=True):
        assert (status, loaded) == (1, False) and "none" in said, line


def test_help_loads_no_jax():
    code = "import sys\nfrom gmlmdsl.cli._translation_commands import app\nprint('jax' in sys.modules, 'numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("option", ["--evaluate-every", "--patience"])
def test_losses_of_validation_need_its_text(folder: Path, tmp_path: Path, option: str):
    out = tmp_path / "run"
    words = ("--vocabulary", folder / "vocabulary.model", "--out", out, option, 5)
    found = run("train", folder / "toy.gmlm", folder / "train.en", folder / "train.de", "--model", "teacher", *words, status=1)
    assert f"{option} 5" in found.stderr and "--validation SOURCE" in found.stderr and not out.exists()


@pytest.mark.parametrize("steps", ["--steps", "--teacher-steps"])
def test_minutes_and_steps_exclude_each_other(folder: Path, tmp_path: Path, steps: str) -> None:
    texts = [folder / f"train.{side}" for side in ("en", "de")]
    found = run("pipeline", folder / "toy.gmlm", *texts, "--out", tmp_path / "run", "--minutes", 1, steps, 5, status=2)
    assert "minutes are divided" in found.output and not (tmp_path / "run").exists()


def test_a_learnt_measure_is_looked_for_before_anything_is_translated(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def translated(*words: object, **options: object) -> None:
        pytest.fail("it was translated first")

    monkeypatch.setattr("gmlmdsl.translation.evaluate", translated)
    words = ["evaluate", folder / "translate.bundle", folder / "test.en", folder / "test.de", "--learnt"]
    assert "there is no such file" in run(*words, tmp_path / "none", status=1).stderr
    assert "it is a folder" in run(*words, tmp_path, status=1).stderr


def test_a_mask_of_the_pipeline_is_one_of_the_program(folder: Path, tmp_path: Path) -> None:
    texts = [folder / f"train.{side}" for side in ("en", "de")]
    (tmp_path / "two.gmlm").write_text(PROGRAM + "mask other for translate = everything(tgt, noise = {keep: 0.5, uniform: 0.5})\n")
    words = ["pipeline", tmp_path / "two.gmlm", *texts, "--out", tmp_path / "run"]
    assert "--mask" in run(*words, status=1).stderr
    assert "no mask `none`" in run(*words, "--mask", "none", status=1).stderr
    assert "E570" in run(*words, "--mask", "other", "--input", "V=4000", status=1).stderr


def test_a_server_is_for_its_own_computer_only(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("starlette")
    calls = []
    monkeypatch.setattr(pytest.importorskip("uvicorn").Server, "run", lambda self, sockets: calls.append(sockets[0].getsockname()))
    (tmp_path / "lines").write_text("one two\n")
    found = run("serve", folder / "translate.bundle", "--port", 0, "--warm-up", tmp_path / "lines")
    ((host, port),) = calls
    assert host == "127.0.0.1" and found.stdout == f"serving translate, sampler refine, at http://127.0.0.1:{port}\n"
    found = run("serve", folder / "translate.bundle", "--host", "192.0.2.1", status=1)
    assert "E507" in found.stderr and "cannot be opened" in found.stderr and len(calls) == 1


def test_a_bundle_keeps_its_shortlist(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_shortlist, "FREQUENT_TOKENS", 3)
    made = Shortlist.learn(toy_pairs(60), toy_vocabulary(), 2)
    path = tmp_path / "a.bundle"
    path.write_bytes((folder / "translate.bundle").read_bytes())
    assert "`gmlm shortlist" in run("translate", path, "--shortlist", stdin="one\n", status=1).stderr
    texts = write_texts(tmp_path, "toy", toy_pairs(60))
    found = run("shortlist", path, *texts, "--likely", 2).stdout
    assert f"{100 * made.covered(toy_pairs(60), toy_vocabulary()):.1f} % of the target pieces" in found
    t, exact = load_translator(path, shortlist=True), load_translator(path)
    assert np.array_equal(t.shortlist.likely, made.likely) and np.array_equal(t.shortlist.ranked, made.ranked) and exact.shortlist is None
    lines, wanted = zip(*toy_pairs(6), strict=True)
    one, other = ([x.text for x in s.translate(lines)] for s in (exact, t))
    assert run("translate", path, "--shortlist", stdin="".join(f"{line}\n" for line in lines)).stdout.splitlines() == other
    e = evaluate(t, lines, wanted, resamples=0)
    assert e.full is not None and e.full.scores == score(one, wanted, resamples=0) and e.precision == "float32, shortlist"
    assert e.full.equal == np.mean([a == b for a, b in zip(one, other, strict=True)]) and "in float32, shortlist; in float32" in str(e)
    assert read_bundle(path).shortlist == t.shortlist.to_bytes()


def test_a_decoder_is_exported(folder: Path, tmp_path: Path):
    words = ["export-translator", folder / "translate.bundle", "--out", tmp_path / "a.zip"]
    assert run(*words, "--batch", 2, "--width", 6, "--seed", 3, "--platform", "cuda").stdout == f"wrote {tmp_path / 'a.zip'}\n"
    header = json.loads(zipfile.ZipFile(tmp_path / "a.zip").read("manifest.json"))
    assert (header["source"], header["seed"], header["platforms"]) == ([2, 6], 3, ["cuda"])
    assert "E506" in run(*words, "--sampler", "none", status=1).stderr
