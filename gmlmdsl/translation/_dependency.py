"""Attention between equal subword tokens of translations, compared with all other pairs of tokens.

The attention is that of the last layer in the last pass. The input of this pass is the result of
the previous pass, in which the tokens to predict again are hidden. For an autoregressive decoder it
is the attention of one pass over its whole translation, in which later tokens are not visible.
Translations of such a decoder that do not end or that loop are left out: their few rows would
contain most of the equal pairs. Li et al. 2024, Section 3.4, Tables 4 and 5, compare adjacent
tokens. This module adds a table of distant pairs, and gives all means with intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import counted
from .._types import JsonObject
from ..decode import attention_dependency
from ._distill import loops
from ._programs import is_causal
from ._translator import Translator
from .limits import ATTENTION_ROWS, LINES_AT_ONCE

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray
APART = {"adjacent": False, "distant": True}
BEHIND = ("next", "later")  # A causal network does not attend to these positions.


@dataclass(frozen=True)
class Dependency:
    """Attention between equal subword tokens of translations, compared with all other pairs.

    Attributes:
        tables: tables of `adjacent` and `distant` pairs; see `gm.attention_dependency`.
        measured: the number of measured translations.
        left_out: the number of lines that are too long or empty.
        unended, looping: the numbers of translations of an autoregressive sampler that are left out
            too. The former lack an end mark, and the latter loop although their source does not.
    """

    tables: dict[str, pd.DataFrame] = field(repr=False)
    measured: int
    left_out: int
    unended: int = 0
    looping: int = 0

    def as_dict(self) -> JsonObject:
        """Return plain data for JSON, with None for undefined numbers."""
        rows = {name: t.reset_index().to_dict("records") for name, t in self.tables.items()}
        plain = {name: [{k: _plain(v) for k, v in row.items()} for row in found] for name, found in rows.items()}
        counts = {name: getattr(self, name) for name in ("measured", "left_out", "unended", "looping")}
        return counts | plain

    def __str__(self) -> str:
        lines = [f"attention of the last layer, {counted(self.measured, 'translation')}; 94 % intervals"]
        lines.append(f"left out: {self.left_out:,} too long or empty, {self.unended:,} that do not end, {self.looping:,} that loop")
        for name, table in self.tables.items():
            lines.append(f"{name} pairs of pieces; those that are equal, all others, the difference of their means")
            by_name: dict[tuple[str, str], JsonObject] = {}
            for row in table.reset_index().to_dict("records"):
                by_name.setdefault((row["quantity"], row["heads"]), {})[row["pairs"]] = row
            for (quantity, heads), by_kind in by_name.items():
                said = "; ".join(f"{by_kind[k]['mean']:.3f} [{by_kind[k]['low']:.3f}, {by_kind[k]['high']:.3f}]" for k in _kinds(by_kind))
                lines.append(f"  {f'{quantity}, {heads}':<44} {said}")
            counts = next(iter(by_name.values()))
            lines.append("  pairs: " + ", ".join(f"{k} {int(counts[k]['count']):,}" for k in _kinds(counts)[:2]))
        return "\n".join(lines)


def _kinds(found: JsonObject) -> list[str]:
    return ["stutter" if "stutter" in found else "repeat", "other", "difference"]


def dependency(
    translator: Translator, sources: Sequence[str], *, sampler: str | None = None, seed: int = 0, replications: int = 1000
) -> Dependency | None:
    """Translate lines, and compare the attention between equal subword tokens with all other pairs.

    The unit is the subword token, not the word. A causal network does not attend to later
    positions, so its tables omit them.

    Args:
        translator: the translator to measure.
        sources: the lines; a line that does not fit into a row is left out.
        sampler: a sampler of the program; None selects the translator's own.
        seed: the seed of all random numbers in decoding and of the resamples.
        replications: the number of resamples of the lines for the intervals.

    Returns:
        The tables, or None if nothing can be measured. This happens if no line fits, and for a
        refinement of one pass, since this pass sees only its start.

    Raises:
        GmlmError: E506 for an unknown sampler, E738 for a network without attention.
    """
    name = translator.sampler_named(sampler)
    pair, v = translator.pair, translator.vocabulary
    codes = [row for row in v.encode(sources) if 1 < len(row) <= pair.cells[0]]
    found: list[tuple[Array, Array, Array]] = []
    unended = looping = 0
    for start in range(0, len(codes), LINES_AT_ONCE):
        rows = v.rows(codes[start : start + LINES_AT_ONCE], pair.cells[0])
        numbers = np.arange(start, start + len(rows))
        seen, made = _last_pass(translator, rows, name, seed, numbers)
        if seen is None:
            return None
        if translator.is_autoregressive(name):
            whole = ended(made, v.end)
            again = np.array([loops(t) and not loops(s) for s, t in zip(v.decode(rows), v.decode(made), strict=True)])
            unended, looping, kept = unended + int((~whole).sum()), looping + int((whole & again).sum()), whole & ~again
            rows, seen, made = rows[kept], seen[kept], made[kept]
        for given, before, after in _pieces(rows, seen, made):
            weights = translator.model.attention(
                translator.params, {pair.target: before}, given={pair.source: given}, missing=-1, lengths=(after >= 0).sum(axis=1)
            )
            found.append((after, weights["self"][:, -1], weights["cross"][:, -1]))
    if not found:
        return None
    every, within, across = (np.concatenate(parts) for parts in zip(*found, strict=True))
    lengths = (every >= 0).sum(axis=1)
    options: JsonObject = {"replications": replications, "seed": seed}
    tables = {apart: attention_dependency(every, lengths, within, across, distant=far, **options) for apart, far in APART.items()}
    if is_causal(translator.model.program.checked, translator.model.name):
        tables = {apart: _without(table, BEHIND) for apart, table in tables.items()}
    return Dependency(tables, len(every), len(sources) - len(codes), unended, looping)


def ended(tokens: Array, end: int) -> Array:
    """Return which rows have an end mark."""
    return (tokens == end).any(axis=1)


def _without(table: pd.DataFrame, words: Sequence[str]) -> pd.DataFrame:
    """Return a table without the quantities whose names contain one of these words."""
    named = table.index.get_level_values("quantity").str.contains(rf"\b(?:{'|'.join(words)})\b")
    return table.loc[~named]


def _last_pass(translator: Translator, rows: Array, sampler: str, seed: int, numbers: Array) -> tuple[Array | None, Array]:
    """Return the input and the output of the last pass.

    The input is None if there was only one pass.
    """
    refines = not translator.is_autoregressive(sampler)
    found = translator.decode(rows, sampler=sampler, seed=seed, rows=numbers, trace=refines)
    if not refines:
        return found.tokens, found.tokens
    assert found.trace is not None
    return (found.seen if found.trace.shape[1] > 1 else None), found.tokens


def _pieces(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Yield `ATTENTION_ROWS` rows of each array at a time."""
    for start in range(0, len(arrays[0]), ATTENTION_ROWS):
        yield tuple(a[start : start + ATTENTION_ROWS] for a in arrays)


def _plain(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return None if np.isnan(value) else float(value)
    return int(value) if isinstance(value, np.integer) else value
