"""The site: Sphinx reads the Markdown pages of `docs/` and of the laboratories. It runs none of them, and shows kept outputs.

`make site` calls this file. Every warning of Sphinx is an error, and no page needs the internet.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from build_outputs import kept, with_outputs  # noqa: E402 - found by the line above
from python_objects import objects  # noqa: E402
from railroad_diagrams import diagrams  # noqa: E402

from gmlmdsl import _WHERE  # noqa: E402
from gmlmdsl.editor.pygments_lexer import GmlmLexer  # noqa: E402

project = "gmlmdsl"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
extensions = ["myst_parser"]
include_patterns = ["docs/**.md", "examples/labs/**.md", "README.md", "CHANGELOG.md"]
root_doc = "docs/index"
myst_heading_anchors = 4
smartquotes = False  # `--check` stays two hyphens, which can be copied
highlight_language = "text"
html_theme = "furo"
html_title = f"gmlmdsl {version}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = html_show_copyright = False
html_show_search_summary = False  # Summaries are fetched, which a browser does not allow from a file.

SECTIONS = {  # the navigation: the folders of the pages, in the order in which `index.md` links them
    "Tutorial": r"tutorial/",
    "How-to guides": r"how-to/",
    "Reference": r"reference/",
    "Explanation": r"explanation/",
    "The project": r"(?!.*/)",
}
ALSO = {"Explanation": ["/examples/labs/README"], "The project": ["/README", "/CHANGELOG"]}

SENTENCE = 30  # characters, from which a cell of a table is read as text


def navigation(index: str) -> str:
    """The tables of contents of `index.md`, one for each section."""
    pages = list(dict.fromkeys(re.findall(r"\]\(([\w/-]+)\.md\)", index)))
    parts = []
    for title, folder in SECTIONS.items():
        found = [page for page in pages if re.match(folder, page)] + ALSO.get(title, [])
        parts.append("\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *found, "```", ""]))
    return "\n".join(parts)


def laboratories() -> str:
    """The table of contents of the laboratories."""
    folder = ROOT / "examples" / "labs"
    found = sorted(p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.md") if p.parent != folder)
    return "\n".join(["```{toctree}", ":hidden:", "", *found, "/docs/reference/benchmarks", "```", ""])


def add_parts(_app: Any, page: str, source: list[str]) -> None:
    """Add what the Markdown pages lack: outputs of blocks, the navigation, the diagrams of the grammar, and the docstrings."""
    source[0] = with_outputs(source[0], kept().get(f"{page}.md", []))
    if page == root_doc:
        source[0] += "\n" + navigation(source[0])
    elif page == "examples/labs/README":
        source[0] += "\n" + laboratories()
    elif page == "docs/reference/grammar":
        source[0] += "\n" + diagrams((ROOT / "grammar" / "gmlm.lark").read_text(encoding="utf-8"))
    elif page == "docs/reference/python-objects":
        source[0] += "\n" + objects(_WHERE)


def mark_sentences(_app: Any, doctree: Any, _page: str) -> None:
    """Give a table whose last column has sentences the class `sentences`, for `site.css`."""
    for table in doctree.findall(nodes.table):
        last = [row[-1].astext() for row in table.findall(nodes.row)]
        if max(map(len, last), default=0) > SENTENCE:
            table["classes"].append("sentences")


def add_first_page(app: Any, error: Exception | None) -> None:
    """Let `index.html` of the site lead to the first page."""
    if error is None:
        address = f"{root_doc}.html"
        refresh = f'<meta http-equiv="refresh" content="0; url={address}">'
        text = f'<!doctype html><title>gmlmdsl</title>{refresh}<a href="{address}">gmlmdsl</a>\n'
        (Path(app.outdir) / "index.html").write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    """Register the lexer and the added parts; Sphinx calls this."""
    app.add_lexer("gmlm", GmlmLexer)
    app.connect("source-read", add_parts)
    app.connect("doctree-resolved", mark_sentences)
    app.connect("build-finished", add_first_page)
