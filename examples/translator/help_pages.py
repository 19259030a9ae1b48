# Parallel text without a licence that forbids anything: the help pages of LibreOffice (MPL-2.0), English beside another language.
#
# Debian and Ubuntu have them as packages, which need not be installed:
#
#   apt-get download libreoffice-help-en-us libreoffice-help-de
#   for p in libreoffice-help-*.deb; do dpkg -x "$p" help; done
#   python examples/translator/help_pages.py help/usr/share/libreoffice/help de help.en-de.tsv
#
# A paragraph has the same id in every language, so that nothing is aligned by guessing. The file has two columns, English first.
import argparse
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

PARAGRAPH = re.compile(r"(par|hd)_id\w+")
SPACE = re.compile(r"\s+")
LETTER = re.compile(r"[^\W\d_]")


class Paragraphs(HTMLParser):
    """The text of every paragraph and heading of a page, by id; what is shown on macOS only is left out."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.texts: dict[str, str] = {}
        self._open: str | None = None
        self._tag, self._parts = "", []
        self._skipped = 0  # depth within a span for macOS

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A paragraph begins, or something within it."""
        found = dict(attrs)
        if self._skipped or (tag == "span" and "MAC" in (found.get("class") or "").split()):
            self._skipped += tag == "span"
        elif tag == "br":
            self._parts.append(" ")
        elif PARAGRAPH.fullmatch(found.get("id") or "") and tag in ("p", "h1", "h2", "h3", "h4", "h5", "h6"):
            self._open, self._tag, self._parts = found["id"], tag, []

    def handle_endtag(self, tag: str) -> None:
        """A paragraph ends."""
        if self._skipped:
            self._skipped -= tag == "span"
        elif self._open is not None and tag == self._tag:
            self.texts[self._open] = SPACE.sub(" ", "".join(self._parts)).strip()
            self._open = None

    def handle_data(self, data: str) -> None:
        """Text."""
        if self._open is not None and not self._skipped:
            self._parts.append(data)


def paragraphs(page: Path) -> dict[str, str]:
    """The paragraphs of a page by id."""
    parser = Paragraphs()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser.texts


def pairs(root: Path, language: str) -> Iterator[tuple[str, str]]:
    """Paragraphs of English and of another language, of pages in the order of their names.

    Those that are not translated are left out, and those whose English stood before: held-out ones would be trained on.
    """
    english, other, seen = root / "en-US" / "text", root / language / "text", set()
    for page in sorted(english.rglob("*.html")):
        twin = other / page.relative_to(english)
        if not twin.is_file():
            continue
        theirs = paragraphs(twin)
        for name, text in paragraphs(page).items():
            pair = (text, theirs.get(name, ""))
            if all(LETTER.search(t) for t in pair) and text != pair[1] and text not in seen:
                seen.add(text)
                yield pair


def main(root: Path, language: str, out: Path) -> int:
    """Write the pairs; how many there are."""
    for side in ("en-US", language):
        if not (root / side / "text").is_dir():
            sys.exit(f"{root / side / 'text'} is no folder: see the first lines of this script for where the pages come from")
    lines = [f"{a}\t{b}\n" for a, b in pairs(root, language)]
    out.write_text("".join(lines), encoding="utf-8")
    return len(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Pairs of paragraphs from LibreOffice's help pages.")
    parser.add_argument("root", type=Path, help="the folder that holds `en-US` and the other language")
    parser.add_argument("language", help="such as de")
    parser.add_argument("out", type=Path, help="a .tsv file")
    options = parser.parse_args()
    print(f"{main(options.root, options.language, options.out):,} pairs in {options.out}")
