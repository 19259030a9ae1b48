"""What a site costs on small and large lattices, and what the first call takes: whether anything grows faster than the lattice."""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings

from ._measure import Figure, Report, figure, fresh_process, repeats

SIDES, QUICK = (32, 128, 512, 1024), (8, 16)
UPDATES = 1 << 27  # of the shorter of two runs
LONGER = 3  # times longer is the other
WORDS = {"one": "one coupling", "normal": "normal couplings"}
FLAT, FIRST = 1.3, 3.0  # goals: the dearest site beside the cheapest, seconds of the first call on the largest lattice


def run(quick: bool) -> Report:
    """Ising models with one coupling for all bonds, whose chains are packed, and with a coupling of its own for each bond."""
    figures: list[Figure] = []
    for kind, words in WORDS.items():
        costs = {}
        for side in QUICK if quick else SIDES:
            found = fresh_process("sizes", kind, side, repeats(quick), UPDATES >> 10 if quick else UPDATES)
            costs[side] = found["cost"]
            lattice, last = f"{words}, {side} x {side} wrapped", side == SIDES[-1]
            figures.append(figure("sizes", "gmlmdsl Model.sample", f"a site update, {lattice}", costs[side], "ns", "32 chains"))
            most = FIRST if last and kind == "one" else None
            figures.append(figure("sizes", "gmlmdsl", f"first call, {lattice}", [found["first"]], "s", "compilation too", most=most))
            figures.append(figure("sizes", "gmlmdsl", f"first call, {lattice}", [found["first_processor"]], "processor s"))
            figures.append(figure("sizes", "gmlmdsl", f"from text to model, {lattice}", [found["bind"]], "s"))
        middle = [statistics.median(c) for c in costs.values()]
        figures.append(figure("sizes", "gmlmdsl", f"dearest site / cheapest, {words}", [max(middle) / min(middle)], "ratio", most=FLAT))
    return Report(tuple(figures), ())


def _child(kind: str, side: int, times: int, updates: int) -> dict[str, object]:
    import numpy as np

    import gmlmdsl as gm

    from ._tasks import CHAINS, ISING

    gm.Model  # noqa: B018 - loads JAX
    begun = time.perf_counter()
    model = gm.parse(ISING, L=side).model()
    bound = time.perf_counter()
    edges = next(p.shape for p in model.graph.parameters if p.name == "J")
    couplings = np.full(edges, 0.44) if kind == "one" else np.random.default_rng(1).normal(size=edges)
    params = {"h": np.zeros(side * side), "J": couplings}

    def call(steps: int) -> float:
        start = time.perf_counter()
        model.sample(params, "sweep", draws=1, warmup=0, thin=steps, chains=CHAINS, progress=False, keep_draws=False)
        return time.perf_counter() - start

    processor = time.process_time()
    first, processor = call(1), time.process_time() - processor
    short = max(1, updates // (side * side * CHAINS))
    pairs = [(call(short), call(LONGER * short)) for _ in range(times)]
    each = 1e9 / ((LONGER - 1) * short * side * side * CHAINS)
    return {"bind": bound - begun, "first": first, "first_processor": processor, "cost": [(b - a) * each for a, b in pairs]}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(_child(sys.argv[1], *(int(a) for a in sys.argv[2:]))))
