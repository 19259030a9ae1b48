# Decoders with the exact denoiser of a ring of spins and of a hidden Markov chain: how far their draws are from p, by number of passes.
# python examples/labs decoders [--quick] [--out DIR] [--page]
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import laboratory
import numpy as np
from distances import counts_of, features, from_ratios, log_p_of_orders, mixed, orders_of, remasked_law, told_apart

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
Array = np.ndarray
ORDERS = ("random", "cosine", "suggested", "blocks")  # drawn before anything is seen: an upper bound of the divergence
PATHS = ("left", "margin", "entropy")  # one path to each row: log p
REMASKED = {"ancestral": 0.0, "cap": 0.2, "rescale": 0.2}  # cells settle and are hidden again independently, with their eta
DRAWN = ("probability", "ancestral", "cap", "rescale", "shares", "sweep")  # no likelihood: bounds by draws
NAMES = (*ORDERS, *PATHS, "probability", *REMASKED, "shares", "sweep")
SETTINGS = {"names": NAMES, "eta": REMASKED}


@dataclass(frozen=True)
class Size:
    """Numbers of a run.

    Attributes:
        spins: spins of the ring.
        symbols: symbols of the chain.
        rows: exact draws of the chain whose log p under a decoder is computed.
        orders: random orders for each of these rows.
        draws: draws of a decoder of the chain; of the chain itself twice as many.
        ring_draws: draws of the one decoder of the ring whose law is not computed.
        profile: draws of the information profile of the chain.
    """

    spins: int = 8
    symbols: int = 32
    rows: int = 600
    orders: int = 4
    draws: int = 2000
    ring_draws: int = 40_000
    profile: int = 4000


def coupling(spins: int) -> float:
    """At which the correlation length, -1 / log tanh J, is the number of spins."""
    return float(np.arctanh(np.exp(-1 / spins)))


def ring_passes(size: Size) -> list[int]:
    return [t for t in (1, 2, 4, 8, 16) if t <= size.spins]


def chain_passes(size: Size) -> list[int]:
    return [t for t in (2, 4, 8, 32) if t <= size.symbols]


@cache
def model_of(name: str, n: int, passes: int, plan: tuple[int, ...] | None = None) -> gm.JointModel:
    """The model of a ring or chain, with the samplers of so many passes."""
    counts = counts_of(n, passes, "linear") if plan is None else plan
    inputs = {"n": n, "passes": passes, "plan": np.array(counts), "block": max(1, min(n, 2 * n // passes))}
    if name == "ring":
        inputs["coupling"] = coupling(n)
    return gm.load(HERE / f"{name}.gmlm", **inputs).model()  # type: ignore[return-value]


@cache
def profile_of(name: str, size: Size) -> gm.theory.InformationProfile:
    """Exact of the ring, estimated of the chain."""
    n = size.spins if name == "ring" else size.symbols
    return gm.theory.information_profile(model_of(name, n, 1), {}, draws=None if name == "ring" else size.profile)


def suggested(name: str, size: Size) -> dict[str, Any]:
    """By number of passes the counts that lose least in a random order, what they lose, and what the linear and cosine ones do."""
    f, found = profile_of(name, size), {}
    for passes in ring_passes(size) if name == "ring" else chain_passes(size):
        best = gm.theory.suggest_schedule(model_of(name, len(f), 1), {}, passes, profile=f)
        losses = {"suggested": best.path_divergence, "linear": best.linear, "cosine": best.cosine}
        found[str(passes)] = {"counts": list(best.counts), **{k: rounded(v) for k, v in losses.items()}}
    return {"profile": rounded(f.values), "error": rounded(f.standard_error), "exact": f.exact, "passes": found}


def plan_of(name: str, size: Size, passes: int) -> tuple[int, ...]:
    n = size.spins if name == "ring" else size.symbols
    return gm.theory.suggest_schedule(model_of(name, n, 1), {}, passes, profile=profile_of(name, size)).counts


def on_ring(size: Size, sampler: str) -> list[dict[str, Any]]:
    """For each number of passes the divergence and total variation of a decoder of the ring."""
    return [{"passes": t, **ring_row(size, sampler, t)} for t in ring_passes(size) if sampler != "blocks" or t > 1]


def ring_row(size: Size, sampler: str, passes: int) -> dict[str, Any]:
    plan = plan_of("ring", size, passes) if sampler == "suggested" else None
    model = model_of("ring", size.spins, passes, plan)
    p = ring_law(size)
    if sampler in REMASKED:
        eta = REMASKED[sampler]
        rate = {"rescale": lambda most: eta * most}.get(sampler, lambda most: min(eta, most))
        shares = [t / passes for t in range(passes + 1)]
        law = remasked_law(p, shares, lambda a, s: rate(min(1.0, (1 - s) / a)))
        kl = float((p * np.log(p / law)).sum())
        return {"kl": rounded(max(0.0, kl)), "tv": rounded(np.abs(p - law).sum() / 2), "kind": "exact, by products"}
    if sampler == "shares":
        codes = ((drawn(model, sampler, size.ring_draws, 1000) + 1) // 2) @ (2 ** np.arange(size.spins - 1, -1, -1))
        found = np.bincount(codes, minlength=p.size) / size.ring_draws
        noise = np.sqrt(2 * p * (1 - p) / (np.pi * size.ring_draws)).sum() / 2  # the mean for draws of p itself
        return {"tv": rounded(np.abs(found - p.ravel()).sum() / 2), "error": rounded(noise), "kind": "draws"}
    law: Any = gm.theory.output_law(model, {}, sampler=sampler)
    return {"kl": rounded(max(0.0, law.kl())), "tv": rounded(law.total_variation), "kind": "exact"}


@cache
def ring_law(size: Size) -> Array:
    """The probability of every ring, an axis of two values for each spin."""
    rows = np.array(np.meshgrid(*[[-1, 1]] * size.spins, indexing="ij")).reshape(size.spins, -1).T
    energy = coupling(size.spins) * (rows * np.roll(rows, 1, axis=1)).sum(axis=1)
    p = np.exp(energy - energy.max())
    return (p / p.sum()).reshape((2,) * size.spins)


def drawn(model: gm.JointModel, sampler: str, count: int, chains: int, seed: int = 1) -> Array:
    """Draws of a sampler, (count, cells)."""
    chains = min(chains, count)
    options: dict[str, Any] = {} if sampler == "exact" else {"warmup": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.SamplingWarning)  # draws of a decoder are independent
        found = model.sample({}, sampler, draws=count // chains, chains=chains, seed=seed, progress=False, **options)
    x = np.asarray(found["posterior"]["x"].values)
    return x.reshape(-1, x.shape[-1])


@cache
def exact_rows(size: Size) -> tuple[Array, Array]:
    """Exact draws of the chain, and their log p."""
    model = model_of("chain", size.symbols, 2)
    x = drawn(model, "exact", size.rows + 2 * size.draws, 1)
    return x, np.asarray(model.log_prob({}, x), float)


def on_chain(size: Size, sampler: str, passes: int) -> dict[str, Any]:
    """The divergence and total variation of a decoder of the chain, as far as they are known, and the bound by draws."""
    plan = plan_of("chain", size, passes) if sampler == "suggested" else None
    model = model_of("chain", size.symbols, passes, plan)
    x, log_p = exact_rows(size)
    own = drawn(model, sampler, size.draws, 500)
    theirs = features(own, np.asarray(model.log_prob({}, own), float))
    found = told_apart(theirs, features(x[size.rows :], log_p[size.rows :]))
    told: dict[str, Any] = {"tv at least": pair(*found)}
    asked, known = x[: size.rows], log_p[: size.rows]
    if sampler in PATHS:
        kl, tv = from_ratios(known - np.asarray(model.log_prob({}, asked, sampler=sampler), float))
        told |= {"kl": pair(*kl), "tv": pair(*tv)}
    if sampler in ORDERS:
        each = by_orders(size, model, sampler, passes, plan, asked)
        kl, tv = from_ratios(known - mixed(each))
        path, _ = from_ratios(known - each[0])
        told |= {"path divergence": pair(*path), "kl at most": pair(*kl), "tv at most": pair(*tv)}
    return told


def by_orders(size: Size, model: gm.JointModel, sampler: str, passes: int, plan: tuple[int, ...] | None, x: Array) -> Array:
    """log p of rows by random orders of a decoder, (orders, rows)."""
    n, rng = size.symbols, np.random.default_rng(3)
    blocks = [n]
    counts = list(plan) if plan else counts_of(n, passes, "cosine" if sampler == "cosine" else "linear")
    if sampler == "blocks":
        wide = 2 * n // passes
        blocks, counts = [wide] * (n // wide), counts_of(wide, 2, "linear") * (n // wide)
    predict = partial(model.predict, {})
    return np.stack([log_p_of_orders(predict, x, orders_of(rng, len(x), blocks, counts)) for _ in range(size.orders)])


def pair(value: float, error: float) -> list[float]:
    return [rounded(value), rounded(error)]


def rounded(value: Any) -> Any:
    """To six digits, as JSON holds it."""
    if np.ndim(value):
        return [rounded(v) for v in np.asarray(value).tolist()]
    return float(f"{float(value):.6g}")


def parts(size: Size, out: Path) -> Mapping[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {f"{name}, schedules": partial(suggested, name, size) for name in ("ring", "chain")}
    found |= {f"ring, {name}": partial(on_ring, size, name) for name in NAMES}
    return found | {f"chain, {name}, {t} passes": partial(on_chain, size, name, t) for t in chain_passes(size) for name in NAMES}


QUICK = Size(spins=4, symbols=4, rows=40, orders=2, draws=200, ring_draws=400, profile=50)


def lab() -> laboratory.Lab:
    from decoder_tables import draw, tables

    return laboratory.Lab("decoders", HERE, {"quick": QUICK, "default": Size()}, parts, tables, draw, SETTINGS)
