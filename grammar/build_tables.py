"""Writes `gmlm.tables.json` from `gmlm.lark`: by hand (`python grammar/build_tables.py`) and whenever a wheel is built."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand, without hatchling
    BuildHookInterface: Any = object

ROOT = Path(__file__).resolve().parent.parent


def write_tables(root: Path = ROOT) -> Path:
    """Write the tables beside the grammar.

    Args:
        root: the checkout, with `grammar/` and `gmlmdsl/` in it.

    Returns:
        The file written.
    """
    # The module is read by its path: the package is not installed where its wheel is built.
    module = root / "gmlmdsl" / "syntax" / "_tables.py"
    spec = importlib.util.spec_from_file_location("gmlm_tables", module)
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = tables
    spec.loader.exec_module(tables)
    data = tables.build_tables((root / "grammar" / tables.GRAMMAR).read_text(encoding="utf-8"))
    target = root / "grammar" / tables.TABLES
    target.write_text(json.dumps(data, separators=(",", ":"), sort_keys=True) + "\n", encoding="utf-8")
    return target


class TablesHook(BuildHookInterface):
    """The build hook that hatchling finds: `[tool.hatch.build.hooks.custom] path = "grammar/build_tables.py"`."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the tables before the files of the wheel are gathered."""
        write_tables(Path(self.root))


if __name__ == "__main__":
    print(write_tables())
