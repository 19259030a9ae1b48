"""Models of two values whose couplings are few numbers: their sweeps are packed."""

from __future__ import annotations

from cases import case

TWO = case(
    "two",
    """
model two {
  var x[i in range(7)] : bit
  param h
  param J
  param K
  factor h * x[i] for i in range(7)
  factor J * x[i] * x[i + 1] for i in range(7) if i < 6
  factor K * (x[i] == x[i + 2]) for i in range(7) if i < 5
}
sampler sweep { update x[i] for i in range(7) }
sampler twice { repeat 2 { update x[i] for i in range(7) } }
""",
    seed=6,
)
SIGNS = case(
    "signs",
    """
model signs {
  var x[i in range(6)] : spin
  param h
  param J
  factor h * x[i] for i in range(6) if i < 3
  factor -h * x[i] for i in range(6) if i > 2
  factor J * x[i] * x[i + 1] for i in range(6) if i < 3
  factor -J * x[i] * x[i + 1] for i in range(6) if i > 2 and i < 5
  factor -J * x[0] * x[5]
}
sampler sweep { update x[i] for i in range(6) }
""",
    seed=9,
)
