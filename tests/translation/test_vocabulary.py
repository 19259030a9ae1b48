"""Vocabularies: text to codes and back, and what is refused."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from gmlmdsl import GmlmError, drop_repeats
from gmlmdsl.translation import Vocabulary

EN = ["the cat sat on the mat", "a dog ran", "the dog sat", "a cat ran on", "dogs and cats", "mats for dogs", "the men ran", "a man sat"]
DE = ["die Katze saß auf der Matte", "ein Hund lief", "der Hund saß", "eine Katze lief weiter", "Hunde und Katzen", "Matten für Hunde"]
TEXT = EN + DE


@pytest.fixture(scope="module")
def words() -> Vocabulary:
    return Vocabulary.train(TEXT, 45)


def test_text_comes_back(words: Vocabulary):
    rows = words.rows(words.encode(TEXT), 40)
    assert words.decode(rows) == TEXT
    assert rows.shape == (14, 40) and rows.dtype == np.int32
    ends = (rows == words.end).argmax(1)
    assert all((r[:e] > 1).all() and (r[e + 1 :] == -1).all() for r, e in zip(rows, ends, strict=True))


def test_the_same_text_gives_the_same_bytes(words: Vocabulary):
    again = Vocabulary.train(iter(TEXT), 45)
    assert again.data == words.data and again.sha256 == words.sha256 and again == words and hash(again) == hash(words)
    assert Vocabulary.train(TEXT, 40) != words


def test_a_vocabulary_comes_back_from_its_bytes_and_file(words: Vocabulary, tmp_path: Path):
    path = tmp_path / "vocabulary.model"
    path.write_bytes(words.data)
    assert Vocabulary.read(path) == words == Vocabulary.from_bytes(words.data)
    assert words.size == 45 == len(words.pieces) and repr(words) == "Vocabulary of 45 codes"


def test_white_space_is_one_space_and_letters_stay(words: Vocabulary):
    plain = words.encode(["the cat sat"])
    assert words.encode(["  the\tcat\u00a0 sat\u2028"]) == plain
    letters = Vocabulary.train(["m² ﬁn ½ Ａ é e\u0301", "m² ﬁn"], 13)
    assert letters.decode(letters.encode(["m² ﬁn ½ Ａ é e\u0301"])) == ["m² ﬁn ½ Ａ é e\u0301"]


def test_empty_sentences_unknown_letters_and_text_that_looks_like_marks(words: Vocabulary):
    assert words.encode(["", "  \t "]) == [[1], [1]]
    assert words.encode([]) == [] and words.rows([], 3).shape == (0, 3) and words.decode([]) == []
    assert words.decode([[1], []]) == ["", ""]
    assert 0 in words.encode(["@"])[0]
    assert words.encode(["</s> a"])[0].count(1) == 1


def test_text_ends_at_the_first_end_mark_or_padding(words: Vocabulary):
    the, dog = words.encode(["the"])[0][:-1], words.encode(["dog"])[0][:-1]
    assert words.decode([[*the, 1, *dog, 1], [*the, -1, *dog], [1, *dog]]) == ["the", "the", ""]
    assert words.decode(np.array([[*dog, *dog]])) == ["dog dog"]


def test_words_begin_where_a_space_is(words: Vocabulary):
    for text in ("dogs and cats", "Matten für Hunde"):
        codes = words.encode([text])[0]
        assert words.starts_word[codes].sum() == len(text.split()) + 1  # the end mark begins a word of its own
    twice = words.encode(["the the dog dog dog sat"])[0]
    kept = drop_repeats(twice, len(twice), words.starts_word)
    assert words.decode([kept]) == ["the dog sat"]
    at_the_end = words.encode(["the dog dog"])[0]
    assert words.decode([drop_repeats(at_the_end, len(at_the_end), words.starts_word)]) == ["the dog"]


@pytest.mark.produces("E570")
def test_sizes_that_the_text_does_not_allow_name_one_that_it_does():
    with pytest.raises(GmlmError, match="at most") as caught:
        Vocabulary.train(TEXT, 5000)
    most = int(str(caught.value).split("at most ")[1].split()[0])
    assert Vocabulary.train(TEXT, most).size == most
    refused("E570", lambda: Vocabulary.train(TEXT, most + 1), f"at most {most}")
    with pytest.raises(GmlmError, match="at least") as caught:
        Vocabulary.train(TEXT, 5)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    assert Vocabulary.train(TEXT, least).size == least
    refused("E570", lambda: Vocabulary.train(TEXT, least - 1), f"at least {least}")


@pytest.mark.parametrize("size", [0, -1, 2, 2.5, True, "40"])
def test_sizes_that_are_none(size):
    refused("E570", lambda: Vocabulary.train(TEXT, size), "whole number")


@pytest.mark.parametrize("text", [[], [""], ["  ", "\t"]])
def test_no_text(text: list[str]):
    refused("E570", lambda: Vocabulary.train(text, 40), "no text")


def test_what_is_no_text_is_refused_with_its_number(words: Vocabulary):
    refused("E119", lambda: Vocabulary.train(["a", "b\ud800"], 5), "sentence 2", "letter 2")
    refused("E119", lambda: words.encode(["a", "b", "\udcff"]), "sentence 3")


@pytest.mark.produces("E571")
@pytest.mark.parametrize("data", [b"", b"\0", b"no model at all", b"\0" * 500, b"PK\x03\x04"])
def test_bytes_that_are_no_vocabulary(data: bytes, tmp_path: Path):
    refused("E571", lambda: Vocabulary.from_bytes(data), "not a SentencePiece model")
    (tmp_path / "v.model").write_bytes(data)
    refused("E571", lambda: Vocabulary.read(tmp_path / "v.model"), "v.model")


def test_a_vocabulary_that_is_cut_off_does_not_pass_for_the_whole(words: Vocabulary):
    """Many a cut leaves a smaller model that is one: only hashes tell."""
    for n in range(1, len(words.data), 37):
        with contextlib.suppress(GmlmError):
            assert Vocabulary.from_bytes(words.data[:n]).sha256 != words.sha256


def test_a_vocabulary_with_other_marks_is_refused():
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT), model_writer=model, vocab_size=45, minloglevel=2)
    refused("E571", lambda: Vocabulary.from_bytes(model.getvalue()), "end mark at code 2", "--eos_id=1")


def test_bytes_spell_letters_that_the_text_does_not_have(words: Vocabulary):
    found = Vocabulary.train(TEXT, 300, byte_fallback=True)
    strange = ["a dog 漢字 🙂 Ω"]
    assert found.decode(found.encode(strange)) == strange != words.decode(words.encode(strange))
    with pytest.raises(GmlmError, match=r"E570.*letters beside 256 bytes.* at least") as caught:
        Vocabulary.train(TEXT, 100, byte_fallback=True)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    assert Vocabulary.train(TEXT, least, byte_fallback=True).size == least


def test_pieces_of_bytes_end_no_line():
    found = Vocabulary.train(TEXT, 300, byte_fallback=True)
    line, back = found.pieces.index("<0x0A>"), found.pieces.index("<0x0D>")
    assert found.decode([[line, back, line, 1]]) == ["   "]


def test_files_that_cannot_be_read(tmp_path: Path):
    refused("E120", lambda: Vocabulary.read(tmp_path / "none.model"), "none.model")
    refused("E120", lambda: Vocabulary.read(tmp_path))


@pytest.mark.produces("E572")
def test_another_vocabulary_is_refused(words: Vocabulary):
    words.verify(45, "the program")
    words.verify(45, "the program", words.sha256)
    refused("E572", lambda: words.verify(50, "the program"), "45", "the program is for 50")
    refused("E572", lambda: words.verify(45, "the bundle", "0" * 64), "other pieces")
    refused("E572", lambda: words.decode([[2, 45]]), "code 45")


@pytest.mark.produces("E573")
def test_sentences_that_are_too_long_are_refused_with_their_number(words: Vocabulary):
    codes = words.encode(["a", "the " * 10_000, "a a a a a a"])
    refused("E573", lambda: words.rows(codes, 5), "sentence 2", "5 cells", "1 further sentence")
    assert words.rows(codes, max(map(len, codes)))[0, 2] == -1
    for strange in (-1, words.size, 2**40):  # the last would be another code in 32 bits
        refused("E572", lambda s=strange: words.rows([[0, s]], 5), f"code {strange}")
    refused("E573", lambda: Vocabulary.train(["a", "x" * 2_000_000], 5), "sentence 2")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    refused("E561", lambda: Vocabulary.train(TEXT, 40), "gmlmdsl[train]")
    refused("E561", lambda: Vocabulary.from_bytes(b"x"))
