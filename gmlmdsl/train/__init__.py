"""In: a network, rows, options. Out: a trained network, checkpoints, a log. Never: likelihoods."""

from __future__ import annotations

from . import _network_fit as network_fit
from ._network_fit import NetworkFit, network_fit_from_file
from ._probe import Calibration, ProbeFit, prefix_features, train_probe
