"""The script of studies: its arithmetic, a small run of each study, and a page that is made from the kept lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import studies
from studies import KEPT, PAGE, Key, Line, binned, covered, in_order, kept_lines, mean, p_bin, page, run, share, wider

PACKAGE = PAGE.parents[2] / "gmlmdsl"
# Where a p-value is computed or shown, and the test of `level_study.TESTS` that studies it.
PRINTED = {
    "assess/_wald.py": "`gm.wald_test`",
    "assess/_group_differences.py": "`Fit.differences`",
    "assess/_centrality.py": "`Fit.bootstrap_differences`",
    "assess/_predictive.py": "`Fit.predictive`",
    "report/_assessment_pictures.py": "`Fit.predictive`",
    "report/_fit_report.py": "`Fit.differences`, permutations",
    "sample/_discrete_diagnostics.py": "chains against one another",
    "theory/_by_chains.py": "`sampler_agreement`",
}


def line(first: int, replications: int, table: dict[str, list[int]], study: str = "coverage") -> Line:
    return Line(
        study, "m", "one", "sandwich", first, replications, studies.SEED, table, [float(replications), 1.0, 0.5], 1.5, 0, "2026-01-02"
    )


def test_a_share_has_the_error_of_a_binomial():
    assert share(94, 100) == pytest.approx((0.94, 0.0237487), abs=1e-7)
    assert np.isnan(share(0, 0)).all()


def test_a_mean_has_the_error_of_independent_replications():
    values = np.array([1.0, 0.75, 1.0, 0.5])
    found = mean([4, values.sum(), (values**2).sum()])
    assert found == pytest.approx((values.mean(), values.std(ddof=1) / 2))
    assert mean([1, 0.5, 0.25])[0] == 0.5
    assert np.isnan(mean([1, 0.5, 0.25])[1])


@pytest.mark.parametrize(("p", "k"), [(0.0, 0), (1 / 40, 0), (2 / 40, 0), (0.0501, 1), (0.1, 1), (1.0, 19)])
def test_the_first_bin_has_what_a_test_at_this_level_rejects(p: float, k: int):
    assert p_bin(p) == k


@pytest.mark.parametrize(("ranks", "bins"), [(500, 20), (100, 20), (99, 10), (40, 5), (20, 4), (3, 1)])
def test_ranks_of_few_replications_are_counted_in_wider_bins(ranks: int, bins: int):
    counts = np.bincount(np.arange(ranks) % 20, minlength=20)
    assert (len(wider(counts)), wider(counts).sum()) == (bins, ranks)
    assert wider(counts)[0] == counts[: 20 // bins].sum()


def test_p_values_that_are_nan_are_in_no_bin():
    table, _ = binned({"a": 0.03, "b": np.nan})
    assert (sum(table["a"]), table["a"][0], sum(table["b"])) == (1, 1, 0)


def test_an_interval_without_end_covers_and_one_that_is_nan_is_none():
    table, sums = covered([("a", 0.0, -1, 1), ("a", 0.0, 1, 2), ("b", 0.0, -np.inf, np.inf), ("c", 0.0, np.nan, np.nan)])
    assert table == {"a": [1, 2, 0, 0], "b": [1, 1, 1, 0], "c": [0, 0, 0, 1]}
    assert sums == pytest.approx([1, 2 / 3, 4 / 9])
    assert covered([]) == ({}, [0, 0, 0])


def test_lines_of_one_key_add_up_and_may_not_overlap(tmp_path: Path):
    kept = tmp_path / "kept.jsonl"
    parts = [line(0, 2, {"a": [1, 2, 0, 0]}), line(2, 3, {"a": [3, 3, 0, 0], "b": [0, 1, 0, 0]})]
    kept.write_text("".join(json.dumps(vars(p)) + "\n" for p in parts))
    (found,) = kept_lines(kept).values()
    assert (found.first, found.replications, found.seconds, found.sums) == (0, 5, 3.0, [5.0, 2.0, 1.0])
    assert found.table == {"a": [4, 5, 0, 0], "b": [0, 1, 0, 0]}
    assert kept_lines(kept, seed=1) == {}
    kept.write_text(json.dumps(vars(parts[1])))
    with pytest.raises(ValueError, match="do not continue"):
        kept_lines(kept)


SMALL: dict[str, Callable[[Key], bool]] = {
    "coverage": lambda key: key[1:] == ("square", "one", "sandwich"),
    "level": lambda key: key[1:] == ("300 rows", "one", "`Fit.differences`: size"),
}


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("study", SMALL)
def test_a_study_goes_on_where_it_stopped_and_finds_what_one_run_finds(study: str, tmp_path: Path):
    """Two replications and then a third are three, of the same data sets; the third run has nothing to do."""
    parts, whole = tmp_path / "parts.jsonl", tmp_path / "whole.jsonl"
    for replications in (2, 3, 3):
        run(study, replications, parts, wanted=SMALL[study])
    run(study, 3, whole, wanted=SMALL[study])
    assert len(parts.read_text().splitlines()) == 2
    (found,), (once,) = kept_lines(parts).values(), kept_lines(whole).values()
    assert (found.table, found.replications) == (once.table, 3)
    assert found.sums == pytest.approx(once.sums)
    assert (once.compiled, sum(map(sum, once.table.values())) > 0) == (0, True)


@pytest.mark.slow  # NUTS is long to compile; `test_posterior_ranks.py` runs the same code
@pytest.mark.usefixtures("standard_promotion")
def test_calibration_counts_every_rank(tmp_path: Path):
    kept = tmp_path / "kept.jsonl"
    run("calibration", 2, kept, wanted=lambda key: key[1:3] == ("ring", "whole"))
    (found,) = kept_lines(kept).values()
    assert {sum(bins) for _, *bins in found.table.values()} == {2}
    assert set(found.table) == {"h", "J", "h J", "log likelihood"}


def test_the_command_chooses_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[Key] = []

    def tasks(seed: int):
        for key in (("coverage", "m", "one", "a"), ("coverage", "m", "two", "a"), ("coverage", "n", "one", "b")):
            yield studies.Task(key, lambda first, count, key=key: (asked.append(key), ({}, [0.0] * 3, 0))[1])

    monkeypatch.setitem(studies.STUDIES, "coverage", tasks)
    studies.main(["coverage", "--masks", "one", "--kinds", "a", "--kept", str(tmp_path / "kept.jsonl"), "--replications", "1"])
    assert asked == [("coverage", "m", "one", "a")]


def test_the_page_has_figures_with_their_errors():
    """A lowest coverage of 8 in 10, a mean over data sets, a size and a power."""
    bins = [1, *[1] * 9, *[0] * 10]
    lines = [
        line(0, 10, {"a": [8, 10, 1, 0], "b": [10, 10, 0, 0]}),
        Line("level", "m", "one", "t: size", 0, 10, 1, {"all": bins}, [10.0, 0.0, 0.0], 1.0, 0, "2026-01-02"),
        Line("level", "m", "one", "t: power", 0, 10, 1, {"all": [9, 1, *[0] * 18]}, [10.0, 0.0, 0.0], 1.0, 0, "2026-01-02"),
        Line("calibration", "m", "one", "posterior", 0, 12, 1, {"h": [9, *[0] * 10, *[1] * 10]}, [10.0, 0.5, 0.0], 1.0, 0, "2026-01-02"),
    ]
    marks = "".join(f"<!-- {n}: written by tests/studies.py -->\n<!-- end of {n} -->\n" for n in studies.TABLES)
    text = page(marks, {found.key: found for found in lines})
    assert "| m | `one` | sandwich | 10 | 0.100 ± 0.067 | 0.800 ± 0.126 (`a`) | 5.0 % | 0 |" in text
    assert "| t | all | m | `one` | 10, 10 | 0.100 ± 0.095 | 0.900 ± 0.095 |" in text
    assert "| m | `one` | 12 | 2 | 1 | 0.0016 (`h`) | 0.900 | 0.900 ± 0.095 (`h`) | 5.00 % |" in text
    assert page(text, {found.key: found for found in lines}) == text


def test_the_page_is_fresh():
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, in_order(kept_lines(KEPT))) == text, "run: PYTHONPATH=. python tests/studies.py page"


def test_no_kept_line_is_of_a_study_that_is_no_more():
    lines = kept_lines(KEPT)
    assert in_order(lines).keys() == lines.keys() > set()


def test_every_module_with_a_p_value_has_its_study():
    """A new p-value needs a size and a power on the page."""
    from level_study import PLANS, TESTS

    of_a_test = re.compile(r"\b(worst_)?p_values?\b|\bp_(adjusted|holm|largest)\b")
    found = {p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py") if of_a_test.search(p.read_text(encoding="utf-8"))}
    assert found - {"model/_fit.py"} == PRINTED.keys()  # whose docstrings name columns
    assert set(PRINTED.values()) == TESTS.keys() == {test for test, _, _ in PLANS}
