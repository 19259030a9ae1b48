# Figure 3 of the paper: steps that k-Gibbs, and independent parallel draws, take from one mode of a clique to the other; exact beside
# Monte Carlo with its budget.
import time
import warnings
from dataclasses import dataclass

import numpy as np
import pictures
from pictures import Number, Table

import gmlmdsl as gm

N, CLIQUE, FIELD = 10, 4, 5.0
SIZES = tuple(range(1, N + 1))
COUPLINGS = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
BUDGET, CHAINS = 1000, 200
STAGES = (30, 200, BUDGET)  # steps that chains are run for, until each has hit


@dataclass(frozen=True)
class Cell:
    """One k at one coupling; k is 0 for independent parallel, which redraws every cell given the old values of the others.

    Attributes:
        exact: expected steps.
        capped: expected steps, those beyond the budget counted as the budget.
        spread: the standard deviation of such a count, exact.
        drawn, error: the mean of the chains' counts, and its standard error as they show it.
    """

    size: int
    coupling: float
    exact: float
    capped: float
    spread: float
    drawn: float
    error: float
    chains: int

    @property
    def off(self) -> float:
        """How far Monte Carlo is from exact, in exact standard errors; 0 where nothing varies."""
        return abs(self.drawn - self.capped) / (self.spread / np.sqrt(self.chains)) if self.spread > 1e-3 else 0.0


@dataclass(frozen=True)
class Found:
    """All cells, the processor time of their exact hitting times, and the budget of chains."""

    cells: list[Cell]
    seconds: float
    budget: int

    def at(self, coupling: float) -> list[Cell]:
        return [c for c in self.cells if c.coupling == coupling and c.size]

    def apart(self, coupling: float) -> Cell:
        return next(c for c in self.cells if c.coupling == coupling and not c.size)


def in_first_mode(x: np.ndarray) -> np.ndarray:
    """Whether all cells of the clique are +1, of configurations along the last axis."""
    return (x[..., :CLIQUE] == 1).all(axis=-1)


def steps_drawn(model: gm.Model, params: dict[str, float], sampler: str, budget: int, chains: int, seed: int) -> np.ndarray:
    """Steps to the mode in chains of the sampler, at most the budget."""
    start = -np.ones(N, int)
    for stage in [s for s in STAGES if s < budget] + [budget]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gm.SamplingWarning)  # that chains have not settled: how they begin is what is asked
            drawn = model.sample(params, sampler, draws=stage, warmup=0, chains=chains, init=start, seed=seed, progress=False)
        hit = in_first_mode(np.asarray(drawn["posterior"]["x"]))
        if hit.any(axis=1).all():
            break
    return np.where(hit.any(axis=1), hit.argmax(axis=1) + 1, budget)


def compute(small: bool = False) -> Found:
    """Every k and coupling; in small some of them, with few chains."""
    sizes, couplings, budget, chains = ((1, 5), (2.0, 6.0), 60, 60) if small else (SIZES, COUPLINGS, BUDGET, CHAINS)
    start, seconds, cells = -np.ones(N, int), 0.0, []
    for size in (*sizes, 0):
        model = gm.load(pictures.HERE / "modes.gmlm", N=N, C=CLIQUE, k=size or N).model()
        sampler = "gibbs" if size else "parallel"
        for coupling in couplings:
            params = {"h": FIELD, "J": coupling}
            began = time.process_time()
            exact = float(gm.theory.hitting_time(model, params, in_first_mode, sampler, start=start))
            seconds += time.process_time() - began
            tail = gm.theory.hitting_tail(model, params, in_first_mode, start, sampler, steps=budget - 1)
            capped = float(tail.sum())
            spread = np.sqrt(max(0.0, float(((2 * np.arange(budget) + 1) * tail).sum()) - capped**2))
            steps = steps_drawn(model, params, sampler, budget, chains, seed=1000 * size + round(10 * coupling))
            mean, error = float(steps.mean()), float(steps.std(ddof=1) / np.sqrt(chains))
            cells.append(Cell(size, coupling, exact, capped, float(spread), mean, error, chains))
    return Found(cells, seconds, budget)


def draw(found: Found) -> dict[str, pictures.Figure]:
    """Lines: exact. Marks: Monte Carlo."""
    couplings = sorted({c.coupling for c in found.cells})
    figure, (axes,) = pictures.panels([4.4])
    for k, coupling in enumerate(couplings):
        cells, colour = found.at(coupling), pictures.SERIES[k % len(pictures.SERIES)]
        sizes = np.array([c.size for c in cells])
        axes.plot(sizes, [c.capped for c in cells], color=colour, label=f"J = {coupling:g}")
        shifted = sizes + 0.05 * (k - (len(couplings) - 1) / 2)
        drawn, error = np.array([c.drawn for c in cells]), np.array([2 * c.error for c in cells])
        aside, place = found.apart(coupling), sizes[-1] + 1.5 + 0.05 * (k - (len(couplings) - 1) / 2)
        axes.hlines(aside.capped, sizes[-1] + 1, sizes[-1] + 2, color=colour)
        shifted, drawn, error = np.append(shifted, place), np.append(drawn, aside.drawn), np.append(error, 2 * aside.error)
        axes.errorbar(shifted, drawn, error, fmt=pictures.MARKERS[k], color=colour, markersize=4, elinewidth=1, linestyle="none")
    axes.axhline(found.budget, color=pictures.MUTED, linestyle=":", linewidth=1)
    axes.set(yscale="log", xlabel="k, cells redrawn at once", ylabel=f"steps to the mode (at most {found.budget:,})")
    axes.set_xticks([*sizes, sizes[-1] + 1.5], [*map(str, sizes), "parallel"])
    axes.set_title("From all −1 to all +1 on a clique of 4")
    pictures.legend_below(axes, 3, title="lines: exact; marks: Monte Carlo, ± 2 standard errors")
    return {"figure3": figure}


def tables(found: Found) -> list[Table]:
    """Exact expected steps by k and coupling, and Monte Carlo beside the capped expectation."""
    couplings = sorted({c.coupling for c in found.cells})
    names = {s: f"k = {s}" for s in sorted({c.size for c in found.cells if c.size})} | {0: "independent parallel"}
    of = {(c.size, c.coupling): c for c in found.cells}
    times = [[name, *(pictures.short(of[s, c].exact) for c in couplings)] for s, name in names.items()]
    exact = Table("figure3-exact", ["exact", *(f"J = {c:g}" for c in couplings)], times)
    cells = [[name, *(_beside(of[s, c]) for c in couplings)] for s, name in names.items()]
    beside = Table("figure3-beside", ["exact / Monte Carlo", *(f"J = {c:g}" for c in couplings)], cells)
    worst = max(c.off for c in found.cells)
    count = len(found.cells)
    times_of = f"seconds of processor time for {count} exact hitting times, 1024 states each"
    rows = [
        Number(f"largest difference of Monte Carlo from exact, in standard errors, of {count} pairs", worst, "Monte Carlo", ""),
        Number(times_of, found.seconds, "measured where the page was built", ""),
    ]
    return [exact, beside, pictures.numbers("figure3-numbers", rows)]


def _beside(c: Cell) -> str:
    return f"{c.capped:.4g} / " + (pictures.pm(c.drawn, c.error) if c.error else pictures.short(c.drawn))
