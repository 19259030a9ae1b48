"""Candidate masks of a model as `.gmlm` text, from its cells, graphs, clusters and forests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..graph import FactorGraph
from ._clusters import Clusters
from .limits import LARGEST_SUBSETS, LEAST_FOREST, MOST_WRITTEN

if TYPE_CHECKING:
    from ..model import Model

Array = np.ndarray
LISTED = " = blocks({"  # start of the body of a mask whose blocks are written one by one


@dataclass(frozen=True)
class Candidate:
    """A mask as text.

    Attributes:
        name: the name of the mask.
        body: the text after the name and `for MODEL`; empty for a mask that the program has.
        why: one line for readers.
    """

    name: str
    body: str
    why: str

    def text(self, model: str, alone: bool) -> str:
        """Return the statement; empty for a mask that the program has."""
        return self.body and f"mask {self.name}{'' if alone else f' for {model}'}{self.body}"

    def in_turn(self, model: str, alone: bool) -> str:
        """Return a sampler that redraws listed blocks one after another; empty for other masks.

        Its name is that of the mask with `_in_turn`.
        """
        each = re.findall(r"{.*?}", self.body, re.DOTALL) if self.body.startswith(LISTED) and " for " not in self.body else []
        updates = " ".join(f"update {block}" for block in each)
        return updates and f"sampler {self.name}_in_turn{'' if alone else f' for {model}'} {{ {updates} }}"


def candidates(model: Model, clusters: Clusters) -> Iterator[Candidate]:
    """Yield candidates in no order.

    Some may be too costly for the model, or cover too few cells.
    """
    host = model.graph
    variables = ", ".join(v.name for v in host.observed)
    cells = np.flatnonzero(host.is_observed)
    yield Candidate("whole", f" = everything({variables})", "all cells: maximum likelihood")
    for size in range(1, min(LARGEST_SUBSETS, len(cells)) + 1):
        why = "every cell on its own: Besag's pseudolikelihood" if size == 1 else f"every {size} cells together"
        yield Candidate(f"subsets_{size}", f" = subsets({variables}, size = {size})", why)
    edges = host.interacting_pairs
    if len(edges):
        yield from _interacting(model, edges, cells)
    for k, blocks in enumerate(clusters.partitions):
        listed = _blocks(host, blocks, cells)
        if listed:
            yield Candidate(f"clusters{f'_{k + 1}' * (k > 0)}", listed, f"strong clusters in one block; {clusters.words[k]}")
    for name, part in _lines(model):
        yield Candidate(f"{name}_{part}".lower(), f" = blocks({name}.{part})", f"the {part} of `{name}`: strips, drawn by elimination")
    forests = _forests(host, cells)
    if len(forests[0]) >= LEAST_FOREST and len(forests) > 1:
        listed = _blocks(host, forests, np.zeros(0, int))
        if listed:
            yield Candidate("forests", listed, "trees of cells, which are drawn exactly in linear time")


def cell_text(host: FactorGraph, position: int) -> str:
    """Return a cell as a program writes it: `x[3]`."""
    v = next(v for v in host.variables if v.offset <= position < v.offset + v.size)
    place = np.unravel_index(position - v.offset, v.shape) if v.shape else ()
    return f"{v.name}[{', '.join(str(int(i)) for i in place)}]" if v.shape else v.name


def _graph_of(model: Model, edges: Array) -> str | None:
    """Return the name of the declared graph with these edges.

    The nodes of the graph must index the only observed variable; otherwise the result is None.
    """
    host = model.graph
    if len(host.observed) != 1 or len(host.observed[0].shape) != 1:
        return None
    own = edges - host.observed[0].offset
    for name, graph in model.program.bound.graphs.items():
        same = not graph.bipartite and graph.n == host.observed[0].size and len(graph.edges) == len(own)
        if same and (np.unique(graph.edges, axis=0) == np.unique(own, axis=0)).all():
            return name
    return None


def _interacting(model: Model, edges: Array, cells: Array) -> Iterator[Candidate]:
    """Yield masks of pairs that share a factor.

    The pairs are equally probable, or a pair is more probable the more its values agree.
    """
    host, graph = model.graph, _graph_of(model, edges)
    lone = np.setdiff1d(cells, edges)
    if graph is not None and not len(lone):
        name = host.observed[0].name
        yield Candidate("edges", f" = blocks({{{name}[i], {name}[j]}} for (i, j) in {graph}.edges)", "the two ends of each edge")
        weighed = f"  choose if {name}[i] == {name}[j] then 3 else 1 : {{{name}[i], {name}[j]}} for (i, j) in {graph}.edges\n"
        yield Candidate("agreeing", f" sees {name} {{\n{weighed}}}", AGREEING)
        return
    listed = _blocks(host, list(edges), lone)
    if not listed:
        return
    yield Candidate("edges", listed, "cells that share a factor, in pairs")
    kinds = [(v.kind, tuple(v.labels)) for v in host.variables for _ in range(v.size)]
    alike = [kinds[i] == kinds[j] for i, j in edges]
    if not any(alike):
        return
    lines = []
    for (i, j), same in zip(edges, alike, strict=True):
        a, b = cell_text(host, i), cell_text(host, j)
        lines.append(f"  choose {f'if {a} == {b} then 3 else 1' if same else '1'} : {{{a}, {b}}}\n")
    lines += [f"  choose 1 : {{{cell_text(host, c)}}}\n" for c in lone]
    given = ", ".join(v.name for v in host.observed if np.isin(v.positions, edges).any())
    yield Candidate("agreeing", f" sees {given} {{\n{''.join(lines)}}}", AGREEING)


AGREEING = "adaptive: pairs that agree now are redrawn together more often"


def _lines(model: Model) -> Iterator[tuple[str, str]]:
    """Yield rows and columns of grids whose nodes index the only variable."""
    host = model.graph
    if len(host.observed) != 1 or len(host.observed[0].shape) != 1:
        return
    for name, graph in model.program.bound.graphs.items():
        if graph.rows is not None and graph.n == host.observed[0].size:
            yield from ((name, part) for part in ("rows", "columns"))


def _blocks(host: FactorGraph, blocks: Sequence[Array], rest: Array) -> str:
    """Return ` = blocks(..)` of blocks, and of every cell of `rest` outside all blocks.

    It is empty if the blocks are too many to write.
    """
    held = np.concatenate([np.zeros(0, int), *blocks])
    every = [np.asarray(b) for b in blocks] + [np.array([c]) for c in np.setdiff1d(rest, held)]
    if not every or len(every) > MOST_WRITTEN:
        return ""
    return " = blocks(" + ", ".join("{" + ", ".join(cell_text(host, int(c)) for c in np.sort(b)) + "}" for b in every) + ")"


def _forests(host: FactorGraph, cells: Array) -> list[Array]:
    """Return sets of cells without a loop in the factor graph, which together contain every cell.

    A cell joins a set if it closes no loop.
    """
    starts, neighbours = host.neighbours
    # a factor of three cells makes a loop of its cells
    wide = max((g.scope.shape[1] for g in host.groups), default=0) > 2
    left, out = set(cells.tolist()), []
    while left:
        parent: dict[int, int] = {}

        def root(c: int, parent: dict[int, int] = parent) -> int:
            while parent[c] != c:
                parent[c] = parent[parent[c]]
                c = parent[c]
            return c

        degree = np.diff(starts)
        for c in sorted(cells.tolist(), key=lambda c: (c not in left, degree[c], c)):
            near = [root(int(n)) for n in neighbours[starts[c] : starts[c + 1]] if int(n) in parent]
            if len(near) == len(set(near)) and (not wide or not near):
                parent[c] = c
                for r in near:
                    parent[r] = c
        out.append(np.sort(np.array(list(parent))))
        left -= set(parent)
        if len(out) > MOST_WRITTEN:
            return [np.zeros(0, int)]
    return out
