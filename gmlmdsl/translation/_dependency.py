"""Do the pieces of a translation that repeat one another attend to each other? Attention over all lines of a text, in two tables.

The attention is of the last layer in the last pass, which sees what the pass before left; of an autoregressive decoder that of one pass
over its whole translation, in which nothing behind is seen. Li et al. 2024, Section 3.4, Tables 4 and 5, compare adjacent pieces; here
those further apart stand beside them, and all means have intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import counted
from ..decode import attention_dependency
from ._translator import WINDOW, Translator

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray
ROWS = 32  # whose attention is held at once
APART = {"adjacent": False, "distant": True}


@dataclass(frozen=True)
class Dependency:
    """Attention between pieces of translations that are equal, beside all other pairs.

    Attributes:
        tables: `adjacent` and `distant` pairs; see `gm.attention_dependency`.
        measured: translations that it is of.
        left_out: lines that are too long or empty, and those that had hidden pieces before the last pass.
    """

    tables: dict[str, pd.DataFrame] = field(repr=False)
    measured: int
    left_out: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; None for what has no meaning."""
        rows = {name: t.reset_index().to_dict("records") for name, t in self.tables.items()}
        plain = {name: [{k: _plain(v) for k, v in row.items()} for row in found] for name, found in rows.items()}
        return {"measured": self.measured, "left_out": self.left_out, **plain}

    def __str__(self) -> str:
        lines = [f"attention of the last layer, {counted(self.measured, 'translation')}, {self.left_out:,} left out; 94 % intervals"]
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

    Args:
        translator: to be measured.
        sources: lines; one that does not fit into a row is left out.
        sampler: of the program; None: the translator's own.
        seed: of all that is random in decoding, and of the resamples.
        replications: resamples of the lines behind the intervals.

    Returns:
        None where nothing can be measured: a refinement of one pass sees its start alone, and no line may fit.

    Raises:
        GmlmError: E506 for an unknown sampler, E738 for a network without attention.
    """
    name = translator.sampler_named(sampler)
    pair, v = translator.pair, translator.vocabulary
    codes = [row for row in v.encode(sources) if 1 < len(row) <= pair.cells[0]]
    found: list[tuple[Array, Array, Array]] = []
    for start in range(0, len(codes), WINDOW):
        rows = v.rows(codes[start : start + WINDOW], pair.cells[0])
        numbers = np.arange(start, start + len(rows))
        seen, made = _last_pass(translator, rows, name, seed, numbers)
        if seen is None:
            return None
        whole = (seen >= 0).sum(axis=1) == (made >= 0).sum(axis=1)  # a hidden piece cannot be told from padding
        for given, before, after in _pieces(rows[whole], seen[whole], made[whole]):
            weights = translator.model.attention(translator.params, {pair.target: before}, given={pair.source: given}, missing=-1)
            found.append((after, weights["self"][:, -1], weights["cross"][:, -1]))
    if not found:
        return None
    every, within, across = (np.concatenate(parts) for parts in zip(*found, strict=True))
    lengths = (every >= 0).sum(axis=1)
    options: dict[str, Any] = {"replications": replications, "seed": seed}
    tables = {apart: attention_dependency(every, lengths, within, across, distant=far, **options) for apart, far in APART.items()}
    return Dependency(tables, len(every), len(sources) - len(every))


def _last_pass(translator: Translator, rows: Array, sampler: str, seed: int, numbers: Array) -> tuple[Array | None, Array]:
    """What the last pass of a decode saw, and what it made; nothing seen where there was one pass."""
    refines = not translator.is_autoregressive(sampler)
    found = translator.decode(rows, sampler=sampler, seed=seed, rows=numbers, trace=refines)
    if not refines:
        return found.tokens, found.tokens
    assert found.trace is not None
    return (found.trace[:, -2] if found.trace.shape[1] > 1 else None), found.trace[:, -1]


def _pieces(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Some rows at a time."""
    for start in range(0, len(arrays[0]), ROWS):
        yield tuple(a[start : start + ROWS] for a in arrays)


def _plain(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return None if np.isnan(value) else float(value)
    return int(value) if isinstance(value, np.integer) else value
