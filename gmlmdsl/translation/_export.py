"""The export of a translator's decoder as one StableHLO program that JAX alone runs.

The file is an archive in the format of `files/_archive.py`, a plain ZIP file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._diagnostics import fail, is_one_of, listed
from .._optional import need
from .._types import JsonObject
from ..files import MANIFEST, ArchiveKind, as_path, pack, write_whole
from ..graph import versions
from ._vocabulary import is_many

if TYPE_CHECKING:
    from ..decode import RowDecoder
    from ._vocabulary import Vocabulary

PROGRAM, VOCABULARY = "decoder.stablehlo", "vocabulary.model"
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
MOST = {MANIFEST: 1 << 20, PROGRAM: (1 << 31) - (1 << 27), VOCABULARY: 1 << 26}
ENTRIES = ("direction", "model", "sampler", "precision", "seed", "source", "target", "end", "platforms", "vocabulary", "versions")
EXPORT = ArchiveKind("gmlm export", 1, (), MOST.get, (PROGRAM, VOCABULARY), ENTRIES, "E575", "export", "export a smaller model")


def write_export(
    path: str | Path,
    decoder: RowDecoder,
    vocabulary: Vocabulary,
    rows: range,
    cells: tuple[int, int],
    platforms: Iterable[str],
    entries: JsonObject,
) -> None:
    """Write the program of a decoder for one shape of its source.

    Args:
        path: the path of the file.
        decoder: the decoder.
        vocabulary: the vocabulary of both sides.
        rows: the numbers of the rows, which determine the random draws.
        cells: the widths of source and target.
        platforms: the platforms of JAX for which the program is lowered.
        entries: the direction, model, sampler, precision and seed.

    Raises:
        GmlmError: E507 for platforms that JAX does not have; E560 if the file cannot be written;
            E561 without FlatBuffers; E575 for a program that is too large.
    """
    need("flatbuffers", "an export needs FlatBuffers", '"gmlmdsl[export]"')
    import jax
    from jax import export

    path = as_path(path, "E560")
    wanted = list(platforms) if is_many(platforms) else []
    if not wanted or not all(is_one_of(p, PLATFORMS) for p in wanted):
        raise fail("E507", f"platforms must be a list of some of {listed(PLATFORMS)}, got {platforms!r:.60}")
    source = jax.ShapeDtypeStruct((len(rows), cells[0]), np.int32)
    function = jax.jit(decoder.traceable(rows, cells[1], entries["seed"]))
    found = export.export(function, platforms=wanted)(source)
    header = entries | {"source": source.shape, "target": found.out_avals[0].shape, "end": vocabulary.end}
    header |= {"platforms": wanted, "vocabulary": vocabulary.sha256, "versions": versions()}
    write_whole(path, pack(EXPORT, header, {PROGRAM: bytes(found.serialize()), VOCABULARY: vocabulary.data}))
