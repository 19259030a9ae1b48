"""In: a model, parameters, a guided sampler, prompts. Out: strings, and what they took. Never: distributions or derivations of its own."""

from ._build import Setting as Setting
from ._build import game_of as game_of
from ._build import named_of as named_of
from ._draws import GuidedOptions as GuidedOptions
from ._draws import draw_guided as draw_guided
from ._draws import refuse_options as refuse_options
from ._draws import verify_open as verify_open
from ._judges import View as View
from ._loop import Named as Named
from ._loop import verify_laws as verify_laws
from ._loop import verify_values as verify_values
from ._methods import TIE as TIE
from ._methods import Backtracking as Backtracking
from ._methods import BlockBest as BlockBest
from ._methods import Plain as Plain
from ._methods import Rejection as Rejection
from ._methods import TokenwiseByValue as TokenwiseByValue
from ._methods import TokenwiseRejection as TokenwiseRejection
from ._oracle import Oracle as Oracle
from ._oracle import is_host as is_host
from ._oracle import refuse_given as refuse_given
from ._oracle import verify_law as verify_law
from ._pretrained import PretrainedOracle as PretrainedOracle
from ._run import Game as Game
from ._values import prefix_values as prefix_values
from ._walk import Walk as Walk
