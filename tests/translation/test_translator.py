"""Translators with random weights: lines keep their order and their parts, options do what they say, and what cannot be is refused."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from thinned import thinned
from translation_cases import PROGRAM, toy_vocabulary

import gmlmdsl as gm
from gmlmdsl.translation import TranslationOptions, Translator
from gmlmdsl.translation._bundle import load_translator, write_translator
from gmlmdsl.translation._programs import digest_of, roles_of, sides, vocabulary_inputs
from gmlmdsl.translation._segments import Segments, segments, sentences_in
from gmlmdsl.translation._translation import Translation, joined

MORE = (
    PROGRAM
    + """
sampler random for translate = padir(steps = 1, lengths = 1, remask = none)
sampler drawn  for translate = sundae(steps = 1, lengths = 1, temperature = 1)
"""
)
LINES = ["one two", "", "dog runs", "   ", "red cat", "two"]


@pytest.fixture(scope="module")
def words() -> gm.Vocabulary:
    return toy_vocabulary()


@pytest.fixture(scope="module")
def program(words: gm.Vocabulary):
    return gm.parse(PROGRAM)


@pytest.fixture(scope="module")
def student(program, words) -> Translator:
    model = program.model("translate")
    return Translator(model, model.init_params(3), words, direction="en-de")


@pytest.fixture(scope="module")
def teacher(program, words) -> Translator:
    model = program.model("teacher")
    return Translator(model, model.init_params(4), words)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", thinned(["random", "drawn"], 2))
def test_what_is_random_follows_from_the_line_in_the_text(program, words, sampler: str):
    """Random starts and draws: the same whatever is decoded together, and others for the same line at another place."""
    model = gm.parse(MORE).model("translate")
    translator = Translator(model, model.init_params(3), words)
    lines = ["one two red", "dog runs", "", "one two red", "cat red one", "one two red"]
    found = [t.pieces for t in translator.translate(lines, sampler=sampler)]
    for size in (1, 2, 4):
        assert [t.pieces for t in translator.translate(lines, sampler=sampler, batch_size=size)] == found
    assert len({found[0], found[3], found[5]}) > 1


@pytest.mark.slow
def test_lines_keep_their_order_whatever_is_decoded_together(student: Translator):
    found = student.translate(LINES)
    assert [bool(t.pieces) or t.text == "" for t in found] == [True] * 6
    assert [t.text for t in found][1::2][:2] == ["", ""]
    assert found[1].pieces == () and found[1].passes == 0
    for size in (1, 2):
        alone = student.translate(LINES, batch_size=size)
        assert [t.pieces for t in alone] == [t.pieces for t in found]
    streamed = list(student.stream(iter(LINES), batch_size=4))
    assert [t.pieces for t in streamed] == [t.pieces for t in found]


def test_text_is_what_the_pieces_say(student: Translator, words: gm.Vocabulary):
    for t in student.translate(["one two", "dog"]):
        assert t.text == words.decode([[*t.pieces, words.end]])[0]
        assert t.score < 0


def test_nothing_to_translate(student: Translator):
    assert student.translate([]) == []
    assert [t.text for t in student.translate(["", " \t"])] == ["", ""]
    assert list(student.stream([])) == []


def test_alternatives_fall_in_score_and_differ(student: Translator, teacher: Translator):
    for translator in (student, teacher):
        for t in translator.translate(["one two", "red cat runs"], n_best=3):
            texts, scores = zip(*t.alternatives, strict=True)
            assert texts[0] == t.text and len(set(texts)) == len(texts) <= 3
            assert scores[0] == pytest.approx(t.score)
            assert list(scores) == sorted(scores, reverse=True)
    assert len(teacher.translate(["one two"], n_best=3)[0].alternatives) > 1


@pytest.mark.produces("E585")
def test_a_prefix_begins_every_translation(student: Translator, teacher: Translator, words: gm.Vocabulary):
    wanted = tuple(words.encode(["rot"])[0][:-1])
    for translator in (student, teacher):
        for t in translator.translate(["one two", "dog"], prefix="rot"):
            assert t.pieces[: len(wanted)] == wanted
    assert student.translate(["dog"], prefix="  ")[0].pieces == student.translate(["dog"])[0].pieces
    refused("E585", lambda: student.translate(["dog"], prefix="rot " * 8), "8 pieces", "room for 7")


def test_a_draft_is_refined_and_says_the_length(student: Translator, words: gm.Vocabulary):
    draft = "rot katze rennt"
    found = student.decode(words.rows(words.encode(["one"]), 8), init=words.rows(words.encode([draft]), 8))
    assert found.length.tolist() == [len(words.encode([draft])[0])]
    drafts = ["eins", "", "katze rennt", "", "rot", "zwei"]
    assert len(student.translate(LINES, drafts=drafts)) == 6
    assert [t.text for t in student.stream(LINES, drafts=iter(drafts))] == [t.text for t in student.translate(LINES, drafts=drafts)]


@pytest.mark.produces("E584")
def test_drafts_that_do_not_fit(student: Translator):
    refused("E584", lambda: student.translate(LINES, drafts=["eins"]), "6 lines", "1 drafts")
    refused("E584", lambda: list(student.stream(LINES, drafts=["eins"], batch_size=1)), "end after 1 line,", "one for each line")
    refused("E584", lambda: list(student.stream(["one"], drafts=["eins", "zwei"])), "more drafts than the 1 line to")
    refused("E584", lambda: student.translate(["one"], drafts=["rot " * 20]), "draft of line 1", "room for 8")
    long = "one two red. dog cat. runs one two. red dog."
    refused("E584", lambda: student.translate(["one", long], drafts=["eins", "zwei"]), "line 2 is longer")


def test_known_lengths_are_kept(student: Translator, words: gm.Vocabulary):
    rows = words.rows(words.encode(["one two", "dog"]), 8)
    found = student.decode(rows, lengths=np.array([5, 2]))
    assert (found.tokens >= 0).sum(axis=1).tolist() == [5, 2]
    assert len(student.translate(["one two", "dog"], lengths=[5, 2])) == 2
    refused("E584", lambda: student.translate(["one"], lengths=[1, 2]), "2 lengths")


@pytest.mark.slow
def test_a_trace_shows_what_is_hidden_still(student: Translator, monkeypatch: pytest.MonkeyPatch):
    real = student.decode

    def first_hidden(*rows, **options):
        found = real(*rows, **options)
        trace = found.trace.copy()
        trace[:, 0, :3] = -1
        return dataclasses.replace(found, trace=trace)

    whole = student.translate(["one two"], trace=True)[0].trace
    monkeypatch.setattr(student, "decode", first_hidden)
    steps = student.translate(["one two"], trace=True)[0].trace
    assert whole[0].endswith(steps[0]) and len(steps[0]) < len(whole[0]) and steps[1] == whole[1]


def test_the_trace_ends_with_the_text(student: Translator):
    for t in student.translate(["one two", "dog runs"], trace=True):
        assert len(t.trace) == 2 and t.trace[-1] == t.text


def test_a_search_reports_the_mean_whatever_it_compares_by(words: gm.Vocabulary):
    model = gm.parse(PROGRAM.replace("beam = 3", "beam = 3, length_penalty = 0")).model("teacher")
    t = Translator(model, model.init_params(4), words)
    line = "one two. red dog. cat runs! one"  # two parts at the least
    found, parts = t.translate([line], n_best=3)[0], t.translate(["one two.", "red dog.", "cat runs!", "one"], n_best=3)
    sums = [[s * n for (_, s), n in zip(p.alternatives, p.counts, strict=True)] for p in parts]
    for values, part in zip(sums, parts, strict=True):
        assert values == sorted(values, reverse=True)  # candidates stand by their sums
        source = words.rows(words.encode([["one two.", "red dog.", "cat runs!", "one"][sums.index(values)]]), 8)
        row = np.full((1, 8), -1)
        row[0, : part.counts[0]] = [*part.pieces, words.end][: part.counts[0]]
        log_p = model.log_prob(t.params, {"tgt": row}, missing=-1, given={"src": source})
        assert part.score == pytest.approx(float(log_p[0]) / part.counts[0], rel=1e-4)
    assert found.score == pytest.approx(sum(v[0] for v in sums) / sum(p.counts[0] for p in parts), rel=1e-6)


def test_repeats_are_dropped_by_word(student: Translator, monkeypatch: pytest.MonkeyPatch, words: gm.Vocabulary):
    codes = words.encode(["rot rot hund hund rot"])[0]
    plain = student.decode(words.rows(words.encode(["one"]), 8))
    from dataclasses import replace

    tokens = np.full((1, max(8, len(codes))), -1, np.int32)
    tokens[0, : len(codes)] = codes
    monkeypatch.setattr(Translator, "decode", lambda self, source, **o: replace(plain, tokens=tokens))
    assert student.translate(["one"])[0].text == "rot rot hund hund rot"
    assert student.translate(["one"], drop_repeats=True)[0].text == "rot hund rot"


def test_a_long_line_is_split_where_sentences_end(student: Translator, words: gm.Vocabulary):
    line = "one two. red dog.  cat runs! one"
    parts = segments(line, words, 8, 1, False)
    texts = words.decode([list(p) for p in parts.pieces])
    rebuilt = texts[0] + "".join(j + t for j, t in zip(parts.joints, texts[1:], strict=True))
    assert len(parts.pieces) == 4 and all(len(p) <= 8 and p[-1] == words.end for p in parts.pieces)  # one for each sentence
    assert rebuilt.split() == line.split()
    found = student.translate(["dog", line, "cat"])
    alone = [student.translate([t])[0] for t in texts]
    assert found[1].pieces == tuple(x for a in alone for x in a.pieces)
    assert found[2].pieces == student.translate(["cat"])[0].pieces


def test_short_sentences_of_a_long_line_are_not_packed_together(words: gm.Vocabulary):
    line = "one. two. red! dog? cat. one"  # two or three of which fit into eight cells
    assert len(words.encode(["one. two."])[0]) <= 8
    assert words.decode([list(p) for p in segments(line, words, 8, 1, False).pieces]) == ["one.", "two.", "red!", "dog?", "cat.", "one"]
    assert len(segments("one. two.", words, 8, 1, False).pieces) == 1  # it fits


def test_sentences_and_what_stands_between_them():
    assert sentences_in("A b. C d?  E") == (["A b.", "C d?", "E"], [" ", "  "])
    assert sentences_in('He said "no." Then') == (['He said "no."', "Then"], [" "])
    assert sentences_in("3.5 is no end") == (["3.5 is no end"], [])
    assert sentences_in("你好。再见！好") == (["你好。", "再见！", "好"], ["", ""])
    assert sentences_in("End. ") == (["End. "], [])


@pytest.mark.produces("E582")
def test_a_sentence_that_is_too_long_is_refused_or_cut(student: Translator, words: gm.Vocabulary):
    refused("E582", lambda: student.translate(["dog", "one " * 10_000]), "line 2", "7 and an end mark")
    refused("E582", lambda: list(student.stream(["dog", "cat", "one " * 30], batch_size=1)), "line 3")
    cut = segments("one " * 10_000, words, 8, 1, True)
    assert [len(p) for p in cut.pieces] == [8] and cut.pieces[0][-1] == words.end
    found = student.translate(["one " * 10_000, "dog", "one " * 40 + ". two " * 2 + "two " * 40], cut=True)
    assert [t.cut for t in found] == [1, 0, 2]


def test_parts_are_joined_by_what_stood_between_them():
    parts = [
        Translation("a", -1.0, (5,), (("a", -1.0), ("b", -2.0)), 2, ("x", "a"), counts=(2, 4)),
        Translation("c d", -3.0, (6, 7), (("c d", -3.0),), 4, ("c d",), counts=(3,)),
    ]
    found = joined(parts, Segments(((5, 1), (6, 7, 1)), ("  ",)))
    assert found.text == "a  c d" and found.pieces == (5, 6, 7) and found.passes == 4
    assert found.score == pytest.approx((2 * -1 + 3 * -3) / 5)
    assert found.alternatives[1] == ("b  c d", pytest.approx((4 * -2 + 3 * -3) / 7)) and found.counts == (5, 7)
    assert found.trace == ("x  c d", "a  c d")


@pytest.mark.parametrize(
    ("texts", "line"), [(("Hello.", "World."), "Hello. World."), (("你好。", "世界。"), "你好。世界。"), (("", "b"), "b")]
)
def test_sentences_of_a_text_without_spaces_are_apart_where_spaces_are_written(texts: tuple[str, str], line: str):
    parts = [Translation(t, 0.0, (5,), ((t, 0.0),), 1, (t,), counts=(1,)) for t in texts]
    found = joined(parts, Segments(((5, 1), (6, 1)), ("",)))
    assert (found.text, found.alternatives[0][0], found.trace) == (line, line, (line,))


def test_another_vocabulary_or_model_is_refused(program, words: gm.Vocabulary):
    model = program.model("translate")
    other = gm.Vocabulary.train(["one two red dog cat runs eins zwei"] * 3, 20)
    refused("E572", lambda: Translator(model, model.init_params(), other), "20", "30")


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (("given src[i in s] : range(V)", "given src[i in s] : range(V + 1)"), "31 values"),
        (("given src[i in s] : range(V)", "given src[i in s, j in t] : range(V)"), "rows of codes"),
        (("given src[i in s] : range(V)", 'given src[i in s] : labels("a", "b")'), "2 values"),
        (("given src[i in s] : range(V)", "given src[i in s] : range(V)\n  given more[i in s] : range(V)"), "2 given variables"),
    ],
)
def test_other_models_are_no_translators(edit: tuple[str, str], problem: str):
    text = PROGRAM.replace(*edit, 1).replace("net(src)", "net(src, more)", 1 if "more" in edit[1] else 0)
    refused("E580", lambda: sides(gm.parse(text).model("translate")), problem)


@pytest.mark.produces("E580")
def test_a_factor_model_is_no_translator():
    refused("E580", lambda: sides(gm.parse("model m { var x : bit  factor x }").model()), "not a network's")


def test_a_sampler_must_be_said_where_there_are_several(program, words: gm.Vocabulary):
    text = PROGRAM + "sampler again for translate = padir(lengths = 1)\n"
    model = gm.parse(text).model("translate")
    translator = Translator(model, model.init_params(), words)
    refused("E506", lambda: translator.translate(["one"]), "2 samplers")
    assert translator.sampler_named("again") == "again"
    refused("E506", lambda: translator.translate(["one"], sampler="beam"))


@pytest.mark.produces("E581")
def test_roles_are_what_the_networks_are(program):
    assert roles_of(program.checked).teacher == "teacher" and roles_of(program.checked).student == "translate"
    refused("E581", lambda: roles_of(gm.parse(PROGRAM.replace(", causal = true", "").replace("autoregressive(end = 1, beam = 3)", "padir()")).checked), "teacher")  # fmt: skip
    assert vocabulary_inputs(program.checked) == ("V",)


def test_what_training_depends_on_is_not_the_text_of_a_sampler():
    plain = gm.parse(PROGRAM).checked
    spaced = gm.parse("# a remark\n" + PROGRAM.replace("steps = 2", "steps = 3")).checked
    wider = gm.parse(PROGRAM.replace("width = 16", "width = 32")).checked
    here = digest_of(plain, {"V": 30}, "translate", "corrupt")
    assert here == digest_of(spaced, {"V": 30}, "translate", "corrupt")
    assert here != digest_of(plain, {"V": 31}, "translate", "corrupt")
    assert here != digest_of(wider, {"V": 30}, "translate", "corrupt")
    assert digest_of(plain, {}, "translate", None, "refine") != digest_of(spaced, {}, "translate", None, "refine")


def test_options_are_those_of_translate():
    assert TranslationOptions().n_best == 1 and not TranslationOptions().cut


def test_a_bundle_translates_as_what_was_bundled(tmp_path: Path, program, words: gm.Vocabulary, student: Translator):
    from gmlmdsl.train._network_fit import NetworkFit

    model = program.model("translate")
    none = np.zeros(0)
    meta = program.provenance() | {"model": "translate", "seed": 3, "mask": "corrupt", "rows": 1, "seconds": 0.0, "cells": 1, "widths": [8]}
    fit = NetworkFit(student.params, none, none, np.zeros((0, 3)), "steps", meta, model.graph, lambda: model)
    edited = gm.parse(PROGRAM.replace("sampler refine", "sampler once for translate = refinement(start = hide, steps = 1)\nsampler refine"))
    write_translator(tmp_path / "a.bundle", fit, edited, words, "en-de", report={"bleu": 1.0})
    found = load_translator(tmp_path / "a.bundle")
    assert (found.direction, found.sampler) == ("en-de", "once")  # the first of the file as it is now
    assert [t.pieces for t in found.translate(LINES, sampler="refine")] == [t.pieces for t in student.translate(LINES)]
    assert gm.load_translator is load_translator and gm.Translator is Translator


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda t: t.translate("red dog"), "must be a list of texts"),
        (lambda t: t.translate(["dog", None]), "the one at 1 is None"),
        (lambda t: t.translate(["dog"], n_best=0), "n_best must be a whole number of at least 1"),
        (lambda t: t.translate(["dog"], batch_size=0), "batch_size must be a whole number of at least 1"),
        (lambda t: t.translate(["dog"], prefix=["rot"]), "prefix must be one text"),
    ],
)
def test_what_is_no_list_of_lines(student: Translator, ask, message: str):
    refused("E507", lambda: ask(student), message)


def test_options_of_a_stream_are_looked_at(student: Translator):
    refused("E507", lambda: TranslationOptions(n_best=0), "n_best")
    refused("E507", lambda: list(student.stream("red dog")), "a list of texts")
    refused("E507", lambda: list(student.stream(["dog"], batch_size=0)), "batch_size")


def test_search_refines_no_draft(teacher: Translator):
    refused("E584", lambda: teacher.translate(["dog"], drafts=["hund"]), "refines no draft", "prefix")


def test_a_translator_says_what_it_is(student: Translator):
    assert repr(student).startswith("Translator en-de: Model `translate`")


def test_a_distillation_counts_what_it_cuts(teacher: Translator, tmp_path: Path):
    from gmlmdsl.translation import distill

    found = distill(teacher, ["dog", "one " * 40, "two. " * 12], tmp_path / "out", identity="x")
    assert (found.lines, found.cut) == (3, 1)
    assert len((tmp_path / "out").read_text().splitlines()) == 3


def test_a_folder_is_no_bundle(tmp_path: Path):
    (tmp_path / "student.bundle").write_bytes(b"")
    refused("E120", lambda: load_translator(tmp_path), "is a directory", "student.bundle")


def test_a_line_of_dots_takes_no_longer_than_another():
    dots = "Contents " + "." * 50_000 + " 12. End"
    started = time.process_time()
    assert sentences_in(dots) == (["Contents " + "." * 50_000, "12.", "End"], [" ", " "])
    assert sentences_in("a" + "." * 50_000 + "b") == (["a" + "." * 50_000 + "b"], [])
    assert time.process_time() - started < 1
    assert sentences_in('He said "No!"... Then (left.) Why?! x') == (['He said "No!"...', "Then (left.)", "Why?!", "x"], [" "] * 3)
