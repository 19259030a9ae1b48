"""Sequence-level distillation: the teacher's translations of the training sources take the place of the true ones (Kim and Rush 2016).

A translation without an end mark, and one that loops where its source does not, teach nothing:
their lines are left empty, which cleaning leaves out. Chunks of lines are written, each with a
manifest of what it was made of: a killed run goes on behind the last whole one.
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
from ..files import alone, write_whole
from ._translator import Translation

if TYPE_CHECKING:
    from ._translator import Translator

CHUNK = 512  # lines of a file of translations
FORMAT = 3  # of such a file
# so often a run of up to so many words stands in succession in a translation that loops
REPEATED, LONGEST = 3, 4
COUNTED = ("empty", "unended", "cut", "looping")
MANY = 0.01  # share of translations that are left out, above which the teacher is at fault


@dataclass(frozen=True)
class Distilled:
    """What a teacher made of sources.

    Attributes:
        lines: how many there were.
        empty: how many became nothing by themselves.
        unended: translations that fill the row to its last cell without an end mark: their lines
            are empty.
        decoded: how many were decoded in this run; the others were there.
        cut: sources with a sentence that the teacher cannot take, whose end it did not see.
        looping: translations with an end mark that loop, see `loops`, where their source does not:
            their lines are empty.
    """

    lines: int
    empty: int
    unended: int
    decoded: int
    cut: int = 0
    looping: int = 0

    def warning(self) -> str:
        """What to do about translations that are left out, where they are many."""
        left_out = self.unended + self.looping
        if left_out <= MANY * self.lines:
            return ""
        share = f"{left_out:,} of {self.lines:,} translations ({100 * left_out / self.lines:.1f} %) are left out"
        return f"{share}, {self.unended:,} without an end and {self.looping:,} that loop: a teacher that is trained longer makes fewer"

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
    keep_chunks: bool = False,
) -> Distilled:
    """Translate sources with a teacher into a text file, a line for each source.

    Args:
        teacher: a translator.
        sources: lines; one that the teacher cannot take is cut, so that no line is lost.
        path: of the text file; chunks lie beside it in `<name>.chunks` until it is whole.
        identity: a hash of the teacher's weights and vocabulary: chunks of another one are made
            anew.
        sampler: of the teacher; None: its own.
        seed: of what is random in decoding.
        tell: called with the number of lines that are done, and of all.
        keep_chunks: whether the chunks stay when the text is whole, for a caller that is not done
            yet.

    Raises:
        GmlmError: E560 where nothing can be written, E588 where another run writes the same file.
    """
    path = Path(path)
    folder = chunks_of(path)
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
                known = {"key": key, **_left(some, lines)}
                write_whole(chunk, json.dumps(known | {"sha256": _hash(json.dumps(known))}).encode())
                decoded += len(some)
            found.append(known)
            tell(min(start + CHUNK, len(sources)), len(sources))
        texts = [str(t) for part in found for t in part["texts"]]  # type: ignore[attr-defined]
        write_whole(path, "".join(f"{t}\n" for t in texts).encode())
        if not keep_chunks:
            shutil.rmtree(folder, ignore_errors=True)
    counts = {what: sum(int(part[what]) for part in found) for what in COUNTED}  # type: ignore[call-overload]
    return Distilled(len(sources), decoded=decoded, **counts)


def chunks_of(path: Path) -> Path:
    """The folder of the chunks of a text file."""
    return path.with_name(f"{path.name}.chunks")


def _left(sources: Sequence[str], found: Sequence[Translation]) -> dict[str, object]:
    """The translations that are kept, those that are not as empty lines, with counts."""
    unended = [not t.ended for t in found]
    looping = [t.ended and loops(t.text) and not loops(s) for s, t in zip(sources, found, strict=True)]
    texts = ["" if u or again else t.text for u, again, t in zip(unended, looping, found, strict=True)]
    counts = sum(not t.text for t in found), sum(unended), sum(t.cut > 0 for t in found), sum(looping)
    return {"texts": texts, **dict(zip(COUNTED, counts, strict=True))}


def loops(text: str) -> bool:
    """Whether a run of one to four words stands three times in succession; words are what white space separates."""
    words = text.split()
    for n in range(1, LONGEST + 1):
        again = 0  # words in succession that equal the one n before
        for one, other in zip(words, words[n:], strict=False):
            again = again + 1 if one == other else 0
            if again == n * (REPEATED - 1):
                return True
    return False


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
