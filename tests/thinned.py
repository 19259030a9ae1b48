"""Which cases of a comparison the gate runs: some of them, others for other comparisons, so that every form is met; all run nightly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def thinned(cases: Iterable[Any], every: int, first: int = 0) -> Sequence[Any]:
    """The cases of a `parametrize`: every `every`-th from number `first` on runs in the gate, the others are slow.

    Comparisons begin at different numbers: what one leaves to the night, another has.
    """
    return [c if k % every == first % every else _slow(c) for k, c in enumerate(cases)]


def _slow(case: Any) -> Any:
    if hasattr(case, "marks"):  # it is a `pytest.param`
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.slow], id=case.id)
    return pytest.param(*case, marks=pytest.mark.slow) if isinstance(case, tuple) else pytest.param(case, marks=pytest.mark.slow)
