# Topics exactly: the minimum-norm value matrix under uniform attention (Theorem 2.1.2), by its closed form and by least squares over all
# documents, infinitely long ones or not; the loss over attention (Theorems 2.1.3 and 2.1.5). Row and column 0 are the hidden symbol.
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Masking:
    """Shares of words: p_m masked; of these p_c kept and p_r random, the others hidden."""

    masked: float = 0.15
    kept: float = 0.1
    random: float = 0.1

    @property
    def hidden(self) -> float:
        """The share of all words that are hidden."""
        return self.masked * (1 - self.kept - self.random)

    @property
    def whole(self) -> float:
        """The share of all words that are shown as they are: 1 - (1 - p_c) p_m."""
        return 1 - (1 - self.kept) * self.masked


MASKING = Masking()


def entries(T: int, v: int, m: Masking = MASKING) -> tuple[float, float, float]:
    """Of the value matrix of Theorem 2.1.2: between words of one topic, of two, and from the hidden symbol to words."""
    c1 = m.random / ((1 - m.kept - m.random) * m.whole * T * v)
    c2, c3 = 1 / m.hidden - 1, 1 / m.whole
    other, hidden = -(c1 * c2 + c3) / (c2**2 + T * v), (c2 * c3 - c1 * T * v) / (c2**2 + T * v)
    return other + c3 / v, other, hidden


def closed_form(T: int, v: int, m: Masking = MASKING) -> Array:
    """The value matrix of Theorem 2.1.2; it depends on no number of topics in a document."""
    same, other, hidden = entries(T, v, m)
    found = np.full((T * v + 1, T * v + 1), other)
    for t in range(T):
        own = slice(1 + t * v, 1 + (t + 1) * v)
        found[own, own] = same
    found[:, 0], found[0] = hidden, 0
    return found


def member(T: int, v: int, rng: np.random.Generator, m: Masking = MASKING) -> Array:
    """One of the value matrices of Theorem 2.1.4, whose loss is 0: random constants u of rows, and random entries up to their sums.

    The sum over a topic is u v, and 1 / (1 - (1 - p_c) p_m) more over a word's own; column 0 follows from u.
    """
    u = rng.normal(size=T * v + 1)
    found = rng.normal(size=(T * v + 1, T * v + 1))
    sums = np.repeat(u[:, None] * v, T, axis=1)
    sums[np.arange(1, T * v + 1), np.arange(T * v) // v] += 1 / m.whole
    topics = found[:, 1:].reshape(-1, T, v)
    topics += ((sums - topics.sum(axis=2)) / v)[:, :, None]
    found[:, 0] = -(1 / m.hidden - 1) * u
    found[1:, 0] -= m.random / ((1 - m.kept - m.random) * m.whole * T * v)
    return found


def documents(T: int, v: int, tau: int) -> Array:
    """The word frequencies of every document, rows; column 0 is 0."""
    sets = list(combinations(range(T), tau))
    found = np.zeros((len(sets), T * v + 1))
    for row, chosen in zip(found, sets, strict=True):
        for t in chosen:
            row[1 + t * v : 1 + (t + 1) * v] = 1 / (tau * v)
    return found


def shown(p: Array, m: Masking = MASKING) -> Array:
    """Frequencies of what a masked document shows."""
    found = m.whole * p + m.masked * m.random / (p.shape[-1] - 1)
    found[..., 0] = m.hidden
    return found


def least_squares(T: int, v: int, tau: int, m: Masking = MASKING) -> Array:
    """The minimum-norm W of the mean over all documents, infinitely long, of |W shown - words|^2."""
    p = documents(T, v, tau)
    return np.linalg.lstsq(shown(p, m), p, rcond=1e-12)[0].T


def ridge(T: int, v: int, tau: int, lengths: Array, penalty: float, m: Masking = MASKING) -> Array:
    """The minimiser of |W counts / N - word|^2 + penalty |W|^2, in the mean over documents of N words, N uniform in `lengths`, exactly.

    The counts are those of a masked document, whose masked word is among them, so that what is shown in its place has a part of its own.
    """
    second, cross = 0.0, 0.0
    for p in documents(T, v, tau):
        q = shown(p, m)
        shown_for = m.kept * np.diag(p) + np.outer(p, np.append(1 - m.kept - m.random, np.full(T * v, m.random / (T * v))))
        r = shown_for.sum(axis=0)  # what stands in the place of a masked word
        for n in lengths:
            others = np.diag(q) + (n - 2) * np.outer(q, q)
            second = second + (np.diag(r) + (n - 1) * (np.outer(r, q) + np.outer(q, r) + others)) / n**2
            cross = cross + (shown_for + (n - 1) * np.outer(p, q)) / n
    count = len(documents(T, v, tau)) * len(lengths)
    return np.linalg.solve(second / count + penalty * np.eye(T * v + 1), (cross / count).T).T


def blocks(matrix: Array, v: int) -> dict[str, float]:
    """Mean entries of a matrix over words: of the same word, of others of its topic, of other topics, and the deviation of the last."""
    word = np.arange(len(matrix))
    topic = word[:, None] // v == word[None] // v
    same = np.eye(len(matrix), dtype=bool)
    other = matrix[~topic]
    return {
        "word": float(matrix[same].mean()),
        "topic": float(matrix[topic & ~same].mean()),
        "other": float(other.mean()),
        "sd": float(other.std()),
    }


def attention_bounds(v: int, m: Masking = MASKING) -> dict[str, float]:
    """lambda_1 .. lambda_5 of Theorems 2.1.3 and 2.1.5."""
    noise = m.masked * m.random
    return {
        "lambda_1": (m.whole + noise) * (2 - m.whole) / (2 * m.whole),
        "lambda_2": 100 * (m.whole / noise + 1),
        "lambda_3": (m.whole + noise) / 100 * v,
        "lambda_4": m.whole / (np.sqrt(v - 1) - 1 - m.whole) * (1 - m.hidden) / noise * v,
        "lambda_5": 1 / ((v - 1) * m.whole),
    }


def _cases(T: int, v: int, tau: int, m: Masking) -> Iterator[tuple[float, bool, str]]:
    """Of a masked word shown as a word: the probability, whether that word's topic is the document's, what the true one is to it."""
    yield m.kept + m.random / (T * v), True, "word"
    yield m.random * (v - 1) / (T * v), True, "topic"
    yield m.random * (tau - 1) / T, True, "other"
    yield m.random * (T - tau) / T, False, "other"


def landscape(alpha: Array, beta: Array, T: int, v: int, tau: int, diagonal: bool, m: Masking = MASKING) -> Array:
    """The squared error of masked words that are shown as words, per masked word, of infinitely long documents.

    Attention from a word to the same word is beta times, to others of its topic alpha times that to any other symbol; W_V is that of
    Theorem 2.1.2, or the diagonal one of Definition 2.1.2. Words hidden as the symbol of their own do not depend on alpha and beta.
    """
    p1, p2 = m.whole / (v * tau) + m.masked * m.random / (v * T), m.masked * m.random / (v * T)
    (_, between, hidden), c3 = entries(T, v, m), 1 / m.whole
    own, topic, every, symbol = (c3, 0, 0, -c3 * p2 / m.hidden) if diagonal else (0, c3 / v, between, hidden)
    total = 0.0
    for weight, inside, truth in _cases(T, v, tau, m):
        p, here, away = (p1, tau - 1, T - tau) if inside else (p2, tau, T - tau - 1)
        z = p * (beta + (v - 1) * alpha) + v * (p1 * here + p2 * away) + m.hidden
        base = every * (1 - m.hidden / z) + symbol * m.hidden / z
        within = topic * p * (beta + (v - 1) * alpha) / z
        out = {"word": own * p * beta / z + within + base, "topic": own * p * alpha / z + within + base}
        out |= {"other": (own + topic * v) * p1 / z + base, "away": (own + topic * v) * p2 / z + base}
        numbers = {"word": 1, "topic": v - 1, "other": v * here, "away": v * away}
        total = total + weight * (sum(numbers[k] * out[k] ** 2 for k in out) - 2 * out[truth] + 1)
    return total
