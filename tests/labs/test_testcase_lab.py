"""Lab E: the parser and scorer against Python itself and against all right answers, the corpus, its tables and their places on the page."""

from __future__ import annotations

import ast
import itertools
import re
from collections import OrderedDict
from typing import Any

import bracket_verifiers
import jax.numpy as jnp
import laboratory
import numpy as np
import pytest
import testcase_steps
import testcase_tables
import testcase_task as task
import testcases
from markdown_blocks import ROOT

import gmlmdsl as gm
from gmlmdsl.derive import _bounded_jit
from gmlmdsl.networks import Probe

pytestmark = pytest.mark.filterwarnings("ignore::gmlmdsl.sample.SamplingWarning")  # some of these samplers fail on purpose
HEAD = task.prompt("bm", task.APPEND, np.random.default_rng(0))


def by_python(string: list[int], cases: int) -> list[tuple[tuple[int, ...], int]]:
    """The right cases of an answer, as its text is read and run by Python."""
    string = string[: string.index(task.END)] if task.END in string else string
    definition, *lines = task.text_of(string).split("\n")[1:]
    scope: dict[str, Any] = {}
    exec(definition, scope)  # a function of the lab's own text
    name, found = str(re.match(r"def (\w+)", definition)[1]), []  # type: ignore[index]
    for line in lines[:cases]:
        try:
            call = ast.parse(line).body[0].test.left  # type: ignore[attr-defined]
            items, item = (ast.literal_eval(a) for a in call.args)
            exec(line, scope)
        except (SyntaxError, AssertionError, AttributeError, NameError, TypeError, ValueError):
            continue
        if call.func.id == name:
            found.append((tuple(items), item))
    return found


def mutated(string: list[int], rng: np.random.Generator) -> list[int]:
    """With symbols of the answer replaced, left out, doubled or swapped."""
    found = list(string)
    for _ in range(rng.integers(0, 4)):
        k = int(rng.integers(task.PROMPT, len(found)))
        match rng.integers(0, 4):
            case 0:
                found[k] = int(rng.integers(len(task.TOKENS)))
            case 1:
                del found[k]
            case 2:
                found.insert(k, found[k])
            case _:
                found[k], found[-1] = found[-1], found[k]
    return found


def test_the_parser_and_scorer_say_what_python_says() -> None:
    rng, compared = np.random.default_rng(1), 0
    for row in task.corpus(4, 1500, seed=2):
        string = mutated(row.tolist(), rng)
        right = by_python(string, 4)
        assert [(c.items, c.item) for c in task.right_cases(string, 4)] == right, task.text_of(string)
        compared += len(right) < 4
    assert compared > 500


def test_hand_cases() -> None:
    one, two = task.case("bm", task.APPEND, [1, 3], 2), task.case("bm", task.APPEND, [], 7)
    assert task.text_of(HEAD[-4:] + one) == "def bm(l, x): return l + [x]\nassert bm([1, 3], 2) == [1, 3, 2]"
    assert task.right_cases(HEAD + one + two, 4) == [task.Case((1, 3), 2), task.Case((), 7)]
    front, other = task.case("bm", task.PREPEND, [1, 3], 2), task.case("dh", task.APPEND, [1, 3], 2)
    wrong = {
        "another result": [*one[:-2], 4, task.CLOSE],
        "another name": other,
        "too few cases": [*one, task.END],
        "too many cases": [*one, *two, task.ASSERT],
        "no test case": [*one, 5],
        "no room left": [*one[:4], *[1] * 30],
    }
    assert task.right_cases(HEAD + front + two, 4) == [task.Case((), 7)]
    assert task.right_cases(HEAD + one + two, 1) == [task.Case((1, 3), 2)]
    for kind, answer in wrong.items():
        found = task.first_wrong(HEAD + answer, 2)
        assert found and found[1] == kind, kind
        assert task.first_wrong((HEAD + answer)[: found[0]], 2) is None
    assert task.first_wrong([*HEAD, *one, *two, task.END, 3, 3], 2) is None
    again = task.prompt("dh", task.APPEND, np.random.default_rng(3)) + other + task.case("dh", task.APPEND, [1, 2], 3)
    assert task.distinct([HEAD + one + two, None, again], 4) == [2, 2, 3]  # names play no part
    assert task.KINDS == ("another name", "another result", "no room left", "too few cases", "too many cases", "no test case")


@pytest.mark.parametrize(("cases", "room", "body"), [(1, 12, task.APPEND), (1, 14, task.PREPEND), (2, 20, task.APPEND)])
def test_a_prefix_is_right_where_some_right_answer_begins_so(cases: int, room: int, body: int) -> None:
    """Against all right answers that the cells hold: lists of at most so many items in all."""
    head = [*HEAD[:-1], body]
    one = {}
    for k in range((room - 1 - 9 * cases) // 2 + 1):
        one[k] = [task.case("bm", body, list(items), x) for *items, x in itertools.product(range(task.NUMBERS), repeat=k + 1)]
    answers = [
        [a for case in chosen for a in case] + [task.END]
        for sizes in itertools.product(one, repeat=cases)
        if 9 * cases + 2 * sum(sizes) + 1 <= room
        for chosen in itertools.product(*(one[k] for k in sizes))
    ]
    good = {tuple(a[:n]) for a in answers for n in range(len(a) + 1)}
    rng = np.random.default_rng(4)
    verdicts = []
    for _ in range(3000):
        string = mutated(head + answers[rng.integers(len(answers))] + [int(rng.integers(len(task.TOKENS)))], rng)[: len(head) + room]
        answer = string[len(head) :]
        if task.END in answer:
            answer = answer[: answer.index(task.END) + 1]
        wanted = next((n for n in range(1, len(answer) + 1) if tuple(answer[:n]) not in good), None)
        found = task.first_wrong(string, cases, len(head) + room)
        assert (None if found is None else found[0] + 1 - len(head)) == wanted, task.text_of(string)
        verdicts.append(wanted is None)
    assert 300 < sum(verdicts) < 2900


def test_the_corpus_is_right_and_telling_names_tell() -> None:
    rows = task.corpus(4, 2000, seed=3)
    assert all(task.is_right(row.tolist(), 4) for row in rows)
    names = np.array([task.text_of(row[6:8].tolist()) for row in rows])
    front = rows[:, 8] == task.PREPEND
    assert set(names[front]) == set(task.TELLING)
    assert not set(names[~front]) & {*task.TELLING, *task.TESTED}
    assert abs(front.mean() - task.FRONT) < 4.5 * np.sqrt(task.FRONT * (1 - task.FRONT) / 2000)
    sizes = np.bincount([len(c.items) for row in rows for c in task.right_cases(row.tolist(), 4)], minlength=4) / 8000
    assert (abs(sizes - 0.25) < 4.5 * np.sqrt(3 / 16 / 8000)).all()
    asked = task.prompts(task.TESTED, 2, seed=1)
    assert [task.text_of(p[6:8]) for p in asked] == [*task.TESTED] * 2
    assert {len(p) for p in asked} == {task.PROMPT} and task.length(4) == 70
    source = (testcases.HERE / "testcases.gmlm").read_text(encoding="utf-8")
    assert re.findall(r'"([^"]*)"', source[: source.index("input n")]) == task.TOKENS


def test_the_truth_as_a_verifier_judges_each_prefix_up_to_its_length() -> None:
    rows = task.corpus(2, 40, seed=5)
    rows[:, -1] = task.EXAMPLE  # behind the lengths
    lengths = np.arange(40) % 20 + task.PROMPT
    assert task.right(rows, lengths).all()
    rows[np.arange(40), lengths - 1] = task.GIVES
    assert task.right(rows, lengths)[lengths > task.PROMPT].sum() == 0


def test_a_coin_refuses_one_in_ten() -> None:
    rng = np.random.default_rng(0)
    rows, lengths = rng.integers(0, 4, (4000, 12)), rng.integers(6, 13, 4000)
    found = bracket_verifiers.seldom(rows, lengths)
    assert abs(found.mean() - 0.9) < 4.5 * 0.3 / np.sqrt(4000)
    np.testing.assert_array_equal(found, bracket_verifiers.seldom(rows, lengths))


CHAIN = """
input top_p : real = 0.9
input temperature : real = 1
model words {
  var x[i in range(3)] : range(3)
  x[i] ~ categorical([0.5, 0.3, 0.2]) for i in range(3)
}
model apart {
  var x[i in range(3)] : range(3)
  require x[i] != x[i + 1] for i in range(3) if i < 2
}
verifier can for words = completable(apart)
sampler back for words = backtracking(can, quota = 1, stride = 1, temperature = temperature, top_p = top_p)
"""


@pytest.mark.slow
def test_temperatures_and_top_p_share_a_compiled_program_and_each_its_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bounded_jit.PROGRAMS, "kept", OrderedDict())
    drawn, counts = {}, []
    for top_p, temperature in ((0.9, 1.0), (0.7, 1.0), (0.7, 2.5)):
        model = gm.parse(CHAIN, top_p=top_p, temperature=temperature).model("words")
        drawn[model] = model.sample({}, "back", draws=2000, seed=0)["posterior"]["x"].values.reshape(-1, 3)
        counts.append(len(_bounded_jit.PROGRAMS.kept))
    assert counts[0] > 0 and len(set(counts)) == 1
    for model, strings in drawn.items():
        law = gm.theory.output_law(model, {}, sampler="back")
        expected = {tuple(s): p for s, p in zip(law.strings.tolist(), law.probabilities.tolist(), strict=True)}
        for s in itertools.product(range(3), repeat=3):
            p, n = expected.get(s, 0.0), (strings == s).all(axis=1).sum()
            assert abs(n / 2000 - p) < 4.5 * np.sqrt(p * (1 - p) / 2000) + 1e-9, s


PROBED = """
input threshold : real = 0.5
network lm = transformer(layers = 1, heads = 1, width = 8, causal = true)
model words {
  var x[i in range(3)] : range(3)
  conditional x ~ lm()
}
verifier seen for words = probe(lm, threshold = threshold)
sampler once for words = rejection(seen, tries = 1)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_thresholds_share_a_compiled_program_and_each_refuses_what_is_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bounded_jit.PROGRAMS, "kept", OrderedDict())
    models: dict[float, Any] = {t: gm.parse(PROBED, threshold=t).model("words") for t in (0.0, 0.4, 0.6)}
    rng = np.random.default_rng(1)
    probe = Probe(jnp.asarray(rng.normal(size=8), jnp.float32), jnp.float32(0.2))
    params, drawn, counts = {**models[0.0].init_params(1), "seen": probe}, {}, []
    for t, model in models.items():
        found = model.sample(params, "once", draws=60, seed=0)
        drawn[t] = found["posterior"]["x"].values.reshape(-1, 3), found["guided_stats"]["failed"].values.reshape(-1) > 0
        counts.append(len(_bounded_jit.PROGRAMS.kept))
    assert counts[0] > 0 and len(set(counts)) == 1
    strings, none = drawn[0.0]
    assert not none.any()
    p = 1 / (1 + np.exp(-(gm.prefix_features(models[0.0], params, strings.tolist()) @ np.asarray(probe.weight) + 0.2)))
    for t in (0.4, 0.6):
        np.testing.assert_array_equal(drawn[t][1], p < t)  # the same strings are drawn, and refused or not
        assert 0 < drawn[t][1].mean() < 1


def planned(size: testcases.Size) -> dict[str, Any]:
    """Results in which everything is as the thesis has it, and equal for all seeds but for a little."""
    t, results, asked = testcase_tables, {}, 10 * size.times * size.cases

    def run(share: float, k: int, calls: float = 40_000) -> dict[str, Any]:
        right = round(asked * share + 1e-3 * k, 6)
        return {"right": right, "calls": int(calls), "lost": 0, "along": [[calls / 10 * j, right / 10 * j] for j in range(1, 11)]}

    for k in range(size.seeds):
        results[f"{k} model"] = {"nats": 40.0, "learnt": 0.6, "tested": 0.6, "cases": 0.8, "kinds": {"another name": 2}, "probe": 0.96}
        results[f"{k} model"] |= {"texts": ["a", "b"], "corpus": 0.7 * asked}
        for p in testcases.TOP_P:
            pairs = zip(testcases.TEMPERATURES, t.GRID_BEFORE[p], strict=True)
            results[f"{k} plain {p}"] = {testcases.key(x): run(share, k, 38231) for x, share in pairs}
        results[f"{k} tuned"] = {x: one | {"right": one["right"] + 20} for x, one in _cells(results, k)}
        back = {testcases.key(*s): run(v, k, 39443) for s, v in zip(testcases.SETTINGS, t.BACK_BEFORE, strict=True)}
        bare = {testcases.key("bare", x): run(v, k) for x, v in t.BARE_BEFORE.items()}
        results[f"{k} backtracking"] = back | bare | {"greedy": run(t.GREEDY_BEFORE, k)}
        results[f"{k} shifted"] = {x: run(v, k) for x, v in t.SHIFTED_BEFORE.items()}
        results[f"{k} layers"] = {testcases.key(n): run(0.72, k) | {"alone": 0.9} for n in range(1, size.layers)}
        depths = {testcases.key("depth", d): run(v, k) | {"alone": 0.97} for d, v in t.DEPTHS_BEFORE.items()}
        truth = {testcases.key("truth", q): run(v, k) for q, v in t.TRUTH_BEFORE.items()}
        results[f"{k} verifiers"] = depths | truth | {"coin": run(t.COIN_BEFORE, k)}
        blocks = {testcases.key("blocks", n): run(v[0], k, v[1]) for n, v in t.BLOCKS_BEFORE.items()}
        results[f"{k} candidates"] = blocks | {name: run(0.5, k) for name in testcases.OTHERS}
    return results


def _cells(results: dict[str, Any], k: int) -> list[tuple[str, dict[str, Any]]]:
    """Plain runs of one seed, by top_p and temperature."""
    return [(testcases.key(p, t), run) for p in testcases.TOP_P for t, run in results[f"{k} plain {p}"].items()]


def test_tables_of_results_as_published_agree_and_have_their_places() -> None:
    lab, size = testcases.lab(), testcases.Size()
    results = planned(size)
    assert set(results) == set(lab.parts(size, ROOT))
    tables = lab.tables(results, size)
    assert "disagree" not in "".join(tables.values())
    assert laboratory.UNTESTED not in "".join(tables.values())
    counts = {
        "main": 13,
        "layers": size.layers - 1 + 3,
        "thresholds": 4,
        "depths": 5,
        "truth": 8,
        "grid": 5,
        "calls": 2,
        "shifted": 4,
        "bare": 2,
    }
    assert {name: tables[f"testcases-{name}"].count("agree") for name in counts} == counts
    page = lab.page.read_text(encoding="utf-8")
    assert laboratory.filled(page, "testcases", tables | {"testcases-time": ""})
    assert set(lab.draw(results, size)) == {"calls"}


def test_a_table_says_where_results_are_the_other_way_round() -> None:
    results = planned(testcases.Size())
    for k in range(5):
        results[f"{k} verifiers"]["truth 4"]["right"] = 200 + 1e-3 * k
        results[f"{k} plain 0.8"]["1.2"]["right"] = 4 + 1e-3 * k
    tables = testcase_tables.tables(results, testcases.Size())
    assert "more than learnt: disagree" in tables["testcases-truth"] and "less than Q = 4: disagree" in tables["testcases-truth"]
    assert tables["testcases-grid"].count("disagree") == 1


def test_plain_draws_are_taken_at_their_best_of_the_grid_too() -> None:
    """Where Algorithm 1 is less than they are elsewhere, the table says so, and beside it what Algorithm 1 does there and at its best."""
    size, results = testcases.Size(), planned(testcases.Size())
    for k in range(5):
        results[f"{k} plain 0.8"]["1.0"]["right"] = 300 + k
        results[f"{k} tuned"]["0.8 1.0"]["right"] = 290 + k
        results[f"{k} tuned"]["0.9 1.0"]["right"] = 310 + k
    rows = testcase_tables.tables(results, size)["testcases-main"].splitlines()[-3:]
    assert [row.split(" | ")[2:4] for row in rows] == [["0.8", "1.0"]] * 2 + [["0.9", "1.0"]]
    assert [row.split(": ")[-1] for row in rows] == ["disagree |", "disagree |", "agree |"]
    results = {name: part for name, part in results.items() if not name.endswith("tuned")}
    assert "of the grid" not in testcase_tables.tables(results, size)["testcases-main"]


def test_coins_and_the_truth_have_verdicts_where_print_orders_them() -> None:
    results = planned(testcases.Size())
    for k in range(5):
        results[f"{k} verifiers"]["coin"]["right"] = 130 + 1e-3 * k  # less than nothing verified
        results[f"{k} verifiers"]["truth 4"]["right"] = 390 + 1e-3 * k  # far above what is learnt
        results[f"{k} shifted"]["none"]["right"] = 280 + 1e-3 * k  # no loss
    tables = testcase_tables.tables(results, testcases.Size())
    for name in ("layers", "depths", "truth"):
        assert "more than none: disagree (in print within the s.e.)" in tables[f"testcases-{name}"]
    assert "nearer to the truth than to none: disagree" in tables["testcases-truth"]
    assert "less with telling names: disagree" in tables["testcases-shifted"]


def test_what_was_not_run_is_said_to_be_not_measured() -> None:
    size = testcases.Size()
    results = {name: part for name, part in planned(size).items() if name not in ("4 verifiers", "0 candidates", "2 shifted")}
    tables = testcase_tables.tables(results, size)
    lacking = {name: found for name, found in tables.items() if found.startswith("Not measured")}
    assert set(lacking) == {f"testcases-{name}" for name in ("depths", "truth", "shifted")}
    assert "`2 shifted`" in lacking["testcases-shifted"]
    assert "best of" not in tables["testcases-calls"] and "a coin" not in tables["testcases-layers"]
    assert set(testcase_tables.draw(results, size)) == {"calls"}


@pytest.mark.parametrize("lab", [testcases.lab(), testcase_steps.lab()], ids=lambda lab: lab.name)
def test_the_page_has_the_tables_of_the_kept_output(lab: laboratory.Lab) -> None:
    size = lab.sizes["default"]
    kept = laboratory.load(lab.kept / "results.json", size, lab.settings)
    tables = lab.tables({name: part["result"] for name, part in kept.items()}, size)
    page = lab.page.read_text(encoding="utf-8")
    assert laboratory.filled(page, lab.name, tables | {f"{lab.name}-time": laboratory.times(lab, kept)}) == page


def test_steps_are_sought_by_halves_until_the_network_errs_as_often_as_is_wanted(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    search = testcase_steps.lab().sizes["default"]
    for turning, tried in ((710, [600, 800, 700]), (560, [600, 400, 500, 550]), (990, [600, 800, 900, 950])):
        monkeypatch.setattr(testcase_steps, "accuracy", lambda search, out, k, at=turning: [float(k > at) or 0.75 * (abs(k - at) < 20)] * 2)
        assert list(testcase_steps.searched(search, tmp_path)) == [str(k) for k in tried]
    assert testcases.Size(steps=0) == search.lab  # nothing else differs
    lab = testcase_steps.lab()
    taken = laboratory.load(lab.kept / "results.json", search, lab.settings)["search"]["result"]
    assert str(testcases.Size().steps) == list(taken)[-1] and 0.6 <= np.mean(taken[str(testcases.Size().steps)]) <= 0.9


@pytest.mark.slow  # half a minute
@pytest.mark.usefixtures("standard_promotion")
def test_the_lab_runs(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert laboratory.main(testcases.lab(), ["--quick", "--out", str(tmp_path)]) == 0
    assert "testcases: 8 parts" in capsys.readouterr().out
    assert {p.name for p in tmp_path.glob("*.png")} == {"testcases-calls.png"}
