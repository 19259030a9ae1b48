"""Options of `gmlm fit` and `gmlm sample`, and the sections of their help."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

# Options in the sections of the help.
program = partial(typer.Option, rich_help_panel="The program")
_data = partial(typer.Option, rich_help_panel="The data")
_alignment = partial(typer.Option, rich_help_panel="Alignments")
_fitting = partial(typer.Option, rich_help_panel="The fit")
_drawing = partial(typer.Option, rich_help_panel="The draws")
comparing = partial(typer.Option, rich_help_panel="The comparison")
output = partial(typer.Option, rich_help_panel="The output")

Columns = Annotated[
    str | None,
    _data(
        "--columns",
        metavar="A,B,C:D",
        help="Columns of a .csv file, in the order of the cells: names, numbers from 0, or C:D for all columns from C to D inclusive "
        "(`1:` is all but the first). By default all columns except those of --where and --weights.",
    ),
]
Where = Annotated[
    list[str] | None,
    _data(
        "--where",
        metavar="COLUMN=VALUE",
        help="Keep rows of a .csv file with this value. May be repeated: a row must have one of the given values in every named column.",
    ),
]
Missing = Annotated[
    list[str] | None, _data("--missing", metavar="TEXT", help="Text that marks a missing value, such as '?'. May be repeated.")
]
Header = Annotated[
    bool | None, _data("--header/--no-header", help="Whether a .csv file has a header. By default this is detected from its first line.")
]
Weights = Annotated[
    str | None, _data("--weights", metavar="COLUMN|FILE", help="Weights of the rows: a column of the .csv file, or a file of numbers.")
]
Identity = Annotated[
    float | None,
    _data(
        "--identity",
        metavar="SHARE",
        help="Weight each row by 1 / the number of rows that are equal to it in at least this share of cells.",
    ),
]
Focus = Annotated[
    str | None, _alignment("--focus", metavar="NAME", help="Focus sequence of an alignment. Default: the first; '' for none.")
]
UnknownLetters = Annotated[
    str | None,
    _alignment(
        "--unknown-letters",
        metavar="drop|missing|gap",
        help="Treatment of letters such as X, B and Z in an alignment. By default sequences with such letters are dropped.",
    ),
]
RowGaps = Annotated[float | None, _alignment("--row-gaps", metavar="SHARE", help="Drop sequences with a larger share of gaps.")]
ColumnGaps = Annotated[float | None, _alignment("--column-gaps", metavar="SHARE", help="Drop columns with a larger share of gaps.")]

NMasks = Annotated[
    str | None,
    _fitting("--n-masks", metavar="N|all", help="Number of masks drawn per row, or `all`. By default all masks if there are few."),
]
MaxSteps = Annotated[int | None, _fitting("--max-steps", metavar="N", min=1, help="Maximum number of optimiser steps.")]

Starts = Annotated[
    int,
    _fitting(
        "--starts", metavar="N", min=1, help="Number of fits from random starts; the best is kept. Use, say, 20 for latent variables."
    ),
]

Checkpoint = Annotated[
    Path | None,
    _fitting("--checkpoint", metavar="FOLDER", help="Save the state here every 30 seconds. The same command then resumes a stopped fit."),
]

Level = Annotated[float | None, _fitting("--level", metavar="P", help="Probability of the intervals, such as 0.95. Default: 0.94.")]


class Gaps(StrEnum):
    """The treatment of missing cells in a fit, see `Model.fit`."""

    sum = "sum"
    ignore = "ignore"


GapsOption = Annotated[
    Gaps, _fitting("--gaps", metavar="sum|ignore", help="Sum over missing cells, or ignore them and all their factors, as plmc -g does.")
]

Draws = Annotated[
    int | None, _drawing("--draws", metavar="N", min=1, help="Number of draws kept per chain. Default: 1000; with prompts, 1.")
]
Warmup = Annotated[int | None, _drawing("--warmup", metavar="N", min=0, help="Number of steps before the first kept draw. Default: 500.")]
Chains = Annotated[int | None, _drawing("--chains", metavar="N", min=1, help="Number of chains. Default: 4; for strings, 1.")]
Thin = Annotated[int, _drawing("--thin", metavar="N", min=1, help="Number of steps per kept draw.")]
Clamp = Annotated[
    list[str] | None,
    _drawing("--clamp", metavar="x[3]=1", help="Fix the value of a cell, named by its label or number from 0. May be repeated."),
]
Prompt = Annotated[
    Path | None,
    _drawing(
        "--prompt",
        metavar="FILE",
        help="Prompts, one per line, with which the strings begin: letters, or values and labels between spaces.",
    ),
]
