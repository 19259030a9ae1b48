"""Check programs whose texts are not files on disk, and expressions added to a text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .._diagnostics import Diagnostic, GmlmError, Source, Span, fail
from ._check import check_file, check_source
from ._program import Let, Program

NAME = "observed"


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
