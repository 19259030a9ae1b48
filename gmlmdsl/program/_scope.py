"""Names: what is declared, where it is visible, and the faults found so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .._diagnostics import Diagnostic, Fix, Span, did_you_mean, listed
from ..syntax import tree

# Kinds of symbol, and how a message calls them.
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
    "var": "a variable",
    "latent": "a latent variable",
    "given": "a given variable",
    "param": "a parameter",
    "let": "a `let`",
    "binder": "an index name",
    "block": "a block",
}
CELLS = ("var", "latent", "given")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A declared name; `value` is its checked declaration, None where that was faulty; `type` the kind of a `let`."""

    kind: str
    name: str
    span: Span
    value: object = None
    type: object = None


@dataclass(slots=True)
class Scope:
    """The names visible at one point of the text. `skipped` are identifiers in text that could not be parsed."""

    skipped: frozenset[str] = frozenset()
    later: dict[str, Span] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    program: dict[str, Symbol] = field(default_factory=dict)
    model: dict[str, Symbol] = field(default_factory=dict)
    binders: dict[str, Symbol] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)

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
        """Add a fault or warning."""
        self.diagnostics.append(Diagnostic(code, message, span, label, related, help, fix))

    def find(self, name: str) -> Symbol | None:
        """The visible symbol of that name."""
        return self.binders.get(name) or self.model.get(name) or self.program.get(name)

    def declare(self, kind: str, name: tree.Name, value: object = None, type: object = None) -> None:
        """Make a name visible; a name that is visible already is a fault, and its first meaning stays."""
        earlier = self.find(name.name)
        if earlier is not None:
            self._report_twice(kind, name, earlier)
            return
        symbol = Symbol(kind, name.name, name.span, value, type)
        if kind in (*CELLS, "param", "let"):
            self.model[name.name] = symbol
        elif kind in ("binder", "block"):
            self.binders[name.name] = symbol
        else:
            self.program[name.name] = symbol

    def _report_twice(self, kind: str, name: tree.Name, earlier: Symbol) -> None:
        place = ((earlier.span, f"first declared here, as {WORDS[earlier.kind]}"),)
        if kind == "binder":
            message = f"index name `{name.name}` hides {WORDS[earlier.kind]} of that name"
            self.report("E202", message, name.span, "choose another name", related=place, help="nothing may hide a visible name")
        else:
            message = f"`{name.name}` is declared twice"
            self.report("E201", message, name.span, "declared again here", related=place, help="rename one of the two")

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Index names declared inside are forgotten at the end."""
        outer = dict(self.binders)
        try:
            yield
        finally:
            self.binders = outer

    @contextmanager
    def inside(self, names: dict[str, Symbol]) -> Iterator[None]:
        """The names of a model are visible inside."""
        outer, self.model = self.model, names
        try:
            yield
        finally:
            self.model = outer

    def use(self, name: tree.Name, *kinds: str, wanted: str = "") -> Symbol | None:
        """The symbol a use refers to, if it has one of `kinds`; otherwise the fault is reported, an unknown name once."""
        symbol = self.find(name.name)
        if symbol is None:
            self._report_unknown(name, kinds)
            return None
        if kinds and symbol.kind not in kinds:
            wanted = wanted or " or ".join(WORDS[k] for k in kinds)
            message = f"`{name.name}` is {WORDS[symbol.kind]}, not {wanted}"
            self.report("E205", message, name.span, f"expected {wanted}", related=((symbol.span, "declared here"),))
            return None
        return symbol

    def _report_unknown(self, name: tree.Name, kinds: tuple[str, ...]) -> None:
        if name.name in self.skipped or name.name in self._reported:
            return
        self._reported.add(name.name)
        if name.name in self.later:
            place = ((self.later[name.name], "declared here"),)
            self.report(
                "E204", f"`{name.name}` is used before it is declared", name.span, "used here", related=place, help="move the declaration up"
            )
            return
        visible = [s.name for s in (*self.binders.values(), *self.model.values(), *self.program.values()) if not kinds or s.kind in kinds]
        near = did_you_mean(name.name, visible)
        fix = Fix(name.span, near) if near else None
        help = f"did you mean `{near}`?" if near else f"declared here are {listed(sorted(visible))}" if visible else "nothing is declared yet"
        self.report("E203", f"`{name.name}` is not declared", name.span, "not declared", help=help, fix=fix)

    def poison(self, name: str) -> None:
        """Report no fault about `name` any more: its declaration was faulty."""
        self._reported.add(name)
