"""Scores of blocks, for methods that evaluate one conditional."""

from ._arrays import observed_value as observed_value
from ._conditional import logsumexp as logsumexp
from ._conditional import rest_possible as rest_possible
