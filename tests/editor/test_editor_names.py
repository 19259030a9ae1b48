"""Names: each declaration of each valid program is renamed, and the program means the same; completions stand where they may."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl._diagnostics import Source, Span
from gmlmdsl.editor import (
    Document,
    Edit,
    completions,
    fixes,
    hover,
    outline,
    rename,
    shapes,
    word_kinds,
)
from gmlmdsl.editor._edits import titled
from gmlmdsl.program import check_file
from gmlmdsl.syntax import FILE_WORDS, read_source

PROGRAMS = Path(__file__).parents[1] / "programs"
VALID = sorted([*(PROGRAMS / "valid").glob("*.gmlm"), *(PROGRAMS / "good").glob("*.gmlm")])
FAULTY = sorted([*(PROGRAMS / "bad").glob("*.gmlm"), *(PROGRAMS / "habits").glob("*.gmlm")])
NEW = "renamed_9"


def renamed(document: Document, offset: int) -> str:
    text = document.text
    for edit in sorted(rename(document, offset, NEW), key=lambda e: -e.span.start):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text


def codes(path: Path, text: str) -> list[str]:
    try:
        return [d.code for d in check_file(path, text).warnings]
    except gm.GmlmError as error:
        return [f"{d.code} {d.message}" for d in error.diagnostics]


@pytest.mark.parametrize("path", thinned(VALID, 24, 12), ids=lambda p: p.stem)
def test_a_program_with_a_renamed_declaration_is_as_sound_as_before(path: Path):
    """A use that is missed is unknown afterwards, and one that is taken by mistake names something else."""
    document = Document(str(path), path.read_text())
    before = codes(path, document.text)
    for d in dict.fromkeys(o.declaration for o in document.names.occurrences):
        if document.is_own(d.span):
            assert codes(path, renamed(document, d.span.start)) == before, d.name


@pytest.mark.parametrize("path", thinned(VALID, 24, 15), ids=lambda p: p.stem)
def test_every_word_of_a_program_has_an_answer(path: Path):
    """No place of a text is a fault of the editor's, and every declared name is in the outline and has a hover."""
    document = Document(str(path), path.read_text())
    entries = {name for s in outline(document) for name in (s.name, *(i.name for i in s.inside))}
    for span, kind in word_kinds(document):
        assert document.offset(document.place(span.start)) == span.start
        completions(document, span.end)
        shown = hover(document, span.start)
        assert shown is not None or kind in ("comment", "string", "number", "keyword")
    for occurrence in document.names.occurrences:
        d = occurrence.declaration
        if d.kind not in ("length", "index name", "block", "argument") and document.is_own(d.span):
            assert d.name in entries


TEXT = """domain yes = labels("no", "yes")
input n : int = 4
index site = range(n)
graph G = chain(n)
model ising {
  var x[i in site] : spin
  param h[i in site] ~ normal(0, 1)
  factor h[i] * x[i] for i in site
}
mask one = subsets(x, size = 1)
sampler walk { update x[K] where K ~ one }
"""


@pytest.mark.parametrize(
    ("line", "wanted", "unwanted"),
    [
        ("ma", {"mask"}, {"factor", "model"}),
        ("model other {\n  fac", {"factor"}, set()),
        ("model other {\n  var y : b", {"bit"}, {"blocks"}),
        ("model other {\n  var y : y", {"yes"}, set()),
        ("model other {\n  param k ~ half_n", {"half_normal"}, set()),
        ("mask two = sub", {"subsets"}, {"sum"}),
        ("mask two = ", {"one", "subsets"}, {"x", "site", "sum"}),
        ("mask two = subsets(x, si", {"size"}, set()),
        ("sampler few = refinement(decode = sa", {"sample"}, {"sampler"}),
        ("sampler w { update x[K] where K ~ on", {"one"}, set()),
        ("sampler w {\n  upd", {"update"}, {"factor"}),
        ("mask pairs = blocks({x[i]} for i in G.ed", {"edges"}, {"each"}),
        ("mask m sees x {\n  cho", {"choose"}, {"factor"}),
        ("model other { fac", {"factor"}, set()),
        ("sampler w { repeat 3 { upd", {"update"}, {"factor"}),
        ("sampler w { update {x", {"x"}, set()),
        ("mask m sees x { choose 0.5 : {x", {"x"}, set()),
        ("model other { var y : b", {"bit"}, {"blocks"}),
        ("index s = r", {"range"}, {"repeat"}),
        ("mask k for i", {"ising"}, {"if"}),
        ("# fac", set(), {"factor"}),
        ("mask two = subsets(", {"x", "site", "sum"}, {"h", "one", "walk", "ising"}),
        ("mask two sees x {\n  choose exp(h[0] * ", {"h", "x", "n"}, {"one", "walk"}),
        ("mask two = mi", {"mixture"}, {"min"}),
        ("sampler t { update x[K] where K ~ mi", {"mixture"}, {"min"}),
        ('domain d = letters("(")\nma', {"mask"}, {"max"}),
        ('domain d = labels("#", "\\"")\nma', {"mask"}, {"max"}),
        ('model other { var y : labels("#", "b"); fac', {"factor"}, set()),
        ('domain d = labels("fac', set(), {"factor"}),
        ("mask two = everything(x, noise = {", {"hide", "uniform", "keep"}, {"x"}),
        ("mask two = everything(x, noise = {hide: 0.5, u", {"uniform"}, {"h"}),
        ("index s = ", {"range", "site", "G"}, {"real", "positive", "bit"}),
        ("domain s = ", {"range", "bit", "letters"}, {"real", "positive", "simplex"}),
        ("model other { latent y : ", {"bit", "yes"}, {"real", "positive"}),
        ("model other { param y : ", {"positive", "simplex"}, {"bit", "spin"}),
        ("model other { var y : spin  factor ", {"y", "n", "G"}, {"one", "walk", "ising", "other"}),
        ("network net = transformer()\nmodel other { var y : spin  conditional y ~ ", {"net"}, {"normal"}),
        ("mask two for ising = subsets(", {"x"}, set()),
        ("sampler t { update ", {"x"}, {"where", "site", "h", "sum", "one"}),
        ("sampler t { update {", {"x"}, {"site", "h", "sum", "one"}),
        ("sampler t { start from ", {"walk"}, {"x", "sum", "one"}),
        ("sampler t { update x by ", {"one", "blocks"}, {"x", "sum", "site"}),
        ("mask two = mixture { 0.5 : ", {"one", "blocks"}, {"x", "sum", "site"}),
        ("mask two sees ", {"x"}, {"site", "h", "sum"}),
        ("sampler t { update x[i] for ", set(), {"site", "x", "sum"}),
        ("sampler t { update x[K] ", {"where", "independently"}, {"x", "sum", "update"}),
        ("mask two s", {"sees"}, {"site", "sum", "sampler"}),
        ("model other {\n  var y : spin\n  factor y ", {"for", "and"}, {"y", "sum", "factor", "var"}),
        ("model other {\n  var y : spin\n  factor if y == 1 t", {"then"}, {"tanh"}),
        ("model other {\n  var y : spin\n  factor y * ", {"n", "y", "sum"}, {"for", "where", "x"}),
        ("model other {\n  var y : spin\n  param k[i in site]\n  factor y * if k[0] > 0 then ", {"y", "k"}, {"x", "h"}),
        ("model other {\n  var y : spin\n  factor y for i in ", {"site", "G", "range", "yes"}, {"y", "sum"}),
        ("model other {\n  use ", {"ising"}, {"site", "sum"}),
        ("# a remark\nmodel other {\n  var y : spin  # and { another\n  factor y * ", {"y", "n", "sum"}, {"x", "for"}),
        ("model other {\n  param J\n  gauge z", {"zero_sum"}, {"sum"}),
    ],
)
def test_what_may_stand_is_offered(line: str, wanted: set[str], unwanted: set[str]):
    text = TEXT + line
    found = {c.word for c in completions(Document("m.gmlm", text), len(text))}
    assert wanted <= found
    assert not unwanted & found


WORDS_ALONE = {"as", "by", "from", "independently", "rate", "sees", "weight", "where"}


@pytest.mark.parametrize(
    "line",
    [
        "model other { param s ",
        "model other { var y : spin ",
        "model other { var y : spin  let z = y ",
        "model other { var y[i in site] : spin  factor y[i] for i in site ",
        "mask two = subsets(x, size = 1) ",
        "sampler t { update x ",
    ],
)
def test_a_word_that_would_only_be_the_name_of_a_next_statement_is_not_offered(line: str):
    """What is offered behind a whole statement continues it."""
    text = TEXT + line
    offered = {c.word for c in completions(Document("m.gmlm", text), len(text))}
    wanted = {"by", "independently", "where"} if "update" in line else set()
    assert offered & WORDS_ALONE == wanted


@pytest.mark.parametrize("word", [*(w for w in FILE_WORDS if w != "import"), "update"])
def test_behind_the_word_of_a_declaration_nothing_is_offered(word: str):
    """A new name is written there, also below a fault; only `update` is followed by cells."""
    for before in ("", "model broken { var }\n"):
        text = TEXT + before + word + " "
        offered = {c.word for c in completions(Document("m.gmlm", text), len(text))}
        assert offered <= ({"x"} if word == "update" else set())
    for word_of_model in ("var", "latent", "given", "param", "let"):
        text = f"{TEXT}model other {{ {word_of_model} "
        assert completions(Document("m.gmlm", text), len(text)) == []


def test_programs_that_may_be_imported_are_offered(tmp_path: Path):
    """Files and folders beside the program or below, but not itself; in other texts between quotation marks nothing is offered."""
    for name in ("m.gmlm", "models.gmlm", "data.csv", "parts/more.gmlm", "parts/.hidden.gmlm"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def offered(line: str) -> list[tuple[str, int | None]]:
        return [(c.word, c.replaces) for c in completions(Document(str(tmp_path / "m.gmlm"), line), len(line))]

    assert offered('import "') == [("models.gmlm", 0), ("parts/", 0)]
    assert offered('import "mod') == [("models.gmlm", 3)]
    assert offered('import "parts/m') == [("more.gmlm", 1)]
    assert offered('import "none/m') == offered('import "a" "') == offered('domain d = labels("m') == []


def test_names_of_a_copied_model_and_of_an_import(tmp_path: Path):
    (tmp_path / "lib.gmlm").write_text("index site = range(3)\nmodel base { var x[i in site] : bit }\n")
    text = 'import "lib.gmlm"\nmodel two {\n  use base as a\n  var y[i in site] : bit\n  factor a.x[0] * y[0]\n}\n'
    document = Document(str(tmp_path / "m.gmlm"), text)
    assert document.diagnostics == ()
    copied = document.names.at(text.index("a.x") + 2)
    assert copied is not None and copied.declaration.model == "base"
    assert not document.is_own(copied.declaration.span)
    shown = hover(document, text.index("site]"))
    assert shown is not None and "lib.gmlm" in shown[0]
    unfinished = text + "model z {\n  use base as b\n  factor b."
    assert {c.word for c in completions(Document(document.path, unfinished), len(unfinished))} == {"x"}
    with pytest.raises(gm.GmlmError, match=r"declared in .*lib\.gmlm"):
        rename(document, text.index("site]"), "place")


def test_a_name_is_renamed_in_the_files_that_share_it(tmp_path: Path):
    """A chain of imports and a neighbour: all uses change, names of the same spelling elsewhere stay, and a clash is refused."""
    texts = {
        "lib.gmlm": "index site = range(3)\nmodel base { var x[i in site] : bit }\n",
        "mid.gmlm": 'import "lib.gmlm"\nmask one for base = subsets(x, size = 1)\n',
        "m.gmlm": 'import "mid.gmlm"\nmodel two { var x[i in site] : bit }\nsampler walk for base { update x[K] where K ~ one }\n',
        "alone.gmlm": "index site = range(4)\nmodel base { var x[i in site] : bit  param width }\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    documents = {name: Document(str(tmp_path / name), text) for name, text in texts.items()}

    def after(file: str, word: str, new: str) -> dict[str, str]:
        others = [d for name, d in documents.items() if name != file]
        found = dict(texts)
        for edit in sorted(rename(documents[file], texts[file].index(word), new, others), key=lambda e: -e.span.start):
            name = Path(edit.span.source.path).name
            found[name] = found[name][: edit.span.start] + edit.text + found[name][edit.span.end :]
        return {name: text for name, text in found.items() if text != texts[name]}

    swapped = {"lib.gmlm": texts["lib.gmlm"].replace("site", "place"), "m.gmlm": texts["m.gmlm"].replace("site", "place")}
    assert after("m.gmlm", "site", "place") == after("lib.gmlm", "site", "place") == swapped
    cell = {"lib.gmlm": "var y[", "mid.gmlm": "subsets(y,", "m.gmlm": "update y["}
    changed = after("mid.gmlm", "x,", "y")
    assert all(part in changed[name] for name, part in cell.items()) and len(changed) == 3
    assert "model two { var x[" in changed["m.gmlm"]
    for new in ("two", "one"):
        with pytest.raises(gm.GmlmError, match=f"`{new}` is taken"):
            after("lib.gmlm", "site", new)
    assert set(after("lib.gmlm", "site", "width")) == {"lib.gmlm", "m.gmlm"}


@pytest.mark.parametrize(("new", "why"), [("2x", "not a name"), ("for", "not a name"), ("h", "is taken"), ("site", "is taken")])
def test_names_that_clash_are_refused(new: str, why: str):
    with pytest.raises(gm.GmlmError, match=why):
        rename(Document("m.gmlm", TEXT), TEXT.index("x[i in"), new)


def test_a_text_with_faults_keeps_its_names():
    """The statements that parse are resolved; the rest is reported."""
    document = Document("m.gmlm", TEXT.replace("factor h[i] * x[i] for i in site", "factor h[i] * * x[i] for i in site"))
    assert {d.code for d in document.diagnostics} == {"E101"}
    found = document.names.at(document.text.index("K ~ one") + 4)
    assert found is not None and found.declaration.kind == "mask"


def test_the_title_of_a_fix_says_what_it_does():
    source = Source("m.gmlm", "factor long_name * x")
    place, nothing, both = Span(source, 7, 16), Span(source, 7, 7), Span(source, 0, 20)
    assert titled([Edit(place, "h")]) == "Replace `long_name` by `h`"
    assert titled([Edit(place, "")] * 2) == "Remove `long_name` in 2 places"
    assert titled([Edit(nothing, "h *\n  ")]) == "Insert `h *`"
    assert titled([Edit(both, "x" * 99)]) == f"Replace `factor long_name * x` by `{'x' * 40} ..`"


def test_shape_and_values_are_shown_of_a_name():
    text = TEXT.replace(" : spin\n", ' : spin\n  var y : letters("abcdefghijklmnop")\n')

    def ends(text: str) -> dict[str, str]:
        document = Document("m.gmlm", text)
        shown = {word: hover(document, text.index(word)) for word in ("x[i in site]", "h[i in site]", "y :", "one = ")}
        return {word: found[0].splitlines()[-1] for word, found in shown.items() if found is not None}

    known = {"x[i in site]": "shape (4); values -1, 1", "h[i in site]": "shape (4); values real", "y :": "values a, b, .., p"}
    assert ends(text) == known | {"one = ": "```"}
    unknown = dict.fromkeys(("x[i in site]", "h[i in site]", "one = "), "```")
    assert ends(text.replace("input n : int = 4", "input n : int")) == unknown | {"y :": "values a, b, .., p"}


@pytest.mark.parametrize("path", thinned(FAULTY, 48, 7), ids=lambda p: p.stem)
def test_the_fixes_of_an_editor_are_those_that_were_tried(path: Path):
    """The diagnostics come untried; what an editor offers to do mends its fault and adds none."""
    try:
        document, found = Document(str(path), read_source(path).text), ()
        check_file(path)
    except gm.GmlmError as error:
        found = error.diagnostics
    if found and found[0].span is not None:
        offered = [d for d, _ in fixes(document, 0, len(document.text))]
        assert offered == [d for d in found if d.fix is not None and document.is_own(d.span)]
        assert [d.message for d in document.diagnostics] == [d.message for d in found]


def test_a_fix_that_mends_nothing_is_not_offered():
    """With another backslash, this path is still that of no file."""
    text = 'import "models\\ising.gmlm"\n'
    document = Document("m.gmlm", text)
    assert any(d.fix is not None for d in document.diagnostics)
    assert list(fixes(document, 0, len(text))) == []


@pytest.mark.parametrize("path", thinned(VALID, 24, 5), ids=lambda p: p.stem)
def test_an_edited_text_has_the_diagnostics_of_a_new_one(path: Path):
    """Each statement in turn is removed and written again, and the models that are not bound again keep their findings."""
    text, number = path.read_text(), re.compile(r"(?<![\w.])\d+(?![\w.])")
    edits = [text, *(text[: s.start] + text[s.end :] for s in (o.span for o in outline(Document(str(path), text))))]
    edits += [text[: m.start()] + "7" + text[m.end() :] for m in list(number.finditer(text))[:4]]
    document = Document(str(path), text)
    for edit in (e for one in edits for e in (one, text)):
        document = Document(str(path), edit, document)
        new = Document(str(path), edit)
        assert document.diagnostics == new.diagnostics
        assert list(shapes(document)) == list(shapes(new))


@pytest.mark.parametrize(
    ("line", "word", "wanted", "unwanted"),
    [
        ("graph G = chain(n)\nparam J[(i, j) in G.edges]", "edges", "each pair once", "an input"),
        ("graph G = chain(n)\nparam J[i in G.nodes]", "nodes", "a part of a graph", ""),
        ("mask two = subsets(x, size = 1)", "size", "an option of `subsets`", ""),
        ("sampler w = refinement(order = random)", "order", "an option of `refinement`", ""),
    ],
)
def test_the_pointer_shows_what_a_word_means_at_its_place(line: str, word: str, wanted: str, unwanted: str):
    text = TEXT.replace("graph G = chain(n)\n", "") + line
    shown = hover(Document("m.gmlm", text), text.rindex(word))
    assert shown is not None and wanted in shown[0] and not (unwanted and unwanted in shown[0])


@pytest.mark.parametrize(("type_", "wanted"), [("positive", "values positive"), ("real(lower = 0, upper = 2)", "values 0 to 2")])
def test_the_pointer_shows_the_type_of_a_parameter(type_: str, wanted: str):
    text = f"model m {{ var y : spin  param t : {type_}  factor t * y }}"
    shown = hover(Document("m.gmlm", text), text.index("t :"))
    assert shown is not None and wanted in shown[0]


@pytest.mark.parametrize("line", ["# a factor of two", 'domain d = labels("factor", "b")', "model other { param other_factor }"])
def test_words_of_remarks_and_texts_have_no_meaning(line: str):
    text = TEXT + line
    shown = hover(Document("m.gmlm", text), text.rindex("factor") + 1)
    assert shown is None or "keyword" not in shown[0]
