# Scores of translations whose law is known: valid or not, and what is wrong with those that are not.
import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
from task import Grammar, Law, Words


def doubled(sentence: Sequence[int]) -> Counter[int]:
    """How often each word follows itself."""
    return Counter(b for a, b in itertools.pairwise(sentence) if a == b)


def stutters(law: Law, output: Sequence[int]) -> int:
    """Words that follow themselves more often than in any translation."""
    most: Counter[int] = Counter()
    for target in law.targets:
        most |= doubled(target)
    return (doubled(output) - most).total()


def lost_doubles(law: Law, output: Sequence[int]) -> tuple[int, int]:
    """Doubled words that every translation has and the output lacks, and all that every translation has."""
    needed = doubled(law.targets[0])
    for target in law.targets[1:]:
        needed &= doubled(target)
    return (needed - doubled(output)).total(), needed.total()


def score(grammar: Grammar, sources: Sequence[Words], outputs: Sequence[Words]) -> dict[str, float]:
    """Shares over sentences, but for two: stutter per 1,000 words of output, lost doubles per doubled word.

    valid: p(output | source) > 0. disagreement: words contradict each other about a choice. length: some translation is as long.
    unknown: holds something that is no word.
    """
    laws = [grammar.law(source) for source in sources]
    lost, needed = np.sum([lost_doubles(law, out) for law, out in zip(laws, outputs, strict=True)], axis=0)
    words = sum(len(out) for out in outputs)
    return {
        "valid": _mean(grammar.log_prob(source, out) > -np.inf for source, out in zip(sources, outputs, strict=True)),
        "disagreement": _mean(bool(grammar.disagreements(out)) for out in outputs),
        "stutter": 1000 * sum(stutters(law, out) for law, out in zip(laws, outputs, strict=True)) / max(words, 1),
        "lost_doubles": float(lost / max(needed, 1)),
        "length": _mean(len(out) in law.lengths for law, out in zip(laws, outputs, strict=True)),
        "unknown": _mean(-1 in out for out in outputs),
    }


def _mean(values) -> float:
    return float(np.mean([float(v) for v in values]))
