# A made-up translation task whose p(target | source) is known exactly: what a parallel decoder finds hard, in small.
#
# A source sentence is one or two clauses, `NP (do) verb (NP)`, joined by a conjunction; an NP is a pronoun, or a determiner and a noun
# with or without an adjective between them, and `very` before that. Its translation depends on four choices, each drawn once per sentence:
#   dialect   which of three words every noun gets; some nouns share one word between the second and the third dialect
#   register  which of two words every verb and every pronoun gets, so that they agree across the sentence
#   order     verbs stand second or last in their clauses
#   article   determiners are translated or dropped, so that one source has translations of several lengths
# Everything else is fixed by rules: adjectives follow their nouns; `very` doubles the adjective; compounds become two words; separable
# verbs become a stem and a particle, which stands last where the verb is second; `do` vanishes.
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

LATENTS = {"dialect": (0.4, 0.3, 0.3), "register": (0.55, 0.45), "order": (0.6, 0.4), "article": (0.6, 0.4)}
SOURCE = {"determiner": 1, "pronoun": 2, "adjective": 3, "very": 1, "shared": 3, "distinct": 2, "compound": 1, "verb": 3, "split": 1}
SOURCE |= {"do": 1, "and": 1}  # how many words of each role there are
NOUNS, VERBS = ("shared", "distinct", "compound"), ("verb", "split")
# Of a role of target words: the source words that have one, whose choice decides among the forms, and the form of each choice.
TARGET = {
    "determiner": ("determiner", None, (0,)),
    "adjective": ("adjective", None, (0,)),
    "head": ("compound", None, (0,)),
    "particle": ("split", None, (0,)),
    "and": ("and", None, (0,)),
    "pronoun": ("pronoun", "register", (0, 1)),
    "verb": ("verb", "register", (0, 1)),
    "split": ("split", "register", (0, 1)),
    "shared": ("shared", "dialect", (0, 1, 1)),
    "distinct": ("distinct", "dialect", (0, 1, 2)),
}
SHORTEST, LONGEST = 4, 12  # words of a sentence; the shortest is of the target side
CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"

Words = tuple[int, ...]
Choice = tuple[int, ...]  # one number for each of LATENTS, in their order


@dataclass(frozen=True)
class Law:
    """p(target | source).

    Attributes:
        targets: the translations that are possible.
        probabilities: of each of them; sums to 1.
    """

    targets: tuple[Words, ...]
    probabilities: np.ndarray

    @property
    def entropy(self) -> float:
        """-sum p log p, in nats."""
        return float(-(self.probabilities * np.log(self.probabilities)).sum())

    def of_length(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Targets of this length, one a row, and their probabilities given the length."""
        chosen = [k for k, target in enumerate(self.targets) if len(target) == length]
        weights = self.probabilities[chosen]
        return np.array([self.targets[k] for k in chosen], int).reshape(len(chosen), length), weights / weights.sum()

    @cached_property
    def lengths(self) -> dict[int, float]:
        """p(length | source)."""
        found: dict[int, float] = {}
        for target, p in zip(self.targets, self.probabilities, strict=True):
            found[len(target)] = found.get(len(target), 0.0) + float(p)
        return found


@dataclass(frozen=True)
class Phrase:
    """A noun phrase: its words by role, as numbers within the role; `very` is 0 or 1."""

    role: str
    noun: int
    determiner: int | None = None
    adjective: int | None = None
    very: int = 0


@dataclass(frozen=True)
class Clause:
    """Its parts; `joined` is the conjunction before it."""

    subject: Phrase
    verb: tuple[str, int]
    object: Phrase | None
    joined: int | None


class Grammar:
    """One language pair: the rules are the same for every seed, the spelling is its own.

    Words are numbers; `source_words` and `target_words` spell them.
    """

    def __init__(self, seed: int = 0):
        self.source_roles = [(role, k) for role, n in SOURCE.items() for k in range(n)]
        self.target_roles = [
            (role, k, form) for role, (of, _, forms) in TARGET.items() for k in range(SOURCE[of]) for form in sorted(set(forms))
        ]
        self._source = {name: code for code, name in enumerate(self.source_roles)}
        self._target = {name: code for code, name in enumerate(self.target_roles)}
        rng = np.random.default_rng([seed, 20])
        self.source_words = spell(self.source_roles, rng)
        self.target_words = spell(self.target_roles, rng)
        self.law = lru_cache(maxsize=None)(self._law)

    # The law

    def translate(self, source: Words, choice: Choice) -> Words:
        """The translation that the choices lead to."""
        chosen = dict(zip(LATENTS, choice, strict=True))
        words: list[int] = []
        for clause in self.clauses(source):
            if clause.joined is not None:
                words.append(self._target["and", clause.joined, 0])
            subject = self._phrase(clause.subject, chosen)
            rest = self._phrase(clause.object, chosen) if clause.object else []
            role, k = clause.verb
            verb = [self._form(role, k, chosen)]
            particle = [self._target["particle", k, 0]] if role == "split" else []
            words += subject + (verb + rest + particle if chosen["order"] == 0 else rest + particle + verb)
        return tuple(words)

    def _law(self, source: Words) -> Law:
        sums: dict[Words, float] = {}
        for choice in choices():
            target = self.translate(source, choice)
            sums[target] = sums.get(target, 0.0) + weight(choice)
        return Law(tuple(sums), np.array(list(sums.values())))

    def log_prob(self, source: Words, target: Words) -> float:
        """log p(target | source), -inf where the target is no translation."""
        law = self.law(source)
        where = {t: k for k, t in enumerate(law.targets)}.get(tuple(target))
        return -np.inf if where is None else float(np.log(law.probabilities[where]))

    def sample(self, source: Words, rng: np.random.Generator) -> Words:
        """A translation, drawn from p(. | source)."""
        return self.translate(source, tuple(int(rng.choice(len(p), p=p)) for p in LATENTS.values()))

    def best(self, source: Words) -> Words:
        """A most probable translation."""
        law = self.law(source)
        return law.targets[int(law.probabilities.argmax())]

    # The source language

    def sample_source(self, rng: np.random.Generator) -> Words:
        """A sentence none of whose sides is too long or too short, whatever is chosen."""
        while True:
            source = tuple(self._source[name] for name in _sentence(rng))
            if len(source) <= LONGEST and all(SHORTEST <= len(target) <= LONGEST for target in self.law(source).targets):
                return source

    def pairs(self, rows: int, seed: int) -> list[tuple[Words, Words]]:
        """Independent sentences, each with one translation."""
        rng = np.random.default_rng([seed, 21])
        return [(source, self.sample(source, rng)) for source in (self.sample_source(rng) for _ in range(rows))]

    def clauses(self, source: Words) -> Iterator[Clause]:
        """What a sentence says; a sentence that the grammar lacks is a ValueError."""
        names = [self.source_roles[w] for w in source]
        at, joined = 0, None
        while True:
            subject, at = _parse_phrase(names, at)
            at += _is(names, at, "do")
            if not _is(names, at, *VERBS):
                raise ValueError(f"no verb at word {at} of {self.spelt(source, 'source')!r}")
            verb, at = names[at], at + 1
            target, at = _parse_phrase(names, at) if at < len(names) and names[at][0] != "and" else (None, at)
            yield Clause(subject, verb, target, joined)
            if at == len(names):
                return
            if not _is(names, at, "and"):
                raise ValueError(f"a conjunction is expected at word {at} of {self.spelt(source, 'source')!r}")
            joined, at = names[at][1], at + 1

    def spelt(self, sentence: Words, side: str) -> str:
        words = self.source_words if side == "source" else self.target_words
        return " ".join(words[w] if 0 <= w < len(words) else "?" for w in sentence)

    # Agreement

    @cached_property
    def admits(self) -> dict[int, tuple[str, frozenset[int]]]:
        """Of each target word that agrees with others: with regard to what, and the choices that it is a word of."""
        found = {}
        for code, (role, _, form) in enumerate(self.target_roles):
            _, latent, forms = TARGET[role]
            if latent:
                found[code] = (latent, frozenset(z for z, f in enumerate(forms) if f == form))
        return found

    def disagreements(self, target: Sequence[int]) -> list[str]:
        """The choices about which the words of a sentence contradict each other."""
        left: dict[str, frozenset[int]] = {}
        for latent, allowed in (self.admits[w] for w in target if w in self.admits):
            left[latent] = left.get(latent, allowed) & allowed
        return [latent for latent, allowed in left.items() if not allowed]

    # Parts of a translation

    def _form(self, role: str, k: int, chosen: dict[str, int]) -> int:
        _, latent, forms = TARGET[role]
        return self._target[role, k, forms[chosen[latent]] if latent else 0]

    def _phrase(self, phrase: Phrase, chosen: dict[str, int]) -> list[int]:
        words = []
        if phrase.determiner is not None and chosen["article"] == 0:
            words.append(self._target["determiner", phrase.determiner, 0])
        if phrase.role == "compound":
            words += [self._target["head", phrase.noun, 0], self._form("distinct", phrase.noun, chosen)]
        else:
            words.append(self._form(phrase.role, phrase.noun, chosen))
        if phrase.adjective is not None:
            words += [self._target["adjective", phrase.adjective, 0]] * (1 + phrase.very)
        return words


def choices() -> Iterator[Choice]:
    """All choices of all latents."""
    return itertools.product(*(range(len(p)) for p in LATENTS.values()))


def weight(choice: Choice) -> float:
    """The probability of choices: they are independent."""
    return float(np.prod([p[z] for z, p in zip(choice, LATENTS.values(), strict=True)]))


def spell(names: Sequence[tuple], rng: np.random.Generator) -> tuple[str, ...]:
    """A spelling for each word, no two the same: short for what is frequent, one syllable and a bit for the rest.

    Letters have frequencies of the language's own, so that pieces learnt from one language do not fit another.
    """
    first, vowel = (rng.dirichlet(np.full(len(letters), 2.0)) for letters in (CONSONANTS, VOWELS))
    drawn: dict[str, None] = {}
    for name in names:
        size = 2 if name[0] in ("determiner", "and", "pronoun", "very", "do", "particle") else 3
        while True:
            letters = [rng.choice(list(CONSONANTS), p=first), rng.choice(list(VOWELS), p=vowel), rng.choice(list(CONSONANTS), p=first)]
            word = "".join(letters[:size])
            if word not in drawn:
                break
        drawn[word] = None
    return tuple(drawn)


def _sentence(rng: np.random.Generator) -> list[tuple[str, int]]:
    """The words of a source sentence, by role and number."""
    words = []
    for clause in range(1 + (rng.random() < 0.25)):
        if clause:
            words.append(("and", _any("and", rng)))
        words += _noun_phrase(rng)
        if rng.random() < 0.2:
            words.append(("do", 0))
        role = "verb" if rng.random() < 0.65 else "split"
        words.append((role, _any(role, rng)))
        if rng.random() < 0.75:
            words += _noun_phrase(rng)
    return words


def _noun_phrase(rng: np.random.Generator) -> list[tuple[str, int]]:
    if rng.random() < 0.3:
        return [("pronoun", _any("pronoun", rng))]
    words = [("determiner", _any("determiner", rng))]
    if rng.random() < 0.4:
        words += [("very", 0)] * (rng.random() < 0.3) + [("adjective", _any("adjective", rng))]
    role = NOUNS[int(rng.choice(len(NOUNS), p=[0.45, 0.3, 0.25]))]
    return [*words, (role, _any(role, rng))]


def _any(role: str, rng: np.random.Generator) -> int:
    return int(rng.integers(SOURCE[role]))


def _is(names: Sequence[tuple[str, int]], at: int, *roles: str) -> bool:
    return at < len(names) and names[at][0] in roles


def _parse_phrase(names: Sequence[tuple[str, int]], at: int) -> tuple[Phrase, int]:
    """The noun phrase that begins at a word, and where it ends."""
    if _is(names, at, "pronoun"):
        return Phrase("pronoun", names[at][1]), at + 1
    if not _is(names, at, "determiner"):
        raise ValueError(f"a noun phrase is expected at word {at} of {names}")
    determiner, adjective = names[at][1], None
    very = int(_is(names, at + 1, "very"))
    at += 1 + very
    if _is(names, at, "adjective"):
        adjective, at = names[at][1], at + 1
    if not _is(names, at, *NOUNS) or (very and adjective is None):
        raise ValueError(f"a noun is expected at word {at} of {names}")
    return Phrase(*names[at], determiner, adjective, very), at + 1
