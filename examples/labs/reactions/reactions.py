# Reactions in SMILES: the weights of rxnmapper beside the reference library, an infilling, and the law of a Gibbs chain of four cells.
# python examples/labs reactions [--quick] [--out DIR] [--page]; needs "gmlmdsl[pretrained]" and `pip install --no-deps rxnmapper`
import importlib.util
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import laboratory
import numpy as np
from laboratory import markdown
from scipy import stats

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
Array = np.ndarray
SIGN = re.compile(r"\[[^\]]+\]|Br|Cl|>>|%\d\d|.")  # a token of SMILES
SYMBOLS = ("C", "O", "N", "(", ")", "=", ".", ">>")  # those of `symbol` in the program
KINDS = {
    "ester of an acid and an alcohol": "{a}C(=O)O.{b}O>>{b}OC({a})=O",
    "amide of an acid and an amine": "{a}C(=O)O.{b}N>>{b}NC({a})=O",
    "amide of an acid chloride": "{a}C(=O)Cl.{b}N>>{b}NC({a})=O",
    "ether of an alcohol and a bromide": "{a}CO.{b}Br>>{b}OC{a}",
    "amine of an aldehyde": "{a}C=O.{b}N>>{b}NC{a}",
}
LEFT, RIGHT = ("C", "CC", "CCC", "COC", "c1ccccc1"), ("CC", "c1ccccc1C")
FILLED, GONE = "CC(=O)Cl.NCc1ccccc1>>CC(=O)NCc1ccccc1", (0, 6)  # the cells of the acyl group
REACTION, HOLE = "CC(=O)O.CCCO>>CCCOC(C)=O", (8, 12)  # the cells of the alcohol
SETTINGS = {"kinds": KINDS, "left": LEFT, "right": RIGHT, "filled": FILLED, "gone": GONE, "reaction": REACTION, "hole": HOLE}


@dataclass(frozen=True)
class Size:
    """Numbers of a run.

    Attributes:
        rows: reactions of each kind.
        fills: draws of the infilling.
        chains: chains of `block`, each of which gives one draw for the test; `sweeps` before it.
        long: sweeps of one chain.
    """

    rows: int = 10
    fills: int = 200
    chains: int = 1000
    sweeps: int = 3
    long: int = 2000


def reactions(size: Size) -> dict[str, list[list[str]]]:
    """By kind the tokens of each reaction."""
    pairs = [(a, b) for a in LEFT for b in RIGHT][: size.rows]
    return {kind: [SIGN.findall(text.format(a=a, b=b)) for a, b in pairs] for kind, text in KINDS.items()}


def installed() -> Path:
    """The folder of weights in the package rxnmapper, which is found and not imported.

    Raises:
        SystemExit: a package is missing.
    """
    for name in ("transformers", "rxnmapper"):
        if importlib.util.find_spec(name) is None:
            raise SystemExit(f'{name} is not installed: pip install "gmlmdsl[pretrained]", then pip install --no-deps rxnmapper')
    places = importlib.util.find_spec("rxnmapper").submodule_search_locations  # type: ignore[union-attr]
    return next(Path(places[0]).glob("models/transformers/*/"))  # type: ignore[index]


@cache
def reference() -> Any:
    """The network of the reference library."""
    from transformers import AlbertForMaskedLM
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return AlbertForMaskedLM.from_pretrained(installed(), local_files_only=True).eval()


def convert(folder: Path) -> None:
    """Write `config.json`, `model.safetensors` and `vocab.txt` into a folder, by the library that reads the pickle."""
    reference().float().save_pretrained(folder)
    shutil.copy(installed() / "vocab.txt", folder)


@cache
def converted() -> tempfile.TemporaryDirectory[str]:
    """The program beside converted weights, until this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="reactions-")
    convert(Path(folder.name) / "rxnmapper")
    shutil.copy(HERE / "reactions.gmlm", folder.name)
    return folder


@cache
def model_of(name: str, n: int) -> gm.ConditionalModel:
    first, last = HOLE
    return gm.load(Path(converted().name) / "reactions.gmlm", n=n, first=first, last=last).model(name)  # type: ignore[return-value]


def log_p_of_tokens(tokens: Sequence[Sequence[str]]) -> list[Array]:
    """log p(x_i | all other tokens) of each token of each row."""
    n = max(map(len, tokens))
    model = model_of("reactions", n)
    params, found = model.init_params(), []
    for row in tokens:
        padded = [*row, *[""] * (n - len(row))]
        logs = model.predict(params, [padded] * n, np.eye(n, dtype=bool), missing="")
        codes = [model.graph.variable("x").labels.index(t) for t in row]
        found.append(np.array([logs[i, i, c] for i, c in enumerate(codes)], float))
    return found


def reference_log_p(tokens: Sequence[Sequence[str]]) -> list[Array]:
    """The same by one masked forward pass of the reference library for each token."""
    import torch

    ids = {t: k for k, t in enumerate((installed() / "vocab.txt").read_text(encoding="utf-8").split("\n"))}
    network, found = reference().double() if jax.config.jax_enable_x64 else reference().float(), []
    for row in tokens:
        whole = torch.tensor([ids["[CLS]"], *(ids[t] for t in row), ids["[SEP]"]])
        hidden, i = whole.repeat(len(row), 1), torch.arange(len(row))
        hidden[i, i + 1] = ids["[MASK]"]
        with torch.no_grad():
            logs = torch.log_softmax(network(hidden).logits[i, i + 1], dim=-1)
        found.append(logs[i, whole[1:-1]].double().numpy())
    return found


def scores(size: Size, doubles: bool) -> dict[str, Any]:
    """By kind the tokens, nats a token, and the largest difference to the reference library: of a token, of a row's mean."""
    with jax.enable_x64(doubles):
        found = {}
        for kind, rows in reactions(size).items():
            own, other = log_p_of_tokens(rows), reference_log_p(rows)
            apart, every = [a - b for a, b in zip(own, other, strict=True)], np.concatenate(own)
            away = {"token": np.abs(np.concatenate(apart)).max(), "row": max(abs(d.mean()) for d in apart)}
            found[kind] = {"rows": len(rows), "tokens": len(every), "nats": rounded(-every.mean())} | {
                k: rounded(v) for k, v in away.items()
            }
        return found


def infilling(size: Size) -> dict[str, Any]:
    """The share of each text that is drawn for hidden cells, given all other tokens."""
    row, (first, last) = SIGN.findall(FILLED), GONE
    model = model_of("reactions", len(row))
    clamp = {"x": {k: t for k, t in enumerate(row) if not first <= k < last}}
    drawn = model.sample(model.init_params(), "fill", draws=size.fills, clamp=clamp, seed=0, progress=False)["posterior"]["x"].values
    labels = model.graph.variable("x").labels
    return shares(["".join(labels[c] for c in r[first:last]) for r in drawn.reshape(-1, len(row))])


def chain(size: Size) -> dict[str, Any]:
    """Draws of a Gibbs chain of four cells beside its exact law, and where the law settles."""
    row = SIGN.findall(REACTION)
    model = model_of("symbols", len(row))
    params, tables = model.init_params(), conditionals(model)
    start = tuple(SYMBOLS.index(t) for t in row[HOLE[0] : HOLE[1]])
    law = np.zeros(tables[0].shape)
    law[start] = 1
    for _ in range(size.sweeps):
        law = swept(law, tables)
    clamp = {"y": {k: t for k, t in enumerate(row) if not HOLE[0] <= k < HOLE[1]}}
    options = {"clamp": clamp, "init": [row], "warmup": 0, "progress": False}
    drawn = model.sample(params, "block", draws=1, chains=size.chains, thin=size.sweeps, seed=1, **options)
    counts = np.bincount(np.ravel_multi_index(tuple(held(drawn).T), law.shape), minlength=law.size)
    one = held(model.sample(params, "block", draws=size.long, chains=1, seed=2, **options))
    settled, other = stationary(tables), stationary(tables, backwards=True)
    names = ["".join(SYMBOLS[c] for c in np.unravel_index(k, law.shape)) for k in np.argsort(-settled, axis=None)[:5]]
    return {
        "p_value": rounded(p_value(counts, law.ravel())),
        "settled": {name: [rounded(a[tuple(map(SYMBOLS.index, SIGN.findall(name)))]) for a in (settled, other)] for name in names},
        "chain": shares(["".join(SYMBOLS[c] for c in r) for r in one], 1000),
        "orders": rounded(np.abs(settled - other).sum() / 2),
        "conditionals": [rounded(gap(settled, tables, i)) for i in range(len(tables))],
    }


def conditionals(model: gm.ConditionalModel) -> list[Array]:
    """For each of the four cells p(its value | the other three), with an axis for each cell, by one pass for each three values."""
    row = np.array([SYMBOLS.index(t) for t in SIGN.findall(REACTION)])
    cells, q = range(*HOLE), len(SYMBOLS)
    others = np.stack(np.meshgrid(*[np.arange(q)] * (len(cells) - 1), indexing="ij"), axis=-1).reshape(-1, len(cells) - 1)
    found = []
    for k, cell in enumerate(cells):
        rows = np.tile(row, (len(others), 1))
        rows[:, [c for c in cells if c != cell]] = others
        logs = model.predict(model.init_params(), rows, np.arange(len(row)) == cell)[:, cell]
        table = np.exp(np.asarray(logs, float)).reshape(*[q] * (len(cells) - 1), q)
        found.append(np.moveaxis(table / table.sum(axis=-1, keepdims=True), -1, k))
    return found


def swept(law: Array, tables: Sequence[Array], backwards: bool = False) -> Array:
    """The law of the four cells after each of them is drawn once."""
    for i in reversed(range(len(tables))) if backwards else range(len(tables)):
        law = law.sum(axis=i, keepdims=True) * tables[i]
    return law


def stationary(tables: Sequence[Array], backwards: bool = False) -> Array:
    """The law that a sweep leaves as it is, by sweeps from the uniform law until none changes it."""
    law, before = np.full(tables[0].shape, 1 / tables[0].size), np.zeros(tables[0].shape)
    while np.abs(law - before).sum() > 1e-13:
        law, before = swept(law, tables, backwards), law
        law = law / law.sum()
    return law


def gap(law: Array, tables: Sequence[Array], i: int) -> float:
    """The mean total variation between the law's conditional of a cell and the network's."""
    return float(np.abs(law - law.sum(axis=i, keepdims=True) * tables[i]).sum() / 2)


def held(drawn: Any) -> Array:
    """Codes of the four cells of all draws."""
    values = np.asarray(drawn["posterior"]["y"].values)
    return values.reshape(-1, values.shape[-1])[:, slice(*HOLE)]


def p_value(counts: Array, law: Array) -> float:
    """Of Pearson's chi-square test; values that are expected fewer than five times count as one."""
    expected = law * counts.sum()
    often = expected >= 5
    observed, wanted = (np.append(a[often], a[~often].sum()) for a in (counts, expected))
    return float(stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue)


def shares(texts: Sequence[str], most: int = 5) -> dict[str, float]:
    """The shares of the most frequent texts."""
    return {text: rounded(count / len(texts)) for text, count in Counter(texts).most_common(most)}


def rounded(value: float) -> float:
    """To six digits, as JSON holds it."""
    return float(f"{float(value):.6g}")


def parts(size: Size, out: Path) -> Mapping[str, Callable[[], Any]]:
    del out
    return {
        "log p, 32 bits": partial(scores, size, False),
        "log p, 64 bits": partial(scores, size, True),
        "infilling": partial(infilling, size),
        "chain": partial(chain, size),
    }


def tables(results: Mapping[str, Any], size: Size) -> dict[str, str]:
    """By place on the page."""
    del size
    single, double, found = results["log p, 32 bits"], results["log p, 64 bits"], results["chain"]
    lines = []
    for kind in (*single, "all"):
        own, precise = ([v for k, v in part.items() if kind in (k, "all")] for part in (single, double))
        tokens = sum(v["tokens"] for v in own)
        worst = [f"{max(v[what] for v in part):.1e}" for part in (own, precise) for what in ("row", "token")]
        lines.append([kind, sum(v["rows"] for v in own), tokens, f"{sum(v['nats'] * v['tokens'] for v in own) / tokens:.4f}", *worst])
    settled = [[f"`{name}`", *map("{:.4f}".format, p), f"{found['chain'].get(name, 0):.4f}"] for name, p in found["settled"].items()]
    verdicts = [
        ["draws after three sweeps follow the exact law: p-value", f"{found['p_value']:.2f}"],
        ["total variation between the laws of forward and of backward sweeps", f"{found['orders']:.4f}"],
        ["largest mean total variation of the law's conditionals to the network's", f"{max(found['conditionals']):.4f}"],
    ]
    return {
        "reactions-scores": markdown(
            ["reactions", "rows", "tokens", "nats a token", "a row, float32", "a token, float32", "a row, float64", "a token, float64"],
            lines,
        ),
        "reactions-infilling": markdown(["text", "share"], [[f"`{t}`", f"{p:.3f}"] for t, p in results["infilling"].items()]),
        "reactions-settled": markdown(["text", "forward sweeps", "backward sweeps", "one chain"], settled),
        "reactions-verdicts": markdown(["quantity", "value"], verdicts),
    }


def lab() -> laboratory.Lab:
    quick = Size(rows=1, fills=10, chains=20, sweeps=1, long=20)
    return laboratory.Lab("reactions", HERE, {"quick": quick, "default": Size()}, parts, tables, lambda results, size: {}, SETTINGS)
