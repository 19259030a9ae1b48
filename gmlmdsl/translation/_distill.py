"""Sequence-level distillation: the teacher's translations of the training sources take the place of the true ones (Kim and Rush 2016).

They are written in chunks, each with a manifest of what it was made of: a run that was killed goes on behind the last whole chunk.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..data import MOST_SEED
from ..files import write_whole
from ._lock import alone
from ._translator import Translation

if TYPE_CHECKING:
    from ._translator import Translator

CHUNK = 512  # lines of a file of translations
FORMAT = 2  # of such a file


@dataclass(frozen=True)
class Distilled:
    """What a teacher made of sources.

    Attributes:
        lines: how many there were.
        empty: how many became nothing.
        unended: translations that fill the row to its last cell: their end is cut off.
        decoded: how many were decoded in this run; the others were there.
        cut: sources with a sentence that the teacher cannot take, whose end it did not see.
    """

    lines: int
    empty: int
    unended: int
    decoded: int
    cut: int = 0

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return asdict(self)


def distill(
    teacher: Translator,
    sources: Sequence[str],
    path: str | Path,
    *,
    identity: str,
    sampler: str | None = None,
    seed: int = 0,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> Distilled:
    """Translate sources with a teacher into a text file, a line for each source.

    Args:
        teacher: a translator.
        sources: lines; one that the teacher cannot take is cut, so that no line is lost.
        path: of the text file; chunks lie beside it in `<name>.chunks` until it is whole.
        identity: a hash of the teacher's weights and vocabulary: chunks of another one are made anew.
        sampler: of the teacher; None: its own.
        seed: of what is random in decoding.
        tell: called with the number of lines that are done, and of all.

    Raises:
        GmlmError: E560 where nothing can be written, E588 where another run writes the same file.
    """
    path = Path(path)
    folder = path.with_name(f"{path.name}.chunks")
    name = teacher.sampler_named(sampler)
    found: list[dict[str, object]] = []
    decoded = 0
    with alone(folder):
        for k, start in enumerate(range(0, len(sources), CHUNK)):
            some = sources[start : start + CHUNK]
            key = _hash(json.dumps([FORMAT, identity, name, seed, start, list(some)]))
            chunk = folder / f"{k:06d}.json"
            known = _read(chunk, key)
            if known is None:
                lines = teacher.translate(some, sampler=name, seed=(seed + start) % (MOST_SEED + 1), cut=True)
                counts = {"unended": sum(_fills(t, teacher) for t in lines), "cut": sum(t.cut > 0 for t in lines)}
                known = {"key": key, "texts": [t.text for t in lines], **counts}
                write_whole(chunk, json.dumps(known | {"sha256": _hash(json.dumps(known))}).encode())
                decoded += len(some)
            found.append(known)
            tell(min(start + CHUNK, len(sources)), len(sources))
        texts = [str(t) for part in found for t in part["texts"]]  # type: ignore[attr-defined]
        write_whole(path, "".join(f"{t}\n" for t in texts).encode())
        shutil.rmtree(folder, ignore_errors=True)
    unended, cut = (sum(int(part[what]) for part in found) for what in ("unended", "cut"))  # type: ignore[call-overload]
    return Distilled(len(sources), sum(not t for t in texts), unended, decoded, cut)


def _fills(t: Translation, teacher: Translator) -> bool:
    return len(t.pieces) >= teacher.pair.cells[1]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(chunk: Path, key: str) -> dict[str, object] | None:
    """A chunk that is whole and of this run; None where it must be made."""
    try:
        found = json.loads(chunk.read_text(encoding="utf-8"))
        digest = found.pop("sha256")
        return found if found["key"] == key and digest == _hash(json.dumps(found)) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
