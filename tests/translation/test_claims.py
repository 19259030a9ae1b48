"""What a run says of the paper's claims, from numbers made up for each verdict."""

from __future__ import annotations

from typing import Any

import pytest

from gmlmdsl.translation import claims


def notes(
    bleu: float, stutter: float, *, passes: list[float] = (), interval: tuple[float, float] | None = None, settled: int = 0
) -> dict[str, Any]:
    return {
        "sentences": 100,
        "scores": [
            {"name": "BLEU 13a", "value": bleu, "interval": interval or (bleu - 1, bleu + 1)},
            {"name": "stutter", "value": stutter, "interval": None},
        ],
        "by_pass": [{"number": k + 1, "bleu": b} for k, b in enumerate(passes)],
        "passes": {"1": settled, "4": 100 - settled},
    }


def timing(name: str, median: float, p99: float | None, batch: int = 1) -> dict[str, Any]:
    return {"name": name, "batch": batch, "median_ms": median, "p99_ms": p99}


RUN = {
    "teacher.greedy": notes(30.0, 1.0),
    "teacher.beam": notes(32.0, 2.0, interval=(30.5, 33.5)),
    "student.padir1": notes(28.0, 9.0, passes=[28.0]),
    "student.padir10": notes(33.0, 1.0, passes=[30.2] * 10),  # no claim of four passes is judged by ten
    "student.padir4": notes(31.0, 4.0, passes=[30.2, 30.9, 31.0, 31.0], settled=70),
    "raw.padir4": notes(1.0, 99.0, passes=[1.0] * 4),
}
TIMES = {
    "setting": {"device": "cpu"},
    "timings": [
        timing("teacher greedy", 60, 150),
        timing("teacher beam", 90, 200),
        timing("student padir4", 30, 50),
        timing("student padir4", 1, 1, 32),
    ],
}


def verdicts(scores: dict[str, Any], times: dict[str, Any] = TIMES) -> list[str]:
    return [c.verdict for c in claims(scores, times)]


def test_a_run_that_agrees() -> None:
    found = claims(RUN, TIMES)
    assert [c.verdict for c in found] == ["agree"] * 4
    assert "BLEU 30.20 after pass 1, 31.00 after pass 4 (95 % from 30.00); 70 %" in found[0].found
    assert "BLEU 31.00 (4 passes) beside 32.00 of `beam`" in found[1].found
    assert found[2].found == "4.00 repeated words per 1,000 beside 2.00"
    assert "`padir4` 2.00 times as fast as `greedy` at the median, 3.00 at the 99th (cpu)" in found[3].found


@pytest.mark.parametrize(
    ("change", "place", "verdict"),
    [
        ({"student.padir4": notes(31.0, 4.0, passes=[29.9, 30.9, 31.0, 31.0])}, 0, "disagree"),
        ({"student.padir4": notes(30.4, 4.0, passes=[30.4] * 4)}, 1, "disagree"),
        ({"teacher.beam": notes(9.0, 2.0), "teacher.greedy": notes(8.0, 2.0)}, 1, "not testable here"),
        ({"student.padir4": notes(31.0, 4.0, passes=[31.0] * 3)}, 1, "not testable here"),
        *(({"student.padir4": notes(9.0, 4.0, passes=[1.0, 9.0, 9.0, 9.0])}, k, "not testable here") for k in range(3)),
        ({"student.padir4": notes(9.0, 4.0, passes=[1.0, 9.0, 9.0, 9.0])}, 3, "agree"),
        ({"student.padir4": notes(31.0, 3.9, passes=[31.0] * 4)}, 2, "disagree"),
        ({"student.padir4": notes(31.0, 0.0, passes=[31.0] * 4), "teacher.beam": notes(32.0, 0.0)}, 2, "not testable here"),
    ],
)
def test_a_verdict_follows_from_the_numbers(change: dict[str, Any], place: int, verdict: str) -> None:
    assert verdicts(RUN | change)[place] == verdict


def test_speed_is_judged_at_the_median_and_at_the_end() -> None:
    slow = {"setting": {}, "timings": [timing("teacher greedy", 60, 40), timing("student padir4", 30, 50)]}
    assert verdicts(RUN, slow)[3] == "disagree"
    even = {"setting": {}, "timings": [timing("teacher greedy", 60, 100), timing("student padir4", 30, 50)]}
    assert verdicts(RUN, even)[3] == "disagree"  # twice as fast at both: no more so at the end
    few = {"setting": {}, "timings": [timing("teacher greedy", 60, None), timing("student padir4", 30, None)]}
    assert verdicts(RUN, few)[3] == "not testable here"
    assert verdicts(RUN, {"setting": {}, "timings": []})[3] == "not testable here"


def test_a_language_without_spaces_has_a_bleu_of_its_own_and_no_stutter() -> None:
    def chinese(scores: dict[str, Any]) -> dict[str, Any]:
        bleu, stutter = scores["scores"]
        return scores | {"scores": [bleu | {"name": "BLEU zh"}, stutter | {"value": None}]}

    assert verdicts({k: chinese(n) for k, n in RUN.items()}) == ["agree", "agree", "not testable here", "agree"]


def test_a_run_without_a_student_says_nothing() -> None:
    assert claims({k: v for k, v in RUN.items() if not k.startswith("student")}, TIMES) == []


def test_a_student_of_one_pass_leaves_the_first_claim_open() -> None:
    assert verdicts({k: v for k, v in RUN.items() if k != "student.padir4"})[0] == "not testable here"
