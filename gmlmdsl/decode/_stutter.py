"""Stutter: tokens or words that repeat the previous one, their rate, and rows without them.

Doubled words can be correct (German "die die", English "had had"), and a word may contain the same
subword token twice. Therefore dropping is optional, it drops whole words if the beginnings of words
are known, and the rate leaves out words that the reference doubles too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .._diagnostics import fail, whole_number
from .._types import ArrayLike

Array = np.ndarray
Words = str | Sequence[str]


def stutters(tokens: ArrayLike, lengths: ArrayLike) -> Array:
    """Return which tokens equal the previous one.

    They are the second and later tokens of every run of equal ids.

    Args:
        tokens: ids, shape (*rows, n).
        lengths: the number of tokens of each row that count, shape (*rows,); later tokens are never
            marked. The first token has no token before it.

    Returns:
        Booleans of the shape of `tokens`.

    Raises:
        GmlmError: E501 for shapes that do not fit.
    """
    ids, ends = np.asarray(tokens), np.asarray(lengths)
    if ids.ndim < 1 or ends.shape != ids.shape[:-1]:
        raise fail(
            "E501", f"`lengths` of tokens of shape {ids.shape} has shape {ids.shape[:-1]}, got {ends.shape}", help="one for each row"
        )
    again = np.zeros(ids.shape, bool)
    again[..., 1:] = ids[..., 1:] == ids[..., :-1]
    return again & (np.arange(ids.shape[-1]) < ends[..., None])


def drop_repeats(tokens: ArrayLike, length: int, starts_word: ArrayLike | None = None) -> Array:
    """Return one row without the words that repeat the previous word; a run keeps its first word.

    Args:
        tokens: ids of one row.
        length: the number of tokens that count.
        starts_word: for each id, whether it begins a word. Subword tokens inside a word are never
            dropped separately, and a word is dropped only if all its tokens are repeated. None:
            every token is a word.

    Raises:
        GmlmError: E501 for a shape that does not fit, E502 for an id that `starts_word` does not
            cover.
    """
    ids, length = np.asarray(tokens), whole_number("length", length, 0, "E501")
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or length > len(ids):
        raise fail("E501", f"tokens are those of one row, and `length` counts some of them; got shape {ids.shape} and length {length}")
    ids = ids[:length]
    words = np.split(ids, np.flatnonzero(_beginnings(ids, starts_word)[1:]) + 1)
    kept = [w for k, w in enumerate(words) if k == 0 or not np.array_equal(w, words[k - 1])]
    return np.concatenate(kept)


def _beginnings(ids: Array, starts_word: ArrayLike | None) -> Array:
    if starts_word is None:
        return np.ones(len(ids), bool)
    table = np.asarray(starts_word, bool)
    outside = ids[(ids < 0) | (ids >= len(table))]
    if len(outside):
        raise fail("E502", f"`starts_word` has an entry for each of {len(table)} ids, and the row holds {outside[0]}")
    return table[ids]


def stutter_counts(outputs: Sequence[Words], references: Sequence[Words]) -> Array:
    """Return for each sentence the number of words that equal the previous word.

    As many repetitions of a word as the reference has of the same word do not count.

    Args:
        outputs: one list of words for each sentence; a text is split at white space.
        references: likewise.

    Raises:
        GmlmError: E501 unless there are as many references as outputs.
    """
    if len(outputs) != len(references):
        raise fail("E501", f"{len(outputs)} outputs have {len(references)} references", help="give one reference for each output")
    return np.array([(_doubled(o) - _doubled(r)).total() for o, r in zip(outputs, references, strict=True)], int)


def stutter_rate(outputs: Sequence[Words], references: Sequence[Words]) -> float:
    """Return the number of stutters for each 1,000 words of the outputs, see `stutter_counts`.

    The rate is nan if the outputs have no words.
    """
    for name, texts in (("outputs", outputs), ("references", references)):
        if not isinstance(texts, list | tuple | np.ndarray) or not all(isinstance(t, str | list | tuple) for t in texts):
            raise fail("E501", f"{name} must be a list of texts, or of lists of words, got {type(texts).__name__}")
    n_words = sum(len(_split(o)) for o in outputs)
    counts = stutter_counts(outputs, references)
    return 1000 * int(counts.sum()) / n_words if n_words else float("nan")


def _split(words: Words) -> Sequence[str]:
    return words.split() if isinstance(words, str) else words


def _doubled(words: Words) -> Counter[str]:
    """Return how often each word directly follows itself."""
    return Counter(b for a, b in pairwise(_split(words)) if a == b)
