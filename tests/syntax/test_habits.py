"""What newcomers write who know Stan, NumPyro, Python or the papers, and what they are told; kept as text.

`GMLM_UPDATE_GOLDEN=1 pytest tests/syntax/test_habits.py` writes the texts anew; read the difference before keeping it.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from mutants import said_of
from thinned import thinned

HABITS = Path(__file__).parents[1] / "programs" / "habits"
PROGRAMS = sorted(path.stem for path in HABITS.glob("*.gmlm"))
UPDATE = os.environ.get("GMLM_UPDATE_GOLDEN") == "1"
# What must be said: a piece of the help of some diagnostic.
TOLD = {
    "edges_of_a_graph": "write `G.edges`",
    "line_without_a_keyword": "`factor ..`",
    "name_with_equals": "`let name = ..`",
    "python_loop_in_front": "a loop stands behind its statement",
    "stan_program": "data belong to the Python call",
    "stan_logits": "`categorical(logits = h[a] for a in domain)`",
    "stan_bounds_and_target": "write `factor`",
    "variable_with_equals": "write `var y : ..`",
    "set_as_a_type": "`spin` is -1 or +1",
    "question_mark": "`if c then a else b`",
    "samplers_by_other_names": "`update x[i] for i in site`",
    "python_bodies": "write `model m { .. }`",
    "hidden_behind_a_type": "write `latent z[t in time] : range(3)`",
    "assignments_of_r": "write `input n : int = ..`",
    "conditions_of_papers": 'write `"A"`',
    "axes_without_names": "`j in range(3)`",
    "an_hmm_of_stan": "`z[t] ~ categorical(move[z[t - 1]]) for t in time if t > 0`",
    "loops_with_bodies": "`factor h[i] * x[i] for i in range(4)`; i counts from 0",
    "loops_of_declarations": "`var x[i in site] ..`",
    "bodies_without_braces": "`repeat 4 { .. }`",
    "signs_before_a_body": "`sampler t { .. }`",
    "loops_over_pairs": "`for i in site for j in site if i < j`",
    "terms_with_names": "`let f = ..` and `factor f`",
    "tables_of_numpy": "`p[z[i]]`",
    "networks_in_place": "`network net = transformer(..)`",
    "types_of_other_languages": "`x[i in range(n)]`",
    "powers_and_products": "`x ^ 2`",
    "vectors_and_transposes": "nothing is transposed",
    "requirements_of_solvers": "`require all_different(x[i] for i in site)`",
    "masks_of_newcomers": "`blocks({x[0], x[1]})`",
    "graphs_of_networkx": "then `edges(pairs, nodes = 3)`",
    "choices_of_other_languages": "`if c then a else b`",
    "constants_of_python": "`J ~ normal(0, 1)`",
    "updates_without_a_word": "`update x[..]`",
    "stan_statements": "`factor a * y[i] for i in range(4)`",
    "stan_generated": "`observe=` of `model.sample`",
    "distributions_of_bugs": "a precision, 1 / sd ^ 2",
    "functions_of_elsewhere": "`logsumexp(a[i] for i in site)`",
    "julia_body": "`factor x[i] for i in range(3)`; i counts from 0",
    "turing_model": "runs no code",
    "turing_statements": "`param h ~ normal(mean, sd)`",
    "assigned_draws": "`param h ~ normal(0, 1)`",
    "formulas_of_r": "`y ~ bernoulli(logit = a + b * z)`",
    "lists_of_r": "`[0.2, 0.8]`",
    "statements_of_webppl": "`x ~ categorical(p)`",
    "probabilities_of_papers": "the log odds a + b * z",
    "loops_of_python": "the cell is `x[i]`",
    "masks_of_spans": "`blocks({x[t], x[t + 1], x[t + 2]} for t in time if t < n - 2)`",
    "words_of_elsewhere_on_one_line": "write `latent`",
    "types_with_colon_equals": "write `:`",
    "distributions_of_logits": "`categorical(logits = h[a] for a in domain)`",
    "prior_of_a_let": "`param y ~ ..`",
    "calls_of_python_in_a_file": "`model.sample(params)`",
    "loops_of_papers": "`for i in site if i > 1`",
    "choices_of_case_and_match": "`if c then a else b`",
    "updates_of_masks": "`update K where K ~ two`",
    "conditional_of_a_cell": "`conditional x ~ net()`",
    "options_by_other_names": "it has `size`, `noise`",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_habit_is_answered_as_kept(name: str) -> None:
    golden, text = HABITS / f"{name}.txt", (HABITS / f"{name}.gmlm").read_text()
    found = "\n\n".join(d.render() for d in said_of(text, f"{name}.gmlm")) + "\n"
    if UPDATE:
        golden.write_text(found, encoding="utf-8")
    assert golden.is_file(), f"{golden.name} is missing: run with GMLM_UPDATE_GOLDEN=1"
    assert found == golden.read_text(encoding="utf-8")


def test_no_text_is_left_over() -> None:
    assert {path.stem for path in HABITS.glob("*.txt")} == set(PROGRAMS)


@pytest.mark.parametrize("name", TOLD)
def test_the_help_names_what_is_written_here(name: str) -> None:
    said = said_of((HABITS / f"{name}.gmlm").read_text(), "p.gmlm")
    assert any(TOLD[name] in d.help for d in said)


@pytest.mark.parametrize("name", thinned(PROGRAMS, 3))  # the others' fixes are in the kept texts
def test_every_fix_mends_its_habit_and_nothing_else_breaks(name: str) -> None:
    text = (HABITS / f"{name}.gmlm").read_text()
    found = said_of(text, "p.gmlm")
    before = Counter((d.code, d.message) for d in found)
    for d in found:
        if d.fix is not None:
            after = Counter((x.code, x.message) for x in said_of(d.fix.applied(text), "p.gmlm") if x.severity == "error")
            assert after <= before, d.render()
            assert after[d.code, d.message] < before[d.code, d.message], d.render()
