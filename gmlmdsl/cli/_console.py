"""Printed output of the command line, and the end of commands after errors.

The output consists of diagnostics, coloured on a terminal, tables and notes.
"""

from __future__ import annotations

import codecs
import contextlib
import math
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import IO

from .._diagnostics import Diagnostic, GmlmError, fail, highlighted, in_colour, rendered, shown, visible
from .limits import AGAIN_SECONDS, MOST_AGAIN, PIPED_WIDTH, SOON_SECONDS, TEXT_WIDTH, UNBROKEN

# Replacements of mathematical symbols for encodings that lack them. Any other symbol is spelled as
# `\u2026`.
PLAIN = {"∑": "sum", "∏": "prod", "·": "*", "−": "-", "√": "sqrt", "∈": "in", "∋": "with", "∉": "not in", "≠": "!=", "≤": "<=", "≥": ">="}
PLAIN |= {"∪": "union", "⇔": "<=>", "⌊": "floor(", "⌋": ")", "σ": "sigma", "π": "pi"}
_OPTION = re.compile(
    r"`(mask|sampler|model|n_masks|max_steps|starts|level|gaps|weights|draws|warmup|chains|thin|clamp|columns|where|missing|header|resume)"
    r"=(\[.*?\]|'[^']*'|\"\w+\"|[\w.]*)`"
)


def settle_streams() -> None:
    """Make the standard streams writable.

    A stream that the caller closed is redirected to the null device. Characters that an encoding
    lacks are replaced by plain letters.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The lowest free number is the closed one.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    codecs.register_error("plain", _in_plain_letters)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and stream.errors != "surrogateescape":
            stream.reconfigure(errors="plain")  # pyright: ignore[reportAttributeAccessIssue]


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """End the block at Ctrl-C, even if a library swallows the exception.

    The exception is then raised again, at most a few times.
    """
    left = iter(range(MOST_AGAIN))

    def interrupt(_: int, frame: FrameType | None) -> None:
        # An exception in C++ code during its import would end the process without a message.
        if hasattr(signal, "setitimer") and _is_importing(frame):
            signal.setitimer(signal.ITIMER_REAL, SOON_SECONDS)
            return
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS if next(left, None) is not None else 0)
        raise KeyboardInterrupt

    # The signal is ignored, for example after `nohup`.
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, interrupt)
    try:
        yield
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _in_plain_letters(error: UnicodeError) -> tuple[str | bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lacking), error.end


def stdin_bytes() -> IO[bytes]:
    """Return the standard input.

    Raises:
        GmlmError: E120 if the caller closed it.
    """
    if sys.stdin is None:
        raise fail("E120", "the standard input is closed", help="give a file, or `< FILE`")
    return sys.stdin.buffer


def stdin_text() -> str:
    """Return the text of the standard input.

    Raises:
        GmlmError: E119 if it is not UTF-8, E120 if the caller closed it.
    """
    try:
        return stdin_bytes().read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise fail("E119", "the standard input is not UTF-8 text") from None


def ended(status: int) -> int:
    """Flush the standard streams and return the exit status, which changes if flushing fails."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            status = stop(error)
    return status


def stop(error: BaseException) -> int:
    """Print why a command ends, and return its exit status.

    - 1: an error of the user's files or data, or of the system, such as a lack of memory.
    - 70: an internal error of this program.
    - 130: an interrupt.
    """
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, GmlmError):
        show_error(error)
        return 1
    if isinstance(error, BrokenPipeError):  # The reader, for example `head`, has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        print(paint(visible(f"error: {where}{error.strerror or error}"), "error", sys.stderr), file=sys.stderr)
        return 1
    if isinstance(error, MemoryError | RecursionError):
        what = "the memory is too small for this" if isinstance(error, MemoryError) else "the program is nested too deeply"
        print(paint(f"error: {what}", "error", sys.stderr), file=sys.stderr)
        return 1
    if os.environ.get("GMLM_TRACEBACK"):
        raise error
    text = visible(f"internal error: {type(error).__name__}: {error}")
    print(paint(text, "error", sys.stderr), file=sys.stderr)
    print("This is a fault of gmlmdsl, not of your files. Please report it; GMLM_TRACEBACK=1 shows where it happened.", file=sys.stderr)
    return 70


def has_colour(stream: IO[str]) -> bool:
    """Return whether to print colours.

    This is done on a terminal, unless it is a dumb one or `NO_COLOR` is set.
    """
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def text_width() -> int:
    """Return the number of columns of a line of text.

    On a terminal this is the width of the terminal. Elsewhere it is the smaller of 100 and the
    variable `COLUMNS`, if that is set.
    """
    if sys.stdout.isatty():
        return shutil.get_terminal_size((TEXT_WIDTH, 1)).columns
    said = os.environ.get("COLUMNS", "")
    return min(int(said) or TEXT_WIDTH, TEXT_WIDTH) if said.isdecimal() else TEXT_WIDTH


def paint(text: str, role: str, stream: IO[str]) -> str:
    """Return text in the colour of its role, if the stream supports it."""
    return in_colour(text, role) if has_colour(stream) else text


def show_error(error: GmlmError, stream: IO[str] | None = None) -> None:
    """Print every diagnostic of an error, with options named as on the command line."""
    show(error.diagnostics, stream or sys.stderr)


def show(diagnostics: Iterable[Diagnostic], stream: IO[str]) -> None:
    """Print diagnostics, separated by blank lines."""
    texts = [as_on_command_line(text) for text in rendered(diagnostics)]
    if has_colour(stream):
        texts = [highlighted(t, in_colour) for t in texts]
    if texts:
        print("\n\n".join(texts), file=stream)


def as_on_command_line(text: str) -> str:
    """Return a text with options named as on the command line; others are marked as of Python."""
    text = re.sub(r"`(max_steps|n_masks)`", r"`\1=`", text)
    text = re.sub(r"(`fit\.\w+\([^`]*\)`|`impute=True`)(?! in Python)", r"\1 in Python", text)
    return _OPTION.sub(_as_option, text)


def _as_option(found: re.Match[str]) -> str:
    if found[1] == "resume":
        return "`--restart`" if found[2] == "False" else "no `--restart`"
    if found[1] == "header":
        return "`--no-header`" if found[2] == "False" else "`--header`"
    option = f"--{found[1].replace('_', '-')}"
    said = re.sub(r"'([\w-]+)'", r"\1", found[2])  # A word needs no quotes in a shell.
    values = re.findall(r"'[^']*'|[^',\[\]\" ]+", said) or [""]
    return f"`{' '.join(f'{option} {value}'.strip() for value in values)}`"


def note(text: str) -> None:
    """Print a remark on the standard error."""
    print(paint(shown(text), "note", sys.stderr), file=sys.stderr)


def warn(text: str, remedy: str = "") -> None:
    """Print a warning on the standard error."""
    for role, said in (("warning", text), *[("help", remedy)] * bool(remedy)):
        said = shown(as_on_command_line(said))
        print(paint(role, role, sys.stderr), said, sep=": ", file=sys.stderr)


def print_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], title: str = "", *, written: bool = False, absent: str = "nan"
) -> None:
    """Print a table on the standard output.

    The numbers of a column have the same number of decimals. On a narrow terminal long texts are
    broken, and short ones and numbers are not: lines then run over.

    Args:
        headers: the headers of the columns.
        rows: the rows.
        title: the title.
        written: whether all columns but the first contain numbers as text.
        absent: the text for nan.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    wide = None if sys.stdout.isatty() else PIPED_WIDTH
    console = Console(file=sys.stdout, width=wide, highlight=False, markup=False, emoji=False)
    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold", pad_edge=False)
    columns = [[row[k] for row in rows] for k in range(len(headers))]
    texts = [_written(c, absent) for c in columns]
    for place, (header, column) in enumerate(zip(headers, columns, strict=True)):
        numeric = (all(isinstance(v, int | float) for v in column) and bool(column)) or (written and place > 0)
        least = min(max(map(len, (header, *texts[place]))), UNBROKEN)
        table.add_column(visible(header), justify="right" if numeric else "left", overflow="fold", min_width=least)
    for k in range(len(rows)):
        table.add_row(*(column[k] for column in texts))
    console.print(table, crop=False)


def _written(column: Sequence[object], absent: str) -> list[str]:
    floats = sorted(abs(v) for v in column if isinstance(v, float) and 0 < abs(v) < math.inf)
    middle = floats[len(floats) // 2] if floats else 1.0
    form = f".{min(max(3 - math.floor(math.log10(middle)), 0), 4)}f" if 1e-3 <= middle < 1e7 else ".2e"
    return [absent if v != v else format(v, form) if isinstance(v, float) else visible(str(v)) for v in column]
