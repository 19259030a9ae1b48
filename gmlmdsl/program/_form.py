"""Define a form: a named construct with arguments, and the kinds of its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from re import compile as pattern

from .limits import LONGEST_SIGNATURE

# The kinds of values of an option. The checker has one function for each kind (`_arguments.py`).
NUMBER = "number"  # an expression of inputs (and of the axes' index names in a prior)
INTEGER = "integer"
BOOLEAN = "boolean"
SIZE = "size"  # an integer, or an index set, which stands for its size
SIZES = "sizes"  # one or more sizes
SET = "set"
INPUT = "input"  # the name of an input array
VARIABLES = "variables"  # zero or more variables of the model. None given means all.
BLOCKS = "blocks"  # sets of cells, with `for`
RATE = "rate"  # a number or `uniform(a, b)`
NOISE = "noise"  # {hide: .., uniform: .., keep: ..}
NUMBERS = "numbers"  # [a, b, ..]
TEXT = "text"
TEXTS = "texts"
WORD = "word"  # one of `words`
# one of `words`, `counts([..])`, a function of Python, or the name of a mask of the model or of an input
SCHEDULE = "schedule"
CONFIDENCE = "confidence"  # one of `words`, or `python("package.module:name")`
PLANNER = "planner"  # one of `words`, a function of Python, or the name of a network
SAMPLER = "sampler"  # the name of a sampler
EXPRESSION = "expression"
MODEL = "model"  # the name of a model
NETWORK = "network"  # the name of a network
JUDGE = "judge"  # the name of a verifier or value. `words` contains the allowed kinds.
CELL_VALUE = "cell value"  # a value of the sampled variable: a whole number, or a letter or label
PROBABILITY = "probability"  # an array with its last axis open


# "package.module:name"
TARGET = pattern(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers between `low` and `high`. `open` names the ends that are excluded."""

    low: float = -inf
    high: float = inf
    open: str = ""  # "low", "high", "both"

    def holds(self, x: float) -> bool:
        """Return whether `x` lies inside the bounds."""
        above = x > self.low if self.open in ("low", "both") else x >= self.low
        below = x < self.high if self.open in ("high", "both") else x <= self.high
        return above and below

    @property
    def words(self) -> str:
        """The bounds in words, as in `above 0 and at most 1`."""
        low = f"{'above' if self.open in ('low', 'both') else 'at least'} {self.low:g}"
        high = f"{'below' if self.open in ('high', 'both') else 'at most'} {self.high:g}"
        return " and ".join([low] * (self.low > -inf) + [high] * (self.high < inf))


COUNTS = Bounds(1)
PROBABILITIES = Bounds(0, 1)


@dataclass(frozen=True, slots=True)
class Option:
    """One argument of a form.

    Attributes:
        name: the name.
        takes: the kind of its value, one of the constants above.
        doc: the meaning.
        required: whether it must be given.
        default: the default, as a program writes it.
        words: the allowed words. For a number, the words that may replace it.
        named: whether it is given only as `name = value`.
        bounds: the bounds of a number.
    """

    name: str
    takes: str
    doc: str
    required: bool = True
    default: str = ""
    words: tuple[str, ...] = ()
    named: bool = False
    bounds: Bounds | None = None

    @property
    def many(self) -> bool:
        """Whether it takes all arguments that follow."""
        return self.takes in (VARIABLES, BLOCKS, TEXTS, SIZES)


@dataclass(frozen=True, slots=True)
class Form:
    """One construct with a name and arguments.

    Attributes:
        room: its group: graph, mask, sampler, verifier, value, network, distribution, type, gauge,
            function or kernel.
        name: the name.
        options: the arguments.
        doc: the meaning.
        support: the support of a distribution: real, unbounded, positive, unit, simplex or cell.
        block_size: for a mask, the option that gives the number of cells of each block.
        since: the version that introduced it.
        free: whether it accepts further named options, which are passed on unchanged.
        of: the form of which this form is a preset, with other defaults.
        synonym: another name of the form.
    """

    room: str
    name: str
    options: tuple[Option, ...]
    doc: str
    support: str = ""
    block_size: str = ""
    since: str = "0.1"
    free: bool = False
    of: Form | None = None
    synonym: str = ""

    @property
    def signature(self) -> str:
        """The signature, as in `grid(n, m, wrap = false)`.

        For a preset, only its own defaults are shown.
        """
        parts = []
        for o in self.options:
            if self.of is not None and o in self.of.options:
                continue
            parts.append(f"{o.name} = {o.default or '..'}" if o.named else o.name + ", .." * o.many)
        return f"{self.name}({', '.join(parts + ['..'] * (self.free or self.of is not None))})"

    def has(self, name: str) -> bool:
        """Return whether an argument may be given as `name = value`."""
        return self.free or any(o.name == name and (o.named or not o.many) for o in self.options)

    @property
    def shown(self) -> str:
        """The signature. If it is long, only the required arguments are shown."""
        whole = self.signature
        if len(whole) <= LONGEST_SIGNATURE:
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
    """Return an option that is given by its name.

    The default bounds of an integer are those of a count.

    Args:
        name: the name.
        takes: the kind of its value.
        doc: the meaning.
        default: the default, as a program writes it.
        required: whether it must be given.
        words: the allowed words. For a number, the words that may replace it.
        bounds: the bounds of a number.
    """
    return Option(name, takes, doc, required, default, words, named=True, bounds=bounds or (COUNTS if takes == INTEGER else None))
