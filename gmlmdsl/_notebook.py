"""The extension of Jupyter and IPython: programs in cells (`%%gmlm`) with completion, and errors without a traceback.

    %load_ext gmlmdsl

    %%gmlm votes n=6
    model votes { .. }

The cell becomes a program under the name `votes`. Its inputs are Python expressions of the notebook.
"""

from __future__ import annotations

import html
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

from ._compile import BoundProgram
from ._diagnostics import GmlmError, Source, fail, highlighted, in_colour, preformatted, rendered
from .editor import Document, completions
from .program import check_source

INPUT = re.compile(r"([A-Za-z_]\w*)=")
PACKAGE = str(Path(__file__).parent)
USAGE = "%%gmlm NAME [INPUT=EXPRESSION ..]"


@dataclass(frozen=True)
class Message:
    """Text that a notebook shows as a block, with a picture after it, and a terminal as text."""

    text: str
    title: str = ""
    picture: str = ""

    def __repr__(self) -> str:
        return "\n".join(filter(None, (self.title, self.text)))

    def _repr_html_(self) -> str:
        head = f"<div>{html.escape(self.title)}</div>" if self.title else ""
        return f"{head}{preformatted(self.text) if self.text else ''}{self.picture}"


def register(shell: Any) -> None:
    """Add the magic to a shell of IPython; `%load_ext gmlmdsl` calls this."""

    def gmlm(line: str, cell: str) -> Message:
        return run_cell(line, cell, shell.user_ns)

    gmlm.__doc__ = f"Make a program of this cell: `{USAGE}`."
    shell.register_magic_function(gmlm, magic_kind="cell", magic_name="gmlm")
    shell.set_custom_exc((GmlmError,), without_traceback)
    vars(completed).update(matcher_api_version=2, matcher_identifier="gmlmdsl")
    if completed not in shell.Completer.custom_matchers:  # `%reload_ext` calls this again
        shell.Completer.custom_matchers.append(completed)


def completed(context: Any) -> dict[str, object]:
    """Return the words that may stand at the cursor of a cell `%%gmlm`.

    IPython calls this as a matcher of its second interface.

    Args:
        context: the text and the cursor, `IPython.core.completer.CompletionContext`.
    """
    lines = context.full_text.split("\n")
    if lines[0].split(maxsplit=1)[:1] != ["%%gmlm"] or context.cursor_line == 0:
        return {"completions": []}
    before = lines[context.cursor_line][: context.cursor_position]
    offset = len("\n".join([*lines[1 : context.cursor_line], before]))
    # A cell imports no file.
    found = [c for c in completions(Document("<cell>", "\n".join(lines[1:])), offset) if c.kind != "file"]
    fragment = re.split(r"\W", before)[-1]
    return {
        "completions": [SimpleNamespace(text=c.word, type=c.kind) for c in found],
        "suppress": True,  # Names of Python have no meaning here.
        "matched_fragment": fragment,
    }


def without_traceback(shell: Any, kind: type, error: GmlmError, trace: TracebackType | None, tb_offset: int | None = None) -> list[str]:
    """Return an error as the line of the notebook that raised it, and its diagnostics.

    A shell calls this for each `GmlmError` that a cell does not catch.
    """
    frames = [f for f in traceback.extract_tb(trace) if not f.filename.startswith(PACKAGE) and f.name == "<module>"]
    of_python = frames and not (frames[-1].line or "").startswith("get_ipython().run_cell_magic")
    where = [f"Cell In[{shell.execution_count}], line {frames[-1].lineno}: {frames[-1].line}"] if of_python else []
    lines = [*where, *highlighted(str(error), in_colour).splitlines()]
    print("\n".join(lines), file=sys.stderr)
    return lines


def run_cell(line: str, cell: str, names: dict[str, Any]) -> Message:
    """Make a program of a cell and assign it.

    Args:
        line: the words after `%%gmlm`: the name of the program, then its inputs.
        cell: the text of the program.
        names: the names of the notebook, in which inputs are evaluated and the program is stored.

    Returns:
        What the notebook shows: the contents of the program and its warnings.

    Raises:
        GmlmError: the faults of the cell. The name keeps its value, and a run of all cells stops here.
    """
    name, inputs = _arguments(line, names)
    # The first line is that of `%%gmlm`, so that lines are counted as the notebook counts them.
    program = BoundProgram(check_source(Source(f"cell {name}", f"\n{cell}")), inputs, None)
    found = [*program.warnings, *(w for m in program.checked.models for w in program.model(m).warnings if w not in program.warnings)]
    names[name] = program
    title = f"{name}: {'; '.join(_contents(program)) or 'nothing is declared'}"
    return Message(
        "\n\n".join(rendered(dict.fromkeys(found))), title, "".join(program.model(m)._repr_html_() for m in program.checked.models)
    )


def _arguments(line: str, names: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of the program and the values of its inputs.

    Raises:
        GmlmError: E507 for another form of the line, or an expression that Python refuses.
    """
    name, _, rest = line.strip().partition(" ")
    if not name.isidentifier():
        raise fail("E507", f"the first word after `%%gmlm` names the program, found {name!r}", help=f"write `{USAGE}`")
    inputs: dict[str, Any] = {}
    for key, text in _pairs(rest.strip()):
        try:
            inputs[key] = eval(text, dict(names))  # the user's own expression, in the user's notebook
        except Exception as error:
            raise fail("E507", f"input `{key}`: {text} raises {type(error).__name__}: {error}", help="write a Python expression") from None
    return name, inputs


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the inputs of a line, `n=6 w=[1, 2]`: an expression ends before the next `NAME=`."""
    import ast

    while text:
        found = INPUT.match(text)
        if found is None:
            raise fail("E507", f"an input is written `name=expression`, found {text!r}", help=f"write `{USAGE}`")
        rest = text[found.end() :]
        ends = [m.start() for m in re.finditer(r"\s+[A-Za-z_]\w*=(?!=)", rest)] + [len(rest)]
        for end in ends:
            try:
                ast.parse(rest[:end].strip(), mode="eval")
            except SyntaxError:
                continue
            break
        else:
            end = len(rest)  # The whole rest is shown as the faulty expression.
        yield found.group(1), rest[:end].strip()
        text = rest[end:].strip()


def _contents(program: BoundProgram) -> Iterator[str]:
    checked = program.checked
    for words, found in (("model", checked.models), ("mask", checked.masks), ("sampler", checked.samplers)):
        if found:
            yield f"{words}{'s' * (len(found) > 1)} {', '.join(found)}"
