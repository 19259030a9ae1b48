"""Maps of pairs of cells: the strongest couplings, and the share of true contacts among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._network_pictures import node_names
from ._palette import LIGHT, axes_of, bare, house_style, plain
from ._picture_arguments import numbers, rows_of, verified_axes, verified_count, verified_number, verified_table, wrong
from .limits import FIGURE_WIDTH, MOST_CONTACT_NAMES, NEAR

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray


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
