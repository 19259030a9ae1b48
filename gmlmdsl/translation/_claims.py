"""Four published claims on refinement and autoregressive decoding, beside the results of a run.

The claims compare the two kinds of decoders (Li et al. 2024, Section 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from .._types import JsonObject

PASSES = 4  # The number of passes that the claims refer to.
LEARNT = 10.0  # Below this BLEU a network has learnt too little for conclusions on quality.
AGREE, DISAGREE, OPEN = "agree", "disagree", "not testable here"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, the result of a run, and whether they agree.

    Attributes:
        claim: the claim of the paper.
        found: the numbers of the run.
        verdict: agree, disagree, or not testable here.
    """

    claim: str
    found: str
    verdict: str


def claims(scores: JsonObject, latency: JsonObject) -> list[Claim]:
    """Return the claims with the results of a run.

    The results compare the teacher with the distilled student. The student uses its sampler whose
    number of passes is closest to four. The teacher uses its best sampler on the scored text
    itself, which favours the teacher.

    Args:
        scores: scores by `network.sampler`, in the form of a report.
        latency: timings, in the form of a report.
    """
    students = {k: v for k, v in scores.items() if k.startswith("student.")}
    teachers = {k: v for k, v in scores.items() if k.startswith("teacher.")}
    if not students or not teachers:
        return []
    many = min(students, key=lambda k: abs(len(students[k]["by_pass"]) - PASSES))
    best = max(teachers, key=lambda k: _bleu(teachers[k]))
    quality = [
        _one_pass(students[many]),
        _parity(many, students[many], best, teachers[best]),
        _stutter(many, students[many], best, teachers[best]),
    ]
    if min(_bleu(n) for n in (students[many], teachers[best])) < LEARNT:
        quality = [replace(c, verdict=OPEN) for c in quality]
    return [*quality, _speed(many, latency)]


def _value(notes: JsonObject, name: str) -> float:
    value = next(s["value"] for s in notes["scores"] if s["name"] == name)
    # A score is None for translations without a word, and in languages without spaces.
    return float("nan") if value is None else float(value)


def _bleu(notes: JsonObject) -> float:
    """Return BLEU under the first tokeniser: 13a, or that of a language without spaces."""
    return _value(notes, notes["scores"][0]["name"])


def _interval(notes: JsonObject) -> tuple[float, float]:
    low, high = notes["scores"][0]["interval"] or (notes["scores"][0]["value"],) * 2
    return float(low), float(high)


def _one_pass(notes: JsonObject) -> Claim:
    passes, claim = notes["by_pass"], "One pass often suffices."
    if len(passes) < 2:
        return Claim(claim, "the student's samplers have one pass", OPEN)
    first, last, (low, _) = passes[0]["bleu"], passes[-1]["bleu"], _interval(notes)
    settled = notes["passes"].get("1", 0) / max(notes["sentences"], 1)
    found = f"BLEU {first:.2f} after pass 1, {last:.2f} after pass {passes[-1]['number']} (95 % from {low:.2f}); "
    return Claim(claim, f"{found}{100 * settled:.0f} % of sentences stay as pass 1 leaves them", AGREE if first >= low else DISAGREE)


def _parity(name: str, student: JsonObject, teacher_name: str, teacher: JsonObject) -> Claim:
    n = len(student["by_pass"]) or 1
    ours, theirs, (low, high) = _bleu(student), _bleu(teacher), _interval(teacher)
    found = f"BLEU {ours:.2f} ({n} passes) beside {theirs:.2f} of `{teacher_name.partition('.')[2]}` (95 %: {low:.2f} to {high:.2f})"
    verdict = OPEN if n < PASSES else AGREE if ours >= low else DISAGREE
    return Claim("Four passes reach the quality of the autoregressive decoder.", found, verdict)


def _stutter(name: str, student: JsonObject, teacher_name: str, teacher: JsonObject) -> Claim:
    ours, theirs = _value(student, "stutter"), _value(teacher, "stutter")
    found = f"{ours:.2f} repeated words per 1,000 beside {theirs:.2f}"
    verdict = OPEN if ours == theirs == 0 or math.isnan(ours + theirs) else AGREE if ours >= 2 * theirs else DISAGREE
    return Claim("Refinement stutters at least twice as often.", found, verdict)


def _speed(name: str, latency: JsonObject) -> Claim:
    claim, times = "Refinement is faster, and more so at the 99th percentile.", {}
    for t in latency["timings"]:
        if t["batch"] == 1:
            times[t["name"]] = t
    student = times.get(name.replace(".", " ", 1))
    found = dict(_teachers(times))
    if student is None or not found:
        return Claim(claim, "not measured", OPEN)
    quick = min(found, key=lambda k: found[k]["median_ms"])
    if student["p99_ms"] is None or found[quick]["p99_ms"] is None:
        return Claim(claim, "too few runs for a 99th percentile", OPEN)
    middle, late = (found[quick][k] / student[k] for k in ("median_ms", "p99_ms"))
    sampler, other = name.partition(".")[2], quick.partition(" ")[2]
    words = f"`{sampler}` {middle:.2f} times as fast as `{other}` at the median, {late:.2f} at the 99th"
    device = str(latency["setting"].get("device", ""))
    return Claim(claim, f"{words} ({device})" if device else words, AGREE if late > middle > 1 else DISAGREE)


def _teachers(times: JsonObject) -> Iterator[tuple[str, Any]]:
    return ((k, t) for k, t in times.items() if k.startswith("teacher "))
