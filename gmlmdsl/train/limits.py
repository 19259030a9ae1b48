"""The limits and the tuning of trained networks."""

from __future__ import annotations

# Training.
# Steps between transfers of losses, after which the bar and the log are updated.
STEPS_PER_NOTE = 20
ROWS_AT_ONCE = 1 << 12  # rows for which the numbers of hidden cells are computed at once

# Checkpoints.
KEPT_CHECKPOINTS = 2  # number of latest checkpoints that stay on disk
MOST_MANIFEST = 1 << 26  # bytes of a manifest

# Probes.
HELD_OUT = 0.2  # share of the prefixes that are held out
BINS = 10  # equally wide bins of the calibration curve
LEAST_SCALE = 1e-6  # scale of a feature that hardly varies
MOST_STEPS = 100  # Newton steps
SHORTEST = 1e-6  # shortest part of a Newton step
FARTHEST = 30.0  # Logits are clipped here: a probability of 0 or 1 has no curvature.
TOLERANCE = 1e-9  # tolerance of the largest gradient entry, per prefix
