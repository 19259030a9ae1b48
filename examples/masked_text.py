# Train a small masked language model on Python's own documentation, score it, draw from it: `python examples/masked_text.py [--full]`.
import argparse
import re
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
CHARS = "abcdefghijklmnopqrstuvwxyz .,()'-"
SAMPLERS = {
    "one_by_one": "single characters, 20 sweeps",
    "blocks": "blocks of a third at once, 60 times",
    "refine": "refinement from nothing",
}


def texts() -> tuple[str, str]:
    """Training and held-out text: paragraphs of the reference that `help()` shows, in small letters, each once, every tenth held out."""
    from pydoc_data.topics import topics

    paragraphs = dict.fromkeys(plain(p) for topic in topics.values() for p in topic.split("\n\n"))
    kept = [p for p in paragraphs if len(p) > 80]
    return " ".join(p for k, p in enumerate(kept) if k % 10), " ".join(kept[::10])


def plain(text: str) -> str:
    """Only the characters of the domain, with single spaces."""
    return re.sub(" +", " ", "".join(c if c in CHARS else " " for c in text.lower())).strip()


def windows(text: str, n: int, stride: int) -> np.ndarray:
    """Rows of codes, cut from a text."""
    codes = np.array([CHARS.index(c) for c in text])
    return np.lib.stride_tricks.sliding_window_view(codes, n)[::stride]


@dataclass(frozen=True)
class Counts:
    """p(character | its two neighbours) from counts.

    The `bigram` model is a chain: p(c | left, right) is proportional to p(c | left) p(right | c). `both` adds counts of all three together,
    with `weight` pseudo-counts from the chain. At the ends of a row a neighbour is lacking.
    """

    follows: np.ndarray  # p(second | first)
    before: np.ndarray  # p(first)
    both: np.ndarray  # [left, right, c]

    @classmethod
    def of(cls, text: str, weight: float = 10.0, added: float = 0.1) -> "Counts":
        codes = np.array([CHARS.index(c) for c in text])
        q = len(CHARS)
        pairs, triples = np.full((q, q), added), np.zeros((q, q, q))
        np.add.at(pairs, (codes[:-1], codes[1:]), 1)
        np.add.at(triples, (codes[:-2], codes[2:], codes[1:-1]), 1)
        follows = pairs / pairs.sum(axis=1, keepdims=True)
        chain = np.einsum("lc,cr->lrc", follows, follows)
        both = triples + weight * chain / chain.sum(axis=2, keepdims=True)
        return cls(follows, pairs.sum(axis=1) / pairs.sum(), both / both.sum(axis=2, keepdims=True))

    def score(self, rows: np.ndarray, three: bool) -> float:
        """The mean over characters of -log p(x_i | x_rest)."""
        first = self.before * self.follows[:, rows[:, 1]].T
        last = self.follows[rows[:, -2]]
        left, right = rows[:, :-2], rows[:, 2:]
        inner = self.both[left, right] if three else self.follows[left] * self.follows[:, right].transpose(1, 2, 0)
        table = np.concatenate([first[:, None], inner, last[:, None]], axis=1)
        table = table / table.sum(axis=2, keepdims=True)
        return float(-np.log(np.take_along_axis(table, rows[..., None], axis=2)).mean())


def words_known(rows: np.ndarray, text: str) -> float:
    """The share of whole words of drawn rows that occur in a text; those cut off by an end are left out."""
    known = set(re.findall("[a-z]+", text))
    words = [w for row in rows for w in re.findall("[a-z]+", " ".join(spelt(row).split(" ")[1:-1]))]
    return float(np.mean([w in known for w in words])) if words else 0.0


def spelt(row: np.ndarray) -> str:
    return "".join(CHARS[c] for c in row)


def main(
    steps: int = 200, batch: int = 64, n: int = 32, width: int = 64, layers: int = 2, scored: int = 60, drawn: int = 8
) -> dict[str, float]:
    warnings.simplefilter("ignore", gm.SamplingWarning)  # one draw of each chain is meant
    training, held_out = texts()
    model = gm.load(HERE / "masked_text.gmlm", n=n, width=width, layers=layers).model()
    rows, started = windows(training, n, n // 4), time.perf_counter()
    fit = model.fit(rows, mask="any", method=gm.Training(steps=steps, batch_size=batch), progress=False)
    print(f"{len(rows):,} rows of {n} characters, {steps} steps, {time.perf_counter() - started:.0f} s")

    new, counts = windows(held_out, n, n)[:scored], Counts.of(training)
    found = {
        "network": float(model.loss(fit.params, new, "single")),
        "counts of both neighbours": counts.score(new, three=True),
        "bigram chain": counts.score(new, three=False),
    }
    print("mean of -log p(x_i | x_rest), nats per character of held-out text; its exponential is the pseudo-perplexity")
    for name, nats in found.items():
        print(f"  {name:26} {nats:.3f}  {np.exp(nats):6.2f}")

    print(f"draws, and the share of their whole words that the training text has (held-out text: {words_known(new, training):.2f})")
    for sampler, words in SAMPLERS.items():
        draws = model.sample(fit.params, sampler, draws=1, warmup=0, chains=drawn, seed=1, progress=False)
        x = np.asarray(draws["posterior"]["x"].values).reshape(drawn, n)
        found[sampler] = words_known(x, training)
        print(f"  {words}: {found[sampler]:.2f}")
        for row in x[:3]:
            print(f"    |{spelt(row)}|")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train a masked language model of characters.")
    parser.add_argument("--full", action="store_true", help="minutes of training, a larger network, more draws")
    full = {"steps": 4000, "width": 96, "scored": 400, "drawn": 64}
    main(**full if parser.parse_args().full else {})
