"""Phrases that must occur in translations: where each of them stands.

A draft is made without them. A phrase of k subword tokens that the draft lacks replaces no token of
it, k - 1, k or k + 1, or as many as a full row requires. It stands where the network gives it the
largest probability:

    max over spans of sum_j log p(phrase_j | source, the tokens of the draft outside the span)

One pass predicts all tokens of a phrase that is hidden in its place. The phrase's cells are then
fixed, and the sampler refines the draft around them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._diagnostics import counted, fail
from ._vocabulary import UNKNOWN, Vocabulary, is_many

Array = np.ndarray
Phrases = tuple[tuple[int, ...], ...]  # the subword tokens of each phrase of a line
Score = Callable[[int, Array, Array], Array]
FREE, PREFIX = -1, -2  # owners of tokens that no phrase fixes


@dataclass(frozen=True)
class Draft:
    """A draft of one part of a line.

    Attributes:
        tokens: its subword tokens.
        owners: for each token the number of the phrase that fixes it, `PREFIX` or `FREE`.
    """

    tokens: tuple[int, ...]
    owners: tuple[int, ...]

    @classmethod
    def of(cls, tokens: tuple[int, ...], held: int) -> Draft:
        """Return a draft whose first `held` tokens are those of a prefix."""
        return cls(tokens, (PREFIX,) * held + (FREE,) * (len(tokens) - held))

    @property
    def has_phrase(self) -> bool:
        """Whether a phrase fixes some tokens."""
        return any(owner >= 0 for owner in self.owners)

    def cells_of(self, owner: int, cells: int) -> Array:
        """Return which cells a phrase fixes, shape (cells,)."""
        return np.pad(np.array(self.owners) == owner, (0, cells - len(self.owners)))

    def rows(self, cells: int) -> tuple[Array, Array]:
        """Return the tokens and the fixed tokens among them, -1 elsewhere; each of shape (cells,)."""
        tokens, fixed = np.full((2, cells), -1, np.int32)
        tokens[: len(self.tokens)] = self.tokens
        own = np.flatnonzero(np.array(self.owners) != FREE)
        fixed[own] = tokens[own]
        return tokens, fixed

    def spans(self, sizes: Sequence[int], end: int) -> Iterator[slice]:
        """Yield the spans of free tokens before the end mark, of each size, that a phrase may replace."""
        body = len(self.tokens) - (self.tokens[-1:] == (end,))
        for size in sizes:
            for start in range(body - size + 1):
                inside = self.owners[max(start - 1, 0) : start + 1]
                cuts = size == 0 and len(inside) == 2 and inside[0] == inside[1] != FREE
                if not cuts and all(owner == FREE for owner in self.owners[start : start + size]):
                    yield slice(start, start + size)

    def place_of(self, phrase: tuple[int, ...]) -> slice | None:
        """Return where the phrase stands among free tokens already, or None."""
        starts = range(len(self.tokens) - len(phrase) + 1)
        spans = (slice(start, start + len(phrase)) for start in starts)
        return next((s for s in spans if self.tokens[s] == phrase and set(self.owners[s]) == {FREE}), None)

    def with_phrase(self, span: slice, phrase: tuple[int, ...], owner: int) -> Draft:
        """Return the draft in which the phrase replaces a span."""

        def replaced(row: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
            return (*row[: span.start], *new, *row[span.stop :])

        return Draft(replaced(self.tokens, phrase), replaced(self.owners, (owner,) * len(phrase)))


def encoded_phrases(vocabulary: Vocabulary, texts: Any, line: int) -> Phrases:
    """Return the subword tokens of the texts that the translation of a line must contain.

    Raises:
        GmlmError: E507 for anything but a list of texts with letters that the vocabulary has.
    """
    if not is_many(texts) or not all(isinstance(t, str) and t.strip() for t in texts):
        raise fail("E507", f"phrases of line {line} must be a list of texts that are not empty, got {texts!r:.60}")
    found = tuple(tuple(row[:-1]) for row in vocabulary.encode(list(texts)))
    for text, pieces in zip(texts, found, strict=True):
        if UNKNOWN in pieces:
            help = "leave it out, or train the vocabulary with `byte_fallback=True`"
            raise fail("E507", f"the vocabulary lacks letters of the phrase {text!r:.60} of line {line}", help=help)
    return found


def with_phrases(drafts: Sequence[Draft], phrases: Phrases, score: Score, cells: int, end: int, line: int) -> list[Draft]:
    """Return the drafts of the parts of a line with all of its phrases, each in one of the parts.

    Args:
        drafts: a draft of each part.
        phrases: the subword tokens of each phrase. Longer ones are placed first.
        score: a function of the number of a part, of codes and of the hidden cells among them, both
            of shape (candidates, cells), which returns the log p of the hidden cells of each.
        cells: the number of cells of a part.
        end: the code of the end mark.
        line: the number of the line, counted from 1, for messages.

    Raises:
        GmlmError: E583 if a phrase has no room.
    """
    found = list(drafts)
    for number in sorted(range(len(phrases)), key=lambda k: -len(phrases[k])):
        phrase = phrases[number]
        there = [(p, draft.with_phrase(at, phrase, number)) for p, draft in enumerate(found) if (at := draft.place_of(phrase))]
        candidates = there[:1] or _candidates(found, phrase, number, cells, end)
        if not candidates:
            message = f"line {line} has no room for a phrase of {counted(len(phrase), 'piece')}"
            help = "fewer or shorter phrases, or a model of longer rows"
            raise fail("E583", f"{message}: a translation has {cells} with its end mark", help=help)
        part, draft = there[0] if there else _likeliest(candidates, number, score, cells)
        found[part] = draft
    return found


def _candidates(drafts: Sequence[Draft], phrase: tuple[int, ...], number: int, cells: int, end: int) -> list[tuple[int, Draft]]:
    """Return the drafts in which the phrase replaces some tokens, with the number of the part."""
    k, out = len(phrase), []
    for part, draft in enumerate(drafts):
        least = max(0, len(draft.tokens) + k - cells)  # More must go where the row is full.
        sizes = sorted({max(s, least) for s in (0, k - 1, k, k + 1)})
        out += [(part, draft.with_phrase(span, phrase, number)) for span in draft.spans(sizes, end)]
    return out


def _likeliest(candidates: Sequence[tuple[int, Draft]], number: int, score: Score, cells: int) -> tuple[int, Draft]:
    """Return the candidate whose new phrase has the largest probability."""
    scores = np.empty(len(candidates))
    parts = np.array([part for part, _ in candidates])
    for part in np.unique(parts):
        mine = np.flatnonzero(parts == part).tolist()
        codes = np.stack([candidates[k][1].rows(cells)[0] for k in mine])
        scores[mine] = score(int(part), codes, np.stack([candidates[k][1].cells_of(number, cells) for k in mine]))
    return candidates[int(np.argmax(scores))]
