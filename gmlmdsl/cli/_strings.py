"""Samplers of strings in `gmlm sample`: prompts from a file, and a table of drawn strings."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._diagnostics import GmlmError, fail
from .._types import DrawsLike
from ..files import decoded_line, opened_text, raw_lines, reading
from ._console import print_table

if TYPE_CHECKING:
    from ..model import Model


def read_prompts(path: Path | None, model: Model) -> list[Any] | None:
    """Return the prefixes of a file, one for each line; a line may be empty.

    A prefix of letters is the line itself. Other prefixes are values or labels, separated by
    spaces.

    Raises:
        GmlmError: with one of these codes; E523, E119 and E502 name the line.
            - E120: the file cannot be read.
            - E523: a line is too long.
            - E119: the bytes are not text.
            - E505: the file has no line.
            - E502: a word is not a whole number, although the values are numbers.
    """
    if path is None:
        return None
    v, lines = model.graph.observed[0], _lines(path)
    if not lines:
        message = f"{path} has no line, and a prompt is a line: there is nothing to draw for"
        raise fail("E505", message, help="an empty line is a prompt of no symbol; or leave `--prompt` out")
    if v.kind == "letters":
        return lines
    return [_row(line, v.ordered, path, k) for k, line in enumerate(lines, 1)]


def _lines(path: Path) -> list[str]:
    with reading(path, help="`--prompt` names a file of text, a prompt a line"), opened_text(path) as file:
        raw = raw_lines(file, path, "a prompt a line")
        return [decoded_line(line, path, k, "a prompt a line").rstrip("\r\n") for k, line in enumerate(raw, 1)]


def _row(line: str, numbers: bool, path: Path, number: int) -> list[Any]:
    words = line.split()
    if not numbers:
        return words
    for word in words:
        if not re.fullmatch(r"[+-]?[0-9]+", word):
            raise fail("E502", f"{path}, line {number}: {word!r:.60} is not a whole number", help=WRITTEN["numbers"])
    return [int(word) for word in words]


WRITTEN = {
    "letters": "a prompt a line, its letters without anything between them: `ab`",
    "labels": "a prompt a line, its labels with spaces between them: `red blue`",
    "numbers": "a prompt a line, its numbers with spaces between them: `0 1 0`",
}


@contextlib.contextmanager
def naming_lines(path: Path | None, model: Model) -> Iterator[None]:
    """Replace numbers of prompts by lines of the file in errors."""
    try:
        yield
    except GmlmError as error:
        v = model.graph.observed[0]
        if path is None or not any("prompt[" in d.message for d in error.diagnostics):
            raise
        written = WRITTEN["letters" if v.kind == "letters" else "numbers" if v.ordered else "labels"]
        if written == WRITTEN["labels"] and all(len(str(label)) == 1 for label in v.labels):
            written += f'; with `letters("{"".join(map(str, v.labels))}")` in place of `labels(..)` they need no spaces'
        told = [of_lines(d.message, path) for d in error.diagnostics]
        helps = [written if d.code == "E502" else d.help for d in error.diagnostics]
        raise GmlmError([replace(d, message=m, help=h) for d, m, h in zip(error.diagnostics, told, helps, strict=True)]) from None


def of_lines(text: str, path: Path | None) -> str:
    """Return a text that names lines of the file instead of prompts, if there is a file."""
    return text if path is None else re.sub(r"prompt\[(\d+)\]", lambda m: f"{path}, line {int(m[1]) + 1}", text)


def draws_strings(model: Model, sampler: str) -> bool:
    """Return whether a sampler draws strings that `guided_stats` counts."""
    from ..program import AUTOREGRESSIVE, ir, is_guided

    body = model.sampler(sampler)[1].body
    if not isinstance(body, ir.FormCall):
        return False
    return is_guided(body.form.name) or (body.form is AUTOREGRESSIVE and model.graph.network is None)


def show_strings(model: Model, idata: DrawsLike, rows: int) -> None:
    """Print the counts of the draws, then the strings with the numbers of their prompts."""
    import numpy as np

    from ..sample import groups_of

    groups = groups_of(idata)
    stats = {name: np.asarray(a.values) for name, a in groups["guided_stats"].items()}
    failed, valid = stats["failed"].astype(bool), stats["valid"].astype(bool)
    summary = [["strings", failed.size - int(failed.sum())], ["failed", int(failed.sum())], ["valid", int(valid.sum())]]
    summary += [["distinct", int(groups["posterior"].attrs["distinct_strings"])]]
    summary += [[f"{name.replace('_', ' ')}, mean", float(stats[name].mean())] for name in ("oracle_calls", "verifier_calls")]
    summary += [["backtracks, mean", float(stats["backtracks"].sum(axis=-1).mean())]]
    print_table(["", "number"], summary)
    from ..report import drawn_strings

    prompts = failed.shape[2] if failed.ndim > 2 else 1
    for k, text in enumerate(drawn_strings(model.graph, idata)):
        if rows and k >= rows:
            print(f"{rows} of {failed.size} strings; `--rows 0` shows all")
            break
        print(f"{k % prompts:6d}  {text}" if failed.ndim > 2 else f"  {text}")
