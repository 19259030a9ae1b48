"""The formulas of a model: log p, the conditional of a block, the prior."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ..program import ir
from ._document import Section
from ._expressions import Writer
from ._notation import Cells, Notation, latex_text


@dataclass(frozen=True)
class Term:
    """A summand of log p.

    Attributes:
        range: the range of its sum.
        body: the formula of the summand.
        cells: the cells that the summand mentions; None if the text does not determine them.
    """

    range: str
    body: str
    cells: list[str] | None


class ModelFormulas:
    """The formulas of one model in one notation."""

    def __init__(self, model: ir.Model, notation: Notation):
        self.model, self.n = model, notation
        self.cells = Cells(model, notation)
        self.latents = self.cells.latents
        self.write = Writer(notation, model.lets, frozenset(v.name for v in model.variables.values() if v.role == "given"))

    def terms(self) -> Iterator[Term]:
        """Yield the summands of log p: factors, then conditionals given by `~`."""
        for f in self.model.factors:
            yield Term(self.write.clauses(f.clauses), self.write.term(f.value), self.write.touched(f.value))
        for d in self.model.distributed:
            code = self.model.variables[d.target.name].domain.code(d.target)
            if d.is_density:
                cells = self.write.touched(d.probabilities)
                yield Term(self.write.clauses(d.clauses), self.write.term(d.probabilities), cells)
                continue
            if isinstance(d.probabilities, ir.Table):
                body, cells = self.n.entry(self.write.number(d.probabilities), [self.write.number(code)]), self.write.touched(code)
            else:
                assert isinstance(d.probabilities, ir.ParameterValue | ir.InputValue)
                entry = type(d.probabilities)(d.span, d.probabilities.name, (*d.probabilities.indices, code))
                body, cells = self.write.number(entry), self.write.touched(entry)
            yield Term(self.write.clauses(d.clauses), self.n.call("log", [body]), cells)

    def add_log_p(self, section: Section) -> None:
        """Add log p as a sum over all terms minus log Z."""
        n = self.n
        rows = [self.signed(n.over("sum", t.range, t.body), k) for k, t in enumerate(self.terms())] or ["0"]
        section.formula(n.given(self.log("p"), self.cells.whole()), *rows, f"{n.minus} {self.log('Z')}")
        for r in self.model.requires:
            section.formula(n.given("p", self.cells.whole()), f"0{self._requirement(r)}")
        for let in self.model.lets.values():
            name = n.entry(n.name(let.name), [n.name(i) for loop in let.axes for i in loop.names])
            if self.write.is_condition(let.value):
                means = n.either("⇔", "\\iff")
                section.formula(f"{name} {means} {self.write.condition(let.value)}")
            else:
                section.formula(name, self.write.number(let.value))

    def _requirement(self, r: ir.Require) -> str:
        """Return the condition for p = 0: a requirement fails for some values of its loops."""
        n, range_ = self.n, self.write.clauses(r.clauses)
        negated = isinstance(r.condition, ir.Operation) and r.condition.operator == "not"
        condition = self.write.condition(r.condition.operands[0] if negated and isinstance(r.condition, ir.Operation) else r.condition)
        joint, quantifier = (" where ", "for some") if negated else (" unless ", "for every")
        if n.one_line:
            return f"{joint}{condition}" + (f", {quantifier} {range_}" if range_ else "")
        return f" \\text{{{joint}}} {condition}" + (f" \\quad \\text{{{quantifier} }} {range_}" if range_ else "")

    def signed(self, text: str, k: int) -> str:
        """Return a summand with its sign; the first summand has none unless it is negative."""
        return text if k == 0 else f"+ {text}"

    def log(self, name: str) -> str:
        """Return `log p`."""
        return self.n.either(f"log {name}", f"\\log {name}")

    def add_block(self, section: Section) -> None:
        """Add f_K, the terms of log p that mention a cell of K."""
        n, rows = self.n, []
        for t in self.terms():
            if t.cells == []:
                continue
            touches = n.touches(t.cells or [])
            range_ = n.such_that(t.range, touches) if t.range else ""
            body = t.body if t.range else f"{n.indicator(touches)}{n.times}{t.body}"
            rows.append(self.signed(n.over("sum", range_, body), len(rows)))
        section.formula(n.given(n.sub("f", "K"), self.cells.whole()), *(rows or ["0"]))

    def add_conditional(self, section: Section, hidden: Collection[str], adaptive: bool, summed: bool) -> str:
        """Add log p(x_K | x_rest[, K]) from f_K, with the correction of a mask that looks at x.

        Args:
            section: the section to which the formula is added.
            hidden: the variables of the cells of K.
            adaptive: whether the mask looks at x.
            summed: whether the latents, which join the block, are summed out.

        Returns:
            The left side.
        """
        n, cells = self.n, self.cells
        x, y, rest = cells.block(hidden), cells.turned(hidden), cells.rest(hidden, summed)
        f = n.sub("f", "K")
        f_x, f_y = n.given(f, cells.whole()), n.given(f, f"{y}, {rest}")
        turns = y
        if summed:
            f = n.sub("f", n.union("K", n.block(self.latents)))
            joint = n.call("exp", [n.given(f, cells.whole())])
            every = n.over("sum", ", ".join(self.latents), joint)
            f_x, f_y = self.log(every), n.given(f, cells.whole(f"{y}, {rest}"))
            turns = cells.whole(y)
        left = n.given(self.log("p"), x, f"{rest}, K" if adaptive else rest)
        if not adaptive:
            total = n.over("sum", turns, n.call("exp", [f_y]))
            section.formula(left, f"{f_x} {n.minus} {self.log(total)}")
            return left
        seen, other = n.given("p", "K", cells.row), n.given("p", "K", f"{y}, {rest}")
        total = n.over("sum", turns, n.times.join((n.call("exp", [f_y]), other)))
        section.formula(left, f"{f_x} + {self.log(seen)} {n.minus} {self.log(total)}")
        return left

    def add_prior(self, section: Section) -> None:
        """Add log prior as a sum over the entries of parameters."""
        n, rows = self.n, []
        for p in self.model.parameters.values():
            if p.prior is None:
                continue
            axes, indices = p.axes, [n.name(i) for loop in p.axes for i in loop.names]
            if p.prior.form.support == "simplex":
                axes, indices = axes[:-1], indices[: -len(axes[-1].names)]
            density = self._density(p.prior, n.entry(n.name(p.name), indices))
            rows.append(self.signed(n.over("sum", ", ".join(self.write.loop(a) for a in axes), density), len(rows)))
        for t in self.model.priors:
            density = self._density(t.prior, self.write.number(t.target))
            rows.append(self.signed(n.over("sum", self.write.clauses(t.clauses), density), len(rows)))
        section.formula(self.log(n.either("prior", "\\text{prior}")), *(rows or ["0"]))

    def _density(self, prior: ir.FormCall, target: str) -> str:
        """Return the logarithm of the density of a prior at `target`."""
        options = [prior.arguments[o.name] for o in prior.form.options]
        arguments = ", ".join(self.write.number(a) for a in options)  # type: ignore[arg-type]
        return self.n.given(self.log(self._law(prior.form.name)), target, arguments)

    def _law(self, name: str) -> str:
        return self.n.either(name, f"\\operatorname{{{latex_text(name)}}}")
