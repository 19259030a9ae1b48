# Which couplings a path finds in simulated networks: one fit of all nodes, each node by itself joined by "and" or "or", and IsingFit's
# eLasso by scikit-learn: a logistic regression for each node, chosen by an EBIC of the penalised loss.
# python examples/labs/elasso/elasso.py run PARTS [--small] [--seconds 240]; again until nothing is left
# python examples/labs/elasso/elasso.py table PARTS [--out table.json]: the means over seeds, from the parts or from a kept table
# python examples/labs/elasso/elasso.py refits PARTS: eLasso with its EBIC of the penalised loss, and of refits without penalty; 20 nodes
# python examples/labs/elasso/elasso.py isingfit PARTS: R's IsingFit beside `criterion="elasso"`; 20 nodes
# GMLM_ISINGFIT names the folder of an R library that has IsingFit.
import argparse
import functools
import json
import os
import subprocess
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
GRAPHS, ROWS, SEEDS = ("random", "hub", "lattice"), (250, 1000, 4000), {20: 10, 50: 10}  # by number of nodes, how many seeds
SIZES = tuple(SEEDS)
PENALTIES, SPAN, GAMMA = 20, 0.02, 0.25  # IsingFit's gamma
WEAK, STRONG = 0.25, 0.5  # of couplings, with signs at random
SWEEPS = 100
HEADS = {"path": "joint", "default": "joint, γ 0.5", "and": "AND", "or": "OR", "elasso and": "eLasso AND", "elasso or": "eLasso OR"}
METHODS = tuple(HEADS)  # `default`: the same path under the default gamma, 0.5
TIMED = {"path": "joint", "and": "AND", "elasso and": "eLasso"}
FORMS = {"penalised": "of the penalised loss", "refit": "of refits"}  # where eLasso's EBIC is taken
MEASURES = ("precision", "recall", "seconds")
VARIABLE = "GMLM_ISINGFIT"
FAR = 0.01  # of slopes: another penalty was chosen
TOOLS = {"isingfit": "IsingFit", "criterion": "`elasso`"}
PEERS = {f"{who} {rule}": f"{told} {rule.upper()}" for rule in ("and", "or") for who, told in TOOLS.items()}


def edges(graph: str, n: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """The edges of a network: about 1.5 a node at random, stars of ten in a chain, or an open grid of n / 5 rows."""
    if graph == "lattice":
        rows, columns = n // 5, 5
        places = np.arange(n).reshape(rows, columns)
        pairs = [
            *zip(places[:, :-1].ravel(), places[:, 1:].ravel(), strict=True),
            *zip(places[:-1].ravel(), places[1:].ravel(), strict=True),
        ]
        return [(int(i), int(j)) for i, j in pairs]
    if graph == "hub":
        hubs = range(0, n, 10)
        return [(h, h + k) for h in hubs for k in range(1, 10)] + [(h, h + 10) for h in hubs if h + 10 < n]
    every = [(i, j) for i in range(n) for j in range(i + 1, n)]
    return [every[k] for k in sorted(rng.choice(len(every), 3 * n // 2, replace=False))]


def simulate(graph: str, n: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The couplings, a symmetric matrix, and rows of a Gibbs sampler in NumPy, one chain each."""
    rng = np.random.default_rng([GRAPHS.index(graph), n, rows, seed])
    true = np.zeros((n, n))
    for i, j in edges(graph, n, rng):
        true[i, j] = true[j, i] = rng.uniform(WEAK, STRONG) * rng.choice([-1, 1])
    fields = rng.uniform(-0.2, 0.2, n)
    x = rng.choice([-1.0, 1.0], (rows, n))
    for _ in range(SWEEPS):
        for i in range(n):
            x[:, i] = np.where(rng.random(rows) < 1 / (1 + np.exp(-2 * (fields[i] + x @ true[i]))), 1.0, -1.0)
    return true, x.astype(int)


def symmetric(n: int, edges: np.ndarray) -> np.ndarray:
    """A matrix of edges from those above its diagonal."""
    found = np.zeros((n, n), bool)
    found[np.triu_indices(n, 1)] = edges
    return found | found.T


def by_path(model: gm.Model, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which couplings the path's EBIC chooses, under both gammas."""
    n = x.shape[1]
    path = model.fit_path(x, penalty=penalties_of(model, x), gamma=GAMMA, progress=False)
    stricter = path.table["ebic"] + 2 * (0.5 - GAMMA) * np.log(len(path.couplings)) * path.table["degrees"]
    return symmetric(n, path.selected[path.chosen]), symmetric(n, path.selected[int(np.nanargmin(stricter))])


def penalties_of(model: gm.Model, x: np.ndarray) -> np.ndarray:
    """From the least without couplings down."""
    top = model.fit_path(x, penalty=2, criterion="stability", subsamples=2, progress=False).table["penalty"].iloc[0]
    return top * np.geomspace(1, SPAN, PENALTIES)


def by_rules(model: gm.Model, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which couplings both nodes choose, and which one of them: from one path, for "or" is chosen by the same nodes."""
    path = model.fit_path(x, penalty=PENALTIES, gamma=GAMMA, rule="and", progress=False)
    assert path.by_block is not None
    count = path.by_block.sum(axis=0)
    return symmetric(x.shape[1], count == 2), symmetric(x.shape[1], count > 0)


def by_node(x: np.ndarray, refit: bool = False) -> np.ndarray:
    """IsingFit's eLasso: which others each node's own regression chooses by its own EBIC, [i, j] of node i.

    `refit`: the loss of EBIC is that of a regression without penalty on the chosen others, and no longer IsingFit's.
    """
    from sklearn.linear_model import LogisticRegression

    rows, n = x.shape
    found = np.zeros((n, n), bool)
    for i in range(n):
        others, best = np.delete(np.arange(n), i), np.inf
        target = (x[:, i] + 1) / 2
        top = np.abs(x[:, others].T @ (target - target.mean())).max() / rows  # the least that holds all slopes at 0
        for penalty in top * np.geomspace(1, SPAN, PENALTIES):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                one = LogisticRegression(
                    l1_ratio=1, C=1 / (rows * penalty), solver="liblinear", intercept_scaling=10, tol=1e-5, max_iter=500
                )
                one.fit(x[:, others], x[:, i])
            kept = one.coef_[0] != 0
            if refit and kept.any():
                free = LogisticRegression(C=np.inf, tol=1e-6, max_iter=1000).fit(x[:, others[kept]], x[:, i])
                loss = np.logaddexp(0, -x[:, i] * free.decision_function(x[:, others[kept]])).sum()
            else:
                loss = np.logaddexp(0, -x[:, i] * one.decision_function(x[:, others])).sum()
            ebic = 2 * loss + kept.sum() * (np.log(rows) + 2 * GAMMA * np.log(n - 1))
            if ebic < best:
                best, found[i] = ebic, False
                found[i, others] = kept
    return found


def scores(found: np.ndarray, true: np.ndarray) -> dict[str, float]:
    """The share of the edges found that are right, 1 of none, and of the true ones that are found."""
    upper = np.triu_indices(len(true), 1)
    told, real = found[upper], true[upper] != 0
    right = int((told & real).sum())
    return {"precision": right / told.sum() if told.any() else 1.0, "recall": right / real.sum()}


@functools.cache
def model_of(n: int) -> gm.Model:
    """The model of n nodes; kept, so that its programs are compiled once for all networks of a size."""
    return gm.load(HERE / "network.gmlm", n=n).model()


@functools.cache
def compiled_for(n: int, rows: int) -> None:
    """Compile what the paths of so many rows take, on rows of another network."""
    model, (_, x) = model_of(n), simulate("random", n, rows, SEEDS[n])
    penalties_of(model, x)
    for rule in (None, "and"):
        model.fit_path(x, penalty=2, gamma=GAMMA, rule=rule, progress=False)


def measure(graph: str, n: int, rows: int, seed: int) -> dict[str, dict[str, float]]:
    """Both methods on one data set: scores, and seconds of the processor once programs are compiled."""
    true, x = simulate(graph, n, rows, seed)
    model = model_of(n)
    compiled_for(n, rows)
    found, times = {}, [time.process_time()]
    found["path"], found["default"] = by_path(model, x)
    times.append(time.process_time())
    found["and"], found["or"] = by_rules(model, x)
    times.append(time.process_time())
    each = by_node(x)
    found["elasso and"], found["elasso or"] = each & each.T, each | each.T
    times.append(time.process_time())
    out = {name: scores(f, true) for name, f in found.items()}
    for k, name in enumerate(METHODS):
        out[name]["seconds"] = times[k // 2 + 1] - times[k // 2]
    return out


def run(parts: Path, small: bool, seconds: float) -> int:
    """Measure what `parts` lacks, a file for each network, within so many processor seconds; how many are left."""
    parts.mkdir(parents=True, exist_ok=True)
    left = 0
    tasks = [(g, n, r, s) for n in SIZES for s, r, g in product(range(SEEDS[n]), ROWS, GRAPHS)]
    tasks = [("hub", 20, 250, 0)] if small else sorted(tasks, key=lambda t: (t[1], t[3]))  # seed by seed
    for task in tasks:
        part = parts / ("-".join(map(str, task)) + ".json")
        if part.exists():
            continue
        if time.process_time() > seconds:
            left += 1
            continue
        part.write_text(json.dumps({"task": task, "found": measure(*task)}), encoding="utf-8")
    return left


def refits(parts: Path) -> str:
    """Precision and recall of eLasso under both forms of its EBIC on networks of 20 nodes and 1000 rows, kept as `refits.json`."""
    kept = parts if parts.is_file() else parts / "refits.json"
    if not kept.exists():
        parts.mkdir(parents=True, exist_ok=True)
        found: dict[str, dict[str, list[float]]] = {}
        for graph in GRAPHS:
            own = found.setdefault(f"{graph}-20-1000", {})
            for seed, (form, refit) in product(range(SEEDS[20]), (("penalised", False), ("refit", True))):
                true, x = simulate(graph, 20, 1000, seed)
                each = by_node(x, refit)
                for rule, joined in (("AND", each & each.T), ("OR", each | each.T)):
                    for measure_, value in scores(joined, true).items():
                        own.setdefault(f"{form} {rule} {measure_}", []).append(round(value, 4))
        kept.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    heads = {f"{form} {rule}": f"{rule}, EBIC {of}" for rule in ("AND", "OR") for form, of in FORMS.items()}
    tables = json.loads(kept.read_text(encoding="utf-8"))
    return "\n\n".join(f"{what}:\n\n{table(tables, what, heads, 2)}" for what in MEASURES[:2])


def by_isingfit(data: list[np.ndarray], threshold: str = "1e-7") -> list[np.ndarray]:
    """The slopes of the regressions that R's IsingFit chooses, [i, j] of node i, for each of some sets of rows.

    `threshold`: that of the iterations of glmnet, whose default is 1e-7.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{k}.csv" for k in range(len(data))]
        for file, x in zip(files, data, strict=True):
            np.savetxt(file, (x + 1) // 2, fmt="%d", delimiter=",")
        environment = {**os.environ, "R_LIBS": os.environ[VARIABLE]}
        subprocess.run(["Rscript", HERE / "isingfit.R", threshold, *files], env=environment, check=True, capture_output=True)
        return [np.loadtxt(f"{file}.slopes", delimiter=",") for file in files]


def by_criterion(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of `criterion="elasso"`: which others each node's regression chooses, [i, j] of node i, and the slopes by "and"."""
    n = x.shape[1]
    path = model_of(n).fit_path(x, criterion="elasso", gamma=GAMMA, progress=False)
    assert path.by_block is not None
    slopes = np.zeros((n, n))
    slopes[np.triu_indices(n, 1)] = 4 * path.params[0]["J"]  # a coupling of -1 and 1 is a quarter of a slope
    return np.array([symmetric(n, own)[i] for i, own in enumerate(path.by_block)]), slopes + slopes.T


def joined(chosen: np.ndarray) -> dict[str, np.ndarray]:
    """The edges that both nodes choose, and those that one of them does."""
    return {"and": chosen & chosen.T, "or": chosen | chosen.T}


def apart(theirs: np.ndarray, chosen: np.ndarray, slopes: np.ndarray) -> dict[str, float]:
    """In how many edges two choices differ by each rule, and the largest difference of a slope by "and"."""
    ours, other = joined(chosen), joined(theirs != 0)
    mean = np.where(other["and"], (theirs + theirs.T) / 2, 0.0)
    edges_ = {f"other edges by {rule}": int(np.triu(ours[rule] != other[rule]).sum()) for rule in ours}
    return edges_ | {"slopes apart": round(float(np.abs(slopes - mean).max()), 6)}


def beside_isingfit(networks: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, list[float]]:
    """Scores of R's IsingFit and of `criterion="elasso"`, and how far both are apart.

    Where an edge differs, or a slope by `FAR`, IsingFit is run again with a threshold of 1e-14 in glmnet.
    """
    own: dict[str, list[float]] = {}
    for (true, x), theirs in zip(networks, by_isingfit([x for _, x in networks]), strict=True):
        chosen, slopes = by_criterion(x)
        for name, choice in (("isingfit", theirs != 0), ("criterion", chosen)):
            for rule, found in joined(choice).items():
                for measure_, value in scores(found, true).items():
                    own.setdefault(f"{name} {rule} {measure_}", []).append(round(value, 4))
        as_it_is = exact = apart(theirs, chosen, slopes)
        if max(as_it_is["other edges by and"], as_it_is["other edges by or"], as_it_is["slopes apart"] / FAR) >= 1:
            exact = apart(by_isingfit([x], "1e-14")[0], chosen, slopes)
        for prefix, told in (("", as_it_is), ("exact ", exact)):
            for name, value in told.items():
                own.setdefault(prefix + name, []).append(value)
    return own


def isingfit(parts: Path) -> str:
    """R's IsingFit beside `criterion="elasso"`, 20 nodes, up to 1000 rows, kept as `isingfit.json` after each kind of network."""
    kept = parts if parts.is_file() else parts / "isingfit.json"
    found = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    left = [] if parts.is_file() else [(g, r) for r, g in product(ROWS[:2], GRAPHS) if f"{g}-20-{r}" not in found]
    if left and not os.environ.get(VARIABLE):
        return f"not run: {VARIABLE} names no R library with IsingFit"
    for graph, rows in left:
        parts.mkdir(parents=True, exist_ok=True)
        found[f"{graph}-20-{rows}"] = beside_isingfit([simulate(graph, 20, rows, seed) for seed in range(SEEDS[20])])
        kept.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    tables = "\n\n".join(f"{what}:\n\n{table(found, what, PEERS, 2)}" for what in MEASURES[:2])
    networks = sum(len(own["slopes apart"]) for own in found.values())
    return f"{tables}\n\n{networks} networks: {differences(found)}\nwith a threshold of 1e-14: {differences(found, 'exact ')}"


def differences(found: dict[str, dict[str, list[float]]], which: str = "") -> str:
    """How far IsingFit and `criterion="elasso"` are apart on all networks together; `which`: "exact ", with a threshold of 1e-14."""
    both, either = (sum(sum(own[f"{which}other edges by {rule}"]) for own in found.values()) for rule in ("and", "or"))
    slope = max(max(own[f"{which}slopes apart"]) for own in found.values())
    return f"AND differs in {both} edges, OR differs in {either} edges, and slopes differ by at most {slope:.2g}"


def merged(parts: Path) -> dict[str, dict[str, list[float]]]:
    """From the folder of parts, or the file that `table --out` wrote: by network, by method and measure, a number for each seed."""
    if parts.is_file():
        return json.loads(parts.read_text(encoding="utf-8"))
    out: dict[str, dict[str, list[float]]] = {}
    for path in sorted(parts.glob("*.json")):
        part = json.loads(path.read_text(encoding="utf-8"))
        own = out.setdefault("-".join(map(str, part["task"][:3])), {})
        for method, measure_ in product(METHODS, MEASURES):
            own.setdefault(f"{method} {measure_}", []).append(round(part["found"][method][measure_], 4))
    return out


def mean(values: list[float], digits: int) -> str:
    """The mean over seeds, ± the half width of its 95 % interval by Student's distribution."""
    from scipy.stats import t

    if len(values) < 2:
        return f"{np.mean(values):.{digits}f}"
    half = t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.{digits}f} ± {half:.{digits}f}"


def table(found: dict[str, dict[str, list[float]]], what: str, heads: dict[str, str], digits: int) -> str:
    """One measure in Markdown, a line for each network."""
    lines = ["| graph | nodes | rows | seeds | " + " | ".join(heads.values()) + " |", "|---" * (4 + len(heads)) + "|"]
    for n, graph, rows in product(SIZES, GRAPHS, ROWS):
        own = found.get(f"{graph}-{n}-{rows}")
        if own is not None and f"{next(iter(heads))} {what}" in own:
            seeds = len(own[f"{next(iter(heads))} {what}"])
            lines.append(f"| {graph} | {n} | {rows} | {seeds} | " + " | ".join(mean(own[f"{m} {what}"], digits) for m in heads) + " |")
    return "\n".join(lines)


def all_tables(found: dict[str, dict[str, list[float]]]) -> str:
    """Precision, recall and seconds."""
    parts = [f"{what}:\n\n{table(found, what, HEADS, 2)}" for what in MEASURES[:2]]
    return "\n\n".join([*parts, f"seconds:\n\n{table(found, 'seconds', TIMED, 1)}"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["run", "table", "refits", "isingfit"])
    parser.add_argument("parts", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seconds", type=float, default=240.0, help="of the processor, after which no network is begun")
    parser.add_argument("--out", type=Path, help="keep what the parts say")
    args = parser.parse_args()
    if args.what == "run":
        print(run(args.parts, args.small, args.seconds), "networks are left")
    elif args.what == "refits":
        print(refits(args.parts))
    elif args.what == "isingfit":
        print(isingfit(args.parts))
    else:
        kept = merged(args.parts)
        if args.out is not None:
            args.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(all_tables(kept))
