"""Sequence-level distillation: a teacher's translations replace the true ones (Kim and Rush 2016).

The teacher translates the training sources. A translation without an end mark, and one that loops
although its source does not, are useless for training. Their lines are left empty, and cleaning
removes them. Translations are written in chunks of lines, each with a manifest of its inputs. A
killed run resumes after the last complete chunk.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..data import MOST_SEED
from ..derive import of_first, spread_of
from ..files import alone, write_whole
from ._translation import Translation
from .limits import CHUNK_LINES, LONGEST_LOOP, LOOP_REPEATS, MANY_UNUSABLE

if TYPE_CHECKING:
    from ._translator import Translator

FORMAT = 3  # The format of a chunk file.
COUNTED = ("empty", "unended", "cut", "looping")


@dataclass(frozen=True)
class Distilled:
    """The counts of a teacher's translations of sources.

    Attributes:
        lines: the number of sources.
        empty: the number of translations that are empty by themselves.
        unended: translations that fill the row to its last cell without an end mark; their lines
            are empty.
        decoded: the number of lines decoded in this run; the others existed before.
        cut: sources with a sentence that is too long for the teacher, which did not see the
            sentence's end.
        looping: translations with an end mark that loop, see `loops`, although their source does
            not; their lines are empty.
    """

    lines: int
    empty: int
    unended: int
    decoded: int
    cut: int = 0
    looping: int = 0

    def warning(self) -> str:
        """Return advice about unusable translations, or an empty text if they are few."""
        left_out = self.unended + self.looping
        if left_out <= MANY_UNUSABLE * self.lines:
            return ""
        share = f"{left_out:,} of {self.lines:,} translations ({100 * left_out / self.lines:.1f} %) are left out"
        return f"{share}, {self.unended:,} without an end and {self.looping:,} that loop: a teacher that is trained longer makes fewer"

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
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
    mesh_axis: str | None = None,
) -> Distilled:
    """Translate sources with a teacher into a text file with one line for each source.

    Args:
        teacher: a translator.
        sources: lines; a line that is too long for the teacher is cut, so that no line is lost.
        path: the path of the text file. Chunks are stored beside it in `<name>.chunks` until the
            text is complete.
        identity: a hash of the teacher's weights and vocabulary; chunks with another hash are
            computed again.
        sampler: a sampler of the teacher; None selects its own.
        seed: the seed of the random numbers in decoding.
        tell: a function that is called with the number of finished lines and the number of all
            lines.
        keep_chunks: whether the chunks stay when the text is complete, for a caller that continues.
        mesh_axis: as in `Translator.translate`. Of several processes the first one stores and reads
            the chunks, and each writes the text.

    Raises:
        GmlmError: E560 if nothing can be written, E588 if another run writes the same file.
    """
    path = Path(path)
    folder = chunks_of(path)
    name = teacher.sampler_named(sampler)
    found: list[dict[str, object]] = []
    decoded, spread = 0, spread_of(mesh_axis)
    writes = spread is None or spread.writes
    with alone(folder) if writes else nullcontext():
        for k, start in enumerate(range(0, len(sources), CHUNK_LINES)):
            some = sources[start : start + CHUNK_LINES]
            key = _hash(json.dumps([FORMAT, identity, name, seed, start, list(some)]))
            chunk = folder / f"{k:06d}.json"
            known = _read(chunk, key)
            if spread is not None and spread.several:
                known = json.loads(of_first(json.dumps(known).encode()))
            if known is None:
                own = (seed + start) % (MOST_SEED + 1)
                lines = teacher.translate(some, sampler=name, seed=own, cut=True, mesh_axis=mesh_axis)
                known = {"key": key, **_left(some, lines)}
                if writes:
                    sealed = known | {"sha256": _hash(json.dumps(known))}
                    write_whole(chunk, json.dumps(sealed).encode())
                decoded += len(some)
            found.append(known)
            tell(min(start + CHUNK_LINES, len(sources)), len(sources))
        texts = [str(t) for part in found for t in part["texts"]]  # type: ignore[attr-defined]
        write_whole(path, "".join(f"{t}\n" for t in texts).encode())
        if writes and not keep_chunks:
            shutil.rmtree(folder, ignore_errors=True)
    counts = {what: sum(int(part[what]) for part in found) for what in COUNTED}  # type: ignore[call-overload]
    return Distilled(len(sources), decoded=decoded, **counts)


def chunks_of(path: Path) -> Path:
    """Return the folder of the chunks of a text file."""
    return path.with_name(f"{path.name}.chunks")


def _left(sources: Sequence[str], found: Sequence[Translation]) -> dict[str, object]:
    """Return the translations with their counts; unusable translations are empty lines."""
    unended = [not t.ended for t in found]
    looping = [t.ended and loops(t.text) and not loops(s) for s, t in zip(sources, found, strict=True)]
    texts = ["" if u or again else t.text for u, again, t in zip(unended, looping, found, strict=True)]
    counts = sum(not t.text for t in found), sum(unended), sum(t.cut > 0 for t in found), sum(looping)
    return {"texts": texts, **dict(zip(COUNTED, counts, strict=True))}


def loops(text: str) -> bool:
    """Return whether a sequence of one to four words occurs three times in succession.

    White space separates words.
    """
    words = text.split()
    for n in range(1, LONGEST_LOOP + 1):
        again = 0  # The number of successive words that equal the word n before them.
        for one, other in zip(words, words[n:], strict=False):
            again = again + 1 if one == other else 0
            if again == n * (LOOP_REPEATS - 1):
                return True
    return False


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(chunk: Path, key: str) -> dict[str, object] | None:
    """Return a chunk if it is complete and belongs to this run, otherwise None."""
    try:
        found = json.loads(chunk.read_text(encoding="utf-8"))
        digest = found.pop("sha256")
        return found if found["key"] == key and digest == _hash(json.dumps(found)) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
