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
        timing("teacher beam", 90, 300),
        timing("student padir4", 30, 50),
        timing("student padir4", 1, 1, 32),
    ],
}


def verdicts(scores: dict[str, Any], times: dict[str, Any] = TIMES) -> list[str]:
    return [c.verdict for c in claims(scores, times)]


def test_a_run_that_agrees() -> None:
    found = claims(RUN, TIMES)
    assert [c.verdict for c in found] == ["agree"] * 6
    assert "BLEU 30.20 after pass 1; from 30 understandable" in found[0].found
    assert "BLEU 30.20 after pass 1, 31.00 after pass 4 (95 % from 30.00); 70 %" in found[1].found
    assert "BLEU 31.00 (4 passes) beside 32.00 of `beam`" in found[2].found
    assert found[3].found == "4.00 repeated words per 1,000 beside 2.00"
    assert "`padir4` 3.00 times as fast as `beam` at the median, 6.00 at the 99th (cpu)" in found[4].found
    assert "`padir4` 2.00 times as fast as `greedy` at the median, 3.00 at the 99th (cpu)" in found[5].found


@pytest.mark.parametrize(
    ("change", "place", "verdict"),
    [
        ({"student.padir4": notes(31.0, 4.0, passes=[29.9, 30.9, 31.0, 31.0])}, 0, "not testable here"),
        ({"student.padir4": notes(31.0, 4.0, passes=[20.0, 30.9, 31.0, 31.0])}, 0, "not testable here"),
        ({"student.padir4": notes(31.0, 4.0, passes=[19.9, 30.9, 31.0, 31.0])}, 0, "disagree"),
        ({"student.padir4": notes(35.0, 4.0, passes=[30.0, 34.9, 35.0, 35.0])}, 0, "agree"),
        ({"student.padir4": notes(35.0, 4.0, passes=[30.0, 34.9, 35.0, 35.0])}, 1, "disagree"),
        ({"student.padir4": notes(31.0, 4.0, passes=[29.9, 30.9, 31.0, 31.0])}, 1, "disagree"),
        ({"student.padir4": notes(30.4, 4.0, passes=[30.4] * 4)}, 2, "disagree"),
        ({"teacher.beam": notes(9.0, 2.0), "teacher.greedy": notes(8.0, 2.0)}, 2, "not testable here"),
        ({"student.padir4": notes(31.0, 4.0, passes=[31.0] * 3)}, 2, "not testable here"),
        *(({"student.padir4": notes(9.0, 4.0, passes=[1.0, 9.0, 9.0, 9.0])}, k, "not testable here") for k in range(4)),
        *(({"student.padir4": notes(9.0, 4.0, passes=[1.0, 9.0, 9.0, 9.0])}, k, "agree") for k in (4, 5)),
        ({"student.padir4": notes(31.0, 3.9, passes=[31.0] * 4)}, 3, "disagree"),
        ({"student.padir4": notes(31.0, 0.0, passes=[31.0] * 4), "teacher.beam": notes(32.0, 0.0)}, 3, "not testable here"),
    ],
)
def test_a_verdict_follows_from_the_numbers(change: dict[str, Any], place: int, verdict: str) -> None:
    assert verdicts(RUN | change)[place] == verdict


def test_speed_is_judged_at_the_median_and_at_the_end() -> None:
    def of(*timings: dict[str, Any]) -> list[str]:
        return verdicts(RUN, {"setting": {}, "timings": list(timings)})[4:]

    student = timing("student padir4", 30, 50)
    assert of(timing("teacher greedy", 60, 40), student) == ["disagree", "disagree"]
    assert of(timing("teacher greedy", 60, 100), student) == ["disagree"] * 2  # twice as fast at both: no more so at the end
    assert of(timing("teacher greedy", 60, None), timing("student padir4", 30, None)) == ["not testable here"] * 2
    assert of() == ["not testable here"] * 2
    beam = timing("teacher beam", 61, 251)
    assert of(beam, timing("teacher greedy", 20, 30), student) == ["agree", "disagree"]  # the printed baseline keeps several hypotheses
    assert of(timing("teacher beam", 60, 251), student)[0] == "disagree"
    assert of(timing("teacher beam", 61, 250), student)[0] == "disagree"


def test_a_language_without_spaces_has_a_bleu_of_its_own_and_no_stutter() -> None:
    def chinese(scores: dict[str, Any]) -> dict[str, Any]:
        bleu, stutter = scores["scores"]
        return scores | {"scores": [bleu | {"name": "BLEU zh"}, stutter | {"value": None}]}

    assert verdicts({k: chinese(n) for k, n in RUN.items()}) == ["agree", "agree", "agree", "not testable here", "agree", "agree"]


def test_a_run_without_a_student_says_nothing() -> None:
    assert claims({k: v for k, v in RUN.items() if not k.startswith("student")}, TIMES) == []


def test_a_student_of_one_pass_leaves_both_claims_on_one_pass_open() -> None:
    assert verdicts({k: v for k, v in RUN.items() if k != "student.padir4"})[:2] == ["not testable here"] * 2
