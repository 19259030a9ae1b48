"""From a fresh process to the first draw of T1: what somebody waits for."""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise

from ._measure import Report, figure, fresh_process


def run(quick: bool) -> Report:
    """One draw of 32 chains, in fresh processes."""
    repeats = 1 if quick else 3
    found = [fresh_process("first_draw", int(quick)) for _ in range(repeats)]
    parts = (
        ("whole process", "seconds"),
        ("imports", "imports"),
        ("read and bind", "bind"),
        ("compile and draw", "first"),
        ("draw again", "again"),
    )
    return Report(tuple(figure("first_draw", "gmlmdsl", words, [f[key] for f in found], "s") for words, key in parts))


def _child(quick: bool) -> dict[str, float]:
    times = [time.perf_counter()]
    import gmlmdsl as gm

    from ._tasks import CHAINS, ising

    gm.Model  # noqa: B018 - loads JAX
    task = ising(quick)
    times.append(time.perf_counter())
    model = gm.parse(task.program, **task.inputs).model()
    times.append(time.perf_counter())
    for _ in range(2):
        model.sample(task.params, "sweep", draws=1, warmup=0, chains=CHAINS, progress=False, keep_draws=False)
        times.append(time.perf_counter())
    names = ("imports", "bind", "first", "again")
    return dict(zip(names, (b - a for a, b in pairwise(times)), strict=True))


if __name__ == "__main__":
    print(json.dumps(_child(bool(int(sys.argv[1])))))
