"""Shortlists: the target tokens that a batch of lines may use, so that logits are computed for these alone.

For each source token they are the likeliest tokens by p(target token | source token) of IBM Model 1,

    p(t_1 .. t_m | s) = prod_j sum_i p(t_j | s_i) / (n + 1),   s_0 = an empty word,

fitted by expectation maximisation, and for all lines the most frequent target tokens.

References: Brown et al. 1993 (Model 1); Jean et al. 2015, Section 3.3 (shortlists of a source).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._diagnostics import fail, whole_number
from ..files import kinds_of_damage
from ._vocabulary import END
from .limits import ALIGNMENT_ROUNDS, FREQUENT_TOKENS, LIKELY_TOKENS, MOST_ALIGNED, MOST_SHORTLIST_BYTES

if TYPE_CHECKING:
    from ._vocabulary import Vocabulary

Array = np.ndarray


@dataclass(frozen=True)
class Shortlist:
    """The target tokens that are likely with each source token.

    Attributes:
        ranked: all codes, the most frequent target token first, shape (codes,).
        likely: for each source token its target tokens, the likeliest first, -1 where there are
            fewer; shape (codes, n).
    """

    ranked: Array
    likely: Array

    @classmethod
    def learn(cls, pairs: Sequence[tuple[str, str]], vocabulary: Vocabulary, n: int = LIKELY_TOKENS) -> Shortlist:
        """Return the shortlist of parallel text.

        Args:
            pairs: sentences with their translations.
            vocabulary: the vocabulary of the translator.
            n: the number of target tokens of a source token.

        Raises:
            GmlmError: E505 without a pair of sentences that are not empty.
        """
        q = vocabulary.size
        n = min(whole_number("likely", n, 1), q)
        if 4 * q * (n + 1) > MOST_SHORTLIST_BYTES:
            message = f"a shortlist of {n:,} tokens for each of {q:,} is too large for a bundle"
            raise fail("E507", message, help=f"take {MOST_SHORTLIST_BYTES // (4 * q) - 1:,} or fewer (`--likely`)")
        sides = zip(*(vocabulary.encode([pair[k] for pair in pairs]) for k in (0, 1)), strict=True)
        rows = [(s[:-1], t[:-1]) for s, t in sides if len(s) > 1 and len(t) > 1]
        if not rows:
            raise fail("E505", "a shortlist is learnt from pairs of sentences, and there is none")
        source, target, p = _lexicon(rows, q)
        order = np.lexsort((target, -p, source))
        source, target = source[order], target[order]
        place = np.arange(len(source)) - np.searchsorted(source, source)
        likely = np.full((q, n), -1, np.int32)
        kept = (place < n) & (source < q)
        likely[source[kept], place[kept]] = target[kept]
        counts = np.bincount(np.concatenate([t for _, t in rows]), minlength=q)
        return cls(np.argsort(-counts, kind="stable").astype(np.int32), likely)

    def codes(self, source: Array, held: Iterable[Array] = ()) -> Array | None:
        """Return the codes for some rows, ascending, or None if these are most of the vocabulary.

        Their number is a power of two, so that few programs are compiled: it is filled up with
        frequent tokens.

        Args:
            source: rows of source tokens, -1 after their ends.
            held: further codes that must be among them; negative ones are ignored.
        """
        q, given = len(self.ranked), np.unique(source[source >= 0])
        every = [np.arange(END + 1), self.ranked[:FREQUENT_TOKENS], self.likely[given].ravel()]
        needed = np.unique(np.concatenate([*every, *map(np.ravel, held)]))
        needed = needed[needed >= 0]
        size = 1 << int(len(needed) - 1).bit_length()
        if 2 * size > q:
            return None
        rest = self.ranked[~np.isin(self.ranked, needed)]
        return np.sort(np.concatenate([needed, rest[: size - len(needed)]])).astype(np.int32)

    def covered(self, pairs: Sequence[tuple[str, str]], vocabulary: Vocabulary) -> float:
        """Return the share of target tokens that are on the shortlists of their lines."""
        found, every = 0, 0
        for source, target in zip(*(vocabulary.encode([pair[k] for pair in pairs]) for k in (0, 1)), strict=True):
            codes = self.codes(np.asarray(source))
            found += len(target) if codes is None else int(np.isin(target, codes).sum())
            every += len(target)
        return found / max(every, 1)

    def to_bytes(self) -> bytes:
        """Return the tables as one array in the format of NumPy."""
        file = io.BytesIO()
        np.save(file, np.column_stack([self.ranked, self.likely]).astype(np.int32), allow_pickle=False)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, size: int) -> Shortlist:
        """Return the shortlist of bytes, for a vocabulary of a size.

        Raises:
            GmlmError: E575 for other bytes.
        """
        try:
            table = np.load(io.BytesIO(data), allow_pickle=False)
        except kinds_of_damage():
            raise fail("E575", "the bundle's shortlist is not an array") from None
        whole = isinstance(table, np.ndarray) and table.dtype == np.int32 and table.ndim == 2 and len(table) == size and table.shape[1] > 0
        if not whole or table.min() < -1 or table.max() >= size or not np.array_equal(np.sort(table[:, 0]), np.arange(size)):
            raise fail("E575", f"the bundle's shortlist is not a table of the {size} codes of its vocabulary")
        return cls(table[:, 0], table[:, 1:])


def _lexicon(rows: Sequence[tuple[list[int], list[int]]], q: int) -> tuple[Array, Array, Array]:
    """Return pairs of a source and a target token that occur together, and p(target | source).

    The empty source word has the code q.
    """
    most = int(np.searchsorted(np.cumsum([(len(s) + 1) * len(t) for s, t in rows]), MOST_ALIGNED)) + 1
    rows = rows[:most]
    source = np.concatenate([np.tile([*s, q], len(t)) for s, t in rows])
    target = np.concatenate([np.repeat(t, len(s) + 1) for s, t in rows])
    heights = np.repeat([len(s) + 1 for s, _ in rows], [len(t) for _, t in rows])
    token = np.repeat(np.arange(len(heights)), heights)  # the target token, counted over all sentences
    kinds, kind = np.unique(source * q + target, return_inverse=True)
    of_source, p = kinds // q, np.full(len(kinds), 1.0)
    for _ in range(ALIGNMENT_ROUNDS):
        share = p[kind]
        share /= np.bincount(token, share)[token]
        p = np.bincount(kind, share)
        p /= np.bincount(of_source, p)[of_source]
    return of_source, kinds % q, p
