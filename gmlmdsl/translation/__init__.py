"""Translators.

In: two texts whose lines correspond, a program with a conditional model. Out: a trained translator
in one file, translations, scores, times. Never: a size, a mask or a sampler of its own, since the
program defines these.
"""

from ._bundle import Bundle as Bundle
from ._bundle import load_translator as load_translator
from ._bundle import read_bundle as read_bundle
from ._bundle import write_bundle as write_bundle
from ._bundle import write_translator as write_translator
from ._claims import Claim as Claim
from ._claims import claims as claims
from ._corpus import Counts as Counts
from ._corpus import Texts as Texts
from ._corpus import clean as clean
from ._corpus import lines_in as lines_in
from ._corpus import read_lines as read_lines
from ._corpus import read_pairs as read_pairs
from ._dependency import Dependency as Dependency
from ._dependency import dependency as dependency
from ._distill import Distilled as Distilled
from ._distill import distill as distill
from ._evaluate import Evaluation as Evaluation
from ._evaluate import evaluate as evaluate
from ._evaluate import score_columns as score_columns
from ._job import TrainJob as TrainJob
from ._job import train_translator as train_translator
from ._kept_stages import file_hash as file_hash
from ._latency import Latency as Latency
from ._latency import latency as latency
from ._metrics import Score as Score
from ._metrics import Scores as Scores
from ._metrics import score as score
from ._metrics import verify_learnt as verify_learnt
from ._peer import peers as peers
from ._phrases import encoded_phrases as encoded_phrases
from ._pipeline import Pipeline as Pipeline
from ._pipeline_stages import PipelineOptions as PipelineOptions
from ._rerank import RERANKED as RERANKED
from ._rerank import Reranked as Reranked
from ._rerank import candidate_count as candidate_count
from ._segments import lines_cut as lines_cut
from ._shortlist import Shortlist as Shortlist
from ._train_pairs import Recipe as Recipe
from ._translation import Translation as Translation
from ._translator import TranslationOptions as TranslationOptions
from ._translator import Translator as Translator
from ._vocabulary import Vocabulary as Vocabulary
