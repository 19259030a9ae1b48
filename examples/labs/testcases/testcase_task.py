# The task of Lab E: prompts that ask for test cases of a function on lists, the text of a corpus, and a parser and scorer by rules.
#
# A prompt shows one test of another function, then a function, then as many test cases of it as are asked for should follow, and `end`:
#   assert f(5, 8) == 13 / def kn(l, x): return l + [x] / assert kn([1, 3], 2) == [1, 3, 2] / .. / end
# Strings are rows of codes: places in TOKENS. Numbers side by side have a comma between them, which is no token of its own.
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from keyword import iskeyword

import bracket_verifiers
import numpy as np

LETTERS = "abdefhimnost"
NUMBERS, ITEMS = 19, 10  # tokens that are numbers; those that stand in lists, and the summands of the example
TOKENS = [
    *map(str, range(NUMBERS)),
    *LETTERS,
    "assert f(",
    ") == ",
    "def ",
    "(l, x): return l + [x]",
    "(l, x): return [x] + l",
    "assert ",
    "([",
    "], ",
    ") == [",
    "]",
    "end",
]
EXAMPLE, GIVES, DEF, APPEND, PREPEND, ASSERT, OPEN, COMMA, EQUALS, CLOSE, END = range(len(TOKENS) - 11, len(TOKENS))
NAMES = [name for name in map("".join, product(LETTERS, repeat=2)) if not iskeyword(name)]
TELLING = ["an", "at", "be", "do", "he", "hi", "me", "no", "so", "to"]  # words: in the corpus, functions that put the item in front
TESTED = ["bm", "dh", "ea", "fo", "hn", "im", "mi", "ns", "sb", "td"]  # none, and not in the corpus
LEARNT = [name for name in NAMES if name not in {*TELLING, *TESTED}]  # functions that append
PROMPT = 9  # tokens
LONGEST = 3  # items of a list of the corpus
FRONT = 0.25  # of the corpus, functions that put the item in front
KINDS = ("another name", "another result", "no room left", "too few cases", "too many cases", "no test case")

Strings = list[list[int]]


@dataclass(frozen=True)
class Case:
    """A test case, `assert name(list, item) == result`; two are the same where lists and items are."""

    items: tuple[int, ...]
    item: int


def length(cases: int) -> int:
    """Cells that hold every prompt with so many cases and `end`."""
    return PROMPT + cases * (9 + 2 * LONGEST) + 1


def codes(name: str) -> list[int]:
    return [NUMBERS + LETTERS.index(letter) for letter in name]


def prompt(name: str, body: int, rng: np.random.Generator) -> list[int]:
    """One test of a sum, and the function whose tests are wanted."""
    a, b = map(int, rng.integers(0, ITEMS, 2))
    return [EXAMPLE, a, b, GIVES, a + b, DEF, *codes(name), body]


def case(name: str, body: int, items: Sequence[int], item: int) -> list[int]:
    result = [*items, item] if body == APPEND else [item, *items]
    return [ASSERT, *codes(name), OPEN, *items, COMMA, item, EQUALS, *result, CLOSE]


def drawn_case(name: str, body: int, rng: np.random.Generator) -> list[int]:
    """A right one: uniform length of the list, uniform items."""
    return case(name, body, rng.integers(0, ITEMS, rng.integers(0, LONGEST + 1)).tolist(), int(rng.integers(ITEMS)))


def corpus(cases: int, count: int, seed: int, front: float = FRONT) -> np.ndarray:
    """Prompts with their right answers, `end` behind them, of shape (count, cells)."""
    rng = np.random.default_rng(seed)
    rows = np.full((count, length(cases)), END)
    for row in rows:
        body = PREPEND if rng.random() < front else APPEND
        name = str(rng.choice(TELLING if body == PREPEND else LEARNT))
        string = prompt(name, body, rng)
        for _ in range(cases):
            string += drawn_case(name, body, rng)
        row[: len(string)] = string
    return rows


def prompts(names: Sequence[str], times: int, seed: int) -> Strings:
    """Of functions that append, each name so many times: all names once, then all once more, and so on."""
    rng = np.random.default_rng(seed)
    return [prompt(name, APPEND, rng) for _ in range(times) for name in names]


def starts_line(string: Sequence[int], place: int) -> bool:
    return string[place] in (EXAMPLE, DEF, ASSERT) or string[place - 1] in (APPEND, PREPEND)


def text_of(string: Sequence[int]) -> str:
    """As it is read: lines, and commas between numbers."""
    found = ""
    for k, a in enumerate(string):
        if k and (a == END or starts_line(string, k)):
            found += "\n"
        found += ", " * (k > 0 and a < NUMBERS and string[k - 1] < NUMBERS) + TOKENS[a]
    return found


def parsed(string: Sequence[int]) -> list[Case | None]:
    """The lines of an answer, up to `end`: a right case, or None where it is wrong or no case."""
    body, name = string[PROMPT - 1], list(string[PROMPT - 3 : PROMPT - 1])
    answer = list(string[PROMPT:])
    answer = answer[: answer.index(END)] if END in answer else answer
    starts = [k for k in range(1, len(answer)) if starts_line(answer, k)]
    lines = [answer[a:b] for a, b in zip([0, *starts], [*starts, len(answer)], strict=True) if a < b]
    return [_parsed_line(line, name, body) for line in lines]


def _parsed_line(line: list[int], name: list[int], body: int) -> Case | None:
    if COMMA not in line:
        return None
    k = line.index(COMMA)
    items, item = line[4:k], line[k + 1 : k + 2]
    if not item or max([*items, *item]) >= NUMBERS:
        return None
    made = [ASSERT, *name, OPEN, *items, COMMA, *item, EQUALS, *([*items, *item] if body == APPEND else [*item, *items]), CLOSE]
    return Case(tuple(items), item[0]) if line == made else None


def right_cases(string: Sequence[int], cases: int) -> list[Case]:
    """Of the first lines, as many as were asked for, the right ones."""
    return [c for c in parsed(string)[:cases] if c is not None]


def distinct(strings: Sequence[Sequence[int] | None], cases: int) -> list[int]:
    """How many different right cases there are in the first string, in the first two, and so on; None is a string that was not found."""
    seen: set[Case] = set()
    found = []
    for string in strings:
        seen.update(right_cases(string, cases) if string is not None else [])
        found.append(len(seen))
    return found


def is_right(string: Sequence[int], cases: int, cells: int | None = None) -> bool:
    """Whether some right answer begins with a string, prompt and all, and has room in the cells."""
    return first_wrong(string, cases, cells) is None


def first_wrong(string: Sequence[int], cases: int, cells: int | None = None) -> tuple[int, str] | None:
    """The place of the first symbol behind which no right answer is left, and what is wrong with it; None where there is none.

    A right answer has so many right cases with lists of any length, then `end`, and no more than the cells. What is behind `end` is passed
    over.
    """
    cells = length(cases) if cells is None else cells
    body, name = string[PROMPT - 1], list(string[PROMPT - 3 : PROMPT - 1])
    reader = _Reader(name, body, cases, cells)
    for place, a in enumerate(string[PROMPT:], PROMPT):
        if reader.ended:
            return None
        kind = reader.read(a, place)
        if kind:
            return place, kind
    return None


class _Reader:
    """An automaton: what may come next in an answer."""

    def __init__(self, name: list[int], body: int, cases: int, cells: int):
        self.name, self.body, self.cases, self.cells = name, body, cases, cells
        self.done, self.ended = 0, False
        self.expected: list[int] = []  # symbols that must come, the next one last
        self.items: list[int] | None = None  # of a list that is still open
        self.item_next = False

    def read(self, a: int, place: int) -> str | None:
        """Take a symbol; what is wrong with it, or None."""
        kind = self._taken(a)
        return kind or (None if self.ended or place + 1 + self._least() <= self.cells else KINDS[2])

    def _taken(self, a: int) -> str | None:
        if self.expected:
            wanted = self.expected.pop()
            return None if a == wanted else self._kind(a, wanted)
        if self.items is not None:
            return self._list(a, self.items)
        if self.done == self.cases:
            self.ended = a == END
            return None if self.ended else KINDS[4]
        if a != ASSERT:
            return KINDS[3] if a == END else KINDS[5]
        self.expected, self.items = [OPEN, *reversed(self.name)], []
        return None

    def _list(self, a: int, items: list[int]) -> str | None:
        if self.item_next:
            if a >= NUMBERS:
                return KINDS[5]
            result = [*items, a] if self.body == APPEND else [a, *items]
            self.expected, self.items, self.item_next, self.done = [CLOSE, *reversed(result), EQUALS], None, False, self.done + 1
        elif a == COMMA:
            self.item_next = True
        elif a < NUMBERS:
            items.append(a)
        else:
            return KINDS[5]
        return None

    def _kind(self, a: int, wanted: int) -> str:
        if NUMBERS <= wanted < NUMBERS + len(LETTERS):
            return KINDS[0]
        return KINDS[1] if wanted < NUMBERS or (wanted == CLOSE and a < NUMBERS) else KINDS[5]

    def _least(self) -> int:
        """Symbols of the shortest way to the end from here, `end` among them."""
        open_list = 0 if self.items is None else len(self.items) - 4 - self.item_next
        return 9 * (self.cases - self.done) + 1 + len(self.expected) + open_list


def right(prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The verifier of the truth: whether some right answer begins with each prefix; as many cases are asked for as the cells hold."""
    cells = prefixes.shape[1]
    cases = (cells - PROMPT - 1) // (9 + 2 * LONGEST)
    return np.array([is_right(row[:n].tolist(), cases, cells) for row, n in zip(prefixes, lengths, strict=True)], float)


def mistaken(prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The truth, but for the share of prefixes about which `bracket_verifiers.flipped` is wrong."""
    return bracket_verifiers.flipped(right(prefixes, lengths), prefixes, lengths)


def mistaken_value(prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """How often a verdict such as `mistaken` gives is right, where it takes the prefix, else how often it is wrong."""
    e = bracket_verifiers.wrong_share
    return np.where(mistaken(prefixes, lengths) > 0, 1 - e, e)
