"""Options of `gmlm fit` and `gmlm sample`, and the sections of their help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

# The sections of the help.
PROGRAM, DATA, FITTING, DRAWING, OUTPUT = "The program", "The data", "The fit", "The draws", "The output"

Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="A,B,C:D",
        help="Columns of a .csv in the order of the cells: names, numbers from 0, or C:D from column C to column D, both included "
        "(either may be left out: `1:` is all but the first). All by default, less those of --where and --weights.",
        rich_help_panel=DATA,
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="COLUMN=VALUE",
        help="Keep the rows of a .csv with this value. May be repeated: every column must fit.",
        rich_help_panel=DATA,
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option("--missing", metavar="TEXT", help="What stands for a missing cell, such as '?'. May be repeated.", rich_help_panel=DATA),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether a .csv has a header; seen from its first line by default.", rich_help_panel=DATA),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights", metavar="COLUMN|FILE", help="Weights of the rows: a column of the .csv, or a file of numbers.", rich_help_panel=DATA
    ),
]
Identity = Annotated[
    float | None,
    typer.Option(
        "--identity",
        metavar="SHARE",
        help="Weigh a row by 1 / the number of rows that agree with it in this share of the cells.",
        rich_help_panel=DATA,
    ),
]
Focus = Annotated[
    str | None,
    typer.Option(
        "--focus", metavar="NAME", help="The focus sequence of an alignment; the first by default, '' for none.", rich_help_panel=DATA
    ),
]
UnknownLetters = Annotated[
    str | None,
    typer.Option(
        "--unknown-letters",
        metavar="drop|missing|gap",
        help="What becomes of X, B, Z in an alignment; their rows are dropped by default.",
        rich_help_panel=DATA,
    ),
]
RowGaps = Annotated[
    float | None, typer.Option("--row-gaps", metavar="SHARE", help="Drop sequences with a larger share of gaps.", rich_help_panel=DATA)
]
ColumnGaps = Annotated[
    float | None, typer.Option("--column-gaps", metavar="SHARE", help="Drop columns with a larger share of gaps.", rich_help_panel=DATA)
]

NMasks = Annotated[
    str | None,
    typer.Option(
        "--n-masks",
        metavar="N|all",
        help="Masks drawn per row; all: every mask. Every mask by default where they are few.",
        rich_help_panel=FITTING,
    ),
]
MaxSteps = Annotated[
    int | None, typer.Option("--max-steps", metavar="N", min=1, help="The most steps of the minimiser.", rich_help_panel=FITTING)
]

Starts = Annotated[
    int,
    typer.Option(
        "--starts",
        metavar="N",
        min=1,
        help="Fits from random starts, the best of which is kept: 20 for latents, say.",
        rich_help_panel=FITTING,
    ),
]

Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FOLDER",
        help="Save the state here every 30 seconds; the same command goes on from it after it was ended.",
        rich_help_panel=FITTING,
    ),
]

Level = Annotated[
    float | None,
    typer.Option("--level", metavar="P", help="The probability of intervals: 0.94 by default, 0.95, say.", rich_help_panel=FITTING),
]


class Gaps(StrEnum):
    """The treatment of missing cells in a fit, see `Model.fit`."""

    sum = "sum"
    ignore = "ignore"


GapsOption = Annotated[
    Gaps,
    typer.Option(
        "--gaps",
        help="Missing cells: sum them out, or ignore them with the factors that touch them, as plmc's -g.",
        rich_help_panel=FITTING,
    ),
]

Draws = Annotated[
    int | None, typer.Option("--draws", metavar="N", min=1, help="Kept draws per chain: 1000; of prompts 1.", rich_help_panel=DRAWING)
]
Warmup = Annotated[
    int | None, typer.Option("--warmup", metavar="N", min=0, help="Steps before the first kept draw: 500.", rich_help_panel=DRAWING)
]
Chains = Annotated[
    int | None, typer.Option("--chains", metavar="N", min=1, help="Number of chains: 4, of strings 1.", rich_help_panel=DRAWING)
]
Thin = Annotated[int, typer.Option("--thin", metavar="N", min=1, help="Steps per kept draw.", rich_help_panel=DRAWING)]
Clamp = Annotated[
    list[str] | None,
    typer.Option(
        "--clamp", metavar="x[3]=1", help="Hold a cell, named by its number from 0 or its label. May be repeated.", rich_help_panel=DRAWING
    ),
]
Prompt = Annotated[
    Path | None,
    typer.Option(
        "--prompt",
        metavar="FILE",
        help="What strings begin with, a line each: letters, or values and labels with spaces.",
        rich_help_panel=DRAWING,
    ),
]
