"""Pictures of networks: cells as nodes, couplings as lines, on any graph.

Maps of pairs of cells show the strongest couplings, and the share of true contacts among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import counted, is_real_number
from .._optional import need
from ._palette import DIVERGING, LIGHT, MARKERS, SERIES, axes_of, bare, house_style, plain
from ._picture_arguments import (
    LARGEST,
    axes_in,
    numbers,
    rows_of,
    verified_axes,
    verified_count,
    verified_names,
    verified_number,
    verified_table,
    wrong,
)
from .limits import (
    CIRCLE,
    FIGURE_WIDTH,
    LETTER,
    LINE,
    LINE_LETTERS,
    MOST_CONTACT_NAMES,
    MOST_NODE_NAMES,
    MOST_ROOM,
    MOST_UPRIGHT,
    NEAR,
    PALE,
    ROOM_STEPS,
    SPREAD,
    WIDEST_LINE,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray
LAYOUTS = ("circular", "spring")


def plot_network(
    couplings: pd.DataFrame,
    *,
    nodes: Sequence[str] | None = None,
    fields: Mapping[str, float] | pd.Series | Array | None = None,
    groups: Mapping[str, Any] | Sequence[Any] | None = None,
    colours: Mapping[Any, str] | None = None,
    cut: float = 0.0,
    layout: str | Mapping[str, Any] = "circular",
    significant: Any = None,
    limit: float | None = None,
    label: str = "coupling",
    ax: Axes | None = None,
    seed: int = 0,
) -> Figure:
    """Plot a network with one line per coupling, blue below zero and orange above.

    The width of a line is the strength of the coupling. A line is pale if the coupling may be 0.

    Args:
        couplings: the result of `Fit.couplings` or `Fit.differences`: a table with the columns
            `first`, `second` and `value`. A `value` that is not finite is drawn dashed, and a
            `value` of 0 is not drawn.
        nodes: the names of the nodes, in the order of the circle: all ends of the couplings, and
            possibly others. If None, all cells of the model if there are at most 60, else those in
            the table.
        fields: numbers that the colours of nodes show, such as parameters. They are a dict or
            Series by name of a node, or one number for each node in their order, such as
            `fit.params["h"]`. If None, nodes are white.
        groups: the group of each node: a dict by name of a node, or one label for each node in
            their order. Each group has a colour and a mark, which the legend explains; a node that
            a dict leaves out is white. `fields` cannot be given too.
        colours: the colours of groups, as matplotlib takes them. If None, there are six, which
            repeat with other marks.
        cut: couplings with |value| below this number are not drawn; the legend has their number.
            They still count in the spring layout.
        layout: "circular", "spring", or a dict. "circular" places the nodes on a circle in their
            order. "spring" places strongly coupled nodes near each other (by networkx, an extra:
            `pip install "gmlmdsl[network]"`), and nodes without a line in a row below. A dict has
            by name the x and y of each node.
        significant: shape (coupling,), whether each coupling differs significantly from 0. If None,
            the column `differs` if the table has one, else whether the interval excludes 0, else
            true.
        limit: the strength of the widest line. If None, the largest finite strength.
        label: the name of the lines, under the picture.
        ax: the axes. If None, a new figure is made.
        seed: the seed of the spring layout.

    Returns:
        The figure of the axes.

    Raises:
        GmlmError: E561 if networkx is needed and not installed, E507 for arguments that do not fit.

    Reference: Fruchterman and Reingold 1991, for the spring layout.
    """
    verified_table(couplings, ("first", "second", "value"), "fit.couplings()")
    couplings = couplings.assign(value=numbers("value", couplings["value"], (len(couplings),)))
    _verify_ends(couplings)
    verified_axes(ax)
    if not isinstance(label, str):
        raise wrong(f"`label` must be a text, got {label!r}")
    names = node_names(couplings) if nodes is None else _verified_nodes(nodes, couplings)
    if not names:
        raise wrong("the table has no row and knows of no cell: there is nothing to draw")
    shades, marks = _verified_fields(fields, names), _marks_of(groups, colours, names)
    if shades is not None and marks is not None:
        raise wrong("`fields` and `groups` both colour the nodes", "leave one of them out")
    if not is_real_number(cut) or not 0 <= cut <= LARGEST:
        raise wrong(f"`cut` must be a number, 0 or more, got {cut!r}", "`cut=0.1`, say")
    sure = told_apart(couplings) if significant is None else numbers("significant", significant, (len(couplings),)).astype(bool)
    there = couplings["value"].to_numpy(float) != 0
    couplings, sure = couplings.loc[there], sure[there]
    xy = node_places(couplings, names, layout, seed)
    shown = ~(np.abs(couplings["value"].to_numpy(float)) < cut)  # one without a finite estimate is shown
    hidden = int((~shown).sum())
    couplings, sure = couplings.loc[shown], sure[shown]
    value = couplings["value"].to_numpy(float)
    finite = np.abs(value[np.isfinite(value)])
    most = float(finite.max(initial=0.0)) if limit is None else verified_number("limit", limit, 0)
    place, ring = {name: k for k, name in enumerate(names)}, isinstance(layout, str) and layout == "circular"
    ends = np.array([[place[a], place[b]] for a, b in zip(couplings["first"], couplings["second"], strict=True)], int).reshape(-1, 2)
    with house_style():
        # names beside the nodes need room
        axes = axes_of(ax, FIGURE_WIDTH, FIGURE_WIDTH if ring else 1.4 * FIGURE_WIDTH)
        _draw_lines(axes, xy[ends], value, sure, most or 1.0)
        _draw_marks(axes, xy, names, shades, marks)
        _draw_names(axes, xy, names, ring)
        axes.set_aspect("equal")
        axes.margins(*((0.3, 0.1) if not ring else (0.2, 0.16) if len(names) <= MOST_UPRIGHT else (0.5, 0.5)))
        if not ring:  # names around a circle are placed for its size
            _make_room(axes)
        axes.set_axis_off()
        _legend(axes, most, label, value, sure, shades, float(cut), hidden)
    return axes.figure  # pyright: ignore[reportReturnType]


def node_names(couplings: pd.DataFrame) -> list[str]:
    """Return the names of the nodes.

    They are in the order of the cells if the table knows that order, and else in order of
    appearance. Cells that are not in the table are included if there are few.
    """
    held = {*couplings["first"], *couplings["second"]}
    cells = [str(n) for n in couplings.attrs.get("cells", ())]
    if not held <= {*cells}:
        return list(dict.fromkeys([*couplings["first"], *couplings["second"]]))
    return cells if len(cells) <= MOST_NODE_NAMES else [n for n in cells if n in held]


def _verify_ends(couplings: pd.DataFrame) -> None:
    for a, b in zip(couplings["first"], couplings["second"], strict=True):
        if not isinstance(a, str) or not isinstance(b, str):
            raise wrong(f"`first` and `second` must be names of nodes, got {a if not isinstance(a, str) else b!r}", "leave such rows out")
        if a == b:
            raise wrong(f"a coupling joins {a!r} with itself", "leave such rows out")


def _verified_nodes(nodes: Any, couplings: pd.DataFrame) -> list[str]:
    cure = "a list of names, such as `[*couplings.first, *couplings.second]` without repeats"
    if isinstance(nodes, str) or not hasattr(nodes, "__iter__"):
        raise wrong(f"`nodes` must be names of nodes, got {nodes!r}", cure)
    names = verified_names("`nodes`", nodes)
    strange = [n for n in names if not isinstance(n, str)]
    if strange:
        raise wrong(f"`nodes` must be names of nodes, got {strange[0]!r} among them", cure)
    if len({*names}) < len(names):
        raise wrong(f"`nodes` names {next(n for n in names if names.count(n) > 1)!r} twice")
    lacking = [n for n in (*couplings["first"], *couplings["second"]) if n not in names]
    if lacking:
        raise wrong(f"`nodes` lacks {lacking[0]!r}, which is the end of a coupling", _meant(names, node_names(couplings)) or cure)
    return names


def _meant(given: Sequence[Any], names: list[str]) -> str:
    """Return a suggested fix with the full names of nodes given as `a` instead of `x[a]`."""
    whole = dict(zip(bare(names), names, strict=True))
    found = [(str(g), whole[str(g)]) for g in given if str(g) in whole and str(g) not in names]
    return f"the name of {found[0][0]!r} is {found[0][1]!r}" if found else ""


def told_apart(couplings: pd.DataFrame) -> Array:
    """Return which couplings differ significantly from 0.

    This is decided by the column `differs` or by the intervals. If the table has neither, the
    result is true for all couplings.
    """
    if "differs" in couplings:
        return couplings["differs"].to_numpy(bool)
    ends = [c for c in couplings.columns if str(c).endswith("%")]
    if len(ends) != 2:
        return np.ones(len(couplings), bool)
    low, high = couplings[ends].to_numpy(float).T
    return (low > 0) | (high < 0)


def node_places(couplings: pd.DataFrame, names: list[str], layout: str | Mapping[str, Any], seed: int) -> Array:
    """Return x and y of each node.

    Args:
        couplings: the table of couplings.
        names: the names of the nodes.
        layout: see `plot_network`.
        seed: the seed of the spring layout.

    Raises:
        GmlmError: E507 for a layout that does not fit, E561 if networkx is needed and not
            installed.
    """
    if isinstance(layout, Mapping):
        lacking = [n for n in names if n not in layout]
        if lacking:
            raise wrong(f"`layout` lacks the node {lacking[0]!r}", _meant([*layout], names) or _listed(names))
        found = np.array([numbers(f"layout[{n!r}]", layout[n], (2,)) for n in names])
        if not np.isfinite(found).all():
            raise wrong(f"`layout` puts {names[int(np.argmin(np.isfinite(found).all(axis=1)))]!r} at a place that is not finite")
        return found
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise wrong(f"`layout` must be {' or '.join(map(repr, LAYOUTS))} or a dict of places, got {layout!r}")
    if layout == "circular":
        angle = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / max(len(names), 1)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    from ..data import verified_seed  # this import loads JAX

    verified_seed(seed)
    networkx = need("networkx", "the spring layout needs networkx", '"gmlmdsl[network]"', 'or ask for `layout="circular"`, or pass places')
    graph = networkx.Graph()
    for a, b, v in zip(couplings["first"], couplings["second"], couplings["value"], strict=True):
        graph.add_edge(a, b, weight=abs(float(v)) if np.isfinite(v) else 0.0)
    found = networkx.spring_layout(graph, seed=seed % 2**32, iterations=200, k=2.2 / np.sqrt(max(len(graph), 1)))
    alone = [n for n in names if n not in found]
    x, y = np.array([*found.values()], float).reshape(-1, 2).T
    # Each node is in the middle of one of equal parts of the row.
    row = np.linspace(x.min(initial=0.0), x.max(initial=0.0), 2 * len(alone) + 1)[1::2]
    below = dict(zip(alone, ((at, y.min(initial=0.0) - 0.3) for at in row), strict=True))
    return np.array([found[n] if n in found else below[n] for n in names], float).reshape(-1, 2)


def _listed(names: list[str]) -> str:
    return f"the nodes are {', '.join(map(repr, names[:6]))}{', ..' * (len(names) > 6)}"


def _verified_fields(fields: Any, names: list[str]) -> dict[str, float] | None:
    """Return the numbers of nodes by name."""
    if fields is None:
        return None
    if not hasattr(fields, "items"):
        shape = "no one length" if axes_in(fields) is None else np.shape(fields)
        if shape != (len(names),):
            what = f"a dict of numbers by node, or one number for each of {counted(len(names), 'node')}"
            raise wrong(f"`fields` must be {what}, got {type(fields).__name__} of shape {shape}", f"`fields={{{names[0]!r}: 0.3}}`, say")
        return dict(zip(names, numbers("fields", fields, (len(names),)).tolist(), strict=True))
    found = dict(fields.items())
    strange = [k for k in found if k not in names]
    if strange:
        raise wrong(f"`fields` names {strange[0]!r}, which is not a node", _meant(strange, names) or _listed(names))
    return {k: float(numbers(f"fields[{k!r}]", v, ())) for k, v in found.items()}


@dataclass(frozen=True)
class _Mark:
    """The colour and the shape of the nodes of a group, and the name of the group."""

    label: str
    colour: Any
    shape: str


def _marks_of(groups: Any, colours: Any, names: list[str]) -> dict[str, _Mark] | None:
    """Return the mark of each node that has a group, by name."""
    if groups is None:
        if colours is not None:
            raise wrong("`colours` are those of `groups`, and there are none", "`groups={name: group, ..}` of the nodes")
        return None
    if hasattr(groups, "items"):
        found = dict(groups.items())
        strange = [k for k in found if k not in names]
        if strange:
            raise wrong(f"`groups` names {strange[0]!r}, which is not a node", _meant(strange, names) or _listed(names))
    else:
        labels = verified_names("`groups`", groups)
        if len(labels) != len(names):
            raise wrong(f"`groups` must be a dict by node, or one label for each of {counted(len(names), 'node')}, got {len(labels)}")
        found = dict(zip(names, labels, strict=True))
    try:
        distinct = list(dict.fromkeys(found[n] for n in names if n in found))
    except TypeError:
        raise wrong("`groups` must have labels such as texts or numbers", f"`groups={{{names[0]!r}: 'a'}}`, say") from None
    marks = {g: _Mark(str(g), SERIES[k % len(SERIES)], MARKERS[(k + k // len(SERIES)) % len(MARKERS)]) for k, g in enumerate(distinct)}
    if colours is not None:
        marks = {g: replace(m, colour=_colour_of(colours, g)) for g, m in marks.items()}
    return {n: marks[g] for n, g in found.items()}


def _colour_of(colours: Any, group: Any) -> Any:
    from matplotlib.colors import is_color_like

    if not hasattr(colours, "items"):
        raise wrong(
            f"`colours` must be a dict of colours by group, got {type(colours).__name__}", f"`colours={{{group!r}: 'tab:blue'}}`, say"
        )
    if group not in colours:
        raise wrong(f"`colours` lacks the group {group!r}", f"it has {', '.join(map(repr, [*colours][:6])) or 'none'}")
    if not is_color_like(colours[group]):
        raise wrong(f"`colours[{group!r}]` must be a colour of matplotlib, got {colours[group]!r}", "'tab:blue' or '#2f7fc2', say")
    return colours[group]


def _draw_lines(axes: Axes, lines: Array, value: Array, sure: Array, limit: float) -> None:
    from matplotlib.collections import LineCollection

    finite = np.isfinite(value)
    share = np.clip(np.abs(np.where(finite, value, 1.0)) / limit, 0.0, 1.0)
    for mine, alpha, z in ((finite & ~sure, PALE, 1), (finite & sure, 0.95, 2)):
        order = np.flatnonzero(mine)[np.argsort(share[mine], kind="stable")]
        colours = [LIGHT["d7"] if value[k] > 0 else LIGHT["d1"] for k in order]
        widths = list(0.5 + (WIDEST_LINE - 0.5) * share[order])
        axes.add_collection(LineCollection(list(lines[order]), colors=colours, linewidths=widths, alpha=alpha, capstyle="round", zorder=z))
    if (~finite).any():
        dashes = LineCollection(list(lines[~finite]), colors=LIGHT["ink"], linewidths=1.2, linestyles=(0, (2, 1.6)), zorder=3)
        dashes.set_label("no finite estimate")
        axes.add_collection(dashes)
    axes.autoscale_view()


def _draw_marks(axes: Axes, xy: Array, names: list[str], fields: Mapping[str, float] | None, groups: Mapping[str, _Mark] | None) -> None:
    """Draw the nodes: coloured by numbers or by groups, or white."""
    outline: dict[str, Any] = {"s": 110, "edgecolors": LIGHT["ink"], "linewidths": 0.9, "zorder": 4}
    if groups is None:
        numbers = np.array([float((fields or {}).get(n, 0.0)) for n in names])
        largest = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)) or 1.0
        middle = len(DIVERGING) // 2
        level = np.clip(np.round(np.nan_to_num(numbers / largest) * middle), -middle, middle).astype(int) + middle
        axes.scatter(*xy.T, c=[LIGHT["paper"]] * len(names) if fields is None else [DIVERGING[k] for k in level], **outline)
        return
    mine = [groups.get(n) for n in names]
    for mark in dict.fromkeys(mine):
        at = np.array([m == mark for m in mine])
        if mark is None:
            axes.scatter(*xy[at].T, c=LIGHT["paper"], **outline)
        else:
            axes.scatter(*xy[at].T, c=[mark.colour] * int(at.sum()), marker=mark.shape, label=plain(mark.label), **outline)


def _draw_names(axes: Axes, xy: Array, names: list[str], ring: bool) -> None:
    from matplotlib.patheffects import withStroke

    if len(names) > MOST_NODE_NAMES:
        return
    halo = withStroke(linewidth=2.0, foreground=LIGHT["paper"])  # names over lines must be legible
    radial = ring and len(names) > MOST_UPRIGHT
    written, ways, steps = bare(names), _outward(xy), np.zeros(len(xy))
    if not ring:
        written = [_in_lines(n, LINE_LETTERS) for n in written]
        ways = label_ways(xy, written)
    elif not radial:
        written, steps = around_circle(ways, written)
    for (x, y), name, way, step in zip(xy, written, ways, steps, strict=True):
        side = _side(way[0], ring)
        height = "bottom" if way[1] > 0.3 else "top" if way[1] < -0.3 else "center"
        turn: dict[str, Any] = {}
        if radial:
            side, height = "left" if way[0] > -1e-9 else "right", "center"
            turn = {"rotation": np.degrees(np.arctan(way[1] / way[0])) if abs(way[0]) > 1e-9 else 90.0 * np.sign(way[1])}
            turn["rotation_mode"] = "anchor"
        axes.annotate(
            name,
            (x, y),
            8 * way + [0.0, step],
            textcoords="offset points",
            ha=side,
            va=height,
            fontsize=8,
            color=LIGHT["ink"],
            zorder=5,
            path_effects=[halo],
            **turn,
        )


def _make_room(axes: Axes) -> None:
    """Widen the limits of the axes until all names are inside them, or the rest would be too small.

    The names keep their size while the rest shrinks, so that this takes several steps.
    """
    most = MOST_ROOM * np.ptp(axes.get_xlim())
    for _ in range(ROOM_STEPS if axes.texts else 0):
        axes.apply_aspect()
        boxes = np.concatenate([text.get_window_extent().get_points() for text in axes.texts])
        points = np.concatenate([axes.transData.inverted().transform(boxes), np.transpose([axes.get_xlim(), axes.get_ylim()])])
        (left, low), (right, high) = points.min(axis=0), points.max(axis=0)
        if (left, right, low, high) == (*axes.get_xlim(), *axes.get_ylim()) or right - left > most:
            return
        axes.set_xlim(left, right)
        axes.set_ylim(low, high)


def _outward(xy: Array) -> Array:
    """Return the direction of each node from the centre."""
    away = xy - xy.mean(axis=0)
    return away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-300)


def _in_lines(name: str, letters: int) -> str:
    return fill(name, letters, max_lines=3, placeholder="..")


def _side(x: float, ring: bool) -> str:
    """Return the end of a name that is at its node.

    On a circle, the names of two neighbours at its top or bottom point away from each other.
    """
    middle = 0.05 if ring else 0.3
    return "left" if x > middle else "right" if x < -middle else "center"


def around_circle(ways: Array, names: list[str]) -> tuple[list[str], Array]:
    """Return the names around a circle in lines, and how many points each is moved up or down.

    A name above or below its node is broken where it is wider than the gap between the two nodes
    beside it. From the sides of the circle to its top and its bottom, each name is then moved away
    from the middle, above or below those that it would cover. Names have the size of `label_ways`,
    and the circle has the diameter `CIRCLE`.
    """
    places = ways * CIRCLE / 2
    gap = CIRCLE * np.sin(2 * np.pi / max(len(names), 4))
    written = []
    for way, name in zip(ways, names, strict=True):
        longest = max(map(len, name.replace("-", "- ").split()), default=0)
        most = LINE_LETTERS
        if _side(way[0], ring=True) == "center":
            most = min(most, max(int(gap / LETTER), longest))
        written.append(_in_lines(name, most))
    steps, boxes = np.zeros(len(names)), np.zeros((0, 4))
    for k in np.argsort(np.abs(ways[:, 1]), kind="stable"):
        box = _box(places[k] + 8 * ways[k], written[k], ways[k])
        rise = _rise(ways[k])
        while rise and _covered(box, boxes) > 0:
            steps[k] += rise
            box[1::2] += rise
        boxes = np.concatenate([boxes, box[None]])
    return written, steps


def _half(name: str) -> Array:
    """Return half the width and half the height of a name."""
    return np.array([LETTER * max(map(len, name.split("\n"))), LINE * (1 + name.count("\n"))]) / 2


def _rise(way: Array) -> float:
    """Return 1 for a name above its node, -1 for one below it, and 0 for one beside it."""
    return float(np.sign(way[1]) * (abs(way[1]) > 0.3))


def _box(place: Array, name: str, way: Array) -> Array:
    """Return the left, bottom, right and top of a name that is written from a place."""
    width, height = 2 * _half(name)
    left = {"left": 0.0, "right": -width, "center": -width / 2}[_side(way[0], ring=True)]
    below = (_rise(way) - 1) * height / 2
    corner = place + np.array([left, below])
    return np.concatenate([corner, corner + 2 * _half(name)])


def label_ways(xy: Array, names: list[str]) -> Array:
    """Return for each node the direction in which its name is written.

    This is away from the centre, or the direction in which the name covers the smallest area of
    other nodes and names. Letters are assumed to be `LETTER` points wide and lines `LINE` points
    high, and the nodes to be spread over `SPREAD` points.
    """
    places = (xy - xy.mean(axis=0)) * SPREAD / max(float(np.ptp(xy, axis=0).max(initial=0.0)), 1e-9)
    angles = np.pi / 4 * np.arange(8)
    sides = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    boxes, chosen = np.concatenate([places - 6, places + 6], axis=1), []
    for place, name, outward in zip(places, names, _outward(xy), strict=True):
        ways = np.concatenate([[outward], sides[np.argsort(-(sides @ outward), kind="stable")]])
        half = _half(name)
        centres = place + 8 * ways + half * np.where(np.abs(ways) > 0.3, np.sign(ways), 0)
        tried = np.concatenate([centres - half, centres + half], axis=1)
        best = int(np.argmin([_covered(box, boxes) for box in tried]))
        boxes = np.concatenate([boxes, tried[best : best + 1]])
        chosen.append(ways[best])
    return np.array(chosen).reshape(-1, 2)


def _covered(box: Array, others: Array) -> float:
    """Return the area that a box (left, bottom, right, top) shares with others."""
    common = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    return float(np.prod(np.maximum(common, 0.0), axis=1).sum())


def _legend(
    axes: Axes, limit: float, label: str, value: Array, sure: Array, fields: Mapping[str, float] | None, below: float, hidden: int
) -> None:
    """Add the legend of lines and nodes.

    It shows the signs of the lines, the strength of the widest line, the number of hidden lines,
    and the colours of nodes.
    """
    from matplotlib.lines import Line2D

    known = np.isfinite(value)
    shown = []
    for colour, way, mine in (("d7", "above", known & (value > 0)), ("d1", "below", known & (value < 0))):
        if mine.any():
            # A legend as pale as its lines would be illegible.
            alpha = 0.95 if (mine & sure).any() else 2 * PALE
            shown.append(Line2D([], [], color=LIGHT[colour], linewidth=3, alpha=alpha, label=f"{plain(label)} {way} 0"))
    if (known & ~sure).any():
        shown.append(Line2D([], [], color=LIGHT["muted"], linewidth=1.2, alpha=0.35, label="interval contains 0"))
    shown += axes.get_legend_handles_labels()[0]  # lines without a finite estimate, and groups
    levels = np.array([v for v in (fields or {}).values() if np.isfinite(v)], float)
    largest = float(np.abs(levels).max(initial=0.0))
    for colour, sign in ((DIVERGING[-1], 1), (DIVERGING[0], -1)):
        if (sign * levels > 0).any():
            mark: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 8, "markeredgecolor": LIGHT["ink"]}
            shown.append(Line2D([], [], color=colour, label=f"node at {sign * largest:.3g}", **mark))
    title = f"widest line: {limit:.3g}" if known.any() else None if len(value) else f"no {plain(label)} that is not 0"
    if hidden:
        left_out = f"{hidden} below {below:g} hidden"
        title = f"{title}; {left_out}" if known.any() else left_out
    axes.legend(handles=shown, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, title=title, title_fontsize=8.5, fontsize=8.5)


def plot_contacts(
    couplings: pd.DataFrame,
    *,
    top: int | None = None,
    distances: Any = None,
    near: float = NEAR,
    separation: int = 1,
    ax: Axes | None = None,
) -> Figure:
    """Plot a map of cells by cells with the pairs of the highest scores.

    If distances are known, the true contacts are drawn beneath.

    Args:
        couplings: the result of `Fit.couplings`, the strongest first.
        top: the number of pairs. If None, the number of cells.
        distances: known distances, shape (cell, cell), in the order of the cells, nan if unknown.
            If None, no contacts are drawn.
        near: the maximum distance of a contact, in the unit of the distances.
        separation: pairs whose positions differ by less are left out.
        ax: the axes. If None, a new figure is made.

    Returns:
        The figure of the axes.

    Raises:
        GmlmError: E507 for arguments that do not fit, such as `distances` that are not a square
            matrix of the cells.
    """
    names, pairs = _places(couplings)
    verified_axes(ax)
    near = verified_number("near", near, 0)
    pairs = pairs[_apart(pairs, separation)][: len(names) if top is None else verified_count("top", top)]
    far = _square(distances, len(names))
    # The area of a cell of the map, in square points.
    size = float(np.clip((260 / len(names)) ** 2, 4, 110)) if names else 4.0
    with house_style():
        axes = axes_of(ax, FIGURE_WIDTH, FIGURE_WIDTH)
        if far is not None:
            at = np.argwhere(np.nan_to_num(far, nan=np.inf) <= near)
            axes.scatter(
                at[:, 1], at[:, 0], s=size, marker="s", color=LIGHT["grid"], linewidths=0, label=f"contacts, at most {near:g} apart"
            )
        right = np.ones(len(pairs), bool) if far is None else far[pairs[:, 0], pairs[:, 1]] <= near
        top_ = f"{len(pairs)} strongest pairs"
        told = (top_, "") if far is None else (f"{right.sum()} of the {top_}", f"{(~right).sum()} of them, no contacts")
        for mine, colour, marker, text in ((right, "c1", "o", told[0]), (~right, "c2", "x", told[1])):
            if mine.any():
                both = np.concatenate([pairs[mine], pairs[mine][:, ::-1]])
                axes.scatter(
                    both[:, 1], both[:, 0], s=max(8.0, size / 3), marker=marker, color=LIGHT[colour], linewidths=1.1, label=text, zorder=3
                )
        axes.set_xlim(-1, len(names))
        axes.set_ylim(len(names), -1)
        axes.set_aspect("equal")
        _ticks(axes, names)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=8, handletextpad=0.2, columnspacing=1.0)
    return axes.figure  # pyright: ignore[reportReturnType]


def precision_by_rank(couplings: pd.DataFrame, distances: Any, *, near: float = NEAR, separation: int = 1) -> Array:
    """Return the share of contacts among the first k pairs, k = 1, 2, ..

    Pairs of unknown distance are left out.

    Args:
        couplings: the result of `Fit.couplings`, the strongest first.
        distances: shape (cell, cell), in the order of the cells.
        near: the maximum distance of a contact.
        separation: pairs whose positions differ by less are left out.

    Raises:
        GmlmError: E507 for arguments that do not fit.
    """
    names, pairs = _places(couplings)
    far, near = _square(distances, len(names)), verified_number("near", near, 0)
    if far is None:
        raise wrong("`distances` are needed, a square of the cells, nan where unknown")
    found = far[pairs[:, 0], pairs[:, 1]]
    kept = found[_apart(pairs, separation) & ~np.isnan(found)]
    return np.cumsum(kept <= near) / np.arange(1, len(kept) + 1)


def plot_precision(precision: Array | dict[str, Array], *, most: int | None = None, ax: Axes | None = None) -> Figure:
    """Plot precision against rank, on a logarithmic axis of ranks.

    Args:
        precision: the result of `precision_by_rank`, or a dict of several by name.
        most: the last rank drawn. If None, all ranks are drawn.
        ax: the axes. If None, a new figure is made.

    Raises:
        GmlmError: E507 for arguments that do not fit.
    """
    verified_axes(ax)
    most = None if most is None else verified_count("most", most)
    with house_style():
        axes = axes_of(ax, 2.6)
        for k, (name, values) in enumerate((precision if isinstance(precision, dict) else {"": precision}).items()):
            shown = rows_of("precision", values, "(rank,)")[:most]
            axes.plot(np.arange(1, len(shown) + 1), shown, color=LIGHT[f"c{k % 6 + 1}"], label=plain(name) or None)
        axes.set_xscale("log")
        axes.set_ylim(0, 1.03)
        axes.set_xlabel("pairs, the highest scores first")
        axes.set_ylabel("share of contacts")
        if isinstance(precision, dict):
            axes.legend(loc="lower left")
    return axes.figure  # pyright: ignore[reportReturnType]


def _places(couplings: pd.DataFrame) -> tuple[list[str], Array]:
    """Return the cells in their order, and the positions of each pair.

    The cells are all cells of the model if the table knows them.
    """
    verified_table(couplings, ("first", "second"), 'fit.couplings(score="apc")')
    names = [str(n) for n in couplings.attrs.get("cells", ())] or node_names(couplings)
    place = {name: k for k, name in enumerate(names)}
    pairs = [[place[a], place[b]] for a, b in zip(couplings["first"], couplings["second"], strict=True)]
    return names, np.array(pairs, int).reshape(-1, 2)


def _square(distances: Any, count: int) -> Array | None:
    return None if distances is None else numbers("distances", distances, (count, count))


def _apart(pairs: Array, separation: Any) -> Array:
    """Return which pairs are at least `separation` positions apart."""
    return np.abs(pairs[:, 0] - pairs[:, 1]) >= verified_count("separation", separation)


def _ticks(axes: Axes, names: list[str]) -> None:
    if len(names) > MOST_CONTACT_NAMES:
        axes.set_xlabel("cell")
        axes.set_ylabel("cell")
        return
    axes.set_xticks(range(len(names)), bare(names), rotation=90)
    axes.set_yticks(range(len(names)), bare(names))
