"""What a form is: a named construct with arguments, and what each of them takes."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from re import compile as pattern

# What an option takes. The checker has one function per kind (`_arguments.py`).
NUMBER = "number"  # an expression of inputs (and of the axes' index names in a prior)
INTEGER = "integer"
BOOLEAN = "boolean"
SIZE = "size"  # an integer, or an index set whose size it is
SIZES = "sizes"  # one or more of these
SET = "set"
INPUT = "input"  # the name of an input array
VARIABLES = "variables"  # one or more variables of the model, or none: all
BLOCKS = "blocks"  # sets of cells, with `for`
RATE = "rate"  # a number or `uniform(a, b)`
NOISE = "noise"  # {hide: .., uniform: .., keep: ..}
NUMBERS = "numbers"  # [a, b, ..]
TEXT = "text"
TEXTS = "texts"
WORD = "word"  # one of `words`
SCHEDULE = "schedule"  # one of `words`, `counts([..])`, or the name of a mask of the model or of an input
CONFIDENCE = "confidence"  # one of `words`, or `python("package.module:name")`
PLANNER = "planner"  # one of `words`, or the name of a network
SAMPLER = "sampler"  # the name of a sampler
EXPRESSION = "expression"
MODEL = "model"  # the name of a model
NETWORK = "network"  # the name of a network
JUDGE = "judge"  # the name of a verifier or value, of which `words` are allowed
CELL_VALUE = "cell value"  # a value of the sampled variable: a whole number, or a letter or label
PROBABILITY = "probability"  # an array with its last axis open


# "package.module:name"
TARGET = pattern(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers between `low` and `high`; `open` names the ends that are left out."""

    low: float = -inf
    high: float = inf
    open: str = ""  # "low", "high", "both"

    def holds(self, x: float) -> bool:
        """Whether `x` lies inside."""
        above = x > self.low if self.open in ("low", "both") else x >= self.low
        below = x < self.high if self.open in ("high", "both") else x <= self.high
        return above and below

    @property
    def words(self) -> str:
        """`above 0 and at most 1`."""
        low = f"{'above' if self.open in ('low', 'both') else 'at least'} {self.low:g}"
        high = f"{'below' if self.open in ('high', 'both') else 'at most'} {self.high:g}"
        return " and ".join([low] * (self.low > -inf) + [high] * (self.high < inf))


LONGEST_SHOWN = 100  # characters of a signature that a message shows whole
COUNTS = Bounds(1)
PROBABILITIES = Bounds(0, 1)


@dataclass(frozen=True, slots=True)
class Option:
    """One argument of a form: what it is called, what it takes, whether it must be given, and what it means."""

    name: str
    takes: str
    doc: str
    required: bool = True
    default: str = ""
    words: tuple[str, ...] = ()  # what a word may be; of a number, words that stand in its place
    named: bool = False  # only as `name = value`
    bounds: Bounds | None = None  # of a number


@dataclass(frozen=True, slots=True)
class Form:
    """One construct. `room` is graph, mask, sampler, verifier, value, network, distribution, type, gauge, function or kernel."""

    room: str
    name: str
    options: tuple[Option, ...]
    doc: str
    support: str = ""  # of a distribution: real, unbounded, positive, unit or simplex
    block_size: str = ""  # of a mask: the option that is the number of cells of each block
    since: str = "0.1"
    free: bool = False  # takes further named options, handed on as they are
    of: Form | None = None  # the form that this one is, with other defaults
    synonym: str = ""  # another name of it

    @property
    def signature(self) -> str:
        """`grid(n, m, wrap = false)`; of a preset, the defaults that are its own."""
        parts = []
        for o in self.options:
            if self.of is not None and o in self.of.options:
                continue
            many = ", .." if o.takes in (VARIABLES, BLOCKS, TEXTS, SIZES) else ""
            parts.append(f"{o.name} = {o.default or '..'}" if o.named else o.name + many)
        return f"{self.name}({', '.join(parts + ['..'] * (self.free or self.of is not None))})"

    @property
    def shown(self) -> str:
        """The signature, of a long one what must be given."""
        whole = self.signature
        if len(whole) <= LONGEST_SHOWN:
            return whole
        needed = [f"{o.name} = .." if o.named else o.name for o in self.options if o.required]
        return f"{self.name}({', '.join([*needed, '..'])})"


def named(
    name: str,
    takes: str,
    doc: str,
    default: str = "",
    required: bool = False,
    words: tuple[str, ...] = (),
    bounds: Bounds | None = None,
) -> Option:
    """An option that is given by its name; whole numbers are counts."""
    return Option(name, takes, doc, required, default, words, named=True, bounds=bounds or (COUNTS if takes == INTEGER else None))
