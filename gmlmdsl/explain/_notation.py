"""How mathematics is written down: as Unicode text, or as LaTeX. Every method takes parts that are written already."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..program import OPERATORS

GREEK = {
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"),
    *("nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
}
HARD_SPACE = "\u00a0"  # a space at which no line is broken
_MARK = "\x1f"  # around a formula within words, until these are written
SYMBOLS = {"==": "=", "!=": "≠", "<=": "≤", ">=": "≥", "-": "−", "*": "·", "neg": "−"}


class Notation(ABC):
    """One way to write formulas."""

    times: str
    minus: str

    @abstractmethod
    def name(self, text: str) -> str:
        """The name of a variable, parameter, index or set."""

    @abstractmethod
    def entry(self, name: str, indices: Sequence[str]) -> str:
        """An array at some indices."""

    @abstractmethod
    def label(self, text: str) -> str:
        """A letter or label."""

    @abstractmethod
    def operator(self, symbol: str) -> str:
        """A relation, or `and`, `or`, `not`, with its spaces."""

    @abstractmethod
    def parens(self, text: str) -> str:
        """In parentheses."""

    @abstractmethod
    def fraction(self, above: str, below: str) -> str:
        """A quotient; the parts are bracketed by the caller where this is written on one line."""

    def product(self, left: str, right: str) -> str:
        """Two factors."""
        return self.times.join((left, right))

    @abstractmethod
    def power(self, base: str, exponent: str) -> str:
        """A power."""

    @abstractmethod
    def call(self, function: str, arguments: Sequence[str]) -> str:
        """A function of numbers."""

    @abstractmethod
    def indicator(self, condition: str) -> str:
        """1 where the condition holds, else 0."""

    @abstractmethod
    def choice(self, test: str, yes: str, no: str) -> str:
        """One of two values."""

    @abstractmethod
    def over(self, sign: str, range_: str, body: str) -> str:
        """A sum or product (`sign` is sum or prod) over a range; no range: the body alone."""

    @abstractmethod
    def members(self, names: Sequence[str], set_: str) -> str:
        """`i ∈ S`."""

    @abstractmethod
    def such_that(self, range_: str, condition: str) -> str:
        """A range with a condition."""

    @abstractmethod
    def sub(self, name: str, below: str) -> str:
        """A name with a subscript."""

    @abstractmethod
    def given(self, function: str, left: str, right: str = "") -> str:
        """`p(left | right)`."""

    @abstractmethod
    def block(self, cells: Sequence[str]) -> str:
        """A set of cells."""

    @abstractmethod
    def union(self, block: str, more: str) -> str:
        """The subscript of a block with more cells."""

    @abstractmethod
    def touches(self, cells: Sequence[str]) -> str:
        """That K holds one of some cells; none: that the term touches K."""

    @abstractmethod
    def prose(self, text: str) -> str:
        """Words, with code in backticks."""

    @abstractmethod
    def inline(self, formula: str) -> str:
        """A short formula within words: it stays on one line."""

    @abstractmethod
    def either(self, plain: str, latex: str) -> str:
        """What is written as plain text, or in LaTeX."""

    @property
    @abstractmethod
    def one_line(self) -> bool:
        """Whether quotients are written on one line, so that their parts need parentheses."""


class Unicode(Notation):
    """For a terminal."""

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
    """Text with what LaTeX would take for a command escaped."""
    return re.sub(r"[\\~^&%$#_{}]", lambda m: _SPECIAL.get(m[0], "\\" + m[0]), text)


def _latex_of_part(part: str) -> str:
    """A formula, a piece of code in backticks, or words."""
    if part.startswith(_MARK):
        return f"${part.strip(_MARK)}$"
    code = re.fullmatch("`([^`]+)`", part)
    text = f"\\texttt{{{latex_text(code[1])}}}" if code else latex_text(part)
    return "".join(_MATHS.get(c, c) for c in text)


class Latex(Notation):
    """For a paper."""

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
