"""A program in which a comparison fails, made as small as it can be while the same comparison fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ._compare import Failure, compared
from ._forms import Expr
from ._programs import Program
from ._world import Statement, used

MOST_TRIES = 300


def smaller_expressions(e: Expr) -> Iterator[Expr]:
    """What may stand in place of an expression: one of its parts, a number, itself with a smaller part."""
    for p in e.parts:
        if p.condition == e.condition:
            yield p
    if e.parts or not (e.text.replace(".", "").isdigit() or e.text in ("true", "false")):
        middle = 1 if e.low <= 1 <= e.high else round(e.low)
        if e.condition:
            yield Expr("boolean", "true", (), 1, 1, condition=True)
        elif e.integer:
            yield Expr("whole number", f"{max(middle, 0)}", (), middle, middle, True)
        else:
            yield Expr("number", "0.5", (), 0.5, 0.5)
    for k, p in enumerate(e.parts):
        for q in smaller_expressions(p):
            yield replace(e, parts=(*e.parts[:k], q, *e.parts[k + 1 :]))


def smaller_programs(program: Program) -> Iterator[Program]:
    """Without some statements, large runs of them first; then with one smaller expression."""
    statements = program.statements
    width = max(1, len(statements) // 2)
    while width:
        for k in range(0, len(statements), width):
            kept = used([*statements[:k], *statements[k + width :]])
            if any(x.section == "cells" for x in kept):
                yield _with(program, kept)
        width //= 2
    for k, s in enumerate(statements):
        for j, e in enumerate(s.parts):
            for q in smaller_expressions(e):
                parts = (*s.parts[:j], q, *s.parts[j + 1 :])
                yield _with(program, used([*statements[:k], replace(s, parts=parts), *statements[k + 1 :]]))


def _with(program: Program, statements: list[Statement]) -> Program:
    out = replace(program, statements=tuple(statements))
    return replace(out, inputs=out.declared(out.inputs), params=out.declared(out.params), given=out.declared(out.given))


def fails_alike(failure: Failure, x64: bool) -> Callable[[Program], bool]:
    """Whether a program fails in the same comparison, in the same way."""

    def fails(program: Program) -> bool:
        names = () if failure.what == "load" else (failure.what,)
        return any((f.what, f.how) == (failure.what, failure.how) for f in compared(program, x64, names or ("bounds",)))

    return fails


def shrunk(program: Program, fails: Callable[[Program], bool], tries: int = MOST_TRIES) -> Program:
    """A smallest program that still fails, as far as removals and replacements lead."""
    while True:
        for smaller in smaller_programs(program):
            tries -= 1
            if tries < 0:
                return program
            if len(smaller.text) < len(program.text) and fails(smaller):
                program = smaller
                break
        else:
            return program


def told(program: Program, failure: Failure, x64: bool) -> str:
    """What a failing test prints: the minimal program, its numbers, what was compared and both sides."""
    small = shrunk(program, fails_alike(failure, x64))
    again = [f for f in compared(small, x64) if f.what == failure.what] or [failure]
    numbers = {"inputs": small.inputs, "params": small.params, "given": small.given}
    lines = [f"{name} = {value!r}" for name, value in numbers.items() if value]
    where = f"seed {program.seed}, {'float64' if x64 else 'float32'}"
    return "\n".join([f"{failure.what} ({failure.how}), {where}", small.text, *lines, again[0].detail])
