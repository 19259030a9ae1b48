"""Pictures of networks and of pairs: what is drawn pale, where nodes stand, what counts as a contact, and a missing package."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from refusals import refused
from report_cases import network

from gmlmdsl import GmlmError
from gmlmdsl.report import plot_contacts, plot_network, precision_by_rank
from gmlmdsl.report._network_pictures import label_ways


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
