"""Check a program whose texts are not files on disk.

Examples are the texts of a saved fit, and a program with additional statements.
"""

from __future__ import annotations

from pathlib import Path

from .._diagnostics import Source, fail
from ._check import check_file, check_source
from ._program import Program


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
