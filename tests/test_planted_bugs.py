"""Bugs planted in the library on purpose, each caught by a check that passes without it; the list is `planted_bugs.py`."""

from __future__ import annotations

import pytest
from planted_bugs import BEGIN, BUGS, END, PAGE, Bug, as_it_is, with_the_bug

pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_is_caught(bug: Bug):
    assert as_it_is(bug).passes
    assert not with_the_bug(bug).passes


def test_there_are_twenty_and_the_page_lists_them():
    names = [bug.name for bug in BUGS]
    assert len(set(names)) == len(names) >= 20
    text = PAGE.read_text()
    listed = text[text.index(BEGIN) : text.index(END)]
    assert [line.split(" | ")[0].removeprefix("| ") for line in listed.splitlines() if line.startswith("| ")][1:] == names
