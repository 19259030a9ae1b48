"""A model, on paper, of communication against computation on up to 1000 accelerators; writes `docs/explanation/scaling.md`.

The bytes of each exchange are those of compiled programs, which `test_scaling.py` checks on 1, 2 and 4 virtual devices. Every
time is computed from assumptions, and none is measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "scaling.md"
DEVICES = (1, 2, 4, 8, 64, 1000)
NODE = 8  # accelerators that share the fast links of a machine
FAST, SLOW = 450e9, 50e9  # bytes per second of the links of an accelerator, within a machine and between machines
NEAR, FAR = 10e-6, 20e-6  # seconds of latency of a step of an exchange, within a machine and between machines
ROWS_RATE = 10e12  # operations per second of a loss in float64
TRAIN_RATE = 200e12  # operations per second of a training
WORD_RATE = 2e9  # words of 32 chains that an accelerator redraws per second


def rows_bytes(cells: int, values: int) -> int:
    """Bytes of the one all-reduce of a loss and its gradient: a table of all pairs of cells, fields, and sums, in float64."""
    entries = cells * (values - 1)
    return 8 * (entries**2 + entries + cells)


def colour_bytes(cells: int, colours: int, chains: int) -> int:
    """Bytes that each device holds after the one all-gather of a colour: a word for each cell and 32 chains."""
    return 4 * (cells // colours) * math.ceil(chains / 32)


def training_bytes(weights: int) -> int:
    """Bytes of the all-reduce of the gradient of a training, in float32; a few sums are beside it."""
    return 4 * weights


def link(devices: int) -> tuple[float, float]:
    """Bytes per second and seconds of latency of the slowest link among so many devices."""
    return (FAST, NEAR) if devices <= NODE else (SLOW, FAR)


def all_reduce(devices: int, size: float) -> float:
    """Seconds of an all-reduce of `size` bytes: 2 (D - 1) / D size / bandwidth + 2 ceil(log2 D) latency."""
    bandwidth, latency = link(devices)
    return 2 * (devices - 1) / devices * size / bandwidth + 2 * math.ceil(math.log2(devices)) * latency


def all_gather(devices: int, size: float) -> float:
    """Seconds of an all-gather after which each device holds `size` bytes: half an all-reduce."""
    return all_reduce(devices, size) / 2


@dataclass(frozen=True)
class Work:
    """A workload.

    Attributes:
        name: what it is.
        alone: seconds of one device.
        exchange: seconds of communication by the number of devices.
        most: the number of devices among which it can be divided.
    """

    name: str
    alone: float
    exchange: dict[int, float]
    most: int

    def speedup(self, devices: int) -> float:
        """T(1) / T(D), where T(D) = T(1) / min(D, most) + exchange(D)."""
        return self.alone / (self.alone / min(devices, self.most) + self.exchange[devices])


def works() -> list[Work]:
    """The examples of the page."""
    fit = 4 * 1e7 * (50 * 1) ** 2 / ROWS_RATE  # two matrix products of rows x entries x entries, two operations each
    cells, chains = 4096**2, 32
    sweep = cells * math.ceil(chains / 32) / WORD_RATE
    weights, pieces = 67_000_000, 1024 * 50
    train = 6 * weights * pieces / TRAIN_RATE
    return [
        Work("rows: 10^7 rows of 50 cells of two values, one loss with its gradient", fit, _each(rows_bytes(50, 2)), 10**7),
        Work("chains: 1024 chains, any sampler", 1.0, dict.fromkeys(DEVICES, 0.0), 1024),
        Work(
            "one lattice: 4096 x 4096 spins, 32 chains, a sweep of two colours", sweep, _gathers(colour_bytes(cells, 2, chains)), cells // 2
        ),
        Work(
            "training: 67 million weights, batches of 1024 rows of 50 subword tokens, one step", train, _each(training_bytes(weights)), 1024
        ),
    ]


def _each(size: int) -> dict[int, float]:
    return {d: all_reduce(d, size) for d in DEVICES}


def _gathers(size: int) -> dict[int, float]:
    return {d: 2 * all_gather(d, size) for d in DEVICES}


def page() -> str:
    """The page."""
    fit, _, lattice, train = works()
    head = " | ".join(f"D = {d}" for d in DEVICES)
    table = [f"| work | T(1), ms | {head} |", "|---|" + "---|" * (len(DEVICES) + 1)]
    for w in works():
        alone = "any" if not any(w.exchange.values()) else f"{1e3 * w.alone:.3g}"
        table.append(f"| {w.name} | {alone} | " + " | ".join(f"{w.speedup(d):.3g}" for d in DEVICES) + " |")
    bound = SLOW / (4 * WORD_RATE)
    far = 1000
    return f"""# Several devices, on paper

Written by `tests/scaling.py`. This page computes the cost of communication on up to {far} accelerators.
**No time on this page is measured.** The number and the size of the exchanges are those of compiled programs.

## The exchanges of a compiled program

`tests/test_scaling.py` compiles each program on 1, 2 and 4 virtual devices and compares its collective operations with the table.
A program on one device has no collective operations. The bytes do not depend on the number of devices.

| work | call | exchange | bytes |
|---|---|---|---|
| rows | `fit(mesh_axis=)` | one all-reduce for each loss with its gradient | 8 (m^2 + m + n) for n cells of q values, all pairs coupled, m = n (q - 1) |
| chains | `sample(mesh_axis=)` | none | 0 |
| a lattice | `sample(cell_axis=)` | one all-gather for each colour | 4 for each cell of the colour and 32 chains of two values |
| training | `fit(method=gm.Training(..), mesh_axis=)` | one all-reduce for each step | 4 for each weight, and a few sums |

## Assumptions

1. Let D be the number of devices, and let the work be divided into at most *parts* equal parts. Time is T(D) = T(1) / min(D, parts) +
   exchanges(D). No computation takes place during an exchange.
2. An all-reduce of B bytes takes 2 (D - 1) / D B / bandwidth + 2 ceil(log2 D) latency. An all-gather takes half of this time.
3. Up to {NODE} devices share a machine, with a bandwidth of {FAST / 1e9:.0f} GB/s and a latency of {NEAR * 1e6:.0f} microseconds. If there are more devices,
   all exchanges have {SLOW / 1e9:.0f} GB/s and {FAR * 1e6:.0f} microseconds.
4. A loss is computed at {ROWS_RATE / 1e12:.0f} Tflop/s in float64. Its operations are those of two matrix products of rows by m by m.
5. A training is computed at {TRAIN_RATE / 1e12:.0f} Tflop/s. It takes 6 operations for each weight and subword token.
6. A *word* contains one cell of two values in 32 chains. A sweep redraws {WORD_RATE / 1e9:.0f} billion words per second.

The rates are assumed round numbers. [On an accelerator](../reference/accelerator.md) has the measurements.

## Speed-up T(1) / T(D)

{chr(10).join(table)}

- **Rows.** The transfer of {rows_bytes(50, 2) / 1e3:.0f} kB takes less time than the latency, so latency limits the fit. At D = {far} the exchange takes
  {1e6 * fit.exchange[far]:.0f} microseconds, and the computation takes {1e6 * fit.alone / far:.0f} microseconds.
- **Chains** need no exchange. The speed-up is at most the number of chains.
- **A lattice** gains little from several machines. Each device receives the codes of all cells once in a sweep. The speed-up therefore
  stays below bandwidth / (4 x words per second). For {SLOW / 1e9:.0f} GB/s this bound is {bound:.3g}. A sweep takes {1e3 * lattice.alone:.2g} ms on one device. Its exchanges take
  {1e3 * lattice.exchange[far]:.2g} ms at D = {far}. Distribute chains first, and distribute cells only within a machine. An exchange of the borders alone would give
  a larger speed-up, but this version does not have such an exchange.
- **Training.** The gradient of {training_bytes(67_000_000) / 1e6:.0f} MB takes {1e3 * train.exchange[far]:.3g} ms at D = {far}. The computation takes {1e3 * train.alone / far:.2g} ms. Larger batches
  divide the cost of the exchange.
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
