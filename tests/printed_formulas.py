"""The formulas that `explain` prints, by their left sides, with their values: compared with the oracle, not with another text."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from formula_reader import Place, Reader, Value
from oracle import Oracle
from oracle._expressions import Scope, evaluate, turns


class Formulas:
    """The formulas of a text by their left sides, rows and what continues them joined."""

    def __init__(self, text: str):
        self.found: dict[str, list[str]] = {}
        last: list[str] | None = None
        for line in text.splitlines():
            indent = len(line) - len(line.lstrip())
            left, equals, right = line.strip().partition(" = ")
            if indent == 4 and equals:
                last = self.found.setdefault(left, [])
                last.append(right)
            elif indent > 4 and last is not None:
                last[-1] += " " + line.strip()
            else:
                last = None

    def right(self, left: str) -> str:
        """The right side of the only formula with this left side."""
        (found,) = self.found[left]
        return found


def lets_of(formulas: Formulas, oracle: Oracle, place: Place) -> dict[str, tuple[list[str], Value]]:
    """The bodies of `let`s by name, each in terms of the earlier ones."""
    out: dict[str, tuple[list[str], Value]] = {}
    for name, let in oracle.model.lets.items():
        names = [i for loop in let.axes for i in loop.names]
        left = f"{name}[{', '.join(names)}]" if names else name
        out[name] = names, Reader(formulas.right(left), place, out).whole()
    return out


def printed_value(formulas: Formulas, left: str, place: Place) -> float:
    """The right side of a formula of the model, at a place; ` − log Z` is left out."""
    right = formulas.right(left).removesuffix(" − log Z")
    with np.errstate(all="ignore"):
        return float(Reader(right, place, lets_of(formulas, place.oracle, place)).whole()({}))


def printed_law(formulas: Formulas, place: Place) -> dict[frozenset[int], float]:
    """p(K | x) of a mask that lists its blocks with weights, or draws cells one by one, from its printed formulas."""
    lets = lets_of(formulas, place.oracle, place)
    listed = any(left.startswith("w({") for left in formulas.found)
    found: dict[frozenset[int], float] = {}
    for left, rights in formulas.found.items():
        if not left.startswith(("w({", "r(")):
            continue
        for right in rights:
            value, _, where = right.partition("  for ")
            cells = left.removeprefix("w({").removeprefix("r(").rstrip(")").rstrip("}").strip("{")
            # One sum over the turns: each adds its weight to its block.
            reader = Reader(f"∑{{{where}}} chosen({value}, {cells})" if where else f"chosen({value}, {cells})", place, lets)
            reader.chosen = found
            reader.whole()({})
    if listed:
        total = Reader(formulas.right(next(left for left in formulas.found if left.startswith("W"))), place, lets).whole()({})
        assert np.isclose(total, sum(found.values()))
        return {k: v / total for k, v in found.items() if v > 0} if total else {frozenset(): 1.0}
    law = {frozenset(): 1.0}
    for (cell,), rate in found.items():
        law = {k | extra: p * q for k, p in law.items() for extra, q in ((frozenset([cell]), rate), (frozenset[int](), 1 - rate))}
    return {k: p for k, p in law.items() if p > 0}


def printed_conditional(
    formulas: Formulas, oracle: Oracle, params: Mapping[str, np.ndarray], codes: np.ndarray, block: list[int]
) -> np.ndarray:
    """The table of log p(x_K | x_rest[, K]) as a mask's section prints it, one axis per member of K, ascending."""
    left = next(name for name in formulas.found if re.match(r"log p\(\S+_K \|", name))
    f = next(name for name in formulas.found if name.startswith("f_K("))
    right = formulas.right(left)
    joined = re.search(r"f_\{K ∪ \{([^}]*)\}\}", right)
    summed = [c for name in (joined[1].split(", ") if joined else []) for c in oracle.positions(name).ravel().tolist()]
    assert bool(summed) == right.startswith("log ∑{")
    turned = left.removeprefix("log p(").split("_K |")[0] + "'_K"
    assert (f"∑{{{turned}, {joined[1]}}}" if joined else f"∑{{{turned}}}") in right

    def value(row: np.ndarray) -> float:
        if not possible(oracle, row):
            return -np.inf
        here = printed_value(formulas, f, Place(oracle, params, row, frozenset([*block, *summed])))
        if "log p(K | " in right:
            with np.errstate(divide="ignore"):
                here += float(np.log(printed_law(formulas, Place(oracle, params, row)).get(frozenset(block), 0.0)))
        return here

    sizes = [oracle.domain_sizes[c] for c in block]
    table = np.empty(sizes)
    for y in np.ndindex(*sizes):
        row, parts = codes.copy(), []
        row[block] = y
        for h in np.ndindex(*(oracle.domain_sizes[c] for c in summed)):
            row[summed] = h
            parts.append(value(row))
        table[y] = np.logaddexp.reduce(parts)
    with np.errstate(invalid="ignore"):
        return table - np.logaddexp.reduce(table.ravel())  # nan where the rest is impossible


def possible(oracle: Oracle, codes: np.ndarray) -> bool:
    """Whether every `require` holds."""
    scope = Scope(oracle.bound, {}, {}, codes[None])
    return all(
        bool(np.all(evaluate(r.condition, scope.at(names)) != 0)) for r in oracle.model.requires for names in turns(r.clauses, scope)
    )
