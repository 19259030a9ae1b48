"""Warn of valid programs that may not be intended.

Each warning is proved, or its message has "may".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import pairwise

from .._diagnostics import Diagnostic, Fix, Span, listed, name_in
from ._blocks import FormCall
from ._comparisons import lint_comparisons
from ._expressions import known_number, mentions
from ._idle_lints import lint_idle
from ._kernels import start_of, updates_in
from ._mask_bodies import Mask
from ._mask_lints import lint_masks
from ._options import input_options, network_options, refinement_options
from ._program import Distributed, Factor, Model, Program, Require, Sampler
from ._terms import Expression, InputValue, ParameterValue, VariableValue, walk
from .limits import FULL


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
    for model in (m for m in program.models.values() if m.conditional is not None):
        yield from lint_network(model, program)
    yield from _exchanged_axes(program)
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


def _exchanged_axes(program: Program) -> Iterator[Diagnostic]:
    """Yield W830 for each table over two sites and their values that is read transposed.

    In `J[i, j, x[j], x[i]]`, the order of the values is opposite to the order of the sites.
    """
    for model in program.models.values():
        terms = [f.value for f in model.factors] + [r.condition for r in model.requires] + [d.probabilities for d in model.distributed]
        terms += [let.value for let in model.lets.values()]
        read = dict.fromkeys(part for e in terms for part in walk(e) if isinstance(part, ParameterValue | InputValue))
        for part in read:
            found = _exchanged(part.indices)
            if found is not None:
                yield _read_transposed(part, *found)


def _exchanged(indices: Sequence[Expression]) -> tuple[VariableValue, VariableValue] | None:
    """Return two consecutive indices `x[j], x[i]` if `i, j` are consecutive indices too.

    Otherwise the result is None.
    """
    sites = set(pairwise(indices))
    for first, second in pairwise(indices):
        if not isinstance(first, VariableValue) or not isinstance(second, VariableValue) or first.name != second.name:
            continue
        if len(first.indices) == len(second.indices) == 1 and first != second and (*second.indices, *first.indices) in sites:
            return first, second
    return None


def _read_transposed(part: ParameterValue | InputValue, first: VariableValue, second: VariableValue) -> Diagnostic:
    source = first.span.source
    place = Span(source, first.span.start, second.span.end)
    between = source.text[first.span.end : second.span.start]
    text = f"{second.span.text}{between}{first.span.text}"
    message = f"`{part.name}` is read transposed: its sites are in one order and their values in the other"
    help = f"write `{text}`; or exchange the sites too, if the table was declared that way"
    return Diagnostic("W830", message, place, "values exchanged", (), help, Fix(place, text, guess=True))


def lint_network(model: Model, program: Program) -> Iterator[Diagnostic]:
    """Yield every warning about the masks and samplers of a model that has a `conditional`."""
    masks = [m for m in program.masks.values() if m.model == model.name and not m.body.has_least_confident]
    causal = _is_causal(model, program)
    for mask in masks:
        yield from _hiding(mask) if causal else _showing(mask)
    for sampler in (s for s in program.samplers.values() if s.model == model.name and masks and not causal):
        yield from _untrained(sampler, masks, model)


def _is_causal(model: Model, program: Program) -> bool:
    assert model.conditional is not None
    return network_options(program.networks[model.conditional.network]).get("causal") is True


def _hiding(mask: Mask) -> Iterator[Diagnostic]:
    """Yield a warning for a mask of a causal network whose noise hides all preceding cells."""
    if all((known_number(noise.get("hide")) or 0) >= FULL for noise in _noises(mask)):
        message = f"mask `{mask.name}` hides what a `causal` network predicts from: the cells before each one"
        help = "write `everything(.., noise = {keep: 1})`: a cell is never seen by its own prediction"
        yield Diagnostic("W814", message, name_in(mask.span, mask.name), "hides the cells before", help=help)


def _noises(mask: Mask) -> list[dict[str, Expression]]:
    """Return the `noise` of every part of a mask."""
    return [input_options(leaf)["noise"] for leaf in mask.body.leaves()]  # pyright: ignore[reportReturnType]


def _trains(masks: list[Mask], word: str) -> bool:
    """Return whether some mask may show this kind of input to the network.

    A probability that an input gives counts as possibly above 0.
    """
    return any(word in noise and known_number(noise[word]) != 0 for m in masks for noise in _noises(m))


def _untrained(sampler: Sampler, masks: list[Mask], model: Model) -> Iterator[Diagnostic]:
    """Yield a warning for a sampler that hides or randomises cells if no mask does so."""
    options = refinement_options(sampler.body) if isinstance(sampler.body, FormCall) else {"start": "hide"}
    starts = options["start"]  # This is also the content of a cell that is predicted again.
    place = name_in(sampler.span, sampler.name)
    related = tuple((name_in(m.span, m.name), "trains the network") for m in masks[:4])
    if starts == "hide" and not _trains(masks, "hide"):
        message = f"sampler `{sampler.name}` hides cells, and no mask of model `{model.name}` trains the network on hidden cells"
        help = "add `hide` to the `noise` of a mask" + (", or write `start = uniform`" if isinstance(sampler.body, FormCall) else "")
        yield Diagnostic("W813", message, place, "never trained", related, help)
    if starts == "uniform" and not _trains(masks, "uniform"):
        message = f"sampler `{sampler.name}` starts from random values, and no mask of model `{model.name}` trains the network on them"
        yield Diagnostic("W813", message, place, "never trained", related, "add `uniform` to the `noise` of a mask, or start with `hide`")


def _showing(mask: Mask) -> Iterator[Diagnostic]:
    """Yield a warning for a mask whose noise keeps every cell.

    The network then sees the cells that it predicts.
    """
    kept = [noise["keep"] for noise in _noises(mask) if (known_number(noise.get("keep")) or 0) >= FULL]
    if kept:
        message = "the network sees every cell that it is asked for: it learns to copy"
        help = "`keep` is the share of cells that hold their true value: below 1, with `hide` or `uniform` for the others"
        span: Span = kept[0].span
        yield Diagnostic("W809", message, span, "keeps all of K", help=help)
