"""Stutter, its rate, rows without it, and the attention between adjacent cells with stutter.

Stutter is a token or word that repeats the previous one. Doubled words can be correct (German "die
die", English "had had"), and a word may contain the same subword token twice. Therefore dropping is
optional, it drops whole words if the beginnings of words are known, and the rate leaves out words
that the reference doubles too.

A token that is predicted in parallel with its neighbours depends on them through self-attention
alone. Through cross-attention it depends on which source words the neighbours have translated. Li
et al. 2024, Section 3.4, compare pairs of adjacent outputs that are equal with the other pairs. In
their Table 4 they compare self-attention, and in Table 5 the distance between the two
cross-attention distributions. This module computes the same comparisons, with intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from .._diagnostics import fail, whole_number
from .._types import ArrayLike
from ..data import generator, verified_seed
from ..evaluate import verified_quantile
from .limits import RESAMPLES_AT_ONCE, SUM_TOLERANCE

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray
Words = str | Sequence[str]
Name = tuple[str, str]
OVER_HEADS = {"min": np.min, "mean": np.mean, "max": np.max}


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


def attention_dependency(
    tokens: ArrayLike,
    lengths: ArrayLike,
    self_weights: Sequence[ArrayLike] | np.ndarray,
    cross_weights: Sequence[ArrayLike] | np.ndarray | None = None,
    *,
    replications: int = 1000,
    probability: float = 0.94,
    seed: int = 0,
    distant: bool = False,
) -> pd.DataFrame:
    """Compare the attention of adjacent outputs with and without stutter.

    Stutter is a pair of equal tokens, which is compared with all other pairs of adjacent outputs.
    With `distant`, pairs that are further apart are compared. The quantities of a pair (i, i + 1),
    for each head with self-attention A and cross-attention C, are:

        to next, to previous         A[i, i+1], A[i+1, i]
        next, previous in top k      whether that is among the k largest of its row, k = 1, 2
        cross total variation        sum of |C[i] - C[i+1]| / 2
        cross cosine distance        1 - C[i] . C[i+1] / (|C[i]| |C[i+1]|)
        cross top k overlap          whether the k largest of C[i] and of C[i+1] have one in common

    The first two and the distances are summarised by minimum, mean and maximum over heads, the
    others by the share of heads. Among equal weights the one at the lower position counts as the
    larger.

    Args:
        tokens: the predictions of the last pass, before any repeated token was dropped, shape
            (rows, n).
        lengths: the number of tokens of each row that count.
        self_weights: the weights of the last layer in the last pass, shape (rows, heads, n, n).
        cross_weights: likewise, shape (rows, heads, n, m), 0 at padding; None for a network without
            an encoder.
        replications: the number of resamples of the rows, with replacement: tokens of one sentence
            are not independent.
        probability: the probability of the percentile intervals.
        seed: the seed of the resamples.
        distant: whether pairs (i, j) with j > i + 1 are compared instead of (i, i + 1). Then j is
            called `later` instead of `next`, and i is `earlier` instead of `previous`. A pair of
            equal tokens is a `repeat`. The distances of the pairs differ between the kinds: compare
            both results.

    Returns:
        One row for each quantity, way to summarise heads, and kind of pairs (`stutter`, `other`,
        and the `difference` of their means). The columns are mean, standard deviation over pairs,
        number of pairs, and interval of the mean (`low`, `high`); nan if there are no pairs.

    Raises:
        GmlmError: E501 for shapes that do not fit, E504 for weights that are not distributions,
            E507 for arguments out of bounds.
    """
    ids, ends = np.asarray(tokens), np.asarray(lengths)
    _verify(ids, ends, self_weights, cross_weights)
    replications = whole_number("replications", replications, 1)
    verified_quantile(probability)
    verified_seed(seed)
    rows, kinds = [], []
    words = ("later", "earlier") if distant else ("next", "previous")
    for r, n in enumerate(ends.tolist()):
        across = None if cross_weights is None else np.asarray(cross_weights[r], float)[:, :n]
        first, second = _pairs(n, distant)
        rows.append(_of_row(np.asarray(self_weights[r], float)[:, :n, :n], across, first, second, words))
        kinds.append(ids[r, first] == ids[r, second])
    return _table(rows, kinds, "repeat" if distant else "stutter", replications, probability, seed)


def _pairs(n: int, distant: bool) -> tuple[Array, Array]:
    """Return the positions of each pair among n, the lower one first."""
    if distant:
        first, second = np.triu_indices(n, k=2)
        return first, second
    first = np.arange(max(n - 1, 0))
    return first, first + 1


def _verify(
    ids: Array, ends: Array, self_weights: Sequence[ArrayLike] | np.ndarray, cross_weights: Sequence[ArrayLike] | np.ndarray | None
) -> None:
    if ids.ndim != 2 or not len(ids):
        raise fail("E501", f"`tokens` has shape (rows, n), with at least one row, got {ids.shape}")
    stutters(ids, ends)  # raises an error unless there is one length for each row
    if ((ends < 0) | (ends > ids.shape[1])).any():
        raise fail("E501", f"`lengths` lie between 0 and {ids.shape[1]}, got {ends.min()} to {ends.max()}")
    rows, n = ids.shape
    for name, weights, last in (("self_weights", self_weights, n), ("cross_weights", cross_weights, None)):
        if weights is None:
            continue
        shape = np.shape(np.asarray(weights))
        if len(shape) != 4 or (shape[0], shape[2]) != (rows, n) or last not in (None, shape[3]):
            wanted = f"({rows}, heads, {n}, {'m' if last is None else last})"
            raise fail("E501", f"`{name}` has shape {wanted}, got {shape}", help="the weights of one layer, the last, of every row")
        _verify_sums(name, weights, ends)


def _verify_sums(name: str, weights: Sequence[ArrayLike] | np.ndarray, ends: Array) -> None:
    for row, n in zip(weights, ends.tolist(), strict=True):
        found = np.asarray(row, float)[:, :n]
        kept = found[..., :n] if name == "self_weights" else found
        if not (np.abs(kept.sum(axis=-1) - 1) < SUM_TOLERANCE).all() or (kept < 0).any():
            raise fail("E504", f"the rows of `{name}` are not distributions: each must sum to 1 over what is not padding")


def _of_row(within: Array, across: Array | None, first: Array, second: Array, words: tuple[str, str]) -> dict[Name, Array]:
    """Return each quantity of the pairs of one sentence.

    `within` is (heads, n, n), and `across` is (heads, n, m).
    """
    found, (behind, before) = {}, words
    found |= _summaries(f"self-attention to {behind}", within[:, first, second])
    found |= _summaries(f"self-attention to {before}", within[:, second, first])
    for k in (1, 2):
        top = _largest(within, k)
        found[f"{behind} in top {k}", "share"] = top[:, first, second].mean(axis=0)
        found[f"{before} in top {k}", "share"] = top[:, second, first].mean(axis=0)
    if across is not None:
        p, q = across[:, first], across[:, second]
        lengths = np.sqrt((p * p).sum(axis=-1) * (q * q).sum(axis=-1))
        found |= _summaries("cross-attention total variation", np.abs(p - q).sum(axis=-1) / 2)
        found |= _summaries("cross-attention cosine distance", 1 - (p * q).sum(axis=-1) / lengths)
        for k in (1, 2):
            top = _largest(across, k)
            found[f"cross-attention top {k} overlap", "share"] = (top[:, first] & top[:, second]).any(axis=-1).mean(axis=0)
    return found


def _summaries(name: str, by_head: Array) -> dict[Name, Array]:
    return {(name, how): summary(by_head, axis=0) for how, summary in OVER_HEADS.items()}


def _largest(weights: Array, k: int) -> Array:
    """Return which entries are among the k largest of the last axis, and not 0."""
    order = np.argsort(-weights, axis=-1, kind="stable")[..., :k]
    found = np.zeros(weights.shape, bool)
    np.put_along_axis(found, order, True, axis=-1)
    return found & (weights > 0)


def _table(rows: list[dict[Name, Array]], kinds: list[Array], equal: str, replications: int, probability: float, seed: int) -> pd.DataFrame:
    import pandas as pd

    names = list(rows[0])
    counts = np.array([[k.sum(), (~k).sum()] for k in kinds], float)  # shape (rows, kinds)
    values = np.array([[[r[name][k].sum(), r[name][~k].sum()] for name in names] for r, k in zip(rows, kinds, strict=True)])
    # axes: 2 ends, names, kinds of pairs (stutter, other and difference)
    ends = _intervals(values, counts, replications, probability, seed)
    pooled, lines = np.concatenate(kinds), []
    for j, name in enumerate(names):
        every = np.concatenate([r[name] for r in rows])
        parts = [every[pooled], every[~pooled]]
        means = [p.mean() if len(p) else np.nan for p in parts]
        sds = [p.std(ddof=1) if len(p) > 1 else np.nan for p in parts]
        stats = [*zip(means, sds, map(len, parts), strict=True), (means[0] - means[1], np.nan, len(every))]
        for c, (pairs, (mean, sd, count)) in enumerate(zip((equal, "other", "difference"), stats, strict=True)):
            lines.append((*name, pairs, mean, sd, count, ends[0, j, c], ends[1, j, c]))
    columns = ["quantity", "heads", "pairs", "mean", "sd", "count", "low", "high"]
    return pd.DataFrame(lines, columns=columns).set_index(columns[:3]).sort_index()


def _intervals(values: Array, counts: Array, replications: int, probability: float, seed: int) -> Array:
    """Return percentiles of the means and of their difference over resamples of sentences.

    Resamples without pairs of a kind are left out.

    Reference: Efron and Tibshirani 1993, Section 13.3; Field and Welsh 2007 (the cluster
    bootstrap).
    """
    n, rng, drawn = len(counts), generator(seed), []
    for start in range(0, replications, RESAMPLES_AT_ONCE):
        many = min(RESAMPLES_AT_ONCE, replications - start)
        times = rng.multinomial(n, np.full(n, 1 / n), size=many).astype(float)
        with np.errstate(invalid="ignore"):
            means = np.einsum("bn,njk->bjk", times, values) / (times @ counts)[:, None]
        drawn.append(np.concatenate([means, means[..., :1] - means[..., 1:]], axis=-1))
    found, out = np.concatenate(drawn), np.full((2, values.shape[1], 3), np.nan)
    tails = [(1 - probability) / 2, (1 + probability) / 2]
    for c in range(3):
        # a resample has pairs of a kind either for every quantity or for none
        whole = found[~np.isnan(found[:, 0, c]), :, c]
        if len(whole):
            out[:, :, c] = np.quantile(whole, tails, axis=0)
    return out
