# What blocks buy, and what drawing all cells at once costs: Corollary 1, Lee's ratio, the bias of independent draws, the product gap.
from dataclasses import dataclass

import numpy as np
import pictures
from pictures import Table
from scipy.special import comb, log_expit

import gmlmdsl as gm

N, CLIQUE, SIZE = 10, 8, 9  # cells, cells of the clique, cells redrawn at once
COUPLINGS = (0.1, 0.2, 0.4, 0.8)
STEPS = 60
DELTA = 0.05
WITHIN = ((0.5, 1), (0.5, 100), (0.1, 1), (0.05, 1000))  # delta and M of Corollary 1
LEE_CELLS, LEE_COUPLINGS = 4, (0.05, 0.3, 0.6)
GRID = tuple(np.round(np.linspace(0, 1.2, 25), 3).tolist())


@dataclass(frozen=True)
class Escape:
    """Corollary 1 at one coupling.

    Attributes:
        waiting: P(k-Gibbs has not been in the mode +1 after 0, 1, .. steps).
        staying: P(independent parallel has always had a sum over the clique of at most -2).
        missed: at most this is P(a step of k-Gibbs misses the mode), by Proposition 4.
        kept: so many steps it stays with probability 1 - DELTA at least, by Proposition 5 with the binomial tail.
        failing: how many conditions of Corollary 1 fail, of all.
    """

    coupling: float
    waiting: np.ndarray
    staying: np.ndarray
    missed: float
    kept: float
    failing: tuple[int, int]


@dataclass(frozen=True)
class Within:
    """Corollary 1 at the least clique, field and coupling that its assumptions allow; all cells are in the clique.

    Attributes:
        coupling: J.
        bounds: the numbers of the theory.
        arrived: P(one step of N-Gibbs is in the mode).
        left: P(the sum over the clique has been above -2 within M steps of independent parallel), from -2 or the next sum below.
    """

    coupling: float
    bounds: gm.theory.ModeSeparation
    arrived: float
    left: float


@dataclass(frozen=True)
class Found:
    escapes: list[Escape]
    within: list[Within]
    lee: dict[float, list[float]]  # by coupling, C_1 / C_k for k = 1, 2, ..
    grid: tuple[float, ...]
    bias: list[float]  # TV from p to where independent parallel settles
    gaps: dict[int, list[float]]  # by size of the block, the product gap in nats


def in_first_mode(x: np.ndarray) -> np.ndarray:
    return (x[:, :CLIQUE] == 1).all(axis=1)


def has_left(x: np.ndarray) -> np.ndarray:
    """Whether the clique's sum is above -2: independent parallel starts at -2 or below."""
    return x[:, :CLIQUE].sum(axis=1) > -2


def escape(model: gm.Model, coupling: float, steps: int) -> Escape:
    """Both chains from a clique with three cells +1 and five -1, sum -2; no fields."""
    params = {"h": 0.0, "J": coupling}
    start = np.where(np.arange(N) < 3, 1, -1)
    waiting = gm.theory.hitting_tail(model, params, in_first_mode, start, mask="block", steps=steps)
    staying = gm.theory.hitting_tail(model, params, has_left, start, sampler="parallel", steps=steps)
    bounds = gm.theory.mode_separation(model, params, mask="block", clique=range(CLIQUE), delta=DELTA)
    failing = sum(not c.holds for c in bounds.conditions), len(bounds.conditions)
    return Escape(coupling, waiting, staying, float(bounds.c), float(bounds.binomial_stay_steps), failing)


def binomial(n: int, log_odds: float) -> np.ndarray:
    """P(k of n cells become +1) for k = 0 .. n."""
    k = np.arange(n + 1)
    return comb(n, k) * np.exp(k * log_expit(log_odds) + (n - k) * log_expit(-log_odds))


def within(delta: float, steps: int) -> Within:
    """The smallest model that the assumptions allow as printed, J0 = J - the sum of all |h_i|, and its exact probabilities.

    All cells are alike, so that the number of cells at +1 is a chain of its own: with n of them at +1 each of these sees the field
    h + J (2 n - size - 1), and each other h + J (2 n - size + 1).
    """
    size = int(np.ceil(8 * (1 + np.log(4 * steps / delta))))
    h = float(np.log(2 * (4 - delta) / delta) / 2 / size) * (1 + 1e-9)
    J = size * h + size * float(np.log(2)) / 2 * (1 + 1e-9)
    model = gm.load(pictures.HERE / "modes.gmlm", N=size, C=size, k=size).model()
    bounds = gm.theory.mode_separation(model, {"h": h, "J": J}, k=size, clique=range(size), delta=delta, steps=steps)
    up = np.arange(size + 1)
    energy = h * (2 * up - size) + J * ((2 * up - size) ** 2 - size) / 2 + np.log(comb(size, up))
    p = np.exp(energy - energy.max())
    low = up[: (size - 2) // 2 + 1]  # sums of at most -2
    log_odds = [2 * (h + J * (2 * low - size - s)) for s in (1, -1)]
    rows = [np.convolve(binomial(n, log_odds[0][n]), binomial(size - n, log_odds[1][n])) for n in low]
    inside, leaving = np.array([row[: len(low)] for row in rows]), np.array([row[len(low) :].sum() for row in rows])
    law, left = np.eye(len(low))[-1], 0.0
    for _ in range(steps):
        law, left = law @ inside, left + float(law @ leaving)
    return Within(J, bounds, float(p[-1] / p.sum()), left)


def ratios(coupling: float) -> list[float]:
    """C_1 / C_k of uniform k-subsets of a clique."""
    model, params = clique(coupling)
    constants = [float(gm.theory.poincare_constant(model, params, f"k{k}")) for k in range(1, LEE_CELLS + 1)]
    return [constants[0] / c for c in constants]


def clique(coupling: float) -> tuple[gm.Model, dict[str, np.ndarray]]:
    model = gm.load(pictures.HERE / "clique.gmlm").model()
    return model, {"h": np.zeros(4), "J": np.full(6, coupling)}


def compute(small: bool = False) -> Found:
    couplings, steps, grid = (COUPLINGS[-1:], 20, GRID[::8]) if small else (COUPLINGS, STEPS, GRID)
    modes = gm.load(pictures.HERE / "modes.gmlm", N=N, C=CLIQUE, k=SIZE).model()
    model, _ = clique(0.0)
    at = [{"h": np.zeros(4), "J": np.full(6, c)} for c in grid]
    bias = [gm.theory.stationary_bias(model, p, "parallel").total_variation for p in at]
    gaps = {k: [float(gm.theory.product_gap(model, p, f"k{k}")) for p in at] for k in (2, 3, 4)}
    escapes, inside = [escape(modes, c, steps) for c in couplings], [within(*at) for at in WITHIN[: 1 if small else None]]
    return Found(escapes, inside, {c: ratios(c) for c in LEE_COUPLINGS}, grid, bias, gaps)


def draw(found: Found) -> dict[str, pictures.Figure]:
    return {"corollary1": _escapes(found), "lee": _lee(found), "gaps": _gaps(found)}


def _escapes(found: Found) -> pictures.Figure:
    figure, (reach, stay) = pictures.panels([3.0, 4.0])
    for k, e in enumerate(found.escapes):
        at, style = np.arange(len(e.waiting)), {"color": pictures.SERIES[k], "linewidth": 2.8 - 0.6 * k}  # where they agree, all are seen
        reach.plot(at, 1 - e.waiting, label=f"J = {e.coupling:g}", **style)
        reach.plot(at, 1 - e.missed**at, color=style["color"], linestyle=":")
        stay.plot(at, e.staying, label=f"J = {e.coupling:g}", **style)
    reach.set(ylabel="P(has been in the mode)", ylim=(0, 1.03))
    reach.set_title(f"{SIZE}-Gibbs reaches the other mode")
    reach.plot([], [], color=pictures.INK, linestyle=":", label="at least, by Prop. 4")
    reach.legend(handles=[reach.lines[-1]], loc="lower right")
    stay.set(ylabel="P(has never left)", xlabel="steps", ylim=(0, 1.03))
    stay.set_title("All cells at once, each on its own: it stays")
    pictures.legend_below(stay, 4)
    return figure


def _lee(found: Found) -> pictures.Figure:
    figure, (axes,) = pictures.panels([4.0])
    for k, (coupling, values) in enumerate(found.lee.items()):
        style = {"color": pictures.SERIES[k], "marker": pictures.MARKERS[k], "markersize": 5}
        axes.plot(np.arange(1, len(values) + 1), values, label=f"J = {coupling:g}", **style)
    sizes = np.arange(1, LEE_CELLS + 1)
    axes.plot(sizes, sizes, color=pictures.INK, linestyle=":", label="k, the bound")
    axes.set(xlabel="k, cells redrawn at once", ylabel="C of one cell / C of k cells", xticks=sizes, yscale="log")
    pictures.plain_ticks(axes.yaxis, [1, 2, 3, 4, 6, 8, 12, 20, 50, 100, 200])
    axes.set_title("Lee's ratio on a clique of 4")
    pictures.legend_below(axes, 2)
    return figure


def _gaps(found: Found) -> pictures.Figure:
    figure, (bias, gaps) = pictures.panels([2.9, 3.9])
    bias.plot(found.grid, found.bias, color=pictures.SERIES[0])
    bias.set(ylabel="total variation to p", ylim=(0, None))
    bias.set_title("Where drawing all cells at once settles")
    for k, (size, values) in enumerate(found.gaps.items()):
        style = {"color": pictures.SERIES[k], "marker": pictures.MARKERS[k], "markersize": 4, "markevery": 4}
        gaps.plot(found.grid, values, label=f"blocks of {size}", **style)
    gaps.set(xlabel="coupling J, a clique of 4", ylabel="nats", ylim=(0, None))
    gaps.set_title("Product gap: what no product can carry")
    pictures.legend_below(gaps, 3)
    return figure


def tables(found: Found) -> list[Table]:
    lee = [[f"J = {c:g}", *(pictures.short(v) for v in values)] for c, values in found.lee.items()]
    heads = ["C of one cell / C of k, exact", *(f"k = {k}" for k in range(1, LEE_CELLS + 1))]
    return [_escape_table(found.escapes), _within_table(found.within), Table("lee", heads, lee), _gap_table(found)]


def _escape_table(escapes: list[Escape]) -> Table:
    last = len(escapes[0].waiting) - 1
    heads = ["J", f"P({SIZE}-Gibbs reaches the mode in {last} steps), exact", "at least, by Prop. 4, a bound"]
    heads += [f"P(independent parallel stays {last} steps), exact", f"steps it stays with probability {1 - DELTA:g} at least, a bound"]
    heads += [f"P(it stays so long, at most {last}), exact", "conditions of Corollary 1 that fail"]
    rows = []
    for e in escapes:
        values = (1 - e.waiting[-1], 1 - e.missed**last, e.staying[-1], e.kept, e.staying[int(min(e.kept, last))])
        rows.append([f"{e.coupling:g}", *(pictures.short(float(v)) for v in values), "{} of {}".format(*e.failing)])
    return Table("corollary1", heads, rows)


def _within_table(found: list[Within]) -> Table:
    heads = ["δ", "M", "cells", "h of a cell", "J", "conditions that fail", "P(one step of N-Gibbs is in the mode), exact"]
    heads += [
        "at least, by Prop. 4, a bound",
        "P(independent parallel leaves in M steps), exact",
        "steps it stays with probability 1 - δ, Prop. 5",
    ]
    rows = []
    for w in found:
        b, failing = w.bounds, sum(not c.holds for c in w.bounds.conditions)
        values = (b.delta, b.steps, b.clique.size, b.hG / b.clique.size, w.coupling, failing, w.arrived, 1 - b.c, b.stay_steps)
        row = [pictures.short(float(v)) for v in values]
        rows.append([*row[:-1], f"{w.left:.1e}" if w.left else "below 1e-300", row[-1]])
    return Table("corollary1-within", heads, rows)


def _gap_table(found: Found) -> Table:
    chosen = range(0, len(found.grid), max(1, len(found.grid) // 6))
    rows = [[f"{found.grid[i]:g}", pictures.short(found.bias[i]), *(pictures.short(g[i]) for g in found.gaps.values())] for i in chosen]
    return Table(
        "gaps", ["J", "TV of independent parallel to p, exact", *(f"product gap, blocks of {k}, nats, exact" for k in found.gaps)], rows
    )
