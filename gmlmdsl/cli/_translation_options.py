"""Options that the commands of translators share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._commands import MOST_SEED


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


Program = Annotated[
    Path, typer.Argument(metavar="FILE.gmlm", help="A program with translation models.", show_default=False, callback=_checked)
]
Text = Annotated[
    list[Path],
    typer.Argument(
        metavar="TEXT..",
        help="Parallel text: two files with a sentence on each line, or one .tsv, .tmx or .parquet with both; .gz is unpacked.",
        show_default=False,
        callback=_there,
    ),
]
Sources = Annotated[
    Path, typer.Argument(metavar="TEXT", help="Sentences of the source language, one on each line.", show_default=False, callback=_there)
]
Bundle = Annotated[
    Path, typer.Argument(metavar="FILE.bundle", help="A translator, which `gmlm train` wrote.", show_default=False, callback=_there)
]
Bundles = Annotated[
    list[Path], typer.Argument(metavar="FILE.bundle..", help="Translators to compare.", show_default=False, callback=_there)
]
Lines = Annotated[Path | None, typer.Argument(metavar="TEXT", help="Lines to translate; the standard input by default.", callback=_there)]
Drafts = Annotated[
    Path | None,
    typer.Option("--draft", metavar="FILE", help="For each line a draft that refinement begins with.", callback=_there),
]
Phrases = Annotated[
    Path | None,
    typer.Option("--phrases", metavar="FILE", help="For each line the texts that it must contain, with tabs between.", callback=_there),
]
Folder = Annotated[
    Path, typer.Option("--out", "-o", metavar="FOLDER", help="Of the run; called again, it goes on where it was.", show_default=False)
]
Validation = Annotated[
    list[Path] | None,
    typer.Option(
        "--validation", metavar="TEXT", help="Pairs whose loss is measured: one .tsv, or said twice for two files.", callback=_there
    ),
]
Test = Annotated[
    list[Path] | None,
    typer.Option("--test", metavar="TEXT", help="Pairs that are scored: one .tsv, or said twice for two files.", callback=_there),
]
VocabularyFile = Annotated[
    Path | None,
    typer.Option("--vocabulary", metavar="FILE", help="A SentencePiece model; by default one is made of the text.", callback=_there),
]
ByteFallback = Annotated[
    bool, typer.Option("--byte-fallback", help="Spell letters that the text does not have by their bytes; 256 pieces of the vocabulary.")
]
WarmStart = Annotated[
    bool, typer.Option("--warm-start/--cold-start", help="Whether students start at the teacher's weights where they agree.")
]
Restart = Annotated[bool, typer.Option("--restart", help="Begin anew, whatever the folder holds of an earlier run.")]
Learnt = Annotated[
    Path | None, typer.Option("--learnt", metavar="PATH", help="The checkpoint of a learnt metric (COMET), on this machine.")
]
From = Annotated[
    Path | None,
    typer.Option("--from", metavar="FILE.bundle", help="Start at the weights of this one where they agree: a teacher's.", callback=_there),
]
Products = Annotated[
    str,
    typer.Option(
        "--precision", metavar="float32|bfloat16|int8|auto", help="Of products with matrices; auto is the fastest on this processor."
    ),
]
Rerank = Annotated[
    Path | None,
    typer.Option(
        "--rerank",
        metavar="FILE.bundle",
        help="An autoregressive teacher that chooses among the sampler's candidates, by its log p of a piece.",
        callback=_there,
    ),
]
Short = Annotated[
    bool, typer.Option("--shortlist", help="Compute logits only of tokens on the bundle's shortlist, which `gmlm shortlist` writes.")
]
WarmUp = Annotated[
    Path | None,
    typer.Option("--warm-up", metavar="TEXT", help="Lines to translate first, so that no request waits for a compiler.", callback=_there),
]
Reverse = Annotated[bool, typer.Option("--reverse", help="From the second language to the first.")]
Languages = Annotated[
    str, typer.Option("--languages", metavar="EN-DE", help="Of the two sides of the text, for the report and the tokens of BLEU.")
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Take the first N pairs of the text.")]
Steps = Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Batches.")]
StudentSteps = Annotated[int | None, typer.Option("--steps", metavar="N", min=1, help="Batches; 1000 by default.")]
Masks = Annotated[
    list[str] | None,
    typer.Option("--mask", "-m", metavar="NAME", help="What a network learns by, where its model has several; once for each model."),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        "--minutes", metavar="M", min=0.01, help="Of the run: 22 of 60 for the teacher, 4 to distil, 22 for the student; in place of steps."
    ),
]
TeacherSteps = Annotated[
    int | None, typer.Option("--teacher-steps", metavar="N", min=1, help="Batches of the teacher; as --steps by default.")
]
TeacherSampler = Annotated[
    str | None,
    typer.Option(
        "--teacher-sampler",
        metavar="NAME",
        help="The one that distils; by default the one with most beams, of several the best on the validation text.",
    ),
]
BatchSize = Annotated[int, typer.Option("--batch-size", metavar="N", min=1, help="Pairs of a batch.")]
Optimizer = Annotated[str, typer.Option("--optimizer", metavar="adafactor|adam", help="Both with a warm-up and a cosine.")]
LearningRate = Annotated[
    float | None,
    typer.Option(
        "--learning-rate",
        metavar="X",
        help="The peak. By default 0.001 of Adam; of AdaFactor 0.03 for up to 5000 updates, then less: 0.003 for 500000.",
    ),
]
Warmup = Annotated[int | None, typer.Option("--warmup", metavar="N", min=0, help="Batches of warm-up; a fiftieth by default.")]
Smoothing = Annotated[float, typer.Option("--label-smoothing", metavar="S", help="Share of the uniform distribution in every target.")]
Average = Annotated[
    float | None, typer.Option("--ema", metavar="D", help="Keep the moving average of the weights of this decay, such as 0.999.")
]
AverageLast = Annotated[
    int | None, typer.Option("--average-last", metavar="N", min=1, help="The mean of the weights at the last N checkpoints.")
]
Accumulate = Annotated[int, typer.Option("--accumulate", metavar="N", min=1, help="Batches whose gradients make one update.")]
Precision = Annotated[str, typer.Option("--precision", metavar="float32|bfloat16", help="Of the passes over the network.")]
Buckets = Annotated[
    list[int] | None,
    typer.Option(
        "--bucket",
        metavar="N",
        min=1,
        help="A width that rows are padded to; may be repeated. 8, 16, 24, 32, 48, 64, .. by default.",
    ),
]
EvaluateEvery = Annotated[int | None, typer.Option("--evaluate-every", metavar="N", min=1, help="Batches between losses of validation.")]
Patience = Annotated[
    int | None, typer.Option("--patience", metavar="N", min=1, help="Stop after so many losses of validation that are no lower.")
]
SaveEvery = Annotated[int | None, typer.Option("--save-every", metavar="N", min=1, help="Batches between checkpoints.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, max=MOST_SEED, help="Everything random follows from it.")]
Sampler = Annotated[
    str | None, typer.Option("--sampler", "-s", metavar="NAME", help="A sampler of the program; by default the bundle's own.")
]
Samplers = Annotated[
    list[str] | None, typer.Option("--sampler", "-s", metavar="NAME", help="Compare this sampler; may be repeated. All by default.")
]
Cut = Annotated[
    bool, typer.Option("--cut/--no-cut", help="Cut the end off a sentence that the model cannot take, with a warning; or stop there.")
]
