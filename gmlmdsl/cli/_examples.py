"""The command `gmlm examples`, which lists and copies the programs of the package."""

from __future__ import annotations

import os
import re
from pathlib import Path

from .._diagnostics import did_you_mean, fail
from ..files import made_folder, shipped_folder, write_whole
from ._console import print_table

# The subfolders of `examples/` whose programs a wheel contains, as pyproject.toml lists them.
FOLDERS = ("", "guided", "translator")
# A wheel contains these in `guided`; a checkout has them in the folders of their laboratories.
OF_LABS = {n: f"labs/{n}/{n}.gmlm" for n in ("brackets", "testcases")}
_COMMENT = re.compile(r"#[ \t]*(?:[\w.-]+\.gmlm\b:?)?[ \t]*(.*)")


def run_examples(name: str | None, out: Path | None) -> None:
    """List the examples, or copy one and print the paths of the copies."""
    if name is None:
        print_table(["example", "is"], [[name, description(path)] for name, path in examples().items()])
        return
    for path in copy_example(name, out or Path()):
        print(f"wrote {path}")


def examples() -> dict[str, Path]:
    """Return the file of each example by its name: `ising`, `translator/tiny`.

    Raises:
        GmlmError: E120 if the installation lacks the examples.
    """
    folder = shipped_folder("examples")
    found = {p.relative_to(folder).with_suffix("").as_posix(): p for name in FOLDERS for p in sorted((folder / name).glob("*.gmlm"))}
    found |= {f"guided/{name}": path for name, of_lab in OF_LABS.items() if (path := folder / of_lab).is_file()}
    if not found:
        raise fail("E120", f"there are no examples in {folder}", help="install the package anew: its wheel holds them")
    return dict(sorted(found.items(), key=lambda example: ("/" in example[0], example[0])))


def description(path: Path) -> str:
    """Return the text of a program's first comment after the name of its file."""
    found = _COMMENT.match(path.read_text(encoding="utf-8"))
    return found[1] if found else ""


def copy_example(name: str, out: Path) -> list[Path]:
    """Copy an example and the files that it imports.

    Args:
        name: a name of `examples`.
        out: a folder, which is created, or a path that ends in `.gmlm`.

    Returns:
        The written files, the example first. Imported files that already exist unchanged are not
        written.

    Raises:
        GmlmError: E507 for an unknown name, E560 if another file exists at a path or nothing can be
            written.
    """
    source = _named(name)
    first = out if out.suffix == ".gmlm" else out / source.name
    files = {first.parent / p.relative_to(source.parent): p for p in _imported(source)} | {first: source}
    for target, path in files.items():
        if os.path.lexists(target) and (target == first or not _is_equal(target, path)):
            help = "name another folder or file with `--out`; what is there stays as it is"
            raise fail("E560", f"cannot write {target}: there is a file already", help=help)
    written = [first, *(t for t in files if t != first and not os.path.lexists(t))]
    for target in written:
        made_folder(target.parent)
        write_whole(target, files[target].read_bytes())
    return written


def _named(name: str) -> Path:
    found = examples()
    if name in found:
        return found[name]
    whole = {Path(n).name: n for n in found} | {n: n for n in found}
    near = did_you_mean(name.removesuffix(".gmlm"), whole)
    help = f"did you mean `{whole[near]}`?" if near else "`gmlm examples` lists them"
    raise fail("E507", f"there is no example `{name}`", help=help)


def _imported(path: Path) -> list[Path]:
    """Return the files that a program imports, directly or indirectly."""
    from ..program import check_file

    return [Path(source.path) for source in check_file(path).sources if Path(source.path) != path]


def _is_equal(a: Path, b: Path) -> bool:
    return a.is_file() and a.read_bytes() == b.read_bytes()
