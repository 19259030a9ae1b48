"""Draws, losses and fits of 40 programs are what they were: what only moves code changes none of them."""

from __future__ import annotations

import pytest
from digests import KEEP, differing, digests, keep, kept, makers, where

pytestmark = [pytest.mark.usefixtures("standard_promotion"), pytest.mark.filterwarnings("ignore")]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in makers() if KEEP or name in kept()["digests"]])
def test_draws_losses_and_fits_are_the_kept_ones(name):
    found = digests(name)
    if KEEP:
        keep(name, found)
    before = kept()
    assert differing(found, before["digests"][name], rounded=before["where"] != where()) == []


def test_a_changed_digest_is_seen():
    one, other = {"exact": "a", "rounded": "r"}, {"exact": "b", "rounded": "r"}
    assert differing({"q": one}, {"q": other}, rounded=False) == ["q"]
    assert differing({"q": one}, {"q": other}, rounded=True) == []
    assert differing({"q": one}, {}, rounded=True) == ["q"]
    assert differing({}, {"q": one}, rounded=True) == ["q"]
