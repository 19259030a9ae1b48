"""What the laboratories share: parts are kept as they end and not run again, verdicts follow intervals, tables have their places."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import laboratory
import numpy as np
import pytest
from laboratory import AGREE, DISAGREE, LABS, UNTESTED
from markdown_blocks import ROOT
from matplotlib.figure import Figure


@dataclass(frozen=True)
class Size:
    seeds: int = 3


class Killed(BaseException):
    """As from outside."""


def lab(folder, done, killed_at=None):
    """A laboratory whose parts are squares; one of them may be killed."""

    def part(seed):
        if seed == killed_at:
            raise Killed
        done.append(seed)
        return {"square": seed**2}

    return laboratory.Lab(
        "squares",
        folder,
        {"quick": Size(2), "default": Size(), "larger": Size(4)},
        lambda size, out: {f"seed {k}": lambda k=k: part(k) for k in range(size.seeds)},
        lambda results, size: {"squares-all": laboratory.markdown(["square"], [[r["square"]] for r in results.values()])},
        lambda results, size: {"none": Figure()},
    )


def test_a_run_that_was_killed_goes_on_where_it_stopped(tmp_path):
    done = []
    with pytest.raises(Killed):
        laboratory.run(lab(tmp_path, done, killed_at=2), Size(), tmp_path / "out", say=done.append)
    assert [line for line in done if isinstance(line, str)] == [f"{k}/3 seed {k - 1}: 0.0 s" for k in (1, 2)]
    path = tmp_path / "out" / "results.json"
    before = json.loads(path.read_text(encoding="utf-8"))
    done.clear()
    kept = laboratory.run(lab(tmp_path, done), Size(), tmp_path / "out", say=lambda _: None)
    assert done == [2]
    assert [part["result"]["square"] for part in kept.values()] == [0, 1, 4]
    assert {name: kept[name] for name in before["parts"]} == before["parts"]
    assert sorted(p.name for p in path.parent.iterdir()) == [".lock", "results.json"]


def test_processes_share_a_run(tmp_path, capsys):
    done = []
    for k in (2, 1):
        assert laboratory.main(lab(tmp_path, done), ["--share", f"{k}/2"]) == 0
    assert done == [1, 0, 2]
    printed = capsys.readouterr().out
    assert "2 parts of the other shares" in printed and "| 4 |" in printed
    assert list(json.loads((tmp_path / "kept" / "squares" / "results.json").read_text(encoding="utf-8"))["parts"]) == [
        "seed 0",
        "seed 1",
        "seed 2",
    ]


def test_results_of_another_size_or_of_other_settings_are_refused(tmp_path):
    own = replace(lab(tmp_path, []), settings={"rate": 0.1, "widths": (1, 2)})
    for _ in range(2):  # and goes on with its own
        laboratory.run(own, Size(2), tmp_path, say=lambda _: None)
    with pytest.raises(SystemExit, match=r"another size, by seeds: .*remove the folder$"):
        laboratory.run(own, Size(3), tmp_path, say=lambda _: None)
    for settings in ({"rate": 0.2, "widths": (1, 2)}, {"widths": (1, 2)}):
        with pytest.raises(SystemExit, match="other settings, by rate: "):
            laboratory.run(replace(own, settings=settings), Size(2), tmp_path, say=lambda _: None)
    path = tmp_path / "results.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"settings"', '"not"'), encoding="utf-8")  # as files were before
    assert len(laboratory.load(path, Size(2))) == 2
    with pytest.raises(SystemExit, match="by rate, widths: "):
        laboratory.load(path, Size(2), own.settings)


@pytest.mark.parametrize("text", ["", "[]", '{"size": {"seeds": 3}}', '{"size": 3, "parts": {}}', '{"size": {"seeds": 3}, "parts": {"se'])
def test_damaged_results_are_refused_with_a_cure(tmp_path, text):
    (tmp_path / "results.json").write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"results\.json is no results\.json of a laboratory, or is damaged: .*--out"):
        laboratory.main(lab(tmp_path, []), ["--out", str(tmp_path)])


@pytest.mark.parametrize("share", ["a", "2", "1/0", "0/2", "3/2", "1/2/3", "-1/2"])
def test_what_is_no_share_is_refused(tmp_path, capsys, share):
    with pytest.raises(SystemExit):
        laboratory.main(lab(tmp_path, []), [f"--share={share}"])
    assert f"'{share}' is no K/N" in capsys.readouterr().err


def test_sizes_and_folders_that_are_not_there_are_refused(tmp_path, capsys):
    own = replace(lab(tmp_path, []), sizes={"default": Size(), "quick": Size(2)})
    (tmp_path / "file").touch()
    for words, message in (
        (["--larger", "--out", str(tmp_path / "out")], "no size for --larger; it has default, quick"),
        (["--out", str(tmp_path / "file")], "a file where a folder is wanted"),
        (["--out", str(tmp_path / "file" / "below")], "a file where a folder is wanted"),
        (["--page", "--out", str(tmp_path / "out")], "--page takes no --out"),
        (["--quick", "--out", str(tmp_path / "file" / ".." / "kept" / "squares")], "--quick needs --out"),
    ):
        with pytest.raises(SystemExit):
            laboratory.main(own, words)
        assert message in capsys.readouterr().err


def test_the_command_line_prints_tables_times_and_pictures(tmp_path, capsys):
    own = lab(tmp_path, [])
    assert laboratory.main(own, ["--quick", "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "| 1 |" in printed and "squares: 2 parts, 0.0 minutes of the processor" in printed
    assert (tmp_path / "out" / "squares-none.png").read_bytes()[:4] == b"\x89PNG"
    for words in (["--quick"], ["--larger"], ["--quick", "--page", "--out", str(tmp_path)], ["--quick", "--larger"]):
        with pytest.raises(SystemExit):
            laboratory.main(own, words)
    for words in (
        [],
        ["--out", str(tmp_path / "out" / ".." / "kept" / "squares")],
    ):  # the kept output is in the repository: no pictures there
        assert laboratory.main(own, words) == 0
        assert f"are in {own.figures}; --page draws them" in capsys.readouterr().out
        assert sorted(p.name for p in (tmp_path / "kept" / "squares").iterdir()) == [".lock", "results.json"]


def test_the_seeds_are_timed_beside_the_first(tmp_path):
    """Parts that are of one seed begin or end with its number."""
    own = lab(tmp_path, [])
    kept = {"exact": 7.0, "0 model": 20.0, "row, 0": 10.0, "1 model": 9.0, "row, 1": 6.0, "10 model": 1.0, "row 1.0": 7.0}
    said = laboratory.times(own, {name: {"seconds": s} for name, s in kept.items()})
    assert said == "squares: 7 parts, 1.0 minutes of the processor; its 3 seeds took 1.5 times as long as the first"
    assert "seeds" not in laboratory.times(own, {"0 model": {"seconds": 1.0}})


def test_all_laboratories_take_what_the_page_says_and_less_than_an_hour_of_two_cores():
    page = laboratory.PAGE.read_text(encoding="utf-8")
    assert laboratory.filled(page, "laboratories", {"laboratories-time": laboratory.all_times()}) == page
    assert float(laboratory.all_times().splitlines()[-1].split("|")[3]) < 120  # of one core; two processes with `--share` halve it
    pages = "".join(p.read_text(encoding="utf-8") for p in laboratory.LABS.glob("*/README.md"))
    ratios = [float(k) for k in re.findall(r"seeds took ([\d.]+) times as long as the first", pages)]
    assert len(ratios) == 10 and max(ratios) <= 5.5


def test_the_page_is_filled_with_own_tables_alone(tmp_path, monkeypatch):
    page, of_all = tmp_path / "README.md", tmp_path / "all.md"
    places = "".join(f"<!-- numbers: {name} -->\n<!-- end -->\n" for name in ("squares-all", "squares-time", "cubes-all"))
    page.write_text(places, encoding="utf-8")
    of_all.write_text("<!-- numbers: laboratories-time -->\n<!-- end -->\n", encoding="utf-8")
    monkeypatch.setattr(laboratory, "PAGE", of_all)
    assert laboratory.main(lab(tmp_path, []), ["--page"]) == 0
    assert page.read_text(encoding="utf-8").count("| 4 |") == 1
    assert "<!-- numbers: cubes-all -->\n<!-- end -->" in page.read_text(encoding="utf-8")
    assert of_all.read_text(encoding="utf-8").count("| all laboratories | ") == 1
    assert (tmp_path / "figures" / "squares-none.png").is_file()
    with pytest.raises(SystemExit, match="has places"):
        laboratory.filled(places, "squares", {"squares-all": ""})


def test_a_verdict_follows_the_interval_of_the_difference_by_seeds():
    low, high = [1.0, 5.0, 2.0, 8.0, 3.0], [1.1, 5.2, 2.1, 8.3, 3.1]  # paired: the spread over seeds plays no part
    assert laboratory.less(low, high) == AGREE
    assert laboratory.less(high, low) == DISAGREE
    assert laboratory.less(low[:4], high[:4]) == UNTESTED  # too few seeds
    assert laboratory.less(low, [2.0, 4.0, 3.0, 7.0, 4.0]) == UNTESTED
    assert laboratory.ordered(low, high, [9.0] * 5) == laboratory.less(high, [9.0] * 5) == AGREE
    assert laboratory.ordered(high, low, [9.0] * 5) == DISAGREE
    assert laboratory.ordered(low, high, high) == UNTESTED
    assert laboratory.together([]) == laboratory.ordered(low) == UNTESTED


def test_the_interval_is_that_of_students_t():
    """Against t of 4 degrees of freedom from a table: 2.776."""
    values = np.array([0.1, 0.2, 0.4, 0.3, 0.5])
    half = 2.776 * values.std(ddof=1) / np.sqrt(5)
    assert laboratory.spread(values, 3) == f"0.3 ± {half:.2g}"
    assert laboratory.spread([0.5], 3, 100) == "50"


@pytest.fixture
def runner():
    spec = importlib.util.spec_from_file_location("run_labs", LABS / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_script_that_has_a_laboratory_is_listed(runner, capsys):
    scripts = {p.stem: p.parent.name for p in LABS.glob("*/*.py") if "\ndef lab()" in p.read_text(encoding="utf-8")}
    assert scripts == runner.FOLDERS and len(scripts) == 15
    for words, status in (([], 0), (["--help"], 0), (["dick"], 2)):
        assert runner.main(words) == status
        said = capsys.readouterr()
        listed = said.err if status else said.out
        assert all(re.search(rf"^  {name} +\S", listed, re.M) for name in scripts)
        assert ("no laboratory 'dick'" in listed) == bool(status)


def test_a_script_finds_what_lies_beside_it(runner, monkeypatch):
    asked = []
    monkeypatch.setattr(sys, "path", [p for p in sys.path if Path(p).parent != LABS])
    monkeypatch.setattr(laboratory, "main", lambda lab, words: asked.append((lab.name, words)) or 0)
    for name, beside in (("topics", "topic_theory"), ("testcase_steps", "testcases")):
        for module in (name, beside):
            monkeypatch.delitem(sys.modules, module, raising=False)
        assert runner.main([name, "--page"]) == 0
    assert asked == [("topics", ["--page"]), ("testcase_steps", ["--page"])]


@pytest.mark.slow  # a process of its own
def test_a_laboratory_runs_by_its_name_from_any_folder(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, LABS, "dyck_weight"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| 1 | 100.0 | 98.9 | taken |" in done.stdout
    assert list(tmp_path.iterdir()) == []
