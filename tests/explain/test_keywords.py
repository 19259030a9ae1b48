"""Every word of the language has an entry: what it does, its form, an example that checks, its place in the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gmlmdsl._diagnostics import GmlmError
from gmlmdsl.explain import explain_word, is_word_or_code, keyword_table, meanings_of, words_of_the_language
from gmlmdsl.explain._keywords import _data
from gmlmdsl.graph import bind
from gmlmdsl.program import check_file, forms
from gmlmdsl.syntax import format_source

ROOT = Path(__file__).parents[2]
HEADINGS = re.findall(r"^#+ (.*)$", (ROOT / "docs/reference/language.md").read_text(), re.MULTILINE)


def words_of_the_grammar() -> set[str]:
    """The words that stand in quotes in the grammar, comments aside."""
    grammar = (ROOT / "grammar" / "gmlm.lark").read_text()
    return set(re.findall(r'"([a-z]+)"', re.sub(r"^//.*$", "", grammar, flags=re.MULTILINE)))


def test_the_table_has_every_keyword_of_the_grammar_and_no_other():
    assert set(keyword_table()) == words_of_the_grammar()


def test_the_table_has_an_example_of_every_form_and_no_other():
    found = {(room, name) for room, examples in _data()["form"].items() for name in examples}
    assert found == {(form.room, form.name) for form in forms.FORMS}


@pytest.mark.parametrize("word", words_of_the_language())
def test_every_example_is_formatted_and_checks_without_a_warning(word: str, tmp_path: Path):
    (tmp_path / "ising.gmlm").write_text("model ising { var x : spin  factor x }\n")
    (tmp_path / "esm2_t6_8M_UR50D").mkdir()
    (tmp_path / "esm2_t6_8M_UR50D" / "vocab.txt").write_text("<mask>\nA\nC\n")
    for meaning in meanings_of(word):
        path = tmp_path / "example.gmlm"
        path.write_text(meaning.example + "\n")
        program = check_file(path)
        bind(program, {})
        assert not program.warnings
        assert format_source(meaning.example, "example.gmlm") == meaning.example + "\n"
        assert re.search(rf"\b{word}\b", meaning.example + str(meaning.forms) + meaning.does)


@pytest.mark.parametrize("word", words_of_the_language())
def test_every_entry_says_what_it_does_and_where_the_reference_says_more(word: str):
    for meaning in meanings_of(word):
        assert meaning.does.endswith((".", ")")), meaning.does
        assert meaning.see.split(", ")[-1] in HEADINGS or meaning.see in HEADINGS
        text = explain_word(word, 100)
        assert f"Reference: The language, section {meaning.see}" in text
        assert all(form in " ".join(text.split()) for form in meaning.forms)


def test_a_word_with_several_meanings_has_all_of_them():
    titles = [meaning.title for meaning in meanings_of("bernoulli")]
    assert titles == ["bernoulli: a distribution", "bernoulli: a mask"]
    assert explain_word("then", 100) == explain_word("if", 100)


@pytest.mark.parametrize(
    ("word", "near"), [("facter", "`factor`"), ("samplr", "`sampler`"), ("subset", "`subsets`"), ("unknwon-name", "`unknown-name`")]
)
def test_an_unknown_word_is_met_with_the_nearest(word: str, near: str):
    with pytest.raises(GmlmError) as caught:
        explain_word(word, 100)
    assert caught.value.codes == ("E507",)
    assert near in caught.value.diagnostics[0].help


def test_codes_and_slugs_are_explained_as_before():
    assert explain_word("e203", 100) == explain_word("unknown-name", 100)


def test_a_word_is_no_file_unless_it_has_the_suffix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("factor", "votes", "factor.gmlm"):
        Path(name).write_text("")
    assert is_word_or_code("factor")
    assert is_word_or_code("E203")
    assert is_word_or_code("nothing")
    assert not is_word_or_code("votes")
    assert not is_word_or_code("factor.gmlm")
    assert not is_word_or_code("./factor")
    assert not is_word_or_code("absent.gmlm")
