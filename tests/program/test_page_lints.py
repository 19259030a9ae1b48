"""Warnings of the programs that the pages show: only where the page is about them."""

from __future__ import annotations

from markdown_blocks import ROOT, blocks_of

from gmlmdsl._diagnostics import Source
from gmlmdsl.plan import check_bound
from gmlmdsl.program import check_source

# Pages that show what is warned of: a step that keeps no known distribution, a mask of one cell of four.
MEANT = {"masks-and-samplers.md": {"W801"}, "language.md": {"W811"}}


def said_of_pages() -> dict[str, set[str]]:
    """The codes of all warnings, by page."""
    found: dict[str, set[str]] = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in blocks_of(page):
            if block.language == "gmlm" and "model " in block.text and "import " not in block.text:
                program = check_source(Source(page.name, block.text))
                bound, _ = check_bound(program, {}) if program.models else ((), ())
                found.setdefault(page.name, set()).update(d.code for d in (*program.warnings, *bound))
    return found


def test_no_lint_fires_on_a_page_that_is_not_about_it() -> None:
    found = said_of_pages()
    assert len(found) > 8  # pages with programs
    assert {name: codes for name, codes in found.items() if codes} == MEANT
