"""Warnings about programs that are right but may not be meant; each is a proof or says "may"."""

from __future__ import annotations

from collections.abc import Iterator, Set

from .._diagnostics import Diagnostic, listed
from ._comparisons import lint_comparisons
from ._exchanged_axes import lint_exchanged_axes
from ._expressions import mentions
from ._idle_lints import lint_idle
from ._kernels import start_of, updates_in
from ._mask_lints import lint_masks
from ._network_lints import lint_networks
from ._program import Distributed, Factor, Model, Program, Require, Sampler
from ._terms import Expression, ParameterValue, walk
from .places import name_in


def lint(program: Program, used: Set[str]) -> Iterator[Diagnostic]:
    """Every warning of a checked program that needs the whole of it; `used` are the names that its text looks up."""
    for model in program.models.values():
        yield from _unused_parameters(model)
    for sampler in program.samplers.values():
        yield from _still_variables(sampler, program.models[sampler.model])
    yield from lint_comparisons(program)
    yield from lint_masks(program)
    yield from lint_networks(program)
    yield from lint_exchanged_axes(program)
    yield from lint_idle(program, used)


def _unused_parameters(model: Model) -> Iterator[Diagnostic]:
    used = {part.name for e in _terms(model) for part in mentions(e, model.lets) if isinstance(part, ParameterValue)}
    priors = [p.prior for p in (*model.parameters.values(), *model.priors) if p.prior is not None]
    used |= {part.name for call in priors for e in call.arguments.values() for part in walk(e) if isinstance(part, ParameterValue)}  # type: ignore[arg-type]
    for p in model.parameters.values():
        if p.name not in used and model.conditional is None:
            message = f"no factor uses parameter `{p.name}`"
            yield Diagnostic(
                "W803", message, name_in(p.span, p.name), "unused", help="data say nothing about it; remove it or use it in a factor"
            )


def _terms(model: Model) -> Iterator[Expression]:
    for term in (*model.factors, *model.requires, *model.distributed):
        match term:
            case Factor():
                yield term.value
            case Require():
                yield term.condition
            case Distributed():
                yield term.probabilities


def _still_variables(sampler: Sampler, model: Model) -> Iterator[Diagnostic]:
    """Variables keep their first values where no update names them."""
    if sampler.call is not None or start_of(sampler.kernels) is not None:  # what begins a draw moves all
        return
    moved = set().union(*(update.hidden_variables() for update in updates_in(sampler.kernels)))
    for code, role in (("W804", "latent"), ("W807", "var")):
        still = [v for v in model.variables.values() if v.role == role and v.name not in moved]
        if still:
            message = f"no update of sampler `{sampler.name}` moves {listed([v.name for v in still])}"
            related = tuple((name_in(v.span, v.name), "keeps its first value in every draw") for v in still[:4])
            help = f"add `update {still[0].name}`"
            yield Diagnostic(code, message, name_in(sampler.span, sampler.name), "not all is sampled", related, help)
