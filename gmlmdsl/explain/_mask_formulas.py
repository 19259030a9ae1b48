"""The formulas of a mask: p(K), the conditional it asks for, the loss, the objective of a fit."""

from __future__ import annotations

from collections.abc import Callable

from .._diagnostics import listed
from ..program import ir
from ._document import Section
from ._expressions import ATOM, FACTOR
from ._formulas import ModelFormulas
from ._notation import Notation


def add_mask(section: Section, mask: ir.Mask, formulas: ModelFormulas, summed: bool) -> None:
    """All that a mask means for a fit, as far as the text tells it; `summed` says that it sums latents out."""
    n = formulas.n
    add_law(section, mask.body, formulas, mask.adaptive)
    if mask.adaptive:
        mentioned = ", ".join(f"`{v}`" for v in mask.given)
        section.words(f"Adaptive: it looks at {mentioned or 'x'}, so K itself tells of x, and the conditional corrects for that:")
    elif mask.given:
        section.words(f"It looks at {listed(mask.given)}, which comes with each row: the distribution of K differs from row to row.")
    formulas.add_conditional(section, mask.adaptive, summed)
    p_k = n.given("p", "K", "x") if mask.adaptive else n.given("p", "K")
    rest = n.sub("x", "rest" if n.one_line else "\\text{rest}")
    log_conditional = n.given(formulas.log("p"), n.sub("x", "K"), f"{rest}, K" if mask.adaptive else rest)
    section.formula(
        n.given("loss", "x") if n.one_line else "\\ell(x)", f"{n.minus}{n.over('sum', 'K', n.times.join((p_k, log_conditional)))}"
    )
    if mask.mentions_parameter:
        section.words("Its weights mention a parameter: it may sample, not fit.")


def add_clusters(section: Section, mask: ir.Mask, formulas: ModelFormulas) -> None:
    """What a mask that draws clusters means for an update."""
    n, body = formulas.n, mask.body
    assert isinstance(body, ir.FormMask)
    edges = ", ".join(
        n.block([formulas.write.cells(c) for c in t.cells]) + _for(n, formulas.write.clauses(t.clauses)).replace("  ", " ")
        for t in body.edges
    )
    section.words(f"Adaptive: K is the cluster of a uniform cell under bonds on the edges{f' {edges}' if n.one_line else ''}.")
    least, g = ("min over g of ", "g ") if n.one_line else ("\\min_g ", "g ")
    i, j = n.sub("x", "i"), n.sub("x", "j")
    fall = f"{n.given('E', f'{g}{i}, {j}')} {n.minus} {n.given('E', f'{i}, {j}')}"
    section.formula(n.given("bond", f"{i}, {j}") if n.one_line else f"b({i}, {j})", f"1 {n.minus} {least}{n.call('exp', [fall])}")
    section.words(
        "E is the sum of the factors on the edge, less what depends on one cell alone; g runs over a group of exchanges of values that "
        "leave every such E as it is where both cells are exchanged."
    )
    k, rest = n.sub("x", "K"), n.sub("x", "rest" if n.one_line else "\\text{rest}")
    ratio = n.times.join((n.given("p", f"{g}{k}, {rest}"), n.given("p", "K", f"{g}{k}, {rest}")))
    section.formula(n.given("p", f"{g}{k}", f"{rest}, K"), f"{ratio} / Z" if n.one_line else f"{ratio} / Z_K")
    section.words(
        "The probability of the bonds inside K is the same at every image and cancels: fields and other factors are what is left."
    )
    section.words("It may sample, not fit: `fit` and `loss` need another mask.")


def add_objective(section: Section, factor: str, n: Notation) -> None:
    """What `fit` minimises under a mask."""
    loss = "loss(x_r)" if n.one_line else "\\ell(x_r)"
    weight = n.sub("w", "r")
    prior = "log prior" if n.one_line else "\\log \\text{prior}"
    total = n.over("sum", "r" if not n.one_line else "rows r", n.times.join((weight, loss)))
    section.formula("objective" if n.one_line else "\\text{objective}", f"c{n.times}{total} {n.minus} {prior}")
    section.words(factor)


def add_law(section: Section, body: ir.MaskBody, formulas: ModelFormulas, adaptive: bool, name: str = "p", depth: int = 0) -> None:
    """p(K), or p(K | x)."""
    n, write = formulas.n, formulas.write
    left = n.given(name, "K", "x") if adaptive else n.given(name, "K")
    match body:
        case ir.FormMask():
            FORMS[body.call.form.name](section, body, formulas, n.given(name, "K"))
        case ir.Listed(uniform=True):
            section.formula(n.given(name, "K"), n.fraction("1", _word(n, "number of blocks")))
            section.words(
                f"The blocks are {_blocks(body, formulas)}; equal ones count once." if n.one_line else "Each distinct block counts once."
            )
        case ir.Listed():
            rows = []
            for term, weight in body.terms:
                assert weight is not None
                rows.append(formulas.signed(n.over("sum", write.clauses(term.clauses), write.term(weight)), len(rows)))
            more = ["x"] if adaptive else []
            own, total = n.given("w", ", ".join(["K", *more])), n.given("W", "x") if adaptive else "W"
            section.formula(left, n.fraction(own, total))
            section.formula(total, *rows)
            for term, weight in body.terms:
                assert weight is not None
                cells, where = n.block([write.cells(c) for c in term.cells]), write.clauses(term.clauses)
                section.formula(n.given("w", cells), write.number(weight) + _for(n, where))
            section.words("Weights of equal blocks add." + " Where W(x) is 0, K is empty." * adaptive)
        case ir.Independent():
            _add_independent(section, body, formulas, left)
        case ir.MaskMixture():
            parts = [f"{name}{k + 1}" if n.one_line else n.sub(name, str(k + 1)) for k in range(len(body.rows))]
            rows = [
                n.times.join((write.number(w, FACTOR), n.given(p, "K", "x" if adaptive else "")))
                for (w, _), p in zip(body.rows, parts, strict=True)
            ]
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
    return f"({text})" if n.one_line else f"\\text{{{text}}}"


def _for(n: Notation, where: str) -> str:
    if not where:
        return ""
    return f"  for {where}" if n.one_line else f" \\quad \\text{{for }} {where}"


def _blocks(body: ir.Listed, formulas: ModelFormulas) -> str:
    n, write = formulas.n, formulas.write
    return ", ".join(
        n.block([write.cells(c) for c in t.cells]) + _for(n, write.clauses(t.clauses)).replace("  ", " ") for t, _ in body.terms
    )


def _add_subsets(section: Section, body: ir.FormMask, formulas: ModelFormulas, left: str) -> None:
    n, cells = formulas.n, _variables(body)
    size = formulas.write.number(body.call.arguments["size"])  # type: ignore[arg-type]
    section.formula(left, n.fraction("1", f"C(n, {size})" if n.one_line else f"\\binom{{n}}{{{size}}}"))
    section.words(f"K is any one of the n cells of {cells}." if size == "1" else f"K is any set of {size} of the n cells of {cells}.")


def _add_stripes(section: Section, body: ir.FormMask, formulas: ModelFormulas, left: str) -> None:
    n, width = formulas.n, formulas.write.number(body.call.arguments["width"])  # type: ignore[arg-type]
    count = f"n {n.minus} {width} + 1"
    section.formula(left, n.fraction("1", n.parens(count) if n.one_line else count))
    section.words(f"K is any {width} of the n cells of {_variables(body)} that follow one another.")


def _add_everything(section: Section, body: ir.FormMask, formulas: ModelFormulas, left: str) -> None:
    section.words(f"K is always all cells of {_variables(body)}.")


def _add_bernoulli(section: Section, body: ir.FormMask, formulas: ModelFormulas, left: str) -> None:
    n, write, rate = formulas.n, formulas.write, body.call.arguments["rate"]
    size, rest = ("|K|", "n − |K|") if n.one_line else ("|K|", "n - |K|")
    r = "r" if isinstance(rate, tuple) else write.number(rate, ATOM)  # type: ignore[arg-type]
    other = n.parens(f"1 {n.minus} {r}")
    value = n.times.join((n.power(r, size), n.power(other, n.parens(rest) if n.one_line else rest)))
    if not isinstance(rate, tuple):
        section.formula(left, value)
        section.words(f"Each of the n cells of {_variables(body)} is in K on its own.")
        return
    low, high = (write.number(e) for e in rate)
    section.formula(left, f"E[{value}]" if n.one_line else f"\\mathbb{{E}}\\left[{value}\\right]")
    section.words(
        f"The rate r is drawn once per mask, uniform from {low} to {high}; then each of the n cells of {_variables(body)} is in K or not."
    )


def _add_least_confident(section: Section, body: ir.FormMask, formulas: ModelFormulas, left: str) -> None:
    section.words(f"`least_confident`: {body.call.form.doc}")


FORMS: dict[str, Callable[[Section, ir.FormMask, ModelFormulas, str], None]] = {
    "subsets": _add_subsets,
    "stripes": _add_stripes,
    "everything": _add_everything,
    "bernoulli": _add_bernoulli,
    "least_confident": _add_least_confident,
}  # `add_clusters` writes `percolation`, which has no p(K) in closed form


def _variables(body: ir.FormMask) -> str:
    """The variables of a form, as they are written."""
    return ", ".join(f"`{v}`" for v in body.variables)


def _add_independent(section: Section, body: ir.Independent, formulas: ModelFormulas, left: str) -> None:
    n, write = formulas.n, formulas.write
    rate = n.given("r", "i")
    inside, outside = ("i ∈ K", "i ∉ K") if n.one_line else ("i \\in K", "i \\notin K")
    rows = (n.over("prod", inside, rate), n.over("prod", outside, n.parens(f"1 {n.minus} {rate}")))
    section.formula(left, n.times.join(rows))
    for term, value in body.terms:
        cells = write.cells(term.cells[0]) if len(term.cells) == 1 else n.block([write.cells(c) for c in term.cells])
        section.formula(n.given("r", cells), write.number(value) + _for(n, write.clauses(term.clauses)))
