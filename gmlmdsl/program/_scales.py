"""The scale of a domain of numbers: which number each code stands for.

This table is the only place that tells spins, bits and ranges apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Scale:
    """Evenly spaced numbers: code k stands for `first + step * k`.

    Attributes:
        first: the number of code 0.
        step: the difference between the numbers of neighbouring codes.
        size: how many numbers there are; None if a declaration says so, as in `range(5)`.
        to_code, to_value: functions of the language from numbers to codes and back, if it has them.
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
        """The numbers of a scale whose size is known, none of another one."""
        return tuple(self.first + self.step * k for k in range(self.size or 0))

    def values_of(self, codes: Any) -> Any:
        """The numbers that codes stand for; an array of NumPy or JAX, or a number, as `codes` is."""
        return codes if self.is_code else self.step * codes + self.first

    def codes_of(self, values: Any) -> Any:
        """The codes of numbers of the scale, as `values_of` takes them."""
        return values if self.is_code else (values - self.first) // self.step


CODES = Scale()  # numbers that are codes
SCALES = {
    "spin": Scale(-1, 2, 2, "bit", "spin"),
    "bit": Scale(0, 1, 2),
    "range": CODES,
}


def sized() -> tuple[str, ...]:
    """The names of types whose numbers are known without arguments: `spin` and `bit`."""
    return tuple(name for name, scale in SCALES.items() if scale.size is not None)
