"""Define the scale of a domain of numbers: the number that each code denotes.

This table is the only place that distinguishes spins, bits and ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Scale:
    """Evenly spaced numbers. Code k denotes `first + step * k`.

    Attributes:
        first: the number of code 0.
        step: the difference between the numbers of consecutive codes.
        size: the count of numbers, or None if a declaration determines it, as in `range(5)`.
        to_code: the function of the language from numbers to codes, or "".
        to_value: the function of the language from codes to numbers, or "".
    """

    first: int = 0
    step: int = 1
    size: int | None = None
    to_code: str = ""
    to_value: str = ""

    @property
    def is_code(self) -> bool:
        """Whether each number is its own code."""
        return self.first == 0 and self.step == 1

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest and the highest number of a scale whose size is known."""
        assert self.size is not None
        return self.first, self.values_of(self.size - 1)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of a scale whose size is known, or () for any other scale."""
        return tuple(self.first + self.step * k for k in range(self.size or 0))

    def values_of(self, codes: Any) -> Any:
        """Return the numbers of some codes. The type is that of `codes`: an array or a number.

        Arrays of NumPy and JAX are accepted.
        """
        return codes if self.is_code else self.step * codes + self.first

    def codes_of(self, values: Any) -> Any:
        """Return the codes of numbers of the scale. The accepted types are those of `values_of`."""
        return values if self.is_code else (values - self.first) // self.step


CODES = Scale()  # the scale whose numbers are the codes
SCALES = {
    "spin": Scale(-1, 2, 2, "bit", "spin"),
    "bit": Scale(0, 1, 2),
    "range": CODES,
}


def sized() -> tuple[str, ...]:
    """Return the names of types whose numbers are known without arguments: `spin` and `bit`."""
    return tuple(name for name, scale in SCALES.items() if scale.size is not None)
