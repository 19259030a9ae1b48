"""The language server `gmlm lsp`: each request of the protocol is one call into this package.

Reference: the Language Server Protocol, version 3.17.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types as t
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from .._diagnostics import Diagnostic, GmlmError, Span
from ..graph import versions
from ._completion import Completion, completions
from ._document import Document, Place
from ._edits import Edit, fixes, formatted, references, rename, renamed_place, titled
from ._hover import hover
from ._names import text_of
from ._outline import LEGEND, Symbol, outline, shapes, word_kinds

SOURCE = "gmlm"
Written = t.DidOpenTextDocumentParams | t.DidChangeTextDocumentParams | t.DidSaveTextDocumentParams
MOST_FOLDERS = 1000  # that are searched for other programs
SYMBOLS = {
    "model": t.SymbolKind.Class,
    **dict.fromkeys(("mask", "sampler"), t.SymbolKind.Method),
    "function": t.SymbolKind.Function,
    "domain": t.SymbolKind.Enum,
    **dict.fromkeys(("graph", "network"), t.SymbolKind.Object),
    "param": t.SymbolKind.Property,
}
WORDS = {
    "keyword": t.CompletionItemKind.Keyword,
    **dict.fromkeys(("form", "function"), t.CompletionItemKind.Function),
    "option": t.CompletionItemKind.Field,
    "word": t.CompletionItemKind.EnumMember,
    "part": t.CompletionItemKind.Property,
    **dict.fromkeys(("mask", "sampler"), t.CompletionItemKind.Method),
    "domain": t.CompletionItemKind.Enum,
    "model": t.CompletionItemKind.Class,
    "file": t.CompletionItemKind.File,
}


class Server(LanguageServer):
    """A language server that keeps one `Document` for each open text."""

    def __init__(self) -> None:
        super().__init__("gmlm", versions()["gmlmdsl"])
        self._open: dict[str, Document] = {}

    def texts(self) -> dict[str, str]:
        """Return the texts that are open, by the real paths of their files."""
        opened = self.workspace.text_documents.values()
        return {os.path.realpath(_path(d.uri)): d.source for d in opened}

    def document(self, uri: str) -> Document:
        """Return the text at an address as it stands in the editor.

        A text that is not open is read from its file. It is empty if there is no such file.
        """
        found, texts = self.workspace.get_text_document(uri), self.texts()
        if found.version is None:
            return Document(_path(uri), text_of(_path(uri), texts), texts=texts)
        kept = self._open.get(uri)
        if kept is None or kept.text != found.source:
            kept = self._open[uri] = Document(_path(uri), found.source, kept, texts)
        return kept

    def others(self, uri: str) -> list[Document]:
        """Return the other programs of the opened folders, or of the folder of a text."""
        own, texts = _path(uri), self.texts()
        roots = [*map(_path, self.workspace.folders)] or [os.path.dirname(own)]
        paths = sorted({os.path.realpath(path) for root in roots for path in _programs(root)} - {os.path.realpath(own)})
        found = ((path, text_of(path, texts)) for path in paths)
        return [Document(path, text, texts=texts) for path, text in found if text]

    def forget(self, uri: str) -> None:
        """Forget a text that was closed."""
        self._open.pop(uri, None)

    def publish_importers(self, uri: str) -> None:
        """Check the open texts that import a text again, and send their diagnostics."""
        path, texts = os.path.realpath(_path(uri)), self.texts()
        for other, document in list(self._open.items()):
            if other != uri and path in document.names.imports:
                self._open[other] = Document(document.path, document.text, document, texts)
                self.publish(other)

    def publish(self, uri: str) -> None:
        """Send the diagnostics of a text; of a new one, first those that need no binding."""
        is_new, document = uri not in self._open, self.document(uri)
        # Every model of a new text is bound, which takes longer than reading and checking the text.
        if is_new and document.program is not None:
            self._send(uri, document, document.text_diagnostics)
        self._send(uri, document, document.diagnostics)
        gc.collect()  # Nobody waits now.

    def _send(self, uri: str, document: Document, diagnostics: Sequence[Diagnostic]) -> None:
        found = [_diagnostic(document, d) for d in diagnostics]
        version = self.workspace.get_text_document(uri).version
        self.text_document_publish_diagnostics(t.PublishDiagnosticsParams(uri, found, version))


def make_server() -> Server:
    """Return a server with all its features; `start_io()` runs it."""
    server = Server()

    @server.feature(t.TEXT_DOCUMENT_DID_OPEN)
    @server.feature(t.TEXT_DOCUMENT_DID_CHANGE)
    @server.feature(t.TEXT_DOCUMENT_DID_SAVE)
    def written(params: Written) -> None:
        server.publish(params.text_document.uri)
        server.publish_importers(params.text_document.uri)

    @server.feature(t.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: t.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)
        server.text_document_publish_diagnostics(t.PublishDiagnosticsParams(params.text_document.uri, []))
        server.publish_importers(params.text_document.uri)

    _add_reading(server)
    _add_writing(server)
    return server


def _add_reading(server: Server) -> None:
    """Add the requests that change nothing."""

    @server.feature(t.TEXT_DOCUMENT_HOVER)
    def hovered(params: t.HoverParams) -> t.Hover | None:
        document, offset = _at(server, params)
        found = hover(document, offset)
        if found is None:
            return None
        return t.Hover(t.MarkupContent(t.MarkupKind.Markdown, found[0]), _range(document, found[1]))

    @server.feature(t.TEXT_DOCUMENT_DEFINITION)
    def defined(params: t.DefinitionParams) -> t.Location | None:
        document, offset = _at(server, params)
        found = document.names.at(offset)
        return None if found is None else _location(document, params.text_document.uri, found.declaration.span)

    @server.feature(t.TEXT_DOCUMENT_REFERENCES)
    def referred(params: t.ReferenceParams) -> list[t.Location]:
        document, offset = _at(server, params)
        texts = (document, *server.others(params.text_document.uri))
        kept = references(texts, offset, params.context.include_declaration)
        return [_location(document, params.text_document.uri, s) for s in kept]

    @server.feature(t.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def highlighted(params: t.DocumentHighlightParams) -> list[t.DocumentHighlight]:
        document, offset = _at(server, params)
        found = document.names.at(offset)
        return [] if found is None else [t.DocumentHighlight(_range(document, u.span)) for u in document.names.of(found.declaration)]

    @server.feature(t.TEXT_DOCUMENT_COMPLETION, t.CompletionOptions(trigger_characters=list('.~:"/')))
    def completed(params: t.CompletionParams) -> list[t.CompletionItem]:
        document, offset = _at(server, params)
        found = {c.word: c for c in reversed(completions(document, offset))}
        return [_completion(c, document, offset, k) for k, c in enumerate(reversed(found.values()))]

    @server.feature(t.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def outlined(params: t.DocumentSymbolParams) -> list[t.DocumentSymbol]:
        document = server.document(params.text_document.uri)
        return [_symbol(document, s) for s in outline(document)]

    @server.feature(t.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, t.SemanticTokensLegend(list(LEGEND), []))
    def coloured(params: t.SemanticTokensParams) -> t.SemanticTokens:
        return t.SemanticTokens(_relative(server.document(params.text_document.uri)))

    @server.feature(t.TEXT_DOCUMENT_INLAY_HINT)
    def hinted(params: t.InlayHintParams) -> list[t.InlayHint]:
        document = server.document(params.text_document.uri)
        places = ((document.place(span.start), text) for span, text in shapes(document))
        kept = [(p, text) for p, text in places if params.range.start.line <= p.line <= params.range.end.line]
        return [t.InlayHint(t.Position(p.line, p.column), text, padding_left=True) for p, text in kept]


def _add_writing(server: Server) -> None:
    """Add the requests whose answers are edits."""

    @server.feature(t.TEXT_DOCUMENT_FORMATTING)
    def reformatted(params: t.DocumentFormattingParams) -> list[t.TextEdit]:
        document = server.document(params.text_document.uri)
        return _edits(document, formatted(document))

    @server.feature(t.TEXT_DOCUMENT_PREPARE_RENAME)
    def renamable(params: t.PrepareRenameParams) -> t.Range:
        document, offset = _at(server, params)
        try:
            return _range(document, renamed_place(document, offset).span)
        except GmlmError as error:
            raise JsonRpcInvalidParams(str(error.diagnostics[0].message)) from None

    @server.feature(t.TEXT_DOCUMENT_RENAME, t.RenameOptions(prepare_provider=True))
    def renamed(params: t.RenameParams) -> t.WorkspaceEdit:
        document, offset = _at(server, params)
        try:
            edits = rename(document, offset, params.new_name, server.others(params.text_document.uri))
        except GmlmError as error:
            raise JsonRpcInvalidParams(str(error.diagnostics[0].message)) from None
        changes: dict[str, list[t.TextEdit]] = {}
        for edit in edits:
            where = _location(document, params.text_document.uri, edit.span)
            changes.setdefault(where.uri, []).append(t.TextEdit(where.range, edit.text))
        return t.WorkspaceEdit(changes=changes)

    @server.feature(t.TEXT_DOCUMENT_CODE_ACTION, t.CodeActionOptions([t.CodeActionKind.QuickFix]))
    def mended(params: t.CodeActionParams) -> list[t.CodeAction]:
        uri = params.text_document.uri
        document = server.document(uri)
        start, end = (document.offset(Place(p.line, p.character)) for p in (params.range.start, params.range.end))
        return [_action(document, uri, d, edits) for d, edits in fixes(document, start, end)]


def _completion(found: Completion, document: Document, offset: int, rank: int) -> t.CompletionItem:
    """Return a word as an editor takes it, with an edit if it replaces no word of the editor.

    Editors list words by their rank, and without one by the alphabet.
    """
    kind, detail = WORDS.get(found.kind, t.CompletionItemKind.Variable), found.detail.split("\n")[0]
    item = t.CompletionItem(found.word, kind=kind, detail=detail, sort_text=f"{rank:04}")
    if found.replaces is not None:
        span = Span(document.source, offset - found.replaces, offset)
        item.text_edit = t.TextEdit(_range(document, span), found.word)
    return item


def _programs(root: str) -> Iterator[str]:
    """Yield the programs in a folder and below; hidden folders are left out."""
    for k, (folder, below, files) in enumerate(os.walk(root)):
        below[:] = sorted(f for f in below if not f.startswith(".") and f != "node_modules") if k < MOST_FOLDERS else ()
        yield from (os.path.join(folder, f) for f in files if f.endswith(".gmlm"))


def _path(uri: str) -> str:
    return to_fs_path(uri) or uri


def _action(document: Document, uri: str, d: Diagnostic, edits: Sequence[Edit]) -> t.CodeAction:
    edit = t.WorkspaceEdit(changes={uri: _edits(document, edits)})
    is_sure = d.fix is not None and not d.fix.guess
    found = [_diagnostic(document, d)]
    return t.CodeAction(titled(edits), kind=t.CodeActionKind.QuickFix, diagnostics=found, is_preferred=is_sure, edit=edit)


def _diagnostic(document: Document, d: Diagnostic) -> t.Diagnostic:
    """Return a diagnostic at its place; at the import if it lies in an imported file."""
    span, where, places = d.span, "", d.related
    if span is not None and not document.is_own(span):
        where, places = f"{span}: ", ((span, d.label), *places)
        span = document.names.imports.get(os.path.realpath(span.source.path))
    text = f"{where}{d.message}" + f"\nhelp: {d.help}" * bool(d.help)
    located = ((t.Location(_uri(s), _range_of(s)), label or "here") for s, label in places)
    related = [t.DiagnosticRelatedInformation(*each) for each in located]
    place = _range(document, span or Span(document.source, 0, 0))
    severity = t.DiagnosticSeverity.Error if d.severity == "error" else t.DiagnosticSeverity.Warning
    return t.Diagnostic(place, text, severity, d.code, source=SOURCE, related_information=related)


def _at(server: Server, params: Any) -> tuple[Document, int]:
    document = server.document(params.text_document.uri)
    return document, document.offset(Place(params.position.line, params.position.character))


def _range(document: Document, span: Span) -> t.Range:
    start, end = document.place(span.start), document.place(span.end)
    return t.Range(t.Position(start.line, start.column), t.Position(end.line, end.column))


def _range_of(span: Span) -> t.Range:
    return _range(Document(span.source.path, span.source.text), span)


def _uri(span: Span) -> str:
    return Path(span.source.path).resolve().as_uri()


def _location(document: Document, uri: str, span: Span) -> t.Location:
    return t.Location(uri if document.is_own(span) else _uri(span), _range_of(span))


def _edits(document: Document, edits: Sequence[Edit]) -> list[t.TextEdit]:
    return [t.TextEdit(_range(document, e.span), e.text) for e in edits]


def _symbol(document: Document, s: Symbol) -> t.DocumentSymbol:
    inside = [_symbol(document, i) for i in s.inside]
    kind = SYMBOLS.get(s.kind, t.SymbolKind.Variable)
    return t.DocumentSymbol(s.name, kind, _range(document, s.span), _range(document, s.place), detail=s.kind, children=inside)


def _relative(document: Document) -> list[int]:
    """Return the words of a text as the protocol writes them: each relative to the one before."""
    found, line, column = [], 0, 0
    for span, kind in word_kinds(document):
        start, end = document.place(span.start), document.place(span.end)
        step = start.line - line
        found += [step, start.column - (column if step == 0 else 0), end.column - start.column, LEGEND.index(kind), 0]
        line, column = start.line, start.column
    return found
