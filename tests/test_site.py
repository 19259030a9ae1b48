"""The site of the documentation: Sphinx builds it without a warning, every page is reached, and it needs no internet."""

import html
import importlib
import re
import subprocess
import sys

import pytest
from markdown_blocks import PAGES, ROOT

GRAMMAR = (ROOT / "grammar" / "gmlm.lark").read_text(encoding="utf-8")


def of_docs(module: str):
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(str(ROOT / "docs"))


@pytest.fixture(scope="module")
def diagrams():
    pytest.importorskip("railroad", reason="the extra `site` is not installed")
    return of_docs("railroad_diagrams").diagrams


def test_every_rule_of_the_grammar_has_a_diagram_with_its_words(diagrams):
    page = diagrams(GRAMMAR)
    rules = re.findall(r"^[?!]*([a-z_]+):(.*(?:\n +.*)*)", GRAMMAR, re.M)
    assert len(rules) == 102
    assert re.findall(r"^### (\w+)$", page, re.M) == [name for name, _ in rules]
    for name, body in rules:
        (drawn,) = re.findall(rf'id="rule-{name}">(.*)</div>', page)
        shown = set(map(html.unescape, re.findall(r"<text[^>]*>([^<]*)</text>", drawn)))
        words = set(re.findall(r'"([^"]+)"', body))
        assert words <= shown, (name, words - shown)
    links = set(re.findall(r'href="#rule-(\w+)"', page))
    assert links <= {name for name, _ in rules}


def test_a_list_with_separators_is_one_loop(diagrams):
    page = diagrams('names: NAME ("," NAME)*\nother: NAME ("," names)*\n\nNAME: "x"\n')
    loop, two = re.findall(r'id="rule-\w+">(.*)</div>', page)
    assert [re.findall(r"<text[^>]*>(.*?)</text>", svg) for svg in (loop, two)] == [["NAME", ","], ["NAME", ",", "names"]]


def test_sections_of_the_grammar_are_headings(diagrams):
    titles = re.findall(r"^## (.*)$", diagrams(GRAMMAR), re.M)
    assert titles[:3] == ["A file", "Models", "Masks"]
    assert titles[-1] == "Terminals"
    assert all(len(title) <= 45 for title in titles)


def test_every_public_name_is_described_with_its_types():
    import gmlmdsl as gm

    page = of_docs("python_objects").objects(gm._WHERE)
    headings = re.findall(r"^## gm\.(.*)$", page, re.M)
    assert {*gm._WHERE} == {h for h in headings if not h.startswith("theory.")}
    assert {n for n in dir(gm.theory) if n.islower() and callable(getattr(gm.theory, n))} <= {h.removeprefix("theory.") for h in headings}
    (fit,) = re.findall(r"^### JointModel\.fit\n\n(.*?)^###", page, re.M | re.S)
    assert "def fit(\n    x: Rows,\n    mask: str | None=None,\n" in fit
    assert "self" not in fit.split("```")[1]
    assert re.findall(r"^\*\*(\w+)\*\*$", fit, re.M)[:3] == ["Args", "Returns", "Raises"]
    assert re.search(r"^- `weights`: ", fit, re.M)


def test_text_of_docstrings_is_no_markup():
    escaped = of_docs("python_objects").escaped
    assert escaped("x_K of shape (rows, *axes), `a*b`, <text> and [0, 1]") == r"x_K of shape (rows, \*axes), `a*b`, \<text> and \[0, 1\]"
    assert escaped("code:\n\n    a * b\n") == "code:\n\n    a * b\n"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_needs_no_internet(tmp_path):
    pytest.importorskip("furo", reason="the extra `site` is not installed")
    site = tmp_path / "site"
    words = ["-q", "-W", "--keep-going", "-b", "html", "-c", "docs", "-d", str(tmp_path / "trees"), ".", str(site)]
    done = subprocess.run([sys.executable, "-m", "sphinx", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    first = (site / "docs" / "index.html").read_text(encoding="utf-8")
    for title in ("Tutorial", "How-to guides", "Reference", "Explanation", "The project"):
        assert f">{title}<" in first
    for page in PAGES:
        built = site / page.relative_to(ROOT).with_suffix(".html")
        text = built.read_text(encoding="utf-8")
        assert not re.findall(r'(?:src|<link[^>]* href)="https?://[^"]*"', text), built
    assert 'class="kn"' in (site / "README.html").read_text(encoding="utf-8")
    assert '<span class="kd">model</span>' in (site / "README.html").read_text(encoding="utf-8")
    assert re.search(r'<div class="output [^>]*>', (site / "docs" / "tutorial" / "first-model.html").read_text(encoding="utf-8"))
    assert "docs/index.html" in (site / "index.html").read_text(encoding="utf-8")
