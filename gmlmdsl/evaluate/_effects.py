"""Effects of substitutions: the change of log p if one cell or two cells take other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import derive
from .._diagnostics import counted, fail, is_whole_number, unknown
from .._types import Label
from ..derive import compiled
from ..graph import FactorGraph
from ..plan import block_arrays
from ._missing import log_completions
from ._row_sizes import size_of
from .limits import SHOWN_EFFECTS

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray


@dataclass(frozen=True)
class Effects:
    """Changes of log p, in nats: log p(mutant) - log p(wildtype), in which log Z cancels.

    Attributes:
        singles: shape (cells, most values of a cell). It is 0 at the wildtype's value, nan at
            values that a cell lacks, and -inf at an impossible mutant.
        cells: positions of the cells that the wildtype specifies.
        pairs: positions i < j of the requested pairs of cells, shape (pairs, 2).
        doubles: shape (pairs, values of i, values of j).
        wildtype: codes of `cells`.
        graph: the factor graph.
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
        return f"Changes of log p in nats: {head}; the lowest\n{table.nsmallest(SHOWN_EFFECTS, 'effect').to_string(index=False)}"

    @property
    def names(self) -> list[str]:
        """The names of `cells`."""
        return [self.graph.cell_name(int(c)) for c in self.cells]

    @property
    def labels(self) -> list[Label]:
        """The labels of the last axis of `singles`.

        They are the values as the domain writes them, or their numbers if the cells have different
        domains.
        """
        known = {tuple(v.labels) for c in self.cells for v in self.graph.variables if v.offset <= c < v.offset + v.size}
        width = self.singles.shape[1]
        return list(known.pop()) if len(known) == 1 else list(range(width))

    @property
    def table(self) -> pd.DataFrame:
        """A table with one row for each single substitution.

        Its columns are `cell`, `wildtype`, `mutant` (values as the domain writes them) and
        `effect`.
        """
        import pandas as pd

        at, value = np.nonzero(~np.isnan(self.singles) & (np.arange(self.singles.shape[1]) != self.wildtype[:, None]))
        columns: dict[str, object] = {
            "cell": [self.graph.cell_name(int(self.cells[k])) for k in at],
            "wildtype": [self._value(k, self.wildtype[k]) for k in at],
            "mutant": [self._value(k, v) for k, v in zip(at, value, strict=True)],
            "effect": self.singles[at, value],
        }
        return pd.DataFrame(columns)

    @property
    def double_table(self) -> pd.DataFrame:
        """A table with one row for each double substitution.

        Its columns are the cells, their values, `effect` and `epistasis`. The epistasis is the
        effect minus the effects of both single substitutions.
        """
        import pandas as pd

        place = np.searchsorted(self.cells, self.pairs)
        width = np.arange(self.singles.shape[1])
        moved = [width != self.wildtype[place[:, s], None] for s in (0, 1)]
        pair, a, b = np.nonzero(~np.isnan(self.doubles) & moved[0][:, :, None] & moved[1][:, None])
        columns: dict[str, object] = {}
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


def substitution_effects(graph: FactorGraph, params: Mapping[str, jax.Array], codes: Array, doubles: object) -> Effects:
    """Return the effects of substitutions in one configuration.

    Missing cells of the configuration, latents among them, are summed out.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: the configuration, (cells, 1), -1 for a missing cell.
        doubles: pairs of cells for double substitutions, see `_pairs`; None for none.

    Raises:
        GmlmError: E508 if the configuration is impossible, E507 for invalid pairs, E601 if sums
            cost too much.
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
        """Return log p of every joint value of each block minus log p of the configuration.

        The result has the shape (blocks, width ** members).
        """
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
    """Return the sum of the factors that touch each block, at each joint value of the block.

    Blocks of one size share a program.
    """
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
    """Return log p of the observed cells at each joint value of each block, if cells are missing.

    Each joint value of each block is evaluated as a row of its own.
    """
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
    """Return tables with `width` values for every member, nan at values that a cell lacks."""
    out = np.full((len(found), *[width] * sizes.shape[1]), np.nan)
    for shape in np.unique(sizes, axis=0):
        mine = (sizes == shape).all(axis=1)
        out[(mine, *(slice(0, n) for n in shape))] = found[mine, : shape.prod()].reshape(-1, *shape)
    return out.reshape(len(found), -1)


def _pairs(graph: FactorGraph, cells: Array, doubles: object) -> Array:
    """Return the positions i < j of the requested pairs.

    Pairs are given by positions, by names, or by the columns `first` and `second` of a table.
    """
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
