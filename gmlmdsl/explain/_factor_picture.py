"""The factor graph of a model as inline SVG for notebooks: cells, factors, and a block of a mask."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from .._diagnostics import counted
from .limits import MOST_BLOCKS, MOST_CELLS, MOST_FACTORS, MOST_MASKS, RADIUS, SQUARE, STEP

if TYPE_CHECKING:
    from ..graph import FactorGraph, Lowered
    from ..masks import AbstractMask

Place = tuple[float, float]
LIT = "#d9730d"


@dataclass(frozen=True)
class Drawing:
    """Nodes and factors with their places.

    Attributes:
        names: the name of each node, in full.
        labels: the short text inside each node.
        places: the centre of each node.
        scopes: the nodes of each factor.
        texts: the text of each factor.
        marks: the centre of each factor.
        ends: for each factor the points to which its lines run, one or more for each node of its
            scope.
    """

    names: Sequence[str]
    labels: Sequence[str]
    places: Sequence[Place]
    scopes: Sequence[tuple[int, ...]]
    texts: Sequence[str]
    marks: Sequence[Place]
    ends: Sequence[Sequence[tuple[Place, Place]]]


def model_html(head: str, lowered: Lowered, masks: Mapping[str, AbstractMask]) -> str:
    """Draw the factor graph of a model, once for each of its first masks with one block lit.

    Circles are cells and squares are factors. The block is filled, and the factors that touch it
    are dark: a conditional of the block evaluates only these. A graph of more than 64 cells or 400
    factors is drawn with one circle for each variable and one square for each group of factors. A
    table of variables and parameters follows.

    Args:
        head: the first line.
        lowered: the bound model.
        masks: its masks by name.

    Returns:
        HTML with inline SVG, without scripts or references to other files.
    """
    graph = lowered.graph
    is_small = graph.n_random <= MOST_CELLS and sum(g.n for g in graph.groups) <= MOST_FACTORS and graph.network is None
    drawing = _cells(lowered) if is_small else _variables(graph)
    figures = []
    for name, mask in list(masks.items())[:MOST_MASKS]:
        block = shown_block(mask)
        held = (any(v.offset <= c < v.offset + v.size for c in block) for v in graph.variables)
        lit = block if is_small else [k for k, holds in enumerate(held) if holds]
        figures.append(_figure(drawing, _caption(name, mask, block, graph), lit))
    more = len(masks) - MOST_MASKS
    rest = f"<p>{counted(more, 'more mask')}</p>" if more > 0 else ""
    shown = "".join(figures) or _figure(drawing, "", ())
    style = "display: flex; flex-wrap: wrap; gap: 1.5em; align-items: flex-end"
    return f'<div><p>{escape(head)}</p><div style="{style}">{shown}</div>{rest}{_table(graph)}</div>'


def _table(graph: FactorGraph) -> str:
    rows = "".join(
        f"<tr><td>{escape(a.name)}</td><td>{escape(a.kind)}</td><td>{a.shape}</td></tr>"
        for a in (*graph.variables, *graph.given, *graph.parameters)
    )
    return f"<table><tr><th>name</th><th>kind</th><th>shape</th></tr>{rows}</table>"


def shown_block(mask: AbstractMask) -> list[int]:
    """Return a typical block of a mask: the middle one of the list, or the largest of a long list."""
    if mask.support_size <= MOST_BLOCKS:
        blocks = [sorted(c for c in block if c < mask.n_cells) for block in mask.enumerate_blocks()[0].tolist()]
        if any(blocks):
            filled = [block for block in blocks if block]
            return filled[len(filled) // 2]
    return sorted(mask.largest_block.tolist())


def _caption(name: str, mask: AbstractMask, block: Collection[int], graph: FactorGraph) -> str:
    size = f"mask {name}: {'a' if mask.support_size > 1 else 'its only'} block of {counted(len(block), 'cell')}"
    if graph.network is not None:
        return f"{size}, which a network predicts"
    touching = (instances[starts[c] : starts[c + 1]].tolist() for starts, instances in graph.incidences for c in block)
    groups = len(graph.incidences)
    found: list[set[int]] = [set() for _ in range(groups)]
    for k, numbers in enumerate(touching):
        found[k // len(block)].update(numbers)
    return f"{size}, whose conditional evaluates {sum(map(len, found)):,} of {sum(g.n for g in graph.groups):,} factors"


def _variables(graph: FactorGraph) -> Drawing:
    """Return one node for each variable, and one factor for each group."""
    places = [(2.5 * STEP * k, 0.0) for k in range(len(graph.variables))]
    scopes, marks = [], []
    for k, group in enumerate(graph.groups):
        cells = group.scope
        scope = tuple(n for n, v in enumerate(graph.variables) if ((cells >= v.offset) & (cells < v.offset + v.size)).any())
        scopes.append(scope)
        marks.append((_mean([places[n] for n in scope])[0], STEP * (1 + 0.5 * k)))
    texts = [f"{g.span.text}: {counted(g.n, 'factor')}" for g in graph.groups]
    ends = [[(mark, places[k]) for k in scope] for mark, scope in zip(marks, scopes, strict=True)]
    names = [f"{v.name}: {counted(v.size, 'cell')}" for v in graph.variables]
    return Drawing(names, [short(v.name) for v in graph.variables], places, scopes, texts, marks, ends)


def _cells(lowered: Lowered) -> Drawing:
    """Return one node for each cell, and one square for each factor."""
    graph = lowered.graph
    scopes = [tuple(dict.fromkeys(c for c in row if c < graph.n_random)) for g in graph.groups for row in g.scope.tolist()]
    names = [graph.cell_name(c) for c in range(graph.n_random)]
    written = [g.span.text for g in graph.groups for _ in range(g.n)]
    texts = [f"{text}: {', '.join(names[c] for c in scope)}" for text, scope in zip(written, scopes, strict=True)]
    places, kind = _places(lowered, scopes)
    parts = [name.removesuffix("]").partition("[") for name in names]
    labels = [short(f"{v}{i}" if len(graph.variables) > 1 else i or v) for v, _, i in parts]
    marks: list[Place] = []
    ends = []
    middle = _mean(places)
    for scope in scopes:
        mark, lines = _mark([places[c] for c in scope], kind, middle)
        while any(math.dist(mark, other) < 2 * SQUARE for other in marks):  # Another factor of the same cells is there.
            mark = (mark[0] + 2.4 * SQUARE, mark[1])
        marks.append(mark)
        ends.append([(mark if end is None else end, place) for end, place in lines])
    return Drawing(names, labels, places, scopes, texts, marks, ends)


def _places(lowered: Lowered, scopes: Sequence[tuple[int, ...]]) -> tuple[list[Place], str]:
    """Return the centre of each cell, and the kind of the layout: lattice, rows or circle."""
    graph = lowered.graph
    if len(graph.variables) == 1:
        (v,) = graph.variables
        arrays = lowered.bound.graphs.get(v.dims[0].removesuffix(".nodes")) if v.dims else None
        if arrays is not None and arrays.rows is not None and len(v.shape) == 1:
            found = {n: (STEP * x, STEP * y) for y, row in enumerate(arrays.rows.tolist()) for x, n in enumerate(row)}
            return [found[n] for n in range(v.size)], "lattice"
        if len(v.shape) == 2 and v.members is None:
            return [(STEP * (k % v.shape[1]), STEP * (k // v.shape[1])) for k in range(v.size)], "lattice"
        if v.size > 3 and any(max(s) - min(s) >= len(s) for s in scopes if s):
            size = STEP * v.size / 5.5
            turns = [2 * math.pi * k / v.size - math.pi / 2 for k in range(v.size)]
            return [(size * math.cos(t), size * math.sin(t)) for t in turns], "circle"
    return [(STEP * k, 1.6 * STEP * row) for row, v in enumerate(graph.variables) for k in range(v.size)], "rows"


def _mark(cells: Sequence[Place], kind: str, middle: Place) -> tuple[Place, list[tuple[Place | None, Place]]]:
    """Return the centre of a factor, and the end and the start of each of its lines.

    An end that is None is the centre itself.
    """
    if not cells:
        return (middle[0], middle[1]), []
    if len(cells) == 1:
        (x, y) = cells[0]
        away = math.dist(cells[0], middle) if kind == "circle" else 0.0
        to = ((x - middle[0]) / away, (y - middle[1]) / away) if away else (-0.55, -0.75)
        mark = (x + 0.5 * STEP * to[0], y + 0.5 * STEP * to[1])
        return mark, [(None, cells[0])]
    if len(cells) == 2 and kind != "circle":
        (a, b), far = cells, math.dist(*cells)
        if kind == "lattice" and far > 1.5 * STEP:  # The edge wraps around: it leaves at one end and enters at the other.
            to = ((b[0] - a[0]) / far, (b[1] - a[1]) / far)
            out, back = ((b[0] + 0.5 * STEP * to[0], b[1] + 0.5 * STEP * to[1]), (a[0] - 0.5 * STEP * to[0], a[1] - 0.5 * STEP * to[1]))
            return out, [(None, b), (back, a)]
        if kind == "rows" and a[1] == b[1] and far > 1.5 * STEP:
            return ((a[0] + b[0]) / 2, a[1] - 0.25 * far), [(None, a), (None, b)]
    return _mean(cells, 0.3 if kind == "circle" else 0.0), [(None, c) for c in cells]


def _mean(places: Sequence[Place], first: float = 0.0) -> Place:
    """Return the mean of places, with `first` more weight of the first one."""
    if not places:
        return (0.0, 0.0)
    weights = [1 + first, *[1.0] * (len(places) - 1)]
    return (
        sum(w * x for w, (x, _) in zip(weights, places, strict=True)) / sum(weights),
        sum(w * y for w, (_, y) in zip(weights, places, strict=True)) / sum(weights),
    )


def short(text: str) -> str:
    """Return a text of at most four characters."""
    return text if len(text) <= 4 else text[:3] + "…"


def _figure(drawing: Drawing, caption: str, lit: Collection[int]) -> str:
    """Return a drawing with some nodes lit and the factors that touch them dark."""
    points = [*drawing.places, *drawing.marks, *(end for lines in drawing.ends for end, _ in lines)]
    left, top = (min(p[k] for p in points) - 1.6 * RADIUS for k in (0, 1))
    width, height = (max(p[k] for p in points) + 1.6 * RADIUS - start for k, start in ((0, left), (1, top)))
    parts = []
    for scope, text, mark, lines in zip(drawing.scopes, drawing.texts, drawing.marks, drawing.ends, strict=True):
        shade = 0.25 if lit and not set(scope) & set(lit) else 1.0
        drawn = "".join(f'<path d="M{_at(end)}L{_at(place)}"/>' for end, place in lines)
        x, y = mark[0] - SQUARE, mark[1] - SQUARE
        square = f'<rect x="{x:.1f}" y="{y:.1f}" width="{2 * SQUARE:g}" height="{2 * SQUARE:g}" fill="currentColor"/>'
        parts.append(f'<g opacity="{shade:g}"><title>{escape(text)}</title>{drawn}{square}</g>')
    for k, (name, label, (x, y)) in enumerate(zip(drawing.names, drawing.labels, drawing.places, strict=True)):
        fill, ink = (LIT, "#fff") if k in lit else ("Canvas", "CanvasText")
        circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS:g}" fill="{fill}"/>'
        inside = f'<text x="{x:.1f}" y="{y + 3.5:.1f}" fill="{ink}" stroke="none">{escape(label)}</text>'
        parts.append(f"<g><title>{escape(name)}</title>{circle}{inside}</g>")
    box = f'viewBox="{left:.1f} {top:.1f} {width:.1f} {height:.1f}" style="max-width: {width:.0f}px; width: 100%; height: auto"'
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {box} stroke="currentColor" fill="none" '
        f'font-family="sans-serif" font-size="10" text-anchor="middle"><title>{escape(caption)}</title>{"".join(parts)}</svg>'
    )
    style = f"margin: 0; width: {max(width, 240):.0f}px; max-width: 100%"
    return f'<figure style="{style}">{svg}<figcaption>{escape(caption)}</figcaption></figure>'


def _at(place: Place) -> str:
    return f"{place[0]:.1f} {place[1]:.1f}"
