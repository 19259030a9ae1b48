"""Pictures, reports and the parts of a page, called with nonsense: an error of the package's own, never a traceback of what draws."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nonsense import FEW, refuses_nonsense

import gmlmdsl as gm
from gmlmdsl import report

pytestmark = [pytest.mark.usefixtures("standard_promotion"), pytest.mark.filterwarnings("ignore")]
TEXT = """
model m {
  var x[i in range(3)] : spin
  param h
  param J[i in range(2)]
  factor h * x[i] for i in range(3)
  factor J[i] * x[i] * x[i + 1] for i in range(2)
}
mask one = subsets(size = 1)
sampler g { update x[i] for i in range(3) }
"""
MODEL = gm.parse(TEXT).model()
PLAIN: dict[str, dict[str, Any]] = {
    "plot_categories": {"names": ["a", "b"], "frequencies": [0.2, 0.8], "standard_errors": [0.1, 0.1], "exact": [0.2, 0.8]},
    "plot_couplings": {"edges_xy": np.arange(8.0).reshape(2, 2, 2), "values": [1.0, -1.0]},
    "plot_ess_r_hat": {"ess": [100.0, 900.0], "r_hat": [1.0, 1.1], "chains": 2},
    "plot_forest": {"names": ["a", "b"], "estimates": [1.0, 2.0], "standard_errors": [0.1, np.inf]},
    "plot_images": {"data": np.ones((2, 3, 3)), "samples": np.ones((2, 3, 3))},
    "plot_loss": {"trace": [3.0, 2.0]},
    "plot_precision": {"precision": np.array([1.0, 0.5])},
    "plot_profile": {"grid": [1.0, 2.0], "drop": [1.0, 0.0], "estimate": 2.0, "interval": (1.0, np.inf)},
    "plot_traces": {"traces": {"a": np.ones((2, 9))}},
    "translation_report": {"found": {}, "arrays": {}},
}
OF_A_FIT = {
    "plot_case_dropping": "dropped",
    "plot_centrality": "centrality",
    "plot_contacts": "couplings",
    "plot_effects": "singles",
    "plot_network": "couplings",
    "plot_predictive": "statistics",
    "precision_by_rank": "couplings",
}
OF_RESULTS = {"diagnose_draws", "drawn_strings", "fit_report", "guided_report", "plot_stability", "sample_report"}


@cache
def fit() -> gm.Fit:
    return MODEL.fit(np.random.default_rng(0).choice([-1, 1], (30, 3)), progress=False)


@cache
def results() -> dict[str, Any]:
    return {
        "centrality": fit().centrality(progress=False),
        "couplings": fit().couplings(),
        "dropped": fit().case_dropping(2, [0.5], progress=False),
        "singles": MODEL.effects(fit().params, [1, 1, 1]),
        "statistics": fit().predictive("exact", draws=40, progress=False).statistics["marginals"],
        "idata": MODEL.sample(fit().params, "g", draws=9, warmup=1, chains=2, progress=False),
    }


def test_every_picture_is_among_them():
    found = {n for n in dir(report) if not n.startswith("_") and n.islower() and callable(getattr(report, n))}
    assert found == PLAIN.keys() | OF_A_FIT.keys() | OF_RESULTS


@pytest.mark.parametrize("name", PLAIN)
def test_a_picture_of_numbers_refuses_nonsense(name: str):
    refuses_nonsense(getattr(report, name), PLAIN[name])


@pytest.mark.parametrize("name", OF_A_FIT)
def test_a_picture_of_a_result_refuses_nonsense(name: str):
    more = {"distances": np.ones((3, 3))} if name == "precision_by_rank" else {}
    refuses_nonsense(getattr(report, name), {OF_A_FIT[name]: results()[OF_A_FIT[name]], **more})


def test_reports_refuse_nonsense():
    found = results()
    refuses_nonsense(report.sample_report, {"model": MODEL, "idata": found["idata"]}, ("title",))
    refuses_nonsense(report.diagnose_draws, {"graph": MODEL.graph, "idata": found["idata"]})
    refuses_nonsense(report.drawn_strings, {"graph": MODEL.graph, "idata": found["idata"]})
    refuses_nonsense(report.guided_report, {"model": MODEL, "idata": found["idata"]})
    refuses_nonsense(report.fit_report, {"fit": fit()}, ("title",))
    for value in (7, np.zeros(2), None):
        for call in (lambda v: report.fit_report(fit(), title=v), lambda v: report.sample_report(MODEL, found["idata"], title=v)):
            with pytest.raises(gm.GmlmError, match="title must be a text"):
                call(value)


def test_draws_of_another_model_have_no_report():
    other = gm.parse(TEXT.replace("x[", "y[").replace("var y", "var y")).model()
    with pytest.raises(gm.GmlmError, match="lack `y`") as caught:
        report.sample_report(other, results()["idata"])
    assert caught.value.codes == ("E507",)


def test_a_picture_of_stability_refuses_nonsense():
    import pandas as pd

    stable = pd.DataFrame({"coupling": ["x[0] - x[1]"], "probability": [1.0], "stable": [True]})
    refuses_nonsense(report.plot_stability, {"stable": stable})


PARTS: dict[str, dict[str, Any]] = {
    "code": {"text": "a"},
    "facts": {"facts": {"a": 1}},
    "figure": {"figure": b"", "alt": "nothing"},
    "items": {"lines": "a"},
    "save": {"path": "report.html"},
    "section": {"title": "a"},
    "subsection": {"title": "a"},
    "table": {"headers": ["a", "b"], "rows": [["x", 1.0]]},
    "text": {"paragraphs": "a"},
    "warning": {"title": "a", "text": "b"},
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_page_refuses_nonsense(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)  # a text may be the name of a file
    refuses_nonsense(getattr(gm.Report("t"), name), PARTS[name])


def test_a_page_has_a_title_of_text():
    refuses_nonsense(gm.Report, {"title": "a"})
    for value in FEW.values():
        if not isinstance(value, str):
            with pytest.raises(gm.GmlmError, match="title must be a text"):
                gm.Report(value)  # type: ignore[arg-type]


def test_errors_are_not_negative_and_grids_are_no_larger_than_memory():
    with pytest.raises(gm.GmlmError, match="must not be negative, got -1"):
        report.plot_categories(["a"], np.ones(1), standard_errors=-np.ones(1))
    with pytest.raises(gm.GmlmError, match="pixels"):
        report.plot_images(np.ones((1, 3, 3)), np.ones((1, 3, 3)), columns=10**8)
    with pytest.raises(gm.GmlmError, match="same series"):
        report.plot_forest(["a"], {"x": [1.0]}, {"y": [1.0]})
