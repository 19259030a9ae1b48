# Lab B: how errors of a value grow with the length of strings, under rejection of symbols, the walk's first leaf, and the walk.
# python examples/guided/amplification.py [--small] [--out PICTURE.png]
import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import gmlmdsl as gm
from gmlmdsl.report import _palette as palette

HERE = Path(__file__).resolve().parent
NOISE, LENGTHS, LONG = (0.0, 0.2, 0.5, 1.0), (6, 12), 24  # of the longest no walk: a step is a pass over 2^25 prefixes
STEPS = {6: (30, 100, 300, 1000, 3000), 12: (100, 300, 1000, 3000, 10000)}
SEEDS = range(5)


def program(length: int, sd: float, steps: int = 400) -> gm.BoundProgram:
    """The programs of one length and noise."""
    return gm.load(HERE / "amplification.gmlm", L=length, sd=sd, steps=steps)


def away(bound: gm.BoundProgram, sampler: str, seed: int) -> float:
    """Total variation between the strings that a sampler gives, where it gives one, and the target; exact."""
    law = gm.theory.output_law(bound.model("words"), {}, sampler, seed=seed)
    p = law.probabilities / law.probabilities.sum()
    q = np.exp(np.asarray(bound.model("target").log_prob({}, law.strings), np.float64))
    return 0.5 * float(np.abs(p - q).sum() + 1 - q.sum())


def truth(length: int, tilt: float = 0.8) -> list[np.ndarray]:
    """V of all prefixes, level by level, in the order of binary numbers: E[exp(tilt x number of neighbours 1, 1) | prefix]."""
    behind, tables = np.ones(2), []  # by the last symbol
    for _ in range(length):
        tables.append(behind)
        behind = 0.5 * np.array([behind.sum(), behind[0] + np.exp(tilt) * behind[1]])
    levels, so_far = [np.array([0.5 * tables[-1].sum()])], np.ones(2)
    for table in tables[::-1]:
        levels.append((so_far.reshape(-1, 2) * table).ravel())
        so_far = np.repeat(so_far, 2)
        so_far[3::4] *= np.exp(tilt)
    return levels


def long_away(values: list[np.ndarray]) -> tuple[float, float]:
    """Total variation to the target of rejection of symbols, and of the first leaf after any number of steps, exactly; fair bits.

    The walk is reversible: an edge is a resistor of conductance p(child) V(child), and a leaf's share of the first leaves is the current
    into it. So a pass over the tree from its leaves gives the conductances below each prefix, and one from its root the currents.
    """
    below, edges = np.full(len(values[-1]), np.inf), []
    for level in range(len(values) - 1, 0, -1):
        wire = 0.5**level * values[level]
        edges.append(1 / (1 / wire + 1 / below))
        below = edges[-1].reshape(-1, 2).sum(axis=1)
    symbols, current = np.ones(1), np.ones(1)
    for v, edge in zip(values[1:], edges[::-1], strict=True):
        symbols, current = (_shared(mass, weight) for mass, weight in ((symbols, v), (current, edge)))
    target = values[-1] / values[-1].sum()
    return 0.5 * float(np.abs(symbols - target).sum()), 0.5 * float(np.abs(current - target).sum())


def _shared(mass: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The mass of each prefix between its two children, by their weights."""
    pairs = weight.reshape(-1, 2)
    return (mass[:, None] * pairs / pairs.sum(axis=1, keepdims=True)).ravel()


def noisy(length: int, sd: float, seed: int) -> list[np.ndarray]:
    """V exp(sd e), e standard normal of each prefix that is no whole string."""
    rng, exact = np.random.default_rng(seed), truth(length)
    return [*(v * np.exp(sd * rng.standard_normal(len(v))) for v in exact[:-1]), exact[-1]]


def compute(small: bool) -> dict[tuple[str, int, float, int], list[float]]:
    """By method, length, noise and steps: the distance for each seed of the noise."""
    found: dict[tuple[str, int, float, int], list[float]] = {}
    for length in LENGTHS[:1] if small else LENGTHS:
        for sd in NOISE[::3] if small else NOISE:
            seeds = SEEDS[:1] if small or sd == 0 else SEEDS
            bound = program(length, sd)
            found["symbols", length, sd, 0] = [away(bound, "symbols", s) for s in seeds]
            found["first leaf", length, sd, 0] = [away(bound, "first", s) for s in seeds]
            for steps in STEPS[length][::2] if small else STEPS[length]:
                bound = program(length, sd, steps)
                found["walk", length, sd, steps] = [away(bound, "walk", s) for s in seeds]
    for sd in () if small else NOISE:
        both = [long_away(noisy(LONG, sd, s)) for s in (SEEDS[:1] if sd == 0 else SEEDS)]
        found["symbols", LONG, sd, 0], found["first leaf", LONG, sd, 0] = ([v[k] for v in both] for k in (0, 1))
    return found


def table(found: dict[tuple[str, int, float, int], list[float]]) -> str:
    """A line for each method, length and noise: means over seeds."""
    lines = [f"{'method':14}{'L':>4}{'sd':>6}{'steps':>8}{'total variation':>17}{'least':>9}{'most':>9}"]
    for (method, length, sd, steps), values in found.items():
        lines.append(f"{method:14}{length:4}{sd:6}{steps or '':>8}{np.mean(values):17.4f}{min(values):9.4f}{max(values):9.4f}")
    return "\n".join(lines)


def draw(found: dict[tuple[str, int, float, int], list[float]]) -> Figure:
    """The walk against steps, a panel for each length, beside what the others do."""
    lengths = sorted({k[1] for k in found if k[0] == "walk"})
    figure = Figure(figsize=(4.2 * len(lengths), 3.6), layout="constrained")
    for panel, length in enumerate(lengths):
        axes = figure.add_subplot(1, len(lengths), panel + 1)
        for k, sd in enumerate(sorted({key[2] for key in found})):
            own = {key[3]: np.mean(v) for key, v in found.items() if key[:3] == ("walk", length, sd)}
            axes.loglog(list(own), list(own.values()), "o-", color=palette.SERIES[k], label=f"walk, sd {sd:g}")
            for name, style in (("symbols", ":"), ("first leaf", "--")):
                axes.axhline(max(float(np.mean(found[name, length, sd, 0])), 1e-6), color=palette.SERIES[k], linestyle=style, linewidth=1)
        axes.set_ylim(1e-5, 1)
        axes.set_title(f"L = {length}; dotted: symbols, dashed: first leaf", fontsize=9)
        axes.set_xlabel("steps")
        axes.set_ylabel("total variation to the target")
        axes.legend(frameon=False, fontsize=8)
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Error amplification, exactly where that is affordable.")
    parser.add_argument("--out", type=Path, default=Path("amplification.png"))
    parser.add_argument("--small", action="store_true", help="short strings and one seed")
    options = parser.parse_args()
    computed = compute(options.small)
    print(table(computed))
    draw(computed).savefig(options.out, dpi=130)
    print(f"wrote {options.out}")
