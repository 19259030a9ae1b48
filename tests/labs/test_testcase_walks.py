"""Algorithm 2 with a learnt value on test cases: the target is exact, mistaken verifiers err as often as they should, the page has the numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import bracket_verifiers
import laboratory
import numpy as np
import pytest
import testcase_task as task
import testcase_walks
import testcases
import walks
from markdown_blocks import ROOT

pytestmark = pytest.mark.usefixtures("standard_promotion")
TINY = replace(testcases.Size(), cases=2, layers=1, heads=1, width=8, errors=20)
UNTRAINED = testcases.Network(TINY, ROOT / "no folder")  # of tests that ask no network


def test_prompts_end_before_the_item_of_the_last_case_and_leave_as_many_symbols_as_said() -> None:
    size = testcase_walks.Size(TINY, prompts=3)
    m = testcase_walks.Walked(size, UNTRAINED, 1)
    assert all(task.is_right([*p, task.CLOSE, task.END], 2) for p in m.cut(2))
    for left in (6, 8):
        for prompt in m.cut(left):
            assert prompt[-1] == task.COMMA
            name, items = task.text_of(prompt[6:8]), [a for a in prompt[28:] if a < task.NUMBERS]
            answer = prompt[:24] + task.case(name, task.APPEND, items, 7) + [task.END]
            assert answer[: len(prompt)] == prompt and len(answer) == len(prompt) + left
            assert task.is_right(answer, 2) and task.text_of(answer[6:8]) in task.TESTED
    assert m.cut(6) == testcase_walks.Walked(size, UNTRAINED, 1).cut(6) != testcase_walks.Walked(size, UNTRAINED, 2).cut(6)


@pytest.fixture
def share(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda value: monkeypatch.setattr(bracket_verifiers, "wrong_share", value)


def test_a_mistaken_verifier_is_wrong_about_its_share_of_prefixes_and_always_about_the_same(share: Any) -> None:
    rows = task.corpus(2, 2000, seed=5)
    rows[::2, 20] = task.GIVES  # wrong from there on
    lengths = np.arange(2000) % 15 + 24
    truth = task.right(rows, lengths)
    assert 0 < truth.mean() < 1
    wrong = {}
    for value in (0.0, 0.2, 0.5):
        share(value)
        found = task.mistaken(rows, lengths)
        wrong[value] = found != truth
        assert abs(wrong[value].mean() - value) <= 4.5 * np.sqrt(value * (1 - value) / 2000)
        np.testing.assert_array_equal(found, task.mistaken(rows, lengths))
        np.testing.assert_array_equal(task.mistaken_value(rows, lengths), np.where(found > 0, 1 - value, value))
    assert not (wrong[0.2] & ~wrong[0.5]).any()  # more of the same


@pytest.mark.slow  # compiles for about half a minute
def test_the_target_is_the_restricted_distribution_and_the_first_right_answer_of_a_walk_is_in_it(tmp_path: Any, share: Any) -> None:
    size = testcase_walks.Size(TINY, prompts=1, few=len(task.TOKENS), top_p=1.0)
    network: Any = testcases.Network(TINY, tmp_path)
    m: Any = testcase_walks.Doubted(size, network, 0)
    network.weights = m.model().init_params(1)
    share(0.1)
    (prompt,), params = m.cut(2), m.weights
    answer = [*prompt, task.CLOSE, task.END]
    target, plain, first = (walks.law(m, name, prompt, params) for name in ("exact", "plain", "first leaf"))
    assert target.strings.tolist() == [answer] and target.probability(answer) == pytest.approx(1)
    close, end = (np.asarray(m.model().next_symbol(m.weights, [begun]), float)[0] for begun in (prompt, answer[:-1]))
    assert plain.probability(answer) == pytest.approx(close[task.CLOSE] * end[task.END], rel=1e-4)
    assert target.expected_verifications == pytest.approx(1 / plain.probability(answer), rel=1e-4)
    assert walks.distances(first, target)["tv"] < 1e-9


def test_prefixes_are_counted_by_their_place_and_verdicts_beside_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    m: Any = testcase_walks.Walked(testcase_walks.Size(TINY), UNTRAINED, 0)
    m.params = {}
    prompts = m.begun(2, 0)
    rows = [[*p, *task.case(task.text_of(p[6:8]), task.APPEND, [1], 2), task.END] for p in prompts]
    rows[1][len(prompts[1]) + 6] = 3  # the item, which the result then lacks
    monkeypatch.setattr(testcase_walks.gm, "prefix_values", lambda model, params, name, asked: np.ones(len(asked)))
    monkeypatch.setattr(m, "model", lambda: None)
    found = testcase_walks.judged_wrong(m, prompts, rows)
    wrong = [not task.is_right(rows[1][:n], 2) for n in range(len(prompts[1]) + 1, len(rows[1]) - 1)]
    places = [[k for k in range(len(wrong)) if low <= k + 1 <= high] for low, high in testcase_walks.BINS]
    assert [found[str(low)] for low, _ in testcase_walks.BINS] == [sum(wrong[k] for k in at) / (2 * len(at)) for at in places]
    assert found["1"] == 0 < found["9"]


def test_the_page_has_the_tables_of_the_kept_output() -> None:
    lab, size = testcase_walks.lab(), testcase_walks.Size()
    kept = laboratory.load(lab.kept / "results.json", size, lab.settings)
    assert set(kept) == set(lab.parts(size, ROOT))
    tables = lab.tables({name: part["result"] for name, part in kept.items()}, size)
    page = lab.page.read_text(encoding="utf-8")
    assert laboratory.filled(page, "testcase_walks", tables | {"testcase_walks-time": laboratory.times(lab, kept)}) == page


@pytest.mark.slow  # about a minute
@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")  # walks of networks that learnt for a few steps
def test_the_lab_runs(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert laboratory.main(testcase_walks.lab(), ["--quick", "--out", str(tmp_path)]) == 0
    assert "testcase_walks-time" in capsys.readouterr().out
