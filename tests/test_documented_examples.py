"""The runner of documented examples: it knows all of them, fails what is slow or broken, and says what it left out."""

import documented_examples as documented
import pytest
import real_data
from documented_examples import Example, Outcome, examples, judged, run
from markdown_blocks import PAGES, ROOT, blocks_of

import gmlmdsl as gm


def test_every_script_and_the_first_pages_are_examples():
    scripts = {p.relative_to(ROOT).as_posix() for p in (ROOT / "examples").glob("*.py")}
    assert scripts | {"README.md", "docs/tutorial/first-model.md", "gmlm demo --out demo-report"} <= {e.name for e in examples()}


def test_every_page_that_runs_on_real_files_is_an_example():
    if not real_data.FOLDER.is_dir():
        pytest.skip(f"there is no {real_data.FOLDER} (GMLM_DATA names another folder)")
    files = [p.name for p in real_data.FOLDER.rglob("*") if p.is_file() and p.name != "README.md"]
    found = {}
    for page in (ROOT / "README.md", *PAGES):
        code = "".join(b.text for b in blocks_of(page) if b.language in ("python", "sh"))
        if named := tuple(sorted(f for f in files if f in code)):
            found[page.relative_to(ROOT).as_posix()] = named
    assert found == {e.name: e.data for e in examples() if e.data}
    assert found


@pytest.mark.slow
@pytest.mark.parametrize("example", [e for e in examples() if e.night], ids=lambda e: e.name)
def test_an_example_of_the_night_runs(example):
    found = run(example)
    if found.skipped:
        pytest.skip(found.skipped)
    assert not found.failed, found.line


SLOW = Example("slow", (), 2.0)


@pytest.fixture
def as_kept(monkeypatch):
    """A machine like that of the kept figures."""
    monkeypatch.setattr(documented, "slower", lambda: 1.0)


def test_a_slower_machine_is_allowed_more_and_a_faster_one_no_less(monkeypatch):
    for takes, times in ((1.0, 1.0), (2.0, 1.0), (5.0, 2.5)):
        documented.slower.cache_clear()
        monkeypatch.setattr(documented, "yardstick", lambda takes=takes: takes)
        monkeypatch.setattr(documented, "kept", lambda: {documented.YARDSTICK: {"seconds": 2.0}})
        assert SLOW.limit == 4.0 * times
        assert judged(SLOW, 4.0 * times + 0.1, 0, "").failed.endswith("(2.5 times more here)" if times > 1 else "figure")
    documented.slower.cache_clear()


@pytest.mark.parametrize(("seconds", "status", "failed"), [(3.9, 0, ""), (4.1, 0, "2 times"), (4.1, 1, "2 times"), (3.9, 1, "status 1")])
@pytest.mark.usefixtures("as_kept")
def test_above_twice_the_kept_figure_is_a_failure(seconds, status, failed):
    found = judged(SLOW, seconds, status, "what it said")
    assert failed in found.failed
    assert bool(found.failed) == bool(failed)
    assert f"{seconds:.1f} s, kept    2.0 s" in found.line
    assert ("FAILED" in found.line) == bool(failed)


def script(folder, text: str, seconds: float = 5.0) -> Example:
    path = folder / "example.py"
    path.write_text(text)
    return Example(str(path), (), seconds)


@pytest.mark.usefixtures("as_kept")
@pytest.mark.slow
def test_an_example_that_does_not_end_is_stopped(tmp_path):
    found = run(script(tmp_path, "while True: pass", 0.2))
    assert "more than 2 times the kept figure" in found.failed
    assert found.seconds < 10


@pytest.mark.slow  # processes of a tool
def test_what_fails_is_shown(tmp_path):
    found = run(script(tmp_path, "print('so far'); raise SystemExit(3)"))
    assert found.failed.startswith("status 3")
    assert "so far" in found.failed


@pytest.mark.slow
def test_an_example_runs_in_an_empty_folder_without_kept_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/somewhere")
    text = "import os; assert os.listdir() == [] and 'JAX_COMPILATION_CACHE_DIR' not in os.environ"
    assert run(script(tmp_path, text)).failed == ""


def test_real_files_lie_beside_the_example_or_it_is_skipped_with_a_word(tmp_path, monkeypatch):
    monkeypatch.setattr(real_data, "FOLDER", tmp_path / "data")
    example = Example(script(tmp_path, "assert open('some.csv').read() == 'a,b'").name, ("some.csv",), 5.0)
    skipped = run(example)
    assert "there is no" in skipped.line
    assert str(tmp_path / "data" / "some.csv") in skipped.line
    assert "GMLM_DATA" in skipped.line
    real_data.FOLDER.mkdir()
    (real_data.FOLDER / "some.csv").write_text("a,b")
    assert run(example) == Outcome(example, pytest.approx(0, abs=5))


def test_figures_are_kept_of_runs_that_came_to_their_end(tmp_path, monkeypatch):
    monkeypatch.setattr(documented, "KEPT", tmp_path / "kept.json")
    documented.KEPT.write_text('{"yardstick": {"seconds": 9.0}, "a": {"seconds": 1.0}, "b": {"seconds": 2.0, "data": ["x"]}}')
    monkeypatch.setattr(documented, "yardstick", lambda: 4.0)
    a, b = examples()
    documented.keep([Outcome(a, 3.21, "it takes more than 2 times the kept figure"), Outcome(b, 0.5, "status 1", ended=False)])
    assert [(e.data, e.seconds) for e in examples()] == [((), 3.2), (("x",), 2.0)]
    assert documented.kept()["yardstick"] == {"seconds": 4.0}


def test_the_alignment_of_the_reference_is_read():
    """The page of errors names the file and its focus, E531: one that it has not, and one that it has."""
    path = real_data.real_file("DHFR.a2m")
    with pytest.raises(gm.GmlmError, match="DYR_ECOLI") as caught:
        gm.read_alignment(path, "DYR_ECOL")
    assert caught.value.codes == ("E531",)
    found = gm.read_alignment(path, "DYR_ECOLI")
    assert len(found.columns) == 159
    assert 3000 < len(found) <= 3629
