# Vocabularies of the task: whole words, characters, or pieces that were learnt from another language's text.
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from task import CONSONANTS, LONGEST, VOWELS, Grammar, Words

START = "_"  # marks a piece that begins a word
LETTERS = (*(START + c for c in CONSONANTS), *CONSONANTS, *VOWELS)  # words begin with consonants
KINDS = ("own", "foreign", "characters")


@dataclass(frozen=True)
class Pieces:
    """A vocabulary of one side, and sentences as its codes.

    Attributes:
        words: the words of the language, in the order of their numbers.
        pieces: what words are made of; one that begins a word starts with `_`.
        marked: whether a sentence has a mark at each end. Attention sees relative positions only: marks tell a network where it is.
    """

    words: tuple[str, ...]
    pieces: tuple[str, ...]
    marked: bool = False

    @cached_property
    def spellings(self) -> tuple[Words, ...]:
        """Each word as codes: the longest piece that fits, from the left."""
        return tuple(self._cut(START + word) for word in self.words)

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.pieces) + 2 * self.marked

    @property
    def longest(self) -> int:
        """Codes of the longest sentence there can be."""
        return LONGEST * max(len(cut) for cut in self.spellings) + 2 * self.marked

    def encode(self, sentences: Iterable[Words]) -> np.ndarray:
        """(rows, longest), codes with -1 behind each sentence."""
        first, last = ([len(self.pieces)], [len(self.pieces) + 1]) if self.marked else ([], [])
        rows = [[*first, *(code for word in sentence for code in self.spellings[word]), *last] for sentence in sentences]
        found = np.full((len(rows), self.longest), -1, np.int32)
        for row, codes in zip(found, rows, strict=True):
            row[: len(codes)] = codes
        return found

    def decode(self, rows: np.ndarray) -> list[Words]:
        """Sentences as numbers of words, -1 for what is no word."""
        number = {word: k for k, word in enumerate(self.words)}
        found = []
        for row in rows:
            text = "".join(self.pieces[code] for code in row if 0 <= code < len(self.pieces))
            found.append(tuple(number.get(word, -1) for word in text.removeprefix(START).split(START)) if text else ())
        return found

    def _cut(self, text: str) -> Words:
        codes: list[int] = []
        number = {piece: k for k, piece in enumerate(self.pieces)}
        while text:
            size = max((n for n in range(1, len(text) + 1) if text[:n] in number and text[:n] != START), default=0)
            if not size:
                raise ValueError(f"no piece begins {text!r}")
            codes.append(number[text[:size]])
            text = text[size:]
        return tuple(codes)


def learn(text: Sequence[str], size: int) -> tuple[str, ...]:
    """Letters and the most frequent joins of pieces in a text, a list of words (byte-pair encoding), `size` pieces in all.

    Sennrich, Haddow, Birch 2016, arXiv 1508.07909.
    """
    pieces = dict.fromkeys(LETTERS)
    cut = {word: (START + word[0], *word[1:]) for word in set(text)}
    counts = Counter(text)
    while len(pieces) < size:
        joins: Counter[tuple[str, str]] = Counter()
        for word, parts in cut.items():
            for two in itertools.pairwise(parts):
                joins[two] += counts[word]
        if not joins:
            break
        best = min(joins, key=lambda two: (-joins[two], two))
        pieces["".join(best)] = None
        cut = {word: _joined(parts, best) for word, parts in cut.items()}
    return tuple(pieces)


def _joined(parts: tuple[str, ...], two: tuple[str, str]) -> tuple[str, ...]:
    found: list[str] = []
    for part in parts:
        if found and (found[-1], part) == two:
            found[-1] += part
        else:
            found.append(part)
    return tuple(found)


def vocabulary(grammar: Grammar, kind: str, side: str, other: int = 1, size: int = 96) -> Pieces:
    """The vocabulary of one side: `own` words, `characters`, or `foreign` pieces, learnt from the sentences of grammar number `other`.

    Source sentences are marked at their ends.
    """
    marked = side == "source"
    words = grammar.source_words if marked else grammar.target_words
    if kind == "own":
        return Pieces(words, tuple(START + word for word in words), marked)
    if kind == "characters":
        return Pieces(words, LETTERS, marked)
    abroad = Grammar(other)
    spelt = (abroad.spelt(pair[side != "source"], side) for pair in abroad.pairs(300, seed=0))
    return Pieces(words, learn(" ".join(spelt).split(), size), marked)
