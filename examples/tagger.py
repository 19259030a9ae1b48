# Tag words with a chain-structured conditional random field, fitted several ways: `python examples/tagger.py [--full]`.
import argparse
import time
from pathlib import Path

import numpy as np

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
FITS = {"whole": "likelihood", "pairs": "pairs of tags", "one": "single tags", "single": "without the chain"}


def truth(model: gm.Model, seed: int = 0) -> dict[str, np.ndarray]:
    """Parameters from the model's priors: a word says something about its tag, and so does the tag before it."""
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, 2 if name == "moves" else 1, value.shape) for name, value in model.init_params().items()}


def draw_given(model: gm.Model, rows: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Words and capitals: of any law, for the model is of the tags given them."""
    length = model.graph.variable("tag").shape[0]
    n_words = model.init_params()["means"].shape[1]
    return {"word": rng.integers(0, n_words, (rows, length)), "capital": rng.normal(size=(rows, length))}


def draw_tags(params: dict[str, np.ndarray], given: dict[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Codes of tags from the model itself: sums over what lies behind each place, then draws from the front to the back."""
    local = params["means"].T[given["word"]] + params["leans"] * given["capital"][..., None]
    behind = np.zeros_like(local)
    for t in reversed(range(local.shape[1] - 1)):
        behind[:, t] = np.logaddexp.reduce(params["moves"] + (local + behind)[:, t + 1, None, :], axis=2)
    tags = np.empty(given["word"].shape, int)
    for t in range(local.shape[1]):
        score = (local + behind)[:, t] + (params["moves"][tags[:, t - 1]] if t else 0)
        tags[:, t] = (score + rng.gumbel(size=score.shape)).argmax(axis=1)
    return tags


def accuracy(model: gm.Model, params: dict[str, np.ndarray], tags: np.ndarray, given: dict[str, np.ndarray]) -> tuple[float, float]:
    """The share of tags that the most probable row of tags has right, and that the most probable tag of each place has right."""
    best, _ = model.map(params, given=given)
    likeliest = model.marginals(params, given=given)["tag"].argmax(axis=-1)
    return float((best == tags).mean()), float((likeliest == tags).mean())


def main(rows: int = 200, held_out: int = 2000, length: int = 12, n_words: int = 12, pairs: bool = False) -> dict[str, tuple[float, float]]:
    program = gm.load(HERE / "tagger.gmlm", length=length, n_words=n_words)
    tagger, alone = program.model("tagger"), program.model("alone")
    true, rng = truth(tagger), np.random.default_rng(1)
    given, new = draw_given(tagger, rows, rng), draw_given(tagger, held_out, rng)
    tags, hidden = draw_tags(true, given, rng), draw_tags(true, new, rng)

    found, seconds = {"true parameters": accuracy(tagger, true, hidden, new)}, {"true parameters": 0.0}
    for mask, words in FITS.items():
        if mask == "pairs" and not pairs:
            continue
        model, started = alone if mask == "single" else tagger, time.perf_counter()
        fit = model.fit(tags, mask=mask, given=given, progress=False)
        seconds[words] = time.perf_counter() - started
        found[words] = accuracy(model, fit.params, hidden, new)
    print(f"share of tags right in {held_out} held-out rows of {length}; {rows} rows to learn from")
    print(f"{'fitted by':18}  most probable row  place by place  seconds")
    for words, (by_row, by_place) in found.items():
        print(f"{words:18}  {by_row:17.4f}  {by_place:14.4f}  {seconds[words]:7.1f}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Tag words with a conditional random field.")
    parser.add_argument("--full", action="store_true", help="longer rows, more of them, more words, one more fit")
    main(**{"rows": 1000, "held_out": 2000, "length": 20, "n_words": 30, "pairs": True} if parser.parse_args().full else {})
