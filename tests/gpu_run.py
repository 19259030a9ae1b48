"""One run on an accelerator: answers beside those of the CPU, rates and latencies; JSON, and the page of it.

`python tests/gpu_run.py` is sized for ten minutes of one accelerator, compilation included: after them it begins no part. Each
part is written when it is done, and the same command goes on after the last one. `--small` shows on any device that it works.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from benchmarks._fit_child import PROGRAM
from benchmarks._ising_data import every_pair, ising_data
from benchmarks._measure import provenance, seconds
from benchmarks._samplers import CompiledSweeps, chain_energies
from benchmarks._tasks import CHAINS, TASKS, Task

import gmlmdsl as gm

Array = np.ndarray
ROOT = Path(__file__).resolve().parents[1]
JSON, PAGE = ROOT / "docs" / "reference" / "accelerator.json", ROOT / "docs" / "reference" / "accelerator.md"
SWEEPS, REPEATS = 200, 5
BURN, KEPT, ERRORS = 4, 16, 5
PLAIN_TOLERANCE, PLAIN_STEPS = 1e-6, 500  # of the gradient of a mean over rows and sites, in float32
MOST_APART = 2e-3  # of an estimate in float32
# The largest difference from the CPU: of estimates relative to the largest, shares of codes, losses relative to the largest.
# Matrix products of accelerators in float32 may have the digits of TF32.
MOST = {"fit": 1e-6, "sweep": 1e-3, "pairs": 1e-3, "hot": 1e-3, "training": 5e-3, "decode": 0.02}
VOTES = """
input n : int
graph G = complete(range(n))
model votes {
  var   x[i in G.nodes]      : spin
  param h[i in G.nodes]      ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i]           for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
mask two = subsets(x, size = 2)
sampler sweep { update x[i] for i in G.nodes }
sampler pairs { update x[K] where K ~ two }
sampler hot { temper(betas = [0.5, 1]) { update x[i] for i in G.nodes } }
"""
TEXT = """
network net = transformer(layers = 2, heads = 2, width = 32)
model text { var x[t in range(16)] : range(20)  conditional x ~ net() }
mask some = bernoulli(x, rate = 0.4)
"""


# Answers, on whatever device this process has


def answers() -> dict[str, Any]:
    """A fit, draws of three samplers, losses of a training and a decode: the same numbers on every device, to rounding."""
    rng = np.random.default_rng(0)
    model = gm.parse(VOTES, n=10).model()
    common = rng.normal(size=(400, 1))
    x = np.where(common + rng.normal(size=(400, 10)) > 0, 1, -1)
    fit = model.fit(x, "one", progress=False)
    out = {"fit": np.concatenate([np.ravel(v) for v in fit.params.values()])}
    params = {"h": np.linspace(-0.3, 0.3, 10), "J": rng.normal(size=45) * 0.3}
    for name in ("sweep", "pairs", "hot"):
        draws = model.sample(params, name, draws=20, warmup=5, chains=32, seed=1, progress=False)
        out[name] = np.asarray(draws["posterior"]["x"].values)
    text = gm.parse(TEXT).model()
    rows = (rng.integers(0, 20, (64, 1)) + np.arange(16)) % 20
    training = gm.Training(batch_size=16, steps=10)
    out["training"] = text.fit(rows, "some", method=training, progress=False).loss_trace
    out["decode"] = decoder(True)("padir_4_5", 8)
    return out


def decoder(small: bool, pieces: int = 12) -> Callable[[str, int], Array]:
    """A function of a sampler and a number of rows: the pieces of `pieces` cells that networks of random weights decode."""
    source = (ROOT / "examples" / "translator" / "base.gmlm").read_text(encoding="utf-8")
    inputs: dict[str, Any] = {"source_vocab": 32128, "target_vocab": 32128}
    if small:
        for old, new in (
            ("layers = 6, heads = 8, width = 512, ffn = 2048", "layers = 1, heads = 2, width = 16, ffn = 16"),
            ("128)", "16)"),
        ):
            source = source.replace(old, new)
        inputs = dict.fromkeys(inputs, 64)
    program = gm.parse(source, **inputs)
    models = {name: program.model(name) for name in ("translate", "teacher")}
    params = {name: model.init_params(0) for name, model in models.items()}

    def decode(sampler: str, rows: int) -> Array:
        name = "translate" if sampler in models["translate"].samplers else "teacher"
        sources = np.random.default_rng(1).integers(3, inputs["source_vocab"], (rows, pieces))
        sources = np.pad(sources, ((0, 0), (0, (16 if small else 128) - pieces)), constant_values=-1)
        found = models[name].decode(params[name], sampler, given={"src": sources}, missing=-1, lengths=np.full(rows, pieces), seed=1)
        return found.tokens[:, 0]

    return decode


def correctness() -> dict[str, Any]:
    """The differences of this device from the CPU, which answers in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reference.npz"
        environment = os.environ | {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
        subprocess.run([sys.executable, __file__, "--reference", str(path)], check=True, env=environment)
        with np.load(path) as found:
            wanted = dict(found)
    ours = answers()
    apart = {k: float(np.abs(ours[k] - wanted[k]).max() / np.abs(wanted[k]).max()) for k in ("fit", "training")}
    apart |= {k: float((ours[k] != wanted[k]).mean()) for k in ("sweep", "pairs", "hot", "decode")}
    return {"differences": apart, "passed": all(apart[k] <= MOST[k] for k in MOST)}


# Rates


class PlainSweeps:
    """The same chain as a user would write it in JAX: lists of neighbours, colour after colour, one scan."""

    def __init__(self, task: Task, sweeps: int):
        self.sweeps, self.build_seconds = sweeps, 0.0
        beside: list[list[tuple[int, float]]] = [[] for _ in range(task.n)]
        for (i, j), w in zip(task.edges.tolist(), task.weights.tolist(), strict=True):
            beside[i].append((j, w))
            beside[j].append((i, w))
        most = max(len(b) for b in beside)
        padded = [b + [(0, 0.0)] * (most - len(b)) for b in beside]
        places, weights = (np.array([[pair[k] for pair in b] for b in padded]) for k in (0, 1))
        colours = [(jnp.asarray(c), jnp.asarray(places[c]), jnp.asarray(weights[c], jnp.float32)) for c in task.colours]
        fields, q = jnp.asarray(task.fields, jnp.float32), task.n_values

        def redrawn(x: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
            for (cells, near, w), k in zip(colours, jax.random.split(key, len(colours)), strict=True):
                if task.spin:
                    field = (w[:, :, None] * (2.0 * x[near] - 1)).sum(axis=1) + fields[cells][:, None]
                    new = jax.random.uniform(k, field.shape) < jax.nn.sigmoid(2 * field)
                else:
                    scores = (w[:, :, None, None] * (x[near][..., None] == jnp.arange(q))).sum(axis=1)
                    new = jax.random.categorical(k, scores)
                x = x.at[cells].set(new.astype(x.dtype))
            return x, None

        def run(x: jax.Array, key: jax.Array) -> jax.Array:
            return jax.lax.scan(redrawn, x, jax.random.split(key, sweeps))[0]

        begun = time.perf_counter()
        self._run = jax.jit(run).lower(jnp.zeros((task.n, CHAINS), jnp.int32), jax.random.key(0)).compile()
        self.compile_seconds = time.perf_counter() - begun

    def start(self, codes: Array) -> jax.Array:
        """See `Sweeper`."""
        return jnp.asarray(codes.T)

    def advance(self, state: jax.Array, call: int) -> jax.Array:
        """See `Sweeper`."""
        return jax.block_until_ready(self._run(state, jax.random.key(call)))

    def codes(self, state: jax.Array) -> Array:
        """See `Sweeper`."""
        return np.asarray(state).T


def rates(name: str, small: bool) -> dict[str, Any]:
    """Millions of site updates per second of the derived kernel and of plain JAX, and their mean energies."""
    task, sweeps = TASKS[name](small), 20 if small else SWEEPS
    ways = {"kernel": CompiledSweeps(task, sweeps), "plain": PlainSweeps(task, sweeps)}
    out: dict[str, Any] = {"what": task.words}
    for label, way in ways.items():
        state = way.advance(way.start(task.starts(0)), 0)
        took = statistics.median(seconds(partial(way.advance, state, 1)) for _ in range(REPEATS))
        out[label] = {"rate": task.n * CHAINS * sweeps / took / 1e6, "compile_seconds": way.compile_seconds}
    energies = [chain_energies(way, task, BURN, KEPT, seed) for seed, way in enumerate(ways.values(), 1)]
    error = np.hypot(*(e.std(ddof=1) / len(e) ** 0.5 for e in energies))
    out["energies"] = [float(e.mean()) for e in energies]
    return out | {"passed": bool(abs(energies[0].mean() - energies[1].mean()) <= ERRORS * error)}


def plain_fit(x: Array) -> tuple[Callable[[], Array], float]:
    """The same fit as a user would write it in JAX: matrix products, and L-BFGS of Optax in a loop; and the seconds of its compilation."""
    rows, n = x.shape
    spins, upper = jnp.asarray(x, jnp.float32), jnp.asarray(np.triu_indices(n, 1))

    def loss(flat: jax.Array) -> jax.Array:
        couplings = jnp.zeros((n, n)).at[upper[0], upper[1]].set(flat[n:])
        fields = spins @ (couplings + couplings.T) + flat[:n]
        return jax.nn.softplus(-2 * spins * fields).sum() / rows / n

    solver = optax.lbfgs()
    valued = optax.value_and_grad_from_state(loss)

    def step(carry: tuple[jax.Array, Any, jax.Array]) -> tuple[jax.Array, Any, jax.Array]:
        flat, state, _ = carry
        value, gradient = valued(flat, state=state)
        update, state = solver.update(gradient, state, flat, value=value, grad=gradient, value_fn=loss)
        return optax.apply_updates(flat, update), state, jnp.abs(gradient).max()

    def run(flat: jax.Array) -> jax.Array:
        begun = flat, solver.init(flat), jnp.inf * jnp.ones((), flat.dtype)
        going = lambda c: (c[2] > PLAIN_TOLERANCE) & (optax.tree.get(c[1], "count") < PLAIN_STEPS)  # noqa: E731
        return jax.lax.while_loop(going, step, begun)[0]

    begun = time.perf_counter()
    start = jnp.zeros(n + n * (n - 1) // 2, jnp.float32)
    compiled = jax.jit(run).lower(start).compile()
    return lambda: np.asarray(compiled(start)), time.perf_counter() - begun


def f1(small: bool) -> dict[str, Any]:
    """Seconds of a fit of `f1`, compiled before, and of the first one, beside a plain one in JAX; the largest difference of an estimate."""
    n, rows = (8, 1000) if small else (50, 10_000)
    data = ising_data(n, rows)
    model = gm.parse(PROGRAM, n=n, pairs=every_pair(n)).model()
    first, *others = (seconds(lambda: model.fit(data.x, progress=False)) for _ in range(4))
    fit, (plain, compiling) = model.fit(data.x, progress=False), plain_fit(data.x)
    wanted, took = plain(), statistics.median(seconds(plain) for _ in range(3))
    apart = float(np.abs(np.concatenate([np.ravel(fit.params[k]) for k in ("h", "J")]) - wanted).max())
    out = {"what": f"{n} sites, {rows:,} rows, every pair", "first_seconds": first, "seconds": statistics.median(others)}
    beside = {"plain_seconds": took, "plain_compile_seconds": compiling, "apart": apart}
    return out | beside | {"passed": apart < MOST_APART}


def latency(small: bool) -> dict[str, Any]:
    """Milliseconds of a batch of sentences of 25 pieces, by sampler and rows of a batch; weights are random."""
    decode, out = decoder(small, 10 if small else 25), {}
    for sampler in ("padir_4_5", "padir_10_5", "beam"):
        for rows in (1, 32):
            decode(sampler, rows)
            runs = sorted(seconds(partial(decode, sampler, rows)) for _ in range(3 if small else 40))
            out[f"{sampler}, {rows}"] = {"median": 1e3 * statistics.median(runs), "p99": 1e3 * float(np.quantile(runs, 0.99))}
    return {"milliseconds": out}


# The run and its page


def parts(small: bool) -> dict[str, Callable[[], dict[str, Any]]]:
    """What is run, in this order."""
    tasks: dict[str, Callable[[], dict[str, Any]]] = {"correctness": correctness}
    tasks |= {name: partial(rates, name, small) for name in ("t1", "t2", "t3")}
    return tasks | {"f1": partial(f1, small), "latency": partial(latency, small)}


def run(out: Path, small: bool, minutes: float) -> dict[str, Any]:
    """Run what is not yet in `out`, for at most about `minutes`, and write each part when it is done."""
    device = jax.devices()[0]
    identity = {"device": device.device_kind, "platform": device.platform, "small": small, "jax": jax.__version__}
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    if found.get("identity") != identity:
        found = {"identity": identity, "provenance": provenance(), "parts": {}}
    begun = time.perf_counter()
    for name, part in parts(small).items():
        if name in found["parts"] or time.perf_counter() - begun > 60 * minutes:
            continue
        started = time.perf_counter()
        result = part()
        found["parts"][name] = result | {"took_seconds": time.perf_counter() - started}
        beside = out.with_suffix(".part")
        beside.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        beside.replace(out)
        print(f"{name}: {json.dumps(result)}", flush=True)
    return found


def page(found: dict[str, Any] | None) -> str:
    """The page of a run; without one, or without a part, it says "not measured"."""
    done = {} if found is None else found["parts"]
    where = "not measured"
    if found is not None:
        where = f"{found['identity']['device']}, {found['provenance']['date'][:10]}, jax {found['identity']['jax']}"
    lines = [
        "# On an accelerator",
        "",
        "Written by `tests/gpu_run.py`. On a machine with an accelerator, `make gpu` runs it and writes this page.",
    ]
    lines += ["A run begins no further part after ten minutes. The same command then measures the other parts. First install"]
    lines += ['the JAX of the accelerator into `.venv`, for example `.venv/bin/pip install "jax[cuda12]"`.', "", f"Run: {where}.", ""]
    apart = done.get("correctness", {}).get("differences", {})
    lines += ["| answer | largest difference from the CPU | allowed |", "|---|---|---|"]
    lines += [f"| {k} | {_number(apart.get(k))} | {most:g} |" for k, most in MOST.items()]
    lines += ["", "The differences of the fit and of the training losses are relative. All others are shares of different codes.", ""]
    lines += ["| task | kernel, million updates/s | plain JAX | same mean energy |", "|---|---|---|---|"]
    for k in ("t1", "t2", "t3"):
        p = done.get(k, {})
        kernel, plain = (_number(p.get(way, {}).get("rate")) for way in ("kernel", "plain"))
        lines += [f"| `{k}` | {kernel} | {plain} | {_yes(p.get('passed'))} |"]
    lines += ["", "The tasks are those of [the benchmarks](benchmarks.md). Plain JAX runs the same chain with lists of neighbours.", ""]
    p = done.get("f1", {})
    lines += [f"A fit of `f1` takes {_number(p.get('seconds'))} s, and the first one {_number(p.get('first_seconds'))} s."]
    lines += [f"A plain one in JAX, L-BFGS of Optax in one loop, takes {_number(p.get('plain_seconds'))} s, and"]
    lines += [f"{_number(p.get('plain_compile_seconds'))} s to compile. Largest difference of an estimate: {_number(p.get('apart'))}.", ""]
    lines += ["| decoder of `base.gmlm` | rows | median, ms | 99th percentile, ms |", "|---|---|---|---|"]
    times = done.get("latency", {}).get("milliseconds", {})
    for sampler in ("padir_4_5", "padir_10_5", "beam"):
        for rows in (1, 32):
            t = times.get(f"{sampler}, {rows}", {})
            lines += [f"| `{sampler}` | {rows} | {_number(t.get('median'))} | {_number(t.get('p99'))} |"]
    lines += ["", "Each sentence has 25 subword tokens in both languages, and the weights are random.", ""]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g}"


def _yes(value: bool | None) -> str:
    return "not measured" if value is None else "yes" if value else "no"


def main(words: list[str] | None = None) -> int:
    """Run, and return 1 where an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=JSON)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--reference", type=Path, help="write the answers of this device, and nothing else")
    given = parser.parse_args(words)
    warnings.simplefilter("ignore", gm.GmlmWarning)
    warnings.simplefilter("ignore", gm.SamplingWarning)
    if given.reference is not None:
        np.savez(given.reference, **answers())
        return 0
    found = run(given.out, given.small, given.minutes)
    if given.page is not None:
        given.page.write_text(page(found), encoding="utf-8")
    return int(not all(part.get("passed", True) for part in found["parts"].values()))


if __name__ == "__main__":
    sys.exit(main())
