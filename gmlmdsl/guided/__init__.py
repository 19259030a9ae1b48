"""Guided samplers: strings drawn symbol by symbol under a verifier or value.

In: a model, parameters, a guided sampler, prompts. Out: strings, and the numbers of calls that they
took. Never: distributions or derivations of its own.
"""

from ._beams import Beams
from ._build import Setting, beams_of, game_of, named_of, no_symbols
from ._draws import GuidedOptions, draw_guided, prefix_values, refuse_guided, refuse_options, verify_open
from ._judges import View
from ._loop import Named, verify_laws, verify_values
from ._methods import TIE, Backtracking, BlockBest, Plain, Rejection, TokenwiseByValue, TokenwiseRejection
from ._oracle import Oracle, PretrainedOracle, is_host, refuse_given, verify_law
from ._run import AbstractMethod, Game
from ._walk import Walk
