"""Warn of valid programs that may not be intended.

Each warning is proved, or its message has "may".

Some warn of masks that hide parameters from a fit, of blocks that reveal their hidden cells, and
of unused and duplicate parts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise

from .._diagnostics import Diagnostic, Fix, Span, listed, name_in
from ._comparisons import ARITHMETIC, Number, lint_comparisons, values_of, weights
from ._expressions import known_number, mentions
from ._kernels import start_of, updates_in
from ._mask_bodies import Mask, MaskBody
from ._options import input_options, network_options, refinement_options
from ._program import Distributed, Factor, Model, Program, Require, Sampler
from ._terms import (
    BlockTerm,
    Choice,
    Clauses,
    Expression,
    FormCall,
    IndexValue,
    InputValue,
    LetValue,
    Literal,
    Loop,
    Operation,
    ParameterValue,
    Sum,
    VariableValue,
    walk,
)
from ._terms import Cells as CellsOf
from .limits import FULL

COMMUTE = ("+", "*", "and", "or", "==", "!=", "min", "max")


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


def lint_masks(program: Program) -> Iterator[Diagnostic]:
    """Yield every warning about the masks of a program."""
    used = used_bodies(program)
    for mask in program.masks.values():
        model = program.models[mask.model]
        place = name_in(mask.span, mask.name)
        if not any(mask.body is body for body in used):
            if mask.body.is_percolation:
                help = "write `update K where K ~ ..` in a sampler"
                yield Diagnostic("W810", f"mask `{mask.name}` draws clusters and no sampler uses it", place, "only samples", (), help)
            elif mask.mentions_parameter:
                help = "a sampler may use it; for a fit take weights without parameters"
                message = f"mask `{mask.name}` mentions a parameter and no sampler uses it: a fit refuses it"
                parts = [p for w in weights(mask) for p in mentions(w, model.lets) if isinstance(p, ParameterValue)]
                related = tuple((p.span, f"`{p.name}` is a parameter") for p in parts[:1])
                yield Diagnostic("W810", message, place, "only samples", related, help)
            else:
                yield from _unseen(mask, model, place)
        yield from _revealing(mask, model)


def used_bodies(program: Program) -> list[MaskBody]:
    """Return the bodies of masks that a sampler or a mixture names.

    These masks have a use other than a fit.
    """
    updates = (update for sampler in program.samplers.values() for update in updates_in(sampler.body))
    found = [update.drawn_mask.body for update in updates if update.drawn_mask is not None]
    for sampler in program.samplers.values():
        schedule = sampler.body.arguments.get("schedule") if isinstance(sampler.body, FormCall) else None
        found += [schedule.body] if isinstance(schedule, Mask) else []
    bodies = [*found, *(m.body for m in program.masks.values())]
    while bodies:
        body = bodies.pop()
        found += body.parts
        bodies += body.parts
    return found


def _unseen(mask: Mask, model: Model, place: Span) -> Iterator[Diagnostic]:
    """Yield a warning for parameters whose factors contain no cell that the mask can hide.

    Such factors cancel in every p(x_K | x_rest).
    """
    # A latent variable is summed out, together with all factors that mention it.
    hidden = mask.body.hidden_variables() | {v.name for v in model.variables.values() if v.role == "latent"}
    seen, touched = set[str](), set[str]()
    for parameters, variables in _named_in_terms(model):
        touched |= parameters
        if not variables.isdisjoint(hidden):
            seen |= parameters
    unseen = [p for p in model.parameters.values() if p.name in touched - seen]
    if unseen and model.conditional is None:
        away = [v.name for v in model.variables.values() if v.role == "var" and v.name not in hidden]
        message = f"a fit under mask `{mask.name}` says nothing about {listed([p.name for p in unseen])}"
        related = tuple((name_in(p.span, p.name), "its factors hold no cell that the mask hides") for p in unseen[:4])
        help = f"add blocks with cells of {listed(away)}" if away else ""
        yield Diagnostic("W808", message, place, "not all is fitted", related, help)


def _named_in_terms(model: Model) -> Iterator[tuple[set[str], set[str]]]:
    """Yield the parameters and the variables of each factor and of each distribution."""
    terms = (*((f.value,) for f in model.factors), *((d.target, d.probabilities) for d in model.distributed))
    for term in terms:
        parts = [p for e in term for p in mentions(e, model.lets)]
        kinds = (ParameterValue, VariableValue)
        parameters, variables = ({p.name for p in parts if isinstance(p, kind)} for kind in kinds)
        yield parameters, variables


def _revealing(mask: Mask, model: Model) -> Iterator[Diagnostic]:
    """Yield a warning for weights that are 0 unless a hidden cell has one particular value.

    In this case K determines the value, and there is nothing to predict.
    """
    if not mask.adaptive:
        return
    for term, weight in mask.body.weighted_blocks():
        revealed = [] if weight is None else list(_given_away(term, weight, model))
        if not revealed:
            continue
        cell, value = revealed[0]
        others = any(t is not term and cell.variable in {c.variable for c in t.cells} for t, _ in mask.body.weighted_blocks())
        again = len(term.cells) > 1 and (len(term.clauses.loops) > 1 or any(x.over.part == "arcs" for x in term.clauses.loops))
        word = mask.body.weight_word
        # The weights of equal blocks add up.
        may = mask.body.adds_equal_blocks and (others or again)
        message = (
            f"this block {'may reveal' if may else 'reveals'} `{cell.span.text}`: its {word} is 0 unless `{cell.span.text}` is {value:g}"
        )
        help = "a cell whose value K tells cannot be learnt from or moved; use a weight that is above 0 for two values or more"
        assert weight is not None
        yield Diagnostic("W809", message, weight.span, "tells the hidden value", ((cell.span, "hidden here"),), help)


def _given_away(term: BlockTerm, weight: Expression, model: Model) -> Iterator[tuple[CellsOf, Number]]:
    for cell in term.cells:
        variable = model.variables[cell.variable]
        values = values_of(variable.domain)
        if values is None or len(values) < 2 or (cell.indices is None and variable.axes):
            continue
        own = VariableValue(cell.span, cell.variable, cell.indices or ())
        possible = [v for v in sorted(values) if evaluate(weight, own, v) != 0]
        if len(possible) == 1:
            yield cell, possible[0]


def evaluate(e: Expression, cell: VariableValue, value: Number) -> Number | None:
    """Return the value of `e` if one cell has a given value and all else is unknown.

    The result is None if this does not determine the value.
    """
    match e:
        case Literal():
            return e.value
        case VariableValue():
            return value if e == cell else None
        case Choice():
            test = evaluate(e.test, cell, value)
            if test is None:
                both = {evaluate(e.yes, cell, value), evaluate(e.no, cell, value)}
                return both.pop() if len(both) == 1 else None
            return evaluate(e.yes if test else e.no, cell, value)
        case Operation():
            return _computed(e.operator, [evaluate(part, cell, value) for part in e.operands])
        case LetValue() | Sum():
            return None
    return None


def _computed(operator: str, parts: Sequence[Number | None]) -> Number | None:
    if operator in ("*", "and") and 0 in parts:
        return 0
    if operator == "or" and any(parts):
        return 1
    known = [p for p in parts if p is not None]
    if len(known) < len(parts) or operator not in ARITHMETIC:
        return None
    try:
        return ARITHMETIC[operator](*known)
    except ArithmeticError:
        return None


def lint_idle(program: Program, used: Set[str]) -> Iterator[Diagnostic]:
    """Yield warnings for unused names, ineffective factors, pairs counted twice, and unused `sees`.

    Args:
        program: a checked program.
        used: the names that its text looks up.
    """
    yield from _unused(program, used)
    for model in program.models.values():
        if model.conditional is None:
            yield from _free(model, program)
            for term, value in (*((f, f.value) for f in model.factors), *((r, r.condition) for r in model.requires)):
                yield from _same_for_all(term, value)
            for factor in model.factors:
                yield from _cancels(factor, model)
                yield from _twice(factor, model)
    yield from _never_looked_at(program)


def _unused(program: Program, used: Set[str]) -> Iterator[Diagnostic]:
    """Yield a warning for each unused declaration of the program's own file.

    A file without a model is skipped, because it declares names for other files.
    """
    if not program.models:
        return
    lengths = {owner for length, (owner, _) in program.lengths.items() if length in used}
    kinds: dict[str, Mapping[str, object]] = {
        "input": program.inputs,
        "domain": program.domains,
        "index set": program.index_sets,
        "graph": program.graphs,
        "network": program.networks,
    }
    for what, declared in kinds.items():
        for name, value in declared.items():
            span: Span = value.span  # type: ignore[attr-defined]
            if name not in used and name not in lengths and span.source == program.sources[0]:
                place = _named_before(span, name) or (name_in(span, name) if span.text != name else span)
                yield Diagnostic("W817", f"nothing uses {what} `{name}`", place, "unused", help="remove it, or use it")


def _named_before(span: Span, name: str) -> Span | None:
    """Return the place of the name of a graph or network before its form: `graph G = chain(4)`."""
    found = re.search(rf"\b{name}\b(?=\s*=\s*$)", span.source.text[: span.start])
    return found and Span(span.source, *found.span())


def _free(model: Model, program: Program) -> Iterator[Diagnostic]:
    """Yield a warning for each variable that no factor mentions, in a model that has factors."""
    if not (model.factors or model.requires or model.distributed):
        return
    terms = [*(f.value for f in model.factors), *(r.condition for r in model.requires)]
    terms += [part for d in model.distributed for part in (d.target, d.probabilities)]
    named = {p.name for e in terms for p in mentions(e, model.lets)}
    own = [w for m in program.masks.values() if m.model == model.name for w in weights(m)]
    looked_at = {p.name for w in own for p in mentions(w, model.lets)}
    for v in model.variables.values():
        if v.name in named or (v.role == "given" and v.name in looked_at):
            continue
        what = "says nothing" if v.role == "given" else "is uniform, and independent of all else"
        yield Diagnostic(
            "W817", f"no factor mentions `{v.name}`: it {what}", name_in(v.span, v.name), "in no factor", help="remove it, or use it"
        )


def _same_for_all(term: Factor | Require, value: Expression) -> Iterator[Diagnostic]:
    """Yield a warning for each loop whose index is unused, so that all iterations are identical.

    A loop over pairs is skipped, because one of its names may be left out intentionally.
    """
    # `for c in range(r)` uses r.
    ends = [e for loop in term.clauses.loops for e in (loop.over.start, loop.over.size)]
    parts = [e for e in (value, term.clauses.condition, *ends) if e is not None]
    named = {p.name for e in parts for p in walk(e) if isinstance(p, IndexValue)}
    for loop in term.clauses.loops:
        if len(loop.names) == 1 and loop.names[0] not in named:
            what = "the same term is added in every iteration" if isinstance(term, Factor) else "every iteration requires the same"
            message = f"nothing uses `{loop.names[0]}`: {what}"
            yield Diagnostic("W817", message, name_in(loop.span, loop.names[0]), "unused", help="remove the loop, or use its index")


def _cancels(factor: Factor, model: Model) -> Iterator[Diagnostic]:
    """Yield a warning for a factor without a predicted cell.

    Such a factor is equal for all configurations.
    """
    named = [p for p in mentions(factor.value, model.lets) if isinstance(p, VariableValue)]
    if all(model.variables[p.name].role == "given" for p in named):
        message = "this factor mentions no variable that is predicted: it cancels when p is normalised"
        yield Diagnostic(
            "W818", message, factor.value.span, "changes no probability", help="remove it, or let it mention a `var` or `latent`"
        )


def _never_looked_at(program: Program) -> Iterator[Diagnostic]:
    for mask in program.masks.values():
        if not mask.body.weighted_blocks() or not mask.given:
            continue
        lets = program.models[mask.model].lets
        seen = {p.name for w in weights(mask) for p in mentions(w, lets)}
        for name in mask.given:
            if name not in seen:
                message = f"mask `{mask.name}` says that it looks at `{name}`, and no weight or rate of it does"
                yield Diagnostic("W816", message, _in_header(mask.span, name), "never looked at", help=f"remove `{name}` from the header")


def _in_header(span: Span, name: str) -> Span:
    """Return the place of a name after `sees` in a mask's header."""
    found = re.search(r" (sees|given) ", span.text)
    start = span.start + found.start() + 1 if found else span.start
    return name_in(Span(span.source, start, span.end), name)


def _twice(factor: Factor, model: Model) -> Iterator[Diagnostic]:
    """Yield a warning for a coupling that has equal values for (i, j) and (j, i) and counts both.

    A coupling of three cells is reported if its values are equal in all six orders.
    """
    names = _ordered(factor.clauses)
    orders = math.factorial(len(names))
    if not names or not _is_coupling(factor.value, names, model) or _is_shared(factor.value, orders):
        return
    condition = factor.clauses.condition
    parts = [factor.value] if condition is None else [factor.value, condition]
    places = {name: str(k) for k, name in enumerate(names)}
    for one, other in pairwise(names):  # Exchanges of neighbours generate every order.
        exchanged = {**places, one: places[other], other: places[one]}
        if any(_form(e, places, model) != _form(e, exchanged, model) for e in parts):
            return
    over = factor.clauses.loops[-1].over
    ascending = " and ".join(f"{one} < {other}" for one, other in pairwise(names))
    help = f"loop over `{over.graph}.edges`" if over.part in ("arcs", "neighbours") else f"add `if {ascending}`"
    what, often, share = {2: ("pair", "twice", "0.5 *` where half"), 6: ("triple", "six times", "/ 6` where a sixth")}[orders]
    message = f"each {what} is counted {often}: this is the same for ({', '.join(names)}) and for ({', '.join(reversed(names))})"
    yield Diagnostic("W819", message, factor.span, f"counted {often}", help=f"{help}, or write `{share} of it is meant")


def _ordered(clauses: Clauses) -> tuple[str, ...]:
    """Return the names of a loop over all ordered pairs or triples, and () for any other loop."""
    loops = clauses.loops
    if len(loops) == 1 and loops[0].over.part == "arcs":
        return loops[0].names
    if len(loops) == 2 and _is_of_neighbours(loops[0], loops[1]):
        return (*loops[0].names, *loops[1].names)
    alike = all(loop.over == loops[0].over and len(loop.names) == 1 for loop in loops)
    return tuple(loop.names[0] for loop in loops) if len(loops) in (2, 3) and alike else ()


def _is_of_neighbours(first: Loop, second: Loop) -> bool:
    """Return whether two loops run over all nodes of a graph and over the neighbours of each."""
    node = second.over.size
    of = isinstance(node, IndexValue) and first.names == (node.name,)
    return first.over.part == "nodes" and second.over.part == "neighbours" and first.over.graph == second.over.graph and of


def _is_coupling(e: Expression, names: tuple[str, ...], model: Model) -> bool:
    """Return whether `e` mentions predicted cells at all names."""
    cells = [p for p in mentions(e, {}) if isinstance(p, VariableValue) and model.variables[p.name].role != "given"]
    at = [{x.name for i in c.indices for x in walk(i) if isinstance(x, IndexValue)} for c in cells]
    return all(any(n in found for found in at) for n in names)


def _is_shared(e: Expression, count: int) -> bool:
    """Return whether a term is divided by `count`, the number of orders.

    A sum over ordered pairs is often written this way.
    """
    match e:
        case Literal():
            return isinstance(e.value, float) and math.isclose(e.value, 1 / count, rel_tol=0.003)
        case Operation(operator="*"):
            return any(_is_shared(x, count) for x in e.operands)
        case Operation(operator="/"):
            left, right = e.operands
            return (isinstance(right, Literal) and right.value == count) or _is_shared(left, count)
        case Operation(operator="neg"):
            return _is_shared(e.operands[0], count)
    return False


def _form(e: Expression, names: Mapping[str, str], model: Model) -> object:
    """Return a normal form of an expression. Expressions with equal normal forms have equal values.

    The order of operands is removed if it has no meaning, and `names` replaces the index names.
    """
    match e:
        case IndexValue():
            return "index", names.get(e.name, f".{e.name}")
        case Operation():
            parts = [_form(o, names, model) for o in _operands(e)]
            return e.operator, tuple(sorted(parts, key=repr) if e.operator in COMMUTE else parts)
        case ParameterValue():
            indices = [_form(i, names, model) for i in e.indices]
            axes = model.parameters[e.name].axes
            unordered = len(axes) == 1 and axes[0].over.part == "edges"
            return "param", e.name, tuple(sorted(indices, key=repr) if unordered else indices)
        case VariableValue() | LetValue():
            return type(e).__name__, e.name, tuple(_form(i, names, model) for i in e.indices)
        case Literal():
            return "number", e.value
        case Choice():
            return "if", *(_form(part, names, model) for part in (e.test, e.yes, e.no))
    return id(e), tuple(sorted(names.items()))  # Nothing is known of any other expression.


def _operands(e: Operation) -> list[Expression]:
    """Return the operands of an operation, with nested sums or products of one operator merged."""
    if e.operator not in ("+", "*", "and", "or"):
        return list(e.operands)
    return [x for o in e.operands for x in (_operands(o) if isinstance(o, Operation) and o.operator == e.operator else [o])]
