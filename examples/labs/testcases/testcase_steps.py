# How long Lab E's network is trained: so long that it errs now and then, by a rule that sees nothing but plain draws.
# python examples/labs testcase_steps [--quick] [--out FOLDER] [--page]
#
# Trained for few steps the network knows nothing, for many it hardly errs. Between the two the interval is halved, until the share of right
# cases is one of WANTED. Draws are for names of the corpus, and of seeds that the laboratory has not.
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import laboratory
import numpy as np
import testcase_task as task
from testcases import KEPT, QUICK, Network, Size, Trial

HERE = Path(__file__).resolve().parent
WANTED = (0.6, 0.9)  # right cases of those asked for
SEEDS = (100, 101)


@dataclass(frozen=True)
class Search:
    """The laboratory's size but for its steps, and between which steps, in which grain, their number is sought."""

    lab: Size
    least: int = 200
    most: int = 1000
    grain: int = 50


def accuracy(search: Search, out: Path, steps: int) -> list[float]:
    """Right cases of those asked for, seed by seed, when nothing is verified."""
    size, network = search.lab, Network(replace(search.lab, steps=steps), out / str(steps))
    found = []
    for seed in SEEDS:
        names = np.random.default_rng(seed).choice(task.LEARNT, 10).tolist()
        strings = Trial(network, seed).draw("nucleus", task.prompts(names, size.times, seed), 1)[0]
        found.append(float(np.mean([len(task.right_cases(s, size.cases)) for s in strings]) / size.cases))
    return found


def next_steps(search: Search, tried: dict[int, float]) -> int | None:
    """Of the next training, from mean accuracies by steps; None where one is wanted, or none is left between two."""
    low = max((s for s, a in tried.items() if a < WANTED[0]), default=search.least)
    high = min((s for s, a in tried.items() if a > WANTED[1]), default=search.most)
    if any(WANTED[0] <= a <= WANTED[1] for a in tried.values()) or high - low < 2 * search.grain:
        return None
    return (low + high) // 2 // search.grain * search.grain


def searched(search: Search, out: Path) -> dict[str, list[float]]:
    """By steps, in the order in which they were tried; trained weights are kept, so that a search that was killed goes on with them."""
    tried: dict[int, list[float]] = {}
    while (steps := next_steps(search, {k: float(np.mean(a)) for k, a in tried.items()})) is not None:
        tried[steps] = accuracy(search, out, steps)
    return {str(k): a for k, a in tried.items()}


def parts(size: Search, out: Path) -> dict[str, Callable[[], Any]]:
    return {"search": partial(searched, size, out)}


def tables(results: laboratory.Results, size: Search) -> dict[str, str]:
    rows = [[k, *(f"{100 * a:.1f}" for a in found), _verdict(float(np.mean(found)))] for k, found in results["search"].items()]
    return {"testcase_steps-tried": laboratory.markdown(["steps", *(f"right cases, seed {k}, %" for k in SEEDS), ""], rows)}


def _verdict(share: float) -> str:
    return "errs too much" if share < WANTED[0] else "hardly errs" if share > WANTED[1] else "taken"


def lab() -> laboratory.Lab:
    sizes = {"quick": Search(replace(QUICK, steps=0), 10, 40, 10), "default": Search(replace(Size(), steps=0))}
    # Of the laboratory's settings those of the network and its corpus: the others play no part in plain draws.
    settings = {k: KEPT[k] for k in ("decay", "front", "longest", "telling", "tested")} | {"wanted": WANTED, "seeds": SEEDS}
    return laboratory.Lab("testcase_steps", HERE, sizes, parts, tables, lambda results, size: {}, settings)
