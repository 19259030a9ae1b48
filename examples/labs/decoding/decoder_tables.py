# The tables and pictures of the decoders of a ring and of a chain, from kept output.
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from decoders import DRAWN, NAMES, ORDERS, PATHS, Size, chain_passes, ring_passes
from laboratory import AGREE, DISAGREE, UNTESTED, markdown, together
from matplotlib.figure import Figure

from gmlmdsl.report import _palette as palette

Results = Mapping[str, Any]
Number = tuple[float, float]  # with its standard error
NORMAL = 1.96  # half the width of an interval at 95 %, in standard errors
NOTHING = 1e-5  # nats that rounding of log p in single precision leaves
TITLES = {
    "random": "random, linear counts",
    "cosine": "random, cosine counts",
    "suggested": "random, suggested counts",
    "blocks": "blocks of two passes",
    "left": "from the left",
    "probability": "probability of the drawn value",
    "ancestral": "ReMDM, nothing hidden again",
    "cap": "ReMDM cap",
    "rescale": "ReMDM rescale",
    "shares": "ReMDM confidence",
    "sweep": "random, then a Gibbs sweep",
}
SHOWN = ("random", "suggested", "margin", "probability", "cap", "sweep")


def tables(results: Results, size: Size) -> dict[str, str]:
    """By place on the page."""
    return {
        "decoders-ring": ring_table(results, size),
        "decoders-schedules": schedule_table(results, size),
        "decoders-chain": chain_table(results, size),
        "decoders-variation": variation_table(results, size),
        "decoders-verdicts": verdict_table(results, size),
    }


def title(name: str) -> str:
    return TITLES.get(name, name)


def plural(passes: int) -> str:
    return "1 pass" if passes == 1 else f"{passes} passes"


def number(value: float) -> str:
    """To three digits; 0 where only rounding is left."""
    return "0" if abs(value) < NOTHING else f"{value:.3g}"


def pm(value: Sequence[float]) -> str:
    return "0" if max(abs(value[0]), NORMAL * value[1]) < NOTHING else f"{number(value[0])} ± {NORMAL * value[1]:.1g}"


def of_ring(results: Results, name: str) -> dict[int, dict[str, Any]]:
    return {row["passes"]: row for row in results[f"ring, {name}"]}


def ring_table(results: Results, size: Size) -> str:
    """The divergence of each decoder of the ring, and in brackets its total variation."""
    rows = []
    for name in NAMES:
        found = of_ring(results, name)
        cells = [_of_ring(found[t]) if t in found else "" for t in ring_passes(size)]
        rows.append([title(name), *cells, next(iter(found.values()))["kind"]])
    return markdown(["decoder", *(plural(t) for t in ring_passes(size)), "kind"], rows)


def _of_ring(row: Mapping[str, Any]) -> str:
    if "kl" in row:
        return f"{number(row['kl'])} ({number(row['tv'])})"
    return f"({number(row['tv'])}; draws of p {row['error']:.1g})"


def schedule_table(results: Results, size: Size) -> str:
    """What counts lose by the information profile."""
    rows = []
    for name in ("ring", "chain"):
        for passes, found in results[f"{name}, schedules"]["passes"].items():
            losses = [number(found[k]) for k in ("suggested", "linear", "cosine")]
            counts = found["counts"]
            rows.append([name, passes, "1 each" if max(counts) == 1 else " ".join(map(str, counts)), *losses])
    return markdown(["model", "passes", "suggested counts", "suggested, nats", "linear", "cosine"], rows)


def of_chain(results: Results, name: str, passes: int) -> Mapping[str, Any]:
    return results[f"chain, {name}, {passes} passes"]


def chain_table(results: Results, size: Size) -> str:
    """The divergence of each decoder of the chain that has a likelihood, or its bound by orders."""
    rows = []
    for name in (*ORDERS, *PATHS):
        key = "kl" if name in PATHS else "kl at most"
        cells = [pm(of_chain(results, name, t)[key]) for t in chain_passes(size)]
        rows.append([title(name), *cells, "log p" if name in PATHS else f"at most, by {size.orders} orders a row"])
    return markdown(["decoder", *(plural(t) for t in chain_passes(size)), "kind"], rows)


def least(found: Mapping[str, Any]) -> float:
    """The lower end of the interval of the lower bound of the total variation."""
    value, error = found["tv at least"]
    return max(0.0, value - NORMAL * error)


def variation_table(results: Results, size: Size) -> str:
    """The total variation of each decoder of the chain: estimates, or the bounds from below and above."""
    rows = []
    for name in NAMES:
        cells = []
        for t in chain_passes(size):
            found = of_chain(results, name, t)
            if "tv" in found:
                cells.append(pm(found["tv"]))
            elif found.get("tv at most", [1])[0] < NOTHING:
                cells.append("0")
            else:
                most = f" to {found['tv at most'][0] + NORMAL * found['tv at most'][1]:.2f}" if "tv at most" in found else " or more"
                cells.append(f"{least(found):.2f}{most}")
        kind = "log p" if name in PATHS else "draws" if name in DRAWN else "draws, orders"
        rows.append([title(name), *cells, kind])
    return markdown(["decoder", *(plural(t) for t in chain_passes(size)), "kind"], rows)


def below(one: Number, other: Number) -> str:
    """Whether a number is below another, by the interval of their difference; equal exact numbers are not told apart."""
    away, half = other[0] - one[0], NORMAL * float(np.hypot(one[1], other[1])) + NOTHING
    return AGREE if away > half else DISAGREE if away < -half else UNTESTED


def claims(results: Results, size: Size) -> list[tuple[str, str, dict[int, str]]]:
    """What is said of decoders, on which model, and by passes whether it holds."""
    last, some = size.symbols, [t for t in ring_passes(size) if 1 < t < size.spins]
    on_chain = [t for t in chain_passes(size) if t < size.symbols]
    ring = {name: of_ring(results, name) for name in NAMES}
    kl = lambda name, t: (ring[name][t]["kl"], 0.0)  # noqa: E731
    found = []
    for name in ("random", "margin", "entropy", "left"):
        exact = AGREE if abs(ring[name][size.spins]["kl"]) < NOTHING else DISAGREE
        found.append((f"{title(name)}, one cell a pass: draws from p", "ring", {size.spins: exact}))
    for name in PATHS:
        value, error = of_chain(results, name, last)["kl"]
        exact = AGREE if abs(value) <= NORMAL * error + NOTHING else DISAGREE
        found.append((f"{title(name)}, one cell a pass: draws from p", "chain", {last: exact}))
    far = below((0.0, 0.0), kl("probability", size.spins))
    found.append(("probability of the drawn value, one cell a pass: not from p", "ring", {size.spins: far}))
    away = tuple(of_chain(results, "probability", last)["tv at least"])
    found.append(("probability of the drawn value, one cell a pass: not from p", "chain", {last: below((0.0, 0.0), away)}))  # type: ignore[arg-type]
    for other in ("random", "cosine"):
        found.append((f"suggested counts below {title(other)}", "ring", {t: below(kl("suggested", t), kl(other, t)) for t in some}))
    found.append(("margin below random, linear counts", "ring", {t: below(kl("margin", t), kl("random", t)) for t in some}))
    bound = lambda t: tuple(of_chain(results, "random", t)["kl at most"])  # noqa: E731
    own = {t: below(tuple(of_chain(results, "margin", t)["kl"]), bound(t)) for t in on_chain}  # type: ignore[arg-type]
    found.append(("margin below random, linear counts (its bound)", "chain", {t: UNTESTED if v == AGREE else v for t, v in own.items()}))
    for name in ("cap", "rescale"):
        again = {t: below(kl(name, t), kl("ancestral", t)) for t in ring_passes(size) if t > 2}
        found.append((f"{title(name)} below ReMDM, nothing hidden again", "ring", again))
    swept = {t: below(kl("sweep", t), (ring["random"][t]["kl"] / 2, 0.0)) for t in some}
    found.append(("a Gibbs sweep behind random halves the divergence", "ring", swept))
    return found


def verdict_table(results: Results, size: Size) -> str:
    """Each claim with the passes at which it holds and does not."""
    rows = []
    for claim, name, by_passes in claims(results, size):
        holds, fails = (", ".join(str(t) for t, v in by_passes.items() if v == verdict) for verdict in (AGREE, DISAGREE))
        rows.append([claim, name, holds or "—", fails or "—", together(list(by_passes.values()))])
    return markdown(["claim", "model", "holds at passes", "does not at", "verdict"], rows)


def draw(results: Results, size: Size) -> dict[str, Figure]:
    """Divergence of the ring and total variation of the chain against passes."""
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    ring, chain = figure.subplots(1, 2)
    for k, name in enumerate(SHOWN):
        style = {"marker": "osD^vP"[k], "color": palette.SERIES[k], "label": title(name), "markersize": 5}
        found = of_ring(results, name)
        some = [t for t in found if found[t]["kl"] > NOTHING]
        ring.plot(some, [found[t]["kl"] for t in some], **style)
        places = chain_passes(size)
        values = [of_chain(results, name, t) for t in places]
        chain.plot(places, [v["tv"][0] if "tv" in v else least(v) for v in values], **style)
    ring.set(xscale="log", yscale="log", xlabel="passes", ylabel="KL(p || decoder), nats", title=f"ring of {size.spins} spins, exact")
    what = "total variation: margin by log p,\nthe others at least"
    chain.set(xscale="log", xlabel="passes", ylabel=what, ylim=(0, 1), title=f"hidden Markov chain of {size.symbols} symbols")
    for axes, places in ((ring, ring_passes(size)), (chain, chain_passes(size))):
        axes.set_xticks(places, [str(t) for t in places])
        axes.minorticks_off()
    handles, labels = chain.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return {"passes": figure}
