"""The commands `gmlm new`, `gmlm mock` and `gmlm examples`: projects to start from, and data."""

from __future__ import annotations

import csv
import io
import os
import random
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .._diagnostics import did_you_mean, fail
from ..files import made_folder, shipped_folder, write_whole
from ._console import print_table
from ._model_source import ModelSource, checked_program, pick
from ._program_arguments import bind_program
from .limits import STARTER_ROWS

if TYPE_CHECKING:
    import numpy as np

    from ..graph import FactorGraph

# The subfolders of `examples/` whose programs a wheel contains, as pyproject.toml lists them.
FOLDERS = ("", "guided", "translator")
# A wheel contains these in `guided`; a checkout has them in the folders of their laboratories.
OF_LABS = {n: f"labs/{n}/{n}.gmlm" for n in ("brackets", "testcases")}
_COMMENT = re.compile(r"#[ \t]*(?:[\w.-]+\.gmlm\b:?)?[ \t]*(.*)")
QUESTIONS = ("budget", "schools", "roads", "parks", "taxes")
STEPS = """gmlm check {name}.gmlm
gmlm info {name}.gmlm --input n=5
gmlm fit {name}.gmlm data.csv --mask pairs --out {name}.fit
gmlm sample {name}.fit --sampler gibbs
gmlm masks {name}.fit
"""
README = """# {name}

A model of the answers of a council: which answers go together. `{name}.gmlm` is the program, and `data.csv` has one row for each member
and one column for each question, with `y` or `n` in each cell. The answers are invented: put your own table there, with your own columns.

```sh
{steps}```

- `check` prints every fault of the program.
- `info` lists its parts.
- `fit` estimates the parameters under the mask `pairs` and saves them.
- `sample` draws answers from the fitted model.
- `masks` compares the masks of the program at the fitted parameters.

`gmlm explain {name}.gmlm` prints the formulas, and `gmlm explain factor` explains a word of the language.
"""


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


def run_new(folder: Path) -> None:
    """Write a starter project into a new folder, and print its files and the next commands.

    Raises:
        GmlmError: E507 for a name that is not a plain word, E560 if the folder has a file or cannot
            be written.
    """
    name = folder.name
    if not re.fullmatch(r"[A-Za-z][\w-]*", name):
        word = "a word of letters, digits, - and _ that begins with a letter"
        message = f"a project is named by {word}, got {name!r}"
        raise fail("E507", message, help="`gmlm new council`, say")
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise fail("E560", f"cannot write {folder}: it exists already", help="name a new folder")
    comment, _, program = examples()["votes"].read_text(encoding="utf-8").partition("\n")
    steps = STEPS.format(name=name)
    texts = {
        f"{name}.gmlm": f"{comment.replace('votes.gmlm', f'{name}.gmlm')}\n{program}",
        "data.csv": _table(QUESTIONS, _answers()),
        "README.md": README.format(name=name, steps=steps),
    }
    made_folder(folder)
    for file, text in texts.items():
        write_whole(folder / file, text.encode())
        print(f"wrote {folder / file}")
    print(f"\nnext:\ncd {shlex.quote(str(folder))}\n{steps}", end="")


def _answers() -> list[list[str]]:
    """Return invented answers: members of two opinions, each of whom deviates at random."""
    rng = random.Random(0)
    sides = [rng.random() < 0.5 for _ in range(STARTER_ROWS)]
    pattern = (True, True, False, True, False)
    return [["y" if (side == agrees) != (rng.random() < 0.25) else "n" for agrees in pattern] for side in sides]


def run_mock(source: ModelSource, rows: int, seed: int, out: Path) -> None:
    """Write invented data for a program, and its missing inputs, and print the command that fits them.

    Raises:
        GmlmError: E560 if a file exists or cannot be written, and errors of the program.
    """
    import numpy as np

    from ..data import invented

    checked, given = checked_program(source.file, source.inputs, source.arrays)
    name = pick(source.model, list(checked.models), "model")
    inputs = invented(checked, given, seed)
    model = bind_program(checked, inputs, None, source.allow_python).model(name)
    data = model.mock(rows, seed=seed)
    stem, files = source.file.stem, {}
    arrays = {k: v for k, v in inputs.items() if isinstance(v, np.ndarray)}
    if arrays:
        files[out / f"{stem}-inputs.npz"] = _packed(arrays)
    by_variable = data["x"] if isinstance(data["x"], Mapping) else {model.graph.observed[0].name: data["x"]}
    is_table = not model.graph.given and all(v.members is None for v in model.graph.observed)
    if is_table:
        path = out / f"{stem}-data.csv"
        files[path] = _cells(model.graph, by_variable).encode()
    else:
        path = out / f"{stem}-data.npz"
        files[path] = _packed({**by_variable, **data.get("given", {})})
    for file in files:
        if os.path.lexists(file):
            raise fail("E560", f"cannot write {file}: there is a file already", help="name another folder with `--out`")
    made_folder(out)
    for file, content in files.items():
        write_whole(file, content)
        print(f"wrote {file}")
    if model.graph.network is not None and model.graph.given:
        print("`gmlm fit` takes no given data of a network: in Python, `model.fit(**model.mock(100))` does")
        return
    words = ["gmlm", "fit", str(source.file), str(path), *["--model", name] * (len(checked.models) > 1)]
    masks = [m.name for m in checked.masks.values() if m.model == name and not m.body.is_percolation]
    words += ["--mask", masks[0]] * (len(masks) > 1)
    words += [word for k, v in inputs.items() if k not in arrays for word in ("--input", f"{k}={v}")]
    words += ["--inputs", str(out / f"{stem}-inputs.npz")] * bool(arrays)
    print(f"\nnext:\n{shlex.join(words)}")


def _packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]
    return file.getvalue()


def _cells(graph: FactorGraph, x: Mapping[str, np.ndarray]) -> str:
    """Return a table with a column for each cell, with labels and letters as texts."""
    import numpy as np

    columns: list[Sequence[object]] = []
    heads = []
    for v in graph.observed:
        codes = np.asarray(v.codes_of(x[v.name])).reshape(len(x[v.name]), -1)
        columns += np.asarray([str(label) for label in v.labels])[codes].T.tolist()
        heads += [graph.cell_name(k) for k in range(v.offset, v.offset + v.size)]
    return _table(heads, list(zip(*columns, strict=True)))


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
