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
    assert differing(found, before["digests"][name], elsewhere=before["where"] != where()) == []


def test_a_changed_digest_is_seen():
    one = {"exact": "a", "discrete": "r", "numbers": "1 2"}
    near, far, other = one | {"exact": "b", "numbers": "1.0002 2"}, one | {"numbers": "1.01 2"}, one | {"discrete": "s"}
    assert differing({"q": one}, {"q": near}, elsewhere=False) == ["q"]
    assert differing({"q": one}, {"q": near}, elsewhere=True) == []
    assert differing({"q": one}, {"q": far}, elsewhere=True) == ["q"]
    assert differing({"q": one}, {"q": other}, elsewhere=True) == ["q"]
    assert differing({"q": one}, {"q": one | {"numbers": "1"}}, elsewhere=True) == ["q"]
    assert differing({"q": one}, {"q": {"refused": "E601"}}, elsewhere=True) == ["q"]
    assert differing({"q": one}, {}, elsewhere=True) == ["q"]
    assert differing({}, {"q": one}, elsewhere=True) == ["q"]
