"""Real data beside the project, `../shared/data` or the folder that GMLM_DATA names: tests read it where it is there."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(os.environ.get("GMLM_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def lacking(name: str) -> str:
    """Why a file cannot be read: where it would be; nothing where it is there."""
    path = FOLDER / name
    return "" if path.is_file() else f"there is no {path} (GMLM_DATA names another folder)"


def real_file(name: str) -> Path:
    """A file of real data; without it a test is skipped, and says where it would be."""
    import pytest

    if why := lacking(name):
        pytest.skip(why)
    return FOLDER / name
