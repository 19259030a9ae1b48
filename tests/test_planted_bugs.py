"""Bugs planted in the library on purpose, each caught by a check that passes without it; the list is `planted_bugs.py`."""

from __future__ import annotations

import pytest
from planted_bugs import BEGIN, BUGS, END, PAGE, Bug, as_it_is, with_the_bug
from thinned import thinned

pytestmark = [pytest.mark.usefixtures("standard_promotion"), pytest.mark.filterwarnings("ignore::gmlmdsl.sample.SamplingWarning")]


DEAR = {  # 300 steps of a walk, or seconds to compile, beside others of their kind
    *("a_long_walk_follows(hmm)", "strings_follow(hmm, drop)", "strings_follow(hmm, back)", "strings_follow(table, walk)"),
    *("stays_in_p(two, hot)", "stays_in_p(signs, sweep)", "stays_in_p(ring, pairs)", "stays_in_p(two, turns)"),
    *("moves_by_its_row(two, twice)", "clamped_cells_stay(two, turns)", "draws_are_right(machine)", "estimates_are_right(ising, k1)"),
    *("covariance_is_right(tiny, one)", "comparison_is_right(ising, seeing)", "marginals_are_right(machine)", "steps_draw_apart(noisy)"),
    *("stays_in_p(two, sweep)", "stays_in_p(two, sees)", "search_is_right(greedy, 1, 1.0)", "staged_loss_is_right(3)"),
    *("step_is_right(6, 4)", "logits_are_right(6)", "average_is_right(ema=0.7)", "drawn_loss_is_right(two)"),
    *("stays_in_p(two, heat)", "goes_by_its_matrix(potts, clusters)", "chains_are_independent(two, turns)"),
    *("stays_in_p(two, turns, steps=2)", "moves_by_its_row(two, sweep)"),
    *("law_sums_to(1.0)", "law_of_remasking_is_right(cap)"),
    *("network_follows(bare)", "leaves_are_the_tilt(table)", "step_is_right(6, 2)", "logits_are_right(8)", "law_is_right(hmm, drop)"),
    *("search_is_right(wide, 3, 1.0, end=None)", "search_is_right(greedy, 1, 1.0, {'x': {0: 2, 1: 0}})"),
}
LISTED = [pytest.param(bug, marks=[pytest.mark.slow] * (bug.check_words in DEAR)) for bug in BUGS]
assert {bug.check_words for bug in BUGS} >= DEAR
CHECKS = {bug.values[0].check_words: bug for bug in LISTED}  # several bugs have one check


@pytest.mark.check
@pytest.mark.parametrize("bug", thinned(CHECKS.values(), 2), ids=lambda bug: bug.check_words)
def test_every_check_passes_in_the_library_as_it_is(bug: Bug):
    """What they catch on purpose below, they catch here when somebody plants it by mistake."""
    assert as_it_is(bug).passes


@pytest.mark.parametrize("bug", thinned(LISTED, 24), ids=str)  # each compiles everything anew
def test_a_planted_bug_is_caught(bug: Bug):
    assert as_it_is(bug).passes
    assert not with_the_bug(bug).passes


def test_there_are_twenty_and_the_page_lists_them():
    names = [bug.name for bug in BUGS]
    assert len(set(names)) == len(names) >= 20
    text = PAGE.read_text()
    listed = text[text.index(BEGIN) : text.index(END)]
    assert [line.split(" | ")[0].removeprefix("| ") for line in listed.splitlines() if line.startswith("| ")][1:] == names
