"""Options that the commands of translators share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Program = Annotated[Path, typer.Argument(metavar="FILE.gmlm", help="A program with translation models.", show_default=False)]
Text = Annotated[
    list[Path],
    typer.Argument(
        metavar="TEXT..",
        help="Parallel text: two files with a sentence on each line, or one .tsv of two columns; .gz is unpacked.",
        show_default=False,
    ),
]
Bundle = Annotated[Path, typer.Argument(metavar="FILE.bundle", help="A translator, which `gmlm train` wrote.", show_default=False)]
Folder = Annotated[
    Path, typer.Option("--out", "-o", metavar="FOLDER", help="Of the run; called again, it goes on where it was.", show_default=False)
]
Validation = Annotated[
    list[Path] | None,
    typer.Option("--validation", metavar="TEXT", help="Pairs whose loss is measured: one .tsv, or said twice for two files."),
]
Test = Annotated[
    list[Path] | None, typer.Option("--test", metavar="TEXT", help="Pairs that are scored: one .tsv, or said twice for two files.")
]
VocabularyFile = Annotated[
    Path | None, typer.Option("--vocabulary", metavar="FILE", help="A SentencePiece model; by default one is made of the text.")
]
Reverse = Annotated[bool, typer.Option("--reverse", help="From the second language to the first.")]
Languages = Annotated[
    str, typer.Option("--languages", metavar="EN-DE", help="Of the two sides of the text, for the report and the tokens of BLEU.")
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Take the first N pairs of the text.")]
Steps = Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Batches.")]
BatchSize = Annotated[int, typer.Option("--batch-size", metavar="N", min=1, help="Pairs of a batch.")]
Optimizer = Annotated[str, typer.Option("--optimizer", metavar="adafactor|adam", help="Both with a warm-up and a cosine.")]
LearningRate = Annotated[
    float | None,
    typer.Option(
        "--learning-rate",
        metavar="X",
        help="The peak; 0.003 of AdaFactor, 0.001 of Adam by default.",
    ),
]
Warmup = Annotated[int | None, typer.Option("--warmup", metavar="N", min=0, help="Batches of warm-up; a fiftieth by default.")]
Smoothing = Annotated[float, typer.Option("--label-smoothing", metavar="S", help="Share of the uniform law in every target.")]
Average = Annotated[
    float | None, typer.Option("--ema", metavar="D", help="Keep the moving average of the weights of this decay, such as 0.999.")
]
AverageLast = Annotated[
    int | None, typer.Option("--average-last", metavar="N", min=1, help="The mean of the weights at the last N checkpoints.")
]
Accumulate = Annotated[int, typer.Option("--accumulate", metavar="N", min=1, help="Batches whose gradients make one update.")]
Precision = Annotated[str, typer.Option("--precision", metavar="float32|bfloat16", help="Of the passes over the network.")]
EvaluateEvery = Annotated[int | None, typer.Option("--evaluate-every", metavar="N", min=1, help="Batches between losses of validation.")]
Patience = Annotated[
    int | None, typer.Option("--patience", metavar="N", min=1, help="Stop after so many losses of validation that are no lower.")
]
SaveEvery = Annotated[int | None, typer.Option("--save-every", metavar="N", min=1, help="Batches between checkpoints.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Everything random follows from it.")]
Sampler = Annotated[
    str | None, typer.Option("--sampler", "-s", metavar="NAME", help="A sampler of the program; by default the bundle's own.")
]
Samplers = Annotated[
    list[str] | None, typer.Option("--sampler", "-s", metavar="NAME", help="Compare this sampler; may be repeated. All by default.")
]
Cut = Annotated[bool, typer.Option("--cut", help="Cut the end off a sentence that the model cannot take, instead of stopping there.")]
