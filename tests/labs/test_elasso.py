"""The comparison of a path with a regression for each node: its graphs, its scores, and its tables on the page."""

import importlib.util

import numpy as np
import pytest
from markdown_blocks import ROOT

FOLDER = ROOT / "examples" / "labs" / "elasso"


@pytest.fixture(scope="module")
def elasso():
    spec = importlib.util.spec_from_file_location("elasso", FOLDER / "elasso.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_graphs_have_the_edges_that_they_are_named_for(elasso):
    rng = np.random.default_rng(0)
    counts = {g: np.bincount(np.ravel(elasso.edges(g, 20, rng)), minlength=20) for g in elasso.GRAPHS}
    assert counts["random"].sum() == 60
    assert sorted(counts["hub"]) == [1] * 18 + [10, 10]
    assert sorted(counts["lattice"]) == [2] * 4 + [3] * 10 + [4] * 6


def test_scores_count_pairs_once(elasso):
    true, found = np.zeros((4, 4)), np.zeros((4, 4), bool)
    true[0, 1] = true[1, 0] = true[2, 3] = true[3, 2] = -0.4
    found[0, 1] = found[1, 0] = found[0, 2] = found[2, 0] = found[0, 3] = found[3, 0] = True
    assert elasso.scores(found, true) == {"precision": pytest.approx(1 / 3), "recall": 0.5}
    assert elasso.scores(np.zeros((4, 4), bool), true) == {"precision": 1.0, "recall": 0.0}


def test_the_table_of_the_page_is_the_kept_output(elasso):
    kept = elasso.merged(FOLDER / "kept" / "elasso.json")
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    for what, heads, digits in (("precision", elasso.HEADS, 2), ("recall", elasso.HEADS, 2), ("seconds", elasso.TIMED, 1)):
        counts = [{len(own.get(f"{head} {what}", ())) for head in heads} for own in kept.values()]
        assert all(len(c) == 1 for c in counts)  # compared over the same seeds
        assert elasso.table(kept, what, heads, digits) in page
    for told in elasso.refits(FOLDER / "kept" / "refits.json").split("\n\n")[1::2]:
        assert told in page


def test_isingfit_on_the_page_is_the_kept_output(elasso):
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    path = FOLDER / "kept" / "isingfit.json"
    for told in elasso.isingfit(path).split("\n\n")[1:4:2]:
        assert told in page
    found, told = elasso.json.loads(path.read_text(encoding="utf-8")), " ".join(page.split())
    assert elasso.differences(found) in told and elasso.differences(found, "exact ") in told


def test_isingfit_is_not_run_without_its_library(elasso, tmp_path, monkeypatch):
    monkeypatch.delenv(elasso.VARIABLE, raising=False)
    assert elasso.isingfit(tmp_path).startswith("not run: GMLM_ISINGFIT")
    assert not list(tmp_path.iterdir())


def test_isingfit_is_run_again_where_an_edge_differs(elasso, monkeypatch):
    """Of three nodes: one slope that is not 0 only because glmnet ends early is no edge by "and", and is one by "or"."""
    slopes = np.array([[0, 1.0, 0], [1.0, 0, 0], [0, 0, 0]])
    early = slopes + np.eye(3)[[2, 2, 1]] * [[0], [0], [1e-5]]
    asked = []

    def by_isingfit(data, threshold="1e-7"):
        asked.append((len(data), threshold))
        return [slopes if threshold == "1e-14" else early] + [slopes] * (len(data) - 1)

    monkeypatch.setattr(elasso, "by_isingfit", by_isingfit)
    monkeypatch.setattr(elasso, "by_criterion", lambda x: (slopes != 0, slopes))
    found = elasso.beside_isingfit([(slopes, np.ones((4, 3), int))] * 2)
    assert asked == [(2, "1e-7"), (1, "1e-14")]
    assert found["other edges by and"] == [0, 0] and found["other edges by or"] == [1, 0] and found["exact other edges by or"] == [0, 0]
    assert found["isingfit or precision"] == [0.5, 1.0] and found["isingfit and precision"] == [1.0, 1.0]
    assert elasso.differences({"a": found}) == "AND differs in 0 edges, OR differs in 1 edges, and slopes differ by at most 0"


def test_refits_join_both_ends_or_one(elasso, tmp_path, monkeypatch):
    """One node of each pair chooses it, and both choose one pair that is an edge."""
    monkeypatch.setattr(elasso, "SEEDS", {20: 1})
    monkeypatch.setattr(elasso, "by_node", lambda x, refit: np.triu(np.ones((20, 20), bool), 1) | (both if refit else both & False))
    both = np.zeros((20, 20), bool)
    both[1, 0] = True  # of the hub
    elasso.refits(tmp_path)
    (found,) = [v for k, v in elasso.json.loads((tmp_path / "refits.json").read_text()).items() if k == "hub-20-1000"]
    assert found["refit AND precision"] == [1.0] and found["refit AND recall"] == [round(1 / 19, 4)]
    assert found["penalised AND recall"] == [0.0] and found["penalised OR recall"] == [1.0]
    assert found["refit OR precision"] == [0.1] == found["penalised OR precision"]


@pytest.mark.slow  # compiles, and 400 regressions
@pytest.mark.usefixtures("standard_promotion")
def test_what_is_measured_is_kept_and_not_measured_again(elasso, tmp_path):
    assert elasso.run(tmp_path, small=True, seconds=np.inf) == 0
    (part,) = tmp_path.glob("*.json")
    before = part.read_text(encoding="utf-8")
    assert elasso.run(tmp_path, small=True, seconds=0.0) == 0
    assert part.read_text(encoding="utf-8") == before
    (own,) = elasso.merged(tmp_path).values()
    assert own["path precision"][0] > 0.85 and own["and precision"][0] > 0.85
