"""The division of parallel text into training, validation and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .._diagnostics import fail
from ..data import generator
from ._corpus import read_pairs
from ._kept_stages import file_hash
from ._train_pairs import Pairs
from ._vocabulary import spaced
from .limits import HELD_OUT_PAIRS


def without_overlap(found: Mapping[str, Pairs]) -> tuple[dict[str, Pairs], int]:
    """Return pairs by name, without training pairs whose source occurs in validation or test.

    Sources are compared up to white space. The second result is the number of removed pairs.

    Raises:
        GmlmError: E505 if no training pair is left.
    """
    held = {spaced(s) for part in ("validation", "test") for s, _ in found.get(part, [])}
    kept = [(s, t) for s, t in found["train"] if spaced(s) not in held]
    if not kept and found["train"]:
        message = f"each of the {len(found['train']):,} pairs to train on has a source of validation or test: none is left"
        raise fail("E505", message, help="give more text, or other text to validate and to score")
    return {**found, "train": kept}, len(found["train"]) - len(kept)


@dataclass(frozen=True)
class Texts:
    """The parallel text of a run.

    Each part is one file with both languages, or two files. `read` holds an empty part out of the training text.

    Attributes:
        train: the files of the training text.
        validation: the files of the validation text.
        test: the files of the test text.
        limit: the number of first pairs of the training text that are used; None uses all.
        test_limit: the number of first pairs of the test text that are used; None uses all.
        reverse: whether source and target are exchanged.
    """

    train: tuple[Path, ...]
    validation: tuple[Path, ...] = ()
    test: tuple[Path, ...] = ()
    limit: int | None = None
    test_limit: int | None = None
    reverse: bool = False

    @cached_property
    def hashes(self) -> list[list[str]]:
        """The hashes of the files."""
        return [[file_hash(p) for p in part] for part in (self.train, self.validation, self.test)]

    def read(self, seed: int) -> dict[str, Pairs]:
        """Return the pairs by name; empty parts are held out of the training text.

        Raises:
            GmlmError: for files that cannot be read or do not fit together; E584 if the pairs are
                too few to hold any out.
        """
        found = {"train": self._pairs(self.train)}
        for name, paths in (("validation", self.validation), ("test", self.test)):
            if paths:
                found[name] = self._pairs(paths)
        missing = [name for name in ("validation", "test") if name not in found]
        if missing:
            every = found["train"]
            count = min(HELD_OUT_PAIRS, max(1, len(every) // 20))
            if len(every) <= count * len(missing):
                message = f"{len(every)} pairs are too few to hold any out for {' and '.join(missing)}"
                raise fail("E584", message, help="give more, or say which: `--validation` and `--test`")
            order = generator(seed).permutation(len(every))
            for k, name in enumerate(missing):
                found[name] = [every[i] for i in sorted(order[k * count : (k + 1) * count])]
            found["train"] = [every[i] for i in sorted(order[len(missing) * count :])]
        return {"train": found["train"][: self.limit], "validation": found["validation"], "test": found["test"][: self.test_limit]}

    def read_given(self) -> dict[str, Pairs]:
        """Return the pairs of the training text and of validation, without holding any out."""
        found = {"train": self._pairs(self.train)[: self.limit]}
        return found | {"validation": self._pairs(self.validation) if self.validation else []}

    def pairs(self) -> Pairs:
        """Return the pairs of the training text alone."""
        return self._pairs(self.train)[: self.limit]

    def _pairs(self, paths: tuple[Path, ...]) -> Pairs:
        if len(paths) not in (1, 2):
            raise fail("E584", f"a parallel text is one file with both languages or two files, and there are {len(paths)}")
        pairs = read_pairs(*paths)
        return [(t, s) for s, t in pairs] if self.reverse else pairs
