"""Translating one sentence: passes of refinement beside greedy search, by our decoder, by hand and by CTranslate2; random weights."""

from __future__ import annotations

import random
from unittest.mock import patch

import numpy as np

import gmlmdsl as gm
from gmlmdsl.derive import RefinementKernel
from gmlmdsl.networks import PRECISIONS
from gmlmdsl.translation import Translator, latency, peers

from ._greedy_peer import ByHand
from ._measure import ROOT, Check, Figure, Report, figure, missing, ratio

LENGTHS = (10, 30, 60)  # pieces of a sentence, and of its translation
SENTENCES = 10
MORE = """
sampler one_pass    for translate = padir(steps = 1, lengths = 1)
sampler two_passes  for translate = padir(steps = 2, lengths = 1)
sampler four_passes for translate = padir(steps = 4, lengths = 1)
sampler ten_passes  for translate = padir(steps = 10, lengths = 1)
sampler unended     for teacher   = autoregressive()
sampler beam_five   for teacher   = autoregressive(beam = 5)
"""


def run(quick: bool) -> Report:
    """Milliseconds of one sentence of each length, all decoders in turn, and their ratios; every pass is computed."""
    # Random weights may soon leave all pieces as they are, and passes that repeat are not computed.
    with patch.object(RefinementKernel, "repeats", False):
        return _measured(quick)


def _measured(quick: bool) -> Report:
    size, lengths = ("tiny", (6,)) if quick else ("base", LENGTHS)
    vocabulary = _vocabulary(300 if quick else 32128)
    text = (ROOT / "examples" / "translator" / f"{size}.gmlm").read_text(encoding="utf-8") + MORE
    program = gm.parse(text, source_vocab=vocabulary.size, target_vocab=vocabulary.size)
    made = {name: Translator(m := program.model(name), m.init_params(0), vocabulary) for name in ("translate", "teacher")}
    ours = {s: (made["translate"], s) for s in ("one_pass", "two_passes", "four_passes", "ten_passes")}
    ours |= {s: (made["teacher"], s) for s in ("unended", "beam_five")}
    for precision in PRECISIONS[1:]:
        fewer = {name: t.in_precision(precision) for name, t in made.items()}
        ours |= {f"four_passes {precision}": (fewer["translate"], "four_passes"), f"unended {precision}": (fewer["teacher"], "unended")}
    figures: list[Figure] = []
    checks: list[Check] = []
    by_hand = ByHand(made["teacher"])
    for n in lengths:
        sentences = 3 if quick else SENTENCES
        figures += _of_length(ours, by_hand, vocabulary, n, sentences)
        checks.append(_alike(made["teacher"], by_hand, _lines(vocabulary, n, sentences), n))
    return Report(tuple(figures), tuple(checks))


def _alike(teacher: Translator, by_hand: ByHand, lines: list[str], n: int) -> Check:
    """Whether our greedy search and the one by hand find the same pieces; rounding may decide between two that are as likely."""
    source = teacher.vocabulary.rows(teacher.vocabulary.encode(lines), teacher.pair.cells[0])
    found = teacher.decode(source, sampler="unended", lengths=[n] * len(lines)).tokens[:, :n]
    other = np.stack([by_hand.pieces(row[row >= 0], n) for row in source])
    return Check("translation", f"share of rows of {n} pieces that both greedy searches find", (found == other).all(axis=1).mean(), 1, 0.2)


def _of_length(ours: dict, by_hand: ByHand, vocabulary: gm.Vocabulary, n: int, sentences: int) -> list[Figure]:
    words, others, out = f"{n} pieces to {n}, batch 1", [by_hand], []
    try:
        others += peers(ours["unended"][0])
    except gm.GmlmError as error:
        out.append(missing("translation", "CTranslate2", words, "ms", str(error.diagnostics[0].message)))
    found = latency(ours, _lines(vocabulary, n, sentences), batch_sizes=(1,), sentences=sentences, length=n, peers=others)
    times = {t.name: [1000 * s for s in t.seconds] for t in found.timings}
    out += [figure("translation", name, words, runs, "ms") for name, runs in times.items()]
    four = float(np.median(times["four_passes"]))
    for name in (k for k in times if k not in ours or k.split()[0] in ("unended", "beam_five")):
        out.append(figure("translation", f"{name} / four_passes", words, [float(np.median(times[name])) / four], "ratio", "of medians"))
    for precision in PRECISIONS[1:]:
        pair = times["four_passes"], times[f"four_passes {precision}"]
        out.append(ratio("translation", f"four_passes / four_passes {precision}", words, *pair, None))
    out.append(ratio("translation", f"unended / {by_hand.name}", words, times["unended"], times[by_hand.name], 1.1))
    return out


def _vocabulary(size: int) -> gm.Vocabulary:
    """Pieces of made-up words: a vocabulary of any size without a text."""
    rng = random.Random(0)
    words = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 7))) for _ in range(2 * size)]
    return gm.Vocabulary.train((" ".join(rng.sample(words, 8)) for _ in range(size)), size)


def _lines(vocabulary: gm.Vocabulary, n: int, count: int) -> list[str]:
    """Lines of n pieces, the end mark among them."""
    rng, out = random.Random(n), []
    while len(out) < count:
        line = vocabulary.decode(np.array([[rng.randrange(2, vocabulary.size) for _ in range(n - 1)]]))[0]
        while len(vocabulary.encode([line])[0]) > n:
            line = line[:-1].rstrip()
        if len(vocabulary.encode([line])[0]) == n:
            out.append(line)
    return out
