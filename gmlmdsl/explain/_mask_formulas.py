"""The formulas of a mask: p(K), its conditional, the loss, and the objective of a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .._diagnostics import listed
from ..program import ir
from ._document import Section
from ._expressions import ATOM, FACTOR
from ._formulas import ModelFormulas
from ._notation import Notation


def add_mask(section: Section, mask: ir.Mask, formulas: ModelFormulas, summed: bool) -> None:
    """Add the meaning of a mask for a fit, as far as the text determines it.

    Args:
        section: the section.
        mask: the mask.
        formulas: the formulas of the model.
        summed: whether latents are summed out under the mask.
    """
    n, row, hidden = formulas.n, formulas.cells.row, mask.body.hidden_variables()
    add_law(section, mask.body, formulas, mask.adaptive)
    if mask.adaptive:
        seen = ", ".join(f"`{v}`" for v in mask.given) or n.inline(row)
        tells = f"so K itself tells of {n.inline(row)}, and the conditional corrects for that:"
        section.words(f"Adaptive: it looks at {seen}, {tells}")
    elif mask.given:
        looks = f"It looks at {listed(mask.given)}, which comes with each row"
        section.words(f"{looks}: the distribution of K differs from row to row.")
    log_conditional = formulas.add_conditional(section, hidden, mask.adaptive, summed)
    p_k = n.given("p", "K", row) if mask.adaptive else n.given("p", "K")
    loss = n.over("sum", "K", n.times.join((p_k, log_conditional)))
    section.formula(loss_of(formulas), f"{n.minus}{loss}")
    if mask.mentions_parameter:
        section.words("Its weights mention a parameter: it may sample, not fit.")


def loss_of(formulas: ModelFormulas, below: str = "") -> str:
    """Return `loss(x)`; with `below`, the loss of the row with that number."""
    n, row = formulas.n, formulas.cells.row
    return n.given(n.either("loss", "\\ell"), n.sub(row, below) if below else row)


def add_clusters(section: Section, mask: ir.Mask, formulas: ModelFormulas) -> None:
    """Add the meaning of a mask that draws clusters for an update."""
    n, body, cells = formulas.n, mask.body, formulas.cells
    assert isinstance(body, ir.FormMask)
    hidden = body.hidden_variables()
    edges = _terms(body.edges, formulas)
    section.words(f"Adaptive: K is the cluster of a uniform cell under bonds on the edges {edges}.")
    least, g = n.either("min over g of ", "\\min_g "), "g "
    i, j = cells.block(hidden, "i"), cells.block(hidden, "j")
    fall = f"{n.given('E', f'{g}{i}, {j}')} {n.minus} {n.given('E', f'{i}, {j}')}"
    bond = n.given(n.either("bond", "b"), f"{i}, {j}")
    section.formula(bond, f"1 {n.minus} {least}{n.call('exp', [fall])}")
    section.words(
        "E is the sum of the factors on the edge, less what depends on one cell alone; g runs over a group of exchanges of values that "
        "leave every such E as it is where both cells are exchanged."
    )
    k, rest = cells.block(hidden), cells.rest(hidden)
    ratio = n.times.join((n.given("p", f"{g}{k}, {rest}"), n.given("p", "K", f"{g}{k}, {rest}")))
    law = n.given("p", f"{g}{k}", f"{rest}, K")
    section.formula(law, n.either(f"{ratio} / Z", f"{ratio} / Z_K"))
    section.words(
        "The probability of the bonds inside K is the same at every image and cancels: fields and other factors are what is left."
    )
    section.words("It may sample, not fit: `fit` and `loss` need another mask.")


def add_objective(section: Section, factor: str, formulas: ModelFormulas) -> None:
    """Add the objective that `fit` minimises under a mask."""
    n = formulas.n
    weight, loss = n.sub(n.either("weight", "\\text{weight}"), "r"), loss_of(formulas, "r")
    total = n.over("sum", n.either("rows r", "r"), n.times.join((weight, loss)))
    prior = formulas.log(n.either("prior", "\\text{prior}"))
    objective = n.either("objective", "\\text{objective}")
    section.formula(objective, f"c{n.times}{total} {n.minus} {prior}")
    section.words(factor)


def add_law(section: Section, body: ir.MaskBody, formulas: ModelFormulas, adaptive: bool, name: str = "p", depth: int = 0) -> None:
    """Add p(K), or p(K | x) for an adaptive mask.

    Args:
        section: the section.
        body: the body of the mask.
        formulas: the formulas of the model.
        adaptive: whether the mask looks at x.
        name: the name of the distribution.
        depth: the depth of a part in a mixture.
    """
    n, write = formulas.n, formulas.write
    row = formulas.cells.row
    seen = row if adaptive else ""
    left = n.given(name, "K", seen)
    match body:
        case ir.FormMask():
            FORMS[body.call.form.name](section, body, formulas, n.given(name, "K"))
        case ir.Listed(uniform=True):
            section.formula(n.given(name, "K"), n.fraction("1", _word(n, "number of blocks")))
            blocks = _terms([term for term, _ in body.terms], formulas)
            section.words(f"The blocks are {blocks}; equal ones count once.")
        case ir.Listed():
            _add_listed(section, body, formulas, left, adaptive)
        case ir.Independent():
            _add_independent(section, body, formulas, left)
        case ir.MaskMixture():
            numbers = map(str, range(1, len(body.rows) + 1))
            parts = [n.either(f"{name}{k}", n.sub(name, k)) for k in numbers]
            weights = [write.number(w, FACTOR) for w, _ in body.rows]
            laws = [n.given(p, "K", seen) for p in parts]
            rows = [n.times.join(pair) for pair in zip(weights, laws, strict=True)]
            section.formula(left, " + ".join(rows))
            section.words("The weights in front are divided by their sum.")
            for part, p in zip(body.parts, parts, strict=True):
                looks = adaptive and any(_mentions_variable(w, formulas.model.lets) for w in part.weights())
                add_law(section, part, formulas, looks, p, depth + 1)
        case _:
            raise AssertionError(f"a mask of {type(body).__name__} has no formula")


def _mentions_variable(e: ir.Expression, lets: dict[str, ir.Let]) -> bool:
    return any(
        isinstance(part, ir.VariableValue) or (isinstance(part, ir.LetValue) and _mentions_variable(lets[part.name].value, lets))
        for part in ir.walk(e)
    )


def _word(n: Notation, text: str) -> str:
    return n.either(f"({text})", f"\\text{{{text}}}")


def _for(n: Notation, where: str) -> str:
    return n.either(f"  for {where}", f" \\quad \\text{{for }} {where}") if where else ""


def _terms(terms: Iterable[ir.BlockTerm], formulas: ModelFormulas) -> str:
    """Return `{x[i], x[j]} for (i, j) ∈ G.edges`, one after another, for a sentence."""
    n, write = formulas.n, formulas.write
    blocks = [(n.block([write.cells(c) for c in t.cells]), write.clauses(t.clauses)) for t in terms]
    texts = [f"{block}{_for(n, where)}" for block, where in blocks]
    return ", ".join(n.inline(text.replace(" \\quad", "").replace("  ", " ")) for text in texts)


def _add_subsets(section: Section, body: ir.FormMask, formulas: ModelFormulas, left: str) -> None:
    n, cells = formulas.n, _variables(body)
    size = formulas.write.number(body.call.arguments["size"])  # type: ignore[arg-type]
    section.formula(left, n.fraction("1", n.either(f"C(n, {size})", f"\\binom{{n}}{{{size}}}")))
    any_of = "any one" if size == "1" else f"any set of {size}"
    section.words(f"K is {any_of} of the n cells of {cells}.")


def _add_stripes(section: Section, body: ir.FormMask, formulas: ModelFormulas, left: str) -> None:
    n, width = formulas.n, formulas.write.number(body.call.arguments["width"])  # type: ignore[arg-type]
    count = f"n {n.minus} {width} + 1"
    section.formula(left, n.fraction("1", n.either(n.parens(count), count)))
    section.words(f"K is any {width} of the n cells of {_variables(body)} that follow one another.")


def _add_everything(section: Section, body: ir.FormMask, formulas: ModelFormulas, left: str) -> None:
    section.words(f"K is always all cells of {_variables(body)}.")


def _add_bernoulli(section: Section, body: ir.FormMask, formulas: ModelFormulas, left: str) -> None:
    n, write, rate = formulas.n, formulas.write, body.call.arguments["rate"]
    size, rest = "|K|", f"n {n.minus} |K|"
    r = "r" if isinstance(rate, tuple) else write.number(rate, ATOM)  # type: ignore[arg-type]
    other = n.parens(f"1 {n.minus} {r}")
    value = n.times.join((n.power(r, size), n.power(other, n.either(n.parens(rest), rest))))
    if not isinstance(rate, tuple):
        section.formula(left, value)
        section.words(f"Each of the n cells of {_variables(body)} is in K on its own.")
        return
    low, high = (write.number(e) for e in rate)
    section.formula(left, n.either(f"E[{value}]", f"\\mathbb{{E}}\\left[{value}\\right]"))
    section.words(
        f"The rate r is drawn once per mask, uniform from {low} to {high}; then each of the n cells of {_variables(body)} is in K or not."
    )


def _add_least_confident(section: Section, body: ir.FormMask, formulas: ModelFormulas, left: str) -> None:
    section.words(f"`least_confident`: {body.call.form.doc}")


def _add_visits(section: Section, body: ir.FormMask, formulas: ModelFormulas, left: str) -> None:
    sampler = body.call.arguments["sampler"]
    assert isinstance(sampler, ir.Sampler)
    section.words(f"K is what sampler `{sampler.name}`, `{sampler.body.span.text}`, hides in a pass.")  # type: ignore[union-attr]


FORMS: dict[str, Callable[[Section, ir.FormMask, ModelFormulas, str], None]] = {
    "subsets": _add_subsets,
    "stripes": _add_stripes,
    "everything": _add_everything,
    "bernoulli": _add_bernoulli,
    "least_confident": _add_least_confident,
    "visits": _add_visits,
}  # `add_clusters` writes `percolation`, which has no p(K) in closed form


def _variables(body: ir.FormMask) -> str:
    """Return the variables of a form, as they are written."""
    return ", ".join(f"`{v}`" for v in body.variables)


def _add_listed(section: Section, body: ir.Listed, formulas: ModelFormulas, left: str, adaptive: bool) -> None:
    n, write, row = formulas.n, formulas.write, formulas.cells.row
    rows: list[str] = []
    for term, weight in body.terms:
        assert weight is not None
        rows.append(formulas.signed(n.over("sum", write.clauses(term.clauses), write.term(weight)), len(rows)))
    own = n.given("w", ", ".join(["K", *[row] * adaptive]))
    total = n.given("W", row) if adaptive else "W"
    section.formula(left, n.fraction(own, total))
    section.formula(total, *rows)
    for term, weight in body.terms:
        assert weight is not None
        cells, where = n.block([write.cells(c) for c in term.cells]), write.clauses(term.clauses)
        section.formula(n.given("w", cells), write.number(weight) + _for(n, where))
    empty = f" Where {n.inline(total)} is 0, K is empty."
    section.words(f"Weights of equal blocks add.{empty * adaptive}")


def _add_independent(section: Section, body: ir.Independent, formulas: ModelFormulas, left: str) -> None:
    n, write = formulas.n, formulas.write
    rate = n.given("r", "i")
    inside, outside = n.members(["i"], "K"), n.either("i ∉ K", "i \\notin K")
    rows = (n.over("prod", inside, rate), n.over("prod", outside, n.parens(f"1 {n.minus} {rate}")))
    section.formula(left, n.times.join(rows))
    for term, value in body.terms:
        cells = write.cells(term.cells[0]) if len(term.cells) == 1 else n.block([write.cells(c) for c in term.cells])
        section.formula(n.given("r", cells), write.number(value) + _for(n, write.clauses(term.clauses)))
