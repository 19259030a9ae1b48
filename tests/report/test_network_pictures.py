"""Pictures of networks and of pairs: what is drawn pale, where nodes stand, what counts as a contact, and a missing package."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from refusals import refused
from report_cases import network

from gmlmdsl import GmlmError
from gmlmdsl.report import plot_contacts, plot_network, precision_by_rank
from gmlmdsl.report._network_pictures import _box, _covered, around_circle, label_ways


def lines(figure: Figure) -> list[LineCollection]:
    return [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]


def test_couplings_whose_interval_holds_0_are_pale_and_those_without_an_estimate_dashed():
    pale, sure, dashed = lines(plot_network(network()))
    assert [len(c.get_segments()) for c in (pale, sure, dashed)] == [1, 1, 1]
    assert pale.get_alpha() < 0.5 < sure.get_alpha()
    np.testing.assert_allclose(sure.get_linewidths(), [5.0])  # the strongest finite one is the widest
    assert dashed.get_label() == "no finite estimate"


def test_what_differs_in_a_table_of_differences_is_what_is_not_pale():
    table = network().assign(differs=[False, True, True])
    pale, sure, _ = lines(plot_network(table, limit=3.0))
    assert [len(c.get_segments()) for c in (pale, sure)] == [1, 1]
    np.testing.assert_allclose(sure.get_linewidths(), [0.5 + 4.5 * 0.1])


def test_nodes_stand_on_a_circle_in_the_order_of_the_cells_or_where_they_are_put():
    table = network()
    table.attrs["cells"] = ["d", "a", "b", "c"]
    segments = lines(plot_network(table))[1].get_segments()
    np.testing.assert_allclose(segments[0], [[1, 0], [0, -1]], atol=1e-12)  # a is the second of four, b the third, from the top
    places = {n: (k, k * k) for k, n in enumerate("abcd")}
    np.testing.assert_allclose(lines(plot_network(table, layout=places))[1].get_segments()[0], [[0, 0], [1, 1]])
    with pytest.raises(GmlmError, match="lacks the node 'd'"):
        plot_network(table, layout={n: (0, 0) for n in "abc"})
    with pytest.raises(GmlmError, match="circular"):
        plot_network(table, layout="square")


def inside(figure: Figure) -> bool:
    """Whether all names are inside the picture."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    width, height = figure.canvas.get_width_height()
    boxes = [t.get_window_extent(renderer) for t in figure.axes[0].texts if t.get_text()]
    return all(b.x0 >= 0 and b.x1 <= width and b.y0 >= 0 and b.y1 <= height for b in boxes)


def test_the_picture_is_widened_for_long_names_beside_nodes_in_a_row():
    names = [f"the question about number {k} of the survey" for k in range(5)]
    table = pd.DataFrame({"first": names[0], "second": names[1:], "value": 1.0})
    assert inside(plot_network(table, layout={name: (k, 0) for k, name in enumerate(names)}))


def test_long_names_on_a_circle_stay_inside_the_picture():
    """The votes of the US House of 1984: words that are joined by hyphens are broken there."""
    votes = ["handicapped-infants", "adoption-of-the-budget-resolution", "religious-groups-in-schools", "aid-to-nicaraguan-contras"]
    names = [*votes, "synfuels-corporation-cutback", *(f"vote-{k}" for k in range(5)), "superfund-right-to-sue-and-" + "more-" * 9, "z"]
    table = pd.DataFrame({"first": names[0], "second": names[1:], "value": 1.0, "3%": 0.5, "97%": 1.5})
    figure = plot_network(table, nodes=names)
    assert len([t for t in figure.axes[0].texts if t.get_text()]) == 12
    assert inside(figure)


VOTES = [
    "handicapped-infants",
    "water-project-cost-sharing",
    "adoption-of-the-budget-resolution",
    "physician-fee-freeze",
    "el-salvador-aid",
    "religious-groups-in-schools",
    "anti-satellite-test-ban",
    "aid-to-nicaraguan-contras",
    "mx-missile",
    "immigration",
    "synfuels-corporation-cutback",
    "education-spending",
    "superfund-right-to-sue",
    "crime",
    "duty-free-exports",
    "export-administration-act-south-africa",
]


@pytest.mark.parametrize("names", [VOTES, VOTES[:15], VOTES[::-1], [f"{v} of the state" for v in VOTES[:12]]], ids=len)
def test_names_around_a_circle_cover_no_other_name(names: list[str]):
    """A name at the top is broken to fit between its neighbours, and names are moved outwards."""
    table = pd.DataFrame({"first": names[0], "second": names[1:], "value": 1.0})
    figure = plot_network(table, nodes=names)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    boxes = [t.get_window_extent(renderer) for t in figure.axes[0].texts if t.get_text()]
    assert len(boxes) == len(names)
    assert [(a.x0, b.x0) for a, b in itertools.combinations(boxes, 2) if a.padded(-1).overlaps(b.padded(-1))] == []
    assert all(b.x0 >= 0 and b.x1 <= figure.canvas.get_width_height()[0] for b in boxes)


def test_many_names_of_several_lines_move_outwards():
    angles = 2 * np.pi * np.arange(24) / 24
    ways = np.stack([np.sin(angles), np.cos(angles)], axis=1)
    written, steps = around_circle(ways, ["the name of a node in lines"] * 24)
    assert steps.max() > 0 > steps.min()
    boxes = [_box(ways[k] * (95 + 8), written[k], ways[k]) + steps[k] * np.array([0, 1, 0, 1]) for k in range(24) if abs(ways[k, 1]) > 0.3]
    assert all(_covered(box, np.delete(boxes, k, axis=0)) == 0 for k, box in enumerate(boxes))


def test_pictures_are_drawn_into_given_axes():
    figure = Figure()
    first, second = figure.subplots(1, 2)
    assert plot_network(network(), ax=first) is figure
    assert plot_contacts(network(), ax=second) is figure


def test_the_spring_layout_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    refused("E561", lambda: plot_network(network(), layout="spring"), "networkx", "circular")


def test_the_spring_layout_puts_coupled_nodes_near_each_other():
    pytest.importorskip("networkx")
    segments = [s for c in lines(plot_network(network().assign(value=[9.0, 0.01, 0.01]), layout="spring")) for s in c.get_segments()]
    lengths = sorted(float(np.linalg.norm(s[0] - s[1])) for s in segments)
    assert lengths[0] < 0.9 * lengths[1]


def marks(figure: Figure) -> dict[str, list[list[float]]]:
    """The places of the nodes by the label of their group."""
    found = [c for c in figure.axes[0].collections if isinstance(c, PathCollection)]
    return {str(c.get_label()): np.round(np.asarray(c.get_offsets()), 9).tolist() for c in found}


def legend(figure: Figure) -> list[str]:
    found = figure.axes[0].get_legend()
    assert found is not None
    return [t.get_text() for t in found.get_texts()] + [found.get_title().get_text()]


def test_groups_have_a_colour_a_mark_and_an_entry_of_the_legend():
    table = network()
    places = {n: (k, 0) for k, n in enumerate("abcd")}
    figure = plot_network(table, nodes=list("abcd"), groups={"a": "mood", "c": "mood", "b": 3}, layout=places)
    assert {k: v for k, v in marks(figure).items() if not k.startswith("_")} == {"mood": [[0, 0], [2, 0]], "3": [[1, 0]]}
    first, second, white = (c for c in figure.axes[0].collections if isinstance(c, PathCollection))
    assert len({tuple(map(tuple, np.round(c.get_facecolor(), 3))) for c in (first, second, white)}) == 3
    assert not np.array_equal(first.get_paths()[0].vertices, second.get_paths()[0].vertices)
    assert {"mood", "3"} <= set(legend(figure))
    listed = plot_network(table, nodes=list("abcd"), groups=["u", "u", "v", "v"], layout=places, colours={"u": "tab:red", "v": "#000000"})
    assert {k: v for k, v in marks(listed).items() if not k.startswith("_")} == {"u": [[0, 0], [1, 0]], "v": [[2, 0], [3, 0]]}
    drawn = [c for c in listed.axes[0].collections if isinstance(c, PathCollection)]
    np.testing.assert_allclose(drawn[1].get_facecolor()[0], [0, 0, 0, 1])
    many = plot_network(table, nodes=[*"abcd", *map(str, range(20))], groups=[str(k) for k in range(24)])
    looks = {
        (c.get_facecolor().tobytes(), c.get_paths()[0].vertices.tobytes())
        for c in many.axes[0].collections
        if isinstance(c, PathCollection)
    }
    assert len(looks) == 24


def test_a_cut_hides_what_is_weaker_and_tells_how_many():
    table = pd.DataFrame({"first": list("abcd"), "second": list("bcda"), "value": [0.5, -0.3, np.inf, 0.1]})
    figure = plot_network(table, cut=0.3)
    assert sum(len(c.get_segments()) for c in lines(figure)) == 3
    assert legend(figure)[-1] == "widest line: 0.5; 1 below 0.3 hidden"
    whole = plot_network(table)
    assert "hidden" not in legend(whole)[-1]
    everything = plot_network(table.iloc[:2], cut=9)
    assert sum(len(c.get_segments()) for c in lines(everything)) == 0
    assert legend(everything)[-1] == "2 below 9 hidden"
    pytest.importorskip("networkx")
    spots = [marks(plot_network(table, cut=c, layout="spring")) for c in (0.0, 0.3)]
    assert spots[0] == spots[1]  # nodes do not move


def test_groups_and_cuts_that_do_not_fit():
    table, names = network(), list("abcd")
    refused("E507", lambda: plot_network(table, groups={"e": 1}), "'e'", "not a node")
    refused("E507", lambda: plot_network(table, nodes=names, groups=["u"]), "4 nodes", "got 1")
    refused("E507", lambda: plot_network(table, nodes=names, groups="abcd"), "list")
    refused("E507", lambda: plot_network(table, groups={"a": [1]}), "labels")
    refused("E507", lambda: plot_network(table, groups={"a": 1}, fields={"a": 1.0}), "`fields`")
    refused("E507", lambda: plot_network(table, colours={"a": "red"}), "`groups`")
    refused("E507", lambda: plot_network(table, groups={"a": 1}, colours={2: "red"}), "lacks the group 1", "it has 2")
    refused("E507", lambda: plot_network(table, groups={"a": 1}, colours={1: "reddish"}), "'reddish'", "matplotlib")
    refused("E507", lambda: plot_network(table, groups={"a": 1}, colours=["red"]), "dict")
    for cut in (-1, np.nan, "a", None):
        refused("E507", lambda cut=cut: plot_network(table, cut=cut), "`cut`", "0 or more")


def test_precision_is_the_share_of_contacts_so_far():
    table = network()
    table.attrs["cells"] = list("abcd")
    distances = np.full((4, 4), 20.0)
    distances[0, 1] = distances[1, 0] = 8.0
    np.testing.assert_allclose(precision_by_rank(table, distances), [1, 1 / 2, 1 / 3])
    np.testing.assert_allclose(precision_by_rank(table, distances, near=20.0, separation=2), [1.0])
    distances[1, 2] = distances[2, 1] = np.nan
    np.testing.assert_allclose(precision_by_rank(table, distances), [1, 1 / 2])
    with pytest.raises(GmlmError, match="shape"):
        precision_by_rank(table, distances[:3])


def test_names_stand_where_they_cover_no_other_node_or_name():
    """Below a node that has another close by on its outer side; else away from the middle."""
    xy = np.array([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0], [1.06, 0.0], [2.0, 0.0]])
    ways = label_ways(xy, ["aa", "bb", "a long name", "c", "dd"])
    np.testing.assert_allclose(ways[0], [-1, 0])
    np.testing.assert_allclose(ways[4], [1, 0])
    assert abs(ways[2, 1]) > 0.6  # to the right stands the next node
    assert label_ways(np.zeros((1, 2)), ["a"]).shape == (1, 2)


def shown_nodes(figure: Figure) -> int:
    return len(figure.axes[0].collections[-1].get_offsets())


def names_of(table: pd.DataFrame, count: int) -> pd.DataFrame:
    table.attrs["cells"] = [*"abcd", *(f"other {k}" for k in range(count - 4))]
    return table


def test_a_coupling_of_0_is_no_line_and_its_nodes_are_shown():
    table = names_of(network().assign(value=[0.0, 1.0, 0.0]), 5)
    pale, sure = lines(plot_network(table, significant=[True, False, True]))
    assert [len(c.get_segments()) for c in (pale, sure)] == [1, 0]
    assert shown_nodes(plot_network(table)) == 5
    assert shown_nodes(plot_network(table.head(0))) == 5


def test_cells_without_a_coupling_are_shown_where_there_are_few_of_them_or_where_they_are_asked_for():
    assert shown_nodes(plot_network(names_of(network(), 60))) == 60
    assert shown_nodes(plot_network(names_of(network(), 61))) == 4
    assert shown_nodes(plot_network(names_of(network(), 61), nodes=["d", "c", "b", "a", "e"])) == 5
    first = lines(plot_network(network(), nodes=[*"bacd"]))[1].get_segments()[0]
    np.testing.assert_allclose(first[1], [0, 1], atol=1e-12)  # b is on top


def test_nodes_that_lack_the_end_of_a_coupling_or_come_twice_are_refused():
    refused("E507", lambda: plot_network(network(), nodes=[*"abc"]), "lacks 'd'")
    refused("E507", lambda: plot_network(network(), nodes=[*"abcdd"]), "'d' twice")
    refused("E507", lambda: plot_network(network(), nodes="abcd"), "names of nodes")
    empty = network().head(0)
    empty.attrs.clear()
    refused("E507", lambda: plot_network(empty), "nothing to draw")


def test_a_node_that_is_called_by_its_bare_name_is_told_the_whole():
    table = network().replace({"first": {n: f"x[{n}]" for n in "abcd"}, "second": {n: f"x[{n}]" for n in "abcd"}})
    table.attrs.clear()
    refused("E507", lambda: plot_network(table, fields={"a": 1.0}), "'x[a]'")


def test_what_no_picture_can_be_drawn_of_is_refused_and_names_the_culprit():
    table = network()
    refused("E507", lambda: plot_network(table.assign(value="a")), "`value` must be numbers")
    refused("E507", lambda: plot_network(table.assign(first=np.nan)), "names of nodes, got nan")
    refused("E507", lambda: plot_network(table.assign(second=table["first"])), "'a' with itself")
    refused("E507", lambda: plot_network(table, label=None), "`label`")  # pyright: ignore[reportArgumentType]
    refused("E507", lambda: plot_network(table, layout={**dict.fromkeys("abcd", (0, 1)), "c": (np.nan, 1)}), "'c' at a place")
    refused("E507", lambda: plot_network(table, layout={**dict.fromkeys("abcd", (0, 1)), "c": "up"}), "layout['c']")
    refused("E507", lambda: plot_network(table, fields={"a": 1.0, "b": "red"}), "fields['b']")
    refused("E507", lambda: plot_network(pd.DataFrame()), "its columns: none")
    for seed in ("a", -1):
        refused("E507", lambda seed=seed: plot_network(table, layout="spring", seed=seed), "seed")
    whole = table.assign(first=[f"x[{n}]" for n in table["first"]], second=[f"x[{n}]" for n in table["second"]])
    refused("E507", lambda: plot_network(whole, nodes=[*"abcd"]), "the name of 'a' is 'x[a]'")
    refused("E507", lambda: plot_network(whole, layout=dict.fromkeys("abcd", (0, 1))), "the name of 'a' is 'x[a]'")


def test_fields_are_a_dict_a_series_or_numbers_in_the_order_of_the_nodes():
    h = {"a": -2.0, "b": 0.5, "c": 1.0, "d": 0.0}
    fills = [plot_network(network(), fields=f).axes[0].collections[-1].get_facecolor() for f in (h, pd.Series(h), np.array([*h.values()]))]
    np.testing.assert_array_equal(fills[0], fills[1])
    np.testing.assert_array_equal(fills[0], fills[2])
    assert shown_nodes(plot_network(network(), nodes=pd.Index([*"abcde"]))) == 5
    refused("E507", lambda: plot_network(network(), fields=np.zeros(3)), "each of 4 nodes", "(3,)")


def test_the_legend_of_contacts_counts_what_is_near():
    table = names_of(network(), 4)
    distances = np.full((4, 4), 20.0)
    distances[0, 1] = distances[1, 0] = 8.0
    assert legend_of(plot_contacts(table)) == ["3 strongest pairs"]
    assert legend_of(plot_contacts(table, distances=distances))[1:] == ["1 of the 3 strongest pairs", "2 of them, no contacts"]


def test_nodes_without_a_line_stand_in_a_row_below_the_spring_layout():
    pytest.importorskip("networkx")
    figure = plot_network(names_of(network(), 7), layout="spring")
    x, y = np.asarray(figure.axes[0].collections[-1].get_offsets()).T
    assert (y[4:] < y[:4].min()).all()
    assert np.ptp(y[4:]) == 0
    assert (np.diff(x[4:]) > 0).all()


def legend_of(figure: Figure) -> list[str]:
    legend = figure.axes[0].get_legend()
    assert legend is not None
    return [t.get_text() for t in legend.get_texts()]


def test_the_legend_has_the_signs_of_pale_lines_and_the_colours_of_nodes():
    assert legend_of(plot_network(network(), significant=[False] * 3, label="a less b")) == [
        "a less b above 0",
        "a less b below 0",
        "interval contains 0",
        "no finite estimate",
    ]
    assert legend_of(plot_network(network().head(1))) == ["coupling above 0"]
    dashed = plot_network(network().tail(1))
    assert legend_of(dashed) == ["no finite estimate"]
    assert dashed.axes[0].get_legend().get_title().get_text() == ""  # pyright: ignore[reportOptionalMemberAccess]
    assert legend_of(plot_network(network().iloc[1:2])) == ["coupling below 0", "interval contains 0"]
    told = legend_of(plot_network(network(), significant=[True] * 3, fields={"a": -2.0, "b": 0.5}))
    assert told == ["coupling above 0", "coupling below 0", "no finite estimate", "node at 2", "node at -2"]


def test_names_of_two_neighbours_at_the_foot_of_a_circle_go_apart_and_many_stand_along_its_radii():
    def written(count: int) -> list[Any]:
        return [t for t in plot_network(names_of(network(), count)).axes[0].texts if t.get_text()]

    left, right = sorted(written(15), key=lambda t: t.xy[1])[:2]
    assert {left.get_horizontalalignment(), right.get_horizontalalignment()} == {"left", "right"}
    assert {t.get_rotation() for t in written(24)} == {0}
    assert len({round(t.get_rotation()) for t in written(25)}) > 12
