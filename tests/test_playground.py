"""The playground: its archive answers with the standard library alone, and the page names only what the archive has."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_blocks import ROOT

PAGE = ROOT / "docs" / "playground" / "index.html"


@pytest.fixture(scope="module")
def builder():
    spec = importlib.util.spec_from_file_location("build_playground", ROOT / "docs" / "build_playground.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def archive(builder, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("playground")
    builder.pack_sources(path / "gmlmdsl.zip")
    code = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])"
    subprocess.run([sys.executable, "-c", code, path / "gmlmdsl.zip", path], check=True)
    return path


def ask(archive: Path, action: str, text: str) -> list[str]:
    """What an action answers in an interpreter that has no package but those of the archive."""
    code = f"import sys, json; sys.path.insert(0, {str(archive)!r}); import answers; print(json.dumps(getattr(answers, sys.argv[1])(sys.argv[2])))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, action, text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


GOOD = "model m { var x[i in range(3)] : spin  factor 0.3 * x[i] for i in range(3) }\nmask one = subsets(x, size = 1)\n"


@pytest.mark.parametrize(
    ("action", "text", "changed", "said"),
    [
        ("check", GOOD, GOOD, "no faults"),
        ("check", " \n", " \n", "The program is empty"),
        ("tidy", "# a comment\n", "# a comment\n", "The program is empty"),
        ("explain", "", "", "The program is empty"),
        ("check", GOOD.replace("x[i] for", "y[i] for"), None, "error[E203 unknown-name]"),
        ("tidy", GOOD.replace("0.3 * x", "0.3*x"), GOOD, "no faults"),
        ("tidy", "model m {", "model m {", "error[E1"),
        ("mend", GOOD.replace("0.3 * x[i]", "0.3 * x[i] ** 2"), GOOD.replace("0.3 * x[i]", "0.3 * x[i] ^ 2"), "no faults"),
        ("mend", GOOD.replace("x[i] for", "y[i] for"), None, "error[E203 unknown-name]"),
        ("explain", GOOD, GOOD, "log p(x_K | x_rest)"),
        ("explain", GOOD.replace("x[i] for", "y[i] for"), None, "error[E203 unknown-name]"),
    ],
)
def test_an_action_answers_without_other_packages(archive, action, text, changed, said):
    found, answer = ask(archive, action, text)
    if changed is not None:
        assert " ".join(found.split()) == " ".join(changed.split())
    else:
        assert found == text
    assert said in answer


def test_the_page_calls_actions_that_exist(builder):
    page = PAGE.read_text(encoding="utf-8")
    actions = re.findall(r'data-action="(\w+)"', page)
    text = (PAGE.parent / "answers.py").read_text(encoding="utf-8")
    assert len(actions) == 4
    assert set(actions) <= set(re.findall(r"^def (\w+)", text, re.M))
    assert not re.findall(r'(?:src|href|fetch\()="?https?:', page)
    for name in builder.EXAMPLES:
        assert (ROOT / "examples" / f"{name}.gmlm").is_file()
