"""`gmlm sample` by guided samplers: prompts from a file, what it prints and saves."""

from __future__ import annotations

import numpy as np
import pytest
from cli_cases import folder as folder
from cli_cases import gmlm

PROGRAM = """
model words { var x[t in range(4)] : letters("ab")  x[t] ~ categorical([0.6, 0.4]) for t in range(4) }
model ends  { var x[t in range(4)] : letters("ab")  require x[3] == "b" }
verifier can for words = completable(ends)
sampler tok for words = tokenwise_rejection(can)
sampler all for words = autoregressive(decode = sample)
"""


def test_strings_are_drawn_for_every_line_of_a_file(folder):
    (folder / "w.gmlm").write_text(PROGRAM)
    (folder / "prompts.txt").write_text("ab\n\nbbb\n")
    shown = gmlm("sample", "w.gmlm", "--model", "words", "-s", "tok", "--prompt", "prompts.txt", "--draws", "2", "--out", "s.npz").output
    assert "verifier calls, mean" in shown
    assert "2  bbbb" in shown
    with np.load(folder / "s.npz") as found:
        assert found["posterior/x"].shape == (1, 2, 3, 4)
        assert (found["posterior/x"][..., 3] == 1).all()
        assert found["guided_stats/oracle_calls"].shape == (1, 2, 3)
    assert "distinct" in gmlm("sample", "w.gmlm", "--model", "words", "-s", "all", "--draws", "5").output


HELD = {  # what is found, what is expected, and the line
    b"ab\n\nax\n": (
        "E502",
        "prompts.txt, line 3 at 1 is 'x'",
        "its values are `a`, `b`",
        "its letters without anything between them: `ab`",
    ),
    b"ab\nababa\n": ("E507", "prompts.txt, line 2 has 5 cells: more than the 4 of `x`", "shorten it"),
    b"": ("E505", "prompts.txt has no line", "an empty line is a prompt of no symbol"),
    b"ab\na\xff\n": ("E119", "in line 2, byte 0xff", "save text as UTF-8"),
}
NUMBERS = {
    "0 1\n0 one 1\n": ("E502", "prompts.txt, line 2: 'one' is not a whole number"),
    "1\n0 -1\n": ("E502", "prompts.txt, line 2 at 1 is -1"),
}


def test_what_a_file_of_prompts_may_not_hold(folder):
    (folder / "w.gmlm").write_text(PROGRAM)
    for text, words in HELD.items():
        (folder / "prompts.txt").write_bytes(text)
        shown = gmlm("sample", "w.gmlm", "--model", "words", "-s", "tok", "--prompt", "prompts.txt", status=1).output
        for word in words:
            assert word in " ".join(shown.split()), text
    for arguments, code in ((("--prompt", "none.txt"), "E120"), (("--warmup", "3"), "E507")):
        assert code in gmlm("sample", "w.gmlm", "--model", "words", "-s", "tok", *arguments, status=1).output
    (folder / "w.gmlm").write_text(PROGRAM.replace('letters("ab")', "range(2)").replace('x[3] == "b"', "x[3] == 1"))
    for text, words in NUMBERS.items():
        (folder / "prompts.txt").write_text(text)
        shown = gmlm("sample", "w.gmlm", "--model", "words", "-s", "tok", "--prompt", "prompts.txt", status=1).output
        for word in (*words, "its numbers with spaces between them: `0 1 0`"):
            assert word in " ".join(shown.split()), text


def test_labels_of_one_letter_that_stand_without_spaces_are_told_of_letters(folder):
    (folder / "l.gmlm").write_text(PROGRAM.replace('letters("ab")', 'labels("(", ")")').replace('"b"', '")"'))
    (folder / "prompts.txt").write_text("( (\n((\n")
    shown = gmlm("sample", "l.gmlm", "--model", "words", "-s", "tok", "--prompt", "prompts.txt", status=1).output
    for word in ("E502", "prompts.txt, line 2 at 0 is '(('", 'with `letters("()")` in place of `labels(..)` they need no spaces'):
        assert word in " ".join(shown.split())


@pytest.mark.slow
def test_a_report_says_what_was_drawn_what_it_took_and_where_it_went_back(folder):
    (folder / "w.gmlm").write_text(
        PROGRAM.replace("sampler all", "sampler back for words = backtracking(can, quota = 1, stride = 2)\nsampler all")
    )
    shown = gmlm("sample", "w.gmlm", "--model", "words", "-s", "back", "--draws", "40", "--rows", "1", "--report", "r.html").output
    assert "wrote r.html" in shown
    page = (folder / "r.html").read_text()
    for words in ("40 strings by the sampler", "oracle calls, mean", "Where it went back", "backtracking", "aaab"):
        assert words in page
    assert "FAIL" not in page
    bounded = PROGRAM.replace("tokenwise_rejection(can)", "rejection(can, tries = 1)")
    (folder / "w.gmlm").write_text(bounded)
    gmlm("sample", "w.gmlm", "--model", "words", "-s", "tok", "--draws", "40", "--rows", "1", "--report", "r.html")
    page = (folder / "r.html").read_text()
    assert "FAIL" in page
    assert "% of the draws failed" in page
    assert "Where it went back" not in page


@pytest.mark.slow
def test_a_line_that_nothing_completes_is_named(folder):
    (folder / "w.gmlm").write_text(PROGRAM)
    (folder / "prompts.txt").write_text("ab\nbbba\n")
    shown = " ".join(gmlm("sample", "w.gmlm", "--model", "words", "-s", "tok", "--prompt", "prompts.txt").output.split())
    assert "No string that begins with prompts.txt, line 2 can be valid: verifier `can` is 0 there" in shown
