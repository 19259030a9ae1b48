"""In: a network, rows, options. Out: a trained network, checkpoints, a log. Never: likelihoods."""

from __future__ import annotations

from . import _network_fit as network_fit
from ._network_fit import NetworkFit as NetworkFit
from ._network_fit import network_fit_from_file as network_fit_from_file
from ._probe import Calibration as Calibration
from ._probe import ProbeFit as ProbeFit
from ._probe import prefix_features as prefix_features
from ._probe import train_probe as train_probe
