"""The page that says what was found says what its records hold: each number stands in a record that is linked beside it."""

import re

import pytest
from markdown_blocks import LABS, PAGES, ROOT, anchor_of, links_of

PAGE = ROOT / "docs" / "explanation" / "laboratories.md"
NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")
WORDS = 1050  # on the page, as a reader sees it


def blocks(text):
    """Paragraphs, entries of lists and rows of tables: what has links of its own."""
    parts = re.split(r"\n\s*\n|\n(?=- )|\n(?=\| )", text)
    return [" ".join(part.split()) for part in parts if part.strip() and not part.lstrip().startswith("#")]


def numbers(text):
    """As they are written, without those of names of files and of code."""
    return NUMBER.findall(re.sub(r"\]\([^)]*\)|`[^`]*`", " ", text))


def words(text):
    """What a reader sees of a page, with headings, tables and the text of links; marks alone, such as ±, are no words."""
    return [word for word in re.sub(r"\]\([^)]*\)", "]", text).split() if re.search(r"\w", word)]


def section(page, anchor):
    """The text below a heading, up to the next one that is not below it; without an anchor the whole page."""
    text = page.read_text(encoding="utf-8")
    if not anchor:
        return text
    heads = [m for m in re.finditer(r"^(#+) (.*)$", text, re.M) if anchor_of(m[2]) == anchor]
    if len(heads) != 1:
        raise ValueError(f"{page}#{anchor}: {len(heads)} headings")
    after = re.search(rf"^#{{1,{len(heads[0][1])}}} ", text[heads[0].end() :], re.M)
    return text[heads[0].start() : heads[0].end() + after.start() if after else None]


def unsupported(text):
    """The numbers of each block that no record has which it links."""
    found = []
    for block in blocks(text):
        records = [link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", block)]
        held = {n for path, _, anchor in records for n in numbers(section((PAGE.parent / path).resolve(), anchor))}
        found += [(n, block) for n in numbers(block) if n not in held]
    return found


def test_every_number_stands_in_a_record_that_is_linked_beside_it():
    text = PAGE.read_text(encoding="utf-8")
    assert unsupported(text) == []
    assert len(numbers(text)) > 80


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("19.18 ± 8.2", "19.28 ± 8.2"),
        ("brackets/README.md#prompts-that-were-not-seen", "brackets/README.md#other-verifiers"),
        ("| 37.75 |", "| 29.18 |"),
    ],
    ids=["another digit", "another record", "a number of another row"],
)
def test_a_number_that_its_record_lacks_is_found(old, new):
    text = PAGE.read_text(encoding="utf-8")
    assert old in text
    assert unsupported(text.replace(old, new))


def test_the_page_is_short_and_names_every_laboratory():
    assert len(words(PAGE.read_text(encoding="utf-8"))) <= WORDS
    linked = {(PAGE.parent / link.partition("#")[0]).resolve() for link in links_of(PAGE)}
    assert {*LABS.rglob("*.md")} <= linked & {*PAGES}  # whose links and blocks `test_docs.py` looks at
    assert {p.parent.name for p in LABS.glob("*/README.md")} == {p.name for p in LABS.iterdir() if p.is_dir() and p.name != "__pycache__"}
