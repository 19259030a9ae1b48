"""Bugs planted in the library on purpose, each caught by a check that passes without it; the list is `planted_bugs.py`."""

from __future__ import annotations

import pytest
from planted_bugs import BEGIN, BUGS, END, PAGE, Bug, as_it_is, with_the_bug
from thinned import thinned

pytestmark = [pytest.mark.usefixtures("standard_promotion"), pytest.mark.filterwarnings("ignore::gmlmdsl.sample.SamplingWarning")]


LONG = {"a_long_walk_follows(hmm)"}  # 300 steps; `strings_follow(table, walk)` walks few
LISTED = [pytest.param(bug, marks=[pytest.mark.slow] * (bug.check_words in LONG)) for bug in BUGS]
CHECKS = {bug.values[0].check_words: bug for bug in LISTED}  # several bugs have one check


@pytest.mark.check
@pytest.mark.parametrize("bug", CHECKS.values(), ids=lambda bug: bug.check_words)
def test_every_check_passes_in_the_library_as_it_is(bug: Bug):
    """The gate runs all of them but the long one: whatever they catch on purpose below, they catch here when somebody plants it by mistake."""
    assert as_it_is(bug).passes


@pytest.mark.parametrize("bug", thinned(LISTED, 12), ids=str)  # each compiles everything anew
def test_a_planted_bug_is_caught(bug: Bug):
    assert as_it_is(bug).passes
    assert not with_the_bug(bug).passes


def test_there_are_twenty_and_the_page_lists_them():
    names = [bug.name for bug in BUGS]
    assert len(set(names)) == len(names) >= 20
    text = PAGE.read_text()
    listed = text[text.index(BEGIN) : text.index(END)]
    assert [line.split(" | ")[0].removeprefix("| ") for line in listed.splitlines() if line.startswith("| ")][1:] == names
