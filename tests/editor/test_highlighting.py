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
from gmlmdsl.syntax import KEYWORDS, RESERVED, format_source

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
        indented = parts["configurationDefaults"]["[gmlm]"]
        written = format_source("model m {\nvar x : bit\nfactor x\n}\n").splitlines()[1]
        assert indented["editor.insertSpaces"] and written.startswith(" " * indented["editor.tabSize"] + "var")


# An editor without a server: its modules stand in for the real ones.
NO_SERVER = """
const shown = [], command = ["nowhere", "lsp"];
const vscode = {
  commands: { executeCommand: (...words) => shown.push(words.join(" ")) },
  window: { showErrorMessage: (text, button) => (shown.push(text), Promise.resolve(button)) },
  workspace: { getConfiguration: () => ({ get: () => command }) },
};
const failing = class { start() { return Promise.reject(new Error("ENOENT")); } };
const text = require("fs").readFileSync(process.argv[1], "utf-8"), extension = {};
const given = (name) => (name === "vscode" ? vscode : { LanguageClient: failing });
new Function("exports", "require", text)(extension, given);
extension.activate().catch((error) => setTimeout(() => console.log([error.message, ...shown].join("\\n"))));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_a_server_that_does_not_start_is_told_with_the_remedy():
    """The message of the client alone is "couldn't create connection to server"."""
    words = ["node", "-e", NO_SERVER, str(ROOT / "grammar" / "vscode" / "extension.js")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    error, told, opened = done.stdout.splitlines()
    assert (error, opened) == ("ENOENT", "workbench.action.openSettings gmlm.command"), done.stderr
    assert told.startswith("nowhere lsp does not start.") and "pip install 'gmlmdsl[editor]'" in told


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
