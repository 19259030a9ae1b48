"""Do the pieces of a translation that repeat one another attend to each other? Attention over all lines of a text, in two tables.

The attention is of the last layer in the last pass, which sees what the pass before left, hidden
where it is predicted again; of an autoregressive decoder that of one pass over its whole
translation, in which nothing behind is seen. What such a decoder does not end, or loops in, is no
translation: its few rows would hold most of the equal pairs. Li et al. 2024, Section 3.4, Tables 4
and 5, compare adjacent pieces; here those further apart stand beside them, and all means have
intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import counted
from ..decode import attention_dependency
from ._distill import loops
from ._programs import is_causal
from ._translator import WINDOW, Translator

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray
ROWS = 32  # whose attention is held at once
APART = {"adjacent": False, "distant": True}
BEHIND = ("next", "later")  # of which a causal network sees nothing


@dataclass(frozen=True)
class Dependency:
    """Attention between pieces of translations that are equal, beside all other pairs.

    Attributes:
        tables: `adjacent` and `distant` pairs; see `gm.attention_dependency`.
        measured: translations that it is of.
        left_out: lines that are too long or empty.
        unended, looping: translations of an autoregressive sampler that are left out too, without
            an end mark, or that loop where their source does not.
    """

    tables: dict[str, pd.DataFrame] = field(repr=False)
    measured: int
    left_out: int
    unended: int = 0
    looping: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; None for what has no meaning."""
        rows = {name: t.reset_index().to_dict("records") for name, t in self.tables.items()}
        plain = {name: [{k: _plain(v) for k, v in row.items()} for row in found] for name, found in rows.items()}
        counts = {name: getattr(self, name) for name in ("measured", "left_out", "unended", "looping")}
        return counts | plain

    def __str__(self) -> str:
        lines = [f"attention of the last layer, {counted(self.measured, 'translation')}; 94 % intervals"]
        lines.append(f"left out: {self.left_out:,} too long or empty, {self.unended:,} that do not end, {self.looping:,} that loop")
        for name, table in self.tables.items():
            lines.append(f"{name} pairs of pieces; those that are equal, all others, the difference of their means")
            by_name: dict[tuple[str, str], dict[str, Any]] = {}
            for row in table.reset_index().to_dict("records"):
                by_name.setdefault((row["quantity"], row["heads"]), {})[row["pairs"]] = row
            for (quantity, heads), by_kind in by_name.items():
                said = "; ".join(f"{by_kind[k]['mean']:.3f} [{by_kind[k]['low']:.3f}, {by_kind[k]['high']:.3f}]" for k in _kinds(by_kind))
                lines.append(f"  {f'{quantity}, {heads}':<44} {said}")
            counts = next(iter(by_name.values()))
            lines.append("  pairs: " + ", ".join(f"{k} {int(counts[k]['count']):,}" for k in _kinds(counts)[:2]))
        return "\n".join(lines)


def _kinds(found: dict[str, Any]) -> list[str]:
    return ["stutter" if "stutter" in found else "repeat", "other", "difference"]


def dependency(
    translator: Translator, sources: Sequence[str], *, sampler: str | None = None, seed: int = 0, replications: int = 1000
) -> Dependency | None:
    """Translate lines, and compare the attention of pieces that are equal with that of all other pairs.

    Pieces are compared, not words. Of a network that sees nothing behind a cell there is no
    attention to what is next or later.

    Args:
        translator: to be measured.
        sources: lines; one that does not fit into a row is left out.
        sampler: of the program; None: the translator's own.
        seed: of all that is random in decoding, and of the resamples.
        replications: resamples of the lines behind the intervals.

    Returns:
        None where nothing can be measured: a refinement of one pass sees its start alone, and no
        line may fit.

    Raises:
        GmlmError: E506 for an unknown sampler, E738 for a network without attention.
    """
    name = translator.sampler_named(sampler)
    pair, v = translator.pair, translator.vocabulary
    codes = [row for row in v.encode(sources) if 1 < len(row) <= pair.cells[0]]
    found: list[tuple[Array, Array, Array]] = []
    unended = looping = 0
    for start in range(0, len(codes), WINDOW):
        rows = v.rows(codes[start : start + WINDOW], pair.cells[0])
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
    options: dict[str, Any] = {"replications": replications, "seed": seed}
    tables = {apart: attention_dependency(every, lengths, within, across, distant=far, **options) for apart, far in APART.items()}
    if is_causal(translator.model.program.checked, translator.model.name):
        tables = {apart: _without(table, BEHIND) for apart, table in tables.items()}
    return Dependency(tables, len(every), len(sources) - len(codes), unended, looping)


def ended(tokens: Array, end: int) -> Array:
    """Which rows have an end mark."""
    return (tokens == end).any(axis=1)


def _without(table: pd.DataFrame, words: Sequence[str]) -> pd.DataFrame:
    """A table without the quantities of these words."""
    named = table.index.get_level_values("quantity").str.contains(rf"\b(?:{'|'.join(words)})\b")
    return table.loc[~named]


def _last_pass(translator: Translator, rows: Array, sampler: str, seed: int, numbers: Array) -> tuple[Array | None, Array]:
    """What the last pass of a decode saw, and what it made; nothing seen where there was one pass."""
    refines = not translator.is_autoregressive(sampler)
    found = translator.decode(rows, sampler=sampler, seed=seed, rows=numbers, trace=refines)
    if not refines:
        return found.tokens, found.tokens
    assert found.trace is not None
    return (found.seen if found.trace.shape[1] > 1 else None), found.tokens


def _pieces(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Some rows at a time."""
    for start in range(0, len(arrays[0]), ROWS):
        yield tuple(a[start : start + ROWS] for a in arrays)


def _plain(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return None if np.isnan(value) else float(value)
    return int(value) if isinstance(value, np.integer) else value
