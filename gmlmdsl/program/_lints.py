"""Warn of valid programs that may not be intended.

Each warning is proved, or its message has "may".
"""

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
    """Yield every warning that needs the complete checked program.

    `used` contains the names that the program's text looks up.
    """
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
    """Yield a warning for variables that no update names.

    They keep their first values in all draws.
    """
    # A decoder that begins each draw redraws all variables.
    if sampler.call is not None or start_of(sampler.kernels) is not None:
        return
    moved = set().union(*(update.hidden_variables() for update in updates_in(sampler.kernels)))
    for code, role in (("W804", "latent"), ("W807", "var")):
        still = [v for v in model.variables.values() if v.role == role and v.name not in moved]
        if still:
            message = f"no update of sampler `{sampler.name}` moves {listed([v.name for v in still])}"
            related = tuple((name_in(v.span, v.name), "keeps its first value in every draw") for v in still[:4])
            help = f"add `update {still[0].name}`" + ("" if role == "latent" else ", or clamp it in each call, if it is meant to stay")
            yield Diagnostic(code, message, name_in(sampler.span, sampler.name), "not all is sampled", related, help)
