"""Stockholm and A3M files: which columns they have, what of them is an insertion, and what is refused."""

from __future__ import annotations

import gzip

import pytest
from cli_cases import folder as folder
from cli_cases import gmlm

import gmlmdsl as gm

A2M = ">A_ECOLI/11-16 first\nMK-aa.LVW\n>B\nM-R..gLVW\n>C\nMKR.a.LI-\n"
# The same alignment: `.` in a match column is a gap, as in the seeds of Pfam.
STOCKHOLM = """\
# STOCKHOLM 1.0
#=GF ID   FAM
#=GF DE   A family.
#=GS B AC P12345.1

A_ECOLI/11-16   MK.aa
B               M.R..
#=GR B SS       H.H..
C               MKR.a
#=GC SS_cons    HH...

A_ECOLI/11-16   .LVW
B               gLVW
C               .LI-
#=GC SS_cons    .HHH
//
"""
A3M = "#6\t1\n>ss_pred\nCHHHHC\n>ss_conf\n0123456\n>A_ECOLI/11-16 first\nMK-aaLVW\n>B\nM-RgLV\nW\n>C\nMKRaLI-\n"
FAMILY = """
domain aa = letters("-GIKLMRVW")
input n : int
index site = range(n)
model f {
  var x[i in site] : aa
  param h[i in site, a in aa] ~ normal(0, 1)
  factor h[i, x[i]] for i in site
}
mask one = subsets(x, size = 1)
"""


def refusal(path) -> gm.Diagnostic:
    with pytest.raises(gm.GmlmError) as caught:
        gm.read_alignment(path)
    (found,) = caught.value.diagnostics
    return found


@pytest.mark.parametrize("focus", [True, False, "B", "A_ECOLI"])
@pytest.mark.parametrize(("name", "text"), [("f.sto", STOCKHOLM), ("f.stk.gz", STOCKHOLM), ("f.a3m", A3M), ("f.a3m.gz", A3M)])
def test_one_alignment_in_three_formats(tmp_path, name, text, focus):
    (tmp_path / "f.a2m").write_text(A2M)
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    wanted, found = gm.read_alignment(tmp_path / "f.a2m", focus), gm.read_alignment(tmp_path / name, focus)
    assert (found.columns, found.names, found.x.tolist()) == (wanted.columns, wanted.names, wanted.x.tolist())
    assert found.rows.tolist() == ([6, 7, 9] if "st" in name else [6, 8, 11])


def test_insertions_of_the_focus_are_counted_in_its_columns(tmp_path):
    (tmp_path / "f.sto").write_text(STOCKHOLM)
    assert gm.read_alignment(tmp_path / "f.sto").columns == ("M11", "K12", "L15", "V16", "W17")
    assert ["".join(row) for row in gm.read_alignment(tmp_path / "f.sto", False).x] == ["MK-LVW", "M-RLVW", "MKRLI-"]


def test_a_column_of_dots_alone_is_an_insertion_and_one_of_dashes_is_not(tmp_path):
    (tmp_path / "f.sto").write_text("# STOCKHOLM 1.0\na A.-C\nb A.-.\n//\n")
    assert ["".join(row) for row in gm.read_alignment(tmp_path / "f.sto", False).x] == ["A-C", "A--"]


@pytest.mark.usefixtures("standard_promotion")
def test_the_command_line_reads_them(folder):
    (folder / "f.gmlm").write_text(FAMILY)
    (folder / "f.sto.gz").write_bytes(gzip.compress(STOCKHOLM.encode()))
    (folder / "f.a3m").write_text(A3M)
    for name in ("f.sto.gz", "f.a3m"):
        said = gmlm("fit", "f.gmlm", name, "--identity", "0.8").output
        assert "5 of 6 match columns" in said and "h[M11, -]" in said


HEAD = "# STOCKHOLM 1.0\n"
FAULTS = {
    "no end": (HEAD + "a AC\n", "ends without `//`"),
    "two alignments": (HEAD + "a AC\n//\n" + HEAD + "a AC\n//\n", "line 4: a second alignment begins"),
    "two heads": (HEAD + HEAD + "a AC\n//\n", "line 2: a second alignment begins"),
    "text behind": (HEAD + "a AC\n//\n\nb AC\n", "line 5: there is text behind the `//` of line 3"),
    "version": ("# STOCKHOLM 2.0\na AC\n//\n", "expected `# STOCKHOLM 1.0`, found `# STOCKHOLM 2.0`"),
    "one word": (HEAD + "a AC\nb\n//\n", "line 3: expected a name and letters, found 1 words"),
    "three words": (HEAD + "a AC DE\n//\n", "line 2: expected a name and letters, found 3 words"),
    "ragged": (HEAD + "a AC\nb ACD\n//\n", "line 3, sequence `b` has 3 columns in all blocks, the first sequence has 2"),
    "lacks a block": (HEAD + "a AC\nb AC\n\na DE\n//\n", "line 3, sequence `b` has 2 columns"),
    "twice in a block": (HEAD + "a AC\na AC\nb AC\n//\n", "line 4, sequence `b` has 2 columns"),
    "character": (HEAD + "a AC\nb A1\n//\n", "line 3, sequence `b` has the character `1`"),
    "letter of no alphabet": (HEAD + "a AC\nb Aé\n//\n", "line 3, sequence `b` has the character `é`"),
    "two cases": (HEAD + "a ACD\nb AcD\n//\n", "column 2 has `C` in line 2 (sequence `a`) and `c` in line 3 (sequence `b`)"),
    "insertions alone": (HEAD + "a ac\nb .c\n//\n", "has no match columns"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_stockholm_file_that_does_not_fit_says_where(tmp_path, name):
    text, words = FAULTS[name]
    (tmp_path / "f.sto").write_text(text)
    found = refusal(tmp_path / "f.sto")
    assert (found.code, words in found.message) == ("E530", True), found.message
    assert found.help


def test_files_without_sequences_and_comments_of_other_formats(tmp_path):
    (tmp_path / "f.sto").write_text(HEAD + "#=GF ID FAM\n//\n")
    assert refusal(tmp_path / "f.sto").code == "E505"
    (tmp_path / "f.a2m").write_text("#6\t1\n>a\nAC\n")
    assert "line 1: an alignment begins with `>`" in refusal(tmp_path / "f.a2m").message
    (tmp_path / "f.a3m").write_text("#6\t1\n>a\nAC\n>b\nA\n")
    assert "line 4, sequence `b` has 1 match columns, the first sequence has 2" in refusal(tmp_path / "f.a3m").message


def test_letters_of_rna_are_named_as_the_reason(tmp_path):
    (tmp_path / "rna.fasta").write_text(">a\nACGU\n>b\nAUGC\n")
    with pytest.raises(gm.GmlmError, match=r'E505(.|\n)*alphabet="-ACGU"'):
        gm.read_alignment(tmp_path / "rna.fasta")
    assert gm.read_alignment(tmp_path / "rna.fasta", alphabet="-ACGU").letters.shape == (2, 4)
