"""What planted bugs are made of: a bug, what a check found, and ways to break a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest


@dataclass(frozen=True)
class Found:
    """What a check measured: a p-value that must lie above its limit, or an error that must lie below it."""

    value: float
    limit: float
    above: bool

    @property
    def passes(self) -> bool:
        """Whether the library is right, as far as this check sees."""
        return self.value > self.limit if self.above else self.value <= self.limit

    @property
    def words(self) -> str:
        """`p = 0.4` or `error 1e-12`."""
        return f"p = {self.value:.2g}" if self.above else f"error {self.value:.2g}"


def error(found: Any, expected: Any, limit: float = 1e-9) -> Found:
    """The largest difference; of equal infinities none, of a nan infinite."""
    found, expected = np.asarray(found), np.asarray(expected)
    alike = (found == expected) | np.isnan(found) & np.isnan(expected)
    with np.errstate(invalid="ignore"):
        away = np.abs(found - expected)
    return Found(float(np.max(np.where(alike, 0.0, np.where(np.isnan(away), np.inf, away)))), limit, False)


@dataclass(frozen=True)
class Bug:
    """A planted bug: what is broken, how, and what must catch it."""

    name: str
    where: str
    plant: Callable[[pytest.MonkeyPatch], None]
    check: Callable[[], Found]

    @property
    def check_words(self) -> str:
        """The check with its case: `stays_in_p(ring, sweep)`."""
        assert isinstance(self.check, partial)
        return f"{self.check.func.__name__}({', '.join(str(a) for a in (*self.check.args, *(f'{k}={v}' for k, v in self.check.keywords.items())))})"

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def around(owner: Any, name: str, change: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Replaces `owner.name` by `change(original, *arguments)`."""
    original = getattr(owner, name)
    return lambda patch: patch.setattr(owner, name, lambda *a, **k: change(original, *a, **k))
