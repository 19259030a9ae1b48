"""A modelling language for generative masked models, compiled to JAX.

A program declares discrete models, masks and samplers:

    program = gm.load("ising.gmlm", L=8)
    fit = program.model().fit(x, mask="pairs")
    draws = fit.sample("gibbs")

Importing the package loads neither JAX nor NumPy. Each name is loaded at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import report as report
    from . import textbook as examples
    from . import theory as theory
    from ._compile import BoundProgram as BoundProgram
    from ._compile import load as load
    from ._compile import parse as parse
    from ._diagnostics import Diagnostic as Diagnostic
    from ._diagnostics import GmlmError as GmlmError
    from ._diagnostics import GmlmWarning as GmlmWarning
    from ._load_fit import load_fit as load_fit
    from .assess import compare as compare
    from .assess import wald_test as wald_test
    from .data import mock_inputs as mock_inputs
    from .decode import attention_dependency as attention_dependency
    from .decode import drop_repeats as drop_repeats
    from .decode import stutter_rate as stutter_rate
    from .evaluate import ApproximationGap as ApproximationGap
    from .evaluate import BeliefPropagation as BeliefPropagation
    from .evaluate import Chains as Chains
    from .evaluate import MaxProduct as MaxProduct
    from .evaluate import MeanField as MeanField
    from .evaluate import SimulatedAnnealing as SimulatedAnnealing
    from .exchange import ImportedModel as ImportedModel
    from .exchange import read_model as read_model
    from .fit import MonteCarloEM as MonteCarloEM
    from .fit import PersistentContrastiveDivergence as PersistentContrastiveDivergence
    from .fit import Training as Training
    from .guided import Oracle as Oracle
    from .guided import PretrainedOracle as PretrainedOracle
    from .guided import prefix_values as prefix_values
    from .model import ConditionalModel as ConditionalModel
    from .model import Fit as Fit
    from .model import JointModel as JointModel
    from .model import Model as Model
    from .posterior import BetaBernoulli as BetaBernoulli
    from .posterior import StochasticBlock as StochasticBlock
    from .posterior import co_clustering as co_clustering
    from .posterior import inclusion as inclusion
    from .read import Alignment as Alignment
    from .read import Table as Table
    from .read import read_alignment as read_alignment
    from .read import read_table as read_table
    from .read import sequence_weights as sequence_weights
    from .report import Report as Report
    from .sample import SamplingWarning as SamplingWarning
    from .sample import annealed as annealed
    from .train import NetworkFit as NetworkFit
    from .train import ProbeFit as ProbeFit
    from .train import prefix_features as prefix_features
    from .train import train_probe as train_probe
    from .translation import Translator as Translator
    from .translation import Vocabulary as Vocabulary
    from .translation import load_translator as load_translator

_NAMES = {
    "._compile": "BoundProgram load parse",
    "._diagnostics": "Diagnostic GmlmError GmlmWarning",
    "._load_fit": "load_fit",
    ".assess": "compare wald_test",
    ".data": "mock_inputs",
    ".decode": "attention_dependency drop_repeats stutter_rate",
    ".evaluate": "ApproximationGap BeliefPropagation Chains MaxProduct MeanField SimulatedAnnealing",
    ".exchange": "ImportedModel read_model",
    ".fit": "MonteCarloEM PersistentContrastiveDivergence Training",
    ".guided": "Oracle PretrainedOracle prefix_values",
    ".model": "ConditionalModel Fit JointModel Model",
    ".posterior": "BetaBernoulli StochasticBlock co_clustering inclusion",
    ".read": "Alignment Table read_alignment read_table sequence_weights",
    ".report": "Report",
    ".sample": "SamplingWarning annealed",
    ".train": "NetworkFit ProbeFit prefix_features train_probe",
    ".translation": "Translator Vocabulary load_translator",
}
_WHERE = {name: room for room, names in _NAMES.items() for name in names.split()}
# Public names of packages, and the folders that hold them.
_ROOMS = {"examples": "textbook", "report": "report", "theory": "theory"}
__all__ = [
    "Alignment",
    "ApproximationGap",
    "BeliefPropagation",
    "BetaBernoulli",
    "BoundProgram",
    "Chains",
    "ConditionalModel",
    "Diagnostic",
    "Fit",
    "GmlmError",
    "GmlmWarning",
    "ImportedModel",
    "JointModel",
    "MaxProduct",
    "MeanField",
    "Model",
    "MonteCarloEM",
    "NetworkFit",
    "Oracle",
    "PersistentContrastiveDivergence",
    "PretrainedOracle",
    "ProbeFit",
    "Report",
    "SamplingWarning",
    "SimulatedAnnealing",
    "StochasticBlock",
    "Table",
    "Training",
    "Translator",
    "Vocabulary",
    "annealed",
    "attention_dependency",
    "co_clustering",
    "compare",
    "drop_repeats",
    "examples",
    "inclusion",
    "load",
    "load_fit",
    "load_translator",
    "mock_inputs",
    "parse",
    "prefix_features",
    "prefix_values",
    "read_alignment",
    "read_model",
    "read_table",
    "report",
    "sequence_weights",
    "stutter_rate",
    "theory",
    "train_probe",
    "wald_test",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("gmlmdsl")
    if name not in _WHERE and name not in _ROOMS:
        raise AttributeError(f"module 'gmlmdsl' has no attribute {name!r}")
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f".{_ROOMS[name]}", __name__)
    return getattr(import_module(_WHERE[name], __name__), name)


def load_ipython_extension(shell: Any) -> None:
    """Add the cell magic `%%gmlm` to a notebook; `%load_ext gmlmdsl` calls this."""
    from ._notebook import register

    register(shell)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
