"""Diagnostics are data: a code, a message, spans and a fix. The library raises them; only the command line prints them.

`codes.toml`, beside this file, holds for every code its slug, its severity and its explanation.
"""

from __future__ import annotations

import bisect
import functools
import numbers
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

Some = TypeVar("Some", bound=Any)
TAB = 4
SHOWN_WIDTH = 160  # a longer source line is cut around the span
MOST_SHOWN = 100  # diagnostics of one error: the others are counted
# of all of them; with the count, and the sum that `gmlm check` prints behind it, at most 300
MOST_LINES = 296
# letters of a word of a message, and of all of it: a longer one is cut in the middle
MOST_WORD, MOST_TEXT = 300, 4000
_LONG_WORD = re.compile(rf"\S{{{MOST_WORD + 1},}}")


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file and the path it is shown under."""

    path: str
    text: str = field(repr=False)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character offset, both counted from 1."""
        starts = _line_starts(self.text)
        line = bisect.bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of line `number` (from 1), without its end."""
        starts = _line_starts(self.text)
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")


@functools.lru_cache(maxsize=64)
def _line_starts(text: str) -> tuple[int, ...]:
    return (0, *(i + 1 for i, c in enumerate(text) if c == "\n"))


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` (half-open) of a source."""

    source: Source = field(repr=False)
    start: int
    end: int

    @property
    def text(self) -> str:
        """The source text that the span covers."""
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.source, self.start, other.end)

    def __str__(self) -> str:
        line, column = self.source.position(self.start)
        return f"{self.source.path}:{line}:{column}"


@dataclass(frozen=True, slots=True)
class Fix:
    """Replace the text of `span` by `text`; applied, it mends the fault and makes no other.

    `guess`: what was meant is guessed, from a near name say; `gmlm check --fix` leaves such edits
    alone.
    `also`: further places, of the same file, that are replaced by `text` too.
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
        """A text with the edit made."""
        for place in reversed(self.places):
            text = text[: place.start] + self.text + text[place.end :]
        return text


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault or warning.

    `label` stands under the underlined `span`; `related` are further places with a label each (the
    earlier declaration, say); `help` says how to mend it; `fix` is the edit that does, where one
    edit surely does.
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
        """`error` or `warning`."""
        return "warning" if self.code.startswith("W") else "error"

    def render(self) -> str:
        """The message as the command line shows it: heading, place, source line with the span underlined, help."""
        lines = [f"{self.severity}[{self.code} {self.slug}]: {shown(self.message)}"]
        places = [(self.span, self.label)] if self.span else []
        places += list(self.related)
        gutter = max((len(str(s.source.position(s.start)[0])) for s, _ in places), default=0)
        for k, (span, label) in enumerate(places):
            lines += _excerpt(span, label, gutter, arrow="-->" if k == 0 else ":::")
        if self.help:
            lines.append(f"help: {shown(self.help)}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The diagnostic as plain data, for editors and `--json`; `docs/reference/check-json.md` says what each entry means."""

        def place(span: Span) -> dict[str, Any]:
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
    r"""One line of text as a terminal shows it, and nothing that it would obey: tabs as blanks, the rest as `\x1b` or `\u202e`.

    That are control characters, those that turn the direction of the text, and whatever else has no
    picture but the plain blank.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else " " * TAB if c == "\t" else _spelled(c) for c in text)


def _spelled(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def shown(text: str) -> str:
    """A message as it is shown: every line `visible`, and what is too long cut in the middle, with the number of letters left out."""
    text = _LONG_WORD.sub(lambda found: _cut(found[0], MOST_WORD), text)
    return "\n".join(map(visible, _cut(text, MOST_TEXT).split("\n")))


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    head, tail = most // 3, most // 12
    return f"{text[:head]}..({len(text) - head - tail:,} more characters)..{text[-tail:]}"


def rendered(diagnostics: Iterable[Diagnostic]) -> list[str]:
    """Diagnostics as the command line shows them: at most `MOST_SHOWN` in `MOST_LINES` lines, errors before warnings, and how many more."""
    every = tuple(diagnostics)
    texts: dict[int, str] = {}
    lines = 0
    for k in sorted(range(len(every)), key=lambda k: every[k].severity)[:MOST_SHOWN]:
        text = every[k].render()
        lines += text.count("\n") + 2  # a blank line between two
        if texts and lines > MOST_LINES:
            break
        texts[k] = text
    left = [d.severity for k, d in enumerate(every) if k not in texts]
    counts = [counted(left.count(what), f"more {what}") for what in ("error", "warning") if what in left]
    return [*(texts[k] for k in sorted(texts)), *([f"and {' and '.join(counts)}"] if counts else [])]


class GmlmError(Exception):
    """A fault of a program, of its inputs or of data, with every diagnostic that was found.

    Args:
        diagnostics: all faults, in the order of the text.

    `str(error)` shows them as the command line does; `error.diagnostics` holds them as data.
    """

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]):
        self.diagnostics: tuple[Diagnostic, ...] = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        super().__init__("\n\n".join(rendered(self.diagnostics)))

    def __reduce__(self) -> tuple[Any, ...]:
        # its text alone would not make it again in another process
        return type(self), (self.diagnostics,)

    @property
    def codes(self) -> tuple[str, ...]:
        """The code of each diagnostic."""
        return tuple(d.code for d in self.diagnostics)


class GmlmAttributeError(GmlmError, AttributeError):
    """The same where an attribute is asked for that this object lacks: `hasattr` is False, and `getattr` takes its default."""


class GmlmNotImplementedError(GmlmError, NotImplementedError):
    """The same for what another library asks for and takes this class as the answer that there is none."""


class GmlmWarning(UserWarning):
    """What the checker warns of in a program that `gm.load` or `gm.parse` reads; the text shows every warning with its place."""


def fail(code: str, message: str, span: Span | None = None, label: str = "", help: str = "") -> GmlmError:
    """A `GmlmError` with one diagnostic, ready to raise."""
    return GmlmError(Diagnostic(code, message, span, label, help=help))


def no_attribute(code: str, message: str, help: str = "") -> GmlmAttributeError:
    """The same for an attribute that an object lacks: a property raises nothing else of ours."""
    return GmlmAttributeError(Diagnostic(code, message, help=help))


def not_implemented(code: str, message: str, help: str = "") -> GmlmNotImplementedError:
    """The same for what NumPyro may ask of a distribution that has none of it, and then does without."""
    return GmlmNotImplementedError(Diagnostic(code, message, help=help))


def in_text_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sorted by file and place, equal ones once."""

    def place(d: Diagnostic) -> tuple[str, int, int]:
        return (d.span.source.path, d.span.start, d.span.end) if d.span else ("", -1, -1)

    return tuple(sorted(dict.fromkeys(diagnostics), key=place))


class Faults:
    """Faults that are told together: `with faults:` around a part keeps those of its `GmlmError`, so that the parts behind are tried."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []

    def __enter__(self) -> Faults:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.found += error.diagnostics if isinstance(error, GmlmError) else ()
        return isinstance(error, GmlmError)

    def of(self, call: Callable[..., Some], *arguments: Any) -> Some | None:
        """What a call returns; None where it raises a `GmlmError`, whose faults are kept."""
        with self:
            return call(*arguments)
        return None

    def tell(self) -> None:
        """Raise one `GmlmError` with every fault, in the order of the text, where there are some."""
        if self.found:
            raise GmlmError(in_text_order(self.found))


def each(call: Callable[[Any], Some], items: Iterable[Any]) -> list[Some]:
    """What a call returns for each item.

    Raises:
        GmlmError: with the faults of all of them.
    """
    faults = Faults()
    found = [faults.of(call, item) for item in items]
    faults.tell()
    return found  # pyright: ignore[reportReturnType]


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that is nearest to `name`, or None where none is near."""
    import difflib

    near = difflib.get_close_matches(name, sorted(set(known)), n=1, cutoff=cutoff)
    return near[0] if near else None


def unknown(message: str, name: str, known: Iterable[str], code: str = "E506") -> GmlmError:
    """A `GmlmError` for a name that is none of the known ones, with the nearest of them or all as help."""
    near, names = did_you_mean(str(name), known), list(known)
    return fail(code, message, help=f"did you mean `{near}`?" if near else f"there {'is' if len(names) == 1 else 'are'} {listed(names)}")


def known(name: str, names: Sequence[str], what: str) -> str:
    """The name, if it is one of the names.

    Raises:
        GmlmError: E506 with the nearest.
    """
    if isinstance(name, str) and name in names:
        return name
    kind, _, owner = what.partition(" of ")
    raise unknown(f"{owner or 'the model'} has no {kind} `{name}`", name, names)


def only(name: str | None, names: Sequence[str], what: str, model: str) -> str:
    """The name that was given, or the only one there is.

    Raises:
        GmlmError: E506 for an unknown name, and where none was given and there are several or none.
    """
    if name is not None:
        return known(name, names, f"{what} of model `{model}`")
    if len(names) != 1:
        raise fail("E506", f"model `{model}` has {len(names)} {what}s: say which", help=f"`{what}=` one of {listed(names)}")
    return names[0]


def is_whole_number(value: object) -> bool:
    """Whether it is a whole number of Python or NumPy; truth values are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_real_number(value: object) -> bool:
    """Whether it is a real number of Python or NumPy; truth values are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def whole_number(name: str, value: Any, least: int, code: str = "E507") -> int:
    """An option as Python's whole number, whichever library's it is; only such ones go on to what is traced or compiled.

    Raises:
        GmlmError: the code for anything else; a truth value is none.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise fail(code, f"{name} must be a whole number of at least {least}, got {value!r}")
    return number


def truth(name: str, value: object) -> bool:
    """An option that is true or false, as a truth value of Python; what has one, such as 0 and 1, is taken at it.

    Raises:
        GmlmError: E507 for what has none, such as an array of several.
    """
    try:
        return bool(value)
    except Exception:  # whatever object it is
        raise fail("E507", f"{name} must be True or False, got {type(value).__name__}") from None


def is_one_of(value: object, texts: Sequence[str]) -> bool:
    """Whether it is a text, and one of these; arrays, which compare entry by entry, are none."""
    return isinstance(value, str) and value in texts


def with_whole_numbers(options: Some, least: Mapping[str, int], code: str = "E507", of: str = "") -> Some:
    """Options, a dataclass, with the whole numbers among them as `whole_number` has them; None stays where it is the default.

    Raises:
        GmlmError: the code.
    """
    optional = {f.name for f in fields(options) if f.default is None}
    given = {name: getattr(options, name) for name in least}
    found = {k: whole_number(f"{of}{k}", v, least[k], code) for k, v in given.items() if v is not None or k not in optional}
    return replace(options, **found)


def counted(number: int, what: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {what}{'s' * (number != 1)}"


def duration(seconds: float) -> str:
    """`0.53 s`, `12 s`, `125 s`."""
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names in backticks, with commas: "`a`, `b`"; "none" where there are none."""
    shown = ", ".join(f"`{n}`" for n in names[:most])
    return (shown + (f" and {len(names) - most} more" if len(names) > most else "")) or "none"


@functools.cache
def codes() -> dict[str, dict[str, str]]:
    """The table of codes: code -> {slug, title, explanation, wrong, right}."""
    import tomllib

    return tomllib.loads(Path(__file__).with_name("codes.toml").read_text(encoding="utf-8"))


def with_span(diagnostic: Diagnostic, span: Span) -> Diagnostic:
    """The same diagnostic at another place."""
    return replace(diagnostic, span=span)
