"""The commands `gmlm import` and `gmlm export`, which read and write files of other tools."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from .._diagnostics import fail
from ..files import whole_file, write_whole
from ._model_source import ModelSource, model_and_params
from ._program_arguments import read_clamps


def run_import(file: Path, out: Path | None, evidence: Path | None) -> None:
    """Write the program of a file, its inputs and parameters, and print paths and changes.

    Raises:
        GmlmError: E560 if a file exists at a path, E507 for a path without the ending `.gmlm`, and
            the errors of `gm.read_model`.
    """
    from ..exchange import read_model
    from ..read import is_packed, verify_readable

    verify_readable(file)
    packed = file.with_suffix("") if is_packed(file) else file
    program = out or Path(packed.name).with_suffix(".gmlm")
    if program.suffix != ".gmlm":
        raise fail("E507", f"`--out {program}`: a program is a .gmlm file", help="for example `--out asia.gmlm`")
    arrays, values = program.with_suffix(".npz"), program.with_suffix(".params.npz")
    for target in (program, arrays, values):
        if os.path.lexists(target):
            help = "name another file with `--out`; what is there stays as it is"
            raise fail("E560", f"cannot write {target}: there is a file already", help=help)
    found = read_model(file, evidence)
    if found.inputs:
        import numpy as np

        with whole_file(arrays) as part, part.open("wb") as handle:
            np.savez_compressed(handle, **found.inputs)  # pyright: ignore[reportArgumentType]
    if found.params:
        import numpy as np

        with whole_file(values) as part, part.open("wb") as handle:
            np.savez(handle, **found.params)  # pyright: ignore[reportArgumentType]
    write_whole(program, found.text.encode())
    for note in found.notes:
        print(f"note: {note}")
    print(f"wrote {program}")
    if found.inputs:
        print(f"wrote {arrays}, its inputs: `gmlm info {program} --inputs {arrays}`")
    if found.params:
        print(f"wrote {values}, its parameters: `--params {values}` of `gmlm sample` and `gmlm export`")


def run_export(source: ModelSource, out: Path, clamp: Sequence[str]) -> None:
    """Write a model as a file of another tool, and print what was changed and the path.

    Clamped cells are the evidence beside a UAI file.

    Raises:
        GmlmError: as `model_and_params` and `JointModel.export`.
    """
    from ..exchange import evidence_path, verified_ending

    verified_ending(out)
    files = [out, evidence_path(out)] if clamp else [out]
    model, params = model_and_params(source, "export")
    for note in model.export(params, out, clamp=read_clamps(clamp, model.graph)):
        print(f"note: {note}")
    for file in files:
        print(f"wrote {file}")
