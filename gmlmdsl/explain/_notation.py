"""Notations for mathematics: Unicode text and LaTeX.

The parts that a method takes are already written in the notation.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..program import OPERATORS

GREEK = {
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"),
    *("nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
}
HARD_SPACE = "\u00a0"  # no line is broken at this space
_MARK = "\x1f"  # marks a formula within words until the words are written
SYMBOLS = {"==": "=", "!=": "≠", "<=": "≤", ">=": "≥", "-": "−", "*": "·", "neg": "−"}


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
