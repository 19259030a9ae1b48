"""Options that the commands of translators share, and the sections of their help."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ._commands import MOST_SEED
from ._fit_options import program


def _checked(program: Path) -> Path:
    """Return the path of a program without errors.

    Errors of a program are thus reported before expensive imports.
    """
    from ..program import check_file
    from ..read import verify_readable

    if program.exists() and not program.is_file():  # A pipe cannot be read twice.
        verify_readable(program)
    else:
        check_file(program)
    return program


def _there(paths: Path | list[Path] | None) -> Path | list[Path] | None:
    """Return paths after verifying that they can be read."""
    from ..read import verify_readable

    for path in paths if isinstance(paths, list) else [paths]:
        if path is not None:
            verify_readable(path)
    return paths


def steps_beside(minutes: float | None, steps: int | None, teacher_steps: int | None) -> int:
    """Return the number of batches of a student; a time limit excludes stated numbers."""
    if minutes is not None and (steps or teacher_steps):
        raise typer.BadParameter("minutes are divided between the networks: leave --steps and --teacher-steps out", param_hint="--minutes")
    return steps or 1000


def widths(stated: list[int] | None) -> tuple[int, ...] | None:
    """Return widths of rows, ascending, or None if none are stated."""
    return tuple(sorted(stated)) if stated else None


# Options in the sections of the help.
_text = partial(typer.Option, rich_help_panel="The text")
_optimisation = partial(typer.Option, rich_help_panel="Optimisation")
_batches = partial(typer.Option, rich_help_panel="Batches and precision")
_stopping = partial(typer.Option, rich_help_panel="Validation and checkpoints")
_networks = partial(typer.Option, rich_help_panel="Teacher and students")
decoding = partial(typer.Option, rich_help_panel="Decoding")
scores = partial(typer.Option, rich_help_panel="Scores and times")
limits = partial(typer.Option, rich_help_panel="Limits of requests")

Program = Annotated[
    Path, typer.Argument(metavar="FILE.gmlm", help="The program, with the translation models.", show_default=False, callback=_checked)
]
Text = Annotated[
    list[Path],
    typer.Argument(
        metavar="TEXT..",
        help="Parallel text: two files with one sentence per line, or one .tsv, .tmx or .parquet file with both languages. "
        "Files that end in .gz are unpacked.",
        show_default=False,
        callback=_there,
    ),
]
Sources = Annotated[
    Path, typer.Argument(metavar="TEXT", help="Sentences of the source language, one per line.", show_default=False, callback=_there)
]
Bundle = Annotated[
    Path, typer.Argument(metavar="FILE.bundle", help="The translator, as written by `gmlm train`.", show_default=False, callback=_there)
]
Bundles = Annotated[
    list[Path], typer.Argument(metavar="FILE.bundle..", help="The translators to compare.", show_default=False, callback=_there)
]
Lines = Annotated[Path | None, typer.Argument(metavar="TEXT", help="File of lines to translate. Default: standard input.", callback=_there)]
Drafts = Annotated[
    Path | None,
    decoding("--draft", metavar="FILE", help="A draft translation of each line, from which refinement starts.", callback=_there),
]
Phrases = Annotated[
    Path | None,
    decoding("--phrases", metavar="FILE", help="For each line, the phrases its translation must contain, tab-separated.", callback=_there),
]
Folder = Annotated[
    Path,
    typer.Option("--out", "-o", metavar="FOLDER", help="Output folder. The same command resumes an unfinished run.", show_default=False),
]
Validation = Annotated[
    list[Path] | None,
    _text("--validation", metavar="TEXT", help="Validation text: one .tsv file, or the option twice for two files.", callback=_there),
]
Test = Annotated[
    list[Path] | None,
    _text("--test", metavar="TEXT", help="Held-out text to score: one .tsv file, or the option twice for two files.", callback=_there),
]
TestLimit = Annotated[int | None, _text("--test-limit", metavar="N", min=1, help="Score only the first N test pairs.")]
VocabularyFile = Annotated[
    Path | None,
    _text("--vocabulary", metavar="FILE", help="A SentencePiece model. By default one is trained on the text.", callback=_there),
]
ByteFallback = Annotated[
    bool, _text("--byte-fallback", help="Encode letters that the training text lacks as bytes. This takes 256 vocabulary entries.")
]
WarmStart = Annotated[
    bool, _networks("--warm-start/--cold-start", help="Whether students start from the teacher's weights, where the layers match.")
]
Raw = Annotated[bool, _networks("--raw/--no-raw", help="Whether another student is trained on the original text, without distillation.")]
Restart = Annotated[bool, _stopping("--restart", help="Start again from the beginning, and ignore an earlier run in the folder.")]
Learnt = Annotated[
    Path | None, scores("--learnt", metavar="PATH", help="Local checkpoint of a learnt metric (COMET), which is computed too.")
]
From = Annotated[
    Path | None,
    _optimisation("--from", metavar="FILE.bundle", help="Bundle of initial weights, used where the layers match.", callback=_there),
]
Products = Annotated[
    str,
    decoding(
        "--precision",
        metavar="float32|bfloat16|int8|auto",
        help="Number format of matrix products. `auto` picks the fastest on this processor.",
    ),
]
Rerank = Annotated[
    Path | None,
    decoding(
        "--rerank",
        metavar="FILE.bundle",
        help="An autoregressive teacher that chooses among the sampler's candidates by log p per token.",
        callback=_there,
    ),
]
Short = Annotated[bool, decoding("--shortlist", help="Compute logits only for tokens on the bundle's shortlist, made by `gmlm shortlist`.")]
WarmUp = Annotated[
    Path | None,
    typer.Option(
        "--warm-up", metavar="TEXT", help="Lines to translate at the start, so no request waits for compilation.", callback=_there
    ),
]
Reverse = Annotated[bool, _text("--reverse", help="Translate from the second language of the text to the first.")]
Languages = Annotated[str, _text("--languages", metavar="EN-DE", help="Source and target languages, for the report and BLEU's tokeniser.")]
Limit = Annotated[int | None, _text("--limit", metavar="N", min=1, help="Use only the first N pairs of the text.")]
Steps = Annotated[int, _optimisation("--steps", metavar="N", min=1, help="Number of training batches.")]
StudentSteps = Annotated[
    int | None, _networks("--steps", metavar="N", min=1, help="Number of training batches of each student. Default: 1000.")
]
Masks = Annotated[
    list[str] | None,
    _networks("--mask", "-m", metavar="NAME", help="Training mask of a model with several masks. Repeat it for each model."),
]
Minutes = Annotated[
    float | None,
    _networks(
        "--minutes",
        metavar="M",
        min=0.01,
        help="Minutes of the whole run, instead of --steps and --teacher-steps. Of 60 minutes, "
        "the teacher gets 22, distillation gets 4, and the student gets 22.",
    ),
]
TeacherSteps = Annotated[
    int | None, _networks("--teacher-steps", metavar="N", min=1, help="Number of training batches of the teacher. Default: --steps.")
]
TeacherSampler = Annotated[
    str | None,
    _networks(
        "--teacher-sampler",
        metavar="NAME",
        help="The teacher's sampler for distillation. Default: the sampler with the most beams, and "
        "among equals the one with the highest BLEU on the validation text.",
    ),
]
BatchSize = Annotated[int, _batches("--batch-size", metavar="N", min=1, help="Batch size, in sentence pairs.")]
Optimizer = Annotated[
    str,
    _optimisation(
        "--optimizer", metavar="adafactor|adam", help="The optimiser. Both use a linear warm-up and cosine decay of the learning rate."
    ),
]
LearningRate = Annotated[
    float | None,
    _optimisation(
        "--learning-rate",
        metavar="X",
        help="Peak learning rate. Default: 0.001 for Adam; for AdaFactor 0.03 up to 5000 updates, and lower for more (0.003 for 500000).",
    ),
]
Warmup = Annotated[
    int | None, _optimisation("--warmup", metavar="N", min=0, help="Number of warm-up batches. Default: 2 % of all batches.")
]
Smoothing = Annotated[
    float, _optimisation("--label-smoothing", metavar="S", help="Label smoothing: the weight of the uniform distribution in each target.")
]
Average = Annotated[
    float | None, _optimisation("--ema", metavar="D", help="Keep an exponential moving average of the weights with decay D, such as 0.999.")
]
AverageLast = Annotated[
    int | None, _optimisation("--average-last", metavar="N", min=1, help="Average the weights of the last N checkpoints.")
]
Accumulate = Annotated[
    int, _batches("--accumulate", metavar="N", min=1, help="Number of batches whose gradients are averaged for one update.")
]
Precision = Annotated[str, _batches("--precision", metavar="float32|bfloat16", help="Number format of the network's computations.")]
Buckets = Annotated[
    list[int] | None,
    _batches(
        "--bucket",
        metavar="N",
        min=1,
        help="A width to which rows are padded; may be repeated. By default 8, 16, 24, 32, 48, 64 and so on.",
    ),
]
EvaluateEvery = Annotated[
    int | None, _stopping("--evaluate-every", metavar="N", min=1, help="Number of batches between validation losses.")
]
Patience = Annotated[
    int | None, _stopping("--patience", metavar="N", min=1, help="Stop after N validation losses in a row without improvement.")
]
SaveEvery = Annotated[int | None, _stopping("--save-every", metavar="N", min=1, help="Number of batches between checkpoints.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, max=MOST_SEED, help="Seed of all random numbers.")]
Sampler = Annotated[
    str | None, decoding("--sampler", "-s", metavar="NAME", help="A sampler of the program. Default: the one saved in the bundle.")
]
SavedSampler = Annotated[
    str | None,
    program("--sampler", "-s", metavar="NAME", help="Default sampler of the bundle. If omitted, the model's first sampler in the file."),
]
Samplers = Annotated[
    list[str] | None, scores("--sampler", "-s", metavar="NAME", help="A sampler to compare. May be repeated. Default: all samplers.")
]
Cut = Annotated[bool, decoding("--cut/--no-cut", help="Cut a sentence that is too long, with a warning. With --no-cut it is an error.")]
