"""Candidate masks of a model, as `.gmlm` text: from its cells, its graphs, its strong clusters and its forests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph import FactorGraph
from ._clusters import Clusters

Array = np.ndarray
MOST_WRITTEN = 200  # blocks that are written one by one
LEAST_FOREST = 4  # cells of a forest that is worth a block
LARGEST_SUBSETS = 3
LISTED = " = blocks({"  # what the body of a mask of blocks written one by one begins with


@dataclass(frozen=True)
class Candidate:
    """A mask as text.

    Attributes:
        name: of the mask.
        body: what stands behind the name and `for MODEL`; empty for a mask that the program has.
        why: one line for readers.
    """

    name: str
    body: str
    why: str

    def text(self, model: str, alone: bool) -> str:
        """The statement; empty for a mask that the program has."""
        return self.body and f"mask {self.name}{'' if alone else f' for {model}'}{self.body}"

    def in_turn(self, model: str, alone: bool) -> str:
        """A sampler that redraws listed blocks one after another, under the mask's name with `_in_turn`; empty for other masks."""
        each = re.findall(r"{.*?}", self.body, re.DOTALL) if self.body.startswith(LISTED) and " for " not in self.body else []
        updates = " ".join(f"update {block}" for block in each)
        return updates and f"sampler {self.name}_in_turn{'' if alone else f' for {model}'} {{ {updates} }}"


def candidates(model: Any, clusters: Clusters) -> Iterator[Candidate]:
    """Candidates in no order; some may be too costly for the model, or cover too little."""
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
    """A cell as a program writes it: `x[3]`."""
    v = next(v for v in host.variables if v.offset <= position < v.offset + v.size)
    place = np.unravel_index(position - v.offset, v.shape) if v.shape else ()
    return f"{v.name}[{', '.join(str(int(i)) for i in place)}]" if v.shape else v.name


def _graph_of(model: Any, edges: Array) -> str | None:
    """The declared graph whose edges these are, where one variable is indexed by its nodes alone."""
    host = model.graph
    if len(host.observed) != 1 or len(host.observed[0].shape) != 1:
        return None
    own = edges - host.observed[0].offset
    for name, graph in model.program.bound.graphs.items():
        same = not graph.bipartite and graph.n == host.observed[0].size and len(graph.edges) == len(own)
        if same and (np.unique(graph.edges, axis=0) == np.unique(own, axis=0)).all():
            return name
    return None


def _interacting(model: Any, edges: Array, cells: Array) -> Iterator[Candidate]:
    """Pairs that share a factor: each as likely as the next, or the likelier the more their values agree."""
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


def _lines(model: Any) -> Iterator[tuple[str, str]]:
    """Rows and columns of grids whose nodes index the only variable."""
    host = model.graph
    if len(host.observed) != 1 or len(host.observed[0].shape) != 1:
        return
    for name, graph in model.program.bound.graphs.items():
        if graph.rows is not None and graph.n == host.observed[0].size:
            yield from ((name, part) for part in ("rows", "columns"))


def _blocks(host: FactorGraph, blocks: Sequence[Array], rest: Array) -> str:
    """` = blocks(..)` of blocks, and of every cell of `rest` that none of them holds; empty where they are too many to write."""
    held = np.concatenate([np.zeros(0, int), *blocks])
    every = [np.asarray(b) for b in blocks] + [np.array([c]) for c in np.setdiff1d(rest, held)]
    if not every or len(every) > MOST_WRITTEN:
        return ""
    return " = blocks(" + ", ".join("{" + ", ".join(cell_text(host, int(c)) for c in np.sort(b)) + "}" for b in every) + ")"


def _forests(host: FactorGraph, cells: Array) -> list[Array]:
    """Sets of cells on which the factor graph has no loop, until each cell is in one; a cell joins where it closes none."""
    starts, neighbours = host.neighbours
    # a factor of three cells is a loop of neighbours
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
