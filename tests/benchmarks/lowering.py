"""From text to a factor graph: seconds, and the memory of the whole process."""

from __future__ import annotations

import json
import sys
import time

from ._measure import Report, figure, fresh_process, resident_bytes


def run(quick: bool) -> Report:
    """The Ising program on a wrapped grid, in fresh processes."""
    side, repeats = (100, 1) if quick else (708, 3)
    found = [fresh_process("lowering", side) for _ in range(repeats)]
    first = found[0]
    words = f"{first['factors']:,} factors"
    target = "" if quick else "goal: under 2 s"
    memory = f"of which {first['before'] / 2**20:.0f} MiB before the program is read" + ("" if quick else "; goal: under 1024 MiB")
    return Report(
        (
            figure("lowering", "gmlmdsl", f"text to factor graph, {words}", [f["lower"] for f in found], "s", target),
            figure("lowering", "gmlmdsl", "factors lowered per second", [f["factors"] / f["lower"] for f in found], "1/s"),
            figure("lowering", "gmlmdsl", "most memory held", [f["memory"] / 2**20 for f in found], "MiB", memory),
        )
    )


def _child(side: int) -> dict[str, float]:
    import gmlmdsl as gm

    from ._tasks import ISING

    gm.parse(ISING, L=4).model()  # imports, and the grammar's tables
    before = resident_bytes()
    start = time.perf_counter()
    graph = gm.parse(ISING, L=side).model().graph
    took = time.perf_counter() - start
    factors = sum(g.n for g in graph.factors)
    return {"factors": factors, "lower": took, "before": before, "memory": resident_bytes()}


if __name__ == "__main__":
    print(json.dumps(_child(int(sys.argv[1]))))
