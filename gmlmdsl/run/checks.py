"""Re-exports of what checks and compares fits."""

from ._compare import Comparison as Comparison
from ._compare import compare as compare
from ._information import InformationCriterion as InformationCriterion
from ._predictive import PredictiveCheck as PredictiveCheck
from ._predictive import Statistics as Statistics
from ._score import CrossValidation as CrossValidation
from ._score import Score as Score
