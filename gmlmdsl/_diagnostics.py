"""Diagnostics as data: a code, a message, spans and a suggested fix.

The library raises diagnostics; only the command line prints them. The file `codes.toml` beside this
one contains the slug, the severity and the explanation of each code.
"""

from __future__ import annotations

import bisect
import functools
import numbers
import operator
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Some = TypeVar("Some")
Options = TypeVar("Options", bound="DataclassInstance")
# How a notebook shows the parts of a diagnostic, on white and on black.
STYLES = {
    "error": "color: #d9403a; font-weight: bold",
    "warning": "color: #b06d00; font-weight: bold",
    "message": "font-weight: bold",
    "help": "color: #0f8a8a",
    "place": "color: #5580c0",
}
TERMINAL = {"error": "\033[1;31m", "warning": "\033[1;33m", "message": "\033[1m", "help": "\033[36m"}
TERMINAL |= {"place": "\033[34m", "note": "\033[2m"}
TAB = 4
SHOWN_WIDTH = 160  # A longer source line is cut around the span.
MOST_SHOWN = 100  # The other diagnostics of an error are only counted.
# The most lines of all diagnostics. The count of the others and the summary that `gmlm check`
# prints after them raise the total to at most 300.
MOST_LINES = 296
# The most letters of a word and of a message. A longer one is cut in the middle.
MOST_WORD, MOST_TEXT = 300, 4000
_PACKAGE = str(Path(__file__).parent) + os.sep
_LONG_WORD = re.compile(rf"\S{{{MOST_WORD + 1},}}")


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file and the path it is shown under."""

    path: str
    text: str = field(repr=False)

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of a character offset, both counted from 1."""
        starts = _line_starts(self.text)
        line = bisect.bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return the text of line `number`, counted from 1, without its line end."""
        starts = _line_starts(self.text)
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")


@functools.lru_cache(maxsize=64)
def _line_starts(text: str) -> tuple[int, ...]:
    return (0, *(i + 1 for i, c in enumerate(text) if c == "\n"))


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def node(cls: type[Some]) -> type[Some]:
    """Make a dataclass of a program: its fields do not change, and equal objects have equal hashes.

    Type checkers reject assignments to its fields. At run time the class only has slots: objects of
    frozen dataclasses take three times as long to make, and a program has thousands.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


@node
class Span:
    """The characters `start` to `end` (half-open) of a source."""

    source: Source = field(repr=False)
    start: int
    end: int

    @property
    def text(self) -> str:
        """The source text that the span covers."""
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """Return the span from the start of this span to the end of `other`."""
        return Span(self.source, self.start, other.end)

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.path}:{line}:{column}"


def name_in(span: Span, name: str) -> Span:
    """Return the place of a name in its declaration, after the keyword."""
    keyword = re.match(r"\w+", span.text)
    found = re.compile(rf"\b{name}\b").search(span.text, keyword.end() if keyword else 0)
    return Span(span.source, span.start + found.start(), span.start + found.end()) if found else span


@dataclass(frozen=True, slots=True)
class Fix:
    """A suggested fix: replace the text of `span` by `text`.

    It removes the fault and adds no other.

    Attributes:
        span: the place whose text is replaced.
        text: the replacement.
        guess: whether the intention is only guessed, for example from a similar name.
            `gmlm check --fix` does not apply such fixes.
        also: further places of the same file that are replaced by `text` too.
    """

    span: Span
    text: str
    guess: bool = False
    also: tuple[Span, ...] = ()

    @property
    def places(self) -> tuple[Span, ...]:
        """Every place that is replaced, in the order of the text."""
        return tuple(sorted((self.span, *self.also), key=lambda s: s.start))

    def applied(self, text: str) -> str:
        """Return `text` with the fix applied."""
        for place in reversed(self.places):
            text = text[: place.start] + self.text + text[place.end :]
        return text


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error or a warning.

    Attributes:
        code: the code, such as `E506`.
        message: the message.
        span: the place of the fault, which is underlined.
        label: the text under the underlined span.
        related: further places with a label each, for example the earlier declaration.
        help: a hint on how to correct the fault.
        fix: a suggested fix, if one edit certainly corrects the fault.
    """

    code: str
    message: str
    span: Span | None = None
    label: str = ""
    related: tuple[tuple[Span, str], ...] = ()
    help: str = ""
    fix: Fix | None = None

    @property
    def slug(self) -> str:
        """The readable name of the code, such as `unknown-name`."""
        return codes()[self.code]["slug"]

    @property
    def severity(self) -> str:
        """The severity: `error` or `warning`."""
        return "warning" if self.code.startswith("W") else "error"

    def render(self) -> str:
        """Return the message as the command line prints it.

        It consists of a heading, the place, the source line with the span underlined, and the help.
        """
        lines = [f"{self.severity}[{self.code} {self.slug}]: {shown(self.message)}"]
        places = [(self.span, self.label)] if self.span else []
        places += list(self.related)
        gutter = max((len(str(s.source.position(s.start)[0])) for s, _ in places), default=0)
        for k, (span, label) in enumerate(places):
            lines += _excerpt(span, label, gutter, arrow="-->" if k == 0 else ":::")
        if self.help:
            lines.append(f"help: {shown(self.help)}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """Return the diagnostic as plain data, for editors and `--json`.

        `docs/reference/check-json.md` describes each entry.
        """

        def place(span: Span) -> dict[str, object]:
            line, column = span.source.position(span.start)
            end_line, end_column = span.source.position(span.end)
            ends = {"end_line": end_line, "end_column": end_column, "offset": span.start, "end_offset": span.end}
            return {"file": span.source.path, "line": line, "column": column, **ends}

        return {
            "code": self.code,
            "slug": self.slug,
            "severity": self.severity,
            "message": self.message,
            "place": place(self.span) if self.span else None,
            "label": self.label,
            "related": [{"place": place(s), "label": label} for s, label in self.related],
            "help": self.help,
            "fix": self.fix
            and {"sure": not self.fix.guess, "edits": [{"place": place(s), "text": self.fix.text} for s in self.fix.places]},
        }


def _excerpt(span: Span, label: str, gutter: int, arrow: str) -> list[str]:
    line, column = span.source.position(span.start)
    text = span.source.line(line)
    width = max(1, min(span.end - span.start, len(text) - column + 1))
    first = 0 if column + width <= SHOWN_WIDTH else max(0, column - SHOWN_WIDTH // 2)
    part = text[first : first + SHOWN_WIDTH]
    before, under = visible(part[: column - 1 - first]), visible(part[column - 1 - first : column - 1 - first + width])
    marks = " " * len(before) + "^" * max(1, len(under))
    pad = " " * gutter
    return [
        f"{pad}{arrow} {shown(str(span))}",
        f"{pad} |",
        f"{line:>{gutter}} | {visible(part)}".rstrip(),
        f"{pad} | {marks} {shown(label)}".rstrip(),
    ]


def visible(text: str) -> str:
    r"""Return one line of text as a terminal displays it, without control characters.

    Tabs become blanks; other unprintable characters are spelled as `\x1b` or `\u202e`. Unprintable
    are control characters, characters that change the direction of the text, and every character
    without a glyph except the plain blank.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else " " * TAB if c == "\t" else _spelled(c) for c in text)


def _spelled(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def shown(text: str) -> str:
    """Return a message with every line `visible`, and with overlong parts cut in the middle.

    Words and whole messages have a maximum length. Each cut states the number of characters left
    out.
    """
    text = _LONG_WORD.sub(lambda found: _cut(found[0], MOST_WORD), text)
    return "\n".join(map(visible, _cut(text, MOST_TEXT).split("\n")))


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head, tail = most // 3, most // 12
    return f"{text[:head]}..({len(text) - head - tail:,} more characters)..{text[-tail:]}"


def rendered(diagnostics: Iterable[Diagnostic]) -> list[str]:
    """Return diagnostics as the command line prints them, errors before warnings.

    At most `MOST_SHOWN` diagnostics in at most `MOST_LINES` lines are shown. A last entry counts
    the others.
    """
    every = tuple(diagnostics)
    texts: dict[int, str] = {}
    lines = 0
    for k in sorted(range(len(every)), key=lambda k: every[k].severity)[:MOST_SHOWN]:
        text = every[k].render()
        lines += text.count("\n") + 2  # A blank line separates two diagnostics.
        if texts and lines > MOST_LINES:
            break
        texts[k] = text
    left = [d.severity for k, d in enumerate(every) if k not in texts]
    counts = [counted(left.count(what), f"more {what}") for what in ("error", "warning") if what in left]
    return [*(texts[k] for k in sorted(texts)), *([f"and {' and '.join(counts)}"] if counts else [])]


def highlighted(text: str, paint: Callable[[str, str], str]) -> str:
    """Return diagnostics, as `rendered` writes them, with their parts painted.

    Args:
        text: the diagnostics.
        paint: called with each part and its role: `error`, `warning`, `message`, `help`, `place`,
            or "" for the rest.
    """
    return "\n".join(_highlighted_line(line, paint) for line in text.split("\n"))


def _highlighted_line(line: str, paint: Callable[[str, str], str]) -> str:
    head = re.match(r"(error|warning|help)(\[[^\]]*\]|(?=:))", line)
    if head:
        return paint(head[0], head[1]) + paint(line[head.end() :], "" if head[1] == "help" else "message")
    gutter = re.match(r"\s*(?:--> |::: |\d* \|)(?= *(\^)?)", line)
    if gutter:
        return paint(gutter[0], "place") + paint(line[gutter.end() :], "error" if gutter[1] else "")
    return paint(line, "")


def in_colour(text: str, role: str) -> str:
    """Return a part of a diagnostic in the colour of its role on a terminal, see `highlighted`."""
    return f"{TERMINAL[role]}{text}\033[0m" if role else text


def in_paragraphs(shown: object) -> str:
    """Return each line of the text of an object as a paragraph of HTML, for notebooks."""
    from html import escape

    return "".join(f"<p>{escape(line)}</p>" for line in str(shown).splitlines())


def preformatted(text: str) -> str:
    """Return text as a block of HTML that keeps its lines, for notebooks; diagnostics are coloured."""
    from html import escape

    def paint(part: str, role: str) -> str:
        return f'<span style="{STYLES[role]}">{escape(part)}</span>' if role else escape(part)

    return f'<pre style="line-height: 1.3; overflow-x: auto">{highlighted(text, paint)}</pre>'


class GmlmError(Exception):
    """An error of a program, of its inputs or of data, with every diagnostic that was found.

    Args:
        diagnostics: all faults, in the order of the text.

    `str(error)` formats them as the command line does; `error.diagnostics` contains them as data.
    """

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]):
        self.diagnostics: tuple[Diagnostic, ...] = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        super().__init__("\n\n".join(rendered(self.diagnostics)))

    def __reduce__(self) -> tuple[object, ...]:
        # The text alone does not suffice to rebuild the error in another process.
        return type(self), (self.diagnostics,)

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    @property
    def codes(self) -> tuple[str, ...]:
        """The code of each diagnostic."""
        return tuple(d.code for d in self.diagnostics)


class GmlmAttributeError(GmlmError, AttributeError):
    """A `GmlmError` for a missing attribute: `hasattr` is False, `getattr` returns its default."""


class GmlmNotImplementedError(GmlmError, NotImplementedError):
    """A `GmlmError` for a method that another library tries and that this object lacks."""


class GmlmWarning(UserWarning):
    """The warnings of the checker for a program that `gm.load` or `gm.parse` reads.

    The text contains every warning with its place.
    """


def tell(text: str | Warning, category: type[Warning] = GmlmWarning) -> None:
    """Issue a warning at the line of the user that led here, the first outside this package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def fail(code: str, message: str, span: Span | None = None, label: str = "", help: str = "") -> GmlmError:
    """Return a `GmlmError` with one diagnostic, for the caller to raise.

    Args:
        code: the code of the diagnostic, such as `E506`.
        message: the message.
        span: the place in the text.
        label: the text under the underlined span.
        help: a hint on how to correct the fault.
    """
    return GmlmError(Diagnostic(code, message, span, label, help=help))


def no_attribute(code: str, message: str, help: str = "") -> GmlmAttributeError:
    """Return a `GmlmAttributeError` with one diagnostic.

    Properties raise no other `GmlmError`.
    """
    return GmlmAttributeError(Diagnostic(code, message, help=help))


def not_implemented(code: str, message: str, help: str = "") -> GmlmNotImplementedError:
    """Return a `GmlmNotImplementedError` for a method that a distribution lacks.

    NumPyro may call such a method, and continues without it.
    """
    return GmlmNotImplementedError(Diagnostic(code, message, help=help))


def in_text_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics sorted by file and place, without duplicates."""

    def place(d: Diagnostic) -> tuple[str, int, int]:
        return (d.span.source.path, d.span.start, d.span.end) if d.span else ("", -1, -1)

    return tuple(sorted(dict.fromkeys(diagnostics), key=place))


class Faults:
    """A collector of faults that are reported together.

    The block `with faults:` catches a `GmlmError` and keeps its diagnostics, so that later parts
    are still tried.
    """

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []

    def __enter__(self) -> Faults:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.found += error.diagnostics if isinstance(error, GmlmError) else ()
        return isinstance(error, GmlmError)

    def of(self, call: Callable[..., Some], *arguments: Any) -> Some | None:
        """Return the result of a call; keep the faults of a `GmlmError` and return None."""
        with self:
            return call(*arguments)
        return None

    def tell(self) -> None:
        """Raise one `GmlmError` with every fault in the order of the text, if there are any."""
        if self.found:
            raise GmlmError(in_text_order(self.found))


def each(call: Callable[[Any], Some], items: Iterable[Any]) -> list[Some]:
    """Return the result of a call for each item.

    Raises:
        GmlmError: with the faults of all calls.
    """
    faults = Faults()
    found = [faults.of(call, item) for item in items]
    faults.tell()
    return found  # pyright: ignore[reportReturnType]


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to `name`, or None if none is similar."""
    import difflib

    near = difflib.get_close_matches(name, sorted(set(known)), n=1, cutoff=cutoff)
    return near[0] if near else None


def unknown(message: str, name: str, known: Iterable[str], code: str = "E506", otherwise: str = "") -> GmlmError:
    """Return a `GmlmError` for an unknown name.

    Its help is the most similar known name, or else `otherwise`, by default all known names.

    Args:
        message: the message.
        name: the unknown name.
        known: the known names.
        code: the code of the diagnostic.
        otherwise: the help if no known name is similar.
    """
    near, names = did_you_mean(str(name), known), list(known)
    otherwise = otherwise or f"there {'is' if len(names) == 1 else 'are'} {listed(names)}"
    return fail(code, message, help=f"did you mean `{near}`?" if near else otherwise)


def known(name: str, names: Sequence[str], what: str) -> str:
    """Return the name if it is one of `names`.

    Raises:
        GmlmError: E506 with the most similar name.
    """
    if isinstance(name, str) and name in names:
        return name
    kind, _, owner = what.partition(" of ")
    raise unknown(f"{owner or 'the model'} has no {kind} `{name}`", name, names)


def only(name: str | None, names: Sequence[str], what: str, model: str) -> str:
    """Return the given name, or the only name if none is given.

    Args:
        name: the given name, or None.
        names: the known names.
        what: the kind of the named object, such as `sampler`.
        model: the name of the model, for the message.

    Raises:
        GmlmError: E506 for an unknown name, and if none is given and `names` does not have exactly
            one.
    """
    if name is not None:
        return known(name, names, f"{what} of model `{model}`")
    if not names:
        help = "write `mask one = subsets(size = 1)` in the program"
        if what == "sampler":
            help = 'write `sampler s { update x }` in the program; `sampler="exact"` draws from a joint distribution without one'
        raise fail("E506", f"model `{model}` declares no {what}", help=help)
    if len(names) != 1:
        raise fail("E506", f"model `{model}` has {len(names)} {what}s: say which", help=f"`{what}=` one of {listed(names)}")
    return names[0]


def is_whole_number(value: object) -> bool:
    """Return whether `value` is an integer of Python or NumPy; Booleans do not count."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_real_number(value: object) -> bool:
    """Return whether `value` is a real number of Python or NumPy; Booleans do not count."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def whole_number(name: str, value: Any, least: int, code: str = "E507") -> int:
    """Return an option as a Python `int`, whichever library's integer it is.

    Only Python integers are passed on to traced or compiled code.

    Args:
        name: the option's name.
        value: the option's value.
        least: the smallest allowed value.
        code: the code of the error.

    Raises:
        GmlmError: with `code` for any other value, including Booleans.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise fail(code, f"{name} must be a whole number of at least {least}, got {value!r}")
    return number


def truth(name: str, value: object) -> bool:
    """Return an option as a Python `bool`.

    Any value with a truth value, such as 0 or 1, is converted.

    Raises:
        GmlmError: E507 for a value without a truth value, such as an array with several entries.
    """
    try:
        return bool(value)
    except Exception:  # The object may raise any exception.
        raise fail("E507", f"{name} must be True or False, got {type(value).__name__}") from None


def is_one_of(value: object, texts: Sequence[str]) -> bool:
    """Return whether `value` is a string and equals one of `texts`.

    Arrays never are, although they compare entry by entry.
    """
    return isinstance(value, str) and value in texts


def with_whole_numbers(options: Options, least: Mapping[str, int], code: str = "E507", of: str = "") -> Options:
    """Return a dataclass of options with its integer options converted by `whole_number`.

    None is kept for an option whose default is None.

    Args:
        options: the dataclass.
        least: the smallest allowed value of each integer option.
        code: the code of the error.
        of: a prefix of the option's name in the message.

    Raises:
        GmlmError: with `code`.
    """
    optional = {f.name for f in fields(options) if f.default is None}
    given = {name: getattr(options, name) for name in least}
    found = {k: whole_number(f"{of}{k}", v, least[k], code) for k, v in given.items() if v is not None or k not in optional}
    return replace(options, **found)


def counted(number: int, what: str) -> str:
    """Return a number with its noun: `1 row`, `2 rows`."""
    return f"{number} {what}{'s' * (number != 1)}"


def duration(seconds: float) -> str:
    """Format seconds: `0.53 s`, `12 s`, `125 s`."""
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return names in backticks, separated by commas: "`a`, `b`"; "none" if there are none."""
    shown = ", ".join(f"`{n}`" for n in names[:most])
    return (shown + (f" and {len(names) - most} more" if len(names) > most else "")) or "none"


@functools.cache
def codes() -> dict[str, dict[str, str]]:
    """Return the table of codes: code -> {slug, title, explanation, wrong, right}."""
    import tomllib

    return tomllib.loads(Path(__file__).with_name("codes.toml").read_text(encoding="utf-8"))
