"""The commands of translators: train, distill, translate, evaluate, pipeline and others.

Expensive modules are imported inside them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from . import _translation_options as o
from ._commands import TRANSLATORS, AllowPython, Arrays, AsJson, Inputs, MaskName, ModelName, app
from ._fit_options import output
from ._processes import Coordinator, Processes, Rank, several
from ._program_arguments import same_named


@app.command(rich_help_panel=TRANSLATORS)
def train(
    file: o.Program,
    text: o.Text,
    out: o.Folder,
    model: ModelName = None,
    mask: MaskName = None,
    sampler: o.SavedSampler = None,
    inputs: Inputs = None,
    arrays: Arrays = None,
    validation: o.Validation = None,
    vocabulary: o.VocabularyFile = None,
    byte_fallback: o.ByteFallback = False,
    start_from: o.From = None,
    reverse: o.Reverse = False,
    languages: o.Languages = "",
    limit: o.Limit = None,
    steps: o.Steps = 1000,
    batch_size: o.BatchSize = 64,
    optimizer: o.Optimizer = "adafactor",
    learning_rate: o.LearningRate = None,
    warmup: o.Warmup = None,
    label_smoothing: o.Smoothing = 0.0,
    ema: o.Average = None,
    average_last: o.AverageLast = None,
    accumulate: o.Accumulate = 1,
    precision: o.Precision = "float32",
    buckets: o.Buckets = None,
    evaluate_every: o.EvaluateEvery = None,
    patience: o.Patience = None,
    save_every: o.SaveEvery = None,
    seed: o.Seed = 0,
    restart: o.Restart = False,
    allow_python: AllowPython = False,
    processes: Processes = 1,
    coordinator: Coordinator = None,
    rank: Rank = None,
) -> None:
    """Train a translation model of a program, a teacher or a student, on parallel text.

    Writes the vocabulary, the counts of cleaned sentence pairs, a log, and FOLDER/MODEL.bundle for
    `gmlm translate`.
    """
    options = locals() | {"inputs": inputs or [], "buckets": o.widths(buckets)}
    from ..translation import Recipe, Texts
    from ._translation_show import TrainRequest, run_train

    recipe = Recipe(**same_named(Recipe, options))
    with several(processes, coordinator, rank) as here:
        request = TrainRequest(**same_named(TrainRequest, options), mesh_axis=here.axis)
        texts = Texts(tuple(text), tuple(validation or ()), limit=limit, reverse=reverse)
        run_train(request, recipe, texts, here.written(out) or out)


@app.command(rich_help_panel=TRANSLATORS)
def distill(
    bundle: o.Bundle,
    text: o.Sources,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File of the teacher's translations, one line per sentence.")],
    sampler: o.Sampler = None,
    seed: o.Seed = 0,
    allow_python: AllowPython = False,
    processes: Processes = 1,
    coordinator: Coordinator = None,
    rank: Rank = None,
) -> None:
    """Translate the source sentences of the training text with a teacher (distillation).

    Students learn more easily from these translations than from the original ones. The same command
    resumes a stopped run after the last finished line.
    """
    from ._translation_show import run_distill

    with several(processes, coordinator, rank) as here:
        run_distill(bundle, text, here.written(out) or out, sampler, seed, allow_python, here.axis)


@app.command(rich_help_panel=TRANSLATORS)
def shortlist(
    bundle: o.Bundle,
    text: o.Text,
    reverse: o.Reverse = False,
    limit: o.Limit = None,
    likely: Annotated[int, typer.Option("--likely", metavar="N", min=1, help="Number of target tokens per source token.")] = 20,
) -> None:
    """Write a shortlist of likely target tokens into a bundle.

    It has the most likely target tokens of each source token, learnt from parallel text.
    """
    from ..translation import Texts
    from ._translation_show import run_shortlist

    run_shortlist(bundle, Texts(tuple(text), limit=limit, reverse=reverse), likely)


@app.command(rich_help_panel=TRANSLATORS)
def translate(
    bundle: o.Bundle,
    text: o.Lines = None,
    sampler: o.Sampler = None,
    n_best: Annotated[
        int, output("--n-best", metavar="N", min=1, help="Print up to N translations of each line, with line number and score.")
    ] = 1,
    draft: o.Drafts = None,
    prefix: Annotated[str | None, o.decoding("--prefix", metavar="TEXT", help="Text with which every translation begins.")] = None,
    phrases: o.Phrases = None,
    drop_repeats: Annotated[bool, output("--drop-repeats", help="Remove words that repeat the previous word.")] = False,
    trace: Annotated[bool, output("--trace", help="Print the text after every pass to standard error.")] = False,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", metavar="N", min=1, help="Batch size, in lines. Default: 1 on a terminal, else 64.")
    ] = None,
    cut: o.Cut = True,
    rerank: o.Rerank = None,
    precision: o.Products = "float32",
    shortlist: o.Short = False,
    seed: o.Seed = 0,
    allow_python: AllowPython = False,
    processes: Processes = 1,
    coordinator: Coordinator = None,
    rank: Rank = None,
) -> None:
    """Translate lines of a file or of standard input, and print the translations to standard output.

    With `--batch-size 1`, each line is translated as soon as it is read. Several processes require a
    file.
    """
    options = locals()
    from ._translation_show import TranslateRequest, run_translate

    if text is None and (processes > 1 or coordinator is not None):
        raise typer.BadParameter("several processes translate a file: name one", param_hint="--processes")
    with several(processes, coordinator, rank) as here:
        request = TranslateRequest(**same_named(TranslateRequest, options), mesh_axis=here.axis)
        run_translate(bundle, text, request, allow_python)


@app.command("export-translator", rich_help_panel=TRANSLATORS)
def export_translator(
    bundle: o.Bundle,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE.zip", help="The file to write.", show_default=False)],
    sampler: o.Sampler = None,
    precision: o.Products = "float32",
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", min=1, help="Batch size: the number of rows that are decoded together.")
    ] = 1,
    width: Annotated[
        int | None, typer.Option("--width", metavar="N", min=1, help="Maximum tokens per row, with the end mark. Default: as in the model.")
    ] = None,
    platforms: Annotated[
        list[str] | None, typer.Option("--platform", metavar="cpu|cuda|rocm|tpu", help="Target platform. May be repeated. Default: cpu.")
    ] = None,
    seed: o.Seed = 0,
    allow_python: AllowPython = False,
) -> None:
    """Export a decoder with its weights as a StableHLO program. Needs the extra `export`.

    JAX runs the program without this package.
    """
    from ..translation import load_translator
    from ._show import verify_writable

    verify_writable(out, used=(bundle,))
    translator = load_translator(bundle, sampler=sampler, precision=precision, allow_python=allow_python)
    translator.export(out, batch=batch, width=width, seed=seed, platforms=platforms or ("cpu",))
    print(f"wrote {out}")


@app.command(rich_help_panel=TRANSLATORS)
def serve(
    bundle: o.Bundle,
    host: Annotated[
        str, typer.Option("--host", metavar="HOST", help="Address to listen on. 0.0.0.0 accepts other computers.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port to listen on; 0 picks a free port.")] = 8080,
    sampler: o.Sampler = None,
    rerank: o.Rerank = None,
    precision: o.Products = "float32",
    shortlist: o.Short = False,
    warm_up: o.WarmUp = None,
    batch: Annotated[int, o.limits("--batch-tokens", metavar="N", min=1, help="Maximum source tokens in a batch.")] = 2048,
    waiting: Annotated[
        int, o.limits("--waiting-tokens", metavar="N", min=1, help="Maximum source tokens in the queue. Above it, the answer is 503.")
    ] = 16384,
    lines: Annotated[int, o.limits("--lines", metavar="N", min=1, help="Maximum lines per request.")] = 256,
    size: Annotated[int, o.limits("--bytes", metavar="N", min=1, help="Maximum bytes per request.")] = 1 << 20,
    seconds: Annotated[
        float, o.limits("--seconds", metavar="S", min=0.01, help="Seconds of waiting after which the answer is 503.")
    ] = 60.0,
    allow_python: AllowPython = False,
) -> None:
    """Run an HTTP server that translates JSON requests in shared batches. Needs the extra `serve`.

    By default it accepts requests only from this computer.
    """
    from .._optional import need

    need("starlette", "a server needs Starlette", '"gmlmdsl[serve]"')
    need("uvicorn", "a server needs uvicorn", '"gmlmdsl[serve]"')
    from ._serve import Limits

    if not math.isfinite(seconds):
        raise typer.BadParameter(f"{seconds} is not a number of seconds", param_hint="--seconds")
    from ._translation_show import run_serve

    how = {"sampler": sampler, "allow_python": allow_python, "rerank": rerank, "precision": precision, "shortlist": shortlist}
    run_serve(bundle, how, warm_up, Limits(batch, waiting, lines, size, seconds), (host, port))


@app.command(rich_help_panel=TRANSLATORS)
def evaluate(
    bundle: o.Bundle,
    text: o.Text,
    samplers: o.Samplers = None,
    reverse: o.Reverse = False,
    languages: o.Languages = "",
    limit: o.Limit = None,
    rerank: o.Rerank = None,
    precision: o.Products = "float32",
    shortlist: o.Short = False,
    attention: Annotated[
        bool, o.scores("--attention", help="Measure over all lines whether repeated tokens attend to each other.")
    ] = False,
    timed: Annotated[bool, o.scores("--latency", help="Measure median and 99th percentile latency at batch sizes 1 and 32.")] = False,
    learnt: o.Learnt = None,
    seed: o.Seed = 0,
    as_json: AsJson = False,
    allow_python: AllowPython = False,
    processes: Processes = 1,
    coordinator: Coordinator = None,
    rank: Rank = None,
) -> None:
    """Score a translator on parallel text.

    Prints BLEU with its signature, chrF++, TER, stutter rate, lengths and number of passes.
    """
    options = locals() | {"samplers": tuple(samplers or ()), "latency": timed}
    from ._translation_show import EvaluateRequest, run_evaluate

    with several(processes, coordinator, rank) as here:
        how = EvaluateRequest(**same_named(EvaluateRequest, options), mesh_axis=here.axis)
        run_evaluate(bundle, tuple(text), how, reverse, languages, limit, allow_python)


@app.command(rich_help_panel=TRANSLATORS)
def latency(
    text: o.Sources,
    bundles: o.Bundles,
    samplers: o.Samplers = None,
    sentences: Annotated[int, o.scores("--sentences", metavar="N", min=1, help="Minimum number of measured sentences.")] = 500,
    pieces: Annotated[
        int | None, o.scores("--pieces", metavar="N", min=1, help="Number of subword tokens of each translation, for untrained weights.")
    ] = None,
    peers: Annotated[
        bool, o.scores("--peers", help="Also measure CTranslate2, if installed, with random weights of the first translator's sizes.")
    ] = False,
    precision: o.Products = "float32",
    shortlist: o.Short = False,
    as_json: AsJson = False,
    allow_python: AllowPython = False,
) -> None:
    """Measure the latency of translators, without compilation.

    Prints the median and the 99th percentile at batch sizes 1 and 32.
    """
    from ._translation_show import run_latency

    run_latency(text, bundles, samplers or [], (sentences, pieces, peers, precision, shortlist), as_json, allow_python)


@app.command(rich_help_panel=TRANSLATORS)
def pipeline(
    file: o.Program,
    text: o.Text,
    out: o.Folder,
    inputs: Inputs = None,
    arrays: Arrays = None,
    validation: o.Validation = None,
    test: o.Test = None,
    vocabulary: o.VocabularyFile = None,
    byte_fallback: o.ByteFallback = False,
    reverse: o.Reverse = False,
    languages: o.Languages = "",
    limit: o.Limit = None,
    test_limit: o.TestLimit = None,
    masks: o.Masks = None,
    teacher_sampler: o.TeacherSampler = None,
    samplers: o.Samplers = None,
    raw: o.Raw = False,
    warm: o.WarmStart = True,
    minutes: o.Minutes = None,
    stated: o.StudentSteps = None,
    teacher_steps: o.TeacherSteps = None,
    batch_size: o.BatchSize = 64,
    optimizer: o.Optimizer = "adafactor",
    learning_rate: o.LearningRate = None,
    warmup: o.Warmup = None,
    label_smoothing: o.Smoothing = 0.0,
    ema: o.Average = None,
    average_last: o.AverageLast = None,
    accumulate: o.Accumulate = 1,
    precision: o.Precision = "float32",
    buckets: o.Buckets = None,
    evaluate_every: o.EvaluateEvery = None,
    patience: o.Patience = None,
    save_every: o.SaveEvery = None,
    sentences: Annotated[int, o.scores("--sentences", metavar="N", min=1, help="Number of sentences for latency.")] = 500,
    learnt: o.Learnt = None,
    seed: o.Seed = 0,
    restart: o.Restart = False,
    allow_python: AllowPython = False,
    processes: Processes = 1,
    coordinator: Coordinator = None,
    rank: Rank = None,
) -> None:
    """Make translators and a report from parallel text.

    The stages are cleaning, vocabulary, teacher, distillation, students, scores and latency. Each
    stage writes files into the folder. The same command keeps finished stages, resumes a stopped
    stage, and repeats stages whose inputs changed.
    """
    options = locals() | {"inputs": inputs or [], "samplers": tuple(samplers or ()), "masks": tuple(masks or ())}
    options |= {"buckets": o.widths(buckets), "steps": o.steps_beside(minutes, stated, teacher_steps)}
    from ..translation import Recipe, Texts
    from ._translation_show import PipelineRequest, run_pipeline

    student = Recipe(**same_named(Recipe, options))
    teacher = replace(student, steps=teacher_steps or student.steps)
    texts = Texts(tuple(text), tuple(validation or ()), tuple(test or ()), limit, test_limit, reverse)
    with several(processes, coordinator, rank) as here:
        request = PipelineRequest(**same_named(PipelineRequest, options), mesh_axis=here.axis)
        run_pipeline(request, teacher, student, texts, here.resumed(out, ("checkpoints", ".lock")))
