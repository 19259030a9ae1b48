"""Colours: the lexer reads every program whole, the TextMate grammar is up to date, and both know every word of the language."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from pygments.token import Comment, Error, Keyword, Name, Token

from gmlmdsl.editor import word_lists
from gmlmdsl.editor.pygments_lexer import GmlmLexer
from gmlmdsl.explain import words_of_the_language
from gmlmdsl.program import forms
from gmlmdsl.syntax import KEYWORDS, RESERVED

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted([*ROOT.glob("tests/programs/*/*.gmlm"), *ROOT.glob("examples/**/*.gmlm")])
BUILD = runpy.run_path(str(ROOT / "grammar" / "build_highlighting.py"))


def test_every_program_is_read_whole():
    lexer = GmlmLexer(stripnl=False, ensurenl=False)
    sound = [p for p in PROGRAMS if p.parent.name not in ("bad", "habits")]
    assert len(sound) > 300
    for path in sound:
        found = list(lexer.get_tokens(path.read_text()))
        assert "".join(text for _, text in found) == path.read_text()
        assert not [text for kind, text in found if kind is Error], path.name


def test_words_have_their_colours():
    text = "# a row\nmodel row {\n  var model[i in site] : bit\n  param h ~ normal(0, 1)\n}\nmask one = subsets(model, size = 1)\n"
    found = [(kind, word) for kind, word in GmlmLexer().get_tokens(text) if word.strip()]
    assert found[0] == (Comment.Single, "# a row")
    assert [k for k, word in found if word == "model"] == [Keyword.Declaration, Name, Name]
    assert (Keyword.Declaration, "param") in found
    assert (Keyword.Type, "bit") in found
    assert (Name.Builtin, "normal") in found
    assert (Name.Builtin, "subsets") in found
    assert all(kind is not Token.Error for kind, _ in found)


def test_every_word_of_the_language_has_a_colour():
    listed = {word for words in word_lists().values() for word in words} | {"true", "false"}
    assert {*KEYWORDS, *RESERVED} <= listed
    assert {f.name for f in forms.FORMS} <= listed
    assert {w for w in words_of_the_language() if w.isidentifier()} <= listed


def test_the_textmate_grammar_is_up_to_date():
    """`python grammar/build_highlighting.py` writes it."""
    kept = BUILD["TARGET"].read_text()
    assert kept == BUILD["text"]()
    for pattern in json.loads(kept)["patterns"]:
        re.compile(pattern["match"])


@pytest.mark.parametrize("name", ["package.json", "language-configuration.json"])
def test_the_extension_is_well_formed(name: str):
    folder = ROOT / "grammar" / "vscode"
    found = json.loads((folder / name).read_text())
    if name == "package.json":
        parts = found["contributes"]
        assert (folder / found["main"]).exists()
        assert all((folder / part["path"]).exists() for part in parts["grammars"])
        assert all((folder / part["configuration"]).exists() for part in parts["languages"])
        assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@pytest.mark.network
@pytest.mark.skipif(shutil.which("npx") is None, reason="Node.js is not installed")
def test_the_extension_packages_with_its_own_tool(tmp_path: Path):
    """The commands of "use an editor" in a copy of the folder; the package has the client, the grammar and the library that it needs."""
    folder = shutil.copytree(ROOT / "grammar" / "vscode", tmp_path / "vscode")
    for words in ("npm install --no-audit --no-fund", "npx --yes @vscode/vsce package --allow-missing-repository --out gmlm.vsix"):
        done = subprocess.run(words.split(), cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(folder / "gmlm.vsix") as package:
        found = set(package.namelist())
    own = {"package.json", "extension.js", "gmlm.tmLanguage.json", "language-configuration.json"}
    assert {f"extension/{name}" for name in own} <= found
    assert any(name.startswith("extension/node_modules/vscode-languageclient/") for name in found)
