# How long a program's translators take at random weights: times say nothing of quality, and need no training.
#
#   python examples/translator/random_latency.py base.gmlm --vocabulary 32128 --pieces 30 --out latency.json
import argparse
import json
import random
import sys
from pathlib import Path

import numpy as np

import gmlmdsl as gm
from gmlmdsl.translation import Translator, latency

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def made_up(size: int) -> gm.Vocabulary:
    """A vocabulary of any size without a text."""
    rng = random.Random(0)
    words = ["".join(rng.choice(LETTERS) for _ in range(rng.randint(3, 7))) for _ in range(2 * size)]
    return gm.Vocabulary.train((" ".join(rng.sample(words, 8)) for _ in range(size)), size)


def lines_of(vocabulary: gm.Vocabulary, pieces: int, count: int) -> list[str]:
    """Lines of about so many pieces, and no more."""
    rng, out = random.Random(pieces), []
    while len(out) < count:
        line = vocabulary.decode(np.array([[rng.randrange(2, vocabulary.size) for _ in range(pieces - 1)]]))[0]
        while len(vocabulary.encode([line])[0]) > pieces:
            line = line[:-1].rstrip()
        out.append(line)
    return out


def main(program: Path, size: int, pieces: int, sentences: int, samplers: list[str], out: Path) -> None:
    """Write and print the times of the samplers at batch 1 and 32."""
    vocabulary = made_up(size)
    loaded = gm.load(program, source_vocab=size, target_vocab=size)
    made = {}
    for name in loaded.checked.models:
        model = loaded.model(name)
        translator = Translator(model, model.init_params(0), vocabulary)
        made |= {f"{name} {s}": (translator, s) for s in model.samplers if not samplers or s in samplers}
    if unknown := [s for s in samplers if not any(key.endswith(f" {s}") for key in made)]:
        sys.exit(f"{program} has no sampler {', '.join(unknown)}; it has {', '.join(loaded.checked.samplers)}")
    found = latency(made, lines_of(vocabulary, pieces, sentences), sentences=sentences, length=pieces)
    out.write_text(json.dumps(found.as_dict(), indent=1) + "\n", encoding="utf-8")
    print(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Latency of a program's translators at random weights.")
    parser.add_argument("program", type=Path)
    parser.add_argument("--vocabulary", type=int, default=32128, help="pieces")
    parser.add_argument("--pieces", type=int, default=30, help="of a sentence and of its translation")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--sampler", action="append", default=[], help="of the program; may be repeated; all by default")
    parser.add_argument("--out", type=Path, default=Path("latency.json"))
    o = parser.parse_args()
    main(o.program, o.vocabulary, o.pieces, o.sentences, o.sampler, o.out)
