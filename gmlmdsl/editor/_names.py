"""Which declaration each name of a text refers to.

The rules are those of the checker. Index names are visible in their statement or argument. Names of
a model are visible in its statements, and in its masks and samplers. All other names are those of
the file and of the files that it imports. A text with faults is resolved as far as it can be
parsed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .._diagnostics import GmlmError, Span
from ..program import forms
from ..syntax import Texts, parse_with_errors, read_source, tree

MOST_IMPORTS = 50  # files that are read for their names
CALLED = ("function", "network")  # the kinds of names that are called; others are words of forms
LOCAL = ("index name", "block", "argument")  # kinds of names of a single statement
KINDS = {
    tree.Domain: "domain",
    tree.IndexSet: "index",
    tree.ChosenSet: "index",
    tree.Graph: "graph",
    tree.Network: "network",
    tree.Function: "function",
    tree.Input: "input",
    tree.Parameter: "param",
    tree.Model: "model",
    tree.Mask: "mask",
    tree.Sampler: "sampler",
    tree.Let: "let",
    tree.Use: "use",
}


@dataclass(frozen=True)
class Declaration:
    """A declared name.

    Attributes:
        kind: the keyword, or `length`, `index name`, `block` or `argument`.
        name: the name.
        span: the place of the name.
        statement: the declaring statement.
        model: the model to which it belongs, "" for names of the file.
    """

    kind: str
    name: str
    span: Span
    statement: tree.Node = field(compare=False, repr=False)
    model: str = ""

    @property
    def text(self) -> str:
        """The declaration as it is written; the first line of one with braces."""
        first, _, more = self.statement.span.text.partition("\n")
        return first.rstrip(" {") if self.kind in ("model", "mask", "sampler") else f"{first}\n{more}".rstrip()

    def is_same(self, other: Declaration) -> bool:
        """Return whether two texts, which may be of different times, mean one declaration of one file."""
        if (self.name, self.kind, self.model) != (other.name, other.kind, other.model):
            return False
        return is_file(self.span.source.path, other.span.source.path) and (self.kind not in LOCAL or self.span.start == other.span.start)


def text_of(path: str, texts: Texts) -> str:
    """Return the text of a file, from the open ones if it is among them.

    The text is empty if the file cannot be read.
    """
    try:
        return read_source(path, piped=False, texts=texts).text
    except GmlmError:
        return ""


def is_file(path: str, other: str) -> bool:
    """Return whether two paths lead to the same file."""
    return path == other or os.path.realpath(path) == os.path.realpath(other)


@dataclass(frozen=True)
class Occurrence:
    """A name in the text, with its declaration."""

    span: Span
    declaration: Declaration


Visible = Mapping[str, Declaration]


class NameTable:
    """The names of a text.

    Attributes:
        occurrences: every name that is declared or used, in the order of the text.
        file: the names of the file and of its imports.
        models: the names of each model.
        imports: the real path of each file that is imported, also by another one, with the place
            of the statement of the text through which it is.
    """

    def __init__(self, parsed: tree.SyntaxTree, texts: Texts = None):
        self._texts = texts
        self.file: dict[str, Declaration] = {}
        self.models: dict[str, dict[str, Declaration]] = {}
        self._found: dict[int, Occurrence] = {}
        self.imports: dict[str, Span] = {}
        self._own = os.path.realpath(parsed.span.source.path)
        self._declare_file(parsed)
        for statement in parsed.statements:
            self._statement(statement)
        self.occurrences = [self._found[k] for k in sorted(self._found)]

    def at(self, offset: int) -> Occurrence | None:
        """Return the name at a place of the text, or just before it."""
        return next((o for o in self.occurrences if o.span.start <= offset <= o.span.end), None)

    def of(self, declaration: Declaration) -> list[Occurrence]:
        """Return all occurrences of a declaration in the text, its own place included."""
        return [o for o in self.occurrences if o.declaration.is_same(declaration)]

    def visible_at(self, offset: int, parsed: tree.SyntaxTree) -> dict[str, Declaration]:
        """Return the names that a statement at a place of the text may mention."""
        here = next((s for s in parsed.statements if s.span.start <= offset <= s.span.end), None)
        of_model: Visible = {}
        if isinstance(here, tree.Model):
            of_model = self.models.get(here.name.name, {})
        elif isinstance(here, tree.Mask | tree.Sampler):
            of_model = self._model_of(here)
        local = {o.declaration.name: o.declaration for o in self.occurrences if here is not None and _within(o.span, here.span)}
        return {**of_model, **local, **self.file, **of_model}

    def of_model(self, name: str) -> Visible:
        """Return the names of a model, or of the last model if there is none of that name."""
        return self.models.get(name) or next(reversed(self.models.values()), {})

    # Declarations

    def _declare_file(self, parsed: tree.SyntaxTree, through: Span | None = None) -> None:
        for s in parsed.statements:
            if isinstance(s, tree.Import):
                self._import(s, through or s.span)
            elif isinstance(s, tree.Judge):
                self._add(self.file, s.kind, s.name, s)
            elif type(s) in KINDS:
                self._add(self.file, KINDS[type(s)], s.name, s)
                for more in getattr(s, "also", ()):
                    self._add(self.file, KINDS[type(s)], more.name, s)
            for axes in (d.axes for d in (s, *s.also)) if isinstance(s, tree.Input) else ():
                for axis in axes:
                    if isinstance(axis, tree.Name) and axis.name not in self.file:
                        self._add(self.file, "length", axis, s)
            if isinstance(s, tree.Model):
                self._declare_model(s)

    def _import(self, s: tree.Import, through: Span) -> None:
        path = os.path.join(os.path.dirname(s.span.source.path), s.path.value)
        real = "\0" not in path and os.path.realpath(path)
        if not real or real in (*self.imports, self._own) or len(self.imports) >= MOST_IMPORTS:
            return
        self.imports[real] = through
        self._declare_file(parse_with_errors(text_of(path, self._texts), path)[0], through)

    def _declare_model(self, model: tree.Model) -> None:
        names = self.models.setdefault(model.name.name, {})
        for s in model.body:
            if isinstance(s, tree.Mask):
                self._add(self.file, "mask", s.name, s)
            elif isinstance(s, tree.Variable | tree.Parameter | tree.Let | tree.Use):
                kind = s.kind if isinstance(s, tree.Variable) else KINDS[type(s)]
                for one in (s, *getattr(s, "also", ())):
                    self._add(names, kind, one.name, s, model.name.name)

    def _add(self, names: dict[str, Declaration], kind: str, name: tree.Name, statement: tree.Node, model: str = "") -> None:
        names.setdefault(name.name, Declaration(kind, name.name, name.span, statement, model))

    # Uses

    def _statement(self, s: tree.Node) -> None:
        if isinstance(s, tree.Model):
            self._use(s.name, self.file)
            names = {**self.file, **self.models.get(s.name.name, {})}
            for inner in s.body:
                self._visit(inner, names, inner)
        elif isinstance(s, tree.Mask | tree.Sampler):
            self._use(s.name, self.file)  # Its model may have a variable of the same name.
            self._visit(s, {**self.file, **self._model_of(s)}, s)
        elif isinstance(s, tree.Function):
            self._use(s.name, self.file)
            arguments = {p.name: Declaration("argument", p.name, p.span, s) for p in s.parameters}
            for p in s.parameters:
                self._use(p, arguments)
            self._visit(s.value, {**self.file, **arguments}, s)
        else:
            self._visit(s, self.file, s)

    def _model_of(self, s: tree.Mask | tree.Sampler) -> Visible:
        """Return the names of the model of a mask or sampler; without a name, of all models."""
        if s.model is not None:
            return self.models.get(s.model.name, {})
        found: dict[str, Declaration] = {}
        for names in self.models.values():
            found = {**names, **found}
        return found

    def _visit(self, node: Any, names: Visible, statement: tree.Node) -> None:
        match node:
            case tuple():
                for part in node:
                    self._visit(part, names, statement)
            case tree.Name():
                self._use(node, names)
            case tree.Attribute():
                self._use(node.base, names)
                self._use(node.attribute, self._copied(names.get(node.base.name)))
            case tree.Use():
                self._copy(node, names)
            case tree.Call():
                self._call(node, names, statement)
            case tree.Node():
                here = {**names, **{d.name: d for d in _bound_here(node, statement)}}
                self._visit(tuple(_parts(node)), here, statement)

    def _call(self, call: tree.Call, names: Visible, statement: tree.Node) -> None:
        called = names.get(call.function.name)
        if called is not None and called.kind in CALLED:
            self._use(call.function, names)
        self._visit(tuple(a for a in call.arguments if not _is_word(call.function.name, a)), names, statement)

    def _copy(self, use: tree.Use, names: Visible) -> None:
        for name, cell in use.bindings:
            self._use(name, self.models.get(use.model.name, {}))
            self._visit(cell, names, use)
        self._visit((use.model, use.name), names, use)

    def _copied(self, use: Declaration | None) -> Visible:
        """Return the names of the model that `use M as a` copies."""
        return self.models.get(use.statement.model.name, {}) if use is not None and isinstance(use.statement, tree.Use) else {}

    def _use(self, name: tree.Name, names: Visible) -> None:
        declaration = names.get(name.name)
        if declaration is not None:
            self._found.setdefault(name.span.start, Occurrence(name.span, declaration))


def _parts(node: tree.Node) -> Iterator[Any]:
    """Yield the parts of a node that contain names; words of forms and parts of graphs do not."""
    match node:
        case tree.Argument():
            yield from (node.clauses, node.value)
        case tree.Options(items=items):
            yield tuple(value for _, value in items)
        case tree.NetworkConditional():
            yield from (node.target, node.network)
        case _:
            yield from (getattr(node, f.name) for f in fields(node) if f.name != "span")


def _is_word(called: str, argument: tree.Argument) -> bool:
    """Return whether an argument is a word of its option, as in `decode = sample`, and no name."""
    if argument.keyword is None or not isinstance(argument.value, tree.Name):
        return False
    options = [o for f in forms.FORMS if f.name == called for o in f.options if o.name == argument.keyword.name]
    return any(argument.value.name in o.words for o in options)


def _bound_here(node: tree.Node, statement: tree.Node) -> Iterator[Declaration]:
    """Yield the index names and blocks that a node binds for all its parts."""
    loops: list[tree.Loop] = []
    for f in fields(node):
        value = getattr(node, f.name)
        if isinstance(value, tree.Clauses):
            loops += value.loops
        elif isinstance(value, tree.Loop):
            loops.append(value)
        elif f.name in ("axes", "loops"):
            loops += [axis for axis in value if isinstance(axis, tree.Loop)]
        elif isinstance(value, tree.Where) and value.name is not None:
            yield Declaration("block", value.name.name, value.name.span, statement)
    for loop in loops:
        for name in loop.names:
            yield Declaration("index name", name.name, name.span, loop)


def _within(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end
