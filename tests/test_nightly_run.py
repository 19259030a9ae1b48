"""The run of the night: its tests have the hash seed that it prints, and its page says what was found."""

from __future__ import annotations

import os
from pathlib import Path

import nightly_run
import pytest
from thinned import thinned

STOPPED = """
def test_passes():
    pass

def test_stops():
    raise KeyboardInterrupt

def test_never_runs():
    pass
"""
SOME = """
import os
import pytest

def test_seed():
    print(os.environ["PYTHONHASHSEED"], file=open({said!r}, "w"))

@pytest.mark.parametrize("word", ["a|b"])
def test_fails(word):
    assert not word

class TestsOfAKind:
    def test_skipped(self):
        pytest.skip("why not")

    @pytest.mark.slow
    def test_slow(self):
        pass
"""


@pytest.mark.parametrize("told", thinned([None, "7"], 2))
@pytest.mark.slow
def test_a_run_prints_its_seed_and_writes_its_page(told: str | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (tmp_path / "test_some.py").write_text(SOME.format(said=str(tmp_path / "said")))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONHASHSEED", raising=False)
        if told is not None:
            patch.setenv("PYTHONHASHSEED", told)
        words = ["-c", str(tmp_path / "pytest.ini"), "-p", "no:cacheprovider", str(tmp_path)]
        status = nightly_run.run("not slow", 1, words, tmp_path / "night.md", tmp_path / "logs")
    assert status == 1  # a test fails, and so does the run
    seed = (tmp_path / "said").read_text().strip()
    assert seed.isdecimal() and (told is None or seed == told)
    assert capfd.readouterr().out.startswith(f"PYTHONHASHSEED={seed}\n")
    found = (tmp_path / "night.md").read_text()
    assert "3 tests: 1 passed, 1 failed, 1 skipped" in found
    assert f"`PYTHONHASHSEED={seed}`, 1 process on {os.cpu_count()} cores" in found
    failed, slowest = found.split("## Slowest")[0].split("## Failed")[1], found.split("## Slowest")[1]
    assert failed.count("\n- ") == 1 and "test_fails[a|b]" in failed
    assert slowest.count("\n| 0 | ") == 3 and "::TestsOfAKind::test_skipped`" in slowest and "test_fails[a b]" in slowest


@pytest.mark.slow
def test_a_run_that_is_stopped_says_where(tmp_path: Path):
    (tmp_path / "test_some.py").write_text(STOPPED)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    words = ["-c", str(tmp_path / "pytest.ini"), "-p", "no:cacheprovider", str(tmp_path)]
    assert nightly_run.run("not slow", 1, words, tmp_path / "night.md", tmp_path / "logs") == nightly_run.STOPPED
    found = (tmp_path / "night.md").read_text()
    assert "1 tests: 1 passed" in found
    assert "| stopped | before its end; the last test was `" in found and "::test_passes" in found


@pytest.mark.slow
def test_a_run_that_is_killed_has_a_page_too(tmp_path: Path):
    (tmp_path / "test_some.py").write_text("import os\ndef test_fails(): assert False\ndef test_is_killed(): os.kill(os.getpid(), 9)\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    words, logs = ["-c", str(tmp_path / "pytest.ini"), "-p", "no:cacheprovider", str(tmp_path)], tmp_path / "logs"
    assert nightly_run.run("not slow", 1, words, tmp_path / "night.md", logs) == -9
    with (logs / "log-1.jsonl").open("a") as log:
        log.write('{"nodeid": "cut')
    nightly_run.write_page(logs, tmp_path / "again.md")
    for page in ("night.md", "again.md"):
        found = (tmp_path / page).read_text()
        assert "1 tests: 0 passed, 1 failed" in found and "| stopped | before its end" in found


@pytest.mark.slow
def test_what_failed_is_run_again_and_the_page_says_how_it_ended(tmp_path: Path):
    (tmp_path / "test_some.py").write_text(
        "def test_passes(): pass\ndef test_fails(): assert False\ndef test_too(): assert False\ndef test_goes(): assert False\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    words, page = ["-c", str(tmp_path / "pytest.ini"), "-p", "no:cacheprovider"], tmp_path / "night.md"
    assert nightly_run.run("not slow", 1, [*words, str(tmp_path)], page, tmp_path / "logs") == 1
    assert [name.rpartition("::")[2] for name in nightly_run.failed_on(page.read_text())] == ["test_fails", "test_too", "test_goes"]
    (tmp_path / "test_some.py").write_text("def test_fails(): pass\ndef test_too(): assert False\n")
    page.write_text(page.read_text().replace(nightly_run.failed_on(page.read_text())[0].rpartition("/")[0] + "/", ""))
    assert nightly_run.run_failed(1, words, page, tmp_path) == 1
    found = page.read_text()
    assert "test_fails`: passed when run again at " in found and "test_too`: failed when run again at " in found
    assert "test_goes`: not there when run again at " in found
    assert "3 failed" in found  # the night itself stays what it was


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    said = tmp_path / "said"
    (tmp_path / "test_some.py").write_text(
        f"from pathlib import Path\nsaid = Path({str(said)!r})\n"
        "def test_once():\n    with said.open('a') as out:\n        out.write('once ')\n"
        "def test_stops():\n    if 'stopped' not in said.read_text():\n        said.write_text('once stopped ')\n"
        "        raise KeyboardInterrupt\n"
        "def test_last():\n    assert not said.read_text().count('once') - 1\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    words, logs, page = (
        ["-c", str(tmp_path / "pytest.ini"), "-p", "no:cacheprovider", str(tmp_path)],
        tmp_path / "logs",
        tmp_path / "night.md",
    )
    with pytest.raises(SystemExit, match="no run to resume"):
        nightly_run.resume(1, words, page, logs)
    assert nightly_run.run("not slow", 1, words, page, logs) == nightly_run.STOPPED
    with monkeypatch.context() as patch:
        patch.setattr(nightly_run, "commit", lambda: "another")
        with pytest.raises(SystemExit, match="and this is another"):
            nightly_run.resume(1, words, page, logs)
    monkeypatch.setenv(nightly_run.DONE, os.devnull)  # what `resume` sets is taken back behind the test
    assert nightly_run.resume(1, words, page, logs) == 0
    found = page.read_text()
    assert "3 tests: 3 passed" in found and "in 2 sittings" in found and "stopped" not in found.split("## Slowest")[0]
