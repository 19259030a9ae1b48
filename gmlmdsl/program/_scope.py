"""Manage names: their declarations, their visibility, and the faults found so far."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from .._diagnostics import Diagnostic, Fix, Span, did_you_mean, listed
from ..syntax import tree
from ._habits import SAME, foreign
from .limits import MOST_COMPARED

# The kinds of symbols, and their names in messages.
WORDS = {
    "input": "an input",
    "length": "a length",
    "domain": "a domain",
    "index": "an index set",
    "graph": "a graph",
    "network": "a network",
    "model": "a model",
    "mask": "a mask",
    "sampler": "a sampler",
    "judge": "a verifier or value",
    "var": "a variable",
    "latent": "a latent variable",
    "given": "a given variable",
    "param": "a parameter",
    "let": "a `let`",
    "binder": "an index name",
    "block": "a block",
    "function": "a function",
}
CELLS = ("var", "latent", "given")
GIVEN = "a network sees the other cells of what it predicts without being told: leave the name out; what comes with each row is `given`"
# The help for a name in place of a variable or of cells, by the kind of the name.
OF_CELLS = {
    "mask": "a mask draws a block, which has a name: `update K where K ~ {0}`",
    "param": "a parameter is fitted, not drawn: masks, updates and `sees` name variables; a weight may mention it as it is",
    "let": "a `let` follows from the cells that it names: name these",
    "graph": "blocks of neighbours are `{0}.edges`",
    "input": "an input is given: masks, updates and `sees` name variables",
}
DECLARES = (
    "input",
    "domain",
    "index",
    "graph",
    "network",
    "model",
    "mask",
    "sampler",
    "verifier",
    "value",
    *CELLS,
    "param",
    "let",
    "function",
)
LOCAL = ("binder", "block")


NOT_COMPARED = "so many names are declared and so many are not that no near name is sought for the rest"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A declared name.

    Attributes:
        kind: the kind of the declaration, a key of `WORDS`.
        name: the name.
        span: the place of the declaration.
        value: the checked declaration, or None if it has a fault.
        type: the kind of a `let`.
    """

    kind: str
    name: str
    span: Span
    value: object = None
    type: object = None

    @property
    def faulty(self) -> bool:
        """Whether the declaration was reported. Its uses are then not reported."""
        return self.value is None and self.kind != "length"


@dataclass(slots=True)
class Scope:
    """The names that are visible at one point of the text.

    Attributes:
        skipped: identifiers in text that could not be parsed. They may be declared there.
        incomplete: whether an import failed or a declaration has lost its name. Any name may be
            declared there.
    """

    skipped: frozenset[str] = frozenset()
    incomplete: bool = False
    # lines (path, number) with a syntax error
    broken: set[tuple[str, int]] = field(default_factory=set)
    later: dict[str, Span] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    program: dict[str, Symbol] = field(default_factory=dict)
    model: dict[str, Symbol] = field(default_factory=dict)
    binders: dict[str, Symbol] = field(default_factory=dict)
    # the parameters of the file
    parameters: dict[str, tree.Parameter] = field(default_factory=dict)
    # the statements of models, with models in use expanded
    texts: dict[str, tuple[tree.ModelStatement, ...]] = field(default_factory=dict)
    # names that are private to other models, with the last model that declares them
    private: dict[str, str] = field(default_factory=dict)
    # names declared just before a syntax error. Each may be two words without a space between them.
    torn: set[str] = field(default_factory=set)
    # the kind and name of the current declaration
    declaring: tuple[str, tree.Name] | None = None
    # names of models in use, with the model, or "" if it could not be copied
    in_use: dict[str, str] = field(default_factory=dict)
    # variables `a.x` of a model in use, with the text bound to them
    stands_for: dict[str, str] = field(default_factory=dict)
    coming: frozenset[str] = frozenset()  # index names of the loops after the current one
    untaken: int = 0  # the number of enclosing branches that may never be evaluated
    levels: int = 0  # the number of enclosing indices or bodies of a sampler
    looked_up: set[str] = field(default_factory=set)  # every name that the text uses
    compared: int = 0  # the number of comparisons of unknown names so far
    # unknown names, with the places of all their uses
    _reported: dict[str, dict[Span, None]] = field(default_factory=dict)
    _said: set[tuple[str, str]] = field(default_factory=set)

    def report(
        self,
        code: str,
        message: str,
        span: Span,
        label: str = "",
        *,
        help: str = "",
        related: tuple[tuple[Span, str], ...] = (),
        fix: Fix | None = None,
    ) -> None:
        """Add a fault or warning. A line with a syntax error gets no further diagnostics.

        Args:
            code: the code of the diagnostic.
            message: the message.
            span: the place.
            label: the label of the place.
            help: the help.
            related: further places, with their labels.
            fix: the suggested fix.
        """
        if self.broken and (span.source.path, span.source.position(span.start)[0]) in self.broken:
            return
        self.diagnostics.append(Diagnostic(code, message, span, label, related, help, fix))

    def find(self, name: str) -> Symbol | None:
        """Return the visible symbol of that name, or None."""
        self.looked_up.add(name)
        return self.binders.get(name) or self.model.get(name) or self.program.get(name)

    def declare(self, kind: str, name: tree.Name, value: object = None, type: object = None) -> None:
        """Make a name visible.

        A name that is already visible is a fault, and its uses are then not reported.

        Args:
            kind: the kind of the declaration.
            name: the name.
            value: the checked declaration, or None if it has a fault.
            type: the kind of a `let`.
        """
        earlier = self.binders.get(name.name) or self.model.get(name.name) or self.program.get(name.name)
        if earlier is not None:
            self.report_twice(kind, name, earlier)
            self.place(Symbol(kind, name.name, name.span) if kind in LOCAL else Symbol(earlier.kind, name.name, earlier.span))
            return
        self.place(Symbol(kind, name.name, name.span, None if self.is_broken(name.span) else value, type))

    def place(self, symbol: Symbol) -> None:
        """Add a symbol to the names of its kind."""
        if symbol.kind in (*CELLS, "param", "let"):
            self.model[symbol.name] = symbol
        elif symbol.kind in LOCAL:
            self.binders[symbol.name] = symbol
        else:
            self.program[symbol.name] = symbol

    def report_twice(self, kind: str, name: tree.Name, earlier: Symbol) -> None:
        """Report a name that hides a visible one, or is declared again.

        Args:
            kind: the kind of the declaration.
            name: the name.
            earlier: the symbol that is visible.
        """
        place = ((earlier.span, f"first declared here, as {WORDS[earlier.kind]}"),)
        if kind in LOCAL and earlier.kind == "length":
            if ("length", name.name) not in self._said:
                help = f"a name between the brackets of an input is that of its length: call it `n`, and `{name.name}` is free for an index"
                message = f"index name `{name.name}` hides the length of an input"
                self.report("E202", message, name.span, "hides a visible name", related=place, help=help)
            self._said.add(("length", name.name))
        elif kind in LOCAL:
            message = f"{WORDS[kind].split(' ', 1)[1]} `{name.name}` hides {WORDS[earlier.kind]} of that name"
            line = name.span.source.line(name.span.source.position(name.span.start)[0])
            taken = {*re.findall(r"\w+", line), *self.binders, *self.model, *self.program}
            free = next((n for n in ("KLBC" if kind == "block" else "ijklmn") if n not in taken), "")
            cure = f"choose another name, such as `{free}`" if free else "choose another name"
            self.report("E202", message, name.span, "hides a visible name", related=place, help=cure)
        else:
            message = f"`{name.name}` is declared twice"
            help = "rename one of the two"
            if earlier.kind == "length" and kind == "input":
                help = f"an array of length `{name.name}` declares it: leave this out, or move it above the array"
            self.report("E201", message, name.span, "declared again here", related=place, help=help)

    @contextmanager
    def level(self) -> Iterator[int]:
        """Enter one more level of indices or bodies, and yield the number of levels."""
        self.levels += 1
        try:
            yield self.levels
        finally:
            self.levels -= 1

    @contextmanager
    def declares(self, kind: str, name: tree.Name) -> Iterator[None]:
        """Enter a declaration, whose index names are those of its axes."""
        self.declaring = (kind, name)
        try:
            yield
        finally:
            self.declaring = None

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Enter a scope of index names, and remove its names at the end."""
        outer = dict(self.binders)
        try:
            yield
        finally:
            self.binders = outer

    @contextmanager
    def inside(self, names: dict[str, Symbol]) -> Iterator[None]:
        """Enter a scope in which the names of a model are visible."""
        outer, self.model = self.model, names
        try:
            yield
        finally:
            self.model = outer

    def use(self, name: tree.Name, *kinds: str, wanted: str = "") -> Symbol | None:
        """Return the symbol that a use refers to if it has one of `kinds`, else report the fault.

        An unknown name is reported once. `wanted` describes the expected kind in messages.
        """
        symbol = self.find(name.name)
        if symbol is None:
            self.report_unknown(name, *kinds, wanted=wanted)
            return None
        if symbol.faulty:
            return None
        if kinds and symbol.kind not in kinds:
            wanted = wanted or ("a variable" if set(kinds) <= set(CELLS) and len(kinds) > 1 else " or ".join(WORDS[k] for k in kinds))
            message = f"`{name.name}` is {WORDS[symbol.kind]}, not {wanted}"
            otherwise = _cure_of_kind(name.name, symbol.kind, kinds)
            help, fix = otherwise, None
            if self._may_compare():
                help, fix = self._suggestion(name, [n for n in self._visible(kinds) if n != name.name], otherwise)
            self.report("E205", message, name.span, f"expected {wanted}", related=((symbol.span, "declared here"),), help=help, fix=fix)
            return None
        return symbol

    def _visible(self, kinds: tuple[str, ...]) -> list[str]:
        return [s.name for s in (*self.binders.values(), *self.model.values(), *self.program.values()) if not kinds or s.kind in kinds]

    def report_unknown(
        self,
        name: tree.Name,
        *kinds: str,
        wanted: str = "",
        built_in: tuple[str, ...] = (),
        room: str = "name",
        axis: str = "",
        meant: str = "",
        otherwise: str = "",
    ) -> None:
        """Report a name that is not declared. Each name is reported once.

        Args:
            name: the name.
            kinds: the kinds of names that are expected.
            wanted: the description of the expected kind in messages.
            built_in: built-in names that are also expected.
            room: the group of foreign names that the name may belong to.
            axis: the set that the name indexes, if it is an index.
            meant: the text that certainly should replace the name, if known.
            otherwise: the help if no similar name is known.
        """
        torn = any(word.startswith(name.name) or word.endswith(name.name) for word in self.torn)
        if self.incomplete or torn or name.name in self.skipped or self.in_use.get(name.name.partition(".")[0]) == "":
            return
        meant = self.stands_for.get(name.name, meant)
        uses = self._reported.setdefault(name.name, {})
        uses[name.span] = None
        if len(uses) > 1:
            return
        if name.name in self.later:
            self._report_early(name, self.later[name.name])
            return
        if not self._may_compare():
            self.report("E203", f"`{name.name}` is not declared", name.span, "not declared", help=NOT_COMPARED)
            return
        help, fix = f"write `{meant}`", Fix(name.span, meant)
        if not meant:
            visible = [*self._visible(kinds), *built_in]
            known = self._index_help(name, axis) if axis else self._cell_help(name, visible)
            known = self._place_help(name) or known or otherwise or _declared(name, kinds, wanted, visible)
            help, fix = self._suggestion(name, visible, known, room)
        self.report("E203", f"`{name.name}` is not declared", name.span, "not declared", help=help, fix=fix)

    def _place_help(self, name: tree.Name) -> str:
        """Return a help on a name that is declared where it is not visible, or ""."""
        if name.name in self.coming:
            return f"axes and loops are read from left to right: put `{name.name} in ..` before this"
        if name.name in self.private:
            owner = self.private[name.name]
            return f"`{name.name}` belongs to model `{owner}`: the names of a model are private to it"
        return ""

    def _cell_help(self, name: tree.Name, visible: Collection[str]) -> str:
        """Return a help on a cell that is written `x_3`, or ""."""
        base, _, index = name.name.rpartition("_")
        return f"write `{base}[{index}]`: a cell has its index in brackets" if base in visible and index else ""

    def _index_help(self, name: tree.Name, axis: str) -> str:
        """Return a help on how to introduce an index name."""
        if self.declaring is None:
            return f"an index is named by a loop: write `for {name.name} in {axis}` behind the statement"
        kind, declared = self.declaring
        own = [s.name for s in self.binders.values()]
        if own:
            return f"the index names here are those of the axes of `{declared.name}`: {listed(own)}"
        return f"`{declared.name}` has no axes: `{kind} {declared.name}[{name.name} in {axis}]` has one, and an index name"

    def _may_compare(self) -> bool:
        """Return whether unknown names are still compared with others.

        Very many comparisons take long.
        """
        return self.compared < MOST_COMPARED

    def near(self, written: str, known: Collection[str]) -> str | None:
        """Return the most similar known word, or None.

        The result is None if no word is similar, or if too many words were compared already.
        """
        self.compared += len(known)
        return did_you_mean(written, known) if self.compared < MOST_COMPARED else None

    def _suggestion(self, name: tree.Name, known: Sequence[str], otherwise: str, room: str = "") -> tuple[str, Fix | None]:
        self.compared += len(known)
        return suggestion(name, known, otherwise, room)

    def told(self) -> Iterator[Diagnostic]:
        """Yield the faults found.

        An unknown name is reported once. The fix of this fault applies to all uses of the name.
        """
        for d in self.diagnostics:
            uses = self._reported.get(d.span.text, {}) if d.code == "E203" and d.span is not None else []
            also = tuple(s for s in uses if s != d.span and d.span is not None and s.source == d.span.source)
            yield replace(d, fix=replace(d.fix, also=also)) if d.fix is not None and d.fix.span == d.span and also else d

    def _report_early(self, name: tree.Name, declared: Span) -> None:
        place = ((declared, "declared here"),)
        if declared.start < name.span.start:
            message = f"`{name.name}` is used in its own declaration"
            help = "a name has its meaning after its declaration"
            if self.declaring is not None and self.declaring[0] == "param" and self.declaring[1].name == name.name:
                help = f"entries that depend on others have their prior in a statement: `{name.name}[t] ~ .. for t in .. if t > 0`"
            self.report("E204", message, name.span, "used here", related=place, help=help)
        else:
            message = f"`{name.name}` is used before it is declared"
            self.report("E204", message, name.span, "used here", related=place, help="move the declaration up")

    def mark_broken(self, span: Span) -> None:
        """Note that a line has a syntax error.

        The line gets no further diagnostics, and words on it may be declared names that were lost.
        """
        number = span.source.position(span.start)[0]
        line = span.source.line(number)
        self.broken.add((span.source.path, number))
        before = line[: span.source.position(span.start)[1] - 1]
        self.incomplete |= re.match(rf"\s*({'|'.join(DECLARES)})\b(?!\s+[A-Za-z_])", line) is not None
        torn = re.fullmatch(rf"\s*({'|'.join(DECLARES)})\s+(\w+)\s*\S?\s*", before)
        self.torn |= {torn[2]} if torn else set()

    def is_broken(self, span: Span) -> bool:
        """Return whether a syntax error lies on the lines of `span`."""
        if not self.broken:
            return False
        first, last = (span.source.position(place)[0] for place in (span.start, span.end))
        return any((span.source.path, line) in self.broken for line in range(first, last + 1))

    def lacks_network(self, model: str, span: Span) -> bool:
        """Return whether to report that a model has no `conditional`.

        It is reported once, and not if the model's text has a syntax error.
        """
        first = (model, "network") not in self._said
        self._said.add((model, "network"))
        return first and not self.is_broken(span)

    def is_whole(self) -> bool:
        """Return whether all text, and every declaration of the model, was read without a fault.

        Only then is a missing declaration a fault of its own.
        """
        return not (self.skipped or self.incomplete or self._reported or any(s.faulty for s in self.model.values()))


def _declared(name: tree.Name, kinds: tuple[str, ...], wanted: str, visible: Collection[str]) -> str:
    """Return which names are declared before this one, or how one of these kinds is declared."""
    if visible:
        return f"declared here are {listed(sorted(set(visible)))}"
    if kinds and set(kinds) <= {"input", "length", "binder"}:
        loop = "an index is named by a loop, `for i in site`; " if "binder" in kinds else ""
        return f"{loop}a number from outside is declared `input {name.name} : int = 4`"
    is_cells = kinds and set(kinds) <= set(CELLS)
    words = wanted or (WORDS[kinds[0]] if is_cells or len(kinds) == 1 else "a name")
    return f"no {words.split(' ', 1)[-1]} is declared before this"


def _cure_of_kind(name: str, kind: str, kinds: tuple[str, ...]) -> str:
    """Return the help for a name of one kind in place of another, or ""."""
    if kinds == ("given",) and kind in CELLS:
        return GIVEN
    if kinds == ("judge",) and kind == "model":
        return f"a model judges by a form: `verifier v = completable({name})`, `value v = expected({name})`"
    if kinds == ("mask",) and kind == "judge":
        return f"what judges strings guides a sampler of its own: `sampler s = rejection({name})`"
    if kinds == ("sampler",) and kind == "mask":
        return f"a sampler is made of updates: `sampler s {{ update K where K ~ {name} }}`"
    return OF_CELLS.get(kind, "").format(name) if set(kinds) <= set(CELLS) else ""


def suggestion(name: tree.Name, known: Iterable[str], otherwise: str, room: str = "") -> tuple[str, Fix | None]:
    """Return the help for a misspelt name, and a fix if a similar name is known.

    Args:
        name: the misspelt name.
        known: the names that are expected.
        otherwise: the help if no similar name is known.
        room: the group of foreign names that the name may belong to.
    """
    help, here = foreign(room, name.name) if room else ("", "")
    if help:
        return help, Fix(name.span, here, guess=name.name not in SAME) if here else None
    near = did_you_mean(name.name, known)
    return (f"did you mean `{near}`?", Fix(name.span, near, guess=near.lower() != name.name.lower())) if near else (otherwise, None)
