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
from ._processes import Coordinator, Processes, Rank, several
from ._program_arguments import same_named


@app.command(rich_help_panel=TRANSLATORS)
def train(
    file: o.Program,
    text: o.Text,
    out: o.Folder,
    model: ModelName = None,
    mask: MaskName = None,
    sampler: o.Sampler = None,
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
    """Train a translator on parallel text: what the file says is what is trained, teacher or student.

    The folder then holds the vocabulary, the counts of cleaning, a log, and FOLDER/MODEL.bundle,
    which `gmlm translate` takes.
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
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The teacher's translations, a line for each.")],
    sampler: o.Sampler = None,
    seed: o.Seed = 0,
    allow_python: AllowPython = False,
    processes: Processes = 1,
    coordinator: Coordinator = None,
    rank: Rank = None,
) -> None:
    """Let a teacher translate the training sources: a student learns from its translations more easily than from the true ones.

    Killed and called again, it goes on behind the lines that are done.
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
    likely: Annotated[int, typer.Option("--likely", metavar="N", min=1, help="Target tokens of each source token.")] = 20,
) -> None:
    """Learn from parallel text which target tokens are likely with each source token, and write them into the bundle."""
    from ..translation import Texts
    from ._translation_show import run_shortlist

    run_shortlist(bundle, Texts(tuple(text), limit=limit, reverse=reverse), likely)


@app.command(rich_help_panel=TRANSLATORS)
def translate(
    bundle: o.Bundle,
    text: o.Lines = None,
    sampler: o.Sampler = None,
    n_best: Annotated[
        int, typer.Option("--n-best", metavar="N", min=1, help="Print up to N translations of a line: its number, score and text.")
    ] = 1,
    draft: o.Drafts = None,
    prefix: Annotated[str | None, typer.Option("--prefix", metavar="TEXT", help="What every translation begins with.")] = None,
    phrases: o.Phrases = None,
    drop_repeats: Annotated[bool, typer.Option("--drop-repeats", help="Leave out words that repeat the word before.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Print the text after every pass, on the error stream.")] = False,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", metavar="N", min=1, help="Lines at a time; 1 on a terminal, else 64.")
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
    """Translate lines, from the standard input to the standard output: line by line with `--batch-size 1`, else in batches.

    Several processes translate the lines of a file.
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
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, help="Rows that are decoded together.")] = 1,
    width: Annotated[
        int | None, typer.Option("--width", metavar="N", min=1, help="The most tokens of a row, with its end; by default the model's.")
    ] = None,
    platforms: Annotated[
        list[str] | None, typer.Option("--platform", metavar="cpu|cuda|rocm|tpu", help="Of the program; may be repeated. cpu by default.")
    ] = None,
    seed: o.Seed = 0,
    allow_python: AllowPython = False,
) -> None:
    """Write a decoder with its weights as one StableHLO program, which JAX runs without this package. Needs the extra `export`."""
    from ..translation import load_translator
    from ._show import verify_writable

    verify_writable(out)
    translator = load_translator(bundle, sampler=sampler, precision=precision, allow_python=allow_python)
    translator.export(out, batch=batch, width=width, seed=seed, platforms=platforms or ("cpu",))
    print(f"wrote {out}")


@app.command(rich_help_panel=TRANSLATORS)
def serve(
    bundle: o.Bundle,
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="The address; other computers reach 0.0.0.0.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port; 0 takes a free one.")] = 8080,
    sampler: o.Sampler = None,
    rerank: o.Rerank = None,
    precision: o.Products = "float32",
    shortlist: o.Short = False,
    warm_up: o.WarmUp = None,
    batch: Annotated[int, typer.Option("--batch-tokens", metavar="N", min=1, help="Source tokens that are translated together.")] = 2048,
    waiting: Annotated[int, typer.Option("--waiting-tokens", metavar="N", min=1, help="Source tokens that may wait; above, 503.")] = 16384,
    lines: Annotated[int, typer.Option("--lines", metavar="N", min=1, help="The most lines of a request.")] = 256,
    size: Annotated[int, typer.Option("--bytes", metavar="N", min=1, help="The most bytes of a request.")] = 1 << 20,
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", min=0.01, help="How long a request waits; then 503.")] = 60.0,
    allow_python: AllowPython = False,
) -> None:
    """Answer requests over HTTP with JSON, in common batches, on this computer alone. Needs the extra `serve`."""
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
        bool, typer.Option("--attention", help="Whether pieces that repeat one another attend to each other, over all lines.")
    ] = False,
    timed: Annotated[bool, typer.Option("--latency", help="Median and 99th percentile at batch 1 and 32, over these lines.")] = False,
    learnt: o.Learnt = None,
    seed: o.Seed = 0,
    as_json: AsJson = False,
    allow_python: AllowPython = False,
    processes: Processes = 1,
    coordinator: Coordinator = None,
    rank: Rank = None,
) -> None:
    """Score a translator on parallel text: BLEU with its signature, chrF++, TER, stutter, lengths, passes."""
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
    sentences: Annotated[int, typer.Option("--sentences", metavar="N", min=1, help="How many are measured, at the least.")] = 500,
    pieces: Annotated[
        int | None, typer.Option("--pieces", metavar="N", min=1, help="Every translation has N pieces: for weights that are not trained.")
    ] = None,
    peers: Annotated[
        bool, typer.Option("--peers", help="CTranslate2 beside them, where it is installed: random weights of the first one's sizes.")
    ] = False,
    precision: o.Products = "float32",
    shortlist: o.Short = False,
    as_json: AsJson = False,
    allow_python: AllowPython = False,
) -> None:
    """Measure how long translators take: median and 99th percentile at batch 1 and 32, what is compiled left out."""
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
    test_limit: Annotated[int | None, typer.Option("--test-limit", metavar="N", min=1, help="Score the first N test pairs.")] = None,
    masks: o.Masks = None,
    teacher_sampler: o.TeacherSampler = None,
    samplers: o.Samplers = None,
    raw: Annotated[bool, typer.Option("--raw/--no-raw", help="Whether a student is trained on the raw text too.")] = False,
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
    sentences: Annotated[int, typer.Option("--sentences", metavar="N", min=1, help="How many the latency is measured over.")] = 500,
    learnt: o.Learnt = None,
    seed: o.Seed = 0,
    restart: o.Restart = False,
    allow_python: AllowPython = False,
    processes: Processes = 1,
    coordinator: Coordinator = None,
    rank: Rank = None,
) -> None:
    """From two files to translators and a report: clean, vocabulary, teacher, distillation, students, scores, latency.

    Every stage leaves files in the folder. Called again it keeps what is done, goes on with what
    was killed, and makes anew what depends on what changed.
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
