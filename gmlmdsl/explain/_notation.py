"""Notations for mathematics: Unicode text and LaTeX.

The parts that a method takes are already written in the notation.

The cells of a model are written by their variable, or all by one letter.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from ..program import OPERATORS, ir

GREEK = {
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"),
    *("nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
}
HARD_SPACE = "\u00a0"  # no line is broken at this space
_MARK = "\x1f"  # marks a formula within words until the words are written
SYMBOLS = {"==": "=", "!=": "≠", "<=": "≤", ">=": "≥", "-": "−", "*": "·", "neg": "−"}
_LATEX_OPERATORS = {
    "==": "=",
    "!=": r"\neq",
    "<=": r"\leq",
    ">=": r"\geq",
    "and": r"\land",
    "or": r"\lor",
    "not": r"\lnot",
    "mod": r"\bmod",
    "*": r"\cdot",
}
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_MATHS = {"−": "$-$", "∈": r"$\in$", "∋": r"$\ni$", "·": r"$\cdot$"}


class Notation(ABC):
    """A way to write formulas."""

    times: str
    minus: str

    @abstractmethod
    def name(self, text: str) -> str:
        """Return the name of a variable, parameter, index or set."""

    @abstractmethod
    def entry(self, name: str, indices: Sequence[str]) -> str:
        """Return an array at some indices."""

    @abstractmethod
    def label(self, text: str) -> str:
        """Return a letter or label."""

    @abstractmethod
    def operator(self, symbol: str) -> str:
        """Return a relation, or `and`, `or`, `not`, with its spaces."""

    @abstractmethod
    def parens(self, text: str) -> str:
        """Return a formula in parentheses."""

    @abstractmethod
    def fraction(self, above: str, below: str) -> str:
        """Return a quotient.

        If quotients are written on one line, the caller brackets the parts.
        """

    def product(self, left: str, right: str) -> str:
        """Return the product of two factors."""
        return self.times.join((left, right))

    @abstractmethod
    def power(self, base: str, exponent: str) -> str:
        """Return a power."""

    @abstractmethod
    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Return a function of numbers."""

    @abstractmethod
    def indicator(self, condition: str) -> str:
        """Return the indicator of a condition: 1 if it holds, else 0."""

    @abstractmethod
    def choice(self, test: str, yes: str, no: str) -> str:
        """Return one of two values by a test."""

    @abstractmethod
    def over(self, sign: str, range_: str, body: str) -> str:
        """Return a sum or product over a range; `sign` is sum or prod.

        Without a range the result is the body alone.
        """

    @abstractmethod
    def members(self, names: Sequence[str], set_: str) -> str:
        """Return `i ∈ S`."""

    @abstractmethod
    def such_that(self, range_: str, condition: str) -> str:
        """Return a range with a condition."""

    @abstractmethod
    def sub(self, name: str, below: str) -> str:
        """Return a name with a subscript."""

    @abstractmethod
    def given(self, function: str, left: str, right: str = "") -> str:
        """Return `p(left | right)`."""

    @abstractmethod
    def block(self, cells: Sequence[str]) -> str:
        """Return a set of cells."""

    @abstractmethod
    def union(self, block: str, more: str) -> str:
        """Return the subscript of a block with more cells."""

    @abstractmethod
    def touches(self, cells: Sequence[str]) -> str:
        """Return the condition that K contains one of some cells.

        Without cells it is the condition that the term touches K.
        """

    @abstractmethod
    def prose(self, text: str) -> str:
        """Return words, with code in backticks."""

    @abstractmethod
    def inline(self, formula: str) -> str:
        """Return a short formula within words, which stays on one line."""

    @abstractmethod
    def either(self, plain: str, latex: str) -> str:
        """Return `plain` in plain text, or `latex` in LaTeX."""

    @property
    @abstractmethod
    def one_line(self) -> bool:
        """Whether quotients are written on one line, so that their parts need parentheses."""


class Unicode(Notation):
    """Unicode text for a terminal."""

    times = "·"
    minus = "−"

    def name(self, text: str) -> str:
        return text

    def entry(self, name: str, indices: Sequence[str]) -> str:
        return f"{name}[{', '.join(indices)}]" if indices else name

    def label(self, text: str) -> str:
        return f'"{text}"'

    def operator(self, symbol: str) -> str:
        return f" {SYMBOLS.get(symbol, symbol)} "

    def parens(self, text: str) -> str:
        return f"({text})"

    def fraction(self, above: str, below: str) -> str:
        return f"{above} / {below}"

    def power(self, base: str, exponent: str) -> str:
        return f"{base}^{exponent}"

    def call(self, function: str, arguments: Sequence[str]) -> str:
        if function == "abs":
            return f"|{arguments[0]}|"
        if function == "floor":
            return f"⌊{arguments[0]}⌋"
        operator = OPERATORS.get(function)
        return f"{(operator and operator.unicode) or function}({', '.join(arguments)})"

    def indicator(self, condition: str) -> str:
        return f"1{{{condition}}}"

    def choice(self, test: str, yes: str, no: str) -> str:
        return f"({yes} if {test}, else {no})"

    def over(self, sign: str, range_: str, body: str) -> str:
        return f"{'∑' if sign == 'sum' else '∏'}{{{range_}}} {body}" if range_ else body

    def members(self, names: Sequence[str], set_: str) -> str:
        return f"{names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} ∈ {set_}"

    def such_that(self, range_: str, condition: str) -> str:
        return f"{range_} : {condition}"

    def sub(self, name: str, below: str) -> str:
        return f"{name}_{below}"

    def given(self, function: str, left: str, right: str = "") -> str:
        return f"{function}({left} | {right})" if right else f"{function}({left})"

    def block(self, cells: Sequence[str]) -> str:
        return "{" + ", ".join(cells) + "}"

    def union(self, block: str, more: str) -> str:
        return f"{{{block} ∪ {more}}}"

    def touches(self, cells: Sequence[str]) -> str:
        return f"K ∋ {' or '.join(cells)}" if cells else "it touches K"

    def prose(self, text: str) -> str:
        return text

    def inline(self, formula: str) -> str:
        return formula.replace(" ", HARD_SPACE)

    def either(self, plain: str, latex: str) -> str:
        return plain

    @property
    def one_line(self) -> bool:
        return True


def latex_text(text: str) -> str:
    """Return text in which the special characters of LaTeX are escaped."""
    return re.sub(r"[\\~^&%$#_{}]", lambda m: _SPECIAL.get(m[0], "\\" + m[0]), text)


def _latex_of_part(part: str) -> str:
    """Return the LaTeX of a formula, a piece of code in backticks, or words."""
    if part.startswith(_MARK):
        return f"${part.strip(_MARK)}$"
    code = re.fullmatch("`([^`]+)`", part)
    text = f"\\texttt{{{latex_text(code[1])}}}" if code else latex_text(part)
    return "".join(_MATHS.get(c, c) for c in text)


class Latex(Notation):
    """LaTeX for a paper."""

    times = r" \, "
    minus = "-"

    def name(self, text: str) -> str:
        if text in GREEK:
            return f"\\{text}"
        return text if len(text) == 1 else f"\\mathrm{{{latex_text(text)}}}"

    def entry(self, name: str, indices: Sequence[str]) -> str:
        return f"{name}_{{{', '.join(indices)}}}" if indices else name

    def label(self, text: str) -> str:
        return f"\\text{{{latex_text(text)}}}"

    def operator(self, symbol: str) -> str:
        return f" {_LATEX_OPERATORS.get(symbol, symbol)} "

    def parens(self, text: str) -> str:
        return f"\\left({text}\\right)"

    def fraction(self, above: str, below: str) -> str:
        return f"\\frac{{{above}}}{{{below}}}"

    def product(self, left: str, right: str) -> str:
        return f"{left} \\cdot {right}" if right[:1].isdigit() else super().product(left, right)

    def power(self, base: str, exponent: str) -> str:
        return f"{{{base}}}^{{{exponent}}}"

    def call(self, function: str, arguments: Sequence[str]) -> str:
        inside = ", ".join(arguments)
        match function:
            case "sqrt":
                return f"\\sqrt{{{inside}}}"
            case "abs":
                return f"\\left|{inside}\\right|"
            case "floor":
                return f"\\left\\lfloor {inside} \\right\\rfloor"
        operator = OPERATORS.get(function)
        name = (operator and operator.latex) or f"\\operatorname{{{latex_text(function)}}}"
        return f"{name}\\left({inside}\\right)"

    def indicator(self, condition: str) -> str:
        return f"\\mathbf{{1}}\\{{{condition}\\}}"

    def choice(self, test: str, yes: str, no: str) -> str:
        return f"\\begin{{cases}} {yes} & \\text{{if }} {test} \\\\ {no} & \\text{{else}} \\end{{cases}}"

    def over(self, sign: str, range_: str, body: str) -> str:
        return f"\\{sign}_{{{range_}}} {body}" if range_ else body

    def members(self, names: Sequence[str], set_: str) -> str:
        return f"{names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} \\in {set_}"

    def such_that(self, range_: str, condition: str) -> str:
        return f"{range_} \\,:\\, {condition}"

    def sub(self, name: str, below: str) -> str:
        return f"{name}_{{{below}}}"

    def given(self, function: str, left: str, right: str = "") -> str:
        return f"{function}({left} \\mid {right})" if right else f"{function}({left})"

    def block(self, cells: Sequence[str]) -> str:
        return "\\{" + ", ".join(cells) + "\\}"

    def union(self, block: str, more: str) -> str:
        return f"{block} \\cup {more}"

    def touches(self, cells: Sequence[str]) -> str:
        return "K \\ni " + " \\text{ or } ".join(cells) if cells else "\\text{it touches } K"

    def prose(self, text: str) -> str:
        parts = re.split(f"(`[^`]+`|{_MARK}[^{_MARK}]+{_MARK})", text)
        return "".join(map(_latex_of_part, parts))

    def inline(self, formula: str) -> str:
        return f"{_MARK}{formula}{_MARK}"

    def either(self, plain: str, latex: str) -> str:
        return latex

    @property
    def one_line(self) -> bool:
        return False


class Cells:
    """The names of a model's cells in one notation.

    Attributes:
        row: the name of all cells of the data: their variable, or a letter shared by several
            variables.
        stands_for: the variables that the letter stands for; empty for one variable.
        latents: the latent variables.
    """

    def __init__(self, model: ir.Model, notation: Notation):
        variables = model.variables.values()
        latents = [v.name for v in variables if v.role == "latent"]
        observed = [v.name for v in variables if v.role == "var"]
        self._observed, self._latents = (observed, latents) if observed else (latents, [])
        self.n = notation
        self.latents = [notation.name(name) for name in self._latents]
        self.stands_for: tuple[str, ...] = ()
        self.row = self.n.name(self._observed[0]) if self._observed else "x"
        if len(self._observed) > 1:
            self.stands_for = tuple(map(notation.name, self._observed))
            self.row = _free_letter({*model.variables, *model.parameters, *model.lets})

    def whole(self, seen: str = "") -> str:
        """Return all cells: those of the data, or `seen` in their place, and the latents."""
        return ", ".join([seen or self.row, *self.latents])

    def of(self, hidden: Collection[str]) -> str:
        """Return the variables of a block's cells: one by its name, several as one."""
        latents = [self.n.name(name) for name in self._latents if name in hidden]
        observed = [name for name in self._observed if name in hidden]
        if len(observed) == 1 and not latents:
            return self.n.name(observed[0])
        parts = [self.row] * bool(observed or not latents) + latents
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def block(self, hidden: Collection[str], below: str = "K") -> str:
        """Return the cells of a block, `x_K`."""
        return self.n.sub(self.of(hidden), below)

    def turned(self, hidden: Collection[str]) -> str:
        """Return other values of a block's cells, over which a sum runs: `x'_K`."""
        return self.n.sub(f"{self.of(hidden)}'", "K")

    def rest(self, hidden: Collection[str], summed: bool = False, outside: str = "") -> str:
        """Return all cells outside a block; with `summed` without the latents summed out."""
        outside = outside or self.n.either("rest", "\\text{rest}")
        if not set(hidden) & set(self._latents):
            return ", ".join([self.n.sub(self.row, outside), *self.latents * (not summed)])
        others = [self.n.name(name) for name in self._latents if name not in hidden]
        if not set(hidden) & set(self._observed):
            others.insert(0, self.row)
        return ", ".join([self.n.sub(self.of(hidden), outside), *others])

    def conditional(self, hidden: Collection[str], also: str = "", summed: bool = False) -> str:
        """Return `p(x_K | x_rest)` for a sentence; `also` is added to the condition."""
        known = self.rest(hidden, summed) + also
        return self.n.inline(self.n.given("p", self.block(hidden), known))

    def single(self, hidden: Collection[str]) -> str:
        """Return `p(x_i | x_-i)` for a sentence."""
        known = self.rest(hidden, outside="-i")
        return self.n.inline(self.n.given("p", self.block(hidden, "i"), known))

    def predicted(self, seen: str = "") -> str:
        """Return `p(x_i | x_rest, K)` of a network as text; `seen` replaces the condition, if given."""
        known = seen or f"{self.rest(())}, K"
        return self.n.inline(self.n.given("p", self.n.sub(self.row, "i"), known))


def _free_letter(taken: Collection[str]) -> str:
    """Return a letter that the model does not use."""
    return next((letter for letter in "xvuyz" if letter not in taken), "cells")
