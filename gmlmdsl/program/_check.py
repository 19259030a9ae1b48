"""Check a whole program: its declarations in order, and its imports.

Some faults are reported only at the end of the text. A suggested fix is kept only if a trial
succeeds: after the fix, the fault that it mends is absent, and no new fault is present.

The text may also come from a caller instead of a file, and an expression may be added to it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from .._diagnostics import Diagnostic, GmlmError, Source, Span, fail, in_text_order, listed
from ..syntax import Texts, parse_with_errors, read_source, tree
from . import _calls as _calls  # registers the rules for calls and names
from . import _forms as forms
from . import _references as _references
from ._allow import Allowance, apply_allowances, idle_allowances, read_allowances
from ._arguments import check_arguments, find_form
from ._check_guided import check_judge
from ._check_masks import check_mask
from ._check_models import check_model
from ._check_networks import check_network
from ._check_samplers import check_sampler
from ._expressions import CONSTANT, check_label, check_number, known_number, quoted
from ._lints import lint
from ._mask_bodies import Mask
from ._program import Input, InputAxis, Judge, Let, Model, Program, Sampler, ValueType
from ._scope import Scope, Symbol
from ._sets import check_clauses, check_loops, check_set, check_size
from ._tables import check_rows_sum, check_table
from ._terms import Expression, FormCall, SetOf
from ._types import check_domain, check_type
from .limits import MOST_FILES, MOST_TRIED, OF_A_FAULT

Check = Callable[[Source], Program]
Found = Sequence[Diagnostic]
ParsedText = tuple[tree.SyntaxTree, tuple[Diagnostic, ...], frozenset[str]]
KINDS = ("input", "domain", "index", "graph", "network", "model", "mask", "sampler", "judge")
NAME = "observed"


class _Checker:
    """The state of one check: the scope, the private names of the models, and the files read."""

    def __init__(self, root: Path | None, texts: Texts = None):
        self.root, self.texts = root, texts
        self.scope = Scope()
        self.private: dict[str, dict[str, Symbol]] = {}
        self.sources: list[Source] = []
        # the open files, and their paths as messages show them
        self.open: list[tuple[Path, str]] = []
        self.done: set[Path] = set()
        # the names of masks, samplers, verifiers and values without `for MODEL`
        self.implicit: list[tree.Name] = []
        self.met_model = False
        self.lengths: dict[str, tuple[str, int]] = {}
        self.declared: dict[str, dict[str, object]] = {kind: {} for kind in KINDS}
        self.allowances: list[Allowance] = []

    def run(self, source: Source, parsed_text: ParsedText | None = None) -> None:
        """Check one file. An imported file is checked at the position of its import."""
        self.sources.append(source)
        parsed, errors, skipped = parsed_text or parse_with_errors(source.text, source.path)
        self.scope.diagnostics += errors
        self.scope.skipped |= skipped
        for d in errors:
            if d.span is not None:
                self.scope.mark_broken(d.span)
        for comment in read_allowances(parsed):
            (self.allowances if isinstance(comment, Allowance) else self.scope.diagnostics).append(comment)  # pyright: ignore[reportArgumentType]
        outer, self.scope.later = self.scope.later, _names_of(parsed.statements)
        for statement in parsed.statements:
            with self.scope.nested():
                self.statement(statement)
        self.scope.later = outer

    def statement(self, s: tree.Statement) -> None:
        """Check one declaration and make its name visible.

        A faulty declaration is visible without a value.
        """
        match s:
            case tree.Import():
                self.import_file(s)
            case tree.Input() | tree.Parameter() | tree.Function():
                self.shared(s)
            case tree.Domain():
                self.declare("domain", s.name, self.domain(s))
            case tree.IndexSet() | tree.ChosenSet():
                self.declare("index", s.name, self.index_set(s))
            case tree.Graph():
                self.declare("graph", s.name, self.form(s.form, "graph"))
            case tree.Network():
                self.declare("network", s.name, check_network(s.form, self.scope))
            case tree.Model():
                self.model(s)
            case tree.Mask():
                self.with_model("mask", s, check_mask)
            case tree.Sampler() | tree.Judge():
                self.with_model(*(("sampler", s, check_sampler) if isinstance(s, tree.Sampler) else ("judge", s, check_judge)))

    def declare(self, kind: str, name: tree.Name, value: object) -> None:
        """Add a declaration to the scope and, if it has no fault, to the program."""
        binders, self.scope.binders = self.scope.binders, {}
        before = len(self.scope.diagnostics)
        self.scope.declare(kind, name, value)
        self.scope.binders = binders
        self.scope.later.pop(name.name, None)
        if len(self.scope.diagnostics) == before and value is not None:
            self.declared[kind][name.name] = value

    def input(self, s: tree.Input) -> Input | None:
        before = len(self.scope.diagnostics)
        axes = tuple(self.axis(s.name.name, k, e) for k, e in enumerate(s.axes))
        type_ = check_type(s.type, self.scope, s.span, inputs=True)
        default = None if s.default is None else self.default(s, s.default, axes, type_)
        if type_ is not None and type_.kind == "simplex" and not axes:
            help = f"for example `input {s.name.name}[3] : simplex`"
            self.scope.report("E322", "a simplex needs an axis: its entries along the last one sum to 1", s.name.span, "no axis", help=help)
        good = tuple(a for a in axes if a is not None)
        if type_ is None or len(good) < len(axes) or len(self.scope.diagnostics) > before:
            return None
        return Input(s.span, s.name.name, good, type_, default)

    def default(self, s: tree.Input, e: tree.Expression, axes: tuple[InputAxis | None, ...], type_: ValueType | None) -> Expression | None:
        """Check the default of an input: one value for all entries, or a list for each axis."""
        if not isinstance(e, tree.List):
            return self.entry(e, type_)
        table = check_table(e, axes, lambda item: self.entry(item, type_), s.name.name, self.scope)
        if table is not None and type_ is not None and type_.kind == "simplex":
            check_rows_sum(table, self.scope)
        return table

    def entry(self, e: tree.Expression, type_: ValueType | None) -> Expression | None:
        """Check one entry of a default: a number, or a value of the input's domain."""
        if isinstance(e, tree.String) and (type_ is None or (type_.domain is not None and not type_.domain.ordered)):
            return None if type_ is None or type_.domain is None else check_label(e, type_.domain, self.scope)
        if type_ is not None and self.is_odd_entry(e, type_):
            return None
        value = check_number(e, self.scope, CONSTANT, integer=type_ is not None and type_.kind in ("int", "domain"))
        number = known_number(value)
        if type_ is not None and type_.kind == "positive" and number is not None and number <= 0:
            message, help = f"the default of a positive input is above 0, found {number}", "declare it `real` where it may be 0 or less"
            self.scope.report("E319", message, e.span, "not above 0", help=help)
        return value

    def is_odd_entry(self, e: tree.Expression, type_: ValueType) -> bool:
        """Report an entry of the wrong kind, and return whether it is one.

        The reported entries are:

        - a string in place of a number
        - a label without quotes
        - a number that is not a value of the input's domain
        """
        domain = type_.domain
        if isinstance(e, tree.String):
            help = "write a number" if domain is None else f"its values are numbers, as those of `{domain.span.text}`"
            self.scope.report("E216", f"this input is `{type_.span.text}`, its value is not a string", e.span, "a string", help=help)
            return True
        if isinstance(e, tree.Name) and domain is not None and e.name in domain.labels and self.scope.find(e.name) is None:
            self.scope.report_unknown(e, meant=quoted(e.name))
            return True
        written = e.operand if isinstance(e, tree.Unary) and e.operator == "-" else e
        values = {"spin": (-1, 1), "bit": (0, 1)}.get(domain.kind) if domain is not None else None
        if values is None or not isinstance(written, tree.Number):
            return False
        number = written.value if written is e else -written.value
        if number not in values:
            help = f"a {domain.kind} is {values[0]} or {values[1]}"  # type: ignore[union-attr]
            self.scope.report("E319", f"{number} is not a value of `{type_.span.text}`", e.span, "not a value", help=help)
        return number not in values

    def axis(self, name: str, k: int, e: tree.Expression | tree.Loop) -> InputAxis | None:
        """Check one axis of an input.

        An axis is one of:

        - a size
        - a set, with or without a name for its members
        - a new name for the length of the axis
        """
        if isinstance(e, tree.Loop):
            loops = check_loops((e,), self.scope)
            if loops is not None and loops[0].over.is_dependent:
                help = "make it a rectangle, with any number where nothing is read; "
                help += f"or declare `given {name}[..]` in the model, whose rows may differ"
                self.scope.report("E403", "an input is a rectangle, and the length of this axis varies", e.span, "varies", help=help)
                return None
            return None if loops is None else InputAxis(e.span, over=loops[0].over)
        if isinstance(e, tree.Name):
            symbol = self.scope.find(e.name)
            if symbol is None and (e.name in self.scope.skipped or self.scope.incomplete):
                return None
            if symbol is None:
                self.scope.declare("length", e)
                self.scope.looked_up.discard(e.name)
                self.scope.later.pop(e.name, None)
                self.lengths[e.name] = (name, k)
                return InputAxis(e.span, name=e.name)
            if symbol.kind in ("index", "domain"):
                return self.axis_over(e)
        if isinstance(e, tree.Attribute) or (isinstance(e, tree.Call) and e.function.name == "range"):
            return self.axis_over(e)
        size = check_size(e, self.scope)
        return None if size is None else InputAxis(e.span, size=size)

    def axis_over(self, e: tree.Expression) -> InputAxis | None:
        over = check_set(e, self.scope)
        return None if over is None else InputAxis(e.span, over=over)

    def domain(self, s: tree.Domain) -> object:
        domain = check_domain(s.type, self.scope)
        return None if domain is None else replace(domain, span=s.name.span, name=s.name.name)

    def index_set(self, s: tree.IndexSet | tree.ChosenSet) -> object:
        if isinstance(s, tree.ChosenSet):
            return self.chosen_set(s)
        over = check_set(s.over, self.scope)
        return None if over is None else replace(over, span=s.name.span, name=s.name.name)

    def chosen_set(self, s: tree.ChosenSet) -> SetOf | None:
        """Check a set with a condition, as in `index core = i in G.nodes if G.degree(i) >= 2`."""
        clauses = check_clauses(tree.Clauses(s.span, (s.loop,), s.condition), s.span, self.scope)
        return SetOf(s.name.span, "turns", s.name.name, clauses=clauses) if clauses.loops else None

    def form(self, call: tree.Call, room: str) -> FormCall | None:
        form = find_form(call, room, self.scope)
        arguments = None if form is None else check_arguments(call, form, self.scope)
        return None if form is None or arguments is None else FormCall(call.span, form, arguments)

    def shared(self, s: tree.Input | tree.Parameter | tree.Function) -> None:
        """Check a declaration that models share: inputs, parameters or a function."""
        if isinstance(s, tree.Function):
            self.function(s)
            return
        for one in tree.singly(s):
            with self.scope.nested():
                if isinstance(one, tree.Input):
                    self.declare("input", one.name, self.input(one))
                else:
                    self.parameter(one)

    def function(self, s: tree.Function) -> None:
        """Check and declare a function. Names in its expression are checked at its calls."""
        names = [p.name for p in s.parameters]
        twice = next((p for k, p in enumerate(s.parameters) if p.name in names[:k]), None)
        calls = next((n for n in tree.names_in(s.value) if n.name == s.name.name), None)
        if twice is not None:
            self.scope.report("E201", f"`{twice.name}` is declared twice", twice.span, "declared again here", help="rename one of the two")
        if calls is not None:
            message, help = f"function `{s.name.name}` calls itself", "functions are written out where they are called: none is recursive"
            self.scope.report("E204", message, calls.span, "used here", related=((s.name.span, "declared here"),), help=help)
        if forms.form("function", s.name.name) is not None:
            message = f"`{s.name.name}` is a function of the language"
            self.scope.report("E201", message, s.name.span, "built in", help="choose another name")
            return
        self.scope.declare("function", s.name, None if twice or calls else s)

    def parameter(self, s: tree.Parameter) -> None:
        """Declare a parameter of the file. Each model that names it has a parameter of its own."""
        name = s.name.name
        earlier = self.scope.program.get(name)
        if earlier is not None:
            self.scope.report_twice("param", s.name, earlier)
            return
        self.scope.program[name] = Symbol("param", name, s.name.span, s)
        self.scope.parameters[name] = s
        self.scope.later.pop(name, None)

    def model(self, s: tree.Model) -> None:
        self.met_model = True
        outer, self.scope.later = self.scope.later, {**self.scope.later, **_own_names(s)}
        with self.scope.inside({}):
            checked = check_model(s, self.scope)
            self.private[s.name.name] = self.scope.model
        self.scope.later = outer
        self.scope.private |= dict.fromkeys(self.private[s.name.name], s.name.name)
        self.declare("model", s.name, checked)
        for mask in (x for x in s.body if isinstance(x, tree.Mask)):
            with self.scope.nested():
                self.with_model("mask", replace(mask, model=mask.model or s.name), check_mask)

    def with_model(self, kind: str, s: tree.Mask | tree.Sampler | tree.Judge, check: object) -> None:
        """Check a mask, sampler, verifier or value in the scope of its model."""
        model = self.model_of(s.kind if isinstance(s, tree.Judge) else kind, s)
        value: Mask | Sampler | Judge | None = None
        if model is not None:
            with self.scope.inside(self.private[model.name]):
                value = check(s, model, self.scope)  # type: ignore[operator]
        self.declare(kind, s.name, value)

    def model_of(self, kind: str, s: tree.Mask | tree.Sampler | tree.Judge) -> Model | None:
        if s.model is not None:
            symbol = self.scope.use(s.model, "model")
            return symbol.value if symbol is not None and isinstance(symbol.value, Model) else None
        models = [v for v in self.scope.program.values() if v.kind == "model"]
        if not models and not (self.met_model or self.scope.skipped or self.scope.incomplete):
            self.met_model = True  # The fault is reported once.
            self.scope.report(
                "E304", f"no model is declared before this {kind}", s.name.span, "of which model?", help="declare or import one first"
            )
        self.implicit.append(s.name)
        only = models[0].value if len(models) == 1 else None
        return only if isinstance(only, Model) else None

    def report_ambiguous(self) -> None:
        """Report E304 if declarations leave `for MODEL` out and the program has several models.

        One diagnostic lists all places.
        """
        models = [v.name for v in self.scope.program.values() if v.kind == "model"]
        if len(models) < 2 or not self.implicit:
            return
        first, *others = self.implicit
        message = f"the program has the models {listed(models)}: `{first.name}` must say which"
        places = tuple((n.span, "likewise") for n in others[:8])
        help = f"write `{first.name} for {models[0]}`"
        self.scope.report("E304", message, first.span, "of which model?", related=places, help=help)

    def import_file(self, s: tree.Import) -> None:
        fault = self.read_import(s)
        if fault is not None:
            message, label, help = fault
            self.scope.report("E315", message, s.path.span, label, help=help)
            self.scope.incomplete = True

    def read_import(self, s: tree.Import) -> tuple[str, str, str] | None:
        """Check the file that an import names.

        Return the message, label and help of a fault, or None.
        """
        if self.root is None:
            return "a program given as a string has no folder: imports work in files only", "cannot import here", "use `gm.load(path)`"
        name, (importer, shown) = s.path.value, self.open[-1]
        try:
            path = None if "\0" in name or Path(name).is_absolute() else (importer.parent / name).resolve()
        except (OSError, RuntimeError, ValueError):
            path = None
        if path is None or not path.is_relative_to(importer.parent):
            return "an import lies outside the folder of its file", "outside", "a program imports only files below its own folder"
        if any(path == p for p, _ in self.open):
            return "this import closes a loop", "imports itself", "move what both files need into a third"
        if path in self.done:
            return None
        if len(self.done) >= MOST_FILES:
            return f"a program has at most {MOST_FILES} files", "one too many", ""
        try:
            source = read_source(path, piped=False, texts=self.texts)
        except GmlmError as error:
            reason = error.diagnostics[0]
            help = reason.help if "current folder" not in reason.help else "the path is read from the folder of the file that imports"
            return reason.message.replace(f"`{path}`", "the imported file"), "cannot be imported", help
        self.done.add(path)
        below = str(Path(shown).parent / name)
        self.open.append((path, below))
        self.run(Source(below, source.text))
        self.open.pop()
        return None

    def program(self, source: Source, parsed: ParsedText | None = None) -> Program:
        """Return the program of a file, or raise one error with all diagnostics."""
        self.run(source, parsed)
        self.report_ambiguous()
        errors = in_text_order(x for x in self.scope.told() if x.severity == "error")
        if errors:
            raise GmlmError(errors)
        inputs, *rest = (self.declared[kind] for kind in KINDS)
        program = Program(tuple(self.sources), inputs, self.lengths, *rest)  # type: ignore[arg-type]
        found = (*self.scope.diagnostics, *lint(program, self.scope.looked_up))
        warnings = (*apply_allowances(found, self.allowances), *idle_allowances(found, self.allowances))
        return replace(program, warnings=in_text_order(warnings), allowances=tuple(self.allowances))


def _own_names(s: tree.Model) -> dict[str, Span]:
    return _names_of([x for x in s.body if isinstance(x, tree.Variable | tree.Parameter | tree.Let)])


def _names_of(statements: Sequence[tree.Statement | tree.ModelStatement]) -> dict[str, Span]:
    """Return the names that statements declare, with their places."""
    named = [x for s in statements for x in (s, *getattr(s, "also", ())) if not isinstance(s, tree.Import)]
    return {x.name.name: x.name.span for x in named}  # type: ignore[union-attr]


def check_source(source: Source) -> Program:
    """Check a text without imports.

    Returns:
        The checked program, with its warnings.

    Raises:
        GmlmError: if the text has faults. The error contains all of them.
    """
    if not isinstance(source.text, str):
        raise fail("E507", f"the text of a program is a string, got {type(source.text).__name__}", help="`gm.load(path)` reads a file")
    if source.text.endswith(".gmlm") and len(source.text.split()) == 1:
        message = f"`parse` takes the text of a program, got the name `{source.text}`"
        raise fail("E507", message, help=f"`gm.load({source.text!r})` reads the file")
    return with_clean_fixes(lambda source: _Checker(None).program(source), source)


def check_file(path: str | Path, text: str | None = None) -> Program:
    """Check a file and its imports.

    Args:
        path: the file.
        text: the text of the file, if it is not yet written to disk.

    Returns:
        The checked program, with its warnings.

    Raises:
        GmlmError: if the files have faults, or if a file cannot be read. The error contains all
            faults.
    """
    if type(path) is str and "{" in path and not (path.endswith(".gmlm") or os.path.exists(path)):
        raise fail("E507", "`load` takes a file's name, got a program", help="`gm.parse(text)`")
    source = read_source(path) if text is None else Source(str(path), text)
    return with_clean_fixes(checker_of(path), source)


def checker_of(path: str | Path, parsed: ParsedText | None = None, texts: Texts = None) -> Check:
    """Return the function that checks a text as that of a file, with its imports.

    The function raises `GmlmError` with all faults. Their fixes are not tried.

    Args:
        path: the file.
        parsed: the result of `parse_with_errors` for one text of the file, if it is known.
        texts: the texts that are used instead of those on disk.
    """

    def run(source: Source) -> Program:
        real = Path(path).resolve()
        checker = _Checker(real.parent, texts)
        checker.open.append((real, str(path)))
        checker.done.add(real)
        is_known = parsed is not None and parsed[0].span.source == source
        return checker.program(source, parsed if is_known else None)

    return run


def with_clean_fixes(check: Check, source: Source) -> Program:
    """Check a program. If it has faults, keep only the fixes that mend a fault and introduce none.

    Args:
        check: the check.
        source: the text.

    Returns:
        The checked program.

    Raises:
        GmlmError: if the program has faults. The error contains all of them.
    """
    try:
        return check(source)
    except GmlmError as error:
        found = error.diagnostics
        raise GmlmError([*clean_fixes(check, source, found, found)]) from None


def clean_fixes(check: Check, source: Source, found: Found, tried: Found) -> Iterator[Diagnostic]:
    """Yield faults of a text, with only those fixes that mend a fault and introduce none.

    Args:
        check: the check that found the faults.
        source: the text.
        found: all its faults.
        tried: the faults to yield.
    """
    spare = MOST_TRIED
    for d in tried:
        if d.fix is not None:
            spare -= len(source.text) + OF_A_FAULT * len(found)
            is_clean = spare >= 0 and d.fix.span.source == source and _is_clean(check, source, d, found)
            d = d if is_clean else replace(d, fix=None)
        yield d


def _is_clean(check: Check, source: Source, d: Diagnostic, found: Found) -> bool:
    assert d.fix is not None
    after: Counter[tuple[str, str]] = Counter()
    try:
        check(Source(source.path, d.fix.applied(source.text)))
    except GmlmError as error:
        after = Counter(map(_key, error.diagnostics))
    before = Counter(map(_key, found))
    return after <= before and after[_key(d)] < before[_key(d)]


def _key(d: Diagnostic) -> tuple[str, str]:
    return d.code, d.message


def added_let(program: Program, model: str, expression: str) -> Let:
    """Return an expression as a `let` without axes at the end of a model.

    The texts of the program, as they were read, are checked again with the `let` in them.

    Args:
        program: the checked program.
        model: the name of the model.
        expression: an expression of the language, such as `sum(x[i] for i in site)`.

    Raises:
        GmlmError: the faults of the expression, each at its place in it; E507 for a text that is
            more than one expression.
    """
    span = program.models[model].span
    source, end, name = span.source, span.end - 1, NAME
    while any(name in s.text for s in program.sources):
        name += "_"
    before = f"{source.text[:end]}\n  let {name} = "
    texts = {s.path: s.text for s in program.sources}
    texts[source.path] = f"{before}{expression}\n{source.text[end:]}"
    try:
        found = checked_texts(texts).models[model]
    except GmlmError as error:
        raise within(error, expression, len(before)) from None
    old = program.models[model]
    let = found.lets.get(name)
    same = all(
        len(getattr(found, part)) == len(getattr(old, part)) for part in ("variables", "parameters", "factors", "requires", "distributed")
    )
    if let is None or not same or len(found.lets) != len(old.lets) + 1:
        raise fail("E507", "observe: an expression is expected, this is more than one", help=f"the text: {expression!r:.100}")
    return let


def of_added(error: GmlmError, let: Let, expression: str) -> GmlmError:
    """Return a fault that is found when a `let` is lowered, at its place in the expression."""
    return within(
        error, expression, let.span.text.find(expression) + let.span.start if expression in let.span.text else let.value.span.start
    )


def within(error: GmlmError, expression: str, start: int) -> GmlmError:
    """Return diagnostics of a text at their places in the expression that begins at an offset of it.

    Diagnostics elsewhere keep their places.
    """
    return GmlmError([_moved(d, expression, start) for d in error.diagnostics])


def _moved(d: Diagnostic, expression: str, start: int) -> Diagnostic:
    if d.span is None or not start <= d.span.start <= start + len(expression):
        return replace(d, fix=None)
    first, last = (min(at - start, len(expression)) for at in (d.span.start, d.span.end))
    return Diagnostic(d.code, d.message, Span(Source("<observe>", expression), first, max(first, last)), d.label, (), d.help)


def checked_texts(files: dict[str, str]) -> Program:
    """Return the checked program of the texts of its files.

    Args:
        files: the texts by path. The main file is the first one, and its imports find the others.

    Raises:
        GmlmError: if the texts have faults. E520 is raised for a file outside the main file's
            folder, or a file that no folder can contain.
    """
    import tempfile

    main = next(iter(files))
    if len(files) == 1:
        return check_source(Source(main, files[main]))
    with tempfile.TemporaryDirectory() as folder:
        try:
            _write_texts(files, Path(folder).resolve())
        except (OSError, ValueError) as error:
            raise fail("E520", f"the saved program has files that no folder can hold: {error}") from None
        return check_file(Path(folder) / Path(main).name)


def _write_texts(files: dict[str, str], folder: Path) -> None:
    """Write the texts as files of a folder. Their paths relative to the main file are kept."""
    root = Path(next(iter(files))).parent
    for path, text in files.items():
        inside = Path(path)
        inside = inside.relative_to(root) if inside.is_relative_to(root) else Path(inside.name)
        target = (folder / inside).resolve()
        if not target.is_relative_to(folder):
            raise fail("E520", f"the saved program has a file outside its folder: {path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
