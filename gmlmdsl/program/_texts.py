"""A program from texts that have no place on a disk: those of a saved fit, or a program with more statements."""

from __future__ import annotations

from pathlib import Path

from .._diagnostics import Source, fail
from ._check import check_file, check_source
from ._program import Program


def checked_texts(files: dict[str, str]) -> Program:
    """A program from the texts of its files by path, the main one first; imports find the others.

    Raises:
        GmlmError: for faults of the texts; E520 for a file outside the main one's folder, or that no folder can hold.
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
    """The texts as files of a folder, where they stand as they stood beside the main one."""
    root = Path(next(iter(files))).parent
    for path, text in files.items():
        inside = Path(path)
        inside = inside.relative_to(root) if inside.is_relative_to(root) else Path(inside.name)
        target = (folder / inside).resolve()
        if not target.is_relative_to(folder):
            raise fail("E520", f"the saved program has a file outside its folder: {path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
