"""Checks a whole program: declarations in order, imports, and what only the end of the text shows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .._diagnostics import Diagnostic, GmlmError, Source, Span, in_text_order, listed
from ..syntax import parse_with_errors, read_source, tree
from ._arguments import check_arguments, find_form
from ._expressions import CONSTANT, check_number
from ._lints import lint
from ._masks import check_mask
from ._models import check_model
from ._samplers import check_sampler
from ._scope import Scope, Symbol
from ._sets import check_domain, check_set, check_size, check_type
from .ir import FormCall, Input, InputAxis, Literal, Mask, Model, Program, Sampler, SetOf

MOST_FILES = 64


class _Checker:
    """The state of one run: the scope, the models' private names, the files read."""

    def __init__(self, root: Path | None):
        self.root = root
        self.scope = Scope()
        self.private: dict[str, dict[str, Symbol]] = {}
        self.sources: list[Source] = []
        self.open: list[Path] = []
        self.done: set[Path] = set()
        self.implicit: list[Span] = []  # masks and samplers that leave `for MODEL` out
        self.lengths: dict[str, tuple[str, int]] = {}
        self.declared: dict[str, dict[str, object]] = {k: {} for k in ("input", "domain", "index", "graph", "network", "model", "mask", "sampler")}

    def run(self, source: Source) -> None:
        """Check one file; what it imports is checked where the import stands."""
        self.sources.append(source)
        parsed, errors, skipped = parse_with_errors(source.text, source.path)
        self.scope.diagnostics += errors
        self.scope.skipped |= skipped
        outer, self.scope.later = self.scope.later, {s.name.name: s.name.span for s in parsed.statements if not isinstance(s, tree.Import)}
        for statement in parsed.statements:
            with self.scope.nested():
                self.statement(statement)
        self.scope.later = outer

    def statement(self, s: tree.Statement) -> None:
        """Check one declaration and make its name visible; a faulty one is visible too, without a value."""
        match s:
            case tree.Import():
                self.import_file(s)
            case tree.Input():
                self.declare("input", s.name, self.input(s))
            case tree.Domain():
                self.declare("domain", s.name, self.domain(s))
            case tree.IndexSet():
                self.declare("index", s.name, self.index_set(s))
            case tree.Graph():
                self.declare("graph", s.name, self.form(s.form, "graph"))
            case tree.Network():
                self.declare("network", s.name, self.form(s.form, "network"))
            case tree.Model():
                self.model(s)
            case tree.Mask():
                self.with_model("mask", s, check_mask)
            case tree.Sampler():
                self.with_model("sampler", s, check_sampler)

    def declare(self, kind: str, name: tree.Name, value: object) -> None:
        """Add a declaration to the scope and, where it is whole, to the program."""
        binders, self.scope.binders = self.scope.binders, {}
        before = len(self.scope.diagnostics)
        self.scope.declare(kind, name, value)
        self.scope.binders = binders
        self.scope.later.pop(name.name, None)
        if len(self.scope.diagnostics) == before and value is not None:
            self.declared[kind][name.name] = value

    def input(self, s: tree.Input) -> Input | None:
        axes = tuple(self.axis(s.name.name, k, e) for k, e in enumerate(s.axes))
        type_ = check_type(s.type, self.scope, s.span, inputs=True)
        default = None
        if s.default is not None:
            default = check_number(s.default, self.scope, CONSTANT, integer=type_ is not None and type_.kind == "int")
        if type_ is not None and type_.kind == "positive" and isinstance(default, Literal) and default.value <= 0:
            self.scope.report("E317", f"the default of a positive input is above 0, found {default.value}", default.span, "not positive")
        if type_ is not None and type_.kind == "simplex" and not axes:
            self.scope.report("E310", "a simplex needs an axis: its last one sums to 1", s.name.span, "no axis")
            return None
        return None if type_ is None else Input(s.span, s.name.name, axes, type_, default)

    def axis(self, name: str, k: int, e: tree.Expression) -> InputAxis:
        """One axis of an input: a size, a set, or a new name for its length."""
        if isinstance(e, tree.Name):
            symbol = self.scope.find(e.name)
            if symbol is None:
                self.scope.declare("length", e)
                self.scope.later.pop(e.name, None)
                self.lengths[e.name] = (name, k)
                return InputAxis(e.span, name=e.name)
            if symbol.kind in ("index", "domain"):
                return InputAxis(e.span, over=check_set(e, self.scope))
        if isinstance(e, tree.Attribute) or (isinstance(e, tree.Call) and e.function.name == "range"):
            return InputAxis(e.span, over=check_set(e, self.scope))
        return InputAxis(e.span, size=check_size(e, self.scope))

    def domain(self, s: tree.Domain) -> object:
        domain = check_domain(s.type, self.scope)
        return None if domain is None else type(domain)(s.name.span, domain.kind, s.name.name, domain.labels, domain.size, domain.of)

    def index_set(self, s: tree.IndexSet) -> object:
        over = check_set(s.over, self.scope)
        return None if over is None else SetOf(s.name.span, over.kind, s.name.name, over.size, over.domain, over.graph, over.part)

    def form(self, call: tree.Call, room: str) -> FormCall | None:
        form = find_form(call, room, self.scope)
        arguments = None if form is None else check_arguments(call, form, self.scope)
        return None if form is None or arguments is None else FormCall(call.span, form, arguments)

    def model(self, s: tree.Model) -> None:
        outer, self.scope.later = self.scope.later, {**self.scope.later, **_own_names(s)}
        with self.scope.inside({}):
            checked = check_model(s, self.scope)
            self.private[s.name.name] = self.scope.model
        self.scope.later = outer
        self.declare("model", s.name, checked)

    def with_model(self, kind: str, s: tree.Mask | tree.Sampler, check: object) -> None:
        """A mask or sampler, checked where its model's names are visible."""
        model = self.model_of(kind, s)
        value: Mask | Sampler | None = None
        if model is not None:
            with self.scope.inside(self.private[model.name]):
                value = check(s, model, self.scope)  # type: ignore[operator]
        self.declare(kind, s.name, value)

    def model_of(self, kind: str, s: tree.Mask | tree.Sampler) -> Model | None:
        if s.model is not None:
            symbol = self.scope.use(s.model, "model")
            return symbol.value if symbol is not None and isinstance(symbol.value, Model) else None
        models = [v for v in self.scope.program.values() if v.kind == "model"]
        if not models and not self.scope.skipped:
            self.scope.report("E304", f"no model is declared before this {kind}", s.name.span, "of which model?", help="declare or import one first")
        if len(models) == 1:
            self.implicit.append(s.name.span)
        elif models:
            self.ambiguous(s.name.span, [m.name for m in models])
        only = models[0].value if len(models) == 1 else None
        return only if isinstance(only, Model) else None

    def ambiguous(self, span: Span, models: list[str]) -> None:
        message = f"the program has the models {listed(models)}: `{span.text}` must say which"
        self.scope.report("E304", message, span, "of which model?", help=f"write `{span.text} for {models[0]}`")

    def import_file(self, s: tree.Import) -> None:
        if self.root is None:
            self.scope.report("E315", "a text has no folder: imports work in files only", s.span, "cannot import here", help="use `gm.load(path)`")
            return
        folder = self.open[-1].parent
        path = (folder / s.path.value).resolve() if "\0" not in s.path.value else folder.parent
        if not path.is_relative_to(folder.resolve()) or Path(s.path.value).is_absolute():
            self.scope.report("E315", f'"{s.path.value}" lies outside the folder of this file', s.path.span, "outside", help="a program imports only below its own folder")
        elif path in self.open:
            self.scope.report("E315", f'"{s.path.value}" imports itself in a loop', s.path.span, "a loop")
        elif len(self.done) >= MOST_FILES:
            self.scope.report("E315", f"a program has at most {MOST_FILES} files", s.path.span, "too many")
        elif path not in self.done:
            self.read_import(path, s)

    def read_import(self, path: Path, s: tree.Import) -> None:
        try:
            source = read_source(path)
        except GmlmError as error:
            self.scope.report("E315", f'cannot import "{s.path.value}": {error.diagnostics[0].message}', s.path.span, "cannot be read")
            return
        shown = Path(self.sources[0].path).parent / s.path.value if len(self.open) == 1 else path
        self.open.append(path)
        self.done.add(path)
        self.run(Source(str(shown), source.text))
        self.open.pop()

    def finish(self) -> Program:
        """The program, or one error with every diagnostic."""
        models = [v.name for v in self.scope.program.values() if v.kind == "model"]
        if len(models) > 1:
            for span in self.implicit:
                self.ambiguous(span, models)
        d = self.declared
        program = Program(tuple(self.sources), d["input"], self.lengths, d["domain"], d["index"], d["graph"], d["network"], d["model"], d["mask"], d["sampler"])  # type: ignore[arg-type]
        found = in_text_order(self.scope.diagnostics)
        if any(x.severity == "error" for x in found):
            raise GmlmError(found)
        warnings = in_text_order((*found, *lint(program)))
        return _with_warnings(program, warnings)


def _own_names(s: tree.Model) -> dict[str, Span]:
    named = (tree.Variable, tree.Parameter, tree.Let)
    return {x.name.name: x.name.span for x in s.body if isinstance(x, named)}


def _with_warnings(program: Program, warnings: Iterable[Diagnostic]) -> Program:
    import dataclasses

    return dataclasses.replace(program, warnings=tuple(warnings))


def check_source(source: Source) -> Program:
    """Check a text without imports.

    Returns:
        The checked program, with its warnings.

    Raises:
        GmlmError: with every fault of the text.
    """
    checker = _Checker(None)
    checker.run(source)
    return checker.finish()


def check_file(path: str | Path) -> Program:
    """Check a file and what it imports.

    Returns:
        The checked program, with its warnings.

    Raises:
        GmlmError: with every fault of the files, or because the file cannot be read.
    """
    source = read_source(path)
    checker = _Checker(Path(path).resolve().parent)
    checker.open.append(Path(path).resolve())
    checker.done.add(Path(path).resolve())
    checker.run(source)
    return checker.finish()
