"""The script that makes parallel text of help pages."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("help_pages", ROOT / "examples" / "translator" / "help_pages.py")
assert spec is not None
assert spec.loader is not None
help_pages = importlib.util.module_from_spec(spec)
spec.loader.exec_module(help_pages)

KEYS = '<span id="s"><span hidden="true" class="MAC"><span class="keycode">Command</span></span><span hidden="true" id="d"><b>Ctrl</b></span></span>'


def page(root: Path, language: str, name: str, body: str) -> None:
    path = root / language / "text" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<html><body><p>no id</p>{body}</body></html>", encoding="utf-8")


def test_pairs_of_paragraphs(tmp_path: Path) -> None:
    page(
        tmp_path,
        "en-US",
        "a/one.html",
        f'<h1 id="hd_id1">Find <i>Bar</i></h1><p id="par_id2">Press {KEYS} + F<br>now &amp; then.</p><p id="par_id9">Only here</p>',
    )
    page(tmp_path, "de", "a/one.html", f'<p id="par_id2">Drücken Sie {KEYS}+F.</p><h1 id="hd_id1">Suchleiste</h1>')
    page(tmp_path, "en-US", "two.html", '<p id="par_id2">Same</p><p id="par_id3">12</p><p id="par_id4">Find Bar</p><p id="hd_no">x</p>')
    page(tmp_path, "de", "two.html", '<p id="par_id2">Same</p><p id="par_id3">zwölf</p><p id="par_id4">Andere Leiste</p>')
    page(tmp_path, "en-US", "untranslated.html", '<p id="par_id5">Nothing</p>')
    out = tmp_path / "out.tsv"
    assert help_pages.main(tmp_path, "de", out) == 2
    assert out.read_text(encoding="utf-8") == "Find Bar\tSuchleiste\nPress Ctrl + F now & then.\tDrücken Sie Ctrl+F.\n"


def test_a_folder_without_pages(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is no folder"):
        help_pages.main(tmp_path, "de", tmp_path / "out.tsv")
