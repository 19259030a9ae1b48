"""Programs with given variables, in every domain, and rows of data for them with one oracle for each row."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from oracle import Oracle

import gmlmdsl as gm

FIELDS = """
domain base = letters("ACGT")
input U[2, 4] : real
index site = range(3)
model fields {
  given y[i in site] : real
  given t : positive
  given r : real(lower = -1, upper = 1)
  given s[i in site] : spin
  given b : bit
  given k : range(3)
  given a[i in range(2)] : base
  var   x[i in site] : spin
  var   w : labels("sun", "rain", "snow")
  param h[i in site] ~ normal(0, 2)
  param beta ~ normal(0, 2)
  param v[c in base] ~ normal(0, 2)
  param m[q in range(3)] ~ normal(0, 2)
  let   warm[i in site] = sigmoid(y[i]) * t
  let   total = sum(y[i] * x[i] for i in site if i < 2)
  factor (h[i] + beta * y[i]) * x[i]                for i in site
  factor 0.4 * s[i] * x[i] * x[i + 1]               for i in site if i < 2
  factor v[a[j]] * (w == "rain")                    for j in range(2)
  factor if r > 0.2 then m[k] * (w == "snow") else 0.3 * (w == "sun") * b
  factor 0.2 * U[b, k] * x[k]
  factor 0.1 * total + 0.3 * warm[k] * x[1]
  factor 0.2 * y[if w == "sun" then k else 0] * x[2]
  factor 0.5 * sum(y[j] for j in site) * x[if y[0] > 0 then 0 else 1]
}
mask single = subsets(size = 1)
mask pairs  = subsets(x, size = 2)
mask whole  = everything()
mask leaning given y, k {
  choose {x[i]}    for i in site weight exp(0.5 * y[i])
  choose {x[0], w} weight k
}
mask agreeing given x, y { choose {x[i], x[i + 1]} for i in site if i < 2 weight exp(0.3 * y[i] * x[i] * x[i + 1])  choose {w} weight 0.5 }
mask noisy given r { each x[i] for i in site rate 0.5 + 0.4 * r  each w rate 0.3 }
sampler gibbs { update x[i] for i in site  update w }
sampler drawn { update K where K ~ leaning }
sampler seen  { update K where K ~ agreeing  update w }
"""

LAWS = """
domain way = spin
index tag = range(3)
index time = range(3)
model laws {
  given u[t in time] : tag
  given e : way
  var z[t in time] : tag
  param first[d in way, a in tag] : simplex
  param move[c in tag, a in tag, b in tag] : simplex
  z[0] ~ categorical(first[e])
  z[t] ~ categorical(move[u[t], z[t - 1]]) for t in time if t > 0
}
mask one = subsets(z, size = 1)
"""

HARD = """
index site = range(3)
model hard {
  given most : range(4)
  given y[i in site] : real
  var x[i in site] : bit
  param b ~ normal(0, 1)
  factor b * y[i] * x[i] for i in site
  require x[0] + x[1] + x[2] <= most
}
mask one = subsets(x, size = 1)
mask two = subsets(x, size = 2)
sampler pairs { update x[K] where K ~ two }
sampler sweep { update x[i] for i in site }
"""
ROWS = 6


class Rows:
    """A program, rows of x and of given data, and an oracle for each row."""

    def __init__(self, text: str, given: dict[str, Any], inputs: dict[str, Any] | None = None):
        self.text, self.given, self.inputs = text, given, inputs or {}

    @cached_property
    def model(self) -> Any:
        return gm.parse(self.text, **self.inputs).model()

    def row(self, r: int) -> dict[str, Any]:
        """The given data of one row, without an axis of rows."""
        shapes = {v.name: v.shape for v in self.model.graph.given}
        return {n: np.asarray(v)[r] if np.ndim(v) > len(shapes[n]) else v for n, v in self.given.items()}

    @cached_property
    def oracles(self) -> list[Oracle]:
        return [Oracle(self.model.program.checked, None, self.inputs, self.row(r)) for r in range(ROWS)]

    @cached_property
    def params(self) -> dict[str, np.ndarray]:
        return self.oracles[0].random_params(3)

    @cached_property
    def codes(self) -> np.ndarray:
        """One configuration for each row, possible there."""
        rng = np.random.default_rng(7)
        return np.stack([o.states[rng.choice(len(o.states), p=o.probabilities(self.params))] for o in self.oracles])

    def values(self, codes: np.ndarray) -> Any:
        found = {k: v.astype(int) for k, v in self.oracles[0].decode(codes).items()}
        return found if len(found) > 1 else next(iter(found.values()))

    @property
    def x(self) -> Any:
        return self.values(self.codes)


def _fields() -> Rows:
    rng = np.random.default_rng(11)
    given = {
        "y": rng.normal(size=(ROWS, 3)),
        "t": rng.gamma(2.0, size=ROWS),
        "r": rng.uniform(-1, 1, ROWS),
        "s": rng.choice([-1, 1], (ROWS, 3)),
        "b": rng.integers(0, 2, ROWS),
        "k": np.arange(ROWS) % 3,
        "a": rng.choice(list("ACGT"), (ROWS, 2)),
    }
    return Rows(FIELDS, given, {"U": rng.normal(size=(2, 4))})


CASES = {
    "fields": _fields(),
    "laws": Rows(LAWS, {"u": np.random.default_rng(1).integers(0, 3, (ROWS, 3)), "e": [1, -1, 1, 1, -1, 1]}),
    "hard": Rows(HARD, {"most": [1, 3, 2, 1, 2, 3], "y": np.random.default_rng(2).normal(size=(ROWS, 3))}),
    "same": Rows(HARD, {"most": 2, "y": np.random.default_rng(2).normal(size=3)}),
}
