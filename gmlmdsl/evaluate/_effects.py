"""Effects of substitutions: how log p changes where one cell of a configuration, or two, hold other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import derive
from .._diagnostics import counted, fail, is_whole_number, unknown
from ..derive import compiled
from ..graph import FactorGraph
from ..plan import block_arrays
from ._completions import log_completions
from ._row_sizes import size_of

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray
SHOWN = 10  # rows of what is printed


@dataclass(frozen=True)
class Effects:
    """Changes of log p, in nats: log p(mutant) - log p(wildtype), in which log Z cancels.

    Attributes:
        singles: shape (cells, most values of a cell); 0 at the wildtype's value, nan at values that
            a cell lacks, -inf where the mutant is impossible.
        cells: positions of the cells that the wildtype holds.
        pairs: positions i < j of the pairs of cells that were asked for, shape (pairs, 2).
        doubles: shape (pairs, values of i, values of j).
        wildtype: codes of `cells`.
    """

    singles: Array
    cells: Array
    pairs: Array
    doubles: Array
    wildtype: Array
    graph: FactorGraph = field(repr=False)

    def __str__(self) -> str:
        table = self.table
        head = f"{counted(len(table), 'substitution')} of one value in {counted(len(self.cells), 'cell')}"
        head += f", {counted(len(self.double_table), 'double one')}" if len(self.pairs) else ""
        return f"Changes of log p in nats: {head}; the lowest\n{table.nsmallest(SHOWN, 'effect').to_string(index=False)}"

    @property
    def names(self) -> list[str]:
        """Of `cells`."""
        return [self.graph.cell_name(int(c)) for c in self.cells]

    @property
    def labels(self) -> list[Any]:
        """What the last axis of `singles` stands for: values as the domain writes them, their numbers where cells have other domains."""
        known = {tuple(v.labels) for c in self.cells for v in self.graph.variables if v.offset <= c < v.offset + v.size}
        width = self.singles.shape[1]
        return list(known.pop()) if len(known) == 1 else list(range(width))

    @property
    def table(self) -> pd.DataFrame:
        """One row for each single substitution: `cell`, `wildtype`, `mutant` (values as the domain writes them), `effect`."""
        import pandas as pd

        at, value = np.nonzero(~np.isnan(self.singles) & (np.arange(self.singles.shape[1]) != self.wildtype[:, None]))
        columns: dict[str, Any] = {
            "cell": [self.graph.cell_name(int(self.cells[k])) for k in at],
            "wildtype": [self._value(k, self.wildtype[k]) for k in at],
            "mutant": [self._value(k, v) for k, v in zip(at, value, strict=True)],
            "effect": self.singles[at, value],
        }
        return pd.DataFrame(columns)

    @property
    def double_table(self) -> pd.DataFrame:
        """One row for each double substitution: cells, values, `effect`, and `epistasis`, the effect less those of both singles."""
        import pandas as pd

        place = np.searchsorted(self.cells, self.pairs)
        width = np.arange(self.singles.shape[1])
        moved = [width != self.wildtype[place[:, s], None] for s in (0, 1)]
        pair, a, b = np.nonzero(~np.isnan(self.doubles) & moved[0][:, :, None] & moved[1][:, None])
        columns: dict[str, Any] = {}
        for name, slot, code in (("first", place[pair, 0], a), ("second", place[pair, 1], b)):
            columns[name] = [self.graph.cell_name(int(self.cells[k])) for k in slot]
            columns[f"{name}_mutant"] = [self._value(k, v) for k, v in zip(slot, code, strict=True)]
        columns["effect"] = self.doubles[pair, a, b]
        with np.errstate(invalid="ignore"):
            columns["epistasis"] = self.doubles[pair, a, b] - self.singles[place[pair, 0], a] - self.singles[place[pair, 1], b]
        return pd.DataFrame(columns)

    def _value(self, place: Any, code: Any) -> Any:
        cell = int(self.cells[place])
        return next(v for v in self.graph.variables if v.offset <= cell < v.offset + v.size).labels[int(code)]


def substitution_effects(graph: FactorGraph, params: Mapping[str, jax.Array], codes: Array, doubles: Any) -> Effects:
    """The effects on one configuration, (cells, 1), -1 where a cell is missing: such cells and latents that it lacks are summed out.

    Raises:
        GmlmError: E508 where the configuration is impossible, E507 for pairs that are none, E601
            where sums cost too much.
    """
    device = derive.graph_arrays(graph)
    known = codes[:, 0] >= 0
    cells = np.flatnonzero(known[: graph.n_random])
    pairs = _pairs(graph, cells, doubles)
    base = np.asarray(log_completions(graph, device, params, codes))[0]
    if not np.isfinite(base):
        raise fail("E508", f"effects are changes of log p, which is {base:g} at this configuration", help="pass one that is possible")
    whole = bool(known.all())
    width = int(graph.sizes[cells].max(initial=1))

    def scores(blocks: Array) -> Array:
        """log p of every joint value of each block less that of the configuration: (blocks, width ** members)."""
        if not len(blocks):
            return np.zeros((0, width ** blocks.shape[1]))
        found = _local(graph, device, params, codes, blocks) if whole else _summed(graph, device, params, codes, blocks) - base
        return _spread(found, graph.sizes[blocks], width)

    singles = scores(cells[:, None])
    both = scores(pairs).reshape(len(pairs), width, width)
    wild = codes[cells, 0]
    if whole:
        singles = singles - singles[np.arange(len(cells)), wild][:, None]
        both = both - both[np.arange(len(pairs)), codes[pairs[:, 0], 0], codes[pairs[:, 1], 0]][:, None, None]
    return Effects(singles, cells, pairs, both, wild, graph)


def _local(graph: FactorGraph, device: derive.Graph, params: Mapping[str, jax.Array], codes: Array, blocks: Array) -> Array:
    """The sum of the factors that touch each block, at each of its joint values; blocks of one size share a program."""
    arrays = block_arrays(graph, blocks.astype(np.int64))
    count = int(graph.sizes[blocks].astype(float).prod(axis=1).max())
    step = size_of(len(blocks), count * (1 + sum(a.shape[1] for a in arrays[3:])))
    row, parts = derive.on_device(codes), []
    for start in range(0, len(blocks), step):
        piece = [a[np.minimum(np.arange(start, start + step), len(blocks) - 1)] for a in arrays]
        cells, radix, strides = (_ints(a) for a in piece[:3])
        here = derive.Blocks(count, cells, radix, strides, tuple(_ints(a) for a in piece[3:]))
        parts.append(np.asarray(compiled.local_scores(device, params, row, here))[:, :, 0])
    return np.concatenate(parts)[: len(blocks)]


def _ints(a: Array) -> jax.Array:
    return derive.on_device(a[..., None], np.int32)


def _summed(graph: FactorGraph, device: derive.Graph, params: Mapping[str, jax.Array], codes: Array, blocks: Array) -> Array:
    """The same where cells are missing: log p of what is held, one row for each joint value of each block."""
    sizes = graph.sizes[blocks].astype(np.int64)
    counts = sizes.prod(axis=1)
    of, number = np.repeat(np.arange(len(blocks)), counts), np.concatenate([np.arange(n) for n in counts])
    rows = np.repeat(codes, len(of), axis=1)
    for s in reversed(range(blocks.shape[1])):
        rows[blocks[of, s], np.arange(len(of))] = number % sizes[of, s]
        number = number // sizes[of, s]
    out = np.full((len(blocks), int(counts.max())), -np.inf)
    out[np.arange(out.shape[1]) < counts[:, None]] = np.asarray(log_completions(graph, device, params, rows))
    return out


def _spread(found: Array, sizes: Array, width: int) -> Array:
    """Tables with as many values for every member; nan at values that a cell lacks."""
    out = np.full((len(found), *[width] * sizes.shape[1]), np.nan)
    for shape in np.unique(sizes, axis=0):
        mine = (sizes == shape).all(axis=1)
        out[(mine, *(slice(0, n) for n in shape))] = found[mine, : shape.prod()].reshape(-1, *shape)
    return out.reshape(len(found), -1)


def _pairs(graph: FactorGraph, cells: Array, doubles: Any) -> Array:
    """Positions i < j of the pairs asked for: positions, names, or the columns `first` and `second` of a table."""
    import pandas as pd

    if doubles is None:
        return np.zeros((0, 2), np.int64)
    help_ = '`[("x[0]", "x[3]")]`, say, or `fit.couplings(top=9)`'
    if isinstance(doubles, pd.DataFrame):
        if not {"first", "second"} <= {*doubles.columns}:
            raise fail("E507", f"doubles: the table lacks `first` and `second`; it has {', '.join(map(str, doubles.columns))}", help=help_)
        doubles = list(zip(doubles["first"], doubles["second"], strict=True))
    if not isinstance(doubles, Sequence | np.ndarray) or isinstance(doubles, str):
        raise fail("E507", f"doubles must be pairs of cells, got {doubles!r}", help=help_)
    names = {graph.cell_name(int(c)): int(c) for c in cells}
    found = []
    for pair in doubles:
        if not isinstance(pair, Sequence | np.ndarray) or isinstance(pair, str) or len(pair) != 2:
            raise fail("E507", f"doubles must be pairs of cells, got {pair!r}", help=help_)
        ends = sorted(_cell(one, names) for one in pair)
        if ends[0] == ends[1]:
            raise fail("E507", f"doubles: {pair!r} is one cell twice")
        found.append(ends)
    return np.array(found, np.int64).reshape(-1, 2)


def _cell(given: Any, names: Mapping[str, int]) -> int:
    if isinstance(given, str) and given in names:
        return names[given]
    if is_whole_number(given) and given in names.values():
        return int(given)
    raise unknown(f"doubles: the configuration holds no cell {given!r}", str(given), list(names))
