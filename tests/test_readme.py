"""The README runs as it is written."""

import pytest
from markdown_blocks import PLAIN, ROOT, RUNS, blocks_of, broken_links, run_page

README = ROOT / "README.md"


@pytest.mark.check
@pytest.mark.usefixtures("standard_promotion")
def test_every_block_of_the_readme_runs(tmp_path):
    assert run_page(README, tmp_path) == len(blocks_of(README))


def test_every_block_is_run_or_shown():
    assert {b.language for b in blocks_of(README)} <= {*RUNS, *PLAIN}


def test_its_links_lead_somewhere():
    assert broken_links(README) == []


@pytest.mark.parametrize("command", ["make demo", "make test", "pip install"])
def test_the_first_screen_says_how_to_start(command):
    assert command in "\n".join(README.read_text(encoding="utf-8").splitlines()[:60])


def test_the_first_program_and_the_first_script_are_short():
    program, script = blocks_of(README)[:2]
    assert (program.language, script.language) == ("gmlm", "python")
    assert len([t for t in program.text.splitlines() if not t.startswith("#")]) == 12
    assert len([t for t in script.text.splitlines() if t and "import" not in t]) <= 6
