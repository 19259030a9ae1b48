"""One step of kernels of every kind, in float32 and compiled as users get it, from starts drawn exactly from p.

`nightly/test_one_step_at_length.py` takes more of them, and five times as many chains. That the test sees errors is shown in `test_planted_bugs.py`, where each kind of kernel is broken on purpose.
"""

from __future__ import annotations

import pytest
from cases import Case
from one_step import LEAST_P, MIXED, RING, keeps_p
from thinned import thinned

CHAINS = 200_000
KERNELS = [(RING, s) for s in ("hot", "sweep", "looks", "either")] + [(MIXED, s) for s in ("pairs", "sees")]
pytestmark = pytest.mark.usefixtures("compiled_in_full")


@pytest.mark.slow
@pytest.mark.check
@pytest.mark.parametrize(("case", "sampler"), thinned(KERNELS, 6), ids=str)  # planted bugs' checks have the others, with fewer chains
def test_one_step_from_p_stays_in_p(case: Case, sampler: str):
    """200 000 chains: chi-square against p (of a ladder, against the product of the p^beta), p-value above 1e-4."""
    assert keeps_p(case, sampler, CHAINS) > LEAST_P
