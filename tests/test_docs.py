"""The pages run, their links lead somewhere, and what is generated is fresh."""

import importlib.util
import re
import tomllib
import warnings

import pytest
from documented_examples import examples
from markdown_blocks import ROOT, blocks_of, broken_links, run_page

DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if p.parent.name != "changelog.d")
RUNNING = [p for p in PAGES if any(b.language in ("gmlm", "python", "sh") for b in blocks_of(p))]
ELSEWHERE = {ROOT / e.name for e in examples()}  # the gate runs these on their own, `tests/documented_examples.py`


def load_builder():
    spec = importlib.util.spec_from_file_location("build_reference", DOCS / "build_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def name(page):
    return str(page.relative_to(DOCS))


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("page", [pytest.param(p, marks=pytest.mark.slow) if p in ELSEWHERE else p for p in RUNNING], ids=name)
def test_every_block_of_a_page_runs(page, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the diagnostics, which the pages explain
        assert run_page(page, tmp_path) > 0


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_links_of_a_page_lead_somewhere(page):
    assert broken_links(page) == []


def test_every_page_is_linked_from_the_index():
    listed = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)", (DOCS / "index.md").read_text(encoding="utf-8"))}
    assert {p for p in PAGES if p.name != "index.md"} <= listed


@pytest.mark.parametrize("page", ["language.md", "errors.md", "python.md", "command-line.md"])
def test_the_generated_reference_is_fresh(page):
    fresh = {path.name: text for path, text in load_builder().pages().items()}
    assert (DOCS / "reference" / page).read_text(encoding="utf-8") == fresh[page], "run: python docs/build_reference.py"


def test_every_form_is_in_the_reference():
    from gmlmdsl.program import forms

    text = (DOCS / "reference" / "language.md").read_text(encoding="utf-8")
    assert [f.name for f in forms.FORMS if f"| `{f.signature if f.options else f.name}` |" not in text] == []


def test_every_code_is_in_the_reference():
    codes = tomllib.loads((ROOT / "gmlmdsl" / "codes.toml").read_text(encoding="utf-8"))
    text = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    assert [c for c in codes if f"### {c} " not in text] == []


def test_a_fragment_of_the_change_log_says_its_kind():
    kinds = {p.name.split(".")[-2] for p in (DOCS / "changelog.d").glob("*.md")}
    assert kinds <= {"added", "changed", "deprecated", "removed", "fixed"}
