"""`gmlm sample` by samplers that draw strings from their first symbol on: prompts from a file, a table of what was drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._diagnostics import fail
from ._console import print_table

if TYPE_CHECKING:
    from ..model import Model


def read_prompts(path: Path | None, model: Model) -> list[Any] | None:
    """The prefixes of a file, one a line: of letters the line itself, else values or labels with spaces between them; a line may be empty.

    Raises:
        GmlmError: E521 where the file cannot be read, E502 for what is no number where values are numbers.
    """
    if path is None:
        return None
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise fail("E521", f"cannot read prompts from {path}: {error}") from None
    v = model.graph.observed[0]
    if v.kind == "letters":
        return list(lines)
    return [_row(line, v.ordered, path, k) for k, line in enumerate(lines, 1)]


def _row(line: str, numbers: bool, path: Path, number: int) -> list[Any]:
    words = line.split()
    if not numbers:
        return words
    try:
        return [int(w) for w in words]
    except ValueError:
        raise fail("E502", f"{path}, line {number}: {line!r:.60} holds no whole numbers") from None


def draws_strings(model: Model, sampler: str) -> bool:
    """Whether a sampler draws strings that `guided_stats` counts."""
    from ..program import AUTOREGRESSIVE, ir, is_guided

    body = model.sampler(sampler)[1].body
    if not isinstance(body, ir.FormCall):
        return False
    return is_guided(body.form.name) or (body.form is AUTOREGRESSIVE and model.graph.network is None)


def show_strings(model: Model, idata: Any, rows: int) -> None:
    """What was drawn and what it took, then the strings, with the number of their prompt."""
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
