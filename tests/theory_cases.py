"""Programs of the tests of the theory room, beside those of `cases`: what each brings stands with it."""

from __future__ import annotations

from functools import cache

import numpy as np
from cases import CASES, Case, case
from oracle import Moved

ISING = """
graph G = complete(4)
model ising {
  var x[i in G.nodes] : spin
  param h[i in G.nodes]
  param J[(i, j) in G.edges]
  factor h[i] * x[i] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask k1 = subsets(x, size = 1)
mask k2 = subsets(x, size = 2)
mask k3 = subsets(x, size = 3)
mask k4 = everything(x)
mask coin  = bernoulli(x, rate = 0.4)
mask pair  = blocks({x[0], x[1]}, {x[2]}, {x[3], x[0]})
mask seeing given x { choose {x[i], x[j]} for (i, j) in G.edges weight exp(0.4 * x[i] * x[j])  choose {x[i]} for i in G.nodes weight 0.3 }
mask part  given x { choose {x[0], x[1]} weight x[2] == 1  choose {x[2], x[3]} weight 1 }
mask telling given x { choose {x[i]} for i in G.nodes weight x[i] == 1 }
mask blind = blocks({x[0]}, {x[1]})
sampler one   { update x[K] where K ~ k1 }
sampler two   { update x[K] where K ~ k2 }
sampler three { update x[K] where K ~ k3 }
sampler sees  { update x[K] where K ~ seeing }
sampler sweep { update x[i] for i in G.nodes }
sampler naive { update x independently }
sampler stuck { update x[K] where K ~ blind }
"""
POTTS = """
domain colour = labels("red", "green", "blue")
graph G = chain(3)
model potts {
  var x[i in G.nodes] : colour
  param h[a in colour]
  param J[(i, j) in G.edges, a in colour, b in colour]
  gauge zero_sum(J)
  gauge zero_sum(h)
  factor h[x[i]] for i in G.nodes
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
mask one  = subsets(x, size = 1)
mask two  = subsets(x, size = 2)
mask ends = blocks(G.edges)
mask like given x { choose {x[i], x[j]} for (i, j) in G.edges weight 1 + 2 * (x[i] == x[j])  choose {x[1]} weight 0.5 }
sampler gibbs { update x[K] where K ~ ends }
sampler sweep { update x[i] for i in G.nodes }
sampler apart { update x independently }
"""
MIXED = """
domain sky = labels("sun", "rain", "snow")
model mixed {
  var a : range(3)
  var s : spin
  var w : sky
  var b : bit
  param u[k in range(3), v in sky]
  param c
  param r : positive
  param p[v in sky] : simplex
  factor u[a, w] * s
  factor c * a * b * (w == "rain")
  factor r * s * (b - 0.4)
  factor 2 * log(p[w])
  require not (a == 2 and w == "snow" and b == 0)
}
mask one  = subsets(size = 1)
mask two  = subsets(size = 2)
mask rest given w, s { choose {w, a} weight 1 + (w == "rain")  choose {s, b} weight 2 + s  choose {a, s, b} weight 0.5 }
sampler cells  { update a  update s  update w  update b }
sampler pairs  { update K where K ~ two }
sampler adapts { update K where K ~ rest }
"""
MACHINE = """
model machine {
  var v[i in range(3)] : bit
  latent z[j in range(2)] : range(3)
  var s : spin
  param a[i in range(3)]
  param W[i in range(3)]
  param q[k in range(3)] : simplex
  factor a[i] * v[i] for i in range(3)
  factor W[i] * (2 * v[i] - 1) * (z[0] - 0.5) for i in range(3)
  factor 0.9 * s * (z[0] == z[1]) + 0.8 * v[0] * (z[1] == 2) - 0.7 * v[1] * (z[1] == 0)
  z[1] ~ categorical(q)
}
mask one   = subsets(size = 1)
mask all   = everything()
mask looks given v, s { choose {v[0], s} weight 1 + v[0]  choose {v[i]} for i in range(3) weight if s == 1 then 0.5 else 1.5 }
sampler gibbs { update v[i] for i in range(3)  update s  update z }
sampler blocked { update {v[0], z[0]}  update K where K ~ one  update z[1] }
"""
IRON = {"h": np.array([0.3, -0.2, 0.1, 0.4]), "J": np.array([0.5, -0.3, 0.2, 0.4, -0.6, 0.3])}

ising = case("ising", ISING, biased=("naive", "stuck"))
potts = case("potts", POTTS, biased=("apart",))
mixed = case("mixed", MIXED, seed=10)
machine = case("machine", MACHINE, seed=2)
OWN = [ising, potts, mixed, machine]
EVERY = [*CASES, *OWN]


def crossed(kind: str, without: tuple[str, ...] = ()) -> list[tuple[Case, str]]:
    """Every case with each of its `masks` or `samplers`, for `parametrize`."""
    checked = [(c, getattr(c.program.checked, kind)) for c in EVERY if c.name not in without]
    return [(c, name) for c, found in checked for name, m in found.items() if m.model == c.model.name]


@cache
def moved(c: Case) -> Moved:
    """The case's log weights along lines of its parameters."""
    return Moved(c.oracle, c.params)


def close(found: object, expected: object, tolerance: float = 1e-9) -> None:
    """Equal to within the tolerance, relative to the largest finite entry, or to 1 where that is smaller; inf and nan in the same places."""
    expected = np.asarray(expected, dtype=float)
    finite = expected[np.isfinite(expected)]
    scale = max(1.0, float(np.abs(finite).max(initial=0.0)))
    np.testing.assert_allclose(np.asarray(found, dtype=float), expected, rtol=0, atol=tolerance * scale)


def least(matrix: np.ndarray) -> float:
    """The least eigenvalue of a symmetric matrix."""
    return float(np.linalg.eigvalsh((matrix + matrix.T) / 2).min())
