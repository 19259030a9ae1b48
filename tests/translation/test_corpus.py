"""Parallel text: lines and pairs of files, and what cleaning leaves out."""

from __future__ import annotations

import gzip
from itertools import permutations
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from refusals import refused

from gmlmdsl.files import _whole_files
from gmlmdsl.translation import Counts, Vocabulary, clean, read_lines, read_pairs
from gmlmdsl.translation import _corpus as corpus

LETTERS = "a b c d e f g"


@pytest.fixture(scope="module")
def words() -> Vocabulary:
    """A word is a letter with the space before it, and one piece."""
    return Vocabulary.train([" ".join(pair) for pair in permutations(LETTERS.split(), 2)], 17)


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\n", ["a", ""]),
        ("\na", ["", "a"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\rb\r\nc\r", ["a\rb", "c"]),
        ("a\r\rb\n\r\n", ["a\r\rb", ""]),
        ("a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg\n", ["a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg"]),
        ("\ufeffa\nb\ufeff", ["a", "b\ufeff"]),
        (" a \t b \n", [" a \t b "]),
        ("ß 漢字 🙂\ne\u0301", ["ß 漢字 🙂", "e\u0301"]),
    ],
)
def test_lines_end_where_files_say_so(content: str, lines: list[str], tmp_path: Path):
    assert read_lines(write(tmp_path / "a.txt", content)) == lines
    assert read_lines(write(tmp_path / "a.txt.gz", gzip.compress(content.encode()))) == lines


def test_text_that_is_none_is_refused_with_file_and_line(tmp_path: Path):
    latin = write(tmp_path / "latin.de", "gut\nschön\n".encode("latin-1"))
    refused("E119", lambda: read_lines(latin), "latin.de", "line 2", "0xf6")
    after = write(tmp_path / "after.de", b"a\nb\n\xff\n")
    refused("E119", lambda: read_lines(after), "line 3", "0xff")
    marked = write(tmp_path / "marked.txt", b"\xef\xbb\xbfab\xffcd\n")
    refused("E119", lambda: read_lines(marked), "byte 0xff at place 6", "save text as UTF-8")
    zipped = write(tmp_path / "latin.de.gz", gzip.compress("gut\nschön\n".encode("latin-1")))
    refused("E119", lambda: read_lines(zipped), "line 2")
    refused("E119", lambda: read_lines(write(tmp_path / "wide.txt", "a b".encode("utf-16"))), "UTF-16")
    refused("E119", lambda: read_lines(write(tmp_path / "zero.txt", b"a\nb\0c\n")), "line 2", "zero byte")
    refused("E119", lambda: read_lines(write(tmp_path / "half.txt", b"a\n\xed\xa0\x80\n")), "line 2")


def test_files_that_cannot_be_read(tmp_path: Path):
    refused("E120", lambda: read_lines(tmp_path / "none.txt"), "none.txt")
    refused("E120", lambda: read_lines(tmp_path))
    whole = gzip.compress(b"one line\n" * 1000)
    refused("E120", lambda: read_lines(write(tmp_path / "cut.gz", whole[:-20])), "cut.gz")
    refused("E120", lambda: read_lines(write(tmp_path / "not.gz", b"plain\n")), "not.gz")
    flipped = whole[:30] + bytes([whole[30] ^ 0xFF]) + whole[31:]
    refused("E120", lambda: read_lines(write(tmp_path / "flipped.gz", flipped)), "flipped.gz")


def test_a_line_above_the_limit_is_refused_before_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_whole_files, "MOST_LINE", 1000)
    long = write(tmp_path / "long.gz", gzip.compress(b"a\n" + b"b" * 10_000_000))
    refused("E523", lambda: read_lines(long), "line 2", "1,000 bytes")
    assert read_lines(write(tmp_path / "fits", "x" * 999 + "\n")) == ["x" * 999]


def test_pairs_of_two_files_and_of_one(tmp_path: Path):
    source, target = write(tmp_path / "a.en", "one\r\ntwo\r\n\r\n"), write(tmp_path / "a.de", "eins\nzwei\n\n")
    pairs = [("one", "eins"), ("two", "zwei"), ("", "")]
    assert read_pairs(source, target) == pairs
    assert read_pairs(write(tmp_path / "a.tsv", "one\teins\ntwo\tzwei\n\t\n")) == pairs
    assert read_pairs(write(tmp_path / "a.TSV.gz", gzip.compress(b"one\teins\ntwo\tzwei\n\t\n"))) == pairs


def test_files_of_unequal_length_name_both_lengths(tmp_path: Path):
    two, three = write(tmp_path / "two", "a\nb\n"), write(tmp_path / "three", "a\nb\nc")
    refused("E574", lambda: read_pairs(two, three), "two has 2 lines", "three has 3")
    refused("E574", lambda: read_pairs(three, two), "three has 3 lines", "two has 2")
    refused("E574", lambda: read_pairs(write(tmp_path / "none", ""), write(tmp_path / "one", "\n")), "0 lines", "1")


@pytest.mark.parametrize(
    ("content", "found"), [("a\tb\nc\n", "line 2 has 1 column"), ("a\tb\tc\n", "line 1 has 3 columns"), ("\n", "1 column")]
)
def test_lines_without_two_columns(content: str, found: str, tmp_path: Path):
    refused("E574", lambda: read_pairs(write(tmp_path / "a.tsv", content)), found)


def test_one_file_must_be_a_table(tmp_path: Path):
    refused("E574", lambda: read_pairs(write(tmp_path / "a.en", "a\tb\n")), ".tsv")


def test_each_pair_counts_under_the_first_reason(words: Vocabulary):
    good, other = ("a b", "c d"), ("a b", "c e")
    long, lopsided = ("a " * 12, "b"), ("a b c d e f g a b c d", "a b c")
    pairs = [good, ("", "a"), ("a", " \t"), good, ("", ""), ("", ""), other, long, lopsided, long]
    kept, counts = clean(pairs, words, (12, 12))
    assert kept == [good, other]
    assert counts == Counts(pairs=10, empty=4, duplicate=2, too_long=1, ratio=1) and counts.kept == 2
    assert counts.as_dict() == {"pairs": 10, "empty": 4, "duplicate": 2, "too_long": 1, "ratio": 1, "kept": 2}
    table = [line.split() for line in str(counts).splitlines()]
    assert ["too", "long", "1", "10.0", "%"] in table and table[-1] == ["kept", "2", "20.0", "%"]


def test_the_end_mark_takes_a_cell(words: Vocabulary):
    pairs = [("a b c", "a")]
    assert clean(pairs, words, (4, 2))[0] == pairs
    assert clean([*pairs, ("a", "a")], words, (3, 2))[1].too_long == 1
    assert clean([("a", "a b"), ("a", "a")], words, (2, 2))[1].too_long == 1
    rows = words.rows(words.encode(["a b c"]), 4)
    assert rows.shape == (1, 4)


@pytest.mark.parametrize(("longer", "shorter", "kept"), [(10, 1, True), (11, 4, True), (11, 3, False), (12, 4, True), (13, 4, False)])
def test_the_ratio_is_of_pieces_and_of_long_sentences(longer: int, shorter: int, kept: bool, words: Vocabulary):
    pair = ("a " * longer, "b " * shorter)
    for one in (pair, pair[::-1]):
        assert (one in clean([("a", "b"), one], words, (40, 40))[0]) is kept
    assert clean([pair], words, (40, 40), ratio=20)[1].kept == 1


def test_pieces_of_many_pairs_are_found_in_parts(words: Vocabulary, monkeypatch: pytest.MonkeyPatch):
    pairs = [(f"a {x}", y) for x in LETTERS.split() for y in LETTERS.split()] * 2 + [("", "")]
    whole = clean(pairs, words, (9, 9))
    monkeypatch.setattr(corpus, "PAIRS_AT_ONCE", 7)
    assert clean(pairs, words, (9, 9)) == whole
    assert whole[1] == Counts(pairs=99, empty=1, duplicate=49)


def test_nothing_left_and_ratios_that_are_none(words: Vocabulary):
    refused("E505", lambda: clean([("", "a")], words, (9, 9)), "empty", "kept")
    refused("E505", lambda: clean([], words, (9, 9), what="validation text"), "no pair of the validation text is left")
    for ratio in (0.5, float("nan"), -1):
        refused("E507", lambda ratio=ratio: clean([("a", "a")], words, (9, 9), ratio=ratio))


def test_many_pairs_that_are_too_long_are_advised_of() -> None:
    assert Counts(pairs=100, too_long=5).advice((20, 30)) == ""
    said = Counts(pairs=1000, too_long=600).advice((20, 30))
    assert "600 pairs" in said and "19 pieces of a source" in said and "29 of a target" in said


TMX = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="EN-us" datatype="plaintext"/><body>
<tu><tuv xml:lang="de-AT"><seg>Ein <hi>schöner</hi>
 Tag<ph>{0}</ph>.</seg></tuv><tuv xml:lang="en_GB"><prop>x</prop><seg>A <bpt i="1">&lt;b&gt;</bpt>nice<ept i="1">&lt;/b&gt;</ept> day &amp; night.</seg></tuv></tu>
<tu><tuv lang="en"><seg>alone</seg></tuv></tu>
</body></tmx>"""


def test_a_translation_memory_is_pairs_from_its_source_language(tmp_path: Path):
    wanted = [("A nice day & night.", "Ein schöner Tag.")]  # "alone" lacks a side
    assert read_pairs(write(tmp_path / "a.tmx", TMX)) == wanted
    assert read_pairs(write(tmp_path / "a.tmx.gz", gzip.compress(TMX.encode()))) == wanted
    named = TMX.replace("<tmx ", '<tmx xmlns="http://www.lisa.org/tmx14" ').replace("EN-us", "*all*")
    assert read_pairs(write(tmp_path / "b.tmx", named)) == [(t, s) for s, t in wanted]  # the language that comes first
    refused("E574", lambda: read_pairs(write(tmp_path / "c.tmx", TMX[:200])), "c.tmx is not a TMX file")
    third = TMX.replace('lang="en"', 'lang="fr"')
    refused("E574", lambda: read_pairs(write(tmp_path / "d.tmx", third)), "3 languages, not two: `de`, `en`, `fr`")
    laughs = "".join(f'<!ENTITY a{k + 1} "{f"&a{k};" * 10}">' for k in range(12))
    bomb = TMX.replace('SYSTEM "tmx14.dtd"', f'[<!ENTITY a0 "ha">{laughs}]').replace("alone", "&a12;")
    refused("E574", lambda: read_pairs(write(tmp_path / "e.tmx", bomb)), "e.tmx is not a TMX file")
    outer = TMX.replace('SYSTEM "tmx14.dtd"', '[<!ENTITY x SYSTEM "file:///etc/hostname">]').replace("alone", "&x;")
    refused("E574", lambda: read_pairs(write(tmp_path / "f.tmx", outer)), "undefined entity")
    strange = TMX.replace('version="1.0"?', 'version="1.0" encoding="x-none"?')
    refused("E574", lambda: read_pairs(write(tmp_path / "g.tmx", strange)), "g.tmx is not a TMX file")
    deep = TMX.replace("alone", "<hi>" * 3000 + "alone" + "</hi>" * 3000)
    refused("E574", lambda: read_pairs(write(tmp_path / "h.tmx", deep)), "h.tmx is not a TMX file")
    twice = TMX.replace(
        '<tuv lang="en"><seg>alone', '<tuv lang="de"><seg>da</seg></tuv><tuv lang="en-US"><seg>here</seg></tuv><tuv lang="en-GB"><seg>there'
    )
    assert read_pairs(write(tmp_path / "i.tmx", twice)) == [*wanted, ("here", "da")]


def test_a_table_is_pairs_of_its_two_columns(tmp_path: Path):
    sides = {"en": ["a  b\n", "c"], "de": ["ä", None]}
    parquet.write_table(pyarrow.table(sides), tmp_path / "a.parquet")
    assert read_pairs(tmp_path / "a.parquet") == [("a b", "ä"), ("c", "")]
    parts = [{"en": "a b", "de": "ä"}, {"en": "c", "de": ""}]
    parquet.write_table(pyarrow.table({"translation": parts}), tmp_path / "b.parquet")
    assert read_pairs(tmp_path / "b.parquet") == [("a b", "ä"), ("c", "")]
    parquet.write_table(pyarrow.table(sides | {"id": [1, 2]}), tmp_path / "c.parquet")
    refused("E574", lambda: read_pairs(tmp_path / "c.parquet"), "3 columns, not two: `en`, `de`, `id`")
    refused("E520", lambda: read_pairs(write(tmp_path / "d.parquet", "a")), "not a Parquet file")
