"""Published claims on refinement and autoregressive decoding, beside the results of a run.

The claims compare the two kinds of decoders (Li et al. 2024, Sections 1 and 3.3). Two of them are
judged twice: as printed, and in a stricter reading that a user may expect.

- Printed: one pass can often produce reasonable translations. The paper defines no measure. Here
  BLEU is read on the scale of Google Cloud's documentation: translations of at least 30 are
  "understandable to good", and below 20 it is "hard to get the gist". Between these the claim stays
  open. Stricter: one pass is as good as four.
- Printed: four passes are more than 2 times as fast at the median, and more than 5 times at the
  99th percentile, as an autoregressive decoder that keeps five hypotheses. The teacher's slowest
  search stands for it. Stricter: four passes are faster than its quickest search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from .._types import JsonObject
from .limits import CLAIMED_PASSES, FASTER, FASTER_AT_END, GIST, LEAST_LEARNT, UNDERSTANDABLE

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
    many = min(students, key=lambda k: abs(len(students[k]["by_pass"]) - CLAIMED_PASSES))
    best = max(teachers, key=lambda k: _bleu(teachers[k]))
    quality = [
        *_one_pass(students[many]),
        _parity(many, students[many], best, teachers[best]),
        _stutter(many, students[many], best, teachers[best]),
    ]
    if min(_bleu(n) for n in (students[many], teachers[best])) < LEAST_LEARNT:
        quality = [replace(c, verdict=OPEN) for c in quality]
    return [*quality, *_speed(many, latency)]


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


def _one_pass(notes: JsonObject) -> tuple[Claim, Claim]:
    passes = notes["by_pass"]
    printed, stricter = "One pass can often produce reasonable translations.", "Stricter: one pass is as good as four."
    if len(passes) < 2:
        return Claim(printed, "the student's samplers have one pass", OPEN), Claim(stricter, "the student's samplers have one pass", OPEN)
    first, last, (low, _) = passes[0]["bleu"], passes[-1]["bleu"], _interval(notes)
    settled = notes["passes"].get("1", 0) / max(notes["sentences"], 1)
    reasonable = AGREE if first >= UNDERSTANDABLE else DISAGREE if first < GIST else OPEN
    found = f"BLEU {first:.2f} after pass 1; from {UNDERSTANDABLE:.0f} understandable to good, below {GIST:.0f} hard to get the gist"
    beside = f"BLEU {first:.2f} after pass 1, {last:.2f} after pass {passes[-1]['number']} (95 % from {low:.2f}); "
    same = Claim(stricter, f"{beside}{100 * settled:.0f} % of sentences stay as pass 1 leaves them", AGREE if first >= low else DISAGREE)
    return Claim(printed, found, reasonable), same


def _parity(name: str, student: JsonObject, teacher_name: str, teacher: JsonObject) -> Claim:
    n = len(student["by_pass"]) or 1
    ours, theirs, (low, high) = _bleu(student), _bleu(teacher), _interval(teacher)
    found = f"BLEU {ours:.2f} ({n} passes) beside {theirs:.2f} of `{teacher_name.partition('.')[2]}` (95 %: {low:.2f} to {high:.2f})"
    verdict = OPEN if n < CLAIMED_PASSES else AGREE if ours >= low else DISAGREE
    return Claim("Four passes reach the quality of the autoregressive decoder.", found, verdict)


def _stutter(name: str, student: JsonObject, teacher_name: str, teacher: JsonObject) -> Claim:
    ours, theirs = _value(student, "stutter"), _value(teacher, "stutter")
    found = f"{ours:.2f} repeated words per 1,000 beside {theirs:.2f}"
    verdict = OPEN if ours == theirs == 0 or math.isnan(ours + theirs) else AGREE if ours >= 2 * theirs else DISAGREE
    return Claim("Refinement stutters at least twice as often.", found, verdict)


def _speed(name: str, latency: JsonObject) -> tuple[Claim, Claim]:
    ratios = f"more than {FASTER:.0f} times as fast at the median, {FASTER_AT_END:.0f} at the 99th percentile"
    printed = f"Four passes are {ratios}, as a search of five hypotheses."
    stricter, times = "Stricter: they are faster than the quickest search, and more so at the 99th percentile.", {}
    for t in latency["timings"]:
        if t["batch"] == 1:
            times[t["name"]] = t
    student = times.get(name.replace(".", " ", 1))
    found = dict(_teachers(times))
    if student is None or not found:
        return Claim(printed, "not measured", OPEN), Claim(stricter, "not measured", OPEN)
    slow, quick = (chosen(found, key=lambda k: found[k]["median_ms"]) for chosen in (max, min))
    if None in (student["p99_ms"], found[quick]["p99_ms"], found[slow]["p99_ms"]):
        few = "too few runs for a 99th percentile"
        return Claim(printed, few, OPEN), Claim(stricter, few, OPEN)
    device, sampler = str(latency["setting"].get("device", "")), name.partition(".")[2]

    def beside(other: str) -> tuple[float, float, str]:
        middle, late = (found[other][k] / student[k] for k in ("median_ms", "p99_ms"))
        words = f"`{sampler}` {middle:.2f} times as fast as `{other.partition(' ')[2]}` at the median, {late:.2f} at the 99th"
        return middle, late, f"{words} ({device})" if device else words

    middle, late, words = beside(slow)
    as_printed = Claim(printed, words, AGREE if middle > FASTER and late > FASTER_AT_END else DISAGREE)
    middle, late, words = beside(quick)
    return as_printed, Claim(stricter, words, AGREE if late > middle > 1 else DISAGREE)


def _teachers(times: JsonObject) -> Iterator[tuple[str, Any]]:
    return ((k, t) for k, t in times.items() if k.startswith("teacher "))
