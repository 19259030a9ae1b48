"""Kernels with large buckets of size, over as many chains as the light ones have in every run."""

from __future__ import annotations

import pytest
from test_kernels import AT_LENGTH, CHAINS, check_one_step


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sampler"), AT_LENGTH)
def test_one_step_of_a_heavy_kernel(name: str, sampler: str):
    """100 000 chains from p and as many from one configuration, in ten parts; chi-square p above 1e-4 in each."""
    for part in range(10):
        check_one_step(name, sampler, CHAINS // 10, seed=100 + part)
