"""Readers of files: what they give, what they refuse and how they say it, and weights of sequences."""

from __future__ import annotations

import os

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.data._values import encode
from gmlmdsl.files import _whole_files
from gmlmdsl.read import _alignment, _lines

VOTES = """\
Class,handicapped-infants, water-project,crime
republican,n,y,n
democrat,?,y,y
democrat,y,n,?
democrat,n,n,y
"""
LABELLED = 'index vote = range(3)  model m { var x[i in vote] : labels("n", "y")  factor 0.1 for i in vote }'
FAMILY = """\
>A_ECOLI/11-15 first
MK-aaLV
W
>B
M-R..LVW
>C weak
MXK..LIW
>D
MK-..---
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a file into an empty folder, where the test runs."""
    monkeypatch.chdir(tmp_path)

    def writer(content: str | bytes, name: str = "votes.csv") -> str:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return writer


def refusal(call, *arguments, **options) -> gm.Diagnostic:
    with pytest.raises(gm.GmlmError) as caught:
        call(*arguments, **options)
    (found,) = caught.value.diagnostics
    return found


# Tables


def test_a_table_has_texts_names_and_lines(write):
    votes = gm.read_table(write(VOTES), where={"Class": "democrat"}, missing="?")
    assert votes.columns == ("handicapped-infants", "water-project", "crime")
    assert votes.x.tolist() == [["?", "y", "y"], ["y", "n", "?"], ["n", "n", "y"]]
    assert votes.rows.tolist() == [3, 4, 5]
    assert votes.missing == "?"
    assert votes.missing_counts == {"handicapped-infants": 1, "water-project": 0, "crime": 1}
    assert repr(votes) == "votes.csv: 3 rows, 3 columns, 2 of 9 cells missing"


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ("crime, Class", ["crime", "Class"]),
        (["crime", 0], ["crime", "Class"]),
        ("1:", ["handicapped-infants", "water-project", "crime"]),
        (":water-project", ["Class", "handicapped-infants", "water-project"]),
        ("1:water-project, 0", ["handicapped-infants", "water-project", "Class"]),
        ("handicapped-infants:crime", ["handicapped-infants", "water-project", "crime"]),
        (["2:3"], ["water-project", "crime"]),
    ],
)
def test_columns_are_chosen_by_name_number_and_range_with_both_ends(write, columns, found):
    assert list(gm.read_table(write(VOTES), columns).columns) == found


def test_a_name_that_looks_like_a_range_or_a_number_is_a_name(write):
    table = gm.read_table(write('a:b,2,"c,d"\n1,2,3\n'), 'a:b,2,"c,d"')
    assert (table.columns, table.x.tolist()) == (("a:b", "2", "c,d"), [[1, 2, 3]])


def test_groups_of_several_columns_and_values(write):
    path = write("a,b,x\n1,u,0\n1,v,1\n2,u,1\n3,u,0\n")
    assert gm.read_table(path, where={"b": "u", "a": ["1", "2"]}).rows.tolist() == [2, 4]
    assert gm.read_table(path, where={"a": 2}).x.tolist() == [["u", "1"]]


def test_numbers_are_numbers_and_their_holes_are_nan(write):
    whole = gm.read_table(write("a,b\n1,-1\n+1,1.0\n"))
    assert (whole.x.dtype.kind, whole.x.tolist(), whole.missing) == ("i", [[1, -1], [1, 1]], None)
    holes = gm.read_table(write("a,b\n1,NA\n,0.5\n"), missing=["NA", ""])
    assert np.array_equal(holes.x, [[1, np.nan], [np.nan, 0.5]], equal_nan=True)
    assert np.isnan(holes.missing)
    assert gm.read_table(write("a,b\ny,NA\n,n\n"), missing=["NA", ""]).x.tolist() == [["y", "NA"], ["NA", "n"]]


SAME = {
    "byte order mark": b"\xef\xbb\xbf" + VOTES.encode(),
    "ends of Windows": VOTES.replace("\n", "\r\n").encode(),
    "no last end": VOTES.rstrip("\n").encode(),
    "blank lines": ("\n" + VOTES.replace("\ndemocrat,?", "\n\n  \ndemocrat,?")).encode(),
    "quoted": VOTES.replace("crime", '"crime"').replace("democrat,y", 'democrat, "y"').encode(),
    "tabs": VOTES.replace(",", "\t").encode(),
    "semicolons": VOTES.replace(",", " ; ").encode(),
}


@pytest.mark.parametrize("name", SAME)
def test_one_table_in_several_dresses(write, name):
    expected = gm.read_table(write(VOTES))
    found = gm.read_table(write(SAME[name], "other.csv"))
    assert (found.columns, found.x.tolist()) == (expected.columns, expected.x.tolist())


def test_lines_are_counted_where_rows_begin(write):
    table = gm.read_table(write('a,b\n\n"one\ntwo",1\n\n3,4\n'))
    assert table.rows.tolist() == [3, 6]


TABLE_FAULTS = {
    "empty": ("", {}, "E505", "votes.csv is empty"),
    "header only": ("a,b\n\n", {}, "E505", "votes.csv has no rows of data: one line, which is read as a header"),
    "ragged": ("a,b\n1,2\n\n1,2,3\n", {}, "E522", "votes.csv, line 4: 3 fields, the first line has 2"),
    "twice": ("a, a,b\n1,2,3\n", {}, "E525", "two columns are called `a`"),
    "nameless": ("a,,\n1,2,3\n", {}, "E525", "two columns have no name"),
    "open quote": ('a,b\n1,2\n3,"4\n5,6\n', {}, "E520", "votes.csv, line 3: not a row of a table"),
    "stray quote": ('a,b\n1,"2"x\n', {}, "E520", "line 2"),
    "zero byte": (b"a,b\n1,\0\n", {}, "E119", "there is a zero byte in line 2"),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), {}, "E119", "zero byte in line 1"),
    "latin": ("a,b\n1,é\n".encode("latin-1"), {}, "E119", "in line 2, byte 0xe9 at place 3 is not UTF-8"),
    "unknown column": (VOTES, {"columns": "crimes"}, "E526", "votes.csv has no column `crimes`"),
    "column beyond": (VOTES, {"columns": "1:4"}, "E526", "votes.csv has columns 0 to 3, got `4`"),
    "column without names": (VOTES, {"columns": "crime", "header": False}, "E526", "columns are numbered 0 to 3, got `crime`"),
    "backwards": (VOTES, {"columns": "crime:Class"}, "E507", "`crime:Class` runs backwards"),
    "chosen twice": (VOTES, {"columns": "crime,1:"}, "E507", "names the column `crime` twice"),
    "none left": ("a\n1\n", {"where": {"a": "1"}}, "E505", "no column is left"),
    "unknown where": (VOTES, {"where": {"class": "democrat"}}, "E526", "has no column `class`"),
    "unknown group": (VOTES, {"where": {"Class": "democrats"}}, "E527", "no row has `democrats` in column `Class`"),
    "no common row": (VOTES, {"where": {"Class": "republican", "crime": "y"}}, "E505", "no row is left"),
    "missing number": (VOTES, {"missing": [9]}, "E507", "is a text"),
}


@pytest.mark.parametrize("name", TABLE_FAULTS)
def test_a_table_that_does_not_fit_says_where(write, name):
    content, options, code, message = TABLE_FAULTS[name]
    found = refusal(gm.read_table, write(content), **options)
    assert found.code == code
    assert message in found.message


@pytest.mark.parametrize(
    ("options", "help"),
    [
        ({"columns": "crimes"}, "did you mean `crime`?"),
        ({"where": {"Class": "democrats"}}, "did you mean `democrat`?"),
        ({"where": {"Class": "whig"}}, "it has `democrat`, `republican`"),
    ],
)
def test_what_is_unknown_has_a_neighbour_or_a_list(write, options, help):
    assert refusal(gm.read_table, write(VOTES), **options).help == help


@pytest.mark.produces("E523")
def test_sizes_are_checked_before_reading(write, monkeypatch):
    path, family = write(VOTES), write(FAMILY, "fam.a2m")
    monkeypatch.setattr(_whole_files, "MOST_LINE", 40)
    assert "votes.csv, line 1 has more than 40 bytes" in refusal(gm.read_table, path).message
    monkeypatch.setattr(_lines, "MOST_TEXT", 50)
    monkeypatch.setattr(_lines, "decoded_line", lambda *_: pytest.fail("it was read"))
    for read, name in ((gm.read_table, path), (gm.read_alignment, family)):
        found = refusal(read, name)
        assert found.code == "E523"
        assert "more than the limit" in found.message


def test_a_pipe_is_bounded_too(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        file.write("a,b\n" + "1,2\n" * 5000)  # less than a pipe holds
    monkeypatch.setattr(_lines, "MOST_TEXT", 1000)
    with os.fdopen(reading):
        assert refusal(gm.read_table, f"/dev/fd/{reading}").code == "E523"


# Tables as data of a model


@pytest.fixture(scope="module")
def labelled():
    return gm.parse(LABELLED).model()


def test_a_table_is_data_of_a_model(write, labelled):
    votes = gm.read_table(write(VOTES), where={"Class": "democrat"}, missing="?")
    assert encode(labelled.graph, votes, missing=votes.missing).codes.T.tolist() == [[-1, 1, 1], [1, 0, -1], [0, 0, 1]]
    plain = encode(labelled.graph, votes.x, missing=votes.missing)
    assert np.array_equal(plain.codes, encode(labelled.graph, votes, missing="?").codes)
    unmarked = gm.read_table(write(VOTES), where={"Class": "democrat"})
    assert np.array_equal(plain.codes, encode(labelled.graph, unmarked, missing="?").codes)


def test_columns_that_are_asked_for_go_by_name_where_they_have_the_names_of_cells(write):
    """In any order; other names, and numbers, stand for the cells as they are listed."""
    path, names = write(VOTES), ["handicapped-infants", "water-project", "crime"]
    named, plain = (gm.parse(LABELLED, coords=coords).model() for coords in ({"vote": names}, None))
    there = encode(named.graph, gm.read_table(path, names, missing="?"), missing="?").codes
    listed = gm.read_table(path, names[::-1], missing="?")
    assert np.array_equal(encode(named.graph, listed, missing="?").codes, there)
    assert np.array_equal(encode(plain.graph, listed, missing="?").codes, there[::-1])
    bare = gm.read_table(write("y n n\nn n y\n", "bare.txt"), [2, 0, 1], header=False)
    assert encode(plain.graph, bare).codes.T.tolist() == [[0, 1, 0], [1, 0, 0]]


def test_missing_cells_of_a_table_are_refused_where_none_may_be(write, labelled):
    votes = gm.read_table(write(VOTES), "1:", missing="?")
    found = refusal(encode, labelled.graph, votes)
    assert found.code == "E504"
    assert found.message == 'votes.csv, line 3, column `handicapped-infants` is "?"'
    assert "`missing='?'`" in found.help


def test_a_value_that_does_not_fit_is_named_by_its_place(write, labelled):
    table = gm.read_table(write(VOTES.replace("t,n,n,y", "t,n,n,maybe")), "1:", missing="?")
    found = refusal(encode, labelled.graph, table, missing="?")
    assert found.message == 'votes.csv, line 5, column `crime` is "maybe": not a value of `x`; its values are `n`, `y`'
    found = refusal(encode, labelled.graph, gm.read_table(write(VOTES), "0:2"), missing="?")
    assert "line 2, column `Class`" in found.message
    assert "leave it out: list the others with `columns=`" in found.help
    assert "has 2 columns, the model has 3 cells" in refusal(encode, labelled.graph, gm.read_table(write(VOTES), "2:")).message


@pytest.mark.parametrize(
    ("text", "columns", "help"),
    [
        (
            "a,b,c\nr,y,n\nd,n,y\nd,n,?\n",
            None,
            'declare `x` as `labels("n", "y")`, the values of most columns; if column `a` is not a cell of `x`, leave it out: `columns=\'b:\'`',
        ),
        ("a,b,c\nn,y,n\ny,n,y\n", None, 'declare `x` as `labels("n", "y")`, or choose other columns with `columns=`'),
        ("a,b,c\n1,1,7\n-1,1,8\n", None, "if column `c` is not a cell of `x`, leave it out: list the others with `columns=`"),
        ("Class,a,b\nr,1,1\nd,-1,1\n", None, "if column `Class` is not a cell of `x`, leave it out: `columns='a:'`"),
        (
            "Class,a,b,c\nr,1,1,1\nd,-1,1,1\n",
            "0:2",
            "if column `Class` is not a cell of `x`, leave it out: list the others with `columns=`",
        ),
        ("a,b,c\n3,4,3\n4,3,3\n", None, "if column `a` is not a cell of `x`, leave it out: list the others with `columns=`"),
        ("a,b,c\nr,1,1\n1,-1,1\n", None, "correct it or, if it stands for a missing cell, pass `missing='r'`"),
        ("a,b,c\nDK,1,1\n1,-1,-9\n", None, "correct it or, if these stand for missing cells, pass `missing=['DK', '-9']`"),
        ("a,b,c\n?,1,1\n1,-1,-9\n", None, "if these stand for missing cells, pass `missing=['?', '-9']`"),
    ],
)
def test_a_column_without_a_value_is_left_out_or_declared(write, text, columns, help):
    graph = gm.parse("model m { var x[i in range(3)] : spin\n factor x[0] }").model().graph
    assert refusal(encode, graph, gm.read_table(write(text), columns)).help == help


def test_columns_follow_the_labels_of_the_axis(write):
    names = ["crime", "water-project", "handicapped-infants"]
    model = gm.parse(LABELLED, coords={"vote": names}).model()
    table = gm.read_table(write(VOTES), where={"Class": "republican"})
    assert encode(model.graph, table).codes.T.tolist() == [[0, 1, 0]]
    assert encode(model.graph, table.select("1:")).codes.T.tolist() == [[0, 1, 0]]
    assert encode(model.graph, gm.read_table(write("crime,handicapped-infants,water-project\nn,n,y\n"))).codes.T.tolist() == [[0, 1, 0]]


def test_letters_may_stand_as_one_text(write):
    model = gm.parse('model m { var x[i in range(3)] : letters("ACGT") factor 1 }').model()
    table = gm.read_table(write("sequence\nACG\nA?T\n?\n"), missing="?")
    assert encode(model.graph, table, missing="?").codes.T.tolist() == [[0, 1, 2], [0, -1, 3], [-1, -1, -1]]
    assert 'is "B": not a value' in refusal(encode, model.graph, gm.read_table(write("s\nACG\nABG\n"))).message
    assert "line 3, column `s` has 2 letters, `x` has 3" in refusal(encode, model.graph, gm.read_table(write("s\nACG\nAC\n"))).message


def test_edges_and_cells_have_the_labels_of_their_nodes():
    text = "graph G = chain(3) model m { var x[i in G.nodes] : bit param J[(i, j) in G.edges] factor J[i, j] * x[i] * x[j] for (i, j) in G.edges }"
    from gmlmdsl.evaluate._parameters import entry_names

    named = gm.parse(text, coords={"G.nodes": ["a-b", "c", "d"]}).model()
    assert entry_names(named.graph) == ["J[a-b, c]", "J[c, d]"]
    assert named.graph.cell_name(0) == "x[a-b]"
    assert entry_names(gm.parse(text).model().graph) == ["J[0, 1]", "J[1, 2]"]
    assert refusal(gm.parse, text, coords={"G.node": "abc"}).help == "did you mean `G.nodes`?"
    assert "has 3 members, got 2 labels" in refusal(gm.parse, text, coords={"G.nodes": "ab"}).message


# Alignments


def test_match_columns_of_the_focus(write):
    family = gm.read_alignment(write(FAMILY, "fam.a2m"))
    assert family.names == ("A_ECOLI/11-15", "B", "D")
    assert ["".join(row) for row in family.x] == ["MKLVW", "M-LVW", "MK---"]
    assert family.columns == ("M11", "K12", "L15", "V16", "W17")  # aa are residues 13 and 14
    assert family.rows.tolist() == [1, 4, 8]
    assert family.missing is None
    assert "focus `A_ECOLI/11-15`: 5 of 6 match columns; dropped 1 sequences for letters outside" in repr(family)


def test_cells_that_are_labelled_as_columns_of_an_alignment_take_these(write):
    family = gm.read_alignment(write(FAMILY, "fam.a2m"))
    text = 'input n : int\nindex site = range(n)\nmodel m { var x[i in site] : letters("-ACDEFGHIKLMNPQRSTVWY") factor 1 }'
    some = gm.parse(text, n=2, coords={"site": ["W17", "K12"]}).model()
    whole = gm.parse(text, n=5).model()
    wanted = encode(whole.graph, family).codes[[4, 1]]
    np.testing.assert_array_equal(encode(some.graph, family).codes, wanted)
    found = refusal(encode, gm.parse(text, n=2).model().graph, family)
    assert "has 5 columns, the model has 2 cells" in found.message
    assert "`coords=`" in found.help and "`columns=`" not in found.help
    found = refusal(encode, gm.parse(text, n=2, coords={"site": ["W17", "K13"]}).model().graph, family)
    assert "has no column for `x[K13]`" in found.message


def test_another_focus_and_none(write):
    path = write(FAMILY, "fam.a2m")
    assert gm.read_alignment(path, "A_ECOLI").columns == gm.read_alignment(path).columns
    assert gm.read_alignment(path, "B").columns == ("M1", "R2", "L3", "V4", "W5")
    whole = gm.read_alignment(path, False)
    assert whole.columns == ("0", "1", "2", "3", "4", "5")
    assert "".join(whole.x[1]) == "M-RLVW"


def test_what_becomes_of_unknown_letters(write):
    path = write(FAMILY, "fam.a2m")
    missing = gm.read_alignment(path, unknown_letters="missing")
    assert ("".join(missing.x[2]), missing.missing) == ("M?LIW", "?")
    assert missing.missing_counts == {"M11": 0, "K12": 1, "L15": 0, "V16": 0, "W17": 0}
    assert "".join(gm.read_alignment(path, unknown_letters="gap").x[2]) == "M-LIW"
    assert len(gm.read_alignment(path, "D")) == 3  # C's X stands in a column of D, as K does
    rna = gm.read_alignment(write(">a\nACGU\n>b\nA-GU\n>c\nANGU\n", "r.fa"), alphabet="ACGU", unknown_letters="missing")
    assert ["".join(r) for r in rna.x] == ["ACGU", "A?GU", "A?GU"]


def test_gaps_filter_rows_then_columns(write):
    path = write(">f\nACDE\n>a\n---E\n>b\n-CDE\n>c\nA--E\n", "f.fa")
    rows = gm.read_alignment(path, row_gaps=0.5)
    assert (rows.names, len(rows.columns)) == (("f", "b", "c"), 4)
    both = gm.read_alignment(path, row_gaps=0.5, column_gaps=0.25)
    assert (both.names, both.columns) == (("f", "b", "c"), ("E4",))
    assert gm.read_alignment(path, row_gaps=0.5, column_gaps=1 / 3).columns == ("A1", "C2", "D3", "E4")
    assert gm.read_alignment(path, column_gaps=0.3).columns == ("E4",)


ALIGNMENT_FAULTS = {
    "empty": ("", {}, "E505", "fam.a2m has no sequences"),
    "no name": ("ACD\n", {}, "E530", "line 1: an alignment begins with `>`"),
    "clustal": ("CLUSTAL W\nseq ACD\n", {}, "E530", "begins with `>`"),
    "ragged": (">a\nACD\n>b\nACDE\n", {}, "E530", "fam.a2m, line 3, sequence `b` has 4 match columns, the first sequence has 3"),
    "no match column": (">a\nacd\n>b\n\n", {}, "E530", "has no match columns"),
    "stray character": (">a\nACD\n>b\nA*D\n", {}, "E530", "fam.a2m, line 3, sequence `b` has the character `*`"),
    "unknown focus": (FAMILY, {"focus": "A_ECOL"}, "E531", "fam.a2m has no sequence `A_ECOL`"),
    "two of a name": (">a/1-2\nAC\n>a/7-8\nAC\n", {"focus": "a"}, "E531", "2 sequences are called `a`: `a/1-2` in line 1"),
    "focus of gaps": (">a\n--\n>b\nAC\n", {}, "E505", "has nothing but gaps"),
    "none left": (">a\nAX\n", {}, "E505", "no sequence is left"),
    "all columns": (">a\nA-\n>b\n-C\n", {"focus": False, "column_gaps": 0.1}, "E505", "every column"),
    "policy": (FAMILY, {"unknown_letters": "keep"}, "E507", "unknown_letters must be one of"),
    "alphabet": (FAMILY, {"alphabet": "ACa"}, "E507", "alphabet must be distinct"),
    "no gap": (FAMILY, {"alphabet": "ACGT", "unknown_letters": "gap"}, "E507", "the alphabet has no `-`"),
    "share": (FAMILY, {"row_gaps": 50}, "E507", "row_gaps is a share"),
    "zero byte": (b">a\nAC\0\n", {}, "E119", "zero byte in line 2"),
}


@pytest.mark.parametrize("name", ALIGNMENT_FAULTS)
def test_an_alignment_that_does_not_fit_says_where(write, name):
    content, options, code, message = ALIGNMENT_FAULTS[name]
    found = refusal(gm.read_alignment, write(content, "fam.a2m"), **options)
    assert found.code == code
    assert message in found.message


def test_a_letter_outside_the_domain_names_its_sequence_and_column(write):
    model = gm.parse('model m { var x[i in range(5)] : letters("-KLMVW") factor 1 }').model()
    family = gm.read_alignment(write(FAMILY, "fam.a2m"), unknown_letters="missing")
    found = refusal(encode, model.graph, family, missing=family.missing)
    assert found.message.startswith('fam.a2m, line 6, sequence `C`, column `V16` is "I": not a value of `x`')
    wider = gm.parse(LABELLED).model()
    assert "fam.a2m has 5 columns, the model has 3 cells" in refusal(encode, wider.graph, family).message


# Weights


def brute_force(rows, identity):
    """Over pairs, one by one, by the definition."""
    n, length = len(rows), len(rows[0])
    counts = [
        sum(sum(a == b for a, b in zip(rows[r], rows[s], strict=True)) >= identity * length - 1e-9 for s in range(n)) for r in range(n)
    ]
    return 1 / np.array(counts)


def test_weights_of_a_worked_example():
    rows = ["AAAAA", "AAAAC", "AAACC", "-----", "----A"]
    # At 4 of 5: AAAAC is near both AAAAA and AAACC, which are not near each other; two gaps agree.
    assert gm.sequence_weights(rows, 0.8).tolist() == [1 / 2, 1 / 3, 1 / 2, 1 / 2, 1 / 2]
    assert gm.sequence_weights(rows, 1).tolist() == [1] * 5
    assert gm.sequence_weights(rows, 0).tolist() == [1 / 5] * 5


@pytest.mark.parametrize(("n", "length", "block"), [(23, 10, 1 << 24), (23, 10, 50), (12, 600, 60), (1, 4, 50)])
@pytest.mark.parametrize("identity", [0.3, 0.7, 0.8])
def test_weights_agree_with_brute_force_in_blocks(rng, monkeypatch, n, length, block, identity):
    monkeypatch.setattr(_alignment, "PAIRS_AT_ONCE", block)
    first = rng.integers(0, 4, size=length)
    rows = np.where(rng.random((n, length)) < rng.uniform(0, 0.6, size=(n, 1)), rng.integers(0, 4, size=(n, length)), first)
    assert np.array_equal(gm.sequence_weights(rows, identity), brute_force(rows.tolist(), identity))


def test_the_threshold_is_met_where_the_product_is_not_exact():
    rows = np.zeros((2, 10), int)
    rows[1, :3] = 1  # 7 of 10 agree, and 0.7 * 10 is 7.000000000000001 as some compute it
    assert gm.sequence_weights(rows, 0.1 * 7).tolist() == [0.5, 0.5]


def test_weights_take_an_alignment_and_many_symbols(write, rng):
    family = gm.read_alignment(write(FAMILY, "fam.a2m"))
    assert gm.sequence_weights(family).tolist() == [0.5, 0.5, 1.0]
    many = rng.integers(0, 1000, size=(30, 40))
    many[7] = many[3]
    assert np.flatnonzero(gm.sequence_weights(many) < 1).tolist() == [3, 7]


def test_weights_refuse_what_has_no_columns():
    assert refusal(gm.sequence_weights, ["AC", "A"]).code == "E501"
    assert refusal(gm.sequence_weights, np.zeros(3)).code == "E501"
    assert refusal(gm.sequence_weights, ["AC"], 80).code == "E507"
