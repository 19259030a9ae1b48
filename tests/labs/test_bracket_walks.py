"""Algorithm 2 with a learnt value on brackets: distances are those of their definition, the target is exact, the page has the kept numbers."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import bracket_walks
import brackets
import laboratory
import numpy as np
import pytest
import walks
from markdown_blocks import ROOT

pytestmark = pytest.mark.usefixtures("standard_promotion")
TINY = replace(brackets.Size(), length=8, heads=2, width=8, errors=20)


def law(strings: Any, probabilities: Any, fail: float = 0.0) -> Any:
    return SimpleNamespace(
        strings=np.array(strings), probabilities=np.array(probabilities), fail=fail, expected_calls=8.0, expected_verifications=4.0
    )


def test_distances_are_those_of_strings_that_are_given_and_tell_words_from_others() -> None:
    target = law([[0, 1], [2, 3]], [0.5, 0.5])
    assert walks.distances(target, target) == {"tv": 0, "words": 1, "tv of words": 0, "calls": 8, "checks": 4}
    found = walks.distances(law([[0, 1], [0, 3]], [0.3, 0.5], 0.2), target)
    assert found == pytest.approx({"tv": 0.625, "words": 0.375, "tv of words": 0.5, "calls": 10, "checks": 5})


@pytest.mark.slow  # compiles for about ten seconds
def test_the_target_is_the_restricted_distribution_and_the_walk_settles_there_whatever_its_value_says(tmp_path: Any) -> None:
    size = bracket_walks.Size(TINY, prompts=1)
    m: Any = bracket_walks.Walked(size, 0, tmp_path)
    m.weights = m.model().init_params(1)
    m.examples = (m.cut(3) * 20 + [[*s[:-1], s[-1] ^ 1] for s in m.cut(3)] * 20, np.repeat([0, 1], 20))  # taught the wrong way round
    params, prompt = m.learnt_from(20), m.cut(2)[0]
    target = walks.law(m, "exact", prompt, params)
    rows = np.array([[*prompt, *end] for end in itertools.product(range(4), repeat=2)])
    p = np.exp(np.asarray(m.model().log_prob(m.weights, rows), float)) * brackets.is_right(size.lab, list(rows))
    np.testing.assert_allclose(target.probabilities, (p / p.sum())[p > 0], rtol=1e-4)
    found = {name: walks.distances(walks.law(m, name, prompt, params), target) for name in bracket_walks.SAMPLERS}
    assert found["walk"]["tv"] < 1e-3 and found["walk"]["words"] == pytest.approx(1)
    assert found["first leaf"]["words"] == pytest.approx(1) and found["filter, the truth"]["words"] == pytest.approx(1)
    assert found["symbols by value"]["tv"] > 0.01


def test_the_page_has_the_tables_of_the_kept_output() -> None:
    lab, size = bracket_walks.lab(), bracket_walks.Size()
    kept = laboratory.load(lab.kept / "results.json", size, lab.settings)
    assert set(kept) == set(lab.parts(size, ROOT))
    tables = lab.tables({name: part["result"] for name, part in kept.items()}, size)
    page = lab.page.read_text(encoding="utf-8")
    assert laboratory.filled(page, "bracket_walks", tables | {"bracket_walks-time": laboratory.times(lab, kept)}) == page


@pytest.mark.slow  # about a minute
def test_the_lab_runs(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert laboratory.main(bracket_walks.lab(), ["--quick", "--out", str(tmp_path)]) == 0
    assert "bracket_walks-time" in capsys.readouterr().out
