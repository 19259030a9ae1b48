"""The report of a pipeline: scores, times, losses, attention, counts, commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._document import Report


def translation_report(found: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *, title: str = "") -> Report:
    """A run of the pipeline as one HTML page."""
    report = Report(title or f"Translation {found['direction']}".strip())
    return report
