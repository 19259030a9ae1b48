"""One step of every kernel of `one_step.py` from 1 000 000 exact starts, compiled as users get it."""

from __future__ import annotations

import pytest
from cases import Case
from one_step import KERNELS, LEAST_P, keeps_p

PARTS = 5


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_in_full")
@pytest.mark.parametrize(("case", "sampler"), KERNELS, ids=str)
def test_one_step_from_p_stays_in_p(case: Case, sampler: str):
    """Five times 200 000 chains from other starts: chi-square p above 1e-4 in each."""
    for part in range(PARTS):
        assert keeps_p(case, sampler, 200_000, seed=100 + part) > LEAST_P
