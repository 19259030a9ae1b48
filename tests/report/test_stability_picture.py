"""The picture of stability selection, centralities in given axes, and names of cells as pictures write them."""

from __future__ import annotations

import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from gmlmdsl import GmlmError
from gmlmdsl.report import _palette as palette
from gmlmdsl.report import plot_centrality, plot_stability
from gmlmdsl.report._assessment_pictures import MEASURES


def stable() -> pd.DataFrame:
    names = ["x[a] - x[b]", "x[b] - x[c]", "x[a] - x[c]"]
    return pd.DataFrame({"coupling": names, "probability": [0.2, 0.9, 0.8], "stable": [False, True, True]})


def test_stable_couplings_are_filled_the_most_stable_first_and_the_threshold_is_drawn():
    axes = plot_stability(stable(), threshold=0.7).axes[0]
    filled, empty = (c for c in axes.collections if isinstance(c, PathCollection))
    assert filled.get_offsets().tolist() == [[0.9, 0], [0.8, 1]]
    assert empty.get_offsets().tolist() == [[0.2, 2]]
    assert (filled.get_facecolor() != empty.get_facecolor()).any()
    assert [t.get_text() for t in axes.get_yticklabels()] == ["b - c", "a - c", "a - b"]
    assert axes.lines[0].get_xdata() == [0.7, 0.7]
    assert len(plot_stability(stable(), most=1).axes[0].get_yticks()) == 1


def test_cells_of_several_variables_keep_their_names():
    assert palette.bare(["x[a]", "x[b, c]"]) == ["a", "b, c"]
    assert palette.bare(["x[a]", "s"]) == ["x[a]", "s"]
    assert palette.bare(["x[a]", "y[a]"]) == ["x[a]", "y[a]"]


def test_centralities_are_drawn_into_given_axes():
    frame = pd.DataFrame({name: [1.0, 2.0] for name in MEASURES}, index=["x[a]", "x[b]"])
    figure = Figure()
    axes = figure.subplots(1, 4)
    assert plot_centrality(frame, ax=axes) is figure
    assert [t.get_text() for t in axes[0].get_yticklabels()] == ["b", "a"]
    with pytest.raises(GmlmError, match="4 axes"):
        plot_centrality(frame, ax=axes[:3])
    with pytest.raises(GmlmError, match="4 axes"):
        plot_centrality(frame, ax=axes[0])
