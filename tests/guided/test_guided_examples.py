"""The examples of guided generation: the page's numbers are those that the script prints, and errors grow as they should."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import jax
import numpy as np
import pytest
from markdown_blocks import ROOT

EXAMPLES = ROOT / "examples" / "guided"
PAGE = ROOT / "docs" / "how-to" / "generate-under-constraints.md"


def script(name: str) -> ModuleType:
    """A script of the folder, loaded as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_the_page_is_what_the_script_prints():
    printed = script("constrained")
    rows = [re.split(r"\s{2,}", line) for line in printed.table(*printed.laws()).splitlines()[1:]]
    for row in rows:
        assert f"| {' | '.join(row)} |" in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_errors_of_a_value_stay_in_symbols_and_leave_the_walk():
    with jax.enable_x64(True):  # the target's log p too
        found = {key: float(np.mean(v)) for key, v in script("amplification").compute(small=True).items()}
    assert found["walk", 6, 1.0, 3000] < 0.01 < found["walk", 6, 1.0, 30]
    assert found["symbols", 6, 1.0, 0] > 0.1
    assert found["first leaf", 6, 1.0, 0] > 0.1
    assert max(v for (_, _, sd, _), v in found.items() if sd == 0) < 1e-9
