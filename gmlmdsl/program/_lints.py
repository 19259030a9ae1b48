"""Warnings about programs that are right but may not be meant; each is a proof or says "may"."""

from __future__ import annotations

from collections.abc import Iterator

from .._diagnostics import Diagnostic
from .ir import Distributed, Expression, Factor, Let, LetValue, Model, ParameterValue, Program, Require, walk


def lint(program: Program) -> Iterator[Diagnostic]:
    """Every warning of a checked program that needs the whole of it."""
    for model in program.models.values():
        yield from _unused_parameters(model)


def _unused_parameters(model: Model) -> Iterator[Diagnostic]:
    used: set[str] = set()
    for e in _terms(model):
        used |= _parameters(e, model.lets)
    for p in model.parameters.values():
        if p.name not in used and model.conditional is None:
            message = f"no factor uses parameter `{p.name}`"
            yield Diagnostic("W803", message, p.span, "unused", help="data say nothing about it; remove it or use it in a factor")


def _terms(model: Model) -> Iterator[Expression]:
    for term in (*model.factors, *model.requires, *model.distributed):
        match term:
            case Factor():
                yield term.value
            case Require():
                yield term.condition
            case Distributed():
                yield term.probabilities


def _parameters(e: Expression, lets: dict[str, Let]) -> set[str]:
    out: set[str] = set()
    for part in walk(e):
        if isinstance(part, ParameterValue):
            out.add(part.name)
        elif isinstance(part, LetValue):
            out |= _parameters(lets[part.name].value, lets)
    return out
