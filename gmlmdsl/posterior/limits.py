"""The limits and the tuning of posteriors of parameters."""

from __future__ import annotations

# Work.
# Factor evaluations or table entries of `Fit.posterior`, and of `Model.posterior`: about an hour.
MOST_OPERATIONS, MOST_WALK_OPERATIONS = 1e12, 1e13
# Number of draws that stands for all larger ones: it is representable as a float, and far above any
# limit.
MOST_DRAWS = 10**200
STRIDE = 100  # steps of a compiled call, so that one program serves all numbers of draws

# NUTS.
# Typical number of gradients of a draw, for a nearly normal posterior scaled by its curvature, and
# for one whose scale the warm-up adapts.
SCALED_STEPS, ADAPTED_STEPS = 8, 64
# Share of the largest standard deviation below which the curvature does not count as positive.
LEAST_DEVIATION = 1e-9
# Standard deviation of a coordinate of a bounded parameter, above which the estimate is at the
# edge: the logarithm of a positive parameter then varies by more than e^3.
WIDEST = 3.0
STARTS = 32  # random starts of a chain, of which the first with a finite density is taken

# Calibration.
# Share of the largest variance below which a direction has no estimate and no calibration.
LEAST_VARIANCE = 1e-12

# Walks between models.
LEAPS = 6  # leapfrog steps of a trajectory, whose length is nearly a quarter of a period
GRADIENT = 3  # cost of an evaluation with its gradient, in evaluations
ACCEPTED = 0.8  # target share of accepted trajectories, to which the step is adapted
FADES = 0.6  # exponent of the number of a step in the decay of the adaptation
# Relative variation of the length of a step, so that no trajectory returns to its start.
JITTER = 0.3
LEAST_ACCEPTED = 0.3  # share of accepted trajectories below which a warning is given
MOST_CLUSTERS = 64  # clusters of a prior of stochastic blocks
LIKELY = 0.5  # probability above which an entry belongs to the median probability model
