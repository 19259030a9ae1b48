# What is best possible on the task: exact conditionals, the best products, and decoders with exact conditionals in the network's place.
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from task import Grammar, Law, Words

HIDDEN = -1  # a cell that shows nothing


@dataclass(frozen=True)
class Noise:
    """What a network sees in a cell: the true word, a uniform word, or nothing; probabilities that sum to 1."""

    keep: float = 0.0
    uniform: float = 0.0

    @property
    def hide(self) -> float:
        return max(1.0 - self.keep - self.uniform, 0.0)

    def corrupt(self, target: np.ndarray, n_words: int, rng: np.random.Generator) -> np.ndarray:
        """A target as the network sees it."""
        u = rng.random(target.shape)
        other = np.where(u < self.keep + self.uniform, rng.integers(n_words, size=target.shape), HIDDEN)
        return np.where(u < self.keep, target, other)

    def likelihood(self, seen: np.ndarray, targets: np.ndarray, n_words: int) -> np.ndarray:
        """P(seen | target) for each row of `targets`."""
        shown = self.keep * (targets == seen) + self.uniform / n_words
        return np.where(seen == HIDDEN, self.hide, shown).prod(axis=1)


def one_by_one(targets: np.ndarray, weights: np.ndarray, n_words: int) -> np.ndarray:
    """The marginals of a law over rows of words: (positions, words)."""
    table = np.zeros((targets.shape[1], n_words))
    for target, p in zip(targets, weights, strict=True):
        table[np.arange(len(target)), target] += p
    return table


def conditionals(law: Law, seen: np.ndarray, noise: Noise, n_words: int) -> np.ndarray:
    """p(y_i | seen, source, length), a row for each position: what a network that is trained with this noise should give.

    Where what is seen is impossible the conditional is not defined; the marginals stand in, as nothing better is known.
    """
    targets, weights = law.of_length(len(seen))
    posterior = weights * noise.likelihood(seen, targets, n_words)
    total = posterior.sum()
    return one_by_one(targets, posterior / total if total > 0 else weights, n_words)


def token_loss(grammar: Grammar, pairs: Sequence[tuple[Words, Words]], noise: Noise, draws: int = 1, seed: int = 0) -> float:
    """The least loss of any network: the mean over sentences of the sum over positions of -log p(y_i | seen, source, length).

    Exact in p; the noise is drawn, `draws` times for each sentence.
    """
    rng, n_words = np.random.default_rng([seed, 22]), len(grammar.target_words)
    total = 0.0
    for source, target in pairs * draws:
        y = np.array(target)
        table = conditionals(grammar.law(source), noise.corrupt(y, n_words, rng), noise, n_words)
        total -= float(np.log(table[np.arange(len(y)), y]).sum())
    return total / (len(pairs) * draws)


@dataclass(frozen=True)
class Product:
    """The best that one draw from a product over positions can do, the length known; expectations over the lengths of a source.

    Attributes:
        argmax_valid: the share of lengths, weighted, at which the most probable word of every position makes a translation.
        draw_valid: the probability that independent draws from the marginals make a translation.
        correlation: the least KL(p || product) of any product, at the marginals: sum of their entropies - the entropy of p, in nats.
    """

    argmax_valid: float
    draw_valid: float
    correlation: float


def product(law: Law, n_words: int) -> Product:
    """The product of the marginals against the law."""
    found = np.zeros(3)
    for length, p in law.lengths.items():
        targets, weights = law.of_length(length)
        table = one_by_one(targets, weights, n_words)
        drawn = table[np.arange(length), targets].prod(axis=1)
        apart = -(table[table > 0] * np.log(table[table > 0])).sum() + (weights * np.log(weights)).sum()
        valid = (targets == table.argmax(axis=1)).all(axis=1).any()
        found += p * np.array([valid, drawn.sum(), apart])
    return Product(*(float(v) for v in found))


def refine(
    law: Law, length: int, noise: Noise, n_words: int, passes: int, schedule: str, rng: np.random.Generator
) -> tuple[Words, list[Words]]:
    """Refinement with exact conditionals; returns the last tokens, and those of each pass.

    `all` predicts every position in each pass, from uniform words; `linear` starts with all hidden, and hides the least probable ones
    again, fewer in each pass (mask-predict).
    """
    seen = rng.integers(n_words, size=length) if schedule == "all" else np.full(length, HIDDEN)
    tokens, confidence, trace = np.zeros(length, int), np.full(length, -np.inf), []
    for done in range(1, passes + 1):
        table = conditionals(law, seen, noise, n_words)
        open_ = np.full(length, True) if schedule == "all" else seen == HIDDEN
        tokens = np.where(open_, table.argmax(axis=1), tokens)
        confidence = np.where(open_, table.max(axis=1), confidence)
        trace.append(tuple(int(w) for w in tokens))
        seen = tokens.copy()
        if schedule == "linear":
            seen[np.argsort(confidence, kind="stable")[: length * (passes - done) // passes]] = HIDDEN
    return trace[-1], trace


def valid_share(grammar: Grammar, pairs: Sequence[tuple[Words, Words]], decode: Callable[[Law, int], Words]) -> float:
    """The share of sentences for which a decoder that is told the true length gives a translation."""
    found = [grammar.log_prob(source, decode(grammar.law(source), len(target))) > -np.inf for source, target in pairs]
    return float(np.mean(found))
