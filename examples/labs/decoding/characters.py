# Characters of a book: bits of a causal and of a masked network, by log p and by the bound of its decoder, and what is no bound.
# python examples/labs characters [--quick] [--out DIR] [--page]; needs the English side of the Bible, in the folder that GMLM_DATA names
import gzip
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from math import comb
from pathlib import Path
from typing import Any

import laboratory
import numpy as np
from learnt import fitted, weights_of

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
Array = np.ndarray
CHARS = "abcdefghijklmnopqrstuvwxyz .,"
BOOK = "bible-en-es/bible.en-es.tsv.gz"  # the World English Bible, public domain: a verse in the second column
DATA = Path(os.environ.get("GMLM_DATA") or HERE.parents[3] / "shared" / "data")
SHORT = 3  # characters of the rows that are all listed
SETTINGS = {"chars": CHARS, "book": BOOK, "short": SHORT}


@dataclass(frozen=True)
class Size:
    """Numbers of a run.

    Attributes:
        seeds: networks of each kind.
        n: characters of a row.
        rows: rows to learn from.
        scored: rows of the held-out text.
        draws: passes that the bound of a row is averaged over.
        steps: steps of training; `short_steps` for rows of three characters.
        batch: rows of a step.
        width: width of the networks.
        layers: layers of the networks.
        rate: the largest rate of Adam.
    """

    seeds: int = 5
    n: int = 32
    rows: int = 60_000
    scored: int = 500
    draws: int = 64
    steps: int = 1000
    batch: int = 64
    width: int = 64
    layers: int = 2
    rate: float = 3e-3
    short_steps: int = 300


@cache
def book() -> str:
    """The text in small letters, without all other signs.

    Raises:
        SystemExit: the file is not there.
    """
    path = DATA / BOOK
    if not path.is_file():
        raise SystemExit(f"there is no {path}: GMLM_DATA names the folder of the data")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        verses = [line.split("\t")[1].lower() for line in file]
    return re.sub(" +", " ", "".join(c if c in CHARS else " " for c in " ".join(verses)))


@cache
def rows_of(n: int, count: int, held_out: bool) -> Array:
    """Codes of windows of n characters, (count, n); the last tenth of the book is held out."""
    text = book()
    cut = len(text) * 9 // 10
    part = text[cut:] if held_out else text[:cut]
    codes = np.array([CHARS.index(c) for c in part], np.int32)
    starts = np.random.default_rng(n + held_out).integers(len(codes) - n, size=count)
    return codes[starts[:, None] + np.arange(n)]


@cache
def model_of(name: str, n: int, width: int, layers: int) -> gm.ConditionalModel:
    return gm.load(HERE / "characters.gmlm", n=n, width=width, layers=layers).model(name)  # type: ignore[return-value]


def causal(size: Size, out: Path, seed: int) -> dict[str, Any]:
    """Bits a character by log p."""
    model = model_of("causal", size.n, size.width, size.layers)
    rows, new = rows_of(size.n, size.rows, False), rows_of(size.n, size.scored, True)
    params = fitted(out / f"causal-{seed}.fit", model, rows, "forced", seed, size.rate, size.steps, size.batch)
    return {"weights": weights_of(params), "bits": bits(-np.asarray(model.log_prob(params, new), float), size.n)}


def masked(size: Size, out: Path, seed: int) -> dict[str, Any]:
    """Bits a character by the bound of the decoder, and by the loss without weights."""
    model = model_of("masked", size.n, size.width, size.layers)
    rows, new = rows_of(size.n, size.rows, False), rows_of(size.n, size.scored, True)
    params = fitted(out / f"masked-{seed}.fit", model, rows, "bound", seed, size.rate, size.steps, size.batch)
    bound = model.log_prob_bound(params, new, sampler="one", draws=size.draws)
    plain = float(model.loss(params, new, "plain", key=1, n_masks=size.draws))
    each = bits(-np.asarray(bound.values, float), size.n)
    return {"weights": weights_of(params), "bits": each, "plain": rounded(plain / np.log(2) / size.n)}


def short(size: Size, out: Path, seed: int) -> dict[str, Any]:
    """What a network's bound and its loss without weights say of all rows of three characters: the sum of exp(-loss) over all rows.

    A bound of -log p has a sum of at most 1, for any decoder (Kraft's inequality).
    """
    model = model_of("masked", SHORT, size.width, 1)
    rows, new = rows_of(SHORT, size.rows, False), rows_of(SHORT, size.scored, True)
    params = fitted(out / f"short-{seed}.fit", model, rows, "bound", seed, size.rate, size.short_steps, size.batch)
    every = np.array(list(product(range(len(CHARS)), repeat=SHORT)))
    losses = all_losses(model, params, every)
    own = all_losses(model, params, new)
    return {name: {"sum": rounded(np.exp(-v).sum()), "bits": rounded(own[name].mean() / np.log(2) / SHORT)} for name, v in losses.items()}


def all_losses(model: gm.ConditionalModel, params: Any, x: Array) -> dict[str, Array]:
    """By name the loss of each row: the bound of `one`, and the loss under `plain`, over all sets of hidden characters."""
    n = x.shape[1]
    found = {"bound": np.zeros(len(x)), "plain": np.zeros(len(x))}
    for hidden in product([False, True], repeat=n):
        k = sum(hidden)
        if not k:
            continue
        logs = np.take_along_axis(model.predict(params, x, np.array(hidden)), x[..., None], axis=2)[..., 0]
        nats = -np.where(hidden, logs, 0.0).sum(axis=1)
        found["bound"] += nats / k / comb(n, k)
        found["plain"] += nats / (n + 1) / comb(n, k)
    return found


def bits(nats: Array, n: int) -> list[float]:
    """Bits a character, and their standard error over rows."""
    each = nats / np.log(2) / n
    return [rounded(each.mean()), rounded(each.std(ddof=1) / np.sqrt(len(each)))]


def rounded(value: float) -> float:
    """To six digits, as JSON holds it."""
    return float(f"{float(value):.6g}")


def parts(size: Size, out: Path) -> Mapping[str, Callable[[], Any]]:
    """Seed by seed, so that of two processes each has networks of its own."""
    found: dict[str, Callable[[], Any]] = {}
    for seed in range(size.seeds):
        for name, part in {"causal": causal, "masked": masked, "short": short}.items():
            found[f"{name}, {seed}"] = partial(part, size, out, seed)
    return found


QUICK = Size(seeds=2, n=8, rows=300, scored=20, draws=4, steps=10, batch=16, width=16, layers=1, short_steps=10)


def lab() -> laboratory.Lab:
    from character_tables import draw, tables

    return laboratory.Lab("characters", HERE, {"quick": QUICK, "default": Size()}, parts, tables, draw, SETTINGS)
