"""The harness of ablations: it trains, decodes, goes on where it stopped; verdicts follow from results, the page from both."""

import dataclasses
import json
import math

import numpy as np
import pytest
from markdown_blocks import ROOT
from test_transduction import parts as parts

PAGE = ROOT / "examples" / "labs" / "transduction" / "README.md"


@pytest.fixture(scope="module")
def quick(parts, tmp_path_factory):
    """Two rows that share one tiny training."""
    import jax

    ablate, out = parts["ablate"], tmp_path_factory.mktemp("ablations")
    wanted = [ablate.BASE, dataclasses.replace(ablate.BASE, sampler="none", passes=2, lengths=None)]
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        ablate.main(out, seeds=1, quick=True, wanted=wanted)
    return out, wanted


@pytest.mark.slow
def test_rows_hold_scores_and_losses(parts, quick):
    out, wanted = quick
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["setting"] for row in rows] == [dataclasses.asdict(s) for s in wanted]
    assert len(list((out / "fits").glob("*.fit"))) == 1
    for row in rows:
        assert set(row["scores"]) == {"valid", "disagreement", "stutter", "lost_doubles", "length", "unknown"}
        assert math.isfinite(row["loss"]) and row["loss"] > row["least_loss"] > 0
    told = rows[1]["scores"]  # the true length is told
    assert told["length"] == 1 and told["unknown"] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_finished_rows_are_skipped_and_the_rest_is_as_it_was(parts, quick, monkeypatch):
    ablate, (out, wanted) = parts["ablate"], quick
    path = out / "results.jsonl"
    before = path.read_text(encoding="utf-8")
    ablate.main(out, seeds=1, quick=True, wanted=wanted)
    assert path.read_text(encoding="utf-8") == before

    first, second = (json.loads(line) for line in before.splitlines())
    path.write_text(json.dumps(first) + "\n" + json.dumps(second)[:40], encoding="utf-8")  # killed while it wrote
    monkeypatch.setattr(ablate.gm, "Training", None)  # weights come from their file
    ablate.main(out, seeds=1, quick=True, wanted=wanted)
    again = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(again) == 2 and again[0] == first
    assert again[1]["scores"] == second["scores"] and again[1]["loss"] == second["loss"]


@pytest.mark.slow
def test_a_page_is_filled_in_from_quick_results(parts, quick, tmp_path, monkeypatch):
    table, ablate, (out, _) = parts["table"], parts["ablate"], quick
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    text = table.main(out, page, ablate.QUICK)
    assert page.read_text(encoding="utf-8") == text
    found = {place[2]: place[0] for place in table.PLACE.finditer(text)}
    assert set(found) == {"possible", "ablations", "recommendations", "defaults", "run"}
    assert found["ablations"].count("\n|") == 2 + sum(map(len, ablate.GROUPS.values()))
    assert "| trainings | 1 |" in found["run"]
    with pytest.raises(SystemExit, match="has places"):
        table.filled("<!-- numbers: other -->\n<!-- end -->", {"run": ""})


def test_the_page_holds_what_the_kept_results_say(parts):
    table, text = parts["table"], PAGE.read_text(encoding="utf-8")
    assert table.PAGE == PAGE
    assert table.filled(text, table.tables(parts["ablate"].OUT, parts["ablate"].Size())) == text


def test_trainings_are_told_apart(parts):
    ablate, table = parts["ablate"], parts["table"]
    settings = [ablate.BASE, dataclasses.replace(ablate.BASE, passes=1), dataclasses.replace(ablate.BASE, embedded=True)]
    rows = [{"setting": dataclasses.asdict(s), "seed": 0, "train_seconds": n} for s, n in zip(settings, (100, 100, 7), strict=True)]
    old = {k: v for k, v in rows[0]["setting"].items() if k != "embedded"}  # from before there was the field
    text = table.numbers({str(k): {0: row} for k, row in enumerate([*rows, rows[0] | {"setting": old}])}, ablate.Size())
    assert "| trainings | 2 |" in text and "| seconds of all trainings | 107 |" in text


def results_of(parts, valid):
    """Results in which a setting's share of valid outputs is given by seed."""
    return {
        json.dumps(dataclasses.asdict(setting), sort_keys=True): {k: {"scores": {"valid": v}} for k, v in enumerate(values)}
        for setting, values in valid
    }


@pytest.mark.parametrize(
    ("two", "one", "three", "verdict"),
    [
        ((0.5, 0.6, 0.7), (0.4, 0.5, 0.6), (0.5, 0.6, 0.7), ("agree", ["1"])),  # equal to three, better than one
        ((0.5, 0.6, 0.7), (0.4, 0.5, 0.6), (0.6, 0.7, 0.8), ("disagree", ["3"])),
        ((0.5, 0.6, 0.7), (0.4, 0.7, 0.6), (0.6, 0.5, 0.8), ("undecided", [])),  # seeds differ
        ((0.5, 0.6, 0.7), (0.4,), (0.5, 0.6, 0.7), ("agree", ["1"])),  # as far as it is known
        ((0.5, 0.6, 0.7), (), (), ("undecided", [])),
    ],
)
def test_verdicts_follow_from_every_seed(parts, two, one, three, verdict):
    rows = parts["ablate"].GROUPS["stages"]
    results = results_of(parts, [(rows["2"], two), (rows["1"], one), (rows["3"], three)])
    assert parts["table"].verdict(results, "stages", "2") == verdict


def test_a_length_that_is_told_is_no_alternative(parts):
    rows, table = parts["ablate"].GROUPS["lengths tried"], parts["table"]
    results = results_of(parts, [(rows["5"], (0.5, 0.5)), (rows["1"], (0.4, 0.4)), (rows[table.TOLD], (0.9, 0.9))])
    assert table.verdict(results, "lengths tried", "5") == ("agree", ["1"])


def test_spreads_are_sample_deviations(parts):
    assert parts["table"].spread([0.1, 0.2, 0.3], 100) == "20.0 ± 10.0"
    assert parts["table"].spread([0.25], 100) == "25.0"


def test_every_setting_is_run_once_and_trainings_are_shared(parts):
    ablate = parts["ablate"]
    found = ablate.settings()
    assert len(found) == len(set(found)) == len({s for rows in ablate.GROUPS.values() for s in rows.values()})
    names = [json.dumps(s.trained) for s in found]
    runs = [name for k, name in enumerate(names) if k == 0 or names[k - 1] != name]
    assert len(runs) == len(set(names))  # settings of one training follow one another
    assert {CLAIM for CLAIM in parts["table"].CLAIMS} <= set(ablate.GROUPS)
    for group, (name, _) in parts["table"].CLAIMS.items():
        assert (ablate.GROUPS[group][name] == ablate.BASE) == (group != "lengths tried")


def test_what_is_possible_is_in_order(parts):
    found = dict(parts["ablate"].possible(parts["ablate"].QUICK))
    again, hidden = found["every token again, 15 % kept"], found["mask-predict"]
    assert again["1"] < again["4"] and hidden["1"] < hidden["4"] <= hidden["10"]
    assert 0 < found["one product step, argmax"]["1"] < 1
    assert np.isfinite([v for values in found.values() for v in values.values()]).all()
