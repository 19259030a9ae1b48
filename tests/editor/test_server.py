"""The language server over its own protocol: a process, messages in and out, as an editor sends them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

TEXT = """index site = range(4)
model ising {
  var x[i in site] : spin
  param h[i in site] ~ normal(0, 1)
  factor h[i] * x[i] for i in site
}
mask one = subsets(x, size = 1)
"""


class Client:
    """An editor: requests with answers, notifications, and what the server published."""

    def __init__(self, folder: Path):
        self.uri = (folder / "m.gmlm").as_uri()
        self.process = subprocess.Popen([sys.executable, "-m", "gmlmdsl", "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number, self.version = 0, 0
        self.published: list[dict[str, Any]] = []
        self.capabilities = self.ask("initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": {}})["capabilities"]
        self.tell("initialized", {})

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        length = 0
        while (line := self.process.stdout.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return json.loads(self.process.stdout.read(length))

    def tell(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while True:
            found = self.read()
            if found.get("method") == "textDocument/publishDiagnostics":
                self.published.append(found["params"])
            elif found.get("id") == self.number:
                return found["result"] if "result" in found else found["error"]

    def open(self, text: str) -> list[dict[str, Any]]:
        """The diagnostics of a text that is opened, or changed."""
        self.version += 1
        if self.version == 1:
            item = {"uri": self.uri, "languageId": "gmlm", "version": 1, "text": text}
            self.tell("textDocument/didOpen", {"textDocument": item})
        else:
            change = {"textDocument": {"uri": self.uri, "version": self.version}, "contentChanges": [{"text": text}]}
            self.tell("textDocument/didChange", change)
        self.ask("textDocument/documentSymbol", {"textDocument": {"uri": self.uri}})
        return self.published[-1]["diagnostics"]

    def shown(self, uri: str) -> list[dict[str, Any]]:
        """The diagnostics of a text that were published last, once all messages are answered."""
        self.ask("textDocument/documentSymbol", {"textDocument": {"uri": self.uri}})
        return next(p["diagnostics"] for p in reversed(self.published) if p["uri"] == uri)

    def at(self, method: str, line: int, column: int, **more: Any) -> Any:
        place = {"textDocument": {"uri": self.uri}, "position": {"line": line, "character": column}}
        return self.ask(f"textDocument/{method}", place | more)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    client = Client(tmp_path)
    yield client
    client.ask("shutdown", None)
    client.tell("exit", None)
    assert client.process.wait(20) == 0
    for stream in (client.process.stdin, client.process.stdout):
        assert stream is not None
        stream.close()


def start(found: dict[str, Any]) -> tuple[int, int]:
    return found["range"]["start"]["line"], found["range"]["start"]["character"]


def test_a_session(client: Client):
    """Faults appear and go as the text changes; names are followed, renamed, completed, explained and formatted."""
    wanted = ("hoverProvider", "definitionProvider", "referencesProvider", "renameProvider", "completionProvider", "documentSymbolProvider")
    assert all(client.capabilities.get(name) for name in wanted)
    assert client.open(TEXT) == []
    (found,) = client.open(TEXT.replace("h[i] * x[i] for", "g[i] * x[i] for"))
    assert (found["code"], found["severity"], start(found)) == ("E203", 1, (4, 9))
    (warned,) = client.open(TEXT.replace("factor h[i] * x[i]", "factor x[i]"))
    assert (warned["code"], warned["severity"]) == ("W803", 2)
    assert client.open(TEXT) == []

    assert start(client.at("definition", 4, 16)) == (2, 6)
    uses = client.at("references", 4, 16, context={"includeDeclaration": True})
    assert [start(u) for u in uses] == [(2, 6), (4, 16), (6, 19)]
    hovered = client.at("hover", 6, 6)["contents"]["value"]
    assert "mask one = subsets(x, size = 1)" in hovered
    assert "log p(x_K | x_rest)" in hovered
    edits = client.at("rename", 4, 16, newName="y")["changes"][client.uri]
    assert [start(e) for e in edits] == [(2, 6), (4, 16), (6, 19)]
    assert "taken" in client.at("rename", 4, 16, newName="h")["message"]
    symbols = client.ask("textDocument/documentSymbol", {"textDocument": {"uri": client.uri}})
    assert [(s["name"], [c["name"] for c in s["children"]]) for s in symbols] == [("site", []), ("ising", ["x", "h"]), ("one", [])]
    tokens = client.ask("textDocument/semanticTokens/full", {"textDocument": {"uri": client.uri}})["data"]
    assert len(tokens) % 5 == 0
    assert tokens[:5] == [0, 0, 5, client.capabilities["semanticTokensProvider"]["legend"]["tokenTypes"].index("keyword"), 0]
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
    hints = client.ask("textDocument/inlayHint", {"textDocument": {"uri": client.uri}, "range": whole})
    assert [(h["position"]["line"], h["label"]) for h in hints] == [(2, "(4)"), (3, "(4)")]


def test_a_text_that_is_opened_first_shows_what_needs_no_binding(client: Client):
    """The editor gets the warnings of the text before the models are bound, and all of them after."""
    bound_only = TEXT.replace("index site = range(4)", "input n : int = -1\nindex site = range(n)").replace(
        "factor h[i] * x[i]", "factor x[i]"
    )
    codes = [d["code"] for d in client.open(bound_only)]
    assert [[d["code"] for d in p["diagnostics"]] for p in client.published] == [["W803"], codes]
    assert set(codes) > {"W803"}
    client.open(bound_only + " ")
    assert len(client.published) == 3


def test_a_name_of_an_imported_file_is_renamed_in_all_files(client: Client, tmp_path: Path):
    """Files that are not open are read from the folder; those that are open count as they stand in the editor."""
    (tmp_path / "base.gmlm").write_text("index site = range(4)\n")
    (tmp_path / "other.gmlm").write_text('import "base.gmlm"\nmodel other { var y[i in site] : bit }\n')
    (tmp_path / "broken.gmlm").write_bytes(b"\xff site")
    client.open(TEXT.replace("index site = range(4)", 'import "base.gmlm"'))
    uses = client.at("references", 2, 13, context={"includeDeclaration": False})
    assert sorted((Path(u["uri"]).name, *start(u)) for u in uses) == [
        ("m.gmlm", 2, 13),
        ("m.gmlm", 3, 15),
        ("m.gmlm", 4, 30),
        ("other.gmlm", 1, 25),
    ]
    changes = client.at("rename", 2, 13, newName="place")["changes"]
    assert {Path(uri).name: len(edits) for uri, edits in changes.items()} == {"m.gmlm": 3, "base.gmlm": 1, "other.gmlm": 1}


BASE, BROKEN = "index site = range(4)\n", "index sites = range(4)\n"
IMPORTING = TEXT.replace("index site = range(4)", '# a remark\n\nimport "base.gmlm"')


def opened(client: Client, path: Path, text: str) -> dict[str, Any]:
    """Open a second text, and return what names it in later messages."""
    item = {"uri": path.as_uri(), "languageId": "gmlm", "version": 1, "text": text}
    client.tell("textDocument/didOpen", {"textDocument": item})
    return {"uri": path.as_uri(), "version": 2}


def hints(client: Client) -> list[str]:
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    request = {"textDocument": {"uri": client.uri}, "range": whole}
    return [h["label"] for h in client.ask("textDocument/inlayHint", request)]


@pytest.mark.parametrize("through", ["", 'import "base.gmlm"\n'])
def test_a_changed_import_is_seen_by_its_importers(client: Client, tmp_path: Path, through: str):
    """Changed in the editor, saved, and closed without being saved; also through another import."""
    base = tmp_path / "base.gmlm"
    base.write_text(BASE)
    (tmp_path / "mid.gmlm").write_text(through)
    assert client.open(IMPORTING.replace("base.gmlm", "mid.gmlm" if through else "base.gmlm")) == []
    assert hints(client) == ["(4)", "(4)"]
    document = opened(client, base, BASE)
    change = {"textDocument": document, "contentChanges": [{"text": BASE.replace("4", "5")}]}
    client.tell("textDocument/didChange", change)
    assert hints(client) == ["(5)", "(5)"]
    client.tell("textDocument/didChange", change | {"contentChanges": [{"text": "\n" + BROKEN}]})
    assert {d["code"] for d in client.shown(client.uri)} == {"E203"}
    client.tell("textDocument/didClose", {"textDocument": {"uri": document["uri"]}})
    assert client.shown(client.uri) == []
    assert hints(client) == ["(4)", "(4)"]
    opened(client, base, BASE)
    base.write_text(BASE)
    client.tell("textDocument/didSave", {"textDocument": {"uri": document["uri"]}})
    assert client.shown(client.uri) == []
    assert client.at("definition", 4, 13)["uri"] == base.as_uri()


def test_imports_are_read_as_they_stand_in_the_editor(client: Client, tmp_path: Path):
    """A fault of the disk that is mended in the editor, but not yet saved, is none."""
    base = tmp_path / "base.gmlm"
    base.write_text(BROKEN)
    opened(client, base, "# a remark\n" + BASE)
    assert client.open(IMPORTING) == []
    assert start(client.at("definition", 4, 13)) == (1, 6)
    changes = client.at("rename", 4, 13, newName="place")["changes"]
    assert [start(e) for e in changes[base.as_uri()]] == [(1, 6)]


def test_a_fault_of_an_import_is_shown_at_the_import(client: Client, tmp_path: Path):
    """At the statement of this text, also if another import leads to it. Its place is linked."""
    base = tmp_path / "base.gmlm"
    base.write_text(BASE + "index broken = range(nothing)\n")
    (tmp_path / "mid.gmlm").write_text('import "base.gmlm"\n')
    for name in ("base.gmlm", "mid.gmlm"):
        (found,) = client.open(IMPORTING.replace("base.gmlm", name))
        assert (found["code"], start(found)) == ("E203", (2, 0))
        assert found["range"]["end"] == {"line": 2, "character": len(f'import "{name}"')}
        (link,) = found["relatedInformation"]
        assert (link["location"]["uri"], start(link["location"])) == (base.as_uri(), (1, 21))


def test_a_document_that_is_neither_open_nor_on_disk_is_empty(client: Client):
    assert client.open(TEXT) == []
    client.tell("textDocument/didClose", {"textDocument": {"uri": client.uri}})
    assert hints(client) == []
    assert client.at("hover", 2, 6) is None


def test_an_import_of_an_impossible_path_is_a_fault_of_the_text(client: Client):
    (found,) = client.open(TEXT + 'import "a\0b.gmlm"\n')
    assert found["code"] == "E315"
    document = {"textDocument": {"uri": client.uri}}
    assert client.ask("textDocument/documentSymbol", document)[0]["name"] == "site"


def test_a_fault_is_mended_by_its_quick_fix(client: Client):
    text = TEXT.replace("subsets(x", "subset(x")
    (found,) = client.open(text)
    request = {"textDocument": {"uri": client.uri}, "range": found["range"], "context": {"diagnostics": [found]}}
    (action,) = client.ask("textDocument/codeAction", request)
    assert action["title"] == "Replace `subset` by `subsets`"
    (edit,) = action["edit"]["changes"][client.uri]
    line, first, last = edit["range"]["start"]["line"], edit["range"]["start"]["character"], edit["range"]["end"]["character"]
    lines = text.splitlines(keepends=True)
    lines[line] = lines[line][:first] + edit["newText"] + lines[line][last:]
    assert "".join(lines) == TEXT
    assert client.open("".join(lines)) == []


def test_the_path_of_an_import_is_completed_as_a_whole(client: Client, tmp_path: Path):
    """An editor takes a word to end at a point, so the answer says what it replaces."""
    (tmp_path / "lib.model.gmlm").write_text("index site = range(3)\n")
    client.open('import "lib.mo')
    (found,) = client.at("completion", 0, 14)
    assert found["textEdit"] == {
        "range": {"start": {"line": 0, "character": 8}, "end": {"line": 0, "character": 14}},
        "newText": "lib.model.gmlm",
    }


def test_the_words_of_a_completion_have_the_order_of_the_answer(client: Client):
    """Without a rank, an editor orders by the alphabet: `sigmoid` before the option `size`."""
    line = "mask two = subsets(x, s"
    client.open(TEXT + line)
    found = client.at("completion", 7, len(line))
    assert sorted(found, key=lambda f: f["sortText"]) == found
    words = [f["label"] for f in found]
    assert words[0] == "size" and "sigmoid" in words


def test_columns_are_counted_as_editors_count_them(client: Client):
    """A letter beyond the basic plane is two units of UTF-16."""
    text = 'domain mood = labels("\U0001f600", "\U0001f641")\nmodel m { var x : mood  factor 0.5 * (x == "\U0001f600") * y }\n'
    (found,) = client.open(text)
    line = text.splitlines()[1]
    assert start(found) == (1, len(line[: line.index(" y }") + 1].encode("utf-16-le")) // 2)


def test_a_text_is_written_in_its_canonical_form(client: Client):
    client.open(TEXT.replace("  factor h[i] * x[i]", "    factor   h[i]*x[i]"))
    options = {"tabSize": 2, "insertSpaces": True}
    (edit,) = client.ask("textDocument/formatting", {"textDocument": {"uri": client.uri}, "options": options})
    assert edit["newText"] == TEXT


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_formatting_keeps_the_ends_of_lines(client: Client, end: str):
    options = {"textDocument": {"uri": client.uri}, "options": {"tabSize": 2, "insertSpaces": True}}
    wanted = TEXT.replace("i in site\n}", "i in site  # a remark\n}").replace("\n", end)
    client.open(wanted.replace("h[i] * x[i]", "h[i]*x[i]"))
    (edit,) = client.ask("textDocument/formatting", options)
    assert edit["newText"] == wanted
    client.open(wanted)
    assert client.ask("textDocument/formatting", options) == []


PROGRAMS = Path(__file__).parents[1] / "programs"
SOUND = sorted([*(PROGRAMS / "valid").glob("*.gmlm"), *(PROGRAMS / "good").glob("*.gmlm")])
CORPUS = {
    "sound": SOUND[::24],
    "sound at night": [path for k, path in enumerate(SOUND) if k % 24],
    "faulty": sorted([*(PROGRAMS / "bad").glob("*.gmlm"), *(PROGRAMS / "habits").glob("*.gmlm")]),
}


@pytest.mark.parametrize("kind", ["sound", *(pytest.param(k, marks=pytest.mark.slow) for k in CORPUS if k != "sound")])
def test_every_program_has_answers(client: Client, kind: str):
    """One server answers about every program: no request ends in an error, and every declaration is found again."""
    for path in CORPUS[kind]:
        client.uri, client.version = path.as_uri(), 0
        found = client.open(path.read_text(errors="surrogateescape").encode("utf-8", "replace").decode())
        assert kind == "faulty" or all(d["severity"] > 1 for d in found), path.name
        document = {"textDocument": {"uri": client.uri}}
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": 10_000, "character": 0}}
        actions = client.ask("textDocument/codeAction", document | {"range": whole, "context": {"diagnostics": found}})
        hints = client.ask("textDocument/inlayHint", document | {"range": whole})
        edits = client.ask("textDocument/formatting", document | {"options": {"tabSize": 2, "insertSpaces": True}})
        colours = client.ask("textDocument/semanticTokens/full", document)["data"]
        assert [isinstance(x, list) for x in (actions, hints, edits)] == [True] * 3, path.name
        assert len(colours) % 5 == 0
        symbols = client.ask("textDocument/documentSymbol", document)
        for symbol in [s for outer in symbols for s in (outer, *outer["children"])]:
            place = symbol["selectionRange"]
            at = place["start"]["line"], place["start"]["character"]
            shown = client.at("hover", *at)["contents"]["value"]
            assert symbol["name"] in shown or kind == "faulty", path.name
            assert client.at("definition", *at)["range"] == place, path.name
            uses = client.at("references", *at, context={"includeDeclaration": True})
            assert place in [u["range"] for u in uses], path.name
            assert isinstance(client.at("completion", *at), list), path.name
            renamed = client.at("rename", *at, newName="renamed_9")
            edits = sum(map(len, renamed["changes"].values()))  # also in programs that import it
            assert edits == len(uses), path.name
        client.tell("textDocument/didClose", document)
    client.version = 0
