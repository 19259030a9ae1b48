"""What the gate leaves to the night: of each comparison some cases stay, and no case of `cases.py` is left out everywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cases import CASES
from thinned import thinned


def slow(case: object) -> bool:
    return any(m.name == "slow" for m in getattr(case, "marks", ()))


@pytest.mark.parametrize(("every", "first"), [(1, 0), (2, 0), (3, 2), (4, 1)])
def test_every_nth_case_stays_and_none_is_lost(every: int, first: int):
    cases = [1, ("a", "b"), pytest.param(3, id="three"), pytest.param(4, marks=pytest.mark.xfail), "x" * 9, None]
    found = thinned(cases, every, first)
    assert [k for k, c in enumerate(found) if not slow(c)] == list(range(first, len(cases), every))
    plain = [(c.values if hasattr(c, "values") else c if isinstance(c, tuple) else (c,)) for c in found]
    assert plain == [(1,), ("a", "b"), (3,), (4,), ("x" * 9,), (None,)]
    assert found[2].id == "three"
    assert "xfail" in {m.name for m in found[3].marks}


def compared(test: Callable[..., None]) -> set[str]:
    """The cases of a test that run in the gate."""
    return {str(p) for mark in test.pytestmark if mark.name == "parametrize" for p in mark.args[1] if not slow(p)}


def test_every_program_of_the_oracle_is_compared_in_the_gate():
    """Log p at every configuration of all of them; exact answers of some, and exact draws of the others."""
    import test_energy
    import test_exact

    every = {str(c) for c in CASES}
    assert compared(test_energy.test_log_p_of_every_configuration) == every
    of_one, of_other = compared(test_exact.test_marginals_and_a_mode), compared(test_exact.test_draws_follow_p)
    assert every <= of_one | of_other
    assert of_one - of_other and of_other - of_one
