# Laboratory D: how one layer of attention learns topics: closed forms, trained value matrices, embeddings, attention, stages, landscapes.
# python examples/labs topics [--quick | --larger] [--out DIR] [--page]
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import laboratory
import numpy as np
import optax
import topic_theory as theory
from laboratory import less, markdown, ordered, spread
from matplotlib.figure import Figure

import gmlmdsl as gm

Array = np.ndarray
HERE = Path(__file__).resolve().parent
T, V = 10, 10  # topics, words of each
DIRICHLET, L2, SHOWN = 0.1, 3e-4, 30  # weights of topics; of the value matrix alone; words of a picture
LOSSES, OPTIMISERS = ("cross_entropy", "squared"), ("SGD 0.01", "Adam 0.01")
PAIRS = [(loss, optimiser) for loss in LOSSES for optimiser in OPTIMISERS]
# Attention to the same word, to others of its topic, to other topics: Tables 2.1 and 2.2.
TABLE = {
    "Adam 0.003": (0.00759, 0.0108, 0.00689),
    "Adam 0.01": (0.00811, 0.0100, 0.00707),
    "Adam 0.03": (0.00453, 0.0116, 0.00665),
    "SGD 0.01": (0.0105, 0.0106, 0.00673),
    "SGD 0.03": (0.0140, 0.0103, 0.00641),
}
DIAGONAL = {"Adam 0.003": (0.0916, 0.00185, 0.00256), "Adam 0.01": (0.0918, 0.00182, 0.00256)}
NAMES = ("same word", "same topic", "other topics")
STAGED = ("Adam 0.003", "Adam 0.0003", "SGD 1", "SGD 10")  # what Figure 2.4 was made with is not printed
MATRICES = {"value": "W_V", "key": "W_K", "query": "W_Q"}
STILL = 0.1  # a norm that rises by less than this share
TAUS, GRID = (20, 40, 60, 80), np.logspace(-4, 7, 111)
WIDE_T, WIDE_V = 100, 300  # of the landscapes
EMA, EMBEDDED_SD, STAGED_SD = 0.99, 0.1, 0.001  # of value matrices, a moving average; deviations of first weights
SETTINGS = {
    "topics": (T, V),
    "masking": asdict(theory.MASKING),
    "dirichlet": DIRICHLET,
    "l2": L2,
    "ema": EMA,
    "deviations": (EMBEDDED_SD, STAGED_SD),
    "pairs": PAIRS,
    "attention": tuple(TABLE),
    "diagonal": tuple(DIAGONAL),
    "staged": STAGED,
    "landscapes": (WIDE_T, WIDE_V, *TAUS),
    "shown": SHOWN,
}


@dataclass(frozen=True)
class Size:
    """Seeds, documents of `least` to `words` words, batches, steps, those of Figure 2.4, documents that attention is measured in, rows."""

    seeds: int = 5
    documents: int = 1000
    least: int = 100
    words: int = 150
    batch: int = 8
    steps: int = 300
    staged: int = 1000
    probed: int = 20
    rows: int = 9


@cache
def optimiser(name: str) -> optax.GradientTransformation:
    """One object for all seeds: they share what is compiled."""
    kind, rate = name.split()
    return {"SGD": optax.sgd, "Adam": optax.adam}[kind](float(rate))


@cache
def language(size: Size, **inputs: float) -> gm.Model:
    """The network's model."""
    return gm.load(HERE / "topics.gmlm", allow_python=True, n=size.words, **inputs).model("language")


def cut(x: Array, size: Size, rng: np.random.Generator) -> Array:
    """Documents of uniform lengths; -1 behind their ends."""
    return np.where(np.arange(size.words) < rng.integers(size.least, size.words + 1, len(x))[:, None], x, -1)


@cache
def mixtures(size: Size, seed: int) -> Array:
    """Documents whose weights of topics are from a Dirichlet distribution."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(T, DIRICHLET), size.documents)
    topics = np.stack([rng.choice(T, size.words, p=p) for p in weights])
    return cut(topics * V + rng.integers(0, V, topics.shape), size, rng)


@cache
def pure(size: Size, seed: int) -> Array:
    """Documents of two topics: exact draws from the model of topics.gmlm."""
    model = gm.load(HERE / "topics.gmlm", allow_python=True, n=size.words).model("documents")
    x = model.sample({}, "exact", draws=size.documents, chains=1, seed=seed, progress=False)["posterior"]["x"].values[0]
    return cut(x, size, np.random.default_rng(seed))


def trained(model: gm.Model, x: Array, size: Size, seed: int, name: str, **options: Any) -> Any:
    """A fit by one optimiser."""
    method = gm.Training(steps=size.steps, batch_size=size.batch, buckets=(size.words,), **options)
    return model.fit(x, "masked", seed=seed, missing=-1, optimizer=optimiser(name), method=method, progress=False)


def short(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.6g}") for name, value in values.items()}


def seen(matrix: Array, seed: int) -> list[list[float]] | None:
    """The words of the first topics, for the picture; of the first seed alone."""
    return None if seed else [[float(f"{x:.3g}") for x in row[:SHOWN]] for row in matrix[:SHOWN]]


def exactly() -> dict[str, Any]:
    """Closed forms beside least squares and beside the model of documents."""
    best = theory.closed_form(T, V)
    found: dict[str, Any] = {"diff": best[1, -1], "same": best[1, 2], "hidden": best[1, 0], "row 0": np.abs(best[0]).max()}
    found |= {f"tau {tau}": np.abs(theory.least_squares(T, V, tau) - best).max() for tau in (2, 3)}
    for tau in (2, 3):
        model = gm.load(HERE / "topics.gmlm", allow_python=True, n=4, tau=tau).model("documents")
        found[f"next {tau}"] = np.abs(model.next_symbol({}, [[3, 17]])[0] - after_two(tau)).max()
    return short(found | theory.attention_bounds(V))


def after_two(tau: int) -> Array:
    """p(word | two words of the first two topics): the other topics are alike."""
    share = np.full(T, (tau - 2) / (T - 2) / tau)
    share[:2] = 1 / tau
    return np.repeat(share / V, V)


def landscapes() -> dict[str, Any]:
    """Where the loss is least over attention, for each number of topics in a document."""
    found = {}
    for diagonal in (True, False):
        for tau in TAUS:
            loss = theory.landscape(GRID[:, None], GRID[None], WIDE_T, WIDE_V, tau, diagonal)
            a, b = np.unravel_index(loss.argmin(), loss.shape)
            found[f"{'diagonal' if diagonal else 'blocks'} {tau}"] = short({"alpha": GRID[a], "beta": GRID[b], "loss": loss.min()})
    return found


def value(size: Size, loss: str, name: str, seed: int) -> dict[str, Any]:
    """W_V under uniform attention, from documents of two topics; its distances to the minimiser for such documents and to the theorem's."""
    fit = trained(language(size, attends=0, biased=0), pure(size, seed), size, seed, name, loss=loss, l2=L2, ema=EMA)
    found = np.asarray(fit.network.module.value_matrix, float)
    found = np.concatenate([found[:, -1:], found[:, :-1]], axis=1)  # the hidden symbol first
    best = theory.closed_form(T, V)[1:]
    away = {"to theorem": np.linalg.norm(found - best) / np.linalg.norm(best)}
    if loss == "squared":
        least = least_value(size)
        away["to minimiser"] = np.linalg.norm(found - least) / np.linalg.norm(least)
    return {"blocks": short(theory.blocks(found[:, 1:], V)), "away": short(away), "shown": seen(found[:, 1:], seed)}


@cache
def least_value(size: Size) -> Array:
    return theory.ridge(T, V, 2, np.arange(size.least, size.words + 1), L2)[1:]


def embedding(size: Size, loss: str, name: str, seed: int) -> dict[str, Any]:
    """W_E' W_E of words, where everything is trained."""
    fit = trained(language(size, embedded=1, sd=EMBEDDED_SD), mixtures(size, seed), size, seed, name, loss=loss)
    e = np.asarray(fit.network.module.embedding, float)[:, : T * V]
    return {"blocks": short(theory.blocks(e.T @ e, V)), "shown": seen(e.T @ e, seed)}


def attention(size: Size, name: str, seed: int, diagonal: int = 0) -> dict[str, Any]:
    """Mean attention between words at different places, where the embedding is one-hot and everything else is trained."""
    model = language(size, diagonal=diagonal)
    fit = trained(model, mixtures(size, seed), size, seed, name)
    probes = mixtures(Size(documents=size.probed, words=size.words, least=size.least), 10_000 + seed)
    sums, counts = np.zeros(3), np.zeros(3)
    for x in probes:
        a, n = model.attention(fit.params, x[None], missing=-1)["self"][0, 0, 0], int((x >= 0).sum())
        a, w = a[:n, :n], x[:n]
        word, topic, apart = w[:, None] == w[None], w[:, None] // V == w[None] // V, ~np.eye(n, dtype=bool)
        for k, pairs in enumerate((word & apart, topic & ~word, ~topic)):
            sums[k], counts[k] = sums[k] + a[pairs].sum(), counts[k] + pairs.sum()
    matrix = np.asarray(fit.network.module.value_matrix, float)[:, : T * V]
    loss = float(np.mean(fit.loss_trace[-50:]))
    return short(dict(zip(NAMES, sums / counts, strict=True)) | {"loss": loss}) | {"blocks": short(theory.blocks(matrix, V))}


def stages(size: Size, out: Path, name: str, seed: int) -> dict[str, Any]:
    """Norms of W_V, W_K and W_Q while all are trained, from near zero."""
    out.mkdir(parents=True, exist_ok=True)
    log = out / f"norms-{name}-{seed}.jsonl"
    log.unlink(missing_ok=True)
    trained(language(size, sd=STAGED_SD), mixtures(size, seed), replace(size, steps=size.staged), seed, name, log=log)
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    log.unlink()
    norms = {part: [float(f"{line['norms'][part]:.4g}") for line in lines] for part in MATRICES}
    return {"steps": [line["step"] for line in lines], **norms}


def parts(size: Size, out: Path) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {"exact": exactly, "landscapes": landscapes}
    for seed in range(size.seeds):
        found |= {f"value, {loss}, {name}, {seed}": partial(value, size, loss, name, seed) for loss, name in PAIRS[: size.rows]}
        found |= {f"embedding, {loss}, {name}, {seed}": partial(embedding, size, loss, name, seed) for loss, name in PAIRS[: size.rows]}
        found |= {f"attention, {name}, {seed}": partial(attention, size, name, seed) for name in list(TABLE)[: size.rows]}
        found |= {f"diagonal, {name}, {seed}": partial(attention, size, name, seed, 1) for name in list(DIAGONAL)[: size.rows]}
        found |= {f"stages, {name}, {seed}": partial(stages, size, out, name, seed) for name in STAGED[: size.rows]}
    return found


def over(results: laboratory.Results, size: Size, *name: str) -> list[Any]:
    """The results of a setting, one a seed."""
    return [results[", ".join((*name, str(seed)))] for seed in range(size.seeds)]


def column(rows: Iterable[Mapping[str, Any]], *path: str) -> list[float]:
    found = []
    for row in rows:
        for name in path:
            row = row[name]
        found.append(row)
    return found  # pyright: ignore[reportReturnType]


def exact_table(found: Mapping[str, float]) -> str:
    rows = [
        ["W_V, same topic", f"{found['same']:.7f}"],
        ["W_V, other topics", f"{found['diff']:.7f}"],
        ["W_V, column of the hidden symbol", f"{found['hidden']:.7f}"],
        ["W_V, largest entry of the hidden symbol's row", f"{found['row 0']:g}"],
        *([f"largest distance to least squares, tau = {t}", f"{found[f'tau {t}']:.0e}"] for t in (2, 3)),
        *([f"p(next word) of the program, largest distance to its formula, tau = {t}", f"{found[f'next {t}']:.0e}"] for t in (2, 3)),
        ["lambda_1 of Theorem 2.1.3", f"{found['lambda_1']:.5f}"],
    ]
    return markdown(["quantity", "value"], rows)


def block_table(results: laboratory.Results, size: Size, kind: str) -> str:
    """Blocks of a matrix for each loss and optimiser."""
    heads = ["loss", "optimiser", "same word", "others of the topic", "other topics", "topic above others"]
    heads += ["to the minimiser", "its block means alone", "to Theorem 2.1.2"] if kind == "value" else []
    rows = []
    for loss, name in PAIRS[: size.rows]:
        found = over(results, size, kind, loss, name)
        word, topic, other = (column(found, "blocks", k) for k in ("word", "topic", "other"))
        row = [loss.replace("_", "-"), name, *(spread(k) for k in (word, topic, other)), less(other, topic)]
        if kind == "value":
            squared = loss == "squared"
            row.append(spread(column(found, "away", "to minimiser")) if squared else "—")
            row.append(spread([apart(f["blocks"], size) for f in found]) if squared else "—")
            row.append(spread(column(found, "away", "to theorem")) if squared else "—")
        rows.append(row)
    if kind == "value":
        least, best = least_value(size), theory.closed_form(T, V)[1:]
        blocks = theory.blocks(least[:, 1:], V)
        away = np.linalg.norm(least - best) / np.linalg.norm(best)
        rows.append(["squared", "the minimiser", *(f"{blocks[k]:.3g}" for k in ("word", "topic", "other")), "", "0", "0", f"{away:.3g}"])
    return markdown(heads, rows)


def apart(blocks: Mapping[str, float], size: Size) -> float:
    """The distance of matrices that hold nothing but block means to that of the minimiser, over the minimiser's norm."""
    least, counts = least_value(size), {"word": T * V, "topic": T * V * (V - 1), "other": T * V * (T - 1) * V}
    own = theory.blocks(least[:, 1:], V)
    return float(np.sqrt(sum(n * (blocks[k] - own[k]) ** 2 for k, n in counts.items())) / np.linalg.norm(least))


def attention_table(results: laboratory.Results, size: Size, kind: str, printed: Mapping[str, tuple[float, ...]]) -> str:
    """Attention of three kinds beside what is printed, and whether its order is theirs."""
    rows = []
    for name, values in list(printed.items())[: size.rows]:
        found = over(results, size, kind, name)
        own = [column(found, k) for k in NAMES]
        cells = [f"{spread(mine)} ({value:g})" for mine, value in zip(own, values, strict=True)]
        main = less(own[2], own[1]) if kind == "attention" else less(own[1], own[0])
        rows.append([name, *cells, main, ordered(*(own[k] for k in np.argsort(values))), spread(column(found, "loss"))])
    claim = "topic above others" if kind == "attention" else "word above topic"
    return markdown(["optimiser", *(f"{name} (printed)" for name in NAMES), claim, "whole order", "loss, nats"], rows)


def joint_table(results: laboratory.Results, size: Size) -> str:
    """Blocks of W_V where attention is trained with it, by optimiser, cross-entropy (Figure 2.6)."""
    rows = []
    for name in list(TABLE)[: size.rows]:
        word, topic, other = (column(over(results, size, "attention", name), "blocks", k) for k in ("word", "topic", "other"))
        rows.append([name, *(spread(k) for k in (word, topic, other)), less(other, topic)])
    return markdown(["optimiser", "same word", "others of the topic", "other topics", "topic above others"], rows)


def begins(norms: Sequence[float]) -> int | None:
    """Where in its record a norm first has a tenth of its rise; None where it rises by less than a tenth of what it was."""
    rise = max(norms) - norms[0]
    return None if rise < STILL * norms[0] else next(k for k, norm in enumerate(norms) if norm - norms[0] >= STILL * rise)


def left(found: Mapping[str, list[float]]) -> float:
    """The share of W_V's rise that is left when the first of the others begins to rise."""
    norms, first = found["value"], min(k for part in ("key", "query") if (k := begins(found[part])) is not None)
    return (max(norms) - norms[first]) / (max(norms) - norms[0])


def stage_table(results: laboratory.Results, size: Size) -> str:
    """By optimiser: how large the norms become, when each begins to rise, whether that of W_V is first, and flat from then on."""
    rows = []
    for name in STAGED[: size.rows]:
        found = over(results, size, "stages", name)
        last = [spread([f[part][-1] for f in found]) for part in MATRICES]
        places = {part: [begins(f[part]) for f in found] for part in MATRICES}
        steps = {part: [f["steps"][k] for f, k in zip(found, own, strict=True) if k is not None] for part, own in places.items()}
        when = [spread(own) if len(own) == len(found) else "does not rise" for own in steps.values()]
        if all(len(own) == len(found) for own in steps.values()):
            still = [left(f) for f in found]
            first = laboratory.together([less(steps["value"], steps[k]) for k in ("key", "query")])
            flat = [spread(still), less(still, [STILL] * len(still))]
        else:  # where nothing follows, nothing is before or after
            first, flat = laboratory.UNTESTED, ["", laboratory.UNTESTED]
        rows.append([name, *last, *when, first, *flat])
    norms = [f"norm of {w} at the end" for w in MATRICES.values()]
    steps = [f"{w}: a tenth of its rise at step" for w in MATRICES.values()]
    heads = ["optimiser", *norms, *steps, "W_V before both", "rise of W_V that is left then", "less than a tenth"]
    return markdown(heads, rows)


def landscape_table(found: Mapping[str, Mapping[str, float]]) -> str:
    """Least losses, the bounds of the theorems, and whether they hold."""
    bound, rows = theory.attention_bounds(WIDE_V), []
    means, betas = [], []
    for tau in TAUS:
        one, two = found[f"blocks {tau}"], found[f"diagonal {tau}"]
        means.append(((WIDE_V - 1) * one["alpha"] + one["beta"]) / WIDE_V)
        betas.append(two["beta"])
        blocks = (bound["lambda_1"] * (tau - 1), bound["lambda_2"] * WIDE_T)
        diagonal, most = (bound["lambda_3"] * tau, bound["lambda_4"] * WIDE_T), bound["lambda_5"] * two["beta"]
        apart = diagonal[0] < betas[-1] < diagonal[1] and two["alpha"] < most
        row = [tau, f"{means[-1]:.3g}", _between(*blocks), _inside(blocks[0] < means[-1] < blocks[1])]
        rows.append([*row, f"{betas[-1]:.3g}", _between(*diagonal), f"{two['alpha']:.3g}", f"{most:.3g}", _inside(apart)])
    rows.append(["rises with tau", _rises(means), "", "", _rises(betas), *[""] * 4])
    heads = ["tau", "blocks: mean of alpha, beta", "Theorem 2.1.3", "", "diagonal: beta", "Theorem 2.1.5", "alpha", "at most", ""]
    return markdown(heads, rows)


def _between(low: float, high: float) -> str:
    return f"({low:.3g}, {high:.3g})"


def _inside(good: bool) -> str:
    return "inside" if good else "outside"


def _rises(values: Sequence[float]) -> str:
    """A verdict without seeds: nothing is drawn."""
    steps = np.diff(values)
    return "yes" if (steps > 0).all() else "never falls" if (steps >= 0).all() else "no"


def tables(results: laboratory.Results, size: Size) -> dict[str, str]:
    return {
        "topics-exact": exact_table(results["exact"]),
        "topics-value": block_table(results, size, "value"),
        "topics-embedding": block_table(results, size, "embedding"),
        "topics-attention": attention_table(results, size, "attention", TABLE),
        "topics-joint": joint_table(results, size),
        "topics-diagonal": attention_table(results, size, "diagonal", DIAGONAL),
        "topics-stages": stage_table(results, size),
        "topics-landscape": landscape_table(results["landscapes"]),
    }


def draw(results: laboratory.Results, size: Size) -> dict[str, Figure]:
    import topic_pictures

    shown = {k: {pair: results[f"{k}, {', '.join(pair)}, 0"]["shown"] for pair in PAIRS[: size.rows]} for k in ("value", "embedding")}
    return {
        "blocks": topic_pictures.matrices(shown, V),
        "stages": topic_pictures.norms({name: over(results, size, "stages", name) for name in STAGED[: size.rows]}),
        "landscape": topic_pictures.landscapes(GRID, {(d, t): _landscape(t, d) for d in (True, False) for t in TAUS}),
    }


def _landscape(tau: int, diagonal: bool) -> Array:
    return theory.landscape(GRID[:, None], GRID[None], WIDE_T, WIDE_V, tau, diagonal)


QUICK = Size(seeds=1, documents=40, least=12, words=16, batch=8, steps=40, staged=40, probed=4, rows=1)
LARGER = Size(documents=20000, batch=32, steps=10000, staged=10000)


def lab() -> laboratory.Lab:
    return laboratory.Lab("topics", HERE, {"quick": QUICK, "default": Size(), "larger": LARGER}, parts, tables, draw, SETTINGS)
