"""Samplers that fail, and strings that are not valid, are what many of these tests are about: their warnings are tested by themselves."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name != "test_findings.py":
            item.add_marker(pytest.mark.filterwarnings("ignore::gmlmdsl.sample.SamplingWarning"))
