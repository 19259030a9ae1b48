"""The names of a model's cells in its formulas: by their variable, or all by one letter."""

from __future__ import annotations

from collections.abc import Collection

from ..program import ir
from ._notation import Notation


class Cells:
    """The names of a model's cells in one notation.

    Attributes:
        row: the name of all cells of the data: their variable, or a letter shared by several
            variables.
        stands_for: the variables that the letter stands for; empty for one variable.
        latents: the latent variables.
    """

    def __init__(self, model: ir.Model, notation: Notation):
        variables = model.variables.values()
        latents = [v.name for v in variables if v.role == "latent"]
        observed = [v.name for v in variables if v.role == "var"]
        self._observed, self._latents = (observed, latents) if observed else (latents, [])
        self.n = notation
        self.latents = [notation.name(name) for name in self._latents]
        self.stands_for: tuple[str, ...] = ()
        self.row = self.n.name(self._observed[0]) if self._observed else "x"
        if len(self._observed) > 1:
            self.stands_for = tuple(map(notation.name, self._observed))
            self.row = _free_letter({*model.variables, *model.parameters, *model.lets})

    def whole(self, seen: str = "") -> str:
        """Return all cells: those of the data, or `seen` in their place, and the latents."""
        return ", ".join([seen or self.row, *self.latents])

    def of(self, hidden: Collection[str]) -> str:
        """Return the variables of a block's cells: one by its name, several as one."""
        latents = [self.n.name(name) for name in self._latents if name in hidden]
        observed = [name for name in self._observed if name in hidden]
        if len(observed) == 1 and not latents:
            return self.n.name(observed[0])
        parts = [self.row] * bool(observed or not latents) + latents
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def block(self, hidden: Collection[str], below: str = "K") -> str:
        """Return the cells of a block, `x_K`."""
        return self.n.sub(self.of(hidden), below)

    def turned(self, hidden: Collection[str]) -> str:
        """Return other values of a block's cells, over which a sum runs: `x'_K`."""
        return self.n.sub(f"{self.of(hidden)}'", "K")

    def rest(self, hidden: Collection[str], summed: bool = False, outside: str = "") -> str:
        """Return all cells outside a block; with `summed` without the latents summed out."""
        outside = outside or self.n.either("rest", "\\text{rest}")
        if not set(hidden) & set(self._latents):
            return ", ".join([self.n.sub(self.row, outside), *self.latents * (not summed)])
        others = [self.n.name(name) for name in self._latents if name not in hidden]
        if not set(hidden) & set(self._observed):
            others.insert(0, self.row)
        return ", ".join([self.n.sub(self.of(hidden), outside), *others])

    def conditional(self, hidden: Collection[str], also: str = "", summed: bool = False) -> str:
        """Return `p(x_K | x_rest)` for a sentence; `also` is added to the condition."""
        known = self.rest(hidden, summed) + also
        return self.n.inline(self.n.given("p", self.block(hidden), known))

    def single(self, hidden: Collection[str]) -> str:
        """Return `p(x_i | x_-i)` for a sentence."""
        known = self.rest(hidden, outside="-i")
        return self.n.inline(self.n.given("p", self.block(hidden, "i"), known))

    def predicted(self, seen: str = "") -> str:
        """Return `p(x_i | x_rest, K)` of a network as text; `seen` replaces the condition, if given."""
        known = seen or f"{self.rest(())}, K"
        return self.n.inline(self.n.given("p", self.n.sub(self.row, "i"), known))


def _free_letter(taken: Collection[str]) -> str:
    """Return a letter that the model does not use."""
    return next((letter for letter in "xvuyz" if letter not in taken), "cells")
