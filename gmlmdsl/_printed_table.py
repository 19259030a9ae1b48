"""A DataFrame that prints all its columns, and its row labels in full.

On a terminal it shortens the parts of long row labels to make room.
"""

from __future__ import annotations

import shutil
import sys

import pandas as pd

WHOLE = ("display.max_columns", None, "display.max_colwidth", None)  # options of pandas
LEAST = 4  # The fewest characters to which a part of a label is cut.


class PrintedTable(pd.DataFrame):
    """A DataFrame whose printed form has shortened labels.

    The labels themselves stay unchanged.
    """

    @property
    def _constructor(self) -> type[PrintedTable]:
        return PrintedTable

    def __repr__(self) -> str:
        frame = pd.DataFrame(self)
        with pd.option_context("display.expand_frame_repr", False, "display.width", None, *WHOLE):
            if not sys.stdout.isatty() or not all(isinstance(label, str) for label in self.index):
                return repr(frame)
            columns = len(max(repr(frame.reset_index(drop=True)).splitlines(), key=len)) - len(str(len(frame)))
            room = shutil.get_terminal_size().columns - columns - 1
            return repr(frame.set_axis(pd.Index(shortened(list(self.index), room), name=self.index.name), axis=0))

    def _repr_html_(self) -> str | None:
        """Return the table as a notebook shows it."""
        with pd.option_context(*WHOLE):
            return pd.DataFrame(self)._repr_html_()  # type: ignore[operator] - pandas has no stub for it


def shortened(labels: list[str], width: int) -> list[str]:
    """Return the labels with their parts cut to one common length.

    This length is the largest at which every label has at most `width` characters. The labels are
    returned unchanged if cutting would make two of them equal.

    `J[handicapped-infants, water-project]` may become `J[handica…, water-p…]`.
    """
    found, length = labels, max((len(label) for label in labels), default=0)
    while max(map(len, found), default=0) > width and length > LEAST:
        length -= 1
        found = [_cut(label, length) for label in labels]
    return found if len(set(found)) == len(set(labels)) else labels


def _cut(label: str, length: int) -> str:
    head, bracket, rest = label.partition("[")
    parts = rest.removesuffix("]").split(", ")
    cut = ", ".join(p if len(p) <= length else f"{p[: length - 1]}…" for p in parts)
    return f"{head}{bracket}{cut}{']' if bracket else ''}"
