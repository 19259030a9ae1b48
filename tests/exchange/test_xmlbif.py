"""XMLBIF: what is read and written, and what no file can make the reader do."""

from __future__ import annotations

import itertools
import warnings

import jax
import numpy as np
import pytest
from cli_cases import folder as folder
from cli_cases import gmlm
from exchange_cases import ASIA, joint

import gmlmdsl as gm

# A sprinkler with three degrees of rain, written by hand.
HEAD = '<?xml version="1.0" encoding="US-ASCII"?>\n'
DTD = "<!DOCTYPE BIF [\n<!ELEMENT BIF ( NETWORK )*>\n<!ATTLIST BIF VERSION CDATA #REQUIRED>\n]>\n"
SPRINKLER = """\
<BIF VERSION="0.3">
<!-- the garden -->
<NETWORK>
<NAME>garden</NAME>
<PROPERTY>author: nobody</PROPERTY>
<VARIABLE TYPE="nature"><NAME>rain</NAME><OUTCOME>none</OUTCOME><OUTCOME>some &lt; 5 mm</OUTCOME><OUTCOME>much</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature"><NAME>sprinkler</NAME><OUTCOME>off</OUTCOME><OUTCOME>on</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature">
  <NAME>wet grass</NAME> <OUTCOME>no</OUTCOME> <OUTCOME>yes</OUTCOME> <PROPERTY>position = (1, 2)</PROPERTY>
</VARIABLE>
<DEFINITION><FOR>rain</FOR><TABLE>0.5 0.3 0.2</TABLE></DEFINITION>
<DEFINITION><FOR>sprinkler</FOR><GIVEN>rain</GIVEN><TABLE>0.4 0.6 <!-- none -->
  0.9 0.1 <!-- some -->
  1.0 0.0</TABLE></DEFINITION>
<DEFINITION><FOR>wet grass</FOR><GIVEN>sprinkler</GIVEN><GIVEN>rain</GIVEN>
<TABLE>1 0 0.2 0.8 0.1 0.9
0.1 0.9 0.05 0.95 0.01 0.99</TABLE></DEFINITION>
</NETWORK>
</BIF>
"""
TABLES = {
    (0,): [0.5, 0.3, 0.2],
    (0, 1): [[0.4, 0.6], [0.9, 0.1], [1, 0]],
    (1, 0, 2): [[[1, 0], [0.2, 0.8], [0.1, 0.9]], [[0.1, 0.9], [0.05, 0.95], [0.01, 0.99]]],
}


def model(path) -> gm.JointModel:
    found = gm.read_model(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bound = gm.parse(found.text, **found.inputs)
    assert bound.model().warnings == ()
    return bound.model()


def probabilities(model: gm.JointModel) -> np.ndarray:
    """p of all joint values, the last variable fastest."""
    sizes = [len(v.labels) for v in model.graph.variables]
    rows = np.array(list(itertools.product(*map(range, sizes))))
    with jax.enable_x64(True):
        return np.exp(np.asarray(model.log_prob({}, {v.name: rows[:, k] for k, v in enumerate(model.graph.variables)})))


def by_name(model: gm.JointModel) -> np.ndarray:
    """p of all joint values, with the variables in the order of their names."""
    names = [v.name for v in model.graph.variables]
    p = probabilities(model).reshape([len(v.labels) for v in model.graph.variables])
    return p.transpose([names.index(n) for n in sorted(names)])


@pytest.mark.parametrize("head", ["", HEAD, HEAD + DTD], ids=["bare", "declared", "with its types"])
def test_a_file_has_the_probabilities_of_its_tables(head, tmp_path):
    (tmp_path / "garden.xml").write_text(head + SPRINKLER)
    found = model(tmp_path / "garden.xml")
    names = [v.name for v in found.graph.variables]
    assert sorted(names) == ["rain", "sprinkler", "wet_grass"]
    order = [["rain", "sprinkler", "wet_grass"].index(n) for n in sorted(names)]
    np.testing.assert_allclose(by_name(found), joint([3, 2, 2], TABLES).transpose(order), rtol=1e-12)
    text = gm.read_model(tmp_path / "garden.xml").text
    assert "var wet_grass : no_yes  # `wet grass` there" in text
    assert 'labels("none", "some < 5 mm", "much")' in text


@pytest.mark.parametrize("ending", ["bif", "xmlbif", "xml"])
def test_what_is_exported_is_read_as_the_same_model(ending, tmp_path):
    (tmp_path / "garden.xml").write_text(SPRINKLER)
    (tmp_path / "asia.bif").write_text(ASIA)
    for name in ("garden.xml", "asia.bif"):
        first = model(tmp_path / name)
        first.export({}, tmp_path / f"again.{ending}")
        np.testing.assert_allclose(by_name(model(tmp_path / f"again.{ending}")), by_name(first), rtol=1e-14)


def test_signs_of_xml_are_escaped(tmp_path):
    text = 'model m {\n  var x : labels("<a>", "b & c")\n  x ~ categorical([0.25, 0.75])\n}\n'
    gm.parse(text).model().export({}, tmp_path / "m.xmlbif")
    assert "<OUTCOME>&lt;a&gt;</OUTCOME>" in (tmp_path / "m.xmlbif").read_text()
    assert 'labels("<a>", "b_&_c")' in gm.read_model(tmp_path / "m.xmlbif").text


# The first part of the dog problem of Charniak (1991), in the layout of JavaBayes: the child's state changes last in a BIF table.
DOG = """\
// Bayesian network in the interchange format
network "Dog-Problem" { //3 variables
	property "credal-set constant-density-bounded 1.1" ;
}
variable  "bowel-problem" { //2 values
	type discrete[2] {  "true"  "false" };
}
variable  "dog-out" { type discrete[2] {  "true"  "false" }; property "position = (300, 195)" ; }
variable  "family-out" { type discrete[2] {  "true"  "false" }; }
probability (  "bowel-problem" ) { table 0.01 0.99 ; }
probability (  "family-out" ) { table 0.15 0.85 ; }
probability (  "dog-out"  "bowel-problem"  "family-out" ) { //3 variable(s) and 8 values
	table 0.99 0.97 0.9 0.3 0.01 0.03 0.1 0.7 ;
}
"""
DOG_XML = "".join(
    f"<VARIABLE><NAME>{name}</NAME><OUTCOME>true</OUTCOME><OUTCOME>false</OUTCOME></VARIABLE>"
    for name in ("bowel-problem", "dog-out", "family-out")
)
DOG_XML = f"""<BIF VERSION="0.3"><NETWORK><NAME>Dog-Problem</NAME>{DOG_XML}
<DEFINITION><FOR>bowel-problem</FOR><TABLE>0.01 0.99</TABLE></DEFINITION>
<DEFINITION><FOR>family-out</FOR><TABLE>0.15 0.85</TABLE></DEFINITION>
<DEFINITION><FOR>dog-out</FOR><GIVEN>bowel-problem</GIVEN><GIVEN>family-out</GIVEN>
<TABLE>0.99 0.01 0.97 0.03 0.9 0.1 0.3 0.7</TABLE></DEFINITION>
</NETWORK></BIF>
"""


def test_the_two_formats_order_their_tables_each_in_its_way(tmp_path):
    (tmp_path / "dog.bif").write_text(DOG)
    (tmp_path / "dog.xml").write_text(DOG_XML)
    p = by_name(model(tmp_path / "dog.bif"))
    np.testing.assert_allclose(p, by_name(model(tmp_path / "dog.xml")), rtol=1e-14)
    assert p[0, 0, 1] == pytest.approx(0.01 * 0.97 * 0.85)  # bowel-problem, dog-out, family-out false
    assert p[1, 0, 0] == pytest.approx(0.99 * 0.9 * 0.15)


def test_a_table_in_the_other_order_gets_its_cure(tmp_path):
    (tmp_path / "dog.bif").write_text(DOG.replace("0.99 0.97 0.9 0.3 0.01 0.03 0.1 0.7", "0.99 0.01 0.97 0.03 0.9 0.1 0.3 0.7"))
    with pytest.raises(gm.GmlmError, match="all numbers of the first state, then"):
        gm.read_model(tmp_path / "dog.bif")


BOMB = '<!DOCTYPE BIF [\n<!ENTITY a "aaaaaaaaaa">\n<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">\n]>\n'
FILE = '<!DOCTYPE BIF [\n<!ENTITY a SYSTEM "secret.txt">\n]>\n'
PARAMETER = '<!DOCTYPE BIF [\n<!ENTITY % a SYSTEM "secret.txt">\n%a;\n]>\n'
ABROAD = '<!DOCTYPE BIF SYSTEM "secret.txt">\n'
REFUSED = {
    "bomb": (BOMB + SPRINKLER.replace("garden<", "&b;<"), "E532", "declares the entity `a`"),
    "unused bomb": (BOMB + SPRINKLER, "E532", "declares the entity `a`"),
    "external entity": (FILE + SPRINKLER.replace("garden<", "&a;<"), "E532", "declares the entity `a`"),
    "parameter entity": (PARAMETER + SPRINKLER, "E532", "declares the entity `a`"),
    "undeclared entity": (SPRINKLER.replace("garden<", "&c;<"), "E532", "undefined entity"),
    "deep": ("<BIF>" * 100, "E532", "more than 32 elements"),
    "another root": ("<html></html>", "E532", "found html"),
    "no network": ('<BIF VERSION="0.3"></BIF>', "E532", "a BIF has one NETWORK, found 0"),
    "empty": ("<BIF><NETWORK></NETWORK></BIF>", "E532", "declares no variable"),
    "not closed": (SPRINKLER.replace("</BIF>", ""), "E532", "no element found"),
    "wrongly closed": (SPRINKLER.replace("</NAME>", "</NOME>", 1), "E532", "mismatched tag"),
    "decision": (SPRINKLER.replace('"nature"', '"decision"', 1), "E532", "of the type `decision`"),
    "no name": (SPRINKLER.replace("<NAME>rain</NAME>", ""), "E532", "a VARIABLE has one NAME, found 0"),
    "no states": (SPRINKLER.replace("<OUTCOME>off</OUTCOME><OUTCOME>on</OUTCOME>", ""), "E532", "has no states"),
    "state twice": (SPRINKLER.replace(">off<", ">on<"), "E532", "the state `on` twice"),
    "variable twice": (SPRINKLER.replace("<NAME>sprinkler<", "<NAME>rain<"), "E532", "declared twice"),
    "unknown parent": (SPRINKLER.replace("<GIVEN>rain<", "<GIVEN>rein<", 1), "E532", "no variable `rein`"),
    "own parent": (SPRINKLER.replace("<GIVEN>rain<", "<GIVEN>sprinkler<", 1), "E532", "stands twice"),
    "no table": (SPRINKLER.replace("<TABLE>0.5 0.3 0.2</TABLE>", ""), "E532", "one TABLE, found 0"),
    "short table": (SPRINKLER.replace("0.5 0.3 0.2", "0.5 0.5"), "E532", "has 3 numbers, found 2"),
    "word": (SPRINKLER.replace("0.5 0.3 0.2", "0.5 0.3 inf"), "E532", "`inf`, which is not a number"),
    "below 0": (SPRINKLER.replace("0.5 0.3 0.2", "0.5 0.7 -0.2"), "E533", "not a probability"),
    "sum": (SPRINKLER.replace("0.5 0.3 0.2", "0.5 0.3 0.1"), "E533", "sum to 0.9"),
    "cycle": (
        SPRINKLER.replace("<FOR>rain</FOR><TABLE>0.5 0.3 0.2", "<FOR>rain</FOR><GIVEN>sprinkler</GIVEN><TABLE>1 0 0 1 0 0"),
        "E532",
        "a cycle",
    ),
    "no distribution": (
        SPRINKLER.replace("<DEFINITION><FOR>rain</FOR><TABLE>0.5 0.3 0.2</TABLE></DEFINITION>", ""),
        "E532",
        "`rain` has no",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_and_damaged_files_are_refused_with_their_place(name, tmp_path):
    text, code, words = REFUSED[name]
    (tmp_path / "secret.txt").write_text("<!ENTITY stolen 'x'>")
    (tmp_path / "a.xml").write_text(text)
    with pytest.raises(gm.GmlmError) as caught:
        gm.read_model(tmp_path / "a.xml")
    found = caught.value.diagnostics[0]
    assert (found.code, words in found.message) == (code, True), found
    assert "a.xml:" in found.render()
    assert "stolen" not in found.render()


def test_a_document_type_elsewhere_is_not_fetched(tmp_path):
    (tmp_path / "a.xml").write_text(ABROAD + SPRINKLER)
    assert model(tmp_path / "a.xml").graph.n_random == 3


@pytest.mark.parametrize("cut", range(1, len(SPRINKLER) - 8, 41))
def test_a_file_that_was_cut_off_is_refused_wherever_it_was(cut, tmp_path):
    (tmp_path / "a.xml").write_text(SPRINKLER[:cut])
    with pytest.raises(gm.GmlmError) as caught:
        gm.read_model(tmp_path / "a.xml")
    assert caught.value.codes == ("E532",)


def test_the_command_line_turns_one_format_into_the_other(folder):
    (folder / "garden.xml").write_text(SPRINKLER)
    gmlm("import", "garden.xml")
    assert "no faults" in gmlm("check", "garden.gmlm").output
    assert "note: the value `some < 5 mm` of `rain` is called `some_<_5_mm` there" in gmlm("export", "garden.gmlm", "-o", "g.bif").output
